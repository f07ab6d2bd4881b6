#include "script/library_set.h"

#include <stdlib.h>

#include "base/mem.h"

/* FNV-1a of the name in lower case. An attacker that may load functions has better ways to make the server slow than names that collide. */
static uint32_t hash_of(struct bytes name)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        hash = (hash ^ (uint8_t)(c >= 'A' && c <= 'Z' ? c | 0x20 : c)) * 16777619u;
    }
    return hash;
}

static bool is_same_name(struct bytes a, struct bytes b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        char x = a.data[i], y = b.data[i];

        if (x != y && ((x | 0x20) != (y | 0x20) || (x | 0x20) < 'a' || (x | 0x20) > 'z'))
            return false;
    }
    return true;
}

/* The place of the function with this name, or the free one where it would go. The index is never full. */
static uint32_t find_place(const struct library_set *set, struct bytes name)
{
    uint32_t at = hash_of(name) & (set->index_size - 1);

    while (set->index[at] != NULL && !is_same_name(set->index[at]->name, name))
        at = (at + 1) & (set->index_size - 1);
    return at;
}

const struct library_function *library_set_function(const struct library_set *set, struct bytes name)
{
    return set->index_size > 0 ? set->index[find_place(set, name)] : NULL;
}

/* False: a function of that name is there already; `error` names the new one. */
static bool add_to_index(struct library_set *set, const struct library *library, struct buffer *error)
{
    for (int i = 0; i < library->function_count; i++) {
        const struct library_function *function = &library->functions[i];
        uint32_t place = find_place(set, function->name);

        if (set->index[place] != NULL) {
            buffer_append_format(error, "ERR Function %.*s already exists", (int)function->name.size, function->name.data);
            return false;
        }
        set->index[place] = function;
    }
    return true;
}

static void make_index(struct library_set *set)
{
    if (set->function_count == 0)
        return;
    set->index_size = 2;
    while (set->index_size < 2 * (uint32_t)set->function_count)
        set->index_size *= 2;
    set->index = mem_zalloc(set->index_size * sizeof(set->index[0]));
}

static struct library_set *make_room(int count)
{
    struct library_set *set = mem_zalloc(sizeof(*set));

    set->references = 1;
    set->libraries = mem_zalloc(((size_t)count + 1) * sizeof(set->libraries[0]));
    return set;
}

static void put(struct library_set *set, struct library *library)
{
    set->libraries[set->count++] = library_hold(library);
    set->function_count += library->function_count;
}

static struct library_set *finish_set(struct library_set *set)
{
    set->size = mem_size(set) + mem_size(set->libraries) + (set->index != NULL ? mem_size(set->index) : 0);
    for (int i = 0; i < set->count; i++)
        set->size += set->libraries[i]->size;
    return set;
}

struct library_set *library_set_empty(void)
{
    return finish_set(make_room(0));
}

struct library_set *library_set_hold(struct library_set *set)
{
    atomic_fetch_add_explicit(&set->references, 1, memory_order_relaxed);
    return set;
}

void library_set_release(struct library_set *set)
{
    if (set == NULL || atomic_fetch_sub_explicit(&set->references, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < set->count; i++)
        library_release(set->libraries[i]);
    mem_free(set->libraries);
    mem_free(set->index);
    mem_free(set);
}

static int compare_name(const void *name, const void *library)
{
    return bytes_compare(*(const struct bytes *)name, (*(struct library *const *)library)->script.name);
}

static int compare_libraries(const void *a, const void *b)
{
    return compare_name(&(*(struct library *const *)a)->script.name, b);
}

struct library *library_set_find(const struct library_set *set, struct bytes name)
{
    struct library **found = bsearch(&name, set->libraries, (size_t)set->count, sizeof(set->libraries[0]), compare_name);

    return found != NULL ? *found : NULL;
}

/* Neither a library of `added`, which are by name, is there twice, nor is one of them in `set` already. */
static bool may_add(const struct library_set *set, struct library *const *added, int count, enum library_clash clash, struct buffer *error)
{
    for (int i = 0; i < count; i++) {
        struct bytes name = added[i]->script.name;
        bool is_twice = i > 0 && bytes_equal(name, added[i - 1]->script.name);

        if (is_twice)
            buffer_append_format(error, "ERR Library '%.*s' already exists", (int)name.size, name.data);
        else if (clash == LIBRARY_CLASH_FAILS && library_set_find(set, name) != NULL)
            buffer_append_format(error, "ERR Library %.*s already exists", (int)name.size, name.data);
        else
            continue;
        return false;
    }
    return true;
}

/* Both are by name; those of `added` replace others of the same name. */
static struct library_set *merge(const struct library_set *set, struct library *const *added, int count)
{
    struct library_set *merged = make_room(set->count + count);
    int old = 0;

    for (int i = 0; i < count; i++) {
        struct bytes name = added[i]->script.name;

        while (old < set->count && bytes_compare(set->libraries[old]->script.name, name) < 0)
            put(merged, set->libraries[old++]);
        if (old < set->count && bytes_equal(set->libraries[old]->script.name, name))
            old++;
        put(merged, added[i]);
    }
    while (old < set->count)
        put(merged, set->libraries[old++]);
    return merged;
}

/* First what was there, so that an error names what is new. */
static bool index_all(struct library_set *merged, const struct library_set *before, struct library *const *added, int count, struct buffer *error)
{
    bool good = true;

    make_index(merged);
    for (int i = 0; i < before->count && good; i++) {
        if (library_set_find(merged, before->libraries[i]->script.name) == before->libraries[i])
            good = add_to_index(merged, before->libraries[i], error);
    }
    for (int i = 0; i < count && good; i++)
        good = add_to_index(merged, added[i], error);
    return good;
}

static struct library **sorted_copy(struct library *const *libraries, int count)
{
    size_t size = (size_t)count * sizeof(libraries[0]);
    struct library **copy = mem_alloc(size + 1);

    if (count > 0)
        memcpy(copy, libraries, size);
    qsort(copy, (size_t)count, sizeof(copy[0]), compare_libraries);
    return copy;
}

struct library_set *library_set_with(const struct library_set *set, struct library *const *added, int count, enum library_clash clash,
    struct buffer *error)
{
    struct library **sorted = sorted_copy(added, count);
    struct library_set *next = NULL;

    if (may_add(set, sorted, count, clash, error))
        next = merge(set, sorted, count);
    if (next != NULL && !index_all(next, set, sorted, count, error)) {
        library_set_release(next);
        next = NULL;
    }
    mem_free(sorted);
    return next != NULL ? finish_set(next) : NULL;
}

struct library_set *library_set_without(const struct library_set *set, struct bytes name)
{
    struct library_set *next;

    if (library_set_find(set, name) == NULL)
        return NULL;
    next = make_room(set->count - 1);
    for (int i = 0; i < set->count; i++) {
        if (!bytes_equal(set->libraries[i]->script.name, name))
            put(next, set->libraries[i]);
    }
    (void)index_all(next, next, NULL, 0, NULL);     /* no two had the same name before */
    return finish_set(next);
}
