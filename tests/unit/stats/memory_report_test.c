#include "support/unit.h"
#include <string.h>

#include "stats/memory_report.h"

#define MIB (UINT64_C(1) << 20)

/* A server that has nothing to complain about: 80 MB of 100 MB, on a machine with 1000 MB. */
static struct memory_symptoms healthy(void)
{
    return (struct memory_symptoms){
        .limit = 100 * MIB, .counted = 80 * MIB, .used = 75 * MIB, .peak = 85 * MIB, .resident = 80 * MIB, .machine = 1000 * MIB,
        .clients = MIB, .backlog = MIB, .scripts = MIB, .log_buffer = MIB, .cold = 20 * MIB,
        .hot_keys = 1000, .cold_keys = 9000, .hot_hits = 9500, .cold_hits = 500,
    };
}

/* The report has one line, which contains each of these texts. */
static void assert_report(const struct memory_symptoms *symptoms, const char *const *texts)
{
    struct buffer out = { 0 };

    memory_report(&out, symptoms);
    buffer_append_u8(&out, 0);
    assert_ptr_equal(strchr(out.data, '\n'), out.data + out.size - 2);
    for (; *texts != NULL; texts++) {
        if (strstr(out.data, *texts) == NULL)
            fail_msg("there is no \"%s\" in \"%s\"", *texts, out.data);
    }
    buffer_release(&out);
}

#define ASSERT_REPORT(symptoms, ...) assert_report(symptoms, (const char *const[]){ __VA_ARGS__, NULL })

static void a_healthy_server_has_no_problem(void **state)
{
    struct memory_symptoms symptoms = healthy();

    ASSERT_REPORT(&symptoms, "No problems with memory were found.");
    symptoms = (struct memory_symptoms){ .used = 2 * MIB, .peak = 4 * MIB, .resident = 9 * MIB, .clients = MIB };
    ASSERT_REPORT(&symptoms, "too little memory for a report");
}

static void each_part_that_is_too_large_is_named_with_its_remedy(void **state)
{
    static const struct {
        size_t offset;
        const char *size, *name, *remedy;
    } parts[] = {
        { offsetof(struct memory_symptoms, clients), "- Buffers of clients: 40.00M of 75.00M.", "CLIENT LIST", "maxmemory-clients" },
        { offsetof(struct memory_symptoms, backlog), "- The replication backlog: 40.00M of 75.00M.", "INFO replication", "repl-backlog-size" },
        { offsetof(struct memory_symptoms, scripts), "- Scripts and functions: 40.00M of 75.00M.", "script-heap-max", "FUNCTION DELETE" },
        { offsetof(struct memory_symptoms, log_buffer), "- What has yet to be written to the log: 40.00M of 75.00M.", "disk", "aof_last_write_status" },
        { offsetof(struct memory_symptoms, cold), "- The record map of cold keys and the store's own memory: 40.00M of 75.00M.", "maxmemory", "tier-write-buffer" },
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct memory_symptoms symptoms = healthy();

        *(uint64_t *)((char *)&symptoms + parts[i].offset) = 40 * MIB;
        ASSERT_REPORT(&symptoms, parts[i].size, parts[i].name, parts[i].remedy);
    }
}

static void the_process_and_the_machine(void **state)
{
    struct memory_symptoms symptoms = healthy();

    symptoms.resident = 130 * MIB;
    ASSERT_REPORT(&symptoms, "- Fragmentation: the process uses 130.00M of the system's memory for 75.00M of data", "MEMORY PURGE");
    symptoms = healthy();
    symptoms.peak = 120 * MIB;
    ASSERT_REPORT(&symptoms, "- Memory usage was much higher before (120.00M, now 75.00M)", "MEMORY PURGE");
    symptoms = healthy();
    symptoms.limit = 1001 * MIB;
    ASSERT_REPORT(&symptoms, "- maxmemory is 1001.00M, and the machine has 1000.00M.", "page cache");
    symptoms = healthy();
    symptoms.limit = 0;
    symptoms.used = symptoms.peak = symptoms.counted = symptoms.resident = 801 * MIB;
    ASSERT_REPORT(&symptoms, "- maxmemory is 0", "1000.00M", "CONFIG SET maxmemory");
    symptoms.machine = 0;
    ASSERT_REPORT(&symptoms, "No problems");
}

static void over_the_limit_it_says_what_decides(void **state)
{
    struct memory_symptoms symptoms = healthy();

    symptoms.counted = 101 * MIB;
    ASSERT_REPORT(&symptoms, "- Memory is over maxmemory: 101.00M of 100.00M.", "not as fast as memory is taken");
    symptoms.is_stuck = true;
    ASSERT_REPORT(&symptoms, "- Memory is over maxmemory", "Nothing is left that could be moved to the disk");
    symptoms.is_stuck = false;
    symptoms.is_off = true;
    ASSERT_REPORT(&symptoms, "- Memory is over maxmemory", "tier-enabled is no", "maxmemory-policy decides");
    symptoms.limit = 0;
    ASSERT_REPORT(&symptoms, "No problems");
}

static void the_store_and_waits(void **state)
{
    struct memory_symptoms symptoms = healthy();

    symptoms.is_full = true;
    ASSERT_REPORT(&symptoms, "- The store is full", "tier-max-size");
    symptoms = healthy();
    symptoms.is_failing = true;
    ASSERT_REPORT(&symptoms, "- The store can't be read or written", "tier_last_error");
    symptoms = healthy();
    symptoms.waiting_clients = 3;
    symptoms.waiting_ms = 999;
    ASSERT_REPORT(&symptoms, "No problems");
    symptoms.waiting_ms = 12345;
    ASSERT_REPORT(&symptoms, "- Now 3 clients wait for memory, the longest for 12.3 s.");
    symptoms.waiting_clients = 1;
    ASSERT_REPORT(&symptoms, "- Now 1 client waits for memory");
    symptoms = healthy();
    symptoms.throttled_calls = 482;
    symptoms.wait_p99_us = 96688;
    ASSERT_REPORT(&symptoms, "- 482 calls were slowed down or waited for memory", "up to 96688 us", "tier-high-watermark");
}

static void the_hit_ratio_counts_when_most_keys_are_cold_and_lookups_are_many(void **state)
{
    struct memory_symptoms symptoms = healthy();

    symptoms.hot_hits = 4400;
    symptoms.cold_hits = 5600;
    ASSERT_REPORT(&symptoms, "- Only 44 % of the lookups found their key in RAM, and 90 % of the keys are cold.", "more maxmemory", "no hot part");
    symptoms.is_warming = true;
    ASSERT_REPORT(&symptoms, "- Only 44 %", "warm-up", "CONFIG RESETSTAT");
    symptoms.hot_hits = 440;
    symptoms.cold_hits = 559;
    ASSERT_REPORT(&symptoms, "No problems");
    symptoms.hot_hits = 9000;
    symptoms.cold_hits = 1000;
    ASSERT_REPORT(&symptoms, "No problems");
    symptoms.hot_hits = 8999;
    symptoms.cold_hits = 1001;
    ASSERT_REPORT(&symptoms, "- Only 89 %");
    symptoms.hot_keys = 9000;
    ASSERT_REPORT(&symptoms, "No problems");
}

static void several_problems_are_several_lines(void **state)
{
    struct memory_symptoms symptoms = healthy();
    struct buffer out = { 0 };
    int lines = 0;

    symptoms.is_full = true;
    symptoms.counted = 120 * MIB;
    symptoms.clients = 30 * MIB;
    symptoms.throttled_calls = 1;
    memory_report(&out, &symptoms);
    for (size_t i = 0; i < out.size; i++)
        lines += out.data[i] == '\n';
    assert_int_equal(lines, 4);
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_server_has_no_problem),
        cmocka_unit_test(each_part_that_is_too_large_is_named_with_its_remedy),
        cmocka_unit_test(the_process_and_the_machine),
        cmocka_unit_test(over_the_limit_it_says_what_decides),
        cmocka_unit_test(the_store_and_waits),
        cmocka_unit_test(the_hit_ratio_counts_when_most_keys_are_cold_and_lookups_are_many),
        cmocka_unit_test(several_problems_are_several_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
