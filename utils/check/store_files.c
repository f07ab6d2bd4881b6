#include "store_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "check.h"
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
}

void store_files_release(struct store_files *files)
{
    for (size_t i = 0; i < files->range_count; i++) {
        mem_free((void *)files->ranges[i].first.data);
        mem_free((void *)files->ranges[i].last.data);
    }
    mem_free(files->ranges);
}

static void add_range(struct store_files *files, struct bytes first, struct bytes last, bool with_first)
{
    files->ranges = mem_realloc(files->ranges, (files->range_count + 1) * sizeof(files->ranges[0]));
    files->ranges[files->range_count++] = (struct store_key_range){ bytes_of(mem_string(first), first.size),
        bytes_of(mem_string(last), last.size), with_first };
}

struct checked_run {
    struct store_files *files;
    const char *name;
};

static void on_damaged_block(void *context, const struct table_damage *damage)
{
    const struct checked_run *checked = context;
    struct store_files *files = checked->files;
    struct bytes everything = BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");

    check_damage(files->check, checked->name, "offset %llu, %llu bytes: %s", (unsigned long long)damage->offset,
        (unsigned long long)damage->size, damage->what);
    files->damaged = true;
    if (damage->has_keys)
        add_range(files, damage->first, damage->to_the_end ? everything : damage->last, damage->first.size == 0);
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

static uint64_t check_run(struct store_files *files, const char *name)
{
    struct checked_run checked = { files, name };
    struct table_counts counts = { 0 };
    struct mapped mapped;

    if (!open_file(files, name, &mapped))
        return 0;
    table_file_check(mapped.bytes, on_damaged_block, &checked, &counts);
    files->checked_bytes += mapped.bytes.size;
    check_progress(files->check, files->checked_bytes);
    mapped_close(&mapped);
    return counts.blocks;
}

static bool is_number_and(const char *name, const char *end)
{
    const char *rest = name;

    while (*rest >= '0' && *rest <= '9')
        rest++;
    return rest > name && strcmp(rest, end) == 0;
}

static uint64_t run_bytes(const struct store_files *files)
{
    DIR *list = opendir(files->dir);
    struct dirent *entry;
    uint64_t bytes = 0;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[CHECK_PATH_SIZE * 2];
        struct stat info;

        snprintf(path, sizeof(path), "%s/%s", files->dir, entry->d_name);
        if (is_number_and(entry->d_name, ".run") && stat(path, &info) == 0)
            bytes += (uint64_t)info.st_size;
    }
    if (list != NULL)
        closedir(list);
    return bytes;
}

/* Of an older version's meta data. */
static bool is_of_leveldb(const char *name)
{
    return strcmp(name, "CURRENT") == 0 || strncmp(name, "MANIFEST-", 9) == 0 || is_number_and(name, ".log") || is_number_and(name, ".ldb") ||
           is_number_and(name, ".sst");
}

static void check_each_file(struct store_files *files, uint64_t *runs, uint64_t *blocks)
{
    DIR *list = opendir(files->dir);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        const char *name = entry->d_name;

        if (is_number_and(name, ".run")) {
            (*runs)++;
            *blocks += check_run(files, name);
        } else if (name[0] != '.' && strcmp(name, "meta") != 0 && strcmp(name, "LOCK") != 0 && !is_of_leveldb(name) && !segment_is_file(name) &&
                   !dictionary_is_file(name, NULL)) {
            check_note(files->check, "%s in the store is neither a segment nor a key run nor a dictionary", name);
        }
    }
    if (list != NULL)
        closedir(list);
}

void store_files_check(struct store_files *files)
{
    uint64_t before = files->check->damages, runs = 0, blocks = 0;
    struct message message = { "" };

    if (access(files->dir, F_OK) != 0) {
        check_damage(files->check, "store", "it is missing");
        files->damaged = true;
    } else {
        check_progress_begin(files->check, "key runs", PROGRESS_BYTES, run_bytes(files));
        check_each_file(files, &runs, &blocks);
        if (dataset_file_verify_store(files->dataset, files->image, &message) != STATUS_OK) {
            check_damage(files->check, "store", "%s", message.text);
            files->damaged = true;
        }
    }
    check_part(files->check, "key runs", before, "%llu files, the checksums of %llu blocks", (unsigned long long)runs,
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
