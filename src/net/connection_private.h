/* Connection, private: what its files share. All on its loop's thread. */
#ifndef KELVIN_NET_CONNECTION_PRIVATE_H
#define KELVIN_NET_CONNECTION_PRIVATE_H

#include "net/connection.h"

/* A client that does not read its replies, or does not send what it has announced, goes after this time if others wait for the memory. */
enum { CONNECTION_STALLED_MS = 10000 };

/* connection_input.c */
void connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);
void connection_on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer);
/* `got` bytes of plain text were read into `buffer`, which is from connection_on_alloc. */
void connection_received(struct connection *connection, size_t got, const uv_buf_t *buffer);
/* Runs the requests that were gathered for the connection (net/gather.h). The hint may be NULL. */
void connection_run_gathered(struct connection *connection, const char *data, size_t size, const struct request_hint *hint);
/* Nothing more comes: UV_EOF, or an error. It is closed, now or when it has its replies. */
void connection_input_ended(struct connection *connection, ssize_t error);
/* A turn that has become long, or has gathered much output, ends here; the next one begins with the next client. */
void connection_end_long_turn(struct loop *loop);
/* About once a second. */
void connection_check_input(struct connection *connection);
/* Gives memory back after the connection has been idle. */
void connection_trim_input(struct connection *connection);

/* connection_output.c */
void connection_check_output(struct connection *connection);        /* client-output-buffer-limit: may close it */
void connection_check_stalled(struct connection *connection);       /* about once a second; so is the next */
void connection_check_large(struct connection *connection);
void connection_trim_output(struct connection *connection);
/* Returns whether the connection's output waits for the log. */
bool connection_waits_for_log(const struct connection *connection);
enum { CONNECTION_PIECES_MAX = 64 };                                /* of one write */
/* The pieces of what `reply` has to send after its first `from` bytes. Returns their number. */
unsigned connection_collect(const struct reply *reply, uint64_t from, uv_buf_t pieces[CONNECTION_PIECES_MAX]);
void connection_count_output(struct connection *connection, size_t size);
void connection_writing_is_done(struct connection *connection);     /* all of `writing` was sent */
/* Before AUTH a client gets 16 KiB for a request, a little more for the words around it, and this for replies. */
enum {
    CONNECTION_READ_UNAUTHENTICATED = 4 * 1024,                     /* that is read at once */
    CONNECTION_OUTPUT_UNAUTHENTICATED = 1024,
};

/* Bytes of replies that are not sent yet. */
static inline uint64_t connection_output_pending(const struct connection *connection)
{
    return reply_size(&connection->client.reply) + connection->writing_size - connection->written;
}

/* When more are pending, its next request waits. */
static inline uint64_t connection_output_max(const struct connection *connection)
{
    return connection->client.authenticated ? connection->loop->output_max : CONNECTION_OUTPUT_UNAUTHENTICATED;
}

/* connection_tls.c: connections with connection->tls. */
void connection_tls_open(struct connection *connection, bool is_denied);
void connection_tls_release(struct connection *connection);         /* its memory */
void connection_tls_close(struct connection *connection);           /* close_notify, if it can be sent at once */
void connection_tls_reading_changed(struct connection *connection);
void connection_tls_go_on(struct connection *connection);           /* reads what was received and not decrypted yet */
void connection_tls_write(struct connection *connection);           /* encrypts and sends `writing`, in parts */
void connection_tls_check(struct connection *connection, int64_t now_us);       /* the time limit of handshakes: may close it */
size_t connection_tls_memory(const struct connection *connection);

/* connection.c */
void connection_refuse_protected(struct connection *connection);    /* the error of protected mode */
/* After anything that may have changed what it takes: closes clients, perhaps this one, when all of them together take too
 * much (engine/client_memory.h). */
void connection_count_memory(struct connection *connection);
void connection_free_if_done(struct connection *connection);

#endif
