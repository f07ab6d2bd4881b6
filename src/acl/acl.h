/* ACL: the users.
 *
 * A user has a name that does not change, and rules (acl/rules.h) that are replaced as a whole. It is counted: each client holds its user,
 * and so a user that was removed lives on until its last client has gone; its rules allow nothing then.
 *
 * Threads: any, except for acl_create and acl_destroy. One leaf mutex guards the table of users; rules are read without it.
 * Users change through acl/change.h only.
 */
#ifndef KELVIN_ACL_ACL_H
#define KELVIN_ACL_ACL_H

#include <stdbool.h>
#include <stddef.h>

#include "acl/rules.h"
#include "base/bytes.h"
#include "call/command_table.h"

struct acl;
struct acl_user;

/* With one user, `default`, that may do everything and needs no password. The table of commands has to live as long. */
struct acl *acl_create(const struct command_table *commands);
void acl_destroy(struct acl *acl);                                  /* NULL is fine. Users that are held live on */

/* Held, or NULL: no such user. Names are compared byte by byte. */
struct acl_user *acl_find(struct acl *acl, struct bytes name);
struct acl_user *acl_default(struct acl *acl);                      /* borrowed: it is never removed */

void acl_user_hold(struct acl_user *user);
void acl_user_release(struct acl_user *user);                       /* NULL is fine */
struct bytes acl_user_name(const struct acl_user *user);
bool acl_user_is_removed(const struct acl_user *user);              /* by DELUSER, or by a load that replaced it */
const struct acl_rules *acl_user_rules(const struct acl_user *user);    /* one atomic load */

/* The user, held, if it is enabled and the password is one of its own, or it needs none; otherwise NULL. Takes about the same time for each
 * password of the same length. */
struct acl_user *acl_authenticate(struct acl *acl, struct bytes name, struct bytes password);

/* For threads that are no workers: rules are not replaced meanwhile. */
/* Every client may do everything: there is no user but the default one, which needs no password. */
bool acl_is_open(struct acl *acl);
/* Whether the user, which is held, may call a command that needs no key and no channel. */
bool acl_may_call(struct acl *acl, const struct acl_user *user, const struct command *command);
/* The same, and every key for reading, as one selector allows it. */
bool acl_may_list_keys(struct acl *acl, const struct acl_user *user, const struct command *command);

/* All users in the order of their names, each held, in a block that is freed with mem_free after they were released. */
struct acl_user **acl_users(struct acl *acl, size_t *count);

#endif
