/* TLS stream: the TLS of one connection. Ciphertext and plain text go in and come out as bytes; it does no I/O itself.
 *
 * Owner: one thread. No SSL is ever used by two.
 */
#ifndef KELVIN_TLS_TLS_STREAM_H
#define KELVIN_TLS_TLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"
#include "tls/tls_context.h"

struct tls_stream;

enum tls_result {
    TLS_DONE,
    TLS_NEEDS_INPUT,                /* all ciphertext has been used: more of it is needed */
    TLS_ENDED,                      /* the peer has sent close_notify: it sends no more, and may still read */
    TLS_FAILED,                     /* tls_stream_error has the reason; only the output, an alert, may still be sent */
};

/* The stream holds the context. NULL if there is no memory. */
struct tls_stream *tls_stream_accept(struct tls_context *context);
/* Creates the stream of a connection that this server opens. `host` is sent as the server name unless it is NULL; certificates are not
 * compared with it. */
struct tls_stream *tls_stream_connect(struct tls_context *context, const char *host);
void tls_stream_destroy(struct tls_stream *stream);         /* NULL is fine */

/* Received ciphertext. Used in place, so it has to be there until tls_stream_keep, which copies what was not used yet. */
void tls_stream_feed(struct tls_stream *stream, struct bytes cipher);
void tls_stream_keep(struct tls_stream *stream);
/* There may be plain text that can be read without more ciphertext: the last read ended because `data` was full, or bytes were fed since. */
bool tls_stream_has_input(const struct tls_stream *stream);

enum tls_result tls_stream_handshake(struct tls_stream *stream);
/* Reads until `size` bytes are there or the ciphertext is used up; *got bytes have been read, whatever the result. TLS_DONE: all `size`. */
enum tls_result tls_stream_read(struct tls_stream *stream, char *data, size_t size, size_t *got);
/* Encrypts all of it. What is encrypted has to be sent: it can't be taken back. TLS_DONE or TLS_FAILED. */
enum tls_result tls_stream_write(struct tls_stream *stream, struct bytes plain);
/* Writes close_notify, once. */
void tls_stream_end(struct tls_stream *stream);

/* Ciphertext to be sent, in order; also reading and shaking hands produce some. The caller takes bytes from it. */
struct buffer *tls_stream_output(struct tls_stream *stream);
/* Bytes of its buffers, without OpenSSL's own. */
size_t tls_stream_memory(const struct tls_stream *stream);
/* Why it has failed. */
void tls_stream_error(const struct tls_stream *stream, struct message *message);

#endif
