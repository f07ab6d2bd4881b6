"""The latency of requests for other keys while a value of a hundred megabytes moves between the tiers, or is freed."""
import random
import re
import time

from support.resp import Error

from . import machine
from .bench import Failed, results_of
from .report import count, mb, medians, ms

ELEMENT_SIZE = 64                   # bytes of data in an element, without a score
ELEMENT_MEMORY = 77                 # bytes that an element takes in memory, approximately
FILLERS_SHARE = 2                   # memory of the keys that are not requested, as a multiple of the big value
HOT_KEYS = 10000
WINDOW_S = 1.0                      # a run lasts as long as the event, but at least this long
LEAD_S = 0.1                        # the requests begin this long before the event
POLL_S = 0.01
STEP_S = 0.5                        # between two reductions of maxmemory
FREE_S = 0.5                        # freeing usually takes less
LIMIT_S = 120
BATCH = 500
WORKERS = re.compile(r"redis-server|kelvin-server|kelvin-worker")      # threads that serve clients

# What happens to the big value. Its key is in database 1, so that eviction does not select another key.
EVENTS = ("idle", "demote", "promote", "drop", "pressure", "unlink", "overwrite", "expire", "evict")
OF_REDIS = ("idle", "unlink", "overwrite", "expire", "evict")


def text(index, size=ELEMENT_SIZE):
    """Returns text that does not compress well, always the same for an index."""
    digits = "%09d%x" % (index, random.Random(index).getrandbits(4 * size))
    return digits[:size].ljust(size, "x")


class Type:
    """`add`: the command's words before the elements; `element`: the words of the n-th element; `look`: a read that needs the
    value; `change`: a write after which the value differs from its record."""

    def __init__(self, name, add, element, look, change, alone=False):
        self.name, self.add, self.element, self.look, self.change, self.alone = name, add, element, look, change, alone


TYPES = {kind.name: kind for kind in [
    Type("zset", ["ZADD", "big"], lambda index: [str(index * 7 % 1000003), text(index)], ["ZSCORE", "big", text(5)],
         ["ZINCRBY", "big", "1", text(7)]),
    Type("hash", ["HSET", "big"], lambda index: ["field:%09d" % index, text(index, ELEMENT_SIZE - 15)], ["HGET", "big", "field:000000005"],
         ["HINCRBY", "big", "counter", "1"]),
    Type("list", ["RPUSH", "big"], lambda index: [text(index)], ["LINDEX", "big", "5"], ["RPUSH", "big", "more"]),
    Type("set", ["SADD", "big"], lambda index: [text(index)], ["SISMEMBER", "big", text(5)], ["SADD", "big", "%d"]),
    Type("stream", ["XADD", "big", "*"], lambda index: ["field", text(index)], ["XRANGE", "big", "-", "+", "COUNT", "1"],
         ["XADD", "big", "*", "field", "more"], alone=True),
]}


def must(replies):
    for reply in replies:
        if isinstance(reply, Error):
            raise Failed("the big value: %s" % bytes(reply).decode())


def load(client, kind, elements):
    calls, words = [], []
    for index in range(elements):
        words += kind.element(index)
        if kind.alone or len(words) >= BATCH or index == elements - 1:
            calls.append(kind.add + words)
            words = []
        if len(calls) == (BATCH if kind.alone else 10) or (index == elements - 1 and calls):
            must(client.pipeline(calls))
            calls = []


class Side:
    """A server with hot keys, keys that are not requested, and the big value."""

    def __init__(self, bench, label, server, fillers):
        self.bench, self.label, self.server = bench, label, server
        self.client = server.client(timeout=LIMIT_S)
        self.client.must("SELECT", 1)
        self.client.call("CLIENT", "NO-TOUCH", "ON")     # so that the big value stays as cold as possible. Redis 7.0 does not have it
        self.changes = 0
        if bench.options.big_real_time:
            machine.real_time(server.process.pid, WORKERS)
        self.keys = fillers + HOT_KEYS
        bench.load(server, self.keys, bench.options.value_size)
        self.get(bench.options.duration, "--rps", 20000, "--hot-percent", 50)       # the fillers are warmer than the big value

    def get(self, duration, *more):
        options = self.bench.options
        return self.bench.run(self.server, *self.words(duration), *more, timeout=duration + options.duration + 60)

    def words(self, duration):
        return ["-t", "get", "-r", self.keys, "-d", self.bench.options.value_size, "--duration", duration, "--hot-keys", HOT_KEYS,
                "--hot-percent", 100, "--seed", 1]

    def info(self, name, section):
        return re.search(rb"(?m)^%s:([^\r\n]*)" % name.encode(), self.client.must("INFO", section)).group(1).decode()

    def until(self, done):
        started = time.monotonic()
        while not done():
            if time.monotonic() - started > LIMIT_S:
                raise TimeoutError("%s: not done after %d s" % (self.label, LIMIT_S))
            time.sleep(POLL_S)

    def freed(self):
        """Waits until the value is freed. INFO memory collects the statistics of jemalloc, with all its locks, in the thread that serves
        clients, so it is not called while the value is being freed."""
        started = time.monotonic()
        time.sleep(FREE_S)
        self.until(lambda: self.info("lazyfree_pending_objects", "memory") == "0")
        self.waited = time.monotonic() - started

    def change(self, kind):
        self.changes += 1
        self.client.must(*[word.replace("%d", "more:%d" % self.changes) for word in kind.change])

    def is_cold(self):
        return self.client.must("TIER", "WHERE", "big") == b"cold"

    # The events. `prepare` runs before the requests, the event while they are running.

    def prepare(self, event, kind):
        client = self.client
        if event in ("demote", "pressure"):
            client.must(*kind.look)
            self.change(kind)
        elif event == "promote" and not self.is_cold():
            client.must("TIER", "DEMOTE", "big")
        elif event == "drop":
            client.must(*kind.look)
            if not self.is_cold():
                client.must("TIER", "DEMOTE", "big")
                client.must(*kind.look)
        elif event in ("unlink", "overwrite", "expire", "evict"):
            client.must("COPY", "big", "doomed", "REPLACE")
            client.must("PEXPIRE", "doomed", 3600000)
        self.bench.settle(self.server, 30)

    def happen(self, event, kind):
        client = self.client
        if event in ("demote", "drop"):
            if client.must("TIER", "DEMOTE", "big") != 1:
                raise Failed("%s: the big value was not demoted" % self.label)
        elif event == "promote":
            client.must(*kind.look)
        elif event == "pressure":
            self.press()
        elif event == "unlink":
            client.must("UNLINK", "doomed")
            self.freed()
        elif event == "overwrite":
            client.must("SET", "doomed", "small")
            self.freed()
        elif event == "expire":
            client.must("PEXPIRE", "doomed", 1)
            self.until(lambda: client.must("DBSIZE") == 1)
            self.freed()
        elif event == "evict":
            self.evict()

    def press(self):
        """Lowers maxmemory so that the tier demotes keys, but not so far that calls that need memory have to wait. Other keys are demoted as
        well, as demotion selects the coldest key of a sample; so this is repeated until the big value is cold. INFO is called only
        once, see `freed`."""
        low, high = (int(self.client.must("CONFIG", "GET", "tier-%s-watermark" % name)[1]) for name in ("low", "high"))
        limit = int(self.info("used_memory", "memory")) * 100 // (high + 1)
        started = stepped = time.monotonic()
        self.client.must("CONFIG", "SET", "maxmemory", limit)
        while not self.is_cold():
            if time.monotonic() - started > LIMIT_S:
                raise Failed("%s: the big value is not demoted when memory is short" % self.label)
            if time.monotonic() - stepped > STEP_S:
                stepped, limit = time.monotonic(), limit * low // (high + 1)
                self.client.must("CONFIG", "SET", "maxmemory", limit)
            time.sleep(POLL_S)
        self.client.must("CONFIG", "SET", "maxmemory", 0)

    def evict(self):
        client = self.client
        kelvin = self.server.name == "kelvin"
        if kelvin:
            client.must("CONFIG", "SET", "tier-enabled", "no")
        client.must("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        client.must("CONFIG", "SET", "maxmemory", int(self.info("used_memory", "memory")) - self.bench.options.big_size // 2)
        self.until(lambda: not isinstance(client.call("SET", "another", "x"), Error) and client.must("EXISTS", "doomed") == 0)
        self.freed()
        client.must("CONFIG", "SET", "maxmemory", 0)
        client.must("DEL", "another")
        if kelvin:
            client.must("CONFIG", "SET", "tier-enabled", "yes")

    def measure(self, event, kind):
        self.prepare(event, kind)
        self.waited = 0
        commands = int(self.info("total_commands_processed", "stats"))
        cold = self.cold_hits()
        with self.bench.begin(self.server, *self.words(LIMIT_S), "--rps", self.bench.options.big_rps) as running:
            if self.bench.options.big_real_time:
                machine.real_time(running.process.pid)
            self.until(lambda: running.process.poll() is not None or
                       int(self.info("total_commands_processed", "stats")) > commands + 4 * self.bench.options.clients)
            time.sleep(LEAD_S)
            started = time.monotonic()
            if running.process.poll() is None:
                self.happen(event, kind)
            took = time.monotonic() - started - self.waited
            time.sleep(max(0, WINDOW_S - took - self.waited))
            found = running.stop()
        return {**results_of(found), "max": found["latency_us"]["max"], "took": took, "seconds": found["seconds"],
                "cold": self.cold_hits() - cold}

    def cold_hits(self):
        return int(self.info("tier_cold_hits", "tiering")) if self.server.name == "kelvin" else 0


def measure(bench):
    options, report = bench.options, bench.report
    elements = options.big_size // ELEMENT_MEMORY
    fillers = FILLERS_SHARE * options.big_size // (options.value_size + 40)
    sides = [("kelvin" if threads == 1 else "kelvin, io-threads %d" % threads, "kelvin", {"io-threads": threads})
             for threads in options.big_threads] + [("redis", "redis", {})]
    data = {"size": options.big_size, "elements": elements, "rps": options.big_rps, "hot_keys": HOT_KEYS, "fillers": fillers, "runs": []}
    report.data["parts"]["big"] = data
    machine.memory_check(6 * options.big_size)
    machine.disk_check(options.dir, 20 * options.big_size)
    for name in options.big_types:
        for label, program, settings in sides:
            for event, runs in of_type(bench, TYPES[name], label, program, settings, elements, fillers).items():
                data["runs"].append({"type": name, "server": label, "event": event, "runs": runs})
    print_tables(bench, data)


def of_type(bench, kind, label, program, settings, elements, fillers):
    found = {}
    with bench.server(program, settings) as server:
        bench.report.progress("big: %s, loading a %s of %s elements" % (label, kind.name, count(elements)))
        side = Side(bench, label, server, fillers)
        before = bench.info(server)["used_memory"]
        load(side.client, kind, elements)
        bench.report.progress("big: %s, the %s takes %s MB" % (label, kind.name, mb(bench.info(server)["used_memory"] - before)))
        events = EVENTS if program == "kelvin" else OF_REDIS
        for number in range(bench.options.runs):
            for event in events:
                if bench.options.big_events and event not in bench.options.big_events:
                    continue
                one = side.measure(event, kind)
                found.setdefault(event, []).append(one)
                bench.report.progress("big: %s, %s, run %d, %s: p99.9 %s ms, max %s ms, took %.2f s" % (
                    label, kind.name, number + 1, event, ms(one["p99.9"]), ms(one["max"]), one["took"]))
        side.client.close()
    return found


def print_tables(bench, data):
    options, report = bench.options, bench.report
    report.note("## While a big value moves\n")
    report.note("A value of about %s MB (%s elements) is demoted after it was changed (*demote*; *pressure*: because memory is needed), promoted by a "
                "read of one element, demoted unchanged (*drop*), and freed, while %s GET/s for %s other keys are sent on %d connections; latency is measured "
                "from when a request was due, over at least %g s. *took*: duration of the event; for a value that is freed, until the key is deleted. "
                "*cold*: GETs that waited for the disk. Medians of %d runs.\n" % (
                    mb(data["size"]), count(data["elements"]), count(data["rps"]), count(HOT_KEYS), options.clients, WINDOW_S, options.runs))
    for name in options.big_types:
        rows = []
        for row in data["runs"]:
            if row["type"] != name:
                continue
            middle = medians(row["runs"])
            rows.append(["%s, %s" % (row["event"], row["server"])] + [ms(middle[p]) for p in ("p50", "p99", "p99.9", "max")] +
                        ["%.2f" % middle["took"], count(middle["cold"])])
        report.table([name, "p50 ms", "p99 ms", "p99.9 ms", "max ms", "took s", "cold"], rows)
