#include "script/flags.h"

#include <stddef.h>

#include "script/host.h"

static const struct {
    const char *name;
    uint32_t flag;
} flags[] = {
    { "no-writes", SCRIPT_NO_WRITES },
    { "allow-oom", SCRIPT_ALLOW_OOM },
    { "allow-stale", SCRIPT_ALLOW_STALE },
    { "no-cluster", SCRIPT_NO_CLUSTER },
    { "allow-cross-slot-keys", SCRIPT_ALLOW_CROSS_SLOT },
    { NULL, 0 },
};

uint32_t script_flag_of(struct bytes name)
{
    for (int i = 0; flags[i].name != NULL; i++) {
        if (bytes_equal(name, bytes_of_string(flags[i].name)))
            return flags[i].flag;
    }
    return 0;
}

const char *script_flag_at(int index, uint32_t *flag)
{
    *flag = flags[index].flag;
    return flags[index].name;
}
