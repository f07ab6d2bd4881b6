#include "replication/link.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "replication/link_private.h"
#include "tls/tls_context.h"

enum {
    RETRY_US = 1000000, RETRY_AFTER_DISK_US = 10 * RETRY_US,
    GATHER_US = 2000,               /* what comes in this time is read at once, if the stream is busy */
    ASKED_US = 100000,              /* but not so long after an ACK was asked for: a client waits for the next one, too */
};

static char *copy(const char *string)
{
    return mem_string(bytes_of_string(string));
}

static struct link_settings *settings_create(const struct link_options *options)
{
    struct link_settings *settings = mem_alloc(sizeof(*settings));

    *settings = (struct link_settings){
        .host = copy(options->host), .source_address = copy(options->source_address), .user = copy(options->user),
        .password = copy(options->password), .announce_ip = copy(options->announce_ip), .dir = copy(options->dir),
        .image_offer = copy(options->image_offer), .image_dir = copy(options->image_dir),
        .port = options->port, .listening_port = options->listening_port, .disk = options->disk,
        .with_tls = options->with_tls, .tls = options->tls != NULL ? tls_context_hold(options->tls) : NULL,
    };
    return settings;
}

static void settings_destroy(struct link_settings *settings)
{
    if (settings == NULL)
        return;
    mem_free(settings->host);
    mem_free(settings->source_address);
    mem_free(settings->user);
    mem_free(settings->password);
    mem_free(settings->announce_ip);
    mem_free(settings->dir);
    mem_free(settings->image_offer);
    mem_free(settings->image_dir);
    tls_context_drop(settings->tls);
    mem_free(settings);
}

/* Functions for other threads */

static void ring(struct link *link)
{
    const uint64_t one = 1;

    (void)!write(link->bell, &one, sizeof(one));
}

void link_configure(struct link *link, const struct link_options *options)
{
    struct link_settings *settings = settings_create(options), *unused;

    CHECK(options->timeout_ms > 0);
    mutex_lock(&link->lock);
    unused = link->next;
    link->next = settings;
    mutex_unlock(&link->lock);
    settings_destroy(unused);
    atomic_store(&link->timeout_ms, options->timeout_ms);
    ring(link);
}

void link_ack_now(struct link *link)
{
    if (!atomic_exchange(&link->ack_now, true))
        ring(link);
}

void link_reconnect(struct link *link)
{
    atomic_store(&link->reconnect, true);
    ring(link);
}

/* Functions for the link's files */

bool link_fail(struct link *link, enum link_failure failure, const char *format, ...)
{
    struct message reason;
    va_list arguments;

    if (!message_is_empty(&link->reason))
        return false;
    link->failure = failure;
    va_start(arguments, format);
    message_set_args(&reason, format, arguments);
    va_end(arguments);
    message_set(&link->reason, "%s: %s", link->step, reason.text);
    return false;
}

bool link_fail_wire(struct link *link, enum wire_result result)
{
    struct message reason;

    wire_reason(&link->wire, result, &reason);
    return link_fail(link, LINK_FAILED_CLOSED, "%s", reason.text);
}

bool link_is_interrupted(const struct link *link)
{
    return atomic_load(&link->stop) || atomic_load(&link->reconnect);
}

void link_set_state(struct link *link, enum link_state state)
{
    link->host.state_changed(link->host.context, state);
}

static int poll_ms(int64_t left_us)
{
    return left_us <= 0 ? 0 : left_us >= INT_MAX ? INT_MAX : (int)(left_us / 1000 + 1);
}

/* True: `fd` is ready. It also ends when the bell rings. */
static bool poll_with_bell(const struct link *link, int fd, short events, int64_t left_us)
{
    struct pollfd pollers[2] = { { .fd = link->bell, .events = POLLIN }, { .fd = fd, .events = events } };
    uint64_t rings;

    if (poll(pollers, 2, poll_ms(left_us)) <= 0)
        return false;
    if (pollers[0].revents != 0)
        (void)!read(link->bell, &rings, sizeof(rings));
    return pollers[1].revents != 0;
}

enum link_wait link_wait(struct link *link, int fd, short events, int64_t since_us, int64_t tick_us)
{
    for (;;) {
        int64_t now_us = clock_mono_us(), deadline_us = since_us + atomic_load(&link->timeout_ms) * 1000;

        if (link_is_interrupted(link))
            return LINK_WAIT_BROKEN;
        if (now_us >= tick_us || (tick_us != INT64_MAX && atomic_load(&link->ack_now)))
            return LINK_WAIT_TICK;
        if (now_us >= deadline_us) {
            link_fail(link, LINK_FAILED_TIMEOUT, "nothing was received for %lld seconds", (long long)(now_us - since_us) / 1000000);
            return LINK_WAIT_BROKEN;
        }
        if (poll_with_bell(link, fd, events, (tick_us < deadline_us ? tick_us : deadline_us) - now_us))
            return LINK_WAIT_READY;
    }
}

/* All that had come was read. If the primary writes small pieces all the time, each of them would wake this thread, and the applier's, and the primary
 * would pay for its part of that: so they come together in the socket for a while. False: there was no pause, the socket is to be waited for. */
static bool gather(struct link *link)
{
    const struct timespec pause = { 0, GATHER_US * 1000 };
    int64_t now_us = clock_mono_us();
    bool is_busy = link->has_read && now_us - link->gathered_us < 2 * GATHER_US, is_asked = now_us - link->asked_us < ASKED_US;

    if (link->input.mode != LINK_INPUT_STREAM)
        return false;
    if (is_busy && !is_asked)
        nanosleep(&pause, NULL);
    link->has_read = false;
    link->gathered_us = clock_mono_us();
    return is_busy && !is_asked;
}

enum link_wait link_fill(struct link *link, int64_t since_us, int64_t tick_us)
{
    while (link->unread.size == 0) {
        size_t got = 0;
        enum wire_result result = wire_flush(&link->wire);
        enum link_wait wait;

        if (result == WIRE_OK && !wire_is_full(&link->wire))
            result = wire_read(&link->wire, link->in, sizeof(link->in), &got);
        if (result != WIRE_OK) {
            link_fail_wire(link, result);
            return LINK_WAIT_BROKEN;
        }
        link->unread = bytes_of(link->in, got);
        link->has_read = link->has_read || got > 0;
        if (got > 0)
            break;
        if (gather(link))
            continue;
        wait = link_wait(link, link->wire.fd, (short)((wire_is_full(&link->wire) ? 0 : POLLIN) | (wire_has_output(&link->wire) ? POLLOUT : 0)),
            since_us, tick_us);
        if (wait != LINK_WAIT_READY)
            return wait;
    }
    return link_is_interrupted(link) ? LINK_WAIT_BROKEN : LINK_WAIT_READY;
}

/* The thread */

static void take_settings(struct link *link)
{
    struct link_settings *unused = link->settings;

    mutex_lock(&link->lock);
    if (link->next != NULL) {
        link->settings = link->next;
        link->next = NULL;
    } else {
        unused = NULL;
    }
    mutex_unlock(&link->lock);
    settings_destroy(unused);
}

static void try_once(struct link *link)
{
    take_settings(link);
    link->reason = (struct message){ "" };
    link_input_init(&link->input);
    link->unread = bytes_of(link->in, 0);
    link->ack_us = INT64_MAX;
    link->active_us = clock_mono_us();
    if (link_connect(link) && link_shake_hands(link))
        link_receive(link);
    wire_close(&link->wire);
}

static void report_failure(struct link *link)
{
    if (message_is_empty(&link->reason))
        link_fail(link, LINK_FAILED_REQUESTED, "the connection was closed to start again");
    link->host.failed(link->host.context, link->failure, link->reason.text);
    link_set_state(link, LINK_WAITING);
}

static void wait_to_retry(struct link *link)
{
    int64_t until_us = clock_mono_us() + (link->failure == LINK_FAILED_DISK ? RETRY_AFTER_DISK_US : RETRY_US);

    while (!link_is_interrupted(link) && clock_mono_us() < until_us)
        poll_with_bell(link, -1, 0, until_us - clock_mono_us());
}

static void link_main(void *context)
{
    struct link *link = context;

    while (!atomic_load(&link->stop)) {
        atomic_store(&link->reconnect, false);
        try_once(link);
        if (atomic_load(&link->stop))
            break;
        report_failure(link);
        wait_to_retry(link);
    }
}

static void destroy_link(struct link *link)
{
    int error = errno;

    if (link->bell >= 0)
        close(link->bell);
    settings_destroy(link->settings);
    settings_destroy(link->next);
    mutex_release(&link->lock);
    mem_free(link);
    errno = error;
}

struct link *link_start(const struct link_options *options, const struct link_host *host)
{
    struct link *link = mem_zalloc(sizeof(*link));

    CHECK(options->timeout_ms > 0);
    link->host = *host;
    link->next = settings_create(options);
    link->timeout_ms = options->timeout_ms;
    link->rdb_fd = -1;
    wire_init(&link->wire);
    mutex_init(&link->lock);
    link->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->bell >= 0) {
        errno = thread_start(&link->thread, "kelvin-link", host->meter, link_main, link);
        if (errno == 0)
            return link;
    }
    destroy_link(link);
    return NULL;
}

void link_stop(struct link *link)
{
    atomic_store(&link->stop, true);
    ring(link);
    thread_join(&link->thread);
    destroy_link(link);
}
