#include "base/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t physical(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The number in a file; "max" and whatever else is no number: no limit. */
static uint64_t limit_in(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long long limit;
    bool found;

    if (file == NULL)
        return UINT64_MAX;
    found = fscanf(file, "%llu", &limit) == 1;
    fclose(file);
    return found ? limit : UINT64_MAX;
}

/* The least limit of a group and those above it. `group` is cut. In a container the group's path may be the one outside of it: then only the
 * topmost directory is there. */
static uint64_t limit_of(const char *top, char *group, const char *name)
{
    uint64_t least = UINT64_MAX, limit;
    char path[4096];

    for (;;) {
        char *slash = strrchr(group, '/');

        snprintf(path, sizeof(path), "%.1000s%.2000s/%s", top, group, name);
        limit = limit_in(path);
        least = limit < least ? limit : least;
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* A line is NUMBER:CONTROLLERS:GROUP; version 2 has no controllers there. */
static uint64_t limit_of_line(char *line, const char *root)
{
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    char top[1000];

    if (group == NULL)
        return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0')
        return limit_of(root, group, "memory.max");
    if (strcmp(controllers + 1, "memory") != 0)
        return UINT64_MAX;
    snprintf(top, sizeof(top), "%.900s/memory", root);
    return limit_of(top, group, "memory.limit_in_bytes");
}

uint64_t machine_memory_at(const char *cgroups, const char *root)
{
    FILE *file = fopen(cgroups, "re");
    uint64_t least = physical(), limit;
    char line[2000];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        limit = limit_of_line(line, root);
        least = limit < least ? limit : least;
    }
    if (file != NULL)
        fclose(file);
    return least;
}

uint64_t machine_memory(void)
{
    return machine_memory_at("/proc/self/cgroup", "/sys/fs/cgroup");
}
