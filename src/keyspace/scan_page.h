/* Scan page: keys found by one step of a walk over a database, hot and cold.
 *
 * Owner: the thread that asked for it. Cursors are 48 bits of hash (hash >> 16), so they fit every client's integers; 0
 * begins and ends a walk. All keys with the same cursor value are in one page.
 */
#ifndef KELVIN_KEYSPACE_SCAN_PAGE_H
#define KELVIN_KEYSPACE_SCAN_PAGE_H

#include "base/buffer.h"
#include "base/status.h"
#include "value/value.h"

struct scan_key {
    size_t offset;                  /* of the key in the page's text: see scan_page_key */
    uint32_t size;
    enum value_type type;
    int64_t expire_ms;              /* -1: never. May be in the past: the caller decides */
};

struct scan_page {
    struct buffer text;             /* the keys' bytes */
    struct scan_key *keys;
    size_t count, capacity;
    uint64_t cursor;                /* where to continue; 0: this was the last page */
    uint64_t lsn;                   /* the largest last_lsn of the partitions that were read: the log must cover it
                                     * before the page is sent */
    enum status status;             /* not STATUS_OK: the store could not be read */
};

void scan_page_add(struct scan_page *page, struct bytes key, enum value_type type, int64_t expire_ms);
/* The key at `index`; valid until the next scan_page_add. */
struct bytes scan_page_key(const struct scan_page *page, size_t index);
void scan_page_release(struct scan_page *page);

#endif
