/* SORT key [BY pattern] [LIMIT offset count] [GET pattern]... [ASC|DESC] [ALPHA] [STORE destination], and SORT_RO.
 *
 * BY and GET read keys whose names contain the elements. They may be in any partition, and cold; so the call is run up to three
 * times: it reads the elements and asks for the keys of BY; it sorts, and asks for the keys of GET, only for the elements within
 * LIMIT; it replies.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/sort_order.h"
#include "commands/sort_pattern.h"
#include "engine/access.h"
#include "engine/engine.h"
#include "value/list.h"
#include "value/set.h"
#include "value/zset.h"

struct sort {
    struct call *call;
    enum sort_direction direction;
    enum sort_by by;
    bool has_by, keeps_order;       /* BY without a star: nothing is sorted */
    struct sort_pattern by_pattern;
    int64_t offset, limit;          /* limit < 0: no limit */
    struct sort_pattern *gets;
    size_t get_count;
    int store_arg;                  /* 0: none */

    struct key key;
    size_t first, end;              /* of the items that are returned */
    struct sort_item *items;
    size_t item_count;
    struct bytes *names;            /* names of the keys that BY and GET need, in this order */
    size_t name_count;
};

enum sort_kind { SORT_WRITES, SORT_READS };

enum { WORDS_LOGGED_MAX = 1026, BYTES_LOGGED_MAX = 64 << 20 };      /* of one RPUSH in the log; one element more may be larger */

/* False: the error was replied. */
static bool may_use(struct call *call, const char *option)
{
    if (call->engine->redirect != NULL) {
        reply_errorf(call, "ERR %s option of SORT denied in Cluster mode.", option);
        return false;
    }
    if (access_reads_every_key(call))
        return true;
    reply_errorf(call, "ERR %s option of SORT denied due to insufficient ACL permissions.", option);
    return false;
}

/* The same. */
static bool parse_option(struct sort *sort, int *arg, enum sort_kind kind)
{
    struct call *call = sort->call;
    int option = *arg, left = call->arg_count - option - 1;

    if (arg_is(call, option, "asc")) {
        sort->direction = SORT_UP;
    } else if (arg_is(call, option, "desc")) {
        sort->direction = SORT_DOWN;
    } else if (arg_is(call, option, "alpha")) {
        sort->by = SORT_BY_TEXT;
    } else if (arg_is(call, option, "limit") && left >= 2) {
        if (!arg_integer(call, option + 1, &sort->offset) || !arg_integer(call, option + 2, &sort->limit))
            return false;
        *arg += 2;
    } else if (arg_is(call, option, "store") && left >= 1 && kind == SORT_WRITES) {
        sort->store_arg = ++*arg;
    } else if (arg_is(call, option, "by") && left >= 1) {
        sort->by_pattern = sort_pattern_of(call->args[++*arg]);
        sort->has_by = sort->by_pattern.has_star;
        if (sort->has_by)
            return may_use(call, "BY");
        sort->keeps_order = true;
    } else if (arg_is(call, option, "get") && left >= 1) {
        sort->gets[sort->get_count++] = sort_pattern_of(call->args[++*arg]);
        return may_use(call, "GET");
    } else {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    return true;
}

static bool parse_options(struct sort *sort, enum sort_kind kind)
{
    struct call *call = sort->call;

    sort->limit = -1;
    sort->gets = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(sort->gets[0]));
    for (int arg = 2; arg < call->arg_count; arg++) {
        if (!parse_option(sort, &arg, kind))
            return false;
    }
    return true;
}

static size_t element_count(const struct value *value)
{
    switch (value->type) {
    case VALUE_LIST: return list_count(value);
    case VALUE_SET: return set_count(value);
    default: return zset_count(value);
    }
}

static bool has_elements(const struct value *value)
{
    return value->type == VALUE_LIST || value->type == VALUE_SET || value->type == VALUE_ZSET;
}

static void find_range(struct sort *sort, size_t count)
{
    size_t offset = sort->offset < 0 ? 0 : (size_t)sort->offset;

    sort->first = offset < count ? offset : count;
    sort->end = count;
    if (sort->limit >= 0 && (uint64_t)sort->limit < count - sort->first)
        sort->end = sort->first + (size_t)sort->limit;
}

/* `digits`: the buffer in which the iterator prints integers, or NULL; elements in it are copied. */
static void add_item(struct sort *sort, struct bytes element, const char *digits)
{
    struct sort_item *item = &sort->items[sort->item_count];

    if (digits != NULL && element.data == digits)
        element = arena_copy(sort->call->arena, element);
    *item = (struct sort_item){ .element = element, .index = sort->item_count++ };
}

static void collect_set(struct sort *sort, const struct value *set)
{
    struct set_iterator iterator;
    struct bytes member;

    set_iterate(&iterator, set);
    while (set_next(&iterator, &member))
        add_item(sort, member, iterator.digits);
}

/* The other types are iterated in their own order. If it is kept, only the items within LIMIT are collected; from the other end
 * with DESC. */
struct part {
    size_t first, count;        /* `first` is counted from the end where the iteration begins */
    bool from_end;
};

static struct part part_to_collect(const struct sort *sort, size_t count)
{
    if (!sort->keeps_order)
        return (struct part){ 0, count, false };
    return (struct part){ sort->first, sort->end - sort->first, sort->direction == SORT_DOWN };
}

static void collect_zset(struct sort *sort, const struct value *zset)
{
    size_t count = zset_count(zset);
    struct part part = part_to_collect(sort, count);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (part.count == 0)
        return;
    zset_iterate(&iterator, zset, part.from_end ? count - 1 - part.first : part.first, part.from_end ? ZSET_DOWN : ZSET_UP);
    while (sort->item_count < part.count && zset_next(&iterator, &member, &score))
        add_item(sort, member, iterator.digits);
}

/* Collects a list's elements, which are borrowed only until the next step. */
static void collect_list(struct sort *sort, const struct value *list)
{
    size_t count = list_count(list);
    struct part part = part_to_collect(sort, count);
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    if (part.count == 0)
        return;
    list_iterate(&iterator, list, part.from_end ? count - 1 - part.first : part.first, part.from_end ? LIST_HEAD : LIST_TAIL);
    while (sort->item_count < part.count && list_step(&iterator))
        add_item(sort, arena_copy(sort->call->arena, list_element(&iterator, digits)), NULL);
    list_iterate_end(&iterator);
}

static void collect_items(struct sort *sort)
{
    const struct value *value = &sort->key.value;
    size_t count = sort->key.present ? element_count(value) : 0;

    find_range(sort, count);
    sort->items = arena_alloc(sort->call->arena, (count + 1) * sizeof(sort->items[0]));
    if (!sort->key.present)
        return;
    if (value->type == VALUE_SET)
        collect_set(sort, value);
    else if (value->type == VALUE_LIST)
        collect_list(sort, value);
    else
        collect_zset(sort, value);
    if (sort->keeps_order && value->type != VALUE_SET) {
        sort->first = 0;
        sort->end = sort->item_count;
    }
}

/* Adds the keys of items [first, end) and a pattern to the names that are needed. */
static void need_keys(struct sort *sort, const struct sort_pattern *pattern, size_t index)
{
    sort->names[sort->name_count++] = sort_pattern_name(pattern, sort->call, sort->items[index].element);
}

/* Whether the keys needed so far are those that were asked for. If not, asks for them now; the call will be run again. */
static bool have_needed(struct sort *sort)
{
    struct call *call = sort->call;
    bool have = sort->name_count <= (size_t)call->asked_count;

    for (size_t i = 0; have && i < sort->name_count; i++)
        have = bytes_equal(sort->names[i], call->args[(size_t)call->arg_count + i]);
    if (!have)
        call_ask_for_keys(call, sort->names, (int)sort->name_count);
    return have;
}

static bool reads_keys(const struct sort *sort)
{
    for (size_t i = 0; i < sort->get_count; i++) {
        if (sort->gets[i].has_star)
            return true;
    }
    return sort->has_by;
}

/* Allocates the names of all keys that may be needed. False if there are too many. */
static bool make_room(struct sort *sort)
{
    struct call *call = sort->call;
    size_t chosen = sort->end - sort->first, count;

    if (!reads_keys(sort))
        return true;
    if (__builtin_mul_overflow(chosen, sort->get_count, &count) || __builtin_add_overflow(count, sort->item_count, &count) ||
        count > INT32_MAX / 2) {
        reply_errorf(call, "ERR SORT would read too many keys at once; use LIMIT");
        return false;
    }
    sort->names = arena_alloc(call->arena, count * sizeof(sort->names[0]));
    return true;
}

/* Sets what an item is sorted by. False: it is not a number. */
static bool weigh_item(struct sort *sort, size_t index)
{
    struct sort_item *item = &sort->items[index];

    item->has_weight = true;
    item->weight = item->element;
    if (sort->has_by)
        item->has_weight = sort_pattern_value(&sort->by_pattern, sort->call, sort->call->arg_count + (int)index, &item->weight);
    if (sort->by == SORT_BY_TEXT || !item->has_weight)
        return true;
    return sort_score(item->weight, &item->score);
}

enum step { STEP_DONE, STEP_ENDED };        /* ended: an error was replied, or keys were asked for */

static enum step order_items(struct sort *sort)
{
    bool are_numbers = true;

    if (sort->keeps_order)
        return STEP_DONE;
    for (size_t i = 0; sort->has_by && i < sort->item_count; i++)
        need_keys(sort, &sort->by_pattern, i);
    if (sort->has_by && !have_needed(sort))
        return STEP_ENDED;
    for (size_t i = 0; i < sort->item_count; i++)
        are_numbers &= weigh_item(sort, i);
    if (!are_numbers) {
        reply_errorf(sort->call, "ERR One or more scores can't be converted into double");
        return STEP_ENDED;
    }
    sort_items(sort->items, sort->item_count, sort->first, sort->end, sort->by, sort->direction, &sort->call->turn->random);
    return STEP_DONE;
}

/* The value for a GET. `next_name` advances through the names. False: there is none. */
static bool get_value(struct sort *sort, const struct sort_pattern *get, size_t item, size_t *next_name, struct bytes *value)
{
    if (get->is_element) {
        *value = sort->items[item].element;
        return true;
    }
    if (!get->has_star)
        return false;
    return sort_pattern_value(get, sort->call, sort->call->arg_count + (int)(*next_name)++, value);
}

static size_t output_count(const struct sort *sort)
{
    return (sort->end - sort->first) * (sort->get_count > 0 ? sort->get_count : 1);
}

/* Calls `take` for all values of the result. `next_name`: the first name of a key of GET. */
typedef void take_output(void *context, bool found, struct bytes value);

static void give_output(struct sort *sort, size_t next_name, take_output *take, void *context)
{
    for (size_t i = sort->first; i < sort->end; i++) {
        if (sort->get_count == 0)
            take(context, true, sort->items[i].element);
        for (size_t j = 0; j < sort->get_count; j++) {
            struct bytes value;
            bool found = get_value(sort, &sort->gets[j], i, &next_name, &value);

            take(context, found, value);
        }
    }
}

static void reply_output(void *context, bool found, struct bytes value)
{
    if (found)
        reply_bulk(context, value);
    else
        reply_null(context);
}

struct gathered {
    struct bytes *elements;
    size_t count, bytes;
};

static void gather_output(void *context, bool found, struct bytes value)
{
    struct gathered *gathered = context;

    if (!found)
        value = bytes_of("", 0);
    gathered->elements[gathered->count++] = value;
    gathered->bytes += value.size;
}

/* Servers do not agree on the order of what BY leaves equal as texts. */
static bool has_own_order(const struct sort *sort)
{
    return sort->has_by && sort->by == SORT_BY_TEXT && !sort->keeps_order;
}

/* Logs DEL, and RPUSH in parts of a limited size. The words before each part are overwritten, as they have been logged; there is room for two
 * before the first. */
static void log_result(struct sort *sort, struct bytes *elements, size_t count)
{
    struct call *call = sort->call;
    struct bytes target = call->args[sort->store_arg];
    size_t done = 0;

    call_propagate(call, (struct bytes[]){ BYTES("DEL"), target }, 2);
    while (done < count) {
        struct bytes *words = elements + done - 2;
        size_t part = 0;

        for (size_t size = 0; done < count && part < WORDS_LOGGED_MAX - 2 && size < BYTES_LOGGED_MAX; part++)
            size += elements[done++].size;
        words[0] = BYTES("RPUSH");
        words[1] = target;
        call_propagate(call, words, (int)part + 2);
    }
}

/* Collects everything before the change: the destination may be the sorted key. */
static void store_outputs(struct sort *sort, size_t next_name)
{
    struct call *call = sort->call;
    struct gathered gathered = { .elements = (struct bytes *)arena_alloc(call->arena, (output_count(sort) + 2) * sizeof(struct bytes)) + 2 };
    uint64_t changes = call->change_count;
    struct value list;
    struct key target;

    give_output(sort, next_name, gather_output, &gathered);
    if (gathered.count > 0) {
        list = list_create();
        list_grow(&list, &call->turn->limits, gathered.count, gathered.bytes);
        for (size_t i = 0; i < gathered.count; i++)
            list_push(&list, LIST_TAIL, gathered.elements[i]);
        if (has_own_order(sort))
            log_result(sort, gathered.elements, gathered.count);
        key_open(call, sort->store_arg, KEY_FOR_OVERWRITING, &target);
        key_replace(&target, list);
        target.expire_ms = -1;
        key_changed(&target, EVENT_SORTSTORE);
        call->change_count = changes + gathered.count;
    } else if (key_open_in(call, call->db, sort->store_arg, KEY_FOR_LOOKING, &target)) {
        key_remove(&target, KEY_REMOVE_LAZILY, EVENT_DEL);
    }
    if (!call->failed)
        reply_integer(call->reply, (int64_t)gathered.count);
}

static void reply_or_store(struct sort *sort)
{
    size_t first_name = sort->name_count;

    for (size_t i = sort->first; i < sort->end; i++) {
        for (size_t j = 0; j < sort->get_count; j++) {
            if (sort->gets[j].has_star)
                need_keys(sort, &sort->gets[j], i);
        }
    }
    if (sort->name_count > first_name && !have_needed(sort))
        return;
    if (sort->store_arg != 0) {
        store_outputs(sort, first_name);
        return;
    }
    reply_array(sort->call->reply, output_count(sort));
    give_output(sort, first_name, reply_output, sort->call->reply);
}

static void run_sort(struct call *call, enum sort_kind kind)
{
    struct sort sort = { .call = call };

    if (!parse_options(&sort, kind))
        return;
    /* Counts one access: only in the run that has all the keys it needs. */
    key_open(call, 1, reads_keys(&sort) && call->asked_count == 0 ? KEY_FOR_LOOKING : KEY_FOR_READING, &sort.key);
    if (sort.key.present && !has_elements(&sort.key.value)) {
        reply_error(call, ERR_WRONG_TYPE);
        return;
    }
    /* A result of a set that is stored is sorted in any case, because the order of a set differs between servers. */
    if (sort.keeps_order && (sort.store_arg != 0 || call->client->caller & TRAIT_IN_SCRIPT) && sort.key.present && sort.key.value.type == VALUE_SET) {
        sort.keeps_order = sort.has_by = false;
        sort.by = SORT_BY_TEXT;
    }
    collect_items(&sort);
    if (make_room(&sort) && order_items(&sort) == STEP_DONE)
        reply_or_store(&sort);
}

void sort_command(struct call *call)
{
    run_sort(call, SORT_WRITES);
}

void sort_ro_command(struct call *call)
{
    run_sort(call, SORT_READS);
}
