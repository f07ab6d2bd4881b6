#include "tier/packed.h"

#include <string.h>

#include "base/mem.h"
#include "keyspace/uses.h"
#include "store/segments.h"
#include "tier/reading.h"
#include "tier/record.h"
#include "tier/tier_private.h"
#include "value/string.h"

enum {
    ID_SIZE = 8,
    RECORD_MAX = STRING_INLINE_MAX - ID_SIZE,
    ENCODED_MAX = 4 * RECORD_MAX,       /* larger ones are hardly ever packed into RECORD_MAX */
    BUCKETS_A_PUT = 16,                 /* that the hand looks at */
    BUCKETS_A_HOLD = 256,               /* the same, when it only takes */
    SCRATCH_KEPT_MAX = 8 * 1024,
};

/* A partition's. Its lock. */
struct packed_room {
    uint64_t bytes;             /* of all its packed keyspaces */
    int hand;                   /* the space that the hand is in; where in it: its demote_cursor */
    struct buffer scratch;      /* of packed_find */
};

void packed_start(struct tier *tier)
{
    tier->packed.room_min = PACKED_ROOM_MIN;
    tier->packed.rooms = mem_zalloc(tier->partitions->count * sizeof(*tier->packed.rooms));
}

void packed_release(struct tier *tier)
{
    for (uint32_t i = 0; tier->packed.rooms != NULL && i < tier->partitions->count; i++)
        buffer_release(&tier->packed.rooms[i].scratch);
    mem_free(tier->packed.rooms);
    buffer_release(&tier->packed.record);
}

/* Bytes that a partition may have. */
static uint64_t room_max(struct tier *tier)
{
    int64_t limit = tier->settings.memory_max;
    uint64_t bytes;

    if (limit <= 0 || tier->settings.packed_share <= 0 || tier->settings.compression == PACKING_NO)
        return 0;
    bytes = (uint64_t)limit / 100 * (uint64_t)tier->settings.packed_share / tier->partitions->count;
    return bytes >= tier->packed.room_min ? bytes : 0;
}

/* Nothing is added while these keys have to go because no others can. */
static bool may_put(struct tier *tier)
{
    return !stuck_is_likely(&tier->stuck) && room_max(tier) > 0;
}

static struct packed_room *room_of(struct tier *tier, const struct keyspace *keyspace)
{
    return &tier->packed.rooms[keyspace->partition->index];
}

static uint64_t size_of(const struct entry *entry)
{
    return entry_block_size(entry) + TABLE_BUCKET_SLOTS / 2;
}

static void remove_entry(struct packed_room *room, struct keyspace *packed, uint64_t hash, uint32_t handle) REQUIRES(packed->partition->lock);
static void remove_entry(struct packed_room *room, struct keyspace *packed, uint64_t hash, uint32_t handle)
{
    struct value value;

    room->bytes -= size_of(keyspace_entry(packed, handle));
    keyspace_remove(packed, hash, handle, &value);
}

/* --- the hand --- */

/* Looks at a bucket. False: it was the last one of this keyspace, or there is none. */
static bool sweep_bucket(struct packed_room *room, struct keyspace *packed) REQUIRES(packed->partition->lock);
static bool sweep_bucket(struct packed_room *room, struct keyspace *packed)
{
    uint32_t taken[TABLE_BUCKET_SLOTS];
    struct table_cursor cursor;
    int count = 0;

    if (!table_seek(&packed->table, packed->demote_cursor, &cursor))
        return false;
    packed->demote_cursor = cursor.last_hash + 1;
    for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
        uint32_t handle = cursor.bucket->handles[slot];

        if (handle == 0)
            continue;
        if (keyspace_entry(packed, handle)->uses == 0)
            taken[count++] = handle;
        else
            keyspace_entry(packed, handle)->uses--;
    }
    for (int i = 0; i < count; i++)         /* this may change the table: the bucket is not read again */
        remove_entry(room, packed, keyspace_hash(packed, entry_key(keyspace_entry(packed, taken[i]))), taken[i]);
    if (packed->demote_cursor != 0 && partition_index(packed->partition->all, packed->demote_cursor) == packed->partition->index)
        return true;
    packed->demote_cursor = partition_first_hash(packed->partition);
    return false;
}

/* Makes room until there are at most `most` bytes, or the hand has looked at `buckets`. */
static void make_room(struct tier *tier, struct partition *partition, uint64_t most, int buckets) REQUIRES(partition->lock);
static void make_room(struct tier *tier, struct partition *partition, uint64_t most, int buckets)
{
    struct packed_room *room = &tier->packed.rooms[partition->index];
    int empty = 0;

    while (room->bytes > most && buckets > 0 && empty <= tier->partitions->space_count) {
        struct keyspace *keyspace = partition_keyspace_if(partition, room->hand), *packed = keyspace != NULL ? keyspace->tier->packed : NULL;
        bool has_more = false;

        empty++;
        if (packed != NULL && packed->table.count > 0) {
            keyspace_assert_locked(packed);
            has_more = sweep_bucket(room, packed);
            buckets--;
            empty = 0;
        }
        if (!has_more)
            room->hand = (room->hand + 1) % tier->partitions->space_count;
    }
}

/* --- putting --- */

static uint64_t id_in(const struct segment *segment, uint64_t place)
{
    return segment_sequence(segment) << PLACE_UNIT_BITS | place_unit(place);
}

static uint64_t id_at(struct tier *tier, uint64_t place)
{
    struct segment *segment = segments_pin(store_segments(tier->store), place);
    uint64_t id = id_in(segment, place);

    segments_unpin(segment);
    return id;
}

static uint64_t id_of(const struct entry *entry)
{
    uint64_t id;

    memcpy(&id, entry_value_at(entry), ID_SIZE);
    return id;
}

static struct bytes record_of(const struct entry *entry)
{
    return bytes_of(entry_value_at(entry) + ID_SIZE, entry->value_size - ID_SIZE);
}

static void put_packed(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, uint64_t id, struct bytes record)
    REQUIRES(keyspace->partition->lock);
static void put_packed(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, uint64_t id, struct bytes record)
{
    struct packed_room *room = room_of(tier, keyspace);
    struct bytes key = entry_key(entry);
    uint64_t most = room_max(tier), size = sizeof(*entry) + key.size + ID_SIZE + record.size;
    struct keyspace *packed = keyspace->tier->packed;
    char bytes[STRING_INLINE_MAX];
    struct value value;
    uint32_t handle;

    if (size > most || record.size > RECORD_MAX || key.size > ENTRY_KEY_INLINE_MAX)
        return;
    if (packed == NULL)
        packed = keyspace->tier->packed = keyspace_create(keyspace->partition, keyspace->db, keyspace->incarnation);
    tier->packed.was_used = true;
    keyspace_assert_locked(packed);
    handle = keyspace_find(packed, hash, key);
    if (handle != 0)
        remove_entry(room, packed, hash, handle);
    make_room(tier, keyspace->partition, most - size, BUCKETS_A_PUT);
    if (room->bytes > most - size)
        return;
    memcpy(bytes, &id, ID_SIZE);
    memcpy(bytes + ID_SIZE, record.data, record.size);
    value = string_value_raw(bytes_of(bytes, ID_SIZE + record.size));
    handle = keyspace_insert(packed, hash, key, &value, -1, RECORD_NONE, 0);
    if (handle == 0)
        return;
    keyspace_entry(packed, handle)->uses = uses_all(entry) & USES_MAX;
    room->bytes += size_of(keyspace_entry(packed, handle));
}

void packed_put(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, uint64_t place, struct bytes record)
{
    if (may_put(tier) && record_is_packed(record))
        put_packed(tier, keyspace, hash, entry, id_at(tier, place), record);
}

size_t packed_keep(struct tier *tier, struct keyspace *keyspace, uint64_t hash, const struct entry *entry)
{
    struct keyspace *packed = keyspace->tier->packed;
    struct buffer *record = &tier->packed.record;
    uint64_t place, id;
    uint32_t handle;
    size_t work;

    if (!may_put(tier) || entry_is_big(entry) || !reading_find(keyspace, hash, entry_key(entry), &place))
        return 0;
    id = id_at(tier, place);
    handle = packed != NULL ? keyspace_find(packed, hash, entry_key(entry)) : 0;
    if (handle != 0 && id_of(keyspace_entry(packed, handle)) == id) {
        keyspace_entry(packed, handle)->uses = uses_all(entry) & USES_MAX;
        return 0;
    }
    record->size = 0;
    record_encode(entry, record);
    work = record->size;
    if (record->size <= ENCODED_MAX)
        work += packing_pack(tier, keyspace->db, record);
    if (record_is_packed(buffer_bytes(record)))
        put_packed(tier, keyspace, hash, entry, id, buffer_bytes(record));
    return work;
}

/* --- finding --- */

bool packed_find(struct tier *tier, struct keyspace *keyspace, const struct reading *reading, const struct value_limits *limits, struct record *record)
{
    struct keyspace *packed = keyspace->tier->packed;
    struct packed_room *room = room_of(tier, keyspace);
    struct entry *entry;
    uint32_t handle;

    if (packed == NULL || reading->segment == NULL)
        return false;
    keyspace_assert_locked(packed);
    handle = keyspace_find(packed, reading->hash, reading->key);
    if (handle == 0)
        return false;
    entry = keyspace_entry(packed, handle);
    room->scratch.size = 0;
    buffer_shrink(&room->scratch, SCRATCH_KEPT_MAX);
    if (id_of(entry) != id_in(reading->segment, reading->place) ||
        record_decode(record_of(entry), store_dictionaries(tier->store), limits, &room->scratch, record) != STATUS_OK) {
        remove_entry(room, packed, reading->hash, handle);      /* it is not the newest one, or its dictionary has gone */
        return false;
    }
    entry->uses = 0;
    statistics_count(&tier->statistics.packed_hits);
    return true;
}

/* --- the end --- */

static void give_up(struct tier *tier, struct keyspace *packed)
{
    if (tier->hooks.free_keyspace != NULL && !tier->stopping)      /* when it is closed the engine's threads have gone */
        tier->hooks.free_keyspace(tier->hooks.context, packed);
    else
        keyspace_destroy(packed);
}

void packed_forget(struct tier *tier, struct keyspace *keyspace)
{
    struct keyspace *packed = keyspace->tier->packed;

    if (packed == NULL)
        return;
    keyspace->tier->packed = NULL;
    room_of(tier, keyspace)->bytes -= packed->heap.live_bytes + packed->table.count * (TABLE_BUCKET_SLOTS / 2);
    give_up(tier, packed);
}

void packed_trim(struct tier *tier)
{
    uint64_t most = room_max(tier);

    if (!tier->packed.was_used)
        return;
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        if (most > 0)
            make_room(tier, partition, most, BUCKETS_A_HOLD);
        for (int space = 0; most == 0 && space < tier->partitions->space_count; space++) {
            struct keyspace *keyspace = partition_keyspace_if(partition, space);

            if (keyspace != NULL) {
                keyspace_assert_locked(keyspace);
                packed_forget(tier, keyspace);
            }
        }
        partition_unlock(partition);
    }
    tier->packed.was_used = most > 0;
}

uint64_t packed_give(struct tier *tier, uint64_t bytes)
{
    uint64_t of_each = bytes / tier->partitions->count + 1, given = 0;

    if (!tier->packed.was_used)
        return 0;
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        const struct packed_room *room = &tier->packed.rooms[i];
        uint64_t before;

        partition_lock(partition);
        before = room->bytes;
        make_room(tier, partition, before > of_each ? before - of_each : 0, BUCKETS_A_HOLD);
        given += before - room->bytes;
        partition_unlock(partition);
    }
    return given;
}

uint64_t packed_bytes(struct tier *tier)
{
    uint64_t bytes = 0;

    if (!tier->packed.was_used)
        return 0;
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        partition_lock(&tier->partitions->partitions[i]);
        bytes += tier->packed.rooms[i].bytes;
        partition_unlock(&tier->partitions->partitions[i]);
    }
    return bytes;
}
