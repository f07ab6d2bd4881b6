#include "engine/running_scripts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "engine/execute_private.h"
#include "engine/script_run.h"
#include "script/library.h"

enum { SHOWN_ARGS_MAX = 128, SHOWN_SIZE_MAX = 1024 };

struct running_scripts {
    struct mutex lock;              /* leaf */
    struct running_script *first;
};

struct running_scripts *running_scripts_create(void)
{
    struct running_scripts *scripts = mem_zalloc(sizeof(*scripts));

    mutex_init(&scripts->lock);
    return scripts;
}

void running_scripts_destroy(struct running_scripts *scripts)
{
    if (scripts == NULL)
        return;
    mutex_release(&scripts->lock);
    mem_free(scripts);
}

void running_script_begin(struct unit *unit, const struct call *call, const struct script_start *start, struct running_script *running)
{
    *running = (struct running_script){ .unit = unit, .is_function = start->function != NULL, .began_us = call->turn->now_us };
    running->nested_args = call->args != unit->args ? call->args : NULL;
    running->command_count = call->arg_count;
    if (running->is_function)
        running->name = start->function->name;
    unit->script = running;
    unit->script_fate = SCRIPT_MAY_BE_KILLED;
}

void running_script_end(struct unit *unit, struct running_script *running)
{
    struct running_scripts *scripts = unit->worker->engine->running_scripts;

    unit->script = NULL;
    if (!running->is_published)
        return;
    mutex_lock(&scripts->lock);
    *(running->prev != NULL ? &running->prev->next : &scripts->first) = running->next;
    if (running->next != NULL)
        running->next->prev = running->prev;
    mutex_unlock(&scripts->lock);
    unit->script_fate = SCRIPT_MAY_BE_KILLED;       /* it is not the rest of its transaction that was killed */
}

/* Borrowed arguments do not outlive the time until the unit is suspended. Large ones are shown in part. */
static void copy_command(struct unit *unit, struct running_script *running)
{
    const struct bytes *args = running->nested_args;
    struct bytes *copy;

    if (args == NULL) {
        args = unit->args;
        running->command_count = unit->arg_count;
    }
    if (running->command_count > SHOWN_ARGS_MAX)
        running->command_count = SHOWN_ARGS_MAX;
    copy = arena_alloc(&unit->arena, (size_t)running->command_count * sizeof(*copy));
    for (int i = 0; i < running->command_count; i++)
        copy[i] = arena_copy(&unit->arena, bytes_of(args[i].data, args[i].size < SHOWN_SIZE_MAX ? args[i].size : SHOWN_SIZE_MAX));
    running->command = copy;
}

void running_script_publish(struct unit *unit)
{
    struct running_scripts *scripts = unit->worker->engine->running_scripts;
    struct running_script *running = unit->script;

    if (running->is_published)
        return;
    running->is_published = true;
    copy_command(unit, running);
    mutex_lock(&scripts->lock);
    running->next = scripts->first;
    if (running->next != NULL)
        running->next->prev = running;
    scripts->first = running;
    mutex_unlock(&scripts->lock);
}

bool running_script_is_function(const struct unit *unit)
{
    return unit->script != NULL && unit->script->is_function;
}

bool running_script_may_write(struct unit *unit)
{
    int fate = SCRIPT_MAY_BE_KILLED;

    return atomic_compare_exchange_strong(&unit->script_fate, &fate, SCRIPT_HAS_WRITTEN) || fate == SCRIPT_HAS_WRITTEN;
}

static bool kill(struct unit *unit)
{
    int fate = SCRIPT_MAY_BE_KILLED;

    return atomic_compare_exchange_strong(&unit->script_fate, &fate, SCRIPT_IS_KILLED) || fate == SCRIPT_IS_KILLED;
}

struct kills {
    int others, found, killed;
};

static struct kills kill_all(struct running_scripts *scripts, bool functions)
{
    struct kills kills = { 0, 0, 0 };

    mutex_lock(&scripts->lock);
    for (struct running_script *running = scripts->first; running != NULL; running = running->next) {
        if (!unit_is_busy(&running->unit->claim))
            continue;
        if (running->is_function != functions) {
            kills.others++;
            continue;
        }
        kills.found++;
        /* A primary's script goes on, too: what it does not do here is missing. */
        if (!(running->unit->client->caller & TRAIT_OBEYED) && kill(running->unit))
            kills.killed++;
    }
    mutex_unlock(&scripts->lock);
    return kills;
}

void running_scripts_kill(struct call *call, bool functions)
{
    struct kills kills = kill_all(call->engine->running_scripts, functions);

    if (kills.killed > 0)
        reply_ok(call->reply);
    else if (kills.found > 0)
        reply_errorf(call, "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
            "termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.");
    else if (kills.others > 0)
        execute_reply_busy(call, !functions);
    else
        reply_errorf(call, "NOTBUSY No scripts in execution right now.");
}

void running_scripts_reply(struct engine *engine, struct reply *reply)
{
    struct running_scripts *scripts = engine->running_scripts;
    struct running_script *running = NULL;

    mutex_lock(&scripts->lock);
    for (struct running_script *each = scripts->first; each != NULL; each = each->next) {
        if (each->is_function && (running == NULL || each->began_us < running->began_us))
            running = each;
    }
    if (running == NULL) {
        reply_null(reply);
    } else {
        reply_map(reply, 3);
        reply_bulk_string(reply, "name");
        reply_bulk(reply, running->name);
        reply_bulk_string(reply, "command");
        reply_array(reply, (size_t)running->command_count);
        for (int i = 0; i < running->command_count; i++)
            reply_bulk(reply, running->command[i]);
        reply_bulk_string(reply, "duration_ms");
        reply_integer(reply, (clock_mono_us() - running->began_us) / 1000);
    }
    mutex_unlock(&scripts->lock);
}
