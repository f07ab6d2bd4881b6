#include "cluster/cluster.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/random.h"
#include "cluster/bus_net.h"
#include "cluster/managed.h"
#include "cluster/managed_move.h"
#include "cluster/nodes_store.h"
#include "cluster/bus_inbox.h"

struct cluster {
    struct cluster_hooks hooks;         /* immutable, and so are those up to `net` */
    struct log *log;
    struct meter *meter;
    char **bind, *bind_source;
    int backlog;
    struct nodes_store *store;
    struct bus_net *net;
    uint16_t port;
    bool is_managed;                    /* the thread is never started: each command carries out all there is to do */
    struct bus_inbox inbox;             /* of threads that do not wait for the lock */
    _Atomic int dropped_type;           /* cluster_drop_messages */
    _Atomic bool runs;                  /* the thread */
    struct mutex lock;                  /* all that follows, but for the topology */
    struct bus *bus;
    struct bus_orders orders;           /* that the thread has not taken yet */
    struct bus_net_limits limits;
    struct buffer text;                 /* of nodes.conf */
    bool stopped;                       /* no hook is called any more */
    bool is_unsaved;                    /* what there is was not even written */
    bool is_unsynced;                   /* what was written last is not in nodes.conf, or not synced */
    bool save_failed;                   /* the last time; logged once */
    bool holds_writes, refuses, is_alive;       /* as the hooks know and said */
    bool has_lost;                      /* messages were dropped */
    struct mutex foreign_lock;          /* held while the stream is appended to */
    struct slots foreign;               /* as the stream has it */
    struct buffer moves;                /* the same, with a controller: members_write_moves */
    _Atomic bool has_heard;             /* `moves` is the primary's, and not in the table yet */
    struct mutex topology_lock;         /* a leaf, held while a pointer is copied */
    struct topology *topology;
};

/* --- The outcome of an event. The cluster is locked. */

enum occasion {
    BY_MESSAGE,                         /* and other events of the network */
    BY_TICK,
    BY_COMMAND,
};

static enum status save(struct cluster *cluster, enum nodes_store_durability durability)
{
    struct message message = { "" };
    enum status status;

    cluster->text.size = 0;
    members_write(cluster->bus->members, &cluster->text);
    status = nodes_store_save(cluster->store, buffer_bytes(&cluster->text), durability, &message);
    if (status != STATUS_OK && !cluster->save_failed)
        log_write(cluster->log, LOG_LEVEL_WARNING, "%s. It is tried again and again; until then this node makes no promises, and votes for no replica.",
            message.text);
    cluster->is_unsaved = status != STATUS_OK;
    cluster->is_unsynced = status != STATUS_OK || durability == NODES_STORE_WRITTEN;
    if (status == STATUS_OK && cluster->save_failed && durability == NODES_STORE_SYNCED)
        log_write(cluster->log, LOG_LEVEL_NOTICE, "The cluster configuration file is saved again");
    cluster->save_failed = status != STATUS_OK || (cluster->save_failed && cluster->is_unsynced);
    return status;
}

/* Promises are saved and synced at once. Other changes of commands are written at once, because a process that is killed must not forget what it replied OK to, and
 * become a promise if that fails. Other changes wait for the next tick, many at a time, which also syncs what was only written. A disk that fails is tried at
 * ticks and for changes of commands only; with a controller, which asks each few seconds, for every command. */
static void save_if_due(struct cluster *cluster, enum occasion occasion)
{
    struct bus_outcome *outcome = &cluster->bus->outcome;
    bool is_tried = !cluster->save_failed || occasion == BY_TICK, writes = occasion == BY_COMMAND && outcome->has_changed;

    if (cluster->is_managed && (cluster->is_unsaved || outcome->has_changed))
        outcome->has_promised = is_tried = true;                /* there is no tick */
    cluster->is_unsaved |= outcome->has_changed || outcome->has_promised;
    outcome->has_changed = false;
    if ((outcome->has_promised && (is_tried || writes)) || (occasion == BY_TICK && (cluster->is_unsaved || cluster->is_unsynced)))
        (void)save(cluster, NODES_STORE_SYNCED);
    else if (writes)
        (void)save(cluster, NODES_STORE_WRITTEN);
    outcome->has_promised = cluster->is_unsaved && (outcome->has_promised || writes);
}

enum status cluster_save(struct cluster *cluster)
{
    enum status status = save(cluster, NODES_STORE_SYNCED);

    if (status == STATUS_OK)
        cluster->bus->outcome.has_changed = cluster->bus->outcome.has_promised = false;
    return status;
}

static void change_role(struct cluster *cluster)
{
    const struct cluster_hooks *hooks = &cluster->hooks;
    const struct bus_outcome *outcome = &cluster->bus->outcome;
    const struct node *master = cluster->bus->members->myself->master;

    if (outcome->role == BUS_ROLE_LEAD)
        hooks->lead(hooks->context);
    else if (outcome->role == BUS_ROLE_FOLLOW && master != NULL)
        hooks->follow(hooks->context, master->ip, master->port, master->tls_port);
    if (outcome->empties)
        hooks->empty(hooks->context);
}

static struct topology *new_topology(const struct cluster *cluster)
{
    struct topology *topology = topology_create(cluster->bus->members, cluster->bus->is_ok);

    topology->is_managed = cluster->is_managed;
    return topology;
}

static void publish_topology(struct cluster *cluster)
{
    struct topology *topology = new_topology(cluster), *old;

    mutex_lock(&cluster->topology_lock);
    old = cluster->topology;
    cluster->topology = topology;
    mutex_unlock(&cluster->topology_lock);
    cluster->hooks.topology_changed(cluster->hooks.context, topology);
    topology_release(old);
}

/* While a promise waits for the disk. */
static void refuse_requests(struct cluster *cluster)
{
    if (!cluster->refuses)
        cluster->hooks.refuse(cluster->hooks.context);
    cluster->refuses = true;
}

/* With a controller. */
static void tell_moves(struct cluster *cluster)
{
    struct buffer text = { 0 };

    if (cluster->bus->members->myself->master != NULL)
        return;
    members_write_moves(cluster->bus->members, &text);
    mutex_lock(&cluster->foreign_lock);
    if (!bytes_equal(buffer_bytes(&text), buffer_bytes(&cluster->moves))) {
        cluster->moves.size = 0;
        buffer_append_bytes(&cluster->moves, buffer_bytes(&text));
        cluster->hooks.say_moves(cluster->hooks.context, buffer_bytes(&text));
    }
    mutex_unlock(&cluster->foreign_lock);
    buffer_release(&text);
}

/* With a controller: reads the stream's last word into the table. A text that is none was said by a later version. */
static void hear_moves(struct cluster *cluster)
{
    struct buffer text = { 0 };

    if (!cluster->has_heard)
        return;
    mutex_lock(&cluster->foreign_lock);
    cluster->has_heard = false;
    buffer_append_bytes(&text, buffer_bytes(&cluster->moves));
    mutex_unlock(&cluster->foreign_lock);
    if (!managed_hear_moves(cluster->bus, buffer_bytes(&text)))
        log_write(cluster->log, LOG_LEVEL_WARNING, "What the primary says of slots that have moved can't be read");
    buffer_release(&text);
}

/* A node that becomes a primary first learns what the stream had said at its end. */
static void tell_replicas(struct cluster *cluster)
{
    const struct members *members = cluster->bus->members;
    struct slots slots = members->unwanted;

    if (cluster->is_managed) {
        tell_moves(cluster);
        return;
    }
    if (!(members->myself->flags & NODE_MASTER) || cluster->bus->outcome.role == BUS_ROLE_LEAD)
        return;
    slots_add_all(&slots, &members->handed_over);
    mutex_lock(&cluster->foreign_lock);
    if (!slots_equal(&cluster->foreign, &slots)) {
        cluster->foreign = slots;
        cluster->hooks.say_foreign(cluster->hooks.context, &slots);
    }
    mutex_unlock(&cluster->foreign_lock);
}

static void update_server(struct cluster *cluster)
{
    const struct cluster_hooks *hooks = &cluster->hooks;
    const struct bus_outcome *outcome = &cluster->bus->outcome;
    bool holds_writes = cluster->bus->hold_writes_until_ms != 0;

    change_role(cluster);
    if (outcome->role == BUS_ROLE_LEAD && cluster->has_heard) {
        hear_moves(cluster);                                    /* at the end of the stream */
        save_if_due(cluster, BY_COMMAND);
    }
    tell_replicas(cluster);
    if (outcome->topology_changed || cluster->refuses)
        publish_topology(cluster);
    cluster->refuses = false;
    if (slots_count(&outcome->lost) > 0)
        hooks->slots_lost(hooks->context, &outcome->lost);
    if (holds_writes != cluster->holds_writes)
        hooks->hold_writes(hooks->context, holds_writes);
    cluster->holds_writes = holds_writes;
}

/* Messages for subscribers are delivered here, all else is an order for the thread. Without `sends` messages to nodes are dropped. */
static void give_orders(struct cluster *cluster, bool sends)
{
    const struct cluster_hooks *hooks = &cluster->hooks;
    const struct bus_outcome *outcome = &cluster->bus->outcome;
    size_t begin = cluster->orders.bytes.size;
    bool has_bytes = false;

    for (unsigned i = 0; i < outcome->action_count; i++) {
        struct bus_action action = outcome->actions[i];

        if (action.kind == BUS_DELIVER) {
            hooks->deliver(hooks->context, bytes_of(outcome->bytes.data + action.begin, action.size),
                bytes_of(outcome->bytes.data + action.text_begin, action.text_size), action.is_shard);
        } else if (action.kind != BUS_SEND || sends) {
            has_bytes |= action.kind == BUS_SEND;
            action.begin += begin;
            bus_orders_add(&cluster->orders, &action);
        } else {
            cluster->has_lost = true;
        }
    }
    if (has_bytes)
        buffer_append_bytes(&cluster->orders.bytes, buffer_bytes(&outcome->bytes));
}

static void log_lines(struct cluster *cluster)
{
    struct bytes rest = buffer_bytes(&cluster->bus->outcome.log);

    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t size = end != NULL ? (size_t)(end - rest.data) : rest.size;

        log_write(cluster->log, LOG_LEVEL_NOTICE, "%.*s", (int)size, rest.data);
        size += end != NULL;
        rest = bytes_of(rest.data + size, rest.size - size);
    }
}

/* After a time of silence: a message that is lost on a connection that stays would be waited for for ever, such as the reply to a PING. */
static void close_all_if_lost(struct cluster *cluster)
{
    cluster->orders.closes_all |= cluster->has_lost;
    cluster->has_lost = false;
}

/* A promise that could not be saved stays in the outcome, with all that depends on it. Fails if this event's changes do. A controller's orders are carried out
 * all the same, because a node that goes on as a primary because its disk is full does more harm; they are no promises to other nodes. */
static enum status carry_out(struct cluster *cluster, enum occasion occasion)
{
    struct bus_outcome *outcome = &cluster->bus->outcome;
    bool has_changed = outcome->has_changed, waits;

    log_lines(cluster);
    outcome->log.size = 0;
    save_if_due(cluster, occasion);
    waits = outcome->has_promised && !cluster->is_managed;
    if (!cluster->stopped && waits)
        refuse_requests(cluster);
    else if (!cluster->stopped)
        update_server(cluster);
    if (!cluster->stopped)
        give_orders(cluster, !waits);
    if (!waits && cluster->is_alive)
        close_all_if_lost(cluster);
    if (!waits) {
        bus_outcome_clear(cluster->bus);
        return has_changed && cluster->is_unsaved ? STATUS_IO : STATUS_OK;
    }
    outcome->action_count = 0;
    outcome->bytes.size = 0;
    return has_changed ? STATUS_IO : STATUS_OK;
}

/* --- Events of the net, on its thread */

static void learn_facts(struct cluster *cluster)
{
    struct bus_facts *facts = &cluster->bus->facts;

    if (!cluster->stopped)
        cluster->hooks.facts(cluster->hooks.context, facts);
    facts->links_over_limit = bus_net_over_limit(cluster->net);
    mutex_lock(&cluster->foreign_lock);
    facts->foreign = cluster->foreign;
    mutex_unlock(&cluster->foreign_lock);
}

static void begin_event(struct cluster *cluster) UNCHECKED_LOCKS;
static void begin_event(struct cluster *cluster)
{
    mutex_lock(&cluster->lock);
    learn_facts(cluster);
    if (!cluster->is_managed || cluster->stopped)
        return;
    hear_moves(cluster);
    managed_step(cluster->bus, clock_wall_ms());
}

static void end_event(struct cluster *cluster, enum occasion occasion) UNCHECKED_LOCKS;
static void end_event(struct cluster *cluster, enum occasion occasion)
{
    (void)carry_out(cluster, occasion);         /* a failure was logged, and waits for the next tick */
    mutex_unlock(&cluster->lock);
}

static uint64_t on_accepted(void *context)
{
    struct cluster *cluster = context;
    bool is_refused;
    uint64_t link;

    begin_event(cluster);
    link = bus_new_link(cluster->bus);
    bus_link_accepted(cluster->bus, link, &is_refused);
    end_event(cluster, BY_MESSAGE);
    return is_refused ? 0 : link;
}

static void on_opened(void *context, uint64_t link)
{
    struct cluster *cluster = context;

    begin_event(cluster);
    bus_link_opened(cluster->bus, link, clock_wall_ms());
    end_event(cluster, BY_MESSAGE);
}

static void on_closed(void *context, uint64_t link)
{
    struct cluster *cluster = context;

    begin_event(cluster);
    bus_link_closed(cluster->bus, link);
    end_event(cluster, BY_MESSAGE);
}

static size_t link_size_max(void *context, uint64_t link)
{
    struct cluster *cluster = context;
    size_t size_max;

    mutex_lock(&cluster->lock);
    size_max = bus_link_size_max(cluster->bus, link);
    mutex_unlock(&cluster->lock);
    return size_max;
}

static void on_received(void *context, uint64_t link, const struct bus_message *message, const char *from_ip, const char *own_ip)
{
    struct cluster *cluster = context;

    if (message->type == cluster->dropped_type)
        return;
    begin_event(cluster);
    cluster->has_lost |= !cluster->is_alive;
    if (cluster->is_alive && !cluster->stopped)
        bus_received(cluster->bus, link, message, from_ip, own_ip, clock_wall_ms());
    end_event(cluster, BY_MESSAGE);
}

/* A replica is shown to clients once it has data. */
static void note_offsets(struct cluster *cluster)
{
    const struct topology *topology = cluster->topology;
    const struct members *members = cluster->bus->members;
    int at = 0;

    for (unsigned i = 0; i < members->count && at < topology->count; i++) {
        if (!node_id_equal(&topology->nodes[at].id, &members->all[i]->id))
            continue;                   /* in a handshake, or new: then the topology changes anyway */
        if ((topology->nodes[at++].offset == 0) != (members->all[i]->offset == 0))
            cluster->bus->outcome.topology_changed = true;
    }
}

static void check_workers(struct cluster *cluster)
{
    bool is_alive = cluster->hooks.is_alive(cluster->hooks.context);

    if (is_alive != cluster->is_alive)
        log_write(cluster->log, LOG_LEVEL_WARNING, is_alive ? "The cluster bus goes on" :
            "The cluster bus is silent, because a worker has not ended a turn for half of cluster-node-timeout");
    cluster->is_alive = is_alive;
}

static void on_tick(void *context)
{
    struct cluster *cluster = context;

    begin_event(cluster);
    if (!cluster->stopped)
        check_workers(cluster);
    if (cluster->is_alive && !cluster->stopped)
        bus_tick(cluster->bus, clock_wall_ms());
    note_offsets(cluster);
    end_event(cluster, BY_TICK);
}

static void apply_options(struct cluster *cluster, const struct bus_inbox_list *list)
{
    if (list->has_options) {
        bus_set_options(cluster->bus, &list->options);
        if (cluster->is_managed)
            managed_refresh(cluster->bus);
        cluster->limits.timeout_ms = list->options.timeout_ms;
        cluster->limits.is_tls = list->options.is_tls;
    }
    if (list->has_queue_max)
        cluster->limits.queue_max = list->queue_max;
    bus_net_set_limits(cluster->net, &cluster->limits);
}

/* The cluster is locked, and an event has begun. */
static void read_inbox(struct cluster *cluster)
{
    struct bytes channel, text;
    struct bus_inbox_list list;
    size_t at = 0;
    bool is_shard;

    if (bus_inbox_take(&cluster->inbox, &list)) {
        apply_options(cluster, &list);
        while (bus_inbox_next(&list, &at, &channel, &text, &is_shard))
            bus_publish(cluster->bus, channel, text, is_shard);
    }
    bus_inbox_clear(&list);
}

static bool take_orders(void *context, struct bus_orders *orders)
{
    struct cluster *cluster = context;
    struct bus_orders taken;

    if (bus_inbox_has_any(&cluster->inbox)) {
        begin_event(cluster);
        read_inbox(cluster);
        end_event(cluster, BY_MESSAGE);
    }
    mutex_lock(&cluster->lock);
    taken = cluster->orders;
    cluster->orders = *orders;
    mutex_unlock(&cluster->lock);
    *orders = taken;
    return taken.count > 0 || taken.closes_all;
}

static struct tls_context *hold_tls(void *context)
{
    const struct cluster *cluster = context;

    return cluster->hooks.hold_tls(cluster->hooks.context);
}

/* --- Begin and end */

static char **copy_words(const char *const *words)
{
    int count = 0;
    char **copy;

    while (words[count] != NULL)
        count++;
    copy = mem_zalloc((size_t)(count + 1) * sizeof(char *));
    for (int i = 0; i < count; i++)
        copy[i] = mem_string(bytes_of_string(words[i]));
    return copy;
}

static void free_words(char **words)
{
    for (int i = 0; words[i] != NULL; i++)
        mem_free(words[i]);
    mem_free(words);
}

/* NULL: the text is damaged. An empty one is that of a new node. */
static struct members *read_members(struct bytes text, const struct cluster_config *config, struct random *random, struct message *message)
{
    enum nodes_file_port port = config->options.is_tls ? NODES_FILE_PORT_TLS : NODES_FILE_PORT_PLAIN;
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct message reason = { "" };
    struct members *members = NULL;
    enum status status = nodes_file_read(text, port, file, &reason);

    if (status == STATUS_NOT_FOUND) {
        members = members_create(random);
    } else if (status == STATUS_OK) {
        members = members_create_from(file, clock_wall_ms(), random);
        nodes_file_release(file);
    } else {
        message_set(message, "The cluster configuration file %.100s is damaged: %s", config->nodes_path, reason.text);
    }
    mem_free(file);
    return members;
}

static struct cluster *create_empty(const struct cluster_config *config, const struct cluster_hooks *hooks)
{
    struct cluster *cluster = mem_zalloc(sizeof(*cluster));

    cluster->hooks = *hooks;
    cluster->log = config->log;
    cluster->meter = config->meter;
    cluster->bind = copy_words(config->bind);
    cluster->bind_source = mem_string(bytes_of_string(config->bind_source != NULL ? config->bind_source : ""));
    cluster->backlog = config->backlog;
    cluster->is_managed = config->options.is_managed;
    cluster->port = config->port != 0 ? config->port : config->options.bus_port;
    cluster->dropped_type = -1;
    bus_inbox_init(&cluster->inbox);
    cluster->limits = (struct bus_net_limits){ config->link_buffer_max, config->options.timeout_ms, config->options.is_tls };
    cluster->is_alive = true;
    mutex_init(&cluster->lock);
    mutex_init(&cluster->topology_lock);
    mutex_init(&cluster->foreign_lock);
    return cluster;
}

static enum status create_net(struct cluster *cluster, struct message *message)
{
    const struct bus_net_hooks hooks = {
        .context = cluster, .accepted = on_accepted, .opened = on_opened, .closed = on_closed, .size_max = link_size_max, .received = on_received,
        .tick = on_tick, .take = take_orders, .hold_tls = hold_tls,
    };

    cluster->net = bus_net_create(&hooks, cluster->bind_source, cluster->log, message);
    if (cluster->net == NULL)
        return STATUS_IO;
    bus_net_set_limits(cluster->net, &cluster->limits);
    return STATUS_OK;
}

static enum status create_bus(struct cluster *cluster, const struct cluster_config *config, struct bytes text, struct message *message)
{
    struct members *members;
    struct random random;
    uint64_t seed;

    random_system(&seed, sizeof(seed));
    random_init(&random, seed);
    members = read_members(text, config, &random, message);
    if (members == NULL)
        return STATUS_CORRUPT;
    cluster->bus = bus_create(members, &config->options, random_next(&random), clock_wall_ms());
    if (cluster->is_managed)
        managed_refresh(cluster->bus);
    cluster->topology = new_topology(cluster);
    members_write_moves(members, &cluster->moves);
    if (text.size > 0)
        return STATUS_OK;
    members_write(members, &cluster->text);
    return nodes_store_save(cluster->store, buffer_bytes(&cluster->text), NODES_STORE_SYNCED, message);
}

enum status cluster_create(const struct cluster_config *config, const struct cluster_hooks *hooks, struct cluster **created, struct message *message)
{
    const struct disk *disk = config->disk != NULL ? config->disk : disk_system();
    struct cluster *cluster = create_empty(config, hooks);
    struct buffer text = { 0 };
    enum status status = nodes_store_open(disk, config->nodes_path, &cluster->store, &text, message);

    if (status == STATUS_OK)
        status = create_bus(cluster, config, buffer_bytes(&text), message);
    if (status == STATUS_OK)
        status = create_net(cluster, message);
    buffer_release(&text);
    if (status != STATUS_OK) {
        cluster_destroy(cluster);
        cluster = NULL;
    }
    *created = cluster;
    return status;
}

enum status cluster_start(struct cluster *cluster, struct message *message)
{
    enum status status;

    if (cluster->is_managed)
        return STATUS_OK;
    status = bus_net_listen(cluster->net, (const char *const *)cluster->bind, cluster->port, cluster->backlog, message);
    if (status == STATUS_OK)
        status = bus_net_start(cluster->net, cluster->meter, message);
    cluster->runs = status == STATUS_OK;
    return status;
}

void cluster_stop(struct cluster *cluster)
{
    cluster->runs = false;
    mutex_lock(&cluster->lock);
    cluster->stopped = true;
    (void)carry_out(cluster, BY_TICK);
    mutex_unlock(&cluster->lock);
    bus_net_stop(cluster->net);
}

void cluster_destroy(struct cluster *cluster)
{
    if (cluster == NULL)
        return;
    bus_net_destroy(cluster->net);
    if (cluster->bus != NULL)
        bus_destroy(cluster->bus);
    topology_release(cluster->topology);
    nodes_store_close(cluster->store);
    bus_orders_release(&cluster->orders);
    buffer_release(&cluster->text);
    buffer_release(&cluster->moves);
    free_words(cluster->bind);
    mem_free(cluster->bind_source);
    bus_inbox_release(&cluster->inbox);
    mutex_release(&cluster->lock);
    mutex_release(&cluster->topology_lock);
    mutex_release(&cluster->foreign_lock);
    mem_free(cluster);
}

/* --- Any thread */

struct bus *cluster_lock(struct cluster *cluster) UNCHECKED_LOCKS
{
    begin_event(cluster);
    read_inbox(cluster);                        /* a CONFIG SET before this command */
    return cluster->bus;
}

enum status cluster_unlock(struct cluster *cluster) UNCHECKED_LOCKS
{
    enum status status = carry_out(cluster, BY_COMMAND);

    if ((cluster->orders.count > 0 || cluster->orders.closes_all) && !cluster->stopped)
        bus_net_wake(cluster->net);
    mutex_unlock(&cluster->lock);
    return status;
}

static void wake_thread(struct cluster *cluster)
{
    if (cluster->runs)
        bus_net_wake(cluster->net);
}

void cluster_set_options(struct cluster *cluster, const struct bus_options *options)
{
    bus_inbox_set_options(&cluster->inbox, options);
    wake_thread(cluster);
}

void cluster_set_link_buffer_max(struct cluster *cluster, uint64_t bytes)
{
    bus_inbox_set_queue_max(&cluster->inbox, bytes);
    wake_thread(cluster);
}

void cluster_publish(struct cluster *cluster, struct bytes channel, struct bytes text, bool is_shard)
{
    bus_inbox_publish(&cluster->inbox, channel, text, is_shard);
    wake_thread(cluster);
}

void cluster_kill_link(struct cluster *cluster, uint64_t link)
{
    bus_link_closed(cluster->bus, link);
    bus_orders_add(&cluster->orders, &(struct bus_action){ .kind = BUS_CLOSE, .link = link });
}

void cluster_drop_messages(struct cluster *cluster, int type)
{
    cluster->dropped_type = type;
}

void cluster_hear_foreign(struct cluster *cluster, const struct slots *slots)
{
    mutex_lock(&cluster->foreign_lock);
    cluster->foreign = *slots;
    mutex_unlock(&cluster->foreign_lock);
}

void cluster_say_foreign(struct cluster *cluster)
{
    mutex_lock(&cluster->foreign_lock);
    if (cluster->is_managed)
        cluster->hooks.say_moves(cluster->hooks.context, buffer_bytes(&cluster->moves));
    else
        cluster->hooks.say_foreign(cluster->hooks.context, &cluster->foreign);
    mutex_unlock(&cluster->foreign_lock);
}

void cluster_hear_moves(struct cluster *cluster, struct bytes text)
{
    mutex_lock(&cluster->foreign_lock);
    cluster->moves.size = 0;
    buffer_append_bytes(&cluster->moves, text);
    cluster->has_heard = true;
    mutex_unlock(&cluster->foreign_lock);
}

struct topology *cluster_topology(struct cluster *cluster)
{
    struct topology *topology;

    mutex_lock(&cluster->topology_lock);
    topology = topology_keep(cluster->topology);
    mutex_unlock(&cluster->topology_lock);
    return topology;
}

struct cluster_totals cluster_totals(struct cluster *cluster)
{
    struct bus_net_totals totals;

    if (cluster == NULL)
        return (struct cluster_totals){ .link_count = 0 };
    totals = bus_net_totals(cluster->net);
    return (struct cluster_totals){ totals.buffer_bytes, bus_net_over_limit(cluster->net), totals.link_count };
}

bool cluster_link_queue(struct cluster *cluster, uint64_t link, uint64_t *allocated, uint64_t *used)
{
    return bus_net_queue(cluster->net, link, allocated, used);
}
