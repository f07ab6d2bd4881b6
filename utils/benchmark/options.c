#include "options.h"

#include <string.h>

#include "../common/command_line.h"
#include "base/random.h"

static bool parse_sizes(const char *text, void *field);
static bool parse_ratio(const char *text, void *field);
static bool parse_distribution(const char *text, void *field);

#define OPTION(kind_, letter_, name_, argument_, field, help_, ...) \
    { .kind = OPTION_##kind_, .letter = letter_, .name = name_, .argument = argument_, \
      .offset = offsetof(struct options, field), .help = help_, __VA_ARGS__ }
#define LIMITS(least_, most_) .least = least_, .most = most_
#define GIVEN(field) .given_offset = offsetof(struct options, field)
#define HEADING(help_) { .kind = OPTION_HEADING, .help = help_ }

#define MANY 1e18

static const struct option_row rows[] = {
    HEADING("Server"),
    OPTION(TEXT, 'h', "host", "HOST", host, "name or address (127.0.0.1)"),
    OPTION(COUNT, 'p', "port", "PORT", port, "TCP port (6379)", LIMITS(1, 65535)),
    OPTION(TEXT, 's', "socket", "PATH", socket, "Unix socket instead of host and port"),
    OPTION(TEXT, 'a', "pass", "PASSWORD", password, "password for AUTH"),
    OPTION(TEXT, 0, "user", "NAME", user, "ACL user for AUTH"),
    OPTION(COUNT, 0, "dbnum", "N", dbnum, "database to SELECT (0)", LIMITS(0, 1e9)),
    OPTION(COUNT, 0, "resp", "2|3", resp, "protocol (2)", LIMITS(2, 3)),

    HEADING("Load"),
    OPTION(TEXT, 't', "tests", "LIST", tests,
        "tests to run, separated by commas; listed below\n(ping,set,get,incr,hset,mset)"),
    OPTION(FLAG, 0, "load", NULL, load, "first write each key exactly once, in order (with -P 32 unless -P is given)"),
    OPTION(COUNT, 'n', "requests", "N", requests, "requests per test (100000)", LIMITS(1, MANY)),
    OPTION(REAL, 0, "duration", "SECONDS", duration_s,
        "run each test for this time instead of -n requests; --load is always complete", LIMITS(0.001, 1e7)),
    OPTION(COUNT, 'c', "clients", "N", clients, "connections (50)", LIMITS(1, 100000)),
    OPTION(COUNT, 0, "threads", "N", threads, "threads, which share the connections (1)", LIMITS(1, 256)),
    OPTION(COUNT, 'P', "pipeline", "N", pipeline, "requests sent together on a connection (1)",
        LIMITS(1, 100000), GIVEN(pipeline_given)),
    OPTION(REAL, 0, "rps", "N", rps,
        "at most N requests per second in total, at even intervals; latency is then\n"
        "measured from when a request was due, so that it includes stalls of the server", LIMITS(0.001, 1e12)),
    OPTION(OTHER, 0, "ratio", "R:W", read_share, "ratio of reads to writes in the test mixed (9:1)", .parse = parse_ratio),
    OPTION(COUNT, 0, "ttl", "SECONDS", ttl_s, "expiry of the keys that set, load and mixed write",
        LIMITS(1, 1e9)),
    OPTION(COUNT, 0, "seed", "N", seed,
        "seed of the random numbers: the same seed repeats the same requests with -n and\n"
        "one thread (default: a random one, reported in JSON)", LIMITS(0, MANY), GIVEN(seed_given)),

    HEADING("Keys"),
    OPTION(COUNT, 'r', "keys", "N", keys.count, "number of keys: 0 .. N-1 (100000)", LIMITS(1, MANY)),
    OPTION(TEXT, 0, "key-prefix", "TEXT", key_prefix, "prefix of every key (key:)"),
    OPTION(COUNT, 0, "key-size", "BYTES", key_size, "size of a key: prefix, zeros, number (16)",
        LIMITS(1, 65536)),
    OPTION(OTHER, 0, "distribution", "uniform|zipfian|hot|sequential", keys.distribution,
        "distribution of the keys of requests (uniform)", .parse = parse_distribution),
    OPTION(REAL, 0, "zipf-theta", "X", keys.zipf_theta, "skew of zipfian (0.99)", LIMITS(0.001, 20)),
    OPTION(REAL, 0, "hot-percent", "F", keys.hot_percent,
        "percentage of requests for the hot keys, the others are uniform over the rest;\n"
        "implies --distribution hot (90)", LIMITS(0, 100), GIVEN(hot_percent_given)),
    OPTION(COUNT, 0, "hot-keys", "N", keys.hot_count,
        "number of hot keys, scattered over the key space; implies --distribution hot\n"
        "(a tenth of the keys)", LIMITS(1, MANY), GIVEN(hot_keys_given)),

    HEADING("Values"),
    OPTION(OTHER, 'd', "data-size", "A[-B]", values.size_min,
        "size of values in bytes; A-B: each key has its own size in this range (3)", .parse = parse_sizes),
    OPTION(COUNT, 0, "generation", "N", values.generation,
        "which of a key's values is written and expected (0): after overwriting with\n"
        "another generation, --verify finds lost updates", LIMITS(0, MANY)),
    OPTION(COUNT, 0, "members", "N", members, "number of different members of sets, sorted sets and hashes (100)",
        LIMITS(1, 1e9)),
    OPTION(FLAG, 0, "verify", NULL, verify,
        "compare every byte that get, mget, hget and mixed read, and check that set, mset,\n"
        "mixed and load return OK; the exit status is 1 if a value is wrong or missing.\n"
        "Requires the -d, -r, --generation and key options that the data was written with"),
    OPTION(FLAG, 0, "allow-missing", NULL, allow_missing, "with --verify: missing keys are not an error"),

    HEADING("Report"),
    OPTION(FLAG, 'q', "quiet", NULL, quiet, "one line per test"),
    OPTION(FLAG, 0, "csv", NULL, csv, "comma separated, with a header line"),
    OPTION(FLAG, 0, "json", NULL, json, "one JSON object"),
    OPTION(FLAG, 0, "info", NULL, info, "run INFO before and after each test: hits, misses, tier, memory"),
    OPTION(COUNT, 0, "series", "MS", period_ms,
        "number of replies and longest latency in each period of MS milliseconds (JSON): shows stalls", LIMITS(1, 1e6)),
    OPTION(TEXT, 0, "svg", "FILE", svg,
        "also draw latency percentiles, throughput over time and hit ratio over time;\n"
        "for that INFO is read each second"),
    OPTION(COUNT, 0, "server-pid", "PID", server_pid, "process whose CPU time per request is reported",
        LIMITS(1, 1e9)),
    OPTION(FLAG, 0, "progress", NULL, progress, "draw a progress bar on stderr even if it is not a terminal, or with -q; without this\noption there is a line every ten seconds then, and nothing with -q"),
    OPTION(FLAG, 0, "help", NULL, help, "show this help"),
    OPTION(FLAG, 0, "version", NULL, version, "show the version"),
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *const distribution_names[] = {
    [DISTRIBUTION_UNIFORM] = "uniform",
    [DISTRIBUTION_ZIPFIAN] = "zipfian",
    [DISTRIBUTION_HOT] = "hot",
    [DISTRIBUTION_SEQUENTIAL] = "sequential",
};

/* "a", or "a-b" with a <= b: two adjacent uint64_t. */
static bool parse_sizes(const char *text, void *field)
{
    const char *dash = strchr(text, '-');
    const double most = 512.0 * 1024 * 1024;
    uint64_t *sizes = field;

    if (!command_line_count(bytes_of(text, dash ? (size_t)(dash - text) : strlen(text)), 0, most, &sizes[0]))
        return false;
    sizes[1] = sizes[0];
    return dash == NULL || (command_line_count(bytes_of_string(dash + 1), 0, most, &sizes[1]) && sizes[0] <= sizes[1]);
}

/* "a:b": two adjacent uint64_t. */
static bool parse_ratio(const char *text, void *field)
{
    const char *colon = strchr(text, ':');
    uint64_t *shares = field;

    return colon != NULL && command_line_count(bytes_of(text, (size_t)(colon - text)), 0, 1e9, &shares[0]) &&
           command_line_count(bytes_of_string(colon + 1), 0, 1e9, &shares[1]) && shares[0] + shares[1] > 0;
}

static bool parse_distribution(const char *text, void *field)
{
    for (size_t i = 0; i < sizeof(distribution_names) / sizeof(distribution_names[0]); i++) {
        if (strcmp(text, distribution_names[i]) == 0) {
            *(enum distribution *)field = (enum distribution)i;
            return true;
        }
    }
    return false;
}

/* Computes the remaining fields and checks the combination of options. Returns NULL, or what is wrong with it. */
static const char *options_settle(struct options *options)
{
    struct key_space_config *keys = &options->keys;

    if (options->quiet + options->csv + options->json > 1)
        return "only one of --quiet, --csv and --json can be used";
    options->format = options->json ? FORMAT_JSON : options->csv ? FORMAT_CSV :
                      options->quiet ? FORMAT_QUIET : FORMAT_TEXT;
    if (options->hot_percent_given || options->hot_keys_given) {
        if (keys->distribution != DISTRIBUTION_UNIFORM && keys->distribution != DISTRIBUTION_HOT)
            return "--hot-percent and --hot-keys require --distribution hot";
        keys->distribution = DISTRIBUTION_HOT;
    }
    if (!options->hot_keys_given)
        keys->hot_count = keys->count >= 10 ? keys->count / 10 : 1;
    if (keys->hot_count > keys->count)
        return "--hot-keys: more than the number of keys (--keys)";
    if (options->command && options->tests)
        return "--tests and a command can't be used together";
    if (!options->command && !options->tests && !options->load)
        options->tests = "ping,set,get,incr,hset,mset";
    if (options->user && !options->password)
        return "--user requires --pass";
    if (options->allow_missing && !options->verify)
        return "--allow-missing requires --verify";
    if (options->period_ms && !options->json)
        return "--series requires --json";
    if (options->threads > options->clients)
        options->threads = options->clients;
    if (!options->seed_given)
        random_system(&options->seed, sizeof(options->seed));
    options->progress_output = options->progress ? PROGRESS_ON_TERMINAL : options->format == FORMAT_QUIET ? PROGRESS_SILENT
                                                                                                        : progress_report_output();
    return NULL;
}

bool options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size)
{
    const char *problem;
    int i = 1;

    *options = (struct options){
        .host = "127.0.0.1", .port = 6379, .resp = 2, .requests = 100000, .clients = 50, .threads = 1, .pipeline = 1,
        .read_share = 9, .write_share = 1, .key_prefix = "key:", .key_size = 16, .members = 100,
        .keys = { .count = 100000, .zipf_theta = 0.99, .hot_percent = 90 },
        .values = { .size_min = 3, .size_max = 3 },
    };
    if (!command_line_parse(rows, ROWS, options, argv, &i, error, error_size))
        return false;
    options->command = i < argc ? argv + i : NULL;
    if (options->help)
        return true;
    problem = options_settle(options);
    if (problem)
        snprintf(error, error_size, "%s", problem);
    return problem == NULL;
}

uint64_t options_period_ms(const struct options *options)
{
    enum { PERIOD_MS = 100 };

    return options->period_ms > 0 ? options->period_ms : options->svg != NULL ? PERIOD_MS : 0;
}

void options_help(FILE *out)
{
    fputs("Usage: kelvin-benchmark [option ...] [command argument ...]\n"
          "Generates load on a Redis-compatible server and measures throughput, latency, CPU time and hit ratios.\n", out);
    command_line_help(rows, ROWS, out);
}
