/* Monitor: clients that get a line for every command that any client runs (MONITOR).
 *
 *   +1700000000.123456 [0 127.0.0.1:60866] "SET" "key" "a\nb"
 *
 * Commands that have run are shown, also with an error, but not those that were refused (unknown, wrong number of arguments, no password),
 * nor commands for administrators. A command that waits for a key is shown when it begins to wait. Passwords are hidden (call/secrets.h).
 * Commands of one client are shown in their order; those of different workers approximately so.
 *
 * A monitor belongs to its worker, as any client. The worker that ran a command writes the line once, and sends it by mail to each
 * worker that has monitors. While there are none, a command costs one read of a counter. A monitor that does not read is
 * closed when its output has MONITOR_OUTPUT_MAX bytes, or what client-output-buffer-limit says for normal clients, if that is less.
 */
#ifndef KELVIN_ENGINE_MONITOR_H
#define KELVIN_ENGINE_MONITOR_H

#include "call/call.h"

struct worker;

enum { MONITOR_OUTPUT_MAX = 64 << 20 };

/* The client becomes a monitor, or is none any more. On its worker; calling it twice is fine. */
void monitor_begin(struct client *client);
void monitor_end(struct client *client);

/* The call has run, or waits for a key. On its worker, after the reply was written, without locks. */
void monitor_notify(struct call *call, struct worker *worker);
/* The same for a command that is shown before the commands that it runs: EVAL. */
void monitor_send(struct call *call, struct worker *worker);

#endif
