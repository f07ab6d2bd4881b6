#include "commands/collection_scan.h"

void collection_scan(struct call *call, enum value_type type, bool (*step)(struct collection_scan *scan, uint64_t *cursor))
{
    enum scan_own_option own = type == VALUE_HASH ? SCAN_WITH_NOVALUES : SCAN_WITH_NONE;
    struct collection_scan scan = { .count = 0 };
    uint64_t cursor = 0;
    bool is_done = true;

    if (!scan_options_cursor(call, 2, &scan.options) || !key_open_as(call, 1, KEY_FOR_READING, type, &scan.key))
        return;
    /* Redis does not check the options if the key is missing. */
    if (scan.key.present && !scan_options_parse(call, 3, own, &scan.options))
        return;
    reply_init(&scan.elements, call->reply->protocol);
    if (scan.key.present) {
        cursor = scan.options.cursor;
        is_done = step(&scan, &cursor);
    }
    if (is_done)
        scan_options_reply(call, cursor, scan.count, &scan.elements.out);
    else
        key_ask(&scan.key);
    reply_release(&scan.elements);
}
