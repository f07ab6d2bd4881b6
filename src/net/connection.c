#include "net/connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "engine/internal.h"
#include "engine/monitor.h"

enum {
    INLINE_MAX = 64 * 1024,
    QUERY_KEEP = 32 * 1024,         /* room a connection keeps when it is idle */
    OUT_KEEP = 64 * 1024,
    BIG_READ = 256 * 1024,          /* most that is read at once into a connection's own buffer */
    ADDRESS_SIZE = 128,
};

static char *socket_address(int fd, bool is_unix, bool peer)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "", text[ADDRESS_SIZE];
    int port = 0;

    if (is_unix) {
        snprintf(text, sizeof(text), "?:0");
        return mem_string(bytes_of_string(text));
    }
    if ((peer ? getpeername(fd, (struct sockaddr *)&address, &size) : getsockname(fd, (struct sockaddr *)&address, &size)) == 0) {
        if (address.ss_family == AF_INET) {
            struct sockaddr_in *in = (struct sockaddr_in *)&address;

            inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
            port = ntohs(in->sin_port);
        } else if (address.ss_family == AF_INET6) {
            struct sockaddr_in6 *in = (struct sockaddr_in6 *)&address;

            inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
            port = ntohs(in->sin6_port);
        }
    }
    snprintf(text, sizeof(text), strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host, port);
    return mem_string(bytes_of_string(text));
}

static void release_memory(struct connection *connection)
{
    struct client *client = &connection->client;

    request_release(&connection->parser);
    buffer_release(&connection->query);
    buffer_release(&connection->writing);
    reply_release(&client->reply);
    mem_free(client->name);
    mem_free(client->lib_name);
    mem_free(client->lib_version);
    mem_free(client->address);
    mem_free(client->local_address);
    mem_free(connection);
}

static void free_if_done(struct connection *connection)
{
    if (connection->handle_closed && connection->removed && !connection->in_dirty)
        release_memory(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;

    connection->handle_closed = true;
    free_if_done(connection);
}

void connection_discard(struct client *client)
{
    struct connection *connection = (struct connection *)client;

    connection->removed = true;
    free_if_done(connection);
}

void connection_close(struct connection *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    atomic_fetch_sub(&connection->loop->engine->client_count, 1);
    connection->removed = worker_remove_client(&connection->loop->worker, &connection->client);
    uv_close(&connection->uv.handle, on_closed);
}

void connection_mark_dirty(struct connection *connection)
{
    if (connection->in_dirty)
        return;
    connection->in_dirty = true;
    connection->next_dirty = connection->loop->dirty;
    connection->loop->dirty = connection;
}

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

/* Parses requests ahead, at most `capacity`; prefetches for them when there are several. Returns their number; *size is where the last
 * one ends. A long one ends the batch, for its arguments stay in the parser. */
static int parse_ahead(struct connection *connection, const char *data, size_t size, size_t *at, bool *more)
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
        ahead->arg_count = connection->parser.arg_count;
        *at += consumed;
        if (ahead->arg_count == 0)
            continue;
        count++;
        if (ahead->arg_count > LOOP_BATCH_ARGS)
            break;
        memcpy(ahead->args, connection->parser.args, (size_t)ahead->arg_count * sizeof(struct bytes));
        if (connection->parser.inline_text.size > 0)
            break;                  /* the next call would take its arguments away */
    }
    if (*at >= size)
        *more = false;
    if (count > 1) {
        for (int stage = 0; stage < 2; stage++) {
            for (int i = 0; i < count; i++) {
                if (loop->ahead[i].arg_count > 0 && loop->ahead[i].arg_count <= LOOP_BATCH_ARGS)
                    engine_prefetch(&loop->worker, &connection->client, loop->ahead[i].args, loop->ahead[i].arg_count, stage);
            }
        }
    }
    return count;
}

/* Runs requests from `data`; returns how many bytes are done with. */
static size_t run_requests(struct connection *connection, const char *data, size_t size)
{
    struct loop *loop = connection->loop;
    struct client *client = &connection->client;
    size_t at = 0;
    bool more = true;

    while (more && at < size && !connection->closing && !(client->flags & (CLIENT_CLOSE_AFTER_REPLY | CLIENT_CLOSE_NOW))) {
        int count = parse_ahead(connection, data, size, &at, &more);

        loop->worker.clock_ns = 0;
        for (int i = 0; i < count; i++) {
            struct ahead *ahead = &loop->ahead[i];
            bool is_long = ahead->arg_count > LOOP_BATCH_ARGS || connection->parser.inline_text.size > 0;
            const struct bytes *args = is_long && i == count - 1 ? connection->parser.args : ahead->args;

            if (ahead->arg_count < 0) {
                protocol_error(connection);
                return size;
            }
            if (engine_run(&loop->worker, client, args, ahead->arg_count) == RUN_PARKED) {
                request_restart(&connection->parser);       /* it may have begun a request behind those that wait */
                return ahead->begins;
            }
            if (connection->closing || client->flags & (CLIENT_CLOSE_AFTER_REPLY | CLIENT_CLOSE_NOW))
                return size;
        }
    }
    return at;
}

/* What was not run is kept in the connection's own buffer. */
static void keep_rest(struct connection *connection, const char *data, size_t size)
{
    if (size > 0)
        buffer_append(&connection->query, data, size);
}

void connection_process(struct connection *connection)
{
    struct buffer *query = &connection->query;
    struct client *client = &connection->client;

    if (query->size > connection->query_at) {
        connection->query_at += run_requests(connection, query->data + connection->query_at, query->size - connection->query_at);
        if (connection->query_at == query->size) {
            query->size = connection->query_at = 0;
            buffer_shrink(query, QUERY_KEEP);
        } else if (connection->query_at > query->size / 2) {
            memmove(query->data, query->data + connection->query_at, query->size - connection->query_at);
            query->size -= connection->query_at;
            connection->query_at = 0;
        }
    }
    client->query_size = query->size - connection->query_at;
    client->query_room = query->capacity;
    if (client->flags & CLIENT_CLOSE_NOW)
        connection_close(connection);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct connection *connection = handle->data;
    struct buffer *query = &connection->query;

    (void)suggested;
    if (query->size == connection->query_at) {
        *buffer = uv_buf_init(connection->loop->read_buffer, LOOP_READ_SIZE);
        return;
    }
    if (query->capacity - query->size < LOOP_READ_SIZE / 4)
        buffer_reserve(query, query->size < BIG_READ ? LOOP_READ_SIZE : BIG_READ);
    *buffer = uv_buf_init(query->data + query->size, (unsigned)(query->capacity - query->size));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    struct client *client = &connection->client;
    struct loop *loop = connection->loop;

    if (got < 0) {
        connection_close(connection);
        return;
    }
    if (got == 0 || connection->closing)
        return;
    loop_enter_turn(loop);
    client->active_ms = loop->worker.turn.now_ms;
    client->net_input += (uint64_t)got;
    turn_count(&loop->worker.turn, STAT_NET_INPUT, (uint64_t)got);
    turn_count(&loop->worker.turn, STAT_READS_PROCESSED, 1);
    if (client->flags & CLIENT_CLOSE_AFTER_REPLY)
        return;                     /* whatever it says now, it is on its way out */
    if (buffer->base == loop->read_buffer) {
        size_t done = client->parked ? 0 : run_requests(connection, buffer->base, (size_t)got);

        keep_rest(connection, buffer->base + done, (size_t)got - done);
    } else {
        connection->query.size += (size_t)got;
        if (!client->parked)
            connection_process(connection);
    }
    client->query_size = connection->query.size - connection->query_at;
    if (client->query_size > (uint64_t)config_number(loop->engine->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT)) {
        log_write(loop->engine->log, LOG_LEVEL_WARNING, "Closing client that reached max query buffer length: id=%llu addr=%s",
            (unsigned long long)client->id, client->address);
        turn_count(&loop->worker.turn, STAT_QUERY_BUFFER_LIMIT, 1);
        connection_close(connection);
        return;
    }
    if (client->flags & CLIENT_CLOSE_NOW)
        connection_close(connection);
    else
        connection_mark_dirty(connection);
}

static void check_output_limit(struct connection *connection)
{
    const struct config *config = connection->loop->engine->config;
    struct client *client = &connection->client;
    uint64_t size = client->reply.out.size + connection->writing.size - connection->written;
    uint64_t hard = (uint64_t)config_output_limit(config, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_HARD);
    uint64_t soft = (uint64_t)config_output_limit(config, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_SOFT);
    int64_t soft_ms = config_output_limit(config, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_SOFT_SECONDS) * 1000;
    int64_t now_ms = connection->loop->worker.turn.now_ms;
    bool over = (hard > 0 && size > hard) || (client->flags & CLIENT_MONITOR && size > MONITOR_OUTPUT_MAX);

    if (soft > 0 && size > soft) {
        if (connection->over_soft_limit_ms == 0)
            connection->over_soft_limit_ms = now_ms;
        over = over || now_ms - connection->over_soft_limit_ms > soft_ms;
    } else {
        connection->over_soft_limit_ms = 0;
    }
    if (!over || connection->closing)
        return;
    log_write(connection->loop->engine->log, LOG_LEVEL_WARNING,
        "Client id=%llu addr=%s scheduled to be closed ASAP for overcoming of output buffer limits.", (unsigned long long)client->id,
        client->address);
    turn_count(&connection->loop->worker.turn, STAT_OUTPUT_BUFFER_LIMIT, 1);
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
    connection->writing.size = connection->written = 0;
    buffer_shrink(&connection->writing, OUT_KEEP);
    connection_mark_dirty(connection);
}

static void count_output(struct connection *connection, size_t size)
{
    connection->client.net_output += size;
    /* Who has waited long for a key is not idle as soon as it has its answer. */
    connection->client.active_ms = connection->loop->worker.turn.now_ms;
    turn_count(&connection->loop->worker.turn, STAT_NET_OUTPUT, size);
    turn_count(&connection->loop->worker.turn, STAT_WRITES_PROCESSED, 1);
}

bool connection_flush(struct connection *connection, uint64_t covered, bool log_failing)
{
    struct client *client = &connection->client;
    struct buffer *out = &client->reply.out;
    uv_buf_t buffer;
    int sent;

    if (connection->closing) {
        free_if_done(connection);
        return true;
    }
    if (out->size > 0 && (log_failing ? client->lsn_written : client->lsn_needed) > covered)
        return false;
    if (connection->write_busy) {
        check_output_limit(connection);
        return true;                /* on_written comes back to it */
    }
    if (out->size > 0) {
        buffer = uv_buf_init(out->data, (unsigned)(out->size < (1u << 30) ? out->size : 1u << 30));
        sent = uv_try_write(&connection->uv.stream, &buffer, 1);
        if (sent < 0 && sent != UV_EAGAIN) {
            connection_close(connection);
            return true;
        }
        if (sent > 0)
            count_output(connection, (size_t)sent);
        if (sent == (int)out->size) {
            out->size = 0;
            buffer_shrink(out, OUT_KEEP);
        } else {
            struct buffer spare = connection->writing;

            connection->written = sent > 0 ? (size_t)sent : 0;
            connection->writing = *out;
            *out = spare;
            out->size = 0;
            buffer = uv_buf_init(connection->writing.data + connection->written,
                (unsigned)(connection->writing.size - connection->written));
            connection->write.data = connection;
            connection->write_busy = true;
            count_output(connection, buffer.len);
            if (uv_write(&connection->write, &connection->uv.stream, &buffer, 1, on_written) != 0)
                connection_close(connection);
            return true;
        }
    }
    if (client->flags & CLIENT_CLOSE_AFTER_REPLY)
        connection_close(connection);
    return true;
}

void connection_check(struct connection *connection, int64_t now_ms)
{
    int64_t timeout_s = config_number(connection->loop->engine->config, CONFIG_TIMEOUT);

    if (timeout_s > 0 && !connection->client.parked && !(connection->client.flags & CLIENT_MONITOR) && now_ms - connection->client.active_ms > timeout_s * 1000) {
        connection_close(connection);
        return;
    }
    if (connection->query.size == 0 && now_ms - connection->client.active_ms > 2000) {
        buffer_release(&connection->query);
        connection->client.query_room = 0;
        request_trim(&connection->parser);
        if (connection->client.reply.out.size == 0)
            buffer_release(&connection->client.reply.out);
    }
    check_output_limit(connection);
}

static void set_options(struct connection *connection, int fd, bool is_unix)
{
    int64_t keepalive_s = config_number(connection->loop->engine->config, CONFIG_TCP_KEEPALIVE);
    int one = 1;

    if (is_unix)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (keepalive_s > 0)
        uv_tcp_keepalive(&connection->uv.tcp, 1, (unsigned)keepalive_s);
}

static void refuse_protected(struct connection *connection)
{
    reply_error_text(&connection->client.reply,
        BYTES("DENIED Kelvin is running in protected mode because protected mode is enabled and no password is set for the "
              "default user. In this mode connections are only accepted from the loopback interface. To connect from elsewhere, "
              "set a password (requirepass), or bind to chosen addresses and turn protected-mode off."));
    connection->client.flags |= CLIENT_CLOSE_AFTER_REPLY | CLIENT_PROTECTED;
}

void connection_open(struct loop *loop, struct accepted accepted)
{
    struct engine *engine = loop->engine;
    struct connection *connection = mem_zalloc(sizeof(*connection));
    struct client *client = &connection->client;
    char *password = config_string(engine->config, CONFIG_REQUIREPASS);
    int failed;

    loop_enter_turn(loop);
    connection->loop = loop;
    reply_init(&client->reply, 2);
    request_init(&connection->parser);
    client->id = accepted.id;
    client->fd = accepted.fd;
    client->flags = accepted.is_unix ? CLIENT_UNIX_SOCKET : 0;
    client->authenticated = password[0] == '\0';
    client->created_ms = client->active_ms = loop->worker.turn.now_ms;
    client->address = socket_address(accepted.fd, accepted.is_unix, true);
    client->local_address = socket_address(accepted.fd, accepted.is_unix, false);
    mem_free(password);
    if (accepted.is_unix) {
        uv_pipe_init(&loop->uv, &connection->uv.pipe, 0);
        failed = uv_pipe_open(&connection->uv.pipe, accepted.fd);
    } else {
        uv_tcp_init(&loop->uv, &connection->uv.tcp);
        failed = uv_tcp_open(&connection->uv.tcp, accepted.fd);
    }
    connection->uv.handle.data = connection;
    worker_add_client(&loop->worker, client);
    turn_count(&loop->worker.turn, STAT_CONNECTIONS, 1);
    if (failed != 0 || loop->stopping) {
        if (failed != 0)
            close(accepted.fd);
        connection_close(connection);
        return;
    }
    set_options(connection, accepted.fd, accepted.is_unix);
    if (accepted.is_denied) {
        refuse_protected(connection);
        connection_mark_dirty(connection);
    }
    uv_read_start(&connection->uv.stream, on_alloc, on_read);
}
