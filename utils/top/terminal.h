/* Terminal: a screen of its own on the terminal of stdin and stdout, which is given back as it was: at the end, when the program is stopped, and
 * when it crashes.
 */
#ifndef KELVIN_TOP_TERMINAL_H
#define KELVIN_TOP_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

#include "base/bytes.h"

struct terminal {
    struct termios saved;
    bool has_saved;             /* stdin is a terminal: keys are read */
    bool is_open;
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);         /* also if it is not open */

/* 80 x 24 if the terminal does not say. */
void terminal_size(int *columns, int *rows);
/* Replaces the screen's contents by lines that end with '\n'; the first one is inverse. */
void terminal_draw(struct bytes lines);

#endif
