#include "metrics/document.h"

#include "support/unit.h"

#include <math.h>
#include <string.h>

static void expect(struct document *document, const char *text)
{
    struct bytes found = buffer_bytes(document->out);

    if (!bytes_equal(found, bytes_of_string(text)))
        fail_msg("'%.*s' is not '%s'", (int)found.size, found.data, text);
    document->out->size = 0;
    document->is_next = false;
}

static void values_and_nesting(void **state)
{
    struct buffer out = { 0 };
    struct document document = { .out = &out };

    (void)state;
    document_open(&document, NULL, '{');
    document_integer(&document, "a", UINT64_MAX);
    document_open(&document, "b", '[');
    document_open(&document, NULL, '{');
    document_close(&document, '}');
    document_bool(&document, NULL, true);
    document_bool(&document, NULL, false);
    document_null(&document, NULL);
    document_close(&document, ']');
    document_open(&document, "c", '[');
    document_close(&document, ']');
    document_text(&document, "d", NULL);
    document_close(&document, '}');
    expect(&document, "{\"a\":18446744073709551615,\"b\":[{},true,false,null],\"c\":[],\"d\":null}");
    buffer_release(&out);
}

static void numbers(void **state)
{
    struct buffer out = { 0 };
    struct document document = { .out = &out };

    (void)state;
    document_number(&document, NULL, 0.25);
    document_number(&document, NULL, -2);
    document_number(&document, NULL, 1e15);
    document_number(&document, NULL, NAN);
    document_number(&document, NULL, -INFINITY);
    document_number_if(&document, NULL, -0.5);
    document_number_if(&document, NULL, 0);
    expect(&document, "0.250,-2,1000000000000000,null,null,null,0");
    document_number(&document, NULL, 1.7976931348623157e308);
    assert_int_equal(out.size, 309);
    buffer_release(&out);
}

static void any_bytes_are_valid_json(void **state)
{
    struct buffer out = { 0 };
    struct document document = { .out = &out };

    (void)state;
    document_text(&document, "\"", "a\"b\\c\n\x01 \xc3\xa9\xff");
    expect(&document, "\"\\\"\":\"a\\\"b\\\\c\\u000a\\u0001 \xc3\xa9\xef\xbf\xbd\"");
    /* A byte and the text that stands for it differ. */
    document_bytes(&document, NULL, BYTES("\xff|\\xff|\0|\n|\x7f|\"|\xc3\xa9|\xc3"));
    expect(&document, "\"\\\\xff|\\\\\\\\xff|\\\\x00|\\\\x0a|\\\\x7f|\\\"|\xc3\xa9|\\\\xc3\"");
    document_bytes(&document, NULL, BYTES("\xed\xa0\x80\xc0\x80"));
    expect(&document, "\"\\\\xed\\\\xa0\\\\x80\\\\xc0\\\\x80\"");
    document_bytes(&document, NULL, bytes_of(NULL, 0));
    expect(&document, "\"\"");
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_nesting),
        cmocka_unit_test(numbers),
        cmocka_unit_test(any_bytes_are_valid_json),
    };

    return cmocka_run_group_tests_name("metrics/document", tests, NULL, NULL);
}
