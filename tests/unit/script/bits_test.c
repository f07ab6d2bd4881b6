#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("bit.band(\"x\")",
                "-ERR user_script:1: bad argument #1 to 'band' (number expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {bit.tobit(2^32),bit.tobit(2^31),bit.tobit(-1),bit.tobit(1.5),bit.tobit(2.5),bit.tobit(0xffffffff)}",
                "*6\r\n:0\r\n:-2147483648\r\n:-1\r\n:2\r\n:2\r\n:-1\r\n"),
    SCRIPT_CASE("return {bit.bnot(0),bit.band(0xff,0x0f,7),bit.bor(1,2,4),bit.bxor(1,3,5)}", "*4\r\n:-1\r\n:7\r\n:7\r\n:7\r\n"),
    SCRIPT_CASE("return "
                "{bit.lshift(1,31),bit.lshift(1,32),bit.lshift(1,33),bit.rshift(-1,28),bit.arshift(-256,4),bit.rshift(1,-1)}",
                "*6\r\n:-2147483648\r\n:1\r\n:2\r\n:15\r\n:-16\r\n:0\r\n"),
    SCRIPT_CASE("return {bit.rol(0x12345678,8),bit.ror(0x12345678,8),bit.bswap(0x12345678)}",
                "*3\r\n:878082066\r\n:2014458966\r\n:2018915346\r\n"),
    SCRIPT_CASE("return "
                "{bit.tohex(255),bit.tohex(255,4),bit.tohex(255,-4),bit.tohex(255,0),bit.tohex(255,9),bit.tohex(255,-9),bit.tohex(-1)}",
                "*7\r\n$8\r\n000000ff\r\n$4\r\n00ff\r\n$4\r\n00FF\r\n$0\r\n\r\n$8\r\n000000ff\r\n$8\r\n000000FF\r\n$8\r\n"
                "ffffffff\r\n"),
    SCRIPT_CASE("return bit.tohex(255,-2147483648)", "$8\r\n000000FF\r\n"),
    SCRIPT_CASE("bit.band()",
                "-ERR user_script:1: bad argument #1 to 'band' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("bit.tobit()",
                "-ERR user_script:1: bad argument #1 to 'tobit' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("bit.lshift(1)",
                "-ERR user_script:1: bad argument #2 to 'lshift' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("bit.tohex()",
                "-ERR user_script:1: bad argument #1 to 'tohex' (number expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("bit.tobit('x')",
                "-ERR user_script:1: bad argument #1 to 'tobit' (number expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return bit.tobit('5')", ":5\r\n"),
    SCRIPT_CASE("return bit.tobit(1e300)", ":-2013235812\r\n"),
    SCRIPT_CASE("return bit.tobit(0/0)", ":0\r\n"),
};

static void bit_computes_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bit_computes_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
