#include "support/store_box.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

enum { BATCH_OPERATIONS = 8 };

#define DEMAND(box, cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: seed %llu: %s: ", __FILE__, __LINE__, (unsigned long long)(box)->seed, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, "\n"); \
            abort(); \
        } \
    } while (0)

void box_create(struct box *box, uint64_t seed)
{
    const char *temporary = getenv("TMPDIR");

    *box = (struct box){ .record_size = 600, .seed = seed };
    snprintf(box->root, sizeof(box->root), "%s/store-XXXXXX", temporary != NULL ? temporary : "/tmp");
    CHECK(mkdtemp(box->root) != NULL);
    snprintf(box->dir, sizeof(box->dir), "%s/store", box->root);
    box->disk = faulty_disk_create();
    box->env = store_env_create(faulty_disk_table(box->disk));
    box->options = (struct store_options){
        .dir = box->dir,
        .env = box->env,
        .write_buffer_size = 64 * 1024,
        .block_size = 1024,
    };
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat, (void)type, (void)ftw;
    return remove(path);
}

void box_destroy(struct box *box)
{
    box_close(box);
    store_env_destroy(box->env);
    faulty_disk_destroy(box->disk);
    CHECK(nftw(box->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

enum status box_open(struct box *box)
{
    box->options.dir = box->dir;
    return store_open(&box->options, &box->store, &box->message);
}

void box_close(struct box *box)
{
    store_close(box->store);
    box->store = NULL;
}

void box_restart(struct box *box)
{
    char image[128];

    snprintf(image, sizeof(image), "%s/restart-image", box->root);
    DEMAND(box, store_snapshot(box->store, image, &box->message) == STATUS_OK, "%s", box->message.text);
    box_close(box);
    DEMAND(box, store_remove(box->dir, box->env) == STATUS_OK, "%s", box->dir);
    DEMAND(box, store_clone(image, box->dir, box->env, &box->message) == STATUS_OK, "%s", box->message.text);
    DEMAND(box, store_remove(image, box->env) == STATUS_OK, "%s", image);
    DEMAND(box, box_open(box) == STATUS_OK, "%s", box->message.text);
}

uint64_t box_hash(struct store *store, uint32_t key, char *name, struct bytes *name_bytes)
{
    struct hash_seed seed = store_seed(store);

    name_bytes->data = name;
    name_bytes->size = (size_t)snprintf(name, 32, "key:%u", key);
    return hash_bytes(&seed, *name_bytes);
}

static uint32_t batch_key(uint64_t number, int operation)
{
    return (uint32_t)((number * 37 + (uint64_t)operation * 101) % BOX_KEYS);
}

static bool batch_deletes(uint64_t number, int operation)
{
    return (number + (uint64_t)operation) % 5 == 0;
}

static void record_make(struct box *box, uint64_t version, uint32_t key, struct buffer *record)
{
    record->size = 0;
    buffer_append_format(record, "key %u version %llu ", key, (unsigned long long)version);
    while (record->size < box->record_size)
        buffer_append_u8(record, (uint8_t)(record->size * 31 + version * 17 + key));
}

enum status box_write(struct box *box)
{
    struct store_batch *batch = store_batch_create();
    uint64_t number = store_number(box->store) + 1;
    struct buffer record;
    uint64_t places[BOX_KEYS];
    enum status status;

    buffer_init(&record);
    memcpy(places, box->places, sizeof(places));
    for (int i = 0; i < BATCH_OPERATIONS; i++) {
        uint32_t key = batch_key(number, i);
        struct bytes name;
        char text[32];
        uint64_t hash = box_hash(box->store, key, text, &name);

        record_make(box, number, key, &record);
        if (batch_deletes(number, i)) {
            store_batch_delete(batch, BOX_INCARNATION, hash, name);
            places[key] = 0;
        } else {
            store_batch_index(batch, BOX_INCARNATION, hash, name);
            places[key] = store_batch_append(box->store, batch, 0, BOX_INCARNATION, 0, name, buffer_bytes(&record), 0);
        }
    }
    status = store_write(box->store, batch);
    if (status == STATUS_OK)
        memcpy(box->places, places, sizeof(places));
    store_batch_destroy(batch);
    buffer_release(&record);
    return status;
}

void box_write_many(struct box *box, int count)
{
    for (int i = 0; i < count; i++) {
        enum status status = box_write(box);
        DEMAND(box, status == STATUS_OK, "%s", status_name(status));
    }
}

void box_retry(struct box *box)
{
    for (int i = 0; i < 1000; i++) {
        if (store_retry(box->store, &box->message) == STATUS_OK)
            return;
    }
    DEMAND(box, false, "can't be written: %s", box->message.text);
}

static enum status read_record(struct box *box, struct store *store, uint32_t key, struct bytes name, struct buffer *record)
{
    struct segment *segment = segments_pin(store_segments(store), box->places[key]);
    struct segment_buffer scratch = { 0 };
    enum status status = segments_read(store_segments(store), segment, box->places[key], SEGMENT_BUFFERED, BOX_INCARNATION, name, &scratch, record,
        NULL);

    segments_unpin(segment);
    segment_buffer_release(&scratch);
    return status;
}

uint64_t box_version(uint64_t number, uint32_t key)
{
    for (; number > 0; number--)
        for (int i = BATCH_OPERATIONS - 1; i >= 0; i--)
            if (batch_key(number, i) == key)
                return batch_deletes(number, i) ? 0 : number;
    return 0;
}

void box_verify_key(struct box *box, struct store *store, uint64_t number, uint32_t key, enum status allowed)
{
    uint64_t version = box_version(number, key);
    struct buffer record, wanted;
    struct bytes name;
    char text[32];
    uint64_t hash = box_hash(store, key, text, &name);
    enum status status;

    buffer_init(&record);
    buffer_init(&wanted);
    status = store_has(store, BOX_INCARNATION, hash, name);
    if (status == STATUS_OK && box->places[key] != 0)
        status = read_record(box, store, key, name, &record);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        DEMAND(box, allowed != STATUS_OK && status == allowed, "key %u: %s", key, status_name(status));
    } else if (status == STATUS_NOT_FOUND) {
        DEMAND(box, version == 0, "key %u is lost, should have version %llu", key, (unsigned long long)version);
    } else {
        record_make(box, version, key, &wanted);
        DEMAND(box, version != 0 && bytes_equal(buffer_bytes(&record), buffer_bytes(&wanted)),
            "key %u should have version %llu, but is %.40s", key, (unsigned long long)version, record.data);
    }
    buffer_release(&record);
    buffer_release(&wanted);
}

void box_verify(struct box *box, struct store *store, enum status allowed)
{
    struct store_iterator *iterator;
    struct store_record found;
    uint64_t number = store_number(store), before = 0;
    int count = 0, expected = 0;
    enum status status;

    for (uint32_t key = 0; key < BOX_KEYS; key++) {
        box_verify_key(box, store, number, key, allowed);
        expected += box_version(number, key) != 0;
    }
    iterator = store_scan(store, BOX_INCARNATION, 0);
    while ((status = store_next(iterator, &found)) == STATUS_OK) {
        uint32_t key = (uint32_t)atoi(found.key.data + 4);

        DEMAND(box, found.hash >= before, "the scan goes back");
        before = found.hash;
        DEMAND(box, box_version(number, key) != 0, "the scan has key %u", key);
        count++;
    }
    DEMAND(box, status == STATUS_NOT_FOUND ? count == expected : allowed != STATUS_OK && status == allowed,
        "the scan has %d of %d records and says %s", count, expected, status_name(status));
    store_scan_close(iterator);
}

int box_files(const char *dir, const char *end, char paths[][BOX_PATH_SIZE])
{
    DIR *stream = opendir(dir);
    struct dirent *entry;
    int count = 0;

    CHECK(stream != NULL);
    while ((entry = readdir(stream)) != NULL) {
        size_t size = strlen(entry->d_name), end_size = strlen(end);

        if (size < end_size || strcmp(entry->d_name + size - end_size, end) != 0 || entry->d_name[0] == '.')
            continue;
        CHECK(count < BOX_FILES_MAX);
        CHECK(snprintf(paths[count++], BOX_PATH_SIZE, "%s/%s", dir, entry->d_name) < BOX_PATH_SIZE);
    }
    closedir(stream);
    return count;
}

void box_flip(const char *path, uint64_t offset, int bit)
{
    int fd = open(path, O_RDWR);
    uint8_t byte;

    CHECK(fd >= 0);
    CHECK(pread(fd, &byte, 1, (off_t)offset) == 1);
    byte ^= (uint8_t)(1 << bit);
    CHECK(pwrite(fd, &byte, 1, (off_t)offset) == 1);
    close(fd);
}

uint64_t box_file_size(const char *path)
{
    struct stat file;

    CHECK(stat(path, &file) == 0);
    return (uint64_t)file.st_size;
}
