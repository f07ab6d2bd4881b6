#include "remote.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../benchmark/replies.h"
#include "base/clock.h"
#include "base/dial.h"
#include "base/mem.h"
#include "options.h"
#include "replication/wire.h"
#include "tls/tls_context.h"

enum { READ_SIZE = 64 * 1024 };

struct remote {
    const struct options *options;
    struct tls_context *tls;        /* NULL: none */
    struct wire wire;
    int64_t deadline_us;            /* of the step that is done */
};

static char *or_empty(const char *text)
{
    return (char *)(text != NULL ? text : "");          /* tls_settings has no const, and only reads */
}

static struct tls_context *make_tls(const struct options *options, struct message *message)
{
    const struct tls_settings settings = {
        .cert_file = "", .key_file = "", .key_file_pass = "", .client_cert_file = or_empty(options->cert),
        .client_key_file = or_empty(options->key), .client_key_file_pass = "", .ca_cert_file = or_empty(options->ca_cert),
        .ca_cert_dir = or_empty(options->ca_cert_dir), .dh_params_file = "", .protocols = "", .ciphers = "", .ciphersuites = "",
    };

    return tls_context_create_client(&settings, message);
}

struct remote *remote_create(const struct options *options, struct message *message)
{
    struct tls_context *tls = NULL;
    struct remote *remote;

    if (options->tls && (tls = make_tls(options, message)) == NULL)
        return NULL;
    remote = mem_zalloc(sizeof(*remote));
    remote->options = options;
    remote->tls = tls;
    wire_init(&remote->wire);
    return remote;
}

void remote_destroy(struct remote *remote)
{
    if (remote == NULL)
        return;
    wire_close(&remote->wire);
    tls_context_drop(remote->tls);
    mem_free(remote);
}

/* --- waiting --- */

static bool wait_for(struct remote *remote, int fd, short events)
{
    struct pollfd polled = { .fd = fd, .events = events };
    int ready;

    do {
        int64_t left_ms = (remote->deadline_us - clock_mono_us()) / 1000;

        ready = poll(&polled, 1, left_ms > 0 ? (int)left_ms : 0);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

static bool wait_to_connect(void *context, int fd)
{
    return wait_for(context, fd, POLLOUT);
}

static bool fail(struct remote *remote, struct message *message, const char *reason)
{
    message_set(message, "%s", reason);
    wire_close(&remote->wire);
    return false;
}

static bool fail_wire(struct remote *remote, enum wire_result result, struct message *message)
{
    struct message reason = { "" };

    wire_reason(&remote->wire, result, &reason);
    return fail(remote, message, reason.text);
}

/* Sends what is waiting, then waits for input. */
static bool exchange(struct remote *remote, struct message *message)
{
    enum wire_result flushed = wire_flush(&remote->wire);

    if (flushed != WIRE_OK)
        return fail_wire(remote, flushed, message);
    if (!wait_for(remote, remote->wire.fd, (short)(POLLIN | (wire_has_output(&remote->wire) ? POLLOUT : 0)))) {
        message_set(message, "no reply in %d seconds", REMOTE_LIMIT_S);
        wire_close(&remote->wire);
        return false;
    }
    return true;
}

/* --- connecting --- */

static int connect_unix(struct remote *remote, struct message *message)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", remote->options->socket) >= (int)sizeof(address.sun_path)) {
        message_set(message, "the path of the socket is too long");
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);     /* a full backlog is an error at once */
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    message_set(message, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_tcp(struct remote *remote, struct message *message)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct dial attempt = { .wait = wait_to_connect, .context = remote };
    struct addrinfo *found;
    char port[16];
    int error, fd;

    snprintf(port, sizeof(port), "%u", (unsigned)remote->options->port);
    error = getaddrinfo(remote->options->host, port, &hints, &found);
    if (error != 0) {
        message_set(message, "%s", gai_strerror(error));
        return -1;
    }
    attempt.addresses = found;
    fd = dial(&attempt);
    if (fd < 0)
        message_set(message, "%s", errno == ECANCELED ? "no connection in time" : strerror(errno));
    freeaddrinfo(found);
    return fd;
}

static const char *server_name(const struct options *options)
{
    bool is_address = options->socket != NULL || strspn(options->host, "0123456789.") == strlen(options->host) || strchr(options->host, ':') != NULL;

    return options->server_name != NULL ? options->server_name : is_address ? NULL : options->host;
}

static bool shake_hands(struct remote *remote, struct message *message)
{
    bool done = false;

    if (!wire_start_tls(&remote->wire, remote->tls, server_name(remote->options)))
        return fail(remote, message, "no memory");
    for (;;) {
        enum wire_result shaken = wire_shake_hands(&remote->wire, &done);

        if (shaken != WIRE_OK) {
            (void)wire_flush(&remote->wire);        /* the alert says why */
            return fail_wire(remote, shaken, message);
        }
        if (done)
            return true;
        if (!exchange(remote, message))
            return false;
    }
}

static bool authenticate(struct remote *remote, struct message *message)
{
    const struct options *options = remote->options;
    struct bytes words[3] = { BYTES("AUTH") };
    struct buffer reply = { 0 };
    int count = 1;
    bool good;

    if (options->password == NULL)
        return true;
    if (options->user != NULL)
        words[count++] = bytes_of_string(options->user);
    words[count++] = bytes_of_string(options->password);
    good = remote_ask(remote, words, count, &reply, message);
    if (good && reply.data[0] == '-') {
        struct bytes rest = buffer_bytes(&reply), text = reply_next(&rest).text;

        message_set(message, "%.*s", (int)(text.size < 200 ? text.size : 200), text.data);
        wire_close(&remote->wire);
        good = false;
    }
    buffer_release(&reply);
    return good;
}

bool remote_connect(struct remote *remote, struct message *message)
{
    int fd;

    if (remote->wire.fd >= 0)
        return true;
    remote->deadline_us = clock_mono_us() + (int64_t)REMOTE_LIMIT_S * 1000000;
    fd = remote->options->socket != NULL ? connect_unix(remote, message) : connect_tcp(remote, message);
    if (fd < 0)
        return false;
    wire_open(&remote->wire, fd);
    return (remote->tls == NULL || shake_hands(remote, message)) && authenticate(remote, message);
}

/* --- a command --- */

static bool receive(struct remote *remote, struct buffer *reply, struct message *message)
{
    size_t got = 0;
    enum wire_result result;

    /* Exact: a reply may be large, and it is kept for a while. */
    result = wire_read(&remote->wire, buffer_reserve(reply, READ_SIZE), READ_SIZE, &got);
    reply->size += got;
    if (got == 0 && result != WIRE_OK)
        return fail_wire(remote, result, message);
    return got > 0 || exchange(remote, message);
}

bool remote_ask(struct remote *remote, const struct bytes *words, int count, struct buffer *reply, struct message *message)
{
    struct reply_scan scan = { 0 };
    struct buffer request = { 0 };
    enum status status;
    enum wire_result written;

    buffer_append_format(&request, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        buffer_append_format(&request, "$%zu\r\n", words[i].size);
        buffer_append_bytes(&request, words[i]);
        buffer_append(&request, "\r\n", 2);
    }
    remote->deadline_us = clock_mono_us() + (int64_t)REMOTE_LIMIT_S * 1000000;
    reply->size = 0;
    written = wire_write(&remote->wire, buffer_bytes(&request));
    buffer_release(&request);
    if (written != WIRE_OK)
        return fail_wire(remote, written, message);
    while ((status = reply_scan(&scan, reply->data, reply->size)) == STATUS_TRUNCATED) {
        if (reply->size > REMOTE_REPLY_MAX)
            return fail(remote, message, "the reply is too large: this is no Redis server");
        if (clock_mono_us() >= remote->deadline_us)
            return fail(remote, message, "the reply does not end");
        if (!receive(remote, reply, message))
            return false;
    }
    if (status != STATUS_OK || scan.size != reply->size)
        return fail(remote, message, "the reply is not valid: this is no Redis server");
    return true;
}
