/* Rules: what a user may do, as one immutable snapshot.
 *
 *     rules = enabled, passwords, selector { selector }
 *     selector = commands (one bit each), key patterns, channel patterns
 *
 * A call is allowed if one selector allows its command, its keys and its channels together; the first selector, the user's own, is not
 * special.
 *
 * Threads: any. Lifetime: as long as the user that it was taken from is held and, after a change has replaced it, until that change is
 * released (acl/change.h).
 */
#ifndef KELVIN_ACL_RULES_H
#define KELVIN_ACL_RULES_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "call/call.h"
#include "call/command.h"

struct acl_rules;

/* One call. `command` is the subcommand's row if there is one, as the call runs it. `keys` are those of command_keys, with their flags
 * for these arguments; none if the arguments are invalid: then the command replies its error. Everything is borrowed. */
struct acl_request {
    const struct command *command;
    const struct bytes *args;
    int arg_count;
    const struct call_key *keys;
    int key_count;
};

enum acl_verdict { ACL_ALLOWED, ACL_DENIED_COMMAND, ACL_DENIED_KEY, ACL_DENIED_CHANNEL };

/* Enabled, and every command, key and channel is allowed: nothing has to be checked. */
bool acl_rules_allow_all(const struct acl_rules *rules);
bool acl_rules_are_enabled(const struct acl_rules *rules);
bool acl_rules_need_no_password(const struct acl_rules *rules);        /* nopass */

/* `argument` is the index of the argument that was denied, 0 for the command. If selectors deny different things, the verdict is that of
 * the one that came furthest: channel before key before command. Whether the user is enabled does not matter: `off` concerns AUTH only. */
enum acl_verdict acl_check(const struct acl_rules *rules, const struct acl_request *request, int *argument);

/* SORT's BY and GET: one selector allows the request, and every key for reading. */
bool acl_rules_read_every_key(const struct acl_rules *rules, const struct acl_request *request);

/* One selector allows the channel. A pattern has to be among the user's patterns literally. */
enum acl_channel { ACL_CHANNEL, ACL_CHANNEL_PATTERN };
bool acl_rules_allow_channel(const struct acl_rules *rules, struct bytes channel, enum acl_channel kind);

/* Appends the text of a denial, without a code. Brief, as in a -NOPERM error: "No permissions to access a key". Full, as DRYRUN returns
 * it: names the user and the key. */
enum acl_denial { ACL_DENIAL_BRIEF, ACL_DENIAL_FULL };
void acl_denial_text(struct buffer *out, struct bytes user, const struct acl_request *request, enum acl_verdict verdict, int argument,
    enum acl_denial form);

#endif
