/* SHA-1 (FIPS 180-4), by which scripts are named. Not for security. */
#ifndef KELVIN_BASE_SHA1_H
#define KELVIN_BASE_SHA1_H

#include "base/bytes.h"

enum { SHA1_HEX_SIZE = 40 };

/* Writes the digest in lower case hex, without a NUL. */
void sha1_hex(struct bytes bytes, char hex[SHA1_HEX_SIZE]);

#endif
