/* Grisu: the decimal digits of a double by the algorithm Grisu2 (F. Loitsch, "Printing floating-point numbers quickly and accurately with
 * integers", 2010), which redis-server 7.2 prints scores by. The digits read back as the same number. They are the fewest for all but one of a
 * thousand numbers, and not always the closest: what matters here is that they are those of Redis.
 */
#ifndef KELVIN_BASE_GRISU_H
#define KELVIN_BASE_GRISU_H

enum { GRISU_DIGITS_MAX = 17 };

/* Writes the digits of `number` (finite, greater than 0): number = 0.d1d2d3... * 10^point. Returns their number. */
int grisu_digits(double number, char digits[GRISU_DIGITS_MAX], int *point);

#endif
