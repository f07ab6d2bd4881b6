/* Protobuf: fields of messages, appended to a buffer. A message within another one is a field of bytes, so it is written first. Pure. */
#ifndef KELVIN_METRICS_PROTOBUF_H
#define KELVIN_METRICS_PROTOBUF_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

void protobuf_unsigned(struct buffer *out, unsigned field, uint64_t number);
void protobuf_signed(struct buffer *out, unsigned field, int64_t number);       /* sint32, sint64 */
void protobuf_double(struct buffer *out, unsigned field, double number);
void protobuf_bytes(struct buffer *out, unsigned field, struct bytes bytes);    /* bytes, strings, messages */

/* An element of a packed field of sint64; the field is protobuf_bytes of them all. */
void protobuf_packed_signed(struct buffer *out, int64_t number);

#endif
