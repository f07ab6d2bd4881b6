#include "call/command_table.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/histogram.h"
#include "base/mem.h"

/* A name in lower case, padded with zeros to whole words, so that names are hashed and compared a word at a time. */
struct slot {
    uint64_t *words;            /* NULL: never used; owned */
    size_t size;
    struct command *command;    /* NULL: renamed away */
};

struct command_table {
    struct command *rows;
    struct command_stats *stats;    /* by id */
    size_t row_count;
    struct command **sorted;        /* top-level commands that have a name */
    size_t sorted_count;
    struct slot *slots;             /* open addressing, at most a quarter full */
    size_t slot_mask;
};

/* Turns the upper-case letters among eight bytes to lower case. */
static uint64_t lower_word(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101ull;
    uint64_t low = word & (0x7f * ones);
    uint64_t from_a = low + (0x80 - 'A') * ones;            /* the top bit of a byte is set if it is 'A' or above */
    uint64_t beyond_z = low + (0x7f - 'Z') * ones;          /* ... above 'Z' */
    uint64_t upper = (from_a ^ beyond_z) & ~word & (0x80 * ones);

    return word | upper >> 2;
}

/* Up to eight bytes in the machine's order, then zeros. Reads no byte after them. */
static uint64_t load_word(const char *data, size_t size)
{
    uint64_t word = 0;
    uint32_t first, last;

    if (size >= 8) {
        memcpy(&word, data, 8);
    } else if (size >= 4) {
        memcpy(&first, data, 4);
        memcpy(&last, data + size - 4, 4);
        word = (uint64_t)last << (size - 4) * 8 | first;
    } else {
        for (size_t i = 0; i < size; i++)
            word |= (uint64_t)(unsigned char)data[i] << i * 8;
    }
    return lower_word(word);
}

static uint64_t mix_word(uint64_t hash, uint64_t word)
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

/* The slot of the name, or the free one where it would be added. */
static struct slot *slot_find(const struct command_table *table, struct bytes name)
{
    for (size_t index = name_hash(name);; index++) {
        struct slot *slot = &table->slots[index & table->slot_mask];

        if (slot->words == NULL || slot_holds(slot, name))
            return slot;
    }
}

static void slot_fill(struct command_table *table, struct bytes name, struct command *command)
{
    struct slot *slot = slot_find(table, name);

    CHECK(slot->command == NULL);       /* two rows have the same name */
    if (slot->words == NULL) {
        size_t count = (name.size + 7) / 8;

        slot->words = mem_zalloc(count * sizeof(*slot->words) + 1);
        slot->size = name.size;
        for (size_t i = 0; i < count; i++)
            slot->words[i] = load_word(name.data + i * 8, name.size - i * 8);
    }
    slot->command = command;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct command *const *)a)->name, (*(struct command *const *)b)->name);
}

static void copy_rows(struct command_table *table, const struct command *const *families)
{
    for (size_t i = 0; families[i] != NULL; i++) {
        for (const struct command *row = families[i]; row->name != NULL; row++)
            table->row_count++;
    }
    table->rows = mem_alloc((table->row_count + 1) * sizeof(*table->rows));
    table->stats = mem_zalloc((table->row_count + 1) * sizeof(*table->stats));
    table->row_count = 0;
    for (size_t i = 0; families[i] != NULL; i++) {
        for (const struct command *row = families[i]; row->name != NULL; row++) {
            table->rows[table->row_count] = *row;
            table->rows[table->row_count].id = (uint32_t)table->row_count;
            table->row_count++;
        }
    }
}

static void index_top_level(struct command_table *table)
{
    size_t slot_count = 16;

    while (slot_count < table->row_count * 4)
        slot_count *= 2;
    table->slots = mem_zalloc(slot_count * sizeof(*table->slots));
    table->slot_mask = slot_count - 1;
    table->sorted = mem_alloc((table->row_count + 1) * sizeof(*table->sorted));
    for (size_t i = 0; i < table->row_count; i++) {
        struct command *row = &table->rows[i];

        if (strchr(row->name, '|') == NULL) {
            slot_fill(table, bytes_of_string(row->name), row);
            table->sorted[table->sorted_count++] = row;
        }
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
    index_top_level(table);
    for (size_t i = 0; i < table->row_count; i++) {
        if (strchr(table->rows[i].name, '|') != NULL)
            link_child(table, &table->rows[i]);
    }
    return table;
}

void command_table_destroy(struct command_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->row_count; i++) {
        mem_free(table->rows[i].children);
        mem_free(atomic_load(&table->stats[i].latency));
    }
    for (size_t i = 0; i <= table->slot_mask; i++)
        mem_free(table->slots[i].words);
    mem_free(table->slots);
    mem_free(table->sorted);
    mem_free(table->stats);
    mem_free(table->rows);
    mem_free(table);
}

struct command *command_find(const struct command_table *table, struct bytes name)
{
    return slot_find(table, name)->command;
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

struct command *command_find_full(const struct command_table *table, struct bytes full_name)
{
    const char *bar = full_name.size > 0 ? memchr(full_name.data, '|', full_name.size) : NULL;
    struct command *container;
    size_t size;

    if (bar == NULL)
        return command_find(table, full_name);
    size = (size_t)(bar - full_name.data);
    container = command_find(table, bytes_of(full_name.data, size));
    return container == NULL ? NULL
        : command_find_child(container, bytes_of(bar + 1, full_name.size - size - 1));
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

enum status command_rename(struct command_table *table, struct bytes from, struct bytes to)
{
    struct slot *slot = slot_find(table, from);
    struct command *command = slot->command;

    if (command == NULL)
        return STATUS_NOT_FOUND;
    if (to.size > 0) {
        /* Each rename may use one more slot; a used slot is never free again, because searches probe across it. */
        size_t used = 0;

        for (size_t i = 0; i <= table->slot_mask; i++)
            used += table->slots[i].words != NULL;
        if (slot_find(table, to)->command != NULL || used >= table->slot_mask)
            return STATUS_INVALID;
        slot_fill(table, to, command);
    } else {
        remove_from_sorted(table, command);
    }
    slot->command = NULL;
    return STATUS_OK;
}

struct command_stats *command_stats_of(const struct command_table *table, const struct command *command)
{
    return &table->stats[command->id];
}

void command_stats_reset(struct command_table *table)
{
    for (size_t i = 0; i < table->row_count; i++) {
        struct command_stats *stats = &table->stats[i];
        _Atomic uint64_t *latency = atomic_load_explicit(&stats->latency, memory_order_acquire);

        atomic_store_explicit(&stats->calls, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->nsec, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->rejected, 0, memory_order_relaxed);
        atomic_store_explicit(&stats->failed, 0, memory_order_relaxed);
        if (latency != NULL)
            histogram_clear(latency, LATENCY_BUCKETS);
    }
}

void command_note_latency(struct command_stats *stats, int64_t ns)
{
    _Atomic uint64_t *latency = atomic_load_explicit(&stats->latency, memory_order_acquire);

    if (latency == NULL) {
        _Atomic uint64_t *fresh = mem_zalloc(LATENCY_BUCKETS * sizeof(*fresh));

        /* Another worker may have been faster; then its counters are used. */
        if (atomic_compare_exchange_strong(&stats->latency, &latency, fresh))
            latency = fresh;
        else
            mem_free((void *)fresh);
    }
    histogram_count(latency, LATENCY_BUCKETS, LATENCY_STEP_BITS, ns < 0 ? 0 : (uint64_t)ns);
}
