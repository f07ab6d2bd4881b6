/* kelvin-simulate: which share of requests finds its key in memory, under Kelvin's policy of what stays hot and under others. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"
#include "workload.h"

enum { POLICIES = 5, WINDOWS_MAX = 64 };

static const struct policy_kind *const policies[POLICIES] = { &policy_static, &policy_lru, &policy_s3fifo, &policy_lfu, &policy_kelvin };

static const struct workload_kind workloads[] = {
    { "zipf-0.8", PATTERN_ZIPF, 0.8, 0 },
    { "zipf-0.99", PATTERN_ZIPF, 0.99, 0 },
    { "zipf-1.1", PATTERN_ZIPF, 1.1, 0 },
    { "drift", PATTERN_DRIFT, 0.99, 10 },
    { "drift-fast", PATTERN_DRIFT, 0.99, 1 },
    { "loop", PATTERN_LOOP, 0, 0 },
    { "scans", PATTERN_SCANS, 0.99, 0 },
};

enum { WORKLOADS = sizeof(workloads) / sizeof(workloads[0]) };

struct options {
    uint32_t keys, capacity, rate;
    uint64_t window, seed;
    int windows;
    const char *workload;
};

/* Hits of each policy in one window, the load apart. */
static void run_window(struct workload *workload, void *const *states, const struct options *options, uint64_t count, uint64_t *hits)
{
    for (uint64_t i = 0; i < count; i++) {
        struct request request;

        workload_next(workload, &request);
        request.minute = (uint16_t)(workload->done / ((uint64_t)options->rate * 60));
        for (int p = 0; p < POLICIES; p++)
            hits[p] += policies[p]->request(states[p], &request);
    }
}

/* How far Kelvin is below the best of LRU, S3-FIFO and LFU, percent. */
static double distance(const uint64_t *hits, uint64_t window)
{
    uint64_t best = hits[1];

    for (int p = 2; p <= 3; p++)
        best = hits[p] > best ? hits[p] : best;
    return 100 * ((double)best - (double)hits[POLICIES - 1]) / (double)window;
}

static void print_head(const struct workload_kind *kind)
{
    printf("\n%s\n\n| window |", kind->name);
    for (int p = 0; p < POLICIES; p++)
        printf(" %s |", policies[p]->name);
    printf(" below the best |\n| ---: |");
    for (int p = 0; p < POLICIES; p++)
        printf(" ---: |");
    printf(" ---: |\n");
}

static void run(const struct workload_kind *kind, const struct options *options)
{
    struct workload workload;
    void *states[POLICIES];
    uint64_t ignored[POLICIES] = { 0 };

    workload_init(&workload, kind, options->keys, (uint32_t)(options->capacity * 1.1), options->window, options->seed);
    for (int p = 0; p < POLICIES; p++)
        states[p] = policies[p]->create(options->keys, options->capacity);
    run_window(&workload, states, options, options->keys, ignored);
    print_head(kind);
    for (int w = 0; w < options->windows; w++) {
        uint64_t hits[POLICIES] = { 0 };

        run_window(&workload, states, options, options->window, hits);
        printf("| %d |", w + 1);
        for (int p = 0; p < POLICIES; p++)
            printf(" %.2f |", 100 * (double)hits[p] / (double)options->window);
        printf(" %.2f |\n", distance(hits, options->window));
        fflush(stdout);
    }
    for (int p = 0; p < POLICIES; p++)
        policies[p]->destroy(states[p]);
    workload_release(&workload);
}

static void usage(void)
{
    puts("Usage: kelvin-simulate [options]\n"
         "\n"
         "Prints the hit ratio, in percent, of Kelvin's policy and of others, in windows of requests after a load of all keys.\n"
         "\n"
         "  --keys N              keys (3000000)\n"
         "  --hot N               keys that fit into memory, at most half of them (1220000)\n"
         "  --window N            requests in a window, at least one for each key (5000000)\n"
         "  --windows N           windows (7)\n"
         "  --rate N              requests per second, by which the heat decays (38000)\n"
         "  --seed N              seed of the random numbers (1)\n"
         "  --workload NAME       one of those below, in place of all\n"
         "  --help                print this\n"
         "\n"
         "Workloads:");
    for (int i = 0; i < WORKLOADS; i++)
        printf("  %s\n", workloads[i].name);
}

static bool parse(struct options *options, int argc, char **argv)
{
    static const struct option names[] = {
        { "keys", required_argument, NULL, 'k' }, { "hot", required_argument, NULL, 'h' }, { "window", required_argument, NULL, 'w' },
        { "windows", required_argument, NULL, 'n' }, { "rate", required_argument, NULL, 'r' }, { "seed", required_argument, NULL, 's' },
        { "workload", required_argument, NULL, 'l' }, { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'k': options->keys = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'h': options->capacity = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'w': options->window = strtoull(optarg, NULL, 10); break;
        case 'n': options->windows = atoi(optarg); break;
        case 'r': options->rate = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 's': options->seed = strtoull(optarg, NULL, 10); break;
        case 'l': options->workload = optarg; break;
        default: return false;
        }
    }
    return optind == argc && options->capacity >= 1000 && options->keys >= 2 * options->capacity && options->window >= options->keys &&
           options->windows > 0 && options->rate > 0;
}

int main(int argc, char **argv)
{
    struct options options = { .keys = 3000000, .capacity = 1220000, .rate = 38000, .window = 5000000, .seed = 1, .windows = 7 };

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage();
        return 0;
    }
    if (!parse(&options, argc, argv)) {
        usage();
        return 2;
    }
    printf("%u keys, %u of them fit into memory; windows of %llu requests at %u a second\n", options.keys, options.capacity,
        (unsigned long long)options.window, options.rate);
    for (int i = 0; i < WORKLOADS; i++) {
        if (options.workload == NULL || strcmp(options.workload, workloads[i].name) == 0)
            run(&workloads[i], &options);
    }
    return 0;
}
