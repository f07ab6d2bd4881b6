/* HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES] */
#include "commands/collection_scan.h"
#include "commands/handlers.h"
#include "value/hash.h"

static void add_pair(void *context, struct bytes field, struct bytes value)
{
    struct collection_scan *scan = context;

    if (!scan_options_match(&scan->options, field))
        return;
    reply_bulk(&scan->elements, field);
    scan->count++;
    if (scan->options.no_values)
        return;
    reply_bulk(&scan->elements, value);
    scan->count++;
}

static bool scan_step(struct collection_scan *scan, uint64_t *cursor)
{
    return hash_scan(&scan->key.value, cursor, scan_options_count(&scan->options), add_pair, scan);
}

void hscan_command(struct call *call)
{
    collection_scan(call, VALUE_HASH, scan_step);
}
