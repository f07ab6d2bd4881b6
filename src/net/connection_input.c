/* Input of a connection: requests are read, parsed, run, and kept as long as they have to wait.
 *
 * A connection is in one of these states, by what its next request waits for:
 *
 *   nothing          read on; a visit runs a bounded number of requests, and the rest has its turn after the other clients (loop->backlog)
 *   memory, a key    (parked) read on until a small buffer is full, then not any more: the client's own writes block
 *   its own output   (more than loop->output_max is pending) read on, not run, so that a client that writes a whole pipeline before
 *                    it reads a reply does not block for ever; within the memory that all clients may take.
 *                    Before AUTH it is not read on
 */
#include "net/connection_private.h"

#include <poll.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "engine/engine.h"
#include "engine/memory.h"

enum {
    INLINE_MAX = 64 * 1024,
    QUERY_KEEP = 16 * 1024,         /* room a connection keeps when it is idle */
    UNAUTHENTICATED_MAX = 16 * 1024,            /* of a request before AUTH, and of the buffer for it */
    SMALL_BEGINNING = 1024,
    BIG_READ = 256 * 1024,          /* most that is read at once into a connection's own buffer */
    VISIT_REQUESTS = 1024,          /* and bytes: what one client may run before the others have their turn */
    VISIT_BYTES = 1024 * 1024,
    TURN_US_MAX = 2000,             /* replies of a turn that has lasted longer are sent before the next client is looked at */
    TURN_OUTPUT_MAX = 4 * 1024 * 1024,
    LARGE_INPUT_MIN = 1024 * 1024,  /* of a large argument, in CONNECTION_STALLED_MS */
};

static struct request_limits request_limits(const struct connection *connection)
{
    return (struct request_limits){
        .bulk_size_max = config_number(connection->loop->engine->config, CONFIG_PROTO_MAX_BULK_LEN),
        .arg_count_max = INT32_MAX,
        .inline_size_max = INLINE_MAX,
        .authenticated = connection->client.authenticated,
    };
}

static void protocol_error(struct connection *connection)
{
    struct buffer text = { 0 };

    buffer_append_format(&text, "ERR %s", connection->parser.error);
    reply_error_text(&connection->client.reply, buffer_bytes(&text));
    buffer_release(&text);
    connection->client.flags |= CLIENT_CLOSE_AFTER_REPLY;
}

static void prefetch(struct connection *connection, int count)
{
    struct loop *loop = connection->loop;
    int hinted = 0;

    for (int i = 0; i < count; i++) {
        struct ahead *ahead = &loop->ahead[i];

        if (ahead->arg_count < 2 || ahead->arg_count > LOOP_BATCH_ARGS)
            continue;
        loop->hints[hinted] = (struct request_hint){ .key = ahead->args[1], .db = connection->client.db };
        ahead->hint = &loop->hints[hinted++];
    }
    prefetch_requests(loop->engine, loop->hints, hinted);
}

/* The request was hashed before it was parsed; if it was the same bytes. */
static void take_hint(struct ahead *ahead, const struct request_hint *hint)
{
    if (ahead->arg_count >= 2 && ahead->arg_count <= LOOP_BATCH_ARGS && ahead->args[1].data == hint->key.data &&
        ahead->args[1].size == hint->key.size)
        ahead->hint = hint;
}

/* Parses requests ahead, at most `capacity`; prefetches for them when there are several. Returns their number; *size is where the last
 * one ends. A long one ends the batch, for its arguments stay in the parser. */
static int parse_ahead(struct connection *connection, const char *data, size_t size, const struct request_hint *hint, size_t *at, bool *more)
{
    struct loop *loop = connection->loop;
    struct request_limits limits = request_limits(connection);
    int capacity = limits.authenticated ? LOOP_BATCH : 1, count = 0;

    *more = true;
    while (count < capacity && *at < size) {
        struct ahead *ahead = &loop->ahead[count];
        size_t consumed = 0, wanted = 0;
        enum request_result result = request_parse(&connection->parser, &limits, data + *at, size - *at, &consumed, &wanted);

        if (result == REQUEST_MORE) {
            *more = false;
            break;
        }
        if (result == REQUEST_ERROR) {
            *more = false;
            ahead->arg_count = -1;
            ahead->begins = *at;
            *at = size;
            return count + 1;
        }
        ahead->begins = *at;
        ahead->hint = NULL;
        ahead->arg_count = connection->parser.arg_count;
        *at += consumed;
        if (ahead->arg_count == 0)
            continue;
        count++;
        if (ahead->arg_count > LOOP_BATCH_ARGS)
            break;
        memcpy(ahead->args, connection->parser.args, (size_t)ahead->arg_count * sizeof(struct bytes));
        if (connection->parser.inline_text.size > 0 || connection->parser.large_count > 0)
            break;                  /* the next call would overwrite its arguments */
    }
    if (*at >= size)
        *more = false;
    if (count > 1)
        prefetch(connection, count);
    else if (hint != NULL && count == 1)
        take_hint(&loop->ahead[0], hint);
    return count;
}

/* Why running stopped. */
enum run_end {
    RUN_NEEDS_MORE,     /* all complete requests have run */
    RUN_WAITS,          /* the next one is parked */
    RUN_OUTPUT_FULL,    /* the next one waits until the client has read replies */
    RUN_VISIT_OVER,     /* others have their turn first */
    RUN_CLOSING,
};

/* More than a step of output is pending: a client that does not read waits, or only for its next turn, so that its memory is counted. */
static enum run_end pause_for_output(const struct connection *connection, uint64_t pending_before, uint64_t output_max)
{
    const struct loop *loop = connection->loop;
    uint64_t pending = connection_output_pending(connection);

    if (LIKELY(pending <= output_max))
        return RUN_NEEDS_MORE;
    if (!loop->closes_large || connection_waits_for_log(connection) || !connection->client.authenticated)
        return RUN_OUTPUT_FULL;
    return pending - pending_before > output_max ? RUN_VISIT_OVER : RUN_NEEDS_MORE;
}

/* Counts the memory that the last request has left besides replies, before the next one runs. */
static void count_state(struct connection *connection)
{
    const struct client *client = &connection->client;

    if (UNLIKELY(connection->loop->closes_large) && (client->transaction != NULL || client->listener != NULL || client->tracker != NULL))
        connection_count_memory(connection);
}

static bool is_leaving(const struct connection *connection)
{
    return connection->closing || connection->client.flags & (CLIENT_CLOSE_AFTER_REPLY | CLIENT_CLOSE_NOW);
}

/* A request with large arguments has run. */
static void end_large(struct connection *connection)
{
    request_drop_large(&connection->parser);
    connection->client.large.count = 0;
    connection->client.buffers.arguments_size = 0;
    memory_end_large(connection->loop->engine, &connection->client);
}

/* The client leaves: what is there does not run any more, and a request that the parser has begun is dropped. */
static enum run_end drop_requests(struct connection *connection)
{
    if (connection->parser.large_count > 0)
        end_large(connection);
    request_restart(&connection->parser);
    return RUN_CLOSING;
}

/* Runs requests from `data`; *done is how many bytes are done with. The hint is of the first one, or NULL. */
static enum run_end run_requests(struct connection *connection, const char *data, size_t size, const struct request_hint *hint, size_t *done)
{
    struct loop *loop = connection->loop;
    struct client *client = &connection->client;
    uint64_t output_max = connection_output_max(connection);
    size_t at = 0;
    uint64_t pending_before = connection_output_pending(connection);
    bool more = true;
    int run = 0;

    *done = size;
    if (is_leaving(connection))
        return drop_requests(connection);
    while (more && at < size) {
        int count = parse_ahead(connection, data, size, hint, &at, &more);

        loop->worker.clock.call_ns = 0;
        client->large.list = connection->parser.large;
        client->large.count = count > 0 ? connection->parser.large_count : 0;
        for (int i = 0; i < count; i++) {
            struct ahead *ahead = &loop->ahead[i];
            bool is_long = ahead->arg_count > LOOP_BATCH_ARGS || connection->parser.inline_text.size > 0;
            const struct bytes *args = is_long && i == count - 1 ? connection->parser.args : ahead->args;
            enum run_end end;

            if (ahead->arg_count < 0) {
                protocol_error(connection);
                return RUN_CLOSING;
            }
            /* A parked request passed this check before it was parked. No queue has it any more, so that nothing would resume it a second time. */
            end = client->parked ? RUN_NEEDS_MORE : pause_for_output(connection, pending_before, output_max);
            if (end != RUN_NEEDS_MORE)
                ;
            else if (run++ >= VISIT_REQUESTS || ahead->begins > VISIT_BYTES)
                end = RUN_VISIT_OVER;
            else if (engine_run_hinted(&loop->worker, client, args, ahead->arg_count, ahead->hint) == RUN_PARKED)
                end = RUN_WAITS;
            if (end != RUN_NEEDS_MORE) {
                if (client->large.count > 0)
                    request_again(&connection->parser, data + ahead->begins, at - ahead->begins);
                else
                    request_restart(&connection->parser);       /* it may have begun a request after those that wait */
                *done = ahead->begins;
                return end;
            }
            if (client->large.count > 0)
                end_large(connection);
            count_state(connection);
            if (is_leaving(connection))
                return drop_requests(connection);
        }
    }
    *done = at;
    return RUN_NEEDS_MORE;
}

/* Bytes that are read at once, and that are read ahead of a request that waits. */
static size_t read_size(const struct connection *connection)
{
    return connection->client.authenticated ? connection->loop->read_size : CONNECTION_READ_UNAUTHENTICATED;
}

/* Turns reading on or off. With TLS, libuv reads only when all earlier bytes are decrypted. */
static void connection_set_reading(struct connection *connection, bool wanted)
{
    if (connection->reading == wanted)
        return;
    connection->reading = wanted;
    if (connection->tls != NULL)
        connection_tls_reading_changed(connection);
    else if (wanted)
        uv_read_start(&connection->uv.stream, connection_on_alloc, connection_on_read);
    else
        uv_read_stop(&connection->uv.stream);
}

/* While a large argument is being received it is the query, as in Redis. */
static void note_large(struct connection *connection)
{
    struct client *client = &connection->client;
    size_t room, received = request_large_received(&connection->parser, &room);

    client->buffers.query_size = received;
    client->buffers.arguments_size = connection->parser.large_size - received - room;
}

/* A large argument counts against the memory there is before it is read: it gets memory of its own, of just its size. False: it has to
 * wait for that. True as well if none is announced (any more). */
static bool receive_large(struct connection *connection)
{
    struct buffer *query = &connection->query;
    struct request_parser *parser = &connection->parser;

    if (request_large_wanted(parser) == 0)
        return true;
    if (!memory_admit_large(connection->loop->engine, &connection->client, request_large_wanted(parser)))
        return false;
    connection->large_input = connection->client.totals.input;
    connection->large_ms = connection->loop->worker.turn.now_us / 1000;
    query->size = connection->query_at +
        request_large_begin(parser, query->data + connection->query_at, query->size - connection->query_at);
    note_large(connection);
    return true;
}

bool connection_let_in(struct connection *connection)
{
    if (!receive_large(connection))
        return false;
    loop_leave_room(connection);
    connection_set_reading(connection, true);
    connection_count_memory(connection);
    return true;
}

/* Closes a client that is too slow with a large argument. A client that has announced one holds memory for it, and perhaps the right to be
 * the only one that does not fit. It is sent in time, or the client goes while others wait for that memory. */
void connection_check_large(struct connection *connection)
{
    const struct client *client = &connection->client;
    int64_t now_ms = connection->loop->worker.turn.now_us / 1000;
    size_t room;

    (void)request_large_received(&connection->parser, &room);
    if (room == 0 || client->totals.input - connection->large_input >= LARGE_INPUT_MIN) {
        connection->large_input = client->totals.input;
        connection->large_ms = now_ms;
        return;
    }
    if (now_ms - connection->large_ms >= CONNECTION_STALLED_MS && memory_large_is_awaited(connection->loop->engine) &&
        !(client->flags & CLIENT_NO_EVICT))
        loop_evict(connection, "has announced a large argument and does not send it, and others wait for the memory");
}

/* After running: what comes next for this connection. */
static void settle_run(struct connection *connection, enum run_end end)
{
    struct client *client = &connection->client;
    struct buffer *query = &connection->query;

    if (query->size == connection->query_at) {
        query->size = connection->query_at = 0;
        buffer_shrink(query, QUERY_KEEP);
    }
    client->buffers.query_size = query->size - connection->query_at;
    client->buffers.query_room = query->capacity;
    if (client->flags & CLIENT_CLOSE_NOW)
        connection_close(connection);
    if (connection->closing)
        return;
    connection->output_full = end == RUN_OUTPUT_FULL;
    connection->loop->turn_output += client->reply.out.size;
    if (end == RUN_VISIT_OVER)
        loop_queue(connection);
    if (connection->has_ended) {
        if (end == RUN_NEEDS_MORE || client->waiter != NULL)
            client->flags |= CLIENT_CLOSE_AFTER_REPLY;
        connection_mark_dirty(connection);
        return;
    }
    if (end == RUN_NEEDS_MORE && !receive_large(connection)) {
        connection_set_reading(connection, false);
        loop_wait_for_room(connection);
        return;
    }
    connection_set_reading(connection, end != RUN_VISIT_OVER && (end != RUN_WAITS || client->buffers.query_size < read_size(connection)) &&
        (end != RUN_OUTPUT_FULL || client->authenticated));
}

/* Moves what has not run yet to the buffer's begin. */
static void drop_done(struct connection *connection)
{
    struct buffer *query = &connection->query;

    memmove(query->data, query->data + connection->query_at, query->size - connection->query_at);
    query->size -= connection->query_at;
    connection->query_at = 0;
}

void connection_process(struct connection *connection)
{
    struct buffer *query = &connection->query;
    enum run_end end = RUN_NEEDS_MORE;
    size_t done = 0;

    if (query->size > connection->query_at) {
        end = run_requests(connection, query->data + connection->query_at, query->size - connection->query_at, NULL, &done);
        connection->query_at += done;
        if (connection->query_at < query->size && connection->query_at > query->size / 2)
            drop_done(connection);
    }
    settle_run(connection, end);
}

void connection_go_on(struct connection *connection)
{
    if (connection->closing)
        return;
    if (connection->client.parked)
        settle_run(connection, RUN_WAITS);
    else
        connection_process(connection);
    if (connection->tls != NULL && !connection->closing)
        connection_tls_go_on(connection);
    if (!connection->closing)
        connection_mark_dirty(connection);
}

/* The buffer never takes more than the largest request: is_over_query_limit closes the connection when it is full. */
static void reserve_unauthenticated(struct buffer *query, size_t most)
{
    size_t left = UNAUTHENTICATED_MAX > query->size ? UNAUTHENTICATED_MAX - query->size : 1;

    buffer_reserve_exact(query, left < most ? left : most);
}

/* The beginning of a small request gets a buffer that it may keep: thousands of clients that send little at a time stay cheap. One in a
 * pipeline does not, as the buffer would have to grow soon. */
static bool is_small_beginning(const struct connection *connection, size_t most)
{
    return connection->query.size < SMALL_BEGINNING && most > QUERY_KEEP && !connection->reads_much;
}

/* Makes room after the part of a request that is there, unless there is enough. */
static void reserve_query(struct connection *connection)
{
    struct buffer *query = &connection->query;
    size_t most = read_size(connection);
    bool is_small;

    if (!connection->client.authenticated)
        drop_done(connection);
    is_small = is_small_beginning(connection, most);
    if (query->capacity - query->size >= (is_small ? QUERY_KEEP : most) / 4)
        return;
    if (!connection->client.authenticated)
        reserve_unauthenticated(query, most);
    else if (is_small)
        buffer_reserve_exact(query, QUERY_KEEP - query->size);
    else
        buffer_reserve(query, query->size < BIG_READ ? most : BIG_READ);
}

void connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;
    struct buffer *query = &connection->query;
    size_t room;
    char *large = request_large_room(&connection->parser, &room);

    (void)suggested;
    if (UNLIKELY(connection->gathered)) {
        *buffer = uv_buf_init(NULL, 0);     /* what was gathered runs first: connection_on_read */
    } else if (large != NULL) {
        connection->reads_into = READS_INTO_LARGE;
        *buffer = uv_buf_init(large, (unsigned)(room < BIG_READ ? room : BIG_READ));
    } else if (query->size == connection->query_at) {
        connection->reads_into = READS_INTO_LOOP;
        *buffer = uv_buf_init(connection->loop->read_buffer, (unsigned)read_size(connection));
    } else {
        reserve_query(connection);
        room = query->capacity - query->size;
        connection->reads_into = READS_INTO_QUERY;
        *buffer = uv_buf_init(query->data + query->size, (unsigned)(room < BIG_READ ? room : BIG_READ));
    }
}

static bool is_over_query_limit(struct connection *connection)
{
    struct loop *loop = connection->loop;
    struct client *client = &connection->client;

    if (!client->authenticated && client->buffers.query_size >= UNAUTHENTICATED_MAX) {
        reply_error_text(&client->reply, BYTES("ERR Protocol error: unauthenticated request too big"));
        client->flags |= CLIENT_CLOSE_AFTER_REPLY;
        connection_mark_dirty(connection);
        return true;
    }
    if (connection->query.size - connection->query_at + connection->parser.large_size <= (uint64_t)config_number(loop->engine->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT))
        return false;
    log_write(loop->engine->log, LOG_LEVEL_WARNING, "Closing client that reached max query buffer length: id=%llu addr=%s",
        (unsigned long long)client->id, client->address);
    turn_count(&loop->worker.turn, STAT_QUERY_BUFFER_LIMIT, 1);
    connection_close(connection);
    return true;
}

void connection_end_long_turn(struct loop *loop)
{
    uint64_t clock_ns = loop->worker.clock.call_ns;
    int64_t now_us = clock_ns != 0 ? (int64_t)(clock_ns / 1000) : clock_mono_us();

    if (loop->in_turn && (now_us - (int64_t)loop->worker.turn.now_us > TURN_US_MAX || loop->turn_output > TURN_OUTPUT_MAX))
        loop_end_turn(loop);
}

/* Complete requests that have not run yet; what is left otherwise is a part of one. */
static bool has_requests(const struct connection *connection)
{
    return connection->client.parked || connection->output_full || connection->queued;
}

/* Requests came before the end of the stream, and wait for a record, for memory or for their turn; or replies wait for the log. Commands that
 * wait for a key, or for the end of a pause, would wait for a client that has gone. */
static bool is_owed_replies(const struct connection *connection)
{
    const struct client *client = &connection->client;

    if (client->waiter != NULL || client->paused)
        return false;
    return has_requests(connection) || connection_output_pending(connection) > 0;
}

static void end_after_replies(struct connection *connection)
{
    connection->has_ended = true;
    connection_set_reading(connection, false);
    if (!has_requests(connection))
        connection->client.flags |= CLIENT_CLOSE_AFTER_REPLY;
    connection_mark_dirty(connection);
}

void connection_input_ended(struct connection *connection, ssize_t error)
{
    if (error == UV_EOF && is_owed_replies(connection))
        end_after_replies(connection);
    else
        connection_close(connection);
    connection->loop->worker.clock.call_ns = 0;
    connection_end_long_turn(connection->loop);     /* thousands that leave at once are a long turn as well */
}

void connection_on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    bool was_gathered = connection->gathered;

    /* With more than a thousand clients libuv may come to one twice before the loop has its turn. */
    if (UNLIKELY(was_gathered))
        gather_run(connection->loop);
    if (connection->closing || (was_gathered && got == UV_ENOBUFS))
        return;                     /* not read yet: it is read in the next round */
    if (got < 0)
        connection_input_ended(connection, got);
    else if (got > 0)
        connection_received(connection, (size_t)got, buffer);
}

/* Runs what was read into memory of the loop. */
static void run_received(struct connection *connection, const char *data, size_t size, const struct request_hint *hint)
{
    bool is_parked = connection->client.parked;
    enum run_end end = is_parked ? RUN_WAITS : RUN_NEEDS_MORE;
    size_t done = 0;

    if (!is_parked)
        end = run_requests(connection, data, size, hint, &done);
    buffer_append(&connection->query, data + done, size - done);        /* what was not run */
    settle_run(connection, end);
}

void connection_run_gathered(struct connection *connection, const char *data, size_t size, const struct request_hint *hint)
{
    loop_enter_turn(connection->loop);      /* the one before it may have ended the turn */
    run_received(connection, data, size, hint);
    if (connection->closing || is_over_query_limit(connection))
        return;
    connection_mark_dirty(connection);
    connection_end_long_turn(connection->loop);
}

static void extend_large(struct connection *connection, const char *data, size_t size)
{
    size_t room;
    bool is_complete;

    CHECK(data == request_large_room(&connection->parser, &room) && size <= room);
    is_complete = request_large_add(&connection->parser, size);
    note_large(connection);
    if (is_complete)
        connection_process(connection);
}

static void extend_query(struct connection *connection, const char *data, size_t size)
{
    struct buffer *query = &connection->query;

    CHECK(query->size <= query->capacity && data == query->data + query->size && size <= query->capacity - query->size);
    query->size += size;
    if (connection->output_full)
        settle_run(connection, RUN_OUTPUT_FULL);
    else if (connection->client.parked)
        settle_run(connection, RUN_WAITS);
    else
        connection_process(connection);
}

/* `data` is where connection_on_alloc has put it, and nothing has run for the connection since then. */
static void take_in(struct connection *connection, const char *data, size_t size)
{
    switch (connection->reads_into) {
    case READS_INTO_LOOP:
        CHECK(connection->query.size == connection->query_at);
        if (connection->tls != NULL || connection->client.parked || !gather_add(connection->loop, connection, data, size))
            run_received(connection, data, size, NULL);
        return;
    case READS_INTO_LARGE:
        extend_large(connection, data, size);
        return;
    case READS_INTO_QUERY:
        extend_query(connection, data, size);
        return;
    }
}

void connection_received(struct connection *connection, size_t got, const uv_buf_t *buffer)
{
    struct client *client = &connection->client;
    struct loop *loop = connection->loop;

    loop_enter_turn(loop);
    client->active_us = loop->worker.turn.now_us;
    connection->reads_much = got >= QUERY_KEEP;
    client->totals.input += got;
    turn_count(&loop->worker.turn, STAT_NET_INPUT, got);
    turn_count(&loop->worker.turn, STAT_READS_PROCESSED, 1);
    if (client->flags & CLIENT_CLOSE_AFTER_REPLY)
        return;                     /* whatever it says now, it is on its way out */
    take_in(connection, buffer->base, got);
    if (connection->gathered || connection->closing || is_over_query_limit(connection))
        return;
    connection_mark_dirty(connection);
    /* libuv would read on as long as there is something: others first. */
    if (connection->reading && got == buffer->len) {
        connection_set_reading(connection, false);
        loop_queue(connection);
    }
    connection_end_long_turn(loop);
}

/* Notices that the client has gone. A connection that waits for a key and is not read any more has no other way to learn it. */
void connection_check_input(struct connection *connection)
{
    struct pollfd at = { .fd = connection->client.fd, .events = POLLRDHUP };

    if (connection->reading || connection->client.waiter == NULL)
        return;
    if (poll(&at, 1, 0) > 0 && at.revents & (POLLRDHUP | POLLHUP | POLLERR))
        connection_close(connection);
}

void connection_trim_input(struct connection *connection)
{
    if (connection->query.size != 0)
        return;
    buffer_release(&connection->query);
    connection->client.buffers.query_room = 0;
    request_trim(&connection->parser);
}
