/* Slot import: atomic migrations that this node has asked other nodes for, by CLUSTER MIGRATION IMPORT. The node that has the slots carries them out and knows
 * how they are (slot_export.h); here is what was asked for, under the name that the job has there, and what the owner said of it last.
 *
 *   this node                                                   the owner of the slots
 *   CLUSTER RECEIVESLOTS REQUEST name own-id first last ... ->  a job of that name
 *   CLUSTER RECEIVESLOTS STATE name ->                          +state message
 *   CLUSTER RECEIVESLOTS CANCEL name ->                         :1, or :0: it can't be cancelled any more
 *
 * Threads: any, without locks. Functions that ask other nodes wait for them, up to some seconds for each; a node that does not reply is asked once in each call.
 */
#ifndef KELVIN_CLUSTER_SLOT_IMPORT_H
#define KELVIN_CLUSTER_SLOT_IMPORT_H

#include "cluster/slot_export.h"

struct slot_import;

struct slot_import_task {
    char name[NODE_ID_SIZE + 1];
    struct slots slots;
    struct node_id from;
    enum slot_export_state state;
    struct message message;             /* why it has failed, or why it is not known how it is */
    int64_t created_ms, ended_ms;       /* Unix time; 0: not yet */
};

struct slot_import *slot_import_create(struct engine *engine, struct cluster *cluster);
void slot_import_destroy(struct slot_import *import);       /* NULL is fine */

/* Asks the owner of the slots, `from`, to migrate them to this node; `name` has NODE_ID_SIZE + 1 bytes. False: nothing was begun, and `message` says why; or it
 * has replied nothing, and is going to do it or not. */
bool slot_import_begin(struct slot_import *import, const struct slots *slots, const struct node_id *from, char *name, struct message *message);
/* Asks for those that have not ended: the one of this name, or all if NULL. *message: why one could not be cancelled. Returns how many were. */
int slot_import_cancel(struct slot_import *import, const char *name, struct message *message);
/* Asks for the states of those that have not ended: the one of this name, or all if NULL. */
void slot_import_refresh(struct slot_import *import, const char *name);
/* Copies, the newest first, as of the last refresh. The caller frees the array. */
int slot_import_list(struct slot_import *import, struct slot_import_task **tasks);

#endif
