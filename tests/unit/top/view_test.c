/* The tools are no part of the library, so the files under test are included. */
#include "../utils/benchmark/replies.c"
#include "../utils/top/reading.c"
#include "../utils/top/view.c"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"

/* A reading of this text at this second. NULL: it was refused. */
static struct reading *read_info(const char *text, int second, struct message *message)
{
    struct buffer reply = { 0 };
    struct reading *reading;

    buffer_append_format(&reply, "$%zu\r\n%s\r\n", strlen(text), text);
    reading = reading_create(buffer_bytes(&reply), (int64_t)second * 1000000, 0.001, message);
    buffer_release(&reply);
    return reading;
}

static struct reading *must_read(const char *text, int second)
{
    struct message message = { "" };
    struct reading *reading = read_info(text, second, &message);

    assert_string_equal(message.text, "");
    assert_non_null(reading);
    return reading;
}

static void fields_are_found_by_name(void **state)
{
    struct reading *reading = must_read("# Server\r\nrun_id:abc\r\n\r\nused_memory:1024\r\nempty:\r\na:b:c\r\nratio:12.50%\r\nlast:1", 1);
    struct bytes value;
    double number;

    assert_true(reading_is(reading, "run_id", "abc"));
    assert_true(reading_number(reading, "used_memory", &number) && number == 1024);
    assert_true(reading_text(reading, "empty", &value) && value.size == 0);
    assert_true(reading_is(reading, "a", "b:c"));
    assert_true(reading_number(reading, "ratio", &number) && number == 12.5);
    assert_true(reading_number(reading, "last", &number) && number == 1);
    assert_false(reading_text(reading, "used", &value));
    assert_false(reading_number(reading, "run_id", &number));
    assert_false(reading_number(reading, "empty", &number));
    reading_destroy(reading);
}

static void what_is_no_number_is_none(void **state)
{
    struct reading *reading = must_read("a:nan\nb:inf\nc:1e999\nd:12x\ne: 5\nf:0x10\ng:--1\nh:1e5\ni:-3\n"
                                        "j:11111111111111111111111111111111111111111111111111111111111111111111111111111111\n", 1);
    double number;

    for (const char *name = "abcdegj"; *name != '\0'; name++)
        assert_false(reading_number(reading, (char[]){ *name, '\0' }, &number));
    assert_true(reading_number(reading, "h", &number) && number == 1e5);
    assert_true(reading_number(reading, "i", &number) && number == -3);
    reading_destroy(reading);
}

static void other_replies_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *reply, *reason;
    } rows[] = {
        { "-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required." },
        { ":12\r\n", "the reply to INFO is no string" }, { "$-1\r\n", "the reply to INFO is no string" },
        { "*0\r\n", "the reply to INFO is no string" }, { "*1\r\n$3\r\na:b\r\n", "the reply to INFO is no string" },
        { "$0\r\n\r\n", "the reply to INFO has no fields" }, { "$5\r\nhello\r\n", "the reply to INFO has no fields" },
        { "$3\r\n:::\r\n", "the reply to INFO has no fields" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct message message = { "" };

        assert_null(reading_create(bytes_of_string(rows[i].reply), 0, 0, &message));
        assert_string_equal(message.text, rows[i].reason);
    }
}

static void rates_are_of_one_run_of_one_server(void **state)
{
    struct reading *first = must_read("run_id:a\nn:100\nm:5\n", 10), *second = must_read("run_id:a\nn:300\nm:4\n", 12);
    struct reading *other = must_read("run_id:b\nn:900\n", 14), *same_time = must_read("run_id:a\nn:300\n", 10);
    double per_s;

    assert_true(reading_rate(first, second, "n", &per_s) && per_s == 100);
    assert_false(reading_rate(first, second, "m", &per_s));         /* it was reset */
    assert_false(reading_rate(first, second, "none", &per_s));
    assert_false(reading_rate(second, other, "n", &per_s));
    assert_false(reading_rate(first, same_time, "n", &per_s));
    assert_false(reading_follows(NULL, first));
    reading_destroy(first);
    reading_destroy(second);
    reading_destroy(other);
    reading_destroy(same_time);
}

static void parts_of_a_value_are_found(void **state)
{
    struct bytes value = BYTES("calls=3,usec=1.5,xusec=9,state=online,empty=,tail"), part;
    double number;

    assert_true(reading_part_number(value, "calls", &number) && number == 3);
    assert_true(reading_part_number(value, "usec", &number) && number == 1.5);
    assert_true(reading_part(value, "state", &part) && bytes_equal(part, BYTES("online")));
    assert_true(reading_part(value, "empty", &part) && part.size == 0);
    assert_false(reading_part(value, "tail", &part));
    assert_false(reading_part(value, "sec", &part));
    assert_false(reading_part(BYTES(""), "calls", &part));
}

static void advice_is_taken_from_its_sizes(void **state)
{
    static const char reply[] =
        "*6\r\n$9\r\nmaxmemory\r\n:100\r\n$9\r\nhit_ratio\r\n$2\r\n11\r\n$5\r\nsizes\r\n*3\r\n"
        "*4\r\n$6\r\nfactor\r\n$4\r\n0.50\r\n$9\r\nhit_ratio\r\n$5\r\n70.00\r\n"
        "*8\r\n$6\r\nfactor\r\n$4\r\n1.00\r\n$9\r\nhit_ratio\r\n$5\r\n80.00\r\n$16\r\nreads_per_second\r\n$5\r\n10.00\r\n$9\r\nmean_usec\r\n$-1\r\n"
        "*6\r\n$6\r\nfactor\r\n$4\r\n2.00\r\n$9\r\nhit_ratio\r\n$5\r\n90.50\r\n$8\r\np99_usec\r\n$3\r\n7.5\r\n";
    struct advice advice;

    advice_read(bytes_of(reply, sizeof(reply) - 1), &advice);
    assert_true(advice.present.known && advice.present.hit_ratio == 80 && advice.present.reads_per_s == 10);
    assert_true(advice.present.mean_us < 0 && advice.present.p99_us < 0);
    assert_true(advice.doubled.known && advice.doubled.hit_ratio == 90.5 && advice.doubled.p99_us == 7.5 && advice.doubled.reads_per_s < 0);
    advice_read(BYTES("-ERR too few uses\r\n"), &advice);
    assert_false(advice.present.known || advice.doubled.known);
}

static const char kelvin_before[] =
    "run_id:a\nkelvin_version:0.1.0\nredis_version:7.2.5\nrole:master\nuptime_in_seconds:100\nconnected_clients:5\ntier_status:ok\n"
    "tier_memory_counted:52428800\nmaxmemory:104857600\nused_memory_rss:62914560\ntier_hot_hits:1000\ntier_cold_hits:100\ntier_misses:7\n"
    "tier_hot_keys:150000\ntier_cold_keys:1000000\ntier_promotions:100\ntier_loads_waiting:3\ntier_load_usec_p50:90\ntier_load_usec_p99:2500\n"
    "tier_demotions:50\ntier_clean_demotions:10\ntier_store_bytes:1048576\ntier_segment_bytes:1000\ntier_segment_live_bytes:830\n"
    "total_commands_processed:1000\ntotal_error_replies:1\nerrorstat_WRONGTYPE:count=1\naof_enabled:1\naof_rewrite_in_progress:0\n"
    "aof_last_rewrite_time_sec:-1\naof_current_size:3145728\naof_base_size:1048576\nconnected_slaves:2\nmaster_repl_offset:5000\n"
    "slave0:ip=1.2.3.4,port=1,state=online,offset=4000,lag=0\nslave1:ip=1.2.3.5,port=1,state=wait_bgsave,offset=0,lag=0\n"
    "tier_advise_hit_ratio:90.00\ntier_advise_double_hit_ratio:97.50\n"
    "cmdstat_get:calls=10,usec=100,usec_per_call=10,rejected_calls=0,failed_calls=0\n";
static const char kelvin_now[] =
    "run_id:a\nkelvin_version:0.1.0\nredis_version:7.2.5\nrole:master\nuptime_in_seconds:102\nconnected_clients:5\ntier_status:ok\n"
    "tier_memory_counted:52428800\nmaxmemory:104857600\nused_memory_rss:62914560\ntier_hot_hits:1600\ntier_cold_hits:300\ntier_misses:9\n"
    "tier_hot_keys:150000\ntier_cold_keys:1000000\ntier_promotions:300\ntier_loads_waiting:3\ntier_load_usec_p50:90\ntier_load_usec_p99:2500\n"
    "tier_demotions:90\ntier_clean_demotions:20\ntier_store_bytes:1048576\ntier_segment_bytes:1000\ntier_segment_live_bytes:830\n"
    "total_commands_processed:25000\ntotal_error_replies:5\nerrorstat_WRONGTYPE:count=3\nerrorstat_ERR:count=2\naof_enabled:1\n"
    "aof_rewrite_in_progress:0\naof_last_rewrite_time_sec:-1\naof_current_size:3145728\naof_base_size:1048576\nconnected_slaves:2\n"
    "master_repl_offset:5000\nslave0:ip=1.2.3.4,port=1,state=online,offset=4000,lag=0\nslave1:ip=1.2.3.5,port=1,state=wait_bgsave,offset=0,lag=0\n"
    "tier_advise_hit_ratio:90.00\ntier_advise_double_hit_ratio:97.50\n"
    "cmdstat_get:calls=20010,usec=400100,usec_per_call=20,rejected_calls=0,failed_calls=4\n"
    "cmdstat_set:calls=4,usec=8,usec_per_call=2,rejected_calls=0,failed_calls=0\n";

static void assert_view(const struct view *view, int columns, int rows, const char *expected)
{
    struct buffer out = { 0 };

    view_write(view, columns, rows, &out);
    buffer_append_u8(&out, '\0');
    assert_string_equal(out.data, expected);
    buffer_release(&out);
}

static void a_view_shows_what_has_changed_each_second(void **state)
{
    struct reading *before = must_read(kelvin_before, 10), *now = must_read(kelvin_now, 12);
    struct view view = { .server = "host:1", .before = before, .now = now, .failure = "" };

    assert_view(&view, 120, 0,
        "host:1  Kelvin 0.1.0  primary  up 1:42  clients 5\n"
        "memory      [#################.................] 50.0M/100M  50 %  rss 60.0M\n"
        "hits        75.00 % hot  since start 84.21 %  cold 100/s  misses 1/s\n"
        "requests    12.0k/s\n"
        "errors      2/s  WRONGTYPE 2  ERR 2\n"
        "keys        150k hot  1.00M cold\n"
        "loads       100/s  waiting 3  p50 90 us  p99 2.5 ms\n"
        "waits       -\n"
        "demotion    20/s  25 % clean\n"
        "store       1.00M  83 % live\n"
        "checkpoint  none yet  log to replay 2.00M\n"
        "replication 2 replicas  1 in a full synchronization  largest lag 1000\n"
        "2x memory   97.50 % hot  instead of 90.00 %\n"
        "\n"
        "command                   busy   calls/s time/call  failed/s refused/s\n"
        "get                     20.0 %     10.0k     20 us         2         0\n"
        "set                      0.0 %         2      2 us         0         0\n");
    reading_destroy(before);
    reading_destroy(now);
}

static void a_number_that_does_not_fit_its_column_is_left_out(void **state)
{
    struct reading *before = must_read("run_id:a\ncmdstat_get:calls=1,usec=1,failed_calls=0\n", 10);
    struct reading *now = must_read("run_id:a\ncmdstat_get:calls=3,usec=1e40,failed_calls=1e40\n", 11);
    struct view view = { .server = "host:1", .before = before, .now = now, .failure = "" };
    struct buffer out = { 0 };

    view_write(&view, 70, 0, &out);
    buffer_append_u8(&out, '\0');
    assert_non_null(strstr(out.data, "\ncommand                   busy   calls/s time/call  failed/s refused/s\n"
                                     "get                          -         2         -         -         0\n"));
    buffer_release(&out);
    reading_destroy(before);
    reading_destroy(now);
}

static void a_redis_server_has_fewer_fields(void **state)
{
    struct reading *before = must_read("redis_version:7.0.15\nrole:master\nconnected_slaves:0\nused_memory:1048576\nmaxmemory:0\nkeyspace_hits:1\n"
                                       "keyspace_misses:0\ndb0:keys=5,expires=0,avg_ttl=0\ndb3:keys=2,expires=0\n", 1);
    struct reading *now = must_read("redis_version:7.0.15\nrole:master\nconnected_slaves:0\nused_memory:1048576\nmaxmemory:0\nkeyspace_hits:4\n"
                                    "keyspace_misses:1\ndb0:keys=5,expires=0,avg_ttl=0\ndb3:keys=2,expires=0\n", 2);
    struct view view = { .server = "host:1", .before = before, .now = now, .failure = "" };

    assert_view(&view, 60, 9,
        "host:1  Redis 7.0.15  primary\n"
        "memory      1.00M  no maxmemory\n"
        "hits        75.00 % found\n"
        "requests    -\n"
        "errors      -\n"
        "keys        7\n"
        "loads       -\n"
        "demotion    -\n"
        "store       -\n");
    reading_destroy(before);
    reading_destroy(now);
}

static void a_lost_connection_is_the_first_line(void **state)
{
    struct reading *now = must_read(kelvin_now, 12);
    struct view view = { .server = "host:1", .now = NULL, .failure = "Connection refused", .failed_s = 61 };

    assert_view(&view, 80, 24, "host:1  NO CONNECTION  for 1:01  Connection refused\n");
    view.now = now;
    assert_view(&view, 40, 2, "host:1  NO CONNECTION  for 1:01\nmemory      50.0M/100M  50 %  rss 60.0M\n");
    view.failure = "";
    view.now = NULL;
    assert_view(&view, 80, 24, "host:1  connecting\n");
    reading_destroy(now);
}

/* Counts lines, and that each is printable and not too long. */
static int count_lines(struct bytes text, int columns)
{
    int lines = 0, column = 0;

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '\n') {
            lines++;
            column = 0;
        } else {
            assert_true(text.data[i] >= ' ' && text.data[i] <= '~');
            assert_true(++column <= columns);
        }
    }
    assert_int_equal(column, 0);
    return lines;
}

static void a_view_fits_every_window(void **state)
{
    struct reading *before = must_read(kelvin_before, 10), *now = must_read(kelvin_now, 12);
    struct work work = { .kind = WORK_NONE };
    struct view view = { .server = "a.rather.long.name.of.a.server:6379", .before = before, .now = now, .work = &work, .failure = "" };

    for (int columns = -1; columns <= 310; columns += columns < 130 ? 1 : 30) {
        for (int rows = 1; rows <= 110; rows += rows < 30 ? 1 : 20) {
            struct buffer out = { 0 };

            view_write(&view, columns, rows, &out);
            assert_true(count_lines(buffer_bytes(&out), columns) <= rows);
            buffer_release(&out);
        }
    }
    reading_destroy(before);
    reading_destroy(now);
}

/* Random changes of bytes of both readings: whatever a server sends is shown within the window, in printable characters. */
static void any_fields_can_be_shown(void **state)
{
    struct random random;
    uint64_t seed;

    random_system(&seed, sizeof(seed));
    print_message("seed %llu\n", (unsigned long long)seed);
    random_init(&random, seed);
    for (int round = 0; round < 3000; round++) {
        char texts[2][sizeof(kelvin_now)];
        struct reading *readings[2];
        struct message message;
        struct work work = { .kind = WORK_NONE };
        struct view view = { .server = "host:1", .work = &work, .failure = "" };
        struct buffer out = { 0 };
        int columns = (int)(random_next(&random) % 200);

        snprintf(texts[0], sizeof(texts[0]), "%s", kelvin_before);
        snprintf(texts[1], sizeof(texts[1]), "%s", kelvin_now);
        for (int i = 0; i < 2; i++) {
            for (uint64_t changes = random_next(&random) % 200; changes > 0; changes--)
                texts[i][random_next(&random) % (strlen(texts[i]))] = (char)(1 + random_next(&random) % 255);
            readings[i] = read_info(texts[i], 10 + i, &message);
        }
        view.before = readings[0];
        view.now = readings[1];
        if (view.now != NULL)
            work_note(&work, view.now);
        view_write(&view, columns, 40, &out);
        assert_true(count_lines(buffer_bytes(&out), columns) <= 40);
        buffer_release(&out);
        reading_destroy(readings[0]);
        reading_destroy(readings[1]);
    }
}

static void long_work_has_a_bar_and_the_time_left(void **state)
{
    struct work work = { .kind = WORK_NONE };
    struct reading *reading = NULL;

    for (int second = 0; second <= 4; second++) {
        char text[200];

        snprintf(text, sizeof(text), "loading:1\nloading_total_bytes:10485760\nloading_loaded_bytes:%d\n", second * 1048576);
        reading_destroy(reading);
        reading = must_read(text, second + 1);
        work_note(&work, reading);
    }
    struct view view = { .server = "host:1", .now = reading, .work = &work, .failure = "" };
    assert_view(&view, 72, 2, "host:1\nloading     [#######...........] 40 %  0:06 left  1.00M/s  of 10.0M\n");
    reading_destroy(reading);
    reading = must_read("loading:0\ntier_warmup_state:running\ntier_warmup_keys_total:200\ntier_warmup_keys_loaded:50\n", 6);
    work_note(&work, reading);
    view.now = reading;
    assert_view(&view, 72, 2, "host:1\nwarm-up     [####..............] 25 %  of 200\n");
    reading_destroy(reading);
    reading = must_read("role:slave\nmaster_link_status:down\nmaster_last_io_seconds_ago:-1\nmaster_sync_in_progress:1\nmaster_sync_total_bytes:0\n"
                        "master_sync_read_bytes:2097152\n", 7);
    work_note(&work, reading);
    view.now = reading;
    assert_view(&view, 72, 3, "host:1  replica\nfull sync   2.00M\nmemory      -\n");
    reading_destroy(reading);
    reading = must_read("loading:0\ntier_warmup_state:done\n", 7);
    work_note(&work, reading);
    assert_int_equal(work.kind, WORK_NONE);
    reading_destroy(reading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(what_is_no_number_is_none),
        cmocka_unit_test(other_replies_are_refused_with_a_reason),
        cmocka_unit_test(rates_are_of_one_run_of_one_server),
        cmocka_unit_test(parts_of_a_value_are_found),
        cmocka_unit_test(advice_is_taken_from_its_sizes),
        cmocka_unit_test(a_view_shows_what_has_changed_each_second),
        cmocka_unit_test(a_number_that_does_not_fit_its_column_is_left_out),
        cmocka_unit_test(a_redis_server_has_fewer_fields),
        cmocka_unit_test(a_lost_connection_is_the_first_line),
        cmocka_unit_test(a_view_fits_every_window),
        cmocka_unit_test(any_fields_can_be_shown),
        cmocka_unit_test(long_work_has_a_bar_and_the_time_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
