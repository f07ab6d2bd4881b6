/* A command box: runs single commands on a keyspace of its own, without executor, tier, log or sockets, and keeps what the
 * command did: reply, events, changes, propagation. For unit tests of src/commands.
 */
#ifndef KELVIN_SUPPORT_COMMAND_BOX_H
#define KELVIN_SUPPORT_COMMAND_BOX_H

#include <stdint.h>

#include "base/buffer.h"
#include "call/call.h"
#include "call/key.h"
#include "engine/engine.h"

struct command_box {
    const struct command *commands;     /* ends with a row without a name */
    struct engine engine;               /* its configuration and partitions; nothing else is there */
    struct partitions *partitions;
    struct turn turn;
    struct client client;
    struct arena arena;
    struct key_hooks hooks;
    /* What the last command did. */
    struct buffer reply;                /* RESP, the CRs left out; NUL behind */
    struct buffer events;               /* "hdel h, del h", without "new" and "keymiss"; NUL behind */
    struct buffer propagated;           /* "HSET h f 3, DEL x"; NUL behind; empty: its own words, if it changed something */
    uint64_t change_count;
    bool failed;
};

/* `seed` makes the random choices; print it on failure. */
void command_box_create(struct command_box *box, const struct command *commands, uint64_t seed);
void command_box_destroy(struct command_box *box);

/* Runs a command of at least its arity and returns the reply. Keys are those of the row's ranges. */
const char *command_box_run(struct command_box *box, const struct bytes *args, int arg_count);
/* The same, from words with single spaces between them. */
const char *command_box_say(struct command_box *box, const char *line);

#endif
