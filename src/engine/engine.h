/* Engine: runs calls. Finds the command, checks it, makes its keys resident, locks, runs, logs.
 *
 * struct engine is what commands reach the rest of the server through (call->engine). It is made of parts: each belongs to the file that it is
 * named after, which says what protects it, or groups what a room above has put there and the engine does not look into.
 */
#ifndef KELVIN_ENGINE_ENGINE_H
#define KELVIN_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/log.h"
#include "base/meter.h"
#include "base/waiting.h"
#include "call/command_table.h"
#include "call/key.h"
#include "config/config.h"
#include "engine/interest.h"
#include "engine/job.h"
#include "engine/memory.h"
#include "engine/pace.h"
#include "engine/worker.h"
#include "persist/aof.h"
#include "persist/identity.h"
#include "stream/history.h"

struct acl;
struct acl_log;
struct blocking;
struct client_ids;
struct cluster;
struct engine;
struct watch_table;
struct hub;
struct lazy_free;
struct own_expiry;
struct redirect;
struct registry;
struct request_hint;
struct rewrite;
struct backups;
struct aof_switch;
struct primary;
struct follow;
struct failover;
struct full_sync;
struct save;
struct shutdown;
struct tasks;
struct tracking;
struct hot_keys;
struct slowlog;
struct latency;
struct lost_slots;
struct migrate_cache;
struct slot_export;
struct slot_import;
struct error_stats;
struct waits;
struct info_section;
struct rates;

/* Functions of the room above that the engine calls (lifecycle/lifecycle.h). NULL: nothing; unit tests run without it. */
struct engine_upper {
    void (*cron)(struct engine *engine);            /* main worker's cron */
    bool (*denies_writes)(struct engine *engine);   /* the last background save failed: writes are refused. Any thread */
    /* The number of replicas that have applied the history up to `lsn`, or have it on their disks. Any thread. */
    int (*acknowledged)(struct engine *engine, uint64_t lsn, bool on_disk);
    uint64_t (*ask_replicas)(struct engine *engine);        /* for an ACK soon: when the log has written this LSN. On a worker */
    /* Before the end: replicas that have not acknowledged the history up to `lsn`, of `*count`. `logs`: each of them is named in the log. Asks for
     * nothing, but sends what is to be sent. Any thread. */
    int (*lagging)(struct engine *engine, uint64_t lsn, bool logs, int *count);
    /* NULL: no cluster. A replica of this server begins to read the stream: it is to be sent there what only the stream says. Also with partitions locked */
    void (*stream_begins)(struct engine *engine);
    void (*heard_sign)(struct engine *engine, const struct bytes *args, int arg_count);     /* NULL: no cluster. Of the primary's stream, on the applier's thread */
    /* NULL: no cluster. Sends a message to the other nodes, or (`is_shard`) those of the shard, soon. Any thread, also with partitions locked. */
    void (*publish)(struct engine *engine, struct bytes channel, struct bytes text, bool is_shard);
};

/* Counts of the calls that a primary's stream has run on this replica (replication/applier.h), whose thread is none of the workers that are
 * counted. */
struct stream_counts {
    _Atomic uint64_t stats[STAT_COUNT];
    struct command_stats_set *commands;     /* the applier's thread counts; NULL: none */
};

/* See engine/role.h, which alone writes it. Any thread reads it. */
struct role {
    _Atomic uint32_t bits;          /* enum role_bit; 0: a primary of which nothing is demanded, the usual case */
    _Atomic int good_replicas;      /* online, with a recent ACK */
    _Atomic int64_t link_down_ms;   /* monotonic clock: since when a replica's link is down; 0: it is up, has not been up yet, or this is a primary */
    _Atomic int64_t lease_end_us;   /* monotonic clock: until when a primary may serve writes; 0: without a lease */
};

/* Users: the room acl, and engine/access.h. NULL, each: unit tests without it. */
struct engine_users {
    struct acl *acl;
    struct acl_log *log;
    void (*describe_client)(struct buffer *out, const struct call *call);   /* the line of CLIENT INFO */
};

/* Work on the data set as a whole: parts of the room lifecycle, each of the file that it is named after. */
struct engine_lifecycle {
    struct aof_switch *aof_switch;
    struct rewrite *rewrite;
    struct backups *backups;
    struct save *save;
    struct full_sync *full_sync;    /* NULL: unit tests */
    struct shutdown *shutdown;
};

/* This server as a primary and as a replica: parts of the room replication, likewise. NULL, each: unit tests. */
struct engine_replication {
    struct primary *primary;
    struct follow *follow;
    struct failover *failover;
    struct migrate_cache *migrate_cache;
    /* A node of a cluster has started with slots and without a key, and did not serve since: a replica may have the data, and must not replace it. */
    _Atomic bool has_lost_data;
    struct cluster *cluster;        /* NULL: cluster-enabled no. Does not change once ports are open */
    struct lost_slots *lost_slots;  /* the same */
    struct slot_export *slot_export;        /* the same */
    struct slot_import *slot_import;        /* the same */
};

/* Measurements for operators: parts of the room stats, likewise. Thread-safe, but for the rates, which the first worker notes. */
struct engine_stats {
    struct slowlog *slowlog;
    struct hot_keys *hot_keys;      /* NULL: unit tests without it */
    struct latency *latency;
    struct error_stats *errors;
    struct waits *waits;
    struct rates *rates;
    const struct info_section *info;        /* their context is the engine */
};

/* The process; set by server. Does not change after the start. */
struct engine_process {
    char run_id[41];
    char *executable;               /* absolute path; for INFO */
    void (*end)(void *context, int status); /* ends it, with that status; any thread. All there is to do before has been done */
    void *end_context;
};

/* Switches of DEBUG. Any thread. */
struct engine_debug {
    _Atomic bool active_expire;     /* SET-ACTIVE-EXPIRE */
    _Atomic bool cron_is_paused;    /* PAUSE-CRON */
    _Atomic bool scripts_may_test;  /* SET-DISABLE-DENY-SCRIPTS */
};

/* Units that own all partitions and have run for longer than busy-reply-threshold. Changed by engine/unit.c; any thread reads it. */
struct engine_busy {
    _Atomic int count;
    _Atomic bool with_function;     /* the last of them that began to be so runs a function */
};

/* Clients of all workers. Any thread. */
struct client_counts {
    _Atomic uint64_t last_id;       /* that was given out */
    _Atomic int64_t count;          /* connections */
    _Atomic int64_t parked;         /* for whatever reason */
    _Atomic int64_t paused;         /* those whose requests CLIENT PAUSE holds back */
};

enum engine_state { ENGINE_LOADING, ENGINE_READY, ENGINE_STOPPING };

struct engine {
    /* Immutable after start. */
    struct config *config;
    struct log *log;
    struct meter *meter;
    struct closer *closer;          /* base/closer.h; NULL: unit tests */
    struct partitions *partitions;
    struct tier *tier;              /* NULL: tier-enabled no */
    struct aof *_Atomic aof;        /* NULL: appendonly no. Changes with all partitions locked (lifecycle/aof_switch.h), and what was read
                                     * stays valid: without a lock, read it once */
    struct redirect *redirect;      /* engine/redirect.h; NULL: this server is in no cluster */
    struct tasks *tasks;            /* lifecycle/task.h */
    struct command_table *commands;
    struct worker **workers;
    int worker_count;
    struct job_pool *jobs;
    struct engine_users users;
    struct blocking *blocking;      /* engine/blocking.h */
    struct own_expiry *own_expiry;  /* engine/own_expiry.h; NULL: unit tests without it */
    struct watch_table *watches;    /* engine/watch.h */
    struct running_scripts *running_scripts;        /* engine/running_scripts.h */
    struct hub *hub;                /* pubsub/hub.h; reached by engine/publish.h. NULL: unit tests without pub/sub */
    struct client_ids *client_ids;  /* engine/client_ids.h; NULL: unit tests without it */
    struct tracking *tracking;      /* engine/tracking.h; the same */
    struct lazy_free *lazy_free;
    struct registry *scripts;       /* script/registry.h */
    struct engine_lifecycle lifecycle;
    struct engine_replication replication;
    struct engine_upper upper;
    struct engine_stats stats;
    struct key_hooks hooks;
    struct engine_process process;
    struct identity identity;       /* of the data set. Does not change once the state is ENGINE_READY */
    int64_t started_us;             /* monotonic */

    /* Atomic, read by every call and seldom written. What is written often is apart from it: another worker's write would take this cache
     * line from all others (docs/architecture.md). */
    _Atomic int state;              /* enum engine_state */
    _Atomic int64_t monitor_count;  /* engine/monitor.h */
    struct interest interest;       /* in events */
    _Atomic uint64_t stats_epoch;   /* of the statistics of commands (call/command_stats.h) */
    struct engine_debug debug;
    _Atomic int64_t pause_until_us; /* CLIENT PAUSE, by the monotonic clock; 0: no */
    _Atomic bool pause_writes_only;
    _Atomic bool holds_writes;      /* FAILOVER: writes, expiry and eviction wait, whatever CLIENT PAUSE says */
    struct engine_busy busy;
    _Atomic bool publishers_wait;   /* clients are parked because too many messages are in transit: engine/publish.h */
    _Atomic bool save_failed;       /* the last background save */
    _Atomic bool disk_is_full;      /* tier_hooks.disk_is_full. With a log only what removes is admitted: engine_disk_refuses_growth */
    _Atomic bool frozen;            /* the last dump before the end is being taken: writes wait. Looked at under partitions' locks */
    struct role role;               /* engine/role.h */
    char apart[64];

    struct history history;         /* thread-safe; all zero: off */

    /* Atomic, written while calls run. */
    struct client_counts clients;
    _Atomic uint64_t dirty;         /* engine_dirty(), less the changes that workers count; it may be below 0 and wrap around */
    _Atomic uint64_t saved;         /* changes that saves have taken off `dirty` */
    _Atomic uint64_t replica_input; /* bytes that a primary has sent to this replica */
    struct stream_counts streamed;
    _Atomic int64_t last_save_ms;   /* wall clock: what LASTSAVE shows */
    struct memory memory;
    _Atomic uint64_t loading_total, loading_done;
    _Atomic int64_t loading_since_ms, loading_since_us;     /* when the load began: wall clock, to be shown, and monotonic */
    _Atomic uint64_t imported_keys, imported_expired;       /* of an RDB file at the start: put in, and dropped */
    _Atomic bool imported_in_part;                          /* keys of it were evicted, or writes of the log were not run */
    struct waiting waiting;         /* base/waiting.h. A task or a job has ended, memory was freed, the role, a link, a replica or an ACK has changed;
                                     * for threads that serve no clients */
    struct pace pace;               /* of requests that take memory; thread-safe */
    struct client *_Atomic big_client;      /* holds the one big-call token (tier rule 7); NULL: free */
    char apart_too[64];

    /* FUNCTION STATS: replies a map with `name`, `command` and `duration_ms` of the script that runs, or null. NULL: none can run. */
    void (*reply_running_script)(struct engine *engine, struct reply *reply);
};

enum run_result {
    RUN_DONE,       /* replied (or nothing is to be replied) */
    RUN_PARKED,     /* run the same request again when worker->host.resume is called */
};

/* Runs one request of a client of this worker. The arguments are borrowed until it returns. */
enum run_result engine_run(struct worker *worker, struct client *client, const struct bytes *args, int arg_count);
/* The same for one that was looked at ahead (engine/prefetch.h). */
enum run_result engine_run_hinted(struct worker *worker, struct client *client, const struct bytes *args, int arg_count,
    const struct request_hint *hint);

/* Sum of a statistic over all workers (any thread). */
uint64_t engine_stat(const struct engine *engine, enum statistic stat);
void engine_reset_stats(struct engine *engine);
/* Returns the totals of a command over all workers (any thread). */
struct command_totals engine_command_totals(const struct engine *engine, const struct command *command);
void engine_command_latency(const struct engine *engine, const struct command *command, uint64_t counts[LATENCY_BUCKETS]);
/* Adds them to what is there: for sums of several commands. */
void engine_add_command_latency(const struct engine *engine, const struct command *command, uint64_t counts[LATENCY_BUCKETS]);
/* A dump or the log can't be written: writes of clients are refused. *number: the log's errno; 0: it is the dump. Any thread. */
bool engine_disks_fail(struct engine *engine, int *number);
/* The log's disk is full, and what was set aside on it is given up: calls that may take memory (COMMAND_DENYOOM) are refused, so that there is
 * room to log those that remove. */
static inline bool engine_disk_refuses_growth(const struct engine *engine)
{
    return engine->disk_is_full && engine->aof != NULL;
}
/* Changes since the last save (any thread). */
uint64_t engine_dirty(const struct engine *engine);
/* Changes since the start; a number to be compared with an earlier one (any thread). */
uint64_t engine_changes(const struct engine *engine);

/* Where the worker whose turn it is counts calls of the command. */
static inline struct command_stats *engine_stats_of(const struct engine *engine, struct turn *turn, const struct command *command)
{
    return command_stats_of(turn->command_stats, command->id, atomic_load_explicit(&engine->stats_epoch, memory_order_relaxed));
}
/* Whether keys that have expired are looked for, in RAM and in the store (DEBUG SET-ACTIVE-EXPIRE). Any thread. */
void engine_set_active_expire(struct engine *engine, bool on);
/* Reads the limits of the encodings, as the configuration has them, and the seed. Without a tier nothing gets into pages. */
void engine_limits(const struct engine *engine, struct value_limits *limits);

/* CLIENT PAUSE or FAILOVER: the data set does not change. */
static inline bool engine_is_paused(const struct engine *engine)
{
    return engine->pause_until_us != 0 || engine->holds_writes;
}

#endif
