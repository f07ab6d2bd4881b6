#include "stats/hot_keys.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"

enum { BUCKETS = HOT_KEYS_TRACKED * 2, NONE = UINT16_MAX };

struct counter {
    uint64_t hash, weight, error;
    struct bytes name;              /* owned */
    uint16_t next;                  /* in its bucket */
    uint16_t at;                    /* in the heap */
};

struct summary {
    uint32_t count;
    struct counter counters[HOT_KEYS_TRACKED];
    uint16_t heap[HOT_KEYS_TRACKED];        /* counters; the smallest weight is the root */
    uint16_t buckets[BUCKETS];
};

struct hot_keys {
    struct hot_keys_flag flag;
    struct mutex lock;
    struct hash_seed seed;
    struct random random;           /* lock, like all below */
    struct hot_keys_plan plan;
    bool has_session;
    int64_t started_ms, ended_ms;   /* ended_ms counts if it is not active */
    uint64_t user_ms, system_ms;    /* of the process: at the start; once it has ended, its own */
    uint64_t total[HOT_METRICS];
    struct summary *summaries[HOT_METRICS];         /* NULL: not wanted */
};

struct hot_keys *hot_keys_create(const struct hash_seed *seed)
{
    struct hot_keys *keys = mem_zalloc(sizeof(*keys));

    mutex_init(&keys->lock);
    keys->seed = *seed;
    random_init(&keys->random, seed->k0);
    return keys;
}

/* The summary of one metric. */

static struct summary *summary_create(void)
{
    struct summary *summary = mem_zalloc(sizeof(*summary));

    for (size_t i = 0; i < BUCKETS; i++)
        summary->buckets[i] = NONE;
    return summary;
}

static void summary_destroy(struct summary *summary)
{
    if (summary == NULL)
        return;
    for (uint32_t i = 0; i < summary->count; i++)
        mem_free((char *)summary->counters[i].name.data);
    mem_free(summary);
}

static void heap_put(struct summary *summary, uint32_t at, uint16_t counter)
{
    summary->heap[at] = counter;
    summary->counters[counter].at = (uint16_t)at;
}

static uint64_t weight_at(const struct summary *summary, uint32_t at)
{
    return summary->counters[summary->heap[at]].weight;
}

/* Weights only grow, so a counter moves away from the root. */
static void heap_settle(struct summary *summary, uint32_t at)
{
    uint16_t counter = summary->heap[at];
    uint64_t weight = summary->counters[counter].weight;

    for (;;) {
        uint32_t child = at * 2 + 1;

        if (child + 1 < summary->count && weight_at(summary, child + 1) < weight_at(summary, child))
            child++;
        if (child >= summary->count || weight_at(summary, child) >= weight)
            break;
        heap_put(summary, at, summary->heap[child]);
        at = child;
    }
    heap_put(summary, at, counter);
}

static void heap_add(struct summary *summary, uint16_t counter)
{
    uint32_t at = summary->count++;
    uint64_t weight = summary->counters[counter].weight;

    for (; at > 0 && weight_at(summary, (at - 1) / 2) > weight; at = (at - 1) / 2)
        heap_put(summary, at, summary->heap[(at - 1) / 2]);
    heap_put(summary, at, counter);
}

static void bucket_add(struct summary *summary, uint16_t counter)
{
    uint16_t *bucket = &summary->buckets[summary->counters[counter].hash % BUCKETS];

    summary->counters[counter].next = *bucket;
    *bucket = counter;
}

static void bucket_remove(struct summary *summary, uint16_t counter)
{
    uint16_t *at = &summary->buckets[summary->counters[counter].hash % BUCKETS];

    while (*at != counter)
        at = &summary->counters[*at].next;
    *at = summary->counters[counter].next;
}

static uint16_t find_counted(const struct summary *summary, uint64_t hash, struct bytes name)
{
    uint16_t at = summary->buckets[hash % BUCKETS];

    while (at != NONE && (summary->counters[at].hash != hash || !bytes_equal(summary->counters[at].name, name)))
        at = summary->counters[at].next;
    return at;
}

static struct bytes copy_name(struct bytes name)
{
    char *copy = mem_alloc(name.size + 1);

    if (name.size > 0)
        memcpy(copy, name.data, name.size);
    return bytes_of(copy, name.size);
}

static void summary_note(struct summary *summary, uint64_t hash, struct bytes name, uint64_t weight)
{
    uint16_t at = find_counted(summary, hash, name);
    struct counter *counter;
    bool is_new = at == NONE && summary->count < HOT_KEYS_TRACKED;

    if (at != NONE) {
        summary->counters[at].weight += weight;
        heap_settle(summary, summary->counters[at].at);
        return;
    }
    at = is_new ? (uint16_t)summary->count : summary->heap[0];
    counter = &summary->counters[at];
    if (!is_new) {
        bucket_remove(summary, at);
        mem_free((char *)counter->name.data);
    }
    counter->error = counter->weight;
    counter->weight += weight;
    counter->hash = hash;
    counter->name = copy_name(name);
    bucket_add(summary, at);
    if (is_new)
        heap_add(summary, at);
    else
        heap_settle(summary, 0);
}

/* Larger weights first; by name if they are equal, so that reports do not depend on chance. */
static int compare_counts(const void *a, const void *b)
{
    const struct hot_key *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return bytes_compare(x->name, y->name);
}

static struct hot_key *summary_report(const struct summary *summary, uint32_t count_max, size_t *count)
{
    struct hot_key *keys = mem_alloc(HOT_KEYS_TRACKED * sizeof(*keys));
    size_t found = 0;

    for (uint32_t i = 0; i < summary->count; i++) {
        const struct counter *counter = &summary->counters[i];

        if (counter->weight > counter->error)
            keys[found++] = (struct hot_key){ counter->name, counter->weight - counter->error };
    }
    qsort(keys, found, sizeof(*keys), compare_counts);
    *count = found < count_max ? found : count_max;
    for (size_t i = 0; i < *count; i++)
        keys[i].name = copy_name(keys[i].name);
    return keys;
}

/* The session. All with the lock held. */

static uint64_t milliseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

/* CPU time of the process since `from`, which is then that. */
static void read_cpu(uint64_t *user_ms, uint64_t *system_ms)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    *user_ms = milliseconds(usage.ru_utime) - *user_ms;
    *system_ms = milliseconds(usage.ru_stime) - *system_ms;
}

static void forget(struct hot_keys *keys)
{
    for (int i = 0; i < HOT_METRICS; i++) {
        summary_destroy(keys->summaries[i]);
        keys->summaries[i] = NULL;
        keys->total[i] = 0;
    }
    keys->user_ms = keys->system_ms = 0;
    keys->has_session = false;
}

static void end(struct hot_keys *keys, int64_t at_ms)
{
    keys->flag.active = false;
    keys->ended_ms = at_ms;
    read_cpu(&keys->user_ms, &keys->system_ms);
}

/* Ends it if its time is up. */
static void check_time(struct hot_keys *keys, int64_t now_ms)
{
    if (keys->flag.active && keys->plan.duration_ms > 0 && now_ms - keys->started_ms >= keys->plan.duration_ms)
        end(keys, keys->started_ms + keys->plan.duration_ms);
}

void hot_keys_destroy(struct hot_keys *keys)
{
    if (keys == NULL)
        return;
    forget(keys);
    mutex_release(&keys->lock);
    mem_free(keys);
}

bool hot_keys_start(struct hot_keys *keys, const struct hot_keys_plan *plan, int64_t now_ms)
{
    bool may_start;

    mutex_lock(&keys->lock);
    check_time(keys, now_ms);
    may_start = !keys->flag.active;
    if (may_start) {
        forget(keys);
        keys->plan = *plan;
        keys->started_ms = now_ms;
        for (int i = 0; i < HOT_METRICS; i++)
            keys->summaries[i] = plan->metrics[i] ? summary_create() : NULL;
        read_cpu(&keys->user_ms, &keys->system_ms);
        keys->has_session = true;
        keys->flag.active = true;
    }
    mutex_unlock(&keys->lock);
    return may_start;
}

bool hot_keys_stop(struct hot_keys *keys, int64_t now_ms)
{
    bool has_session;

    mutex_lock(&keys->lock);
    check_time(keys, now_ms);
    if (keys->flag.active)
        end(keys, now_ms);
    has_session = keys->has_session;
    mutex_unlock(&keys->lock);
    return has_session;
}

bool hot_keys_reset(struct hot_keys *keys, int64_t now_ms)
{
    bool may_reset;

    mutex_lock(&keys->lock);
    check_time(keys, now_ms);
    may_reset = !keys->flag.active;
    if (may_reset)
        forget(keys);
    mutex_unlock(&keys->lock);
    return may_reset;
}

static void fill_report(const struct hot_keys *keys, int64_t now_ms, struct hot_keys_report *report)
{
    *report = (struct hot_keys_report){
        .active = keys->flag.active,
        .plan = keys->plan,
        .duration_ms = (keys->flag.active ? now_ms : keys->ended_ms) - keys->started_ms,
        .user_ms = keys->user_ms,
        .system_ms = keys->system_ms,
    };
    if (report->active)
        read_cpu(&report->user_ms, &report->system_ms);
    for (int i = 0; i < HOT_METRICS; i++) {
        report->total[i] = keys->total[i];
        if (keys->summaries[i] != NULL)
            report->keys[i] = summary_report(keys->summaries[i], keys->plan.count, &report->key_count[i]);
    }
}

bool hot_keys_report(struct hot_keys *keys, int64_t now_ms, struct hot_keys_report *report)
{
    bool has_session;

    mutex_lock(&keys->lock);
    check_time(keys, now_ms);
    has_session = keys->has_session;
    if (has_session)
        fill_report(keys, now_ms, report);
    mutex_unlock(&keys->lock);
    return has_session;
}

void hot_keys_report_release(struct hot_keys_report *report)
{
    for (int i = 0; i < HOT_METRICS; i++) {
        for (size_t j = 0; j < report->key_count[i]; j++)
            mem_free((char *)report->keys[i][j].name.data);
        mem_free(report->keys[i]);
    }
}

static void note_name(struct hot_keys *keys, struct bytes name, const uint64_t weights[HOT_METRICS])
{
    uint64_t hash;

    if (name.size > HOT_KEYS_NAME_SIZE_MAX)
        return;
    hash = hash_bytes(&keys->seed, name);
    for (int i = 0; i < HOT_METRICS; i++) {
        if (keys->summaries[i] != NULL && weights[i] > 0)
            summary_note(keys->summaries[i], hash, name, weights[i]);
    }
}

void hot_keys_note(struct hot_keys *keys, int64_t now_ms, const struct bytes *names, size_t count, uint64_t ns, uint64_t bytes)
{
    mutex_lock(&keys->lock);
    check_time(keys, now_ms);
    if (keys->flag.active) {
        keys->total[HOT_TIME] += ns;
        keys->total[HOT_BYTES] += bytes;
        if (count > 0 && (keys->plan.sample <= 1 || random_below(&keys->random, keys->plan.sample) == 0)) {
            const uint64_t weights[HOT_METRICS] = { ns * keys->plan.sample / count, bytes * keys->plan.sample / count };

            for (size_t i = 0; i < count; i++)
                note_name(keys, names[i], weights);
        }
    }
    mutex_unlock(&keys->lock);
}
