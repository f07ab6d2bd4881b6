/* A connection with TLS: what libuv reads is decrypted and then handled like plain text, and replies are encrypted before they are sent.
 *
 * Ciphertext is decrypted as long as the connection reads (connection->reading). What is left then is kept, and libuv reads no more; the
 * next visit begins with it, because no event would come for it.
 *
 * Replies are encrypted in parts, the next one when the socket has taken the one before: so a slow reader costs one part, and only what
 * the log covers is encrypted, for connection_flush has decided that. Handshakes are steps in a queue of the loop (loop_queue_handshake).
 */
#include "net/connection_private.h"

#include <stdio.h>

#include "base/mem.h"
#include "net/tls.h"
#include "tls/tls_stream.h"

enum {
    PARTS_AT_ONCE = 16,             /* parts of a reply that are written before the others have their turn */
    OUT_MAX = 64 * 1024,            /* ciphertext that reading has produced (key updates) before reading waits until it is sent */
    HANDSHAKE_US_MAX = 10000000,
    LOG_US = 1000000,               /* failed handshakes are logged once in this time */
};

struct connection_tls {
    struct tls_stream *stream;      /* NULL until bytes have come: a connection that sends none has no memory of OpenSSL's */
    struct buffer sending;          /* ciphertext that libuv writes */
    bool shaking;                   /* the handshake is not over */
    bool receiving;                 /* libuv reads */
    bool is_denied;                 /* protected mode: gets its error after the handshake */
};

static void on_written(uv_write_t *write, int status);

static void release_output(struct connection *connection)
{
    struct buffer *out = tls_stream_output(connection->tls->stream), *spare = &connection->loop->tls_out;

    out->size = 0;
    if (spare->capacity == 0) {
        *spare = *out;
        buffer_init(out);
    } else {
        buffer_release(out);
    }
}

/* Returns what the socket takes at once; -1: it was closed. */
static ssize_t try_write(struct connection *connection, struct bytes cipher)
{
    uv_buf_t piece = uv_buf_init((char *)cipher.data, (unsigned)cipher.size);
    int sent = uv_try_write(&connection->uv.stream, &piece, 1);

    if (sent >= 0)
        return sent;
    if (sent == UV_EAGAIN)
        return 0;
    connection_close(connection);
    return -1;
}

/* Hands all output to the kernel. False: libuv is still writing, and on_written goes on; or it was closed. */
static bool transmit(struct connection *connection, bool at_once)
{
    struct connection_tls *tls = connection->tls;
    struct bytes left = buffer_bytes(tls_stream_output(tls->stream));
    ssize_t sent = 0;
    uv_buf_t piece;

    if (left.size == 0)
        return true;
    if (connection->write_busy || connection->closing)
        return false;
    if (at_once)
        sent = try_write(connection, left);
    if (sent < 0)
        return false;
    left = bytes_of(left.data + sent, left.size - (size_t)sent);
    if (left.size > 0) {
        buffer_reserve_exact(&tls->sending, left.size);
        buffer_append_bytes(&tls->sending, left);
    }
    release_output(connection);
    if (tls->sending.size == 0)
        return true;
    piece = uv_buf_init(tls->sending.data, (unsigned)tls->sending.size);
    connection->write.data = connection;
    connection->write_busy = true;
    if (uv_write(&connection->write, &connection->uv.stream, &piece, 1, on_written) != 0)
        connection_close(connection);
    return false;
}

/* Encrypts the next part of `writing`. False: it could not. */
static bool encrypt_part(struct connection *connection)
{
    struct tls_stream *stream = connection->tls->stream;
    struct buffer *out = tls_stream_output(stream);
    uv_buf_t pieces[CONNECTION_PIECES_MAX];
    unsigned count = connection_collect(&connection->writing, connection->written, pieces);
    size_t most = connection->loop->read_size;

    if (out->capacity == 0) {
        *out = connection->loop->tls_out;
        buffer_init(&connection->loop->tls_out);
    }
    connection->write_part = 0;
    for (unsigned i = 0; i < count && connection->write_part < most; i++) {
        size_t room = most - (size_t)connection->write_part, size = pieces[i].len < room ? pieces[i].len : room;

        if (tls_stream_write(stream, bytes_of(pieces[i].base, size)) != TLS_DONE)
            return false;
        connection->write_part += size;
    }
    connection_count_output(connection, (size_t)connection->write_part);
    return true;
}

void connection_tls_write(struct connection *connection)
{
    for (int parts = 0; connection->written < connection->writing_size; parts++) {
        if (!encrypt_part(connection)) {
            connection_close(connection);
            return;
        }
        if (!transmit(connection, parts < PARTS_AT_ONCE))
            return;
        connection->written += connection->write_part;
        connection->write_part = 0;
    }
    connection_writing_is_done(connection);
}

static void synchronize(struct connection *connection);

static void on_written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;

    connection->write_busy = false;
    if (connection->closing)
        return;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    buffer_release(&connection->tls->sending);
    connection->written += connection->write_part;
    connection->write_part = 0;
    loop_enter_turn(connection->loop);
    if (connection->writing_size > 0)
        connection_tls_write(connection);
    else
        transmit(connection, true);
    if (connection->closing)
        return;
    if (!connection->write_busy)
        connection_mark_dirty(connection);
    synchronize(connection);
}

static void log_failure(struct connection *connection, const char *reason)
{
    struct loop *loop = connection->loop;
    int64_t now_us = loop->worker.turn.now_us;
    char more[64] = "";

    if (loop->tls_logged_us != 0 && now_us - loop->tls_logged_us < LOG_US) {
        loop->tls_unlogged++;
        return;
    }
    if (loop->tls_unlogged > 0)
        snprintf(more, sizeof(more), "; %llu more before it", (unsigned long long)loop->tls_unlogged);
    log_write(loop->engine->log, LOG_LEVEL_WARNING, "Error accepting a client connection: %s (addr=%s laddr=%s%s)", reason,
        connection->client.address, connection->client.local_address, more);
    loop->tls_logged_us = now_us;
    loop->tls_unlogged = 0;
}

/* Tells the peer why, if its alert can be sent at once. */
static void fail_handshake(struct connection *connection)
{
    struct message reason;

    tls_stream_error(connection->tls->stream, &reason);
    if (connection->tls->shaking)
        log_failure(connection, reason.text);
    else
        log_write(connection->loop->engine->log, LOG_LEVEL_VERBOSE, "Reading from client: %s", reason.text);
    transmit(connection, true);
    connection_close(connection);
}

/* Decrypts and runs, as long as the connection reads and there is something to decrypt. */
static void pump(struct connection *connection)
{
    struct tls_stream *stream = connection->tls->stream;

    while (connection->reading && !connection->closing && tls_stream_has_input(stream) && tls_stream_output(stream)->size <= OUT_MAX) {
        enum tls_result result;
        uv_buf_t buffer;
        size_t got;

        connection_on_alloc(&connection->uv.handle, 0, &buffer);
        result = tls_stream_read(stream, buffer.base, buffer.len, &got);
        if (got > 0)
            connection_received(connection, got, &buffer);
        if (connection->closing)
            return;
        if (result == TLS_ENDED)
            connection_input_ended(connection, UV_EOF);
        else if (result == TLS_FAILED)
            fail_handshake(connection);
    }
    if (connection->closing)
        return;
    tls_stream_keep(stream);
    transmit(connection, true);
    if (!connection->closing)
        connection_count_memory(connection);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;
    struct loop *loop = connection->loop;

    (void)suggested;
    if (loop->tls_read_buffer == NULL)
        loop->tls_read_buffer = mem_alloc(LOOP_READ_SIZE);
    *buffer = uv_buf_init(loop->tls_read_buffer, (unsigned)(connection->client.authenticated ? loop->read_size : CONNECTION_READ_UNAUTHENTICATED));
}

/* False: it was closed, because TLS is off by now or there is no memory. */
static bool make_stream(struct connection *connection)
{
    struct connection_tls *tls = connection->tls;
    struct tls_context *context = tls_hold_context(connection->loop->tls);

    if (context != NULL)
        tls->stream = tls_stream_accept(context);
    tls_context_drop(context);
    if (tls->stream == NULL)
        connection_close(connection);
    return tls->stream != NULL;
}

static void receive_for_handshake(struct connection *connection, struct bytes cipher)
{
    struct connection_tls *tls = connection->tls;

    if (tls->stream == NULL && !make_stream(connection))
        return;
    tls_stream_feed(tls->stream, cipher);
    tls_stream_keep(tls->stream);
    loop_queue_handshake(connection);
    synchronize(connection);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    struct connection_tls *tls = connection->tls;

    if (got == 0 || connection->closing)
        return;
    loop_enter_turn(connection->loop);
    if (got < 0) {
        if (tls->shaking)
            log_failure(connection, got == UV_EOF ? "the client has closed the connection during the handshake" : uv_strerror((int)got));
        connection_input_ended(connection, got);
        return;
    }
    if (tls->shaking) {
        receive_for_handshake(connection, bytes_of(buffer->base, (size_t)got));
        connection->loop->worker.clock.call_ns = 0;
        connection_end_long_turn(connection->loop);
        return;
    }
    tls_stream_feed(tls->stream, bytes_of(buffer->base, (size_t)got));
    pump(connection);
    if (connection->closing)
        return;
    /* libuv would read on as long as there is something: others first. */
    if (connection->reading && (size_t)got == buffer->len) {
        connection->reading = false;
        loop_queue(connection);
    }
    synchronize(connection);
}

/* Lets libuv read, or not. */
static void synchronize(struct connection *connection)
{
    struct connection_tls *tls = connection->tls;
    bool wanted = connection->reading && !connection->closing;

    if (tls->stream != NULL && (tls_stream_has_input(tls->stream) || tls_stream_output(tls->stream)->size > OUT_MAX))
        wanted = false;
    if (tls->receiving == wanted || connection->closing)
        return;
    tls->receiving = wanted;
    if (wanted)
        uv_read_start(&connection->uv.stream, on_alloc, on_read);
    else
        uv_read_stop(&connection->uv.stream);
}

void connection_tls_reading_changed(struct connection *connection)
{
    struct connection_tls *tls = connection->tls;

    if (connection->reading && !tls->shaking && tls_stream_has_input(tls->stream))
        loop_queue(connection);
    synchronize(connection);
}

void connection_tls_go_on(struct connection *connection)
{
    if (connection->tls->shaking)
        return;
    pump(connection);
    if (!connection->closing)
        synchronize(connection);
}

static void end_handshake(struct connection *connection)
{
    connection->tls->shaking = false;
    turn_count(&connection->loop->worker.turn, STAT_CONNECTIONS, 1);
    if (connection->tls->is_denied) {
        connection_refuse_protected(connection);
        connection_mark_dirty(connection);
    }
    pump(connection);
}

void connection_shake_hands(struct connection *connection)
{
    enum tls_result result;

    if (connection->closing)
        return;
    loop_enter_turn(connection->loop);
    result = tls_stream_handshake(connection->tls->stream);
    if (result == TLS_DONE)
        end_handshake(connection);
    else if (result == TLS_NEEDS_INPUT)
        transmit(connection, true);
    else
        fail_handshake(connection);
    if (!connection->closing)
        synchronize(connection);
}

void connection_tls_check(struct connection *connection, int64_t now_us)
{
    if (!connection->tls->shaking || now_us - connection->client.created_us <= HANDSHAKE_US_MAX)
        return;
    log_failure(connection, "the handshake has taken too long");
    connection_close(connection);
}

size_t connection_tls_memory(const struct connection *connection)
{
    const struct connection_tls *tls = connection->tls;

    return tls->sending.capacity + (tls->stream != NULL ? tls_stream_memory(tls->stream) : 0);
}

void connection_tls_open(struct connection *connection, bool is_denied)
{
    connection->tls = mem_zalloc(sizeof(*connection->tls));
    connection->tls->shaking = true;
    connection->tls->is_denied = is_denied;
    connection->reading = true;
    synchronize(connection);
}

void connection_tls_close(struct connection *connection)
{
    struct connection_tls *tls = connection->tls;
    struct buffer *out;
    uv_buf_t piece;

    if (tls->shaking || connection->write_busy)
        return;
    tls_stream_end(tls->stream);
    out = tls_stream_output(tls->stream);
    piece = uv_buf_init(out->data, (unsigned)out->size);
    if (out->size > 0)
        uv_try_write(&connection->uv.stream, &piece, 1);
}

void connection_tls_release(struct connection *connection)
{
    if (connection->tls == NULL)
        return;
    tls_stream_destroy(connection->tls->stream);
    buffer_release(&connection->tls->sending);
    mem_free(connection->tls);
}
