#include "replication/migrate_link.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/dial.h"
#include "engine/engine.h"
#include "engine/job.h"
#include "replication/follow.h"
#include "tls/tls_context.h"

enum { CHUNK = 64 * 1024, LOOK_MS = 100 };

void migrate_link_append(struct buffer *out, const struct bytes *words, int count)
{
    buffer_append_format(out, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        buffer_append_format(out, "$%zu\r\n", words[i].size);
        buffer_append_bytes(out, words[i]);
        buffer_append(out, "\r\n", 2);
    }
}

void migrate_link_init(struct migrate_link *link, int64_t timeout_ms)
{
    wire_init(&link->wire);
    link->timeout_ms = timeout_ms;
    link->from = link->to = 0;
    link->reason.text[0] = '\0';
}

void migrate_link_close(struct migrate_link *link)
{
    wire_close(&link->wire);
    link->from = link->to = 0;
}

static int64_t deadline_of(const struct migrate_link *link)
{
    return clock_mono_us() / 1000 + link->timeout_ms;
}

/* False: the time is up, or the server ends. An error of the socket counts as ready: what is done next reports it. */
static bool wait_until_ready_at(const struct migrate_link *link, int fd, short events, int64_t deadline_ms)
{
    struct pollfd poller = { .fd = fd, .events = events };

    while (!job_must_end(link->engine)) {
        int64_t left_ms = deadline_ms - clock_mono_us() / 1000;
        int count;

        if (left_ms <= 0)
            return false;
        count = poll(&poller, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (count > 0)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static bool wait_until_ready(const struct migrate_link *link, short events, int64_t deadline_ms)
{
    return wait_until_ready_at(link, link->wire.fd, events, deadline_ms);
}

static bool wait_to_connect(void *context, int fd)
{
    return wait_until_ready_at(context, fd, POLLOUT, deadline_of(context));
}

static enum migrate_link_result connect_to(struct migrate_link *link, const struct addrinfo *addresses)
{
    struct dial attempt = { .addresses = addresses, .wait = wait_to_connect, .context = link };
    int fd = dial(&attempt);

    if (fd >= 0) {
        wire_open(&link->wire, fd);
        return MIGRATE_LINK_OK;
    }
    return errno == ECANCELED || errno == EMFILE || errno == ENFILE ? MIGRATE_LINK_NO_CONNECTION : MIGRATE_LINK_WRITE_FAILED;
}

/* Sends what the wire has to send. False: it has failed, or the time is up. */
static bool flush_output(struct migrate_link *link, int64_t deadline_ms)
{
    while (wire_flush(&link->wire) == WIRE_OK) {
        if (!wire_has_output(&link->wire))
            return true;
        if (!wait_until_ready(link, POLLOUT, deadline_ms))
            return false;
    }
    return false;
}

static bool shake_hands(struct migrate_link *link)
{
    int64_t deadline_ms = deadline_of(link);
    bool is_done = false;

    while (!is_done) {
        enum wire_result result = wire_shake_hands(&link->wire, &is_done);

        if (result != WIRE_OK)
            wire_reason(&link->wire, result, &link->reason);
        if (!flush_output(link, deadline_ms) || result != WIRE_OK)     /* an alert is sent, too */
            return false;
        if (!is_done && !wait_until_ready(link, POLLIN, deadline_ms))
            return false;
    }
    return true;
}

static enum migrate_link_result start_tls(struct migrate_link *link, const char *host)
{
    struct tls_context *tls = follow_hold_tls(link->engine->replication.follow);
    bool is_good = tls != NULL && wire_start_tls(&link->wire, tls, host);

    tls_context_drop(tls);
    if (!is_good)
        message_set(&link->reason, "TLS is not configured: see tls-cert-file");
    if (is_good && shake_hands(link))
        return MIGRATE_LINK_OK;
    migrate_link_close(link);
    return MIGRATE_LINK_NO_CONNECTION;
}

enum migrate_link_result migrate_link_open(struct migrate_link *link, const struct engine *engine, const char *host, const char *port)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *found;
    enum migrate_link_result result;

    link->engine = engine;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return MIGRATE_LINK_NO_CONNECTION;
    result = connect_to(link, found);
    freeaddrinfo(found);
    return result == MIGRATE_LINK_OK && config_number(engine->config, CONFIG_TLS_CLUSTER) ? start_tls(link, host) : result;
}

enum migrate_link_result migrate_link_write(struct migrate_link *link, struct bytes bytes)
{
    while (bytes.size > 0) {
        struct bytes part = bytes_of(bytes.data, bytes.size > CHUNK ? CHUNK : bytes.size);

        if (wire_write(&link->wire, part) != WIRE_OK || !flush_output(link, deadline_of(link)))
            return MIGRATE_LINK_WRITE_FAILED;
        bytes = bytes_of(bytes.data + part.size, bytes.size - part.size);
    }
    return MIGRATE_LINK_OK;
}

/* Takes the line off what was read. False: its end has not come yet. */
static bool take_line(struct migrate_link *link, struct bytes *line)
{
    const char *begin = link->in + link->from, *end = memchr(begin, '\n', link->to - link->from);
    size_t size;

    if (end == NULL)
        return false;
    size = (size_t)(end - begin);
    link->from += size + 1;
    *line = bytes_of(begin, size > 0 && begin[size - 1] == '\r' ? size - 1 : size);
    return true;
}

/* Reads what there is, and waits for it once. False: it has failed, or the time is up. */
static bool read_some(struct migrate_link *link, int64_t deadline_ms)
{
    size_t got;

    memmove(link->in, link->in + link->from, link->to - link->from);
    link->to -= link->from;
    link->from = 0;
    if (link->to == sizeof(link->in))
        return false;                   /* no server replies lines that long */
    if (wire_read(&link->wire, link->in + link->to, sizeof(link->in) - link->to, &got) != WIRE_OK)
        return false;
    link->to += got;
    if (!flush_output(link, deadline_ms))      /* TLS may have something to say */
        return false;
    return got > 0 || wait_until_ready(link, POLLIN, deadline_ms);
}

enum migrate_link_result migrate_link_read_line(struct migrate_link *link, struct bytes *line)
{
    int64_t deadline_ms = deadline_of(link);

    while (!take_line(link, line)) {
        if (!read_some(link, deadline_ms))
            return MIGRATE_LINK_READ_FAILED;
    }
    return MIGRATE_LINK_OK;
}

enum migrate_link_result migrate_link_skip(struct migrate_link *link, size_t size)
{
    int64_t deadline_ms = deadline_of(link);

    for (;;) {
        size_t here = link->to - link->from < size ? link->to - link->from : size;

        link->from += here;
        size -= here;
        if (size == 0)
            return MIGRATE_LINK_OK;
        if (!read_some(link, deadline_ms))
            return MIGRATE_LINK_READ_FAILED;
    }
}
