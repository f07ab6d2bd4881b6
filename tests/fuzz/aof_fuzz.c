/* Hostile bytes for whatever reads the log's increments. (manifest_fuzz has the manifests, rdb_fuzz the RDB bases.)
 *
 * An increment is any bytes, or a good one, damaged; then what comes back before the damage must be what was written. An accepted log must
 * be accepted again, with the same commands and without a warning, and nothing may crash. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/message.h"
#include "persist/aof.h"
#include "stream/history.h"
#include "support/fuzz.h"

enum { UNITS_MAX = 20, FILE_MAX = 1 << 16 };

struct fuzz {
    char dir[64];               /* created for the first input, removed at exit */
    struct buffer replayed;     /* what came back, as it is in the file, a mark after each command */
    uint64_t ahead_sum, ahead_count;
};

static struct fuzz the_fuzz = { .dir = "/tmp/kelvin-aof-fuzz-XXXXXX" };

static void command_print(struct buffer *out, const struct bytes *args, int arg_count)
{
    for (int i = 0; i < arg_count; i++) {
        buffer_append_format(out, "%zu:", args[i].size);
        buffer_append_bytes(out, args[i]);
    }
    buffer_append_u8(out, '\n');
}

static bool fuzz_run(void *context, const struct bytes *args, int arg_count, uint64_t number)
{
    struct fuzz *fuzz = context;

    CHECK(number <= fuzz->ahead_count);
    command_print(&fuzz->replayed, args, arg_count);
    return true;
}

/* Reads every byte that it is shown. */
static uint64_t fuzz_ahead(void *context, const struct bytes *args, int arg_count)
{
    struct fuzz *fuzz = context;

    for (int i = 0; i < arg_count; i++)
        for (size_t at = 0; at < args[i].size; at++)
            fuzz->ahead_sum += (uint8_t)args[i].data[at];
    return ++fuzz->ahead_count;
}

static void file_put(struct fuzz *fuzz, const char *name, struct bytes bytes)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", fuzz->dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
    close(fd);
}

static enum status replay(struct fuzz *fuzz, struct message *message)
{
    struct aof_options options = { .dir = fuzz->dir, .name = "a", .fsync = AOF_FSYNC_NO, .load_truncated = true };
    struct aof *aof;
    enum status status = aof_open(&options, &aof, message);

    fuzz->replayed.size = 0;
    if (status != STATUS_OK)
        return status;
    aof_on_ahead(aof, fuzz_ahead, (struct aof_ahead_limits){ 4096, 4 << 20 });
    status = aof_replay(aof, fuzz_run, NULL, fuzz, message);
    aof_close(aof);
    return status;
}

/* The file may be read, or refused with its name. What is read is there again the next time. */
static void check_replay(struct fuzz *fuzz, struct bytes file)
{
    struct message message;
    struct buffer first;
    enum status status;

    file_put(fuzz, "a.manifest", BYTES("file a.1.incr.aof seq 1 type i\n"));
    file_put(fuzz, "a.1.incr.aof", file);
    status = replay(fuzz, &message);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
    CHECK(status == STATUS_OK || strstr(message.text, "a.1.incr.aof") != NULL);
    if (status != STATUS_OK)
        return;
    first = fuzz->replayed;
    buffer_init(&fuzz->replayed);
    CHECK(replay(fuzz, &message) == STATUS_OK && message_is_empty(&message));
    CHECK(bytes_equal(buffer_bytes(&first), buffer_bytes(&fuzz->replayed)));
    buffer_release(&first);
}

/* A good increment of `units` commands and groups. `sound` is what a replay of it brings back; ends[i] and sound_ends[i] are the sizes of
 * both after unit i. */
static void make_increment(struct fuzz_input *input, size_t units, struct buffer *file, struct buffer *sound, size_t *ends, size_t *sound_ends)
{
    char value[64] = "*1\r\n$4\r\nEXEC\r\nwhat is inside a value is no command, ever";
    struct history tail;
    struct history_group group;
    struct history_chunk *chunks;

    history_init(&tail);
    history_attach_log(&tail);
    history_group_init(&group);
    for (size_t i = 0; i < units; i++) {
        struct bytes args[3] = { BYTES("SET"), bytes_of(value, i), bytes_of(value, fuzz_below(input, sizeof(value))) };
        int count = 1 + (int)fuzz_below(input, 3), repeat = (int)fuzz_below(input, 3);

        if (i == 0)
            command_print(sound, (struct bytes[]){ BYTES("SELECT"), BYTES("0") }, 2);
        if (repeat == 0) {
            ends[i] = history_append(&tail, 0, args, count);
            command_print(sound, args, count);
        } else {
            history_group_clear(&group);
            for (int k = 0; k < repeat; k++) {
                history_group_add(&group, 0, args, count);
                command_print(sound, args, count);
            }
            ends[i] = history_append_group(&tail, &group);
        }
        sound_ends[i] = sound->size;
    }
    chunks = history_take(&tail);
    for (struct history_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next)
        buffer_append(file, chunk->data + chunk->start, chunk->end - chunk->start);
    history_give_back(&tail, chunks);
    history_group_release(&group);
    history_release(&tail);
}

static void damaged_increment(struct fuzz *fuzz, struct fuzz_input *input)
{
    static const struct bytes telling = BYTES("*$\r\n0123456789#-MULTIEXEC\0\xff");
    size_t units = 1 + fuzz_below(input, UNITS_MAX), first, ends[UNITS_MAX], sound_ends[UNITS_MAX];
    struct buffer file = { 0 }, sound = { 0 };

    make_increment(input, units, &file, &sound, ends, sound_ends);
    first = fuzz_damage(input, &file, telling, 4, FILE_MAX);
    check_replay(fuzz, buffer_bytes(&file));
    while (units > 0 && ends[units - 1] > first)
        units--;
    if (units > 0)
        CHECK(fuzz->replayed.size >= sound_ends[units - 1] && memcmp(fuzz->replayed.data, sound.data, sound_ends[units - 1]) == 0);
    buffer_release(&file);
    buffer_release(&sound);
}

static void clean(void)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/a.manifest", the_fuzz.dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/a.1.incr.aof", the_fuzz.dir);
    unlink(path);
    rmdir(the_fuzz.dir);
    buffer_release(&the_fuzz.replayed);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    CHECK(mkdtemp(the_fuzz.dir) != NULL);
    atexit(clean);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct buffer file = { 0 };

    fuzz_begin(&input, data, size);
    if (fuzz_below(&input, 2) == 0) {
        fuzz_rest(&input, &file);
        check_replay(&the_fuzz, buffer_bytes(&file));
        buffer_release(&file);
    } else {
        damaged_increment(&the_fuzz, &input);
    }
    return 0;
}
