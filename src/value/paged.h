/* Paged value: a table whose pairs are in pages (containers/paged_table.h), so that a part of it can be cold. What the key has is the root. Sorted sets have a tree beside
 * it (value/paged_zset.h), and so have hashes with fields that expire (value/paged_times.h); lists (value/paged_list.h) and streams (value/stream_nodes.h) have a tree only; strings are rows of blocks (value/paged_string.h).
 *
 * Only what is in an entry is paged: a value becomes it when it is stored under a key, and is made whole when it leaves its database. A copy gets pages of its own (paged_copy_root).
 *
 * Who opens the entry attaches the pages (keyspace/pages.h) before anything is done with the elements, for as long as the partition is locked. What a call needs of them
 * is made resident before it runs, by its row (struct command_need). Where that depends on chance or on a cursor, functions here say that pages are missing and which, and
 * the call runs again with them (key_ask). All others read a page that is not resident at once, which is for what was not foreseen.
 *
 * All functions are about values with VALUE_PAGED.
 */
#ifndef KELVIN_VALUE_PAGED_H
#define KELVIN_VALUE_PAGED_H

#include "base/random.h"
#include "containers/dict.h"
#include "containers/page_tree.h"
#include "containers/paged_table.h"
#include "value/value.h"

enum { PAGED_WANTED_MAX = 1 << 16 };        /* beyond that, all are wanted; of a value without a table, or with a tree, no others are noted */

/* Pages of the tree of a sorted set, a list or a stream (value/paged_tree.h) have the numbers from here on; those of tables are below. */
enum { PAGED_TREE_FIRST = 1 << 30 };        /* and 2^30 at most */

/* The pages of the tree, for a container that numbers them from 0 on. */
struct paged_tree_pager {
    struct pager pager;             /* first */
    struct pager *all;
};

enum { PAGED_FOUND = 2 };           /* where an element is that moves, and where it goes to */

/* For as long as its pages are attached. */
struct paged_access {
    struct paged_table table;       /* its root is the value's */
    struct paged_tree_pager tree_pager;
    struct page_tree_root *tree;    /* of a sorted set, a list or a stream; else NULL */
    struct page_tree_limits tree_limits;
    struct page_tree_path found[PAGED_FOUND];       /* leaves that were found last, if their count is not 0: so until leaves come or go. Of a list only the first one is used */
    uint32_t found_next;            /* the one that is forgotten next */
    uint32_t ahead;                 /* a page of the tree that is used next if the calls go on like this one, and one more; 0: none */
    bool asks;                      /* what is missing is only noted */
    bool wants_all;
    uint32_t wanted_count, wanted_capacity;
    uint32_t *wanted;               /* pages that were missing; one may be there twice. The caller that is to load them frees it: paged_forget_wanted */
};

struct paged_value {
    struct paged_root root;         /* without a table: only the size; of a string also its pages */
    uint64_t id;                    /* of the pages' names */
    struct paged_access *access;
};

/* How large a value will be. */
struct paged_plan {
    uint64_t count, size;           /* elements, and their bytes */
};
/* Takes the elements of a table, which stays as it is, into pages that are created: as many as the plan needs. `access` as it is to be attached, but its root is set here. */
struct paged_value *paged_create(const struct dict *dict, const struct paged_plan *plan, uint64_t id, struct paged_access *access);
/* Only a root; its pages exist. */
struct paged_value *paged_of_root(const struct paged_root *root, uint64_t id);
/* The root of a copy, whose pages are yet to be made: the same numbers, with the same bytes. */
struct value paged_copy_root(const struct value *value, uint64_t id);
/* Which pages a value has. All zero: it is not in pages. */
struct paged_extent {
    uint64_t id;
    uint32_t table_pages;           /* numbers from 0 on */
    uint32_t tree_pages;            /* numbers from PAGED_TREE_FIRST on */
};
struct paged_extent paged_extent_of(const struct value *value);
/* The sizes of pages. */
struct paged_limits paged_limits_of(const struct value_limits *limits);

static inline struct paged_value *paged_of(const struct value *value)
{
    return value->object;
}

/* The two parts of a value: a struct paged_ordered (value/paged_tree.h) if it has a tree. A string has neither. */
static inline bool paged_has_table(const struct value *value)
{
    return value->type != VALUE_LIST && value->type != VALUE_STREAM && value->type != VALUE_STRING;
}

/* Whether a walk over all elements goes through the tree. */
static inline bool paged_walks_tree(const struct value *value)
{
    return value->type == VALUE_ZSET || value->type == VALUE_LIST || value->type == VALUE_STREAM;
}

static inline bool paged_has_tree(const struct value *value)
{
    return paged_walks_tree(value) || (value->type == VALUE_HASH && value->encoding == HASH_PAGED_TIMES);
}

/* Elements of a table. */
static inline size_t paged_count(const struct value *value)
{
    return paged_of(value)->root.count;
}

/* Pages in all. */
static inline uint64_t paged_pages(const struct paged_extent *extent)
{
    return (uint64_t)extent->table_pages + extent->tree_pages;
}

/* As the functions of dict. */
bool paged_find(const struct value *value, struct bytes key, struct bytes *found);
bool paged_put(const struct value *value, struct bytes key, struct bytes data);
bool paged_remove(const struct value *value, struct bytes key);
/* `iterator`: all zero at first. */
bool paged_next(const struct value *value, struct paged_iterator *iterator, struct bytes *key, struct bytes *data);

/* False: pages are wanted. The generator has moved on nevertheless, so that several draws want their pages together; it has to be as it was when the call runs again. */
bool paged_random(const struct value *value, struct random *random, struct bytes *key, struct bytes *data);
bool paged_scan(const struct value *value, uint64_t *cursor, size_t count, dict_found *found, void *context);
void paged_forget_wanted(struct paged_access *access);
/* The pages that are to be loaded so that the value can grow and shrink (paged_table_ahead); no client has to wait for them. */
enum { PAGED_AHEAD_MAX = PAGE_ROW_AHEAD_MAX + 2 };
uint32_t paged_ahead(const struct paged_access *access, uint32_t numbers[PAGED_AHEAD_MAX]);
/* False: too many splits of the table's pages were put off, and a call that adds `count` elements better waits for that many of those pages, which are wanted. */
bool paged_has_room(const struct value *value, size_t count);
/* The same for a tree that gets that many leaves. */
bool paged_has_leaves(const struct value *value, uint64_t leaves);
/* Makes what was attached that of this value. */
void paged_attach(const struct value *value, struct paged_access *access);
/* Notes that the page is wanted. */
void paged_want(const struct value *value, uint32_t page);
/* Whether the page is resident; else it is wanted. */
bool paged_has_page(const struct value *value, uint32_t page);
/* For what walks over all elements, in a table. False: not all pages are resident, and all are wanted. */
bool paged_has_all(const struct value *value);

/* The elements in a table of their own. */
struct dict *paged_to_dict(const struct value *value);

#endif
