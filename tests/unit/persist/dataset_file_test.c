#include "base/message.h"
#include "persist/dataset_file.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc64.h"
#include "base/tree.h"

static void seal(struct buffer *text)
{
    buffer_append_format(text, "end %016llx\n", (unsigned long long)crc64(0, buffer_bytes(text)));
}

static enum status parse(const char *body, struct dataset_file *dataset)
{
    struct buffer text = { 0 };
    const char *problem = NULL;
    enum status status;

    buffer_append_string(&text, body);
    seal(&text);
    status = dataset_file_parse(buffer_bytes(&text), dataset, &problem);
    assert_true((status == STATUS_OK) == (problem == NULL));
    buffer_release(&text);
    return status;
}

static void what_was_written_is_read(void **state)
{
    struct dataset_file dataset;

    assert_int_equal(parse("kelvin-image 1\npartitions 64\ndatabases 3\nlast 9\ndb 0 7\ndb 1 2\ndb 2 9\nstore 55\nnew word\n", &dataset),
        STATUS_OK);
    assert_int_equal(dataset.partition_count, 64);
    assert_int_equal(dataset.db_count, 3);
    assert_int_equal(dataset.incarnation_last, 9);
    assert_int_equal(dataset.store_number, 55);
    assert_int_equal(dataset_file_db_of(&dataset, 2), 1);
    assert_int_equal(dataset_file_db_of(&dataset, 3), -1);
    dataset_file_release(&dataset);
}

static void invalid_lines_are_refused_despite_a_right_checksum(void **state)
{
    static const char *const bad[] = {
        "", "kelvin-image 2\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\n",
        "kelvin-image 1\npartitions 3\ndatabases 1\nlast 1\ndb 0 1\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 2\nlast 2\ndb 0 1\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 2\nlast 2\ndb 0 1\ndb 1 1\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 2\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 0\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 2000000000\nlast 1\ndb 0 1\nstore 1\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfile 3 00 x\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfile 3 0123456789abcdef ../x\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfile -3 0123456789abcdef x\n",
        "kelvin-image 1\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfunctions 3 0123456789abcdef\n",
        "kelvin-image 2\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfunctions 3 0123456789abcdeg\n",
        "kelvin-image 2\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfunctions 3 0123456789abcdef x\n",
        "kelvin-image 2\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\nfunctions 3 0123456789abcdef\nfunctions 3 0123456789abcdef\n",
    };
    struct dataset_file dataset;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &dataset), STATUS_CORRUPT);
        assert_null(dataset.incarnations);
    }
}

static void a_newer_version_is_refused_as_such(void **state)
{
    struct dataset_file dataset;

    assert_int_equal(parse("kelvin-image 7\npartitions 1\ndatabases 1\nlast 1\ndb 0 1\nstore 1\n", &dataset), STATUS_VERSION);
    assert_null(dataset.incarnations);
}

static void every_flipped_bit_is_found(void **state)
{
    struct buffer text = { 0 };
    struct dataset_file dataset;
    const char *problem;

    buffer_append_string(&text, "kelvin-image 1\npartitions 2\ndatabases 2\nlast 2\ndb 0 1\ndb 1 2\nstore 7\nfile 3 0123456789abcdef CURRENT\n");
    seal(&text);
    for (size_t bit = 0; bit < text.size * 8; bit++) {
        text.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(dataset_file_parse(buffer_bytes(&text), &dataset, &problem), STATUS_CORRUPT);
        text.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < text.size; size++)
        assert_int_equal(dataset_file_parse(bytes_of(text.data, size), &dataset, &problem), STATUS_CORRUPT);
    assert_int_equal(dataset_file_parse(buffer_bytes(&text), &dataset, &problem), STATUS_OK);
    dataset_file_release(&dataset);
    buffer_release(&text);
}

static void put(const char *image, const char *name, const char *content)
{
    char path[4096];
    struct message message;

    snprintf(path, sizeof(path), "%s/%s", image, name);
    unlink(path);
    assert_int_equal(tree_write_file(path, bytes_of_string(content), &message), STATUS_OK);
}

static void changes_of_the_small_files_of_the_store_are_found(void **state)
{
    char image[] = "/tmp/kelvin-dataset-XXXXXX", path[4096];
    struct message message = { "" };
    uint32_t incarnation = 1;
    struct dataset_file dataset = { .partition_count = 1, .incarnation_last = 1, .db_count = 1, .store_number = 3, .incarnations = &incarnation };
    struct dataset_file read;
    struct buffer text = { 0 };
    const char *problem;

    assert_non_null(mkdtemp(image));
    snprintf(path, sizeof(path), "%s/store", image);
    assert_int_equal(mkdir(path, 0755), 0);
    put(image, "store/meta", "the last writes");
    put(image, "store/000032.run", "key runs look after themselves");
    assert_int_equal(dataset_file_print(&dataset, image, &text), STATUS_OK);
    assert_int_equal(dataset_file_parse(buffer_bytes(&text), &read, &problem), STATUS_OK);
    assert_int_equal(read.file_count, 1);
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_OK);
    put(image, "store/000032.run", "so this is not seen");
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_OK);
    put(image, "store/meta", "the last write");
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_CORRUPT);
    assert_non_null(strstr(message.text, "meta"));
    put(image, "store/meta", "the last Writes");
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_CORRUPT);
    snprintf(path, sizeof(path), "%s/store/meta", image);
    unlink(path);
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_CORRUPT);
    dataset_file_release(&read);
    buffer_release(&text);
    tree_remove(image);
    assert_int_not_equal(access(image, F_OK), 0);
}

static void changes_of_the_functions_are_found(void **state)
{
    char image[] = "/tmp/kelvin-dataset-XXXXXX", path[4096];
    struct message message = { "" };
    uint32_t incarnation = 1;
    struct dataset_file dataset = { .partition_count = 1, .incarnation_last = 1, .db_count = 1, .incarnations = &incarnation };
    struct dataset_file read;
    struct buffer text = { 0 };
    const char *problem;

    assert_non_null(mkdtemp(image));
    snprintf(path, sizeof(path), "%s/store", image);
    assert_int_equal(mkdir(path, 0755), 0);
    put(image, "functions", "a dump");
    assert_int_equal(dataset_file_print(&dataset, image, &text), STATUS_OK);
    assert_int_equal(dataset_file_parse(buffer_bytes(&text), &read, &problem), STATUS_OK);
    assert_null(read.functions.name);
    dataset_file_release(&read);
    text.size = 0;
    dataset.functions.name = "functions";
    assert_int_equal(dataset_file_print(&dataset, image, &text), STATUS_OK);
    assert_memory_equal(text.data, "kelvin-image 3\n", 15);
    assert_int_equal(dataset_file_parse(buffer_bytes(&text), &read, &problem), STATUS_OK);
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_OK);
    put(image, "functions", "a dumb");
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_CORRUPT);
    assert_int_equal(dataset_file_verify_store(&read, image, &message), STATUS_OK);
    assert_int_equal(dataset_file_verify_functions(&read, image, &message), STATUS_CORRUPT);
    assert_non_null(strstr(message.text, "functions"));
    snprintf(path, sizeof(path), "%s/functions", image);
    unlink(path);
    assert_int_equal(dataset_file_verify(&read, image, &message), STATUS_CORRUPT);
    dataset_file_release(&read);
    buffer_release(&text);
    tree_remove(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(invalid_lines_are_refused_despite_a_right_checksum),
        cmocka_unit_test(a_newer_version_is_refused_as_such),
        cmocka_unit_test(every_flipped_bit_is_found),
        cmocka_unit_test(changes_of_the_small_files_of_the_store_are_found),
        cmocka_unit_test(changes_of_the_functions_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
