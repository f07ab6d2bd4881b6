/* Places: where the record of each key is, by the tags; or, for keys without a tag, by a search for the newest record in the segments. */
#ifndef KELVIN_CHECK_PLACES_H
#define KELVIN_CHECK_PLACES_H

#include "check.h"
#include "keys.h"

struct tags_file;

/* Tags whose keys the index does not have. */
struct lost_tag {
    uint64_t place, tag;
    uint32_t incarnation, partition;
    unsigned tag_shift;
};
struct lost_tags {
    struct lost_tag *list;          /* by place */
    size_t count, capacity;
};
void lost_tags_release(struct lost_tags *lost);
/* Whether a record at that place is what one of the tags is of. */
bool lost_tags_has(const struct lost_tags *lost, uint64_t place, uint32_t incarnation, uint64_t hash, uint32_t partition_count);

/* Both want the keys in the order of hashes. Sets the places of keys that have a tag, and KEY_HAS_TAG. */
void places_from_tags(struct checked_keys *keys, const struct dataset_file *dataset, const struct tags_file *tags, const struct key_seed *seed,
    struct lost_tags *lost);

/* Sets the places of keys that have none. A key whose newest record may have been in damaged bytes, or is
 * nowhere, becomes KEY_IS_BAD. */
void places_search(struct check *check, const char *dir, struct checked_keys *keys, const struct key_seed *seed);

#endif
