#include "value/paged_string.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    BLOCK_FACTOR = 4, BLOCK_LESS = 64,          /* four usual pages, with what an entry adds to a page (keyspace/pages.h) */
    CUT_BLOCKS = 256,
};

uint32_t paged_string_block(const struct value_limits *limits)
{
    return (uint32_t)limits->page_size * BLOCK_FACTOR - BLOCK_LESS;
}

static uint64_t blocks_of(uint64_t length, uint32_t block)
{
    return (length + block - 1) / block;
}

bool paged_string_root(uint64_t size, uint64_t length, uint32_t block, struct paged_root *root)
{
    if (block == 0 || length == 0 || size > length || length > (uint64_t)block * PAGED_TREE_FIRST)
        return false;
    *root = (struct paged_root){ .size = size, .pages = (uint32_t)blocks_of(length, block) };
    return true;
}

struct paged_value *paged_string_of_root(const struct paged_root *root, uint64_t length, uint32_t block, uint64_t id)
{
    struct paged_string *string = mem_alloc(sizeof(*string));

    *string = (struct paged_string){ { .root = *root, .id = id }, length, block };
    return &string->paged;
}

static struct pager *pager_of(const struct value *value)
{
    return paged_of(value)->access->table.pager;
}

/* The string gets blocks of zeros. */
static void add_blocks(struct paged_string *string, struct pager *pager, uint64_t count)
{
    struct paged_root *root = &string->paged.root;

    CHECK(count <= PAGED_TREE_FIRST);
    for (; root->pages < count; root->pages++)
        (void)pager->create(pager, root->pages, 0);
}

/* Without the zeros at their end. */
static size_t trimmed(struct bytes bytes)
{
    size_t size = bytes.size;

    while (size > 0 && bytes.data[size - 1] == '\0')
        size--;
    return size;
}

struct paged_value *paged_string_create(struct bytes bytes, struct blob *consumed, uint64_t length, uint32_t block, uint64_t id, struct paged_access *access)
{
    struct paged_string *string = mem_alloc(sizeof(*string));
    struct paged_root *root = &string->paged.root;
    struct pager *pager = access->table.pager;

    *string = (struct paged_string){ { .root = { .pages = (uint32_t)blocks_of(length, block) }, .id = id, .access = access }, length, block };
    access->table.root = root;
    access->tree = NULL;
    for (uint32_t number = root->pages; number-- > 0;) {
        uint64_t offset = (uint64_t)number * block, left = offset < bytes.size ? bytes.size - offset : 0;
        size_t size = left > 0 ? trimmed(bytes_of(bytes.data + offset, left < block ? (size_t)left : block)) : 0;
        char *page = pager->create(pager, number, size);

        if (size > 0)
            memcpy(page, bytes.data + offset, size);
        root->size += size;
        if (consumed != NULL && number % CUT_BLOCKS == 0 && left > 0) {
            blob_cut(consumed, (size_t)offset);
            bytes = buffer_bytes(&consumed->buffer);
        }
    }
    return &string->paged;
}

/* The bytes that a block's page has. */
static struct bytes page_of(const struct value *value, uint32_t number)
{
    struct pager *pager = pager_of(value);
    const char *data;
    size_t size = 0;

    while (UNLIKELY((data = pager->find(pager, number, PAGER_USE, &size)) == NULL))
        pager->bring(pager, number);
    return bytes_of(data, size);
}

struct string_run paged_string_run(const struct value *value, uint64_t offset)
{
    const struct paged_string *string = paged_string_of(value);
    uint32_t number = (uint32_t)(offset / string->block);
    size_t within = (size_t)(offset - (uint64_t)number * string->block);
    uint64_t left = string->length - offset;
    struct bytes page = page_of(value, number);
    size_t size = string->block - within < left ? string->block - within : (size_t)left;

    CHECK(offset < string->length);
    if (page.size <= within)
        return (struct string_run){ NULL, size };
    if (page.size - within < size)
        size = page.size - within;
    return (struct string_run){ page.data + within, size };
}

void paged_string_grow(const struct value *value, uint64_t length)
{
    struct paged_string *string = paged_string_of(value);

    if (length <= string->length)
        return;
    string->length = length;
    add_blocks(string, pager_of(value), blocks_of(length, string->block));
}

/* A page has more bytes, of `before` that were known. */
static void change_size(struct paged_string *string, size_t before, size_t now)
{
    uint64_t *size = &string->paged.root.size;

    *size += now - before;
    if (*size > string->length)
        *size = string->length;
}

/* A part of one block, which exists. */
static void write_block(const struct value *value, uint32_t number, size_t within, struct bytes bytes)
{
    struct pager *pager = pager_of(value);
    size_t end = within + bytes.size, size;
    struct bytes page = page_of(value, number);
    char *data;

    size = page.size < end ? end : page.size;
    change_size(paged_string_of(value), page.size, size);
    data = pager->change(pager, number, size);
    if (page.size < within)
        memset(data + page.size, 0, within - page.size);
    memcpy(data + within, bytes.data, bytes.size);
}

/* All of a block, which exists; what it had is not needed. If that is not resident it may have been nothing. */
static void replace_block(const struct value *value, uint32_t number, struct bytes bytes)
{
    struct pager *pager = pager_of(value);
    size_t size = 0;
    bool is_resident = pager->find(pager, number, PAGER_USE, &size) != NULL;

    change_size(paged_string_of(value), size, bytes.size);
    memcpy(is_resident ? pager->change(pager, number, bytes.size) : pager->create(pager, number, bytes.size), bytes.data, bytes.size);
}

void paged_string_write(const struct value *value, uint64_t offset, struct bytes bytes)
{
    struct paged_string *string = paged_string_of(value);

    paged_string_grow(value, offset + bytes.size);
    while (bytes.size > 0) {
        uint32_t number = (uint32_t)(offset / string->block);
        size_t within = (size_t)(offset - (uint64_t)number * string->block), left = string->block - within;
        struct bytes part = bytes_of(bytes.data, bytes.size < left ? bytes.size : left);

        if (part.size == string->block)
            replace_block(value, number, part);
        else
            write_block(value, number, within, part);
        offset += part.size;
        bytes = bytes_of(bytes.data + part.size, bytes.size - part.size);
    }
}

/* The blocks from `first` to `last`. Of very many that are missing the first ones are wanted. */
static bool has_blocks(const struct value *value, uint32_t first, uint32_t last)
{
    bool has = true;

    for (uint32_t number = first; number <= last; number++) {
        has = paged_has_page(value, number) && has;
        if (paged_of(value)->access->wanted_count >= PAGED_WANTED_MAX)
            return false;
    }
    return has;
}

bool paged_string_has(const struct value *value, uint64_t offset, uint64_t size)
{
    const struct paged_string *string = paged_string_of(value);
    uint64_t left = offset < string->length ? string->length - offset : 0;

    if (size > left)
        size = left;
    return size == 0 || has_blocks(value, (uint32_t)(offset / string->block), (uint32_t)((offset + size - 1) / string->block));
}

/* One that does not exist yet is not missing. */
static bool has_block(const struct value *value, uint64_t number)
{
    return number >= paged_of(value)->root.pages || paged_has_page(value, (uint32_t)number);
}

bool paged_string_has_write(const struct value *value, uint64_t offset, uint64_t size)
{
    uint32_t block = paged_string_of(value)->block;
    uint64_t end = offset + size;
    bool has = true;

    if (size == 0)
        return true;
    if (offset % block != 0 || size < block)
        has = has_block(value, offset / block);
    if (end % block != 0)
        has = has_block(value, end / block) && has;
    return has;
}
