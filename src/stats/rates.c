#include "stats/rates.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

struct rates {
    pthread_mutex_t lock;
    bool began;                         /* lock, and so on: there is something to compare with */
    int64_t last_us;
    uint64_t last[RATE_COUNT];
    double samples[RATE_SAMPLES][RATE_COUNT];
    int next;
};

struct rates *rates_create(void)
{
    struct rates *rates = mem_zalloc(sizeof(*rates));

    pthread_mutex_init(&rates->lock, NULL);
    return rates;
}

void rates_destroy(struct rates *rates)
{
    if (rates == NULL)
        return;
    pthread_mutex_destroy(&rates->lock);
    mem_free(rates);
}

void rates_note(struct rates *rates, int64_t now_us, const uint64_t totals[RATE_COUNT])
{
    pthread_mutex_lock(&rates->lock);
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
    pthread_mutex_unlock(&rates->lock);
}

double rates_of(struct rates *rates, enum rate rate)
{
    double sum = 0;

    pthread_mutex_lock(&rates->lock);
    for (int i = 0; i < RATE_SAMPLES; i++)
        sum += rates->samples[i][rate];
    pthread_mutex_unlock(&rates->lock);
    return sum / RATE_SAMPLES;
}
