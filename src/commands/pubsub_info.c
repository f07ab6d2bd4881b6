/* PUBSUB: which channels and patterns have subscribers. */
#include "commands/handlers.h"
#include "engine/engine.h"
#include "pubsub/hub.h"

static void add_name(void *context, struct bytes name)
{
    reply_bulk(context, name);
}

/* A pattern may follow. */
static void list(struct call *call, enum topic_kind kind)
{
    struct reply_later later;

    if (call->arg_count > 3) {
        reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.128s'. Try PUBSUB HELP.",
            call_format(call, "%.*s", (int)call->args[1].size, call->args[1].data).data);
        return;
    }
    later = reply_later_begin(call->reply);
    reply_later_array(call->reply, later,
        hub_list(call->engine->hub, kind, call->arg_count == 3 ? &call->args[2] : NULL, add_name, call->reply));
}

static void count(struct call *call, enum topic_kind kind)
{
    reply_array(call->reply, (size_t)(call->arg_count - 2) * 2);
    for (int i = 2; i < call->arg_count; i++) {
        reply_bulk(call->reply, call->args[i]);
        reply_integer(call->reply, (int64_t)hub_subscribers(call->engine->hub, kind, call->args[i]));
    }
}

void pubsub_channels_command(struct call *call) { list(call, TOPIC_CHANNEL); }
void pubsub_shardchannels_command(struct call *call) { list(call, TOPIC_SHARD); }
void pubsub_numsub_command(struct call *call) { count(call, TOPIC_CHANNEL); }
void pubsub_shardnumsub_command(struct call *call) { count(call, TOPIC_SHARD); }

void pubsub_numpat_command(struct call *call)
{
    reply_integer(call->reply, (int64_t)hub_topics(call->engine->hub, TOPIC_PATTERN));
}

void pubsub_help_command(struct call *call)
{
    static const char *const lines[] = {
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Returns the channels that have subscribers, all or those that match.",
        "NUMPAT",
        "    Returns the number of different patterns that have subscribers.",
        "NUMSUB [<channel> ...]",
        "    Returns the number of subscribers of each of these channels. Those of patterns do not count.",
        "SHARDCHANNELS [<pattern>]",
        "    Returns the shard channels that have subscribers, all or those that match.",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Returns the number of subscribers of each of these shard channels.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
