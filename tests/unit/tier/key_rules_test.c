#include "tier/key_rules.h"

#include <stdio.h>

#include "support/unit.h"

static enum key_rules_verdict judge(const struct key_rules *rules, const char *key, int64_t idle_s)
{
    return key_rules_judge(rules, 0, bytes_of_string(key), idle_s);
}

static bool add(struct key_rules *rules, const char *pattern, enum key_rule_kind kind, int64_t idle_s)
{
    struct key_rule rule = { bytes_of_string(pattern), kind, idle_s };

    return key_rules_add(rules, &rule);
}

static void the_first_pattern_that_matches_decides(void **state)
{
    struct key_rules *rules = key_rules_create();

    assert_int_equal(judge(rules, "a:1", 0), KEY_RULES_BY_USES);
    assert_true(add(rules, "a:1*", KEY_RULE_COLD_FIRST, 0));
    assert_true(add(rules, "a:*", KEY_RULE_NEVER_COLD, 0));
    assert_true(add(rules, "b:*", KEY_RULE_MIN_IDLE, 60));
    assert_true(add(rules, "b:never", KEY_RULE_NEVER_COLD, 0));
    assert_int_equal(judge(rules, "a:17", 0), KEY_RULES_FIRST);
    assert_int_equal(judge(rules, "a:2", 0), KEY_RULES_KEEP);
    assert_int_equal(judge(rules, "b:1", 59), KEY_RULES_KEEP);
    assert_int_equal(judge(rules, "b:1", 60), KEY_RULES_BY_USES);
    assert_int_equal(judge(rules, "b:never", 60), KEY_RULES_BY_USES);
    /* A pattern that is there keeps its place. */
    assert_true(add(rules, "a:1*", KEY_RULE_MIN_IDLE, 5));
    assert_int_equal(key_rules_count(rules), 4);
    assert_int_equal(judge(rules, "a:17", 4), KEY_RULES_KEEP);
    assert_int_equal(judge(rules, "a:17", 5), KEY_RULES_BY_USES);
    assert_true(key_rules_remove(rules, BYTES("a:1*")));
    assert_false(key_rules_remove(rules, BYTES("a:1*")));
    assert_int_equal(judge(rules, "a:17", 5), KEY_RULES_KEEP);
    key_rules_release(rules);
}

static void pins_come_first_and_are_of_one_database(void **state)
{
    struct key_rules *rules = key_rules_create(), *copy;

    assert_true(add(rules, "*", KEY_RULE_COLD_FIRST, 0));
    assert_int_equal(key_rules_pin(rules, 0, BYTES("a")), KEY_RULES_PINNED);
    assert_int_equal(key_rules_pin(rules, 0, BYTES("a")), KEY_RULES_WAS_PINNED);
    assert_int_equal(key_rules_pin(rules, 3, BYTES("")), KEY_RULES_PINNED);
    copy = key_rules_copy(rules);
    assert_true(key_rules_unpin(rules, 0, BYTES("a")));
    assert_false(key_rules_unpin(rules, 0, BYTES("a")));
    assert_int_equal(judge(rules, "a", 0), KEY_RULES_FIRST);
    key_rules_release(rules);
    assert_int_equal(judge(copy, "a", 0), KEY_RULES_KEEP);
    assert_int_equal(key_rules_judge(copy, 1, BYTES("a"), 0), KEY_RULES_FIRST);
    assert_int_equal(key_rules_judge(copy, 3, BYTES(""), 0), KEY_RULES_KEEP);
    assert_int_equal(key_rules_judge(copy, 0, BYTES(""), 0), KEY_RULES_FIRST);
    assert_int_equal(key_rules_pin_count(copy), 2);
    key_rules_release(copy);
}

static void there_is_a_most_of_both(void **state)
{
    struct key_rules *rules = key_rules_create();
    char name[20];

    for (int i = 0; i < KEY_RULES_MAX; i++) {
        snprintf(name, sizeof(name), "%d", i);
        assert_true(add(rules, name, KEY_RULE_NEVER_COLD, 0));
    }
    assert_false(add(rules, "more", KEY_RULE_NEVER_COLD, 0));
    assert_true(add(rules, "7", KEY_RULE_COLD_FIRST, 0));
    for (int i = 0; i < KEY_RULES_PINS_MAX; i++)
        assert_int_equal(key_rules_pin(rules, i % 16, bytes_of(&i, sizeof(i))), KEY_RULES_PINNED);
    assert_int_equal(key_rules_pin(rules, 0, BYTES("more")), KEY_RULES_PINS_FULL);
    key_rules_release(rules);
}

static void who_holds_a_set_keeps_it_when_another_one_takes_its_place(void **state)
{
    const struct key_rules *held;
    struct key_rules *rules;
    struct rulebook book;

    rulebook_init(&book);
    assert_null(rulebook_hold_if_any(&book));
    rules = key_rules_create();
    assert_true(add(rules, "a", KEY_RULE_NEVER_COLD, 0));
    rulebook_replace(&book, rules);
    held = rulebook_hold_if_any(&book);
    assert_non_null(held);
    rulebook_replace(&book, key_rules_create());
    assert_null(rulebook_hold_if_any(&book));
    assert_int_equal(judge(held, "a", 0), KEY_RULES_KEEP);
    key_rules_release(held);
    rulebook_destroy(&book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pattern_that_matches_decides),
        cmocka_unit_test(pins_come_first_and_are_of_one_database),
        cmocka_unit_test(there_is_a_most_of_both),
        cmocka_unit_test(who_holds_a_set_keeps_it_when_another_one_takes_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
