#include "keyspace/scan_page.h"

#include "support/unit.h"

#include <stdio.h>

static void keys_stay_readable_while_the_page_grows(void **state)
{
    struct scan_page page = { 0 };

    for (int i = 0; i < 5000; i++) {
        char name[32];
        int size = i % 10 == 0 ? 0 : snprintf(name, sizeof(name), "key:%d", i);

        scan_page_add(&page, bytes_of(name, (size_t)size), i % 2 ? VALUE_HASH : VALUE_STRING, i % 3 == 0 ? -1 : i);
    }
    assert_int_equal(page.count, 5000);
    for (int i = 0; i < 5000; i++) {
        char name[32];
        int size = i % 10 == 0 ? 0 : snprintf(name, sizeof(name), "key:%d", i);

        assert_true(bytes_equal(scan_page_key(&page, (size_t)i), bytes_of(name, (size_t)size)));
        assert_int_equal(page.keys[i].type, i % 2 ? VALUE_HASH : VALUE_STRING);
        assert_int_equal(page.keys[i].expire_ms, i % 3 == 0 ? -1 : i);
    }
    scan_page_release(&page);
    assert_true(page.count == 0 && page.keys == NULL && page.text.data == NULL);
    scan_page_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(keys_stay_readable_while_the_page_grows) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
