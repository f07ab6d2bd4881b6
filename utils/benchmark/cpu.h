/* CPU: how much processor time a process used, from /proc.
 *
 * Nanoseconds of every thread alive, from /proc/PID/task/TID/schedstat. Threads that ended in between take their time
 * with them; then, or where the kernel keeps no schedstat, /proc/PID/stat is used, which counts them, in steps of 10 ms.
 */
#ifndef KELVIN_BENCHMARK_CPU_H
#define KELVIN_BENCHMARK_CPU_H

#include <stdint.h>

#include "base/status.h"

struct cpu_sample;

/* NULL: there is no such process, or it is not ours to look at. */
struct cpu_sample *cpu_sample_create(uint64_t pid);
void cpu_sample_destroy(struct cpu_sample *sample);     /* NULL is fine */

/* Time used from one sample to a later one of the same process. */
uint64_t cpu_used_ns(const struct cpu_sample *before, const struct cpu_sample *after);

#endif
