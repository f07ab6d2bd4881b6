#include "metrics/addresses.h"

#include "support/unit.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int setup(void **state)
{
    static struct addresses addresses;

    addresses_init(&addresses);
    *state = &addresses;
    return 0;
}

static int teardown(void **state)
{
    addresses_release(*state);
    return 0;
}

/* Returns a socket that listens, at a port of its own. */
static int take_port(int *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int free_port(void)
{
    int port, fd = take_port(&port);

    close(fd);
    return port;
}

static bool is_open(uint32_t host, int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(host) } };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is = connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

    close(fd);
    return is;
}

static const uint32_t here = INADDR_LOOPBACK, there = INADDR_LOOPBACK + 1;

static void what_changes_is_handed_over_once(void **state)
{
    struct message message = { "" };
    struct address_list polled;
    uint64_t version = 0;
    int port = free_port();

    assert_false(addresses_take(*state, &polled, &version));
    assert_true(addresses_change(*state, " 127.0.0.1  127.0.0.2 ", port, &message));
    assert_true(addresses_take(*state, &polled, &version));
    assert_int_equal(polled.count, 2);
    assert_false(addresses_take(*state, &polled, &version));
    assert_true(is_open(here, port) && is_open(there, port));
    assert_true(addresses_change(*state, "127.0.0.2", port, &message));
    assert_false(is_open(here, port));
    assert_true(is_open(there, port));
    assert_true(addresses_change(*state, "127.0.0.2", 0, &message));
    assert_false(is_open(there, port));
    assert_true(addresses_take(*state, &polled, &version));
    assert_int_equal(polled.count, 0);
}

static void a_change_that_fails_changes_nothing(void **state)
{
    struct message message = { "" };
    int port = free_port(), taken, fd = take_port(&taken);

    assert_true(addresses_change(*state, "127.0.0.1", port, &message));
    assert_false(addresses_change(*state, "127.0.0.2 127.0.0.1", taken, &message));
    assert_non_null(strstr(message.text, "in use"));
    assert_true(is_open(here, port));
    assert_false(is_open(there, taken));
    assert_false(addresses_change(*state, "127.0.0.1 203.0.113.1", port, &message));
    assert_true(is_open(here, port));
    close(fd);
}

static void an_old_address_in_the_way_of_a_new_one_is_given_up(void **state)
{
    struct message message = { "" };
    int port = free_port();

    assert_true(addresses_change(*state, "127.0.0.1", port, &message));
    assert_true(addresses_change(*state, "*", port, &message));
    assert_true(is_open(here, port) && is_open(there, port));
    assert_true(addresses_change(*state, "127.0.0.1", port, &message));
    assert_true(is_open(here, port));
    assert_false(is_open(there, port));
}

static void an_optional_address_may_be_missing(void **state)
{
    struct message message = { "" };
    int port = free_port();

    assert_true(addresses_change(*state, "-203.0.113.1 127.0.0.1", port, &message));
    assert_true(is_open(here, port));
    assert_false(addresses_change(*state, "-203.0.113.1", port, &message));
    assert_non_null(strstr(message.text, "no address"));
    assert_false(addresses_change(*state, "", port, &message));
}

static void hostile_words_are_an_error(void **state)
{
    struct message message = { "" };
    char text[600];

    memset(text, 'a', 599);
    text[599] = '\0';
    assert_false(addresses_change(*state, text, 1, &message));
    for (int i = 0; i < 599; i += 2)
        text[i + 1] = ' ';
    assert_false(addresses_change(*state, text, 1, &message));
    assert_non_null(strstr(message.text, "too many"));
    assert_false(addresses_change(*state, "-", free_port(), &message));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_changes_is_handed_over_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_that_fails_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_old_address_in_the_way_of_a_new_one_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(an_optional_address_may_be_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_words_are_an_error, setup, teardown),
    };

    return cmocka_run_group_tests_name("metrics/addresses", tests, NULL, NULL);
}
