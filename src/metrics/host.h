/* Host: the name by which an HTTP request calls this machine. Pure.
 *
 * A web page of a stranger can have its own domain resolve to 127.0.0.1 and so make a browser on this machine ask ports that only this machine reaches, and
 * read what they reply (DNS rebinding). The request then has the stranger's domain in its header Host, so a name that is not this machine's is refused there.
 */
#ifndef KELVIN_METRICS_HOST_H
#define KELVIN_METRICS_HOST_H

#include <stdbool.h>

/* Whether the header Host (name and perhaps port; NULL: there is none, so the client is no browser) is an IP address, localhost, a name below it, or `machine`. */
bool host_is_own(const char *host, const char *machine);

/* Whether the address, as endpoint_ip_of_self writes it, is one that only this machine reaches: 127.0.0.0/8, ::1, or the former written as IPv6. */
bool host_is_loopback(const char *ip);

#endif
