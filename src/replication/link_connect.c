/* The link's connection: the address, the socket, the TLS handshake. */
#include "replication/link_private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/dial.h"
#include "replication/name_lookup.h"

static bool wait_for_address(struct link *link, struct name_lookup *lookup)
{
    while (!name_lookup_is_done(lookup)) {
        if (link_wait(link, name_lookup_fd(lookup), POLLIN, link->active_us, INT64_MAX) != LINK_WAIT_READY)
            return false;
    }
    if (name_lookup_error(lookup) != NULL)
        return link_fail(link, LINK_FAILED_CONNECT, "%s: %s", link->settings->host, name_lookup_error(lookup));
    return true;
}

static bool wait_to_connect(void *context, int fd)
{
    struct link *link = context;

    return link_wait(link, fd, POLLOUT, link->active_us, INT64_MAX) == LINK_WAIT_READY;
}

static bool connect_to(struct link *link, const struct name_lookup *lookup)
{
    struct dial attempt = {
        .addresses = name_lookup_addresses(lookup), .sources = name_lookup_sources(lookup), .wait = wait_to_connect, .context = link,
    };
    int fd = dial(&attempt);

    if (fd < 0)
        return !link_is_interrupted(link) && link_fail(link, LINK_FAILED_CONNECT, "%s", strerror(errno));
    wire_open(&link->wire, fd);
    return true;
}

static bool shake_tls_hands(struct link *link)
{
    for (;;) {
        bool done;
        enum wire_result shaken = wire_shake_hands(&link->wire, &done), flushed = wire_flush(&link->wire);
        struct message reason;
        short events;

        if (shaken != WIRE_OK || flushed != WIRE_OK) {
            wire_reason(&link->wire, shaken != WIRE_OK ? shaken : flushed, &reason);
            return link_fail(link, LINK_FAILED_CONNECT, "%s", reason.text);
        }
        if (done)
            return true;
        events = (short)(POLLIN | (wire_has_output(&link->wire) ? POLLOUT : 0));
        if (link_wait(link, link->wire.fd, events, link->active_us, INT64_MAX) != LINK_WAIT_READY)
            return false;
    }
}

static bool start_tls(struct link *link, const struct name_lookup *lookup)
{
    struct link_settings *settings = link->settings;

    if (!settings->with_tls)
        return true;
    link->step = "TLS handshake";
    if (settings->tls == NULL)
        return link_fail(link, LINK_FAILED_CONNECT, "TLS is not configured");
    if (!wire_start_tls(&link->wire, settings->tls, name_lookup_is_name(lookup) ? settings->host : NULL))
        return link_fail(link, LINK_FAILED_CONNECT, "no memory");
    return shake_tls_hands(link);
}

bool link_connect(struct link *link)
{
    const struct link_settings *settings = link->settings;
    struct name_lookup *lookup;
    bool connected;

    link->step = "connecting";
    link_set_state(link, LINK_CONNECTING);
    lookup = name_lookup_start(settings->host, settings->port, settings->source_address, link->host.meter);
    if (lookup == NULL)
        return link_fail(link, LINK_FAILED_CONNECT, "%s", strerror(errno));
    connected = wait_for_address(link, lookup) && connect_to(link, lookup) && start_tls(link, lookup);
    name_lookup_drop(lookup);
    if (connected && link->host.connected != NULL)
        link->host.connected(link->host.context, link->wire.fd);
    return connected;
}
