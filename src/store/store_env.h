/* The store's door to the disk: an Env for LevelDB that reads with pread (never mmap, which would count as RSS), syncs a log
 * before it is closed (unless the store is thrown away at the next start: see is_temporary in store.h), unlinks before it creates (hard links of a snapshot!), syncs the directory after a rename and
 * before a MANIFEST, can hold back the removal of files, and has a background thread of its own ("kelvin-compact").
 *
 * What a failure leaves behind:
 * - a write that failed or was short is cut back to the end of the last whole write, and the file takes no more;
 * - a file whose sync failed takes no more;
 * - LevelDB does not ask whether closing a log worked, nor whether the rename of CURRENT is durable. If one of these fails,
 *   the whole directory is *broken*: nothing is written, created or removed in it until it is opened anew.
 * A missing table is an error when it is read, not "not found": LevelDB would take that for a missing record.
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
struct store_env;

/* `disk` is what all files are read and written by; it outlives the env. */
struct store_env *store_env_create(const struct disk *disk);
void store_env_destroy(struct store_env *env);      /* NULL is fine. No store uses it any more; joins its thread */

/* Called by the background thread as it starts (memory is counted by thread). Before store_open. */
void store_env_on_thread(struct store_env *env, void (*started)(void *context, const char *name), void *context);

/* While held, removed files stay (snapshot of a moving directory); on release they go. Nests. */
void store_env_hold_removal(struct store_env *env);
void store_env_release_removal(struct store_env *env);

struct store_env_stats {
    uint64_t reads, read_bytes, writes, written_bytes, syncs;
};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"       /* a function and a struct of one name are fine, C++ or not */
struct store_env_stats store_env_stats(struct store_env *env);
#pragma GCC diagnostic pop

#ifdef __cplusplus
}
#endif
#endif
