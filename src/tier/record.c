#include "tier/record.h"

#include "keyspace/page_name.h"
#include "store/dictionaries.h"
#include "value/codec.h"
#include "value/paged_list.h"
#include "value/paged_string.h"
#include "value/paged_times.h"
#include "value/paged_zset.h"
#include "value/stream_nodes.h"
#include "value/string.h"

enum { RECORD_FORMAT = 1, RECORD_FORMAT_ROOT = 2, RECORD_EXPIRES = 0x80, RECORD_RAW = 0x40, RECORD_TEXT = 0x20, RECORD_DIES = 0x10, RECORD_PACKED = 0x08,
    RECORD_FLAGS = 0xf8, HEAD_SIZE = 4 };
enum { TYPE_AND_ID_SIZE = 1 + 8, BYTES_SIZE = 8, SIZE_SIZE = 4, LENGTH_AND_BLOCK_SIZE = 8 + 4, BOUNDS_SIZE = 8 + 8 };
#define SIZE_WITH_ENDS (1ull << 63)      /* in the size of a list that has elements with its root */
enum { CODEC_LAST = COMPRESS_LZ4, TYPE_SIZE = 1, VARINT_SIZE_MAX = 5 };

/* Flags of how a value is kept that the payload does not have. */
static uint8_t kept_flags(const struct value *value)
{
    int64_t number;

    if ((value->type == VALUE_SET && value->encoding == SET_LISTPACK) || (value->type == VALUE_LIST && value->encoding == LIST_LISTPACK))
        return RECORD_RAW;
    if (value->type != VALUE_STRING)
        return 0;
    if (value->encoding == STRING_RAW)
        return RECORD_RAW;
    return value->encoding == STRING_EMBEDDED && string_to_int(value, &number) ? RECORD_TEXT : 0;
}

/* Bytes after which others come have their size in front. */
static size_t begin_sized(struct buffer *out)
{
    buffer_append(out, &(uint32_t){ 0 }, SIZE_SIZE);
    return out->size;
}

static void end_sized(struct buffer *out, size_t begin)
{
    uint32_t size = (uint32_t)(out->size - begin);

    memcpy(out->data + begin - SIZE_SIZE, &size, SIZE_SIZE);
}

static void tree_encode_sized(const struct page_tree_root *tree, struct buffer *out)
{
    size_t begin = begin_sized(out);

    page_tree_root_write(tree, out);
    end_sized(out, begin);
}

/* Whether a part of the elements is with the root: at the ends of a list, or the last node of a stream. */
static bool has_ends(const struct value *value)
{
    if (value->type == VALUE_STREAM)
        return stream_of(value)->nodes.count > 0;
    return value->type == VALUE_LIST && (paged_list_end_count(value, LIST_HEAD) > 0 || paged_list_end_count(value, LIST_TAIL) > 0);
}

static void ends_encode(const struct value *value, struct buffer *out)
{
    size_t begin = begin_sized(out);

    if (value->type == VALUE_LIST)
        paged_list_write_end(value, LIST_HEAD, out);
    else
        stream_write_tail(stream_of(value), out);
    end_sized(out, begin);
    if (value->type == VALUE_LIST)
        paged_list_write_end(value, LIST_TAIL, out);
}

static void root_encode(const struct value *value, struct buffer *out)
{
    const struct paged_value *paged = paged_of(value);
    char root[PAGED_ROOT_SIZE];

    buffer_append_u8(out, value->type);
    buffer_append(out, &paged->id, 8);
    if (paged_has_table(value)) {
        paged_root_write(&paged->root, root);
        buffer_append(out, root, sizeof(root));
    } else {
        uint64_t size = paged->root.size | (has_ends(value) ? SIZE_WITH_ENDS : 0);

        buffer_append(out, &size, BYTES_SIZE);
    }
    if (value->type == VALUE_STRING) {
        buffer_append(out, &paged_string_of(value)->length, 8);
        buffer_append(out, &paged_string_of(value)->block, 4);
    }
    if (value->type == VALUE_HASH && paged_has_tree(value)) {
        buffer_append(out, &paged_times_of(value)->bounds.first_ms, 8);
        buffer_append(out, &paged_times_of(value)->bounds.last_ms, 8);
    }
    if (value->type == VALUE_STREAM || has_ends(value)) {
        tree_encode_sized(&paged_ordered_of(value)->tree, out);
        if (has_ends(value))
            ends_encode(value, out);
        if (value->type == VALUE_STREAM)
            codec_write_stream_rest(value, out);
    } else if (paged_has_tree(value)) {
        page_tree_root_write(&paged_ordered_of(value)->tree, out);
    }
}

void record_encode(const struct entry *entry, struct buffer *out)
{
    struct value value = entry_value(entry);
    bool expires = entry->flags & ENTRY_EXPIRES, is_root = value_is_paged(&value);
    int64_t death_ms = entry_has_times(entry) ? hash_last_expiry(&value) : -1;

    buffer_append_u8(out, (uint8_t)((is_root ? RECORD_FORMAT_ROOT : RECORD_FORMAT) | (expires ? RECORD_EXPIRES : 0) | (death_ms >= 0 ? RECORD_DIES : 0) |
        kept_flags(&value)));
    buffer_append_u8(out, entry->heat);
    buffer_append(out, &entry->heat_minutes, 2);
    if (expires)
        buffer_append(out, entry->body, 8);
    if (death_ms >= 0)
        buffer_append(out, &death_ms, 8);
    if (UNLIKELY(is_root))
        root_encode(&value, out);
    else
        codec_encode(&value, out);
}

/* A time of eight bytes, if the format says that there is one. */
static enum status time_read(struct bytes *bytes, bool is_there, int64_t *time_ms)
{
    *time_ms = -1;
    if (!is_there)
        return STATUS_OK;
    if (bytes->size < 8)
        return STATUS_CORRUPT;
    memcpy(time_ms, bytes->data, 8);
    *bytes = bytes_of(bytes->data + 8, bytes->size - 8);
    return *time_ms < 0 ? STATUS_CORRUPT : STATUS_OK;
}

/* Reads the head and moves past it; `flags` say how the value was kept. */
static enum status head_read(struct bytes *bytes, struct record *record, uint8_t *flags)
{
    enum status status;
    uint8_t format;

    if (bytes->size < HEAD_SIZE)
        return STATUS_CORRUPT;
    format = (uint8_t)bytes->data[0];
    if ((format & ~RECORD_FLAGS) != RECORD_FORMAT && (format & ~(RECORD_EXPIRES | RECORD_DIES)) != RECORD_FORMAT_ROOT)
        return (format & ~RECORD_FLAGS) > RECORD_FORMAT_ROOT ? STATUS_VERSION : STATUS_CORRUPT;
    *flags = format & (RECORD_RAW | RECORD_TEXT | RECORD_PACKED | RECORD_FORMAT_ROOT);
    record->heat = (uint8_t)bytes->data[1];
    memcpy(&record->heat_minutes, bytes->data + 2, 2);
    *bytes = bytes_of(bytes->data + HEAD_SIZE, bytes->size - HEAD_SIZE);
    status = time_read(bytes, format & RECORD_EXPIRES, &record->expire_ms);
    return status == STATUS_OK ? time_read(bytes, format & RECORD_DIES, &record->death_ms) : status;
}

/* Roots of a value in pages, as its record has them. */
struct roots {
    struct value value;                 /* its type and encoding */
    uint64_t id;
    struct paged_root table;            /* without one: only the size */
    struct page_tree_root tree;         /* all zero if it has none */
    uint64_t length;                    /* of a string */
    uint32_t block;
    struct paged_bounds bounds;         /* of a hash with a tree */
    struct bytes rest;                  /* of a stream (codec_write_stream_rest) */
    bool has_ends;                      /* of a list or stream */
    struct bytes ends[2];               /* of a list: listpacks, or empty */
    struct bytes tail;                  /* of a stream: a page, or empty */
};

static struct bytes after(struct bytes bytes, size_t size)
{
    return bytes_of(bytes.data + size, bytes.size - size);
}

static bool table_read(struct bytes *bytes, struct paged_root *table)
{
    bool is_sound = bytes->size >= PAGED_ROOT_SIZE && paged_root_read(bytes->data, table) && table->count > 0 && table->pages <= PAGED_TREE_FIRST;

    if (is_sound)
        *bytes = after(*bytes, PAGED_ROOT_SIZE);
    return is_sound;
}

static bool bytes_read(struct bytes *bytes, struct roots *roots)
{
    uint64_t *size = &roots->table.size;

    if (bytes->size < BYTES_SIZE)
        return false;
    memcpy(size, bytes->data, BYTES_SIZE);
    *bytes = after(*bytes, BYTES_SIZE);
    roots->has_ends = (roots->value.type == VALUE_LIST || roots->value.type == VALUE_STREAM) && *size & SIZE_WITH_ENDS;
    if (roots->has_ends)
        *size &= ~SIZE_WITH_ENDS;
    return true;
}

/* Moves past bytes that have their size in front. */
static bool sized_read(struct bytes *bytes, struct bytes *part)
{
    uint32_t size = 0;

    if (bytes->size < SIZE_SIZE)
        return false;
    memcpy(&size, bytes->data, SIZE_SIZE);
    *bytes = after(*bytes, SIZE_SIZE);
    if (size > bytes->size)
        return false;
    *part = bytes_of(bytes->data, size);
    *bytes = after(*bytes, size);
    return true;
}

/* To be released if it is true. */
static bool tree_read_sized(struct bytes *bytes, struct page_tree_root *tree)
{
    struct bytes part;

    return sized_read(bytes, &part) && page_tree_root_read(part, tree);
}

/* Reads what follows the bytes of a list with ends. The tree is to be released if it is true. */
static bool ends_read(struct bytes bytes, struct roots *roots)
{
    if (!tree_read_sized(&bytes, &roots->tree))
        return false;
    if (sized_read(&bytes, &roots->ends[LIST_HEAD])) {
        roots->ends[LIST_TAIL] = bytes;
        if (roots->ends[LIST_HEAD].size + bytes.size > 0 && paged_list_end_is_sound(roots->ends[LIST_HEAD]) && paged_list_end_is_sound(roots->ends[LIST_TAIL]))
            return true;
    }
    page_tree_root_release(&roots->tree);
    return false;
}

/* The end of a string's root. */
static bool string_root_read(struct bytes bytes, struct roots *roots)
{
    if (bytes.size != LENGTH_AND_BLOCK_SIZE)
        return false;
    memcpy(&roots->length, bytes.data, 8);
    memcpy(&roots->block, bytes.data + 8, 4);
    return paged_string_root(roots->table.size, roots->length, roots->block, &roots->table);
}

/* Reads what follows the bytes of a stream. The tree is to be released if it is true. */
static bool stream_root_read(struct bytes bytes, struct roots *roots)
{
    bool is_sound = tree_read_sized(&bytes, &roots->tree);
    uint64_t live;

    if (!is_sound)
        return false;
    if (roots->has_ends)
        is_sound = sized_read(&bytes, &roots->tail) && stream_page_is_sound(roots->tail, &live);
    roots->rest = bytes;
    if (!is_sound)
        page_tree_root_release(&roots->tree);
    return is_sound;
}

/* A hash whose fields expire has more after its table than one without. */
static bool bounds_read(struct bytes *bytes, struct roots *roots)
{
    if (bytes->size < BOUNDS_SIZE)
        return false;
    memcpy(&roots->bounds.first_ms, bytes->data, 8);
    memcpy(&roots->bounds.last_ms, bytes->data + 8, 8);
    *bytes = after(*bytes, BOUNDS_SIZE);
    roots->value.encoding = HASH_PAGED_TIMES;
    return roots->bounds.first_ms > 0 && roots->bounds.last_ms >= roots->bounds.first_ms && roots->bounds.last_ms <= HASH_TIME_MAX;
}

/* Reads the bytes after the head of a value in pages. The tree's root is to be released if STATUS_OK is returned. */
static enum status roots_read(struct bytes bytes, struct roots *roots)
{
    static const uint8_t encodings[VALUE_TYPE_COUNT] = { [VALUE_STRING] = STRING_PAGED, [VALUE_HASH] = HASH_PAGED, [VALUE_SET] = SET_PAGED, [VALUE_ZSET] = ZSET_PAGED, [VALUE_LIST] = LIST_PAGED, [VALUE_STREAM] = STREAM_PAGED };

    *roots = (struct roots){ 0 };
    if (bytes.size < TYPE_AND_ID_SIZE || (uint8_t)bytes.data[0] >= VALUE_TYPE_COUNT)
        return STATUS_CORRUPT;
    roots->value = (struct value){ .type = (uint8_t)bytes.data[0], .encoding = encodings[(uint8_t)bytes.data[0]] };
    memcpy(&roots->id, bytes.data + 1, 8);
    if (roots->id >> PAGE_ID_BITS != 0)
        return STATUS_CORRUPT;
    bytes = after(bytes, TYPE_AND_ID_SIZE);
    if (!(paged_has_table(&roots->value) ? table_read(&bytes, &roots->table) : bytes_read(&bytes, roots)))
        return STATUS_CORRUPT;
    if (roots->value.type == VALUE_STRING)
        return string_root_read(bytes, roots) ? STATUS_OK : STATUS_CORRUPT;
    if (roots->value.type == VALUE_STREAM)
        return stream_root_read(bytes, roots) ? STATUS_OK : STATUS_CORRUPT;
    if (roots->has_ends)
        return ends_read(bytes, roots) ? STATUS_OK : STATUS_CORRUPT;
    if (roots->value.type == VALUE_HASH && bytes.size > 0 && !bounds_read(&bytes, roots))
        return STATUS_CORRUPT;
    if (!paged_has_tree(&roots->value))
        return bytes.size == 0 ? STATUS_OK : STATUS_CORRUPT;
    if (!page_tree_root_read(bytes, &roots->tree))
        return STATUS_CORRUPT;
    if (roots->tree.count > 0 && (roots->value.type != VALUE_HASH || roots->tree.count <= roots->table.count))
        return STATUS_OK;
    page_tree_root_release(&roots->tree);
    return STATUS_CORRUPT;
}

static struct paged_value *paged_of_roots(const struct roots *roots)
{
    if (roots->value.type == VALUE_LIST)
        return paged_list_of_roots(&roots->table, &roots->tree, (struct chunk_list *[2]){ paged_list_read_end(roots->ends[LIST_HEAD]), paged_list_read_end(roots->ends[LIST_TAIL]) }, roots->id);
    if (roots->value.type == VALUE_STRING)
        return paged_string_of_root(&roots->table, roots->length, roots->block, roots->id);
    if (roots->value.type == VALUE_STREAM)
        return stream_of_roots(&roots->table, &roots->tree, roots->id);
    if (roots->value.type == VALUE_HASH && paged_has_tree(&roots->value))
        return paged_times_of_roots(&roots->table, &roots->tree, &roots->bounds, roots->id);
    return paged_has_tree(&roots->value) ? paged_ordered_of_roots(&roots->table, &roots->tree, roots->id) : paged_of_root(&roots->table, roots->id);
}

static enum status root_decode(struct bytes bytes, const struct value_limits *limits, struct buffer *scratch, struct value *value)
{
    struct roots roots;
    enum status status = roots_read(bytes, &roots);

    if (status != STATUS_OK)
        return status;
    *value = roots.value;
    value->object = paged_of_roots(&roots);
    if (value->type == VALUE_STREAM) {
        stream_read_tail(stream_of(value), roots.tail);
        status = codec_read_stream_rest(roots.rest, limits, scratch, value);
    }
    if (status != STATUS_OK)
        value_free(value);
    return status;
}

/* Only what is in the roots. */
static enum status roots_peek(struct bytes bytes, struct roots *roots)
{
    enum status status = roots_read(bytes, roots);

    buffer_release(&roots->tree.top);
    return status;
}

/* The roots in the record of a value in pages, without what would have to be released. */
static bool record_peek_roots(struct bytes bytes, struct roots *roots)
{
    struct record record;
    uint8_t flags;

    return head_read(&bytes, &record, &flags) == STATUS_OK && flags & RECORD_FORMAT_ROOT && roots_peek(bytes, roots) == STATUS_OK;
}

bool record_peek_pages(struct bytes bytes, struct paged_extent *extent, struct paged_root *root)
{
    struct roots roots;

    if (!record_peek_roots(bytes, &roots))
        return false;
    *extent = (struct paged_extent){ roots.id, roots.table.pages, roots.tree.next };
    if (root != NULL)
        *root = roots.table;
    return true;
}

bool record_peek_first_time(struct bytes bytes, int64_t *first_ms)
{
    struct roots roots;

    if (!record_peek_roots(bytes, &roots) || roots.value.encoding != HASH_PAGED_TIMES || roots.value.type != VALUE_HASH)
        return false;
    *first_ms = roots.bounds.first_ms;
    return true;
}

bool record_peek_string(struct bytes bytes, uint64_t *length, uint32_t *block)
{
    struct roots roots;

    if (!record_peek_roots(bytes, &roots))
        return false;
    *length = roots.length;
    *block = roots.block;
    return roots.value.type == VALUE_STRING;
}

bool record_peek_ends(struct bytes bytes, struct bytes ends[2])
{
    struct roots roots;

    if (!record_peek_roots(bytes, &roots) || roots.value.type != VALUE_LIST)
        return false;
    memcpy(ends, roots.ends, sizeof(roots.ends));
    return true;
}

bool record_peek_tail(struct bytes bytes, struct bytes *tail)
{
    struct roots roots;

    if (!record_peek_roots(bytes, &roots) || roots.value.type != VALUE_STREAM)
        return false;
    *tail = roots.tail;
    return true;
}

bool record_peek_tree(struct bytes bytes, struct page_tree_root *tree)
{
    struct record record;
    struct roots roots;
    uint8_t flags;

    if (head_read(&bytes, &record, &flags) != STATUS_OK || !(flags & RECORD_FORMAT_ROOT) || roots_read(bytes, &roots) != STATUS_OK)
        return false;
    *tree = roots.tree;
    return paged_has_tree(&roots.value);    /* others have none to be released */
}

/* --- packed --- */

static void varint_append(struct buffer *out, uint32_t number)
{
    for (; number >= 0x80; number >>= 7)
        buffer_append_u8(out, (uint8_t)(number | 0x80));
    buffer_append_u8(out, (uint8_t)number);
}

static bool varint_read(struct bytes *bytes, uint32_t *number)
{
    uint64_t value = 0;

    for (size_t i = 0; i < VARINT_SIZE_MAX && i < bytes->size; i++) {
        uint8_t byte = (uint8_t)bytes->data[i];

        value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            *bytes = bytes_of(bytes->data + i + 1, bytes->size - i - 1);
            *number = (uint32_t)value;
            return value <= UINT32_MAX;
        }
    }
    return false;
}

/* The part of a packed record after its head. */
struct packed {
    enum compress_codec codec;
    uint32_t dictionary, size;
    struct bytes frame;
};

static enum status packed_read(struct bytes bytes, struct packed *packed)
{
    if (bytes.size < TYPE_SIZE + 1)
        return STATUS_CORRUPT;
    if ((uint8_t)bytes.data[TYPE_SIZE] > CODEC_LAST)
        return STATUS_VERSION;
    if (bytes.data[TYPE_SIZE] == 0)
        return STATUS_CORRUPT;
    packed->codec = (enum compress_codec)bytes.data[TYPE_SIZE];
    bytes = bytes_of(bytes.data + TYPE_SIZE + 1, bytes.size - TYPE_SIZE - 1);
    if (!varint_read(&bytes, &packed->dictionary) || !varint_read(&bytes, &packed->size) || packed->size > RECORD_UNPACKED_MAX - TYPE_SIZE)
        return STATUS_CORRUPT;
    packed->frame = bytes;
    return STATUS_OK;
}

/* The payload of what is after a head: the same bytes, or, if it is packed, appended to `scratch`. */
static enum status unpack(uint8_t *flags, struct dictionaries *dictionaries, struct buffer *scratch, struct bytes *bytes)
{
    struct decompressors alone = { .contexts = { NULL } };
    const struct dictionary *dictionary = NULL;
    size_t begin = scratch->size;
    struct packed packed;
    enum status status;

    if (!(*flags & RECORD_PACKED))
        return STATUS_OK;
    *flags &= (uint8_t)~RECORD_PACKED;
    status = packed_read(*bytes, &packed);
    if (status != STATUS_OK)
        return status;
    if (packed.dictionary != 0 && dictionaries != NULL)
        dictionary = dictionaries_pin(dictionaries, packed.dictionary);
    if (packed.dictionary != 0 && dictionary == NULL)
        return STATUS_CORRUPT;
    buffer_append(scratch, bytes->data, TYPE_SIZE);
    status = decompress_text(dictionaries != NULL ? dictionaries_decompressors(dictionaries) : &alone, packed.codec,
        dictionary != NULL ? dictionary->of : NULL, packed.frame, packed.size, scratch);
    if (dictionary != NULL)
        dictionaries_unpin(dictionaries, dictionary);
    decompressors_release(&alone);
    if (status == STATUS_OK)
        *bytes = bytes_of(scratch->data + begin, scratch->size - begin);
    return status;
}

bool record_is_packed(struct bytes bytes)
{
    return bytes.size >= HEAD_SIZE && (bytes.data[0] & RECORD_PACKED) != 0;
}

uint32_t record_dictionary(struct bytes bytes)
{
    struct record record;
    struct packed packed;
    uint8_t flags;

    if (head_read(&bytes, &record, &flags) != STATUS_OK || !(flags & RECORD_PACKED) || packed_read(bytes, &packed) != STATUS_OK)
        return 0;
    return packed.dictionary;
}

uint32_t record_lacks_dictionary(struct bytes bytes, struct dictionaries *dictionaries)
{
    uint32_t number = record_dictionary(bytes);

    return number != 0 && dictionaries_have(dictionaries, number) ? 0 : number;
}

struct bytes record_payload(struct bytes bytes)
{
    struct record record;
    uint8_t flags;

    if (head_read(&bytes, &record, &flags) != STATUS_OK || (flags & (RECORD_PACKED | RECORD_FORMAT_ROOT)))
        return bytes_of("", 0);
    return bytes;
}

bool record_pack(struct buffer *record, enum compress_codec codec, struct compressor *compressor, const struct dictionary *dictionary,
    struct buffer *room)
{
    struct bytes payload = record_payload(buffer_bytes(record)), text;
    size_t gain = record_pack_gain(payload.size);
    bool good = false;

    if (payload.size < RECORD_PACK_MIN || payload.size > RECORD_PACK_MAX)
        return false;
    text = bytes_of(payload.data + TYPE_SIZE, payload.size - TYPE_SIZE);
    room->size = 0;
    buffer_append(room, payload.data, TYPE_SIZE);
    buffer_append_u8(room, (uint8_t)codec);
    varint_append(room, dictionary != NULL ? dictionary->number : 0);
    varint_append(room, (uint32_t)text.size);
    if (room->size + gain < payload.size)
        good = compress_text(compressor, codec, dictionary != NULL ? dictionary->of : NULL, text, payload.size - gain - room->size, room);
    if (good) {
        record->data[0] |= RECORD_PACKED;
        record->size -= payload.size;
        buffer_append_bytes(record, buffer_bytes(room));
    }
    room->size = 0;
    return good;
}

/* --- decoding --- */

/* A string as it was kept: what the codec found to be an integer is text again. A set or a list has been brought into its
 * encoding. */
static enum status restore_kept(struct value *value, uint8_t flags, struct buffer *scratch)
{
    char digits[TEXT_INT_SIZE];
    struct bytes bytes;

    if (value->type == VALUE_SET)
        return value->encoding == SET_LISTPACK && flags == RECORD_RAW ? STATUS_OK : STATUS_CORRUPT;
    if (value->type == VALUE_LIST)
        return value->encoding == LIST_LISTPACK && flags == RECORD_RAW ? STATUS_OK : STATUS_CORRUPT;
    if (value->type != VALUE_STRING)
        return STATUS_CORRUPT;
    if (value->encoding == STRING_BIG)
        return STATUS_OK;
    bytes = string_bytes(value, digits);
    if (bytes.data == digits) {
        buffer_append_bytes(scratch, bytes);
        bytes = bytes_of(scratch->data + scratch->size - bytes.size, bytes.size);
    }
    if (flags & RECORD_RAW)
        *value = string_value_raw(bytes);
    else
        *value = (struct value){ .type = VALUE_STRING, .encoding = STRING_EMBEDDED, .bytes = bytes };
    return STATUS_OK;
}

static bool is_within(struct bytes bytes, const struct buffer *buffer)
{
    return buffer->size > 0 && bytes.data >= buffer->data && bytes.data < buffer->data + buffer->size;
}

/* `bytes`: the payload; if it is in `scratch`, what the codec needs goes elsewhere, as that would move it. Then an inline string that borrows from there is
 * moved to `scratch`. */
static enum status decode_payload(struct bytes bytes, const struct value_limits *limits, struct buffer *scratch, struct value *value)
{
    struct buffer more = { 0 };
    enum status status;

    if (!is_within(bytes, scratch))
        return codec_decode(bytes, limits, scratch, value);
    status = codec_decode(bytes, limits, &more, value);
    if (status == STATUS_OK && value->type == VALUE_STRING && value->encoding != STRING_INT && value->encoding != STRING_BIG &&
        is_within(value->bytes, &more)) {
        scratch->size = 0;
        buffer_append_bytes(scratch, value->bytes);
        value->bytes = buffer_bytes(scratch);
    }
    buffer_release(&more);
    return status;
}

/* When the record says that the value dies is when the value says so. */
static enum status judge_death(struct record *record)
{
    if (record->death_ms < 0 || (record->value.type == VALUE_HASH && hash_last_expiry(&record->value) == record->death_ms))
        return STATUS_OK;
    if (value_is_object(&record->value))
        value_free(&record->value);
    return STATUS_CORRUPT;
}

enum status record_decode(struct bytes bytes, struct dictionaries *dictionaries, const struct value_limits *limits, struct buffer *scratch,
    struct record *record)
{
    uint8_t flags;
    struct value_limits exact;
    enum status status = head_read(&bytes, record, &flags);

    if (status == STATUS_OK && flags & RECORD_FORMAT_ROOT) {
        status = root_decode(bytes, limits, scratch, &record->value);
        return status == STATUS_OK ? judge_death(record) : status;
    }
    if (status == STATUS_OK)
        status = unpack(&flags, dictionaries, scratch, &bytes);
    if (status != STATUS_OK)
        return status;
    exact = codec_limits_of(bytes, flags & RECORD_RAW ? CODEC_FROM_LISTPACK : CODEC_AS_WRITTEN, limits);
    status = decode_payload(bytes, &exact, scratch, &record->value);
    if (status == STATUS_OK)
        status = judge_death(record);
    if (status == STATUS_OK && flags != 0) {
        status = restore_kept(&record->value, flags, scratch);
        if (status != STATUS_OK)
            value_free(&record->value);
    }
    return status;
}

enum status record_peek(struct bytes bytes, int64_t *gone_ms, enum value_type *type)
{
    struct record record;
    uint8_t flags;
    enum status status = head_read(&bytes, &record, &flags);

    if (status != STATUS_OK)
        return status;
    *gone_ms = earlier_ms(record.expire_ms, record.death_ms);
    if (flags & RECORD_FORMAT_ROOT) {
        struct roots roots;

        status = roots_peek(bytes, &roots);
        *type = (enum value_type)roots.value.type;
        return status;
    }
    return codec_peek_type(bytes, type);
}

enum status record_peek_times(struct bytes bytes, int64_t *gone_ms, int64_t *expire_ms)
{
    struct record record;
    enum value_type type;
    enum status status = record_peek(bytes, gone_ms, &type);
    uint8_t flags;

    if (status == STATUS_OK)
        status = head_read(&bytes, &record, &flags);
    if (status == STATUS_OK)
        *expire_ms = record.expire_ms;
    return status;
}

enum status record_split(struct bytes bytes, struct dictionaries *dictionaries, struct buffer *scratch, struct record *record, struct bytes *payload)
{
    uint8_t flags;
    enum status status = head_read(&bytes, record, &flags);

    if (status == STATUS_OK && bytes.size == 0)
        status = STATUS_CORRUPT;
    if (status == STATUS_OK && flags & RECORD_FORMAT_ROOT)
        status = STATUS_INVALID;
    if (status == STATUS_OK)
        status = unpack(&flags, dictionaries, scratch, &bytes);
    *payload = bytes;
    return status;
}
