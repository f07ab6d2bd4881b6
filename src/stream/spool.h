/* Spool: the blocks of a backlog that have left memory, in files without names.
 *
 *     first file                              last file
 *     | block 40 | 41 | 42 | 43 |   ...   | 96 | 97 |  <- write          each file has up to `capacity` blocks of `block_size` bytes
 *
 * The blocks are numbered without gaps from the first file to the last one. A file is written at its end only, and closed when no block of
 * it is needed any more and no thread holds it: that frees its space, however the process ends. After a failed write a file is sealed, and the next
 * block begins a new one.
 *
 * Owner: the backlog, whose lock is required where that is said. Reads and writes are done without it, on a file that is held.
 */
#ifndef KELVIN_STREAM_SPOOL_H
#define KELVIN_STREAM_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct closer;
struct disk;

struct spool_file {
    struct spool_file *next;
    uint64_t first;             /* number of its first block */
    uint32_t count, capacity;   /* blocks: complete ones; the most that it may have */
    int fd;
    int holds;                  /* by the list, and by threads that read or write */
    bool is_listed, is_sealed;
    uint32_t sums[];            /* CRC-32C of each block */
};

struct spool {
    /* Constant. */
    const struct disk *disk;
    char *path;                 /* what a file is called while it has a name; NULL: there is no disk */
    size_t block_size;
    struct closer *closer;      /* of files of more than 1 MiB */
    /* Owner: the lock. */
    struct spool_file *files, *last;
    struct spool_file *unused;  /* to be closed, without the lock */
    uint64_t used;              /* bytes of the blocks in the list */
    int file_count;
};

/* `dir` may be NULL: no disk. */
void spool_init(struct spool *spool, const struct disk *disk, struct closer *closer, const char *dir, const char *name, size_t block_size);
void spool_release(struct spool *spool);        /* no file is held */

/* --- with the lock --- */

static inline bool spool_is_empty(const struct spool *spool)
{
    return spool->files == NULL;
}

/* The number of the first block, and one more than that of the last one. Not of an empty spool. */
uint64_t spool_begin(const struct spool *spool);
uint64_t spool_end(const struct spool *spool);
bool spool_has(const struct spool *spool, uint64_t number);

/* The file of a block that is there, held; and the one that the next block is written to, held, or NULL: a new one is to be opened. */
struct spool_file *spool_hold(struct spool *spool, uint64_t number);
struct spool_file *spool_hold_last(struct spool *spool);
void spool_let_go(struct spool *spool, struct spool_file *file);

/* A block was written: it is there from now on. A new file is added to the list; the block's number is that of its first one. */
void spool_commit(struct spool *spool, struct spool_file *file, uint32_t sum);
void spool_seal(struct spool *spool, struct spool_file *file);

/* Removes the files that have only blocks before `number`. */
void spool_trim(struct spool *spool, uint64_t number);

/* Takes the list of files to close. */
struct spool_file *spool_take_unused(struct spool *spool);

/* --- without the lock --- */

/* NULL: errno. The new file is held, and not in the list yet. */
struct spool_file *spool_open(const struct spool *spool, uint64_t first, uint32_t capacity);
/* Writes a block after those that the file has. One thread at a time. False: errno; the file has to be sealed. */
bool spool_write(const struct spool *spool, const struct spool_file *file, const char *block, uint32_t *sum);
/* Reads a block. 0; or errno; EBADMSG: its checksum is wrong. */
int spool_read(const struct spool *spool, const struct spool_file *file, uint64_t number, char *block);
void spool_close(struct spool *spool, struct spool_file *files);

#endif
