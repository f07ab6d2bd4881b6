/* kelvin-check: what its files share. It verifies what a server would be started on, while none is.
 *
 *   main.c      arguments, locks, which parts there are
 *   report.c    lines, counts
 *   logs.c      the manifest and what it names: increments, the base
 *   repair.c      the log's repairs
 *   image.c     an image: dataset, tags, and what is left of them to believe
 *   store_files.c  the files of the store in it, without LevelDB
 *   stores.c    that store as LevelDB reads it, record by record, compared with the tags
 *   rdb.c       an RDB file
 *   table_file, record_file, crc32c    LevelDB's files without LevelDB
 *
 * Without --repair nothing is changed: the store is opened as a clone by links, in a scratch directory that goes afterwards.
 */
#ifndef KELVIN_CHECK_CHECK_H
#define KELVIN_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"
#include "persist/aof_manifest.h"
#include "persist/dataset_file.h"

enum { CHECK_PATH_SIZE = 4096 };

struct check {
    const char *dir, *name;         /* the log's directory, and appendfilename */
    int dir_fd;
    bool repair;
    char stamp[32];                 /* of names of what is set aside: "bad-<time>" */
    struct aof_manifest manifest;
    uint64_t damages, repairs, unrepaired;
    int shown;                      /* problems shown of the part at hand */
};

/* report.c. A problem: counted; the first ones of each part are shown. */
void check_damage(struct check *check, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
void check_note(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_repaired(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_unrepaired(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends a part: one line, ok if no damage came since `before`. */
void check_part(struct check *check, const char *part, uint64_t before, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Keys for people: printed with escapes, cut when long. `text` has CHECK_KEY_SIZE. */
enum { CHECK_KEY_SIZE = 200 };
const char *check_key(struct bytes key, char *text);

/* A file mapped for reading. False: `message` says why. An empty file is fine. */
struct mapped {
    struct bytes bytes;
};
bool mapped_open(const char *path, struct mapped *mapped, struct message *message);
void mapped_close(struct mapped *mapped);

/* logs.c */
void logs_check(struct check *check);

/* repair.c. What is wrong with an increment, the first one of the log that has something. */
enum trouble { TROUBLE_NONE, TROUBLE_TORN, TROUBLE_BAD, TROUBLE_MISSING };
void repair_log(struct check *check, int index, enum trouble trouble, uint64_t where);
/* There is no manifest that can be read: a new one, if there is no doubt what belongs into it. */
bool repair_manifest(struct check *check);
bool repair_save_manifest(struct check *check);

/* image.c: the base `index` of the manifest. */
void image_check(struct check *check, int index);

/* stores.c. What is wanted of a store: its answer says what may be believed. */
struct tag_file {
    struct mapped file;
    bool good;
    uint32_t partition_count;
};
struct store_state {
    bool damaged;                   /* blocks, files or records of it */
    bool opened;                    /* LevelDB takes it, so that what is left can be saved */
    bool tags_differ;
};
struct stores;
struct stores *stores_open(struct check *check, const char *image, const struct dataset_file *dataset, const struct tag_file *tags);
void stores_check(struct stores *stores, struct store_state *state);
/* Writes what is good to a new store in `to`, and says what is not. */
bool stores_rewrite(struct stores *stores, const char *to);
/* The record maps of what was met by the last of these two, as a file that must not be there yet; synced. Only with --repair. */
bool stores_write_tags(struct stores *stores, const char *path, struct message *message);
void stores_close(struct stores *stores);

/* rdb.c */
void rdb_check(struct check *check, const char *path);

#endif
