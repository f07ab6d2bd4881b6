/* Requests: what other threads ask of the writer, and how they wait for it.
 *
 * tier_nudge, tier_demote and tier_demote_many are in tier/tier.h, tier_write_soon in tier/image.h.
 */
#ifndef KELVIN_TIER_REQUEST_H
#define KELVIN_TIER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/mutex.h"
#include "base/status.h"
#include "tier/key_list.h"
#include "tier/tier.h"

/* A key is to be demoted. */
struct demote_request {
    struct demote_request *next;
    int db;
    uint64_t hash;
    struct bytes key;
    enum tier_move result;
    bool done;
};

/* An image is to be taken, or what is dirty is to be written before a cut. */
struct image_request {
    const char *dir;            /* NULL: only write what is dirty, there is no cut yet */
    struct message *message;
    uint64_t number;            /* out: of the store's last batch in the image */
    enum status status;
    bool done;
};

/* The store is to be replaced (tier/replace.h). */
struct replace_request {
    const char *image;          /* NULL: by an empty one */
    uint64_t number;            /* store_number of the image */
    struct message *message;
    enum status status;
    bool done;
};

struct requests {
    struct mutex lock;          /* leaf; for all that follows */
    struct condition asked, completed;
    bool nudged;                /* look at the memory, or at anything else, now */
    struct demote_request *demotions;
    struct image_request *image;
    struct replace_request *replacement;
    struct key_list *urgent;    /* big keys that a client waits for; written next. NULL: none */
};

void requests_init(struct requests *requests);
void requests_release(struct requests *requests);

/* Asks for an image and waits until it is completed. One at a time: see tier_image_begin. */
enum status request_image(struct tier *tier, struct image_request *request);

/* The same for another store; one at a time: the caller has the image turn. */
enum status request_replacement(struct tier *tier, struct replace_request *request);

/* The writer's side. */

/* Waits for `pause_us`, or until something is asked for (see `wait`), or the tier stops; true: not for the whole time. Forgets the nudge. */
enum request_wait { WAIT_FOR_ALL, WAIT_EXCEPT_IMAGE };
bool requests_wait(struct tier *tier, int64_t pause_us, enum request_wait wait);
/* Wakes the writer; for stopping it. */
void requests_wake(struct tier *tier);
/* A thread waits for an image or a demotion. */
bool requests_pending(struct tier *tier);
/* A list, or NULL; requests_complete_demotions ends it. */
struct demote_request *requests_take_demotions(struct tier *tier);
void requests_complete_demotions(struct tier *tier, struct demote_request *first);
/* Returns the request, which stays until it is completed. NULL: none. */
struct image_request *requests_image(struct tier *tier);
void requests_complete_image(struct tier *tier, struct image_request *request, enum status status);
/* Returns the request, which stays until it is completed. NULL: none. */
struct replace_request *requests_replacement(struct tier *tier);
void requests_complete_replacement(struct tier *tier, struct replace_request *request, enum status status);
/* The caller's to free; NULL: none. */
struct key_list *requests_take_urgent(struct tier *tier);

#endif
