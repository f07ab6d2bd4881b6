#include "server/examine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sockets.h"
#include "commands/users.h"
#include "lifecycle/opening.h"
#include "net/tls.h"
#include "server/families.h"

struct examination {
    struct config *config;
    examine_report *report;
    void *context;
};

static void report(struct examination *it, bool is_problem, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void report(struct examination *it, bool is_problem, const char *format, ...)
{
    struct message message = { "" };
    va_list arguments;

    va_start(arguments, format);
    message_set_args(&message, format, arguments);
    va_end(arguments);
    it->report(it->context, is_problem, message.text);
}

enum wanted { WANTED_DIRECTORY, WANTED_FILE };

/* Returns the directory of a path, which the caller frees. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return mem_string(BYTES("."));
    return mem_string(slash == path ? BYTES("/") : bytes_of(path, (size_t)(slash - path)));
}

/* A path of which the server writes the file, or the files in the directory; it makes it if it is not there, and with `replaces` it
 * exchanges it for a new one. */
static void examine_path(struct examination *it, enum config_id id, enum wanted wanted, bool replaces)
{
    char *path = config_string(it->config, id), *parent = parent_of(path);
    struct stat state;
    int mode = wanted == WANTED_DIRECTORY ? W_OK | X_OK : W_OK;

    if (path[0] == '\0') {
        ;
    } else if (stat(path, &state) != 0 && errno != ENOENT) {
        report(it, true, "%s '%.100s': %s", config_name(id), path, strerror(errno));
    } else if (access(path, F_OK) != 0) {
        if (access(parent, W_OK | X_OK) != 0)
            report(it, true, "%s '%.100s': it can't be created in '%.60s': %s", config_name(id), path, parent, strerror(errno));
    } else if (S_ISDIR(state.st_mode) != (wanted == WANTED_DIRECTORY)) {
        report(it, true, "%s '%.100s': it is %s directory", config_name(id), path, wanted == WANTED_DIRECTORY ? "no" : "a");
    } else if (access(replaces ? parent : path, replaces ? W_OK | X_OK : mode) != 0) {
        report(it, true, "%s '%.100s': it can't be written: %s", config_name(id), path, strerror(errno));
    }
    mem_free(parent);
    mem_free(path);
}

/* Data is in the working directory, so the rest of the paths starts from it. */
static void examine_directories(struct examination *it)
{
    char *dir = config_string(it->config, CONFIG_DIR), *backups = config_string(it->config, CONFIG_BACKUP_DIR);
    struct message message = { "" };

    if (chdir(dir) != 0) {
        report(it, true, "dir '%.100s': %s", dir, strerror(errno));
    } else {
        if (access(".", W_OK | X_OK) != 0)
            report(it, true, "dir '%.100s': it can't be written: %s", dir, strerror(errno));
        examine_path(it, CONFIG_TIER_DIR, WANTED_DIRECTORY, false);
        if (config_number(it->config, CONFIG_APPENDONLY))
            examine_path(it, CONFIG_APPENDDIRNAME, WANTED_DIRECTORY, false);
        if (backups[0] != '\0' && access(backups, W_OK | X_OK) != 0)
            report(it, false, "backup-dir '%.100s': %s", backups, strerror(errno));
        if (config_number(it->config, CONFIG_APPENDONLY) && !opening_log_fits(it->config, &message))
            report(it, true, "%s", message.text);
    }
    examine_path(it, CONFIG_LOGFILE, WANTED_FILE, false);
    examine_path(it, CONFIG_PIDFILE, WANTED_FILE, false);
    examine_path(it, CONFIG_UNIXSOCKET, WANTED_FILE, true);
    mem_free(backups);
    mem_free(dir);
}

/* The kernel's bound for ports of ordinary users. */
static int64_t port_min(void)
{
    FILE *file = geteuid() == 0 ? NULL : fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "r");
    int port = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &port) != 1)
        port = 0;
    fclose(file);
    return port;
}

/* Reports addresses of a list that this machine does not have. */
static void examine_bind(struct examination *it, enum config_id id)
{
    char *list = config_string(it->config, id), *rest = NULL;
    struct message message = { "" };

    for (char *word = strtok_r(list, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (word[0] != '-' && !sockets_has_address(word, &message))
            report(it, true, "%s%s", id == CONFIG_METRICS_BIND ? "metrics-" : "", message.text);
    }
    mem_free(list);
}

static void examine_addresses(struct examination *it)
{
    static const enum config_id ids[] = { CONFIG_PORT, CONFIG_TLS_PORT, CONFIG_METRICS_PORT };
    int64_t port = config_number(it->config, CONFIG_PORT), tls_port = config_number(it->config, CONFIG_TLS_PORT), least = port_min();
    int64_t metrics_port = config_number(it->config, CONFIG_METRICS_PORT);
    char *list = config_string(it->config, CONFIG_BIND), *socket = config_string(it->config, CONFIG_UNIXSOCKET);
    struct message message = { "" };

    if (socket[0] == '\0' && ((port == 0 && tls_port == 0) || list[0] == '\0'))
        report(it, true, "no client can connect: port, tls-port and unixsocket are off, or bind is empty");
    if (port != 0 && port == tls_port)
        report(it, true, "port and tls-port are both %" PRId64, port);
    if (metrics_port != 0 && (metrics_port == port || metrics_port == tls_port))
        report(it, true, "metrics-port and %s are both %" PRId64, metrics_port == port ? "port" : "tls-port", metrics_port);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        int64_t number = config_number(it->config, ids[i]);

        if (number != 0 && number < least)
            report(it, false, "%s %" PRId64 ": this user may bind ports from %" PRId64 " on only", config_name(ids[i]), number, least);
    }
    if (port != 0 || tls_port != 0)
        examine_bind(it, CONFIG_BIND);
    if (metrics_port != 0)
        examine_bind(it, CONFIG_METRICS_BIND);
    if (tls_is_used(it->config) && !tls_check(it->config, &message))
        report(it, true, "%s", message.text);
    mem_free(socket);
    mem_free(list);
}

static void examine_names(struct examination *it)
{
    struct command_table *commands = command_table_create(families_of_commands());
    struct message message = { "" };
    struct buffer error = { 0 };

    if (!families_rename(commands, it->config, &message))
        report(it, true, "%s", message.text);
    if (!users_check(it->config, commands, &error))
        report(it, true, "%.*s", (int)error.size, error.data);
    buffer_release(&error);
    command_table_destroy(commands);
}

static void note_unused(void *context, const char *name, struct bytes value)
{
    report(context, false, "%s %.*s: known, but does nothing in Kelvin", name, (int)value.size, value.data);
}

static void examine_sense(struct examination *it)
{
    int64_t limit = config_number(it->config, CONFIG_MAXMEMORY);
    char *points = config_string(it->config, CONFIG_SAVE);
    struct sysinfo machine;

    config_unused(it->config, note_unused, it);
    if (limit == 0)
        report(it, false, "maxmemory 0: memory has no limit, and no key is ever moved to the disk");
    if (sysinfo(&machine) == 0 && (uint64_t)limit > (uint64_t)machine.totalram * machine.mem_unit)
        report(it, false, "maxmemory %" PRId64 " is more than this machine has", limit);
    if (!config_number(it->config, CONFIG_APPENDONLY) && points[0] == '\0')
        report(it, false, "appendonly no, and no save points: the data does not survive the end of the process");
    mem_free(points);
}

void examine(struct config *config, examine_report *report_, void *context)
{
    struct examination it = { config, report_, context };

    examine_directories(&it);
    examine_addresses(&it);
    examine_names(&it);
    examine_sense(&it);
}
