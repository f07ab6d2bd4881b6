#include "base/message.h"
#include "persist/aof.h"

#include "support/unit.h"

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

#include "base/mem.h"
#include "base/random.h"
#include "base/tree.h"
#include "persist/aof_map.h"
#include "stream/backlog.h"
#include "support/aof_disk.h"
#include "support/seed.h"

/* Threads append while the disk fails, and copies of the files are made as a kill or a power cut would leave them. Each copy has to replay
 * to an exact prefix of what was appended, in order, with everything that had been reported as written or durable; and what is recovered of
 * the stream's position has to be that of the prefix. Meanwhile the stream changes its ID. A seed repeats the disk's faults: SEED=<seed>. */

enum { THREADS = 3, UNITS = 400, KILLS = 40, IDS = 5, OFFSET = 1000000, BACKLOG = 64 << 20 };

struct storm {
    uint64_t seed;
    char root[32], dir[64];
    struct aof_disk_test disk;
    struct history history;
    struct { uint64_t lsn; char id[HISTORY_ID_SIZE + 1]; } ids[IDS];     /* from which LSN on */
    int id_count;
    struct aof *aof;
    pthread_mutex_t appending;
    pthread_mutex_t lock;               /* of the condition that the callback signals */
    pthread_cond_t durable_moved;
    struct appended { uint64_t lsn; int thread, number, count, db; } *log[THREADS];
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
        struct appended unit = { 0, appender->number, i, 1, 0 };
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
            pthread_mutex_lock(&storm->appending);
            unit.lsn = history_append_group(aof_history(storm->aof), &group);
        } else {
            args[3] = bytes_of(dbs + db, 1);
            pthread_mutex_lock(&storm->appending);
            unit.lsn = history_append(aof_history(storm->aof), db, args, 5);
        }
        pthread_mutex_unlock(&storm->appending);
        unit.db = db;
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

static bool audit_run(void *context, const struct bytes *args, int arg_count, uint64_t command)
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

static bool is_id_at(const struct storm *storm, const char *id, uint64_t lsn)
{
    for (int i = 0; i < storm->id_count; i++) {
        uint64_t end = i + 1 < storm->id_count ? storm->ids[i + 1].lsn : UINT64_MAX;

        if (strcmp(id, storm->ids[i].id) == 0 && lsn >= storm->ids[i].lsn && lsn <= end)
            return true;
    }
    return false;
}

/* What is recovered is the position of what was replayed: after the last command, or after a SELECT whose command was torn. */
static void audit_position(const struct storm *storm, struct aof *aof, const char *what, const struct audit *audit)
{
    const struct appended *last = audit->at > 0 ? &audit->expected[audit->at - 1] : NULL;
    char select[HISTORY_SELECT_SIZE];
    struct history_point point;
    uint64_t lsn = last != NULL ? last->lsn : 0;
    int db = last != NULL ? last->db : -1;

    if (!aof_recovered(aof, &point)) {
        if (last != NULL)
            fail_msg("seed %" PRIu64 " %s: no position after LSN %" PRIu64, storm->seed, what, lsn);
        return;
    }
    if (point.offset == OFFSET + (int64_t)(lsn + history_select_print(0, select))) {
        lsn = (uint64_t)(point.offset - OFFSET);
        db = point.db;
    }
    if (point.offset != OFFSET + (int64_t)lsn || !is_id_at(storm, point.identity.id, lsn))
        fail_msg("seed %" PRIu64 " %s: offset %" PRId64 " of %s instead of %" PRIu64, storm->seed, what, point.offset, point.identity.id,
            OFFSET + lsn);
    if (point.db >= 0 && point.db != db)
        fail_msg("seed %" PRIu64 " %s: database %d instead of %d", storm->seed, what, point.db, db);
}

/* Replays `dir` and checks that the result is a prefix of `expected`, at least up to the LSN `least`. */
static void audit_directory(const struct storm *storm, const char *dir, const char *what, struct audit *audit, uint64_t least)
{
    uint64_t seed = storm->seed;
    struct aof_options options = { .dir = dir, .name = "appendonly.aof", .fsync = AOF_FSYNC_NO, .load_truncated = true };
    struct aof *aof;
    struct message message;
    enum status status = aof_open(&options, &aof, &message);

    audit->at = audit->inside = 0;
    audit->db = BYTES("0");
    audit->problem[0] = 0;
    if (status == STATUS_OK) {
        status = aof_replay(aof, audit_run, NULL, audit, &message);
        if (status == STATUS_OK)
            audit_position(storm, aof, what, audit);
        aof_close(aof);
    }
    if (status != STATUS_OK || audit->inside != 0)
        fail_msg("seed %" PRIu64 " %s: %s: %s %s", seed, what, status_name(status), message.text, audit->problem);
    if (audit->at < audit->count && audit->expected[audit->at].lsn <= least)
        fail_msg("seed %" PRIu64 " %s: ends before LSN %" PRIu64 ", %" PRIu64 " was promised", seed, what,
            audit->expected[audit->at].lsn, least);
}

static void note_id(struct storm *storm)
{
    struct history_point now;

    history_point(&storm->history, &now);
    storm->ids[storm->id_count].lsn = now.lsn;
    strcpy(storm->ids[storm->id_count++].id, now.identity.id);
}

/* No thread appends between the two, as in the server, where all partitions are locked. */
static void change_id(struct storm *storm)
{
    pthread_mutex_lock(&storm->appending);
    history_new_id(&storm->history, true);
    note_id(storm);
    pthread_mutex_unlock(&storm->appending);
}

/* What the increments have of the stream is what the backlog has. */
static void compare_past(struct storm *storm)
{
    struct backlog *backlog = history_backlog(&storm->history);
    struct backlog_reader *reader = backlog_attach(backlog, backlog_begin(backlog));
    struct random random;
    uint64_t end = history_end(&storm->history), from;
    static char wanted[1 << 16], found[1 << 16];
    struct aof_past *past;
    size_t got, size;

    assert_null(aof_past(storm->aof, OFFSET - 1, OFFSET + (int64_t)end));
    assert_int_equal(backlog_end(backlog), end);
    random_init(&random, storm->seed);
    from = random_below(&random, end);
    while (backlog_position(reader) < from)
        assert_int_equal(backlog_read(reader, wanted, sizeof(wanted), from, &got), BACKLOG_OK);
    past = aof_past(storm->aof, OFFSET + (int64_t)from, OFFSET + (int64_t)end);
    assert_non_null(past);
    for (; from < end; from += size) {
        assert_true(aof_past_read(past, disk_system(), found, 1 + random_below(&random, sizeof(found)), &size));
        assert_true(size > 0);
        for (size_t at = 0; at < size; at += got)
            assert_int_equal(backlog_read(reader, wanted + at, size - at, UINT64_MAX, &got), BACKLOG_OK);
        assert_memory_equal(found, wanted, size);
    }
    assert_true(aof_past_read(past, disk_system(), found, sizeof(found), &size));
    assert_int_equal(size, 0);
    aof_past_close(past);
    backlog_detach(reader);
}

static void storm_start(struct storm *storm, uint64_t seed)
{
    struct aof_options options = { .dir = storm->dir, .name = "appendonly.aof", .fsync = (enum aof_fsync)(seed % 3),
        .load_truncated = true, .disk = &storm->disk.table, .history = &storm->history, .tick_us = 500 };
    struct backlog_options backlog = { .memory_size = BACKLOG };
    struct history_point begin;
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
    pthread_mutex_init(&storm->appending, NULL);
    history_init(&storm->history);
    assert_int_equal(aof_open(&options, &storm->aof, &message), STATUS_OK);
    history_open_backlog(&storm->history, &backlog);
    history_point(&storm->history, &begin);
    begin.offset = OFFSET;
    history_continue(&storm->history, &begin);
    note_id(storm);
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
        change_id(storm);
        durable_await(storm, aof_cut(storm->aof));
        change_id(storm);
        assert_int_equal(aof_commit(storm->aof, UINT64_MAX - 1, NULL, &message), STATUS_LOCKED);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(appenders[i].thread, NULL);
    storm_faults(storm, false);
    durable_await(storm, aof_appended(storm->aof));
    assert_int_equal(aof_error(storm->aof), STATUS_OK);
    assert_int_equal(aof_stats(storm->aof).buffer_size, 0);
    compare_past(storm);
    aof_close(storm->aof);

    for (int i = 0; i < THREADS; i++) {
        memcpy(all + audit.count, storm->log[i], (size_t)storm->logged[i] * sizeof(*all));
        audit.count += storm->logged[i];
    }
    qsort(all, (size_t)audit.count, sizeof(*all), appended_compare);
    audit_directory(storm, storm->dir, "at the end", &audit, UINT64_MAX);
    for (int i = 0; i < storm->kill_count; i++) {
        struct kill *kill = &storm->kills[i];
        char what[64];

        snprintf(what, sizeof(what), "%s %d", kill->power ? "power cut" : "kill", i + 1);
        audit_directory(storm, kill->root, what, &audit, kill->power ? kill->durable : kill->written);
    }
    for (int i = 0; i < THREADS; i++)
        mem_free(storm->log[i]);
    mem_free(all);
    aof_disk_release(&storm->disk);
    history_release(&storm->history);
    pthread_mutex_destroy(&storm->appending);
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
