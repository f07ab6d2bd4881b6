/* Command line: options as rows, each the complete description of an option: its names, its syntax and bounds, the field that it sets, its help.
 * Shared by the programs in utils/.
 */
#ifndef KELVIN_COMMON_COMMAND_LINE_H
#define KELVIN_COMMON_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"

enum option_kind {
    OPTION_HEADING,         /* not an option: a heading of the help */
    OPTION_FLAG,            /* bool */
    OPTION_TEXT,            /* const char *, borrowed from argv */
    OPTION_COUNT,           /* uint64_t, least .. most */
    OPTION_REAL,            /* double, least .. most */
    OPTION_OTHER,           /* as `parse` says */
};

struct option_row {
    enum option_kind kind;
    char letter;                /* 0: none */
    const char *name;
    const char *argument;       /* its name in the help; NULL: it has none */
    const char *help;           /* may have several lines */
    size_t offset;              /* of the field, in the struct that is given to command_line_parse */
    double least, most;
    size_t given_offset;        /* a bool that is set if the option is given; 0: none */
    bool (*parse)(const char *text, void *field);
};

/* Parses options from argv[*at] on, up to the first word that is none, and leaves *at there: "--name value", "--name=value", "-x value", "-xvalue".
 * `options` is the struct with the fields. False: `error` has one line with what is wrong. */
bool command_line_parse(const struct option_row *rows, int count, void *options, char **argv, int *at, char *error, size_t error_size);
void command_line_help(const struct option_row *rows, int count, FILE *out);

/* Digits only, 19 at most. */
bool command_line_count(struct bytes text, double least, double most, uint64_t *count);

#endif
