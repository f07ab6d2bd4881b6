/* Library head: what the text of a library says about itself in its first line, #!lua name=... */
#ifndef KELVIN_SCRIPT_LIBRARY_HEAD_H
#define KELVIN_SCRIPT_LIBRARY_HEAD_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"

/* Names of libraries and functions: letters, digits and underscores, at least one. */
bool library_name_is_valid(struct bytes name);

struct library_head {
    char *name;                     /* freed with library_head_release */
    size_t body;                    /* offset of the code */
};
/* False: `error` has the text of the error reply, without '-'. */
bool library_head_read(struct bytes text, struct library_head *head, struct buffer *error);
void library_head_release(struct library_head *head);

#endif
