/* record_fuzz SECONDS [SEED]: hostile bytes where the store should hold a record (tier/record.h).
 *
 * Records of real entries are damaged. Whatever is accepted is installed as a loader does it, encoded again and decoded again, and
 * has to be the same: value, encoding, expiry. record_peek and record_split have to agree. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/partition.h"
#include "support/fuzz.h"
#include "tier/record.h"
#include "value/hash.h"
#include "value/string.h"

enum { RECORD_MAX = 1 << 16, TEXT_MAX = 6000 };

struct fuzz {
    struct random random;
    struct partitions *all;
    struct value_limits limits;
    uint64_t accepted;
    char field[TEXT_MAX], text[TEXT_MAX];
};

static struct bytes random_text(struct fuzz *fuzz, char *room)
{
    size_t size = random_below(&fuzz->random, random_below(&fuzz->random, 12) == 0 ? TEXT_MAX : 80);

    if (random_below(&fuzz->random, 3) == 0)
        return bytes_of(room, text_of_int((int64_t)random_next(&fuzz->random) >> random_below(&fuzz->random, 64), room));
    memset(room, 'a' + (int)random_below(&fuzz->random, 20), size);
    if (size > 0)
        room[random_below(&fuzz->random, size)] = (char)random_next(&fuzz->random);
    return bytes_of(room, size);
}

static void random_value(struct fuzz *fuzz, struct value *value)
{
    uint64_t kind = random_below(&fuzz->random, 5);

    if (kind <= 1) {
        *value = string_value(random_text(fuzz, fuzz->text));
    } else if (kind == 2) {
        *value = string_value_raw(random_text(fuzz, fuzz->text));
    } else {
        *value = hash_create();
        for (uint64_t i = 1 + random_below(&fuzz->random, kind == 3 ? 6 : 60); i > 0; i--)
            hash_set(value, &fuzz->limits, random_text(fuzz, fuzz->field), random_text(fuzz, fuzz->text));
        if (random_below(&fuzz->random, 2)) {       /* all fields die, or some */
            struct value plain = value_copy(value);
            struct hash_iterator iterator;
            struct bytes field, data;

            hash_iterate(&iterator, &plain);
            while (hash_next(&iterator, &field, &data) && random_below(&fuzz->random, 30))
                hash_set_time(value, &fuzz->limits, field, (int64_t)random_below(&fuzz->random, 1ull << 48));
            value_free(&plain);
        }
    }
}

/* Takes the value over; inline strings are copied. */
static struct entry *entry_make(struct fuzz *fuzz, struct value *value, int64_t expire_ms)
{
    struct keyspace *keyspace = partition_keyspace(&fuzz->all->partitions[0], 0);
    uint64_t hash = hash_bytes(&fuzz->all->seed, BYTES("key"));
    uint32_t handle = keyspace_find(keyspace, hash, BYTES("key"));
    struct value old;

    if (handle != 0) {
        keyspace_remove(keyspace, hash, handle, &old);
        if (value_is_object(&old))
            value_free(&old);
    }
    return keyspace_entry(keyspace, keyspace_insert(keyspace, hash, BYTES("key"), value, expire_ms, RECORD_NONE, 0));
}

static void make_record(struct fuzz *fuzz, struct buffer *record)
{
    static const int64_t expiries[] = { -1, -1, 0, 1, 1700000000123, INT64_MAX };
    struct value value;

    random_value(fuzz, &value);
    record_encode(entry_make(fuzz, &value, expiries[random_below(&fuzz->random, 6)]), record);
}

static void damage(struct fuzz *fuzz, struct buffer *record)
{
    size_t at, size;

    if (record->size == 0)
        return;
    at = random_below(&fuzz->random, random_below(&fuzz->random, 2) && record->size > 24 ? 24 : record->size);
    size = 1 + random_below(&fuzz->random, record->size - at);
    switch (random_below(&fuzz->random, 6)) {
    case 0: record->data[at] = (char)random_next(&fuzz->random); break;
    case 1: record->data[at] ^= (char)(1 << random_below(&fuzz->random, 8)); break;
    case 2: record->data[at] += random_below(&fuzz->random, 2) ? 1 : -1; break;
    case 3: record->size = at; break;
    case 4:
        memmove(record->data + at, record->data + at + size, record->size - at - size);
        record->size -= size;
        break;
    case 5:
        if (record->size < RECORD_MAX) {
            buffer_reserve(record, size);
            memcpy(record->data + record->size, record->data + at, size);
            record->size += size;
        }
        break;
    }
}


/* What was accepted goes the way of a record that is loaded and demoted again. */
static void use(struct fuzz *fuzz, struct record *record)
{
    struct buffer again = { 0 }, scratch = { 0 };
    struct record second;
    uint8_t digest[20], after[20];
    uint8_t type = record->value.type, encoding = record->value.encoding;
    int64_t expire_ms = record->expire_ms;
    struct entry *entry;

    CHECK(expire_ms >= -1);
    value_digest(&record->value, digest);
    entry = entry_make(fuzz, &record->value, expire_ms);
    record_encode(entry, &again);
    CHECK(record_decode(buffer_bytes(&again), &fuzz->limits, &scratch, &second) == STATUS_OK);
    value_digest(&second.value, after);
    CHECK(memcmp(digest, after, sizeof(digest)) == 0 && second.expire_ms == expire_ms);
    CHECK(second.death_ms == (second.value.type == VALUE_HASH ? hash_last_expiry(&second.value) : -1));
    CHECK(second.value.type == type && second.value.encoding == encoding);
    if (value_is_object(&second.value))
        value_free(&second.value);
    buffer_release(&again);
    buffer_release(&scratch);
}

static void run(struct fuzz *fuzz, uint64_t seed)
{
    struct buffer bytes = { 0 }, scratch = { 0 };
    struct record record, split;
    struct bytes payload;
    enum value_type type;
    enum status status;
    int64_t expire_ms;
    char *exact;

    random_init(&fuzz->random, seed);
    make_record(fuzz, &bytes);
    for (uint64_t i = random_below(&fuzz->random, 5); i > 0; i--)
        damage(fuzz, &bytes);
    exact = mem_alloc(bytes.size);          /* exactly as large, so that a read beyond it is seen */
    if (bytes.size > 0)
        memcpy(exact, bytes.data, bytes.size);
    status = record_decode(bytes_of(exact, bytes.size), &fuzz->limits, &scratch, &record);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_VERSION);
    CHECK(scratch.capacity <= 4096 + 200 * bytes.size);
    if (status == STATUS_OK) {
        CHECK(record_peek(bytes_of(exact, bytes.size), &expire_ms, &type) == STATUS_OK);
        CHECK(expire_ms == earlier_ms(record.expire_ms, record.death_ms) && type == (enum value_type)record.value.type);
        CHECK(record_split(bytes_of(exact, bytes.size), &split, &payload) == STATUS_OK);
        CHECK(split.expire_ms == record.expire_ms && split.death_ms == record.death_ms && split.heat == record.heat && payload.size < bytes.size);
        fuzz->accepted++;
        use(fuzz, &record);
    }
    mem_free(exact);
    buffer_release(&bytes);
    buffer_release(&scratch);
}

int main(int argc, char **argv)
{
    struct fuzz_time time;
    struct fuzz *fuzz = mem_zalloc(sizeof(*fuzz));
    uint64_t seed = fuzz_begin(&time, "record_fuzz", argc, argv), first = seed;

    fuzz->limits = (struct value_limits){ .hash_listpack_entries_max = 16, .hash_listpack_value_max = 64 };
    fuzz->all = partitions_create(1, 1, (struct hash_seed){ 1, 2 });
    partition_lock(&fuzz->all->partitions[0]);
    do {
        for (int i = 0; i < 100; i++)
            run(fuzz, seed++);
    } while (fuzz_goes_on(&time));
    printf("record_fuzz: %" PRIu64 " records, %" PRIu64 " of them accepted\n", seed - first, fuzz->accepted);
    partition_unlock(&fuzz->all->partitions[0]);
    partitions_destroy(fuzz->all);
    mem_free(fuzz);
    return 0;
}
