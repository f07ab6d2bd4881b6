#include "replication/migrate_cache.h"

#include "support/unit.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

/* A link to a socket that the test holds. */
static struct migrate_link new_link(int *other)
{
    struct migrate_link link;
    int pair[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    migrate_link_init(&link, 100);
    wire_open(&link.wire, pair[0]);
    *other = pair[1];
    return link;
}

static bool is_closed(int other)
{
    char byte;

    return recv(other, &byte, 1, MSG_DONTWAIT) == 0;
}

static void a_link_is_taken_once_by_its_name(void **state)
{
    struct migrate_cache *cache = migrate_cache_create();
    struct migrate_link link, taken;
    int other, fd;

    link = new_link(&other);
    fd = link.wire.fd;
    migrate_cache_keep(cache, BYTES("a"), &link);
    assert_false(migrate_link_is_open(&link));
    assert_int_equal(migrate_cache_count(cache), 1);
    assert_false(migrate_cache_take(cache, BYTES("ab"), &taken));
    assert_false(migrate_cache_take(cache, BYTES("A"), &taken));
    assert_true(migrate_cache_take(cache, BYTES("a"), &taken));
    assert_int_equal(taken.wire.fd, fd);
    assert_false(migrate_cache_take(cache, BYTES("a"), &link));
    assert_int_equal(migrate_cache_count(cache), 0);
    assert_false(is_closed(other));
    migrate_cache_keep(cache, BYTES("a"), &taken);
    migrate_cache_cron(cache);                          /* it is not old */
    assert_int_equal(migrate_cache_count(cache), 1);
    migrate_cache_destroy(cache);
    assert_true(is_closed(other));
    close(other);
}

static void what_the_other_server_has_closed_or_has_written_to_is_not_used_again(void **state)
{
    struct migrate_cache *cache = migrate_cache_create();
    struct migrate_link link;
    int good, closed, noisy;

    link = new_link(&good);
    migrate_cache_keep(cache, BYTES("a"), &link);
    link = new_link(&closed);
    migrate_cache_keep(cache, BYTES("a"), &link);
    link = new_link(&noisy);
    migrate_cache_keep(cache, BYTES("a"), &link);
    close(closed);
    CHECK(write(noisy, "-ERR late\r\n", 11) == 11);
    assert_true(migrate_cache_take(cache, BYTES("a"), &link));
    assert_int_equal(migrate_cache_count(cache), 0);
    CHECK(write(good, "x", 1) == 1);
    assert_int_equal(read(link.wire.fd, &(char){ 0 }, 1), 1);
    migrate_link_close(&link);
    migrate_cache_destroy(cache);
    close(good);
    close(noisy);
}

static void a_link_with_bytes_that_were_read_and_not_used_is_closed(void **state)
{
    struct migrate_cache *cache = migrate_cache_create();
    struct migrate_link link;
    int other;

    link = new_link(&other);
    link.to = 3;
    migrate_cache_keep(cache, BYTES("a"), &link);
    assert_int_equal(migrate_cache_count(cache), 0);
    assert_true(is_closed(other));
    close(other);
    link = new_link(&other);
    migrate_cache_keep(NULL, BYTES("a"), &link);
    assert_true(is_closed(other));
    assert_false(migrate_cache_take(NULL, BYTES("a"), &link));
    close(other);
    migrate_cache_destroy(cache);
}

static void the_oldest_is_closed_beyond_the_bound(void **state)
{
    struct migrate_cache *cache = migrate_cache_create();
    int others[MIGRATE_CACHE_MAX + 1];
    struct migrate_link link;

    for (int i = 0; i <= MIGRATE_CACHE_MAX; i++) {
        link = new_link(&others[i]);
        migrate_cache_keep(cache, bytes_of("ab", i % 2 == 0 ? 1 : 2), &link);
    }
    assert_int_equal(migrate_cache_count(cache), MIGRATE_CACHE_MAX);
    assert_true(is_closed(others[0]));
    assert_false(is_closed(others[1]));
    migrate_cache_destroy(cache);
    for (int i = 0; i <= MIGRATE_CACHE_MAX; i++) {
        assert_true(is_closed(others[i]));
        close(others[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_taken_once_by_its_name),
        cmocka_unit_test(what_the_other_server_has_closed_or_has_written_to_is_not_used_again),
        cmocka_unit_test(a_link_with_bytes_that_were_read_and_not_used_is_closed),
        cmocka_unit_test(the_oldest_is_closed_beyond_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
