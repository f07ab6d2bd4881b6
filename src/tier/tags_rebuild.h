/* Tags rebuild: the tags of a store whose tags file is missing or damaged, found by tier/locate.h. */
#ifndef KELVIN_TIER_TAGS_REBUILD_H
#define KELVIN_TIER_TAGS_REBUILD_H

#include "base/buffer.h"
#include "base/message.h"
#include "store/store.h"

struct tier;
struct partitions;

/* Into empty partitions, as tags_load. STATUS_CORRUPT: a key's record is nowhere, or may be outdated. On failure not all was loaded; the
 * partitions are not used any more. */
enum status tags_rebuild(struct tier *tier, struct partitions *partitions, struct message *message);

/* A tags file in memory, of the incarnations; for tools. `partition_count` is a power of two. The same errors. */
enum status tags_make(struct store *store, const uint32_t *incarnations, int count, uint32_t partition_count, struct buffer *file,
    struct message *message);

/* A tags file in memory that is put together key by key, best in the order of locate_all: ascending incarnations, then hashes. Any
 * other order costs a search for the group of each key. */
struct tags_builder;
struct tags_builder *tags_builder_create(uint32_t partition_count, bool by_slot);
void tags_builder_destroy(struct tags_builder *builder);            /* NULL is fine */
void tags_builder_add(struct tags_builder *builder, uint32_t incarnation, uint64_t hash, struct bytes key, uint64_t place);
void tags_builder_print(struct tags_builder *builder, struct buffer *file);     /* appends it; nothing is added any more */

#endif
