/* SSCAN key cursor [MATCH pattern] [COUNT count] */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/scan_options.h"
#include "value/set.h"

/* The cursor precedes the members in the reply but is known after them, so they are collected first. */
struct step {
    const struct scan_options *options;
    struct reply members;
    size_t count;
};

static void add_member(void *context, struct bytes member)
{
    struct step *step = context;

    if (!scan_options_match(step->options, member))
        return;
    reply_bulk(&step->members, member);
    step->count++;
}

void sscan_command(struct call *call)
{
    struct scan_options options;
    struct step step = { .options = &options };
    uint64_t cursor = 0;
    struct key key;

    if (!scan_options_cursor(call, 2, &options) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_SET, &key))
        return;
    /* Redis does not check the options if the key is missing. */
    if (key.present && !scan_options_parse(call, 3, SCAN_WITHOUT_TYPE, &options))
        return;
    reply_init(&step.members, call->reply->protocol);
    if (key.present)
        cursor = set_scan(&key.value, options.cursor, scan_options_count(&options), add_member, &step);
    scan_options_reply(call, cursor, step.count, &step.members.out);
    reply_release(&step.members);
}
