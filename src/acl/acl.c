#include "acl/acl.h"

#include "acl/acl_private.h"
#include "base/mem.h"

struct acl_user *user_create(struct bytes name, struct acl_rules *rules)
{
    struct acl_user *user = mem_zalloc(sizeof(*user));

    user->name = bytes_of(mem_string(name), name.size);
    atomic_init(&user->rules, rules);
    atomic_init(&user->holders, 1);
    return user;
}

struct acl *acl_create(const struct command_table *commands)
{
    struct acl *acl = mem_zalloc(sizeof(*acl));

    mutex_init(&acl->lock);
    acl->commands = commands;
    acl->first = user_create(BYTES("default"), rules_create_unlimited(commands));
    acl->users = mem_alloc(sizeof(*acl->users));
    acl->users[0] = acl->first;
    acl->user_count = 1;
    return acl;
}

void acl_destroy(struct acl *acl)
{
    if (acl == NULL)
        return;
    for (size_t i = 0; i < acl->user_count; i++)
        acl_user_release(acl->users[i]);
    mem_free(acl->users);
    mutex_release(&acl->lock);
    mem_free(acl);
}

size_t acl_place(const struct acl *acl, struct bytes name, bool *found)
{
    size_t low = 0, high = acl->user_count;

    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bytes_compare(acl->users[middle]->name, name);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct acl_user *acl_find(struct acl *acl, struct bytes name)
{
    struct acl_user *user = NULL;
    size_t place;
    bool found;

    mutex_lock(&acl->lock);
    place = acl_place(acl, name, &found);
    if (found) {
        user = acl->users[place];
        acl_user_hold(user);
    }
    mutex_unlock(&acl->lock);
    return user;
}

struct acl_user *acl_default(struct acl *acl)
{
    return acl->first;
}

void acl_user_hold(struct acl_user *user)
{
    atomic_fetch_add_explicit(&user->holders, 1, memory_order_relaxed);
}

void acl_user_release(struct acl_user *user)
{
    if (user == NULL || atomic_fetch_sub_explicit(&user->holders, 1, memory_order_acq_rel) != 1)
        return;
    rules_destroy(atomic_load(&user->rules));
    mem_free((char *)user->name.data);
    mem_free(user);
}

struct bytes acl_user_name(const struct acl_user *user)
{
    return user->name;
}

bool acl_user_is_removed(const struct acl_user *user)
{
    return atomic_load_explicit(&user->removed, memory_order_acquire);
}

const struct acl_rules *acl_user_rules(const struct acl_user *user)
{
    return atomic_load_explicit(&user->rules, memory_order_acquire);
}

/* The digest is also made for a name that does not exist, so that the time does not tell which names do. The lock keeps the rules
 * from being replaced meanwhile: the caller may be no worker. */
struct acl_user *acl_authenticate(struct acl *acl, struct bytes name, struct bytes password)
{
    struct acl_user *user = NULL;
    unsigned char digest[SHA256_SIZE];
    size_t place;
    bool found;

    digest_sha256(password, digest);
    mutex_lock(&acl->lock);
    place = acl_place(acl, name, &found);
    if (found) {
        const struct acl_rules *rules = acl_user_rules(acl->users[place]);

        if (rules_accept_password(rules, digest) && rules->enabled) {
            user = acl->users[place];
            acl_user_hold(user);
        }
    }
    mutex_unlock(&acl->lock);
    return user;
}

bool acl_is_open(struct acl *acl)
{
    const struct acl_rules *rules;
    bool is_open;

    mutex_lock(&acl->lock);
    rules = acl_user_rules(acl->first);
    is_open = acl->user_count == 1 && acl_rules_allow_all(rules) && acl_rules_need_no_password(rules);
    mutex_unlock(&acl->lock);
    return is_open;
}

bool acl_may_call(struct acl *acl, const struct acl_user *user, const struct command *command)
{
    struct bytes name = bytes_of_string(command->name);
    struct acl_request request = { .command = command, .args = &name, .arg_count = 1 };
    int argument;
    bool may;

    mutex_lock(&acl->lock);
    may = acl_check(acl_user_rules(user), &request, &argument) == ACL_ALLOWED;
    mutex_unlock(&acl->lock);
    return may;
}

bool acl_may_list_keys(struct acl *acl, const struct acl_user *user, const struct command *command)
{
    struct bytes name = bytes_of_string(command->name);
    struct acl_request request = { .command = command, .args = &name, .arg_count = 1 };
    bool may;

    mutex_lock(&acl->lock);
    may = acl_rules_read_every_key(acl_user_rules(user), &request);
    mutex_unlock(&acl->lock);
    return may;
}

struct acl_user **acl_users(struct acl *acl, size_t *count)
{
    struct acl_user **users;

    mutex_lock(&acl->lock);
    users = mem_alloc(acl->user_count * sizeof(*users));
    memcpy(users, acl->users, acl->user_count * sizeof(*users));
    for (size_t i = 0; i < acl->user_count; i++)
        acl_user_hold(users[i]);
    *count = acl->user_count;
    mutex_unlock(&acl->lock);
    return users;
}
