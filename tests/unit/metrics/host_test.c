#include "metrics/host.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static void addresses_and_local_names_are_own(void **state)
{
    static const char *const own[] = {
        "127.0.0.1", "127.0.0.1:9121", "192.168.1.7:1", "0.0.0.0", "[::1]", "[::1]:9121", "[fe80::1]", "[::ffff:1.2.3.4]:80", "localhost", "LOCALHOST:80", "localhost.",
        "localhost.:9121", "kelvin.localhost", "db7", "DB7:9121", "db7.:9121",
    };

    (void)state;
    assert_true(host_is_own(NULL, "db7"));
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (!host_is_own(own[i], "db7"))
            fail_msg("%s", own[i]);
    }
}

static void all_others_are_foreign(void **state)
{
    static const char *const foreign[] = {
        "", ":", ":80", ".", ".:80", "[", "[]", "[:", "[::1", "[127.0.0.1]", "[::1%25eth0]", "evil.example", "evil.example:9121", "127.0.0.1.evil.example", "127.1x",
        "localhost.evil.example", "xlocalhost", "notlocalhost:1", "localhost..", "db7.evil.example", "db", "db77", "1.2.3.4.5", "0x7f000001x", "::1", "\xff\xfe", " 127.0.0.1x",
    };
    char longest[600];

    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (host_is_own(foreign[i], "db7"))
            fail_msg("%s", foreign[i]);
    }
    assert_false(host_is_own("", ""));
    assert_false(host_is_own(":1", ""));
    memset(longest, 'a', sizeof(longest));
    snprintf(longest + sizeof(longest) - 11, 11, ".localhost");
    assert_false(host_is_own(longest, "db7"));
}

static void loopback_addresses(void **state)
{
    (void)state;
    assert_true(host_is_loopback("127.0.0.1"));
    assert_true(host_is_loopback("127.3.2.1"));
    assert_true(host_is_loopback("::1"));
    assert_true(host_is_loopback("::ffff:127.0.0.1"));
    assert_false(host_is_loopback("192.168.0.1"));
    assert_false(host_is_loopback("::ffff:10.0.0.1"));
    assert_false(host_is_loopback("fe80::1"));
    assert_false(host_is_loopback("::"));
    assert_false(host_is_loopback(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_local_names_are_own),
        cmocka_unit_test(all_others_are_foreign),
        cmocka_unit_test(loopback_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
