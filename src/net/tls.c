#include "net/tls.h"

#include "base/mem.h"
#include "base/mutex.h"

struct tls {
    struct config *config;
    struct log *log;
    struct mutex lock;              /* leaf */
    struct tls_context *current;    /* lock */
};

/* Rows of which a context is made. */
static const enum config_id rows[] = {
    CONFIG_TLS_CERT_FILE, CONFIG_TLS_KEY_FILE, CONFIG_TLS_KEY_FILE_PASS, CONFIG_TLS_CLIENT_CERT_FILE, CONFIG_TLS_CLIENT_KEY_FILE,
    CONFIG_TLS_CLIENT_KEY_FILE_PASS, CONFIG_TLS_DH_PARAMS_FILE, CONFIG_TLS_CA_CERT_FILE, CONFIG_TLS_CA_CERT_DIR, CONFIG_TLS_AUTH_CLIENTS,
    CONFIG_TLS_PROTOCOLS, CONFIG_TLS_CIPHERS, CONFIG_TLS_CIPHERSUITES, CONFIG_TLS_PREFER_SERVER_CIPHERS, CONFIG_TLS_SESSION_CACHING,
    CONFIG_TLS_SESSION_CACHE_SIZE, CONFIG_TLS_SESSION_CACHE_TIMEOUT,
};

struct tls *tls_create(struct config *config, struct log *log)
{
    struct tls *tls = mem_zalloc(sizeof(*tls));

    tls->config = config;
    tls->log = log;
    mutex_init(&tls->lock);
    return tls;
}

void tls_destroy(struct tls *tls)
{
    if (tls == NULL)
        return;
    tls_context_drop(tls->current);
    mutex_release(&tls->lock);
    mem_free(tls);
}

bool tls_is_used(const struct config *config)
{
    return config_number(config, CONFIG_TLS_PORT) != 0 || config_number(config, CONFIG_TLS_REPLICATION) != 0 ||
           (config_number(config, CONFIG_CLUSTER_ENABLED) != 0 && config_number(config, CONFIG_TLS_CLUSTER) != 0);
}

static void read_settings(struct config *config, struct tls_settings *settings)
{
    *settings = (struct tls_settings){
        .cert_file = config_string(config, CONFIG_TLS_CERT_FILE),
        .key_file = config_string(config, CONFIG_TLS_KEY_FILE),
        .key_file_pass = config_string(config, CONFIG_TLS_KEY_FILE_PASS),
        .client_cert_file = config_string(config, CONFIG_TLS_CLIENT_CERT_FILE),
        .client_key_file = config_string(config, CONFIG_TLS_CLIENT_KEY_FILE),
        .client_key_file_pass = config_string(config, CONFIG_TLS_CLIENT_KEY_FILE_PASS),
        .ca_cert_file = config_string(config, CONFIG_TLS_CA_CERT_FILE),
        .ca_cert_dir = config_string(config, CONFIG_TLS_CA_CERT_DIR),
        .dh_params_file = config_string(config, CONFIG_TLS_DH_PARAMS_FILE),
        .protocols = config_string(config, CONFIG_TLS_PROTOCOLS),
        .ciphers = config_string(config, CONFIG_TLS_CIPHERS),
        .ciphersuites = config_string(config, CONFIG_TLS_CIPHERSUITES),
        .auth_clients = (enum tls_verify)config_number(config, CONFIG_TLS_AUTH_CLIENTS),
        .prefer_server_ciphers = config_number(config, CONFIG_TLS_PREFER_SERVER_CIPHERS) != 0,
        .session_caching = config_number(config, CONFIG_TLS_SESSION_CACHING) != 0,
        .session_cache_size = config_number(config, CONFIG_TLS_SESSION_CACHE_SIZE),
        .session_cache_timeout_s = config_number(config, CONFIG_TLS_SESSION_CACHE_TIMEOUT),
    };
}

static void release_settings(struct tls_settings *settings)
{
    mem_free(settings->cert_file);
    mem_free(settings->key_file);
    mem_free(settings->key_file_pass);
    mem_free(settings->client_cert_file);
    mem_free(settings->client_key_file);
    mem_free(settings->client_key_file_pass);
    mem_free(settings->ca_cert_file);
    mem_free(settings->ca_cert_dir);
    mem_free(settings->dh_params_file);
    mem_free(settings->protocols);
    mem_free(settings->ciphers);
    mem_free(settings->ciphersuites);
}

static struct tls_context *make_context(struct config *config, struct message *message)
{
    struct tls_settings settings;
    struct tls_context *made;

    read_settings(config, &settings);
    made = tls_context_create(&settings, message);
    release_settings(&settings);
    return made;
}

bool tls_check(struct config *config, struct message *message)
{
    struct message reason = { "" };
    struct tls_context *made = make_context(config, &reason);

    if (made == NULL)
        message_set(message, "TLS: %s", reason.text);
    tls_context_drop(made);
    return made != NULL;
}

bool tls_configure(struct tls *tls)
{
    struct message message = { "" };
    struct tls_context *made = make_context(tls->config, &message), *former;

    if (made == NULL) {
        log_write(tls->log, LOG_LEVEL_WARNING, "TLS: %s", message.text);
        return false;
    }
    mutex_lock(&tls->lock);
    former = tls->current;
    tls->current = made;
    mutex_unlock(&tls->lock);
    tls_context_drop(former);
    return true;
}

struct tls_context *tls_hold_context(struct tls *tls)
{
    struct tls_context *context;

    mutex_lock(&tls->lock);
    context = tls->current != NULL ? tls_context_hold(tls->current) : NULL;
    mutex_unlock(&tls->lock);
    return context;
}

static bool changed(void *context, enum config_id id, struct message *message)
{
    struct tls *tls = context;

    (void)id;
    if (!tls_is_used(tls->config) || tls_configure(tls))
        return true;
    message_set(message, "Unable to update TLS configuration. Check server logs.");
    return false;
}

void tls_watch_config(struct tls *tls)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        config_on_change(tls->config, rows[i], changed, tls);
}
