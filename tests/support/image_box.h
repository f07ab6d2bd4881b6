/* Image box: what a tier box held at a cut, to be compared with the image that is taken of it. */
#ifndef KELVIN_SUPPORT_IMAGE_BOX_H
#define KELVIN_SUPPORT_IMAGE_BOX_H

#include "support/tier_box.h"

/* One image into `dir` (created, and removed again), in the steps of the server; without the clean pass more is left to do after the cut.
 * STATUS_OK: it was found to hold exactly what was there at the cut, with a tag for each record; aborts if not. Any other status says why
 * there is no image. One thread at a time. */
enum status image_box_take(struct tier_box *box, const char *dir, bool clean);

#endif
