/* TLS: the context that new connections use, made of the configuration and replaced as a whole.
 *
 * One for the server. Any thread; a leaf lock guards the pointer.
 */
#ifndef KELVIN_NET_TLS_H
#define KELVIN_NET_TLS_H

#include "base/log.h"
#include "config/config.h"
#include "tls/tls_context.h"

struct tls;

struct tls *tls_create(struct config *config, struct log *log);     /* without a context */
void tls_destroy(struct tls *tls);

/* Makes a context of the tls-* directives as they are now. False: the reason was logged, and the former context, if any, stays. */
bool tls_configure(struct tls *tls);
/* Whether tls_configure would succeed: for `kelvin-server --check`. */
bool tls_check(struct config *config, struct message *message);
/* A port or the link to a primary needs it, as tls-port and tls-replication are now. */
bool tls_is_used(const struct config *config);
/* From now on, CONFIG SET of a tls-* directive makes a new context while tls-port is set. When it can not, the value is refused. */
void tls_watch_config(struct tls *tls);

/* The current one, held for the caller; NULL: there is none. */
struct tls_context *tls_hold_context(struct tls *tls);

#endif
