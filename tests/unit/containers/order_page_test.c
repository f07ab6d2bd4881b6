#include "containers/order_page.h"

#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/scaled.h"

enum { ELEMENTS = 60, LARGE = 40000 };

struct element {
    double score;
    uint32_t member;
};

/* The page is in a block of exactly its size. */
struct model {
    char *page;
    size_t size;
    struct element elements[ELEMENTS];
    uint32_t count;
    struct random random;
};

static char *large;             /* what members are made of */

/* Different ones; some are empty or large, and some begin with another one. */
static struct bytes member_of(uint32_t member, char room[32])
{
    if (member % 50 == 7)
        return bytes_of(large + member, LARGE - member);
    return bytes_of(room, member == 0 ? 0 : (size_t)snprintf(room, 32, "%.*s%u", (int)(member % 12), "member-of-a-set", (unsigned)member));
}

static int compare(const struct element *a, const struct element *b)
{
    char room[32], other[32];

    if (a->score != b->score)
        return a->score < b->score ? -1 : 1;
    return bytes_compare(member_of(a->member, room), member_of(b->member, other));
}

static struct bytes page_of(const struct model *model)
{
    return bytes_of(model->page, model->size);
}

static void verify(const struct model *model)
{
    struct bytes page = page_of(model);
    char room[32];

    assert_true(order_page_is_sound(page));
    assert_int_equal(order_page_count(page), model->count);
    for (uint32_t i = 0; i < model->count; i++) {
        struct order_element element = order_page_at(page, i);
        struct bytes member = member_of(model->elements[i].member, room);
        bool is_there;

        assert_true(element.score == model->elements[i].score && bytes_equal(element.member, member));
        assert_int_equal(order_page_place(page, element.score, member, &is_there), i);
        assert_true(is_there);
    }
}

static void look(struct model *model)
{
    static const double scores[] = { -INFINITY, -3, -0.0, 0, 1, 2, 3, 2.5, INFINITY };
    struct element wanted = { scores[random_below(&model->random, 9)], (uint32_t)random_below(&model->random, 200) };
    uint32_t below = 0, under = 0, not_over = 0, place;
    bool is_there, should_be = false;
    char room[32];

    for (uint32_t i = 0; i < model->count; i++) {
        int order = compare(&model->elements[i], &wanted);

        below += order < 0;
        should_be |= order == 0;
        under += model->elements[i].score < wanted.score;
        not_over += model->elements[i].score <= wanted.score;
    }
    place = order_page_place(page_of(model), wanted.score, member_of(wanted.member, room), &is_there);
    assert_true(place == below && is_there == should_be);
    assert_int_equal(order_page_count_by_score(page_of(model), wanted.score, ORDER_BELOW), under);
    assert_int_equal(order_page_count_by_score(page_of(model), wanted.score, ORDER_NOT_ABOVE), not_over);
}

static void write_page(struct model *model, const struct order_part *parts, size_t count)
{
    uint32_t elements;
    size_t size = order_page_size(parts, count, &elements);
    char *page = mem_alloc(size);

    assert_int_equal(elements, model->count);
    order_page_write(parts, count, page);
    mem_free(model->page);
    model->page = page;
    model->size = size;
}

static void add(struct model *model)
{
    struct element added = { (double)random_below(&model->random, 4), (uint32_t)random_below(&model->random, 200) };
    struct order_part parts[3];
    uint32_t at = 0;
    char room[32];

    while (at < model->count && compare(&model->elements[at], &added) < 0)
        at++;
    if (at < model->count && compare(&model->elements[at], &added) == 0)
        return;
    parts[0] = order_part_of(page_of(model), 0, at);
    parts[1] = order_part_single(added.score, member_of(added.member, room));
    parts[2] = order_part_of(page_of(model), at, model->count);
    memmove(model->elements + at + 1, model->elements + at, (model->count - at) * sizeof(added));
    model->elements[at] = added;
    model->count++;
    write_page(model, parts, 3);
}

static void take_out(struct model *model)
{
    uint32_t from = (uint32_t)random_below(&model->random, model->count), some = (uint32_t)random_below(&model->random, 3);
    uint32_t to = from + some < model->count ? from + some : model->count;
    struct order_part parts[2] = { order_part_of(page_of(model), 0, from), order_part_of(page_of(model), to, model->count) };

    if (to - from == model->count)
        return;
    memmove(model->elements + from, model->elements + to, (model->count - to) * sizeof(model->elements[0]));
    model->count -= to - from;
    write_page(model, parts, 2);
}

/* Both halves together are what it was, and neither is much larger than the other, unless an element is. */
static void halve(const struct model *model)
{
    struct order_part whole = order_part_of(page_of(model), 0, model->count), halves[2];
    uint32_t middle;

    if (model->count < 2)
        return;
    middle = order_page_middle(&whole, 1);
    assert_in_range(middle, 1, model->count - 1);
    halves[0] = order_part_of(page_of(model), 0, middle);
    halves[1] = order_part_of(page_of(model), middle, model->count);
    assert_int_equal(order_page_size(halves, 2, NULL), model->size);
    if (model->size < LARGE / 2) {
        assert_in_range(order_page_size(&halves[0], 1, NULL), 0, model->size / 2 + 70);
        assert_in_range(order_page_size(&halves[1], 1, NULL), 0, model->size / 2 + 70);
    }
}

static int make_large(void **state)
{
    (void)state;
    large = mem_alloc(LARGE);
    memset(large, 'l', LARGE);
    return 0;
}

static int free_large(void **state)
{
    (void)state;
    mem_free(large);
    return 0;
}

static void random_work_agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        struct model model = { 0 };
        struct order_part first = order_part_single(1, BYTES(""));

        random_init(&model.random, seed);
        model.elements[0] = (struct element){ 1, 0 };
        model.count = 1;
        write_page(&model, &first, 1);
        for (int i = 0; i < 1000; i++) {
            bool grows = random_below(&model.random, 100) < (i / 200 % 2 == 0 ? 65 : 35);

            if (grows && model.count < ELEMENTS)
                add(&model);
            else
                take_out(&model);
            look(&model);
            halve(&model);
            if (i % 10 == 0)
                verify(&model);
        }
        verify(&model);
        mem_free(model.page);
    }
}

static void damaged_pages_are_refused(void **state)
{
    uint32_t refused = 0;
    struct random random;

    (void)state;
    random_init(&random, 4);
    for (int round = 0; round < scaled(20000); round++) {
        struct order_part parts[20];
        uint32_t count = 1 + (uint32_t)random_below(&random, 20);
        char rooms[20][32], *page, *cut;
        size_t size, kept;

        for (uint32_t i = 0; i < count; i++)
            parts[i] = order_part_single((double)i, bytes_of(rooms[i], (size_t)snprintf(rooms[i], 32, "%u", (unsigned)random_below(&random, 100000))));
        size = order_page_size(parts, count, NULL);
        page = mem_alloc(size);
        order_page_write(parts, count, page);
        assert_true(order_page_is_sound(bytes_of(page, size)));
        kept = random_below(&random, 3) == 0 ? random_below(&random, size) : size;
        cut = mem_alloc(kept > 0 ? kept : 1);
        memcpy(cut, page, kept);
        for (uint64_t changes = 1 + random_below(&random, 3); kept > 0 && changes > 0; changes--)
            cut[random_below(&random, 2) ? kept - 1 - random_below(&random, kept < 4 ? kept : 4) : random_below(&random, kept)] = (char)random_next(&random);
        if (order_page_is_sound(bytes_of(cut, kept))) {
            for (uint32_t i = 0; i < order_page_count(bytes_of(cut, kept)); i++)
                (void)order_page_at(bytes_of(cut, kept), i);
        } else {
            refused++;
        }
        mem_free(cut);
        mem_free(page);
    }
    assert_true(refused > 1000);
    assert_false(order_page_is_sound(bytes_of("\0\0\0\0", 4)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_an_array),
        cmocka_unit_test(damaged_pages_are_refused),
    };

    return cmocka_run_group_tests(tests, make_large, free_large);
}
