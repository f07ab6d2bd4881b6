/* What Kelvin did at first: demotion by probation, then by heat; a loaded key has the heat that its record has. */
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/heat.h"
#include "policy.h"
#include "sweep.h"

enum { RANKS = 512 };

struct record_heat {
    uint8_t heat;
    uint16_t heat_minutes;
};

struct before {
    struct sweep sweep;
    struct heat_settings settings;
    struct entry *entries;
    struct record_heat *records;
    bool *has_record;           /* clean, when the key is resident: nothing but loads creates records here */
    struct random random;
    uint16_t minute;
};

static void *before_create(uint32_t key_count, uint32_t capacity)
{
    struct before *before = mem_zalloc(sizeof(*before));

    sweep_init(&before->sweep, key_count, capacity);
    before->settings = (struct heat_settings){ 10, 1 };
    before->entries = mem_zalloc(key_count * sizeof(struct entry));
    before->records = mem_zalloc(key_count * sizeof(*before->records));
    before->has_record = mem_zalloc(key_count * sizeof(*before->has_record));
    random_init(&before->random, 1);
    return before;
}

static void before_destroy(void *state)
{
    struct before *before = state;

    sweep_release(&before->sweep);
    mem_free(before->entries);
    mem_free(before->records);
    mem_free(before->has_record);
    mem_free(before);
}

static void before_demote(struct before *before, uint32_t key)
{
    struct entry *entry = &before->entries[key];

    if (!before->has_record[key])
        before->records[key] = (struct record_heat){ entry->heat, entry->heat_minutes };
    before->has_record[key] = true;
    sweep_remove(&before->sweep, key);
}

static void before_window(void *state, const uint32_t *keys, int count, int quota)
{
    struct before *before = state;
    int histogram[RANKS] = { 0 }, limit = 0, at_limit = quota;
    uint16_t ranks[SWEEP_WINDOW_MAX];

    for (int i = 0; i < count; i++) {
        struct entry *entry = &before->entries[keys[i]];

        ranks[i] = heat_now(&before->settings, entry->heat, entry->heat_minutes, before->minute);
        if (!(entry->flags & ENTRY_PROBATION))
            ranks[i] += RANKS / 2;
        histogram[ranks[i]]++;
    }
    while (limit < RANKS - 1 && at_limit > histogram[limit])
        at_limit -= histogram[limit++];
    for (int i = 0; i < count; i++) {
        if (ranks[i] < limit || (ranks[i] == limit && at_limit-- > 0))
            before_demote(before, keys[i]);
    }
}

static bool before_request(void *state, const struct request *request)
{
    struct before *before = state;
    struct entry *entry = &before->entries[request->key];

    before->minute = request->minute;
    if (sweep_has(&before->sweep, request->key)) {
        heat_touch(&before->settings, entry, request->minute, &before->random);
        entry->flags = 0;
        return true;
    }
    sweep_add(&before->sweep, request->key);
    if (before->has_record[request->key]) {
        entry->heat = before->records[request->key].heat;
        entry->heat_minutes = before->records[request->key].heat_minutes;
        entry->flags = ENTRY_PROBATION;
        heat_touch(&before->settings, entry, request->minute, &before->random);
    } else {
        *entry = (struct entry){ .heat = HEAT_NEW, .heat_minutes = request->minute };
    }
    sweep_run(&before->sweep, before_window, before);
    return false;
}

const struct policy_kind policy_before = { "before", before_create, before_destroy, before_request };
