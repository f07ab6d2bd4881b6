/* Image offer: what a replica says in REPLCONF if it accepts the files of an image (persist/archive.h) in the place of an RDB:
 *
 *     REPLCONF capa kelvin-image:<version>:<partitions>:<databases>[:<layout>]
 *
 * The layout is 1 where hashes are by slot (keyspace/slot.h); else it is not said. A primary that does not know it refuses the offer.
 * Primaries that do not know the word ignore it, as they do with all capabilities.
 */
#ifndef KELVIN_REPLICATION_IMAGE_OFFER_H
#define KELVIN_REPLICATION_IMAGE_OFFER_H

#include <stdbool.h>

#include "base/bytes.h"

struct engine;

enum { IMAGE_OFFER_SIZE = 64 };

/* This server's; "": repl-image-sync is no, or tier-enabled is, so that all keys are to be in RAM, or there is no store. */
void image_offer_write(const struct engine *engine, char offer[IMAGE_OFFER_SIZE]);
/* Whether a replica that offers this can use this server's images. False for any other word. */
bool image_offer_fits(const struct engine *engine, struct bytes offer);

#endif
