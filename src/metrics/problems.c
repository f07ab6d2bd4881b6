#include "metrics/problems.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/machine.h"
#include "engine/memory.h"
#include "engine/parking.h"
#include "metrics/document.h"
#include "metrics/readings.h"
#include "metrics/ready.h"
#include "stats/info.h"

enum {
    NEARLY_PERCENT = 90,            /* of maxclients, of tier-max-size */
    LAG_MAX = 100 * 1000 * 1000,    /* bytes that a replica lacks: the same as in the alert rules */
    RECENT_US = 60 * 1000 * 1000,
    TEXT_SIZE = 320, HUMAN_SIZE = 32,
};

static const char error[] = "error", warning[] = "warning", note[] = "note";

static void add_problem(struct document *json, const char *level, const char *what, const char *remedy, const char *detail)
{
    document_open(json, NULL, '{');
    document_text(json, "level", level);
    document_text(json, "what", what);
    document_text(json, "do", remedy);
    document_text(json, "detail", detail);
    document_close(json, '}');
}

/* Failed reads and writes of the store. While they go on they are errors. */
static void add_failures(struct document *json, const struct readings *readings, const char *last)
{
    uint64_t count = readings->tier.errors;
    bool is_new = readings->began_us - readings->tier.last_error_us < RECENT_US;
    char text[TEXT_SIZE];

    if (count == 0 || readings->tier.state != TIER_OK || readings->tier.damaged_records > 0)
        return;
    snprintf(text, sizeof(text), "%" PRIu64 " read%s or write%s of the store ha%s failed%s", count, count == 1 ? "" : "s", count == 1 ? "" : "s", count == 1 ? "s" : "ve",
        is_new ? ", the last one less than a minute ago." : " since the start, none in the last minute.");
    add_problem(json, is_new ? error : warning, text, is_new ? "Look at the disk of tier-dir and at the server's log file. Calls that need these keys get an error; others are served." :
        "Calls that needed these keys got an error. The server's log file has the reason; if it was the disk, replace it.", last);
}

/* The state of the disk of cold keys. */
static void add_tier_errors(struct document *json, const struct readings *readings, const char *last)
{
    const struct tier_stats *tier = &readings->tier;
    char text[TEXT_SIZE];

    if (tier->state == TIER_ERROR)
        add_problem(json, error, "The store of cold keys can't be read or written.",
            "Look at the disk of tier-dir and at the server's log file. Cold keys are served again by themselves when the disk works.", last);
    if (tier->state == TIER_FULL)
        add_problem(json, error, "The store of cold keys is full: no key can be moved to the disk.",
            "Raise tier-max-size or make room on its disk, delete keys, or set tier-full-policy, which deletes the coldest ones.", last);
    if (tier->damaged_records > 0) {
        snprintf(text, sizeof(text), "%" PRIu64 " cold keys have records that can't be read.", tier->damaged_records);
        add_problem(json, error, text, "Run kelvin-check on the data directory, and restore these keys from a backup or a replica. Deleting or overwriting such a key works.", last);
    }
}

static void add_tier_limits(struct document *json, const struct readings *readings)
{
    double most = (double)config_number(readings->engine->config, CONFIG_TIER_MAX_SIZE);
    char text[TEXT_SIZE];

    if (readings->tier.state != TIER_OK || most <= 0 || (double)readings->tier.store_bytes < most * NEARLY_PERCENT / 100)
        return;
    snprintf(text, sizeof(text), "The store of cold keys has %.0f %% of tier-max-size.", 100 * (double)readings->tier.store_bytes / most);
    add_problem(json, warning, text, "Raise tier-max-size if the disk has room, or delete keys. When it is full, no key can be moved to the disk.", NULL);
}

static void add_files(struct document *json, const struct readings *readings)
{
    char text[TEXT_SIZE];

    if (readings->has_aof && readings->rewrite.failures > 0) {
        snprintf(text, sizeof(text), "The last %" PRIu64 " checkpoint%s failed: the log grows, and a restart takes longer.", readings->rewrite.failures,
            readings->rewrite.failures == 1 ? " has" : "s have");
        add_problem(json, warning, text, "The server's log file has the reason, mostly a disk that is full. The checkpoint is tried again by itself, or with BGREWRITEAOF.", NULL);
    }
    if (readings->save.last_failed)
        add_problem(json, warning, "The last dump (BGSAVE) has failed.", "The server's log file has the reason. The dump before it is still there; try BGSAVE again.", NULL);
    if (readings->backups.task.failures > 0)
        add_problem(json, warning, "The last backup (TIER BACKUP) has failed.", "The server's log file has the reason. Earlier backups are not affected.", NULL);
}

static void add_link(struct document *json, const struct readings *readings)
{
    const struct view_upstream *link = &readings->replication.upstream;
    char text[VIEW_HOST_SIZE + TEXT_SIZE];

    if (!readings->replication.is_replica || link->link == VIEW_LINK_CONNECTED || link->is_syncing)
        return;
    if (link->link_down_s >= 0)
        snprintf(text, sizeof(text), "The link to the primary %s:%d has been down for %" PRId64 " s: the data of this server is that old.", link->host, link->port, link->link_down_s);
    else
        snprintf(text, sizeof(text), "The link to the primary %s:%d is down: it has not been up yet.", link->host, link->port);
    add_problem(json, warning, text, "See whether the primary runs and is reached from here, and whether masterauth is right. The link is made again by itself.", NULL);
}

static void add_lags(struct document *json, const struct readings *readings)
{
    const struct replication_view *view = &readings->replication;
    char text[REPLICA_IP_SIZE + TEXT_SIZE], size[HUMAN_SIZE];

    for (int i = 0; i < view_shown(view); i++) {
        const struct replica_view *replica = &view->replicas[i];
        uint64_t lag = view_lag_bytes(view, replica);

        if (replica->state != REPLICA_ONLINE || lag < LAG_MAX)
            continue;
        info_human(lag, size);
        snprintf(text, sizeof(text), "The replica %s:%d lacks %s of the changes.", replica->ip, replica->port, size);
        add_problem(json, warning, text, "See whether its network or its disk is slow. If it falls further back than the backlog, it is synchronized in full.", NULL);
    }
}

static void add_memory(struct document *json, const struct readings *readings, const struct reason *reason)
{
    const struct memory_view *room = &readings->room;
    uint64_t machine = machine_memory();
    char text[TEXT_SIZE], counted[HUMAN_SIZE], limit[HUMAN_SIZE];

    info_human(memory_counted(room), counted);
    info_human(room->limit, limit);
    if (readings->waits.longest_ms >= PARKING_LONG_MS) {
        snprintf(text, sizeof(text), "%" PRIu64 " client%s for memory, the longest for %.1f s.", readings->waits.clients, readings->waits.clients == 1 ? " waits" : "s wait",
            (double)readings->waits.longest_ms / 1000);
        add_problem(json, warning, text, "Writes come faster than the disk takes keys: a faster disk, more maxmemory, or fewer writes.", NULL);
    } else if (reason == NULL && memory_judge(room) == MEMORY_OUT) {
        snprintf(text, sizeof(text), "Memory is over its limit: %s of %s, and no key can be moved to the disk.", counted, limit);
        add_problem(json, warning, text, "maxmemory-policy deletes keys. Raise maxmemory; MEMORY DOCTOR says what has the memory.", NULL);
    }
    if (room->limit > machine && machine > 0) {
        info_human(machine, counted);
        snprintf(text, sizeof(text), "maxmemory is %s, and the machine has %s.", limit, counted);
        add_problem(json, warning, text, "Lower maxmemory: the system would swap, or end the server.", NULL);
    }
}

static void add_clients(struct document *json, const struct readings *readings)
{
    const struct engine *engine = readings->engine;
    int64_t most = config_number(engine->config, CONFIG_MAXCLIENTS);
    char text[TEXT_SIZE];

    if (engine->clients.count * 100 < most * NEARLY_PERCENT)
        return;
    snprintf(text, sizeof(text), "%" PRId64 " of %" PRId64 " possible connections are in use.", (int64_t)engine->clients.count, most);
    add_problem(json, warning, text, "Raise maxclients, or see in CLIENT LIST which programs do not close their connections.", NULL);
}

/* Adds notes: states that are no faults, but may surprise. */
static void add_notes(struct document *json, const struct readings *readings)
{
    const struct engine *engine = readings->engine;
    bool tier_is_on = engine->tier != NULL && config_number(engine->config, CONFIG_TIER_ENABLED);

    if (!tier_is_on)
        add_problem(json, note, "The cold tier is off: all keys have to fit into memory.", "CONFIG SET tier-enabled yes lets cold keys move to the disk.", NULL);
    else if (readings->room.limit == 0)
        add_problem(json, note, "maxmemory is 0: there is no limit, and no key is moved to the disk.", "CONFIG SET maxmemory 4gb, for example. Then the coldest keys are on the disk.", NULL);
    if (!readings->has_aof && !readings->replication.is_replica && !save_has_points(engine->lifecycle.save))
        add_problem(json, note, "Nothing is kept over a restart: there is no log, and there are no save points.", "CONFIG SET appendonly yes, if the data are more than a cache.", NULL);
    else if (!readings->has_aof && !readings->replication.is_replica)
        add_problem(json, note, "There is no log: what was written since the last dump is lost in a crash.", "CONFIG SET appendonly yes keeps every change.", NULL);
}

void problems_write(struct document *json, const struct readings *readings, const struct reason *reason, bool sees_keys)
{
    const char *last = sees_keys && readings->tier.last_error[0] != '\0' ? readings->tier.last_error : NULL;
    int state = readings->engine->state;

    document_open(json, "problems", '[');
    if (reason != NULL)
        add_problem(json, state == ENGINE_READY ? error : warning, reason->what, reason->remedy, NULL);
    add_tier_errors(json, readings, last);
    add_failures(json, readings, last);
    add_memory(json, readings, reason);
    add_link(json, readings);
    add_lags(json, readings);
    add_files(json, readings);
    add_tier_limits(json, readings);
    add_clients(json, readings);
    if (state == ENGINE_READY)
        add_notes(json, readings);
    document_close(json, ']');
}
