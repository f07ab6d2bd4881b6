#include "lifecycle/full_sync.h"

#include "support/unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/text.h"
#include "lifecycle/task.h"
#include "persist/rdb_reader.h"
#include "support/tier_box.h"
#include "tier/image.h"
#include "value/codec.h"
#include "value/string.h"

enum { KEYS = 3000, READERS = 3, WAIT_S = 60 };

#define REPL_ID "0123456789abcdef0123456789abcdef01234567"

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct full_sync *sync;
    char folder[1000];              /* the working directory before */
    /* What the callbacks saw. */
    _Atomic int instants, grown, ended;
    _Atomic int64_t counter;        /* the key's value at the instant */
    enum status status;
    struct message message;
    struct full_sync_file *file;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };
    struct message message;
    struct bytes words[] = { BYTES("tier-dir"), { NULL, 0 } };

    tier_box_create(&rig->box, &options);
    assert_non_null(getcwd(rig->folder, sizeof(rig->folder)));
    assert_int_equal(chdir(rig->box.root), 0);
    words[1] = bytes_of_string(rig->box.dir);
    assert_true(config_load(rig->box.engine.config, words, 2, &message));
    rig->box.engine.log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    rig->box.engine.tasks = tasks_create(NULL, &rig->box.engine.waiting, rig->box.engine.log);
    rig->sync = full_sync_create(&rig->box.engine);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    full_sync_destroy(rig->sync);
    full_sync_file_release(rig->file);
    tier_image_cancel(rig->box.tier, false);
    tasks_destroy(rig->box.engine.tasks);
    tier_box_close_client(rig->client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    log_destroy(rig->box.engine.log);
    assert_int_equal(chdir(rig->folder), 0);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* With all partitions locked. */
static void at_instant(void *context, struct full_sync_instant *instant)
{
    struct rig *rig = context;
    struct entry *entry;

    for (uint32_t i = 0; i < rig->box.partitions->count; i++)
        ASSERT_LOCKED(&rig->box.partitions->partitions[i]);
    rig->instants++;
    entry = tier_box_entry(&rig->box, 0, "counter");
    if (entry != NULL) {
        struct value value = entry_value(entry);
        char digits[TEXT_INT_SIZE];
        int64_t number = -1;

        CHECK(text_to_int(string_bytes(&value, digits), &number));
        rig->counter = number;
    }
    *instant = (struct full_sync_instant){ .repl_id = REPL_ID, .repl_offset = 12345, .repl_stream_db = 1 };
}

static void when_grown(void *context)
{
    ((struct rig *)context)->grown++;
}

static void when_ended(void *context, enum status status, const struct message *message)
{
    struct rig *rig = context;

    rig->status = status;
    rig->message = *message;
    rig->ended++;
}

static struct full_sync_options options_of(struct rig *rig)
{
    return (struct full_sync_options){
        .context = rig, .instant = at_instant, .grown = when_grown, .ended = when_ended,
        .field_times = RDB_TIMES_REFUSED, .include_keys = true, .include_functions = true,
    };
}

static void start(struct rig *rig, const struct full_sync_options *options)
{
    full_sync_file_release(rig->file);
    rig->ended = rig->instants = rig->grown = 0;
    assert_int_equal(full_sync_start(rig->sync, options, &rig->file), TASK_STARTED);
}

static void await_end(struct rig *rig)
{
    while (rig->ended == 0)
        tier_box_turn(&rig->box.workers[0], BOX_TICK);
    assert_false(full_sync_is_running(rig->sync));
}

/* Names in the data directory, which is the current one, and in tier-dir that a full sync makes. */
static unsigned leftovers_in(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL)
        count += strncmp(entry->d_name, "temp-", 5) == 0;
    closedir(list);
    return count;
}

static unsigned leftovers(const struct rig *rig)
{
    return leftovers_in(".") + leftovers_in(rig->box.dir);
}

static void fill(struct rig *rig, unsigned keys)
{
    char line[300];

    for (unsigned i = 0; i < keys; i++) {
        snprintf(line, sizeof(line), "SET key:%u %0200u", i, i);
        assert_string_equal(tier_box_say(rig->client, line), "+OK\n");
    }
    (void)tier_box_say(rig->client, "SELECT 1");
    (void)tier_box_say(rig->client, "HSET hash f v");
    (void)tier_box_say(rig->client, "SELECT 0");
}

struct contents {
    uint64_t keys;
    int64_t counter;
    char aux[400];
};

static void read_part(struct contents *contents, const struct rdb_part *part)
{
    size_t size = strlen(contents->aux);

    if (part->kind == RDB_PART_AUX && !bytes_is(part->name, "ctime") && !bytes_is(part->name, "used-mem"))
        snprintf(contents->aux + size, sizeof(contents->aux) - size, "%.*s=%.*s ", (int)part->name.size, part->name.data,
            (int)part->value.size, part->value.data);
    if (part->kind != RDB_PART_KEY)
        return;
    contents->keys++;
    if (bytes_is(part->name, "counter")) {
        struct value_limits limits = { .string_unpacked_max = SIZE_MAX };
        struct buffer scratch = { 0 };
        struct value value;
        char digits[TEXT_INT_SIZE];

        assert_int_equal(codec_decode(part->payload, &limits, &scratch, &value), STATUS_OK);
        assert_true(text_to_int(string_bytes(&value, digits), &contents->counter));
    }
}

static struct contents read_contents(const struct full_sync_file *file)
{
    struct rdb_reader *reader = rdb_reader_create_file(full_sync_file_descriptor(file));
    struct contents contents = { .counter = -1 };
    struct rdb_part part;
    struct message message;

    do {
        assert_int_equal(rdb_read(reader, &part, &message), STATUS_OK);
        read_part(&contents, &part);
    } while (part.kind != RDB_PART_END);
    assert_int_equal(rdb_reader_offset(reader), full_sync_file_look(file).size);
    rdb_reader_destroy(reader);
    return contents;
}

/* What redis-check-rdb says about the file. */
static void check_by_redis(const struct full_sync_file *file)
{
    char command[200], text[4000];
    FILE *pipe;
    size_t size;

    snprintf(command, sizeof(command), "redis-check-rdb /proc/%d/fd/%d", (int)getpid(), full_sync_file_descriptor(file));
    pipe = popen(command, "r");
    assert_non_null(pipe);
    size = fread(text, 1, sizeof(text) - 1, pipe);
    text[size] = '\0';
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(strstr(text, "RDB looks OK"));
    assert_non_null(strstr(text, "AUX FIELD repl-stream-db = '1'"));
    assert_non_null(strstr(text, "AUX FIELD repl-id = '" REPL_ID "'"));
    assert_non_null(strstr(text, "AUX FIELD repl-offset = '12345'"));
}

/* A connection's part: reads what is there until the file is complete. */
struct follower {
    pthread_t thread;
    struct full_sync_file *file;
    size_t piece;
    uint64_t size;
    uint32_t sum;
};

static void *follow(void *context)
{
    struct follower *follower = context;
    struct full_sync_view view;
    uint8_t *piece = mem_alloc(follower->piece);

    do {
        view = full_sync_file_look(follower->file);
        for (ssize_t got = 1; got > 0; follower->size += (uint64_t)got) {
            got = full_sync_file_read(follower->file, piece, follower->piece, follower->size);
            CHECK(got >= 0);
            for (ssize_t i = 0; i < got; i++)
                follower->sum = follower->sum * 31 + piece[i];
        }
        sched_yield();
    } while (view.state == FULL_SYNC_RUNNING);
    CHECK(view.state == FULL_SYNC_DONE && follower->size == view.size);
    full_sync_file_release(follower->file);
    mem_free(piece);
    return NULL;
}

static void the_file_has_the_state_of_the_instant(void **state)
{
    static const size_t pieces[READERS] = { 100, 4096, 1 << 20 };
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);
    struct follower followers[READERS] = { 0 };
    struct contents contents;
    int64_t last = 0;

    fill(rig, KEYS);
    (void)tier_box_say(rig->client, "SET counter 0");
    start(rig, &options);
    for (int i = 0; i < READERS; i++) {
        followers[i] = (struct follower){ .file = full_sync_file_hold(rig->file), .piece = pieces[i] };
        assert_int_equal(pthread_create(&followers[i].thread, NULL, follow, &followers[i]), 0);
    }
    while (rig->ended == 0) {           /* the data changes all the time */
        char line[300];

        (void)tier_box_say(rig->client, "INCR counter");
        snprintf(line, sizeof(line), "DEL key:%d", (int)(++last % KEYS));
        (void)tier_box_say(rig->client, line);
        snprintf(line, sizeof(line), "SET key:%d new", (int)(last % KEYS));
        (void)tier_box_say(rig->client, line);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(followers[i].thread, NULL);
    assert_int_equal(rig->status, STATUS_OK);
    assert_int_equal(rig->instants, 1);
    assert_int_equal(rig->ended, 1);
    assert_true(rig->grown >= 2);
    contents = read_contents(rig->file);
    assert_string_equal(contents.aux, "redis-ver=7.2.5 redis-bits=64 repl-stream-db=1 repl-id=" REPL_ID " repl-offset=12345 aof-base=0 ");
    assert_true(contents.counter == rig->counter);
    assert_in_range(contents.keys, KEYS + 1, KEYS + 2);        /* the instant may be between a DEL and a SET */
    assert_int_equal(followers[0].sum, followers[1].sum);
    assert_int_equal(followers[0].sum, followers[2].sum);
    check_by_redis(rig->file);
    assert_int_equal(leftovers(rig), 0);
}

static void one_at_a_time_but_beside_the_other_tasks(void **state)
{
    struct rig *rig = *state;
    struct tasks *tasks = rig->box.engine.tasks;
    struct full_sync_options options = options_of(rig);
    struct full_sync_file *other = NULL;
    struct task_stats stats;

    fill(rig, 10);
    (void)tier_box_say(rig->client, "CONFIG SET rdb-key-save-delay 5000");
    assert_true(task_claim(tasks, TASK_SAVE));
    assert_true(task_claim(tasks, TASK_REWRITE));
    assert_true(task_claim(tasks, TASK_BACKUP));
    start(rig, &options);
    assert_int_equal(full_sync_start(rig->sync, &options, &other), TASK_BUSY);
    assert_null(other);
    assert_true(task_stats(tasks, TASK_FULL_SYNC).running_ms >= 0);
    await_end(rig);
    task_end(tasks, TASK_SAVE, STATUS_OK);
    task_end(tasks, TASK_REWRITE, STATUS_OK);
    task_end(tasks, TASK_BACKUP, STATUS_OK);
    assert_int_equal(rig->status, STATUS_OK);
    stats = task_stats(tasks, TASK_FULL_SYNC);
    assert_int_equal(stats.running_ms, -1);
    assert_int_equal(stats.count, 1);
    assert_int_equal(stats.failures, 0);
    assert_int_equal(full_sync_progress(rig->sync)->keys, 11);
    start(rig, &options);
    assert_false(task_is_postponed(tasks, TASK_SAVE));
    assert_false(task_is_postponed(tasks, TASK_REWRITE));
    assert_true(task_claim(tasks, TASK_SAVE));
    task_end(tasks, TASK_SAVE, STATUS_OK);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_OK);
}

/* A replica that asks for no keys. */
static void keys_can_be_left_out(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);

    fill(rig, 10);
    options.include_keys = false;
    start(rig, &options);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_OK);
    assert_int_equal(read_contents(rig->file).keys, 0);
    check_by_redis(rig->file);
}

static void a_cancelled_one_ends_soon_and_leaves_nothing(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);
    char byte;

    fill(rig, KEYS);
    (void)tier_box_say(rig->client, "CONFIG SET rdb-key-save-delay 100000");
    start(rig, &options);
    while (full_sync_file_look(rig->file).size == 0)
        tier_box_turn(&rig->box.workers[0], BOX_TICK);
    assert_int_equal(leftovers(rig), 1);       /* the image; the file has no name */
    full_sync_cancel(rig->sync);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_CANCELLED);
    assert_string_equal(rig->message.text, "it was cancelled");
    assert_int_equal(full_sync_file_look(rig->file).state, FULL_SYNC_FAILED);
    assert_int_equal(full_sync_file_status(rig->file), STATUS_CANCELLED);
    assert_int_equal(full_sync_file_read(rig->file, &byte, 1, 0), 1);      /* readers may be in the middle of it */
    assert_int_equal(leftovers(rig), 0);
    assert_int_equal(task_stats(rig->box.engine.tasks, TASK_FULL_SYNC).failures, 1);
    (void)tier_box_say(rig->client, "CONFIG SET rdb-key-save-delay 0");
    start(rig, &options);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_OK);
    full_sync_close(rig->sync);
    full_sync_file_release(rig->file);
    assert_int_equal(full_sync_start(rig->sync, &options, &rig->file), TASK_BUSY);
    rig->file = NULL;
}

static void an_image_that_cannot_be_taken_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);

    fill(rig, 10);
    tier_image_cancel(rig->box.tier, true);
    start(rig, &options);
    await_end(rig);
    tier_image_cancel(rig->box.tier, false);
    assert_int_equal(rig->status, STATUS_CANCELLED);
    assert_int_not_equal(rig->message.text[0], '\0');
    assert_int_equal(full_sync_file_look(rig->file).size, 0);
    assert_int_equal(leftovers(rig), 0);
}

/* As on a disk that is full: no file may have more than some bytes. */
static void a_disk_that_accepts_no_more_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);
    struct rlimit before, limit;
    char line[300];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "SET counter:%d %d", i, i);
        (void)tier_box_say(rig->client, line);
    }
    tier_box_settle(&rig->box);
    (void)tier_box_say(rig->client, "CONFIG SET rdb-key-save-delay 1000");
    start(rig, &options);
    while (full_sync_file_look(rig->file).size == 0)
        sched_yield();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 20000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    await_end(rig);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_not_equal(rig->status, STATUS_OK);
    assert_non_null(strstr(rig->message.text, "Write error saving the RDB file: File too large"));
    assert_string_equal(full_sync_file_problem(rig->file), rig->message.text);
    assert_in_range(full_sync_file_look(rig->file).size, 1, 20000);
    assert_int_equal(leftovers(rig), 0);
}

static void a_key_that_the_version_lacks_is_named_or_counted(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);

    fill(rig, 10);
    (void)tier_box_say(rig->client, "HSET timed f v g w");
    assert_string_equal(tier_box_say(rig->client, "HEXPIRE timed 1000 FIELDS 1 f"), "*1\n:1\n");
    start(rig, &options);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_VERSION);
    assert_non_null(strstr(rig->message.text, "'timed'"));
    options.field_times = RDB_TIMES_DROPPED;
    start(rig, &options);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_OK);
    assert_int_equal(full_sync_progress(rig->sync)->times_dropped, 1);
    check_by_redis(rig->file);
    options.field_times = RDB_TIMES_ALLOWED;
    start(rig, &options);
    await_end(rig);
    assert_int_equal(rig->status, STATUS_OK);
    assert_int_equal(read_contents(rig->file).keys, 12);
}

/* The end of the server while one runs. */
static void its_end_waits_for_the_thread(void **state)
{
    struct rig *rig = *state;
    struct full_sync_options options = options_of(rig);

    fill(rig, KEYS);
    (void)tier_box_say(rig->client, "CONFIG SET rdb-key-save-delay 100000");
    start(rig, &options);
    full_sync_destroy(rig->sync);
    assert_int_equal(rig->ended, 1);
    assert_int_equal(rig->status, STATUS_CANCELLED);
    assert_int_equal(leftovers(rig), 0);
    rig->sync = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_file_has_the_state_of_the_instant, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(one_at_a_time_but_beside_the_other_tasks, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(keys_can_be_left_out, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_cancelled_one_ends_soon_and_leaves_nothing, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(an_image_that_cannot_be_taken_is_an_error, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_disk_that_accepts_no_more_is_an_error, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_key_that_the_version_lacks_is_named_or_counted, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(its_end_waits_for_the_thread, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
