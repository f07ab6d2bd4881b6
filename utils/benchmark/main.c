/* kelvin-benchmark: generates load on a Redis-compatible server and measures it.
 *
 * Exit status: 0 success; 1 the connection was lost, the server returned errors or (--verify) wrong or missing values;
 * 2 the command line is invalid; 130 interrupted.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/version.h"
#include "control.h"
#include "drawing.h"
#include "keys.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "workload.h"

enum { EXIT_FINE = 0, EXIT_TROUBLE = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum { WORKLOADS_MAX = 64 };

struct schedule {
    struct workload *workloads[WORKLOADS_MAX];
    size_t count;
};

static void complain(const char *message)
{
    fprintf(stderr, "kelvin-benchmark: %s\n", message);
}

static bool schedule_add(struct schedule *schedule, const char *name, const struct options *options,
    const struct key_space *keys, char *error, size_t error_size)
{
    if (schedule->count == WORKLOADS_MAX) {
        snprintf(error, error_size, "--tests: more than %d tests", WORKLOADS_MAX);
        return false;
    }
    schedule->workloads[schedule->count] = workload_create(name, options, keys, error, error_size);
    if (schedule->workloads[schedule->count] == NULL)
        return false;
    schedule->count++;
    return true;
}

/* The load first, then the tests in the order given, then the user's command. */
static bool schedule_make(struct schedule *schedule, const struct options *options, const struct key_space *keys,
    char *error, size_t error_size)
{
    char *copy = mem_string(bytes_of_string(options->tests ? options->tests : "")), *rest = copy, *name;
    bool fine = !options->load || schedule_add(schedule, "load", options, keys, error, error_size);

    while (options->tests && fine && (name = strsep(&rest, ",")) != NULL)
        fine = schedule_add(schedule, name, options, keys, error, error_size);
    if (fine && options->command)
        fine = schedule_add(schedule, NULL, options, keys, error, error_size);
    mem_free(copy);
    return fine;
}

static void schedule_release(struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->count; i++)
        workload_destroy(schedule->workloads[i]);
}

static bool write_drawing(const struct options *options, const struct drawing *drawing)
{
    char title[400], error[600];

    if (options->socket)
        snprintf(title, sizeof(title), "kelvin-benchmark: %.300s", options->socket);
    else
        snprintf(title, sizeof(title), "kelvin-benchmark: %.300s:%u", options->host, (unsigned)options->port);
    if (drawing_write(drawing, title, options->svg) == STATUS_OK)
        return true;
    snprintf(error, sizeof(error), "--svg: can't write '%.300s': %s", options->svg, strerror(errno));
    complain(error);
    return false;
}

static int schedule_run(const struct schedule *schedule, const struct options *options, struct redisContext *control,
    int signals)
{
    int status = EXIT_FINE;
    enum run_end end = RUN_COMPLETE;
    struct drawing drawing = { .panels = 0 };

    report_begin(options);
    for (size_t i = 0; i < schedule->count && end == RUN_COMPLETE; i++) {
        struct run run;

        run_workload(&run, schedule->workloads[i], options, i, control, signals);
        report_run(options, workload_name(schedule->workloads[i]), &run, i);
        if (options->svg)
            drawing_add(&drawing, options, workload_name(schedule->workloads[i]), &run);
        end = run.end;
        if (end == RUN_FAILED)
            complain(run.failure);
        if (!report_is_clean(options, &run))
            status = end == RUN_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_TROUBLE;
        run_release(&run);
    }
    report_end(options);
    if (options->svg && !write_drawing(options, &drawing) && status == EXIT_FINE)
        status = EXIT_TROUBLE;
    drawing_release(&drawing);
    return status;
}

/* Signals are read from a descriptor, so that they never interrupt a thread. */
static int signals_open(void)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    fd = signalfd(-1, &set, SFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* Each client needs a descriptor: raises the soft limit to the hard limit. */
static void descriptors_allow(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int benchmark(const struct options *options)
{
    struct key_space *keys = key_space_create(&options->keys);
    struct schedule schedule = { .count = 0 };
    struct redisContext *control = NULL;
    char error[256];
    int status = EXIT_USAGE;

    if (options->svg && !write_drawing(options, &(struct drawing){ .panels = 0 })) {
        status = EXIT_USAGE;        /* it has complained */
    } else if (!schedule_make(&schedule, options, keys, error, sizeof(error))) {
        complain(error);
    } else if ((control = control_open(options, PROTOCOL_RESP2, error, sizeof(error))) == NULL) {
        complain(error);
        status = EXIT_TROUBLE;
    } else {
        int signals = signals_open();

        descriptors_allow();
        status = schedule_run(&schedule, options, options->info || options->svg ? control : NULL, signals);
        close(signals);
    }
    if (control)
        redisFree(control);
    schedule_release(&schedule);
    key_space_destroy(keys);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    char error[256];

    if (!options_parse(&options, argc, argv, error, sizeof(error))) {
        complain(error);
        return EXIT_USAGE;
    }
    if (options.version) {
        printf("kelvin-benchmark %s\n", KELVIN_VERSION);
        return EXIT_FINE;
    }
    if (options.help) {
        options_help(stdout);
        workload_help(stdout);
        return EXIT_FINE;
    }
    return benchmark(&options);
}
