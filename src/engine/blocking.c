#include "engine/blocking.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "engine/blocking_private.h"

struct blocking_stats blocking_stats(const struct engine *engine)
{
    const struct blocking *blocking = engine->blocking;

    return (struct blocking_stats){ .waiters = blocking->waiting_count, .keys = blocking->key_count,
        .keys_woken_by_removal = blocking->removal_key_count, .with_deadline = blocking->with_deadline };
}

struct blocking *blocking_create(struct engine *engine)
{
    struct blocking *blocking = mem_zalloc(sizeof(*blocking));

    blocking->engine = engine;
    mutex_init(&blocking->serving);
    mutex_init(&blocking->registry);
    claim_init(&blocking->held, NULL, NULL);
    blocking->tables = mem_zalloc(engine->partitions->count * sizeof(*blocking->tables));
    return blocking;
}

/* Destroys the state of blocking. Only replies whose clients are gone are left. */
void blocking_destroy(struct blocking *blocking)
{
    if (blocking == NULL)
        return;
    while (blocking->waiters != NULL) {
        CHECK(blocking->waiters->is_done);
        waiter_free(blocking->waiters);
    }
    blocking_drop_notes(&blocking->later);
    mem_free(blocking->tables);
    mutex_release(&blocking->serving);
    mutex_release(&blocking->registry);
    mem_free(blocking);
}
