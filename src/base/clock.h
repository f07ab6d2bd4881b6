/* Clock: the time. Wall time for expiry, monotonic time for measuring and timers. */
#ifndef KELVIN_BASE_CLOCK_H
#define KELVIN_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_wall_ms(void);        /* since 1970 */
int64_t clock_wall_us(void);
int64_t clock_mono_us(void);        /* since an unspecified instant */
int64_t clock_mono_ns(void);

#endif
