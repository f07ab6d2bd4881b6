#include "support/cluster_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct node_id cluster_view_id(char letter)
{
    struct node_id id;

    memset(id.text, letter, NODE_ID_SIZE);
    return id;
}

struct node *cluster_view_node(const struct members *members, char letter)
{
    struct node_id id = cluster_view_id(letter);
    struct node *node = members_find(members, &id);

    CHECK(node != NULL);
    return node;
}

struct slots cluster_view_slots(const char *ranges)
{
    struct slots slots = { { 0 } };
    char *end;

    for (const char *at = ranges; *at != '\0'; at = end + strspn(end, " ")) {
        unsigned long first = strtoul(at, &end, 10), last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

        slots_add_range(&slots, (struct slot_range){ (uint16_t)first, (uint16_t)last });
    }
    return slots;
}

char cluster_view_owner(const struct members *members, unsigned slot)
{
    return members->owners[slot] == NULL ? '-' : members->owners[slot]->id.text[0];
}

/* Through the text of a file: so a view is what a node would have after a start. */
struct members *cluster_view_create(const char *description)
{
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct buffer text = { 0 };
    struct message message = { "" };
    struct random random;
    struct members *members;
    char line[300], role[20], slots[200];

    for (const char *at = description; *at != '\0'; at += strcspn(at, "\n") + (strchr(at, '\n') != NULL)) {
        unsigned epoch = 0;

        snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        *slots = '\0';
        CHECK(sscanf(line + 1, "%19s %u %199[^\n]", role, &epoch, slots) >= 1);
        for (int i = 0; i < NODE_ID_SIZE; i++)
            buffer_append_u8(&text, (uint8_t)*line);
        buffer_append_format(&text, " 10.0.0.%d:1@2 %s%.*s ", *line, at == description ? "myself," : "", (int)strcspn(role, "-"), role);
        for (int i = 0; strchr(role, '-') != NULL && i < NODE_ID_SIZE; i++)
            buffer_append_u8(&text, (uint8_t)role[strlen(role) - 1]);
        buffer_append_format(&text, "%s 0 1 %u connected %s\n", strchr(role, '-') != NULL ? "" : "-", epoch, slots);
    }
    buffer_append_string(&text, "vars currentEpoch 0 lastVoteEpoch 0\n");
    if (nodes_file_read(buffer_bytes(&text), NODES_FILE_PORT_PLAIN, file, &message) != STATUS_OK) {
        fprintf(stderr, "%s in\n%.*s", message.text, (int)text.size, text.data);
        CHECK(!"the description is right");
    }
    random_init(&random, 1);
    members = members_create_from(file, 1000, &random);
    members_verify(members);
    nodes_file_release(file);
    mem_free(file);
    buffer_release(&text);
    return members;
}
