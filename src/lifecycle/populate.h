/* Populate: adds strings with numbered names to a database, for tests: DEBUG POPULATE. */
#ifndef KELVIN_LIFECYCLE_POPULATE_H
#define KELVIN_LIFECYCLE_POPULATE_H

#include "base/buffer.h"
#include "base/status.h"
#include "engine/job.h"

enum { POPULATE_SIZE_MAX = 512 << 20 };

/* `<prefix>:<n>` gets `value:<n>`, padded with zeros or cut to `size` bytes if that is not 0, for n from 0 to count - 1. Keys that there
 * are stay. Each key is logged as a SET. */
struct populate {
    struct job job;             /* the caller's `run` calls populate_run */
    int db;
    uint64_t count;
    size_t size;
    struct buffer prefix;
    enum status status;         /* the result. STATUS_NO_SPACE: memory is full, and no room can be made */
};

/* On a job's thread. */
void populate_run(struct populate *populate, struct engine *engine);

#endif
