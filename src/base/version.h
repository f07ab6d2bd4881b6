/* Versions: Kelvin's own, and that of the Redis whose behaviour it has. */
#ifndef KELVIN_BASE_VERSION_H
#define KELVIN_BASE_VERSION_H

#define KELVIN_VERSION "0.1.0"
#define REDIS_VERSION "7.2.5"

#endif
