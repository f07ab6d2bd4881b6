#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "check.h"
#include "persist/aof_name.h"
#include "persist/checkpoint.h"
#include "script/library_dump.h"
#include "store/segments.h"
#include "tier/advise.h"
#include "tier/hot.h"
#include "tier/tags.h"

/* Replaces one of the two files by one with the bytes of the other one. */
static void repair_dataset(struct check *check, const char *image, const char *good, const char *bad)
{
    char from[CHECK_PATH_SIZE], to[CHECK_PATH_SIZE], next[CHECK_PATH_SIZE + 64], aside[CHECK_PATH_SIZE + 64];
    struct message message = { "" };

    snprintf(from, sizeof(from), "%.4000s/%s", image, good);
    snprintf(to, sizeof(to), "%.4000s/%s", image, bad);
    snprintf(next, sizeof(next), "%s.new", to);
    snprintf(aside, sizeof(aside), "%s.%s", to, check->stamp);
    unlink(next);
    if (tree_copy_file(from, next, NULL, &message) != STATUS_OK || (link(to, aside) != 0 && errno != ENOENT) || rename(next, to) != 0 ||
        tree_sync(image, &message) != STATUS_OK)
        check_unrepaired(check, "%s can't be written: %s", bad, !message_is_empty(&message) ? message.text : strerror(errno));
    else
        check_repaired(check, "%s is replaced: %s has the same. Nothing is lost", bad, good);
}

/* One of the two. `into` is set if it is good. */
static enum status read_one(struct check *check, const char *image, const char *name, struct dataset_file *into)
{
    char path[CHECK_PATH_SIZE];
    const char *problem = NULL;
    enum status status;

    snprintf(path, sizeof(path), "%.4000s/%s", image, name);
    status = dataset_file_load(path, into, &problem);
    if (status == STATUS_VERSION)
        check_newer(check, path);
    else if (status != STATUS_OK && (status != STATUS_NOT_FOUND || strcmp(name, DATASET_FILE_NAME) == 0))
        check_damage(check, path, "%s", problem);
    return status;
}

static bool read_dataset(struct check *check, const char *image, struct dataset_file *dataset)
{
    uint64_t before = check->damages;
    struct dataset_file copy;
    enum status status = read_one(check, image, DATASET_FILE_NAME, dataset);
    enum status second = check->newer ? STATUS_VERSION : read_one(check, image, DATASET_FILE_COPY, &copy);

    if (check->newer || (status != STATUS_OK && second != STATUS_OK)) {
        check_part(check, "dataset", before, "the list of databases");
        if (!check->newer)
            check_unrepaired(check, "the list of databases: it is in no other file");
        if (status == STATUS_OK)
            dataset_file_release(dataset);
        return false;
    }
    if (status == STATUS_OK && second == STATUS_OK)
        dataset_file_release(&copy);
    if (status != STATUS_OK)
        *dataset = copy;
    check_part(check, "dataset", before, "%d databases, %u partitions", dataset->db_count, (unsigned)dataset->partition_count);
    if (check->repair && status != STATUS_OK)
        repair_dataset(check, image, DATASET_FILE_COPY, DATASET_FILE_NAME);
    else if (check->repair && second != STATUS_OK && second != STATUS_NOT_FOUND)
        repair_dataset(check, image, DATASET_FILE_NAME, DATASET_FILE_COPY);
    return true;
}

struct tag_counts {
    uint64_t records, places, twins, nowhere, unordered;
    uint64_t *weights;              /* of live records, by slot */
    const struct dataset_file *dataset;
};

static bool count_records(void *context, const struct tags_section *section)
{
    struct tag_counts *counts = context;
    struct recordmap *map = tags_section_map(section);
    bool is_live = dataset_file_db_of(counts->dataset, section->incarnation) >= 0;
    struct recordmap_record record;
    struct recordmap_walk walk;
    bool is_first = true;
    uint64_t last = 0;

    if (map == NULL)
        return false;
    recordmap_walk_begin(&walk, map, 0);
    while (recordmap_walk_next(&walk, &record)) {
        counts->unordered += !is_first && (record.is_twin ? record.tag != last : record.tag <= last);
        is_first = false;
        counts->records++;
        counts->places += record.place != 0;
        counts->twins += record.is_twin;
        counts->nowhere += record.place == PLACE_NOWHERE;
        if (is_live && place_is_in_segment(record.place))
            counts->weights[place_slot(record.place)] += place_weight(record.place);
        last = record.tag;
    }
    recordmap_destroy(map);
    return true;
}

/* What the file says of each segment, against its records. NULL, or what is wrong. */
static const char *check_weights(struct bytes file, const struct tag_counts *counts)
{
    struct tags_weights weights;
    bool are_equal = true;

    tags_weights_of(file, &weights);
    for (uint32_t i = 0; i < weights.count && are_equal; i++) {
        uint32_t slot = weights.list[i].slot;

        are_equal = slot >> PLACE_SLOT_BITS == 0 && counts->weights[slot] == weights.list[i].weight;
        if (are_equal)
            counts->weights[slot] = 0;
    }
    for (uint32_t slot = 0; weights.is_known && slot >> PLACE_SLOT_BITS == 0 && are_equal; slot++)
        are_equal = counts->weights[slot] == 0;
    mem_free(weights.list);
    return are_equal ? NULL : "its list of segments is not that of its records";
}

static const char *check_counts(struct bytes file, const struct tag_counts *counts)
{
    if (counts->unordered > 0)
        return "tags are out of order";
    if (counts->nowhere > 0)
        return "records are nowhere";
    return check_weights(file, counts);
}

static void read_tags(struct check *check, const char *image, const struct dataset_file *dataset, struct tag_file *tags)
{
    uint64_t before = check->damages;
    char path[CHECK_PATH_SIZE];
    struct message message = { "" };
    const char *problem = NULL;
    struct tag_counts counts = { .dataset = dataset, .weights = mem_zalloc(sizeof(uint64_t) << PLACE_SLOT_BITS) };
    enum status status;

    *tags = (struct tag_file){ .image = image, .good = false };
    snprintf(path, sizeof(path), "%.4000s/tags", image);
    if (!mapped_open(path, &tags->file, &message))
        check_damage(check, path, "%s", message.text);
    else if ((status = tags_walk_file(&(struct tags_file){ .bytes = tags->file.bytes, .dir = image }, &tags->partition_count, count_records, &counts, &problem)) == STATUS_VERSION)
        check_newer(check, path);
    else if (status != STATUS_OK)
        check_damage(check, path, "%s", problem != NULL ? problem : "a map file can't be read");
    else if (tags->partition_count != dataset->partition_count)
        check_damage(check, path, "%u partitions instead of %u", (unsigned)tags->partition_count, (unsigned)dataset->partition_count);
    else if ((problem = check_counts(tags->file.bytes, &counts)) != NULL)
        check_damage(check, path, "%s", problem);
    else
        tags->good = true;
    mem_free(counts.weights);
    tags->record_count = counts.records;
    check_part(check, "tags", before, "%llu bytes, %llu records, %llu of them with places, %llu twins", (unsigned long long)tags->file.bytes.size,
        (unsigned long long)counts.records, (unsigned long long)counts.places, (unsigned long long)counts.twins);
}

/* A file that is only a hint is renamed. `without`: what the next start has to do without. */
static void set_hint_aside(struct check *check, const char *path, const char *name, const char *without)
{
    char aside[CHECK_PATH_SIZE + 64];

    snprintf(aside, sizeof(aside), "%s.%s", path, check->stamp);
    if (rename(path, aside) == 0)
        check_repaired(check, "%s is kept as %s.%s: the next start has no %s. Nothing is lost", name, name, check->stamp, without);
    else
        check_unrepaired(check, "%s can't be renamed: %s", name, strerror(errno));
}

/* A hint, without which there is no warm-up. */
static void check_hot(struct check *check, const char *image, const struct dataset_file *dataset)
{
    uint64_t before = check->damages;
    char path[CHECK_PATH_SIZE];
    struct hot_file hot;
    enum status status = hot_open(image, dataset->partition_count, &hot);

    if (status == STATUS_NOT_FOUND)
        return;
    snprintf(path, sizeof(path), "%.4000s/hot", image);
    if (status == STATUS_VERSION)
        check_note(check, "hot is of another version: there is no warm-up after a start");
    else if (status != STATUS_OK)
        check_damage(check, path, "%s", status == STATUS_CORRUPT ? "it is damaged" : status_name(status));
    check_part(check, "hot", before, "%llu keys for the warm-up", (unsigned long long)hot.key_count);
    if (status == STATUS_OK)
        hot_close(&hot);
    if (check->damages > before && check->repair)
        set_hint_aside(check, path, "hot", "warm-up");
}

/* A hint, without which TIER ADVISE begins without samples. */
static void check_advise(struct check *check, const char *image)
{
    uint64_t before = check->damages;
    struct advise_estimate estimate = { .sampled_keys = 0 };
    struct advise *advise;
    struct mapped file;
    struct message message = { "" };
    char path[CHECK_PATH_SIZE];
    enum status status;
    _Atomic uint32_t limit = 0;

    snprintf(path, sizeof(path), "%.4000s/advise", image);
    if (access(path, F_OK) != 0)
        return;
    if (!mapped_open(path, &file, &message)) {
        check_damage(check, path, "%s", message.text);
        return;
    }
    advise = advise_create(0);
    status = advise_decode(advise, file.bytes, &limit);
    if (status == STATUS_VERSION)
        check_note(check, "advise is of another version: TIER ADVISE begins without samples after a start");
    else if (status != STATUS_OK)
        check_damage(check, path, "it is damaged");
    advise_look(advise, &estimate);
    check_part(check, "advise", before, "%lu keys sampled for TIER ADVISE", (unsigned long)estimate.sampled_keys);
    advise_destroy(advise);
    mapped_close(&file);
    if (check->damages > before && check->repair)
        set_hint_aside(check, path, "advise", "samples for TIER ADVISE");
}

static bool count_library(void *context, struct bytes text, struct buffer *error)
{
    uint64_t *count = context;
    struct library_head head;

    if (!library_head_read(text, &head, error))
        return false;
    library_head_release(&head);
    (*count)++;
    return true;
}

/* Returns whether the libraries can be loaded, as far as can be seen without running them. */
static bool check_functions(struct check *check, const char *image, const struct dataset_file *dataset)
{
    uint64_t before = check->damages, count = 0;
    struct buffer dump = { 0 }, error = { 0 };
    struct message message = { "" };

    if (dataset->functions.name == NULL)
        return true;
    if (checkpoint_functions(image, &dump, &message) != STATUS_OK)
        check_damage(check, "functions", "%s", message.text);
    else if (library_dump_is_newer(buffer_bytes(&dump)))
        check_newer(check, "functions");
    else if (!library_dump_read(buffer_bytes(&dump), SIZE_MAX, count_library, &count, &error))
        check_damage(check, "functions", "after %llu libraries: %.*s", (unsigned long long)count, (int)error.size, error.data);
    check_part(check, "functions", before, "%llu libraries", (unsigned long long)count);
    buffer_release(&dump);
    buffer_release(&error);
    return check->damages == before;
}

/* The list of databases without the functions' line: a server starts without libraries. */
static void repair_functions(struct check *check, const char *image, struct dataset_file *dataset)
{
    char path[CHECK_PATH_SIZE], copy[CHECK_PATH_SIZE], next[CHECK_PATH_SIZE + 64], bad[CHECK_PATH_SIZE], aside[CHECK_PATH_SIZE + 64];
    struct buffer text = { 0 };
    struct message message = { "" };
    bool good;

    snprintf(path, sizeof(path), "%.4000s/" DATASET_FILE_NAME, image);
    snprintf(copy, sizeof(copy), "%.4000s/" DATASET_FILE_COPY, image);
    snprintf(next, sizeof(next), "%s.new", path);
    snprintf(bad, sizeof(bad), "%.4000s/functions", image);
    snprintf(aside, sizeof(aside), "%s.%s", bad, check->stamp);
    mem_free(dataset->functions.name);
    dataset->functions.name = NULL;
    unlink(next);
    good = dataset_file_print(dataset, image, &text) == STATUS_OK && tree_write_file(next, buffer_bytes(&text), &message) == STATUS_OK &&
           (unlink(copy) == 0 || errno == ENOENT) && rename(next, path) == 0 && tree_copy_file(path, copy, NULL, &message) == STATUS_OK && (rename(bad, aside) == 0 || errno == ENOENT) && tree_sync(image, &message) == STATUS_OK;
    buffer_release(&text);
    check->left_out = check->left_out || good;
    if (good)
        check_repaired(check, "the libraries of functions are left out: what is left of them is kept as functions.%s", check->stamp);
    else
        check_unrepaired(check, "the list of databases can't be written: %s", !message_is_empty(&message) ? message.text : strerror(errno));
}

/* A new image has the same libraries. */
static bool copy_functions(const char *image, const char *into, const struct dataset_file *dataset, struct message *message)
{
    struct buffer dump = { 0 };
    char path[CHECK_PATH_SIZE + 16];
    bool good;

    if (dataset->functions.name == NULL)
        return true;
    snprintf(path, sizeof(path), "%.4000s/functions", into);
    good = checkpoint_functions(image, &dump, message) == STATUS_OK && tree_write_file(path, buffer_bytes(&dump), message) == STATUS_OK;
    buffer_release(&dump);
    return good;
}

/* Rebuilds the tags from the store: in a new file first. */
static void repair_tags(struct check *check, const char *image, struct stores *stores)
{
    char path[CHECK_PATH_SIZE], aside[CHECK_PATH_SIZE + 64], next[CHECK_PATH_SIZE + 64];
    struct message message = { "" };
    bool good;

    snprintf(path, sizeof(path), "%.4000s/tags", image);
    snprintf(aside, sizeof(aside), "%s.%s", path, check->stamp);
    snprintf(next, sizeof(next), "%s.new", path);
    unlink(next);
    good = stores_write_tags(stores, next, &message);
    if (good && link(path, aside) == 0)
        check_note(check, "the old tags are kept as tags.%s, without map files", check->stamp);
    if (good && rename(next, path) != 0) {
        message_set(&message, "%s", strerror(errno));
        good = false;
    }
    good = good && tree_sync(image, &message) == STATUS_OK;
    if (good)
        tags_remove_maps(image);        /* all maps are in the new file */
    if (good)
        check_repaired(check, "the record maps (tags) are rebuilt from the store. Nothing is lost");
    else
        check_unrepaired(check, "the record maps (tags) can't be written: %s", message.text);
}

/* Writes a new image with the valid records, and a manifest that names it. */
static void repair_image(struct check *check, int index, const struct dataset_file *dataset, struct stores *stores)
{
    struct buffer text = { 0 };
    char name[CHECK_PATH_SIZE], path[CHECK_PATH_SIZE], inner[CHECK_PATH_SIZE + 16], aside[CHECK_PATH_SIZE + 64], old[CHECK_PATH_SIZE];
    struct message message = { "" };
    struct aof_manifest next;
    bool good;

    snprintf(old, sizeof(old), "%s", check->manifest.files[index].name);
    snprintf(name, sizeof(name), "%.200s.%lld%s", check->name, (long long)clock_wall_us(), AOF_NAME_IMAGE_END);
    snprintf(path, sizeof(path), "%.3800s/%.255s", check->dir, name);
    snprintf(inner, sizeof(inner), "%.4000s/store", path);
    good = mkdir(path, 0755) == 0;
    if (good && !stores_rewrite(stores, inner)) {       /* it has said why */
        tree_remove(path);
        return;
    }
    snprintf(inner, sizeof(inner), "%.3800s/%.255s", check->dir, old);
    good = good && copy_functions(inner, path, dataset, &message);
    good = good && dataset_file_print(dataset, path, &text) == STATUS_OK && dataset_file_write(path, buffer_bytes(&text)) == STATUS_OK;
    buffer_release(&text);
    snprintf(inner, sizeof(inner), "%.4000s/tags", path);
    good = good && stores_write_tags(stores, inner, &message) && tree_sync(path, &message) == STATUS_OK &&
           tree_sync(check->dir, &message) == STATUS_OK;
    if (!good) {
        check_unrepaired(check, "a new image can't be written: %s", !message_is_empty(&message) ? message.text : strerror(errno));
        tree_remove(path);
        return;
    }
    aof_manifest_init(&next);
    for (int i = 0; i < check->manifest.count; i++) {
        const struct aof_file *file = &check->manifest.files[i];

        aof_manifest_add(&next, i == index ? bytes_of_string(name) : bytes_of_string(file->name), file->seq, file->type);
        next.files[i].valid_size = file->valid_size;
    }
    aof_manifest_release(&check->manifest);
    check->manifest = next;
    if (!repair_save_manifest(check))
        return;
    check->left_out = true;
    snprintf(aside, sizeof(aside), "%s.%s", old, check->stamp);
    renameat(check->dir_fd, old, check->dir_fd, aside);
    fsync(check->dir_fd);
    check_repaired(check, "a new image, %s, has what could be read; the old one is kept as %s", name, aside);
}

void image_check(struct check *check, int index)
{
    const char *name = check->manifest.files[index].name;
    char image[CHECK_PATH_SIZE];
    struct store_state state = { 0 };
    struct dataset_file dataset;
    struct tag_file tags;
    struct stores *stores;
    struct stat info;
    bool functions_are_good;

    snprintf(image, sizeof(image), "%.3800s/%.255s", check->dir, name);
    if (stat(image, &info) != 0 || !S_ISDIR(info.st_mode)) {
        uint64_t before = check->damages;

        check_damage(check, name, "named by the manifest, but it does not exist");
        check_part(check, "image", before, "%s", name);
        check_unrepaired(check, "a log is useless without its base");
        return;
    }
    if (!read_dataset(check, image, &dataset))
        return;
    read_tags(check, image, &dataset, &tags);
    functions_are_good = check_functions(check, image, &dataset);
    stores = stores_open(check, image, &dataset, &tags);
    stores_check(stores, &state);
    check_hot(check, image, &dataset);
    check_advise(check, image);
    if (check->repair && !functions_are_good)
        repair_functions(check, image, &dataset);
    if (check->repair && state.damaged && state.opened)
        repair_image(check, index, &dataset, stores);
    else if (check->repair && !state.damaged && (!tags.good || state.tags_differ))
        repair_tags(check, image, stores);
    stores_close(stores);
    mapped_close(&tags.file);
    dataset_file_release(&dataset);
}
