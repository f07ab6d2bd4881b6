#include "support/unit.h"

#include <string.h>

#include "config/config.h"
#include "engine/event_list.h"

static void add(struct event_list *list, enum event event, const char *key)
{
    struct event_record record = { event, EVENT_TO_KEYSPACE, 3, bytes_of_string(key) };

    event_list_add(list, &record);
}

static void assert_next(const struct event_list *list, size_t *at, enum event event, const char *key)
{
    struct event_record record;

    assert_true(event_list_next(list, at, &record));
    assert_int_equal(record.event, event);
    assert_int_equal(record.targets, EVENT_TO_KEYSPACE);
    assert_int_equal(record.db, 3);
    assert_true(bytes_equal(record.key, bytes_of_string(key)));
}

static void assert_end(const struct event_list *list, size_t at)
{
    struct event_record record;

    assert_false(event_list_next(list, &at, &record));
}

static void records_come_in_order(void **state)
{
    struct event_list list = { 0 };
    size_t at = 0;

    assert_true(event_list_is_empty(&list));
    add(&list, EVENT_SET, "k");
    add(&list, EVENT_EXPIRE, "");
    add(&list, EVENT_DEL, "a longer key");
    assert_false(event_list_is_empty(&list));
    assert_next(&list, &at, EVENT_SET, "k");
    assert_next(&list, &at, EVENT_EXPIRE, "");
    assert_next(&list, &at, EVENT_DEL, "a longer key");
    assert_end(&list, at);
    event_list_clear(&list);
    assert_true(event_list_is_empty(&list));
    event_list_release(&list);
}

static void a_list_is_moved_to_the_end_of_another(void **state)
{
    struct event_list from = { 0 }, to = { 0 };
    size_t at = 0;

    add(&to, EVENT_SET, "a");
    add(&from, EVENT_DEL, "b");
    event_list_move(&to, &from);
    assert_true(event_list_is_empty(&from));
    event_list_move(&to, &from);
    assert_next(&to, &at, EVENT_SET, "a");
    assert_next(&to, &at, EVENT_DEL, "b");
    assert_end(&to, at);
    event_list_release(&from);
    event_list_release(&to);
}

static void only_misses_are_forgotten(void **state)
{
    struct event_list list = { 0 };
    size_t at = 0;

    event_list_forget_misses(&list);
    add(&list, EVENT_KEYMISS, "first");
    add(&list, EVENT_EXPIRED, "gone");
    add(&list, EVENT_KEYMISS, "gone");
    add(&list, EVENT_KEYMISS, "another");
    add(&list, EVENT_HEXPIRED, "hash");
    add(&list, EVENT_KEYMISS, "last");
    event_list_forget_misses(&list);
    assert_next(&list, &at, EVENT_EXPIRED, "gone");
    assert_next(&list, &at, EVENT_HEXPIRED, "hash");
    assert_end(&list, at);
    event_list_release(&list);
}

/* The bits of notify-keyspace-events are those of the classes. */
static void classes_are_the_letters_of_the_configuration(void **state)
{
    static const struct { char letter; uint32_t class; } classes[] = {
        { 'g', EVENT_CLASS_GENERIC }, { '$', EVENT_CLASS_STRING }, { 'l', EVENT_CLASS_LIST }, { 's', EVENT_CLASS_SET },
        { 'h', EVENT_CLASS_HASH }, { 'z', EVENT_CLASS_ZSET }, { 'x', EVENT_CLASS_EXPIRED }, { 'e', EVENT_CLASS_EVICTED },
        { 't', EVENT_CLASS_STREAM }, { 'd', EVENT_CLASS_MODULE }, { 'n', EVENT_CLASS_NEW }, { 'm', EVENT_CLASS_MISS },
        { 'K', EVENT_TO_KEYSPACE }, { 'E', EVENT_TO_KEYEVENT },
    };
    const char *letters = CONFIG_EVENT_LETTERS;

    assert_int_equal(strlen(letters), sizeof(classes) / sizeof(classes[0]));
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        assert_int_equal(1u << (strchr(letters, classes[i].letter) - letters), classes[i].class);
}

/* Only those that are not notified have no name, and none has two classes. */
static void every_event_has_a_name_and_a_class(void **state)
{
    for (int event = 0; event < EVENT_COUNT; event++) {
        const struct event_kind *kind = event_kind((enum event)event);

        assert_int_equal(kind->name == NULL, kind->class == EVENT_CLASS_NONE);
        assert_int_equal(kind->class & (kind->class - 1), 0);
        assert_int_equal(kind->class & (EVENT_TO_KEYSPACE | EVENT_TO_KEYEVENT), 0);
        for (int other = 0; kind->name != NULL && other < event; other++)
            assert_true(event_kind((enum event)other)->name == NULL || strcmp(event_kind((enum event)other)->name, kind->name) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order),
        cmocka_unit_test(a_list_is_moved_to_the_end_of_another),
        cmocka_unit_test(only_misses_are_forgotten),
        cmocka_unit_test(classes_are_the_letters_of_the_configuration),
        cmocka_unit_test(every_event_has_a_name_and_a_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
