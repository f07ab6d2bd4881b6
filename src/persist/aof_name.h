/* AOF name: the names of the log's files, all of which begin with appendfilename.
 *
 *   <name>.manifest    <name>.<n>.incr.aof    <name>.<us>.base.image    <name>.imported.<n>.rdb, .aof
 *   <name>: a log from before Redis 7, until the first checkpoint
 */
#ifndef KELVIN_PERSIST_AOF_NAME_H
#define KELVIN_PERSIST_AOF_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* The name of a base that is a directory with an image ends like this (persist/checkpoint.h). */
#define AOF_NAME_IMAGE_END ".base.image"

/* `name` (appendfilename) and after it `format`, which is as for printf with `number` as its argument, or without one. Freed with
 * mem_free. */
char *aof_name_format(const char *format, const char *name, uint64_t number);

bool aof_name_is_image(const char *name);

#endif
