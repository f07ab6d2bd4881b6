/* Another store in the place of a running one: an image of a server with another hash seed, again and again; images that can't be used. */
#include "support/unit.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tree.h"
#include "engine/dataset.h"
#include "keyspace/pages.h"
#include "persist/checkpoint.h"
#include "support/page_values.h"
#include "support/tier_box.h"
#include "tier/image.h"
#include "tier/replace.h"
#include "value/string.h"

enum { KEYS = 1500, PATH = 300 };

struct pair {
    struct tier_box source, box;
    struct box_client *from, *to;
    char image[PATH];
};

/* The box has `partition_count` partitions, or as many as the source. */
static int set_up_with(void **state, int partition_count)
{
    struct pair *pair = mem_zalloc(sizeof(*pair));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&pair->source, &options);
    options.seed++;
    options.partition_count = partition_count;
    tier_box_create(&pair->box, &options);
    pair->from = tier_box_open_client(&pair->source, 0);
    pair->to = tier_box_open_client(&pair->box, 0);
    snprintf(pair->image, sizeof(pair->image), "%s/taken", pair->source.root);
    *state = pair;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 0);
}

static int set_up_more_partitions(void **state)
{
    return set_up_with(state, 32);
}

static int set_up_one_partition(void **state)
{
    return set_up_with(state, 1);
}

static int tear_down(void **state)
{
    struct pair *pair = *state;

    tier_box_close_client(pair->from);
    tier_box_close_client(pair->to);
    tier_box_destroy(&pair->source);
    tier_box_destroy(&pair->box);
    mem_free(pair);
    return 0;
}

static void fill(struct box_client *client, const char *word, int count)
{
    char line[100];

    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "SET key%d %s%d", i, word, i);
        assert_string_equal(tier_box_say(client, line), "+OK\n");
    }
}

static void demote(struct tier_box *box, int count, int step)
{
    char key[32];

    for (int i = 0; i < count; i += step) {
        snprintf(key, sizeof(key), "key%d", i);
        tier_demote(box->tier, 0, bytes_of_string(key));
    }
}

static void check(struct box_client *client, const char *word, int count)
{
    char line[100], text[64], expected[100];

    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "GET key%d", i);
        snprintf(text, sizeof(text), "%s%d", word, i);
        snprintf(expected, sizeof(expected), "$%zu\n%s\n", strlen(text), text);
        assert_string_equal(tier_box_say(client, line), word[0] == '\0' ? "$-1\n" : expected);
    }
}

static void take_image(struct pair *pair)
{
    struct checkpoint_data data = { .tier = pair->source.tier, .partitions = pair->source.partitions };
    struct message message = { "" };

    tree_remove(pair->image);
    assert_int_equal(checkpoint_image(&data, pair->image, &message), STATUS_OK);
}

static void only_an_image_that_a_server_may_start_from_has_the_hot_keys(void **state)
{
    struct pair *pair = *state;
    struct checkpoint_data data = { .tier = pair->source.tier, .partitions = pair->source.partitions, .is_read_once = true };
    struct message message = { "" };
    char path[sizeof(pair->image) + 8];

    snprintf(path, sizeof(path), "%s/hot", pair->image);
    take_image(pair);
    assert_int_equal(access(path, F_OK), 0);
    tree_remove(pair->image);
    assert_int_equal(checkpoint_image(&data, pair->image, &message), STATUS_OK);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void empty(struct tier_box *box)
{
    partitions_lock_all(box->partitions);
    for (int db = 0; db < box->partitions->db_count; db++)
        dataset_empty(&box->engine, db);
    partitions_unlock_all(box->partitions);
}

/* As lifecycle/image_load.c does it; no call is under way here. */
static enum status replace(struct tier_box *box, const char *image)
{
    struct image_databases databases = { 0 };
    struct message message = { "" };
    enum status status;

    if (image != NULL)
        assert_int_equal(checkpoint_databases(image, &databases, &message), STATUS_OK);
    tier_image_begin(box->tier);
    empty(box);
    partitions_lock_all(box->partitions);
    assert_true(tier_may_replace(box->tier));
    if (image != NULL)
        checkpoint_set_databases(&databases, box->partitions);
    partitions_unlock_all(box->partitions);
    status = tier_replace(box->tier, image, databases.number, &message);
    if (status != STATUS_OK)
        empty(box);
    partitions_lock_all(box->partitions);
    partitions_set_seed(box->partitions, tier_seed(box->tier).sip);
    partitions_unlock_all(box->partitions);
    tier_image_end(box->tier);
    mem_free(databases.incarnations);
    if ((status != STATUS_OK) == message_is_empty(&message))
        fail_msg("%s, but '%s'", status_name(status), message.text);
    return status;
}

static bool seeds_are_equal(const struct pair *pair)
{
    return memcmp(&pair->source.partitions->seed.sip, &pair->box.partitions->seed.sip, sizeof(struct hash_seed)) == 0;
}

static void the_data_is_that_of_the_image(void **state)
{
    struct pair *pair = *state;

    fill(pair->from, "new", KEYS);
    demote(&pair->source, KEYS, 3);
    fill(pair->to, "old", KEYS + 50);
    demote(&pair->box, KEYS + 50, 2);
    assert_false(seeds_are_equal(pair));
    take_image(pair);
    assert_int_equal(replace(&pair->box, pair->image), STATUS_OK);
    assert_true(seeds_are_equal(pair));
    tier_box_verify(&pair->box);
    check(pair->to, "new", KEYS);
    assert_string_equal(tier_box_say(pair->to, "GET key1520"), "$-1\n");
    assert_string_equal(tier_box_say(pair->to, "DBSIZE"), ":1500\n");
    /* It goes on as any store. */
    fill(pair->to, "newer", KEYS / 2);
    demote(&pair->box, KEYS / 2, 1);
    check(pair->to, "newer", KEYS / 2);
    tier_box_settle(&pair->box);
    tier_box_verify(&pair->box);
}

static void it_can_be_replaced_again_and_by_nothing(void **state)
{
    struct pair *pair = *state;

    for (int round = 0; round < 3; round++) {
        fill(pair->from, round % 2 == 0 ? "even" : "odd", KEYS / 3);
        take_image(pair);
        assert_int_equal(replace(&pair->box, pair->image), STATUS_OK);
        tier_warm_up(pair->box.tier, pair->image);
        tier_await_warm_up_file(pair->box.tier);
        check(pair->to, round % 2 == 0 ? "even" : "odd", KEYS / 3);
        fill(pair->to, "own", KEYS / 3);
        demote(&pair->box, KEYS / 3, 2);
    }
    assert_int_equal(replace(&pair->box, NULL), STATUS_OK);
    assert_false(seeds_are_equal(pair));
    check(pair->to, "", KEYS / 3);
    assert_string_equal(tier_box_say(pair->to, "DBSIZE"), ":0\n");
    fill(pair->to, "last", 100);
    demote(&pair->box, 100, 1);
    check(pair->to, "last", 100);
    tier_box_settle(&pair->box);
    tier_box_verify(&pair->box);
}

static void an_image_without_its_store_leaves_an_empty_one(void **state)
{
    struct pair *pair = *state;
    struct tier_box *box = &pair->box;
    struct message message = { "" };
    char path[PATH + 20];

    fill(pair->from, "new", 100);
    fill(pair->to, "old", 100);
    demote(box, 100, 1);
    take_image(pair);
    snprintf(path, sizeof(path), "%s/store", pair->image);
    tree_remove(path);
    tier_image_begin(box->tier);
    empty(box);
    assert_int_not_equal(tier_replace(box->tier, pair->image, 1, &message), STATUS_OK);
    assert_false(message_is_empty(&message) || tier_has_no_store(box->tier));
    partitions_lock_all(box->partitions);
    partitions_set_seed(box->partitions, tier_seed(box->tier).sip);
    partitions_unlock_all(box->partitions);
    tier_image_end(box->tier);
    check(pair->to, "", 100);
    take_image(pair);
    assert_int_equal(replace(box, pair->image), STATUS_OK);
    check(pair->to, "new", 100);
    tier_box_verify(box);
}

static void the_seed_of_an_image_is_that_of_its_server(void **state)
{
    struct pair *pair = *state;
    struct image_databases databases;
    struct message message = { "" };
    struct key_seed seed;

    fill(pair->from, "new", 100);
    take_image(pair);
    assert_int_equal(checkpoint_databases(pair->image, &databases, &message), STATUS_OK);
    assert_int_equal(tier_seed_of(pair->image, databases.number, &seed, &message), STATUS_OK);
    assert_memory_equal(&seed.sip, &pair->source.partitions->seed.sip, sizeof(seed.sip));
    assert_int_equal(tier_seed_of(pair->image, databases.number + 1, &seed, &message), STATUS_CORRUPT);
    mem_free(databases.incarnations);
}

/* Keys of all page spaces, hot and cold. */
static uint64_t count_pages(struct tier_box *box)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < box->partitions->count; i++) {
        struct partition *partition = &box->partitions->partitions[i];

        partition_lock(partition);
        for (int space = box->partitions->db_count; space < box->partitions->space_count; space++) {
            const struct keyspace *keyspace = partition_keyspace_if(partition, space);

            count += keyspace != NULL ? tier_keyspace_count(keyspace) : 0;
        }
        partition_unlock(partition);
    }
    return count;
}

static void run_pages(struct page_values *values, struct tier_box *box, int steps)
{
    for (int i = 0; i < steps; i++) {
        tier_settings(box->tier)->memory_max = i / 500 % 2 == 0 ? 0 : 30000;
        page_values_step(values, i % 2);
        if (i % 100 == 0) {
            tier_nudge(box->tier);
            usleep(2000);
        }
    }
    tier_settings(box->tier)->memory_max = 0;
}

/* Values in pages come with the image: those of the tags, or of what is found in the segments without them. */
static void check_pages(struct pair *pair, bool has_tags)
{
    struct page_values *values = page_values_create(&pair->source, pair->source.seed);
    char path[PATH + 8];

    run_pages(values, &pair->source, 6000);
    page_values_drop_later(values);
    take_image(pair);
    assert_true(pair->source.tier->drop_lists > 0);
    assert_true(tier_box_stats(&pair->source).demotions > 100);
    snprintf(path, sizeof(path), "%s/tags", pair->image);
    if (!has_tags)
        assert_int_equal(truncate(path, 100), 0);
    pair->box.tier->drops_at_once = has_tags ? 0 : DROPS_AT_ONCE;           /* the writer goes on at once, before the seed is set */
    assert_int_equal(replace(&pair->box, pair->image), STATUS_OK);
    assert_true(pair->box.tier->drop_lists > 0 || !has_tags);
    pair->box.tier->drops_at_once = DROPS_AT_ONCE;
    assert_int_equal(pair->box.partitions->value_count, pair->source.partitions->value_count);
    page_values_move(values, &pair->box);
    tier_box_settle(&pair->box);            /* what was left to be dropped at the cut goes */
    assert_int_equal(count_pages(&pair->box), page_values_count(values));
    tier_box_verify(&pair->box);
    run_pages(values, &pair->box, 2000);
    page_values_verify(values);
    tier_box_settle(&pair->box);
    tier_box_verify(&pair->box);
    assert_int_equal(count_pages(&pair->box), page_values_count(values));
    page_values_destroy(values);
}

static void pages_of_an_image(void **state)
{
    check_pages(*state, true);
}

static void pages_of_an_image_without_tags(void **state)
{
    check_pages(*state, false);
}

/* Its checksum is right, but it was not written by keyspace/pages: the page is damaged, and others are not. */
static void a_record_that_is_no_page_is_damage(void **state)
{
    struct pair *pair = *state;
    struct tier_box *box = &pair->box;
    struct value value = string_value_raw(BYTES("abc"));
    uint64_t id = pages_new_id(box->partitions, 0), hash;
    struct partition *partition = &box->partitions->partitions[pages_partition(box->partitions, id)];
    char name[PAGE_NAME_SIZE];
    struct keyspace *space;
    struct pages pages;
    struct batch batch;
    enum status bad, good;
    size_t size;
    char first;

    tier_box_hold_writer(box);
    batch_init(&batch);
    partition_lock(partition);
    space = partition_keyspace(partition, partitions_page_space(box->partitions, 1));
    pages_init(&pages, space, id, 0);
    *pages.pager.create(&pages.pager, 1, 1) = 'x';
    hash = pages_name(id, 2, name);
    batch_put(box->tier, &batch, space, hash, keyspace_insert(space, hash, bytes_of(name, sizeof(name)), &value, -1, RECORD_NONE, 0), BATCH_DEMOTE, NULL);
    hash = pages_name(id, 1, name);
    batch_put(box->tier, &batch, space, hash, keyspace_find(space, hash, bytes_of(name, sizeof(name))), BATCH_DEMOTE, NULL);
    partition_unlock(partition);
    assert_int_equal(batch_commit(box->tier, &batch), STATUS_OK);
    tier_box_release_writer(box);
    batch_release(&batch);
    assert_int_equal(tier_box_stats(box).hot_pages, 0);
    partition_lock(partition);
    hash = pages_name(id, 2, name);
    bad = tier_load_in_place(box->tier, space, hash, bytes_of(name, sizeof(name)));
    hash = pages_name(id, 1, name);
    good = tier_load_in_place(box->tier, space, hash, bytes_of(name, sizeof(name)));
    first = good == STATUS_OK ? *pages.pager.find(&pages.pager, 1, PAGER_USE, &size) : 0;
    partition_unlock(partition);
    assert_int_equal(bad, STATUS_CORRUPT);
    assert_int_equal(good, STATUS_OK);
    assert_int_equal(first, 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_data_is_that_of_the_image, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_can_be_replaced_again_and_by_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_an_image_that_a_server_may_start_from_has_the_hot_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_image_without_its_store_leaves_an_empty_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_seed_of_an_image_is_that_of_its_server, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_is_no_page_is_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_an_image, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_an_image_without_tags, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_an_image, set_up_more_partitions, tear_down),
        cmocka_unit_test_setup_teardown(pages_of_an_image, set_up_one_partition, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
