#include "server/descriptors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/message.h"
#include "config/config.h"

enum {
    RESERVED_SERVER = 48,       /* standard streams, log file, addresses that are listened at, the AOF, files that are copied */
    RESERVED_SAVE = 144,        /* an image that is read for BGSAVE is a store of its own: its key runs, and what an older version has of LevelDB */
    RESERVED_STORE = 112,       /* key runs, those that are being written, and those that iterators hold although they were merged */
    RESERVED_LOOP = 8,          /* epoll, signals, bells */
    SEGMENTS_SHARE = 4,           /* clients leave this share to the store, ... */
    SEGMENTS_ENOUGH = 1024,       /* ... but not more than this */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void descriptors_divide(struct descriptors *descriptors, uint64_t limit, uint64_t clients_wanted, int loops)
{
    uint64_t rest, segments;

    descriptors->reserved = RESERVED_SERVER + RESERVED_SAVE + RESERVED_STORE + (uint64_t)loops * RESERVED_LOOP;
    rest = limit > descriptors->reserved ? limit - descriptors->reserved : 0;
    segments = smaller(rest / SEGMENTS_SHARE, SEGMENTS_ENOUGH);
    if (rest > clients_wanted && rest - clients_wanted > segments)
        segments = smaller(rest - clients_wanted, DESCRIPTORS_SEGMENTS_WANTED);
    if (segments < DESCRIPTORS_SEGMENTS_MIN)
        segments = DESCRIPTORS_SEGMENTS_MIN;
    descriptors->segments = segments;
    descriptors->clients = rest > segments ? smaller(rest - segments, clients_wanted) : 0;
}

/* As near to `wanted` as the system allows; returns what the limit is then. `*error` is why it is less, or 0. */
static uint64_t raise_limit(uint64_t wanted, int *error)
{
    struct rlimit limit;

    *error = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        *error = errno;
        return 1024;            /* what Redis assumes then */
    }
    if (limit.rlim_cur >= wanted)
        return limit.rlim_cur;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){ wanted, limit.rlim_max > wanted ? limit.rlim_max : wanted }) == 0)
        return wanted;
    *error = errno;
    if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &(struct rlimit){ limit.rlim_max, limit.rlim_max }) == 0)
        return limit.rlim_max;
    return limit.rlim_cur;
}

static bool set_maxclients(struct config *config, uint64_t count)
{
    struct bytes name = BYTES("maxclients"), value;
    char digits[24];
    struct message message;

    snprintf(digits, sizeof(digits), "%" PRIu64, count);
    value = bytes_of_string(digits);
    return config_set(config, &name, &value, 1, &message);
}

/* The lowest limit with which the server starts. */
static uint64_t least_limit(uint64_t clients_wanted, int loops)
{
    struct descriptors tried = { .clients = 0 };
    uint64_t limit = 0;

    while (tried.clients == 0)
        descriptors_divide(&tried, ++limit, clients_wanted, loops);
    return limit;
}

/* As far as the system allows without privileges: each 64 MiB of values in the store need a descriptor, and it is not known how many that will be. */
static void raise_to_the_hard_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max)
        (void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){ limit.rlim_max, limit.rlim_max });
}

bool descriptors_arrange(struct descriptors *descriptors, struct config *config, struct log *log)
{
    uint64_t wanted = (uint64_t)config_number(config, CONFIG_MAXCLIENTS), needed, limit;
    int loops = (int)config_number(config, CONFIG_IO_THREADS), error;

    descriptors->config = config;
    descriptors->log = log;
    descriptors_divide(descriptors, UINT64_MAX, wanted, loops);
    limit = raise_limit(descriptors->reserved + descriptors->segments + wanted, &error);
    descriptors_divide(descriptors, limit, wanted, loops);
    needed = descriptors->reserved + descriptors->segments + wanted;
    if (descriptors->clients >= wanted) {
        raise_to_the_hard_limit();
        return true;
    }
    if (descriptors->clients == 0) {
        log_write(log, LOG_LEVEL_WARNING, "Your current 'ulimit -n' of %" PRIu64 " is not enough for the server to start. "
            "Please increase your open file limit to at least %" PRIu64 ", or to %" PRIu64 " for maxclients %" PRIu64 ". Exiting.",
            limit, least_limit(wanted, loops), needed, wanted);
        return false;
    }
    log_write(log, LOG_LEVEL_WARNING, "You requested maxclients of %" PRIu64 " requiring at least %" PRIu64 " max file descriptors.", wanted,
        needed);
    log_write(log, LOG_LEVEL_WARNING, "Server can't set maximum open files to %" PRIu64 " because of OS error: %s.", needed, strerror(error));
    log_write(log, LOG_LEVEL_WARNING, "Current maximum open files is %" PRIu64 ". maxclients has been reduced to %" PRIu64
        " to compensate for low ulimit: the server keeps %" PRIu64 " for itself and %" PRIu64 " for files of the store. "
        "If you need higher maxclients increase 'ulimit -n'.", limit, descriptors->clients, descriptors->reserved, descriptors->segments);
    return set_maxclients(config, descriptors->clients);
}

/* The store keeps the files it was opened with. */
static bool maxclients_changed(void *context, enum config_id id, struct message *message)
{
    struct descriptors *descriptors = context;
    uint64_t wanted = (uint64_t)config_number(descriptors->config, id), taken = descriptors->reserved + descriptors->segments, limit;
    int error;

    limit = raise_limit(taken + wanted, &error);
    if (limit >= taken + wanted)
        return true;
    message_set(message, "The operating system is not able to handle the specified number of clients, try with %" PRIu64,
        limit > taken ? limit - taken : 1);
    return false;
}

void descriptors_watch(struct descriptors *descriptors)
{
    config_on_change(descriptors->config, CONFIG_MAXCLIENTS, maxclients_changed, descriptors);
}
