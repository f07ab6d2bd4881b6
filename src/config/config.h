/* Config: every directive of Redis 7.2 and Kelvin's own, as rows of config/config.def.
 *
 * Numbers, booleans and enumerations are read anywhere, at any time, with one relaxed atomic load (config_number).
 * Strings are guarded by a leaf lock and are returned as copies. A row declares name, kind, default, bounds, and whether
 * the directive can be set while the server runs; parsing, CONFIG GET, SET, REWRITE, the test of conf/kelvin.conf and the
 * documentation use the rows.
 *
 * Threads: every function may be called from any thread. Changes (load, set, rewrite, config_on_change) are serialized by a
 * mutex that is held while callbacks run; readers never wait for it.
 */
#ifndef KELVIN_CONFIG_CONFIG_H
#define KELVIN_CONFIG_CONFIG_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/buffer.h"
#include "base/bytes.h"

/* CONFIG_PORT, CONFIG_MAXMEMORY ...: the directive's name in upper case. */
enum config_id {
#define CONFIG_ROW(id, ...) CONFIG_##id,
#include "config/config.def"
#undef CONFIG_ROW
    CONFIG_COUNT
};


/* Values that config_number returns for enumerations: the index of the name in its row. */
enum config_permission { CONFIG_PERMISSION_NO, CONFIG_PERMISSION_YES, CONFIG_PERMISSION_LOCAL };    /* enable-* */
enum config_loglevel {
    CONFIG_LOGLEVEL_DEBUG,
    CONFIG_LOGLEVEL_VERBOSE,
    CONFIG_LOGLEVEL_NOTICE,
    CONFIG_LOGLEVEL_WARNING,
    CONFIG_LOGLEVEL_NOTHING,
};
enum config_supervised {
    CONFIG_SUPERVISED_UPSTART,
    CONFIG_SUPERVISED_SYSTEMD,
    CONFIG_SUPERVISED_AUTO,
    CONFIG_SUPERVISED_NO,
};
enum config_control { CONFIG_CONTROL_GOSSIP, CONFIG_CONTROL_MANAGED };       /* cluster-control */
enum config_endpoint { CONFIG_ENDPOINT_IP, CONFIG_ENDPOINT_HOSTNAME, CONFIG_ENDPOINT_UNKNOWN };       /* cluster-preferred-endpoint-type */
enum config_facility { CONFIG_FACILITY_USER, CONFIG_FACILITY_LOCAL0 };      /* LOCAL0 + n is local<n>, up to 7 */
enum config_fsync { CONFIG_FSYNC_EVERYSEC, CONFIG_FSYNC_ALWAYS, CONFIG_FSYNC_NO };
enum config_policy {
    CONFIG_POLICY_VOLATILE_LRU,
    CONFIG_POLICY_VOLATILE_LFU,
    CONFIG_POLICY_VOLATILE_RANDOM,
    CONFIG_POLICY_VOLATILE_TTL,
    CONFIG_POLICY_ALLKEYS_LRU,
    CONFIG_POLICY_ALLKEYS_LFU,
    CONFIG_POLICY_ALLKEYS_RANDOM,
    CONFIG_POLICY_NOEVICTION,
};
enum config_pubsub_default { CONFIG_PUBSUB_DEFAULT_ALL, CONFIG_PUBSUB_DEFAULT_NONE };    /* acl-pubsub-default */
/* propagation-error-behavior */
enum config_on_stream_error { CONFIG_STREAM_ERROR_IGNORED, CONFIG_STREAM_ERROR_ENDS, CONFIG_STREAM_ERROR_ENDS_REPLICAS };

/* shutdown-on-sigint, shutdown-on-sigterm: a combination of these flags; 0 is the default behaviour. */
enum config_shutdown {
    CONFIG_SHUTDOWN_SAVE = 1,
    CONFIG_SHUTDOWN_NOSAVE = 2,
    CONFIG_SHUTDOWN_NOW = 4,
    CONFIG_SHUTDOWN_FORCE = 8,
};
/* notify-keyspace-events: bit n is the n-th letter of CONFIG_EVENT_LETTERS. A is the same as the first ten. */
#define CONFIG_EVENT_LETTERS "g$lshzxetdnKEm"
enum { CONFIG_EVENTS_ALL = 0x3ff };     /* g$lshzxetd: what A means */

struct config {
    _Atomic int64_t numbers[CONFIG_COUNT];
    _Atomic int64_t output_limits[3][3];
    struct config_private *more;
};

struct config *config_create(void);                 /* all defaults; remembers the working directory */
void config_destroy(struct config *config);

/* Returns a number, a boolean (0, 1), an enumeration's value, memory in bytes, or time in the row's unit; maxmemory-clients
 * in bytes even if it was set as a percentage of maxmemory; the bits above for events and shutdown-on-*. Other lists and
 * strings: 0. */
static inline int64_t config_number(const struct config *config, enum config_id id)
{
    return atomic_load_explicit(&config->numbers[id], memory_order_relaxed);
}

/* client-output-buffer-limit, in bytes and seconds; 0 is no limit. The three limits are not read atomically: during a CONFIG
 * SET, one may be old and another new. */
enum config_client_class { CONFIG_CLIENT_NORMAL, CONFIG_CLIENT_REPLICA, CONFIG_CLIENT_PUBSUB };
enum config_output_limit { CONFIG_OUTPUT_HARD, CONFIG_OUTPUT_SOFT, CONFIG_OUTPUT_SOFT_SECONDS };
static inline int64_t config_output_limit(const struct config *config, enum config_client_class class,
    enum config_output_limit limit)
{
    return atomic_load_explicit(&config->output_limits[class][limit], memory_order_relaxed);
}

/* Returns the value of any row as CONFIG GET shows it, for example "127.0.0.1 ::1" for bind and "3600 1 300 100" for save.
 * A copy, freed with mem_free; never NULL. `dir` is an absolute path; the caller changes to it. */
char *config_string(struct config *config, enum config_id id);

/* The directive's name as CONFIG GET shows it. */
const char *config_name(enum config_id id);

/* rename-command, user, loadmodule: calls `line` for each line of the directive, in order, without the directive's name. */
typedef void config_line(void *context, const struct bytes *words, int count);
void config_lines(struct config *config, enum config_id id, config_line *line, void *context);

/* Where the index-th of these lines was: "kelvin.conf:12", or "the command line". */
void config_line_place(struct config *config, enum config_id id, int index, struct buffer *place);
/* Replaces all lines of the directive, for CONFIG REWRITE. Without its name; words are separated by single spaces, lines by line ends. */
void config_set_lines(struct config *config, enum config_id id, struct bytes lines);

/* `replicaof` while the server runs: what CONFIG GET shows and CONFIG REWRITE writes. An empty host: none. Any thread, no callbacks. */
void config_set_replicaof(struct config *config, struct bytes host, int port);
/* How many databases there are: a node of a cluster has a number of its own. */
int config_database_count(const struct config *config);
/* The primary; false: none. `host` is appended to. */
bool config_replicaof(struct config *config, struct buffer *host, int *port);

/* Loads one line of a file or one --option: name and values. On failure `message` has the reason, and nothing has changed.
 * Directives that may be repeated (save, rename-command, loadmodule, user ...) accumulate while loading. No callbacks are
 * called. */
bool config_load(struct config *config, const struct bytes *words, int word_count, struct message *message);

/* Loads the text of a whole file, with its includes. On failure `message` has file, line number, line and reason, and the
 * lines before the bad one have taken effect. `name` is for messages; NULL: it is an option of the command line. Relative paths start from the directory in which the
 * process was started. */
bool config_load_text(struct config *config, const char *name, struct bytes text, struct message *message);
/* The same for a file. The first file that is loaded this way is the one that config_rewrite writes. */
bool config_load_file(struct config *config, const char *path, struct message *message);

/* For `kelvin-server --check`: from now on a line that is wrong does not end the load. `problem` is called with what config_load_text,
 * config_load_file, config_check or config_check_absent would have failed with, once for each problem, and they go on. */
typedef void config_problem(void *context, const char *text);
void config_on_problem(struct config *config, config_problem *problem, void *context);

/* Checks the rules between directives, after all are loaded; config_set calls it as well. False: `message` has the rule that
 * is violated. */
bool config_check(struct config *config, struct message *message);

/* CONFIG SET of several directives: all or nothing. They are applied in order; if a callback refuses, the earlier ones are
 * restored. `message` is the text after "-ERR ", exactly as in Redis 7.2. config_set_local is for a client on this
 * machine, which may set protected directives with `enable-protected-configs local`. */
bool config_set(struct config *config, const struct bytes *names, const struct bytes *values, int count, struct message *message);
bool config_set_local(struct config *config, const struct bytes *names, const struct bytes *values, int count,
    struct message *message);

/* Called (by config_set only) after the value has changed. Returns false with a message (the reason only, at most 150 bytes)
 * to refuse the change. One callback per row. It runs on the thread that calls config_set, with the mutex for changes
 * held: it may read the configuration, but must not load, set, rewrite or register. If a later row of the same CONFIG SET
 * is refused, it is called again after the old value has been restored, and its return value is ignored. */
typedef bool config_changed(void *context, enum config_id id, struct message *message);
void config_on_change(struct config *config, enum config_id id, config_changed *changed, void *context);

/* CONFIG GET: calls `found` once for each row whose name matches one of the patterns, with its value as Redis prints it. A
 * second name (slaveof) counts as a separate name. A pattern without wildcards is passed on as it was written. */
typedef void config_found(void *context, const char *name, struct bytes value);
void config_get(struct config *config, const struct bytes *patterns, int count, config_found *found, void *context);

/* CONFIG REWRITE: keeps the comments and the order of the file that was loaded, changes lines, appends new ones, and removes
 * those whose value is the default again. Written under a temporary name, synced and renamed, or in place if only the file itself may be written. False: `message` has the
 * reason. */
bool config_rewrite(struct config *config, struct message *message);
const char *config_file(const struct config *config);       /* absolute path, NULL if no file was loaded */

/* Calls `found` for each directive that was set to a value other than the default but has no effect yet; for the log at
 * startup. */
void config_unused(struct config *config, config_found *found, void *context);
/* Called when CONFIG SET has changed such a directive. */
void config_on_change_of_unused(struct config *config, config_changed *changed, void *context);

/* Directives of features that Kelvin does not have (TLS, ACL, replication ...), for which only the default is allowed. */
bool config_check_absent(struct config *config, struct message *message);     /* false: one has another value; named in the message */
void config_refuse_absent(struct config *config);                   /* from now on, CONFIG SET refuses other values */

#endif
