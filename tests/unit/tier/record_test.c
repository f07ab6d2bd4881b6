#include "tier/record.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/partition.h"
#include "support/seed.h"
#include "value/hash.h"
#include "value/paged_list.h"
#include "value/paged_string.h"
#include "value/paged_times.h"
#include "value/paged_zset.h"
#include "value/set.h"
#include "value/stream_group.h"
#include "value/stream_nodes.h"
#include "value/string.h"

static const struct value_limits limits = { .hash_listpack_entries_max = 16, .hash_listpack_value_max = 64,
    .set_intset_entries_max = 20, .set_listpack_entries_max = 16, .set_listpack_value_max = 64 };
static const int64_t expiries[] = { -1, 0, 1, 1700000000123, 4000000000ll * 1000, INT64_MAX };

enum { EXPIRIES = sizeof(expiries) / sizeof(expiries[0]) };

/* Entries are made where they are always made. */
static struct entry *entry_of(struct partitions *all, struct value *value, int64_t expire_ms)
{
    struct keyspace *keyspace = partition_keyspace(&all->partitions[0], 0);
    uint64_t hash = key_hash(&all->seed, BYTES("key"));
    uint32_t handle = keyspace_find(keyspace, hash, BYTES("key"));
    struct value old;

    if (handle != 0) {
        keyspace_remove(keyspace, hash, handle, &old);
        if (value_is_object(&old))
            value_free(&old);
    }
    return keyspace_entry(keyspace, keyspace_insert(keyspace, hash, BYTES("key"), value, expire_ms, RECORD_NONE, 0));
}

static void expect_same(struct entry *entry, const struct buffer *bytes)
{
    struct buffer scratch = { 0 };
    struct record record;
    struct value value = entry_value(entry);
    uint8_t digest[20], decoded[20];
    enum value_type type;
    int64_t expire_ms;

    assert_int_equal(record_decode(buffer_bytes(bytes), NULL, &limits, &scratch, &record), STATUS_OK);
    assert_int_equal(record.heat, entry->heat);
    assert_int_equal(record.heat_minutes, entry->heat_minutes);
    assert_int_equal(record.expire_ms, entry_expire_ms(entry));
    assert_int_equal(record.value.type, value.type);
    assert_int_equal(record.value.encoding, value.encoding);
    value_digest(&value, digest);
    value_digest(&record.value, decoded);
    assert_memory_equal(digest, decoded, 20);
    assert_int_equal(record_peek(buffer_bytes(bytes), &expire_ms, &type), STATUS_OK);
    assert_true(expire_ms == entry_death_ms(entry) && type == value.type);
    if (value_is_object(&record.value))
        value_free(&record.value);
    buffer_release(&scratch);
}

/* No shorter text is a record: this is reported, and nothing is read beyond its end. */
static void expect_no_prefix(const struct buffer *bytes)
{
    size_t step = bytes->size > 600 ? 37 : 1;

    for (size_t size = 0; size < bytes->size; size += step) {
        struct buffer scratch = { 0 };
        struct record record;
        char *copy = mem_alloc(size + 1);       /* exactly as long, for the address sanitizer */
        enum status status;

        memcpy(copy, bytes->data, size);
        copy = mem_realloc(copy, size > 0 ? size : 1);
        status = record_decode(bytes_of(copy, size), NULL, &limits, &scratch, &record);
        assert_true(status == STATUS_CORRUPT || status == STATUS_VERSION);
        buffer_release(&scratch);
        mem_free(copy);
    }
}

static void round_trip(struct partitions *all, struct value (*make)(size_t size, struct buffer *text), size_t size)
{
    for (int i = 0; i < EXPIRIES; i++) {
        struct buffer text = { 0 }, bytes = { 0 };
        struct value value = make(size, &text);
        struct entry *entry = entry_of(all, &value, expiries[i]);

        entry->heat = (uint8_t)(size * 31 + 255);
        entry->heat_minutes = (uint16_t)(65535 - size);
        record_encode(entry, &bytes);
        expect_same(entry, &bytes);
        if (i < 2)
            expect_no_prefix(&bytes);
        buffer_release(&text);
        buffer_release(&bytes);
    }
}

static void make_text(size_t size, struct buffer *text)
{
    for (size_t i = 0; i < size; i++)
        buffer_append_u8(text, (uint8_t)('a' + (i * i) % 26));
}

static struct value make_string(size_t size, struct buffer *text)
{
    make_text(size, text);
    return string_value(buffer_bytes(text));
}

static struct value make_raw(size_t size, struct buffer *text)
{
    make_text(size, text);
    return string_value_raw(buffer_bytes(text));
}

static struct value make_integer(size_t size, struct buffer *text)
{
    static const int64_t numbers[] = { 0, 1, -1, 127, 128, -32769, 2147483648, INT64_MAX, INT64_MIN };

    return string_value_of_int(numbers[size]);
}

/* Digits, but kept as text: APPEND made it so. */
static struct value make_raw_digits(size_t size, struct buffer *text)
{
    buffer_append_format(text, "%zu", size * 1234567);
    return string_value_raw(buffer_bytes(text));
}

static struct value make_hash(size_t size, struct buffer *text)
{
    struct value hash = hash_create();

    for (size_t i = 0; i < size; i++) {
        char digits[TEXT_INT_SIZE];

        hash_set(&hash, &limits, bytes_of(digits, text_of_int((int64_t)i, digits)), BYTES("value"));
    }
    return hash;
}

/* In all encodings, whatever the limits say of them. */
static struct value make_set(size_t size, struct buffer *text)
{
    static const struct value_limits all[] = { { .set_intset_entries_max = 100 },
        { .set_listpack_entries_max = 100, .set_listpack_value_max = 64 }, { .seed = { 0, 0 } } };
    const struct value_limits *how = &all[size % 3];
    struct value set = set_create(how, BYTES("1"), 1);

    for (size_t i = 0; i < size; i++) {
        char digits[TEXT_INT_SIZE];

        set_add(&set, how, bytes_of(digits, text_of_int((int64_t)i, digits)));
    }
    return set;
}

static void an_entry_comes_back_as_it_went(void **state)
{
    static const size_t sizes[] = { 0, 1, 20, 21, 44, 45, 63, 64, 4095, 4096, 4097, 100000 };
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });

    partitions_lock_all(all);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        round_trip(all, make_string, sizes[i]);
        round_trip(all, make_raw, sizes[i]);
    }
    for (size_t i = 0; i < 9; i++) {
        round_trip(all, make_integer, i);
        round_trip(all, make_raw_digits, i);
    }
    for (size_t size = 1; size < 60; size += 7)
        round_trip(all, make_hash, size);
    for (size_t size = 1; size < 60; size += 7)
        round_trip(all, make_set, size);
    partitions_unlock_all(all);
    partitions_destroy(all);
}

static void other_formats_are_distinguished_from_damage(void **state)
{
    struct buffer scratch = { 0 };
    struct record record;
    enum value_type type;
    int64_t expire_ms;

    assert_int_equal(record_decode(bytes_of("\3\5\0\0xxxxxxxxxx", 14), NULL, &limits, &scratch, &record), STATUS_VERSION);
    assert_int_equal(record_decode(bytes_of("\x83\5\0\0xxxxxxxxxx", 14), NULL, &limits, &scratch, &record), STATUS_VERSION);
    assert_int_equal(record_decode(bytes_of("\0\5\0\0xxxxxxxxxx", 14), NULL, &limits, &scratch, &record), STATUS_CORRUPT);
    assert_int_equal(record_peek(bytes_of("\3\5\0\0xxxxxxxxxx", 14), &expire_ms, &type), STATUS_VERSION);
    assert_int_equal(record_peek(bytes_of("\1\5\0\0", 4), &expire_ms, &type), STATUS_CORRUPT);
    assert_int_equal(record_peek(bytes_of("\x81\5\0\0\0\0\0\0\0\0\0\x80\0", 13), &expire_ms, &type), STATUS_CORRUPT);
    buffer_release(&scratch);
}

static void noise_is_never_trusted(void **state)
{
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    struct random random;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    partitions_lock_all(all);
    for (int round = 0; round < 3000; round++) {
        struct buffer text = { 0 }, bytes = { 0 }, scratch = { 0 };
        struct value value = round % 2 ? make_hash(1 + random_below(&random, 30), &text)
            : round % 4 ? make_set(1 + random_below(&random, 30), &text) : make_string(random_below(&random, 200), &text);
        struct record record;

        record_encode(entry_of(all, &value, expiries[random_below(&random, EXPIRIES)]), &bytes);
        for (uint64_t i = 1 + random_below(&random, 3); i > 0; i--)
            bytes.data[random_below(&random, bytes.size)] = (char)random_next(&random);
        /* It may be a record still; it must not do harm. */
        if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK && value_is_object(&record.value))
            value_free(&record.value);
        buffer_release(&text);
        buffer_release(&bytes);
        buffer_release(&scratch);
    }
    partitions_unlock_all(all);
    partitions_destroy(all);
}

static void a_record_of_a_mortal_hash_knows_its_last_death(void **state)
{
    struct buffer bytes = { 0 }, scratch = { 0 };
    struct partitions *all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    struct value value = hash_create();
    struct record record;
    struct entry *entry;
    enum value_type type;
    int64_t gone_ms;

    partition_lock(&all->partitions[0]);
    hash_set(&value, &limits, BYTES("a"), BYTES("1"));
    hash_set(&value, &limits, BYTES("b"), BYTES("2"));
    hash_set_time(&value, &limits, BYTES("a"), 5000);
    entry = entry_of(all, &value, 9000);
    record_encode(entry, &bytes);
    assert_int_equal(record_peek(buffer_bytes(&bytes), &gone_ms, &type), STATUS_OK);
    assert_int_equal(gone_ms, 9000);            /* b lives on, until the key goes */
    value = entry_value(entry);
    value = value_copy(&value);
    hash_set_time(&value, &limits, BYTES("b"), 7000);
    entry = entry_of(all, &value, 9000);
    bytes.size = 0;
    record_encode(entry, &bytes);
    expect_same(entry, &bytes);
    expect_no_prefix(&bytes);
    assert_int_equal(record_peek(buffer_bytes(&bytes), &gone_ms, &type), STATUS_OK);
    assert_int_equal(gone_ms, 7000);
    assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
    assert_true(record.expire_ms == 9000 && record.death_ms == 7000);
    value_free(&record.value);
    bytes.data[4 + 8]++;                        /* another death than that of its fields */
    assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_CORRUPT);
    buffer_release(&bytes);
    buffer_release(&scratch);
    partition_unlock(&all->partitions[0]);
    partitions_destroy(all);
}

/* --- packed records --- */

static const char words[][12] = { "storage", "engine", "record", "segment", "memory", "reader" };

/* Text that gets smaller, as long as `size` says. */
static void append_words(struct random *random, size_t size, struct buffer *text)
{
    size_t end = text->size + size;

    while (text->size < end)
        buffer_append_format(text, "%s ", words[random_below(random, 6)]);
    text->size = end;
}

static const enum compress_codec codecs[] = { COMPRESS_ZSTD, COMPRESS_LZ4 };

static bool pack(struct compressor *compressor, enum compress_codec codec, struct buffer *bytes)
{
    struct buffer room = { 0 };
    bool is_packed = record_pack(bytes, codec, compressor, NULL, &room);

    assert_true(room.size == 0 && is_packed == record_is_packed(buffer_bytes(bytes)));
    buffer_release(&room);
    return is_packed;
}

struct packing {
    struct random random;
    struct compressor *compressor;
    struct partitions *all;
};

static int open_packing(void **state)
{
    struct packing *packing = mem_zalloc(sizeof(*packing));

    random_init(&packing->random, seed_new());
    packing->compressor = compressor_create();
    packing->all = partitions_create(1, 1, (struct key_seed){ .sip = { 1, 2 } });
    partitions_lock_all(packing->all);
    *state = packing;
    return 0;
}

static int close_packing(void **state)
{
    struct packing *packing = *state;

    partitions_unlock_all(packing->all);
    partitions_destroy(packing->all);
    compressor_destroy(packing->compressor);
    mem_free(packing);
    return 0;
}

static struct value make_words(struct packing *packing, int kind, size_t size, struct buffer *text)
{
    struct value value;

    append_words(&packing->random, size, text);
    if (kind == 0)
        return string_value(buffer_bytes(text));
    if (kind == 1)
        return string_value_raw(buffer_bytes(text));
    value = kind == 2 ? hash_create() : set_create(&limits, BYTES("a"), 1);
    for (size_t i = 0; i < size; i += 50) {
        struct bytes part = bytes_of(text->data + i, size - i < 40 ? size - i : 40);
        char name[30];

        snprintf(name, sizeof(name), "field%zu", i);
        if (kind == 2)
            hash_set(&value, &limits, bytes_of_string(name), part);
        else
            set_add(&value, &limits, part);
    }
    return value;
}

static void a_packed_record_is_the_same_value(void **state)
{
    struct packing *packing = *state;

    for (int i = 0; i < 400; i++) {
        struct buffer text = { 0 }, bytes = { 0 }, raw = { 0 }, scratch = { 0 };
        struct value value = make_words(packing, i % 4, 300 + random_below(&packing->random, 3800), &text);     /* fewer words may not get smaller */
        struct entry *entry = entry_of(packing->all, &value, expiries[i % EXPIRIES]);
        struct record record = { 0 };
        struct bytes payload;

        entry->heat = (uint8_t)i;
        record_encode(entry, &raw);
        buffer_append_bytes(&bytes, buffer_bytes(&raw));
        assert_true(pack(packing->compressor, codecs[i / 4 % 2], &bytes));
        assert_true(bytes.size + RECORD_PACK_GAIN <= raw.size);
        expect_same(entry, &bytes);
        if (i < 8)
            expect_no_prefix(&bytes);
        assert_int_equal(record_split(buffer_bytes(&bytes), NULL, &scratch, &record, &payload), STATUS_OK);
        assert_true(bytes_equal(payload, record_payload(buffer_bytes(&raw))));
        assert_true(record.expire_ms == expiries[i % EXPIRIES] && record_dictionary(buffer_bytes(&bytes)) == 0);
        assert_true(record_payload(buffer_bytes(&bytes)).size == 0);
        buffer_release(&text);
        buffer_release(&bytes);
        buffer_release(&raw);
        buffer_release(&scratch);
    }
}

static void what_does_not_get_smaller_stays_as_it_was(void **state)
{
    struct packing *packing = *state;
    static const size_t sizes[] = { 0, 1, 20, RECORD_PACK_MIN - 10, RECORD_PACK_MAX, RECORD_PACK_MAX + 1000 };

    for (size_t i = 0; i < 100; i++) {
        struct buffer text = { 0 }, bytes = { 0 }, before = { 0 };
        struct value value;

        if (i < sizeof(sizes) / sizeof(sizes[0]))
            append_words(&packing->random, sizes[i], &text);
        else
            for (size_t more = random_below(&packing->random, 2000); more > 0; more--)
                buffer_append_u8(&text, (uint8_t)random_next(&packing->random));
        value = i == 6 ? string_value(BYTES("1234567890123456789")) : string_value(buffer_bytes(&text));
        record_encode(entry_of(packing->all, &value, -1), &bytes);
        buffer_append_bytes(&before, buffer_bytes(&bytes));
        assert_false(pack(packing->compressor, codecs[i % 2], &bytes));
        assert_true(bytes_equal(buffer_bytes(&before), buffer_bytes(&bytes)));
        buffer_release(&text);
        buffer_release(&bytes);
        buffer_release(&before);
    }
}

/* Each bit of a packed record: what is read is a record, an error, and nothing else. */
static void damage_to_a_packed_record_does_no_harm(void **state)
{
    struct packing *packing = *state;

    for (int i = 0; i < 8; i++) {
        struct buffer text = { 0 }, bytes = { 0 };
        struct value value = make_words(packing, i % 4, 400, &text);

        record_encode(entry_of(packing->all, &value, 1000), &bytes);
        assert_true(pack(packing->compressor, codecs[i / 4], &bytes));
        for (size_t at = 0; at < bytes.size * 8; at++) {
            struct buffer scratch = { 0 };
            struct record record;
            enum status status;

            bytes.data[at / 8] = (char)(bytes.data[at / 8] ^ 1 << at % 8);
            status = record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record);
            assert_true(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_VERSION);
            if (status == STATUS_OK && value_is_object(&record.value))
                value_free(&record.value);
            bytes.data[at / 8] = (char)(bytes.data[at / 8] ^ 1 << at % 8);
            buffer_release(&scratch);
        }
        buffer_release(&text);
        buffer_release(&bytes);
    }
}

static enum status decode_packed(struct bytes packed)
{
    struct buffer bytes = { 0 }, scratch = { 0 };
    struct record record;
    enum status status;

    buffer_append_bytes(&bytes, BYTES("\x09\5\0\0"));
    buffer_append_bytes(&bytes, packed);
    status = record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record);
    assert_true(scratch.capacity <= 2 * RECORD_UNPACKED_MAX);
    if (status == STATUS_OK && value_is_object(&record.value))
        value_free(&record.value);
    buffer_release(&bytes);
    buffer_release(&scratch);
    return status;
}

static void what_a_packed_record_says_is_checked_before_it_is_believed(void **state)
{
    (void)state;
    assert_int_equal(decode_packed(BYTES("")), STATUS_CORRUPT);
    assert_int_equal(decode_packed(BYTES("\0")), STATUS_CORRUPT);
    assert_int_equal(decode_packed(BYTES("\0\0\0\1x")), STATUS_CORRUPT);                 /* codec 0 */
    assert_int_equal(decode_packed(BYTES("\0\3\0\1x")), STATUS_VERSION);                 /* a codec that comes later */
    assert_int_equal(decode_packed(BYTES("\0\xff\0\1x")), STATUS_VERSION);
    assert_int_equal(decode_packed(BYTES("\0\2\0\2\x20\1x")), STATUS_OK);              /* LZ4: a string of one byte */
    assert_int_equal(decode_packed(BYTES("\0\2\0\3\x20\1x")), STATUS_CORRUPT);         /* it has two bytes, not three */
    assert_int_equal(decode_packed(BYTES("\0\2\0\x0a\x16\1x\xff\xff")), STATUS_CORRUPT);     /* a match before the begin */
    assert_int_equal(decode_packed(BYTES("\0\2\7\2\x20\1x")), STATUS_CORRUPT);
    assert_int_equal(decode_packed(BYTES("\0\2\0\x80\x80\x40x")), STATUS_CORRUPT);
    assert_int_equal(decode_packed(BYTES("\0\1\7\1x")), STATUS_CORRUPT);                 /* a dictionary that is not there */
    assert_int_equal(decode_packed(BYTES("\0\1\0\xff\xff\xff\xff\x0fx")), STATUS_CORRUPT);      /* 4 GiB */
    assert_int_equal(decode_packed(BYTES("\0\1\0\x80\x80\x40x")), STATUS_CORRUPT);       /* 1 MiB + 1 with its type */
    assert_int_equal(decode_packed(BYTES("\0\1\0\xff\xff\xff\xff\xff\xff\xff\xff")), STATUS_CORRUPT);
    assert_int_equal(decode_packed(BYTES("\0\1\0")), STATUS_CORRUPT);
}

static void a_bomb_in_a_record_is_bounded(void **state)
{
    struct packing *packing = *state;

    for (int i = 0; i < 2; i++) {
        struct buffer zeros = { 0 }, packed = { 0 };

        memset(buffer_reserve(&zeros, 2 << 20), 0, 2 << 20);
        zeros.size = 2 << 20;
        buffer_append_u8(&packed, 0);
        buffer_append_u8(&packed, (uint8_t)codecs[i]);
        buffer_append_bytes(&packed, BYTES("\0\xff\xff\x3f"));       /* it is said to have a byte less than 1 MiB */
        assert_true(compress_text(packing->compressor, codecs[i], NULL, buffer_bytes(&zeros), 10000, &packed));
        assert_int_equal(decode_packed(buffer_bytes(&packed)), STATUS_CORRUPT);
        buffer_release(&zeros);
        buffer_release(&packed);
    }
}

/* A string in LZF is nothing that Kelvin writes into a record; it is unpacked a second time, beside what it came from. */
static void a_string_that_is_packed_twice_is_read(void **state)
{
    struct packing *packing = *state;

    for (int i = 0; i < 2; i++) {
        struct buffer payload = { 0 }, record = { 0 }, scratch = { 0 };
        struct record decoded;

        /* An RDB string in LZF: c3, packed size 5, size 100, then a literal and a run. */
        buffer_append_bytes(&payload, BYTES("\xc3\x05\x40\x64\0x\xe0\x5a\0"));
        buffer_append_bytes(&record, BYTES("\x09\5\0\0\0"));
        buffer_append_u8(&record, (uint8_t)codecs[i]);
        buffer_append_bytes(&record, BYTES("\0\x09"));
        assert_true(compress_text(packing->compressor, codecs[i], NULL, buffer_bytes(&payload), 1000, &record));
        assert_int_equal(record_decode(buffer_bytes(&record), NULL, &limits, &scratch, &decoded), STATUS_OK);
        assert_int_equal(decoded.value.bytes.size, 100);
        for (int at = 0; at < 100; at++)
            assert_int_equal(decoded.value.bytes.data[at], 'x');
        buffer_release(&payload);
        buffer_release(&record);
        buffer_release(&scratch);
    }
}

/* As they are written: what is between the fields in memory may be anything. */
static void assert_same_roots(const struct paged_root *one, const struct paged_root *other)
{
    char first[PAGED_ROOT_SIZE], second[PAGED_ROOT_SIZE];

    paged_root_write(one, first);
    paged_root_write(other, second);
    assert_memory_equal(first, second, sizeof(first));
}

/* A value in pages: its record is the root. All its bytes are damaged in turn: it is refused, or has another root that is possible. */
static void a_root_comes_back_as_it_went(void **state)
{
    struct key_seed seed = { { 1, 2 }, false };
    struct partitions *all = partitions_create(1, 1, seed);
    static const enum value_type types[] = { VALUE_HASH, VALUE_SET, VALUE_ZSET, VALUE_LIST };
    static const uint8_t encodings[] = { HASH_PAGED, SET_PAGED, ZSET_PAGED, LIST_PAGED };
    static const struct paged_root table = { .count = 1000, .size = 30000, .pages = 29, .longest = 50, .longest_now = 40 };

    partitions_lock_all(all);
    for (int i = 0; i < EXPIRIES * 4; i++) {
        enum value_type type = types[i % 4], found;
        struct value value = { .type = (uint8_t)type, .encoding = encodings[i % 4] };
        struct paged_root root = table;
        bool has_tree = type == VALUE_ZSET || type == VALUE_LIST;
        struct page_tree_root tree = { .count = 1000, .leaves = 1, .next = 4, .free_count = 2, .free = { 1, 2 }, .trunk = 4 };
        struct buffer bytes = { 0 }, scratch = { 0 };
        struct paged_extent extent;
        struct paged_root peeked;
        struct entry *entry;
        struct record record;
        struct bytes payload;
        int64_t gone_ms;

        buffer_append(&tree.top, "\3\0\0\0\xe8\3\0\0\0\0\0", 11);         /* page 3, with 1000 elements and no separator */
        if (type == VALUE_LIST)
            root = (struct paged_root){ .size = 30000 };
        value.object = has_tree ? paged_ordered_of_roots(&root, &tree, 0x123456789abc) : paged_of_root(&root, 0x123456789abc);
        if (type == VALUE_LIST) {
            mem_free(value.object);
            value.object = paged_list_of_roots(&root, &tree, (struct chunk_list *[2]){ NULL }, 0x123456789abc);
        }
        if (!has_tree)
            buffer_release(&tree.top);
        entry = entry_of(all, &value, expiries[i / 4]);
        record_encode(entry, &bytes);
        assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
        assert_int_equal(record.value.encoding, value.encoding);
        assert_same_roots(&paged_of(&record.value)->root, &root);
        assert_int_equal(paged_of(&record.value)->id, 0x123456789abc);
        if (has_tree) {
            const struct page_tree_root *read = &paged_ordered_of(&record.value)->tree;

            assert_true(read->count == 1000 && read->leaves == 1 && read->next == 4 && read->free_count == 2 && read->free[1] == 2 && read->trunk == 4 && read->top.size == 11);
        }
        value_free(&record.value);
        assert_true(record_peek_pages(buffer_bytes(&bytes), &extent, &peeked));
        assert_true(extent.id == 0x123456789abc && extent.table_pages == root.pages && extent.tree_pages == (has_tree ? 4 : 0) && peeked.count == root.count);
        assert_int_equal(record_peek(buffer_bytes(&bytes), &gone_ms, &found), STATUS_OK);
        assert_true(found == type && gone_ms == expiries[i / 4]);
        assert_int_equal(record_split(buffer_bytes(&bytes), NULL, &scratch, &record, &payload), STATUS_INVALID);
        assert_int_equal(record_payload(buffer_bytes(&bytes)).size, 0);
        for (size_t size = 0; size < bytes.size; size++)
            assert_int_not_equal(record_decode(bytes_of(bytes.data, size), NULL, &limits, &scratch, &record), STATUS_OK);
        for (size_t at = 0; at < bytes.size; at++) {
            bytes.data[at] ^= (char)0xff;
            if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK)
                value_free(&record.value);
            (void)record_peek_pages(buffer_bytes(&bytes), &extent, NULL);
            bytes.data[at] ^= (char)0xff;
        }
        buffer_release(&bytes);
        buffer_release(&scratch);
    }
    partitions_unlock_all(all);
    partitions_destroy(all);
}

static struct chunk_list *end_of(const char *name, int count)
{
    struct chunk_list *chunks = count > 0 ? chunk_list_create(-1, 0) : NULL;
    char text[32];

    for (int i = 0; i < count; i++)
        chunk_list_push(chunks, LIST_TAIL, bytes_of(text, (size_t)sprintf(text, "%s element %d", name, i)));
    return chunks;
}

/* A list may have elements with its root. Any other bytes are damage, or harmless. */
static void roots_of_lists_with_ends(void **state)
{
    struct key_seed seed = { { 1, 2 }, false };
    struct partitions *all = partitions_create(1, 1, seed);

    (void)state;
    partitions_lock_all(all);
    for (int which = 1; which < 8; which++) {
        const struct paged_root root = { .size = which & 4 ? 30000 : 0 };
        struct page_tree_root tree = { .count = which & 4 ? 1000 : 0, .leaves = which & 4 ? 1 : 0, .next = which & 4 ? 1 : 0 };
        struct value value = { .type = VALUE_LIST, .encoding = LIST_PAGED };
        struct buffer bytes = { 0 }, scratch = { 0 };
        struct bytes ends[2];
        struct record record;

        if (which & 4)
            buffer_append(&tree.top, "\0\0\0\0\xe8\3\0\0\0\0\0", 11);
        value.object = paged_list_of_roots(&root, &tree, (struct chunk_list *[2]){ end_of("head", which & 1 ? 300 : 0), end_of("tail", which & 2 ? 3 : 0) }, 0x123456789abc);
        record_encode(entry_of(all, &value, -1), &bytes);
        assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
        assert_int_equal(record.value.encoding, LIST_PAGED);
        assert_int_equal(paged_of(&record.value)->root.size, root.size);
        assert_int_equal(paged_list_count(&record.value), tree.count + (which & 1 ? 300 : 0) + (which & 2 ? 3 : 0));
        for (int end = 0; end < 2; end++) {
            char text[48], digits[TEXT_INT_SIZE];
            size_t count = paged_list_end_count(&record.value, (enum list_end)end);

            assert_int_equal(count, which & (1 << end) ? (end == LIST_HEAD ? 300 : 3) : 0);
            if (count > 0)
                assert_true(bytes_equal(chunk_list_end_element(paged_list_end(&record.value, (enum list_end)end), LIST_TAIL, digits),
                    bytes_of(text, (size_t)sprintf(text, "%s element %zu", end == LIST_HEAD ? "head" : "tail", count - 1))));
        }
        value_free(&record.value);
        assert_true(record_peek_ends(buffer_bytes(&bytes), ends));
        assert_true((ends[LIST_HEAD].size > 0) == ((which & 1) > 0) && (ends[LIST_TAIL].size > 0) == ((which & 2) > 0));
        for (size_t size = 0; size < bytes.size; size++) {
            if (record_decode(bytes_of(bytes.data, size), NULL, &limits, &scratch, &record) != STATUS_OK)
                continue;
            assert_int_equal(which & 3, 3);                 /* what is left is a list without a tail */
            assert_int_equal(size, bytes.size - ends[LIST_TAIL].size);
            value_free(&record.value);
        }
        for (size_t at = 0; at < bytes.size * 8; at++) {
            bytes.data[at / 8] ^= (char)(1 << at % 8);
            if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK && value_is_object(&record.value))
                value_free(&record.value);
            (void)record_peek_ends(buffer_bytes(&bytes), ends);
            bytes.data[at / 8] ^= (char)(1 << at % 8);
        }
        buffer_release(&bytes);
        buffer_release(&scratch);
    }
    partitions_unlock_all(all);
    partitions_destroy(all);
}

/* A hash whose fields have times has a tree, and dies with the last one if all have some. Any other bytes are damage, or harmless. */
static void roots_of_hashes_with_times(void **state)
{
    static const struct paged_root table = { .count = 1000, .size = 30000, .pages = 29, .longest = 50, .longest_now = 40 };
    struct key_seed seed = { { 1, 2 }, false };
    struct partitions *all = partitions_create(1, 1, seed);

    (void)state;
    partitions_lock_all(all);
    for (int all_have = 0; all_have < 2; all_have++) {
        const struct paged_bounds bounds = { 5000, 7000 };
        struct page_tree_root tree = { .count = all_have ? 1000 : 999, .leaves = 1, .next = 1 };
        struct value value = { .type = VALUE_HASH, .encoding = HASH_PAGED_TIMES };
        struct buffer bytes = { 0 }, scratch = { 0 };
        struct paged_extent extent;
        struct record record;
        int64_t gone_ms, first_ms;
        enum value_type type;

        buffer_append(&tree.top, all_have ? "\0\0\0\0\xe8\3\0\0\0\0\0" : "\0\0\0\0\xe7\3\0\0\0\0\0", 11);
        value.object = paged_times_of_roots(&table, &tree, &bounds, 0x123456789abc);
        record_encode(entry_of(all, &value, -1), &bytes);
        assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
        assert_int_equal(record.value.encoding, HASH_PAGED_TIMES);
        assert_same_roots(&paged_of(&record.value)->root, &table);
        assert_int_equal(record.death_ms, all_have ? 7000 : -1);
        assert_int_equal(hash_next_expiry(&record.value), 5000);
        assert_int_equal(hash_last_expiry(&record.value), all_have ? 7000 : HASH_NO_TIME);
        value_free(&record.value);
        assert_true(record_peek_pages(buffer_bytes(&bytes), &extent, NULL));
        assert_true(extent.table_pages == 29 && extent.tree_pages == 1);
        assert_true(record_peek_first_time(buffer_bytes(&bytes), &first_ms) && first_ms == 5000);
        assert_int_equal(record_peek(buffer_bytes(&bytes), &gone_ms, &type), STATUS_OK);
        assert_true(gone_ms == (all_have ? 7000 : -1) && type == VALUE_HASH);
        for (size_t size = 0; size < bytes.size; size++) {
            if (record_decode(bytes_of(bytes.data, size), NULL, &limits, &scratch, &record) != STATUS_OK)
                continue;
            assert_false(all_have);                         /* what is left is a hash without times */
            assert_int_equal(record.value.encoding, HASH_PAGED);
            value_free(&record.value);
        }
        for (size_t at = 0; at < bytes.size * 8; at++) {
            bytes.data[at / 8] ^= (char)(1 << at % 8);
            if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK && value_is_object(&record.value))
                value_free(&record.value);
            (void)record_peek_pages(buffer_bytes(&bytes), &extent, NULL);
            (void)record_peek_first_time(buffer_bytes(&bytes), &first_ms);
            bytes.data[at / 8] ^= (char)(1 << at % 8);
        }
        buffer_release(&bytes);
        buffer_release(&scratch);
    }
    partitions_unlock_all(all);
    partitions_destroy(all);
}

/* A string's root has its length and the size of its blocks. */
static void roots_of_strings(void **state)
{
    struct key_seed seed = { { 1, 2 }, false };
    struct partitions *all = partitions_create(1, 1, seed);
    struct value value = { .type = VALUE_STRING, .encoding = STRING_PAGED };
    struct buffer bytes = { 0 }, scratch = { 0 };
    struct paged_extent extent;
    struct paged_root root;
    struct record record;
    uint64_t length;
    uint32_t block;

    (void)state;
    partitions_lock_all(all);
    assert_true(paged_string_root(5000, 1000000, 4032, &root));
    value.object = paged_string_of_root(&root, 1000000, 4032, 0x123456789abc);
    record_encode(entry_of(all, &value, 1234567), &bytes);
    assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
    assert_true(record.value.type == VALUE_STRING && record.value.encoding == STRING_PAGED && record.expire_ms == 1234567);
    assert_true(paged_string_of(&record.value)->length == 1000000 && paged_string_of(&record.value)->block == 4032);
    assert_true(paged_of(&record.value)->id == 0x123456789abc && paged_of(&record.value)->root.size == 5000 && paged_of(&record.value)->root.pages == 249);
    value_free(&record.value);
    assert_true(record_peek_pages(buffer_bytes(&bytes), &extent, NULL));
    assert_true(extent.id == 0x123456789abc && extent.table_pages == 249 && extent.tree_pages == 0);
    assert_true(record_peek_string(buffer_bytes(&bytes), &length, &block));
    assert_true(length == 1000000 && block == 4032);
    for (size_t size = 0; size < bytes.size; size++)
        assert_int_not_equal(record_decode(bytes_of(bytes.data, size), NULL, &limits, &scratch, &record), STATUS_OK);
    for (size_t at = 0; at < bytes.size * 8; at++) {
        bytes.data[at / 8] ^= (char)(1 << at % 8);
        if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK)
            value_free(&record.value);
        (void)record_peek_pages(buffer_bytes(&bytes), &extent, NULL);
        (void)record_peek_string(buffer_bytes(&bytes), &length, &block);
        bytes.data[at / 8] ^= (char)(1 << at % 8);
    }
    buffer_release(&bytes);
    buffer_release(&scratch);
    partitions_unlock_all(all);
    partitions_destroy(all);
}

/* A node of a stream with this number of live entries, in which each has the fields of its first one: none. */
static struct listpack *node_of(int entries)
{
    struct listpack *pack = listpack_create();

    listpack_append_int(&pack, entries);
    for (int i = 0; i < 3; i++)
        listpack_append_int(&pack, 0);
    for (int i = 0; i < entries; i++) {
        listpack_append_int(&pack, 2);          /* same fields */
        listpack_append_int(&pack, i);
        listpack_append_int(&pack, 0);
        listpack_append_int(&pack, 3);
    }
    return pack;
}

/* A stream's root has its groups. Any other bytes are damage, or harmless. */
static void roots_of_streams(void **state)
{
    struct key_seed seed = { { 1, 2 }, false };
    struct partitions *all = partitions_create(1, 1, seed);

    (void)state;
    partitions_lock_all(all);
    for (int which = 0; which < 4; which++) {
        const struct paged_root root = { .size = 5000 };
        struct page_tree_root tree = { 0 };
        bool with_pages = which & 1, with_tail = which & 2;
        struct value value = { .type = VALUE_STREAM, .encoding = STREAM_PAGED };
        struct paged_stream *made;
        struct bytes tail;
        struct buffer bytes = { 0 }, scratch = { 0 };
        struct stream_group *group;
        struct paged_extent extent;
        struct record record;
        const struct stream *read;

        if (with_pages) {
            tree = (struct page_tree_root){ .count = 9, .leaves = 1, .next = 1 };
            buffer_append(&tree.top, "\0\0\0\0\x09\0\0\0\0\0\0", 11);
        }
        value.object = stream_of_roots(&root, &tree, 0x123456789abc);
        made = value.object;
        if (with_tail)
            stream_node_add(&made->stream, (struct stream_id){ 900, 1 }, node_of(3));
        made->stream.last_id = (struct stream_id){ 1000, 7 };
        made->stream.entries_added = 20;
        made->stream.length = (with_pages ? 9 : 0) + (with_tail ? 3 : 0);
        if (made->stream.length > 0)
            made->stream.first_id = (struct stream_id){ 3, 4 };
        group = stream_group_create(&made->stream, BYTES("group"), (struct stream_id){ 5, 0 }, 3);
        (void)stream_pending_assign(group, (struct stream_id){ 4, 4 }, stream_consumer_create(group, BYTES("consumer"), 77), 66);
        record_encode(entry_of(all, &value, -1), &bytes);
        assert_int_equal(record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record), STATUS_OK);
        assert_int_equal(record.value.encoding, STREAM_PAGED);
        read = stream_of(&record.value);
        assert_true(read->pages == record.value.object && read->pages->paged.id == 0x123456789abc && read->pages->paged.root.size == 5000);
        assert_true(read->length == made->stream.length && read->last_id.seq == 7 && read->entries_added == 20 && stream_id_compare(read->first_id, made->stream.first_id) == 0);
        assert_int_equal(stream_nodes_live(read), read->length);
        assert_true(record_peek_tail(buffer_bytes(&bytes), &tail) && (tail.size > 0) == with_tail);
        assert_true(!with_tail || stream_id_compare(stream_page_id(tail), (struct stream_id){ 900, 1 }) == 0);
        assert_true(read->group_count == 1 && read->groups[0]->pending.count == 1 && read->groups[0]->consumers[0]->seen_ms == 77);
        value_free(&record.value);
        assert_true(record_peek_pages(buffer_bytes(&bytes), &extent, NULL));
        assert_true(extent.table_pages == 0 && extent.tree_pages == (uint32_t)with_pages);
        for (size_t size = 0; size < bytes.size; size++)
            assert_int_not_equal(record_decode(bytes_of(bytes.data, size), NULL, &limits, &scratch, &record), STATUS_OK);
        for (size_t at = 0; at < bytes.size; at++) {
            for (int bit = 0; bit < 8; bit++) {
                bytes.data[at] ^= (char)(1 << bit);
                if (record_decode(buffer_bytes(&bytes), NULL, &limits, &scratch, &record) == STATUS_OK && value_is_object(&record.value))
                    value_free(&record.value);
                bytes.data[at] ^= (char)(1 << bit);
            }
        }
        buffer_release(&bytes);
        buffer_release(&scratch);
    }
    partitions_unlock_all(all);
    partitions_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_of_lists_with_ends),
        cmocka_unit_test(roots_of_hashes_with_times),
        cmocka_unit_test(roots_of_strings),
        cmocka_unit_test(roots_of_streams),
        cmocka_unit_test(a_record_of_a_mortal_hash_knows_its_last_death),
        cmocka_unit_test(an_entry_comes_back_as_it_went),
        cmocka_unit_test(a_root_comes_back_as_it_went),
        cmocka_unit_test(other_formats_are_distinguished_from_damage),
        cmocka_unit_test(noise_is_never_trusted),
        cmocka_unit_test_setup_teardown(a_packed_record_is_the_same_value, open_packing, close_packing),
        cmocka_unit_test_setup_teardown(what_does_not_get_smaller_stays_as_it_was, open_packing, close_packing),
        cmocka_unit_test_setup_teardown(damage_to_a_packed_record_does_no_harm, open_packing, close_packing),
        cmocka_unit_test(what_a_packed_record_says_is_checked_before_it_is_believed),
        cmocka_unit_test_setup_teardown(a_bomb_in_a_record_is_bounded, open_packing, close_packing),
        cmocka_unit_test_setup_teardown(a_string_that_is_packed_twice_is_read, open_packing, close_packing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
