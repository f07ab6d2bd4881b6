#include "persist/backup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/message.h"
#include "base/progress_report.h"
#include "base/random.h"
#include "base/text.h"
#include "base/tree.h"
#include "base/version.h"
#include "persist/aof_manifest.h"
#include "persist/aof_name.h"
#include "persist/image_keys.h"
#include "store/store.h"

enum { NOTE_SIZE_MAX = 64 << 20 };

static const char stage_name[] = "kelvin-stage";

static enum status fail_invalid(struct message *message, const char *format, const char *path)
{
    message_set(message, format, path);
    return STATUS_INVALID;
}

static enum status fail_errno(struct message *message, const char *what, const char *path)
{
    int error = errno;

    message_set(message, "%s '%.150s': %.60s", what, path, strerror(error));
    return status_of_errno(error);
}

static bool make_path(char *path, const char *format, const char *a, const char *b)
{
    return snprintf(path, TREE_PATH_SIZE, format, a, b) < TREE_PATH_SIZE - 64;
}

static bool is_empty_dir(const char *path)
{
    DIR *list = opendir(path);
    struct dirent *entry;
    bool empty = list != NULL;

    while (empty && (entry = readdir(list)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (list != NULL)
        closedir(list);
    return empty;
}

static enum status sync_parent(const char *path, struct message *message)
{
    return directory_sync_parent(disk_system(), path) == STATUS_OK ? STATUS_OK : fail_errno(message, "can't sync the directory of", path);
}

/* Whether `path` (which need not exist) is in `dir`, a directory that the server owns and cleans. */
static bool is_in_own_directory(const char *path, const char *dir)
{
    char copy[TREE_PATH_SIZE], *parent, *ours = realpath(dir, NULL);
    size_t size = ours != NULL ? strlen(ours) : 0;
    bool inside;

    snprintf(copy, sizeof(copy), "%s", path);
    parent = realpath(dirname(copy), NULL);
    inside = ours != NULL && parent != NULL && strncmp(parent, ours, size) == 0 && (parent[size] == '\0' || parent[size] == '/');
    free(ours);
    free(parent);
    return inside;
}

static bool is_within(const char *path, const char *dir)
{
    char *root = realpath(dir, NULL);
    size_t size = root != NULL ? strlen(root) : 0;
    bool within;

    if (size == 1)
        size = 0;               /* "/" */
    within = root != NULL && strncmp(path, root, size) == 0 && (path[size] == '\0' || path[size] == '/');
    free(root);
    return within;
}

bool backup_is_below(const char *dir, const char *one, const char *other)
{
    char copy[TREE_PATH_SIZE], *path = realpath(dir, NULL);
    bool below;

    if (path == NULL && snprintf(copy, sizeof(copy), "%s", dir) < (int)sizeof(copy))
        path = realpath(dirname(copy), NULL);       /* it is to be created there */
    below = path != NULL && (is_within(path, one) || (other[0] != '\0' && is_within(path, other)));
    free(path);
    return below;
}

/* The log of a backup or of restored data: an image, increments (existing ones, or a first empty one), the manifest. */

static enum status write_manifest(const struct aof_manifest *manifest, const char *log, const char *name, struct message *message)
{
    char file[NAME_MAX + 1];
    int fd = open(log, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status status;
    bool replaced;

    if (fd < 0)
        return fail_errno(message, "can't open", log);
    if (snprintf(file, sizeof(file), "%s.manifest", name) >= (int)sizeof(file))
        status = fail_invalid(message, "the name '%.100s' is too long", name);
    else
        status = aof_manifest_save(manifest, fd, file, disk_system(), &replaced);
    if (status != STATUS_OK && message_is_empty(message))
        (void)fail_errno(message, "can't write the manifest in", log);
    close(fd);
    return status;
}

static enum status add_empty_increment(struct aof_manifest *manifest, const char *log, const char *name, uint64_t seq,
    struct message *message)
{
    char path[TREE_PATH_SIZE], file[NAME_MAX + 1];

    snprintf(file, sizeof(file), "%.200s.%" PRIu64 ".incr.aof", name, seq);
    aof_manifest_add(manifest, bytes_of_string(file), seq, AOF_FILE_INCREMENT);
    if (!make_path(path, "%s/%s", log, file))
        return fail_invalid(message, "the path of '%.100s' is too long", log);
    return tree_write_file(path, BYTES(""), message);
}

/* The name of a new base. */
static void make_image_name(char *file, const char *name)
{
    snprintf(file, NAME_MAX + 1, "%.200s.%lld%s", name, (long long)clock_wall_us(), AOF_NAME_IMAGE_END);
}

/* Making a backup */

static void make_id(char id[BACKUP_ID_SIZE])
{
    uint8_t bytes[(BACKUP_ID_SIZE - 1) / 2];

    random_system(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

/* `image` is in the directory `log`. */
static enum status take_image(const struct checkpoint_data *data, const char *store_dir, const char *log, const char *image,
    const _Atomic bool *stop, struct message *message)
{
    char stage[TREE_PATH_SIZE];
    struct tree_totals totals = { 0 };
    enum status status;

    if (!make_path(stage, "%s/%s", store_dir, stage_name))
        return fail_invalid(message, "the path '%.100s' is too long", store_dir);
    if (tree_is_one_mount(store_dir, log))
        return checkpoint_image(data, image, message);
    backup_clean(store_dir);
    status = checkpoint_image(data, stage, message);
    if (status == STATUS_OK)
        status = tree_clone(stage, image, store_is_table, stop, &totals, message);
    backup_clean(store_dir);
    return status;
}

void backup_clean(const char *store_dir)
{
    char stage[TREE_PATH_SIZE];

    if (make_path(stage, "%s/%s", store_dir, stage_name) && access(stage, F_OK) == 0)
        tree_remove(stage);
}

struct listing {
    struct buffer text;
    struct backup_result *result;
};

static bool add_file_line(void *context, const char *path, const struct stat *info)
{
    struct listing *listing = context;

    buffer_append_format(&listing->text, "file %llu %s\n", (unsigned long long)info->st_size, path);
    listing->result->files++;
    listing->result->bytes += (uint64_t)info->st_size;
    if (info->st_nlink == 1)
        listing->result->copied_bytes += (uint64_t)info->st_size;
    return true;
}

/* Writes the BACKUP text. It has the sizes of the image's files only: the others may grow when a server runs on the backup. */
static enum status write_note(const struct backup_places *places, const char *dir, const char *image, struct backup_result *result,
    struct message *message)
{
    struct listing listing = { .result = result };
    struct image_keys keys;
    char path[TREE_PATH_SIZE], when[64];
    time_t seconds = (time_t)(result->time_ms / 1000);
    struct tm utc;
    enum status status;

    status = image_keys_count(image, &keys, message);
    if (status != STATUS_OK)
        return status;
    gmtime_r(&seconds, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    buffer_append_format(&listing.text,
        "kelvin-backup 1\n# The data of a Kelvin server as of one instant. To come back, into a directory that has no data yet:\n"
        "#     kelvin-server <its configuration> --appendonly yes --restore <this directory>\n# docs/operating.md has more. "
        "kelvin-check <this directory> verifies it.\nid %s\ntime %s\ntime_ms %lld\nversion %s\nlogdir %s\nlogname %s\nimage %s\n",
        result->id, when, (long long)result->time_ms, KELVIN_VERSION, places->log_dir, places->log_name, strrchr(image, '/') + 1);
    for (int db = 0; db < keys.db_count; db++) {
        result->keys += keys.counts[db];
        if (keys.counts[db] > 0)
            buffer_append_format(&listing.text, "db %d keys %llu\n", db, (unsigned long long)keys.counts[db]);
    }
    image_keys_release(&keys);
    status = tree_walk(image, add_file_line, &listing, message);
    buffer_append_format(&listing.text, "end\n");
    if (status == STATUS_OK && !make_path(path, "%s/%s", dir, "BACKUP"))
        status = fail_invalid(message, "the path '%.100s' is too long", dir);
    if (status == STATUS_OK)
        status = tree_write_file(path, buffer_bytes(&listing.text), message);
    buffer_release(&listing.text);
    return status;
}

static enum status fill_backup(const struct checkpoint_data *data, const struct backup_places *places, const char *dir,
    const char *log, const _Atomic bool *stop, struct backup_result *result, struct message *message)
{
    char image[TREE_PATH_SIZE], file[NAME_MAX + 1];
    struct aof_manifest manifest;
    enum status status;

    aof_manifest_init(&manifest);
    make_image_name(file, places->log_name);
    aof_manifest_add(&manifest, bytes_of_string(file), 1, AOF_FILE_BASE);
    if (!make_path(image, "%s/%s", log, file))
        return fail_invalid(message, "the path '%.100s' is too long", dir);
    result->time_ms = clock_wall_ms();
    status = take_image(data, places->store_dir, log, image, stop, message);
    if (status == STATUS_OK)
        status = add_empty_increment(&manifest, log, places->log_name, 1, message);
    if (status == STATUS_OK)
        status = write_manifest(&manifest, log, places->log_name, message);
    if (status == STATUS_OK)
        status = write_note(places, dir, image, result, message);
    aof_manifest_release(&manifest);
    return status;
}

enum status backup_make(const struct checkpoint_data *data, const struct backup_places *places, const char *dir,
    const _Atomic bool *stop, struct backup_result *result, struct message *message)
{
    char log[TREE_PATH_SIZE], done[TREE_PATH_SIZE], note[TREE_PATH_SIZE];
    bool created;
    enum status status;

    message->text[0] = '\0';
    *result = (struct backup_result){ 0 };
    make_id(result->id);
    if (!make_path(done, "%s/%s", dir, places->log_dir) || !make_path(log, "%s%s", done, ".incomplete") ||
        !make_path(note, "%s/%s", dir, "BACKUP"))
        return fail_invalid(message, "the path '%.100s' is too long", dir);
    if (is_in_own_directory(dir, places->store_dir) || is_in_own_directory(dir, places->log_dir))
        return fail_invalid(message, "'%.150s' is in a directory of the server's own", dir);
    created = mkdir(dir, 0755) == 0;
    if (!created && errno != EEXIST)
        return fail_errno(message, "can't create", dir);
    if (!created && !is_empty_dir(dir))
        return fail_invalid(message, "'%.150s' exists and is not an empty directory", dir);
    if (mkdir(log, 0755) != 0) {        /* if another backup is being made there, it is left alone */
        status = fail_errno(message, "can't create", log);
        if (created)
            rmdir(dir);
        return status;
    }
    status = fill_backup(data, places, dir, log, stop, result, message);
    if (status == STATUS_OK)
        status = tree_sync(log, message);
    if (status == STATUS_OK && rename(log, done) != 0)
        status = fail_errno(message, "can't rename", log);
    if (status == STATUS_OK)
        status = tree_sync(dir, message);
    if (status == STATUS_OK)
        status = sync_parent(dir, message);
    if (status == STATUS_OK)
        return status;
    tree_remove(log);
    tree_remove(done);
    unlink(note);
    if (created)
        rmdir(dir);
    return status;
}

/* Restoring a backup */

/* The contents of a BACKUP text. */
struct note {
    char log_dir[NAME_MAX + 1], log_name[NAME_MAX + 1], image[NAME_MAX + 1];
    struct buffer text;
};

/* Copies the value of the line "<name> <value>". False: there is no such line, or its value does not fit. */
static bool find_note_value(const struct note *note, const char *name, char *value, size_t capacity)
{
    size_t size = strlen(name);

    for (const char *line = note->text.data; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        const char *end;

        if (*line == '\n')
            line++;
        end = strchr(line, '\n');
        if (strncmp(line, name, size) != 0 || line[size] != ' ' || end == NULL)
            continue;
        size = (size_t)(end - line) - size - 1;
        if (size == 0 || size >= capacity || memchr(end - size, '/', size) != NULL)
            return false;
        memcpy(value, end - size, size);
        value[size] = '\0';
        return true;
    }
    return false;
}

static enum status read_note(const char *from, struct note *note, struct backup_result *result, struct message *message)
{
    char path[TREE_PATH_SIZE], number[32];
    enum status status;

    *note = (struct note){ .text = { 0 } };
    if (!make_path(path, "%s/%s", from, "BACKUP"))
        return fail_invalid(message, "the path '%.100s' is too long", from);
    status = file_read_all(disk_system(), AT_FDCWD, path, NOTE_SIZE_MAX, &note->text);
    if (status == STATUS_NOT_FOUND || (status != STATUS_OK && errno == ENOTDIR))
        return fail_invalid(message, "there is no backup in '%.150s': it has no file BACKUP", from);
    if (status != STATUS_OK)
        return fail_errno(message, "can't read", path);
    buffer_append_u8(&note->text, 0);
    if (memcmp(note->text.data, "kelvin-backup ", note->text.size < 14 ? note->text.size : 14) != 0)
        return fail_invalid(message, "'%.150s' is not a text of a Kelvin backup", path);
    if (strncmp(note->text.data, "kelvin-backup 1\n", 16) != 0)
        return fail_invalid(message, "'%.150s' was written by a newer Kelvin", path);
    if (note->text.size < 6 || memcmp(note->text.data + note->text.size - 6, "\nend\n", 6) != 0 ||
        !find_note_value(note, "id", result->id, sizeof(result->id)) ||
        !find_note_value(note, "logdir", note->log_dir, sizeof(note->log_dir)) ||
        !find_note_value(note, "logname", note->log_name, sizeof(note->log_name)) ||
        !find_note_value(note, "image", note->image, sizeof(note->image)) || !find_note_value(note, "time_ms", number, sizeof(number)) ||
        !text_to_int(bytes_of_string(number), &result->time_ms))
        return fail_invalid(message, "'%.150s' is damaged", path);
    return STATUS_OK;
}

/* Checks that each file of the image exists and has the size it had. `*sum` is increased by the sizes. */
static enum status check_sizes(const struct note *note, const char *image, uint64_t *sum, struct message *message)
{
    for (const char *line = strstr(note->text.data, "\nfile "); line != NULL; line = strstr(line + 1, "\nfile ")) {
        char path[TREE_PATH_SIZE], name[NAME_MAX + 1];
        unsigned long long size;
        struct stat info;

        if (sscanf(line, "\nfile %llu %255[^\n]", &size, name) != 2 || !make_path(path, "%s/%s", image, name))
            return fail_invalid(message, "'%.150s': its BACKUP text is damaged", image);
        if (lstat(path, &info) != 0)
            return fail_errno(message, "a file of the backup is missing:", path);
        if ((unsigned long long)info.st_size != size) {
            message_set(message, "'%.150s' has %lld bytes instead of %llu", path, (long long)info.st_size, size);
            return STATUS_CORRUPT;
        }
        *sum += size;
    }
    return STATUS_OK;
}

/* Copies image and increments of the backup, with the names of the log here, and adds them to `manifest`. */
static enum status copy_files(const struct backup_places *places, const struct aof_manifest *old, const char *from, const char *log,
    struct aof_manifest *manifest, struct tree_totals *totals, struct message *message)
{
    enum status status = STATUS_OK;

    for (int i = 0; i < old->count && status == STATUS_OK; i++) {
        const struct aof_file *file = &old->files[i];
        char source[TREE_PATH_SIZE], target[TREE_PATH_SIZE], name[NAME_MAX + 1];

        if (file->type == AOF_FILE_HISTORY)
            continue;
        if (file->type == AOF_FILE_BASE)
            make_image_name(name, places->log_name);
        else
            snprintf(name, sizeof(name), "%.200s.%" PRIu64 ".incr.aof", places->log_name, file->seq);
        if (!make_path(source, "%s/%s", from, file->name) || !make_path(target, "%s/%s", log, name))
            return fail_invalid(message, "the path '%.100s' is too long", from);
        aof_manifest_add(manifest, bytes_of_string(name), file->seq, file->type);
        manifest->files[manifest->count - 1].valid_size = file->valid_size;
        status = file->type == AOF_FILE_BASE ? tree_clone(source, target, store_is_table, NULL, totals, message)
                                             : tree_copy_file(source, target, NULL, message);
    }
    return status;
}

static enum status check_image(const char *image, int databases, struct backup_result *result, struct message *message)
{
    struct image_keys keys;
    enum status status = image_keys_count(image, &keys, message);

    if (status != STATUS_OK)
        return status;
    for (int db = 0; db < keys.db_count; db++)
        result->keys += keys.counts[db];
    if (keys.db_count > databases) {
        message_set(message, "the backup has %d databases, the configuration only %d", keys.db_count, databases);
        status = STATUS_INVALID;
    }
    image_keys_release(&keys);
    return status;
}

static void note_restored(void *context, uint64_t bytes)
{
    progress_report_note(context, bytes);
}

static enum status restore_log(const struct backup_places *places, const struct note *note, const char *from, int databases,
    struct progress_report *report, struct backup_result *result, struct message *message)
{
    struct aof_manifest old, manifest;
    struct tree_totals totals = { .progress = note_restored, .progress_context = report };
    uint64_t size = 0;
    char path[TREE_PATH_SIZE], image[TREE_PATH_SIZE], log[TREE_PATH_SIZE], name[NAME_MAX + 1];
    struct aof_file *base;
    enum status status;
    int fd;

    if (!make_path(path, "%s/%s", from, note->log_dir) || !make_path(log, "%s%s", places->log_dir, ".incomplete"))
        return fail_invalid(message, "the path '%.100s' is too long", from);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_invalid(message, "'%.150s' does not exist: the backup was never completed", path);
    aof_manifest_init(&old);
    aof_manifest_init(&manifest);
    snprintf(name, sizeof(name), "%.200s.manifest", note->log_name);
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        status = fail_invalid(message, "a server runs on the backup '%.150s'", from);
    else
        status = aof_manifest_load(&old, fd, name, message);
    if (status == STATUS_NOT_FOUND)
        message_set(message, "the backup '%.150s' has no manifest", from);
    base = status == STATUS_OK ? aof_manifest_base(&old) : NULL;
    if (status == STATUS_OK && (base == NULL || !aof_name_is_image(base->name) || !make_path(image, "%s/%s", path, base->name)))
        status = fail_invalid(message, "the manifest in '%.150s' names no image", path);
    if (status == STATUS_OK && strcmp(base->name, note->image) == 0)
        status = check_sizes(note, image, &size, message);
    if (status == STATUS_OK)
        status = check_image(image, databases, result, message);
    tree_remove(log);
    if (status == STATUS_OK && mkdir(log, 0755) != 0)
        status = fail_errno(message, "can't create", log);
    progress_report_begin(report, "restoring the backup", PROGRESS_BYTES, size);
    if (status == STATUS_OK)
        status = copy_files(places, &old, path, log, &manifest, &totals, message);
    progress_report_hide(report);
    if (status == STATUS_OK && aof_manifest_last_seq(&manifest) == 0)
        status = add_empty_increment(&manifest, log, places->log_name, 1, message);
    if (status == STATUS_OK)
        status = write_manifest(&manifest, log, places->log_name, message);
    if (status == STATUS_OK && rename(log, places->log_dir) != 0)
        status = fail_errno(message, "can't rename", log);
    if (status == STATUS_OK)
        status = sync_parent(places->log_dir, message);
    else
        tree_remove(log);
    aof_manifest_release(&old);
    aof_manifest_release(&manifest);
    close(fd);
    result->files = totals.files;
    result->bytes = totals.bytes;
    result->copied_bytes = totals.copied_bytes;
    return status;
}

enum status backup_restore(const struct backup_places *places, const char *from, int databases, struct progress_report *report,
    struct backup_result *result, struct message *message)
{
    struct note note;
    enum status status;

    message->text[0] = '\0';
    *result = (struct backup_result){ 0 };
    if (access(places->log_dir, F_OK) == 0 && !is_empty_dir(places->log_dir))
        return fail_invalid(message, "there is data already, in '%.150s': nothing was changed", places->log_dir);
    if (access(places->log_name, F_OK) == 0)
        return fail_invalid(message, "there is data already, in '%.150s': nothing was changed", places->log_name);
    status = read_note(from, &note, result, message);
    if (status == STATUS_OK)
        status = restore_log(places, &note, from, databases, report, result, message);
    buffer_release(&note.text);
    return status;
}
