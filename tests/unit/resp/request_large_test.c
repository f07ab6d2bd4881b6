/* Requests whose large arguments are received into memory of their own. */
#include "support/unit.h"

#include <string.h>

#include "base/buffer.h"
#include "resp/request.h"

enum { LARGE = REQUEST_LARGE_MIN, LARGER = REQUEST_LARGE_MIN * 3 + 17 };

static const struct request_limits usual = { 512 << 20, INT32_MAX, 64 << 10, true };

static void put_arg(struct buffer *out, size_t size, char first)
{
    buffer_append_format(out, "$%zu\r\n", size);
    for (size_t i = 0; i < size; i++)
        buffer_append_u8(out, (uint8_t)(first + i % 7));
    buffer_append_string(out, "\r\n");
}

static void check_arg(struct bytes arg, size_t size, char first)
{
    assert_int_equal(arg.size, size);
    for (size_t i = 0; i < size; i++) {
        if (arg.data[i] != (char)(first + i % 7))
            fail_msg("byte %zu of %zu is wrong", i, size);
    }
}

/* Behaves like a connection: passes pieces of at most `step` bytes on, and moves the data each time. */
struct feed {
    struct request_parser parser;
    const char *input;
    size_t left, step;
    struct buffer data;
};

static size_t take(struct feed *feed, char *room, size_t most)
{
    size_t size = feed->left < feed->step ? feed->left : feed->step;

    if (size > most)
        size = most;
    memcpy(room, feed->input, size);
    feed->input += size;
    feed->left -= size;
    return size;
}

static void move(struct buffer *data)
{
    struct buffer other = { 0 };

    buffer_append_bytes(&other, buffer_bytes(data));
    memset(data->data, '?', data->size);
    buffer_release(data);
    *data = other;
}

/* Runs until a request is complete; returns how many bytes of feed->data it takes. */
static size_t next_request(struct feed *feed)
{
    for (;;) {
        size_t consumed = 0, wanted = 0, room;
        enum request_result result = feed->data.size == 0 ? REQUEST_MORE :
            request_parse(&feed->parser, &usual, feed->data.data, feed->data.size, &consumed, &wanted);
        char *large;

        if (result == REQUEST_COMPLETE)
            return consumed;
        assert_int_equal(result, REQUEST_MORE);
        assert_true(feed->left > 0);
        if (feed->data.size > 0 && request_large_wanted(&feed->parser) > 0)
            feed->data.size = request_large_begin(&feed->parser, feed->data.data, feed->data.size);
        while ((large = request_large_room(&feed->parser, &room)) != NULL) {
            if (request_large_add(&feed->parser, take(feed, large, room)))
                break;
        }
        if (large == NULL)
            feed->data.size += take(feed, buffer_reserve(&feed->data, feed->step), feed->step);
        move(&feed->data);
    }
}

static void drop(struct feed *feed, size_t size)
{
    memmove(feed->data.data, feed->data.data + size, feed->data.size - size);
    feed->data.size -= size;
}

static void check_both(struct feed *feed)
{
    assert_int_equal(feed->parser.arg_count, 5);
    check_arg(feed->parser.args[0], 4, 'a');
    check_arg(feed->parser.args[1], LARGE, 'b');
    check_arg(feed->parser.args[2], 10, 'c');
    check_arg(feed->parser.args[3], LARGER, 'd');
    check_arg(feed->parser.args[4], 3, 'e');
}

static void two_large_arguments_among_small_ones_may_arrive_in_any_pieces(void **state)
{
    static const size_t steps[] = { 1000, 4096, LARGE - 1, LARGE, LARGE + 20, 1 << 20 };
    struct buffer input = { 0 };

    (void)state;
    buffer_append_string(&input, "*5\r\n");
    put_arg(&input, 4, 'a');
    put_arg(&input, LARGE, 'b');
    put_arg(&input, 10, 'c');
    put_arg(&input, LARGER, 'd');
    put_arg(&input, 3, 'e');
    buffer_append_string(&input, "*1\r\n$4\r\nPING\r\n");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct feed feed = { .input = input.data, .left = input.size, .step = steps[i] };
        size_t size;

        request_init(&feed.parser);
        size = next_request(&feed);
        check_both(&feed);
        /* It could not run: the same request is returned again, wherever the data is then. */
        request_again(&feed.parser, feed.data.data, size);
        move(&feed.data);
        assert_int_equal(next_request(&feed), size);
        check_both(&feed);
        if (steps[i] < LARGE)
            assert_int_equal(feed.parser.large_count, 2);
        drop(&feed, size);
        request_drop_large(&feed.parser);
        size = next_request(&feed);
        assert_int_equal(feed.parser.arg_count, 1);
        assert_memory_equal(feed.parser.args[0].data, "PING", 4);
        drop(&feed, size);
        assert_int_equal(feed.data.size + feed.left, 0);
        request_release(&feed.parser);
        buffer_release(&feed.data);
    }
    buffer_release(&input);
}

static void the_argument_is_the_blob_and_survives_the_request(void **state)
{
    struct buffer input = { 0 };
    struct feed feed = { .step = 999 };
    struct blob *kept;

    (void)state;
    buffer_append_string(&input, "*2\r\n");
    put_arg(&input, 4, 'a');
    put_arg(&input, LARGER, 'b');
    feed.input = input.data;
    feed.left = input.size;
    request_init(&feed.parser);
    next_request(&feed);
    assert_int_equal(feed.parser.large_count, 1);
    assert_int_equal(feed.parser.large[0].arg, 1);
    kept = blob_hold(feed.parser.large[0].blob);
    assert_ptr_equal(kept->buffer.data, feed.parser.args[1].data);
    request_release(&feed.parser);
    check_arg(buffer_bytes(&kept->buffer), LARGER, 'b');
    assert_false(blob_is_shared(kept));
    blob_release(kept);
    buffer_release(&feed.data);
    buffer_release(&input);
}

static void a_client_that_disconnects_in_the_middle_leaves_no_memory(void **state)
{
    struct buffer input = { 0 };
    struct feed feed = { 0 };
    size_t consumed, wanted, room;

    (void)state;
    buffer_append_format(&input, "*2\r\n$3\r\nGET\r\n$%d\r\nabc", LARGER);
    request_init(&feed.parser);
    assert_int_equal(request_parse(&feed.parser, &usual, input.data, input.size, &consumed, &wanted), REQUEST_MORE);
    assert_int_equal(request_large_wanted(&feed.parser), LARGER + 2);
    request_large_begin(&feed.parser, input.data, input.size);
    assert_int_equal(request_large_wanted(&feed.parser), 0);
    assert_non_null(request_large_room(&feed.parser, &room));
    assert_int_equal(room, LARGER + 2 - 3);
    request_release(&feed.parser);
    buffer_release(&input);
}

static void small_arguments_stay_in_the_data(void **state)
{
    struct request_parser parser;
    struct buffer input = { 0 };
    size_t consumed, wanted, room;

    (void)state;
    buffer_append_format(&input, "*2\r\n$3\r\nGET\r\n$%d\r\nabc", REQUEST_LARGE_MIN - 1);
    request_init(&parser);
    assert_int_equal(request_parse(&parser, &usual, input.data, input.size, &consumed, &wanted), REQUEST_MORE);
    assert_int_equal(request_large_wanted(&parser), 0);
    assert_null(request_large_room(&parser, &room));
    request_release(&parser);
    buffer_release(&input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_large_arguments_among_small_ones_may_arrive_in_any_pieces),
        cmocka_unit_test(the_argument_is_the_blob_and_survives_the_request),
        cmocka_unit_test(a_client_that_disconnects_in_the_middle_leaves_no_memory),
        cmocka_unit_test(small_arguments_stay_in_the_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
