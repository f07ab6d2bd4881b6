/* Shared by the primary's files. Only src/replication/primary*.c include this.
 *
 *   primary.c        the list of replicas, their commands, time limits
 *   primary_stream.c the backlog, and the workers that have replicas
 *   primary_feed.c   what a replica is sent next
 *   primary_image.c  the same of an image in the place of an RDB
 *   primary_sync.c   full synchronizations: when one begins, and who shares it
 */
#ifndef KELVIN_REPLICATION_PRIMARY_PRIVATE_H
#define KELVIN_REPLICATION_PRIMARY_PRIVATE_H

#include "base/clock.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "replication/primary.h"
#include "stream/backlog.h"

struct archive;
struct archive_reader;

enum { MARK_SIZE = 40 };

/* A full synchronization that is under way, or whose file replicas still read. */
enum sync_state { SYNC_BEGINS, SYNC_RUNS, SYNC_FAILED };

struct replica_sync {
    struct primary *primary;
    _Atomic int refs;               /* its thread, and replicas */
    _Atomic int state;              /* enum sync_state: the file and the point are there once it runs */
    struct full_sync *task;
    struct full_sync_file *file;    /* held */
    struct history_point point;      /* of the image */
    struct backlog_reader *hold;    /* keeps the stream from the point on until no replica needs the file; NULL: not begun */
    bool with_keys, with_functions, rdb12;
    bool is_image;                  /* not an RDB: what the three before say does not matter */
    bool may_grow;                  /* readers may begin before the file is complete */
};

struct replica {
    struct replica *prev, *next;    /* primary */
    struct primary *primary;
    struct client *client;
    _Atomic int state;              /* enum replica_state */
    _Atomic int worker;             /* index of its worker */
    /* The client's worker's, and read under the lock. */
    char ip[REPLICA_IP_SIZE];
    int port;
    bool can_eof, can_psync2, can_rdb12, can_image, rdb_only, without_keys, without_functions;
    bool is_plain;                  /* SYNC */
    /* The client's worker's. */
    struct replica_sync *sync;      /* primary; its worker reads it without the lock once `state` is RECEIVES. NULL: none */
    bool has_header;
    char mark[MARK_SIZE];           /* of an RDB without a length */
    bool has_mark;
    uint64_t sent;                  /* of the file */
    struct archive_reader *image;   /* in its place; NULL: there is none */
    struct aof_past *past;          /* read before `reader`: what only the log's files have. NULL: nothing */
    struct backlog_reader *reader;
    int64_t trickled_ms;            /* when it was sent a byte that the log does not have; its worker's */
    _Atomic int64_t fed_ms;         /* when all that it was sent before had gone to the system */
    uint64_t heard;                 /* bytes that it has sent */
    _Atomic int64_t heard_ms;       /* when that was last more */
    _Atomic bool dropped;           /* to be closed */
    _Atomic int64_t acked, synced, acked_ms;
};

struct primary {
    struct engine *engine;
    struct mutex lock;
    struct replica *replicas;       /* primary */
    _Atomic int count;
    _Atomic int by_worker[64];      /* replicas of each worker, modulo 64 */
    struct replica_sync *running;   /* primary: whose thread has not ended; NULL: none */
    int64_t wanted_ms;              /* primary: since when a replica waits for one to begin; 0: none does */
    int64_t retry_ms;               /* primary: after one that failed */
    int64_t pinged_ms;              /* the first worker's: the last PING */
    _Atomic int64_t seen_ms;        /* when there was a replica last */
    _Atomic int sync_count;         /* synchronizations that are not freed, and others that keep the backlog */
    _Atomic uint64_t full, full_image, partial, refused;
};

/* The clock of all times here: jumps of the wall clock neither end links nor delay what is due. */
static inline int64_t primary_now_ms(void) { return clock_mono_us() / 1000; }

/* primary_stream.c */
/* Replicas may have something to send. Any thread. */
void primary_ring(struct primary *primary);
/* The replica's connection is to be closed; the log says why. */
enum replica_fill primary_drop(struct replica *replica, const char *what);
/* Opens the backlog, which is not open. All partitions are locked, or nothing runs yet. */
void primary_open_backlog(struct engine *engine);

/* primary_image.c */
/* Sends the image of a synchronization by image that is complete. */
enum replica_fill image_send(struct replica *replica, struct archive *archive);

/* primary_sync.c */
/* The replica waits for one; primary's lock is held. */
void sync_join(struct replica *replica) REQUIRES(replica->primary->lock);
void sync_leave(struct replica *replica) REQUIRES(replica->primary->lock);
/* All of the synchronization is on its way. */
enum replica_fill sync_end(struct replica *replica);
/* Begins one if it is due. The first worker. */
void sync_cron(struct primary *primary, int64_t now_ms);

#endif
