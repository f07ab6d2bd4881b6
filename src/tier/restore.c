/* The tier as it was at the image that its store was opened from: record maps, segments, what was flushed and not purged yet. */
#include "tier/tier.h"

#include "base/mem.h"
#include "base/message.h"
#include "tier/advising.h"
#include "tier/collect.h"
#include "tier/purge.h"
#include "tier/tags.h"
#include "tier/tags_rebuild.h"
#include "tier/tier_private.h"

static enum status rebuild_tags(struct tier *tier)
{
    struct message problem = { "" }, message;
    enum status status = tags_rebuild(tier, tier->partitions, &problem);

    if (status == STATUS_OK)
        return status;
    message_set(&message, "The tags can't be rebuilt: %s", message_is_empty(&problem) ? status_name(status) : problem.text);
    tier->hooks.log(tier->hooks.context, message.text);
    return status;
}

static void report_lost(struct tier *tier, uint64_t count)
{
    struct message message;

    if (count == 0)
        return;
    message_set(&message, "Segments of the image are missing or damaged: %llu keys can't be read. They can be deleted and overwritten.",
        (unsigned long long)count);
    tier->hooks.log(tier->hooks.context, message.text);
}

enum status tier_restore(struct tier *tier, const char *image, uint64_t number)
{
    struct partitions *partitions = tier->partitions;
    struct tags_weights weights;
    enum status status;

    if (store_number(tier->store) != number)
        return STATUS_CORRUPT;
    damage_set_base(&tier->damage, segments_next_sequence(store_segments(tier->store)));
    status = tags_load(partitions, image, tier->hooks.meter, &weights);
    if (status == STATUS_VERSION)
        tier->hooks.log(tier->hooks.context, "The image's file 'tags' was written by a newer Kelvin.");
    else if (status != STATUS_OK) {
        tier->hooks.log(tier->hooks.context, "The image's tags are missing or damaged: they are read from the store.");
        status = rebuild_tags(tier);
    }
    tags_adopt_maps(tier, image);
    if (status == STATUS_OK) {
        drops_find(tier);
        advising_load(tier, image);
    }
    if (status == STATUS_OK)
        report_lost(tier, collect_count_live(tier, &weights));
    mem_free(weights.list);
    if (status == STATUS_OK)
        status = purge_find(tier);      /* what was flushed, but not purged yet, at the cut */
    return status;
}
