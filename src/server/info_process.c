/* INFO's sections about the process and its connections: Server, Clients, Replication, CPU, Modules, Cluster. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/version.h"
#include "cluster/cluster.h"
#include "engine/blocking.h"
#include "engine/engine.h"
#include "engine/tracking.h"
#include "lifecycle/shutdown.h"
#include "replication/view.h"
#include "server/info_rows.h"

enum { LRU_CLOCK_MASK = 0xffffff };

/* The same build has the same id. */
static uint64_t build_id(void)
{
    struct hash_seed seed = { 0, 0 };

    return hash_bytes(&seed, BYTES(KELVIN_VERSION " " KELVIN_BUILD " " __VERSION__));
}

static const char *supervisor(const struct config *config)
{
    switch (config_number(config, CONFIG_SUPERVISED)) {
    case CONFIG_SUPERVISED_SYSTEMD:
        return "systemd";
    case CONFIG_SUPERVISED_UPSTART:
        return "upstart";
    case CONFIG_SUPERVISED_AUTO:
        if (getenv("UPSTART_JOB") != NULL)
            return "upstart";
        return getenv("NOTIFY_SOCKET") != NULL ? "systemd" : "no";
    default:
        return "no";
    }
}

/* "listener0:name=tcp,bind=127.0.0.1,port=6379", if the port is not 0. */
static void write_listener(struct buffer *out, struct config *config, enum config_id port, const char *name, int *number)
{
    char *bind = config_string(config, CONFIG_BIND);

    if (config_number(config, port) != 0) {
        buffer_append_format(out, "listener%d:name=%s", (*number)++, name);
        for (char *rest = bind, *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
            buffer_append_format(out, ",bind=%s", word);
        buffer_append_format(out, ",port=%" PRId64 "\r\n", config_number(config, port));
    }
    mem_free(bind);
}

static void write_listeners(struct buffer *out, struct config *config)
{
    char *path = config_string(config, CONFIG_UNIXSOCKET);
    int number = 0;

    write_listener(out, config, CONFIG_PORT, "tcp", &number);
    if (path[0] != '\0')
        buffer_append_format(out, "listener%d:name=unix,bind=%s\r\n", number++, path);
    write_listener(out, config, CONFIG_TLS_PORT, "tls", &number);
    mem_free(path);
}

void info_server(struct buffer *out, void *context)
{
    struct engine *engine = context;
    int64_t now_us = clock_wall_us(), up_s = (clock_mono_us() - engine->started_us) / 1000000;
    struct utsname name = { .sysname = "" };

    uname(&name);
    info_text(out, "redis_version", REDIS_VERSION);
    info_text(out, "server_name", "kelvin");
    info_text(out, "kelvin_version", KELVIN_VERSION);
    info_text(out, "redis_git_sha1", "00000000");
    info_number(out, "redis_git_dirty", 0);
    buffer_append_format(out, "redis_build_id:%" PRIx64 "\r\n", build_id());
    info_text(out, "redis_mode", engine->replication.cluster != NULL ? "cluster" : "standalone");
    buffer_append_format(out, "os:%s %s %s\r\n", name.sysname, name.release, name.machine);
    info_number(out, "arch_bits", (int64_t)sizeof(void *) * 8);
    info_text(out, "monotonic_clock", "POSIX clock_gettime");
    info_text(out, "multiplexing_api", "epoll");
    info_text(out, "atomicvar_api", "c11-builtin");
    buffer_append_format(out, "gcc_version:%d.%d.%d\r\n", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
    info_number(out, "process_id", getpid());
    info_text(out, "process_supervised", supervisor(engine->config));
    info_text(out, "run_id", engine->process.run_id);
    info_number(out, "tcp_port", config_number(engine->config, config_number(engine->config, CONFIG_PORT) != 0 ? CONFIG_PORT : CONFIG_TLS_PORT));
    info_number(out, "server_time_usec", now_us);
    info_number(out, "uptime_in_seconds", up_s);
    info_number(out, "uptime_in_days", up_s / (24 * 3600));
    info_number(out, "hz", config_number(engine->config, CONFIG_HZ));
    info_number(out, "configured_hz", config_number(engine->config, CONFIG_HZ));
    info_number(out, "lru_clock", now_us / 1000000 & LRU_CLOCK_MASK);
    info_text(out, "executable", engine->process.executable);
    info_text(out, "config_file", config_file(engine->config) != NULL ? config_file(engine->config) : "");
    info_number(out, "io_threads_active", engine->worker_count > 1);
    if (shutdown_left_ms(engine->lifecycle.shutdown) >= 0)
        info_number(out, "shutdown_in_milliseconds", shutdown_left_ms(engine->lifecycle.shutdown));
    write_listeners(out, engine->config);
}

void info_clients(struct buffer *out, void *context)
{
    struct engine *engine = context;
    struct blocking_stats waiting = blocking_stats(engine);
    uint64_t input_max = 0, output_max = 0;

    for (int i = 0; i < engine->worker_count; i++) {
        uint64_t input = engine->workers[i]->buffers.input_max, output = engine->workers[i]->buffers.output_max;

        input_max = input > input_max ? input : input_max;
        output_max = output > output_max ? output : output_max;
    }
    info_number(out, "connected_clients", view_client_count(engine));
    info_number(out, "cluster_connections", (int64_t)cluster_totals(engine->replication.cluster).link_count);
    info_number(out, "maxclients", config_number(engine->config, CONFIG_MAXCLIENTS));
    info_number(out, "client_recent_max_input_buffer", (int64_t)input_max);
    info_number(out, "client_recent_max_output_buffer", (int64_t)output_max);
    info_number(out, "blocked_clients", (int64_t)waiting.waiters + engine->clients.paused);
    info_number(out, "tracking_clients", (int64_t)tracking_count(engine).clients);
    info_number(out, "clients_in_timeout_table", (int64_t)waiting.with_deadline);
    info_number(out, "total_blocking_keys", (int64_t)waiting.keys);
    info_number(out, "total_blocking_keys_on_nokey", (int64_t)waiting.keys_woken_by_removal);
}

static void write_time(struct buffer *out, const char *name, struct timeval time)
{
    buffer_append_format(out, "%s:%ld.%06ld\r\n", name, (long)time.tv_sec, (long)time.tv_usec);
}

/* The kernel counts a thread's time in ticks; the main thread's number is the process's. False: it does not say. */
static bool main_thread_ticks(unsigned long *user, unsigned long *system)
{
    char path[64], line[1024];
    const char *after_name;
    FILE *file;
    size_t size;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    size = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[size] = '\0';
    after_name = strrchr(line, ')');
    return after_name != NULL &&
           sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", user, system) == 2;
}

void info_cpu(struct buffer *out, void *context)
{
    struct rusage self = { .ru_maxrss = 0 }, children = { .ru_maxrss = 0 };
    unsigned long user = 0, system = 0;
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);

    (void)context;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    write_time(out, "used_cpu_sys", self.ru_stime);
    write_time(out, "used_cpu_user", self.ru_utime);
    write_time(out, "used_cpu_sys_children", children.ru_stime);
    write_time(out, "used_cpu_user_children", children.ru_utime);
    if (main_thread_ticks(&user, &system)) {
        buffer_append_format(out, "used_cpu_sys_main_thread:%.6f\r\n", (double)system * tick);
        buffer_append_format(out, "used_cpu_user_main_thread:%.6f\r\n", (double)user * tick);
    }
}

/* Kelvin has none. */
void info_modules(struct buffer *out, void *context)
{
    (void)out;
    (void)context;
}

void info_cluster(struct buffer *out, void *context)
{
    const struct engine *engine = context;

    info_number(out, "cluster_enabled", engine->replication.cluster != NULL);
}
