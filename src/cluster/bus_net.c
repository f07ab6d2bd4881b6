#include "cluster/bus_net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/dial.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sockets.h"
#include "base/thread.h"
#include "replication/name_lookup.h"
#include "replication/wire.h"
#include "tls/tls_context.h"

enum {
    TICK_MS = 100,
    READ_SIZE = 64 << 10,
    READS_A_TURN = 4,                   /* of one connection: then the others have their turn */
    ACCEPT_A_TURN = 100,
    CONNECT_MS_MIN = 1000,              /* a connection and its handshake may take half of the timeout, or this if it is longer */
    STRANGER_MS_MIN = 1000,             /* a message of a stranger may take the timeout, or this */
    STRANGERS_MAX = 256,
    STRANGER_BYTES_MAX = 16 << 20,      /* parts of messages, of all strangers */
};

enum socket_state { SOCKET_LOOKING_UP, SOCKET_CONNECTING, SOCKET_SHAKING, SOCKET_OPEN, SOCKET_CLOSED };

struct bus_socket {
    struct bus_net *net;
    uv_poll_t poll;                     /* from CONNECTING on */
    uint64_t link;
    enum socket_state state;
    bool is_outgoing, is_stranger;
    bool has_more;                      /* there may be more input: reading has ended before the input did */
    int events;                         /* that are polled */
    int64_t since_ms;                   /* monotonic: of the attempt to connect, or of the last message */
    size_t size_max;
    struct wire wire;
    struct buffer in;                   /* the begin of a message */
    size_t stranger_bytes;              /* of `in`, as counted in net->stranger_bytes */
    char from_ip[NODE_IP_SIZE], own_ip[NODE_IP_SIZE];
    struct name_lookup *lookup;
    _Atomic uint64_t allocated, used;   /* as other threads see it */
};

struct bus_ear {
    struct bus_net *net;
    uv_poll_t poll;
    int fd;
};

struct bus_net {
    struct bus_net_hooks hooks;         /* immutable, and so are the next two */
    char *source;
    struct log *log;
    struct thread thread;               /* of the thread that starts and stops */
    uv_loop_t loop;
    uv_async_t bell;                    /* any thread rings it */
    uv_timer_t timer;
    uv_idle_t more;                     /* active while a socket has_more */
    struct bus_ear *ears;
    int ear_count;
    bool accepting_failed;              /* until the next tick no connection is accepted */
    int64_t ticked_ms;
    unsigned stranger_count;
    size_t stranger_bytes;
    struct bus_orders orders;
    char *scratch;                      /* READ_SIZE bytes */
    struct mutex lock;                  /* a leaf: the table changes, and other threads read it, under this lock */
    struct bus_socket **sockets;        /* in the order of their numbers */
    unsigned count, room;
    _Atomic bool stopping, is_tls;
    _Atomic int64_t timeout_ms;
    _Atomic uint64_t queue_max, over_limit;
};

/* --- Orders */

void bus_orders_add(struct bus_orders *orders, const struct bus_action *action)
{
    if (orders->count == orders->room) {
        orders->room = orders->room * 2 + 8;
        orders->actions = mem_realloc(orders->actions, orders->room * sizeof(*orders->actions));
    }
    orders->actions[orders->count++] = *action;
}

static void clear_orders(struct bus_orders *orders)
{
    enum { KEPT_SIZE = 256 << 10 };

    orders->closes_all = false;
    orders->count = 0;
    orders->bytes.size = 0;
    buffer_shrink(&orders->bytes, KEPT_SIZE);
}

void bus_orders_release(struct bus_orders *orders)
{
    mem_free(orders->actions);
    buffer_release(&orders->bytes);
    *orders = (struct bus_orders){ 0 };
}

/* --- The table */

static int64_t now_ms(void)
{
    return clock_mono_us() / 1000;
}

/* The index of the first socket whose number is not below this one. */
static unsigned place_of(const struct bus_net *net, uint64_t link)
{
    unsigned low = 0, high = net->count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (net->sockets[middle]->link < link)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct bus_socket *find_socket(const struct bus_net *net, uint64_t link)
{
    unsigned at = place_of(net, link);

    return at < net->count && net->sockets[at]->link == link ? net->sockets[at] : NULL;
}

static struct bus_socket *add_socket(struct bus_net *net, uint64_t link)
{
    struct bus_socket *socket = mem_zalloc(sizeof(*socket));
    unsigned at = place_of(net, link);

    socket->net = net;
    socket->link = link;
    socket->since_ms = now_ms();
    socket->size_max = BUS_STRANGER_SIZE_MAX;
    wire_init(&socket->wire);
    mutex_lock(&net->lock);
    if (net->count == net->room) {
        net->room = net->room * 2 + 8;
        net->sockets = mem_realloc(net->sockets, net->room * sizeof(struct bus_socket *));
    }
    memmove(net->sockets + at + 1, net->sockets + at, (net->count - at) * sizeof(struct bus_socket *));
    net->sockets[at] = socket;
    net->count++;
    mutex_unlock(&net->lock);
    return socket;
}

static void remove_socket(struct bus_net *net, const struct bus_socket *socket)
{
    unsigned at = place_of(net, socket->link);

    mutex_lock(&net->lock);
    net->count--;
    memmove(net->sockets + at, net->sockets + at + 1, (net->count - at) * sizeof(struct bus_socket *));
    mutex_unlock(&net->lock);
}

static void note_buffers(struct bus_socket *socket)
{
    const struct buffer *output = wire_output(&socket->wire);
    size_t counted = socket->is_stranger ? socket->in.size : 0;

    socket->allocated = output->capacity + socket->in.capacity;
    socket->used = output->size;
    socket->net->stranger_bytes += counted - socket->stranger_bytes;
    socket->stranger_bytes = counted;
}

static void note_stranger(struct bus_socket *socket, size_t size_max)
{
    bool is_stranger = !socket->is_outgoing && size_max <= BUS_STRANGER_SIZE_MAX;

    socket->size_max = size_max;
    socket->net->stranger_count += (unsigned)is_stranger - (unsigned)socket->is_stranger;
    socket->is_stranger = is_stranger;
}

/* --- The end of a socket */

static void free_socket(struct bus_socket *socket)
{
    name_lookup_drop(socket->lookup);
    buffer_release(&socket->in);
    mem_free(socket);
}

static void on_poll_closed(uv_handle_t *handle)
{
    free_socket(handle->data);
}

/* A socket that is polled is there until its callback returns. */
static void close_socket(struct bus_socket *socket)
{
    bool is_polled = socket->state != SOCKET_LOOKING_UP;

    if (socket->state == SOCKET_CLOSED)
        return;
    socket->state = SOCKET_CLOSED;
    remove_socket(socket->net, socket);
    socket->in.size = 0;
    note_stranger(socket, SIZE_MAX);
    note_buffers(socket);
    if (is_polled)
        uv_close((uv_handle_t *)&socket->poll, on_poll_closed);
    wire_close(&socket->wire);
    if (!is_polled)
        free_socket(socket);
}

static void fail_socket(struct bus_socket *socket, const char *reason)
{
    struct bus_net *net = socket->net;
    uint64_t link = socket->link;

    if (socket->state == SOCKET_CLOSED)
        return;
    /* A node that is down is tried again with each tick. */
    log_write(net->log, socket->is_outgoing && socket->state != SOCKET_OPEN ? LOG_LEVEL_DEBUG : LOG_LEVEL_VERBOSE,
        "Cluster bus: the connection %s %s is closed: %s", socket->is_outgoing ? "to" : "from", socket->from_ip, reason);
    close_socket(socket);
    net->hooks.closed(net->hooks.context, link);
}

static void fail_wire(struct bus_socket *socket, enum wire_result result)
{
    struct message reason = { "" };

    wire_reason(&socket->wire, result, &reason);
    fail_socket(socket, reason.text);
}

/* --- Output */

static void on_poll(uv_poll_t *poll, int status, int events);

/* Polls for what the socket can do. */
static void update_poll(struct bus_socket *socket)
{
    int events = (wire_is_full(&socket->wire) ? 0 : UV_READABLE) | (wire_has_output(&socket->wire) ? UV_WRITABLE : 0);

    if (socket->state == SOCKET_CLOSED)
        return;
    note_buffers(socket);
    if (socket->state == SOCKET_CONNECTING)
        events = UV_WRITABLE;
    if (events == socket->events)
        return;
    socket->events = events;
    uv_poll_start(&socket->poll, events, on_poll);
}

static void flush_socket(struct bus_socket *socket)
{
    enum wire_result result = wire_flush(&socket->wire);

    if (result != WIRE_OK)
        fail_wire(socket, result);
}

static void send_message(struct bus_net *net, uint64_t link, struct bytes bytes)
{
    struct bus_socket *socket = find_socket(net, link);
    uint64_t max = net->queue_max;

    if (socket == NULL || socket->state != SOCKET_OPEN)
        return;
    if (wire_write(&socket->wire, bytes) != WIRE_OK) {
        fail_wire(socket, WIRE_TLS_FAILED);
        return;
    }
    flush_socket(socket);
    if (socket->state != SOCKET_CLOSED && max > 0 && wire_output(&socket->wire)->size > max) {
        log_write(net->log, LOG_LEVEL_WARNING, "Cluster bus: the connection %s %s is closed: %zu bytes wait for it, more than cluster-link-sendbuf-limit",
            socket->is_outgoing ? "to" : "from", socket->from_ip, wire_output(&socket->wire)->size);
        net->over_limit++;
        fail_socket(socket, "its queue is too long");
    }
    update_poll(socket);
}

/* --- Connecting */

static void begin_open(struct bus_socket *socket)
{
    struct bus_net *net = socket->net;

    socket->state = SOCKET_OPEN;
    socket->since_ms = now_ms();
    if (!socket->is_outgoing)
        return;
    net->hooks.opened(net->hooks.context, socket->link);
    socket->size_max = net->hooks.size_max(net->hooks.context, socket->link);
}

/* Returns whether there is a stream of TLS. */
static bool start_tls(struct bus_socket *socket)
{
    struct bus_net *net = socket->net;
    struct tls_context *context = net->hooks.hold_tls(net->hooks.context);
    bool started = context != NULL;

    if (started && socket->is_outgoing)
        started = wire_start_tls(&socket->wire, context, NULL);
    else if (started)
        started = wire_accept_tls(&socket->wire, context);
    tls_context_drop(context);
    return started;
}

static void shake_hands(struct bus_socket *socket)
{
    bool done;
    enum wire_result result = wire_shake_hands(&socket->wire, &done), flushed = wire_flush(&socket->wire);

    if (result != WIRE_OK || flushed != WIRE_OK)
        fail_wire(socket, result != WIRE_OK ? result : flushed);
    else if (done)
        begin_open(socket);
}

/* The socket is connected, by this node or by the peer. */
static void begin_talk(struct bus_socket *socket)
{
    endpoint_ip_of_peer(socket->wire.fd, socket->from_ip);
    endpoint_ip_of_self(socket->wire.fd, socket->own_ip);
    if (!socket->net->is_tls) {
        begin_open(socket);
    } else if (!start_tls(socket)) {
        fail_socket(socket, "there is no TLS");
    } else {
        socket->state = SOCKET_SHAKING;
        shake_hands(socket);
    }
}

static void end_connecting(struct bus_socket *socket)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(socket->wire.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error != 0)
        fail_socket(socket, strerror(error));
    else
        begin_talk(socket);
}

static void begin_polling(struct bus_socket *socket, int fd, enum socket_state state)
{
    CHECK(uv_poll_init(&socket->net->loop, &socket->poll, fd) == 0);
    socket->poll.data = socket;
    wire_open(&socket->wire, fd);
    socket->state = state;
}

/* The loop waits until it is connected. */
static bool leave_unconnected(void *context, int fd)
{
    (void)context, (void)fd;
    return true;
}

/* A name may have several addresses. A link tries one of them, and the bus opens a new link until one succeeds. */
static const struct addrinfo *address_for(const struct bus_socket *socket)
{
    const struct addrinfo *at = name_lookup_addresses(socket->lookup);
    uint64_t count = 0, index;

    for (const struct addrinfo *one = at; one != NULL; one = one->ai_next)
        count++;
    for (index = count > 0 ? socket->link % count : 0; index > 0; index--)
        at = at->ai_next;
    return at;
}

static void begin_connecting(struct bus_socket *socket)
{
    const char *error = name_lookup_error(socket->lookup);
    int fd = -1;

    if (error == NULL) {
        const struct dial how = { address_for(socket), name_lookup_sources(socket->lookup), leave_unconnected, NULL };

        fd = dial(&how);
    }

    if (fd < 0) {
        fail_socket(socket, error != NULL ? error : strerror(errno));
        return;
    }
    name_lookup_drop(socket->lookup);
    socket->lookup = NULL;
    begin_polling(socket, fd, SOCKET_CONNECTING);
    update_poll(socket);
}

static void open_link(struct bus_net *net, const struct bus_action *action)
{
    struct bus_socket *socket = add_socket(net, action->link);

    socket->is_outgoing = true;
    socket->state = SOCKET_LOOKING_UP;
    memcpy(socket->from_ip, action->ip, NODE_IP_SIZE);
    socket->lookup = name_lookup_start(action->ip, action->port, net->source, NULL);
    if (socket->lookup == NULL)
        fail_socket(socket, strerror(errno));
    else if (name_lookup_is_done(socket->lookup))
        begin_connecting(socket);
}

/* --- Orders */

static void carry_out(struct bus_net *net, const struct bus_action *action)
{
    struct bus_socket *socket;

    switch (action->kind) {
    case BUS_OPEN:
        open_link(net, action);
        break;
    case BUS_CLOSE:
        socket = find_socket(net, action->link);
        if (socket != NULL)
            close_socket(socket);
        break;
    case BUS_SEND:
        send_message(net, action->link, bytes_of(net->orders.bytes.data + action->begin, action->size));
        break;
    case BUS_DELIVER:
        CHECK(!"the net delivers nothing");
    }
}

/* Reports that are made meanwhile may bring up more of them. */
static void carry_out_orders(struct bus_net *net)
{
    while (net->hooks.take(net->hooks.context, &net->orders)) {
        while (net->orders.closes_all && net->count > 0)
            fail_socket(net->sockets[net->count - 1], "messages on it were lost");
        for (unsigned i = 0; i < net->orders.count; i++)
            carry_out(net, &net->orders.actions[i]);
        clear_orders(&net->orders);
    }
}

/* --- Ticks */

static bool has_taken_too_long(const struct bus_socket *socket, int64_t now)
{
    int64_t timeout_ms = socket->net->timeout_ms, age_ms = now - socket->since_ms;

    if (socket->state != SOCKET_OPEN)
        return age_ms > (timeout_ms / 2 > CONNECT_MS_MIN ? timeout_ms / 2 : CONNECT_MS_MIN);
    return socket->is_stranger && age_ms > (timeout_ms > STRANGER_MS_MIN ? timeout_ms : STRANGER_MS_MIN);
}

static void check_socket(struct bus_socket *socket, int64_t now)
{
    if (has_taken_too_long(socket, now))
        fail_socket(socket, socket->state == SOCKET_OPEN ? "no message came in time" : "connecting has taken too long");
    else if (socket->state == SOCKET_LOOKING_UP && name_lookup_is_done(socket->lookup))
        begin_connecting(socket);
}

static void on_knock(uv_poll_t *poll, int status, int events);

static void tick(struct bus_net *net)
{
    net->ticked_ms = now_ms();
    for (unsigned i = net->count; i > 0; i--)           /* one that fails is removed: those before it stay where they are */
        check_socket(net->sockets[i - 1], net->ticked_ms);
    for (int i = 0; net->accepting_failed && i < net->ear_count; i++)
        uv_poll_start(&net->ears[i].poll, UV_READABLE, on_knock);
    net->accepting_failed = false;
    net->hooks.tick(net->hooks.context);
    carry_out_orders(net);
}

static void on_timer(uv_timer_t *timer)
{
    tick(timer->data);
}

/* The timer waits until all input of a turn was read. */
static void tick_if_due(struct bus_net *net)
{
    if (now_ms() - net->ticked_ms >= TICK_MS)
        tick(net);
}

/* --- Input */

/* Returns how many bytes were whole messages; the socket may be closed then. */
static size_t read_messages(struct bus_socket *socket, struct bytes bytes)
{
    struct bus_net *net = socket->net;
    size_t at = 0;

    while (socket->state == SOCKET_OPEN && bytes.size - at >= BUS_PREFIX_SIZE) {
        struct bus_message message;
        uint32_t size;
        enum status status = bus_message_size(bytes_of(bytes.data + at, BUS_PREFIX_SIZE), socket->size_max, &size);

        if (status == STATUS_OK && bytes.size - at < size)
            break;
        if (status == STATUS_OK)
            status = bus_message_read(bytes_of(bytes.data + at, size), &message);
        if (status != STATUS_OK && status != STATUS_VERSION) {
            fail_socket(socket, status == STATUS_TOO_LARGE ? "its message is too large" : "what it sends is no message of the bus");
            break;
        }
        at += size;
        socket->since_ms = now_ms();
        if (status == STATUS_VERSION)
            continue;
        net->hooks.received(net->hooks.context, socket->link, &message, socket->from_ip, socket->own_ip);
        carry_out_orders(net);
        if (socket->state == SOCKET_OPEN)
            note_stranger(socket, net->hooks.size_max(net->hooks.context, socket->link));
        tick_if_due(net);
    }
    return at;
}

/* Keeps what is no whole message yet. */
static void take_input(struct bus_socket *socket, struct bytes bytes)
{
    struct buffer *in = &socket->in;
    size_t used;

    if (in->size == 0) {
        used = read_messages(socket, bytes);
        if (socket->state == SOCKET_OPEN)
            buffer_append(in, bytes.data + used, bytes.size - used);
    } else {
        buffer_append_bytes(in, bytes);
        used = read_messages(socket, buffer_bytes(in));
        if (socket->state == SOCKET_OPEN) {
            in->size -= used;
            memmove(in->data, in->data + used, in->size);
            buffer_shrink(in, READ_SIZE);
        }
    }
    if (socket->state != SOCKET_OPEN)
        return;
    note_buffers(socket);
    if (socket->is_stranger && socket->net->stranger_bytes > STRANGER_BYTES_MAX)
        fail_socket(socket, "connections without a known node have sent too much");
}

static void read_socket(struct bus_socket *socket)
{
    socket->has_more = true;
    for (int i = 0; socket->state == SOCKET_OPEN && !wire_is_full(&socket->wire) && i < READS_A_TURN; i++) {
        size_t got;
        enum wire_result result = wire_read(&socket->wire, socket->net->scratch, READ_SIZE, &got);

        if (got == 0) {
            socket->has_more = false;
            if (result != WIRE_OK)
                fail_wire(socket, result);
            break;
        }
        take_input(socket, bytes_of(socket->net->scratch, got));
    }
}

/* Input can be read of which no event comes. If the output is full, one comes when it isn't any more. */
static bool can_go_on(const struct bus_socket *socket)
{
    return socket->state == SOCKET_OPEN && socket->has_more && !wire_is_full(&socket->wire);
}

static void on_more(uv_idle_t *idle);

/* One turn of a socket: output first, because it decides whether input is read. */
static void run_socket(struct bus_socket *socket)
{
    struct bus_net *net = socket->net;

    if (socket->state == SOCKET_CONNECTING)
        end_connecting(socket);
    else if (socket->state == SOCKET_SHAKING)
        shake_hands(socket);
    if (socket->state == SOCKET_OPEN)
        flush_socket(socket);
    if (socket->state == SOCKET_OPEN)
        read_socket(socket);
    if (socket->state == SOCKET_OPEN)
        flush_socket(socket);           /* reading makes output of TLS, too */
    carry_out_orders(net);
    update_poll(socket);
    if (can_go_on(socket))
        uv_idle_start(&net->more, on_more);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;         /* the calls that follow report errors */
    run_socket(poll->data);
    tick_if_due(((struct bus_socket *)poll->data)->net);
}

static void on_more(uv_idle_t *idle)
{
    struct bus_net *net = idle->data;
    bool found = false;

    for (unsigned i = net->count; i > 0; i--) {
        if (i > net->count || !can_go_on(net->sockets[i - 1]))
            continue;
        found = true;
        run_socket(net->sockets[i - 1]);
    }
    if (!found)
        uv_idle_stop(idle);
    tick_if_due(net);
}

/* --- Accepting */

static void keep_alive(int fd, int64_t timeout_ms)
{
    int on = 1, idle_s = timeout_ms > 1000 ? (int)(timeout_ms / 1000 * 2) : 2, interval_s = idle_s > 3 ? idle_s / 3 : 1, count = 3;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

static void close_oldest_stranger(struct bus_net *net)
{
    unsigned i = 0;

    while (!net->sockets[i]->is_stranger)
        i++;
    fail_socket(net->sockets[i], "there are too many connections without a known node");
}

static void accept_socket(struct bus_net *net, int fd)
{
    uint64_t link = net->hooks.accepted(net->hooks.context);
    struct bus_socket *socket;

    if (link == 0) {
        close(fd);
        return;
    }
    keep_alive(fd, net->timeout_ms);
    socket = add_socket(net, link);
    begin_polling(socket, fd, SOCKET_SHAKING);
    note_stranger(socket, BUS_STRANGER_SIZE_MAX);
    if (net->stranger_count > STRANGERS_MAX)
        close_oldest_stranger(net);
    begin_talk(socket);
    update_poll(socket);
}

/* The sockets stay readable: until the next tick they are not polled, which would spin. */
static void pause_accepting(struct bus_net *net, int error)
{
    net->accepting_failed = true;
    for (int i = 0; i < net->ear_count; i++)
        uv_poll_stop(&net->ears[i].poll);
    log_write(net->log, LOG_LEVEL_WARNING, "Accepting a connection of the cluster bus: %s", strerror(error));
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
    struct bus_ear *ear = poll->data;

    (void)status, (void)events;
    for (int i = 0; i < ACCEPT_A_TURN; i++) {
        int fd = accept4(ear->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            accept_socket(ear->net, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_accepting(ear->net, errno);
        break;
    }
    carry_out_orders(ear->net);
    tick_if_due(ear->net);
}

static bool add_ear(struct bus_net *net, const char *word, uint16_t port, int backlog, struct message *message)
{
    bool is_optional = word[0] == '-';
    int fd = sockets_listen_tcp(is_optional ? word + 1 : word, port, backlog, message);

    if (fd < 0)
        return is_optional && sockets_is_missing_address(errno);
    net->ears = mem_realloc(net->ears, (size_t)(net->ear_count + 1) * sizeof(*net->ears));
    net->ears[net->ear_count++] = (struct bus_ear){ .net = net, .fd = fd };
    return true;
}

static void close_ears(struct bus_net *net)
{
    for (int i = 0; i < net->ear_count; i++)
        close(net->ears[i].fd);
    mem_free(net->ears);
    net->ears = NULL;
    net->ear_count = 0;
}

enum status bus_net_listen(struct bus_net *net, const char *const *bind, uint16_t port, int backlog, struct message *message)
{
    bool done = true;

    for (int i = 0; bind[i] != NULL && done; i++)
        done = add_ear(net, bind[i], port, backlog, message);
    if (done && net->ear_count > 0)
        return STATUS_OK;
    if (done)
        message_set(message, "The cluster bus needs an address to listen on: `bind` has none that this machine has");
    close_ears(net);
    return STATUS_INVALID;
}

/* --- The thread */

static void close_all(struct bus_net *net)
{
    while (net->count > 0)
        close_socket(net->sockets[net->count - 1]);
    uv_close((uv_handle_t *)&net->bell, NULL);
    uv_close((uv_handle_t *)&net->timer, NULL);
    uv_close((uv_handle_t *)&net->more, NULL);
}

static void on_bell(uv_async_t *bell)
{
    struct bus_net *net = bell->data;

    if (!net->stopping) {
        carry_out_orders(net);
        return;
    }
    for (int i = 0; i < net->ear_count; i++)
        uv_close((uv_handle_t *)&net->ears[i].poll, NULL);
    close_all(net);
}

static void net_main(void *context)
{
    struct bus_net *net = context;

    for (int i = 0; i < net->ear_count; i++) {
        CHECK(uv_poll_init(&net->loop, &net->ears[i].poll, net->ears[i].fd) == 0);
        net->ears[i].poll.data = &net->ears[i];
        uv_poll_start(&net->ears[i].poll, UV_READABLE, on_knock);
    }
    net->ticked_ms = now_ms();
    uv_timer_start(&net->timer, on_timer, TICK_MS, TICK_MS);
    uv_run(&net->loop, UV_RUN_DEFAULT);
}

struct bus_net *bus_net_create(const struct bus_net_hooks *hooks, const char *source, struct log *log, struct message *message)
{
    struct bus_net *net = mem_zalloc(sizeof(*net));
    int error = uv_loop_init(&net->loop);

    if (error == 0) {
        error = uv_async_init(&net->loop, &net->bell, on_bell);
        if (error != 0)
            uv_loop_close(&net->loop);
    }
    if (error != 0) {
        message_set(message, "Can't create the loop of the cluster bus: %s", uv_strerror(error));
        mem_free(net);
        return NULL;
    }
    uv_timer_init(&net->loop, &net->timer);
    uv_idle_init(&net->loop, &net->more);
    net->bell.data = net->timer.data = net->more.data = net;
    net->hooks = *hooks;
    net->source = mem_string(bytes_of_string(source));
    net->log = log;
    net->scratch = mem_alloc(READ_SIZE);
    mutex_init(&net->lock);
    return net;
}

enum status bus_net_start(struct bus_net *net, struct meter *meter, struct message *message)
{
    int error = thread_start(&net->thread, "kelvin-bus", meter, net_main, net);

    if (error == 0)
        return STATUS_OK;
    message_set(message, "Can't start the thread of the cluster bus: %s", strerror(error));
    close_ears(net);
    return STATUS_IO;
}

void bus_net_stop(struct bus_net *net)
{
    if (!net->thread.has_started)
        return;
    net->stopping = true;
    uv_async_send(&net->bell);
    thread_join(&net->thread);
}

void bus_net_destroy(struct bus_net *net)
{
    if (net == NULL)
        return;
    if (!net->stopping)
        close_all(net);
    uv_run(&net->loop, UV_RUN_DEFAULT);         /* the callbacks of what was closed */
    CHECK(uv_loop_close(&net->loop) == 0);
    close_ears(net);
    bus_orders_release(&net->orders);
    mem_free(net->sockets);
    mem_free(net->scratch);
    mem_free(net->source);
    mutex_release(&net->lock);
    mem_free(net);
}

/* --- Any thread */

void bus_net_set_limits(struct bus_net *net, const struct bus_net_limits *limits)
{
    net->queue_max = limits->queue_max;
    net->timeout_ms = limits->timeout_ms;
    net->is_tls = limits->is_tls;
}

void bus_net_wake(struct bus_net *net)
{
    uv_async_send(&net->bell);
}

bool bus_net_queue(struct bus_net *net, uint64_t link, uint64_t *allocated, uint64_t *used)
{
    const struct bus_socket *socket;

    mutex_lock(&net->lock);
    socket = find_socket(net, link);
    if (socket != NULL) {
        *used = socket->used;
        *allocated = socket->allocated;
        if (*allocated < *used)
            *allocated = *used;     /* the thread went on between the two */
    }
    mutex_unlock(&net->lock);
    return socket != NULL;
}

struct bus_net_totals bus_net_totals(struct bus_net *net)
{
    struct bus_net_totals totals = { 0 };

    mutex_lock(&net->lock);
    totals.link_count = net->count;
    for (unsigned i = 0; i < net->count; i++)
        totals.buffer_bytes += net->sockets[i]->allocated;
    mutex_unlock(&net->lock);
    return totals;
}

uint64_t bus_net_over_limit(const struct bus_net *net)
{
    return net->over_limit;
}
