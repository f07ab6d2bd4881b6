/* Describe: rules as text, in the order and the form of Redis 7.2.
 *
 *     on sanitize-payload #9f86... ~cached:* %R~log:* resetchannels &news -@all +get +@read (~tmp:* resetchannels -@all +set)
 *
 * The text of a user, applied to a user that was reset, makes the same rules. The rules of commands are in the order in which they were
 * given, without those that later ones made meaningless.
 */
#ifndef KELVIN_ACL_DESCRIBE_H
#define KELVIN_ACL_DESCRIBE_H

#include "acl/acl.h"
#include "base/buffer.h"
#include "base/digest.h"

/* Appends "user <name> <rules>", without a line end: a line of ACL LIST, of the ACL file, and of CONFIG REWRITE. */
void acl_describe(struct buffer *out, const struct acl_user *user);

/* For GETUSER. Flags: "on", "nopass", "sanitize-payload" ...: returns how many. */
enum { ACL_FLAG_COUNT = 3 };
size_t acl_describe_flags(const struct acl_rules *rules, const char *names[ACL_FLAG_COUNT]);
size_t acl_password_count(const struct acl_rules *rules);
void acl_password_hash(const struct acl_rules *rules, size_t index, char hex[SHA256_HEX_SIZE]);

/* Selector 0 is the user's own. */
size_t acl_selector_count(const struct acl_rules *rules);
void acl_describe_commands(struct buffer *out, const struct acl_rules *rules, size_t selector);     /* "-@all +get" */
void acl_describe_keys(struct buffer *out, const struct acl_rules *rules, size_t selector);         /* "~a %R~b", "~*", "" */
void acl_describe_channels(struct buffer *out, const struct acl_rules *rules, size_t selector);     /* "&a &b", "&*", "" */

#endif
