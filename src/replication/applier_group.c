/* Groups: commands of which clients see all or none. Their partitions are owned from the first command to the last. */
#include "replication/applier_private.h"

#include <string.h>

#include "base/check.h"
#include "call/command_keys.h"
#include "call/streamed.h"
#include "replication/primary.h"

enum { KEYS_ON_STACK = 32 };

/* Commands that may need keys which they do not name. */
static const uint32_t UNNAMED = COMMAND_EXCLUSIVE | COMMAND_UNIT | COMMAND_WHOLE | COMMAND_OWNS_KEYS;

void applier_group_begin(struct applier *applier)
{
    struct applier_group *group = &applier->group;

    group->is_open = group->is_large = group->needs_all = group->asks = false;
    partition_bits_clear(&group->wanted, applier->engine->partitions->count);
}

static void want_keys(struct applier *applier, const struct command *command, const struct bytes *args, int arg_count)
{
    const struct partitions *all = applier->engine->partitions;
    struct call_key on_stack[KEYS_ON_STACK];
    int count = command_keys(command, args, arg_count, on_stack, KEYS_ON_STACK);

    if (count > KEYS_ON_STACK)
        applier->group.needs_all = true;
    for (int i = 0; i < count && !applier->group.needs_all; i++)
        partition_bits_add(&applier->group.wanted, partition_index(all, key_hash(&all->seed, args[on_stack[i].arg])));
}

void applier_group_add(struct applier *applier, const struct bytes *args, int arg_count)
{
    const struct command *command = applier_find(applier, args, arg_count);
    struct applier_group *group = &applier->group;

    group->asks |= streamed_is_getack(args, arg_count);
    if (command == NULL || group->needs_all || arg_count < (command->arity < 0 ? -command->arity : command->arity))
        return;
    if (command->flags & UNNAMED)
        group->needs_all = true;
    else if (command->keys != NULL)
        want_keys(applier, command, args, arg_count);
}

static void own_partitions(struct applier *applier)
{
    struct partitions *all = applier->engine->partitions;
    struct applier_group *group = &applier->group;

    if (group->needs_all)
        partition_bits_fill(&group->wanted, all->count);
    partitions_own(all, &applier->claim, &group->wanted);
    applier->claim.slow = group->is_large;
    applier->worker.turn.group_claim = &applier->claim;
    applier->client.caller = CALLER_APPLIER_GROUP;
}

static void give(struct applier *applier, uint64_t lsn)
{
    applier->client.caller = CALLER_APPLIER;
    applier->worker.turn.group_claim = NULL;
    partitions_give(applier->engine->partitions, &applier->claim, lsn);
}

/* Runs a command of a group, which goes on to its end unless the process ends. */
static void run_in_group(struct applier *applier, const struct bytes *args, int arg_count)
{
    if (streamed_kind(applier_find(applier, args, arg_count), args, arg_count) != STREAMED_BRACKET)
        CHECK(applier_run(applier, args, arg_count) || applier->has_failed);
}

static void end_group(struct applier *applier, size_t size, uint64_t lsn)
{
    bool asks = applier->group.asks;

    give(applier, lsn);
    applier_advance(applier, size);
    applier_group_begin(applier);
    if (asks)
        applier_ack(applier);
}

/* A part of the group has run. What of it is in the history (up to `lsn`; 0: nothing) ends there, as what follows is not part of the group; and
 * the data is not that of the primary's history. If the server ends, the log ends with a part of the group, which the next start leaves out. */
static void leave_half(struct applier *applier, uint64_t lsn)
{
    if (applier->ends_server) {
        give(applier, 0);
        return;
    }
    if (lsn > 0)
        lsn = applier_append(applier, BYTES("*1\r\n$4\r\nEXEC\r\n"));
    history_new_id(&applier->engine->history, false);
    give(applier, lsn);
    primary_drop_all(applier->engine->replication.primary);
}

bool applier_group_run(struct applier *applier, struct bytes text)
{
    static const struct request_limits limits = { INT64_MAX, INT32_MAX, 64 << 10, true };
    struct request_parser parser;
    size_t size, wanted;

    request_init(&parser);
    own_partitions(applier);
    for (size_t at = 0; at < text.size && !applier->has_failed; at += size) {
        CHECK(request_parse(&parser, &limits, text.data + at, text.size - at, &size, &wanted) == REQUEST_COMPLETE);
        run_in_group(applier, parser.args, parser.arg_count);
    }
    request_release(&parser);
    if (applier->has_failed)
        leave_half(applier, 0);
    else
        end_group(applier, text.size, applier_append(applier, text));
    return !applier->has_failed;
}

/* --- groups that are read a second time --- */

/* Runs what is complete in the feed's text, and appends it. */
static void run_text(struct applier *applier, struct feed *feed, uint64_t *lsn)
{
    size_t from = feed->at, size;

    while (!applier->has_failed) {
        applier_look_ahead(applier, feed);
        if (feed_next(feed, &size) != FEED_COMMAND)
            break;
        run_in_group(applier, feed->parser.args, feed->parser.arg_count);
        feed_pass(feed, size);
        applier_note_ran(applier);
        applier->in_turn++;
    }
    if (applier->has_failed)
        return;
    *lsn = applier_append(applier, bytes_of(feed->text.data + from, feed->at - from));
    feed->keep = feed->at;
    applier_end_turn(applier);
}

static bool run_feed(struct applier *applier, struct feed *feed)
{
    uint64_t lsn = 0;

    own_partitions(applier);
    while (!applier->has_failed && feed_read(feed) == FEED_COMMAND)
        run_text(applier, feed, &lsn);
    if (!applier->has_failed && feed_position(feed) == feed->limit) {
        end_group(applier, (size_t)(feed->limit - (uint64_t)applier->offset), lsn);
        return true;
    }
    if (applier->has_failed || feed_position(feed) > (uint64_t)applier->offset)
        leave_half(applier, lsn);
    else
        give(applier, 0);
    return false;
}

bool applier_group_run_again(struct applier *applier, size_t size)
{
    uint64_t from = (uint64_t)applier->offset;
    struct feed feed;
    bool good = feed_open(&feed, applier->options.inbox, from, from + size);

    if (good)
        good = run_feed(applier, &feed);
    feed_close(&feed);
    return good;
}
