#include "tier/packing.h"

#include "base/mem.h"
#include "tier/record.h"
#include "tier/tier_private.h"

#define RATIO_WINDOW (8ull << 20)
#define SINCE_WINDOW (128ull << 20)    /* so that after the first 64 MiB it always has as much */
#define INFO_WINDOW (64ull << 20)
#define RATIO_KNOWN (32ull << 10)       /* of values that were tried: from then on the ratio says something */

/* --- the ratio --- */

static void ratio_add(struct packing_ratio *ratio, uint64_t before, uint64_t after, uint64_t window)
{
    ratio->before += before;
    ratio->after += after;
    if (ratio->before > window) {
        ratio->before /= 2;
        ratio->after /= 2;
    }
}

static uint64_t ratio_percent(const struct packing_ratio *ratio)
{
    return ratio->after > 0 ? ratio->before * 100 / ratio->after : 100;
}

/* --- the databases --- */

void packing_release(struct packing *packing)
{
    compressor_destroy(packing->compressor);
    buffer_release(&packing->room);
    mem_free(packing->databases);
    packing->databases = NULL;
    packing->count = 0;
}

void packing_forget(struct packing *packing)
{
    mem_free(packing->databases);
    packing->databases = NULL;
    packing->count = 0;
}

/* The ratio in a dictionary's file is that of zstd; the one of LZ4 is found out by the first values (learn_expected). */
static uint32_t expected_at_first(enum packing_codec codec, const struct dictionary *dictionary)
{
    return dictionary != NULL && codec == PACKING_ZSTD ? dictionary->ratio_permille : 0;
}

static struct packing_database database_with_dictionary(const struct tier *tier, int db)
{
    const struct dictionary *newest = dictionaries_newest(store_dictionaries(tier->store), db);
    int64_t interval = tier->settings.dictionary_interval_s;

    return (struct packing_database){
        .dictionary = newest,
        .next_try_s = newest != NULL ? (int64_t)newest->trained_s + interval : 0,
        .expected_permille = expected_at_first(tier->packing.codec, newest),
    };
}

/* Ratios are of one codec. */
static void take_codec(struct packing *packing, enum packing_codec codec)
{
    packing->codec = codec;
    for (int i = 0; i < packing->count; i++) {
        struct packing_database *database = &packing->databases[i];

        database->ratio = database->since = (struct packing_ratio){ 0 };
        database->expected_permille = expected_at_first(codec, database->dictionary);
    }
}

static void learn_expected(const struct tier *tier, struct packing_database *database)
{
    struct packing_ratio *since = &database->since;

    if (database->dictionary == NULL || database->expected_permille > 0 || !training_window_is_full(tier, since))
        return;
    database->expected_permille = (uint32_t)(since->before * 1000 / since->after);
    *since = (struct packing_ratio){ 0 };
}

static struct packing_database *database_of(struct tier *tier, int db)
{
    struct packing *packing = &tier->packing;

    if (db >= packing->count) {
        packing->databases = mem_realloc(packing->databases, (size_t)(db + 1) * sizeof(packing->databases[0]));
        for (; packing->count <= db; packing->count++)
            packing->databases[packing->count] = database_with_dictionary(tier, packing->count);
    }
    return &packing->databases[db];
}

static bool is_worth_it(struct packing_database *database)
{
    if (database->ratio.before < RATIO_KNOWN || ratio_percent(&database->ratio) >= PACKING_WORTH_PERCENT)
        return true;
    if (++database->passed < PACKING_RETRY)
        return false;
    database->passed = 0;
    return true;
}

/* --- a record --- */

static void note_for_info(struct packing *packing, uint64_t before, uint64_t after, bool is_packed)
{
    ratio_add(&packing->recent, before, after, INFO_WINDOW);
    packing->recent_percent = (uint32_t)ratio_percent(&packing->recent);
    if (is_packed) {
        packing->records++;
        packing->saved_bytes += before - after;
    }
}

size_t packing_pack(struct tier *tier, int db, struct buffer *record)
{
    struct packing *packing = &tier->packing;
    size_t size = record->size;
    enum packing_codec codec = (enum packing_codec)tier->settings.compression;
    struct packing_database *database;
    struct bytes payload;
    bool is_packed, is_tried;

    if (codec == PACKING_NO || packing->is_hurried || size < RECORD_PACK_MIN || size > RECORD_PACK_MAX)
        return 0;
    payload = record_payload(buffer_bytes(record));
    if (payload.size < RECORD_PACK_MIN)
        return 0;
    payload = bytes_of(payload.data + 1, payload.size - 1);
    if (codec != packing->codec)
        take_codec(packing, codec);
    database = database_of(tier, db);
    training_note(tier, db, payload);
    is_tried = is_worth_it(database);
    if (is_tried && packing->compressor == NULL)
        packing->compressor = compressor_create();
    is_packed = is_tried && record_pack(record, (enum compress_codec)codec, packing->compressor, database->dictionary, &packing->room);
    if (is_tried)
        ratio_add(&database->ratio, size, record->size, RATIO_WINDOW);
    if (size <= TRAINING_VALUE_MAX)
        ratio_add(&database->since, size, record->size, SINCE_WINDOW);
    learn_expected(tier, database);
    note_for_info(packing, size, record->size, is_packed);
    return is_tried ? size * (codec == PACKING_LZ4 ? PACKING_WORK_LZ4 : PACKING_WORK) - record->size : 0;
}

double packing_info_ratio(const struct packing *packing)
{
    uint32_t percent = packing->recent_percent;

    return percent > 0 ? (double)percent / 100 : 1;
}

void packing_after_batch(struct tier *tier)
{
    int64_t limit = tier->settings.memory_max;

    if (tier->settings.compression == PACKING_NO)
        return;
    tier->packing.is_hurried = tier_is_stuck(tier) || stuck_is_likely(&tier->stuck) ||
        (limit > 0 && tier->hooks.memory_used(tier->hooks.context) > (uint64_t)limit);
    training_after_batch(tier);
}
