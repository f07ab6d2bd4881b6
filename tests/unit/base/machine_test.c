/* base/machine: the limits of memory cgroups. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"

struct fixture {
    char root[64], cgroups[100];
};

static void write_text(const struct fixture *fixture, const char *name, const char *text)
{
    char path[300], command[700];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", fixture->root, name);
    snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\"", path);
    assert_int_equal(system(command), 0);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    strcpy(fixture->root, "/tmp/kelvin-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->cgroups, sizeof(fixture->cgroups), "%s/self", fixture->root);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[100];

    snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static uint64_t memory(const struct fixture *fixture)
{
    return machine_memory_at(fixture->cgroups, fixture->root);
}

static void test_no_limit_is_the_machines_memory(void **state)
{
    struct fixture *fixture = *state;
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    assert_int_equal(memory(fixture), physical);
    write_text(fixture, "self", "1:cpu:/a\n0::/b\nno line of this kind\n");
    write_text(fixture, "b/memory.max", "max\n");
    assert_int_equal(memory(fixture), physical);
    assert_int_equal(machine_memory() <= physical, 1);
}

static void test_version_1(void **state)
{
    struct fixture *fixture = *state;

    write_text(fixture, "self", "4:memory:/one/two\n1:cpu:/three\n");
    write_text(fixture, "memory/one/two/memory.limit_in_bytes", "5000000\n");
    assert_int_equal(memory(fixture), 5000000);
    write_text(fixture, "memory/one/memory.limit_in_bytes", "4000000\n");
    assert_int_equal(memory(fixture), 4000000);
}

static void test_version_2(void **state)
{
    struct fixture *fixture = *state;

    write_text(fixture, "self", "0::/one/two\n");
    write_text(fixture, "one/two/memory.max", "max\n");
    write_text(fixture, "one/memory.max", "6000000\n");
    assert_int_equal(memory(fixture), 6000000);
}

/* In a container the group's own directory is the topmost one. */
static void test_in_a_container(void **state)
{
    struct fixture *fixture = *state;

    write_text(fixture, "self", "4:memory:/docker/abc\n");
    write_text(fixture, "memory/memory.limit_in_bytes", "7000000\n");
    assert_int_equal(memory(fixture), 7000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_limit_is_the_machines_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_a_container, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
