#include "cluster/bus_inbox.h"

#include <string.h>

/* Before the bytes of a message in the list: they follow each other without a gap. */
struct message_head {
    size_t channel_size, text_size;
    bool is_shard;
};

void bus_inbox_init(struct bus_inbox *inbox)
{
    *inbox = (struct bus_inbox){ .dropped = 0 };
    mutex_init(&inbox->lock);
}

void bus_inbox_release(struct bus_inbox *inbox)
{
    bus_inbox_clear(&inbox->waiting);
    mutex_release(&inbox->lock);
}

void bus_inbox_publish(struct bus_inbox *inbox, struct bytes channel, struct bytes text, bool is_shard)
{
    struct message_head head = { .channel_size = channel.size, .text_size = text.size, .is_shard = is_shard };
    struct buffer *messages = &inbox->waiting.messages;

    mutex_lock(&inbox->lock);
    if (messages->size + sizeof(head) + channel.size + text.size <= BUS_INBOX_SIZE_MAX) {
        buffer_append(messages, &head, sizeof(head));
        buffer_append_bytes(messages, channel);
        buffer_append_bytes(messages, text);
    } else {
        inbox->dropped++;
    }
    mutex_unlock(&inbox->lock);
}

static void copy_text(struct buffer *copy, struct bytes *text)
{
    copy->size = 0;
    buffer_append_bytes(copy, *text);
    *text = buffer_bytes(copy);
}

void bus_inbox_set_options(struct bus_inbox *inbox, const struct bus_options *options)
{
    struct bus_inbox_list *waiting = &inbox->waiting;

    mutex_lock(&inbox->lock);
    waiting->has_options = true;
    waiting->options = *options;
    copy_text(&waiting->host_name, &waiting->options.host_name);
    copy_text(&waiting->name, &waiting->options.name);
    mutex_unlock(&inbox->lock);
}

void bus_inbox_set_queue_max(struct bus_inbox *inbox, uint64_t queue_max)
{
    mutex_lock(&inbox->lock);
    inbox->waiting.has_queue_max = true;
    inbox->waiting.queue_max = queue_max;
    mutex_unlock(&inbox->lock);
}

static bool has_any(const struct bus_inbox_list *list)
{
    return list->messages.size > 0 || list->has_options || list->has_queue_max;
}

bool bus_inbox_has_any(struct bus_inbox *inbox)
{
    bool has;

    mutex_lock(&inbox->lock);
    has = has_any(&inbox->waiting);
    mutex_unlock(&inbox->lock);
    return has;
}

bool bus_inbox_take(struct bus_inbox *inbox, struct bus_inbox_list *list)
{
    mutex_lock(&inbox->lock);
    *list = inbox->waiting;
    inbox->waiting = (struct bus_inbox_list){ .has_options = false };
    mutex_unlock(&inbox->lock);
    return has_any(list);
}

bool bus_inbox_next(const struct bus_inbox_list *list, size_t *at, struct bytes *channel, struct bytes *text, bool *is_shard)
{
    const char *data = list->messages.data + *at;
    struct message_head head;

    if (*at >= list->messages.size)
        return false;
    memcpy(&head, data, sizeof(head));
    *channel = bytes_of(data + sizeof(head), head.channel_size);
    *text = bytes_of(channel->data + channel->size, head.text_size);
    *is_shard = head.is_shard;
    *at += sizeof(head) + head.channel_size + head.text_size;
    return true;
}

void bus_inbox_clear(struct bus_inbox_list *list)
{
    buffer_release(&list->messages);
    buffer_release(&list->host_name);
    buffer_release(&list->name);
    *list = (struct bus_inbox_list){ .has_options = false };
}
