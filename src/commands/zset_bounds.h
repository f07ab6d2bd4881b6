/* Zset bounds: the two ends of a range, by score ("1", "(2.5", "-inf"), by member ("[a", "(b", "-", "+"), or by rank, where
 * negative ones count from the end. */
#ifndef KELVIN_COMMANDS_ZSET_BOUNDS_H
#define KELVIN_COMMANDS_ZSET_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct call;
struct value;

enum zset_measure { ZSET_BY_RANK, ZSET_BY_SCORE, ZSET_BY_LEX };

struct zset_bound {
    enum { ZSET_BOUND_AT, ZSET_BOUND_LOWEST, ZSET_BOUND_HIGHEST } kind;     /* the latter two: "-" and "+" */
    bool exclusive;
    double score;
    struct bytes member;    /* borrowed from the arguments */
    int64_t rank;
};

struct zset_bounds {
    enum zset_measure measure;
    struct zset_bound low, high;
};

/* Parses arguments `low` and `high`. False: the error was replied. */
bool zset_bounds_read(struct call *call, enum zset_measure measure, int low, int high, struct zset_bounds *bounds);

/* The ranks within the bounds: `*count` from `*first` on. False: elements are missing (key_ask). */
bool zset_bounds_find(const struct zset_bounds *bounds, const struct value *zset, size_t *first, size_t *count);

#endif
