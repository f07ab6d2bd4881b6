#include "stats/rates.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutex.h"

struct rates {
    struct mutex lock;
    bool began;                         /* lock, like the fields below; false until the first totals are there */
    int64_t last_us;
    uint64_t last[RATE_COUNT];
    double samples[RATE_SAMPLES][RATE_COUNT];
    int next;
};

struct rates *rates_create(void)
{
    struct rates *rates = mem_zalloc(sizeof(*rates));

    mutex_init(&rates->lock);
    return rates;
}

void rates_destroy(struct rates *rates)
{
    if (rates == NULL)
        return;
    mutex_release(&rates->lock);
    mem_free(rates);
}

void rates_note(struct rates *rates, int64_t now_us, const uint64_t totals[RATE_COUNT])
{
    mutex_lock(&rates->lock);
    if (!rates->began || now_us - rates->last_us >= RATE_INTERVAL_US) {
        double seconds = (double)(now_us - rates->last_us) / 1e6;

        for (int i = 0; i < RATE_COUNT && rates->began; i++)
            rates->samples[rates->next][i] = totals[i] > rates->last[i] ? (double)(totals[i] - rates->last[i]) / seconds : 0;
        if (rates->began)
            rates->next = (rates->next + 1) % RATE_SAMPLES;
        memcpy(rates->last, totals, sizeof(rates->last));
        rates->last_us = now_us;
        rates->began = true;
    }
    mutex_unlock(&rates->lock);
}

double rates_of(struct rates *rates, enum rate rate)
{
    double sum = 0;

    mutex_lock(&rates->lock);
    for (int i = 0; i < RATE_SAMPLES; i++)
        sum += rates->samples[i][rate];
    mutex_unlock(&rates->lock);
    return sum / RATE_SAMPLES;
}
