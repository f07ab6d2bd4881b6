/* Reads the log: the commands of its files, in order. aof_replay in aof.h says what is accepted. */
#ifndef KELVIN_PERSIST_AOF_REPLAY_H
#define KELVIN_PERSIST_AOF_REPLAY_H

#include "base/message.h"
#include "persist/aof.h"
#include "persist/aof_manifest.h"

struct aof_map;

struct aof_replay {
    int dir_fd;
    const struct aof_manifest *manifest;
    const struct disk *disk;
    bool load_truncated;
    bool base_may_be_torn;      /* it is the last file: an old log that was adopted */
    aof_import *import;         /* NULL: an RDB has to be empty */
    void *import_context;
    aof_run *run;
    aof_ahead *ahead;           /* may be NULL: then nothing is read ahead */
    struct aof_ahead_limits ahead_limits;
    aof_progress *progress;     /* may be NULL */
    void *context;
    struct aof_map *map;        /* NULL, or learns from the marks where the increments are in the stream */
    uint64_t *damaged_at;       /* NULL, or set to the offset (in its file) of what is torn, bad or refused */
};

enum status aof_replay_files(const struct aof_replay *replay, struct message *message);

#endif
