/* SSCAN key cursor [MATCH pattern] [COUNT count] */
#include "commands/collection_scan.h"
#include "commands/handlers.h"
#include "value/set.h"

static void add_member(void *context, struct bytes member)
{
    struct collection_scan *scan = context;

    if (!scan_options_match(&scan->options, member))
        return;
    reply_bulk(&scan->elements, member);
    scan->count++;
}

static bool scan_step(struct collection_scan *scan, uint64_t *cursor)
{
    return set_scan(&scan->key.value, cursor, scan_options_count(&scan->options), add_member, scan);
}

void sscan_command(struct call *call)
{
    collection_scan(call, VALUE_SET, scan_step);
}
