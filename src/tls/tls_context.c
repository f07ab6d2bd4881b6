#include "tls/tls_context.h"

#include <openssl/dh.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "tls/tls_bio.h"

struct tls_context {
    _Atomic int references;
    SSL_CTX *server, *client;
    BIO_METHOD *bio;
};

enum end { SERVER_END, CLIENT_END };

static const char session_id_context[] = "kelvin";

/* `what`, and why OpenSSL has refused it. */
static bool fail_with_tls(struct message *message, const char *what, const char *subject)
{
    unsigned long error = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(error) ? strerror((int)ERR_GET_REASON(error)) : ERR_reason_error_string(error);

    message_set(message, "%s '%s': %s", what, subject, reason != NULL ? reason : "not valid");
    ERR_clear_error();
    return false;
}

static int copy_password(char *target, int size, int for_writing, void *password)
{
    size_t length = strlen(password);

    (void)for_writing;
    if (length > (size_t)size)
        return -1;
    memcpy(target, password, length);
    return (int)length;
}

static bool load_key(SSL_CTX *ctx, const char *cert_file, const char *key_file, char *password, struct message *message)
{
    bool loaded;

    if (SSL_CTX_use_certificate_chain_file(ctx, cert_file) != 1)
        return fail_with_tls(message, "Failed to load certificate", cert_file);
    SSL_CTX_set_default_passwd_cb(ctx, copy_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, password);
    loaded = SSL_CTX_use_PrivateKey_file(ctx, key_file, SSL_FILETYPE_PEM) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    return loaded || fail_with_tls(message, "Failed to load private key", key_file);
}

static bool load_authorities(SSL_CTX *ctx, const struct tls_settings *settings, struct message *message)
{
    const char *file = settings->ca_cert_file[0] != '\0' ? settings->ca_cert_file : NULL;
    const char *dir = settings->ca_cert_dir[0] != '\0' ? settings->ca_cert_dir : NULL;

    if ((file == NULL && dir == NULL) || SSL_CTX_load_verify_locations(ctx, file, dir) == 1)
        return true;
    return fail_with_tls(message, "Failed to load CA certificates", file != NULL ? file : dir);
}

/* The versions that are named, or all from 1.2 on. -1: one is unknown. */
static int parse_protocols(const char *text)
{
    static const char *const names[] = { "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3" };
    int found = 0;

    for (; *text != '\0'; text += strspn(text, " ")) {
        size_t size = strcspn(text, " ");
        int known = 0;

        for (int i = 0; i < 4; i++) {
            if (strlen(names[i]) == size && strncasecmp(names[i], text, size) == 0)
                known = 1 << i;
        }
        if (size > 0 && known == 0)
            return -1;
        found |= known;
        text += size;
    }
    return found != 0 ? found : 1 << 2 | 1 << 3;
}

static bool set_protocols(SSL_CTX *ctx, const char *text, struct message *message)
{
    static const uint64_t refused[] = { SSL_OP_NO_TLSv1, SSL_OP_NO_TLSv1_1, SSL_OP_NO_TLSv1_2, SSL_OP_NO_TLSv1_3 };
    int wanted = parse_protocols(text);

    if (wanted < 0) {
        message_set(message, "Invalid tls-protocols '%s'. The protocols are TLSv1, TLSv1.1, TLSv1.2 and TLSv1.3", text);
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (!(wanted & 1 << i))
            SSL_CTX_set_options(ctx, refused[i]);
    }
    return true;
}

static bool set_ciphers(SSL_CTX *ctx, const struct tls_settings *settings, struct message *message)
{
    if (settings->ciphers[0] != '\0' && SSL_CTX_set_cipher_list(ctx, settings->ciphers) != 1)
        return fail_with_tls(message, "Failed to configure ciphers", settings->ciphers);
    if (settings->ciphersuites[0] != '\0' && SSL_CTX_set_ciphersuites(ctx, settings->ciphersuites) != 1)
        return fail_with_tls(message, "Failed to configure ciphersuites", settings->ciphersuites);
    return true;
}

static bool load_dh_params(SSL_CTX *ctx, const char *path, struct message *message)
{
    BIO *file;
    EVP_PKEY *params;

    if (path[0] == '\0') {
        SSL_CTX_set_dh_auto(ctx, 1);
        return true;
    }
    file = BIO_new_file(path, "r");
    params = file != NULL ? PEM_read_bio_Parameters(file, NULL) : NULL;
    BIO_free(file);
    if (params == NULL)
        return fail_with_tls(message, "Failed to load DH parameters", path);
    ERR_clear_error();
    if ((!EVP_PKEY_is_a(params, "DH") && !EVP_PKEY_is_a(params, "DHX")) || SSL_CTX_set0_tmp_dh_pkey(ctx, params) != 1) {
        EVP_PKEY_free(params);
        return fail_with_tls(message, "Failed to use DH parameters", path);
    }
    return true;
}

/* A session is resumed from a ticket, which any worker can read because they share the context, or from the cache. */
static void set_sessions(SSL_CTX *ctx, const struct tls_settings *settings)
{
    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)session_id_context, sizeof(session_id_context) - 1);
    if (!settings->session_caching) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
        return;
    }
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_SERVER);
    SSL_CTX_sess_set_cache_size(ctx, (long)settings->session_cache_size);
    SSL_CTX_set_timeout(ctx, (long)settings->session_cache_timeout_s);
}

static void set_verify(SSL_CTX *ctx, enum tls_verify verify)
{
    int mode = SSL_VERIFY_NONE;

    if (verify == TLS_VERIFY_OPTIONAL)
        mode = SSL_VERIFY_PEER;
    else if (verify == TLS_VERIFY_YES)
        mode = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(ctx, mode, NULL);
}

/* Creates the context with the settings that both ends have in common. Idle connections give OpenSSL's buffers back: 34 KiB each. */
static SSL_CTX *new_ctx(enum end end, const struct tls_settings *settings, struct message *message)
{
    SSL_CTX *ctx = SSL_CTX_new(end == SERVER_END ? TLS_server_method() : TLS_client_method());

    if (ctx == NULL) {
        fail_with_tls(message, "Failed to create a context", end == SERVER_END ? "server" : "client");
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    if (set_protocols(ctx, settings->protocols, message) && set_ciphers(ctx, settings, message) && load_authorities(ctx, settings, message))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static bool check_settings(const struct tls_settings *settings, struct message *message)
{
    if (settings->cert_file[0] == '\0')
        message_set(message, "No tls-cert-file configured");
    else if (settings->key_file[0] == '\0')
        message_set(message, "No tls-key-file configured");
    else if (settings->auth_clients != TLS_VERIFY_NO && settings->ca_cert_file[0] == '\0' && settings->ca_cert_dir[0] == '\0')
        message_set(message, "tls-auth-clients requires tls-ca-cert-file or tls-ca-cert-dir");
    else
        return true;
    return false;
}

static bool make_server(struct tls_context *context, const struct tls_settings *settings, struct message *message)
{
    SSL_CTX *ctx = context->server = new_ctx(SERVER_END, settings, message);

    if (ctx == NULL || !load_key(ctx, settings->cert_file, settings->key_file, settings->key_file_pass, message) ||
        !load_dh_params(ctx, settings->dh_params_file, message))
        return false;
    set_sessions(ctx, settings);
    set_verify(ctx, settings->auth_clients);
    if (settings->prefer_server_ciphers)
        SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
    return true;
}

static bool make_client(struct tls_context *context, const struct tls_settings *settings, struct message *message)
{
    SSL_CTX *ctx = context->client = new_ctx(CLIENT_END, settings, message);
    bool own = settings->client_cert_file[0] != '\0' && settings->client_key_file[0] != '\0';

    if (ctx == NULL)
        return false;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (!own && settings->cert_file[0] == '\0')
        return true;
    return load_key(ctx, own ? settings->client_cert_file : settings->cert_file, own ? settings->client_key_file : settings->key_file,
        own ? settings->client_key_file_pass : settings->key_file_pass, message);
}

static struct tls_context *new_context(void)
{
    struct tls_context *context = mem_zalloc(sizeof(*context));

    ERR_clear_error();
    context->references = 1;
    context->bio = tls_bio_create();
    return context;
}

struct tls_context *tls_context_create_client(const struct tls_settings *settings, struct message *message)
{
    struct tls_context *context = new_context();
    bool has_authorities = settings->ca_cert_file[0] != '\0' || settings->ca_cert_dir[0] != '\0';

    if (context->bio != NULL && make_client(context, settings, message) &&
        (has_authorities || SSL_CTX_set_default_verify_paths(context->client) == 1))
        return context;
    tls_context_drop(context);
    return NULL;
}

struct tls_context *tls_context_create(const struct tls_settings *settings, struct message *message)
{
    struct tls_context *context;

    if (!check_settings(settings, message))
        return NULL;
    context = new_context();
    if (context->bio != NULL && make_server(context, settings, message) && make_client(context, settings, message))
        return context;
    tls_context_drop(context);
    return NULL;
}

struct tls_context *tls_context_hold(struct tls_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void tls_context_drop(struct tls_context *context)
{
    if (context == NULL || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) != 1)
        return;
    SSL_CTX_free(context->server);
    SSL_CTX_free(context->client);
    BIO_meth_free(context->bio);
    mem_free(context);
}

SSL *tls_context_new_server(const struct tls_context *context) { return SSL_new(context->server); }
SSL *tls_context_new_client(const struct tls_context *context) { return SSL_new(context->client); }
const BIO_METHOD *tls_context_bio(const struct tls_context *context) { return context->bio; }
