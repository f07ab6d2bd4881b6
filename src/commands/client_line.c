/* The line of a client in CLIENT LIST and CLIENT INFO. The fields are those of Redis 7.2, in its order. */
#include "commands/client_line.h"

#include "acl/acl.h"
#include "base/text.h"
#include "call/command.h"
#include "engine/delivery.h"
#include "engine/tracking.h"
#include "engine/transaction.h"

enum { FLAGS_MAX = 16 };

static void flag_letters(char *letters, const struct client *client, uint64_t caller)
{
    uint32_t tracking = tracking_mode(client);
    char *next = letters;

    if (client->flags & CLIENT_PRIMARY)
        *next++ = 'M';
    if (client->flags & CLIENT_REPLICA)
        *next++ = 'S';
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
    if (client->flags & CLIENT_READONLY_SLOTS)
        *next++ = 'r';
    if (client->flags & CLIENT_NO_EVICT)
        *next++ = 'e';
    if (client->flags & CLIENT_NO_TOUCH)
        *next++ = 'T';
    if (next == letters)
        *next++ = 'N';
    *next = '\0';
}

static const char *text_or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static int64_t seconds_since(int64_t then_us, int64_t now_us)
{
    return now_us > then_us ? (now_us - then_us) / 1000000 : 0;
}

static size_t header_size(size_t number)
{
    char digits[TEXT_INT_SIZE];

    return 3 + (size_t)text_of_int((int64_t)number, digits);       /* the type, and the line's end */
}

struct line_caller line_caller_of(const struct call *call)
{
    struct line_caller caller = { .id = call->client->id, .request_size = header_size((size_t)call->arg_count) };

    for (int i = 0; i < call->arg_count; i++) {
        caller.arguments_size += call->args[i].size;
        caller.request_size += header_size(call->args[i].size) + call->args[i].size + 2;
    }
    return caller;
}

static void append_identity(struct buffer *out, const struct client *client, const struct line_caller *caller, int64_t now_us)
{
    char flags[FLAGS_MAX];

    flag_letters(flags, client, caller->id);
    buffer_append_format(out, "id=%llu addr=%s laddr=%s fd=%d name=%s age=%lld idle=%lld flags=%s db=%d",
        (unsigned long long)client->id, text_or_empty(client->address), text_or_empty(client->local_address), client->fd,
        text_or_empty(client->names.name), (long long)seconds_since(client->created_us, now_us),
        (long long)seconds_since(client->active_us, now_us), flags, client->db);
    buffer_append_format(out, " sub=%zu psub=%zu ssub=%zu multi=%d", delivery_count(client, TOPIC_CHANNEL),
        delivery_count(client, TOPIC_PATTERN), delivery_count(client, TOPIC_SHARD), transaction_count(client));
}

/* rbs, rbp, obl: replies that were not given to the socket yet; oll, omem: those that it does not take. */
static void append_memory(struct buffer *out, const struct client *client, const struct line_caller *caller)
{
    const struct buffer *replies = &client->reply.out;
    bool is_caller = client->id == caller->id;
    uint64_t query_size = client->buffers.query_size, arguments_size = client->buffers.arguments_size;
    uint64_t query_free = client->buffers.query_room > query_size ? client->buffers.query_room - query_size : 0;

    if (is_caller && query_size < caller->request_size)
        query_size = caller->request_size;
    if (is_caller && arguments_size < caller->arguments_size)
        arguments_size = caller->arguments_size;
    buffer_append_format(out, " qbuf=%llu qbuf-free=%llu argv-mem=%llu multi-mem=%zu rbs=%zu rbp=%llu obl=%zu oll=%llu omem=%llu tot-mem=%llu",
        (unsigned long long)query_size, (unsigned long long)query_free, (unsigned long long)arguments_size, transaction_size(client),
        replies->capacity, (unsigned long long)client->buffers.reply_peak, is_caller ? 0 : replies->size, (unsigned long long)client->buffers.output_parts,
        (unsigned long long)client->buffers.output_memory, (unsigned long long)client->size.all);
}

void client_line(struct buffer *out, const struct client *client, const struct line_caller *caller, int64_t now_us)
{
    bool is_written = client->buffers.output_parts > 0 || (client->reply.out.size > 0 && client->id != caller->id);

    append_identity(out, client, caller, now_us);
    append_memory(out, client, caller);
    buffer_append_format(out, " events=%s cmd=%s user=", is_written ? "rw" : "r",
        client->last_command == NULL ? "NULL" : client->last_command->name);
    if (client->flags & CLIENT_PRIMARY)
        buffer_append_string(out, "(superuser)");
    else
        buffer_append_bytes(out, client->user == NULL ? BYTES("default") : acl_user_name(client->user));
    buffer_append_format(out, " redir=%lld resp=%d lib-name=%s lib-ver=%s\n",
        tracking_mode(client) & TRACKING_ON ? (long long)tracking_redirect(client) : -1, client->reply.protocol,
        text_or_empty(client->names.lib_name), text_or_empty(client->names.lib_version));
}
