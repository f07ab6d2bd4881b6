#include "persist/rdb_writer.h"

#include <errno.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "persist/rdb_compress.h"
#include "persist/rdb_format.h"
#include "value/codec.h"

enum { BUFFER_SIZE = 256 << 10, PIECE_SIZE = 1 << 20, VERSION_OFFSET = 5, VERSION_DIGITS = 4 };

struct rdb_writer {
    int fd;
    bool with_checksum;
    const struct disk *disk;
    struct rdb_compress *compress;      /* NULL: strings stay as they are */
    struct buffer out;
    uint64_t written;           /* bytes written to the file */
    uint64_t crc;               /* of these */
    int version, version_needed, version_fixed;     /* version_fixed 0: it is not */
    bool (*wrote)(void *context, uint64_t size);
    void *context;
    enum status status;
    int error;
};

struct rdb_writer *rdb_writer_create(const struct rdb_writer_options *options)
{
    struct rdb_writer *writer = mem_zalloc(sizeof(*writer));

    writer->fd = options->fd;
    writer->with_checksum = !options->without_checksum;
    if (options->compress)
        writer->compress = rdb_compress_create();
    writer->disk = options->disk != NULL ? options->disk : disk_system();
    writer->version_fixed = options->version;
    writer->version = writer->version_needed = options->version != 0 ? options->version : CODEC_RDB_VERSION;
    writer->wrote = options->wrote;
    writer->context = options->context;
    buffer_reserve(&writer->out, BUFFER_SIZE);
    buffer_append_format(&writer->out, "REDIS%04d", writer->version);
    return writer;
}

void rdb_writer_destroy(struct rdb_writer *writer)
{
    if (writer == NULL)
        return;
    rdb_compress_destroy(writer->compress);
    buffer_release(&writer->out);
    mem_free(writer);
}

static void write_piece(struct rdb_writer *writer, struct bytes bytes)
{
    if (writer->with_checksum)
        writer->crc = crc64(writer->crc, bytes);
    writer->status = file_write_all(writer->disk, writer->fd, bytes);
    if (writer->status != STATUS_OK) {
        writer->error = errno;
        return;
    }
    writer->written += bytes.size;
    if (writer->wrote != NULL && !writer->wrote(writer->context, writer->written))
        writer->status = STATUS_CANCELLED;
}

static enum status write_bytes(struct rdb_writer *writer, struct bytes bytes)
{
    while (bytes.size > 0 && writer->status == STATUS_OK) {
        size_t size = writer->wrote != NULL && bytes.size > PIECE_SIZE ? PIECE_SIZE : bytes.size;

        write_piece(writer, bytes_of(bytes.data, size));
        bytes = bytes_of(bytes.data + size, bytes.size - size);
    }
    return writer->status;
}

static enum status flush_buffer(struct rdb_writer *writer)
{
    if (writer->status == STATUS_OK)
        (void)write_bytes(writer, buffer_bytes(&writer->out));
    writer->out.size = 0;
    return writer->status;
}

/* Large ones are written directly, so that the buffer stays small. */
static void append_bytes(struct rdb_writer *writer, struct bytes bytes)
{
    bool is_big = bytes.size >= BUFFER_SIZE / 2;

    if (is_big || writer->out.size + bytes.size > BUFFER_SIZE)
        (void)flush_buffer(writer);
    if (!is_big)
        buffer_append_bytes(&writer->out, bytes);
    else if (writer->status == STATUS_OK)
        (void)write_bytes(writer, bytes);
}

static void append_string(struct rdb_writer *writer, struct bytes bytes)
{
    if (bytes.size < 64) {
        codec_write_string(&writer->out, bytes);        /* small enough to be a number */
        return;
    }
    codec_write_length(&writer->out, bytes.size);
    append_bytes(writer, bytes);
}

/* Called at the end of each call: what one call appends without a check of the buffer's size is little. */
static enum status flush_if_large(struct rdb_writer *writer)
{
    return writer->out.size >= BUFFER_SIZE / 2 || writer->status != STATUS_OK ? flush_buffer(writer) : STATUS_OK;
}

enum status rdb_write_aux(struct rdb_writer *writer, struct bytes name, struct bytes value)
{
    buffer_append_u8(&writer->out, RDB_OPCODE_AUX);
    append_string(writer, name);
    append_string(writer, value);
    return flush_if_large(writer);
}

enum status rdb_write_function(struct rdb_writer *writer, struct bytes code)
{
    buffer_append_u8(&writer->out, RDB_OPCODE_FUNCTION);
    append_string(writer, code);
    return flush_if_large(writer);
}

enum status rdb_write_db(struct rdb_writer *writer, uint64_t db, uint64_t key_count, uint64_t expiring_count)
{
    buffer_append_u8(&writer->out, RDB_OPCODE_SELECT);
    codec_write_length(&writer->out, db);
    if (key_count != RDB_COUNT_UNKNOWN) {
        buffer_append_u8(&writer->out, RDB_OPCODE_RESIZE);
        codec_write_length(&writer->out, key_count);
        codec_write_length(&writer->out, expiring_count == RDB_COUNT_UNKNOWN ? 0 : expiring_count);
    }
    return flush_if_large(writer);
}

static int version_of_type(uint8_t type)
{
    if (type <= RDB_TYPE_STREAM_2)
        return CODEC_RDB_VERSION;
    return type <= RDB_TYPE_STREAM_3 ? 11 : 12;
}

enum status rdb_write_key(struct rdb_writer *writer, const struct rdb_key *key)
{
    struct bytes body;
    uint8_t type;

    CHECK(key->payload.size > 0);
    type = (uint8_t)key->payload.data[0];
    if (writer->version_fixed != 0 && version_of_type(type) > writer->version_fixed)
        return STATUS_VERSION;
    body = bytes_of(key->payload.data + 1, key->payload.size - 1);
    if (writer->compress != NULL)
        rdb_compress_body(writer->compress, type, body, &body);
    if (version_of_type(type) > writer->version_needed)
        writer->version_needed = version_of_type(type);
    if (key->expire_ms >= 0) {
        buffer_append_u8(&writer->out, RDB_OPCODE_EXPIRE_MS);
        buffer_append(&writer->out, &key->expire_ms, sizeof(key->expire_ms));      /* little-endian machines only */
    }
    if (key->freq >= 0) {
        buffer_append_u8(&writer->out, RDB_OPCODE_FREQ);
        buffer_append_u8(&writer->out, (uint8_t)key->freq);
    }
    buffer_append_u8(&writer->out, type);
    append_string(writer, key->key);
    append_bytes(writer, body);
    return flush_if_large(writer);
}

enum status rdb_write_elements(struct rdb_writer *writer, uint8_t type, struct bytes elements)
{
    if (writer->compress != NULL)
        rdb_compress_elements(writer->compress, type, elements, &elements);
    append_bytes(writer, elements);
    return flush_if_large(writer);
}

enum status rdb_write_end(struct rdb_writer *writer, struct bytes bytes)
{
    append_bytes(writer, bytes);
    return flush_if_large(writer);
}

enum status rdb_writer_flush(struct rdb_writer *writer)
{
    return writer->out.size > 0 ? flush_buffer(writer) : writer->status;
}

static void print_version(int version, char digits[VERSION_DIGITS])
{
    for (int i = VERSION_DIGITS - 1; i >= 0; i--, version /= 10)
        digits[i] = (char)('0' + version % 10);
}

/* The checksum is linear: how other bytes in the header change it can be computed without reading the file again. */
static enum status raise_version(struct rdb_writer *writer)
{
    char digits[VERSION_DIGITS], change[VERSION_DIGITS];

    print_version(writer->version, change);
    print_version(writer->version_needed, digits);
    for (int i = 0; i < VERSION_DIGITS; i++)
        change[i] ^= digits[i];
    if (pwrite(writer->fd, digits, VERSION_DIGITS, VERSION_OFFSET) != VERSION_DIGITS) {
        writer->error = errno;
        writer->status = errno == ESPIPE ? STATUS_INVALID : status_of_errno(errno);
        return writer->status;
    }
    writer->crc ^= crc64_zeros(crc64(0, bytes_of(change, sizeof(change))), writer->written - RDB_HEADER_SIZE);
    writer->version = writer->version_needed;
    return STATUS_OK;
}

enum status rdb_writer_end(struct rdb_writer *writer)
{
    uint64_t crc;

    buffer_append_u8(&writer->out, RDB_OPCODE_END);
    if (flush_buffer(writer) != STATUS_OK)
        return writer->status;
    if (writer->version_needed > writer->version && raise_version(writer) != STATUS_OK)
        return writer->status;
    crc = writer->with_checksum ? writer->crc : 0;
    return write_bytes(writer, bytes_of(&crc, sizeof(crc)));
}

uint64_t rdb_writer_size(const struct rdb_writer *writer)
{
    return writer->written + writer->out.size;
}

int rdb_writer_error(const struct rdb_writer *writer)
{
    return writer->error;
}
