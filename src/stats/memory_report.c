#include "stats/memory_report.h"

#include <inttypes.h>

#include "stats/info.h"

enum {
    PROGRAM_SIZE = 16 << 20,        /* resident, and not the allocator's: code, libraries, stacks */
    SIZE_MIN = 5 << 20,             /* with less in use, shares of it say nothing */
    LOOKUPS_MIN = 1000,             /* with fewer, neither does the hit ratio */
    HIT_PERCENT_MIN = 90,
    WAIT_MS_LONG = 1000,
};

/* A line about a part of the memory that is more than this share of it. */
static void append_part(struct buffer *out, const struct memory_symptoms *symptoms, uint64_t size, int percent, const char *what, const char *remedy)
{
    char human[32], used[32];

    if (symptoms->used < SIZE_MIN || size <= symptoms->used / 100 * (unsigned)percent)
        return;
    info_human(size, human);
    info_human(symptoms->used, used);
    buffer_append_format(out, "- %s: %s of %s. %s\n", what, human, used, remedy);
}

static void append_parts(struct buffer *out, const struct memory_symptoms *symptoms)
{
    append_part(out, symptoms, symptoms->clients, 25, "Buffers of clients",
        "CLIENT LIST shows which clients (tot-mem). maxmemory-clients and client-output-buffer-limit bound them.");
    append_part(out, symptoms, symptoms->backlog, 25, "The replication backlog",
        "A replica is far behind (slave0 in INFO replication: offset, lag), or repl-backlog-size is large. It is kept for repl-backlog-ttl seconds "
        "after the last replica.");
    append_part(out, symptoms, symptoms->scripts, 25, "Scripts and functions",
        "Global and library variables stay in memory; script-heap-max bounds them. SCRIPT FLUSH and FUNCTION DELETE free what is not needed.");
    append_part(out, symptoms, symptoms->log_buffer, 25, "What has yet to be written to the log",
        "The log's disk does not keep up, or is in error: see aof_last_write_status in INFO persistence.");
    append_part(out, symptoms, symptoms->cold, 50, "The record map of cold keys and the store's own memory",
        "A larger maxmemory, or a smaller tier-write-buffer and tier-block-cache, leaves more room for hot keys.");
}

static void append_process(struct buffer *out, const struct memory_symptoms *symptoms)
{
    char used[32], other[32];

    if (symptoms->used < SIZE_MIN)
        return;
    info_human(symptoms->used, used);
    if (symptoms->peak > symptoms->used + symptoms->used / 2) {
        info_human(symptoms->peak, other);
        buffer_append_format(out, "- Memory usage was much higher before (%s, now %s). The allocator returns the difference to the system with time; "
            "MEMORY PURGE returns it at once.\n", other, used);
    }
    if (symptoms->resident > symptoms->used + symptoms->used / 2 + PROGRAM_SIZE) {
        info_human(symptoms->resident, other);
        buffer_append_format(out, "- Fragmentation: the process uses %s of the system's memory for %s of data. MEMORY PURGE may return some of it; new "
            "data fills the rest again. With maxmemory, what is beyond a twentieth of it counts as used (tier_memory_set_aside).\n", other, used);
    }
}

static void append_limit(struct buffer *out, const struct memory_symptoms *symptoms)
{
    char limit[32], other[32];

    info_human(symptoms->limit, limit);
    info_human(symptoms->machine, other);
    if (symptoms->limit > symptoms->machine && symptoms->machine > 0)
        buffer_append_format(out, "- maxmemory is %s, and the machine has %s. The system will swap, or end the server. Leave a fifth of the machine to the "
            "page cache.\n", limit, other);
    if (symptoms->limit == 0 && symptoms->machine > 0 && symptoms->resident > symptoms->machine / 10 * 8)
        buffer_append_format(out, "- maxmemory is 0, so no key is moved to the disk, and the process has most of the machine's %s. CONFIG SET maxmemory before "
            "the system ends the server.\n", other);
    info_human(symptoms->counted, other);
    if (symptoms->limit > 0 && symptoms->counted > symptoms->limit)
        buffer_append_format(out, "- Memory is over maxmemory: %s of %s. %s\n", other, limit, symptoms->is_off ?
            "tier-enabled is no, so no key is moved to the disk, and maxmemory-policy decides." : symptoms->is_stuck ?
            "Nothing is left that could be moved to the disk: what holds the memory are not keys (see the other lines, and INFO memory). More maxmemory." :
            "Keys are moved to the disk, but not as fast as memory is taken, or not at all (see the other lines).");
}

static void append_tier(struct buffer *out, const struct memory_symptoms *symptoms)
{
    uint64_t lookups = symptoms->hot_hits + symptoms->cold_hits, keys = symptoms->hot_keys + symptoms->cold_keys;

    if (symptoms->is_full)
        buffer_append_string(out, "- The store is full: it has reached tier-max-size, or its disk is full. No key is moved to the disk, and when memory is full "
            "maxmemory-policy decides. More disk and a larger tier-max-size, or fewer keys.\n");
    if (symptoms->is_failing)
        buffer_append_string(out, "- The store can't be read or written, so no key is moved to the disk: see tier_last_error in INFO tiering, and the log. It goes on "
            "by itself when the disk works again.\n");
    if (symptoms->waiting_ms >= WAIT_MS_LONG)
        buffer_append_format(out, "- Now %" PRIu64 " client%s for memory, the longest for %" PRId64 ".%" PRId64 " s. The disk does not keep up with the writes, or too "
            "little can be moved to it.\n", symptoms->waiting_clients, symptoms->waiting_clients == 1 ? " waits" : "s wait", symptoms->waiting_ms / 1000,
            symptoms->waiting_ms / 100 % 10);
    if (symptoms->throttled_calls > 0)
        buffer_append_format(out, "- %" PRIu64 " call%s slowed down or waited for memory (99 %% of the waits: up to %" PRIu64 " us): writes come faster than demotion "
            "makes room. A faster disk, a lower tier-high-watermark as a reserve for bursts, or more maxmemory.\n", symptoms->throttled_calls,
            symptoms->throttled_calls == 1 ? " was" : "s were", symptoms->wait_p99_us);
    if (symptoms->cold_keys <= keys / 2 || lookups < LOOKUPS_MIN || symptoms->hot_hits * 100 >= lookups * HIT_PERCENT_MIN)
        return;
    buffer_append_format(out, "- Only %" PRIu64 " %% of the lookups found their key in RAM, and %" PRIu64 " %% of the keys are cold. %s\n",
        symptoms->hot_hits * 100 / lookups, symptoms->cold_keys * 100 / keys, symptoms->is_warming ?
        "The warm-up after the start is still loading: look again when tier_warmup_state is done, after CONFIG RESETSTAT." :
        "The keys in use do not fit: more maxmemory. If the ratio hardly changes with it, the traffic has no hot part.");
}

void memory_report(struct buffer *out, const struct memory_symptoms *symptoms)
{
    size_t before = out->size;

    append_limit(out, symptoms);
    append_tier(out, symptoms);
    append_parts(out, symptoms);
    append_process(out, symptoms);
    if (out->size == before)
        buffer_append_string(out, symptoms->used < SIZE_MIN ? "The server uses too little memory for a report.\n" :
            "No problems with memory were found.\n");
}
