/* Working directory: where the tier's store is (tier-dir).
 *
 * What an earlier process left there is out of date: the store is swap space. At each start it is built again, from a checkpoint's image
 * if there is one, or empty; the log brings the rest. The file KELVIN in it says that the directory is Kelvin's: without that file no store
 * in it is removed.
 */
#ifndef KELVIN_TIER_WORKING_DIR_H
#define KELVIN_TIER_WORKING_DIR_H

#include "base/message.h"
#include "base/status.h"
#include "store/store.h"

/* Opens the store in options->dir as a copy of `image` (a directory; NULL: empty). STATUS_LOCKED: another process has it open.
 * STATUS_CORRUPT: it may be another program's. Then nothing was changed. On failure `message` says why. */
enum status working_dir_open(const struct store_options *options, const char *image, struct store **store, struct message *message);

/* The same in the place of a store of this process, which was closed: what is there is removed. */
enum status working_dir_replace(const struct store_options *options, const char *image, struct store **store, struct message *message);

#endif
