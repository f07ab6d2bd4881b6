#include "tier/look_up.h"

#include "base/mem.h"
#include "tier/reader.h"
#include "tier/tier_private.h"

enum {
    READS_MAX = 128,                /* at a time */
    KEYS_MAX = 32768,               /* whose reads are sorted together: the more, the more neighbours share one */
    AHEAD_FIRST = 8, AHEAD_NEXT = 4,            /* keys ahead */
};

struct look_up_read {
    struct reading reading;             /* first: the reader returns it */
    struct listed_key *listed;
};

enum stage { FIRST_LINES, NEXT_LINES };         /* those of the second can be found when those of the first are there */

static void fetch(const struct listed_key *listed, enum stage stage)
{
    struct keyspace *keyspace;

    partition_lock(listed->partition);
    keyspace = tier_keyspace_of(listed->partition, listed->incarnation);
    if (keyspace != NULL && stage == FIRST_LINES) {
        __builtin_prefetch(table_bucket_at(&keyspace->table, listed->hash));
        __builtin_prefetch(tier_row_at(keyspace, listed->hash));
    } else if (keyspace != NULL) {
        __builtin_prefetch(table_entry_at(&keyspace->table, listed->hash));
        tier_prefetch(keyspace, listed->hash);
    }
    partition_unlock(listed->partition);
}

void look_up_fetch_after(const struct key_list *list, size_t index)
{
    if (index + AHEAD_FIRST < list->count)
        fetch(&list->keys[index + AHEAD_FIRST], FIRST_LINES);
    if (index + AHEAD_NEXT < list->count)
        fetch(&list->keys[index + AHEAD_NEXT], NEXT_LINES);
}

static void note_record(struct listed_key *listed, const struct read_record *read)
{
    listed->status = read->status;
    listed->expire_ms = -1;
    listed->pages = (struct paged_extent){ 0 };
    if (listed->status == STATUS_OK)
        listed->status = record_peek_times(read->bytes, &listed->gone_ms, &listed->expire_ms);
    if (listed->status == STATUS_OK)
        (void)record_peek_pages(read->bytes, &listed->pages, NULL);
}

/* On any thread. */
static void found_record(void *context, struct reading *reading, struct read_record *record)
{
    struct look_up_read *read = (struct look_up_read *)reading;

    (void)context;
    note_record(read->listed, record);
    reading_end(reading);
}

static struct tier_reader *open_reader(struct tier *tier)
{
    struct reader_options options = { .done = found_record, .record_max = READER_RECORD_MAX, .flight_max = READS_MAX };

    return reader_open(tier, &options);
}

void look_up_key(struct tier *tier, struct listed_key *listed, struct bytes key)
{
    struct read_buffers buffers = { 0 };
    struct read_record record;
    struct reading reading;

    listed->status = STATUS_NOT_FOUND;
    if (!reading_begin_in(tier, listed->partition, listed->incarnation, listed->hash, key, &reading))
        return;
    reading_now(tier, &reading, &buffers, &record);
    note_record(listed, &record);
    reading_end(&reading);
    read_buffers_release(&buffers);
}

static void look_up_some(struct tier *tier, struct tier_reader *reader, struct key_list *list, size_t first, struct look_up_read *reads, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct listed_key *listed = &list->keys[i];
        struct look_up_read *read = &reads[i - first];

        look_up_fetch_after(list, i);
        read->listed = listed;
        if (reading_begin_in(tier, listed->partition, listed->incarnation, listed->hash, key_list_key(list, i), &read->reading))
            reader_add(reader, &read->reading);
        else
            listed->status = STATUS_NOT_FOUND;
    }
    reader_finish(reader);
}

void look_up(struct tier *tier, struct tier_reader **reader, struct key_list *list)
{
    size_t room = list->count < KEYS_MAX ? list->count : KEYS_MAX;
    struct look_up_read *reads;

    if (room == 0)
        return;
    if (*reader == NULL)
        *reader = open_reader(tier);
    reads = mem_alloc(room * sizeof(*reads));
    for (size_t i = 0; i < list->count; i += room)
        look_up_some(tier, *reader, list, i, reads, list->count - i < room ? list->count - i : room);
    mem_free(reads);
}
