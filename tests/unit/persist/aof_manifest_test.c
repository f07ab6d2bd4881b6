#include "base/message.h"
#include "persist/aof_manifest.h"

#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "support/seed.h"

#define ONE "file appendonly.aof.1.base.rdb seq 1 type b\n"
#define TWO "file appendonly.aof.1.incr.aof seq 1 type i\n"
#define THREE "file appendonly.aof.2.incr.aof seq 2 type i\n"

static enum status parse(struct aof_manifest *manifest, const char *text, struct message *message)
{
    return aof_manifest_parse(manifest, bytes_of_string(text), message);
}

static void a_manifest_of_redis_is_read(void **state)
{
    struct aof_manifest manifest;
    struct message message;

    assert_int_equal(parse(&manifest, "# a remark\n" ONE "file old seq 3 type h\n" TWO THREE, &message), STATUS_OK);
    assert_int_equal(manifest.count, 4);
    assert_string_equal(aof_manifest_base(&manifest)->name, "appendonly.aof.1.base.rdb");
    assert_int_equal(manifest.files[1].type, AOF_FILE_HISTORY);
    assert_int_equal(aof_manifest_last_seq(&manifest), 2);
    assert_true(manifest.files[3].valid_size == UINT64_MAX);
    aof_manifest_release(&manifest);
}

static void a_printed_manifest_is_parsed_to_the_same(void **state)
{
    const char *names[] = { "plain", "a b", "quo\"te", "back\\slash", "new\nline", "\xc3\xbc", "#hash", "tab\there", "'single'" };
    struct aof_manifest manifest, again;
    struct buffer text, twice;
    struct message message;

    buffer_init(&text);
    buffer_init(&twice);
    aof_manifest_init(&manifest);
    for (int i = 0; i < 9; i++)
        aof_manifest_add(&manifest, bytes_of_string(names[i]), (uint64_t)i + 1, AOF_FILE_INCREMENT);
    manifest.files[2].valid_size = 0;
    manifest.files[3].valid_size = 12345678901;
    aof_manifest_print(&manifest, &text);
    assert_int_equal(aof_manifest_parse(&again, buffer_bytes(&text), &message), STATUS_OK);
    assert_int_equal(again.count, 9);
    for (int i = 0; i < 9; i++) {
        assert_string_equal(again.files[i].name, names[i]);
        assert_true(again.files[i].valid_size == manifest.files[i].valid_size);
    }
    aof_manifest_print(&again, &twice);
    assert_true(bytes_equal(buffer_bytes(&text), buffer_bytes(&twice)));
    aof_manifest_release(&manifest);
    aof_manifest_release(&again);
    buffer_release(&text);
    buffer_release(&twice);
}

static void unknown_keys_are_ignored(void **state)
{
    struct aof_manifest manifest;
    struct message message;

    assert_int_equal(parse(&manifest, "colour red seq 7 type i file 'it\\'s' size big\n", &message), STATUS_OK);
    assert_string_equal(manifest.files[0].name, "it's");
    assert_int_equal(manifest.files[0].seq, 7);
    aof_manifest_release(&manifest);
}

static void a_text_that_is_not_a_manifest_is_refused_with_its_line(void **state)
{
    const struct { const char *text, *part; } cases[] = {
        { "", "Found an empty AOF manifest" },
        { "# only a remark\n", "Found an empty AOF manifest" },
        { ONE "\n", "line 2" },
        { "file a seq 1 type i", "Invalid AOF manifest file format, it ends in the middle of a line" },
        { ONE "file a seq 1 ty", "line 2" },
        { "file ../etc/passwd seq 1 type i\n", "plain name" },
        { "file .. seq 1 type i\n", "plain name" },
        { "file \"\" seq 1 type i\n", "no file name" },
        { "file \"a\\x00b\" seq 1 type i\n", "plain name" },
        { "file \"a seq 1 type i\n", "quotes" },
        { "file \"a\"b seq 1 type i\n", "quotes" },
        { "file a seq 1 type\n", "without a value" },
        { "seq 1 type i\n", "no file name" },
        { "file a seq 0 type i\n", "seq" },
        { "file a seq -1 type i\n", "seq" },
        { "file a seq 99999999999999999999 type i\n", "seq" },
        { "file a seq x type i\n", "seq" },
        { "file a type i\n", "seq" },
        { "file a seq 1\n", "type" },
        { "file a seq 1 type x\n", "Unknown AOF file type" },
        { "file a seq 1 type ii\n", "type" },
        { ONE "file b seq 2 type b\n", "Found duplicate base file information" },
        { THREE TWO, "Found a non-monotonic sequence number" },
        { TWO "file other seq 1 type i\n", "Found a non-monotonic sequence number" },
        { TWO "file appendonly.aof.1.incr.aof seq 2 type i\n", "named before" },
        { "file a seq 1 type i validsize -1\n", "validsize" },
        { "file a seq 1 type i validsize x\n", "validsize" },
    };
    struct aof_manifest manifest;
    struct message message;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(&manifest, cases[i].text, &message), STATUS_CORRUPT);
        if (strstr(message.text, cases[i].part) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, message.text, cases[i].part);
        assert_int_equal(manifest.count, 0);
    }
}

/* Any bytes: a status, no crash; and what is accepted is the same after a round trip. */
static void random_damage_is_either_refused_or_consistent(void **state)
{
    const char *model = "#r\n" ONE "file \"a\\x20b\" seq 4 type h\n" TWO "file 'x' seq 2 type i validsize 17\n";
    uint64_t seed = seed_new();
    struct random random;

    random_init(&random, seed);
    for (int round = 0; round < 20000; round++) {
        char text[256];
        struct message message;
        size_t size = strlen(model);
        struct aof_manifest manifest, again;
        struct buffer printed;

        memcpy(text, model, size);
        for (uint64_t changes = random_below(&random, 6); changes > 0; changes--)
            text[random_below(&random, size)] = (char)random_below(&random, 256);
        if (random_below(&random, 4) == 0)
            size = random_below(&random, size);
        if (aof_manifest_parse(&manifest, bytes_of(text, size), &message) != STATUS_OK)
            continue;
        buffer_init(&printed);
        aof_manifest_print(&manifest, &printed);
        if (aof_manifest_parse(&again, buffer_bytes(&printed), &message) != STATUS_OK || again.count != manifest.count)
            fail_msg("seed %llu round %d: %s", (unsigned long long)seed, round, message.text);
        for (int i = 0; i < manifest.count; i++)
            assert_string_equal(manifest.files[i].name, again.files[i].name);
        aof_manifest_release(&manifest);
        aof_manifest_release(&again);
        buffer_release(&printed);
    }
}

/* Saving, with a disk that fails at the n-th call. */
struct faulty { int calls, fail_at; };

static bool fails(struct faulty *faulty)
{
    errno = EIO;
    return ++faulty->calls == faulty->fail_at;
}
static ssize_t faulty_write(void *context, int fd, const void *data, size_t size)
{
    return fails(context) ? (ssize_t)-1 : write(fd, data, size > 7 ? 7 : size);
}
static int faulty_sync(void *context, int fd) { return fails(context) ? -1 : fsync(fd); }

static void a_save_that_fails_leaves_the_old_manifest_or_the_new_one(void **state)
{
    char dir[] = "/tmp/kelvin-manifest-XXXXXX";
    struct message message;
    struct aof_manifest old, new, read;
    struct faulty faulty = { 0, 0 };
    struct disk disk = *disk_system();
    bool replaced = false;
    int dir_fd, failures = 0;

    disk.context = &faulty;
    disk.write = faulty_write;
    disk.fsync = faulty_sync;
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(aof_manifest_load(&read, dir_fd, "m", &message), STATUS_NOT_FOUND);
    assert_int_equal(parse(&old, TWO, &message), STATUS_OK);
    assert_int_equal(parse(&new, TWO THREE, &message), STATUS_OK);
    for (int fail_at = 1;; fail_at++) {
        enum status status;

        faulty = (struct faulty){ 0, 0 };
        assert_int_equal(aof_manifest_save(&old, dir_fd, "m", &disk, &replaced), STATUS_OK);
        assert_true(replaced);
        faulty = (struct faulty){ 0, fail_at };
        status = aof_manifest_save(&new, dir_fd, "m", &disk, &replaced);
        assert_int_equal(aof_manifest_load(&read, dir_fd, "m", &message), STATUS_OK);
        assert_int_equal(read.count, replaced ? 2 : 1);
        aof_manifest_release(&read);
        assert_int_equal(faccessat(dir_fd, "temp-m", F_OK, 0), -1);
        if (status == STATUS_OK)
            break;
        failures++;
    }
    /* Each write of seven bytes and both fsyncs, of the file and of the directory, have failed once. */
    assert_int_equal(failures, (int)(strlen(TWO THREE) + 6) / 7 + 2);
    aof_manifest_release(&old);
    aof_manifest_release(&new);
    unlinkat(dir_fd, "m", 0);
    close(dir_fd);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_of_redis_is_read),
        cmocka_unit_test(a_printed_manifest_is_parsed_to_the_same),
        cmocka_unit_test(unknown_keys_are_ignored),
        cmocka_unit_test(a_text_that_is_not_a_manifest_is_refused_with_its_line),
        cmocka_unit_test(random_damage_is_either_refused_or_consistent),
        cmocka_unit_test(a_save_that_fails_leaves_the_old_manifest_or_the_new_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
