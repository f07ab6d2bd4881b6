#include "persist/aof_replay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "persist/aof_map.h"
#include "persist/aof_mark.h"
#include "persist/aof_name.h"
#include "persist/aof_tear.h"
#include "persist/rdb_reader.h"

enum {
    READ_SIZE = 1 << 20,
    LINE_SIZE_MAX = 1024,           /* of an annotation, as in Redis */
    NUMBER_SIZE_MAX = 24,
    PROGRESS_US = 50000,
    PROGRESS_COMMANDS = 128,        /* between two readings of the clock */
};

/* A window on a file: `data` has the bytes from `offset` on. Bytes before `begin` may be dropped by the next read. Positions within a
 * command (or a group, which has to be complete before it is run) are relative to `begin`, so the data may move. */
struct reader {
    int fd;
    uint64_t size;                  /* bytes that count */
    uint64_t offset;
    struct buffer data;
    size_t begin;
    bool failed;                    /* a read failed; `error` is its errno */
    int error;
};

enum record { RECORD_COMPLETE, RECORD_NOTHING, RECORD_TORN, RECORD_BAD };
enum word { WORD_PLAIN, WORD_MULTI, WORD_EXEC };

struct span {
    uint64_t offset;                /* in the file */
    size_t size;
};

/* A command that was read and is to be run. */
struct parsed_command {
    uint64_t where, end;            /* in the file */
    size_t span;                    /* index of its first argument */
    int arg_count;
    enum word word;
    uint64_t number;                /* of the look-ahead's */
};

/* Commands are read before they are run, so that their keys can be loaded until then. `commands` and `spans` are queues in arrays: elements
 * before `first` are done. */
struct player {
    const struct aof_replay *replay;
    struct reader reader;
    struct parsed_command *commands;
    size_t command_first, command_end, command_capacity;
    struct span *spans;
    size_t span_first, span_end, span_capacity;
    uint64_t ahead;                 /* where the next command is read, in the file */
    enum record ended;              /* why there is no command; RECORD_COMPLETE: not known yet */
    struct bytes *args;
    int arg_capacity;
    uint64_t done, total;           /* bytes of the files before this one, and of all */
    int64_t progress_us;
    int commands_since_look;                     /* commands since the clock was read */
    const char *problem;            /* of the current record */
    uint64_t seq;                   /* of the file, if it is an increment; 0: it is none */
    bool is_marked, has_command;    /* the file, so far */
    uint64_t mark_at;               /* after the last STREAM mark that was read */
    uint64_t select_at;             /* of the last SELECT that was run; UINT64_MAX: none of this file */
    int select_db;
};

static bool reader_read(struct reader *reader, size_t upto)
{
    while (reader->data.size - reader->begin < upto) {
        uint64_t end = reader->offset + reader->data.size;
        uint64_t left = reader->size - end;
        size_t missing = upto - (reader->data.size - reader->begin), want = missing > READ_SIZE ? missing : READ_SIZE;
        ssize_t size;

        if (left == 0 || missing > left)
            return false;
        if (want > left)
            want = (size_t)left;
        if (reader->begin > reader->data.size / 2) {    /* not each time: much may be read ahead */
            size_t kept = reader->data.size - reader->begin;

            memmove(reader->data.data, reader->data.data + reader->begin, kept);
            reader->offset += reader->begin;
            reader->data.size = kept;
            reader->begin = 0;
            buffer_shrink(&reader->data, 4 * kept + 4 * READ_SIZE);
        }
        size = file_pread_all(disk_system(), reader->fd, buffer_reserve(&reader->data, want), want, end);
        if (size < 0) {
            reader->failed = true;
            reader->error = errno;
            return false;
        }
        if (size == 0) {
            reader->size = end;      /* another process truncated it meanwhile */
            return false;
        }
        reader->data.size += (size_t)size;
        file_read_ahead(reader->fd, end, end + (uint64_t)size);
    }
    return true;
}

/* Makes [begin, begin + upto) available. False: the file ends before that, or can't be read. */
static inline bool reader_need(struct reader *reader, size_t upto)
{
    return LIKELY(reader->data.size - reader->begin >= upto) || reader_read(reader, upto);
}

static const char *reader_at(const struct reader *reader, size_t position)
{
    return reader->data.data + reader->begin + position;
}

/* `<kind><number>\r\n` at *position, which moves past it. */
static enum record read_number(struct player *player, size_t *position, char kind, uint64_t *number, const char *problem)
{
    struct reader *reader = &player->reader;
    size_t digits = 0;
    uint64_t value = 0;

    player->problem = problem;
    if (!reader_need(reader, *position + 1))
        return RECORD_TORN;
    if (*reader_at(reader, *position) != kind)
        return RECORD_BAD;
    for (;; digits++) {
        char c;

        if (!reader_need(reader, *position + digits + 2))
            return RECORD_TORN;
        c = *reader_at(reader, *position + 1 + digits);
        if (c == '\r' && digits > 0)
            break;
        if (c < '0' || c > '9' || digits >= NUMBER_SIZE_MAX || value > (UINT64_MAX >> 8) / 10)
            return RECORD_BAD;
        value = value * 10 + (uint64_t)(c - '0');
    }
    *position += digits + 2;
    if (!reader_need(reader, *position + 1))
        return RECORD_TORN;
    if (*reader_at(reader, *position) != '\n')
        return RECORD_BAD;
    *position += 1;
    *number = value;
    return RECORD_COMPLETE;
}

/* Notes what the annotation in [at, end) of the file says about the stream. */
static void note_annotation(struct player *player, struct bytes line, uint64_t at, uint64_t end)
{
    struct aof_map *map = player->replay->map;
    struct history_point point;
    uint64_t size = 0;

    if (map == NULL || player->seq == 0)
        return;
    switch (aof_mark_parse(line, &point, &size)) {
    case AOF_MARK_NONE:
        break;
    case AOF_MARK_LOCAL:
        if (size <= player->reader.size - end) {
            aof_map_skip(map, player->seq, at, end + size);
            return;
        }
        break;
    case AOF_MARK_STREAM:
        aof_map_skip(map, player->seq, at, end);
        aof_map_begin(map, player->seq, end, &point);
        player->is_marked = true;
        player->mark_at = end;
        return;
    case AOF_MARK_BAD:
        aof_map_forget(map);
        player->is_marked = false;
        break;
    }
    aof_map_skip(map, player->seq, at, end);
}

/* Lines that begin with '#' have a mark, a timestamp or a comment. */
static enum record skip_annotation(struct player *player, size_t *position)
{
    uint64_t at = player->reader.offset + player->reader.begin + *position;
    size_t size = 0;

    player->problem = "an annotation that does not end";
    for (;;) {
        if (!reader_need(&player->reader, *position + size + 1))
            return RECORD_TORN;
        if (*reader_at(&player->reader, *position + size++) == '\n')
            break;
        if (size > LINE_SIZE_MAX)
            return RECORD_BAD;
    }
    note_annotation(player, bytes_of(reader_at(&player->reader, *position), size), at, at + size);
    *position += size;
    return RECORD_COMPLETE;
}

/* RECORD_NOTHING: the file ends after them. */
static enum record skip_annotations(struct player *player, size_t *position)
{
    struct reader *reader = &player->reader;

    for (;;) {
        enum record result;

        if (!reader_need(reader, *position + 1))
            return reader->failed ? RECORD_TORN : RECORD_NOTHING;
        if (*reader_at(reader, *position) != '#')
            return RECORD_COMPLETE;
        result = skip_annotation(player, position);
        if (result != RECORD_COMPLETE)
            return result;
    }
}

/* Makes room for one more element of `size` bytes at the end of a queue. */
static void *grow_queue(void *elements, size_t *first, size_t *end, size_t *capacity, size_t size)
{
    if (*end < *capacity)
        return elements;
    if (*first > *capacity / 2) {
        memmove(elements, (char *)elements + *first * size, (*end - *first) * size);
        *end -= *first;
        *first = 0;
        return elements;
    }
    *capacity = *capacity == 0 ? 256 : *capacity * 2;
    return mem_realloc(elements, *capacity * size);
}

/* Adds an argument of the command that is being read. */
static void add_span(struct player *player, uint64_t offset, size_t size)
{
    size_t before = player->span_first;

    player->spans = grow_queue(player->spans, &player->span_first, &player->span_end, &player->span_capacity, sizeof(struct span));
    if (player->span_first != before) {
        for (size_t i = player->command_first; i < player->command_end; i++)
            player->commands[i].span -= before;
    }
    player->spans[player->span_end++] = (struct span){ offset, size };
}

/* Reads the command at *position. RECORD_COMPLETE: its arguments are the last spans, and *position is after it. Otherwise *position is
 * unchanged. */
static enum record read_record(struct player *player, size_t *position, int *arg_count)
{
    struct reader *reader = &player->reader;
    size_t here = *position;
    uint64_t count = 0, size = 0;
    enum record result;

    result = read_number(player, &here, '*', &count, "expected '*' and the number of arguments");
    if (result != RECORD_COMPLETE)
        return result;
    if (count == 0 || count > INT32_MAX / 2)
        return RECORD_BAD;
    for (uint64_t i = 0; i < count; i++) {
        result = read_number(player, &here, '$', &size, "expected '$' and the length of an argument");
        if (result != RECORD_COMPLETE)
            return result;
        if (size > reader->size || !reader_need(reader, here + size + 2))
            return RECORD_TORN;
        player->problem = "an argument does not end in CRLF";
        if (memcmp(reader_at(reader, here + size), "\r\n", 2) != 0)
            return RECORD_BAD;
        add_span(player, reader->offset + reader->begin + here, (size_t)size);
        here += size + 2;
    }
    *arg_count = (int)count;
    *position = here;
    return RECORD_COMPLETE;
}

/* The arguments of a command, borrowed until the next one is read. */
static const struct bytes *args_of(struct player *player, const struct parsed_command *command)
{
    const struct reader *reader = &player->reader;

    if (command->arg_count > player->arg_capacity) {
        player->arg_capacity = command->arg_count + 64;
        player->args = mem_realloc(player->args, (size_t)player->arg_capacity * sizeof(player->args[0]));
    }
    for (int i = 0; i < command->arg_count; i++) {
        const struct span *span = &player->spans[command->span + (size_t)i];

        player->args[i] = bytes_of(reader->data.data + (span->offset - reader->offset), span->size);
    }
    return player->args;
}

static enum word word_of(const struct bytes *args, int arg_count)
{
    if (arg_count != 1)
        return WORD_PLAIN;
    if (bytes_is(args[0], "MULTI"))
        return WORD_MULTI;
    return bytes_is(args[0], "EXEC") ? WORD_EXEC : WORD_PLAIN;
}

/* Commands of a file that does not begin with a mark are another server's: where the stream is after them is not known. */
static void note_command(struct player *player)
{
    if (!player->has_command && !player->is_marked && player->replay->map != NULL)
        aof_map_forget(player->replay->map);
    player->has_command = true;
}

/* Reads one more command ahead. False: there is none; player->ended says why, player->ahead where. */
static bool read_ahead(struct player *player)
{
    struct reader *reader = &player->reader;
    struct parsed_command command = { 0 };
    size_t position = (size_t)(player->ahead - reader->offset - reader->begin), spans = player->span_end - player->span_first;
    const struct bytes *args;

    if (player->ended != RECORD_COMPLETE)
        return false;
    player->ended = skip_annotations(player, &position);
    player->ahead = command.where = reader->offset + reader->begin + position;
    if (player->ended == RECORD_COMPLETE)
        player->ended = read_record(player, &position, &command.arg_count);
    if (player->ended != RECORD_COMPLETE)
        return false;
    note_command(player);
    player->ahead = command.end = reader->offset + reader->begin + position;
    command.span = player->span_first + spans;
    args = args_of(player, &command);
    command.word = word_of(args, command.arg_count);
    if (player->replay->ahead != NULL)
        command.number = player->replay->ahead(player->replay->context, args, command.arg_count);
    player->commands = grow_queue(player->commands, &player->command_first, &player->command_end, &player->command_capacity,
        sizeof(struct parsed_command));
    player->commands[player->command_end++] = command;
    return true;
}

/* Bytes that were read ahead. */
static uint64_t size_ahead(const struct player *player)
{
    return player->ahead - player->reader.offset - player->reader.begin;
}

/* Commands are read when half of what was read ahead has been run: in blocks, which is better for the CPU's caches, and for
 * loading their keys. */
static void keep_ahead(struct player *player)
{
    const struct aof_ahead_limits *limits = &player->replay->ahead_limits;
    size_t limit = player->replay->ahead != NULL ? limits->commands : 1;

    if (player->command_end - player->command_first > limit / 2 || (limit > 1 && size_ahead(player) > limits->bytes / 2))
        return;
    while (player->command_end - player->command_first < limit && (limit == 1 || size_ahead(player) < limits->bytes) && read_ahead(player))
        ;
    if (player->command_end == player->command_first)
        read_ahead(player);     /* one that is larger than that */
}

/* Whether it is an EXEC with one bit changed; no command has such a name. */
static bool is_nearly_exec(struct player *player, const struct parsed_command *command)
{
    const struct bytes name = args_of(player, command)[0];
    int bits = 0;

    if (command->arg_count != 1 || name.size != 4)
        return false;
    for (int i = 0; i < 4; i++)
        bits += __builtin_popcount((unsigned char)((name.data[i] ^ "EXEC"[i]) & ~('a' ^ 'A')));
    return bits == 1;
}

/* A MULTI without its EXEC is torn, unless there is a damaged EXEC: then the log goes on after it. */
static enum record judge_open_group(struct player *player, uint64_t *where)
{
    *where = player->commands[player->command_first].where;
    for (size_t i = player->command_first + 1; i < player->command_end; i++) {
        if (!is_nearly_exec(player, &player->commands[i]))
            continue;
        player->problem = "a MULTI without its EXEC, but with a command of nearly that name";
        return RECORD_BAD;
    }
    player->problem = "a MULTI without its EXEC";
    return RECORD_TORN;
}

/* Sets *count to the number of commands between the MULTI, which is the first command, and its EXEC. False: there is no such group; *result
 * and *where say how it ended. */
static bool find_group_end(struct player *player, size_t *count, enum record *result, uint64_t *where)
{
    for (size_t i = 1;; i++) {
        const struct parsed_command *command;

        while (player->command_end - player->command_first <= i) {
            if (read_ahead(player))
                continue;
            *result = player->ended;
            *where = player->ahead;
            if (player->ended != RECORD_BAD)
                *result = judge_open_group(player, where);
            return false;
        }
        command = &player->commands[player->command_first + i];
        if (command->word == WORD_EXEC) {
            *count = i - 1;
            return true;
        }
        if (command->word == WORD_MULTI) {
            player->problem = "a MULTI inside a MULTI";
            *where = command->where;
            *result = RECORD_BAD;
            return false;
        }
    }
}

/* Removes the first command; its bytes may be dropped. */
static void pop_command(struct player *player)
{
    const struct parsed_command *command = &player->commands[player->command_first++];

    player->reader.begin = (size_t)(command->end - player->reader.offset);
    player->span_first = command->span + (size_t)command->arg_count;
}

static bool run_first_command(struct player *player, uint64_t *where)
{
    const struct parsed_command *command = &player->commands[player->command_first];
    const struct bytes *args = args_of(player, command);
    int64_t db;

    *where = command->where;
    if (command->arg_count == 2 && bytes_is(args[0], "SELECT") && text_to_int(args[1], &db) && db >= 0 && db <= INT32_MAX) {
        player->select_at = command->where;
        player->select_db = (int)db;
    }
    return player->replay->run(player->replay->context, args, command->arg_count, command->number);
}

static void report_progress(struct player *player, bool always)
{
    const struct aof_replay *replay = player->replay;
    int64_t now;

    if (replay->progress == NULL || (!always && ++player->commands_since_look % PROGRESS_COMMANDS != 0))
        return;
    now = clock_mono_us();
    if (!always && now - player->progress_us < PROGRESS_US)
        return;
    player->progress_us = now;
    replay->progress(replay->context, player->done + player->reader.offset + player->reader.begin, player->total);
}

/* Returns how the file ended: RECORD_NOTHING (without a problem), RECORD_TORN, RECORD_BAD, or RECORD_COMPLETE (a command was refused), and
 * sets *where to that offset. Everything before it was run. */
static enum record play_file(struct player *player, uint64_t *where)
{
    enum record result;
    size_t count;

    player->command_first = player->command_end = player->span_first = player->span_end = 0;
    player->ahead = player->reader.offset + player->reader.begin;
    player->ended = RECORD_COMPLETE;
    for (;;) {
        keep_ahead(player);
        if (player->command_first == player->command_end) {
            *where = player->ahead;
            return player->ended;
        }
        report_progress(player, false);
        switch (player->commands[player->command_first].word) {
        case WORD_PLAIN:
            if (!run_first_command(player, where))
                return RECORD_COMPLETE;
            pop_command(player);
            break;
        case WORD_EXEC:
            *where = player->commands[player->command_first].where;
            player->problem = "an EXEC without a MULTI";
            return RECORD_BAD;
        case WORD_MULTI:
            if (!find_group_end(player, &count, &result, where))
                return result;
            pop_command(player);
            for (size_t i = 0; i < count; i++) {
                if (!run_first_command(player, where))
                    return RECORD_COMPLETE;
                pop_command(player);
            }
            pop_command(player);
            break;
        }
    }
}

static void report_import(void *context, uint64_t done)
{
    struct player *player = context;
    const struct aof_replay *replay = player->replay;

    if (replay->progress != NULL)
        replay->progress(replay->context, player->done + done, player->total);
}

/* Used if there is no aof_import function. */
static enum status skip_empty_rdb(int fd, uint64_t *size, struct message *message)
{
    struct rdb_reader *reader = rdb_reader_create_file(fd);
    struct rdb_part part;
    enum status status;

    while ((status = rdb_read(reader, &part, message)) == STATUS_OK && part.kind != RDB_PART_END) {
        if (part.kind == RDB_PART_KEY || part.kind == RDB_PART_FUNCTION) {
            message_set(message, "it has data, which can't be imported here");
            status = STATUS_VERSION;
            break;
        }
    }
    *size = rdb_reader_offset(reader);
    rdb_reader_destroy(reader);
    return status;
}

/* Imports the RDB at the head of a base, if there is one. Commands may follow it. */
static enum status import_rdb(struct player *player, const char *name, struct message *message)
{
    const struct aof_replay *replay = player->replay;
    struct reader *reader = &player->reader;
    struct message why = { "" };
    uint64_t size = 0;
    enum status status;

    if (!reader_need(reader, 5) || !rdb_is_one(bytes_of(reader_at(reader, 0), 5)))
        return STATUS_OK;               /* an error is reported at the first command */
    if (replay->import != NULL)
        status = replay->import(replay->import_context, reader->fd, report_import, player, &size, &why);
    else
        status = skip_empty_rdb(reader->fd, &size, &why);
    reader->offset = size;
    reader->begin = reader->data.size = 0;
    if (status != STATUS_OK)
        message_set(message, "%.40s can't be loaded: %.190s", name, why.text);
    return status;
}

/* Truncates the file to `where`, durably: what is appended next must not follow a part of a command. */
static enum status cut_tail(const struct aof_replay *replay, int fd, const char *name, uint64_t where, struct message *message)
{
    if (replay->disk->ftruncate(replay->disk->context, fd, (off_t)where) == 0
        && replay->disk->fdatasync(replay->disk->context, fd) == 0)
        return STATUS_OK;
    message_set(message, "Can't truncate the AOF file %s to %" PRIu64 " bytes: %s", name, where, strerror(errno));
    return STATUS_IO;
}

/* Returns where the zeros at the end of a file begin. A power cut may leave a file with its old size but without its last bytes: these are
 * read as zeros. */
static uint64_t find_zeros(const struct reader *reader)
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

/* Plays the rest without zeros at its end. Bad bytes may be a torn end with zeros after it: then it is torn if the zeros are ignored.
 * Begins where the last play ended. */
static enum record play_without_zeros(struct player *player, uint64_t *where)
{
    struct reader *reader = &player->reader;
    uint64_t end = find_zeros(reader);

    if (end == reader->size || end < reader->offset + reader->begin)
        return RECORD_BAD;
    reader->size = end;
    if (reader->offset + reader->data.size > end)
        reader->data.size = (size_t)(end - reader->offset);
    return play_file(player, where) == RECORD_BAD ? RECORD_BAD : RECORD_TORN;
}

/* A torn end, unless the log goes on after it (aof_tear.h): then RECORD_BAD, and `problem`, of MESSAGE_SIZE, says where. */
static enum record judge_tear(struct player *player, char *problem)
{
    struct reader *reader = &player->reader;
    uint64_t from = player->ahead, left = reader->size - from;
    size_t size = left < AOF_TEAR_SIZE_MAX ? (size_t)left : AOF_TEAR_SIZE_MAX, again;
    enum record result = RECORD_TORN;

    reader->offset = from;
    reader->begin = reader->data.size = 0;
    if (size > 0 && reader_need(reader, size) && aof_tear_is_damage(reader->data.data, size, &again)) {
        result = RECORD_BAD;
        if (again < size)
            snprintf(problem, MESSAGE_SIZE, "a command with a wrong length; whole ones go on at offset %" PRIu64, from + again);
        else
            snprintf(problem, MESSAGE_SIZE, "a command with a wrong length, the last one");
    }
    return result;
}

static enum status judge_file_end(struct player *player, const struct aof_file *file, bool may_be_torn, enum record result,
    uint64_t where, uint64_t size, struct message *message)
{
    const struct aof_replay *replay = player->replay;
    struct reader *reader = &player->reader;
    const char *problem = player->problem;
    char tear[MESSAGE_SIZE];

    if (result == RECORD_TORN && !reader->failed) {
        result = judge_tear(player, tear);
        problem = tear;
    }
    if (replay->damaged_at != NULL && result != RECORD_NOTHING)
        *replay->damaged_at = where;
    if (reader->failed) {
        message_set(message, "Can't read the AOF file %s: %s", file->name, strerror(reader->error));
        return STATUS_IO;
    }
    switch (result) {
    case RECORD_NOTHING: return STATUS_OK;
    case RECORD_COMPLETE:
        message_set(message, "The command at offset %" PRIu64 " of the AOF file %s was refused", where, file->name);
        return STATUS_INVALID;
    case RECORD_BAD:
        message_set(message, "Bad file format in the AOF file %.60s at offset %" PRIu64 ": %.90s. kelvin-check can "
            "repair it; what follows is lost then", file->name, where, problem);
        return STATUS_CORRUPT;
    case RECORD_TORN: break;
    }
    if (!may_be_torn) {
        message_set(message, "The AOF file %s ends early, at offset %" PRIu64 ", and others follow it", file->name,
            where);
        return STATUS_CORRUPT;
    }
    if (!replay->load_truncated) {
        message_set(message, "The AOF file %s ends in the middle of a command at offset %" PRIu64 ". "
            "aof-load-truncated yes would cut it off", file->name, where);
        return STATUS_TRUNCATED;
    }
    if (cut_tail(replay, reader->fd, file->name, where, message) != STATUS_OK)
        return STATUS_IO;
    message_set(message, "The AOF file %s ended in the middle of a command: %" PRIu64 " bytes were cut off at "
        "offset %" PRIu64, file->name, size - where, where);
    return STATUS_OK;
}

/* The file counts up to `where`. */
static void note_end(struct player *player, uint64_t where)
{
    struct aof_map *map = player->replay->map;
    bool selects = player->select_at != UINT64_MAX && player->select_at >= player->mark_at;

    if (map == NULL || player->seq == 0)
        return;
    if (player->is_marked && player->mark_at > where)
        aof_map_forget(map);
    aof_map_close(map, player->seq, where, selects ? player->select_db : -1);
}

static enum status replay_file(struct player *player, const struct aof_file *file, uint64_t size, bool may_be_torn,
    struct message *message)
{
    struct reader *reader = &player->reader;
    enum status status = STATUS_OK;
    uint64_t where = 0;
    enum record result;

    reader->fd = openat(player->replay->dir_fd, file->name, (may_be_torn ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (reader->fd < 0) {
        message_set(message, "Can't open the AOF file %s: %s", file->name, strerror(errno));
        return status_of_errno(errno);
    }
    reader->size = size;
    reader->offset = 0;
    reader->begin = reader->data.size = 0;
    player->seq = file->type == AOF_FILE_INCREMENT ? file->seq : 0;
    player->is_marked = player->has_command = false;
    player->mark_at = 0;
    player->select_at = UINT64_MAX;
    if (file->type == AOF_FILE_BASE)
        status = import_rdb(player, file->name, message);
    if (status == STATUS_OK) {
        result = play_file(player, &where);
        if (result == RECORD_BAD && may_be_torn)
            result = play_without_zeros(player, &where);
        status = judge_file_end(player, file, may_be_torn, result, where, size, message);
    }
    if (status == STATUS_OK)
        note_end(player, where);
    close(reader->fd);
    player->done += size;
    return status;
}

static bool is_played(const struct aof_file *file)
{
    return file->type == AOF_FILE_INCREMENT || (file->type == AOF_FILE_BASE && !aof_name_is_image(file->name));
}

/* The bytes of each file that count. A file may be longer than its manifest says: the server that wrote that manifest was killed before it
 * truncated the file (aof_increment_replace in aof_increment.c). aof_start does it. */
static enum status read_sizes(const struct aof_replay *replay, uint64_t *sizes, struct message *message)
{
    for (int i = 0; i < replay->manifest->count; i++) {
        const struct aof_file *file = &replay->manifest->files[i];
        struct stat info;

        sizes[i] = 0;
        if (!is_played(file))
            continue;
        if (fstatat(replay->dir_fd, file->name, &info, 0) != 0 || !S_ISREG(info.st_mode)) {
            message_set(message, "The AOF file %s that the manifest names can't be read: %s", file->name,
                errno == 0 ? "it is not a file" : strerror(errno));
            return errno == 0 ? STATUS_CORRUPT : status_of_errno(errno);
        }
        sizes[i] = (uint64_t)info.st_size;
        if (file->valid_size == UINT64_MAX)
            continue;
        if (sizes[i] < file->valid_size) {
            message_set(message, "The AOF file %s has %" PRIu64 " bytes, its manifest says %" PRIu64, file->name,
                sizes[i], file->valid_size);
            return STATUS_CORRUPT;
        }
        sizes[i] = file->valid_size;
    }
    return STATUS_OK;
}

enum status aof_replay_files(const struct aof_replay *replay, struct message *message)
{
    const struct aof_manifest *manifest = replay->manifest;
    struct player player = { .replay = replay };
    uint64_t *sizes = mem_zalloc(((size_t)manifest->count + 1) * sizeof(sizes[0]));
    const struct bytes select[2] = { BYTES("SELECT"), BYTES("0") };
    enum status status;
    int last = -1, played = 0;

    message->text[0] = '\0';
    errno = 0;
    status = read_sizes(replay, sizes, message);
    for (int i = 0; i < manifest->count; i++) {
        player.total += sizes[i];
        if (sizes[i] > 0 && (manifest->files[i].type == AOF_FILE_INCREMENT || replay->base_may_be_torn))
            last = i;
    }
    if (status == STATUS_OK)
        report_progress(&player, true);
    /* The base is first, wherever its line is. */
    for (int pass = 0; pass < 2 && status == STATUS_OK; pass++)
        for (int i = 0; i < manifest->count && status == STATUS_OK; i++) {
            const struct aof_file *file = &manifest->files[i];

            if (!is_played(file) || (file->type == AOF_FILE_BASE) != (pass == 0))
                continue;
            if (played++ > 0 && !replay->run(replay->context, select, 2, 0)) {
                message_set(message, "SELECT 0 was refused");
                status = STATUS_INVALID;
                break;
            }
            status = replay_file(&player, file, sizes[i], i == last && file->valid_size == UINT64_MAX, message);
        }
    player.reader.offset = player.reader.begin = 0;
    if (status == STATUS_OK)
        report_progress(&player, true);
    buffer_release(&player.reader.data);
    mem_free(player.commands);
    mem_free(player.spans);
    mem_free(player.args);
    mem_free(sizes);
    return status;
}
