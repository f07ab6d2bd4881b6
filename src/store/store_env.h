/* The store's access to the disk: an Env for LevelDB. It differs from LevelDB's own:
 * - it reads with pread, never with mmap, which would count as RSS;
 * - it syncs a log before closing it, unless the store is temporary (is_temporary in store.h);
 * - it unlinks a file before creating another of that name, which may be a hard link of a snapshot;
 * - it syncs the directory after a rename and before a MANIFEST;
 * - it can defer the removal of files;
 * - it has a background thread of its own ("kelvin-compact").
 *
 * After a failure:
 * - A file with a failed or short write is truncated to the end of the last complete write, and accepts no more writes.
 * - A file whose sync failed accepts no more writes.
 * - LevelDB does not check whether closing a log succeeded, nor whether the rename of CURRENT is durable. If one of these fails, the whole
 *   directory is *broken*: no file in it is written, created or removed until its store is opened again.
 * A missing table is an I/O error when it is read, not "not found", which LevelDB would take for a missing record.
 *
 * Thread-safe. One env may serve several stores.
 */
#ifndef KELVIN_STORE_STORE_ENV_H
#define KELVIN_STORE_STORE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct disk;
struct meter;
struct store_env;

/* All files are read and written through `disk`, which must outlive the env. */
struct store_env *store_env_create(const struct disk *disk);
void store_env_destroy(struct store_env *env);      /* NULL is fine. Its stores must be closed. Joins its thread */

/* Starts the background thread, if it does not run yet; the meter counts its memory. store_open does it without a meter. Returns 0, or the error
 * number. */
int store_env_start(struct store_env *env, struct meter *meter);

/* While removals are held, removed files stay, so that a snapshot can copy them; the last release removes them. Calls nest. */
void store_env_hold_removal(struct store_env *env);
void store_env_release_removal(struct store_env *env);

struct store_env_stats {
    uint64_t reads, read_bytes, writes, written_bytes, syncs;
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"       /* in C++, too, a function and a struct may have the same name */
struct store_env_stats store_env_stats(struct store_env *env);
#pragma GCC diagnostic pop

#ifdef __cplusplus
}
#endif
#endif
