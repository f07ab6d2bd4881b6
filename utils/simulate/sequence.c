#include "sequence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/siphash.h"

enum { LINE_MAX = 4096 };

static void link_requests(struct sequence *sequence)
{
    uint32_t *later = mem_alloc(sequence->key_count * sizeof(*later));

    sequence->next = mem_alloc(sequence->count * sizeof(*sequence->next));
    memset(later, 0xff, sequence->key_count * sizeof(*later));
    for (uint32_t i = sequence->count; i-- > 0; ) {
        sequence->next[i] = later[sequence->keys[i]];
        later[sequence->keys[i]] = i;
    }
    mem_free(later);
}

void sequence_of_workload(struct sequence *sequence, struct workload *workload, uint32_t windows)
{
    *sequence = (struct sequence){ .key_count = workload->key_count, .count = (uint32_t)(workload->key_count + windows * workload->window) };
    sequence->keys = mem_alloc(sequence->count * sizeof(*sequence->keys));
    sequence->ranks = mem_alloc(sequence->count * sizeof(*sequence->ranks));
    sequence->sizes = workload_sizes(&workload->kind, workload->key_count);
    for (uint32_t i = 0; i < sequence->count; i++) {
        struct request request;

        workload_next(workload, &request);
        sequence->keys[i] = request.key;
        sequence->ranks[i] = request.rank;
    }
    link_requests(sequence);
}

/* --- traces --- */

/* Keys by the hash of their identities, in the order in which they came. */
struct names {
    uint64_t *hashes;
    uint32_t *keys;
    size_t slot_count;
    uint32_t count;
};

static size_t find_name(const struct names *names, uint64_t hash)
{
    size_t slot = hash & (names->slot_count - 1);

    while (names->keys[slot] != NEVER && names->hashes[slot] != hash)
        slot = (slot + 1) & (names->slot_count - 1);
    return slot;
}

static void grow_names(struct names *names)
{
    struct names old = *names;

    names->slot_count = old.slot_count > 0 ? 2 * old.slot_count : 1024;
    names->hashes = mem_alloc(names->slot_count * sizeof(uint64_t));
    names->keys = mem_alloc(names->slot_count * sizeof(uint32_t));
    memset(names->keys, 0xff, names->slot_count * sizeof(uint32_t));
    for (size_t i = 0; i < old.slot_count; i++) {
        size_t slot = find_name(names, old.hashes[i]);

        if (old.keys[i] == NEVER)
            continue;
        names->hashes[slot] = old.hashes[i];
        names->keys[slot] = old.keys[i];
    }
    mem_free(old.hashes);
    mem_free(old.keys);
}

static uint32_t key_of(struct names *names, struct bytes name)
{
    static const struct hash_seed seed = { 1, 2 };
    uint64_t hash = hash_bytes(&seed, name);
    size_t slot;

    if (2 * (size_t)names->count >= names->slot_count)
        grow_names(names);
    slot = find_name(names, hash);
    if (names->keys[slot] == NEVER) {
        names->hashes[slot] = hash;
        names->keys[slot] = names->count++;
    }
    return names->keys[slot];
}

static struct bytes column_of(const char *line, int column)
{
    for (; column > 1 && line != NULL; column--) {
        line = strchr(line, ',');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL)
        return bytes_of(NULL, 0);
    line += strspn(line, " \t");
    return bytes_of(line, strcspn(line, ", \t\r\n"));
}

static void add_request(struct sequence *sequence, size_t *room, uint32_t key)
{
    if (sequence->count == *room) {
        *room = 2 * *room + 1024;
        sequence->keys = mem_realloc(sequence->keys, *room * sizeof(*sequence->keys));
    }
    sequence->keys[sequence->count++] = key;
}

/* Keys are numbered at random: the order in which they came tells of their popularity and age. */
static void shuffle(struct sequence *sequence)
{
    uint32_t *to = mem_alloc(sequence->key_count * sizeof(*to)), *sizes = mem_alloc(sequence->key_count * sizeof(*sizes));
    struct random random;

    random_init(&random, 6);
    for (uint32_t key = 0; key < sequence->key_count; key++) {
        uint32_t at = (uint32_t)random_below(&random, key + 1);

        to[key] = to[at];
        to[at] = key;
    }
    for (uint32_t i = 0; i < sequence->count; i++)
        sequence->keys[i] = to[sequence->keys[i]];
    for (uint32_t key = 0; key < sequence->key_count; key++)
        sizes[to[key]] = sequence->sizes[key];
    mem_free(sequence->sizes);
    sequence->sizes = sizes;
    mem_free(to);
}

bool sequence_of_trace(struct sequence *sequence, const char *path, int id_column, int size_column)
{
    struct names names = { .slot_count = 0 };
    size_t room = 0, size_room = 0;
    char line[LINE_MAX];
    FILE *file = fopen(path, "r");

    *sequence = (struct sequence){ .count = 0 };
    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL && sequence->count < NEVER) {
        struct bytes id = column_of(line, id_column);
        unsigned long size = size_column > 0 ? strtoul(column_of(line, size_column).size > 0 ? column_of(line, size_column).data : "0", NULL, 10) : 1;
        uint32_t key;

        if (id.size == 0 || size == 0)
            continue;
        key = key_of(&names, id);
        if (key >= size_room) {
            size_room = 2 * size_room + 1024;
            sequence->sizes = mem_realloc(sequence->sizes, size_room * sizeof(*sequence->sizes));
        }
        if (key == sequence->key_count) {
            sequence->key_count++;
            sequence->sizes[key] = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
        }
        add_request(sequence, &room, key);
    }
    fclose(file);
    mem_free(names.hashes);
    mem_free(names.keys);
    if (sequence->count == 0) {
        sequence_release(sequence);
        errno = EINVAL;
        return false;
    }
    shuffle(sequence);
    link_requests(sequence);
    return true;
}

void sequence_release(struct sequence *sequence)
{
    mem_free(sequence->keys);
    mem_free(sequence->next);
    mem_free(sequence->ranks);
    mem_free(sequence->sizes);
}
