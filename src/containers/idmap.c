#include "containers/idmap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    CHUNK_MAX = 64,             /* entries */
    CHUNK_JOINED_MAX = 40,      /* two chunks with at most this number of entries are merged */
};

struct idmap_chunk {
    struct stream_id first;     /* of the first entry */
    char *entries;
    uint32_t count, room;       /* count is never 0 */
};

bool stream_id_increment(struct stream_id *id)
{
    if (id->ms == UINT64_MAX && id->seq == UINT64_MAX)
        return false;
    if (++id->seq == 0)
        id->ms++;
    return true;
}

bool stream_id_decrement(struct stream_id *id)
{
    if (stream_id_is_zero(*id))
        return false;
    if (id->seq-- == 0)
        id->ms--;
    return true;
}

/* Chunks */

static size_t entry_size(const struct idmap *map)
{
    return sizeof(struct stream_id) + map->value_size;
}

static struct idmap_chunk *chunk_of(const struct idmap *map, uint32_t index)
{
    return &map->chunks[map->chunk_start + index];
}

static char *entry_of(const struct idmap *map, const struct idmap_chunk *chunk, uint32_t slot)
{
    return chunk->entries + slot * entry_size(map);
}

static struct stream_id id_of(const struct idmap *map, const struct idmap_chunk *chunk, uint32_t slot)
{
    struct stream_id id;

    memcpy(&id, entry_of(map, chunk, slot), sizeof(id));
    return id;
}

static void chunk_resize(const struct idmap *map, struct idmap_chunk *chunk, uint32_t room)
{
    chunk->entries = mem_realloc(chunk->entries, room * entry_size(map));
    chunk->room = room;
}

static void chunk_expect(const struct idmap *map, struct idmap_chunk *chunk, uint32_t count)
{
    uint32_t room = chunk->room + chunk->room / 2 + 1;

    if (count <= chunk->room)
        return;
    chunk_resize(map, chunk, room > CHUNK_MAX ? CHUNK_MAX : room < count ? count : room);
}

/* Makes room for an entry with this ID, all zero otherwise. There must be fewer than CHUNK_MAX. */
static void *chunk_insert(const struct idmap *map, struct idmap_chunk *chunk, uint32_t slot, struct stream_id id)
{
    size_t size = entry_size(map);
    char *entry;

    chunk_expect(map, chunk, chunk->count + 1);
    entry = entry_of(map, chunk, slot);
    memmove(entry + size, entry, (chunk->count - slot) * size);
    memset(entry, 0, size);
    memcpy(entry, &id, sizeof(id));
    chunk->count++;
    if (slot == 0)
        chunk->first = id;
    return entry + sizeof(id);
}

/* The first slot whose ID is not below. */
static uint32_t chunk_seek(const struct idmap *map, const struct idmap_chunk *chunk, struct stream_id id)
{
    uint32_t low = 0, high = chunk->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (stream_id_compare(id_of(map, chunk, middle), id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The row */

/* Makes room for one chunk more at the end: uses the space at the front, where chunks were removed, or reallocates. */
static void row_grow(struct idmap *map)
{
    if (map->chunk_start > map->chunk_room / 4) {
        memmove(map->chunks, map->chunks + map->chunk_start, map->chunk_count * sizeof(*map->chunks));
        map->chunk_start = 0;
        return;
    }
    CHECK(map->chunk_room < UINT32_MAX / 2);
    map->chunk_room += map->chunk_room / 4 + 1;
    map->chunks = mem_realloc(map->chunks, map->chunk_room * sizeof(*map->chunks));
}

/* Inserts an empty chunk at `index`. */
static struct idmap_chunk *row_insert(struct idmap *map, uint32_t index)
{
    struct idmap_chunk *chunk;

    if (map->chunk_start + map->chunk_count == map->chunk_room)
        row_grow(map);
    chunk = chunk_of(map, index);
    memmove(chunk + 1, chunk, (map->chunk_count - index) * sizeof(*chunk));
    map->chunk_count++;
    *chunk = (struct idmap_chunk){ .count = 0 };
    return chunk;
}

/* Removes a row whose entries have been removed or moved. */
static void row_remove(struct idmap *map, uint32_t index)
{
    struct idmap_chunk *chunk = chunk_of(map, index);

    mem_free(chunk->entries);
    if (index < map->chunk_count / 2) {
        memmove(chunk_of(map, 1), chunk_of(map, 0), index * sizeof(*chunk));
        map->chunk_start++;
    } else {
        memmove(chunk, chunk + 1, (map->chunk_count - 1 - index) * sizeof(*chunk));
    }
    map->chunk_count--;
    if (map->chunk_count == 0) {
        mem_free(map->chunks);
        map->chunks = NULL;
        map->chunk_start = map->chunk_room = 0;
    } else if (map->chunk_count < map->chunk_room / 4) {
        memmove(map->chunks, map->chunks + map->chunk_start, map->chunk_count * sizeof(*chunk));
        map->chunk_start = 0;
        map->chunk_room = map->chunk_count * 2;
        map->chunks = mem_realloc(map->chunks, map->chunk_room * sizeof(*chunk));
    }
}

/* The last chunk whose first ID is not above `id`; false if there is none. */
static bool row_seek(const struct idmap *map, struct stream_id id, uint32_t *index)
{
    uint32_t low = 0, high = map->chunk_count;

    /* Nearly always it is the last one. */
    if (high > 0 && stream_id_compare(chunk_of(map, high - 1)->first, id) <= 0)
        low = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (stream_id_compare(chunk_of(map, middle)->first, id) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    *index = low - 1;
    return low > 0;
}

/* Moves all entries of the chunk after `index` into it. */
static void join_with_next(struct idmap *map, uint32_t index)
{
    struct idmap_chunk *chunk = chunk_of(map, index), *next = chunk + 1;

    chunk_expect(map, chunk, chunk->count + next->count);
    memcpy(entry_of(map, chunk, chunk->count), next->entries, next->count * entry_size(map));
    chunk->count += next->count;
    row_remove(map, index + 1);
}

static bool may_join(const struct idmap *map, uint32_t index)
{
    return index + 1 < map->chunk_count && chunk_of(map, index)->count + chunk_of(map, index + 1)->count <= CHUNK_JOINED_MAX;
}

/* Moves the upper half of a full chunk into a new one after it. */
static void split_chunk(struct idmap *map, uint32_t index)
{
    struct idmap_chunk *upper = row_insert(map, index + 1), *lower = upper - 1;
    uint32_t kept = lower->count / 2;

    chunk_expect(map, upper, lower->count - kept);
    memcpy(upper->entries, entry_of(map, lower, kept), (lower->count - kept) * entry_size(map));
    upper->count = lower->count - kept;
    upper->first = id_of(map, upper, 0);
    lower->count = kept;
    chunk_resize(map, lower, kept);
}

/* Public functions */

void idmap_init(struct idmap *map, size_t value_size)
{
    CHECK(value_size % 8 == 0 && value_size < 1024);
    *map = (struct idmap){ .value_size = (uint32_t)value_size };
}

void idmap_release(struct idmap *map)
{
    for (uint32_t i = 0; i < map->chunk_count; i++)
        mem_free(chunk_of(map, i)->entries);
    mem_free(map->chunks);
    idmap_init(map, map->value_size);
}

void idmap_copy(struct idmap *to, const struct idmap *from)
{
    *to = *from;
    to->chunk_start = 0;
    to->chunk_room = from->chunk_count;
    to->chunks = NULL;
    if (from->chunk_count == 0)
        return;
    to->chunks = mem_alloc(from->chunk_count * sizeof(*to->chunks));
    for (uint32_t i = 0; i < from->chunk_count; i++) {
        const struct idmap_chunk *chunk = chunk_of(from, i);

        to->chunks[i] = (struct idmap_chunk){ .first = chunk->first, .count = chunk->count };
        chunk_resize(to, &to->chunks[i], chunk->count);
        memcpy(to->chunks[i].entries, chunk->entries, chunk->count * entry_size(from));
    }
}

void *idmap_put(struct idmap *map, struct stream_id id, bool *is_new)
{
    struct idmap_chunk *chunk;
    uint32_t index, slot;

    *is_new = false;
    if (!row_seek(map, id, &index)) {
        index = 0;
        if (map->chunk_count == 0)
            row_insert(map, 0);
    }
    chunk = chunk_of(map, index);
    slot = chunk_seek(map, chunk, id);
    if (slot < chunk->count && stream_id_compare(id_of(map, chunk, slot), id) == 0)
        return entry_of(map, chunk, slot) + sizeof(id);
    *is_new = true;
    map->count++;
    if (chunk->count == CHUNK_MAX) {
        if (slot == CHUNK_MAX && index + 1 == map->chunk_count) {
            chunk = row_insert(map, index + 1);
            slot = 0;
        } else {
            split_chunk(map, index);
            chunk = chunk_of(map, index);
            if (slot > chunk->count) {
                slot -= chunk->count;
                chunk++;
            }
        }
    }
    return chunk_insert(map, chunk, slot, id);
}

static bool find_id(const struct idmap *map, struct stream_id id, struct idmap_place *place)
{
    const struct idmap_chunk *chunk;

    if (!row_seek(map, id, &place->chunk))
        return false;
    chunk = chunk_of(map, place->chunk);
    place->slot = chunk_seek(map, chunk, id);
    return place->slot < chunk->count && stream_id_compare(id_of(map, chunk, place->slot), id) == 0;
}

void *idmap_find(const struct idmap *map, struct stream_id id)
{
    struct idmap_place place;

    return find_id(map, id, &place) ? idmap_value(map, place) : NULL;
}

bool idmap_remove(struct idmap *map, struct stream_id id)
{
    struct idmap_place place;

    if (!find_id(map, id, &place))
        return false;
    idmap_remove_at(map, &place);
    return true;
}

/* After an entry was removed: an empty chunk is removed, a small one merged with a neighbour, or its memory reduced.
 * The place stays at its entry. */
static void tidy_chunk(struct idmap *map, struct idmap_place *place)
{
    struct idmap_chunk *chunk = chunk_of(map, place->chunk);

    if (chunk->count == 0) {
        row_remove(map, place->chunk);
    } else if (place->chunk > 0 && may_join(map, place->chunk - 1)) {
        place->chunk--;
        place->slot += chunk_of(map, place->chunk)->count;
        join_with_next(map, place->chunk);
    } else if (may_join(map, place->chunk)) {
        join_with_next(map, place->chunk);
    } else if (chunk->count * 2 < chunk->room) {
        chunk_resize(map, chunk, chunk->count + chunk->count / 4);
    }
}

bool idmap_remove_at(struct idmap *map, struct idmap_place *place)
{
    struct idmap_chunk *chunk = chunk_of(map, place->chunk);
    char *entry = entry_of(map, chunk, place->slot);

    chunk->count--;
    map->count--;
    memmove(entry, entry + entry_size(map), (chunk->count - place->slot) * entry_size(map));
    if (place->slot == 0 && chunk->count > 0)
        chunk->first = id_of(map, chunk, 0);
    tidy_chunk(map, place);
    if (place->chunk < map->chunk_count && place->slot == chunk_of(map, place->chunk)->count)
        *place = (struct idmap_place){ place->chunk + 1, 0 };
    return place->chunk < map->chunk_count;
}

bool idmap_seek(const struct idmap *map, struct stream_id id, struct idmap_place *place)
{
    if (!row_seek(map, id, &place->chunk)) {
        *place = (struct idmap_place){ 0, 0 };
        return map->chunk_count > 0;
    }
    place->slot = chunk_seek(map, chunk_of(map, place->chunk), id);
    if (place->slot == chunk_of(map, place->chunk)->count)
        *place = (struct idmap_place){ place->chunk + 1, 0 };
    return place->chunk < map->chunk_count;
}

bool idmap_seek_back(const struct idmap *map, struct stream_id id, struct idmap_place *place)
{
    const struct idmap_chunk *chunk;

    if (!row_seek(map, id, &place->chunk))
        return false;
    chunk = chunk_of(map, place->chunk);
    place->slot = chunk_seek(map, chunk, id);
    if (place->slot == chunk->count || stream_id_compare(id_of(map, chunk, place->slot), id) > 0)
        place->slot--;      /* the chunk's first ID is not above */
    return true;
}

bool idmap_first(const struct idmap *map, struct idmap_place *place)
{
    *place = (struct idmap_place){ 0, 0 };
    return map->chunk_count > 0;
}

bool idmap_last(const struct idmap *map, struct idmap_place *place)
{
    if (map->chunk_count == 0)
        return false;
    place->chunk = map->chunk_count - 1;
    place->slot = chunk_of(map, place->chunk)->count - 1;
    return true;
}

bool idmap_next(const struct idmap *map, struct idmap_place *place)
{
    if (++place->slot == chunk_of(map, place->chunk)->count)
        *place = (struct idmap_place){ place->chunk + 1, 0 };
    return place->chunk < map->chunk_count;
}

bool idmap_previous(const struct idmap *map, struct idmap_place *place)
{
    if (place->slot == 0) {
        if (place->chunk == 0)
            return false;
        place->chunk--;
        place->slot = chunk_of(map, place->chunk)->count;
    }
    place->slot--;
    return true;
}

struct stream_id idmap_id(const struct idmap *map, struct idmap_place place)
{
    return id_of(map, chunk_of(map, place.chunk), place.slot);
}

void *idmap_value(const struct idmap *map, struct idmap_place place)
{
    return entry_of(map, chunk_of(map, place.chunk), place.slot) + sizeof(struct stream_id);
}

size_t idmap_memory(const struct idmap *map)
{
    size_t memory = map->chunks != NULL ? mem_size(map->chunks) : 0;

    for (uint32_t i = 0; i < map->chunk_count; i++)
        memory += mem_size(chunk_of(map, i)->entries);
    return memory;
}

size_t idmap_blocks(const struct idmap *map)
{
    return map->chunk_count > 0 ? map->chunk_count + 1 : 0;
}

void idmap_verify(const struct idmap *map)
{
    struct stream_id last = { 0, 0 };
    size_t count = 0;

    CHECK(map->chunk_start + map->chunk_count <= map->chunk_room);
    for (uint32_t i = 0; i < map->chunk_count; i++) {
        const struct idmap_chunk *chunk = chunk_of(map, i);

        CHECK(chunk->count > 0 && chunk->count <= chunk->room && chunk->room <= CHUNK_MAX);
        CHECK(stream_id_compare(chunk->first, id_of(map, chunk, 0)) == 0);
        for (uint32_t slot = 0; slot < chunk->count; slot++, count++) {
            CHECK(count == 0 || stream_id_compare(last, id_of(map, chunk, slot)) < 0);
            last = id_of(map, chunk, slot);
        }
    }
    CHECK(count == map->count);
}
