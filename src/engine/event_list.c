#include "engine/event_list.h"

enum { KEPT_SIZE = 16 * 1024 };

struct event_head {
    uint32_t event, targets;
    int db;
    size_t key_size;
};

void event_list_add(struct event_list *list, const struct event_record *record)
{
    struct event_head head = { record->event, record->targets, record->db, record->key.size };

    buffer_append(&list->records, &head, sizeof(head));
    buffer_append_bytes(&list->records, record->key);
}

bool event_list_next(const struct event_list *list, size_t *at, struct event_record *record)
{
    struct event_head head;

    if (*at == list->records.size)
        return false;
    memcpy(&head, list->records.data + *at, sizeof(head));
    *at += sizeof(head);
    *record = (struct event_record){ (enum event)head.event, head.targets, head.db, bytes_of(list->records.data + *at, head.key_size) };
    *at += head.key_size;
    return true;
}

void event_list_move(struct event_list *to, struct event_list *from)
{
    buffer_append_bytes(&to->records, buffer_bytes(&from->records));
    tracking_list_move(&to->changed, &from->changed);
    event_list_clear(from);
}

void event_list_clear(struct event_list *list)
{
    list->records.size = 0;
    buffer_shrink(&list->records, KEPT_SIZE);
}

void event_list_release(struct event_list *list)
{
    tracking_list_release(&list->changed);
    buffer_release(&list->records);
}

void event_list_forget_misses(struct event_list *list)
{
    size_t from = 0, to = 0;
    struct event_record record;

    for (size_t at = from; event_list_next(list, &at, &record); from = at) {
        if (record.event == EVENT_KEYMISS)
            continue;
        memmove(list->records.data + to, list->records.data + from, at - from);
        to += at - from;
    }
    list->records.size = to;
}
