/* Places: where the record of each key is, by the tags; or, for keys without a tag, by a search for the newest record in the segments. */
#ifndef KELVIN_CHECK_PLACES_H
#define KELVIN_CHECK_PLACES_H

#include "base/siphash.h"
#include "check.h"
#include "keys.h"

/* Both want the keys in the order of hashes. Sets the places of keys that have a tag, and KEY_HAS_TAG. `missing`: tags without a key. */
void places_from_tags(struct checked_keys *keys, const struct dataset_file *dataset, struct bytes tags, const struct hash_seed *seed,
    uint64_t *missing);

/* Sets the places of keys that have none and whose record is not in LevelDB. A key whose newest record may have been in damaged bytes, or is
 * nowhere, becomes KEY_IS_BAD. */
void places_search(struct check *check, const char *dir, struct checked_keys *keys, const struct hash_seed *seed);

#endif
