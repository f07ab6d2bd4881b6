/* Seed: the key of a store's hashes. Without it the records in segments could not be found, whatever else is left. The list of databases has
 * it; that of an older image does not, and then it is searched for in LevelDB's files, byte by byte.
 */
#ifndef KELVIN_CHECK_SEED_H
#define KELVIN_CHECK_SEED_H

#include <stdbool.h>

#include "persist/dataset_file.h"

/* False: it is in no file. `dir` is the store's. */
bool seed_find(const char *dir, const struct dataset_file *dataset, struct key_seed *seed);

#endif
