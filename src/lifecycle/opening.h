/* Opening: the data is opened at the start: the log, the store, the image, a dump, a backup.
 *
 * The functions are called in the order in which they are declared, on the main thread, before any other thread uses the data. Each returns
 * false after it has logged the reason.
 */
#ifndef KELVIN_LIFECYCLE_OPENING_H
#define KELVIN_LIFECYCLE_OPENING_H

#include <stdbool.h>

#include "base/message.h"
#include "tier/tier.h"

struct config;
struct engine;

/* Zero but for the engine before opening_log. */
struct opening {
    struct engine *engine;
    char *image;                    /* path of the log's base, a checkpoint's image; NULL: none */
    char *other_image;              /* the same if its hashes are of the other kind (keyspace/slot.h): cluster-enabled has changed */
    char *dump;                     /* path of the dump to load, without a log; NULL: none */
};

/* Facts from the rooms above that the store needs. */
struct opening_tier {
    size_t write_buffer_size;
    int descriptors_max;
    struct tier_hooks hooks;
};

/* Whether the store is on the file system of the log's directory, and that has hard links: images are links to the store's files. The first one for appendonly yes as
 * configured; nothing was changed yet. The second one for a log that is going to begin; false: `message` says why not. Any thread. */
bool opening_check_places(struct engine *engine);
bool opening_log_fits(struct config *config, struct message *message);
/* --restore: the content of a backup becomes the data of this directory. */
bool opening_restore_backup(struct engine *engine, const char *from);
/* Opens the log, if there is one, and finds image and dump. */
bool opening_log(struct opening *opening);
/* Opens the store, and sets `seed` to the seed that it was created with. */
bool opening_tier(struct opening *opening, const struct opening_tier *needs, struct key_seed *seed);
/* The content of the image, if there is one, becomes the data, cold; the log's increments follow. After tier_start. */
bool opening_restore_image(struct opening *opening);
/* The same for one with hashes of the other kind: its keys are put in one by one. Before the log is replayed, on that thread, while the state is
 * ENGINE_LOADING. Until the next checkpoint the image is what it was, so whatever interrupts this, the next start does it again. */
enum status opening_convert(const struct opening *opening, struct message *message);

/* The libraries of an image, compiled again, take the place of those that are there. Also in a running server. */
bool opening_restore_functions(struct engine *engine, const char *image);

void opening_release(struct opening *opening);

#endif
