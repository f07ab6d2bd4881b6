#include "net/gather.h"

#include "net/connection_private.h"

/* "$16\r\n" at `at`. Returns the address after it, NULL: something else is there. */
static const char *read_length(const char *at, const char *end, char type, size_t *length)
{
    *length = 0;
    if (at == end || *at++ != type)
        return NULL;
    for (; at < end && *at >= '0' && *at <= '9' && *length < GATHER_SIZE; at++)
        *length = *length * 10 + (size_t)(*at - '0');
    return end - at >= 2 && *at == '\r' ? at + 2 : NULL;
}

/* The first argument after the command's name. Only a guess of what the parser will find: the hint is used if that is the same bytes. */
static struct bytes guess_key(const char *data, size_t size)
{
    const char *end = data + size, *at;
    size_t count, length;

    at = read_length(data, end, '*', &count);
    if (at == NULL || count < 2)
        return bytes_of(NULL, 0);
    at = read_length(at, end, '$', &length);
    if (at == NULL || (size_t)(end - at) < length + 2)
        return bytes_of(NULL, 0);
    at = read_length(at + length + 2, end, '$', &length);
    if (at == NULL || (size_t)(end - at) < length)
        return bytes_of(NULL, 0);
    return bytes_of(at, length);
}

bool gather_add(struct loop *loop, struct connection *connection, const char *data, size_t size)
{
    struct gather *gather = &loop->gather;
    int index = gather->count;

    if (size > GATHER_SIZE || gather->running)
        return false;
    memcpy(gather->data[index], data, size);
    gather->sizes[index] = size;
    gather->connections[index] = connection;
    gather->hints[index] = (struct request_hint){ .key = guess_key(gather->data[index], size), .db = connection->client.db };
    connection->gathered = true;
    if (++gather->count == GATHER_COUNT)
        gather_run(loop);
    return true;
}

void gather_run(struct loop *loop)
{
    struct gather *gather = &loop->gather;

    if (gather->count == 0 || gather->running)
        return;
    gather->running = true;
    if (gather->count > 1)
        prefetch_requests(loop->engine, gather->hints, gather->count);
    for (int i = 0; i < gather->count; i++) {
        struct connection *connection = gather->connections[i];

        connection->gathered = false;
        if (!connection->closing)
            connection_run_gathered(connection, gather->data[i], gather->sizes[i], gather->count > 1 ? &gather->hints[i] : NULL);
    }
    gather->count = 0;
    gather->running = false;
}
