#include "engine/delete_key.h"

#include "base/clock.h"
#include "engine/event.h"
#include "engine/lazy_free.h"
#include "engine/watch.h"
#include "keyspace/pages.h"

void delete_key(struct engine *engine, struct keyspace *keyspace, uint64_t hash, uint32_t handle, enum event event)
{
    struct keyspace_watch *watch = &engine->partitions->watch;
    struct entry *entry = keyspace_entry(keyspace, handle);
    enum record_state record = entry_record(entry);
    struct buffer name = { 0 };
    struct bytes words[2];
    struct value value;

    ASSERT_LOCKED(keyspace->partition);
    partition_changing(keyspace, hash, handle);
    record = entry_record(entry);
    buffer_append_bytes(&name, entry_key(entry));
    words[0] = BYTES("DEL");
    words[1] = buffer_bytes(&name);
    if (history_is_on(&engine->history))
        partition_note_change(keyspace->partition, history_append(&engine->history, keyspace->db, words, 2));
    keyspace_remove(keyspace, hash, handle, &value);
    if (watch->removed != NULL)
        watch->removed(watch->context, keyspace, hash, words[1], record);
    pages_drop_of(keyspace, &value, clock_wall_ms());
    event_note_deleted(engine, keyspace, hash, words[1], event);
    if (value_is_object(&value))
        lazy_free_value(engine->lazy_free, value);
    buffer_release(&name);
    atomic_fetch_add_explicit(&engine->dirty, 1, memory_order_relaxed);
}
