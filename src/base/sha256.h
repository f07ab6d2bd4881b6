/* SHA-256 (FIPS 180-4) by OpenSSL: for passwords. */
#ifndef KELVIN_BASE_SHA256_H
#define KELVIN_BASE_SHA256_H

#include <stdbool.h>

#include "base/bytes.h"

enum { SHA256_SIZE = 32, SHA256_HEX_SIZE = 64 };

void sha256(struct bytes bytes, unsigned char digest[SHA256_SIZE]);
/* Writes lower case hex, without a NUL. */
void sha256_print(const unsigned char digest[SHA256_SIZE], char hex[SHA256_HEX_SIZE]);
/* Compares in a time that does not depend on where the two differ. */
bool sha256_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE]);

#endif
