/* Checkpoint: an image of all data as of one instant, as the log's new base. Without fork. docs/architecture.md describes its steps.
 *
 *   appendonlydir/<name>.<n>.base.image/     store/   the store's files, most of them hard links
 *                                            tags     the record maps (tier/tags.h)
 *                                            hot      which keys were hot (tier/hot.h)
 *                                            functions    the libraries (docs/formats/functions.md), if there are any
 *                                            dataset  which databases there are (text, ends with a checksum)
 *
 * prepare (the next increment), cut, seal and snapshot (tier/image.c), commit (the manifest). A failure at any point leaves the base as it
 * was before, and a contiguous log.
 */
#ifndef KELVIN_PERSIST_CHECKPOINT_H
#define KELVIN_PERSIST_CHECKPOINT_H

#include "base/message.h"
#include "keyspace/partition.h"
#include "persist/aof.h"
#include "script/registry.h"
#include "tier/tier.h"

/* All that an image is made of. */
struct checkpoint_data {
    struct tier *tier;
    struct partitions *partitions;
    struct registry *registry;      /* NULL: there are no functions */
    struct history *history;        /* NULL: the image is to say nothing about the stream */
    struct claim *owner;            /* NULL, or comes to own all partitions at the cut, and keeps them if an image was made: no client changes
                                     * what is in it until partitions_give_all */
    bool is_read_once;              /* no server starts from the image: it has no `hot` */
    void (*at_cut)(void *context);  /* NULL, or is called at the cut, with all partitions locked */
    void *context;
};

/* Runs a checkpoint, one at a time; blocks until it is done; not on a worker, no lock held. `dir` and `name` are the log's. */
enum status checkpoint_run(struct aof *aof, const struct checkpoint_data *data, const char *dir, const char *name, struct message *message);

/* The same for a log that begins while the server runs (it was started, and nothing is appended yet): `begins` is called at the cut, with
 * all partitions locked; all changes after that are to be appended. NULL: an ordinary checkpoint. */
typedef void checkpoint_begins(void *context);
enum status checkpoint_begin_log(struct aof *aof, const struct checkpoint_data *data, const char *dir, const char *name,
    checkpoint_begins *begins, void *context, struct message *message);

/* Makes only the image, in `path` (which must not exist; its parent does, on the store's file system): for a dump or a backup. No log is
 * needed, and none is cut. Blocks, also while a checkpoint_run is under way. On failure nothing is left at `path`. */
enum status checkpoint_image(const struct checkpoint_data *data, const char *path, struct message *message);

/* Sets up the databases of an image in partitions that are still empty; *number is for tier_restore. STATUS_INVALID: the image has more
 * databases than `partitions`. */
enum status checkpoint_dataset(const char *image, struct partitions *partitions, uint64_t *number, struct message *message);

/* The contents of an image's `dataset`. */
struct image_databases {
    uint64_t value_count;           /* partitions.value_count */
    bool has_renamed;               /* partitions.has_renamed */
    uint32_t *incarnations;         /* of databases 0 .. count - 1; freed with mem_free */
    int count;
    uint32_t partition_count;       /* of the server that made the image */
    uint32_t incarnation_last;      /* the highest one that was used */
    uint64_t number;                /* the store_number that its store has to have */
};
enum status checkpoint_databases(const char *image, struct image_databases *databases, struct message *message);
/* Makes the image's databases those of the partitions, whose databases are all empty. There are not more than these have. All partitions
 * are locked, or there is no other thread. */
void checkpoint_set_databases(const struct image_databases *databases, struct partitions *partitions);

/* Where the image is in the replication stream. False: it does not say it, or can't be read. */
bool checkpoint_point(const char *image, struct history_point *point);

/* Whether its hashes are by slot (keyspace/slot.h). False: they are not, or it can't be read. */
bool checkpoint_is_by_slot(const char *image);

/* Appends the file `functions` of an image: a dump of its libraries (script/library_dump.h); nothing if it has none. The file
 * is verified. */
enum status checkpoint_functions(const char *image, struct buffer *dump, struct message *message);

/* Removes images of the log that its manifest does not name, which a crash has left. `base` is the one to keep, or NULL. */
void checkpoint_clean(const char *dir, const char *base);

#endif
