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
#include "value/paged_string.h"

/* Pages that were found last: a call comes back to most of those that it looks at. Handles are valid, as an entry is moved only where it is changed here, or without this lock. */
enum { PAGES_RECENT = 8 };
struct pages_recent {
    uint64_t hash;
    uint32_t number, handle;        /* handle 0: none */
};

/* The pages of one value. Nothing else changes them, nor removes one, while this is used. */
struct pages {
    struct pager pager;             /* first */
    struct keyspace *space;
    uint64_t id;                    /* the value's */
    int64_t now_ms;
    struct pages_recent recent[PAGES_RECENT];
};

/* An ID that no value has had in any page space, for one whose key has this hash. 0: there are none any more. Any thread. */
uint64_t pages_new_id(struct partitions *all, uint64_t key_hash);
/* The partition that has the pages: that of the key, unless the value was renamed. */
uint32_t pages_partition(const struct partitions *all, uint64_t id);

/* Nothing is to be released. `space` is the one that belongs to the key's database, in the partition of the ID. */
void pages_init(struct pages *pages, struct keyspace *space, uint64_t id, int64_t now_ms) REQUIRES(space->partition->lock) ASSERTS_HELD(pages->space->partition->lock);

/* Drops the pages from `first` to `first + count - 1`, which all exist, resident or not: nothing is read. */
void pages_drop(struct pages *pages, uint32_t first, uint32_t count) REQUIRES(pages->space->partition->lock);

/* --- values in pages (value/paged.h) --- */

/* A value's pages, as its functions reach them. Its keyspace is a database's. */
struct pages_access {
    struct pages pages;
    struct paged_access paged;
};

/* Returns what was attached to a value. */
static inline struct pages_access *pages_access_of(const struct value *value)
{
    return (struct pages_access *)((char *)paged_of(value)->access - offsetof(struct pages_access, paged));
}

/* Attaches its pages to the value, which is that of an entry of the keyspace: until the locks are released, or `access` ends. The partition that has the pages is locked, too. */
void pages_attach(struct pages_access *access, struct keyspace *keyspace, const struct value *value, const struct value_limits *limits, int64_t now_ms)
    REQUIRES(keyspace->partition->lock);
/* For a value that is about to be an entry's of the keyspace: if it is a table of limits->page_threshold bytes or more, its elements are taken into pages, and it is another value
 * then, attached. `*table` is what it was, which is the caller's to free. False: it stays as it is. */
bool pages_take(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, struct value *value, struct value *table)
    REQUIRES(keyspace->partition->lock);
/* The same, with pages for all that will be added to it; NULL: nothing is known of that. */
bool pages_take_planned(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, const struct paged_plan *plan,
    struct value *value, struct value *table) REQUIRES(keyspace->partition->lock);
/* Whether it, which is not in pages, would be taken. */
bool pages_are_for(const struct value *value, const struct value_limits *limits);
static inline bool pages_takes(const struct value *value, const struct value_limits *limits)
{
    return UNLIKELY(limits->page_threshold > 0) && !value_is_paged(value) && pages_are_for(value, limits);
}
/* Whether a string that has, or will have, that many bytes is better in blocks when it is used in parts. */
static inline bool pages_takes_string(uint64_t length, const struct value_limits *limits)
{
    return UNLIKELY(limits->page_threshold > 0) && length >= limits->page_threshold && length >= paged_string_block(limits);
}
/* A string in blocks of these bytes, which `consumed` may have (paged_string_create), and zeros after them, up to `length`. As pages_take. */
bool pages_take_string(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, struct bytes bytes,
    struct blob *consumed, uint64_t length, struct value *value) REQUIRES(keyspace->partition->lock);
/* A copy of a value in pages, whose pages are attached, for an entry of the keyspace: page by page. PAGES_LACKED: some are missing, which are wanted; PAGES_NONE: there are no more IDs, so it is to be
 * copied as a whole. */
enum pages_copied { PAGES_COPIED, PAGES_LACKED, PAGES_NONE };
enum pages_copied pages_copy(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, const struct value *from, struct value *copy)
    REQUIRES(keyspace->partition->lock);
/* Whether a key of this keyspace, which is a database's, may have a value in pages: then it is loaded before it is overwritten or deleted, as the pages have to be dropped. */
static inline bool pages_may_be_in(const struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);
static inline bool pages_may_be_in(const struct keyspace *keyspace)
{
    const struct partitions *all = keyspace->partition->all;

    return partition_keyspace_if(keyspace->partition, partitions_page_space(all, keyspace->db)) != NULL || all->has_renamed;
}
/* The value, whose entry is removed or gets another one, is gone for good: its pages are dropped. Nothing happens with one that is not paged. Its pages need not be attached, nor the
 * partition be locked that has them: if that is another one, the writer drops them. */
void pages_drop_of(struct keyspace *keyspace, const struct value *value, int64_t now_ms) REQUIRES(keyspace->partition->lock);
/* Makes all pages of the value that a walk over its elements needs resident, in place. False: one can't be read. */
bool pages_bring_all(struct pages_access *access, const struct value *value) REQUIRES(access->pages.space->partition->lock);
/* The page space of the keyspace's database in its partition. */
struct keyspace *pages_space_of(struct keyspace *keyspace) REQUIRES(keyspace->partition->lock);
/* The one that has the value's pages, whose partition is locked. */
struct keyspace *pages_home_of(struct keyspace *keyspace, uint64_t id);
/* Whether the value has the ID of a key in another slot, so that its pages may be in another partition, now or when there are more of them: before the first one is stored
 * partitions.has_renamed is set. */
static inline bool pages_were_renamed(uint64_t key_hash, const struct value *value)
{
    return paged_of(value)->id >> PAGE_ID_COUNT_BITS != key_hash >> SLOT_SHIFT;
}
/* Whether that is in another partition than the key. */
static inline bool pages_are_elsewhere(const struct keyspace *keyspace, const struct value *value)
{
    return pages_partition(keyspace->partition->all, paged_of(value)->id) != keyspace->partition->index;
}
/* Whether a page is resident. */
bool pages_have(struct keyspace *space, uint64_t id, uint32_t number) REQUIRES(space->partition->lock);

/* Whether the value of a record has the form of a page; any other would be damage. */
bool pages_is_page(const struct value *value);
/* Returns the bytes of the page in such a value: they are the value's. */
struct bytes pages_bytes_of(const struct value *value);

/* The hash of a page's name, which is written into `name`. */
uint64_t pages_name(uint64_t id, uint32_t number, char name[PAGE_NAME_SIZE]);

#endif
