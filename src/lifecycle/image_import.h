/* Image import: the keys and functions of an image are put into the data set one by one, as those of an RDB file are (lifecycle/import.h).
 *
 * For an image that can't become the store as it is: there is data already, or its hashes are of another kind. It goes by way of an RDB file in the
 * working directory, which has no name: its space is free again however the process ends. So the disk needs room for the data once more.
 *
 * Everything of a key is kept, but for its idle time if maxmemory-policy is not an LFU one: its heat is.
 */
#ifndef KELVIN_LIFECYCLE_IMAGE_IMPORT_H
#define KELVIN_LIFECYCLE_IMAGE_IMPORT_H

#include "lifecycle/import.h"

/* On the thread of an import, and with its errors. The image stays. STATUS_CLOSED: the server is to end meanwhile. */
enum status image_import(struct engine *engine, const char *image, const struct import_rules *rules, struct message *message);

#endif
