#include "store_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "check.h"
#include "record_file.h"
#include "store/dictionaries.h"
#include "store/segments.h"
#include "table_file.h"

struct store_key_range {
    struct bytes first, last;       /* owned */
    bool with_first;
};

void store_files_init(struct store_files *files, struct check *check, const char *image, const struct dataset_file *dataset)
{
    *files = (struct store_files){ .check = check, .image = image, .dataset = dataset };
    snprintf(files->dir, sizeof(files->dir), "%.4000s/store", image);
    version_file_init(&files->version);
}

void store_files_release(struct store_files *files)
{
    for (size_t i = 0; i < files->range_count; i++) {
        mem_free((void *)files->ranges[i].first.data);
        mem_free((void *)files->ranges[i].last.data);
    }
    mem_free(files->ranges);
    version_file_release(&files->version);
}

static void add_range(struct store_files *files, struct bytes first, struct bytes last, bool with_first)
{
    files->ranges = mem_realloc(files->ranges, (files->range_count + 1) * sizeof(files->ranges[0]));
    files->ranges[files->range_count++] = (struct store_key_range){ bytes_of(mem_string(first), first.size),
        bytes_of(mem_string(last), last.size), with_first };
}

struct checked_table {
    struct store_files *files;
    const char *name;
    const struct version_table *table;      /* NULL: unknown to the MANIFEST */
};

static void on_damaged_block(void *context, const struct table_damage *damage)
{
    const struct checked_table *checked = context;
    const struct version_table *table = checked->table;
    struct store_files *files = checked->files;
    struct bytes nothing = { "", 0 }, everything = BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    struct bytes smallest = table != NULL ? table->smallest : nothing, largest = table != NULL ? table->largest : everything;

    if (table != NULL && !table->live) {
        check_note(files->check, "%s, offset %llu: %s; nothing refers to this table any more", checked->name,
            (unsigned long long)damage->offset, damage->what);
        return;
    }
    check_damage(files->check, checked->name, "offset %llu, %llu bytes: %s", (unsigned long long)damage->offset,
        (unsigned long long)damage->size, damage->what);
    files->damaged = true;
    if (damage->has_keys)
        add_range(files, damage->first.size > 0 ? damage->first : smallest, damage->to_the_end ? largest : damage->last,
            damage->first.size == 0);
}

static bool open_file(struct store_files *files, const char *name, struct mapped *mapped)
{
    char path[CHECK_PATH_SIZE * 2];
    struct message message;

    snprintf(path, sizeof(path), "%s/%s", files->dir, name);
    if (mapped_open(path, mapped, &message))
        return true;
    check_damage(files->check, name, "can't be read: %s", message.text);
    files->damaged = true;
    return false;
}

static uint64_t check_table(struct store_files *files, const char *name, enum table_kind kind)
{
    const struct version_table *table = kind == TABLE_OF_LEVELDB ? version_file_table(&files->version, strtoull(name, NULL, 10)) : NULL;
    struct checked_table checked = { files, name, table };
    struct table_counts counts = { 0 };
    struct mapped mapped;

    if (!open_file(files, name, &mapped))
        return 0;
    table_file_check(mapped.bytes, kind, on_damaged_block, &checked, &counts);
    if (checked.table != NULL && checked.table->live && checked.table->size != mapped.bytes.size) {
        check_damage(files->check, name, "%llu bytes instead of %llu", (unsigned long long)mapped.bytes.size,
            (unsigned long long)checked.table->size);
        files->damaged = true;
    }
    files->checked_bytes += mapped.bytes.size;
    check_progress(files->check, files->checked_bytes);
    mapped_close(&mapped);
    return counts.blocks;
}

/* Checks a log or a MANIFEST. A MANIFEST may be torn, as it is copied while a compaction appends to it; a log is not written meanwhile. */
static void check_records(struct store_files *files, const char *name, bool is_manifest)
{
    struct record_counts counts;
    struct mapped mapped;
    uint64_t offset = 0;
    const char *what;

    if (!open_file(files, name, &mapped))
        return;
    what = record_file_check(mapped.bytes, is_manifest ? version_file_add : NULL, &files->version, &offset, &counts);
    if (what == NULL && is_manifest && files->version.strange)
        what = "a record is invalid";
    if (what == NULL && !is_manifest && counts.torn_bytes > 0)
        what = "it ends within a record";
    if (what != NULL) {
        check_damage(files->check, name, "offset %llu: %s", (unsigned long long)offset, what);
        files->damaged = true;
    }
    mapped_close(&mapped);
}

static bool is_number_and(const char *name, const char *end)
{
    const char *rest = name;

    while (*rest >= '0' && *rest <= '9')
        rest++;
    return rest > name && strcmp(rest, end) == 0;
}

static bool is_table(const char *name)
{
    return is_number_and(name, ".ldb") || is_number_and(name, ".sst");
}

static void check_current(struct store_files *files)
{
    struct mapped mapped;
    char wanted[80];

    if (files->manifest[0] == '\0') {
        check_damage(files->check, "store", "there is no MANIFEST, or more than one");
        files->damaged = true;
    }
    snprintf(wanted, sizeof(wanted), "%.60s\n", files->manifest);
    if (!open_file(files, "CURRENT", &mapped)) {
        files->current_is_bad = true;
        return;
    }
    if (!bytes_equal(mapped.bytes, bytes_of_string(wanted))) {
        check_damage(files->check, "CURRENT", "it does not name the existing MANIFEST");
        files->damaged = files->current_is_bad = true;
    }
    mapped_close(&mapped);
}

/* Checks that the tables which the MANIFEST names exist. */
static void check_missing(struct store_files *files)
{
    for (int i = 0; i < files->version.count; i++) {
        const struct version_table *table = &files->version.tables[i];
        char ldb[CHECK_PATH_SIZE + 32], sst[CHECK_PATH_SIZE + 32];

        snprintf(ldb, sizeof(ldb), "%s/%06llu.ldb", files->dir, (unsigned long long)table->number);
        snprintf(sst, sizeof(sst), "%s/%06llu.sst", files->dir, (unsigned long long)table->number);
        if (table->live && access(ldb, F_OK) != 0 && access(sst, F_OK) != 0) {
            check_damage(files->check, strrchr(ldb, '/') + 1, "it is missing: %llu bytes", (unsigned long long)table->size);
            files->damaged = true;
        }
    }
}

static uint64_t table_bytes(const struct store_files *files)
{
    uint64_t bytes = 0;

    for (int i = 0; i < files->version.count; i++)
        bytes += files->version.tables[i].live ? files->version.tables[i].size : 0;
    return bytes;
}

enum pass { PASS_NAMES, PASS_MANIFEST, PASS_REST };

static void check_each_file(struct store_files *files, enum pass pass, uint64_t *tables, uint64_t *blocks)
{
    DIR *list = opendir(files->dir);
    struct dirent *entry;
    int manifests = 0;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        const char *name = entry->d_name;
        bool manifest = strncmp(name, "MANIFEST-", 9) == 0;

        if (pass == PASS_NAMES && manifest)
            snprintf(files->manifest, sizeof(files->manifest), "%.60s", ++manifests == 1 ? name : "");
        else if (pass == PASS_MANIFEST && manifest)
            check_records(files, name, true);
        if (pass != PASS_REST || name[0] == '.' || manifest)
            continue;
        if (is_table(name)) {
            (*tables)++;
            *blocks += check_table(files, name, TABLE_OF_LEVELDB);
        } else if (is_number_and(name, ".run")) {
            (*tables)++;
            *blocks += check_table(files, name, TABLE_KEY_RUN);
        } else if (is_number_and(name, ".log")) {
            check_records(files, name, false);
        } else if (strcmp(name, "CURRENT") != 0 && strcmp(name, "LOCK") != 0 && !segment_is_file(name) && !dictionary_is_file(name, NULL)) {
            check_note(files->check, "%s in the store is neither a segment nor a key run nor a dictionary nor one of LevelDB's files", name);
        }
    }
    if (list != NULL)
        closedir(list);
}

void store_files_check(struct store_files *files)
{
    uint64_t before = files->check->damages, tables = 0, blocks = 0;
    struct message message = { "" };

    if (access(files->dir, F_OK) != 0) {
        check_damage(files->check, "store", "it is missing");
        files->damaged = true;
    } else {
        check_each_file(files, PASS_NAMES, NULL, NULL);
        check_current(files);
        check_each_file(files, PASS_MANIFEST, NULL, NULL);
        check_progress_begin(files->check, "tables", PROGRESS_BYTES, table_bytes(files));
        check_each_file(files, PASS_REST, &tables, &blocks);
        check_missing(files);
        if (dataset_file_verify_store(files->dataset, files->image, &message) != STATUS_OK) {
            check_damage(files->check, "store", "%s", message.text);
            files->damaged = true;
            files->log_is_cut = strstr(message.text, ".log'") != NULL;
        }
    }
    check_part(files->check, "tables", before, "%llu files, the checksums of %llu blocks", (unsigned long long)tables,
        (unsigned long long)blocks);
}

bool store_files_may_have_lost(const struct store_files *files, struct bytes key)
{
    for (size_t i = 0; i < files->range_count; i++) {
        const struct store_key_range *range = &files->ranges[i];
        int from = bytes_compare(key, range->first);

        if ((from > 0 || (from == 0 && range->with_first)) && bytes_compare(key, range->last) <= 0)
            return true;
    }
    return false;
}
