#include "tier/recordmap.h"

#include "support/unit.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/scaled.h"

static const uint64_t tag_mask = (1ull << RECORDMAP_TAG_BITS) - 1;

/* --- a reference: a plain array of all records, by tag; equal tags in the order in which they were added --- */

struct line {
    uint64_t tag, key, place;
};

struct model {
    struct recordmap *map;
    struct line *lines;
    size_t count, room;
    struct random random;
    unsigned spread;            /* this many bits of a tag are random, from the lowest on; the others are those of `base` */
    uint64_t base;
    uint64_t places;            /* places are below it */
    unsigned tag_shift;
};

static void model_init(struct model *model, uint64_t seed, unsigned spread)
{
    *model = (struct model){ .spread = spread, .places = 4, .tag_shift = (unsigned)(seed * 6 % (RECORDMAP_TAG_SHIFT_MAX + 1)) };
    model->map = recordmap_create((uint8_t)(seed * 50), model->tag_shift);
    random_init(&model->random, seed);
    model->base = random_next(&model->random) & tag_mask;
}

static void model_release(struct model *model)
{
    mem_free(model->lines);
    recordmap_destroy(model->map);
}

/* A hash with this tag; what is above and below the tag is noise. */
static uint64_t hash_with(struct model *model, uint64_t tag)
{
    return (random_next(&model->random) & ~(tag_mask << model->tag_shift)) | tag << model->tag_shift;
}

static uint64_t tag_of_key(const struct model *model, uint64_t key)
{
    uint64_t mixed = (key + 1) * 0x9e3779b97f4a7c15ull;

    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull;
    return ((model->base >> model->spread << model->spread) | (mixed >> 20 & ((1ull << model->spread) - 1))) & tag_mask;
}

/* Some are empty, some long. */
static struct bytes key_bytes(uint64_t key, char text[40])
{
    return bytes_of(text, key == 0 ? 0 : (size_t)snprintf(text, 40, "%.*s%" PRIu64, (int)(key % 17), "a rather long key", key));
}

static size_t model_first(const struct model *model, uint64_t tag)
{
    size_t from = 0, end = model->count;

    while (from < end) {
        size_t middle = from + (end - from) / 2;

        if (model->lines[middle].tag < tag)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

/* The newest line of a key, with a place if it isn't UINT64_MAX; model->count if there is none. */
static size_t model_find(const struct model *model, uint64_t key, uint64_t place)
{
    uint64_t tag = tag_of_key(model, key);
    size_t found = model->count;

    for (size_t i = model_first(model, tag); i < model->count && model->lines[i].tag == tag; i++)
        if (model->lines[i].key == key && (place == UINT64_MAX || model->lines[i].place == place))
            found = i;
    return found;
}

static uint64_t draw_place(struct model *model)
{
    return random_below(&model->random, 10) == 0 ? 0 : random_below(&model->random, model->places);
}

static void model_add(struct model *model, uint64_t key, uint64_t place)
{
    uint64_t tag = tag_of_key(model, key);
    size_t index = model_first(model, tag + 1);
    char text[40];

    recordmap_add(model->map, hash_with(model, tag), key_bytes(key, text), place);
    if (model->count == model->room) {
        model->room = model->room * 2 + 64;
        model->lines = mem_realloc(model->lines, model->room * sizeof(model->lines[0]));
    }
    memmove(model->lines + index + 1, model->lines + index, (model->count - index) * sizeof(model->lines[0]));
    model->lines[index] = (struct line){ tag, key, place };
    model->count++;
}

static void model_remove(struct model *model, size_t index)
{
    struct line line = model->lines[index];
    char text[40];

    index = model_find(model, line.key, line.place);
    recordmap_remove(model->map, hash_with(model, line.tag), key_bytes(line.key, text), line.place);
    model->count--;
    memmove(model->lines + index, model->lines + index + 1, (model->count - index) * sizeof(model->lines[0]));
}

static void model_move(struct model *model, size_t index, uint64_t to)
{
    struct line line = model->lines[index];
    char text[40];

    recordmap_move(model->map, hash_with(model, line.tag), key_bytes(line.key, text), line.place, to);
    model->lines[model_find(model, line.key, line.place)].place = to;
}

/* What the map has to return for a key, whether it has records or not. */
static void verify_key(struct model *model, uint64_t key)
{
    uint64_t tag = tag_of_key(model, key), hash = hash_with(model, tag), place = 0;
    size_t newest = model_find(model, key, UINT64_MAX), first = model_first(model, tag);
    bool is_there = first < model->count && model->lines[first].tag == tag;
    char text[40];

    recordmap_prefetch(model->map, hash);
    assert_int_equal(recordmap_maybe(model->map, hash), is_there);
    assert_int_equal(recordmap_find(model->map, hash, key_bytes(key, text), &place), is_there);
    if (newest < model->count)
        assert_true(place == model->lines[newest].place);
    else if (is_there)
        assert_true(place == model->lines[first].place);        /* another key's */
    assert_false(recordmap_has_place(model->map, hash, model->places));
    for (size_t i = first; i < model->count && model->lines[i].tag == tag; i++)
        assert_true(recordmap_has_place(model->map, hash, model->lines[i].place));
}

static void verify_walk(const struct model *model, uint64_t from)
{
    struct recordmap_walk walk;
    struct recordmap_record record;
    char text[40];

    recordmap_walk_begin(&walk, model->map, from);
    for (size_t i = model_first(model, from); i < model->count; i++) {
        const struct line *line = &model->lines[i];

        assert_true(recordmap_walk_next(&walk, &record));
        assert_true(record.tag == line->tag && record.place == line->place);
        assert_int_equal(record.is_twin, i > 0 && line[-1].tag == line->tag);
        assert_true(record.is_twin ? bytes_equal(record.key, key_bytes(line->key, text)) && record.key.data != NULL : record.key.data == NULL);
    }
    assert_false(recordmap_walk_next(&walk, &record));
    assert_false(recordmap_walk_next(&walk, &record));
}

static void verify(struct model *model)
{
    uint64_t twins = 0;

    for (size_t i = 0; i < model->count; i++) {
        verify_key(model, model->lines[i].key);
        twins += i > 0 && model->lines[i].tag == model->lines[i - 1].tag;
        assert_true(model->lines[i].place >> recordmap_place_bits(model->map) == 0);
    }
    assert_int_equal(recordmap_count(model->map), model->count);
    assert_int_equal(recordmap_twin_count(model->map), twins);
    verify_walk(model, 0);
    verify_walk(model, random_next(&model->random) & tag_mask);
    if (model->count > 0)
        verify_walk(model, model->lines[random_below(&model->random, model->count)].tag);
}

/* One step of growth or shrinking, `grow` in 100 of growth. */
static void model_step(struct model *model, uint64_t keys, uint64_t grow)
{
    uint64_t kind = random_below(&model->random, 100);

    if (random_below(&model->random, 300) == 0 && model->places < 1ull << RECORDMAP_PLACE_BITS)
        model->places *= 2;
    if (kind < grow || model->count == 0)
        model_add(model, random_below(&model->random, keys), draw_place(model));
    else if (kind < grow + 10)
        model_move(model, random_below(&model->random, model->count), draw_place(model));
    else
        model_remove(model, random_below(&model->random, model->count));
    verify_key(model, random_below(&model->random, keys));
}

/* --- tests --- */

static void random_work_agrees_with_a_plain_array(void **state)
{
    static const unsigned spreads[] = { RECORDMAP_TAG_BITS, 13, 20, 10, RECORDMAP_TAG_BITS, 12, 3, 15 };

    for (uint64_t seed = 1; seed <= (uint64_t)scaled(8); seed++) {
        struct model model;

        print_message("seed %" PRIu64 "\n", seed);
        model_init(&model, seed, spreads[seed - 1]);
        for (int step = 0; step < 24000; step++) {
            model_step(&model, 1 << 14, step / 6000 % 2 == 0 ? 75 : 20);    /* up, down, up, down: both ways over every boundary */
            if (step % 1500 == 0)
                verify(&model);
        }
        while (model.count > 0)
            model_remove(&model, random_below(&model.random, model.count));
        verify(&model);
        assert_true(recordmap_size(model.map) < 150);
        model_release(&model);
    }
}

static void nothing_is_lost_at_any_step_of_growth_and_shrinking(void **state)
{
    struct model model;
    uint64_t runs = 0;

    model_init(&model, 0, RECORDMAP_TAG_BITS);
    model.places = 1 << 30;
    /* With stagger 0 a run is split or joined at multiples of the same number: the adds and removes around each of these steps. */
    for (uint64_t key = 0; key < 3000; key++) {
        model_add(&model, key, draw_place(&model));
        if (key % 96 <= 1 || key < 40)
            verify(&model);
    }
    for (; model.count > 0; runs++) {
        model_remove(&model, random_below(&model.random, model.count));
        if (model.count % 48 <= 1 || model.count < 40)
            verify(&model);
    }
    assert_int_equal(runs, 3000);
    model_release(&model);
}

static void an_empty_map_returns_no_and_holds_almost_no_memory(void **state)
{
    struct recordmap *map = recordmap_create(17, 0);
    struct random random;
    uint64_t place;

    random_init(&random, 5);
    assert_true(recordmap_size(map) < 150);
    assert_int_equal(recordmap_count(map), 0);
    assert_int_equal(recordmap_place_bits(map), 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t hash = random_next(&random);

        recordmap_prefetch(map, hash);
        assert_false(recordmap_maybe(map, hash));
        assert_false(recordmap_find(map, hash, BYTES("k"), &place));
        assert_false(recordmap_has_place(map, hash, 0));
    }
    recordmap_add(map, 0, BYTES("k"), 0);
    assert_true(recordmap_find(map, 0, BYTES("k"), &place) && place == 0);
    recordmap_remove(map, 0, BYTES("k"), 0);
    assert_false(recordmap_maybe(map, 0));
    assert_true(recordmap_size(map) < 150);
    recordmap_destroy(map);
    recordmap_destroy(NULL);
}

static uint64_t place_of(const struct recordmap *map, uint64_t hash, const char *key)
{
    uint64_t place = 0;

    assert_true(recordmap_find(map, hash, bytes_of_string(key), &place));
    return place;
}

static void keys_with_one_tag_keep_their_own_places(void **state)
{
    struct recordmap *map = recordmap_create(0, 0);
    uint64_t other = 1ull << RECORDMAP_TAG_BITS;        /* another key's hash with the same tag */

    recordmap_add(map, 42, BYTES("a"), 100);
    recordmap_add(map, 42 | other, BYTES("b"), 0);
    recordmap_add(map, 42, BYTES("c"), 300);
    assert_int_equal(place_of(map, 42, "a"), 100);
    assert_int_equal(place_of(map, 42 | other, "b"), 0);
    assert_int_equal(place_of(map, 42, "c"), 300);
    assert_int_equal(place_of(map, 42, "of no key"), 100);
    recordmap_move(map, 42 | other, BYTES("b"), 0, 1ull << 43);
    assert_true(place_of(map, 42 | other, "b") == 1ull << 43);
    recordmap_remove(map, 42, BYTES("a"), 100);
    assert_true(place_of(map, 42 | other, "b") == 1ull << 43);
    assert_int_equal(place_of(map, 42, "c"), 300);
    assert_false(recordmap_has_place(map, 42, 100));
    recordmap_remove(map, 42, BYTES("c"), 300);
    recordmap_remove(map, 42 | other, BYTES("b"), 1ull << 43);
    assert_false(recordmap_maybe(map, 42));
    recordmap_destroy(map);
}

/* An overwritten key: the new record is added, then the old one removed. It must not stay a twin for ever. */
static void the_newer_of_two_records_of_a_key_is_found(void **state)
{
    struct recordmap *map = recordmap_create(0, 0);

    recordmap_add(map, 7, BYTES("k"), 10);
    for (uint64_t place = 11; place < 100; place++) {
        recordmap_add(map, 7, BYTES("k"), place);
        assert_int_equal(place_of(map, 7, "k"), place);
        assert_int_equal(recordmap_twin_count(map), 1);
        recordmap_remove(map, 7, BYTES("k"), place - 1);
        assert_int_equal(place_of(map, 7, "k"), place);
        assert_int_equal(recordmap_twin_count(map), 0);
    }
    /* Two newer ones at once, and another key between. */
    recordmap_add(map, 7, BYTES("k"), 200);
    recordmap_add(map, 7, BYTES("other"), 250);
    recordmap_add(map, 7, BYTES("k"), 300);
    recordmap_remove(map, 7, BYTES("k"), 99);
    assert_int_equal(place_of(map, 7, "k"), 300);
    recordmap_remove(map, 7, BYTES("k"), 200);
    assert_int_equal(place_of(map, 7, "k"), 300);
    assert_int_equal(place_of(map, 7, "other"), 250);
    recordmap_destroy(map);
}

static void memory_a_record_stays_within_its_bounds(void **state)
{
    static const struct { uint64_t places; double few, many; } bounds[] = { { 1, 3.8, 3.3 }, { 1ull << 33, 8.6, 7.9 }, { 1ull << 40, 9.7, 8.9 } };

    for (size_t s = 0; s < 9; s++) {
        struct recordmap *map = recordmap_create((uint8_t)(s % 3 * 127), 0);
        struct random random;

        random_init(&random, s);
        for (uint64_t count = 1; count <= 200000; count++) {
            recordmap_add(map, random_next(&random), BYTES("k"), random_below(&random, bounds[s / 3].places));
            if (count == 100)
                assert_true(recordmap_size(map) < 1600);
            if (count == 1000)
                assert_true(recordmap_size(map) < 14000);
            if (count >= 10000 && count % 500 == 0)
                assert_true((double)recordmap_size(map) / (double)count < (count < 40000 ? bounds[s / 3].few : bounds[s / 3].many));
        }
        recordmap_destroy(map);
    }
}

static void memory_comes_back_after_mass_removal(void **state)
{
    struct recordmap *map = recordmap_create(200, 0);
    struct random adds, removes;
    uint64_t left = 100000;

    random_init(&adds, 8);
    removes = adds;
    for (uint64_t i = 0; i < left; i++)
        recordmap_add(map, random_next(&adds), BYTES("k"), 1ull << 32 | i);
    for (uint64_t i = 0; left > 0; left--, i++) {
        if (left % 1000 == 0)
            assert_true(recordmap_size(map) < 10 * left + 20000);
        recordmap_remove(map, random_next(&removes), BYTES("k"), 1ull << 32 | i);
    }
    assert_true(recordmap_size(map) < 150);
    recordmap_destroy(map);
}

static void false_maybes_are_rare(void **state)
{
    struct recordmap *map = recordmap_create(3, 0);
    struct random random;
    int wrong = 0;

    random_init(&random, 77);
    for (int i = 0; i < 156250; i++)
        recordmap_add(map, random_next(&random), BYTES("k"), 5);
    for (int i = 0; i < 2000000; i++)
        wrong += recordmap_maybe(map, random_next(&random));
    assert_in_range(wrong, 1, 36);      /* 18 are due */
    recordmap_destroy(map);
}

/* Every record is met exactly once although the map grows and shrinks between the parts. */
static void a_walk_in_parts_meets_what_stays(void **state)
{
    struct model model;
    struct random adds;
    uint64_t from = 0, met = 0;

    model_init(&model, 3, 12);                  /* with many twins */
    random_init(&adds, 11);
    model.base = 0;
    for (uint64_t key = 0; key < 6000; key++)
        model_add(&model, key, 1000 + key);
    for (uint64_t part = 0; from != UINT64_MAX; part++) {
        struct recordmap_walk walk;
        struct recordmap_record record;
        uint64_t last = UINT64_MAX;

        recordmap_walk_begin(&walk, model.map, from);
        from = UINT64_MAX;
        for (int i = 0; recordmap_walk_next(&walk, &record); i++) {
            if (i > 50 && record.tag != last) {
                from = record.tag;
                break;
            }
            last = record.tag;
            met += record.place >= 1000 && record.place < 7000;
        }
        for (uint64_t key = 0; key < 2000; key++) {
            if (part % 2 == 0)
                recordmap_add(model.map, 1ull << 33 | key * 4000000, BYTES("more"), 1);
            else
                recordmap_remove(model.map, 1ull << 33 | key * 4000000, BYTES("more"), 1);
        }
    }
    assert_int_equal(met, 6000);
    model_release(&model);
}

static void keys_of_one_run_stay_correct_and_bounded(void **state)
{
    struct model model;

    model_init(&model, 31, 12);                 /* the first 22 bits are the same */
    model.places = 1 << 20;
    for (uint64_t key = 0; key < 3000; key++) {
        model_add(&model, key, draw_place(&model));
        assert_true(recordmap_size(model.map) < 6 * recordmap_count(model.map) + 80 * recordmap_twin_count(model.map) + 1520);
    }
    verify(&model);
    assert_false(recordmap_maybe(model.map, (model.lines[0].tag ^ 1ull << 33) << model.tag_shift));
    while (model.count > 300)
        model_remove(&model, random_below(&model.random, model.count));
    verify(&model);
    model_release(&model);
}

/* In a child, as the CHECK ends the process. */
enum mistake { NONE, REMOVE_FROM_EMPTY, REMOVE_OTHER_TAG, REMOVE_OTHER_PLACE, MOVE_OTHER_PLACE, ADD_TOO_FAR, MOVE_TOO_FAR };

static void make_mistake(enum mistake mistake)
{
    struct recordmap *map = recordmap_create(0, 0), *other = recordmap_create(0, 0);

    recordmap_add(map, 5, BYTES("k"), 9);
    switch (mistake) {
    case NONE: recordmap_move(map, 5, BYTES("k"), 9, 10); recordmap_remove(map, 5, BYTES("k"), 10); break;
    case REMOVE_FROM_EMPTY: recordmap_remove(other, 5, BYTES("k"), 9); break;
    case REMOVE_OTHER_TAG: recordmap_remove(map, 4, BYTES("k"), 9); break;
    case REMOVE_OTHER_PLACE: recordmap_remove(map, 5, BYTES("k"), 8); break;
    case MOVE_OTHER_PLACE: recordmap_move(map, 5, BYTES("k"), 8, 10); break;
    case ADD_TOO_FAR: recordmap_add(map, 6, BYTES("k"), 1ull << RECORDMAP_PLACE_BITS); break;
    case MOVE_TOO_FAR: recordmap_move(map, 5, BYTES("k"), 9, 1ull << RECORDMAP_PLACE_BITS); break;
    }
}

static int signal_of(enum mistake mistake)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        make_mistake(mistake);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_mistake_of_the_caller_stops_the_process(void **state)
{
    assert_int_equal(signal_of(NONE), 0);
    for (enum mistake mistake = REMOVE_FROM_EMPTY; mistake <= MOVE_TOO_FAR; mistake++)
        assert_int_equal(signal_of(mistake), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_a_plain_array),
        cmocka_unit_test(nothing_is_lost_at_any_step_of_growth_and_shrinking),
        cmocka_unit_test(an_empty_map_returns_no_and_holds_almost_no_memory),
        cmocka_unit_test(keys_with_one_tag_keep_their_own_places),
        cmocka_unit_test(the_newer_of_two_records_of_a_key_is_found),
        cmocka_unit_test(memory_a_record_stays_within_its_bounds),
        cmocka_unit_test(memory_comes_back_after_mass_removal),
        cmocka_unit_test(false_maybes_are_rare),
        cmocka_unit_test(a_walk_in_parts_meets_what_stays),
        cmocka_unit_test(keys_of_one_run_stay_correct_and_bounded),
        cmocka_unit_test(a_mistake_of_the_caller_stops_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
