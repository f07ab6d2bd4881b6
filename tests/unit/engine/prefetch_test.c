#include "support/unit.h"

#include "engine/engine.h"
#include "engine/prefetch.h"

enum { PARTITIONS = 8, DATABASES = 2 };

static void each_request_has_the_hash_of_its_key(void **state)
{
    static const char *const keys[] = { "list", "list", "list", "hash", "a key of some length", "a key of some length", "a key of same length", "", "", "list" };
    enum { COUNT = sizeof(keys) / sizeof(keys[0]) };
    struct engine engine = { .partitions = partitions_create(PARTITIONS, DATABASES, (struct key_seed){ .sip = { 1, 2 } }) };
    struct request_hint hints[COUNT];

    for (int i = 0; i < COUNT; i++)
        hints[i] = (struct request_hint){ .key = bytes_of_string(keys[i]), .db = i == 2, .hash = 77, .at = "left from another batch" };
    prefetch_requests(&engine, hints, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(hints[i].hash, key_hash(&engine.partitions->seed, hints[i].key));
    /* Hashes that are known are used as they are, for keys that do not exist. */
    for (int i = 0; i < COUNT; i++)
        hints[i] = (struct request_hint){ .db = i == 2, .hash = (uint64_t)i << 60 | (uint64_t)i, .at = "left from another batch" };
    prefetch_hashed(&engine, hints, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(hints[i].hash, (uint64_t)i << 60 | (uint64_t)i);
    partitions_destroy(engine.partitions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_has_the_hash_of_its_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
