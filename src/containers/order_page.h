/* Order page: some elements of a large sorted set as one run of bytes, in memory as on disk: a leaf of a page tree (containers/page_tree.h).
 *
 *   page = score f64 of each element... | where each member ends: u16, or u32 if the members have more than 65,535 bytes ... | member... | count u32
 *
 * Elements are in the order of (score, member), members as by memcmp, a prefix first; 0 and -0 are equal and stored as given. Numbers have the machine's byte order, and no alignment.
 *
 * Pages are not edited: a page is written out of parts of others. All functions but order_page_is_sound trust the bytes. The members of a page have less than 4 GiB: CHECKed.
 */
#ifndef KELVIN_CONTAINERS_ORDER_PAGE_H
#define KELVIN_CONTAINERS_ORDER_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct order_element {
    double score;
    struct bytes member;            /* the page's */
};

/* For bytes from outside: nothing else is read. A page has at least one element. */
bool order_page_is_sound(struct bytes page);
uint32_t order_page_count(struct bytes page);
struct order_element order_page_at(struct bytes page, uint32_t index);
/* The index of the element, or of the first one above it. */
uint32_t order_page_place(struct bytes page, double score, struct bytes member, bool *is_there);
/* How many elements have a score below this one, or not above it. */
enum order_border { ORDER_BELOW, ORDER_NOT_ABOVE };
uint32_t order_page_count_by_score(struct bytes page, double score, enum order_border border);

/* Elements that a page is written of: those from..to of another one, or, without a page, a single one. */
struct order_part {
    struct bytes page;              /* data NULL: `single` */
    uint32_t from, to;
    struct order_element single;
};
static inline struct order_part order_part_of(struct bytes page, uint32_t from, uint32_t to)
{
    return (struct order_part){ .page = page, .from = from, .to = to };
}
static inline struct order_part order_part_single(double score, struct bytes member)
{
    return (struct order_part){ .single = { score, member } };
}
/* The bytes of a page of these parts, in this order; they have at least one element. `*elements`: how many, or NULL. */
size_t order_page_size(const struct order_part *parts, size_t count, uint32_t *elements);
/* Writes that page. */
void order_page_write(const struct order_part *parts, size_t count, char *page);
/* If a page of the parts, two elements at least, is split into halves of about the same size: how many elements the first has; at least one, and not all. */
uint32_t order_page_middle(const struct order_part *parts, size_t count);

#endif
