#include "support/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"

static void write_files(const struct certificate *certificate, X509 *x509, EVP_PKEY *key)
{
    FILE *file = fopen(certificate->cert_file, "w");

    CHECK(file != NULL && PEM_write_X509(file, x509) == 1);
    fclose(file);
    file = fopen(certificate->key_file, "w");
    CHECK(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(file);
}

static void make_files(const struct certificate *certificate)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x509 = X509_new();

    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(x509, X509_get_subject_name(x509));
    CHECK(X509_sign(x509, key, EVP_sha256()) > 0);
    write_files(certificate, x509, key);
    X509_free(x509);
    EVP_PKEY_free(key);
}

void certificate_create(struct certificate *certificate)
{
    struct tls_settings *settings = &certificate->settings;
    struct message message;

    strcpy(certificate->dir, "/tmp/kelvin-test-XXXXXX");
    CHECK(mkdtemp(certificate->dir) != NULL);
    snprintf(certificate->cert_file, sizeof(certificate->cert_file), "%s/cert", certificate->dir);
    snprintf(certificate->key_file, sizeof(certificate->key_file), "%s/key", certificate->dir);
    certificate->none[0] = '\0';
    make_files(certificate);
    *settings = (struct tls_settings){
        .cert_file = certificate->cert_file, .key_file = certificate->key_file, .key_file_pass = certificate->none,
        .auth_clients = TLS_VERIFY_YES, .ca_cert_file = certificate->cert_file,
        .session_caching = true, .session_cache_size = 10, .session_cache_timeout_s = 300,
    };
    settings->client_cert_file = settings->client_key_file = settings->client_key_file_pass = settings->ca_cert_dir =
        settings->dh_params_file = settings->protocols = settings->ciphers = settings->ciphersuites = certificate->none;
    certificate->context = tls_context_create(settings, &message);
    CHECK(certificate->context != NULL);
}

void certificate_remove(struct certificate *certificate)
{
    tls_context_drop(certificate->context);
    unlink(certificate->cert_file);
    unlink(certificate->key_file);
    rmdir(certificate->dir);
}
