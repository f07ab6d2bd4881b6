/* The struct of follow, which its files share. Only src/replication/follow*.c include this.
 *
 *   follow.c            REPLICAOF, what others ask
 *   follow_host.c       what the link calls: the position, the inbox, the applier
 *   follow_load.c       the load of a full synchronization
 *   follow_failover.c   FAILOVER, on both sides
 */
#ifndef KELVIN_REPLICATION_FOLLOW_PRIVATE_H
#define KELVIN_REPLICATION_FOLLOW_PRIVATE_H

#include <stdatomic.h>

#include "base/dial.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "lifecycle/dump_image.h"
#include "replication/follow.h"

struct applier;
struct backlog;

/* State of the data, with regard to full synchronizations. */
enum follow_data {
    FOLLOW_DATA_GOES_ON,            /* the stream can be continued at the history's end */
    FOLLOW_DATA_LOADS,              /* one was received, and the loader prepares; what was here still is. Ends when the link is ended */
    FOLLOW_DATA_REPLACED,           /* the loader replaces it. Ends with the load, or with the server */
    FOLLOW_DATA_BROKEN,             /* it can't be continued: all data is asked for */
};

struct follow {
    struct engine *engine;
    struct tls_context *(*hold_tls)(void *context);
    void *tls_context;

    struct mutex turn;              /* a change of the primary, or of the data set */
    struct link *link;              /* turn; changed under the lock, too */
    struct thread loader;           /* turn */

    struct mutex lock;              /* a leaf; guards what follows */
    char host[FOLLOW_HOST_SIZE];    /* "": none */
    int port;
    struct backlog *inbox;          /* the link appends, the applier reads; NULL: none. Changed by the link's thread, or while there is no link */
    struct backlog_reader *first;   /* at the beginning of the inbox, so that it keeps everything until the applier has a reader. NULL: it has. As the inbox */
    struct applier *applier;        /* NULL: none */
    char sync_id[LINK_ID_SIZE + 1]; /* of the full synchronization under way */
    int64_t sync_offset;
    int sync_db;                    /* selected there; the loader's thread */
    int hand_tries;                 /* the link's thread: requests to take over that may have been sent */
    bool hand_is_uncertain;             /* the link's thread: it may have taken over at one of them, whose reply was lost */
    char asked_id[LINK_ID_SIZE + 1];        /* the link's thread: the last PSYNC's */
    enum link_state state;
    int64_t io_ms, received, total;
    enum follow_data data;
    int64_t sync_ms;                /* monotonic: when the last full synchronization began */
    int64_t again_ms;               /* monotonic: when the link connects again, or is started again; 0: it need not */
    char address[ENDPOINT_SIZE], local_address[ENDPOINT_SIZE];      /* of the last connection */
    int fd;

    _Atomic bool stopping;
    _Atomic bool stop_load;         /* the loader ends soon, as what it loads is not wanted any more. Set under the lock, and not while data is replaced
                                     * unless the server ends */
    int load_fd;                    /* the loader's: of the RDB to load; -1: an image */
    char image_dir[DUMP_IMAGE_PATH_SIZE];   /* where the link receives an image. Immutable */
    _Atomic bool no_images;         /* the last one could not be used: the next full synchronization is by RDB */
    _Atomic int last_sync;          /* enum follow_sync */
    _Atomic int hand;               /* enum follow_hand */
    _Atomic uint64_t errors;
};

static inline struct log *follow_log(const struct follow *follow)
{
    return follow->engine->log;
}

/* A full synchronization is loaded: clients get LOADING, or will soon. */
bool follow_is_loading(struct follow *follow);
/* All data is asked for, after a pause. */
void follow_break(struct follow *follow, int64_t pause_ms);
/* Until the applier has applied all that was received, or repl-promotion-timeout is over. Nothing is received meanwhile. */
void follow_await_applier(struct follow *follow);

/* Waits until it is so, or the server ends. What makes it so bumps engine->waiting. The condition is looked at after each
 * bump, and may act. */
void follow_await(struct follow *follow, bool (*is_so)(struct follow *follow));
/* Set what threads wait for. */
void follow_set_data(struct follow *follow, enum follow_data data) REQUIRES(follow->lock);
void follow_set_hand(struct follow *follow, enum follow_hand hand);

/* follow_host.c */
struct link_host follow_link_host(struct follow *follow);
/* Ends the applier and forgets what it has not applied. No thread appends to the inbox. */
void follow_end_inbox(struct follow *follow);
/* If the system gives no thread the link connects again, and continues where the history ends. */
void follow_start_applier(struct follow *follow, int64_t offset, int db);
void follow_ack_now(void *follow);

/* follow_load.c */
/* Callback of link_host: the loader begins. */
void follow_load_rdb(void *follow, int fd, uint64_t size);
void follow_load_image(void *follow, uint64_t size);
void follow_join_loader(struct follow *follow);     /* it has ended then, or never ran */
/* With appendonly yes: the log is off during a load only, and one that came to no end has left it off. */
void follow_restore_log(struct engine *engine);

/* follow.c */
bool follow_start_link(struct follow *follow) REQUIRES(follow->turn);
/* Nothing arrives, and nothing is applied any more: the history's end is the last unit that was applied. False: nothing was changed, as the data is
 * just being replaced. */
enum follow_end { FOLLOW_END_NOW, FOLLOW_END_APPLIED };     /* ...; after what was received is applied, for a promotion */
bool follow_end_link(struct follow *follow, enum follow_end end) REQUIRES(follow->turn);
/* This server is a primary from here on. The link has ended. */
void follow_promote(struct follow *follow) REQUIRES(follow->turn);
/* False: nothing was changed, as the history does not end at `lsn` (FOLLOW_ANY_LSN: wherever it ends). */
bool follow_set_role(struct follow *follow, bool is_replica, uint64_t lsn);
void follow_note_primary(struct follow *follow, const char *host, int port);

#endif
