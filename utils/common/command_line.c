#include "command_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool command_line_count(struct bytes text, double least, double most, uint64_t *count)
{
    uint64_t number = 0;

    if (text.size == 0 || text.size > 19)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *count = number;
    return (double)number >= least && (double)number <= most;
}

static bool parse_real(const char *text, double least, double most, double *real)
{
    char *end;

    *real = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*real) && *real >= least && *real <= most;
}

static bool set_field(const struct option_row *row, void *options, const char *text)
{
    void *field = (char *)options + row->offset;

    if (row->given_offset > 0)
        *(bool *)((char *)options + row->given_offset) = true;
    switch (row->kind) {
    case OPTION_FLAG: *(bool *)field = true; return true;
    case OPTION_TEXT: *(const char **)field = text; return true;
    case OPTION_COUNT: return command_line_count(bytes_of_string(text), row->least, row->most, field);
    case OPTION_REAL: return parse_real(text, row->least, row->most, field);
    case OPTION_OTHER: return row->parse(text, field);
    case OPTION_HEADING: break;
    }
    return false;
}

static const struct option_row *find_name(const struct option_row *rows, int count, struct bytes name)
{
    for (int i = 0; i < count; i++)
        if (rows[i].name && bytes_equal(bytes_of_string(rows[i].name), name))
            return &rows[i];
    return NULL;
}

static const struct option_row *find_letter(const struct option_row *rows, int count, char letter)
{
    for (int i = 0; i < count; i++)
        if (letter != 0 && rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

/* Parses one option with its argument. Returns the number of words, 0 after an error. */
static int take_option(const struct option_row *rows, int count, void *options, char **argv, char *error, size_t error_size)
{
    const char *word = argv[0], *value = NULL;
    const struct option_row *row;
    int words = 1;

    if (word[1] == '-') {
        size_t size = strcspn(word + 2, "=");

        row = find_name(rows, count, bytes_of(word + 2, size));
        value = word[2 + size] == '=' ? word + 2 + size + 1 : NULL;
    } else {
        row = find_letter(rows, count, word[1]);
        value = word[1] && word[2] ? word + 2 : NULL;
    }
    if (row == NULL || (row->kind == OPTION_FLAG && value != NULL)) {
        snprintf(error, error_size, "unknown option '%s' (see --help)", word);
        return 0;
    }
    if (row->kind != OPTION_FLAG && value == NULL) {
        value = argv[words++];
        if (value == NULL) {
            snprintf(error, error_size, "option '%s' requires an argument: %s", word, row->argument);
            return 0;
        }
    }
    if (!set_field(row, options, value)) {
        if (row->most > 0)
            snprintf(error, error_size, "--%s: '%s' is not a number from %.12g to %.12g", row->name, value, row->least,
                row->most);
        else
            snprintf(error, error_size, "--%s: '%s' is not of the form %s", row->name, value, row->argument);
        return 0;
    }
    return words;
}

bool command_line_parse(const struct option_row *rows, int count, void *options, char **argv, int *at, char *error, size_t error_size)
{
    while (argv[*at] != NULL && argv[*at][0] == '-') {
        int words = take_option(rows, count, options, argv + *at, error, error_size);

        if (words == 0)
            return false;
        *at += words;
    }
    return true;
}

static void print_row(FILE *out, const struct option_row *row)
{
    enum { COLUMN = 28 };
    char left[64];
    int used = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
        row->letter ? "," : " ", row->name, row->argument ? " " : "", row->argument ? row->argument : "");

    fprintf(out, "%-*s", COLUMN, left);
    if (used >= COLUMN)
        fprintf(out, "\n%*s", COLUMN, "");
    for (const char *c = row->help; *c; c++) {
        fputc(*c, out);
        if (*c == '\n')
            fprintf(out, "%*s", COLUMN, "");
    }
    fputc('\n', out);
}

void command_line_help(const struct option_row *rows, int count, FILE *out)
{
    for (int i = 0; i < count; i++) {
        if (rows[i].kind == OPTION_HEADING)
            fprintf(out, "\n%s:\n", rows[i].help);
        else
            print_row(out, &rows[i]);
    }
}
