"""The same random commands on two servers: equal replies, equal data. Only the first one has cold keys, restarts, rewrites. See README.md.

Their wall clocks stand still, and the test moves both by the same step: so keys and fields expire, entries of streams become idle, and the server
makes IDs, with the same result on both. With KELVIN_ORACLE=<a redis-server of the version whose behaviour Kelvin has> it is the second server.
"""
import os
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import compare                                                                             # noqa: E402
from support.clock import WallClock                                                                     # noqa: E402
from support.differential import minimise                                                               # noqa: E402
from support.generate import BLOCKING                                                                   # noqa: E402
from support.odd import SETUP, OddCommands, documented, later_words                                     # noqa: E402
from support.random_run import Run, state_of                                                            # noqa: E402
from support.replication.load import reads_history                                                      # noqa: E402
from support.replication.readings import contents, differences                                          # noqa: E402
from support.resp import encode, quote                                                                  # noqa: E402
from support.server import Server                                                                       # noqa: E402
from support.units import SCRIPT, in_order, same_in_script                                              # noqa: E402

DATABASES = 3
# Small limits, so that values change their encoding often.
ENCODINGS = {"hash-max-listpack-entries": 8, "hash-max-listpack-value": 20, "set-max-intset-entries": 8, "set-max-listpack-entries": 8,
             "zset-max-listpack-entries": 8, "zset-max-listpack-value": 20, "list-max-listpack-size": 4, "stream-node-max-entries": 5}
# They have no keys, but read or change all of them.
MORE = {(b"select",), (b"swapdb",), (b"scan",), (b"keys",), (b"flushdb",)}
# What depends on chance, on memory, on the code of one server; on which node of a stream ends where; and what waits for the clock.
NEVER = {b"spop", b"migrate", b"restore", b"restore-asking", b"dump", b"pfdebug", b"debug", b"memory", b"tier", b"digest", b"eval", b"eval_ro", b"evalsha",
         b"evalsha_ro", b"fcall", b"fcall_ro", b"watch", b"spublish", b"ssubscribe", b"sunsubscribe", b"randomkey", b"replconf"}
BLOCKED = {name.encode() for name in BLOCKING}
# How far the clock is moved, and how long keys and fields live: up to the very millisecond. Kelvin's keys have expired when it has come, those of Redis
# when it is over. So beside the oracle no sum of steps is the length of a life.
STEPS_MS, LIVES = (1, 1, 5, 19, 20, 21, 100, 700, 5000, 100000), (1, 5, 20, 20, 100, 700, 5000, 1000000)
ORACLE_STEPS_MS, ORACLE_LIVES = (70, 70, 140, 210, 700, 4970, 99960), (5, 35, 75, 105, 705, 5005, 1000005)
NOT_COMPARED = {b"expired", b"hexpired"}
INLINE_MAX = 60000
COMPARE_AFTER = 150
RESET_AFTER = 450


class Differs(Exception):
    pass


class TwinsTest(unittest.TestCase):
    def setUp(self):
        self.test = Run("twins")
        self.random = self.test.random
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.clock = WallClock(os.path.join(folder, "wall"))
        self.begun_ms = int(time.time()) * 1000
        self.clock.stop_at(self.begun_ms)
        self.oracle = os.environ.get("KELVIN_ORACLE")
        self.first = self.begin({"io-threads": 3, "maxmemory": "60mb", "appendonly": "yes"})
        self.second = self.begin({} if self.oracle else {"tier-enabled": "no"}, self.oracle)
        with self.second.client() as client:
            names = self.names_of(client)
            self.odd = OddCommands(client, self.test.seed, set(documented(client)) - names)
            with self.first.client() as ours:
                self.later = later_words(documented(ours), documented(client))
        self.known = {name[0] for name in names}
        self.steps, self.lives = (ORACLE_STEPS_MS, ORACLE_LIVES) if self.oracle else (STEPS_MS, LIVES)
        self.protocol = self.random.choice((2, 3))
        self.count, self.units = 0, []
        self.connect()

    def begin(self, options, binary=None):
        server = Server(dict(ENCODINGS, **{"databases": DATABASES, "notify-keyspace-events": "KEAn"}, **options), binary=binary,
                        environment=self.clock.environment)
        self.addCleanup(server.discard)
        return server

    def names_of(self, client):
        """The commands with keys."""
        names = sorted(documented(client))
        infos = client.must("COMMAND", "INFO", *[b"|".join(name) for name in names])
        return {name for name, info in zip(names, infos)
                if name in MORE or isinstance(info, list) and name[0] not in NEVER and (info[3] or b"movablekeys" in map(bytes, info[2]))}

    def disconnect(self):
        for name in ("a", "b", "demoter", "other_a", "other_b", "watcher_a", "watcher_b"):
            if getattr(self, name, None):
                getattr(self, name).close()

    def connect(self):
        self.disconnect()
        self.a, self.b = self.first.client(protocol=self.protocol), self.second.client(protocol=self.protocol)
        self.other_a, self.other_b, self.demoter = self.first.client(), self.second.client(), self.first.client()
        self.watcher_a, self.watcher_b = self.first.client(), self.second.client()
        for watcher in (self.watcher_a, self.watcher_b):
            watcher.call("PSUBSCRIBE", "*")

    def test_equal_replies_and_data(self):
        self.reset()
        while self.test.goes_on():
            unit = self.unit()
            self.units.append(unit)
            try:
                self.run_unit(unit)
                if len(self.units) % COMPARE_AFTER == 0:
                    self.same_data()
            except Differs as difference:
                self.explain(difference)
            if len(self.units) >= RESET_AFTER:
                self.reset()
        self.test.report("%d commands" % self.count)
        self.disconnect()
        for server in (self.first, self.second):
            server.stop()

    def reset(self):
        self.units = []
        self.refill()

    def refill(self):
        self.connect()
        for client in (self.a, self.b):
            client.pipeline([[b"FLUSHALL"], [b"SELECT", b"0"], [b"MULTI"]] + [line.split() for line in SETUP] + [[b"EXEC"]])

    def differs(self, units):
        self.refill()
        try:
            for unit in units:
                self.run_unit(unit)
            self.same_data()
        except Differs as difference:
            self.last = difference
            return True
        return False

    def explain(self, difference):
        """Within a turn of its loop the server's time goes on with the monotonic clock, a millisecond later if the machine is busy. So a difference
        counts if it comes twice again."""
        def fails(units):
            return self.differs(units) and self.differs(units)

        if not fails(self.units):
            self.test.report("not again: %.300s" % difference)
            return self.reset()
        units = minimise(fails, self.units, 60)
        self.differs(units)
        return self.fail("KELVIN_SEED=%d, %d commands, RESP%d: %s\n%s" % (
            self.test.seed, self.count, self.protocol, self.last, "\n".join(map(shown, units))))

    # Units: tuples of the name of a method, and its arguments

    def unit(self):
        kind = self.random.choices(("clock", "demote", "plain", "multi", "script", "watch", "carry", "rewrite", "restart"),
                                   (120, 150, 500, 60, 60, 40, 20, 3, 1.5))[0]
        if kind == "clock":
            return kind, self.random.choice(self.steps)
        if kind == "plain":
            return kind, [self.command() for _ in range(self.random.choice((1, 1, 1, 2, 5)))], self.random.choice(("whole", "whole", "inline", "pieces"))
        if kind == "multi":
            return kind, [self.command(True) for _ in range(self.random.randrange(1, 6))]
        if kind == "script":
            return kind, self.random.choice((b"2", b"3")), self.random.random() < 0.5, self.called()
        if kind == "watch":
            return kind, self.odd.changes.generator.key() or b"k", self.random.choice((0, *self.steps[:6])), self.command(), [self.command(True)]
        if kind == "carry":
            generator = self.odd.changes.generator
            return kind, generator.key(), generator.key(), b"%d" % self.random.choice((0, 0) + self.lives), self.random.random() < 0.5
        return kind,

    def called(self):
        """By a script, whose tables have no order."""
        commands = [self.command(True) for _ in range(self.random.randrange(1, 5))]
        return [args for args in commands if args[0].lower() != b"xinfo"] or [[b"PING"]]

    def command(self, waits=False):
        """One that both servers know, and whose result is defined. Only where it can't wait, one that waits."""
        while True:
            kind = self.random.random()
            args = self.odd.next() if kind < 0.6 else self.timed() if kind < 0.8 else list(self.odd.changes.single())
            if self.is_fair(args, waits):
                return args

    def timed(self):
        """Times to live that the clock reaches, also those of fields, and idle times of entries."""
        generator = self.odd.changes.generator
        ms, at = b"%d" % self.random.choice(self.lives), b"%d" % (self.begun_ms + self.clock.ahead_ms + self.random.choice(self.lives))
        key = b"%s%d" % (self.random.choice((b"s", b"n", b"h", b"l", b"t", b"z", b"x", b"g", b"p")), self.random.randrange(6))
        when = self.random.choice(([], [], [b"NX"], [b"XX"], [b"GT"], [b"LT"]))
        hashed, fields = b"h%d" % self.random.randrange(6), [generator.field() for _ in range(self.random.randrange(1, 4))]
        named = [b"FIELDS", b"%d" % len(fields)] + fields
        valued = [b"FIELDS", b"%d" % len(fields)] + [word for field in fields for word in (field, generator.value())]
        stream, group, consumer = b"x%d" % self.random.randrange(6), b"g%d" % self.random.randrange(2), b"c%d" % self.random.randrange(4)
        commands = [
            [b"PEXPIRE", key, ms] + when, [b"PEXPIREAT", key, at] + when, [b"SET", key, b"short", b"PX", ms], [b"SET", key, b"short", b"PXAT", at],
            [b"GETEX", key, b"PX", ms], [b"PSETEX", key, ms, b"v"], [b"PTTL", key], [b"SET", key, b"v", b"KEEPTTL", b"GET"], [b"COPY", key, b"s1"],
            [b"RENAME", key, key[:1] + b"2"], [b"EXISTS", key], [b"TYPE", key], [b"PERSIST", key],
            [b"XADD", stream, b"*", b"f", b"v"], [b"XADD", stream, b"MAXLEN", b"9", b"*", b"f", b"v"], [b"XGROUP", b"CREATE", stream, group, b"0", b"MKSTREAM"],
            [b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", b"3", b"STREAMS", stream, b">"],
            [b"XAUTOCLAIM", stream, group, consumer, ms, b"0", b"COUNT", b"2"], [b"XPENDING", stream, group, b"IDLE", ms, b"-", b"+", b"9"],
            [b"XPENDING", stream, group, b"-", b"+", b"9"], [b"XINFO", b"CONSUMERS", stream, group], [b"XINFO", b"STREAM", stream, b"FULL"]]
        commands += [
            [b"HPEXPIRE", hashed, ms] + when + named, [b"HPEXPIREAT", hashed, at] + when + named, [b"HSETEX", hashed, b"PX", ms] + valued,
            [b"HSETEX", hashed, self.random.choice((b"FNX", b"FXX")), b"KEEPTTL"] + valued, [b"HGETEX", hashed, b"PX", ms] + named,
            [b"HPTTL", hashed] + named, [b"HPERSIST", hashed] + named, [b"HGETDEL", hashed] + named, [b"HLEN", hashed], [b"HGETALL", hashed],
            [b"HINCRBY", hashed, fields[0], b"1"], [b"HSET", hashed, fields[0], b"1"],
            [b"MSETEX", b"2", b"s1", b"a", key, b"b", b"PX", ms], [b"SET", key, b"new", b"IFEQ", b"short"], [b"DELEX", key, b"IFEQ", b"a"],
            [b"XREADGROUP", b"GROUP", group, consumer, b"CLAIM", ms, b"COUNT", b"3", b"STREAMS", stream, b">"],
            [b"XADD", stream, b"ACKED", b"MAXLEN", b"5", b"*", b"f", b"v"], [b"XTRIM", stream, b"MAXLEN", b"2", b"DELREF"]] * (not self.oracle)
        return self.random.choice(commands)

    def is_fair(self, args, waits):
        name, words = args[0].lower(), [word.upper() for word in args]
        if name not in self.known or self.later.get(name, set()) & set(words[1:]):
            return False
        # What it counts is lost in a restart.
        if name == b"xreadgroup" and reads_history(args):
            return False
        if b"BLOCK" in words or not waits and name in BLOCKED:
            return False
        if name == b"flushdb" and self.random.random() < 0.9:
            return False
        # Of the index of LSET Redis takes the lower 32 bits.
        if name == b"lset" and any(len(word) > 9 for word in args[2:3]):
            return False
        # Which of several members or elements it is depends on order in a table; FREQ on the policy.
        if b"ANY" in words or name == b"object" and (b"ENCODING" not in words or ("restart",) in self.units) or name == b"keys" and waits:
            return False
        # Beside Redis, SORT leaves a small sorted set a listpack.
        if name in (b"sort", b"sort_ro") and (self.oracle or b"BY" in words or b"STORE" in words):
            return False
        # Ranges by member are defined where all scores are equal.
        return (b"LEX" not in words[0] and b"BYLEX" not in words) or all(word.startswith(b"lex") for word in args[1:2 + (name == b"zrangestore")])

    def run_unit(self, unit):
        try:
            getattr(self, "do_" + unit[0])(*unit[1:])
            self.same_events()
        except (OSError, ValueError) as error:
            self.fail("KELVIN_SEED=%d, %d commands: %r after\n%s\n%s" % (
                self.test.seed, self.count, error, "\n".join(map(shown, self.units[-20:])), state_of(self.first)))

    def do_clock(self, ms):
        self.clock.jump(ms)

    def do_demote(self):
        replies = self.demoter.pipeline([word for each in range(DATABASES) for word in ([b"SELECT", b"%d" % each], [b"KEYS", b"*"])])
        for database, keys in enumerate(replies[1::2]):
            if keys:
                self.demoter.pipeline([[b"SELECT", b"%d" % database], [b"TIER", b"DEMOTE"] + keys])

    def do_plain(self, commands, form):
        self.count += len(commands)
        theirs = self.b.pipeline(commands)
        if form == "whole":
            ours = self.a.pipeline(commands)
        else:
            data = b"".join(map(encode, commands)) if form == "pieces" else b"".join(quote(args).encode("latin1") + b"\r\n" for args in commands)
            if max(len(line) for line in data.split(b"\n")) > INLINE_MAX:
                data = b"".join(map(encode, commands))
            step = 1 + len(data) // 7 if form == "pieces" else len(data)
            for at in range(0, len(data), step):
                self.a.send(data[at:at + step])
            ours = [self.a.receive() for _ in commands]
        for args, mine, other in zip(commands, ours, theirs):
            self.same(args, mine, other)

    def do_multi(self, commands):
        """The keys become cold between the queue and EXEC."""
        self.both([[b"MULTI"]] + commands)
        self.do_demote()
        self.same_exec(commands, self.a.call(b"EXEC"), self.b.call(b"EXEC"))

    def do_watch(self, key, ms, command, commands):
        """Another client, and the clock, between WATCH and EXEC."""
        self.both([[b"WATCH", key]])
        self.both([command], self.other_a, self.other_b)
        self.both([[b"SELECT", b"0"]], self.other_a, self.other_b)
        self.clock.jump(ms)
        self.both([[b"MULTI"]] + commands)
        self.same_exec(commands, self.a.call(b"EXEC"), self.b.call(b"EXEC"))

    def do_script(self, resp, declared, commands):
        words = [resp]
        for args in commands:
            words += [b"%d" % len(args)] + args
        keys = sorted({args[1] for args in commands if len(args) > 1}) if declared else []
        args = [b"EVAL", SCRIPT.encode(), b"%d" % len(keys)] + keys + words
        self.count += len(commands)
        ours, theirs = self.a.call(*args), self.b.call(*args)
        if type(ours) is not list or type(theirs) is not list or len(ours) != len(theirs):
            return self.same(args, ours, theirs)
        for args, mine, other in zip(commands, ours, theirs):
            if len(mine) != len(other) or mine and not same_in_script(in_order(mine[0]), in_order(other[0]), args):
                raise Differs("in a script: %s: %.300r, the other: %.300r" % (quote(args)[:300], mine, other))
        return None

    def do_carry(self, source, target, ttl, crossed):
        """A DUMP of one server is restored on both; or each one's own."""
        payloads = [client.call(b"DUMP", source) for client in (self.a, self.b)]
        if not all(type(payload) is bytes for payload in payloads):
            return self.same([b"DUMP", source], *payloads)
        if crossed:
            payloads[1] = payloads[0]
        ours, theirs = (client.call(b"RESTORE", target, ttl, payload, b"REPLACE") for client, payload in zip((self.a, self.b), payloads))
        return self.same([b"RESTORE", target, ttl], ours, theirs)

    def do_rewrite(self):
        self.demoter.call(b"BGREWRITEAOF")

    def do_restart(self):
        """Killed or ended: nothing is lost that had a reply."""
        database = self.a.must("CLIENT", "INFO").split(b" db=")[1].split()[0]
        self.first.restart(kill=self.clock.ahead_ms % 2 == 0)
        self.connect()
        self.both([[b"SELECT", database]])
        self.same_data()

    # Comparing

    def both(self, commands, a=None, b=None):
        self.count += len(commands)
        for args, ours, theirs in zip(commands, (a or self.a).pipeline(commands), (b or self.b).pipeline(commands)):
            self.same(args, ours, theirs)

    def same(self, args, ours, theirs):
        if not compare.same(ours, theirs, args):
            raise Differs("%s: %.300r, the other: %.300r" % (quote(args)[:500], ours, theirs))

    def same_events(self):
        """Keyspace events since the last time. When a key or its last field expires is left to the server. (Redis sends `del` for an expired key that
        a STORE without a result would replace.)"""
        ours, theirs = ([(name, key) for name, key in self.events(*both) if name.split(b":")[1] not in NOT_COMPARED and not (
            name.endswith(b":del") and (self.oracle or key.startswith(b"h")))]
                        for both in ((self.other_a, self.watcher_a), (self.other_b, self.watcher_b)))
        if ours != theirs:
            at = [one == other for one, other in zip(ours, theirs)].index(False) if ours[:len(theirs)] != theirs[:len(ours)] else len(ours)
            raise Differs("events: %.300r, the other: %.300r" % (ours[at:], theirs[at:]))

    @staticmethod
    def events(client, watcher):
        found = []
        client.must("PUBLISH", "done", "")
        while True:
            _, _, channel, message = watcher.receive()
            if channel == b"done":
                return found
            if channel.startswith(b"__keyevent"):
                found.append((channel, message))

    def same_exec(self, commands, ours, theirs):
        if type(ours) is not type(theirs) or not isinstance(ours, list):
            return self.same([b"EXEC"], ours, theirs)
        for args, mine, other in zip(commands, ours, theirs):
            self.same(args, mine, other)
        return None

    def same_data(self):
        found = [contents(server, with_field_times=not self.oracle) for server in (self.first, self.second)]
        lines = differences(*found)
        if lines:
            raise Differs("the data differs: " + "\n".join(lines))
        if ("restart",) not in self.units:          # 3.0, which INCRBYFLOAT made 3, is an integer afterwards
            for database in range(DATABASES):
                keys = [key for at, key in found[0] if at == database]
                self.both([[b"SELECT", b"%d" % database]] + [[b"OBJECT", b"ENCODING", key] for key in keys], self.other_a, self.other_b)
            self.both([[b"SELECT", b"0"]], self.other_a, self.other_b)


def shown(unit):
    return "  %s %s" % (unit[0], " ".join(" ; ".join(map(quote, each)) if isinstance(each, list) and each and isinstance(each[0], list) else repr(each) for each in unit[1:]))[:300]


if __name__ == "__main__":
    unittest.main()
