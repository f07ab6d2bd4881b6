/* CHECK(cond): a condition that only a bug can make false. Always compiled in; a failure stops the process at once. */
#ifndef KELVIN_BASE_CHECK_H
#define KELVIN_BASE_CHECK_H

#include "base/compiler.h"

void check_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

#define CHECK(cond) \
    do { \
        if (UNLIKELY(!(cond))) \
            check_failed(__FILE__, __LINE__, #cond); \
    } while (0)

#endif
