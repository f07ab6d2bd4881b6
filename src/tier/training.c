#include "tier/training.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/record.h"
#include "tier/tier_private.h"

enum {
    SAMPLES_SHARE = 2,                  /* of dictionary_after: bytes of samples */
    MEMORY_SHARE = 32,                  /* of maxmemory, for samples */
    OTHER_TIMES = 8,                    /* another database that has written as many times more takes the place of the one that is sampled */
};

static int64_t now_s(void)
{
    return clock_wall_ms() / 1000;
}

/* --- samples --- */

static void set_begin(struct training_set *set, size_t size)
{
    buffer_reserve_exact(&set->text, size);
    set->capacity = size / RECORD_PACK_MIN;
    set->sizes = mem_alloc(set->capacity * sizeof(set->sizes[0]));
}

static void set_release(struct training_set *set)
{
    buffer_release(&set->text);
    mem_free(set->sizes);
    *set = (struct training_set){ .count = 0 };
}

static void set_add(struct training_set *set, struct bytes text)
{
    if (set->count == set->capacity || set->text.capacity - set->text.size < text.size)
        return;
    buffer_append_bytes(&set->text, text);
    set->sizes[set->count++] = text.size;
}

static void forget_samples(struct training *training)
{
    set_release(&training->learned);
    set_release(&training->held_out);
    training->is_begun = false;
    training->seen_bytes = training->seen_count = 0;
}

void training_note(struct tier *tier, int db, struct bytes text)
{
    struct training *training = &tier->training;

    if (text.size > TRAINING_VALUE_MAX)
        return;
    tier->packing.databases[db].candidate_bytes += text.size;
    if (!training->is_begun || training->database != db || training->thread.has_started)
        return;
    training->seen_bytes += text.size;
    if (training->seen_count++ % SAMPLES_SHARE != 0)
        return;
    set_add(training->seen_count / SAMPLES_SHARE % TRAINING_HELD_OUT == 0 ? &training->held_out : &training->learned, text);
}

/* --- the thread --- */

/* The ratio of the samples that were held out, times 1000; each in the smaller of its forms, as it would be written. */
static uint32_t try_on(const struct training_set *set, enum compress_codec codec, const struct compress_dictionary *dictionary)
{
    struct compressor *compressor = compressor_create();
    struct buffer frame = { 0 };
    uint64_t before = 0, after = 0;
    size_t at = 0;

    for (size_t i = 0; i < set->count; i++) {
        struct bytes text = bytes_of(set->text.data + at, set->sizes[i]);

        frame.size = 0;
        before += text.size;
        after += compress_text(compressor, codec, dictionary, text, text.size, &frame) ? frame.size : text.size;
        at += text.size;
    }
    compressor_destroy(compressor);
    buffer_release(&frame);
    return after > 0 ? (uint32_t)(before * 1000 / after) : 1000;
}

static bool is_of_use(uint32_t with, uint32_t without)
{
    return with >= PACKING_WORTH_PERCENT * 10 && (uint64_t)with * 100 >= (uint64_t)without * TRAINING_USE_PERCENT;
}

static enum status make_dictionary(struct tier *tier, struct training *training)
{
    struct training_set *set = &training->learned;
    size_t size_max = training_dictionary_size(set->text.size);
    struct compress_dictionary *tried = NULL;
    struct buffer bytes = { 0 };
    enum status status = STATUS_NOT_FOUND;

    if (compress_train(set->text.data, set->sizes, set->count, size_max, &bytes))
        tried = compress_dictionary_create(buffer_bytes(&bytes));
    training->dictionary = (struct dictionary){ .database = training->database, .trained_s = (uint64_t)now_s(), .samples = set->count };
    if (tried != NULL) {
        training->ratio_permille = try_on(&training->held_out, training->codec, tried);
        training->dictionary.ratio_permille = training->codec == COMPRESS_ZSTD ? training->ratio_permille : try_on(&training->held_out, COMPRESS_ZSTD, tried);
    }
    if (tried != NULL && is_of_use(training->ratio_permille, try_on(&training->held_out, training->codec, NULL)))
        status = dictionaries_add(store_dictionaries(tier->store), &training->dictionary, buffer_bytes(&bytes), &training->message);
    compress_dictionary_destroy(tried);
    buffer_release(&bytes);
    return status;
}

static void train(void *context)
{
    struct tier *tier = context;

    tier->training.status = make_dictionary(tier, &tier->training);
    tier->training.is_done = true;
}

void training_stop(struct tier *tier)
{
    thread_join(&tier->training.thread);
    forget_samples(&tier->training);
}

/* --- which database --- */

bool training_window_is_full(const struct tier *tier, const struct packing_ratio *since)
{
    return since->before >= (uint64_t)tier->settings.dictionary_after * TRAINING_WINDOW;
}

static bool fits_no_more(const struct tier *tier, const struct packing_database *database)
{
    const struct packing_ratio *since = &database->since;

    return database->expected_permille > 0 && training_window_is_full(tier, since) &&
           since->before * 1000 * 100 < since->after * database->expected_permille * (uint64_t)TRAINING_WORSE_PERCENT;
}

static bool wants_one(struct tier *tier, const struct packing_database *database)
{
    if (now_s() < database->next_try_s || database->candidate_bytes == 0)
        return false;
    return database->dictionary == NULL || fits_no_more(tier, database);
}

/* The database that wants one and has written most since the last choice; -1: none. */
static int choose(struct tier *tier)
{
    struct packing *packing = &tier->packing;
    int chosen = -1;

    for (int i = 0; i < packing->count; i++) {
        if (wants_one(tier, &packing->databases[i]) &&
            (chosen < 0 || packing->databases[i].candidate_bytes > packing->databases[chosen].candidate_bytes))
            chosen = i;
    }
    return chosen;
}

static void begin(struct tier *tier, int database)
{
    struct training *training = &tier->training;
    uint64_t size = (uint64_t)tier->settings.dictionary_after / SAMPLES_SHARE, limit = (uint64_t)tier->settings.memory_max / MEMORY_SHARE;

    if (limit > 0 && size > limit)
        size = limit;
    forget_samples(training);
    set_begin(&training->learned, size);
    set_begin(&training->held_out, size / TRAINING_HELD_OUT + TRAINING_VALUE_MAX);
    training->database = database;
    training->is_begun = true;
    for (int i = 0; i < tier->packing.count; i++)
        tier->packing.databases[i].candidate_bytes = 0;
}

/* A database that was sampled may be written no more. */
static void choose_again(struct tier *tier)
{
    struct training *training = &tier->training;
    const struct packing_database *databases = tier->packing.databases;
    int other = choose(tier);

    if (other < 0 || (training->is_begun && other == training->database))
        return;
    if (!training->is_begun || (databases[other].candidate_bytes >= (uint64_t)tier->settings.dictionary_after &&
            databases[other].candidate_bytes / OTHER_TIMES > databases[training->database].candidate_bytes))
        begin(tier, other);
}

/* --- what was made --- */

static void report(struct tier *tier, const struct training *training)
{
    struct message message;

    if (training->status == STATUS_OK) {
        message_set(&message, "Compression of database %d has a new dictionary: %08u.dict, ratio %.2f", training->database,
            (unsigned)training->dictionary.number, training->ratio_permille / 1000.0);
        if (tier->hooks.notice != NULL)
            tier->hooks.notice(tier->hooks.context, message.text);
    } else if (training->status != STATUS_NOT_FOUND) {
        message_set(&message, "Compression of database %d gets no dictionary: %.150s", training->database, training->message.text);
        tier->hooks.log(tier->hooks.context, message.text);
    }
}

static void take_over(struct tier *tier)
{
    struct training *training = &tier->training;
    struct packing_database *database = &tier->packing.databases[training->database];

    thread_join(&training->thread);
    training->is_done = false;
    report(tier, training);
    database->next_try_s = now_s() + tier->settings.dictionary_interval_s;
    if (training->status == STATUS_OK) {
        database->dictionary = dictionaries_newest(store_dictionaries(tier->store), training->database);
        database->ratio = database->since = (struct packing_ratio){ 0 };
        database->expected_permille = tier->packing.codec == (enum packing_codec)training->codec ? training->ratio_permille : 0;
    }
    forget_samples(training);
}

/* --- room for another one --- */

static bool is_current(const struct tier *tier, const struct dictionary *dictionary)
{
    for (int i = 0; i < tier->packing.count; i++) {
        if (tier->packing.databases[i].dictionary == dictionary)
            return true;
    }
    return false;
}

/* A database whose dictionary is removed gets another one when it is written again. */
static void forget_current(struct tier *tier, const struct dictionary *dictionary)
{
    for (int i = 0; i < tier->packing.count; i++) {
        struct packing_database *database = &tier->packing.databases[i];

        if (database->dictionary != dictionary)
            continue;
        database->dictionary = NULL;
        database->expected_permille = 0;
        database->ratio = database->since = (struct packing_ratio){ 0 };
    }
}

enum which { SUPERSEDED, CURRENT_TOO };

/* Removes dictionaries that no record in any segment needs, whether it is live or not. Returns whether there was one. */
static bool remove_unneeded(struct tier *tier, enum which which)
{
    struct dictionaries *dictionaries = store_dictionaries(tier->store);
    bool is_removed = false;

    for (size_t i = dictionaries_count(dictionaries); i-- > 0;) {
        const struct dictionary *dictionary = dictionaries_at(dictionaries, i);
        uint32_t number = dictionary->number;

        if ((which == SUPERSEDED && is_current(tier, dictionary)) || segments_may_need(store_segments(tier->store), number))
            continue;
        forget_current(tier, dictionary);
        is_removed |= dictionaries_remove(dictionaries, number) == STATUS_OK;
    }
    return is_removed;
}

static void report_full(struct tier *tier, int database)
{
    struct message message;

    message_set(&message, "Compression of database %d gets no dictionary: there are %d, and segments may have records that need them", database,
        DICTIONARIES_MAX);
    tier->hooks.log(tier->hooks.context, message.text);
}

/* Whether a database that wants a dictionary can have one. */
static bool has_room(struct tier *tier)
{
    int database;

    if (dictionaries_count(store_dictionaries(tier->store)) < DICTIONARIES_MAX)
        return true;
    database = choose(tier);
    if (database < 0)
        return false;
    if (remove_unneeded(tier, SUPERSEDED) || remove_unneeded(tier, CURRENT_TOO))
        return true;
    report_full(tier, database);
    tier->packing.databases[database].next_try_s = now_s() + tier->settings.dictionary_interval_s;
    return false;
}

void training_after_batch(struct tier *tier)
{
    struct training *training = &tier->training;

    if (training->thread.has_started) {
        if (training->is_done)
            take_over(tier);
        return;
    }
    if (!has_room(tier)) {
        forget_samples(training);
        return;
    }
    choose_again(tier);
    if (!training->is_begun || training->seen_bytes < (uint64_t)tier->settings.dictionary_after)
        return;
    message_set(&training->message, "%s", "");
    training->codec = (enum compress_codec)tier->packing.codec;
    if (thread_start(&training->thread, "kelvin-train", tier->hooks.meter, train, tier) == 0)
        return;
    tier->packing.databases[training->database].next_try_s = now_s() + tier->settings.dictionary_interval_s;
    forget_samples(training);
}
