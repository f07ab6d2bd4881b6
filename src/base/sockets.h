/* Sockets: creates listening sockets. Any thread. */
#ifndef KELVIN_BASE_SOCKETS_H
#define KELVIN_BASE_SOCKETS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/message.h"

/* Both return a descriptor that listens, non-blocking, or -1 with errno and the reason in `message`, as Redis words it.
 * `host` is an address as in the directive `bind`, without its '-': "*" and "::*" are all of IPv4 and IPv6. */
int sockets_listen_tcp(const char *host, int port, int backlog, struct message *message);
/* Replaces what is at `path`. `mode` 0: as the umask says. */
int sockets_listen_unix(const char *path, mode_t mode, int backlog, struct message *message);

/* Whether sockets_listen_tcp would find the address on this machine, without opening it: for `kelvin-server --check`. */
bool sockets_has_address(const char *host, struct message *message);

/* Stops listening and frees the address; the descriptor stays open, and polling it reports an event. TCP only. */
void sockets_retire(int fd);
/* Listens again, unless the port was 0. */
bool sockets_revive(int fd, int backlog);

/* After a failed sockets_listen_tcp: the address does not exist on this machine, which an optional one may. */
bool sockets_is_missing_address(int error);

#endif
