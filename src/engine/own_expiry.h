/* Own expiry: keys with a time that clients have written to a writable replica. The primary does not know them, so this server deletes them when
 * their time has come, as Redis does; all other keys of a replica stay until the primary's DEL. Neither a write of a client on a replica
 * nor such a deletion is in the stream: its bytes are the primary's.
 *
 * A key that is cold when its time comes is left to the next promotion or full synchronization; it reads as absent.
 *
 * Owner: the leaf lock inside. Memory: a copy of each key's name, once; with OWN_EXPIRY_KEYS of them no more are remembered.
 */
#ifndef KELVIN_ENGINE_OWN_EXPIRY_H
#define KELVIN_ENGINE_OWN_EXPIRY_H

#include "call/call.h"

struct own_expiry;
struct worker;

enum { OWN_EXPIRY_KEYS = 1 << 20 };

struct own_expiry *own_expiry_create(void);
void own_expiry_destroy(struct own_expiry *own);        /* NULL is fine */

/* A client's call has changed something on a replica. Its partitions are locked. */
void own_expiry_note(const struct call *call);
/* Deletes what is due; about ten times a second, on the first worker. Forgets all once this server is a primary. */
void own_expiry_tick(struct worker *worker);
uint64_t own_expiry_count(struct own_expiry *own);

#endif
