/* The bodies of the users, for acl/acl.c and acl/change.c. */
#ifndef KELVIN_ACL_ACL_PRIVATE_H
#define KELVIN_ACL_ACL_PRIVATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "acl/acl.h"
#include "acl/rules_private.h"
#include "base/mutex.h"

struct acl_user {
    struct bytes name;                      /* owned; immutable */
    struct acl_rules *_Atomic rules;        /* owned; replaced under the lock */
    _Atomic uint64_t holders;
    _Atomic bool removed;                   /* set under the lock */
};

struct acl {
    const struct command_table *commands;
    struct acl_user *first;                 /* `default`; immutable */
    struct mutex lock;
    struct acl_user **users;                /* lock; held, in the order of their names */
    size_t user_count;                      /* lock */
    uint64_t version;                       /* lock: the number of changes that were published */
};

/* Held once. Takes the rules. */
struct acl_user *user_create(struct bytes name, struct acl_rules *rules);

/* The user's place in the table, or where it would have to be inserted. */
size_t acl_place(const struct acl *acl, struct bytes name, bool *found) REQUIRES(acl->lock);

#endif
