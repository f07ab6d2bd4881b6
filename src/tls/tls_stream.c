#include "tls/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/mem.h"
#include "tls/tls_bio.h"

struct tls_stream {
    struct tls_context *context;    /* held */
    SSL *ssl;
    struct tls_channel channel;
    struct buffer kept;             /* what channel.in is in after tls_stream_keep */
    bool may_have_input;
    bool failed, end_written;
    unsigned long error;            /* OpenSSL's, after TLS_FAILED; 0: the connection ended in the middle */
    long verify_error;              /* why the peer's certificate was refused; X509_V_OK: it was not */
};

static struct tls_stream *stream_create(struct tls_context *context, SSL *ssl)
{
    struct tls_stream *stream;
    BIO *bio;

    if (ssl == NULL)
        return NULL;
    stream = mem_zalloc(sizeof(*stream));
    stream->ssl = ssl;
    stream->context = tls_context_hold(context);
    bio = tls_bio_open(tls_context_bio(context), &stream->channel);
    if (bio == NULL) {
        tls_stream_destroy(stream);
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    return stream;
}

struct tls_stream *tls_stream_accept(struct tls_context *context)
{
    struct tls_stream *stream = stream_create(context, tls_context_new_server(context));

    if (stream != NULL)
        SSL_set_accept_state(stream->ssl);
    return stream;
}

struct tls_stream *tls_stream_connect(struct tls_context *context, const char *host)
{
    struct tls_stream *stream = stream_create(context, tls_context_new_client(context));

    if (stream == NULL)
        return NULL;
    SSL_set_connect_state(stream->ssl);
    if (host != NULL)
        SSL_set_tlsext_host_name(stream->ssl, host);
    return stream;
}

void tls_stream_destroy(struct tls_stream *stream)
{
    if (stream == NULL)
        return;
    SSL_free(stream->ssl);
    buffer_release(&stream->channel.out);
    buffer_release(&stream->kept);
    tls_context_drop(stream->context);
    mem_free(stream);
}

void tls_stream_feed(struct tls_stream *stream, struct bytes cipher)
{
    stream->may_have_input = true;
    if (stream->channel.in.size == 0) {
        stream->channel.in = cipher;
        return;
    }
    tls_stream_keep(stream);
    buffer_append_bytes(&stream->kept, cipher);
    stream->channel.in = buffer_bytes(&stream->kept);
}

/* Moves what is left to the begin of `kept`, whose memory goes when nothing is. */
void tls_stream_keep(struct tls_stream *stream)
{
    struct buffer *kept = &stream->kept;
    struct bytes left = stream->channel.in;

    if (left.size == 0) {
        buffer_release(kept);
        return;
    }
    if (left.data >= kept->data && left.data < kept->data + kept->capacity) {
        memmove(kept->data, left.data, left.size);
        kept->size = left.size;
    } else {
        kept->size = 0;
        buffer_reserve_exact(kept, left.size);
        buffer_append_bytes(kept, left);
    }
    stream->channel.in = buffer_bytes(kept);
}

bool tls_stream_has_input(const struct tls_stream *stream)
{
    return stream->may_have_input;
}

static enum tls_result failed(struct tls_stream *stream)
{
    if (!stream->failed) {
        stream->error = ERR_peek_error();
        stream->verify_error = SSL_get_verify_result(stream->ssl);
    }
    stream->failed = true;
    stream->may_have_input = false;
    ERR_clear_error();
    return TLS_FAILED;
}

/* Returns the meaning of the result of an OpenSSL call that did not succeed. Writes always succeed, so OpenSSL never wants one. */
static enum tls_result result_of(struct tls_stream *stream, int result)
{
    switch (SSL_get_error(stream->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        stream->may_have_input = false;
        return TLS_NEEDS_INPUT;
    case SSL_ERROR_ZERO_RETURN:
        stream->may_have_input = false;
        return TLS_ENDED;
    default:
        return failed(stream);
    }
}

enum tls_result tls_stream_handshake(struct tls_stream *stream)
{
    int result;

    if (stream->failed)
        return TLS_FAILED;
    ERR_clear_error();
    result = SSL_do_handshake(stream->ssl);
    return result == 1 ? TLS_DONE : result_of(stream, result);
}

enum tls_result tls_stream_read(struct tls_stream *stream, char *data, size_t size, size_t *got)
{
    *got = 0;
    if (stream->failed)
        return TLS_FAILED;
    while (*got < size) {
        size_t part = 0;
        int result;

        ERR_clear_error();
        result = SSL_read_ex(stream->ssl, data + *got, size - *got, &part);
        if (result != 1)
            return result_of(stream, result);
        *got += part;
    }
    return TLS_DONE;
}

enum tls_result tls_stream_write(struct tls_stream *stream, struct bytes plain)
{
    if (stream->failed)
        return TLS_FAILED;
    while (plain.size > 0) {
        size_t part = 0;

        ERR_clear_error();
        if (SSL_write_ex(stream->ssl, plain.data, plain.size, &part) != 1)
            return failed(stream);
        plain = bytes_of(plain.data + part, plain.size - part);
    }
    return TLS_DONE;
}

void tls_stream_end(struct tls_stream *stream)
{
    if (stream->failed || stream->end_written || !SSL_is_init_finished(stream->ssl))
        return;
    stream->end_written = true;
    ERR_clear_error();
    SSL_shutdown(stream->ssl);
    ERR_clear_error();
}

struct buffer *tls_stream_output(struct tls_stream *stream) { return &stream->channel.out; }

size_t tls_stream_memory(const struct tls_stream *stream)
{
    return stream->kept.capacity + stream->channel.out.capacity;
}

void tls_stream_error(const struct tls_stream *stream, struct message *message)
{
    const char *reason = stream->error != 0 ? ERR_reason_error_string(stream->error) : NULL;

    message_set(message, "%s", reason != NULL ? reason : "the TLS connection failed");
    if (stream->verify_error != X509_V_OK)
        message_append(message, " (%s)", X509_verify_cert_error_string(stream->verify_error));
}
