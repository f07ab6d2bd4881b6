/* Options: the command line of kelvin-top. */
#ifndef KELVIN_TOP_OPTIONS_H
#define KELVIN_TOP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Plain data. Strings are borrowed from argv and the environment. */
struct options {
    const char *host;
    uint64_t port;
    const char *socket;             /* NULL: TCP */
    const char *user, *password;    /* NULL: none */
    bool tls;
    const char *ca_cert, *ca_cert_dir, *cert, *key;     /* NULL: none */
    const char *server_name;        /* for TLS; NULL: the host, if it is a name */

    double interval_s;
    uint64_t reports;               /* 0: live until it is ended */
    bool once;
    bool plain;                     /* lines instead of a screen */

    bool help, version;
};

/* False: `error` has one line with what is wrong with the command line. */
bool options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size);
void options_help(FILE *out);

#endif
