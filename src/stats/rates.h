/* Rates: recent rates per second: the mean of the last RATE_SAMPLES samples, each computed from two totals.
 *
 * Threads: one thread calls rates_note, any thread reads; a leaf lock.
 */
#ifndef KELVIN_STATS_RATES_H
#define KELVIN_STATS_RATES_H

#include <stdint.h>

enum rate {
    RATE_COMMANDS,          /* calls */
    RATE_NET_INPUT,         /* bytes, of replication too */
    RATE_NET_OUTPUT,
    RATE_REPLICA_INPUT,     /* of replication only */
    RATE_REPLICA_OUTPUT,
    RATE_TURNS,             /* turns of the event loops */
    RATE_TURN_US,           /* microseconds spent in them */
    RATE_COUNT
};

enum { RATE_SAMPLES = 16, RATE_INTERVAL_US = 100000 };

struct rates;

struct rates *rates_create(void);
void rates_destroy(struct rates *rates);        /* NULL is fine */

/* `now_us` is monotonic. Less than RATE_INTERVAL_US after the last sample, the call does nothing. A total that decreased (it was
 * reset) counts as no change. */
void rates_note(struct rates *rates, int64_t now_us, const uint64_t totals[RATE_COUNT]);

double rates_of(struct rates *rates, enum rate rate);       /* per second */

#endif
