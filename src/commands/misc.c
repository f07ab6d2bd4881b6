#include <math.h>

#include "base/clock.h"
#include "base/version.h"
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/role.h"
#include "engine/synced.h"
#include "engine/unit.h"

void time_command(struct call *call)
{
    int64_t now_us = call->unit != NULL ? call->unit->now_us : clock_wall_us();     /* all calls of a unit have one time */

    reply_array(call->reply, 2);
    reply_bulk_integer(call->reply, now_us / 1000000);
    reply_bulk_integer(call->reply, now_us % 1000000);
}

/* Replies now, or when the aim is reached, or when the time is up. */
static void wait_for(struct call *call, const struct call_wait *wait)
{
    struct synced_aim aim = { wait->end, wait->here, wait->there };

    if (!call_may_wait(call) || synced_is_reached(call->engine, call->requester, &aim)) {
        synced_reply(call->engine, call->requester, wait->end, call->reply);
        return;
    }
    if (wait->there > 0)
        synced_ask(call);
    call_wait(call, wait);
}

void wait_command(struct call *call)
{
    struct call_wait wait = { .end = CALL_WAIT_REPLICAS, .args = call->args, .arg_count = call->arg_count };

    if (role_is_replica(call->engine))
        reply_errorf(call, "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
            "to be writable (which is not the default) writes to replicas are just local and are not propagated.");
    if (call->failed || !arg_integer(call, 1, &wait.there) || !arg_timeout_ms(call, 2, &wait.deadline_us))
        return;
    wait_for(call, &wait);
}

void waitaof_command(struct call *call)
{
    struct call_wait wait = { .end = CALL_WAIT_SYNCED, .args = call->args, .arg_count = call->arg_count };
    const char *error;

    if (role_is_replica(call->engine))
        reply_errorf(call, "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and "
            "are not propagated.");
    if (call->failed || !arg_integer(call, 1, &wait.here) ||
        !arg_integer_between(call, 1, 0, 1, "ERR value is out of range, value must between 0 and 1", &wait.here) ||
        !arg_integer_between(call, 2, 0, INT64_MAX, "ERR value is out of range, must be positive", &wait.there) ||
        !arg_timeout_ms(call, 3, &wait.deadline_us))
        return;
    error = synced_error(call->engine, &(struct synced_aim){ wait.end, wait.here, wait.there });
    if (error != NULL)
        reply_errorf(call, "%s", error);
    else
        wait_for(call, &wait);
}

enum { COLUMNS = 64, ROWS = 16, SIDE_MAX = 200, EMBERS_MAX = 5 };

/* A glowing ember: its position and the reach of its warmth, in rows. */
struct ember {
    double column, row, reach;
};

static double random_unit(struct random *random)
{
    return (double)(random_next(random) >> 11) / (double)(1ull << 53);
}

/* Draws embers and the warmth around them in shades; a cell is twice as high as it is wide. */
static void draw_embers(struct buffer *out, struct random *random, int columns, int rows)
{
    static const char shades[] = " .:-=+*#%@";
    struct ember embers[EMBERS_MAX];
    int count = 2 + (int)random_below(random, EMBERS_MAX - 1);

    for (int i = 0; i < count; i++) {
        embers[i] = (struct ember){
            .column = random_unit(random) * columns,
            .row = random_unit(random) * rows,
            .reach = (0.1 + 0.25 * random_unit(random)) * rows + 0.5,
        };
    }
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) {
            double heat = 0;

            for (int i = 0; i < count; i++) {
                double x = (column - embers[i].column) / 2, y = row - embers[i].row;

                heat += exp(-(x * x + y * y) / (2 * embers[i].reach * embers[i].reach));
            }
            heat = heat > 1 ? 1 : heat;
            buffer_append_u8(out, (uint8_t)shades[(int)(heat * (sizeof(shades) - 2))]);
        }
        buffer_append_u8(out, '\n');
    }
}

/* A side that is not given keeps its default. */
static bool parse_side(struct call *call, int arg, int *side)
{
    int64_t number;

    if (arg >= call->arg_count)
        return true;
    if (!arg_integer(call, arg, &number))
        return false;
    *side = number < 1 ? 1 : number > SIDE_MAX ? SIDE_MAX : (int)number;
    return true;
}

/* There is one picture for all versions. Arguments without VERSION are ignored. */
void lolwut_command(struct call *call)
{
    struct buffer out = { 0 };
    int columns = COLUMNS, rows = ROWS;
    int64_t version;

    if (call->arg_count > 2 && arg_is(call, 1, "version") &&
        (!arg_integer(call, 2, &version) || !parse_side(call, 3, &columns) || !parse_side(call, 4, &rows)))
        return;
    draw_embers(&out, &call->turn->random, columns, rows);
    buffer_append_format(&out, "\nEmbers, and the cold between them. Redis ver. %s, Kelvin %s\n", REDIS_VERSION, KELVIN_VERSION);
    reply_verbatim(call->reply, "txt", buffer_bytes(&out));
    buffer_release(&out);
}
