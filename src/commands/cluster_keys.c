/* COUNTKEYSINSLOT and GETKEYSINSLOT, and what commands that change the cluster ask about keys. */
#include "commands/cluster_keys.h"

#include "commands/handlers.h"
#include "engine/dataset.h"

static bool is_read(struct cluster_call *asked, enum status status)
{
    if (status != STATUS_OK)
        cluster_call_fail(asked, "ERR the keys can't be counted: the store can't be read (see the log and INFO tiering)");
    return status == STATUS_OK;
}

/* False: a promise waits to be saved, and a change of the role may wait with it, which would wait for the owner of the partitions. */
static bool own(struct cluster_call *asked, struct engine *engine, const struct bus *bus, const struct partition_bits *wanted)
{
    if (bus->outcome.has_promised) {
        cluster_call_fail(asked, "ERR the cluster node config can't be saved now: see the log");
        return false;
    }
    partitions_own(engine->partitions, &asked->claim, wanted);
    asked->owns_partitions = true;
    return true;
}

bool cluster_keys_has_any(struct cluster_call *asked, struct engine *engine, const struct bus *bus, bool *has_keys)
{
    struct partition_bits all;
    uint64_t count;

    *has_keys = false;
    partition_bits_fill(&all, engine->partitions->count);
    if (!own(asked, engine, bus, &all))
        return false;
    for (int db = 0; db < engine->partitions->db_count && !*has_keys; db++) {
        if (!is_read(asked, dataset_size(engine, &asked->claim, db, &count)))
            return false;
        *has_keys = count > 0;
    }
    return true;
}

bool cluster_keys_has_in_slot(struct cluster_call *asked, struct engine *engine, const struct bus *bus, uint16_t slot, bool *has_keys)
{
    struct partition_bits wanted = { { 0 } };
    uint64_t count;

    *has_keys = false;
    partition_bits_add(&wanted, partition_index(engine->partitions, slot_first_hash(slot)));
    if (!own(asked, engine, bus, &wanted))
        return false;
    for (int db = 0; db < engine->partitions->db_count && !*has_keys; db++) {
        if (!is_read(asked, dataset_slot_size(engine, &asked->claim, db, slot, &count)))
            return false;
        *has_keys = count > 0;
    }
    return true;
}

void cluster_countkeysinslot_command(struct call *call)
{
    uint64_t count;
    int64_t slot;

    if (cluster_call_cluster(call) == NULL || !arg_integer(call, 2, &slot))
        return;
    if (slot < 0 || slot >= SLOT_COUNT)
        reply_errorf(call, "ERR Invalid slot");
    else if (dataset_slot_count(call, call->db, (uint16_t)slot, &count))
        reply_integer(call->reply, (int64_t)count);
}

void cluster_getkeysinslot_command(struct call *call)
{
    struct scan_page *page;
    int64_t slot, count;

    if (cluster_call_cluster(call) == NULL || !arg_integer(call, 2, &slot) || !arg_integer(call, 3, &count))
        return;
    if (slot < 0 || slot >= SLOT_COUNT || count < 0) {
        reply_errorf(call, "ERR Invalid slot or number of keys");
        return;
    }
    if (!dataset_slot_keys(call, call->db, (uint16_t)slot, (size_t)count, &page))
        return;
    reply_array(call->reply, page->count);
    for (size_t i = 0; i < page->count; i++)
        reply_bulk(call->reply, scan_page_key(page, i));
}
