#include "engine/monitor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "call/secrets.h"
#include "engine/engine.h"
#include "engine/worker.h"

void monitor_begin(struct client *client)
{
    struct worker *worker = client->worker;

    if (client->flags & CLIENT_MONITOR)
        return;
    client->flags |= CLIENT_MONITOR;
    worker->monitor_count++;
    worker->engine->monitor_count++;
}

void monitor_end(struct client *client)
{
    struct worker *worker = client->worker;

    if (!(client->flags & CLIENT_MONITOR))
        return;
    client->flags &= ~(uint32_t)CLIENT_MONITOR;
    worker->monitor_count--;
    worker->engine->monitor_count--;
}

/* To all monitors of this worker. */
static void hand_out(struct worker *worker, struct bytes line)
{
    struct client *next;

    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;
        if (!(client->flags & CLIENT_MONITOR))
            continue;
        buffer_append_bytes(&client->reply.out, line);
        worker->output_came(client);
    }
}

struct line_message {
    struct mail message;
    size_t size;
    char line[];
};

static void run_message(struct mail *message, struct worker *worker)
{
    struct line_message *mail = (struct line_message *)message;

    hand_out(worker, bytes_of(mail->line, mail->size));
    mem_free(mail);
}

static void post(struct worker *worker, struct bytes line)
{
    struct line_message *mail = mem_alloc(sizeof(*mail) + line.size);

    mail->message.run = run_message;
    mail->size = line.size;
    memcpy(mail->line, line.data, line.size);
    worker_post(worker, &mail->message);
}

static void append_quoted(struct buffer *text, struct bytes word)
{
    static const char escaped[] = "\n\r\t\a\b\"\\", letters[] = "nrtab\"\\";

    buffer_append_string(text, " \"");
    for (size_t i = 0; i < word.size; i++) {
        unsigned char byte = (unsigned char)word.data[i];
        const char *found = byte == 0 ? NULL : strchr(escaped, byte);

        if (found != NULL)
            buffer_append_format(text, "\\%c", letters[found - escaped]);
        else if (byte >= ' ' && byte < 127)
            buffer_append_u8(text, byte);
        else
            buffer_append_format(text, "\\x%02x", byte);
    }
    buffer_append_u8(text, '"');
}

static void write_line(struct buffer *text, struct call *call)
{
    const struct client *client = call->client;
    const struct bytes *words = secrets_hide(call);
    int64_t now_us = clock_wall_us();

    buffer_append_format(text, "+%lld.%06lld [%d %s%s]", (long long)(now_us / 1000000), (long long)(now_us % 1000000), client->db,
        client->flags & CLIENT_UNIX_SOCKET ? "unix:" : "", client->flags & CLIENT_UNIX_SOCKET ? client->local_address : client->address);
    for (int i = 0; i < call->arg_count; i++)
        append_quoted(text, words[i]);
    buffer_append_string(text, "\r\n");
}

void monitor_tell(struct call *call, struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct buffer text = { 0 };

    if (call->command->flags & (COMMAND_ADMIN | COMMAND_SKIP_MONITOR) || call->client->flags & (CLIENT_REPLAY | CLIENT_PROXY))
        return;
    write_line(&text, call);
    for (int i = 0; i < engine->worker_count; i++) {
        struct worker *other = engine->workers[i];

        if (other->monitor_count == 0)
            continue;
        if (other == worker)
            hand_out(worker, buffer_bytes(&text));
        else
            post(other, buffer_bytes(&text));
    }
    buffer_release(&text);
}
