/* Values in pages (value/paged.h): what a call needs of them is made resident before it runs, or before it runs again. With the partitions locked. */
#include "engine/execute_private.h"

#include <stdlib.h>
#include <string.h>

#include "engine/big_call.h"
#include "engine/expiry.h"
#include "engine/pace.h"
#include "keyspace/pages.h"
#include "value/hash.h"
#include "value/paged_times.h"
#include "value/string.h"
#include "value/zset.h"

enum {
    ALL_SHARE = 2,                  /* of maxmemory: what one call may need of a value at once */
    WEIGHED_SHARE = 64,             /* less is not looked at closely */
    BIG_CALL_PAGES = 512,
    PAGE_EXTRA = 128,               /* bytes of a page in memory, beside its elements */
    DEAD_SHARE = 16,                /* of maxmemory: pages of fields that have expired which are loaded together */
    AHEAD_IN_PLACE = 8,             /* pages that are read under the lock so that a table can grow: what is left, later calls read */
};

/* A call's need of one value. */
struct needed {
    const struct paged_value *paged;
    const struct page_tree_root *tree;          /* NULL: it has none */
    uint64_t size;                  /* bytes of all elements, or of the string when it is in one piece */
    struct keyspace *space;
    bool all;                       /* elements */
    bool by_member;                 /* and each is looked up by itself */
    bool is_listed;                 /* the pages are these, in ascending order; else all of the table's */
    uint32_t *numbers;
    uint32_t count;
};

static bool is_own_group(const struct command *command, uint8_t type)
{
    if (type == VALUE_STRING)
        return strcmp(command->group, "string") == 0 || strcmp(command->group, "bitmap") == 0 || strcmp(command->group, "hyperloglog") == 0;
    if (type == VALUE_HASH)
        return strcmp(command->group, "hash") == 0;
    if (type == VALUE_LIST)
        return strcmp(command->group, "list") == 0;
    if (type == VALUE_STREAM)
        return strcmp(command->group, "stream") == 0;
    if (type == VALUE_ZSET)
        return strcmp(command->group, "sorted-set") == 0 || strcmp(command->group, "geo") == 0;
    return strcmp(command->group, "set") == 0 || strcmp(command->group, "sorted-set") == 0;
}

/* The pages of the elements that the arguments name. */
static void name_elements(const struct call *call, struct needed *needed)
{
    const struct command_need *need = &call->command->need;
    int last = command_need_last(need, call->arg_count);
    struct paged_root root = needed->paged->root;
    struct paged_table table = { .root = &root, .seed = call->turn->limits.seed, .limits = paged_limits_of(&call->turn->limits) };
    bool may_grow = call->command->flags & COMMAND_DENYOOM;
    uint32_t *numbers = arena_alloc(call->arena, ((size_t)call->arg_count + (may_grow ? PAGE_ROW_AHEAD_MAX : 0)) * sizeof(*numbers));

    needed->is_listed = true;
    needed->numbers = numbers;
    for (int arg = need->first; arg <= last; arg += need->step)
        numbers[needed->count++] = paged_table_page(&table, call->args[arg]);
    if (may_grow)
        needed->count += paged_table_behind(&table, numbers + needed->count, needed->count);
}

/* False: nothing. */
static bool find_need(const struct call *call, const struct value *value, struct needed *needed)
{
    switch (call->command->need.kind) {
    case NEEDS_BY_GROUP:
        needed->all = is_own_group(call->command, value->type);
        needed->by_member = needed->all && value->type == VALUE_ZSET;
        return needed->all;
    case NEEDS_ALL:
        needed->all = true;
        return true;
    case NEEDS_ELEMENTS:
        if (!is_own_group(call->command, value->type))
            return false;
        name_elements(call, needed);
        return true;
    }
    return false;
}

static uint32_t count_of(const struct needed *needed)
{
    return needed->is_listed ? needed->count : needed->paged->root.pages;
}

static uint32_t number_at(const struct needed *needed, uint32_t index)
{
    return needed->is_listed ? needed->numbers[index] : index;
}

static bool is_there(const struct needed *needed, uint32_t number) REQUIRES(needed->space->partition->lock);
static bool is_there(const struct needed *needed, uint32_t number)
{
    return pages_have(needed->space, needed->paged->id, number);
}

/* Bytes of a page in memory, about: of the average one; of one that is cold. */
static uint64_t page_size(const struct needed *needed)
{
    const struct paged_root *root = &needed->paged->root;

    return root->size / (root->pages > 0 ? root->pages : needed->tree->leaves + 1) + PAGE_EXTRA;
}

static uint64_t cold_page_size(const struct call *call, const struct needed *needed, uint32_t number) REQUIRES(needed->space->partition->lock);
static uint64_t cold_page_size(const struct call *call, const struct needed *needed, uint32_t number)
{
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(needed->paged->id, number, name);

    return tier_load_size(call->engine->tier, needed->space, hash, bytes_of(name, sizeof(name))) + PAGE_EXTRA;
}

static bool loads_in_place(const struct call *call)
{
    return call->client->caller & (TRAIT_WAITS_IN_PLACE | TRAIT_LOADS_LOCKED);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;

    return (first > second) - (first < second);
}

static void sort_numbers(struct needed *needed)
{
    uint32_t kept = 0;

    if (needed->count < 2)
        return;
    qsort(needed->numbers, needed->count, sizeof(needed->numbers[0]), compare_numbers);
    for (uint32_t i = 0; i < needed->count; i++) {
        if (kept == 0 || needed->numbers[kept - 1] != needed->numbers[i])
            needed->numbers[kept++] = needed->numbers[i];
    }
    needed->count = kept;
}

/* As execute_weigh for keys: `missing` pages, whose records have `bytes`. RESIDENT: they may be loaded. */
static enum residency weigh(struct call *call, const struct needed *needed, uint64_t missing, uint64_t bytes)
{
    struct engine *engine = call->engine;
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t all = bytes;

    if (call->requester->caller & TRAIT_UNGATED || loads_in_place(call))
        return RESIDENT;
    if (limit > 0 && bytes > (uint64_t)limit / WEIGHED_SHARE)
        all += tier_pin_count(call->requester) * page_size(needed);       /* for its other keys, or what it asked for before */
    if (needed->all && all < needed->size)
        all = needed->size;
    if (limit > 0 && all > (uint64_t)limit / ALL_SHARE) {
        reply_errorf(call, "ERR this call needs %s elements of a value in RAM at once, about %llu bytes, more than half of maxmemory",
            needed->all ? "all" : "too many", (unsigned long long)all);
        return TOO_BIG;
    }
    if (!execute_may_load(call, bytes))
        return SHORT;
    if (missing < BIG_CALL_PAGES || call->unit != NULL || engine->big_client == call->client)
        return RESIDENT;
    return big_call_take(engine, call->client) ? RESIDENT : QUEUED;
}

/* A page that its value has and that is not found is damage, too. */
static enum residency load_page(struct call *call, struct worker *worker, const struct needed *needed, uint32_t number) REQUIRES(needed->space->partition->lock);
static enum residency load_page(struct call *call, struct worker *worker, const struct needed *needed, uint32_t number)
{
    struct tier *tier = call->engine->tier;
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(needed->paged->id, number, name);
    struct bytes page = bytes_of(name, sizeof(name));

    if (tier == NULL)
        return UNREADABLE;
    if (loads_in_place(call))
        return tier_load_in_place(tier, needed->space, hash, page) == STATUS_OK && is_there(needed, number) ? RESIDENT : UNREADABLE;
    switch (tier_load(tier, needed->space, hash, page, execute_purpose_of(call), call->requester, worker->reader)) {
    case TIER_PROMOTED: return RESIDENT;
    case TIER_WAIT: return WAITING;
    case TIER_ABSENT:
    case TIER_FAILED: break;
    }
    return UNREADABLE;
}

static enum residency load_needed(struct call *call, struct worker *worker, struct needed *needed) REQUIRES(needed->space->partition->lock);
static enum residency load_needed(struct call *call, struct worker *worker, struct needed *needed)
{
    enum residency result = RESIDENT;
    uint64_t missing = 0, bytes = 0;
    uint32_t count;

    sort_numbers(needed);
    count = count_of(needed);
    for (uint32_t i = 0; i < count; i++) {
        if (is_there(needed, number_at(needed, i)))
            continue;
        missing++;
        bytes += cold_page_size(call, needed, number_at(needed, i));
    }
    if (missing > 0)
        result = weigh(call, needed, missing, bytes);
    if (result == RESIDENT)
        pace_note_loads(worker, bytes);
    for (uint32_t i = 0; i < count && missing > 0 && (result == RESIDENT || result == WAITING); i++) {
        uint32_t number = number_at(needed, i);
        enum residency page;

        if (is_there(needed, number))
            continue;
        page = load_page(call, worker, needed, number);
        if (page != RESIDENT)
            result = page;
    }
    return result;
}

/* The value was renamed from a key of another partition, which has its pages still. */
static enum residency ask_for_home(struct call *call, uint32_t home)
{
    uint32_t *homes = arena_alloc(call->arena, ((size_t)call->home_count + 1) * sizeof(*homes));

    if (call->home_count > 0)
        memcpy(homes, call->homes, (size_t)call->home_count * sizeof(*homes));
    homes[call->home_count++] = home;
    call->homes = homes;
    call->lacks_home = true;
    return HOMELESS;
}

/* All elements of a value with a tree. With each node that comes more is known of what is missing. */
static enum residency bring_tree(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct value *value, struct needed *needed)
    REQUIRES(keyspace->partition->lock, needed->space->partition->lock);
static enum residency bring_tree(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct value *value, struct needed *needed)
{
    enum residency residency = RESIDENT;
    struct pages_access access;

    pages_attach(&access, keyspace, value, &call->turn->limits, call->turn->now_ms);
    needed->is_listed = true;
    while (residency == RESIDENT && !(needed->by_member ? zset_has_all(value) : paged_tree_has_ranks(value, 0, SIZE_MAX))) {
        needed->numbers = access.paged.wanted;
        needed->count = access.paged.wanted_count;
        residency = load_needed(call, worker, needed);
        paged_forget_wanted(&access.paged);
    }
    paged_of(value)->access = NULL;
    return residency;
}

/* Whether the call removes or hides fields of the hash that have expired, or would if they have (key_open). */
static bool has_dead(const struct call *call, const struct call_key *key, const struct value *value)
{
    int64_t next_ms;

    if (value->type != VALUE_HASH || !hash_has_times(value) || call->turn->clock_stopped || key->flags & KEY_RM)
        return false;
    next_ms = hash_next_expiry(value);
    return next_ms >= 0 && next_ms <= call->turn->now_ms;
}

/* How many of the wanted pages may be loaded together; one at least. */
static uint32_t fitting(const struct call *call, const struct needed *needed) REQUIRES(needed->space->partition->lock);
static uint32_t fitting(const struct call *call, const struct needed *needed)
{
    uint64_t limit = (uint64_t)config_number(call->engine->config, CONFIG_MAXMEMORY), bytes = 0;
    uint32_t count = 0;

    if (limit == 0)
        return needed->count;
    while (count < needed->count && bytes < limit / DEAD_SHARE)
        bytes += cold_page_size(call, needed, needed->numbers[count++]);
    return count;
}

/* Loads the pages for that: those that hide the fields if the call only reads, else those of the first fields, as many as a step removes, and fewer if they are large (execute_reap). A caller that can't do
 * it in steps needs those of all. */
static enum residency bring_dead(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct call_key *key, const struct value *value, const struct needed *of_call)
    REQUIRES(keyspace->partition->lock, of_call->space->partition->lock);
static enum residency bring_dead(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct call_key *key, const struct value *value, const struct needed *of_call)
{
    bool in_steps = !loads_in_place(call), hides = call->keeps_expired || call_key_is_read(key);
    struct needed needed = { .paged = of_call->paged, .tree = of_call->tree, .size = of_call->size, .space = of_call->space, .is_listed = true };
    int64_t now_ms = call->turn->now_ms;
    enum residency residency = RESIDENT;
    struct pages_access access;
    size_t ready = 0;

    keyspace_assert_locked(needed.space);
    pages_attach(&access, keyspace, value, &call->turn->limits, now_ms);
    while (residency == RESIDENT && !(hides ? paged_times_has_view(value, now_ms) : hash_has_expired(value, now_ms, in_steps ? HASH_EXPIRED_IN_PAGES + 1 : SIZE_MAX, &ready))) {
        uint32_t fit;

        needed.numbers = access.paged.wanted;
        needed.count = access.paged.wanted_count;
        fit = in_steps ? fitting(call, &needed) : needed.count;
        if (fit < needed.count && ready > 0)
            break;
        needed.count = fit;
        residency = load_needed(call, worker, &needed);
        paged_forget_wanted(&access.paged);
    }
    paged_forget_wanted(&access.paged);
    paged_of(value)->access = NULL;
    return residency;
}

enum residency execute_bring_pages(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct call_key *key)
{
    struct value value = entry_value(keyspace_entry(keyspace, key->handle));
    struct needed needed = { .paged = paged_of(&value), .tree = paged_has_tree(&value) ? &paged_ordered_of(&value)->tree : NULL,
        .size = value.type == VALUE_STRING ? string_size(&value) : paged_of(&value)->root.size };

    bool dead = !call_key_is_overwritten(key) && has_dead(call, key, &value);

    keyspace_assert_locked(keyspace);
    if (key->flags & KEY_OW && !dead)
        return RESIDENT;
    if (UNLIKELY(pages_are_elsewhere(keyspace, &value)) && !call_has_locked(call, pages_partition(call->partitions, needed.paged->id)))
        return ask_for_home(call, pages_partition(call->partitions, needed.paged->id));
    needed.space = pages_home_of(keyspace, needed.paged->id);
    keyspace_assert_locked(needed.space);
    if (UNLIKELY(dead)) {
        enum residency residency = bring_dead(call, worker, keyspace, key, &value, &needed);

        if (residency != RESIDENT)
            return residency;
    }
    if (key->flags & KEY_OW || !find_need(call, &value, &needed))
        return RESIDENT;
    if (paged_walks_tree(&value) && needed.all)
        return bring_tree(call, worker, keyspace, &value, &needed);
    return load_needed(call, worker, &needed);
}

enum residency execute_bring_asked(struct call *call, struct worker *worker)
{
    struct pages_access *access = call->lacks;
    enum residency residency;
    struct paged_value paged = { .root = *access->paged.table.root, .id = access->pages.id };
    struct needed needed = { .paged = &paged, .size = paged.root.size, .tree = access->paged.tree, .space = access->pages.space, .all = access->paged.wants_all,
        .is_listed = !access->paged.wants_all, .numbers = access->paged.wanted, .count = access->paged.wanted_count };

    keyspace_assert_locked(needed.space);
    reply_truncate(call->reply, call->reply_start);
    call->lacks = NULL;
    call->failed = false;
    turn_count(call->turn, STAT_KEYSPACE_HITS, 0 - (uint64_t)call->hits);          /* they count when it runs again */
    call->first = call->last = NULL;
    residency = load_needed(call, worker, &needed);
    paged_forget_wanted(&access->paged);
    return residency;
}

void execute_load_ahead(struct call *call, struct worker *worker)
{
    const struct pages_access *access = call->grown;
    struct tier *tier = call->engine->tier;
    uint32_t numbers[PAGED_AHEAD_MAX], count;

    call->grown = NULL;
    keyspace_assert_locked(access->pages.space);
    count = tier != NULL ? paged_ahead(&access->paged, numbers) : 0;
    if (loads_in_place(call) && count > AHEAD_IN_PLACE)
        count = AHEAD_IN_PLACE;
    for (uint32_t i = 0; i < count; i++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash = pages_name(access->pages.id, numbers[i], name);

        if (loads_in_place(call))
            (void)tier_load_in_place(tier, access->pages.space, hash, bytes_of(name, sizeof(name)));
        else
            tier_load_ahead(tier, access->pages.space, hash, bytes_of(name, sizeof(name)), worker->reader);
    }
}
