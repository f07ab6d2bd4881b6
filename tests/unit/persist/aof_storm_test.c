#include "base/message.h"
#include "persist/aof.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tree.h"
#include "support/aof_disk.h"
#include "support/seed.h"

/* Threads append while the disk fails, and copies of the files are made as a kill or a power cut would leave them. Each copy has to replay
 * to an exact prefix of what was appended, in order, with everything that had been reported as written or durable. A seed repeats the
 * disk's faults: SEED=<seed>. */

enum { THREADS = 3, UNITS = 400, KILLS = 40 };

struct storm {
    uint64_t seed;
    char root[32], dir[64];
    struct aof_disk_test disk;
    struct aof *aof;
    pthread_mutex_t lock;               /* of the condition that the callback signals */
    pthread_cond_t durable_moved;
    struct appended { uint64_t lsn; int thread, number, count; } *log[THREADS];
    int logged[THREADS];
    /* Copies of the directory, made during a call of the disk. */
    struct kill { char root[64]; uint64_t written, durable; bool power; } kills[KILLS];
    int kill_count;
    struct random random;       /* under disk.lock */
    bool quiet;
};

static void storm_synced(void *context, uint64_t durable)
{
    struct storm *storm = context;

    pthread_mutex_lock(&storm->lock);
    pthread_cond_broadcast(&storm->durable_moved);
    pthread_mutex_unlock(&storm->lock);
}

static void durable_await(struct storm *storm, uint64_t lsn)
{
    aof_request_sync(storm->aof, lsn);
    pthread_mutex_lock(&storm->lock);
    while (aof_durable(storm->aof) < lsn)
        pthread_cond_wait(&storm->durable_moved, &storm->lock);
    pthread_mutex_unlock(&storm->lock);
}

static void file_copy(int from_dir, int to_dir, const char *name, struct storm *storm, bool power)
{
    int from = openat(from_dir, name, O_RDONLY), to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    uint64_t size = 0;
    char block[4096];
    ssize_t got;

    if (from >= 0) {                    /* else it was removed meanwhile */
        assert_true(to >= 0);
        while ((got = read(from, block, sizeof(block))) > 0) {
            assert_int_equal(write(to, block, (size_t)got), got);
            size += (uint64_t)got;
        }
        if (power && strstr(name, "manifest") == NULL) {
            uint64_t durable = aof_disk_inode(&storm->disk, from)->durable;

            if (durable < size)
                assert_int_equal(ftruncate(to, (off_t)(durable + random_below(&storm->random, size - durable + 1))), 0);
        }
        close(from);
    }
    close(to);
}

/* Before some calls of the disk: copies what would be found if the process, or the machine, stopped now. The manifest changes only between
 * calls of a thread that holds the flush lock or is the current one. */
static void storm_before(void *context)
{
    struct storm *storm = context;
    struct kill *kill;
    int from, to;
    DIR *dir;
    struct dirent *entry;

    pthread_mutex_lock(&storm->disk.lock);
    if (storm->quiet || storm->kill_count == KILLS || random_below(&storm->random, 20) != 0) {
        pthread_mutex_unlock(&storm->disk.lock);
        return;
    }
    kill = &storm->kills[storm->kill_count++];
    snprintf(kill->root, sizeof(kill->root), "%s/kill-%d", storm->root, storm->kill_count);
    kill->power = random_below(&storm->random, 2) == 0;
    kill->durable = aof_durable(storm->aof);
    kill->written = aof_written(storm->aof);
    assert_int_equal(mkdir(kill->root, 0755), 0);
    from = open(storm->dir, O_RDONLY | O_DIRECTORY);
    to = open(kill->root, O_RDONLY | O_DIRECTORY);
    dir = fdopendir(dup(from));
    file_copy(from, to, "appendonly.aof.manifest", storm, false);
    while ((entry = readdir(dir)) != NULL)
        if (strstr(entry->d_name, ".incr.aof") != NULL)
            file_copy(from, to, entry->d_name, storm, kill->power);
    closedir(dir);
    close(from);
    close(to);
    pthread_mutex_unlock(&storm->disk.lock);
}

struct appender {
    struct storm *storm;
    pthread_t thread;
    int number;
};

static void *appender_main(void *context)
{
    struct appender *appender = context;
    struct storm *storm = appender->storm;
    struct random random;
    struct history_group group;
    char *value = mem_zalloc(100000);

    memset(value, 'x', 100000);
    history_group_init(&group);
    random_init(&random, storm->seed + 1000 + (uint64_t)appender->number);
    for (int i = 0; i < UNITS; i++) {
        char thread[8], number[16];
        struct bytes args[5] = { BYTES("W"), { NULL, 0 }, { NULL, 0 }, BYTES("0"), { value, 0 } };
        struct appended unit = { 0, appender->number, i, 1 };
        const char *dbs = "012";
        int db = (int)random_below(&random, 3);

        args[1] = bytes_of(thread, (size_t)snprintf(thread, sizeof(thread), "%d", appender->number));
        args[2] = bytes_of(number, (size_t)snprintf(number, sizeof(number), "%d", i));
        args[4].size = random_below(&random, 50) == 0 ? random_below(&random, 100000) : random_below(&random, 300);
        if (random_below(&random, 4) == 0) {
            history_group_clear(&group);
            unit.count = 2 + (int)random_below(&random, 3);
            for (int k = 0; k < unit.count; k++) {
                db = (int)random_below(&random, 3);
                args[3] = bytes_of(dbs + db, 1);
                history_group_add(&group, db, args, 5);
            }
            unit.lsn = history_append_group(aof_history(storm->aof), &group);
        } else {
            args[3] = bytes_of(dbs + db, 1);
            unit.lsn = history_append(aof_history(storm->aof), db, args, 5);
        }
        storm->log[appender->number][storm->logged[appender->number]++] = unit;
        if (random_below(&random, 3) == 0)
            aof_flush(storm->aof, unit.lsn);
        if (random_below(&random, 8) == 0)
            aof_request_sync(storm->aof, unit.lsn);
        if (random_below(&random, 40) == 0)
            durable_await(storm, unit.lsn);
    }
    history_group_release(&group);
    mem_free(value);
    return NULL;
}

static int appended_compare(const void *left, const void *right)
{
    const struct appended *a = left, *b = right;

    return a->lsn < b->lsn ? -1 : a->lsn > b->lsn;
}

/* Compares what is replayed with what was appended, command by command. */
struct audit {
    const struct appended *expected;
    int count, at, inside;
    struct bytes db;            /* selected */
    char problem[128];
};

static bool audit_run(void *context, const struct bytes *args, int arg_count)
{
    struct audit *audit = context;
    const struct appended *unit = &audit->expected[audit->at];
    char thread[8], number[16];

    if (bytes_is(args[0], "SELECT")) {
        audit->db = bytes_of(&"012"[args[1].data[0] - '0'], 1);
        return true;
    }
    if (audit->at == audit->count) {
        snprintf(audit->problem, sizeof(audit->problem), "more than was appended");
        return false;
    }
    snprintf(thread, sizeof(thread), "%d", unit->thread);
    snprintf(number, sizeof(number), "%d", unit->number);
    if (arg_count != 5 || !bytes_equal(args[3], audit->db) || !bytes_is(args[1], thread) || !bytes_is(args[2], number)) {
        snprintf(audit->problem, sizeof(audit->problem), "unit %d: %.*s %.*s instead of %s %s", audit->at, (int)args[1].size,
            args[1].data, (int)args[2].size, args[2].data, thread, number);
        return false;
    }
    if (++audit->inside == unit->count) {
        audit->inside = 0;
        audit->at++;
    }
    return true;
}

/* Replays `dir` and checks that the result is a prefix of `expected`, at least up to the LSN `least`. */
static void audit_directory(const char *dir, uint64_t seed, const char *what, struct audit *audit, uint64_t least)
{
    struct aof_options options = { .dir = dir, .name = "appendonly.aof", .fsync = AOF_FSYNC_NO, .load_truncated = true };
    struct aof *aof;
    struct message message;
    enum status status = aof_open(&options, &aof, &message);

    audit->at = audit->inside = 0;
    audit->db = BYTES("0");
    audit->problem[0] = 0;
    if (status == STATUS_OK) {
        status = aof_replay(aof, audit_run, NULL, audit, &message);
        aof_close(aof);
    }
    if (status != STATUS_OK || audit->inside != 0)
        fail_msg("seed %" PRIu64 " %s: %s: %s %s", seed, what, status_name(status), message.text, audit->problem);
    if (audit->at < audit->count && audit->expected[audit->at].lsn <= least)
        fail_msg("seed %" PRIu64 " %s: ends before LSN %" PRIu64 ", %" PRIu64 " was promised", seed, what,
            audit->expected[audit->at].lsn, least);
}

static void storm_start(struct storm *storm, uint64_t seed)
{
    struct aof_options options = { .dir = storm->dir, .name = "appendonly.aof", .fsync = (enum aof_fsync)(seed % 3),
        .load_truncated = true, .disk = &storm->disk.table, .tick_us = 500 };
    struct message message;

    storm->seed = seed;
    strcpy(storm->root, "/tmp/kelvin-aof-storm-XXXXXX");
    assert_non_null(mkdtemp(storm->root));
    snprintf(storm->dir, sizeof(storm->dir), "%s/aofdir", storm->root);
    pthread_mutex_init(&storm->lock, NULL);
    pthread_cond_init(&storm->durable_moved, NULL);
    aof_disk_init(&storm->disk, seed);
    random_init(&storm->random, seed + 1);
    storm->disk.before = storm_before;
    storm->disk.context = storm;
    storm->quiet = true;
    assert_int_equal(aof_open(&options, &storm->aof, &message), STATUS_OK);
    aof_on_durable(storm->aof, storm_synced, storm);
    assert_int_equal(aof_start(storm->aof, &message), STATUS_OK);
}

static void storm_faults(struct storm *storm, bool on)
{
    struct aof_disk_test *disk = &storm->disk;

    pthread_mutex_lock(&disk->lock);
    disk->write_short = on ? 60 : 0;
    disk->write_fails = on ? 30 : 0;
    disk->sync_fails = on ? 60 : 0;
    disk->truncate_fails = on ? 200 : 0;
    disk->fsync_fails = on ? 100 : 0;
    storm->quiet = !on;
    pthread_mutex_unlock(&disk->lock);
}

static void storm_run(uint64_t seed)
{
    struct storm *storm = mem_zalloc(sizeof(*storm));
    struct appender appenders[THREADS];
    struct appended *all = mem_zalloc(THREADS * UNITS * sizeof(*all));
    struct audit audit = { .expected = all };
    struct message message;

    storm_start(storm, seed);
    storm_faults(storm, true);
    for (int i = 0; i < THREADS; i++) {
        storm->log[i] = mem_zalloc(UNITS * sizeof(storm->log[i][0]));
        appenders[i] = (struct appender){ storm, .number = i };
        assert_int_equal(pthread_create(&appenders[i].thread, NULL, appender_main, &appenders[i]), 0);
    }
    /* Meanwhile the log is cut twice, with the faults; checkpoints that end at the cut change nothing. */
    for (int cuts = 0; cuts < 2; cuts++) {
        while (aof_prepare(storm->aof, &message) != STATUS_OK)
            sched_yield();
        durable_await(storm, aof_cut(storm->aof));
        assert_int_equal(aof_commit(storm->aof, UINT64_MAX - 1, NULL, &message), STATUS_LOCKED);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(appenders[i].thread, NULL);
    storm_faults(storm, false);
    durable_await(storm, aof_appended(storm->aof));
    assert_int_equal(aof_error(storm->aof), STATUS_OK);
    assert_int_equal(aof_stats(storm->aof).buffer_size, 0);
    aof_close(storm->aof);

    for (int i = 0; i < THREADS; i++) {
        memcpy(all + audit.count, storm->log[i], (size_t)storm->logged[i] * sizeof(*all));
        audit.count += storm->logged[i];
    }
    qsort(all, (size_t)audit.count, sizeof(*all), appended_compare);
    audit_directory(storm->dir, seed, "at the end", &audit, UINT64_MAX);
    for (int i = 0; i < storm->kill_count; i++) {
        struct kill *kill = &storm->kills[i];
        char what[64];

        snprintf(what, sizeof(what), "%s %d", kill->power ? "power cut" : "kill", i + 1);
        audit_directory(kill->root, seed, what, &audit, kill->power ? kill->durable : kill->written);
    }
    for (int i = 0; i < THREADS; i++)
        mem_free(storm->log[i]);
    mem_free(all);
    aof_disk_release(&storm->disk);
    pthread_mutex_destroy(&storm->lock);
    pthread_cond_destroy(&storm->durable_moved);
    tree_remove(storm->root);
    mem_free(storm);
}

static void an_exact_prefix_is_replayed_whatever_the_disk_does(void **state)
{
    uint64_t first = seed_new();

    for (uint64_t seed = 1; seed <= 20; seed++)
        storm_run(seed);
    storm_run(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_prefix_is_replayed_whatever_the_disk_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
