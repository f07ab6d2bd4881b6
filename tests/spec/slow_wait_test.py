"""What operators see of calls that wait before they run: the slow log, LATENCY, INFO tiering. And CLIENT NO-TOUCH, with hot and cold keys."""
import os
import re
import select
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main        # noqa: E402
from support.disk import DELAY, Disk                                    # noqa: E402
from support.resp import Error, OK, encode                            # noqa: E402
from support.server import Server, is_redis, until                      # noqa: E402

DELAY_US = 200000
NOTE = re.compile(rb"\(waited (\d+) us: ([a-z]+-wait) (\d+)(?:, ([a-z]+-wait) (\d+))*\)")


class ColdWaitCase(unittest.TestCase):
    """A disk that needs 0.2 s for a read, and cold keys that no cache holds."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        cls.disk = Disk(folder)
        cls.server = Server({"appendonly": "yes", "tier-warmup": "no", "tier-block-cache": 0, "maxmemory": "100mb"}, folder=folder,
                            environment=cls.disk.environment)
        cls.addClassCleanup(cls.server.stop)
        with cls.server.client() as client:
            client.pipeline(["SET", "key:%d" % number, b"%01000d" % number] for number in range(2000))
            client.must("BGREWRITEAOF")
            until(lambda: cls.server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the end of BGREWRITEAOF")
        cls.server.restart()
        with cls.server.client() as client:
            cls.cold = [b"key:%d" % number for number in range(2000) if client.must("TIER", "WHERE", "key:%d" % number) == b"cold"][::20]

    def setUp(self):
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        self.c.must("SLOWLOG", "RESET")
        self.c.must("LATENCY", "RESET")
        self.c.must("CONFIG", "RESETSTAT")
        self.c.must("CONFIG", "SET", "slowlog-log-slower-than", 10000, "slowlog-log-waits-slower-than", 10000, "latency-monitor-threshold", 0)

    def slow_read(self, *command):
        """Runs it while reads take 0.2 s."""
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=DELAY_US)
        try:
            return self.c.must(*command)
        finally:
            self.disk.heal()

    def tiering(self, name):
        return int(self.server.info("tiering")[name])

    def note(self, entry):
        """Of a slow log entry: microseconds in all, and what for."""
        match = NOTE.fullmatch(entry[3][-1])
        self.assertIsNotNone(match, entry)
        return int(match.group(1)), match.group(2), int(match.group(3))


@unittest.skipIf(is_redis(), "redis-server has no cold keys")
class ColdWaitTest(ColdWaitCase):
    def test_the_slow_log_says_how_long_a_call_waited_for_a_cold_key(self):
        key = self.cold.pop()
        self.slow_read("GET", key)
        entry = self.c.must("SLOWLOG", "GET")[0]
        self.assertEqual(len(entry), 6)
        self.assertEqual(entry[3][:-1], [b"GET", key])
        self.assertLess(entry[2], DELAY_US // 2)            # the time of the execution, as in Redis
        total, reason, part = self.note(entry)
        self.assertEqual(reason, b"cold-wait")
        self.assertEqual(part, total)
        self.assertGreaterEqual(total, DELAY_US // 2)

    def test_a_call_that_waits_no_longer_than_the_threshold_is_not_logged(self):
        self.c.must("CONFIG", "SET", "slowlog-log-waits-slower-than", 60 * 1000000)
        self.slow_read("GET", self.cold.pop())
        self.c.must("CONFIG", "SET", "slowlog-log-waits-slower-than", -1)
        self.slow_read("GET", self.cold.pop())
        self.assertEqual(self.c.must("SLOWLOG", "LEN"), 0)

    def test_hot_keys_are_not_logged(self):
        self.c.must("SET", "hot", "v")
        self.c.must("CONFIG", "SET", "slowlog-log-waits-slower-than", 0)
        self.c.must("SLOWLOG", "RESET")
        for _ in range(100):
            self.c.must("GET", "hot")
        self.assertEqual(self.c.must("SLOWLOG", "LEN"), 0)
        self.assertEqual(self.tiering("tier_cold_wait_calls"), 0)

    def test_an_entry_for_a_slow_execution_has_no_note(self):
        self.c.must("SET", "hot", "v")
        self.c.must("CONFIG", "SET", "slowlog-log-slower-than", 0)
        self.c.must("GET", "hot")
        self.assertEqual(self.c.must("SLOWLOG", "GET", 1)[0][3], [b"GET", b"hot"])

    def test_the_wait_of_one_call_is_not_shown_for_the_next(self):
        self.slow_read("GET", self.cold.pop())
        self.c.must("CONFIG", "SET", "slowlog-log-slower-than", 0)
        self.c.must("PING")
        self.assertEqual(self.c.must("SLOWLOG", "GET", 1)[0][3], [b"PING"])

    def test_transactions_and_scripts(self):
        self.c.must("MULTI")
        self.c.must("GET", self.cold.pop())
        self.c.must("GET", self.cold.pop())
        self.slow_read("EXEC")
        self.assertEqual(self.c.must("SLOWLOG", "GET")[0][3][0], b"EXEC")
        self.assertEqual(self.note(self.c.must("SLOWLOG", "GET")[0])[1], b"cold-wait")
        self.slow_read("EVAL", "return redis.call('GET', KEYS[1])", 1, self.cold.pop())
        self.assertEqual(self.c.must("SLOWLOG", "GET")[0][3][0], b"EVAL")
        self.assertEqual(self.note(self.c.must("SLOWLOG", "GET")[0])[1], b"cold-wait")

    def test_transactions_do_not_wait_for_the_reads_of_dbsize(self):
        """DBSIZE has to find out which of the keys that were overwritten had a record."""
        keys = [self.cold.pop() for _ in range(20)]
        expected = self.c.must("DBSIZE")
        counter = self.server.client(timeout=60)
        self.addCleanup(counter.close)
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=DELAY_US)
        try:
            self.c.pipeline(["SET", key, "new"] for key in keys)
            counter.send(encode(["DBSIZE"]))
            time.sleep(2.5 * DELAY_US / 1e6)
            self.c.must("MULTI")
            self.c.must("GET", keys[0])
            self.assertEqual(self.c.must("EXEC"), [b"new"])
            self.assertEqual(self.c.must("EVAL", "return redis.call('get', KEYS[1])", 1, keys[1]), b"new")
            self.assertFalse(select.select([counter.socket], [], [], 0)[0], "the count has ended before the transaction: nothing was shown")
        finally:
            self.disk.heal()
        self.assertEqual(counter.receive(), expected)

    def test_latency_has_an_event_for_it(self):
        self.c.must("CONFIG", "SET", "latency-monitor-threshold", 50)
        self.slow_read("GET", self.cold.pop())
        events = {event[0]: event for event in self.c.must("LATENCY", "LATEST")}
        self.assertIn(b"cold-wait", events)
        self.assertGreaterEqual(events[b"cold-wait"][2], 100)
        self.assertEqual(len(self.c.must("LATENCY", "HISTORY", "cold-wait")), 1)
        self.assertIn(b"cold keys", self.c.must("LATENCY", "DOCTOR"))
        self.assertIn(b"cold-wait", self.c.must("LATENCY", "GRAPH", "cold-wait"))

    def test_histogram_and_info(self):
        self.slow_read("GET", self.cold.pop())
        self.slow_read("MGET", self.cold.pop(), self.cold.pop())
        self.assertEqual(self.tiering("tier_cold_wait_calls"), 2)
        self.assertGreaterEqual(self.tiering("tier_cold_wait_usec_p50"), 100000)
        self.assertGreaterEqual(self.tiering("tier_cold_wait_usec_p99"), self.tiering("tier_cold_wait_usec_p50"))
        self.assertEqual(self.tiering("tier_memory_wait_calls"), 0)
        name, histogram = self.c.must("LATENCY", "HISTOGRAM", "cold-wait")
        self.assertEqual(name, b"cold-wait")
        self.assertEqual(histogram[:2], [b"calls", 2])
        self.assertNotIn(b"cold-wait", self.c.must("LATENCY", "HISTOGRAM"))
        self.c.must("CONFIG", "RESETSTAT")
        self.assertEqual(self.tiering("tier_cold_wait_calls"), 0)
        self.assertEqual(self.c.must("LATENCY", "HISTOGRAM", "cold-wait"), [])


class OtherWaitsTest(ServerCase):
    options = {"slowlog-log-waits-slower-than": 50000, "latency-monitor-threshold": 50, "io-threads": 2}

    def setUp(self):
        super().setUp()
        self.c.must("SLOWLOG", "RESET")
        self.c.must("LATENCY", "RESET")

    def expect(self, command, reason):
        entries = [entry for entry in self.c.must("SLOWLOG", "GET", -1) if entry[3][0] == command]
        self.assertEqual(len(entries), 1, entries)
        self.assertRegex(entries[0][3][-1], rb"^\(waited \d+ us: .*%s \d+" % reason)
        self.assertIn(reason, [event[0] for event in self.c.must("LATENCY", "LATEST")])

    @kelvin_only
    def test_client_pause(self):
        other = self.client()
        self.c.must("CLIENT", "PAUSE", 150, "WRITE")
        other.must("SET", "k", "v")
        self.expect(b"SET", b"pause-wait")

    @kelvin_only
    def test_a_script_of_another_client(self):
        """It writes and goes on for some time, and so keeps its key for that time."""
        script = "redis.call('SET', KEYS[1], 1) local sum = 0 for i = 1, ARGV[1] do sum = sum + i end return 1"
        others = [self.client() for _ in range(4)]
        thread = threading.Thread(target=others[0].must, args=("EVAL", script, 1, "k", 100000000))
        thread.start()
        time.sleep(0.1)
        for other in others[1:]:            # on both workers
            other.must("INCR", "k")
        thread.join()
        self.assertIn(b"owner-wait", [event[0] for event in self.c.must("LATENCY", "LATEST")])

    @kelvin_only
    def test_a_blocking_command_is_meant_to_wait(self):
        other = self.client()
        self.assertIsNotNone(other.call("BLPOP", "list", 0.2))
        self.assertEqual(self.c.must("SLOWLOG", "LEN"), 0)
        self.assertEqual(self.c.must("LATENCY", "LATEST"), [])


@unittest.skipIf(is_redis(), "redis-server has no cold keys")
class TierWaitTest(ColdWaitCase):
    """CLIENT TIER-WAIT, with a disk that needs three seconds for a read: what is replied before comes from the bound."""
    LONG_US = 3000000

    def setUp(self):
        super().setUp()
        self.other = self.server.client()
        self.addCleanup(self.other.close)
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=self.LONG_US)
        self.addCleanup(self.disk.heal)

    def assert_cold(self, reply):
        """The load that it did not wait for is still under way."""
        self.assertIsInstance(reply, Error)
        self.assertTrue(reply.startswith(b"COLD "), reply)
        self.assertGreater(int(self.server.info("tiering")["tier_loads_waiting"]), 0)

    def where(self, key):
        return self.other.must("TIER", "WHERE", key)

    def test_no_wait_at_all_and_the_load_goes_on(self):
        key = self.cold.pop()
        self.assertEqual(self.c.must("CLIENT", "TIER-WAIT", 0), OK)
        self.assert_cold(self.c.call("GET", key))
        self.disk.heal()
        until(lambda: self.where(key) == b"hot", 20, "the end of the load")
        self.assertEqual(len(self.c.must("GET", key)), 1000)

    def test_a_bound(self):
        key = self.cold.pop()
        self.c.must("CLIENT", "TIER-WAIT", 20)
        self.assert_cold(self.c.call("GET", key))
        self.assert_cold(self.c.call("MGET", "absent", key))
        self.assert_cold(self.c.call("APPEND", key, "more"))
        self.assert_cold(self.c.call("BLPOP", "absent", key, 0))
        self.assertIn("errorstat_COLD", self.server.info("errorstats"))
        self.disk.heal()
        until(lambda: self.where(key) == b"hot", 20, "the end of the load")
        self.assertEqual(len(self.c.must("GET", key)), 1000)

    def test_replies_of_a_pipeline_keep_their_order(self):
        cold, other = self.cold.pop(), self.cold.pop()
        self.other.must("SET", "hot", 1)
        self.c.must("CLIENT", "TIER-WAIT", 10)
        replies = self.c.exchange(b"".join(encode(words) for words in (["GET", "hot"], ["GET", cold], ["INCR", "hot"], ["GET", other], ["PING"])), 5)
        self.assertEqual((replies[0], replies[2], bytes(replies[4])), (b"1", 2, b"PONG"))
        self.assert_cold(replies[1])
        self.assert_cold(replies[3])

    def test_a_bound_that_is_longer_than_the_load(self):
        key = self.cold.pop()
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=DELAY_US)
        self.c.must("CLIENT", "TIER-WAIT", 60000)
        self.assertEqual(len(self.c.must("GET", key)), 1000)
        self.assertEqual(self.where(key), b"hot")

    def test_transactions_and_scripts_wait(self):
        key, other = self.cold.pop(), self.cold.pop()
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=DELAY_US)
        self.c.must("CLIENT", "TIER-WAIT", 0)
        self.c.must("MULTI")
        self.c.must("STRLEN", key)
        self.assertEqual(self.c.must("EXEC"), [1000])
        self.assertEqual(self.c.must("EVAL", "return redis.call('STRLEN', KEYS[1])", 1, other), 1000)

    def test_it_ends_with_minus_one_and_with_reset(self):
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=DELAY_US)
        for end in (["CLIENT", "TIER-WAIT", -1], ["RESET"]):
            self.c.must("CLIENT", "TIER-WAIT", 0)
            self.c.must(*end)
            self.assertEqual(len(self.c.must("GET", self.cold.pop())), 1000)
        for wrong in ("-2", "x", "2147483648", ""):
            self.assertIsInstance(self.c.call("CLIENT", "TIER-WAIT", wrong), Error)

    def test_clients_that_go_while_they_wait(self):
        keys = [self.cold.pop() for _ in range(10)]
        for key in keys:
            client = self.server.client()
            client.must("CLIENT", "TIER-WAIT", 60000)
            client.send(encode(["GET", key]))
            until(lambda: int(self.server.info("tiering")["tier_loads_waiting"]) > 0, 20, "a load")
            client.close()
        self.disk.heal()
        until(lambda: all(self.where(key) == b"hot" for key in keys), 20, "the loads")
        self.assertEqual(len(self.c.must("GET", keys[0])), 1000)


class NoTouchTest(ServerCase):
    options = {"maxmemory": "64mb", "maxmemory-policy": "allkeys-lfu", "lfu-log-factor": 0, "lfu-decay-time": 0}

    def freq(self, key):
        return self.c.must("OBJECT", "FREQ", key)

    def quiet(self):
        client = self.client()
        client.must("CLIENT", "NO-TOUCH", "on")
        return client

    @kelvin_only
    def test_reads_and_changes_do_not_add_heat(self):
        quiet = self.quiet()
        self.assertEqual(re.search(rb"flags=(\w+)", quiet.must("CLIENT", "INFO")).group(1), b"T")
        self.c.must("RPUSH", "l", 1)
        self.c.must("SET", "k", "v")
        before = self.freq("k"), self.freq("l")
        quiet.must("GET", "k")
        quiet.must("APPEND", "k", "w")
        quiet.must("LRANGE", "l", 0, -1)
        quiet.must("RPUSH", "l", 2)
        self.assertEqual((self.freq("k"), self.freq("l")), before)
        quiet.must("CLIENT", "NO-TOUCH", "off")
        quiet.must("GET", "k")
        self.assertGreater(self.freq("k"), before[0])

    @kelvin_only
    def test_in_transactions_scripts_and_blocking_commands(self):
        quiet = self.quiet()
        self.c.must("SET", "k", "v")
        self.c.must("RPUSH", "l", 1, 2, 3)
        before = self.freq("k"), self.freq("l")
        quiet.must("MULTI")
        quiet.must("GET", "k")
        quiet.must("EXEC")
        quiet.must("EVAL", "return redis.call('GET', KEYS[1])", 1, "k")
        quiet.must("BLPOP", "l", 0)
        self.assertEqual((self.freq("k"), self.freq("l")), before)

    @kelvin_only
    def test_the_touch_command_does(self):
        quiet = self.quiet()
        self.c.must("SET", "k", "v")
        before = self.freq("k")
        self.assertEqual(quiet.must("TOUCH", "k"), 1)
        self.assertGreater(self.freq("k"), before)
        before = self.freq("k")
        quiet.must("EVAL", "return redis.call('TOUCH', KEYS[1])", 1, "k")
        self.assertGreater(self.freq("k"), before)

    @kelvin_only
    def test_reset_ends_it(self):
        quiet = self.quiet()
        quiet.must("RESET")
        self.c.must("SET", "k", "v")
        before = self.freq("k")
        quiet.must("GET", "k")
        self.assertGreater(self.freq("k"), before)

    @kelvin_only
    def test_a_cold_key_that_is_read_keeps_its_heat(self):
        for key in "ab":
            self.c.must("SET", key, "v" * 100)
            for _ in range(5):
                self.c.must("GET", key)
        before = self.freq("a")
        self.assertEqual(self.c.must("TIER", "DEMOTE", "a", "b"), 2)
        quiet = self.quiet()
        self.assertEqual(quiet.must("GET", "a"), b"v" * 100)
        self.assertEqual(self.c.must("TIER", "WHERE", "a"), b"cold")
        self.assertEqual(self.freq("a"), before)
        self.c.must("GET", "b")
        self.assertGreater(self.freq("b"), before)

    @kelvin_only
    def test_what_was_read_so_is_demoted_before_keys_that_were_used(self):
        """Cold keys with the same uses: half are read twice by a client with NO-TOUCH, half by one without."""
        self.c.must("CONFIG", "SET", "lfu-log-factor", 10)
        self.addCleanup(self.c.must, "CONFIG", "SET", "lfu-log-factor", 0)
        keys = ["key:%d" % number for number in range(2000)]
        self.c.pipeline(["SET", key, "v" * 1000] for key in keys)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), 2000)
        quiet = self.quiet()
        for _ in range(2):
            quiet.pipeline(["GET", key] for key in keys[::2])
            self.c.pipeline(["GET", key] for key in keys[1::2])
        self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        index = 0
        while True:
            self.c.pipeline(["SET", "filler:%d" % (index + number), "f" * 1000] for number in range(2000))
            self.c.pipeline(["GET", "filler:%d" % (index + number)] for number in range(2000))      # one use less than the loud keys
            index += 2000
            where = self.c.pipeline(["TIER", "WHERE", key] for key in keys)
            quiet_hot, loud_hot = where[::2].count(b"hot"), where[1::2].count(b"hot")
            if quiet_hot + loud_hot < 1500 or index > 200000:
                break
        self.assertLess(quiet_hot, loud_hot // 2, (quiet_hot, loud_hot))


class KillTest(PairCase):
    """CLIENT KILL and LIST with filters, beside redis-server."""

    def test_filters(self):
        ours, theirs = self.clients()
        for client in (ours, theirs):
            client.must("CLIENT", "SETNAME", "other")
        for option in (["TYPE", "pubsub"], ["TYPE", "normal", "ADDR", "1.2.3.4:5"], ["LADDR", "1.2.3.4:5"], ["USER", "default", "TYPE", "pubsub"],
                       ["ID", 999999], ["ID", 999999, "SKIPME", "no"], ["TYPE", "master"], ["TYPE", "replica", "SKIPME", "no"],
                       ["USER", "unknown"], ["ID", "x"], ["ID", 0], ["ID"], ["ID", 1, "TYPE"], ["SKIPME", "x"], ["TYPE", "x"], ["X", "y"],
                       ["1.2.3.4:5"]):
            self.both([["CLIENT", "KILL"] + option])
        for client, other in ((self.c, ours), (self.r, theirs)):
            address = re.search(rb"laddr=(\S+)", other.must("CLIENT", "INFO")).group(1)
            own = client.must("CLIENT", "ID")
            self.assertEqual(client.must("CLIENT", "KILL", "LADDR", address, "USER", "default", "TYPE", "normal", "ID", own), 0)
            self.assertEqual(client.must("CLIENT", "KILL", "LADDR", address, "USER", "default", "TYPE", "normal"), 1)

    @kelvin_only
    def test_maxage(self):
        old = self.server.client()
        self.addCleanup(old.close)
        old.must("PING")
        time.sleep(2.1)
        new = self.server.client()
        self.addCleanup(new.close)
        new.must("PING")
        for value, text in (("x", "ERR maxage is not an integer or out of range"), (0, "ERR maxage should be greater than 0"),
                            (-1, "ERR maxage should be greater than 0")):
            self.assertEqual(self.c.call("CLIENT", "KILL", "MAXAGE", value), Error(text.encode()))
        self.assertEqual(self.c.must("CLIENT", "KILL", "MAXAGE", 1000), 0)
        self.assertEqual(self.c.must("CLIENT", "KILL", "MAXAGE", (1 << 63) - 1), 0)
        self.assertEqual(self.c.must("CLIENT", "KILL", "MAXAGE", 2, "TYPE", "pubsub"), 0)
        self.assertEqual(self.c.must("CLIENT", "KILL", "MAXAGE", 2), 1)
        with self.assertRaises(OSError):
            old.call("PING")
        self.assertEqual(new.must("CLIENT", "NO-EVICT", "on"), OK)


if __name__ == "__main__":
    main()
