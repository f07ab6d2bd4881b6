/* Certificate: a key and a certificate that is its own authority, in a directory of their own, and a TLS context for both ends of a
 * connection. For tests; what can't be done fails a CHECK.
 */
#ifndef KELVIN_TESTS_CERTIFICATE_H
#define KELVIN_TESTS_CERTIFICATE_H

#include "tls/tls_context.h"

struct certificate {
    char dir[64], cert_file[96], key_file[96];
    char none[1];                       /* "", for settings */
    struct tls_settings settings;       /* clients need the certificate, too */
    struct tls_context *context;
};

void certificate_create(struct certificate *certificate);
void certificate_remove(struct certificate *certificate);

#endif
