/* TLS context: certificate, key and rules, as the tls-* directives say: one OpenSSL context for clients that connect to this server, and
 * one for connections that the server opens.
 *
 * Immutable, and counted: CONFIG SET makes a new one, and connections keep the one that they began with. Any thread.
 */
#ifndef KELVIN_TLS_TLS_CONTEXT_H
#define KELVIN_TLS_TLS_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"

struct bio_method_st;               /* OpenSSL's BIO_METHOD and SSL: no header here needs its headers */
struct ssl_st;

enum tls_verify { TLS_VERIFY_NO, TLS_VERIFY_YES, TLS_VERIFY_OPTIONAL };     /* tls-auth-clients, as config_number returns it */

/* The directives without their `tls-`. Strings are never NULL; "" is: not set. */
struct tls_settings {
    char *cert_file, *key_file, *key_file_pass;
    char *client_cert_file, *client_key_file, *client_key_file_pass;    /* both files, or the ones above */
    char *ca_cert_file, *ca_cert_dir;
    char *dh_params_file;
    char *protocols;                /* "TLSv1.2 TLSv1.3" in any case; "": these two */
    char *ciphers;                  /* of TLS 1.2 and older */
    char *ciphersuites;             /* of TLS 1.3 */
    enum tls_verify auth_clients;
    bool prefer_server_ciphers;
    bool session_caching;
    int64_t session_cache_size;     /* sessions; 0: no limit */
    int64_t session_cache_timeout_s;
};

struct tls_context;

/* Reads the files. NULL: `message` has the reason. The caller holds the first reference. */
struct tls_context *tls_context_create(const struct tls_settings *settings, struct message *message);
/* A context for a program that only opens connections, as kelvin-top: no certificate of its own unless client_cert_file and client_key_file are set,
 * and the system's CA certificates unless others are named. tls_context_new_server must not be called with it. */
struct tls_context *tls_context_create_client(const struct tls_settings *settings, struct message *message);
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_drop(struct tls_context *context);         /* frees it with the last reference; NULL is fine */

/* NULL if there is no memory. The context is held by the caller for as long as the SSL lives. */
struct ssl_st *tls_context_new_server(const struct tls_context *context);
struct ssl_st *tls_context_new_client(const struct tls_context *context);
/* How the SSLs of this context read and write (tls/tls_bio.h). */
const struct bio_method_st *tls_context_bio(const struct tls_context *context);

#endif
