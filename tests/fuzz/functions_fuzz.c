/* Hostile bytes for scripts and functions: FUNCTION RESTORE's dump, the first lines of sources. The first byte: 0, any bytes as a dump;
 * 1, any bytes with a right end; 2, a good dump, damaged and ended again; 3, any bytes as a source.
 *
 * What is accepted as a dump is the same when it is dumped again. No library's code is run here: unit tests and specs of the interpreter do.
 */
#include <string.h>

#include "base/check.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "script/library_dump.h"
#include "script/library.h"
#include "script/shebang.h"
#include "support/fuzz.h"
#include "value/codec.h"

enum { DUMP_MAX = 40000, TEXT_MAX = 3000, UNPACKED_MAX = 1 << 16 };

struct texts {
    struct buffer dump;             /* of the texts that were found */
    uint64_t count;
};

static bool take_text(void *context, struct bytes text, struct buffer *error)
{
    struct texts *texts = context;

    buffer_append_u8(&texts->dump, LIBRARY_DUMP_OPCODE);
    codec_write_length(&texts->dump, text.size);
    buffer_append_bytes(&texts->dump, text);
    texts->count++;
    return true;
}

static void seal(struct buffer *dump, uint16_t version)
{
    uint64_t crc;

    buffer_append(dump, &version, sizeof(version));
    crc = crc64(0, buffer_bytes(dump));
    buffer_append(dump, &crc, sizeof(crc));
}

static void check_dump(struct bytes dump)
{
    struct bytes copy = fuzz_exact_copy(dump);
    struct texts first = { .count = 0 }, second = { .count = 0 };
    struct buffer error = { 0 };

    if (library_dump_read(copy, UNPACKED_MAX, take_text, &first, &error)) {
        CHECK(error.size == 0);
        seal(&first.dump, CODEC_RDB_VERSION);
        CHECK(library_dump_read(buffer_bytes(&first.dump), UNPACKED_MAX, take_text, &second, &error));
        CHECK(first.count == second.count && first.dump.size == second.dump.size + CODEC_DUMP_FOOTER_SIZE);
        CHECK(second.dump.size == 0 || memcmp(first.dump.data, second.dump.data, second.dump.size) == 0);
    } else {
        CHECK(error.size > 4 && memcmp(error.data, "ERR ", 4) == 0);
    }
    mem_free((void *)copy.data);
    buffer_release(&first.dump);
    buffer_release(&second.dump);
    buffer_release(&error);
}

static void make_dump(struct fuzz_input *input, struct buffer *dump)
{
    static const struct bytes telling = BYTES("\xf5\xf6\xc0\xc1\xc2\xc3\x80\x81\xff\x00#!lua name=\n");
    char text[TEXT_MAX];

    for (uint64_t i = fuzz_below(input, 4); i > 0; i--) {
        buffer_append_u8(dump, LIBRARY_DUMP_OPCODE);
        codec_write_string(dump, fuzz_text(input, text, TEXT_MAX));
    }
    fuzz_damage(input, dump, telling, 4, DUMP_MAX);
}

static void check_source(struct bytes source)
{
    struct bytes copy = fuzz_exact_copy(source);
    struct shebang_library library;
    struct library_head head;
    struct buffer error = { 0 };
    uint32_t flags;
    size_t body;

    if (shebang_of_script(copy, &body, &flags, &error))
        CHECK(body < copy.size || body == 0);
    else
        CHECK(error.size > 4);
    if (shebang_of_library(copy, &library, &error)) {
        CHECK(copy.data[library.body] == '\n');
        shebang_library_release(&library);
    }
    if (library_head_read(copy, &head, &error)) {
        CHECK(library_name_is_valid(bytes_of_string(head.name)));
        library_head_release(&head);
    }
    mem_free((void *)copy.data);
    buffer_release(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct buffer bytes = { 0 };
    uint64_t form;

    fuzz_begin(&input, data, size);
    form = fuzz_below(&input, 4);
    if (form == 2)
        make_dump(&input, &bytes);
    else
        fuzz_rest(&input, &bytes);
    if (form == 1 || form == 2)
        seal(&bytes, (uint16_t)fuzz_below(&input, 14));
    if (form == 3)
        check_source(buffer_bytes(&bytes));
    else
        check_dump(buffer_bytes(&bytes));
    buffer_release(&bytes);
    return 0;
}
