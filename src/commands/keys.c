/* DEL, UNLINK, EXISTS, TYPE, TOUCH. */
#include "commands/keys.h"

#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"

enum key_removal keys_removal(const struct call *call, enum config_id lazy)
{
    return config_number(call->engine->config, lazy) != 0 ? KEY_REMOVE_LAZILY : KEY_REMOVE_NOW;
}

/* All arguments are keys. */
static void remove_keys(struct call *call, enum key_removal removal)
{
    int64_t count = 0;
    struct key key;

    for (int arg = 1; arg < call->arg_count; arg++) {
        if (!key_open(call, arg, KEY_FOR_LOOKING, &key))
            continue;
        key_remove(&key, removal, EVENT_DEL);
        count++;
    }
    reply_integer(call->reply, count);
}

void del_command(struct call *call)
{
    remove_keys(call, keys_removal(call, CONFIG_LAZYFREE_LAZY_USER_DEL));
}

void unlink_command(struct call *call)
{
    remove_keys(call, KEY_REMOVE_LAZILY);
}

/* Adds no heat. But a cold key becomes hot: GET often follows. */
void exists_command(struct call *call)
{
    int64_t count = 0;
    struct key key;

    for (int arg = 1; arg < call->arg_count; arg++) {
        count += key_open(call, arg, KEY_FOR_LOOKING, &key);
        key_count_read(&key);
    }
    reply_integer(call->reply, count);
}

void touch_command(struct call *call)
{
    int64_t count = 0;
    struct key key;

    for (int arg = 1; arg < call->arg_count; arg++)
        count += key_open(call, arg, KEY_FOR_READING, &key);
    reply_integer(call->reply, count);
}

void type_command(struct call *call)
{
    struct key key;

    if (key_open(call, 1, KEY_FOR_READING, &key))
        reply_status(call->reply, bytes_of_string(value_type_name(key.value.type)));
    else
        reply_status(call->reply, BYTES("none"));
}
