/* Look up: the records of keys, or whether they have one, many at a time. The writer's reads, in batches on a ring of its own
 * (base/read_ring.h), or by threads of its own where io_uring can't be used, as in most containers. */
#ifndef KELVIN_TIER_LOOK_UP_H
#define KELVIN_TIER_LOOK_UP_H

#include "base/bytes.h"
#include "base/status.h"
#include "tier/key_list.h"

enum { LOOK_UP_MAX = 128 };

struct look_up;
struct tier;

/* By the thread that will use it. */
struct look_up *look_up_create(struct tier *tier);
void look_up_destroy(struct look_up *look_up);      /* NULL is fine */

/* STATUS_OK: `record` is the record of the listed key `index`, borrowed until this returns. STATUS_NOT_FOUND: it has none. Otherwise its record
 * can't be read. */
typedef void look_up_found(void *context, size_t index, enum status status, struct bytes record);

/* Reads the records of the listed keys from `first` on, and calls `found` once for each, in any order, with no lock held. `count` is at most
 * LOOK_UP_MAX. No lock is held. `look_up` NULL, for other threads: one after the other. */
void look_up_records(struct tier *tier, struct look_up *look_up, const struct key_list *list, size_t first, size_t count, look_up_found *found,
    void *context);
/* statuses[i]: of the listed key `first` + i. STATUS_OK: it has a record, which may be damaged. STATUS_NOT_FOUND: it has none. Otherwise that is
 * not known.
 * `count` is at most LOOK_UP_MAX. No lock is held. `look_up` NULL, for other threads: one after the other. */
void look_up_keys(struct tier *tier, struct look_up *look_up, const struct key_list *list, size_t first, size_t count,
    enum status statuses[LOOK_UP_MAX]);

#endif
