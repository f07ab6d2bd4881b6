/* Text: numbers and patterns as Redis reads and writes them. */
#ifndef KELVIN_BASE_TEXT_H
#define KELVIN_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    TEXT_INT_SIZE = 21,         /* longest int64 with sign, and a NUL */
    TEXT_DOUBLE_SIZE = 32,      /* longest of text_of_double, and a NUL */
    TEXT_LONG_DOUBLE_SIZE = 5120,
};

/* Strict: optional '-', digits, no leading zeros, spaces or '+'; in range. False otherwise. */
bool text_to_int(struct bytes text, int64_t *number);

/* Writes no NUL; returns the size. `out` has TEXT_INT_SIZE bytes. */
size_t text_of_int(int64_t number, char *out);

/* Strict: no spaces around; "inf", "+inf", "-inf" in any case are numbers, and so is hex; NaN is not, nor is overflow,
 * nor what is so small that it would become 0. A long double has at most 5119 bytes. */
bool text_to_double(struct bytes text, double *number);
bool text_to_long_double(struct bytes text, long double *number);

/* The shortest digits that read back the same, integers without a point; "inf", "-inf", "nan", "-0". NUL added.
 * The shapes are those of Redis 7.2: 0.1, 1e-7, 1e+21; integers up to 2^62 in full. */
size_t text_of_double(double number, char *out);

/* As INCRBYFLOAT answers: fixed, 17 digits behind the point, trailing zeros cut, 0 for -0. NUL added. */
size_t text_of_long_double(long double number, char *out);

/* Glob: * ? [a-z] [^a] \x, as KEYS knows it; a pattern with more than 1000 runs of stars before something else matches nothing.
 * The work is at most pattern size times text size, whatever the pattern. */
enum text_case { TEXT_CASE_EXACT, TEXT_CASE_IGNORED };
bool text_matches(struct bytes pattern, struct bytes text, enum text_case mode);

/* "1gb", "100mb", "64k", "12": 1k = 1000, 1kb = 1024. False when it is none or too large
 * (Redis wraps around there, and takes no digits at all for 0). */
bool text_to_memory(struct bytes text, uint64_t *size);

#endif
