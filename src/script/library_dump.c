#include "script/library_dump.h"

#include "base/crc64.h"
#include "value/codec.h"

void library_dump(const struct library_set *set, struct buffer *out)
{
    size_t start = out->size;
    uint16_t version = CODEC_RDB_VERSION;
    uint64_t crc;

    for (int i = 0; i < set->count; i++) {
        struct bytes text = set->libraries[i]->text;

        buffer_append_u8(out, LIBRARY_DUMP_OPCODE);
        codec_write_length(out, text.size);
        buffer_append_bytes(out, text);
    }
    buffer_append(out, &version, sizeof(version));          /* little-endian machines only */
    crc = crc64(0, bytes_of(out->data + start, out->size - start));
    buffer_append(out, &crc, sizeof(crc));
}

static bool fail_with(struct buffer *error, const char *text)
{
    buffer_append_string(error, "ERR ");
    buffer_append_string(error, text);
    return false;
}

static bool has_good_end(struct bytes dump)
{
    uint16_t version;
    uint64_t crc;

    if (dump.size < CODEC_DUMP_FOOTER_SIZE)
        return false;
    memcpy(&version, dump.data + dump.size - CODEC_DUMP_FOOTER_SIZE, sizeof(version));
    memcpy(&crc, dump.data + dump.size - sizeof(crc), sizeof(crc));
    return version <= CODEC_RDB_VERSION_MAX && crc == crc64(0, bytes_of(dump.data, dump.size - sizeof(crc)));
}

/* Reads one library from the front of `*input`. */
static bool read_one(struct bytes *input, size_t text_size_max, struct buffer *scratch, library_dump_found *found, void *context,
    struct buffer *error)
{
    uint8_t opcode = (uint8_t)input->data[0];
    char digits[TEXT_INT_SIZE];
    struct bytes text;

    if (opcode == LIBRARY_DUMP_OPCODE_OLD)
        return fail_with(error, "Pre-GA function format not supported");
    if (opcode != LIBRARY_DUMP_OPCODE)
        return fail_with(error, "given type is not a function");
    *input = bytes_of(input->data + 1, input->size - 1);
    scratch->size = 0;
    if (codec_read_string(input, text_size_max, scratch, digits, &text) != STATUS_OK)
        return fail_with(error, "Failed loading library payload");
    return found(context, text, error);
}

bool library_dump_read(struct bytes dump, size_t text_size_max, library_dump_found *found, void *context, struct buffer *error)
{
    struct buffer scratch = { 0 };
    struct bytes input;
    bool good = true;

    if (!has_good_end(dump))
        return fail_with(error, "DUMP payload version or checksum are wrong");
    input = bytes_of(dump.data, dump.size - CODEC_DUMP_FOOTER_SIZE);
    while (good && input.size > 0)
        good = read_one(&input, text_size_max, &scratch, found, context, error);
    buffer_release(&scratch);
    return good;
}

bool library_dump_is_newer(struct bytes dump)
{
    uint64_t crc;
    uint16_t version;

    if (dump.size < CODEC_DUMP_FOOTER_SIZE)
        return false;
    memcpy(&version, dump.data + dump.size - CODEC_DUMP_FOOTER_SIZE, sizeof(version));
    memcpy(&crc, dump.data + dump.size - sizeof(crc), sizeof(crc));
    return version > CODEC_RDB_VERSION_MAX && crc == crc64(0, bytes_of(dump.data, dump.size - sizeof(crc)));
}
