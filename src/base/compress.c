#include "base/compress.h"

#include <limits.h>
#include <lz4.h>
#include <stdatomic.h>
#include <stdint.h>
#include <zdict.h>
#include <zstd.h>

#include "base/check.h"
#include "base/mem.h"

enum { LEVEL = 1, MAGIC_SIZE = 4 };

/* LZ4 takes the bytes as they are, as text that is before the text. What zstd has at their beginning for its own use, about a hundred bytes, is farther away than
 * almost any match, so it costs nothing; and zstd trains with the most frequent parts at the end, where LZ4's table, which has 4096 places, finds them. */
struct compress_dictionary {
    ZSTD_CDict *for_writing;
    ZSTD_DDict *for_reading;
    LZ4_stream_t prepared;              /* with the dictionary in its table: copied for each text, as the library has no other way that is stable in all versions */
    char *bytes;                        /* owned; `prepared` refers to them */
    size_t size;
};

struct compress_dictionary *compress_dictionary_create(struct bytes bytes)
{
    struct compress_dictionary *dictionary;

    if (bytes.size > COMPRESS_DICTIONARY_MAX)
        return NULL;
    dictionary = mem_zalloc(sizeof(*dictionary));
    dictionary->for_writing = ZSTD_createCDict(bytes.data, bytes.size, LEVEL);
    dictionary->for_reading = ZSTD_createDDict(bytes.data, bytes.size);
    dictionary->bytes = mem_string(bytes);
    dictionary->size = bytes.size;
    CHECK(LZ4_initStream(&dictionary->prepared, sizeof(dictionary->prepared)) != NULL);
    LZ4_loadDict(&dictionary->prepared, dictionary->bytes, (int)dictionary->size);
    if (dictionary->for_writing != NULL && dictionary->for_reading != NULL)
        return dictionary;
    compress_dictionary_destroy(dictionary);
    return NULL;
}

void compress_dictionary_destroy(struct compress_dictionary *dictionary)
{
    if (dictionary == NULL)
        return;
    ZSTD_freeCDict(dictionary->for_writing);
    ZSTD_freeDDict(dictionary->for_reading);
    mem_free(dictionary->bytes);
    mem_free(dictionary);
}

/* --- compressing --- */

struct compressor {
    ZSTD_CCtx *zstd;                    /* NULL: not used yet */
    LZ4_stream_t lz4;
};

struct compressor *compressor_create(void)
{
    struct compressor *compressor = mem_zalloc(sizeof(*compressor));

    CHECK(LZ4_initStream(&compressor->lz4, sizeof(compressor->lz4)) != NULL);
    return compressor;
}

void compressor_destroy(struct compressor *compressor)
{
    if (compressor == NULL)
        return;
    ZSTD_freeCCtx(compressor->zstd);
    mem_free(compressor);
}

static ZSTD_CCtx *zstd_create(void)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t error;

    CHECK(context != NULL);
    error = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    CHECK(!ZSTD_isError(error));
    error = ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    CHECK(!ZSTD_isError(error));
    error = ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
    CHECK(!ZSTD_isError(error));
    return context;
}

static bool compress_zstd(struct compressor *compressor, const struct compress_dictionary *dictionary, struct bytes text, size_t size_max,
    struct buffer *frame)
{
    size_t room = ZSTD_compressBound(text.size), size;
    char *to = buffer_reserve(frame, room);

    if (compressor->zstd == NULL)
        compressor->zstd = zstd_create();
    size = ZSTD_CCtx_refCDict(compressor->zstd, dictionary != NULL ? dictionary->for_writing : NULL);
    if (!ZSTD_isError(size))
        size = ZSTD_compress2(compressor->zstd, to, room, text.data, text.size);
    if (ZSTD_isError(size) || size < MAGIC_SIZE || size - MAGIC_SIZE > size_max)
        return false;
    memmove(to, to + MAGIC_SIZE, size - MAGIC_SIZE);
    frame->size += size - MAGIC_SIZE;
    return true;
}

static bool compress_lz4(struct compressor *compressor, const struct compress_dictionary *dictionary, struct bytes text, size_t size_max,
    struct buffer *frame)
{
    size_t room = text.size <= LZ4_MAX_INPUT_SIZE ? (size_t)LZ4_compressBound((int)text.size) : 0;
    char *to;
    int size;

    if (room > size_max)
        room = size_max;
    if (room == 0)
        return false;
    to = buffer_reserve(frame, room);
    if (dictionary != NULL)
        memcpy(&compressor->lz4, &dictionary->prepared, sizeof(compressor->lz4));
    else
        LZ4_resetStream_fast(&compressor->lz4);
    size = LZ4_compress_fast_continue(&compressor->lz4, text.data, to, (int)text.size, (int)room, 1);
    if (size <= 0) {
        /* The library does not say what state this leaves. */
        CHECK(LZ4_initStream(&compressor->lz4, sizeof(compressor->lz4)) != NULL);
        return false;
    }
    frame->size += (size_t)size;
    return true;
}

bool compress_text(struct compressor *compressor, enum compress_codec codec, const struct compress_dictionary *dictionary, struct bytes text,
    size_t size_max, struct buffer *frame)
{
    if (codec == COMPRESS_LZ4)
        return compress_lz4(compressor, dictionary, text, size_max, frame);
    return compress_zstd(compressor, dictionary, text, size_max, frame);
}

/* --- decompressing --- */

void decompressors_release(struct decompressors *decompressors)
{
    for (int i = 0; i < DECOMPRESSORS_MAX; i++)
        ZSTD_freeDCtx(atomic_exchange(&decompressors->contexts[i], NULL));
}

static ZSTD_DCtx *context_take(struct decompressors *decompressors)
{
    ZSTD_DCtx *context = NULL;

    for (int i = 0; i < DECOMPRESSORS_MAX && context == NULL; i++) {
        if (atomic_load_explicit(&decompressors->contexts[i], memory_order_relaxed) != NULL)
            context = atomic_exchange(&decompressors->contexts[i], NULL);
    }
    if (context == NULL)
        context = ZSTD_createDCtx();
    CHECK(context != NULL);
    return context;
}

static void context_give(struct decompressors *decompressors, ZSTD_DCtx *context)
{
    for (int i = 0; i < DECOMPRESSORS_MAX; i++) {
        void *expected = NULL;

        if (atomic_compare_exchange_strong(&decompressors->contexts[i], &expected, context))
            return;
    }
    ZSTD_freeDCtx(context);
}

static enum status decompress_zstd(struct decompressors *decompressors, const struct compress_dictionary *dictionary, struct bytes frame, size_t size,
    struct buffer *text)
{
    /* The frame with its magic goes to where the text will end: one allocation, and no use of what is not stable in the library. */
    char *to = buffer_reserve(text, size + MAGIC_SIZE + frame.size), *whole = to + size;
    static const uint32_t magic = ZSTD_MAGICNUMBER;
    ZSTD_DCtx *context = context_take(decompressors);
    size_t got;

    for (int i = 0; i < MAGIC_SIZE; i++)
        whole[i] = (char)(magic >> 8 * i & 0xff);
    if (frame.size > 0)
        memcpy(whole + MAGIC_SIZE, frame.data, frame.size);
    got = ZSTD_decompress_usingDDict(context, to, size, whole, MAGIC_SIZE + frame.size, dictionary != NULL ? dictionary->for_reading : NULL);
    context_give(decompressors, context);
    if (ZSTD_isError(got) || got != size)
        return STATUS_CORRUPT;
    text->size += size;
    return STATUS_OK;
}

static enum status decompress_lz4(const struct compress_dictionary *dictionary, struct bytes frame, size_t size, struct buffer *text)
{
    char *to;
    int got;

    if (frame.size > INT_MAX || size > LZ4_MAX_INPUT_SIZE)
        return STATUS_CORRUPT;
    to = buffer_reserve(text, size > 0 ? size : 1);
    got = LZ4_decompress_safe_usingDict(frame.data, to, (int)frame.size, (int)size, dictionary != NULL ? dictionary->bytes : NULL,
        dictionary != NULL ? (int)dictionary->size : 0);
    if (got < 0 || (size_t)got != size)
        return STATUS_CORRUPT;
    text->size += size;
    return STATUS_OK;
}

enum status decompress_text(struct decompressors *decompressors, enum compress_codec codec, const struct compress_dictionary *dictionary,
    struct bytes frame, size_t size, struct buffer *text)
{
    if (codec == COMPRESS_LZ4)
        return decompress_lz4(dictionary, frame, size, text);
    return decompress_zstd(decompressors, dictionary, frame, size, text);
}

/* --- dictionaries --- */

bool compress_train(const char *samples, const size_t *sizes, size_t count, size_t size_max, struct buffer *dictionary)
{
    size_t size;

    if (count > UINT32_MAX)
        return false;
    size = ZDICT_trainFromBuffer(buffer_reserve(dictionary, size_max), size_max, samples, sizes, (unsigned)count);
    if (ZDICT_isError(size))
        return false;
    dictionary->size += size;
    return true;
}
