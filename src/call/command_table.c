#include "call/command_table.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"

/* A name in lower case, padded with zeros to whole words, so that names are hashed and compared a word at a time. Most names are one word. */
struct slot {
    uint64_t first_word;
    uint64_t *words;            /* NULL: never used; owned */
    size_t size;
    struct command *command;    /* NULL: renamed away */
};

/* Open addressing, at most a quarter full. */
struct name_index {
    struct slot *slots;             /* NULL: there is no index */
    size_t mask;
};

struct command_table {
    struct command *rows;
    size_t row_count;
    struct command **sorted;        /* top-level commands that have a name */
    size_t sorted_count;
    struct name_index names;        /* as clients use them */
    struct name_index own;          /* as the rows have them; none until a command is renamed */
};

/* Turns the upper-case letters among eight bytes to lower case. */
static inline uint64_t lower_word(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t low = word & (0x7f * ones);
    uint64_t from_a = low + (0x80 - 'A') * ones;            /* the top bit of a byte is set if it is 'A' or above */
    uint64_t beyond_z = low + (0x7f - 'Z') * ones;          /* ... above 'Z' */
    uint64_t upper = (from_a ^ beyond_z) & ~word & (0x80 * ones);

    return word | upper >> 2;
}

/* Up to eight bytes in the machine's order, then zeros. Reads no byte after them. */
static inline uint64_t load_word(const char *data, size_t size)
{
    uint64_t word = 0;
    uint32_t first, last;

    if (size >= 8) {
        memcpy(&word, data, 8);
    } else if (size >= 4) {
        memcpy(&first, data, 4);
        memcpy(&last, data + size - 4, 4);
        word = (uint64_t)last << (size - 4) * 8 | first;
    } else if (size > 0) {      /* up to three bytes without a loop: some are read twice */
        word = (uint64_t)(unsigned char)data[0] | (uint64_t)(unsigned char)data[size / 2] << size / 2 * 8 |
            (uint64_t)(unsigned char)data[size - 1] << (size - 1) * 8;
    }
    return lower_word(word);
}

static inline uint64_t mix_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

static uint64_t name_hash(struct bytes name)
{
    uint64_t hash = name.size;

    for (size_t offset = 0; offset < name.size; offset += 8)
        hash = mix_word(hash, load_word(name.data + offset, name.size - offset));
    return hash;
}

static bool slot_holds(const struct slot *slot, struct bytes name)
{
    if (slot->size != name.size)
        return false;
    for (size_t offset = 0; offset < name.size; offset += 8) {
        if (slot->words[offset / 8] != load_word(name.data + offset, name.size - offset))
            return false;
    }
    return true;
}

/* slot_find for a name of one word. */
static struct slot *slot_find_short(const struct name_index *names, struct bytes name)
{
    uint64_t word = load_word(name.data, name.size);

    for (size_t index = mix_word(name.size, word);; index++) {
        struct slot *slot = &names->slots[index & names->mask];

        if ((slot->first_word == word && slot->size == name.size) || slot->words == NULL)
            return slot;
    }
}

/* The slot of the name, or the free one where it would be added. */
static struct slot *slot_find(const struct name_index *names, struct bytes name)
{
    if (LIKELY(name.size - 1 < 8))
        return slot_find_short(names, name);
    for (size_t index = name_hash(name);; index++) {
        struct slot *slot = &names->slots[index & names->mask];

        if (slot->words == NULL || slot_holds(slot, name))
            return slot;
    }
}

static void slot_fill(struct name_index *names, struct bytes name, struct command *command)
{
    struct slot *slot = slot_find(names, name);

    CHECK(slot->command == NULL);       /* two rows have the same name */
    if (slot->words == NULL) {
        size_t count = (name.size + 7) / 8;

        slot->words = mem_zalloc(count * sizeof(*slot->words) + 1);
        slot->size = name.size;
        slot->first_word = count > 0 ? load_word(name.data, name.size < 8 ? name.size : 8) : 0;
        for (size_t i = 0; i < count; i++)
            slot->words[i] = load_word(name.data + i * 8, name.size - i * 8);
    }
    slot->command = command;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct command *const *)a)->name, (*(struct command *const *)b)->name);
}

/* One key at a fixed place: most commands, and the fastest ones. */
static int find_only_key(const struct key_spec *spec)
{
    if (spec == NULL || spec[1].flags != 0 || spec->last != 0 || spec->step != 1 || spec->keyword != NULL || spec->numbered || spec->index <= 0)
        return 0;
    return spec->flags & (KEY_NOT_KEY | KEY_VARIABLE_FLAGS | KEY_BY_OPTIONS) ? 0 : spec->index;
}

static void copy_rows(struct command_table *table, const struct command *const *families)
{
    for (size_t i = 0; families[i] != NULL; i++) {
        for (const struct command *row = families[i]; row->name != NULL; row++)
            table->row_count++;
    }
    table->rows = mem_alloc((table->row_count + 1) * sizeof(*table->rows));
    table->row_count = 0;
    for (size_t i = 0; families[i] != NULL; i++) {
        for (const struct command *row = families[i]; row->name != NULL; row++) {
            table->rows[table->row_count] = *row;
            table->rows[table->row_count].id = (uint32_t)table->row_count;
            table->rows[table->row_count].only_key = find_only_key(row->keys);
            table->row_count++;
        }
    }
}

static bool is_top_level(const struct command *row)
{
    return strchr(row->name, '|') == NULL;
}

static void index_names(const struct command_table *table, struct name_index *names)
{
    size_t slot_count = 16;

    while (slot_count < table->row_count * 4)
        slot_count *= 2;
    names->slots = mem_zalloc(slot_count * sizeof(*names->slots));
    names->mask = slot_count - 1;
    for (size_t i = 0; i < table->row_count; i++) {
        if (is_top_level(&table->rows[i]))
            slot_fill(names, bytes_of_string(table->rows[i].name), &table->rows[i]);
    }
}

static void release_names(struct name_index *names)
{
    for (size_t i = 0; names->slots != NULL && i <= names->mask; i++)
        mem_free(names->slots[i].words);
    mem_free(names->slots);
}

static void sort_top_level(struct command_table *table)
{
    table->sorted = mem_alloc((table->row_count + 1) * sizeof(*table->sorted));
    for (size_t i = 0; i < table->row_count; i++) {
        if (is_top_level(&table->rows[i]))
            table->sorted[table->sorted_count++] = &table->rows[i];
    }
    qsort(table->sorted, table->sorted_count, sizeof(*table->sorted), compare_names);
}

static void link_child(struct command_table *table, struct command *child)
{
    struct bytes name = bytes_of(child->name, (size_t)(strchr(child->name, '|') - child->name));
    struct command *parent = command_find(table, name);
    size_t count = 0;

    CHECK(parent != NULL);      /* a subcommand's container has a row of its own */
    while (parent->children != NULL && parent->children[count] != NULL)
        count++;
    parent->children = mem_realloc(parent->children, (count + 2) * sizeof(*parent->children));
    parent->children[count] = child;
    parent->children[count + 1] = NULL;
    qsort(parent->children, count + 1, sizeof(*parent->children), compare_names);
    child->parent = parent;
}

struct command_table *command_table_create(const struct command *const *families)
{
    struct command_table *table = mem_zalloc(sizeof(*table));

    copy_rows(table, families);
    index_names(table, &table->names);
    sort_top_level(table);
    for (size_t i = 0; i < table->row_count; i++) {
        if (!is_top_level(&table->rows[i]))
            link_child(table, &table->rows[i]);
    }
    return table;
}

void command_table_destroy(struct command_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->row_count; i++)
        mem_free(table->rows[i].children);
    release_names(&table->names);
    release_names(&table->own);
    mem_free(table->sorted);
    mem_free(table->rows);
    mem_free(table);
}

static struct command *find_by_name(const struct name_index *names, struct bytes name)
{
    return slot_find(names, name)->command;
}

static const struct name_index *own_names(const struct command_table *table)
{
    return table->own.slots != NULL ? &table->own : &table->names;
}

struct command *command_find(const struct command_table *table, struct bytes name)
{
    return find_by_name(&table->names, name);
}

struct command *command_find_own(const struct command_table *table, struct bytes name)
{
    return find_by_name(own_names(table), name);
}

struct command *command_find_logged(const struct command_table *table, struct bytes name)
{
    struct command *command = command_find_own(table, name);

    return command != NULL ? command : command_find(table, name);
}

static struct command *with_child(struct command *command, const struct bytes *args, int arg_count)
{
    return command != NULL && command->children != NULL && arg_count > 1 ? command_find_child(command, args[1]) : command;
}

struct command *command_find_call(const struct command_table *table, const struct bytes *args, int arg_count)
{
    return with_child(command_find(table, args[0]), args, arg_count);
}

struct command *command_find_logged_call(const struct command_table *table, const struct bytes *args, int arg_count)
{
    return with_child(command_find_logged(table, args[0]), args, arg_count);
}

struct bytes command_own_name(const struct command *command)
{
    return bytes_of_string(command->parent != NULL ? command->parent->name : command->name);
}

struct command *command_find_child(const struct command *container, struct bytes name)
{
    size_t prefix = strlen(container->name) + 1;

    if (container->children == NULL)
        return NULL;
    for (struct command **child = container->children; *child != NULL; child++) {
        if (bytes_is(name, (*child)->name + prefix))
            return *child;
    }
    return NULL;
}

static struct command *find_full(const struct name_index *names, struct bytes full_name)
{
    const char *bar = full_name.size > 0 ? memchr(full_name.data, '|', full_name.size) : NULL;
    struct command *container;
    size_t size;

    if (bar == NULL)
        return find_by_name(names, full_name);
    size = (size_t)(bar - full_name.data);
    container = find_by_name(names, bytes_of(full_name.data, size));
    return container == NULL ? NULL
        : command_find_child(container, bytes_of(bar + 1, full_name.size - size - 1));
}

struct command *command_find_full(const struct command_table *table, struct bytes full_name)
{
    return find_full(&table->names, full_name);
}

struct command *command_find_own_full(const struct command_table *table, struct bytes full_name)
{
    return find_full(own_names(table), full_name);
}

size_t command_count(const struct command_table *table)
{
    return table->sorted_count;
}

struct command *command_at(const struct command_table *table, size_t index)
{
    CHECK(index < table->sorted_count);
    return table->sorted[index];
}

size_t command_row_count(const struct command_table *table)
{
    return table->row_count;
}

struct command *command_row_at(const struct command_table *table, size_t index)
{
    CHECK(index < table->row_count);
    return &table->rows[index];
}

static void remove_from_sorted(struct command_table *table, const struct command *command)
{
    size_t kept = 0;

    for (size_t i = 0; i < table->sorted_count; i++) {
        if (table->sorted[i] != command)
            table->sorted[kept++] = table->sorted[i];
    }
    table->sorted_count = kept;
}

/* A used slot is never free again, because searches probe across it. */
static bool has_free_slots(const struct name_index *names)
{
    size_t used = 0;

    for (size_t i = 0; i <= names->mask; i++)
        used += names->slots[i].words != NULL;
    return used < names->mask;
}

static void mark_renamed(struct command *command)
{
    command->renamed = true;
    for (size_t i = 0; command->children != NULL && command->children[i] != NULL; i++)
        command->children[i]->renamed = true;
}

enum status command_rename(struct command_table *table, struct bytes from, struct bytes to)
{
    struct slot *slot = slot_find(&table->names, from);
    struct command *command = slot->command, *other = to.size > 0 ? command_find(table, to) : NULL;

    if (command == NULL)
        return STATUS_NOT_FOUND;
    if (other != NULL && other != command)
        return STATUS_INVALID;
    if (to.size > 0 && !has_free_slots(&table->names))
        return STATUS_INVALID;
    if (table->own.slots == NULL)
        index_names(table, &table->own);
    slot->command = NULL;
    if (to.size > 0)
        slot_fill(&table->names, to, command);
    else
        remove_from_sorted(table, command);
    mark_renamed(command);
    return STATUS_OK;
}
