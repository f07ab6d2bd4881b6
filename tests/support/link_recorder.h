/* Link recorder: a host for the link to a primary (replication/link.h) that writes down what it is called with, for tests.
 *
 * The record is a text, a word for each call:
 *     connecting handshake position full:<id>:<offset> sync progress:<received>/<total> rdb:<size> connected failed:<failure>:<reason>| waiting
 * Progress is recorded only if `record_progress` is set: how often it comes depends on time.
 *
 * Thread-safe, but for the fields. For tests; what takes more than twenty seconds fails them.
 */
#ifndef KELVIN_TESTS_LINK_RECORDER_H
#define KELVIN_TESTS_LINK_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/disk.h"
#include "base/mutex.h"
#include "replication/link.h"

struct link_recorder {
    struct mutex lock;
    struct condition changed;
    /* lock */
    struct buffer record;
    struct buffer stream;           /* what `received` took */
    struct link_position position;  /* what `position` returns */
    struct link_progress progress;
    int rdb_fd;                     /* the last one, or -1; closed with the recorder */
    int refusals;                   /* how many times `received` returns false from now on; < 0: always */
    bool is_loading;                /* nothing is acknowledged */
    /* set before the start */
    const struct disk *disk;        /* link_options.disk */
    bool record_progress;
    bool follows_stream;            /* progress.applied and position.offset grow with what is received, and full_resync sets the position */
};

void link_recorder_init(struct link_recorder *recorder);     /* with the system's disk */
void link_recorder_release(struct link_recorder *recorder);
struct link_host link_recorder_host(struct link_recorder *recorder);

/* Waits until the record contains `text`, then forgets everything up to its end. */
void link_recorder_expect(struct link_recorder *recorder, const char *text);
/* The record is `text` now, whole. Forgets it. */
void link_recorder_expect_exactly(struct link_recorder *recorder, const char *text);
/* Waits until this many bytes of the stream are there. */
void link_recorder_expect_stream(struct link_recorder *recorder, size_t size);
void link_recorder_set_position(struct link_recorder *recorder, const char *id, int64_t offset, bool failover);
void link_recorder_set_progress(struct link_recorder *recorder, int64_t applied, int64_t synced);
void link_recorder_set_refusals(struct link_recorder *recorder, int refusals);

#endif
