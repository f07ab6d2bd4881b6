#include "tier/damage.h"

#include "support/unit.h"

#include <string.h>

#include "base/buffer.h"

static void a_disk_full_of_damage_does_not_flood_the_log(void **state)
{
    struct damage_lines lines = { 0 };
    uint64_t hidden = 0;
    int taken = 0;

    for (int i = 0; i < 1000; i++)
        taken += damage_lines_take(&lines, 5000, &hidden);
    assert_int_equal(taken, DAMAGE_LINES);
    assert_int_equal(hidden, 0);
    assert_false(damage_lines_take(&lines, 5000 + DAMAGE_LINE_MS - 1, &hidden));
    assert_true(damage_lines_take(&lines, 5000 + DAMAGE_LINE_MS, &hidden));
    assert_int_equal(hidden, 1000 - DAMAGE_LINES + 1);
    assert_false(damage_lines_take(&lines, 5000 + DAMAGE_LINE_MS, &hidden));
    assert_true(damage_lines_take(&lines, 5000 + 100ll * DAMAGE_LINE_MS, &hidden));     /* full again */
    assert_int_equal(hidden, 1);
    for (taken = 1; damage_lines_take(&lines, 5000 + 100ll * DAMAGE_LINE_MS, &hidden); taken++)
        assert_int_equal(hidden, 0);
    assert_int_equal(taken, DAMAGE_LINES);
}

static void a_key_is_text_whatever_it_has(void **state)
{
    struct buffer text = { 0 };
    struct message message;
    char large[1000];

    damage_key(&text, 1, BYTES("a'b\n\\\xff"));
    assert_int_equal(text.size, strlen("'a\\x27b\\x0a\\x5c\\xff'"));
    assert_memory_equal(text.data, "'a\\x27b\\x0a\\x5c\\xff'", text.size);
    text.size = 0;
    memset(large, 'x', sizeof(large));
    damage_key(&text, 1, bytes_of(large, sizeof(large)));
    assert_int_equal(text.size, DAMAGE_KEY_SHOWN + 5);
    damage_text(&message, buffer_bytes(&text), "it is damaged", NULL, place_make(3, 4096, 0, 100));
    assert_non_null(strstr(message.text, "...' can't be read: it is damaged (slot 3, offset 4096)"));
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_full_of_damage_does_not_flood_the_log),
        cmocka_unit_test(a_key_is_text_whatever_it_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
