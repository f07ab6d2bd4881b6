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
#include "store/store_walk.h"
#include "store_files.h"
#include "tier/record.h"
#include "tier/recordmap.h"
#include "tier/tags.h"

enum { EXTRA_MAX = 1 << 20, STORE_KEY_PREFIX_SIZE = 12, NAMED_MAX = 1000 };

struct section {
    uint32_t incarnation, partition;
    struct tags_section tags;
    bool met;
};

/* The tags of the records of a database in a partition, for a new file. */
struct group {
    uint32_t incarnation, partition;
    uint64_t count;
    struct recordmap_record *records;
};

struct extra {
    uint32_t incarnation, partition;
    uint64_t tag;
};

struct stores {
    struct check *check;
    const struct dataset_file *dataset;
    const struct tag_file *tags;
    char scratch[CHECK_PATH_SIZE];
    struct store *store;            /* the clone */
    struct hash_seed seed;
    struct store_state *state;

    struct store_files files;

    struct section *sections;       /* sorted by incarnation and partition */
    size_t section_count;
    struct extra *extras;           /* records without a tag, in the same order */
    size_t extra_count;

    /* The walk through the store. */
    uint32_t incarnation, partition;
    bool in_group, comparing;       /* `comparing`: with the existing tags, in the first walk */
    struct group *groups;           /* of the last walk */
    size_t group_count, group_capacity;
    uint64_t *found;                /* tags of the group's records */
    size_t found_count, found_capacity;
    uint64_t *expiring;             /* fingerprints of records that expire; sorted once the expiry keys begin */
    bool *announced;
    size_t expiring_count, expiring_capacity;
    bool expiring_sorted;
    uint64_t records, purgeable, expiries, stale_expiries, missing, unannounced, types[16];
    uint64_t kept, dropped;
};

/* The clone */

static bool clone_to(struct stores *stores, const char *scratch, struct message *message)
{
    struct tree_totals totals = { 0 };
    char current[CHECK_PATH_SIZE + 16], text[80];

    tree_remove(scratch);
    if (tree_clone(stores->files.dir, scratch, store_is_table, NULL, &totals, message) != STATUS_OK)
        return false;
    if (!stores->files.current_is_bad || stores->files.manifest[0] == '\0')
        return true;
    snprintf(current, sizeof(current), "%s/CURRENT", scratch);
    snprintf(text, sizeof(text), "%.60s\n", stores->files.manifest);
    unlink(current);
    return tree_write_file(current, bytes_of_string(text), message) == STATUS_OK;
}

/* Opens a clone next to the image, so that tables can be linked; on a read-only file system, a copy in the directory of temporary files. */
static bool open_clone(struct stores *stores)
{
    struct message message = { "" };
    const char *temporary = getenv("TMPDIR");
    struct store_options options = { .dir = stores->scratch, .block_cache_size = 8 << 20 };
    bool good;

    snprintf(stores->scratch, sizeof(stores->scratch), "%s/kelvin-check.scratch", stores->check->dir);
    good = clone_to(stores, stores->scratch, &message);
    if (!good && errno == EROFS) {
        snprintf(stores->scratch, sizeof(stores->scratch), "%s/kelvin-check.%d", temporary != NULL ? temporary : "/tmp", (int)getpid());
        good = clone_to(stores, stores->scratch, &message);
    }
    good = good && store_open(&options, &stores->store, &message) == STATUS_OK;
    if (good) {
        stores->seed = store_seed(stores->store);
        stores->state->opened = true;
    } else {
        check_damage(stores->check, "store", "it can't be opened: %s", message.text);
        stores->state->damaged = true;
    }
    return good;
}

/* The records, compared with the tags */

static int compare_places(const void *a, const void *b)
{
    const struct section *first = a, *second = b;

    if (first->incarnation != second->incarnation)
        return first->incarnation < second->incarnation ? -1 : 1;
    return first->partition < second->partition ? -1 : first->partition > second->partition;
}

static bool add_section(void *context, const struct tags_section *section)
{
    struct stores *stores = context;

    stores->sections = mem_realloc(stores->sections, (stores->section_count + 1) * sizeof(stores->sections[0]));
    stores->sections[stores->section_count++] = (struct section){ section->incarnation, section->partition, *section, false };
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

static void add_extra(struct stores *stores, uint64_t tag)
{
    stores->unannounced++;
    if (stores->extra_count >= EXTRA_MAX)
        return;
    if ((stores->extra_count & (stores->extra_count - 1)) == 0)
        stores->extras = mem_realloc(stores->extras, (stores->extra_count * 2 + 1) * sizeof(stores->extras[0]));
    stores->extras[stores->extra_count++] = (struct extra){ stores->incarnation, stores->partition, tag };
}

static void keep_group(struct stores *stores)
{
    struct recordmap_record *records = mem_zalloc(stores->found_count * sizeof(records[0]));

    for (size_t i = 0; i < stores->found_count; i++) {
        records[i].tag = stores->found[i];
        records[i].is_twin = i > 0 && stores->found[i] == stores->found[i - 1];
    }
    if (stores->group_count == stores->group_capacity) {
        stores->group_capacity = stores->group_capacity * 2 + 64;
        stores->groups = mem_realloc(stores->groups, stores->group_capacity * sizeof(stores->groups[0]));
    }
    stores->groups[stores->group_count++] = (struct group){ stores->incarnation, stores->partition, stores->found_count, records };
}

static void drop_groups(struct stores *stores)
{
    for (size_t i = 0; i < stores->group_count; i++)
        mem_free(stores->groups[i].records);
    stores->group_count = 0;
}

static void compare_group(struct stores *stores)
{
    struct section wanted = { stores->incarnation, stores->partition, { 0 }, false }, *section = NULL;
    struct tags_reader reader;
    struct recordmap_record record;
    size_t found = 0;
    bool more;

    if (stores->section_count > 0)
        section = bsearch(&wanted, stores->sections, stores->section_count, sizeof(wanted), compare_places);
    if (section != NULL)
        section->met = true;
    else
        section = &wanted;
    tags_reader_init(&reader, &section->tags);
    more = tags_read(&reader, &record);
    while (more || found < stores->found_count) {
        uint64_t tag = more ? record.tag : UINT64_MAX;
        uint64_t there = found < stores->found_count ? stores->found[found] : UINT64_MAX;

        if (tag < there)
            stores->missing++;
        else if (there < tag)
            add_extra(stores, there);
        found += there <= tag;
        if (tag <= there)
            more = tags_read(&reader, &record);
    }
}

/* All records of a database in a partition were found: the tags have to be exactly theirs. */
static void end_group(struct stores *stores)
{
    if (!stores->in_group)
        return;
    stores->in_group = false;
    qsort(stores->found, stores->found_count, sizeof(stores->found[0]), compare_numbers);
    if (stores->comparing && stores->tags->good)
        compare_group(stores);
    if (stores->check->repair)
        keep_group(stores);
}

static uint32_t partition_of(const struct stores *stores, uint64_t hash)
{
    uint32_t count = stores->dataset->partition_count;

    return count == 1 ? 0 : (uint32_t)(hash >> (64 - __builtin_ctz(count)));
}

static void note_tag(struct stores *stores, const struct store_item *item)
{
    uint32_t partition = partition_of(stores, item->hash);

    if (dataset_file_db_of(stores->dataset, item->incarnation) < 0)
        return;
    if (!stores->in_group || stores->incarnation != item->incarnation || stores->partition != partition) {
        end_group(stores);
        stores->in_group = true;
        stores->incarnation = item->incarnation;
        stores->partition = partition;
        stores->found_count = 0;
    }
    if (stores->found_count == stores->found_capacity) {
        stores->found_capacity = stores->found_capacity * 2 + 1024;
        stores->found = mem_realloc(stores->found, stores->found_capacity * sizeof(stores->found[0]));
    }
    stores->found[stores->found_count++] = item->hash & ((1ull << RECORDMAP_TAG_BITS) - 1);
}

static uint64_t fingerprint_of(const struct stores *stores, const struct store_item *item, int64_t expire_ms)
{
    uint64_t words[3] = { (uint64_t)expire_ms, item->incarnation, item->hash };

    return hash_bytes(&stores->seed, bytes_of(words, sizeof(words)));
}

static void note_expiring(struct stores *stores, const struct store_item *item, int64_t expire_ms)
{
    if (stores->expiring_count == stores->expiring_capacity) {
        stores->expiring_capacity = stores->expiring_capacity * 2 + 1024;
        stores->expiring = mem_realloc(stores->expiring, stores->expiring_capacity * sizeof(stores->expiring[0]));
    }
    stores->expiring[stores->expiring_count++] = fingerprint_of(stores, item, expire_ms);
}

/* NULL, or what is wrong with a record. `expire_ms`: -1 or when it expires. */
static const char *judge_record(struct stores *stores, const struct store_item *item, int64_t *expire_ms, uint8_t *type)
{
    struct value_limits limits = { .hash_listpack_entries_max = SIZE_MAX, .hash_listpack_value_max = SIZE_MAX };
    struct buffer scratch = { 0 };
    struct record record;
    enum status status;

    *expire_ms = -1;
    if (item->incarnation == 0 || item->incarnation > stores->dataset->incarnation_last)
        return "its database never existed";
    if (hash_bytes(&stores->seed, item->key) != item->hash)
        return "its hash is not that of its key";
    status = record_decode(item->record, &limits, &scratch, &record);
    if (status == STATUS_OK) {
        *expire_ms = record.expire_ms;
        *type = record.value.type & 15;
        if (value_is_object(&record.value))
            value_free(&record.value);
    }
    buffer_release(&scratch);
    if (status == STATUS_VERSION)
        return "it was written by a newer Kelvin";
    return status == STATUS_OK ? NULL : "its value is invalid";
}

static const char *judge_expiry(const struct stores *stores, const struct store_item *item)
{
    if (item->incarnation == 0 || item->incarnation > stores->dataset->incarnation_last)
        return "an expiry of a database that never existed";
    if (item->expire_ms < 0)
        return "an expiry without a time";
    return hash_bytes(&stores->seed, item->key) == item->hash ? NULL : "an expiry whose hash is not that of its key";
}

static void on_record(struct stores *stores, const struct store_item *item)
{
    char key[CHECK_KEY_SIZE];
    const char *what;
    int64_t expire_ms;
    uint8_t type = 0;

    what = judge_record(stores, item, &expire_ms, &type);
    if (what != NULL) {
        check_damage(stores->check, "record", "key %s, database %d: %s", check_key(item->key, key),
            dataset_file_db_of(stores->dataset, item->incarnation), what);
        stores->state->damaged = true;
    }
    if (dataset_file_db_of(stores->dataset, item->incarnation) < 0) {
        stores->purgeable += what == NULL;
        return;
    }
    stores->records++;
    stores->types[type]++;
    note_tag(stores, item);
    if (expire_ms >= 0)
        note_expiring(stores, item, expire_ms);
}

static void on_expiry(struct stores *stores, const struct store_item *item)
{
    char key[CHECK_KEY_SIZE];
    const char *what = judge_expiry(stores, item);
    uint64_t wanted, *at = NULL;

    stores->expiries++;
    if (what != NULL) {
        check_damage(stores->check, "expiry", "key %s: %s", check_key(item->key, key), what);
        stores->state->damaged = true;
        return;
    }
    if (!stores->expiring_sorted) {
        stores->expiring_sorted = true;
        if (stores->expiring_count > 0)
            qsort(stores->expiring, stores->expiring_count, sizeof(stores->expiring[0]), compare_numbers);
        stores->announced = mem_zalloc(stores->expiring_count + 1);
    }
    wanted = fingerprint_of(stores, item, item->expire_ms);
    if (stores->expiring_count > 0)
        at = bsearch(&wanted, stores->expiring, stores->expiring_count, sizeof(wanted), compare_numbers);
    if (at != NULL)
        stores->announced[at - stores->expiring] = true;
    else
        stores->stale_expiries++;
}

static bool on_item(void *context, const struct store_item *item)
{
    struct stores *stores = context;
    char key[CHECK_KEY_SIZE];

    switch (item->kind) {
    case STORE_RECORD: on_record(stores, item); break;
    case STORE_EXPIRY: on_expiry(stores, item); break;
    case STORE_META: break;
    case STORE_STRANGE:
        check_damage(stores->check, "store", "a key that Kelvin never writes: %s", check_key(item->key, key));
        stores->state->damaged = true;
        break;
    }
    return true;
}

static void compare_tags(struct stores *stores)
{
    uint64_t before = stores->check->damages;

    if (!stores->tags->good)
        return;
    for (size_t i = 0; i < stores->section_count; i++) {
        if (!stores->sections[i].met && dataset_file_db_of(stores->dataset, stores->sections[i].incarnation) >= 0)
            stores->missing += stores->sections[i].tags.count;
    }
    if (stores->missing > 0)
        check_damage(stores->check, "tags", "%llu tags are of records that are not in the store", (unsigned long long)stores->missing);
    if (stores->unannounced > 0)
        check_damage(stores->check, "tags", "%llu records in the store have no tag: no lookup would find them",
            (unsigned long long)stores->unannounced);
    stores->state->tags_differ = stores->check->damages != before;
    check_part(stores->check, "map", before, "tags against records, by database and partition");
}

static void check_records_of_store(struct stores *stores)
{
    uint64_t before = stores->check->damages, silent = 0;
    enum status status;

    if (stores->tags->good) {
        uint32_t partition_count;

        if (tags_walk(stores->tags->file.bytes, &partition_count, add_section, stores, NULL) == STATUS_OK && stores->section_count > 0)
            qsort(stores->sections, stores->section_count, sizeof(stores->sections[0]), compare_places);
    }
    stores->comparing = true;
    status = store_walk(stores->store, on_item, stores);
    end_group(stores);
    stores->comparing = false;
    if (status != STATUS_OK) {
        check_damage(stores->check, "store", "not all of it can be read (%s)", status_name(status));
        stores->state->damaged = true;
    }
    if (store_number(stores->store) != stores->dataset->store_number) {
        check_damage(stores->check, "store", "its last batch is %llu instead of %llu: it has changed since the image was made",
            (unsigned long long)store_number(stores->store), (unsigned long long)stores->dataset->store_number);
        stores->state->damaged = true;
    }
    for (size_t i = 0; i < stores->expiring_count; i++)
        silent += stores->announced == NULL || !stores->announced[i];
    if (silent > 0)
        check_note(stores->check, "%llu keys have no entry in the index of expiries: they expire only when a client accesses them",
            (unsigned long long)silent);
    check_part(stores->check, "records", before, "%llu keys (%llu strings, %llu others), %llu to be purged, %llu expiries (%llu outdated)",
        (unsigned long long)stores->records, (unsigned long long)stores->types[VALUE_STRING],
        (unsigned long long)(stores->records - stores->types[VALUE_STRING]), (unsigned long long)stores->purgeable,
        (unsigned long long)stores->expiries, (unsigned long long)stores->stale_expiries);
    compare_tags(stores);
}

struct stores *stores_open(struct check *check, const char *image, const struct dataset_file *dataset, const struct tag_file *tags)
{
    struct stores *stores = mem_zalloc(sizeof(*stores));

    stores->check = check;
    stores->dataset = dataset;
    stores->tags = tags;
    store_files_init(&stores->files, check, image, dataset);
    return stores;
}

void stores_check(struct stores *stores, struct store_state *state)
{
    uint64_t before = stores->check->damages;

    stores->state = state;
    store_files_check(&stores->files);
    state->damaged = stores->files.damaged;
    if (!open_clone(stores)) {
        check_part(stores->check, "records", before, "none can be read");
        check_unrepaired(stores->check, "the store: LevelDB does not open it. Restore a backup");
        return;
    }
    check_records_of_store(stores);
}

static bool is_extra(const struct stores *stores, const struct store_item *item)
{
    uint64_t tag = item->hash & ((1ull << RECORDMAP_TAG_BITS) - 1);

    for (size_t i = 0; i < stores->extra_count; i++) {
        const struct extra *extra = &stores->extras[i];

        if (extra->incarnation == item->incarnation && extra->tag == tag && extra->partition == partition_of(stores, item->hash))
            return true;
    }
    return false;
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

static const char *why_drop(struct stores *stores, const struct store_item *item)
{
    struct buffer raw = { 0 };
    const char *what;
    int64_t expire_ms;
    uint8_t type;

    if (item->kind == STORE_STRANGE)
        return "a key that Kelvin never writes";
    if (item->kind == STORE_EXPIRY)
        return judge_expiry(stores, item);
    what = judge_record(stores, item, &expire_ms, &type);
    if (what == NULL && is_extra(stores, item))
        what = "it had been deleted, or its deletion was in a damaged block";
    make_raw_key(item, &raw);
    if (what == NULL && store_files_may_have_lost(&stores->files, buffer_bytes(&raw)))
        what = "its newest value may have been in a damaged block";
    buffer_release(&raw);
    return what;
}

static bool keep_item(void *context, const struct store_item *item)
{
    struct stores *stores = context;
    char key[CHECK_KEY_SIZE];
    const char *what = why_drop(stores, item);

    if (what == NULL) {
        stores->kept += item->kind == STORE_RECORD;
        if (item->kind == STORE_RECORD)
            note_tag(stores, item);
        return true;
    }
    if (stores->dropped++ < NAMED_MAX && item->kind == STORE_RECORD)
        printf("  + dropped: key %s of database %d: %s\n", check_key(item->key, key),
            dataset_file_db_of(stores->dataset, item->incarnation), what);
    return false;
}

/* Whether the number in the store may have been lost in a damaged block; if not, whole batches are missing, and it is not known which keys
 * were in them. */
static bool number_is_explained(const struct stores *stores)
{
    struct bytes number = BYTES("\0\0\0\0number");

    return store_number(stores->store) == stores->dataset->store_number || store_files_may_have_lost(&stores->files, number);
}

bool stores_rewrite(struct stores *stores, const char *to)
{
    struct message message = { "" };

    if (stores->files.log_is_cut || !number_is_explained(stores)) {
        check_unrepaired(stores->check, "the store has lost its last batches: what is left may be outdated. Restore a backup");
        return false;
    }
    stores->kept = stores->dropped = 0;
    drop_groups(stores);
    if (store_rewrite(stores->store, to, stores->dataset->store_number, keep_item, stores, &message) != STATUS_OK) {
        check_unrepaired(stores->check, "%s", message.text);
        return false;
    }
    end_group(stores);
    check_repaired(stores->check, "%llu records are kept, %llu dropped; %s%llu more are lost in damaged blocks, and so are their names",
        (unsigned long long)stores->kept, (unsigned long long)stores->dropped, stores->tags->good ? "" : "at least ",
        (unsigned long long)stores->missing);
    return true;
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *first = a, *second = b;

    if (first->partition != second->partition)
        return first->partition < second->partition ? -1 : 1;
    return first->incarnation < second->incarnation ? -1 : first->incarnation > second->incarnation;
}

bool stores_write_tags(struct stores *stores, const char *path, struct message *message)
{
    struct buffer text = { 0 };
    bool good;

    if (stores->group_count > 0)
        qsort(stores->groups, stores->group_count, sizeof(stores->groups[0]), compare_groups);
    tags_begin(&text, stores->dataset->partition_count);
    for (size_t i = 0; i < stores->group_count; i++) {
        const struct group *group = &stores->groups[i];

        tags_add(&text, group->incarnation, group->partition, group->records, group->count);
    }
    tags_end(&text);
    good = tree_write_file(path, buffer_bytes(&text), message) == STATUS_OK;
    buffer_release(&text);
    return good;
}

void stores_close(struct stores *stores)
{
    store_close(stores->store);
    if (stores->scratch[0] != '\0')
        tree_remove(stores->scratch);
    store_files_release(&stores->files);
    drop_groups(stores);
    mem_free(stores->groups);
    mem_free(stores->sections);
    mem_free(stores->extras);
    mem_free(stores->found);
    mem_free(stores->expiring);
    mem_free(stores->announced);
    mem_free(stores);
}
