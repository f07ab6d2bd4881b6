/* An ACL with all commands, and short ways to use it in tests. */
#ifndef KELVIN_SUPPORT_ACL_BOX_H
#define KELVIN_SUPPORT_ACL_BOX_H

#include <stdbool.h>

#include "acl/acl.h"
#include "acl/change.h"
#include "base/buffer.h"
#include "call/command_table.h"

struct acl_box {
    struct command_table *commands;
    struct acl *acl;
    struct buffer text;         /* of the last error or description, followed by a NUL */
};

void acl_box_create(struct acl_box *box);
void acl_box_destroy(struct acl_box *box);

/* SETUSER with words that are separated by single spaces. NULL, or the error. */
const char *acl_box_set(struct acl_box *box, const char *name, const char *words);
/* The line of ACL LIST; NULL: there is no such user. */
const char *acl_box_line(struct acl_box *box, const char *name);

/* "ok", "command", "key b", "channel c": what the rules say to a call. */
const char *acl_box_check(struct acl_box *box, const char *name, const char *call);
/* A request in `words`, `keys` and `request`, from such a text. */
enum { ACL_BOX_WORDS = 32 };
struct acl_box_call {
    struct bytes words[ACL_BOX_WORDS];
    struct call_key keys[ACL_BOX_WORDS];
    struct acl_request request;
};
void acl_box_parse(struct acl_box *box, const char *call, struct acl_box_call *parsed);

#endif
