#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "check.h"
#include "compressibility.h"
#include "dictionary_files.h"
#include "expiries.h"
#include "keys.h"
#include "places.h"
#include "roots.h"
#include "segment_files.h"
#include "store/dictionaries.h"
#include "store/store_walk.h"
#include "store_files.h"
#include "tier/record.h"
#include "tier/tags.h"
#include "tier/tags_rebuild.h"

enum { STORE_KEY_PREFIX_SIZE = 12, NAMED_MAX = 1000, RUNS_NAMED = 20 };

/* A key that a damaged block of the index had: its tag and its record are there. */
struct found_again {
    uint32_t incarnation;
    uint64_t hash, place;
    int64_t expire_ms;              /* -1: never, or its entry in the index of expiries was added */
    uint64_t stamp;                 /* the order in which the records were written; those with equal ones are of one file, where */
    size_t number;                  /* they have this order */
    struct bytes key;               /* owned */
};

struct stores {
    struct check *check;
    const struct dataset_file *dataset;
    const struct tag_file *tags;
    char scratch[CHECK_PATH_SIZE];
    struct store *store;            /* the clone */
    struct store_salvage salvage;   /* of it */
    bool revives;                   /* without tags, each key of the segments that the index does not have is found again */
    struct key_seed seed;
    struct store_state *state;

    struct store_files files;
    struct checked_keys keys;       /* of the databases that exist */
    struct expiries expiries;
    struct roots roots;

    struct lost_tags lost;
    struct found_again *found;      /* keys that the index does not have */
    size_t found_count, found_capacity, found_next;

    uint64_t records, purgeable, unannounced, types[16];
    uint64_t named;                 /* keys without a good record whose names were looked up */
    uint64_t dead_bytes, damaged_runs;
    struct lacking lacking;
    struct compressibility *compressibility;        /* NULL: it was not asked for */
    char problem[80];               /* judge_record's */
    struct tags_builder *builder;   /* the tags of what is kept. NULL: nothing was rewritten */
    uint64_t kept, dropped;
};

/* The clone */

static bool clone_to(struct stores *stores, const char *scratch, struct message *message)
{
    struct tree_totals totals = { 0 };

    tree_remove(scratch);
    if (tree_clone(stores->files.dir, scratch, store_is_table, NULL, &totals, message) != STATUS_OK)
        return false;
    return true;
}

/* The meta data of an older version; what is damaged of it is left to store_open. */
static enum status import(struct stores *stores, struct message *message)
{
    enum status status = store_import(stores->scratch, message);

    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_CORRUPT)
        return status;
    check_damage(stores->check, "store", "%s", message->text);
    stores->state->damaged = true;
    return STATUS_OK;
}

/* Opens a clone next to the image, so that its files can be linked; on a read-only file system, a copy in the directory of temporary files. */
static bool open_clone(struct stores *stores)
{
    struct message message = { "" };
    const char *temporary = getenv("TMPDIR");
    struct store_options options = { .dir = stores->scratch, .block_cache_size = 8 << 20, .is_read_only = true, .salvage = &stores->salvage };
    enum status status = STATUS_IO;
    bool good;

    snprintf(stores->scratch, sizeof(stores->scratch), "%s/kelvin-check.scratch", stores->check->dir);
    good = clone_to(stores, stores->scratch, &message);
    if (!good && errno == EROFS) {
        snprintf(stores->scratch, sizeof(stores->scratch), "%s/kelvin-check.%d", temporary != NULL ? temporary : "/tmp", (int)getpid());
        good = clone_to(stores, stores->scratch, &message);
    }
    stores->salvage.has_seed = stores->dataset->has_seed;
    stores->seed = stores->dataset->seed;
    stores->salvage.seed = stores->seed.sip;
    stores->salvage.by_slot = stores->seed.by_slot;
    stores->salvage.number = stores->dataset->store_number;
    if (good)
        status = import(stores, &message);
    if (status == STATUS_OK)
        status = store_open(&options, &stores->store, &message);
    good = status == STATUS_OK;
    if (good && stores->salvage.is_needed) {
        check_damage(stores->check, "store", "it has lost its meta data or a key run");
        stores->state->damaged = true;
    }
    if (good) {
        stores->seed = (struct key_seed){ store_seed(stores->store), store_is_by_slot(stores->store) };
        stores->state->opened = true;
    } else if (status == STATUS_VERSION) {
        check_damage(stores->check, "store", "%s", message.text);
        check_newer(stores->check, "store");
    } else {
        check_damage(stores->check, "store", "it can't be opened: %s", message.text);
        stores->state->damaged = true;
    }
    return good;
}

/* The index */

/* Of a database, or of its pages. */
static bool was_used(const struct stores *stores, uint32_t incarnation)
{
    uint32_t of_database = incarnation & ~(uint32_t)INCARNATION_PAGES;

    return of_database > 0 && of_database <= stores->dataset->incarnation_last;
}

/* NULL, or what is wrong with a key of the index. */
static const char *judge_key(const struct stores *stores, const struct store_item *item)
{
    if (!was_used(stores, item->incarnation))
        return "its database never existed";
    return name_hash(&stores->seed, item->incarnation, item->key) == item->hash ? NULL : "its hash is not that of its key";
}

/* A record that is whole but needs a dictionary that can't be used. */
static const char *judge_dictionary(struct stores *stores, struct bytes bytes)
{
    uint32_t number = record_lacks_dictionary(bytes, store_dictionaries(stores->store));
    char name[DICTIONARY_NAME_SIZE];

    if (number == 0)
        return "its value is invalid";
    lacking_add(&stores->lacking, number);
    dictionary_name(number, name);
    snprintf(stores->problem, sizeof(stores->problem), "its dictionary, %s, is missing or damaged", name);
    return stores->problem;
}

static const char newer_record[] = "it was written by a newer Kelvin";

/* NULL, or what is wrong with a record. `expire_ms`: -1 or when it expires. */
static const char *judge_record(struct stores *stores, struct bytes bytes, int64_t *expire_ms, uint8_t *type)
{
    struct value_limits limits = { .hash_listpack_entries_max = SIZE_MAX, .hash_listpack_value_max = SIZE_MAX };
    struct buffer scratch = { 0 };
    struct record record;
    enum status status = record_decode(bytes, store_dictionaries(stores->store), &limits, &scratch, &record);

    *expire_ms = -1;
    if (status == STATUS_OK) {
        *expire_ms = record.expire_ms;
        *type = record.value.type & 15;
        if (value_is_object(&record.value))
            value_free(&record.value);
    }
    buffer_release(&scratch);
    if (status == STATUS_VERSION)
        return newer_record;
    return status == STATUS_OK ? NULL : judge_dictionary(stores, bytes);
}

static const char *judge_expiry(const struct stores *stores, const struct store_item *item)
{
    if (!was_used(stores, item->incarnation))
        return "an expiry of a database that never existed";
    if (item->expire_ms < 0)
        return "an expiry without a time";
    return name_hash(&stores->seed, item->incarnation, item->key) == item->hash ? NULL : "an expiry whose hash is not that of its key";
}

static void report_record(struct stores *stores, uint32_t incarnation, struct bytes key, const char *what)
{
    char text[CHECK_KEY_SIZE];
    uint64_t id;
    uint32_t number;

    if (incarnation_is_of_pages(incarnation) && page_name_parse(key, &id, &number))
        check_damage(stores->check, "record", "page %u of the value %012llx, database %d: %s", number, (unsigned long long)id,
            dataset_file_db_of(stores->dataset, incarnation), what);
    else
        check_damage(stores->check, "record", "key %s, database %d: %s", check_key(key, text),
            dataset_file_db_of(stores->dataset, incarnation), what);
    stores->state->damaged = true;
}

static void note_compressibility(struct stores *stores, const struct checked_key *key, struct bytes bytes)
{
    struct buffer scratch = { 0 };
    struct record record;
    struct bytes payload;

    if (record_split(bytes, store_dictionaries(stores->store), &scratch, &record, &payload) == STATUS_OK)
        compressibility_add(stores->compressibility, dataset_file_db_of(stores->dataset, key->incarnation), payload, bytes.size);
    buffer_release(&scratch);
}

/* The record of a key, wherever it was found. */
static void count_record(struct stores *stores, struct checked_key *key, struct bytes name, struct bytes record)
{
    int64_t expire_ms;
    uint8_t type = 0;
    const char *what = judge_record(stores, record, &expire_ms, &type);

    if (what == newer_record) {
        report_record(stores, key->incarnation, name, what);
        check_newer(stores->check, "record");
    } else if (what != NULL) {
        key->state |= KEY_IS_BAD;
        report_record(stores, key->incarnation, name, what);
    }
    if (what == NULL)
        roots_note(&stores->roots, key->incarnation, name, record);
    if (what == NULL && stores->compressibility != NULL)
        note_compressibility(stores, key, record);
    stores->types[type]++;
    if (expire_ms >= 0)
        expiries_expect(&stores->expiries, expire_ms, key->incarnation, key->hash);
}

static void on_record(struct stores *stores, const struct store_item *item)
{
    const char *what = judge_key(stores, item);

    if (what != NULL) {             /* its tag is another key's */
        report_record(stores, item->incarnation, item->key, what);
        return;
    }
    if (dataset_file_db_of(stores->dataset, item->incarnation) < 0) {
        stores->purgeable++;
        return;
    }
    stores->records++;
    (void)keys_add(&stores->keys, item->incarnation, item->hash, item->key);
}

static void on_expiry(struct stores *stores, const struct store_item *item)
{
    char key[CHECK_KEY_SIZE];
    const char *what = judge_expiry(stores, item);

    if (what != NULL) {
        check_damage(stores->check, "expiry", "key %s: %s", check_key(item->key, key), what);
        stores->state->damaged = true;
        return;
    }
    expiries_announce(&stores->expiries, item->expire_ms, item->incarnation, item->hash);
}

static bool on_item(void *context, const struct store_item *item)
{
    struct stores *stores = context;
    char key[CHECK_KEY_SIZE];

    switch (item->kind) {
    case STORE_RECORD:
        on_record(stores, item);
        check_progress(stores->check, stores->records);
        break;
    case STORE_EXPIRY: on_expiry(stores, item); break;
    case STORE_STRANGE:
        check_damage(stores->check, "store", "a key that Kelvin never writes: %s", check_key(item->key, key));
        stores->state->damaged = true;
        break;
    }
    return true;
}

/* Where the records are */

/* A key without a good record. Its name is in the index. */
static void report_lost(struct stores *stores, struct checked_key *key, const char *what)
{
    struct store_iterator *iterator;
    struct store_record record;

    key->state |= KEY_IS_BAD;
    stores->state->damaged = true;
    if (stores->named++ >= NAMED_MAX) {
        check_damage(stores->check, "record", "a key of database %d: %s", dataset_file_db_of(stores->dataset, key->incarnation), what);
        return;
    }
    iterator = store_scan(stores->store, key->incarnation, key->hash);
    while (store_next(iterator, &record) == STATUS_OK && record.hash == key->hash) {
        if (keys_is(key, key->incarnation, record.hash, record.key))
            report_record(stores, key->incarnation, record.key, what);
    }
    store_scan_close(iterator);
}

static void compare_tags(struct stores *stores)
{
    struct tags_file tags = { .bytes = stores->tags->file.bytes, .dir = stores->tags->image };
    uint64_t before = stores->check->damages;

    places_from_tags(&stores->keys, stores->dataset, &tags, &stores->seed, &stores->lost);
    for (size_t i = 0; i < stores->keys.count; i++)
        stores->unannounced += (stores->keys.list[i].state & KEY_HAS_TAG) == 0;
    if (stores->lost.count > 0)
        check_damage(stores->check, "tags", "%llu tags are of keys that are not in the store", (unsigned long long)stores->lost.count);
    if (stores->unannounced > 0)
        check_damage(stores->check, "tags", "%llu records in the store have no tag: no lookup would find them",
            (unsigned long long)stores->unannounced);
    stores->state->tags_differ = stores->check->damages != before;
    check_part(stores->check, "map", before, "tags against records, by database and partition");
}

/* NULL, or why the record of a key can't be read, as far as is known before the segments are read. */
static const char *judge_place(const struct checked_key *key)
{
    if (key->place != 0 && (key->state & KEY_IS_BAD) == 0)
        return NULL;
    if ((key->state & KEY_HAS_TAG) != 0)
        return "its tag has no place";
    return key->place == 0 ? "its record is in no segment" : "its newest record may have been in damaged bytes of a segment";
}

/* Keys without a tag are searched for. */
static void find_places(struct stores *stores)
{
    bool must_search = false;

    for (size_t i = 0; i < stores->keys.count; i++)
        must_search = must_search || (stores->keys.list[i].state & KEY_HAS_TAG) == 0;
    if (must_search)
        places_search(stores->check, stores->files.dir, &stores->keys, &stores->seed);
    for (size_t i = 0; i < stores->keys.count; i++) {
        const char *what = judge_place(&stores->keys.list[i]);

        if (what != NULL)
            report_lost(stores, &stores->keys.list[i], what);
    }
}

/* The segments */

static void on_damaged_bytes(struct stores *stores, const struct segment_piece *piece)
{
    if (stores->damaged_runs++ >= RUNS_NAMED)
        return;
    if (piece->slot == SEGMENT_HEADLESS)
        check_note(stores->check, "%s: its head is invalid, so no record of it can be read", piece->name);
    else
        check_note(stores->check, "%s, offset %llu: %llu bytes are damaged", piece->name, (unsigned long long)piece->offset,
            (unsigned long long)piece->size);
}

static void note_again(struct stores *stores, const struct segment_piece *piece, uint64_t hash, uint64_t place)
{
    const struct segment_record *record = piece->record;
    struct found_again *found;
    int64_t expire_ms;
    uint8_t type;

    if (judge_record(stores, record->value, &expire_ms, &type) != NULL)
        return;
    if (stores->found_count == stores->found_capacity) {
        stores->found_capacity = stores->found_capacity * 2 + 64;
        stores->found = mem_realloc(stores->found, stores->found_capacity * sizeof(stores->found[0]));
    }
    found = &stores->found[stores->found_count++];
    *found = (struct found_again){ record->incarnation, hash, place, expire_ms, piece->stamp, stores->found_count,
        bytes_of(mem_string(record->key), record->key.size) };
}

/* A record is live if it is the one at the place of its key. */
static void on_piece(void *context, const struct segment_piece *piece)
{
    struct stores *stores = context;
    const struct segment_record *record = piece->record;
    uint64_t hash, place;

    if (record == NULL) {
        on_damaged_bytes(stores, piece);
        return;
    }
    hash = name_hash(&stores->seed, record->incarnation, record->key);
    place = place_make(piece->slot, piece->offset, record->kind, piece->size);
    for (size_t i = keys_from_place(&stores->keys, place); i < stores->keys.count && stores->keys.list[i].place == place; i++) {
        struct checked_key *key = &stores->keys.list[i];

        if ((key->state & KEY_IS_FOUND) == 0 && keys_is(key, record->incarnation, hash, record->key)) {
            key->state |= KEY_IS_FOUND;
            count_record(stores, key, record->key, record->value);
            return;
        }
    }
    if (stores->revives && dataset_file_db_of(stores->dataset, record->incarnation) >= 0)
        note_again(stores, piece, hash, place);
    else if (lost_tags_has(&stores->lost, place, record->incarnation, hash, stores->dataset->partition_count))
        note_again(stores, piece, hash, place);
    else
        stores->dead_bytes += piece->size;
}

static int compare_found(const void *a, const void *b)
{
    const struct found_again *first = a, *second = b;
    int order;

    if (first->incarnation != second->incarnation)
        return first->incarnation < second->incarnation ? -1 : 1;
    if (first->hash != second->hash)
        return first->hash < second->hash ? -1 : 1;
    order = bytes_compare(first->key, second->key);
    if (order != 0)
        return order;
    if (first->stamp != second->stamp)
        return first->stamp < second->stamp ? -1 : 1;
    return first->number < second->number ? -1 : first->number > second->number;
}

/* Of each key the record that was written last is kept, and none if the index has the key. The keys are in the order of hashes. */
static void settle_found(struct stores *stores)
{
    size_t kept = 0;

    if (stores->found_count > 0)
        qsort(stores->found, stores->found_count, sizeof(stores->found[0]), compare_found);
    for (size_t i = 0; stores->revives && i < stores->found_count; i++) {
        struct found_again *found = &stores->found[i], *next = i + 1 < stores->found_count ? found + 1 : NULL;
        bool is_outdated = next != NULL && next->incarnation == found->incarnation && next->hash == found->hash && bytes_equal(next->key, found->key);

        if (is_outdated || keys_find(&stores->keys, found->incarnation, found->hash, found->key) != NULL)
            mem_free((void *)found->key.data);
        else
            stores->found[kept++] = *found;
    }
    if (stores->revives)
        stores->found_count = kept;
}

static void report_not_found(struct stores *stores)
{
    for (size_t i = 0; i < stores->keys.count; i++) {
        struct checked_key *key = &stores->keys.list[i];
        char what[120];

        if (key->place == 0 || (key->state & (KEY_IS_FOUND | KEY_IS_BAD)) != 0)
            continue;
        snprintf(what, sizeof(what), "its record in a segment (slot %u, offset %llu) is damaged or missing", (unsigned)place_slot(key->place),
            (unsigned long long)place_unit(key->place) * SEGMENT_UNIT);
        report_lost(stores, key, what);
    }
}

static void check_segments(struct stores *stores)
{
    uint64_t before = stores->check->damages;
    struct segment_counts counts = { 0 };

    keys_sort_by_place(&stores->keys);
    segment_files_walk(stores->check, stores->files.dir, on_piece, stores, &counts);
    keys_sort_by_hash(&stores->keys);
    settle_found(stores);
    if (stores->damaged_runs > RUNS_NAMED)
        check_note(stores->check, "%llu runs of bytes in segments are damaged, %llu bytes", (unsigned long long)stores->damaged_runs,
            (unsigned long long)counts.damaged_bytes);
    report_not_found(stores);
    dictionary_files_report(stores->check, stores->files.dir, &stores->lacking);
    check_part(stores->check, "segments", before, "%llu files, %llu records; %llu bytes, %llu of them dead", (unsigned long long)counts.files,
        (unsigned long long)counts.records, (unsigned long long)counts.bytes, (unsigned long long)stores->dead_bytes);
}

/* All of it */

static void read_index(struct stores *stores)
{
    enum status status;

    check_progress_begin(stores->check, "index", PROGRESS_COUNT, stores->tags->record_count);
    status = store_walk(stores->store, on_item, stores);

    if (status != STATUS_OK) {
        check_damage(stores->check, "store", "not all of it can be read (%s)", status_name(status));
        stores->state->damaged = true;
    }
    if (store_number(stores->store) != stores->dataset->store_number) {
        check_damage(stores->check, "store", "its last batch is %llu instead of %llu: it has changed since the image was made",
            (unsigned long long)store_number(stores->store), (unsigned long long)stores->dataset->store_number);
        stores->state->damaged = true;
    }
}

static void note_lacking(void *context, uint32_t incarnation, struct bytes key, uint32_t missing, uint32_t pages)
{
    struct stores *stores = context;
    char text[CHECK_KEY_SIZE];

    check_note(stores->check, "key %s, database %d: %u of its %u pages are damaged or missing, and so are the elements in them", check_key(key, text),
        dataset_file_db_of(stores->dataset, incarnation), missing, pages);
}

static void check_records_of_store(struct stores *stores)
{
    uint64_t before = stores->check->damages, silent, stale;

    read_index(stores);
    check_part(stores->check, "index", before, "%llu keys, %llu to be purged", (unsigned long long)stores->records,
        (unsigned long long)stores->purgeable);
    if (stores->tags->good)
        compare_tags(stores);
    before = stores->check->damages;
    find_places(stores);
    check_segments(stores);
    roots_compare(&stores->roots, note_lacking, stores);
    expiries_compare(&stores->expiries, &silent, &stale);
    if (silent > 0)
        check_note(stores->check, "%llu keys have no entry in the index of expiries: they expire only when a client accesses them",
            (unsigned long long)silent);
    check_part(stores->check, "records", before, "%llu keys (%llu strings, %llu others), %llu expiries (%llu outdated)",
        (unsigned long long)stores->records, (unsigned long long)stores->types[VALUE_STRING],
        (unsigned long long)(stores->records - stores->types[VALUE_STRING]), (unsigned long long)expiries_count(&stores->expiries),
        (unsigned long long)stale);
    if (stores->compressibility != NULL)
        compressibility_report(stores->compressibility, stores->check);
}

struct stores *stores_open(struct check *check, const char *image, const struct dataset_file *dataset, const struct tag_file *tags)
{
    struct stores *stores = mem_zalloc(sizeof(*stores));

    stores->check = check;
    stores->dataset = dataset;
    stores->tags = tags;
    if (check->compressibility)
        stores->compressibility = compressibility_create();
    store_files_init(&stores->files, check, image, dataset);
    return stores;
}

void stores_check(struct stores *stores, struct store_state *state)
{
    uint64_t before = stores->check->damages;

    stores->state = state;
    stores->revives = stores->check->revive && !stores->tags->good;
    store_files_check(&stores->files);
    state->damaged = stores->files.damaged;
    if (dictionary_files_check(stores->check, stores->files.dir))
        state->damaged = true;
    if (!open_clone(stores)) {
        check_part(stores->check, "records", before, "none can be read");
        if (!stores->check->newer)
            check_unrepaired(stores->check, "the store: not even an empty one can be made in its place. Restore a backup");
        return;
    }
    check_records_of_store(stores);
}

static void make_raw_key(const struct store_item *item, struct buffer *raw)
{
    uint32_t incarnation = __builtin_bswap32(item->incarnation);
    uint64_t hash = __builtin_bswap64(item->hash);

    raw->size = 0;
    buffer_append(raw, &incarnation, 4);
    buffer_append(raw, &hash, 8);
    buffer_append_bytes(raw, item->key);
}

/* Whether changes are missing, it is not known of which keys. What tags and segments have is right nevertheless. */
static bool has_lost_batches(const struct stores *stores)
{
    return stores->salvage.is_needed || store_number(stores->store) != stores->dataset->store_number;
}

/* NULL, or why the record of a key is not kept. */
static const char *why_drop_record(struct stores *stores, const struct store_item *item)
{
    const struct checked_key *key = keys_find(&stores->keys, item->incarnation, item->hash, item->key);
    const char *what = judge_key(stores, item);
    struct buffer raw = { 0 };

    if (what == NULL && key != NULL && (key->state & KEY_IS_BAD) != 0)
        what = "its record is damaged, missing or perhaps outdated";
    if (what == NULL && key != NULL && stores->tags->good && (key->state & KEY_HAS_TAG) == 0)
        what = "it had been deleted, or its deletion was in a damaged block";
    if (what != NULL || (key != NULL && (key->state & (KEY_HAS_TAG | KEY_IS_FOUND)) == (KEY_HAS_TAG | KEY_IS_FOUND)))
        return what;                /* what its tag points to is its newest record */
    make_raw_key(item, &raw);
    if (!stores->check->revive && store_files_may_have_lost(&stores->files, buffer_bytes(&raw)))
        what = "its newest value may have been in a damaged block";
    buffer_release(&raw);
    return what;
}

static const char *why_drop(struct stores *stores, const struct store_item *item)
{
    if (item->kind == STORE_STRANGE)
        return "a key that Kelvin never writes";
    return item->kind == STORE_EXPIRY ? judge_expiry(stores, item) : why_drop_record(stores, item);
}

static void add_tag(struct stores *stores, const struct store_item *item)
{
    const struct checked_key *key = keys_find(&stores->keys, item->incarnation, item->hash, item->key);

    if (key != NULL)
        tags_builder_add(stores->builder, item->incarnation, item->hash, item->key, key->place);
}

static bool keep_item(void *context, const struct store_item *item)
{
    struct stores *stores = context;
    char key[CHECK_KEY_SIZE];
    const char *what = why_drop(stores, item);

    if (what == NULL) {
        stores->kept += item->kind == STORE_RECORD;
        if (item->kind == STORE_RECORD)
            add_tag(stores, item);
        return true;
    }
    if (stores->dropped++ < NAMED_MAX && item->kind == STORE_RECORD)
        printf("  + dropped: key %s of database %d: %s\n", check_key(item->key, key),
            dataset_file_db_of(stores->dataset, item->incarnation), what);
    return false;
}

/* Adds what was found again: the key, then its expiry. */
static bool add_found(void *context, struct store_item *item)
{
    struct stores *stores = context;
    struct found_again *found = &stores->found[stores->found_next];

    if (stores->found_next == stores->found_count)
        return false;
    *item = (struct store_item){ .incarnation = found->incarnation, .hash = found->hash, .key = found->key };
    if (found->expire_ms >= 0) {
        item->kind = STORE_EXPIRY;
        item->expire_ms = found->expire_ms;
        found->expire_ms = -1;
        return true;
    }
    item->kind = STORE_RECORD;
    tags_builder_add(stores->builder, found->incarnation, found->hash, found->key, found->place);
    stores->found_next++;
    return true;
}

static void begin_tags(struct stores *stores)
{
    tags_builder_destroy(stores->builder);
    stores->builder = tags_builder_create(stores->dataset->partition_count, stores->seed.by_slot);
}

bool stores_rewrite(struct stores *stores, const char *to)
{
    struct message message = { "" };

    if (has_lost_batches(stores) && !stores->tags->good && !stores->check->revive) {
        check_unrepaired(stores->check, "the index has lost keys, and the tags are damaged or missing, too. --repair --revive-deleted brings back "
            "all keys that have a record in a segment, also deleted ones, and perhaps older values; or restore a backup");
        return false;
    }
    stores->kept = stores->dropped = 0;
    begin_tags(stores);
    stores->found_next = 0;
    if (store_rewrite(stores->store, to, stores->dataset->store_number, keep_item, add_found, stores, &message) != STATUS_OK ||
        !segment_files_link(stores->files.dir, to, &message) || !dictionary_files_link(stores->files.dir, to, &message)) {
        check_unrepaired(stores->check, "%s", message.text);
        return false;
    }
    check_repaired(stores->check, "%llu records are kept, %llu dropped; %s%llu more are lost in damaged blocks, and so are their names",
        (unsigned long long)(stores->kept + stores->found_count), (unsigned long long)stores->dropped, stores->tags->good ? "" : "at least ",
        (unsigned long long)(stores->tags->good ? stores->lost.count - stores->found_count : 0));
    if (stores->found_count > 0 && stores->revives)
        check_note(stores->check, "%llu of the keys that are kept are not in the index: some of them may have been deleted, or may have had a newer value",
            (unsigned long long)stores->found_count);
    else if (stores->found_count > 0)
        check_note(stores->check, "%llu of the keys that are kept are not in the index: tags and segments have them",
            (unsigned long long)stores->found_count);
    return true;
}

static bool tag_item(void *context, const struct store_item *item)
{
    if (item->kind == STORE_RECORD)
        add_tag(context, item);
    return true;
}

bool stores_write_tags(struct stores *stores, const char *path, struct message *message)
{
    struct buffer text = { 0 };
    enum status status = STATUS_OK;

    if (stores->builder == NULL) {
        begin_tags(stores);
        status = store_walk(stores->store, tag_item, stores);
    }
    if (status != STATUS_OK) {
        message_set(message, "the store can't be read (%s)", status_name(status));
        return false;
    }
    tags_builder_print(stores->builder, &text);
    status = tree_write_file(path, buffer_bytes(&text), message);
    buffer_release(&text);
    return status == STATUS_OK;
}

void stores_close(struct stores *stores)
{
    store_close(stores->store);
    if (stores->scratch[0] != '\0')
        tree_remove(stores->scratch);
    compressibility_destroy(stores->compressibility);
    store_files_release(&stores->files);
    tags_builder_destroy(stores->builder);
    keys_release(&stores->keys);
    lost_tags_release(&stores->lost);
    for (size_t i = 0; i < stores->found_count; i++)
        mem_free((void *)stores->found[i].key.data);
    mem_free(stores->found);
    expiries_release(&stores->expiries);
    roots_release(&stores->roots);
    mem_free(stores);
}
