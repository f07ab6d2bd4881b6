/* What each file of unit tests begins with: cmocka, and the headers that have to come before it. */
#ifndef KELVIN_TESTS_UNIT_H
#define KELVIN_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
