#include "acl/change.h"

#include <errno.h>
#include <fcntl.h>

#include "acl/acl_file.h"
#include "acl/acl_private.h"
#include "base/check.h"
#include "base/file.h"
#include "base/mem.h"

enum kind { SET_USER, REMOVE_USERS, LOAD_USERS };

struct acl_change {
    struct acl *acl;
    enum kind kind;
    bool published;

    /* SET_USER. `rules` were made when the users were at `version`. */
    struct bytes name;                  /* owned */
    struct bytes *words;                /* owned, one block */
    int word_count;
    bool channels_by_default;
    struct acl_rules *rules;            /* before publishing: the new ones; after: those that were replaced, or NULL */
    uint64_t version;

    /* REMOVE_USERS, before publishing: those to be removed; LOAD_USERS, before: the new ones, held. After publishing: those that were
     * removed, held, with `old_rules` as they had them. */
    struct acl_user **users;
    size_t user_count;
    struct acl_rules **old_rules;
};

/* ---- preparing */

static struct acl_change *change_create(struct acl *acl, enum kind kind)
{
    struct acl_change *change = mem_zalloc(sizeof(*change));

    change->acl = acl;
    change->kind = kind;
    return change;
}

/* The lock is held, so that the rules are not replaced while they are being copied. */
static bool prepare_rules(struct acl *acl, struct acl_change *change, struct buffer *error) REQUIRES(acl->lock);
static bool prepare_rules(struct acl *acl, struct acl_change *change, struct buffer *error)
{
    size_t place;
    bool found;

    place = acl_place(acl, change->name, &found);
    change->version = acl->version;
    change->rules = found ? rules_copy(acl_user_rules(acl->users[place]), change->channels_by_default)
        : rules_create(acl->commands, change->channels_by_default);
    if (!rules_apply(change->rules, change->words, change->word_count, error))
        return false;
    rules_finish(change->rules);
    return true;
}

struct acl_change *acl_change_set_user(struct acl *acl, struct bytes name, const struct bytes *words, int word_count,
    bool channels_by_default, struct buffer *error)
{
    struct acl_change *change = change_create(acl, SET_USER);
    size_t size;
    bool done;

    change->name = bytes_of(mem_string(name), name.size);
    change->words = mem_copy_array(words, word_count, &size);
    change->word_count = word_count;
    change->channels_by_default = channels_by_default;
    mutex_lock(&acl->lock);
    done = prepare_rules(acl, change, error);
    mutex_unlock(&acl->lock);
    if (done)
        return change;
    acl_change_release(change);
    return NULL;
}

struct acl_change *acl_change_require_password(struct acl *acl, struct bytes password)
{
    struct buffer word = { 0 };
    struct bytes words[2] = { BYTES("resetpass"), BYTES("nopass") };
    struct acl_change *change;

    buffer_append_u8(&word, '>');
    buffer_append_bytes(&word, password);
    if (password.size > 0)
        words[1] = buffer_bytes(&word);
    change = acl_change_set_user(acl, BYTES("default"), words, 2, false, NULL);
    buffer_release(&word);
    return change;
}

static bool has_user(const struct acl_change *change, const struct acl_user *user)
{
    for (size_t i = 0; i < change->user_count; i++) {
        if (change->users[i] == user)
            return true;
    }
    return false;
}

struct acl_change *acl_change_remove(struct acl *acl, const struct bytes *names, int name_count, size_t *count)
{
    struct acl_change *change = change_create(acl, REMOVE_USERS);

    change->users = mem_alloc((size_t)(name_count + 1) * sizeof(*change->users));
    for (int i = 0; i < name_count; i++) {
        struct acl_user *user = acl_find(acl, names[i]);

        CHECK(user != acl->first);
        if (user != NULL && !has_user(change, user))
            change->users[change->user_count++] = user;
        else
            acl_user_release(user);
    }
    *count = change->user_count;
    return change;
}

struct acl_change *acl_change_load(struct acl *acl, const char *file_name, struct bytes text, bool channels_by_default,
    struct buffer *error)
{
    struct acl_change *change = change_create(acl, LOAD_USERS);

    if (acl_file_read(acl, file_name, text, channels_by_default, &change->users, &change->user_count, error))
        return change;
    acl_change_release(change);
    return NULL;
}

struct acl_change *acl_change_load_file(struct acl *acl, const char *path, bool channels_by_default, struct buffer *error)
{
    struct buffer text = { 0 };
    struct acl_change *change = NULL;

    if (file_read_all(disk_system(), AT_FDCWD, path, SIZE_MAX, &text) == STATUS_OK)
        change = acl_change_load(acl, path, buffer_bytes(&text), channels_by_default, error);
    else
        buffer_append_format(error, "Error loading ACLs, opening file '%s': %s", path, strerror(errno));
    buffer_release(&text);
    return change;
}

/* ---- publishing */

static struct acl_rules *replace_rules(struct acl_user *user, struct acl_rules *rules)
{
    return atomic_exchange_explicit(&user->rules, rules, memory_order_acq_rel);
}

/* Removes a user, whose last calls are denied. Returns the user's old rules. */
static struct acl_rules *remove_user(struct acl *acl, struct acl_user *user)
{
    struct acl_rules *nothing = rules_create(acl->commands, false);

    atomic_store_explicit(&user->removed, true, memory_order_release);
    return replace_rules(user, nothing);
}

static void insert_user(struct acl *acl, size_t place, struct acl_user *user) REQUIRES(acl->lock);
static void insert_user(struct acl *acl, size_t place, struct acl_user *user)
{
    acl->users = mem_realloc(acl->users, (acl->user_count + 1) * sizeof(*acl->users));
    memmove(&acl->users[place + 1], &acl->users[place], (acl->user_count - place) * sizeof(*acl->users));
    acl->users[place] = user;
    acl->user_count++;
}

static void delete_place(struct acl *acl, size_t place) REQUIRES(acl->lock);
static void delete_place(struct acl *acl, size_t place)
{
    acl->user_count--;
    memmove(&acl->users[place], &acl->users[place + 1], (acl->user_count - place) * sizeof(*acl->users));
}

static void publish_user(struct acl *acl, struct acl_change *change) REQUIRES(acl->lock);
static void publish_user(struct acl *acl, struct acl_change *change)
{
    size_t place;
    bool found;

    place = acl_place(acl, change->name, &found);
    if (acl->version != change->version) {
        struct buffer error = { 0 };
        bool done;

        rules_destroy(change->rules);
        done = prepare_rules(acl, change, &error);
        buffer_release(&error);
        if (!done)
            return;             /* two changes met, and the words of this one no longer fit */
    }
    if (found) {
        change->rules = replace_rules(acl->users[place], change->rules);
        return;
    }
    insert_user(acl, place, user_create(change->name, change->rules));
    change->rules = NULL;
}

/* Users that another change has removed meanwhile stay in the list, without old rules. */
static void publish_removal(struct acl *acl, struct acl_change *change) REQUIRES(acl->lock);
static void publish_removal(struct acl *acl, struct acl_change *change)
{

    change->old_rules = mem_zalloc((change->user_count + 1) * sizeof(*change->old_rules));
    for (size_t i = 0; i < change->user_count; i++) {
        struct acl_user *user = change->users[i];
        size_t place;
        bool found;

        place = acl_place(acl, user->name, &found);
        if (!found || acl->users[place] != user)
            continue;
        delete_place(acl, place);
        change->old_rules[i] = remove_user(acl, user);
        acl_user_release(user);             /* the table's hold; the change has its own */
    }
}

/* The user that the file has for `default` is only there for its rules. */
static void publish_load(struct acl *acl, struct acl_change *change) REQUIRES(acl->lock);
static void publish_load(struct acl *acl, struct acl_change *change)
{
    struct acl_user **old = acl->users;
    size_t old_count = acl->user_count;

    acl->users = change->users;
    acl->user_count = change->user_count;
    change->users = old;
    change->user_count = old_count;
    change->old_rules = mem_zalloc((old_count + 1) * sizeof(*change->old_rules));
    for (size_t i = 0; i < old_count; i++) {
        if (old[i] != acl->first)
            change->old_rules[i] = remove_user(acl, old[i]);
    }
    for (size_t i = 0; i < acl->user_count; i++) {
        if (!bytes_equal(acl->users[i]->name, acl->first->name))
            continue;
        /* The two exchange their rules and their places. */
        atomic_store(&acl->users[i]->rules, replace_rules(acl->first, atomic_load(&acl->users[i]->rules)));
        for (size_t j = 0; j < old_count; j++) {
            if (old[j] == acl->first)
                old[j] = acl->users[i];
        }
        acl->users[i] = acl->first;
    }
}

void acl_change_publish(struct acl_change *change)
{
    struct acl *acl = change->acl;

    CHECK(!change->published);
    mutex_lock(&acl->lock);
    if (change->kind == SET_USER)
        publish_user(acl, change);
    else if (change->kind == REMOVE_USERS)
        publish_removal(acl, change);
    else
        publish_load(acl, change);
    change->published = true;
    acl->version++;
    mutex_unlock(&acl->lock);
}

size_t acl_change_removed(const struct acl_change *change)
{
    return change->user_count;
}

bool acl_change_closes(const struct acl_change *change, const struct acl_user *user)
{
    (void)change;
    return acl_user_is_removed(user);
}

void acl_change_release(struct acl_change *change)
{
    if (change == NULL)
        return;
    for (size_t i = 0; i < change->user_count; i++) {
        if (change->old_rules != NULL)
            rules_destroy(change->old_rules[i]);
        acl_user_release(change->users[i]);
    }
    rules_destroy(change->rules);
    mem_free(change->users);
    mem_free(change->old_rules);
    mem_free(change->words);
    mem_free((char *)change->name.data);
    mem_free(change);
}
