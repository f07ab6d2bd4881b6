#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "stream/backlog_private.h"

/* --- needed positions: those of readers that are not lost, and retained ones --- */

static bool is_lost(const struct backlog_reader *reader)
{
    return reader->reason.loss != BACKLOG_NOT_LOST;
}

static struct backlog_reader *furthest_reader(const struct backlog *backlog) REQUIRES(backlog->lock);
static struct backlog_reader *furthest_reader(const struct backlog *backlog)
{
    struct backlog_reader *found = NULL;

    for (struct backlog_reader *reader = backlog->readers; reader != NULL; reader = reader->next)
        if (!is_lost(reader) && (found == NULL || reader->kept < found->kept))
            found = reader;
    return found;
}

/* An index; -1: there is none. */
static int furthest_retained(const struct backlog *backlog) REQUIRES(backlog->lock);
static int furthest_retained(const struct backlog *backlog)
{
    int found = -1;

    for (int i = 0; i < backlog->retained_count; i++)
        if (found < 0 || backlog->retained[i].position < backlog->retained[found].position)
            found = i;
    return found;
}

uint64_t backlog_needed_from(const struct backlog *backlog)
{
    const struct backlog_reader *reader = furthest_reader(backlog);
    int index = furthest_retained(backlog);
    uint64_t needed = reader != NULL ? reader->kept : UINT64_MAX;

    if (index >= 0 && backlog->retained[index].position < needed)
        needed = backlog->retained[index].position;
    return needed;
}

/* A needed position was moved or removed: closes the files that are not needed now. */
static void backlog_trim(struct backlog *backlog) REQUIRES(backlog->lock);
static void backlog_trim(struct backlog *backlog)
{
    struct spool *spool = &backlog->spool;
    uint64_t needed;

    if (spool_is_empty(spool))
        return;
    needed = backlog_needed_from(backlog);
    spool_trim(spool, needed == UINT64_MAX ? UINT64_MAX : backlog_number_of(backlog, needed));
    if (!spool_is_empty(spool) && spool_begin(spool) >= backlog->ring_first)
        spool_trim(spool, UINT64_MAX);      /* memory_size has grown: all of it is in memory */
}

static void remove_retained(struct backlog *backlog, int index) REQUIRES(backlog->lock);
static void remove_retained(struct backlog *backlog, int index)
{
    backlog->retained[index] = backlog->retained[--backlog->retained_count];
}

static void lose(struct backlog *backlog, struct backlog_reader *reader, struct backlog_loss_reason reason) REQUIRES(backlog->lock);
static void lose(struct backlog *backlog, struct backlog_reader *reader, struct backlog_loss_reason reason)
{
    if (is_lost(reader))
        return;
    reader->reason = reason;
    backlog->lost_readers++;
}

void backlog_give_up(struct backlog *backlog, struct backlog_loss_reason reason)
{
    struct backlog_reader *reader = furthest_reader(backlog);
    int index = furthest_retained(backlog);

    CHECK(reader != NULL || index >= 0);
    if (index >= 0 && (reader == NULL || backlog->retained[index].position <= reader->kept)) {
        remove_retained(backlog, index);
        backlog->lost_retained++;
    } else if (reader->kept < reader->position) {
        reader->kept = reader->position;
    } else {
        lose(backlog, reader, reason);
    }
    backlog_trim(backlog);
}

static void add_retained(struct backlog *backlog, uint64_t position, int64_t until_ms) REQUIRES(backlog->lock);
static void add_retained(struct backlog *backlog, uint64_t position, int64_t until_ms)
{
    if (backlog->retained_count == BACKLOG_RETAINED_MAX) {
        remove_retained(backlog, furthest_retained(backlog));
        backlog->lost_retained++;
    }
    backlog->retained[backlog->retained_count++] = (struct retained){ position, until_ms };
}

bool backlog_retain(struct backlog *backlog, uint64_t position, int64_t until_ms)
{
    bool is_there;

    mutex_lock(&backlog->lock);
    is_there = position >= backlog_oldest(backlog) && position <= backlog->end;
    if (is_there) {
        add_retained(backlog, position, until_ms);
        backlog_trim(backlog);
    }
    backlog_unlock(backlog);
    return is_there;
}

/* The last one at or before `position`. If it is not that of the replica that returns, that one is before it, and keeps its bytes, too. */
static void take_retained(struct backlog *backlog, uint64_t position) REQUIRES(backlog->lock);
static void take_retained(struct backlog *backlog, uint64_t position)
{
    int found = -1;

    for (int i = 0; i < backlog->retained_count; i++) {
        if (backlog->retained[i].position > position)
            continue;
        if (found < 0 || backlog->retained[i].position > backlog->retained[found].position)
            found = i;
    }
    if (found >= 0)
        remove_retained(backlog, found);
}

void backlog_expire(struct backlog *backlog, int64_t now_ms)
{
    mutex_lock(&backlog->lock);
    for (int i = backlog->retained_count - 1; i >= 0; i--)
        if (backlog->retained[i].until_ms <= now_ms && backlog->retained[i].until_ms != INT64_MAX)
            remove_retained(backlog, i);
    backlog_trim(backlog);
    backlog_unlock(backlog);
    backlog_evict(backlog, BACKLOG_EVICT_UNLESS_BUSY);
}

/* --- readers --- */

static struct backlog_reader *attach(struct backlog *backlog, uint64_t position) REQUIRES(backlog->lock);
static struct backlog_reader *attach(struct backlog *backlog, uint64_t position)
{
    struct backlog_reader *reader;

    if (position < backlog_oldest(backlog) || position > backlog->end)
        return NULL;
    reader = mem_alloc(sizeof(*reader));
    *reader = (struct backlog_reader){ .backlog = backlog, .next = backlog->readers, .position = position, .kept = position };
    backlog->readers = reader;
    backlog->reader_count++;
    return reader;
}

struct backlog_reader *backlog_attach(struct backlog *backlog, uint64_t position)
{
    struct backlog_reader *reader;

    mutex_lock(&backlog->lock);
    reader = attach(backlog, position);
    backlog_unlock(backlog);
    return reader;
}

struct backlog_reader *backlog_resume(struct backlog *backlog, uint64_t position)
{
    struct backlog_reader *reader;

    mutex_lock(&backlog->lock);
    reader = attach(backlog, position);
    if (reader != NULL) {
        take_retained(backlog, position);
        backlog_trim(backlog);
    }
    backlog_unlock(backlog);
    return reader;
}

static void drop_copy(struct backlog *backlog, struct backlog_reader *reader) REQUIRES(backlog->lock);
static void drop_copy(struct backlog *backlog, struct backlog_reader *reader)
{
    if (LIKELY(reader->copy == NULL))
        return;
    mem_free(reader->copy);
    reader->copy = NULL;
    backlog->copy_count--;
}

static void unlink_reader(struct backlog *backlog, struct backlog_reader *reader) REQUIRES(backlog->lock);
static void unlink_reader(struct backlog *backlog, struct backlog_reader *reader)
{
    struct backlog_reader **link = &backlog->readers;

    while (*link != reader)
        link = &(*link)->next;
    *link = reader->next;
    backlog->reader_count--;
}

void backlog_detach(struct backlog_reader *reader)
{
    struct backlog *backlog;

    if (reader == NULL)
        return;
    backlog = reader->backlog;
    mutex_lock(&backlog->lock);
    unlink_reader(backlog, reader);
    drop_copy(backlog, reader);
    backlog_trim(backlog);
    backlog_unlock(backlog);
    mem_free(reader);
}

void backlog_leave(struct backlog_reader *reader, int64_t until_ms)
{
    struct backlog *backlog = reader->backlog;

    mutex_lock(&backlog->lock);
    if (!is_lost(reader))
        add_retained(backlog, reader->kept, until_ms);
    mutex_unlock(&backlog->lock);
    backlog_detach(reader);
}

uint64_t backlog_position(const struct backlog_reader *reader)
{
    return reader->position;
}

struct backlog_loss_reason backlog_reason(const struct backlog_reader *reader)
{
    struct backlog_loss_reason reason;

    mutex_lock(&reader->backlog->lock);
    reason = reader->reason;
    mutex_unlock(&reader->backlog->lock);
    return reason;
}

const char *backlog_loss_text(enum backlog_loss loss)
{
    switch (loss) {
    case BACKLOG_NOT_LOST: break;
    case BACKLOG_LOST_NO_DISK: return "its bytes have left memory, and nothing is kept on disk";
    case BACKLOG_LOST_BOUND: return "its bytes did not fit into the bound on disk space";
    case BACKLOG_LOST_WRITE: return "its bytes could not be written to the disk";
    case BACKLOG_LOST_READ: return "its bytes could not be read back from the disk";
    }
    return "";
}

/* --- reading --- */

static void keep_from(struct backlog *backlog, struct backlog_reader *reader, uint64_t position) REQUIRES(backlog->lock);
static void keep_from(struct backlog *backlog, struct backlog_reader *reader, uint64_t position)
{
    bool is_next_block = backlog_number_of(backlog, position) != backlog_number_of(backlog, reader->kept);

    reader->kept = position;
    if (is_next_block)
        backlog_trim(backlog);
}

static void advance(struct backlog *backlog, struct backlog_reader *reader, size_t size) REQUIRES(backlog->lock);
static void advance(struct backlog *backlog, struct backlog_reader *reader, size_t size)
{
    reader->position += size;
    if (!reader->acknowledges)
        keep_from(backlog, reader, reader->position);
}

void backlog_acknowledge(struct backlog_reader *reader, uint64_t position)
{
    struct backlog *backlog = reader->backlog;

    mutex_lock(&backlog->lock);
    reader->acknowledges = true;
    if (position > reader->position)
        position = reader->position;
    if (position > reader->kept)
        keep_from(backlog, reader, position);
    backlog_unlock(backlog);
}

/* Where a reader's next bytes are. */
struct source {
    enum { SOURCE_NONE, SOURCE_LOST, SOURCE_MEMORY, SOURCE_COPY, SOURCE_DISK } kind;
    struct block *block;            /* of SOURCE_MEMORY, held */
    struct spool_file *file;        /* of SOURCE_DISK, held */
    uint64_t number;                /* of the block */
    size_t offset, size;            /* in it */
};

static struct source find_block(struct backlog *backlog, struct backlog_reader *reader, size_t max, uint64_t stop) REQUIRES(backlog->lock);
static struct source find_block(struct backlog *backlog, struct backlog_reader *reader, size_t max, uint64_t stop)
{
    struct source source = { .number = backlog_number_of(backlog, reader->position) };
    uint64_t start = backlog_start_of(backlog, source.number);

    if (stop > start + backlog->block_size)
        stop = start + backlog->block_size;
    source.offset = (size_t)(reader->position - start);
    source.size = (size_t)(stop - reader->position);
    if (source.size > max)
        source.size = max;
    if (LIKELY(source.number >= backlog->ring_first)) {
        source.kind = SOURCE_MEMORY;
        source.block = backlog_block(backlog, source.number);
        source.block->holds++;
        drop_copy(backlog, reader);
    } else if (reader->copy != NULL && reader->copy_number == source.number) {
        source.kind = SOURCE_COPY;
    } else {
        source.kind = SOURCE_DISK;
        source.file = spool_hold(&backlog->spool, source.number);
    }
    return source;
}

static struct source find_source(struct backlog_reader *reader, size_t max, uint64_t limit)
{
    struct backlog *backlog = reader->backlog;
    struct source source = { .kind = SOURCE_NONE };
    uint64_t stop;

    mutex_lock(&backlog->lock);
    stop = backlog->end < limit ? backlog->end : limit;
    if (is_lost(reader))
        source.kind = SOURCE_LOST;
    else if (max > 0 && reader->position < stop)
        source = find_block(backlog, reader, max, stop);
    mutex_unlock(&backlog->lock);
    return source;
}

static void copy_out(struct backlog_reader *reader, const struct source *source, char *to)
{
    struct backlog *backlog = reader->backlog;
    const char *from = source->kind == SOURCE_MEMORY ? source->block->data : reader->copy;

    memcpy(to, from + source->offset, source->size);
    mutex_lock(&backlog->lock);
    if (source->kind == SOURCE_MEMORY)
        backlog_let_go(backlog, source->block);
    advance(backlog, reader, source->size);
    backlog_unlock(backlog);
}

/* Copies the block from the spool, instead of the one before. Returns where the bytes are then, or that the reader is lost. */
static struct source fetch(struct backlog_reader *reader, const struct source *source)
{
    struct backlog *backlog = reader->backlog;
    char *copy = reader->copy != NULL ? reader->copy : mem_alloc(backlog->block_size);
    int error = spool_read(&backlog->spool, source->file, source->number, copy);
    struct source after = *source;

    mutex_lock(&backlog->lock);
    spool_let_go(&backlog->spool, source->file);
    backlog->copy_count += reader->copy == NULL;
    reader->copy = copy;
    reader->copy_number = source->number;
    backlog->blocks_read++;
    if (error != 0) {
        backlog->read_errors++;
        drop_copy(backlog, reader);
        lose(backlog, reader, (struct backlog_loss_reason){ BACKLOG_LOST_READ, error == EBADMSG ? 0 : error });
        backlog_trim(backlog);
    }
    after.kind = is_lost(reader) ? SOURCE_LOST : SOURCE_COPY;
    backlog_unlock(backlog);
    return after;
}

static void let_go_of_file(struct backlog *backlog, struct spool_file *file)
{
    mutex_lock(&backlog->lock);
    spool_let_go(&backlog->spool, file);
    backlog_unlock(backlog);
}

enum backlog_result backlog_read(struct backlog_reader *reader, char *to, size_t max, uint64_t limit, size_t *got)
{
    struct source source = find_source(reader, max, limit);

    *got = 0;
    if (source.kind == SOURCE_DISK)
        source = fetch(reader, &source);
    while (source.kind == SOURCE_MEMORY || source.kind == SOURCE_COPY) {
        copy_out(reader, &source, to + *got);
        *got += source.size;
        source = find_source(reader, max - *got, limit);
    }
    if (source.kind == SOURCE_DISK)
        let_go_of_file(reader->backlog, source.file);       /* for the next call */
    return source.kind == SOURCE_LOST && *got == 0 ? BACKLOG_LOST : BACKLOG_OK;
}
