"""maxmemory and its policies: without a second tier they work as in Redis."""
import os
import random
import select
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.cluster import Node                                                                    # noqa: E402
from support.resp import OK, Error, encode                                                                  # noqa: E402
from support.server import is_redis, until                                                          # noqa: E402

OOM = Error(b"OOM command not allowed when used memory > 'maxmemory'.")


class MaxmemoryTest(ServerCase):
    options = {"tier-enabled": "no"}

    def limit(self, policy, extra=8 << 20):
        self.c.must("CONFIG", "SET", "maxmemory-policy", policy)
        until(lambda: self.server.info("memory")["lazyfree_pending_objects"] == "0", 10, "the end of lazy freeing")
        used = int(self.server.info("memory")["used_memory"])
        self.c.must("CONFIG", "SET", "maxmemory", used + extra)
        return used + extra

    def setUp(self):
        super().setUp()
        self.c.must("CONFIG", "SET", "maxmemory", 0)

    def test_noeviction_refuses_writes_that_need_memory(self):
        self.limit("noeviction")
        replies = self.c.pipeline(["SET", "k%d" % i, "v" * 1000] for i in range(20000))
        done = [i for i, reply in enumerate(replies) if reply == OK]
        self.assertTrue(2000 < len(done) < 15000, len(done))
        self.assertEqual({reply for reply in replies if reply != OK}, {OOM})
        self.assertEqual(self.c.must("DBSIZE"), len(done))
        # The memory of the pipeline itself has been freed: fill it as well.
        refused = 0
        for i in range(60000):
            refused = refused + 1 if self.c.call("SET", "more%d" % i, "v" * 1000) == OOM else 0
            if refused == 500:
                break
        self.assertEqual(refused, 500)
        self.assertEqual(self.c.must("GET", "k0"), b"v" * 1000)
        for command in (["APPEND", "k0", "x"], ["HSET", "h", "f", "v"], ["MSET", "a", "b"], ["SETBIT", "b", 1, 1], ["INCR", "n"]):
            self.assertEqual(self.c.call(*command), OOM, command)
        self.assertEqual(self.c.must("DEL", *["k%d" % i for i in done[:len(done) // 2]]), len(done) // 2)
        self.assertEqual(self.c.must("SET", "again", "v"), OK)

    def test_allkeys_policies_evict(self):
        for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random"):
            self.c.must("FLUSHALL")
            self.c.must("CONFIG", "SET", "maxmemory", 0)
            limit = self.limit(policy)
            evicted = int(self.server.info("stats")["evicted_keys"])
            for start in range(0, 20000, 500):
                replies = self.c.pipeline(["SET", "k%d" % i, "v" * 1000] for i in range(start, start + 500))
                self.assertTrue(all(reply == OK for reply in replies), policy)
            size = self.c.must("DBSIZE")
            self.assertTrue(1000 < size < 15000, (policy, size))
            # A few more may have been evicted between the two commands.
            self.assertAlmostEqual(int(self.server.info("stats")["evicted_keys"]) - evicted, 20000 - size, delta=300, msg=policy)
            self.assertLessEqual(int(self.server.info("memory")["used_memory"]), limit * 1.05)

    def test_small_keys_are_evicted_without_an_error(self):
        """What they free is spread over blocks of memory that hold thousands of keys."""
        for policy in ("allkeys-lru", "volatile-lru"):
            self.c.must("FLUSHALL")
            self.c.must("CONFIG", "SET", "maxmemory", 0)
            limit = self.limit(policy, 2 << 20)
            random.seed(1)
            for _ in range(100):
                replies = self.c.pipeline(["SETEX", "k%d" % random.randrange(1 << 60), 10000, "x" * 10] for _ in range(500))
                self.assertEqual({reply for reply in replies if reply != OK}, set(), policy)
            self.assertGreater(self.c.must("DBSIZE"), 10000)
            self.assertLessEqual(int(self.server.info("memory")["used_memory"]), limit * 1.05)

    def test_volatile_policies_evict_only_keys_with_a_time_to_live(self):
        for policy in ("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"):
            self.c.must("FLUSHALL")
            self.c.must("CONFIG", "SET", "maxmemory", 0)
            self.c.pipeline(["SET", "keep%d" % i, "v" * 1000] for i in range(1000))
            self.limit(policy)
            for start in range(0, 15000, 500):
                replies = self.c.pipeline(["SET", "k%d" % i, "v" * 1000, "EX", 1000 + i] for i in range(start, start + 500))
                self.assertTrue(all(reply == OK for reply in replies), policy)
            self.assertEqual(self.c.must("EXISTS", *["keep%d" % i for i in range(1000)]), 1000, policy)
            self.assertLess(self.c.must("DBSIZE"), 14000)

    def test_volatile_with_nothing_to_evict_refuses(self):
        self.limit("volatile-lru", 4 << 20)
        replies = self.c.pipeline(["SET", "k%d" % i, "v" * 1000] for i in range(10000))
        self.assertIn(OOM, replies)


class CopiesTest(ServerCase):
    """One request may take a megabyte: a pipeline of them is stopped at maxmemory, not at its end."""

    options = {"tier-enabled": "no", "maxmemory": "20mb", "save": "", "appendonly": "no"}

    def copy(self, policy):
        self.c.must("CONFIG", "SET", "maxmemory-policy", policy)
        self.c.must("HSET", "{x}", *[item for i in range(2000) for item in ("f%d" % i, "v" * 400)])
        replies = self.c.pipeline([["COPY", "{x}", "{x}%d" % i] for i in range(60)] + [["INFO", "memory"]])
        self.assertLess(int(replies[-1].split(b"used_memory:")[1].split()[0]), 26 << 20)
        return replies

    def test_eviction(self):
        self.assertNotIn(OOM, self.copy("allkeys-random"))

    def test_noeviction(self):
        self.assertEqual(self.copy("noeviction").count(OOM), 60 - self.c.must("DBSIZE") + 1)


class GrowingListTest(ServerCase):
    """One list, the only key, grows beyond maxmemory again and again. It is evicted as soon as no client uses it, and no client gets an error."""

    options = {"maxmemory": "8mb", "maxmemory-policy": "allkeys-lru", "save": "", "appendonly": "no"}
    CLIENTS, ROUNDS, PUSHES, SIZE = 16, 100, 50, 400

    def push(self, client, wrong):
        for _ in range(self.ROUNDS):
            replies = client.pipeline([["LPUSH", "list", b"v" * self.SIZE]] * self.PUSHES)
            wrong.extend(reply for reply in replies if not isinstance(reply, int))

    def grow(self):
        """Returns how often it was evicted."""
        before, wrong = int(self.server.info("stats")["evicted_keys"]), []
        self.c.must("DEL", "list")
        threads = [threading.Thread(target=self.push, args=(self.client(timeout=60), wrong), daemon=True) for _ in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertFalse(any(thread.is_alive() for thread in threads))
        self.assertEqual(wrong, [])
        return int(self.server.info("stats")["evicted_keys"]) - before

    def test_without_a_tier(self):
        if not is_redis():
            self.c.must("CONFIG", "SET", "tier-enabled", "no")
        self.assertGreater(self.grow(), 0)

    @kelvin_only
    def test_with_a_tier(self):
        self.c.must("CONFIG", "SET", "tier-enabled", "yes", "tier-page-threshold", 0)
        self.assertGreater(self.grow(), 0)

    @kelvin_only
    def test_with_pages(self):
        self.c.must("CONFIG", "SET", "tier-enabled", "yes", "tier-page-threshold", "1mb")
        self.assertEqual(self.grow(), 0)
        self.assertEqual(self.c.must("LLEN", "list"), self.CLIENTS * self.ROUNDS * self.PUSHES)


@kelvin_only
class LargePartTest(ServerCase):
    """Values that are a large part of maxmemory, and fit: writes to them go on while other keys are demoted, and they stay."""

    options = {"maxmemory": "40mb", "save": "", "appendonly": "no"}

    def fill(self, number):
        self.c.must("SET", "fill:%d" % number, os.urandom(200000))

    def each_policy(self):
        for policy in ("allkeys-lru", "noeviction"):
            self.c.must("FLUSHALL")
            self.c.must("CONFIG", "SET", "maxmemory-policy", policy)
            yield policy
        self.assertEqual(self.server.info("stats")["evicted_keys"], "0")

    def push(self, count):
        for _ in range(count):
            self.c.must("RPUSH", "list", *[b"v" * 1000] * 100)

    def test_a_list_that_is_both_keys_of_a_command_counts_once(self):
        for policy in self.each_policy():
            self.push(220)
            for i in range(150):
                self.fill(i)
                self.assertEqual(self.c.must("RPOPLPUSH", "list", "list"), b"v" * 1000, policy)
            self.assertEqual(self.c.must("LLEN", "list"), 22000)

    def test_a_few_elements_are_no_measure_of_all(self):
        """Five samples of this list make twenty times its size."""
        for policy in self.each_policy():
            self.c.must("RPUSH", "list", b"B" * 1500000)
            self.push(20)
            for i in range(150):
                self.fill(i)
                self.assertEqual(self.c.must("RPUSH", "list", "x"), 2002 + i, policy)

    def test_no_limit_from_the_middle_of_a_turn_on(self):
        for policy in self.each_policy():
            self.c.must("RPUSH", "list", *[b"v" * 100] * 20)
            for i in range(150):
                self.fill(i)
                replies = self.c.pipeline([["SET", "z", "1"], ["CONFIG", "SET", "maxmemory", "0"], ["RPUSH", "list", "x"], ["CONFIG", "SET", "maxmemory", "40mb"]])
                self.assertEqual(replies, [OK, OK, 21 + i, OK], policy)


@kelvin_only
class TwoListsTest(ServerCase):
    """Only the larger one of two lists does not fit: the other one stays."""

    options = {"maxmemory": "10mb", "maxmemory-policy": "allkeys-lru", "tier-page-threshold": 0, "save": "", "appendonly": "no"}

    def small_stays(self):
        """Until a list is evicted. The small one is when the policy chooses it while the other one is loaded, and nothing else is in RAM."""
        self.c.must("FLUSHALL")
        evicted = int(self.server.info("stats")["evicted_keys"])
        for i in range(3000):
            self.c.must("RPUSH", "large", *[b"v" * 1000] * 100)
            self.c.must("LMOVE", "large", "small", "LEFT", "LEFT")
            self.c.must("SET", "fill:%d" % (i % 100), os.urandom(20000))
            if int(self.server.info("stats")["evicted_keys"]) > evicted:
                return self.c.must("LLEN", "small") > 2
        self.fail("nothing was evicted")

    def test_the_small_one_stays(self):
        self.assertTrue(any(self.small_stays() for _ in range(10)))


@kelvin_only
class UnitTest(ServerCase):
    """A script grows a list beyond maxmemory. The list is evicted before its first change, not in between, and the log has that order."""

    options = {"maxmemory": "10mb", "maxmemory-policy": "allkeys-lru", "tier-page-threshold": 0, "save": "", "appendonly": "yes"}
    SCRIPT = "local n = {} for i = 1, 5 do n[i] = redis.call('RPUSH', KEYS[1], unpack(ARGV)) end return n"

    def test_a_script_evicts_before_its_first_change(self):
        evictions = length = 0
        self.c.must("DEL", "list")
        for i in range(500):
            lengths = self.c.must("EVAL", self.SCRIPT, 1, "list", *[b"v" * 15000] * 20)
            self.assertEqual(lengths, list(range(lengths[0], lengths[0] + 100, 20)))
            evictions += lengths[0] == 20 and length > 0
            length = lengths[-1]
            if evictions == 1:
                break
            self.c.call("SET", "fill:%d" % (i % 100), os.urandom(20000))     # OOM while the list is being written, now and then
        self.assertEqual(evictions, 1)
        self.server.restart(kill=True)
        with self.server.client() as client:
            self.assertEqual(client.must("LLEN", "list"), length)

    def test_a_list_in_pages_is_not_evicted(self):
        evicted = self.server.info("stats")["evicted_keys"]
        self.c.must("DEL", "list")
        self.c.must("CONFIG", "SET", "tier-page-threshold", "1mb")
        self.addCleanup(self.c.must, "CONFIG", "SET", "tier-page-threshold", 0)
        for i in range(100):
            lengths = self.c.must("EVAL", self.SCRIPT, 1, "list", *[b"v" * 15000] * 20)
            self.assertEqual(lengths, list(range(i * 100 + 20, i * 100 + 120, 20)))
            self.c.must("SET", "fill:%d" % (i % 100), os.urandom(20000))
        self.assertEqual(self.server.info("stats")["evicted_keys"], evicted)


@kelvin_only
class FromBeforeTest(ServerCase):
    """Values that are larger than maxmemory, from the time before there was one: a write takes them into pages, and is neither refused nor a reason to evict them."""

    options = {"save": "", "appendonly": "no"}
    WRITES = {
        "hash": lambda i: ["HSET", "hash", i, b"v" * 1000],
        "set": lambda i: ["SADD", "set", b"%01000d" % i],
        "zset": lambda i: ["ZADD", "zset", i, b"%01000d" % i],
        "list": lambda i: ["RPUSH", "list", b"v" * 1000],
        "stream": lambda i: ["XADD", "stream", "*", "f", b"v" * 1000],
        "string": lambda i: ["SETRANGE", "string", i * 1000, b"v" * 1000],
    }

    def grow(self, policy, name, write):
        self.c.must("CONFIG", "SET", "maxmemory", 0, "maxmemory-policy", policy)
        for i in range(0, 14000, 100):
            self.c.pipeline([write(k) for k in range(i, i + 100)])
        self.c.must("CONFIG", "SET", "maxmemory", "10mb")
        for i in range(14000, 14003):
            self.c.must(*write(i))
            self.c.must("SET", "a", "b")
        self.c.must("DEL", name)

    def test_they_are_kept(self):
        for policy in ("noeviction", "allkeys-lru"):
            for name, write in self.WRITES.items():
                with self.subTest(policy=policy, type=name):
                    self.grow(policy, name, write)
                    self.assertEqual(self.server.info("stats")["evicted_keys"], "0")


@kelvin_only
class ColdReadsTest(ServerCase):
    """What is being loaded counts before it is there: many clients that ask for large cold values wait, and memory stays within its bound."""

    options = {"maxmemory": "24mb", "maxmemory-policy": "noeviction", "save": "", "appendonly": "no"}
    CLIENTS, VALUES, SIZE = 80, 80, 900000

    def peak_during(self, command):
        clients = [self.server.client(timeout=60) for _ in range(self.CLIENTS)]
        chosen = random.Random(self.id())
        peak = 0
        for client in clients:
            client.send(encode(command(["v%d" % number for number in chosen.sample(range(self.VALUES), 3)])))
        for client in clients:
            while not select.select([client.socket], [], [], 0.005)[0]:
                peak = max(peak, int(self.server.info("memory")["used_memory"]))
            self.assertNotIsInstance(client.receive(), Error)
            client.close()
        return peak

    def test_memory_is_bounded(self):
        for number in range(0, 50000, 500):         # so that the records are small on average
            self.c.pipeline([["SET", "k%d" % key, "v" * 50] for key in range(number, number + 500)])
        for number in range(self.VALUES):
            self.c.must("SET", "v%d" % number, random.Random(number).randbytes(self.SIZE))
        length = "return #redis.call('GET', KEYS[1]) + #redis.call('GET', KEYS[2])"
        for name, command in {"BITOP": lambda keys: ["BITOP", "OR", "to:" + keys[0], *keys], "EVAL": lambda keys: ["EVAL", length, 2, *keys[:2]]}.items():
            with self.subTest(command=name):
                self.assertLess(self.peak_during(command) >> 20, 48)
        self.assertEqual(self.server.info("stats")["evicted_keys"], "0")


class ScriptGarbageTest(ServerCase):
    """What a script has left in its heap is no reason to evict keys, nor to refuse writes."""

    options = {"maxmemory": "30mb", "maxmemory-policy": "allkeys-lru", "tier-enabled": "no", "save": "", "appendonly": "no"}

    def test_garbage_is_collected_at_the_end(self):
        for i in range(1000):
            self.c.must("SET", "k%d" % i, "v" * 1000)
        self.assertEqual(self.c.must("EVAL", "local t = {} for i = 1, 300000 do t[i] = i .. ':' .. i * 7 .. ':' .. i * 13 end return #t", 0), 300000)
        for i in range(1000):
            self.c.must("SET", "l%d" % i, "v" * 1000)
        self.assertEqual(self.c.must("DBSIZE"), 2000)
        self.assertLess(int(self.server.info("memory")["used_memory"]), 16 << 20)


@kelvin_only
class MigratingTest(unittest.TestCase):
    """What is evicted is in the log, also when the command is to be sent to another node then."""

    options = {"maxmemory": "12mb", "maxmemory-policy": "allkeys-lru", "tier-page-threshold": 0, "save": "", "appendonly": "yes"}

    def test_eviction_and_redirection(self):
        with Node("kelvin", self.options) as node, Node("kelvin") as other:
            with node.client() as client, other.client() as of_other:
                client.must("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                slot, name = client.must("CLUSTER", "KEYSLOT", "list"), of_other.must("CLUSTER", "MYID")
                client.must("CLUSTER", "MEET", "127.0.0.1", other.port)
                until(lambda: b"cluster_state:ok" in client.must("CLUSTER", "INFO") and name in client.must("CLUSTER", "NODES"), 30, "the cluster")
                while int(node.info("memory")["used_memory"]) < 9 << 20:
                    client.must("RPUSH", "list", *[os.urandom(1000)] * 100)
                client.must("CLUSTER", "SETSLOT", slot, "MIGRATING", name)
                while node.info("stats")["evicted_keys"] == "0":
                    client.call("RPUSH", "list", *[os.urandom(1000)] * 100)
                count = client.must("CLUSTER", "COUNTKEYSINSLOT", slot)
            node.restart(kill=True)
            with node.client() as client:
                self.assertEqual(client.must("CLUSTER", "COUNTKEYSINSLOT", slot), count)


if __name__ == "__main__":
    main()
