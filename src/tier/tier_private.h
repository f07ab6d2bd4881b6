/* The tier itself: what the files of this room share, and the parts that each of them owns. No other room includes it.
 *
 * A part's fields are touched by the file that it is named after; other files call that file's functions.
 */
#ifndef KELVIN_TIER_PRIVATE_H
#define KELVIN_TIER_PRIVATE_H

#include "tier/access.h"
#include "tier/batch.h"
#include "tier/count.h"
#include "tier/damage.h"
#include "tier/epoch.h"
#include "tier/expiry.h"
#include "tier/outdated.h"
#include "tier/handover.h"
#include "tier/latch.h"
#include "tier/load.h"
#include "tier/look_up.h"
#include "tier/oversized.h"
#include "tier/packed.h"
#include "tier/packing.h"
#include "tier/request.h"
#include "tier/shed.h"
#include "tier/key_rules.h"
#include "tier/statistics.h"
#include "tier/stuck.h"
#include "tier/tier.h"
#include "tier/training.h"
#include "tier/usage.h"

struct advise;
struct collect;
struct demotion;
struct purge;
struct read_pool;
struct replacing;
struct sealing;
struct warm;
struct writer;
struct writing;

struct tier {
    struct store *store;                /* changed by tier_replace only, at an instant at which no other thread uses it. NULL: it failed */
    struct mutex store_lock;            /* before the partitions; for statistics, which are asked for at any time. `warm`, too */
    _Atomic bool store_changes;         /* that lock is held for long: INFO goes without */
    struct store_options store_options; /* `dir` is ours. The writer's, for another store */
    /* Immutable after tier_start. */
    struct store_env *env;              /* ours; NULL: the caller's, in the store */
    char *dir, *images;                 /* see tier_options */
    struct partitions *partitions;
    struct tier_hooks hooks;

    struct tier_settings settings;
    struct rulebook rules;
    _Atomic int state;                  /* enum tier_state: writing.c */
    _Atomic bool stopping;              /* tier_stop: all threads end */
    _Atomic bool expire_cold;           /* not while replaying */
    _Atomic bool holds_big;             /* the writer's (batch.c): see tier_holds_big */
    _Atomic uint64_t memtable_room;     /* the writer's: see tier_memtable_room */
    struct statistics statistics;
    struct damage damage;

    /* Any thread. */
    _Atomic uint64_t loads_waiting;     /* loads that were posted and have not ended */
    _Atomic uint64_t loads_bytes;       /* load_size of those */
    struct {
        _Atomic int worker_count;       /* open rings of workers' readers */
        _Atomic int refused;            /* that could not be opened */
    } rings;                            /* reader.c */
    struct access access;
    uint64_t machine_memory;                /* bytes, when it was started */
    _Atomic uint32_t drop_lists;            /* that there may be in all page spaces (drops.c) */
    _Atomic uint32_t drops_at_once;         /* DROPS_AT_ONCE; in tests less, or 0: the writer does not go on with drops either */
    uint64_t map_file_min;                  /* tags_save.c: bytes from which on a map has a file of its own */
    struct read_pool *read_pool;
    struct advise *advise;
    struct counting counting;
    struct requests requests;
    struct latch latch;                 /* partition lock */
    struct packed packed;               /* partition lock, and the writer */
    struct purge *purge;
    struct collect *collect;
    struct warm *_Atomic warm;          /* NULL: there is no warm-up. Changed by tier_warm_up and tier_replace */

    /* The checkpoint. */
    struct epoch epoch;
    struct handover handover;
    struct mutex image_turn;            /* image.c: one image at a time. Before all other locks */
    _Atomic bool image_cancelled;       /* image.c: the image that is being made is not wanted any more */
    struct sealing *sealing;            /* the writer's; NULL: none */

    /* The writer's. */
    struct writer *writer;
    struct writing *writing;
    struct demotion *demotion;
    struct demoted demoted;
    struct packing packing;
    struct training training;
    struct stuck stuck;
    struct oversized oversized;
    struct expiry_walk expiry;
    struct shed shed;
    struct store_size size;
    struct outdated outdated;
    struct tier_reader *look_ups;
};

/* The keyspace with this incarnation, wherever SWAPDB has put it. NULL: it was flushed. */
struct keyspace *tier_living_keyspace(struct partition *partition, uint32_t incarnation) REQUIRES(partition->lock);
/* The same, also one that is kept for a checkpoint after a flush. */
struct keyspace *tier_keyspace_of(struct partition *partition, uint32_t incarnation) REQUIRES(partition->lock);

/* A pass or an image of a checkpoint is under way. The writer. */
static inline bool tier_is_sealing(const struct tier *tier)
{
    return tier->sealing != NULL;
}

/* Returns what the rules say of an entry, KEY_RULES_BY_USES for a page; the partition is locked. */
enum key_rules_verdict tier_judge(const struct key_rules *rules, const struct keyspace *keyspace, const struct entry *entry) REQUIRES(keyspace->partition->lock);
/* The same, by the rules that are valid: it must stay in RAM. */
bool tier_keeps(struct tier *tier, const struct keyspace *keyspace, const struct entry *entry) REQUIRES(keyspace->partition->lock);

/* Counts an error and keeps it for tier_last_error. */
void tier_note_error(struct tier *tier, const char *what, enum status status);
void tier_note_message(struct tier *tier, const char *text);    /* the same, in a sentence */

#endif
