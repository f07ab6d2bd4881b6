/* RDB save: an image (persist/checkpoint.h) as an RDB file.
 *
 * Everything in the image is written, also keys that have expired since, as Redis does: the server that loads the file drops them. The file
 * is written as temp-<number>.rdb in the directory of `path`, synced and renamed to `path`, and the directory is synced: at any instant `path`
 * is the old file or the complete new one.
 *
 * Without a path it is written to a descriptor of the caller's, for readers that read it while it grows: what is written does not change
 * any more, and the version of the format is fixed at the beginning.
 *
 * The image is only read: its store is opened as a clone of hard links within it (`<image>/reading`), which is removed afterwards. The caller
 * makes one save of an image at a time: another one would remove the clone of the first.
 */
#ifndef KELVIN_PERSIST_RDB_SAVE_H
#define KELVIN_PERSIST_RDB_SAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

struct rdb_aux {
    struct bytes name, value;
};

/* Hashes with fields that have times of their own. Version 12 of the format has them, which Redis 7.2 and older do not load. */
enum rdb_field_times {
    RDB_TIMES_ALLOWED,
    RDB_TIMES_REFUSED,              /* such a hash is an error: STATUS_VERSION */
    RDB_TIMES_DROPPED,              /* it is written without the times, and counted */
};

struct rdb_save_options {
    const char *image;              /* its directory */
    const char *path;               /* of the file; NULL: `fd` */
    int fd;                         /* of an empty file, which stays open, and is not synced at the end */
    void (*grown)(void *context, uint64_t size);    /* the first `size` bytes of `fd` are complete; at least each 10 ms if there are more */
    void *context;
    const struct rdb_aux *aux;      /* in addition to those of every file: redis-ver, redis-bits, ctime, used-mem, aof-base */
    size_t aux_count;
    enum rdb_field_times field_times;       /* with `fd`, RDB_TIMES_ALLOWED makes the version 12, else it is 10 */
    bool without_keys, without_functions;
    uint64_t used_memory;           /* bytes, for used-mem */
    bool with_freq;                 /* each key's heat as its LFU counter: if maxmemory-policy is an LFU one */
    uint32_t lfu_decay_minutes;     /* to decay it to now; 0: it does not */
    bool without_checksum;          /* rdbchecksum no */
    bool compress;                  /* rdbcompression yes */
    int64_t key_delay_us;           /* rdb-key-save-delay: a pause after each key, for tests; -n: 1 us after each n keys */
};

/* All zero at first. Any thread may read it and set `cancel`. */
struct rdb_save_progress {
    _Atomic uint64_t key_total;     /* 0: not known (yet) */
    _Atomic uint64_t keys, bytes;   /* written */
    _Atomic uint64_t times_dropped; /* hashes without the times of their fields */
    _Atomic bool cancel;            /* set to end the save as soon as possible */
};

/* Blocks until it is done; any thread, no lock held. STATUS_CLOSED: cancelled. On failure `path` is as it was, no other file is left, and
 * `message` says why. */
enum status rdb_save(const struct rdb_save_options *options, struct rdb_save_progress *progress, struct message *message);

#endif
