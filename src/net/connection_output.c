/* Output of a connection: replies of a turn leave in one write, with long strings straight from where they are kept. */
#include "net/connection_private.h"

#include "base/compiler.h"
#include "engine/memory.h"
#include "engine/monitor.h"
#include "replication/primary.h"

enum {
    OUT_KEEP = 16 * 1024,           /* room a connection keeps when nothing is pending */
    FED_PIECES = 4,                 /* of the stream to a replica, in one turn */
    CHECKED_FIRST = 64 * 1024,      /* bytes of replies that are compared with the limits before they are sent */
};

void connection_count_output(struct connection *connection, size_t size)
{
    connection->client.totals.output += size;
    /* A client that takes long to read a reply is not idle meanwhile. */
    connection->client.active_us = connection->loop->worker.turn.now_us;
    turn_count(&connection->loop->worker.turn, connection->client.flags & CLIENT_REPLICA ? STAT_REPLICA_OUTPUT : STAT_NET_OUTPUT, size);
    turn_count(&connection->loop->worker.turn, STAT_WRITES_PROCESSED, 1);
}

void connection_check_output(struct connection *connection)
{
    const struct config *config = connection->loop->engine->config;
    struct client *client = &connection->client;
    enum config_client_class class = client->flags & CLIENT_SUBSCRIBED ? CONFIG_CLIENT_PUBSUB : CONFIG_CLIENT_NORMAL;
    uint64_t size = connection_output_pending(connection);
    uint64_t hard = (uint64_t)config_output_limit(config, class, CONFIG_OUTPUT_HARD);
    uint64_t soft = (uint64_t)config_output_limit(config, class, CONFIG_OUTPUT_SOFT);
    int64_t soft_ms = config_output_limit(config, class, CONFIG_OUTPUT_SOFT_SECONDS) * 1000;
    int64_t now_us = connection->loop->worker.turn.now_us;
    bool over = (hard > 0 && size > hard) || (client->flags & CLIENT_MONITOR && size > MONITOR_OUTPUT_MAX);

    if (soft > 0 && size > soft) {
        if (connection->over_soft_limit_us == 0)
            connection->over_soft_limit_us = now_us;
        over = over || (now_us - connection->over_soft_limit_us) / 1000 > soft_ms;
    } else {
        connection->over_soft_limit_us = 0;
    }
    if (!over || connection->closing)
        return;
    log_write(connection->loop->engine->log, LOG_LEVEL_WARNING,
        "Client id=%llu addr=%s scheduled to be closed ASAP for overcoming of output buffer limits.", (unsigned long long)client->id,
        client->address);
    turn_count(&connection->loop->worker.turn, STAT_OUTPUT_BUFFER_LIMIT, 1);
    connection_close(connection);
}

unsigned connection_collect(const struct reply *reply, uint64_t from, uv_buf_t pieces[CONNECTION_PIECES_MAX])
{
    unsigned count = 0;
    size_t at = 0;

    for (size_t i = 0; i <= reply->share_count; i++) {
        struct bytes parts[2] = { bytes_of(NULL, 0), bytes_of(NULL, 0) };
        size_t end = i < reply->share_count ? reply->shares[i].offset : reply->out.size;

        if (end > at)
            parts[0] = bytes_of(reply->out.data + at, end - at);
        if (i < reply->share_count)
            parts[1] = buffer_bytes(&reply->shares[i].blob->buffer);
        at = end;
        for (int n = 0; n < 2; n++) {
            if (parts[n].size <= from) {
                from -= parts[n].size;
                continue;
            }
            if (count == CONNECTION_PIECES_MAX)
                return count;
            pieces[count++] = (uv_buf_t){ .base = (char *)parts[n].data + from, .len = parts[n].size - from };
            from = 0;
        }
    }
    return count;
}

static uint64_t size_of(const uv_buf_t *pieces, unsigned count)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < count; i++)
        size += pieces[i].len;
    return size;
}

/* Strings that replies have held are free: clients that wait for that try again. */
static void tell_waiting(struct engine *engine)
{
    if (engine->memory.reply_wanted_ms == 0 || memory_replies_are_full(engine))
        return;
    parking_notify(engine, PARKED_FOR_REPLIES);
}

void connection_writing_is_done(struct connection *connection)
{
    bool held = connection->writing.share_count > 0;

    reply_truncate(&connection->writing, 0);
    buffer_shrink(&connection->writing.out, OUT_KEEP);
    connection->writing_size = connection->written = 0;
    if (held)
        tell_waiting(connection->loop->engine);
}

static void on_written(uv_write_t *write, int status);

/* Gives the kernel what is left of `writing`, or a part of it. */
static void write_rest(struct connection *connection)
{
    uv_buf_t pieces[CONNECTION_PIECES_MAX];
    unsigned count = connection_collect(&connection->writing, connection->written, pieces);

    connection->write.data = connection;
    connection->write_busy = true;
    connection->write_part = size_of(pieces, count);
    connection_count_output(connection, connection->write_part);
    if (uv_write(&connection->write, &connection->uv.stream, pieces, count, on_written) != 0)
        connection_close(connection);
}

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
    connection->written += connection->write_part;
    if (connection->written < connection->writing_size) {
        write_rest(connection);
        return;
    }
    connection_writing_is_done(connection);
    loop_enter_turn(connection->loop);
    connection_mark_dirty(connection);
}

/* Takes the replies so far for writing; `written` bytes of them already were. */
static void take_replies(struct connection *connection, uint64_t written)
{
    struct reply *reply = &connection->client.reply, spare = connection->writing;
    uint64_t size = reply_size(reply);

    connection->writing = *reply;
    spare.protocol = reply->protocol;
    spare.may_share = reply->may_share;
    spare.held = reply->held;
    *reply = spare;
    connection->writing_size = size;
    connection->written = written;
}

/* Sends what the socket takes at once; the rest is written when it takes more. */
static void send_replies(struct connection *connection)
{
    struct reply *reply = &connection->client.reply;
    uint64_t size = reply_size(reply);
    uv_buf_t pieces[CONNECTION_PIECES_MAX];
    int sent;

    if (connection->tls != NULL) {
        take_replies(connection, 0);
        connection_tls_write(connection);
        return;
    }
    sent = uv_try_write(&connection->uv.stream, pieces, connection_collect(reply, 0, pieces));
    if (sent < 0 && sent != UV_EAGAIN) {
        connection_close(connection);
        return;
    }
    if (sent > 0)
        connection_count_output(connection, (size_t)sent);
    if (sent >= 0 && (uint64_t)sent == size) {
        bool held = reply->share_count > 0;

        reply_truncate(reply, 0);
        if (held)
            tell_waiting(connection->loop->engine);
        buffer_shrink(&reply->out, OUT_KEEP);
        return;
    }
    take_replies(connection, sent > 0 ? (uint64_t)sent : 0);
    write_rest(connection);
}

/* While the log is in error clients read on, but get no message about what may be lost. */
static uint64_t lsn_to_wait_for(const struct client *client, bool log_failing)
{
    if (!log_failing)
        return client->lsn.needed;
    return client->lsn.written > client->lsn.delivered ? client->lsn.written : client->lsn.delivered;
}

bool connection_waits_for_log(const struct connection *connection)
{
    return connection->client.lsn.needed > worker_covered(&connection->loop->worker);
}

/* Requests that waited because of its output. */
static bool may_go_on(const struct connection *connection)
{
    if (!connection->output_full)
        return false;
    return connection_output_pending(connection) <= connection_output_max(connection) / 2 ||
           (connection->loop->closes_large && connection->client.authenticated && !connection_waits_for_log(connection));
}

/* The next pieces of what a replica is sent, as long as its socket takes them at once. */
static void feed(struct connection *connection, uint64_t covered)
{
    struct client *client = &connection->client;

    if (!primary_attend(client)) {
        connection_close(connection);       /* also if its socket takes no more */
        return;
    }
    for (int i = 0; i < FED_PIECES; i++) {
        if (connection->closing || connection->write_busy || client->reply.out.size > 0)
            return;
        switch (primary_fill(client, covered)) {
        case REPLICA_FILL_NOTHING:
            return;
        case REPLICA_FILL_CLOSE:
            connection_close(connection);
            return;
        case REPLICA_FILL_SOME:
            if (client->reply.out.size > 0)
                send_replies(connection);
            break;
        }
    }
    loop_queue(connection);         /* the rest after others have had their turn */
}

bool connection_flush(struct connection *connection, uint64_t covered, bool log_failing)
{
    struct client *client = &connection->client;

    if (connection->closing) {
        connection_free_if_done(connection);
        return true;
    }
    if (client->reply.out.size > client->buffers.reply_peak)
        client->buffers.reply_peak = client->reply.out.size;
    if (client->reply.out.size > 0 && lsn_to_wait_for(client, log_failing) > covered) {
        connection_count_memory(connection);
        return connection->closing;
    }
    /* A single reply may be above the limit; what the kernel would take of it counts, as in Redis. */
    if (UNLIKELY(client->reply.share_count > 0 || client->reply.out.size > CHECKED_FIRST))
        connection_check_output(connection);
    if (client->reply.out.size > 0 && !connection->write_busy && !connection->closing)
        send_replies(connection);   /* else on_written comes back to it */
    if (UNLIKELY(client->flags & CLIENT_REPLICA) && !connection->closing)
        feed(connection, covered);
    if (connection->closing)
        return true;
    /* First: another client need not be closed for the memory of this one. */
    if (connection->write_busy || connection->over_soft_limit_us != 0)
        connection_check_output(connection);
    connection_count_memory(connection);
    if (connection->closing)
        return true;
    if (client->flags & CLIENT_CLOSE_AFTER_REPLY && !connection->write_busy)
        connection_close(connection);
    else if (may_go_on(connection))
        loop_queue(connection);     /* the client reads: it may ask for more */
    return true;
}

/* Closes a client that holds long strings and has not read for a while, while others wait for the memory: what these have found may be more than
 * there is room for beside it, though it alone is not too much. */
void connection_check_stalled(struct connection *connection)
{
    struct engine *engine = connection->loop->engine;
    int64_t now_ms = connection->loop->worker.turn.now_us / 1000;
    size_t left = uv_stream_get_write_queue_size(&connection->uv.stream) + (size_t)(connection->writing_size - connection->written);

    if (!connection->write_busy || left != connection->queue_size || connection->writing.share_count + connection->client.reply.share_count == 0) {
        connection->queue_size = left;
        connection->progress_ms = now_ms;
        return;
    }
    if (now_ms - connection->progress_ms < CONNECTION_STALLED_MS || engine->memory.reply_waiters <= (connection->client.parking.queue == PARKED_FOR_REPLIES) ||
        connection->client.flags & CLIENT_NO_EVICT)
        return;
    loop_evict(connection, "does not read its replies, and others wait for the memory that they hold");
}

void connection_trim_output(struct connection *connection)
{
    connection->client.buffers.reply_peak = 0;
    if (connection->client.reply.out.size == 0)
        buffer_release(&connection->client.reply.out);
    if (!connection->write_busy)
        buffer_release(&connection->writing.out);
}
