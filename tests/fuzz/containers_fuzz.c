/* containers_fuzz SECONDS [SEED]: what bytes from outside meet below the codec. HyperLogLogs, which users write themselves (SET, RESTORE), LZF,
 * the old ziplists and zipmaps, intsets and listpacks: damaged ones are refused or can be used in every way. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "containers/hll.h"
#include "containers/intset.h"
#include "containers/listpack.h"
#include "containers/ziplist.h"
#include "support/fuzz.h"
#include "value/lzf.h"

enum { BYTES_MAX = 1 << 16, ELEMENTS_MAX = 300 };

static void damage(struct random *random, struct buffer *bytes)
{
    static const uint8_t telling[] = { 0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xd0, 0xe0, 0xf0, 0xf1, 0xf4, 0xfe, 0xff };

    for (uint64_t i = random_below(random, 4); i > 0 && bytes->size > 0; i--) {
        size_t at = random_below(random, random_below(random, 2) && bytes->size > 24 ? 24 : bytes->size), size;

        switch (random_below(random, 5)) {
        case 0: bytes->data[at] = (char)telling[random_below(random, sizeof(telling))]; break;
        case 1: bytes->data[at] ^= (char)(1 << random_below(random, 8)); break;
        case 2: bytes->size = at; break;
        case 3:
            memmove(bytes->data + at, bytes->data + at + 1, bytes->size - at - 1);
            bytes->size--;
            break;
        default:
            size = random_below(random, bytes->size - at) + 1;
            if (bytes->size + size > BYTES_MAX)
                break;
            buffer_reserve(bytes, size);
            memmove(bytes->data + at + size, bytes->data + at, bytes->size - at);
            bytes->size += size;
        }
    }
}

/* In a block exactly as large, so that a read beyond it is seen. */
static char *exact_copy(const struct buffer *bytes)
{
    char *copy = mem_alloc(bytes->size);

    if (bytes->size > 0)
        memcpy(copy, bytes->data, bytes->size);
    return copy;
}

static struct bytes random_text(struct random *random, char room[200])
{
    size_t size = random_below(random, random_below(random, 8) == 0 ? 200 : 12);

    if (random_below(random, 3) == 0)
        return bytes_of(room, text_of_int((int64_t)random_next(random) >> random_below(random, 64), room));
    for (size_t i = 0; i < size; i++)
        room[i] = random_below(random, 2) ? (char)random_next(random) : 'x';
    return bytes_of(room, size);
}

/* HyperLogLog. */

static void hll_random(struct random *random, struct buffer *hll)
{
    size_t sparse_max = random_below(random, 4) == 0 ? 20000 : 3000;

    hll_create(hll);
    for (uint64_t i = random_below(random, random_below(random, 40) == 0 ? 5000 : 100); i > 0; i--) {
        uint64_t element = random_next(random);

        CHECK(hll_add(hll, bytes_of(&element, sizeof(element)), sparse_max) != HLL_CORRUPT);
    }
}

static bool hlls(struct random *random)
{
    uint8_t registers[HLL_REGISTERS] = { 0 }, again[HLL_REGISTERS] = { 0 };
    struct buffer hll = { 0 }, dense = { 0 }, text = { 0 };
    uint64_t count = 0, dense_count = 0;
    bool good = false;
    char *exact;

    hll_random(random, &hll);
    damage(random, &hll);
    exact = exact_copy(&hll);
    if (hll_is_one(bytes_of(exact, hll.size))) {
        good = hll_read(bytes_of(exact, hll.size), registers);
        CHECK(hll_count(bytes_of(exact, hll.size), &count) == good);
        hll_describe(bytes_of(exact, hll_is_sparse(bytes_of(exact, hll.size)) ? hll.size : HLL_HEADER_SIZE), &text);
        buffer_append_bytes(&dense, buffer_bytes(&hll));
        CHECK((hll_to_dense(&dense) == HLL_CORRUPT) == !good);
        for (int i = 0; i < 50; i++) {
            uint64_t element = random_next(random);
            enum hll_result result = hll_add(&hll, bytes_of(&element, sizeof(element)), 200 + random_below(random, 4000));

            CHECK(hll_is_one(buffer_bytes(&hll)) && (!good || result != HLL_CORRUPT));
        }
    }
    if (good) {
        CHECK(hll_count(buffer_bytes(&dense), &dense_count) && count == dense_count);
        CHECK(hll_read(buffer_bytes(&dense), again) && memcmp(registers, again, sizeof(registers)) == 0);
        /* What was added only ever raises; and what is raised is there. */
        memset(again, 0, sizeof(again));
        CHECK(hll_read(buffer_bytes(&hll), again));
        for (size_t i = 0; i < HLL_REGISTERS; i++)
            CHECK(again[i] >= registers[i]);
        CHECK(hll_raise(&dense, again, 3000) != HLL_CORRUPT);
        memset(registers, 0, sizeof(registers));
        CHECK(hll_read(buffer_bytes(&dense), registers) && memcmp(registers, again, sizeof(registers)) == 0);
    }
    mem_free(exact);
    buffer_release(&hll);
    buffer_release(&dense);
    buffer_release(&text);
    return good;
}

/* LZF. */

static bool lzfs(struct random *random)
{
    struct buffer plain = { 0 }, packed = { 0 }, out = { 0 };
    uint64_t parts = random_below(random, 60);
    char room[200], *exact;
    enum status status;
    size_t size;

    for (; parts > 0; parts--)
        buffer_append_bytes(&plain, random_text(random, room));
    buffer_append(&plain, "x", 1);
    buffer_reserve(&packed, plain.size + plain.size / 16 + 64);
    size = lzf_encode(buffer_bytes(&plain), packed.data, random_below(random, 2) ? plain.size : packed.capacity);
    packed.size = size;
    if (size > 0) {
        CHECK(lzf_decode(buffer_bytes(&packed), plain.size, &out) == STATUS_OK);
        CHECK(bytes_equal(buffer_bytes(&plain), buffer_bytes(&out)));
    }
    out.size = 0;
    damage(random, &packed);
    exact = exact_copy(&packed);
    size = random_below(random, 3) == 0 ? random_below(random, 1 << 20) : plain.size;
    status = lzf_decode(bytes_of(exact, packed.size), size, &out);
    CHECK(status == STATUS_OK ? out.size == size : status == STATUS_CORRUPT && out.size == 0);
    CHECK(out.capacity <= 4096 + 200 * (packed.size + plain.size + 1));
    mem_free(exact);
    buffer_release(&plain);
    buffer_release(&packed);
    buffer_release(&out);
    return status == STATUS_OK;
}

/* Ziplists and zipmaps: from small ones that are good. */

static bool old_lists(struct random *random)
{
    static const struct bytes made[] = {
        { "\x3c\x00\x00\x00\x31\x00\x00\x00\x0c\x00\x00\x01\x61\x03\xf4\x02\x02\x62\x62\x04\xfe\x85\x03\x01\x63\x03\xc0\x00\x80\x04\x01\x64\x03"
          "\xf0\x01\x02\x80\x05\x01\x65\x03\xd0\x00\x00\x00\x80\x06\x01\x66\x03\xe0\x00\x00\x00\x00\x00\x00\x00\x80\xff", 60 },
        { "\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01\x61\x03\xfd\xff", 16 },
    };
    static const struct bytes map = { "\x02\x01\x61\x03\x02\x78\x79\x7a\x00\x00\x02\x62\x62\x01\x00\x37\xff", 17 };
    uint64_t kind = random_below(random, 3);
    struct ziplist_reader ziplist;
    struct zipmap_reader zipmap;
    struct buffer bytes = { 0 };
    char digits[TEXT_INT_SIZE], *exact;
    struct bytes element, value;
    enum status status;
    size_t sum = 0;

    buffer_append_bytes(&bytes, kind < 2 ? made[kind] : map);
    damage(random, &bytes);
    exact = exact_copy(&bytes);
    status = kind < 2 ? ziplist_read(&ziplist, bytes_of(exact, bytes.size)) : zipmap_read(&zipmap, bytes_of(exact, bytes.size));
    while (status == STATUS_OK) {
        status = kind < 2 ? ziplist_next(&ziplist, &element, digits) : zipmap_next(&zipmap, &element, &value);
        for (size_t i = 0; status == STATUS_OK && i < element.size; i++)
            sum += (uint8_t)element.data[i];
        for (size_t i = 0; status == STATUS_OK && kind == 2 && i < value.size; i++)
            sum += (uint8_t)value.data[i];
    }
    CHECK(status == STATUS_NOT_FOUND || status == STATUS_CORRUPT);
    CHECK(sum < BYTES_MAX * 256u);
    mem_free(exact);
    buffer_release(&bytes);
    return status == STATUS_NOT_FOUND;
}

/* Intsets. */

static bool intsets(struct random *random)
{
    struct intset *set = intset_create();
    struct buffer bytes = { 0 };
    bool good;
    char *exact;

    for (uint64_t i = random_below(random, ELEMENTS_MAX); i > 0; i--)
        intset_add(&set, (int64_t)random_next(random) >> random_below(random, 64));
    buffer_append_bytes(&bytes, intset_bytes(set));
    intset_destroy(set);
    damage(random, &bytes);
    exact = exact_copy(&bytes);
    good = intset_is_valid(bytes_of(exact, bytes.size));
    if (good) {
        size_t count;

        set = intset_of_bytes(bytes_of(exact, bytes.size));
        count = intset_count(set);
        for (size_t i = 0; i < count; i++)
            CHECK(intset_has(set, intset_get(set, i)) && (i == 0 || intset_get(set, i - 1) < intset_get(set, i)));
        for (int i = 0; i < 20; i++) {
            int64_t number = (int64_t)random_next(random) >> random_below(random, 64);
            bool was_there = intset_has(set, number);

            CHECK(intset_add(&set, number) == !was_there && intset_has(set, number));
            CHECK(was_there || (intset_remove(&set, number) && !intset_has(set, number)));
            CHECK(intset_count(set) == count);
        }
        CHECK(intset_is_valid(intset_bytes(set)));
        intset_destroy(set);
    }
    mem_free(exact);
    buffer_release(&bytes);
    return good;
}

/* Listpacks: what is valid is the same from both ends, and stays valid under any change. */

static void change_pack(struct random *random, struct listpack **pack)
{
    size_t count = listpack_count(*pack), at = count > 0 ? listpack_seek(*pack, (int64_t)random_below(random, count)) : LISTPACK_NONE;
    char room[200];

    switch (random_below(random, 5)) {
    case 0: listpack_insert(pack, at, random_text(random, room)); break;
    case 1: listpack_insert_int(pack, at, (int64_t)random_next(random) >> random_below(random, 64)); break;
    case 2: listpack_append(pack, random_text(random, room)); break;
    case 3:
        if (at != LISTPACK_NONE)
            listpack_replace(pack, at, random_text(random, room));
        break;
    default:
        if (at != LISTPACK_NONE)
            listpack_delete(pack, at, 1 + random_below(random, 3));
    }
}

static bool listpacks(struct random *random)
{
    const struct hash_seed seed = { random_next(random), 1 };
    struct listpack *pack = listpack_create();
    struct buffer bytes = { 0 };
    char digits[TEXT_INT_SIZE], *exact;
    bool good;

    for (uint64_t i = random_below(random, ELEMENTS_MAX / 4); i > 0; i--)
        change_pack(random, &pack);
    buffer_append_bytes(&bytes, listpack_bytes(pack));
    listpack_destroy(pack);
    damage(random, &bytes);
    exact = exact_copy(&bytes);
    good = listpack_is_valid(bytes_of(exact, bytes.size));
    if (good) {
        size_t up = 0, down = 0, last = LISTPACK_NONE;

        pack = listpack_of_bytes(bytes_of(exact, bytes.size));
        for (size_t at = listpack_first(pack); at != LISTPACK_NONE; at = listpack_next(pack, at), up++) {
            CHECK(listpack_equals(pack, at, listpack_get(pack, at, digits)));
            CHECK(listpack_find(pack, listpack_first(pack), listpack_get(pack, at, digits), 0) <= at);
            last = at;
        }
        CHECK(last == listpack_last(pack));
        for (size_t at = last; at != LISTPACK_NONE; at = listpack_previous(pack, at))
            down++;
        CHECK(up == down && up == listpack_count(pack));
        listpack_has_twins(pack, 1 + random_below(random, 3), &seed);
        for (int i = 0; i < 20; i++) {
            change_pack(random, &pack);
            CHECK(listpack_is_valid(listpack_bytes(pack)));
        }
        listpack_destroy(pack);
    }
    mem_free(exact);
    buffer_release(&bytes);
    return good;
}

int main(int argc, char **argv)
{
    static bool (*const targets[])(struct random *) = { hlls, lzfs, old_lists, intsets, listpacks };
    static const char *const names[] = { "HyperLogLogs", "LZF", "ziplists and zipmaps", "intsets", "listpacks" };
    enum { TARGETS = sizeof(targets) / sizeof(targets[0]) };
    struct fuzz_time time;
    uint64_t seed = fuzz_begin(&time, "containers_fuzz", argc, argv), first = seed, good[TARGETS] = { 0 };

    do {
        for (int i = 0; i < 20; i++, seed++) {
            for (size_t target = 0; target < TARGETS; target++) {
                struct random random;

                random_init(&random, seed);
                good[target] += targets[target](&random);
            }
        }
    } while (fuzz_goes_on(&time));
    printf("containers_fuzz: %" PRIu64 " of each; good:", seed - first);
    for (size_t target = 0; target < TARGETS; target++)
        printf(" %" PRIu64 " %s%s", good[target], names[target], target + 1 < TARGETS ? "," : "\n");
    return 0;
}
