#include "base/message.h"
#include "persist/aof.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tree.h"
#include "support/aof_disk.h"

enum { PATH_SIZE = 512, TICK_US = 2000 };

/* A log in a directory of its own, with its notices and the result of a replay. */
struct bench {
    char root[PATH_SIZE], dir[PATH_SIZE + 16];
    struct aof_disk_test disk;
    struct aof *aof;
    enum aof_fsync fsync;
    int64_t tick_us;
    bool load_truncated;
    struct message message;
    struct buffer notices, replayed;    /* replayed: one line per command, its words separated by blanks */
    aof_import *import;                 /* NULL: none */
    void *import_context;
    struct buffer ahead;                /* the same, as passed to the look-ahead function */
    uint64_t ahead_run;                 /* the number of the last one of `ahead` that has run */
    int commands, refuse_at, progress_calls;
    uint64_t progress_done, progress_total;
    pthread_mutex_t lock;               /* what the callback reports */
    pthread_cond_t durable_moved;
};

static void bench_init(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    strcpy(bench->root, "/tmp/kelvin-aof-XXXXXX");
    assert_non_null(mkdtemp(bench->root));
    snprintf(bench->dir, sizeof(bench->dir), "%s/aofdir", bench->root);
    aof_disk_init(&bench->disk, 1);
    pthread_mutex_init(&bench->lock, NULL);
    pthread_cond_init(&bench->durable_moved, NULL);
    bench->fsync = AOF_FSYNC_NO;
    bench->load_truncated = true;
    bench->tick_us = TICK_US;
    bench->refuse_at = -1;
}

static void bench_release(struct bench *bench)
{
    aof_close(bench->aof);
    buffer_release(&bench->notices);
    buffer_release(&bench->replayed);
    buffer_release(&bench->ahead);
    aof_disk_release(&bench->disk);
    pthread_mutex_destroy(&bench->lock);
    pthread_cond_destroy(&bench->durable_moved);
    tree_remove(bench->root);
}

static void write_down(struct buffer *out, const struct bytes *args, int arg_count)
{
    for (int i = 0; i < arg_count; i++) {
        buffer_append_bytes(out, args[i]);
        buffer_append_u8(out, i + 1 < arg_count ? ' ' : '\n');
    }
}

static bool bench_run(void *context, const struct bytes *args, int arg_count, uint64_t number)
{
    struct bench *bench = context;

    size_t begin = bench->replayed.size, size;
    const char *line;

    if (bench->commands++ == bench->refuse_at)
        return false;
    write_down(&bench->replayed, args, arg_count);
    /* Each command was passed to the look-ahead function before, and has the number that it returned, except the SELECT 0 between two files. */
    line = bench->replayed.data + begin;
    size = bench->replayed.size - begin;
    if (number == 0)
        assert_true(size == 9 && memcmp(line, "SELECT 0\n", 9) == 0);
    else if (number <= bench->ahead_run || bench->ahead.size - (number - 1) < size || memcmp(bench->ahead.data + number - 1, line, size) != 0)
        fail_msg("not seen ahead: %.*s", (int)size, line);
    if (number != 0)
        bench->ahead_run = number;
    return true;
}

/* The number of a command is where it is in `ahead`. */
static uint64_t bench_ahead(void *context, const struct bytes *args, int arg_count)
{
    struct bench *bench = context;
    uint64_t number = bench->ahead.size + 1;

    write_down(&bench->ahead, args, arg_count);
    return number;
}

static void bench_progress(void *context, uint64_t done, uint64_t total)
{
    struct bench *bench = context;

    assert_true(done <= total && done >= bench->progress_done);
    bench->progress_calls++;
    bench->progress_done = done;
    bench->progress_total = total;
}

static void bench_notice(void *context, const char *message)
{
    struct bench *bench = context;

    pthread_mutex_lock(&bench->lock);
    buffer_append_string(&bench->notices, message);
    buffer_append_u8(&bench->notices, '\n');
    pthread_cond_broadcast(&bench->durable_moved);
    pthread_mutex_unlock(&bench->lock);
}

static void bench_synced(void *context, uint64_t durable)
{
    struct bench *bench = context;

    pthread_mutex_lock(&bench->lock);
    pthread_cond_broadcast(&bench->durable_moved);
    pthread_mutex_unlock(&bench->lock);
}

static enum status bench_open(struct bench *bench)
{
    struct aof_options options = {
        .dir = bench->dir,
        .name = "appendonly.aof",
        .fsync = bench->fsync,
        .load_truncated = bench->load_truncated,
        .disk = &bench->disk.table,
        .tick_us = bench->tick_us,
    };
    enum status status = aof_open(&options, &bench->aof, &bench->message);

    if (status == STATUS_OK) {
        aof_on_notice(bench->aof, bench_notice, bench);
        aof_on_ahead(bench->aof, bench_ahead, (struct aof_ahead_limits){ 4096, 4 << 20 });
        aof_on_durable(bench->aof, bench_synced, bench);
        aof_on_import(bench->aof, bench->import, bench->import_context);
    } else {
        bench->aof = NULL;
    }
    return status;
}

static enum status bench_reopen(struct bench *bench)
{
    aof_close(bench->aof);
    bench->aof = NULL;
    bench->replayed.size = bench->ahead.size = bench->ahead_run = 0;
    bench->commands = bench->progress_calls = 0;
    bench->progress_done = 0;
    return bench_open(bench);
}

static enum status bench_replay(struct bench *bench)
{
    enum status status = bench_reopen(bench);

    if (status == STATUS_OK)
        status = aof_replay(bench->aof, bench_run, bench_progress, bench, &bench->message);
    return status;
}

/* Opens, replays, starts. */
static void bench_start(struct bench *bench)
{
    enum status status = bench_replay(bench);

    if (status == STATUS_OK)
        status = aof_start(bench->aof, &bench->message);
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), bench->message.text);
}

static void replayed_is(struct bench *bench, const char *expected)
{
    struct bytes text = bytes_of_string(expected);

    if (!bytes_equal(buffer_bytes(&bench->replayed), text))
        fail_msg("replayed\n%.*sinstead of\n%s", (int)bench->replayed.size, bench->replayed.data, expected);
}

static uint64_t set(struct bench *bench, int db, const char *key, const char *value)
{
    struct bytes args[3] = { BYTES("SET"), bytes_of_string(key), bytes_of_string(value) };

    return history_append(aof_history(bench->aof), db, args, 3);
}

static bool notices_say(struct bench *bench, const char *part)
{
    bool found;

    pthread_mutex_lock(&bench->lock);
    buffer_append_u8(&bench->notices, 0);
    bench->notices.size--;
    found = strstr(bench->notices.data, part) != NULL;
    pthread_mutex_unlock(&bench->lock);
    return found;
}

static void durable_await(struct bench *bench, uint64_t lsn)
{
    aof_request_sync(bench->aof, lsn);
    pthread_mutex_lock(&bench->lock);
    while (aof_durable(bench->aof) < lsn)
        pthread_cond_wait(&bench->durable_moved, &bench->lock);
    pthread_mutex_unlock(&bench->lock);
}

static void written_await(struct bench *bench, uint64_t lsn)
{
    pthread_mutex_lock(&bench->lock);
    while (aof_written(bench->aof) < lsn)
        pthread_cond_wait(&bench->durable_moved, &bench->lock);
    pthread_mutex_unlock(&bench->lock);
}

static void file_path(struct bench *bench, const char *name, char *path)
{
    snprintf(path, PATH_SIZE * 2, "%s/%s", bench->dir, name);
}

static void file_put(struct bench *bench, const char *name, const void *data, size_t size)
{
    char path[PATH_SIZE * 2];
    FILE *file;

    mkdir(bench->dir, 0755);
    file_path(bench, name, path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void file_put_string(struct bench *bench, const char *name, const char *text)
{
    file_put(bench, name, text, strlen(text));
}

/* Freed with buffer_release; ends with a NUL byte. */
static struct buffer file_get(struct bench *bench, const char *name)
{
    char path[PATH_SIZE * 2];
    struct buffer text;
    FILE *file;
    size_t size;

    buffer_init(&text);
    file_path(bench, name, path);
    file = fopen(path, "r");
    assert_non_null(file);
    while ((size = fread(buffer_reserve(&text, 4097), 1, 4096, file)) > 0)
        text.size += size;
    text.data[text.size] = 0;
    fclose(file);
    return text;
}

static bool file_exists(struct bench *bench, const char *name)
{
    char path[PATH_SIZE * 2];

    file_path(bench, name, path);
    return access(path, F_OK) == 0;
}

#define MANIFEST "appendonly.aof.manifest"
#define INCR1 "appendonly.aof.1.incr.aof"
#define INCR2 "appendonly.aof.2.incr.aof"
#define INCR3 "appendonly.aof.3.incr.aof"
#define MANIFEST1 "file " INCR1 " seq 1 type i\n"
#define MANIFEST2 MANIFEST1 "file " INCR2 " seq 2 type i\n"

/* Appending and replaying */

static void appended_commands_are_replayed_in_order(void **state)
{
    struct bench bench;
    struct buffer text;
    uint64_t lsn;

    bench_init(&bench);
    bench_start(&bench);
    assert_int_equal(bench.commands, 0);
    set(&bench, 0, "a", "1");
    set(&bench, 0, "b", "");
    lsn = set(&bench, 11, "c", "3");
    assert_int_equal(aof_appended(bench.aof), lsn);
    assert_int_equal(aof_written(bench.aof), 0);
    assert_int_equal(aof_stats(bench.aof).buffer_size, lsn);
    assert_true(aof_flush(bench.aof, lsn));
    assert_int_equal(aof_written(bench.aof), lsn);
    assert_int_equal(aof_stats(bench.aof).buffer_size, 0);
    assert_int_equal(aof_stats(bench.aof).current_size, lsn);
    text = file_get(&bench, INCR1);
    assert_string_equal(text.data, "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
        "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$0\r\n\r\n*2\r\n$6\r\nSELECT\r\n$2\r\n11\r\n*3\r\n$3\r\nSET\r\n$1\r\nc\r\n$1\r\n3\r\n");
    buffer_release(&text);
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, MANIFEST1);
    buffer_release(&text);

    bench_start(&bench);
    replayed_is(&bench, "SELECT 0\nSET a 1\nSET b \nSELECT 11\nSET c 3\n");
    assert_int_equal(bench.progress_done, lsn);
    assert_int_equal(bench.progress_total, lsn);
    assert_int_equal(aof_stats(bench.aof).base_size, lsn);
    set(&bench, 11, "d", "4");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 0\nSET a 1\nSET b \nSELECT 11\nSET c 3\nSELECT 11\nSET d 4\n");
    bench_release(&bench);
}

static void a_group_is_appended_as_one(void **state)
{
    struct bytes incr[2] = { BYTES("INCR"), BYTES("n") };
    struct history_group group;
    struct bench bench;
    struct buffer text;

    bench_init(&bench);
    bench_start(&bench);
    history_group_init(&group);
    assert_int_equal(history_append_group(aof_history(bench.aof), &group), 0);
    history_group_add(&group, 2, incr, 2);
    history_append_group(aof_history(bench.aof), &group);            /* alone: no MULTI */
    history_group_clear(&group);
    history_group_add(&group, 2, incr, 2);
    history_group_add(&group, 5, incr, 2);
    history_group_add(&group, 5, incr, 2);
    history_append_group(aof_history(bench.aof), &group);
    set(&bench, 5, "k", "v");
    history_group_release(&group);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 2\nINCR n\nINCR n\nSELECT 5\nINCR n\nINCR n\nSET k v\n");
    text = file_get(&bench, INCR1);
    assert_non_null(strstr(text.data, "*1\r\n$5\r\nMULTI\r\n"));
    assert_non_null(strstr(text.data, "*1\r\n$4\r\nEXEC\r\n*3"));
    buffer_release(&text);
    bench_release(&bench);
}

static void commands_about_as_large_as_a_chunk_are_replayed(void **state)
{
    const size_t sizes[] = { 0, 1, 9, 10, 99, 100, 65000, 65536, 70000, 262000, 262144, 300000, 3000000 };
    struct history_group group;
    struct bench bench;
    char *value = mem_alloc(3000001);
    struct buffer expected;

    bench_init(&bench);
    bench_start(&bench);
    history_group_init(&group);
    buffer_init(&expected);
    buffer_append_string(&expected, "SELECT 0\n");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int round = 0; round < 3; round++) {
            struct bytes args[3] = { BYTES("SET"), BYTES("k"), bytes_of(value, sizes[i]) };

            memset(value, 'a' + (int)i, sizes[i]);
            if (round < 2) {
                history_append(aof_history(bench.aof), 0, args, 3);
            } else {
                history_group_clear(&group);
                history_group_add(&group, 0, args, 3);
                history_group_add(&group, 0, args, 3);
                history_append_group(aof_history(bench.aof), &group);
                buffer_append_string(&expected, "SET k ");
                buffer_append(&expected, value, sizes[i]);
                buffer_append_u8(&expected, '\n');
            }
            buffer_append_string(&expected, "SET k ");
            buffer_append(&expected, value, sizes[i]);
            buffer_append_u8(&expected, '\n');
            if (round == 1)
                assert_true(aof_flush(bench.aof, aof_appended(bench.aof)));
        }
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&bench.replayed), buffer_bytes(&expected)));
    buffer_release(&expected);
    history_group_release(&group);
    mem_free(value);
    bench_release(&bench);
}

static void two_servers_do_not_share_a_directory(void **state)
{
    struct bench bench;
    struct aof *first;

    bench_init(&bench);
    bench_start(&bench);
    first = bench.aof;
    assert_int_equal(bench_open(&bench), STATUS_LOCKED);
    assert_non_null(strstr(bench.message.text, "in use"));
    aof_close(first);
    bench_release(&bench);
}

/* What is in the files */

static void replay_fails(struct bench *bench, enum status expected, const char *part)
{
    enum status status = bench_replay(bench);

    if (status != expected || strstr(bench->message.text, part) == NULL)
        fail_msg("%s: \"%s\" instead of %s: \"%s\"", status_name(status), bench->message.text, status_name(expected), part);
}

static void bad_records_are_refused_with_file_and_offset(void **state)
{
    const struct { const char *text, *part; } cases[] = {
        { "PING\r\n", INCR1 " at offset 0: expected '*'" },
        { "*1\r\n$4\r\nPING\r\nPING\r\n", INCR1 " at offset 14: expected '*'" },
        { "\r\n*1\r\n$4\r\nPING\r\n", "offset 0" },
        { "*0\r\n*1\r\n$4\r\nPING\r\n", "offset 0" },
        { "*-1\r\n", "offset 0" },
        { "*1\r\n$-1\r\n\r\n", "expected '$'" },
        { "*1\r\n:4\r\nPING\r\n", "expected '$'" },
        { "*1\r\n$4\r\nPINGxx", "CRLF" },
        { "*1\n$4\r\nPING\r\n", "expected '*'" },
        { "*x\r\n", "expected '*'" },
        { "*\r\n", "expected '*'" },
        { "*99999999999999999999999999\r\n", "expected '*'" },
        { "*1\r\n$4\r\nEXEC\r\n", "EXEC without" },
        { "*1\r\n$5\r\nMULTI\r\n*1\r\n$5\r\nmulti\r\n", "offset 15: a MULTI inside" },
        { "*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nINCR\r\nGARBAGE", "offset 29" },
        { "*1\r\n$4\r\nPING\r\n\0\0\0\1", "" },
    };
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, MANIFEST1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cases[i].part[0] == 0)
            file_put(&bench, INCR1, cases[i].text, 18);
        else
            file_put_string(&bench, INCR1, cases[i].text);
        replay_fails(&bench, STATUS_CORRUPT, cases[i].part[0] == 0 ? "offset 14" : cases[i].part);
        aof_close(bench.aof);
        bench.aof = NULL;
    }
    bench_release(&bench);
}

static void annotations_are_skipped(void **state)
{
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, MANIFEST1);
    file_put_string(&bench, INCR1, "#TS:1795247288\r\n*1\r\n$1\r\na\r\n#TS:1795247289\r\n*1\r\n$5\r\nMULTI\r\n#TS:1\r\n"
        "*1\r\n$1\r\nb\r\n#\n*1\r\n$4\r\nEXEC\r\n#TS:1795247290\r\n");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nb\n");
    assert_string_equal(bench.message.text, "");
    bench_release(&bench);
}

/* The base that Redis 7.0 writes when it starts empty. */
static const unsigned char empty_rdb[] = {
    0x52, 0x45, 0x44, 0x49, 0x53, 0x30, 0x30, 0x31, 0x30, 0xfa, 0x09, 0x72, 0x65, 0x64, 0x69, 0x73, 0x2d, 0x76, 0x65, 0x72,
    0x06, 0x37, 0x2e, 0x30, 0x2e, 0x31, 0x35, 0xfa, 0x0a, 0x72, 0x65, 0x64, 0x69, 0x73, 0x2d, 0x62, 0x69, 0x74, 0x73, 0xc0,
    0x40, 0xfa, 0x05, 0x63, 0x74, 0x69, 0x6d, 0x65, 0xc2, 0xb7, 0x4c, 0x01, 0x6b, 0xfa, 0x08, 0x75, 0x73, 0x65, 0x64, 0x2d,
    0x6d, 0x65, 0x6d, 0xc2, 0x10, 0x60, 0x0d, 0x00, 0xfa, 0x08, 0x61, 0x6f, 0x66, 0x2d, 0x62, 0x61, 0x73, 0x65, 0xc0, 0x01,
    0xff, 0xbb, 0xdc, 0xda, 0xbc, 0x6d, 0x90, 0xc0, 0x6a,
};

static void an_empty_base_of_redis_is_accepted_a_full_one_is_not(void **state)
{
    const char *base = "appendonly.aof.1.base.rdb";
    unsigned char rdb[sizeof(empty_rdb) + 16];
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, "file appendonly.aof.1.base.rdb seq 1 type b\n" MANIFEST1);
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n");
    file_put(&bench, base, empty_rdb, sizeof(empty_rdb));
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 0\na\n");
    assert_int_equal(bench.progress_done, sizeof(empty_rdb) + 11);
    assert_null(aof_base(bench.aof));
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);

    /* Any flipped bit is found: by the checksum, or before. */
    for (size_t bit = 0; bit < sizeof(empty_rdb) * 8; bit += 7) {
        memcpy(rdb, empty_rdb, sizeof(empty_rdb));
        rdb[bit / 8] ^= (unsigned char)(1 << bit % 8);
        file_put(&bench, base, rdb, sizeof(empty_rdb));
        assert_int_not_equal(bench_replay(&bench), STATUS_OK);
        assert_non_null(strstr(bench.message.text, base));
    }
    for (size_t size = 1; size < sizeof(empty_rdb); size++) {
        file_put(&bench, base, empty_rdb, size);
        assert_int_not_equal(bench_replay(&bench), STATUS_OK);
        assert_non_null(strstr(bench.message.text, "offset"));
    }

    rdb[80] = 0;                                    /* a string of type 0 follows */
    memcpy(rdb, empty_rdb, 80);
    memcpy(rdb + 81, "\1k\1v\xff", 5);
    file_put(&bench, base, rdb, 86 + 8);
    replay_fails(&bench, STATUS_VERSION, base);
    file_put(&bench, base, empty_rdb, sizeof(empty_rdb) - 1);
    replay_fails(&bench, STATUS_TRUNCATED, "appendonly.aof.1.base.rdb can't be loaded");
    /* Commands may follow the RDB, or make up the base alone. */
    memcpy(rdb, empty_rdb, sizeof(empty_rdb));
    memcpy(rdb + sizeof(empty_rdb), "*1\r\n$1\r\nb\r\n", 11);
    file_put(&bench, base, rdb, sizeof(empty_rdb) + 11);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "b\nSELECT 0\na\n");
    file_put(&bench, base, "*1\r\n$1\r\nc\r\n", 11);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "c\nSELECT 0\na\n");
    file_put(&bench, base, "*1\r\n$1\r\nc", 9);
    replay_fails(&bench, STATUS_CORRUPT, "offset 0");
    bench_release(&bench);
}

/* An import function that skips `size` bytes as the RDB. */
struct importer {
    uint64_t size, told;
    enum status status;
};

static enum status import(void *context, int fd, aof_import_progress *progress, void *progress_context, uint64_t *size, struct message *message)
{
    struct importer *importer = context;
    char head[5];

    assert_int_equal(pread(fd, head, 5, 0), 5);
    assert_memory_equal(head, "REDIS", 5);
    progress(progress_context, importer->told);
    *size = importer->size;
    if (importer->status != STATUS_OK)
        message_set(message, "odd at offset 3");
    return importer->status;
}

static void an_rdb_is_imported_and_commands_after_it_are_run(void **state)
{
    const char *base = "appendonly.aof.1.base.rdb";
    struct importer importer = { .size = 12, .told = 7 };
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, "file appendonly.aof.1.base.rdb seq 1 type b\n" MANIFEST1);
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n");
    file_put_string(&bench, base, "REDIS*******" "*1\r\n$1\r\nb\r\n");
    bench.import = import;
    bench.import_context = &importer;
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "b\nSELECT 0\na\n");
    assert_int_equal(bench.progress_done, 34);
    importer.status = STATUS_NO_SPACE;
    assert_int_equal(bench_replay(&bench), STATUS_NO_SPACE);
    assert_non_null(strstr(bench.message.text, "odd at offset 3"));
    assert_non_null(strstr(bench.message.text, base));
    bench_release(&bench);
}

static void outside_put(const struct bench *bench, const char *name, const char *text)
{
    char path[PATH_SIZE + 32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", bench->root, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static bool outside_exists(const struct bench *bench, const char *name)
{
    char path[PATH_SIZE + 32];

    snprintf(path, sizeof(path), "%s/%s", bench->root, name);
    return access(path, F_OK) == 0;
}

static void a_log_of_before_redis_7_is_adopted(void **state)
{
    const struct bytes words[] = { BYTES("c") };
    struct bench bench;
    struct buffer text;

    bench_init(&bench);
    outside_put(&bench, "appendonly.aof", "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    assert_false(aof_is_new(bench.aof));
    assert_non_null(strstr(aof_adopted(bench.aof), "appendonly.aof"));
    replayed_is(&bench, "a\nb\n");
    assert_non_null(strstr(bench.message.text, "cut off"));
    assert_true(outside_exists(&bench, "appendonly.aof"));      /* until the log is complete without it */
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
    assert_false(outside_exists(&bench, "appendonly.aof"));
    history_append(aof_history(bench.aof), 0, words, 1);
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, "file appendonly.aof seq 1 type b\nfile " INCR1 " seq 1 type i\n");
    buffer_release(&text);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nb\nSELECT 0\nSELECT 0\nc\n");
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
    /* A manifest wins, as with Redis. */
    outside_put(&bench, "appendonly.aof", "*1\r\n$1\r\nx\r\n");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nb\nSELECT 0\nSELECT 0\nc\n");
    assert_true(outside_exists(&bench, "appendonly.aof"));
    bench_release(&bench);
}

static void a_move_that_redis_has_begun_is_completed(void **state)
{
    struct bench bench;
    struct buffer text;

    bench_init(&bench);
    outside_put(&bench, "appendonly.aof", "*1\r\n$1\r\na\r\n");
    file_put_string(&bench, MANIFEST, "file appendonly.aof seq 1 type b\n");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\n");
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
    assert_false(outside_exists(&bench, "appendonly.aof"));
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, "file appendonly.aof seq 1 type b\nfile " INCR1 " seq 1 type i\n");
    buffer_release(&text);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nSELECT 0\n");
    bench_release(&bench);
}

static void a_move_is_not_repeated_when_the_file_has_arrived_or_is_nowhere(void **state)
{
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, "file appendonly.aof seq 1 type b\n");
    assert_int_not_equal(bench_replay(&bench), STATUS_OK);
    assert_non_null(strstr(bench.message.text, "appendonly.aof that the manifest names can't be read"));
    outside_put(&bench, "appendonly.aof", "*1\r\n$1\r\nx\r\n");
    file_put_string(&bench, "appendonly.aof", "*1\r\n$1\r\na\r\n");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\n");
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
    assert_true(outside_exists(&bench, "appendonly.aof"));
    bench_release(&bench);
}

static void a_dump_is_adopted_and_stays_where_it_is(void **state)
{
    struct importer importer = { .size = 5 };
    char path[PATH_SIZE + 64];
    struct bench bench;
    struct buffer text;

    bench_init(&bench);
    outside_put(&bench, "dump.rdb", "REDIS");
    snprintf(path, sizeof(path), "%s/dump.rdb", bench.root);
    for (int round = 0; round < 2; round++) {       /* in the second one the base's name is the name of another file */
        bench.import = import;
        bench.import_context = &importer;
        assert_int_equal(bench_reopen(&bench), STATUS_OK);
        assert_true(aof_is_new(bench.aof));
        aof_adopt(bench.aof, path);
        assert_int_equal(aof_replay(bench.aof, bench_run, bench_progress, &bench, &bench.message), STATUS_OK);
        assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
        assert_null(aof_adopted(bench.aof));
        assert_true(outside_exists(&bench, "dump.rdb"));
        text = file_get(&bench, MANIFEST);
        if (round == 0)
            assert_string_equal(text.data, "file appendonly.aof.imported.1.rdb seq 1 type b\nfile " INCR1 " seq 1 type i\n");
        else
            assert_string_equal(text.data, "file appendonly.aof.imported.2.rdb seq 2 type b\nfile " INCR1 " seq 1 type i\n");
        buffer_release(&text);
        aof_close(bench.aof);
        bench.aof = NULL;
        snprintf(path, sizeof(path), "%s/%s", bench.dir, MANIFEST);
        unlink(path);
        snprintf(path, sizeof(path), "%s/dump.rdb", bench.root);
        unlink(path);
        outside_put(&bench, "dump.rdb", "REDIS*1\r\n$1\r\na\r\n");
    }
    bench_release(&bench);
}

/* Copies the bench's directory before the chosen call of the disk, as a killed process would leave it. */
struct killer {
    struct bench *bench;
    int calls, turn;
};

static void kill_at_turn(void *context)
{
    struct killer *killer = context;
    char command[PATH_SIZE * 3];

    if (killer->calls++ != killer->turn)
        return;
    snprintf(command, sizeof(command), "cp -a %s %s.killed", killer->bench->root, killer->bench->root);
    assert_int_equal(system(command), 0);
}

/* A start on the files of `bench`: the result has to be the same, whatever was already done. */
static void adopt_and_start(struct bench *bench, bool is_dump, const char *expected)
{
    char path[PATH_SIZE + 32];

    snprintf(path, sizeof(path), "%s/dump.rdb", bench->root);
    assert_int_equal(bench_reopen(bench), STATUS_OK);
    if (is_dump && aof_is_new(bench->aof))
        aof_adopt(bench->aof, path);
    assert_false(aof_is_new(bench->aof));
    assert_int_equal(aof_replay(bench->aof, bench_run, bench_progress, bench, &bench->message), STATUS_OK);
    for (size_t size; bench->replayed.size > 9 && memcmp(bench->replayed.data, "SELECT 0\n", 9) == 0; bench->replayed.size = size) {
        size = bench->replayed.size - 9;
        memmove(bench->replayed.data, bench->replayed.data + 9, size);
    }
    assert_true(bench->replayed.size >= strlen(expected));
    assert_memory_equal(bench->replayed.data, expected, strlen(expected));
    assert_int_equal(aof_start(bench->aof, &bench->message), STATUS_OK);
}

static void a_kill_while_a_base_is_adopted_loses_nothing(void **state)
{
    struct importer importer = { .size = 5 };
    const char *text[] = { "*1\r\n$1\r\na\r\n", "REDIS*1\r\n$1\r\na\r\n" };
    bool more = true;

    for (int turn = 0; more; turn++) {
        more = false;
        for (int is_dump = 0; is_dump < 2; is_dump++) {
            struct bench bench, killed;
            struct killer killer = { &bench, 0, turn };

            bench_init(&bench);
            bench_init(&killed);
            bench.import = killed.import = import;
            bench.import_context = killed.import_context = &importer;
            outside_put(&bench, is_dump ? "dump.rdb" : "appendonly.aof", text[is_dump]);
            bench.disk.before = kill_at_turn;
            bench.disk.context = &killer;
            adopt_and_start(&bench, is_dump, "a\n");
            bench.disk.before = NULL;
            if (killer.calls > turn) {
                more = true;
                assert_int_equal(rmdir(killed.root), 0);
                snprintf(killed.root, sizeof(killed.root), "%.200s.killed", bench.root);
                snprintf(killed.dir, sizeof(killed.dir), "%.300s/aofdir", killed.root);
                adopt_and_start(&killed, is_dump, "a\n");
                adopt_and_start(&killed, is_dump, "a\n");
            }
            bench_release(&killed);
            bench_release(&bench);
        }
    }
}

/* Each call of the disk fails once; the next start finds all data. */
static void a_disk_that_fails_while_a_base_is_adopted_loses_nothing(void **state)
{
    struct importer importer = { .size = 5 };

    for (int kind = 0; kind < 4; kind++) {
        bool is_dump = kind % 2;
        struct bench bench;

        bench_init(&bench);
        bench.import = import;
        bench.import_context = &importer;
        outside_put(&bench, is_dump ? "dump.rdb" : "appendonly.aof", is_dump ? "REDIS*1\r\n$1\r\na\r\n" : "*1\r\n$1\r\na\r\n");
        for (int failures = 0; failures < 3; failures++) {
            char path[PATH_SIZE + 32];

            snprintf(path, sizeof(path), "%s/dump.rdb", bench.root);
            assert_int_equal(bench_reopen(&bench), STATUS_OK);
            if (is_dump && aof_is_new(bench.aof))
                aof_adopt(bench.aof, path);
            assert_int_equal(aof_replay(bench.aof, bench_run, bench_progress, &bench, &bench.message), STATUS_OK);
            if (kind < 2)
                bench.disk.next_sync_fails = 1;
            else
                bench.disk.fsync_fails = 1000;
            assert_int_not_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
            assert_string_not_equal(bench.message.text, "");
            bench.disk.next_sync_fails = bench.disk.fsync_fails = 0;
        }
        adopt_and_start(&bench, is_dump, "a\n");
        bench_release(&bench);
    }
}

static void missing_files_and_refused_commands_stop_the_replay(void **state)
{
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, MANIFEST2);
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
    replay_fails(&bench, STATUS_NOT_FOUND, INCR2);
    file_put_string(&bench, INCR2, "*1\r\n$5\r\nMULTI\r\n*1\r\n$1\r\nc\r\n*1\r\n$4\r\nEXEC\r\n");
    bench.refuse_at = 1;
    replay_fails(&bench, STATUS_INVALID, "offset 11 of the AOF file " INCR1);
    bench.refuse_at = 3;
    replay_fails(&bench, STATUS_INVALID, "offset 15 of the AOF file " INCR2);
    bench.refuse_at = -1;
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nb\nSELECT 0\nc\n");
    bench_release(&bench);
}

static void history_is_deleted_at_the_start(void **state)
{
    struct bench bench;
    struct buffer text;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, "file old seq 1 type h\n" MANIFEST1);
    file_put_string(&bench, "old", "not a log");
    file_put_string(&bench, INCR1, "");
    bench_start(&bench);
    assert_false(file_exists(&bench, "old"));
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, MANIFEST1);
    buffer_release(&text);
    bench_release(&bench);
}

static void a_manifest_that_was_being_written_is_removed_at_the_start(void **state)
{
    struct bench bench;
    char path[PATH_SIZE * 2];

    bench_init(&bench);
    bench_start(&bench);
    aof_close(bench.aof);
    bench.aof = NULL;
    file_put_string(&bench, "temp-appendonly.aof.manifest", "file app");
    bench_start(&bench);
    file_path(&bench, "temp-appendonly.aof.manifest", path);
    assert_int_equal(access(path, F_OK), -1);
    bench_release(&bench);
}

/* Cut at every byte: exactly the complete commands and groups are replayed. */
static void a_tail_torn_at_any_byte_is_cut_to_whole_commands(void **state)
{
    struct bytes incr[2] = { BYTES("INCR"), BYTES("n") };
    struct bench bench;
    struct history_group group;
    struct buffer text;
    uint64_t ends[6];
    const char *expected[7] = { "", "SELECT 0\nSET a 1\n", "SELECT 0\nSET a 1\nINCR n\nINCR n\nINCR n\n",
        "SELECT 0\nSET a 1\nINCR n\nINCR n\nINCR n\nSELECT 3\nSET b 22\n", NULL };

    bench_init(&bench);
    bench_start(&bench);
    ends[0] = set(&bench, 0, "a", "1");
    history_group_init(&group);
    for (int i = 0; i < 3; i++)
        history_group_add(&group, 0, incr, 2);
    ends[1] = history_append_group(aof_history(bench.aof), &group);
    ends[2] = set(&bench, 3, "b", "22");
    history_group_release(&group);
    aof_close(bench.aof);
    bench.aof = NULL;
    text = file_get(&bench, INCR1);
    assert_int_equal(text.size, ends[2]);
    for (size_t size = 0; size <= text.size; size++) {
        int whole = 0;
        uint64_t selects[2] = { 23, ends[1] + 23 };      /* a SELECT alone is a command too */

        while (whole < 3 && ends[whole] <= size)
            whole++;
        file_put(&bench, INCR1, text.data, size);
        bench.load_truncated = false;
        if (size != 0 && size != selects[0] && size != selects[1] && (whole == 0 || ends[whole - 1] != size)) {
            replay_fails(&bench, STATUS_TRUNCATED, INCR1);
        } else {
            assert_int_equal(bench_replay(&bench), STATUS_OK);
        }
        bench.load_truncated = true;
        /* After a start and a write after the cut, it is a valid log again. */
        bench_start(&bench);
        if (size >= selects[0] && size < ends[0])
            replayed_is(&bench, "SELECT 0\n");
        else if (size >= selects[1] && size < ends[2])
            assert_int_equal(bench.commands, 6);
        else
            replayed_is(&bench, expected[whole]);
        set(&bench, 0, "z", "9");
        assert_int_equal(bench_replay(&bench), STATUS_OK);
        assert_string_equal(bench.message.text, "");
        assert_true(bench.replayed.size > 8);
        assert_memory_equal(bench.replayed.data + bench.replayed.size - 8, "SET z 9\n", 8);
    }
    buffer_release(&text);
    bench_release(&bench);
}

/* Whichever bit of a log is flipped: nothing except the last command is cut off. */
static void a_flipped_bit_is_damage_and_not_a_torn_end(void **state)
{
    struct bytes incr[2] = { BYTES("INCR"), BYTES("n") };
    struct bench bench;
    struct history_group group;
    struct buffer text;
    int commands, refused = 0;

    bench_init(&bench);
    bench_start(&bench);
    set(&bench, 0, "a", "1");
    set(&bench, 0, "b", "a value of some length");
    history_group_init(&group);
    for (int i = 0; i < 3; i++)
        history_group_add(&group, 0, incr, 2);
    history_append_group(aof_history(bench.aof), &group);
    history_group_release(&group);
    set(&bench, 0, "c", "");
    set(&bench, 0, "d", "4");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    commands = bench.commands;
    text = file_get(&bench, INCR1);
    for (size_t bit = 0; bit < text.size * 8; bit++) {
        enum status status;

        text.data[bit / 8] = (char)(text.data[bit / 8] ^ 1 << bit % 8);
        file_put(&bench, INCR1, text.data, text.size);
        text.data[bit / 8] = (char)(text.data[bit / 8] ^ 1 << bit % 8);
        status = bench_replay(&bench);
        if (status == STATUS_OK && bench.commands < commands - 1)
            fail_msg("byte %zu, bit %zu: %s", bit / 8, bit % 8, bench.message.text);
        else if (status != STATUS_OK)
            assert_int_equal(status, STATUS_CORRUPT);
        refused += status != STATUS_OK;
    }
    assert_true(refused > 500);
    buffer_release(&text);
    bench_release(&bench);
}

/* Between the flipped bit and the next command is a value larger than one read; and a torn value of that size is torn. */
static void a_flipped_bit_before_a_large_value_is_damage_too(void **state)
{
    enum { SIZE = 3 << 20 };
    struct bench bench;
    struct buffer text;
    char *value = mem_alloc(SIZE + 1), *length;

    memset(value, 'v', SIZE);
    value[SIZE] = 0;
    bench_init(&bench);
    bench_start(&bench);
    set(&bench, 0, "a", "1");
    set(&bench, 0, "b", value);
    set(&bench, 0, "c", "3");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    aof_close(bench.aof);
    bench.aof = NULL;
    text = file_get(&bench, INCR1);
    length = strstr(text.data, "$3145728");
    assert_non_null(length);
    length[1] = '7';
    file_put(&bench, INCR1, text.data, text.size);
    replay_fails(&bench, STATUS_CORRUPT, "whole ones go on at offset");
    file_put(&bench, INCR1, text.data, text.size - 27);         /* the last command now */
    replay_fails(&bench, STATUS_CORRUPT, "a command with a wrong length, the last one");
    length[1] = '3';
    file_put(&bench, INCR1, text.data, text.size - 100);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 0\nSET a 1\n");
    mem_free(value);
    buffer_release(&text);
    bench_release(&bench);
}

/* A power cut may leave a file with its size but without its bytes. */
static void a_tail_of_zeros_is_cut_like_a_torn_one(void **state)
{
    static const char log[] = "*1\r\n$1\r\na\r\n*1\r\n$5\r\n\0\0b\0\0\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$1\r\nc\r\n*1\r\n$4\r\nEXEC\r\n";
    enum { SIZE = sizeof(log) - 1, FIRST = 11, SECOND = 26, ZEROS = 5000 };
    char text[SIZE + ZEROS];
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, MANIFEST1);
    for (size_t size = 0; size <= SIZE; size++) {
        memset(text, 0, sizeof(text));
        memcpy(text, log, size);
        file_put(&bench, INCR1, text, size + ZEROS);
        bench.load_truncated = false;
        replay_fails(&bench, STATUS_TRUNCATED, INCR1);
        bench.load_truncated = true;
        assert_int_equal(bench_replay(&bench), STATUS_OK);
        assert_int_equal(bench.commands, (size >= FIRST) + (size >= SECOND) + (size >= SIZE));
        assert_int_equal(bench_replay(&bench), STATUS_OK);
        assert_string_equal(bench.message.text, "");
    }
    memcpy(text, "*1\r\n$1\r\na\r\nwhat", 15);
    file_put(&bench, INCR1, text, SIZE + ZEROS);
    replay_fails(&bench, STATUS_CORRUPT, INCR1 " at offset 11");
    bench_release(&bench);
}

static void only_the_last_file_with_bytes_may_be_torn(void **state)
{
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, MANIFEST2);
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n*1\r\n");
    file_put_string(&bench, INCR2, "*1\r\n$1\r\nb\r\n");
    replay_fails(&bench, STATUS_CORRUPT, INCR1 " ends early, at offset 11");
    /* A checkpoint had prepared the next increment when the server was killed. */
    file_put_string(&bench, INCR2, "");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nSELECT 0\n");
    assert_non_null(strstr(bench.message.text, INCR1 " ended in the middle of a command: 4 bytes were cut off at offset 11"));
    assert_int_equal(aof_start(bench.aof, &bench.message), STATUS_OK);
    set(&bench, 0, "c", "1");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nSELECT 0\nSELECT 0\nSET c 1\n");
    bench_release(&bench);
}

/* A disk that fails */

/* Like write(2), which moves at most 2 GiB - 4 KiB. */
static void the_rest_is_written_after_a_short_write(void **state)
{
    enum { SIZE = 1 << 20, WRITE_MAX = 100000 };
    struct bench bench;
    char *value = mem_alloc(SIZE + 1);

    memset(value, 'v', SIZE);
    value[SIZE] = 0;
    bench_init(&bench);
    bench.tick_us = INT64_C(3600000000);             /* no second try */
    bench_start(&bench);
    bench.disk.write_max = WRITE_MAX;
    assert_true(aof_flush(bench.aof, set(&bench, 0, "a", value)));
    bench.disk.next_write_short = 3;
    assert_true(aof_flush(bench.aof, set(&bench, 0, "b", "2")));
    assert_int_equal(aof_error(bench.aof), STATUS_OK);
    assert_int_equal(bench.notices.size, 0);
    assert_int_equal(aof_stats(bench.aof).current_size, aof_appended(bench.aof));
    bench.disk.write_max = 0;
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    assert_string_equal(bench.message.text, "");
    assert_int_equal(bench.replayed.size, 9 + 6 + SIZE + 1 + 8);
    assert_int_equal(bench.commands, 3);
    mem_free(value);
    bench_release(&bench);
}

static void a_short_write_is_cut_off_if_the_rest_fails(void **state)
{
    struct bench bench;
    struct buffer text;
    uint64_t lsn;

    bench_init(&bench);
    bench.tick_us = INT64_C(3600000000);             /* no second try before the check */
    bench_start(&bench);
    assert_true(aof_flush(bench.aof, set(&bench, 0, "a", "1")));
    bench.disk.next_write_short = bench.disk.next_write_fails = 1;
    lsn = set(&bench, 0, "b", "2");
    assert_false(aof_flush(bench.aof, lsn));
    assert_int_equal(aof_error(bench.aof), STATUS_NO_SPACE);
    assert_int_equal(aof_error_number(bench.aof), ENOSPC);
    assert_true(notices_say(&bench, "a write failed"));
    text = file_get(&bench, INCR1);
    assert_int_equal(text.size, aof_written(bench.aof));
    buffer_release(&text);
    set(&bench, 0, "c", "3");
    assert_false(aof_flush(bench.aof, lsn));
    assert_int_equal(aof_stats(bench.aof).buffer_size, 2 * 27);
    assert_int_equal(bench_replay(&bench), STATUS_OK);  /* closing tries once more */
    replayed_is(&bench, "SELECT 0\nSET a 1\nSET b 2\nSET c 3\n");
    bench_release(&bench);
}

static void writes_that_fail_are_tried_again_by_the_flusher(void **state)
{
    struct bench bench;
    uint64_t lsn;

    bench_init(&bench);
    bench_start(&bench);
    bench.disk.next_write_fails = 3;
    bench.disk.next_truncate_fails = 2;
    lsn = set(&bench, 0, "a", "1");
    assert_false(aof_flush(bench.aof, lsn));
    written_await(&bench, lsn);
    assert_int_equal(aof_error(bench.aof), STATUS_OK);
    assert_true(notices_say(&bench, "a write failed"));
    assert_true(notices_say(&bench, "accepts writes again"));
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 0\nSET a 1\n");
    bench_release(&bench);
}

static void a_partial_command_that_could_not_be_cut_off_is_cut_before_the_next_write(void **state)
{
    struct bench bench;
    uint64_t lsn;

    bench_init(&bench);
    bench_start(&bench);
    bench.disk.next_write_short = bench.disk.next_write_fails = 1;
    bench.disk.next_truncate_fails = 4;
    lsn = set(&bench, 0, "a", "1");
    assert_false(aof_flush(bench.aof, lsn));
    written_await(&bench, lsn);
    assert_int_equal(bench.disk.next_truncate_fails, 0);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    assert_string_equal(bench.message.text, "");
    replayed_is(&bench, "SELECT 0\nSET a 1\n");
    bench_release(&bench);
}

static void after_a_failed_fsync_the_log_goes_on_in_a_new_increment(void **state)
{
    struct bench bench;
    struct buffer text;
    uint64_t lsn;

    bench_init(&bench);
    bench_start(&bench);
    durable_await(&bench, set(&bench, 4, "a", "1"));
    set(&bench, 4, "b", "2");
    bench.disk.next_sync_fails = 1;
    lsn = set(&bench, 4, "c", "3");
    assert_true(aof_flush(bench.aof, lsn));
    durable_await(&bench, lsn);
    assert_int_equal(aof_error(bench.aof), STATUS_OK);
    assert_true(notices_say(&bench, "an fsync failed"));
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, "file " INCR1 " seq 1 type i validsize 50\nfile " INCR2 " seq 2 type i\n");
    buffer_release(&text);
    text = file_get(&bench, INCR1);
    assert_int_equal(text.size, 50);
    buffer_release(&text);
    durable_await(&bench, set(&bench, 4, "d", "4"));
    assert_int_equal(aof_stats(bench.aof).current_size, 50 + 23 + 3 * 27);
    bench_start(&bench);
    replayed_is(&bench, "SELECT 4\nSET a 1\nSELECT 0\nSELECT 4\nSET b 2\nSET c 3\nSET d 4\n");
    bench_release(&bench);
}

/* Killed between the rename and the truncation: the old file is longer than what counts. */
static void bytes_after_validsize_do_not_count(void **state)
{
    struct bench bench;

    bench_init(&bench);
    file_put_string(&bench, MANIFEST, "file " INCR1 " seq 1 type i validsize 11\nfile " INCR2 " seq 2 type i\n");
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
    file_put_string(&bench, INCR2, "*1\r\n$1\r\nb\r\n");
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "a\nSELECT 0\nb\n");
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na");
    replay_fails(&bench, STATUS_CORRUPT, INCR1);
    /* Such a file is not appended to, even if it is the last one. */
    file_put_string(&bench, MANIFEST, "file " INCR1 " seq 1 type i validsize 11\n");
    file_put_string(&bench, INCR1, "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n");
    bench_start(&bench);
    {
        struct buffer text = file_get(&bench, INCR1);

        assert_string_equal(text.data, "*1\r\n$1\r\na\r\n");
        buffer_release(&text);
    }
    set(&bench, 0, "c", "3");
    bench_start(&bench);
    replayed_is(&bench, "a\nSELECT 0\nSELECT 0\nSET c 3\n");
    bench_release(&bench);
}

static void dropped_pages_lose_the_log_and_are_reported(void **state)
{
    struct bench bench;
    uint64_t lsn;

    bench_init(&bench);
    bench_start(&bench);
    durable_await(&bench, set(&bench, 0, "a", "1"));
    bench.disk.next_sync_fails = 1;
    bench.disk.sync_zeroes = true;
    lsn = set(&bench, 0, "b", "2");
    assert_true(aof_flush(bench.aof, lsn));
    aof_request_sync(bench.aof, lsn);
    pthread_mutex_lock(&bench.lock);
    while (!aof_is_lost(bench.aof))
        pthread_cond_wait(&bench.durable_moved, &bench.lock);
    pthread_mutex_unlock(&bench.lock);
    lsn = set(&bench, 0, "c", "3");
    assert_false(aof_flush(bench.aof, lsn));
    assert_int_equal(aof_error(bench.aof), STATUS_IO);
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_IO);
    aof_close(bench.aof);
    bench.aof = NULL;
    assert_true(notices_say(&bench, "The log is lost"));
    /* The zeros are not a command: the replay ends where the last good fsync did, and a message says so. */
    bench.load_truncated = false;
    replay_fails(&bench, STATUS_TRUNCATED, "offset 50");
    bench.load_truncated = true;
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 0\nSET a 1\n");
    assert_non_null(strstr(bench.message.text, "bytes were cut off at offset 50"));
    bench_release(&bench);
}

/* Threads that wait for an fsync */

struct waiter {
    struct bench *bench;
    pthread_t thread;
    int number;
};

static void *waiter_main(void *context)
{
    struct waiter *waiter = context;
    char key[16];
    uint64_t lsn;

    snprintf(key, sizeof(key), "k%d", waiter->number);
    lsn = set(waiter->bench, 0, key, "v");
    aof_flush(waiter->bench->aof, lsn);
    durable_await(waiter->bench, lsn);
    return NULL;
}

static void one_fsync_serves_all_waiting_threads(void **state)
{
    enum { WAITERS = 16 };
    struct bench bench;
    struct waiter waiters[WAITERS];
    int before;

    bench_init(&bench);
    bench.fsync = AOF_FSYNC_ALWAYS;
    bench.tick_us = 0;
    bench_start(&bench);
    before = bench.disk.syncs;
    bench.disk.sync_held = true;
    aof_request_sync(bench.aof, set(&bench, 0, "first", "1"));
    pthread_mutex_lock(&bench.disk.lock);
    while (bench.disk.syncs_waiting == 0)
        pthread_cond_wait(&bench.disk.changed, &bench.disk.lock);
    pthread_mutex_unlock(&bench.disk.lock);
    assert_int_equal(aof_stats(bench.aof).fsync_pending, 1);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){ &bench, .number = i };
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, waiter_main, &waiters[i]), 0);
    }
    /* Their writes succeed although the fsync does not end. */
    while (aof_written(bench.aof) < aof_appended(bench.aof) || aof_appended(bench.aof) < 54 + WAITERS * 28)
        sched_yield();
    assert_int_equal(aof_durable(bench.aof), 0);
    pthread_mutex_lock(&bench.disk.lock);
    bench.disk.sync_held = false;
    pthread_cond_broadcast(&bench.disk.changed);
    pthread_mutex_unlock(&bench.disk.lock);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(waiters[i].thread, NULL);
    assert_int_equal(aof_durable(bench.aof), aof_appended(bench.aof));
    assert_in_range(bench.disk.syncs - before, 2, 3);
    assert_true(aof_stats(bench.aof).last_fsync_ms > 0);
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    assert_int_equal(bench.commands, 2 + WAITERS);
    bench_release(&bench);
}

static void everysec_syncs_without_being_asked(void **state)
{
    struct bench bench;
    uint64_t lsn;

    bench_init(&bench);
    bench.fsync = AOF_FSYNC_EVERYSEC;
    bench_start(&bench);
    lsn = set(&bench, 0, "a", "1");
    pthread_mutex_lock(&bench.lock);
    while (aof_durable(bench.aof) < lsn)
        pthread_cond_wait(&bench.durable_moved, &bench.lock);
    pthread_mutex_unlock(&bench.lock);
    bench_release(&bench);
}

/* A checkpoint's steps */

static void a_checkpoint_drops_what_is_before_its_cut(void **state)
{
    struct bench bench;
    struct buffer text;
    uint64_t cut, lsn;

    bench_init(&bench);
    bench_start(&bench);
    set(&bench, 1, "a", "1");
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_OK);
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_OK);
    set(&bench, 1, "b", "2");
    bench.disk.sync_held = true;        /* the flusher can't reach the cut while this is set */
    cut = aof_cut(bench.aof);
    lsn = set(&bench, 1, "c", "3");
    assert_false(aof_flush(bench.aof, lsn));
    assert_int_equal(aof_error(bench.aof), STATUS_OK);
    assert_int_equal(aof_written(bench.aof), cut);
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_LOCKED);
    assert_int_equal(aof_commit(bench.aof, cut, NULL, &bench.message), STATUS_LOCKED);
    pthread_mutex_lock(&bench.disk.lock);
    bench.disk.sync_held = false;
    pthread_cond_broadcast(&bench.disk.changed);
    pthread_mutex_unlock(&bench.disk.lock);
    written_await(&bench, lsn);
    assert_true(aof_durable(bench.aof) >= cut);
    /* Not committed: nothing is removed. */
    bench_start(&bench);
    replayed_is(&bench, "SELECT 1\nSET a 1\nSET b 2\nSELECT 0\nSELECT 1\nSET c 3\n");

    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_OK);
    cut = aof_cut(bench.aof);
    lsn = set(&bench, 1, "d", "4");
    durable_await(&bench, lsn);
    assert_int_equal(aof_commit(bench.aof, cut, "appendonly.aof.1.base.image", &bench.message), STATUS_OK);
    assert_false(file_exists(&bench, INCR1));
    assert_false(file_exists(&bench, INCR2));
    text = file_get(&bench, MANIFEST);
    assert_string_equal(text.data, "file appendonly.aof.1.base.image seq 1 type b\nfile " INCR1 " seq 1 type h\nfile " INCR2
        " seq 2 type h\nfile " INCR3 " seq 3 type i\n");
    buffer_release(&text);
    /* As if the process had been killed before it removed them. */
    file_put_string(&bench, INCR1, "*1\r\n$5\r\nwrong\r\n");
    set(&bench, 1, "e", "5");
    bench_start(&bench);
    assert_string_equal(aof_base(bench.aof), "appendonly.aof.1.base.image");
    replayed_is(&bench, "SELECT 1\nSET d 4\nSET e 5\n");
    assert_false(file_exists(&bench, INCR1));
    bench_release(&bench);
}

static void a_cut_survives_an_fsync_that_fails_during_it(void **state)
{
    struct bench bench;
    uint64_t cut, lsn;

    bench_init(&bench);
    bench_start(&bench);
    set(&bench, 1, "a", "1");
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_OK);
    bench.disk.next_sync_fails = 1;
    cut = aof_cut(bench.aof);
    lsn = set(&bench, 1, "b", "2");
    aof_flush(bench.aof, lsn);
    durable_await(&bench, lsn);
    assert_true(notices_say(&bench, "an fsync failed"));
    assert_int_equal(aof_prepare(bench.aof, &bench.message), STATUS_OK);     /* the next one, before this one's commit */
    assert_int_equal(aof_commit(bench.aof, cut, NULL, &bench.message), STATUS_OK);
    assert_false(file_exists(&bench, INCR1) || file_exists(&bench, INCR2) || file_exists(&bench, INCR3));
    assert_int_equal(bench_replay(&bench), STATUS_OK);
    replayed_is(&bench, "SELECT 1\nSET b 2\nSELECT 0\n");
    bench_release(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_commands_are_replayed_in_order),
        cmocka_unit_test(a_group_is_appended_as_one),
        cmocka_unit_test(commands_about_as_large_as_a_chunk_are_replayed),
        cmocka_unit_test(two_servers_do_not_share_a_directory),
        cmocka_unit_test(bad_records_are_refused_with_file_and_offset),
        cmocka_unit_test(annotations_are_skipped),
        cmocka_unit_test(an_empty_base_of_redis_is_accepted_a_full_one_is_not),
        cmocka_unit_test(an_rdb_is_imported_and_commands_after_it_are_run),
        cmocka_unit_test(a_log_of_before_redis_7_is_adopted),
        cmocka_unit_test(a_move_that_redis_has_begun_is_completed),
        cmocka_unit_test(a_move_is_not_repeated_when_the_file_has_arrived_or_is_nowhere),
        cmocka_unit_test(a_dump_is_adopted_and_stays_where_it_is),
        cmocka_unit_test(a_kill_while_a_base_is_adopted_loses_nothing),
        cmocka_unit_test(a_disk_that_fails_while_a_base_is_adopted_loses_nothing),
        cmocka_unit_test(missing_files_and_refused_commands_stop_the_replay),
        cmocka_unit_test(history_is_deleted_at_the_start),
        cmocka_unit_test(a_manifest_that_was_being_written_is_removed_at_the_start),
        cmocka_unit_test(a_tail_torn_at_any_byte_is_cut_to_whole_commands),
        cmocka_unit_test(a_flipped_bit_is_damage_and_not_a_torn_end),
        cmocka_unit_test(a_flipped_bit_before_a_large_value_is_damage_too),
        cmocka_unit_test(a_tail_of_zeros_is_cut_like_a_torn_one),
        cmocka_unit_test(only_the_last_file_with_bytes_may_be_torn),
        cmocka_unit_test(the_rest_is_written_after_a_short_write),
        cmocka_unit_test(a_short_write_is_cut_off_if_the_rest_fails),
        cmocka_unit_test(writes_that_fail_are_tried_again_by_the_flusher),
        cmocka_unit_test(a_partial_command_that_could_not_be_cut_off_is_cut_before_the_next_write),
        cmocka_unit_test(after_a_failed_fsync_the_log_goes_on_in_a_new_increment),
        cmocka_unit_test(bytes_after_validsize_do_not_count),
        cmocka_unit_test(dropped_pages_lose_the_log_and_are_reported),
        cmocka_unit_test(one_fsync_serves_all_waiting_threads),
        cmocka_unit_test(everysec_syncs_without_being_asked),
        cmocka_unit_test(a_checkpoint_drops_what_is_before_its_cut),
        cmocka_unit_test(a_cut_survives_an_fsync_that_fails_during_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
