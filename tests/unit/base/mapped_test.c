#include "base/mapped.h"

#include "support/unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/meter.h"

enum { SIZE = 64 << 20, PAGE = 4096 };

static unsigned sum_of(struct bytes bytes)
{
    unsigned sum = 0;

    for (size_t at = 0; at < bytes.size; at += PAGE)
        sum += (uint8_t)bytes.data[at];
    return sum;
}

static void what_is_forgotten_is_not_resident_and_can_be_read_again(void **state)
{
    char path[] = "/tmp/kelvin-mapped-XXXXXX";
    int fd = mkstemp(path);
    struct mapped mapped;
    struct message message;
    uint64_t before, read;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    for (off_t at = 0; at < SIZE; at += PAGE)
        assert_int_equal(pwrite(fd, "\1", 1, at), 1);
    assert_true(mapped_open(path, &mapped, &message));
    before = meter_resident();
    assert_int_equal(sum_of(mapped.bytes), SIZE / PAGE);
    read = meter_resident();
    assert_true(read > before + SIZE / 2);
    /* A part, from and to the middle of a page. */
    mapped_forget(bytes_of(mapped.bytes.data + SIZE / 2 + 10, SIZE / 2 - 20));
    assert_true(meter_resident() < read - SIZE / 4);
    mapped_forget(mapped.bytes);
    assert_true(meter_resident() < before + SIZE / 4);
    mapped_forget(bytes_of(mapped.bytes.data, 0));
    assert_int_equal(sum_of(mapped.bytes), SIZE / PAGE);
    mapped_close(&mapped);
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_forgotten_is_not_resident_and_can_be_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
