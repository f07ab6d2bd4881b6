/* kelvin-check: what its files share. It verifies the data that a server would be started on, while no server runs.
 *
 *   main.c      arguments, locks, which parts there are
 *   report.c    lines, counts
 *   logs.c      the manifest and what it names: increments, the base
 *   repair.c    the log's repairs
 *   image.c     an image: dataset, tags, and their repair
 *   store_files.c  the meta data and key runs in it, without a store
 *   stores.c    its index and its segments, record by record, compared with the tags
 *   segment_files.c    the segments in it, without a store
 *   keys, places.c     what is known about each key, and where its record is
 *   expiries.c  the index of expiries
 *   dictionary_files.c  the dictionaries in it
 *   compressibility.c   what compression would make of its values
 *   rdb.c       an RDB file
 *   table_file, masked_crc    LevelDB's tables without LevelDB
 *
 * Without --repair nothing is changed: the store is opened as a clone by links, in a scratch directory that is removed afterwards.
 */
#ifndef KELVIN_CHECK_CHECK_H
#define KELVIN_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/mapped.h"
#include "base/message.h"
#include "base/progress_report.h"
#include "persist/aof_manifest.h"
#include "persist/dataset_file.h"

enum { CHECK_PATH_SIZE = 4096 };

struct check {
    const char *dir, *name;         /* the log's directory, and appendfilename */
    int dir_fd;
    bool left_out;                  /* a repair of the base has left out data */
    bool repair;
    bool compressibility;           /* say what tier-compression would make of the values */
    bool revive;                    /* a repair may bring deleted keys back */
    bool newer;                     /* a file was written by a newer Kelvin: nothing is repaired */
    char stamp[32];                 /* the suffix of files that are set aside: "bad-<time>" */
    struct aof_manifest manifest;
    uint64_t damages, repairs, unrepaired;
    int shown;                      /* problems shown of the current part */
    uint64_t progressed;            /* of the current part, as it was noted last */
    struct progress_report report;  /* of the current part; the functions of report.c hide it when they print */
};

/* report.c. check_damage counts a problem, and shows the first ones of each part. */
void check_damage(struct check *check, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A file of a newer Kelvin: it is not known what it means, so nothing is repaired from then on. */
void check_newer(struct check *check, const char *where);
void check_note(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_repaired(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_unrepaired(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends a part with one line: ok if `damages` is still `before`. */
void check_part(struct check *check, const char *part, uint64_t before, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Shows on stderr how far a part is, about every MiB or thousand items: call it as often as it is convenient. */
void check_progress_begin(struct check *check, const char *part, enum progress_unit unit, uint64_t total);
void check_progress(struct check *check, uint64_t done);                /* `done` only grows in a part */
/* A key as text: with escapes, cut when it is long. `text` has CHECK_KEY_SIZE bytes and is returned. */
enum { CHECK_KEY_SIZE = 200 };
const char *check_key(struct bytes key, char *text);

/* logs.c */
void logs_check(struct check *check);

/* repair.c. What is wrong with an increment: the first damaged one of the log. */
enum trouble { TROUBLE_NONE, TROUBLE_TORN, TROUBLE_BAD, TROUBLE_MISSING };
void repair_log(struct check *check, int index, enum trouble trouble, uint64_t where);
/* There is no manifest that can be read: writes a new one, if the files can form a log in only one way. */
bool repair_manifest(struct check *check);
bool repair_save_manifest(struct check *check);
/* Something was left out: replicas must not continue from where they are. After the increments were repaired. */
void repair_forget_stream(struct check *check);

/* image.c: the base `index` of the manifest. */
void image_check(struct check *check, int index);

/* stores.c. A store is compared with the tags; the state says what is usable. */
struct tag_file {
    struct mapped file;
    const char *image;              /* its directory */
    bool good;
    uint32_t partition_count;
    uint64_t record_count;
};
struct store_state {
    bool damaged;                   /* blocks, files or records of it */
    bool opened;                    /* so what is left can be saved */
    bool tags_differ;
};
struct stores;
struct stores *stores_open(struct check *check, const char *image, const struct dataset_file *dataset, const struct tag_file *tags);
void stores_check(struct stores *stores, struct store_state *state);
/* Writes the keys with a valid record to a new store in `to`, with hard links to the segments, and reports the others. Keys that the index has
 * lost, but not the tags and the segments, are added again. */
bool stores_rewrite(struct stores *stores, const char *to);
/* Writes the record maps of what the last of these two functions has found to a file, which must not exist; synced. Only with --repair. */
bool stores_write_tags(struct stores *stores, const char *path, struct message *message);
void stores_close(struct stores *stores);

/* rdb.c */
void rdb_check(struct check *check, const char *path);

#endif
