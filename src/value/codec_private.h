/* Codec, private: what codec_<type>.c share, and what they give. A type has one function that writes it and one that reads all
 * its RDB types; codec.c has the tables. */
#ifndef KELVIN_VALUE_CODEC_PRIVATE_H
#define KELVIN_VALUE_CODEC_PRIVATE_H

#include "value/codec.h"

/* Appends the RDB type and the body. */
typedef void codec_writer(const struct value *value, struct buffer *out);
/* As codec_read. `scratch` may be left fuller than it was only by what the value borrows. */
typedef enum status codec_reader(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits,
    struct buffer *scratch, struct value *value);

codec_writer codec_write_list, codec_write_set, codec_write_zset, codec_write_hash, codec_write_stream;
codec_writer codec_write_stream_for_dump;
codec_reader codec_read_list, codec_read_set, codec_read_zset, codec_read_hash, codec_read_stream;

/* codec_for_dump, of a stream. */
enum status codec_stream_for_dump(struct bytes payload, struct buffer *out);

/* The next `size` bytes; false, and nothing taken, if there are not as many. */
bool codec_take(struct bytes *input, size_t size, struct bytes *taken);
/* Past a string of any form. */
bool codec_skip_string(struct bytes *input);
/* A length that is one, no special form. */
enum status codec_read_size(struct bytes *input, uint64_t *size);
/* A string as it is, with its length in front. */
void codec_write_raw(struct buffer *out, struct bytes bytes);
/* A string that is a blob: a listpack, an intset. It may lie in `scratch`, whose size is as it was: it lasts until something
 * else is written there. */
enum status codec_read_blob(struct bytes *input, struct buffer *scratch, struct bytes *blob);

#endif
