/* Tree: a directory of files and directories, copied, linked, listed or removed as a whole. What is neither a file nor a directory
 * is refused. At most TREE_DEPTH levels. */
#ifndef KELVIN_BASE_TREE_H
#define KELVIN_BASE_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

enum { TREE_DEPTH = 4, TREE_PATH_SIZE = 4096 };

/* Each file of the tree, with its path in it; the order is that of the directory. False ends the walk. */
typedef bool tree_found(void *context, const char *path, const struct stat *info);
enum status tree_walk(const char *dir, tree_found *found, void *context, struct message *message);

/* Copies `from` to `to`, which must not exist. A file for which `may_link` returns true (it never changes) becomes a hard link where the
 * file system allows it; all others are copied. All of it is synced, `to` itself is not yet durable in its parent. `stop` (NULL: never)
 * ends it early, with STATUS_CLOSED. On failure what was made is removed. */
struct tree_totals {
    uint64_t files, bytes, copied_bytes;    /* bytes: of all files; copied: of those that are no links */
    void (*progress)(void *context, uint64_t bytes);    /* NULL, or called after each file with the bytes of all files so far */
    void *progress_context;
};
typedef bool tree_may_link(const char *path);
enum status tree_clone(const char *from, const char *to, tree_may_link *may_link, const _Atomic bool *stop, struct tree_totals *totals,
    struct message *message);

/* Both synced; parents are not. */
enum status tree_copy_file(const char *from, const char *to, const _Atomic bool *stop, struct message *message);
enum status tree_write_file(const char *path, struct bytes data, struct message *message);

/* As far as it can be; nothing there is fine. Links are removed, not followed. */
void tree_remove(const char *dir);
enum status tree_sync(const char *dir, struct message *message);      /* the names in it */
/* Whether two directories are on one mount of one file system, so that a file of one can have a hard link in the other. Makes nothing. True as
 * well if one of them can't be found: the first use of it says what is wrong. */
bool tree_is_one_mount(const char *one, const char *other);
/* Whether a file in a directory can have a hard link there. Makes two names and removes them. True as well if no file can be made there. */
bool tree_has_links(const char *dir);

#endif
