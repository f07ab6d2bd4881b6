/* PSYNC: what a primary replies to it. */
#ifndef KELVIN_REPLICATION_LINK_PSYNC_H
#define KELVIN_REPLICATION_LINK_PSYNC_H

#include <stdint.h>

#include "base/bytes.h"
#include "replication/link.h"
#include "stream/history.h"

enum psync_result {
    PSYNC_CONTINUE,         /* `id` is the new one, or "" */
    PSYNC_FULL,             /* an RDB follows, at `offset` of `id` */
    PSYNC_NOT_YET,          /* an error that goes away by itself */
    PSYNC_DENIED,           /* an error about user or password */
    PSYNC_IS_PRIMARY,       /* the error of a primary that is asked to take over */
    PSYNC_REFUSED,          /* any other error */
    PSYNC_INVALID,          /* not a reply to PSYNC: wrong words, an ID that is not 40 hex digits, an offset out of range */
};

struct psync_reply {
    char id[LINK_ID_SIZE + 1];
    int64_t offset;         /* 0 to HISTORY_OFFSET_MAX */
};

/* `line` without its end. */
enum psync_result psync_parse(struct bytes line, struct psync_reply *reply);
/* Which of the last five an error is, to any command. `line` begins with '-'. */
enum psync_result psync_parse_error(struct bytes line);

#endif
