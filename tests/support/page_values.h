/* Page values: pages of some values, changed at random and compared with a model. What a paged type does with its pages, without a type.
 *
 * Owner: one thread, beside others that do what they like to the box, but flush and swap only databases whose values are this thread's, or are in no such struct.
 */
#ifndef KELVIN_SUPPORT_PAGE_VALUES_H
#define KELVIN_SUPPORT_PAGE_VALUES_H

#include "support/tier_box.h"

struct page_values;

struct page_values *page_values_create(struct tier_box *box, uint64_t seed);
void page_values_destroy(struct page_values *values);

/* Reads, creates, changes or drops pages of a value in the database, or all of them; values in a database that was flushed are forgotten. */
void page_values_step(struct page_values *values, int db);
/* All pages are as they should be. The disk can be read. */
void page_values_verify(struct page_values *values);
/* How many pages there should be, in all databases. */
uint64_t page_values_count(struct page_values *values);
/* Drops half of the values, all of it later: the writer does not begin with it. */
void page_values_drop_later(struct page_values *values);
/* The box has another engine, with the same values (a restart from an image). */
void page_values_move(struct page_values *values, struct tier_box *box);

#endif
