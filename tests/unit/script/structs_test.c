#include "support/unit.h"

#include "support/script_cases.h"

static const struct script_case cases[] = {
    SCRIPT_CASE("struct.pack(\">I8\")",
                "-ERR user_script:1: bad argument #2 to 'pack' (number expected, got nil) script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("return struct.pack('>I4',1)", "$4\r\n\000\000\000\001\r\n"),
    SCRIPT_CASE("return struct.pack('<I4',1)", "$4\r\n\001\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('bBhHlLTiI',-1,255,-2,65535,-3,4,5,-6,7)",
                "$38\r\n\377\377\376\377\377\377\375\377\377\377\377\377\377\377\004\000\000\000\000\000\000\000\005\000\000"
                "\000\000\000\000\000\372\377\377\377\007\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('>bBhHlLTiI',-1,255,-2,65535,-3,4,5,-6,7)",
                "$38\r\n\377\377\377\376\377\377\377\377\377\377\377\377\377\375\000\000\000\000\000\000\000\004\000\000\000"
                "\000\000\000\000\005\377\377\377\372\000\000\000\007\r\n"),
    SCRIPT_CASE("return struct.pack('fd',1.5,2.5)", "$12\r\n\000\000\300?\000\000\000\000\000\000\004@\r\n"),
    SCRIPT_CASE("return struct.pack('>fd',1.5,2.5)", "$12\r\n?\300\000\000@\004\000\000\000\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('s','abc')", "$4\r\nabc\000\r\n"),
    SCRIPT_CASE("return struct.pack('c0','abc')", "$3\r\nabc\r\n"),
    SCRIPT_CASE("return struct.pack('c2','abc')", "$2\r\nab\r\n"),
    SCRIPT_CASE("return struct.pack('c','abc')", "$1\r\na\r\n"),
    SCRIPT_CASE("struct.pack('c4','abc')",
                "-ERR user_script:1: bad argument #3 to 'pack' (string too short) script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return struct.pack('x')", "$1\r\n\000\r\n"),
    SCRIPT_CASE("return struct.pack('bxb',1,2)", "$3\r\n\001\000\002\r\n"),
    SCRIPT_CASE("return struct.pack('!4 b i4',1,2)", "$8\r\n\001\000\000\000\002\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('!8 b d',1,2)", "$16\r\n\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000@\r\n"),
    SCRIPT_CASE("return struct.pack('! b d b s',1,2,3,'x')",
                "$19\r\n\001\000\000\000\000\000\000\000\000\000\000\000\000\000\000@\003x\000\r\n"),
    SCRIPT_CASE("return struct.pack('!2 b i4 c3 h',1,2,'abc',3)", "$12\r\n\001\000\002\000\000\000abc\000\003\000\r\n"),
    SCRIPT_CASE("struct.pack('!3 b',1)",
                "-ERR user_script:1: alignment 3 is not a power of 2 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('!0 b',1)",
                "-ERR user_script:1: alignment 0 is not a power of 2 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('q',1)",
                "-ERR user_script:1: bad argument #1 to 'pack' (invalid format option 'q') script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("struct.pack('Z',1)",
                "-ERR user_script:1: bad argument #1 to 'pack' (invalid format option 'Z') script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("struct.pack('*',1)",
                "-ERR user_script:1: bad argument #1 to 'pack' (invalid format option '*') script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("return struct.pack('i1i2i3i8',1,2,3,4)", "$14\r\n\001\002\000\003\000\000\004\000\000\000\000\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('>i3i16',-2,-3)",
                "$19\r\n\377\377\376\000\000\000\000\000\000\000\000\377\377\377\377\377\377\377\375\r\n"),
    SCRIPT_CASE("return struct.pack('<i16i32',-2,5)",
                "$48\r\n\376\377\377\377\377\377\377\377\000\000\000\000\000\000\000\000\005\000\000\000\000\000\000\000\000"
                "\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\r\n"),
    SCRIPT_CASE("struct.pack('i33',1)",
                "-ERR user_script:1: integral size 33 is larger than limit of 32 script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('i99999999999',1)",
                "-ERR user_script:1: integral size overflow script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('i2147483647',1)",
                "-ERR user_script:1: integral size 2147483647 is larger than limit of 32 script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return struct.pack('i0',1)", "$0\r\n\r\n"),
    SCRIPT_CASE("return struct.pack('')", "$0\r\n\r\n"),
    SCRIPT_CASE("struct.pack()",
                "-ERR user_script:1: bad argument #1 to 'pack' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('i')",
                "-ERR user_script:1: bad argument #2 to 'pack' (number expected, got nil) script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("struct.pack('i','x')",
                "-ERR user_script:1: bad argument #2 to 'pack' (number expected, got string) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("struct.pack('s')",
                "-ERR user_script:1: bad argument #2 to 'pack' (string expected, got nil) script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("struct.pack('s',{})",
                "-ERR user_script:1: bad argument #2 to 'pack' (string expected, got table) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return struct.pack('i','5')", "$4\r\n\005\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('I4',-1)", "$4\r\n\377\377\377\377\r\n"),
    SCRIPT_CASE("return struct.pack('I4',2^33+1)", "$4\r\n\001\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('I8',2^63)", "$8\r\n\000\000\000\000\000\000\000\200\r\n"),
    SCRIPT_CASE("return struct.pack('i',1.9)", "$4\r\n\001\000\000\000\r\n"),
    SCRIPT_CASE("return struct.pack('i',-1.9)", "$4\r\n\377\377\377\377\r\n"),
    SCRIPT_CASE("return {struct.unpack('>I4','\\0\\0\\0\\1')}", "*2\r\n:1\r\n:5\r\n"),
    SCRIPT_CASE("return {struct.unpack(\">I4\",\"\\0\\0\\1\\1\")}", "*2\r\n:257\r\n:5\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"bBhH\",\"\\255\\255\\255\\255\\255\\255\")}",
                "*5\r\n:-1\r\n:255\r\n:-1\r\n:65535\r\n:7\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"i1i2i3i4i8\",\"\\255\\254\\255\\253\\255\\255\\252\\255\\255\\255\\251\\255\\255\\"
                "255\\255\\255\\255\\255\")}",
                "*6\r\n:-1\r\n:-2\r\n:-3\r\n:-4\r\n:-5\r\n:19\r\n"),
    SCRIPT_CASE("return {struct.unpack(\">i3\",\"\\255\\255\\254\")}", "*2\r\n:-2\r\n:4\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"I3\",\"\\255\\255\\254\")}", "*2\r\n:16711679\r\n:4\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"s\",\"abc\\0def\\0\")}", "*2\r\n$3\r\nabc\r\n:5\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"ss\",\"abc\\0def\\0\")}", "*3\r\n$3\r\nabc\r\n$3\r\ndef\r\n:9\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"s\",\"abc\")}",
                "-ERR user_script:1: unfinished string in data script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"c2\",\"abc\")}", "*2\r\n$2\r\nab\r\n:3\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"c4\",\"abc\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"c0\",\"abc\")}",
                "-ERR user_script:1: format 'c0' needs a previous size script: {sha}, on @user_script:1.\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"bc0\",\"\\2abc\")}", "*2\r\n$2\r\nab\r\n:4\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"bc0\",\"\\9abc\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"Bc0\",\"\\255abc\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"bc0\",\"\\255abc\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"bxb\",\"\\1\\2\\3\")}", "*3\r\n:1\r\n:3\r\n:4\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"!4 b i4\",\"\\1\\0\\0\\0\\2\\0\\0\\0\")}", "*3\r\n:1\r\n:2\r\n:9\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"i\",\"abcd\",1)}", "*2\r\n:1684234849\r\n:5\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",2)}", "*2\r\n:98\r\n:3\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",4)}", "*2\r\n:100\r\n:5\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",5)}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",6)}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"\",\"abcd\",6)}", "*1\r\n:6\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",0)}",
                "-ERR user_script:1: bad argument #3 to 'unpack' (offset must be 1 or greater) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",-1)}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",2147483647)}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"abcd\",1e18)}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"b\",\"\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("return {struct.unpack(\"fd\",struct.pack(\"fd\",1.5,2.5))}", "*3\r\n:1\r\n:2\r\n:13\r\n"),
    SCRIPT_CASE("return tostring(struct.unpack(\">d\",struct.pack(\">d\",0.1)))", "$3\r\n0.1\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"i16\",\"\\254\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255"
                "\\255\")}",
                "*2\r\n:-2\r\n:17\r\n"),
    SCRIPT_CASE("return {struct.unpack(\">I16\",\"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\9\")}", "*2\r\n:9\r\n:17\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"i0\",\"abcd\")}", "*2\r\n:0\r\n:1\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"I0\",\"abcd\")}", "*2\r\n:0\r\n:1\r\n"),
    SCRIPT_CASE("return {struct.unpack(\"c2147483647\",\"abcd\")}",
                "-ERR user_script:1: bad argument #2 to 'unpack' (data string too short) script: {sha}, on @user_script:1.\r"
                "\n"),
    SCRIPT_CASE("struct.unpack()",
                "-ERR user_script:1: bad argument #1 to 'unpack' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("struct.unpack('b')",
                "-ERR user_script:1: bad argument #2 to 'unpack' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("struct.unpack('Z','a')",
                "-ERR user_script:1: bad argument #1 to 'unpack' (invalid format option 'Z') script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return {struct.unpack('  b  ','a')}", "*2\r\n:97\r\n:2\r\n"),
    SCRIPT_CASE("return struct.size('bhi')", ":7\r\n"),
    SCRIPT_CASE("return struct.size('!8 bhid')", ":16\r\n"),
    SCRIPT_CASE("struct.size('s')",
                "-ERR user_script:1: bad argument #1 to 'size' (option 's' has no fixed size) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("struct.size('c0')",
                "-ERR user_script:1: bad argument #1 to 'size' (option 'c0' has no fixed size) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return struct.size('c10')", ":10\r\n"),
    SCRIPT_CASE("return struct.size('i3x')", ":4\r\n"),
    SCRIPT_CASE("struct.size('*')",
                "-ERR user_script:1: bad argument #1 to 'size' (invalid format option '*') script: {sha}, on @user_script:1."
                "\r\n"),
    SCRIPT_CASE("return struct.size('q')", ":0\r\n"),
    SCRIPT_CASE("struct.size()",
                "-ERR user_script:1: bad argument #1 to 'size' (string expected, got no value) script: {sha}, on "
                "@user_script:1.\r\n"),
    SCRIPT_CASE("return struct.size('>I4!4')", ":4\r\n"),
    SCRIPT_CASE("struct.size('!3')",
                "-ERR user_script:1: alignment 3 is not a power of 2 script: {sha}, on @user_script:1.\r\n"),
};

static void struct_reads_and_writes_as_in_redis(void **state)
{
    assert_int_equal(script_cases_run(cases, sizeof(cases) / sizeof(cases[0]), 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(struct_reads_and_writes_as_in_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
