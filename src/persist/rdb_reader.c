#include "persist/rdb_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "persist/rdb_format.h"
#include "value/codec.h"

enum {
    NAME_SHOWN_MAX = 80,
    READ_SIZE = 64 << 10,
    READ_SIZE_MAX = 1 << 20,        /* at once: a wrong length costs no more memory than that */
    WINDOW_KEPT_MAX = 4 << 20,      /* bytes that are not freed after a big value */
    PART_SIZE = 1 << 20,            /* of values that are split */
    PART_HEAD_MAX = 14,             /* type, the earliest time of fields, and a number of elements below 2^32 */
};

/* The window has the bytes of the file from `offset` on. Bytes before `begin` may be dropped; `position` is where reading goes on. While a
 * part is kept (`keeps`), `begin` stays at its start. All three positions are relative to the window's data. */
struct rdb_reader {
    struct rdb_source source;
    int fd;                         /* of rdb_reader_create_file; else -1 */
    uint64_t fd_offset;
    uint64_t offset;
    struct buffer window;
    size_t begin, position;
    size_t summed;                  /* the checksum covers the bytes before this position */
    bool keeps;
    uint64_t crc;
    int version;                    /* 0: the header has not been read yet */
    uint64_t db;
    bool splits;
    uint64_t left;                  /* elements of a value that is split; 0: none is */
    uint64_t unpacked;              /* bytes that strings which were skipped would have beyond those of the file; of the part */
    uint8_t left_type;
    uint64_t left_earliest;         /* of a hash whose fields have times */
    struct buffer name, text, scratch;
    enum status status;             /* of the first error */
    struct message *message;        /* of the current call */
    const struct rdb_part *part;    /* the current key, for messages; else NULL */
};

static ssize_t read_from_fd(void *context, void *to, size_t size)
{
    struct rdb_reader *reader = context;
    ssize_t got = file_pread_all(disk_system(), reader->fd, to, size, reader->fd_offset);

    if (got > 0)
        reader->fd_offset += (uint64_t)got;
    return got;
}

struct rdb_reader *rdb_reader_create(const struct rdb_source *source)
{
    struct rdb_reader *reader = mem_zalloc(sizeof(*reader));

    reader->source = *source;
    reader->fd = -1;
    return reader;
}

struct rdb_reader *rdb_reader_create_file(int fd)
{
    struct rdb_source source = { .read = read_from_fd, .size = UINT64_MAX };
    struct rdb_reader *reader;
    struct stat info;

    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        source.size = (uint64_t)info.st_size;
    reader = rdb_reader_create(&source);
    reader->source.context = reader;
    reader->fd = fd;
    return reader;
}

void rdb_reader_destroy(struct rdb_reader *reader)
{
    if (reader == NULL)
        return;
    buffer_release(&reader->window);
    buffer_release(&reader->name);
    buffer_release(&reader->text);
    buffer_release(&reader->scratch);
    mem_free(reader);
}

void rdb_reader_split(struct rdb_reader *reader)
{
    reader->splits = true;
}

uint64_t rdb_reader_offset(const struct rdb_reader *reader)
{
    return reader->offset + reader->position;
}

int rdb_reader_version(const struct rdb_reader *reader)
{
    return reader->version;
}

bool rdb_is_one(struct bytes head)
{
    return head.size >= 5 && memcmp(head.data, "REDIS", 5) == 0;
}

/* Sets the error, unless there is one already: only the first one is reported. Returns false. */
__attribute__((format(printf, 3, 4)))
static bool fail_reading(struct rdb_reader *reader, enum status status, const char *format, ...)
{
    va_list args;

    if (reader->status != STATUS_OK)
        return false;
    reader->status = status;
    va_start(args, format);
    message_set_args(reader->message, format, args);
    va_end(args);
    message_append(reader->message, ", at offset %" PRIu64, rdb_reader_offset(reader));
    if (reader->part != NULL)
        message_append(reader->message, " (in the key '%.*s', type %u: %s)",
            (int)(reader->name.size < NAME_SHOWN_MAX ? reader->name.size : NAME_SHOWN_MAX), reader->name.data, reader->part->type,
            rdb_type_name(reader->part->type));
    return false;
}

/* Extends the checksum to everything before `to`. */
static void update_checksum(struct rdb_reader *reader, size_t to)
{
    if (reader->summed >= to)
        return;
    reader->crc = crc64(reader->crc, bytes_of(reader->window.data + reader->summed, to - reader->summed));
    reader->summed = to;
}

static void shift_window(struct rdb_reader *reader)
{
    size_t left = reader->window.size - reader->begin;

    if (reader->begin == 0)
        return;
    update_checksum(reader, reader->begin);
    memmove(reader->window.data, reader->window.data + reader->begin, left);
    reader->offset += reader->begin;
    reader->position -= reader->begin;
    reader->summed -= reader->begin;
    reader->begin = 0;
    reader->window.size = left;
    buffer_shrink(&reader->window, WINDOW_KEPT_MAX);
}

/* Reads until the window has `size` bytes from `position` on. */
static bool need_bytes(struct rdb_reader *reader, uint64_t size)
{
    while (reader->window.size - reader->position < size) {
        uint64_t missing = size - (reader->window.size - reader->position), there = reader->offset + reader->window.size;
        size_t want = missing < READ_SIZE ? READ_SIZE : missing > READ_SIZE_MAX ? READ_SIZE_MAX : (size_t)missing;
        ssize_t got;

        if (reader->source.size != UINT64_MAX && (there >= reader->source.size || missing > reader->source.size - there))
            return fail_reading(reader, STATUS_TRUNCATED, "the RDB file ends early: %" PRIu64 " bytes were expected", size);
        shift_window(reader);
        got = reader->source.read(reader->source.context, buffer_reserve(&reader->window, want), want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_reading(reader, STATUS_IO, "the RDB file can't be read: %s", strerror(errno));
        if (got == 0)
            return fail_reading(reader, STATUS_TRUNCATED, "the RDB file ends early: %" PRIu64 " bytes were expected", size);
        reader->window.size += (size_t)got;
    }
    return true;
}

static void advance(struct rdb_reader *reader, size_t size)
{
    reader->position += size;
    if (!reader->keeps)
        reader->begin = reader->position;
}

/* Skips `size` bytes, which need not be in memory at the same time unless they are kept. */
static bool skip_bytes(struct rdb_reader *reader, uint64_t size)
{
    while (size > 0) {
        size_t here = reader->window.size - reader->position;

        if (reader->keeps || here == 0) {
            if (!need_bytes(reader, reader->keeps ? size : 1))
                return false;
            here = reader->window.size - reader->position;
        }
        if (here > size)
            here = (size_t)size;
        advance(reader, here);
        size -= here;
    }
    return true;
}

static const uint8_t *next_bytes(const struct rdb_reader *reader)
{
    return (const uint8_t *)reader->window.data + reader->position;
}

static bool take_byte(struct rdb_reader *reader, uint8_t *byte)
{
    if (!need_bytes(reader, 1))
        return false;
    *byte = *next_bytes(reader);
    advance(reader, 1);
    return true;
}

static bool take_number(struct rdb_reader *reader, size_t size, uint64_t *number)
{
    if (!need_bytes(reader, size))
        return false;
    *number = 0;
    memcpy(number, next_bytes(reader), size);         /* little-endian machines only */
    advance(reader, size);
    return true;
}

static bool take_length_or_form(struct rdb_reader *reader, uint64_t *length, bool *is_form)
{
    struct bytes input;
    uint8_t first;
    size_t size;

    if (!need_bytes(reader, 1))
        return false;
    first = *next_bytes(reader);
    size = first >> 6 == 1 ? 2 : first == 0x80 ? 5 : first == 0x81 ? 9 : 1;
    if (!need_bytes(reader, size))
        return false;
    input = bytes_of(next_bytes(reader), size);
    if (codec_read_length(&input, length, is_form) != STATUS_OK)
        return fail_reading(reader, STATUS_CORRUPT, "a length begins with the byte 0x%02x, which is invalid", first);
    advance(reader, size);
    return true;
}

static bool take_length(struct rdb_reader *reader, uint64_t *length)
{
    bool is_form;

    if (!take_length_or_form(reader, length, &is_form))
        return false;
    return is_form ? fail_reading(reader, STATUS_CORRUPT, "a length was expected") : true;
}

/* Skips what follows a string's length or form. */
static bool skip_string_body(struct rdb_reader *reader, uint64_t length, bool is_form)
{
    uint64_t unpacked;

    if (is_form && length < 3)
        return skip_bytes(reader, (uint64_t)1 << length);     /* an integer of 1, 2 or 4 bytes */
    if (is_form && length > 3)
        return fail_reading(reader, STATUS_CORRUPT, "a string has the form %" PRIu64 ", which is not known", length);
    if (is_form) {
        if (!take_length(reader, &length) || !take_length(reader, &unpacked))
            return false;
        reader->unpacked += unpacked > length ? unpacked - length : 0;
    }
    return skip_bytes(reader, length);
}

/* Skips a string of any form. */
static bool skip_string(struct rdb_reader *reader)
{
    uint64_t length;
    bool is_form;

    return take_length_or_form(reader, &length, &is_form) && skip_string_body(reader, length, is_form);
}

/* Reads a string, decompressed, into `out`. */
static bool take_string(struct rdb_reader *reader, struct buffer *out)
{
    char digits[TEXT_INT_SIZE];
    struct bytes input, string;
    size_t size;

    reader->begin = reader->position;
    reader->keeps = true;
    if (!skip_string(reader))
        return false;
    size = reader->position - reader->begin;
    input = bytes_of(reader->window.data + reader->begin, size);
    reader->scratch.size = 0;
    if (codec_read_string(&input, 0, &reader->scratch, digits, &string) != STATUS_OK)
        return fail_reading(reader, STATUS_CORRUPT, "a compressed string is damaged");
    out->size = 0;
    buffer_append_bytes(out, string);
    reader->scratch.size = 0;
    buffer_shrink(&reader->scratch, WINDOW_KEPT_MAX);
    reader->keeps = false;
    reader->begin = reader->position;
    return true;
}

/* An empty one is at an address, too. */
static struct bytes name_of(const struct rdb_reader *reader)
{
    return reader->name.size > 0 ? buffer_bytes(&reader->name) : bytes_of("", 0);
}

/* Bodies as patterns: s is a string, n a length, 8 and b are 8 and 16 bytes, f is a score as text, m what a module wrote; (x) is a length
 * and that number of x. */
static const char *const bodies[] = {
    [RDB_TYPE_STRING] = "s",
    [RDB_TYPE_LIST] = "(s)",
    [RDB_TYPE_SET] = "(s)",
    [RDB_TYPE_ZSET] = "(sf)",
    [RDB_TYPE_HASH] = "(ss)",
    [RDB_TYPE_ZSET_2] = "(s8)",
    [RDB_TYPE_MODULE_2] = "nm",
    [RDB_TYPE_HASH_ZIPMAP] = "s",
    [RDB_TYPE_LIST_ZIPLIST] = "s",
    [RDB_TYPE_SET_INTSET] = "s",
    [RDB_TYPE_ZSET_ZIPLIST] = "s",
    [RDB_TYPE_HASH_ZIPLIST] = "s",
    [RDB_TYPE_LIST_QUICKLIST] = "(s)",
    /* Nodes (first id, entries); length, last id; groups: name, last id, pending entries (id, time, count), consumers (name, time, ids). */
    [RDB_TYPE_STREAM] = "(ss)nnn(snn(b8n)(s8(b)))",
    [RDB_TYPE_HASH_LISTPACK] = "s",
    [RDB_TYPE_ZSET_LISTPACK] = "s",
    [RDB_TYPE_LIST_QUICKLIST_2] = "(ns)",
    /* The same with first id, last deleted id and entries added; and each group's entries read. */
    [RDB_TYPE_STREAM_2] = "(ss)nnnnnnnn(snnn(b8n)(s8(b)))",
    [RDB_TYPE_SET_LISTPACK] = "s",
    /* And a second time of each consumer. */
    [RDB_TYPE_STREAM_3] = "(ss)nnnnnnnn(snnn(b8n)(s88(b)))",
    [RDB_TYPE_HASH_EXPIRES_OLD] = "(nss)",
    [RDB_TYPE_HASH_LISTPACK_EXPIRES_OLD] = "s",
    /* The earliest time, then each field's as a distance from it. */
    [RDB_TYPE_HASH_EXPIRES] = "8(nss)",
    [RDB_TYPE_HASH_LISTPACK_EXPIRES] = "8s",
};

static const char *body_pattern(uint8_t type)
{
    return type < sizeof(bodies) / sizeof(bodies[0]) ? bodies[type] : NULL;
}

const char *rdb_type_name(uint8_t type)
{
    static const char *const names[] = {
        "string", "list", "set", "sorted set", "hash", "sorted set", "module", "module", "unknown", "hash", "list", "set", "sorted set",
        "hash", "list", "stream", "hash", "sorted set", "list", "stream", "set", "stream", "hash with expiring fields",
        "hash with expiring fields", "hash with expiring fields", "hash with expiring fields",
    };

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

static bool skip_score(struct rdb_reader *reader)
{
    uint8_t size;

    if (!take_byte(reader, &size))
        return false;
    return size >= 253 ? true : skip_bytes(reader, size);     /* these are not-a-number and the infinities */
}

/* Skips a module's data up to the mark of its end. */
static bool skip_module_data(struct rdb_reader *reader)
{
    for (;;) {
        uint64_t mark, number;
        bool good = true;

        if (!take_length(reader, &mark))
            return false;
        switch (mark) {
        case 0: return true;
        case 1:
        case 2: good = take_length(reader, &number); break;
        case 3: good = skip_bytes(reader, 4); break;
        case 4: good = skip_bytes(reader, 8); break;
        case 5: good = skip_string(reader); break;
        default: return fail_reading(reader, STATUS_CORRUPT, "a module's data has the mark %" PRIu64 ", which is not known", mark);
        }
        if (!good)
            return false;
    }
}

static const char *end_of_group(const char *pattern)
{
    for (int depth = 1; depth > 0; pattern++)
        depth += *pattern == '(' ? 1 : *pattern == ')' ? -1 : 0;
    return pattern;
}

/* Each step consumes at least one byte, so this ends with the file at the latest. */
static bool skip_pattern(struct rdb_reader *reader, const char *pattern)
{
    uint64_t number;
    bool good = true;

    for (; good && *pattern != '\0' && *pattern != ')'; pattern++) {
        switch (*pattern) {
        case 's': good = skip_string(reader); break;
        case 'n': good = take_length(reader, &number); break;
        case '8': good = skip_bytes(reader, 8); break;
        case 'b': good = skip_bytes(reader, 16); break;
        case 'f': good = skip_score(reader); break;
        case 'm': good = skip_module_data(reader); break;
        case '(':
            good = take_length(reader, &number);
            for (uint64_t i = 0; good && i < number; i++)
                good = skip_pattern(reader, pattern + 1);
            pattern = end_of_group(pattern + 1) - 1;
            break;
        }
    }
    return good;
}

static bool is_stream(uint8_t type)
{
    return type == RDB_TYPE_STREAM || type == RDB_TYPE_STREAM_2 || type == RDB_TYPE_STREAM_3;
}

static bool is_splittable(uint8_t type)
{
    return is_stream(type) || type == RDB_TYPE_STRING || type == RDB_TYPE_SET || type == RDB_TYPE_HASH || type == RDB_TYPE_HASH_EXPIRES || type == RDB_TYPE_ZSET || type == RDB_TYPE_ZSET_2 || type == RDB_TYPE_LIST || type == RDB_TYPE_LIST_QUICKLIST ||
        type == RDB_TYPE_LIST_QUICKLIST_2;
}

static const char *element_pattern(uint8_t type)
{
    return body_pattern(type) + (type == RDB_TYPE_HASH_EXPIRES ? 2 : 1);
}

/* Takes elements, or bytes of a string, until the part is large enough. They begin `at` bytes after the window's begin, where there is room for a head before them; type and number of
 * those taken are put there: the checksum covers these bytes already. False also if it fails. */
static bool take_elements(struct rdb_reader *reader, size_t at, struct rdb_part *part)
{
    struct buffer head = { 0 };
    const char *element = element_pattern(reader->left_type);
    uint64_t count = reader->left;

    reader->unpacked = 0;
    while (reader->left > 0 && reader->position - reader->begin - at + reader->unpacked < PART_SIZE) {
        uint64_t some = reader->left_type != RDB_TYPE_STRING ? 1 : reader->left < PART_SIZE ? reader->left : PART_SIZE;

        if (!(reader->left_type == RDB_TYPE_STRING ? skip_bytes(reader, some) : skip_pattern(reader, element)))
            return false;
        reader->left -= some;
    }
    if (reader->left == 0 && is_stream(reader->left_type) && !skip_pattern(reader, end_of_group(element)))
        return false;
    update_checksum(reader, reader->position);
    buffer_append_u8(&head, reader->left_type);
    if (reader->left_type == RDB_TYPE_HASH_EXPIRES)
        buffer_append(&head, &reader->left_earliest, sizeof(reader->left_earliest));
    codec_write_length(&head, count - reader->left);
    reader->begin += at - head.size;
    memcpy(reader->window.data + reader->begin, head.data, head.size);
    buffer_release(&head);
    part->payload = bytes_of(reader->window.data + reader->begin, reader->position - reader->begin);
    part->size = part->payload.size + reader->unpacked;
    part->left = reader->source.size != UINT64_MAX ? reader->source.size - rdb_reader_offset(reader) : UINT64_MAX;
    return true;
}

/* The value that was skipped is the part. */
static bool keep_whole(struct rdb_reader *reader, struct rdb_part *part)
{
    part->payload = bytes_of(reader->window.data + reader->begin, reader->position - reader->begin);
    return true;
}

static uint64_t element_size_min(uint8_t type)
{
    return type == RDB_TYPE_SET || type == RDB_TYPE_LIST || type == RDB_TYPE_LIST_QUICKLIST ? 1 : 2;
}

/* The window begins with the value's type. */
static bool read_split(struct rdb_reader *reader, uint8_t type, struct rdb_part *part)
{
    bool is_string = type == RDB_TYPE_STRING, is_form = false;
    uint64_t count;

    if (type == RDB_TYPE_HASH_EXPIRES && !take_number(reader, 8, &reader->left_earliest))
        return false;
    if (!(is_string ? take_length_or_form(reader, &count, &is_form) : take_length(reader, &count)))
        return false;
    if (is_form)                        /* a compressed string, or a number */
        return skip_string_body(reader, count, true) && keep_whole(reader, part);
    if (!is_string && reader->source.size != UINT64_MAX && count > reader->source.size / element_size_min(type))
        return fail_reading(reader, STATUS_CORRUPT, "the value has more elements than the file has bytes");
    reader->left = count;
    reader->left_type = type;
    if (!take_elements(reader, reader->position - reader->begin, part))
        return false;
    if (reader->left > 0)
        part->elements = count;
    return true;
}

static bool read_rest(struct rdb_reader *reader, struct rdb_part *part)
{
    part->kind = RDB_PART_KEY;
    part->is_rest = true;
    part->type = reader->left_type;
    part->db = reader->db;
    part->name = name_of(reader);
    part->offset = rdb_reader_offset(reader);
    reader->part = part;
    reader->begin -= PART_HEAD_MAX;             /* the end of the part before, which is there still */
    reader->keeps = true;
    if (!take_elements(reader, PART_HEAD_MAX, part))
        return false;
    part->is_last = reader->left == 0;
    return true;
}

/* The body follows the key's name. If the codec knows the type, the body is kept, and the type is put right before it: that byte belongs to
 * the name, which was copied, and the checksum already covers it. */
static bool read_key(struct rdb_reader *reader, uint8_t type, struct rdb_part *part)
{
    const char *body = body_pattern(type);
    enum value_type value;

    part->kind = RDB_PART_KEY;
    part->type = type;
    part->db = reader->db;
    if (!take_string(reader, &reader->name))
        return false;
    part->name = name_of(reader);
    reader->part = part;
    if (body == NULL)
        return fail_reading(reader, STATUS_VERSION, "the type %u of a value is not known", type);
    if (codec_peek_type(bytes_of(&type, 1), &value) != STATUS_OK)
        return skip_pattern(reader, body);
    update_checksum(reader, reader->position);
    reader->begin = reader->position - 1;
    reader->window.data[reader->begin] = (char)type;
    reader->keeps = true;
    return reader->splits && is_splittable(type) ? read_split(reader, type, part) : skip_pattern(reader, body) && keep_whole(reader, part);
}

static bool read_header(struct rdb_reader *reader)
{
    const char *header;

    if (!need_bytes(reader, RDB_HEADER_SIZE))
        return false;
    header = reader->window.data;
    if (!rdb_is_one(bytes_of(header, RDB_HEADER_SIZE)))
        return fail_reading(reader, STATUS_CORRUPT, "this is not an RDB file");
    for (int i = 5; i < RDB_HEADER_SIZE; i++) {
        if (header[i] < '0' || header[i] > '9')
            return fail_reading(reader, STATUS_CORRUPT, "the version of the RDB file is not a number");
        reader->version = reader->version * 10 + (header[i] - '0');
    }
    if (reader->version < RDB_VERSION_MIN || reader->version > RDB_VERSION_MAX)
        return fail_reading(reader, STATUS_VERSION, "the RDB file is of version %d; 1 to %d can be read", reader->version, RDB_VERSION_MAX);
    advance(reader, RDB_HEADER_SIZE);
    return true;
}

static bool read_end(struct rdb_reader *reader)
{
    uint64_t crc, stored;

    if (reader->version < RDB_VERSION_CHECKSUM)
        return true;
    update_checksum(reader, reader->position);
    crc = reader->crc;
    if (!take_number(reader, RDB_CHECKSUM_SIZE, &stored))
        return false;
    if (stored != 0 && stored != crc)
        return fail_reading(reader, STATUS_CORRUPT, "the checksum of the RDB file is %016" PRIx64 ", its bytes give %016" PRIx64, stored,
            crc);
    return true;
}

static bool skip_module_aux(struct rdb_reader *reader)
{
    uint64_t number;

    return take_length(reader, &number) && take_length(reader, &number) && take_length(reader, &number) && skip_module_data(reader);
}

/* Reads what may come before a key, or is none of the parts. False: `opcode` is none of these. */
static bool read_modifier(struct rdb_reader *reader, uint8_t opcode, struct rdb_part *part, bool *good)
{
    uint64_t number;
    uint8_t byte;

    switch (opcode) {
    case RDB_OPCODE_EXPIRE_MS:
        if ((*good = take_number(reader, 8, &number)))
            part->expire_ms = (int64_t)number >= 0 ? (int64_t)number : 0;
        return true;
    case RDB_OPCODE_EXPIRE_S:
        if ((*good = take_number(reader, 4, &number)))
            part->expire_ms = (int32_t)number >= 0 ? (int64_t)number * 1000 : 0;
        return true;
    case RDB_OPCODE_IDLE:
        if ((*good = take_length(reader, &number)))
            part->idle_s = number <= INT64_MAX ? (int64_t)number : INT64_MAX;
        return true;
    case RDB_OPCODE_FREQ:
        if ((*good = take_byte(reader, &byte)))
            part->freq = byte;
        return true;
    case RDB_OPCODE_MODULE_AUX: *good = skip_module_aux(reader); return true;
    case RDB_OPCODE_SLOT_INFO:
        *good = take_length(reader, &number) && take_length(reader, &number) && take_length(reader, &number);
        return true;
    }
    return false;
}

static bool read_part(struct rdb_reader *reader, struct rdb_part *part)
{
    uint8_t opcode;
    bool good = true;

    if (reader->version == 0 && !read_header(reader))
        return false;
    do {
        part->offset = rdb_reader_offset(reader);
        if (!take_byte(reader, &opcode))
            return false;
    } while (read_modifier(reader, opcode, part, &good) && good);
    if (!good)
        return false;
    switch (opcode) {
    case RDB_OPCODE_AUX:
        part->kind = RDB_PART_AUX;
        good = take_string(reader, &reader->name) && take_string(reader, &reader->text);
        part->name = name_of(reader);
        part->value = buffer_bytes(&reader->text);
        return good;
    case RDB_OPCODE_FUNCTION:
        part->kind = RDB_PART_FUNCTION;
        good = take_string(reader, &reader->text);
        part->value = buffer_bytes(&reader->text);
        return good;
    case RDB_OPCODE_FUNCTION_OLD:
        return fail_reading(reader, STATUS_VERSION, "functions in the form of a release candidate of Redis 7 can't be read");
    case RDB_OPCODE_SELECT:
        part->kind = RDB_PART_DB;
        good = take_length(reader, &part->db);
        reader->db = part->db;
        return good;
    case RDB_OPCODE_RESIZE:
        part->kind = RDB_PART_RESIZE;
        part->db = reader->db;
        return take_length(reader, &part->key_count) && take_length(reader, &part->expiring_count);
    case RDB_OPCODE_END:
        part->kind = RDB_PART_END;
        return read_end(reader);
    }
    return read_key(reader, opcode, part);
}

enum status rdb_read(struct rdb_reader *reader, struct rdb_part *part, struct message *message)
{
    *part = (struct rdb_part){ .expire_ms = -1, .idle_s = -1, .freq = -1 };
    message->text[0] = '\0';
    reader->message = message;
    reader->keeps = false;
    reader->begin = reader->position;
    reader->part = NULL;
    if (reader->left > 0)
        read_rest(reader, part);
    else
        read_part(reader, part);
    reader->part = NULL;
    return reader->status;
}
