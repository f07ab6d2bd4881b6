/* The meaning of a command in the stream of a primary: for the applier of a replica, and for the replay of a replica's log, which has the
 * same bytes. Pure functions. */
#ifndef KELVIN_CALL_STREAMED_H
#define KELVIN_CALL_STREAMED_H

#include <stdint.h>

#include "base/bytes.h"
#include "call/command.h"

enum streamed_kind {
    STREAMED_CHANGE,        /* is run: a write, a script, PUBLISH and the like, SELECT */
    STREAMED_BRACKET,       /* MULTI, EXEC: the ends of a group */
    STREAMED_SIGN,          /* PING, REPLCONF: counts as bytes of the stream only */
    STREAMED_FOREIGN,       /* no primary sends it: it is not run */
};

/* `command` is that of command_find_logged; NULL: unknown. There is at least one argument, the name. */
enum streamed_kind streamed_kind(const struct command *command, const struct bytes *args, int arg_count);

/* Bytes of a command in a stream; and of a string that a command of a stream or a log makes, if proto-max-bulk-len is less. */
#define STREAMED_SIZE_MAX ((uint64_t)1 << 30)

/* The reason that is logged for a foreign command. */
#define STREAMED_FOREIGN_TEXT "a primary does not send it"

/* REPLCONF GETACK: a sign that is replied to with an ACK. */
bool streamed_is_getack(const struct bytes *args, int arg_count);

#endif
