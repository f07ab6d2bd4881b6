#include "cluster/peer_link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "engine/engine.h"

void peer_link_init(struct peer_link *peer, struct engine *engine, struct cluster *cluster, const struct node_id *node, const char *name)
{
    *peer = (struct peer_link){ .engine = engine, .cluster = cluster, .node = *node, .name = name };
    migrate_link_init(&peer->link, 0);
}

void peer_link_close(struct peer_link *peer) { migrate_link_close(&peer->link); }

bool peer_link_is_open(const struct peer_link *peer) { return migrate_link_is_open(&peer->link); }

bool peer_link_fail(struct peer_link *peer, const char *text)
{
    if (message_is_empty(&peer->message))
        message_set(&peer->message, "%s", text);
    return false;
}

static bool fail_of_node(struct peer_link *peer, const char *what)
{
    if (message_is_empty(&peer->message))
        message_set(&peer->message, "%s %s", peer->name, what);
    return false;
}

/* A node that is not known any more is where it was. */
static bool find_address(struct peer_link *peer)
{
    struct topology *topology = cluster_topology(peer->cluster);
    bool is_tls = config_number(peer->engine->config, CONFIG_TLS_CLUSTER) != 0;

    for (int i = 0; i < topology->count; i++) {
        const struct topology_node *node = &topology->nodes[i];
        unsigned port = is_tls ? node->tls_port : node->port;

        if (!node_id_equal(&node->id, &peer->node) || port == 0)
            continue;
        snprintf(peer->ip, sizeof(peer->ip), "%s", node->ip);
        snprintf(peer->port, sizeof(peer->port), "%u", port);
    }
    topology_release(topology);
    return peer->ip[0] != '\0' || fail_of_node(peer, is_tls ? "has no address, or no port with TLS" : "has no address, or no port without TLS");
}

static bool authenticate(struct peer_link *peer)
{
    struct config *config = peer->engine->config;
    char *user = config_string(config, CONFIG_MASTERUSER), *password = config_string(config, CONFIG_MASTERAUTH), reply[PEER_WORD_SIZE];
    bool has_user = user[0] != '\0', is_good = true;
    struct bytes words[] = { BYTES("AUTH"), bytes_of_string(has_user ? user : password), bytes_of_string(password) };

    if (password[0] != '\0')
        is_good = peer_link_ask(peer, words, has_user ? 3 : 2, reply, sizeof(reply));
    mem_free(user);
    mem_free(password);
    return is_good;
}

/* The address may be another node's by now. */
static bool is_the_node(struct peer_link *peer)
{
    static const struct bytes words[] = { BYTES("CLUSTER"), BYTES("MYID") };
    struct buffer out = { 0 };
    struct bytes line;
    bool is_it;

    migrate_link_append(&out, words, 2);
    is_it = migrate_link_write(&peer->link, buffer_bytes(&out)) == MIGRATE_LINK_OK && migrate_link_read_line(&peer->link, &line) == MIGRATE_LINK_OK;
    buffer_release(&out);
    if (!is_it)
        return fail_of_node(peer, "does not reply");
    if (line.size > 0 && line.data[0] == '-') {
        message_set(&peer->message, "%s says: %.*s", peer->name, (int)(line.size - 1), line.data + 1);
        return false;
    }
    is_it = bytes_is(line, "$40") && migrate_link_read_line(&peer->link, &line) == MIGRATE_LINK_OK &&
        bytes_equal(line, bytes_of(peer->node.text, NODE_ID_SIZE));
    return is_it || fail_of_node(peer, "is not at its address: another node replies there");
}

static bool fail_of_connecting(struct peer_link *peer)
{
    struct message why = peer->link.reason;

    if (message_is_empty(&why))
        return fail_of_node(peer, "can't be connected to");
    if (message_is_empty(&peer->message))
        message_set(&peer->message, "%s can't be connected to: %s", peer->name, why.text);
    return false;
}

bool peer_link_open(struct peer_link *peer, int64_t timeout_ms)
{
    migrate_link_close(&peer->link);
    migrate_link_init(&peer->link, timeout_ms);
    if (!find_address(peer))
        return false;
    if (migrate_link_open(&peer->link, peer->engine, peer->ip, peer->port) != MIGRATE_LINK_OK)
        return fail_of_connecting(peer);
    return authenticate(peer) && is_the_node(peer);
}

bool peer_link_write(struct peer_link *peer, struct bytes commands)
{
    return migrate_link_write(&peer->link, commands) == MIGRATE_LINK_OK || fail_of_node(peer, "can't be written to");
}

bool peer_link_read_reply(struct peer_link *peer, char *first, size_t room)
{
    bool is_first = true, is_good = true;

    for (uint64_t left = 1; left > 0; left--) {
        struct bytes line;
        long long number;

        if (migrate_link_read_line(&peer->link, &line) != MIGRATE_LINK_OK || line.size == 0)
            return fail_of_node(peer, "does not reply");
        if (is_first && line.data[0] != '*') {
            snprintf(first, room, "%.*s", (int)line.size, line.data);
            is_first = false;
        }
        number = line.size > 1 && line.size < PEER_WORD_SIZE ? strtoll(line.data + 1, NULL, 10) : 0;
        if (line.data[0] == '-') {
            is_good = false;
            message_set(&peer->message, "%s says: %.*s", peer->name, (int)(line.size - 1), line.data + 1);
        } else if (line.data[0] == '*' && number > 0) {
            left += (uint64_t)number;
        } else if (line.data[0] == '$' && number >= 0 && migrate_link_skip(&peer->link, (size_t)number + 2) != MIGRATE_LINK_OK) {
            return fail_of_node(peer, "does not reply");
        }
    }
    return is_good;
}

bool peer_link_ask(struct peer_link *peer, const struct bytes *words, int count, char *first, size_t room)
{
    struct buffer out = { 0 };
    bool is_written;

    migrate_link_append(&out, words, count);
    is_written = peer_link_write(peer, buffer_bytes(&out));
    buffer_release(&out);
    return is_written && peer_link_read_reply(peer, first, room);
}
