/* Owners: which unit of work owns which partitions.
 *
 * A transaction or a script takes many calls, and waits between them for records, for other threads, or for its turn. It does not hold
 * mutexes meanwhile: it *owns* partitions. partition->owner is set and cleared under the partition's lock. Callers that change keys or show
 * them to clients test it and wait or skip; those that only move keys between the tiers do not.
 *
 * A *claim* asks for partitions, and possibly for the token: it gets all it asks for at once, or waits in one queue, first come, first
 * served. A claim that waits bars later claims from what it waits for; not while a slow claim has it, as that would only make others wait
 * longer. Only the holder of the token may wait while it owns something, so there is no circle of claims that wait for each other.
 *
 * Order of locks: `lock` is a leaf; partitions may be locked when it is taken.
 */
#ifndef KELVIN_KEYSPACE_OWNERS_H
#define KELVIN_KEYSPACE_OWNERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "keyspace/partition_lock.h"

struct claim;

struct partitions;

enum { PARTITION_WORDS = 64 };

/* A set of partitions, a bit for each. Words beyond the number of partitions are not read. */
struct partition_bits {
    uint64_t words[PARTITION_WORDS];
};

/* A client or a thread that found a partition owned, and is to be woken when the owner leaves. `claim` is under the owners' lock. */
struct owner_waiter {
    struct owner_waiter *prev, *next;
    struct claim *_Atomic claim;                    /* it waits for; NULL: for none. Set under the lock; its client's worker also reads it without */
    void (*wake)(struct owner_waiter *waiter);      /* called with the owners' lock held: leaf locks only */
};

struct claim {
    /* Set by the claimant before owners_claim. */
    struct partition_bits wanted;       /* what it asks for */
    bool wants_token;
    void (*granted)(struct claim *claim);           /* called with the owners' lock held */
    void *context;
    /* The owners' lock; read by the claimant once it was granted. */
    struct partition_bits owned;        /* reserved for it */
    bool has_token;
    struct claim *prev, *next;
    struct owner_waiter *waiters;
    _Atomic bool is_waiting;            /* in the queue. Read by the claimant without the lock */
    _Atomic bool slow;                  /* it takes long: later claims do not wait for those that wait for it */
    _Atomic int busy;                   /* not 0: it takes so long that clients which need what it owns are refused; the claimant's word why */
};

struct owners {
    struct mutex lock;
    uint32_t word_count;
    struct claim **holders;             /* by partition; NULL: none */
    struct claim *token_holder;
    struct claim *first, *last;         /* the queue */
};

void owners_init(struct owners *owners, uint32_t partition_count);
void owners_release(struct owners *owners);

static inline void partition_bits_add(struct partition_bits *bits, uint32_t index)
{
    bits->words[index / 64] |= 1ull << (index % 64);
}
static inline bool partition_bits_has(const struct partition_bits *bits, uint32_t index)
{
    return bits->words[index / 64] >> (index % 64) & 1;
}
/* The first partition in the set from `index` on; `count` (of all partitions) if there is none. */
static inline uint32_t partition_bits_next(const struct partition_bits *bits, uint32_t index, uint32_t count)
{
    while (index < count) {
        uint64_t left = bits->words[index / 64] >> (index % 64);

        if (left != 0)
            return index + (uint32_t)__builtin_ctzll(left);
        index = (index / 64 + 1) * 64;
    }
    return count;
}
/* Empties the set: as many words as there are partitions for. */
static inline void partition_bits_clear(struct partition_bits *bits, uint32_t count)
{
    for (uint32_t word = 0; word < (count + 63) / 64; word++)
        bits->words[word] = 0;
}
void partition_bits_fill(struct partition_bits *bits, uint32_t partition_count);

void claim_init(struct claim *claim, void (*granted)(struct claim *claim), void *context);

/* The same for a claim that was used before: what it owned was given up, and what it wants is empty. */
void claim_reuse(struct claim *claim, void (*granted)(struct claim *claim), void *context);

/* Reserves what the claim wants, in addition to what it owns. CLAIM_WAITS: `granted` will be called.
 * A claim that owns something already takes the token if it has to wait, and comes first in the queue; CLAIM_MUST_RESTART: another has the
 * token, so that it may not wait, and has to give up what it owns. */
enum claim_result { CLAIM_GRANTED, CLAIM_WAITS, CLAIM_MUST_RESTART };
enum claim_result owners_claim(struct owners *owners, struct claim *claim);
/* The claim waits no more for what it wants. It may have been granted just before. */
void owners_withdraw(struct owners *owners, struct claim *claim);
/* The owner fields of its partitions are cleared: gives up all it has, wakes those that wait for it. */
void owners_give(struct owners *owners, struct claim *claim);

/* Wakes those that wait for a claim, so that they look again (they may be refused now). Nothing is cleared. */
void owners_wake(struct owners *owners, struct claim *claim);
/* The same with the owner's claim, while a partition is locked that it owns (or anything else is, under which owners_give or owners_wake follows). */
void owners_await_claim(struct owners *owners, struct claim *claim, struct owner_waiter *waiter);
/* The waiter waits no more. Nothing happens if it did not. */
void owners_forget(struct owners *owners, struct owner_waiter *waiter);

/* On whose behalf partitions are shown. */
struct reader {
    const struct claim *as;     /* what this claim owns may be shown; NULL: there is none */
    bool may_block;             /* the thread is not a worker: it waits until an owner leaves */
};
/* Locks the partition unless another unit owns it. False: a unit does, and the reader may not block. */
bool partition_lock_for(struct partition *partition, const struct reader *reader) TRY_ACQUIRE(true, partition->lock) UNCHECKED_LOCKS;
/* For a thread that may block: the claim, which is the caller's, comes to own all partitions. owners_give ends that. Their owner fields are
 * not set: only other claims are kept out. */
void owners_claim_all(struct partitions *all, struct claim *claim);
/* Locks all partitions at an instant at which no unit owns one; no unit comes to own one before partitions_unlock_all_unowned. `claim` is
 * the caller's, for both. */
void partitions_lock_all_unowned(struct partitions *all, struct claim *claim) UNCHECKED_LOCKS;
void partitions_unlock_all_unowned(struct partitions *all, struct claim *claim) UNCHECKED_LOCKS;
/* In its place: unlocks them, and the claim goes on to own them all, as a unit does (their owner fields are set), until partitions_give_all. */
void partitions_unlock_all_owned(struct partitions *all, struct claim *claim) UNCHECKED_LOCKS;
void partitions_give_all(struct partitions *all, struct claim *claim);
/* For a thread that may block and owns nothing: waits until no other unit owns one of these partitions; then the claim owns them, and their owner
 * fields are set, until partitions_give. `claim`: the caller's, zero or used for this before. `lsn`: of the last change; 0: none. */
void partitions_own(struct partitions *all, struct claim *claim, const struct partition_bits *wanted);
void partitions_give(struct partitions *all, struct claim *claim, uint64_t lsn);

#endif
