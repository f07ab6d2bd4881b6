#include "tls/tls_stream.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/certificate.h"

/* Both ends of a connection. */
struct box {
    struct certificate certificate;
    struct tls_stream *server, *client;
};

static int box_open(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));

    certificate_create(&box->certificate);
    box->server = tls_stream_accept(box->certificate.context);
    box->client = tls_stream_connect(box->certificate.context, "host");
    assert_true(box->server != NULL && box->client != NULL);
    *state = box;
    return 0;
}

static int box_close(void **state)
{
    struct box *box = *state;

    tls_stream_destroy(box->server);
    tls_stream_destroy(box->client);
    certificate_remove(&box->certificate);
    mem_free(box);
    return 0;
}

/* Hands what one end has to send to the other, at most `most` bytes, and drops it from the output. Returns how many. */
static size_t carry(struct tls_stream *from, struct tls_stream *to, size_t most)
{
    struct buffer *out = tls_stream_output(from);
    size_t size = out->size < most ? out->size : most;
    char *copy;

    if (size == 0)
        return 0;
    copy = malloc(size);            /* of just this size, so that AddressSanitizer sees a use after tls_stream_keep */
    memcpy(copy, out->data, size);
    memmove(out->data, out->data + size, out->size - size);
    out->size -= size;
    tls_stream_feed(to, bytes_of(copy, size));
    tls_stream_keep(to);
    free(copy);
    return size;
}

static void shake_hands(struct box *box, size_t most)
{
    enum tls_result server = TLS_NEEDS_INPUT, client = TLS_NEEDS_INPUT;

    for (int i = 0; i < 100000 && (server != TLS_DONE || client != TLS_DONE); i++) {
        client = tls_stream_handshake(box->client);
        carry(box->client, box->server, most);
        server = tls_stream_handshake(box->server);
        carry(box->server, box->client, most);
        assert_true(server != TLS_FAILED && client != TLS_FAILED);
    }
    assert_int_equal(server, TLS_DONE);
    assert_int_equal(client, TLS_DONE);
    while (carry(box->server, box->client, SIZE_MAX) > 0)
        ;
}

/* Reads all that `to` can get of what `from` has written, in ciphertext of `most` bytes at once and plain text of `piece`. */
static size_t read_all(struct tls_stream *from, struct tls_stream *to, char *data, size_t most, size_t piece)
{
    size_t total = 0;

    do {
        size_t got;

        do {
            enum tls_result result = tls_stream_read(to, data + total, piece, &got);

            assert_true(result == TLS_DONE || result == TLS_NEEDS_INPUT);
            assert_int_equal(tls_stream_has_input(to), result == TLS_DONE);
            total += got;
        } while (tls_stream_has_input(to));
    } while (carry(from, to, most) > 0 || tls_stream_has_input(to));
    return total;
}

static void records_may_be_cut_anywhere(void **state)
{
    static const size_t cuts[] = { 1, 2, 7, 100, 16384, SIZE_MAX };
    size_t size = 50000;
    char *sent = mem_alloc(size), *got = mem_alloc(2 * size);
    struct box *box = *state;

    for (size_t i = 0; i < size; i++)
        sent[i] = (char)(i * 31 + i / 251);
    shake_hands(box, 1);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        for (size_t piece = 333; piece <= size; piece *= 12) {
            assert_int_equal(tls_stream_write(box->client, bytes_of(sent, size)), TLS_DONE);
            assert_int_equal(read_all(box->client, box->server, got, cuts[i], piece), size);
            assert_memory_equal(got, sent, size);
            assert_int_equal(tls_stream_write(box->server, bytes_of(sent, size)), TLS_DONE);
            assert_int_equal(read_all(box->server, box->client, got, cuts[i], piece), size);
            assert_memory_equal(got, sent, size);
        }
    }
    mem_free(sent);
    mem_free(got);
}

static void a_read_that_is_full_leaves_input(void **state)
{
    struct box *box = *state;
    char data[10];
    size_t got;

    shake_hands(box, SIZE_MAX);
    tls_stream_write(box->client, bytes_of("0123456789", 10));
    carry(box->client, box->server, SIZE_MAX);
    assert_int_equal(tls_stream_read(box->server, data, 4, &got), TLS_DONE);
    assert_true(tls_stream_has_input(box->server));
    tls_stream_keep(box->server);
    assert_int_equal(tls_stream_read(box->server, data + 4, 6, &got), TLS_DONE);
    assert_memory_equal(data, "0123456789", 10);
    assert_int_equal(tls_stream_read(box->server, data, 1, &got), TLS_NEEDS_INPUT);
    assert_false(tls_stream_has_input(box->server));
    tls_stream_keep(box->server);
    assert_int_equal(tls_stream_memory(box->server), tls_stream_output(box->server)->capacity);
}

static void close_notify_ends_one_direction(void **state)
{
    struct box *box = *state;
    char data[10];
    size_t got;

    shake_hands(box, SIZE_MAX);
    tls_stream_write(box->client, bytes_of("last", 4));
    tls_stream_end(box->client);
    tls_stream_end(box->client);
    carry(box->client, box->server, SIZE_MAX);
    assert_int_equal(tls_stream_read(box->server, data, sizeof(data), &got), TLS_ENDED);
    assert_int_equal(got, 4);
    assert_false(tls_stream_has_input(box->server));
    assert_int_equal(tls_stream_write(box->server, bytes_of("reply", 5)), TLS_DONE);
    carry(box->server, box->client, SIZE_MAX);
    assert_int_equal(tls_stream_read(box->client, data, 5, &got), TLS_DONE);
    assert_memory_equal(data, "reply", 5);
}

static void a_damaged_record_fails_for_good(void **state)
{
    struct box *box = *state;
    struct message message;
    char data[10];
    size_t got;

    shake_hands(box, SIZE_MAX);
    tls_stream_write(box->client, bytes_of("hello", 5));
    tls_stream_output(box->client)->data[8] ^= 1;
    carry(box->client, box->server, SIZE_MAX);
    assert_int_equal(tls_stream_read(box->server, data, 5, &got), TLS_FAILED);
    assert_int_equal(got, 0);
    tls_stream_error(box->server, &message);
    assert_string_not_equal(message.text, "");
    assert_true(tls_stream_output(box->server)->size > 0);                  /* the alert */
    assert_false(tls_stream_has_input(box->server));
    assert_int_equal(tls_stream_read(box->server, data, 5, &got), TLS_FAILED);
    assert_int_equal(tls_stream_write(box->server, bytes_of("x", 1)), TLS_FAILED);
}

static void clear_text_fails_the_handshake(void **state)
{
    struct box *box = *state;
    struct message message;

    tls_stream_feed(box->server, BYTES("PING\r\n"));
    assert_int_equal(tls_stream_handshake(box->server), TLS_FAILED);
    tls_stream_error(box->server, &message);
    assert_non_null(strstr(message.text, "http request") != NULL ? "" : strstr(message.text, "wrong version"));
}

static void a_stream_outlives_its_context(void **state)
{
    struct box *box = *state;

    tls_context_drop(box->certificate.context);
    box->certificate.context = NULL;
    shake_hands(box, SIZE_MAX);
}

static void settings_that_are_wrong_say_why(void **state)
{
    static const struct {
        size_t offset;
        char *value, *reason;
    } wrong[] = {
        { offsetof(struct tls_settings, cert_file), "", "No tls-cert-file" },
        { offsetof(struct tls_settings, key_file), "", "No tls-key-file" },
        { offsetof(struct tls_settings, ca_cert_file), "", "tls-ca-cert-file" },
        { offsetof(struct tls_settings, cert_file), "/nonexistent", "certificate '/nonexistent': No such file" },
        { offsetof(struct tls_settings, key_file), "/dev/null", "private key '/dev/null'" },
        { offsetof(struct tls_settings, ca_cert_file), "/dev/null", "CA certificates '/dev/null'" },
        { offsetof(struct tls_settings, dh_params_file), "/dev/null", "DH parameters '/dev/null'" },
        { offsetof(struct tls_settings, protocols), "TLSv1.2 TLSv1.4", "tls-protocols 'TLSv1.2 TLSv1.4'" },
        { offsetof(struct tls_settings, ciphers), "nonsense", "ciphers 'nonsense'" },
        { offsetof(struct tls_settings, ciphersuites), "nonsense", "ciphersuites 'nonsense'" },
    };
    struct box *box = *state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tls_settings settings = box->certificate.settings;
        struct message message = { "" };

        *(char **)((char *)&settings + wrong[i].offset) = wrong[i].value;
        assert_null(tls_context_create(&settings, &message));
        if (strstr(message.text, wrong[i].reason) == NULL)
            fail_msg("%s: %s", wrong[i].reason, message.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_may_be_cut_anywhere, box_open, box_close),
        cmocka_unit_test_setup_teardown(a_read_that_is_full_leaves_input, box_open, box_close),
        cmocka_unit_test_setup_teardown(close_notify_ends_one_direction, box_open, box_close),
        cmocka_unit_test_setup_teardown(a_damaged_record_fails_for_good, box_open, box_close),
        cmocka_unit_test_setup_teardown(clear_text_fails_the_handshake, box_open, box_close),
        cmocka_unit_test_setup_teardown(a_stream_outlives_its_context, box_open, box_close),
        cmocka_unit_test_setup_teardown(settings_that_are_wrong_say_why, box_open, box_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
