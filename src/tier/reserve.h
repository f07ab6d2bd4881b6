/* Reserve: room on the store's disk that is taken while there is enough, and given up when the disk is full. What frees room has to write a
 * little itself: deleted keys go through the index, and a segment is removed when its last live records were written again.
 *
 * It is a file without a name, so nothing is left of it when the process ends. On file systems that can't set room aside there is none, and it
 * counts as restored.
 *
 * Owner: the writer.
 */
#ifndef KELVIN_TIER_RESERVE_H
#define KELVIN_TIER_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

struct disk;

enum { RESERVE_PART = 16 };             /* of the disk at most */

struct reserve {
    const char *dir;
    const struct disk *disk;
    uint64_t size_max;                  /* 0: none */
    int fd;                             /* -1: it is given up, or was never there */
    bool is_given_up;                   /* once, or the disk had no room for it */
    bool is_impossible;
};
void reserve_init(struct reserve *reserve, const char *dir, uint64_t size_max);
void reserve_release(struct reserve *reserve);

/* Takes the room: at first if it is free, after it was given up if as much again is free. False: the disk is full. */
bool reserve_restore(struct reserve *reserve, const struct disk *disk);
void reserve_give_up(struct reserve *reserve);
/* Bytes that are free on the disk of the directory. */
uint64_t reserve_free_bytes(const char *dir);

#endif
