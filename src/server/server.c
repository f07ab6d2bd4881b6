#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syslog.h>
#include <unistd.h>

#include <uv.h>

#include "acl/acl.h"
#include "acl/acl_log.h"
#include "base/clock.h"
#include "base/closer.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/thread.h"
#include "commands/client_line.h"
#include "commands/users.h"
#include "engine/blocking.h"
#include "engine/client_ids.h"
#include "engine/engine.h"
#include "engine/lazy_free.h"
#include "engine/memory.h"
#include "engine/own_expiry.h"
#include "engine/role.h"
#include "engine/running_scripts.h"
#include "engine/tracking.h"
#include "engine/watch.h"
#include "lifecycle/import.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/opening.h"
#include "lifecycle/provenance.h"
#include "lifecycle/replay.h"
#include "lifecycle/rewrite.h"
#include "lifecycle/shutdown.h"
#include "metrics/metrics.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls.h"
#include "script/registry.h"
#include "pubsub/hub.h"
#include "replication/failover.h"
#include "replication/follow.h"
#include "replication/migrate_cache.h"
#include "replication/primary.h"
#include "server/cluster_node.h"
#include "server/descriptors.h"
#include "server/families.h"
#include "server/greeting.h"
#include "server/hooks.h"
#include "server/info_rows.h"
#include "server/process.h"
#include "server/tier_rules.h"
#include "server/tuning.h"
#include "stats/error_stats.h"
#include "stats/latency.h"
#include "stats/hot_keys.h"
#include "stats/slowlog.h"
#include "stats/waits.h"

enum { JOB_THREADS = 2 };

/* The load of the data at the start, on a thread of its own. */
struct server_load {
    uv_async_t loaded;
    struct thread loader;
    struct opening opening;
    struct import_result imported;  /* of the dump, if that was loaded */
    struct message message;
    enum status status;
    int64_t began_us;
};

/* How the server is asked to end, by signals or from any thread. */
struct server_end {
    uv_signal_t on_term, on_int;
    uv_async_t ended;
    _Atomic int exit_status;
    _Atomic bool stopping;
};

struct server {
    struct engine engine;
    struct loop **loops;
    int loop_count;
    struct tls *tls;
    struct listener *listener;
    struct metrics *metrics;
    struct cluster_node *cluster_node;      /* NULL: cluster-enabled no */
    struct descriptors descriptors;
    struct server_load load;
    struct server_end end;
};

/* Without the end of the line. */
static void describe_client(struct buffer *out, const struct call *call)
{
    struct line_caller caller = line_caller_of(call);

    client_line(out, call->requester, &caller, call->turn->now_us);
    out->size--;
}

static void ring_worker(void *context, int worker)
{
    struct engine *engine = context;

    mailbox_ring(&engine->workers[worker]->mailbox);
}

/* Without a TLS port it is configured when it is asked for first, if CONFIG SET has changed tls-replication. */
static struct tls_context *hold_tls(void *context)
{
    struct server *server = context;
    struct tls_context *tls = server->tls != NULL ? tls_hold_context(server->tls) : NULL;

    if (tls == NULL && server->tls != NULL && tls_configure(server->tls))
        tls = tls_hold_context(server->tls);
    return tls;
}

static void make_engine(struct server *server, struct key_seed seed)
{
    struct engine *engine = &server->engine;
    struct config *config = engine->config;
    struct message message = { "" };

    engine->partitions = partitions_create((uint32_t)config_number(config, CONFIG_PARTITIONS), config_database_count(config), seed);
    engine->commands = command_table_create(families_of_commands());
    CHECK(families_rename(engine->commands, config, &message));      /* server_check has passed */
    engine->users.acl = acl_create(engine->commands);
    engine->users.log = acl_log_create();
    engine->users.describe_client = describe_client;
    engine->lazy_free = lazy_free_create();
    engine->jobs = job_pool_create(engine, JOB_THREADS);
    engine->watches = watch_table_create(engine);
    engine->blocking = blocking_create(engine);
    engine->own_expiry = own_expiry_create();
    engine->scripts = registry_create();
    engine->running_scripts = running_scripts_create();
    engine->reply_running_script = running_scripts_reply;
    engine->stats.slowlog = slowlog_create();
    engine->stats.hot_keys = hot_keys_create(&engine->partitions->seed.sip);
    engine->stats.latency = latency_create();
    engine->stats.errors = error_stats_create();
    engine->stats.waits = waits_create();
    lifecycle_create(engine);
    engine->replication.primary = primary_create(engine);
    engine->replication.follow = follow_create(engine, hold_tls, server);
    engine->replication.failover = failover_create(engine);
    engine->replication.migrate_cache = migrate_cache_create();
    engine->upper.cron = hook_cron;
    engine->upper.acknowledged = primary_acknowledged;
    engine->upper.ask_replicas = primary_ask;
    engine->upper.lagging = primary_lagging;
    engine->hooks = hooks_of_keys(engine);
    engine->debug.active_expire = true;
    engine->started_us = clock_mono_us();
    engine->last_save_ms = clock_wall_ms();
    server->tls = tls_create(config, engine->log);
    server->loop_count = (int)config_number(config, CONFIG_IO_THREADS);
    server->loops = mem_zalloc((size_t)server->loop_count * sizeof(*server->loops));
    engine->workers = mem_zalloc((size_t)server->loop_count * sizeof(*engine->workers));
    engine->worker_count = server->loop_count;
    engine->hub = hub_create(engine->worker_count, &engine->partitions->seed.sip, ring_worker, engine);
    engine->client_ids = client_ids_create();
    engine->tracking = tracking_create(engine);
    for (int i = 0; i < server->loop_count; i++) {
        server->loops[i] = loop_create(engine, i);
        server->loops[i]->tls = server->tls;
        engine->workers[i] = &server->loops[i]->worker;
    }
}

static void ask_to_end(struct server *server, int exit_status)
{
    if (atomic_exchange(&server->end.stopping, true))
        return;
    server->end.exit_status = exit_status;
    uv_async_send(&server->end.ended);
}

static void hook_end(void *context, int status)
{
    ask_to_end(context, status);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;

    shutdown_signal(server->engine.lifecycle.shutdown, number);
}

static void replay_main(void *context)
{
    struct server *server = context;

    if (server->engine.aof != NULL) {
        server->load.status = opening_convert(&server->load.opening, &server->load.message);
        if (server->load.status == STATUS_OK)
            server->load.status = replay_log(&server->engine, &server->load.message);
    } else {
        server->load.status = import_dump(&server->engine, server->load.opening.dump, &server->load.imported, &server->load.message);
    }
    uv_async_send(&server->load.loaded);
}

/* Where in a stream what was loaded is. False: it does not say. */
static bool recovered_point(const struct server *server, struct history_point *point)
{
    const struct import_position *position = &server->load.imported.position;

    if (server->engine.aof != NULL)
        return aof_recovered(server->engine.aof, point);
    history_point_make(point, position->repl_id, position->offset, position->db >= 0 ? (int)position->db : 0);
    return position->repl_id[0] != '\0';
}

/* A replica continues there, and a primary's replicas may. Before the log is started: that notes it. Without a log the backlog is open from here on:
 * a change that the history does not have would be missing in a replica that continues it. */
static void continue_history(struct server *server)
{
    struct engine *engine = &server->engine;
    struct history_point point;
    struct buffer host = { 0 };
    bool is_replica;
    int port;

    if (!recovered_point(server, &point) || engine->imported_in_part)
        return;
    is_replica = config_replicaof(engine->config, &host, &port);
    buffer_release(&host);
    if (point.db >= engine->partitions->db_count)
        point.db = 0;
    history_continue(&engine->history, &point);
    if (engine->aof == NULL) {
        partitions_lock_all(engine->partitions);
        primary_need_backlog(engine);
        partitions_unlock_all(engine->partitions);
    }
    if (!is_replica)
        history_new_id(&engine->history, true);
}

static void say_ready(struct server *server)
{
    struct engine *engine = &server->engine;
    char *path = config_string(engine->config, CONFIG_UNIXSOCKET);
    struct message message = { "" };

    follow_begin(engine->replication.follow);           /* no write comes before it */
    engine->state = ENGINE_READY;
    if (!cluster_node_start(server->cluster_node, &message)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
        mem_free(path);
        ask_to_end(server, 1);
        return;
    }
    if (engine->tier != NULL)
        tier_set_expiry(engine->tier, !role_is_replica(engine));        /* on a replica nothing is removed, and nothing gets into the stream */
    if (engine->tier != NULL && server->load.opening.image != NULL) {
        tier_release_merges(engine->tier);
        tier_warm_up(engine->tier, server->load.opening.image);
    }
    if (config_number(engine->config, CONFIG_PORT) != 0)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Ready to accept connections tcp");
    if (path[0] != '\0')
        log_write(engine->log, LOG_LEVEL_NOTICE, "Ready to accept connections unix");
    if (config_number(engine->config, CONFIG_TLS_PORT) != 0)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Ready to accept connections tls");
    mem_free(path);
    process_tell_supervisor(engine->config, "READY=1\nSTATUS=Ready to accept connections\n");
}

static void on_loaded(uv_async_t *handle)
{
    struct server *server = handle->data;
    struct engine *engine = &server->engine;
    struct message message = { "" };

    thread_join(&server->load.loader);
    if (!message_is_empty(&server->load.message))
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", server->load.message.text);
    if (server->end.stopping)
        return;
    if (server->load.status != STATUS_OK) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s can't be loaded (%s). %s", engine->aof != NULL ? "The AOF" : "The dump",
            status_name(server->load.status), engine->aof != NULL ? "Repair it, or start with aof-load-truncated yes if only its end is torn." :
            "Repair it, or move it to another place.");
        ask_to_end(server, 1);
        return;
    }
    if (!provenance_keep(engine)) {
        ask_to_end(server, 1);
        return;
    }
    continue_history(server);
    if (engine->aof != NULL && aof_start(engine->aof, &message) != STATUS_OK) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
        ask_to_end(server, 1);
        return;
    }
    log_write(engine->log, LOG_LEVEL_NOTICE, "DB loaded from %s: %.3f seconds", engine->aof != NULL ? "append only file" : "disk",
        (double)(clock_mono_us() - server->load.began_us) / 1e6);
    say_ready(server);
    /* Until that has ended the log's base is what was imported: as durable, but slow to load. */
    if (engine->aof != NULL && engine->tier != NULL && engine->imported_keys > 0)
        rewrite_start(engine->lifecycle.rewrite);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_ended(uv_async_t *handle)
{
    struct server *server = handle->data;

    server->engine.state = ENGINE_STOPPING;
    process_tell_supervisor(server->engine.config, "STOPPING=1\n");
    thread_join(&server->load.loader);
    listener_close(server->listener);
    close_handle((uv_handle_t *)&server->end.on_term);
    close_handle((uv_handle_t *)&server->end.on_int);
    close_handle((uv_handle_t *)&server->load.loaded);
    close_handle((uv_handle_t *)&server->end.ended);
    for (int i = 0; i < server->loop_count; i++)
        loop_stop(server->loops[i]);
}

static void watch_signals(struct server *server)
{
    uv_loop_t *uv = &server->loops[0]->uv;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    uv_signal_init(uv, &server->end.on_term);
    uv_signal_init(uv, &server->end.on_int);
    uv_async_init(uv, &server->load.loaded, on_loaded);
    uv_async_init(uv, &server->end.ended, on_ended);
    server->end.on_term.data = server->end.on_int.data = server->load.loaded.data = server->end.ended.data = server;
    uv_signal_start(&server->end.on_term, on_signal, SIGTERM);
    uv_signal_start(&server->end.on_int, on_signal, SIGINT);
}

/* Resident bytes that are not the allocator's: the program, its libraries, stacks. */
static uint64_t program_size(const struct engine *engine)
{
    uint64_t resident = meter_resident(), used = memory_used(engine);

    return resident > used ? resident - used : 0;
}

/* `error` is 0, or why the system gives no thread. */
static bool has_thread(const struct server *server, const char *of, int error)
{
    if (error != 0)
        log_write(server->engine.log, LOG_LEVEL_WARNING, "Can't start the thread of %s: %s", of, strerror(error));
    return error == 0;
}

/* False: the log says why, and the server ends. */
static bool start_threads(struct server *server)
{
    struct engine *engine = &server->engine;

    return has_thread(server, "the lazy free", lazy_free_start(engine->lazy_free, engine->meter, &engine->waiting)) &&
        has_thread(server, "jobs", job_pool_start(engine->jobs)) &&
        (engine->tier == NULL || has_thread(server, "the cold tier", tier_start(engine->tier, engine->partitions)));
}

/* Starts the threads of the other loops; the first one runs on the main thread. */
static bool start_loops(struct server *server)
{
    for (int i = 1; i < server->loop_count; i++) {
        if (!has_thread(server, "a worker", loop_start(server->loops[i])))
            return false;
    }
    return true;
}

static bool start_loading(struct server *server)
{
    server->engine.state = ENGINE_LOADING;
    server->load.began_us = clock_mono_us();
    return has_thread(server, "the replay", thread_start(&server->load.loader, "kelvin-replay", server->engine.meter, replay_main, server));
}

static void sweep(struct server *server)
{
    for (int i = 0; i < server->loop_count; i++)
        loop_sweep(server->loops[i]);
}

static void serve(struct server *server)
{
    bool good = start_loops(server);

    /* Redis' test suite waits for the PID, in these words, and then connects. */
    log_write(server->engine.log, LOG_LEVEL_NOTICE, "Running mode=%s, port=%d, PID: %d",
        server->cluster_node != NULL ? "cluster" : "standalone", (int)config_number(server->engine.config, CONFIG_PORT), (int)getpid());
    log_write(server->engine.log, LOG_LEVEL_NOTICE, "Server initialized");
    server->engine.memory.base = program_size(&server->engine);
    tuning_look_at_memory(&server->engine);
    if (good && (server->engine.aof != NULL || server->load.opening.dump != NULL))
        good = start_loading(server);
    else if (good)
        say_ready(server);
    if (!good)
        ask_to_end(server, 1);
    loop_run(server->loops[0]);
    for (int i = 1; i < server->loop_count; i++)
        loop_join(server->loops[i]);
    sweep(server);
}

/* In the opposite order of starting. */
static void take_down(struct server *server)
{
    struct engine *engine = &server->engine;

    metrics_stop(server->metrics);
    cluster_node_stop(server->cluster_node);
    failover_stop(engine->replication.failover);
    follow_stop(engine->replication.follow);
    sweep(server);                  /* the threads that ended now have left mail, such as the barrier of a load that was cancelled */
    lifecycle_stop(engine);
    job_pool_destroy(engine->jobs);
    cluster_node_destroy(server->cluster_node);
    primary_destroy(engine->replication.primary);
    failover_destroy(engine->replication.failover);
    migrate_cache_destroy(engine->replication.migrate_cache);
    follow_destroy(engine->replication.follow);
    if (engine->tier != NULL)
        tier_stop(engine->tier);
    lifecycle_destroy(engine);
    for (int i = 0; i < server->loop_count; i++)
        loop_destroy(server->loops[i]);
    tls_destroy(server->tls);
    blocking_destroy(engine->blocking);
    own_expiry_destroy(engine->own_expiry);
    watch_table_destroy(engine->watches);
    tracking_destroy(engine->tracking, server->loop_count);
    client_ids_destroy(engine->client_ids);
    hub_destroy(engine->hub);
    lazy_free_destroy(engine->lazy_free);
    running_scripts_destroy(engine->running_scripts);
    registry_destroy(engine->scripts);
    acl_destroy(engine->users.acl);
    acl_log_destroy(engine->users.log);
    tier_close(engine->tier);
    partitions_destroy(engine->partitions);
    command_table_destroy(engine->commands);
    info_stop(engine);
    slowlog_destroy(engine->stats.slowlog);
    hot_keys_destroy(engine->stats.hot_keys);
    latency_destroy(engine->stats.latency);
    error_stats_destroy(engine->stats.errors);
    waits_destroy(engine->stats.waits);
    mem_free(engine->workers);
    mem_free(server->loops);
}

static void open_sockets(struct server *server)
{
    struct engine *engine = &server->engine;
    struct message message = { "" };

    if (tls_is_used(engine->config) && !tls_configure(server->tls)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "Failed to configure TLS. Check logs for more info.");
        return;
    }
    server->metrics = metrics_start(engine, &message);
    if (server->metrics == NULL) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
        return;
    }
    server->listener = listener_open(server->loops[0], server->loops, server->loop_count, &message);
    if (server->listener == NULL) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
        log_write(engine->log, LOG_LEVEL_WARNING, "Failed listening on port %d (tcp), aborting.", (int)config_number(engine->config, CONFIG_PORT));
        return;
    }
    tls_watch_config(server->tls);
    listener_watch_config(server->listener);
}

static bool open_tier(struct server *server, struct key_seed *seed)
{
    struct opening_tier needs = {
        .write_buffer_size = tuning_write_buffer(server->engine.config),
        .descriptors_max = (int)server->descriptors.segments,
        .hooks = hooks_of_tier(&server->engine),
    };

    struct message message = { "" };

    if (!opening_tier(&server->load.opening, &needs, seed))
        return false;
    if (tier_rules_load(&server->engine, &message))
        return true;
    log_write(server->engine.log, LOG_LEVEL_WARNING, "%s", message.text);
    tier_close(server->engine.tier);
    return false;
}

static bool open_cluster_node(struct server *server)
{
    struct message message = { "" };
    bool is_good = cluster_node_create(&server->engine, hold_tls, server, &server->cluster_node, &message);

    if (!is_good)
        log_write(server->engine.log, LOG_LEVEL_WARNING, "%s", message.text);
    return is_good;
}

bool server_check(struct config *config, struct message *message)
{
    struct command_table *table = command_table_create(families_of_commands());
    bool good = families_rename(table, config, message);

    command_table_destroy(table);
    return good;
}

int server_run(struct config *config, const char *executable, const char *restore)
{
    struct server *server = mem_zalloc(sizeof(*server));
    struct engine *engine = &server->engine;
    struct key_seed seed;
    char *pidfile;
    struct message message = { "" };
    int exit_status = 1;

    server->load.opening.engine = engine;
    engine->config = config;
    engine->process.executable = mem_string(bytes_of_string(executable));
    if (!process_enter(config, &message)) {
        fprintf(stderr, "%s\n", message.text);
        goto out;
    }
    engine->log = process_open_log(config);
    engine->meter = meter_create();
    meter_join(engine->meter);
    engine->closer = closer_create(engine->meter);
    engine->process.end = hook_end;
    engine->process.end_context = server;
    process_make_id(engine->process.run_id);
    history_init(&engine->history);
    greeting_log(engine);
    if (!descriptors_arrange(&server->descriptors, config, engine->log))
        goto out;
    if (!opening_check_places(engine) || (restore != NULL && !opening_restore_backup(engine, restore)) || !opening_log(&server->load.opening) || !provenance_check(engine) ||
        !open_tier(server, &seed)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The data can't be opened. PID: %d", (int)getpid());
        aof_close(engine->aof);
        goto out;
    }
    make_engine(server, seed);
    tuning_apply(engine);
    descriptors_watch(&server->descriptors);
    info_start(engine);
    if (open_cluster_node(server) && start_threads(server) && users_load(engine) && opening_restore_image(&server->load.opening)) {
        watch_signals(server);
        open_sockets(server);
    }
    if (server->listener != NULL) {
        pidfile = process_write_pidfile(config);
        serve(server);
        exit_status = server->end.exit_status;
        if (pidfile != NULL)
            unlink(pidfile);
        mem_free(pidfile);
        listener_destroy(server->listener);
    } else {
        process_run_out(server->loops, server->loop_count, (uv_handle_t *[]){ (uv_handle_t *)&server->end.on_term, (uv_handle_t *)&server->end.on_int,
            (uv_handle_t *)&server->load.loaded, (uv_handle_t *)&server->end.ended, NULL });
    }
    take_down(server);
    log_write(engine->log, LOG_LEVEL_WARNING, "Kelvin is now ready to exit, bye bye...");
out:
    if (engine->log != NULL)
        history_release(&engine->history);
    closer_destroy(engine->closer);
    if (engine->meter != NULL)
        meter_release(engine->meter);
    log_destroy(engine->log);
    opening_release(&server->load.opening);
    mem_free(engine->process.executable);
    config_destroy(config);
    mem_free(server);
    return exit_status;
}
