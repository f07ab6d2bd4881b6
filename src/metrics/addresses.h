/* Addresses: the listening sockets of an HTTP server, which are replaced as a whole while another thread polls them.
 *
 * Threads: one changes them, one polls them.
 */
#ifndef KELVIN_METRICS_ADDRESSES_H
#define KELVIN_METRICS_ADDRESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/mutex.h"

enum { ADDRESSES_MAX = 16 };        /* words of `bind` */

struct address {
    char host[64];                  /* as in `bind`, without '-' */
    int port, fd;
};

struct address_list {
    struct address at[ADDRESSES_MAX];
    int count;
};

struct addresses {
    struct address_list open;       /* the thread that changes them: all that listen */
    struct mutex lock;              /* guards what follows; leaf */
    struct address_list handed;     /* the same, for the thread that polls; or what it has taken already */
    int *retired;                   /* sockets that do not listen any more: the thread that polls closes them */
    int retired_count;
    uint64_t version;               /* of `handed` */
};

void addresses_init(struct addresses *addresses);
/* Closes all. When no other thread polls. */
void addresses_release(struct addresses *addresses);

/* Listens at these addresses with this port, 0: nowhere, instead of those before. On failure all stays as it was, and `message` says why. */
bool addresses_change(struct addresses *addresses, const char *words, int port, struct message *message);

/* By the thread that polls: closes what has been retired, and copies what is to be polled. Returns true if that is not what it was at *version. */
bool addresses_take(struct addresses *addresses, struct address_list *polled, uint64_t *version);

#endif
