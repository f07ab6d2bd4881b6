#include "metrics/problems.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "metrics/document.h"
#include "metrics/readings.h"
#include "support/engine_box.h"

enum { SECOND = 1000000, NOW_S = 5000 };

/* Readings of a server that has none of the other problems, and what they say. */
struct rig {
    struct engine_box box;
    struct readings readings;
    struct buffer text;
};

static int rig_open(void **state)
{
    static const struct command *const none[] = { NULL };
    struct rig *rig = mem_zalloc(sizeof(*rig));

    engine_box_open(&rig->box, none, 1);
    rig->box.engine.state = ENGINE_LOADING;     /* no notes */
    rig->readings = (struct readings){ .engine = &rig->box.engine, .began_us = (int64_t)NOW_S * SECOND, .tier = { .state = TIER_OK } };
    *state = rig;
    return 0;
}

static int rig_close(void **state)
{
    struct rig *rig = *state;

    engine_box_close(&rig->box);
    buffer_release(&rig->text);
    mem_free(rig);
    return 0;
}

static const char *say(struct rig *rig)
{
    struct document json = { .out = &rig->text };

    rig->text.size = 0;
    problems_write(&json, &rig->readings, NULL, true);
    buffer_append_u8(&rig->text, '\0');
    return rig->text.data;
}

static void expect(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, text);
}

static void an_error_of_the_store_is_as_old_as_it_is_though_no_page_was_asked_for(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(say(rig), "\"problems\":[]");
    rig->readings.tier.errors = 3;
    rig->readings.tier.last_error_us = (int64_t)(NOW_S - 61) * SECOND;
    expect(say(rig), "\"level\":\"warning\",\"what\":\"3 reads or writes of the store have failed since the start, none in the last minute.\"");
    rig->readings.tier.last_error_us = (int64_t)(NOW_S - 59) * SECOND;
    expect(say(rig), "\"level\":\"error\",\"what\":\"3 reads or writes of the store have failed, the last one less than a minute ago.\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_error_of_the_store_is_as_old_as_it_is_though_no_page_was_asked_for, rig_open, rig_close),
    };

    return cmocka_run_group_tests_name("metrics/problems", tests, NULL, NULL);
}
