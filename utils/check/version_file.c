#include "version_file.h"

#include <string.h>

#include "base/mem.h"

/* The tags in a record of a MANIFEST; what follows a tag depends on it. */
enum { TAG_COMPARATOR = 1, TAG_LOG = 2, TAG_NEXT = 3, TAG_SEQUENCE = 4, TAG_POINTER = 5, TAG_DELETED = 6, TAG_NEW = 7, TAG_OLD_LOG = 9 };
enum { INTERNAL_SIZE = 8 };

void version_file_init(struct version_file *version)
{
    *version = (struct version_file){ 0 };
}

void version_file_release(struct version_file *version)
{
    for (int i = 0; i < version->count; i++) {
        mem_free((void *)version->tables[i].smallest.data);
        mem_free((void *)version->tables[i].largest.data);
    }
    mem_free(version->tables);
    version_file_init(version);
}

const struct version_table *version_file_table(const struct version_file *version, uint64_t number)
{
    for (int i = version->count - 1; i >= 0; i--) {
        if (version->tables[i].number == number)
            return &version->tables[i];
    }
    return NULL;
}

static bool take_number(struct bytes *from, uint64_t *number)
{
    *number = 0;
    for (int shift = 0; shift < 64 && from->size > 0; shift += 7) {
        uint8_t byte = (uint8_t)from->data[0];

        *from = bytes_of(from->data + 1, from->size - 1);
        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static bool take_text(struct bytes *from, struct bytes *text)
{
    uint64_t size;

    if (!take_number(from, &size) || size > from->size)
        return false;
    *text = bytes_of(from->data, size);
    *from = bytes_of(from->data + size, from->size - size);
    return true;
}

/* A copy of the key without the bytes that LevelDB adds to it. */
static struct bytes copy_key(struct bytes key)
{
    key.size = key.size < INTERNAL_SIZE ? 0 : key.size - INTERNAL_SIZE;
    return bytes_of(mem_string(key), key.size);
}

static bool take_table(struct version_file *version, struct bytes *from)
{
    struct version_table table = { .live = true };
    struct bytes smallest, largest;
    uint64_t level;

    if (!take_number(from, &level) || !take_number(from, &table.number) || !take_number(from, &table.size) || !take_text(from, &smallest) ||
        !take_text(from, &largest))
        return false;
    table.smallest = copy_key(smallest);
    table.largest = copy_key(largest);
    if (version->count == version->capacity) {
        version->capacity = version->capacity == 0 ? 64 : version->capacity * 2;
        version->tables = mem_realloc(version->tables, (size_t)version->capacity * sizeof(table));
    }
    version->tables[version->count++] = table;
    return true;
}

static bool take_deleted(struct version_file *version, struct bytes *from)
{
    uint64_t level, number;

    if (!take_number(from, &level) || !take_number(from, &number))
        return false;
    for (int i = 0; i < version->count; i++) {
        if (version->tables[i].number == number)
            version->tables[i].live = false;
    }
    return true;
}

void version_file_add(void *context, struct bytes record)
{
    struct version_file *version = context;
    struct bytes text;
    uint64_t tag, number;
    bool good = true;

    /* A table that is moved to another level is deleted and new in one record, so deletions are read first. */
    for (int pass = 0; pass < 2 && good; pass++) {
        struct bytes rest = record;

        while (good && rest.size > 0) {
            good = take_number(&rest, &tag);
            if (!good)
                break;
            switch (tag) {
            case TAG_COMPARATOR: good = take_text(&rest, &text); break;
            case TAG_LOG:
            case TAG_NEXT:
            case TAG_SEQUENCE:
            case TAG_OLD_LOG: good = take_number(&rest, &number); break;
            case TAG_POINTER: good = take_number(&rest, &number) && take_text(&rest, &text); break;
            case TAG_DELETED:
                good = pass == 0 ? take_deleted(version, &rest) : take_number(&rest, &number) && take_number(&rest, &number);
                break;
            case TAG_NEW:
                good = pass == 1 ? take_table(version, &rest)
                                 : take_number(&rest, &number) && take_number(&rest, &number) && take_number(&rest, &number) &&
                                       take_text(&rest, &text) && take_text(&rest, &text);
                break;
            default: good = false;
            }
        }
    }
    version->strange = version->strange || !good;
}
