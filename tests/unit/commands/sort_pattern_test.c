#include "support/unit.h"

#include "base/arena.h"
#include "call/call.h"
#include "commands/sort_pattern.h"

/* Pattern, the key for the element "x", the field; NULL: none. As redis-server 7.0.15 reads them. */
static const char *const patterns[][3] = {
    { "w_*", "w_x", NULL }, { "*", "x", NULL }, { "*_w", "x_w", NULL }, { "a*b*c", "axb*c", NULL },
    { "h_*->f", "h_x", "f" }, { "h*_1->field name", "hx_1", "field name" }, { "h_*->a->b", "h_x", "a->b" },
    { "h_*->", "h_x->", NULL }, { "->*", "->x", NULL }, { "a->b*", "a->bx", NULL }, { "a->*->b", "a->x", "b" }, { "*->*", "x", "*" },
    { "nostar", NULL, NULL }, { "#", NULL, NULL }, { "", NULL, NULL }, { "h->f", NULL, NULL }, { "#*", "#x", NULL },
};

static void patterns_are_read_as_redis_does(void **state)
{
    struct arena arena;
    struct call call = { .arena = &arena };

    arena_init(&arena);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct sort_pattern pattern = sort_pattern_of(bytes_of_string(patterns[i][0]));

        assert_int_equal(pattern.has_star, patterns[i][1] != NULL);
        assert_int_equal(pattern.is_element, i == 13);
        assert_int_equal(pattern.has_field, patterns[i][2] != NULL);
        if (pattern.has_star)
            assert_true(bytes_equal(sort_pattern_name(&pattern, &call, BYTES("x")), bytes_of_string(patterns[i][1])));
        if (pattern.has_field)
            assert_true(bytes_equal(pattern.field, bytes_of_string(patterns[i][2])));
    }
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(patterns_are_read_as_redis_does) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
