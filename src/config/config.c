#include "config/config.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/text.h"
#include "config/config_private.h"
#include "config/config_words.h"

/* -- creating and destroying -- */

static char *working_directory(void)
{
    char *real = realpath(".", NULL);
    char *home = mem_string(bytes_of_string(real ? real : "/"));    /* "/" if it was removed; file operations report it later */

    free(real);
    return home;
}

struct config *config_create_at(const char *home)
{
    struct config *config = mem_zalloc(sizeof(*config));
    struct config_private *more = config->more = mem_zalloc(sizeof(*more));

    mutex_init(&more->changing);
    mutex_init(&more->reading);
    more->home = mem_string(bytes_of_string(home));
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        struct bytes word = bytes_of_string(row->initial);
        struct config_reading reading = { .home = home };
        struct config_value value = { 0 };
        struct message message;

        if (row->kind == CONFIG_DIR_KIND)       /* must not fail, even if the directory no longer exists */
            value.text = mem_string(bytes_of_string(home));
        else if (config_row_is_parameter(row) && row->kind != CONFIG_REPLICAOF_KIND)
            CHECK(config_value_read(row, &word, 1, &reading, &value, &message));
        else
            value.text = mem_string(word);
        more->initial[id] = config_value_copy(&value);
        config_exchange(config, id, &value);
    }
    return config;
}

struct config *config_create(void)
{
    char *home = working_directory();
    struct config *config = config_create_at(home);

    mem_free(home);
    return config;
}

void config_destroy(struct config *config)
{
    if (!config)
        return;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        config_value_release(&config->more->values[id]);
        config_value_release(&config->more->initial[id]);
    }
    mutex_release(&config->more->changing);
    mutex_release(&config->more->reading);
    for (int i = 0; i < config->more->place_count; i++)
        mem_free(config->more->places[i].file);
    mem_free(config->more->places);
    mem_free(config->more->home);
    mem_free(config->more->file);
    mem_free(config->more);
    mem_free(config);
}

/* -- values -- */

static void publish_number(struct config *config, enum config_id id, int64_t number)
{
    atomic_store_explicit(&config->numbers[id], number, memory_order_relaxed);
}

/* A percentage of maxmemory changes with it. Without maxmemory there is no limit, which is 0. */
static void publish_percentages(struct config *config)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        int64_t percent = -config->more->values[id].number;

        if (config_row(id)->kind == CONFIG_PERCENT_MEMORY_KIND && percent > 0)
            publish_number(config, id, (int64_t)((double)config_number(config, CONFIG_MAXMEMORY) * (double)percent / 100));
    }
}

void config_exchange(struct config *config, enum config_id id, struct config_value *value)
{
    struct config_private *more = config->more;
    const struct config_row *row = config_row(id);
    struct config_value old;

    mutex_lock(&more->reading);
    old = more->values[id];
    more->values[id] = *value;
    if (row->kind != CONFIG_PERCENT_MEMORY_KIND || value->number >= 0)
        publish_number(config, id, value->number);
    if (row->kind == CONFIG_PERCENT_MEMORY_KIND || id == CONFIG_MAXMEMORY)
        publish_percentages(config);
    if (row->kind == CONFIG_OUTPUT_LIMITS_KIND) {
        int64_t limits[3][3];

        config_output_limits_read(value->text, limits);
        for (int i = 0; i < 9; i++)
            atomic_store_explicit(&config->output_limits[i / 3][i % 3], limits[i / 3][i % 3], memory_order_relaxed);
    }
    mutex_unlock(&more->reading);
    *value = old;
}

/* Replaces the buffer's content. */
static void print_current(struct config *config, enum config_id id, struct buffer *out)
{
    out->size = 0;
    mutex_lock(&config->more->reading);
    config_value_print(config_row(id), &config->more->values[id], out);
    mutex_unlock(&config->more->reading);
}

char *config_string(struct config *config, enum config_id id)
{
    struct buffer text = { 0 };

    print_current(config, id, &text);
    buffer_append_u8(&text, 0);
    return text.data;
}

const char *config_name(enum config_id id)
{
    return config_row(id)->name;
}

const char *config_file(const struct config *config)
{
    return config->more->file;
}

void config_lines(struct config *config, enum config_id id, config_line *line, void *context)
{
    char *lines = config_string(config, id);
    struct bytes rest = bytes_of_string(lines), one;

    while (config_line_next(&rest, &one)) {
        struct config_words words;

        CHECK(config_words_split(one, &words));
        line(context, words.items, words.count);
        config_words_release(&words);
    }
    mem_free(lines);
}

void config_line_place(struct config *config, enum config_id id, int index, struct buffer *place)
{
    const struct config_private *more = config->more;

    mutex_lock(&config->more->changing);
    for (int i = 0; i < more->place_count; i++) {
        if (more->places[i].id != id || index-- > 0)
            continue;
        if (more->places[i].file == NULL)
            buffer_append_string(place, "the command line");
        else
            buffer_append_format(place, "%s:%d", more->places[i].file, more->places[i].line);
        break;
    }
    mutex_unlock(&config->more->changing);
}

static void set_text(struct config *config, enum config_id id, char *text)
{
    struct config_value value = { .text = text };

    mutex_lock(&config->more->changing);
    config_exchange(config, id, &value);
    mutex_unlock(&config->more->changing);
    config_value_release(&value);
}

void config_set_lines(struct config *config, enum config_id id, struct bytes lines)
{
    struct buffer text = { 0 };
    struct bytes line;

    while (config_line_next(&lines, &line)) {
        struct config_words words;

        if (text.size > 0)
            buffer_append_u8(&text, '\n');
        config_words_list(line, &words);
        for (int i = 0; i < words.count; i++) {
            if (i > 0)
                buffer_append_u8(&text, ' ');
            config_words_quote(&text, words.items[i]);
        }
        config_words_release(&words);
    }
    set_text(config, id, mem_string(buffer_bytes(&text)));
    buffer_release(&text);
}

void config_set_replicaof(struct config *config, struct bytes host, int port)
{
    struct buffer text = { 0 };

    if (host.size > 0) {
        config_words_quote(&text, host);
        buffer_append_format(&text, " %d", port);
    }
    set_text(config, CONFIG_REPLICAOF, mem_string(buffer_bytes(&text)));
    buffer_release(&text);
}

int config_database_count(const struct config *config)
{
    return (int)config_number(config, config_number(config, CONFIG_CLUSTER_ENABLED) ? CONFIG_CLUSTER_DATABASES : CONFIG_DATABASES);
}

bool config_replicaof(struct config *config, struct buffer *host, int *port)
{
    char *text = config_string(config, CONFIG_REPLICAOF);
    struct config_words words;
    int64_t number;
    bool is_set;

    CHECK(config_words_split(bytes_of_string(text), &words));
    is_set = words.count == 2 && text_to_int(words.items[1], &number);
    if (is_set) {
        buffer_append_bytes(host, words.items[0]);
        *port = (int)number;
    }
    config_words_release(&words);
    mem_free(text);
    return is_set;
}

/* -- CONFIG SET -- */

struct change {
    const struct config_row *row;
    const char *name;               /* as spelled in the table; shown in errors */
    struct config_value value;      /* the new value; after config_exchange the old one */
    bool differs;
};

/* `reason` may point into the message. */
static bool refuse_change(const struct change *change, const char *reason, struct message *message)
{
    return config_refuse(message, "CONFIG SET failed (possibly related to argument '%s')%s%s", change->name,
        *reason != '\0' ? " - " : "", reason);
}

static bool is_protected(struct config *config, const struct config_row *row, bool local)
{
    int64_t permission = config_number(config, CONFIG_ENABLE_PROTECTED_CONFIGS);

    return (row->flags & CONFIG_FLAG_PROTECTED) && permission != CONFIG_PERMISSION_YES &&
           !(permission == CONFIG_PERMISSION_LOCAL && local);
}

/* All checks that do not depend on the values. */
static bool changes_find(struct config *config, const struct bytes *names, int count, bool local,
    struct change *changes, struct message *message)
{
    for (int i = 0; i < count; i++) {
        struct change *change = &changes[i];

        change->row = config_row_find(names[i], &change->name);
        if (!change->row || !config_row_is_parameter(change->row))
            return config_refuse(message, "Unknown option or number of arguments for CONFIG SET - '%.*s'",
                (int)(names[i].size < 200 ? names[i].size : 200), names[i].data);
        if (!(change->row->flags & CONFIG_FLAG_LIVE))
            return refuse_change(change, "can't set immutable config", message);
        if (is_protected(config, change->row, local))
            return refuse_change(change, "can't set protected config", message);
        for (int other = 0; other < i; other++)
            if (changes[other].name == change->name)
                return refuse_change(change, "duplicate parameter", message);
    }
    return true;
}

static bool changes_read(struct config *config, const struct bytes *values, int count, struct change *changes,
    struct message *message)
{
    for (int i = 0; i < count; i++) {
        enum config_id id = changes[i].row->id;
        bool adds = changes[i].row->kind == CONFIG_OUTPUT_LIMITS_KIND;
        struct config_reading reading = {
            .base = adds ? config->more->values[id].text : NULL,
            .home = config->more->home,
        };
        struct message reason;

        if (!config_value_read(changes[i].row, &values[i], 1, &reading, &changes[i].value, &reason))
            return refuse_change(&changes[i], reason.text, message);
    }
    return true;
}

static bool call_watcher(struct config *config, const struct change *change, struct message *reason)
{
    struct config_watcher *watcher = &config->more->watchers[change->row->id];

    *reason = (struct message){ "" };
    return !change->differs || !watcher->changed || watcher->changed(watcher->context, change->row->id, reason);
}

static void changes_exchange(struct config *config, int count, struct change *changes)
{
    for (int i = 0; i < count; i++) {
        changes[i].differs = changes[i].row->flags & CONFIG_FLAG_NAMES_FILE ||
            !config_value_equal(&changes[i].value, &config->more->values[changes[i].row->id]);
        config_exchange(config, changes[i].row->id, &changes[i].value);
    }
}

/* Restores all values, the last first, because a row may occur twice, under its name and its alias. */
static void changes_undo(struct config *config, int count, struct change *changes)
{
    for (int i = count; i-- > 0;)
        config_exchange(config, changes[i].row->id, &changes[i].value);
}

/* Returns the change that violates the rule of config_check. */
static const struct change *changes_culprit(int count, const struct change *changes)
{
    for (int i = 0; i < count; i++)
        if (changes[i].row->id == CONFIG_TIER_LOW_WATERMARK || changes[i].row->id == CONFIG_TIER_HIGH_WATERMARK ||
            changes[i].row->id == CONFIG_TIER_COMPRESSION || changes[i].row->id == CONFIG_TIER_FULL_POLICY)
            return &changes[i];
    return &changes[0];
}

static bool changes_apply(struct config *config, int count, struct change *changes, struct message *message)
{
    struct message reason, ignored;

    changes_exchange(config, count, changes);
    if (!config_check(config, &reason)) {
        changes_undo(config, count, changes);
        return refuse_change(changes_culprit(count, changes), reason.text, message);
    }
    for (int i = 0; i < count; i++) {
        if (call_watcher(config, &changes[i], &reason))
            continue;
        refuse_change(&changes[i], reason.text, message);
        changes_undo(config, count, changes);
        while (i-- > 0)
            call_watcher(config, &changes[i], &ignored);
        return false;
    }
    for (int i = 0; i < count; i++)
        config->more->given[changes[i].row->id] = true;
    return true;
}

static bool set_all(struct config *config, const struct bytes *names, const struct bytes *values, int count, bool local,
    struct message *message)
{
    struct change *changes = mem_zalloc((size_t)(count > 0 ? count : 1) * sizeof(*changes));
    bool done;

    mutex_lock(&config->more->changing);
    done = changes_find(config, names, count, local, changes, message) &&
           changes_read(config, values, count, changes, message) &&
           (count == 0 || changes_apply(config, count, changes, message));
    mutex_unlock(&config->more->changing);
    for (int i = 0; i < count; i++)
        config_value_release(&changes[i].value);
    mem_free(changes);
    return done;
}

bool config_set(struct config *config, const struct bytes *names, const struct bytes *values, int count, struct message *message)
{
    return set_all(config, names, values, count, false, message);
}

bool config_set_local(struct config *config, const struct bytes *names, const struct bytes *values, int count,
    struct message *message)
{
    return set_all(config, names, values, count, true, message);
}

void config_on_change(struct config *config, enum config_id id, config_changed *changed, void *context)
{
    CHECK(config_row(id)->flags & CONFIG_FLAG_LIVE);
    mutex_lock(&config->more->changing);
    config->more->watchers[id] = (struct config_watcher){ changed, context };
    mutex_unlock(&config->more->changing);
}

void config_on_problem(struct config *config, config_problem *problem, void *context)
{
    config->more->problem = problem;
    config->more->problem_context = context;
}

bool config_go_on(struct config *config, const struct message *message)
{
    if (config->more->problem == NULL)
        return false;
    config->more->problem(config->more->problem_context, message->text);
    return true;
}

bool config_check(struct config *config, struct message *message)
{
    if (config_number(config, CONFIG_TIER_LOW_WATERMARK) > config_number(config, CONFIG_TIER_HIGH_WATERMARK)) {
        config_refuse(message, "tier-low-watermark must not be above tier-high-watermark");
        if (!config_go_on(config, message))
            return false;
    }
    if (config_number(config, CONFIG_CLUSTER_ENABLED) && config->more->given[CONFIG_REPLICAOF] && config->more->values[CONFIG_REPLICAOF].text[0] != '\0') {
        config_refuse(message, "replicaof directive not allowed in cluster mode");
        if (!config_go_on(config, message))
            return false;
    }
    if (config_number(config, CONFIG_CLUSTER_CONTROL) == CONFIG_CONTROL_MANAGED && !config_number(config, CONFIG_CLUSTER_ENABLED)) {
        config_refuse(message, "cluster-control managed needs cluster-enabled yes");
        if (!config_go_on(config, message))
            return false;
    }
    if (config->more->values[CONFIG_USER].text[0] != '\0' && config->more->values[CONFIG_ACLFILE].text[0] != '\0') {
        config_refuse(message, "users are defined by user lines and by aclfile: use one of the two");
        return config_go_on(config, message);
    }
    return true;
}

/* -- CONFIG GET -- */

struct get {
    config_found *found;
    void *context;
    struct buffer value;
    bool seen[CONFIG_COUNT][2];     /* by the first name, by the second */
};

static void get_one(struct config *config, struct get *get, enum config_id id, bool alias, const char *name)
{
    if (get->seen[id][alias])
        return;
    get->seen[id][alias] = true;
    print_current(config, id, &get->value);
    get->found(get->context, name, buffer_bytes(&get->value));
}

static void get_exact(struct config *config, struct get *get, struct bytes name)
{
    const char *spelling;
    const struct config_row *row = config_row_find(name, &spelling);
    char *as_written;

    if (!row || !config_row_is_parameter(row))
        return;
    as_written = mem_string(name);
    get_one(config, get, row->id, spelling != row->name, as_written);
    mem_free(as_written);
}

static void get_matching(struct config *config, struct get *get, struct bytes pattern)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);

        if (!config_row_is_parameter(row) || (row->flags & CONFIG_FLAG_HIDDEN))
            continue;
        if (text_matches(pattern, bytes_of_string(row->name), TEXT_CASE_IGNORED))
            get_one(config, get, id, false, row->name);
        if (row->alias && text_matches(pattern, bytes_of_string(row->alias), TEXT_CASE_IGNORED))
            get_one(config, get, id, true, row->alias);
    }
}

static bool has_wildcard(struct bytes pattern)
{
    for (size_t i = 0; i < pattern.size; i++)
        if (pattern.data[i] == '*' || pattern.data[i] == '?' || pattern.data[i] == '[')
            return true;
    return false;
}

void config_get(struct config *config, const struct bytes *patterns, int count, config_found *found, void *context)
{
    struct get get = { .found = found, .context = context };

    for (int i = 0; i < count; i++) {
        if (has_wildcard(patterns[i]))
            get_matching(config, &get, patterns[i]);
        else
            get_exact(config, &get, patterns[i]);
    }
    buffer_release(&get.value);
}

static bool has_default(struct config *config, enum config_id id, struct message *message)
{
    struct config_private *more = config->more;
    bool same;

    mutex_lock(&more->reading);
    same = config_value_equal(&more->values[id], &more->initial[id]);
    mutex_unlock(&more->reading);
    return same || config_refuse(message, "not supported by Kelvin yet, the only value accepted is '%s'", config_row(id)->initial);
}

static bool only_the_default(void *context, enum config_id id, struct message *message)
{
    return has_default(context, id, message);
}

bool config_check_absent(struct config *config, struct message *message)
{
    struct message reason;

    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (!(config_row(id)->flags & CONFIG_FLAG_ABSENT) || has_default(config, (enum config_id)id, &reason))
            continue;
        config_refuse(message, "'%s': %s", config_row(id)->name, reason.text);
        if (!config_go_on(config, message))
            return false;
    }
    return true;
}

void config_refuse_absent(struct config *config)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (config_row(id)->flags & CONFIG_FLAG_ABSENT && config_row(id)->flags & CONFIG_FLAG_LIVE)
            config_on_change(config, (enum config_id)id, only_the_default, config);
    }
}

void config_on_change_of_unused(struct config *config, config_changed *changed, void *context)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if ((config_row(id)->flags & (CONFIG_FLAG_UNUSED | CONFIG_FLAG_ABSENT | CONFIG_FLAG_LIVE)) == (CONFIG_FLAG_UNUSED | CONFIG_FLAG_LIVE))
            config_on_change(config, (enum config_id)id, changed, context);
    }
}

void config_unused(struct config *config, config_found *found, void *context)
{
    struct config_private *more = config->more;
    struct buffer value = { 0 };

    mutex_lock(&more->changing);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const struct config_row *row = config_row(id);
        bool differs = row->kind == CONFIG_OBSOLETE_KIND || !config_value_equal(&more->values[id], &more->initial[id]);

        if ((row->flags & (CONFIG_FLAG_UNUSED | CONFIG_FLAG_ABSENT)) != CONFIG_FLAG_UNUSED || !more->given[id] || !differs)
            continue;
        print_current(config, id, &value);
        found(context, row->name, buffer_bytes(&value));
    }
    mutex_unlock(&more->changing);
    buffer_release(&value);
}
