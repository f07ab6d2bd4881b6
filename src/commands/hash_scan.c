/* HSCAN key cursor [MATCH pattern] [COUNT count] */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/scan_options.h"
#include "value/hash.h"

/* The cursor precedes the elements in the reply but is known after them, so they are collected first. */
struct step {
    const struct scan_options *options;
    struct reply elements;
    size_t count;
};

static void add_pair(void *context, struct bytes field, struct bytes value)
{
    struct step *step = context;

    if (!scan_options_match(step->options, field))
        return;
    reply_bulk(&step->elements, field);
    reply_bulk(&step->elements, value);
    step->count += 2;
}

void hscan_command(struct call *call)
{
    struct scan_options options;
    struct step step = { .options = &options };
    uint64_t cursor = 0;
    struct key key;

    if (!scan_options_cursor(call, 2, &options) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, &key))
        return;
    /* Redis does not check the options if the key is missing. */
    if (key.present && !scan_options_parse(call, 3, SCAN_WITHOUT_TYPE, &options))
        return;
    reply_init(&step.elements, call->reply->protocol);
    if (key.present)
        cursor = hash_scan(&key.value, options.cursor, scan_options_count(&options), add_pair, &step);
    scan_options_reply(call, cursor, step.count, &step.elements.out);
    reply_release(&step.elements);
}
