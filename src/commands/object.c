/* OBJECT: encoding, references, idle time and heat of a key. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "config/config.h"
#include "engine/engine.h"

/* Opens argument 2; replies null if the key is missing. Unlike other reads, that is no event. */
static bool open_object(struct call *call, struct key *key)
{
    bool present = key_open(call, 2, KEY_FOR_LOOKING, key);

    turn_count(call->turn, present ? STAT_KEYSPACE_HITS : STAT_KEYSPACE_MISSES, 1);
    if (present)
        return true;
    reply_null(call->reply);
    return false;
}

void object_encoding_command(struct call *call)
{
    struct key key;

    if (open_object(call, &key))
        reply_bulk_string(call->reply, value_encoding_name(&key.value));
}

/* Values are never shared. */
void object_refcount_command(struct call *call)
{
    struct key key;

    if (open_object(call, &key))
        reply_integer(call->reply, 1);
}

static bool policy_is_lfu(const struct call *call)
{
    int64_t policy = config_number(call->engine->config, CONFIG_MAXMEMORY_POLICY);

    return policy == CONFIG_POLICY_ALLKEYS_LFU || policy == CONFIG_POLICY_VOLATILE_LFU;
}

void object_idletime_command(struct call *call)
{
    struct key key;

    if (!open_object(call, &key))
        return;
    if (policy_is_lfu(call)) {
        reply_errorf(call, "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching "
                           "between policies at runtime LRU and LFU data will take some time to adjust.");
        return;
    }
    reply_integer(call->reply, key_idle_s(&key));
}

/* Redis replies an error unless the policy is an LFU one. Kelvin always measures heat. */
void object_freq_command(struct call *call)
{
    struct key key;

    if (open_object(call, &key))
        reply_integer(call->reply, key_heat(&key));
}

void object_help_command(struct call *call)
{
    static const char *const lines[] = {
        "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ENCODING <key>",
        "    Returns how the value is stored: int, embstr, raw, listpack, hashtable ...",
        "FREQ <key>",
        "    Returns the key's heat, from 0 to 255: a logarithmic counter of accesses that decays with time.",
        "IDLETIME <key>",
        "    Returns the seconds since the last access of the key, in whole minutes.",
        "REFCOUNT <key>",
        "    Returns the number of references to the value: always 1.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
