#include "replication/migrate_link.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/dial.h"
#include "engine/job.h"

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
    link->fd = -1;
    link->timeout_ms = timeout_ms;
    link->from = link->to = 0;
}

void migrate_link_close(struct migrate_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

static int64_t deadline_of(const struct migrate_link *link)
{
    return clock_mono_us() / 1000 + link->timeout_ms;
}

/* False: the time is up, or the server ends. An error of the socket counts as ready: what is done next reports it. */
static bool wait_until_ready(const struct migrate_link *link, short events, int64_t deadline_ms)
{
    struct pollfd poller = { .fd = link->fd, .events = events };

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

static bool wait_to_connect(void *context, int fd)
{
    struct migrate_link *link = context;

    link->fd = fd;
    return wait_until_ready(link, POLLOUT, deadline_of(link));
}

static enum migrate_link_result connect_to(struct migrate_link *link, const struct addrinfo *addresses)
{
    struct dial attempt = { .addresses = addresses, .wait = wait_to_connect, .context = link };

    link->fd = dial(&attempt);
    if (link->fd >= 0)
        return MIGRATE_LINK_OK;
    return errno == ECANCELED || errno == EMFILE || errno == ENFILE ? MIGRATE_LINK_NO_CONNECTION : MIGRATE_LINK_WRITE_FAILED;
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
    return result;
}

/* Writes what the socket takes now. False: it has failed. */
static bool write_some(const struct migrate_link *link, struct bytes *bytes)
{
    ssize_t count = send(link->fd, bytes->data, bytes->size < CHUNK ? bytes->size : CHUNK, MSG_NOSIGNAL);

    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    *bytes = bytes_of(bytes->data + count, bytes->size - (size_t)count);
    return true;
}

enum migrate_link_result migrate_link_write(struct migrate_link *link, struct bytes bytes)
{
    while (bytes.size > 0) {
        size_t goal = bytes.size > CHUNK ? bytes.size - CHUNK : 0;
        int64_t deadline_ms = deadline_of(link);

        while (bytes.size > goal) {
            if (!wait_until_ready(link, POLLOUT, deadline_ms) || !write_some(link, &bytes))
                return MIGRATE_LINK_WRITE_FAILED;
        }
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

static bool read_some(struct migrate_link *link)
{
    ssize_t count;

    memmove(link->in, link->in + link->from, link->to - link->from);
    link->to -= link->from;
    link->from = 0;
    if (link->to == sizeof(link->in))
        return false;                   /* no server replies lines that long */
    count = recv(link->fd, link->in + link->to, sizeof(link->in) - link->to, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    link->to += (size_t)count;
    return count > 0;
}

enum migrate_link_result migrate_link_read_line(struct migrate_link *link, struct bytes *line)
{
    int64_t deadline_ms = deadline_of(link);

    while (!take_line(link, line)) {
        if (!wait_until_ready(link, POLLIN, deadline_ms) || !read_some(link))
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
        if (!wait_until_ready(link, POLLIN, deadline_ms) || !read_some(link))
            return MIGRATE_LINK_READ_FAILED;
    }
}
