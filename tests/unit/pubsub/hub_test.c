#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "pubsub/hub.h"
#include "pubsub/publication.h"

enum { WORKERS = 3, POSTERS = 4, POSTS = 2000 };

static const struct hash_seed seed = { 1, 2 };

struct box {
    struct hub *hub;
    _Atomic int rings[WORKERS];
};

static void count_ring(void *context, int worker)
{
    struct box *box = context;

    box->rings[worker]++;
}

static int open_box(void **state)
{
    struct box *box = calloc(1, sizeof(*box));

    box->hub = hub_create(WORKERS, &seed, count_ring, box);
    *state = box;
    return 0;
}

static int close_box(void **state)
{
    struct box *box = *state;

    hub_destroy(box->hub);
    free(box);
    return 0;
}

static uint64_t post(struct box *box, int here, enum topic_kind kind, const char *channel, const char *text)
{
    return hub_post_counted(box->hub, here, publication_create(WORKERS, kind, bytes_of_string(channel), bytes_of_string(text)));
}

/* The texts in a worker's inbox, in order, each followed by a blank; empties it. */
static const char *taken(struct box *box, int worker, char *text, size_t size)
{
    struct publication *next;

    text[0] = '\0';
    for (struct publication *each = hub_take(box->hub, worker); each != NULL; each = next) {
        struct bytes tail = each->tail;
        size_t used = strlen(text);

        next = each->posted_next[worker];
        snprintf(text + used, size - used, "%.*s@%llu ", (int)(tail.size - 2 - (size_t)(each->channel.data + each->channel.size + 2 - tail.data) - 4),
            each->channel.data + each->channel.size + 2 + 4, (unsigned long long)each->number);
        hub_release(box->hub, each);
    }
    return text;
}

static void a_message_goes_to_the_workers_with_subscribers_and_is_counted(void **state)
{
    struct box *box = *state;
    char text[256];

    hub_add(box->hub, 0, TOPIC_CHANNEL, BYTES("news"));
    hub_add(box->hub, 0, TOPIC_CHANNEL, BYTES("news"));
    hub_add(box->hub, 2, TOPIC_PATTERN, BYTES("n*"));
    hub_add(box->hub, 2, TOPIC_PATTERN, BYTES("*s"));
    hub_add(box->hub, 1, TOPIC_PATTERN, BYTES("x*"));
    hub_add(box->hub, 1, TOPIC_SHARD, BYTES("news"));
    assert_int_equal(hub_receivers(box->hub, TOPIC_CHANNEL, BYTES("news")), 4);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "news", "a"), 4);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "nothing", "b"), 1);
    assert_int_equal(post(box, -1, TOPIC_SHARD, "news", "c"), 1);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "other", "d"), 0);
    assert_string_equal(taken(box, 0, text, sizeof(text)), "a@1 ");
    assert_string_equal(taken(box, 1, text, sizeof(text)), "c@3 ");
    assert_string_equal(taken(box, 2, text, sizeof(text)), "a@1 b@2 ");
    assert_int_equal(hub_transit(box->hub).count, 0);
    assert_int_equal(hub_transit(box->hub).bytes, 0);
}

static void counts_follow_subscriptions_as_they_begin_and_end(void **state)
{
    struct box *box = *state;

    assert_int_equal(hub_add(box->hub, 0, TOPIC_PATTERN, BYTES("a*")), 0);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "ab", "1"), 1);
    assert_int_equal(hub_add(box->hub, 1, TOPIC_PATTERN, BYTES("a*")), 1);
    assert_int_equal(hub_topics(box->hub, TOPIC_PATTERN), 1);
    assert_int_equal(hub_subscribers(box->hub, TOPIC_PATTERN, BYTES("a*")), 2);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "ab", "2"), 2);
    assert_int_equal(hub_remove(box->hub, 0, TOPIC_PATTERN, BYTES("a*")), 2);
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "ab", "3"), 1);
    hub_remove(box->hub, 1, TOPIC_PATTERN, BYTES("a*"));
    assert_int_equal(post(box, -1, TOPIC_CHANNEL, "ab", "4"), 0);
    assert_int_equal(hub_topics(box->hub, TOPIC_PATTERN), 0);
    assert_false(hub_has_receivers(box->hub, TOPIC_CHANNEL));
}

static void a_worker_is_rung_once_until_it_takes_and_not_by_itself(void **state)
{
    struct box *box = *state;
    char text[64];

    hub_add(box->hub, 1, TOPIC_CHANNEL, BYTES("c"));
    post(box, -1, TOPIC_CHANNEL, "c", "a");
    post(box, 0, TOPIC_CHANNEL, "c", "b");
    assert_int_equal(box->rings[1], 1);
    assert_true(hub_has_mail(box->hub, 1));
    taken(box, 1, text, sizeof(text));
    assert_false(hub_has_mail(box->hub, 1));
    post(box, 1, TOPIC_CHANNEL, "c", "c");
    assert_int_equal(box->rings[1], 1);
    assert_int_equal(box->rings[0] + box->rings[2], 0);
}

static void a_list_is_posted_in_one_step_with_its_lsn(void **state)
{
    struct box *box = *state;
    struct publication *first = publication_create(WORKERS, TOPIC_CHANNEL, BYTES("c"), BYTES("a"));
    struct push_target target = { 7, 1 };
    struct publication *list;

    hub_add(box->hub, 0, TOPIC_CHANNEL, BYTES("c"));
    hub_add(box->hub, 1, TOPIC_PATTERN, BYTES("unrelated"));
    first->next = publication_create_push(WORKERS, 0, &target, 1, BYTES("*0\r\n"), BYTES(">0\r\n"));
    hub_post(box->hub, -1, first, 99);
    list = hub_take(box->hub, 0);
    assert_int_equal(list->lsn, 99);
    assert_int_equal(list->posted_next[0]->number, list->number + 1);
    assert_true(list->posted_next[0]->is_push);
    assert_true(hub_has_mail(box->hub, 1));         /* its pattern is not matched here */
    assert_false(hub_has_mail(box->hub, 2));
    hub_release(box->hub, list->posted_next[0]);
    hub_release(box->hub, list);
    assert_int_equal(hub_transit(box->hub).count, 1);       /* worker 1 has not taken it; the hub frees it */
}

static void count_name(void *context, struct bytes name)
{
    (void)name;
    ++*(size_t *)context;
}

static void channels_are_listed_by_pattern(void **state)
{
    struct box *box = *state;
    struct bytes pattern = BYTES("c1*");
    size_t seen = 0;
    char name[16];

    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "c%d", i);
        hub_add(box->hub, i % WORKERS, TOPIC_CHANNEL, bytes_of_string(name));
    }
    assert_int_equal(hub_list(box->hub, TOPIC_CHANNEL, NULL, count_name, &seen), 2000);
    assert_int_equal(seen, 2000);
    assert_int_equal(hub_list(box->hub, TOPIC_CHANNEL, &pattern, count_name, &seen), 1111);
    assert_int_equal(hub_list(box->hub, TOPIC_SHARD, NULL, count_name, &seen), 0);
}

struct poster {
    struct box *box;
    pthread_t thread;
    uint64_t receivers;
};

static void *post_many(void *context)
{
    struct poster *poster = context;

    for (int i = 0; i < POSTS; i++)
        poster->receivers += post(poster->box, -1, TOPIC_CHANNEL, "c1", "x");
    return NULL;
}

/* Subscriptions come and go meanwhile: what the posters counted is what reaches the inboxes, in one order for all. */
static void posters_on_several_threads_count_what_arrives(void **state)
{
    struct box *box = *state;
    struct poster posters[POSTERS];
    uint64_t counted = 0, last, arrived = 0;

    hub_add(box->hub, 0, TOPIC_CHANNEL, BYTES("c1"));
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){ .box = box };
        pthread_create(&posters[i].thread, NULL, post_many, &posters[i]);
    }
    for (int i = 0; i < POSTS; i++) {
        hub_add(box->hub, 1, TOPIC_PATTERN, BYTES("c*"));
        hub_remove(box->hub, 1, TOPIC_PATTERN, BYTES("c*"));
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        counted += posters[i].receivers;
    }
    for (int worker = 0; worker < WORKERS; worker++) {
        struct publication *next;

        last = 0;
        for (struct publication *each = hub_take(box->hub, worker); each != NULL; each = next) {
            next = each->posted_next[worker];
            assert_true(each->number > last);
            last = each->number;
            arrived++;
            hub_release(box->hub, each);
        }
    }
    assert_int_equal(arrived, counted);
    assert_int_equal(hub_number(box->hub), POSTERS * POSTS);
    assert_int_equal(hub_transit(box->hub).count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_goes_to_the_workers_with_subscribers_and_is_counted, open_box, close_box),
        cmocka_unit_test_setup_teardown(counts_follow_subscriptions_as_they_begin_and_end, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_worker_is_rung_once_until_it_takes_and_not_by_itself, open_box, close_box),
        cmocka_unit_test_setup_teardown(a_list_is_posted_in_one_step_with_its_lsn, open_box, close_box),
        cmocka_unit_test_setup_teardown(channels_are_listed_by_pattern, open_box, close_box),
        cmocka_unit_test_setup_teardown(posters_on_several_threads_count_what_arrives, open_box, close_box),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
