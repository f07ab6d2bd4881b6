/* Config: every directive of Redis 7.2 and Kelvin's own, as rows of admin/config.def.
 *
 * Numbers, booleans and enumerations are read anywhere, at any time, with one relaxed atomic load (config_number).
 * Strings are behind a leaf lock and are copied out. Rows say name, kind, default, bounds, and whether the directive can be
 * set while running; parsing, CONFIG GET, SET, REWRITE, conf/kelvin.conf's test and docs derive from them.
 */
#ifndef KELVIN_ADMIN_CONFIG_H
#define KELVIN_ADMIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

enum config_id {
#define CONFIG_ROW(id, ...) CONFIG_##id,
#include "admin/config.def"
#undef CONFIG_ROW
    CONFIG_COUNT
};

struct config;

struct config *config_create(void);                 /* all defaults */
void config_destroy(struct config *config);

/* Number, boolean (0, 1), enumeration (its value), memory (bytes; a percentage of RAM is resolved), time in the row's unit. */
int64_t config_number(const struct config *config, enum config_id id);
/* A copy, freed with mem_free; never NULL. For lists (bind, save, ...) the canonical text as CONFIG GET shows it. */
char *config_string(struct config *config, enum config_id id);

/* One line of a file or one --option: name and values. On failure `message` (256 bytes) says why, and nothing has
 * changed. Directives that may be repeated (save, rename-command, loadmodule, user ...) add up while loading. */
bool config_load(struct config *config, const struct bytes *words, int word_count, char *message);
/* A whole file's text, with includes; the message has file and line. `name` is for messages. */
bool config_load_text(struct config *config, const char *name, struct bytes text, char *message);
bool config_load_file(struct config *config, const char *path, char *message);

/* CONFIG SET of several at once: all or nothing. Applies in order; if a callback refuses, those before are set back.
 * `message` is the text after "-ERR ", exactly as Redis 7.2 words it. */
bool config_set(struct config *config, const struct bytes *names, const struct bytes *values, int count, char *message);

/* Called (by config_set only) after the value has changed; false and a message refuses it. One a row. */
typedef bool config_changed(void *context, enum config_id id, char *message);
void config_on_change(struct config *config, enum config_id id, config_changed *changed, void *context);

/* CONFIG GET: each row whose name matches one of the patterns, once, with its value as Redis prints it. */
typedef void config_found(void *context, const char *name, struct bytes value);
void config_get(struct config *config, const struct bytes *patterns, int count, config_found *found, void *context);

/* CONFIG REWRITE: keeps comments and order of the file it was loaded from, changes lines, appends what is new,
 * drops what is back at its default. Written aside, synced and renamed. False: `message` says why. */
bool config_rewrite(struct config *config, char *message);
const char *config_file(const struct config *config);       /* absolute path, NULL when there was none */

/* Directives that were given but do nothing yet: for the log at start. */
void config_unused(struct config *config, config_found *found, void *context);

#endif
