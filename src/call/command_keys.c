#include "call/command_keys.h"

#include "base/compiler.h"
#include "base/text.h"

enum { INVALID = -1 };

/* Collects keys: counts all, keeps those that fit. */
struct found {
    struct call_key *keys;
    int capacity, count;
};

static void add_key(struct found *found, int arg, uint32_t flags)
{
    if (found->count < found->capacity) {
        found->keys[found->count].arg = arg;
        found->keys[found->count].flags = flags;
    }
    found->count++;
}

/* IFEQ, IFNE, IFDEQ, IFDNE compare the old value. */
static bool is_comparison(struct bytes word)
{
    return (word.size == 4 && (bytes_is(word, "ifeq") || bytes_is(word, "ifne"))) ||
           (word.size == 5 && (bytes_is(word, "ifdeq") || bytes_is(word, "ifdne")));
}

/* NX, XX and KEEPTTL need to know whether there is an old value. */
static bool needs_presence(struct bytes word)
{
    return (word.size == 2 && (bytes_is(word, "nx") || bytes_is(word, "xx"))) || (word.size == 7 && bytes_is(word, "keepttl"));
}

/* GET returns the old value. */
static uint32_t set_flags(const struct bytes *args, int arg_count)
{
    uint32_t flags = KEY_OW | KEY_UPDATE;

    for (int i = 3; i < arg_count; i++) {
        if ((args[i].size == 3 && bytes_is(args[i], "get")) || is_comparison(args[i]))
            return KEY_RW | KEY_ACCESS | KEY_UPDATE;
        if (needs_presence(args[i]))
            flags |= KEY_RESIDENT;
    }
    return flags;
}

/* The options follow the pairs. An invalid number of them is the handler's error. */
static uint32_t msetex_flags(const struct bytes *args, int arg_count)
{
    uint32_t flags = KEY_OW | KEY_UPDATE;
    int64_t count;

    if (!text_to_int(args[1], &count) || count < 1 || count > arg_count)
        return flags;
    for (int64_t i = 2 + count * 2; i < arg_count; i++) {
        if (needs_presence(args[i]))
            flags |= KEY_RESIDENT;
    }
    return flags;
}

/* Without a condition the value does not matter. */
static uint32_t delex_flags(int arg_count)
{
    return arg_count == 2 ? KEY_RM | KEY_DELETE : KEY_RW | KEY_DELETE;
}

static uint32_t bitfield_flags(const struct bytes *args, int arg_count)
{
    for (int i = 2; i < arg_count; i++) {
        if (bytes_is(args[i], "get") && i + 2 < arg_count)
            i += 2;
        else if (bytes_is(args[i], "overflow") && i + 1 < arg_count)
            i += 1;
        else
            return KEY_RW | KEY_ACCESS | KEY_UPDATE;
    }
    return KEY_RO | KEY_ACCESS;
}

static uint32_t variable_flags(const struct command *command, const struct bytes *args, int arg_count, uint32_t flags)
{
    if (LIKELY(!(flags & (KEY_VARIABLE_FLAGS | KEY_BY_OPTIONS))))
        return flags;
    if (memcmp(command->name, "set", sizeof("set")) == 0)
        return set_flags(args, arg_count);
    if (strcmp(command->name, "bitfield") == 0)
        return bitfield_flags(args, arg_count);
    if (strcmp(command->name, "delex") == 0)
        return delex_flags(arg_count);
    if (strcmp(command->name, "msetex") == 0)
        return msetex_flags(args, arg_count);
    return flags & ~(uint32_t)KEY_VARIABLE_FLAGS;
}

/* STORE and STOREDIST of GEORADIUS and related commands: one key, after whichever of the words comes last. COMMAND shows two
 * keys, each after the first such word, as Redis does. */
static void add_geo_store(const struct key_spec *spec, struct found *found, const struct bytes *args, int arg_count)
{
    int store = 0;

    for (int i = spec->index; i + 1 < arg_count; i++) {
        if (bytes_is(args[i], "store") || bytes_is(args[i], "storedist"))
            store = ++i;
    }
    if (store != 0)
        add_key(found, store, spec->flags);
}

/* The STORE of SORT: the last one counts. A word that is an argument of BY, GET or LIMIT is not an option. */
static void add_sort_store(struct found *found, const struct bytes *args, int arg_count, uint32_t flags)
{
    int store = 0;

    for (int i = 2; i < arg_count; i++) {
        if (bytes_is(args[i], "limit"))
            i += 2;
        else if (bytes_is(args[i], "get") || bytes_is(args[i], "by"))
            i += 1;
        else if (bytes_is(args[i], "store") && i + 1 < arg_count)
            store = ++i;
    }
    if (store != 0)
        add_key(found, store, flags);
}

static void add_unknown(const struct command *command, const struct key_spec *spec, const struct bytes *args, int arg_count,
    struct found *found)
{
    if (strcmp(command->name, "sort") == 0 && !(spec->flags & KEY_RO))
        add_sort_store(found, args, arg_count, spec->flags);
}

/* The two names after the word GROUP of XREADGROUP may be any words, STREAMS among them. */
static int group_streams(const struct key_spec *spec, const struct bytes *args, int arg_count)
{
    for (int i = 1; i < arg_count; i++) {
        if (bytes_is(args[i], "group"))
            i += 2;
        else if (i >= spec->index && bytes_is(args[i], spec->keyword))
            return i + 1;
    }
    return 0;
}

/* Index of the argument where a specification begins; 0: its keyword is not there. */
static int spec_begin(const struct command *command, const struct key_spec *spec, const struct bytes *args, int arg_count)
{
    int from = spec->index >= 0 ? spec->index : arg_count + spec->index;
    int step = spec->index >= 0 ? 1 : -1;

    if (spec->keyword == NULL)
        return from;
    if (strcmp(command->name, "xreadgroup") == 0)
        return group_streams(spec, args, arg_count);
    for (int i = from; i > 0 && i < arg_count; i += step) {
        if (bytes_is(args[i], spec->keyword))
            return i + 1;
    }
    return 0;
}

/* First and last key of a specification that begins at `begin`. False: the arguments are invalid. first > last: no keys. */
static bool spec_range(const struct command *command, const struct key_spec *spec, const struct bytes *args, int arg_count, int begin,
    int *first, int *last)
{
    int64_t count, least = command->flags & COMMAND_NO_MANDATORY_KEYS ? 0 : 1;

    *first = begin;
    if (spec->numbered) {
        if (begin >= arg_count || !text_to_int(args[begin], &count) || count < least || count > arg_count)
            return false;
        *first = begin + 1;
        *last = begin + 1 + ((int)count - 1) * spec->step;
    } else if (spec->last >= 0) {
        *last = begin + spec->last;
    } else if (spec->limit > 1) {
        *last = begin + (arg_count - begin) / spec->limit + spec->last;
    } else {
        *last = arg_count + spec->last;
    }
    return *last < arg_count;
}

static bool add_spec(const struct command *command, const struct key_spec *spec, const struct bytes *args, int arg_count,
    struct found *found)
{
    uint32_t flags;
    int begin, first, last;

    if (spec->flags & KEY_NOT_KEY)
        return true;
    if (spec->step == 0) {
        add_unknown(command, spec, args, arg_count, found);
        return true;
    }
    if (spec->keyword != NULL && (command->categories & CAT_GEO)) {
        if (strcmp(spec->keyword, "STORE") == 0)
            add_geo_store(spec, found, args, arg_count);
        return true;
    }
    begin = spec_begin(command, spec, args, arg_count);
    if (begin <= 0)
        return spec->keyword != NULL;
    if (!spec_range(command, spec, args, arg_count, begin, &first, &last))
        return false;
    flags = variable_flags(command, args, arg_count, spec->flags);
    for (int arg = first; arg <= last; arg += spec->step)
        add_key(found, arg, flags);
    return true;
}

static bool is_migrate(const struct command *command)
{
    return command->flags & COMMAND_OWNS_KEYS && strcmp(command->name, "migrate") == 0;
}

/* The keys of MIGRATE are after the word KEYS; the argument for the one key has to be empty then. */
static int add_migrate_keys(struct found *found, uint32_t flags, const struct bytes *args, int arg_count)
{
    enum { ONE_KEY = 3, OPTIONS = 6 };

    for (int i = OPTIONS; i < arg_count; i++) {
        if (bytes_is(args[i], "keys")) {
            for (int arg = i + 1; arg < arg_count; arg++)
                add_key(found, arg, flags);
            return args[ONE_KEY].size == 0 ? found->count : INVALID;
        }
        i += bytes_is(args[i], "auth") ? 1 : bytes_is(args[i], "auth2") ? 2 : 0;
    }
    if (arg_count <= ONE_KEY)
        return INVALID;
    add_key(found, ONE_KEY, flags);
    return found->count;
}

int command_named_db(const struct command *command, const struct bytes *args, int arg_count)
{
    enum { MOVE_DB = 2, COPY_OPTIONS = 3 };
    int at = -1;
    int64_t number;

    if (strcmp(command->name, "move") == 0) {
        at = MOVE_DB;
    } else if (strcmp(command->name, "copy") == 0) {
        for (int arg = COPY_OPTIONS; arg < arg_count; arg++) {      /* the last one counts */
            if (bytes_is(args[arg], "db"))
                at = ++arg;
        }
    }
    return at > 0 && at < arg_count && text_to_int(args[at], &number) && number >= 0 && number <= INT32_MAX ? (int)number : -1;
}

int command_keys(const struct command *command, const struct bytes *args, int arg_count, struct call_key *keys, int capacity)
{
    const struct key_spec *spec = command->keys;
    struct found found = { keys, capacity, 0 };

    if (spec == NULL)
        return 0;
    /* One key at a fixed place, whose flags depend on the options: SET. */
    if (spec[1].flags == 0 && spec->last == 0 && spec->step == 1 && spec->keyword == NULL && !spec->numbered && spec->index > 0 &&
        !(spec->flags & KEY_NOT_KEY) && capacity > 0) {
        if (spec->index >= arg_count)
            return INVALID;
        keys->arg = spec->index;
        keys->flags = variable_flags(command, args, arg_count, spec->flags);
        return 1;
    }
    if (is_migrate(command))
        return add_migrate_keys(&found, spec->flags, args, arg_count);
    for (; spec->flags != 0; spec++) {
        if (!add_spec(command, spec, args, arg_count, &found))
            return INVALID;
    }
    return found.count;
}
