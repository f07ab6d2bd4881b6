/* Text: numbers and patterns as Redis reads and writes them. */
#ifndef KELVIN_BASE_TEXT_H
#define KELVIN_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    TEXT_INT_SIZE = 21,         /* longest int64 with sign, and a NUL */
    TEXT_DOUBLE_SIZE = 32,      /* longest result of text_of_double, and a NUL */
    TEXT_LONG_DOUBLE_SIZE = 5120,
    TEXT_LONG_DOUBLE_MAX = 5119,        /* the longest that text_to_long_double reads, and Redis */
};

/* Strict: an optional '-' and digits, without leading zeros, spaces or '+', and in range. Otherwise false. */
bool text_to_int(struct bytes text, int64_t *number);

/* Writes no NUL; returns the size. `out` has TEXT_INT_SIZE bytes. */
size_t text_of_int(int64_t number, char *out);

/* Writes two lower case hex digits for each byte, without a NUL. */
void text_of_bytes(const void *bytes, size_t size, char *out);

/* Strict: no spaces before or after. "inf", "+inf" and "-inf" in any case are numbers, and so is hex. NaN is refused,
 * and so are overflow and a number so small that it would become 0. A long double may have at most 5119 bytes. */
bool text_to_double(struct bytes text, double *number);
bool text_to_long_double(struct bytes text, long double *number);

/* The fewest digits that read back as the same number, integers without a point; "inf", "-inf", "nan", "-0". Adds a
 * NUL. The formats are those of Redis 7.2: 0.1, 1e-7, 1e+21; integers up to 2^62 in full. */
size_t text_of_double(double number, char *out);

/* As INCRBYFLOAT returns it: fixed, 17 digits after the point, trailing zeros removed, 0 for -0. Adds a NUL. */
size_t text_of_long_double(long double number, char *out);

/* Glob-style patterns as in KEYS: * ? [a-z] [^a] \x. A pattern with more than 1000 runs of stars that are followed by
 * something else matches nothing. The time is at most proportional to pattern size times text size, whatever the
 * pattern. */
enum text_case { TEXT_CASE_EXACT, TEXT_CASE_IGNORED };
bool text_matches(struct bytes pattern, struct bytes text, enum text_case mode);

/* "1gb", "100mb", "64k", "12": 1k = 1000, 1kb = 1024. False if the text is not a size or too large (Redis wraps around
 * there, and takes a text without digits for 0). */
bool text_to_memory(struct bytes text, uint64_t *size);

#endif
