#include "engine/lazy_free.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "base/waiting.h"

enum { EFFORT_MAX_NOW = 64 };

struct load_off {
    struct load_off *next;
    struct value value;
    struct keyspace *keyspace;
};

struct lazy_free {
    struct thread thread;
    struct waiting *waiting;
    struct mutex lock;           /* leaf */
    struct condition filled;
    struct load_off *first, *last;
    bool stopping;
    _Atomic uint64_t pending, done;
};

static void lazy_main(void *context)
{
    struct lazy_free *lazy = context;

    mutex_lock(&lazy->lock);
    for (;;) {
        struct load_off *item;

        while (lazy->first == NULL && !lazy->stopping)
            condition_wait(&lazy->filled, &lazy->lock);
        item = lazy->first;
        if (item == NULL)
            break;
        lazy->first = item->next;
        if (lazy->first == NULL)
            lazy->last = NULL;
        mutex_unlock(&lazy->lock);
        if (item->keyspace != NULL)
            keyspace_destroy(item->keyspace);
        else
            value_free(&item->value);
        mem_free(item);
        lazy->pending--;
        lazy->done++;
        if (lazy->waiting != NULL)
            waiting_bump(lazy->waiting);
        mutex_lock(&lazy->lock);
    }
    mutex_unlock(&lazy->lock);
}

struct lazy_free *lazy_free_create(void)
{
    struct lazy_free *lazy = mem_zalloc(sizeof(*lazy));

    mutex_init(&lazy->lock);
    condition_init(&lazy->filled);
    return lazy;
}

int lazy_free_start(struct lazy_free *lazy, struct meter *meter, struct waiting *waiting)
{
    lazy->waiting = waiting;
    return thread_start(&lazy->thread, "kelvin-free", meter, lazy_main, lazy);
}

void lazy_free_destroy(struct lazy_free *lazy)
{
    if (lazy == NULL)
        return;
    mutex_lock(&lazy->lock);
    lazy->stopping = true;
    condition_signal(&lazy->filled);
    mutex_unlock(&lazy->lock);
    if (lazy->thread.has_started)
        thread_join(&lazy->thread);
    else
        lazy_main(lazy);            /* the server's start has failed */
    mutex_release(&lazy->lock);
    condition_release(&lazy->filled);
    mem_free(lazy);
}

static void hand_over(struct lazy_free *lazy, struct value value, struct keyspace *keyspace)
{
    struct load_off *item = mem_alloc(sizeof(*item));

    *item = (struct load_off){ NULL, value, keyspace };
    lazy->pending++;
    mutex_lock(&lazy->lock);
    if (lazy->last != NULL)
        lazy->last->next = item;
    else
        lazy->first = item;
    lazy->last = item;
    condition_signal(&lazy->filled);
    mutex_unlock(&lazy->lock);
}

void lazy_free_value(struct lazy_free *lazy, struct value value)
{
    if (value_free_effort(&value) <= EFFORT_MAX_NOW)
        value_free(&value);
    else
        hand_over(lazy, value, NULL);
}

void lazy_free_keyspace(struct lazy_free *lazy, struct keyspace *keyspace)
{
    if (keyspace != NULL)
        hand_over(lazy, (struct value){ 0 }, keyspace);
}

uint64_t lazy_free_pending(struct lazy_free *lazy) { return lazy != NULL ? lazy->pending : 0; }
uint64_t lazy_free_done(struct lazy_free *lazy) { return lazy->done; }
