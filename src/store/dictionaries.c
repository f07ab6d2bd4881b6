#include "store/dictionaries.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compress.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"

enum {
    HEAD_SIZE = 40, CRC_SIZE = 4, MAGIC_SIZE = 8,
    NEWER_PREFIX = 5,                   /* "KDICT": a newer version has another digit */
    DIGITS_MIN = 8, DIGITS_MAX = 10,
    STEP_MAX = 1 << 17,                 /* of numbers: sixteen of them fit in three bytes of a record */
};

static const char magic[MAGIC_SIZE] = { 'K', 'D', 'I', 'C', 'T', '1', '\n', 0 };

struct listed {
    struct dictionary dictionary;       /* the first member; immutable */
    unsigned pins;                      /* lock */
};

struct dictionaries {
    const struct disk *disk;
    char *dir;
    struct decompressors decompressors;
    struct mutex lock;                  /* leaf */
    struct listed **list;               /* lock; ascending numbers; with room for DICTIONARIES_MAX */
    _Atomic size_t count;               /* changed under the lock */
    uint32_t last_number;               /* of the thread that adds: no later one gets a smaller number */
};

void dictionary_name(uint32_t number, char *name)
{
    snprintf(name, DICTIONARY_NAME_SIZE, "%08u.dict", (unsigned)number);
}

bool dictionary_is_file(const char *path, uint32_t *number)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    size_t digits = strspn(name, "0123456789");
    unsigned long long found;

    if (digits < DIGITS_MIN || digits > DIGITS_MAX || strcmp(name + digits, ".dict") != 0)
        return false;
    found = strtoull(name, NULL, 10);
    if (found == 0 || found > UINT32_MAX)
        return false;
    if (number != NULL)
        *number = (uint32_t)found;
    return true;
}

/* --- the file --- */

static void file_make(const struct dictionary *dictionary, struct bytes bytes, struct buffer *file)
{
    uint32_t size = (uint32_t)bytes.size, crc;

    buffer_append(file, magic, MAGIC_SIZE);
    buffer_append(file, &dictionary->number, 4);
    buffer_append(file, &dictionary->database, 4);
    buffer_append(file, &dictionary->trained_s, 8);
    buffer_append(file, &dictionary->samples, 8);
    buffer_append(file, &dictionary->ratio_permille, 4);
    buffer_append(file, &size, 4);
    buffer_append_bytes(file, bytes);
    crc = crc32c(0, file->data, file->size);
    buffer_append(file, &crc, CRC_SIZE);
}

enum status dictionary_parse(struct bytes file, struct dictionary *dictionary, struct bytes *bytes)
{
    uint32_t crc, size;

    *dictionary = (struct dictionary){ 0 };
    if (file.size < HEAD_SIZE + CRC_SIZE || memcmp(file.data, magic, NEWER_PREFIX) != 0)
        return STATUS_CORRUPT;
    memcpy(&crc, file.data + file.size - CRC_SIZE, CRC_SIZE);
    if (crc32c(0, file.data, file.size - CRC_SIZE) != crc)
        return STATUS_CORRUPT;
    if (memcmp(file.data, magic, MAGIC_SIZE) != 0)
        return STATUS_VERSION;
    memcpy(&dictionary->number, file.data + 8, 4);
    memcpy(&dictionary->database, file.data + 12, 4);
    memcpy(&dictionary->trained_s, file.data + 16, 8);
    memcpy(&dictionary->samples, file.data + 24, 8);
    memcpy(&dictionary->ratio_permille, file.data + 32, 4);
    memcpy(&size, file.data + 36, 4);
    if (size != file.size - HEAD_SIZE - CRC_SIZE || dictionary->number == 0)
        return STATUS_CORRUPT;
    *bytes = bytes_of(file.data + HEAD_SIZE, size);
    return STATUS_OK;
}

/* --- opening --- */

static struct listed *file_read_one(const struct disk *disk, const char *path, uint32_t number)
{
    struct listed *listed = mem_zalloc(sizeof(*listed));
    struct dictionary *dictionary = &listed->dictionary;
    struct buffer file = { 0 };
    struct bytes bytes;

    if (file_read_all(disk, AT_FDCWD, path, HEAD_SIZE + DICTIONARY_SIZE_MAX + CRC_SIZE, &file) == STATUS_OK &&
        dictionary_parse(buffer_bytes(&file), dictionary, &bytes) == STATUS_OK && dictionary->number == number)
        dictionary->of = compress_dictionary_create(bytes);
    dictionary->number = number;
    buffer_release(&file);
    return listed;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct listed *const *left = a, *const *right = b;

    return (*left)->dictionary.number < (*right)->dictionary.number ? -1 : (*left)->dictionary.number > (*right)->dictionary.number;
}

static size_t read_directory(struct dictionaries *dictionaries)
{
    DIR *list = opendir(dictionaries->dir);
    struct dirent *entry;
    char path[PATH_MAX];
    size_t count = 0, room = DICTIONARIES_MAX;
    uint32_t number;

    dictionaries->list = mem_alloc(room * sizeof(dictionaries->list[0]));
    while (list != NULL && (entry = readdir(list)) != NULL) {
        if (!dictionary_is_file(entry->d_name, &number))
            continue;
        if (count == room) {
            room *= 2;
            dictionaries->list = mem_realloc(dictionaries->list, room * sizeof(dictionaries->list[0]));
        }
        snprintf(path, sizeof(path), "%s/%s", dictionaries->dir, entry->d_name);
        dictionaries->list[count++] = file_read_one(dictionaries->disk, path, number);
    }
    if (list != NULL)
        closedir(list);
    if (count > 1)
        qsort(dictionaries->list, count, sizeof(dictionaries->list[0]), compare_numbers);
    return count;
}

struct dictionaries *dictionaries_open(const char *dir, const struct disk *disk)
{
    struct dictionaries *dictionaries = mem_zalloc(sizeof(*dictionaries));

    dictionaries->disk = disk;
    dictionaries->dir = mem_string(bytes_of_string(dir));
    mutex_init(&dictionaries->lock);
    dictionaries->count = read_directory(dictionaries);
    if (dictionaries->count > 0)
        dictionaries->last_number = dictionaries->list[dictionaries->count - 1]->dictionary.number;
    return dictionaries;
}

static void listed_destroy(struct listed *listed)
{
    compress_dictionary_destroy(listed->dictionary.of);
    mem_free(listed);
}

void dictionaries_close(struct dictionaries *dictionaries)
{
    if (dictionaries == NULL)
        return;
    for (size_t i = 0; i < dictionaries->count; i++)
        listed_destroy(dictionaries->list[i]);
    mutex_release(&dictionaries->lock);
    decompressors_release(&dictionaries->decompressors);
    mem_free(dictionaries->list);
    mem_free(dictionaries->dir);
    mem_free(dictionaries);
}

/* --- which there are --- */

size_t dictionaries_count(const struct dictionaries *dictionaries)
{
    return atomic_load_explicit(&dictionaries->count, memory_order_acquire);
}

/* Where in the list it is; NULL: nowhere. */
static struct listed **place_of(const struct dictionaries *dictionaries, uint32_t number) REQUIRES(dictionaries->lock)
{
    struct listed **place = dictionaries->list, **end = place + dictionaries->count;

    while (place < end && (*place)->dictionary.number != number)
        place++;
    return place < end ? place : NULL;
}

const struct dictionary *dictionaries_find(struct dictionaries *dictionaries, uint32_t number)
{
    const struct dictionary *found;
    struct listed **place;

    mutex_lock(&dictionaries->lock);
    place = place_of(dictionaries, number);
    found = place != NULL ? &(*place)->dictionary : NULL;
    mutex_unlock(&dictionaries->lock);
    return found;
}

const struct dictionary *dictionaries_pin(struct dictionaries *dictionaries, uint32_t number)
{
    struct listed *found = NULL, **place;

    mutex_lock(&dictionaries->lock);
    place = place_of(dictionaries, number);
    if (place != NULL && (*place)->dictionary.of != NULL) {
        found = *place;
        found->pins++;
    }
    mutex_unlock(&dictionaries->lock);
    return found != NULL ? &found->dictionary : NULL;
}

void dictionaries_unpin(struct dictionaries *dictionaries, const struct dictionary *dictionary)
{
    struct listed *listed = (struct listed *)(uintptr_t)dictionary;

    if (listed == NULL)
        return;
    mutex_lock(&dictionaries->lock);
    CHECK(listed->pins > 0);
    listed->pins--;
    mutex_unlock(&dictionaries->lock);
}

bool dictionaries_have(struct dictionaries *dictionaries, uint32_t number)
{
    const struct dictionary *dictionary = dictionaries_pin(dictionaries, number);

    dictionaries_unpin(dictionaries, dictionary);
    return dictionary != NULL;
}

const struct dictionary *dictionaries_at(struct dictionaries *dictionaries, size_t index)
{
    const struct dictionary *found;

    mutex_lock(&dictionaries->lock);
    found = &dictionaries->list[index]->dictionary;
    mutex_unlock(&dictionaries->lock);
    return found;
}

const struct dictionary *dictionaries_newest(struct dictionaries *dictionaries, int database)
{
    const struct dictionary *newest = NULL;

    mutex_lock(&dictionaries->lock);
    for (size_t i = dictionaries->count; i-- > 0 && newest == NULL;) {
        if (dictionaries->list[i]->dictionary.database == database && dictionaries->list[i]->dictionary.of != NULL)
            newest = &dictionaries->list[i]->dictionary;
    }
    mutex_unlock(&dictionaries->lock);
    return newest;
}

struct decompressors *dictionaries_decompressors(struct dictionaries *dictionaries)
{
    return &dictionaries->decompressors;
}

/* --- adding --- */

/* Under another name first: an image that is made meanwhile has all of it or nothing. store_remove removes such a name. */
static enum status file_write(const struct dictionaries *dictionaries, const struct dictionary *dictionary, struct bytes bytes)
{
    char name[DICTIONARY_NAME_SIZE], path[PATH_MAX], aside[PATH_MAX];
    struct file_replacement replacement = { .dir = AT_FDCWD, .path = path, .aside = aside };
    struct buffer file = { 0 };
    enum status status;
    bool renamed;

    dictionary_name(dictionary->number, name);
    snprintf(path, sizeof(path), "%s/%s", dictionaries->dir, name);
    snprintf(aside, sizeof(aside), "%s/dictionary.dbtmp", dictionaries->dir);
    file_make(dictionary, bytes, &file);
    status = file_replace(dictionaries->disk, &replacement, buffer_bytes(&file), &renamed);
    buffer_release(&file);
    return status;
}

enum status dictionaries_add(struct dictionaries *dictionaries, struct dictionary *dictionary, struct bytes bytes, struct message *message)
{
    size_t count = dictionaries->count;
    uint32_t last = dictionaries->last_number, step;
    enum status status;
    struct listed *added;

    if (count >= DICTIONARIES_MAX || last > UINT32_MAX - STEP_MAX) {
        message_set(message, "there are %zu dictionaries already", count);
        return STATUS_NO_SPACE;
    }
    random_system(&step, sizeof(step));
    dictionary->number = last + 1 + step % STEP_MAX;
    dictionary->of = compress_dictionary_create(bytes);
    if (dictionary->of == NULL) {
        message_set(message, "it can't be used");
        return STATUS_INVALID;
    }
    status = file_write(dictionaries, dictionary, bytes);
    if (status != STATUS_OK) {
        message_set(message, "its file can't be written: %s", strerror(errno));
        compress_dictionary_destroy(dictionary->of);
        dictionary->of = NULL;
        return status;
    }
    added = mem_zalloc(sizeof(*added));
    added->dictionary = *dictionary;
    dictionaries->last_number = dictionary->number;
    mutex_lock(&dictionaries->lock);
    dictionaries->list[count] = added;
    atomic_store_explicit(&dictionaries->count, count + 1, memory_order_release);
    mutex_unlock(&dictionaries->lock);
    return STATUS_OK;
}

/* --- removing --- */

/* From then on it is not found. NULL: there is none, or it is pinned. */
static struct listed *take_out(struct dictionaries *dictionaries, uint32_t number)
{
    struct listed *taken = NULL, **place;

    mutex_lock(&dictionaries->lock);
    place = place_of(dictionaries, number);
    if (place != NULL && (*place)->pins == 0) {
        taken = *place;
        memmove(place, place + 1, (size_t)(dictionaries->list + dictionaries->count - place - 1) * sizeof(*place));
        atomic_store_explicit(&dictionaries->count, dictionaries->count - 1, memory_order_release);
    }
    mutex_unlock(&dictionaries->lock);
    return taken;
}

enum status dictionaries_remove(struct dictionaries *dictionaries, uint32_t number)
{
    char name[DICTIONARY_NAME_SIZE], path[PATH_MAX];
    struct listed *taken = take_out(dictionaries, number);

    if (taken == NULL)
        return STATUS_LOCKED;
    dictionary_name(number, name);
    snprintf(path, sizeof(path), "%s/%s", dictionaries->dir, name);
    /* A file that is still there does no harm: images have it, too, and it is found again by the next start. */
    (void)dictionaries->disk->unlink(dictionaries->disk->context, AT_FDCWD, path);
    listed_destroy(taken);
    return STATUS_OK;
}
