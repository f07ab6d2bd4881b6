#include "persist/rdb_save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mapped.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "base/version.h"
#include "keyspace/heat.h"
#include "keyspace/page_name.h"
#include "persist/checkpoint.h"
#include "persist/rdb_writer.h"
#include "script/library_dump.h"
#include "store/store.h"
#include "tier/image_pages.h"
#include "tier/record.h"
#include "tier/tags.h"
#include "tier/tags_rebuild.h"
#include "value/codec.h"

enum {
    PATH_SIZE = 4096,
    SYNC_SIZE = 32 << 20,           /* bytes; a file that is synced only at its end delays every other fsync */
    CONVERTED_KEPT = 1 << 20,       /* bytes of memory */
    GROWN_NS = 10000000,            /* between two flushes of a file that is read while it grows */
    TAGS_PARTITIONS = 256,          /* of tags that are made here: any power of two */
    PROGRESS_KEYS = 256,            /* keys between two calls of update_progress */
    KEY_SHOWN_MAX = 100,            /* bytes of a key in a message */
};

struct saving {
    const struct rdb_save_options *options;
    struct rdb_save_progress *progress;
    struct message *message;
    char reading[PATH_SIZE], temp[PATH_SIZE];
    struct store *store;
    uint32_t *incarnations;         /* by database */
    uint64_t *counts;               /* of keys */
    int db_count;
    struct mapped tags_file;
    struct buffer tags_made;        /* if the file can't be used */
    int fd;
    struct rdb_writer *writer;
    struct image_roots roots;       /* of values in pages, of the database that is written */
    struct buffer unpacked;         /* a payload that was packed in its record */
    struct buffer converted;        /* a payload whose form in the file differs from that in its record */
    uint64_t synced;
    int64_t flushed_ns;
    uint64_t keys;
    struct heat_settings heat;
    uint16_t minutes;
};

static enum status fail_saving(struct saving *saving, enum status status, const char *what, const char *why)
{
    message_set(saving->message, "%s: %.160s", what, why);
    return status;
}

static enum status save_cancelled(struct saving *saving)
{
    return fail_saving(saving, STATUS_CLOSED, "The save was ended", "it was cancelled");
}

static enum status write_failed(struct saving *saving, enum status status)
{
    int error = rdb_writer_error(saving->writer);

    if (status == STATUS_CANCELLED)
        return save_cancelled(saving);
    return fail_saving(saving, status, "Write error saving the RDB file", error != 0 ? strerror(error) : status_name(status));
}

static bool count_section(void *context, const struct tags_section *section)
{
    struct saving *saving = context;

    for (int db = 0; db < saving->db_count; db++) {
        if (saving->incarnations[db] == section->incarnation) {
            saving->counts[db] += section->count;
            saving->progress->key_total += section->count;
        }
    }
    return true;
}

/* With many keys the file is larger than what the save may take of memory. */
static struct tags_file tags_of(const struct saving *saving)
{
    if (saving->tags_made.size > 0)
        return (struct tags_file){ .bytes = buffer_bytes(&saving->tags_made) };
    return (struct tags_file){ saving->tags_file.bytes, saving->options->image, mapped_forget };
}

static enum status count_keys(struct saving *saving)
{
    struct tags_file tags = tags_of(saving);
    uint32_t partition_count;

    return tags_walk_file(&tags, &partition_count, count_section, saving, NULL);
}

/* Makes them for the databases and their page spaces. */
static enum status make_tags(struct saving *saving)
{
    int count = saving->db_count;
    uint32_t *incarnations = mem_alloc(((size_t)count * 2 + 1) * sizeof(*incarnations));
    enum status status;

    for (int db = 0; db < count; db++) {
        incarnations[db] = saving->incarnations[db];
        incarnations[count + db] = saving->incarnations[db] | INCARNATION_PAGES;
    }
    status = tags_make(saving->store, incarnations, count * 2, TAGS_PARTITIONS, &saving->tags_made, saving->message);
    mem_free(incarnations);
    return status;
}

/* The image's tags. If the file is missing or damaged, they are found in the store. */
static enum status open_tags(struct saving *saving)
{
    char path[PATH_SIZE];
    struct message problem;
    enum status status = STATUS_OK;

    if (snprintf(path, sizeof(path), "%s/tags", saving->options->image) >= PATH_SIZE)
        return fail_saving(saving, STATUS_INVALID, "The image's path is too long", saving->options->image);
    (void)mapped_open(path, &saving->tags_file, &problem);
    if (count_keys(saving) == STATUS_OK)
        return STATUS_OK;
    status = make_tags(saving);
    return status == STATUS_OK ? count_keys(saving) : status;
}

/* Opens a clone within the image, as an image of an older version can't be opened as it is. What an earlier attempt left is removed first. */
static enum status open_image(struct saving *saving)
{
    const char *image = saving->options->image;
    struct store_options options = { .dir = saving->reading, .is_read_only = true };
    char path[PATH_SIZE];
    struct image_databases databases;
    enum status status = checkpoint_databases(image, &databases, saving->message);

    if (status != STATUS_OK)
        return status;
    saving->incarnations = databases.incarnations;
    saving->db_count = databases.count;
    saving->counts = mem_zalloc(((size_t)saving->db_count + 1) * sizeof(uint64_t));
    if (snprintf(path, sizeof(path), "%s/store", image) >= PATH_SIZE ||
        snprintf(saving->reading, sizeof(saving->reading), "%s/reading", image) >= PATH_SIZE)
        return fail_saving(saving, STATUS_INVALID, "The image's path is too long", image);
    status = store_remove(saving->reading, NULL);
    if (status != STATUS_OK) {
        saving->reading[0] = '\0';
        return fail_saving(saving, status, "Can't remove what an earlier save left in the image", status_name(status));
    }
    status = store_clone(path, saving->reading, NULL, saving->message);
    if (status == STATUS_OK)
        status = store_open(&options, &saving->store, saving->message);
    if (status == STATUS_OK && store_number(saving->store) != databases.number) {
        message_set(saving->message, "The image's store has batch %llu as its last, it was made with %llu",
            (unsigned long long)store_number(saving->store), (unsigned long long)databases.number);
        status = STATUS_CORRUPT;
    }
    return status == STATUS_OK ? open_tags(saving) : status;
}

/* A name beside the file's, and no other save's: one for DEBUG LOADAOF may run beside that of the dump. */
static enum status open_temp(struct saving *saving)
{
    char *copy = mem_string(bytes_of_string(saving->options->path));
    int size = snprintf(saving->temp, sizeof(saving->temp), "%s/temp-%" PRId64 ".rdb", dirname(copy), clock_mono_ns());

    mem_free(copy);
    if (size >= PATH_SIZE) {
        saving->temp[0] = '\0';
        return fail_saving(saving, STATUS_INVALID, "The RDB file's path is too long", saving->options->path);
    }
    saving->fd = open(saving->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (saving->fd < 0) {
        enum status status = status_of_errno(errno);

        (void)fail_saving(saving, status, "Failed opening the temp RDB file for saving", strerror(errno));
        saving->temp[0] = '\0';
        return status;
    }
    return STATUS_OK;
}

static bool note_written(void *context, uint64_t size)
{
    struct saving *saving = context;

    saving->flushed_ns = clock_mono_ns();
    if (saving->options->grown != NULL)
        saving->options->grown(saving->options->context, size);
    return !saving->progress->cancel;
}

static enum status open_file(struct saving *saving)
{
    const struct rdb_save_options *options = saving->options;
    bool has_path = options->path != NULL;
    struct rdb_writer_options of_writer = { .without_checksum = options->without_checksum, .compress = options->compress };
    enum status status = has_path ? open_temp(saving) : STATUS_OK;

    if (status != STATUS_OK)
        return status;
    of_writer.fd = has_path ? saving->fd : options->fd;
    if (!has_path) {
        of_writer.version = options->field_times == RDB_TIMES_ALLOWED ? CODEC_RDB_VERSION_TIMES : CODEC_RDB_VERSION;
        of_writer.wrote = note_written;
        of_writer.context = saving;
    }
    saving->writer = rdb_writer_create(&of_writer);
    return STATUS_OK;
}

static void write_aux_number(struct saving *saving, const char *name, int64_t number)
{
    char digits[TEXT_INT_SIZE];

    (void)rdb_write_aux(saving->writer, bytes_of_string(name), bytes_of(digits, text_of_int(number, digits)));
}

/* The writer's errors are sticky: a failure here is seen at the next write. */
static void write_head(struct saving *saving)
{
    const struct rdb_save_options *options = saving->options;

    (void)rdb_write_aux(saving->writer, BYTES("redis-ver"), BYTES(REDIS_VERSION));
    write_aux_number(saving, "redis-bits", 64);
    write_aux_number(saving, "ctime", clock_wall_ms() / 1000);
    write_aux_number(saving, "used-mem", (int64_t)options->used_memory);
    for (size_t i = 0; i < options->aux_count; i++)
        (void)rdb_write_aux(saving->writer, options->aux[i].name, options->aux[i].value);
    write_aux_number(saving, "aof-base", 0);
}

static bool write_function(void *context, struct bytes text, struct buffer *error)
{
    struct saving *saving = context;

    (void)rdb_write_function(saving->writer, text);     /* its errors are sticky */
    return true;
}

static enum status write_functions(struct saving *saving)
{
    struct buffer dump = { 0 }, error = { 0 };
    enum status status = checkpoint_functions(saving->options->image, &dump, saving->message);

    if (dump.size > 0 && !library_dump_read(buffer_bytes(&dump), SIZE_MAX, write_function, saving, &error))
        status = fail_saving(saving, STATUS_CORRUPT, "The image's functions can't be read", "they are damaged");
    buffer_release(&dump);
    buffer_release(&error);
    return status;
}

/* So that the disk is not given all at its end, which would delay every other fsync. */
static enum status sync_written(struct saving *saving, uint64_t size)
{
    int fd = saving->options->path != NULL ? saving->fd : saving->options->fd;

    if (size - saving->synced < SYNC_SIZE)
        return STATUS_OK;
    saving->synced = size;
    return fdatasync(fd) == 0 ? STATUS_OK : fail_saving(saving, status_of_errno(errno), "Write error saving the RDB file", strerror(errno));
}

/* Called from time to time: updates the progress, lets readers of a file that grows have what is buffered, and ends the save if it was
 * cancelled. */
static enum status update_progress(struct saving *saving)
{
    uint64_t size = rdb_writer_size(saving->writer);
    enum status status = STATUS_OK;

    saving->progress->keys = saving->keys;
    saving->progress->bytes = size;
    if (saving->progress->cancel)
        return save_cancelled(saving);
    if (saving->options->path == NULL && clock_mono_ns() - saving->flushed_ns >= GROWN_NS)
        status = rdb_writer_flush(saving->writer);
    return status == STATUS_OK ? sync_written(saving, size) : write_failed(saving, status);
}

static void delay_after_key(const struct saving *saving)
{
    int64_t delay_us = saving->options->key_delay_us;

    if (delay_us < 0)
        delay_us = saving->keys % (uint64_t)-delay_us == 0;
    if (delay_us > 0)
        usleep((useconds_t)delay_us);
}

/* The record's payload as it is in the file. */
static enum status convert_payload(struct saving *saving, struct bytes *payload)
{
    enum status status = codec_for_dump(*payload, &saving->converted, payload);

    if (status != STATUS_OK || saving->options->field_times == RDB_TIMES_ALLOWED || !codec_has_times(*payload))
        return status;
    if (saving->options->field_times == RDB_TIMES_REFUSED)
        return STATUS_VERSION;
    saving->progress->times_dropped++;
    return codec_without_times(*payload, &saving->converted, payload);
}

static enum status name_record(struct saving *saving, struct bytes key, enum status status)
{
    int shown = (int)(key.size < KEY_SHOWN_MAX ? key.size : KEY_SHOWN_MAX);

    if (status == STATUS_VERSION)
        message_set(saving->message, "The hash '%.*s' has fields with expiry times, which the version of the RDB format that was asked for "
            "does not have", shown, key.data);
    else
        message_set(saving->message, "The record of the key '%.*s' in the image can't be read: %s", shown, key.data, status_name(status));
    return status;
}

/* `record`: the key's, whose head counts. */
static enum status write_key(struct saving *saving, const struct record *record, struct rdb_key *key)
{
    enum status status;

    key->expire_ms = record->expire_ms;
    if (saving->options->with_freq)
        key->freq = heat_now(&saving->heat, record->heat, record->heat_minutes, saving->minutes);
    status = rdb_write_key(saving->writer, key);
    return status == STATUS_OK ? status : write_failed(saving, status);
}

static enum status end_key(struct saving *saving, size_t size)
{
    saving->keys++;
    if (saving->options->key_delay_us != 0)
        delay_after_key(saving);
    if (saving->keys % PROGRESS_KEYS == 0 || saving->options->key_delay_us > 0 || size > SYNC_SIZE / 4)
        return update_progress(saving);
    return STATUS_OK;
}

static enum status write_record(void *context, const struct image_item *found)
{
    struct saving *saving = context;
    struct record record;
    struct rdb_key key = { .key = found->key, .freq = -1 };
    enum status status = record_split(found->record, store_dictionaries(saving->store), &saving->unpacked, &record, &key.payload);

    if (status == STATUS_INVALID) {
        image_roots_add(&saving->roots, found);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = convert_payload(saving, &key.payload);
    if (status != STATUS_OK)
        return name_record(saving, found->key, status);
    status = write_key(saving, &record, &key);
    saving->converted.size = saving->unpacked.size = 0;
    buffer_shrink(&saving->converted, CONVERTED_KEPT);
    return status == STATUS_OK ? end_key(saving, key.payload.size) : status;
}

static enum status begin_paged(void *context, const struct image_item *found, struct bytes payload)
{
    struct saving *saving = context;
    struct rdb_key key = { .key = found->key, .freq = -1, .payload = payload };
    struct bytes nothing;
    struct record record;
    enum status status;

    if (saving->options->field_times == RDB_TIMES_REFUSED && codec_has_times(payload))
        return name_record(saving, found->key, STATUS_VERSION);
    (void)record_split(found->record, NULL, &saving->unpacked, &record, &nothing);      /* its head */
    status = write_key(saving, &record, &key);
    return status == STATUS_OK ? end_key(saving, 0) : status;
}

static enum status write_elements(void *context, const struct image_item *found, uint8_t type, struct bytes elements)
{
    struct saving *saving = context;
    enum status status = rdb_write_elements(saving->writer, type, elements);

    (void)found;
    return status == STATUS_OK ? update_progress(saving) : write_failed(saving, status);
}

static enum status end_paged(void *context, struct bytes bytes)
{
    struct saving *saving = context;
    enum status status = rdb_write_end(saving->writer, bytes);

    return status == STATUS_OK ? STATUS_OK : write_failed(saving, status);
}

/* A database without keys is not in the file. */
static enum status write_database(struct saving *saving, int db)
{
    struct message problem = { "" };
    struct tags_file tags = tags_of(saving);
    uint64_t times_dropped = 0;
    struct image_value_found paged = { begin_paged, write_elements, end_paged, saving, saving->options->field_times == RDB_TIMES_DROPPED ? &times_dropped : NULL };
    enum status status;

    if (saving->counts[db] == 0)
        return STATUS_OK;
    status = rdb_write_db(saving->writer, (uint64_t)db, saving->counts[db], RDB_COUNT_UNKNOWN);
    if (status != STATUS_OK)
        return write_failed(saving, status);
    status = image_walk(saving->store, &tags, saving->incarnations[db], 0, write_record, saving, &problem);
    if (status == STATUS_OK)
        status = image_pages_read(saving->store, &tags, saving->incarnations[db], &saving->roots, &paged, &problem);
    saving->progress->times_dropped += times_dropped;
    image_roots_release(&saving->roots);
    if (status != STATUS_OK && message_is_empty(saving->message))
        message_set(saving->message, "Can't read the image's store: %s", message_is_empty(&problem) ? status_name(status) : problem.text);
    return status;
}

/* Synced, and under its name. */
static enum status name_file(struct saving *saving)
{
    enum status status;

    if (fsync(saving->fd) != 0)
        return fail_saving(saving, status_of_errno(errno), "Write error saving the RDB file", strerror(errno));
    if (rename(saving->temp, saving->options->path) != 0)
        return fail_saving(saving, status_of_errno(errno), "Error moving the temp RDB file to its place", strerror(errno));
    saving->temp[0] = '\0';
    status = directory_sync_parent(disk_system(), saving->options->path);
    return status == STATUS_OK ? STATUS_OK : fail_saving(saving, status, "Can't sync the RDB file's folder", status_name(status));
}

static enum status finish_file(struct saving *saving)
{
    enum status status = update_progress(saving);

    if (status != STATUS_OK)
        return status;
    status = rdb_writer_end(saving->writer);
    if (status != STATUS_OK)
        return write_failed(saving, status);
    saving->progress->bytes = rdb_writer_size(saving->writer);
    return saving->options->path != NULL ? name_file(saving) : STATUS_OK;
}

static enum status write_file(struct saving *saving)
{
    const struct rdb_save_options *options = saving->options;
    enum status status = STATUS_OK;

    write_head(saving);
    if (!options->without_functions)
        status = write_functions(saving);
    for (int db = 0; db < saving->db_count && status == STATUS_OK && !options->without_keys; db++)
        status = write_database(saving, db);
    return status == STATUS_OK ? finish_file(saving) : status;
}

enum status rdb_save(const struct rdb_save_options *options, struct rdb_save_progress *progress, struct message *message)
{
    struct saving *saving = mem_zalloc(sizeof(*saving));
    enum status status;

    message->text[0] = '\0';
    saving->options = options;
    saving->progress = progress;
    saving->message = message;
    saving->fd = -1;
    saving->heat.decay_minutes = options->lfu_decay_minutes;
    saving->minutes = heat_minutes(clock_wall_ms());
    status = open_image(saving);
    if (status == STATUS_OK)
        status = open_file(saving);
    if (status == STATUS_OK)
        status = write_file(saving);
    if (saving->fd >= 0)
        close(saving->fd);
    if (saving->temp[0] != '\0')
        unlink(saving->temp);
    rdb_writer_destroy(saving->writer);
    store_close(saving->store);
    if (saving->reading[0] != '\0')
        (void)store_remove(saving->reading, NULL);         /* what is left is removed with the image */
    buffer_release(&saving->converted);
    buffer_release(&saving->unpacked);
    buffer_release(&saving->tags_made);
    mapped_close(&saving->tags_file);
    mem_free(saving->incarnations);
    mem_free(saving->counts);
    mem_free(saving);
    return status;
}
