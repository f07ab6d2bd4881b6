#include "tier/replace.h"

#include <stdio.h>

#include "base/check.h"
#include "tier/advising.h"
#include "tier/collect.h"
#include "tier/image.h"
#include "tier/purge.h"
#include "tier/request.h"
#include "tier/tier_private.h"
#include "tier/warm.h"
#include "tier/working_dir.h"
#include "tier/writing.h"

enum { PATH_SIZE = 4096 };

bool tier_may_replace(struct tier *tier)
{
    return tier->state != TIER_ERROR && tier_may_cut(tier);
}

bool tier_has_no_store(const struct tier *tier)
{
    return tier->store == NULL;
}

enum status tier_seed_of(const char *image, uint64_t number, struct key_seed *seed, struct message *message)
{
    char path[PATH_SIZE];
    struct store_options options = { .dir = path, .is_read_only = true };
    struct store *store;
    enum status status;

    snprintf(path, sizeof(path), "%.3800s/store", image);
    status = store_open(&options, &store, message);
    if (status != STATUS_OK)
        return status;
    *seed = (struct key_seed){ store_seed(store), store_is_by_slot(store) };
    if (store_number(store) != number) {
        message_set(message, "the image's store is not complete");
        status = STATUS_CORRUPT;
    }
    store_close(store);
    return status;
}

/* All that is about the records of the old store. */
static void forget_store(struct tier *tier)
{
    advising_forget(tier);
    warm_destroy(tier->warm);
    tier->warm = NULL;
    collect_destroy(tier);
    tier->collect = NULL;
    purge_destroy(tier->purge);
    tier->purge = purge_create();
    training_stop(tier);
    packing_forget(&tier->packing);
    store_close(tier->store);
    tier->store = NULL;
    tier->oversized = (struct oversized){ .count = 0 };
    buffer_release(&tier->expiry.from);
    tier->expiry = (struct expiry_walk){ .from_ms = 0 };
    buffer_release(&tier->outdated.from);
    tier->outdated = (struct outdated){ .is_walking = false };
}

static enum status open_store(struct tier *tier, const char *image, struct message *message)
{
    struct store_options options = tier->store_options;
    enum status status;

    options.write_buffer_size = (size_t)tier->settings.write_buffer_size;
    options.holds_merges = false;           /* no replay follows */
    damage_forget(&tier->damage);
    tier->writing->buffer_size = options.write_buffer_size;
    status = working_dir_replace(&options, image, &tier->store, message);
    tier->collect = collect_create(tier->store != NULL ? store_segments(tier->store) : NULL);
    return status;
}

static enum status change_store(struct tier *tier, const char *image, struct message *message)
{
    enum status status;

    warm_stop(tier->warm);
    tier->store_changes = true;
    mutex_lock(&tier->store_lock);
    forget_store(tier);
    status = open_store(tier, image, message);
    if (status != STATUS_OK && image != NULL) {
        struct message second;

        collect_destroy(tier);
        (void)open_store(tier, NULL, &second);
    }
    mutex_unlock(&tier->store_lock);
    tier->store_changes = false;
    return status;
}

static enum status replace(struct tier *tier, const struct replace_request *request)
{
    enum status status;

    CHECK(tier->epoch.phase == CHECKPOINT_NONE && tier->loads_waiting == 0);
    if (tier->writing->batch.failed) {
        message_set(request->message, "the store can't be written");
        return STATUS_CLOSED;
    }
    status = change_store(tier, request->image, request->message);
    if (status != STATUS_OK || request->image == NULL)
        return status;
    status = tier_restore(tier, request->image, request->number);
    if (status != STATUS_OK)
        message_set(request->message, "the records of the image can't be read: %s", status_name(status));
    return status;
}

void replace_serve(struct tier *tier)
{
    struct replace_request *request = requests_replacement(tier);

    if (request != NULL)
        requests_complete_replacement(tier, request, replace(tier, request));
}

void replace_refuse(struct tier *tier)
{
    struct replace_request *request = requests_replacement(tier);

    if (request == NULL)
        return;
    message_set(request->message, "the server ends");
    requests_complete_replacement(tier, request, STATUS_CLOSED);
}

enum status tier_replace(struct tier *tier, const char *image, uint64_t number, struct message *message)
{
    struct replace_request request = { .image = image, .number = number, .message = message };

    enum status status;

    message->text[0] = '\0';
    status = request_replacement(tier, &request);
    if (status == STATUS_OK)
        message->text[0] = '\0';        /* what was noted of an attempt does not matter any more */
    return status;
}
