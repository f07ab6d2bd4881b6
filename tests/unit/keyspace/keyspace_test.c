/* The keyspace is compared with a model: keys and values of edge-case sizes, changed in every way, while blocks move. */
#include "keyspace/keyspace.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "keyspace/heat.h"
#include "keyspace/partition.h"
#include "support/seed.h"
#include "value/string.h"
#include "value/hash.h"

enum { KEYS = 400, NAME_ROOM = 6000, STEPS = 60000 };

static const int64_t now_ms = 1700000000000;

struct model_key {
    char *name;
    size_t name_size;
    uint64_t hash;
    bool present;
    bool probation;
    struct buffer value;
    int64_t expire_ms;
    enum record_state record;
    uint8_t heat;
};

struct rig {
    uint64_t seed;
    struct random random;
    struct partitions *all;
    struct keyspace *keyspace;
    struct model_key keys[KEYS];
};

static int open_rig(void **state)
{
    static const size_t sizes[] = { 0, 1, 253, 254, 255, 256, 257, 2047, 2048, 2049, NAME_ROOM };
    struct rig *rig = mem_zalloc(sizeof(*rig));

    rig->seed = seed_new();
    random_init(&rig->random, rig->seed);
    rig->all = partitions_create(1, 2, (struct key_seed){ .sip = { rig->seed, 1 } });
    partition_lock(&rig->all->partitions[0]);
    rig->keyspace = partition_keyspace(&rig->all->partitions[0], 0);
    for (int i = 0; i < KEYS; i++) {
        struct model_key *key = &rig->keys[i];

        key->name = mem_alloc(NAME_ROOM);
        memset(key->name, i, NAME_ROOM);
        key->name_size = (size_t)snprintf(key->name, NAME_ROOM, "%d:", i);
        if (i < 11)
            key->name_size = sizes[i];
        else if (i % 3 == 0)
            key->name_size = 10 + (size_t)random_below(&rig->random, i % 2 ? 30 : 3000);
        key->hash = key_hash(&rig->all->seed, bytes_of(key->name, key->name_size));
    }
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < KEYS; i++) {
        buffer_release(&rig->keys[i].value);
        mem_free(rig->keys[i].name);
    }
    partition_unlock(&rig->all->partitions[0]);
    partitions_destroy(rig->all);
    mem_free(rig);
    return 0;
}

static uint64_t pick(struct rig *rig, uint64_t limit) { return random_below(&rig->random, limit); }
static struct bytes name_of(const struct model_key *key) { return bytes_of(key->name, key->name_size); }

static void make_value(struct rig *rig, struct buffer *value)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 9, 44, 45, 100, 1000, 4095, 4096, 4097, 20000 };
    size_t size = sizes[pick(rig, 13)];

    value->size = 0;
    if (pick(rig, 4) == 0) {
        buffer_append_format(value, "%lld", (long long)(random_next(&rig->random) >> pick(rig, 64)));
        return;
    }
    if (pick(rig, 2) == 0)
        size = pick(rig, 200);
    for (size_t i = 0; i < size; i++)
        buffer_append_u8(value, (uint8_t)random_next(&rig->random));
}

static int64_t make_expiry(struct rig *rig)
{
    static const int64_t times[] = { -1, -1, 0, 1, 1699999999999, 1700000000000, 1700000060000, 1700000000000 + 200ll * 86400000,
        4000000000ll * 1000, INT64_MAX };

    return times[pick(rig, 10)];
}

static uint32_t handle_of(struct rig *rig, const struct model_key *key)
{
    uint32_t handle = keyspace_find(rig->keyspace, key->hash, name_of(key));

    assert_int_equal(handle != 0, key->present);
    return handle;
}

static void insert(struct rig *rig, struct model_key *key)
{
    struct value value;
    uint32_t handle;

    make_value(rig, &key->value);
    value = pick(rig, 3) == 0 ? string_value_raw(buffer_bytes(&key->value)) : string_value(buffer_bytes(&key->value));
    key->expire_ms = make_expiry(rig);
    key->record = (enum record_state)pick(rig, 4);
    handle = keyspace_insert(rig->keyspace, key->hash, name_of(key), &value, key->expire_ms, key->record, now_ms);
    assert_int_not_equal(handle, 0);
    key->present = true;
    key->probation = true;
    key->heat = keyspace_entry(rig->keyspace, handle)->heat;
    assert_int_equal(key->heat, HEAT_NEW);
}

static void take_out(struct rig *rig, struct model_key *key)
{
    struct value value;

    keyspace_remove(rig->keyspace, key->hash, handle_of(rig, key), &value);
    if (value_is_object(&value))
        value_free(&value);
    key->present = false;
}

static void set_value(struct rig *rig, struct model_key *key)
{
    uint32_t handle = handle_of(rig, key);
    struct value old = entry_value(keyspace_entry(rig->keyspace, handle)), value;
    char digits[TEXT_INT_SIZE];
    struct bytes bytes = string_bytes(&old, digits);

    if (pick(rig, 3) == 0) {            /* a part of its own bytes, which are in the entry */
        size_t from = bytes.size > 0 ? pick(rig, bytes.size) : 0;
        struct buffer part = { 0 };

        bytes = bytes_of(bytes.data + from, bytes.size - from);
        buffer_append_bytes(&part, bytes);
        buffer_release(&key->value);
        key->value = part;
        value = string_value_raw(bytes);
    } else {
        make_value(rig, &key->value);
        value = string_value(buffer_bytes(&key->value));
    }
    handle = keyspace_set_value(rig->keyspace, key->hash, handle, &value);
    assert_int_equal(handle, handle_of(rig, key));
    if (value_is_object(&old))
        value_free(&old);
}

static void change(struct rig *rig, struct model_key *key)
{
    uint32_t handle = handle_of(rig, key);
    struct entry *entry = keyspace_entry(rig->keyspace, handle);

    switch (pick(rig, 5)) {
    case 0:
        set_value(rig, key);
        break;
    case 1:
        key->expire_ms = make_expiry(rig);
        handle = keyspace_set_expire(rig->keyspace, key->hash, handle_of(rig, key), key->expire_ms, now_ms);
        assert_int_equal(handle, handle_of(rig, key));
        break;
    case 2:
        key->record = (enum record_state)pick(rig, 4);
        keyspace_set_record(rig->keyspace, entry, key->record);
        break;
    case 3:
        key->probation = pick(rig, 2);
        keyspace_set_probation(rig->keyspace, entry, key->probation);
        break;
    default:
        entry->heat = key->heat = (uint8_t)pick(rig, 256);
    }
}

static void check_key(struct rig *rig, const struct model_key *key)
{
    uint32_t handle = handle_of(rig, key);
    char digits[TEXT_INT_SIZE];
    struct entry *entry;
    struct value value;

    if (handle == 0)
        return;
    entry = keyspace_entry(rig->keyspace, handle);
    value = entry_value(entry);
    assert_true(bytes_equal(entry_key(entry), name_of(key)));
    assert_true(bytes_equal(string_bytes(&value, digits), buffer_bytes(&key->value)));
    assert_int_equal(entry_expire_ms(entry), key->expire_ms);
    assert_int_equal(entry_record(entry), key->record);
    assert_int_equal(!!(entry->flags & ENTRY_PROBATION), key->probation);
    assert_int_equal(entry->heat, key->heat);
}

static void check_all(struct rig *rig)
{
    uint64_t count = 0, expiring = 0, probation = 0, records[4] = { 0 };

    for (int i = 0; i < KEYS; i++) {
        const struct model_key *key = &rig->keys[i];

        check_key(rig, key);
        if (!key->present)
            continue;
        count++;
        expiring += key->expire_ms >= 0;
        probation += key->probation;
        records[key->record]++;
    }
    assert_int_equal(rig->keyspace->table.count, count);
    assert_int_equal(rig->keyspace->expiring_count, expiring);
    assert_int_equal(rig->keyspace->probation_count, probation);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rig->keyspace->record_counts[i], records[i]);
    keyspace_verify(rig->keyspace);
}

static void every_key_matches_the_model(void **state)
{
    struct rig *rig = *state;

    for (int step = 0; step < STEPS; step++) {
        struct model_key *key = &rig->keys[pick(rig, KEYS)];

        if (!key->present)
            insert(rig, key);
        else if (pick(rig, 3) == 0)
            take_out(rig, key);
        else
            change(rig, key);
        check_key(rig, key);
        if (pick(rig, 8) == 0)
            keyspace_compact(rig->keyspace, (uint32_t)pick(rig, 20), (uint32_t)pick(rig, 10));
        if (step % 1000 == 0)
            check_all(rig);
    }
    check_all(rig);
    for (int i = 0; i < KEYS; i++) {
        if (rig->keys[i].present)
            take_out(rig, &rig->keys[i]);
    }
    check_all(rig);
    assert_int_equal(rig->keyspace->heap.live_bytes, 0);
}

static void compaction_frees_the_memory_of_holes(void **state)
{
    struct rig *rig = *state;
    struct heap *heap = &rig->keyspace->heap;
    struct value value = string_value(BYTES("some value of forty and some bytes, about so."));
    uint64_t kept = 0, held;

    for (int i = 0; i < 20000; i++) {
        char digits[TEXT_INT_SIZE];
        struct bytes name = bytes_of(digits, text_of_int(i, digits));

        keyspace_insert(rig->keyspace, key_hash(&rig->all->seed, name), name, &value, -1, RECORD_NONE, now_ms);
    }
    held = keyspace_held_size(rig->keyspace);
    for (int i = 0; i < 20000; i++) {
        char digits[TEXT_INT_SIZE];
        struct bytes name = bytes_of(digits, text_of_int(i, digits));
        uint64_t hash = key_hash(&rig->all->seed, name);
        struct value old;

        if (i % 10 == 0)
            kept++;
        else
            keyspace_remove(rig->keyspace, hash, keyspace_find(rig->keyspace, hash, name), &old);
    }
    keyspace_verify(rig->keyspace);
    for (int i = 0; keyspace_compact(rig->keyspace, 50, 4); i++) {
        assert_in_range(i, 0, 100000);
        if (i % 10 == 0)
            keyspace_verify(rig->keyspace);
    }
    keyspace_verify(rig->keyspace);
    assert_int_equal(rig->keyspace->table.count, kept);
    assert_true(heap->held_count * (uint64_t)SEGMENT_SIZE <= heap->live_bytes + 3 * SEGMENT_SIZE);
    assert_true(keyspace_held_size(rig->keyspace) < held / 4);
    for (int i = 0; i < 20000; i += 10) {
        char digits[TEXT_INT_SIZE];
        struct bytes name = bytes_of(digits, text_of_int(i, digits));

        assert_int_not_equal(keyspace_find(rig->keyspace, key_hash(&rig->all->seed, name), name), 0);
    }
}

enum { MANY = 20000, VALUE_MAX = 4090 };

static bool has_number(struct rig *rig, int number)
{
    char digits[TEXT_INT_SIZE];
    struct bytes name = bytes_of(digits, text_of_int(number, digits));

    return keyspace_find(rig->keyspace, key_hash(&rig->all->seed, name), name) != 0;
}

static void put_number(struct rig *rig, int number, size_t value_size)
{
    static const char bytes[VALUE_MAX];
    char digits[TEXT_INT_SIZE];
    struct bytes name = bytes_of(digits, text_of_int(number, digits));
    struct value value = string_value(bytes_of(bytes, value_size));

    keyspace_insert(rig->keyspace, key_hash(&rig->all->seed, name), name, &value, -1, RECORD_NONE, now_ms);
}

static void remove_number(struct rig *rig, int number)
{
    char digits[TEXT_INT_SIZE];
    struct bytes name = bytes_of(digits, text_of_int(number, digits));
    uint64_t hash = key_hash(&rig->all->seed, name);
    struct value old;

    keyspace_remove(rig->keyspace, hash, keyspace_find(rig->keyspace, hash, name), &old);
}

/* Compacts until there is nothing to do, and removes all keys. */
static void compact_to_the_end(struct rig *rig, int steps_max)
{
    struct heap *heap = &rig->keyspace->heap;

    for (int i = 0; keyspace_compact(rig->keyspace, 64, 4); i++) {
        if (i >= steps_max)
            fail_msg("compaction goes on and on; seed %" PRIu64, rig->seed);
    }
    keyspace_verify(rig->keyspace);
    assert_true(heap->held_count * (uint64_t)SEGMENT_SIZE <= heap->live_bytes * 5 / 4 + 3 * SEGMENT_SIZE);
    for (int i = 0; i < MANY; i++) {
        if (has_number(rig, i))
            remove_number(rig, i);
    }
    assert_int_equal(heap->live_bytes, 0);
}

/* With values of some sizes several percent of each segment remain unused: to move them would leave as much elsewhere. */
static void compaction_ends_whatever_the_size_of_values(void **state)
{
    struct rig *rig = *state;

    for (size_t size = 1000; size <= VALUE_MAX; size += 103) {
        for (int i = 0; (size_t)i * size < 24 * SEGMENT_SIZE; i++)
            put_number(rig, i, size);
        compact_to_the_end(rig, 30);        /* the segment that is left of the size before */
    }
}

static void compaction_ends_with_values_of_all_sizes(void **state)
{
    struct rig *rig = *state;

    for (int round = 0; round < 20; round++) {
        size_t small = 1 + pick(rig, VALUE_MAX - 1), large = 1 + pick(rig, VALUE_MAX - 1), kept = pick(rig, 10), count = MANY / 10;

        for (size_t i = 0; i < count; i++)
            put_number(rig, (int)i, pick(rig, 4) == 0 ? pick(rig, VALUE_MAX) : pick(rig, 2) == 0 ? small : large);
        for (size_t i = 0; i < count; i++) {
            if (pick(rig, 10) > kept)
                remove_number(rig, (int)i);
        }
        compact_to_the_end(rig, 20000);
    }
}

struct expiry {
    struct rig *rig;
    int64_t now_ms;
    int count;
};

static void found_expired(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct expiry *expiry = context;

    for (int i = 0; i < KEYS; i++) {
        struct model_key *key = &expiry->rig->keys[i];

        if (!bytes_equal(name_of(key), entry_key(keyspace_entry(keyspace, handle))))
            continue;
        assert_true(key->present && key->hash == hash && key->expire_ms >= 0 && key->expire_ms <= expiry->now_ms);
        take_out(expiry->rig, key);
        expiry->count++;
        return;
    }
    assert_true(false);
}

/* After rounds until one finds nothing, no expired key is left, whatever happened to buckets and entries since the
 * times were noted. */
static void exactly_the_expired_keys_are_found(void **state)
{
    struct rig *rig = *state;

    for (int round = 0; round < 60; round++) {
        struct expiry expiry = { rig, now_ms, 0 };
        int64_t passed_ms = round * 500;
        int before;

        expiry.now_ms += passed_ms;
        for (int i = 0; i < KEYS; i++) {
            struct model_key *key = &rig->keys[i];

            if (!key->present)
                insert(rig, key);
            if (key->expire_ms > expiry.now_ms + 1000 * 86400000ll || pick(rig, 4) == 0) {
                key->expire_ms = pick(rig, 3) == 0 ? -1 : expiry.now_ms + (int64_t)pick(rig, 4000) - 1000;
                keyspace_set_expire(rig->keyspace, key->hash, handle_of(rig, key), key->expire_ms, expiry.now_ms);
            }
            if (pick(rig, 5) == 0)
                take_out(rig, key);
        }
        keyspace_compact(rig->keyspace, 50, 0);
        /* Removing makes leaves shrink, which may move an entry to before the cursor: the next round finds it. */
        do {
            before = expiry.count;
            for (int steps = 0;
                 !keyspace_expire_step(rig->keyspace, expiry.now_ms, 1 + (uint32_t)pick(rig, 10), found_expired, &expiry); steps++)
                assert_in_range(steps, 0, 10000);
        } while (expiry.count != before);
        for (int i = 0; i < KEYS; i++) {
            const struct model_key *key = &rig->keys[i];

            assert_false(key->present && key->expire_ms >= 0 && key->expire_ms <= expiry.now_ms);
        }
        check_all(rig);
    }
}

static void a_latched_entry_is_skipped_and_found_later(void **state)
{
    struct rig *rig = *state;
    struct model_key *key = &rig->keys[20];
    struct expiry expiry = { rig, now_ms + 5000, 0 };

    insert(rig, key);
    key->expire_ms = now_ms + 1000;
    keyspace_set_expire(rig->keyspace, key->hash, handle_of(rig, key), key->expire_ms, now_ms);
    keyspace_entry(rig->keyspace, handle_of(rig, key))->flags |= ENTRY_LATCHED;
    while (!keyspace_expire_step(rig->keyspace, expiry.now_ms, 100, found_expired, &expiry))
        ;
    assert_true(key->present);
    keyspace_verify(rig->keyspace);
    keyspace_entry(rig->keyspace, handle_of(rig, key))->flags &= (uint8_t)~ENTRY_LATCHED;
    while (!keyspace_expire_step(rig->keyspace, expiry.now_ms, 100, found_expired, &expiry))
        ;
    assert_false(key->present);
}

/* Hashes with one field that expires and one that does not: key i's expires at now_ms + i * 100. */
enum { TIMED = 300 };

struct deaths {
    struct rig *rig;
    int64_t now_ms;
    int count;
};

static void forget_field(void *context, struct bytes field)
{
    assert_true(bytes_equal(field, BYTES("dies")));
    (void)context;
}

static void found_dead(void *context, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    struct deaths *deaths = context;
    struct value value = entry_value(keyspace_entry(keyspace, handle));

    assert_in_range(entry_due_ms(keyspace_entry(keyspace, handle)), 0, deaths->now_ms);
    assert_int_equal(hash_remove_expired(&value, deaths->now_ms, SIZE_MAX, forget_field, NULL), 1);
    handle = keyspace_set_value(keyspace, hash, handle, &value);
    keyspace_note_times(keyspace, hash, handle, deaths->now_ms);
    deaths->count++;
}

static void expired_fields_are_found_in_keys_without_expiry(void **state)
{
    static const struct value_limits limits = { .hash_listpack_entries_max = 8, .hash_listpack_value_max = 64 };
    struct rig *rig = *state;
    struct deaths deaths = { rig, now_ms, 0 };
    char name[16];

    for (int i = 0; i < TIMED; i++) {
        struct bytes key = bytes_of(name, (size_t)snprintf(name, sizeof(name), "timed:%d", i));
        uint64_t hash = key_hash(&rig->all->seed, key);
        struct value value = hash_create();

        hash_set(&value, &limits, BYTES("dies"), BYTES("1"));
        hash_set(&value, &limits, BYTES("stays"), BYTES("2"));
        if (i % 2 == 0)
            hash_set_time(&value, &limits, BYTES("dies"), now_ms + i * 100);
        keyspace_insert(rig->keyspace, hash, key, &value, -1, RECORD_NONE, now_ms);
        if (i % 2 == 1) {           /* a time that is set later, when the hash is in its entry */
            uint32_t handle = keyspace_find(rig->keyspace, hash, key);

            value = entry_value(keyspace_entry(rig->keyspace, handle));
            hash_set_time(&value, &limits, BYTES("dies"), now_ms + i * 100);
            handle = keyspace_set_value(rig->keyspace, hash, handle, &value);
            keyspace_note_times(rig->keyspace, hash, handle, now_ms);
        }
    }
    assert_int_equal(rig->keyspace->expiring_count, 0);
    assert_true(rig->keyspace->may_have_times);
    keyspace_verify(rig->keyspace);
    for (int passed = 0; passed <= TIMED * 100; passed += 1000) {
        deaths.now_ms = now_ms + passed;
        for (int round = 0; round < 2; round++) {
            while (!keyspace_expire_step(rig->keyspace, deaths.now_ms, 7, found_dead, &deaths))
                ;
        }
        assert_int_equal(deaths.count, passed / 100 + 1 < TIMED ? passed / 100 + 1 : TIMED);
        keyspace_verify(rig->keyspace);
    }
    /* Two rounds without anything due: active expiry need not look any more. */
    for (int round = 0; round < 2; round++) {
        while (!keyspace_expire_step(rig->keyspace, deaths.now_ms, 7, found_dead, &deaths))
            ;
    }
    assert_false(rig->keyspace->may_have_times);
}

static void due_times_compare_within_half_their_range(void **state)
{
    static const int64_t days[] = { 0, 1, 60, 97, 194, 195, 400 };

    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        int64_t now = now_ms + days[i] * 86400000;

        assert_false(table_due_before(table_due_of(now, now), table_due_of(now, now)));
        assert_false(table_due_before(table_due_of(now, now), table_due_of(now - 2000, now)));
        assert_true(table_due_before(table_due_of(now, now), table_due_of(now + 2000, now)));
        assert_true(table_due_before(table_due_of(now, now), table_due_of(INT64_MAX, now)));
        assert_false(table_due_before(table_due_of(now, now), table_due_of(0, now)));
        assert_true(table_due_before(table_due_of(0, now), table_due_of(INT64_MAX, now)));
        assert_true(table_due_before(table_due_of(now, now), table_due_of(INT64_MAX, now + 6 * 86400000)));
        for (int64_t second = -90; second < 90; second++)
            assert_int_not_equal(table_due_of(now + second * 1000, now), 0);
    }
}

static void a_destroyed_keyspace_frees_everything(void **state)
{
    struct rig *rig = *state;
    struct keyspace *other = partition_keyspace(&rig->all->partitions[0], 1);

    for (int i = 0; i < KEYS; i++) {
        struct value value = string_value(BYTES("x"));
        struct buffer big = { 0 };

        for (int at = 0; at < 5000; at++)
            buffer_append_u8(&big, 'x');
        if (i % 2)
            value = string_value(buffer_bytes(&big));
        keyspace_insert(other, rig->keys[i].hash, name_of(&rig->keys[i]), &value, -1, RECORD_NONE, now_ms);
        buffer_release(&big);
    }
    assert_true(segment_pool_used(rig->all->pool) > 0);
    keyspace_destroy(other);
    rig->all->partitions[0].keyspaces[1] = NULL;
    assert_int_equal(segment_pool_used(rig->all->pool), 0);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(every_key_matches_the_model),
        WITH_RIG(compaction_frees_the_memory_of_holes),
        WITH_RIG(compaction_ends_whatever_the_size_of_values),
        WITH_RIG(compaction_ends_with_values_of_all_sizes),
        WITH_RIG(exactly_the_expired_keys_are_found),
        WITH_RIG(a_latched_entry_is_skipped_and_found_later),
        WITH_RIG(expired_fields_are_found_in_keys_without_expiry),
        cmocka_unit_test(due_times_compare_within_half_their_range),
        WITH_RIG(a_destroyed_keyspace_frees_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
