/* Cost of the log per command, a SET with a value of 200 bytes: appended to the tail only; flushed after every 16
 * commands, as after a loop's turn, to a file under /tmp; from two threads; and read back.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/message.h"
#include "persist/aof.h"
#include "stream/history.h"

enum { COMMANDS = 1000000, TURN = 16 };

static void *append_many(void *context)
{
    struct aof *aof = context;
    char value[200];
    struct bytes args[3] = { BYTES("SET"), BYTES("key:000000012345"), { value, sizeof(value) } };

    memset(value, 'v', sizeof(value));
    for (int i = 0; i < COMMANDS; i++) {
        uint64_t lsn = history_append(aof_history(aof), 0, args, 3);

        if (i % TURN == TURN - 1)
            CHECK(aof_flush(aof, lsn));
    }
    return NULL;
}

static void tail_alone(void)
{
    char value[200];
    struct bytes args[3] = { BYTES("SET"), BYTES("key:000000012345"), { value, sizeof(value) } };
    struct history tail;
    int64_t started;

    memset(value, 'v', sizeof(value));
    history_init(&tail);
    started = clock_mono_ns();
    for (int i = 0; i < COMMANDS; i++) {
        history_append(&tail, 0, args, 3);
        if (i % TURN == TURN - 1)
            history_give_back(&tail, history_take(&tail));
    }
    printf("append only, 1 thread       %6.1f ns a command\n", (double)(clock_mono_ns() - started) / COMMANDS);
    history_release(&tail);
}

static bool nothing(void *context, const struct bytes *args, int arg_count, uint64_t number) { return true; }

static void with_threads(int threads, enum aof_fsync fsync, const char *name)
{
    char root[] = "/tmp/kelvin-aof-bench-XXXXXX", dir[64], command[128];
    struct message message;
    struct aof_options options = { .dir = dir, .name = "appendonly.aof", .fsync = fsync };
    pthread_t thread[8];
    struct aof *aof;
    int64_t started;

    CHECK(mkdtemp(root) != NULL);
    snprintf(dir, sizeof(dir), "%s/aof", root);
    CHECK(aof_open(&options, &aof, &message) == STATUS_OK && aof_start(aof, &message) == STATUS_OK);
    started = clock_mono_ns();
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, append_many, aof) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("append and write, %d thread%s %s %6.1f ns a command\n", threads, threads == 1 ? " " : "s", name,
        (double)(clock_mono_ns() - started) / COMMANDS / threads);
    aof_close(aof);
    CHECK(aof_open(&options, &aof, &message) == STATUS_OK);
    started = clock_mono_ns();
    CHECK(aof_replay(aof, nothing, NULL, NULL, &message) == STATUS_OK);
    printf("  replay, parsing only      %6.1f ns a command\n",
        (double)(clock_mono_ns() - started) / COMMANDS / threads);
    aof_close(aof);
    snprintf(command, sizeof(command), "rm -r %s", root);
    CHECK(system(command) == 0);
}

int main(void)
{
    tail_alone();
    with_threads(1, AOF_FSYNC_NO, "no      ");
    with_threads(1, AOF_FSYNC_EVERYSEC, "everysec");
    with_threads(2, AOF_FSYNC_NO, "no      ");
    return 0;
}
