/* AOF map: which bytes of the log's increments are which bytes of the replication stream, and where the stream was when the log was
 * recovered. Made from the marks (persist/aof_mark.h) when the log is read, and continued while it is written.
 *
 *   range     bytes of one increment, one after another, that are the stream's. All ranges together have no gap in the stream, as what
 *             another stream follows is forgotten; so they are all of one history, whatever their IDs are
 *   position  bytes of the stream before it, i64: the offset of the byte before it
 *
 * Files are held open, so that a reader is not disturbed by a checkpoint that removes them. A reader ends before its map. Any thread; the lock is
 * above that of the closer only.
 */
#ifndef KELVIN_PERSIST_AOF_MAP_H
#define KELVIN_PERSIST_AOF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mutex.h"
#include "stream/history.h"

struct aof_map_file;
struct disk;

struct aof_range {
    uint64_t seq;                   /* of the increment */
    uint64_t from, size;            /* in the file; UINT64_MAX: all that follows */
    struct history_point point;     /* at its beginning; `lsn` is not used */
};

struct aof_map {
    struct mutex lock;              /* guards what follows */
    struct aof_range *ranges;       /* in order of positions */
    size_t count, capacity;
    struct aof_map_file **files;    /* of seq in ascending order */
    size_t file_count, file_capacity;
    struct history_point end;       /* after the last closed range, or of the base; has_end */
    bool has_end;
    struct closer *closer;          /* immutable; NULL: files are closed in place */
};

void aof_map_init(struct aof_map *map, struct closer *closer);
void aof_map_release(struct aof_map *map);

/* --- recovery --- */

/* Where the base is: an image says it. */
void aof_map_begin_at(struct aof_map *map, const struct history_point *point);
/* Where the stream is after `where` bytes of an increment, the last one that was read; `db`: selected by a command after the last mark there, or -1.
 * Ranges after it are dropped. */
void aof_map_close(struct aof_map *map, uint64_t seq, uint64_t where, int db);
/* False: it is not known. */
bool aof_map_end(struct aof_map *map, struct history_point *point);

/* --- ranges --- */

/* A range begins: the one before ends where this one begins. One of another stream, or with a gap: those before are forgotten. */
void aof_map_begin(struct aof_map *map, uint64_t seq, uint64_t from, const struct history_point *point);
/* Local bytes or another annotation: [from, to) of the increment that the last range is in does not count. Nothing if it has no range. */
void aof_map_skip(struct aof_map *map, uint64_t seq, uint64_t from, uint64_t to);
/* Forgets all: the following bytes have no marks. */
void aof_map_forget(struct aof_map *map);
/* Notes that the bytes after the first `size` of an increment are in another increment now, after `head_size` bytes. `point`: of that
 * place; NULL: a range begins there, as the first bytes are a mark. */
void aof_map_move(struct aof_map *map, uint64_t seq, uint64_t size, uint64_t new_seq, uint64_t head_size, const struct history_point *point);

/* --- files --- */

/* The increment's file; the descriptor is duplicated. Without a file its ranges can't be read. */
void aof_map_add_file(struct aof_map *map, uint64_t seq, int fd);
/* Increments before it were removed. */
void aof_map_drop_before(struct aof_map *map, uint64_t seq);

/* --- reading --- */

/* Reads the stream's bytes in [from, until), all of which are written. NULL: they are not all there. */
struct aof_past;
struct aof_past *aof_past_open(struct aof_map *map, int64_t from, int64_t until);
void aof_past_close(struct aof_past *past);         /* NULL is fine */
/* Any number of bytes up to `max`; *got is 0 at the end. False: they can't be read. */
bool aof_past_read(struct aof_past *past, const struct disk *disk, char *to, size_t max, size_t *got);

#endif
