/* Applier: applies a primary's stream to the data set, on a thread of its own ("kelvin-applier"), while clients are served.
 *
 * It reads the bytes from the inbox that the link fills (a backlog whose positions are the primary's offsets), some thousand commands ahead:
 * cold keys that they need are loaded before they run (lifecycle/ahead.h). A unit is one command, or all from MULTI to EXEC. A single command
 * runs like that of a client that waits in place, and its bytes are appended to the history, as they came, while its partitions are
 * locked. For a group, and for a command that concerns all keys, the thread owns the partitions of its keys, or all of them, from the first
 * command to the last: clients see all of it or nothing, and a checkpoint has all of it or nothing. Values may be demoted between its
 * commands, so a group may need more memory than there is.
 *
 * A group of up to 4 MB is in memory until its EXEC has come. Of a larger one only the end is looked for; the inbox keeps its bytes,
 * and it is read a second time to be applied. If that fails in the middle, the part that was applied stays, under a new replication ID, until
 * the full synchronization that follows. The inbox must have room for a whole group.
 *
 * Nothing is refused to it: no user, no memory gate, no pause. The clock expires nothing. Its errors are logged, and counted. A record that can't
 * be read is none of them: it says nothing about the command, which was not applied then, so the stream ends there (`failed`), and all data is
 * asked for again.
 *
 * The stream is not trusted: what is no command, a MULTI in a MULTI, an EXEC without one and a command of more than 1 GiB end it.
 *
 * Position: what was applied. It moves unit by unit, so the end of the thread, or of the link, never leaves half of one.
 */
#ifndef KELVIN_REPLICATION_APPLIER_H
#define KELVIN_REPLICATION_APPLIER_H

#include <stdbool.h>
#include <stdint.h>

struct applier;
struct backlog;
struct command;
struct engine;

struct applier_options {
    struct engine *engine;
    struct backlog *inbox;          /* outlives the applier */
    int64_t offset;                 /* applied so far; the inbox has what follows */
    int db;                         /* selected there */
    const char *address;            /* of the primary; copied */
    void *context;
    void (*ack)(void *context);     /* the primary asks for an ACK. On the applier's thread, as the next */
    void (*failed)(void *context, const char *reason);      /* the stream can't be read on: it has ended. Returns at once */
};

/* NULL: no thread, or the inbox does not have the offset. */
struct applier *applier_start(const struct applier_options *options);
/* The inbox has more. Any thread. */
void applier_wake(struct applier *applier);
/* Ends it after the unit that runs, and frees it. */
struct applier_end {
    int64_t offset;
    int db;
};
struct applier_end applier_stop(struct applier *applier);

/* The client that the commands are run as. */
struct applier_view {
    uint64_t id;
    int db;
    const struct command *last_command;     /* NULL: none yet */
    int64_t created_us;
};
void applier_view(const struct applier *applier, struct applier_view *view);
/* Any thread. */
int64_t applier_offset(const struct applier *applier);
/* All complete units of the inbox up to `end` are applied, or no more will be. */
bool applier_has_all(const struct applier *applier, uint64_t end);
uint64_t applier_errors(const struct applier *applier);     /* commands that failed, or that a primary must not send */

#endif
