/* Name lookup: the addresses of a host, looked up without waiting. The system's resolver can take half a minute and can't be interrupted, so a name
 * is looked up on a thread of its own, which is left to itself when the result is not wanted any more. Addresses are not looked up.
 */
#ifndef KELVIN_REPLICATION_NAME_LOOKUP_H
#define KELVIN_REPLICATION_NAME_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

struct addrinfo;
struct meter;
struct name_lookup;

/* `source`: an own address or name to connect from, or "". The meter counts the memory of its thread. NULL with errno: the system has
 * no thread or no descriptor. */
struct name_lookup *name_lookup_start(const char *host, uint16_t port, const char *source, struct meter *meter);
/* At any time; the addresses go with it. NULL is fine. */
void name_lookup_drop(struct name_lookup *lookup);

/* Becomes readable when it is done; name_lookup_is_done then says so. */
int name_lookup_fd(const struct name_lookup *lookup);
bool name_lookup_is_done(const struct name_lookup *lookup);
/* Once name_lookup_is_done has returned true. NULL: found; else why not. */
const char *name_lookup_error(const struct name_lookup *lookup);
const struct addrinfo *name_lookup_addresses(const struct name_lookup *lookup);
const struct addrinfo *name_lookup_sources(const struct name_lookup *lookup);        /* NULL: none was given */
/* The host was given as a name, not as an address. */
bool name_lookup_is_name(const struct name_lookup *lookup);

#endif
