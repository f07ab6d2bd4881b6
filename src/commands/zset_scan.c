/* ZSCAN key cursor [MATCH pattern] [COUNT count] */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/scan_options.h"
#include "value/zset.h"

/* The cursor precedes the elements in the reply but is known after them, so they are collected first. */
struct step {
    const struct scan_options *options;
    bool is_listpack;
    struct reply elements;
    size_t count;
};

/* Redis replies a score from a listpack with the shortest digits, but one from a table with 17 digits. */
static void add_element(void *context, struct bytes member, double score)
{
    struct step *step = context;
    char digits[TEXT_DOUBLE_SIZE];

    if (!scan_options_match(step->options, member))
        return;
    reply_bulk(&step->elements, member);
    if (step->is_listpack)
        reply_bulk(&step->elements, bytes_of(digits, text_of_double(score, digits)));
    else
        reply_bulk_format(&step->elements, "%.17g", score);
    step->count += 2;
}

void zscan_command(struct call *call)
{
    struct scan_options options;
    struct step step = { .options = &options };
    uint64_t cursor = 0;
    struct key key;

    if (!scan_options_cursor(call, 2, &options) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    /* Redis does not check the options if the key is missing. */
    if (key.present && !scan_options_parse(call, 3, SCAN_WITHOUT_TYPE, &options))
        return;
    reply_init(&step.elements, call->reply->protocol);
    if (key.present) {
        step.is_listpack = key.value.encoding == ZSET_LISTPACK;
        cursor = zset_scan(&key.value, options.cursor, scan_options_count(&options), add_element, &step);
    }
    scan_options_reply(call, cursor, step.count, &step.elements.out);
    reply_release(&step.elements);
}
