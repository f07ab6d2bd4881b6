#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"

enum { SOCKETS_MAX = 17, ACCEPT_A_TURN = 1000, PAUSE_MS = 100 };

struct listening {
    uv_poll_t poll;
    struct listener *listener;
    int fd;
    bool is_unix;
};

struct listener {
    struct engine *engine;
    struct loop *main_loop;
    struct loop **loops;
    int loop_count, next_loop;
    struct listening sockets[SOCKETS_MAX];
    int count;
    uv_timer_t pause;               /* runs while no connection is accepted, because there are no descriptors or no memory */
    int spare_fd;                   /* given up for a moment to write the log when there is no other; -1: none */
    int port;
    char *unix_path;
};

static bool is_loopback(const struct sockaddr_storage *peer)
{
    if (peer->ss_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr) >> 24) == 127;
    if (peer->ss_family == AF_INET6) {
        const struct in6_addr *at = &((const struct sockaddr_in6 *)peer)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(at) || (IN6_IS_ADDR_V4MAPPED(at) && at->s6_addr[12] == 127);
    }
    return true;
}

static bool is_denied(struct listener *listener, const struct sockaddr_storage *peer)
{
    struct config *config = listener->engine->config;
    char *password;
    bool open;

    if (!config_number(config, CONFIG_PROTECTED_MODE) || is_loopback(peer))
        return false;
    password = config_string(config, CONFIG_REQUIREPASS);
    open = password[0] == '\0';
    mem_free(password);
    return open;
}

static void refuse(struct listener *listener, int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    ssize_t ignored = write(fd, text, sizeof(text) - 1);

    (void)ignored;
    atomic_fetch_add(&listener->main_loop->worker.turn.stats[STAT_REJECTED_CONNECTIONS], 1);
    close(fd);
}

static void on_knock(uv_poll_t *poll, int status, int events);

static void take_spare(struct listener *listener)
{
    if (listener->spare_fd < 0)
        listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_pause_over(uv_timer_t *timer)
{
    struct listener *listener = timer->data;

    take_spare(listener);
    for (int i = 0; i < listener->count; i++)
        uv_poll_start(&listener->sockets[i].poll, UV_READABLE, on_knock);
}

/* The sockets stay readable: polling them would spin, and use the CPU that the other clients need to finish and give descriptors back. */
static void pause_accepting(struct listener *listener, int error)
{
    for (int i = 0; i < listener->count; i++)
        uv_poll_stop(&listener->sockets[i].poll);
    uv_timer_start(&listener->pause, on_pause_over, PAUSE_MS, 0);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->spare_fd = -1;
    log_write(listener->engine->log, LOG_LEVEL_WARNING, "Accepting client connection: %s", strerror(error));
    take_spare(listener);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
    struct listening *listening = poll->data;
    struct listener *listener = listening->listener;
    struct engine *engine = listener->engine;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPT_A_TURN; i++) {
        struct sockaddr_storage peer = { 0 };
        socklen_t size = sizeof(peer);
        int fd = accept4(listening->fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct loop *loop;

        if (fd < 0) {
            if (is_shortage(errno))
                pause_accepting(listener, errno);
            else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                log_write(engine->log, LOG_LEVEL_WARNING, "Accepting client connection: %s", strerror(errno));
            return;
        }
        if (engine->client_count >= config_number(engine->config, CONFIG_MAXCLIENTS)) {
            refuse(listener, fd);
            continue;
        }
        engine->client_count++;
        loop = listener->loops[listener->next_loop];
        listener->next_loop = (listener->next_loop + 1) % listener->loop_count;
        loop_accept(loop, (struct accepted){ fd, ++engine->client_last_id, listening->is_unix, !listening->is_unix && is_denied(listener, &peer) });
    }
}

static void add_socket(struct listener *listener, int fd, bool is_unix)
{
    struct listening *listening = &listener->sockets[listener->count++];

    listening->listener = listener;
    listening->fd = fd;
    listening->is_unix = is_unix;
    uv_poll_init(&listener->main_loop->uv, &listening->poll, fd);
    listening->poll.data = listening;
    uv_poll_start(&listening->poll, UV_READABLE, on_knock);
}

static int listen_backlog(const struct listener *listener)
{
    return (int)config_number(listener->engine->config, CONFIG_TCP_BACKLOG);
}

/* Returns false with errno if it can't be bound. */
static bool listen_tcp(struct listener *listener, const char *host, int port, struct message *message)
{
    struct addrinfo hints = { .ai_family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    char service[16];
    int fd, one = 1, error;

    snprintf(service, sizeof(service), "%d", port);
    error = getaddrinfo(host, service, &hints, &found);
    if (error != 0) {
        message_set(message, "Could not create server TCP listening socket %s:%d: %s", host, port, gai_strerror(error));
        errno = EADDRNOTAVAIL;
        return false;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (found->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, listen_backlog(listener)) != 0) {
        error = errno;
        message_set(message, "Could not create server TCP listening socket %s:%d: bind: %s", host, port, strerror(error));
        if (fd >= 0)
            close(fd);
        freeaddrinfo(found);
        errno = error;
        return false;
    }
    freeaddrinfo(found);
    add_socket(listener, fd, false);
    return true;
}

static bool listen_all_tcp(struct listener *listener, struct message *message)
{
    char *bind_list = config_string(listener->engine->config, CONFIG_BIND), *rest = NULL;
    bool good = true;

    for (char *word = strtok_r(bind_list, " ", &rest); word != NULL && good; word = strtok_r(NULL, " ", &rest)) {
        bool optional = word[0] == '-';
        const char *host = optional ? word + 1 : word;

        if (listener->count == SOCKETS_MAX - 1)
            break;
        if (strcmp(host, "*") == 0)
            host = "0.0.0.0";
        if (strcmp(host, "::*") == 0)
            host = "::";
        if (!listen_tcp(listener, host, listener->port, message))
            good = optional && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ENOPROTOOPT);
    }
    mem_free(bind_list);
    return good;
}

static bool listen_unix(struct listener *listener, struct message *message)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int64_t mode = config_number(listener->engine->config, CONFIG_UNIXSOCKETPERM);
    int fd;

    if (strlen(listener->unix_path) >= sizeof(address.sun_path)) {
        message_set(message, "Failed opening Unix socket: the path is too long");
        return false;
    }
    strcpy(address.sun_path, listener->unix_path);
    unlink(listener->unix_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, listen_backlog(listener)) != 0) {
        message_set(message, "Failed opening Unix socket: bind: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    if (mode != 0 && chmod(listener->unix_path, (mode_t)mode) != 0)
        log_write(listener->engine->log, LOG_LEVEL_WARNING, "Could not set the permissions of the Unix socket: %s", strerror(errno));
    add_socket(listener, fd, true);
    return true;
}

struct listener *listener_open(struct loop *main_loop, struct loop **loops, int loop_count, struct message *message)
{
    struct listener *listener = mem_zalloc(sizeof(*listener));
    struct config *config = main_loop->engine->config;

    listener->engine = main_loop->engine;
    listener->main_loop = main_loop;
    listener->loops = loops;
    listener->loop_count = loop_count;
    listener->port = (int)config_number(config, CONFIG_PORT);
    listener->unix_path = config_string(config, CONFIG_UNIXSOCKET);
    listener->spare_fd = -1;
    take_spare(listener);
    uv_timer_init(&main_loop->uv, &listener->pause);
    listener->pause.data = listener;
    if ((listener->port != 0 && !listen_all_tcp(listener, message)) || (listener->unix_path[0] != '\0' && !listen_unix(listener, message)))
        goto failed;
    if (listener->count == 0) {
        message_set(message, "Configured to not listen anywhere, exiting.");
        goto failed;
    }
    return listener;
failed:
    listener_close(listener);
    uv_run(&main_loop->uv, UV_RUN_NOWAIT);
    listener_destroy(listener);
    return NULL;
}

void listener_close(struct listener *listener)
{
    for (int i = 0; i < listener->count; i++) {
        struct listening *listening = &listener->sockets[i];

        uv_poll_stop(&listening->poll);
        uv_close((uv_handle_t *)&listening->poll, NULL);
        close(listening->fd);
        if (listening->is_unix)
            unlink(listener->unix_path);
    }
    listener->count = 0;
    uv_close((uv_handle_t *)&listener->pause, NULL);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->spare_fd = -1;
}

void listener_destroy(struct listener *listener)
{
    mem_free(listener->unix_path);
    mem_free(listener);
}

int listener_port(const struct listener *listener)
{
    return listener->port;
}
