#include "keyspace/owners.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "keyspace/partition.h"

void owners_init(struct owners *owners, uint32_t partition_count)
{
    *owners = (struct owners){ .word_count = (partition_count + 63) / 64 };
    mutex_init(&owners->lock);
    owners->holders = mem_zalloc(partition_count * sizeof(struct claim *));
}

void owners_release(struct owners *owners)
{
    mutex_release(&owners->lock);
    mem_free(owners->holders);
}

void partition_bits_fill(struct partition_bits *bits, uint32_t partition_count)
{
    for (uint32_t i = 0; i < partition_count; i++)
        partition_bits_add(bits, i);
}

void claim_init(struct claim *claim, void (*granted)(struct claim *claim), void *context)
{
    *claim = (struct claim){ .granted = granted, .context = context };
}

void claim_reuse(struct claim *claim, void (*granted)(struct claim *claim), void *context)
{
    CHECK(!claim->is_waiting && claim->waiters == NULL);
    claim->granted = granted;
    claim->context = context;
    claim->wants_token = claim->has_token = false;
    claim->slow = false;
    claim->busy = 0;
}

/* Calls `visit` for each partition in the set until it returns false; returns whether it always returned true. */
static bool for_each(const struct owners *owners, const struct partition_bits *bits,
    bool (*visit)(const struct owners *owners, uint32_t index, const struct claim *claim), const struct claim *claim)
{
    for (uint32_t word = 0; word < owners->word_count; word++) {
        for (uint64_t left = bits->words[word]; left != 0; left &= left - 1) {
            if (!visit(owners, word * 64 + (uint32_t)__builtin_ctzll(left), claim))
                return false;
        }
    }
    return true;
}

static bool is_free_for(const struct owners *owners, uint32_t index, const struct claim *claim)
{
    return owners->holders[index] == NULL || owners->holders[index] == claim;
}

static bool is_not_slow(const struct owners *owners, uint32_t index, const struct claim *claim)
{
    const struct claim *holder = owners->holders[index];

    return holder == NULL || holder == claim || !holder->slow;
}

static bool token_is_free_for(const struct owners *owners, const struct claim *claim)
{
    return owners->token_holder == NULL || owners->token_holder == claim;
}

static bool overlaps(const struct owners *owners, const struct partition_bits *a, const struct partition_bits *b)
{
    for (uint32_t word = 0; word < owners->word_count; word++) {
        if (a->words[word] & b->words[word])
            return true;
    }
    return false;
}

static void add_bits(const struct owners *owners, struct partition_bits *to, const struct partition_bits *from)
{
    for (uint32_t word = 0; word < owners->word_count; word++)
        to->words[word] |= from->words[word];
}

/* Partitions that waiting claims keep from later ones. */
struct barred {
    struct partition_bits bits;
    bool token;
};

static void bar(const struct owners *owners, struct barred *barred, const struct claim *claim)
{
    bool waits_for_slow = !for_each(owners, &claim->wanted, is_not_slow, claim) ||
        (claim->wants_token && owners->token_holder != NULL && owners->token_holder->slow);

    if (waits_for_slow)
        return;
    add_bits(owners, &barred->bits, &claim->wanted);
    barred->token |= claim->wants_token;
}

static bool may_have(const struct owners *owners, const struct barred *barred, const struct claim *claim)
{
    return for_each(owners, &claim->wanted, is_free_for, claim) && !overlaps(owners, &claim->wanted, &barred->bits) &&
           (!claim->wants_token || (token_is_free_for(owners, claim) && !barred->token));
}

static void take_token(struct owners *owners, struct claim *claim)
{
    claim->has_token = true;
    owners->token_holder = claim;
}

static void reserve(struct owners *owners, struct claim *claim)
{
    for (uint32_t word = 0; word < owners->word_count; word++) {
        for (uint64_t left = claim->wanted.words[word]; left != 0; left &= left - 1)
            owners->holders[word * 64 + (uint32_t)__builtin_ctzll(left)] = claim;
    }
    add_bits(owners, &claim->owned, &claim->wanted);
    if (claim->wants_token)
        take_token(owners, claim);
}

/* Returns whether the claim owns a partition already. Others may wait for that one, so the claim comes first. */
static bool has_any(const struct owners *owners, const struct claim *claim)
{
    if (claim->has_token)
        return true;
    for (uint32_t word = 0; word < owners->word_count; word++) {
        if (claim->owned.words[word] != 0)
            return true;
    }
    return false;
}

static void enqueue(struct owners *owners, struct claim *claim)
{
    bool in_front = has_any(owners, claim);

    claim->is_waiting = true;
    claim->prev = in_front ? NULL : owners->last;
    claim->next = in_front ? owners->first : NULL;
    *(claim->prev != NULL ? &claim->prev->next : &owners->first) = claim;
    *(claim->next != NULL ? &claim->next->prev : &owners->last) = claim;
}

static void dequeue(struct owners *owners, struct claim *claim)
{
    *(claim->prev != NULL ? &claim->prev->next : &owners->first) = claim->next;
    *(claim->next != NULL ? &claim->next->prev : &owners->last) = claim->prev;
    claim->is_waiting = false;
}

static bool try_locked(struct owners *owners, struct claim *claim)
{
    struct barred barred = { .token = false };

    if (!has_any(owners, claim)) {
        for (const struct claim *waiting = owners->first; waiting != NULL; waiting = waiting->next)
            bar(owners, &barred, waiting);
    }
    if (!may_have(owners, &barred, claim))
        return false;
    reserve(owners, claim);
    return true;
}

enum claim_result owners_claim(struct owners *owners, struct claim *claim)
{
    enum claim_result result = CLAIM_GRANTED;

    mutex_lock(&owners->lock);
    CHECK(!claim->is_waiting);
    if (!try_locked(owners, claim)) {
        if (has_any(owners, claim) && !token_is_free_for(owners, claim)) {
            result = CLAIM_MUST_RESTART;
        } else {
            if (has_any(owners, claim))
                take_token(owners, claim);
            enqueue(owners, claim);
            result = CLAIM_WAITS;
        }
    }
    mutex_unlock(&owners->lock);
    return result;
}

/* Something has become free: gives it to those that wait, in order. */
static void grant(struct owners *owners)
{
    struct barred barred = { .token = false };
    struct claim *next;

    for (struct claim *claim = owners->first; claim != NULL; claim = next) {
        next = claim->next;
        if (!may_have(owners, &barred, claim)) {
            bar(owners, &barred, claim);
            continue;
        }
        dequeue(owners, claim);
        reserve(owners, claim);
        claim->granted(claim);
    }
}

static void wake_all(struct claim *claim)
{
    while (claim->waiters != NULL) {
        struct owner_waiter *waiter = claim->waiters;

        claim->waiters = waiter->next;
        if (waiter->next != NULL)
            waiter->next->prev = NULL;
        waiter->claim = NULL;
        waiter->wake(waiter);
    }
}

void owners_withdraw(struct owners *owners, struct claim *claim)
{
    mutex_lock(&owners->lock);
    if (claim->is_waiting) {
        dequeue(owners, claim);
        grant(owners);
    }
    mutex_unlock(&owners->lock);
}

void owners_give(struct owners *owners, struct claim *claim)
{
    mutex_lock(&owners->lock);
    CHECK(!claim->is_waiting);
    for (uint32_t word = 0; word < owners->word_count; word++) {
        for (uint64_t left = claim->owned.words[word]; left != 0; left &= left - 1)
            owners->holders[word * 64 + (uint32_t)__builtin_ctzll(left)] = NULL;
        claim->owned.words[word] = 0;
    }
    if (owners->token_holder == claim)
        owners->token_holder = NULL;
    claim->has_token = false;
    wake_all(claim);
    grant(owners);
    mutex_unlock(&owners->lock);
}

void owners_wake(struct owners *owners, struct claim *claim)
{
    mutex_lock(&owners->lock);
    wake_all(claim);
    grant(owners);              /* a claim that is slow bars no other any more */
    mutex_unlock(&owners->lock);
}

/* With the partition locked, and owned: the waiter is woken when the owner leaves. */
static void owners_await(struct owners *owners, struct partition *partition, struct owner_waiter *waiter)
{
    ASSERT_LOCKED(partition);
    CHECK(partition->owner != NULL);
    owners_await_claim(owners, partition->owner, waiter);
}

void owners_await_claim(struct owners *owners, struct claim *claim, struct owner_waiter *waiter)
{
    mutex_lock(&owners->lock);
    CHECK(waiter->claim == NULL);
    waiter->claim = claim;
    waiter->prev = NULL;
    waiter->next = claim->waiters;
    if (claim->waiters != NULL)
        claim->waiters->prev = waiter;
    claim->waiters = waiter;
    mutex_unlock(&owners->lock);
}

void owners_forget(struct owners *owners, struct owner_waiter *waiter)
{
    mutex_lock(&owners->lock);
    if (waiter->claim != NULL) {
        *(waiter->prev != NULL ? &waiter->prev->next : &waiter->claim->waiters) = waiter->next;
        if (waiter->next != NULL)
            waiter->next->prev = waiter->prev;
        waiter->claim = NULL;
    }
    mutex_unlock(&owners->lock);
}

/* A thread that blocks until it is woken. */
struct sleeper {
    struct owner_waiter waiter;
    struct mutex lock;
    struct condition woken;
    bool is_woken;              /* lock */
};

static void sleeper_init(struct sleeper *sleeper)
{
    *sleeper = (struct sleeper){ .is_woken = false };
    mutex_init(&sleeper->lock);
    condition_init(&sleeper->woken);
}

static void sleeper_release(struct sleeper *sleeper)
{
    mutex_release(&sleeper->lock);
    condition_release(&sleeper->woken);
}

static void wake_sleeper(struct sleeper *sleeper)
{
    mutex_lock(&sleeper->lock);
    sleeper->is_woken = true;
    condition_signal(&sleeper->woken);
    mutex_unlock(&sleeper->lock);
}

static void wake_waiter(struct owner_waiter *waiter)
{
    wake_sleeper((struct sleeper *)waiter);
}

static void wake_claimant(struct claim *claim)
{
    wake_sleeper(claim->context);
}

static void sleep_until_woken(struct sleeper *sleeper)
{
    mutex_lock(&sleeper->lock);
    while (!sleeper->is_woken)
        condition_wait(&sleeper->woken, &sleeper->lock);
    sleeper->is_woken = false;
    mutex_unlock(&sleeper->lock);
}

/* The sleeper is on this stack: the thread that wakes it must be done with it before it goes. */
static void wait_for_owner(struct owners *owners, struct partition *partition) RELEASE(partition->lock) UNCHECKED_LOCKS;
static void wait_for_owner(struct owners *owners, struct partition *partition)
{
    struct sleeper sleeper;

    sleeper_init(&sleeper);
    sleeper.waiter.wake = wake_waiter;
    owners_await(owners, partition, &sleeper.waiter);
    partition_unlock(partition);
    sleep_until_woken(&sleeper);
    mutex_lock(&owners->lock);
    mutex_unlock(&owners->lock);
    sleeper_release(&sleeper);
}

bool partition_lock_for(struct partition *partition, const struct reader *reader)
{
    partition_lock(partition);
    while (UNLIKELY(partition->owner != NULL) && partition->owner != reader->as) {
        if (!reader->may_block) {
            partition_unlock(partition);
            return false;
        }
        wait_for_owner(&partition->all->owners, partition);
        partition_lock(partition);
    }
    return true;
}

static void wake_by(struct claim *claim, struct sleeper *sleeper)
{
    claim->granted = wake_claimant;
    claim->context = sleeper;
}

/* Until the claim has what it wants. */
static void claim_in_place(struct partitions *all, struct claim *claim)
{
    struct sleeper sleeper;

    sleeper_init(&sleeper);
    wake_by(claim, &sleeper);
    if (owners_claim(&all->owners, claim) == CLAIM_WAITS) {
        sleep_until_woken(&sleeper);
        mutex_lock(&all->owners.lock);          /* the claim that woke us has done with the sleeper */
        mutex_unlock(&all->owners.lock);
    }
    wake_by(claim, NULL);
    sleeper_release(&sleeper);
}

void owners_claim_all(struct partitions *all, struct claim *claim)
{
    claim_init(claim, wake_claimant, NULL);
    partition_bits_fill(&claim->wanted, all->count);
    claim_in_place(all, claim);
}

void partitions_own(struct partitions *all, struct claim *claim, const struct partition_bits *wanted)
{
    claim_reuse(claim, wake_claimant, NULL);
    for (uint32_t word = 0; word < all->owners.word_count; word++)
        claim->wanted.words[word] = wanted->words[word];
    claim_in_place(all, claim);
    for (uint32_t i = 0; (i = partition_bits_next(wanted, i, all->count)) < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        all->obstacle_count++;
        partition_lock(partition);
        partition->owner = claim;
        partition_unlock(partition);
    }
}

void partitions_give(struct partitions *all, struct claim *claim, uint64_t lsn)
{
    for (uint32_t i = 0; (i = partition_bits_next(&claim->owned, i, all->count)) < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        partition_lock(partition);
        partition->owner = NULL;
        partition_note_change(partition, lsn);
        partition_unlock(partition);
        all->obstacle_count--;
    }
    partition_bits_clear(&claim->wanted, all->count);
    owners_give(&all->owners, claim);
}

void partitions_lock_all_unowned(struct partitions *all, struct claim *claim)
{
    owners_claim_all(all, claim);
    partitions_lock_all(all);
}

void partitions_unlock_all_unowned(struct partitions *all, struct claim *claim)
{
    partitions_unlock_all(all);
    owners_give(&all->owners, claim);
}

void partitions_unlock_all_owned(struct partitions *all, struct claim *claim)
{
    all->obstacle_count += all->count;
    for (uint32_t i = 0; i < all->count; i++)
        all->partitions[i].owner = claim;
    partitions_unlock_all(all);
}

void partitions_give_all(struct partitions *all, struct claim *claim)
{
    partitions_lock_all(all);
    for (uint32_t i = 0; i < all->count; i++)
        all->partitions[i].owner = NULL;
    all->obstacle_count -= all->count;
    partitions_unlock_all(all);
    owners_give(&all->owners, claim);
}
