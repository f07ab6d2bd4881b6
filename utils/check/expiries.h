/* Expiries: the entries of the index of expiries, compared with the records that expire. 8 bytes of memory for each of both. */
#ifndef KELVIN_CHECK_EXPIRIES_H
#define KELVIN_CHECK_EXPIRIES_H

#include <stddef.h>
#include <stdint.h>

struct expiry_list {
    uint64_t *prints;               /* fingerprints: of time, incarnation and hash */
    size_t count, capacity;
};
struct expiries {
    struct expiry_list expected, announced;
};

void expiries_release(struct expiries *expiries);
/* A record expires at that time. */
void expiries_expect(struct expiries *expiries, int64_t expire_ms, uint32_t incarnation, uint64_t hash);
/* The index has an entry. */
void expiries_announce(struct expiries *expiries, int64_t expire_ms, uint32_t incarnation, uint64_t hash);
uint64_t expiries_count(const struct expiries *expiries);       /* of the index */
/* `silent`: records without an entry; `stale`: entries without a record. */
void expiries_compare(struct expiries *expiries, uint64_t *silent, uint64_t *stale);

#endif
