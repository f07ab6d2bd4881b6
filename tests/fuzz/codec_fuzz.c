/* codec_fuzz SECONDS [SEED]: mutated payloads must give a value that can be used in every way, or STATUS_CORRUPT.
 * What is read or written beyond bounds, and what is lost, is for the sanitizers to find. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/fuzz.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/stream_group.h"
#include "value/zset.h"
#include "value/string.h"

enum { PAYLOAD_MAX = 1 << 16 };

static size_t random_size(struct random *random)
{
    return random_below(random, random_below(random, 8) == 0 ? 5000 : 90);
}

static struct bytes random_text(struct random *random, char *room)
{
    size_t size = random_size(random), kind = random_below(random, 3);

    if (kind == 0)
        return bytes_of(room, text_of_int((int64_t)random_next(random) >> random_below(random, 64), room));
    for (size_t i = 0; i < size; i++)
        room[i] = kind == 1 ? (char)random_next(random) : 'x';
    return bytes_of(room, size);
}

static double random_score(struct random *random)
{
    switch (random_below(random, 4)) {
    case 0: return (double)random_below(random, 5);
    case 1: return INFINITY;
    case 2: return (double)random_next(random) / 1e15;
    }
    return -(double)random_next(random);
}

static struct value random_stream(struct random *random, size_t size)
{
    struct value_limits limits = { .stream_node_entries_max = 1 + random_below(random, 9) };
    struct value value = stream_create();
    struct stream *stream = stream_of(&value);
    struct stream_group *group = stream_group_create(stream, BYTES("group"), (struct stream_id){ 1, 1 }, STREAM_ENTRIES_READ_UNKNOWN);
    char field[5000], data[5000];

    for (; size > 0; size--) {
        struct stream_id id = { stream->last_id.ms + random_below(random, 3), stream->last_id.seq + 1 };
        struct bytes pair[2] = { random_below(random, 2) ? BYTES("f") : random_text(random, field), random_text(random, data) };
        struct bytes name = random_below(random, 2) ? BYTES("one") : BYTES("other");
        struct stream_consumer *consumer = stream_consumer_find(group, name);

        CHECK(stream_append(stream, &limits, id, pair, 1));
        if (consumer == NULL)
            consumer = stream_consumer_create(group, name, 5);
        if (random_below(random, 2))
            stream_pending_assign(group, id, consumer)->deliveries = random_below(random, 100);
        if (random_below(random, 5) == 0)
            stream_delete(stream, id);
    }
    return value;
}

/* Payloads to start from: our own, and by hand the forms that we do not write. */
static void seed_payload(struct random *random, const struct value_limits *limits, struct buffer *payload)
{
    static const struct bytes made[] = {
        { "\x00\xc3\x0a\x40\x78\x02\x61\x62\x61\xe0\x6a\x01\x01\x61\x62", 15 },
        { "\x04\x02\xc1\x39\x30\xc0\xf9\x01\x66\xc3\x09\x40\x41\x01\x76\x76\xe0\x34\x00\x01\x76\x76", 22 },
        { "\x10\xc3\x16\x40\x51\x07\x51\x00\x00\x00\x02\x00\x9e\x61\xe0\x14\x00\x02\x1f\xa8\x62\xe0\x1e\x00\x01\x29\xff", 27 },
        { "\x09\x11\x02\x01\x61\x03\x02\x78\x79\x7a\x00\x00\x02\x62\x62\x01\x00\x37\xff", 19 },
        { "\x0d\x3c\x3c\x00\x00\x00\x31\x00\x00\x00\x0c\x00\x00\x01\x61\x03\xf4\x02\x02\x62\x62\x04\xfe\x85\x03\x01\x63\x03\xc0"
          "\x00\x80\x04\x01\x64\x03\xf0\x01\x02\x80\x05\x01\x65\x03\xd0\x00\x00\x00\x80\x06\x01\x66\x03\xe0\x00\x00\x00\x00\x00"
          "\x00\x00\x80\xff", 62 },
        { "\x14\x0c\x0c\x00\x00\x00\x02\x00\x81\x61\x02\x0c\x01\xff", 14 },
        { "\x03\x03\x01\x61\x03\x32\x2e\x35\xc0\x07\xfe\x01\x62\xff", 14 },
        { "\x0c\x18\x18\x00\x00\x00\x12\x00\x00\x00\x04\x00\x00\x01\x61\x03\xf2\x02\x01\x62\x03\x03\x32\x2e\x35\xff", 26 },
        { "\x01\x03\x01" "a\xc0\x0c\x00", 7 },
        { "\x0e\x02\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01" "a\x03\xfd\xff"
          "\x0d\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf6\xff", 33 },
        { "\x12\x02\x02\x0c\x0c\x00\x00\x00\x02\x00\x81" "a\x02\x0c\x01\xff\x01\x03" "xyz", 21 },
        { "\x16\x02\x05\x01" "a\x01" "1\x00\x01" "b\x01" "2", 12 },
        { "\x17\x16\x16\x00\x00\x00\x06\x00\x81" "a\x02\x81" "b\x02\x05\x01\x81" "c\x02\x81" "d\x02\x00\x01\xff", 26 },
        { "\x18\x05\x00\x00\x00\x00\x00\x00\x00\x02\x01\x01" "a\x01" "1\x00\x01" "b\x01" "2", 20 },
        { "\x19\x05\x00\x00\x00\x00\x00\x00\x00\x16\x16\x00\x00\x00\x06\x00\x81" "a\x02\x81" "b\x02\x05\x01\x81" "c\x02\x81" "d\x02\x00\x01\xff", 34 },
        { "\x0b\xc3\x0b\x12\x02\x02\x00\x00\x00\x05\x60\x03\x06\x01\x00\x02\x00", 17 },
    };
    enum { MADE = sizeof(made) / sizeof(made[0]) };
    char field[5000], data[5000];
    struct value value;
    uint64_t kind = random_below(random, MADE + 13), size = random_below(random, kind % 2 ? 8 : 200);

    if (kind < MADE) {
        buffer_append_bytes(payload, made[kind]);
        return;
    }
    if (kind == MADE) {
        value = string_value(random_text(random, data));
    } else if (kind < MADE + 3) {
        value = hash_create();
        for (; size > 0; size--)
            hash_set(&value, limits, random_text(random, field), random_text(random, data));
        for (size = random_below(random, 5); size > 0 && hash_count(&value) > 0; size--) {
            char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
            struct bytes drawn, unused;
            struct buffer copy = { 0 };

            hash_random(&value, random, &drawn, &unused, field_digits, value_digits);
            buffer_append_bytes(&copy, drawn);
            hash_set_time(&value, limits, buffer_bytes(&copy), (int64_t)random_below(random, 1ull << random_below(random, 49)));
            buffer_release(&copy);
        }
    } else if (kind >= MADE + 10) {
        value = random_stream(random, size);
    } else if (kind >= MADE + 7) {
        value = zset_create();
        for (; size > 0; size--)
            zset_put(&value, limits, random_text(random, data), random_score(random));
    } else if (kind < MADE + 5) {
        value = list_build(limits);
        for (size++; size > 0; size--)
            list_build_add(&value, random_text(random, data));
        CHECK(list_build_end(&value, limits) == STATUS_OK);
    } else {
        bool is_ints = random_below(random, 2);

        value = set_create(limits, random_text(random, data), size);
        for (; size > 0; size--)
            set_add(&value, limits, is_ints ? bytes_of(data, text_of_int((int64_t)random_next(random) >> random_below(random, 64), data))
                                            : random_text(random, data));
    }
    codec_encode(&value, payload);
    value_free(&value);
}

static void mutate(struct random *random, struct buffer *payload)
{
    static const uint8_t telling[] = { 0, 1, 2, 3, 4, 5, 9, 11, 12, 17, 13, 16, 22, 23, 24, 25, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xe0, 0xf0, 0xf4, 0xfe, 0xff };
    size_t at, size;
    uint8_t byte = random_below(random, 2) ? (uint8_t)random_next(random) : telling[random_below(random, sizeof(telling))];

    if (payload->size == 0) {
        buffer_append_u8(payload, byte);
        return;
    }
    /* The beginning is where sizes and counts are. */
    at = random_below(random, random_below(random, 2) && payload->size > 24 ? 24 : payload->size);
    size = random_below(random, payload->size - at) + 1;
    switch (random_below(random, 6)) {
    case 0: payload->data[at] = (char)byte; break;
    case 1: payload->data[at] ^= (char)(1 << random_below(random, 8)); break;
    case 2: payload->data[at] += random_below(random, 2) ? 1 : -1; break;
    case 3:
        buffer_reserve(payload, 1);
        memmove(payload->data + at + 1, payload->data + at, payload->size++ - at);
        payload->data[at] = (char)byte;
        break;
    case 4:
        if (size > 8)
            size = 1;
        memmove(payload->data + at, payload->data + at + size, payload->size - at - size);
        payload->size -= size;
        break;
    case 5:
        if (random_below(random, 4) == 0)
            payload->size = at;
        else if (payload->size < PAYLOAD_MAX) {
            buffer_reserve(payload, size);
            memcpy(payload->data + payload->size, payload->data + at, size);
            payload->size += size;
        }
        break;
    }
}

static void count_pair(void *context, struct bytes field, struct bytes value)
{
    (*(size_t *)context)++;
}

static void note_dead(void *context, struct bytes field)
{
    buffer_append_bytes(context, field);
}

/* Times come and go; then all that is mortal dies, the earliest first. */
static void use_times(struct random *random, const struct value_limits *limits, struct value *hash)
{
    size_t count = hash_count(hash), mortal = 0, gone = 0;
    char digits[TEXT_INT_SIZE], more_digits[TEXT_INT_SIZE];
    struct buffer dead = { 0 };
    struct hash_iterator iterator;
    struct bytes field, value;
    int64_t next;

    for (int i = 0; i < 6; i++) {
        struct buffer copy = { 0 };
        int64_t time_ms = random_below(random, 3) == 0 ? HASH_NO_TIME : (int64_t)random_below(random, 1ull << random_below(random, 46));

        hash_random(hash, random, &field, &value, digits, more_digits);
        buffer_append_bytes(&copy, field);
        hash_set_time(hash, limits, buffer_bytes(&copy), time_ms);
        CHECK(hash_time(hash, buffer_bytes(&copy)) == (time_ms == 0 ? 1 : time_ms));
        if (random_below(random, 2)) {
            CHECK(!hash_set_keeping(hash, limits, buffer_bytes(&copy), BYTES("another value")));
            CHECK(hash_time(hash, buffer_bytes(&copy)) == (time_ms == 0 ? 1 : time_ms));
        }
        buffer_release(&copy);
    }
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value))
        mortal += hash_time(hash, field) != HASH_NO_TIME;
    CHECK(hash_count(hash) == count && (mortal > 0) == hash_has_times(hash));
    while ((next = hash_next_expiry(hash)) != HASH_NO_TIME) {
        size_t more = hash_remove_expired(hash, next, 1 + random_below(random, 4), note_dead, &dead);

        CHECK(more > 0);
        gone += more;
    }
    CHECK(gone == mortal && hash_count(hash) == count - mortal);
    buffer_release(&dead);
}

static void use_hash(struct random *random, const struct value_limits *limits, struct value *hash)
{
    struct hash_iterator iterator;
    struct bytes field, value, again;
    char digits[TEXT_INT_SIZE], more_digits[TEXT_INT_SIZE];
    size_t count = 0, scanned = 0;
    uint64_t cursor = 0;

    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value)) {
        if (count++ % 16 == 0) {
            CHECK(hash_get(hash, field, &again, digits));
            CHECK(bytes_equal(value, again));
        }
    }
    CHECK(count > 0 && count == hash_count(hash));
    do
        cursor = hash_scan(hash, cursor, 10, count_pair, &scanned);
    while (cursor != 0);
    CHECK(scanned == count);
    hash_random(hash, random, &field, &value, digits, more_digits);
    CHECK(hash_has(hash, field));
    hash_set(hash, limits, BYTES("a field that was not there"), BYTES("12"));
    CHECK(hash_delete(hash, BYTES("a field that was not there")));
    CHECK(hash_count(hash) == count);
    use_times(random, limits, hash);
}

static void count_member(void *context, struct bytes member)
{
    (*(size_t *)context)++;
}

static void use_set(struct random *random, const struct value_limits *limits, struct value *set)
{
    struct set_iterator iterator;
    struct bytes member;
    char digits[TEXT_INT_SIZE];
    size_t count = 0, scanned = 0, sampled = 0;
    uint64_t cursor = 0;

    set_iterate(&iterator, set);
    while (set_next(&iterator, &member)) {
        if (count++ % 16 == 0)
            CHECK(set_has(set, member));
    }
    CHECK(count > 0 && count == set_count(set));
    do
        cursor = set_scan(set, cursor, 10, count_member, &scanned);
    while (cursor != 0);
    CHECK(scanned == count);
    set_sample(set, random, 1 + count / 2, count_member, &sampled);
    CHECK(sampled == 1 + count / 2);
    CHECK(set_has(set, set_random(set, random, digits)));
    set_add(set, limits, BYTES("a member that was not there"));
    CHECK(set_remove(set, BYTES("a member that was not there")));
    CHECK(set_count(set) == count);
}

static void count_scored(void *context, struct bytes member, double score)
{
    (*(size_t *)context)++;
}

static void use_zset(const struct value_limits *limits, struct value *zset)
{
    struct zset_iterator iterator;
    struct bytes member;
    size_t count = 0, scanned = 0, rank;
    uint64_t cursor = 0;
    double score, last = -INFINITY, again;

    if (zset->encoding == ZSET_TREE)
        btree_verify(zset->object);
    zset_iterate(&iterator, zset, 0, ZSET_UP);
    for (; zset_next(&iterator, &member, &score); count++) {
        CHECK(score >= last);
        last = score;
        if (count % 16 == 0)
            CHECK(zset_rank(zset, member, &rank, &again) && rank == count && again == score);
    }
    CHECK(count > 0 && count == zset_count(zset));
    do
        cursor = zset_scan(zset, cursor, 10, count_scored, &scanned);
    while (cursor != 0);
    CHECK(scanned == count);
    zset_put(zset, limits, BYTES("a member that was not there"), 2.25);
    CHECK(zset_count_by_score(zset, 2.25, BTREE_BELOW) <= count);
    CHECK(zset_remove(zset, BYTES("a member that was not there")));
    zset_remove_ranks(zset, count / 3, count - count / 3);
    CHECK(zset_count(zset) == count / 3);
}

static void use_list(struct random *random, const struct value_limits *limits, struct value *list)
{
    size_t count = list_count(list), seen = 0;
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    list_iterate(&iterator, list, 0, LIST_TAIL);
    for (; list_step(&iterator); seen++)
        CHECK(list_equals(&iterator, list_element(&iterator, digits)));
    list_iterate_end(&iterator);
    CHECK(count > 0 && seen == count);
    list_grow(list, limits, 3, 40);
    list_push(list, LIST_HEAD, BYTES("an element that was not there"));
    list_push(list, LIST_TAIL, BYTES("12"));
    list_insert(list, 1 + random_below(random, count), BYTES("an element that was not there"));
    list_set(list, random_below(random, count + 3), BYTES("an element that was not there"));
    CHECK(list_remove(list, BYTES("an element that was not there"), SIZE_MAX, LIST_TAIL) >= 2);
    list_delete(list, 0, list_count(list));
    CHECK(list_count(list) == 0);
}

static void use_stream(struct random *random, const struct value_limits *limits, struct value *value)
{
    struct stream *stream = stream_of(value);
    struct stream_trim trim = { .by = random_below(random, 2) ? TRIM_ID : TRIM_LENGTH, .length_max = stream->length / 2 };
    struct bytes pair[2] = { BYTES("field"), BYTES("12") }, field, data;
    struct stream_iterator iterator;
    struct stream_id id, ids[2] = { { 0, 0 }, { 0, 0 } };
    size_t pair_count;

    stream_verify(stream);
    for (int direction = 0; direction < 2; direction++) {
        uint64_t count = 0;

        stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, direction == 0 ? STREAM_UP : STREAM_DOWN);
        while (stream_next(&iterator, &id, &pair_count)) {
            ids[direction] = id;
            for (count++; pair_count > 0; pair_count--)
                stream_pair(&iterator, &field, &data);
        }
        CHECK(count == stream->length);
        if (count > 0)
            CHECK(stream_has(stream, ids[direction]));
    }
    id = stream->last_id;
    if (stream_id_increment(&id))
        CHECK(stream_append(stream, limits, id, pair, 1));
    trim.min_id = ids[0];
    stream_trim(stream, &trim);
    stream_verify(stream);
    if (stream->length > 0)
        CHECK(stream_delete(stream, stream->first_id));
    while (stream->group_count > 0) {
        struct stream_group *group = stream->groups[0];

        while (group->consumer_count > 0)
            stream_consumer_destroy(group, group->consumers[0]);
        stream_group_destroy(stream, group->name);
    }
    stream_verify(stream);
}

/* A record of it, made a dump of, is the dump. */
static void check_dump(const struct value *value, struct bytes dump)
{
    struct buffer record = { 0 }, room = { 0 };
    struct bytes dumped;

    codec_encode(value, &record);
    CHECK(codec_for_dump(buffer_bytes(&record), &room, &dumped) == STATUS_OK);
    CHECK(bytes_equal(dumped, bytes_of(dump.data, dump.size - CODEC_DUMP_FOOTER_SIZE)));
    buffer_release(&record);
    buffer_release(&room);
}

static void use(struct random *random, const struct value_limits *limits, struct value *value)
{
    struct value copy = value_copy(value), decoded;
    struct buffer out = { 0 }, scratch = { 0 };
    uint8_t digest[20], digest_copy[20], digest_decoded[20];

    value_digest(value, digest);
    value_digest(&copy, digest_copy);
    CHECK(memcmp(digest, digest_copy, 20) == 0);
    codec_dump(&copy, &out);
    check_dump(value, buffer_bytes(&out));
    CHECK(codec_restore(buffer_bytes(&out), limits, &scratch, &decoded) == STATUS_OK);
    value_digest(&decoded, digest_decoded);
    CHECK(memcmp(digest, digest_decoded, 20) == 0);
    CHECK(value_encoding_name(value) != NULL);
    CHECK(value_memory(value, 5) > 0 || !value_is_object(value));
    if (value->type == VALUE_HASH)
        use_hash(random, limits, &copy);
    if (value->type == VALUE_LIST)
        use_list(random, limits, &copy);
    if (value->type == VALUE_SET)
        use_set(random, limits, &copy);
    if (value->type == VALUE_ZSET)
        use_zset(limits, &copy);
    if (value->type == VALUE_STREAM)
        use_stream(random, limits, &copy);
    value_free(&copy);
    value_free(&decoded);
    buffer_release(&out);
    buffer_release(&scratch);
}

static bool run(uint64_t seed)
{
    struct random random;
    struct value_limits limits;
    struct buffer payload = { 0 }, scratch = { 0 }, room = { 0 };
    struct bytes dumped;
    struct value value;
    char *exact;
    enum status status;

    random_init(&random, seed);
    limits = (struct value_limits){
        .hash_listpack_entries_max = random_below(&random, 2) ? 128 : random_below(&random, 300),
        .hash_listpack_value_max = random_below(&random, 3) ? 64 : 5000,
        .set_intset_entries_max = random_below(&random, 2) ? 512 : random_below(&random, 300),
        .set_listpack_entries_max = random_below(&random, 2) ? 128 : random_below(&random, 300),
        .set_listpack_value_max = random_below(&random, 3) ? 64 : 5000,
        .zset_listpack_entries_max = random_below(&random, 2) ? 128 : random_below(&random, 300),
        .zset_listpack_value_max = random_below(&random, 3) ? 64 : 5000,
        .list_fill = (int)random_below(&random, 12) - 5,
        .list_depth = (int)random_below(&random, 3),
        .seed = { seed, 1 },
    };
    seed_payload(&random, &limits, &payload);
    for (uint64_t i = random_below(&random, 6); i > 0; i--)
        mutate(&random, &payload);
    /* Exactly as large, so that a read beyond it is seen. */
    exact = mem_alloc(payload.size);
    if (payload.size > 0)
        memcpy(exact, payload.data, payload.size);
    status = codec_decode(bytes_of(exact, payload.size), &limits, &scratch, &value);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
    CHECK(scratch.capacity <= 4096 + 200 * payload.size);
    if (codec_for_dump(bytes_of(exact, payload.size), &room, &dumped) != STATUS_OK)
        CHECK(status != STATUS_OK);
    if (status == STATUS_OK) {
        use(&random, &limits, &value);
        value_free(&value);
    }
    mem_free(exact);
    buffer_release(&room);
    buffer_release(&payload);
    buffer_release(&scratch);
    return status == STATUS_OK;
}

int main(int argc, char **argv)
{
    struct fuzz_time time;
    uint64_t seed = fuzz_begin(&time, "codec_fuzz", argc, argv), first = seed, good = 0;

    do {
        for (int i = 0; i < 100; i++)
            good += run(seed++);
    } while (fuzz_goes_on(&time));
    printf("codec_fuzz: %" PRIu64 " payloads, %" PRIu64 " of them good\n", seed - first, good);
    return 0;
}
