#include "server/cluster_node.h"

#include <string.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "cluster/cluster.h"
#include "cluster/lost_slots.h"
#include "cluster/redirection.h"
#include "cluster/slot_export.h"
#include "cluster/slot_import.h"
#include "engine/dataset.h"
#include "engine/data_stats.h"
#include "engine/publish.h"
#include "engine/pulse.h"
#include "engine/role.h"
#include "lifecycle/emptying.h"
#include "pubsub/hub.h"
#include "replication/follow.h"
#include "replication/hold.h"

enum {
    BUS_PORT_DISTANCE = 10000,      /* from the port of clients, unless cluster-port says another one */
    AGAIN_MS = 100,                 /* until a change of the role that was refused is tried again */
};

enum role_wish { WISH_NONE, WISH_FOLLOW, WISH_LEAD };

struct cluster_node {
    struct engine *engine;
    struct tls_context *(*hold_tls)(void *context);
    void *tls_context;
    struct cluster *cluster;
    struct lost_slots *lost;
    struct slot_export *exporter;
    struct slot_import *importer;
    char *nodes_path;
    struct pulse *pulse;            /* of the workers; under the cluster's lock */

    struct thread thread;
    struct waiting asked;           /* something is wished, was done, or the server ends */
    _Atomic bool stopping;

    struct mutex lock;              /* guards what follows */
    enum role_wish wish;            /* NONE: it was fulfilled */
    bool wish_empties;
    char ip[NODE_IP_SIZE];          /* of FOLLOW */
    int port;
    uint64_t wish_count, tried_count;       /* wishes so far, and those that the thread has tried to fulfil */
    bool holds, holds_now;          /* writes are to be held back; they are, and those that ran have ended */
    uint64_t hold_count;            /* changes of `holds` */
};

/* --- Configuration --- */

static uint16_t port_number(const struct config *config, enum config_id announced, enum config_id own)
{
    int64_t number = config_number(config, announced);

    return (uint16_t)(number != 0 ? number : config_number(config, own));
}

static bool is_managed(const struct config *config)
{
    return config_number(config, CONFIG_CLUSTER_CONTROL) == CONFIG_CONTROL_MANAGED;
}

/* The port on which this server listens for the bus. */
static int64_t bus_port(const struct config *config)
{
    int64_t port = config_number(config, CONFIG_CLUSTER_PORT);
    enum config_id base = config_number(config, CONFIG_TLS_CLUSTER) || config_number(config, CONFIG_PORT) == 0 ? CONFIG_TLS_PORT : CONFIG_PORT;

    return port != 0 ? port : config_number(config, base) + BUS_PORT_DISTANCE;
}

/* The texts are the caller's. */
static void read_options(struct config *config, char *texts[3], struct bus_options *options)
{
    int64_t announced = config_number(config, CONFIG_CLUSTER_ANNOUNCE_BUS_PORT);

    texts[0] = config_string(config, CONFIG_CLUSTER_ANNOUNCE_IP);
    texts[1] = config_string(config, CONFIG_CLUSTER_ANNOUNCE_HOSTNAME);
    texts[2] = config_string(config, CONFIG_CLUSTER_ANNOUNCE_HUMAN_NODENAME);
    *options = (struct bus_options){
        .timeout_ms = config_number(config, CONFIG_CLUSTER_NODE_TIMEOUT),
        .primary_ping_ms = config_number(config, CONFIG_REPL_PING_REPLICA_PERIOD) * 1000,
        .validity_factor = (unsigned)config_number(config, CONFIG_CLUSTER_REPLICA_VALIDITY_FACTOR),
        .migration_barrier = (unsigned)config_number(config, CONFIG_CLUSTER_MIGRATION_BARRIER),
        .allows_replica_migration = config_number(config, CONFIG_CLUSTER_ALLOW_REPLICA_MIGRATION) != 0,
        .requires_full_coverage = config_number(config, CONFIG_CLUSTER_REQUIRE_FULL_COVERAGE) != 0,
        .never_stands = config_number(config, CONFIG_CLUSTER_REPLICA_NO_FAILOVER) != 0,
        .port = port_number(config, CONFIG_CLUSTER_ANNOUNCE_PORT, CONFIG_PORT),
        .tls_port = port_number(config, CONFIG_CLUSTER_ANNOUNCE_TLS_PORT, CONFIG_TLS_PORT),
        .bus_port = (uint16_t)(announced != 0 ? announced : bus_port(config)),
        .is_tls = config_number(config, CONFIG_TLS_CLUSTER) != 0,
        .is_managed = is_managed(config),
        .host_name = bytes_of_string(texts[1]),
        .name = bytes_of_string(texts[2]),
    };
    snprintf(options->ip, sizeof(options->ip), "%s", texts[0]);
}

static void release_texts(char *texts[3])
{
    for (int i = 0; i < 3; i++)
        mem_free(texts[i]);
}

static const enum config_id option_rows[] = {
    CONFIG_CLUSTER_NODE_TIMEOUT, CONFIG_REPL_PING_REPLICA_PERIOD, CONFIG_CLUSTER_REPLICA_VALIDITY_FACTOR, CONFIG_CLUSTER_MIGRATION_BARRIER,
    CONFIG_CLUSTER_ALLOW_REPLICA_MIGRATION, CONFIG_CLUSTER_REQUIRE_FULL_COVERAGE, CONFIG_CLUSTER_REPLICA_NO_FAILOVER, CONFIG_CLUSTER_ANNOUNCE_IP,
    CONFIG_CLUSTER_ANNOUNCE_PORT, CONFIG_CLUSTER_ANNOUNCE_TLS_PORT, CONFIG_CLUSTER_ANNOUNCE_BUS_PORT, CONFIG_CLUSTER_ANNOUNCE_HOSTNAME,
    CONFIG_CLUSTER_ANNOUNCE_HUMAN_NODENAME,
};

static bool options_changed(void *context, enum config_id id, struct message *message)
{
    struct cluster_node *node = context;
    struct bus_options options;
    char *texts[3];
    bool is_good;

    (void)id;
    read_options(node->engine->config, texts, &options);
    is_good = strlen(texts[0]) < sizeof(options.ip) && node_ip_is_valid(bytes_of_string(texts[0]));
    if (is_good)
        cluster_set_options(node->cluster, &options);
    else
        message_set(message, "cluster-announce-ip must be an address");
    release_texts(texts);
    return is_good;
}

static bool buffer_max_changed(void *context, enum config_id id, struct message *message)
{
    struct cluster_node *node = context;

    (void)message;
    cluster_set_link_buffer_max(node->cluster, (uint64_t)config_number(node->engine->config, id));
    return true;
}

static void watch_config(struct cluster_node *node)
{
    struct config *config = node->engine->config;

    for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++)
        config_on_change(config, option_rows[i], options_changed, node);
    config_on_change(config, CONFIG_CLUSTER_LINK_SENDBUF_LIMIT, buffer_max_changed, node);
}

/* --- The role --- */

static bool is_stopping(const void *context)
{
    const struct cluster_node *node = context;

    return node->stopping;
}

/* The wish as of one moment, to be fulfilled without the lock. */
struct wish {
    enum role_wish role;
    bool empties;
    char ip[NODE_IP_SIZE];
    int port;
    bool awaits_hold;
    uint64_t count, hold_count;
};

static struct wish take_wish(struct cluster_node *node)
{
    struct wish wish;

    mutex_lock(&node->lock);
    wish = (struct wish){ .role = node->wish, .empties = node->wish_empties, .port = node->port, .awaits_hold = node->holds && !node->holds_now,
        .count = node->wish_count, .hold_count = node->hold_count };
    memcpy(wish.ip, node->ip, sizeof(wish.ip));
    mutex_unlock(&node->lock);
    return wish;
}

/* False: it has to be tried again. */
static bool change_role(struct cluster_node *node, const struct wish *wish)
{
    struct follow *follow = node->engine->replication.follow;

    if (wish->role == WISH_FOLLOW)
        lost_slots_await(node->lost);
    if (wish->role != WISH_NONE && follow_primary(follow, wish->role == WISH_FOLLOW ? wish->ip : NULL, wish->port) == FOLLOW_LOADING)
        return false;
    if (wish->empties)
        emptying_run_logged(node->engine);
    return true;
}

static void await_hold(struct cluster_node *node, const struct wish *wish)
{
    bool holds = hold_await(node->engine, is_stopping, node);

    mutex_lock(&node->lock);
    node->holds_now = holds && node->holds && node->hold_count == wish->hold_count;
    mutex_unlock(&node->lock);
}

/* Wishes of the meantime are for the next round. */
static void note_tried(struct cluster_node *node, const struct wish *wish, bool is_done)
{
    mutex_lock(&node->lock);
    node->tried_count = wish->count;
    if (is_done && node->wish_count == wish->count) {
        node->wish = WISH_NONE;
        node->wish_empties = false;
    }
    mutex_unlock(&node->lock);
    waiting_bump(&node->asked);
}

/* Returns in how many milliseconds it is to be called again; -1: with the next wish. */
static int64_t fulfil(struct cluster_node *node)
{
    struct wish wish = take_wish(node);
    bool is_done;

    if (wish.awaits_hold)
        await_hold(node, &wish);
    if (wish.role == WISH_NONE && !wish.empties)
        return -1;
    is_done = change_role(node, &wish);
    note_tried(node, &wish, is_done);
    return is_done ? 0 : AGAIN_MS;
}

static void role_main(void *context)
{
    struct cluster_node *node = context;

    for (;;) {
        uint32_t version = waiting_version(&node->asked);
        int64_t again_ms;

        if (node->stopping)
            return;
        again_ms = fulfil(node);
        if (again_ms != 0)
            waiting_wait(&node->asked, version, again_ms);
    }
}

/* --- Hooks --- */

/* Milliseconds since something came by the stream of the primary that it is to follow; -1: it is not in step with that. The link to the one before may still
 * be up. */
static int64_t link_age(struct cluster_node *node)
{
    struct engine *engine = node->engine;
    struct follow_view view;
    bool has_wish;

    mutex_lock(&node->lock);
    has_wish = node->wish != WISH_NONE;
    mutex_unlock(&node->lock);
    if (has_wish || !role_is_replica(engine) || !role_link_is_up(engine) || role_is_syncing(engine))
        return -1;
    follow_view(engine->replication.follow, &view);
    return view.io_s > 0 ? view.io_s * 1000 : 0;
}

static void hook_facts(void *context, struct bus_facts *facts)
{
    struct cluster_node *node = context;
    struct engine *engine = node->engine;
    struct history_point point;

    history_point(&engine->history, &point);
    facts->offset = point.offset > 0 && !role_is_syncing(engine) ? (uint64_t)point.offset : 0;
    facts->link_age_ms = link_age(node);
    facts->is_loading = engine->state == ENGINE_LOADING || role_is_syncing(engine);
    if (role_is_replica(engine))
        engine->replication.has_lost_data = false;
    facts->has_lost_data = engine->replication.has_lost_data;
    mutex_lock(&node->lock);
    facts->holds_writes = node->holds_now;
    mutex_unlock(&node->lock);
}

static bool hook_is_alive(void *context)
{
    struct cluster_node *node = context;

    return pulse_look(node->pulse, clock_mono_us() / 1000);
}

static void hook_hold_writes(void *context, bool holds)
{
    struct cluster_node *node = context;

    mutex_lock(&node->lock);
    node->holds = holds;
    node->holds_now = false;
    node->hold_count++;
    mutex_unlock(&node->lock);
    if (holds)
        hold_begin(node->engine);
    else
        hold_end(node->engine);
    waiting_bump(&node->asked);
}

/* Until the thread has tried to do it, or the server ends. */
static void await_tried(struct cluster_node *node, uint64_t count)
{
    for (;;) {
        uint32_t version = waiting_version(&node->asked);
        bool is_tried;

        mutex_lock(&node->lock);
        is_tried = node->tried_count >= count;
        mutex_unlock(&node->lock);
        if (is_tried || node->stopping)
            return;
        waiting_wait(&node->asked, version, -1);
    }
}

static void hook_lead(void *context)
{
    struct cluster_node *node = context;
    uint64_t count;

    mutex_lock(&node->lock);
    node->wish = WISH_LEAD;
    count = ++node->wish_count;
    mutex_unlock(&node->lock);
    waiting_bump(&node->asked);
    await_tried(node, count);
}

static void hook_follow(void *context, const char *ip, uint16_t port, uint16_t tls_port)
{
    struct cluster_node *node = context;

    mutex_lock(&node->lock);
    node->wish = WISH_FOLLOW;
    node->wish_count++;
    snprintf(node->ip, sizeof(node->ip), "%s", ip);
    node->port = config_number(node->engine->config, CONFIG_TLS_REPLICATION) ? tls_port : port;
    mutex_unlock(&node->lock);
    waiting_bump(&node->asked);
}

/* After hook_lead: a replica that is reset. */
static void hook_empty(void *context)
{
    struct cluster_node *node = context;
    uint64_t count;

    mutex_lock(&node->lock);
    node->wish_empties = true;
    count = ++node->wish_count;
    mutex_unlock(&node->lock);
    waiting_bump(&node->asked);
    await_tried(node, count);
}

/* For clients that are redirected. */
static bool append_address(void *context, unsigned slot, bool is_move, bool is_tls, struct buffer *out)
{
    struct cluster_node *node = context;
    struct topology *topology = cluster_topology(node->cluster);
    enum endpoint_type type = (enum endpoint_type)config_number(node->engine->config, CONFIG_CLUSTER_PREFERRED_ENDPOINT_TYPE);
    bool has_address = redirection_address(topology, slot, is_move, is_tls, type, out);

    topology_release(topology);
    return has_address;
}

static void redirect_clients(struct cluster_node *node, const struct topology *topology, bool is_down)
{
    struct slot_states *states = mem_alloc(sizeof(*states));

    redirection_states(topology, states);
    states->is_down = is_down;
    redirect_set(node->engine, states);
    mem_free(states);
}

static void hook_topology_changed(void *context, const struct topology *topology)
{
    struct cluster_node *node = context;

    if (topology->is_ok)
        node->engine->replication.has_lost_data = false;
    if (topology->is_managed && topology->version == 0)
        role_set_lease(node->engine, ROLE_LEASE_FREE);          /* after CLUSTER RESET */
    else if (topology->is_managed && topology->has_leases)
        role_need_lease(node->engine);
    redirect_clients(node, topology, !topology->is_ok);
    slot_export_wake(node->exporter);
}

/* A replica needs to know it if it takes over: in the place of the stream before which the keys can't be wanted. A capability that redis-server does not know is
 * skipped by it. */
#define FOREIGN_SLOTS "kelvin-foreign-slots:"
#define MOVED_SLOTS "kelvin-moved-slots:"           /* with a controller */

static void say(struct cluster_node *node, const char *name, struct bytes text)
{
    struct history *history = &node->engine->history;
    struct buffer sign = { 0 };

    if (!history_is_on(history))
        return;
    buffer_append_format(&sign, "*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$%zu\r\n%s", strlen(name) + text.size, name);
    buffer_append_bytes(&sign, text);
    buffer_append_string(&sign, "\r\n");
    history_append_signs(history, buffer_bytes(&sign));
    buffer_release(&sign);
}

static void hook_say_foreign(void *context, const struct slots *slots)
{
    struct buffer text = { 0 };

    slots_write(slots, &text);
    say(context, FOREIGN_SLOTS, buffer_bytes(&text));
    buffer_release(&text);
}

static void hook_say_moves(void *context, struct bytes text) { say(context, MOVED_SLOTS, text); }

/* For engine->upper. */
static void begin_stream(struct engine *engine)
{
    if (engine->replication.cluster != NULL)
        cluster_say_foreign(engine->replication.cluster);
}

/* The rest of a text that begins with `name`. False: it does not. */
static bool begins_with(struct bytes text, const char *name, struct bytes *rest)
{
    size_t size = strlen(name);

    if (text.size < size || memcmp(text.data, name, size) != 0)
        return false;
    *rest = bytes_of(text.data + size, text.size - size);
    return true;
}

/* The same. */
static void hear_sign(struct engine *engine, const struct bytes *args, int arg_count)
{
    struct slots slots = { { 0 } };
    struct bytes text;

    if (arg_count != 3 || !bytes_is(args[1], "capa"))
        return;
    if (is_managed(engine->config) && begins_with(args[2], MOVED_SLOTS, &text)) {
        cluster_hear_moves(engine->replication.cluster, text);
        slot_export_wake(engine->replication.slot_export);
    } else if (!is_managed(engine->config) && begins_with(args[2], FOREIGN_SLOTS, &text) && slots_read(text, &slots)) {
        cluster_hear_foreign(engine->replication.cluster, &slots);
    }
}

static void hook_refuse(void *context)
{
    struct cluster_node *node = context;
    struct topology *topology = cluster_topology(node->cluster);

    redirect_clients(node, topology, true);
    topology_release(topology);
}

static void hook_slots_lost(void *context, const struct slots *slots)
{
    struct cluster_node *node = context;

    lost_slots_add(node->lost, slots);
}

static void hook_deliver(void *context, struct bytes channel, struct bytes text, bool is_shard)
{
    struct cluster_node *node = context;
    enum topic_kind kind = is_shard ? TOPIC_SHARD : TOPIC_CHANNEL;
    struct publish_batch batch = { .first = NULL };

    if (!hub_has_receivers(node->engine->hub, kind))
        return;
    publish_collect(node->engine, &batch, kind, channel, text);
    publish_send(node->engine, NULL, &batch, 0);
}

/* For engine->upper. */
static void publish_to_nodes(struct engine *engine, struct bytes channel, struct bytes text, bool is_shard)
{
    cluster_publish(engine->replication.cluster, channel, text, is_shard);
}

static struct tls_context *hook_hold_tls(void *context)
{
    struct cluster_node *node = context;

    return node->hold_tls(node->tls_context);
}

/* --- Start and end --- */

/* Splits a list of words into an array that ends with NULL; words stay in `text`. */
static const char **split_words(char *text)
{
    const char **words = mem_alloc((strlen(text) / 2 + 2) * sizeof(*words));
    size_t count = 0;

    for (char *rest = text, *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return words;
}

static enum status create_cluster(struct cluster_node *node, struct message *message)
{
    struct engine *engine = node->engine;
    struct config *config = engine->config;
    struct cluster_hooks hooks = {
        .context = node, .facts = hook_facts, .is_alive = hook_is_alive, .hold_writes = hook_hold_writes, .lead = hook_lead, .follow = hook_follow,
        .empty = hook_empty, .topology_changed = hook_topology_changed, .say_foreign = hook_say_foreign, .say_moves = hook_say_moves, .refuse = hook_refuse, .slots_lost = hook_slots_lost, .deliver = hook_deliver,
        .hold_tls = hook_hold_tls,
    };
    struct cluster_config needs = {
        .nodes_path = node->nodes_path, .port = (uint16_t)bus_port(config), .meter = engine->meter, .log = engine->log,
        .backlog = (int)config_number(config, CONFIG_TCP_BACKLOG), .link_buffer_max = (uint64_t)config_number(config, CONFIG_CLUSTER_LINK_SENDBUF_LIMIT),
    };
    char *texts[3], *bind = config_string(config, CONFIG_BIND), *source = config_string(config, CONFIG_BIND_SOURCE_ADDR);
    const char **words = split_words(bind);
    enum status status;

    read_options(config, texts, &needs.options);
    needs.bind = words;
    needs.bind_source = source;
    status = cluster_create(&needs, &hooks, &node->cluster, message);
    release_texts(texts);
    mem_free(words);
    mem_free(source);
    mem_free(bind);
    return status;
}

/* The data that is loaded is its primary's: so it is known before it is loaded. */
static void note_primary(struct cluster_node *node, const struct topology *topology)
{
    int master = topology->nodes[topology->myself].master;

    if (master >= 0 && topology->nodes[master].ip[0] != '\0')
        config_set_replicaof(node->engine->config, bytes_of_string(topology->nodes[master].ip),
            topology_port(&topology->nodes[master], config_number(node->engine->config, CONFIG_TLS_REPLICATION) != 0));
}

/* By what nodes.conf says, clients are redirected from the beginning; the cluster is not ok yet. */
static void apply_file(struct cluster_node *node)
{
    struct topology *topology = cluster_topology(node->cluster);

    note_primary(node, topology);
    hook_topology_changed(node, topology);
    topology_release(topology);
}

static void warn_of_databases(const struct engine *engine)
{
    int64_t count = config_number(engine->config, CONFIG_DATABASES);

    if (count > engine->partitions->db_count)
        log_write(engine->log, LOG_LEVEL_WARNING, "A node of a cluster has %d (cluster-databases), not %d (databases)", engine->partitions->db_count, (int)count);
}

static struct cluster_node *create_node(struct engine *engine)
{
    struct cluster_node *node = mem_zalloc(sizeof(*node));

    node->engine = engine;
    node->nodes_path = config_string(engine->config, CONFIG_CLUSTER_CONFIG_FILE);
    node->pulse = pulse_create(engine);
    mutex_init(&node->lock);
    engine->redirect = redirect_create(append_address, node);
    return node;
}

static bool start_threads(struct cluster_node *node, struct message *message)
{
    int error = lost_slots_start(node->engine, &node->lost);

    node->engine->replication.lost_slots = node->lost;
    if (error == 0)
        error = slot_export_start(node->engine, node->cluster, &node->exporter);
    node->engine->replication.slot_export = node->exporter;
    node->engine->replication.slot_import = node->importer = slot_import_create(node->engine, node->cluster);
    if (error == 0)
        error = thread_start(&node->thread, "kelvin-role", node->engine->meter, role_main, node);
    if (error != 0)
        message_set(message, "Can't start a thread of the cluster: %s", strerror(error));
    return error == 0;
}

bool cluster_node_create(struct engine *engine, struct tls_context *(*hold_tls)(void *context), void *context, struct cluster_node **node,
    struct message *message)
{
    struct cluster_node *new;

    *node = NULL;
    if (!config_number(engine->config, CONFIG_CLUSTER_ENABLED))
        return true;
    if (bus_port(engine->config) > UINT16_MAX && !is_managed(engine->config)) {
        message_set(message, "The port is too high for a node of a cluster: its bus would need port %d. Set cluster-port",
            (int)bus_port(engine->config));
        return false;
    }
    warn_of_databases(engine);
    *node = new = create_node(engine);
    new->hold_tls = hold_tls;
    new->tls_context = context;
    if (create_cluster(new, message) != STATUS_OK)
        return false;
    engine->replication.cluster = new->cluster;
    engine->upper.publish = is_managed(engine->config) ? NULL : publish_to_nodes;
    engine->upper.stream_begins = begin_stream;
    engine->upper.heard_sign = hear_sign;
    apply_file(new);
    watch_config(new);
    return start_threads(new, message);
}

/* Keys of slots that this primary does not have, by an older nodes.conf or none: the slots are taken if they are free, and imported from their owners
 * otherwise, so that an administrator can move the keys. */
static bool take_slots_of_keys(struct cluster_node *node, struct message *message)
{
    struct engine *engine = node->engine;
    struct bus *bus = cluster_lock(node->cluster);
    struct node *myself = bus->members->myself;
    struct slots free = { { 0 } };
    enum status status = STATUS_OK;
    bool has_keys = false;

    for (uint16_t slot = 0; slot < SLOT_COUNT && myself->flags & NODE_MASTER && status == STATUS_OK; slot++) {
        const struct node *owner = bus->members->owners[slot];

        if (owner == myself || members_move_of(bus->members, slot) != NULL || slots_has(&bus->members->unwanted, slot))
            continue;
        status = dataset_slot_has_keys(engine, slot, &has_keys);
        if (!has_keys)
            continue;
        if (owner == NULL)
            slots_add(&free, slot);
        else if (bus_begin_import(bus, slot, &owner->id) == NULL)
            log_write(engine->log, LOG_LEVEL_WARNING, "There are keys in slot %u, which is another node's: it is set to importing", slot);
    }
    if (slots_count(&free) > 0 && bus_add_slots(bus, &free) == NULL)
        log_write(engine->log, LOG_LEVEL_WARNING, "There are keys in %u slots that no node has: this node takes them", slots_count(&free));
    if (myself->flags & NODE_MASTER)
        bus_drop_unwanted(bus);
    if (cluster_unlock(node->cluster) != STATUS_OK || status != STATUS_OK)
        message_set(message, "The slots of the keys can't be compared with those of this node");
    return message_is_empty(message);
}

/* With a controller: what was lost, or received of a migration that has not ended, is removed. Other keys of slots that other nodes have are kept, as a node of the
 * bus keeps them, because the topology may be older than the keys. */
static bool check_foreign_keys(struct cluster_node *node, struct message *message)
{
    struct bus *bus = cluster_lock(node->cluster);
    const struct members *members = bus->members;
    bool is_primary = members->myself->master == NULL;
    enum status status = STATUS_OK;
    bool has_keys = false;
    unsigned slots = 0;

    for (uint16_t slot = 0; slot < SLOT_COUNT && is_primary && status == STATUS_OK; slot++) {
        if (members->owners[slot] == NULL || members->owners[slot] == members->myself || slots_has(&members->unwanted, slot))
            continue;
        status = dataset_slot_has_keys(node->engine, slot, &has_keys);
        slots += has_keys;
    }
    if (is_primary)
        bus_drop_unwanted(bus);
    (void)cluster_unlock(node->cluster);            /* a disk that is full is no reason to end */
    if (slots > 0)
        log_write(node->engine->log, LOG_LEVEL_WARNING, "There are keys in %u slots of other nodes: they are kept, and are seen again if this node gets the slots", slots);
    if (status != STATUS_OK)
        message_set(message, "The slots of the keys can't be compared with those of this node");
    return status == STATUS_OK;
}

/* Whether it has slots, but no key: its replicas may have what it had, and would lose it by a synchronization (bus_is_silent). */
static bool has_lost_data(struct cluster_node *node)
{
    struct engine *engine = node->engine;
    struct topology *topology = cluster_topology(node->cluster);
    uint64_t count, sum = 0;
    bool has_slots = topology->nodes[topology->myself].slot_count > 0;

    topology_release(topology);
    for (int db = 0; db < engine->partitions->db_count; db++) {
        (void)database_key_count(engine, db, &count);
        sum += count;
    }
    return has_slots && sum == 0;
}

bool cluster_node_start(struct cluster_node *node, struct message *message)
{
    if (node != NULL && is_managed(node->engine->config))
        return check_foreign_keys(node, message);
    if (node != NULL)
        node->engine->replication.has_lost_data = has_lost_data(node);
    return node == NULL || (take_slots_of_keys(node, message) && cluster_start(node->cluster, message) == STATUS_OK);
}

/* The role's thread may wait for the applier, or for a link that follow_stop ends; and what it has begun after that is ended again by the server. */
void cluster_node_stop(struct cluster_node *node)
{
    if (node == NULL)
        return;
    node->stopping = true;
    waiting_bump(&node->asked);
    waiting_bump(&node->engine->waiting);
    slot_export_stop(node->exporter);
    if (node->cluster != NULL)
        cluster_stop(node->cluster);
    follow_stop(node->engine->replication.follow);
    lost_slots_stop(node->lost);
    thread_join(&node->thread);
}

void cluster_node_destroy(struct cluster_node *node)
{
    if (node == NULL)
        return;
    node->engine->replication.cluster = NULL;
    slot_export_destroy(node->exporter);
    slot_import_destroy(node->importer);
    cluster_destroy(node->cluster);
    lost_slots_destroy(node->lost);
    redirect_destroy(node->engine->redirect);
    node->engine->redirect = NULL;
    mutex_release(&node->lock);
    mem_free(node->nodes_path);
    pulse_destroy(node->pulse);
    mem_free(node);
}
