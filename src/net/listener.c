#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acl/acl.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sockets.h"
#include "net/tls.h"

enum {
    ACCEPT_A_TURN = 100,            /* new connections, each some 20 us of work: then clients that are connected have their turn */
    PAUSE_MS = 100,
};

enum listen_kind { LISTEN_TCP, LISTEN_TLS, LISTEN_UNIX };

struct listening {
    uv_poll_t poll;                 /* main loop */
    struct listener *listener;
    enum listen_kind kind;
    int fd;
    char *host;                     /* as in `bind`, without '-'; of a Unix socket its path */
    int port;
    bool kept;                      /* lock: wanted by the change that is being made */
    struct listening *next;         /* lock: in listener->sockets, or in the list of a change */
    _Atomic bool retired;           /* no longer in listener->sockets: the main loop closes it */
    struct listening *next_polled;  /* main loop */
};

struct listener {
    struct engine *engine;
    struct loop *main_loop;
    struct loop **loops;
    int loop_count, next_loop;
    struct mutex lock;              /* held while sockets are opened and exchanged; not to accept */
    struct listening *sockets;      /* lock: all that listen */
    struct listening *polled;       /* main loop: the same, once its mail has been read */
    bool closed;                    /* lock */
    uv_timer_t pause;               /* runs while no connection is accepted, because there are no descriptors or no memory */
    int spare_fd;                   /* given up for a moment to write the log when there is no other; -1: none */
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

/* On a worker's thread, as acl_user_rules wants it. */
static bool is_denied(struct listener *listener, const struct sockaddr_storage *peer)
{
    if (!config_number(listener->engine->config, CONFIG_PROTECTED_MODE) || is_loopback(peer))
        return false;
    return acl_rules_need_no_password(acl_user_rules(acl_default(listener->engine->users.acl)));
}

/* A client with TLS could not read clear text: it is closed without a reason. */
static void refuse_connection(struct listener *listener, enum listen_kind kind, int fd)
{
    const char *text = listener->engine->replication.cluster != NULL ? "-ERR max number of clients + cluster connections reached\r\n"
        : "-ERR max number of clients reached\r\n";

    if (kind != LISTEN_TLS) {
        ssize_t ignored = write(fd, text, strlen(text));

        (void)ignored;
    }
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
    for (struct listening *at = listener->polled; at != NULL; at = at->next_polled)
        uv_poll_start(&at->poll, UV_READABLE, on_knock);
}

/* The sockets stay readable: polling them would spin, and use the CPU that the other clients need to finish and give descriptors back. */
static void pause_accepting(struct listener *listener, int error)
{
    for (struct listening *at = listener->polled; at != NULL; at = at->next_polled)
        uv_poll_stop(&at->poll);
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
            else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED && errno != EINVAL)     /* EINVAL: sockets_retire */
                log_write(engine->log, LOG_LEVEL_WARNING, "Accepting client connection: %s", strerror(errno));
            return;
        }
        if (engine->clients.count >= config_number(engine->config, CONFIG_MAXCLIENTS)) {
            refuse_connection(listener, listening->kind, fd);
            continue;
        }
        engine->clients.count++;
        loop = listener->loops[listener->next_loop];
        listener->next_loop = (listener->next_loop + 1) % listener->loop_count;
        loop_accept(loop, (struct accepted){
            .fd = fd,
            .id = ++engine->clients.last_id,
            .is_unix = listening->kind == LISTEN_UNIX,
            .is_tls = listening->kind == LISTEN_TLS,
            .is_denied = listening->kind != LISTEN_UNIX && is_denied(listener, &peer),
        });
    }
}

/* -- The sockets that are polled: main loop -- */

static void free_listening(struct listening *listening)
{
    mem_free(listening->host);
    mem_free(listening);
}

static void on_closed(uv_handle_t *handle)
{
    free_listening(handle->data);
}

static void stop_polling(struct listening *listening)
{
    uv_poll_stop(&listening->poll);
    uv_close((uv_handle_t *)&listening->poll, on_closed);
    close(listening->fd);
    if (listening->kind == LISTEN_UNIX)
        unlink(listening->host);
}

static void start_polling(struct listener *listener, struct listening *listening)
{
    uv_poll_init(&listener->main_loop->uv, &listening->poll, listening->fd);
    listening->poll.data = listening;
    listening->next_polled = listener->polled;
    listener->polled = listening;
    if (!uv_is_active((uv_handle_t *)&listener->pause))
        uv_poll_start(&listening->poll, UV_READABLE, on_knock);
}

static void drop_retired(struct listener *listener)
{
    struct listening **at = &listener->polled;

    while (*at != NULL) {
        struct listening *listening = *at;

        if (!listening->retired) {
            at = &listening->next_polled;
            continue;
        }
        *at = listening->next_polled;
        stop_polling(listening);
    }
}

struct change_mail {
    struct mail mail;
    struct listener *listener;
    struct listening *opened;       /* a list by next_polled, for `next` belongs to the lock */
};

static void run_change(struct mail *mail, struct worker *worker)
{
    struct change_mail *change = (struct change_mail *)mail;
    struct listener *listener = change->listener;

    (void)worker;
    while (change->opened != NULL) {
        struct listening *listening = change->opened;

        change->opened = listening->next_polled;
        if (uv_is_closing((uv_handle_t *)&listener->pause)) {
            close(listening->fd);
            free_listening(listening);
        } else {
            start_polling(listener, listening);
        }
    }
    drop_retired(listener);
    mem_free(change);
}

/* -- The addresses: any worker, under the lock -- */

static int listen_backlog(const struct listener *listener)
{
    return (int)config_number(listener->engine->config, CONFIG_TCP_BACKLOG);
}

/* A change of the sockets, before it is certain. */
struct change {
    struct listener *listener;
    bool opens;                     /* false: only marks what is there already */
    struct listening *opened;       /* by `next` */
    struct message *message;
    int error;                      /* errno of the address that could not be opened last */
};

static struct listening *find_socket(const struct listener *listener, enum listen_kind kind, const char *host, int port)
{
    struct listening *at = listener->sockets;

    while (at != NULL && !(at->kind == kind && at->port == port && strcmp(at->host, host) == 0))
        at = at->next;
    return at;
}

static void add_opened(struct change *change, enum listen_kind kind, const char *host, int port, int fd)
{
    struct listening *listening = mem_zalloc(sizeof(*listening));

    listening->listener = change->listener;
    listening->kind = kind;
    listening->host = mem_string(bytes_of_string(host));
    listening->port = port;
    listening->fd = fd;
    listening->next = change->opened;
    change->opened = listening;
}

static bool want_address(struct change *change, enum listen_kind kind, const char *host, int port)
{
    struct listening *old = find_socket(change->listener, kind, host, port);
    int fd;

    if (old != NULL)
        old->kept = true;
    if (old != NULL || !change->opens)
        return true;
    fd = sockets_listen_tcp(host, port, listen_backlog(change->listener), change->message);
    if (fd < 0) {
        change->error = errno;
        return false;
    }
    add_opened(change, kind, host, port, fd);
    return true;
}

/* Every address of `bind` with this port; 0: none. */
static bool want_port(struct change *change, enum listen_kind kind, int port)
{
    char *list = config_string(change->listener->engine->config, CONFIG_BIND), *rest = NULL;
    bool good = true;

    for (char *word = strtok_r(list, " ", &rest); word != NULL && good && port != 0; word = strtok_r(NULL, " ", &rest)) {
        bool optional = word[0] == '-';

        good = want_address(change, kind, optional ? word + 1 : word, port) || (optional && sockets_is_missing_address(change->error));
    }
    mem_free(list);
    return good;
}

static void close_opened(struct change *change)
{
    while (change->opened != NULL) {
        struct listening *listening = change->opened;

        change->opened = listening->next;
        close(listening->fd);
        free_listening(listening);
    }
}

/* Walks all addresses that the configuration asks for. */
static bool want_all(struct change *change)
{
    const struct config *config = change->listener->engine->config;

    if (want_port(change, LISTEN_TCP, (int)config_number(config, CONFIG_PORT)) &&
        want_port(change, LISTEN_TLS, (int)config_number(config, CONFIG_TLS_PORT)))
        return true;
    close_opened(change);
    return false;
}

static void retire_unwanted(const struct listener *listener)
{
    for (struct listening *at = listener->sockets; at != NULL; at = at->next) {
        if (!at->kept)
            sockets_retire(at->fd);
    }
}

static void revive_unwanted(const struct listener *listener)
{
    for (struct listening *at = listener->sockets; at != NULL; at = at->next) {
        if (!at->kept && !sockets_revive(at->fd, listen_backlog(listener)))
            log_write(listener->engine->log, LOG_LEVEL_WARNING, "Can't listen at %s:%d again: %s", at->host, at->port, strerror(errno));
    }
}

/* Opens what is missing. An old socket may be in the way of a new one: one address of all, or TLS instead of TCP. Then the unwanted ones stop
 * listening first, and begin again if that was of no use. */
static bool open_missing(struct change *change)
{
    struct listener *listener = change->listener;

    for (struct listening *at = listener->sockets; at != NULL; at = at->next)
        at->kept = at->kind == LISTEN_UNIX;
    change->opens = false;
    want_all(change);
    change->opens = true;
    if (want_all(change))
        return true;
    if (change->error != EADDRINUSE)
        return false;
    retire_unwanted(listener);
    if (want_all(change))
        return true;
    revive_unwanted(listener);
    return false;
}

/* The unwanted sockets leave the list, the opened ones join it, and the main loop is notified of both. */
static void exchange(struct change *change)
{
    struct listener *listener = change->listener;
    struct change_mail *mail;
    bool changes = change->opened != NULL;

    for (struct listening **at = &listener->sockets; *at != NULL;) {
        struct listening *listening = *at;

        if (listening->kept) {
            at = &listening->next;
            continue;
        }
        sockets_retire(listening->fd);          /* at once: the reply to CONFIG SET means that it no longer listens */
        *at = listening->next;
        listening->retired = true;              /* from here on it belongs to the main loop */
        changes = true;
    }
    if (!changes)
        return;
    mail = mem_zalloc(sizeof(*mail));
    while (change->opened != NULL) {
        struct listening *listening = change->opened;

        change->opened = listening->next;
        listening->next = listener->sockets;
        listener->sockets = listening;
        listening->next_polled = mail->opened;
        mail->opened = listening;
    }
    mail->mail.run = run_change;
    mail->listener = listener;
    mailbox_post(&listener->main_loop->worker.mailbox, &mail->mail);
}

/* Makes the sockets what the configuration says, or leaves them as they are. */
static bool apply_config(struct listener *listener, struct message *message)
{
    struct change change = { .listener = listener, .message = message };
    bool done;

    mutex_lock(&listener->lock);
    done = !listener->closed && open_missing(&change);
    if (done)
        exchange(&change);
    mutex_unlock(&listener->lock);
    return done;
}

static bool addresses_changed(void *context, enum config_id id, struct message *message)
{
    struct listener *listener = context;
    struct message reason = { "" };

    if (id == CONFIG_TLS_PORT && config_number(listener->engine->config, id) != 0 && !tls_configure(listener->main_loop->tls)) {
        message_set(message, "Unable to update TLS configuration. Check server logs.");
        return false;
    }
    if (apply_config(listener, &reason))
        return true;
    log_write(listener->engine->log, LOG_LEVEL_WARNING, "%s", reason.text);
    message_set(message, "%s", id == CONFIG_BIND ? "Failed to bind to specified addresses." : "Unable to listen on this port. Check server logs.");
    return false;
}

void listener_watch_config(struct listener *listener)
{
    config_on_change(listener->engine->config, CONFIG_BIND, addresses_changed, listener);
    config_on_change(listener->engine->config, CONFIG_PORT, addresses_changed, listener);
    config_on_change(listener->engine->config, CONFIG_TLS_PORT, addresses_changed, listener);
}

/* -- Start and end: main loop -- */

static bool open_unix(struct listener *listener, struct message *message)
{
    struct config *config = listener->engine->config;
    char *path = config_string(config, CONFIG_UNIXSOCKET);
    struct change change = { .listener = listener };
    int fd = 0;

    if (path[0] != '\0')
        fd = sockets_listen_unix(path, (mode_t)config_number(config, CONFIG_UNIXSOCKETPERM), listen_backlog(listener), message);
    if (fd > 0) {
        add_opened(&change, LISTEN_UNIX, path, 0, fd);
        listener->sockets = change.opened;
        start_polling(listener, change.opened);
    }
    mem_free(path);
    return fd >= 0;
}

struct listener *listener_open(struct loop *main_loop, struct loop **loops, int loop_count, struct message *message)
{
    struct listener *listener = mem_zalloc(sizeof(*listener));

    listener->engine = main_loop->engine;
    listener->main_loop = main_loop;
    listener->loops = loops;
    listener->loop_count = loop_count;
    listener->spare_fd = -1;
    mutex_init(&listener->lock);
    take_spare(listener);
    uv_timer_init(&main_loop->uv, &listener->pause);
    listener->pause.data = listener;
    if (!open_unix(listener, message) || !apply_config(listener, message))
        goto failed;
    if (listener->sockets == NULL) {
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
    mutex_lock(&listener->lock);
    listener->closed = true;
    listener->sockets = NULL;
    mutex_unlock(&listener->lock);
    while (listener->polled != NULL) {
        struct listening *listening = listener->polled;

        listener->polled = listening->next_polled;
        stop_polling(listening);
    }
    uv_close((uv_handle_t *)&listener->pause, NULL);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->spare_fd = -1;
}

void listener_destroy(struct listener *listener)
{
    mutex_release(&listener->lock);
    mem_free(listener);
}
