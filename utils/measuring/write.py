"""Minutes of SETs over more keys than fit in memory: throughput, the worst request and the size of the store in each second; bytes written per
byte changed; bytes on the disk per byte that is alive."""
import contextlib
import csv
import os
import statistics
import time

from . import machine, timeline
from .bench import KEY_SIZE, results_of
from .report import count, mb, ms
from .shares import RECORD_OVERHEAD

PERIOD_S = 1
STALL_MS = 50                       # a second whose worst request took longer counts as a stall
SETTLE_S = 120
COLUMNS = ("second", "sets", "worst_ms", "disk_bytes", "written_bytes", "cold_keys", "rss_bytes")


class Write:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.keys, self.size = self.options.tier_keys, self.options.value_size
        self.record = self.size + KEY_SIZE
        self.samples = []
        self.data = {"keys": self.keys, "value_size": self.size, "clients": self.options.clients, "pipeline": self.options.tier_pipeline,
                     "duration_s": self.options.write_duration}

    def measure(self):
        self.report.data["parts"]["write"] = self.data
        machine.disk_check(self.options.dir, 6 * self.keys * (self.record + RECORD_OVERHEAD) + (256 << 20))
        self.report.note("## Minutes of writes to more data than memory\n")
        self.maxmemory = self.data["maxmemory"] = self.options.maxmemory or self.bench.redis_memory(self.keys, self.size) // 3
        with contextlib.ExitStack() as stack:
            self.server, cgroup = self.bench.server_limited(stack, self.maxmemory)
            self.report.progress("write: loading")
            self.bench.load(self.server, self.keys, self.size)
            self.bench.settle(self.server)
            self.write()
            self.check()
            if cgroup:
                self.data["cgroup"] = cgroup.results()
                self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0)
        self.put_together()
        self.print_results()
        self.write_files()

    # The writes

    def write(self):
        self.report.progress("write: SETs for %g s" % self.options.write_duration)
        pid = self.server.process.pid
        words = ["-t", "set", "-r", self.keys, "-d", self.size, "-P", self.options.tier_pipeline, "--generation", 1, "--duration",
                 self.options.write_duration, "--series", PERIOD_S * 1000]
        cpu, written = machine.cpu_seconds(pid), machine.bytes_written(pid)
        machine.rss_peak_reset(pid)
        self.before = self.sample()
        self.started = time.monotonic()
        with machine.Ticker(PERIOD_S, lambda: self.samples.append(self.sample())):
            found = self.bench.run(self.server, *words, timeout=self.options.write_duration + 120)
        settled = self.bench.settle(self.server, SETTLE_S)
        self.after = self.sample()
        requests = found["requests"]
        self.data.update({**results_of(found), "max": found["latency_us"]["max"], "series": found["series"],
                          "settle_s": settled if settled is not None else SETTLE_S,
                          "cpu_us_settled": 1e6 * (machine.cpu_seconds(pid) - cpu) / requests,
                          "written_per_byte": (machine.bytes_written(pid) - written) / (requests * self.record),
                          "rss_peak": machine.rss_peak(pid)})

    def sample(self):
        """The state of the store now. The sizes are of whole files: what is deleted and still open is not counted."""
        info = self.bench.info(self.server)
        return {"at": time.monotonic(), "disk_bytes": machine.disk_used(self.server.folder), "cold_keys": info["tier_cold_keys"],
                "written_bytes": machine.bytes_written(self.server.process.pid), "rss_bytes": machine.rss(self.server.process.pid),
                "segment_bytes": info.get("tier_segment_bytes", 0), "segment_live_bytes": info.get("tier_segment_live_bytes", 0)}

    def check(self):
        with self.server.client(timeout=120) as client:
            found = client.must("DBSIZE")
        info = self.bench.info(self.server)
        self.report.check("DBSIZE is exact", found == self.keys, count(found))
        self.report.check("no key was evicted, and the tier had no errors", info["evicted_keys"] == 0 and info["tier_errors"] == 0,
                          info["tier_last_error"])
        self.report.check("keys were demoted during the writes", info["tier_demotions"] > 0 and self.after["cold_keys"] > 0)

    # Results

    def put_together(self):
        """One row for each full second: the replies of kelvin-benchmark's series, and the sample that was taken next after it."""
        replies, slowest = self.data["series"]["replies"], self.data["series"]["latency_us_max"]
        self.rows = []
        for second in range(min(len(replies), int(self.options.write_duration))):
            near = min(self.samples or [self.after], key=lambda sample: abs(sample["at"] - self.started - PERIOD_S * (second + 1)))
            self.rows.append({"second": PERIOD_S * (second + 1), "sets": replies[second], "worst_ms": slowest[second] / 1000,
                              "disk_bytes": near["disk_bytes"], "written_bytes": near["written_bytes"] - self.before["written_bytes"],
                              "cold_keys": near["cold_keys"], "rss_bytes": near["rss_bytes"]})
        live = [row["disk_bytes"] / max(1, row["cold_keys"] * self.record) for row in self.rows]
        self.data.update({"rows": self.rows, "space_median": statistics.median(live), "space_max": max(live),
                          "space_after": self.after["disk_bytes"] / max(1, self.after["cold_keys"] * self.record),
                          "disk_max": max(row["disk_bytes"] for row in self.rows),
                          "segments": max((at["segment_bytes"] / at["segment_live_bytes"] for at in self.samples if at["segment_live_bytes"]),
                                          default=0),
                          "stalls": sum(row["worst_ms"] > STALL_MS for row in self.rows)})

    def print_results(self):
        data, seconds = self.data, [row["sets"] for row in self.rows]
        self.report.note("\n%s keys of 16 bytes, values of %d, `maxmemory` %s MB; SETs of keys at random for %g s, %d connections, P=%d. *written*: bytes of "
                         "/proc/PID/io, those after the end included, per byte of keys and values that were SET. *on disk*: bytes of all files of "
                         "the store per byte of keys and values that are cold; *segments*: bytes of the segments per live byte of them, from INFO, maximum; *quiet*: seconds until the background work was done.\n" % (
                             count(self.keys), self.size, mb(self.maxmemory), self.options.write_duration, self.options.clients,
                             self.options.tier_pipeline))
        self.report.table(["SET/s", "median 1 s", "least 1 s", "CPU us/op", "CPU settled", "p99 ms", "max ms", "seconds over %d ms" % STALL_MS,
                           "written B/B", "on disk median", "on disk max", "on disk after", "segments", "disk max MB", "RSS max MB", "quiet s"], [[
                               count(data["ops"]), count(statistics.median(seconds)), count(min(seconds)), "%.2f" % data["cpu_us"],
                               "%.2f" % data["cpu_us_settled"], ms(data["p99"]), ms(data["max"]), "%d of %d" % (data["stalls"], len(seconds)),
                               "%.2f" % data["written_per_byte"], "%.2f" % data["space_median"], "%.2f" % data["space_max"],
                               "%.2f" % data["space_after"], "%.2f" % data["segments"] if data["segments"] else "-", mb(data["disk_max"]), mb(data["rss_peak"]), "%.1f" % data["settle_s"]]])

    def write_files(self):
        base = os.path.splitext(self.options.json)[0] + "-write"
        with open(base + ".csv", "w", newline="", encoding="utf-8") as file:
            rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            rows.writeheader()
            rows.writerows({**row, "worst_ms": "%.3f" % row["worst_ms"]} for row in self.rows)
        with open(base + ".svg", "w", encoding="utf-8") as file:
            file.write(timeline.draw(self.data))
        self.report.note("Each second is in %s.csv and %s.svg.\n" % (os.path.basename(base), os.path.basename(base)))


def measure(bench):
    Write(bench).measure()
