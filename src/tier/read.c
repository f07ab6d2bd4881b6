#include "tier/read.h"

#include "tier/tier_private.h"

bool reading_is_possible(const struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    uint64_t place;

    return recordmap_find(keyspace->tier->map, hash, key, &place);
}

bool reading_begin(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key, struct reading_place *reading)
{
    ASSERT_LOCKED(keyspace->partition);
    *reading = (struct reading_place){ 0, NULL };
    if (!recordmap_find(keyspace->tier->map, hash, key, &reading->place))
        return false;
    if (reading->place != 0)
        reading->segment = segments_pin(store_segments(tier->store), reading->place);
    return true;
}

void reading_end(struct reading_place *reading)
{
    if (reading->segment != NULL)
        segments_unpin(reading->segment);
    reading->segment = NULL;
}

enum status reading_record(struct tier *tier, const struct reading_place *reading, uint32_t incarnation, uint64_t hash, struct bytes key,
    struct buffer *record)
{
    struct segment_buffer scratch = { 0 };
    enum status status = store_get_at(tier->store, reading->place, reading->segment, SEGMENT_BUFFERED, incarnation, hash, key, &scratch, record,
        NULL);

    segment_buffer_release(&scratch);
    damage_note(tier, &(struct failed_read){ incarnation, hash, reading->place, reading->segment, key }, status);
    return status;
}

enum status read_record(struct tier *tier, struct partition *partition, uint32_t incarnation, uint64_t hash, struct bytes key,
    struct buffer *record)
{
    struct reading_place reading = { 0, NULL };
    struct keyspace *keyspace;
    bool is_there = false;
    enum status status;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, incarnation);
    if (keyspace != NULL && keyspace->tier != NULL) {
        keyspace_assert_locked(keyspace);
        is_there = reading_begin(tier, keyspace, hash, key, &reading);
    }
    partition_unlock(partition);
    if (!is_there)
        return STATUS_NOT_FOUND;
    status = reading_record(tier, &reading, incarnation, hash, key, record);
    reading_end(&reading);
    return status;
}

enum status reading_existence(struct tier *tier, uint32_t incarnation, uint64_t hash, struct bytes key, enum status status)
{
    struct buffer record = { 0 };

    if (status != STATUS_CORRUPT)
        return status;
    status = store_get(tier->store, incarnation, hash, key, &record);
    damage_note(tier, &(struct failed_read){ incarnation, hash, 0, NULL, key }, status);
    buffer_release(&record);
    return status;
}
