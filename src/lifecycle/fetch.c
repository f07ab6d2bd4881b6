#include "lifecycle/fetch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/memory.h"

enum {
    READS_MAX = 64,                 /* at a time */
    WINDOWS = 3,                    /* one that is filled, one that is loaded, one that waits for that */
    MEMORY_SHARE = 16,              /* the records of a window may need 1/16 of maxmemory */
    MEMORY_WAIT_US = 50000,         /* that a window waits for memory; then the rest of it is not fetched */
};

struct window {
    uint64_t first;                 /* number of its first command */
    struct tier_wanted *wanted;
    size_t count, capacity;
    struct buffer keys;
};

struct fetch {
    struct engine *engine;
    struct tier_bulk *bulk;         /* of who loads a window */
    struct thread thread;
    struct window windows[WINDOWS]; /* window n is windows[n % WINDOWS]; the thread's while loaded <= n < handed_over */
    uint64_t awaited;               /* the replay's: windows before this one are known to be loaded */
    struct mutex lock;              /* leaf; for the rest */
    struct condition changed;
    uint64_t handed_over, loaded;   /* windows */
    _Atomic bool stopping;
};

static struct window *window_at(struct fetch *fetch, uint64_t number)
{
    return &fetch->windows[number % WINDOWS];
}

/* --- loading: by the thread, or by the replay's while the thread waits --- */

/* Demotion may make room in a moment. */
static bool has_memory(const struct fetch *fetch)
{
    struct engine *engine = fetch->engine;
    int64_t until_us = clock_mono_us() + MEMORY_WAIT_US;

    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);
        enum memory_state state = memory_state(engine);

        if (state != MEMORY_COMES || fetch->stopping || clock_mono_us() >= until_us)
            return state == MEMORY_ENOUGH;
        memory_await_change(engine, version);
    }
}

static bool goes_on(void *context, uint64_t size)
{
    const struct fetch *fetch = context;

    (void)size;
    return !fetch->stopping && has_memory(fetch);
}

static void load_window(struct fetch *fetch, struct window *window)
{
    int64_t limit = config_number(fetch->engine->config, CONFIG_MAXMEMORY);

    tier_bulk_load(fetch->bulk, window->wanted, window->count, window->keys.data, limit > 0 ? (uint64_t)limit / MEMORY_SHARE : UINT64_MAX, goes_on, fetch);
    window->count = 0;
    window->keys.size = 0;
}

static void fetch_main(void *context)
{
    struct fetch *fetch = context;

    mutex_lock(&fetch->lock);
    for (;;) {
        while (fetch->loaded == fetch->handed_over && !fetch->stopping)
            condition_wait(&fetch->changed, &fetch->lock);
        if (fetch->stopping)
            break;
        mutex_unlock(&fetch->lock);
        load_window(fetch, window_at(fetch, fetch->loaded));
        mutex_lock(&fetch->lock);
        fetch->loaded++;
        condition_broadcast(&fetch->changed);
    }
    mutex_unlock(&fetch->lock);
    tier_bulk_destroy(fetch->bulk);         /* here: memory is counted by thread */
}

/* --- the replay --- */

struct fetch *fetch_create(struct engine *engine)
{
    struct fetch *fetch = mem_zalloc(sizeof(*fetch));

    fetch->engine = engine;
    fetch->bulk = tier_bulk_create(engine->tier, READS_MAX);
    mutex_init(&fetch->lock);
    condition_init(&fetch->changed);
    if (thread_start(&fetch->thread, "kelvin-fetch", engine->meter, fetch_main, fetch) == 0)
        return fetch;
    tier_bulk_destroy(fetch->bulk);
    condition_release(&fetch->changed);
    mutex_release(&fetch->lock);
    mem_free(fetch);
    return NULL;
}

void fetch_destroy(struct fetch *fetch)
{
    if (fetch == NULL)
        return;
    mutex_lock(&fetch->lock);
    fetch->stopping = true;
    condition_broadcast(&fetch->changed);
    mutex_unlock(&fetch->lock);
    thread_join(&fetch->thread);
    for (int i = 0; i < WINDOWS; i++) {
        mem_free(fetch->windows[i].wanted);
        buffer_release(&fetch->windows[i].keys);
    }
    condition_release(&fetch->changed);
    mutex_release(&fetch->lock);
    mem_free(fetch);
}

/* `handed_over` is changed by the replay's thread only, which may read it without the lock. */
static struct window *filled_window(struct fetch *fetch)
{
    return window_at(fetch, fetch->handed_over);
}

void fetch_add(struct fetch *fetch, uint64_t number, struct bytes key, uint64_t hash, int db)
{
    struct window *window = filled_window(fetch);

    if (window->count == FETCH_KEYS_MAX || key.size > FETCH_KEY_SIZE_MAX)
        return;
    if (window->count == window->capacity) {
        window->capacity = window->capacity == 0 ? 256 : window->capacity * 2;
        window->wanted = mem_realloc(window->wanted, window->capacity * sizeof(*window->wanted));
    }
    if (window->count == 0)
        window->first = number;
    window->wanted[window->count++] = (struct tier_wanted){ hash, (uint32_t)window->keys.size, (uint32_t)key.size, db };
    buffer_append_bytes(&window->keys, key);
}

static void hand_over(struct fetch *fetch)
{
    mutex_lock(&fetch->lock);
    fetch->handed_over++;
    condition_broadcast(&fetch->changed);
    while (fetch->handed_over - fetch->loaded >= WINDOWS)
        condition_wait(&fetch->changed, &fetch->lock);
    if (fetch->awaited < fetch->loaded)
        fetch->awaited = fetch->loaded;     /* the next window to be filled takes the place of one of these */
    mutex_unlock(&fetch->lock);
}

/* Waits until all windows that begin with this command, or before it, are loaded. */
static void await(struct fetch *fetch, uint64_t number)
{
    uint64_t until = fetch->awaited;

    while (until < fetch->handed_over && window_at(fetch, until)->first <= number)
        until++;
    if (until == fetch->awaited)
        return;
    mutex_lock(&fetch->lock);
    while (fetch->loaded < until)
        condition_wait(&fetch->changed, &fetch->lock);
    mutex_unlock(&fetch->lock);
    fetch->awaited = until;
}

void fetch_submit(struct fetch *fetch, uint64_t number)
{
    struct window *window = filled_window(fetch);

    await(fetch, number);
    if (window->count > 0 && window->first <= number)
        load_window(fetch, window);                /* all others are loaded: the thread has nothing to do */
    else if (window->count > 0)
        hand_over(fetch);
}
