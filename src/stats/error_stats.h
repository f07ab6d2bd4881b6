/* Error stats: the number of error replies with each code ("ERR", "WRONGTYPE" ...), for INFO errorstats.
 *
 * A client can invent codes (scripts, DEBUG ERROR), so their number is bounded: after ERROR_CODES_MAX codes, all new ones
 * are counted together as ERRORSTATS_OVERFLOW.
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
 * ERROR_CODE_SIZE_MAX bytes has no code and is counted as ERR. */
void error_stats_note(struct error_stats *stats, struct bytes text);
void error_stats_reset(struct error_stats *stats);

/* Calls `visit` for each code, in alphabetical order, with the lock held: `visit` must not call these functions. */
typedef void error_stats_visit(void *context, struct bytes code, uint64_t count);
void error_stats_each(struct error_stats *stats, error_stats_visit *visit, void *context);

#endif
