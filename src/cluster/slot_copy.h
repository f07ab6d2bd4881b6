/* Slot copy: the keys of slots of this node, and then what changes in them, as commands for another node that has none of them.
 *
 * There is no cut, and no copy of the data set. Keys are read in the order of slots, databases and hashes, a page at a time, with the page's partition owned, so that it is
 * known at which position of the history that is. What the history has up to there comes first, then the page:
 *
 *   history up to position 1, without keys that were not sent | page 1 as RESTORE | history from 1 to 2, of keys that were sent | page 2 | ...
 *
 * A command with several keys, of which some were sent and some not, can't be run there. Its keys that were sent are *stale* from there on: commands
 * are left out until they have been read and sent again, with the next page.
 *
 * Of each slot the databases are read one after the other, 0 first. With several of them the commands have SELECTs; the other node begins in database 0.
 *
 * Owner: one thread, without locks.
 */
#ifndef KELVIN_CLUSTER_SLOT_COPY_H
#define KELVIN_CLUSTER_SLOT_COPY_H

#include "base/buffer.h"
#include "base/message.h"
#include "cluster/slots.h"
#include "engine/engine.h"

struct slot_copy;

/* Takes `count` commands. False: the copy is given up; `message` of slot_copy_step is empty. */
typedef bool slot_copy_send(void *context, struct bytes commands, uint64_t count);

/* NULL: the history can't be read; `message` says why. The slots stay this node's, and it a primary, until it is destroyed: the caller looks. */
struct slot_copy *slot_copy_create(struct engine *engine, const struct slots *slots, slot_copy_send *send, void *context, struct message *message);
void slot_copy_destroy(struct slot_copy *copy);         /* NULL is fine */

/* Sends the next page, or what the history has now. False: it has failed, or `send` gave up. */
bool slot_copy_step(struct slot_copy *copy, struct message *message);
/* All keys were sent, and none is stale. */
bool slot_copy_has_keys_left(const struct slot_copy *copy);
/* Bytes of the history that were not looked at. */
uint64_t slot_copy_lag(const struct slot_copy *copy);
/* Sends what the history has up to this position, and waits for it. No key is left. */
bool slot_copy_finish(struct slot_copy *copy, uint64_t lsn, struct message *message);
uint64_t slot_copy_key_count(const struct slot_copy *copy);     /* sent so far */

#endif
