#include "support/managed_view.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "support/cluster_view.h"

static const struct bus_options options = { .timeout_ms = 1000, .requires_full_coverage = true, .is_managed = true, .port = 1, .bus_port = 2 };

struct bus *managed_view_bus(char letter)
{
    char description[] = "a master 0";
    struct bus *bus;

    description[0] = letter;
    bus = bus_create(cluster_view_create(description), &options, 1, 1000);
    managed_refresh(bus);
    bus_outcome_clear(bus);
    return bus;
}

struct bus *managed_view_bus_of(struct bytes text)
{
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct message message = { "" };
    struct random random;
    struct bus *bus;

    random_init(&random, 1);
    CHECK(nodes_file_read(text, NODES_FILE_PORT_PLAIN, file, &message) == STATUS_OK);
    bus = bus_create(members_create_from(file, 1000, &random), &options, 1, 1000);
    managed_refresh(bus);
    bus_outcome_clear(bus);
    members_verify(bus->members);
    nodes_file_release(file);
    mem_free(file);
    return bus;
}

void managed_view_restart(struct bus **bus)
{
    struct buffer text = { 0 };

    members_write((*bus)->members, &text);
    bus_destroy(*bus);
    *bus = managed_view_bus_of(buffer_bytes(&text));
    buffer_release(&text);
}

static void expand(const char *lines, char *out, size_t size)
{
    size_t used = 0;

    for (const char *at = lines; *at != '\0';) {
        const char *end = strchr(at, '\n');
        char rest[200], role[20], master[8] = "", letter;
        int port, consumed = 0;

        CHECK(sscanf(at, "%c %d %19s %7s%n", &letter, &port, role, master, &consumed) == 4);
        snprintf(rest, sizeof(rest), "%.*s", (int)(end - at - consumed), at + consumed);
        used += (size_t)snprintf(out + used, size - used, "%.40s 127.0.0.1 %d %s %.*s%s\n", cluster_view_id(letter).text, port, role,
            master[0] == '-' ? 1 : 40, master[0] == '-' ? "-" : cluster_view_id(master[0]).text, rest);
        at = end + 1;
    }
    CHECK(used < size);
}

const char *managed_view_set(struct bus *bus, const char *lines, int64_t version, enum managed_force force)
{
    char text[4000];

    expand(lines, text, sizeof(text));
    return managed_set_nodes(bus, bytes_of_string(text), version, force);
}

void managed_view_accept(struct bus *bus, const char *lines, int64_t version)
{
    bus_outcome_clear(bus);
    CHECK(managed_view_set(bus, lines, version, MANAGED_NOT_FORCED) == NULL);
    members_verify(bus->members);
    CHECK(bus->outcome.has_changed && bus->outcome.has_promised && bus->outcome.topology_changed);
}
