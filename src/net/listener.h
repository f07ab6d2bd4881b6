/* Listener: the sockets at which new clients connect. Accepted ones go to the loops in turn.
 *
 * Polled on the main loop's thread. The addresses may be changed on any worker's.
 */
#ifndef KELVIN_NET_LISTENER_H
#define KELVIN_NET_LISTENER_H

#include "base/message.h"
#include "net/loop.h"

struct listener;

/* Listens at every address of `bind` (one that begins with '-' may be missing on this machine, '*' is all) with `port` and with
 * `tls-port`, and at `unixsocket`. NULL: `message` says what failed, as Redis words it. */
struct listener *listener_open(struct loop *main_loop, struct loop **loops, int loop_count, struct message *message);
/* From now on, CONFIG SET of `bind`, `port` and `tls-port` changes the sockets: all or none of them, and the new ones are open before the
 * old ones close. */
void listener_watch_config(struct listener *listener);
/* Stops listening; closes at the loop's next turns. */
void listener_close(struct listener *listener);
/* After the loop has run out, and was swept. */
void listener_destroy(struct listener *listener);

#endif
