/* Compress: short texts with zstd or LZ4, one by one, with or without a dictionary of what such texts have in common. The door to libzstd and liblz4.
 *
 * A frame of zstd is what it makes at level 1, without content size, checksum and dictionary number, and without the four bytes of magic at its beginning; one of
 * LZ4 is a block: its owner keeps codec, size and dictionary. Only what is stable in the libraries is used, so later versions read it.
 *
 * Level 1: higher levels take up to 40 % more time for 1 to 8 % (docs/decisions/0014-compression.md).
 */
#ifndef KELVIN_BASE_COMPRESS_H
#define KELVIN_BASE_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

enum compress_codec { COMPRESS_ZSTD = 1, COMPRESS_LZ4 = 2 };    /* the numbers are in records (docs/formats/record.md) */

/* Immutable: any number of threads use it, with either codec. About three times its size, and 76 KiB. */
enum { COMPRESS_DICTIONARY_MAX = 64 * 1024 };   /* LZ4 sees no more */
struct compress_dictionary;
/* Copies the bytes, which are of compress_train or any others. NULL: the library refuses them, or they are too many. */
struct compress_dictionary *compress_dictionary_create(struct bytes bytes);
void compress_dictionary_destroy(struct compress_dictionary *dictionary);       /* NULL is fine */

/* Memory for compressing: 16 KiB, some hundred once zstd was used. Owner: one thread. */
struct compressor;
struct compressor *compressor_create(void);
void compressor_destroy(struct compressor *compressor);         /* NULL is fine */
/* Appends the frame, if it has at most `size_max` bytes; else the buffer stays as it was. `dictionary` NULL: none. */
bool compress_text(struct compressor *compressor, enum compress_codec codec, const struct compress_dictionary *dictionary, struct bytes text,
    size_t size_max, struct buffer *frame);

/* Contexts for decompressing with zstd, 100 KiB each, for any number of threads: a thread takes one for the time of a call. At most DECOMPRESSORS_MAX are kept. */
enum { DECOMPRESSORS_MAX = 16 };
struct decompressors {
    void *_Atomic contexts[DECOMPRESSORS_MAX];      /* NULL: in use, or never created */
};
void decompressors_release(struct decompressors *decompressors);
/* Appends the text of a frame to `text`, which has exactly `size` bytes: the caller has looked whether it may be so large. STATUS_CORRUPT: that is not
 * what the frame is; the buffer stays as it was. Memory and time are bounded by the sizes of frame and text. */
enum status decompress_text(struct decompressors *decompressors, enum compress_codec codec, const struct compress_dictionary *dictionary,
    struct bytes frame, size_t size, struct buffer *text);

/* A dictionary, for both codecs, of at most `size_max` bytes from `count` samples, which are one after another in `samples`. Appends it to `dictionary`. False: these samples have
 * nothing in common, or are too few. Takes half a second of CPU for 4 MiB of samples. */
bool compress_train(const char *samples, const size_t *sizes, size_t count, size_t size_max, struct buffer *dictionary);

#endif
