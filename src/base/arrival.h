/* Arrival: when the last bytes of a TCP connection reached this machine. They may have waited in the kernel while this process was stopped. */
#ifndef KELVIN_BASE_ARRIVAL_H
#define KELVIN_BASE_ARRIVAL_H

#include <stdint.h>

/* Monotonic time in microseconds, a few milliseconds early or late; now, if the kernel does not know: other sockets than TCP. */
int64_t arrival_us(int fd);

#endif
