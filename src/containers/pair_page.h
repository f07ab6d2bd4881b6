/* Pair page: some pairs of a large table as one run of bytes, in memory as on disk.
 *
 *   page = pair... | where each pair ends: u16, or u32 if the pairs have more than 65,535 bytes ... | fingerprint u8 of each pair... | count u32
 *
 * Numbers have the machine's byte order, and no alignment. A fingerprint is eight bits of the key's hash: a lookup compares those of eight pairs at a time and then, mostly, one
 * key. The pairs have no order. What is added goes between the pairs and the rest, so an addition moves three bytes for each pair and not the pairs.
 *
 * All functions but pair_page_is_sound trust the bytes. The pairs of a page have less than 4 GiB: CHECKed. Keys and values must not be part of a page that is changed.
 */
#ifndef KELVIN_CONTAINERS_PAIR_PAGE_H
#define KELVIN_CONTAINERS_PAIR_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "containers/pair.h"

/* Bytes of a page with `count` pairs, which have `pairs_size` bytes in all. */
size_t pair_page_size(size_t pairs_size, uint32_t count);
/* For bytes from outside: nothing else is read. */
bool pair_page_is_sound(struct bytes page);

uint32_t pair_page_count(struct bytes page);
size_t pair_page_pairs_size(struct bytes page);
bool pair_page_find(struct bytes page, uint8_t fingerprint, struct bytes key, uint32_t *index);
struct pair pair_page_at(struct bytes page, uint32_t index);
uint8_t pair_page_fingerprint(struct bytes page, uint32_t index);

/* Both change a page of `size` bytes at `page`, which has room for the larger of that and what it has afterwards, which is returned. */
size_t pair_page_add(char *page, size_t size, uint8_t fingerprint, struct bytes key, struct bytes value, uint64_t number);
size_t pair_page_remove(char *page, size_t size, uint32_t index);       /* later pairs get the index before theirs */

/* Writes a page of `count` pairs with `pairs_size` bytes in all at `page`, which has room for pair_page_size: begin, then each pair. */
struct pair_page_writer {
    char *page;
    size_t size, pairs_size, at;
    uint32_t count, index;
};
void pair_page_begin(struct pair_page_writer *writer, char *page, size_t pairs_size, uint32_t count);
void pair_page_write(struct pair_page_writer *writer, uint8_t fingerprint, struct bytes pair);      /* as it is in a page */

#endif
