#include "base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/text.h"

enum { SHA1_SIZE = SHA1_HEX_SIZE / 2 };

static void compute(const EVP_MD *kind, struct bytes bytes, unsigned char *digest, unsigned int digest_size)
{
    unsigned int size = 0;

    CHECK(EVP_Digest(bytes.data == NULL ? "" : bytes.data, bytes.size, digest, &size, kind, NULL) == 1 && size == digest_size);
}

void digest_sha1_hex(struct bytes bytes, char hex[SHA1_HEX_SIZE])
{
    unsigned char digest[SHA1_SIZE];

    compute(EVP_sha1(), bytes, digest, SHA1_SIZE);
    text_of_bytes(digest, SHA1_SIZE, hex);
}

void digest_sha256(struct bytes bytes, unsigned char digest[SHA256_SIZE])
{
    compute(EVP_sha256(), bytes, digest, SHA256_SIZE);
}

bool digest_sha256_equal(const unsigned char a[SHA256_SIZE], const unsigned char b[SHA256_SIZE])
{
    return CRYPTO_memcmp(a, b, SHA256_SIZE) == 0;
}
