/* Compiler: hints for the branches of hot code. Only where an instruction count or a profile shows a gain. */
#ifndef KELVIN_BASE_COMPILER_H
#define KELVIN_BASE_COMPILER_H

#define LIKELY(condition)       __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition)     __builtin_expect(!!(condition), 0)

#endif
