#include "base/compress.h"

#include <stdatomic.h>
#include <stdint.h>
#include <zdict.h>
#include <zstd.h>

#include "base/check.h"
#include "base/mem.h"

enum { LEVEL = 1, MAGIC_SIZE = 4 };

struct compress_dictionary {
    ZSTD_CDict *for_writing;
    ZSTD_DDict *for_reading;
};

struct compress_dictionary *compress_dictionary_create(struct bytes bytes)
{
    struct compress_dictionary *dictionary = mem_zalloc(sizeof(*dictionary));

    dictionary->for_writing = ZSTD_createCDict(bytes.data, bytes.size, LEVEL);
    dictionary->for_reading = ZSTD_createDDict(bytes.data, bytes.size);
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
    mem_free(dictionary);
}

/* --- compressing --- */

struct compressor {
    ZSTD_CCtx *context;
};

struct compressor *compressor_create(void)
{
    struct compressor *compressor = mem_zalloc(sizeof(*compressor));
    size_t error;

    compressor->context = ZSTD_createCCtx();
    CHECK(compressor->context != NULL);
    error = ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_compressionLevel, LEVEL);
    CHECK(!ZSTD_isError(error));
    error = ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_contentSizeFlag, 0);
    CHECK(!ZSTD_isError(error));
    error = ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_dictIDFlag, 0);
    CHECK(!ZSTD_isError(error));
    return compressor;
}

void compressor_destroy(struct compressor *compressor)
{
    if (compressor == NULL)
        return;
    ZSTD_freeCCtx(compressor->context);
    mem_free(compressor);
}

bool compress_text(struct compressor *compressor, const struct compress_dictionary *dictionary, struct bytes text, size_t size_max,
    struct buffer *frame)
{
    size_t room = ZSTD_compressBound(text.size), size;
    char *to = buffer_reserve(frame, room);

    size = ZSTD_CCtx_refCDict(compressor->context, dictionary != NULL ? dictionary->for_writing : NULL);
    if (!ZSTD_isError(size))
        size = ZSTD_compress2(compressor->context, to, room, text.data, text.size);
    if (ZSTD_isError(size) || size < MAGIC_SIZE || size - MAGIC_SIZE > size_max)
        return false;
    memmove(to, to + MAGIC_SIZE, size - MAGIC_SIZE);
    frame->size += size - MAGIC_SIZE;
    return true;
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

enum status decompress_text(struct decompressors *decompressors, const struct compress_dictionary *dictionary, struct bytes frame, size_t size,
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
