#include "base/message.h"
#include "persist/rdb_save.h"

#include "support/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/crc64.h"
#include "base/tree.h"
#include "store/store.h"
#include "support/store_image.h"
#include "tier/record.h"
#include "tier/tags_rebuild.h"

enum { PATH_SIZE = 256 };

/* An image made by hand, in a directory of its own: two databases with keys and one without. */
struct bench {
    char root[PATH_SIZE], image[PATH_SIZE + 16], path[PATH_SIZE + 16];
    uint64_t keys;
    struct message message;
    struct rdb_save_options options;
    struct rdb_save_progress progress;
};

/* Where put puts records: their places are in `tags`. */
struct target {
    struct store *store;
    struct store_batch *batch;
    struct tags_builder *tags;
};

static void put(const struct target *target, uint32_t incarnation, uint64_t order, const char *key, int64_t expire_ms, uint8_t heat,
    uint16_t minutes, struct bytes payload)
{
    struct buffer record = { 0 };
    uint64_t hash = order << 32;        /* keys have tags of their own */

    buffer_append_u8(&record, (uint8_t)(1 | (expire_ms >= 0 ? 0x80 : 0)));
    buffer_append_u8(&record, heat);
    buffer_append(&record, &minutes, 2);
    if (expire_ms >= 0)
        buffer_append(&record, &expire_ms, 8);
    buffer_append_bytes(&record, payload);
    store_batch_index(target->batch, incarnation, hash, bytes_of_string(key));
    tags_builder_add(target->tags, incarnation, hash, bytes_of_string(key), store_batch_append(target->store, target->batch, 0, incarnation, 0,
        bytes_of_string(key), buffer_bytes(&record), 0));
    if (expire_ms >= 0)
        store_batch_put_expiry(target->batch, expire_ms, incarnation, hash, bytes_of_string(key));
    buffer_release(&record);
}

static void write_file(const char *dir, const char *name, struct bytes text)
{
    char path[PATH_SIZE * 2];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    fclose(file);
}

/* `functions` is the file of that name; empty: there is none. */
static void write_dataset(const struct bench *bench, struct bytes functions)
{
    struct buffer text = { 0 };

    buffer_append_format(&text, "kelvin-image %d\npartitions 64\ndatabases 3\nlast 9\ndb 0 7\ndb 1 5\ndb 2 9\nstore 1\n", functions.size > 0 ? 2 : 1);
    if (functions.size > 0) {
        write_file(bench->image, "functions", functions);
        buffer_append_format(&text, "functions %zu %016llx\n", functions.size, (unsigned long long)crc64(0, functions));
    }
    buffer_append_format(&text, "end %016llx\n", (unsigned long long)crc64(0, buffer_bytes(&text)));
    write_file(bench->image, "dataset", buffer_bytes(&text));
    buffer_release(&text);
}

static void write_tags(const struct bench *bench, struct tags_builder *builder)
{
    struct buffer text = { 0 };

    tags_builder_print(builder, &text);
    write_file(bench->image, "tags", buffer_bytes(&text));
    tags_builder_destroy(builder);
    buffer_release(&text);
}

/* Two fields, one of them with a time. */
#define TIMED BYTES("\x18" "\x01\0\0\0\0\0\0\0" "\2" "\1\1f\1v" "\0\1g\1w")

static void image_write(struct bench *bench, int many, bool timed)
{
    char dir[PATH_SIZE + 32], name[32];
    struct message message;
    struct store_options options = { .dir = dir };
    struct target target = { .batch = store_batch_create(), .tags = tags_builder_create(64, false) };
    uint16_t now = (uint16_t)(clock_wall_ms() / 60000);

    snprintf(dir, sizeof(dir), "%s/store", bench->image);
    assert_int_equal(mkdir(bench->image, 0755), 0);
    assert_int_equal(store_open(&options, &target.store, &message), STATUS_OK);
    put(&target, 7, 10, "text", -1, 77, now, BYTES("\0\5hello"));
    put(&target, 7, 20, "number", 4102444800000, 30, (uint16_t)(now - 10), BYTES("\0\xc0\x2a"));
    put(&target, 7, 30, "gone", 1000, 5, now, BYTES("\0\4gone"));
    put(&target, 9, 15, "fields", -1, 5, now, BYTES("\4\1\1f\1v"));
    put(&target, 8, 15, "of a database that was flushed", -1, 5, now, BYTES("\0\1x"));
    bench->keys = timed ? 5 : 4;
    if (timed)
        put(&target, 9, 50, "timed", -1, 5, now, TIMED);
    for (int i = 0; i < many; i++, bench->keys++) {
        snprintf(name, sizeof(name), "many:%d", i);
        put(&target, 9, 100 + (uint64_t)i, name, -1, 5, now, BYTES("\0\5value"));
    }
    (void)store_batch_append(target.store, target.batch, 0, 7, 0, BYTES("text"), BYTES("a dead record"), 0);
    write_tags(bench, target.tags);
    assert_int_equal(store_write(target.store, target.batch), STATUS_OK);
    store_batch_destroy(target.batch);
    store_image_close(target.store);
    write_dataset(bench, (struct bytes){ NULL, 0 });
}

static void bench_init(struct bench *bench, int many)
{
    memset(bench, 0, sizeof(*bench));
    strcpy(bench->root, "/tmp/kelvin-save-XXXXXX");
    assert_non_null(mkdtemp(bench->root));
    snprintf(bench->image, sizeof(bench->image), "%s/image", bench->root);
    snprintf(bench->path, sizeof(bench->path), "%s/dump.rdb", bench->root);
    image_write(bench, many, false);
    bench->options = (struct rdb_save_options){ .image = bench->image, .path = bench->path };
}

static void bench_release(struct bench *bench)
{
    tree_remove(bench->image);
    unlink(bench->path);
    assert_int_equal(rmdir(bench->root), 0);        /* no other file was left in it */
}

static void file_read(const char *path, struct buffer *text)
{
    FILE *file = fopen(path, "r");
    size_t size;

    assert_non_null(file);
    text->size = 0;
    while ((size = fread(buffer_reserve(text, 1 << 16), 1, 1 << 16, file)) > 0)
        text->size += size;
    fclose(file);
}

static bool has(const struct buffer *text, struct bytes part)
{
    return memmem(text->data, text->size, part.data, part.size) != NULL;
}

/* Names and sizes of all files in the image's store. */
static void image_look(const struct bench *bench, struct buffer *out)
{
    char dir[PATH_SIZE + 32], path[PATH_SIZE * 3];
    struct dirent **names;
    struct stat info;
    int count;

    snprintf(dir, sizeof(dir), "%s/store", bench->image);
    count = scandir(dir, &names, NULL, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        assert_int_equal(stat(path, &info), 0);
        if (S_ISREG(info.st_mode))
            buffer_append_format(out, "%s %lld %lld.%09ld\n", names[i]->d_name, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                info.st_mtim.tv_nsec);
        free(names[i]);
    }
    free(names);
}

static void the_file_has_everything_in_the_image(void **state)
{
    static const struct rdb_aux aux[] = { { BYTES("kelvin-id"), BYTES("0123456789abcdef") } };
    struct bench bench;
    struct buffer text = { 0 };
    uint64_t crc;

    (void)state;
    bench_init(&bench, 0);
    bench.options.aux = aux;
    bench.options.aux_count = 1;
    bench.options.used_memory = 12345;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    assert_string_equal(bench.message.text, "");
    file_read(bench.path, &text);
    assert_memory_equal(text.data, "REDIS0010\xfa\x09redis-ver\x05" "7.2.5\xfa\x0aredis-bits\xc0\x40", 36);
    assert_true(has(&text, BYTES("\xfa\x08used-mem\xc1\x39\x30\xfa\x09kelvin-id\x10" "0123456789abcdef\xfa\x08" "aof-base\xc0\x00\xfe\x00\xfb")));
    assert_true(has(&text, BYTES("\xfe\x00\xfb\x03\x00\x00\x04text\x05hello\xfc\x00\xd8\xc3\x2c\xbb\x03\x00\x00\x00\x06number\xc0\x2a\xfc\xe8\x03\0\0\0\0\0\0\x00"
        "\x04gone\x04gone\xfe\x02\xfb\x01\x00\x04\x06" "fields\x01\x01" "f\x01v\xff")));
    memcpy(&crc, text.data + text.size - 8, 8);
    assert_true(crc == crc64(0, bytes_of(text.data, text.size - 8)));
    assert_int_equal(bench.progress.bytes, text.size);
    assert_int_equal(bench.progress.keys, 4);
    buffer_release(&text);
    bench_release(&bench);
}

/* Changes a byte of the value "hello" in the image's segment. */
static void a_damaged_record_in_a_segment_is_an_error(void **state)
{
    struct bench bench;
    struct buffer text = { 0 };
    char name[PATH_SIZE + 64], *at;

    bench_init(&bench, 0);
    snprintf(name, sizeof(name), "%s/store/00000001.seg", bench.image);
    file_read(name, &text);
    at = memmem(text.data, text.size, "hello", 5);
    assert_non_null(at);
    *at = 'y';
    write_file(bench.image, "store/00000001.seg", buffer_bytes(&text));
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CORRUPT);
    assert_non_null(strstr(bench.message.text, "Can't read the image's store: the record of the key 'text' can't be read: it is damaged"));
    assert_int_equal(access(bench.path, F_OK), -1);
    buffer_release(&text);
    bench_release(&bench);
}

static void heat_is_saved_if_asked_for(void **state)
{
    struct bench bench;
    struct buffer text = { 0 };

    bench_init(&bench, 0);
    bench.options.with_freq = true;
    bench.options.lfu_decay_minutes = 1;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    file_read(bench.path, &text);
    /* The next minute may have begun since the image was made. */
    assert_true(has(&text, BYTES("\xf9\x4d\x00\x04text")) || has(&text, BYTES("\xf9\x4c\x00\x04text")));
    assert_true(has(&text, BYTES("\xf9\x14\x00\x06number")) || has(&text, BYTES("\xf9\x13\x00\x06number")));
    buffer_release(&text);
    bench_release(&bench);
}

static void the_image_is_not_changed(void **state)
{
    struct bench bench;
    struct buffer before = { 0 }, after = { 0 }, first = { 0 }, second = { 0 };

    bench_init(&bench, 20000);
    image_look(&bench, &before);
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    file_read(bench.path, &first);
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    file_read(bench.path, &second);
    image_look(&bench, &after);
    assert_true(bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    assert_int_equal(first.size, second.size);
    assert_int_equal(bench.progress.keys, bench.keys);
    buffer_release(&before);
    buffer_release(&after);
    buffer_release(&first);
    buffer_release(&second);
    bench_release(&bench);
}

static void a_cancelled_save_leaves_the_old_file(void **state)
{
    struct bench bench;
    struct buffer text = { 0 };

    bench_init(&bench, 1000);
    write_file(bench.root, "dump.rdb", BYTES("old"));
    bench.progress.cancel = true;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CLOSED);
    assert_string_not_equal(bench.message.text, "");
    file_read(bench.path, &text);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("old")));
    buffer_release(&text);
    bench_release(&bench);
}

static void a_missing_directory_is_an_error(void **state)
{
    struct bench bench;

    bench_init(&bench, 0);
    bench.options.path = "/nonexistent-folder/dump.rdb";
    assert_int_not_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    assert_non_null(strstr(bench.message.text, "No such file"));
    bench_release(&bench);
}

static void a_damaged_image_is_an_error(void **state)
{
    struct bench bench;
    struct stat info;

    bench_init(&bench, 0);
    write_file(bench.image, "dataset", BYTES("kelvin-image 1\n"));
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CORRUPT);
    assert_non_null(strstr(bench.message.text, "dataset"));
    assert_int_not_equal(stat(bench.path, &info), 0);
    bench_release(&bench);
}

/* Between the aux fields and the first database. */
static void libraries_come_before_the_keys(void **state)
{
    struct bench bench;
    struct buffer dump = { 0 }, text = { 0 };
    uint64_t crc;

    bench_init(&bench, 0);
    buffer_append(&dump, "\xf5\x04" "code\xf5\x02" "42\x0a\x00", 12);
    crc = crc64(0, buffer_bytes(&dump));
    buffer_append(&dump, &crc, sizeof(crc));
    write_dataset(&bench, buffer_bytes(&dump));
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    file_read(bench.path, &text);
    assert_true(has(&text, BYTES("\xfa\x08" "aof-base\xc0\x00\xf5\x04" "code\xf5\xc0\x2a\xfe\x00")));
    /* A dump that was written wrong: its own checksum is not right. */
    unlink(bench.path);
    dump.data[2] = 'k';
    write_dataset(&bench, buffer_bytes(&dump));
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CORRUPT);
    assert_int_not_equal(access(bench.path, F_OK), 0);
    /* One that is not what the dataset says. */
    write_file(bench.image, "functions", BYTES("x"));
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CORRUPT);
    assert_non_null(strstr(bench.message.text, "functions"));
    unlink(bench.path);
    bench_release(&bench);
    buffer_release(&dump);
    buffer_release(&text);
}

/* A reader of a file that grows: what was complete once must be in the file at the end. */
struct follower {
    int fd;
    struct buffer seen;
    unsigned calls;
    _Atomic bool *cancel;           /* set at the second call; or NULL */
};

static void note_grown(void *context, uint64_t size)
{
    struct follower *follower = context;

    assert_true(size > follower->seen.size);
    while (follower->seen.size < size) {
        ssize_t got = pread(follower->fd, buffer_reserve(&follower->seen, size - follower->seen.size), size - follower->seen.size,
            (off_t)follower->seen.size);

        assert_true(got > 0);
        follower->seen.size += (size_t)got;
    }
    if (++follower->calls == 2 && follower->cancel != NULL)
        *follower->cancel = true;
}

/* Into an unlinked file; `many` keys. */
static void follower_init(struct follower *follower, struct bench *bench)
{
    char name[] = "/tmp/kelvin-grows-XXXXXX";

    *follower = (struct follower){ .fd = mkstemp(name) };
    assert_true(follower->fd >= 0);
    unlink(name);
    bench->options.path = NULL;
    bench->options.fd = follower->fd;
    bench->options.grown = note_grown;
    bench->options.context = follower;
}

static void follower_release(struct follower *follower)
{
    close(follower->fd);
    buffer_release(&follower->seen);
}

static void readers_of_a_file_that_grows_see_the_same_file(void **state)
{
    struct bench bench;
    struct follower follower;
    struct buffer text = { 0 };
    uint64_t crc;

    bench_init(&bench, 50000);
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    file_read(bench.path, &text);
    follower_init(&follower, &bench);
    bench.options.field_times = RDB_TIMES_REFUSED;
    bench.progress.key_total = 0;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    assert_int_equal(follower.seen.size, bench.progress.bytes);
    assert_in_range(follower.calls, 3, 1000);
    assert_int_equal(follower.seen.size, text.size);
    assert_memory_equal(follower.seen.data, "REDIS0010", 9);
    assert_memory_equal(follower.seen.data + 200, text.data + 200, text.size - 208);     /* ctime differs, and the checksum */
    memcpy(&crc, follower.seen.data + follower.seen.size - 8, 8);
    assert_true(crc == crc64(0, bytes_of(follower.seen.data, follower.seen.size - 8)));
    assert_int_equal(bench.progress.keys, bench.keys);
    follower_release(&follower);
    buffer_release(&text);
    bench_release(&bench);
}

/* A slow save has readers wait for a moment, not until a buffer is full. */
static void little_that_was_written_is_there_soon(void **state)
{
    struct bench bench;
    struct follower follower;

    bench_init(&bench, 20);
    follower_init(&follower, &bench);
    bench.options.key_delay_us = 11000;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
    assert_in_range(follower.calls, 20, 30);
    follower_release(&follower);
    bench_release(&bench);
}

static void one_that_grows_ends_when_it_is_cancelled(void **state)
{
    struct bench bench;
    struct follower follower;

    bench_init(&bench, 50000);
    follower_init(&follower, &bench);
    follower.cancel = &bench.progress.cancel;
    assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_CLOSED);
    assert_int_equal(follower.calls, 2);
    assert_non_null(strstr(bench.message.text, "cancelled"));
    follower_release(&follower);
    bench_release(&bench);
}

static void times_of_fields_are_as_asked_for(void **state)
{
    static const struct bytes whole = BYTES("\x18\x05timed\x01\0\0\0\0\0\0\0" "\2" "\1\1f\1v" "\0\1g\1w");
    static const struct bytes plain = BYTES("\x04\x05timed\x02\1f\1v\1g\1w");
    struct bench bench;

    for (int times = RDB_TIMES_ALLOWED; times <= RDB_TIMES_DROPPED; times++) {
        struct follower follower;

        bench_init(&bench, 0);
        tree_remove(bench.image);
        image_write(&bench, 100, true);
        follower_init(&follower, &bench);
        bench.options.field_times = (enum rdb_field_times)times;
        assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), times == RDB_TIMES_REFUSED ? STATUS_VERSION : STATUS_OK);
        if (times == RDB_TIMES_REFUSED) {
            assert_non_null(strstr(bench.message.text, "The hash 'timed' has fields with expiry times"));
        } else {
            assert_memory_equal(follower.seen.data, times == RDB_TIMES_ALLOWED ? "REDIS0012" : "REDIS0010", 9);
            assert_int_equal(has(&follower.seen, whole), times == RDB_TIMES_ALLOWED);
            assert_int_equal(has(&follower.seen, plain), times == RDB_TIMES_DROPPED);
            assert_int_equal(bench.progress.keys, bench.keys);
        }
        assert_int_equal(bench.progress.times_dropped, times == RDB_TIMES_DROPPED ? 1 : 0);
        follower_release(&follower);
        bench_release(&bench);
    }
}

static void parts_can_be_left_out(void **state)
{
    struct bench bench;
    struct buffer dump = { 0 }, text = { 0 };
    uint64_t crc;

    buffer_append(&dump, "\xf5\x04" "code\x0a\x00", 8);
    crc = crc64(0, buffer_bytes(&dump));
    buffer_append(&dump, &crc, sizeof(crc));
    for (int left_out = 0; left_out < 4; left_out++) {
        bench_init(&bench, 0);
        write_dataset(&bench, buffer_bytes(&dump));
        bench.options.without_keys = left_out & 1;
        bench.options.without_functions = left_out & 2;
        assert_int_equal(rdb_save(&bench.options, &bench.progress, &bench.message), STATUS_OK);
        file_read(bench.path, &text);
        assert_int_equal(has(&text, BYTES("\x04text\x05hello")), !bench.options.without_keys);
        assert_int_equal(has(&text, BYTES("\xf5\x04" "code")), !bench.options.without_functions);
        if (left_out == 3)
            assert_memory_equal(text.data + text.size - 21, "\xfa\x08" "aof-base\xc0\0\xff", 13);
        bench_release(&bench);
    }
    buffer_release(&dump);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_come_before_the_keys),
        cmocka_unit_test(the_file_has_everything_in_the_image),
        cmocka_unit_test(a_damaged_record_in_a_segment_is_an_error),
        cmocka_unit_test(heat_is_saved_if_asked_for),
        cmocka_unit_test(the_image_is_not_changed),
        cmocka_unit_test(a_cancelled_save_leaves_the_old_file),
        cmocka_unit_test(a_missing_directory_is_an_error),
        cmocka_unit_test(a_damaged_image_is_an_error),
        cmocka_unit_test(readers_of_a_file_that_grows_see_the_same_file),
        cmocka_unit_test(little_that_was_written_is_there_soon),
        cmocka_unit_test(one_that_grows_ends_when_it_is_cancelled),
        cmocka_unit_test(times_of_fields_are_as_asked_for),
        cmocka_unit_test(parts_can_be_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
