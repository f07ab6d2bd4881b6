"""Very many small keys, nearly all cold: the worst delays while they are loaded, RAM per cold key, the cost of a cold GET, DBSIZE, a full SCAN,
and restarts."""
import contextlib
import time

from . import machine
from .account import Account, per
from .bench import KEY_SIZE, Failed, results_of
from .checkpoint import COMMAND_OVERHEAD, HALF, Side, rewrite
from .report import count, mb, medians, ms
from .restart import shut_down, start
from .scan import scan_all
from .shares import RECORD_OVERHEAD

VALUE_SIZE = 32
WINDOW_MS = 1000
STALL_MS = 100
SCAN_COUNT = 1000
SETTLE_S = 600
LIMIT_S = 1800


class Scale:
    """`server`, `label` and `log` are what restarts need to know of a side."""

    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.keys = self.options.scale_keys
        self.label, self.log = "kelvin", True
        self.maxmemory = self.options.maxmemory or max(16 << 20, (self.keys << 30) // 100000000)
        self.data = {"keys": self.keys, "value_size": VALUE_SIZE, "maxmemory": self.maxmemory, "gets": [], "restarts": {}}

    def measure(self):
        self.report.data["parts"]["scale"] = self.data
        machine.memory_check(2 * self.maxmemory + 2 * self.keys)
        machine.disk_check(self.options.dir, 6 * self.keys * (VALUE_SIZE + KEY_SIZE + RECORD_OVERHEAD) + (256 << 20))
        self.report.note("## Very many keys\n")
        self.report.note("%s keys of 16 bytes, values of %d, `maxmemory` %s MB; %d connections.\n" % (
            count(self.keys), VALUE_SIZE, mb(self.maxmemory), self.options.clients))
        with contextlib.ExitStack() as stack:
            self.server, cgroup = self.bench.server_limited(stack, self.maxmemory, starts=False)
            self.server.start(60)
            self.load()
            self.weigh()
            self.gets()
            self.sizes()
            self.restarts()
            if cgroup:
                self.data["cgroup"] = cgroup.results()
                self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0)
            if not self.server.alive():
                raise Failed("kelvin ended with %s" % self.server.process.returncode)

    def run(self, *words, timeout=None):
        return self.bench.run(self.server, "-r", self.keys, "-d", VALUE_SIZE, *words, timeout=timeout)

    # The load, and the memory that it leaves

    def load(self):
        self.report.progress("scale: loading")
        self.bench.run(self.server, "-t", "ping", "-P", 32, "-n", 100000)
        self.rss_empty = machine.rss(self.server.process.pid)
        account = Account(self.bench, self.server)
        machine.rss_peak_reset(self.server.process.pid)
        found = self.bench.load(self.server, self.keys, VALUE_SIZE, "--series", WINDOW_MS)
        settled = self.bench.settle(self.server, SETTLE_S)
        used, slowest = account.end(), found["series"]["latency_us_max"]
        self.data["load"] = {**results_of(found), "max": found["latency_us"]["max"], "series": found["series"], "seconds": found["seconds"],
                             "settle_s": settled if settled is not None else SETTLE_S,
                             "cpu_us_settled": 1e6 * used["cpu_s"] / self.keys, "stalls": sum(us > 1000 * STALL_MS for us in slowest),
                             "written_per_byte": used["write_bytes"] / (self.keys * (KEY_SIZE + VALUE_SIZE)),
                             "rss_peak": machine.rss_peak(self.server.process.pid)}
        load = self.data["load"]
        self.report.note("\nThe load, with P=32 (*latency* of 32 SETs); *settled*: with the background work that followed for *quiet* seconds; "
                         "*written*: bytes per byte of keys and values.\n")
        self.report.table(["SET/s", "CPU us/op", "settled", "p99 ms", "p99.9 ms", "max ms", "seconds over %d ms" % STALL_MS, "written B/B",
                           "RSS max MB", "quiet s"], [[
                               count(load["ops"]), "%.2f" % load["cpu_us"], "%.2f" % load["cpu_us_settled"], ms(load["p99"]), ms(load["p99.9"]),
                               ms(load["max"]), "%d of %d" % (load["stalls"], len(slowest)), "%.2f" % load["written_per_byte"],
                               mb(load["rss_peak"]), "%.1f" % load["settle_s"]]])

    def weigh(self):
        info = self.bench.info(self.server)
        rss = machine.rss(self.server.process.pid)
        rest, cold = rss - self.rss_empty - info["tier_held_bytes"], max(1, info["tier_cold_keys"])
        self.report.check("most keys are cold", cold > self.keys // 2, "%s of %s" % (count(cold), count(self.keys)), judged=not self.options.quick)
        self.data["memory"] = {"rss": rss, "rss_empty": self.rss_empty, "rest": rest, "used_memory": info["used_memory"],
                               **{name: value for name, value in info.items() if name.startswith("tier_")}}
        self.data["disk_bytes"] = machine.disk_used(self.server.folder)
        self.report.note("RAM per cold key. *record map*, *store*: INFO tier_recordmap_bytes, tier_store_memory; *rest*: RSS without that of the "
                         "empty server and tier_held_bytes (entries and tables of hot keys); *on disk*: bytes of all files per byte of "
                         "keys and values that are cold.\n")
        self.report.table(["cold keys", "hot keys", "record map B/key", "store B/key", "rest B/key", "RSS MB", "disk MB", "on disk"], [[
            count(cold), count(info["tier_hot_keys"]), "%.2f" % (info["tier_recordmap_bytes"] / cold), "%.2f" % (info["tier_store_memory"] / cold),
            "%.2f" % (rest / cold), mb(rss), mb(self.data["disk_bytes"]), "%.2f" % (
                self.data["disk_bytes"] / (cold * (KEY_SIZE + VALUE_SIZE)))]])

    # Requests

    def gets(self):
        for number in range(self.options.runs):
            self.report.progress("scale: run %d of %d, GET" % (number + 1, self.options.runs))
            account = Account(self.bench, self.server)
            found = self.run("-t", "get", "--duration", self.options.duration, "--seed", number + 1)
            used = account.end()
            if found["missing"]:
                raise Failed("GET did not find %d keys" % found["missing"])
            self.data["gets"].append({**results_of(found), **used, "max": found["latency_us"]["max"]})
            self.bench.settle(self.server)
        middle = medians([{name: value or 0 for name, value in run.items()} for run in self.data["gets"]])
        self.report.note("GETs of all keys, each equally likely, P=1; medians of %d runs of %g s.\n" % (self.options.runs, self.options.duration))
        self.report.table(["hot %", "ops/s", "CPU us/op", "p50 ms", "p99 ms", "max ms", "reads/cold", "read B/cold"], [[
            "%.1f" % (100 * middle["hot"] / max(1, middle["hot"] + middle["cold"])), count(middle["ops"]), "%.2f" % middle["cpu_us"],
            ms(middle["p50"]), ms(middle["p99"]), ms(middle["max"]), per(middle["reads"], middle["cold"]),
            per(middle["read_bytes"], middle["cold"], "%.0f")]])

    def sizes(self):
        self.size_check("after the load", self.keys)
        self.report.progress("scale: SCAN")
        cpu = machine.cpu_seconds(self.server.process.pid)
        found = scan_all(self.server.address, self.keys, SCAN_COUNT, 120 + self.keys / 5000)
        found["cpu_s"] = machine.cpu_seconds(self.server.process.pid) - cpu
        self.data["scan"] = found
        self.report.check("a full SCAN with COUNT %d returns every key" % SCAN_COUNT, found["missing"] == 0 and found["foreign"] == 0,
                          "%s returned, %s of them twice, %s missing; %.1f s, of which the server needed %.1f s of CPU time" % (
                              count(found["returned"]), count(found["repeated"]), count(found["missing"]), found["seconds"], found["cpu_s"]))

    def size_check(self, when, expected):
        with self.server.client(timeout=LIMIT_S) as client:
            started = time.monotonic()
            found = client.must("DBSIZE")
            took = time.monotonic() - started
        self.data.setdefault("dbsize", []).append({"when": when, "found": found, "seconds": took})
        self.report.check("DBSIZE is exact " + when, found == expected, "%s, %.1f ms" % (count(found), 1000 * took))

    # Restarts

    def restarts(self):
        self.begin_log()
        shutdown_s = shut_down(self, LIMIT_S)
        self.restart("clean")
        sets = self.tail()
        self.server.kill9()
        self.restart("kill -9")
        self.run("-t", "get", "-n", sets, "--distribution", "sequential", "--generation", 1, "-P", 16, "--verify", timeout=120 + sets / 2000)
        rows = [[after, "%.2f" % found["seconds"], "%.2f" % found["cpu_s"], mb(found["rss"]), mb(found["rss_peak"]), "%.1f" % found["settle_s"],
                 "%.2f" % shutdown_s if after == "clean" else ""] for after, found in self.data["restarts"].items()]
        self.data["shutdown_s"] = shutdown_s
        self.report.note("\nRestarts, with appendonly yes: from the start of the process to the first GET that returns its value. *kill -9*: with "
                         "%s SETs in the log since the last rewrite, all of which are compared; *quiet*: seconds until the background work was "
                         "done. The first rewrite took %.1f s.\n" % (count(sets), self.data["rewrite_s"]))
        self.report.table(["after", "s", "CPU s", "RSS MB then", "RSS MB peak", "quiet s", "SHUTDOWN s"], rows)

    def begin_log(self):
        """Switches the log on, which makes a checkpoint of all keys."""
        self.report.progress("scale: the first checkpoint")
        side = Side(self.label, self.server, self.keys)
        started = time.monotonic()
        side.client.must("CONFIG", "SET", "auto-aof-rewrite-percentage", 0)
        side.client.must("CONFIG", "SET", "appendonly", "yes")
        while side.persistence()["aof_rewrite_in_progress"] != "0":
            if time.monotonic() - started > LIMIT_S:
                raise TimeoutError("the first checkpoint is not done after %d s" % LIMIT_S)
            time.sleep(0.05)
        self.data["rewrite_s"] = time.monotonic() - started
        side.client.close()
        self.server.options.update({"appendonly": "yes", "auto-aof-rewrite-percentage": 0})
        self.bench.settle(self.server, SETTLE_S)

    def tail(self):
        """SETs of the first keys after a checkpoint; returns their number."""
        record = KEY_SIZE + VALUE_SIZE
        changed = self.keys * record // 2 if self.options.changed == HALF else min(self.options.changed, self.keys * record // 2)
        sets = int(changed // (record + COMMAND_OVERHEAD))
        side = Side(self.label, self.server, self.keys)
        self.data["rewrite_again_s"] = rewrite(side)
        side.client.close()
        self.run("-t", "set", "-n", sets, "--distribution", "sequential", "--generation", 1, "-P", 16, timeout=120 + sets / 5000)
        time.sleep(1.2)                         # appendfsync everysec
        return sets

    def restart(self, after):
        self.report.progress("scale: restart after %s" % after)
        found = start(self, self.keys, VALUE_SIZE, self.options.drop_cache, LIMIT_S)
        self.size_check("after a restart, %s" % after, self.keys)
        found["settle_s"] = self.bench.settle(self.server, SETTLE_S) or SETTLE_S
        self.data["restarts"][after] = found


def measure(bench):
    Scale(bench).measure()
