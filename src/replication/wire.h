/* Wire: a connected socket, with or without TLS, read and written without waiting.
 *
 * Owner: one thread. Memory: with TLS 64 KiB; and what has been written and not been sent, which the caller bounds (wire_has_output).
 */
#ifndef KELVIN_REPLICATION_WIRE_H
#define KELVIN_REPLICATION_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"

struct tls_context;
struct tls_stream;

enum wire_result { WIRE_OK, WIRE_CLOSED, WIRE_FAILED, WIRE_TLS_FAILED };

struct wire {
    int fd;                         /* -1: not open */
    int error;                      /* WIRE_FAILED: errno */
    enum wire_result ended;         /* WIRE_OK, or how the input ended after the bytes that were returned */
    struct tls_stream *tls;         /* NULL: none */
    char *cipher;                   /* what `tls` reads, in place */
    struct buffer plain;            /* without TLS: not sent yet */
};

void wire_init(struct wire *wire);
void wire_open(struct wire *wire, int fd);      /* takes the descriptor; it does not block */
void wire_close(struct wire *wire);             /* also if it is not open; what was not sent is lost */

/* False: there is no memory for it. Then wire_shake_hands until it is done; its input comes and its output goes as below. */
bool wire_start_tls(struct wire *wire, struct tls_context *context, const char *host);
bool wire_accept_tls(struct wire *wire, struct tls_context *context);       /* the same for a connection that the peer has opened */
enum wire_result wire_shake_hands(struct wire *wire, bool *done);

/* Reads what there is, up to `size` bytes; *got is 0: nothing yet. */
enum wire_result wire_read(struct wire *wire, char *data, size_t size, size_t *got);
/* Adds to the output. */
enum wire_result wire_write(struct wire *wire, struct bytes bytes);
/* Sends as much of the output as the socket takes. */
enum wire_result wire_flush(struct wire *wire);
bool wire_has_output(const struct wire *wire);
const struct buffer *wire_output(const struct wire *wire);
/* Reading with TLS adds to the output, too. True: so much is waiting that the caller should not read. */
bool wire_is_full(const struct wire *wire);

/* Why it failed or was closed. */
void wire_reason(const struct wire *wire, enum wire_result result, struct message *message);

#endif
