/* Monitor: clients that are told of every command that any client runs (MONITOR).
 *
 *   +1700000000.123456 [0 127.0.0.1:60866] "SET" "key" "a\nb"
 *
 * Told is what has run, also with an error, but not what was refused (unknown, wrong number of arguments, no password), nor commands for
 * administrators. A command that waits for a key is told as it begins to wait. Passwords are hidden (call/secrets.h). Commands of one
 * client are told in their order; those of different workers about so.
 *
 * A monitor belongs to its worker, as any client. The worker that ran a command writes the line once, and sends it by mail to each
 * worker that has monitors. While there are none, a command costs the reading of one counter. A monitor that does not read is
 * closed when its output has MONITOR_OUTPUT_MAX bytes, or what client-output-buffer-limit says for normal clients, if that is less.
 */
#ifndef KELVIN_ENGINE_MONITOR_H
#define KELVIN_ENGINE_MONITOR_H

#include "call/call.h"

struct worker;

enum { MONITOR_OUTPUT_MAX = 64 << 20 };

/* The client is one from now on, or no more. On its worker; doing it twice is fine. */
void monitor_begin(struct client *client);
void monitor_end(struct client *client);

/* The call has run, or waits for a key. On its worker, after the reply was written, without locks. */
void monitor_tell(struct call *call, struct worker *worker);

#endif
