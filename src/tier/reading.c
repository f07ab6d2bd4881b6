#include "tier/reading.h"

#include "tier/record.h"
#include "tier/tier_private.h"

void read_buffers_release(struct read_buffers *buffers)
{
    segment_buffer_release(&buffers->aligned);
    buffer_release(&buffers->bytes);
    buffer_release(&buffers->scratch);
}

void read_buffers_shrink(struct read_buffers *buffers, size_t size_max)
{
    buffers->bytes.size = buffers->scratch.size = 0;
    buffer_shrink(&buffers->bytes, size_max);
    buffer_shrink(&buffers->scratch, size_max);
    if (buffers->aligned.capacity > size_max)
        segment_buffer_release(&buffers->aligned);
}

bool reading_find(const struct keyspace *keyspace, uint64_t hash, struct bytes key, uint64_t *place)
{
    return recordmap_find(keyspace->tier->map, hash, key, place) && place_is_in_segment(*place);
}

bool reading_is_possible(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint64_t place;

    return reading_find(keyspace, hash, key, &place);
}

bool reading_begin(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key, struct reading *reading)
{
    ASSERT_LOCKED(keyspace->partition);
    *reading = (struct reading){ .hash = hash, .key = key, .incarnation = keyspace->incarnation };
    if (!reading_find(keyspace, hash, key, &reading->place))
        return false;
    reading->segment = segments_pin(store_segments(tier->store), reading->place);
    return true;
}

bool reading_begin_in(struct tier *tier, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key, struct reading *reading)
{
    struct keyspace *keyspace;
    bool is_possible = false;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, incarnation);
    if (keyspace != NULL && keyspace->tier != NULL) {
        keyspace_assert_locked(keyspace);
        is_possible = reading_begin(tier, keyspace, hash, key, reading);
    }
    partition_unlock(partition);
    return is_possible;
}

void reading_end(struct reading *reading)
{
    if (reading->segment != NULL)
        segments_unpin(reading->segment);
    reading->segment = NULL;
}

void reading_now(struct tier *tier, const struct reading *reading, struct read_buffers *buffers, struct read_record *record)
{
    enum segment_access access = access_choose(&tier->access);
    bool was_cached = false;

    buffers->bytes.size = 0;
    record->status = segments_read(store_segments(tier->store), reading->segment, reading->place, access, reading->incarnation, reading->key,
        &buffers->aligned, &buffers->bytes, access == SEGMENT_BUFFERED ? &was_cached : NULL);
    if (access == SEGMENT_BUFFERED)
        access_note(&tier->access, was_cached);
    record->key = reading->key;
    record->bytes = buffer_bytes(&buffers->bytes);
    record->scratch = &buffers->scratch;
    if (record->status != STATUS_OK && record->status != STATUS_NOT_FOUND)
        record->status = reading_failed(tier, reading, record->status);
}

void reading_parse(const struct tier *tier, const struct reading *reading, struct bytes bytes, struct read_record *record)
{
    struct segment_record found;
    uint64_t size;

    record->status = segment_record_parse(bytes, &found, &size);
    if (record->status != STATUS_OK)
        return;
    if (found.incarnation != reading->incarnation ||
        (reading->key.data != NULL ? !bytes_equal(found.key, reading->key) : name_hash(&tier->partitions->seed, found.incarnation, found.key) != reading->hash))
        record->status = STATUS_NOT_FOUND;
    record->key = found.key;
    record->bytes = found.value;
}

/* A damaged record in a segment does not say whose it is; the index does. */
static enum status check_index(struct tier *tier, const struct reading *reading)
{
    enum status status = store_has(tier->store, reading->incarnation, reading->hash, reading->key);

    return status == STATUS_OK ? STATUS_CORRUPT : status;
}

static enum status note_failed(struct tier *tier, const struct reading *reading, uint32_t dictionary, enum status status)
{
    if (status == STATUS_CORRUPT && reading->key.data != NULL)
        status = check_index(tier, reading);
    damage_note(tier, &(struct failed_read){ reading->incarnation, reading->hash, reading->place, reading->segment, reading->key, dictionary }, status);
    return status;
}

enum status reading_failed(struct tier *tier, const struct reading *reading, enum status status)
{
    return note_failed(tier, reading, 0, status);
}

enum status reading_failed_decoding(struct tier *tier, const struct reading *reading, struct bytes bytes, enum status status)
{
    return note_failed(tier, reading, record_lacks_dictionary(bytes, store_dictionaries(tier->store)), status);
}
