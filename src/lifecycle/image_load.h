/* Image load: an image that a primary has sent becomes the data set of the running server, cold, as it does at a start from a checkpoint.
 *
 *     image_load_prepare           verifies it; nothing is changed
 *     image_load_begin             no job and no other image is under way, and none begins
 *     ... the caller comes to own all partitions and empties the databases, and functions ...
 *     image_load_run               the store is replaced (tier/replace.h); this server takes over the hash seed of the image
 *     ... the caller gives the partitions back ...
 *     image_load_end               the warm-up begins
 *
 * Nothing keeps a hash over the change of the seed: the databases are empty, no unit owns a partition, calls that wait run again from the top,
 * clients in blocking commands are disconnected as when the role changes, transactions with watched keys fail, and the seed itself changes
 * while all workers stand between two calls. If the image has the seed of this server already, clients that wait go on waiting.
 *
 * Owner: one thread, no worker, no lock held.
 */
#ifndef KELVIN_LIFECYCLE_IMAGE_LOAD_H
#define KELVIN_LIFECYCLE_IMAGE_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/message.h"
#include "base/siphash.h"
#include "base/status.h"
#include "persist/checkpoint.h"
#include "stream/history.h"

struct engine;

struct image_load {
    struct engine *engine;
    const char *image;
    const _Atomic bool *cancel;         /* ends image_load_begin soon */
    const _Atomic bool *stop;           /* the server ends: its workers may have ended */
    struct message message;             /* why it failed */
    struct image_databases databases;
    struct history_point point;         /* of the image in its primary's stream */
    struct key_seed seed;
    bool has_turn;
};

enum status image_load_prepare(struct image_load *load);
/* STATUS_CANCELLED, or the store is in error. */
enum status image_load_begin(struct image_load *load);
/* On a failure the databases are empty. If there is no store at all the server is asked to end, and the partitions are not to be given back:
 * `*is_lost`. */
enum status image_load_run(struct image_load *load, bool *is_lost);
/* `good`: what was loaded is served. */
void image_load_end(struct image_load *load, bool good);

#endif
