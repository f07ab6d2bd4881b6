#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/message.h"
#include "config/config.h"
#include "config/config_row.h"

#include "unit/config/config_defaults.h"

static int setup(void **state)
{
    *state = config_create();
    return 0;
}

static int teardown(void **state)
{
    config_destroy(*state);
    return 0;
}

/* -- helpers -- */

struct found {
    int count;
    char name[128], value[1024];    /* the last one */
};

static void note_found(void *context, const char *name, struct bytes value)
{
    struct found *found = context;

    found->count++;
    snprintf(found->name, sizeof(found->name), "%s", name);
    snprintf(found->value, sizeof(found->value), "%.*s", (int)value.size, value.size ? value.data : "");
}

static struct found get(struct config *config, const char *pattern)
{
    struct bytes one = bytes_of_string(pattern);
    struct found found = { 0 };

    config_get(config, &one, 1, note_found, &found);
    return found;
}

static void assert_shown(struct config *config, const char *name, const char *value)
{
    struct found found = get(config, name);

    assert_int_equal(found.count, 1);
    assert_string_equal(found.value, value);
}

static bool set_to(struct config *config, const char *name, const char *value, struct message *message)
{
    struct bytes names = bytes_of_string(name), values = bytes_of_string(value);

    return config_set(config, &names, &values, 1, message);
}

static void assert_set(struct config *config, const char *name, const char *value)
{
    struct message message = { "" };

    if (!set_to(config, name, value, &message))
        fail_msg("%s %s: %s", name, value, message.text);
}

static void assert_reason(struct config *config, const char *name, const char *value, const char *reason)
{
    char expected[512];
    struct message message = { "" };
    struct found before = get(config, name), after;

    snprintf(expected, sizeof(expected), "CONFIG SET failed (possibly related to argument '%s') - %s", name, reason);
    if (set_to(config, name, value, &message))
        fail_msg("%s %s was taken", name, value);
    assert_string_equal(message.text, expected);
    after = get(config, name);
    assert_string_equal(after.value, before.value);
}

/* -- CONFIG GET -- */

static void every_default_is_shown_as_redis_shows_it(void **state)
{
    size_t count = sizeof(redis_defaults) / sizeof(*redis_defaults);

    for (size_t i = 0; i < count; i++) {
        struct found found = get(*state, redis_defaults[i].name);

        if (found.count != 1 || strcmp(found.value, redis_defaults[i].value) != 0)
            fail_msg("%s: %s instead of %s", redis_defaults[i].name, found.value, redis_defaults[i].value);
    }
}

static void get_all_shows_the_directives_of_redis_and_our_own(void **state)
{
    int redis = sizeof(redis_defaults) / sizeof(*redis_defaults) + 1;       /* dir */
    int own = CONFIG_PARTITIONS - CONFIG_TIER_ENABLED + 1 + 9;
        /* client-output-pending-max, script-heap-max, slowlog-log-waits-slower-than, repl-backlog-disk-size, repl-field-times,
         * repl-image-sync, repl-promotion-timeout, metrics-port, metrics-bind */

    assert_int_equal(own, 34);
    assert_int_equal(get(*state, "*").count, redis + own - 3);        /* tier-segment-size, tier-page-size and tier-dictionary-after are hidden */
}

static void the_primary_can_be_set_while_the_server_runs(void **state)
{
    struct buffer host = { 0 };
    int port = 0;

    assert_false(config_replicaof(*state, &host, &port));
    config_set_replicaof(*state, BYTES("db one.example"), 6380);
    assert_true(config_replicaof(*state, &host, &port));
    assert_true(bytes_equal(buffer_bytes(&host), BYTES("db one.example")));
    assert_int_equal(port, 6380);
    config_set_replicaof(*state, BYTES("10.0.0.1"), 6379);
    assert_string_equal(get(*state, "replicaof").value, "10.0.0.1 6379");
    assert_string_equal(get(*state, "slaveof").value, "10.0.0.1 6379");
    config_set_replicaof(*state, (struct bytes){ 0 }, 0);
    host.size = 0;
    assert_false(config_replicaof(*state, &host, &port));
    assert_string_equal(get(*state, "replicaof").value, "");
    buffer_release(&host);
}

static void dir_is_shown_as_an_absolute_path(void **state)
{
    char *here = realpath(".", NULL);

    assert_shown(*state, "dir", here);
    free(here);
}

static void a_row_is_shown_once_for_all_patterns(void **state)
{
    struct bytes patterns[] = { BYTES("maxmemory"), BYTES("max*"), BYTES("MAXMEMORY"), BYTES("m*y") };
    struct bytes all = BYTES("max*");
    struct found many = { 0 }, one = { 0 };

    config_get(*state, patterns, 4, note_found, &many);
    config_get(*state, &all, 1, note_found, &one);
    assert_int_equal(many.count, one.count);
    assert_int_equal(one.count, 6);
}

static void a_name_is_shown_as_it_was_written_and_a_match_as_in_the_table(void **state)
{
    assert_string_equal(get(*state, "TimeOut").name, "TimeOut");
    assert_string_equal(get(*state, "TIME?UT").name, "timeout");
    assert_int_equal(get(*state, "nosuch").count, 0);
    assert_int_equal(get(*state, "").count, 0);
}

static void aliases_are_shown_in_addition_and_have_the_same_value(void **state)
{
    struct bytes names[] = { BYTES("hash-max-ziplist-entries"), BYTES("hash-max-listpack-entries") };
    struct bytes values[] = { BYTES("1"), BYTES("2") };
    struct message message;

    assert_true(config_set(*state, names, values, 2, &message));
    assert_shown(*state, "hash-max-ziplist-entries", "2");
    assert_shown(*state, "hash-max-listpack-entries", "2");
    assert_int_equal(get(*state, "hash-max-*-entries").count, 2);
    assert_int_equal(config_number(*state, CONFIG_HASH_MAX_LISTPACK_ENTRIES), 2);
}

static void hidden_rows_are_shown_for_their_exact_name_only(void **state)
{
    assert_int_equal(get(*state, "watchdog-perio?").count, 0);
    assert_shown(*state, "watchdog-period", "0");
}

static void rows_for_files_only_are_neither_shown_nor_set(void **state)
{
    static const char *const names[] = { "include", "user", "rename-command", "loadmodule", "list-max-ziplist-entries",
        "lua-replicate-commands" };
    char expected[MESSAGE_SIZE];
    struct message message;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        assert_int_equal(get(*state, names[i]).count, 0);
        assert_false(set_to(*state, names[i], "x", &message));
        snprintf(expected, sizeof(expected), "Unknown option or number of arguments for CONFIG SET - '%s'", names[i]);
        assert_string_equal(message.text, expected);
    }
}

/* -- CONFIG SET: values -- */

static void values_are_parsed_and_shown_as_in_redis(void **state)
{
    static const struct { const char *name, *value, *shown; } cases[] = {
        { "appendonly", "YES", "yes" },
        { "maxmemory", "1GB", "1073741824" },
        { "maxmemory", "1g", "1000000000" },
        { "maxmemory", "", "0" },
        { "maxmemory", "50000000b", "50000000" },
        { "maxmemory-clients", "5%", "5%" },
        { "maxmemory-clients", "0%", "0" },
        { "maxmemory-clients", "1gb", "1073741824" },
        { "maxclients", "4294967295", "4294967295" },
        { "slowlog-log-slower-than", "-1", "-1" },
        { "list-max-listpack-size", "-5", "-5" },
        { "hz", "600", "500" },
        { "hz", "0", "1" },
        { "loglevel", "NOTICE", "notice" },
        { "loglevel", "nothing", "nothing" },
        { "oom-score-adj", "relative", "yes" },
        { "oom-score-adj", "absolute", "absolute" },
        { "save", "", "" },
        { "save", "900 1 300 10", "900 1 300 10" },
        { "save", "1 0", "1 0" },
        { "bind", "", "" },
        { "bind", "127.0.0.1 -::1", "127.0.0.1 -::1" },
        { "client-output-buffer-limit", "",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60" },
        { "client-output-buffer-limit", "replica 1gb 2mb 3 normal 1 2 3",
            "normal 1 2 3 slave 1073741824 2097152 3 pubsub 33554432 8388608 60" },
        { "client-output-buffer-limit", "Slave 1 2 4 SLAVE 1 2 5",
            "normal 1 2 3 slave 1 2 5 pubsub 33554432 8388608 60" },
        { "notify-keyspace-events", "KEA", "AKE" },
        { "notify-keyspace-events", "KEg$lshzxetdmnA", "AKEm" },
        { "notify-keyspace-events", "g$lshzxetd", "A" },
        { "notify-keyspace-events", "Kn", "nK" },
        { "notify-keyspace-events", "gn", "gn" },
        { "notify-keyspace-events", "KKEExx", "xKE" },
        { "notify-keyspace-events", "Km", "Km" },
        { "notify-keyspace-events", "", "" },
        { "oom-score-adj-values", "3 -2 1", "3 -2 1" },
        { "latency-tracking-info-percentiles", "50.5 99.999 0 100", "50.5 99.999 0 100" },
        { "latency-tracking-info-percentiles", "50.000 99.123456789012345678 1e1 1e-7", "50 99.123457 10 0" },
        { "latency-tracking-info-percentiles", "", "" },
        { "shutdown-on-sigint", "force now", "now force" },
        { "shutdown-on-sigint", "default NOW", "now" },
        { "shutdown-on-sigterm", "save now force", "save now force" },
        { "shutdown-on-sigterm", "default", "default" },
        { "proc-title-template", "{title} {port} {{ }", "{title} {port} {{ }" },
        { "cluster-announce-hostname", "a-b.c", "a-b.c" },
        { "requirepass", "a b", "a b" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_set(*state, cases[i].name, cases[i].value);
        assert_shown(*state, cases[i].name, cases[i].shown);
    }
}

static void an_invalid_value_is_refused_with_the_text_of_redis(void **state)
{
    static const struct { const char *name, *value, *reason; } cases[] = {
        { "maxmemory", "zz", "argument must be a memory value" },
        { "maxmemory", "-1", "argument must be a memory value" },
        { "maxmemory", "100%", "argument must be a memory value" },
        { "maxmemory", "1 gb", "argument must be a memory value" },
        { "maxmemory", "1tb", "argument must be a memory value" },
        { "maxmemory-clients", "-5", "argument must be a memory or percent value" },
        { "maxmemory-clients", "5%%", "argument must be a memory or percent value" },
        { "maxmemory-clients", "%", "argument must be a memory or percent value" },
        { "maxmemory-clients", "101%", "percentage argument must be less or equal to 100" },
        { "client-query-buffer-limit", "5", "argument must be between 1048576 and 9223372036854775807 inclusive" },
        { "timeout", "zz", "argument couldn't be parsed into an integer" },
        { "timeout", "", "argument couldn't be parsed into an integer" },
        { "timeout", "010", "argument couldn't be parsed into an integer" },
        { "timeout", "+1", "argument couldn't be parsed into an integer" },
        { "timeout", " 1", "argument couldn't be parsed into an integer" },
        { "timeout", "1.0", "argument couldn't be parsed into an integer" },
        { "timeout", "99999999999999999999", "argument couldn't be parsed into an integer" },
        { "timeout", "-1", "argument must be between 0 and 2147483647 inclusive" },
        { "port", "65536", "argument must be between 0 and 65535 inclusive" },
        { "active-defrag-cycle-max", "100", "argument must be between 1 and 99 inclusive" },
        { "maxclients", "0", "argument must be between 1 and 4294967295 inclusive" },
        { "appendonly", "true", "argument must be 'yes' or 'no'" },
        { "appendfsync", "x", "argument(s) must be one of the following: everysec, always, no" },
        { "loglevel", "", "argument(s) must be one of the following: debug, verbose, notice, warning, nothing" },
        { "maxmemory-policy", "x",
            "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, "
            "allkeys-lru, allkeys-lfu, allkeys-random, noeviction" },
        { "save", "1", "Invalid save parameters" },
        { "save", "0 1", "Invalid save parameters" },
        { "save", "1 -1", "Invalid save parameters" },
        { "save", "900  1", "Invalid save parameters" },
        { "bind", "a b c d e f g h i j k l m n o p q", "Too many bind addresses specified." },
        { "client-output-buffer-limit", "normal 1gb 2mb",
            "Wrong number of arguments in buffer limit configuration." },
        { "client-output-buffer-limit", "master 1gb 2mb 3",
            "Invalid client class specified in buffer limit configuration." },
        { "client-output-buffer-limit", "normal 1xb 2mb 3",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration." },
        { "client-output-buffer-limit", "normal 1gb 2mb -3",
            "Error in hard, soft or soft_seconds setting in buffer limit configuration." },
        { "notify-keyspace-events", "Kq", "Invalid event class character. Use 'Ag$lshzxeKEtmdn'." },
        { "oom-score-adj-values", "1 2", "wrong number of arguments" },
        { "oom-score-adj-values", "1 2 2001",
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000." },
        { "latency-tracking-info-percentiles", "1 101",
            "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]" },
        { "latency-tracking-info-percentiles", "50 nan", "Invalid latency-tracking-info-percentiles parameters" },
        { "shutdown-on-sigint", "save nosave", "shutdown options SAVE and NOSAVE can't be used simultaneously" },
        { "shutdown-on-sigint", "",
            "argument(s) must be one of the following: default, save, nosave, now, force" },
        { "shutdown-on-sigint", "save  now",
            "argument(s) must be one of the following: default, save, nosave, now, force" },
        { "proc-title-template", "{x}", "template format is invalid or contains unknown variables" },
        { "proc-title-template", "a {title", "template format is invalid or contains unknown variables" },
        { "proc-title-template", " ", "template format is invalid or contains unknown variables" },
        { "cluster-announce-hostname", "a_b",
            "Hostnames may only contain alphanumeric characters, hyphens or dots" },
        { "cluster-announce-human-nodename", "a=b;c", "Announced human node name contained invalid character" },
        { "port", "zz", "argument couldn't be parsed into an integer" },
        { "daemonize", "yes", "can't set immutable config" },
        { "slaveof", "a 1", "can't set immutable config" },
        { "dir", "/", "can't set protected config" },
        { "dbfilename", "a/b", "can't set protected config" },
        { "partitions", "8", "can't set immutable config" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_reason(*state, cases[i].name, cases[i].value, cases[i].reason);
}

static void a_nul_byte_does_not_truncate_a_string(void **state)
{
    struct bytes name = BYTES("requirepass"), value = BYTES("long\0secret");
    struct message message;

    assert_false(config_set(*state, &name, &value, 1, &message));
    assert_shown(*state, "requirepass", "");
}

static void an_error_shows_the_name_as_in_the_table(void **state)
{
    struct message message;

    assert_false(set_to(*state, "TimeOut", "x", &message));
    assert_string_equal(message.text,
        "CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer");
}

static void a_long_unknown_name_fits_into_the_message(void **state)
{
    char name[2000];
    struct message message;

    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    assert_false(set_to(*state, name, "1", &message));
    assert_true(strlen(message.text) < sizeof(message));
    assert_memory_equal(&message, "Unknown option or number of arguments for CONFIG SET - 'aaa", 58);
}

static void names_are_checked_in_order_before_any_value(void **state)
{
    static const struct { const char *words[3][2]; const char *message; } cases[] = {
        { { { "port", "zz" }, { "nosuch", "1" } }, "Unknown option or number of arguments for CONFIG SET - 'nosuch'" },
        { { { "daemonize", "yes" }, { "nosuch", "1" } },
            "CONFIG SET failed (possibly related to argument 'daemonize') - can't set immutable config" },
        { { { "timeout", "zz" }, { "timeout", "1" } },
            "CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter" },
        { { { "timeout", "1" }, { "TIMEOUT", "2" }, { "nosuch", "1" } },
            "CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter" },
        { { { "timeout", "1" }, { "maxmemory", "zz" } },
            "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value" },
    };
    struct message message;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct bytes names[3], values[3];
        int count = 0;

        for (; count < 3 && cases[i].words[count][0]; count++) {
            names[count] = bytes_of_string(cases[i].words[count][0]);
            values[count] = bytes_of_string(cases[i].words[count][1]);
        }
        assert_false(config_set(*state, names, values, count, &message));
        assert_string_equal(message.text, cases[i].message);
        assert_shown(*state, "timeout", "0");
    }
}

static void every_parser_accepts_or_refuses_hostile_words(void **state)
{
    uint64_t x = 88172645463325252u;
    struct message message;

    for (int round = 0; round < 200; round++) {
        for (int id = 0; id < CONFIG_COUNT; id++) {
            static const char letters[] = "0123456789 -.%{}\"'\\/kmgbyesnoKEAx\n\0\xff";
            char word[24];
            struct bytes name = bytes_of_string(config_name(id)), value;

            if (id == CONFIG_DIR)
                continue;
            value = bytes_of(word, x % sizeof(word));
            for (size_t i = 0; i < sizeof(word); i++) {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                word[i] = letters[x % (sizeof(letters) - 1)];
            }
            if (config_set(*state, &name, &value, 1, &message)) {
                struct found found = get(*state, config_name(id));

                assert_int_equal(found.count, 1);
                value = bytes_of_string(found.value);       /* a value that is shown can be set again */
                if (!config_set(*state, &name, &value, 1, &message))
                    fail_msg("round %d: %s shows '%s': %s", round, found.name, found.value, message.text);
                assert_string_equal(get(*state, config_name(id)).value, found.value);
            }
        }
    }
}

/* -- reading -- */

static void numbers_of_every_kind_can_be_read(void **state)
{
    struct config *config = *state;

    assert_int_equal(config_number(config, CONFIG_PORT), 6379);
    assert_int_equal(config_number(config, CONFIG_PROTECTED_MODE), 1);
    assert_int_equal(config_number(config, CONFIG_PROTO_MAX_BULK_LEN), 512 << 20);
    assert_int_equal(config_number(config, CONFIG_MAXMEMORY_POLICY), CONFIG_POLICY_NOEVICTION);
    assert_int_equal(config_number(config, CONFIG_APPENDFSYNC), CONFIG_FSYNC_EVERYSEC);
    assert_int_equal(config_number(config, CONFIG_LOGLEVEL), CONFIG_LOGLEVEL_NOTICE);
    assert_int_equal(config_number(config, CONFIG_SUPERVISED), CONFIG_SUPERVISED_NO);
    assert_int_equal(config_number(config, CONFIG_SYSLOG_FACILITY), CONFIG_FACILITY_LOCAL0);
    assert_int_equal(config_number(config, CONFIG_ENABLE_DEBUG_COMMAND), CONFIG_PERMISSION_NO);
    assert_int_equal(config_number(config, CONFIG_TIER_ENABLED), 1);
    assert_int_equal(config_number(config, CONFIG_TIER_BATCH_SIZE), 1 << 20);
    assert_set(config, "shutdown-on-sigint", "force nosave");
    assert_int_equal(config_number(config, CONFIG_SHUTDOWN_ON_SIGINT), CONFIG_SHUTDOWN_NOSAVE | CONFIG_SHUTDOWN_FORCE);
    assert_set(config, "notify-keyspace-events", "gK");
    assert_int_equal(config_number(config, CONFIG_NOTIFY_KEYSPACE_EVENTS), 1 | 1 << 11);
}

static void the_enums_have_the_order_of_the_words(void **state)
{
    static const struct { enum config_id id; const char *word; int64_t value; } cases[] = {
        { CONFIG_LOGLEVEL, "warning", CONFIG_LOGLEVEL_WARNING },
        { CONFIG_LOGLEVEL, "nothing", CONFIG_LOGLEVEL_NOTHING },
        { CONFIG_SUPERVISED, "systemd", CONFIG_SUPERVISED_SYSTEMD },
        { CONFIG_SYSLOG_FACILITY, "local7", CONFIG_FACILITY_LOCAL0 + 7 },
        { CONFIG_APPENDFSYNC, "no", CONFIG_FSYNC_NO },
        { CONFIG_MAXMEMORY_POLICY, "volatile-ttl", CONFIG_POLICY_VOLATILE_TTL },
        { CONFIG_MAXMEMORY_POLICY, "allkeys-random", CONFIG_POLICY_ALLKEYS_RANDOM },
        { CONFIG_ENABLE_DEBUG_COMMAND, "local", CONFIG_PERMISSION_LOCAL },
        { CONFIG_ENABLE_PROTECTED_CONFIGS, "yes", CONFIG_PERMISSION_YES },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(config_row_word(config_row(cases[i].id), bytes_of_string(cases[i].word)), cases[i].value);
}

static void a_percentage_follows_maxmemory(void **state)
{
    assert_set(*state, "maxmemory-clients", "5%");
    assert_int_equal(config_number(*state, CONFIG_MAXMEMORY_CLIENTS), 0);
    assert_set(*state, "maxmemory", "1000");
    assert_int_equal(config_number(*state, CONFIG_MAXMEMORY_CLIENTS), 50);
    assert_set(*state, "maxmemory-clients", "10%");
    assert_int_equal(config_number(*state, CONFIG_MAXMEMORY_CLIENTS), 100);
    assert_set(*state, "maxmemory-clients", "7");
    assert_set(*state, "maxmemory", "2000");
    assert_int_equal(config_number(*state, CONFIG_MAXMEMORY_CLIENTS), 7);
}

static void output_limits_can_be_read_as_numbers(void **state)
{
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_PUBSUB, CONFIG_OUTPUT_HARD), 32 << 20);
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_REPLICA, CONFIG_OUTPUT_SOFT_SECONDS), 60);
    assert_set(*state, "client-output-buffer-limit", "normal 3mb 2mb 1");
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_HARD), 3 << 20);
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_SOFT), 2 << 20);
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_NORMAL, CONFIG_OUTPUT_SOFT_SECONDS), 1);
    assert_int_equal(config_output_limit(*state, CONFIG_CLIENT_PUBSUB, CONFIG_OUTPUT_SOFT), 8 << 20);
}

static void any_row_can_be_copied_as_text(void **state)
{
    static const struct { enum config_id id; const char *text; } cases[] = {
        { CONFIG_BIND, "* -::*" },
        { CONFIG_REQUIREPASS, "" },
        { CONFIG_PORT, "6379" },
        { CONFIG_SAVE, "3600 1 300 100 60 10000" },
        { CONFIG_TIER_DIR, "store" },
        { CONFIG_INCLUDE, "" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *text = config_string(*state, cases[i].id);

        assert_string_equal(text, cases[i].text);
        mem_free(text);
    }
}

/* -- protection -- */

static void protected_directives_can_be_set_with_enable_protected_configs(void **state)
{
    struct bytes name = BYTES("dbfilename"), value = BYTES("x.rdb"), dir = BYTES("dir"), nowhere = BYTES("/no/such");
    struct bytes local[] = { BYTES("enable-protected-configs"), BYTES("local") };
    struct bytes yes[] = { BYTES("enable-protected-configs"), BYTES("yes") };
    struct message message;

    assert_false(config_set_local(*state, &name, &value, 1, &message));
    assert_true(config_load(*state, local, 2, &message));
    assert_false(config_set(*state, &name, &value, 1, &message));
    assert_true(config_set_local(*state, &name, &value, 1, &message));
    assert_true(config_load(*state, yes, 2, &message));
    assert_true(config_set(*state, &name, &value, 1, &message));
    assert_reason(*state, "dir", "/no/such", "No such file or directory");
    assert_reason(*state, "dir", "/dev/null", "Not a directory");
    assert_reason(*state, "dir", "", "No such file or directory");
    assert_reason(*state, "dbfilename", "a/b", "dbfilename can't be a path, just a filename");
    assert_false(config_set(*state, &dir, &nowhere, 1, &message));
    assert_set(*state, "dir", "/");
    assert_shown(*state, "dir", "/");
}

/* -- callbacks -- */

struct watch {
    struct config *config;
    enum config_id refused;     /* CONFIG_COUNT: none */
    int calls;
    enum config_id ids[8];
    int64_t seen[8];
};

static bool watch_changed(void *context, enum config_id id, struct message *message)
{
    struct watch *watch = context;
    char *text = config_string(watch->config, id);      /* a callback may read */

    mem_free(text);
    assert_true(watch->calls < 8);
    watch->ids[watch->calls] = id;
    watch->seen[watch->calls++] = config_number(watch->config, id);
    if (id != watch->refused)
        return true;
    message_set(message, "not today");
    return false;
}

static void a_callback_reads_the_new_value_and_is_called_only_for_changes(void **state)
{
    struct watch watch = { .config = *state, .refused = CONFIG_COUNT };

    config_on_change(*state, CONFIG_TIMEOUT, watch_changed, &watch);
    assert_set(*state, "timeout", "0");
    assert_int_equal(watch.calls, 0);
    assert_set(*state, "timeout", "7");
    assert_int_equal(watch.calls, 1);
    assert_int_equal(watch.seen[0], 7);
    assert_set(*state, "timeout", "7");
    assert_int_equal(watch.calls, 1);
}

static void loading_calls_no_callback(void **state)
{
    struct watch watch = { .config = *state, .refused = CONFIG_TIMEOUT };
    struct bytes words[] = { BYTES("timeout"), BYTES("7") };
    struct message message;

    config_on_change(*state, CONFIG_TIMEOUT, watch_changed, &watch);
    assert_true(config_load(*state, words, 2, &message));
    assert_int_equal(watch.calls, 0);
}

static void a_refusal_restores_all_values_and_calls_earlier_callbacks_again(void **state)
{
    struct watch watch = { .config = *state, .refused = CONFIG_HZ };
    struct bytes names[] = { BYTES("timeout"), BYTES("hz"), BYTES("maxclients"), BYTES("maxmemory") };
    struct bytes values[] = { BYTES("7"), BYTES("20"), BYTES("30"), BYTES("40") };
    struct message message;

    config_on_change(*state, CONFIG_TIMEOUT, watch_changed, &watch);
    config_on_change(*state, CONFIG_HZ, watch_changed, &watch);
    config_on_change(*state, CONFIG_MAXCLIENTS, watch_changed, &watch);
    assert_false(config_set(*state, names, values, 4, &message));
    assert_string_equal(message.text, "CONFIG SET failed (possibly related to argument 'hz') - not today");
    assert_shown(*state, "timeout", "0");
    assert_shown(*state, "hz", "10");
    assert_shown(*state, "maxclients", "10000");
    assert_shown(*state, "maxmemory", "0");
    assert_int_equal(watch.calls, 3);
    assert_int_equal(watch.ids[0], CONFIG_TIMEOUT);
    assert_int_equal(watch.ids[1], CONFIG_HZ);
    assert_int_equal(watch.ids[2], CONFIG_TIMEOUT);
    assert_int_equal(watch.seen[2], 0);
}

static bool refuse_silently(void *context, enum config_id id, struct message *message)
{
    return false;
}

static void a_refusal_without_a_message_is_still_an_error(void **state)
{
    struct message message;

    config_on_change(*state, CONFIG_PORT, refuse_silently, NULL);
    assert_false(set_to(*state, "port", "1", &message));
    assert_string_equal(message.text, "CONFIG SET failed (possibly related to argument 'port')");
    assert_shown(*state, "port", "6379");
}

/* -- the tier's rows -- */

static void every_tier_option_can_be_set_while_running(void **state)
{
    static const struct { const char *name, *value; } cases[] = {
        { "tier-enabled", "no" },
        { "tier-high-watermark", "99" },
        { "tier-low-watermark", "1" },
        { "tier-load-threads", "64" },
        { "tier-max-size", "1099511627776" },
        { "tier-batch-size", "4096" },
        { "tier-page-threshold", "32768" },
        { "tier-write-buffer", "65536" },
        { "tier-compression", "zstd" },
        { "tier-compression", "lz4" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_set(*state, cases[i].name, cases[i].value);
        assert_shown(*state, cases[i].name, cases[i].value);
    }
}

static void tier_compression_yes_is_zstd(void **state)
{
    struct bytes line[] = { BYTES("tier-compression"), BYTES("yes") };
    struct message message;

    assert_true(config_load(*state, line, 2, &message));
    assert_true(config_check(*state, &message));
    assert_shown(*state, "tier-compression", "zstd");
    assert_set(*state, "tier-compression", "no");
    assert_set(*state, "tier-compression", "yes");
    assert_shown(*state, "tier-compression", "zstd");
    assert_reason(*state, "tier-compression", "lzo", "argument(s) must be one of the following: no, zstd, lz4, yes");
}

static void compressed_keys_may_be_deleted_for_room_on_the_disk(void **state)
{
    struct message message;

    assert_set(*state, "tier-full-policy", "allkeys-coldest");
    assert_set(*state, "tier-compression", "zstd");
    assert_set(*state, "tier-full-policy", "volatile-ttl");
    assert_true(config_check(*state, &message));
}

static void the_low_watermark_is_never_above_the_high_one(void **state)
{
    struct bytes names[] = { BYTES("timeout"), BYTES("tier-low-watermark"), BYTES("tier-high-watermark") };
    struct bytes values[] = { BYTES("1"), BYTES("97"), BYTES("98") };
    struct bytes line[] = { BYTES("tier-low-watermark"), BYTES("99") };
    struct message message;

    assert_reason(*state, "tier-low-watermark", "96", "tier-low-watermark must not be above tier-high-watermark");
    assert_reason(*state, "tier-high-watermark", "91", "tier-low-watermark must not be above tier-high-watermark");
    assert_true(config_set(*state, names, values, 3, &message));     /* both at once */
    assert_true(config_check(*state, &message));
    assert_true(config_load(*state, line, 2, &message));     /* a single line is not checked against later ones */
    assert_false(config_check(*state, &message));
}

static void partitions_are_a_power_of_two(void **state)
{
    struct bytes good[] = { BYTES("partitions"), BYTES("4096") }, bad[] = { BYTES("partitions"), BYTES("48") };
    struct message message;

    assert_true(config_load(*state, good, 2, &message));
    assert_false(config_load(*state, bad, 2, &message));
    assert_string_equal(message.text, "argument must be a power of two");
    assert_shown(*state, "partitions", "4096");
}

/* -- threads -- */

struct racing {
    struct config *config;
    _Atomic bool done;
    bool torn;
};

static void *read_until_done(void *context)
{
    struct racing *racing = context;

    while (!racing->done) {
        int64_t size = config_number(racing->config, CONFIG_MAXMEMORY);
        char *password = config_string(racing->config, CONFIG_REQUIREPASS);
        size_t length = strlen(password);

        racing->torn |= size != 0 && size != 1000 && size != 2000;
        racing->torn |= length != 0 && (length != 100 || password[0] != password[99]);
        mem_free(password);
    }
    return NULL;
}

static void *set_many_times(void *context)
{
    struct racing *racing = context;
    char password[101] = "";
    struct message message;

    for (int i = 0; i < 2000; i++) {
        memset(password, 'a' + i % 26, 100);
        racing->torn |= !set_to(racing->config, "requirepass", password, &message);
        racing->torn |= !set_to(racing->config, "maxmemory", i % 2 ? "1000" : "2000", &message);
    }
    return NULL;
}

static void readers_never_see_a_partial_change(void **state)
{
    struct racing racing = { .config = *state };
    struct racing readers[2] = { { .config = *state }, { .config = *state } };
    pthread_t setters[2], reading[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&reading[i], NULL, read_until_done, &readers[i]), 0);
    struct racing other = racing;
    assert_int_equal(pthread_create(&setters[0], NULL, set_many_times, &racing), 0);
    assert_int_equal(pthread_create(&setters[1], NULL, set_many_times, &other), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(setters[i], NULL);
    for (int i = 0; i < 2; i++) {
        readers[i].done = true;
        pthread_join(reading[i], NULL);
        assert_false(readers[i].torn);
    }
    assert_false(racing.torn || other.torn);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_default_is_shown_as_redis_shows_it),
        TEST(get_all_shows_the_directives_of_redis_and_our_own),
        TEST(the_primary_can_be_set_while_the_server_runs),
        TEST(dir_is_shown_as_an_absolute_path),
        TEST(a_row_is_shown_once_for_all_patterns),
        TEST(a_name_is_shown_as_it_was_written_and_a_match_as_in_the_table),
        TEST(aliases_are_shown_in_addition_and_have_the_same_value),
        TEST(hidden_rows_are_shown_for_their_exact_name_only),
        TEST(rows_for_files_only_are_neither_shown_nor_set),
        TEST(values_are_parsed_and_shown_as_in_redis),
        TEST(an_invalid_value_is_refused_with_the_text_of_redis),
        TEST(a_nul_byte_does_not_truncate_a_string),
        TEST(an_error_shows_the_name_as_in_the_table),
        TEST(a_long_unknown_name_fits_into_the_message),
        TEST(names_are_checked_in_order_before_any_value),
        TEST(every_parser_accepts_or_refuses_hostile_words),
        TEST(numbers_of_every_kind_can_be_read),
        TEST(the_enums_have_the_order_of_the_words),
        TEST(a_percentage_follows_maxmemory),
        TEST(output_limits_can_be_read_as_numbers),
        TEST(any_row_can_be_copied_as_text),
        TEST(protected_directives_can_be_set_with_enable_protected_configs),
        TEST(a_callback_reads_the_new_value_and_is_called_only_for_changes),
        TEST(loading_calls_no_callback),
        TEST(a_refusal_restores_all_values_and_calls_earlier_callbacks_again),
        TEST(a_refusal_without_a_message_is_still_an_error),
        TEST(every_tier_option_can_be_set_while_running),
        TEST(tier_compression_yes_is_zstd),
        TEST(compressed_keys_may_be_deleted_for_room_on_the_disk),
        TEST(the_low_watermark_is_never_above_the_high_one),
        TEST(partitions_are_a_power_of_two),
        TEST(readers_never_see_a_partial_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
