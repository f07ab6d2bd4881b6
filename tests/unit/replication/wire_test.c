#include "replication/wire.h"

#include "support/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/certificate.h"
#include "tls/tls_stream.h"

/* The wire, and the peer's end of its socket. */
struct box {
    struct wire wire;
    int fd;
    struct certificate certificate;
    struct tls_stream *peer;            /* NULL: without TLS */
};

static int box_open(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));
    int fds[2];

    certificate_create(&box->certificate);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    wire_open(&box->wire, fds[0]);
    box->fd = fds[1];
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    wire_close(&box->wire);
    wire_close(&box->wire);             /* is allowed */
    tls_stream_destroy(box->peer);
    if (box->fd >= 0)
        close(box->fd);
    certificate_remove(&box->certificate);
    mem_free(box);
    return 0;
}

static void send_plain(struct box *box, const char *text)
{
    assert_int_equal(send(box->fd, text, strlen(text), 0), strlen(text));
}

static void expect_read(struct box *box, const char *text)
{
    char data[100];
    size_t got;

    assert_int_equal(wire_read(&box->wire, data, sizeof(data), &got), WIRE_OK);
    assert_int_equal(got, strlen(text));
    assert_memory_equal(data, text, got);
}

static void expect_end(struct box *box, enum wire_result result, const char *reason)
{
    struct message message;
    char data[100];
    size_t got;

    assert_int_equal(wire_read(&box->wire, data, sizeof(data), &got), result);
    assert_int_equal(got, 0);
    wire_reason(&box->wire, result, &message);
    assert_non_null(strstr(message.text, reason));
}

static void reads_what_there_is(void **state)
{
    struct box *box = *state;

    expect_read(box, "");
    send_plain(box, "abc");
    expect_read(box, "abc");
    expect_read(box, "");
    send_plain(box, "d");
    close(box->fd);
    box->fd = -1;
    expect_read(box, "d");
    expect_end(box, WIRE_CLOSED, "the connection was closed");
}

static void writes_what_the_socket_takes(void **state)
{
    enum { SIZE = 3000000 };
    struct box *box = *state;
    char *data = mem_alloc(SIZE), *got = mem_alloc(SIZE);
    size_t size = 0;

    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 11);
    assert_int_equal(wire_write(&box->wire, bytes_of(data, SIZE)), WIRE_OK);
    assert_true(wire_is_full(&box->wire));
    while (size < SIZE) {
        ssize_t count;

        assert_int_equal(wire_flush(&box->wire), WIRE_OK);
        count = recv(box->fd, got + size, SIZE - size, 0);
        assert_true(count > 0);
        size += (size_t)count;
    }
    assert_false(wire_has_output(&box->wire));
    assert_memory_equal(data, got, SIZE);
    mem_free(data);
    mem_free(got);
}

static void a_broken_connection_has_a_reason(void **state)
{
    struct box *box = *state;
    struct message message;

    close(box->fd);
    box->fd = -1;
    wire_write(&box->wire, BYTES("x"));
    assert_int_equal(wire_flush(&box->wire), WIRE_FAILED);
    wire_reason(&box->wire, WIRE_FAILED, &message);
    assert_string_equal(message.text, strerror(EPIPE));
}

/* TLS: what the peer has encrypted is sent in pieces of `piece` bytes, and the wire reads after each. */

static void start_tls(struct box *box)
{
    box->peer = tls_stream_accept(box->certificate.context);
    assert_non_null(box->peer);
    assert_true(wire_start_tls(&box->wire, box->certificate.context, NULL));
}

static size_t send_cipher(struct box *box, size_t piece)
{
    struct buffer *out = tls_stream_output(box->peer);
    size_t size = out->size < piece ? out->size : piece;

    if (size == 0)
        return 0;
    assert_int_equal(send(box->fd, out->data, size, MSG_NOSIGNAL), size);
    memmove(out->data, out->data + size, out->size - size);
    out->size -= size;
    return size;
}

static void receive_cipher(struct box *box)
{
    char cipher[16384];
    ssize_t count = recv(box->fd, cipher, sizeof(cipher), 0);

    if (count > 0)
        tls_stream_feed(box->peer, bytes_of(cipher, (size_t)count));
    tls_stream_keep(box->peer);
}

static enum wire_result shake_hands(struct box *box, size_t piece)
{
    enum wire_result result;
    bool done;

    do {
        result = wire_shake_hands(&box->wire, &done);
        wire_flush(&box->wire);
        receive_cipher(box);
        (void)!tls_stream_handshake(box->peer);
        send_cipher(box, piece);
    } while (result == WIRE_OK && !done);
    return result;
}

static void tls_in_pieces_of_any_size(void **state)
{
    struct box *box = *state;
    struct buffer got = { 0 };
    char text[40000], data[1000];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)(i * 2654435761u >> 15);
    start_tls(box);
    assert_int_equal(shake_hands(box, 7), WIRE_OK);
    tls_stream_handshake(box->peer);
    assert_int_equal(tls_stream_write(box->peer, bytes_of(text, sizeof(text))), TLS_DONE);
    while (got.size < sizeof(text)) {
        size_t size = 1, pieces = send_cipher(box, 777);

        assert_true(pieces > 0 || got.size < sizeof(text));
        while (size > 0) {                  /* all that can be decrypted, in parts that are smaller than a record */
            assert_int_equal(wire_read(&box->wire, data, sizeof(data), &size), WIRE_OK);
            buffer_append(&got, data, size);
        }
    }
    assert_memory_equal(got.data, text, sizeof(text));
    buffer_release(&got);
}

static void tls_writes_are_encrypted(void **state)
{
    struct box *box = *state;
    char data[100];
    size_t got;

    start_tls(box);
    assert_int_equal(shake_hands(box, 100000), WIRE_OK);
    assert_int_equal(wire_write(&box->wire, BYTES("PING")), WIRE_OK);
    assert_true(wire_has_output(&box->wire));
    assert_int_equal(wire_flush(&box->wire), WIRE_OK);
    assert_false(wire_has_output(&box->wire));
    receive_cipher(box);
    assert_int_equal(tls_stream_read(box->peer, data, sizeof(data), &got), TLS_NEEDS_INPUT);
    assert_int_equal(got, 4);
    assert_memory_equal(data, "PING", 4);
}

static void the_last_bytes_before_close_notify_are_read(void **state)
{
    struct box *box = *state;

    start_tls(box);
    assert_int_equal(shake_hands(box, 100000), WIRE_OK);
    while (send_cipher(box, 100000) > 0)
        ;
    tls_stream_write(box->peer, BYTES("last"));
    tls_stream_end(box->peer);
    send_cipher(box, 100000);
    expect_read(box, "last");
    expect_end(box, WIRE_CLOSED, "the connection was closed");
}

static void a_peer_without_tls_is_an_error(void **state)
{
    struct box *box = *state;
    struct message message;
    bool done;

    start_tls(box);
    send_plain(box, "-ERR this is not TLS\r\n");
    assert_int_equal(wire_shake_hands(&box->wire, &done), WIRE_TLS_FAILED);
    wire_reason(&box->wire, WIRE_TLS_FAILED, &message);
    assert_string_equal(message.text, "wrong version number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, box_open, box_close)
        TEST(reads_what_there_is),
        TEST(writes_what_the_socket_takes),
        TEST(a_broken_connection_has_a_reason),
        TEST(tls_in_pieces_of_any_size),
        TEST(tls_writes_are_encrypted),
        TEST(the_last_bytes_before_close_notify_are_read),
        TEST(a_peer_without_tls_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
