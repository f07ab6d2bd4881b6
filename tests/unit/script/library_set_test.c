#include "script/library_set.h"

#include "support/unit.h"

#include <stdio.h>

#include "base/buffer.h"
#include "support/library_box.h"

static const char *const three[] = { "b: g", "a: f1 F2", "c: h", NULL };

/* The names of a set's libraries and functions, in the set's order. */
static void check_names(const struct library_set *set, const char *expected)
{
    struct buffer text = { 0 };

    for (int i = 0; i < set->count; i++) {
        buffer_append_format(&text, "%s%s:", i > 0 ? ", " : "", set->libraries[i]->script.name.data);
        for (int j = 0; j < set->libraries[i]->function_count; j++)
            buffer_append_format(&text, " %s", set->libraries[i]->functions[j].name.data);
    }
    buffer_append_u8(&text, 0);
    assert_string_equal(text.data, expected);
    buffer_release(&text);
}

static const char *owner_of(const struct library_set *set, const char *function)
{
    const struct library_function *found = library_set_function(set, bytes_of_string(function));

    return found != NULL ? found->library->script.name.data : "none";
}

static void an_empty_set_has_nothing(void **state)
{
    struct library_set *set = library_set_empty();

    assert_int_equal(set->count, 0);
    assert_null(library_set_find(set, BYTES("a")));
    assert_null(library_set_function(set, BYTES("f")));
    assert_null(library_set_without(set, BYTES("a")));
    library_set_release(set);
}

static void libraries_are_found_by_their_exact_names_and_functions_in_any_case(void **state)
{
    struct library_set *set = library_box_set(three);

    check_names(set, "a: f1 F2, b: g, c: h");
    assert_int_equal(set->function_count, 4);
    assert_string_equal(library_set_find(set, BYTES("b"))->script.name.data, "b");
    assert_null(library_set_find(set, BYTES("B")));
    assert_null(library_set_find(set, BYTES("")));
    assert_string_equal(owner_of(set, "f2"), "a");
    assert_string_equal(owner_of(set, "F1"), "a");
    assert_string_equal(owner_of(set, "G"), "b");
    assert_string_equal(owner_of(set, "f"), "none");
    assert_string_equal(owner_of(set, "f12"), "none");
    assert_string_equal(owner_of(set, "["), "none");        /* one bit from a letter */
    library_set_release(set);
}

static struct library_set *add(const struct library_set *set, const char *name, const char *functions, enum library_clash clash,
    const char *error_expected)
{
    struct library *library = library_box_make(name, functions, 100);
    struct buffer error = { 0 };
    struct library_set *next = library_set_with(set, &library, 1, clash, &error);

    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, error_expected);
    library_release(library);
    buffer_release(&error);
    return next;
}

static void a_change_makes_another_set(void **state)
{
    struct library_set *set = library_box_set(three);
    struct library_set *more = add(set, "ab", "k", LIBRARY_CLASH_FAILS, "");
    struct library_set *less = library_set_without(more, BYTES("a"));
    struct library_set *other = add(less, "b", "f1", LIBRARY_CLASH_REPLACES, "");

    check_names(set, "a: f1 F2, b: g, c: h");
    check_names(more, "a: f1 F2, ab: k, b: g, c: h");
    check_names(less, "ab: k, b: g, c: h");
    check_names(other, "ab: k, b: f1, c: h");
    assert_string_equal(owner_of(other, "f1"), "b");
    assert_string_equal(owner_of(other, "g"), "none");
    library_set_release(set);
    library_set_release(more);
    library_set_release(other);
    assert_string_equal(owner_of(less, "G"), "b");
    library_set_release(less);
}

static void names_that_clash_are_errors(void **state)
{
    struct library_set *set = library_box_set(three), *next;
    struct library *two[] = { library_box_make("x", "p", 7), library_box_make("x", "q", 8) };
    struct buffer error = { 0 };

    assert_null(add(set, "a", "x", LIBRARY_CLASH_FAILS, "ERR Library a already exists"));
    assert_null(add(set, "d", "x f2", LIBRARY_CLASH_FAILS, "ERR Function f2 already exists"));
    assert_null(add(set, "0", "H", LIBRARY_CLASH_REPLACES, "ERR Function H already exists"));
    assert_null(add(set, "d", "x X", LIBRARY_CLASH_FAILS, "ERR Function X already exists"));
    assert_null(library_set_with(set, two, 2, LIBRARY_CLASH_REPLACES, &error));
    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, "ERR Library 'x' already exists");
    next = library_set_with(set, two, 0, LIBRARY_CLASH_FAILS, NULL);
    check_names(next, "a: f1 F2, b: g, c: h");
    library_set_release(next);
    library_release(two[0]);
    library_release(two[1]);
    library_set_release(set);
    buffer_release(&error);
}

static void a_thousand_functions_are_found(void **state)
{
    struct buffer names = { 0 };
    struct library *library;
    struct library_set *empty = library_set_empty(), *set;

    for (int i = 0; i < 1000; i++)
        buffer_append_format(&names, "%sfunction_%d", i > 0 ? " " : "", i);
    buffer_append_u8(&names, 0);
    library = library_box_make("many", names.data, 1);
    set = library_set_with(empty, &library, 1, LIBRARY_CLASH_FAILS, NULL);
    for (int i = 0; i < 1000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "FUNCTION_%d", i);
        assert_string_equal(owner_of(set, name), "many");
    }
    assert_string_equal(owner_of(set, "function_1000"), "none");
    assert_true(set->size > 1000 * 50);
    library_release(library);
    library_set_release(set);
    library_set_release(empty);
    buffer_release(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_set_has_nothing),
        cmocka_unit_test(libraries_are_found_by_their_exact_names_and_functions_in_any_case),
        cmocka_unit_test(a_change_makes_another_set),
        cmocka_unit_test(names_that_clash_are_errors),
        cmocka_unit_test(a_thousand_functions_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
