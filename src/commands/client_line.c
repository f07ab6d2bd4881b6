/* The line of a client in CLIENT LIST and CLIENT INFO. The fields are those of Redis 7.2, in its order; fields about what Kelvin
 * does not have (transactions, reply lists) are zero. */
#include "commands/client_line.h"

#include "acl/acl.h"
#include "base/mem.h"
#include "call/command.h"
#include "engine/delivery.h"
#include "engine/tracking.h"
#include "engine/transaction.h"

enum { FLAGS_MAX = 16 };

static void flag_letters(char *letters, const struct client *client, uint64_t caller)
{
    uint32_t tracking = tracking_mode(client);
    char *next = letters;

    if (client->flags & CLIENT_MONITOR)
        *next++ = 'O';
    if (client->flags & CLIENT_SUBSCRIBED)
        *next++ = 'P';
    if (client->flags & CLIENT_MULTI)
        *next++ = 'x';
    if (client->parked && client->id != caller)
        *next++ = 'b';
    if (tracking & TRACKING_ON)
        *next++ = 't';
    if (tracking & TRACKING_BROKEN)
        *next++ = 'R';
    if (tracking & TRACKING_BCAST)
        *next++ = 'B';
    if (client->transaction != NULL && client->transaction->is_broken)
        *next++ = 'd';
    if (client->flags & CLIENT_CLOSE_AFTER_REPLY)
        *next++ = 'c';
    if (client->flags & CLIENT_CLOSE_NOW)
        *next++ = 'A';
    if (client->flags & CLIENT_UNIX_SOCKET)
        *next++ = 'U';
    if (client->flags & CLIENT_NO_EVICT)
        *next++ = 'e';
    if (client->flags & CLIENT_NO_TOUCH)
        *next++ = 'T';
    if (next == letters)
        *next++ = 'N';
    *next = '\0';
}

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : mem_size(text);
}

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static int64_t seconds_since(int64_t then_ms, int64_t now_ms)
{
    return now_ms > then_ms ? (now_ms - then_ms) / 1000 : 0;
}

void client_line(struct buffer *out, const struct client *client, uint64_t caller, int64_t now_ms)
{
    const struct buffer *replies = &client->reply.out;
    uint64_t query_free = client->query_room > client->query_size ? client->query_room - client->query_size : 0;
    size_t total = sizeof(*client) + client->query_size + query_free + client->arguments_size + replies->capacity +
        text_size(client->name) + text_size(client->lib_name) + text_size(client->lib_version) + text_size(client->address) +
        text_size(client->local_address) + tracking_memory(client);
    size_t queued = transaction_size(client);
    char flags[FLAGS_MAX];

    total += queued;
    flag_letters(flags, client, caller);
    buffer_append_format(out, "id=%llu addr=%s laddr=%s fd=%d name=%s age=%lld idle=%lld flags=%s db=%d",
        (unsigned long long)client->id, text_or_empty(client->address), text_or_empty(client->local_address), client->fd,
        text_or_empty(client->name), (long long)seconds_since(client->created_ms, now_ms),
        (long long)seconds_since(client->active_ms, now_ms), flags, client->db);
    buffer_append_format(out, " sub=%zu psub=%zu ssub=%zu multi=%d", delivery_count(client, TOPIC_CHANNEL),
        delivery_count(client, TOPIC_PATTERN), delivery_count(client, TOPIC_SHARD), transaction_count(client));
    buffer_append_format(out, " qbuf=%llu qbuf-free=%llu argv-mem=%llu multi-mem=%zu rbs=%zu rbp=%zu obl=%zu oll=0 omem=0 tot-mem=%zu",
        (unsigned long long)client->query_size, (unsigned long long)query_free, (unsigned long long)client->arguments_size, queued,
        replies->capacity, replies->size, replies->size, total);
    buffer_append_format(out, " events=%s cmd=%s user=", replies->size > 0 && client->id != caller ? "rw" : "r",
        client->last_command == NULL ? "NULL" : client->last_command->name);
    buffer_append_bytes(out, client->user == NULL ? BYTES("default") : acl_user_name(client->user));
    buffer_append_format(out, " redir=%lld resp=%d lib-name=%s lib-ver=%s\n",
        tracking_mode(client) & TRACKING_ON ? (long long)tracking_redirect(client) : -1, client->reply.protocol, text_or_empty(client->lib_name), text_or_empty(client->lib_version));
}
