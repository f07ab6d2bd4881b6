/* Sequence: all requests of a simulation, known before it begins, because one policy knows the future; of a workload or of a trace. */
#ifndef KELVIN_SIMULATE_SEQUENCE_H
#define KELVIN_SIMULATE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

struct sequence {
    uint32_t key_count, count;
    uint32_t *keys, *next;      /* by request; next: see struct request */
    uint32_t *ranks;            /* NULL: of a trace */
    uint32_t *sizes;            /* by key */
};

/* The load and `windows` windows. */
void sequence_of_workload(struct sequence *sequence, struct workload *workload, uint32_t windows);
/* A line for each request: an identity of the key, or fields with commas between them of which `id_column` is that and `size_column` its size, from
 * 1 on; 0: there is none, and all sizes are 1. Lines whose size is no number above 0 are passed over, as headings are. The first size of a key is used.
 * False: the file can't be read, or has no request; errno is set. */
bool sequence_of_trace(struct sequence *sequence, const char *path, int id_column, int size_column);
void sequence_release(struct sequence *sequence);

#endif
