/* Listener: the sockets that new clients knock on. Main loop's thread; accepted sockets go to the loops in turn. */
#ifndef KELVIN_NET_LISTENER_H
#define KELVIN_NET_LISTENER_H

#include "base/message.h"
#include "net/loop.h"

struct listener;

/* Binds and listens at every address of `bind` (an address that begins with '-' may be missing on this machine, '*' is all), and
 * at `unixsocket`. NULL: `message` says what failed, as Redis words it. */
struct listener *listener_open(struct loop *main_loop, struct loop **loops, int loop_count, struct message *message);
/* Stops listening; closes at the loop's next turns. */
void listener_close(struct listener *listener);
/* After the loop has run out. */
void listener_destroy(struct listener *listener);

/* The port that is listened at (0: none), when any was asked for. */
int listener_port(const struct listener *listener);

#endif
