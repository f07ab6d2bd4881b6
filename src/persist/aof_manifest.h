/* The AOF's manifest: which files make up the log, in which order. The text is Redis 7's, one line per file:
 *
 *   file <name> seq <number> type b|h|i [validsize <bytes>]
 *
 * b: the base (at most one); h: history, to be deleted; i: an increment, in ascending order of seq. A name that needs it is in double
 * quotes with backslash escapes. Empty names, paths and names that occur twice are refused. Unknown keys are ignored, by Redis and by
 * Kelvin. That makes `validsize` possible, which Redis does not have: only that many bytes of the file count (see README.md, "A failed
 * fsync").
 *
 * Owner: the struct that embeds it.
 */
#ifndef KELVIN_PERSIST_AOF_MANIFEST_H
#define KELVIN_PERSIST_AOF_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"
#include "persist/aof.h"

enum { AOF_MANIFEST_SIZE_MAX = 16 << 20 };

enum aof_file_type { AOF_FILE_BASE = 'b', AOF_FILE_HISTORY = 'h', AOF_FILE_INCREMENT = 'i' };

struct aof_file {
    char *name;
    uint64_t seq;               /* > 0 */
    enum aof_file_type type;
    uint64_t valid_size;        /* UINT64_MAX: all of it */
    uint64_t first_lsn;         /* not in the text: where the file's bytes begin; UINT64_MAX: it has none yet */
};

struct aof_manifest {
    struct aof_file *files;     /* in the order of the text */
    int count;
    int capacity;
};

void aof_manifest_init(struct aof_manifest *manifest);
void aof_manifest_release(struct aof_manifest *manifest);
void aof_manifest_copy(struct aof_manifest *to, const struct aof_manifest *from);      /* `to` is initialised here */
void aof_manifest_add(struct aof_manifest *manifest, struct bytes name, uint64_t seq, enum aof_file_type type);
void aof_manifest_remove(struct aof_manifest *manifest, int index);

struct aof_file *aof_manifest_base(const struct aof_manifest *manifest);    /* NULL: there is none */
uint64_t aof_manifest_last_seq(const struct aof_manifest *manifest);        /* of the increments; 0: there are none */

/* STATUS_CORRUPT and a message (with the line's number) for anything that is not a manifest; then there is nothing to release. `manifest`
 * is initialised here. */
enum status aof_manifest_parse(struct aof_manifest *manifest, struct bytes text, struct message *message);
void aof_manifest_print(const struct aof_manifest *manifest, struct buffer *text);

/* STATUS_NOT_FOUND: there is no such file. */
enum status aof_manifest_load(struct aof_manifest *manifest, int dir_fd, const char *file_name, struct message *message);

/* Removes the temporary file of a save that was killed. Only to be called if the manifest itself is good: else that file may be the only
 * one that is left. */
void aof_manifest_clean(int dir_fd, const char *file_name);

/* Writes a temporary file, syncs it, renames it to the manifest's name and syncs the directory. *replaced: the rename was tried. After a
 * failure with *replaced a restart may find the new text or the old one. */
enum status aof_manifest_save(const struct aof_manifest *manifest, int dir_fd, const char *file_name,
    const struct disk *disk, bool *replaced);

#endif
