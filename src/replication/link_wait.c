/* The steps of a try share this: to fail, to wait so that it can be interrupted, to read. */
#include "replication/link_private.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    GATHER_US = 2000,               /* what comes in this time is read at once, if the stream is busy */
    ASKED_US = 100000,              /* but not so long after an ACK was asked for: a client waits for the next one, too */
};

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

bool link_poll(const struct link *link, int fd, short events, int64_t left_us)
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
        if (link_poll(link, fd, events, (tick_us < deadline_us ? tick_us : deadline_us) - now_us))
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
