/* Segment files: the segments of an image's store, verified without a store: heads, the checksum and shape of each record, footers. */
#ifndef KELVIN_CHECK_SEGMENT_FILES_H
#define KELVIN_CHECK_SEGMENT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "store/segments.h"

/* What is in a segment, from its beginning to its end. */
struct segment_piece {
    const char *name;               /* of the file */
    int ordinal;                    /* of the file, in the order in which they were begun: 0 .. */
    uint64_t stamp, last_stamp;     /* of the record, and of the last one of the file: UINT64_MAX if there is no footer, or the head is invalid */
    uint32_t slot;                  /* SEGMENT_HEADLESS: the file's head is invalid, and the piece is all of it */
    uint64_t offset, size;          /* bytes */
    const struct segment_record *record;    /* NULL: the bytes are no record */
};
typedef void segment_met(void *context, const struct segment_piece *piece);

#define SEGMENT_HEADLESS UINT32_MAX

struct segment_counts {
    uint64_t files, records, bytes;
    uint64_t damaged_bytes;
};
/* Calls `met` for each record and each run of damaged bytes, file by file. It reports nothing but files that can't
 * be read: the caller knows what is live. */
void segment_files_walk(struct check *check, const char *dir, segment_met *met, void *context, struct segment_counts *counts);

/* Hard links (or copies) of all segments with a valid head in another directory. */
bool segment_files_link(const char *dir, const char *to, struct message *message);

#endif
