#include "seed.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/mapped.h"
#include "base/mem.h"
#include "check.h"
#include "store/segments.h"

/* A record that says whether a seed is the right one. */
struct witness {
    uint64_t hash;
    struct bytes key;               /* owned; NULL: there is none */
};

static void look_for_witness(struct bytes bytes, struct witness *witness)
{
    struct segment_record record;
    uint64_t size;

    for (uint64_t at = SEGMENT_HEAD_SIZE; at < bytes.size && witness->key.data == NULL; at += SEGMENT_UNIT) {
        if (segment_record_parse(bytes_of(bytes.data + at, bytes.size - at), &record, &size) == STATUS_OK && record.incarnation != 0)
            *witness = (struct witness){ record.hash, bytes_of(mem_string(record.key), record.key.size) };
    }
}

struct search {
    const struct witness *witness;
    struct key_seed *seed;
    bool is_found;
};

/* After its name a table has eight bytes of LevelDB and the value, a log the value's size and the value. */
static void look_for_seed(struct bytes bytes, struct search *search)
{
    static const size_t distances[] = { 4 + 8, 4 + 1 };
    const char *at = bytes.data, *end = bytes.data + bytes.size;

    while (!search->is_found && at < end && (at = memmem(at, (size_t)(end - at), "seed", 4)) != NULL) {
        for (int i = 0; i < 2 && !search->is_found; i++) {
            if ((size_t)(end - at) < distances[i] + sizeof(search->seed->sip))
                continue;
            memcpy(&search->seed->sip, at + distances[i], sizeof(search->seed->sip));
            search->is_found = key_hash(search->seed, search->witness->key) == search->witness->hash;
        }
        at++;
    }
}

typedef void seed_look(struct bytes bytes, void *context);

static void pass_witness(struct bytes bytes, void *context)
{
    look_for_witness(bytes, context);
}

static void pass_seed(struct bytes bytes, void *context)
{
    look_for_seed(bytes, context);
}

static void each_file(const char *dir, bool of_segments, seed_look *look, void *context)
{
    DIR *list = opendir(dir);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[CHECK_PATH_SIZE * 2];
        struct message message;
        struct mapped mapped;

        if (entry->d_name[0] == '.' || segment_is_file(entry->d_name) != of_segments)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (!mapped_open(path, &mapped, &message))
            continue;
        look(mapped.bytes, context);
        mapped_close(&mapped);
    }
    if (list != NULL)
        closedir(list);
}

bool seed_find(const char *dir, const struct dataset_file *dataset, struct key_seed *seed)
{
    struct witness witness = { 0 };
    struct search search = { &witness, seed, false };

    *seed = dataset->seed;
    if (dataset->has_seed)
        return true;
    each_file(dir, true, pass_witness, &witness);
    if (witness.key.data != NULL)
        each_file(dir, false, pass_seed, &search);
    mem_free((void *)witness.key.data);
    return search.is_found;
}
