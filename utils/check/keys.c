#include "keys.h"

#include <stdlib.h>

#include "base/crc32c.h"
#include "base/mem.h"

void keys_release(struct checked_keys *keys)
{
    mem_free(keys->list);
    *keys = (struct checked_keys){ 0 };
}

struct checked_key *keys_add(struct checked_keys *keys, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    if (keys->count == keys->capacity) {
        keys->capacity = keys->capacity + keys->capacity / 2 + 1024;
        keys->list = mem_realloc(keys->list, keys->capacity * sizeof(keys->list[0]));
    }
    keys->list[keys->count] = (struct checked_key){ .hash = hash, .incarnation = incarnation, .sum = crc32c(0, key.data, key.size) };
    return &keys->list[keys->count++];
}

static int compare_hashes(const void *a, const void *b)
{
    const struct checked_key *first = a, *second = b;

    if (first->incarnation != second->incarnation)
        return first->incarnation < second->incarnation ? -1 : 1;
    return first->hash < second->hash ? -1 : first->hash > second->hash;
}

static int compare_places(const void *a, const void *b)
{
    const struct checked_key *first = a, *second = b;

    return first->place < second->place ? -1 : first->place > second->place;
}

void keys_sort_by_hash(struct checked_keys *keys)
{
    if (keys->count > 0)
        qsort(keys->list, keys->count, sizeof(keys->list[0]), compare_hashes);
}

void keys_sort_by_place(struct checked_keys *keys)
{
    if (keys->count > 0)
        qsort(keys->list, keys->count, sizeof(keys->list[0]), compare_places);
}

static size_t lower_bound(const struct checked_keys *keys, const struct checked_key *wanted, int (*compare)(const void *, const void *))
{
    size_t low = 0, high = keys->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(&keys->list[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t keys_from_hash(const struct checked_keys *keys, uint32_t incarnation, uint64_t hash)
{
    struct checked_key wanted = { .hash = hash, .incarnation = incarnation };

    return lower_bound(keys, &wanted, compare_hashes);
}

size_t keys_from_place(const struct checked_keys *keys, uint64_t place)
{
    struct checked_key wanted = { .place = place };

    return lower_bound(keys, &wanted, compare_places);
}

bool keys_is(const struct checked_key *checked, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    return checked->hash == hash && checked->incarnation == incarnation && checked->sum == crc32c(0, key.data, key.size);
}

struct checked_key *keys_find(const struct checked_keys *keys, uint32_t incarnation, uint64_t hash, struct bytes key)
{
    for (size_t i = keys_from_hash(keys, incarnation, hash); i < keys->count; i++) {
        struct checked_key *checked = &keys->list[i];

        if (checked->incarnation != incarnation || checked->hash != hash)
            return NULL;
        if (keys_is(checked, incarnation, hash, key))
            return checked;
    }
    return NULL;
}
