/* Spool: what was put aside comes back, bucket by bucket and in order; a disk that is full is an error; nothing is left in the directory. */
#include "lifecycle/spool.h"

#include "support/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "support/faulty_disk.h"

enum { BUCKETS = 7, ELEMENTS = 20000, LARGE = 100000 };

static size_t files_in(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count - 2;
}

static int directory_setup(void **state)
{
    static char path[64];

    strcpy(path, "/tmp/kelvin-spool-XXXXXX");
    assert_non_null(mkdtemp(path));
    *state = path;
    return 0;
}

static int directory_teardown(void **state)
{
    return rmdir(*state);
}

/* The key says which element it is; the data's bytes are all alike. */
static void make(unsigned number, char key[16], struct bytes *data, char *text)
{
    size_t size = number % 1000 == 7 ? LARGE : number % 50;

    snprintf(key, 16, "%u", number);
    memset(text, (int)('a' + number % 26), size);
    *data = bytes_of(text, size);
}

static unsigned bucket_of(unsigned number)
{
    return number * 2654435761u % (BUCKETS - 1);        /* the last one stays empty */
}

static void what_was_put_aside_comes_back(void **state)
{
    static const size_t sizes[] = { 1, 50000, 1 << 30 };
    char *text = mem_alloc(LARGE), *dir = *state;

    for (size_t round = 0; round < sizeof(sizes) / sizeof(sizes[0]); round++) {
        struct buffer taken = { 0 };
        struct spool *spool = NULL;
        unsigned found = 0;

        assert_int_equal(spool_create(disk_system(), dir, BUCKETS, &spool), STATUS_OK);
        assert_int_equal(files_in(dir), 0);
        for (unsigned i = 0; i < ELEMENTS; i++) {
            struct bytes data;
            char key[16];

            make(i, key, &data, text);
            assert_int_equal(spool_add(spool, bucket_of(i), bytes_of_string(key), data), STATUS_OK);
        }
        for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
            unsigned last = 0;

            do {
                struct bytes elements, key, data, expected;

                assert_int_equal(spool_take(spool, bucket, sizes[round], &taken), STATUS_OK);
                elements = buffer_bytes(&taken);
                while (spool_next(&elements, &key, &data)) {
                    int64_t number;
                    char name[16];

                    assert_true(text_to_int(key, &number));
                    assert_true(number >= last && bucket_of((unsigned)number) == bucket);
                    last = (unsigned)number;
                    make(last, name, &expected, text);
                    assert_true(bytes_equal(data, expected));
                    found++;
                }
            } while (taken.size > 0);
        }
        assert_int_equal(found, ELEMENTS);
        buffer_release(&taken);
        spool_destroy(spool);
    }
    mem_free(text);
}

static void a_disk_that_fails_is_an_error(void **state)
{
    struct faulty_disk *disk = faulty_disk_create();
    struct buffer taken = { 0 };
    struct spool *spool = NULL;
    enum status status = STATUS_OK;
    char data[1000] = "";

    faulty_disk_set(disk, &(struct disk_faults){ .open_error = 1000 });
    assert_int_equal(spool_create(faulty_disk_table(disk), *state, BUCKETS, &spool), STATUS_IO);
    faulty_disk_set(disk, &(struct disk_faults){ .write_no_space = 1000 });
    assert_int_equal(spool_create(faulty_disk_table(disk), *state, BUCKETS, &spool), STATUS_OK);
    for (int i = 0; i < 100 && status == STATUS_OK; i++)
        status = spool_add(spool, 0, BYTES("key"), bytes_of(data, sizeof(data)));
    assert_int_equal(status, STATUS_NO_SPACE);
    spool_destroy(spool);
    faulty_disk_set(disk, NULL);
    assert_int_equal(spool_create(faulty_disk_table(disk), *state, BUCKETS, &spool), STATUS_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(spool_add(spool, 0, BYTES("key"), bytes_of(data, sizeof(data))), STATUS_OK);
    faulty_disk_set(disk, &(struct disk_faults){ .read_error = 1000 });
    assert_int_equal(spool_take(spool, 0, 1 << 20, &taken), STATUS_IO);
    buffer_release(&taken);
    spool_destroy(spool);
    faulty_disk_set(disk, NULL);
    faulty_disk_destroy(disk);
    assert_int_equal(files_in(*state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_aside_comes_back, directory_setup, directory_teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_is_an_error, directory_setup, directory_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
