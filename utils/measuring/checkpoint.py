"""The cost of a checkpoint (BGREWRITEAOF): latency of concurrent requests and bytes written; compared with redis-server."""
import contextlib
import re
import time

from . import machine
from .bench import KEY_SIZE, results_of
from .report import count, mb, medians, ms

RECORD_OVERHEAD = 40                # bytes in the store in addition to key and value, approximately
COMMAND_OVERHEAD = 37               # bytes of a SET in the log in addition to key and value: *3 $3 SET $16 $200 and line ends
POLL_S = 0.02                       # interval of asking a server whether it is done
LIMIT_S = 300
LOG = {"appendonly": "yes", "auto-aof-rewrite-percentage": 0}
COW_PEAK = re.compile(rb"Fork CoW for AOF rewrite: current \d+ MB, peak (\d+) MB")
MOMENTS = ("steady", "checkpoint")
LOOPS = ("closed", "open")
TESTS = ("get", "set")
HALF = "half"                       # of --changed


class Side:
    """A server with its keys, and the options of the requests for them."""

    def __init__(self, label, server, keys, hot=()):
        self.label, self.server, self.keys, self.hot = label, server, keys, list(hot)
        self.pid = server.process.pid
        self.client = server.client(timeout=120)
        self.generation = 0
        self.changed_keys = 0               # before a checkpoint

    def persistence(self):
        text = self.client.must("INFO", "persistence").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def commands(self):
        return int(re.search(rb"total_commands_processed:(\d+)", self.client.must("INFO", "stats")).group(1))


def rewrite(side, meanwhile=lambda: None):
    """Runs BGREWRITEAOF and returns its duration in seconds."""
    before = side.persistence()
    started = time.monotonic()
    side.client.must("BGREWRITEAOF")
    while True:
        now = side.persistence()
        if now["aof_rewrite_in_progress"] == "0" and now["aof_rewrites"] != before["aof_rewrites"]:
            break
        if time.monotonic() - started > LIMIT_S:
            raise TimeoutError("%s: BGREWRITEAOF is not done after %d s" % (side.label, LIMIT_S))
        meanwhile()
        time.sleep(POLL_S)
    seconds = time.monotonic() - started
    if now["aof_last_bgrewrite_status"] != "ok":
        raise RuntimeError("%s: BGREWRITEAOF failed: %s" % (side.label, side.server.log_tail(500)))
    return seconds


def child_peak(side, log_from):
    """Returns the private memory of the forked child in bytes, from the log of redis-server; 0 if there was no child."""
    found = COW_PEAK.findall(side.server.log()[log_from:])
    return max([int(size) << 20 for size in found] + [int(side.persistence()["aof_last_cow_size"])])


class Checkpoint:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.size = self.options.value_size
        self.seed = 5000
        self.sides, self.runs, self.writes = [], {}, {}
        self.cgroup = None
        self.data = {"keys": self.options.checkpoint_keys, "cold_keys": self.options.checkpoint_cold_keys, "value_size": self.size,
                     "clients": self.options.clients, "duration_s": self.options.duration, "rps": self.options.rps}

    def measure(self):
        options = self.options
        total = 2 * options.checkpoint_keys + options.checkpoint_cold_keys
        self.report.data["parts"]["checkpoint"] = self.data
        machine.memory_check(total * (self.size + 200) * 3 // 2)
        machine.disk_check(options.dir, 5 * total * (self.size + KEY_SIZE + RECORD_OVERHEAD) + (256 << 20))
        with contextlib.ExitStack() as stack:
            self.begin(stack)
            self.measure_writes()
            for loop in options.checkpoint_loops:
                for test in options.checkpoint_tests:
                    self.measure_requests(test, loop)
            self.end()
        self.print_requests()
        self.print_writes()

    # Before

    def begin(self, stack):
        options, keys = self.options, self.options.checkpoint_keys
        self.note_size("redis", "redis", keys, {}, stack)
        redis = self.sides[0]
        used = self.bench.info(redis.server)["used_memory"]
        self.maxmemory = options.maxmemory or used * options.checkpoint_cold_keys // keys // 3
        self.note_size("kelvin", "kelvin", keys, {}, stack)
        self.note_size("kelvin, a third", "kelvin", options.checkpoint_cold_keys, None, stack)
        third = self.sides[2]
        self.hot_keys = options.hot_set or max(1000, self.bench.info(third.server)["tier_hot_keys"] // 4)
        third.hot = ["--hot-percent", options.checkpoint_hot_percent, "--hot-keys", self.hot_keys]
        self.sides = [self.sides[1], redis, third]
        for side in self.sides:
            half = side.keys // 2
            side.changed_keys = half if options.changed == HALF else int(min(options.changed // (self.size + KEY_SIZE), half, keys // 2))
        self.data.update({"maxmemory": self.maxmemory, "hot_keys": self.hot_keys, "hot_percent": options.checkpoint_hot_percent,
                          "changed_keys": {side.label: side.changed_keys for side in self.sides}, "redis_version": self.bench.info(redis.server)["redis_version"]})

    def note_size(self, label, name, keys, settings, stack):
        """`settings` None: Kelvin with the part's maxmemory, in a memory cgroup if the options want one."""
        if settings is None:
            server, self.cgroup = self.bench.server_limited(stack, self.maxmemory, LOG)
        else:
            server = stack.enter_context(self.bench.server(name, {**LOG, **settings}))
        side = Side(label, server, keys)
        stack.callback(side.client.close)
        self.sides.append(side)
        self.report.progress("checkpoint: loading %s" % label)
        self.bench.load(server, keys, self.size)
        self.bench.settle(server)

    # Bytes written

    def measure_writes(self):
        """The first round is after the load, so all data has changed. Before each further round, a known part of it is changed."""
        for number in range(self.options.runs + 1):
            for side in self.turn(number):
                what = "changed" if number else "all"
                self.report.progress("checkpoint: %s, run %d of %d, bytes written" % (side.label, number, self.options.runs))
                before = machine.bytes_written(side.pid) if number else 0
                if number:
                    self.change(side)
                changed = machine.bytes_written(side.pid)
                found = self.quiet_rewrite(side)
                after = machine.bytes_written(side.pid)
                bytes_changed = (side.changed_keys if number else side.keys) * (self.size + KEY_SIZE)
                self.writes.setdefault((side.label, what), []).append(
                    {**found, "bytes_changed": bytes_changed, "written_before": changed - before,
                     "written_checkpoint": after - changed, "amplification": (after - before) / bytes_changed,
                     "amplification_checkpoint": (after - changed) / bytes_changed})
        self.data["writes"] = [{"server": label, "what": what, "runs": runs} for (label, what), runs in self.writes.items()]

    def turn(self, number):
        return self.sides[::-1] if number % 2 else self.sides

    def change(self, side):
        """Sets new values of the side's first `changed_keys` keys, which hashing scatters over all partitions. Then waits until the log is synced
        and background writes are done."""
        side.generation += 1
        self.bench.run(side.server, "-t", "set", "--distribution", "sequential", "-n", side.changed_keys, "-r", side.keys, "-d",
                       self.size, "--generation", side.generation, "-P", 16, timeout=120 + side.changed_keys / 5000)
        time.sleep(1.2)
        self.bench.settle(side.server, 30)

    def quiet_rewrite(self, side):
        """A checkpoint without other requests."""
        log_from, rss = len(side.server.log()), machine.rss(side.pid)
        machine.rss_peak_reset(side.pid)
        seconds = rewrite(side)
        peak = machine.rss_peak(side.pid) + child_peak(side, log_from)
        self.bench.settle(side.server, 30)
        return {"seconds": seconds, "rss_before": rss, "rss_peak": peak, "rss_ratio": peak / rss}

    # Latency of requests

    def measure_requests(self, test, loop):
        for number in range(self.options.runs):
            for side in self.turn(number):
                self.report.progress("checkpoint: run %d of %d, %s, %s loop, %s" % (
                    number + 1, self.options.runs, test.upper(), loop, side.label))
                self.seed += 1
                self.change(side)
                self.warm(side)
                for moment in MOMENTS:
                    found = self.asked(side, test, loop, self.options.duration if moment == "steady" else None)
                    self.runs.setdefault((test, loop, side.label, moment), []).append(found)
                self.bench.settle(side.server, 30)
        self.data["runs"] = [{"test": test, "loop": loop, "server": label, "moment": moment, "runs": runs}
                             for (test, loop, label, moment), runs in self.runs.items()]

    def warm(self, side):
        """Loads the keys of the hot set again, which the changed ones have displaced."""
        words = ["--hot-percent", 100, "--hot-keys", self.hot_keys] if side.hot else []
        self.bench.run(side.server, "-t", "get", "-r", side.keys, "-d", self.size, "--duration", self.options.duration / (1 if words
                       else 5), "--seed", self.seed, *words)

    def hits(self, side):
        """Returns (requests whose key was in RAM, others)."""
        if side.server.name != "kelvin":
            return 1, 0
        info = self.bench.info(side.server)
        return info["tier_hot_hits"], info["tier_cold_hits"] + info["tier_blind_writes"]

    def asked(self, side, test, loop, seconds):
        """A run of `seconds`; None: from just before BGREWRITEAOF until it is done. Both call INFO at the same rate, as that takes
        time of the client's core."""
        words = ["-t", test, "-r", side.keys, "-d", self.size, "--duration", LIMIT_S, "--seed", self.seed] + side.hot
        if loop == "open":
            words += ["--rps", self.options.rps]
        if test == "set":
            words += ["--generation", side.generation]
        log_from, rss = len(side.server.log()), machine.rss(side.pid)
        machine.rss_peak_reset(side.pid)
        hits, commands = self.hits(side), side.commands()
        with self.bench.begin(side.server, *words) as running:
            self.wait_begun(side, running, commands)
            if seconds is None:
                took = rewrite(side)
            else:
                took = self.wait(side, seconds)
            found = running.stop()
        peak = machine.rss_peak(side.pid)
        child = child_peak(side, log_from) if seconds is None else 0
        hot, other = (now - then for now, then in zip(self.hits(side), hits))
        return {"hot_percent": 100.0 * hot / (hot + other) if hot + other else 100.0,
                **results_of(found), "max": found["latency_us"]["max"], "seconds": took, "seconds_all": found["seconds"],
                "rss_before": rss, "rss_peak": peak + child, "rss_ratio": (peak + child) / rss, "rss_child": child}

    def wait_begun(self, side, running, commands):
        deadline = time.monotonic() + 20
        while side.commands() < commands + 4 * self.options.clients:
            if running.process.poll() is not None or time.monotonic() > deadline:
                running.stop()                      # raises Failed with the reason, if there is one
                raise TimeoutError("%s: kelvin-benchmark does not start" % side.label)

    def wait(self, side, seconds):
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            side.persistence()
            time.sleep(POLL_S)
        return time.monotonic() - started

    # After

    def end(self):
        if self.cgroup:
            self.data["cgroup"] = self.cgroup.results()
            self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0)
        for side in self.sides:
            found = side.client.must("DBSIZE")
            self.report.check("DBSIZE of %s is exact at the end" % side.label, found == side.keys, count(found))
            if side.server.name == "kelvin":
                info = self.bench.info(side.server)
                self.report.check("the tier of %s had no errors" % side.label, info["tier_errors"] == 0, info["tier_last_error"])
                self.data.setdefault("in_the_end", {})[side.label] = {name: info[name] for name in info if name.startswith("tier_")}

    def print_requests(self):
        options, report = self.options, self.report
        report.note("## During a checkpoint\n")
        report.note("%s keys of 16 bytes, values of %d, in memory; *a third*: %s keys with `maxmemory` %s MB, a third of what "
                    "redis-server %s would use, %g %% of requests for a hot set of %s keys. appendonly yes, appendfsync everysec. %d "
                    "connections, P=1; *closed*: each sends a request when it has the reply to the last one; *open*: %s requests per second "
                    "are sent, and latency is measured from when they were due. *steady*: %g s; *checkpoint*: from BGREWRITEAOF until it is done, after %s were "
                    "changed. *RSS peak*: relative to before, including the forked child. Medians of %d runs.\n" % (
                        count(options.checkpoint_keys), self.size, count(options.checkpoint_cold_keys), mb(self.maxmemory),
                        self.data["redis_version"], options.checkpoint_hot_percent, count(self.hot_keys), options.clients,
                        count(options.rps), options.duration, self.changed_text(), options.runs))
        for loop in options.checkpoint_loops:
            rows = []
            for test in options.checkpoint_tests:
                for side in self.sides:
                    steady = medians(self.runs[test, loop, side.label, "steady"])
                    for moment in MOMENTS:
                        middle = medians(self.runs[test, loop, side.label, moment])
                        rows.append(["%s %s" % (test.upper(), side.label), moment, "%.1f" % middle["hot_percent"], count(middle["ops"])] +
                                    [ms(middle[p]) for p in ("p50", "p99", "p99.9", "max")] +
                                    (["%.2f" % (middle["p99"] / steady["p99"]), "%.2f" % (middle["ops"] / steady["ops"]),
                                      "%.1f" % middle["seconds"]] if moment == "checkpoint" else ["", "", ""]) +
                                    ["%.2f" % middle["rss_ratio"]])
            report.table([loop + " loop", "when", "hot %", "ops/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "p99 / steady", "ops / steady", "took s",
                                            "RSS peak"], rows)

    def changed_text(self):
        if self.options.changed == HALF:
            return "half of the keys"
        return "%s MB" % mb(self.sides[0].changed_keys * (self.size + KEY_SIZE))

    def print_writes(self):
        self.report.note("Bytes written to the disk (`write_bytes` of /proc/PID/io, including child and log) without other requests: N MB "
                         "of keys and values are SET, the log is synced, then BGREWRITEAOF; the lower lines are the first rewrite, after all "
                         "data was loaded. *per byte*: of changed keys and values, for log and checkpoint / checkpoint only. "
                         "The log's share is %.2f.\n" % ((self.size + KEY_SIZE + COMMAND_OVERHEAD) / (self.size + KEY_SIZE)))
        rows = []
        for what in ("changed", "all"):
            for side in self.sides:
                middle = medians(self.writes[side.label, what])
                rows.append([side.label, mb(middle["bytes_changed"]), mb(middle["written_before"]), mb(middle["written_checkpoint"]),
                             "%.2f" % middle["amplification"], "%.2f" % middle["amplification_checkpoint"],
                             "%.2f" % middle["seconds"], "%.2f" % middle["rss_ratio"]])
        self.report.table(["server", "changed MB", "written while changing MB", "by the checkpoint MB", "per byte", "checkpoint alone",
                           "took s", "RSS peak"], rows)


def measure(bench):
    Checkpoint(bench).measure()
