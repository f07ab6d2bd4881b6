/* What bytes from outside meet below the codec. HyperLogLogs, which users write themselves (SET, RESTORE), LZF, the old ziplists and zipmaps,
 * intsets, listpacks, pages of pairs and trees of pages: any bytes, or good ones, damaged. They are refused or can be used in every way. */
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/hll.h"
#include "containers/intset.h"
#include "containers/listpack.h"
#include "containers/page_tree.h"
#include "containers/pair_page.h"
#include "containers/ziplist.h"
#include "support/fuzz.h"
#include "support/memory_pager.h"
#include "value/lzf.h"

enum { BYTES_MAX = 1 << 16, ELEMENTS_MAX = 300 };

static const struct bytes telling = BYTES("\0\1\2\x3f\x40\x7f\x80\x81\xbf\xc0\xd0\xe0\xf0\xf1\xf4\xfe\xff");

/* The bytes to look at: any, or what `make` made, damaged. Freed with mem_free. */
static struct bytes bytes_to_try(struct fuzz_input *input, void (*make)(struct fuzz_input *input, struct buffer *out))
{
    struct buffer bytes = { 0 };
    struct bytes exact;

    if (fuzz_below(input, 2) == 0) {
        fuzz_rest(input, &bytes);
    } else {
        make(input, &bytes);
        fuzz_damage(input, &bytes, telling, 3, BYTES_MAX);
    }
    exact = fuzz_exact_copy(buffer_bytes(&bytes));
    buffer_release(&bytes);
    return exact;
}

/* HyperLogLog. */

static void make_hll(struct fuzz_input *input, struct buffer *hll)
{
    size_t sparse_max = fuzz_below(input, 4) == 0 ? 20000 : 3000;

    hll_create(hll);
    for (uint64_t i = fuzz_below(input, fuzz_below(input, 40) == 0 ? 5000 : 100); i > 0; i--) {
        uint64_t element = fuzz_next(input);

        CHECK(hll_add(hll, bytes_of(&element, sizeof(element)), sparse_max) != HLL_CORRUPT);
    }
}

static void hlls(struct fuzz_input *input)
{
    uint8_t registers[HLL_REGISTERS] = { 0 }, again[HLL_REGISTERS] = { 0 };
    struct buffer hll = { 0 }, dense = { 0 }, text = { 0 };
    uint64_t count = 0, dense_count = 0;
    struct bytes exact = bytes_to_try(input, make_hll);
    bool good = false;

    if (hll_is_one(exact)) {
        good = hll_read(exact, registers);
        CHECK(hll_count(exact, &count) == good);
        hll_describe(bytes_of(exact.data, hll_is_sparse(exact) ? exact.size : HLL_HEADER_SIZE), &text);
        buffer_append_bytes(&hll, exact);
        buffer_append_bytes(&dense, exact);
        CHECK((hll_to_dense(&dense) == HLL_CORRUPT) == !good);
        for (int i = 0; i < 50; i++) {
            uint64_t element = fuzz_next(input);
            enum hll_result result = hll_add(&hll, bytes_of(&element, sizeof(element)), 200 + fuzz_below(input, 4000));

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
    mem_free((void *)exact.data);
    buffer_release(&hll);
    buffer_release(&dense);
    buffer_release(&text);
}

/* LZF. */

static void unpack(struct bytes packed, size_t size)
{
    struct buffer out = { 0 };
    enum status status = lzf_decode(packed, size, &out);

    CHECK(status == STATUS_OK ? out.size == size : status == STATUS_CORRUPT && out.size == 0);
    CHECK(out.capacity <= (2 << 20) + 200 * packed.size);
    buffer_release(&out);
}

static void packed_and_unpacked(struct fuzz_input *input)
{
    struct buffer plain = { 0 }, packed = { 0 }, out = { 0 };
    char room[200];
    struct bytes exact;

    for (uint64_t parts = fuzz_below(input, 60); parts > 0; parts--)
        buffer_append_bytes(&plain, fuzz_text(input, room, sizeof(room)));
    buffer_append(&plain, "x", 1);
    buffer_reserve(&packed, plain.size + plain.size / 16 + 64);
    packed.size = lzf_encode(buffer_bytes(&plain), packed.data, fuzz_below(input, 2) ? plain.size : packed.capacity);
    if (packed.size > 0) {
        CHECK(lzf_decode(buffer_bytes(&packed), plain.size, &out) == STATUS_OK);
        CHECK(bytes_equal(buffer_bytes(&plain), buffer_bytes(&out)));
    }
    fuzz_damage(input, &packed, telling, 3, BYTES_MAX);
    exact = fuzz_exact_copy(buffer_bytes(&packed));
    unpack(exact, fuzz_below(input, 3) == 0 ? fuzz_below(input, 1 << 24) : plain.size);
    mem_free((void *)exact.data);
    buffer_release(&plain);
    buffer_release(&packed);
    buffer_release(&out);
}

static void lzfs(struct fuzz_input *input)
{
    struct buffer packed = { 0 };
    struct bytes exact;
    size_t size;

    if (fuzz_below(input, 2) == 1) {
        packed_and_unpacked(input);
        return;
    }
    size = fuzz_below(input, 1 << 24);
    fuzz_rest(input, &packed);
    exact = fuzz_exact_copy(buffer_bytes(&packed));
    unpack(exact, size);
    mem_free((void *)exact.data);
    buffer_release(&packed);
}

/* Ziplists and zipmaps: the corpus has good ones. Nothing writes them any more. */

static size_t sum_of(struct bytes bytes)
{
    size_t sum = 0;

    for (size_t i = 0; i < bytes.size; i++)
        sum += (uint8_t)bytes.data[i];
    return sum;
}

static void ziplists(struct fuzz_input *input)
{
    struct ziplist_reader ziplist;
    struct buffer bytes = { 0 };
    char digits[TEXT_INT_SIZE];
    struct bytes element, exact;
    enum status status;
    size_t sum = 0;

    fuzz_rest(input, &bytes);
    exact = fuzz_exact_copy(buffer_bytes(&bytes));
    status = ziplist_read(&ziplist, exact);
    while (status == STATUS_OK && (status = ziplist_next(&ziplist, &element, digits)) == STATUS_OK)
        sum += sum_of(element);
    CHECK(status == STATUS_NOT_FOUND || status == STATUS_CORRUPT);
    CHECK(sum <= BYTES_MAX * 256u);
    mem_free((void *)exact.data);
    buffer_release(&bytes);
}

static void zipmaps(struct fuzz_input *input)
{
    struct zipmap_reader zipmap;
    struct buffer bytes = { 0 };
    struct bytes field, value, exact;
    enum status status;
    size_t sum = 0;

    fuzz_rest(input, &bytes);
    exact = fuzz_exact_copy(buffer_bytes(&bytes));
    status = zipmap_read(&zipmap, exact);
    while (status == STATUS_OK && (status = zipmap_next(&zipmap, &field, &value)) == STATUS_OK)
        sum += sum_of(field) + sum_of(value);
    CHECK(status == STATUS_NOT_FOUND || status == STATUS_CORRUPT);
    CHECK(sum <= BYTES_MAX * 256u);
    mem_free((void *)exact.data);
    buffer_release(&bytes);
}

/* Intsets. */

static void make_intset(struct fuzz_input *input, struct buffer *out)
{
    struct intset *set = intset_create();

    for (uint64_t i = fuzz_below(input, ELEMENTS_MAX); i > 0; i--)
        intset_add(&set, fuzz_integer(input));
    buffer_append_bytes(out, intset_bytes(set));
    intset_destroy(set);
}

static void intsets(struct fuzz_input *input)
{
    struct bytes exact = bytes_to_try(input, make_intset);
    struct intset *set;

    if (intset_is_valid(exact)) {
        size_t count;

        set = intset_of_bytes(exact);
        count = intset_count(set);
        for (size_t i = 0; i < count; i++)
            CHECK(intset_has(set, intset_get(set, i)) && (i == 0 || intset_get(set, i - 1) < intset_get(set, i)));
        for (int i = 0; i < 20; i++) {
            int64_t number = fuzz_integer(input);
            bool was_there = intset_has(set, number);

            CHECK(intset_add(&set, number) == !was_there && intset_has(set, number));
            CHECK(was_there || (intset_remove(&set, number) && !intset_has(set, number)));
            CHECK(intset_count(set) == count);
        }
        CHECK(intset_is_valid(intset_bytes(set)));
        intset_destroy(set);
    }
    mem_free((void *)exact.data);
}

/* Listpacks: what is valid is the same from both ends, and stays valid under any change. */

static void change_pack(struct fuzz_input *input, struct listpack **pack)
{
    size_t count = listpack_count(*pack), at = count > 0 ? listpack_seek(*pack, (int64_t)fuzz_below(input, count)) : LISTPACK_NONE;
    char room[200];

    switch (fuzz_below(input, 5)) {
    case 0: listpack_insert(pack, at, fuzz_text(input, room, sizeof(room))); break;
    case 1: listpack_insert_int(pack, at, fuzz_integer(input)); break;
    case 2: listpack_append(pack, fuzz_text(input, room, sizeof(room))); break;
    case 3:
        if (at != LISTPACK_NONE)
            listpack_replace(pack, at, fuzz_text(input, room, sizeof(room)));
        break;
    default:
        if (at != LISTPACK_NONE)
            listpack_delete(pack, at, 1 + fuzz_below(input, 3));
    }
}

static void make_listpack(struct fuzz_input *input, struct buffer *out)
{
    struct listpack *pack = listpack_create();

    for (uint64_t i = fuzz_below(input, ELEMENTS_MAX / 4); i > 0; i--)
        change_pack(input, &pack);
    buffer_append_bytes(out, listpack_bytes(pack));
    listpack_destroy(pack);
}

static void listpacks(struct fuzz_input *input)
{
    const struct hash_seed seed = { fuzz_below(input, 256), 1 };
    struct bytes exact = bytes_to_try(input, make_listpack);
    struct listpack *pack;
    char digits[TEXT_INT_SIZE];

    if (listpack_is_valid(exact)) {
        size_t up = 0, down = 0, last = LISTPACK_NONE;

        pack = listpack_of_bytes(exact);
        for (size_t at = listpack_first(pack); at != LISTPACK_NONE; at = listpack_next(pack, at), up++) {
            CHECK(listpack_equals(pack, at, listpack_get(pack, at, digits)));
            CHECK(listpack_find(pack, listpack_first(pack), listpack_get(pack, at, digits), 0) <= at);
            last = at;
        }
        CHECK(last == listpack_last(pack));
        for (size_t at = last; at != LISTPACK_NONE; at = listpack_previous(pack, at))
            down++;
        CHECK(up == down && up == listpack_count(pack));
        listpack_has_twins(pack, 1 + fuzz_below(input, 3), &seed);
        for (int i = 0; i < 20; i++) {
            change_pack(input, &pack);
            CHECK(listpack_is_valid(listpack_bytes(pack)));
        }
        listpack_destroy(pack);
    }
    mem_free((void *)exact.data);
}

/* Pages of pairs. */

/* Adds a pair to the page, which is moved: what is outside of it is found by the sanitizer. */
static void add_pair(struct fuzz_input *input, struct buffer *page)
{
    char room[300];
    struct bytes key = fuzz_text(input, room, sizeof(room)), value = bytes_of(room, fuzz_below(input, 2) * key.size);
    uint64_t number = fuzz_below(input, 3) == 0 ? 1 + fuzz_below(input, PAIR_NUMBER_MAX) : 0;
    size_t size = pair_page_size(pair_page_pairs_size(buffer_bytes(page)) + pair_numbered_size(key, value, number), pair_page_count(buffer_bytes(page)) + 1);
    struct buffer larger = { 0 };

    memcpy(buffer_reserve(&larger, size), page->data, page->size);
    larger.size = pair_page_add(larger.data, page->size, (uint8_t)fuzz_next(input), key, value, number);
    CHECK(larger.size == size);
    buffer_release(page);
    *page = larger;
}

static void make_page(struct fuzz_input *input, struct buffer *page)
{
    struct pair_page_writer writer;

    pair_page_begin(&writer, buffer_reserve(page, pair_page_size(0, 0)), 0, 0);
    page->size = writer.size;
    for (uint64_t i = fuzz_below(input, fuzz_below(input, 10) == 0 ? ELEMENTS_MAX : 20); i > 0; i--)
        add_pair(input, page);
}

static void pages(struct fuzz_input *input)
{
    struct bytes exact = bytes_to_try(input, make_page);
    struct buffer page = { 0 };
    uint32_t index;

    if (pair_page_is_sound(exact)) {
        for (uint32_t i = 0; i < pair_page_count(exact); i++) {
            struct pair pair = pair_page_at(exact, i);

            CHECK(pair_page_find(exact, pair_page_fingerprint(exact, i), pair.key, &index) && index <= i);
        }
        buffer_append_bytes(&page, exact);
        for (int i = 0; i < 20; i++) {
            uint32_t count = pair_page_count(buffer_bytes(&page));

            if (count > 0 && fuzz_below(input, 2) == 0)
                page.size = pair_page_remove(page.data, page.size, (uint32_t)fuzz_below(input, count));
            else
                add_pair(input, &page);
            CHECK(pair_page_is_sound(buffer_bytes(&page)));
        }
        buffer_release(&page);
    }
    mem_free((void *)exact.data);
}

/* Trees of pages: nodes that are sound, but of no tree, are walked and end. */

static const struct page_tree_limits small_nodes = { 200, 120, 0 };

struct tree_rig {
    struct memory_pager memory;     /* first */
    const char *(*find)(struct pager *pager, uint32_t number, enum pager_use use, size_t *size);
};

/* Only nodes that are sound; a user would not have the others. */
static const char *find_sound(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    struct tree_rig *rig = (struct tree_rig *)pager;

    if (number >= rig->memory.capacity || rig->memory.pages[number].data == NULL)
        return NULL;
    return rig->find(pager, number, use, size);
}

static void make_tree(struct fuzz_input *input, struct page_tree *tree)
{
    struct page_tree_path path;
    char room[40] = { 0 };

    for (uint64_t i = fuzz_below(input, 60); i > 0; i--) {
        bool is_first = page_tree_last(tree, &path) != PAGE_TREE_YES;

        room[0] = (char)(255 - i);
        (void)page_tree_insert(tree, is_first ? NULL : &path, PAGE_TREE_AFTER, bytes_of(room, fuzz_below(input, sizeof(room))), fuzz_below(input, 9), 1, NULL);
    }
}

static void damage_nodes(struct fuzz_input *input, struct memory_pager *memory, uint32_t next)
{
    for (uint32_t i = 0; i < memory->capacity; i++) {
        struct memory_page *page = &memory->pages[i];

        if (page->data == NULL)
            continue;
        for (uint64_t changes = fuzz_below(input, 3); changes > 0; changes--)
            page->data[fuzz_below(input, page->size)] = (char)fuzz_next(input);
        page->is_missing = !page_tree_node_is_sound(bytes_of(page->data, page->size), next);
    }
}

static void trees(struct fuzz_input *input)
{
    struct page_tree_root root = { 0 };
    struct tree_rig rig;
    struct page_tree tree = { &root, &rig.memory.pager, small_nodes };
    struct page_tree_path path;
    struct buffer bytes = { 0 };
    uint32_t numbers[8];

    memory_pager_init(&rig.memory);
    make_tree(input, &tree);
    page_tree_root_write(&root, &bytes);
    page_tree_root_release(&root);
    fuzz_damage(input, &bytes, telling, 3, BYTES_MAX);
    if (page_tree_root_read(buffer_bytes(&bytes), &root)) {
        damage_nodes(input, &rig.memory, root.next);
        rig.find = rig.memory.pager.find;
        rig.memory.pager.find = find_sound;
        (void)page_tree_seek(&tree, BYTES("\xf0key"), &path);
        (void)page_tree_last(&tree, &path);
        (void)page_tree_seek_rank(&tree, fuzz_below(input, 100), &path);
        if (page_tree_first(&tree, &path) == PAGE_TREE_YES) {
            for (int i = 0; i < 200 && (i < 120 ? page_tree_next(&tree, &path) : page_tree_previous(&tree, &path)) == PAGE_TREE_YES; i++)
                ;
        }
        (void)page_tree_needs(&tree, fuzz_below(input, 50), fuzz_below(input, 1 << 20), fuzz_below(input, 2) == 0, numbers, 8);
    }
    page_tree_root_release(&root);
    buffer_release(&bytes);
    memory_pager_release(&rig.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;

    fuzz_begin(&input, data, size);
    switch (fuzz_below(&input, 8)) {
    case 0: hlls(&input); break;
    case 1: lzfs(&input); break;
    case 2: ziplists(&input); break;
    case 3: zipmaps(&input); break;
    case 4: intsets(&input); break;
    case 5: listpacks(&input); break;
    case 6: pages(&input); break;
    case 7: trees(&input); break;
    }
    return 0;
}
