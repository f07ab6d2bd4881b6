/* Shared by the files of the link: its state, and the waiting that can be interrupted. Functions that can fail return false; then link_fail
 * has been called, or the link is to be stopped or restarted, and the try is over. */
#ifndef KELVIN_REPLICATION_LINK_PRIVATE_H
#define KELVIN_REPLICATION_LINK_PRIVATE_H

#include <stdatomic.h>

#include "base/message.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "replication/link.h"
#include "replication/link_input.h"
#include "replication/wire.h"

enum { LINK_READ_SIZE = 64 * 1024 };

/* link_options, owned. Immutable. */
struct link_settings {
    char *host, *source_address, *user, *password, *announce_ip, *dir, *image_offer, *image_dir;
    uint16_t port, listening_port;
    bool with_tls;
    struct tls_context *tls;
    const struct disk *disk;
};

struct link {
    struct link_host host;          /* immutable */
    struct thread thread;
    int bell;                       /* an eventfd: a flag below or timeout_ms has changed */
    _Atomic bool stop, reconnect, ack_now;
    _Atomic int64_t timeout_ms;
    struct mutex lock;              /* leaf */
    struct link_settings *next;     /* lock; for the next try, NULL: the same */

    /* The link's thread only. */
    struct link_settings *settings;
    const char *step;               /* a literal: what is being done, for `reason` */
    enum link_failure failure;      /* of this try, if `reason` is not empty */
    struct message reason;
    struct wire wire;
    struct link_input input;
    struct bytes unread;            /* of `in`: not parsed yet */
    int64_t active_us;              /* when the primary last sent something */
    int64_t ack_us;                 /* when the next ACK is due; INT64_MAX: there are none in this phase */
    int64_t gathered_us;            /* when the last pause ended, or was not needed */
    bool has_read;                  /* since then */
    int64_t asked_us;               /* when the host asked for an ACK */
    int rdb_fd;                     /* -1: none */
    struct archive_receiver *image; /* an image is received in its place; NULL: none */
    uint64_t rdb_received;
    int64_t rdb_total;
    int64_t rdb_reported_us;
    char in[LINK_READ_SIZE];
};

enum link_wait { LINK_WAIT_READY, LINK_WAIT_TICK, LINK_WAIT_BROKEN };

/* link_wait.c */

/* The try failed at its present step. Returns false. Only the first failure of a try counts. */
bool link_fail(struct link *link, enum link_failure failure, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for the connection, as `result` says. */
bool link_fail_wire(struct link *link, enum wire_result result);
/* Stop or reconnect was asked for. */
bool link_is_interrupted(const struct link *link);
/* Waits for `left_us` at most, until poll reports one of `events` of `fd` (-1: none) or the bell rings. True: `fd` is ready. */
bool link_poll(const struct link *link, int fd, short events, int64_t left_us);
/* Waits until poll reports one of `events` of `fd`. Tick: it is `tick_us`, or an ACK was asked for. Broken: interrupted, or `since_us` is longer
 * ago than the timeout. */
enum link_wait link_wait(struct link *link, int fd, short events, int64_t since_us, int64_t tick_us);
/* Sends output, and reads into `in` if all of it has been parsed. Ready: there are bytes to parse. */
enum link_wait link_fill(struct link *link, int64_t since_us, int64_t tick_us);
void link_set_state(struct link *link, enum link_state state);

/* link_connect.c: a connected wire, after the TLS handshake if there is TLS. */
bool link_connect(struct link *link);
/* link_handshake.c: up to the reply to PSYNC; then the input expects an RDB or the stream, and the host was notified. */
bool link_shake_hands(struct link *link);
/* link_receive.c: RDB and stream, until the connection breaks. */
void link_receive(struct link *link);

#endif
