#include "server/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syslog.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "base/random.h"

static bool wants_systemd(struct config *config)
{
    int64_t supervised = config_number(config, CONFIG_SUPERVISED);

    return getenv("NOTIFY_SOCKET") != NULL && (supervised == CONFIG_SUPERVISED_SYSTEMD || supervised == CONFIG_SUPERVISED_AUTO);
}

static void become_daemon(void)
{
    int null;

    if (fork() != 0)
        exit(0);
    setsid();
    null = open("/dev/null", O_RDWR);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        if (null > STDERR_FILENO)
            close(null);
    }
}

bool process_enter(struct config *config, struct message *message)
{
    char *dir = config_string(config, CONFIG_DIR);
    bool good = chdir(dir) == 0;

    if (!good)
        message_set(message, "Can't chdir to '%.128s': %s", dir, strerror(errno));
    mem_free(dir);
    if (good && config_number(config, CONFIG_DAEMONIZE) && !wants_systemd(config))
        become_daemon();
    return good;
}

struct log *process_open_log(struct config *config)
{
    char *path = config_string(config, CONFIG_LOGFILE), *ident = config_string(config, CONFIG_SYSLOG_IDENT);
    int64_t facility = config_number(config, CONFIG_SYSLOG_FACILITY);
    int code = facility == CONFIG_FACILITY_USER ? LOG_USER : LOG_LOCAL0 + (int)((facility - CONFIG_FACILITY_LOCAL0) << 3);
    struct log *log = log_create(path, (enum log_level)config_number(config, CONFIG_LOGLEVEL),
        config_number(config, CONFIG_SYSLOG_ENABLED) ? ident : NULL, code);

    mem_free(path);
    mem_free(ident);
    return log;
}

char *process_write_pidfile(struct config *config)
{
    char *path = config_string(config, CONFIG_PIDFILE);
    FILE *file;

    if (path[0] == '\0' && config_number(config, CONFIG_DAEMONIZE)) {
        mem_free(path);
        path = mem_string(BYTES("/var/run/redis.pid"));
    }
    if (path[0] == '\0') {
        mem_free(path);
        return NULL;
    }
    file = fopen(path, "w");
    if (file == NULL) {
        mem_free(path);
        return NULL;
    }
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    return path;
}

void process_tell_supervisor(struct config *config, const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t size;
    int fd;

    if (!wants_systemd(config) || strlen(path) >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, strlen(path));
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';         /* the abstract namespace */
    size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0)
        perror("sd_notify");
    close(fd);
}

void process_make_id(char id[41])
{
    uint8_t bytes[20];

    random_system(bytes, sizeof(bytes));
    for (int i = 0; i < 20; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

void process_run_out(struct loop **loops, int loop_count, uv_handle_t **more)
{
    for (; *more != NULL; more++) {
        if ((*more)->loop != NULL && !uv_is_closing(*more))
            uv_close(*more, NULL);
    }
    for (int i = 0; i < loop_count; i++) {
        loop_stop(loops[i]);
        uv_run(&loops[i]->uv, UV_RUN_DEFAULT);
    }
}
