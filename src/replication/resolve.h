/* Resolve: the addresses of a host, looked up without waiting. The system's resolver can take half a minute and can't be interrupted, so a name
 * is looked up on a thread of its own, which is left to itself when the result is not wanted any more. Addresses are not looked up.
 */
#ifndef KELVIN_REPLICATION_RESOLVE_H
#define KELVIN_REPLICATION_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

struct addrinfo;
struct resolution;

/* `source`: an own address or name to connect from, or "". NULL with errno: the system has no thread or no descriptor. */
struct resolution *resolve_start(const char *host, uint16_t port, const char *source);
/* At any time; the addresses go with it. NULL is fine. */
void resolve_drop(struct resolution *resolution);

/* Becomes readable when it is done. */
int resolve_fd(const struct resolution *resolution);
bool resolve_is_done(const struct resolution *resolution);
/* After it is done. NULL: found; else why not. */
const char *resolve_error(const struct resolution *resolution);
const struct addrinfo *resolve_addresses(const struct resolution *resolution);
const struct addrinfo *resolve_sources(const struct resolution *resolution);        /* NULL: none was given */
/* The host was given as a name, not as an address. */
bool resolve_is_name(const struct resolution *resolution);

#endif
