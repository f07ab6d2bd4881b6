#include "tier/damage.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/tier_private.h"

void damage_init(struct damage *damage)
{
    mutex_init(&damage->lock);
}

void damage_release(struct damage *damage)
{
    mutex_release(&damage->lock);
    mem_free(damage->records);
}

void damage_forget(struct damage *damage)
{
    mutex_lock(&damage->lock);
    damage->count = 0;
    damage->base_sequence = 0;
    mutex_unlock(&damage->lock);
}

void damage_set_base(struct damage *damage, uint64_t sequence)
{
    mutex_lock(&damage->lock);
    damage->base_sequence = sequence;
    mutex_unlock(&damage->lock);
}

uint64_t damage_base(struct damage *damage)
{
    uint64_t sequence;

    mutex_lock(&damage->lock);
    sequence = damage->base_sequence;
    mutex_unlock(&damage->lock);
    return sequence;
}

/* --- the sentence --- */

void damage_key(struct buffer *text, uint32_t incarnation, struct bytes key)
{
    bool is_long = key.size > DAMAGE_KEY_SHOWN;
    uint64_t id;
    uint32_t number;

    buffer_append_format(text, "'");
    for (size_t i = 0; i < key.size && i < DAMAGE_KEY_SHOWN; i++) {
        unsigned char byte = (unsigned char)key.data[i];

        if (byte < ' ' || byte >= 0x7f || byte == '\'' || byte == '\\')
            buffer_append_format(text, "\\x%02x", byte);
        else
            buffer_append(text, &byte, 1);
    }
    buffer_append_format(text, is_long ? "...'" : "'");
    if (incarnation_is_of_pages(incarnation) && page_name_parse(key, &id, &number))
        buffer_append_format(text, " (page %u of the value %012llx)", number, (unsigned long long)id);
}

static bool is_missing(const struct segment *segment)
{
    return segment == NULL || segment_is_lost(segment);
}

void damage_text(struct message *message, struct bytes keys, const char *what, const struct segment *segment, uint64_t place)
{
    message_set(message, "the record of the key %.*s can't be read: %s", (int)keys.size, keys.data, what);
    if (is_missing(segment))
        message_append(message, " (slot %u, offset %llu)", (unsigned)place_slot(place), (unsigned long long)place_offset(place));
    else
        message_append(message, " (%08llu.seg, offset %llu)", (unsigned long long)segment_sequence(segment), (unsigned long long)place_offset(place));
}

static const char *what_is_wrong(const struct failed_read *read, enum status status, char *what, size_t size)
{
    char name[DICTIONARY_NAME_SIZE];

    if (is_missing(read->segment))
        return "its segment is missing";
    if (read->dictionary != 0) {
        dictionary_name(read->dictionary, name);
        snprintf(what, size, "the file %s of the store, its dictionary, is missing or damaged", name);
        return what;
    }
    switch (status) {
    case STATUS_CORRUPT:
    case STATUS_TRUNCATED: return "it is damaged";
    case STATUS_VERSION: return "it was written by a newer Kelvin";
    case STATUS_IO: return "the disk reports an error";
    default: return status_name(status);
    }
}

/* The first key of the index with this hash: there is hardly ever a second one. */
static void append_indexed_key(struct tier *tier, uint32_t incarnation, uint64_t hash, struct buffer *text)
{
    struct store_iterator *iterator = store_scan(tier->store, incarnation, hash);
    struct store_record record;

    if (store_next(iterator, &record) == STATUS_OK && record.hash == hash)
        damage_key(text, incarnation, record.key);
    else
        buffer_append_bytes(text, BYTES("that is not in the index"));
    store_scan_close(iterator);
}

/* --- what is logged --- */

bool damage_lines_take(struct damage_lines *lines, int64_t now_ms, uint64_t *hidden)
{
    if (lines->full_ms < now_ms)
        lines->full_ms = now_ms;
    if (lines->full_ms - now_ms > (int64_t)(DAMAGE_LINES - 1) * DAMAGE_LINE_MS) {
        lines->hidden++;
        return false;
    }
    lines->full_ms += DAMAGE_LINE_MS;
    *hidden = lines->hidden;
    lines->hidden = 0;
    return true;
}

/* The index, or `count` if it is not there. */
static size_t find_record(const struct damage *damage, const struct damaged_record *record) REQUIRES(damage->lock);
static size_t find_record(const struct damage *damage, const struct damaged_record *record)
{
    size_t i = 0;

    for (; i < damage->count; i++) {
        const struct damaged_record *known = &damage->records[i];

        if (known->hash == record->hash && known->place == record->place && known->incarnation == record->incarnation &&
            known->sequence == record->sequence)
            break;
    }
    return i;
}

/* Remembers a damaged record, as long as there is room. Returns whether it is new. */
static bool is_new(struct damage *damage, const struct failed_read *read, enum status status) REQUIRES(damage->lock);
static bool is_new(struct damage *damage, const struct failed_read *read, enum status status)
{
    struct damaged_record record = { read->hash, read->place, read->segment != NULL ? segment_sequence(read->segment) : 0, read->incarnation };

    if (status == STATUS_IO)
        return true;
    if (find_record(damage, &record) < damage->count)
        return false;
    if (damage->records == NULL)
        damage->records = mem_alloc(DAMAGE_RECORDS_MAX * sizeof(record));
    if (damage->count < DAMAGE_RECORDS_MAX)
        damage->records[damage->count++] = record;
    return true;
}

static void log_text(struct tier *tier, const char *text, uint64_t hidden)
{
    struct message line;

    message_set(&line, "A cold key can't be loaded: %s", text);
    tier->hooks.log(tier->hooks.context, line.text);
    if (hidden == 0)
        return;
    message_set(&line, "%llu more reads of cold keys have failed since the last such line", (unsigned long long)hidden);
    tier->hooks.log(tier->hooks.context, line.text);
}

static void note_read(struct tier *tier, const struct failed_read *read, enum status status)
{
    struct damage *damage = &tier->damage;
    struct buffer keys = { 0 };
    struct message text;
    char what[100];
    uint64_t hidden = 0;
    bool is_logged;

    if (read->key.data != NULL)
        damage_key(&keys, read->incarnation, read->key);
    else
        append_indexed_key(tier, read->incarnation, read->hash, &keys);
    damage_text(&text, buffer_bytes(&keys), what_is_wrong(read, status, what, sizeof(what)), read->segment, read->place);
    buffer_release(&keys);
    tier_note_message(tier, text.text);
    mutex_lock(&damage->lock);
    is_logged = is_new(damage, read, status) && damage_lines_take(&damage->lines, clock_mono_us() / 1000, &hidden);
    mutex_unlock(&damage->lock);
    if (is_logged)
        log_text(tier, text.text, hidden);
}

void damage_note(struct tier *tier, const struct failed_read *read, enum status status)
{
    struct failed_read missing = *read;

    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        return;
    if (read->segment != NULL && segment_is_lost(read->segment))
        missing.segment = NULL;
    note_read(tier, &missing, status);
}

/* --- bytes without a record --- */

/* Whether the key has its record there. */
static bool has_record_at(struct tier *tier, const struct segment_record *head, const struct segment *segment, uint64_t offset, struct failed_read *read)
{
    uint64_t hash = name_hash(&tier->partitions->seed, head->incarnation, head->key);
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, hash)];
    struct keyspace *keyspace;
    uint64_t place = 0;
    bool is_there = false;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, head->incarnation);
    if (keyspace != NULL && keyspace->tier != NULL)
        is_there = recordmap_find(keyspace->tier->map, hash, head->key, &place) && place_slot(place) == segment_slot(segment) &&
                   place_offset(place) == offset;
    partition_unlock(partition);
    if (is_there)
        *read = (struct failed_read){ .incarnation = head->incarnation, .hash = hash, .place = place, .segment = segment };
    return is_there;
}

/* The damaged part of the record may be its key, or another one. */
bool damage_note_bytes(struct tier *tier, struct segment *segment, uint64_t offset, struct bytes data)
{
    struct segment_record head;
    struct failed_read read;

    if (!segment_record_guess(data, &head) || !has_record_at(tier, &head, segment, offset, &read))
        return false;
    damage_note(tier, &read, STATUS_CORRUPT);
    return true;
}

/* --- what there is --- */

static bool is_live(struct tier *tier, const struct damaged_record *record)
{
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, record->hash)];
    struct keyspace *keyspace;
    bool is_live = false;

    partition_lock(partition);
    keyspace = tier_keyspace_of(partition, record->incarnation);
    if (keyspace != NULL && keyspace->tier != NULL)
        is_live = recordmap_has_place(keyspace->tier->map, record->hash, record->place);
    partition_unlock(partition);
    return is_live;
}

static size_t copy_records(struct damage *damage, struct damaged_record **records, uint64_t *base)
{
    size_t count;

    mutex_lock(&damage->lock);
    *base = damage->base_sequence;
    count = damage->count;
    *records = count > 0 ? mem_alloc(count * sizeof(**records)) : NULL;
    if (count > 0)
        memcpy(*records, damage->records, count * sizeof(**records));
    mutex_unlock(&damage->lock);
    return count;
}

static void forget_record(struct damage *damage, const struct damaged_record *record)
{
    size_t at;

    mutex_lock(&damage->lock);
    at = find_record(damage, record);
    if (at < damage->count)
        damage->records[at] = damage->records[--damage->count];
    mutex_unlock(&damage->lock);
}

void damage_count(struct tier *tier, uint64_t *count, uint64_t *newer)
{
    struct damage *damage = &tier->damage;
    struct damaged_record *records;
    uint64_t base;
    size_t all = copy_records(damage, &records, &base);

    *count = *newer = 0;
    for (size_t i = 0; i < all; i++) {
        if (!is_live(tier, &records[i])) {
            forget_record(damage, &records[i]);
            continue;
        }
        ++*count;
        *newer += records[i].sequence >= base;
    }
    mem_free(records);
}
