/* aof_fuzz SECONDS [SEED]: hostile bytes for whatever reads the log: manifests, increments. (rdb_fuzz has the RDB bases.)
 *
 * For increments: a good log is damaged somewhere; what comes back before the damage must be what was written, an
 * accepted log must be accepted again, with the same commands and without a warning, and nothing may crash. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/random.h"
#include "persist/aof.h"
#include "persist/aof_manifest.h"
#include "persist/aof_tail.h"
#include "support/fuzz.h"

struct fuzz {
    struct random random;
    char root[64], dir[80];
    struct buffer replayed;     /* what came back, as it stood in the file, a mark behind each command */
    uint64_t commands;
    uint64_t ahead_sum;
};

static void command_print(struct buffer *out, const struct bytes *args, int arg_count)
{
    for (int i = 0; i < arg_count; i++) {
        buffer_append_format(out, "%zu:", args[i].size);
        buffer_append_bytes(out, args[i]);
    }
    buffer_append_u8(out, '\n');
}

static bool fuzz_run(void *context, const struct bytes *args, int arg_count)
{
    struct fuzz *fuzz = context;

    command_print(&fuzz->replayed, args, arg_count);
    fuzz->commands++;
    return true;
}

/* Reads every byte that it is shown. */
static void fuzz_ahead(void *context, const struct bytes *args, int arg_count)
{
    struct fuzz *fuzz = context;

    for (int i = 0; i < arg_count; i++)
        for (size_t at = 0; at < args[i].size; at++)
            fuzz->ahead_sum += (uint8_t)args[i].data[at];
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
    aof_on_ahead(aof, fuzz_ahead);
    status = aof_replay(aof, fuzz_run, NULL, fuzz, message);
    aof_close(aof);
    return status;
}

static uint64_t damage(struct fuzz *fuzz, char *data, size_t *size)
{
    static const char alphabet[] = "*$\r\n0123456789#-MULTIEXEC\0\xff";
    uint64_t first = *size;

    if (*size > 0 && random_below(&fuzz->random, 3) == 0)
        first = *size = random_below(&fuzz->random, *size);
    for (uint64_t changes = random_below(&fuzz->random, 4); changes > 0 && *size > 0; changes--) {
        uint64_t at = random_below(&fuzz->random, *size);

        data[at] = random_below(&fuzz->random, 4) == 0 ? (char)random_next(&fuzz->random)
            : alphabet[random_below(&fuzz->random, sizeof(alphabet) - 1)];
        if (at < first)
            first = at;
    }
    return first;
}

static void increments(struct fuzz *fuzz)
{
    struct aof_tail tail;
    struct aof_group group;
    struct buffer file, sound, again;
    struct aof_chunk *chunks;
    size_t ends[64], sound_ends[64], units = 1 + random_below(&fuzz->random, 20);
    uint64_t first;
    char value[64] = "*1\r\n$4\r\nEXEC\r\nwhat is inside a value is no command, ever";
    struct message message;
    enum status status;

    aof_tail_init(&tail);
    aof_group_init(&group);
    buffer_init(&file);
    buffer_init(&sound);
    for (size_t i = 0; i < units; i++) {
        struct bytes args[3] = { BYTES("SET"), bytes_of(value, i), bytes_of(value, random_below(&fuzz->random, sizeof(value))) };
        int count = 1 + (int)random_below(&fuzz->random, 3), repeat = (int)random_below(&fuzz->random, 3);

        if (i == 0)
            command_print(&sound, (struct bytes[]){ BYTES("SELECT"), BYTES("0") }, 2);
        if (repeat == 0) {
            ends[i] = aof_tail_append(&tail, 0, args, count);
            command_print(&sound, args, count);
        } else {
            aof_group_clear(&group);
            for (int k = 0; k < repeat; k++) {
                aof_group_add(&group, 0, args, count);
                command_print(&sound, args, count);
            }
            ends[i] = aof_tail_append_group(&tail, &group);
        }
        sound_ends[i] = sound.size;
    }
    chunks = aof_tail_take(&tail);
    for (struct aof_chunk *chunk = chunks; chunk != NULL; chunk = chunk->next)
        buffer_append(&file, chunk->data + chunk->start, chunk->end - chunk->start);
    aof_tail_give_back(&tail, chunks);
    first = damage(fuzz, file.data, &file.size);

    file_put(fuzz, "a.manifest", BYTES("file a.1.incr.aof seq 1 type i\n"));
    file_put(fuzz, "a.1.incr.aof", buffer_bytes(&file));
    status = replay(fuzz, &message);
    CHECK(status == STATUS_OK || status == STATUS_CORRUPT);
    CHECK(status == STATUS_OK || strstr(message.text, "a.1.incr.aof") != NULL);
    for (size_t i = units; i-- > 0;)
        if (ends[i] <= first) {
            CHECK(fuzz->replayed.size >= sound_ends[i] && memcmp(fuzz->replayed.data, sound.data, sound_ends[i]) == 0);
            break;
        }
    if (status == STATUS_OK) {
        again = fuzz->replayed;
        buffer_init(&fuzz->replayed);
        CHECK(replay(fuzz, &message) == STATUS_OK && message_is_empty(&message));
        CHECK(bytes_equal(buffer_bytes(&again), buffer_bytes(&fuzz->replayed)));
        buffer_release(&again);
    }
    buffer_release(&file);
    buffer_release(&sound);
    aof_group_release(&group);
    aof_tail_release(&tail);
}

static void manifests(struct fuzz *fuzz)
{
    char text[] = "#r\nfile a.1.base.rdb seq 1 type b\nfile \"a\\x20b\" seq 4 type h\nfile 'it\\'s' seq 2 type i validsize 17\n";
    struct message message;
    size_t size = sizeof(text) - 1;
    struct aof_manifest manifest, again;
    struct buffer printed, twice;

    damage(fuzz, text, &size);
    if (aof_manifest_parse(&manifest, bytes_of(text, size), &message) != STATUS_OK)
        return;
    buffer_init(&printed);
    buffer_init(&twice);
    aof_manifest_print(&manifest, &printed);
    CHECK(aof_manifest_parse(&again, buffer_bytes(&printed), &message) == STATUS_OK);
    aof_manifest_print(&again, &twice);
    CHECK(bytes_equal(buffer_bytes(&printed), buffer_bytes(&twice)));
    buffer_release(&printed);
    buffer_release(&twice);
    aof_manifest_release(&manifest);
    aof_manifest_release(&again);
}

int main(int argc, char **argv)
{
    struct fuzz fuzz = { .root = "/tmp/kelvin-aof-fuzz-XXXXXX" };
    struct fuzz_time time;
    uint64_t rounds = 0;
    char path[256];

    random_init(&fuzz.random, fuzz_begin(&time, "aof_fuzz", argc, argv));
    CHECK(mkdtemp(fuzz.root) != NULL);
    snprintf(fuzz.dir, sizeof(fuzz.dir), "%s", fuzz.root);
    for (; fuzz_goes_on(&time); rounds++) {
        for (int i = 0; i < 20; i++)
            manifests(&fuzz);
        increments(&fuzz);
    }
    printf("%" PRIu64 " logs, %" PRIu64 " manifests and bases, %" PRIu64 " commands came back\n", rounds, rounds * 20, fuzz.commands);
    buffer_release(&fuzz.replayed);
    snprintf(path, sizeof(path), "%s/a.manifest", fuzz.dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/a.1.incr.aof", fuzz.dir);
    unlink(path);
    rmdir(fuzz.dir);
    return 0;
}
