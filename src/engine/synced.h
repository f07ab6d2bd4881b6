/* Synced: how far the log has been synced, as a client sees it: the replies of WAITAOF. */
#ifndef KELVIN_ENGINE_SYNCED_H
#define KELVIN_ENGINE_SYNCED_H

#include "call/call.h"

struct engine;

/* All that the client has written is on this server's disk. False, too, if there is no log. */
bool synced_is_here(const struct engine *engine, const struct client *client);
/* Why this end can't be reached, with its code: the log is off. NULL: it can. */
const char *synced_error(const struct engine *engine, enum call_wait_end end);
/* Replies on how many disks the client's writes are: this server's, and those of replicas, of which there are none. */
void synced_reply(const struct engine *engine, const struct client *client, struct reply *reply);

#endif
