#include "tier/writing.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/message.h"
#include "tier/tier_private.h"

enum {
    RETRY_EVERY_MS = 1000,
    MEASURE_EVERY_MS = 500,
    MEASURE_ANYWAY_MS = 10000,
    MEASURE_SHARE = 20,             /* at most this part of the time is spent measuring */
    STORE_FULL_AGAIN_PERCENT = 95,  /* after the store was full, it is written again below that */
};

struct writing *writing_create(const struct tier_options *options, const char *dir)
{
    struct writing *writing = mem_zalloc(sizeof(*writing));

    batch_init(&writing->batch);
    reserve_init(&writing->reserve, dir, options->reserve_size);
    writing->buffer_size = options->write_buffer_size;
    return writing;
}

void writing_destroy(struct writing *writing)
{
    batch_release(&writing->batch);
    reserve_release(&writing->reserve);
    mem_free(writing);
}

static void set_disk_is_full(struct tier *tier, bool is_full)
{
    if (tier->writing->disk_is_full == is_full)
        return;
    tier->writing->disk_is_full = is_full;
    if (tier->hooks.disk_is_full != NULL)
        tier->hooks.disk_is_full(tier->hooks.context, is_full);
}

/* Gives up the reserve. Requests that grow the store are refused first, so that the room is left to those that remove. */
static void give_up_reserve(struct tier *tier)
{
    if (tier->writing->reserve.fd < 0)
        return;
    set_disk_is_full(tier, true);
    reserve_give_up(&tier->writing->reserve);
}

static bool restore_reserve(struct tier *tier)
{
    bool has_room = reserve_restore(&tier->writing->reserve, store_disk(tier->store));

    set_disk_is_full(tier, !has_room);
    return has_room;
}

void writing_fail(struct tier *tier, enum status status)
{
    struct message text;

    tier_note_error(tier, "the store can't be written", status);
    if (tier->state != TIER_ERROR) {
        message_set(&text, "The cold tier's store can't be written (%s). Keys stay in RAM; trying again each second.", status_name(status));
        tier->hooks.log(tier->hooks.context, text.text);
    }
    tier->state = TIER_ERROR;
    if (status == STATUS_NO_SPACE)
        give_up_reserve(tier);
    tier->writing->retry_at_ms = clock_mono_us() / 1000 + RETRY_EVERY_MS;
    tier->hooks.memory_freed(tier->hooks.context);      /* clients that wait for memory have to learn that none comes */
}

void writing_commit(struct tier *tier)
{
    enum status status;

    if (tier->writing->batch.failed)
        return;                 /* writing_recover writes it; another attempt here would delay that */
    status = batch_commit(tier, &tier->writing->batch);
    if (status != STATUS_OK)
        writing_fail(tier, status);
}

bool writing_recover(struct tier *tier)
{
    struct writing *writing = tier->writing;
    struct message message = { "" };
    enum status status = STATUS_OK;

    if (clock_mono_us() / 1000 < writing->retry_at_ms)
        return false;
    if (!store_is_writable(tier->store))
        status = store_retry(tier->store, &message);
    if (status == STATUS_OK)
        status = segments_write(store_segments(tier->store));       /* what garbage collection could not write, too */
    if (status == STATUS_OK && writing->batch.failed)
        status = batch_commit(tier, &writing->batch);
    if (status != STATUS_OK) {
        tier_note_error(tier, "the store can't be written", status);
        if (status == STATUS_NO_SPACE)
            give_up_reserve(tier);
        writing->retry_at_ms = clock_mono_us() / 1000 + RETRY_EVERY_MS;
        return false;
    }
    if (restore_reserve(tier)) {
        tier->state = TIER_OK;
        tier->hooks.log(tier->hooks.context, "The cold tier's store is writable again.");
    } else {
        tier->state = TIER_FULL;
        tier->hooks.log(tier->hooks.context, "The cold tier's disk is full. Nothing more is demoted until there is room; deleting keys makes room.");
    }
    return true;
}

/* Whether the last measurement may be wrong by now. What neither segments nor directories show is small, and is seen within MEASURE_ANYWAY_MS. */
static bool must_measure(const struct tier *tier, int64_t now_ms, const struct usage_times *times)
{
    const struct writing *writing = tier->writing;

    return tier->state != TIER_OK || tier->epoch.phase != CHECKPOINT_NONE || writing->measured_ms == 0 ||
           now_ms - writing->measured_ms >= MEASURE_ANYWAY_MS || usage_has_moved(tier) ||
           times->store_ns != writing->measured_times.store_ns || times->images_ns != writing->measured_times.images_ns;
}

void writing_measure(struct tier *tier)
{
    int64_t began_ms = clock_mono_us() / 1000, took_ms;
    struct usage_times times;
    uint64_t size, own;

    if (began_ms < tier->writing->measure_at_ms)
        return;
    times = usage_times_of(tier->dir, tier->images);
    tier->writing->measure_at_ms = began_ms + MEASURE_EVERY_MS;
    if (!must_measure(tier, began_ms, &times))
        return;
    tier->writing->measured_ms = began_ms;
    tier->writing->measured_times = times;
    size = usage_measure(tier->dir, tier->images, &own);
    counting_block(&tier->counting);
    tier->statistics.store_bytes = size;
    usage_note_measured(tier, own);
    counting_unblock(&tier->counting);
    took_ms = clock_mono_us() / 1000 - began_ms;
    if (took_ms > MEASURE_EVERY_MS / MEASURE_SHARE)
        tier->writing->measure_at_ms = began_ms + took_ms * MEASURE_SHARE;
}

/* Tried again now and then. Without it, a store that was never full is written nevertheless. */
static bool has_reserve(struct tier *tier)
{
    struct writing *writing = tier->writing;
    int64_t now_ms = clock_mono_us() / 1000;

    if (writing->reserve.fd < 0 && now_ms < writing->restore_at_ms)
        return false;
    writing->restore_at_ms = now_ms + MEASURE_EVERY_MS;
    return restore_reserve(tier);
}

void writing_help_log(struct tier *tier)
{
    if (tier->writing->reserve.fd < 0 || tier->hooks.log_lacks_room == NULL || !tier->hooks.log_lacks_room(tier->hooks.context))
        return;
    give_up_reserve(tier);
    if (tier->state != TIER_OK)
        return;
    tier->state = TIER_FULL;
    tier->hooks.memory_freed(tier->hooks.context);
}

void writing_check_size(struct tier *tier)
{
    int64_t limit = tier->settings.store_size_max;
    uint64_t size = usage_now(tier);
    bool has_room = has_reserve(tier);
    enum status merged = store_take_merge_status(tier->store);

    if (merged != STATUS_OK)
        tier_note_error(tier, "files of the index can't be merged", merged);
    shed_note_size(tier);
    if (tier->state == TIER_OK && limit > 0 && size > (uint64_t)limit && !shed_holds_demotion(tier)) {
        tier->state = TIER_FULL;
        tier->hooks.log(tier->hooks.context, "The cold tier has reached tier-max-size. Nothing more is demoted until there is room.");
        tier->hooks.memory_freed(tier->hooks.context);
    } else if (tier->state == TIER_FULL && has_room && (limit <= 0 || size < (uint64_t)limit / 100 * STORE_FULL_AGAIN_PERCENT)) {
        tier->state = TIER_OK;
        tier->hooks.log(tier->hooks.context, "The cold tier has room below tier-max-size again. Demotion goes on.");
    }
}

void writing_retune(struct tier *tier)
{
    size_t wanted = (size_t)tier->settings.write_buffer_size;

    if (wanted == tier->writing->buffer_size)
        return;
    tier->writing->buffer_size = wanted;
    store_set_write_buffer(tier->store, wanted);
}
