"""Clients that come and go: they end in the middle of loads, scripts, transactions and waits, beside cold keys. See README.md.

Afterwards no client is left over, none waits, and of the increments by WATCH and EXEC, which go on all the time, none is lost or made twice.
"""
import os
import random
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.random_run import Run, state_of                                                            # noqa: E402
from support.resp import Error, encode                                                   # noqa: E402
from support.server import Server, scaled, until                                                        # noqa: E402

LISTS, QUEUES, COUNTERS, USERS = 60, 5, 8, 3
VISITS_AHEAD = 300      # more visits than this wait for a reply to the demoter: a slow server would still have thousands of clients that are gone
VALUE = b"v" * 1000
NONE_LEFT = ("blocked_clients", "tracking_clients", "clients_in_timeout_table", "tier_loads_waiting")
LIBRARY = b"""#!lua name=l
local kept
redis.register_function{function_name='loop', flags={'no-writes'}, callback=function(keys, args)
  kept = kept or coroutine.wrap(function() local i = 0 while true do i = i + 1 coroutine.yield(i) end end)
  local x = 0
  for i = 1, tonumber(args[1]) do x = x + i end
  return {%d, redis.call('GET', keys[1]), pcall(kept)}
end}
redis.register_function('store', function(keys, args) return redis.call('SET', keys[1], cjson.encode(args)) end)"""
READING = b"local n = 0 for i = 1, ARGV[1] do local v = redis.call('GET', 'key:' .. (ARGV[2] + i * 37)) n = n + #(v or '') end return n"
WRITING = b"for i = 1, #KEYS do redis.call('GET', KEYS[i]) redis.call('INCR', 'count:' .. i) end return redis.call('SET', KEYS[1], ARGV[1])"
BUSY = b"local x = 0 for i = 1, ARGV[1] do x = x + i end return x"
HEAPED = b"local t = {} for i = 1, ARGV[1] do t[i] = ('y'):rep(500) .. i end return #table.concat(t)"


class Visits:
    """What one visitor after the other sends. The first ID of a client that may be killed is `killable`."""

    def __init__(self, seed, keys, killable):
        self.random = random.Random(seed)
        self.keys, self.killable = keys, killable

    def key(self):
        return b"key:%d" % self.random.randrange(self.keys)

    def many(self, most):
        return [self.key() for _ in range(self.random.randrange(1, most))]

    def list(self):
        return b"list:%d" % self.random.randrange(LISTS)

    def queue(self):
        return b"queue:%d" % self.random.randrange(QUEUES)

    def user(self):
        return b"user%d" % self.random.randrange(USERS)

    def number(self, *choices):
        return b"%d" % self.random.choice(choices)

    def opening(self):
        found = [[b"HELLO", b"3"]] if self.random.random() < 0.3 else []
        if self.random.random() < 0.25:
            found.append([b"CLIENT", b"TRACKING", b"ON"] + self.random.choice(([], [b"BCAST"], [b"OPTIN"], [b"NOLOOP"], [b"BCAST", b"PREFIX", b"key:1"])))
        return found

    def commands(self):
        kinds = (self.reads, self.changes, self.waits, self.scripts, self.transaction, self.sorts, self.management, self.fields)
        return self.random.choices(kinds, (30, 15, 15, 15, 10, 7, 8, 8))[0]()

    def reads(self):
        return [self.random.choice(([b"GET", self.key()], [b"MGET"] + self.many(60), [b"SCAN", self.number(0, 77, 1 << 30), b"COUNT", b"200"], [b"DBSIZE"],
                                    [b"RANDOMKEY"], [b"LRANGE", self.list(), b"0", b"-1"], [b"DUMP", self.key()]))]

    def changes(self):
        return [self.random.choice((
            [b"SET", self.key(), VALUE], [b"PEXPIRE", self.key(), self.number(1, 30, 3000)], [b"RENAME", self.key(), self.key()],
            [b"COPY", self.key(), self.key(), b"REPLACE"], [b"UNLINK"] + self.many(5), [b"PUBLISH", b"channel", b"x" * self.random.randrange(100000)],
            [b"SUBSCRIBE", b"channel"], [b"PSUBSCRIBE", b"__key*"], [b"TIER", b"DEMOTE"] + self.many(40), [b"MSET", self.key(), VALUE, self.key(), VALUE]))]

    def waits(self):
        return [self.random.choice((
            [b"BLPOP", self.queue(), self.queue(), self.random.choice((b"0", b"0.05"))], [b"RPUSH", self.queue(), b"a", b"b"],
            [b"BLMOVE", self.queue(), self.queue(), b"LEFT", b"RIGHT", self.random.choice((b"0", b"0.02"))],
            [b"BZMPOP", b"0", b"1", b"zqueue", b"MIN"], [b"ZADD", b"zqueue", b"1", b"m"], [b"WAIT", b"1", b"20"],
            [b"XREAD", b"BLOCK", b"50", b"STREAMS", b"stream", b"$"], [b"XADD", b"stream", b"MAXLEN", b"50", b"*", b"f", VALUE],
            [b"XREADGROUP", b"GROUP", b"g", self.user(), b"BLOCK", b"0", b"STREAMS", b"stream", b">"], [b"XGROUP", b"DESTROY", b"stream", b"g"],
            [b"XGROUP", b"CREATE", b"stream", b"g", b"0", b"MKSTREAM"], [b"XAUTOCLAIM", b"stream", b"g", self.user(), b"0", b"0"],
            [b"RENAME", self.queue(), self.queue()], [b"DEL", self.queue(), b"stream"], [b"WAITAOF", b"1", b"0", b"20"],
            [b"CLIENT", b"UNBLOCK", self.other(), self.random.choice((b"TIMEOUT", b"ERROR"))]))]

    def other(self):
        """The ID of a client that may be there; not one of those that count."""
        return b"%d" % (self.killable + self.random.randrange(3000))

    def scripts(self):
        return [self.random.choice((
            [b"EVAL_RO", READING, b"0", self.number(1, 10, 30), self.number(0, 100, self.keys // 2)],
            [b"EVAL", WRITING, b"3", self.key(), self.key(), self.key(), VALUE], [b"EVAL_RO", BUSY, b"0", self.number(5, 50000, 3000000)],
            [b"EVAL", HEAPED, b"0", self.number(10, 3000)], [b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY % self.random.randrange(99)],
            [b"FCALL_RO", b"loop", b"1", self.key(), self.number(10, 1000, 300000)], [b"FCALL", b"store", b"1", self.key(), b"x" * 500],
            [b"SCRIPT", b"FLUSH"], [b"SCRIPT", b"KILL"], [b"FUNCTION", b"KILL"], [b"FUNCTION", b"DUMP"], [b"FUNCTION", b"STATS"],
            [b"EVAL_RO", b"return %d" % self.random.randrange(2000), b"0"]))]

    def transaction(self):
        inner = self.random.choice(([[b"GET", self.key()], [b"SET", self.key(), VALUE], [b"SORT", self.list(), b"BY", b"key:*", b"GET", b"key:*", b"LIMIT", b"0", b"3"]],
                                    [[b"SELECT", b"1"], [b"CLIENT", b"LIST"], [b"DBSIZE"], [b"SELECT", b"0"]], [[b"EVAL", WRITING, b"1", self.key(), VALUE]]))
        whole = [[b"WATCH", self.key()], [b"MULTI"]] + inner + [[b"EXEC"]]
        return whole[:self.random.randrange(1, 2 * len(whole))]

    def sorts(self):
        return [[b"SORT", self.list(), b"BY", b"key:*", b"GET", b"key:*"] + self.random.choice(([], [b"LIMIT", b"0", b"9"], [b"STORE", b"sorted"]))]

    def management(self):
        return [self.random.choice((
            [b"CLIENT", b"LIST"], [b"CLIENT", b"KILL", b"ID", self.other()],
            [b"CLIENT", b"PAUSE", self.number(1, 10, 30), self.random.choice((b"WRITE", b"ALL"))], [b"SWAPDB", b"1", b"2"],
            [b"ACL", b"SETUSER", self.user(), b"on", b"nopass", self.random.choice((b"~key:*", b"~*")), b"&*", b"+@all"],
            [b"ACL", b"DELUSER", self.user()], [b"AUTH", self.user(), b"x"], [b"RESET"], [b"MONITOR"], [b"BGREWRITEAOF"], [b"BGSAVE"],
            [b"CLIENT", b"REPLY", self.random.choice((b"OFF", b"ON", b"SKIP"))], [b"CLIENT", b"NO-EVICT", self.random.choice((b"ON", b"OFF"))],
            [b"CLIENT", b"TRACKING", b"ON", b"REDIRECT", self.other()], [b"CLIENT", b"CACHING", b"YES"], [b"INFO", b"everything"],
            [b"CONFIG", b"SET", b"maxmemory", self.random.choice((b"40mb", b"48mb", b"64mb"))], [b"DEBUG", b"SLEEP", b"0.002"],
            [b"CONFIG", b"SET", b"appendonly", self.random.choice((b"yes", b"no"))], [b"TIER", b"HEAT"], [b"TIER", b"STATS"],
            [b"PSYNC", b"?", b"-1"], [b"SYNC"], [b"MEMORY", b"STATS"], [b"HOTKEYS", b"START", b"METRICS", b"1", b"CPU"], [b"HOTKEYS", b"STOP"]))]

    def fields(self):
        """Hashes whose fields have times."""
        key, field = b"hash:%d" % self.random.randrange(9), b"f%d" % self.random.randrange(300)
        return [self.random.choice((
            [b"HSET", key, field, VALUE], [b"HPEXPIRE", key, self.number(1, 10, 500), b"FIELDS", b"1", field], [b"HGETALL", key],
            [b"HSETEX", key, b"PX", self.number(1, 10, 500), b"FIELDS", b"1", field, b"v"], [b"HPTTL", key, b"FIELDS", b"1", field],
            [b"HGETEX", key, b"PERSIST", b"FIELDS", b"1", field], [b"TIER", b"DEMOTE", key], [b"PEXPIRE", key, b"700"], [b"COPY", key, b"hash:0"],
            [b"HSCAN", key, b"0", b"NOVALUES"], [b"DUMP", key]))]


class ClientsTest(unittest.TestCase):
    def test_coming_and_going(self):
        self.test = Run("clients")
        self.keys = scaled(3000 if self.test.is_short else 60000)
        self.server = Server({"io-threads": 3, "maxmemory": "48mb", "notify-keyspace-events": "KEA",
                              "appendonly": self.test.random.choice(("yes", "no"))})
        self.addCleanup(self.server.discard)
        self.wrong, self.visits, self.visits_seen, self.commands = [], 0, 0, 0
        self.made = [0] * COUNTERS
        self.fill()
        counters = [self.server.client(timeout=60) for _ in range(4)]
        demoter = self.server.client(timeout=60)
        killable = demoter.must("CLIENT", "ID") + 1
        self.test.restart()
        jobs = [(self.count_up, (client, number)) for number, client in enumerate(counters)] + [(self.demote, (demoter,))]
        jobs += [(self.visit, (number, killable)) for number in range(8 if self.test.is_short else 24)]
        threads = [threading.Thread(target=self.guarded, args=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.test.seconds + 120)
        if any(thread.is_alive() for thread in threads):
            self.fail("a thread still waits\n" + self.state())
        for client in counters + [demoter]:
            client.close()
        if self.wrong:
            self.fail("%s\n%s" % (self.wrong[:5], self.state()))
        self.check_left_over()
        self.check_counters()
        self.server.stop()
        self.test.report("%d visits, %d commands, %d increments" % (self.visits, self.commands, sum(self.made)))

    def fill(self):
        with self.server.client(timeout=60) as client:
            for at in range(0, self.keys, 500):
                client.pipeline([b"SET", b"key:%d" % number, VALUE] for number in range(at, min(self.keys, at + 500)))
            client.pipeline([b"RPUSH", b"list:%d" % number] + [b"%d" % self.test.random.randrange(self.keys) for _ in range(50)] for number in range(LISTS))
            client.pipeline([b"MSET", b"read:%d" % number, b"0", b"incr:%d" % number, b"0"] for number in range(COUNTERS))
            client.must("FUNCTION", "LOAD", LIBRARY % 0)

    def guarded(self, job, arguments):
        try:
            job(*arguments)
        except Exception as error:                  # of any kind: it must not be lost with the thread
            self.wrong.append("%s%r: %r" % (job.__name__, arguments[1:], error))

    def state(self):
        return "KELVIN_SEED=%d: %s" % (self.test.seed, state_of(self.server))

    def count_up(self, client, number):
        """One counter is read and set, another one incremented in the same transaction, beside a cold key."""
        mine = random.Random("%d/count/%d" % (self.test.seed, number))
        while self.test.goes_on():
            at = mine.randrange(COUNTERS)
            client.must("WATCH", b"read:%d" % at)
            before = int(client.must("GET", b"read:%d" % at))
            replies = client.pipeline([[b"MULTI"], [b"SET", b"read:%d" % at, b"%d" % (before + 1)], [b"GET", b"key:%d" % mine.randrange(self.keys)],
                                       [b"INCR", b"incr:%d" % at], [b"EXEC"]])
            if isinstance(replies[-1], list):
                inner = [reply for reply in replies[-1] if isinstance(reply, Error)]
                if inner:
                    raise AssertionError("EXEC replied %r" % inner)
                with LOCK:
                    self.made[at] += 1

    def demote(self, client):
        mine = random.Random("%d/demote" % self.test.seed)
        counters = [b"%s:%d" % (name, number) for name in (b"read", b"incr") for number in range(COUNTERS)]
        while self.test.goes_on():
            before = self.visits
            client.call("TIER", "DEMOTE", *counters, *[b"key:%d" % mine.randrange(self.keys) for _ in range(200)])
            self.visits_seen = before
            time.sleep(0.01)

    def visit(self, number, killable):
        visits = Visits("%d/visit/%d" % (self.test.seed, number), self.keys, killable)
        while self.test.goes_on() and self.server.alive():
            if self.visits - self.visits_seen > VISITS_AHEAD:
                time.sleep(0.005)
                continue
            commands = visits.opening()
            for _ in range(visits.random.randrange(1, 30)):
                commands += visits.commands()
            data = b"".join(map(encode, commands))
            if visits.random.random() < 0.2:        # it ends within a command
                data = data[:visits.random.randrange(len(data))]
            with LOCK:
                self.visits += 1
                self.commands += len(commands)
            try:
                self.send(visits.random, data)
            except OSError:
                time.sleep(0.005)                   # killed, or reset

    def send(self, mine, data):
        patience = mine.random() * 0.3 if mine.random() < 0.5 else 0
        with self.server.client(timeout=10) as client:
            client.socket.settimeout(1)
            client.send(data)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                client.socket.settimeout(max(0.001, deadline - time.monotonic()))
                if not client.socket.recv(1 << 16):
                    return
            if mine.random() < 0.3:                 # a reset in place of an end
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def check_left_over(self):
        with self.server.client(timeout=60) as client:
            def facts():
                text = client.must("INFO", "clients", "tiering").decode()
                return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

            def none_left():
                found = facts()
                return found["connected_clients"] == "1" and {found[name] for name in NONE_LEFT} == {"0"}
            try:
                until(none_left, 60, "no client is left")
            except AssertionError:
                self.fail("%s\n%r\n%s" % (self.state(), facts(), client.must("CLIENT", "LIST").decode()[:4000]))
            self.assertGreater(int(facts()["tier_cold_hits"]), 0, "no key was cold")

    def check_counters(self):
        with self.server.client(timeout=60) as client:
            found = [(int(client.must("GET", b"read:%d" % at)), int(client.must("GET", b"incr:%d" % at))) for at in range(COUNTERS)]
        self.assertEqual(found, [(made, made) for made in self.made], "KELVIN_SEED=%d" % self.test.seed)
        self.assertGreater(sum(self.made), 0)


LOCK = threading.Lock()

if __name__ == "__main__":
    unittest.main()
