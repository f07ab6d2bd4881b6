/* Synced: how far a client's writes have come: the log of this server, and replicas. WAIT and WAITAOF. */
#ifndef KELVIN_ENGINE_SYNCED_H
#define KELVIN_ENGINE_SYNCED_H

#include "call/call.h"

struct engine;

/* The aim of a client's wait. */
struct synced_aim {
    enum call_wait_end end;         /* CALL_WAIT_REPLICAS: applied; CALL_WAIT_SYNCED: on the disk */
    int64_t here, there;
};

/* All that the client has written is where it should be. */
bool synced_is_reached(struct engine *engine, const struct client *client, const struct synced_aim *aim);
/* Why it can't be reached, with its code: the log is off, or this server has become a replica. NULL: it can. */
const char *synced_error(const struct engine *engine, const struct synced_aim *aim);
/* Replies where the client's writes are: the number of replicas, or of disks of this server and of replicas. */
void synced_reply(struct engine *engine, const struct client *client, enum call_wait_end end, struct reply *reply);
/* Asks replicas to report how far they are. */
void synced_ask(struct call *call);

#endif
