#include "engine/event.h"

#include "engine/blocking.h"
#include "engine/publish.h"
#include "engine/watch.h"

/* The channel "__keyspace@0__:key" gets the event, and "__keyevent@0__:event" the key, in this order. */
static void collect_message(struct engine *engine, struct publish_batch *batch, const char *kind, int db, struct bytes name, struct bytes text)
{
    struct buffer channel = { 0 };

    buffer_append_format(&channel, "__%s@%d__:", kind, db);
    buffer_append_bytes(&channel, name);
    publish_collect(engine, batch, TOPIC_CHANNEL, buffer_bytes(&channel), text);
    buffer_release(&channel);
}

static void collect_record(struct engine *engine, struct publish_batch *batch, const struct event_record *record)
{
    struct bytes name = bytes_of_string(event_kind(record->event)->name);

    if (record->targets & EVENT_TO_KEYSPACE)
        collect_message(engine, batch, "keyspace", record->db, record->key, name);
    if (record->targets & EVENT_TO_KEYEVENT)
        collect_message(engine, batch, "keyevent", record->db, name, record->key);
}

void event_collect(struct engine *engine, struct event_list *list, struct publish_batch *batch)
{
    struct event_record record;

    if (publish_has_listeners(engine)) {
        for (size_t at = 0; event_list_next(list, &at, &record);)
            collect_record(engine, batch, &record);
    }
    event_list_clear(list);
}

void event_publish(struct engine *engine, const struct worker *here, struct event_list *list, uint64_t lsn)
{
    struct publish_batch batch = { 0 };

    tracking_send(engine, here, &list->changed, lsn);
    event_collect(engine, list, &batch);
    publish_send(engine, here, &batch, lsn);
}

/* An event that no call has caused. */
static void publish_at_once(struct engine *engine, const struct event_record *record, uint64_t lsn)
{
    struct event_list list = { 0 };

    event_list_add(&list, record);
    event_publish(engine, NULL, &list, lsn);
    event_list_release(&list);
}

/* Changes that no call has caused are in the log already. */
static void note_changed(struct engine *engine, struct call *call, const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct tracking_list list = { 0 };

    if (call != NULL) {
        tracking_note(engine, &call->requester->worker->events.changed, call->requester->id, keyspace, hash, key);
        return;
    }
    tracking_note(engine, &list, 0, keyspace, hash, key);
    tracking_send(engine, NULL, &list, keyspace->partition->last_lsn);
}

static void notify(struct engine *engine, struct call *call, const struct keyspace *keyspace, struct bytes key, enum event event)
{
    uint32_t classes = atomic_load_explicit(&engine->interest.classes, memory_order_relaxed);
    struct event_record record = { event, classes & (EVENT_TO_KEYSPACE | EVENT_TO_KEYEVENT), keyspace->db, key };

    if (!(classes & event_kind(event)->class) || !publish_has_listeners(engine))
        return;
    if (call != NULL)
        event_list_add(&call->requester->worker->events, &record);
    else
        publish_at_once(engine, &record, keyspace->partition->last_lsn);
}

void event_tell(struct engine *engine, struct call *call, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    uint8_t effects = event_kind(event)->effects;
    bool is_applied = false;

    ASSERT_LOCKED(keyspace->partition);
    if (call != NULL && call->client->caller & TRAIT_SILENT)
        return;                 /* what the replay of the log does while the server runs is one change (lifecycle/reload.h) */
    if (call != NULL && call->client->caller & TRAIT_OFF_WORKER) {
        is_applied = true;
        call = NULL;
    }
    if (effects & EVENT_FEEDS && is_applied)
        blocking_note_applied(engine, keyspace, hash, key);
    else if (effects & EVENT_FEEDS && call != NULL)
        blocking_note(engine, call, keyspace, hash, key);
    else if (effects & EVENT_FEEDS)
        blocking_note_removed(engine, keyspace, hash, key);
    if (effects & EVENT_TOUCHES && event != EVENT_HEXPIRED)        /* a watch knows when a field expires (watch.c); when it is removed depends on calls that read */
        watch_touch(engine, keyspace, hash, key);
    if (effects & EVENT_TOUCHES && tracking_is_on(engine))
        note_changed(engine, call, keyspace, hash, key);
    notify(engine, call, keyspace, key, event);
}

void event_note_deleted(struct engine *engine, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    event_note(engine, NULL, keyspace, hash, key, event);
    if (event == EVENT_HEXPIRED)
        event_note(engine, NULL, keyspace, hash, key, EVENT_DEL);
}

/* Blocked clients and caches: watches need to know more. */
static void note_database(struct call *call, int db)
{
    struct tracking_list list = { 0 };

    if (call->client->caller & TRAIT_OFF_WORKER) {
        if (tracking_is_on(call->engine))
            tracking_note_all(call->engine, &list);
        tracking_send(call->engine, NULL, &list, call->client->lsn.needed);
        return;
    }
    blocking_note_database(call, db);
    if (tracking_is_on(call->engine))
        tracking_note_all(call->engine, &call->requester->worker->events.changed);
}

void event_note_flush(struct call *call, int db)
{
    if (call->client->caller & TRAIT_SILENT)
        return;
    watch_touch_database(call->engine, db);
    note_database(call, db);
}

void event_note_swap(struct call *call, int a, int b)
{
    if (call->client->caller & TRAIT_SILENT)
        return;
    if (a != b)
        watch_touch_swapped(call->engine, a, b);
    note_database(call, a);
    if (a != b)
        note_database(call, b);
}

void event_configure(struct engine *engine)
{
    uint32_t classes = (uint32_t)config_number(engine->config, CONFIG_NOTIFY_KEYSPACE_EVENTS);
    bool was_on = engine->interest.classes != 0, is_on = classes & (EVENT_TO_KEYSPACE | EVENT_TO_KEYEVENT);

    engine->interest.classes = is_on ? classes : 0;
    if (is_on != was_on)
        interest_count(&engine->interest, is_on ? 1 : -1);
}
