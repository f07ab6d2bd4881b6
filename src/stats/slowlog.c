#include "stats/slowlog.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/mutex.h"

enum { WORDS_SIZE_MAX = 64 };       /* size of "... (123 more bytes)" */

/* One block of memory: the node, the array of its arguments, then all text. */
struct node {
    struct node *newer, *older;
    struct slowlog_entry entry;
    struct bytes args[];
};

struct slowlog {
    struct mutex lock;
    struct node *newest, *oldest;   /* lock, like the fields below */
    size_t count;
    uint64_t next_id;
};

struct slowlog *slowlog_create(void)
{
    struct slowlog *slowlog = mem_zalloc(sizeof(*slowlog));

    mutex_init(&slowlog->lock);
    return slowlog;
}

static void drop_beyond(struct slowlog *slowlog, size_t max_len)
{
    while (slowlog->count > max_len) {
        struct node *oldest = slowlog->oldest;

        slowlog->oldest = oldest->newer;
        if (slowlog->oldest != NULL)
            slowlog->oldest->older = NULL;
        else
            slowlog->newest = NULL;
        slowlog->count--;
        mem_free(oldest);
    }
}

void slowlog_destroy(struct slowlog *slowlog)
{
    if (slowlog == NULL)
        return;
    drop_beyond(slowlog, 0);
    mutex_release(&slowlog->lock);
    mem_free(slowlog);
}

static struct bytes copy_to(char **at, struct bytes text)
{
    char *copy = *at;

    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    *at += text.size;
    return bytes_of(copy, text.size);
}

/* Copies the argument, or its beginning and a note with the number of omitted bytes. */
static struct bytes copy_arg(char **at, struct bytes arg)
{
    char *copy = *at;
    size_t size = arg.size < SLOWLOG_ARG_SIZE_MAX ? arg.size : SLOWLOG_ARG_SIZE_MAX;

    copy_to(at, bytes_of(arg.data, size));
    if (arg.size > size)
        *at += sprintf(*at, "... (%zu more bytes)", arg.size - size);
    return bytes_of(copy, (size_t)(*at - copy));
}

static struct bytes text_of(const char *text)
{
    return bytes_of_string(text != NULL ? text : "");
}

static struct node *make_node(const struct slow_call *call)
{
    struct bytes address = text_of(call->address), name = text_of(call->name);
    const struct bytes *args = call->args;
    int arg_count = call->arg_count;
    int shown = arg_count <= SLOWLOG_ARGS_MAX ? arg_count : SLOWLOG_ARGS_MAX - 1;
    int kept = arg_count <= SLOWLOG_ARGS_MAX ? arg_count : SLOWLOG_ARGS_MAX;
    int noted = call->note.size > 0 ? 1 : 0;
    size_t size = sizeof(struct node) + (size_t)(kept + noted) * sizeof(struct bytes) + address.size + name.size + call->note.size;
    struct node *node;
    char *at;

    for (int i = 0; i < shown; i++)
        size += args[i].size <= SLOWLOG_ARG_SIZE_MAX ? args[i].size : SLOWLOG_ARG_SIZE_MAX + WORDS_SIZE_MAX;
    /* The NUL that sprintf writes after the last one needs space too. */
    node = mem_alloc(size + WORDS_SIZE_MAX);
    at = (char *)&node->args[kept + noted];
    for (int i = 0; i < shown; i++)
        node->args[i] = copy_arg(&at, args[i]);
    if (kept > shown) {
        int words = sprintf(at, "... (%d more arguments)", arg_count - shown);

        node->args[shown] = bytes_of(at, (size_t)words);
        at += words;
    }
    if (noted > 0)
        node->args[kept] = copy_to(&at, call->note);
    node->entry = (struct slowlog_entry){ .arg_count = kept + noted, .args = node->args };
    node->entry.address = copy_to(&at, address);
    node->entry.name = copy_to(&at, name);
    return node;
}

void slowlog_note(struct slowlog *slowlog, size_t max_len, const struct slow_call *call)
{
    struct node *node = make_node(call);

    node->entry.us = call->us;
    node->entry.time_s = call->time_s;
    mutex_lock(&slowlog->lock);
    node->entry.id = slowlog->next_id++;
    node->newer = NULL;
    node->older = slowlog->newest;
    if (slowlog->newest != NULL)
        slowlog->newest->newer = node;
    else
        slowlog->oldest = node;
    slowlog->newest = node;
    slowlog->count++;
    drop_beyond(slowlog, max_len);
    mutex_unlock(&slowlog->lock);
}

size_t slowlog_count(struct slowlog *slowlog)
{
    size_t count;

    mutex_lock(&slowlog->lock);
    count = slowlog->count;
    mutex_unlock(&slowlog->lock);
    return count;
}

void slowlog_reset(struct slowlog *slowlog)
{
    mutex_lock(&slowlog->lock);
    drop_beyond(slowlog, 0);
    mutex_unlock(&slowlog->lock);
}

size_t slowlog_each(struct slowlog *slowlog, size_t count_max, slowlog_visit *visit, void *context)
{
    size_t count = 0;

    mutex_lock(&slowlog->lock);
    for (struct node *node = slowlog->newest; node != NULL && count < count_max; node = node->older) {
        visit(context, &node->entry);
        count++;
    }
    mutex_unlock(&slowlog->lock);
    return count;
}
