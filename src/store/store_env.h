/* The store's door to the disk: an Env for LevelDB that reads with pread (never mmap, which would count as RSS), syncs a log
 * before it is closed (unless the store is thrown away at the next start: see numbers_rare in store.h), unlinks before it creates (hard links of a snapshot!), syncs the directory after a rename and
 * before a MANIFEST, can hold back the removal of files, has a background thread of its own ("kelvin-compact"),
 * and, for tests, fails on demand.
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

struct store_env;

struct store_env *store_env_create(void);
void store_env_destroy(struct store_env *env);      /* NULL is fine. No store uses it any more; joins its thread */

/* Called by the background thread as it starts (memory is counted by thread). Before store_open. */
void store_env_on_thread(struct store_env *env, void (*started)(void *context, const char *name), void *context);

/* While held, removed files stay (snapshot of a moving directory); on release they go. Nests. */
void store_env_hold_removal(struct store_env *env);
void store_env_release_removal(struct store_env *env);

/* Faults, for tests and for DEBUG. Each is a probability in 1/1000 a call, decided by the seed, or 1000 for always. */
struct store_faults {
    uint64_t seed;
    const char *only;       /* files whose path contains this; NULL: all. Copied */
    int write_error;        /* EIO on append or flush */
    int write_no_space;     /* ENOSPC on append or flush */
    int write_short;        /* half of it is written, then EIO */
    int write_late;         /* all of it is written, yet EIO, and it can't be cut back */
    int sync_error;         /* EIO on sync, of directories too */
    int read_error;         /* EIO on read */
    int read_corrupt;       /* one bit of what is read is turned */
    int open_error;         /* EIO on opening or creating */
    int read_delay_us;      /* every read sleeps that long: a slow disk */
};
void store_env_set_faults(struct store_env *env, const struct store_faults *faults);    /* NULL: none */

/* Power cut, for tests. Track first, before the store is opened: from then on the env remembers what of each file was
 * synced, and which names of a directory were (a removed file is kept aside until its directory is synced).
 * Cut: from now on nothing reaches the disk, every change fails with EIO. Then, after the store was closed, apply:
 * each directory loses a part of its unsynced changes of names, the latest ones, and each file goes back to what had been
 * synced plus a part of what had not; the seed decides which. Power is back then, and tracking goes on. */
void store_env_track_power(struct store_env *env);
void store_env_cut_power(struct store_env *env);
void store_env_apply_power_cut(struct store_env *env, uint64_t seed);

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
