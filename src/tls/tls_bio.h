/* TLS BIO: where OpenSSL reads ciphertext from and writes it to: memory that belongs to a connection.
 *
 * Unlike OpenSSL's own memory BIO it reads received bytes where they are, so that they are not copied once more.
 */
#ifndef KELVIN_TLS_TLS_BIO_H
#define KELVIN_TLS_TLS_BIO_H

#include <openssl/bio.h>

#include "base/buffer.h"
#include "base/bytes.h"

/* Owner: the connection's thread. */
struct tls_channel {
    struct bytes in;                /* received, not read by OpenSSL: borrowed */
    struct buffer out;              /* written by OpenSSL, not sent */
};

/* How such a BIO works; one for any number of them. NULL if there is no memory. Freed with BIO_meth_free, after all BIOs. */
BIO_METHOD *tls_bio_create(void);
/* A BIO over `channel`, which lives longer. NULL if there is no memory. */
BIO *tls_bio_open(const BIO_METHOD *method, struct tls_channel *channel);

#endif
