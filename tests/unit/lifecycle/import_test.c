#include "lifecycle/import.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "persist/rdb_writer.h"
#include "script/registry.h"
#include "stream/backlog.h"
#include "support/tier_box.h"

#define REPL_ID "0123456789abcdef0123456789ABCDEF01234567"

struct rig {
    struct tier_box box;
    struct message message;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->box.engine.log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    rig->box.engine.scripts = registry_create();
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    log_destroy(rig->box.engine.log);
    registry_destroy(rig->box.engine.scripts);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

struct aux {
    const char *name, *value;
};

/* Imports a file with these aux fields and a key. */
static struct import_result import_file(struct rig *rig, const struct aux *aux, size_t count)
{
    static const struct import_rules rules = { .twins = IMPORT_REPLACES_TWINS };
    char path[] = "/tmp/kelvin-import-XXXXXX";
    int fd = mkstemp(path);
    struct rdb_writer *writer = rdb_writer_create(&(struct rdb_writer_options){ .fd = fd });
    struct import_result result;

    unlink(path);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rdb_write_aux(writer, bytes_of_string(aux[i].name), bytes_of_string(aux[i].value)), STATUS_OK);
    assert_int_equal(rdb_write_db(writer, 0, 1, 0), STATUS_OK);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("k"), -1, -1, BYTES("\0\1v") }), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    rdb_writer_destroy(writer);
    assert_int_equal(import_rdb(&rig->box.engine, fd, &rules, NULL, NULL, &result, &rig->message), STATUS_OK);
    assert_int_equal(result.keys, 1);
    close(fd);
    return result;
}

static void the_position_in_the_stream_is_in_the_result(void **state)
{
    static const struct aux whole[] = {
        { "redis-ver", "7.2.5" }, { "repl-stream-db", "7" }, { "repl-id", REPL_ID }, { "repl-offset", "9000000000000" },
    };
    struct import_position position = import_file(*state, whole, 4).position;

    assert_string_equal(position.repl_id, REPL_ID);
    assert_true(position.offset == 9000000000000);
    assert_int_equal(position.db, 7);
    position = import_file(*state, whole + 2, 2).position;
    assert_string_equal(position.repl_id, REPL_ID);
    assert_int_equal(position.db, -1);
}

static void half_a_position_or_a_wrong_one_is_none(void **state)
{
    static const struct aux fields[][2] = {
        { { "repl-stream-db", "7" }, { "repl-id", REPL_ID } },
        { { "repl-stream-db", "7" }, { "repl-offset", "1" } },
        { { "repl-id", REPL_ID "0" }, { "repl-offset", "1" } },
        { { "repl-id", "0123456789abcdef0123456789ABCDEF0123456\r" }, { "repl-offset", "1" } },
        { { "repl-id", "" }, { "repl-offset", "1" } },
        { { "repl-id", REPL_ID }, { "repl-offset", "-1" } },
        { { "repl-id", REPL_ID }, { "repl-offset", "1x" } },
        { { "repl-id", REPL_ID }, { "repl-offset", "99999999999999999999" } },
        { { "repl-id", REPL_ID }, { "repl-offset", "9000000000000000000" } },
        { { "repl-id", REPL_ID }, { "repl-offset", "2305843009213693953" } },
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct import_position position = import_file(*state, fields[i], 2).position;

        assert_string_equal(position.repl_id, "");
        assert_true(position.offset == -1);
        assert_int_equal(position.db, -1);
    }
}

/* A key whose time is up, and these aux fields before and after it. */
static struct import_result import_expired(struct rig *rig, const struct aux before[2], const struct aux after[2])
{
    static const struct import_rules rules = { .twins = IMPORT_REPLACES_TWINS };
    char path[] = "/tmp/kelvin-import-XXXXXX";
    int fd = mkstemp(path);
    struct rdb_writer *writer = rdb_writer_create(&(struct rdb_writer_options){ .fd = fd });
    struct import_result result;

    unlink(path);
    for (int i = 0; before != NULL && i < 2; i++)
        assert_int_equal(rdb_write_aux(writer, bytes_of_string(before[i].name), bytes_of_string(before[i].value)), STATUS_OK);
    assert_int_equal(rdb_write_db(writer, 0, 1, 1), STATUS_OK);
    assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ BYTES("k"), 1, -1, BYTES("\0\1v") }), STATUS_OK);
    for (int i = 0; after != NULL && i < 2; i++)
        assert_int_equal(rdb_write_aux(writer, bytes_of_string(after[i].name), bytes_of_string(after[i].value)), STATUS_OK);
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    rdb_writer_destroy(writer);
    assert_int_equal(import_rdb(&rig->box.engine, fd, &rules, NULL, NULL, &result, &rig->message), STATUS_OK);
    close(fd);
    return result;
}

static void expired_keys_stay_if_a_history_goes_on(void **state)
{
    static const struct aux position[] = { { "repl-id", REPL_ID }, { "repl-offset", "7" } };
    struct rig *rig = *state;
    struct history *history = &rig->box.engine.history;
    struct backlog_options options = { .memory_size = 1 << 20 };
    struct import_result result;

    history_init(history);
    result = import_expired(rig, NULL, NULL);
    assert_true(result.keys == 0 && result.expired == 1);
    result = import_expired(rig, position, NULL);
    assert_true(result.keys == 1 && result.expired == 0);
    assert_string_equal(result.position.repl_id, REPL_ID);
    result = import_expired(rig, NULL, position);           /* what is left out is not in the stream */
    assert_true(result.keys == 0 && result.expired == 1);
    assert_string_equal(result.position.repl_id, "");
    history_open_backlog(history, &options);                /* DEBUG RELOAD of a primary, and of a replica */
    result = import_expired(rig, NULL, NULL);
    assert_true(result.keys == 1 && result.expired == 0);
    history_release(history);
    memset(history, 0, sizeof(*history));                   /* as it was: the box's turns look at it */
}

static void a_load_can_be_cancelled(void **state)
{
    struct rig *rig = *state;
    _Atomic bool cancel = true;
    struct import_rules rules = { .twins = IMPORT_REPLACES_TWINS, .cancel = &cancel };
    char path[] = "/tmp/kelvin-import-XXXXXX", name[20];
    int fd = mkstemp(path);
    struct rdb_writer *writer = rdb_writer_create(&(struct rdb_writer_options){ .fd = fd });
    struct import_result result;

    unlink(path);
    for (int i = 0; i < 10000; i++) {
        struct bytes key = bytes_of(name, (size_t)snprintf(name, sizeof(name), "key:%d", i));

        assert_int_equal(rdb_write_key(writer, &(struct rdb_key){ key, -1, -1, BYTES("\0\1v") }), STATUS_OK);
    }
    assert_int_equal(rdb_writer_end(writer), STATUS_OK);
    rdb_writer_destroy(writer);
    assert_int_equal(import_rdb(&rig->box.engine, fd, &rules, NULL, NULL, &result, &rig->message), STATUS_CANCELLED);
    assert_string_equal(rig->message.text, "The load was cancelled after 64 keys");
    assert_int_equal(result.keys, 64);
    cancel = false;
    assert_int_equal(import_rdb(&rig->box.engine, fd, &rules, NULL, NULL, &result, &rig->message), STATUS_OK);
    assert_int_equal(result.keys, 10000);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_position_in_the_stream_is_in_the_result, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(half_a_position_or_a_wrong_one_is_none, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(expired_keys_stay_if_a_history_goes_on, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_load_can_be_cancelled, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
