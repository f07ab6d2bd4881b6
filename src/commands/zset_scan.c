/* ZSCAN key cursor [MATCH pattern] [COUNT count] */
#include "commands/collection_scan.h"
#include "commands/handlers.h"
#include "value/zset.h"

/* Redis replies a score from a listpack with the shortest digits, but one from a table with 17 digits. */
static void add_element(void *context, struct bytes member, double score)
{
    struct collection_scan *scan = context;
    char digits[TEXT_DOUBLE_SIZE];

    if (!scan_options_match(&scan->options, member))
        return;
    reply_bulk(&scan->elements, member);
    if (scan->key.value.encoding == ZSET_LISTPACK)
        reply_bulk(&scan->elements, bytes_of(digits, text_of_double(score, digits)));
    else
        reply_bulk_format(&scan->elements, "%.17g", score);
    scan->count += 2;
}

static bool scan_step(struct collection_scan *scan, uint64_t *cursor)
{
    return zset_scan(&scan->key.value, cursor, scan_options_count(&scan->options), add_element, scan);
}

void zscan_command(struct call *call)
{
    collection_scan(call, VALUE_ZSET, scan_step);
}
