#include "persist/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc64.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/tree.h"
#include "base/waiting.h"
#include "persist/aof_mark.h"
#include "persist/aof_name.h"
#include "persist/dataset_file.h"
#include "script/library_dump.h"
#include "tier/image.h"

enum { PATH_SIZE = 4096, BASE_SIZE = 512, COMMIT_US_MAX = 40000000, LOOK_MS = 1000 };

void checkpoint_clean(const char *dir, const char *base)
{
    DIR *list = opendir(dir);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[PATH_SIZE];

        if (!aof_name_is_image(entry->d_name) || (base != NULL && strcmp(entry->d_name, base) == 0))
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        tree_remove(path);
    }
    if (list != NULL)
        closedir(list);
}

static void print_databases(const struct partitions *partitions, struct buffer *out)
{
    dataset_file_begin(partitions->value_count, out);
    buffer_append_format(out, "partitions %u\ndatabases %d\nlast %u\n", partitions->count, partitions->db_count,
        (unsigned)partitions->incarnation_last);
    for (int db = 0; db < partitions->db_count; db++)
        buffer_append_format(out, "db %d %u\n", db, (unsigned)partitions->incarnations[db]);
}

static enum status write_functions(const char *image, const struct library_set *libraries)
{
    char path[PATH_SIZE + 16];
    struct buffer dump = { 0 };
    enum status status;

    snprintf(path, sizeof(path), "%s/functions", image);
    library_dump(libraries, &dump);
    status = file_overwrite(disk_system(), AT_FDCWD, path, buffer_bytes(&dump));
    buffer_release(&dump);
    return status;
}

static void print_point(const struct history_point *point, struct buffer *text)
{
    char line[AOF_MARK_SIZE];

    aof_mark_print_point(point, line);
    buffer_append_format(text, "stream %s\n", line);
}

/* `point`: NULL, or where the image is in the stream. What the partitions know of values in pages is as of the cut, or later. */
static enum status write_dataset(const char *image, struct buffer *text, uint64_t number, struct key_seed seed, const struct partitions *partitions,
    const struct history_point *point)
{
    uint64_t crc;
    enum status status;

    buffer_append_format(text, "store %llu\n", (unsigned long long)number);
    dataset_file_print_values(partitions->value_count, partitions->has_renamed, text);
    dataset_file_print_seed(&seed, text);
    if (point != NULL)
        print_point(point, text);
    status = dataset_file_describe(image, text);
    if (status != STATUS_OK)
        return status;
    crc = crc64(0, buffer_bytes(text));
    buffer_append_format(text, "end %016llx\n", (unsigned long long)crc);
    status = dataset_file_write(image, buffer_bytes(text));
    return status == STATUS_OK ? directory_sync(disk_system(), image) : status;
}

static enum status load_dataset(const char *image, struct dataset_file *dataset, struct message *message)
{
    const char *problem;
    enum status status = dataset_file_load_image(image, dataset, &problem);

    if (status == STATUS_VERSION)
        message_set(message, "'%.160s/dataset' can't be read: %s", image, problem);
    else if (status != STATUS_OK)
        message_set(message, "'%.140s/dataset' is damaged (%.40s), and there is no good copy of it", image, problem);
    else if (problem != NULL)
        message_set(message, "'%.140s/dataset' is damaged (%.40s): its copy is used", image, problem);
    return status;
}

enum status checkpoint_databases(const char *image, struct image_databases *into, struct message *message)
{
    struct dataset_file dataset;
    enum status status = load_dataset(image, &dataset, message);

    *into = (struct image_databases){ 0 };
    if (status != STATUS_OK)
        return status;
    status = dataset_file_verify(&dataset, image, message);
    if (status == STATUS_OK) {
        *into = (struct image_databases){ .incarnations = dataset.incarnations, .count = dataset.db_count,
            .partition_count = dataset.partition_count, .incarnation_last = dataset.incarnation_last, .value_count = dataset.value_count, .has_renamed = dataset.has_renamed,
            .number = dataset.store_number };
        dataset.incarnations = NULL;        /* the caller owns them now */
    }
    dataset_file_release(&dataset);
    return status;
}

bool checkpoint_point(const char *image, struct history_point *point)
{
    struct dataset_file dataset;
    struct message message;
    bool has_point;

    if (load_dataset(image, &dataset, &message) != STATUS_OK)
        return false;
    has_point = dataset.has_point;
    *point = dataset.point;
    dataset_file_release(&dataset);
    return has_point;
}

bool checkpoint_is_by_slot(const char *image)
{
    struct dataset_file dataset;
    struct message message;
    bool is_by_slot;

    if (load_dataset(image, &dataset, &message) != STATUS_OK)
        return false;
    is_by_slot = dataset.seed.by_slot;
    dataset_file_release(&dataset);
    return is_by_slot;
}

enum status checkpoint_functions(const char *image, struct buffer *dump, struct message *message)
{
    char path[PATH_SIZE];
    struct dataset_file dataset;
    enum status status = load_dataset(image, &dataset, message);
    bool has_functions = dataset.functions.name != NULL;

    if (status == STATUS_OK)
        status = dataset_file_verify_functions(&dataset, image, message);
    dataset_file_release(&dataset);
    if (status != STATUS_OK || !has_functions)
        return status;
    snprintf(path, sizeof(path), "%s/functions", image);
    status = file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX / 2, dump);
    if (status != STATUS_OK)
        message_set(message, "can't read '%.150s': %.60s", path, strerror(errno));
    return status;
}

void checkpoint_set_databases(const struct image_databases *databases, struct partitions *partitions)
{
    partitions->incarnation_last = databases->incarnation_last;
    partitions->value_count = databases->value_count;
    partitions->has_renamed = databases->has_renamed;
    for (int db = 0; db < databases->count; db++)
        partitions->incarnations[db] = databases->incarnations[db];
    for (int db = databases->count; db < partitions->db_count; db++)
        partitions->incarnations[db] = partitions_next_incarnation(partitions);
}

enum status checkpoint_dataset(const char *image, struct partitions *partitions, uint64_t *number, struct message *message)
{
    struct image_databases databases;
    enum status status = checkpoint_databases(image, &databases, message);

    if (status != STATUS_OK)
        return status;
    if (databases.count > partitions->db_count) {
        message_set(message, "the image has %d databases, the configuration only %d", databases.count, partitions->db_count);
        mem_free(databases.incarnations);
        return STATUS_INVALID;
    }
    *number = databases.number;
    checkpoint_set_databases(&databases, partitions);
    mem_free(databases.incarnations);
    return STATUS_OK;
}

/* Commits the image as the log's base. The flusher has to reach the cut first, which a disk that fails may keep it from. */
static enum status commit_log(struct aof *aof, const struct tier *tier, uint64_t lsn, const char *base, struct message *message)
{
    int64_t until_us = clock_mono_us() + COMMIT_US_MAX;
    enum status status = STATUS_LOCKED;

    while (status == STATUS_LOCKED && !aof_is_lost(aof) && !tier_image_is_cancelled(tier) && clock_mono_us() < until_us) {
        uint32_t version = waiting_version(aof_waiting(aof));

        status = aof_commit(aof, lsn, base, message);
        if (status == STATUS_LOCKED) {
            aof_request_sync(aof, lsn);
            waiting_wait(aof_waiting(aof), version, LOOK_MS);
        }
    }
    return status;
}

/* Arguments and results of what is done at the cut, besides the tier's part. */
struct cut {
    struct aof *aof;                /* NULL: no log */
    checkpoint_begins *begins;      /* NULL: nothing */
    void *context;
    uint64_t mark;                  /* set: see tier_image_mark */
};

/* Cut, seal, snapshot. With a log: it goes on in its next increment, and *lsn is the LSN of the cut. */
static enum status take_image(const struct checkpoint_data *data, struct cut *cut, const char *path, uint64_t *lsn,
    struct message *message)
{
    struct tier *tier = data->tier;
    struct partitions *partitions = data->partitions;
    struct library_set *libraries = NULL;
    struct buffer dataset = { 0 };
    uint64_t number = 0;
    enum status status;
    struct claim own = { .has_token = false }, *claim = data->owner != NULL ? data->owner : &own;
    struct history_point point;
    bool is_owned = false, has_point;

    tier_image_begin(tier);
    status = tier_clean(tier, message);
    if (status != STATUS_OK)
        goto out;
    partitions_lock_all_unowned(partitions, claim);        /* a cut through a transaction would keep half of it */
    if (!tier_may_cut(tier)) {
        partitions_unlock_all_unowned(partitions, claim);
        message_set(message, "the last one failed, and the store has not recovered from it yet");
        status = STATUS_LOCKED;
        goto out;
    }
    if (cut->aof != NULL)
        *lsn = aof_cut(cut->aof);
    if (cut->begins != NULL)
        cut->begins(cut->context);
    if (data->at_cut != NULL)
        data->at_cut(data->context);
    if (data->registry != NULL)
        libraries = registry_libraries(data->registry);
    has_point = data->history != NULL && history_is_on(data->history);
    if (has_point)
        history_point(data->history, &point);
    print_databases(partitions, &dataset);
    tier_cut(tier);
    is_owned = data->owner != NULL;
    if (is_owned)
        partitions_unlock_all_owned(partitions, claim);
    else
        partitions_unlock_all_unowned(partitions, claim);
    status = tier_image(tier, path, &number, message);
    cut->mark = tier_image_mark(tier);
    if (status == STATUS_OK && !data->is_read_once)
        tier_remember_hot(tier, path);
    if (status == STATUS_OK && libraries != NULL && libraries->count > 0)
        status = write_functions(path, libraries);
    if (status == STATUS_OK)
        status = write_dataset(path, &dataset, number, tier_seed(tier), partitions, has_point ? &point : NULL);
out:
    tier_image_end(tier);
    if (is_owned && status != STATUS_OK)
        partitions_give_all(partitions, claim);
    library_set_release(libraries);
    buffer_release(&dataset);
    if (status != STATUS_OK && message_is_empty(message))
        message_set(message, "%s", status_name(status));
    return status;
}

enum status checkpoint_image(const struct checkpoint_data *data, const char *path, struct message *message)
{
    struct cut cut = { .aof = NULL };
    enum status status = take_image(data, &cut, path, NULL, message);

    if (status != STATUS_OK)
        tree_remove(path);
    return status;
}

enum status checkpoint_run(struct aof *aof, const struct checkpoint_data *data, const char *dir, const char *name, struct message *message)
{
    return checkpoint_begin_log(aof, data, dir, name, NULL, NULL, message);
}

/* Finds a name that no image has: after the clock was set back, the time may be that of the current base. */
static void name_image(const char *dir, const char *name, char base[BASE_SIZE], char image[PATH_SIZE])
{
    long long us = clock_wall_us();

    do {
        snprintf(base, BASE_SIZE, "%s.%lld%s", name, us++, AOF_NAME_IMAGE_END);
        snprintf(image, PATH_SIZE, "%s/%s", dir, base);
    } while (access(image, F_OK) == 0);
}

enum status checkpoint_begin_log(struct aof *aof, const struct checkpoint_data *data, const char *dir, const char *name,
    checkpoint_begins *begins, void *context, struct message *message)
{
    struct cut cut = { .aof = aof, .begins = begins, .context = context };
    char base[BASE_SIZE], image[PATH_SIZE];
    uint64_t lsn = 0;
    enum status status = aof_prepare(aof, message);

    if (status != STATUS_OK)
        return status;
    name_image(dir, name, base, image);
    status = take_image(data, &cut, image, &lsn, message);
    if (status == STATUS_OK)
        status = directory_sync(disk_system(), dir);
    if (status != STATUS_OK)
        tree_remove(image);                 /* no manifest names it */
    else
        status = commit_log(aof, data->tier, lsn, base, message);
    /* A commit that failed may be on the disk nevertheless: its image stays until a commit succeeds, or until the next start. (aof_base
     * can't be used here: the flusher replaces the manifest when an fsync fails.) */
    if (status == STATUS_OK) {
        tier_image_is_base(data->tier, cut.mark);
        checkpoint_clean(dir, base);
    }
    if (status != STATUS_OK && message_is_empty(message))
        message_set(message, "%s", status_name(status));
    return status;
}
