"""The commands of redis-benchmark, and others that are often published, on both servers."""
import csv
import io
import subprocess

from support.resp import Error

from . import machine
from .bench import Failed
from .report import count, medians, ratio_median

PIPELINES = (1, 16)
LIST, SET, ZSET, HASH, LOG = "mylist", "myset", "myzset", "myhash", "mystream"
NUMBER = "__rand_int__"                 # redis-benchmark replaces it with a random number of 12 digits
NUMBERED_MEMBER = "element:" + NUMBER
LIST_LONG, MEMBERS, FIELDS = 600, 100, 10


def fill(client, words, things, part=500):
    """Runs `words`, followed by all `things`, in several calls."""
    parts, calls = [], []
    for thing in things:
        parts += thing if isinstance(thing, tuple) else (thing,)
        if len(parts) >= part:
            calls.append(words + parts)
            parts = []
        if len(calls) == 64:
            client.pipeline(calls)
            calls = []
    if parts:
        calls.append(words + parts)
    if calls:
        client.pipeline(calls)


def numbered(prefix, number):
    return ("%s%012d" % (prefix, index) for index in range(number))


def strings(client, keys, requests):
    fill(client, ["MSET"], ((key, "xxx") for key in numbered("key:", keys)))


def a_list(client, keys, requests):
    fill(client, ["RPUSH", LIST], ("xxx" for _ in range(requests + LIST_LONG)))


def a_short_list(client, keys, requests):
    fill(client, ["RPUSH", LIST], ("xxx" for _ in range(LIST_LONG)))


def a_set(client, keys, requests):
    fill(client, ["SADD", SET], numbered("element:", requests))


def a_small_set(client, keys, requests):
    fill(client, ["SADD", SET], numbered("element:", MEMBERS))


def a_sorted_set(client, keys, requests):
    fill(client, ["ZADD", ZSET], ((str(index * 7919 % keys), member) for index, member in enumerate(numbered("element:", requests))))


def a_hash(client, keys, requests):
    fill(client, ["HSET", HASH], ((field, "xxx") for field in numbered("element:", keys)))


def counters(client, keys, requests):
    fill(client, ["HSET", HASH], ((field, "0") for field in numbered("element:", keys)))


def hashes(client, keys, requests):
    calls = [["HSET", key] + pairs() for key in numbered("hash:", keys // FIELDS)]
    for start in range(0, len(calls), 500):
        client.pipeline(calls[start:start + 500])


def sketches(client, keys, requests):
    fill(client, ["PFADD", "hll:1"], numbered("element:", 10000))
    fill(client, ["PFADD", "hll:2"], numbered("other:", 10000))


def pairs():
    return [word for index in range(FIELDS) for word in ("field%d" % index, "xxx")]


class Case:
    """`words` None: one of redis-benchmark's own tests (-t). `share`: share of the requests of a run, below 1 for slow commands."""

    def __init__(self, name, words=None, before=None, share=1.0, keys_share=1.0):
        self.name, self.words, self.before, self.share, self.keys_share = name, words, before, share, keys_share

    def probe(self):
        """Returns the command with fixed arguments; it is called to find out whether the server has it."""
        words = self.words or {"PING_INLINE": ["PING"], "PING_MBULK": ["PING"], "MSET": ["MSET", "k", "v"], "SET": ["SET", "k", "v"],
                               "LPUSH": ["LPUSH", LIST, "v"], "RPUSH": ["RPUSH", LIST, "v"], "SADD": ["SADD", SET, "v"],
                               "HSET": ["HSET", HASH, "f", "v"], "ZADD": ["ZADD", ZSET, "0", "m"], "GET": ["GET", "k"],
                               "INCR": ["INCR", "n"], "LPOP": ["LPOP", LIST], "RPOP": ["RPOP", LIST], "SPOP": ["SPOP", SET],
                               "ZPOPMIN": ["ZPOPMIN", ZSET]}[self.name]
        return [word.replace(NUMBER, "000000000001") for word in words]


def own(name, before=None, share=1.0):
    return Case(name, None, before, share)


def lrange(number, share):
    return Case("LRANGE_%d" % number, ["LRANGE", LIST, "0", str(number - 1)], a_short_list, share)


CASES = [
    own("PING_INLINE"), own("PING_MBULK"), own("SET"), own("GET", strings), own("INCR"), own("LPUSH"), own("RPUSH"),
    own("LPOP", a_list), own("RPOP", a_list), own("SADD"), own("HSET"), own("SPOP", a_set), own("ZADD"), own("ZPOPMIN", a_sorted_set),
    lrange(100, 0.3), lrange(300, 0.1), lrange(600, 0.1), own("MSET", None, 0.3),
    Case("MGET (10)", ["MGET"] + ["key:" + NUMBER] * 10, strings, 0.5),
    Case("HINCRBY", ["HINCRBY", HASH, NUMBERED_MEMBER, "1"], counters),
    Case("HGET", ["HGET", HASH, NUMBERED_MEMBER], a_hash),
    Case("HMSET (10)", ["HMSET", "hash:" + NUMBER] + pairs(), None, 0.5, 1 / FIELDS),
    Case("HMGET (10)", ["HMGET", "hash:" + NUMBER] + pairs()[::2], hashes, 0.5, 1 / FIELDS),
    Case("HGETALL (10)", ["HGETALL", "hash:" + NUMBER], hashes, 0.5, 1 / FIELDS),
    Case("ZREM", ["ZREM", ZSET, NUMBERED_MEMBER], a_sorted_set),
    Case("PFADD", ["PFADD", "hll:1", NUMBERED_MEMBER]),
    Case("PFCOUNT", ["PFCOUNT", "hll:1"], sketches),
    Case("PFCOUNT (2)", ["PFCOUNT", "hll:1", "hll:2"], sketches, 0.05),
    Case("PFMERGE", ["PFMERGE", "hll:3", "hll:1", "hll:2"], sketches, 0.05),
    Case("SMEMBERS (100)", ["SMEMBERS", SET], a_small_set, 0.3),
    Case("XADD", ["XADD", LOG, "*", "field", "xxx"]),
]


class Commands:
    def __init__(self, bench):
        self.bench, self.options, self.report = bench, bench.options, bench.report

    def is_there(self, server, case):
        with server.client() as client:
            client.must("FLUSHALL")
            reply = client.call(*case.probe())
        return not (isinstance(reply, Error) and b"unknown command" in bytes(reply))

    def run(self, server, case, pipeline):
        requests = max(1000, int(self.options.command_requests * case.share / (1 if pipeline > 1 else 4)))
        keys = max(1, int(self.options.command_keys * case.keys_share))
        with server.client() as client:
            client.must("FLUSHALL")
            if case.before is not None:
                case.before(client, self.options.command_keys, requests)
        if self.bench.settle(server) is None:
            raise Failed("%s still has background work" % server.name)
        # A set that is popped or removed from has as many members as there are requests.
        words = [self.options.redis_benchmark, "-p", str(server.port), "-c", str(self.options.clients), "-n", str(requests),
                 "-P", str(pipeline), "-r", str(requests if case.name == "ZREM" else keys), "-q", "--csv"]
        words += case.words if case.words else ["-t", case.name.lower()]
        cpu = machine.cpu_seconds(server.process.pid)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        cpu = machine.cpu_seconds(server.process.pid) - cpu
        # Errors before the test (redis-benchmark begins with CONFIG GET) are on stderr.
        rows = list(csv.reader(io.StringIO(done.stdout)))
        if done.returncode != 0 or done.stderr.strip() or len(rows) != 2:
            raise Failed("%s: %s: %s" % (server.name, " ".join(words), (done.stderr or done.stdout).strip()[:300]))
        found = dict(zip(rows[0], rows[1]))
        return {"ops": float(found["rps"]), "cpu_us": cpu * 1e6 / requests, "p99_ms": float(found["p99_latency_ms"]),
                "requests": requests}

    def measure(self):
        options, report = self.options, self.report
        runs, missing = {}, set()
        with self.bench.server("kelvin") as kelvin, self.bench.server("redis") as redis:
            pair = [kelvin, redis]
            cases = [case for case in CASES if not options.only or case.name.split()[0] in options.only.upper().split(",")]
            for case in cases:
                if not self.is_there(kelvin, case):
                    missing.add(case.name)
            for number in range(options.runs):
                for case in cases:
                    for pipeline in PIPELINES if case.name not in missing else ():
                        report.progress("commands: run %d of %d, %s P=%d" % (number + 1, options.runs, case.name, pipeline))
                        for server in pair[::-1] if number % 2 else pair:
                            found = self.run(server, case, pipeline)
                            runs.setdefault((case.name, pipeline), {}).setdefault(server.name, []).append(found)
            versions = self.bench.info(redis)["redis_version"]
        report.data["parts"]["commands"] = {
            "requests": options.command_requests, "keys": options.command_keys, "clients": options.clients, "redis": versions,
            "runs": [{"command": name, "pipeline": pipeline, **found} for (name, pipeline), found in runs.items()]}
        self.print_table(cases, runs, versions)

    def print_table(self, cases, runs, version):
        options, report = self.options, self.report
        report.note("## Commands\n")
        report.note("redis-benchmark, %d connections, %s keys or members, values of 3 bytes; compared with redis-server %s; medians of %d runs. "
                    "*ops* is Kelvin's throughput, *x redis* its ratio to that of redis-server (higher is better); *CPU* is "
                    "the server's CPU time per request in us, *CPU / redis* its ratio to that of redis-server (lower is better).\n" % (
                        options.clients, count(options.command_keys), version, options.runs))
        rows, behind = [], []
        for case in cases:
            row = [case.name]
            for pipeline in PIPELINES:
                found = runs.get((case.name, pipeline))
                if not found:
                    row += ["-"] * 4
                    continue
                middle = medians(found["kelvin"])
                share = ratio_median(found["kelvin"], found["redis"], "cpu_us")
                row += [count(middle["ops"]), "%.2f" % ratio_median(found["kelvin"], found["redis"], "ops"), "%.2f" % middle["cpu_us"],
                        "%.2f" % share]
                if share > 1:
                    behind.append("%s P=%d (%.2f)" % (case.name, pipeline, share))
            rows.append(row)
        report.table(["command"] + ["%s P=%d" % (what, pipeline) for pipeline in PIPELINES
                                    for what in ("ops/s", "x redis", "CPU us", "CPU / redis")], rows)
        if behind:
            report.note("More CPU per request than redis-server: %s.\n" % ", ".join(behind))


def measure(bench):
    Commands(bench).measure()
