/* Belady's policy (1966), which knows the future: the key that is needed last leaves. A bound for keys of one size; with several sizes it is only a
 * good policy. */
#include "base/mem.h"
#include "policy.h"

struct belady {
    const struct room *room;
    uint32_t *next;             /* by key: its next request, if it is resident; 0: it is not */
    uint64_t used;
    /* A heap of all that was resident, the one needed last first. What is out of date is passed over. */
    struct needed { uint32_t next, key; } *heap;
    size_t count, room_count;
};

static void *belady_create(const struct room *room)
{
    struct belady *belady = mem_zalloc(sizeof(*belady));

    belady->room = room;
    belady->next = mem_zalloc(room->key_count * sizeof(uint32_t));
    return belady;
}

static void belady_destroy(void *state)
{
    struct belady *belady = state;

    mem_free(belady->next);
    mem_free(belady->heap);
    mem_free(belady);
}

static void push(struct belady *belady, struct needed needed)
{
    size_t at = belady->count++;

    if (belady->count > belady->room_count) {
        belady->room_count = 2 * belady->room_count + 1024;
        belady->heap = mem_realloc(belady->heap, belady->room_count * sizeof(struct needed));
    }
    for (; at > 0 && belady->heap[(at - 1) / 2].next < needed.next; at = (at - 1) / 2)
        belady->heap[at] = belady->heap[(at - 1) / 2];
    belady->heap[at] = needed;
}

/* Only what is resident, once most is out of date. */
static void tidy(struct belady *belady)
{
    size_t count = belady->count;

    if (count < 4 * (size_t)belady->room->key_count)
        return;
    belady->count = 0;
    for (size_t i = 0; i < count; i++) {
        struct needed needed = belady->heap[i];

        if (belady->next[needed.key] == needed.next)
            push(belady, needed);
    }
}

static struct needed pop(struct belady *belady)
{
    struct needed first = belady->heap[0], last = belady->heap[--belady->count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < belady->count) {
        if (child + 1 < belady->count && belady->heap[child + 1].next > belady->heap[child].next)
            child++;
        if (belady->heap[child].next <= last.next)
            break;
        belady->heap[at] = belady->heap[child];
        at = child;
    }
    belady->heap[at] = last;
    return first;
}

static void evict(struct belady *belady)
{
    struct needed needed = pop(belady);

    if (belady->next[needed.key] != needed.next)
        return;
    belady->next[needed.key] = 0;
    belady->used -= belady->room->sizes[needed.key];
}

static bool belady_request(void *state, const struct request *request)
{
    struct belady *belady = state;
    uint32_t key = request->key;
    bool was_resident = belady->next[key] != 0;

    if (!was_resident)
        belady->used += belady->room->sizes[key];
    belady->next[key] = request->next;
    tidy(belady);
    push(belady, (struct needed){ request->next, key });
    while (belady->used > belady->room->capacity)
        evict(belady);
    return was_resident;
}

const struct policy_kind policy_belady = { "Belady", belady_create, belady_destroy, belady_request };
