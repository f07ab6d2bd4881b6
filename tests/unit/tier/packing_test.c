/* tier-compression zstd and lz4: which records are written packed, and that it is invisible to clients. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/tier_box.h"
#include "tier/demotion.h"
#include "tier/packing.h"
#include "tier/record.h"

enum { KEYS = 500, NOISE_SIZE = 300 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct random random;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = 2 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, rig->box.seed);
    tier_settings(rig->box.tier)->compression = PACKING_ZSTD;
    *state = rig;
    return 0;
}

static int open_rig_lz4(void **state)
{
    open_rig(state);
    tier_settings(((struct rig *)*state)->box.tier)->compression = PACKING_LZ4;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static struct packing *packing(struct rig *rig)
{
    return &rig->box.tier->packing;
}

static void set(struct rig *rig, const char *key, struct bytes value)
{
    struct bytes words[] = { BYTES("SET"), bytes_of_string(key), value };

    assert_true(tier_box_ask(rig->client, words, 3));
    assert_string_equal(tier_box_reply(rig->client), "+OK\n");
}

static void order(int number, struct buffer *text)
{
    text->size = 0;
    for (int i = 0; i < 4; i++)
        buffer_append_format(text, "{\"order\":%d,\"customer\":\"customer-%d\",\"status\":\"delivered\",\"currency\":\"EUR\"}", number * 7 + i, number);
}

static void set_texts(struct rig *rig, const char *prefix, int count)
{
    struct buffer text = { 0 };
    char key[30];

    for (int i = 0; i < count; i++) {
        order(i, &text);
        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        set(rig, key, buffer_bytes(&text));
    }
    buffer_release(&text);
}

static void set_orders(struct rig *rig, int count)
{
    set_texts(rig, "order", count);
}

static void check_texts(struct rig *rig, const char *prefix, int count)
{
    struct buffer text = { 0 };
    char line[40];

    for (int i = 0; i < count; i++) {
        const char *reply;

        order(i, &text);
        snprintf(line, sizeof(line), "GET %s:%d", prefix, i);
        reply = tier_box_say(rig->client, line);
        assert_non_null(strchr(reply, '\n'));
        assert_memory_equal(strchr(reply, '\n') + 1, text.data, text.size);
    }
    buffer_release(&text);
}

static void check_orders(struct rig *rig, int count)
{
    check_texts(rig, "order", count);
}

static void set_noise(struct rig *rig, const char *prefix, int count)
{
    char key[30], value[NOISE_SIZE];

    for (int i = 0; i < count; i++) {
        for (size_t at = 0; at < sizeof(value); at++)
            value[at] = (char)random_next(&rig->random);
        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        set(rig, key, bytes_of(value, sizeof(value)));
    }
}

static void demote_in(struct rig *rig, int db, const char *prefix, int count)
{
    struct bytes *names = mem_alloc((size_t)count * sizeof(*names));
    enum tier_move *results = mem_alloc((size_t)count * sizeof(*results));

    for (int i = 0; i < count; i++) {
        char key[30];

        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        names[i] = bytes_of(mem_string(bytes_of_string(key)), strlen(key));
    }
    tier_demote_many(rig->box.tier, db, names, (size_t)count, results);
    for (int i = 0; i < count; i++) {
        assert_int_equal(results[i], TIER_MOVED);
        mem_free((char *)(uintptr_t)names[i].data);
    }
    mem_free(names);
    mem_free(results);
}

static void demote(struct rig *rig, const char *prefix, int count)
{
    demote_in(rig, 0, prefix, count);
}

static uint64_t live_bytes(struct rig *rig)
{
    return tier_box_stats(&rig->box).segment_live_bytes;
}

static void cold_values_are_smaller_and_the_same(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    assert_int_equal(packing(rig)->records, KEYS);
    assert_true(packing(rig)->saved_bytes > (uint64_t)KEYS * 150);
    check_orders(rig, KEYS);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
}

static void expiry_type_and_existence_are_known_without_unpacking(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, 3);
    assert_string_equal(tier_box_say(rig->client, "PEXPIREAT order:1 99999999999999"), ":1\n");
    demote(rig, "order", 3);
    assert_int_equal(packing(rig)->records, 3);
    assert_string_equal(tier_box_say(rig->client, "PEXPIRETIME order:1"), ":99999999999999\n");
    assert_string_equal(tier_box_say(rig->client, "TYPE order:0"), "+string\n");
    assert_string_equal(tier_box_say(rig->client, "DEL order:2"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":2\n");
    check_orders(rig, 2);
}

static void off_means_raw_and_what_is_packed_stays_readable(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    tier_settings(rig->box.tier)->compression = PACKING_NO;
    check_orders(rig, KEYS);
    set_orders(rig, 10);                        /* they are dirty again */
    demote(rig, "order", 10);
    assert_int_equal(packing(rig)->records, KEYS);
    check_orders(rig, KEYS);
}

/* What was written by each codec is read whatever the setting is, also after it was moved by garbage collection. */
static void records_of_all_codecs_are_mixed(void **state)
{
    static const enum packing_codec settings[] = { PACKING_ZSTD, PACKING_LZ4, PACKING_NO };
    struct rig *rig = *state;
    uint64_t saved[3], before = 0;

    for (int i = 0; i < 3; i++) {
        static const char *prefixes[] = { "order", "other", "third" };

        tier_settings(rig->box.tier)->compression = settings[i];
        set_texts(rig, prefixes[i], KEYS);
        demote(rig, prefixes[i], KEYS);
        saved[i] = packing(rig)->saved_bytes - before;
        before = packing(rig)->saved_bytes;
    }
    assert_int_equal(packing(rig)->records, 2 * KEYS);
    assert_true(saved[0] > saved[1] && saved[1] > (uint64_t)KEYS * 100 && saved[2] == 0);
    for (int i = 2; i >= 0; i--) {
        tier_settings(rig->box.tier)->compression = settings[i];
        check_texts(rig, "order", KEYS);
        check_texts(rig, "other", KEYS);
        check_texts(rig, "third", KEYS);
        demote(rig, "order", KEYS);
        demote(rig, "other", KEYS);
        demote(rig, "third", KEYS);
    }
    assert_int_equal(packing(rig)->records, 2 * KEYS);         /* they were clean: none was written again */
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
}

static void noise_is_tried_now_and_then_only(void **state)
{
    struct rig *rig = *state;
    int first = (32 << 10) / NOISE_SIZE + 2;
    uint64_t tried;

    set_noise(rig, "first", first);
    demote(rig, "first", first);
    tried = packing(rig)->databases[0].ratio.before;
    assert_true(tried >= 32 << 10);
    set_noise(rig, "noise", 640);
    demote(rig, "noise", 640);
    assert_true(packing(rig)->databases[0].ratio.before - tried <= 10 * (NOISE_SIZE + 20));
    assert_true(packing(rig)->databases[0].ratio.before > tried);
    assert_int_equal(packing(rig)->records, 0);
    /* Texts come after that: tried now and then, then always. */
    set_orders(rig, KEYS * 20);
    demote(rig, "order", KEYS * 20);
    assert_true(packing(rig)->records > KEYS);
    check_orders(rig, KEYS);
}

static void while_memory_is_waited_for_nothing_is_packed(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    packing(rig)->is_hurried = true;
    demote(rig, "order", KEYS);
    assert_int_equal(packing(rig)->records, 0);
    check_orders(rig, KEYS);
}

/* The judgement itself: after a batch, by the memory that is used. */
static void a_batch_tells_whether_memory_is_waited_for(void **state)
{
    struct rig *rig = *state;

    set_orders(rig, KEYS);
    tier_box_hold_writer(&rig->box);
    tier_settings(rig->box.tier)->enabled = false;
    tier_settings(rig->box.tier)->memory_max = 1;
    packing_after_batch(rig->box.tier);
    assert_true(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->memory_max = 1 << 30;
    packing_after_batch(rig->box.tier);
    assert_false(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->memory_max = 0;
    packing_after_batch(rig->box.tier);
    assert_false(packing(rig)->is_hurried);
    tier_settings(rig->box.tier)->enabled = true;
    tier_box_release_writer(&rig->box);
}

/* Packing takes several times as long as encoding, so less of it is done under one hold of the lock. */
static void a_hold_is_shorter_when_values_are_packed(void **state)
{
    struct rig *rig = *state;
    struct batch batch;
    struct demote_targets targets = { .batch = &batch };
    struct keyspace *keyspace;
    uint64_t hash, freed;

    set_orders(rig, 3000);
    tier_box_hold_writer(&rig->box);
    batch_init(&batch);
    keyspace = tier_box_keyspace(&rig->box, 0, BYTES("order:0"), &hash);
    partition_lock(keyspace->partition);
    freed = demotion_window(rig->box.tier, keyspace, DEMOTE_SHARE_ONE, DEMOTE_ALL, &targets, &rig->random);
    partition_unlock(keyspace->partition);
    assert_true(freed > BATCH_HOLD_ENOUGH / PACKING_WORK / 2 && freed < BATCH_HOLD_ENOUGH / PACKING_WORK * 3 / 2);
    assert_true(store_batch_size(batch.store) < BATCH_HOLD_ENOUGH / 4);
    assert_int_equal(batch_commit(rig->box.tier, &batch), STATUS_OK);
    assert_int_equal(batch_work(&batch) - store_batch_size(batch.store), 0);
    tier_box_release_writer(&rig->box);
    batch_release(&batch);
    key_list_release(&targets.unknown);
    key_list_release(&targets.big);
}

static void big_values_are_packed_without_the_lock(void **state)
{
    struct rig *rig = *state;

    /* A hash of 300 fields is big, and its record has less than 64 KiB. */
    for (int i = 0; i < 300; i++) {
        char line[120];

        snprintf(line, sizeof(line), "HSET big:0 field-%d customer-%d-is-a-good-customer", i, i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    demote(rig, "big", 1);
    assert_int_equal(packing(rig)->records, 1);
    assert_string_equal(tier_box_say(rig->client, "HLEN big:0"), ":300\n");
    assert_string_equal(tier_box_say(rig->client, "HGET big:0 field-77"), "$30\ncustomer-77-is-a-good-customer\n");
}

static void packed_records_take_less_of_the_disk(void **state)
{
    struct rig *rig = *state;
    uint64_t packed;

    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    packed = live_bytes(rig);
    check_orders(rig, KEYS);
    tier_settings(rig->box.tier)->compression = PACKING_NO;
    set_orders(rig, KEYS);
    demote(rig, "order", KEYS);
    assert_true(live_bytes(rig) > packed * 3 / 2);
}

/* --- dictionaries --- */

/* Small values, which compress hardly without one. */
static void profile(struct rig *rig, char value[200])
{
    snprintf(value, 200, "{\"id\":%llu,\"name\":\"user-%llx\",\"mail\":\"u%llu@example.com\",\"role\":\"%s\",\"active\":true}",
        (unsigned long long)random_below(&rig->random, 1u << 30), (unsigned long long)random_next(&rig->random) >> 20,
        (unsigned long long)random_below(&rig->random, 1u << 20), random_below(&rig->random, 2) ? "editor" : "owner");
}

/* Of other fields. */
static void event(struct rig *rig, char value[200])
{
    snprintf(value, 200, "<event time='%llu' source='sensor %llx' kind='%s' level='information'><text/></event>",
        (unsigned long long)random_below(&rig->random, 1u << 30), (unsigned long long)random_next(&rig->random) >> 24,
        random_below(&rig->random, 2) ? "temperature" : "humidity");
}

/* The client has selected the database. */
static void write_values_in(struct rig *rig, int db, const char *prefix, int count, void (*make)(struct rig *rig, char value[200]))
{
    char key[30], value[200];

    for (int i = 0; i < count; i++) {
        make(rig, value);
        snprintf(key, sizeof(key), "%s:%d", prefix, i);
        set(rig, key, bytes_of_string(value));
    }
    demote_in(rig, db, prefix, count);
}

static void write_values(struct rig *rig, const char *prefix, int count, void (*make)(struct rig *rig, char value[200]))
{
    write_values_in(rig, 0, prefix, count, make);
}

static struct dictionaries *dictionaries(struct rig *rig)
{
    return store_dictionaries(rig->box.tier->store);
}

/* The state that the writer has left: it is held meanwhile. */
static bool is_training(struct rig *rig)
{
    bool is_training;

    tier_box_hold_writer(&rig->box);
    is_training = rig->box.tier->training.thread.has_started;
    tier_box_release_writer(&rig->box);
    return is_training;
}

/* The writer looks at it after each batch. */
static void await_training(struct rig *rig)
{
    while (is_training(rig)) {
        set(rig, "poke:0", BYTES("x"));
        demote(rig, "poke", 1);
    }
}

enum { AFTER = 128 * 1024 };

static void train(struct rig *rig)
{
    tier_settings(rig->box.tier)->dictionary_after = AFTER;
    for (int i = 0; i < 3; i++)                 /* samples are taken from the second batch on */
        write_values(rig, "profile", 3000, profile);
    await_training(rig);
    assert_int_equal(dictionaries_count(dictionaries(rig)), 1);
}

static void a_dictionary_is_trained_and_used(void **state)
{
    struct rig *rig = *state;
    const struct dictionary *dictionary;
    uint64_t records, saved;
    char value[200];

    train(rig);
    dictionary = dictionaries_newest(dictionaries(rig), 0);
    assert_ptr_equal(packing(rig)->databases[0].dictionary, dictionary);
    assert_true(dictionary->ratio_permille > 1500 && dictionary->samples > 300);
    assert_true(packing(rig)->databases[0].expected_permille > 1300);
    assert_true((packing(rig)->codec == PACKING_ZSTD) == (packing(rig)->databases[0].expected_permille == dictionary->ratio_permille));
    records = packing(rig)->records, saved = packing(rig)->saved_bytes;
    write_values(rig, "later", 500, profile);
    assert_true(packing(rig)->records - records == 500 && packing(rig)->saved_bytes - saved > 500 * 40);
    profile(rig, value);
    set(rig, "own:0", bytes_of_string(value));
    demote(rig, "own", 1);
    assert_non_null(strstr(tier_box_say(rig->client, "GET own:0"), value));
    assert_int_equal(tier_box_stats(&rig->box).dictionaries, 1);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
}

static void noise_gets_no_dictionary(void **state)
{
    struct rig *rig = *state;

    tier_settings(rig->box.tier)->dictionary_after = AFTER;
    for (int i = 0; i < 3; i++) {
        set_noise(rig, "noise", 1000);
        demote(rig, "noise", 1000);
    }
    await_training(rig);
    assert_int_equal(dictionaries_count(dictionaries(rig)), 0);
    assert_true(packing(rig)->databases[0].next_try_s > 0);
    set_noise(rig, "more", 1000);               /* not again, for an hour */
    demote(rig, "more", 1000);
    assert_false(rig->box.tier->training.is_begun);
}

static void other_values_get_another_dictionary(void **state)
{
    struct rig *rig = *state;
    char value[200];

    train(rig);
    write_values(rig, "event", 10000, event);
    assert_int_equal(dictionaries_count(dictionaries(rig)), 1);         /* not within the hour */
    packing(rig)->databases[0].next_try_s = 0;
    event(rig, value);
    set(rig, "first:0", bytes_of_string(value));
    demote(rig, "first", 1);
    for (int i = 0; i < 40 && dictionaries_count(dictionaries(rig)) == 1; i++) {
        write_values(rig, "event", 2000, event);
        await_training(rig);
    }
    assert_int_equal(dictionaries_count(dictionaries(rig)), 2);
    assert_true(packing(rig)->databases[0].dictionary->ratio_permille > 1500);
    assert_non_null(strstr(tier_box_say(rig->client, "GET first:0"), value));       /* by the first one */
    assert_non_null(strstr(tier_box_say(rig->client, "GET profile:2999"), "example.com"));
}

/* LZ4 makes less of values than zstd: that is no reason for another dictionary, and what it makes of them at first is what it is judged by. */
static void another_codec_is_judged_by_its_own_ratio(void **state)
{
    struct rig *rig = *state;

    train(rig);
    tier_settings(rig->box.tier)->compression = PACKING_LZ4;
    packing(rig)->databases[0].next_try_s = 0;
    write_values(rig, "profile", 100, profile);
    assert_int_equal(packing(rig)->databases[0].expected_permille, 0);
    for (int i = 0; i < 16; i++)
        write_values(rig, "profile", 2000, profile);
    await_training(rig);
    assert_int_equal(dictionaries_count(dictionaries(rig)), 1);
    assert_true(packing(rig)->databases[0].expected_permille > 1200);
    assert_true(packing(rig)->databases[0].expected_permille < packing(rig)->databases[0].dictionary->ratio_permille);
    for (int i = 0; i < 40 && dictionaries_count(dictionaries(rig)) == 1; i++) {
        write_values(rig, "event", 2000, event);
        await_training(rig);
    }
    assert_int_equal(dictionaries_count(dictionaries(rig)), 2);
    /* Back to zstd: what the file says. */
    tier_settings(rig->box.tier)->compression = PACKING_ZSTD;
    write_values(rig, "event", 100, event);
    assert_int_equal(packing(rig)->databases[0].expected_permille, packing(rig)->databases[0].dictionary->ratio_permille);
}

/* A dictionary is of one database: others have their own, and SWAPDB changes nothing for what was written. */
static void databases_have_their_own(void **state)
{
    struct rig *rig = *state;

    train(rig);
    assert_string_equal(tier_box_say(rig->client, "SWAPDB 0 1"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "SELECT 1"), "+OK\n");
    assert_non_null(strstr(tier_box_say(rig->client, "GET profile:2999"), "example.com"));
    assert_string_equal(tier_box_say(rig->client, "SELECT 0"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "FLUSHDB"), "+OK\n");
    assert_non_null(dictionaries_newest(dictionaries(rig), 0));
    assert_null(dictionaries_newest(dictionaries(rig), 1));
}

static void a_lost_dictionary_is_an_error_that_names_its_file(void **state)
{
    struct rig *rig = *state;
    struct tier_stats stats;
    char name[DICTIONARY_NAME_SIZE];

    train(rig);
    dictionary_name(dictionaries_newest(dictionaries(rig), 0)->number, name);
    write_values(rig, "later", 10, profile);
    /* As if the file had been damaged when the store was opened. */
    tier_box_hold_writer(&rig->box);
    ((struct dictionary *)(uintptr_t)dictionaries_newest(dictionaries(rig), 0))->database = 99;
    rig->box.tier->packing.databases[0].dictionary = NULL;
    {
        struct dictionary *damaged = (struct dictionary *)(uintptr_t)dictionaries_newest(dictionaries(rig), 99);
        struct compress_dictionary *of = damaged->of;

        damaged->of = NULL;
        tier_box_release_writer(&rig->box);
        assert_non_null(strstr(tier_box_say(rig->client, "GET later:3"), "-ERR"));
        stats = tier_box_stats(&rig->box);
        assert_non_null(strstr(stats.last_error, name));
        assert_int_equal(stats.damaged_records, 1);
        assert_string_equal(tier_box_say(rig->client, "DEL later:4"), ":1\n");
        damaged->of = of;
    }
    assert_non_null(strstr(tier_box_say(rig->client, "GET later:3"), "example.com"));
}

/* Dictionaries as if other databases had had them, until there are as many as may be. `uses_them`: dead records need them. */
static void fill_up(struct rig *rig, bool uses_them)
{
    tier_box_hold_writer(&rig->box);
    for (int db = 50; dictionaries_count(dictionaries(rig)) < DICTIONARIES_MAX; db++) {
        struct dictionary dictionary = { .database = db };
        struct message message;
        struct segments *segments = store_segments(rig->box.tier->store);

        assert_int_equal(dictionaries_add(dictionaries(rig), &dictionary, BYTES("some bytes"), &message), STATUS_OK);
        if (uses_them)
            segments_dead(segments, segments_put(segments, 0, UINT32_MAX, 0, BYTES("dead"), BYTES("x"), dictionary.number));
    }
    tier_box_release_writer(&rig->box);
}

static bool may_need(struct rig *rig, uint32_t number)
{
    bool may_need;

    tier_box_hold_writer(&rig->box);
    may_need = segments_may_need(store_segments(rig->box.tier->store), number);
    tier_box_release_writer(&rig->box);
    return may_need;
}

/* Until no bytes of any record are left. */
static void flush(struct rig *rig)
{
    struct segments *segments = store_segments(rig->box.tier->store);

    assert_string_equal(tier_box_say(rig->client, "FLUSHALL"), "+OK\n");
    tier_box_settle(&rig->box);
    tier_box_hold_writer(&rig->box);
    segments_seal(segments);
    assert_int_equal(segments_write(segments), STATUS_OK);
    assert_int_equal(segments_tidy(segments), STATUS_OK);
    assert_null(segments_next(segments, NULL));
    tier_box_release_writer(&rig->box);
}

static void write_in_another_database(struct rig *rig)
{
    assert_string_equal(tier_box_say(rig->client, "SELECT 1"), "+OK\n");
    for (int i = 0; i < 60 && dictionaries_newest(dictionaries(rig), 1) == NULL; i++) {
        write_values_in(rig, 1, "profile", 2000, profile);
        while (is_training(rig)) {
            set(rig, "poke:0", BYTES("x"));
            demote_in(rig, 1, "poke", 1);
        }
    }
    assert_non_null(dictionaries_newest(dictionaries(rig), 1));
}

static void dictionaries_that_nothing_needs_make_room(void **state)
{
    struct rig *rig = *state;

    fill_up(rig, false);
    train(rig);                                 /* ends with one: its own */
    assert_false(may_need(rig, dictionaries_newest(dictionaries(rig), 0)->number));
    write_values(rig, "later", 500, profile);
    assert_true(may_need(rig, dictionaries_newest(dictionaries(rig), 0)->number));
}

static void events_until(struct rig *rig, uint32_t other_than)
{
    packing(rig)->databases[0].next_try_s = 0;
    for (int i = 0; i < 60 && dictionaries_newest(dictionaries(rig), 0)->number == other_than; i++) {
        write_values(rig, "event", 2000, event);
        await_training(rig);
    }
    assert_int_not_equal(dictionaries_newest(dictionaries(rig), 0)->number, other_than);
}

static void one_that_records_need_is_not_removed(void **state)
{
    struct rig *rig = *state;
    uint32_t first, second;

    train(rig);
    first = dictionaries_newest(dictionaries(rig), 0)->number;
    write_values(rig, "later", 500, profile);
    fill_up(rig, false);
    events_until(rig, first);
    assert_int_equal(dictionaries_count(dictionaries(rig)), 2);
    assert_non_null(strstr(tier_box_say(rig->client, "GET later:499"), "example.com"));
    second = dictionaries_newest(dictionaries(rig), 0)->number;
    write_values(rig, "event", 500, event);
    /* Nothing has records of either: the one that is superseded goes. */
    assert_true(may_need(rig, first) && may_need(rig, second));
    flush(rig);
    assert_false(may_need(rig, first) || may_need(rig, second));
    fill_up(rig, true);
    write_in_another_database(rig);
    assert_null(dictionaries_find(dictionaries(rig), first));
    assert_ptr_equal(packing(rig)->databases[0].dictionary, dictionaries_find(dictionaries(rig), second));
    assert_int_equal(dictionaries_count(dictionaries(rig)), DICTIONARIES_MAX);
}

static void a_store_that_needs_all_of_them_gets_no_more(void **state)
{
    struct rig *rig = *state;

    fill_up(rig, true);
    tier_settings(rig->box.tier)->dictionary_after = AFTER;
    for (int i = 0; i < 3; i++)
        write_values(rig, "profile", 3000, profile);
    await_training(rig);
    assert_int_equal(dictionaries_count(dictionaries(rig)), DICTIONARIES_MAX);
    assert_null(dictionaries_newest(dictionaries(rig), 0));
    assert_true(packing(rig)->databases[0].next_try_s > 0);
    assert_false(rig->box.tier->training.is_begun);
    assert_non_null(strstr(tier_box_say(rig->client, "GET profile:77"), "example.com"));
}

/* Databases that have had values, and may never have any again. */
static void the_current_one_of_an_empty_database_makes_room(void **state)
{
    struct rig *rig = *state;
    uint32_t number;

    train(rig);
    number = dictionaries_newest(dictionaries(rig), 0)->number;
    write_values(rig, "later", 500, profile);
    flush(rig);
    fill_up(rig, true);
    write_in_another_database(rig);
    assert_null(dictionaries_find(dictionaries(rig), number));
    assert_null(packing(rig)->databases[0].dictionary);
    assert_string_equal(tier_box_say(rig->client, "SELECT 0"), "+OK\n");
    write_values(rig, "later", 500, profile);   /* without one */
    assert_non_null(strstr(tier_box_say(rig->client, "GET later:3"), "example.com"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cold_values_are_smaller_and_the_same, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(expiry_type_and_existence_are_known_without_unpacking, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(off_means_raw_and_what_is_packed_stays_readable, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(records_of_all_codecs_are_mixed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(noise_is_tried_now_and_then_only, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(while_memory_is_waited_for_nothing_is_packed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_batch_tells_whether_memory_is_waited_for, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_hold_is_shorter_when_values_are_packed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(big_values_are_packed_without_the_lock, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(packed_records_take_less_of_the_disk, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_dictionary_is_trained_and_used, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(noise_gets_no_dictionary, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(other_values_get_another_dictionary, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(another_codec_is_judged_by_its_own_ratio, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(databases_have_their_own, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_lost_dictionary_is_an_error_that_names_its_file, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(dictionaries_that_nothing_needs_make_room, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(one_that_records_need_is_not_removed, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_store_that_needs_all_of_them_gets_no_more, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_current_one_of_an_empty_database_makes_room, open_rig, close_rig),
        { "cold_values_are_smaller_and_the_same, lz4", cold_values_are_smaller_and_the_same, open_rig_lz4, close_rig, NULL },
        { "noise_is_tried_now_and_then_only, lz4", noise_is_tried_now_and_then_only, open_rig_lz4, close_rig, NULL },
        { "big_values_are_packed_without_the_lock, lz4", big_values_are_packed_without_the_lock, open_rig_lz4, close_rig, NULL },
        { "packed_records_take_less_of_the_disk, lz4", packed_records_take_less_of_the_disk, open_rig_lz4, close_rig, NULL },
        { "a_dictionary_is_trained_and_used, lz4", a_dictionary_is_trained_and_used, open_rig_lz4, close_rig, NULL },
        { "noise_gets_no_dictionary, lz4", noise_gets_no_dictionary, open_rig_lz4, close_rig, NULL },
        { "other_values_get_another_dictionary, lz4", other_values_get_another_dictionary, open_rig_lz4, close_rig, NULL },
        { "a_lost_dictionary_is_an_error_that_names_its_file, lz4", a_lost_dictionary_is_an_error_that_names_its_file, open_rig_lz4, close_rig, NULL },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
