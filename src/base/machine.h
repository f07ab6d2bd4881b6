/* Machine: how much memory the process may have. */
#ifndef KELVIN_BASE_MACHINE_H
#define KELVIN_BASE_MACHINE_H

#include <stdint.h>

/* Bytes: what the machine has, or the least limit of the memory cgroups (version 1 or 2) that the process is in. Reads some small
 * files. Thread-safe. */
uint64_t machine_memory(void);

/* The same by other files, for tests: `cgroups` is like /proc/self/cgroup, `root` like /sys/fs/cgroup. */
uint64_t machine_memory_at(const char *cgroups, const char *root);

#endif
