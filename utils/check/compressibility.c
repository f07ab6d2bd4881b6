#include "compressibility.h"

#include <stdio.h>

#include "base/compress.h"
#include "base/mem.h"
#include "base/random.h"
#include "check.h"
#include "store/dictionaries.h"
#include "tier/record.h"
#include "tier/training.h"

enum {
    SMALL_MAX = 16384, LARGE_MAX = 512,     /* samples: of values that dictionaries are made of, and of larger ones */
    LEARNED_BYTES_MAX = 4 << 20,
    SAMPLES_MIN = 100,                      /* small ones: with less no dictionary is tried */
    TYPE_SIZE = 1,
};

/* A reservoir: each value that was seen is in it with the same chance. */
struct samples {
    struct bytes *list;                     /* owned */
    size_t count, max;
    uint64_t seen, seen_bytes;
};

struct database {
    struct samples small, large;
    uint64_t values, bytes, record_bytes;   /* of all values; as payloads, as records are now */
};

struct compressibility {
    struct random random;
    struct database **databases;            /* NULL: without values */
    int count;
};

struct compressibility *compressibility_create(void)
{
    struct compressibility *compressibility = mem_zalloc(sizeof(*compressibility));

    random_init(&compressibility->random, 1);       /* the same image gets the same numbers */
    return compressibility;
}

static void samples_release(struct samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        mem_free((char *)(uintptr_t)samples->list[i].data);
    mem_free(samples->list);
}

void compressibility_destroy(struct compressibility *compressibility)
{
    if (compressibility == NULL)
        return;
    for (int i = 0; i < compressibility->count; i++) {
        if (compressibility->databases[i] == NULL)
            continue;
        samples_release(&compressibility->databases[i]->small);
        samples_release(&compressibility->databases[i]->large);
        mem_free(compressibility->databases[i]);
    }
    mem_free(compressibility->databases);
    mem_free(compressibility);
}

static struct database *database_of(struct compressibility *compressibility, int db)
{
    if (db >= compressibility->count) {
        compressibility->databases = mem_realloc(compressibility->databases, (size_t)(db + 1) * sizeof(compressibility->databases[0]));
        while (compressibility->count <= db)
            compressibility->databases[compressibility->count++] = NULL;
    }
    if (compressibility->databases[db] == NULL) {
        compressibility->databases[db] = mem_zalloc(sizeof(struct database));
        compressibility->databases[db]->small.max = SMALL_MAX;
        compressibility->databases[db]->large.max = LARGE_MAX;
    }
    return compressibility->databases[db];
}

static void samples_add(struct samples *samples, struct random *random, struct bytes text)
{
    uint64_t at = samples->seen++;

    samples->seen_bytes += text.size;
    if (samples->list == NULL)
        samples->list = mem_alloc(samples->max * sizeof(samples->list[0]));
    if (at >= samples->max) {
        at = random_below(random, samples->seen);
        if (at >= samples->max)
            return;
        mem_free((char *)(uintptr_t)samples->list[at].data);
    } else {
        samples->count++;
    }
    samples->list[at] = bytes_of(mem_string(text), text.size);
}

void compressibility_add(struct compressibility *compressibility, int db, struct bytes payload, size_t record_size)
{
    struct database *database = database_of(compressibility, db);
    struct bytes text;

    database->values++;
    database->bytes += payload.size;
    database->record_bytes += record_size;
    if (payload.size < RECORD_PACK_MIN || payload.size > RECORD_PACK_MAX)
        return;
    text = bytes_of(payload.data + TYPE_SIZE, payload.size - TYPE_SIZE);
    samples_add(text.size <= TRAINING_VALUE_MAX ? &database->small : &database->large, &compressibility->random, text);
}

/* --- the estimate --- */

static bool is_held_out(size_t index)
{
    return index % TRAINING_HELD_OUT == 0;
}

static struct compress_dictionary *train(const struct samples *samples)
{
    struct buffer text = { 0 }, bytes = { 0 };
    size_t *sizes = mem_alloc((samples->count + 1) * sizeof(*sizes)), count = 0;
    struct compress_dictionary *dictionary = NULL;

    for (size_t i = 0; i < samples->count && text.size < LEARNED_BYTES_MAX; i++) {
        if (is_held_out(i))
            continue;
        buffer_append_bytes(&text, samples->list[i]);
        sizes[count++] = samples->list[i].size;
    }
    if (count >= SAMPLES_MIN && compress_train(text.data, sizes, count, training_dictionary_size(text.size), &bytes))
        dictionary = compress_dictionary_create(buffer_bytes(&bytes));
    buffer_release(&text);
    buffer_release(&bytes);
    mem_free(sizes);
    return dictionary;
}

enum which { ALL_SAMPLES, HELD_OUT };

/* The part of their bytes that values would have, each in the smaller of its forms, as it would be written. 1: there are none. */
static double share_after(const struct samples *samples, enum which which, enum compress_codec codec, const struct compress_dictionary *dictionary)
{
    struct compressor *compressor = compressor_create();
    struct buffer frame = { 0 };
    uint64_t before = 0, after = 0;

    for (size_t i = 0; i < samples->count; i++) {
        struct bytes text = samples->list[i];
        size_t gain = record_pack_gain(text.size);

        if (which == HELD_OUT && !is_held_out(i))
            continue;
        frame.size = 0;
        before += text.size;
        after += compress_text(compressor, codec, dictionary, text, text.size > gain ? text.size - gain : 0, &frame) ? frame.size : text.size;
    }
    compressor_destroy(compressor);
    buffer_release(&frame);
    return before > 0 ? (double)after / (double)before : 1;
}

/* What a codec makes of a database: shares of the bytes, and all bytes after. */
struct estimate {
    double without, with, larger, after;
};

static void estimate_codec(const struct database *database, enum compress_codec codec, const struct compress_dictionary *dictionary,
    struct estimate *estimate)
{
    double small = (double)database->small.seen_bytes, large = (double)database->large.seen_bytes;

    estimate->without = share_after(&database->small, HELD_OUT, codec, NULL);
    estimate->with = dictionary != NULL ? share_after(&database->small, HELD_OUT, codec, dictionary) : estimate->without;
    estimate->larger = share_after(&database->large, ALL_SAMPLES, codec, dictionary);
    estimate->after = small * (estimate->with < estimate->without ? estimate->with : estimate->without) + large * estimate->larger +
        (double)database->bytes - small - large;
}

static void report_codec(const struct database *database, const char *name, const struct estimate *estimate, struct check *check)
{
    if (database->small.count > 0)
        check_note(check, "  %s: values up to 4 KB: ratio %.2f without a dictionary, %.2f with one", name, 1 / estimate->without, 1 / estimate->with);
    if (database->large.count > 0)
        check_note(check, "  %s: larger values: ratio %.2f", name, 1 / estimate->larger);
}

static void report_database(const struct database *database, int db, struct check *check)
{
    struct compress_dictionary *dictionary = train(&database->small);
    struct estimate zstd, lz4;

    estimate_codec(database, COMPRESS_ZSTD, dictionary, &zstd);
    estimate_codec(database, COMPRESS_LZ4, dictionary, &lz4);
    check_note(check, "database %d: %llu values, %.1f MB; %.1f MB of them in values of 64 bytes to 64 KB (%zu sampled up to 4 KB, %zu larger)%s", db,
        (unsigned long long)database->values, (double)database->bytes / 1e6,
        (double)(database->small.seen_bytes + database->large.seen_bytes) / 1e6, database->small.count, database->large.count,
        dictionary == NULL ? "; no dictionary can be made" : "");
    report_codec(database, "zstd", &zstd, check);
    report_codec(database, "lz4", &lz4, check);
    check_note(check, "  records have %.1f MB now; with tier-compression zstd about %.1f MB, with lz4 %.1f MB, with no %.1f MB",
        (double)database->record_bytes / 1e6, zstd.after / 1e6, lz4.after / 1e6, (double)database->bytes / 1e6);
    compress_dictionary_destroy(dictionary);
}

void compressibility_report(const struct compressibility *compressibility, struct check *check)
{
    for (int i = 0; i < compressibility->count; i++) {
        if (compressibility->databases[i] != NULL)
            report_database(compressibility->databases[i], i, check);
    }
}
