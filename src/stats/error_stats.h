/* Error stats: how many error replies there were of each code ("ERR", "WRONGTYPE" ...), for INFO errorstats.
 *
 * A client may make up codes (scripts, DEBUG ERROR), so their number is bounded: beyond ERROR_CODES_MAX of them all new
 * ones count together as ERRORSTATS_OVERFLOW.
 *
 * Threads: any; a leaf lock. Memory: fixed at creation.
 */
#ifndef KELVIN_STATS_ERROR_STATS_H
#define KELVIN_STATS_ERROR_STATS_H

#include <stdint.h>

#include "base/bytes.h"

enum { ERROR_CODES_MAX = 128, ERROR_CODE_SIZE_MAX = 31 };

struct error_stats;

struct error_stats *error_stats_create(void);
void error_stats_destroy(struct error_stats *stats);        /* NULL is fine */

/* `text` is the reply without '-': "WRONGTYPE Operation ...". The code is its first word; a text without a space in its first
 * ERROR_CODE_SIZE_MAX bytes has none, and counts as ERR. */
void error_stats_note(struct error_stats *stats, struct bytes text);
void error_stats_reset(struct error_stats *stats);

/* Each code with its count, in alphabetical order, with the lock held: `visit` must not call back. */
typedef void error_stats_visit(void *context, struct bytes code, uint64_t count);
void error_stats_each(struct error_stats *stats, error_stats_visit *visit, void *context);

#endif
