/* CLIENT LIST and CLIENT KILL: look at all clients.
 *
 * A client's fields belong to its worker's thread. So each worker gets a message, looks at its own clients and leaves what it
 * found in its part of the survey; the last one to finish wakes the calling client. With one worker everything happens in place.
 */
#include <stdlib.h>

#include "acl/acl.h"
#include "base/mem.h"
#include "commands/client_line.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "replication/follow.h"

struct filter {
    int64_t id;                     /* 0: any */
    int64_t *ids;                   /* NULL: any; else the IDs that LIST ID names */
    size_t id_count;
    char *address, *local_address;  /* NULL: any */
    struct acl_user *user;          /* held; NULL: any */
    uint32_t type_mask, type_flags; /* the flags of a client in the mask must be these */
    int64_t age_s_min;              /* MAXAGE; 0: any */
    bool spare_caller;
};

struct found_line {
    uint64_t id;
    size_t offset, size;            /* in the part's text */
    const struct buffer *text;
};

/* Clients that one worker found; owned by that worker until it has finished. */
struct part {
    struct buffer text;
    struct found_line *lines;
    size_t line_count, line_room;
    int64_t killed;
    bool caller_killed;
};

enum purpose { LIST_CLIENTS, KILL_CLIENTS };

struct survey {
    struct job job;
    enum purpose purpose;
    struct filter filter;
    struct line_caller caller;
    struct job_pool *jobs;
    struct part *parts;             /* one for each worker */
    int part_count;
    _Atomic int left;               /* workers that have not finished */
};

struct survey_message {
    struct mail message;
    struct survey *survey;
};

static void filter_release(struct filter *filter)
{
    mem_free(filter->ids);
    mem_free(filter->address);
    mem_free(filter->local_address);
    acl_user_release(filter->user);
}

static void survey_release(struct job *job)
{
    struct survey *survey = (struct survey *)job;

    for (int i = 0; i < survey->part_count; i++) {
        buffer_release(&survey->parts[i].text);
        mem_free(survey->parts[i].lines);
    }
    mem_free(survey->parts);
    filter_release(&survey->filter);
    mem_free(survey);
}

static bool is_listed(const struct filter *filter, uint64_t id)
{
    for (size_t i = 0; i < filter->id_count; i++) {
        if ((uint64_t)filter->ids[i] == id)
            return true;
    }
    return false;
}

static bool is_meant(const struct survey *survey, const struct client *client, int64_t now_us)
{
    const struct filter *filter = &survey->filter;

    if (filter->id != 0 && (uint64_t)filter->id != client->id)
        return false;
    if ((client->flags & filter->type_mask) != filter->type_flags)
        return false;
    if (filter->user != NULL && client->user != filter->user)
        return false;
    if (filter->ids != NULL && !is_listed(filter, client->id))
        return false;
    if (filter->address != NULL && (client->address == NULL || strcmp(filter->address, client->address) != 0))
        return false;
    if (filter->local_address != NULL && (client->local_address == NULL || strcmp(filter->local_address, client->local_address) != 0))
        return false;
    if (filter->age_s_min > 0 && (now_us - client->created_us) / 1000000 < filter->age_s_min)
        return false;
    return !(filter->spare_caller && client->id == survey->caller.id);
}

static void note_line(struct survey *survey, struct part *part, const struct client *client, int64_t now_us)
{
    size_t offset = part->text.size;

    client_line(&part->text, client, &survey->caller, now_us);
    if (part->line_count == part->line_room) {
        part->line_room = part->line_room == 0 ? 16 : part->line_room * 2;
        part->lines = mem_realloc(part->lines, part->line_room * sizeof(*part->lines));
    }
    part->lines[part->line_count++] = (struct found_line){ client->id, offset, part->text.size - offset, &part->text };
}

/* The calling client is closed only after the reply. */
static void kill_one(struct survey *survey, struct part *part, struct worker *worker, struct client *client)
{
    part->killed++;
    if (client->id == survey->caller.id)
        part->caller_killed = true;
    else
        worker->host.close(client);
}

static void look_at_own_clients(struct survey *survey, struct worker *worker)
{
    struct part *part = &survey->parts[worker->index];
    struct client *next;

    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;        /* closing removes it from the list */
        if (!is_meant(survey, client, worker->turn.now_us))
            continue;
        if (survey->purpose == LIST_CLIENTS)
            note_line(survey, part, client, worker->turn.now_us);
        else
            kill_one(survey, part, worker, client);
    }
}

/* Counts a worker that has finished. True for the last one. */
static bool count_out(struct survey *survey)
{
    return atomic_fetch_sub(&survey->left, 1) == 1;
}

static void run_message(struct mail *message, struct worker *worker)
{
    struct survey *survey = ((struct survey_message *)message)->survey;

    mem_free(message);
    look_at_own_clients(survey, worker);
    if (count_out(survey))
        job_finish(survey->jobs, &survey->job);
}

/* The finished survey; or NULL: the call is parked. Takes the filter. */
static struct survey *survey_all(struct call *call, enum purpose purpose, struct filter *filter)
{
    struct engine *engine = call->engine;
    struct worker *here = call->client->worker;
    struct survey *survey = call_job(call);

    if (survey != NULL) {
        filter_release(filter);     /* the arguments were parsed a second time */
        return survey;
    }
    survey = mem_zalloc(sizeof(*survey));
    survey->job.release = survey_release;
    survey->purpose = purpose;
    survey->filter = *filter;
    survey->caller = line_caller_of(call);
    survey->jobs = engine->jobs;
    survey->part_count = engine->worker_count;
    survey->parts = mem_zalloc((size_t)engine->worker_count * sizeof(*survey->parts));
    survey->left = engine->worker_count;
    if (engine->worker_count == 1) {
        look_at_own_clients(survey, here);
        return survey;
    }
    call_wait_job(call, &survey->job);
    for (int i = 0; i < engine->worker_count; i++) {
        struct survey_message *message;

        if (engine->workers[i] == here)
            continue;
        message = mem_zalloc(sizeof(*message));
        message->message.run = run_message;
        message->survey = survey;
        mailbox_post(&engine->workers[i]->mailbox, &message->message);
    }
    look_at_own_clients(survey, here);
    if (count_out(survey))
        job_finish(survey->jobs, &survey->job);
    return NULL;
}

/* The link to the primary has no connection of net: it is added to the first part, when all workers have finished. */
static void look_at_link(struct call *call, struct survey *survey)
{
    struct follow *follow = call->engine->replication.follow;
    struct part *part = &survey->parts[0];
    struct follow_client link;
    struct client client;

    if (follow == NULL || !follow_client(follow, &link))
        return;
    client = (struct client){ .id = link.id, .flags = CLIENT_PRIMARY, .address = link.address, .local_address = link.local_address,
        .fd = link.fd, .db = link.db, .created_us = link.created_us, .active_us = link.active_us, .last_command = link.last_command,
        .reply = { .protocol = 2 } };
    if (!is_meant(survey, &client, call->turn->now_us))
        return;
    if (survey->purpose == LIST_CLIENTS)
        note_line(survey, part, &client, call->turn->now_us);
    else
        part->killed += follow_kill(follow, link.id);
}

/* A survey that was a job is released by the engine. */
static void survey_end(struct call *call, struct survey *survey)
{
    if (call_job(call) != survey)
        survey_release(&survey->job);
}

static int compare_lines(const void *a, const void *b)
{
    uint64_t left = ((const struct found_line *)a)->id, right = ((const struct found_line *)b)->id;

    return (left > right) - (left < right);
}

static void append_line(struct buffer *out, const struct found_line *line)
{
    buffer_append(out, line->text->data + line->offset, line->size);
}

/* The oldest clients first; or, if IDs were given, in their order, repetitions included. */
static void reply_lines(struct call *call, struct survey *survey)
{
    struct buffer out = { 0 };
    struct found_line *lines;
    size_t count = 0;

    for (int i = 0; i < survey->part_count; i++)
        count += survey->parts[i].line_count;
    lines = mem_alloc((count + 1) * sizeof(*lines));
    count = 0;
    for (int i = 0; i < survey->part_count; i++) {
        if (survey->parts[i].line_count > 0)
            memcpy(lines + count, survey->parts[i].lines, survey->parts[i].line_count * sizeof(*lines));
        count += survey->parts[i].line_count;
    }
    qsort(lines, count, sizeof(*lines), compare_lines);
    for (size_t i = 0; survey->filter.ids == NULL && i < count; i++)
        append_line(&out, &lines[i]);
    for (size_t i = 0; i < survey->filter.id_count; i++) {
        struct found_line wanted = { .id = (uint64_t)survey->filter.ids[i] };
        const struct found_line *line = bsearch(&wanted, lines, count, sizeof(*lines), compare_lines);

        if (line != NULL)
            append_line(&out, line);
    }
    reply_verbatim(call->reply, "txt", buffer_bytes(&out));
    buffer_release(&out);
    mem_free(lines);
}

/* False: an error was replied. */
static bool parse_type(struct call *call, int arg, struct filter *filter)
{
    if (arg_is(call, arg, "normal") || arg_is(call, arg, "pubsub")) {
        filter->type_mask = CLIENT_SUBSCRIBED | CLIENT_REPLICA | CLIENT_PRIMARY;
        filter->type_flags = arg_is(call, arg, "pubsub") ? CLIENT_SUBSCRIBED : 0;
        return true;
    }
    if (arg_is(call, arg, "replica") || arg_is(call, arg, "slave")) {
        filter->type_mask = filter->type_flags = CLIENT_REPLICA;
        return true;
    }
    if (arg_is(call, arg, "master")) {
        filter->type_mask = filter->type_flags = CLIENT_PRIMARY;
        return true;
    }
    reply_errorf(call, "ERR Unknown client type '%.*s'", (int)call->args[arg].size, call->args[arg].data);
    return false;
}

static bool parse_ids(struct call *call, struct filter *filter)
{
    filter->id_count = (size_t)call->arg_count - 3;
    filter->ids = mem_alloc(filter->id_count * sizeof(*filter->ids));
    for (int i = 3; i < call->arg_count; i++) {
        if (!arg_integer_between(call, i, INT64_MIN, INT64_MAX, "ERR Invalid client ID", &filter->ids[i - 3]))
            return false;
    }
    return true;
}

static bool parse_list(struct call *call, struct filter *filter)
{
    if (call->arg_count == 2)
        return true;
    if (call->arg_count == 4 && arg_is(call, 2, "type"))
        return parse_type(call, 3, filter);
    if (call->arg_count > 3 && arg_is(call, 2, "id"))
        return parse_ids(call, filter);
    reply_error(call, ERR_SYNTAX);
    return false;
}

void client_list_command(struct call *call)
{
    struct filter filter = { 0 };
    struct survey *survey;

    if (!parse_list(call, &filter)) {
        filter_release(&filter);
        return;
    }
    survey = survey_all(call, LIST_CLIENTS, &filter);
    if (survey == NULL)
        return;
    look_at_link(call, survey);
    reply_lines(call, survey);
    survey_end(call, survey);
}

static void set_address(char **field, struct bytes text)
{
    mem_free(*field);
    *field = mem_string(text);
}

static bool parse_age(struct call *call, int arg, int64_t *age_s)
{
    if (!arg_integer_between(call, arg, INT64_MIN, INT64_MAX, "ERR maxage is not an integer or out of range", age_s))
        return false;
    if (*age_s > 0)
        return true;
    reply_errorf(call, "ERR maxage should be greater than 0");
    return false;
}

static bool parse_kill_option(struct call *call, int arg, struct filter *filter)
{
    struct bytes value = call->args[arg + 1];

    if (arg_is(call, arg, "id"))
        return arg_integer_between(call, arg + 1, 1, INT64_MAX, "ERR client-id should be greater than 0", &filter->id);
    if (arg_is(call, arg, "type"))
        return parse_type(call, arg + 1, filter);
    if (arg_is(call, arg, "maxage"))
        return parse_age(call, arg + 1, &filter->age_s_min);
    if (arg_is(call, arg, "addr")) {
        set_address(&filter->address, value);
        return true;
    }
    if (arg_is(call, arg, "laddr")) {
        set_address(&filter->local_address, value);
        return true;
    }
    if (arg_is(call, arg, "user")) {
        acl_user_release(filter->user);
        filter->user = acl_find(call->engine->users.acl, value);
        if (filter->user != NULL)
            return true;
        reply_errorf(call, "ERR No such user '%.*s'", (int)value.size, value.data);
        return false;
    }
    if (arg_is(call, arg, "skipme") && (arg_is(call, arg + 1, "yes") || arg_is(call, arg + 1, "no"))) {
        filter->spare_caller = arg_is(call, arg + 1, "yes");
        return true;
    }
    reply_error(call, ERR_SYNTAX);
    return false;
}

/* "CLIENT KILL ip:port", the old form, has no exceptions. */
static bool parse_kill(struct call *call, struct filter *filter)
{
    if (call->arg_count == 3) {
        set_address(&filter->address, call->args[2]);
        return true;
    }
    filter->spare_caller = true;
    for (int i = 2; i < call->arg_count; i += 2) {
        if (i + 1 == call->arg_count) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        if (!parse_kill_option(call, i, filter))
            return false;
    }
    return true;
}

void client_kill_command(struct call *call)
{
    struct filter filter = { 0 };
    struct survey *survey;
    int64_t killed = 0;

    if (!parse_kill(call, &filter)) {
        filter_release(&filter);
        return;
    }
    survey = survey_all(call, KILL_CLIENTS, &filter);
    if (survey == NULL)
        return;
    look_at_link(call, survey);
    for (int i = 0; i < survey->part_count; i++) {
        killed += survey->parts[i].killed;
        if (survey->parts[i].caller_killed)
            call->client->flags |= CLIENT_CLOSE_AFTER_REPLY;
    }
    if (call->arg_count > 3)
        reply_integer(call->reply, killed);
    else if (killed > 0)
        reply_ok(call->reply);
    else
        reply_errorf(call, "ERR No such client");
    survey_end(call, survey);
}
