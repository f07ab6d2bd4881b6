/* A host for scripts without a server: it knows a few commands and counts what it is asked.
 *
 *   ping [x]   echo x   get x   as in Redis; `get` returns fake->value for any key, and null for "nokey"
 *   raw r      the reply r, as it is: any RESP
 *
 * Everything else is an unknown command.
 */
#ifndef KELVIN_SUPPORT_FAKE_HOST_H
#define KELVIN_SUPPORT_FAKE_HOST_H

#include <stdbool.h>

#include "base/buffer.h"
#include "script/host.h"
#include "script/interpreter.h"

struct fake_host {
    struct script_host host;            /* for interpreter_run */
    struct bytes value;
    int call_count, question_count;     /* of host.call, of host.may_go_on */
    int questions_max;                  /* may_go_on returns false from this one on; 0: never */
    struct buffer log;                  /* "<level>:<text>\n" for each message */
    enum script_replication replication;
    int protocol;                       /* of the latest call */
    void (*on_call)(struct fake_host *fake);        /* run in each call, before its reply; may be NULL */
    void (*on_question)(struct fake_host *fake);    /* likewise, in may_go_on */
    void *context;                      /* for those two */
};

void fake_host_init(struct fake_host *fake);
void fake_host_release(struct fake_host *fake);

/* Runs an EVAL script, named after its SHA1, with two keys (k1, k2) and two arguments (a1, a2). */
enum script_result fake_host_eval(struct fake_host *fake, struct interpreter *interpreter, struct bytes code, struct reply *reply);

#endif
