/* Words: how lines of a configuration file are cut into words, and words quoted again. Private to config/config*.c. */
#ifndef KELVIN_CONFIG_CONFIG_WORDS_H
#define KELVIN_CONFIG_CONFIG_WORDS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct config_words {
    struct bytes *items;        /* into `text`, or into what was split by config_words_list */
    int count;
    char *text;
};

/* Cuts at white space. "..." knows \n \r \t \b \a \xHH and \ before any other byte, '...' knows \' only; a closing quote
 * ends its word. False when quotes do not fit; there is nothing to release then. */
bool config_words_split(struct bytes line, struct config_words *words);

/* Cuts at each single space, so that two in a row hold an empty word; the empty text has no words. Borrows the text. */
void config_words_list(struct bytes text, struct config_words *words);

void config_words_release(struct config_words *words);

/* Appends the word so that config_words_split gives it back: as it is when nothing in it needs quotes. */
void config_words_quote(struct buffer *out, struct bytes word);

/* Takes the next line off the text, without its end; false when there is none left. */
bool config_line_next(struct bytes *text, struct bytes *line);

/* Without white space at either end. */
struct bytes config_line_trim(struct bytes line);

#endif
