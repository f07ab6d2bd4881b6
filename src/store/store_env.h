/* The store's access to the disk, and its background thread ("kelvin-compact"), which writes and merges key runs.
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

/* Reads and writes of key runs. */
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
