#include "tier/recordmap_changes.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "store/segments.h"
#include "support/recordmaps.h"
#include "tier/recordmap.h"
#include "tier/recordmap_image.h"

enum { FEW_TAGS = 8, ROUNDS = 12 };

/* A map, and which records it has. */
struct model {
    struct recordmap *map;
    struct line {
        uint64_t tag, place;
        uint64_t key;
    } *lines;
    size_t count, room;
    unsigned tag_bits, place_bits;
    uint64_t key;
    struct random random;
};

static struct bytes key_of(uint64_t number, char text[24])
{
    return bytes_of(text, (size_t)snprintf(text, 24, "%.*s%llu", (int)(number % 8), "a prefix", (unsigned long long)number));
}

static uint64_t new_place(struct model *model)
{
    return 2 + random_below(&model->random, 1ull << model->place_bits);
}

static void add(struct model *model)
{
    char text[24];

    if (model->count == model->room) {
        model->room = model->room * 2 + 64;
        model->lines = mem_realloc(model->lines, model->room * sizeof(model->lines[0]));
    }
    /* A place is of one record only. */
    model->lines[model->count] = (struct line){ random_below(&model->random, 1ull << model->tag_bits), new_place(model) << 16 | model->count, model->key++ };
    recordmap_add(model->map, model->lines[model->count].tag, key_of(model->lines[model->count].key, text), model->lines[model->count].place);
    model->count++;
}

/* What the map says of the key, which may be a primary of another key by now, decides nothing: the place is the record's own. */
static void move(struct model *model, size_t index)
{
    struct line *line = &model->lines[index];
    uint64_t to = new_place(model) << 16 | (line->place & 0xffff);
    char text[24];

    recordmap_move(model->map, line->tag, key_of(line->key, text), line->place, to);
    line->place = to;
}

static void take_out(struct model *model, size_t index)
{
    struct line *line = &model->lines[index];
    char text[24];

    recordmap_remove(model->map, line->tag, key_of(line->key, text), line->place);
    *line = model->lines[--model->count];
}

/* `grows` percent are new, `shrinks` percent are removed, the others move. */
static void change(struct model *model, uint64_t changes, unsigned grows, unsigned shrinks)
{
    for (uint64_t i = 0; i < changes; i++) {
        unsigned what = (unsigned)random_below(&model->random, 100);

        if (what < grows || model->count == 0)
            add(model);
        else if (what < grows + shrinks)
            take_out(model, random_below(&model->random, model->count));
        else
            move(model, random_below(&model->random, model->count));
    }
}

static void write_base(struct recordmap *map, struct buffer *base)
{
    struct recordmap_image image = { .map = map };

    base->size = 0;
    recordmap_watch(map);
    while (recordmap_image_write(&image, base))
        ;
}

static void write_changes(struct recordmap *map, struct buffer *out)
{
    struct recordmap_changes changes = { .map = map };

    out->size = 0;
    while (recordmap_changes_write(&changes, out))
        ;
    assert_int_equal(out->size % 8, 0);
}

static struct recordmap *load(const struct buffer *base, const struct buffer *changes, bool watches)
{
    struct recordmap *map = recordmap_create(200, 0);

    assert_null(recordmap_image_load(buffer_bytes(base), map));
    assert_null(recordmap_changes_load(buffer_bytes(changes), map, UINT64_MAX, watches));
    return map;
}

/* Everything that is looked for is found: each record is removed from a copy. */
static void take_all_out(const struct model *model, struct recordmap *map)
{
    char text[24];

    for (size_t i = 0; i < model->count; i++)
        recordmap_remove(map, model->lines[i].tag, key_of(model->lines[i].key, text), model->lines[i].place);
    assert_int_equal(recordmap_count(map), 0);
}

/* Images in a row, with one base: each has all changes since. Then a server starts from it, and goes on. */
static void follow(struct model *model, uint64_t records, uint64_t changes, unsigned grows, unsigned shrinks)
{
    struct buffer base = { 0 }, text = { 0 };

    change(model, records, 100, 0);
    write_base(model->map, &base);
    for (int round = 0; round < ROUNDS; round++) {
        struct recordmap *loaded;

        change(model, round == 0 ? 0 : random_below(&model->random, changes), grows, shrinks);
        write_changes(model->map, &text);
        loaded = load(&base, &text, true);
        assert_true(maps_are_equal(model->map, loaded));
        assert_int_equal(recordmap_changed_count(model->map), recordmap_changed_count(loaded));
        if (round % 3 == 0) {
            recordmap_destroy(model->map);
            model->map = loaded;
        } else {
            take_all_out(model, loaded);
            recordmap_destroy(loaded);
        }
    }
    recordmap_destroy(model->map);
    mem_free(model->lines);
    buffer_release(&base);
    buffer_release(&text);
}

static void start(struct model *model, uint64_t seed, unsigned tag_bits, unsigned place_bits)
{
    *model = (struct model){ .map = recordmap_create((uint8_t)seed, 0), .tag_bits = tag_bits, .place_bits = place_bits };
    random_init(&model->random, seed);
}

static void base_and_changes_are_the_map(void **state)
{
    static const unsigned kinds[][2] = { { 0, 0 }, { 5, 5 }, { 60, 10 }, { 10, 60 }, { 0, 95 } };
    struct model model;

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        start(&model, kind + 1, RECORDMAP_TAG_BITS, 12);
        follow(&model, 20000, 6000, kinds[kind][0], kinds[kind][1]);
        start(&model, kind + 10, RECORDMAP_TAG_BITS, 25);
        follow(&model, 50, 60, kinds[kind][0], kinds[kind][1]);
        start(&model, kind + 20, FEW_TAGS, 12);
        follow(&model, 1500, 400, kinds[kind][0], kinds[kind][1]);
    }
}

static void places_that_need_more_bits_are_loaded(void **state)
{
    struct buffer base = { 0 }, text = { 0 };
    struct recordmap *loaded;
    struct model model;

    start(&model, 5, RECORDMAP_TAG_BITS, 4);
    change(&model, 3000, 100, 0);
    write_base(model.map, &base);
    model.place_bits = 30;
    change(&model, 40, 0, 0);
    write_changes(model.map, &text);
    loaded = load(&base, &text, false);
    assert_true(maps_are_equal(model.map, loaded));
    take_all_out(&model, loaded);
    recordmap_destroy(loaded);
    recordmap_destroy(model.map);
    mem_free(model.lines);
    buffer_release(&base);
    buffer_release(&text);
}

static void only_what_changed_is_written(void **state)
{
    struct buffer base = { 0 }, text = { 0 };
    struct model model;

    start(&model, 6, RECORDMAP_TAG_BITS, 20);
    change(&model, 100000, 100, 0);
    write_base(model.map, &base);
    write_changes(model.map, &text);
    assert_in_range(text.size, 1, 24);
    change(&model, 1000, 0, 0);
    assert_in_range(recordmap_changed_count(model.map), 950, 1000);
    write_changes(model.map, &text);
    assert_in_range(text.size, 8000, 18000);
    recordmap_watch(model.map);
    assert_int_equal(recordmap_changed_count(model.map), 0);
    recordmap_destroy(model.map);
    mem_free(model.lines);
    buffer_release(&base);
    buffer_release(&text);
}

static void any_change_of_the_bytes_is_found_or_does_no_harm(void **state)
{
    struct buffer base = { 0 }, text = { 0 };
    struct model model;
    int refused = 0;

    start(&model, 7, FEW_TAGS + 4, 12);
    change(&model, 3000, 100, 0);
    write_base(model.map, &base);
    change(&model, 500, 20, 20);
    write_changes(model.map, &text);
    for (int round = 0; round < 6000; round++) {
        struct recordmap *loaded = recordmap_create(0, 0);
        size_t at = random_below(&model.random, round % 4 == 0 ? 16 : text.size), size = text.size;
        char *copy = mem_alloc(text.size);
        struct recordmap_record record;
        struct recordmap_walk walk;

        memcpy(copy, text.data, text.size);
        copy[at] = (char)(round % 2 == 0 ? random_next(&model.random) : (uint64_t)copy[at] ^ 1ull << random_below(&model.random, 8));
        if (random_below(&model.random, 10) == 0)
            copy = mem_realloc(copy, size = 1 + random_below(&model.random, size));
        assert_null(recordmap_image_load(buffer_bytes(&base), loaded));
        if (recordmap_changes_load(bytes_of(copy, size), loaded, recordmap_count(model.map), round % 3 == 0) == NULL) {
            recordmap_walk_begin(&walk, loaded, 0);
            while (recordmap_walk_next(&walk, &record))
                ;
        } else {
            refused++;
        }
        mem_free(copy);
        recordmap_destroy(loaded);
    }
    assert_in_range(refused, 1500, 5999);
    recordmap_destroy(model.map);
    mem_free(model.lines);
    buffer_release(&base);
    buffer_release(&text);
}

static const char *load_changes(const struct buffer *base, struct bytes changes, uint64_t count_max)
{
    struct recordmap *map = recordmap_create(0, 0);
    const char *problem;

    assert_null(recordmap_image_load(buffer_bytes(base), map));
    problem = recordmap_changes_load(changes, map, count_max, true);
    recordmap_destroy(map);
    return problem;
}

/* Made on purpose: small bytes that would need much memory, and what no map that is saved can have. */
static void what_no_server_writes_is_refused(void **state)
{
    enum { COUNT = 100000, RANGES_AT = 8, PLACES_AT = 12 };
    struct buffer base = { 0 }, text = { 0 };
    struct model model;
    uint32_t bits;

    (void)state;
    start(&model, 7, FEW_TAGS + 4, 12);
    change(&model, 3000, 100, 0);
    write_base(model.map, &base);
    write_changes(model.map, &text);
    assert_null(load_changes(&base, buffer_bytes(&text), recordmap_count(model.map)));
    memcpy(&bits, text.data + RANGES_AT, sizeof(bits));
    for (uint32_t wrong = 0; wrong < 40; wrong++) {
        memcpy(text.data + RANGES_AT, &wrong, sizeof(wrong));
        assert_true((load_changes(&base, buffer_bytes(&text), UINT64_MAX) == NULL) == (wrong == bits));
    }
    /* One range with very many records of one byte each. */
    text.size = 0;
    buffer_append(&text, &(uint64_t){ 1 }, 8);
    buffer_append(&text, &bits, 4);
    buffer_append(&text, &(uint32_t){ 0 }, 4);
    buffer_append_u8(&text, 1);
    buffer_append_u8(&text, 1);
    for (int i = 0; i < COUNT; i++)
        buffer_append_u8(&text, 3);
    buffer_append_u8(&text, 0);
    assert_non_null(load_changes(&base, buffer_bytes(&text), recordmap_count(model.map)));
    /* A record that is nowhere. */
    text.size = PLACES_AT;
    memcpy(text.data, &(uint64_t){ 1 }, 8);
    buffer_append(&text, &(uint32_t){ 1 }, 4);
    buffer_append_u8(&text, 1);
    buffer_append_u8(&text, 1);
    buffer_append_u8(&text, PLACE_NOWHERE + 1);
    buffer_append_u8(&text, 0);
    assert_null(load_changes(&base, buffer_bytes(&text), UINT64_MAX));
    text.data[text.size - 2] = PLACE_NOWHERE;
    assert_non_null(load_changes(&base, buffer_bytes(&text), UINT64_MAX));
    recordmap_destroy(model.map);
    mem_free(model.lines);
    buffer_release(&base);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_and_changes_are_the_map),
        cmocka_unit_test(places_that_need_more_bits_are_loaded),
        cmocka_unit_test(only_what_changed_is_written),
        cmocka_unit_test(any_change_of_the_bytes_is_found_or_does_no_harm),
        cmocka_unit_test(what_no_server_writes_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
