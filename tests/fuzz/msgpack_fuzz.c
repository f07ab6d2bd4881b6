/* Hostile bytes for cmsgpack.unpack, unpack_one and unpack_limit. What is unpacked is packed and unpacked again: the bytes of
 * both times must have the same size.
 */
#include <stdio.h>

#include "base/mem.h"
#include "support/fuzz.h"
#include "support/script_fuzz.h"

static const char code[] =
    "pcall(cmsgpack.unpack_one, ARGV[1], tonumber(ARGV[2])) pcall(cmsgpack.unpack_limit, ARGV[1], tonumber(ARGV[2]), 1) "
    "local r = {pcall(cmsgpack.unpack, ARGV[1])} "
    "if not r[1] or #r == 1 then return 1 end "
    "if not r[2] then return 2 end "
    "local packed = cmsgpack.pack(r[2]) "
    "local ok, again = pcall(function() return cmsgpack.pack((cmsgpack.unpack(packed))) end) "
    "if not ok or #again ~= #packed then return 'BUG: '..packed..' '..tostring(again) end "
    "return #packed";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char telling[] = { (char)0x80, (char)0x90, (char)0xa0, (char)0xc0, (char)0xca, (char)0xcb, (char)0xd9, (char)0xdb,
                                    (char)0xdc, (char)0xdd, (char)0xde, (char)0xdf, 0, 1, (char)0xff };
    char offset[16];
    struct fuzz_input fuzz;
    struct buffer input = { 0 };
    struct bytes exact, number;

    fuzz_begin(&fuzz, data, size);
    number = bytes_of(offset, (size_t)snprintf(offset, sizeof(offset), "%d", (int)fuzz_below(&fuzz, 20) - 2));
    if (fuzz_below(&fuzz, 4) == 1) {
        fuzz_rest(&fuzz, &input);
        fuzz_damage(&fuzz, &input, bytes_of(telling, sizeof(telling)), 4, 4096);
    } else {
        fuzz_rest(&fuzz, &input);
    }
    exact = fuzz_exact_copy(buffer_bytes(&input));
    script_fuzz_run(code, exact, number);
    mem_free((void *)exact.data);
    buffer_release(&input);
    return 0;
}
