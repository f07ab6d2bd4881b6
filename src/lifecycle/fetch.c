#include "lifecycle/fetch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "containers/linear_hash.h"
#include "engine/memory.h"
#include "keyspace/pages.h"

enum {
    READS_MAX = 64,                 /* at a time */
    WINDOWS = 3,                    /* one that is filled, one that is loaded, one that waits for that */
    MEMORY_SHARE = 16,              /* the records of a window may need 1/16 of maxmemory */
    MEMORY_WAIT_US = 50000,         /* that a window waits for memory; then the rest of it is not fetched */
};

struct element {
    size_t key;                     /* its index */
    uint64_t hash;                  /* by the tables' seed */
};

struct window {
    uint64_t first;                 /* number of its first command */
    struct tier_wanted *wanted;
    size_t count, capacity;
    struct buffer keys;
    struct element *elements;
    size_t element_count, element_capacity;
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

/* The page that an element is in. False: what its key has now is no table in pages. */
static bool find_page(struct fetch *fetch, const struct window *window, const struct element *element, uint64_t *hash, char name[PAGE_NAME_SIZE])
{
    const struct tier_wanted *wanted = &window->wanted[element->key];
    struct partitions *all = fetch->engine->partitions;
    struct partition *partition = &all->partitions[partition_index(all, wanted->hash)];
    struct keyspace *keyspace;
    uint32_t handle = 0;
    bool has_page = false;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, wanted->db);
    if (keyspace != NULL)
        handle = keyspace_find(keyspace, wanted->hash, bytes_of(window->keys.data + wanted->key_at, wanted->key_size));
    if (handle != 0 && entry_is_paged(keyspace_entry(keyspace, handle))) {
        struct value value = entry_value(keyspace_entry(keyspace, handle));

        has_page = paged_has_table(&value);
        if (has_page)
            *hash = pages_name(paged_of(&value)->id, (uint32_t)linear_hash_index(paged_of(&value)->root.pages, element->hash), name);
    }
    partition_unlock(partition);
    return has_page;
}

/* The roots are there. */
static void load_pages(struct fetch *fetch, struct window *window, uint64_t bytes_max)
{
    struct tier_wanted *wanted = mem_alloc(window->element_count * sizeof(*wanted));
    struct buffer names = { 0 };
    size_t count = 0;

    for (size_t i = 0; i < window->element_count; i++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash;

        if (!find_page(fetch, window, &window->elements[i], &hash, name))
            continue;
        wanted[count++] = (struct tier_wanted){ hash, (uint32_t)names.size, sizeof(name),
            partitions_page_space(fetch->engine->partitions, window->wanted[window->elements[i].key].db) };
        buffer_append(&names, name, sizeof(name));
    }
    if (count > 0)
        tier_bulk_load(fetch->bulk, wanted, count, names.data, bytes_max, goes_on, fetch);
    mem_free(wanted);
    buffer_release(&names);
}

static void load_window(struct fetch *fetch, struct window *window)
{
    int64_t limit = config_number(fetch->engine->config, CONFIG_MAXMEMORY);
    uint64_t bytes_max = limit > 0 ? (uint64_t)limit / MEMORY_SHARE : UINT64_MAX;

    tier_bulk_load(fetch->bulk, window->wanted, window->count, window->keys.data, bytes_max, goes_on, fetch);
    if (window->element_count > 0)
        load_pages(fetch, window, bytes_max);
    window->count = window->element_count = 0;
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
        mem_free(fetch->windows[i].elements);
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

void fetch_add_element(struct fetch *fetch, struct bytes element)
{
    struct window *window = filled_window(fetch);

    if (window->count == 0 || window->count == FETCH_KEYS_MAX || window->element_count == FETCH_KEYS_MAX)
        return;                     /* the key may have been left out, too */
    if (window->element_count == window->element_capacity) {
        window->element_capacity = window->element_capacity == 0 ? 256 : window->element_capacity * 2;
        window->elements = mem_realloc(window->elements, window->element_capacity * sizeof(*window->elements));
    }
    window->elements[window->element_count++] = (struct element){ window->count - 1, hash_bytes(&fetch->engine->partitions->seed.sip, element) };
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
