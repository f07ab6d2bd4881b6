/* Hostile bytes for cjson.decode. What is decoded is encoded and decoded again: the texts must be the same. Any bytes are
 * encoded as a string, which must come back.
 */
#include "base/mem.h"
#include "support/fuzz.h"
#include "support/script_fuzz.h"

static const char code[] =
    "cjson.encode_sparse_array(true) cjson.encode_invalid_numbers(true) "
    "if cjson.decode(cjson.encode('x'..ARGV[1])) ~= ('x'..ARGV[1]) and not ARGV[1]:find('%z') then return 'BUG: string' end "
    "local ok, value = pcall(cjson.decode, ARGV[1]) "
    "if not ok then return value end "
    "local text = cjson.encode(value) "
    "local ok, again = pcall(function() return cjson.encode(cjson.decode(text)) end) "
    "if not ok or (#again ~= #text and not text:find('[.e]')) then return 'BUG: '..text..' '..tostring(again) end "
    "return #text";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct buffer input = { 0 };
    struct bytes exact;

    fuzz_begin(&fuzz, data, size);
    if (fuzz_below(&fuzz, 4) == 1) {
        fuzz_rest(&fuzz, &input);
        fuzz_damage(&fuzz, &input, BYTES("{}[]\",:\\u0-.eEnNiIt"), 4, 4096);
    } else {
        fuzz_rest(&fuzz, &input);
    }
    exact = fuzz_exact_copy(buffer_bytes(&input));
    script_fuzz_run(code, exact, BYTES(""));
    mem_free((void *)exact.data);
    buffer_release(&input);
    return 0;
}
