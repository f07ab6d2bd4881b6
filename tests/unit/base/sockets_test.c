#include "base/sockets.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static int port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t size = sizeof(at);

    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static bool connects(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0), result = connect(fd, (struct sockaddr *)&at, sizeof(at));

    close(fd);
    return result == 0;
}

static void a_retired_socket_frees_its_address_and_can_be_revived(void **state)
{
    struct message message;
    int fd = sockets_listen_tcp("127.0.0.1", 0, 10, &message), port = port_of(fd), other;

    /* A port that was chosen by the system would be chosen again by sockets_revive. */
    close(fd);
    fd = sockets_listen_tcp("127.0.0.1", port, 10, &message);
    assert_true(connects(port));
    assert_int_equal(sockets_listen_tcp("*", port, 10, &message), -1);
    assert_int_equal(errno, EADDRINUSE);
    sockets_retire(fd);
    assert_false(connects(port));
    other = sockets_listen_tcp("*", port, 10, &message);
    assert_true(other >= 0);
    assert_true(connects(port));
    close(other);
    assert_false(connects(port));
    assert_true(sockets_revive(fd, 10));
    assert_true(connects(port));
    close(fd);
}

static void an_address_of_another_machine_is_missing(void **state)
{
    struct message message;

    assert_int_equal(sockets_listen_tcp("198.51.100.1", 0, 10, &message), -1);
    assert_true(sockets_is_missing_address(errno));
    assert_string_equal(message.text, "Could not create server TCP listening socket 198.51.100.1:0: bind: Cannot assign requested address");
    assert_int_equal(sockets_listen_tcp("not an address", 0, 10, &message), -1);
}

/* Without opening a socket. */
static void an_address_of_this_machine_is_found(void **state)
{
    struct message message = { "" };

    assert_true(sockets_has_address("127.0.0.1", &message));
    assert_true(sockets_has_address("127.3.4.5", &message));        /* all of 127.0.0.0/8 can be bound */
    assert_true(sockets_has_address("*", &message));
    assert_true(sockets_has_address("::*", &message));
    assert_string_equal(message.text, "");
    assert_false(sockets_has_address("198.51.100.1", &message));
    assert_string_equal(message.text, "bind 198.51.100.1: this machine does not have the address");
    assert_false(sockets_has_address("2001:db8::1", &message));
    assert_string_equal(message.text, "bind 2001:db8::1: this machine does not have the address");
    assert_false(sockets_has_address("not an address", &message));
}

static void a_path_that_is_too_long_is_refused(void **state)
{
    char path[300];
    struct message message;

    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i + 1 < sizeof(path) ? 'x' : '\0';
    assert_int_equal(sockets_listen_unix(path, 0, 10, &message), -1);
    assert_string_equal(message.text, "Failed opening Unix socket: the path is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retired_socket_frees_its_address_and_can_be_revived),
        cmocka_unit_test(an_address_of_another_machine_is_missing),
        cmocka_unit_test(an_address_of_this_machine_is_found),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
