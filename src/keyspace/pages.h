/* Pages: the entries of a page space, as containers see them (containers/pager.h). A page is a string under a name that no client sees (keyspace/page_name.h).
 *
 * Table, heap, records, loads, uses, demotion, checkpoints and collection treat it as they treat keys; scans, counts, eviction and expiry of the database don't
 * see it. A page that is not resident has a record: what is left out of a root was dropped.
 *
 *   value of an entry = page | filler | size of filler and of this byte u8            (a multiple of 64 bytes)
 *
 * so a page that grows by a little stays where it is. Up to 4096 bytes are inline, more are a blob.
 *
 * Owner: the lock of the partition, for as long as a struct pages is used.
 */
#ifndef KELVIN_KEYSPACE_PAGES_H
#define KELVIN_KEYSPACE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "containers/pager.h"
#include "keyspace/keyspace.h"
#include "keyspace/partition.h"

/* The pages of one value. */
struct pages {
    struct pager pager;             /* first */
    struct keyspace *space;
    uint64_t id;                    /* the value's */
    int64_t now_ms;
};

/* An ID that no value has had in any page space, for one whose key has this hash. 0: there are none any more. Any thread. */
uint64_t pages_new_id(struct partitions *all, uint64_t key_hash);
/* The partition that has the pages: that of the key, unless the value was renamed. */
uint32_t pages_partition(const struct partitions *all, uint64_t id);

/* Nothing is to be released. `space` is the one that belongs to the key's database, in the partition of the ID. */
void pages_init(struct pages *pages, struct keyspace *space, uint64_t id, int64_t now_ms) REQUIRES(space->partition->lock) ASSERTS_HELD(pages->space->partition->lock);

/* Drops the pages from `first` to `first + count - 1`, which all exist, resident or not: nothing is read. */
void pages_drop(struct pages *pages, uint32_t first, uint32_t count) REQUIRES(pages->space->partition->lock);

/* Whether the value of a record has the form of a page; any other would be damage. */
bool pages_is_page(const struct value *value);

/* The hash of a page's name, which is written into `name`. */
uint64_t pages_name(uint64_t id, uint32_t number, char name[PAGE_NAME_SIZE]);

#endif
