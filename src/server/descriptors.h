/* Descriptors: how the process's limit of open files (RLIMIT_NOFILE) is divided between the server, the store and clients.
 *
 * A file of the store that can't be opened is an error for a client, so what the server and the store need is set aside first, and
 * maxclients is lowered to what is left, as Redis does. The limit is raised as far as the system allows.
 *
 * Owner: the main thread; the callback of CONFIG SET maxclients runs one at a time (config/config.h).
 */
#ifndef KELVIN_SERVER_DESCRIPTORS_H
#define KELVIN_SERVER_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

struct config;
struct log;

enum { DESCRIPTORS_SEGMENTS_MIN = 64, DESCRIPTORS_SEGMENTS_WANTED = 10000 };

struct descriptors {
    struct config *config;
    struct log *log;
    uint64_t reserved;      /* the server's own: log, images, listeners, loops, key runs */
    uint64_t segments;      /* of the store, kept open */
    uint64_t clients;       /* what is left for them, at most what was wanted; 0: the limit is too low to start */
};

/* Pure: divides `limit` descriptors. `loops` is io-threads. */
void descriptors_divide(struct descriptors *descriptors, uint64_t limit, uint64_t clients_wanted, int loops);

/* At the start, before anything is opened. Raises the limit, lowers maxclients if it has to, and says so in the log. False: the server
 * can't run with so few; the log says how many it needs. */
bool descriptors_arrange(struct descriptors *descriptors, struct config *config, struct log *log);
/* From now on CONFIG SET maxclients is refused when there are too few. */
void descriptors_watch(struct descriptors *descriptors);

#endif
