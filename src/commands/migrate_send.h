/* Migrate send: the job of MIGRATE. It sends keys to another server, a *round* of them at a time, and reads which of them that server has
 * accepted.
 *
 *   migration_create        on the worker
 *   per round, on the worker, with the partitions locked:   migration_add for some keys, until migration_is_full
 *   per round, on a thread: the job (call_start_job_in)     in the first round takes a connection of the cache, or connects, sends AUTH and SELECT and
 *                                                           reads their replies before it sends any key
 *   afterwards, on the worker:                              accepted, result and error
 *
 * A round ends with the key that makes it larger than ROUND_BYTES. A payload of more than 64 KiB is not copied after it was made.
 *
 * Owner: the call, while no job runs; else the job.
 */
#ifndef KELVIN_COMMANDS_MIGRATE_SEND_H
#define KELVIN_COMMANDS_MIGRATE_SEND_H

#include "base/buffer.h"
#include "base/text.h"
#include "replication/migrate_link.h"
#include "engine/job.h"
#include "value/value.h"

struct migration_options {
    struct bytes host, port, db;
    struct bytes user, password;    /* data NULL: none */
    bool copies, replaces;
    bool asks;                      /* between the nodes of a cluster: the slot is not the other one's yet */
    int64_t timeout_ms;
    struct migrate_cache *cache;    /* for the connection; NULL: none */
    bool has_tls;                   /* connections have it now: one without is not used again */
};

struct migration {
    struct job job;
    bool copies, replaces, asks;
    struct migrate_link link;
    struct migrate_cache *cache;
    struct buffer link_name;        /* in the cache: host, port, whether it has TLS, and preface */
    char *host, *port;
    bool link_is_old;               /* of the cache, and there was no reply yet */
    struct buffer preface;          /* AUTH and SELECT */
    int preface_count;              /* commands in it */
    int key_next;                   /* the call's next key to be looked at */
    /* Fields of this round. */
    struct buffer *pieces;          /* to be sent, in order; never without the last one, to which small things are appended */
    int piece_count;
    size_t round_size;
    int *sent;                      /* the keys in it */
    int sent_count;
    /* Fields of all rounds. */
    int found_count;                /* keys that were sent */
    bool *accepted;                 /* by key */
    bool refused;                   /* it replied an error to AUTH or SELECT */
    enum migrate_link_result result;
    char error[MIGRATE_LINK_LINE_MAX];      /* the first error that the other server replied, without "-"; or "" */
};

struct migration *migration_create(const struct migration_options *options, int key_count);
void migration_destroy(struct migration *migration);

/* Adds the call's `index`-th key to the round. `ttl_ms`: 0: it does not expire. */
void migration_add(struct migration *migration, int index, struct bytes key, const struct value *value, int64_t ttl_ms);
bool migration_is_full(const struct migration *migration);
/* Forgets the round that was sent. */
void migration_end_round(struct migration *migration);
/* Nothing more is to be sent: the connection has failed, or the other server refuses the client. */
bool migration_is_over(const struct migration *migration);

#endif
