#include "metrics/addresses.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sockets.h"

enum { BACKLOG = 64 };

void addresses_init(struct addresses *addresses)
{
    *addresses = (struct addresses){ .version = 0 };
    mutex_init(&addresses->lock);
}

static void close_retired(struct addresses *addresses)
{
    for (int i = 0; i < addresses->retired_count; i++)
        close(addresses->retired[i]);
    mem_free(addresses->retired);
    addresses->retired = NULL;
    addresses->retired_count = 0;
}

void addresses_release(struct addresses *addresses)
{
    close_retired(addresses);
    for (int i = 0; i < addresses->open.count; i++)
        close(addresses->open.at[i].fd);
    mutex_release(&addresses->lock);
}

static void add_address(struct address_list *list, const struct address *address)
{
    if (list->count < ADDRESSES_MAX)
        list->at[list->count++] = *address;
}

static struct address *find_address(struct address_list *list, const struct address *wanted)
{
    for (int i = 0; i < list->count; i++) {
        if (list->at[i].port == wanted->port && strcmp(list->at[i].host, wanted->host) == 0)
            return &list->at[i];
    }
    return NULL;
}

/* The addresses that are wanted, without sockets. `optional` has a bit for each that may be missing on this machine. */
static bool parse_words(const char *words, int port, struct address_list *wanted, uint32_t *optional, struct message *message)
{
    *optional = 0;
    for (const char *at = words + strspn(words, " "); *at != '\0' && port != 0; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        struct address address = { .port = port, .fd = -1 };
        bool may_miss = *at == '-';

        if (size - may_miss >= sizeof(address.host) || wanted->count == ADDRESSES_MAX) {
            message_set(message, "metrics-bind: %s", wanted->count == ADDRESSES_MAX ? "too many addresses" : "an address is too long");
            return false;
        }
        memcpy(address.host, at + may_miss, size - may_miss);
        at += size;
        *optional |= (uint32_t)may_miss << wanted->count;
        add_address(wanted, &address);
    }
    return true;
}

/* Opens those that are not there yet. Returns 0, or the error number: then none is left open that was not. */
static int open_missing(struct address_list *wanted, uint32_t optional, const struct address_list *before, struct message *message)
{
    int error = 0;

    for (int i = 0; i < wanted->count && error == 0; i++) {
        if (wanted->at[i].fd >= 0)
            continue;
        wanted->at[i].fd = sockets_listen_tcp(wanted->at[i].host, wanted->at[i].port, BACKLOG, message);
        if (wanted->at[i].fd < 0 && !(optional >> i & 1 && sockets_is_missing_address(errno)))
            error = errno != 0 ? errno : EINVAL;
    }
    for (int i = 0; i < wanted->count && error != 0; i++) {
        struct address_list old = *before;

        if (wanted->at[i].fd >= 0 && find_address(&old, &wanted->at[i]) == NULL) {
            close(wanted->at[i].fd);
            wanted->at[i].fd = -1;
        }
    }
    return error;
}

static void drop_missing(struct address_list *list)
{
    int kept = 0;

    for (int i = 0; i < list->count; i++) {
        if (list->at[i].fd >= 0)
            list->at[kept++] = list->at[i];
    }
    list->count = kept;
}

/* Lists what listens and is not wanted. */
static void list_unwanted(struct addresses *addresses, struct address_list *wanted, struct address_list *unwanted)
{
    for (int i = 0; i < addresses->open.count; i++) {
        struct address *kept = find_address(wanted, &addresses->open.at[i]);

        if (kept != NULL)
            kept->fd = addresses->open.at[i].fd;
        else
            add_address(unwanted, &addresses->open.at[i]);
    }
}

/* An old socket may be in the way of a new one, one address of all for instance: then the old ones stop listening first, and begin again if that was of no
 * use. */
static bool open_instead(struct address_list *wanted, uint32_t optional, const struct address_list *unwanted, const struct address_list *before,
    struct message *message)
{
    int error = open_missing(wanted, optional, before, message);

    if (error != EADDRINUSE || unwanted->count == 0)
        return error == 0;
    for (int i = 0; i < unwanted->count; i++)
        sockets_retire(unwanted->at[i].fd);
    if (open_missing(wanted, optional, before, message) == 0)
        return true;
    for (int i = 0; i < unwanted->count; i++) {
        if (!sockets_revive(unwanted->at[i].fd, BACKLOG))
            message_append(message, "; nor at %s:%d again", unwanted->at[i].host, unwanted->at[i].port);
    }
    return false;
}

bool addresses_change(struct addresses *addresses, const char *words, int port, struct message *message)
{
    struct address_list wanted = { .count = 0 }, unwanted = { .count = 0 };
    uint32_t optional;

    if (!parse_words(words, port, &wanted, &optional, message))
        return false;
    list_unwanted(addresses, &wanted, &unwanted);
    if (!open_instead(&wanted, optional, &unwanted, &addresses->open, message))
        return false;
    drop_missing(&wanted);
    if (port != 0 && wanted.count == 0) {
        message_set(message, "metrics-bind has no address that this machine has");
        return false;
    }
    for (int i = 0; i < unwanted.count; i++)
        sockets_retire(unwanted.at[i].fd);          /* at once: when this returns it does not listen any more */
    addresses->open = wanted;
    mutex_lock(&addresses->lock);
    addresses->handed = wanted;
    addresses->retired = mem_realloc(addresses->retired, (size_t)(addresses->retired_count + ADDRESSES_MAX) * sizeof(int));
    for (int i = 0; i < unwanted.count; i++)
        addresses->retired[addresses->retired_count++] = unwanted.at[i].fd;
    addresses->version++;
    mutex_unlock(&addresses->lock);
    return true;
}

bool addresses_take(struct addresses *addresses, struct address_list *polled, uint64_t *version)
{
    bool has_changed;

    mutex_lock(&addresses->lock);
    has_changed = addresses->version != *version;
    *polled = addresses->handed;
    *version = addresses->version;
    close_retired(addresses);
    mutex_unlock(&addresses->lock);
    return has_changed;
}
