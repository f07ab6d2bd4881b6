#include "tier/advise.h"

#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "tier/model.h"

enum {
    SLOTS_MIN = 64, SLOTS_MAX = 32768,
    FULL_QUARTERS = 3,              /* of four slots at most are used */
    SPARSE_SHARE = 8,               /* the limit is doubled when there are fewer keys than this part of ADVISE_KEYS_MAX; slots are given back likewise */
    SLOT_SHIFT = 32,                /* bits that are neither in the limit nor, with 14 bits of slots or less, those of the partition */
    OVERHEAD_MEMORY = 4,            /* the measure of the overhead is a mean of about this many ticks */
    US_A_SECOND = 1000000,
    SIZE_MIN_SHARE = 200,           /* of maxmemory: at least this part is for keys */
};

/* Sums over uses; those of the models by size. */
struct sums {
    double seconds, uses, unknown;
    double misses[ADVISE_SIZES];
    double blind[ADVISE_SIZES];     /* overwritten without a read, as they would not have been in RAM */
    double skipped[ADVISE_SIZES];   /* uses of which it is not known whether they are hits */
};

struct advise {
    struct mutex lock;              /* leaf */
    _Atomic bool is_sweep_due;
    bool is_on;
    uint32_t limit;                 /* a power of two */
    struct model_key *keys;
    uint32_t slot_count, count;
    struct model models[ADVISE_SIZES];
    struct sums now;                /* since the last tick, of the sample */
    struct sums sums;               /* decayed, of all keys */
    /* The last tick. */
    int64_t ticked_us;              /* 0: none yet */
    uint64_t resets, hot_hits, cold_hits, blind_writes, memory_max;
    double overhead;                /* bytes that are not of hot keys; below 0: not measured yet */
};

double advise_factor(double index)
{
    return exp2((index - ADVISE_PRESENT) / ADVISE_OCTAVE);
}

double advise_between(const double values[ADVISE_SIZES], double index)
{
    int below = (int)index;

    if (below >= ADVISE_SIZES - 1)
        return values[ADVISE_SIZES - 1];
    return values[below] + (index - below) * (values[below + 1] - values[below]);
}

static void make_empty(struct advise *advise, uint64_t seed)
{
    advise->limit = ADVISE_LIMIT_MAX;
    advise->keys = mem_zalloc(SLOTS_MIN * sizeof(struct model_key));
    advise->slot_count = SLOTS_MIN;
    advise->count = 0;
    advise->overhead = -1;
    for (int i = 0; i < ADVISE_SIZES; i++)
        model_init(&advise->models[i], SLOTS_MIN, seed + (uint64_t)i);
}

static void release_keys(struct advise *advise)
{
    for (int i = 0; i < ADVISE_SIZES; i++)
        model_release(&advise->models[i]);
    mem_free(advise->keys);
}

struct advise *advise_create(uint64_t seed)
{
    struct advise *advise = mem_zalloc(sizeof(*advise));

    mutex_init(&advise->lock);
    make_empty(advise, seed);
    return advise;
}

void advise_destroy(struct advise *advise)
{
    if (advise == NULL)
        return;
    release_keys(advise);
    mutex_release(&advise->lock);
    mem_free(advise);
}

/* --- the sample --- */

static uint32_t home_of(const struct advise *advise, uint64_t hash)
{
    return (uint32_t)(hash >> SLOT_SHIFT) & (advise->slot_count - 1);
}

static uint32_t next_slot(const struct advise *advise, uint32_t slot)
{
    return (slot + 1) & (advise->slot_count - 1);
}

/* The key's slot, or the free one where it belongs. */
static uint32_t find_slot(const struct advise *advise, uint64_t hash, uint32_t incarnation)
{
    uint32_t slot = home_of(advise, hash);

    while (advise->keys[slot].size != 0 && (advise->keys[slot].hash != hash || advise->keys[slot].incarnation != incarnation))
        slot = next_slot(advise, slot);
    return slot;
}

/* Whether a key with this home may be at the slot `to`, as it can be found from there: `to` is between its home and where it is. */
static bool may_move(const struct advise *advise, uint32_t home, uint32_t from, uint32_t to)
{
    uint32_t mask = advise->slot_count - 1;

    return ((from - home) & mask) >= ((from - to) & mask);
}

/* Later keys of the chain move up, so that all are found without marks of deleted ones. */
static void remove_at(struct advise *advise, uint32_t slot)
{
    uint32_t from = slot;

    for (int i = 0; i < ADVISE_SIZES; i++)
        model_remove(&advise->models[i], slot, advise->keys[slot].size);
    advise->count--;
    for (;;) {
        from = next_slot(advise, from);
        if (advise->keys[from].size == 0)
            break;
        if (!may_move(advise, home_of(advise, advise->keys[from].hash), from, slot))
            continue;
        advise->keys[slot] = advise->keys[from];
        for (int i = 0; i < ADVISE_SIZES; i++)
            model_move(&advise->models[i], from, slot);
        slot = from;
    }
    advise->keys[slot] = (struct model_key){ .size = 0 };
}

static bool is_among(uint32_t incarnation, const uint32_t *incarnations, size_t count)
{
    size_t from = 0;

    while (count > 0) {
        size_t half = count / 2;

        if (incarnations[from + half] == incarnation)
            return true;
        if (incarnations[from + half] < incarnation) {
            from += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return false;
}

/* Makes the tables again, with `slot_count` slots, of keys below the limit and of these incarnations, which are sorted (NULL: of all). */
static void rebuild(struct advise *advise, uint32_t slot_count, const uint32_t *incarnations, size_t incarnation_count)
{
    struct model_key *old = advise->keys;
    uint32_t old_count = advise->slot_count;
    uint8_t *cells[ADVISE_SIZES];

    advise->keys = mem_zalloc(slot_count * sizeof(struct model_key));
    advise->slot_count = slot_count;
    advise->count = 0;
    for (int i = 0; i < ADVISE_SIZES; i++)
        cells[i] = mem_zalloc(slot_count);
    for (uint32_t from = 0; from < old_count; from++) {
        const struct model_key *key = &old[from];
        uint32_t slot;

        if (key->size == 0 || (uint32_t)key->hash >= advise->limit ||
            (incarnations != NULL && !is_among(key->incarnation, incarnations, incarnation_count)))
            continue;
        slot = find_slot(advise, key->hash, key->incarnation);
        advise->keys[slot] = *key;
        advise->count++;
        for (int i = 0; i < ADVISE_SIZES; i++)
            cells[i][slot] = advise->models[i].cells[from];
    }
    for (int i = 0; i < ADVISE_SIZES; i++)
        model_replace(&advise->models[i], cells[i], slot_count, advise->keys);
    mem_free(old);
}

static double share_of(const struct advise *advise)
{
    return (double)advise->limit / 4294967296.0;
}

/* Takes what was counted with the present limit over. */
static void fold(struct advise *advise)
{
    double weight = 1 / share_of(advise);

    advise->sums.unknown += advise->now.unknown * weight;
    for (int i = 0; i < ADVISE_SIZES; i++) {
        advise->sums.misses[i] += advise->now.misses[i] * weight;
        advise->sums.blind[i] += advise->now.blind[i] * weight;
        advise->sums.skipped[i] += advise->now.skipped[i] * weight;
    }
    advise->now = (struct sums){ .seconds = 0 };
}

/* The marks are a share of the memory: they change as the limit does, so the models are not moved out of step. */
static void change_limit(struct advise *advise, uint32_t limit, _Atomic uint32_t *published)
{
    fold(advise);
    for (int i = 0; i < ADVISE_SIZES; i++) {
        if (advise->models[i].mark != UINT64_MAX)
            advise->models[i].mark = (uint64_t)((double)advise->models[i].mark * limit / advise->limit);
    }
    advise->limit = limit;
    atomic_store_explicit(published, limit, memory_order_relaxed);
}

static void ensure_room(struct advise *advise, _Atomic uint32_t *published)
{
    if (advise->count < ADVISE_KEYS_MAX && advise->count < advise->slot_count / 4 * FULL_QUARTERS)
        return;
    if (advise->slot_count < SLOTS_MAX) {
        rebuild(advise, 2 * advise->slot_count, NULL, 0);
        return;
    }
    while (advise->count >= ADVISE_KEYS_MAX && advise->limit > 1) {
        change_limit(advise, advise->limit / 2, published);
        rebuild(advise, SLOTS_MAX, NULL, 0);
    }
}

/* Gives slots back that few keys are left in: the models look at all of them at times. */
static void shrink_if_sparse(struct advise *advise)
{
    uint32_t slot_count = advise->slot_count;

    while (slot_count > SLOTS_MIN && advise->count < slot_count / SPARSE_SHARE)
        slot_count /= 2;
    if (slot_count < advise->slot_count)
        rebuild(advise, slot_count, NULL, 0);
}

/* --- uses --- */

/* A key that was not in the sample: it is known whether it was hot with the present memory. If so, it would have been with more; if not, it would
 * not have been with less. */
static void count_unknown(struct advise *advise, const struct advise_use *use)
{
    advise->now.unknown++;
    for (int i = 0; i < ADVISE_SIZES; i++) {
        bool is_told = use->is_cold ? i <= ADVISE_PRESENT : i >= ADVISE_PRESENT;

        if (!is_told)
            advise->now.skipped[i]++;
        else if (use->is_cold && use->kind == ADVISE_USE)
            advise->now.misses[i]++;
        else if (use->is_cold)
            advise->now.blind[i]++;
    }
}

static void add_key(struct advise *advise, const struct advise_use *use, uint32_t slot)
{
    bool is_loaded = use->is_cold || use->kind == ADVISE_CREATE;
    uint8_t cell = (uint8_t)(MODEL_RESIDENT | (is_loaded || use->on_probation ? MODEL_PROBATION : 0) | (use->uses & MODEL_USES));

    advise->keys[slot] = (struct model_key){ use->hash, use->incarnation, use->size, use->outside };
    advise->count++;
    for (int i = 0; i < ADVISE_SIZES; i++)
        model_add(&advise->models[i], advise->keys, slot, cell);
}

static void use_key(struct advise *advise, const struct advise_use *use, uint32_t slot)
{
    struct model_key *key = &advise->keys[slot];

    for (int i = 0; i < ADVISE_SIZES && use->size != key->size; i++)
        model_resize(&advise->models[i], slot, key->size, use->size);
    key->size = use->size;
    key->outside = use->outside;
    for (int i = 0; i < ADVISE_SIZES; i++) {
        if (model_use(&advise->models[i], advise->keys, slot))
            continue;
        if (use->kind == ADVISE_USE)
            advise->now.misses[i]++;
        else
            advise->now.blind[i]++;
    }
}

void advise_use(struct advise *advise, const struct advise_use *use, _Atomic uint32_t *limit)
{
    uint32_t slot;

    mutex_lock(&advise->lock);
    if (!advise->is_on || (uint32_t)use->hash >= advise->limit) {
        mutex_unlock(&advise->lock);
        return;
    }
    slot = find_slot(advise, use->hash, use->incarnation);
    if (advise->keys[slot].size != 0) {
        use_key(advise, use, slot);
    } else {
        if (use->kind != ADVISE_CREATE || use->is_cold)
            count_unknown(advise, use);
        add_key(advise, use, slot);
        ensure_room(advise, limit);
    }
    mutex_unlock(&advise->lock);
}

void advise_remove(struct advise *advise, uint64_t hash, uint32_t incarnation)
{
    uint32_t slot;

    mutex_lock(&advise->lock);
    slot = find_slot(advise, hash, incarnation);
    if (advise->keys[slot].size != 0)
        remove_at(advise, slot);
    mutex_unlock(&advise->lock);
}

void advise_forget(struct advise *advise)
{
    advise->is_sweep_due = true;
}

bool advise_sweep_is_due(struct advise *advise)
{
    return atomic_exchange(&advise->is_sweep_due, false);
}

void advise_sweep(struct advise *advise, const uint32_t *incarnations, size_t count)
{
    mutex_lock(&advise->lock);
    rebuild(advise, advise->slot_count, incarnations, count);
    mutex_unlock(&advise->lock);
}

/* --- the tick --- */

static void decay(struct sums *sums, double by)
{
    sums->seconds *= by;
    sums->uses *= by;
    sums->unknown *= by;
    for (int i = 0; i < ADVISE_SIZES; i++) {
        sums->misses[i] *= by;
        sums->blind[i] *= by;
        sums->skipped[i] *= by;
    }
}

static double grown(uint64_t *last, uint64_t now)
{
    uint64_t by = now >= *last ? now - *last : now;     /* it began again */

    *last = now;
    return (double)by;
}

static double mean_outside(const struct advise *advise)
{
    const struct model *model = &advise->models[ADVISE_PRESENT];
    double sum = 0;

    for (uint32_t slot = 0; slot < advise->slot_count; slot++)
        sum += model_has(model, slot) ? advise->keys[slot].outside : 0;
    return model->count > 0 ? sum / (double)model->count : 0;
}

/* Bytes that are neither of hot keys nor of the memtables, which grow with maxmemory. */
static void measure_overhead(struct advise *advise, const struct advise_measures *measures)
{
    double hot = (double)measures->hot_bytes + (double)measures->hot_keys * mean_outside(advise);
    double overhead = (double)measures->memory_used - hot - (double)measures->write_buffer;

    if (overhead < 0)
        overhead = 0;
    advise->overhead = advise->overhead < 0 ? overhead : advise->overhead + (overhead - advise->overhead) / OVERHEAD_MEMORY;
}

/* Bytes by which the record map is larger than at the present size, as more keys are cold; below 0: smaller. */
static double more_records(const struct advise *advise, const struct model *model, const struct advise_measures *measures)
{
    double fewer_hot = (double)advise->models[ADVISE_PRESENT].count - (double)model->count;

    return measures->record_size * fewer_hot / share_of(advise);
}

/* Half way between the watermarks, as memory is while keys are demoted. */
static void set_marks(struct advise *advise, const struct advise_measures *measures)
{
    double max = (double)measures->memory_max, middle = (measures->high_percent + measures->low_percent) / 200.0;
    double band = (measures->high_percent - measures->low_percent) / 100.0;

    for (int i = 0; i < ADVISE_SIZES; i++) {
        double factor = advise_factor(i), buffer = fmin(measures->write_buffer * factor, (double)measures->write_buffer_max);
        struct model *model = &advise->models[i];
        double room = fmax(max * factor * middle - advise->overhead - buffer - more_records(advise, model, measures), max * factor / SIZE_MIN_SHARE);
        double share = fmin(band * max * factor / room, 0.5) * MODEL_SHARE_ONE;

        model->mark = (uint64_t)(room * share_of(advise));
        model->share = share < MODEL_SHARE_ONE / 100 ? MODEL_SHARE_ONE / 100 : (uint32_t)share;
        model_make_room(model, advise->keys);
    }
}

static void take_sums_over(struct advise *advise, const struct advise_measures *measures)
{
    double elapsed = advise->ticked_us > 0 ? (double)(measures->now_us - advise->ticked_us) / US_A_SECOND : 0;
    double uses;

    if (measures->resets != advise->resets)
        advise->hot_hits = advise->cold_hits = advise->blind_writes = 0;
    advise->resets = measures->resets;
    uses = grown(&advise->hot_hits, measures->hot_hits) + grown(&advise->cold_hits, measures->cold_hits) +
           grown(&advise->blind_writes, measures->blind_writes);
    decay(&advise->sums, exp2(-elapsed / ADVISE_HALF_LIFE_S));
    fold(advise);
    if (advise->ticked_us > 0) {
        advise->sums.seconds += elapsed;
        advise->sums.uses += uses;
    }
    advise->ticked_us = measures->now_us;
}

static void clear_sums(struct advise *advise)
{
    advise->now = advise->sums = (struct sums){ .seconds = 0 };
}

bool advise_is_due(struct advise *advise, int64_t now_us)
{
    bool is_due;

    mutex_lock(&advise->lock);
    is_due = now_us - advise->ticked_us >= US_A_SECOND;
    mutex_unlock(&advise->lock);
    return is_due;
}

void advise_tick(struct advise *advise, const struct advise_measures *measures, _Atomic uint32_t *limit)
{
    mutex_lock(&advise->lock);
    take_sums_over(advise, measures);
    if (measures->memory_max != advise->memory_max)
        clear_sums(advise);             /* what was counted until now was with the other one */
    advise->memory_max = measures->memory_max;
    if (measures->memory_max > 0) {
        measure_overhead(advise, measures);
        set_marks(advise, measures);
    }
    if (advise->limit < ADVISE_LIMIT_MAX && advise->count < ADVISE_KEYS_MAX / SPARSE_SHARE)
        change_limit(advise, 2 * advise->limit, limit);
    shrink_if_sparse(advise);
    advise->is_on = true;
    atomic_store_explicit(limit, advise->limit, memory_order_relaxed);
    mutex_unlock(&advise->lock);
}

void advise_clear(struct advise *advise, _Atomic uint32_t *limit)
{
    mutex_lock(&advise->lock);
    atomic_store_explicit(limit, 0, memory_order_relaxed);
    if (advise->is_on || advise->count > 0) {
        release_keys(advise);
        make_empty(advise, 0);
        clear_sums(advise);
        advise->ticked_us = 0;
        advise->is_on = false;
    }
    mutex_unlock(&advise->lock);
}

void advise_reset(struct advise *advise)
{
    mutex_lock(&advise->lock);
    clear_sums(advise);
    mutex_unlock(&advise->lock);
}

void advise_look(struct advise *advise, struct advise_estimate *estimate)
{
    const struct sums *sums = &advise->sums;

    mutex_lock(&advise->lock);
    *estimate = (struct advise_estimate){
        .seconds = sums->seconds, .uses = sums->uses, .unknown = fmin(sums->unknown, sums->uses), .sampled_keys = advise->count,
        .sampled_share = share_of(advise),
    };
    for (int i = 0; i < ADVISE_SIZES; i++) {
        double counted = sums->uses - sums->blind[i] - sums->skipped[i];
        double misses = fmin(sums->misses[i], fmax(counted, 0));

        estimate->hit_ratio[i] = counted > 0 ? 1 - misses / counted : 1;
        estimate->misses[i] = misses;
    }
    mutex_unlock(&advise->lock);
}

size_t advise_memory(struct advise *advise)
{
    size_t size = sizeof(*advise);

    mutex_lock(&advise->lock);
    size += advise->slot_count * (sizeof(struct model_key) + ADVISE_SIZES) + advise->slot_count / 8 * ADVISE_SIZES;
    for (int i = 0; i < ADVISE_SIZES; i++)
        size += (size_t)advise->models[i].ghost.bucket_count * 4 * sizeof(uint16_t);
    mutex_unlock(&advise->lock);
    return size;
}

/* --- the file --- */

static const char magic[8] = "KADV1\n";
static const double FILE_NUMBER_MAX = 1e15;

enum {
    VERSION_AT = 4,             /* in the magic */
    HEAD_SIZE = 8 + 4 + 4 + 8 + 8,      /* magic, limit, keys, maxmemory, overhead */
    SUMS_SIZE = (3 + 3 * ADVISE_SIZES) * 8, KEY_SIZE = 8 + 4 + 4 + 4 + ADVISE_SIZES, SUM_SIZE = 8,
};

static void append_double(struct buffer *out, double number)
{
    buffer_append(out, &number, sizeof(number));
}

static void append_sums(struct buffer *out, const struct sums *sums)
{
    append_double(out, sums->seconds);
    append_double(out, sums->uses);
    append_double(out, sums->unknown);
    for (int i = 0; i < ADVISE_SIZES; i++) {
        append_double(out, sums->misses[i]);
        append_double(out, sums->blind[i]);
        append_double(out, sums->skipped[i]);
    }
}

void advise_encode(struct advise *advise, struct buffer *out)
{
    size_t start = out->size;
    uint64_t crc;

    mutex_lock(&advise->lock);
    buffer_append(out, magic, sizeof(magic));
    buffer_append(out, &advise->limit, 4);
    buffer_append(out, &advise->count, 4);
    buffer_append(out, &advise->memory_max, 8);
    append_double(out, advise->overhead);
    append_sums(out, &advise->sums);
    for (uint32_t slot = 0; slot < advise->slot_count; slot++) {
        const struct model_key *key = &advise->keys[slot];

        if (key->size == 0)
            continue;
        buffer_append(out, &key->hash, 8);
        buffer_append(out, &key->incarnation, 4);
        buffer_append(out, &key->size, 4);
        buffer_append(out, &key->outside, 4);
        for (int i = 0; i < ADVISE_SIZES; i++)
            buffer_append_u8(out, advise->models[i].cells[slot]);
    }
    mutex_unlock(&advise->lock);
    crc = crc64(0, bytes_of(out->data + start, out->size - start));
    buffer_append(out, &crc, SUM_SIZE);
}

/* The rest of a file. Its size was compared with what is read from it. */
struct reading {
    const char *at;
    bool failed;
};

static uint64_t take_number(struct reading *reading, size_t size)
{
    uint64_t number = 0;

    memcpy(&number, reading->at, size);
    reading->at += size;
    return number;
}

/* Numbers above FILE_NUMBER_MAX would overflow in sums. */
static double take_double(struct reading *reading, double least)
{
    double number;

    memcpy(&number, reading->at, sizeof(number));
    reading->at += sizeof(number);
    reading->failed = reading->failed || !(number >= least && number <= FILE_NUMBER_MAX);
    return number;
}

static void take_sums(struct reading *reading, struct sums *sums)
{
    sums->seconds = take_double(reading, 0);
    sums->uses = take_double(reading, 0);
    sums->unknown = take_double(reading, 0);
    for (int i = 0; i < ADVISE_SIZES; i++) {
        sums->misses[i] = take_double(reading, 0);
        sums->blind[i] = take_double(reading, 0);
        sums->skipped[i] = take_double(reading, 0);
    }
}

static bool is_cell(uint8_t cell)
{
    return cell == 0 || ((cell & MODEL_RESIDENT) && (cell & ~(MODEL_RESIDENT | MODEL_PROBATION | MODEL_USES)) == 0);
}

static void take_key(struct advise *advise, struct reading *reading)
{
    struct model_key key = { .hash = take_number(reading, 8) };
    uint8_t cells[ADVISE_SIZES];
    uint32_t slot;

    key.incarnation = (uint32_t)take_number(reading, 4);
    key.size = (uint32_t)take_number(reading, 4);
    key.outside = (uint32_t)take_number(reading, 4);
    for (int i = 0; i < ADVISE_SIZES; i++) {
        cells[i] = (uint8_t)take_number(reading, 1);
        reading->failed = reading->failed || !is_cell(cells[i]);
    }
    if (key.size == 0 || key.outside > key.size || (uint32_t)key.hash >= advise->limit)
        reading->failed = true;
    slot = find_slot(advise, key.hash, key.incarnation);
    if (advise->keys[slot].size != 0)
        reading->failed = true;
    if (reading->failed)
        return;
    advise->keys[slot] = key;
    advise->count++;
    for (int i = 0; i < ADVISE_SIZES; i++) {
        if (cells[i] != 0)
            model_add(&advise->models[i], advise->keys, slot, cells[i]);
    }
}

static bool is_whole(struct bytes text)
{
    uint64_t crc;

    if (text.size < HEAD_SIZE + SUMS_SIZE + SUM_SIZE)
        return false;
    memcpy(&crc, text.data + text.size - SUM_SIZE, SUM_SIZE);
    return crc == crc64(0, bytes_of(text.data, text.size - SUM_SIZE));
}

static void take_all(struct advise *advise, struct reading *reading, size_t size)
{
    uint64_t count;

    advise->limit = (uint32_t)take_number(reading, 4);
    count = take_number(reading, 4);
    advise->memory_max = take_number(reading, 8);
    advise->overhead = take_double(reading, -1);
    if (advise->limit == 0 || advise->limit > ADVISE_LIMIT_MAX || (advise->limit & (advise->limit - 1)) != 0 || count >= ADVISE_KEYS_MAX ||
        size != HEAD_SIZE + SUMS_SIZE + count * KEY_SIZE + SUM_SIZE)
        reading->failed = true;
    take_sums(reading, &advise->sums);
    if (reading->failed)
        return;
    while (count >= advise->slot_count / 4 * FULL_QUARTERS)
        rebuild(advise, 2 * advise->slot_count, NULL, 0);
    for (uint64_t i = 0; i < count && !reading->failed; i++)
        take_key(advise, reading);
}

enum status advise_decode(struct advise *advise, struct bytes text, _Atomic uint32_t *limit)
{
    struct reading reading = { text.data + sizeof(magic), false };
    struct advise was;

    if (!is_whole(text))
        return STATUS_CORRUPT;
    if (memcmp(text.data, magic, VERSION_AT) == 0 && text.data[VERSION_AT] != magic[VERSION_AT])
        return STATUS_VERSION;
    if (memcmp(text.data, magic, sizeof(magic)) != 0)
        return STATUS_CORRUPT;
    mutex_lock(&advise->lock);
    was = (struct advise){ .limit = advise->limit, .keys = advise->keys, .slot_count = advise->slot_count, .count = advise->count, .sums = advise->sums,
        .memory_max = advise->memory_max, .overhead = advise->overhead };
    memcpy(was.models, advise->models, sizeof(was.models));
    make_empty(advise, 1);
    take_all(advise, &reading, text.size);
    if (reading.failed) {
        release_keys(advise);
        advise->limit = was.limit;
        advise->keys = was.keys;
        advise->slot_count = was.slot_count;
        advise->count = was.count;
        memcpy(advise->models, was.models, sizeof(was.models));
        advise->sums = was.sums;
        advise->memory_max = was.memory_max;
        advise->overhead = was.overhead;
    } else {
        release_keys(&was);
        atomic_store_explicit(limit, advise->limit, memory_order_relaxed);
    }
    mutex_unlock(&advise->lock);
    return reading.failed ? STATUS_CORRUPT : STATUS_OK;
}
