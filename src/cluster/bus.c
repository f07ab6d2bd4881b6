#include "cluster/bus.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/bus_private.h"

/* Copies what the options say about this node. */
static void describe_myself(struct bus *bus)
{
    struct node *myself = bus->members->myself;
    const struct bus_options *options = &bus->options;

    if (options->is_managed)
        return;                         /* the controller does */
    if (options->ip[0] != '\0')
        memcpy(myself->ip, options->ip, NODE_IP_SIZE);
    myself->port = options->port;
    myself->tls_port = options->tls_port;
    myself->bus_port = options->bus_port;
    myself->host_name.size = myself->name.size = 0;
    buffer_append_bytes(&myself->host_name, options->host_name);
    buffer_append_bytes(&myself->name, options->name);
    myself->flags = (uint16_t)((myself->flags & ~NODE_NO_FAILOVER) | (options->never_stands ? NODE_NO_FAILOVER : 0));
}

static struct bytes keep_text(struct buffer *kept, struct bytes text)
{
    kept->size = 0;
    buffer_append_bytes(kept, text);
    return buffer_bytes(kept);
}

void bus_set_options(struct bus *bus, const struct bus_options *options)
{
    if (options->ip[0] == '\0' && bus->options.ip[0] != '\0' && !options->is_managed)
        memset(bus->members->myself->ip, 0, NODE_IP_SIZE);     /* to be learned from others again */
    bus->options = *options;
    bus->options.host_name = keep_text(&bus->own->host_name, options->host_name);
    bus->options.name = keep_text(&bus->own->name, options->name);
    describe_myself(bus);
    bus_note(bus, BUS_CHANGE_FILE | BUS_CHANGE_MAP);
}

/* Nodes of a file are as if they had been added just now. */
struct bus *bus_create(struct members *members, const struct bus_options *options, uint64_t seed, int64_t now_ms)
{
    struct bus *bus = mem_zalloc(sizeof(*bus));

    bus->members = members;
    bus->own = mem_zalloc(sizeof(*bus->own));
    bus->own->now_ms = bus->own->real_ms = now_ms;
    bus->facts.link_age_ms = -1;
    bus->own->promised = members->myself->slots;
    if (!options->is_managed && !(members->myself->flags & NODE_MASTER)) {
        members->handed_over = (struct slots){ { 0 } };
        members->handed_epoch = 0;
    }
    random_init(&bus->own->random, seed);
    for (unsigned i = 0; i < members->count; i++) {
        members->all[i]->peer.added_ms = now_ms;
        members->all[i]->peer.has_replied = true;
        members->all[i]->is_connected = false;
        members->all[i]->ping_sent_ms = 0;
        bus->own->handshake_count += (members->all[i]->flags & NODE_HANDSHAKE) != 0;
    }
    bus_set_options(bus, options);
    return bus;
}

void bus_destroy(struct bus *bus)
{
    if (bus == NULL)
        return;
    for (unsigned i = 0; i < bus->own->link_count; i++)
        mem_free(bus->own->links[i]);
    mem_free(bus->own->links);
    mem_free(bus->own->forgotten);
    buffer_release(&bus->own->host_name);
    buffer_release(&bus->own->name);
    mem_free(bus->own);
    mem_free(bus->outcome.actions);
    buffer_release(&bus->outcome.bytes);
    buffer_release(&bus->outcome.log);
    members_destroy(bus->members);
    mem_free(bus);
}

void bus_outcome_clear(struct bus *bus)
{
    struct bus_outcome *outcome = &bus->outcome;

    buffer_shrink(&outcome->bytes, 1 << 20);
    outcome->bytes.size = outcome->log.size = 0;
    *outcome = (struct bus_outcome){ .actions = outcome->actions, .action_room = outcome->action_room, .bytes = outcome->bytes, .log = outcome->log };
}

/* After a pause that is as long as the others wait for this node, a primary may have been replaced: it does not serve until it would have heard so. */
static void rejoin_after_pause(struct bus *bus, int64_t paused_ms)
{
    const struct members *members = bus->members;

    if (paused_ms < bus->options.timeout_ms || !(members->myself->flags & NODE_MASTER) || members_voters(members) - node_is_voter(members->myself) == 0)
        return;
    bus->own->minority_ms = bus->own->now_ms;
    if (!bus->is_ok)
        return;
    bus->is_ok = false;
    bus->outcome.topology_changed = true;
    bus_log(bus, "Cluster state changed: fail, because this node was stopped for %lld ms, or its clock was set", (long long)paused_ms);
}

/* Less than what makes a link look silent. */
static int64_t step_ms_max(const struct bus *bus)
{
    int64_t quarter_ms = bus->options.timeout_ms / 4;

    return quarter_ms > BUS_STEP_MS_MAX ? BUS_STEP_MS_MAX : quarter_ms < BUS_STEP_MS_MIN ? BUS_STEP_MS_MIN : quarter_ms;
}

static void note_copied(struct bus *bus)
{
    const struct bus_facts *facts = &bus->facts;
    const struct node *myself = bus->members->myself;

    if (facts->is_loading || myself->flags & NODE_MASTER)
        bus->own->copied = (struct bus_copied){ 0 };
    else if (facts->link_age_ms >= 0)
        bus->own->copied = (struct bus_copied){ bus->own->now_ms - facts->link_age_ms, myself->shard_id };
}

void bus_begin(struct bus *bus, int64_t real_ms)
{
    struct bus_private *own = bus->own;
    int64_t step_ms = real_ms - own->real_ms, most_ms = bus->options.is_managed ? INT64_MAX : step_ms_max(bus);     /* managed: there are no ticks */

    own->real_ms = real_ms;
    own->now_ms += step_ms < 0 ? 0 : step_ms > most_ms ? most_ms : step_ms;
    if (step_ms > most_ms)
        rejoin_after_pause(bus, step_ms);
    note_copied(bus);
}

/* A node that has become a primary removes what the one before would have removed. A slot without an owner, or one that was given up by hearsay, may still be this
 * shard's; keys of one that is imported are wanted by now. */
static void lose_foreign_slots(struct bus *bus)
{
    const struct members *members = bus->members;
    bool has_any = false;

    if (!(members->myself->flags & NODE_MASTER) || bus->options.is_managed)
        return;
    for (unsigned i = 0; i < SLOTS_WORDS; i++) {
        for (uint64_t left = slots_word(&bus->facts.foreign, i) & ~slots_word(&members->unwanted, i); left != 0; left &= left - 1) {
            unsigned slot = i * SLOTS_WORD_BITS + (unsigned)__builtin_ctzll(left);

            if (members->owners[slot] == NULL || members->owners[slot] == members->myself || slots_has(&members->conceded, slot) ||
                members_move_of(members, slot) != NULL)
                continue;
            slots_add(&bus->outcome.lost, slot);
            has_any = true;
        }
    }
    if (has_any)
        bus_note(bus, BUS_CHANGE_FILE);
}

/* A slot that was lost and taken back by the same event is not lost. A start removes what is left of the others. */
static void note_lost_slots(struct bus *bus)
{
    for (size_t i = 0; i < SLOTS_SIZE; i++)
        bus->outcome.lost.bits[i] &= (uint8_t)~bus->members->myself->slots.bits[i];
    slots_add_all(&bus->members->unwanted, &bus->outcome.lost);
}

/* A conceded slot comes back when its new owner becomes a replica or is forgotten: nothing else notes that. A slot that went is no promise: a node that has forgotten that
 * learns it from its new owner, who has promised, before it serves. */
static void promise_slots(struct bus *bus)
{
    const struct slots *slots = &bus->members->myself->slots;
    bool has_gained = false;

    for (unsigned i = 0; i < SLOTS_WORDS; i++)
        has_gained |= (slots_word(slots, i) & ~slots_word(&bus->own->promised, i)) != 0;
    if (slots_equal(&bus->own->promised, slots))
        return;
    bus->own->promised = *slots;
    bus_note(bus, has_gained ? BUS_CHANGE_PROMISE : BUS_CHANGE_FILE);
}

void bus_finish(struct bus *bus)
{
    if (bus->options.is_managed) {
        note_lost_slots(bus);
        return;                         /* all else is the controller's */
    }
    bus_manual_step(bus);
    bus_election_step(bus);
    if (bus->own->state_is_stale)
        bus_role_update_state(bus);
    bus_role_report_master(bus);
    lose_foreign_slots(bus);
    note_lost_slots(bus);
    promise_slots(bus);
}
