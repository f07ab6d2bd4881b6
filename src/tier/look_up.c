#include "tier/look_up.h"

#include "tier/reader.h"
#include "tier/tier_private.h"

enum { READS_MAX = 128 };

struct look_up_read {
    struct reading reading;             /* first: the reader returns it */
    struct listed_key *listed;
};

static void note_record(struct listed_key *listed, const struct read_record *read)
{
    listed->status = read->status;
    listed->expire_ms = -1;
    if (listed->status == STATUS_OK)
        listed->status = record_peek_times(read->bytes, &listed->gone_ms, &listed->expire_ms);
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

static size_t look_up_some(struct tier *tier, struct tier_reader *reader, struct key_list *list, size_t first)
{
    struct look_up_read reads[READS_MAX];
    size_t end = list->count - first < READS_MAX ? list->count : first + READS_MAX;

    for (size_t i = first; i < end; i++) {
        struct listed_key *listed = &list->keys[i];
        struct look_up_read *read = &reads[i - first];

        read->listed = listed;
        if (reading_begin_in(tier, listed->partition, listed->incarnation, listed->hash, key_list_key(list, i), &read->reading))
            reader_add(reader, &read->reading);
        else
            listed->status = STATUS_NOT_FOUND;
    }
    reader_finish(reader);
    return end;
}

void look_up(struct tier *tier, struct tier_reader **reader, struct key_list *list)
{
    if (list->count > 0 && *reader == NULL)
        *reader = open_reader(tier);
    for (size_t i = 0; i < list->count; )
        i = look_up_some(tier, *reader, list, i);
}
