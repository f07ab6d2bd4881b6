#include "replication/name_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include "support/unit.h"

static void wait_until_done(struct name_lookup *lookup)
{
    struct pollfd poller = { .fd = name_lookup_fd(lookup), .events = POLLIN };

    assert_int_equal(poll(&poller, 1, 60000), 1);
    assert_true(name_lookup_is_done(lookup));
}

static void an_address_is_there_at_once(void **state)
{
    struct name_lookup *lookup = name_lookup_start("127.0.0.1", 6379, "127.0.0.2", NULL);
    const struct sockaddr_in *at;

    assert_true(name_lookup_is_done(lookup));
    assert_null(name_lookup_error(lookup));
    assert_false(name_lookup_is_name(lookup));
    at = (const struct sockaddr_in *)name_lookup_addresses(lookup)->ai_addr;
    assert_int_equal(ntohl(at->sin_addr.s_addr), 0x7f000001);
    assert_int_equal(ntohs(at->sin_port), 6379);
    at = (const struct sockaddr_in *)name_lookup_sources(lookup)->ai_addr;
    assert_int_equal(ntohl(at->sin_addr.s_addr), 0x7f000002);
    assert_int_equal(at->sin_port, 0);
    name_lookup_drop(lookup);
}

static void a_name_is_there_later(void **state)
{
    struct name_lookup *lookup = name_lookup_start("localhost", 1, "", NULL), *both = name_lookup_start("127.0.0.1", 1, "localhost", NULL);

    wait_until_done(lookup);
    assert_null(name_lookup_error(lookup));
    assert_true(name_lookup_is_name(lookup));
    assert_non_null(name_lookup_addresses(lookup));
    assert_null(name_lookup_sources(lookup));
    name_lookup_drop(lookup);
    wait_until_done(both);
    assert_null(name_lookup_error(both));
    assert_false(name_lookup_is_name(both));
    assert_non_null(name_lookup_addresses(both));
    assert_non_null(name_lookup_sources(both));
    name_lookup_drop(both);
}

static void an_unknown_name_is_an_error(void **state)
{
    struct name_lookup *lookup = name_lookup_start("no such name", 1, "", NULL);

    wait_until_done(lookup);
    assert_non_null(name_lookup_error(lookup));
    name_lookup_drop(lookup);
}

/* Its thread may end before or after this; sanitizers see what it uses. */
static void a_lookup_can_be_dropped_while_it_runs(void **state)
{
    for (int i = 0; i < 20; i++)
        name_lookup_drop(name_lookup_start("localhost", 1, "localhost", NULL));
    name_lookup_drop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_there_at_once),
        cmocka_unit_test(a_name_is_there_later),
        cmocka_unit_test(an_unknown_name_is_an_error),
        cmocka_unit_test(a_lookup_can_be_dropped_while_it_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
