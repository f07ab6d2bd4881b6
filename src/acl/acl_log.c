#include "acl/acl_log.h"

#include "base/mem.h"
#include "base/mutex.h"

enum {
    GROUP_DEPTH = 10,               /* entries that a new event is compared with */
    GROUP_MS = 60 * 1000,
    NAME_SIZE_MAX = 1024,           /* of objects and users; what is longer is cut */
};

struct node {
    struct node *newer, *older;
    struct acl_log_entry entry;     /* its texts are owned */
};

struct acl_log {
    struct mutex lock;
    struct node *newest, *oldest;   /* lock, like the fields below */
    size_t count;
    uint64_t next_id;
    uint64_t totals[ACL_LOG_AUTH + 1];
};

struct acl_log *acl_log_create(void)
{
    struct acl_log *log = mem_zalloc(sizeof(*log));

    mutex_init(&log->lock);
    return log;
}

static void unlink_node(struct acl_log *log, struct node *node)
{
    *(node->newer != NULL ? &node->newer->older : &log->newest) = node->older;
    *(node->older != NULL ? &node->older->newer : &log->oldest) = node->newer;
    log->count--;
}

static void link_newest(struct acl_log *log, struct node *node)
{
    node->newer = NULL;
    node->older = log->newest;
    *(log->newest != NULL ? &log->newest->newer : &log->oldest) = node;
    log->newest = node;
    log->count++;
}

static void node_destroy(struct node *node)
{
    mem_free((char *)node->entry.last.object.data);
    mem_free((char *)node->entry.last.user.data);
    mem_free((char *)node->entry.last.client.data);
    mem_free(node);
}

static void drop_beyond(struct acl_log *log, size_t max_len)
{
    while (log->count > max_len) {
        struct node *oldest = log->oldest;

        unlink_node(log, oldest);
        node_destroy(oldest);
    }
}

void acl_log_destroy(struct acl_log *log)
{
    if (log == NULL)
        return;
    drop_beyond(log, 0);
    mutex_release(&log->lock);
    mem_free(log);
}

static bool resembles(const struct acl_log_event *a, const struct acl_log_event *b)
{
    int64_t apart_ms = a->now_ms > b->now_ms ? a->now_ms - b->now_ms : b->now_ms - a->now_ms;

    return a->reason == b->reason && a->context == b->context && apart_ms <= GROUP_MS && bytes_equal(a->object, b->object) &&
        bytes_equal(a->user, b->user);
}

static struct node *find_alike(const struct acl_log *log, const struct acl_log_event *event)
{
    struct node *node = log->newest;

    for (int i = 0; i < GROUP_DEPTH && node != NULL; i++, node = node->older) {
        if (resembles(&node->entry.last, event))
            return node;
    }
    return NULL;
}

static struct bytes own_copy(struct bytes text)
{
    return bytes_of(mem_string(text), text.size);
}

static struct node *make_node(struct acl_log *log, const struct acl_log_event *event)
{
    struct node *node = mem_zalloc(sizeof(*node));

    node->entry.id = log->next_id++;
    node->entry.created_ms = event->now_ms;
    node->entry.last = *event;
    node->entry.last.object = own_copy(event->object);
    node->entry.last.user = own_copy(event->user);
    node->entry.last.client = own_copy(BYTES(""));
    return node;
}

static struct bytes cut(struct bytes name)
{
    return bytes_of(name.data, name.size < NAME_SIZE_MAX ? name.size : NAME_SIZE_MAX);
}

void acl_log_note(struct acl_log *log, size_t max_len, const struct acl_log_event *given)
{
    struct acl_log_event short_event = *given, *event = &short_event;
    struct node *node;

    event->object = cut(given->object);
    event->user = cut(given->user);

    mutex_lock(&log->lock);
    log->totals[event->reason]++;
    node = find_alike(log, event);
    if (node != NULL)
        unlink_node(log, node);
    else
        node = make_node(log, event);
    node->entry.count++;
    node->entry.last.now_ms = event->now_ms;
    mem_free((char *)node->entry.last.client.data);
    node->entry.last.client = own_copy(event->client);
    link_newest(log, node);
    drop_beyond(log, max_len);
    mutex_unlock(&log->lock);
}

void acl_log_reset(struct acl_log *log)
{
    mutex_lock(&log->lock);
    drop_beyond(log, 0);
    mutex_unlock(&log->lock);
}

size_t acl_log_each(struct acl_log *log, size_t count_max, acl_log_visit *visit, void *context)
{
    size_t count = 0;

    mutex_lock(&log->lock);
    for (struct node *node = log->newest; node != NULL && count < count_max; node = node->older) {
        visit(context, &node->entry);
        count++;
    }
    mutex_unlock(&log->lock);
    return count;
}

uint64_t acl_log_total(struct acl_log *log, enum acl_log_reason reason)
{
    uint64_t total;

    if (log == NULL)
        return 0;
    mutex_lock(&log->lock);
    total = log->totals[reason];
    mutex_unlock(&log->lock);
    return total;
}

void acl_log_reset_totals(struct acl_log *log)
{
    if (log == NULL)
        return;
    mutex_lock(&log->lock);
    memset(log->totals, 0, sizeof(log->totals));
    mutex_unlock(&log->lock);
}

const char *acl_log_reason_name(enum acl_log_reason reason)
{
    static const char *const names[] = { "command", "key", "channel", "auth" };

    return names[reason];
}

const char *acl_log_context_name(enum acl_log_context context)
{
    static const char *const names[] = { "toplevel", "multi", "lua", "module" };

    return names[context];
}
