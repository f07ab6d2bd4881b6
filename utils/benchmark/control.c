#include "control.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "options.h"
#include "replies.h"

static const struct timeval connect_limit = { .tv_sec = 5 };
static const struct timeval reply_limit = { .tv_sec = 30 };

/* True if the reply is not an error. */
static bool succeeded(redisContext *context, redisReply *reply, const char *what, char *error, size_t error_size)
{
    bool fine = reply != NULL && reply->type != REDIS_REPLY_ERROR;

    if (!fine)
        snprintf(error, error_size, "%s: %s", what, reply ? reply->str : context->errstr);
    if (reply != NULL)
        freeReplyObject(reply);
    return fine;
}

static bool authenticate(redisContext *context, const struct options *options, char *error, size_t error_size)
{
    if (options->password == NULL)
        return true;
    return succeeded(context,
        options->user ? redisCommand(context, "AUTH %s %s", options->user, options->password)
                      : redisCommand(context, "AUTH %s", options->password),
        "AUTH", error, error_size);
}

static bool select_database(redisContext *context, const struct options *options, char *error, size_t error_size)
{
    if (options->dbnum == 0)
        return true;
    return succeeded(context, redisCommand(context, "SELECT %llu", (unsigned long long)options->dbnum), "SELECT", error,
        error_size);
}

/* The reply to HELLO 3 is a map, which hiredis 0.14 does not support; so it is read without hiredis' reader. */
static bool switch_to_resp3(redisContext *context, char *error, size_t error_size)
{
    static const char hello[] = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
    struct reply_scan scan = { 0 };
    char reply[4096];
    size_t size = 0;
    enum status status = STATUS_TRUNCATED;

    if (send(context->fd, hello, sizeof(hello) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(hello) - 1) {
        snprintf(error, error_size, "HELLO: %s", strerror(errno));
        return false;
    }
    while (status == STATUS_TRUNCATED && size < sizeof(reply)) {
        ssize_t got = recv(context->fd, reply + size, sizeof(reply) - size, 0);

        if (got <= 0) {
            snprintf(error, error_size, "HELLO: %s", got == 0 ? "the server closed the connection" : strerror(errno));
            return false;
        }
        size += (size_t)got;
        status = reply_scan(&scan, reply, size);
    }
    if (status == STATUS_OK && reply[0] != '-')
        return true;
    snprintf(error, error_size, "HELLO: %.*s", status == STATUS_OK ? (int)strcspn(reply, "\r") - 1 : 20,
        status == STATUS_OK ? reply + 1 : "the reply is invalid");
    return false;
}

struct redisContext *control_open(const struct options *options, enum protocol protocol, char *error,
    size_t error_size)
{
    redisContext *context = options->socket
        ? redisConnectUnixWithTimeout(options->socket, connect_limit)
        : redisConnectWithTimeout(options->host, (int)options->port, connect_limit);

    if (context == NULL || context->err) {
        if (options->socket)
            snprintf(error, error_size, "can't connect to %s: %s", options->socket,
                context ? context->errstr : "out of memory");
        else
            snprintf(error, error_size, "can't connect to %s:%llu: %s", options->host,
                (unsigned long long)options->port, context ? context->errstr : "out of memory");
    } else if (redisSetTimeout(context, reply_limit) == REDIS_OK &&
               authenticate(context, options, error, error_size) &&
               select_database(context, options, error, error_size) &&
               (protocol == PROTOCOL_RESP2 || switch_to_resp3(context, error, error_size))) {
        return context;
    }
    if (context)
        redisFree(context);
    return NULL;
}

static void info_line(const char *name, size_t name_size, uint64_t value, struct server_info *info)
{
    const struct {
        const char *name;
        uint64_t *field;
        int is_tier;
    } fields[] = {
        { "keyspace_hits", &info->keyspace_hits, 0 },
        { "keyspace_misses", &info->keyspace_misses, 0 },
        { "evicted_keys", &info->evicted_keys, 0 },
        { "used_memory", &info->used_memory, 0 },
        { "used_memory_rss", &info->used_memory_rss, 0 },
        { "tier_hot_hits", &info->tier_hot_hits, 1 },
        { "tier_cold_hits", &info->tier_cold_hits, 1 },
        { "tier_misses", &info->tier_misses, 1 },
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (bytes_equal(bytes_of(name, name_size), bytes_of_string(fields[i].name))) {
            *fields[i].field = value;
            info->has_tier |= fields[i].is_tier;
        }
    }
}

enum status control_info(struct redisContext *context, struct server_info *info)
{
    redisReply *reply = redisCommand(context, "INFO");
    enum status status = STATUS_OK;

    *info = (struct server_info){ 0 };
    if (reply == NULL)
        return STATUS_IO;
    if (reply->type == REDIS_REPLY_STRING) {
        char *rest = reply->str, *line;

        while ((line = strsep(&rest, "\n")) != NULL) {
            size_t name_size = strcspn(line, ":");

            if (line[name_size] == ':')
                info_line(line, name_size, strtoull(line + name_size + 1, NULL, 10), info);
        }
    } else {
        status = STATUS_INVALID;
    }
    freeReplyObject(reply);
    return status;
}
