#include "support/command_box.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { WORDS_MAX = 256, KEYS_MAX = WORDS_MAX };

static void add_event(void *context, const struct key *key, enum event event)
{
    struct command_box *box = context;

    if (event_kind(event)->name == NULL || event == EVENT_NEW || event == EVENT_KEYMISS)
        return;
    buffer_append_format(&box->events, "%s%s %.*s", box->events.size > 0 ? ", " : "", event_kind(event)->name, (int)key->name.size,
        key->name.data);
}

static void free_at_once(void *context, struct value value)
{
    value_free(&value);
}

void command_box_create(struct command_box *box, const struct command *commands, uint64_t seed)
{
    *box = (struct command_box){
        .commands = commands,
        .partitions = partitions_create(4, 2, (struct key_seed){ .sip = { seed, 1 } }),
        .turn = {
            .now_ms = 1700000000000,
            .minutes = heat_minutes(1700000000000),
            .heat = { 10, 1 },
            .limits = { .hash_listpack_entries_max = 128, .hash_listpack_value_max = 64, .seed = { seed, 2 } },
        },
    };
    box->hooks = (struct key_hooks){ .context = box, .event = add_event, .free_later = free_at_once };
    box->turn.hooks = &box->hooks;
    box->engine.config = config_create();
    box->engine.partitions = box->partitions;
    random_init(&box->turn.random, seed);
    reply_init(&box->client.reply, 2);
    arena_init(&box->arena);
}

void command_box_destroy(struct command_box *box)
{
    partitions_destroy(box->partitions);
    config_destroy(box->engine.config);
    reply_release(&box->client.reply);
    arena_release(&box->arena);
    buffer_release(&box->reply);
    buffer_release(&box->events);
    buffer_release(&box->propagated);
}

static const struct command *find_command(const struct command_box *box, struct bytes name)
{
    const struct command *command = box->commands;

    while (command->name != NULL && !bytes_is(name, command->name))
        command++;
    CHECK(command->name != NULL);
    return command;
}

static void find_keys(struct call *call)
{
    for (const struct key_spec *spec = call->command->keys; spec != NULL && spec->flags != 0; spec++) {
        int last = spec->last < 0 ? call->arg_count + spec->last : spec->index + spec->last;

        CHECK(spec->keyword == NULL && !spec->numbered && spec->index > 0 && spec->step > 0);
        for (int arg = spec->index; arg <= last; arg += spec->step) {
            struct call_key *key = &call->keys[call->key_count++];
            uint64_t hash = key_hash(&call->partitions->seed, call->args[arg]);
            struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, hash)];
            struct keyspace *keyspace = partition_keyspace(partition, call->db);

            *key = (struct call_key){ arg, spec->flags, hash, keyspace_find(keyspace, hash, call->args[arg]) };
        }
    }
}

static void tell_propagation(struct command_box *box, const struct propagation *propagation)
{
    for (; propagation != NULL; propagation = propagation->next) {
        if (box->propagated.size > 0)
            buffer_append_string(&box->propagated, ", ");
        for (int i = 0; i < propagation->arg_count; i++)
            buffer_append_format(&box->propagated, "%s%.*s", i > 0 ? " " : "", (int)propagation->args[i].size,
                propagation->args[i].data);
    }
}

static void end_text(struct buffer *buffer)
{
    buffer_append_u8(buffer, 0);
    buffer->size--;
}

static void tell(struct command_box *box, const struct call *call)
{
    const struct buffer *out = &call->reply->out;

    for (size_t i = 0; i < out->size; i++) {
        if (out->data[i] != '\r')
            buffer_append_u8(&box->reply, (uint8_t)out->data[i]);
    }
    tell_propagation(box, call->expired);
    if (call->change_count > 0)
        tell_propagation(box, call->first);
    end_text(&box->reply);
    end_text(&box->events);
    end_text(&box->propagated);
    box->change_count = call->change_count;
    box->failed = call->failed;
}

const char *command_box_run(struct command_box *box, const struct bytes *args, int arg_count)
{
    const struct command *command = find_command(box, args[0]);
    struct call_key keys[KEYS_MAX];
    struct call call = {
        .engine = &box->engine, .partitions = box->partitions, .turn = &box->turn, .client = &box->client, .requester = &box->client, .db = box->client.db,
        .command = command, .reply = &box->client.reply, .args = args, .arg_count = arg_count, .keys = keys, .arena = &box->arena,
    };

    CHECK(arg_count <= KEYS_MAX);
    CHECK(command->arity > 0 ? arg_count == command->arity : arg_count >= -command->arity);
    box->reply.size = box->events.size = box->propagated.size = call.reply->out.size = 0;
    arena_reset(&box->arena);
    partitions_lock_all(box->partitions);
    find_keys(&call);
    command->run(&call);
    partitions_unlock_all(box->partitions);
    tell(box, &call);
    return box->reply.data;
}

const char *command_box_say(struct command_box *box, const char *line)
{
    struct bytes words[WORDS_MAX];
    int count = 0;

    for (const char *at = line; at != NULL; count++) {
        const char *end = strchr(at, ' ');

        CHECK(count < WORDS_MAX);
        words[count] = end == NULL ? bytes_of_string(at) : bytes_of(at, (size_t)(end - at));
        at = end == NULL ? NULL : end + 1;
    }
    return command_box_run(box, words, count);
}
