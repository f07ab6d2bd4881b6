#include "net/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/endpoint.h"
#include "base/mem.h"
#include "engine/access.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "net/connection_private.h"
#include "replication/primary.h"

enum {
    IDLE_US = 2000000,
};

static char *socket_address(int fd, bool is_unix, bool peer)
{
    char text[ENDPOINT_SIZE] = "?:0";

    if (!is_unix && peer)
        endpoint_of_peer(fd, text);
    else if (!is_unix)
        endpoint_of_self(fd, text);
    return mem_string(bytes_of_string(text));
}

static void release_memory(struct connection *connection)
{
    struct client *client = &connection->client;

    primary_forget(client);         /* again: a transaction that went on after the end may have announced a replica */
    connection_tls_release(connection);
    request_release(&connection->parser);
    buffer_release(&connection->query);
    reply_release(&connection->writing);
    reply_release(&client->reply);
    access_set_user(client, NULL);
    mem_free(client->names.name);
    mem_free(client->names.lib_name);
    mem_free(client->names.lib_version);
    mem_free(client->address);
    mem_free(client->local_address);
    mem_free(connection);
}

void connection_free_if_done(struct connection *connection)
{
    if (connection->handle_closed && connection->removed && !connection->in_dirty)
        release_memory(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;

    connection->handle_closed = true;
    connection_free_if_done(connection);
}

void connection_discard(struct client *client)
{
    struct connection *connection = (struct connection *)client;

    connection->removed = true;
    connection_free_if_done(connection);
}

void connection_close(struct connection *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    loop_unqueue(connection);
    loop_leave_room(connection);
    loop_leave_handshakes(connection);
    if (connection->tls != NULL)
        connection_tls_close(connection);
    memory_end_large(connection->loop->engine, &connection->client);
    primary_forget(&connection->client);
    atomic_fetch_sub(&connection->loop->engine->clients.count, 1);
    connection->removed = worker_remove_client(&connection->loop->worker, &connection->client);
    uv_close(&connection->uv.handle, on_closed);
}

/* Bytes of strings that have no other holder. */
static uint64_t shares_alone(const struct reply *reply)
{
    uint64_t size = 0;

    for (size_t i = 0; i < reply->share_count; i++) {
        if (!blob_is_shared(reply->shares[i].blob))
            size += reply->shares[i].blob->buffer.size;
    }
    return size;
}

/* Returns the bytes of replies that the client is responsible for. Those that only wait for the log do not count. */
static uint64_t replies_memory(const struct connection *connection)
{
    const struct reply *reply = &connection->client.reply;
    uint64_t size = 0;

    if (reply->out.size == 0 || !connection_waits_for_log(connection))
        size += reply->out.capacity;
    if (reply->share_count > 0 && !connection_waits_for_log(connection))
        size += shares_alone(reply);
    return size + reply->share_capacity * sizeof(struct reply_share);
}

/* Returns the bytes of replies that were given to the kernel. */
static uint64_t writing_memory(const struct reply *writing)
{
    return writing->out.capacity + (writing->share_count > 0 ? shares_alone(writing) : 0);
}

void connection_count_memory(struct connection *connection)
{
    struct client *client = &connection->client;
    const struct request_parser *parser = &connection->parser;
    uint64_t buffers;

    if (connection->closing)
        return;
    client->buffers.output_memory = connection->write_busy ? writing_memory(&connection->writing) : 0;
    client->buffers.output_parts = connection->write_busy ? 1 + connection->writing.share_count : 0;
    buffers = connection->query.capacity + replies_memory(connection) + writing_memory(&connection->writing);
    if (connection->tls != NULL)
        buffers += connection_tls_memory(connection);
    client_memory_set(client, sizeof(*connection) + buffers + request_memory(parser), buffers);
}

void connection_mark_dirty(struct connection *connection)
{
    if (connection->in_dirty)
        return;
    connection->in_dirty = true;
    connection->next_dirty = connection->loop->dirty;
    connection->loop->dirty = connection;
}

void connection_check(struct connection *connection, int64_t now_us)
{
    int64_t timeout_s = config_number(connection->loop->engine->config, CONFIG_TIMEOUT), idle_us = now_us - connection->client.active_us;

    if (timeout_s > 0 && !connection->client.parked && !connection->waits_for_room &&
        !(connection->client.flags & (CLIENT_MONITOR | CLIENT_SUBSCRIBED | CLIENT_REPLICA)) && idle_us > timeout_s * 1000000) {
        connection_close(connection);
        return;
    }
    worker_check_parked(&connection->client);
    if (idle_us > IDLE_US) {
        connection_trim_input(connection);
        connection_trim_output(connection);
    }
    connection_count_memory(connection);
    if (!connection->closing && connection->tls != NULL)
        connection_tls_check(connection, now_us);
    if (!connection->closing)
        connection_check_input(connection);
    if (!connection->closing)
        connection_check_output(connection);
    if (!connection->closing)
        connection_check_stalled(connection);
    if (!connection->closing)
        connection_check_large(connection);
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

void connection_refuse_protected(struct connection *connection)
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
    int failed;

    loop_enter_turn(loop);
    connection->loop = loop;
    reply_init(&client->reply, 2);
    client->reply.may_share = true;
    client->reply.held = &engine->memory.reply_held;
    request_init(&connection->parser);
    client->id = accepted.id;
    client->fd = accepted.fd;
    client->flags = accepted.is_unix ? CLIENT_UNIX_SOCKET : accepted.is_tls ? CLIENT_TLS : 0;
    client->created_us = client->active_us = loop->worker.turn.now_us;
    client->address = socket_address(accepted.fd, accepted.is_unix, true);
    client->local_address = socket_address(accepted.fd, accepted.is_unix, false);
    if (accepted.is_unix) {
        uv_pipe_init(&loop->uv, &connection->uv.pipe, 0);
        failed = uv_pipe_open(&connection->uv.pipe, accepted.fd);
    } else {
        uv_tcp_init(&loop->uv, &connection->uv.tcp);
        failed = uv_tcp_open(&connection->uv.tcp, accepted.fd);
    }
    connection->uv.handle.data = connection;
    worker_add_client(&loop->worker, client);
    access_begin(client);
    turn_count(&loop->worker.turn, STAT_CONNECTIONS, accepted.is_tls ? 0 : 1);       /* with TLS: after its handshake */
    if (failed != 0 || loop->stopping) {
        if (failed != 0)
            close(accepted.fd);
        connection_close(connection);
        return;
    }
    set_options(connection, accepted.fd, accepted.is_unix);
    if (accepted.is_tls) {
        client->flags |= CLIENT_TLS;
        connection_tls_open(connection, accepted.is_denied);
        return;
    }
    if (accepted.is_denied) {
        connection_refuse_protected(connection);
        connection_mark_dirty(connection);
    }
    connection->reading = true;
    uv_read_start(&connection->uv.stream, connection_on_alloc, connection_on_read);
}
