/* What the files of this room share. Nobody else includes it. */
#ifndef KELVIN_TIER_PRIVATE_H
#define KELVIN_TIER_PRIVATE_H

#include <pthread.h>

#include "base/buffer.h"
#include "base/message.h"
#include "base/mutex.h"
#include "tier/oversized.h"
#include "tier/tier.h"

enum { LOAD_LATENCY_BUCKETS = 128, LOAD_LATENCY_STEP_BITS = 2, LOADERS_MAX = 64 };

enum load_state {
    LOAD_READING,       /* a loader has it, or will */
    LOAD_DONE,          /* installed, overwritten meanwhile, or voided: whoever waited looks again */
    LOAD_ABSENT,        /* a false maybe: there is no such record */
    LOAD_FAILED,
};

enum checkpoint_phase {
    CHECKPOINT_NONE,
    CHECKPOINT_SEALING,     /* from the cut on: a value is handed over before it is changed */
    CHECKPOINT_ENDING,      /* the image is done or has failed: nothing more is handed over, what was handed over is written */
};

/* A key that somebody waits for: the placeholder of tier rule 4. Fields under the partition's lock. */
struct load {
    struct keyed_node node;         /* in its keyspace's `loads` while keyspace != NULL */
    struct partition *partition;    /* immutable */
    struct keyspace *keyspace;      /* NULL: flushed away */
    uint32_t incarnation;           /* immutable, for the loader */
    enum load_state state;
    uint32_t ticket;                /* goes up with each time the load is posted */
    int in_flight;                  /* loaders (or batches) that still refer to it */
    int pins;                       /* waits that refer to it */
    struct tier_wait *waits;
    struct load *batch_next;
    uint32_t batch_ticket;
    int64_t posted_us;
};

/* One client's interest in one load. */
struct tier_wait {
    struct tier_wait *of_client;    /* next in the client's list. Client's worker */
    struct tier_wait *of_load;      /* next in the load's list. Partition's lock */
    struct load *load;
    struct client *client;
    bool waiting;                   /* counted in client->pending. Partition's lock */
};

/* A deleted key whose record is still in the store (tier rule 3). Under the partition's lock. */
struct grave {
    struct keyed_node node;
    bool unknown;           /* not known whether there is a record at all */
    bool applying;          /* its delete is in the batch being written. The key may have an entry again, with RECORD_NONE: the
                             * grave, not the entry, answers for the record that is about to go */
    bool again;             /* applying, and that entry was handed over to a checkpoint and removed: there will be another record */
    uint32_t epoch;         /* the tier's when it was dug: during a checkpoint, later ones wait */
};

struct demote_request {
    struct demote_request *next;
    int db;
    uint64_t hash;
    struct bytes key;
    enum tier_move result;
    bool done;
};

/* The one value that is being encoded without a lock (tier rule 9). Changed under its partition's lock; set by the writer. */
struct latch {
    struct keyspace *keyspace;      /* NULL: none */
    uint64_t hash;
    struct bytes key;
    bool orphaned;                  /* the keyspace was flushed away: the object is the writer's to free */
};

/* Where the expiry of cold keys has got to among the store's expiry keys. What it could not deal with, and what was put before the
 * place it had reached, is looked at again later, all together: see sweep_expired. */
struct expiry_walk {
    struct buffer from;             /* see store_expired */
    int64_t from_ms;                /* the time of the place; 0: at the beginning */
    int64_t again_ms;               /* the soonest expiry to be looked at again; INT64_MAX: none */
    int64_t again_at_ms;            /* not before this time */
    int64_t pause_ms;               /* until the next one */
    int64_t rewound_ms;             /* where it went back to the last time */
};

struct tier {
    struct store *store;
    struct store_env *env;              /* ours; NULL: the caller's, in the store */
    char *dir, *images;                 /* see tier_options */
    struct partitions *partitions;
    struct tier_settings settings;
    struct tier_hooks hooks;

    struct mutex queue_lock;         /* leaf: loads to do */
    struct condition queue_filled;
    struct load *queue_first, *queue_last;
    uint64_t queue_size;
    int loaders_idle, loading;          /* those that wait, and those that read */
    struct condition load_ended;          /* with queue_lock: for who waits in tier_help */
    _Atomic int helpers;
    _Atomic uint64_t loads_ended;
    pthread_t loaders[LOADERS_MAX];     /* the writer starts and joins them */
    int loader_count;                   /* started; the writer's, after tier_start */
    _Atomic int loaders_wanted;         /* those above end by themselves */
    struct store_tuning tuned;          /* the writer's: what the store was opened with */

    struct mutex writer_lock;        /* leaf: everything others ask of the writer */
    struct condition writer_asked, writer_answered;
    pthread_t writer;
    bool writer_running, nudged;
    _Atomic bool stopping;              /* also read without the lock */
    _Atomic bool stuck;                 /* nothing more could be demoted, though memory is over the mark; see stuck.h */
    _Atomic uint64_t stuck_bytes;       /* memory that was used then */
    uint64_t passed_over;               /* the writer's: entries held for the moment that demotion met since its last progress */
    _Atomic bool demoting;              /* memory was over the high mark and is not below the low one yet */
    _Atomic uint64_t demoted_bytes;     /* freed by demotion, in all */
    _Atomic bool expire_cold;           /* not while replaying */
    struct demote_request *requests;
    struct purge *purge;                /* see purge.h */

    _Atomic uint64_t demotions, clean_demotions, promotions, batches, false_maybes, errors, unplanned_reads, expired_cold,
        resolved, graves, loads_waiting, store_bytes;
    _Atomic int state;                  /* enum tier_state */
    _Atomic uint64_t latency[LOAD_LATENCY_BUCKETS];     /* of loads, in us: base/histogram.h */
    _Atomic int counters;               /* those who wait for counting_lock: the writer lets them in */
    _Atomic uint64_t counting;          /* number of the count under way; 0: none */
    uint64_t count_last;                /* counting_lock */
    struct mutex counting_lock;      /* before partitions: who counts keeps the writer from resolving */
    struct mutex error_lock;         /* leaf */
    char last_error[TIER_ERROR_SIZE];

    struct latch latch;
    struct oversized oversized;         /* the writer's */
    struct expiry_walk expiry;          /* the writer's */

    /* The checkpoint: see checkpoint.c and seal.c. */
    struct mutex image_turn;         /* before all others: one image at a time */
    /* enum checkpoint_phase. Changed with all partitions locked, so it is constant for a thread that holds one. Only the writer leaves
     * CHECKPOINT_SEALING and CHECKPOINT_ENDING; it may read them without a lock. */
    _Atomic int checkpointing;
    _Atomic uint32_t epoch;             /* cuts so far. Changed with all partitions locked */
    _Atomic bool unsealed;              /* since the last cut not every entry was looked at: ENTRY_EPOCH means nothing yet */
    struct mutex handed_lock;        /* leaf */
    struct handed *handed_first, *handed_last;      /* handed_lock */
    _Atomic uint64_t handed_bytes, handed_max;      /* now in the queue; from here on writes wait */
    struct image_request *image;        /* writer_lock: what is asked of the writer */
    struct unknowns *hurried;           /* writer_lock: big keys that somebody waits for; written next. NULL: none */
    _Atomic bool image_cancelled;       /* the one that is being made is not wanted any more */
    struct sealing *sealing;            /* the writer's: NULL when there is none */
    _Atomic uint64_t record_bytes, record_count;    /* of all puts and loads so far */
    struct warm *_Atomic warm;          /* NULL: there is no warm-up. Set once */
    struct value *demoted;              /* the writer's: big values that left RAM, to be freed when no lock is held */
    size_t demoted_count, demoted_capacity;
    struct writer_state *writing;       /* this writer only; see writer.c */
};

/* A value as it was at the cut, handed over by who was about to change it. */
struct handed {
    struct handed *next;
    struct partition *partition;
    uint32_t incarnation;
    uint64_t hash;
    struct bytes key;
    int64_t expire_ms;
    bool unknown;               /* whether there is a record already is not known */
    struct buffer record;
};

struct image_request {
    const char *dir;            /* NULL: only write what is dirty, there is no cut yet */
    struct message *message;
    uint64_t number;            /* out: of the store's last batch in the image */
    enum status status;
    bool done;
};

/* checkpoint.c */
void checkpoint_changing(void *tier, struct keyspace *keyspace, uint64_t hash, uint32_t handle);    /* the partitions' watch */
static inline bool grave_is_late(const struct tier *tier, const struct grave *grave)
{
    return tier->checkpointing && grave->epoch == tier->epoch;
}
/* A dirty entry that was changed since the cut: not to be written before the snapshot. */
bool checkpoint_bars(const struct tier *tier, const struct keyspace *keyspace, const struct entry *entry);
struct batch;
struct unknowns;
/* From CHECKPOINT_SEALING to CHECKPOINT_ENDING: the image is done or has failed. By the writer, which holds no partition. */
void checkpoint_stop(struct tier *tier);
/* From CHECKPOINT_ENDING to CHECKPOINT_NONE, once all that was handed over is in the store; the writer calls it until then. Its batch is
 * empty, or failed. */
void checkpoint_end(struct tier *tier, struct batch *batch);
size_t handed_size(const struct handed *handed);      /* bytes */
/* Answers a request. By the writer. */
void checkpoint_answer(struct tier *tier, struct image_request *request, enum status status);

/* seal.c: the writer's part. A bounded piece of what was asked for, if anything was; true if there is more to do at once. */
bool seal_step(struct tier *tier, struct batch *batch);
/* Writes what was handed over so far. Returns how many. An error is in `status`, and the rest is in the queue again. */
size_t seal_handed(struct tier *tier, struct batch *batch, enum status *status);
/* The store is in error, or the tier stops: what was asked for fails. */
void seal_abort(struct tier *tier, enum status status);

/* load.c */
/* Starts or ends loaders, to be as many as the settings say. At start, then the writer only. */
void loaders_adjust(struct tier *tier);
void load_void(struct tier *tier, struct load *load);       /* wakes all who wait; under the lock */
void loads_void_all(struct tier *tier, struct keyspace *keyspace);      /* a flush: who waits looks again */
void load_free_if_unused(struct tier *tier, struct load *load);
struct value_limits tier_limits(const struct tier *tier);
/* Puts a record that was read into the keyspace; 0 if it can't be decoded. Under the lock; no entry is there. */
uint32_t load_install(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct buffer *record,
    struct buffer *scratch);

/* grave.c: the partitions' watch. */
enum record_state grave_record_of_new(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
void grave_removed(void *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum record_state record);
void grave_keyspace_created(void *tier, struct keyspace *keyspace);
void grave_free(struct tier_keyspace *in, struct tier *tier, struct grave *grave);
/* Its delete was applied. */
void grave_applied(struct tier *tier, struct keyspace *keyspace, struct grave *grave);
/* A checkpoint has failed: entries made over graves that were pending at its cut answer for their records themselves from now on. */
void graves_give_back(struct tier *tier, struct keyspace *keyspace);

/* A key that becomes unknown is noted, if somebody counts. Under the lock. */
void count_note(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
void count_forget(struct tier_keyspace *in);

/* writer.c */
void *writer_main(void *tier);
void tier_note_error(struct tier *tier, const char *what, enum status status);
void tier_note_message(struct tier *tier, const char *text);    /* the same, in a sentence */

/* The keyspace with this incarnation, wherever SWAPDB has put it; NULL if it was flushed. Under the lock. */
struct keyspace *tier_keyspace_of(struct partition *partition, uint32_t incarnation);

#endif
