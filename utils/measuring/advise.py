"""What TIER ADVISE predicts for a quarter to four times maxmemory, and what servers of these sizes measure with the same requests."""
from support.server import until

from .report import count, mb

FACTORS = (1, 0.25, 0.5, 2, 4)
# Name, arguments of kelvin-benchmark. A drifting zipf and scans are in `kelvin-simulate --predict`.
LOADS = [
    ("zipf 0.8", ["--distribution", "zipfian", "--zipf-theta", "0.8"]),
    ("zipf 0.99", ["--distribution", "zipfian", "--zipf-theta", "0.99"]),
    ("zipf 1.1", ["--distribution", "zipfian", "--zipf-theta", "1.1"]),
    ("loop", ["--distribution", "sequential"]),
    ("zipf 0.99, values of 20 to 500 bytes", ["--distribution", "zipfian", "-d", "20-500"]),
]


def sizes_of(client):
    reply = client.must("TIER", "ADVISE")
    fields = dict(zip(reply[::2], reply[1::2]))
    rows = [dict(zip(size[::2], size[1::2])) for size in fields[b"sizes"]]
    return {float(row[b"factor"]): float(row[b"hit_ratio"]) for row in rows}


def measure_one(bench, maxmemory, keys, size, arguments):
    """Returns the measured hit ratio of the last third of the requests, and what is predicted from them."""
    with bench.server("kelvin", {"maxmemory": maxmemory}) as server, server.client() as client:
        if "-d" not in arguments:
            arguments = arguments + ["-d", size]
        bench.run(server, "--load", "-t", "get", "-P", 16, "-r", keys, "-n", 2 * keys, *arguments, timeout=1800)
        client.must("CONFIG", "RESETSTAT")
        bench.run(server, "-t", "get", "-P", 16, "-r", keys, "-n", keys, *arguments, timeout=1800)
        until(lambda: int(bench.info(server)["tier_advise_sampled_uses"]) > keys / 200, 30, "the uses to be counted")
        return float(bench.info(server)["tier_hit_ratio"]), sizes_of(client)


def measure(bench):
    options, report = bench.options, bench.report
    keys, size = options.advise_keys, 100
    maxmemory = int(keys * 90)
    rows, data = [], []
    for name, arguments in LOADS:
        predicted, row = {}, [name]
        for factor in FACTORS:
            report.progress("advise: %s, %g times maxmemory" % (name, factor))
            measured, sizes = measure_one(bench, int(maxmemory * factor), keys, size, list(arguments))
            predicted = predicted or sizes
            data.append({"load": name, "factor": factor, "measured": measured, "predicted": predicted[factor]})
        for factor in sorted(FACTORS):
            found = next(run for run in data if run["load"] == name and run["factor"] == factor)
            row.append("%.2f / %.2f" % (found["measured"], found["predicted"]))
        rows.append(row)
    worst = max(abs(run["measured"] - run["predicted"]) for run in data)
    report.note("## TIER ADVISE\n")
    report.note("%s keys with values of %d bytes; maxmemory %s MB; hit ratios in percent, measured / predicted at 1.\n" % (count(keys), size, mb(maxmemory)))
    report.table(["load"] + ["%g" % factor for factor in sorted(FACTORS)], rows)
    report.check("predictions are within 2 points", worst <= 2, "at most %.2f off" % worst, judged=not options.quick)
    report.data["parts"]["advise"] = {"keys": keys, "maxmemory": maxmemory, "runs": data}
