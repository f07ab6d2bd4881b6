/* Library dump: libraries as bytes, in the format of Redis' FUNCTION DUMP; docs/formats/functions.md. An image has them in this form, too. */
#ifndef KELVIN_SCRIPT_LIBRARY_DUMP_H
#define KELVIN_SCRIPT_LIBRARY_DUMP_H

#include <stdbool.h>

#include "script/library_set.h"

enum { LIBRARY_DUMP_OPCODE = 245, LIBRARY_DUMP_OPCODE_OLD = 246 };

/* Appends the dump. The same libraries give the same bytes. */
void library_dump(const struct library_set *set, struct buffer *out);

/* Whether the dump is whole, but of a later version than can be read. */
bool library_dump_is_newer(struct bytes dump);

/* Called with the text of each library, which is borrowed, in order. False: `error` was filled, and the reading ends. */
typedef bool library_dump_found(void *context, struct bytes text, struct buffer *error);

/* Reads a dump; the bytes may be any. A compressed text may be up to `text_size_max` long. False: `error` has the text of the error reply of
 * FUNCTION RESTORE, without '-'. */
bool library_dump_read(struct bytes dump, size_t text_size_max, library_dump_found *found, void *context, struct buffer *error);

#endif
