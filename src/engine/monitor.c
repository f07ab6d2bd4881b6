#include "engine/monitor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "call/secrets.h"
#include "engine/engine.h"
#include "engine/worker.h"

static void count_monitor(struct worker *worker, int by)
{
    atomic_fetch_add(&worker->monitor_count, by);
    atomic_fetch_add(&worker->engine->monitor_count, by);
}

void monitor_begin(struct client *client)
{
    struct worker *worker = client->worker;

    if (client->flags & CLIENT_MONITOR)
        return;
    client->flags |= CLIENT_MONITOR;
    count_monitor(worker, 1);
}

void monitor_end(struct client *client)
{
    struct worker *worker = client->worker;

    if (!(client->flags & CLIENT_MONITOR))
        return;
    client->flags &= ~(uint32_t)CLIENT_MONITOR;
    count_monitor(worker, -1);
}

/* To all monitors of this worker. */
static void append_line(struct worker *worker, struct bytes line)
{
    struct client *next;

    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;
        if (!(client->flags & CLIENT_MONITOR))
            continue;
        buffer_append_bytes(&client->reply.out, line);
        worker->host.output_came(client);
    }
}

struct line_mail {
    struct mail mail;
    size_t size;
    char text[];
};

static void run_line(struct mail *mail, struct worker *worker)
{
    struct line_mail *line = (struct line_mail *)mail;

    append_line(worker, bytes_of(line->text, line->size));
    mem_free(line);
}

static void post_line(struct worker *worker, struct bytes text)
{
    struct line_mail *line = mem_alloc(sizeof(*line) + text.size);

    line->mail.run = run_line;
    line->size = text.size;
    memcpy(line->text, text.data, text.size);
    mailbox_post(&worker->mailbox, &line->mail);
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

void monitor_notify(struct call *call, struct worker *worker)
{
    if (!(call->command->flags & (COMMAND_ADMIN | COMMAND_SKIP_MONITOR)))
        monitor_send(call, worker);
}

void monitor_send(struct call *call, struct worker *worker)
{
    struct engine *engine = worker->engine;
    struct buffer text = { 0 };

    if (engine->monitor_count == 0 || call->client->caller & TRAIT_UNMONITORED)
        return;
    write_line(&text, call);
    for (int i = 0; i < engine->worker_count; i++) {
        struct worker *other = engine->workers[i];

        if (other->monitor_count == 0)
            continue;
        if (other == worker)
            append_line(worker, buffer_bytes(&text));
        else
            post_line(other, buffer_bytes(&text));
    }
    buffer_release(&text);
}
