/* ACL log: the last calls and authentications that were denied, newest first.
 *
 * An event that resembles one of the last ten entries, and is at most 60 seconds younger, counts as that entry again.
 *
 * Threads: any; a leaf lock. Memory: at most `max_len` entries. Everything given is copied.
 */
#ifndef KELVIN_ACL_ACL_LOG_H
#define KELVIN_ACL_ACL_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct acl_log;

enum acl_log_reason { ACL_LOG_COMMAND, ACL_LOG_KEY, ACL_LOG_CHANNEL, ACL_LOG_AUTH };
enum acl_log_context { ACL_LOG_TOPLEVEL, ACL_LOG_MULTI, ACL_LOG_LUA, ACL_LOG_MODULE };

struct acl_log_event {
    enum acl_log_reason reason;
    enum acl_log_context context;
    struct bytes object;        /* the command's full name, the key, the channel; for AUTH the command that was sent */
    struct bytes user;          /* its name; for AUTH the one that was given */
    struct bytes client;        /* the line of CLIENT INFO, without the line end */
    int64_t now_ms;             /* wall clock */
};

struct acl_log_entry {
    uint64_t id, count;
    struct acl_log_event last;
    int64_t created_ms;         /* last.now_ms is when it was last updated */
};

struct acl_log *acl_log_create(void);
void acl_log_destroy(struct acl_log *log);              /* NULL is fine */

/* Adds an event, and drops the oldest entries beyond `max_len`. */
void acl_log_note(struct acl_log *log, size_t max_len, const struct acl_log_event *event);
void acl_log_reset(struct acl_log *log);

/* Calls `visit` for the newest `count_max` entries, with the lock held. Returns their number. */
typedef void acl_log_visit(void *context, const struct acl_log_entry *entry);
size_t acl_log_each(struct acl_log *log, size_t count_max, acl_log_visit *visit, void *context);

/* How many events of each kind were noted since the start, or the last reset. NULL: none. */
uint64_t acl_log_total(struct acl_log *log, enum acl_log_reason reason);
void acl_log_reset_totals(struct acl_log *log);

const char *acl_log_reason_name(enum acl_log_reason reason);
const char *acl_log_context_name(enum acl_log_context context);

#endif
