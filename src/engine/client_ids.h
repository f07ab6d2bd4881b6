/* Client IDs: on which worker each connected client is. A client belongs to its worker's thread; others can ask here whether there is one
 * with a given ID, and send mail to its worker.
 *
 * Thread-safe: one leaf lock.
 */
#ifndef KELVIN_ENGINE_CLIENT_IDS_H
#define KELVIN_ENGINE_CLIENT_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct client;
struct client_ids;
struct worker;

struct client_ids *client_ids_create(void);
void client_ids_destroy(struct client_ids *ids);        /* NULL is fine */

/* On the client's worker. Removing one that is not there is fine. */
void client_ids_add(struct client_ids *ids, struct client *client);
void client_ids_remove(struct client_ids *ids, const struct client *client);

/* The index of the worker that the client with that ID is on; -1: there is none. */
int client_ids_worker(struct client_ids *ids, uint64_t id);
/* The client with that ID, if it is on this worker, which is the caller's; or NULL. */
struct client *client_ids_find(struct client_ids *ids, const struct worker *worker, uint64_t id);

#endif
