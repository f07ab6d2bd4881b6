#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "base/grisu.h"
#include "base/mem.h"

enum {
    INT_DIGITS_MAX = 19,            /* this many always fit in a uint64_t */
    DOUBLE_COPY_SIZE = 128,         /* longer numbers are copied to the heap */
    PATTERN_STARS_MAX = 1000,       /* runs of stars followed by something else; Redis' limit on nesting */
};

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Integers */

bool text_to_int(struct bytes text, int64_t *number)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    const char *at = text.data + (negative ? 1 : 0);
    const char *end = text.data + text.size;
    uint64_t magnitude = 0;

    if (at == end || end - at > INT_DIGITS_MAX)
        return false;
    if (*at == '0') {
        *number = 0;
        return text.size == 1;
    }
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        magnitude = magnitude * 10 + (uint64_t)(*at - '0');
    }
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *number = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* The bits give a number of digits that is right, or one too small. */
static size_t digit_count(uint64_t number)
{
    static const uint64_t powers[] = { 0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
        100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000,
        1000000000000000000, 10000000000000000000ull };
    unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
    unsigned below = bits * 1233 >> 12;         /* bits * log10(2) */

    return below + (number >= powers[below]);
}

size_t text_of_int(int64_t number, char *out)
{
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t sign = number < 0 ? 1 : 0;
    size_t size = sign + digit_count(magnitude);
    char *at = out + size;

    out[0] = '-';
    while (magnitude >= 100) {
        at -= 2;
        memcpy(at, pairs + magnitude % 100 * 2, 2);
        magnitude /= 100;
    }
    if (magnitude >= 10)
        memcpy(at - 2, pairs + magnitude * 2, 2);
    else
        at[-1] = (char)('0' + magnitude);
    return size;
}

void text_of_bytes(const void *bytes, size_t size, char *out)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++) {
        *out++ = "0123456789abcdef"[at[i] >> 4];
        *out++ = "0123456789abcdef"[at[i] & 15];
    }
}

/* Floating point */

/* Up to 15 digits with an optional point are two integers that a double represents exactly; one division rounds
 * correctly. */
static bool double_of_short_decimal(struct bytes text, double *number)
{
    static const double powers[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
        1e15 };
    const char *at = text.data;
    const char *end = at + text.size;
    bool negative = text.size > 0 && *at == '-';
    const char *point = NULL;
    uint64_t mantissa = 0;
    size_t digits;
    double value;

    if (negative)
        at++;
    digits = (size_t)(end - at);
    if (digits > 16)
        return false;
    for (; at < end; at++) {
        if (is_digit(*at)) {
            mantissa = mantissa * 10 + (uint64_t)(*at - '0');
        } else if (*at == '.' && point == NULL) {
            point = at;
            digits--;
        } else {
            return false;
        }
    }
    if (digits == 0 || digits > 15)
        return false;
    value = (double)mantissa;
    if (point != NULL)
        value /= powers[end - point - 1];
    *number = negative ? -value : value;
    return true;
}

bool text_to_double(struct bytes text, double *number)
{
    char small[DOUBLE_COPY_SIZE];
    char *copy = small;
    char *end;
    bool whole;

    if (double_of_short_decimal(text, number) || digits_to_double(text.data, text.size, number))
        return true;
    /* The remaining cases are rare: '+', hex, infinity, denormals, text that is no number. strtod decides, as in Redis. */
    if (text.size == 0 || is_space(text.data[0]))
        return false;
    if (text.size >= sizeof(small))
        copy = mem_alloc(text.size + 1);
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    errno = 0;
    *number = strtod(copy, &end);
    whole = end == copy + text.size;
    if (copy != small)
        mem_free(copy);
    return whole && !isnan(*number) && !(errno == ERANGE && (isinf(*number) || *number == 0));
}

bool text_to_long_double(struct bytes text, long double *number)
{
    char copy[TEXT_LONG_DOUBLE_MAX + 1];
    char *end;

    if (text.size == 0 || text.size > TEXT_LONG_DOUBLE_MAX || is_space(text.data[0]))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    errno = 0;
    *number = strtold(copy, &end);
    return end == copy + text.size && !isnan(*number) && !(errno == ERANGE && (isinf(*number) || *number == 0));
}

static size_t text_of_word(const char *word, char *out)
{
    size_t size = strlen(word);

    memcpy(out, word, size + 1);
    return size;
}

static size_t text_of_exponent(int exponent, char *out)
{
    out[0] = 'e';
    out[1] = exponent < 0 ? '-' : '+';
    return 2 + text_of_int(exponent < 0 ? -exponent : exponent, out + 2);
}

/* Writes digits and the position of the point in one of the three formats of Redis 7.2: 1200, 0.00012 or 1.2e+30. */
static size_t text_of_digits(const char *digits, int count, int point, char *out)
{
    int exponent = point - 1;
    int zeros = point - count;      /* zeros to append after the digits; negative: digits after the point */
    char *at = out;

    if (zeros >= 0 && exponent < count + 7) {
        memcpy(at, digits, (size_t)count);
        memset(at + count, '0', (size_t)zeros);
        return (size_t)(count + zeros);
    }
    if (zeros < 0 && (zeros > -7 || (exponent > -4 && exponent < 4))) {
        if (point <= 0) {
            *at++ = '0';
            *at++ = '.';
            memset(at, '0', (size_t)-point);
            at += -point;
            memcpy(at, digits, (size_t)count);
            return (size_t)(at - out) + (size_t)count;
        }
        memcpy(at, digits, (size_t)point);
        at[point] = '.';
        memcpy(at + point + 1, digits + point, (size_t)(count - point));
        return (size_t)count + 1;
    }
    *at++ = digits[0];
    if (count > 1) {
        *at++ = '.';
        memcpy(at, digits + 1, (size_t)count - 1);
        at += count - 1;
    }
    return (size_t)(at - out) + text_of_exponent(exponent, at);
}

size_t text_of_double(double number, char *out)
{
    const double integer_max = 4611686018427387904.0;       /* 2^62: Redis prints integers up to here in full */
    char digits[GRISU_DIGITS_MAX];
    char *at = out;
    int count, point;

    if (isnan(number))
        return text_of_word("nan", out);
    if (isinf(number))
        return text_of_word(number < 0 ? "-inf" : "inf", out);
    if (number == 0)
        return text_of_word(signbit(number) ? "-0" : "0", out);
    if (number >= -integer_max && number <= integer_max && number == (double)(int64_t)number) {
        at += text_of_int((int64_t)number, at);
    } else {
        if (number < 0)
            *at++ = '-';
        count = grisu_digits(fabs(number), digits, &point);
        at += text_of_digits(digits, count, point, at);
    }
    *at = '\0';
    return (size_t)(at - out);
}

size_t text_of_long_double(long double number, char *out)
{
    size_t size;

    if (isnan(number))
        return text_of_word("nan", out);
    if (isinf(number))
        return text_of_word(number < 0 ? "-inf" : "inf", out);
    size = (size_t)snprintf(out, TEXT_LONG_DOUBLE_SIZE, "%.17Lf", number);
    while (out[size - 1] == '0')
        size--;
    if (out[size - 1] == '.')
        size--;
    if (size == 2 && out[0] == '-' && out[1] == '0') {
        out[0] = '0';
        size = 1;
    }
    out[size] = '\0';
    return size;
}

/* Patterns */

static inline char fold_case(char c, enum text_case mode)
{
    return mode == TEXT_CASE_IGNORED ? to_lower(c) : c;
}

/* `at` is after the '['. Returns whether the class matches `c`; `*next` is set to the byte after the class. The odd
 * cases are Redis': a class that is not closed ends with the pattern, bytes over 127 are negative in ranges, and a
 * range takes any byte as its end, even ']'. */
static bool class_takes(const char *at, const char *end, char c, enum text_case mode, const char **next)
{
    bool negated = at < end && *at == '^';
    bool found = false;

    if (negated)
        at++;
    while (at < end && *at != ']') {
        if (*at == '\\' && end - at >= 2) {
            found |= fold_case(at[1], mode) == fold_case(c, mode);
            at += 2;
        } else if (end - at >= 3 && at[1] == '-') {
            signed char low = (signed char)at[0];
            signed char high = (signed char)at[2];
            signed char taken = (signed char)fold_case(c, mode);

            if (low > high) {
                signed char swap = low;

                low = high;
                high = swap;
            }
            low = (signed char)fold_case((char)low, mode);
            high = (signed char)fold_case((char)high, mode);
            found |= taken >= low && taken <= high;
            at += 3;
        } else {
            found |= fold_case(*at, mode) == fold_case(c, mode);
            at++;
        }
    }
    *next = at < end ? at + 1 : end;
    return found != negated;
}

/* Matches one element of the pattern that is not a star. The pattern is not at its end. */
static inline bool step_takes(const char *at, const char *end, char c, enum text_case mode, const char **next)
{
    if (*at == '[')
        return class_takes(at + 1, end, c, mode, next);
    if (*at == '\\' && end - at >= 2)
        at++;
    else if (*at == '?')
        c = *at;
    *next = at + 1;
    return fold_case(*at, mode) == fold_case(c, mode);
}

/* A mismatch goes back to the last star only: what an earlier star matched can stay as it is, because every element
 * between two stars matches exactly one byte. So the time is at most proportional to pattern size times text size. */
bool text_matches(struct bytes pattern, struct bytes text, enum text_case mode)
{
    const char *at = pattern.data;
    const char *end = at + pattern.size;
    const char *from = text.data;
    const char *text_end = from + text.size;
    const char *star = NULL;        /* the pattern after the last star */
    const char *star_from = NULL;   /* the text from the first byte which that star has not matched */
    const char *next;
    int stars = 0;

    /* An empty text is matched by "" and "*", but not by "**". */
    if (text.size == 0)
        return pattern.size == 0 || (pattern.size == 1 && *at == '*');
    while (from < text_end) {
        if (at < end && *at == '*') {
            while (at < end && *at == '*')
                at++;
            if (at == end)
                return true;
            /* With a pattern of more stars Redis 7.2.6 matches nothing, whatever the text. */
            if (++stars > PATTERN_STARS_MAX)
                return false;
            star = at;
            star_from = from;
        } else if (at < end && step_takes(at, end, *from, mode, &next)) {
            at = next;
            from++;
        } else if (star != NULL) {
            star_from++;
            if (mode == TEXT_CASE_EXACT && *star != '?' && *star != '[' && *star != '\\') {
                star_from = memchr(star_from, *star, (size_t)(text_end - star_from));
                if (star_from == NULL)
                    return false;
            }
            from = star_from;
            at = star;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}

/* Sizes of memory */

static uint64_t memory_unit(struct bytes unit)
{
    if (unit.size == 0 || bytes_is(unit, "b"))
        return 1;
    if (bytes_is(unit, "k"))
        return 1000;
    if (bytes_is(unit, "kb"))
        return 1024;
    if (bytes_is(unit, "m"))
        return 1000 * 1000;
    if (bytes_is(unit, "mb"))
        return 1024 * 1024;
    if (bytes_is(unit, "g"))
        return 1000 * 1000 * 1000;
    if (bytes_is(unit, "gb"))
        return 1024 * 1024 * 1024;
    return 0;
}

bool text_to_memory(struct bytes text, uint64_t *size)
{
    uint64_t number = 0;
    uint64_t unit;
    size_t at = 0;

    for (; at < text.size && is_digit(text.data[at]); at++) {
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text.data[at] - '0'), &number))
            return false;
    }
    if (at == 0)
        return false;
    unit = memory_unit(bytes_of(text.data + at, text.size - at));
    return unit != 0 && !__builtin_mul_overflow(number, unit, size);
}
