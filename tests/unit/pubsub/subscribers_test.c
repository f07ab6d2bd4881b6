#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "pubsub/hub.h"
#include "pubsub/publication.h"
#include "pubsub/subscribers.h"

enum { MANY = 1000, SMALL_BUDGET = 1 };

static const struct hash_seed seed = { 1, 2 };

/* What it got: "channel=text " for a message, with "pattern:" before it if there is one. */
struct reader {
    struct subscriber *subscriber;
    struct buffer got;
};

struct box {
    struct hub *hub;
    struct subscribers *subscribers;
    struct reader a, b;
};

static void ignore_ring(void *context, int worker)
{
    (void)context, (void)worker;
}

static void note(void *owner, const struct publication *publication, const struct bytes *pattern)
{
    struct reader *reader = owner;

    if (publication->is_push) {
        buffer_append_bytes(&reader->got, publication->forms[1]);
        return;
    }
    if (pattern != NULL)
        buffer_append_format(&reader->got, "%.*s:", (int)pattern->size, pattern->data);
    /* The tail ends with "$1\r\nx\r\n": texts have one byte here. */
    buffer_append_format(&reader->got, "%.*s=%c ", (int)publication->channel.size, publication->channel.data,
        publication->tail.data[publication->tail.size - 3]);
}

static void reader_open(struct box *box, struct reader *reader, uint64_t id)
{
    *reader = (struct reader){ .subscriber = subscriber_create(box->subscribers, reader, id) };
}

static void reader_close(struct box *box, struct reader *reader)
{
    subscriber_destroy(box->subscribers, reader->subscriber);
    buffer_release(&reader->got);
}

static int open_box(void **state)
{
    struct box *box = calloc(1, sizeof(*box));

    box->hub = hub_create(2, &seed, ignore_ring, NULL);
    box->subscribers = subscribers_create(box->hub, 1, &seed, note);
    reader_open(box, &box->a, 1);
    reader_open(box, &box->b, 2);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct box *box = *state;

    reader_close(box, &box->a);
    reader_close(box, &box->b);
    subscribers_destroy(box->subscribers);
    hub_destroy(box->hub);
    free(box);
    return 0;
}

static bool add(struct box *box, struct reader *reader, enum topic_kind kind, const char *name)
{
    return subscriber_add(box->subscribers, reader->subscriber, kind, bytes_of_string(name));
}

static bool end(struct box *box, struct reader *reader, enum topic_kind kind, const char *name)
{
    return subscriber_remove(box->subscribers, reader->subscriber, kind, bytes_of_string(name));
}

static uint64_t post(struct box *box, enum topic_kind kind, const char *channel, const char *text)
{
    return hub_post_counted(box->hub, -1, publication_create(2, kind, bytes_of_string(channel), bytes_of_string(text)));
}

static void assert_got(struct reader *reader, const char *text)
{
    struct bytes got = buffer_bytes(&reader->got);

    assert_int_equal(got.size, strlen(text));
    if (got.size > 0)
        assert_memory_equal(got.data, text, got.size);
    reader->got.size = 0;
}

static void sweep(struct box *box)
{
    while (subscribers_sweep(box->subscribers, SMALL_BUDGET))
        ;
    assert_false(subscribers_have_work(box->subscribers));
}

static void messages_reach_channels_then_patterns(void **state)
{
    struct box *box = *state;

    assert_true(add(box, &box->a, TOPIC_CHANNEL, "news"));
    assert_false(add(box, &box->a, TOPIC_CHANNEL, "news"));
    assert_true(add(box, &box->a, TOPIC_PATTERN, "n*"));
    assert_true(add(box, &box->a, TOPIC_PATTERN, "x*"));
    assert_true(add(box, &box->b, TOPIC_PATTERN, "*s"));
    assert_true(add(box, &box->b, TOPIC_SHARD, "news"));
    assert_int_equal(post(box, TOPIC_CHANNEL, "news", "1"), 3);
    assert_int_equal(post(box, TOPIC_SHARD, "news", "2"), 1);
    sweep(box);
    assert_got(&box->a, "news=1 n*:news=1 ");
    assert_got(&box->b, "*s:news=1 news=2 ");
    assert_int_equal(hub_transit(box->hub).count, 0);
}

static void a_subscription_begins_after_what_was_posted_before(void **state)
{
    struct box *box = *state;

    add(box, &box->a, TOPIC_CHANNEL, "a");
    post(box, TOPIC_CHANNEL, "a", "1");
    post(box, TOPIC_CHANNEL, "b", "2");
    add(box, &box->b, TOPIC_CHANNEL, "a");
    assert_got(&box->b, "");
    add(box, &box->a, TOPIC_CHANNEL, "b");          /* what it has subscribed to before comes first */
    assert_got(&box->a, "a=1 ");
    post(box, TOPIC_CHANNEL, "a", "3");
    sweep(box);
    assert_got(&box->a, "a=3 ");
    assert_got(&box->b, "a=3 ");
}

static void a_subscription_ends_with_all_that_was_posted_before(void **state)
{
    struct box *box = *state;

    add(box, &box->a, TOPIC_CHANNEL, "a");
    add(box, &box->a, TOPIC_PATTERN, "a*");
    assert_int_equal(post(box, TOPIC_CHANNEL, "a", "1"), 2);
    assert_true(end(box, &box->a, TOPIC_CHANNEL, "a"));
    assert_got(&box->a, "a=1 a*:a=1 ");
    assert_int_equal(post(box, TOPIC_CHANNEL, "a", "2"), 1);
    assert_true(end(box, &box->a, TOPIC_PATTERN, "a*"));
    assert_false(end(box, &box->a, TOPIC_PATTERN, "a*"));
    assert_got(&box->a, "a*:a=2 ");
    post(box, TOPIC_CHANNEL, "a", "3");
    sweep(box);
    assert_got(&box->a, "");
}

static void one_that_has_caught_up_gets_nothing_twice(void **state)
{
    struct box *box = *state;

    add(box, &box->a, TOPIC_CHANNEL, "a");
    add(box, &box->b, TOPIC_CHANNEL, "a");
    for (int i = 0; i < 5; i++)
        post(box, TOPIC_CHANNEL, "a", "x");
    subscriber_catch_up(box->subscribers, box->b.subscriber);
    assert_got(&box->b, "a=x a=x a=x a=x a=x ");
    subscribers_sweep(box->subscribers, SMALL_BUDGET);
    post(box, TOPIC_CHANNEL, "a", "y");
    sweep(box);
    assert_got(&box->a, "a=x a=x a=x a=x a=x a=y ");
    assert_got(&box->b, "a=y ");
}

/* The next ones of a sweep leave while it is interrupted; it goes on with those after them. */
static void subscriptions_may_end_during_a_sweep(void **state)
{
    struct box *box = *state;
    struct reader *readers = calloc(MANY, sizeof(*readers));

    for (int i = 0; i < MANY; i++) {
        reader_open(box, &readers[i], 100 + (uint64_t)i);
        add(box, &readers[i], i % 2 == 0 ? TOPIC_CHANNEL : TOPIC_PATTERN, i % 2 == 0 ? "a" : i % 3 == 0 ? "a*" : "?");
    }
    assert_int_equal(post(box, TOPIC_CHANNEL, "a", "x"), MANY);
    for (int i = 0; i < MANY; i += 5) {
        subscribers_sweep(box->subscribers, SMALL_BUDGET);
        end(box, &readers[i], i % 2 == 0 ? TOPIC_CHANNEL : TOPIC_PATTERN, i % 2 == 0 ? "a" : i % 3 == 0 ? "a*" : "?");
        if (i % 7 == 0) {
            reader_close(box, &readers[i + 1]);
            readers[i + 1].subscriber = NULL;
        }
    }
    sweep(box);
    for (int i = 0; i < MANY; i++) {
        if (readers[i].subscriber == NULL)
            continue;
        assert_got(&readers[i], i % 2 == 0 ? "a=x " : i % 3 == 0 ? "a*:a=x " : "?:a=x ");
        reader_close(box, &readers[i]);
    }
    free(readers);
    assert_int_equal(hub_transit(box->hub).count, 0);
}

/* Each step is short however many there are; the last ones have not waited for more than the number of steps. */
static void a_hundred_thousand_subscribers_and_ten_thousand_patterns(void **state)
{
    enum { SUBSCRIBERS = 100000, PATTERNS = 10000, BUDGET = 200000 };
    struct box *box = *state;
    struct reader *readers = calloc(SUBSCRIBERS, sizeof(*readers));
    char pattern[32];
    int steps = 1;

    for (int i = 0; i < PATTERNS; i++) {
        snprintf(pattern, sizeof(pattern), "p%d*", i);
        add(box, &box->a, TOPIC_PATTERN, pattern);
    }
    for (int i = 0; i < SUBSCRIBERS; i++) {
        reader_open(box, &readers[i], 100 + (uint64_t)i);
        add(box, &readers[i], TOPIC_CHANNEL, "p77");
    }
    assert_int_equal(post(box, TOPIC_CHANNEL, "p77", "1"), SUBSCRIBERS + 2);
    assert_int_equal(post(box, TOPIC_CHANNEL, "p77", "2"), SUBSCRIBERS + 2);
    while (subscribers_sweep(box->subscribers, BUDGET))
        steps++;
    assert_in_range(steps, 100, 300);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        assert_got(&readers[i], "p77=1 p77=2 ");
        reader_close(box, &readers[i]);
    }
    assert_got(&box->a, "p7*:p77=1 p77*:p77=1 p7*:p77=2 p77*:p77=2 ");
    free(readers);
}

static void pushes_reach_their_targets_in_order_with_messages(void **state)
{
    struct box *box = *state;
    struct push_target targets[] = { { 2, 0 }, { 77, 0 }, { 1, 0 } };

    add(box, &box->a, TOPIC_CHANNEL, "a");
    post(box, TOPIC_CHANNEL, "a", "1");
    hub_post(box->hub, -1, publication_create_push(2, 1, targets, 3, BYTES(""), BYTES("push ")), 5);
    post(box, TOPIC_CHANNEL, "a", "2");
    sweep(box);
    assert_got(&box->a, "a=1 push a=2 ");
    assert_got(&box->b, "push ");
}

static void a_subscriber_that_is_new_gets_no_older_push(void **state)
{
    struct box *box = *state;
    struct push_target target = { 3, 0 };
    struct reader late;

    hub_post(box->hub, -1, publication_create_push(2, 1, &target, 1, BYTES(""), BYTES("push ")), 5);
    reader_open(box, &late, 3);
    sweep(box);
    assert_got(&late, "");
    reader_close(box, &late);
}

static void counts_and_names_of_subscriptions(void **state)
{
    struct box *box = *state;
    struct bytes name;
    char text[16];

    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof(text), "c%d", i);
        add(box, &box->a, TOPIC_CHANNEL, text);
    }
    assert_int_equal(subscriber_count(box->a.subscriber, TOPIC_CHANNEL), MANY);
    assert_int_equal(subscriber_count(box->a.subscriber, TOPIC_PATTERN), 0);
    assert_false(subscriber_first(box->a.subscriber, TOPIC_PATTERN, &name));
    assert_true(subscriber_first(box->a.subscriber, TOPIC_CHANNEL, &name));
    assert_true(bytes_equal(name, BYTES("c0")));
    post(box, TOPIC_CHANNEL, "c777", "x");
    sweep(box);
    assert_got(&box->a, "c777=x ");
    while (subscriber_first(box->a.subscriber, TOPIC_CHANNEL, &name))
        assert_true(subscriber_remove(box->subscribers, box->a.subscriber, TOPIC_CHANNEL, name));
    assert_int_equal(hub_topics(box->hub, TOPIC_CHANNEL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_reach_channels_then_patterns, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_subscription_begins_after_what_was_posted_before, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_subscription_ends_with_all_that_was_posted_before, open_box, close_box),
        cmocka_unit_test_setup_teardown(one_that_has_caught_up_gets_nothing_twice, open_box, close_box),
        cmocka_unit_test_setup_teardown(subscriptions_may_end_during_a_sweep, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_hundred_thousand_subscribers_and_ten_thousand_patterns, open_box, close_box),
        cmocka_unit_test_setup_teardown(pushes_reach_their_targets_in_order_with_messages, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_subscriber_that_is_new_gets_no_older_push, open_box, close_box),
        cmocka_unit_test_setup_teardown(counts_and_names_of_subscriptions, open_box, close_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
