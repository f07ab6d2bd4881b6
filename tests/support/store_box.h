/* A store in a temporary directory, and batches whose content follows from their number: what must be in the store
 * follows from store_number alone, whatever failed on the way; where the records are, the box notes. For tests; failures print and abort.
 */
#ifndef KELVIN_SUPPORT_STORE_BOX_H
#define KELVIN_SUPPORT_STORE_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/message.h"
#include "store/store.h"
#include "store/store_env.h"
#include "support/faulty_disk.h"

enum { BOX_KEYS = 400, BOX_INCARNATION = 7 };

struct box {
    char root[64];              /* removed by box_destroy, with all in it */
    char dir[96];               /* of the store, in root */
    struct message message;
    struct faulty_disk *disk;   /* under the env */
    struct store_env *env;
    struct store *store;        /* NULL while closed */
    struct store_options options;
    size_t record_size;
    uint64_t places[BOX_KEYS];  /* of the records; 0: none. A copy of the box has those of an image made before */
    uint64_t seed;              /* printed on failure */
};

/* With small buffers, so that little writing makes many files. Nothing is open yet. */
void box_create(struct box *box, uint64_t seed);
void box_destroy(struct box *box);

enum status box_open(struct box *box);
void box_close(struct box *box);
/* Closes the store and opens a clone of an image of it in its place. */
void box_restart(struct box *box);

/* Writes batch store_number + 1. */
enum status box_write(struct box *box);
void box_write_many(struct box *box, int count);        /* CHECKs that each is taken */
/* Until it works; fails after 1000 times. */
void box_retry(struct box *box);

/* The version a key must have after batches 1 .. number; 0: it must not be there. */
uint64_t box_version(uint64_t number, uint32_t key);

/* Looks at every key by store_has and its place, and by a scan. Errors other than `allowed` (STATUS_OK: none) fail; wrong results always do. */
void box_verify(struct box *box, struct store *store, enum status allowed);
void box_verify_key(struct box *box, struct store *store, uint64_t number, uint32_t key, enum status allowed);

uint64_t box_hash(struct store *store, uint32_t key, char *name, struct bytes *name_bytes);    /* name: 32 bytes */

/* The files of a directory whose names end with `end`; full paths. Returns how many. */
enum { BOX_FILES_MAX = 1024, BOX_PATH_SIZE = 192 };
int box_files(const char *dir, const char *end, char paths[][BOX_PATH_SIZE]);
void box_flip(const char *path, uint64_t offset, int bit);
uint64_t box_file_size(const char *path);

#endif
