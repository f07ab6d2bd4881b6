/* Words: splits lines of a configuration file into words, and quotes words. For config/config*.c, and for files of the same form. */
#ifndef KELVIN_CONFIG_CONFIG_WORDS_H
#define KELVIN_CONFIG_CONFIG_WORDS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct config_words {
    struct bytes *items;        /* point into `text`, or into the text that config_words_list split */
    int count;
    char *text;
};

/* Splits at white space. "..." accepts \n \r \t \b \a \xHH and \ before any other byte, '...' accepts \' only; a closing
 * quote ends its word. False if quotes are unbalanced; there is nothing to release then. */
bool config_words_split(struct bytes line, struct config_words *words);

/* Splits at each single space, so that there is an empty word between two consecutive spaces; an empty text has no words.
 * Borrows the text. */
void config_words_list(struct bytes text, struct config_words *words);

void config_words_release(struct config_words *words);

/* Appends the word so that config_words_split reads it back: unchanged if nothing in it needs quotes. */
void config_words_quote(struct buffer *out, struct bytes word);

/* Removes the next line, which is returned without its newline, from the text; false if there is none left. */
bool config_line_next(struct bytes *text, struct bytes *line);

/* Returns the line without white space at both ends. */
struct bytes config_line_trim(struct bytes line);

#endif
