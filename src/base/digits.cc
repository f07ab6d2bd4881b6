#include "base/digits.h"

#include <charconv>

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
