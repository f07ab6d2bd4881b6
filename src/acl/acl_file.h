/* ACL file: the file of `aclfile`, and what a load makes of its text.
 *
 *     file = { [ "user" name { rule } ] "\n" }
 *
 * Words are separated by spaces; there are no quotes and no comments. A line that is empty but for white space is skipped.
 */
#ifndef KELVIN_ACL_ACL_FILE_H
#define KELVIN_ACL_ACL_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "acl/acl.h"
#include "base/buffer.h"

/* Makes users, held, in the order of their names, the default user among them. They are not in the table. Only for acl/change.c.
 * False: `error` has all mistakes, as Redis reports them, and nothing was made. */
bool acl_file_read(struct acl *acl, const char *file_name, struct bytes text, bool channels_by_default, struct acl_user ***users,
    size_t *count, struct buffer *error);

/* Replaces the file, which keeps its mode; see file_replace. Returns 0 or an errno value. */
int acl_file_write(const char *path, struct bytes text);

/* Appends the whole file for the users as they are now. */
void acl_file_print(struct buffer *out, struct acl *acl);

/* No white space, no NUL. */
bool acl_name_is_valid(struct bytes name);

#endif
