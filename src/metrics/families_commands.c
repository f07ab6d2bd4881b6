/* Metrics of commands, by family: the groups of COMMAND DOCS. Commands one by one would be 500 histograms. */
#include "metrics/families.h"

#include <string.h>

#include "base/histogram.h"
#include "base/mem.h"
#include "stats/error_stats.h"
#include "stats/waits.h"

enum {
    GROUPS_MAX = 32,
    FIRST_BITS = 10, LAST_BITS = 33,        /* 1 us to 8.6 s, in nanoseconds; the last bucket that is counted in also has all above */
};

struct group {
    const char *name;
    struct command_totals totals;
    uint64_t latency[LATENCY_BUCKETS];
};

struct groups {
    int count;
    struct group at[GROUPS_MAX];
};

static const char *group_of(const struct command *command)
{
    if (command->group == NULL && command->parent != NULL)
        return group_of(command->parent);
    return command->group != NULL ? command->group : "other";
}

static struct group *find_group(struct groups *groups, const char *name)
{
    for (int i = 0; i < groups->count; i++) {
        if (strcmp(groups->at[i].name, name) == 0)
            return &groups->at[i];
    }
    if (groups->count == GROUPS_MAX)
        return &groups->at[GROUPS_MAX - 1];
    groups->at[groups->count] = (struct group){ .name = name };
    return &groups->at[groups->count++];
}

static void add_command(const struct engine *engine, const struct command *command, struct groups *groups)
{
    struct group *group = find_group(groups, group_of(command));
    struct command_totals totals = engine_command_totals(engine, command);

    group->totals.calls += totals.calls;
    group->totals.nsec += totals.nsec;
    group->totals.failed += totals.failed;
    group->totals.rejected += totals.rejected;
    if (totals.calls > 0)
        engine_add_command_latency(engine, command, group->latency);
}

static struct label family_label(const struct group *group)
{
    return (struct label){ "family", bytes_of_string(group->name) };
}

static void write_calls(struct exposition *out, const struct groups *groups)
{
    struct label label;

    exposition_begin(out, &(struct metric){ "kelvin_commands", METRIC_COUNTER, NULL, "Calls that ran, by family." });
    for (int i = 0; i < groups->count; i++) {
        label = family_label(&groups->at[i]);
        exposition_integer(out, &label, 1, groups->at[i].totals.calls);
    }
    exposition_begin(out, &(struct metric){ "kelvin_commands_failed", METRIC_COUNTER, NULL, "Calls that ran and returned an error, by family." });
    for (int i = 0; i < groups->count; i++) {
        label = family_label(&groups->at[i]);
        exposition_integer(out, &label, 1, groups->at[i].totals.failed);
    }
    exposition_begin(out, &(struct metric){ "kelvin_commands_rejected", METRIC_COUNTER, NULL, "Calls that were refused before they ran, by family." });
    for (int i = 0; i < groups->count; i++) {
        label = family_label(&groups->at[i]);
        exposition_integer(out, &label, 1, groups->at[i].totals.rejected);
    }
}

static void write_latency(struct exposition *out, const struct groups *groups)
{
    exposition_begin(out, &(struct metric){ "kelvin_command_duration_seconds", METRIC_HISTOGRAM, "seconds",
        "How long calls ran, by family; what they waited for before is not counted." });
    for (int i = 0; i < groups->count; i++) {
        const struct group *group = &groups->at[i];
        struct label label = family_label(group);

        exposition_histogram(out, &label, 1, &(struct exposition_histogram){
            .counts = group->latency, .bucket_count = LATENCY_BUCKETS, .step_bits = LATENCY_STEP_BITS, .per_unit = 1e9,
            .first = FIRST_BITS, .last = LAST_BITS, .sum = (double)group->totals.nsec / 1e9,
        });
    }
}

static void write_waits(struct exposition *out, const struct engine *engine)
{
    static const struct metric families[WAIT_REASONS] = {
        [WAIT_COLD] = { "kelvin_cold_wait_seconds", METRIC_HISTOGRAM, "seconds", "How long calls have waited for cold keys." },
        [WAIT_MEMORY] = { "kelvin_memory_wait_seconds", METRIC_HISTOGRAM, "seconds", "How long calls have waited for memory." },
        [WAIT_OWNER] = { "kelvin_owner_wait_seconds", METRIC_HISTOGRAM, "seconds", "How long calls have waited for a transaction or script." },
        [WAIT_PAUSE] = { "kelvin_pause_wait_seconds", METRIC_HISTOGRAM, "seconds", "How long calls have waited for CLIENT PAUSE." },
        [WAIT_JOB] = { "kelvin_job_wait_seconds", METRIC_HISTOGRAM, "seconds", "How long calls have waited for work on other threads." },
    };
    uint64_t counts[LATENCY_BUCKETS];

    for (int reason = 0; reason < WAIT_REASONS; reason++) {
        histogram_load(waits_histogram(engine->stats.waits, (enum wait_reason)reason), LATENCY_BUCKETS, counts);
        exposition_begin(out, &families[reason]);
        exposition_histogram(out, NULL, 0, &(struct exposition_histogram){
            .counts = counts, .bucket_count = LATENCY_BUCKETS, .step_bits = LATENCY_STEP_BITS, .per_unit = 1e9,
            .first = FIRST_BITS, .last = LAST_BITS, .sum = (double)waits_sum_us(engine->stats.waits, (enum wait_reason)reason) / 1e6,
        });
    }
}

static void write_error(void *context, struct bytes code, uint64_t count)
{
    exposition_integer(context, &(struct label){ "code", code }, 1, count);
}

void families_commands(struct exposition *out, const struct readings *readings)
{
    const struct engine *engine = readings->engine;
    struct groups *groups = mem_zalloc(sizeof(*groups));

    for (size_t i = 0; i < command_row_count(engine->commands); i++)
        add_command(engine, command_row_at(engine->commands, i), groups);
    write_calls(out, groups);
    write_latency(out, groups);
    mem_free(groups);
    write_waits(out, engine);
    exposition_begin(out, &(struct metric){ "kelvin_errors", METRIC_COUNTER, NULL,
        "Error replies by their first word; 128 words at most, all others count together." });
    error_stats_each(engine->stats.errors, write_error, out);
}
