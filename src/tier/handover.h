/* Handover: values as of a checkpoint's cut, given to the writer by the threads that are about to change them.
 *
 * A queue. What is in it must be written before any younger value of the same key; so it is written also when the checkpoint fails.
 */
#ifndef KELVIN_TIER_HANDOVER_H
#define KELVIN_TIER_HANDOVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/mutex.h"
#include "base/status.h"
#include "tier/oversized.h"
#include "value/value.h"

struct batch;
struct partition;
struct tier;

struct handed {
    struct handed *next;
    struct partition *partition;
    int db;
    uint32_t incarnation;
    uint64_t hash;
    struct bytes key;
    int64_t expire_ms;
    enum value_type type;
    bool unknown;               /* whether there is a record already is not known */
    struct buffer record;
};

struct handover {
    struct mutex lock;          /* leaf */
    struct handed *first, *last;        /* lock */
    _Atomic uint64_t bytes;     /* in the queue */
    _Atomic uint64_t bytes_max; /* at this size changes wait */
};

void handover_init(struct handover *handover);
void handover_release(struct handover *handover);       /* with what is in the queue */

/* A checkpoint begins: sets the limit of the queue. */
void handover_begin(struct tier *tier);
/* Callback of the partitions' watch: an entry as of the cut is about to be changed or removed. `tier` is a struct tier. */
void handover_changing(void *tier, struct keyspace *keyspace, uint64_t hash, uint32_t handle);
bool handover_is_full(const struct tier *tier);
bool handover_is_empty(struct tier *tier);

/* Writes what is in the queue, by the writer. Returns how many values were taken. On an error, which is in `status`, the rest is in the queue
 * again. STATUS_TOO_LARGE: `problem` names the key whose record is larger than the store takes. */
size_t handover_write(struct tier *tier, struct batch *batch, enum status *status, char problem[OVERSIZED_TEXT_SIZE]);

#endif
