/* Tracking: client-side caching. The server remembers which clients may have a copy of a key's value, and sends them an invalidation
 * message when the key changes, expires or is evicted (CLIENT TRACKING).
 *
 * Two modes. In the default mode each key that a client reads is remembered in the table of the key's partition, in the same hold of the
 * partition's lock in which the read ran; so no change can come between the two. A change takes the key out of the table, and one
 * message goes to each of its clients. In the broadcasting mode (BCAST) nothing is remembered: a client gets all changed keys that begin
 * with one of its prefixes, in one message for each prefix and turn.
 *
 * What changes is noted in a list, under the partition's lock, and sent when the change is in the log (tracking_send). Messages travel
 * as other pushes do (engine/publish.h): they are appended to the client's output between calls. So the message about a version of
 * a key comes after every reply with that version. One that comes after a reply with a newer version costs the client a read;
 * nothing else. A key that moves between RAM and store has not changed. The tables know no databases, as in Redis.
 *
 * A client is a *tracker* once it has turned tracking on. Trackers are counted: the tables may refer to those of clients that are gone.
 */
#ifndef KELVIN_ENGINE_TRACKING_H
#define KELVIN_ENGINE_TRACKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct call;
struct client;
struct command;
struct engine;
struct keyspace;
struct tracked_key;
struct tracking;
struct worker;

enum tracking_mode {
    TRACKING_ON = 1 << 0,
    TRACKING_BCAST = 1 << 1,
    TRACKING_OPTIN = 1 << 2,
    TRACKING_OPTOUT = 1 << 3,
    TRACKING_NOLOOP = 1 << 4,       /* it gets no messages about its own changes */
    TRACKING_BROKEN = 1 << 5,       /* the client that its messages are redirected to was gone when there was one */
    TRACKING_GONE = 1 << 6,         /* private: the client was closed */
};

struct tracking *tracking_create(struct engine *engine);
/* After the workers ended; NULL is fine. */
void tracking_destroy(struct tracking *tracking, int worker_count);

/* A client's own state. On its worker. */

/* Turns tracking on, or changes its options; TRACKING_BCAST, OPTIN and OPTOUT are the same as before if it is on. `redirect`: the ID of
 * the client that gets the messages, 0: itself. Prefixes are added to those that there are. */
void tracking_turn_on(struct client *client, uint32_t options, uint64_t redirect, const struct bytes *prefixes, int prefix_count);
/* Messages that are under way are dropped. Twice is fine. */
void tracking_turn_off(struct client *client);
/* The client is closed. */
void tracking_forget(struct client *client);
/* enum tracking_mode; 0: off. */
uint32_t tracking_mode(const struct client *client);
uint64_t tracking_redirect(const struct client *client);
int tracking_prefix_count(const struct client *client);
struct bytes tracking_prefix(const struct client *client, int index);
/* Bytes that the client's state takes. */
uint64_t tracking_memory(const struct client *client);

/* The table of a partition. */

/* The call has read its keys, for a client with CLIENT_TRACKING, and its partitions are still locked. A call that will run again is
 * not reported. */
void tracking_remember(struct call *call);

/* A client of this worker that had to wait for its keys has its reply now, from a call that another worker may have run. The keys are
 * not in the tables: it gets a message about them after its reply. */
void tracking_disown(struct client *client, const struct command *command, const struct bytes *args, int arg_count, uint64_t lsn);

/* Changes that are yet to be sent, in order. All zero: empty. Owner: a worker or a unit. */
struct tracking_list {
    struct tracked_key *first, *last;
};

/* A key has changed or was removed; its partition is locked. `by`: the client that did it, 0: none. */
void tracking_note(struct engine *engine, struct tracking_list *list, uint64_t by, const struct keyspace *keyspace, uint64_t hash,
    struct bytes key);
/* All partitions are locked, and there are other keys now: all clients forget all they have. */
void tracking_note_all(struct engine *engine, struct tracking_list *list);
/* Sends what was noted, and empties the list. The messages leave when the log covers `lsn`. A list must not be dropped, even if what it is
 * about was taken back: its keys are in no table any more. `worker`: that of the calling thread, NULL if it is none. Any locks. */
void tracking_send(struct engine *engine, const struct worker *worker, struct tracking_list *list, uint64_t lsn);
/* Moves all of `from` to the end of `to`. */
void tracking_list_move(struct tracking_list *to, struct tracking_list *from);
/* Drops what was not sent when the server ends. */
void tracking_list_release(struct tracking_list *list);
/* At the end of a turn: the messages of the broadcasting mode; and if the tables have too many keys (tracking-table-max-keys), some of
 * them are invalidated. Without locks. */
void tracking_end_turn(struct worker *worker);

/* There is any tracker, or key in a table. */
bool tracking_is_on(const struct engine *engine);

/* Statistics. Any thread. */
struct tracking_counts {
    uint64_t clients;               /* that have turned tracking on */
    uint64_t keys, items;           /* in the tables: keys; pairs of key and client */
    uint64_t prefixes;              /* of the broadcasting mode; each counts once */
};
struct tracking_counts tracking_count(const struct engine *engine);

#endif
