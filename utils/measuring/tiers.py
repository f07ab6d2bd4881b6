"""More data than memory: checks the guarantees (RSS, no lost key, no wrong value), and measures the cost of a request depending on the
share of requests whose key is in memory, compared with redis-server with all data in memory."""
import contextlib
import threading

from . import machine
from .bench import Failed, results_of
from .report import count, mb, medians, ms, ratio_median
from .scan import scan_all
from .shares import RECORD_OVERHEAD, Shares

SCAN_COUNTS = (100, 1000, 10000)


class Tiers(Shares):
    def __init__(self, bench):
        super().__init__(bench, "tiers")

    def measure(self):
        machine.memory_check(self.keys * (self.size + 200) * 3 // 2)
        machine.disk_check(self.options.dir, 3 * self.keys * (self.size + 16 + RECORD_OVERHEAD) + (256 << 20))
        with contextlib.ExitStack() as stack:
            self.redis = stack.enter_context(self.bench.server("redis"))
            self.load_redis("## More data than memory\n")
            self.kelvin, cgroup = self.bench.server_limited(stack, self.maxmemory)
            self.data["page_cache_dropped"] = self.bench.drops_cache(cgroup)
            self.watch = stack.enter_context(machine.Watch(self.kelvin.process.pid))
            try:
                self.check_promises()
                self.measure_requests()
            finally:
                self.end(cgroup)

    # Guarantees

    def check_promises(self):
        self.report.progress("tiers: loading kelvin")
        self.watch.phase("load")
        load = self.bench.load(self.kelvin, self.keys, self.size)
        self.watch.phase("settling")
        settled = self.bench.settle(self.kelvin)
        self.watch.phase(None)
        self.data["load"] = results_of(load)
        info = self.tiering()
        self.data["after_load"] = {**info, "settle_s": settled}
        self.report.note("Load: %s SET/s, %.2f us CPU each, p99.9 %s ms, no error; afterwards %s keys in RAM, %s on disk; RSS %s MB, "
                         "used_memory %s MB.\n" % (
                             count(load["requests_per_second"]), load["server_cpu_us_per_request"],
                             ms(load["latency_us"]["p99.9"]), count(info["tier_hot_keys"]), count(info["tier_cold_keys"]),
                             mb(machine.rss(self.kelvin.process.pid)), mb(info["used_memory"])))
        self.report.check("the background work ends within 90 s of the load", settled is not None)
        self.report.check("no key was evicted", info["evicted_keys"] == 0, info["evicted_keys"])
        self.check_size("after the load")
        self.data["scans"] = []
        for page in SCAN_COUNTS:
            self.scan(page, "without other requests")
        self.verify("after the load")
        self.scan_under_load()

    def check_size(self, when):
        with self.kelvin.client(timeout=120) as client:
            found = client.must("DBSIZE")
        self.report.check("DBSIZE is exact " + when, found == self.keys, count(found))

    def scan(self, page, when):
        self.report.progress("tiers: SCAN COUNT %d" % page)
        self.watch.phase("scan %d, %s" % (page, when))
        found = scan_all(self.kelvin.address, self.keys, page, 120 + self.keys / 5000)
        self.watch.phase(None)
        self.data["scans"].append({**found, "when": when})
        self.report.check("SCAN COUNT %d finds every key, %s" % (page, when), found["missing"] == 0 and found["foreign"] == 0,
                          "%s missing, %s foreign, %s returned twice, %.1f s" % (
                              count(found["missing"]), count(found["foreign"]), count(found["repeated"]), found["seconds"]))

    def verify(self, when):
        self.report.progress("tiers: reading and comparing everything " + when)
        self.watch.phase("verify " + when)
        test = self.request("get", "--distribution", "sequential", "-n", self.keys, "-P", 16, "--verify",
                            timeout=120 + self.keys / 2000)
        self.watch.phase(None)
        self.data.setdefault("verified", []).append({"when": when, **results_of(test)})
        self.report.check("every value is what was written, " + when, test["found"] == self.keys,
                          "%s compared at %s GET/s" % (count(test["found"]), count(test["requests_per_second"])))

    def scan_under_load(self):
        """Keys move between the tiers during the scan, which must not miss one."""
        ended, problems = threading.Event(), []

        def disturb():
            while not ended.is_set() and not problems:
                try:
                    self.request("get", "-n", max(1000, self.keys // 20), "-P", 4)
                except (Failed, OSError) as error:
                    problems.append(error)
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            self.scan(1000, "with concurrent random reads")
        finally:
            ended.set()
            thread.join()
        if problems:
            raise problems[0]

    # Cost of requests

    def measure_requests(self):
        # As many keys fit as the load left in RAM.
        self.hot_keys = self.options.hot_set or max(1000, self.data["after_load"]["tier_hot_keys"] // 4)
        self.data["hot_keys"] = self.hot_keys
        self.data["runs"] = []
        for test in ("get", "set"):
            self.report.progress("tiers: warming up for %s" % test.upper())
            self.watch.phase("warming up")
            self.warm()
            for aim in self.options.hot_shares:
                self.measure_share(test, aim)
        self.watch.phase(None)
        self.print_runs()
        self.check_size("at the end")
        self.verify("at the end")

    def measure_share(self, test, aim):
        self.watch.phase("%s at %g" % (test, aim))
        percent = self.calibrate(test, aim)
        runs = {"kelvin": [], "redis": []}
        for number in range(self.options.runs):
            self.report.progress("tiers: run %d of %d, %s, %g %% hot" % (number + 1, self.options.runs, test.upper(), aim))
            pair, seed = [self.kelvin, self.redis], self.seed + 1
            for server in pair[::-1] if number % 2 else pair:
                cpu = machine.cpu_seconds(server.process.pid)
                found, share = self.asked(server, test, percent, self.options.duration, seed=seed)
                settled = self.bench.settle(server, 30)
                spent = machine.cpu_seconds(server.process.pid) - cpu
                runs[server.name].append({**results_of(found), "hot_percent": share, "settle_s": settled or 30,
                                          "cpu_us_settled": 1e6 * spent / found["requests"]})
        self.data["runs"].append({"test": test, "aim_percent": aim, "asked_percent": percent, "runs": runs})

    def print_runs(self):
        self.report.note("\nHot set: %s keys, scattered over all keys. *hot* is the percentage from INFO, *asked* is `--hot-percent`; P=%d, %d "
                         "connections; medians of %d runs of %g s. *CPU settled* adds the server's background work after the run, "
                         "until it is done.\n" % (count(self.hot_keys), self.options.tier_pipeline, self.options.clients,
                                               self.options.runs, self.options.duration))
        for test in ("get", "set"):
            rows = []
            for row in self.data["runs"]:
                if row["test"] != test:
                    continue
                for name in ("kelvin", "redis"):
                    middle = medians(row["runs"][name])
                    ratio = ratio_median(row["runs"]["kelvin"], row["runs"]["redis"], "cpu_us") if name == "kelvin" else 1
                    rows.append(["%s %s" % (test.upper(), name), "%.1f" % row["asked_percent"], "%.1f" % middle["hot_percent"],
                                 count(middle["ops"]), "%.2f" % middle["cpu_us"], "%.2f" % middle["cpu_us_settled"]] +
                                [ms(middle[p]) for p in ("p50", "p99", "p99.9")] + ["%.2f" % ratio])
            self.report.table(["test", "asked %", "hot %", "ops/s", "CPU us/op", "CPU settled", "p50 ms", "p99 ms", "p99.9 ms",
                               "CPU / redis"], rows)

    # After

    def end(self, cgroup):
        """Reports the memory even if something else failed."""
        self.watch.phase_now = None
        self.data["rss"] = self.watch.phases
        if self.kelvin.alive():
            info = self.tiering()
            self.data["in_the_end"] = info
            self.report.check("the tier had no errors", info["tier_errors"] == 0,
                              "%s %s" % (info["tier_errors"], info["tier_last_error"]))
        if cgroup:
            self.data["cgroup"] = cgroup.results()
            self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0,
                              "limit %s MB, peak %s MB, page cache included" % (
                                  mb(cgroup.limit), mb(self.data["cgroup"].get("peak", 0))))
        peaks = {name: max(phase["rss_max"], phase.get("rss_peak", 0)) for name, phase in self.watch.phases.items()}
        if peaks:
            self.print_rss(peaks)

    def print_rss(self, peaks):
        worst = max(peaks, key=peaks.get)
        bound = self.maxmemory * 1.1
        self.data["rss_worst"] = {"phase": worst, "bytes": peaks[worst], "of_maxmemory": peaks[worst] / self.maxmemory}
        self.report.check("RSS stays within maxmemory + 10 %", peaks[worst] <= bound, "at most %s MB, %.1f %% of maxmemory, in: %s" % (
            mb(peaks[worst]), 100.0 * peaks[worst] / self.maxmemory, worst), judged=not self.options.quick)
        self.report.note("")
        self.report.table(["phase", "RSS max MB", "% of maxmemory"], [
            [name, mb(peak), "%.1f" % (100.0 * peak / self.maxmemory)] for name, peak in peaks.items()])


def measure(bench):
    Tiers(bench).measure()
