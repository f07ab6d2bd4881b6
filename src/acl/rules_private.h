/* The body of rules, and how they are made. Private to acl/: see acl/rules.h for what they are. */
#ifndef KELVIN_ACL_RULES_PRIVATE_H
#define KELVIN_ACL_RULES_PRIVATE_H

#include "acl/selector.h"
#include "base/digest.h"

struct password {
    unsigned char digest[SHA256_SIZE];
};

struct acl_rules {
    const struct command_table *commands;
    bool channels_by_default;           /* acl-pubsub-default when they were made: `reset` and new selectors follow it */
    bool enabled, needs_no_password, skips_sanitizing;
    bool allow_all;                     /* see acl_rules_allow_all; set by rules_finish */
    struct password *passwords;
    size_t password_count;
    struct selector *selectors;         /* at least one: the user's own */
    size_t selector_count;
};

/* A new user: disabled, without passwords, allows nothing. */
struct acl_rules *rules_create(const struct command_table *commands, bool channels_by_default);
/* The default user, as long as nothing else is configured: on nopass ~* &* +@all. */
struct acl_rules *rules_create_unlimited(const struct command_table *commands);
struct acl_rules *rules_copy(const struct acl_rules *from, bool channels_by_default);
void rules_destroy(struct acl_rules *rules);        /* NULL is fine */

/* Applies the words of SETUSER, from left to right. False: `error` has the reason, with the word, and the rules are to be destroyed. */
bool rules_apply(struct acl_rules *rules, const struct bytes *words, int count, struct buffer *error);
/* One word, whose parentheses are closed. NULL: done; else the reason. */
const char *rules_apply_word(struct acl_rules *rules, struct bytes word);
/* A selector may have been split at its spaces. `joined` gets the first word, or the words of a selector, and their number is returned;
 * 0: the parenthesis is not closed. */
int rules_join(const struct bytes *words, int count, struct buffer *joined);
/* Before they are published. */
void rules_finish(struct acl_rules *rules);

/* The digest is compared with that of each password, without stopping at the first that is equal. */
bool rules_accept_password(const struct acl_rules *rules, const unsigned char digest[SHA256_SIZE]);

#endif
