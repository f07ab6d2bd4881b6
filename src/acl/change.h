/* Change: what a command or a file does to users, in three steps.
 *
 *     change = acl_change_set_user(...)      prepares: nothing is visible; NULL and a message if anything is wrong
 *     acl_change_publish(change)             takes effect, as a whole, for every check that begins from now on
 *     acl_change_release(change)             frees what was replaced, when no thread uses rules that it took before the publishing.
 *                                            Without publishing: nothing has happened
 *
 * A user that a load replaced is removed, even if the file has one of the same name: its clients are closed, as in Redis 7.2. The default user
 * is kept, and its rules are replaced.
 *
 * Threads: any, but a change has one owner. Publishing takes the leaf mutex of the users for a short time.
 */
#ifndef KELVIN_ACL_CHANGE_H
#define KELVIN_ACL_CHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "acl/acl.h"
#include "base/buffer.h"

struct acl_change;

/* SETUSER: creates the user if there is none. If the user changes between preparing and publishing, the words are applied to what it has
 * become. NULL: `error` has Redis' error text, without a code. */
struct acl_change *acl_change_set_user(struct acl *acl, struct bytes name, const struct bytes *words, int word_count,
    bool channels_by_default, struct buffer *error);
/* DELUSER: names that do not exist are ignored; `count` is the number of users that are removed. The default user must not be among them. */
struct acl_change *acl_change_remove(struct acl *acl, const struct bytes *names, int name_count, size_t *count);
/* LOAD: the text of a whole file. NULL: `error` has all its mistakes, with file name and line numbers. A file without the default user makes
 * it one that may do everything, as in Redis. */
struct acl_change *acl_change_load(struct acl *acl, const char *file_name, struct bytes text, bool channels_by_default,
    struct buffer *error);
/* The same, after reading the file. NULL: `error` may also have the reason why it can't be read. Not on a worker: it waits for the disk. */
struct acl_change *acl_change_load_file(struct acl *acl, const char *path, bool channels_by_default, struct buffer *error);
/* requirepass: the default user's only password; an empty one means none is needed. */
struct acl_change *acl_change_require_password(struct acl *acl, struct bytes password);

void acl_change_publish(struct acl_change *change);
void acl_change_release(struct acl_change *change);                 /* NULL is fine */

/* DELUSER: the number of users. */
size_t acl_change_removed(const struct acl_change *change);

/* After publishing: clients of this user are to be closed. The same as acl_user_is_removed. */
bool acl_change_closes(const struct acl_change *change, const struct acl_user *user);

#endif
