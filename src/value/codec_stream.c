/* Streams: nodes, which are listpacks under their IDs, then the stream's state, then its groups. The store's records
 * are written as in Redis 7.2 (type 21). A dump is written as in 7.0 (type 19), so that 7.0 and later read it: it does
 * not contain the time at which each consumer was last active.
 *
 *   stream   = nodes | (ID 16 bytes | listpack)... | length | last ID | [first ID | max deleted ID | entries added] | groups | group...
 *   group    = name | last ID | [entries read] | pending | (ID 16 bytes | delivered 8 bytes | deliveries)... | consumers | consumer...
 *   consumer = name | seen 8 bytes | [active 8 bytes] | pending | (ID 16 bytes)...
 *
 * Numbers are lengths, and an ID is two of them; an ID of 16 bytes is big-endian, a time is little-endian, in milliseconds.
 */
#include <endian.h>
#include <string.h>

#include "value/codec_private.h"
#include "value/stream_group.h"
#include "value/stream_nodes.h"

/* Writing */

static void write_id(struct buffer *out, struct stream_id id)
{
    codec_write_length(out, id.ms);
    codec_write_length(out, id.seq);
}

static void put_raw_id(char to[16], struct stream_id id)
{
    uint64_t words[2] = { htobe64(id.ms), htobe64(id.seq) };

    memcpy(to, words, sizeof(words));
}

static void write_raw_id(struct buffer *out, struct stream_id id)
{
    char raw[16];

    put_raw_id(raw, id);
    buffer_append(out, raw, sizeof(raw));
}

static void write_time(struct buffer *out, int64_t ms)
{
    uint64_t word = htole64((uint64_t)ms);

    buffer_append(out, &word, sizeof(word));
}

static void write_consumer(uint8_t type, struct buffer *out, const struct stream_consumer *consumer)
{
    struct idmap_place place;

    codec_write_raw(out, consumer->name);
    write_time(out, consumer->seen_ms);
    if (type == CODEC_RDB_STREAM_3)
        write_time(out, consumer->active_ms);
    codec_write_length(out, consumer->pending.count);
    for (bool more = idmap_first(&consumer->pending, &place); more; more = idmap_next(&consumer->pending, &place))
        write_raw_id(out, idmap_id(&consumer->pending, place));
}

static void write_group(uint8_t type, struct buffer *out, const struct stream_group *group)
{
    struct idmap_place place;

    codec_write_raw(out, group->name);
    write_id(out, group->last_id);
    codec_write_length(out, (uint64_t)group->entries_read);
    codec_write_length(out, group->pending.count);
    for (bool more = idmap_first(&group->pending, &place); more; more = idmap_next(&group->pending, &place)) {
        const struct stream_pending *pending = idmap_value(&group->pending, place);

        write_raw_id(out, idmap_id(&group->pending, place));
        write_time(out, pending->delivered_ms);
        codec_write_length(out, pending->deliveries);
    }
    codec_write_length(out, group->consumer_count);
    for (uint32_t i = 0; i < group->consumer_count; i++)
        write_consumer(type, out, group->consumers[i]);
}

void codec_write_stream_node(struct buffer *out, struct stream_id id, struct bytes listpack)
{
    char raw[16];

    put_raw_id(raw, id);
    codec_write_raw(out, bytes_of(raw, sizeof(raw)));
    codec_write_raw(out, listpack);
}

static void write_rest(uint8_t type, const struct stream *stream, struct buffer *out)
{
    codec_write_length(out, stream->length);
    write_id(out, stream->last_id);
    write_id(out, stream->first_id);
    write_id(out, stream->max_deleted_id);
    codec_write_length(out, stream->entries_added);
    codec_write_length(out, stream->group_count);
    for (uint32_t i = 0; i < stream->group_count; i++)
        write_group(type, out, stream->groups[i]);
}

static void write_stream(uint8_t type, const struct value *value, struct buffer *out)
{
    const struct stream *stream = stream_of(value);
    struct stream_place place;

    buffer_append_u8(out, type);
    codec_write_length(out, stream_node_count(stream));
    for (bool more = stream_node_first(stream, &place); more; more = stream_node_next(stream, &place)) {
        struct stream_id id;
        const struct listpack *pack = stream_node_read(stream, &place, &id);

        codec_write_stream_node(out, id, listpack_bytes(pack));
    }
    write_rest(type, stream, out);
}

void codec_write_stream_rest(const struct value *value, struct buffer *out)
{
    write_rest(CODEC_RDB_STREAM_3, stream_of(value), out);
}

void codec_write_stream_rest_for_dump(const struct value *value, struct buffer *out)
{
    write_rest(CODEC_RDB_STREAM_2, stream_of(value), out);
}

void codec_write_stream(const struct value *value, struct buffer *out)
{
    write_stream(CODEC_RDB_STREAM_3, value, out);
}

void codec_write_stream_for_dump(const struct value *value, struct buffer *out)
{
    write_stream(CODEC_RDB_STREAM_2, value, out);
}

/* Reading. On failure the stream is consistent, and must be freed */

static bool read_id(struct bytes *input, struct stream_id *id)
{
    return codec_read_size(input, &id->ms) == STATUS_OK && codec_read_size(input, &id->seq) == STATUS_OK;
}

static struct stream_id raw_id(const char *from)
{
    uint64_t words[2];

    memcpy(words, from, sizeof(words));
    return (struct stream_id){ be64toh(words[0]), be64toh(words[1]) };
}

static bool read_raw_id(struct bytes *input, struct stream_id *id)
{
    struct bytes taken;

    if (!codec_take(input, 16, &taken))
        return false;
    *id = raw_id(taken.data);
    return true;
}

static bool read_time(struct bytes *input, int64_t *ms)
{
    struct bytes taken;
    uint64_t word;

    if (!codec_take(input, sizeof(word), &taken))
        return false;
    memcpy(&word, taken.data, sizeof(word));
    *ms = (int64_t)le64toh(word);
    return true;
}

/* A time from which others are subtracted: none is before 1970. */
static bool read_past(struct bytes *input, int64_t *ms)
{
    if (!read_time(input, ms))
        return false;
    if (*ms < 0)
        *ms = 0;
    return true;
}

static bool read_nodes(struct bytes *input, struct buffer *scratch, struct stream *stream)
{
    uint64_t count;

    if (codec_read_size(input, &count) != STATUS_OK)
        return false;
    for (; count > 0; count--) {
        struct bytes blob;
        struct stream_id id;

        if (codec_read_blob(input, scratch, &blob) != STATUS_OK || blob.size != 16)
            return false;
        id = raw_id(blob.data);
        if (codec_read_blob(input, scratch, &blob) != STATUS_OK || !stream_build_node(stream, id, blob))
            return false;
    }
    return true;
}

static bool read_name(struct bytes *input, size_t unpacked_max, struct buffer *scratch, char digits[TEXT_INT_SIZE], struct bytes *name)
{
    size_t mark = scratch->size;
    enum status status = codec_read_string(input, unpacked_max, scratch, digits, name);

    scratch->size = mark;
    return status == STATUS_OK;
}

static bool read_consumer(uint8_t type, struct bytes *input, size_t unpacked_max, struct buffer *scratch, struct stream_group *group)
{
    struct stream_consumer *consumer;
    char digits[TEXT_INT_SIZE];
    struct bytes name;
    int64_t seen_ms, active_ms;
    uint64_t count;
    bool is_new;

    if (!read_name(input, unpacked_max, scratch, digits, &name) || !read_past(input, &seen_ms))
        return false;
    active_ms = seen_ms;        /* as in Redis 7.2 */
    if (type == CODEC_RDB_STREAM_3 && !read_time(input, &active_ms))
        return false;
    consumer = stream_consumer_create(group, name, seen_ms);
    if (consumer == NULL || codec_read_size(input, &count) != STATUS_OK)
        return false;
    consumer->active_ms = active_ms;
    for (; count > 0; count--) {
        struct stream_id id;
        struct stream_pending *pending;

        if (!read_raw_id(input, &id))
            return false;
        pending = idmap_find(&group->pending, id);
        if (pending == NULL || pending->consumer != NULL)
            return false;
        pending->consumer = consumer;
        idmap_put(&consumer->pending, id, &is_new);
    }
    return true;
}

static bool read_pending(struct bytes *input, struct stream_group *group)
{
    uint64_t count;

    if (codec_read_size(input, &count) != STATUS_OK)
        return false;
    for (; count > 0; count--) {
        struct stream_id id;
        struct stream_pending *pending;
        bool is_new;

        if (!read_raw_id(input, &id))
            return false;
        pending = idmap_put(&group->pending, id, &is_new);
        if (!is_new || !read_past(input, &pending->delivered_ms) || codec_read_size(input, &pending->deliveries) != STATUS_OK)
            return false;
        if (pending->deliveries > STREAM_DELIVERIES_MAX)
            pending->deliveries = STREAM_DELIVERIES_MAX;
        if (pending->delivered_ms < group->oldest_ms)
            group->oldest_ms = pending->delivered_ms;
    }
    return true;
}

static bool read_group(uint8_t type, struct bytes *input, size_t unpacked_max, struct buffer *scratch, struct stream *stream)
{
    char digits[TEXT_INT_SIZE];
    struct bytes name;
    struct stream_id last_id;
    struct stream_group *group;
    uint64_t entries_read, consumers;
    size_t owned = 0;

    if (!read_name(input, unpacked_max, scratch, digits, &name) || !read_id(input, &last_id))
        return false;
    if (type == CODEC_RDB_STREAM)
        entries_read = (uint64_t)stream_entries_up_to(stream, last_id);
    else if (codec_read_size(input, &entries_read) != STATUS_OK)
        return false;
    group = stream_group_create(stream, name, last_id, (int64_t)entries_read);
    if (group == NULL || !read_pending(input, group) || codec_read_size(input, &consumers) != STATUS_OK)
        return false;
    for (; consumers > 0; consumers--) {
        if (!read_consumer(type, input, unpacked_max, scratch, group))
            return false;
    }
    for (uint32_t i = 0; i < group->consumer_count; i++)
        owned += group->consumers[i]->pending.count;
    return owned == group->pending.count;
}

static bool read_state(uint8_t type, struct bytes *input, struct stream *stream)
{
    struct stream_id first_id;

    if (codec_read_size(input, &stream->length) != STATUS_OK || !read_id(input, &stream->last_id))
        return false;
    if (type == CODEC_RDB_STREAM) {
        stream->entries_added = stream->length;
        return true;
    }
    if (!read_id(input, &first_id) || !read_id(input, &stream->max_deleted_id) || codec_read_size(input, &stream->entries_added) != STATUS_OK)
        return false;
    stream->first_id = first_id;
    return true;
}

static bool read_groups(uint8_t type, struct bytes *input, size_t unpacked_max, struct buffer *scratch, struct stream *stream)
{
    uint64_t groups;
    bool good = codec_read_size(input, &groups) == STATUS_OK;

    for (; good && groups > 0; groups--)
        good = read_group(type, input, unpacked_max, scratch, stream);
    return good;
}

enum status codec_read_stream(uint8_t type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value)
{
    struct value result = stream_create();
    struct stream *stream = stream_of(&result);
    bool good = read_nodes(input, scratch, stream);
    uint64_t length = stream->length;

    good = good && read_state(type, input, stream) && stream->length == length && stream_build_end(stream) &&
        read_groups(type, input, limits->string_unpacked_max, scratch, stream);
    if (!good) {
        value_free(&result);
        return STATUS_CORRUPT;
    }
    *value = result;
    return STATUS_OK;
}

enum status codec_read_stream_part(struct bytes *payload, struct buffer *scratch, struct value *value)
{
    struct value result = stream_create();
    struct bytes type;

    if (!codec_take(payload, 1, &type) || !read_nodes(payload, scratch, stream_of(&result))) {
        value_free(&result);
        return STATUS_CORRUPT;
    }
    stream_build_part(stream_of(&result));
    *value = result;
    return STATUS_OK;
}

enum status codec_read_stream_end(uint8_t type, struct bytes input, const struct value_limits *limits, struct buffer *scratch, const struct value *value)
{
    struct stream *stream = stream_of(value);
    uint64_t length = stream->length;
    bool good = read_state(type, &input, stream) && stream->length == length && stream_build_end(stream) &&
        read_groups(type, &input, limits->string_unpacked_max, scratch, stream) && input.size == 0;

    stream->length = length;
    if (!good)
        stream_build_part(stream);
    return good ? STATUS_OK : STATUS_CORRUPT;
}

enum status codec_read_stream_rest(struct bytes input, const struct value_limits *limits, struct buffer *scratch, const struct value *value)
{
    struct stream *stream = stream_of(value);

    return read_state(CODEC_RDB_STREAM_3, &input, stream) && stream->length == stream_nodes_live(stream) &&
        read_groups(CODEC_RDB_STREAM_3, &input, limits->string_unpacked_max, scratch, stream) && input.size == 0 ? STATUS_OK : STATUS_CORRUPT;
}

/* Converts a record of the store to a dump: everything is copied except the consumers' times */

static bool skip_bytes(struct bytes *input, size_t size)
{
    struct bytes taken;

    return codec_take(input, size, &taken);
}

static bool skip_sizes(struct bytes *input, int count)
{
    uint64_t size;

    while (count > 0 && codec_read_size(input, &size) == STATUS_OK)
        count--;
    return count == 0;
}

static bool skip_pending(struct bytes *input)
{
    uint64_t count;

    if (codec_read_size(input, &count) != STATUS_OK)
        return false;
    while (count > 0 && skip_bytes(input, 16 + 8) && skip_sizes(input, 1))
        count--;
    return count == 0;
}

/* Copies what was read since `*from`, and advances it. */
static void copy_passed(struct buffer *out, const char **from, const struct bytes *input)
{
    buffer_append(out, *from, (size_t)(input->data - *from));
    *from = input->data;
}

static bool convert_consumer(struct bytes *input, struct buffer *out, const char **from)
{
    uint64_t count;

    if (!codec_skip_string(input) || !skip_bytes(input, 8))
        return false;
    copy_passed(out, from, input);
    if (!skip_bytes(input, 8))
        return false;
    *from = input->data;
    return codec_read_size(input, &count) == STATUS_OK && count <= input->size / 16 && skip_bytes(input, count * 16);
}

enum status codec_stream_for_dump(struct bytes payload, struct buffer *out)
{
    struct bytes input = payload;
    const char *from;
    uint64_t nodes, groups, consumers;

    if (!skip_bytes(&input, 1) || payload.data[0] != CODEC_RDB_STREAM_3 || codec_read_size(&input, &nodes) != STATUS_OK)
        return STATUS_CORRUPT;
    buffer_append_u8(out, CODEC_RDB_STREAM_2);
    from = payload.data + 1;
    for (; nodes > 0; nodes--) {
        if (!codec_skip_string(&input) || !codec_skip_string(&input))
            return STATUS_CORRUPT;
    }
    if (!skip_sizes(&input, 8) || codec_read_size(&input, &groups) != STATUS_OK)
        return STATUS_CORRUPT;
    for (; groups > 0; groups--) {
        if (!codec_skip_string(&input) || !skip_sizes(&input, 3) || !skip_pending(&input) || codec_read_size(&input, &consumers) != STATUS_OK)
            return STATUS_CORRUPT;
        for (; consumers > 0; consumers--) {
            if (!convert_consumer(&input, out, &from))
                return STATUS_CORRUPT;
        }
    }
    copy_passed(out, &from, &input);
    return input.size == 0 ? STATUS_OK : STATUS_CORRUPT;
}
