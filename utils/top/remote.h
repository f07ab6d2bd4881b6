/* Remote: a connection to the server that may do anything: be slow, close, or send what is no reply. Each step has a limit of time and of size.
 *
 * Owner: one thread, which waits.
 */
#ifndef KELVIN_TOP_REMOTE_H
#define KELVIN_TOP_REMOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/message.h"

struct options;
struct remote;

enum { REMOTE_LIMIT_S = 10, REMOTE_REPLY_MAX = 8 << 20 };

/* Reads the files of TLS. NULL: `message` has the reason. `options` is borrowed. */
struct remote *remote_create(const struct options *options, struct message *message);
void remote_destroy(struct remote *remote);

/* Connects and authenticates unless it is connected. */
bool remote_connect(struct remote *remote, struct message *message);
/* Sends one command, and replaces `reply` with its reply as it was sent, which is complete and RESP. False: the connection was closed. */
bool remote_ask(struct remote *remote, const struct bytes *words, int count, struct buffer *reply, struct message *message);

#endif
