#include "script/registry_view.h"

#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/digest.h"
#include "script/registry_load.h"
#include "support/library_box.h"

enum { ROUNDS = 300, WORKERS = 3 };

struct bench {
    struct registry *registry;
    struct interpreter *interpreter;
    struct registry_view view;
};

static void bench_init(struct bench *bench)
{
    struct interpreter_options options = { .cached_scripts_max = 10, .load_ms_max = 500 };

    bench->registry = registry_create();
    bench->interpreter = interpreter_create(&options);
    registry_view_init(&bench->view, bench->registry, bench->interpreter);
}

static void bench_release(struct bench *bench)
{
    registry_view_release(&bench->view);
    interpreter_destroy(bench->interpreter);
    registry_destroy(bench->registry);
}

static struct source *find(struct registry_view *view, const char *text)
{
    char sha[SCRIPT_SHA_SIZE];

    digest_sha1_hex(bytes_of_string(text), sha);
    registry_view_refresh(view);
    return registry_view_source(view, sha);
}

static bool knows(struct registry_view *view, const char *text)
{
    struct source *source = find(view, text);

    source_release(source);
    return source != NULL;
}

static void a_source_is_compiled_and_then_known_to_all(void **state)
{
    struct buffer error = { 0 };
    struct bench bench;
    struct registry_view other;
    struct source *source;

    bench_init(&bench);
    registry_view_init(&other, bench.registry, bench.interpreter);
    assert_null(registry_view_add(&bench.view, BYTES("x x"), SOURCE_OF_EVAL, &error));
    assert_true(error.size > 0);
    assert_false(knows(&other, "x x"));
    error.size = 0;
    assert_null(registry_view_add(&bench.view, BYTES("#!lua flags=x\n"), SOURCE_OF_LOAD, &error));
    assert_true(error.size > 0);
    source = registry_view_add(&bench.view, BYTES("return 1"), SOURCE_OF_EVAL, &error);
    assert_non_null(source);
    source_release(source);
    assert_true(knows(&other, "return 1"));
    assert_true(knows(&bench.view, "return 1"));
    registry_view_release(&other);
    bench_release(&bench);
    buffer_release(&error);
}

static void what_was_flushed_is_not_found_although_the_view_had_it(void **state)
{
    struct buffer error = { 0 };
    struct bench bench;
    struct source *held;

    bench_init(&bench);
    held = registry_view_add(&bench.view, BYTES("return 1"), SOURCE_OF_LOAD, &error);
    assert_true(knows(&bench.view, "return 1"));
    registry_flush_sources(bench.registry);
    /* Even without a refresh. */
    assert_null(registry_view_source(&bench.view, held->script.sha));
    assert_false(knows(&bench.view, "return 1"));
    assert_true(bytes_equal(held->text, BYTES("return 1")));
    source_release(held);
    bench_release(&bench);
}

/* SCRIPT LOAD of a source that came by EVAL keeps it, also if the view knows it. */
static void a_source_that_is_loaded_later_stays(void **state)
{
    struct buffer error = { 0 };
    struct bench bench;

    bench_init(&bench);
    source_release(registry_view_add(&bench.view, BYTES("return 'kept'"), SOURCE_OF_EVAL, &error));
    source_release(registry_view_add(&bench.view, BYTES("return 'kept'"), SOURCE_OF_LOAD, &error));
    for (int i = 0; i < 3 * REGISTRY_EVAL_SOURCES_MAX; i++) {
        char text[32];

        snprintf(text, sizeof(text), "return %d", i);
        source_release(registry_view_add(&bench.view, bytes_of_string(text), SOURCE_OF_EVAL, &error));
    }
    assert_true(knows(&bench.view, "return 'kept'"));
    assert_false(knows(&bench.view, "return 0"));
    bench_release(&bench);
}

static void publish(struct registry *registry, struct interpreter *interpreter, const char *functions)
{
    struct buffer text = { 0 }, error = { 0 };
    struct registry_load load;

    registry_load_init(&load, registry, interpreter, NULL);
    assert_true(registry_load_text(&load, library_box_text(&text, "lib", functions), &error));
    assert_true(registry_load_publish(&load, REGISTRY_REPLACES, &error));
    registry_load_release(&load);
    buffer_release(&text);
    buffer_release(&error);
}

static void a_refresh_takes_what_was_published(void **state)
{
    struct bench bench;

    bench_init(&bench);
    publish(bench.registry, bench.interpreter, "f");
    assert_null(library_set_function(bench.view.libraries, BYTES("f")));
    registry_view_refresh(&bench.view);
    assert_non_null(library_set_function(bench.view.libraries, BYTES("f")));
    publish(bench.registry, bench.interpreter, "g");
    registry_view_refresh(&bench.view);
    assert_null(library_set_function(bench.view.libraries, BYTES("f")));
    bench_release(&bench);
}

/* Several workers, while another thread publishes. `published` is what a client was replied. */
struct race {
    struct registry *registry;
    _Atomic int published, flushed;
    _Atomic bool over;
};

static void *race_worker(void *context)
{
    struct race *race = context;
    struct interpreter_options options = { .cached_scripts_max = 10, .load_ms_max = 500 };
    struct interpreter *interpreter = interpreter_create(&options);
    struct registry_view view;
    char name[32];

    registry_view_init(&view, race->registry, interpreter);
    while (!race->over) {
        int published = race->published, flushed = race->flushed;
        const struct library_function *function;
        struct source *source;

        registry_view_refresh(&view);
        CHECK(view.libraries->count == 1);
        function = &view.libraries->libraries[0]->functions[0];
        CHECK(atoi(function->name.data + 1) >= published);
        CHECK(library_set_function(view.libraries, function->name) == function);
        snprintf(name, sizeof(name), "return %d", flushed);
        source = find(&view, name);
        CHECK(source == NULL);
    }
    registry_view_release(&view);
    interpreter_destroy(interpreter);
    return NULL;
}

static void add_source(struct registry_view *view, int number)
{
    struct buffer error = { 0 };
    char text[32];

    snprintf(text, sizeof(text), "return %d", number);
    source_release(registry_view_add(view, bytes_of_string(text), SOURCE_OF_LOAD, &error));
}

static void no_worker_starts_what_was_replaced_or_flushed_before(void **state)
{
    struct race race = { .flushed = -1 };
    pthread_t threads[WORKERS];
    struct bench bench;

    bench_init(&bench);
    race.registry = bench.registry;
    publish(bench.registry, bench.interpreter, "f0");
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_worker, &race), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "f%d", i);
        publish(bench.registry, bench.interpreter, name);
        race.published = i;
        add_source(&bench.view, i);
        registry_flush_sources(bench.registry);
        race.flushed = i;
    }
    race.over = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    bench_release(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_is_compiled_and_then_known_to_all),
        cmocka_unit_test(what_was_flushed_is_not_found_although_the_view_had_it),
        cmocka_unit_test(a_source_that_is_loaded_later_stays),
        cmocka_unit_test(a_refresh_takes_what_was_published),
        cmocka_unit_test(no_worker_starts_what_was_replaced_or_flushed_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
