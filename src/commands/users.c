#include "commands/users.h"

#include "acl/acl_file.h"
#include "acl/change.h"
#include "base/mem.h"
#include "engine/access.h"
#include "engine/engine.h"

/* The user lines, on their way into an ACL. */
struct lines {
    struct config *config;
    struct acl *acl;
    struct log *log;            /* for users that are disabled; NULL: they are not reported */
    int count;
    struct buffer error;        /* empty: none so far */
};

static bool channels_by_default(const struct config *config)
{
    return config_number(config, CONFIG_ACL_PUBSUB_DEFAULT) == CONFIG_PUBSUB_DEFAULT_ALL;
}

/* Before there are clients, or of an ACL that is not in use. */
static void apply(struct acl_change *change)
{
    acl_change_publish(change);
    acl_change_release(change);
}

static void refuse_line(struct lines *lines, struct bytes name, struct bytes reason)
{
    config_line_place(lines->config, CONFIG_USER, lines->count, &lines->error);
    buffer_append_string(&lines->error, ": user '");
    buffer_append_bytes(&lines->error, name);
    buffer_append_string(&lines->error, "': ");
    buffer_append_bytes(&lines->error, reason);
}

static void warn_if_disabled(const struct lines *lines, struct bytes name)
{
    struct acl_user *user = acl_find(lines->acl, name);

    if (lines->log != NULL && !acl_rules_are_enabled(acl_user_rules(user)))
        log_write(lines->log, LOG_LEVEL_NOTICE, "The user '%.*s' is disabled (there is no 'on' modifier in the user description). "
            "Make sure this is not a configuration error.", (int)name.size, name.data);
    acl_user_release(user);
}

static void apply_line(void *context, const struct bytes *words, int count)
{
    struct lines *lines = context;
    struct bytes *rules;
    struct acl_change *change = NULL;
    struct buffer reason = { 0 };

    if (lines->error.size > 0)
        return;
    rules = mem_alloc((size_t)count * sizeof(*rules));
    rules[0] = BYTES("reset");
    for (int i = 1; i < count; i++)
        rules[i] = words[i];
    if (acl_name_is_valid(words[0]))
        change = acl_change_set_user(lines->acl, words[0], rules, count, channels_by_default(lines->config), &reason);
    else
        buffer_append_string(&reason, "Spaces not allowed in ACL usernames");
    if (change != NULL) {
        apply(change);
        warn_if_disabled(lines, words[0]);
    } else {
        refuse_line(lines, words[0], buffer_bytes(&reason));
    }
    lines->count++;
    buffer_release(&reason);
    mem_free(rules);
}

static void apply_password(struct config *config, struct acl *acl)
{
    char *password = config_string(config, CONFIG_REQUIREPASS);

    if (password[0] != '\0')
        apply(acl_change_require_password(acl, bytes_of_string(password)));
    mem_free(password);
}

static bool password_changed(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;
    char *password = config_string(engine->config, CONFIG_REQUIREPASS);

    (void)id;
    (void)message;
    access_publish_soon(engine, acl_change_require_password(engine->users.acl, bytes_of_string(password)));
    mem_free(password);
    return true;
}

/* As in Redis, requirepass does not count when there is a file; but an open server should not come as a surprise. */
static void warn_if_open(struct engine *engine)
{
    char *password = config_string(engine->config, CONFIG_REQUIREPASS);

    if (password[0] != '\0' && acl_rules_need_no_password(acl_user_rules(acl_default(engine->users.acl))))
        log_write(engine->log, LOG_LEVEL_WARNING, "requirepass has no effect: by the ACL file, or the user lines, the default user needs "
            "no password. Add a line for it.");
    mem_free(password);
}

static bool load_file(struct config *config, struct acl *acl, const char *path, struct buffer *error)
{
    struct acl_change *change = acl_change_load_file(acl, path, channels_by_default(config), error);

    if (change != NULL)
        apply(change);
    return change != NULL;
}

/* Makes the users of the configuration in an ACL that has only the default one. */
static bool load_users(struct config *config, struct acl *acl, struct log *log, struct buffer *error)
{
    struct lines lines = { .config = config, .acl = acl, .log = log };
    char *path = config_string(config, CONFIG_ACLFILE);
    bool done;

    apply_password(config, acl);
    if (path[0] != '\0') {
        done = load_file(config, acl, path, error);
    } else {
        config_lines(config, CONFIG_USER, apply_line, &lines);
        done = lines.error.size == 0;
        buffer_append_bytes(error, buffer_bytes(&lines.error));
        buffer_release(&lines.error);
    }
    mem_free(path);
    return done;
}

bool users_load(struct engine *engine)
{
    struct buffer error = { 0 };
    bool done = load_users(engine->config, engine->users.acl, engine->log, &error);

    if (done)
        warn_if_open(engine);
    else
        log_write(engine->log, LOG_LEVEL_WARNING, "The server does not start because of ACL errors: %.*s", (int)error.size, error.data);
    buffer_release(&error);
    config_on_change(engine->config, CONFIG_REQUIREPASS, password_changed, engine);
    return done;
}

bool users_check(struct config *config, const struct command_table *commands, struct buffer *error)
{
    struct acl *acl = acl_create(commands);
    bool done = load_users(config, acl, NULL, error);

    acl_destroy(acl);
    return done;
}

/* The users that a start with this configuration would make, as the text of a file. */
static void print_configured(struct engine *engine, struct buffer *out)
{
    struct lines lines = { .config = engine->config, .acl = acl_create(engine->commands) };

    apply_password(engine->config, lines.acl);
    config_lines(engine->config, CONFIG_USER, apply_line, &lines);
    acl_file_print(out, lines.acl);
    buffer_release(&lines.error);
    acl_destroy(lines.acl);
}

/* The lines of a file without the word "user". */
static void set_lines(struct engine *engine, struct bytes text)
{
    struct buffer lines = { 0 };

    for (size_t at = 0; at < text.size;) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t next = (size_t)(end - text.data) + 1, skipped = sizeof("user ") - 1;

        buffer_append(&lines, text.data + at + skipped, next - at - skipped);
        at = next;
    }
    config_set_lines(engine->config, CONFIG_USER, buffer_bytes(&lines));
    buffer_release(&lines);
}

void users_note(struct engine *engine)
{
    struct buffer running = { 0 }, configured = { 0 };
    char *path = config_string(engine->config, CONFIG_ACLFILE);

    if (path[0] == '\0') {
        acl_file_print(&running, engine->users.acl);
        print_configured(engine, &configured);
        if (!bytes_equal(buffer_bytes(&running), buffer_bytes(&configured)))
            set_lines(engine, buffer_bytes(&running));
    }
    mem_free(path);
    buffer_release(&running);
    buffer_release(&configured);
}
