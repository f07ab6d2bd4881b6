#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "support/acl_box.h"

static int setup(void **state)
{
    static struct acl_box box;

    acl_box_create(&box);
    *state = &box;
    return 0;
}

static int teardown(void **state)
{
    acl_box_destroy(*state);
    return 0;
}

static struct acl_change *change_of(struct acl_box *box, const char *name, struct bytes word)
{
    struct buffer error = { 0 };
    struct acl_change *change = acl_change_set_user(box->acl, bytes_of_string(name), &word, 1, false, &error);

    assert_non_null(change);
    buffer_release(&error);
    return change;
}

static void nothing_is_visible_before_it_is_published(void **state)
{
    struct acl_box *box = *state;
    struct acl_change *change = change_of(box, "u", BYTES("+get"));

    assert_null(acl_find(box->acl, BYTES("u")));
    acl_change_publish(change);
    assert_string_equal(acl_box_line(box, "u"), "user u off sanitize-payload resetchannels -@all +get");
    acl_change_release(change);
    acl_change_release(change_of(box, "v", BYTES("+get")));
    assert_null(acl_find(box->acl, BYTES("v")));
}

static void old_rules_are_valid_until_the_release(void **state)
{
    struct acl_box *box = *state;
    struct acl_user *user;
    const struct acl_rules *old;
    struct acl_change *change;

    assert_null(acl_box_set(box, "u", "on +get"));
    user = acl_find(box->acl, BYTES("u"));
    old = acl_user_rules(user);
    change = change_of(box, "u", BYTES("off"));
    acl_change_publish(change);
    assert_true(acl_rules_are_enabled(old));
    assert_false(acl_rules_are_enabled(acl_user_rules(user)));
    acl_change_release(change);
    acl_user_release(user);
}

static void two_changes_of_a_user_add_up(void **state)
{
    struct acl_box *box = *state;
    struct acl_change *first, *second;

    assert_null(acl_box_set(box, "u", "on"));
    first = change_of(box, "u", BYTES("+get"));
    second = change_of(box, "u", BYTES("+set"));
    acl_change_publish(first);
    acl_change_publish(second);
    acl_change_release(first);
    acl_change_release(second);
    assert_string_equal(acl_box_line(box, "u"), "user u on sanitize-payload resetchannels -@all +get +set");
    first = change_of(box, "new", BYTES("+get"));
    second = change_of(box, "new", BYTES("+set"));
    acl_change_publish(first);
    acl_change_publish(second);
    acl_change_release(first);
    acl_change_release(second);
    assert_string_equal(acl_box_line(box, "new"), "user new off sanitize-payload resetchannels -@all +get +set");
}

static void a_removed_user_lives_until_its_last_holder_has_gone(void **state)
{
    struct acl_box *box = *state;
    const struct bytes names[] = { BYTES("u"), BYTES("none"), BYTES("u"), BYTES("v") };
    struct acl_user *user;
    struct acl_change *change, *again;
    size_t count;

    assert_null(acl_box_set(box, "u", "on nopass +@all ~*"));
    assert_null(acl_box_set(box, "v", "on"));
    user = acl_find(box->acl, BYTES("u"));
    change = acl_change_remove(box->acl, names, 4, &count);
    again = acl_change_remove(box->acl, names, 1, &count);
    assert_int_equal(acl_change_removed(change), 2);
    assert_false(acl_change_closes(change, user));
    acl_change_publish(change);
    acl_change_publish(again);
    assert_true(acl_change_closes(change, user));
    acl_change_release(change);
    acl_change_release(again);
    assert_null(acl_find(box->acl, BYTES("u")));
    assert_true(acl_user_is_removed(user));
    assert_false(acl_rules_allow_all(acl_user_rules(user)));
    assert_true(bytes_equal(acl_user_name(user), BYTES("u")));
    acl_user_release(user);
}

static void a_load_replaces_all_users(void **state)
{
    struct acl_box *box = *state;
    struct buffer error = { 0 };
    struct acl_user *old, *new;
    struct acl_change *change;

    assert_null(acl_box_set(box, "a", "on"));
    assert_null(acl_box_set(box, "b", "on"));
    assert_null(acl_box_set(box, "default", "-get"));
    old = acl_find(box->acl, BYTES("a"));
    change = acl_change_load(box->acl, "file", BYTES("user a off +get\nuser default on ~x\nuser c on"), false, &error);
    assert_non_null(change);
    assert_string_equal(acl_box_line(box, "b"), "user b on sanitize-payload resetchannels -@all");
    acl_change_publish(change);
    new = acl_find(box->acl, BYTES("a"));
    assert_ptr_not_equal(old, new);
    assert_true(acl_change_closes(change, old));
    assert_false(acl_change_closes(change, new));
    assert_false(acl_change_closes(change, acl_default(box->acl)));
    acl_change_release(change);
    acl_user_release(old);
    acl_user_release(new);
    assert_null(acl_box_line(box, "b"));
    assert_string_equal(acl_box_line(box, "c"), "user c on sanitize-payload resetchannels -@all");
    assert_string_equal(acl_box_line(box, "default"), "user default on sanitize-payload ~x resetchannels -@all");
    change = acl_change_load(box->acl, "file", BYTES(""), false, &error);
    acl_change_publish(change);
    acl_change_release(change);
    assert_true(acl_rules_allow_all(acl_user_rules(acl_default(box->acl))));
    buffer_release(&error);
}

static void a_load_names_all_mistakes(void **state)
{
    struct acl_box *box = *state;
    struct buffer error = { 0 };

    assert_null(acl_change_load(box->acl, "f", BYTES("user a +x\n\nuser\nuser b (\nuser a on\nuser c foo bar"), false, &error));
    buffer_append_u8(&error, 0);
    assert_string_equal(error.data, "f:1: Error in applying operation '+x': Unknown command or category name in ACL. "
        "f:3 should start with user keyword followed by the username. f:4: Unmatched parenthesis in selector definition."
        "WARNING: Duplicate user 'a' found on line 5. f:6: Syntax error. "
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    assert_null(acl_box_line(box, "a"));
    buffer_release(&error);
}

static struct acl_user *login(struct acl_box *box, const char *name, const char *password)
{
    return acl_authenticate(box->acl, bytes_of_string(name), bytes_of_string(password));
}

static void passwords(void **state)
{
    struct acl_box *box = *state;
    struct acl_user *user;

    assert_null(acl_box_set(box, "u", "on >one >two"));
    user = login(box, "u", "two");
    assert_true(bytes_equal(acl_user_name(user), BYTES("u")));
    acl_user_release(user);
    assert_null(login(box, "u", "three"));
    assert_null(login(box, "u", ""));
    assert_null(login(box, "none", "one"));
    assert_null(acl_box_set(box, "u", "<two"));
    assert_null(login(box, "u", "two"));
    assert_null(acl_box_set(box, "u", "off"));
    assert_null(login(box, "u", "one"));
    assert_null(acl_box_set(box, "u", "on nopass"));
    acl_user_release(login(box, "u", "anything"));
    assert_null(acl_box_set(box, "u", "resetpass"));
    assert_null(login(box, "u", "anything"));
    assert_null(login(box, "u", ""));
}

static void requirepass(void **state)
{
    struct acl_box *box = *state;
    struct acl_change *change = acl_change_require_password(box->acl, BYTES("secret"));

    acl_change_publish(change);
    acl_change_release(change);
    assert_null(login(box, "default", "x"));
    acl_user_release(login(box, "default", "secret"));
    assert_false(acl_rules_need_no_password(acl_user_rules(acl_default(box->acl))));
    change = acl_change_require_password(box->acl, BYTES(""));
    acl_change_publish(change);
    acl_change_release(change);
    acl_user_release(login(box, "default", "x"));
}

struct race {
    struct acl_box *box;
    _Atomic bool stops;
};

/* As a client does: finds its user, holds it, and asks its name. */
static void *find_and_login(void *context)
{
    struct race *race = context;

    while (!race->stops) {
        struct acl_user *user = acl_authenticate(race->box->acl, BYTES("u"), BYTES("p"));
        struct acl_user **users;
        size_t count;

        if (user != NULL)
            assert_true(bytes_equal(acl_user_name(user), BYTES("u")));
        acl_user_release(user);
        users = acl_users(race->box->acl, &count);
        for (size_t i = 0; i < count; i++)
            acl_user_release(users[i]);
        mem_free(users);
    }
    return NULL;
}

static void changes_while_clients_log_in(void **state)
{
    struct acl_box *box = *state;
    struct race race = { .box = box };
    struct buffer error = { 0 };
    struct bytes name = BYTES("u");
    pthread_t threads[2];
    size_t count;

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_and_login, &race), 0);
    for (int i = 0; i < 300; i++) {
        struct acl_change *change;

        assert_null(acl_box_set(box, "u", "on >p +get"));
        assert_null(acl_box_set(box, "u", "on resetpass >q -get"));
        change = i % 2 ? acl_change_remove(box->acl, &name, 1, &count)
            : acl_change_load(box->acl, "f", BYTES("user u on >p\nuser v on"), false, &error);
        acl_change_publish(change);
        acl_change_release(change);
    }
    race.stops = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    buffer_release(&error);
}

static bool may_call_info(struct acl_box *box, const char *name)
{
    struct acl_user *user = acl_find(box->acl, bytes_of_string(name));
    bool may = acl_may_call(box->acl, user, command_find_own(box->commands, BYTES("info")));

    acl_user_release(user);
    return may;
}

static void who_may_come_without_a_name(void **state)
{
    struct acl_box *box = *state;
    struct acl_change *change;

    assert_true(acl_is_open(box->acl));
    assert_true(may_call_info(box, "default"));
    change = acl_change_require_password(box->acl, BYTES("secret"));
    acl_change_publish(change);
    acl_change_release(change);
    assert_false(acl_is_open(box->acl));
    change = acl_change_require_password(box->acl, BYTES(""));
    acl_change_publish(change);
    acl_change_release(change);
    assert_true(acl_is_open(box->acl));
    assert_null(acl_box_set(box, "u", "on >secret +get"));
    assert_false(acl_is_open(box->acl));
    assert_false(may_call_info(box, "u"));
    assert_null(acl_box_set(box, "u", "+info"));
    assert_true(may_call_info(box, "u"));
}

static void a_default_user_with_limits_is_no_open_door(void **state)
{
    struct acl_box *box = *state;

    assert_null(acl_box_set(box, "default", "-flushall"));
    assert_false(acl_is_open(box->acl));
    assert_null(acl_box_set(box, "default", "+@all off"));
    assert_false(acl_is_open(box->acl));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_visible_before_it_is_published, setup, teardown),
        cmocka_unit_test_setup_teardown(old_rules_are_valid_until_the_release, setup, teardown),
        cmocka_unit_test_setup_teardown(two_changes_of_a_user_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_user_lives_until_its_last_holder_has_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_load_replaces_all_users, setup, teardown),
        cmocka_unit_test_setup_teardown(a_load_names_all_mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(passwords, setup, teardown),
        cmocka_unit_test_setup_teardown(requirepass, setup, teardown),
        cmocka_unit_test_setup_teardown(changes_while_clients_log_in, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_come_without_a_name, setup, teardown),
        cmocka_unit_test_setup_teardown(a_default_user_with_limits_is_no_open_door, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
