/* Redis process: a redis-server in a directory of its own, and a connection to it. For tests; what can't be done fails a CHECK.
 */
#ifndef KELVIN_TESTS_REDIS_PROCESS_H
#define KELVIN_TESTS_REDIS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { REDIS_REPLY_MAX = 16384 };

struct redis_process {
    pid_t pid;
    int fd;                             /* -1: no connection */
    uint16_t port;
    char dir[64];
    char reply[REDIS_REPLY_MAX];        /* the last one, ends with NUL */
};

/* False: redis-server is not installed. */
bool redis_process_is_installed(void);

/* `options` ends with NULL; for example "--tls-port", "7000". Waits until it accepts connections. */
void redis_process_start(struct redis_process *redis, const char *const *options);
void redis_process_stop(struct redis_process *redis);       /* also if it was stopped */

/* A port that was free. */
uint16_t redis_process_free_port(void);
/* Sends a line, and returns the reply: a status, an error or an integer without its end, or the contents of a string. */
const char *redis_process_run(struct redis_process *redis, const char *line);
/* The value of a field of INFO. */
int64_t redis_process_info(struct redis_process *redis, const char *field);
/* Runs redis-server or one of its tools, such as redis-check-rdb; returns its exit status. Its output goes to /dev/null. */
int redis_process_call(const char *const *arguments);

#endif
