/* Publication: a message on its way to its receivers: either to the subscribers of a channel, or a *push* to certain clients of one
 * worker. All workers that deliver it share its bytes.
 *
 * Thread-safe by reference counts: nothing but the links changes after it was posted (pubsub/hub.h).
 *
 *   tail, to be sent after the head that depends on the receiver:    $7\r\nchannel\r\n$4\r\ntext\r\n
 */
#ifndef KELVIN_PUBSUB_PUBLICATION_H
#define KELVIN_PUBSUB_PUBLICATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/blob.h"
#include "base/bytes.h"
#include "pubsub/topic.h"

/* A receiver of a push. A push whose generation is not the client's (client->push_generation) is dropped. */
struct push_target {
    uint64_t client_id;
    uint32_t generation;
};

struct publication {
    struct publication *next;       /* in its owner's batch, before it is posted */
    _Atomic uint32_t holders;
    bool is_push;
    bool in_transit;                /* it was put into an inbox, and is counted */
    enum topic_kind kind;           /* TOPIC_CHANNEL or TOPIC_SHARD, if it is not a push */
    uint64_t number;                /* place in the one order of all publications, from 1; set when it is posted */
    uint64_t lsn;                   /* it leaves when the log covers this; set when it is posted */
    size_t size;                    /* bytes of memory */
    struct bytes channel;           /* part of the tail */
    struct bytes tail;              /* ends after the channel if there is a blob */
    struct blob *blob;              /* the text, if it is long; or NULL */
    struct bytes forms[2];          /* of a push: what is sent to a client that speaks RESP2 and RESP3; empty: nothing */
    int worker;                     /* of a push */
    size_t target_count;
    struct push_target *targets;    /* of a push, ascending by client_id */
    int worker_count;
    struct publication *posted_next[];      /* for each worker: in its inbox. Under the hub's lock */
};

/* With one holder. Copies what is passed. */
struct publication *publication_create(int worker_count, enum topic_kind kind, struct bytes channel, struct bytes text);
/* To clients of that worker; `targets` in any order, each client once. The forms are complete: their first byte is '*' and '>'. */
struct publication *publication_create_push(int worker_count, int worker, const struct push_target *targets, size_t target_count,
    struct bytes resp2, struct bytes resp3);
void publication_hold(struct publication *publication);
/* True if it was the last holder: the publication is freed. */
bool publication_release(struct publication *publication);
/* The target of a push; NULL: the client is none. */
const struct push_target *publication_target(const struct publication *publication, uint64_t client_id);

#endif
