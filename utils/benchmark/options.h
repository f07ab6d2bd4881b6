/* Options: parses and checks the command line of kelvin-benchmark. */
#ifndef KELVIN_BENCHMARK_OPTIONS_H
#define KELVIN_BENCHMARK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/progress_report.h"
#include "keys.h"
#include "values.h"

enum format { FORMAT_TEXT, FORMAT_QUIET, FORMAT_CSV, FORMAT_JSON };

/* Plain data. Strings are borrowed from argv. */
struct options {
    /* the server */
    const char *host;
    uint64_t port;
    const char *socket;             /* NULL: TCP */
    const char *user, *password;    /* NULL: none */
    uint64_t dbnum;
    uint64_t resp;                  /* 2 or 3 */

    /* the load */
    const char *tests;              /* comma list; NULL when a command is given */
    char **command;                 /* the user's command, NULL-terminated; NULL: none */
    bool load;
    uint64_t requests;
    double duration_s;              /* 0: limited by requests */
    uint64_t clients, threads, pipeline;
    bool pipeline_given;
    double rps;                     /* 0: no limit */
    uint64_t period_ms;             /* of the series of reply counts in JSON; 0: none */
    uint64_t read_share, write_share;
    uint64_t ttl_s;                 /* 0: none */
    uint64_t seed;
    bool seed_given;

    /* the data */
    struct key_space_config keys;
    bool hot_percent_given, hot_keys_given;
    const char *key_prefix;
    uint64_t key_size;
    uint64_t members;
    struct value_rule values;

    /* checks and output */
    bool verify, allow_missing;
    bool info;
    const char *svg;                /* the file; NULL: none */
    uint64_t server_pid;            /* 0: none */
    bool quiet, csv, json;
    enum format format;
    bool progress;
    enum progress_output progress_output;

    bool help, version;
};

/* False: `error` has one line with what is wrong with the command line. */
bool options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size);

/* The length of the periods of reply counts; 0: they are not counted. */
uint64_t options_period_ms(const struct options *options);

void options_help(FILE *out);

#endif
