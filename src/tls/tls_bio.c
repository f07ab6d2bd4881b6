#include "tls/tls_bio.h"

#include <string.h>

static int bio_read(BIO *bio, char *target, size_t size, size_t *got)
{
    struct tls_channel *channel = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    *got = channel->in.size < size ? channel->in.size : size;
    if (*got == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(target, channel->in.data, *got);
    channel->in = bytes_of(channel->in.data + *got, channel->in.size - *got);
    return 1;
}

/* Takes all: callers bound what they encrypt, so a write is never tried again. */
static int bio_write(BIO *bio, const char *data, size_t size, size_t *written)
{
    struct tls_channel *channel = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buffer_append(&channel->out, data, size);
    *written = size;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_create(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "kelvin");

    if (method == NULL)
        return NULL;
    BIO_meth_set_read_ex(method, bio_read);
    BIO_meth_set_write_ex(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
    BIO_meth_set_create(method, bio_create);
    return method;
}

BIO *tls_bio_open(const BIO_METHOD *method, struct tls_channel *channel)
{
    BIO *bio = BIO_new(method);

    if (bio != NULL)
        BIO_set_data(bio, channel);
    return bio;
}
