#include "stream/backlog.h"

#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"

struct backlog { struct mutex lock; uint64_t size, end, held; char *data; };
struct backlog_reader { struct backlog *backlog; uint64_t position; };

struct backlog *backlog_create(const struct backlog_options *options)
{
    struct backlog *backlog = mem_zalloc(sizeof(*backlog));

    mutex_init(&backlog->lock);
    backlog->size = options->memory_size;
    backlog->end = options->first;
    backlog->data = mem_alloc(backlog->size);
    return backlog;
}

void backlog_destroy(struct backlog *backlog)
{
    if (backlog == NULL)
        return;
    mem_free(backlog->data);
    mutex_release(&backlog->lock);
    mem_free(backlog);
}

void backlog_append(struct backlog *backlog, struct bytes bytes)
{
    mutex_lock(&backlog->lock);
    for (size_t i = 0; i < bytes.size; i++)
        backlog->data[(backlog->end + i) % backlog->size] = bytes.data[i];
    backlog->end += bytes.size;
    backlog->held = backlog->held + bytes.size > backlog->size ? backlog->size : backlog->held + bytes.size;
    mutex_unlock(&backlog->lock);
}

uint64_t backlog_begin(struct backlog *backlog) { return backlog->end - backlog->held; }
uint64_t backlog_end(struct backlog *backlog) { return backlog->end; }

struct backlog_reader *backlog_attach(struct backlog *backlog, uint64_t position)
{
    struct backlog_reader *reader = NULL;

    mutex_lock(&backlog->lock);
    if (position >= backlog_begin(backlog) && position <= backlog->end) {
        reader = mem_zalloc(sizeof(*reader));
        *reader = (struct backlog_reader){ backlog, position };
    }
    mutex_unlock(&backlog->lock);
    return reader;
}

enum backlog_result backlog_read(struct backlog_reader *reader, char *to, size_t max, uint64_t limit, size_t *got)
{
    struct backlog *backlog = reader->backlog;
    size_t n = 0;

    mutex_lock(&backlog->lock);
    if (reader->position < backlog_begin(backlog)) {
        mutex_unlock(&backlog->lock);
        return BACKLOG_LOST;
    }
    if (limit > backlog->end)
        limit = backlog->end;
    for (; n < max && reader->position < limit; n++)
        to[n] = backlog->data[reader->position++ % backlog->size];
    mutex_unlock(&backlog->lock);
    *got = n;
    return BACKLOG_OK;
}

uint64_t backlog_position(struct backlog_reader *reader) { return reader->position; }
void backlog_detach(struct backlog_reader *reader) { mem_free(reader); }

void backlog_stats(struct backlog *backlog, struct backlog_stats *stats)
{
    *stats = (struct backlog_stats){ backlog->held, 0 };
}
