#include "persist/aof_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "persist/rdb_reader.h"

enum {
    MESSAGE_SIZE = 256,
    READ_SIZE = 1 << 20,
    LINE_SIZE_MAX = 1024,           /* of an annotation, as in Redis */
    NUMBER_SIZE_MAX = 24,
    PROGRESS_US = 50000,
    PROGRESS_COMMANDS = 128,        /* the clock is looked at so often */
};

/* A window on a file: data holds the bytes from `offset` on. What lies before `begin` may go at the next read;
 * positions inside a command (or a group, which has to be whole before it is run) are relative to it, so it may
 * move. */
struct reader {
    int fd;
    uint64_t size;                  /* bytes that count */
    uint64_t offset;
    struct buffer data;
    size_t begin;
    bool failed;                    /* a read did; errno is in error */
    int error;
};

struct player {
    const struct aof_replay *replay;
    struct reader reader;
    struct span { size_t at, size; } *spans;
    struct bytes *args;
    int arg_capacity;
    uint64_t done, total;           /* bytes of the files before this one, and of all */
    int64_t progress_us;
    int commands;
    const char *problem;            /* of the record at hand */
};

enum record { RECORD_COMPLETE, RECORD_NOTHING, RECORD_TORN, RECORD_BAD };

/* Makes [begin, begin + upto) available. False: the file ends before, or can't be read. */
static bool reader_need(struct reader *reader, size_t upto)
{
    while (reader->data.size - reader->begin < upto) {
        uint64_t at = reader->offset + reader->data.size;
        uint64_t left = reader->size - at;
        size_t missing = upto - (reader->data.size - reader->begin), want = missing > READ_SIZE ? missing : READ_SIZE;
        ssize_t size;

        if (left == 0 || missing > left)
            return false;
        if (want > left)
            want = (size_t)left;
        if (reader->begin > 0) {
            size_t kept = reader->data.size - reader->begin;

            memmove(reader->data.data, reader->data.data + reader->begin, kept);
            reader->offset += reader->begin;
            reader->data.size = kept;
            reader->begin = 0;
            buffer_shrink(&reader->data, 4 * READ_SIZE);
        }
        size = pread(reader->fd, buffer_reserve(&reader->data, want), want, (off_t)at);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0) {
            reader->failed = true;
            reader->error = errno;
            return false;
        }
        if (size == 0) {
            reader->size = at;      /* somebody cut it meanwhile */
            return false;
        }
        reader->data.size += (size_t)size;
    }
    return true;
}

static const char *reader_at(const struct reader *reader, size_t at)
{
    return reader->data.data + reader->begin + at;
}

/* `<kind><number>\r\n` at *at, which moves behind it. */
static enum record number_read(struct player *player, size_t *at, char kind, uint64_t *number, const char *problem)
{
    struct reader *reader = &player->reader;
    size_t digits = 0;
    uint64_t value = 0;

    player->problem = problem;
    if (!reader_need(reader, *at + 1))
        return RECORD_TORN;
    if (*reader_at(reader, *at) != kind)
        return RECORD_BAD;
    for (;; digits++) {
        char c;

        if (!reader_need(reader, *at + digits + 2))
            return RECORD_TORN;
        c = *reader_at(reader, *at + 1 + digits);
        if (c == '\r' && digits > 0)
            break;
        if (c < '0' || c > '9' || digits >= NUMBER_SIZE_MAX || value > (UINT64_MAX >> 8) / 10)
            return RECORD_BAD;
        value = value * 10 + (uint64_t)(c - '0');
    }
    *at += digits + 2;
    if (!reader_need(reader, *at + 1))
        return RECORD_TORN;
    if (*reader_at(reader, *at) != '\n')
        return RECORD_BAD;
    *at += 1;
    *number = value;
    return RECORD_COMPLETE;
}

/* Lines that begin with '#' carry a time or a remark. */
static enum record annotation_skip(struct player *player, size_t *at)
{
    size_t size = 0;

    player->problem = "an annotation that does not end";
    for (;;) {
        if (!reader_need(&player->reader, *at + size + 1))
            return RECORD_TORN;
        if (*reader_at(&player->reader, *at + size++) == '\n')
            break;
        if (size > LINE_SIZE_MAX)
            return RECORD_BAD;
    }
    *at += size;
    return RECORD_COMPLETE;
}

static void args_grow(struct player *player, int count)
{
    if (count < player->arg_capacity)
        return;
    player->arg_capacity = player->arg_capacity == 0 ? 64 : player->arg_capacity * 2;
    player->args = mem_realloc(player->args, (size_t)player->arg_capacity * sizeof(player->args[0]));
    player->spans = mem_realloc(player->spans, (size_t)player->arg_capacity * sizeof(player->spans[0]));
}

/* The command at *at, behind any annotations. On RECORD_COMPLETE the arguments are in player->args until the next read,
 * and *at is behind it; RECORD_NOTHING: the file ends here, as it may. On the others *at is unchanged. */
static enum record record_read(struct player *player, size_t *at, int *arg_count)
{
    struct reader *reader = &player->reader;
    size_t here = *at;
    uint64_t count = 0, size = 0;
    enum record result;

    for (;;) {
        if (!reader_need(reader, here + 1)) {
            *at = here;
            return reader->failed ? RECORD_TORN : RECORD_NOTHING;
        }
        if (*reader_at(reader, here) != '#')
            break;
        result = annotation_skip(player, &here);
        if (result != RECORD_COMPLETE)
            return result;
    }
    result = number_read(player, &here, '*', &count, "expected '*' and the number of arguments");
    if (result != RECORD_COMPLETE)
        return result;
    if (count == 0 || count > INT32_MAX / 2)
        return RECORD_BAD;
    for (uint64_t i = 0; i < count; i++) {
        result = number_read(player, &here, '$', &size, "expected '$' and the length of an argument");
        if (result != RECORD_COMPLETE)
            return result;
        if (size > reader->size || !reader_need(reader, here + size + 2))
            return RECORD_TORN;
        player->problem = "an argument does not end in CRLF";
        if (memcmp(reader_at(reader, here + size), "\r\n", 2) != 0)
            return RECORD_BAD;
        args_grow(player, (int)i);
        player->spans[i] = (struct span){ here, (size_t)size };
        here += size + 2;
    }
    for (uint64_t i = 0; i < count; i++)
        player->args[i] = bytes_of(reader_at(reader, player->spans[i].at), player->spans[i].size);
    *arg_count = (int)count;
    *at = here;
    return RECORD_COMPLETE;
}

static bool is_word(const struct player *player, int arg_count, const char *word)
{
    return arg_count == 1 && bytes_is(player->args[0], word);
}

static void progress_tell(struct player *player, bool always)
{
    const struct aof_replay *replay = player->replay;
    int64_t now;

    if (replay->progress == NULL || (!always && ++player->commands % PROGRESS_COMMANDS != 0))
        return;
    now = clock_mono_us();
    if (!always && now - player->progress_us < PROGRESS_US)
        return;
    player->progress_us = now;
    replay->progress(replay->context, player->done + player->reader.offset + player->reader.begin, player->total);
}

/* How a file ended: RECORD_NOTHING (well), RECORD_TORN, RECORD_BAD, or RECORD_COMPLETE (a command was refused), with
 * the offset where that is. Everything before it was run. */
static enum record file_play(struct player *player, uint64_t *where)
{
    struct reader *reader = &player->reader;
    const struct aof_replay *replay = player->replay;
    enum record result;
    int arg_count;

    for (;;) {
        size_t at = 0, group;

        *where = reader->offset + reader->begin;
        result = record_read(player, &at, &arg_count);
        if (result != RECORD_COMPLETE)
            return result;
        progress_tell(player, false);
        if (is_word(player, arg_count, "EXEC")) {
            player->problem = "an EXEC without a MULTI";
            return RECORD_BAD;
        }
        if (!is_word(player, arg_count, "MULTI")) {
            if (!replay->run(replay->context, player->args, arg_count))
                return RECORD_COMPLETE;
            reader->begin += at;
            continue;
        }
        /* First to the EXEC, to know that the group is whole (the window holds it); then again, to run it. */
        group = at;
        do {
            *where = reader->offset + reader->begin + at;
            result = record_read(player, &at, &arg_count);
            if (result == RECORD_NOTHING || result == RECORD_TORN) {
                player->problem = "a MULTI without its EXEC";
                *where = reader->offset + reader->begin;
                return RECORD_TORN;
            }
            if (result == RECORD_COMPLETE && is_word(player, arg_count, "MULTI")) {
                player->problem = "a MULTI inside a MULTI";
                result = RECORD_BAD;
            }
            if (result != RECORD_COMPLETE)
                return result;
        } while (!is_word(player, arg_count, "EXEC"));
        for (at = group;;) {
            *where = reader->offset + reader->begin + at;
            result = record_read(player, &at, &arg_count);
            CHECK(result == RECORD_COMPLETE);
            if (is_word(player, arg_count, "EXEC"))
                break;
            if (!replay->run(replay->context, player->args, arg_count))
                return RECORD_COMPLETE;
        }
        reader->begin += at;
    }
}

static void import_tell(void *context, uint64_t done)
{
    struct player *player = context;
    const struct aof_replay *replay = player->replay;

    if (replay->progress != NULL)
        replay->progress(replay->context, player->done + done, player->total);
}

/* What takes the place of aof_import when nobody wants to import anything. */
static enum status rdb_skip_empty(int fd, uint64_t *size, char *message)
{
    struct rdb_reader *reader = rdb_reader_create_file(fd);
    struct rdb_part part;
    enum status status;

    while ((status = rdb_read(reader, &part, message)) == STATUS_OK && part.kind != RDB_PART_END) {
        if (part.kind == RDB_PART_KEY || part.kind == RDB_PART_FUNCTION) {
            snprintf(message, MESSAGE_SIZE, "it holds data, and nobody is here to import it");
            status = STATUS_VERSION;
            break;
        }
    }
    *size = rdb_reader_offset(reader);
    rdb_reader_destroy(reader);
    return status;
}

/* An RDB at the head of a base. Commands may follow it. */
static enum status rdb_import(struct player *player, const char *name, char *message)
{
    const struct aof_replay *replay = player->replay;
    struct reader *reader = &player->reader;
    char why[MESSAGE_SIZE] = "";
    uint64_t size = 0;
    enum status status;

    if (!reader_need(reader, 5) || !rdb_is_one(bytes_of(reader_at(reader, 0), 5)))
        return STATUS_OK;               /* what is wrong shows at the first command */
    if (replay->import != NULL)
        status = replay->import(replay->import_context, reader->fd, import_tell, player, &size, why);
    else
        status = rdb_skip_empty(reader->fd, &size, why);
    reader->offset = size;
    reader->begin = reader->data.size = 0;
    if (status != STATUS_OK)
        snprintf(message, MESSAGE_SIZE, "%.40s can't be loaded: %.190s", name, why);
    return status;
}

/* Cuts the file off at `where`, durably: what is appended next must not follow half a command. */
static enum status tail_cut(const struct aof_replay *replay, int fd, const char *name, uint64_t where, char *message)
{
    if (replay->disk->ftruncate(replay->disk->context, fd, (off_t)where) == 0
        && replay->disk->fdatasync(replay->disk->context, fd) == 0)
        return STATUS_OK;
    snprintf(message, MESSAGE_SIZE, "Can't cut the AOF file %s back to %" PRIu64 " bytes: %s", name, where, strerror(errno));
    return STATUS_IO;
}

/* Where a file ends but for zeros. A power cut may leave a file as long as it was and without its last bytes: they read as zeros. */
static uint64_t zeros_begin(const struct reader *reader)
{
    char block[4096];
    uint64_t end = reader->size;

    while (end > 0) {
        size_t want = end < sizeof(block) ? (size_t)end : sizeof(block);

        if (pread(reader->fd, block, want, (off_t)(end - want)) != (ssize_t)want)
            return reader->size;
        for (; want > 0; want--, end--) {
            if (block[want - 1] != 0)
                return end;
        }
    }
    return 0;
}

/* What was bad may be a torn end that is followed by zeros: then it is torn without them. Begins where the last play ended. */
static enum record zeros_try(struct player *player, uint64_t *where)
{
    struct reader *reader = &player->reader;
    uint64_t end = zeros_begin(reader);

    if (end == reader->size || end < reader->offset + reader->begin)
        return RECORD_BAD;
    reader->size = end;
    if (reader->offset + reader->data.size > end)
        reader->data.size = (size_t)(end - reader->offset);
    return file_play(player, where) == RECORD_BAD ? RECORD_BAD : RECORD_TORN;
}

static enum status file_end(struct player *player, const struct aof_file *file, bool may_be_torn, enum record result,
    uint64_t where, uint64_t size, char *message)
{
    const struct aof_replay *replay = player->replay;
    struct reader *reader = &player->reader;

    if (reader->failed) {
        snprintf(message, MESSAGE_SIZE, "Can't read the AOF file %s: %s", file->name, strerror(reader->error));
        return STATUS_IO;
    }
    switch (result) {
    case RECORD_NOTHING: return STATUS_OK;
    case RECORD_COMPLETE:
        snprintf(message, MESSAGE_SIZE, "The command at offset %" PRIu64 " of the AOF file %s was refused", where, file->name);
        return STATUS_INVALID;
    case RECORD_BAD:
        snprintf(message, MESSAGE_SIZE, "Bad file format in the AOF file %s at offset %" PRIu64 ": %s. redis-check-aof can "
            "repair it at the price of what follows", file->name, where, player->problem);
        return STATUS_CORRUPT;
    case RECORD_TORN: break;
    }
    if (!may_be_torn) {
        snprintf(message, MESSAGE_SIZE, "The AOF file %s ends early, at offset %" PRIu64 ", and others follow it", file->name,
            where);
        return STATUS_CORRUPT;
    }
    if (!replay->load_truncated) {
        snprintf(message, MESSAGE_SIZE, "The AOF file %s ends in the middle of a command at offset %" PRIu64 ". "
            "aof-load-truncated yes would cut it off", file->name, where);
        return STATUS_TRUNCATED;
    }
    if (tail_cut(replay, reader->fd, file->name, where, message) != STATUS_OK)
        return STATUS_IO;
    snprintf(message, MESSAGE_SIZE, "The AOF file %s ended in the middle of a command: %" PRIu64 " bytes were cut off at "
        "offset %" PRIu64, file->name, size - where, where);
    return STATUS_OK;
}

static enum status file_replay(struct player *player, const struct aof_file *file, uint64_t size, bool may_be_torn,
    char *message)
{
    struct reader *reader = &player->reader;
    enum status status = STATUS_OK;
    uint64_t where = 0;
    enum record result;

    reader->fd = openat(player->replay->dir_fd, file->name, (may_be_torn ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (reader->fd < 0) {
        snprintf(message, MESSAGE_SIZE, "Can't open the AOF file %s: %s", file->name, strerror(errno));
        return status_of_errno(errno);
    }
    reader->size = size;
    reader->offset = 0;
    reader->begin = reader->data.size = 0;
    if (file->type == AOF_FILE_BASE)
        status = rdb_import(player, file->name, message);
    if (status == STATUS_OK) {
        result = file_play(player, &where);
        if (result == RECORD_BAD && may_be_torn)
            result = zeros_try(player, &where);
        status = file_end(player, file, may_be_torn, result, where, size, message);
    }
    close(reader->fd);
    player->done += size;
    return status;
}

bool aof_name_is_image(const char *name)
{
    struct bytes suffix = BYTES(".base.image");
    size_t size = strlen(name);

    return size > suffix.size && memcmp(name + size - suffix.size, suffix.data, suffix.size) == 0;
}

static bool is_played(const struct aof_file *file)
{
    return file->type == AOF_FILE_INCREMENT || (file->type == AOF_FILE_BASE && !aof_name_is_image(file->name));
}

/* The bytes of each file that count. A file may be longer than its manifest says: whoever wrote that manifest was
 * killed before it could cut the file (aof_increment.c, aof_increment_replace). aof_start does it. */
static enum status sizes_read(const struct aof_replay *replay, uint64_t *sizes, char *message)
{
    for (int i = 0; i < replay->manifest->count; i++) {
        const struct aof_file *file = &replay->manifest->files[i];
        struct stat info;

        sizes[i] = 0;
        if (!is_played(file))
            continue;
        if (fstatat(replay->dir_fd, file->name, &info, 0) != 0 || !S_ISREG(info.st_mode)) {
            snprintf(message, MESSAGE_SIZE, "The AOF manifest names %s, which can't be read: %s", file->name,
                errno == 0 ? "it is no file" : strerror(errno));
            return errno == 0 ? STATUS_CORRUPT : status_of_errno(errno);
        }
        sizes[i] = (uint64_t)info.st_size;
        if (file->valid_size == UINT64_MAX)
            continue;
        if (sizes[i] < file->valid_size) {
            snprintf(message, MESSAGE_SIZE, "The AOF file %s has %" PRIu64 " bytes, its manifest says %" PRIu64, file->name,
                sizes[i], file->valid_size);
            return STATUS_CORRUPT;
        }
        sizes[i] = file->valid_size;
    }
    return STATUS_OK;
}

enum status aof_replay_files(const struct aof_replay *replay, char *message)
{
    const struct aof_manifest *manifest = replay->manifest;
    struct player player = { .replay = replay };
    uint64_t *sizes = mem_zalloc(((size_t)manifest->count + 1) * sizeof(sizes[0]));
    const struct bytes select[2] = { BYTES("SELECT"), BYTES("0") };
    enum status status;
    int last = -1, played = 0;

    message[0] = 0;
    errno = 0;
    status = sizes_read(replay, sizes, message);
    for (int i = 0; i < manifest->count; i++) {
        player.total += sizes[i];
        if (sizes[i] > 0 && (manifest->files[i].type == AOF_FILE_INCREMENT || replay->base_may_be_torn))
            last = i;
    }
    /* The base comes first, wherever its line is. */
    for (int pass = 0; pass < 2 && status == STATUS_OK; pass++)
        for (int i = 0; i < manifest->count && status == STATUS_OK; i++) {
            const struct aof_file *file = &manifest->files[i];

            if (!is_played(file) || (file->type == AOF_FILE_BASE) != (pass == 0))
                continue;
            if (played++ > 0 && !replay->run(replay->context, select, 2)) {
                snprintf(message, MESSAGE_SIZE, "SELECT 0 was refused");
                status = STATUS_INVALID;
                break;
            }
            status = file_replay(&player, file, sizes[i], i == last && file->valid_size == UINT64_MAX, message);
        }
    player.reader.offset = player.reader.begin = 0;
    if (status == STATUS_OK)
        progress_tell(&player, true);
    buffer_release(&player.reader.data);
    mem_free(player.spans);
    mem_free(player.args);
    mem_free(sizes);
    return status;
}
