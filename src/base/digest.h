/* Digests by OpenSSL: SHA-256 (FIPS 180-4) for passwords; SHA-1 for the names of scripts, where nothing depends on its security. */
#ifndef KELVIN_BASE_DIGEST_H
#define KELVIN_BASE_DIGEST_H

#include <stdbool.h>

#include "base/bytes.h"

enum { SHA1_HEX_SIZE = 40, SHA256_SIZE = 32, SHA256_HEX_SIZE = 64 };

/* Writes the SHA-1 of the bytes in lower case hex, without a NUL. */
void digest_sha1_hex(struct bytes bytes, char hex[SHA1_HEX_SIZE]);

void digest_sha256(struct bytes bytes, unsigned char digest[SHA256_SIZE]);
/* Compares in a time that does not depend on where the two differ. */
bool digest_sha256_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE]);

#endif
