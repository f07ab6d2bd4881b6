#include "keyspace/pages.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "keyspace/uses.h"
#include "value/hash.h"
#include "value/set.h"
#include "value/string.h"

enum { ROOM_UNIT = 64, FETCH_SIZE = 128 };

_Static_assert(STRING_INLINE_MAX % ROOM_UNIT == 0 && ROOM_UNIT <= UINT8_MAX, "sizes of fillers are bytes");

uint64_t pages_new_id(struct partitions *all, uint64_t key_hash)
{
    uint64_t most = (1ull << PAGE_ID_COUNT_BITS) - 1, count = all->value_count;

    do {
        if (count == most)
            return 0;
    } while (!atomic_compare_exchange_weak(&all->value_count, &count, count + 1));
    return key_hash >> SLOT_SHIFT << PAGE_ID_COUNT_BITS | (count + 1);
}

uint32_t pages_partition(const struct partitions *all, uint64_t id)
{
    return partition_index(all, id << (64 - PAGE_ID_BITS));
}

uint64_t pages_name(uint64_t id, uint32_t number, char name[PAGE_NAME_SIZE])
{
    page_name(name, id, number);
    return page_hash(bytes_of(name, PAGE_NAME_SIZE));
}

/* A page's name and hash, and its entry. */
struct place {
    char name[PAGE_NAME_SIZE];
    uint64_t hash;
    uint32_t handle;                /* 0: it is not resident */
};

static struct bytes name_of(const struct place *place)
{
    return bytes_of(place->name, PAGE_NAME_SIZE);
}

static struct place place_of(const struct pages *pages, uint32_t number)
{
    struct place place;

    place.hash = pages_name(pages->id, number, place.name);
    place.handle = keyspace_find(pages->space, place.hash, name_of(&place));
    return place;
}

static size_t room_for(size_t size)
{
    return (size + ROOM_UNIT) / ROOM_UNIT * ROOM_UNIT;
}

static bool is_inline(size_t room)
{
    return room <= STRING_INLINE_MAX;
}

static struct bytes room_in(const struct value *value)
{
    return value->encoding == STRING_BIG ? buffer_bytes(&((const struct blob *)value->object)->buffer) : value->bytes;
}

/* The page, its filler and the byte after it. */
static struct bytes room_of(const struct entry *entry)
{
    struct value value = entry_value(entry);

    return room_in(&value);
}

bool pages_is_page(const struct value *value)
{
    struct bytes room;
    uint8_t unused;

    if (value->type != VALUE_STRING || (value->encoding != STRING_RAW && value->encoding != STRING_BIG))
        return false;
    room = room_in(value);
    unused = room.size > 0 ? (uint8_t)room.data[room.size - 1] : 0;
    return room.size % ROOM_UNIT == 0 && unused > 0 && unused <= ROOM_UNIT;
}

struct bytes pages_bytes_of(const struct value *value)
{
    struct bytes room = room_in(value);

    return bytes_of(room.data, room.size - (uint8_t)room.data[room.size - 1]);
}

static struct bytes page_in(const struct entry *entry)
{
    struct value value = entry_value(entry);

    return pages_bytes_of(&value);
}

/* A page of `size` bytes in what is room_for(size). */
static char *set_size(char *room, size_t size)
{
    size_t unused = room_for(size) - size;

    memset(room + size, 0, unused - 1);
    room[size + unused - 1] = (char)unused;
    return room;
}

static const char *find_page(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    struct pages *pages = (struct pages *)pager;
    struct keyspace *space = pages->space;
    struct place place = place_of(pages, number);
    struct entry *entry;
    struct bytes page;

    keyspace_assert_locked(space);
    if (place.handle == 0)
        return NULL;
    entry = keyspace_entry(space, place.handle);
    if (use == PAGER_USE) {
        partition_note_use(space->partition->all, space, place.hash, entry, KEY_USED);
        uses_touch(space, entry);
    }
    page = page_in(entry);
    *size = page.size;
    return page.data;
}

static struct value value_of_room(size_t room, char **bytes)
{
    struct blob *blob = blob_create(room);

    blob->buffer.size = room;
    *bytes = blob->buffer.data;
    return string_value_of_blob(blob);
}

/* Gives the page a value with another room, with the bytes that it keeps. */
static char *change_room(struct keyspace *space, struct place *place, size_t size)
{
    struct entry *entry = keyspace_entry(space, place->handle);
    struct value old = entry_value(entry), value;
    struct bytes page = page_in(entry);
    size_t kept = page.size < size ? page.size : size, room = room_for(size);
    char bytes[STRING_INLINE_MAX];
    char *to = bytes;

    keyspace_assert_locked(space);
    value = is_inline(room) ? string_value_raw(bytes_of(bytes, room)) : value_of_room(room, &to);
    memcpy(to, page.data, kept);
    if (kept < size)
        memset(to + kept, 0, size - kept);
    set_size(to, size);
    place->handle = keyspace_set_value(space, place->hash, place->handle, &value);
    if (old.encoding == STRING_BIG)
        blob_release(old.object);
    return (char *)room_of(keyspace_entry(space, place->handle)).data;
}

/* Before it is changed or removed. The entry stays where it is. */
static struct entry *prepare(struct keyspace *space, const struct place *place)
{
    struct partitions *all = space->partition->all;
    struct entry *entry = keyspace_entry(space, place->handle);

    keyspace_assert_locked(space);
    if (UNLIKELY(entry->flags & ENTRY_LATCHED))
        all->watch.unlatch(all->watch.context, space, place->hash, name_of(place));
    partition_changing(space, place->hash, place->handle);
    return entry;
}

/* The writer encodes the blob of what was latched, to no purpose. */
static bool is_read_by_others(const struct entry *entry)
{
    struct value value = entry_value(entry);

    return value.encoding == STRING_BIG && blob_is_shared(value.object);
}

static char *change_page(struct pager *pager, uint32_t number, size_t size)
{
    struct pages *pages = (struct pages *)pager;
    struct keyspace *space = pages->space;
    struct place place = place_of(pages, number);
    struct entry *entry;

    CHECK(place.handle != 0);
    entry = prepare(space, &place);
    keyspace_assert_locked(space);
    keyspace_mark_dirty(space, entry);
    if (room_of(entry).size == room_for(size) && !is_read_by_others(entry))
        return set_size((char *)room_of(entry).data, size);
    return change_room(space, &place, size);
}

static char *create_page(struct pager *pager, uint32_t number, size_t size)
{
    struct pages *pages = (struct pages *)pager;
    struct keyspace *space = pages->space;
    struct partitions *all = space->partition->all;
    struct keyspace_watch *watch = &all->watch;
    struct place place = place_of(pages, number);
    static const char zeros[STRING_INLINE_MAX];
    enum record_state record = RECORD_NONE;
    size_t room = room_for(size);
    struct value value;
    struct entry *entry;
    char *bytes;

    keyspace_assert_locked(space);
    CHECK(place.handle == 0);
    value = is_inline(room) ? string_value_raw(bytes_of(zeros, room)) : value_of_room(room, &bytes);
    if (watch->record_of_new != NULL)
        record = watch->record_of_new(watch->context, space, place.hash, name_of(&place));
    place.handle = keyspace_insert(space, place.hash, name_of(&place), &value, -1, record, pages->now_ms);
    CHECK(place.handle != 0);           /* the heap's 32 GiB of entries are used up */
    entry = keyspace_entry(space, place.handle);
    partition_note_use(all, space, place.hash, entry, KEY_CREATED);
    return set_size((char *)room_of(entry).data, size);
}

static void drop_page(struct pager *pager, uint32_t number)
{
    struct pages *pages = (struct pages *)pager;
    struct keyspace *space = pages->space;
    struct keyspace_watch *watch = &space->partition->all->watch;
    struct place place = place_of(pages, number);
    enum record_state record;
    struct value value;

    keyspace_assert_locked(space);
    if (place.handle == 0) {
        if (watch->dropped_unread != NULL)
            watch->dropped_unread(watch->context, space, place.hash, name_of(&place));
        return;
    }
    record = entry_record(prepare(space, &place));
    keyspace_remove(space, place.hash, place.handle, &value);
    if (watch->removed != NULL)
        watch->removed(watch->context, space, place.hash, name_of(&place), record);
    value_free(&value);
}

static void bring_page(struct pager *pager, uint32_t number)
{
    struct pages *pages = (struct pages *)pager;
    struct keyspace_watch *watch = &pages->space->partition->all->watch;
    struct place place = place_of(pages, number);

    keyspace_assert_locked(pages->space);
    CHECK(place.handle != 0 || (watch->bring_page != NULL && watch->bring_page(watch->context, pages->space, place.hash, name_of(&place)) &&
        keyspace_find(pages->space, place.hash, name_of(&place)) != 0));
}

void pages_init(struct pages *pages, struct keyspace *space, uint64_t id, int64_t now_ms)
{
    CHECK(incarnation_is_of_pages(space->incarnation) && pages_partition(space->partition->all, id) == space->partition->index);
    *pages = (struct pages){ { find_page, change_page, create_page, drop_page, bring_page }, space, id, now_ms };
}

void pages_drop(struct pages *pages, uint32_t first, uint32_t count)
{
    keyspace_assert_locked(pages->space);
    for (uint32_t i = 0; i < count; i++)
        drop_page(&pages->pager, first + i);
}

/* --- values in pages --- */

struct keyspace *pages_space_of(struct keyspace *keyspace)
{
    struct partition *partition = keyspace->partition;

    ASSERT_LOCKED(partition);
    return partition_keyspace(partition, partitions_page_space(partition->all, keyspace->db));
}

struct keyspace *pages_home_of(struct keyspace *keyspace, uint64_t id)
{
    struct partitions *all = keyspace->partition->all;
    struct partition *home = &all->partitions[pages_partition(all, id)];

    partition_assert_locked_debug(home);
    return partition_keyspace(home, partitions_page_space(all, keyspace->db));
}

static void init_access(struct pages_access *access, struct keyspace *keyspace, uint64_t id, const struct value_limits *limits, int64_t now_ms)
    REQUIRES(keyspace->partition->lock);
static void init_access(struct pages_access *access, struct keyspace *keyspace, uint64_t id, const struct value_limits *limits, int64_t now_ms)
{
    struct keyspace *space = pages_home_of(keyspace, id);

    keyspace_assert_locked(space);
    pages_init(&access->pages, space, id, now_ms);
    access->paged = (struct paged_access){ .table = { NULL, &access->pages.pager, limits->seed, paged_limits_of(limits) } };
}

void pages_attach(struct pages_access *access, struct keyspace *keyspace, const struct value *value, const struct value_limits *limits, int64_t now_ms)
{
    struct paged_value *paged = paged_of(value);

    init_access(access, keyspace, paged->id, limits, now_ms);
    access->paged.table.root = &paged->root;
    paged->access = &access->paged;
}

static const struct dict *table_of(const struct value *value)
{
    switch (value->type) {
    case VALUE_HASH: return hash_table(value);
    case VALUE_SET: return set_table(value);
    default: return NULL;
    }
}

bool pages_are_for(const struct value *value, const struct value_limits *limits)
{
    const struct dict *table = table_of(value);

    return table != NULL && dict_count(table) > 0 && dict_size(table) >= limits->page_threshold;
}

bool pages_take_planned(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, const struct paged_plan *plan,
    struct value *value, struct value *table)
{
    uint64_t id = pages_takes(value, limits) ? pages_new_id(keyspace->partition->all, key_hash) : 0;
    struct paged_plan as_it_is;

    if (id == 0)
        return false;
    init_access(access, keyspace, id, limits, now_ms);
    *table = *value;
    as_it_is = (struct paged_plan){ dict_count(table_of(table)), dict_size(table_of(table)) };
    value->object = paged_create(table_of(table), plan != NULL ? plan : &as_it_is, id, &access->paged);
    value->encoding |= VALUE_PAGED;
    return true;
}

bool pages_take(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, struct value *value, struct value *table)
{
    return pages_take_planned(access, keyspace, key_hash, limits, now_ms, NULL, value, table);
}

void pages_drop_of(struct keyspace *keyspace, const struct value *value, int64_t now_ms)
{
    struct keyspace_watch *watch = &keyspace->partition->all->watch;
    const struct paged_value *paged;
    struct keyspace *space;
    struct pages pages;

    if (!value_is_paged(value))
        return;
    paged = paged_of(value);
    space = pages_space_of(keyspace);
    keyspace_assert_locked(space);
    if (watch->drop_pages != NULL) {
        watch->drop_pages(watch->context, space, paged->id, paged->root.pages, now_ms);
        return;
    }
    pages_init(&pages, space, paged->id, now_ms);
    pages_drop(&pages, 0, paged->root.pages);
}

/* The page will be used soon: asks the CPU for its end, where a table's page has what is looked at first (containers/pair_page.h). */
static inline __attribute__((always_inline)) void fetch_end(const struct entry *entry)
{
    const char *end = entry_value_at(entry) + entry->value_size;

    if (!entry_is_inline(entry))
        return;
    __builtin_prefetch(end - FETCH_SIZE / 2);
    __builtin_prefetch(end - FETCH_SIZE);
}

bool pages_have(struct keyspace *space, uint64_t id, uint32_t number)
{
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(id, number, name);

    uint32_t handle = keyspace_find(space, hash, bytes_of(name, sizeof(name)));

    keyspace_assert_locked(space);
    if (handle != 0)
        fetch_end(keyspace_entry(space, handle));
    return handle != 0;
}

bool pages_bring_all(const struct pages_access *access)
{
    struct keyspace *space = access->pages.space;
    struct keyspace_watch *watch = &space->partition->all->watch;

    keyspace_assert_locked(space);
    for (uint32_t i = 0; i < access->paged.table.root->pages; i++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash = pages_name(access->pages.id, i, name);

        if (keyspace_find(space, hash, bytes_of(name, sizeof(name))) != 0)
            continue;
        if (watch->bring_page == NULL || !watch->bring_page(watch->context, space, hash, bytes_of(name, sizeof(name))))
            return false;
        if (keyspace_find(space, hash, bytes_of(name, sizeof(name))) == 0)
            return false;
    }
    return true;
}
