"""Latency when more is written than the disk can absorb: the longest delays of writes, and of reads of keys in RAM."""
import os
import re
import subprocess
import time
from statistics import median

from . import machine
from .bench import Failed, results_of
from .report import count, mb, medians, ms

PIPELINES = (1, 16)
HOT_KEYS = 1000
HOT = ["--key-prefix", "hot:", "-r", HOT_KEYS]
SERIES_MS = 100
LEAD_S = 0.5                        # the reads begin this long before the load, and end this long after it
READERS = 50
TOOL_CLIENTS, TOOL_PIPELINE, TOOL_SIZE = 1000, 100, 1000
SHOWN = ("p50", "p99", "p99.9", "max")
RATE = re.compile(rb"rps=([\d.]+)")


def delays(test):
    return {**results_of(test), "max": test["latency_us"]["max"]}


def by_second(test, whole=10):
    """Returns the number of replies in each full second, and the longest time without a reply in seconds, from the series of tenths."""
    tenths = test["series"]["replies"]
    seconds = [sum(tenths[at:at + whole]) for at in range(0, len(tenths) - whole + 1, whole)] or [sum(tenths)]
    longest = now = 0
    for replies in tenths:
        now = now + 1 if replies == 0 else 0
        longest = max(longest, now)
    return seconds, longest * SERIES_MS / 1000


def cells(runs):
    """Returns the row of the table for runs of the same case."""
    first, writes, reads = runs[0], medians([row["writes"] for row in runs]), medians([row["reads"] for row in runs])
    return ["%s P=%d" % (first["server"], first["pipeline"]), first["phase"], count(writes["ops"]),
            count(median(min(row["seconds"]) for row in runs)), count(median(median(row["seconds"]) for row in runs)),
            "%.1f" % median(row["longest_gap_s"] for row in runs)] + [ms(writes[name]) for name in SHOWN] + [
                ms(reads[name]) for name in SHOWN] + [mb(max(row["rss_peak"] for row in runs))]


def grouped(rows, *names):
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


class Overload:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.maxmemory = self.options.maxmemory or self.options.overload_maxmemory
        self.keys = int(self.maxmemory * self.options.overload_times // (self.options.value_size + 50))
        self.rows, self.tools = [], []
        self.data = {"maxmemory": self.maxmemory, "keys": self.keys, "value_size": self.options.value_size, "hot_keys": HOT_KEYS,
                     "hot_rps": self.options.overload_rps, "clients": self.options.clients, "duration_s": self.options.overload_duration,
                     "delays": self.rows, "redis_benchmark": self.tools}

    def measure(self):
        self.report.data["parts"]["overload"] = self.data
        needed = self.maxmemory * self.options.overload_times
        machine.memory_check(3 * needed)
        machine.disk_check(self.options.dir, 8 * needed)
        sides = (("kelvin", {"maxmemory": self.maxmemory}), ("redis", {}))
        for number in range(self.options.runs):
            for pipeline in PIPELINES:
                for name, settings in sides[::-1] if number % 2 else sides:
                    with self.bench.server(name, settings) as server:
                        self.of_server(server, pipeline)
        self.print_delays()
        for number in range(self.options.runs):
            for name, settings in sides[::-1] if number % 2 else sides:
                with self.bench.server(name, settings) as server:
                    self.tools.append(self.redis_benchmark(server))
        self.print_tools()

    # Fifty clients that write, and an open loop of reads of keys that are always hot.

    def of_server(self, server, pipeline):
        size, keys, options = self.options.value_size, self.keys, self.options
        self.bench.load(server, HOT_KEYS, size, "--key-prefix", "hot:")
        before = self.bench.info(server)
        self.phase(server, pipeline, "load", ["--load", "-P", pipeline], 120 + keys / 2000)
        self.phase(server, pipeline, "overwrite", ["-t", "set", "-P", pipeline, "--duration", options.overload_duration],
                   options.overload_duration + 120)
        self.phase(server, pipeline, "after", ["-t", "set", "-c", 1, "--duration", options.overload_after], options.overload_after + 120)
        info = self.bench.info(server)
        if info["evicted_keys"] or self.bench_size(server) < keys + HOT_KEYS:
            raise Failed("%s: keys are missing after the load" % server.name)
        if server.name == "kelvin" and info["tier_demotions"] == before["tier_demotions"]:
            raise Failed("%s: nothing was demoted, so this was no overload: more keys (--overload-times)" % server.name)

    def bench_size(self, server):
        with server.client(timeout=60) as client:
            return client.must("DBSIZE")

    def phase(self, server, pipeline, name, words, timeout):
        options = self.options
        self.report.progress("overload: %s, P=%d, %s" % (server.name, pipeline, name))
        machine.rss_peak_reset(server.process.pid)
        series = ["--series", SERIES_MS, "-r", self.keys, "-d", options.value_size, "--verify"]
        reads = ["-t", "get", *HOT, "-d", options.value_size, "--verify", "-c", READERS, "--rps", options.overload_rps, "--duration", timeout]
        with self.bench.begin(server, *reads) as reading:
            try:
                machine.real_time(reading.process.pid)      # otherwise it waits for its core while the writing client uses it
            except OSError:
                self.data["reader_is_ordinary"] = True
            time.sleep(LEAD_S)
            with self.bench.begin(server, *words, *series) as writing:
                wrote = writing.finish(timeout)
            time.sleep(LEAD_S)
            read = reading.stop()
        seconds, gap = by_second(wrote)
        row = {"server": server.name, "pipeline": pipeline, "phase": name, "writes": delays(wrote), "reads": delays(read), "seconds": seconds,
               "longest_gap_s": gap, "rss_peak": machine.rss_peak(server.process.pid), "took_s": wrote["seconds"]}
        self.rows.append(row)
        self.report.progress("overload: %s" % cells([row]))

    # A thousand clients with deep pipelines, by redis-benchmark, which prints its rate four times per second.

    def redis_benchmark(self, server):
        options = self.options
        requests = int(self.maxmemory * options.overload_times // TOOL_SIZE)
        self.report.progress("overload: %s, redis-benchmark, %d requests" % (server.name, requests))
        machine.rss_peak_reset(server.process.pid)
        command = [options.redis_benchmark, "-p", str(server.port), "-t", "set", "-c", str(TOOL_CLIENTS), "-P", str(TOOL_PIPELINE),
                   "-d", str(TOOL_SIZE), "-r", str(requests), "-n", str(requests)]
        started = time.monotonic()
        tool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, rates = b"", []
        try:
            while True:
                piece = os.read(tool.stdout.fileno(), 65536)
                if not piece:
                    break
                said += piece
                rates += [(time.monotonic() - started, float(rate)) for rate in RATE.findall(piece)]
                if time.monotonic() - started > 600:
                    raise Failed("%s: redis-benchmark was not done within 600 s" % server.name)
        finally:
            tool.kill()
            tool.wait()
            tool.stdout.close()
        took = time.monotonic() - started
        summary = re.search(rb"throughput summary: ([\d.]+)", said)
        error = re.search(rb"[^\r]*rror[^\r\n]*", said)
        if error or not summary:            # it ends at the first error; its results until then are shown
            self.report.failure("%s: redis-benchmark ended after %.1f s: %s" % (
                server.name, took, (error.group(0) if error else said[-100:]).decode("latin1").strip()))
        first = next((at for at, rate in rates if rate > 0), took)
        zero, longest, now, last = 0.0, 0.0, 0.0, first
        for at, rate in [(at, rate) for at, rate in rates if at >= first]:
            now = now + at - last if rate == 0 else 0.0
            zero, longest, last = zero + (at - last if rate == 0 else 0.0), max(longest, now), at
        latency = re.search(rb"latency summary[^\n]*\n[^\n]*\n\s+([\d. ]+)", said)
        latencies = dict(zip(("avg", "min", "p50", "p95", "p99", "max"), map(float, latency.group(1).split()))) if latency else {}
        return {"server": server.name, "requests": requests, "took_s": took, "rates": rates, "latency_ms": latencies,
                "ops": float(summary.group(1)) if summary else 0, "ended_early": not summary, "zero_s": zero, "zero_longest_s": longest, "first_s": first,
                "rss_peak": machine.rss_peak(server.process.pid)}

    # Tables

    def print_delays(self):
        options = self.options
        self.report.note("## Overload\n")
        self.report.note(
            "%d connections write values of %d bytes as fast as they are served: %s keys, each once (*load*), then at random for %g s "
            "(*overwrite*); Kelvin with maxmemory %s MB, %g times as much data, redis-server without. *after*: one connection, single "
            "requests, for %g s from the end of that. Meanwhile %s GET/s for %s other keys are sent on %d connections%s; their "
            "latency is measured from when they were due. *gap*: the longest time without a reply to a write. Medians of %d runs, including the longest "
            "delays, as other work on the machine does not affect all runs; RSS is the maximum of all runs.\n" % (
                options.clients, options.value_size, count(self.keys), options.overload_duration, mb(self.maxmemory),
                options.overload_times, options.overload_after, count(options.overload_rps), count(HOT_KEYS), READERS,
                "" if self.data.get("reader_is_ordinary") else ", by a client with a real-time priority", options.runs))
        self.report.table(["server", "phase", "SET/s", "min 1 s", "median 1 s", "gap s"] + ["SET %s ms" % name for name in SHOWN] +
                          ["hot GET %s ms" % name for name in SHOWN] + ["RSS MB"], [cells(runs) for runs in grouped(self.rows, "server", "pipeline", "phase").values()])

    def print_tools(self):
        self.report.note("`redis-benchmark -t set -c %d -P %d -d %d`, %s requests. *first*: until its first reply; *zero*: seconds after that "
                         "without a reply, according to the rate that it shows four times per second; *longest*: the longest such period.\n" % (
                             TOOL_CLIENTS, TOOL_PIPELINE, TOOL_SIZE, count(self.tools[0]["requests"])))
        rows = []
        for (name,), runs in grouped(self.tools, "server").items():
            early = sum(row["ended_early"] for row in runs)
            whole = [row for row in runs if not row["ended_early"]] or runs
            rows.append([name + (", %d of %d runs ended by an error" % (early, len(runs)) if early else "")] +
                        ["%.1f" % median(row[what] for row in whole) for what in ("took_s", "first_s", "zero_s", "zero_longest_s")] +
                        [count(median(row["ops"] for row in whole))] +
                        ["%.1f" % median(row["latency_ms"].get(what, 0) for row in whole) for what in ("p50", "p99", "max")] +
                        [mb(max(row["rss_peak"] for row in runs))])
        self.report.table(["server", "took s", "first s", "zero s", "longest s", "SET/s", "p50 ms", "p99 ms", "max ms", "RSS MB"], rows)


def measure(bench):
    Overload(bench).measure()
