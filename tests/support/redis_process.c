#include "support/redis_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"

enum { ARGUMENTS_MAX = 40, TRIES = 2000, TRY_US = 10000 };

/* Starts redis-server or one of its tools, from the folder that all tests use (as tests/support/server.py): not what PATH has. */
static pid_t spawn(const char *const *arguments)
{
    const char *folder = getenv("KELVIN_REDIS");
    char path[PATH_MAX];
    pid_t pid;

    snprintf(path, sizeof(path), "%s/%s", folder == NULL || *folder == '\0' ? "/usr/bin" : folder, arguments[0]);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int null;

        prctl(PR_SET_PDEATHSIG, SIGKILL);           /* a test that fails leaves no server */
        null = open("/dev/null", O_RDWR);

        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execv(path, (char *const *)arguments);
        _exit(127);
    }
    return pid;
}

int redis_process_call(const char *const *arguments)
{
    int status = 0;

    CHECK(waitpid(spawn(arguments), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool redis_process_is_installed(void)
{
    return redis_process_call((const char *[]){ "redis-server", "--version", NULL }) == 0;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* Below those that the system gives to connections: one of these could be taken by any connection before a server listens on it. */
uint16_t redis_process_free_port(void)
{
    enum { FIRST = 20000, COUNT = 12000 };
    uint16_t random;
    uint16_t port;
    int error;

    do {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in at;

        random_system(&random, sizeof(random));
        port = (uint16_t)(FIRST + random % COUNT);
        at = loopback(port);
        error = bind(fd, (struct sockaddr *)&at, sizeof(at));
        CHECK(fd >= 0 && (error == 0 || errno == EADDRINUSE));
        close(fd);
    } while (error != 0);
    return port;
}

static void connect_to(struct redis_process *redis)
{
    struct sockaddr_in at = loopback(redis->port);

    for (int i = 0; i < TRIES; i++) {
        redis->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(redis->fd, (struct sockaddr *)&at, sizeof(at)) == 0)
            return;
        close(redis->fd);
        usleep(TRY_US);
    }
    CHECK(!"redis-server starts");
}

void redis_process_start(struct redis_process *redis, const char *const *options)
{
    const char *arguments[ARGUMENTS_MAX] = { "redis-server", "--save", "", "--port" };
    char port[8];
    int count = 4;

    redis->port = redis_process_free_port();
    snprintf(port, sizeof(port), "%u", redis->port);
    arguments[count++] = port;
    strcpy(redis->dir, "/tmp/kelvin-test-XXXXXX");
    CHECK(mkdtemp(redis->dir) != NULL);
    arguments[count++] = "--dir";
    arguments[count++] = redis->dir;
    for (; *options != NULL; options++) {
        CHECK(count < ARGUMENTS_MAX - 1);
        arguments[count++] = *options;
    }
    redis->pid = spawn(arguments);
    connect_to(redis);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    return remove(path);
}

void redis_process_stop(struct redis_process *redis)
{
    if (redis->pid == 0)
        return;
    close(redis->fd);
    kill(redis->pid, SIGKILL);
    waitpid(redis->pid, NULL, 0);
    nftw(redis->dir, remove_one, 10, FTW_DEPTH | FTW_PHYS);
    redis->pid = 0;
}

/* Reads until `size` bytes are there, from the begin of `reply`. */
static void read_up_to(struct redis_process *redis, size_t *got, size_t size)
{
    CHECK(size < REDIS_REPLY_MAX);
    while (*got < size) {
        ssize_t count = recv(redis->fd, redis->reply + *got, size - *got, 0);

        CHECK(count > 0);
        *got += (size_t)count;
    }
    redis->reply[*got] = '\0';
}

const char *redis_process_run(struct redis_process *redis, const char *line)
{
    size_t got = 0;
    char *end;
    int size = snprintf(redis->reply, REDIS_REPLY_MAX, "%s\r\n", line);

    CHECK(size < REDIS_REPLY_MAX && send(redis->fd, redis->reply, (size_t)size, MSG_NOSIGNAL) == size);
    do
        read_up_to(redis, &got, got + 1);
    while (redis->reply[got - 1] != '\n');
    if (redis->reply[0] == '$') {
        size_t contents = (size_t)atoi(redis->reply + 1);

        got = 0;
        read_up_to(redis, &got, contents + 2);
    }
    end = redis->reply + got - 2;
    *end = '\0';
    return redis->reply;
}

int64_t redis_process_info(struct redis_process *redis, const char *field)
{
    char name[100];
    const char *at;

    snprintf(name, sizeof(name), "\n%s:", field);
    at = strstr(redis_process_run(redis, "INFO replication"), name);
    CHECK(at != NULL);
    return strtoll(at + strlen(name), NULL, 10);
}
