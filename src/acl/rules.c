#include "acl/rules.h"

#include "acl/rules_private.h"
#include "base/check.h"
#include "base/mem.h"

struct acl_rules *rules_create(const struct command_table *commands, bool channels_by_default)
{
    struct acl_rules *rules = mem_zalloc(sizeof(*rules));

    rules->commands = commands;
    rules->channels_by_default = channels_by_default;
    rules->selectors = mem_alloc(sizeof(*rules->selectors));
    rules->selector_count = 1;
    selector_init(&rules->selectors[0], commands, channels_by_default);
    return rules;
}

struct acl_rules *rules_create_unlimited(const struct command_table *commands)
{
    static const struct bytes words[] = { { "on", 2 }, { "nopass", 6 }, { "~*", 2 }, { "&*", 2 }, { "+@all", 5 } };
    struct acl_rules *rules = rules_create(commands, false);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        CHECK(rules_apply_word(rules, words[i]) == NULL);
    rules_finish(rules);
    return rules;
}

struct acl_rules *rules_copy(const struct acl_rules *from, bool channels_by_default)
{
    struct acl_rules *rules = mem_alloc(sizeof(*rules));

    *rules = *from;
    rules->channels_by_default = channels_by_default;
    rules->passwords = mem_alloc((from->password_count + 1) * sizeof(*rules->passwords));
    if (from->password_count > 0)
        memcpy(rules->passwords, from->passwords, from->password_count * sizeof(*rules->passwords));
    rules->selectors = mem_alloc(from->selector_count * sizeof(*rules->selectors));
    for (size_t i = 0; i < from->selector_count; i++)
        selector_copy(&rules->selectors[i], &from->selectors[i]);
    return rules;
}

void rules_destroy(struct acl_rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; i < rules->selector_count; i++)
        selector_release(&rules->selectors[i]);
    mem_free(rules->selectors);
    mem_free(rules->passwords);
    mem_free(rules);
}

void rules_finish(struct acl_rules *rules)
{
    rules->allow_all = false;
    for (size_t i = 0; i < rules->selector_count; i++) {
        selector_finish(&rules->selectors[i]);
        rules->allow_all |= rules->enabled && selector_allows_all(&rules->selectors[i], rules->commands);
    }
}

bool rules_accept_password(const struct acl_rules *rules, const unsigned char digest[SHA256_SIZE])
{
    bool found = rules->needs_no_password;

    for (size_t i = 0; i < rules->password_count; i++)
        found |= digest_sha256_equal(rules->passwords[i].digest, digest);
    return found;
}

bool acl_rules_allow_all(const struct acl_rules *rules)
{
    return rules->allow_all;
}

bool acl_rules_are_enabled(const struct acl_rules *rules)
{
    return rules->enabled;
}

bool acl_rules_need_no_password(const struct acl_rules *rules)
{
    return rules->needs_no_password;
}

static __attribute__((noinline)) enum acl_verdict check_all(const struct acl_rules *rules, const struct acl_request *request, int *argument)
{
    enum acl_verdict worst = ACL_DENIED_COMMAND;
    int furthest = 0;

    for (size_t i = 0; i < rules->selector_count; i++) {
        int denied;
        enum acl_verdict verdict = selector_check(&rules->selectors[i], request, &denied);

        if (verdict == ACL_ALLOWED)
            return verdict;
        if (verdict > worst || (verdict == worst && denied > furthest)) {
            worst = verdict;
            furthest = denied;
        }
    }
    *argument = furthest;
    return worst;
}

enum acl_verdict acl_check(const struct acl_rules *rules, const struct acl_request *request, int *argument)
{
    *argument = 0;
    return selector_allows_plainly(rules->selectors, request) ? ACL_ALLOWED : check_all(rules, request, argument);
}

bool acl_rules_read_every_key(const struct acl_rules *rules, const struct acl_request *request)
{
    for (size_t i = 0; i < rules->selector_count; i++) {
        const struct selector *selector = &rules->selectors[i];
        int denied;

        if (selector_check(selector, request, &denied) == ACL_ALLOWED && selector_reads_every_key(selector))
            return true;
    }
    return false;
}

bool acl_rules_allow_channel(const struct acl_rules *rules, struct bytes channel, enum acl_channel kind)
{
    for (size_t i = 0; i < rules->selector_count; i++) {
        if (selector_allows_channel(&rules->selectors[i], channel, kind))
            return true;
    }
    return false;
}

void acl_denial_text(struct buffer *out, struct bytes user, const struct acl_request *request, enum acl_verdict verdict, int argument,
    enum acl_denial form)
{
    const char *what = verdict == ACL_DENIED_KEY ? "key" : "channel";

    if (verdict == ACL_DENIED_COMMAND) {
        buffer_append_string(out, "User ");
        buffer_append_bytes(out, user);
        buffer_append_format(out, " has no permissions to run the '%s' command", request->command->name);
    } else if (form == ACL_DENIAL_BRIEF) {
        buffer_append_format(out, "No permissions to access a %s", what);
    } else {
        buffer_append_string(out, "User ");
        buffer_append_bytes(out, user);
        buffer_append_string(out, " has no permissions to access the '");
        buffer_append_bytes(out, request->args[argument]);
        buffer_append_format(out, "' %s", what);
    }
}
