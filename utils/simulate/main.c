/* kelvin-simulate: which share of requests finds its key in memory, under Kelvin's policy of what stays hot and under others. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress_report.h"
#include "policy.h"
#include "predict.h"
#include "sequence.h"
#include "workload.h"

enum { POLICIES = 9, OTHERS = 3, WINDOWS_MAX = 64, TRACE_SHARE = 10, TRACE_WINDOWS = 5 };

/* A bound, the best choice that does not change, LFU with exact counts of all keys; and from OTHERS on, those that a server could have. */
static const struct policy_kind *const policies[POLICIES] = {
    &policy_belady, &policy_static, &policy_lfu, &policy_lru, &policy_redis_lfu, &policy_s3fifo, &policy_sieve, &policy_tinylfu, &policy_kelvin,
};

static const struct workload_kind workloads[] = {
    { "zipf-0.8", PATTERN_ZIPF, 0.8, false, 0 },
    { "zipf-0.99", PATTERN_ZIPF, 0.99, false, 0 },
    { "zipf-1.1", PATTERN_ZIPF, 1.1, false, 0 },
    { "drift", PATTERN_DRIFT, 0.99, false, 10 },
    { "drift-fast", PATTERN_DRIFT, 0.99, false, 1 },
    { "loop", PATTERN_LOOP, 0, false, 0 },
    { "scans", PATTERN_SCANS, 0.99, false, 0 },
    { "mixed", PATTERN_ZIPF, 0.99, true, 0 },
};

enum { WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

struct options {
    uint32_t keys, hot, rate, windows;
    uint64_t window, seed;
    const char *workload, *trace;
    int id_column, size_column;
    bool predicts;
};

/* The sizes of `hot` keys of mean size. */
static uint64_t capacity_of(const struct sequence *sequence, uint32_t hot)
{
    uint64_t sum = 0;

    for (uint32_t key = 0; key < sequence->key_count; key++)
        sum += sequence->sizes[key];
    return (uint64_t)((double)sum / sequence->key_count * hot);
}

/* Hits of each policy from one request to another. */
static void run_window(const struct sequence *sequence, uint32_t from, uint32_t to, uint32_t rate, void *const *states, uint64_t *hits,
    struct progress_report *report)
{
    enum { STEP = 1 << 12 };

    for (uint32_t i = from; i < to; i++) {
        struct request request = { .key = sequence->keys[i], .rank = sequence->ranks != NULL ? sequence->ranks[i] : NEVER, .now = i,
            .next = sequence->next[i], .minute = (uint16_t)(i / (rate * 60)) };

        for (int p = 0; p < POLICIES; p++)
            hits[p] += policies[p]->request(states[p], &request);
        if (i % STEP == 0)
            progress_report_note(report, i);
    }
}

/* Kelvin's place among the policies that a server could have; 1: none is better. */
static int place(const uint64_t *hits)
{
    int place = 1;

    for (int p = OTHERS; p < POLICIES - 1; p++)
        place += hits[p] > hits[POLICIES - 1];
    return place;
}

/* How far Kelvin is below the best of these, percent. */
static double distance(const uint64_t *hits, uint64_t count)
{
    uint64_t best = 0;

    for (int p = OTHERS; p < POLICIES - 1; p++)
        best = hits[p] > best ? hits[p] : best;
    return 100 * ((double)best - (double)hits[POLICIES - 1]) / (double)count;
}

static void print_head(void)
{
    printf("\n| window |");
    for (int p = 0; p < POLICIES; p++)
        printf(" %s |", policies[p]->name);
    printf(" place | below the best |\n| ---: |");
    for (int p = 0; p < POLICIES; p++)
        printf(" ---: |");
    printf(" ---: | ---: |\n");
}

/* The static choice goes by ranks, so it is known for keys of one size, and not of a trace. */
static bool is_static_known(const struct sequence *sequence)
{
    for (uint32_t key = 0; key < sequence->key_count; key++) {
        if (sequence->sizes[key] != 1)
            return false;
    }
    return sequence->ranks != NULL;
}

static void compare(const struct sequence *sequence, uint32_t load, uint32_t windows, uint64_t capacity, uint32_t rate)
{
    struct room room = { sequence->key_count, sequence->sizes, capacity };
    uint64_t ignored[POLICIES] = { 0 };
    void *states[POLICIES];
    struct progress_report report = { .output = progress_report_output() };

    for (int p = 0; p < POLICIES; p++)
        states[p] = policies[p]->create(&room);
    progress_report_begin(&report, "requests", PROGRESS_COUNT, sequence->count);
    run_window(sequence, 0, load, rate, states, ignored, &report);
    progress_report_hide(&report);
    print_head();
    for (uint32_t w = 0; w < windows; w++) {
        uint64_t hits[POLICIES] = { 0 };
        uint32_t from = load + (uint32_t)((uint64_t)(sequence->count - load) * w / windows);
        uint32_t to = load + (uint32_t)((uint64_t)(sequence->count - load) * (w + 1) / windows);

        run_window(sequence, from, to, rate, states, hits, &report);
        progress_report_hide(&report);
        printf("| %u |", w + 1);
        for (int p = 0; p < POLICIES; p++)
            printf(policies[p] == &policy_static && !is_static_known(sequence) ? " - |" : " %.2f |", 100 * (double)hits[p] / (to - from));
        printf(" %d | %.2f |\n", place(hits), distance(hits, to - from));
        fflush(stdout);
    }
    for (int p = 0; p < POLICIES; p++)
        policies[p]->destroy(states[p]);
}

/* `load`: requests before the first window. */
static void run(const struct sequence *sequence, uint32_t load, uint32_t windows, uint32_t hot, const struct options *options)
{
    uint64_t capacity = capacity_of(sequence, hot);

    if (options->predicts)
        predict(sequence, load + (sequence->count - load) / windows * (windows - 1), capacity, options->rate);
    else
        compare(sequence, load, windows, capacity, options->rate);
}

static void run_workload(const struct workload_kind *kind, const struct options *options)
{
    struct workload workload;
    struct sequence sequence;

    printf("\n%s\n", kind->name);
    workload_init(&workload, kind, options->keys, (uint32_t)(options->hot * 1.1), options->window, options->seed);
    sequence_of_workload(&sequence, &workload, options->windows);
    workload_release(&workload);
    run(&sequence, options->keys, options->windows, options->hot, options);
    sequence_release(&sequence);
}

static bool run_trace(const struct options *options)
{
    struct sequence sequence;
    uint32_t hot;

    if (!sequence_of_trace(&sequence, options->trace, options->id_column, options->size_column)) {
        fprintf(stderr, "kelvin-simulate: %s: %s\n", options->trace, strerror(errno));
        return false;
    }
    hot = options->hot > 0 ? options->hot : sequence.key_count / TRACE_SHARE + 1;
    printf("%u requests of %u keys, %u of mean size fit into memory\n", sequence.count, sequence.key_count, hot);
    run(&sequence, 0, options->windows, hot, options);
    sequence_release(&sequence);
    return true;
}

static void usage(void)
{
    puts("Usage: kelvin-simulate [options]\n"
         "\n"
         "Prints the hit ratio, in percent, of Kelvin's policy and of others, in windows of requests after a load of all keys.\n"
         "\n"
         "  --keys N              keys (3000000)\n"
         "  --hot N               keys of mean size that fit into memory, at most half of them (1220000; of a trace: a tenth)\n"
         "  --window N            requests in a window, at least one for each key (5000000)\n"
         "  --windows N           windows (7; of a trace: 5 of equal length, without a load)\n"
         "  --rate N              requests per second, by which the heat decays (38000)\n"
         "  --seed N              seed of the random numbers (1)\n"
         "  --workload NAME       one of those below, in place of all\n"
         "  --trace FILE          requests of a file in their place: a line for each, with the key, or with fields separated by commas\n"
         "  --columns ID[,SIZE]   the fields that have the key and its size, from 1 on (2,3 if the first line has a comma, else 1)\n"
         "  --predict             prints the hit ratios of the last window at a quarter to four times the memory, as simulated and as TIER ADVISE\n"
         "                        predicts them\n"
         "  --help                print this\n"
         "\n"
         "Workloads:");
    for (int i = 0; i < WORKLOADS; i++)
        printf("  %s\n", workloads[i].name);
}

static bool parse_columns(struct options *options, const char *text)
{
    char *end;

    options->id_column = (int)strtol(text, &end, 10);
    options->size_column = *end == ',' ? (int)strtol(end + 1, &end, 10) : 0;
    return *end == '\0' && options->id_column > 0 && options->size_column >= 0;
}

/* As its first line shows. */
static void guess_columns(struct options *options)
{
    FILE *file = options->trace != NULL && options->id_column == 0 ? fopen(options->trace, "r") : NULL;
    bool has_comma = false;

    if (file == NULL)
        return;
    for (int c; (c = getc(file)) != EOF && c != '\n'; )
        has_comma = has_comma || c == ',';
    fclose(file);
    options->id_column = has_comma ? 2 : 1;
    options->size_column = has_comma ? 3 : 0;
}

static bool is_known(const char *workload)
{
    for (int i = 0; i < WORKLOADS; i++) {
        if (strcmp(workload, workloads[i].name) == 0)
            return true;
    }
    return false;
}

static bool is_sensible(struct options *options)
{
    if (options->rate == 0 || (options->workload != NULL && !is_known(options->workload)))
        return false;
    if (options->trace != NULL) {
        options->windows = options->windows > 0 ? options->windows : TRACE_WINDOWS;
        return options->workload == NULL;
    }
    options->windows = options->windows > 0 ? options->windows : 7;
    options->hot = options->hot > 0 ? options->hot : 1220000;
    return options->hot >= 1000 && options->keys >= 2 * options->hot && options->window >= options->keys &&
           options->keys + options->windows * options->window < NEVER;
}

static bool parse(struct options *options, int argc, char **argv)
{
    static const struct option names[] = {
        { "keys", required_argument, NULL, 'k' }, { "hot", required_argument, NULL, 'h' }, { "window", required_argument, NULL, 'w' },
        { "windows", required_argument, NULL, 'n' }, { "rate", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 's' },
        { "workload", required_argument, NULL, 'l' }, { "trace", required_argument, NULL, 't' }, { "columns", required_argument, NULL, 'c' },
        { "predict", no_argument, NULL, 'p' }, { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'k': options->keys = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'h': options->hot = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'w': options->window = strtoull(optarg, NULL, 10); break;
        case 'n': options->windows = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'r': options->rate = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 's': options->seed = strtoull(optarg, NULL, 10); break;
        case 'l': options->workload = optarg; break;
        case 't': options->trace = optarg; break;
        case 'p': options->predicts = true; break;
        case 'c':
            if (!parse_columns(options, optarg))
                return false;
            break;
        default: return false;
        }
    }
    return optind == argc && is_sensible(options);
}

int main(int argc, char **argv)
{
    struct options options = { .keys = 3000000, .rate = 38000, .window = 5000000, .seed = 1 };

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage();
        return 0;
    }
    if (!parse(&options, argc, argv)) {
        usage();
        return 2;
    }
    guess_columns(&options);
    if (options.trace != NULL)
        return run_trace(&options) ? 0 : 1;
    printf("%u keys, %u of them fit into memory; windows of %llu requests at %u a second\n", options.keys, options.hot,
        (unsigned long long)options.window, options.rate);
    for (int i = 0; i < WORKLOADS; i++) {
        if (options.workload == NULL || strcmp(options.workload, workloads[i].name) == 0)
            run_workload(&workloads[i], &options);
    }
    return 0;
}
