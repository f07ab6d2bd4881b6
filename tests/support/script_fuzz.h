/* Fuzz targets of the functions that scripts give any bytes to. */
#ifndef KELVIN_SUPPORT_SCRIPT_FUZZ_H
#define KELVIN_SUPPORT_SCRIPT_FUZZ_H

#include "base/bytes.h"

/* Runs a script with two arguments, in an interpreter that is created at the first call and has 16 MB. Errors are fine; a reply
 * that begins with "BUG" stops the process. So does a heap that grows. `code` is always the same. */
void script_fuzz_run(const char *code, struct bytes first, struct bytes second);

#endif
