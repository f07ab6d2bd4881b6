#include "commands/zset_store.h"

#include "call/key.h"
#include "value/zset.h"

void zset_store(struct call *call, int arg, struct value zset, enum event event)
{
    size_t count = zset_count(&zset);
    struct key key;

    if (count > 0) {
        key_open(call, arg, KEY_FOR_OVERWRITING, &key);
        key_replace(&key, zset);
        key.expire_ms = -1;
        key_changed(&key, event);
    } else {
        value_free(&zset);
        /* Events and log depend on whether there was a key to remove, so it is looked up, cold or not. */
        if (key_open_in(call, call->db, arg, KEY_FOR_WRITING, &key))
            key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
        if (call->failed)
            return;
    }
    reply_integer(call->reply, (int64_t)count);
}
