#include "metrics/protobuf.h"

#include "base/varint.h"

enum wire_type { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2 };

static void append_tag(struct buffer *out, unsigned field, enum wire_type type)
{
    varint_append(out, (uint64_t)field << 3 | type);
}

/* Small numbers of both signs are short: 0, -1, 1, -2 ... */
static uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

void protobuf_unsigned(struct buffer *out, unsigned field, uint64_t number)
{
    append_tag(out, field, WIRE_VARINT);
    varint_append(out, number);
}

void protobuf_signed(struct buffer *out, unsigned field, int64_t number)
{
    protobuf_unsigned(out, field, zigzag(number));
}

void protobuf_packed_signed(struct buffer *out, int64_t number)
{
    varint_append(out, zigzag(number));
}

void protobuf_double(struct buffer *out, unsigned field, double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    append_tag(out, field, WIRE_64_BITS);
    for (int i = 0; i < 8; i++)
        buffer_append_u8(out, (uint8_t)(bits >> 8 * i));
}

void protobuf_bytes(struct buffer *out, unsigned field, struct bytes bytes)
{
    append_tag(out, field, WIRE_BYTES);
    varint_append(out, bytes.size);
    buffer_append_bytes(out, bytes);
}
