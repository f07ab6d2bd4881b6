/* Connection: a client's socket, requests that were not run yet, and replies that were not sent yet.
 *
 * Owner: its loop's thread.
 */
#ifndef KELVIN_NET_CONNECTION_H
#define KELVIN_NET_CONNECTION_H

#include "net/loop.h"
#include "resp/request.h"

/* Whose memory the next bytes are read into. */
enum reads_into { READS_INTO_LOOP, READS_INTO_QUERY, READS_INTO_LARGE };

struct connection {
    struct client client;           /* first: a client of this room is a connection */
    struct loop *loop;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    struct connection_tls *tls;     /* NULL: it sends and receives plain text */
    struct request_parser parser;
    struct buffer query;            /* received, not run: begins with the current request at `query_at` */
    size_t query_at;
    enum reads_into reads_into;     /* from connection_on_alloc until the bytes have come */
    struct reply writing;           /* handed to the kernel: `writing_size` bytes, `written` of them are gone */
    uint64_t writing_size, written, write_part;
    size_t queue_size;              /* not written yet, when it was looked at last */
    int64_t progress_ms;            /* when it had become less since then */
    uint64_t large_input;           /* client.totals.input when the large argument began that it sends, or when it had last sent enough of it ... */
    int64_t large_ms;               /* ... and when that was */
    uv_write_t write;
    bool write_busy;
    bool reading;                   /* libuv reads from it */
    bool output_full;               /* its next request waits until replies have been sent */
    bool has_ended;                 /* the client has sent its last byte: closed when all before is replied */
    bool queued;                    /* in loop->backlog */
    bool waits_for_room;            /* in loop->room, in the middle of a request */
    bool reads_much;                /* its last read has brought QUERY_KEEP bytes or more */
    bool waits_for_handshake;       /* in loop->handshakes */
    struct connection *prev_queued, *next_queued;   /* in one of the three */
    bool gathered;                  /* in loop->gather */
    bool in_dirty;
    struct connection *next_dirty;
    bool closing;
    bool handle_closed;             /* libuv is done with it */
    bool removed;                   /* there are no other references */
    int64_t over_soft_limit_us;     /* since when, by the monotonic clock; 0: not */
};

/* Takes the descriptor over; closes it on failure. */
void connection_open(struct loop *loop, struct accepted accepted);
void connection_close(struct connection *connection);

/* Runs what has been received, as far as it goes; also a request that was parked. */
void connection_process(struct connection *connection);
/* Lets in a connection that waits in loop->room. True: the connection goes on. */
bool connection_let_in(struct connection *connection);
/* Makes the next step of the handshake when the connection's turn in loop->handshakes has come: up to a few milliseconds. */
void connection_shake_hands(struct connection *connection);
/* Reads and runs on when the connection's turn in loop->backlog has come. */
void connection_go_on(struct connection *connection);
/* Sends what may be sent: the log covers `covered`. While the log can't be written, only clients wait that changed something themselves:
 * reading goes on. True if there is nothing left to wait for. */
bool connection_flush(struct connection *connection, uint64_t covered, bool log_failing);
/* Timeouts and limits, about once a second. */
void connection_check(struct connection *connection, int64_t now_us);
void connection_mark_dirty(struct connection *connection);
void connection_discard(struct client *client);

#endif
