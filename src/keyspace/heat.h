/* Heat: how often and how recently a key was touched; Redis' LFU in three bytes of the entry.
 *
 * A logarithmic counter (Morris 1978): a touch increments it with probability 1 / ((heat - 5) * log_factor + 1), and
 * each `decay_minutes` without a touch decrement it. New keys start at 5, so that they are kept long enough to be
 * touched.
 */
#ifndef KELVIN_KEYSPACE_HEAT_H
#define KELVIN_KEYSPACE_HEAT_H

#include <stdint.h>

#include "base/random.h"
#include "keyspace/entry.h"

enum { HEAT_NEW = 5, HEAT_IDLE_MAX = UINT16_MAX - 24 * 60 };

struct heat_settings {
    uint32_t log_factor;        /* lfu-log-factor */
    uint32_t decay_minutes;     /* lfu-decay-time; 0: no decay */
};

/* Minutes of the wall clock, modulo 2^16. */
static inline uint16_t heat_minutes(int64_t now_ms)
{
    return (uint16_t)(now_ms / 60000);
}

/* Minutes since a touch, at most HEAT_IDLE_MAX. A touch in the future, of a day at most, was before the clock was set back: 0. */
static inline uint16_t heat_idle(uint16_t minutes, uint16_t now)
{
    uint16_t idle = (uint16_t)(now - minutes);

    return idle <= HEAT_IDLE_MAX ? idle : 0;
}

/* The minutes of an entry that was touched so long ago, or HEAT_IDLE_MAX if that is longer. */
static inline uint16_t heat_minutes_before(uint16_t now, int64_t idle_s)
{
    return (uint16_t)(now - (idle_s / 60 < HEAT_IDLE_MAX ? idle_s / 60 : HEAT_IDLE_MAX));
}

/* The heat after decay until now. Changes nothing. */
static inline uint8_t heat_now(const struct heat_settings *settings, uint8_t heat, uint16_t minutes, uint16_t now)
{
    uint32_t periods = settings->decay_minutes > 0 ? heat_idle(minutes, now) / settings->decay_minutes : 0;

    return periods >= heat ? 0 : (uint8_t)(heat - periods);
}

/* Records a touch. Writes to the entry only if something changes, to keep its cache line clean. */
static inline void heat_touch(const struct heat_settings *settings, struct entry *entry, uint16_t now, struct random *random)
{
    uint8_t heat = entry->heat;

    if (entry->heat_minutes != now) {
        heat = heat_now(settings, heat, entry->heat_minutes, now);
        entry->heat_minutes = now;
    }
    if (heat < 255) {
        uint32_t above = heat > HEAT_NEW ? heat - HEAT_NEW : 0;

        if (above == 0 || random_below(random, (uint64_t)above * settings->log_factor + 1) == 0)
            heat++;
    }
    if (heat != entry->heat)
        entry->heat = heat;
}

#endif
