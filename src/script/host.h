/* Host: what a script needs from the server, as callbacks, and the terms that both sides use.
 *
 * The script room knows no command and no key. The caller of interpreter_run hands in a host for one run; the callbacks
 * are called on the thread, and on the stack, of that run. Each of them may suspend the run (switch to another fiber)
 * and continue it later; the interpreter may run other scripts meanwhile. None of them may raise a Lua error.
 */
#ifndef KELVIN_SCRIPT_HOST_H
#define KELVIN_SCRIPT_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct reply;

/* Flags that a script declares: "#!lua flags=..." or the flags of redis.register_function. */
enum script_flags {
    SCRIPT_NO_WRITES = 1 << 0,              /* "no-writes" */
    SCRIPT_ALLOW_OOM = 1 << 1,              /* "allow-oom" */
    SCRIPT_ALLOW_STALE = 1 << 2,            /* "allow-stale" */
    SCRIPT_NO_CLUSTER = 1 << 3,             /* "no-cluster" */
    SCRIPT_ALLOW_CROSS_SLOT = 1 << 4,       /* "allow-cross-slot-keys" */
};

/* redis.set_repl: where the effects of the calls that follow are sent. */
enum script_replication {
    SCRIPT_REPL_NONE = 0,
    SCRIPT_REPL_AOF = 1,
    SCRIPT_REPL_REPLICA = 2,
    SCRIPT_REPL_ALL = 3,
};

enum script_log_level { SCRIPT_LOG_DEBUG, SCRIPT_LOG_VERBOSE, SCRIPT_LOG_NOTICE, SCRIPT_LOG_WARNING };

enum script_acl { SCRIPT_ACL_DENIED, SCRIPT_ACL_ALLOWED, SCRIPT_ACL_UNKNOWN_COMMAND };

struct script_host {
    void *context;      /* the first argument of every callback */

    /* Runs a command and appends exactly one reply, an error included, to `reply`, in the protocol reply->protocol: 2
     * until the script calls redis.setresp(3). `args` is valid during the call; arg_count >= 1. An error is returned to
     * the script as it is; statistics of it are the host's. If the run has to end (see may_go_on), nothing has to be
     * appended. */
    void (*call)(void *context, const struct bytes *args, int arg_count, struct reply *reply);

    /* Called every 10,000 instructions or so, and after each call. False: the script has to end now, without a reply
     * (it was killed, or starts again). It is asked again until the run has returned, but its first false is final. */
    bool (*may_go_on)(void *context);

    /* redis.log. Every message is passed; the host knows the level of the log. */
    void (*log)(void *context, enum script_log_level level, struct bytes text);

    /* redis.acl_check_cmd: may the user of the script run this command? */
    enum script_acl (*acl_check)(void *context, const struct bytes *args, int arg_count);

    /* redis.set_repl; `replication` is one of enum script_replication. */
    void (*set_replication)(void *context, enum script_replication replication);
};

#endif
