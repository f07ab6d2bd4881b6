"""The duration of a restart: from the start to the first reply, depending on what has to be loaded; the shutdown; and the time until
Kelvin's hot keys are hot again. Compared with redis-server."""
import contextlib
import random
import signal
import time

from support.resp import Error

from . import machine
from .bench import KEY_SIZE, Failed
from .checkpoint import COMMAND_OVERHEAD, HALF, LOG, RECORD_OVERHEAD, Side, rewrite
from .report import count, mb, medians

SHORT_TAIL = 1000                   # commands
INCR_SIZE, HSET_SIZE = 37, 63       # bytes of the commands in the log; of HSET without its value
AIM_S = 0.5
BACK = 0.98                         # share of the hit ratio before the restart
SLICE_S = 0.25
LIMIT_S = 120


class Contender:
    def __init__(self, label, name, settings, log=True):
        self.label, self.name, self.settings, self.log = label, name, settings, log
        self.server = self.cgroup = None
        self.runs = {}


def contenders(maxmemory):
    aof = dict(LOG)
    return [Contender("kelvin", "kelvin", aof),
            Contender("kelvin, a third", "kelvin", {**aof, "maxmemory": maxmemory}),
            Contender("redis, AOF with RDB base", "redis", aof),
            Contender("redis, AOF of commands", "redis", {**aof, "aof-use-rdb-preamble": "no"}),
            Contender("redis, RDB", "redis", {"appendonly": "no", "save": ""}, log=False)]


def key_of(number, letter=""):
    return "key:" + letter + str(number).zfill(KEY_SIZE - 4 - len(letter))


def shut_down(side, limit_s=LIMIT_S):
    """Returns the seconds from SHUTDOWN to the end of the process."""
    with side.server.client(timeout=limit_s) as client:
        started = time.monotonic()
        client.send(b"SHUTDOWN\r\n" if side.log else b"SHUTDOWN SAVE\r\n")
        code = side.server.process.wait(limit_s)
        seconds = time.monotonic() - started
    if code != 0:
        raise Failed("%s: SHUTDOWN ended with %s" % (side.label, code))
    return seconds


def start(side, keys, size, drop_cache, limit_s=LIMIT_S):
    """Returns the seconds from the start of the process to the first GET that returns its value, and statistics at that time."""
    if drop_cache:
        machine.page_cache_drop(side.server.folder)
    key = key_of(random.Random(keys).randrange(keys))
    loading, started = 0, time.monotonic()
    side.started = started
    side.server.launch()
    while True:
        if side.server.process.poll() is not None or time.monotonic() - started > limit_s:
            raise Failed("%s did not start:\n%s" % (side.label, side.server.log_tail(1000)))
        try:
            with side.server.client(timeout=limit_s) as client:
                accepted = time.monotonic()
                while True:
                    reply = client.call("GET", key)
                    if not isinstance(reply, Error):
                        break
                    if not reply.startswith(b"LOADING"):
                        raise Failed("%s: GET returned %r" % (side.label, reply))
                    loading += 1
                    time.sleep(0.001)
                seconds = time.monotonic() - started
                break
        except OSError:
            time.sleep(0.001)
    if reply is None or len(reply) != size:
        raise Failed("%s: GET %s returned %r" % (side.label, key, reply))
    pid = side.server.process.pid
    return {"seconds": seconds, "accepted_s": accepted - started, "loading_answers": loading, "rss": machine.rss(pid),
            "rss_peak": machine.rss_peak(pid), "cpu_s": machine.cpu_seconds_ever(pid)}


class Restart:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report
        self.keys, self.size = self.options.restart_keys, self.options.value_size
        data_size = self.keys * (self.size + KEY_SIZE)
        self.tail = tail = data_size // 2 if self.options.changed == HALF else min(self.options.changed, data_size // 2)
        self.sets = int(tail // (self.size + KEY_SIZE + COMMAND_OVERHEAD))
        self.incrs, self.hsets = int(tail // 2 // INCR_SIZE), int(tail // 2 // (HSET_SIZE + self.size))
        self.counters, self.hashes = self.keys // 3, self.keys // 10
        self.data = {"keys": self.keys, "value_size": self.size, "tail_sets": self.sets, "tail_incrs": self.incrs,
                     "tail_hsets": self.hsets, "counters": self.counters, "hashes": self.hashes, "drop_cache": self.options.drop_cache}

    def measure(self):
        self.report.data["parts"]["restart"] = self.data
        bytes_all = self.keys * (self.size + KEY_SIZE + RECORD_OVERHEAD)
        machine.memory_check(self.keys * (self.size + 200) * 3 // 2)
        machine.disk_check(self.options.dir, 12 * bytes_all + 5 * self.tail + (256 << 20))
        self.maxmemory = self.options.maxmemory or self.bench.redis_memory(self.keys, self.size) // 3
        self.data["maxmemory"] = self.maxmemory
        self.sides = contenders(self.maxmemory)
        with contextlib.ExitStack() as stack:
            for side in self.sides:
                self.create(stack, side)
                self.build(side)
            self.clean_restarts()
            logged = [side for side in self.sides if side.log]
            self.tail_restarts("sets", logged, self.tail_of_sets, self.check_sets)
            some = [side for side in logged if side.label != "redis, AOF of commands"]
            self.tail_restarts("changes", some, self.tail_of_changes, self.check_changes)
            self.data["runs"] = [{"server": side.label, "what": what, "runs": runs}
                                 for side in self.sides for what, runs in side.runs.items()]
            for side in self.sides:
                if side.cgroup:
                    self.data["cgroup"] = side.cgroup.results()
                    self.report.check("the cgroup's limit killed nothing", self.data["cgroup"]["killed"] == 0)
        self.print_table()

    # Preparation

    def create(self, stack, side):
        if "maxmemory" in side.settings:
            side.server, side.cgroup = self.bench.server_limited(stack, self.maxmemory, side.settings, starts=False)
        else:
            side.server = stack.enter_context(self.bench.server(side.name, side.settings, starts=False))

    def run(self, side, test, *words, timeout=600):
        return self.bench.run(side.server, "-t", test, "-d", self.size, *words, timeout=timeout)

    def hot_words(self):
        return ["--hot-percent", 100, "--hot-keys", self.hot_keys, "-r", self.keys]

    def build(self, side):
        """Loads the keys, rewrites the log, waits for background work, reads the hot keys until they are hot, and shuts down."""
        self.report.progress("restart: loading %s" % side.label)
        side.server.start(60)
        self.bench.load(side.server, self.keys, self.size)
        self.rewrite(side)
        # The hot keys are chosen for the smallest maxmemory, so that they are the same for all sides.
        self.hot_keys = self.options.hot_set or max(1000, self.maxmemory // (self.size + KEY_SIZE + 40) // 4)
        self.data["hot_keys"] = self.hot_keys
        side.share = self.warm(side)
        self.short_tail(side)
        side.first_shutdown = shut_down(side)

    def rewrite(self, side):
        self.bench.settle(side.server)
        if side.log:
            view = Side(side.label, side.server, self.keys)
            try:
                rewrite(view)
            finally:
                view.client.close()
            self.bench.settle(side.server)

    def hits(self, side):
        info = self.bench.info(side.server)
        return info["tier_hot_hits"], info["tier_cold_hits"]

    def warm(self, side):
        """Reads the hot set until all of it is in RAM; returns the share that is."""
        if side.name != "kelvin":
            return 1.0
        deadline, share = time.monotonic() + 60, 0.0
        while share < 0.999 and time.monotonic() < deadline:
            before = self.hits(side)
            self.run(side, "get", "--duration", max(1, self.options.duration / 2), *self.hot_words())
            hot, cold = (now - then for now, then in zip(self.hits(side), before))
            share = hot / max(1, hot + cold)
        return share

    def short_tail(self, side):
        """A thousand SETs of existing values."""
        self.run(side, "set", "-n", SHORT_TAIL, "-r", self.keys)

    # The time after a start

    def back(self, side):
        """Returns the seconds from the start of the process until the hit ratio of reads of the hot set is the same as before."""
        if side.name != "kelvin":
            return None
        words = ["-t", "get", "-d", self.size, "--duration", LIMIT_S, *self.hot_words()]
        with self.bench.begin(side.server, *words) as running:
            before, share = self.hits(side), 0.0
            while share < BACK * side.share:
                time.sleep(SLICE_S)
                now = self.hits(side)
                hot, cold = (new - old for new, old in zip(now, before))
                share, before = hot / max(1, hot + cold), now
                if running.process.poll() is not None or time.monotonic() - side.started > LIMIT_S:
                    break
            seconds = time.monotonic() - side.started if share >= BACK * side.share else None
            running.stop()
        return seconds

    # The kinds of restart

    def turn(self, sides, number):
        return sides[::-1] if number % 2 else sides

    def check_size(self, side, expected):
        with side.server.client(timeout=LIMIT_S) as client:
            found = client.must("DBSIZE")
        if found != expected:
            self.report.check("DBSIZE of %s is exact after its restart" % side.label, False, "%s, not %s" % (
                count(found), count(expected)))

    def clean_restarts(self):
        for number in range(self.options.runs):
            for side in self.turn(self.sides, number):
                self.report.progress("restart: run %d of %d, clean, %s" % (number + 1, self.options.runs, side.label))
                found = start(side, self.keys, self.size, self.options.drop_cache)
                self.check_size(side, self.keys)
                found["back_s"] = self.back(side)
                found["settle_s"] = self.bench.settle(side.server)
                found["rss_settled"] = machine.rss(side.server.process.pid)
                self.short_tail(side)
                found["shutdown_s"] = shut_down(side)
                side.runs.setdefault("clean", []).append(found)

    def tail_restarts(self, what, sides, make, check):
        """Writes the end of a log, then kills and starts the server once for each run, with the same log."""
        for side in sides:
            self.report.progress("restart: a log tail of %s, %s" % (what, side.label))
            side.server.start(LIMIT_S)
            make(side)
            time.sleep(1.2)
            side.server.kill9()
        for number in range(self.options.runs):
            for side in self.turn(sides, number):
                self.report.progress("restart: run %d of %d, %s, %s" % (number + 1, self.options.runs, what, side.label))
                found = start(side, self.keys, self.size, self.options.drop_cache)
                if number == self.options.runs - 1:
                    check(side)
                found["settle_s"] = self.bench.settle(side.server)
                found["rss_settled"] = machine.rss(side.server.process.pid)
                side.server.kill9()
                side.runs.setdefault(what, []).append(found)

    def tail_of_sets(self, side):
        self.rewrite(side)
        self.run(side, "set", "-n", self.sets, "-r", self.keys, "--distribution", "sequential", "--generation", 1, "-P", 16)

    def check_sets(self, side):
        """No acknowledged write is lost: the values of the log's end are there, and the old ones of the other keys."""
        self.check_size(side, self.keys)
        self.run(side, "get", "-n", self.sets, "-r", self.keys, "--distribution", "sequential", "--generation", 1, "-P", 16,
                 "--verify")

    def tail_of_changes(self, side):
        """Adds counters and hashes and rewrites the log; the commands after that depend on the old values."""
        self.run(side, "incr", "-n", self.counters, "-r", self.counters, "--distribution", "sequential", "-P", 16)
        self.run(side, "hset", "-n", self.hashes, "-r", self.hashes, "--distribution", "sequential", "-P", 16)
        self.rewrite(side)
        self.run(side, "incr", "-n", self.incrs, "-r", self.counters, "--distribution", "sequential", "-P", 16)
        self.run(side, "hset", "-n", self.hsets, "-r", self.hashes, "--distribution", "sequential", "-P", 16)

    def check_changes(self, side):
        self.check_size(side, self.keys + self.counters + self.hashes)
        rounds, rest = divmod(self.incrs, self.counters)
        numbers = random.Random(1).sample(range(self.counters), 1000)
        with side.server.client(timeout=LIMIT_S) as client:
            wrong = [number for number in numbers if client.call("GET", key_of(number, "c")) != b"%d" % (
                1 + rounds + (number < rest))]
        self.report.check("counters of %s are exact after kill -9 and restart" % side.label, not wrong,
                          "%d of %d wrong" % (len(wrong), len(numbers)))

    # Results

    def print_table(self):
        options, report = self.options, self.report
        report.note("## Restart\n")
        report.note("%s keys of 16 bytes, values of %d; *a third*: `maxmemory` %s MB, a third of what redis-server would use. *s*: from the "
                    "start of the process to the first GET that returns its value. *clean*: after SHUTDOWN, %s SETs after the "
                    "last rewrite (RDB: SHUTDOWN SAVE). *%s SETs*: this number of SETs of existing keys after the last rewrite, %s MB of log, then "
                    "kill -9. *INCR, HSET*: %s counters and %s hashes, written before the rewrite, then %s INCR and %s HSET "
                    "of them, %s MB. *back*: seconds from the start until the hit ratio of a hot set of %s keys is the same as before, "
                    "while %d clients read it as fast as possible. %s; medians of %d runs.\n" % (
                        count(self.keys), self.size, mb(self.maxmemory), count(SHORT_TAIL), count(self.sets),
                        mb(self.sets * (self.size + KEY_SIZE + COMMAND_OVERHEAD)), count(self.counters), count(self.hashes),
                        count(self.incrs), count(self.hsets), mb(self.incrs * INCR_SIZE + self.hsets * (HSET_SIZE + self.size)),
                        count(self.hot_keys), options.clients,
                        "The page cache was dropped before each start" if options.drop_cache else "The page cache was warm", options.runs))
        rows = []
        for what, text in (("clean", "clean"), ("sets", count(self.sets) + " SETs"), ("changes", "INCR, HSET")):
            for side in self.sides:
                if what in side.runs:
                    rows.append(self.row(side, what, text))
        report.table(["after", "server", "s", "CPU s", "RSS MB then", "RSS MB peak", "RSS MB at rest", "back s", "SHUTDOWN s"], rows)
        clean = medians_known(self.sides[0].runs["clean"])["seconds"]
        report.check("the first reply is sent within %g s of a start with a short log tail" % AIM_S, clean < AIM_S, "%.2f s" % clean,
                     judged=not options.quick)

    def row(self, side, what, text):
        middle = medians_known(side.runs[what])
        back = middle.get("back_s")
        return [text, side.label, "%.2f" % middle["seconds"], "%.2f" % middle["cpu_s"], mb(middle["rss"]), mb(middle["rss_peak"]),
                mb(middle["rss_settled"]), "%.1f" % back if back is not None else "never" if what == "clean" and side.name == "kelvin"
                else "", "%.2f" % middle["shutdown_s"] if "shutdown_s" in middle else ""]


def medians_known(runs):
    """Returns the medians of the results that every run has."""
    return medians([{name: value for name, value in run.items() if all(other[name] is not None for other in runs)} for run in runs])


def measure(bench):
    Restart(bench).measure()
