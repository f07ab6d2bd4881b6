/* Hostile formats and data for struct.unpack, struct.pack and struct.size. What a format without variable sizes unpacks, it
 * packs to as many bytes.
 */
#include "base/mem.h"
#include "support/fuzz.h"
#include "support/script_fuzz.h"

static const char code[] =
    "pcall(struct.pack, ARGV[1], ARGV[2], 1, 2, 3, 'x', -5, 1e300) "
    "local fixed, size = pcall(struct.size, ARGV[1]) "
    "local r = {pcall(struct.unpack, ARGV[1], ARGV[2])} "
    "if not r[1] then return r[2] end "
    "local last = r[#r] "
    "if type(last) ~= 'number' or last > #ARGV[2] + 1 + 32 then return 'BUG: position '..tostring(last) end "
    "if not fixed then return 1 end "
    "if size ~= last - 1 then return 'BUG: size '..size..' '..last end "
    "r[#r] = nil "
    "local ok, packed = pcall(struct.pack, ARGV[1], unpack(r, 2)) "
    "if not ok or #packed ~= size then return 'BUG: packed '..tostring(packed) end "
    "return size";

static void write_format(struct fuzz_input *fuzz, struct buffer *format)
{
    static const char letters[] = "<>!bBhHlLTiIfdxsc 0123456789iIcZ";
    size_t count = fuzz_below(fuzz, 16);

    for (size_t i = 0; i < count; i++)
        buffer_append_u8(format, (uint8_t)letters[fuzz_below(fuzz, sizeof(letters) - 1)]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input fuzz;
    struct buffer format = { 0 }, input = { 0 };
    struct bytes exact;

    fuzz_begin(&fuzz, data, size);
    write_format(&fuzz, &format);
    fuzz_rest(&fuzz, &input);
    exact = fuzz_exact_copy(buffer_bytes(&input));
    script_fuzz_run(code, buffer_bytes(&format), exact);
    mem_free((void *)exact.data);
    buffer_release(&format);
    buffer_release(&input);
    return 0;
}
