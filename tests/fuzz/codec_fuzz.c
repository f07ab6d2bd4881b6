/* Hostile payloads: any bytes, or an encoded value, damaged. They give a value that can be used in every way, or STATUS_CORRUPT.
 * What is read or written beyond bounds, and what is lost, is for the sanitizers to find. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "support/fuzz.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/stream_group.h"
#include "value/zset.h"
#include "value/string.h"

enum { PAYLOAD_MAX = 1 << 16, TEXT_MAX = 5000 };

static double random_score(struct fuzz_input *input)
{
    switch (fuzz_below(input, 4)) {
    case 0: return (double)fuzz_below(input, 5);
    case 1: return INFINITY;
    case 2: return (double)fuzz_next(input) / 1e15;
    }
    return -(double)fuzz_next(input);
}

static struct value random_stream(struct fuzz_input *input, size_t size)
{
    struct value_limits limits = { .stream_node_entries_max = 1 + fuzz_below(input, 9) };
    struct value value = stream_create();
    struct stream *stream = stream_of(&value);
    struct stream_group *group = stream_group_create(stream, BYTES("group"), (struct stream_id){ 1, 1 }, STREAM_ENTRIES_READ_UNKNOWN);
    char field[TEXT_MAX], data[TEXT_MAX];

    for (; size > 0; size--) {
        struct stream_id id = { stream->last_id.ms + fuzz_below(input, 3), stream->last_id.seq + 1 };
        struct bytes pair[2] = { fuzz_below(input, 2) ? BYTES("f") : fuzz_text(input, field, TEXT_MAX), fuzz_text(input, data, TEXT_MAX) };
        struct bytes name = fuzz_below(input, 2) ? BYTES("one") : BYTES("other");
        struct stream_consumer *consumer = stream_consumer_find(group, name);

        CHECK(stream_append(stream, &limits, id, pair, 1));
        if (consumer == NULL)
            consumer = stream_consumer_create(group, name, 5);
        if (fuzz_below(input, 2))
            stream_pending_assign(group, id, consumer, 0)->deliveries = fuzz_below(input, 100);
        if (fuzz_below(input, 5) == 0)
            stream_delete(stream, id);
    }
    return value;
}

static void make_payload(struct fuzz_input *input, const struct value_limits *limits, struct buffer *payload)
{
    char field[TEXT_MAX], data[TEXT_MAX];
    struct value value;
    uint64_t kind = fuzz_below(input, 13), size = fuzz_below(input, kind % 2 ? 8 : 200);

    if (kind == 0) {
        value = string_value(fuzz_text(input, data, TEXT_MAX));
    } else if (kind < 3) {
        value = hash_create();
        for (; size > 0; size--)
            hash_set(&value, limits, fuzz_text(input, field, TEXT_MAX), fuzz_text(input, data, TEXT_MAX));
        for (size = fuzz_below(input, 5); size > 0 && hash_count(&value) > 0; size--) {
            char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
            struct bytes drawn, unused;
            struct buffer copy = { 0 };

            CHECK(hash_random(&value, &input->random, &drawn, &unused, field_digits, value_digits));
            buffer_append_bytes(&copy, drawn);
            hash_set_time(&value, limits, buffer_bytes(&copy), (int64_t)fuzz_below(input, 1ull << fuzz_below(input, 49)));
            buffer_release(&copy);
        }
    } else if (kind >= 10) {
        value = random_stream(input, size);
    } else if (kind >= 7) {
        value = zset_create();
        for (; size > 0; size--)
            zset_put(&value, limits, fuzz_text(input, data, TEXT_MAX), random_score(input));
    } else if (kind < 5) {
        value = list_build(limits);
        for (size++; size > 0; size--)
            list_build_add(&value, fuzz_text(input, data, TEXT_MAX));
        CHECK(list_build_end(&value, limits) == STATUS_OK);
    } else {
        bool is_ints = fuzz_below(input, 2);

        value = set_create(limits, fuzz_text(input, data, TEXT_MAX), size);
        for (; size > 0; size--)
            set_add(&value, limits, is_ints ? bytes_of(data, text_of_int(fuzz_integer(input), data))
                                            : fuzz_text(input, data, TEXT_MAX));
    }
    codec_encode(&value, payload);
    value_free(&value);
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
static void use_times(struct fuzz_input *input, const struct value_limits *limits, struct value *hash)
{
    size_t count = hash_count(hash), mortal = 0, gone = 0;
    char digits[TEXT_INT_SIZE], more_digits[TEXT_INT_SIZE];
    struct buffer dead = { 0 };
    struct hash_iterator iterator;
    struct bytes field, value;
    int64_t next;

    for (int i = 0; i < 6; i++) {
        struct buffer copy = { 0 };
        int64_t time_ms = fuzz_below(input, 3) == 0 ? HASH_NO_TIME : (int64_t)fuzz_below(input, 1ull << fuzz_below(input, 46));

        CHECK(hash_random(hash, &input->random, &field, &value, digits, more_digits));
        buffer_append_bytes(&copy, field);
        hash_set_time(hash, limits, buffer_bytes(&copy), time_ms);
        CHECK(hash_time(hash, buffer_bytes(&copy)) == (time_ms == 0 ? 1 : time_ms));
        if (fuzz_below(input, 2)) {
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
        size_t more = hash_remove_expired(hash, next, 1 + fuzz_below(input, 4), note_dead, &dead);

        CHECK(more > 0);
        gone += more;
    }
    CHECK(gone == mortal && hash_count(hash) == count - mortal);
    buffer_release(&dead);
}

static void use_hash(struct fuzz_input *input, const struct value_limits *limits, struct value *hash)
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
        CHECK(hash_scan(hash, &cursor, 10, count_pair, &scanned));
    while (cursor != 0);
    CHECK(scanned == count);
    CHECK(hash_random(hash, &input->random, &field, &value, digits, more_digits));
    CHECK(hash_has(hash, field));
    hash_set(hash, limits, BYTES("a field that was not there"), BYTES("12"));
    CHECK(hash_delete(hash, BYTES("a field that was not there")));
    CHECK(hash_count(hash) == count);
    use_times(input, limits, hash);
}

static void count_member(void *context, struct bytes member)
{
    (*(size_t *)context)++;
}

static void use_set(struct fuzz_input *input, const struct value_limits *limits, struct value *set)
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
        CHECK(set_scan(set, &cursor, 10, count_member, &scanned));
    while (cursor != 0);
    CHECK(scanned == count);
    CHECK(set_sample(set, &input->random, 1 + count / 2, count_member, &sampled));
    CHECK(sampled == 1 + count / 2);
    CHECK(set_random(set, &input->random, digits, &member));
    CHECK(set_has(set, member));
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
    bool is_there;

    if (zset->encoding == ZSET_TREE)
        btree_verify(zset->object);
    zset_iterate(&iterator, zset, 0, ZSET_UP);
    for (; zset_next(&iterator, &member, &score); count++) {
        CHECK(score >= last);
        last = score;
        if (count % 16 == 0)
            CHECK(zset_rank(zset, member, &is_there, &rank, &again) && is_there && rank == count && again == score);
    }
    CHECK(count > 0 && count == zset_count(zset));
    do
        (void)zset_scan(zset, &cursor, 10, count_scored, &scanned);
    while (cursor != 0);
    CHECK(scanned == count);
    zset_put(zset, limits, BYTES("a member that was not there"), 2.25);
    CHECK(zset_score_border(zset, 2.25, BTREE_BELOW, &rank) && rank <= count);
    CHECK(zset_remove(zset, BYTES("a member that was not there")));
    zset_remove_ranks(zset, count / 3, count - count / 3);
    CHECK(zset_count(zset) == count / 3);
}

static void use_list(struct fuzz_input *input, const struct value_limits *limits, struct value *list)
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
    list_insert(list, 1 + fuzz_below(input, count), BYTES("an element that was not there"));
    list_set(list, fuzz_below(input, count + 3), BYTES("an element that was not there"));
    CHECK(list_remove(list, BYTES("an element that was not there"), SIZE_MAX, LIST_TAIL) >= 2);
    list_delete(list, 0, list_count(list));
    CHECK(list_count(list) == 0);
}

static void use_stream(struct fuzz_input *input, const struct value_limits *limits, struct value *value)
{
    struct stream *stream = stream_of(value);
    struct stream_trim trim = { .by = fuzz_below(input, 2) ? TRIM_ID : TRIM_LENGTH, .length_max = stream->length / 2 };
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

/* Whatever can be read can be written without times. */
static void check_without_times(struct bytes payload, bool is_good)
{
    struct buffer room = { 0 };
    struct bytes plain;
    enum status status;

    if (!codec_has_times(payload) || (uint8_t)payload.data[0] < CODEC_RDB_HASH_TIMES)
        return;
    status = codec_without_times(payload, &room, &plain);
    CHECK(status == STATUS_OK || (status == STATUS_CORRUPT && !is_good));
    buffer_release(&room);
}

static void use(struct fuzz_input *input, const struct value_limits *limits, struct value *value)
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
        use_hash(input, limits, &copy);
    if (value->type == VALUE_LIST)
        use_list(input, limits, &copy);
    if (value->type == VALUE_SET)
        use_set(input, limits, &copy);
    if (value->type == VALUE_ZSET)
        use_zset(limits, &copy);
    if (value->type == VALUE_STREAM)
        use_stream(input, limits, &copy);
    value_free(&copy);
    value_free(&decoded);
    buffer_release(&out);
    buffer_release(&scratch);
}

static const struct bytes telling = BYTES("\0\1\2\3\4\5\x09\x0b\x0c\x0d\x10\x11\x12\x16\x17\x18\x19\x3f\x40\x7f\x80\x81\xc0\xc3\xe0\xf0\xf4\xfe\xff");

static size_t limit(struct fuzz_input *input, size_t usual, size_t below)
{
    return fuzz_below(input, 2) ? fuzz_below(input, below) : usual;
}

static void run(struct fuzz_input *input, const struct value_limits *limits, struct bytes payload)
{
    struct buffer scratch = { 0 }, room = { 0 };
    struct bytes dumped;
    struct value value;
    enum status status;

    status = codec_decode(payload, limits, &scratch, &value);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
    CHECK(scratch.capacity <= 4096 + 200 * payload.size);
    check_without_times(payload, status == STATUS_OK);
    if (codec_for_dump(payload, &room, &dumped) != STATUS_OK)
        CHECK(status != STATUS_OK);
    if (status == STATUS_OK) {
        use(input, limits, &value);
        value_free(&value);
    }
    buffer_release(&room);
    buffer_release(&scratch);
}

/* '0' and a payload: decodes it with a server's default limits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct value_limits limits = {
        .hash_listpack_entries_max = 128, .hash_listpack_value_max = 64, .set_intset_entries_max = 512, .set_listpack_entries_max = 128,
        .set_listpack_value_max = 64, .zset_listpack_entries_max = 128, .zset_listpack_value_max = 64, .list_fill = -2, .list_depth = 0,
        .seed = { 7, 1 },
    };
    struct fuzz_input input;
    struct buffer payload = { 0 };
    struct bytes exact;
    uint64_t choice;

    fuzz_begin(&input, data, size);
    choice = fuzz_below(&input, 4);
    if (choice != 0) {
        limits.hash_listpack_entries_max = limit(&input, 128, 300);
        limits.hash_listpack_value_max = limit(&input, 64, 5000);
        limits.set_intset_entries_max = limit(&input, 512, 300);
        limits.set_listpack_entries_max = limit(&input, 128, 300);
        limits.set_listpack_value_max = limit(&input, 64, 5000);
        limits.zset_listpack_entries_max = limit(&input, 128, 300);
        limits.zset_listpack_value_max = limit(&input, 64, 5000);
        limits.list_fill = (int)fuzz_below(&input, 12) - 5;
        limits.list_depth = (int)fuzz_below(&input, 3);
        limits.seed = (struct hash_seed){ fuzz_below(&input, 256), 1 };
    }
    if (choice <= 1) {
        fuzz_rest(&input, &payload);
    } else {
        make_payload(&input, &limits, &payload);
        fuzz_damage(&input, &payload, telling, 5, PAYLOAD_MAX);
    }
    exact = fuzz_exact_copy(buffer_bytes(&payload));
    run(&input, &limits, exact);
    mem_free((void *)exact.data);
    buffer_release(&payload);
    return 0;
}
