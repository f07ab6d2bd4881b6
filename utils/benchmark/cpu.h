/* CPU: the CPU time that a process used, from /proc.
 *
 * The nanoseconds of each existing thread are read from /proc/PID/task/TID/schedstat. This lacks the time of threads that
 * ended between two samples; in this case, or if the kernel has no schedstat, /proc/PID/stat is used, which includes them,
 * in steps of 10 ms.
 */
#ifndef KELVIN_BENCHMARK_CPU_H
#define KELVIN_BENCHMARK_CPU_H

#include <stdint.h>

#include "base/status.h"

struct cpu_sample;

/* NULL: there is no such process, or access is denied. */
struct cpu_sample *cpu_sample_create(uint64_t pid);
void cpu_sample_destroy(struct cpu_sample *sample);     /* NULL is fine */

/* CPU time used between two samples of the same process. */
uint64_t cpu_used_ns(const struct cpu_sample *before, const struct cpu_sample *after);

#endif
