#include "tier/image.h"

#include <stdio.h>

#include "base/mutex.h"
#include "tier/advising.h"
#include "tier/collect.h"
#include "tier/handover.h"
#include "tier/request.h"
#include "tier/tier_private.h"
#include "tier/warm.h"

/* A turn is a lock that one function takes and another one releases. */
void tier_image_begin(struct tier *tier) UNCHECKED_LOCKS
{
    mutex_lock(&tier->image_turn);
}

void tier_image_end(struct tier *tier) UNCHECKED_LOCKS
{
    mutex_unlock(&tier->image_turn);
}

bool tier_may_cut(struct tier *tier)
{
    return tier->epoch.phase == CHECKPOINT_NONE && !tier->epoch.is_unsealed;
}

void tier_cut(struct tier *tier)
{
    ASSERT_LOCKED(&tier->partitions->partitions[0]);
    handover_begin(tier);
    epoch_begin(tier);
}

enum status tier_clean(struct tier *tier, struct message *message)
{
    struct image_request request = { .dir = NULL, .message = message };

    message->text[0] = '\0';
    if (!tier_image_has_room(tier)) {
        message_set(message, "the disk is full, and what has changed in memory does not fit: delete keys first");
        return STATUS_NO_SPACE;
    }
    return request_image(tier, &request);
}

void tier_remember_hot(struct tier *tier, const char *dir)
{
    enum status status = hot_save(tier, dir, warm_pending(tier->warm));
    char text[160];

    if (status == STATUS_OK)
        status = advising_save(tier, dir);
    if (status == STATUS_OK)
        return;
    snprintf(text, sizeof(text), "Which keys are hot can't be written down for the next start (%s)", status_name(status));
    tier->hooks.log(tier->hooks.context, text);
}

enum status tier_image(struct tier *tier, const char *dir, uint64_t *number, struct message *message)
{
    struct image_request request = { .dir = dir, .message = message };
    enum status status;

    message->text[0] = '\0';
    status = request_image(tier, &request);
    *number = request.number;
    return status;
}

uint64_t tier_image_mark(const struct tier *tier)
{
    return tier->damage.image_sequence;
}

void tier_image_is_base(struct tier *tier, uint64_t mark)
{
    damage_set_base(&tier->damage, mark);
    collect_note_base(tier);
}

bool tier_may_checkpoint(struct tier *tier, uint64_t *damaged, struct message *message)
{
    uint64_t newer;

    damage_count(tier, damaged, &newer);
    if (newer == 0)
        return true;
    message_set(message, "%llu cold keys written since the last checkpoint can't be read. The log still has them: restart the server, which "
        "gets them back; a checkpoint would lose them", (unsigned long long)newer);
    return false;
}

void tier_image_cancel(struct tier *tier, bool cancel)
{
    tier->image_cancelled = cancel;
}

bool tier_image_is_cancelled(const struct tier *tier)
{
    return tier->image_cancelled;
}

bool tier_handed_is_full(struct tier *tier)
{
    return handover_is_full(tier);
}
