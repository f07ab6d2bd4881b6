/* The store's door to the disk: an Env for LevelDB that reads with pread (never mmap, which would count as RSS), syncs a log
 * before it is closed, unlinks before it creates (hard links of a snapshot!), can hold back the removal of files,
 * has a background thread of its own, and, for tests, fails on demand.
 *
 * Thread-safe.
 */
#ifndef KELVIN_TIER_STORE_ENV_H
#define KELVIN_TIER_STORE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct store_env;

struct store_env *store_env_create(void);
void store_env_destroy(struct store_env *env);      /* no store uses it any more; joins its thread */

/* While held, removed files stay (snapshot of a moving directory); on release they go. Nests. */
void store_env_hold_removal(struct store_env *env);
void store_env_release_removal(struct store_env *env);

/* Faults, for tests and for DEBUG. Each is a probability in 1/1000 a call, decided by the seed, or 1000 for always. */
struct store_faults {
    uint64_t seed;
    int write_error;        /* EIO on append or flush */
    int write_no_space;     /* ENOSPC on append or flush */
    int write_short;        /* half of it is written, then EIO */
    int sync_error;         /* EIO on sync */
    int read_error;         /* EIO on read */
    int read_corrupt;       /* one bit of what is read is turned */
    int open_error;         /* EIO on opening or creating */
    int read_delay_us;      /* every read sleeps that long: a slow disk */
};
void store_env_set_faults(struct store_env *env, const struct store_faults *faults);    /* NULL: none */

/* Power cut, for tests: from now on nothing reaches the disk; then, after the store was closed, every file goes
 * back to what had been synced (plus, as the seed decides, a part of what had not). */
void store_env_cut_power(struct store_env *env);
void store_env_apply_power_cut(struct store_env *env, uint64_t seed);

struct store_env_stats {
    uint64_t reads, read_bytes, writes, written_bytes, syncs;
};
struct store_env_stats store_env_stats(struct store_env *env);

#ifdef __cplusplus
}
#endif
#endif
