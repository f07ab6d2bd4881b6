/* SELECT, SWAPDB, FLUSHDB and FLUSHALL. */
#include "commands/database.h"

#include "call/call.h"
#include "commands/handlers.h"
#include "engine/dataset.h"
#include "engine/engine.h"

static bool database_exists(struct call *call, int64_t db)
{
    if (db >= 0 && db < call->partitions->db_count)
        return true;
    reply_error(call, ERR_DB_INDEX);
    return false;
}

bool database_argument(struct call *call, int arg, int *db)
{
    int64_t number;

    if (!arg_integer(call, arg, &number))
        return false;
    if (number < INT32_MIN || number > INT32_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between %d and %d", INT32_MIN, INT32_MAX);
        return false;
    }
    *db = (int)number;
    return database_exists(call, number);
}

static bool refuse_in_cluster(struct call *call, const char *command)
{
    reply_errorf(call, "ERR %s is not allowed in cluster mode", command);
    return true;
}

bool database_is_refused(struct call *call, const char *command)
{
    return call->engine->replication.cluster != NULL && call->partitions->db_count == 1 && refuse_in_cluster(call, command);
}

void select_command(struct call *call)
{
    int64_t number;
    int db;

    if (text_to_int(call->args[1], &number) && number != 0 && number >= INT32_MIN && number <= INT32_MAX && database_is_refused(call, "SELECT"))
        return;
    if (!database_argument(call, 1, &db))
        return;
    call->client->db = db;
    reply_ok(call->reply);
}

void swapdb_command(struct call *call)
{
    int64_t a, b;

    if (call->engine->replication.cluster != NULL && refuse_in_cluster(call, "SWAPDB"))
        return;                         /* it would be this node's databases only */
    if (!arg_integer_between(call, 1, INT32_MIN, INT32_MAX, "ERR invalid first DB index", &a) ||
        !arg_integer_between(call, 2, INT32_MIN, INT32_MAX, "ERR invalid second DB index", &b) ||
        !database_exists(call, a) || !database_exists(call, b))
        return;
    dataset_swap(call, (int)a, (int)b);
    reply_ok(call->reply);
}

/* [ASYNC|SYNC]. Both are accepted and do the same: the keys are removed before the reply, their memory is freed in the
 * background. */
static bool parse_flush(struct call *call)
{
    if (call->arg_count == 1)
        return true;
    if (call->arg_count == 2 && (arg_is(call, 1, "async") || arg_is(call, 1, "sync")))
        return true;
    reply_error(call, ERR_SYNTAX);
    return false;
}

void flushdb_command(struct call *call)
{
    if (!parse_flush(call))
        return;
    dataset_flush(call, call->db);
    reply_ok(call->reply);
}

void flushall_command(struct call *call)
{
    if (!parse_flush(call))
        return;
    dataset_flush_all(call);
    reply_ok(call->reply);
}
