#include "support/unit.h"

#include <stdio.h>

#include "call/command_table.h"

static const struct command first_family[] = {
    { .name = "set", .arity = -3 }, { .name = "get", .arity = 2 }, { .name = "incrbyfloat", .arity = 3 },
    { .name = "client", .arity = -2 }, { .name = "client|no-evict", .arity = 3 }, { .name = "client|id", .arity = 2 },
    { .name = NULL },
};
static const struct command second_family[] = {
    { .name = "config|get", .arity = -3 }, { .name = "config", .arity = -2 }, { .name = "a", .arity = 1 },
    { .name = NULL },
};
static const struct command with_keys[] = {
    { .name = "get", .arity = 2 },
    { .name = "second", .arity = 3, .keys = KEYS(KEY_AT(2, KEY_RO)) },
    { .name = "several", .arity = -2, .keys = KEYS(KEY_RANGE(1, -1, 1, KEY_RO)) },
    { .name = "two", .arity = 3, .keys = KEYS(KEY_AT(1, KEY_RO), KEY_AT(2, KEY_RW)) },
    { .name = "numbered", .arity = -2, .keys = KEYS(KEY_NUMBERED(1, 1, KEY_RO)) },
    { .name = "after", .arity = -2, .keys = KEYS(KEY_AFTER("KEY", 1, 0, 1, 0, KEY_RO)) },
    { .name = "options", .arity = -2, .keys = KEYS(KEY_AT(1, KEY_RW | KEY_VARIABLE_FLAGS)) },
    { .name = "no-key", .arity = -2, .keys = KEYS(KEY_AT(1, KEY_RO | KEY_NOT_KEY)) },
    { .name = NULL },
};
static const struct command *const families[] = { first_family, second_family, NULL };

static struct command *find(struct command_table *table, const char *name)
{
    return command_find(table, bytes_of_string(name));
}

static int create(void **state)
{
    *state = command_table_create(families);
    return 0;
}

static int destroy(void **state)
{
    command_table_destroy(*state);
    return 0;
}

static void a_command_is_found_in_any_case(void **state)
{
    static const char *const names[] = { "incrbyfloat", "INCRBYFLOAT", "IncrByFloat", "iNCRBYFLOAt" };

    for (size_t i = 0; i < 4; i++) {
        assert_non_null(find(*state, names[i]));
        assert_int_equal(find(*state, names[i])->arity, 3);
    }
    assert_int_equal(find(*state, "A")->arity, 1);
    assert_int_equal(find(*state, "GET")->arity, 2);
}

static void a_row_with_one_key_at_a_fixed_place_has_it_noted(void **state)
{
    static const struct command *const rows[] = { with_keys, NULL };
    static const char *const others[] = { "get", "several", "two", "numbered", "after", "options", "no-key" };

    struct command_table *table = command_table_create(rows);

    assert_int_equal(find(table, "second")->only_key, 2);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(find(table, others[i])->only_key, 0);
    command_table_destroy(table);
}

static void unknown_commands_are_not_found(void **state)
{
    char longer[5000];

    assert_null(find(*state, ""));
    assert_null(command_find(*state, bytes_of(NULL, 0)));
    assert_null(find(*state, "ge"));
    assert_null(find(*state, "gets"));
    assert_null(command_find(*state, bytes_of("get\0", 4)));
    assert_null(find(*state, "client|id"));
    memset(longer, 'a', sizeof(longer));
    assert_null(command_find(*state, bytes_of(longer, sizeof(longer))));
}

/* "@" and "`", "[" and "{" differ by the bit that makes letters small; they are no letters. */
static void only_letters_have_two_cases(void **state)
{
    static const struct command odd[] = {
        { .name = "x@[^_y", .arity = 1 }, { .name = "x`{~\x7fy", .arity = 2 }, { .name = "x\xc1y", .arity = 3 },
        { .name = "x\xe1y", .arity = 4 }, { .name = NULL },
    };
    struct command_table *table = command_table_create((const struct command *const[]){ odd, NULL });

    assert_int_equal(find(table, "X@[^_Y")->arity, 1);
    assert_int_equal(find(table, "X`{~\x7fY")->arity, 2);
    assert_int_equal(find(table, "X\xc1Y")->arity, 3);
    assert_int_equal(find(table, "X\xe1Y")->arity, 4);
    command_table_destroy(table);
}

/* Names of every length end in the middle of a word somewhere; the bytes after them must not count. */
static void names_of_every_length_are_distinguished(void **state)
{
    static char texts[40][41];
    struct command rows[41];
    struct command_table *table;

    for (int i = 0; i < 40; i++) {
        memset(texts[i], 'q', (size_t)i + 1);
        rows[i] = (struct command){ .name = texts[i], .arity = i };
    }
    rows[40] = (struct command){ .name = NULL };
    table = command_table_create((const struct command *const[]){ rows, NULL });
    for (int i = 0; i < 40; i++) {
        char shouted[48];

        memset(shouted, 'Q', sizeof(shouted));
        assert_int_equal(command_find(table, bytes_of(shouted, (size_t)i + 1))->arity, i);
        shouted[i] = 'z';
        assert_null(command_find(table, bytes_of(shouted, (size_t)i + 1)));
    }
    command_table_destroy(table);
}

static void a_subcommand_belongs_to_its_container_in_any_order_of_rows(void **state)
{
    struct command *client = find(*state, "client"), *config = find(*state, "config");
    struct command *child = command_find_child(client, BYTES("NO-Evict"));

    assert_string_equal(child->name, "client|no-evict");
    assert_ptr_equal(child->parent, client);
    assert_ptr_equal(command_find_full(*state, BYTES("Client|ID")), command_find_child(client, BYTES("id")));
    assert_ptr_equal(command_find_full(*state, BYTES("config|get")), config->children[0]);
    assert_ptr_equal(command_find_full(*state, BYTES("GET")), find(*state, "get"));
    assert_null(config->children[1]);
    assert_null(command_find_child(client, BYTES("get")));
    assert_null(command_find_child(find(*state, "get"), BYTES("id")));
    assert_null(command_find_full(*state, BYTES("get|id")));
    assert_null(command_find_full(*state, BYTES("|id")));
    assert_null(command_find_full(*state, BYTES("client|")));
    assert_null(command_find_full(*state, BYTES("")));
}

static void a_call_names_its_command_and_its_subcommand(void **state)
{
    const struct bytes id[] = { BYTES("client"), BYTES("ID") }, none[] = { BYTES("client"), BYTES("get") };
    const struct bytes get[] = { BYTES("get"), BYTES("id") };

    assert_string_equal(command_find_call(*state, id, 2)->name, "client|id");
    assert_string_equal(command_find_call(*state, id, 1)->name, "client");
    assert_string_equal(command_find_call(*state, get, 2)->name, "get");
    assert_null(command_find_call(*state, none, 2));
}

static void top_level_commands_are_sorted(void **state)
{
    static const char *const expected[] = { "a", "client", "config", "get", "incrbyfloat", "set" };

    assert_int_equal(command_count(*state), 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(command_at(*state, i)->name, expected[i]);
    assert_int_equal(command_row_count(*state), 9);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(command_row_at(*state, i)->id, i);
}

static void a_renamed_command_is_found_by_its_new_name_only(void **state)
{
    struct command *get = find(*state, "get");

    assert_int_equal(command_rename(*state, BYTES("GET"), BYTES("Fetch")), STATUS_OK);
    assert_null(find(*state, "get"));
    assert_ptr_equal(find(*state, "FETCH"), get);
    assert_int_equal(command_count(*state), 6);
    assert_int_equal(command_rename(*state, BYTES("get"), BYTES("x")), STATUS_NOT_FOUND);
    assert_int_equal(command_rename(*state, BYTES("set"), BYTES("fetch")), STATUS_INVALID);
    assert_non_null(find(*state, "set"));
    assert_int_equal(command_rename(*state, BYTES("fetch"), BYTES("get")), STATUS_OK);
    assert_ptr_equal(find(*state, "get"), get);
}

static void the_log_and_acl_know_commands_by_their_rows(void **state)
{
    struct command *get = find(*state, "get"), *set = find(*state, "set"), *config = find(*state, "config");

    assert_ptr_equal(command_find_own(*state, BYTES("GET")), get);
    assert_false(get->renamed);
    assert_int_equal(command_rename(*state, BYTES("get"), BYTES("fetch")), STATUS_OK);
    assert_int_equal(command_rename(*state, BYTES("set"), BYTES("get")), STATUS_OK);
    assert_int_equal(command_rename(*state, BYTES("config"), BYTES("")), STATUS_OK);
    assert_ptr_equal(command_find_own(*state, BYTES("GET")), get);
    assert_ptr_equal(find(*state, "get"), set);
    assert_ptr_equal(command_find_logged(*state, BYTES("get")), get);
    assert_ptr_equal(command_find_logged(*state, BYTES("fetch")), get);
    assert_null(command_find_own(*state, BYTES("fetch")));
    assert_ptr_equal(command_find_own_full(*state, BYTES("config|get")), config->children[0]);
    assert_true(get->renamed && config->children[0]->renamed);
    assert_string_equal(command_own_name(config->children[0]).data, "config");
    assert_int_equal(command_rename(*state, BYTES("fetch"), BYTES("FETCH")), STATUS_OK);
    assert_ptr_equal(find(*state, "fetch"), get);
}

static void a_removed_command_is_not_found(void **state)
{
    assert_int_equal(command_rename(*state, BYTES("config"), BYTES("")), STATUS_OK);
    assert_null(find(*state, "config"));
    assert_null(command_find_full(*state, BYTES("config|get")));
    assert_int_equal(command_count(*state), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_not_equal(command_at(*state, i)->name, "config");
}

/* The index has a limit; names beyond it are refused. */
static void too_many_renames_are_refused(void **state)
{
    enum status status = STATUS_OK;
    char from[16] = "get", to[16];

    for (int i = 0; i < 1000 && status == STATUS_OK; i++) {
        snprintf(to, sizeof(to), "get%d", i);
        status = command_rename(*state, bytes_of_string(from), bytes_of_string(to));
        if (status == STATUS_OK)
            memcpy(from, to, sizeof(to));
    }
    assert_int_equal(status, STATUS_INVALID);
    assert_non_null(find(*state, from));
    assert_null(find(*state, "nosuch"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_command_is_found_in_any_case, create, destroy),
        cmocka_unit_test(a_row_with_one_key_at_a_fixed_place_has_it_noted),
        cmocka_unit_test_setup_teardown(unknown_commands_are_not_found, create, destroy),
        cmocka_unit_test(only_letters_have_two_cases),
        cmocka_unit_test(names_of_every_length_are_distinguished),
        cmocka_unit_test_setup_teardown(a_subcommand_belongs_to_its_container_in_any_order_of_rows, create, destroy),
        cmocka_unit_test_setup_teardown(a_call_names_its_command_and_its_subcommand, create, destroy),
        cmocka_unit_test_setup_teardown(top_level_commands_are_sorted, create, destroy),
        cmocka_unit_test_setup_teardown(a_renamed_command_is_found_by_its_new_name_only, create, destroy),
        cmocka_unit_test_setup_teardown(a_removed_command_is_not_found, create, destroy),
        cmocka_unit_test_setup_teardown(the_log_and_acl_know_commands_by_their_rows, create, destroy),
        cmocka_unit_test_setup_teardown(too_many_renames_are_refused, create, destroy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
