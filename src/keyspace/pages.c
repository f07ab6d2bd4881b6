#include "keyspace/pages.h"

#include <string.h>

#include "base/check.h"
#include "base/fetch_lines.h"
#include "base/mem.h"
#include "keyspace/uses.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/stream_nodes.h"
#include "value/zset.h"
#include "value/string.h"

enum { ROOM_UNIT = 64, FETCH_SIZE = 128, FETCH_BEGIN = 512 };

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
    return page_hash_of(id, number);
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

static struct pages_recent *recent_of(struct pages *pages, uint32_t number)
{
    return &pages->recent[(number ^ number >> 28) % PAGES_RECENT];         /* pages of a table and of a tree have the same low bits */
}

static void note_recent(struct pages *pages, uint32_t number, const struct place *place)
{
    *recent_of(pages, number) = (struct pages_recent){ place->hash, number, place->handle };
}

/* The page as it was found before, or now. */
static struct pages_recent look_up(struct pages *pages, uint32_t number)
{
    struct pages_recent *recent = recent_of(pages, number);
    struct place place;

    if (recent->handle != 0 && recent->number == number)
        return *recent;
    place = place_of(pages, number);
    if (place.handle != 0)
        note_recent(pages, number, &place);
    return (struct pages_recent){ place.hash, number, place.handle };
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
    struct pages_recent found = look_up(pages, number);
    struct entry *entry;
    struct bytes page;

    keyspace_assert_locked(space);
    if (found.handle == 0)
        return NULL;
    entry = keyspace_entry(space, found.handle);
    if (use == PAGER_USE && !pager->only_looks) {
        partition_note_use(space->partition->all, space, found.hash, entry, KEY_USED);
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
static char *change_room(struct keyspace *space, struct pages_recent *place, size_t size)
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
static struct entry *prepare(struct keyspace *space, uint64_t hash, uint32_t handle)
{
    struct partitions *all = space->partition->all;
    struct entry *entry = keyspace_entry(space, handle);

    keyspace_assert_locked(space);
    if (UNLIKELY(entry->flags & ENTRY_LATCHED))
        all->watch.unlatch(all->watch.context, space, hash, entry_key(entry));
    partition_changing(space, hash, handle);
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
    struct pages_recent found = look_up(pages, number);
    struct entry *entry;
    char *bytes;

    CHECK(found.handle != 0);
    entry = prepare(space, found.hash, found.handle);
    keyspace_assert_locked(space);
    keyspace_mark_dirty(space, entry);
    if (room_of(entry).size == room_for(size) && !is_read_by_others(entry))
        return set_size((char *)room_of(entry).data, size);
    bytes = change_room(space, &found, size);
    *recent_of(pages, number) = found;
    return bytes;
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
    note_recent(pages, number, &place);
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
    recent_of(pages, number)->handle = 0;
    record = entry_record(prepare(space, place.hash, place.handle));
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

/* The page will be used soon: asks the CPU for its end, where a table's page has what is looked at first (containers/pair_page.h). */
static inline __attribute__((always_inline)) void fetch_end(const struct entry *entry)
{
    const char *end = entry_value_at(entry) + entry->value_size;

    if (!entry_is_inline(entry))
        return;
    __builtin_prefetch(end - FETCH_SIZE / 2);
    __builtin_prefetch(end - FETCH_SIZE);
}

static void fetch_page(struct pager *pager, uint32_t number, enum pager_part part)
{
    struct pages *pages = (struct pages *)pager;
    const struct table *table = &pages->space->table;
    uint64_t hash = page_hash_of(pages->id, number);
    const char *begin;

    keyspace_assert_locked(pages->space);
    if (part == PAGER_PLACE) {
        __builtin_prefetch(table_bucket_at(table, hash));
        return;
    }
    begin = table_entry_at(table, hash);
    if (begin == NULL)
        return;
    if (part == PAGER_BEGIN)
        fetch_lines(begin, begin + FETCH_BEGIN);
    else if (entry_is_inline((const struct entry *)begin))
        fetch_lines(begin + FETCH_BEGIN, entry_value_at((const struct entry *)begin) + ((const struct entry *)begin)->value_size);
}

void pages_init(struct pages *pages, struct keyspace *space, uint64_t id, int64_t now_ms)
{
    CHECK(incarnation_is_of_pages(space->incarnation) && pages_partition(space->partition->all, id) == space->partition->index);
    *pages = (struct pages){ .pager = { .find = find_page, .change = change_page, .create = create_page, .drop = drop_page, .bring = bring_page, .fetch = fetch_page }, .space = space, .id = id, .now_ms = now_ms };
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
    paged_access_init(&access->paged, &access->pages.pager, limits);
}

void pages_attach(struct pages_access *access, struct keyspace *keyspace, const struct value *value, const struct value_limits *limits, int64_t now_ms)
{
    init_access(access, keyspace, paged_of(value)->id, limits, now_ms);
    paged_attach(value, &access->paged);
}

/* Elements and their bytes of a value that can be in pages, 0 of others. */
static struct paged_plan size_of(const struct value *value)
{
    const struct dict *dict = value->type == VALUE_HASH ? hash_table(value) : value->type == VALUE_SET ? set_table(value) : NULL;
    const struct btree *tree = value->type == VALUE_ZSET ? zset_tree(value) : NULL;
    const struct chunk_list *list = value->type == VALUE_LIST ? list_chunks(value) : NULL;

    if (dict != NULL)
        return (struct paged_plan){ dict_count(dict), dict_size(dict) };
    if (list != NULL)
        return (struct paged_plan){ chunk_list_count(list), chunk_list_size(list) };
    if (value->type == VALUE_STREAM)
        return (struct paged_plan){ stream_of(value)->length, stream_size(stream_of(value)) };
    return tree != NULL ? (struct paged_plan){ btree_count(tree), btree_size(tree) } : (struct paged_plan){ 0 };
}

bool pages_are_for(const struct value *value, const struct value_limits *limits)
{
    struct paged_plan size = size_of(value);

    return size.count > 0 && size.size >= limits->page_threshold;
}

/* The groups of a stream are taken from it. */
static struct paged_value *create_paged(const struct value *table, const struct paged_plan *plan, uint64_t id, struct paged_access *access)
{
    if (table->type == VALUE_LIST)
        return paged_list_create(list_chunks(table), id, access);
    if (table->type == VALUE_STREAM)
        return stream_nodes_to_pages(stream_of(table), id, access);
    if (table->type == VALUE_ZSET)
        return paged_zset_create(zset_tree(table), plan, id, access);
    return table->type == VALUE_HASH ? hash_to_pages(table, plan, id, access) : paged_create(set_table(table), plan, id, access);
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
    as_it_is = size_of(table);
    if (plan == NULL)
        plan = &as_it_is;
    value->object = create_paged(table, plan, id, &access->paged);
    value->encoding |= VALUE_PAGED;
    return true;
}

bool pages_take(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, struct value *value, struct value *table)
{
    return pages_take_planned(access, keyspace, key_hash, limits, now_ms, NULL, value, table);
}

bool pages_take_string(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, struct bytes bytes,
    struct blob *consumed, uint64_t length, struct value *value)
{
    uint32_t block = paged_string_block(limits);
    uint64_t id = length <= (uint64_t)block * PAGED_TREE_FIRST ? pages_new_id(keyspace->partition->all, key_hash) : 0;

    if (id == 0)
        return false;
    init_access(access, keyspace, id, limits, now_ms);
    *value = (struct value){ .type = VALUE_STRING, .encoding = STRING_PAGED, .object = paged_string_create(bytes, consumed, length, block, id, &access->paged) };
    return true;
}

static bool has_range(const struct value *value, uint32_t first, uint32_t count)
{
    bool has = true;

    for (uint32_t i = 0; i < count; i++)
        has = paged_has_page(value, first + i) && has;
    return has;
}

/* The pages are resident. The copy's are made beside them, so they may be looked up again. */
static void copy_range(struct pager *from, struct pager *to, uint32_t first, uint32_t count)
{
    for (uint32_t number = first; number < first + count; number++) {
        size_t size = 0;
        char *page;

        CHECK(from->find(from, number, PAGER_LOOK, &size) != NULL);
        page = to->create(to, number, size);
        if (size > 0)
            memcpy(page, from->find(from, number, PAGER_LOOK, &size), size);
    }
}

enum pages_copied pages_copy(struct pages_access *access, struct keyspace *keyspace, uint64_t key_hash, const struct value_limits *limits, int64_t now_ms, const struct value *from, struct value *copy)
{
    struct paged_extent extent = paged_extent_of(from);
    struct pager *pager = &pages_access_of(from)->pages.pager;
    bool has = has_range(from, 0, extent.table_pages);
    uint64_t id;

    if (!has_range(from, PAGED_TREE_FIRST, extent.tree_pages) || !has)
        return PAGES_LACKED;
    id = pages_new_id(keyspace->partition->all, key_hash);
    if (id == 0)
        return PAGES_NONE;
    init_access(access, keyspace, id, limits, now_ms);
    copy_range(pager, &access->pages.pager, 0, extent.table_pages);
    copy_range(pager, &access->pages.pager, PAGED_TREE_FIRST, extent.tree_pages);
    *copy = paged_copy_root(from, id);
    paged_attach(copy, &access->paged);
    return PAGES_COPIED;
}

static void drop_range(struct keyspace *space, uint64_t id, uint32_t first, uint32_t count, int64_t now_ms) REQUIRES(space->partition->lock);
static void drop_range(struct keyspace *space, uint64_t id, uint32_t first, uint32_t count, int64_t now_ms)
{
    struct keyspace_watch *watch = &space->partition->all->watch;
    struct pages pages;

    if (watch->drop_pages != NULL) {
        watch->drop_pages(watch->context, space, id, first, first + count, now_ms);
        return;
    }
    pages_init(&pages, space, id, now_ms);
    pages_drop(&pages, first, count);
}

void pages_drop_of(struct keyspace *keyspace, const struct value *value, int64_t now_ms)
{
    struct paged_extent extent;
    struct keyspace *space;

    if (!value_is_paged(value))
        return;
    extent = paged_extent_of(value);
    space = pages_space_of(keyspace);
    keyspace_assert_locked(space);
    drop_range(space, extent.id, 0, extent.table_pages, now_ms);
    if (extent.tree_pages > 0)
        drop_range(space, extent.id, PAGED_TREE_FIRST, extent.tree_pages, now_ms);
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

static bool bring_number(struct keyspace *space, uint64_t id, uint32_t number) REQUIRES(space->partition->lock);
static bool bring_number(struct keyspace *space, uint64_t id, uint32_t number)
{
    struct keyspace_watch *watch = &space->partition->all->watch;
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(id, number, name);

    if (keyspace_find(space, hash, bytes_of(name, sizeof(name))) != 0)
        return true;
    return watch->bring_page != NULL && watch->bring_page(watch->context, space, hash, bytes_of(name, sizeof(name))) &&
           keyspace_find(space, hash, bytes_of(name, sizeof(name))) != 0;
}

bool pages_bring_all(struct pages_access *access, const struct value *value)
{
    struct keyspace *space = access->pages.space;
    bool done = true;

    keyspace_assert_locked(space);
    if (!paged_walks_tree(value)) {
        for (uint32_t i = 0; i < access->paged.table.root->pages && done; i++)
            done = bring_number(space, access->pages.id, i);
        return done;
    }
    while (done && !paged_tree_has_ranks(value, 0, SIZE_MAX)) {
        for (uint32_t i = 0; i < access->paged.wanted_count && done; i++)
            done = bring_number(space, access->pages.id, access->paged.wanted[i]);
        paged_forget_wanted(&access->paged);
    }
    return done;
}
