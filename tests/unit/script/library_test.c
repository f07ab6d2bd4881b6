#include "script/library.h"

#include "support/unit.h"

#include "script/interpreter.h"

static void check_head(struct bytes text, const char *name, const char *error_expected)
{
    struct library_head head;
    struct buffer error = { 0 };
    bool good = library_head_read(text, &head, &error);

    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, error_expected);
    assert_int_equal(good, error_expected[0] == '\0');
    if (good)
        assert_string_equal(head.name, name);
    library_head_release(&head);
    buffer_release(&error);
}

static void names_have_letters_digits_and_underscores(void **state)
{
    static const char bad_name[] = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

    check_head(BYTES("#!lua name=aZ_09\n"), "aZ_09", "");
    check_head(BYTES("#!LUA name=x\n"), "x", "");
    check_head(BYTES("#!lua name=\n"), "", bad_name);
    check_head(BYTES("#!lua name=a-b\n"), "", bad_name);
    check_head(BYTES("#!lua name='a b'\n"), "", bad_name);
    check_head(BYTES("#!lua name=\xc3\xa4\n"), "", bad_name);
    check_head(BYTES("#!foo name=x\n"), "", "ERR Engine 'foo' not found");
    check_head(BYTES("#! name=x\n"), "", "ERR Engine '' not found");
    check_head(BYTES("x"), "", "ERR Missing library metadata");
}

static struct library *make(struct bytes text, struct buffer *error)
{
    struct interpreter_options options = { .cached_scripts_max = 1, .load_ms_max = 500 };
    struct interpreter *interpreter = interpreter_create(&options);
    struct library *library = library_create(text, 7, interpreter, NULL, error);

    interpreter_destroy(interpreter);
    return library;
}

static void a_library_has_what_its_code_registers(void **state)
{
    struct bytes text = BYTES("#!lua name=lib\nredis.register_function('f', function() end)\n"
        "redis.register_function{function_name='g', callback=function() end, description='what', flags={'no-writes', 'allow-stale'}}");
    struct buffer error = { 0 };
    struct library *library = make(text, &error);

    assert_non_null(library);
    assert_true(bytes_equal(library->text, text));
    assert_true(bytes_equal(library->script.name, BYTES("lib")));
    assert_int_equal(library->script.version, 7);
    assert_int_equal(library->script.code.data[0], '\n');
    assert_int_equal(library->function_count, 2);
    for (int i = 0; i < 2; i++) {
        const struct library_function *function = &library->functions[i];
        bool is_f = bytes_equal(function->name, BYTES("f"));

        assert_ptr_equal(function->library, library);
        assert_true(is_f || bytes_equal(function->name, BYTES("g")));
        assert_true(is_f ? function->description.data == NULL : bytes_equal(function->description, BYTES("what")));
        assert_int_equal(function->flags, is_f ? 0 : SCRIPT_NO_WRITES | SCRIPT_ALLOW_STALE);
    }
    assert_true(library->size >= sizeof(*library) + text.size);
    library_hold(library);
    library_release(library);
    library_release(library);
    buffer_release(&error);
}

static void check_fails(struct bytes text, const char *expected)
{
    struct buffer error = { 0 };

    assert_null(make(text, &error));
    buffer_append_u8(&error, 0);
    assert_non_null(strstr(error.data, expected));
    buffer_release(&error);
}

static void code_that_is_wrong_is_an_error(void **state)
{
    check_fails(BYTES("#!lua name=lib\n"), "ERR No functions registered");
    check_fails(BYTES("#!lua name=lib\nx x"), "ERR Error compiling function: user_function:2:");
    check_fails(BYTES("#!lua name=lib\nredis.register_function('f', function() end) foo()"), "ERR Error registering functions:");
    check_fails(BYTES("#!lua name=lib\nwhile true do end"), "FUNCTION LOAD timeout");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_letters_digits_and_underscores),
        cmocka_unit_test(a_library_has_what_its_code_registers),
        cmocka_unit_test(code_that_is_wrong_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
