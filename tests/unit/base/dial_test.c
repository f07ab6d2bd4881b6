#include "base/dial.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static bool wait_until_ready(void *context, int fd)
{
    struct pollfd poller = { .fd = fd, .events = POLLOUT };
    int *waits = context;

    (*waits)++;
    return poll(&poller, 1, 20000) == 1;
}

static bool give_up(void *context, int fd)
{
    int *waits = context;

    (*waits)++;
    return false;
}

static struct sockaddr_in address(uint32_t ip, uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip) };
}

static struct addrinfo entry(struct sockaddr_in *at, struct addrinfo *next)
{
    return (struct addrinfo){ .ai_family = AF_INET, .ai_addr = (struct sockaddr *)at, .ai_addrlen = sizeof(*at), .ai_next = next };
}

static int listen_at(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof(*at);

    *at = address(INADDR_LOOPBACK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)at, size), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &size), 0);
    return fd;
}

static void the_next_address_is_tried_after_one_that_refuses(void **state)
{
    struct sockaddr_in refuses = address(INADDR_LOOPBACK, 1), accepts, source = address(INADDR_LOOPBACK + 5, 0), peer;
    int listener = listen_at(&accepts), waits = 0, fd, accepted;
    struct addrinfo second = entry(&accepts, NULL), first = entry(&refuses, &second), from = entry(&source, NULL);
    struct dial attempt = { .addresses = &first, .sources = &from, .wait = wait_until_ready, .context = &waits };
    socklen_t size = sizeof(peer);

    fd = dial(&attempt);
    assert_true(fd >= 0);
    accepted = accept(listener, (struct sockaddr *)&peer, &size);
    assert_int_equal(peer.sin_addr.s_addr, source.sin_addr.s_addr);
    close(accepted);
    close(fd);
    close(listener);
}

static void errors_are_those_of_the_last_address(void **state)
{
    struct sockaddr_in refuses = address(INADDR_LOOPBACK, 1), elsewhere = address(0xc6336401, 0);
    struct addrinfo to = entry(&refuses, NULL), from = entry(&elsewhere, NULL), other_family = from;
    int waits = 0;
    struct dial attempt = { .addresses = &to, .wait = wait_until_ready, .context = &waits };

    assert_int_equal(dial(&attempt), -1);
    assert_int_equal(errno, ECONNREFUSED);
    attempt.sources = &from;
    assert_int_equal(dial(&attempt), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    other_family.ai_family = AF_INET6;
    attempt.sources = &other_family;
    assert_int_equal(dial(&attempt), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
    attempt.addresses = NULL;
    assert_int_equal(dial(&attempt), -1);
}

static void an_attempt_that_is_given_up_is_cancelled(void **state)
{
    struct sockaddr_in at;
    int listener = listen_at(&at), waits = 0;
    struct addrinfo second = entry(&at, NULL), first = entry(&at, &second);
    struct dial attempt = { .addresses = &first, .wait = give_up, .context = &waits };
    int fd = dial(&attempt);

    if (waits > 0) {                        /* else the system connected without a wait */
        assert_int_equal(fd, -1);
        assert_int_equal(errno, ECANCELED);
        assert_int_equal(waits, 2);
    } else {
        close(fd);
    }
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_address_is_tried_after_one_that_refuses),
        cmocka_unit_test(errors_are_those_of_the_last_address),
        cmocka_unit_test(an_attempt_that_is_given_up_is_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
