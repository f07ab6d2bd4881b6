"""The cold path: what a request costs in CPU time, latency, reads and bytes depending on the share of keys in RAM, directly after a load,
and for MGET of many cold keys; compared with redis-server with all data in RAM."""
import contextlib

from . import machine
from .account import Account, per
from .bench import Failed, results_of
from .report import count, mb, medians, ms, ratio_median
from .shares import RECORD_OVERHEAD, Shares

WINDOW_MS = 1000
FIRST_S = (1, 5)                    # the worst request of the first seconds after a load is shown for these
MGET_KEYS = 100
SETTLE_S = 60
COLD_LEAST = 1000                   # cold GETs of a run: with fewer, reads per cold GET mean nothing


class Cold(Shares):
    def __init__(self, bench):
        super().__init__(bench, "cold")
        self.data.update({"after_load": [], "loads": [], "runs": [], "mget": []})

    def measure(self):
        options = self.options
        machine.memory_check(self.keys * (self.size + 200) * 3 // 2)
        machine.disk_check(options.dir, 3 * self.keys * (self.size + 16 + RECORD_OVERHEAD) + (256 << 20))
        with self.bench.server("redis") as self.redis:
            self.load_redis("## The cold path\n")
            for number in range(options.runs):
                with contextlib.ExitStack() as stack:
                    self.kelvin, cgroup = self.bench.server_limited(stack, self.maxmemory)
                    self.load(number)
                    self.after_load(number)
                    if number == options.runs - 1:
                        self.requests()
                    self.end(cgroup)
        self.print_loads()
        self.print_runs()
        self.print_mget()

    # A load, and the time directly after it

    def load(self, number):
        self.report.progress("cold: load %d of %d" % (number + 1, self.options.runs))
        account = Account(self.bench, self.kelvin)
        found = self.bench.load(self.kelvin, self.keys, self.size, "--series", WINDOW_MS)
        used = account.end()
        self.data["loads"].append({**results_of(found), "max": found["latency_us"]["max"], "series": found["series"],
                                   "written_per_byte": used["write_bytes"] / (self.keys * (self.size + 16))})

    def after_load(self, number):
        """GETs of all keys, each equally likely, without a pause after the load."""
        self.hot_keys = self.options.hot_set or max(1000, self.tiering()["tier_hot_keys"] // 4)
        for server in (self.kelvin, self.redis):
            self.report.progress("cold: after load %d of %d, %s" % (number + 1, self.options.runs, server.name))
            account = Account(self.bench, server)
            found = self.request("get", "--duration", self.options.after_load, "--series", WINDOW_MS, "--seed", self.seed, server=server,
                                 timeout=self.options.after_load + 120)
            used = account.end()
            slowest = found["series"]["latency_us_max"]
            self.data["after_load"].append({
                "server": server.name, **results_of(found), **used, "max": found["latency_us"]["max"], "series": found["series"],
                "least": min(found["series"]["replies"][:-1] or found["series"]["replies"]),
                **{"max_%d" % first: max(slowest[:first]) for first in FIRST_S},
                "settle_s": self.bench.settle(server) or 90})
        self.seed += 1

    # Requests of which a share is hot

    def requests(self):
        self.data["hot_keys"] = self.hot_keys
        self.bench.settle(self.kelvin)
        self.warm()
        for aim in self.options.hot_shares:
            self.measure_share("get", aim)
        self.mget()
        self.warm()
        for aim in sorted({max(self.options.hot_shares), min(self.options.hot_shares)}, reverse=True):
            self.measure_share("set", aim)

    def measure_share(self, test, aim):
        percent = self.calibrate(test, aim)
        self.bench.settle(self.kelvin, SETTLE_S)
        runs = {"kelvin": [], "redis": []}
        for number in range(self.options.runs):
            self.report.progress("cold: run %d of %d, %s, %g %% hot" % (number + 1, self.options.runs, test.upper(), aim))
            seed = self.seed + 1
            for server in self.turn(number):
                account = Account(self.bench, server)
                found, share = self.asked(server, test, percent, self.options.duration, seed=seed)
                runs[server.name].append(self.result(server, account, found, share))
        self.data["runs"].append({"test": test, "aim_percent": aim, "asked_percent": percent, "runs": runs})

    def turn(self, number):
        return [self.redis, self.kelvin] if number % 2 else [self.kelvin, self.redis]

    def result(self, server, account, found, share):
        """The results of a run, also with the background work that follows it."""
        used = account.end()
        settled = self.bench.settle(server, SETTLE_S)
        total, requests = account.end(), found["requests"]
        return {**results_of(found), "max": found["latency_us"]["max"], "hot_percent": share, "settle_s": settled or SETTLE_S,
                "cpu_us_settled": 1e6 * total["cpu_s"] / requests, "read_bytes": used["read_bytes"] / requests,
                "write_bytes": used["write_bytes"] / requests, "write_bytes_settled": total["write_bytes"] / requests,
                "reads_per_cold": used["reads"] / used["cold"] if used["reads"] is not None and used["cold"] >= COLD_LEAST else 0,
                "batch": used["ring_reads"] / used["ring_batches"] if used["ring_batches"] else 0,
                "bytes_per_cold": used["read_bytes"] / used["cold"] if used["cold"] >= COLD_LEAST else 0}

    # Many cold keys in one request

    def mget(self):
        """MGETs of keys outside the hot set."""
        for number in range(self.options.runs):
            for clients in self.options.mget_clients:
                self.seed += 1
                for server in self.turn(number):
                    self.report.progress("cold: run %d of %d, MGET, %d connections, %s" % (
                        number + 1, self.options.runs, clients, server.name))
                    self.data["mget"].append(self.mget_of(server, clients))
                    self.bench.settle(server)

    def mget_of(self, server, clients):
        words = ["--hot-percent", 0, "--hot-keys", self.hot_keys, "--duration", self.options.duration, "-c", clients, "-r", self.keys,
                 "-d", self.size, "--seed", self.seed]
        account = Account(self.bench, server)
        found = self.bench.run(server, *words, "MGET", *["__key__"] * MGET_KEYS)
        used = account.end()
        if found["missing"]:
            raise Failed("%s: MGET did not find %d keys" % (server.name, found["missing"]))
        return {"server": server.name, "connections": clients, **results_of(found), **used, "max": found["latency_us"]["max"]}

    # After

    def end(self, cgroup):
        info = self.tiering()
        with self.kelvin.client(timeout=120) as client:
            found = client.must("DBSIZE")
        self.report.check("DBSIZE is exact", found == self.keys, count(found))
        self.report.check("the tier had no errors", info["tier_errors"] == 0, info["tier_last_error"])
        peak = machine.rss_peak(self.kelvin.process.pid)
        self.data["rss_peak"] = max(peak, self.data.get("rss_peak", 0))
        if cgroup:
            self.data["cgroup"] = cgroup.results()
            self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0, "limit %s MB, RSS at most %s MB" % (
                mb(cgroup.limit), mb(peak)))

    def print_loads(self):
        loads = medians([{name: value for name, value in run.items() if name != "series"} for run in self.data["loads"]])
        self.report.note("\nLoad: %s SET/s, %.2f us CPU each, p99.9 %s ms, worst request %s ms, %.2f bytes written per byte; RSS at most %s MB "
                         "in all that follows; medians of %d loads.\n" % (
                             count(loads["ops"]), loads["cpu_us"], ms(loads["p99.9"]), ms(loads["max"]), loads["written_per_byte"],
                             mb(self.data["rss_peak"]), len(self.data["loads"])))
        self.report.note("Directly after the load: GETs of all keys, each equally likely, for %g s; *max* is the worst request of the first 1 "
                         "and 5 s and of all; *least* the replies in the worst second; *quiet* the seconds from then until the background "
                         "work was done; medians of %d loads.\n" % (self.options.after_load, len(self.data["loads"])))
        rows = []
        for name in ("kelvin", "redis"):
            runs = [{**run, "hot_percent": 100.0 * run["hot"] / (run["hot"] + run["cold"]) if run["cold"] else 100.0}
                    for run in self.data["after_load"] if run["server"] == name]
            middle = medians([{key: value for key, value in run.items() if key not in ("server", "series", "reads")} for run in runs])
            rows.append(["GET " + name, "%.1f" % middle["hot_percent"], count(middle["ops"]), count(middle["least"]), "%.2f" % middle["cpu_us"],
                         ms(middle["p50"]), ms(middle["p99"])] + [ms(middle["max_%d" % first]) for first in FIRST_S] +
                        [ms(middle["max"]), per(middle["read_bytes"], middle["requests"], "%.0f"),
                         per(middle["write_bytes"], middle["requests"], "%.0f"), "%.1f" % middle["settle_s"]])
        self.report.table(["after the load", "hot %", "ops/s", "least", "CPU us/op", "p50 ms", "p99 ms", "max 1 s", "max 5 s", "max ms",
                           "read B/op", "written B/op", "quiet s"], rows)
        for number, run in enumerate(run for run in self.data["after_load"] if run["server"] == "kelvin"):
            self.report.note("Worst request of each second after load %d, ms: %s\n" % (
                number + 1, ", ".join("%.0f" % (value / 1000) for value in run["series"]["latency_us_max"])))

    def print_runs(self):
        self.report.note("Hot set: %s keys, scattered over all keys. *hot* is the percentage from INFO; P=%d, %d connections; medians of %d runs "
                         "of %g s. *CPU* is of all threads; *settled* adds the background work that follows, until it is done. *CPU cold* "
                         "is what a cold request costs, if a hot one costs what it does at 100 %%. *read*, *written*: bytes of /proc/PID/io "
                         "per request. *reads/cold*: reads of the disk per cold GET; *batch*: reads that one system call submits to io_uring.\n" % (
                             count(self.hot_keys), self.options.tier_pipeline, self.options.clients, self.options.runs, self.options.duration))
        rows, all_hot = [], {}
        for row in self.data["runs"]:
            for name in ("kelvin", "redis"):
                middle = medians(row["runs"][name])
                all_hot.setdefault((row["test"], name), middle["cpu_us_settled"])
                rows.append(self.cells(row, name, middle, all_hot[row["test"], name]))
        self.report.table(["test", "hot %", "ops/s", "CPU us/op", "CPU settled", "CPU cold", "p50 ms", "p99 ms", "max ms", "read B/op",
                           "written B/op", "settled", "reads/cold", "batch", "read B/cold", "CPU / redis"], rows)

    def cells(self, row, name, middle, hot_us):
        kelvin = name == "kelvin"
        cold = 1 - middle["hot_percent"] / 100
        return ["%s %s" % (row["test"].upper(), name), "%.1f" % middle["hot_percent"], count(middle["ops"]), "%.2f" % middle["cpu_us"],
                "%.2f" % middle["cpu_us_settled"],
                "%.1f" % (hot_us + (middle["cpu_us_settled"] - hot_us) / cold) if kelvin and cold > 0.1 else "",
                ms(middle["p50"]), ms(middle["p99"]), ms(middle["max"]), "%.0f" % middle["read_bytes"], "%.0f" % middle["write_bytes"],
                "%.0f" % middle["write_bytes_settled"], "%.2f" % middle["reads_per_cold"] if middle["reads_per_cold"] else "",
                "%.1f" % middle["batch"] if middle["batch"] else "",
                "%.0f" % middle["bytes_per_cold"] if middle["bytes_per_cold"] else "",
                "%.2f" % (ratio_median(row["runs"]["kelvin"], row["runs"]["redis"], "cpu_us") if kelvin else 1)]

    def print_mget(self):
        self.report.note("MGET of %d keys outside the hot set; *cold*: keys of a request that were not in RAM.\n" % MGET_KEYS)
        rows = []
        for clients, name in [(clients, name) for clients in self.options.mget_clients for name in ("kelvin", "redis")]:
            runs = [run for run in self.data["mget"] if run["server"] == name and run["connections"] == clients]
            middle = medians([{key: value or 0 for key, value in run.items() if key != "server"} for run in runs])
            rows.append(["MGET " + name, clients, per(middle["cold"], middle["requests"], "%.1f"), count(middle["ops"]), "%.0f" % middle["cpu_us"],
                         "%.2f" % (middle["cpu_us"] / MGET_KEYS), ms(middle["p50"]), ms(middle["p99"]), ms(middle["max"]),
                         per(middle["reads"], middle["cold"]), per(middle["ring_reads"], middle["ring_batches"], "%.1f"), per(middle["read_bytes"], middle["cold"], "%.0f")])
        self.report.table(["test", "connections", "cold", "ops/s", "CPU us/op", "CPU us/key", "p50 ms", "p99 ms", "max ms", "reads/cold", "batch", "read B/cold"], rows)


def measure(bench):
    Cold(bench).measure()
