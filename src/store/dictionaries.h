/* Dictionaries: what the values of a database have in common, for compressing each by itself. Files `<number>.dict` in the store's directory; a packed
 * record (docs/formats/record.md) names the one that it needs by its number.
 *
 * A dictionary is immutable, and is on the disk before the first record that uses it. Images have hard links to all that there are. It may be removed from the working
 * store when no segment there may have records that need it (segments_may_need), dead ones too: a store has at most DICTIONARIES_MAX.
 *
 * Numbers ascend by random steps: a file that was lost was never the one that has its number now.
 *
 * The file, little-endian:
 *   "KDICT1\n\0" | number u32 | database i32 | trained, seconds since 1970 u64 | samples u64 | ratio when trained, times 1000 u32 | size u32 | bytes |
 *   CRC-32C of all before it u32
 *
 * Threads: any number of readers; one that adds or removes.
 */
#ifndef KELVIN_STORE_DICTIONARIES_H
#define KELVIN_STORE_DICTIONARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

struct compress_dictionary;
struct decompressors;
struct disk;

enum {
    DICTIONARIES_MAX = 16,
    DICTIONARY_SIZE_MAX = 64 * 1024,
    DICTIONARY_NAME_SIZE = 24,
};

struct dictionary {
    uint32_t number;                    /* not 0 */
    int32_t database;
    uint64_t trained_s;
    uint64_t samples;
    uint32_t ratio_permille;
    struct compress_dictionary *of;     /* NULL: the file is damaged, or of a newer Kelvin */
};

struct dictionaries;
/* Reads the files of a directory. Those that can't be used are among them, without `of`. */
struct dictionaries *dictionaries_open(const char *dir, const struct disk *disk);
void dictionaries_close(struct dictionaries *dictionaries);     /* NULL is fine */

/* For reading with it: it is not removed before dictionaries_unpin. NULL: there is none with this number that is usable. */
const struct dictionary *dictionaries_pin(struct dictionaries *dictionaries, uint32_t number);
void dictionaries_unpin(struct dictionaries *dictionaries, const struct dictionary *dictionary);      /* NULL is fine */
bool dictionaries_have(struct dictionaries *dictionaries, uint32_t number);     /* one that is usable */

/* The rest is for the thread that adds and removes: what it gets is valid until it removes it. */

/* NULL: there is none with this number. */
const struct dictionary *dictionaries_find(struct dictionaries *dictionaries, uint32_t number);
/* The newest usable one of a database; NULL: there is none. */
const struct dictionary *dictionaries_newest(struct dictionaries *dictionaries, int database);
/* By index, below the count, ascending numbers. */
const struct dictionary *dictionaries_at(struct dictionaries *dictionaries, size_t index);
/* Any thread. */
size_t dictionaries_count(const struct dictionaries *dictionaries);
/* For reading with them. */
struct decompressors *dictionaries_decompressors(struct dictionaries *dictionaries);

/* Gives it a number and writes and syncs its file; then it is among the others. STATUS_NO_SPACE: there are DICTIONARIES_MAX already. `message` says why it
 * failed. */
enum status dictionaries_add(struct dictionaries *dictionaries, struct dictionary *dictionary, struct bytes bytes, struct message *message);

/* Removes one, and its file. STATUS_LOCKED: it is pinned, and stays. A file that can't be removed is forgotten until the next start. */
enum status dictionaries_remove(struct dictionaries *dictionaries, uint32_t number);

/* `name`: DICTIONARY_NAME_SIZE bytes. */
void dictionary_name(uint32_t number, char *name);
/* Whether a file, given by its name or path, has the name of a dictionary; `number` (NULL is fine) is the number in it. */
bool dictionary_is_file(const char *path, uint32_t *number);
/* Reads a file's contents; `of` stays NULL. STATUS_VERSION: it is of a newer Kelvin. */
enum status dictionary_parse(struct bytes file, struct dictionary *dictionary, struct bytes *bytes);

#ifdef __cplusplus
}
#endif
#endif
