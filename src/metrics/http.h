/* Http: a small HTTP server for operators: some paths, each with a function that writes the page. By libmicrohttpd.
 *
 *     GET /health/live ──► kelvin-http:   the connections, and pages that need no lock  (HTTP_AT_ONCE)
 *     GET /metrics     ──► kelvin-page:   pages whose numbers are under locks, one after another  (HTTP_APART)
 *
 * So /health/live is served also while a partition is locked for long. A page that is not there after page_ms is replied 503.
 *
 * Only GET and HEAD, and paths of the table. HTTP/1.1 with connections that stay open. Bounds: HTTP_CONNECTIONS at a time (when one more comes, the one that
 * has been served nothing for longest is closed), 16 KiB for a request, HTTP_REQUEST_S from the end of one reply to the end of the next. Clear text.
 *
 * Threads: the two above are started when there is the first address, and end with http_destroy. Functions of the table run on them.
 */
#ifndef KELVIN_METRICS_HTTP_H
#define KELVIN_METRICS_HTTP_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/message.h"
#include "base/meter.h"

enum {
    HTTP_CONNECTIONS = 32,
    HTTP_REQUEST_S = 90,            /* more than a minute: a Prometheus that asks once a minute keeps its connection */
    HTTP_PAGE_MS = 5000,
    HTTP_TICK_MS = 500,
    HTTP_ACCEPT_SIZE = 512,
};

struct http;

struct http_request {
    char accept[HTTP_ACCEPT_SIZE];  /* the header Accept; a longer one counts as none: "" */
    bool is_privileged;             /* as `admit` said; false on pages that are open */
};

struct http_response {
    int status;                     /* 200, unless the function says otherwise */
    const char *type;               /* of the body: Content-Type. It has to stay as long as the server, as the next */
    const char *policy;             /* Content-Security-Policy; NULL: none */
    struct buffer body;
};

/* Writes the page. */
typedef void http_serve(void *context, const struct http_request *request, struct http_response *response);

enum http_thread { HTTP_AT_ONCE, HTTP_APART };
enum http_access { HTTP_OPEN, HTTP_GUARDED };       /* guarded: `admit` is asked */

struct http_route {
    const char *path;               /* "/metrics"; NULL ends the table */
    enum http_thread thread;
    enum http_access access;
    http_serve *serve;
};

/* The client that asks for a guarded page. */
struct http_caller {
    const char *user, *password;    /* of HTTP Basic authentication; NULL: there is none */
    char address[64];               /* "127.0.0.1:50312" */
    bool is_local;                  /* it came from a loopback address */
    bool has_foreign_name;          /* it reached a loopback address under the name of another machine (metrics/host.h) */
};
enum http_admission {
    HTTP_ADMITTED,
    HTTP_PRIVILEGED,                /* admitted, and http_request.is_privileged */
    HTTP_LOGIN_WANTED,              /* 401: no user, or a wrong password */
    HTTP_FORBIDDEN,                 /* 403: the user may not */
    HTTP_FOREIGN_NAME,              /* 403: has_foreign_name */
};

struct http_options {
    void *context;                  /* of all functions */
    const struct http_route *routes;
    enum http_admission (*admit)(void *context, const struct http_caller *caller);      /* on kelvin-http */
    void (*tick)(void *context);    /* on kelvin-http, each HTTP_TICK_MS; or NULL */
    struct meter *meter;            /* counts the threads' memory; may be NULL */
    int page_ms;                    /* until a page is not waited for any more; 0: HTTP_PAGE_MS */
};

struct http *http_create(const struct http_options *options);
/* Ends the threads: after the one that writes a page has written it. NULL is fine. */
void http_destroy(struct http *http);

/* Listens at these addresses, in the words of `bind`, instead of those before; port 0: nowhere. All or none: when one can't be had, what was stays, and
 * `message` says why. Connections to addresses before are closed. Calls are serialized by the caller. */
bool http_listen(struct http *http, const char *addresses, int port, struct message *message);

#endif
