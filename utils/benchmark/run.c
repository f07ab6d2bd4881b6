#include "run.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/progress_report.h"
#include "cpu.h"
#include "options.h"
#include "worker.h"

enum { PROGRESS_MS = 250, LOAD_PIPELINE = 32, SAMPLE_NS = 1000000000 };

/* The state of a run while it is active. */
struct stage {
    const struct options *options;
    struct worker_plan plan;
    redisContext **contexts;
    size_t context_count;
    struct worker **workers;
    size_t worker_count;
    int64_t start_ns;
    struct redisContext *control;       /* NULL: no samples of INFO */
    int64_t sample_ns;                  /* when the next one is due */
};

static bool connections_open(struct stage *stage, char *error, size_t error_size)
{
    const struct options *options = stage->options;

    stage->contexts = mem_zalloc(options->clients * sizeof(*stage->contexts));
    for (size_t i = 0; i < options->clients; i++) {
        stage->contexts[i] = control_open(options, (enum protocol)options->resp, error, error_size);
        if (stage->contexts[i] == NULL)
            return false;
        stage->context_count++;
    }
    return true;
}

static void connections_close(struct stage *stage)
{
    for (size_t i = 0; i < stage->context_count; i++)
        redisFree(stage->contexts[i]);
    mem_free(stage->contexts);
}

static void plan_make(struct stage *stage, const struct workload *workload, size_t index)
{
    const struct options *options = stage->options;
    struct worker_plan *plan = &stage->plan;
    bool load = workload_is_load(workload);
    bool timed = options->duration_s > 0 && !load;

    plan->workload = workload;
    plan->pipeline = load && !options->pipeline_given ? LOAD_PIPELINE : (size_t)options->pipeline;
    plan->requests = load ? options->keys.count : timed ? UINT64_MAX / 2 : options->requests;
    plan->interval_ns = options->rps > 0 ? 1e9 * (double)options->threads / options->rps : 0;
    plan->seed = options->seed + index * 0xd1342543de82ef95u;
    plan->stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    plan->done_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(plan->stop_event >= 0 && plan->done_event >= 0);
    stage->start_ns = plan->start_ns = clock_mono_ns();
    stage->sample_ns = stage->start_ns + SAMPLE_NS;
    plan->period_ns = (int64_t)options_period_ms(options) * 1000000;
    plan->end_ns = timed ? stage->start_ns + (int64_t)(options->duration_s * 1e9) : INT64_MAX;
}

static void workers_start(struct stage *stage)
{
    size_t taken = 0;
    int *fds = mem_alloc(stage->context_count * sizeof(*fds));

    for (size_t i = 0; i < stage->context_count; i++)
        fds[i] = stage->contexts[i]->fd;
    stage->worker_count = stage->options->threads;
    stage->workers = mem_zalloc(stage->worker_count * sizeof(*stage->workers));
    for (size_t i = 0; i < stage->worker_count; i++) {
        size_t share = (stage->context_count - taken) / (stage->worker_count - i);

        stage->workers[i] = worker_create(&stage->plan, i, fds + taken, share);
        taken += share;
    }
    for (size_t i = 0; i < stage->worker_count; i++)
        worker_start(stage->workers[i]);
    mem_free(fds);
}

static uint64_t replies_so_far(const struct stage *stage)
{
    uint64_t replies = 0;

    for (size_t i = 0; i < stage->worker_count; i++)
        replies += worker_replies(stage->workers[i]);
    return replies;
}

/* The total of a test that is limited by time is what it will be at the mean rate so far. */
static void progress_show(const struct stage *stage, struct progress_report *report)
{
    const struct worker_plan *plan = &stage->plan;
    uint64_t replies = replies_so_far(stage);
    double part;

    if (plan->end_ns < INT64_MAX) {
        part = (double)(clock_mono_ns() - stage->start_ns) / (double)(plan->end_ns - stage->start_ns);
        report->progress.total = part >= 1 ? replies : (uint64_t)((double)replies / part);
    }
    progress_report_note(report, replies);
}

static void keep_sample(struct run *run, double seconds, const struct server_info *info)
{
    struct info_sample sample = { .seconds = seconds };

    sample.hits = info->has_tier ? info->tier_hot_hits : info->keyspace_hits;
    sample.misses = info->has_tier ? info->tier_cold_hits : info->keyspace_misses;
    run->samples = mem_realloc(run->samples, (run->sample_count + 1) * sizeof(*run->samples));
    run->samples[run->sample_count++] = sample;
}

/* Reads INFO about once a second. A server that does not reply to that has no more samples; the test says what else is wrong with it. */
static void sample_info(struct stage *stage, struct run *run)
{
    int64_t now_ns = clock_mono_ns();
    struct server_info info;

    if (stage->control == NULL || now_ns < stage->sample_ns)
        return;
    stage->sample_ns = now_ns + SAMPLE_NS;
    if (control_info(stage->control, &info) == STATUS_OK)
        keep_sample(run, (double)(now_ns - stage->start_ns) / 1e9, &info);
    else
        stage->control = NULL;
}

/* Waits until all workers have ended. True if a signal interrupted them. */
static bool workers_watch(struct stage *stage, struct run *run, int signals)
{
    struct pollfd polled[] = { { .fd = stage->plan.done_event, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
    struct progress_report report = { .output = stage->options->progress_output };
    bool progress = report.output != PROGRESS_SILENT, interrupted = false;
    uint64_t ended = 0;

    progress_report_begin(&report, workload_name(stage->plan.workload), PROGRESS_COUNT, stage->plan.requests);
    while (ended < stage->worker_count) {
        int ready = poll(polled, 2, progress || stage->control != NULL ? PROGRESS_MS : -1);
        uint64_t more;

        if (ready > 0 && polled[0].revents && read(stage->plan.done_event, &more, sizeof(more)) == sizeof(more))
            ended += more;
        if (ready > 0 && polled[1].revents) {
            CHECK(write(stage->plan.stop_event, &(uint64_t){ 1 }, sizeof(uint64_t)) == sizeof(uint64_t));
            polled[1].fd = -1;          /* the signal stays pending, so that no further test is run */
            interrupted = true;
        }
        if (progress && ready == 0)
            progress_show(stage, &report);
        sample_info(stage, run);
    }
    progress_report_hide(&report);
    return interrupted;
}

static void workers_collect(struct stage *stage, struct run *run)
{
    int64_t end_ns = stage->start_ns;

    for (size_t i = 0; i < stage->worker_count; i++) {
        struct worker *worker = stage->workers[i];

        worker_stop(worker);
        result_add(&run->result, worker_result(worker));
        if (worker_end_ns(worker) > end_ns)
            end_ns = worker_end_ns(worker);
        if (worker_failure(worker) && run->failure[0] == 0) {
            snprintf(run->failure, sizeof(run->failure), "%s", worker_failure(worker));
            run->end = RUN_FAILED;
        }
        worker_destroy(worker);
    }
    mem_free(stage->workers);
    run->seconds = (double)(end_ns - stage->start_ns) / 1e9;
}

static uint64_t own_cpu_ns(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

static void run_fail(struct run *run, const char *message)
{
    if (run->failure[0] == 0)
        snprintf(run->failure, sizeof(run->failure), "%s", message);
    run->end = RUN_FAILED;
}

static void stage_run(struct stage *stage, struct run *run, const struct workload *workload, size_t index, int signals)
{
    struct cpu_sample *before = NULL, *after = NULL;
    uint64_t own_cpu;

    if (stage->options->server_pid) {
        before = cpu_sample_create(stage->options->server_pid);
        if (before == NULL) {
            run_fail(run, "--server-pid: no such process in /proc, or access denied");
            return;
        }
    }
    own_cpu = own_cpu_ns();
    plan_make(stage, workload, index);
    run->pipeline = stage->plan.pipeline;
    workers_start(stage);
    if (workers_watch(stage, run, signals))
        run->end = RUN_INTERRUPTED;
    workers_collect(stage, run);
    run->client_cpu_ns = own_cpu_ns() - own_cpu;
    if (before)
        after = cpu_sample_create(stage->options->server_pid);
    if (before && after) {
        run->has_server_cpu = true;
        run->server_cpu_ns = cpu_used_ns(before, after);
    }
    cpu_sample_destroy(before);
    cpu_sample_destroy(after);
    close(stage->plan.stop_event);
    close(stage->plan.done_event);
}

/* For a drawing alone INFO is not necessary. */
static void run_info_before(struct run *run, const struct options *options, struct redisContext **control)
{
    if (*control == NULL || control_info(*control, &run->info_before) == STATUS_OK)
        return;
    *control = NULL;
    if (options->info)
        run_fail(run, "INFO failed");
}

static void run_info_after(struct run *run, const struct options *options, struct redisContext *control)
{
    bool good = control_info(control, &run->info_after) == STATUS_OK;

    if (good && options->svg)
        keep_sample(run, run->seconds, &run->info_after);
    run->has_info = good && options->info;
    if (!good && options->info)
        run_fail(run, "INFO failed");
}

void run_workload(struct run *run, const struct workload *workload, const struct options *options, size_t index,
    struct redisContext *control, int signals)
{
    struct stage stage = { .options = options };

    *run = (struct run){ .end = RUN_COMPLETE, .is_load = workload_is_load(workload) };
    result_init(&run->result);
    if (!connections_open(&stage, run->failure, sizeof(run->failure)))
        run->end = RUN_FAILED;
    else
        run_info_before(run, options, &control);
    if (control && options->svg && run->end == RUN_COMPLETE) {
        stage.control = control;
        keep_sample(run, 0, &run->info_before);
    }
    if (run->end == RUN_COMPLETE)
        stage_run(&stage, run, workload, index, signals);
    connections_close(&stage);
    if (control && run->end != RUN_FAILED)
        run_info_after(run, options, control);
}

void run_release(struct run *run)
{
    result_release(&run->result);
    mem_free(run->samples);
}
