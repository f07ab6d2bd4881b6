/* COMMAND INFO: a row in the terms that clients know. */
#include "commands/command_info.h"

#include <stdio.h>

#include "call/command_category.h"

struct flag_name {
    uint32_t flag;
    const char *name;
};

static const struct flag_name command_flag_names[] = {
    { COMMAND_WRITE, "write" }, { COMMAND_READONLY, "readonly" }, { COMMAND_DENYOOM, "denyoom" }, { COMMAND_ADMIN, "admin" },
    { COMMAND_PUBSUB, "pubsub" }, { COMMAND_NOSCRIPT, "noscript" }, { COMMAND_BLOCKING, "blocking" },
    { COMMAND_LOADING, "loading" }, { COMMAND_STALE, "stale" }, { COMMAND_SKIP_MONITOR, "skip_monitor" },
    { COMMAND_SKIP_SLOWLOG, "skip_slowlog" }, { COMMAND_ASKING, "asking" }, { COMMAND_FAST, "fast" },
    { COMMAND_NO_ASYNC_LOADING, "no_async_loading" }, { COMMAND_NO_AUTH, "no_auth" },
    { COMMAND_NO_MANDATORY_KEYS, "no_mandatory_keys" }, { COMMAND_NO_MULTI, "no_multi" },
    { COMMAND_ALLOW_BUSY, "allow_busy" }, { COMMAND_MOVABLE_KEYS, "movablekeys" }, { 0, NULL },
};

static const struct flag_name key_flag_names[] = {
    { KEY_RW, "RW" }, { KEY_RO, "RO" }, { KEY_OW, "OW" }, { KEY_RM, "RM" }, { KEY_ACCESS, "access" }, { KEY_UPDATE, "update" },
    { KEY_INSERT, "insert" }, { KEY_DELETE, "delete" }, { KEY_NOT_KEY, "not_key" }, { KEY_INCOMPLETE, "incomplete" },
    { KEY_VARIABLE_FLAGS, "variable_flags" }, { 0, NULL },
};

static void reply_flags(struct reply *reply, const struct flag_name *names, uint32_t flags)
{
    size_t count = 0;

    for (const struct flag_name *row = names; row->name != NULL; row++)
        count += (flags & row->flag) != 0;
    reply_set(reply, count);
    for (const struct flag_name *row = names; row->name != NULL; row++) {
        if (flags & row->flag)
            reply_status(reply, bytes_of_string(row->name));
    }
}

void command_key_flags_reply(struct reply *reply, uint32_t flags)
{
    reply_flags(reply, key_flag_names, flags);
}

static void reply_categories(struct reply *reply, uint32_t categories)
{
    reply_set(reply, (size_t)__builtin_popcount(categories));
    for (int i = 0; i < COMMAND_CATEGORY_COUNT; i++) {
        char name[32];

        if (categories & command_category_flag(i))
            reply_status(reply, bytes_of(name, (size_t)snprintf(name, sizeof(name), "@%s", command_category_name(i))));
    }
}

static bool is_plain_range(const struct key_spec *spec)
{
    return spec->keyword == NULL && !spec->numbered && spec->step != 0;
}

/* First key, last key and step, as clients before 7.0 expect them, cover the specifications that are ranges at fixed positions
 * and follow each other. Keys elsewhere make the command one with movable keys. */
struct key_places {
    int first, last, step;
    bool movable;
};

static struct key_places key_places(const struct command *command)
{
    struct key_places places = { .movable = command->flags & COMMAND_MOVABLE_KEYS };

    for (const struct key_spec *spec = command->keys; spec != NULL && spec->flags != 0; spec++) {
        if (!is_plain_range(spec) || (places.first != 0 && (spec->index != places.last + 1 || spec->step != places.step))) {
            places.movable = true;
            continue;
        }
        if (places.first == 0) {
            places.first = spec->index;
            places.step = spec->step;
        }
        places.last = spec->last >= 0 ? spec->index + spec->last : spec->last;
    }
    return places;
}

static void reply_search(struct reply *reply, const char *type, size_t fact_count)
{
    reply_map(reply, 2);
    reply_bulk_string(reply, "type");
    reply_bulk_string(reply, type);
    reply_bulk_string(reply, "spec");
    reply_map(reply, fact_count);
}

static void reply_fact(struct reply *reply, const char *name, int number)
{
    reply_bulk_string(reply, name);
    reply_integer(reply, number);
}

static void reply_key_spec(struct reply *reply, const struct key_spec *spec)
{
    reply_map(reply, 3);
    reply_bulk_string(reply, "flags");
    reply_flags(reply, key_flag_names, spec->flags);
    reply_bulk_string(reply, "begin_search");
    if (spec->step == 0) {
        reply_search(reply, "unknown", 0);
    } else if (spec->keyword != NULL) {
        reply_search(reply, "keyword", 2);
        reply_bulk_string(reply, "keyword");
        reply_bulk_string(reply, spec->keyword);
        reply_fact(reply, "startfrom", spec->index);
    } else {
        reply_search(reply, "index", 1);
        reply_fact(reply, "index", spec->index);
    }
    reply_bulk_string(reply, "find_keys");
    if (spec->step == 0) {
        reply_search(reply, "unknown", 0);
    } else if (spec->numbered) {
        reply_search(reply, "keynum", 3);
        reply_fact(reply, "keynumidx", 0);
        reply_fact(reply, "firstkey", 1);
        reply_fact(reply, "keystep", spec->step);
    } else {
        reply_search(reply, "range", 3);
        reply_fact(reply, "lastkey", spec->last);
        reply_fact(reply, "keystep", spec->step);
        reply_fact(reply, "limit", spec->limit);
    }
}

static void reply_key_specs(struct reply *reply, const struct key_spec *specs)
{
    size_t count = 0;

    while (specs != NULL && specs[count].flags != 0)
        count++;
    reply_set(reply, count);
    for (size_t i = 0; i < count; i++)
        reply_key_spec(reply, &specs[i]);
}

static void reply_tips(struct reply *reply, const char *tips)
{
    struct reply_later later = reply_later_begin(reply);
    size_t count = 0;

    while (tips != NULL && *tips != '\0') {
        size_t size = strcspn(tips, " ");

        reply_bulk(reply, bytes_of(tips, size));
        tips += size + strspn(tips + size, " ");
        count++;
    }
    reply_later_set(reply, later, count);
}

void command_info_reply(struct reply *reply, const struct command *command)
{
    struct key_places places = key_places(command);
    size_t child_count = 0;

    while (command->children != NULL && command->children[child_count] != NULL)
        child_count++;
    reply_array(reply, 10);
    reply_bulk_string(reply, command->name);
    reply_integer(reply, command->arity);
    reply_flags(reply, command_flag_names,
        (command->flags & ~(uint32_t)COMMAND_MOVABLE_KEYS) | (places.movable ? COMMAND_MOVABLE_KEYS : 0));
    reply_integer(reply, places.first);
    reply_integer(reply, places.last);
    reply_integer(reply, places.step);
    reply_categories(reply, command_categories(command));
    reply_tips(reply, command->tips);
    reply_key_specs(reply, command->keys);
    if (child_count == 0)
        reply_set(reply, 0);
    else
        reply_array(reply, child_count);
    for (size_t i = 0; i < child_count; i++)
        command_info_reply(reply, command->children[i]);
}
