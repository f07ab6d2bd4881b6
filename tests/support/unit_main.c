/* The main function of the unit programs, build/<mode>/tests/unit-<room>: each contains all tests of its room, and runs those of one file.
 *
 *   build/release/tests/unit-keyspace heat
 *
 * The Makefile compiles heat_test.c with its `main` renamed to `heat_test_main`, and exports these names, so that no list is needed here.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argument_count, char **arguments)
{
    char name[256];
    union {
        void *address;
        int (*function)(void);
    } test;

    if (argument_count != 2) {
        fprintf(stderr, "usage: %s FILE   (heat for tests/unit/keyspace/heat_test.c)\n", arguments[0]);
        return 2;
    }
    snprintf(name, sizeof(name), "%s_test_main", arguments[1]);
    test.address = dlsym(RTLD_DEFAULT, name);
    if (test.address == NULL) {
        fprintf(stderr, "%s: no %s_test.c in this program\n", arguments[0], arguments[1]);
        return 2;
    }
    return test.function();
}
