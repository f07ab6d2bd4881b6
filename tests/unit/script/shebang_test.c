#include "script/shebang.h"

#include "support/unit.h"

static void check_script(struct bytes source, int body_expected, uint32_t flags_expected, const char *error_expected)
{
    struct buffer error = { 0 };
    uint32_t flags;
    size_t body;
    bool good = shebang_of_script(source, &body, &flags, &error);

    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, error_expected);
    assert_int_equal(good, error_expected[0] == '\0');
    if (good) {
        assert_int_equal(body, body_expected);
        assert_int_equal(flags, flags_expected);
    }
    buffer_release(&error);
}

static void a_script_needs_no_first_line(void **state)
{
    check_script(BYTES(""), 0, SCRIPT_COMPATIBLE, "");
    check_script((struct bytes){ NULL, 0 }, 0, SCRIPT_COMPATIBLE, "");
    check_script(BYTES("#"), 0, SCRIPT_COMPATIBLE, "");
    check_script(BYTES("return 1\n#!lua\n"), 0, SCRIPT_COMPATIBLE, "");
    check_script(BYTES(" #!lua\n"), 0, SCRIPT_COMPATIBLE, "");
}

static void a_first_line_has_flags(void **state)
{
    check_script(BYTES("#!lua\nreturn 1"), 5, 0, "");
    check_script(BYTES("#!lua \t\r\nreturn 1"), 8, 0, "");
    check_script(BYTES("#!lua flags=\n"), 12, 0, "");
    check_script(BYTES("#!lua flags=no-writes\n"), 21, SCRIPT_NO_WRITES, "");
    check_script(BYTES("#!lua flags=no-writes,allow-oom flags=allow-stale\n"), 49, SCRIPT_NO_WRITES | SCRIPT_ALLOW_OOM | SCRIPT_ALLOW_STALE, "");
    check_script(BYTES("#!lua 'flags=no-cluster,allow-cross-slot-keys'\n"), 46, SCRIPT_NO_CLUSTER | SCRIPT_ALLOW_CROSS_SLOT, "");
    check_script(BYTES("#!lua \"flags=no-\\x77rites\"\n"), 26, SCRIPT_NO_WRITES, "");
}

static void an_invalid_first_line_is_an_error(void **state)
{
    check_script(BYTES("#!lua"), 0, 0, "ERR Invalid script shebang");
    check_script(BYTES("#!lua\0\n"), 0, 0, "ERR Invalid script shebang");
    check_script(BYTES("#!lua \"\n"), 0, 0, "ERR Invalid engine in script shebang");
    check_script(BYTES("#!foo\n"), 0, 0, "ERR Unexpected engine in script shebang: #!foo");
    check_script(BYTES("#!LUA\n"), 0, 0, "ERR Unexpected engine in script shebang: #!LUA");
    check_script(BYTES("#! lua\n"), 0, 0, "ERR Unexpected engine in script shebang: #!");
    check_script(BYTES("#!lua foo=1\n"), 0, 0, "ERR Unknown lua shebang option: foo=1");
    check_script(BYTES("#!lua flags=x\n"), 0, 0, "ERR Unexpected flag in script shebang: x");
    check_script(BYTES("#!lua flags=no-writes,\n"), 0, 0, "ERR Unexpected flag in script shebang: ");
    check_script(BYTES("#!lua flags=NO-WRITES\n"), 0, 0, "ERR Unexpected flag in script shebang: NO-WRITES");
}

static void check_library(struct bytes source, const char *engine, const char *name, const char *error_expected)
{
    struct shebang_library library;
    struct buffer error = { 0 };
    bool good = shebang_of_library(source, &library, &error);

    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, error_expected);
    assert_int_equal(good, error_expected[0] == '\0');
    if (good) {
        assert_string_equal(library.engine, engine);
        assert_string_equal(library.name, name);
        assert_int_equal(source.data[library.body], '\n');
    }
    shebang_library_release(&library);
    buffer_release(&error);
}

static void a_library_has_an_engine_and_a_name(void **state)
{
    check_library(BYTES("#!lua name=x\ncode"), "lua", "x", "");
    check_library(BYTES("#!LUA NAME=\"a b\"\r\n"), "LUA", "a b", "");
    check_library(BYTES("#!  name=\n"), "", "", "");
    check_library(BYTES(""), "", "", "ERR Missing library metadata");
    check_library(BYTES("#!lua name=x"), "", "", "ERR Invalid library metadata");
    check_library(BYTES("#!lua name='x\n"), "", "", "ERR Invalid library metadata");
    check_library(BYTES("#!lua\n"), "", "", "ERR Library name was not given");
    check_library(BYTES("#!lua name=x name=x\n"), "", "", "ERR Invalid metadata value, name argument was given multiple times");
    check_library(BYTES("#!lua nam\n"), "", "", "ERR Invalid metadata value given: nam");
    check_library(BYTES("#!lua name=x flags=no-writes\n"), "", "", "ERR Invalid metadata value given: flags=no-writes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_needs_no_first_line),
        cmocka_unit_test(a_first_line_has_flags),
        cmocka_unit_test(an_invalid_first_line_is_an_error),
        cmocka_unit_test(a_library_has_an_engine_and_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
