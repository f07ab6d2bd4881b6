/* Loop: an event loop on a thread of its own, with the clients that were given to it.
 *
 * A turn: reads from the clients that have sent something, runs the requests, then once posts loads, brings the log up to date, and writes
 * all replies, one system call a client.
 */
#ifndef KELVIN_NET_LOOP_H
#define KELVIN_NET_LOOP_H

#include <stdatomic.h>
#include <uv.h>

#include "base/thread.h"
#include "engine/engine.h"
#include "engine/prefetch.h"
#include "net/gather.h"

struct connection;
struct tls;

enum { LOOP_READ_SIZE = 64 * 1024, LOOP_BATCH = 16, LOOP_BATCH_ARGS = 8 };

/* A request of a pipeline that was parsed ahead, so that memory can be prefetched. */
struct ahead {
    struct bytes args[LOOP_BATCH_ARGS];
    int arg_count;
    size_t begins;                  /* offset in the data */
    const struct request_hint *hint;        /* in loop->hints; NULL: there is none */
};

struct loop {
    uv_loop_t uv;
    struct engine *engine;
    struct worker worker;
    int bell_fd;                    /* an eventfd: libuv's own uv_async_t lets the loop spin while the thread that rang it is off the CPU */
    _Atomic bool bell_rung;         /* and not heard yet */
    uv_poll_t bell;
    uv_poll_t reads;                /* of the worker's ring; not open: it has none */
    bool has_reads;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t cron;
    uv_timer_t alarm;               /* the next deadline of a client that waits for a key */
    struct thread thread;
    bool in_turn;
    bool stopping;
    struct connection *dirty;       /* have output, or wait for the log */
    struct connection *backlog, *backlog_last;      /* have more to run or to read, one visit each and turn by turn */
    size_t backlog_count;
    struct connection *handshakes, *handshakes_last;        /* of TLS: have received something */
    struct connection *room, *room_last;            /* wait to be let in with a large request, in order */
    uv_idle_t visit;                /* runs while there is a backlog */
    uv_timer_t expire;              /* the next slice of the active expiry, while many keys expire */
    uv_timer_t pace;                /* lets clients go on that memory's pace held back */
    /* As of this turn's begin, by how many clients share the memory: */
    size_t read_size;               /* bytes that are read from a client at once */
    uint64_t output_max;            /* a client's next request waits while more of its output is pending */
    bool closes_large;              /* maxmemory-clients is given: it waits only for the log and for other clients' turns, and the largest
                                     * clients are closed */
    uint64_t stream_told;           /* LSN: other loops know that the stream has grown up to here */
    uint64_t turn_output;           /* bytes of replies that this turn has gathered, about */
    struct ahead ahead[LOOP_BATCH];
    struct request_hint hints[LOOP_BATCH];
    struct gather gather;
    int64_t next_client_check_us;   /* monotonic */
    void (*on_cron)(struct loop *loop, void *context);      /* main loop only; may be NULL */
    void *cron_context;
    struct tls *tls;                /* of the server; set before the loop runs */
    struct buffer tls_out;          /* lent to the connection that encrypts */
    char *tls_read_buffer;          /* LOOP_READ_SIZE; NULL: none was needed yet */
    int64_t tls_logged_us;          /* when a failed handshake was logged last, by the monotonic clock; 0: never ... */
    uint64_t tls_unlogged;          /* ... and how many were not since then */
    char read_buffer[LOOP_READ_SIZE];
};

struct loop *loop_create(struct engine *engine, int index);
void loop_destroy(struct loop *loop);       /* after it has run out */

void loop_run(struct loop *loop);           /* on the calling thread, until loop_stop */
int loop_start(struct loop *loop);          /* on a thread of its own. Returns 0, or the error number */
void loop_join(struct loop *loop);
void loop_stop(struct loop *loop);          /* any thread: closes its clients, runs out */
/* When all loops have run out, and while the engine is whole: frees what was posted to this one after it had closed its clients (lines for
 * its monitors, replies for clients that had waited, surveys, sockets just accepted) and clients that were still needed then. */
void loop_sweep(struct loop *loop);

/* A socket was accepted: its connection lives in this loop from now on. Any thread. */
struct accepted {
    int fd;
    uint64_t id;                            /* the client's: given in the order of arrival */
    bool is_unix, is_tls;
    bool is_denied;                         /* protected mode: gets an error and is closed */
};
void loop_accept(struct loop *loop, struct accepted accepted);

/* On the loop's own thread, all of these. */

/* Begins a turn if none is open. Its end comes by itself, or now: loads are posted, the log is brought up to date, replies are sent. */
void loop_enter_turn(struct loop *loop);
void loop_end_turn(struct loop *loop);

/* The connection is visited (connection_go_on) after the others have had their turn. Once, however often it is asked. */
void loop_queue(struct connection *connection);
void loop_unqueue(struct connection *connection);

/* The next step of its handshake is made when those of others that came before it are; a turn makes some, for about a millisecond. */
void loop_queue_handshake(struct connection *connection);
void loop_leave_handshakes(struct connection *connection);

/* The connection waits until there is room for a large request (connection_let_in), after others that do. */
void loop_wait_for_room(struct connection *connection);
void loop_leave_room(struct connection *connection);

/* Closes it because there is no memory: logged and counted. */
void loop_evict(struct connection *connection, const char *why);

#endif
