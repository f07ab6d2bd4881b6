"""Writers for the tests of replication: random changes of all kinds, and numbered keys whose acknowledgements are recorded."""
import random
import threading
import time

from ..generate import Generator, BLOCKING, TEMPLATES
from ..resp import Client, Error, split
from ..units import BODY

LIBRARY = "#!lua name=load\nredis.register_function('load_run', function(keys, args) %s end)" % BODY
SCRIPT = "local args = ARGV; " + BODY
RARE = {b"FLUSHALL", b"FLUSHDB", b"SWAPDB"}
# The generator's own words for what the differential test has to prepare.
SPECIAL = {b"@pop": b"SPOP", b"@setid": b"XSETID"}
# What a script may not call, or what only costs time here.
NOT_CALLED = {b"TIME", b"LASTSAVE", b"KEYS", b"SCAN", b"RANDOMKEY", b"DUMP"}


def reads_history(args):
    """XREADGROUP of entries that were delivered before counts the delivery, also on a primary, and does not replicate that."""
    upper = [word.upper() for word in args]
    after = args[upper.index(b"STREAMS") + 1:] if b"STREAMS" in upper else []
    return any(word != b">" for word in after[len(after) // 2:])


class Changes:
    """Random changes: next() returns (commands, kind), where the commands are sent together. Besides the commands of generate.py: short
    times to live, IDs that the server makes, transactions, scripts, functions, PUBLISH."""

    def __init__(self, seed, databases=16, flushes=True):
        names = [name for name in TEMPLATES if name not in BLOCKING] + ["dump", "restore", "spop"]
        self.random = random.Random(seed)
        self.generator = Generator(self.random.random(), names, databases=databases)
        self.databases, self.flushes = databases, flushes

    def single(self):
        while True:
            args = list(self.generator.next())
            if args[0] == b"@roundtrip":
                return [b"COPY", args[1], args[2], b"REPLACE"]
            if args[0] == b"@sort":
                args = args[1:]
            args[0] = SPECIAL.get(args[0], args[0])
            name = args[0].upper()
            if name == b"XREADGROUP" and reads_history(args):
                continue
            if name not in NOT_CALLED and name not in RARE:
                return args

    def flushing(self):
        """Rare, and never all databases, as the other changes have nothing to work on afterwards."""
        one, other = (b"%d" % self.random.randrange(self.databases) for _ in range(2))
        return self.random.choices(([b"SWAPDB", one, other], [b"FLUSHDB"], [b"FLUSHDB", b"ASYNC"]), (60, 25, 15))[0]

    def expiring(self):
        family = self.random.choice((b"s", b"h", b"l", b"t", b"z", b"x"))
        key, ms = b"%s%d" % (family, self.random.randrange(6)), b"%d" % self.random.choice((1, 20, 100, 700, 100000))
        return self.random.choice(([b"PEXPIRE", key, ms], [b"SET", b"s%d" % self.random.randrange(6), b"short", b"PX", ms],
                                   [b"GETEX", key, b"PX", ms], [b"SET", b"e%d" % self.random.randrange(50), b"x" * 30, b"PX", ms]))

    def generated(self):
        key = b"y%d" % self.random.randrange(4)
        return self.random.choice((
            [b"XADD", key, b"MAXLEN", b"~", b"200", b"*", b"field", b"%d" % self.random.randrange(1000)],
            [b"XGROUP", b"CREATE", key, b"g", b"0", b"MKSTREAM"],
            [b"XREADGROUP", b"GROUP", b"g", b"c%d" % self.random.randrange(3), b"COUNT", b"5", b"STREAMS", key, b">"],
            [b"XAUTOCLAIM", key, b"g", b"c0", b"0", b"0", b"COUNT", b"3"]))

    def one(self):
        flushing = 0.4 if self.flushes else 0
        return self.random.choices((self.single, self.expiring, self.generated, self.flushing), (85, 10, 5, flushing))[0]()

    def many(self):
        found = []
        while len(found) < 1 + self.random.randrange(5):
            args = self.one()
            if args[0].upper() not in (b"SELECT",):
                found.append(args)
        return found

    def words(self, commands):
        words = [b"2"]
        for args in commands:
            words += [b"%d" % len(args)] + args
        return words

    def next(self):
        kind = self.random.choices(("plain", "exec", "script", "function", "publish", "select", "restore"), (70, 9, 6, 3, 3, 6, 3))[0]
        if kind == "exec":
            return [[b"MULTI"]] + self.many() + [[b"EXEC"]], kind
        if kind == "script":
            return [[b"EVAL", SCRIPT.encode(), b"0"] + self.words(self.many())], kind
        if kind == "function":
            return [[b"FCALL", b"load_run", b"0"] + self.words(self.many())], kind
        if kind == "publish":
            return [[b"PUBLISH", b"channel", b"%d" % self.random.randrange(1000)]], kind
        if kind == "select":
            return [[b"SELECT", b"%d" % self.random.randrange(self.databases)]], kind
        if kind == "restore":
            return [[b"DUMP", self.generator.key()]], kind
        return [self.one()], kind


class RandomWriter(threading.Thread):
    """Sends Changes until it is stopped; `acknowledged` counts replies, `refused` the errors among them. `wrong`: why it ended early."""

    def __init__(self, server, seed, pause_s=0.0, **changes):
        super().__init__(daemon=True)
        self.server, self.changes, self.pause_s = server, Changes(seed, **changes), pause_s
        self.random = random.Random("%s/keys" % seed)
        self.acknowledged = self.refused = 0
        self.halt, self.wrong = threading.Event(), None

    def run(self):
        try:
            with self.server.client(timeout=60) as client:
                while not self.halt.is_set():
                    self.once(client)
                    if self.pause_s:
                        time.sleep(self.pause_s)
        except OSError as error:
            self.wrong = "%s: %s" % (type(error).__name__, error)

    def once(self, client):
        commands, kind = self.changes.next()
        replies = client.pipeline(commands)
        if kind == "restore" and isinstance(replies[0], bytes) and not isinstance(replies[0], Error):
            ttl = b"%d" % self.random.choice((0, 0, 50, 100000))
            replies = client.pipeline([[b"RESTORE", b"r%d" % self.random.randrange(9), ttl, replies[0], b"REPLACE"]])
        self.acknowledged += len(replies)
        self.refused += sum(isinstance(reply, Error) for reply in replies)


class Load:
    """Several RandomWriters: `with Load(server, seed): ...`"""

    def __init__(self, server, seed, threads=3, **more):
        with server.client() as client:
            client.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        self.writers = [RandomWriter(server, "%s/%d" % (seed, number), **more) for number in range(threads)]

    def __enter__(self):
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def acknowledged(self):
        return sum(writer.acknowledged for writer in self.writers)

    def wait_for(self, count, timeout=60):
        """Until this many more commands were acknowledged."""
        wanted, deadline = self.acknowledged + count, time.monotonic() + timeout
        while self.acknowledged < wanted:
            self.check()
            if time.monotonic() > deadline:
                raise AssertionError("%d of %d commands in %d s" % (self.acknowledged, wanted, timeout))
            time.sleep(0.02)

    def check(self):
        for writer in self.writers:
            if writer.wrong:
                raise AssertionError("a writer: " + writer.wrong)

    def stop(self):
        for writer in self.writers:
            writer.halt.set()
        for writer in self.writers:
            writer.join(60)
            if writer.is_alive():
                raise AssertionError("a writer still waits for a reply")


def fill_all_types(server, databases=16, keys=8):
    """Keys of all types in each database, small and large ones, with and without times to live; a group with pending entries; a library."""
    with server.client(timeout=60) as client:
        client.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)
        for database in range(databases):
            client.must("SELECT", database)
            commands = [args for number in range(keys) for args in all_types(database, number)]
            for args, reply in zip(commands, client.pipeline(commands)):
                if isinstance(reply, Error):
                    raise AssertionError("%r: %r" % (args[:3], reply))


def all_types(database, number):
    tag = "%d:%d" % (database, number)
    size = (3, 40, 700)[number % 3]
    entries = [["XADD", "stream:" + tag, "%d-1" % (at + 1), "field", "%d" % at, "other", tag] for at in range(size)]
    return [["SET", "string:" + tag, tag * size], ["SET", "number:" + tag, number * 1000003], ["SET", "later:" + tag, "x", "PX", 10000000 + number],
            ["RPUSH", "list:" + tag] + ["e%d" % at for at in range(size)], ["RPUSH", "longlist:" + tag] + ["y" * 3000] * (size // 3),
            ["SADD", "set:" + tag] + ["m%d" % at for at in range(size)], ["SADD", "intset:" + tag] + list(range(-size, size)),
            ["HSET", "hash:" + tag] + [word for at in range(size) for word in ("f%d" % at, at)],
            ["ZADD", "zset:" + tag] + [word for at in range(size) for word in (at / 7, "m%d" % at)],
            ["PFADD", "hll:" + tag] + ["p%d" % at for at in range(size)], ["PEXPIRE", "hash:" + tag, 20000000 + number]] + entries + [
            ["XGROUP", "CREATE", "stream:" + tag, "group", "0"],
            ["XREADGROUP", "GROUP", "group", "one", "COUNT", size // 2 + 1, "STREAMS", "stream:" + tag, ">"],
            ["XACK", "stream:" + tag, "group", "1-1"], ["XDEL", "stream:" + tag, "2-1"]]


class NumberedWriter(threading.Thread):
    """Sets n:<number> = <number>, one after the other; `acknowledged` has the numbers with a good reply, `safe` those that WAIT said enough
    replicas have (`replicas` of them within `wait_ms`). `connect` returns a Client, and is called again after each failure."""

    def __init__(self, connect, replicas=0, wait_ms=500, pause_s=0.0, prefix="n"):
        super().__init__(daemon=True)
        self.connect, self.replicas, self.wait_ms, self.pause_s, self.prefix = connect, replicas, wait_ms, pause_s, prefix
        self.number, self.acknowledged, self.safe, self.errors = 0, [], [], []
        self.halt = threading.Event()

    def run(self):
        client = None
        while not self.halt.is_set():
            try:
                client = client or self.connect()
                self.once(client)
            except (OSError, AssertionError) as error:
                self.errors.append("%s: %s" % (type(error).__name__, error))
                if client:
                    client.close()
                client = None
                self.halt.wait(0.05)
            if self.pause_s:
                time.sleep(self.pause_s)
        if client:
            client.close()

    def once(self, client):
        self.number += 1
        key = "%s:%d" % (self.prefix, self.number)
        client.must("SET", key, self.number)
        self.acknowledged.append(self.number)
        if self.replicas and client.must("WAIT", self.replicas, self.wait_ms) >= self.replicas:
            self.safe.append(self.number)

    def stop(self):
        self.halt.set()
        self.join(60)

    def lost(self, server, numbers):
        """Which of these numbers the server does not have."""
        numbers = list(numbers)
        with server.client(timeout=60) as client:
            replies = client.pipeline([["GET", "%s:%d" % (self.prefix, number)] for number in numbers])
        return [number for number, reply in zip(numbers, replies) if reply != b"%d" % number]


def run_lines(server, lines):
    """Runs lines as in redis-cli on one connection; the replies."""
    with server.client(timeout=60) as client:
        return client.pipeline([split(line) for line in lines])


__all__ = ["Changes", "Client", "Load", "NumberedWriter", "RandomWriter", "fill_all_types", "run_lines"]
