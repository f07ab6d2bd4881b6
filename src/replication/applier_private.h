/* The inside of an applier, for applier.c, applier_run.c and applier_group.c. */
#ifndef KELVIN_REPLICATION_APPLIER_PRIVATE_H
#define KELVIN_REPLICATION_APPLIER_PRIVATE_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "keyspace/owners.h"
#include "lifecycle/ahead.h"
#include "replication/applier.h"
#include "replication/applier_feed.h"

/* From MULTI to EXEC, or a command that concerns more than its keys. */
struct applier_group {
    bool is_open;                   /* a MULTI without its EXEC so far */
    bool is_large;                  /* too large to be kept in memory: it is read a second time */
    bool needs_all;                 /* of its commands one may need any key */
    bool asks;                      /* for an ACK */
    struct partition_bits wanted;   /* of the keys of its commands */
};

struct applier {
    struct applier_options options;
    struct engine *engine;
    struct thread thread;
    _Atomic bool stopping;
    _Atomic int64_t offset;
    _Atomic uint64_t looked;        /* the inbox's position up to which complete units were applied when there was no more; UINT64_MAX: the end */
    _Atomic uint64_t errors;
    _Atomic int db;                 /* of the client, as others see it */
    const struct command *_Atomic last_command;
    struct mutex lock;              /* leaf */
    struct condition woken;
    bool has_more;                  /* lock */
    /* The thread's. */
    struct feed feed;
    struct applier_group group;
    struct ahead *ahead;
    uint64_t seen, ran;             /* commands */
    struct worker worker;
    struct client client;
    struct claim claim;             /* of the group that runs */
    int in_turn;
    int64_t logged_ms, disks_logged_ms;
    bool has_failed;                /* nothing is applied any more */
    bool ends_server;               /* as has_failed, and the process ends: what is on its disk goes up to the last unit before */
};

/* --- applier_run.c --- */

/* The stream can't be applied any further. */
void applier_fail(struct applier *applier, const char *reason);

void applier_begin_turn(struct applier *applier);
void applier_end_turn(struct applier *applier);
/* One more command has run. */
void applier_count_in_turn(struct applier *applier);

/* Has the cold keys of the next commands of the feed loaded. */
void applier_look_ahead(struct applier *applier, struct feed *feed);
/* One that was seen by it has run, or was passed. */
void applier_note_ran(struct applier *applier);

/* The row; NULL: there is no such command. */
const struct command *applier_find(const struct applier *applier, const struct bytes *args, int arg_count);
/* Runs a command of the stream. False: the applier is to stop. Then it has not run, or has changed nothing. */
bool applier_run(struct applier *applier, const struct bytes *args, int arg_count);
/* The same for one outside of groups: its bytes, `raw`, are appended to the history, and the position moves. */
bool applier_run_single(struct applier *applier, const struct bytes *args, int arg_count, struct bytes raw);
/* Appends bytes to the history whose calls have run. Returns the LSN; 0: nothing reads it. */
uint64_t applier_append(struct applier *applier, struct bytes raw);
/* `size` bytes more are applied. */
void applier_advance(struct applier *applier, size_t size);
void applier_ack(struct applier *applier);

/* --- applier_group.c --- */

/* A group begins, or consists of one command. */
void applier_group_begin(struct applier *applier);
/* One of its commands: the partitions it needs. */
void applier_group_add(struct applier *applier, const struct bytes *args, int arg_count);
/* Applies commands that are in memory, while clients see none of their keys. False: the process ends. */
bool applier_group_run(struct applier *applier, struct bytes text);
/* The same for those of the inbox from the applier's position on. False: they can't be read, and only a part was applied, or none; or the
 * process ends. */
bool applier_group_run_again(struct applier *applier, size_t size);

#endif
