/* Codec, private: what the codec_<type>.c files share, and what they provide. A type has one function that writes it
 * and one that reads all its RDB types; the tables are in codec.c.
 */
#ifndef KELVIN_VALUE_CODEC_PRIVATE_H
#define KELVIN_VALUE_CODEC_PRIVATE_H

#include "value/codec.h"

/* Appends the RDB type and the body. */
typedef void codec_writer(const struct value *value, struct buffer *out);
/* As codec_read. Only what the value borrows may be left in `scratch`. */
typedef enum status codec_reader(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits,
    struct buffer *scratch, struct value *value);

codec_writer codec_write_list, codec_write_set, codec_write_zset, codec_write_hash, codec_write_stream;
codec_writer codec_write_stream_for_dump;
codec_reader codec_read_list, codec_read_set, codec_read_zset, codec_read_hash, codec_read_stream;

/* codec_for_dump for a stream. */
enum status codec_stream_for_dump(struct bytes payload, struct buffer *out);

/* codec_without_times. */
enum status codec_hash_without_times(struct bytes payload, struct buffer *out);

/* Takes the next `size` bytes; false, and nothing taken, if there are not enough. */
bool codec_take(struct bytes *input, size_t size, struct bytes *taken);
/* Skips a string in any form. */
bool codec_skip_string(struct bytes *input);
/* A length, not a special form. */
enum status codec_read_size(struct bytes *input, uint64_t *size);
/* Appends a string as it is, preceded by its length. */
void codec_write_raw(struct buffer *out, struct bytes bytes);
/* A string that is a listpack or an intset. It may be in `scratch`, whose size does not change: it is valid until
 * something else is written there. */
enum status codec_read_blob(struct bytes *input, struct buffer *scratch, struct bytes *blob);

#endif
