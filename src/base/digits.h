/* Digits: the decimal digits of a double, and back. A wrapper of the C++ library, whose algorithms (Ryu and similar
 * ones) are exact, do not depend on the locale and are about ten times as fast as printf and strtod.
 */
#ifndef KELVIN_BASE_DIGITS_H
#define KELVIN_BASE_DIGITS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DIGITS_MAX = 17 };

/* Writes the fewest digits that read back as `number` (finite, greater than 0), the closest of these, without trailing
 * zeros: number = 0.d1d2d3... * 10^point. Returns the number of digits. */
int digits_of_double(double number, char digits[DIGITS_MAX], int *point);

/* Decimal only: digits, a point, an exponent, a leading '-'. The whole text must be a number, in range; otherwise
 * false. Spaces, a leading '+', hex, infinity and NaN are refused. */
bool digits_to_double(const char *text, size_t size, double *number);

#ifdef __cplusplus
}
#endif

#endif
