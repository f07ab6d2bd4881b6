#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"

void sha256(struct bytes bytes, unsigned char digest[SHA256_SIZE])
{
    unsigned int size = 0;

    CHECK(EVP_Digest(bytes.data == NULL ? "" : bytes.data, bytes.size, digest, &size, EVP_sha256(), NULL) == 1 && size == SHA256_SIZE);
}

void sha256_print(const unsigned char digest[SHA256_SIZE], char hex[SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < SHA256_SIZE; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
}

bool sha256_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE])
{
    return CRYPTO_memcmp(a, b, SHA256_SIZE) == 0;
}
