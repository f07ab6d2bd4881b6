#include "cluster/node_text.h"

#include "support/unit.h"

#include <string.h>

#include "cluster/node_id.h"

static void check_flags(uint16_t flags, const char *text)
{
    struct buffer out = { 0 };
    uint16_t again;

    node_flags_append(&out, flags);
    assert_true(bytes_equal(buffer_bytes(&out), bytes_of_string(text)));
    assert_true(node_flags_read(bytes_of_string(text), &again));
    assert_int_equal(again, flags);
    buffer_release(&out);
}

static void flags_have_the_words_and_the_order_of_redis(void **state)
{
    struct buffer out = { 0 };
    uint16_t flags;

    check_flags(0, "noflags");
    check_flags(NODE_MYSELF | NODE_MASTER, "myself,master");
    check_flags(NODE_REPLICA | NODE_PFAIL | NODE_FAIL | NODE_HANDSHAKE | NODE_NO_ADDRESS | NODE_NO_FAILOVER, "slave,fail?,fail,handshake,noaddr,nofailover");
    node_flags_append(&out, NODE_MASTER | NODE_MIGRATE_TO | NODE_MEET | 2048);
    assert_true(bytes_equal(buffer_bytes(&out), BYTES("master")));
    buffer_release(&out);
    assert_true(node_flags_read(BYTES("SLAVE,noflags"), &flags));
    assert_int_equal(flags, NODE_REPLICA);
    assert_false(node_flags_read(BYTES(""), &flags));
    assert_false(node_flags_read(BYTES("master,"), &flags));
    assert_false(node_flags_read(BYTES("master,primary"), &flags));
}

static void an_id_is_forty_letters_and_digits(void **state)
{
    struct node_id id = { { 0 } }, other;

    assert_true(node_id_is_none(&id));
    assert_true(node_id_read(BYTES("0123456789abcdefghijklmnopqrstuvwxyz0123"), &id));
    assert_false(node_id_is_none(&id));
    assert_true(bytes_equal(node_id_bytes(&id), BYTES("0123456789abcdefghijklmnopqrstuvwxyz0123")));
    assert_false(node_id_read(BYTES("0123456789abcdefghijklmnopqrstuvwxyz012"), &other));
    assert_false(node_id_read(BYTES("0123456789abcdefghijklmnopqrstuvwxyz01234"), &other));
    assert_true(node_id_read(BYTES("0123456789Zbcdefghijklmnopqrstuvwxyz012A"), &other));
    assert_false(node_id_read(BYTES("0123456789-bcdefghijklmnopqrstuvwxyz0123"), &other));
    assert_false(node_id_read(BYTES("0123456789abcdefghijklmnopqrstuvwxyz012\0"), &other));
    other = id;
    other.text[39] = '4';
    assert_true(node_id_compare(&id, &other) < 0);
    assert_false(node_id_equal(&id, &other));
}

static void texts_that_would_break_a_line_are_refused(void **state)
{
    char long_text[NODE_NAME_SIZE_MAX + 1];

    memset(long_text, 'a', sizeof(long_text));
    assert_true(node_host_name_is_valid(BYTES("")));
    assert_true(node_host_name_is_valid(BYTES("cache-1.Example.com")));
    assert_false(node_host_name_is_valid(BYTES("a b")));
    assert_false(node_host_name_is_valid(BYTES("a,b")));
    assert_false(node_host_name_is_valid(BYTES("a\0b")));
    assert_false(node_host_name_is_valid(BYTES("a\nb")));
    assert_true(node_host_name_is_valid(bytes_of(long_text, NODE_HOST_NAME_SIZE_MAX)));
    assert_false(node_host_name_is_valid(bytes_of(long_text, NODE_HOST_NAME_SIZE_MAX + 1)));
    assert_true(node_name_is_valid(BYTES("shard_1/B-2.x")));
    assert_true(node_name_is_valid(BYTES("\xc3\xa4")));
    assert_false(node_name_is_valid(BYTES("a b")));
    assert_false(node_name_is_valid(BYTES("a=b")));
    assert_false(node_name_is_valid(BYTES("a,b")));
    assert_false(node_name_is_valid(BYTES("a\0b")));
    assert_false(node_name_is_valid(BYTES("a\x7f")));
    assert_true(node_name_is_valid(bytes_of(long_text, NODE_NAME_SIZE_MAX)));
    assert_false(node_name_is_valid(bytes_of(long_text, NODE_NAME_SIZE_MAX + 1)));
    assert_true(node_ip_is_valid(BYTES("")));
    assert_true(node_ip_is_valid(BYTES("10.0.0.1")));
    assert_true(node_ip_is_valid(BYTES("fe80::1%eth0")));
    assert_false(node_ip_is_valid(BYTES("10.0.0.1,")));
    assert_false(node_ip_is_valid(BYTES("10.0.0.1\0")));
    assert_false(node_ip_is_valid(BYTES("10.0.0.1 ")));
    assert_true(node_ip_is_valid(bytes_of(long_text, NODE_IP_SIZE - 1)));
    assert_false(node_ip_is_valid(bytes_of(long_text, NODE_IP_SIZE)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_have_the_words_and_the_order_of_redis),
        cmocka_unit_test(an_id_is_forty_letters_and_digits),
        cmocka_unit_test(texts_that_would_break_a_line_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
