#include "base/digits.h"

#include <charconv>

int digits_of_double(double number, char digits[DIGITS_MAX], int *point)
{
    char text[32];
    const char *end = std::to_chars(text, text + sizeof(text), number, std::chars_format::scientific).ptr;
    const char *at = text;
    int count = 0;
    int exponent = 0;

    for (; at < end && *at != 'e'; at++) {
        if (*at != '.')
            digits[count++] = *at;
    }
    at += at[1] == '+' ? 2 : 1;         /* from_chars reads '-', but not '+' */
    std::from_chars(at, end, exponent);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    *point = exponent + 1;
    return count;
}

bool digits_to_double(const char *text, size_t size, double *number)
{
    const char *first = size > 0 && text[0] == '-' ? text + 1 : text;
    double value;

    /* A leading letter would be "inf" or "nan". */
    if (size == 0 || first == text + size || !((*first >= '0' && *first <= '9') || *first == '.'))
        return false;
    std::from_chars_result result = std::from_chars(text, text + size, value);
    if (result.ec != std::errc() || result.ptr != text + size)
        return false;
    *number = value;
    return true;
}
