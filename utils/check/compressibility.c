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
static double share_after(const struct samples *samples, enum which which, const struct compress_dictionary *dictionary)
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
        after += compress_text(compressor, dictionary, text, text.size > gain ? text.size - gain : 0, &frame) ? frame.size : text.size;
    }
    compressor_destroy(compressor);
    buffer_release(&frame);
    return before > 0 ? (double)after / (double)before : 1;
}

static void report_database(const struct database *database, int db, struct check *check)
{
    struct compress_dictionary *dictionary = train(&database->small);
    double small = (double)database->small.seen_bytes, large = (double)database->large.seen_bytes, others = (double)database->bytes - small - large;
    double large_share = share_after(&database->large, ALL_SAMPLES, dictionary), without = share_after(&database->small, HELD_OUT, NULL);
    double with = dictionary != NULL ? share_after(&database->small, HELD_OUT, dictionary) : without;
    double after = small * (with < without ? with : without) + large * large_share + others;

    check_note(check, "database %d: %llu values, %.1f MB; %.1f MB of them in values of 64 bytes to 64 KB", db, (unsigned long long)database->values,
        (double)database->bytes / 1e6, (small + large) / 1e6);
    if (database->small.count > 0)
        check_note(check, "  values up to 4 KB (%zu sampled): ratio %.2f without a dictionary, %s%.2f", database->small.count, 1 / without,
            dictionary != NULL ? "with one " : "and no dictionary can be made: ", 1 / with);
    if (database->large.count > 0)
        check_note(check, "  larger values (%zu sampled): ratio %.2f", database->large.count, 1 / large_share);
    check_note(check, "  records have %.1f MB now; with tier-compression zstd about %.1f MB, with no %.1f MB", (double)database->record_bytes / 1e6,
        after / 1e6, (double)database->bytes / 1e6);
    compress_dictionary_destroy(dictionary);
}

void compressibility_report(const struct compressibility *compressibility, struct check *check)
{
    for (int i = 0; i < compressibility->count; i++) {
        if (compressibility->databases[i] != NULL)
            report_database(compressibility->databases[i], i, check);
    }
}
