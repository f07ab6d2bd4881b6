/* Hostile bytes where the store should hold a record (tier/record.h): any bytes, or records of real entries, damaged.
 *
 * Whatever is accepted is installed as a loader does it, encoded again and decoded again, and has to be the same: value, encoding,
 * expiry. record_peek and record_split have to agree.
 */
#include <string.h>

#include "base/check.h"
#include "base/compress.h"
#include "base/mem.h"
#include "keyspace/partition.h"
#include "support/fuzz.h"
#include "tier/record.h"
#include "value/hash.h"
#include "value/paged.h"
#include "value/string.h"

enum { RECORD_MAX = 1 << 16, TEXT_MAX = 6000 };

struct fuzz {
    struct fuzz_input input;
    struct partitions *all;
    struct value_limits limits;
    char field[TEXT_MAX], text[TEXT_MAX];
};

static void random_value(struct fuzz *fuzz, struct value *value)
{
    uint64_t kind = fuzz_below(&fuzz->input, 5);

    if (kind <= 1) {
        *value = string_value(fuzz_text(&fuzz->input, fuzz->text, TEXT_MAX));
    } else if (kind == 2) {
        *value = string_value_raw(fuzz_text(&fuzz->input, fuzz->text, TEXT_MAX));
    } else {
        *value = hash_create();
        for (uint64_t i = 1 + fuzz_below(&fuzz->input, kind == 3 ? 6 : 60); i > 0; i--)
            hash_set(value, &fuzz->limits, fuzz_text(&fuzz->input, fuzz->field, TEXT_MAX), fuzz_text(&fuzz->input, fuzz->text, TEXT_MAX));
        if (fuzz_below(&fuzz->input, 2)) {       /* all fields expire, or some */
            struct value plain = value_copy(value);
            struct hash_iterator iterator;
            struct bytes field, data;

            hash_iterate(&iterator, &plain);
            while (hash_next(&iterator, &field, &data) && fuzz_below(&fuzz->input, 30))
                hash_set_time(value, &fuzz->limits, field, (int64_t)fuzz_below(&fuzz->input, 1ull << 48));
            value_free(&plain);
        }
    }
}

/* Takes the value over; inline strings are copied. */
static struct entry *entry_make(struct fuzz *fuzz, struct value *value, int64_t expire_ms)
{
    struct keyspace *keyspace = partition_keyspace(&fuzz->all->partitions[0], 0);
    uint64_t hash = key_hash(&fuzz->all->seed, BYTES("key"));
    uint32_t handle = keyspace_find(keyspace, hash, BYTES("key"));
    struct value old;

    if (handle != 0) {
        keyspace_remove(keyspace, hash, handle, &old);
        if (value_is_object(&old))
            value_free(&old);
    }
    return keyspace_entry(keyspace, keyspace_insert(keyspace, hash, BYTES("key"), value, expire_ms, RECORD_NONE, 0));
}

static void pack(struct buffer *record, enum compress_codec codec)
{
    struct compressor *compressor = compressor_create();
    struct buffer room = { 0 };

    (void)record_pack(record, codec, compressor, NULL, &room);
    compressor_destroy(compressor);
    buffer_release(&room);
}

static void make_record(struct fuzz *fuzz, struct buffer *record)
{
    static const int64_t expiries[] = { -1, -1, 0, 1, 1700000000123, INT64_MAX };
    struct value value;

    random_value(fuzz, &value);
    record_encode(entry_make(fuzz, &value, expiries[fuzz_below(&fuzz->input, 6)]), record);
    if (fuzz_below(&fuzz->input, 2) == 0)
        pack(record, fuzz_below(&fuzz->input, 2) ? COMPRESS_LZ4 : COMPRESS_ZSTD);
}

/* A record that was accepted is handled like one that is loaded and demoted again. */
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
    CHECK(record_decode(buffer_bytes(&again), NULL, &fuzz->limits, &scratch, &second) == STATUS_OK);
    value_digest(&second.value, after);
    CHECK(memcmp(digest, after, sizeof(digest)) == 0 && second.expire_ms == expire_ms);
    CHECK(second.death_ms == (second.value.type == VALUE_HASH ? hash_last_expiry(&second.value) : -1));
    CHECK(second.value.type == type && second.value.encoding == encoding);
    if (value_is_object(&second.value))
        value_free(&second.value);
    buffer_release(&again);
    buffer_release(&scratch);
}

static void run(struct fuzz *fuzz, struct bytes bytes)
{
    struct buffer scratch = { 0 }, unpacked = { 0 };
    struct record record, split;
    struct bytes payload;
    enum value_type type;
    enum status status;
    int64_t expire_ms;

    status = record_decode(bytes, NULL, &fuzz->limits, &scratch, &record);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_VERSION);
    CHECK(scratch.capacity <= 4096 + 200 * bytes.size + (record_is_packed(bytes) ? 2 * RECORD_UNPACKED_MAX : 0));
    if (status == STATUS_OK) {
        CHECK(record_peek(bytes, &expire_ms, &type) == STATUS_OK);
        CHECK(expire_ms == earlier_ms(record.expire_ms, record.death_ms) && type == (enum value_type)record.value.type);
    }
    if (status == STATUS_OK && value_is_paged(&record.value)) {         /* only its root, whose pages do not exist */
        struct paged_extent extent;

        CHECK(record_peek_pages(bytes, &extent, NULL) && record_split(bytes, NULL, &unpacked, &split, &payload) == STATUS_INVALID);
        value_free(&record.value);
    } else if (status == STATUS_OK) {
        CHECK(record_split(bytes, NULL, &unpacked, &split, &payload) == STATUS_OK);
        CHECK(split.expire_ms == record.expire_ms && split.death_ms == record.death_ms && split.heat == record.heat);
        CHECK(record_is_packed(bytes) ? payload.size <= RECORD_UNPACKED_MAX : payload.size < bytes.size);
        use(fuzz, &record);
    }
    buffer_release(&scratch);
    buffer_release(&unpacked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz fuzz = { .limits = { .hash_listpack_entries_max = 16, .hash_listpack_value_max = 64 } };
    struct buffer bytes = { 0 };
    struct bytes exact;

    fuzz.all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    partition_lock(&fuzz.all->partitions[0]);
    fuzz_begin(&fuzz.input, data, size);
    if (fuzz_below(&fuzz.input, 2) == 0) {
        fuzz_rest(&fuzz.input, &bytes);
    } else {
        make_record(&fuzz, &bytes);
        fuzz_damage(&fuzz.input, &bytes, BYTES("\0\1\2\3\4\5\x09\x0b\x0c\x0d\x10\x11\x12\x16\x17\x18\x19\x3f\x40\x7f\x80\x81\xc0\xc3\xe0\xf0\xf4\xfe\xff"), 4, RECORD_MAX);
    }
    exact = fuzz_exact_copy(buffer_bytes(&bytes));
    run(&fuzz, exact);
    mem_free((void *)exact.data);
    buffer_release(&bytes);
    partition_unlock(&fuzz.all->partitions[0]);
    partitions_destroy(fuzz.all);
    return 0;
}
