/* Page tree: pages in an order, counted: a B+ tree whose leaves are pages with contents that the user knows, and whose inner nodes are pages that need not be resident
 * either (containers/pager.h). For what has an order and many elements: lists, by position; streams, by ID; sorted sets, by score and member.
 *
 * A leaf has a number of elements, and a separator: a byte string that is greater than all elements of the leaves before it, and not greater than those of its own.
 * Separators are compared as by memcmp, so the user encodes numbers with the highest byte first; what is ordered by position only has empty ones. Leaves may have equal
 * ones, where elements do not differ in PAGE_TREE_SEPARATOR_MAX bytes: the last of them is found then, and the user looks into those before it, too. That of a node's first
 * child is not looked at: what its parent says of the node counts. So when a first child goes, the next one gets its place in the order, too.
 *
 *   node  = child...            (of at most as many bytes as the limits say; the top one is in the root)
 *   child = page u32 | elements below it u40 | size of the separator u16 | separator
 *
 * Numbers of pages have no gaps, so the root says which pages exist: one that is not used any more is used again, or goes when those after it have gone. Those that the root has no room for are in trunks:
 *
 *   trunk = the next trunk, as in the root, u32 | number u32 of each page, PAGE_TREE_FREE_MAX of them
 *
 * Functions that meet a node that is missing say so and have changed nothing. A leaf need not be resident: only its user reads it. Nodes are joined and taken away as they
 * get empty; a neighbour that is missing is not waited for, so a node may be emptier than it should, but never quite empty.
 *
 * Owner: the owner of the value.
 */
#ifndef KELVIN_CONTAINERS_PAGE_TREE_H
#define KELVIN_CONTAINERS_PAGE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "containers/pager.h"

enum {
    PAGE_TREE_PAGES_MAX = 1 << 30,
    PAGE_TREE_HEIGHT_MAX = 40,          /* a level more needs a full top each time, whose children were full, but for what was removed since */
    PAGE_TREE_FREE_MAX = 32,
    PAGE_TREE_SEPARATOR_MAX = 128,      /* bytes: seven children fit into a node, so that halves have some, whatever the order of insertion */
};
#define PAGE_TREE_COUNT_MAX ((1ull << 40) - 1)

/* All that is known without pages. */
struct page_tree_root {
    uint64_t count;                     /* elements */
    uint32_t leaves;
    uint32_t next;                      /* pages have the numbers below it, all of them */
    uint8_t height;                     /* levels of nodes below the top one: 0: its children are leaves */
    uint8_t free_count;
    uint32_t free[PAGE_TREE_FREE_MAX];  /* pages that are not used */
    uint32_t trunk;                     /* one more than the number of a page that has the numbers of others that are not used; 0: there are no more */
    struct buffer top;                  /* owned */
};
void page_tree_root_release(struct page_tree_root *root);       /* all zero is a tree without leaves */

/* In bytes. Each has room for three children, and a node for a top that has become one child too large. */
struct page_tree_limits {
    size_t node_size_max, top_size_max;
    size_t child_size;                  /* PAGE_TREE_CHILD_SIZE of the separators if all have the same size, but perhaps that of a node's first child: then its last one is found at once. 0: they have not */
};
#define PAGE_TREE_CHILD_SIZE(separator_size) (11 + (size_t)(separator_size))
/* A node is read child by child, so larger ones take longer: with 4096 bytes the time is twice that with 1024, for one level less. */
#define PAGE_TREE_LIMITS_DEFAULT ((struct page_tree_limits){ .node_size_max = 1024, .top_size_max = 700 })

/* Made for each use. */
struct page_tree {
    struct page_tree_root *root;
    struct pager *pager;
    struct page_tree_limits limits;
};

/* Where a leaf is. Valid until the tree changes. */
struct page_tree_step {
    uint32_t node;                      /* page; not of the top */
    uint32_t at;                        /* where the child is in it */
};
struct page_tree_path {
    struct page_tree_step steps[PAGE_TREE_HEIGHT_MAX + 1];
    uint32_t leaf;                      /* page */
    uint64_t rank;                      /* elements before the leaf's */
    uint64_t count;                     /* of the leaf */
    uint32_t missing;                   /* after PAGE_TREE_MISSING: the node */
};

enum page_tree_answer { PAGE_TREE_NO, PAGE_TREE_YES, PAGE_TREE_MISSING };

/* The leaf with the element of that rank. PAGE_TREE_NO: there are not that many. */
enum page_tree_answer page_tree_seek_rank(const struct page_tree *tree, uint64_t rank, struct page_tree_path *path);
/* The leaf to which an element belongs that sorts as the key: the last one whose separator is not above it, or the next one if a leaf between them was removed. PAGE_TREE_NO: there is
 * no leaf. */
enum page_tree_answer page_tree_seek(const struct page_tree *tree, struct bytes key, struct page_tree_path *path);
/* The searches for two keys, the first not above the second, at once: they wait for memory side by side (pager.fetch). True: both are PAGE_TREE_YES. */
bool page_tree_seek_both(const struct page_tree *tree, struct bytes low_key, struct bytes high_key, struct page_tree_path *low, struct page_tree_path *high);
enum page_tree_answer page_tree_first(const struct page_tree *tree, struct page_tree_path *path);
enum page_tree_answer page_tree_last(const struct page_tree *tree, struct page_tree_path *path);
/* PAGE_TREE_NO: there is none. The path stays as it was, but for `missing`, if not PAGE_TREE_YES. */
enum page_tree_answer page_tree_next(const struct page_tree *tree, struct page_tree_path *path);
enum page_tree_answer page_tree_previous(const struct page_tree *tree, struct page_tree_path *path);

/* Counts a use of the nodes above the leaf, as a search does, and of the leaf: for a caller that comes back to a path. */
void page_tree_use(const struct page_tree *tree, const struct page_tree_path *path);
/* The leaf's separator, in a node; false: it is the first leaf, of which there is none. */
bool page_tree_separator(const struct page_tree *tree, const struct page_tree_path *path, struct bytes *separator);

/* All three need a path that was just found; paths are not valid afterwards. */
void page_tree_set_count(const struct page_tree *tree, const struct page_tree_path *path, uint64_t count);
/* A leaf after the path's, or before it, if separators are empty; or the first one (path NULL; there is none yet). Returns its page of `size` bytes, which are to be written; `number`, if
 * not NULL, is set. */
enum page_tree_side { PAGE_TREE_AFTER, PAGE_TREE_BEFORE };
char *page_tree_insert(const struct page_tree *tree, const struct page_tree_path *path, enum page_tree_side side, struct bytes separator, uint64_t count, size_t size, uint32_t *number);
/* The leaf's page, resident or not, is not used any more. */
void page_tree_remove(const struct page_tree *tree, const struct page_tree_path *path);

/* Whether there are that many free pages at hand, as far as there are any: else a trunk is missing, `number`, and new pages would be made in place of those that it has. */
bool page_tree_has_free(const struct page_tree *tree, uint64_t pages, uint32_t *number);

/* The missing nodes above the elements with the ranks from..to, and the missing ones of their leaves if `with_leaves`: as far as is known now, since what is below a
 * missing node is not. Writes `max` numbers at most; returns how many. 0: all is there. */
uint32_t page_tree_needs(const struct page_tree *tree, uint64_t from, uint64_t to, bool with_leaves, uint32_t *numbers, uint32_t max);

/* Bytes from outside: nothing else is read, and nothing but them when a sound one is used, and each call ends. Roots and nodes that are sound but do not agree with each other may
 * fail a CHECK: bytes are to have a checksum. `next` is the root's. */
bool page_tree_node_is_sound(struct bytes node, uint32_t next);
/*  root = count u64 | leaves u32 | next u32 | trunk u32 | height u8 | number of free ones u8 | free u32... | top */
void page_tree_root_write(const struct page_tree_root *root, struct buffer *out);
bool page_tree_root_read(struct bytes bytes, struct page_tree_root *root);

/* For tests: CHECKs all invariants. All nodes are resident. */
void page_tree_verify(const struct page_tree *tree);

#endif
