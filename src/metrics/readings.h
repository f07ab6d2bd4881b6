/* Readings: the numbers of the server, read once for a page. They are those of INFO, by the same functions.
 *
 * On kelvin-page: some lock one partition after another, each for less than a microsecond, so a call that has a partition locked for long holds the readings
 * up for as long; no reading holds two locks. What each locks is said there.
 */
#ifndef KELVIN_METRICS_READINGS_H
#define KELVIN_METRICS_READINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/blocking.h"
#include "engine/data_stats.h"
#include "engine/engine.h"
#include "lifecycle/backups.h"
#include "lifecycle/save.h"
#include "lifecycle/task.h"
#include "replication/view.h"
#include "tier/tier.h"

struct readings {
    struct engine *engine;
    int64_t began_us;                   /* monotonic */
    struct memory_stats memory;         /* partitions, in turn; leaves */
    struct memory_view room;            /* the tier's leaves */
    struct tier_stats tier;             /* partitions, in turn; leaves. Zero, and TIER_OFF: there is no tier */
    struct parking_waits waits;         /* no lock */
    struct blocking_stats blocking;     /* no lock */
    struct database_keys *databases;    /* partitions, in turn */
    int database_count;
    struct replication_view replication;/* leaves of replication */
    struct task_stats rewrite;          /* the tasks' leaf, as the next two */
    struct save_stats save;
    struct backups_stats backups;
    struct aof_stats aof;               /* leaves of the log */
    bool has_aof, aof_fails;
};

struct readings *readings_take(struct engine *engine);
void readings_release(struct readings *readings);

#endif
