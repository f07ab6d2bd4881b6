/* SCAN, KEYS, RANDOMKEY and DBSIZE: commands about all keys of a database. They may have to wait for the store; see
 * engine/dataset.h. */
#include "call/call.h"
#include "commands/handlers.h"
#include "commands/scan_options.h"
#include "engine/dataset.h"

enum { CURSOR_BITS = 48 };

static bool page_is_whole(struct call *call, const struct scan_page *page)
{
    if (page->status == STATUS_OK)
        return true;
    reply_error(call, ERR_TIER_READ);
    return false;
}

void keys_command(struct call *call)
{
    struct bytes pattern = call->args[1];
    struct scan_page *page;

    if (!dataset_keys(call, bytes_equal(pattern, BYTES("*")) ? NULL : &pattern, &page) || !page_is_whole(call, page))
        return;
    reply_array(call->reply, page->count);
    for (size_t i = 0; i < page->count; i++)
        reply_bulk(call->reply, scan_page_key(page, i));
}

static bool is_wanted(const struct scan_options *options, const struct scan_page *page, size_t index)
{
    const struct scan_key *key = &page->keys[index];

    return (!options->has_type || bytes_is(options->type, value_type_name((uint8_t)key->type))) &&
           scan_options_match(options, scan_page_key(page, index));
}

static void reply_page(struct call *call, const struct scan_options *options, const struct scan_page *page)
{
    struct reply_later later;
    size_t count = 0;

    reply_array(call->reply, 2);
    reply_bulk_integer(call->reply, (int64_t)page->cursor);
    later = reply_later_begin(call->reply);
    for (size_t i = 0; i < page->count; i++) {
        if (!is_wanted(options, page, i))
            continue;
        reply_bulk(call->reply, scan_page_key(page, i));
        count++;
    }
    reply_later_array(call->reply, later, count);
}

void scan_command(struct call *call)
{
    static const struct scan_page end;      /* of an iteration that began after the last cursor */
    struct scan_options options;
    struct scan_page *page;

    if (!scan_options_cursor(call, 1, &options) || !scan_options_parse(call, 2, SCAN_WITH_TYPE, &options))
        return;
    if (options.cursor >> CURSOR_BITS != 0) {
        reply_page(call, &options, &end);
        return;
    }
    if (dataset_scan(call, options.cursor, scan_options_count(&options), &page) && page_is_whole(call, page))
        reply_page(call, &options, page);
}

void randomkey_command(struct call *call)
{
    struct bytes key;
    bool found;

    if (!dataset_random(call, &found, &key))
        return;
    if (found)
        reply_bulk(call->reply, key);
    else
        reply_null(call->reply);
}

void dbsize_command(struct call *call)
{
    uint64_t count;

    if (dataset_count(call, call->db, &count))
        reply_integer(call->reply, (int64_t)count);
}
