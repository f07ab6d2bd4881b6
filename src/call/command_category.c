#include "call/command_category.h"

#include "base/check.h"

struct category {
    uint32_t flag;
    const char *name;
};

static const struct category categories[COMMAND_CATEGORY_COUNT] = {
    { CAT_KEYSPACE, "keyspace" }, { CAT_READ, "read" }, { CAT_WRITE, "write" }, { CAT_SET, "set" },
    { CAT_SORTEDSET, "sortedset" }, { CAT_LIST, "list" }, { CAT_HASH, "hash" }, { CAT_STRING, "string" },
    { CAT_BITMAP, "bitmap" }, { CAT_HYPERLOGLOG, "hyperloglog" }, { CAT_GEO, "geo" }, { CAT_STREAM, "stream" },
    { CAT_PUBSUB, "pubsub" }, { CAT_ADMIN, "admin" }, { CAT_FAST, "fast" }, { CAT_SLOW, "slow" },
    { CAT_BLOCKING, "blocking" }, { CAT_DANGEROUS, "dangerous" }, { CAT_CONNECTION, "connection" },
    { CAT_TRANSACTION, "transaction" }, { CAT_SCRIPTING, "scripting" },
};

const char *command_category_name(int index)
{
    CHECK(index >= 0 && index < COMMAND_CATEGORY_COUNT);
    return categories[index].name;
}

uint32_t command_category_flag(int index)
{
    CHECK(index >= 0 && index < COMMAND_CATEGORY_COUNT);
    return categories[index].flag;
}

uint32_t command_category_of(struct bytes name)
{
    for (int i = 0; i < COMMAND_CATEGORY_COUNT; i++) {
        if (bytes_is(name, categories[i].name))
            return categories[i].flag;
    }
    return 0;
}

/* Commands that run scripts, which have keys, are neither readers nor writers: scripts may do both. */
uint32_t command_categories(const struct command *command)
{
    uint32_t flags = command->flags, found = command->categories;
    bool runs_scripts = found & CAT_SCRIPTING && command->keys != NULL;

    if (flags & COMMAND_WRITE && !runs_scripts)
        found |= CAT_WRITE;
    if (flags & COMMAND_READONLY && !runs_scripts)
        found |= CAT_READ;
    if (flags & COMMAND_ADMIN)
        found |= CAT_ADMIN | CAT_DANGEROUS;
    if (flags & COMMAND_PUBSUB)
        found |= CAT_PUBSUB;
    if (flags & COMMAND_BLOCKING)
        found |= CAT_BLOCKING;
    if (flags & COMMAND_FAST)
        found |= CAT_FAST;
    else if (!(found & CAT_FAST))
        found |= CAT_SLOW;
    return found;
}
