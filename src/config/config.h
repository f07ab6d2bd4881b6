/* Config: every directive of Redis 7.2 and Kelvin's own, as rows of config/config.def.
 *
 * Numbers, booleans and enumerations are read anywhere, at any time, with one relaxed atomic load (config_number).
 * Strings are behind a leaf lock and are copied out. Rows say name, kind, default, bounds, and whether the directive can be
 * set while running; parsing, CONFIG GET, SET, REWRITE, conf/kelvin.conf's test and docs derive from them.
 *
 * Threads: every function may be called from any thread. Changes (load, set, rewrite, config_on_change) come one after
 * another, under a mutex that is held while callbacks run; reading never waits for it.
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

/* CONFIG_PORT, CONFIG_MAXMEMORY ...: the directive's name in capitals. */
enum config_id {
#define CONFIG_ROW(id, ...) CONFIG_##id,
#include "config/config.def"
#undef CONFIG_ROW
    CONFIG_COUNT
};


/* What config_number answers for enumerations: the place of the name in its row. */
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
/* shutdown-on-sigint, shutdown-on-sigterm: these or-ed together; 0 is the default behaviour. */
enum config_shutdown {
    CONFIG_SHUTDOWN_SAVE = 1,
    CONFIG_SHUTDOWN_NOSAVE = 2,
    CONFIG_SHUTDOWN_NOW = 4,
    CONFIG_SHUTDOWN_FORCE = 8,
};
/* notify-keyspace-events: bit n is the n-th letter of CONFIG_EVENT_LETTERS. A stands for the first ten. */
#define CONFIG_EVENT_LETTERS "g$lshzxetdnKEm"
enum { CONFIG_EVENTS_ALL = 0x3ff };     /* g$lshzxetd: what A means */

struct config {
    _Atomic int64_t numbers[CONFIG_COUNT];
    _Atomic int64_t output_limits[3][3];
    struct config_private *more;
};

struct config *config_create(void);                 /* all defaults; remembers the working directory */
void config_destroy(struct config *config);

/* Number, boolean (0, 1), enumeration (its value), memory (bytes), time in the row's unit; maxmemory-clients in bytes also
 * when it was given as a percentage of maxmemory; for events and shutdown-on-* the bits above. Other lists and strings: 0. */
static inline int64_t config_number(const struct config *config, enum config_id id)
{
    return atomic_load_explicit(&config->numbers[id], memory_order_relaxed);
}

/* client-output-buffer-limit; bytes and seconds, 0 is no limit. The three are not read as one: during a CONFIG SET one may
 * be old and one new. */
enum config_client_class { CONFIG_CLIENT_NORMAL, CONFIG_CLIENT_REPLICA, CONFIG_CLIENT_PUBSUB };
enum config_output_limit { CONFIG_OUTPUT_HARD, CONFIG_OUTPUT_SOFT, CONFIG_OUTPUT_SOFT_SECONDS };
static inline int64_t config_output_limit(const struct config *config, enum config_client_class class,
    enum config_output_limit limit)
{
    return atomic_load_explicit(&config->output_limits[class][limit], memory_order_relaxed);
}

/* A copy, freed with mem_free; never NULL. The text CONFIG GET shows, for any row, for example "127.0.0.1 ::1" for bind and
 * "3600 1 300 100" for save. `dir` is an absolute path; entering it is left to the caller. */
char *config_string(struct config *config, enum config_id id);

/* The name as CONFIG GET shows it. */
const char *config_name(enum config_id id);

/* rename-command, user, loadmodule: each line that was given, without the directive's name, in order. */
typedef void config_line(void *context, const struct bytes *words, int count);
void config_lines(struct config *config, enum config_id id, config_line *line, void *context);

/* One line of a file or one --option: name and values. On failure `message` says why, and
 * nothing has changed. Directives that may be repeated (save, rename-command, loadmodule, user ...) add up while loading.
 * No callbacks are called. */
bool config_load(struct config *config, const struct bytes *words, int word_count, struct message *message);

/* A whole file's text, with includes; the message has file, line number, line and reason. `name` is for messages. What
 * stands before the bad line has been taken over. Paths are relative to the directory the process was started in. */
bool config_load_text(struct config *config, const char *name, struct bytes text, struct message *message);
/* The same for a file, and makes the first one so loaded the one that config_rewrite writes. */
bool config_load_file(struct config *config, const char *path, struct message *message);

/* Rules between directives, once all are loaded. config_set asks it too. False: `message` says what does not fit. */
bool config_check(struct config *config, struct message *message);

/* CONFIG SET of several at once: all or nothing. Applies in order; if a callback refuses, those before are set back.
 * `message` is the text after "-ERR ", exactly as Redis 7.2 words it. config_set_local is for a client on this machine,
 * for whom `enable-protected-configs local` opens the protected directives. */
bool config_set(struct config *config, const struct bytes *names, const struct bytes *values, int count, struct message *message);
bool config_set_local(struct config *config, const struct bytes *names, const struct bytes *values, int count,
    struct message *message);

/* Called (by config_set only) after the value has changed; false and a message (the reason alone, at most 150 bytes)
 * refuses it. One a row. It runs on the thread that sets, with the mutex for changes held: it may read the configuration,
 * but must not load, set, rewrite or register. When a later row of the same CONFIG SET is refused it is called once more
 * with the old value back in place, and then its answer does not matter. */
typedef bool config_changed(void *context, enum config_id id, struct message *message);
void config_on_change(struct config *config, enum config_id id, config_changed *changed, void *context);

/* CONFIG GET: each row whose name matches one of the patterns, once, with its value as Redis prints it. A second name
 * (slaveof) is listed like a name of its own. A pattern without wildcards comes back as it was written. */
typedef void config_found(void *context, const char *name, struct bytes value);
void config_get(struct config *config, const struct bytes *patterns, int count, config_found *found, void *context);

/* CONFIG REWRITE: keeps comments and order of the file it was loaded from, changes lines, appends what is new,
 * drops what is back at its default. Written aside, synced and renamed. False: `message` says why. */
bool config_rewrite(struct config *config, struct message *message);
const char *config_file(const struct config *config);       /* absolute path, NULL when there was none */

/* Directives that were given a value other than the default but do nothing yet: for the log at start. */
void config_unused(struct config *config, config_found *found, void *context);

/* Directives that ask for what Kelvin does not have (TLS, ACL, replication ...), so that no value but the default will do. */
bool config_check_absent(struct config *config, struct message *message);     /* false: one has; the message names it */
void config_refuse_absent(struct config *config);                   /* CONFIG SET refuses from now on */

#endif
