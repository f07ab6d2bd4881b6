#include "server/advice.h"

#include <math.h>

#include "base/text.h"
#include "engine/engine.h"
#include "engine/sizing.h"
#include "engine/worker.h"
#include "server/info_rows.h"

enum {
    STEPS = 8,                      /* between two sizes that have a model, when the best one is searched for */
    SSD_READS = 100,                /* a second that a GB of SSD is good for, unless COST says otherwise */
};
static const double GB = 1 << 30, PRICE_MAX = 1e12;

void advice_cron(struct engine *engine)
{
    struct advise_measures measures;
    int64_t now_us = engine->workers[0]->turn.now_us;

    if (engine->tier == NULL || engine->state != ENGINE_READY || !tier_advise_is_due(engine->tier, now_us))
        return;
    measures = (struct advise_measures){
        .now_us = now_us,
        .resets = atomic_load(&engine->stats_epoch),
        .write_buffer_max = (uint64_t)config_number(engine->config, CONFIG_TIER_WRITE_BUFFER),
    };
    measures.hot_hits = engine_stat(engine, STAT_HOT_HITS);
    measures.cold_hits = engine_stat(engine, STAT_COLD_HITS);
    measures.blind_writes = engine_stat(engine, STAT_BLIND_WRITES);
    tier_advise_tick(engine->tier, &measures);
}

/* --- the replies --- */

/* False: an error was replied. */
static bool find_sizing(struct call *call, struct sizing *sizing)
{
    switch (sizing_look(call->engine, sizing)) {
    case SIZING_NO_TIER:
        reply_errorf(call, "ERR the cold tier is disabled (tier-enabled no)");
        return false;
    case SIZING_NOT_SAMPLED:
        reply_errorf(call, "ERR uses of keys are not sampled (tier-advise no)");
        return false;
    case SIZING_NO_LIMIT:
        reply_errorf(call, "ERR maxmemory is 0: there is no size of memory to compare with");
        return false;
    case SIZING_FEW_USES:
        reply_errorf(call, "ERR too few uses of keys were sampled yet: about %.0f, and %d are needed", sizing_sampled_uses(&sizing->estimate), SIZING_USES_MIN);
        return false;
    case SIZING_KNOWN:
        break;
    }
    return true;
}

static void reply_number(struct call *call, const char *name, double number)
{
    reply_bulk_string(call->reply, name);
    reply_bulk_format(call->reply, "%.2f", number);
}

/* Six times a maxmemory may be more than the largest integer. */
static int64_t fit_integer(double number)
{
    return number < (double)INT64_MAX ? (int64_t)number : INT64_MAX;
}

static void reply_latency(struct call *call, const char *name, double us)
{
    reply_bulk_string(call->reply, name);
    if (us < 0)
        reply_null(call->reply);
    else
        reply_bulk_format(call->reply, "%.1f", us);
}

enum { ADVICE_PAIRS = 6 };

static void reply_advice(struct call *call, const struct sizing_point *advice)
{
    reply_number(call, "factor", advice->factor);
    reply_bulk_string(call->reply, "maxmemory");
    reply_integer(call->reply, fit_integer(advice->maxmemory));
    reply_number(call, "hit_ratio", advice->hit_ratio);
    reply_number(call, "reads_per_second", advice->reads);
    reply_latency(call, "mean_usec", advice->mean_us);
    reply_latency(call, "p99_usec", advice->p99_us);
}

static double measured_hit_ratio(const struct engine *engine)
{
    double hot = (double)engine_stat(engine, STAT_HOT_HITS), cold = (double)engine_stat(engine, STAT_COLD_HITS);

    return 100 * info_ratio(hot, hot + cold);
}

static void reply_curve(struct call *call, const struct sizing *sizing)
{
    const struct advise_estimate *estimate = &sizing->estimate;

    reply_map(call->reply, 7);
    reply_bulk_string(call->reply, "maxmemory");
    reply_integer(call->reply, fit_integer(sizing->maxmemory));
    reply_number(call, "measured_hit_ratio", measured_hit_ratio(call->engine));
    reply_number(call, "uses_per_second", info_ratio(estimate->uses, estimate->seconds));
    reply_bulk_string(call->reply, "seconds");
    reply_integer(call->reply, fit_integer(estimate->seconds));
    reply_number(call, "known", sizing_known_percent(estimate));
    reply_bulk_string(call->reply, "sampled_keys");
    reply_integer(call->reply, estimate->sampled_keys);
    reply_bulk_string(call->reply, "sizes");
    reply_array(call->reply, SIZING_SHOWN);
    for (int i = 0; i < SIZING_SHOWN; i++) {
        struct sizing_point advice = sizing_at(sizing, sizing_shown(i));

        reply_map(call->reply, ADVICE_PAIRS);
        reply_advice(call, &advice);
    }
}

/* The smallest size, in steps of a twenty-fourth of an octave. */
static void reply_for_ratio(struct call *call, const struct sizing *sizing, double percent)
{
    struct sizing_point advice = { .hit_ratio = 0 };

    for (int step = 0; step <= (ADVISE_SIZES - 1) * STEPS; step++) {
        advice = sizing_at(sizing, (double)step / STEPS);
        if (advice.hit_ratio < percent)
            continue;
        reply_map(call->reply, ADVICE_PAIRS);
        reply_advice(call, &advice);
        return;
    }
    reply_errorf(call, "ERR a hit ratio of %g is not reached up to maxmemory %.0f: it would be %.2f", percent, advice.maxmemory, advice.hit_ratio);
}

/* Prices of a GB of each, and the reads a second that a GB of SSD is good for. */
struct prices {
    double ram, ssd, reads;
    double ssd_bytes;           /* that the data have now */
};

/* As much SSD as the data or the reads need, whichever is more. */
static double ssd_cost(const struct prices *prices, const struct sizing_point *advice)
{
    return prices->ssd * fmax(prices->ssd_bytes / GB, advice->reads / prices->reads);
}

static double ram_cost(const struct prices *prices, const struct sizing_point *advice)
{
    return prices->ram * advice->maxmemory / GB;
}

static void reply_for_cost(struct call *call, const struct sizing *sizing, const struct prices *prices)
{
    struct sizing_point best = { .factor = 0 };
    double best_cost = INFINITY;

    for (int step = 0; step <= (ADVISE_SIZES - 1) * STEPS; step++) {
        struct sizing_point advice = sizing_at(sizing, (double)step / STEPS);
        double cost = ram_cost(prices, &advice) + ssd_cost(prices, &advice);

        if (cost < best_cost) {
            best = advice;
            best_cost = cost;
        }
    }
    reply_map(call->reply, ADVICE_PAIRS + 3);
    reply_advice(call, &best);
    reply_number(call, "ram_cost", ram_cost(prices, &best));
    reply_number(call, "ssd_cost", ssd_cost(prices, &best));
    reply_number(call, "cost", best_cost);
}

static bool arg_price(struct call *call, int index, double least, double *price)
{
    if (!arg_double(call, index, price))
        return false;
    if (*price >= least && *price <= PRICE_MAX) {
        *price = fabs(*price);          /* not -0 */
        return true;
    }
    reply_errorf(call, "ERR value is out of range, must be between %g and %g", least, PRICE_MAX);
    return false;
}

static void advise_cost(struct call *call)
{
    struct prices prices = { .reads = SSD_READS };
    struct sizing sizing;
    struct tier_stats stats;

    if (!arg_price(call, 3, 0, &prices.ram) || !arg_price(call, 4, 0, &prices.ssd) ||
        (call->arg_count == 6 && !arg_price(call, 5, 1e-3, &prices.reads)) || !find_sizing(call, &sizing))
        return;
    tier_stats(call->engine->tier, &stats);
    prices.ssd_bytes = (double)stats.store_bytes;
    reply_for_cost(call, &sizing, &prices);
}

static void advise_hit_ratio(struct call *call)
{
    struct sizing sizing;
    double percent;

    if (!arg_double(call, 3, &percent))
        return;
    if (!(percent >= 0 && percent <= 100)) {
        reply_errorf(call, "ERR value is out of range, must be between 0 and 100");
        return;
    }
    if (find_sizing(call, &sizing))
        reply_for_ratio(call, &sizing, percent);
}

void advice_command(struct call *call)
{
    struct sizing sizing;

    if (call->arg_count == 2) {
        if (find_sizing(call, &sizing))
            reply_curve(call, &sizing);
    } else if (call->arg_count == 4 && bytes_is(call->args[2], "HITRATIO")) {
        advise_hit_ratio(call);
    } else if ((call->arg_count == 5 || call->arg_count == 6) && bytes_is(call->args[2], "COST")) {
        advise_cost(call);
    } else {
        reply_error(call, ERR_SYNTAX);
    }
}

void advice_info(struct buffer *out, struct engine *engine)
{
    struct advise_estimate estimate = { .seconds = 0 };
    bool is_known;

    if (engine->tier != NULL)
        tier_advise_look(engine->tier, &estimate);
    is_known = sizing_sampled_uses(&estimate) >= SIZING_USES_MIN;
    info_number(out, "tier_advise_sampled_keys", estimate.sampled_keys);
    info_number(out, "tier_advise_sampled_uses", fit_integer(sizing_sampled_uses(&estimate)));
    info_float(out, "tier_advise_known", fmax(sizing_known_percent(&estimate), 0));
    info_float(out, "tier_advise_half_hit_ratio", is_known ? 100 * estimate.hit_ratio[ADVISE_PRESENT - ADVISE_OCTAVE] : 0);
    info_float(out, "tier_advise_hit_ratio", is_known ? 100 * estimate.hit_ratio[ADVISE_PRESENT] : 0);
    info_float(out, "tier_advise_double_hit_ratio", is_known ? 100 * estimate.hit_ratio[ADVISE_PRESENT + ADVISE_OCTAVE] : 0);
}
