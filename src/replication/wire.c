#include "replication/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "tls/tls_stream.h"

enum { CIPHER_SIZE = 64 * 1024, OUTPUT_MAX = 64 * 1024 };

void wire_init(struct wire *wire)
{
    *wire = (struct wire){ .fd = -1 };
}

void wire_open(struct wire *wire, int fd)
{
    wire_init(wire);
    wire->fd = fd;
}

void wire_close(struct wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    tls_stream_destroy(wire->tls);
    mem_free(wire->cipher);
    buffer_release(&wire->plain);
    wire_init(wire);
}

/* NULL: there was no memory for it. */
static bool take_stream(struct wire *wire, struct tls_stream *stream)
{
    wire->tls = stream;
    if (stream != NULL)
        wire->cipher = mem_alloc(CIPHER_SIZE);
    return stream != NULL;
}

bool wire_start_tls(struct wire *wire, struct tls_context *context, const char *host)
{
    return take_stream(wire, tls_stream_connect(context, host));
}

bool wire_accept_tls(struct wire *wire, struct tls_context *context)
{
    return take_stream(wire, tls_stream_accept(context));
}

static enum wire_result failed(struct wire *wire)
{
    wire->error = errno;
    return WIRE_FAILED;
}

static enum wire_result receive(struct wire *wire, char *data, size_t size, size_t *got)
{
    ssize_t count = recv(wire->fd, data, size, 0);

    *got = 0;
    if (count == 0)
        return WIRE_CLOSED;
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? WIRE_OK : failed(wire);
    *got = (size_t)count;
    return WIRE_OK;
}

/* More ciphertext for TLS, which has used all that there was. */
static enum wire_result receive_cipher(struct wire *wire, size_t *got)
{
    enum wire_result result;

    tls_stream_keep(wire->tls);
    result = receive(wire, wire->cipher, CIPHER_SIZE, got);
    if (*got > 0)
        tls_stream_feed(wire->tls, bytes_of(wire->cipher, *got));
    return result;
}

enum wire_result wire_shake_hands(struct wire *wire, bool *done)
{
    *done = false;
    for (;;) {
        size_t got;
        enum wire_result result;

        switch (tls_stream_handshake(wire->tls)) {
        case TLS_DONE:
            *done = true;
            return WIRE_OK;
        case TLS_NEEDS_INPUT:
            break;
        default:
            return WIRE_TLS_FAILED;
        }
        result = receive_cipher(wire, &got);
        if (got == 0)
            return result;
    }
}

static enum wire_result decrypt(struct wire *wire, char *data, size_t size, size_t *got)
{
    switch (tls_stream_read(wire->tls, data, size, got)) {
    case TLS_DONE:
    case TLS_NEEDS_INPUT:
        return WIRE_OK;
    case TLS_ENDED:
        return WIRE_CLOSED;
    case TLS_FAILED:
        break;
    }
    return WIRE_TLS_FAILED;
}

static enum wire_result read_tls(struct wire *wire, char *data, size_t size, size_t *got)
{
    while (wire->ended == WIRE_OK) {
        size_t received;
        enum wire_result result;

        if (tls_stream_has_input(wire->tls)) {
            wire->ended = decrypt(wire, data, size, got);
            if (*got > 0)
                return WIRE_OK;
            continue;
        }
        result = receive_cipher(wire, &received);
        if (received == 0)
            return result;
    }
    return wire->ended;
}

enum wire_result wire_read(struct wire *wire, char *data, size_t size, size_t *got)
{
    *got = 0;
    return wire->tls != NULL ? read_tls(wire, data, size, got) : receive(wire, data, size, got);
}

const struct buffer *wire_output(const struct wire *wire)
{
    return wire->tls != NULL ? tls_stream_output(wire->tls) : &wire->plain;
}

enum wire_result wire_write(struct wire *wire, struct bytes bytes)
{
    if (wire->tls != NULL)
        return tls_stream_write(wire->tls, bytes) == TLS_DONE ? WIRE_OK : WIRE_TLS_FAILED;
    buffer_append_bytes(&wire->plain, bytes);
    return WIRE_OK;
}

enum wire_result wire_flush(struct wire *wire)
{
    struct buffer *output = wire->tls != NULL ? tls_stream_output(wire->tls) : &wire->plain;

    while (output->size > 0) {
        ssize_t count = send(wire->fd, output->data, output->size, MSG_NOSIGNAL);

        if (count < 0)
            return errno == EAGAIN || errno == EINTR ? WIRE_OK : failed(wire);
        output->size -= (size_t)count;
        memmove(output->data, output->data + count, output->size);
    }
    buffer_shrink(output, OUTPUT_MAX);
    return WIRE_OK;
}

bool wire_has_output(const struct wire *wire) { return wire_output(wire)->size > 0; }
bool wire_is_full(const struct wire *wire) { return wire_output(wire)->size > OUTPUT_MAX; }

void wire_reason(const struct wire *wire, enum wire_result result, struct message *message)
{
    if (result == WIRE_TLS_FAILED)
        tls_stream_error(wire->tls, message);
    else
        message_set(message, "%s", result == WIRE_FAILED ? strerror(wire->error) : "the connection was closed");
}
