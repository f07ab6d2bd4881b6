#include "support/unit.h"

#include "base/message.h"
#include "config/config.h"
#include "config/limits.h"
#include "value/value.h"

static void set(struct config *config, const char *name, const char *value)
{
    struct bytes words[] = { bytes_of_string(name), bytes_of_string(value) };
    struct message message = { "" };

    assert_true(config_load(config, words, 2, &message));
}

static void every_limit_is_that_of_its_directive(void **state)
{
    struct config *config = config_create();
    struct value_limits limits = { .string_unpacked_max = 7, .seed = { 3, 4 } };

    (void)state;
    set(config, "hash-max-listpack-entries", "11");
    set(config, "hash-max-listpack-value", "12");
    set(config, "set-max-intset-entries", "13");
    set(config, "set-max-listpack-entries", "14");
    set(config, "set-max-listpack-value", "15");
    set(config, "zset-max-listpack-entries", "16");
    set(config, "zset-max-listpack-value", "17");
    set(config, "list-max-listpack-size", "-3");
    set(config, "list-compress-depth", "18");
    set(config, "stream-node-max-bytes", "19");
    set(config, "stream-node-max-entries", "20");
    limits_read(config, &limits);
    assert_int_equal(limits.hash_listpack_entries_max, 11);
    assert_int_equal(limits.hash_listpack_value_max, 12);
    assert_int_equal(limits.set_intset_entries_max, 13);
    assert_int_equal(limits.set_listpack_entries_max, 14);
    assert_int_equal(limits.set_listpack_value_max, 15);
    assert_int_equal(limits.zset_listpack_entries_max, 16);
    assert_int_equal(limits.zset_listpack_value_max, 17);
    assert_int_equal(limits.list_fill, -3);
    assert_int_equal(limits.list_depth, 18);
    assert_int_equal(limits.stream_node_size_max, 19);
    assert_int_equal(limits.stream_node_entries_max, 20);
    assert_int_equal(limits.string_unpacked_max, 7);        /* not the configuration's */
    assert_int_equal(limits.seed.k0, 3);
    config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_limit_is_that_of_its_directive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
