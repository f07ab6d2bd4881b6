/* An applier over an engine of its own, without tier, log, sockets and server: one worker, whose client is the caller's thread. A test writes
 * the stream of a primary into the inbox, and looks at what became of it.
 */
#ifndef KELVIN_SUPPORT_APPLIER_BOX_H
#define KELVIN_SUPPORT_APPLIER_BOX_H

#include "base/buffer.h"
#include "base/message.h"
#include "replication/applier.h"
#include "stream/backlog.h"
#include "support/engine_box.h"

struct applier_box {
    struct engine_box base;
    struct client client;
    struct backlog *inbox;
    struct backlog_reader *output;      /* of the history */
    struct applier *_Atomic applier;    /* NULL: none */
    _Atomic int acks;
    _Atomic int64_t acked;              /* the applier's offset at the last one */
    _Atomic bool failed;
    struct message reason;              /* of the failure; valid when `failed` is set */
    char *text;                         /* of applier_box_say */
};

/* `inbox`: its size in memory; what is further back is lost. */
void applier_box_create(struct applier_box *box, uint64_t inbox);
void applier_box_destroy(struct applier_box *box);

/* An applier at `offset`, where the inbox must be. */
void applier_box_start(struct applier_box *box, int64_t offset, int db);
struct applier_end applier_box_stop(struct applier_box *box);

/* Appends to the inbox, and wakes the applier. */
void applier_box_feed(struct applier_box *box, struct bytes bytes);
/* Waits until that much is applied, or the applier has failed. False: it has failed. */
bool applier_box_await(struct applier_box *box, int64_t offset);
/* Until it has failed. */
void applier_box_await_failure(struct applier_box *box);

/* A client's command, words separated by spaces; the reply without CRs, until the next call. */
const char *applier_box_say(struct applier_box *box, const char *line);

/* All of the history's bytes since the last call. */
void applier_box_output(struct applier_box *box, struct buffer *out);

/* Appends a command of words separated by spaces, as a primary sends it. */
void applier_box_print(struct buffer *out, const char *line);

#endif
