#include "support/unit.h"

#include <pthread.h>

#include "base/blob.h"

static void the_last_holder_frees_it(void **state)
{
    struct blob *blob = blob_copy(BYTES("hello"));

    (void)state;
    assert_false(blob_is_shared(blob));
    assert_ptr_equal(blob_hold(blob), blob);
    assert_true(blob_is_shared(blob));
    blob_release(blob);
    assert_false(blob_is_shared(blob));
    assert_true(bytes_equal(buffer_bytes(&blob->buffer), BYTES("hello")));
    blob_release(blob);                 /* sanitizer builds detect a leak and a double free */
    blob_release(NULL);
}

static void its_capacity_is_what_was_requested(void **state)
{
    struct blob *blob = blob_create(100001);

    (void)state;
    assert_int_equal(blob->buffer.capacity, 100001);
    assert_int_equal(blob->buffer.size, 0);
    blob_release(blob);
}

static void *hold_and_release(void *context)
{
    for (int i = 0; i < 100000; i++)
        blob_release(blob_hold(context));
    return NULL;
}

static void holders_may_be_on_different_threads(void **state)
{
    struct blob *blob = blob_copy(BYTES("hello"));
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_release, blob), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_false(blob_is_shared(blob));
    blob_release(blob);
}

static void a_blob_that_is_cut_keeps_its_beginning(void **state)
{
    struct blob *blob = blob_copy(BYTES("hello"));

    (void)state;
    blob_cut(blob, 4);
    assert_true(bytes_equal(buffer_bytes(&blob->buffer), BYTES("hell")));
    assert_int_equal(blob->buffer.capacity, 4);
    blob_cut(blob, 0);
    assert_int_equal(blob->buffer.size, 0);
    buffer_append_bytes(&blob->buffer, BYTES("again"));
    assert_true(bytes_equal(buffer_bytes(&blob->buffer), BYTES("again")));
    blob_release(blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_holder_frees_it),
        cmocka_unit_test(its_capacity_is_what_was_requested),
        cmocka_unit_test(holders_may_be_on_different_threads),
        cmocka_unit_test(a_blob_that_is_cut_keeps_its_beginning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
