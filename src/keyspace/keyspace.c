#include "keyspace/keyspace.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "keyspace/heat.h"
#include "keyspace/partition.h"

struct keyspace *keyspace_create(struct partition *partition, int db, uint32_t incarnation)
{
    struct keyspace *keyspace = mem_zalloc(sizeof(*keyspace));

    keyspace->partition = partition;
    keyspace->db = db;
    keyspace->incarnation = incarnation;
    heap_init(&keyspace->heap, partition->all->pool);
    if (partition->all->seed.by_slot)
        keyspace->slots = mem_zalloc(partition_slot_count(partition->all) * sizeof(*keyspace->slots));
    table_init(&keyspace->table, &keyspace->heap, &partition->all->seed, incarnation, partition->all->bits, (uint8_t)(partition->index * 7));
    return keyspace;
}

static void block_free_parts(struct entry *entry)
{
    struct value value = entry_value(entry);
    struct bytes key = entry_key(entry);

    value_free(&value);
    if (key.size > ENTRY_KEY_INLINE_MAX)
        mem_free((void *)key.data);
}

void keyspace_destroy(struct keyspace *keyspace)
{
    struct heap *heap;

    if (keyspace == NULL)
        return;
    heap = &keyspace->heap;
    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        if (heap->segments[segment] == NULL)
            continue;
        while ((entry = heap_walk(heap, segment, &unit)) != NULL) {
            unit += entry_block_size(entry) / ENTRY_UNIT;
            if (!entry_is_inline(entry) || entry->key_size == ENTRY_KEY_EXTENDED)
                block_free_parts(entry);
        }
    }
    table_release(&keyspace->table);
    heap_release(heap);
    mem_free(keyspace->slots);
    mem_free(keyspace);
}

struct slot_counts *keyspace_slot(const struct keyspace *keyspace, uint64_t hash)
{
    return &keyspace->slots[hash >> SLOT_SHIFT & (partition_slot_count(keyspace->partition->all) - 1)];
}

void keyspace_count_records(struct keyspace *keyspace, uint64_t hash, int count)
{
    if (keyspace->slots != NULL)
        keyspace_slot(keyspace, hash)->records += (uint32_t)count;
}

void keyspace_count_shadows(struct keyspace *keyspace, uint64_t hash, int count)
{
    if (keyspace->slots != NULL)
        keyspace_slot(keyspace, hash)->shadowed += (uint32_t)count;
}

void keyspace_count_unknown(struct keyspace *keyspace, uint64_t hash, int count)
{
    if (keyspace->slots != NULL)
        keyspace_slot(keyspace, hash)->unknown += (uint32_t)count;
}

/* `count` entries more, or less, with such a record. */
static void count_entries(struct keyspace *keyspace, uint64_t hash, enum record_state record, int count)
{
    keyspace->record_counts[record] += (uint64_t)(int64_t)count;
    if (LIKELY(keyspace->slots == NULL))
        return;
    keyspace_slot(keyspace, hash)->entries += (uint32_t)count;
    if (record == RECORD_UNKNOWN)
        keyspace_count_unknown(keyspace, hash, count);
    else if (record != RECORD_NONE)
        keyspace_count_shadows(keyspace, hash, count);
}

static size_t value_space(const struct value *value)
{
    if (value->type == VALUE_STRING && (value->encoding == STRING_EMBEDDED || value->encoding == STRING_RAW))
        return value->bytes.size;
    return 8;
}

static void put_value(struct entry *entry, const struct value *value)
{
    bool is_inline = value->type == VALUE_STRING && (value->encoding == STRING_EMBEDDED || value->encoding == STRING_RAW);

    entry->type_encoding = (uint8_t)(value->type | value->encoding << 4);
    if (is_inline) {
        entry->value_size = (uint16_t)value->bytes.size & 0x1fff;
        if (value->bytes.size > 0)
            memmove(entry_value_at(entry), value->bytes.data, value->bytes.size);
    } else {
        entry->value_size = 0;
        memcpy(entry_value_at(entry), &value->integer, 8);
    }
}

static void put_key(struct entry *entry, struct bytes key)
{
    char *at = (char *)entry_key_at(entry);
    uint32_t size = (uint32_t)key.size;

    if (size < ENTRY_KEY_EXTENDED) {
        entry->key_size = (uint8_t)size;
        memcpy(at, key.data, size);
        return;
    }
    entry->key_size = ENTRY_KEY_EXTENDED;
    memcpy(at, &size, 4);
    at += 4;
    if (size > ENTRY_KEY_INLINE_MAX) {
        char *copy = mem_alloc(size);

        memcpy(copy, key.data, size);
        memcpy(at, &copy, 8);
    } else {
        memcpy(at, key.data, size);
    }
}

uint32_t keyspace_insert(struct keyspace *keyspace, uint64_t hash, struct bytes key, const struct value *value,
    int64_t expire_ms, enum record_state record, int64_t now_ms)
{
    bool expires = expire_ms >= 0;
    uint32_t size = entry_block_round(sizeof(struct entry) + (expires ? 8 : 0) + entry_key_space(key.size) + value_space(value));
    uint32_t handle;
    struct entry *entry;

#ifdef KELVIN_DEBUG
    CHECK(keyspace_find(keyspace, hash, key) == 0);
#endif
    handle = heap_alloc(&keyspace->heap, size);
    if (handle == 0)
        return 0;
    entry = heap_at(&keyspace->heap, handle);
    *entry = (struct entry){
        .flags = (uint8_t)(ENTRY_PROBATION | (expires ? ENTRY_EXPIRES : 0) | record << 1 | (keyspace->partition->all->parity ? ENTRY_EPOCH : 0)),
        .heat = HEAT_NEW,
        .heat_minutes = heat_minutes(now_ms),
    };
    if (expires)
        memcpy(entry->body, &expire_ms, 8);
    put_key(entry, key);
    put_value(entry, value);
    table_insert(&keyspace->table, hash, handle);
    count_entries(keyspace, hash, record, 1);
    keyspace->probation_count++;
    if (expires) {
        keyspace->expiring_count++;
        table_note_due(&keyspace->table, hash, handle, expire_ms, now_ms);
    }
    if (UNLIKELY(entry_has_times(entry)))
        keyspace_note_times(keyspace, hash, handle, now_ms);
    return handle;
}

void keyspace_note_times(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t now_ms)
{
    int64_t due_ms = entry_due_ms(heap_at(&keyspace->heap, handle));

    if (due_ms < 0)
        return;
    keyspace->may_have_times = keyspace->saw_due = true;
    table_note_due(&keyspace->table, hash, handle, due_ms, now_ms);
}

/* Gives the entry a block of another size and copies header, expiry and key into it. The caller stores the value and
 * frees the old block, in this order, because the value may still be in the old block. */
static uint32_t block_exchange(struct keyspace *keyspace, uint64_t hash, uint32_t handle, uint32_t size)
{
    uint32_t moved = heap_alloc(&keyspace->heap, size);
    struct entry *from, *to;

    CHECK(moved != 0);      /* a change cannot be undone half-way, and there is no memory left */
    from = heap_at(&keyspace->heap, handle);
    to = heap_at(&keyspace->heap, moved);
    memcpy(to, from, (size_t)(entry_value_at(from) - (char *)from));
    table_replace(&keyspace->table, hash, handle, moved);
    return moved;
}

uint32_t keyspace_set_value(struct keyspace *keyspace, uint64_t hash, uint32_t handle, const struct value *value)
{
    struct entry *entry = heap_at(&keyspace->heap, handle);
    uint32_t old_size = entry_block_size(entry);
    uint32_t size = entry_block_round((size_t)(entry_value_at(entry) - (char *)entry) + value_space(value));
    uint32_t moved;

    if (size == old_size) {
        put_value(entry, value);
        return handle;
    }
    moved = block_exchange(keyspace, hash, handle, size);
    put_value(heap_at(&keyspace->heap, moved), value);
    heap_free(&keyspace->heap, handle, old_size);
    return moved;
}

uint32_t keyspace_set_expire(struct keyspace *keyspace, uint64_t hash, uint32_t handle, int64_t expire_ms, int64_t now_ms)
{
    struct entry *entry = heap_at(&keyspace->heap, handle);
    bool had = entry->flags & ENTRY_EXPIRES, has = expire_ms >= 0;

    if (had != has) {
        uint32_t size = entry_block_size(entry);
        struct value value = entry_value(entry);
        size_t key_size = (size_t)(entry_value_at(entry) - entry_key_at(entry));
        uint32_t moved = heap_alloc(&keyspace->heap,
            entry_block_round(sizeof(struct entry) + (has ? 8 : 0) + key_size + entry_value_space(entry)));
        struct entry *to;

        CHECK(moved != 0);
        entry = heap_at(&keyspace->heap, handle);
        to = heap_at(&keyspace->heap, moved);
        *to = *entry;
        to->flags = (uint8_t)(has ? entry->flags | ENTRY_EXPIRES : entry->flags & ~ENTRY_EXPIRES);
        memcpy((char *)entry_key_at(to), entry_key_at(entry), key_size);
        put_value(to, &value);
        table_replace(&keyspace->table, hash, handle, moved);
        heap_free(&keyspace->heap, handle, size);
        keyspace->expiring_count += has ? 1 : (uint64_t)-1;
        handle = moved;
        entry = to;
    }
    if (has) {
        memcpy(entry->body, &expire_ms, 8);
        table_note_due(&keyspace->table, hash, handle, expire_ms, now_ms);
    }
    return handle;
}

void keyspace_remove(struct keyspace *keyspace, uint64_t hash, uint32_t handle, struct value *value)
{
    struct entry *entry = heap_at(&keyspace->heap, handle);
    struct bytes key = entry_key(entry);

    *value = entry_value(entry);
    if (entry_is_inline(entry))
        value->bytes = bytes_of(NULL, 0);
    table_remove(&keyspace->table, hash, handle);
    count_entries(keyspace, hash, entry_record(entry), -1);
    if (entry->flags & ENTRY_EXPIRES)
        keyspace->expiring_count--;
    if (entry->flags & ENTRY_PROBATION)
        keyspace->probation_count--;
    if (key.size > ENTRY_KEY_INLINE_MAX)
        mem_free((void *)key.data);
    heap_free(&keyspace->heap, handle, entry_block_size(entry));
}

void keyspace_set_record(struct keyspace *keyspace, struct entry *entry, enum record_state state)
{
    enum record_state before = entry_record(entry);

    if (UNLIKELY(keyspace->slots != NULL) && (before < RECORD_STALE || state < RECORD_STALE)) {
        uint64_t hash = keyspace_hash(keyspace, entry_key(entry));

        count_entries(keyspace, hash, before, -1);
        count_entries(keyspace, hash, state, 1);
    } else {
        keyspace->record_counts[before]--;
        keyspace->record_counts[state]++;
    }
    entry->flags = (uint8_t)((entry->flags & ~ENTRY_RECORD) | state << 1);
}

void keyspace_set_probation(struct keyspace *keyspace, struct entry *entry, bool on)
{
    if (on == !!(entry->flags & ENTRY_PROBATION))
        return;
    entry->flags ^= ENTRY_PROBATION;
    keyspace->probation_count += on ? 1 : (uint64_t)-1;
}

bool keyspace_compact(struct keyspace *keyspace, uint32_t block_count, uint32_t hole_percent)
{
    struct heap *heap = &keyspace->heap;

    if (heap->barred == UINT32_MAX) {
        uint32_t victim;

        if (heap->hole_bytes * 100 <= (heap->live_bytes + heap->hole_bytes) * hole_percent)
            return false;
        victim = heap_victim(heap);
        if (victim == UINT32_MAX)
            return false;
        heap_bar(heap, victim);
        keyspace->evacuate_unit = 1;
    }
    while (block_count-- > 0) {
        struct entry *entry = heap_walk(heap, heap->barred, &keyspace->evacuate_unit);
        uint32_t from, to, size;
        uint64_t hash;

        if (entry == NULL) {
            heap_unbar(heap);
            return true;
        }
        from = heap->barred << HEAP_UNIT_BITS | keyspace->evacuate_unit;
        size = entry_block_size(entry);
        hash = keyspace_hash(keyspace, entry_key(entry));
        to = heap_alloc(heap, size);
        if (to == 0) {
            heap_unbar(heap);
            return false;
        }
        memcpy(heap_at(heap, to), entry, size);
        table_replace(&keyspace->table, hash, from, to);
        keyspace->evacuate_unit += size / ENTRY_UNIT;
        heap_free(heap, from, size);
    }
    return true;
}

bool keyspace_expire_step(struct keyspace *keyspace, int64_t now_ms, uint32_t bucket_count, keyspace_expired *found, void *context)
{
    uint32_t now = table_due_of(now_ms, now_ms);

    while (bucket_count-- > 0) {
        struct table_cursor cursor;
        uint32_t expired[TABLE_BUCKET_SLOTS], earliest = 0;
        uint64_t hashes[TABLE_BUCKET_SLOTS];
        int count = 0;
        struct table_bucket *bucket;

        if (!table_seek(&keyspace->table, keyspace->expire_cursor, &cursor))
            return true;
        bucket = cursor.bucket;
        if (table_bucket_due(bucket) != 0 && !table_due_before(now, table_bucket_due(bucket))) {
            for (int slot = 0; slot < TABLE_BUCKET_SLOTS; slot++) {
                struct entry *entry;
                int64_t expire_ms;

                if (bucket->handles[slot] == 0)
                    continue;
                entry = heap_at(&keyspace->heap, bucket->handles[slot]);
                expire_ms = entry_due_ms(entry);
                if (expire_ms < 0)
                    continue;
                if (expire_ms <= now_ms && !entry_is_held(keyspace, entry)) {
                    expired[count] = bucket->handles[slot];
                    hashes[count++] = keyspace_hash(keyspace, entry_key(entry));
                } else if (earliest == 0 || table_due_before(table_due_of(expire_ms, now_ms), earliest)) {
                    earliest = table_due_of(expire_ms, now_ms);
                }
            }
            table_bucket_set_due(bucket, earliest);
        }
        keyspace->saw_due = keyspace->saw_due || table_bucket_due(bucket) != 0;
        keyspace->expire_cursor = cursor.last_hash + 1;
        for (int i = 0; i < count; i++)     /* the callback may change the table: the bucket is not read again */
            found(context, keyspace, hashes[i], expired[i]);
        if (keyspace->expire_cursor == 0 ||
            partition_index(keyspace->partition->all, keyspace->expire_cursor) != keyspace->partition->index) {
            keyspace->expire_cursor = partition_first_hash(keyspace->partition);
            keyspace->may_have_times = keyspace->saw_due;
            keyspace->saw_due = false;
            return true;
        }
    }
    return false;
}

uint64_t keyspace_live_size(const struct keyspace *keyspace)
{
    return keyspace->heap.live_bytes + table_size(&keyspace->table);
}

uint64_t keyspace_held_size(const struct keyspace *keyspace)
{
    return heap_size(&keyspace->heap) + table_size(&keyspace->table);
}

void keyspace_verify(const struct keyspace *keyspace)
{
    const struct heap *heap = &keyspace->heap;
    uint64_t records[4] = { 0 }, expiring = 0, probation = 0, total = 0;
    struct slot_counts *slots = mem_zalloc(partition_slot_count(keyspace->partition->all) * sizeof(*slots));

    heap_verify(heap);
    table_verify(&keyspace->table);
    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1;
        struct entry *entry;

        if (heap->segments[segment] == NULL)
            continue;
        while ((entry = heap_walk(heap, segment, &unit)) != NULL) {
            unit += entry_block_size(entry) / ENTRY_UNIT;
            records[entry_record(entry)]++;
            if (keyspace->slots != NULL)
                slots[keyspace_slot(keyspace, keyspace_hash(keyspace, entry_key(entry))) - keyspace->slots].entries++;
            expiring += !!(entry->flags & ENTRY_EXPIRES);
            probation += !!(entry->flags & ENTRY_PROBATION);
            total++;
        }
    }
    for (int i = 0; i < 4; i++)
        CHECK(records[i] == keyspace->record_counts[i]);
    for (uint32_t i = 0; keyspace->slots != NULL && i < partition_slot_count(keyspace->partition->all); i++)
        CHECK(slots[i].entries == keyspace->slots[i].entries);
    mem_free(slots);
    CHECK(total == keyspace->table.count && expiring == keyspace->expiring_count && probation == keyspace->probation_count);
}
