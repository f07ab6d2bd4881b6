/* Digits: the decimal digits of a double, and back. A door to the C++ library, whose algorithms (Ryu and its kin) are
 * exact, need no locale and are some ten times as fast as printf and strtod.
 */
#ifndef KELVIN_BASE_DIGITS_H
#define KELVIN_BASE_DIGITS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DIGITS_MAX = 17 };

/* The fewest digits that read back as `number` (finite, greater than 0), the closest such, without trailing zeros:
 * number = 0.d1d2d3... * 10^point. Returns how many there are. */
int digits_of_double(double number, char digits[DIGITS_MAX], int *point);

/* Decimal only: digits, point, exponent, a '-' in front. All of the text or false; false too when it is out of range.
 * No spaces, '+' in front, hex, infinity or NaN. */
bool digits_to_double(const char *text, size_t size, double *number);

#ifdef __cplusplus
}
#endif

#endif
