"""No client sees a part of a transaction or script: clients on several workers, while keys are demoted at random."""
import os
import select
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.pairs import NAMES, Changer, Client, Looker, prepare, totals                           # noqa: E402
from support.resp import Error, NULL_ARRAY, encode                                                       # noqa: E402
from support.server import Server, is_redis, is_sanitized, scaled, seed_new, until                         # noqa: E402
from support.units import Demoter                                                                   # noqa: E402

SECONDS = 3.0


class Runs(Client):
    """A client that calls a function again and again, with itself and its connection, until that returns what is wrong."""

    def __init__(self, server, seed, function, *words):
        super().__init__(server, seed)
        self.function, self.words, self.successes = function, words, 0

    def once(self, client):
        self.wrong = self.function(self, client, *self.words)


class AtomicityTest(unittest.TestCase):
    def server(self, **options):
        options = {name.replace("_", "-"): value for name, value in options.items()}
        server = Server(dict({"io-threads": "4"}, **options))
        self.addCleanup(server.discard)
        with server.client() as client:
            for name in ("MULTI", "EVAL", "FCALL"):
                if not isinstance(client.call("COMMAND", "INFO", name)[0], list):
                    self.skipTest("the server under test has no %s yet" % name)
        return server

    def together(self, server, clients, seconds=SECONDS, names=None):
        """Runs the clients at the same time; keys are demoted meanwhile."""
        seed = seed_new()
        demoter = Demoter(server, seed, names=names) if not is_redis() else None
        for client in clients + ([demoter] if demoter else []):
            client.start()
        deadline = time.monotonic() + seconds * (2 if is_sanitized() else 1)
        while time.monotonic() < deadline and not any(client.wrong for client in clients):
            time.sleep(0.02)
        for client in clients:
            client.stop()
        if demoter:
            demoter.stop()
            self.assertIsNone(demoter.wrong)
            self.assertGreater(demoter.demoted, 0, "no key was demoted")
        for client in clients:
            self.assertIsNone(client.wrong)
            self.assertGreater(client.done, 0, "a client did nothing")

    def pairs(self, options, ways=None, seconds=SECONDS):
        seed = seed_new()
        server = self.server(**options)
        prepare(server)
        changers = [Changer(server, seed + number, ways) for number in range(8)]
        self.together(server, changers + [Looker(server, seed + 100 + number) for number in range(4)], seconds, NAMES)
        wanted = [sum(counts) for counts in zip(*[changer.acknowledged for changer in changers])]
        self.assertEqual(totals(server), wanted)
        print("  %d changes of pairs, %s (seed %d)" % (sum(wanted), ways or "all ways", seed), file=sys.stderr)
        server.stop()

    def test_pairs_changed_in_all_ways(self):
        self.pairs({})

    def test_pairs_changed_by_transactions(self):
        self.pairs({}, ("exec",))

    def test_pairs_changed_by_scripts_with_computed_keys(self):
        self.pairs({}, ("computed", "slow", "function"))

    def test_pairs_with_one_worker(self):
        self.pairs({"io_threads": "1"})

    def test_pairs_with_a_log(self):
        self.pairs({"appendonly": "yes"})

    def test_pairs_while_memory_is_tiny(self):
        self.pairs({"maxmemory": "24mb"})

    # WATCH

    @staticmethod
    def increment(self, client):
        """Optimistic locking: the value is the number of successes."""
        key = b"counter:%d" % self.random.randrange(3)
        client.must("WATCH", key)
        value = int(client.call("GET", key) or 0)
        reply = client.pipeline([[b"MULTI"], [b"SET", key, b"%d" % (value + 1)], [b"EXEC"]])[-1]
        if isinstance(reply, list):
            self.successes += 1
        elif reply is not NULL_ARRAY:
            return repr(reply)

    def test_counters_by_watch(self):
        server = self.server()
        names = ["counter:%d" % number for number in range(3)]
        clients = [Runs(server, seed_new() + number, self.increment) for number in range(8)]
        self.together(server, clients, names=names)
        with server.client() as client:
            self.assertEqual(sum(int(value or 0) for value in client.must("MGET", *names)), sum(each.successes for each in clients))
        server.stop()

    @staticmethod
    def follow(self, client, watched, written, step):
        """Watches one key and writes the other: EXEC has none of the watched key's partition."""
        client.must("WATCH", watched)
        value = int(client.call("GET", watched) or 0)
        reply = client.pipeline([[b"MULTI"], [b"SET", written, b"%d" % (value + step)], [b"EXEC"]])[-1]
        if isinstance(reply, Error):
            return repr(reply)
        self.successes += isinstance(reply, list)

    @staticmethod
    def compare(self, client):
        x, y = (int(value or 0) for value in client.call("MGET", "x", "y"))
        if y - x not in (0, 1):
            return "x is %d, y is %d" % (x, y)

    def test_a_watched_key_that_the_transaction_does_not_use(self):
        """y becomes x + 1 while x is watched, x becomes y while y is watched: y is x or x + 1 at any time."""
        server = self.server()
        seed = seed_new()
        clients = [Runs(server, seed + number, self.follow, *(("x", "y", 1) if number % 2 else ("y", "x", 0))) for number in range(8)]
        self.together(server, clients + [Runs(server, seed + 100 + number, self.compare) for number in range(2)], names=["x", "y"])
        self.assertGreater(sum(each.successes for each in clients), 0)
        server.stop()

    # Plain commands beside units

    @staticmethod
    def write(self, client):
        client.must("INCR", b"n:%d" % self.random.randrange(4))

    @staticmethod
    def read_twice(self, client):
        key = b"n:%d" % self.random.randrange(4)
        loop = "local first = redis.call('GET', %s); local x = 0; for i = 1, 30000 do x = x + i end; return {first, redis.call('GET', %s)}"
        way = self.random.randrange(3)
        if way == 0:
            found = client.call("EVAL", loop % ("KEYS[1]", "KEYS[1]"), 1, key)
        elif way == 1:
            found = client.call("EVAL", loop % ("ARGV[1]", "ARGV[1]"), 0, key)
        else:
            replies = client.pipeline([[b"MULTI"], [b"GET", key]] + [[b"GET", b"n:%d" % number] for number in range(4)] * 20 + [[b"GET", key], [b"EXEC"]])[-1]
            found = [replies[0], replies[-1]] if isinstance(replies, list) else replies
        if not isinstance(found, list) or found[0] != found[1]:
            return "way %d: %r" % (way, found)

    def test_plain_writes_do_not_show_inside(self):
        server = self.server()
        seed = seed_new()
        with server.client() as client:
            client.must("MSET", *sum((["n:%d" % number, 0] for number in range(4)), []))
        self.together(server, [Runs(server, seed + number, self.write) for number in range(4)] + [Runs(server, seed + 9 + number, self.read_twice) for number in range(4)],
                      names=["n:%d" % number for number in range(4)])
        server.stop()

    # Computed keys in any order

    ACCOUNTS = 40
    MOVE = ("local function name(n) return 'account:' .. (n * 7 %% 40) end; local from, to = name(ARGV[1]), name(ARGV[2]); local amount = tonumber(ARGV[3]); %s "
            "redis.call('DECRBY', from, amount); %s redis.call('INCRBY', to, amount); return 1")

    @staticmethod
    def move(self, client):
        first, second = self.random.randrange(40), self.random.randrange(40)
        work = "for i = 1, 3000 do amount = amount + 0 end;" if self.random.random() < 0.3 else ""
        script = AtomicityTest.MOVE % (self.random.choice(("", "if not redis.call('GET', to) then return 0 end;")), work)
        reply = client.call("EVAL", script, 0, first, second, self.random.randrange(100))
        if reply != 1:
            return repr(reply)

    @staticmethod
    def total(self, client):
        names = ["account:%d" % number for number in range(AtomicityTest.ACCOUNTS)]
        found = client.call("MGET", *names) if self.random.random() < 0.5 else \
            client.call("EVAL", "local t = {}; for i = 0, 39 do t[i + 1] = redis.call('GET', 'account:' .. i) end; return t", 0)
        if isinstance(found, Error) or sum(map(int, found)) != 1000 * AtomicityTest.ACCOUNTS:
            return "the sum is wrong: %r" % found

    def test_scripts_that_take_keys_in_any_order(self):
        """No error, no deadlock, and the sum stays the same."""
        server = self.server()
        names = ["account:%d" % number for number in range(self.ACCOUNTS)]
        with server.client() as client:
            client.must("MSET", *sum(([name, 1000] for name in names), []))
        seed = seed_new()
        self.together(server, [Runs(server, seed + number, self.move) for number in range(8)] + [Runs(server, seed + 20 + number, self.total) for number in range(2)], names=names)
        server.stop()

    # What may not be repeated

    def test_an_effect_before_a_wait_for_a_cold_key_happens_once(self):
        """SORT BY needs keys that are found out only by running it; what came before must not run again."""
        server = self.server()
        with server.client() as c, server.client() as other:
            c.must("RPUSH", "list", *range(50))
            weights = ["w_%d" % number for number in range(50)]
            for turn in range(scaled(20)):
                c.must("MSET", *sum(([name, 50 - index] for index, name in enumerate(weights)), []))
                if not is_redis():
                    other.must("TIER", "DEMOTE", "list", "effects", *weights)
                if turn % 2:
                    replies = c.pipeline([["MULTI"], ["INCR", "effects"], ["RPUSH", "log", turn], ["SORT", "list", "BY", "w_*", "STORE", "sorted"], ["LLEN", "log"], ["EXEC"]])[-1]
                    self.assertEqual(replies, [turn + 1, turn + 1, 50, turn + 1])
                else:
                    reply = c.call("EVAL", "local n = redis.call('INCR', 'effects'); redis.call('RPUSH', 'log', ARGV[1]); redis.call('SORT', 'list', 'BY', 'w_*', 'STORE', 'sorted'); "
                                   "return {n, redis.call('LLEN', 'log')}", 0, turn)
                    self.assertEqual(reply, [turn + 1, turn + 1])
            self.assertEqual(c.must("LRANGE", "log", 0, -1), [b"%d" % turn for turn in range(scaled(20))])
        server.stop()

    @kelvin_only
    def test_random_keys_do_not_repeat_a_script_for_ever(self):
        """Each attempt has the same random numbers, so it asks for the same cold keys."""
        server = self.server(maxmemory="32mb")
        with server.client(timeout=60) as c:
            count = scaled(20000)
            for start in range(0, count, 1000):
                c.pipeline([["SET", "k%d" % index, "%d:" % index + "x" * 1000] for index in range(start, start + 1000)])
            for start in range(0, count, 1000):
                c.must("TIER", "DEMOTE", *["k%d" % index for index in range(start, start + 1000)])
            for call in ("'GET', 'k' .. math.random(0, %d)" % (count - 1), "'GET', redis.call('RANDOMKEY')"):
                for _ in range(10):
                    started = time.monotonic()
                    reply = c.call("EVAL", "local t = {}; for i = 1, 20 do t[i] = redis.call(%s):match('^%%d+') end; return t" % call, 0)
                    self.assertIsInstance(reply, list)
                    self.assertLess(time.monotonic() - started, 10)
        server.stop()

    @kelvin_only
    def test_cold_keys_are_never_seen_as_absent(self):
        server = self.server()
        names = ["k%d" % number for number in range(200)]
        with server.client() as client:
            client.must("MSET", *sum(([name, name] for name in names), []))
        self.together(server, [Runs(server, seed_new(), self.all_there, names) for _ in range(6)], names=names)
        server.stop()

    @staticmethod
    def all_there(self, client, names):
        some = self.random.sample(names, 12)
        way = self.random.randrange(3)
        if way == 0:
            found = client.call("EVAL", "local t = {}; for i, k in ipairs(ARGV) do t[i] = redis.call('GET', k) end; return t", 0, *some)
        elif way == 1:
            found = client.call("EVAL", "local t = {}; for i, k in ipairs(KEYS) do t[i] = redis.call('GET', k) end; return t", len(some), *some)
        else:
            found = client.pipeline([["MULTI"]] + [["GET", name] for name in some] + [["EXEC"]])[-1]
        if found != [name.encode() for name in some]:
            return "way %d: %r" % (way, found)


class BusyTest(unittest.TestCase):
    """A slow script stops only the clients that need its keys."""

    @staticmethod
    def loop(server, seconds):
        """A loop that takes about this long."""
        with server.client() as client:
            started = time.monotonic()
            client.must("EVAL", "for i = 1, 1e7 do end", 0)
            return "for i = 1, %d do end; " % (1e7 * seconds / (time.monotonic() - started))

    def slow(self, server, script, *keys):
        """Starts a script on a connection of its own; returns a function that waits for its reply."""
        client = server.client(timeout=60)
        self.addCleanup(client.close)
        replies = []

        def run():
            try:
                replies.append(client.call("EVAL", script, len(keys), *keys))
            except OSError as error:        # the server was stopped
                replies.append(error)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(0.15)

        def end():
            thread.join(60)
            return replies[0] if replies else None
        end.has_ended = lambda: not thread.is_alive()
        return end

    @staticmethod
    def refused(client, *command):
        """Returns the error because of the script; None: the script has not begun yet, or the command was not refused."""
        reply = client.call(*command)
        return reply if isinstance(reply, Error) and not reply.startswith(b"NOTBUSY") else None

    def start(self, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()})
        self.addCleanup(server.discard)
        with server.client() as client:
            if not isinstance(client.call("COMMAND", "INFO", "EVAL")[0], list):
                self.skipTest("the server under test has no EVAL yet")
        return server

    def test_its_key_is_busy_after_the_threshold_and_script_kill_ends_it(self):
        for threads in ("1", "4"):
            with self.subTest(threads=threads):
                server = self.start(busy_reply_threshold="100", io_threads=threads)
                with server.client() as c:
                    c.must("SET", "k", "v")
                    end = self.slow(server, "while true do redis.call('GET', KEYS[1]) end", "k")
                    reply = until(lambda client=c: self.refused(client, "GET", "k"), what="the script runs")
                    self.assertTrue(reply.startswith(b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), reply)
                    self.assertTrue(bytes(c.call("FUNCTION", "KILL")).startswith(b"BUSY Redis is busy running a script."))
                    self.assertEqual(bytes(c.call("SCRIPT", "KILL")), b"OK")
                    self.assertIn(b"Script killed by user with SCRIPT KILL", end())
                    self.assertEqual(c.call("GET", "k"), b"v")
                    self.assertEqual(c.call("SCRIPT", "KILL"), Error(b"NOTBUSY No scripts in execution right now."))
                server.stop()

    def test_the_rest_of_a_transaction_runs_after_a_script_that_was_killed(self):
        server = self.start(busy_reply_threshold="50", io_threads="1")
        with server.client() as c, server.client(timeout=30) as other:
            other.send(b"".join(encode(words) for words in (["MULTI"], ["EVAL", "while true do end", 0], ["SET", "k", "v"], ["GET", "k"], ["EXEC"], ["PING"])))
            until(lambda: bytes(c.call("SCRIPT", "KILL")) == b"OK", 20, "killed")
            replies = [other.receive() for _ in range(6)]
            self.assertIn(b"Script killed by user with SCRIPT KILL", replies[4][0])
            self.assertEqual([bytes(reply) for reply in replies[4][1:]], [b"OK", b"v"])
            self.assertEqual(bytes(replies[5]), b"PONG")
        server.stop()

    def test_a_script_that_wrote_can_not_be_killed(self):
        server = self.start(busy_reply_threshold="100", io_threads="4")
        with server.client() as c:
            end = self.slow(server, "redis.call('SET', KEYS[1], 'v'); " + self.loop(server, 1.2) + "return 'done'", "k")
            reply = until(lambda: self.refused(c, "SCRIPT", "KILL"), what="the script runs")
            self.assertTrue(reply.startswith(b"UNKILLABLE Sorry the script already executed write commands against the dataset."), reply)
            self.assertEqual(end(), b"done")
            self.assertEqual(c.call("GET", "k"), b"v")
        server.stop()

    def test_a_script_that_catches_everything_is_killed(self):
        for body in ("while true do pcall(redis.call, 'GET', 'k') end", "while true do pcall(function() while true do end end) end", "while true do redis.pcall('GET', 'k') end",
                     "while true do xpcall(function() while true do end end, function(e) return e end) end", "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
                     "while true do table.sort({3, 2, 1}, function(a, b) pcall(error); return a < b end) end", "while true do ('aaa'):gsub('a', function() pcall(error) end) end",
                     "local t = setmetatable({}, {__index = function() pcall(error) end}); while true do local x = t.x end"):
            for threads in ("1", "4"):
                with self.subTest(body=body, threads=threads):
                    server = self.start(busy_reply_threshold="50", io_threads=threads)
                    with server.client() as c:
                        end = self.slow(server, body, "k")
                        deadline = time.monotonic() + 20
                        while bytes(c.call("SCRIPT", "KILL")) != b"OK" and time.monotonic() < deadline:
                            time.sleep(0.01)
                        self.assertIn(b"SCRIPT KILL", end())
                    server.stop()

    @kelvin_only
    def test_other_keys_are_served_meanwhile(self):
        for threads in ("1", "4"):
            with self.subTest(threads=threads):
                server = self.start(io_threads=threads, busy_reply_threshold="600000")      # the GET that has to wait gets no BUSY
                with server.client() as c:
                    c.pipeline([["SET", "o%d" % index, index] for index in range(1000)])
                    end = self.slow(server, self.loop(server, 3) + "return redis.call('GET', KEYS[1])", "k")
                    others = []
                    for index in range(20):             # new connections are accepted
                        others.append(server.client(timeout=60))
                        self.addCleanup(others[-1].close)
                        others[-1].send(b"*2\r\n$3\r\nGET\r\n$%d\r\no%d\r\n" % (len("o%d" % index), index))
                    # One key in 256 shares the partition of k and is served when the script ends.
                    served = select.select([other.socket for other in others], [], [], 30)[0]
                    is_running = not end.has_ended()
                    self.assertTrue(served)
                    self.assertTrue(is_running, "a GET of another key waited for the script")
                    for index, other in enumerate(others):
                        self.assertEqual(other.receive(), b"%d" % index)
                    self.assertIsNone(end())
                server.stop()

    def test_sigterm_during_a_script(self):
        """The server ends; a client that waits does not hold it."""
        server = self.start(io_threads="4")
        end = self.slow(server, self.loop(server, 1.5) + "return 1", "k")
        self.assertEqual(server.terminate(), 0)
        del end

    def test_shutdown_nosave_during_an_endless_script(self):
        for threads in ("1", "4"):
            with self.subTest(threads=threads):
                server = self.start(busy_reply_threshold="50", io_threads=threads)
                with server.client() as c:
                    self.slow(server, "redis.call('SET', KEYS[1], 'v'); while true do end", "k")
                    time.sleep(0.2)
                    try:
                        c.call("SHUTDOWN", "NOSAVE")
                    except OSError:
                        pass
                self.assertEqual(server.wait_end(20), 0)

    @kelvin_only
    def test_who_is_served_while_all_is_owned(self):
        """As in Redis: clients that meet the script get BUSY after the threshold."""
        server = self.start(busy_reply_threshold="100", io_threads="4")
        with server.client() as c:
            end = self.slow(server, "redis.call('FLUSHALL'); " + self.loop(server, 1.5) + "return 1")
            self.assertTrue(until(lambda: self.refused(c, "GET", "any"), what="the script runs").startswith(b"BUSY "))
            for allowed in (["MULTI"], ["DISCARD"], ["WATCH", "k"], ["UNWATCH"], ["RESET"], ["HELLO", "2"], ["FUNCTION", "STATS"]):
                reply = c.call(*allowed)
                self.assertFalse(isinstance(reply, Error) and reply.startswith(b"BUSY"), (allowed, reply))
            self.assertEqual(end(), 1)
        server.stop()


if __name__ == "__main__":
    main()
