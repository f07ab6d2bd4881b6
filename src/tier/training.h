/* Training: dictionaries for packing (store/dictionaries.h) are made from values that are demoted. One database after the other: of one that has no dictionary, or whose
 * newest one does not fit any more, values of up to TRAINING_VALUE_MAX bytes are sampled until tier_settings.dictionary_after bytes of them were seen; then a
 * thread of its own (kelvin-train) makes the dictionary, and tries it with samples that it was not made from and with the codec that is set. One that is of no use
 * is not kept. Any codec uses any dictionary.
 *
 * A dictionary does not fit any more when the last values are packed to more than TRAINING_WORSE_PERCENT of what it could do when it was made. A database gets one in
 * tier_settings.dictionary_interval_s at most, and a store has DICTIONARIES_MAX at most. When it has, and a database wants one, those that no segment needs any more are
 * removed: superseded ones and, if there are none, those of databases that have no records with them.
 *
 * The writer only, but for the thread.
 */
#ifndef KELVIN_TIER_TRAINING_H
#define KELVIN_TIER_TRAINING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/compress.h"
#include "base/message.h"
#include "base/status.h"
#include "base/thread.h"
#include "store/dictionaries.h"

struct packing_ratio;
struct tier;

enum {
    TRAINING_VALUE_MAX = 4096,
    TRAINING_HELD_OUT = 8,              /* one of this many samples is for trying it */
    TRAINING_WORSE_PERCENT = 80,
    TRAINING_SAMPLES_SHARE = 16,
    TRAINING_WINDOW = 8,                /* times dictionary_after: the bytes of values by which a dictionary is judged */
    TRAINING_USE_PERCENT = 105,         /* how much smaller values have to be with it than without */
};

/* Bytes of a dictionary that is made of that many bytes of samples: with less of them it would have single values. */
static inline size_t training_dictionary_size(size_t samples)
{
    size_t size = samples / TRAINING_SAMPLES_SHARE;

    return size < DICTIONARY_SIZE_MAX ? size : DICTIONARY_SIZE_MAX;
}

#define TRAINING_AFTER (8ll << 20)      /* tier_settings.dictionary_after at first */
#define TRAINING_INTERVAL_S 3600

/* Texts one after another; all memory is allocated when sampling begins, so that a sample is only copied. */
struct training_set {
    struct buffer text;
    size_t *sizes;
    size_t count, capacity;
};

struct training {
    int database;                       /* whose values are sampled; -1: none. 0 with `is_begun` false is none, too */
    bool is_begun;
    uint64_t seen_bytes, seen_count;
    struct training_set learned, held_out;
    /* The thread's while it has started, until `is_done`. */
    struct thread thread;
    _Atomic bool is_done;
    enum compress_codec codec;          /* that it is tried with */
    struct dictionary dictionary;       /* its ratio is that of zstd */
    uint32_t ratio_permille;            /* of the codec */
    enum status status;                 /* STATUS_NOT_FOUND: one would be of no use */
    struct message message;
};

/* Whether so much was written with a dictionary that the ratio says how good it is. */
bool training_window_is_full(const struct tier *tier, const struct packing_ratio *since);

/* Waits for the thread, and forgets the samples. */
void training_stop(struct tier *tier);

/* A value of a database that could be packed: its payload without the type. A partition may be locked. */
void training_note(struct tier *tier, int db, struct bytes text);
/* A batch was written; no partition is locked. Begins to sample, starts the thread, takes over what it has made. */
void training_after_batch(struct tier *tier);

#endif
