/* The store's env as LevelDB meets it, for tests in C. Statuses are those of the store. */
#ifndef KELVIN_SUPPORT_DISK_FILE_H
#define KELVIN_SUPPORT_DISK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/status.h"
#include "store/store_env.h"

struct disk_file;

enum status disk_file_create(struct store_env *env, const char *path, struct disk_file **file);
enum status disk_file_append(struct disk_file *file, const void *data, size_t size);
enum status disk_file_flush(struct disk_file *file);
enum status disk_file_sync(struct disk_file *file);
enum status disk_file_close(struct disk_file *file);    /* returns the result; does not free the file */
void disk_file_destroy(struct disk_file *file);         /* closes it if it is open */

enum status disk_remove(struct store_env *env, const char *path);
enum status disk_rename(struct store_env *env, const char *from, const char *to);
enum status disk_sync_directory(struct store_env *env, const char *path);
void disk_clear_broken(struct store_env *env, const char *directory);
void disk_schedule(struct store_env *env, void (*function)(void *), void *argument);

#ifdef __cplusplus
}
#endif
#endif
