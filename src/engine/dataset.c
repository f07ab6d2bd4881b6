#include "engine/dataset.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/event.h"
#include "engine/lazy_free.h"
#include "engine/redirect.h"
#include "engine/unit.h"
#include "tier/image.h"

struct dataset_job {
    struct job job;
    struct reader reader;           /* on behalf of which unit it reads */
    int db;
    uint64_t cursor;
    uint16_t slot;
    size_t count;
    bool has_pattern;
    struct buffer pattern;
    int64_t now_ms;
    uint64_t total;
    enum status status;             /* of counting */
    uint64_t lsn;                   /* of the last change that may be seen in the result */
    struct scan_page page;
};

static void release_job(struct job *base)
{
    struct dataset_job *job = (struct dataset_job *)base;

    scan_page_release(&job->page);
    buffer_release(&job->pattern);
    mem_free(job);
}

/* Returns the claim that owns partitions for this call. NULL: none does. */
static const struct claim *claim_of(const struct call *call)
{
    if (call->turn->group_claim != NULL)
        return call->turn->group_claim;
    return call->unit != NULL ? &call->unit->claim : NULL;
}

static struct dataset_job *create_job(struct call *call, void (*run)(struct job *job, struct engine *engine), int db)
{
    struct dataset_job *job = mem_zalloc(sizeof(*job));

    job->job.run = run;
    job->job.release = release_job;
    job->db = db;
    job->reader.as = claim_of(call);
    job->now_ms = call->turn->now_ms;
    return job;
}

static bool has_cold(const struct call *call, int db)
{
    return call->engine->tier != NULL && tier_has_cold(call->engine->tier, db);
}

/* As execute_once does for the partitions of a call's keys: the reply waits until the log covers what it shows. */
static void note_lsn(struct call *call, uint64_t lsn)
{
    if (lsn > call->turn->lsn_seen)
        call->turn->lsn_seen = lsn;
    if (lsn > call->client->lsn.needed)
        call->client->lsn.needed = lsn;
}

static void run_count(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;

    job->status = tier_count(engine->tier, job->db, job->reader.as != NULL, &job->total);
    job->lsn = partitions_last_lsn(engine->partitions);
}

static bool is_readable(struct call *call, enum status status)
{
    if (status != STATUS_OK)
        reply_error(call, ERR_TIER_READ);
    return status == STATUS_OK;
}

/* On a job's thread it may wait for owners. */
static void start_job(struct call *call, struct dataset_job *job)
{
    job->reader.may_block = true;
    call_start_job(call, &job->job);
}

bool dataset_count(struct call *call, int db, uint64_t *count)
{
    struct dataset_job *done = call_job(call);

    if (done != NULL) {
        *count = done->total;
        note_lsn(call, done->lsn);
        return is_readable(call, done->status);
    }
    if (call->engine->tier == NULL) {
        *count = partitions_entry_count(call->partitions, db);
    } else if (!tier_count_now(call->engine->tier, claim_of(call), db, count)) {
        start_job(call, create_job(call, run_count, db));
        return false;
    }
    note_lsn(call, partitions_last_lsn(call->partitions));
    return true;
}

enum status dataset_size(struct engine *engine, const struct claim *as, int db, uint64_t *count)
{
    if (engine->tier != NULL)
        return tier_count(engine->tier, db, as != NULL, count);
    *count = partitions_entry_count(engine->partitions, db);
    return STATUS_OK;
}

/* Another node sends it to this one, which does not serve it yet. */
static bool is_received(const struct engine *engine, struct bytes key)
{
    return redirect_receives(engine->redirect) && redirect_state(engine->redirect, slot_first_hash(slot_of_key(key))) == SLOT_RECEIVED;
}

/* Takes expired keys, those that do not match, and those of slots that are received out of a page. */
static void page_filter(const struct engine *engine, struct scan_page *page, const struct bytes *pattern, int64_t now_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < page->count; i++) {
        if (is_received(engine, scan_page_key(page, i)))
            continue;
        if (page->keys[i].expire_ms >= 0 && page->keys[i].expire_ms <= now_ms)
            continue;
        if (pattern != NULL && !text_matches(*pattern, scan_page_key(page, i), TEXT_CASE_EXACT))
            continue;
        page->keys[kept++] = page->keys[i];
    }
    page->count = kept;
}

static void release_with_call(struct call *call, struct dataset_job *job)
{
    /* Work done in place is handled like a finished job: the engine releases it after the call. */
    job->job.done = true;
    job->job.client = call->client;
    call->requester->job = &job->job;
}

/* Runs in place unless something has to be read from the disk, and if no other unit owns what is read. */
static bool run_in_place(struct call *call, struct dataset_job *job, bool reads_disk)
{
    if (!reads_disk) {
        job->job.run(&job->job, call->engine);
        if (job->page.status != STATUS_LOCKED) {
            release_with_call(call, job);
            return true;
        }
        scan_page_release(&job->page);
        job->page = (struct scan_page){ 0 };
    }
    start_job(call, job);
    return false;
}

static void read_page(struct dataset_job *job, struct engine *engine, uint64_t cursor, size_t count, const struct bytes *pattern,
    struct scan_page *page)
{
    tier_scan(engine->tier, engine->partitions, &job->reader, job->db, cursor, count, page);
    page_filter(engine, page, pattern, job->now_ms);
    if (page->lsn > job->lsn)
        job->lsn = page->lsn;
}

static void run_scan(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;

    read_page(job, engine, job->cursor, job->count, NULL, &job->page);
}

bool dataset_scan(struct call *call, uint64_t cursor, size_t count, struct scan_page **page)
{
    struct dataset_job *job = call_job(call);

    if (job == NULL) {
        job = create_job(call, run_scan, call->db);
        job->cursor = cursor;
        job->count = count;
        if (!run_in_place(call, job, has_cold(call, call->db)))
            return false;
    }
    note_lsn(call, job->lsn);
    *page = &job->page;
    return true;
}

/* A walk over everything, filtered as it goes. */
static void run_keys(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;
    struct bytes pattern = buffer_bytes(&job->pattern);
    uint64_t cursor = 0;

    do {
        struct scan_page page = { 0 };

        read_page(job, engine, cursor, 1000, job->has_pattern ? &pattern : NULL, &page);
        for (size_t i = 0; i < page.count; i++)
            scan_page_add(&job->page, scan_page_key(&page, i), page.keys[i].type, page.keys[i].expire_ms);
        job->page.status = page.status;
        cursor = page.cursor;
        scan_page_release(&page);
    } while (cursor != 0 && job->page.status == STATUS_OK);
}

bool dataset_keys(struct call *call, const struct bytes *pattern, struct scan_page **page)
{
    struct dataset_job *job = call_job(call);

    if (job == NULL) {
        job = create_job(call, run_keys, call->db);
        job->has_pattern = pattern != NULL;
        if (pattern != NULL)
            buffer_append_bytes(&job->pattern, *pattern);
        if (!run_in_place(call, job, has_cold(call, call->db)))
            return false;
    }
    note_lsn(call, job->lsn);
    *page = &job->page;
    return true;
}

/* From a random place on, until there is a page with keys; once around. */
static void run_random(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;
    uint64_t cursor = job->cursor;
    bool wrapped = false;

    for (;;) {
        scan_page_release(&job->page);
        read_page(job, engine, cursor, 16, NULL, &job->page);
        if (job->page.count > 0 || job->page.status != STATUS_OK)
            return;
        cursor = job->page.cursor;
        if (wrapped && (cursor == 0 || cursor > job->cursor))
            return;
        if (cursor == 0)
            wrapped = true;
    }
}

bool dataset_random(struct call *call, bool *found, struct bytes *key)
{
    struct dataset_job *job = call_job(call);

    if (job == NULL) {
        job = create_job(call, run_random, call->db);
        job->cursor = random_next(&call->turn->random) >> 16;
        if (!run_in_place(call, job, has_cold(call, call->db)))
            return false;
    }
    note_lsn(call, job->lsn);
    if (!is_readable(call, job->page.status))
        return false;
    *found = job->page.count > 0;
    if (*found)
        *key = arena_copy(call->arena, scan_page_key(&job->page, random_below(&call->turn->random, job->page.count)));
    return true;
}

static void run_slot_count(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;

    if (!tier_slot_count_now(engine->partitions, &job->reader, job->db, job->slot, &job->total))
        job->status = tier_slot_count(engine->tier, &job->reader, job->db, job->slot, &job->total);
    job->lsn = partitions_last_lsn(engine->partitions);
}

enum status dataset_slot_size(struct engine *engine, const struct claim *as, int db, uint16_t slot, uint64_t *count)
{
    struct reader reader = { .as = as, .may_block = true };

    if (tier_slot_count_now(engine->partitions, &reader, db, slot, count))
        return STATUS_OK;
    return tier_slot_count(engine->tier, &reader, db, slot, count);
}

enum status dataset_slot_has_keys(struct engine *engine, uint16_t slot, bool *has_keys)
{
    enum status status = STATUS_OK;
    uint64_t count = 0;

    for (int db = 0; db < engine->partitions->db_count && count == 0 && status == STATUS_OK; db++)
        status = dataset_slot_size(engine, NULL, db, slot, &count);
    *has_keys = count > 0;
    return status;
}

bool dataset_slot_count(struct call *call, int db, uint16_t slot, uint64_t *count)
{
    struct dataset_job *job = call_job(call);

    if (job != NULL) {
        *count = job->total;
        note_lsn(call, job->lsn);
        return is_readable(call, job->status);
    }
    if (!tier_slot_count_now(call->partitions, &(struct reader){ .as = claim_of(call) }, db, slot, count)) {
        job = create_job(call, run_slot_count, db);
        job->slot = slot;
        start_job(call, job);
        return false;
    }
    note_lsn(call, partitions_last_lsn(call->partitions));
    return true;
}

static void run_slot_keys(struct job *base, struct engine *engine)
{
    struct dataset_job *job = (struct dataset_job *)base;

    tier_slot_list(engine->tier, engine->partitions, &job->reader, job->db, job->slot, job->count, &job->page);
    job->lsn = job->page.lsn;
}

bool dataset_slot_keys(struct call *call, int db, uint16_t slot, size_t count, struct scan_page **page)
{
    struct dataset_job *job = call_job(call);

    if (job == NULL) {
        job = create_job(call, run_slot_keys, db);
        job->slot = slot;
        job->count = count;
        if (!run_in_place(call, job, tier_slot_has_cold(call->partitions, db, slot)))
            return false;
    }
    note_lsn(call, job->lsn);
    *page = &job->page;
    return is_readable(call, job->page.status);
}

void dataset_empty(struct engine *engine, int db)
{
    struct partitions *all = engine->partitions;
    struct keyspace **old = mem_zalloc(2 * all->count * sizeof(*old));

    redirect_note_flush(engine->redirect);
    partitions_flush(all, db, old);
    for (uint32_t i = 0; i < 2 * all->count; i++) {
        if (old[i] == NULL || (engine->tier != NULL && tier_keep_flushed(engine->tier, old[i])))
            continue;
        if (engine->tier != NULL)
            tier_forget(engine->tier, old[i]);
        lazy_free_keyspace(engine->lazy_free, old[i]);
    }
    mem_free(old);
}

void dataset_flush(struct call *call, int db)
{
    event_note_flush(call, db);
    dataset_empty(call->engine, db);
    call->change_count++;
}

void dataset_flush_all(struct call *call)
{
    for (int db = 0; db < call->partitions->db_count; db++) {
        event_note_flush(call, db);
        dataset_empty(call->engine, db);
    }
    call->change_count++;
}

void dataset_swap(struct call *call, int a, int b)
{
    event_note_swap(call, a, b);
    if (a != b)
        partitions_swap(call->partitions, a, b);
    call->change_count++;
}
