#include "pubsub/publication.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "resp/reply.h"

/* `extra` bytes follow the links; returned by publication_room. */
static struct publication *create_publication(int worker_count, size_t extra)
{
    size_t size = sizeof(struct publication) + (size_t)worker_count * sizeof(struct publication *) + extra;
    struct publication *publication = mem_alloc(size);

    *publication = (struct publication){ .holders = 1, .worker_count = worker_count, .size = size };
    return publication;
}

static char *extra_of(struct publication *publication)
{
    return (char *)(publication->posted_next + publication->worker_count);
}

/* A bulk string; returns where it ends. *text is the bytes in it. */
static char *write_bulk(char *at, struct bytes from, struct bytes *text)
{
    at = reply_header_write(at, '$', (int64_t)from.size);
    *text = bytes_of(at, from.size);
    if (from.size > 0)
        memcpy(at, from.data, from.size);
    at += from.size;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

struct publication *publication_create(int worker_count, enum topic_kind kind, struct bytes channel, struct bytes text)
{
    bool is_long = text.size >= REPLY_SHARE_MIN;
    size_t room = REPLY_HEADER_SIZE + channel.size + 2 + (is_long ? 0 : REPLY_HEADER_SIZE + text.size + 2);
    struct publication *publication = create_publication(worker_count, room);
    char *begin = extra_of(publication), *end = write_bulk(begin, channel, &publication->channel);
    struct bytes copy;

    publication->kind = kind;
    if (is_long) {
        publication->blob = blob_copy(text);
        publication->size += text.size;
    } else {
        end = write_bulk(end, text, &copy);
    }
    publication->tail = bytes_of(begin, (size_t)(end - begin));
    return publication;
}

static int compare_targets(const void *left, const void *right)
{
    uint64_t a = ((const struct push_target *)left)->client_id, b = ((const struct push_target *)right)->client_id;

    return (a > b) - (a < b);
}

static char *copy_form(char *at, struct bytes from, struct bytes *form)
{
    if (from.size > 0)
        memcpy(at, from.data, from.size);
    *form = bytes_of(at, from.size);
    return at + from.size;
}

struct publication *publication_create_push(int worker_count, int worker, const struct push_target *targets, size_t target_count,
    struct bytes resp2, struct bytes resp3)
{
    size_t targets_size = target_count * sizeof(*targets);
    struct publication *publication = create_publication(worker_count, targets_size + resp2.size + resp3.size);
    char *at = extra_of(publication);

    publication->is_push = true;
    publication->worker = worker;
    publication->targets = (struct push_target *)(void *)at;
    publication->target_count = target_count;
    memcpy(publication->targets, targets, targets_size);
    qsort(publication->targets, target_count, sizeof(*targets), compare_targets);
    at = copy_form(at + targets_size, resp2, &publication->forms[0]);
    copy_form(at, resp3, &publication->forms[1]);
    return publication;
}

void publication_hold(struct publication *publication)
{
    atomic_fetch_add_explicit(&publication->holders, 1, memory_order_relaxed);
}

bool publication_release(struct publication *publication)
{
    if (atomic_fetch_sub(&publication->holders, 1) != 1)
        return false;
    blob_release(publication->blob);
    mem_free(publication);
    return true;
}

const struct push_target *publication_target(const struct publication *publication, uint64_t client_id)
{
    struct push_target wanted = { .client_id = client_id };

    return bsearch(&wanted, publication->targets, publication->target_count, sizeof(wanted), compare_targets);
}
