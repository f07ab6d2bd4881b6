#include "tier/twins.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

void twins_release(struct twins *twins)
{
    for (uint32_t i = 0; i < twins->count; i++)
        mem_free(twins->list[i].key);
    mem_free(twins->list);
    *twins = (struct twins){ 0 };
}

/* The first twin from `from` on whose tag is `tag` or more. */
static uint32_t search(const struct twins *twins, uint32_t from, uint64_t tag)
{
    uint32_t end = twins->count;

    while (from < end) {
        uint32_t middle = from + (end - from) / 2;

        if (twins->list[middle].tag < tag)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

uint32_t twins_first(const struct twins *twins, uint64_t tag)
{
    return search(twins, 0, tag);
}

static void resize(struct twins *twins, uint32_t room)
{
    twins->room = room;
    twins->list = mem_realloc(twins->list, room * sizeof(twins->list[0]));
}

void twins_add(struct twins *twins, uint64_t tag, struct bytes key, uint64_t place)
{
    uint32_t index = search(twins, 0, tag + 1);
    char *copy;

    CHECK(twins->count < UINT32_MAX / 2 && key.size < UINT32_MAX);
    if (twins->count == twins->room)
        resize(twins, twins->room + twins->room / 4 + 1);
    memmove(twins->list + index + 1, twins->list + index, (twins->count - index) * sizeof(twins->list[0]));
    copy = mem_alloc(key.size > 0 ? key.size : 1);
    if (key.size > 0)
        memcpy(copy, key.data, key.size);
    twins->list[index] = (struct twin){ .tag = tag, .place = place, .key = copy, .key_size = (uint32_t)key.size };
    twins->count++;
    twins->key_bytes += mem_size(copy);
}

void twins_remove(struct twins *twins, uint32_t index)
{
    struct twin *twin = &twins->list[index];

    CHECK(index < twins->count);
    twins->key_bytes -= mem_size(twin->key);
    mem_free(twin->key);
    twins->count--;
    memmove(twin, twin + 1, (twins->count - index) * sizeof(*twin));
    if (twins->count == 0)
        twins_release(twins);
    else if (twins->count < twins->room / 2)
        resize(twins, twins->count);
}

bool twin_has_key(const struct twin *twin, struct bytes key)
{
    return bytes_equal(twin_key(twin), key);
}

struct bytes twin_key(const struct twin *twin)
{
    return bytes_of(twin->key, twin->key_size);
}

size_t twins_size(const struct twins *twins)
{
    return (twins->list != NULL ? mem_size(twins->list) : 0) + twins->key_bytes;
}
