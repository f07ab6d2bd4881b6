/* The structs of segments; for store/segments.c and store/segment_read.c only. */
#ifndef KELVIN_STORE_SEGMENT_BODY_H
#define KELVIN_STORE_SEGMENT_BODY_H

#include <stdatomic.h>

#include "store/segments.h"

enum {
    SEGMENT_SIZE_MAX = SEGMENT_UNIT << PLACE_UNIT_BITS,     /* where the last record may begin */
    PLACE_SLOT_SHIFT = PLACE_UNIT_BITS + SEGMENT_KIND_BITS + PLACE_CLASS_BITS,
    SEGMENT_ALIGNMENT_MAX = 4096,
    PENDING_KEPT_MAX = 512 << 10,       /* bytes of a tail's buffer that are kept */
    STAMPS_LOST = 1 << 30,              /* more than those of one segment whose footer can't be read */
    SETTLE_MS = 1000,
    SEGMENT_PATH_SIZE = 4096,
    SMALL_SHARE = 4, SMALL_MAX = 64,    /* a segment is small below this share of size_max; the number of these that may be */
    PUT_OFF_MS = 1000, PUT_OFF_MAX_MS = 3600000,
};

enum segment_state { SEGMENT_TAIL, SEGMENT_SEALED, SEGMENT_SETTLED };

/* The writer's, but for what is atomic or immutable. */
struct segment {
    struct segment *next, *previous;    /* ascending sequences */
    uint64_t sequence;                  /* immutable */
    uint32_t slot;                      /* immutable */
    uint32_t alignment;                 /* of direct reads; set before direct_fd */
    int fd;                             /* set before `written`; -1: no file yet */
    _Atomic int direct_fd;              /* -1: not direct, or not yet */
    int write_fd;                       /* for direct writes; -1: none now */
    bool is_direct;                     /* written past the page cache */
    atomic_bool is_read_direct;         /* only: a block of it may be written again, and the page cache would keep the old one */
    struct buffer rest;                 /* with is_direct: what its last block has, which the next write writes again */
    enum segment_state state;
    uint64_t size;                      /* bytes, the pending ones too */
    _Atomic uint64_t written;           /* without these */
    bool is_ours;                       /* immutable: begun by this process, so what is not written yet is pending, not damaged */
    bool is_lost;                       /* immutable: its file is missing, and maps have places in it. It is in no list but `lost` */
    bool is_huge;                       /* one huge record, and nothing else */
    struct buffer pending;
    uint64_t weight, count;             /* of all its records */
    uint64_t stamp;                     /* of the last one */
    struct segment_uses uses;
    uint64_t put_at;                    /* segments.writes at the last put */
    _Atomic uint64_t live;              /* weight of the live ones */
    _Atomic int pins;
    int64_t sealed_ms;
    bool is_synced;                     /* durable */
    bool is_suspect;                    /* a sync failed: what it has may be lost */
    bool is_spared;
    int64_t put_off_until_ms, put_off_ms;
};

struct segments {
    char *dir;                          /* immutable, as the next two */
    const struct disk *disk;
    uint64_t size_max, descriptors_max;
    bool is_lazy;
    _Atomic(struct segment *) *slots;   /* changed by the writer; read by any thread */
    struct segment *first, *last, *retired, *lost;
    struct segment *tails[SEGMENT_TAILS];   /* NULL: not begun */
    uint64_t writes;                    /* calls of segments_write, and 1 */
    char **damaged;                     /* names of files that were left out */
    uint32_t next_slot;
    uint64_t next_sequence;             /* also the next stamp */
    size_t pending;
    uint64_t unsettled_count;           /* sealed segments that are not settled */
    size_t alignment;
    bool without_direct, prefers_direct;
    struct segment_buffer scratch;      /* of direct writes */
    uint64_t direct_count;              /* segments that are open twice */
    uint64_t damaged_count;
    _Atomic uint64_t count, bytes, total_weight, live_weight, written_bytes, linked_bytes, reads;
};

void segment_path(const struct segments *segments, const struct segment *segment, char path[SEGMENT_PATH_SIZE]);

/* Whether one more file may be open twice. */
bool segment_may_be_direct(const struct segments *segments);

/* A descriptor for reading: the segment's, or one that is opened now. -1 with errno. */
int segment_open(const struct segments *segments, const struct segment *segment);
void segment_close(const struct segments *segments, const struct segment *segment, int fd);

/* The place of a record at `offset` that takes `size` bytes. */
uint64_t segment_place(const struct segment *segment, uint64_t offset, unsigned kind, uint64_t size);

#endif
