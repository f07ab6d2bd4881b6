#include "script/library_dump.h"

#include "support/unit.h"

#include "base/crc64.h"
#include "base/mem.h"
#include "support/library_box.h"
#include "value/codec.h"

/* What redis-server 7.0 returned for one library, compressed. */
static const struct bytes of_redis = BYTES("\xf5\xc3@w@\x85\x1f#!lua name=c\nredis.register_func\x04tion{\xc0\x08\x00_`'\r'd', callback=\xc0\x1b\x0e() end, descrip@7 ) "
    "\x0c ,\x13" "flags={'no-writes',' ?\x08ow-oom'}}\n\x00\x1aj\x9dW\xc0\xb2Q\xf7");

static bool collect(void *context, struct bytes text, struct buffer *error)
{
    buffer_append_bytes(context, text);
    buffer_append_u8(context, '|');
    return true;
}

static void check_read(struct bytes dump, const char *texts_expected, const char *error_expected)
{
    struct buffer texts = { 0 }, error = { 0 };

    assert_int_equal(library_dump_read(dump, 1 << 20, collect, &texts, &error), error_expected[0] == '\0');
    buffer_append_u8(&texts, 0);
    buffer_append_u8(&error, 0);
    assert_string_equal(texts.data, texts_expected);
    assert_string_equal(error.data, error_expected);
    buffer_release(&texts);
    buffer_release(&error);
}

static void a_dump_is_read_back(void **state)
{
    static const char *const libraries[] = { "b: g", "a: f", NULL };
    struct library_set *set = library_box_set(libraries), *empty = library_set_empty();
    struct buffer dump = { 0 }, expected = { 0 }, text = { 0 };

    buffer_append_bytes(&expected, library_box_text(&text, "a", "f"));
    buffer_append_u8(&expected, '|');
    buffer_append_bytes(&expected, library_box_text(&text, "b", "g"));
    buffer_append_string(&expected, "|");
    buffer_append_u8(&expected, 0);
    library_dump(set, &dump);
    check_read(buffer_bytes(&dump), expected.data, "");
    dump.size = 0;
    library_dump(empty, &dump);
    assert_int_equal(dump.size, 10);
    assert_memory_equal(dump.data, "\n\x00]\x9b\\@\x0f\x7f\xa2\xda", 10);        /* as redis-server 7.0 */
    check_read(buffer_bytes(&dump), "", "");
    library_set_release(set);
    library_set_release(empty);
    buffer_release(&dump);
    buffer_release(&expected);
    buffer_release(&text);
}

static void a_dump_of_redis_is_read(void **state)
{
    check_read(of_redis, "#!lua name=c\nredis.register_function{function_name='d', callback=function() end, description='desc', "
        "flags={'no-writes','allow-oom'}}|", "");
}

static void every_change_of_a_dump_is_noticed(void **state)
{
    char *copy = mem_alloc(of_redis.size);

    memcpy(copy, of_redis.data, of_redis.size);
    for (size_t bit = 0; bit < 8 * of_redis.size; bit++) {
        copy[bit / 8] ^= (char)(1 << bit % 8);
        check_read(bytes_of(copy, of_redis.size), "", "ERR DUMP payload version or checksum are wrong");
        copy[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t size = 0; size < of_redis.size; size++)
        check_read(bytes_of(copy, size), "", "ERR DUMP payload version or checksum are wrong");
    mem_free(copy);
}

/* With a right checksum. */
static void check_body(struct bytes body, int version, const char *texts, const char *error)
{
    struct buffer dump = { 0 };
    uint64_t crc;

    buffer_append_bytes(&dump, body);
    buffer_append_u8(&dump, (uint8_t)version);
    buffer_append_u8(&dump, (uint8_t)(version >> 8));
    crc = crc64(0, buffer_bytes(&dump));
    buffer_append(&dump, &crc, sizeof(crc));
    check_read(buffer_bytes(&dump), texts, error);
    buffer_release(&dump);
}

static void invalid_bodies_are_refused_despite_a_right_checksum(void **state)
{
    check_body(BYTES("\xf5\x01x"), 12, "x|", "");
    check_body(BYTES("\xf5\x01x"), 13, "", "ERR DUMP payload version or checksum are wrong");
    check_body(BYTES("\xf5\xc0\x05"), 10, "5|", "");
    check_body(BYTES("\xf5\x00"), 10, "|", "");
    check_body(BYTES("\xf5"), 10, "", "ERR Failed loading library payload");
    check_body(BYTES("\xf5\x02x"), 10, "", "ERR Failed loading library payload");
    check_body(BYTES("\xf5\x01x\xf5\x80\xff\xff\xff\xff"), 10, "x|", "ERR Failed loading library payload");
    check_body(BYTES("\xf5\xc3\x01\x81\x00\x00\x00\x10\x00\x00\x00\x00x"), 10, "", "ERR Failed loading library payload");
    check_body(BYTES("\xf6\x01x"), 10, "", "ERR Pre-GA function format not supported");
    check_body(BYTES("\x00\x01x"), 10, "", "ERR given type is not a function");
    check_body(BYTES("\xf5\x01x\xff"), 10, "x|", "ERR given type is not a function");
}

/* check_read allows 1 MiB. One more repetition of 264 bytes is too much. */
static void check_repeated(size_t count, bool good)
{
    struct buffer packed = { 0 }, body = { 0 }, text = { 0 };
    size_t size = 1 + 264 * count;

    buffer_append(&packed, "\x00x", 2);
    for (size_t i = 0; i < count; i++)
        buffer_append(&packed, "\xe0\xff\x00", 3);
    buffer_append(&body, "\xf5\xc3", 2);
    codec_write_length(&body, packed.size);
    codec_write_length(&body, size);
    buffer_append_bytes(&body, buffer_bytes(&packed));
    memset(buffer_reserve(&text, size + 2), 'x', size);
    memcpy(text.data + size, "|", 2);
    check_body(buffer_bytes(&body), 10, good ? text.data : "", good ? "" : "ERR Failed loading library payload");
    buffer_release(&packed);
    buffer_release(&body);
    buffer_release(&text);
}

static void a_compressed_text_may_not_be_longer_than_allowed(void **state)
{
    size_t most = ((1 << 20) - 1) / 264;

    check_repeated(most, true);
    check_repeated(most + 1, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_is_read_back),
        cmocka_unit_test(a_dump_of_redis_is_read),
        cmocka_unit_test(every_change_of_a_dump_is_noticed),
        cmocka_unit_test(invalid_bodies_are_refused_despite_a_right_checksum),
        cmocka_unit_test(a_compressed_text_may_not_be_longer_than_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
