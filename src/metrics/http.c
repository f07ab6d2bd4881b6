#include "metrics/http.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "metrics/addresses.h"
#include "metrics/host.h"

enum {
    REQUEST_MEMORY = 16 * 1024,     /* of a connection: its request line and headers */
    BODY_MAX = 64 * 1024,           /* of a request that must have none: read, so that the reply reaches its client */
    MHD_CONNECTIONS = HTTP_CONNECTIONS + 8,
    POLLED_BEFORE = 2,              /* the bell, libmicrohttpd's epoll */
};

static const char plain[] = "text/plain; charset=utf-8", ending[] = "The server is ending.";

/* A connection. kelvin-http only. */
struct visitor {
    struct visitor *next, **link;
    int fd;
    int64_t deadline_us;            /* monotonic */
    bool is_waiting;                /* for a page: `exchange.deadline_us` counts */
};

/* How far kelvin-page has come with it. */
enum progress { PAGE_QUEUED, PAGE_WRITTEN_NOW, PAGE_DONE };

/* A request and its reply. kelvin-http's, but for what is written while `progress` is PAGE_WRITTEN_NOW. */
struct exchange {
    const struct http_route *route; /* NULL: the reply is there already */
    struct http_request request;
    struct http_response response;
    struct MHD_Connection *connection;
    struct visitor *visitor;
    size_t body_size;
    int64_t deadline_us;            /* of the page; 0: kelvin-page was not asked */
    struct exchange *next_suspended;
    enum progress progress;         /* lock */
    bool is_orphan;                 /* lock: its connection is gone; kelvin-page frees it */
    struct exchange *next_queued;   /* lock */
};

struct http {
    struct http_options options;
    struct addresses addresses;
    struct thread thread, page_thread;
    struct MHD_Daemon *daemon;
    int bell;                       /* eventfd: kelvin-http is to look */
    _Atomic bool stopping;

    struct visitor *visitors;       /* kelvin-http */
    int visitor_count;
    struct exchange *suspended;     /* the same: connections that wait for a page */

    struct mutex lock;              /* guards the queue; leaf */
    struct condition asked;
    struct exchange *queue;
};

static void ring_bell(struct http *http)
{
    uint64_t one = 1;
    ssize_t ignored = write(http->bell, &one, sizeof(one));

    (void)ignored;
}

/* --- kelvin-page --- */

static void free_exchange(struct exchange *exchange)
{
    buffer_release(&exchange->response.body);
    mem_free(exchange);
}

/* NULL: the server ends. */
static struct exchange *next_page(struct http *http)
{
    struct exchange *exchange;

    mutex_lock(&http->lock);
    while (http->queue == NULL && !http->stopping)
        condition_wait(&http->asked, &http->lock);
    exchange = http->stopping ? NULL : http->queue;
    if (exchange != NULL) {
        http->queue = exchange->next_queued;
        exchange->progress = PAGE_WRITTEN_NOW;
    }
    mutex_unlock(&http->lock);
    return exchange;
}

static void page_main(void *context)
{
    struct http *http = context;
    struct exchange *exchange;

    while ((exchange = next_page(http)) != NULL) {
        bool is_orphan;

        exchange->route->serve(http->options.context, &exchange->request, &exchange->response);
        mutex_lock(&http->lock);
        exchange->progress = PAGE_DONE;
        is_orphan = exchange->is_orphan;
        mutex_unlock(&http->lock);
        if (is_orphan)
            free_exchange(exchange);
        else
            ring_bell(http);
    }
}

static void ask_for_page(struct http *http, struct exchange *exchange)
{
    struct exchange **at = &http->queue;

    exchange->deadline_us = clock_mono_us() + http->options.page_ms * INT64_C(1000);
    exchange->next_suspended = http->suspended;
    http->suspended = exchange;
    exchange->visitor->is_waiting = true;
    MHD_suspend_connection(exchange->connection);
    mutex_lock(&http->lock);
    while (*at != NULL)
        at = &(*at)->next_queued;
    *at = exchange;
    exchange->progress = PAGE_QUEUED;
    condition_signal(&http->asked);
    mutex_unlock(&http->lock);
}

/* The connection is gone, or has its reply. */
static void drop_exchange(struct http *http, struct exchange *exchange)
{
    struct exchange **at = &http->queue;
    bool is_in_use;

    mutex_lock(&http->lock);
    while (*at != NULL && *at != exchange)
        at = &(*at)->next_queued;
    if (*at != NULL)
        *at = exchange->next_queued;
    is_in_use = exchange->progress == PAGE_WRITTEN_NOW;
    exchange->is_orphan = is_in_use;
    mutex_unlock(&http->lock);
    if (!is_in_use)
        free_exchange(exchange);
}

/* --- Replies: kelvin-http --- */

static void free_body(void *body)
{
    mem_free(body);
}

/* Takes the body. */
static enum MHD_Result reply(struct MHD_Connection *connection, struct http_response *response)
{
    struct MHD_Response *page;
    enum MHD_Result result;

    if (response->body.size == 0)
        buffer_append_string(&response->body, "\n");
    page = MHD_create_response_from_buffer_with_free_callback(response->body.size, response->body.data, free_body);
    if (page == NULL)
        return MHD_NO;
    response->body = (struct buffer){ 0 };
    MHD_add_response_header(page, MHD_HTTP_HEADER_CONTENT_TYPE, response->type);
    MHD_add_response_header(page, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(page, "X-Content-Type-Options", "nosniff");
    if (response->policy != NULL)
        MHD_add_response_header(page, "Content-Security-Policy", response->policy);
    if (response->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(page, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (response->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(page, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"Kelvin\", charset=\"UTF-8\"");
    result = MHD_queue_response(connection, (unsigned)response->status, page);
    MHD_destroy_response(page);
    return result;
}

static enum MHD_Result reply_sentence(struct MHD_Connection *connection, int status, const char *sentence)
{
    struct http_response response = { .status = status, .type = plain };

    buffer_append_format(&response.body, "%s\n", sentence);
    return reply(connection, &response);
}

/* --- Requests: kelvin-http --- */

static struct visitor *visitor_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

static void note_address(struct MHD_Connection *connection, char out[64])
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr_in6 *six;
    const struct sockaddr_in *four;
    char host[INET6_ADDRSTRLEN] = "?";

    snprintf(out, 64, "?:0");
    if (info == NULL || info->client_addr == NULL)
        return;
    if (info->client_addr->sa_family == AF_INET6) {
        six = (const void *)info->client_addr;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(out, 64, "[%s]:%d", host, ntohs(six->sin6_port));
    } else {
        four = (const void *)info->client_addr;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(out, 64, "%s:%d", host, ntohs(four->sin_port));
    }
}

static bool is_local(struct MHD_Connection *connection)
{
    char ip[ENDPOINT_IP_SIZE];

    endpoint_ip_of_peer(visitor_of(connection)->fd, ip);
    return host_is_loopback(ip);
}

static bool has_foreign_name(struct MHD_Connection *connection)
{
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    char machine[HOST_NAME_MAX + 1] = "", ip[ENDPOINT_IP_SIZE];

    endpoint_ip_of_self(visitor_of(connection)->fd, ip);
    gethostname(machine, sizeof(machine) - 1);
    return host_is_loopback(ip) && !host_is_own(host, machine);
}

static enum http_admission ask_admission(struct http *http, struct MHD_Connection *connection)
{
    struct http_caller caller = { .user = NULL };
    char *password = NULL, *user = MHD_basic_auth_get_username_password(connection, &password);
    enum http_admission admission;

    caller.user = user;
    caller.password = password;
    if (user == NULL || password == NULL)
        caller.user = caller.password = NULL;
    note_address(connection, caller.address);
    caller.is_local = is_local(connection);
    caller.has_foreign_name = has_foreign_name(connection);
    admission = http->options.admit(http->options.context, &caller);
    MHD_free(user);
    MHD_free(password);
    return admission;
}

static const struct http_route *find_route(const struct http *http, const char *path)
{
    for (const struct http_route *route = http->options.routes; route->path != NULL; route++) {
        if (strcmp(route->path, path) == 0)
            return route;
    }
    return NULL;
}

static void read_headers(struct MHD_Connection *connection, struct http_request *request)
{
    const char *accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);

    if (accept != NULL && strlen(accept) < sizeof(request->accept))
        memcpy(request->accept, accept, strlen(accept) + 1);
}

/* The request is complete. */
static enum MHD_Result answer(struct http *http, struct exchange *exchange, const char *path)
{
    struct MHD_Connection *connection = exchange->connection;

    if (exchange->body_size > 0)
        return reply_sentence(connection, MHD_HTTP_BAD_REQUEST, "A request has no body here.");
    exchange->route = find_route(http, path);
    if (exchange->route == NULL)
        return reply_sentence(connection, MHD_HTTP_NOT_FOUND, "There is no such page.");
    if (exchange->route->access == HTTP_GUARDED) {
        enum http_admission admission = ask_admission(http, connection);

        if (admission == HTTP_LOGIN_WANTED)
            return reply_sentence(connection, MHD_HTTP_UNAUTHORIZED, "This server has users: name and password of one that may call INFO are needed.");
        if (admission == HTTP_FORBIDDEN)
            return reply_sentence(connection, MHD_HTTP_FORBIDDEN, "This user may not call INFO.");
        if (admission == HTTP_FOREIGN_NAME)
            return reply_sentence(connection, MHD_HTTP_FORBIDDEN, "This address is only for this machine: call it localhost, or by its IP address.");
        exchange->request.is_privileged = admission == HTTP_PRIVILEGED;
    }
    read_headers(connection, &exchange->request);
    exchange->response = (struct http_response){ .status = MHD_HTTP_OK, .type = plain };
    /* libmicrohttpd ends the process if a connection is suspended when its daemon is stopped: also one with further requests in its buffer. */
    if (exchange->route->thread == HTTP_APART && http->stopping)
        return reply_sentence(connection, MHD_HTTP_SERVICE_UNAVAILABLE, ending);
    if (exchange->route->thread == HTTP_APART) {
        ask_for_page(http, exchange);
        return MHD_YES;
    }
    exchange->route->serve(http->options.context, &exchange->request, &exchange->response);
    return reply(connection, &exchange->response);
}

/* The connection was resumed: its page is there, or is not waited for any more. */
static enum MHD_Result answer_late(struct http *http, struct exchange *exchange)
{
    bool is_done;

    mutex_lock(&http->lock);
    is_done = exchange->progress == PAGE_DONE;
    mutex_unlock(&http->lock);
    if (is_done)
        return reply(exchange->connection, &exchange->response);
    return reply_sentence(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE, http->stopping ? ending :
        "The numbers can't be read now: the pages before this one take long, or a call has had its partitions locked for seconds.");
}

static bool is_known_method(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* libmicrohttpd calls this with the headers, then with each piece of a body, then at the end of the request, and again when the connection was resumed. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
    const char *body, size_t *body_size, void **state)
{
    struct http *http = context;
    struct exchange *exchange = *state;

    (void)version;
    (void)body;
    if (exchange == NULL) {
        if (!is_known_method(method))
            return reply_sentence(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD.");
        *state = exchange = mem_zalloc(sizeof(*exchange));
        exchange->connection = connection;
        exchange->visitor = visitor_of(connection);
        return MHD_YES;
    }
    if (*body_size > 0) {
        exchange->body_size += *body_size;
        *body_size = 0;
        return exchange->body_size <= BODY_MAX ? MHD_YES : MHD_NO;
    }
    return exchange->deadline_us == 0 ? answer(http, exchange, path) : answer_late(http, exchange);
}

static void on_end(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code)
{
    struct visitor *visitor = visitor_of(connection);

    (void)code;
    if (visitor != NULL)
        visitor->deadline_us = clock_mono_us() + HTTP_REQUEST_S * INT64_C(1000000);
    if (*state != NULL)
        drop_exchange(context, *state);
    *state = NULL;
}

/* --- Connections: kelvin-http --- */

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    struct http *http = context;
    struct visitor *visitor = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        visitor = mem_zalloc(sizeof(*visitor));
        visitor->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        visitor->deadline_us = clock_mono_us() + HTTP_REQUEST_S * INT64_C(1000000);
        visitor->next = http->visitors;
        visitor->link = &http->visitors;
        if (visitor->next != NULL)
            visitor->next->link = &visitor->next;
        http->visitors = visitor;
        http->visitor_count++;
        *socket_context = visitor;
    } else if (visitor != NULL) {
        *visitor->link = visitor->next;
        if (visitor->next != NULL)
            visitor->next->link = visitor->link;
        http->visitor_count--;
        mem_free(visitor);
        *socket_context = NULL;
    }
}

/* libmicrohttpd sees its end, and closes it. */
static void cut(struct visitor *visitor)
{
    shutdown(visitor->fd, SHUT_RDWR);
    visitor->deadline_us = INT64_MAX;
}

static void cut_overdue(struct http *http, int64_t now_us)
{
    for (struct visitor *visitor = http->visitors; visitor != NULL; visitor = visitor->next) {
        if (visitor->deadline_us <= now_us && !visitor->is_waiting)
            cut(visitor);
    }
}

/* Returns the one that was served something the longest ago, of those that do not wait for a page. NULL: all wait. */
static struct visitor *find_idle(const struct http *http)
{
    struct visitor *first = NULL;

    for (struct visitor *visitor = http->visitors; visitor != NULL; visitor = visitor->next) {
        if (!visitor->is_waiting && (first == NULL || visitor->deadline_us < first->deadline_us))
            first = visitor;
    }
    return first;
}

static void cut_all(struct http *http)
{
    for (struct visitor *visitor = http->visitors; visitor != NULL; visitor = visitor->next)
        cut(visitor);
}

/* One at a time: the next look comes after libmicrohttpd has closed what was cut. */
static void accept_one(struct http *http, int listening)
{
    struct sockaddr_storage peer = { 0 };
    socklen_t size = sizeof(peer);
    int fd;

    if (http->visitor_count >= HTTP_CONNECTIONS) {
        struct visitor *idle = find_idle(http);

        if (idle != NULL)
            cut(idle);
        return;
    }
    fd = accept4(listening, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        MHD_add_connection(http->daemon, fd, (const struct sockaddr *)&peer, size);
}

/* Resumes those whose page is there, or is late. */
static void resume_waiting(struct http *http, int64_t now_us, bool all)
{
    struct exchange **at = &http->suspended;

    while (*at != NULL) {
        struct exchange *exchange = *at;
        bool is_done;

        mutex_lock(&http->lock);
        is_done = exchange->progress == PAGE_DONE;
        mutex_unlock(&http->lock);
        if (!is_done && exchange->deadline_us > now_us && !all) {
            at = &exchange->next_suspended;
            continue;
        }
        *at = exchange->next_suspended;
        exchange->visitor->is_waiting = false;
        MHD_resume_connection(exchange->connection);
    }
}

/* --- The thread kelvin-http --- */

static int wait_ms(struct http *http)
{
    MHD_UNSIGNED_LONG_LONG wanted;

    int most = http->suspended != NULL && http->options.page_ms < HTTP_TICK_MS ? http->options.page_ms : HTTP_TICK_MS;

    return MHD_get_timeout(http->daemon, &wanted) == MHD_YES && wanted < (unsigned)most ? (int)wanted : most;
}

static void hear_bell(struct http *http)
{
    uint64_t count;
    ssize_t ignored = read(http->bell, &count, sizeof(count));

    (void)ignored;
}

/* Lists what poll looks at: the bell, libmicrohttpd, then the addresses. While no more connection fits, and none can be cut, the addresses are not looked at. */
static nfds_t prepare_poll(struct http *http, const struct address_list *listening, struct pollfd *polled)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    bool is_full = http->visitor_count >= HTTP_CONNECTIONS && find_idle(http) == NULL;

    polled[0] = (struct pollfd){ .fd = http->bell, .events = POLLIN };
    polled[1] = (struct pollfd){ .fd = info->epoll_fd, .events = POLLIN };
    for (int i = 0; i < listening->count; i++)
        polled[POLLED_BEFORE + i] = (struct pollfd){ .fd = listening->at[i].fd, .events = is_full ? 0 : POLLIN };
    return POLLED_BEFORE + (nfds_t)listening->count;
}

static void http_main(void *context)
{
    struct http *http = context;
    struct address_list listening = { .count = 0 };
    struct pollfd polled[POLLED_BEFORE + ADDRESSES_MAX];
    int64_t ticked_us = 0;
    uint64_t version = 0;

    while (!http->stopping) {
        nfds_t count;
        int64_t now_us;

        if (addresses_take(&http->addresses, &listening, &version))
            cut_all(http);
        MHD_run(http->daemon);
        count = prepare_poll(http, &listening, polled);
        if (poll(polled, count, wait_ms(http)) > 0 && polled[0].revents != 0)
            hear_bell(http);
        now_us = clock_mono_us();
        for (nfds_t i = POLLED_BEFORE; i < count; i++) {
            if (polled[i].revents & POLLIN)
                accept_one(http, polled[i].fd);
        }
        resume_waiting(http, now_us, false);
        if (now_us - ticked_us < HTTP_TICK_MS * INT64_C(1000))
            continue;
        ticked_us = now_us;
        cut_overdue(http, now_us);
        if (http->options.tick != NULL)
            http->options.tick(http->options.context);
    }
    resume_waiting(http, 0, true);
    MHD_run(http->daemon);
    MHD_stop_daemon(http->daemon);
}

/* --- Start and end --- */

struct http *http_create(const struct http_options *options)
{
    struct http *http = mem_zalloc(sizeof(*http));

    http->options = *options;
    if (http->options.page_ms == 0)
        http->options.page_ms = HTTP_PAGE_MS;
    http->bell = -1;
    addresses_init(&http->addresses);
    mutex_init(&http->lock);
    condition_init(&http->asked);
    return http;
}

static bool start_daemon(struct http *http, struct message *message)
{
    http->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (http->bell >= 0)
        http->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http,
            MHD_OPTION_CONNECTION_LIMIT, (unsigned)MHD_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MEMORY,
            MHD_OPTION_NOTIFY_COMPLETED, on_end, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_STRICT_FOR_CLIENT, 1,
            MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (http->daemon == NULL)
        message_set(message, "metrics-port: the HTTP server can't be started: %s", strerror(errno));
    return http->daemon != NULL;
}

static void end_threads(struct http *http)
{
    mutex_lock(&http->lock);
    http->stopping = true;
    condition_signal(&http->asked);
    mutex_unlock(&http->lock);
    if (http->bell >= 0)
        ring_bell(http);
    thread_join(&http->page_thread);
    thread_join(&http->thread);
    if (http->bell >= 0)
        close(http->bell);
    http->bell = -1;
    http->daemon = NULL;
    http->stopping = false;
}

/* Once; they go on when nothing is listened at any more. */
static bool start_threads(struct http *http, struct message *message)
{
    int error;

    if (http->thread.has_started)
        return true;
    if (!start_daemon(http, message)) {
        end_threads(http);
        return false;
    }
    error = thread_start(&http->page_thread, "kelvin-page", http->options.meter, page_main, http);
    if (error == 0)
        error = thread_start(&http->thread, "kelvin-http", http->options.meter, http_main, http);
    if (error == 0)
        return true;
    message_set(message, "Can't start the thread of metrics-port: %s", strerror(error));
    MHD_stop_daemon(http->daemon);
    end_threads(http);
    return false;
}

bool http_listen(struct http *http, const char *addresses, int port, struct message *message)
{
    if (port != 0 && !start_threads(http, message))
        return false;
    if (!addresses_change(&http->addresses, addresses, port, message))
        return false;
    if (http->bell >= 0)
        ring_bell(http);
    return true;
}

void http_destroy(struct http *http)
{
    if (http == NULL)
        return;
    end_threads(http);
    addresses_release(&http->addresses);
    mutex_release(&http->lock);
    condition_release(&http->asked);
    mem_free(http);
}
