"""All data in memory: the cost of a request when the tier has nothing to do."""
from . import machine
from .bench import results_of
from .report import count, medians, ms, ratio_median

CASES = [(test, pipeline) for pipeline in (1, 16) for test in ("get", "set")]


def measure(bench):
    options, report = bench.options, bench.report
    keys, size = options.hot_keys, options.value_size
    machine.memory_check(2 * keys * (size + 200))
    with bench.server("kelvin") as kelvin, bench.server("redis") as redis:
        pair = [kelvin, redis]
        for server in pair:
            report.progress("hot: loading %s" % server.name)
            bench.load(server, keys, size)
            bench.settle(server)
        runs = {}
        for number in range(options.runs):
            for test, pipeline in CASES:
                report.progress("hot: run %d of %d, %s P=%d" % (number + 1, options.runs, test, pipeline))
                # The order alternates, and both servers get the same requests.
                for server in pair[::-1] if number % 2 else pair:
                    bench.run(server, "-t", test, "-P", pipeline, "-r", keys, "-d", size, "--duration", options.duration / 10)
                    found = bench.run(server, "-t", test, "-P", pipeline, "-r", keys, "-d", size, "--seed", number + 1,
                                      "--duration", options.duration)
                    runs.setdefault((test, pipeline), {}).setdefault(server.name, []).append(results_of(found))
        versions = {"kelvin": bench.info(kelvin).get("kelvin_version", ""), "redis": bench.info(redis)["redis_version"]}
    print_table(bench, runs, versions)
    report.data["parts"]["hot"] = {
        "keys": keys, "value_size": size, "clients": options.clients, "duration_s": options.duration, "versions": versions,
        "runs": [{"test": test, "pipeline": pipeline, **found} for (test, pipeline), found in runs.items()]}


def print_table(bench, runs, versions):
    options, report = bench.options, bench.report
    report.note("## All data in memory\n")
    report.note("%s keys of 16 bytes, values of %d, %d connections; compared with redis-server %s; medians of %d runs of %g s.\n" % (
        count(options.hot_keys), options.value_size, options.clients, versions["redis"], options.runs, options.duration))
    rows = []
    for (test, pipeline), found in runs.items():
        for name in ("kelvin", "redis"):
            middle = medians(found[name])
            rows.append(["%s P=%d" % (test.upper(), pipeline), name, count(middle["ops"]), "%.2f" % middle["cpu_us"]] +
                        [ms(middle[p]) for p in ("p50", "p99", "p99.9")] +
                        ["%.2f" % ratio_median(found["kelvin"], found["redis"], "cpu_us") if name == "kelvin" else "1"] +
                        ["%.2f" % ratio_median(found["kelvin"], found["redis"], "ops") if name == "kelvin" else "1"])
    report.table(["test", "server", "ops/s", "CPU us/op", "p50 ms", "p99 ms", "p99.9 ms", "CPU / redis", "ops / redis"], rows)
