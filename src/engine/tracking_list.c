/* Lists of keys that have changed. */
#include "engine/tracking_private.h"

void tracking_list_append(struct tracking_list *list, struct tracked_key *tracked)
{
    tracked->next = NULL;
    if (list->last != NULL)
        list->last->next = tracked;
    else
        list->first = tracked;
    list->last = tracked;
}

struct tracked_key *tracking_list_take(struct tracking_list *list)
{
    struct tracked_key *tracked = list->first;

    if (tracked == NULL)
        return NULL;
    list->first = tracked->next;
    if (list->first == NULL)
        list->last = NULL;
    return tracked;
}

void tracking_list_move(struct tracking_list *to, struct tracking_list *from)
{
    if (from->first == NULL)
        return;
    if (to->last != NULL)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct tracking_list){ .first = NULL };
}

void tracking_list_release(struct tracking_list *list)
{
    struct tracked_key *tracked;

    while ((tracked = tracking_list_take(list)) != NULL)
        tracked_free(tracked);
}
