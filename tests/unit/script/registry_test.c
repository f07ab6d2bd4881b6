#include "script/registry.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/digest.h"
#include "script/registry_load.h"
#include "support/library_box.h"

static struct source *make(const char *text)
{
    char sha[SCRIPT_SHA_SIZE];

    digest_sha1_hex(bytes_of_string(text), sha);
    return source_create(sha, bytes_of_string(text), NULL);
}

static struct source *make_number(int number)
{
    char text[64];

    snprintf(text, sizeof(text), "return %d", number);
    return make(text);
}

static bool knows(struct registry *registry, int number)
{
    struct source *wanted = make_number(number), *found = registry_find_source(registry, wanted->script.sha);
    bool known = found != NULL && bytes_equal(found->text, wanted->text);

    source_release(wanted);
    source_release(found);
    return known;
}

static void add(struct registry *registry, int number, enum source_origin origin)
{
    source_release(registry_add_source(registry, make_number(number), origin));
}

/* As a worker does that runs it. */
static void use(struct registry *registry, int number)
{
    struct source *wanted = make_number(number), *found = registry_find_source(registry, wanted->script.sha);

    assert_non_null(found);
    found->used = true;
    source_release(wanted);
    source_release(found);
}

static void a_source_has_its_code_after_the_first_line(void **state)
{
    struct source *source = make("#!lua flags=no-writes\nreturn 1");
    struct buffer error = { 0 };

    assert_true(bytes_equal(source->script.code, BYTES("\nreturn 1")));
    assert_true(bytes_equal(source->text, BYTES("#!lua flags=no-writes\nreturn 1")));
    assert_int_equal(source->flags, SCRIPT_NO_WRITES);
    source_release(source);
    assert_null(source_create("0123456789012345678901234567890123456789", BYTES("#!lua"), &error));
    buffer_release(&error);
}

static void names_are_read_in_any_case(void **state)
{
    char sha[SCRIPT_SHA_SIZE];

    assert_true(source_read_sha(BYTES("E0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), sha));
    assert_memory_equal(sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", SCRIPT_SHA_SIZE);
    assert_false(source_read_sha(BYTES("E0E1F9FABFC9D4800C877A703B823AC0578FF8D"), sha));
    assert_false(source_read_sha(BYTES("E0E1F9FABFC9D4800C877A703B823AC0578FF8DBB"), sha));
    assert_false(source_read_sha(BYTES("G0E1F9FABFC9D4800C877A703B823AC0578FF8DB"), sha));
    assert_false(source_read_sha(BYTES("/0e1f9fabfc9d4800c877a703b823ac0578ff8d:"), sha));
}

static void a_source_is_found_until_the_flush_and_stays_for_its_holder(void **state)
{
    struct registry *registry = registry_create();
    struct source *held;

    assert_false(knows(registry, 1));
    held = registry_add_source(registry, make_number(1), SOURCE_OF_LOAD);
    add(registry, 2, SOURCE_OF_EVAL);
    assert_true(knows(registry, 1));
    assert_true(knows(registry, 2));
    assert_false(held->retired);
    registry_flush_sources(registry);
    assert_int_equal(registry_flushes(registry), 1);
    assert_false(knows(registry, 1));
    assert_false(knows(registry, 2));
    assert_true(held->retired);
    assert_true(bytes_equal(held->text, BYTES("return 1")));
    source_release(held);
    add(registry, 1, SOURCE_OF_EVAL);
    assert_true(knows(registry, 1));
    registry_destroy(registry);
}

static void of_two_with_the_same_text_the_first_stays(void **state)
{
    struct registry *registry = registry_create();
    struct source *first = registry_add_source(registry, make_number(1), SOURCE_OF_EVAL);
    struct source *second = registry_add_source(registry, make_number(1), SOURCE_OF_EVAL);
    struct registry_stats stats;

    assert_ptr_equal(first, second);
    source_release(first);
    source_release(second);
    registry_stats(registry, &stats);
    assert_int_equal(stats.source_count, 1);
    registry_destroy(registry);
}

static void sources_of_eval_are_limited_and_those_of_script_load_are_not(void **state)
{
    enum { MANY = 3 * REGISTRY_EVAL_SOURCES_MAX };
    struct registry *registry = registry_create();
    struct registry_stats stats;

    for (int i = 0; i < MANY; i++) {
        add(registry, i, SOURCE_OF_EVAL);
        assert_true(knows(registry, i));
        add(registry, MANY + i, SOURCE_OF_LOAD);
    }
    registry_stats(registry, &stats);
    assert_int_equal(stats.source_count, MANY + REGISTRY_EVAL_SOURCES_MAX);
    assert_int_equal(stats.dropped_count, MANY - REGISTRY_EVAL_SOURCES_MAX);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(knows(registry, i), i >= MANY - REGISTRY_EVAL_SOURCES_MAX);
        assert_true(knows(registry, MANY + i));
    }
    registry_destroy(registry);
}

static void what_is_used_is_not_dropped_and_neither_is_what_was_loaded_later(void **state)
{
    struct registry *registry = registry_create();
    struct source *loaded;

    add(registry, 1, SOURCE_OF_EVAL);
    add(registry, 2, SOURCE_OF_EVAL);
    add(registry, 3, SOURCE_OF_EVAL);
    loaded = make_number(2);
    source_release(registry_keep_source(registry, loaded->script.sha));
    for (int i = 0; i < 5 * REGISTRY_EVAL_SOURCES_MAX; i++) {
        use(registry, 1);
        add(registry, 1000 + i, SOURCE_OF_EVAL);
    }
    assert_true(knows(registry, 1));
    assert_true(knows(registry, 2));
    assert_false(knows(registry, 3));
    source_release(loaded);
    assert_null(registry_keep_source(registry, "0123456789012345678901234567890123456789"));
    registry_destroy(registry);
}

/* When all are in use, the one that was just added stays, too. */
static void a_new_source_is_found_although_all_others_are_in_use(void **state)
{
    struct registry *registry = registry_create();

    for (int i = 0; i < REGISTRY_EVAL_SOURCES_MAX; i++)
        add(registry, i, SOURCE_OF_EVAL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            if (knows(registry, i))
                use(registry, i);
        }
        add(registry, 1000 + round, SOURCE_OF_EVAL);
        assert_true(knows(registry, 1000 + round));
    }
    registry_destroy(registry);
}

static void large_sources_of_eval_are_limited_in_bytes(void **state)
{
    enum { PART = REGISTRY_EVAL_SIZE_MAX / 4 };
    struct registry *registry = registry_create();
    struct registry_stats stats;
    char *text = mem_alloc(REGISTRY_EVAL_SIZE_MAX + 2);

    memset(text, ' ', REGISTRY_EVAL_SIZE_MAX + 2);
    for (int i = 0; i < 6; i++) {
        text[0] = (char)('a' + i);
        text[PART] = '\0';
        source_release(registry_add_source(registry, make(text), SOURCE_OF_EVAL));
        text[PART] = ' ';
    }
    registry_stats(registry, &stats);
    assert_int_equal(stats.source_count, 3);
    text[REGISTRY_EVAL_SIZE_MAX + 1] = '\0';
    source_release(registry_add_source(registry, make(text), SOURCE_OF_EVAL));
    registry_stats(registry, &stats);
    assert_int_equal(stats.source_count, 1);
    mem_free(text);
    registry_destroy(registry);
}

static struct interpreter *make_interpreter(void)
{
    struct interpreter_options options = { .cached_scripts_max = 1, .load_ms_max = 500 };

    return interpreter_create(&options);
}

/* Publishes a library; returns whether it was accepted. */
static bool load(struct registry *registry, const char *name, const char *functions, enum registry_how how)
{
    struct interpreter *interpreter = make_interpreter();
    struct buffer text = { 0 }, error = { 0 };
    struct registry_load load;
    bool good;

    registry_load_init(&load, registry, interpreter, NULL);
    good = registry_load_text(&load, library_box_text(&text, name, functions), &error) && registry_load_publish(&load, how, &error);
    assert_int_equal(good, error.size == 0);
    registry_load_release(&load);
    interpreter_destroy(interpreter);
    buffer_release(&text);
    buffer_release(&error);
    return good;
}

static void what_is_published_is_current_and_what_is_held_stays(void **state)
{
    struct registry *registry = registry_create();
    struct library_set *before = registry_libraries(registry), *after;
    uint64_t version = registry_version(registry);

    assert_true(load(registry, "a", "f", REGISTRY_ADDS));
    assert_true(registry_version(registry) > version);
    version = registry_version(registry);
    assert_false(load(registry, "a", "g", REGISTRY_ADDS));
    assert_false(load(registry, "b", "F", REGISTRY_REPLACES));
    assert_int_equal(registry_version(registry), version);
    after = registry_libraries(registry);
    assert_true(load(registry, "a", "g h", REGISTRY_REPLACES));
    assert_int_equal(before->count, 0);
    assert_non_null(library_set_function(after, BYTES("f")));
    library_set_release(after);
    after = registry_libraries(registry);
    assert_null(library_set_function(after, BYTES("f")));
    assert_non_null(library_set_function(after, BYTES("h")));
    library_set_release(before);
    library_set_release(after);
    assert_true(load(registry, "c", "f", REGISTRY_REPLACES_ALL));
    after = registry_libraries(registry);
    assert_int_equal(after->count, 1);
    library_set_release(after);
    registry_destroy(registry);
}

static void every_library_has_a_version_of_its_own(void **state)
{
    struct registry *registry = registry_create();
    struct library_set *first, *second;

    load(registry, "a", "f", REGISTRY_ADDS);
    first = registry_libraries(registry);
    load(registry, "a", "f", REGISTRY_REPLACES);
    second = registry_libraries(registry);
    assert_int_not_equal(first->libraries[0]->script.version, second->libraries[0]->script.version);
    library_set_release(first);
    library_set_release(second);
    registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_has_its_code_after_the_first_line),
        cmocka_unit_test(names_are_read_in_any_case),
        cmocka_unit_test(a_source_is_found_until_the_flush_and_stays_for_its_holder),
        cmocka_unit_test(of_two_with_the_same_text_the_first_stays),
        cmocka_unit_test(sources_of_eval_are_limited_and_those_of_script_load_are_not),
        cmocka_unit_test(what_is_used_is_not_dropped_and_neither_is_what_was_loaded_later),
        cmocka_unit_test(a_new_source_is_found_although_all_others_are_in_use),
        cmocka_unit_test(large_sources_of_eval_are_limited_in_bytes),
        cmocka_unit_test(what_is_published_is_current_and_what_is_held_stays),
        cmocka_unit_test(every_library_has_a_version_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
