"""The two tiers: a cold key behaves like a hot one, counts are exact, and the statistics of INFO are correct."""
import importlib
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, until                            # noqa: E402


def demote_all(client, databases=4):
    """Demotes all keys of the first databases. The client has the last of them selected afterwards."""
    for database in range(databases):
        client.must("SELECT", database)
        keys = client.must("KEYS", "*")
        if keys:
            client.must("TIER", "DEMOTE", *keys)


class Cold:
    """Mixed into the tests of a family: all keys are demoted before every command."""

    def before_command(self):
        if not hasattr(self, "demoter"):
            self.demoter = self.server.client()
            self.addCleanup(self.demoter.close)
        demote_all(self.demoter)


def cold_version(module, name, without=()):
    base = getattr(importlib.import_module(module), name)
    body = {test: None for test in without}
    body["__doc__"] = "The tests of %s with all keys cold before every command." % name
    return kelvin_only(type("Cold" + name, (Cold, base), body))


# The classes that are left out do not use the script runner, so that they would be the same, or set their own limits.
ColdStringTest = cold_version("string_test", "StringTest", ["test_values_of_many_sizes"])
ColdBitmapTest = cold_version("bitmap_test", "BitmapTest")
ColdHashTest = cold_version("hash_test", "HashTest", ["test_a_scan_of_a_big_hash_finds_every_field_while_it_changes"])
ColdHyperLogLogTest = cold_version("hyperloglog_test", "HyperLogLogTest", ["test_the_limit_of_the_sparse_encoding"])
ColdListTest = cold_version("list_test", "ListTest")
ColdSortTest = cold_version("sort_test", "SortTest")
ColdSetTest = cold_version("set_test", "SetTest", ["test_a_scan_of_a_big_set_finds_every_member_while_it_changes"])
ColdZsetTest = cold_version("zset_test", "ZsetTest", [
    "test_changes_are_counted_as_in_redis",
    "test_a_scan_of_a_big_set_finds_every_member_while_it_changes", "test_ranks_with_their_score",
    "test_more_pairs_than_the_limit_convert_the_listpack"])
ColdKeysTest = cold_version("keys_test", "KeysTest", [
    "test_many_keys", "test_scan_finds_every_key", "test_a_scan_keeps_its_guarantees_while_keys_are_created_and_deleted",
    "test_randomkey", "test_a_damaged_payload_is_refused"])
ColdExpireTest = cold_version("expire_test", "ExpireTest", [
    "test_expiry_does_not_delay_other_clients", "test_a_key_does_not_expire_early", "test_a_key_is_deleted_when_it_expires",
    "test_expired_keys_that_are_not_accessed_are_deleted", "test_an_expired_key_is_not_scanned_or_counted_by_random_key",
    "test_active_expiry_can_be_switched_off"])


class TierCase(ServerCase):
    def tiering(self):
        info = self.server.info("tiering")
        return {name: int(value) if value.isdigit() else value for name, value in info.items()}

    def moved(self, before, name):
        return self.tiering()[name] - before[name]

    def where(self, key):
        reply = self.c.must("TIER", "WHERE", key)
        return None if reply is None else bytes(reply).decode()

    def make_cold(self, *keys):
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), len(set(keys)))

    def fill(self, count, size=20, prefix="k"):
        for start in range(0, count, 1000):
            self.c.must("MSET", *[word for i in range(start, min(count, start + 1000))
                                  for word in ("%s%d" % (prefix, i), ("v%d;" % i).ljust(size, "."))])
        return [b"%s%d" % (prefix.encode(), i) for i in range(count)]


@kelvin_only
class TierCommandTest(TierCase):
    def test_a_key_is_demoted_and_loaded(self):
        self.c.must("SET", "k", "v")
        self.assertEqual(self.where("k"), "hot")
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k"), 1)
        self.assertEqual(self.where("k"), "cold")
        self.assertEqual(self.c.must("TIER", "PROMOTE", "k"), 1)
        self.assertEqual(self.where("k"), "hot")
        self.assertEqual(self.c.must("GET", "k"), b"v")
        self.make_cold("k")
        self.assertEqual(self.c.must("GET", "k"), b"v")
        self.assertEqual(self.where("k"), "hot")

    def test_absent_keys(self):
        self.assertIsNone(self.where("missing"))
        self.assertEqual(self.c.must("TIER", "DEMOTE", "missing"), 0)
        self.assertEqual(self.c.must("TIER", "PROMOTE", "missing"), 0)
        self.c.must("SET", "k", "v")
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k", "missing"), 1)

    def test_many_keys_at_once(self):
        keys = self.fill(5000)
        self.make_cold(*keys)
        self.assertTrue(all(self.where(key) == "cold" for key in keys[::50]))
        # Keys that are cold already are counted as cold as well.
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), 5000)
        self.assertEqual(self.c.must("TIER", "PROMOTE", *keys[:100]), 100)
        self.assertTrue(all(self.where(key) == "hot" for key in keys[:100]))

    def test_arguments(self):
        for words in (["DEMOTE"], ["PROMOTE"], ["WHERE"], ["WHERE", "a", "b"], ["nosuch"], ["STATS", "x"], ["HEAT", "x"], ["USES", "x"], []):
            self.assertIsInstance(self.c.call("TIER", *words), Error, words)
        self.assertIsInstance(self.c.must("TIER", "HELP"), list)
        self.assertTrue(self.c.must("TIER", "STATS"))
        self.assertEqual(self.c.must("TIER", "HEAT"), [])
        self.c.must("MSET", "a", "1", "b", "2", "c", "3")
        self.make_cold("c")
        self.assertEqual(self.c.must("TIER", "HEAT"), [[5, 2]])     # the initial value of new keys

    def test_uses_are_what_demotion_goes_by(self):
        self.assertEqual(self.c.must("TIER", "USES"), [])
        self.c.must("MSET", "a", "1", "b", "2", "c", "3", "d", "4")
        self.assertEqual(self.c.must("TIER", "USES"), [[0, 4, 4]])          # new keys are on probation
        self.c.must("GET", "a")
        self.assertEqual(self.c.must("TIER", "USES"), [[0, 3, 3], [2, 1, 0]])     # the second use counts the first one, too
        for _ in range(20):
            self.c.must("GET", "b")
        self.assertEqual(self.c.must("TIER", "USES"), [[0, 2, 2], [2, 1, 0], [7, 1, 0]])
        self.make_cold("a", "c")
        self.assertEqual(self.c.must("TIER", "USES"), [[0, 1, 1], [7, 1, 0]])
        self.assertEqual(self.c.must("CONFIG", "SET", "lfu-decay-time", "0", "lfu-log-factor", "0"), OK)
        self.assertEqual(self.c.must("TIER", "USES"), [[0, 1, 1], [7, 1, 0]])

    def test_databases_are_kept_apart(self):
        self.c.must("SET", "k", "zero")
        self.c.must("SELECT", 3)
        self.c.must("SET", "k", "three")
        self.make_cold("k")
        self.c.must("SELECT", 0)
        self.assertEqual(self.where("k"), "hot")
        self.make_cold("k")
        self.assertEqual(self.c.must("GET", "k"), b"zero")
        self.c.must("SELECT", 3)
        self.assertEqual(self.c.must("GET", "k"), b"three")

    def test_an_expired_key_is_absent(self):
        self.c.must("SET", "k", "v", "PX", 20)
        self.c.must("TIER", "DEMOTE", "k")
        time.sleep(0.03)
        self.assertIsNone(self.c.must("GET", "k"))
        self.assertIsNone(self.where("k"))
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k"), 0)

    def test_commands_that_only_inspect_do_not_load(self):
        """SCAN, KEYS, EXISTS of other keys, DBSIZE and TIER WHERE do not load a cold key."""
        keys = self.fill(200)
        self.make_cold(*keys)
        before = self.tiering()
        self.c.must("KEYS", "*")
        cursor = b"0"
        while True:
            cursor, _ = self.c.must("SCAN", cursor, "COUNT", 30)
            if cursor == b"0":
                break
        self.c.must("DBSIZE")
        self.assertTrue(all(self.where(key) == "cold" for key in keys))
        self.assertEqual(self.moved(before, "tier_promotions"), 0)


@kelvin_only
class TierFiguresTest(TierCase):
    def test_hits_and_misses_are_distinguished(self):
        keys = self.fill(100)
        before = self.tiering()
        self.c.pipeline(["GET", key] for key in keys[:30])
        self.assertEqual(self.moved(before, "tier_hot_hits"), 30)
        self.assertEqual(self.moved(before, "tier_cold_hits"), 0)
        self.make_cold(*keys)
        before = self.tiering()
        self.c.pipeline(["GET", key] for key in keys[:40])
        self.assertEqual(self.moved(before, "tier_cold_hits"), 40)
        self.assertEqual(self.moved(before, "tier_promotions"), 40)
        before = self.tiering()
        self.c.pipeline(["GET", "missing%d" % i] for i in range(25))
        self.assertEqual(self.moved(before, "tier_misses"), 25)
        self.assertEqual(self.moved(before, "tier_cold_hits"), 0)
        info = self.tiering()
        hot, cold = info["tier_hot_hits"], info["tier_cold_hits"]
        self.assertEqual(info["tier_hit_ratio"], "%.2f" % (100 * hot / (hot + cold)))

    def test_key_counts(self):
        keys = self.fill(1000)
        self.make_cold(*keys[:700])
        info = self.tiering()
        self.assertEqual((info["tier_hot_keys"], info["tier_cold_keys"]), (300, 700))
        self.c.pipeline(["GET", key] for key in keys[:100])
        info = self.tiering()
        self.assertEqual((info["tier_hot_keys"], info["tier_cold_keys"]), (400, 600))
        self.c.must("FLUSHALL")
        info = self.tiering()
        self.assertEqual((info["tier_hot_keys"], info["tier_cold_keys"]), (0, 0))

    def test_a_clean_key_is_dropped_without_a_write(self):
        keys = self.fill(100)
        before = self.tiering()
        self.make_cold(*keys)
        self.assertEqual(self.moved(before, "tier_demotions"), 100)
        self.assertEqual(self.moved(before, "tier_clean_demotions"), 0)
        self.c.pipeline(["GET", key] for key in keys)
        before = self.tiering()
        self.make_cold(*keys)
        self.assertEqual(self.moved(before, "tier_clean_demotions"), 100)
        # A change makes it dirty again.
        self.c.pipeline(["APPEND", key, "!"] for key in keys)
        before = self.tiering()
        self.make_cold(*keys)
        self.assertEqual(self.moved(before, "tier_clean_demotions"), 0)
        self.assertTrue(all(value.endswith(b"!") for value in self.c.must("MGET", *keys)))

    def test_an_overwrite_of_a_cold_key_reads_nothing(self):
        keys = self.fill(300)
        self.make_cold(*keys)
        before = self.tiering()
        self.c.pipeline(["SET", key, "new"] for key in keys[:100])
        self.c.must("MSET", *[word for key in keys[100:200] for word in (key, "new")])
        self.c.pipeline(["SET", key, "new", "EX", 1000] for key in keys[200:])
        self.assertEqual(self.moved(before, "tier_promotions"), 0)
        self.assertEqual(self.moved(before, "tier_cold_hits"), 0)
        self.assertEqual(self.c.must("DBSIZE"), 300)
        self.assertEqual(self.c.must("MGET", *keys), [b"new"] * 300)

    def test_a_lookup_of_an_absent_key_reads_nothing(self):
        self.make_cold(*self.fill(3000))
        before = self.tiering()
        self.c.pipeline(["GET", "absent%d" % i] for i in range(3000))
        self.assertEqual(self.moved(before, "tier_misses"), 3000)
        self.assertLessEqual(self.moved(before, "tier_promotions"), 0)

    def test_metadata_of_a_cold_key_leaves_it_cold(self):
        self.c.must("SET", "k", "v", "EX", 1000)
        self.c.must("HSET", "hash", "field", "value")
        self.c.must("RPUSH", "list", *range(2000))
        self.c.must("SADD", "set", "a", "b", "c")
        self.c.must("ZADD", "zset", 1, "a", 2, "b")
        self.c.must("XADD", "stream", "1-1", "field", "value")
        self.c.must("XGROUP", "CREATE", "stream", "group", "0")
        keys = ["k", "hash", "list", "set", "zset", "stream"]
        asks = [("TTL", "k"), ("PTTL", "hash"), ("EXPIRETIME", "set"), ("PEXPIRETIME", "list"), ("STRLEN", "k"), ("HLEN", "hash"),
                ("HSTRLEN", "hash", "field"), ("HTTL", "hash", "FIELDS", 1, "field"), ("LLEN", "list"), ("SCARD", "set"), ("ZCARD", "zset"),
                ("XLEN", "stream"), ("XINFO", "STREAM", "stream"), ("XINFO", "GROUPS", "stream"), ("OBJECT", "FREQ", "zset")]
        asks += [(*words, key) for key in keys for words in (("TYPE",), ("OBJECT", "ENCODING"), ("MEMORY", "USAGE"))]
        exact = [ask for ask in asks if ask[0] != "PTTL" and ask[:2] not in (("OBJECT", "FREQ"), ("MEMORY", "USAGE"))]
        hot = [self.c.must(*ask) for ask in exact]
        self.make_cold(*keys)
        before = self.tiering()
        self.assertEqual([self.c.must(*ask) for ask in exact], hot)
        self.c.pipeline(asks)
        until(lambda: all(self.where(key) == "cold" for key in keys))
        self.assertEqual(self.moved(before, "tier_promotions"), 0)
        self.assertEqual(self.moved(before, "tier_demotions") + self.moved(before, "tier_clean_demotions"), 0)
        self.assertEqual(self.moved(before, "tier_looks"), len(exact) + len(asks))
        self.assertEqual(self.c.must("GET", "k"), b"v")
        self.assertEqual(self.where("k"), "hot")

    def test_a_client_without_touch_makes_nothing_hot(self):
        self.c.must("MSET", "a", 1, "b", 2)
        self.make_cold("a", "b")
        self.c.must("CLIENT", "NO-TOUCH", "ON")
        self.assertEqual(self.c.must("MGET", "a", "b"), [b"1", b"2"])
        self.assertEqual([self.where("a"), self.where("b")], ["cold", "cold"])
        self.c.must("INCR", "a")
        self.c.must("TOUCH", "b")
        self.assertEqual([self.where("a"), self.where("b")], ["hot", "hot"])
        self.c.must("CLIENT", "NO-TOUCH", "OFF")
        self.assertEqual(self.c.must("MGET", "a", "b"), [b"2", b"2"])

    def test_exists_makes_a_key_hot_without_heat(self):
        self.c.must("SET", "k", "v")
        heat = self.c.must("OBJECT", "FREQ", "k")
        self.make_cold("k")
        self.assertEqual(self.c.must("EXISTS", "k"), 1)
        self.assertEqual(self.where("k"), "hot")
        self.assertLessEqual(self.c.must("OBJECT", "FREQ", "k"), heat)

    def test_no_unplanned_reads_and_no_errors(self):
        info = self.tiering()
        self.assertEqual((info["tier_unplanned_reads"], info["tier_errors"]), (0, 0))


@kelvin_only
class ExactnessTest(TierCase):
    def check_keys(self, expected):
        self.assertEqual(self.c.must("DBSIZE"), len(expected))
        self.assertEqual(sorted(self.c.must("KEYS", "*")), sorted(expected))
        for count in (5, 100, 100000):
            cursor, found = b"0", []
            while True:
                cursor, keys = self.c.must("SCAN", cursor, "COUNT", count)
                found += keys
                if cursor == b"0":
                    break
            self.assertEqual(set(found), set(expected), "SCAN COUNT %d" % count)
            self.assertEqual(len(found), len(set(found)), "no key moved, so none may be returned twice")

    def test_counts_and_listings_over_both_tiers(self):
        chooser = random.Random(seed_new())
        keys = self.fill(scaled(10000))
        expected = set(keys)
        self.check_keys(expected)
        for share in (0.3, 0.7, 1.0):
            self.make_cold(*chooser.sample(keys, int(len(keys) * share)))
            self.check_keys(expected)
        # Overwrites of cold keys, and new keys: they are not distinguished yet, but the count is exact.
        for _ in range(5):
            some = chooser.sample(keys, 500)
            self.c.pipeline(["SET", key, "again"] for key in some)
            self.assertEqual(self.c.must("DBSIZE"), len(expected))
            gone = set(chooser.sample(sorted(expected), 300))
            self.assertEqual(self.c.must("DEL", *gone), 300)
            expected -= gone
            self.assertEqual(self.c.must("DBSIZE"), len(expected))
            new = {b"new%d" % chooser.randrange(10 ** 9) for _ in range(200)}
            self.c.pipeline(["SET", key, "v"] for key in new)
            expected |= new
            keys = sorted(expected)
            self.assertEqual(self.c.must("DBSIZE"), len(expected))
            self.c.must("TIER", "DEMOTE", *chooser.sample(keys, 1000))
        self.check_keys(expected)

    def test_a_deleted_cold_key_stays_deleted(self):
        keys = self.fill(2000)
        self.make_cold(*keys)
        self.assertEqual(self.c.must("DEL", *keys[:1000]), 1000)
        self.assertEqual(self.c.must("UNLINK", *keys[500:1500]), 500)
        self.assertEqual(self.c.must("MGET", *keys[:1500]), [None] * 1500)
        self.assertEqual(self.c.must("EXISTS", *keys), 500)
        self.check_keys(set(keys[1500:]))
        self.c.pipeline(["SET", key, "new"] for key in keys[:1000])
        self.make_cold(*keys[:1000])
        self.assertEqual(self.c.must("MGET", *keys[:1000]), [b"new"] * 1000)

    def test_random_keys_come_from_both_tiers(self):
        keys = self.fill(400)
        self.make_cold(*keys[:200])
        seen = {self.c.must("RANDOMKEY") for _ in range(3000)}
        self.assertTrue(seen <= set(keys))
        self.assertGreater(len(seen & set(keys[:200])), 60)
        self.assertGreater(len(seen & set(keys[200:])), 60)
        self.make_cold(*keys)
        seen = {self.c.must("RANDOMKEY") for _ in range(2000)}
        self.assertTrue(seen <= set(keys))
        self.assertGreater(len(seen), 100)

    def test_a_scan_keeps_its_guarantees_while_keys_move(self):
        keys = self.fill(scaled(5000))
        stop = threading.Event()
        failed = []

        def mover():
            chooser = random.Random(7)
            try:
                with self.server.client() as client:
                    while not stop.is_set():
                        client.must("TIER", "DEMOTE", *chooser.sample(keys, 200))
                        client.must("MGET", *chooser.sample(keys, 100))
                        client.must("SET", chooser.choice(keys), "changed")
            except Exception as error:          # shown below
                failed.append(error)
        thread = threading.Thread(target=mover)
        thread.start()
        try:
            for count in (10, 50, 500, 10):
                cursor, found = b"0", set()
                while True:
                    cursor, some = self.c.must("SCAN", cursor, "COUNT", count)
                    found.update(some)
                    self.assertEqual(self.c.must("DBSIZE"), len(keys))
                    if cursor == b"0":
                        break
                self.assertEqual(found, set(keys), "SCAN COUNT %d" % count)
                self.assertEqual(set(self.c.must("KEYS", "*")), set(keys))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(failed, [])

    def test_flush_deletes_cold_keys(self):
        keys = self.fill(2000)
        self.c.must("SELECT", 1)
        others = self.fill(500, prefix="other")
        self.make_cold(*others)
        self.c.must("SELECT", 0)
        self.make_cold(*keys)
        self.assertEqual(self.c.must("FLUSHDB"), OK)
        self.check_keys(set())
        self.assertEqual(self.c.must("MGET", *keys[:100]), [None] * 100)
        self.c.must("SELECT", 1)
        self.check_keys(set(others))
        self.c.must("SELECT", 0)
        keys = self.fill(300)
        self.make_cold(*keys)
        self.check_keys(set(keys))
        self.c.must("FLUSHALL", "ASYNC")
        self.check_keys(set())
        self.c.must("SELECT", 1)
        self.check_keys(set())

    def test_swapdb_swaps_cold_keys(self):
        keys = self.fill(500)
        self.make_cold(*keys)
        self.c.must("SELECT", 1)
        others = self.fill(300, prefix="other")
        self.make_cold(*others[:200])
        self.c.must("SWAPDB", 0, 1)
        self.check_keys(set(keys))
        self.assertTrue(self.c.must("GET", keys[3]).startswith(b"v3;"))
        self.c.must("SELECT", 0)
        self.check_keys(set(others))
        self.c.must("FLUSHDB")
        self.c.must("SWAPDB", 1, 0)
        self.check_keys(set(keys))
        self.assertTrue(all(value is not None for value in self.c.must("MGET", *keys)))

    def test_cold_keys_expire(self):
        before = int(self.server.info("stats")["expired_keys"])
        count = scaled(3000)
        self.c.pipeline(["SET", "k%d" % i, "v" * 50, "PX", 700 + i % 500] for i in range(count))
        self.c.must("SET", "stay", "v", "EX", 1000)
        demote_all(self.c, 1)
        tiering = self.tiering()
        until(lambda: self.c.must("DBSIZE") == 1, 30, "the removal of expired cold keys")
        until(lambda: int(self.server.info("stats")["expired_keys"]) - before == count, 10, "the count of expired keys")
        # Deleted from the store, without loading all of them.
        self.assertLessEqual(self.moved(tiering, "tier_promotions"), count // 10)
        until(lambda: self.tiering()["tier_cold_keys"] <= 1, 20, "deleting their records")
        self.assertEqual(self.c.must("KEYS", "*"), [b"stay"])
        self.assertTrue(0 < self.c.must("TTL", "stay") <= 1000)

    def test_demotion_keeps_the_expiry(self):
        self.c.must("SET", "a", "v", "PXAT", 33177117420123)
        self.c.must("HSET", "h", "f", "v")
        self.c.must("PEXPIREAT", "h", 33177117420124)
        self.make_cold("a", "h")
        self.assertEqual(self.c.must("PEXPIRETIME", "a"), 33177117420123)
        self.assertEqual(self.c.must("PEXPIRETIME", "h"), 33177117420124)
        self.make_cold("a", "h")
        self.assertEqual(self.c.must("PERSIST", "a"), 1)
        self.make_cold("a")
        self.assertEqual(self.c.must("TTL", "a"), -1)

    def test_many_clients_wait_for_one_key(self):
        """One load serves all clients that wait; each gets the correct reply, and no change is lost."""
        clients = [self.client() for _ in range(30)]
        for round_ in range(scaled(60)):
            self.c.must("SET", "n", 100)
            self.c.must("SET", "big", "z" * 50000)
            self.make_cold("n", "big")
            for index, client in enumerate(clients):
                client.send(b"INCR n\r\n" if index % 3 == 0 else b"GET n\r\n" if index % 3 == 1 else b"STRLEN big\r\n")
            replies = [client.receive() for client in clients]
            self.assertEqual(sorted(replies[0::3]), list(range(101, 111)))
            self.assertTrue(all(100 <= int(reply) <= 110 for reply in replies[1::3]))
            self.assertEqual(replies[2::3], [50000] * 10)

    def test_waiting_clients_get_correct_replies_if_the_key_changes(self):
        """The key is deleted, overwritten, flushed or swapped while a client waits for it."""
        waiting = [self.client() for _ in range(8)]
        for round_ in range(scaled(100)):
            for client in waiting + [self.c]:
                client.must("SELECT", 0)
            self.c.must("FLUSHALL")
            self.c.must("SET", "k", "old" * 1000)
            self.make_cold("k")
            for client in waiting:
                client.send(b"GET k\r\n")
            action = (["DEL", "k"], ["SET", "k", "new"], ["FLUSHDB"], ["SWAPDB", 0, 1], ["RENAME", "k", "l"], ["FLUSHALL"],
                      ["GETDEL", "k"], ["APPEND", "k", "x"])[round_ % 8]
            self.c.must(*action)
            allowed = {None, b"old" * 1000}
            if action[0] == "SET":
                allowed = {b"new", b"old" * 1000}
            elif action[0] == "APPEND":
                allowed = {b"old" * 1000, b"old" * 1000 + b"x"}
            for client in waiting:
                self.assertIn(client.receive(), allowed, action)
            if round_ % 10 == 0:
                waiting[0].send(b"GET k\r\n")
                waiting[0].close()
                waiting[0] = self.client()

    def test_order_of_a_pipeline_is_kept_over_cold_keys(self):
        keys = self.fill(500)
        for _ in range(scaled(10)):
            self.make_cold(*keys)
            commands, expected = [], []
            for index, key in enumerate(keys):
                value = (b"v%d;" % index).ljust(20, b".")
                commands += [["GET", key], ["SET", key, "x"], ["GET", key], ["ECHO", index], ["SET", key, value], ["INCR", "n"]]
                expected += [value, OK, b"x", b"%d" % index, OK, index + 1]
            self.c.must("SET", "n", 0)
            self.make_cold("n")
            self.assertTrue(self.c.pipeline(commands) == expected)

    def test_big_commands_over_cold_keys(self):
        keys = self.fill(scaled(20000))
        self.make_cold(*keys)
        values = self.c.must("MGET", *keys)
        self.assertTrue(all(value.startswith(b"v%d;" % index) for index, value in enumerate(values)))
        self.make_cold(*keys)
        self.assertEqual(self.c.must("EXISTS", *keys), len(keys))
        self.make_cold(*keys)
        self.assertEqual(self.c.must("DEL", *keys), len(keys))
        self.assertEqual(self.c.must("DBSIZE"), 0)

    def test_big_values(self):
        value = os.urandom(1 << 20) * 8
        self.c.must("SET", "big", value)
        fields = [word for i in range(20000) for word in ("f%d" % i, "v%d" % i)]
        self.c.must("HSET", "h", *fields)
        for _ in range(3):
            self.make_cold("big", "h")
            self.assertTrue(self.c.must("GET", "big") == value)
            self.assertEqual(self.c.must("HLEN", "h"), 20000)
            self.make_cold("h")
            self.assertEqual(self.c.must("HGET", "h", "f777"), b"v777")
            self.make_cold("h")
            self.assertEqual(self.c.must("HSET", "h", "f777", "v777"), 0)


@kelvin_only
class ManyHandsTest(TierCase):
    options = {"io-threads": "4"}

    def test_no_concurrent_change_of_moving_keys_is_lost(self):
        """Four workers, eight clients, each with its own counters and some shared ones, which are demoted all the time."""
        hands, rounds, wrong = 8, scaled(1500), []
        stop = threading.Event()

        def demoter():
            chooser = random.Random(1)
            with self.server.client() as client:
                while not stop.is_set():
                    client.must("TIER", "DEMOTE", *["own:%d:%d" % (chooser.randrange(hands), chooser.randrange(5))
                                                    for _ in range(6)], "shared:%d" % chooser.randrange(3), "hash")

        def hand(number):
            try:
                with self.server.client() as client:
                    counts = [0] * 5
                    for step in range(rounds):
                        slot = step % 5
                        counts[slot] += 1
                        replies = client.pipeline([
                            ["INCR", "own:%d:%d" % (number, slot)], ["INCR", "shared:%d" % (step % 3)],
                            ["HINCRBY", "hash", "f%d" % (step % 4), 1], ["SET", "blind:%d" % number, step],
                            ["GET", "blind:%d" % number]])
                        if replies[0] != counts[slot] or replies[4] != b"%d" % step:
                            wrong.append((number, step, replies))
                            return
            except Exception as error:          # shown below
                wrong.append((number, repr(error)))
        threads = [threading.Thread(target=hand, args=(number,)) for number in range(hands)]
        background = threading.Thread(target=demoter)
        for thread in threads + [background]:
            thread.start()
        for thread in threads:
            thread.join()
        stop.set()
        background.join()
        self.assertEqual(wrong, [])
        self.assertEqual(sum(int(self.c.must("GET", "shared:%d" % i) or 0) for i in range(3)), hands * rounds)
        self.assertEqual(sum(map(int, self.c.must("HVALS", "hash"))), hands * rounds)


@kelvin_only
class SmallMemoryTest(ServerCase):
    MEGABYTES = 48
    options = {"maxmemory": "48mb"}

    def rss(self):
        with open("/proc/%d/status" % self.server.process.pid) as file:
            return int(file.read().split("VmRSS:")[1].split()[0]) * 1024

    def test_ten_times_the_memory(self):
        def value(i):
            return (b"%d;" % i) * (size // len(b"%d;" % i))
        size, worst = 2000, 0
        count = scaled(10 * (self.MEGABYTES << 20) // size)
        for start in range(0, count, 500):
            replies = self.c.pipeline(["SET", "key:%d" % i, value(i)] for i in range(start, min(count, start + 500)))
            self.assertTrue(all(reply == OK for reply in replies), [r for r in replies if r != OK][:1])
            if start % 5000 == 0:
                worst = max(worst, self.rss())
        self.assertEqual(self.c.must("DBSIZE"), count)
        info = self.server.info()
        self.assertGreater(int(info["tier_cold_keys"]), 0 if is_sanitized() else count // 2)
        self.assertEqual(int(info["tier_hot_keys"]) + int(info["tier_cold_keys"]), count)
        self.assertLessEqual(int(info["used_memory"]), self.MEGABYTES * 1.1 * (1 << 20))
        wrong = 0
        for start in range(0, count, 200):
            replies = self.c.pipeline(["GET", "key:%d" % i] for i in range(start, min(count, start + 200)))
            wrong += sum(reply != value(i) for i, reply in zip(range(start, count), replies))
            if start % 5000 == 0:
                worst = max(worst, self.rss())
        self.assertEqual(wrong, 0)
        cursor, found = b"0", set()
        while True:
            cursor, keys = self.c.must("SCAN", cursor, "COUNT", 5000)
            found.update(keys)
            if cursor == b"0":
                break
        self.assertEqual(len(found), count)
        self.assertEqual(self.c.must("DBSIZE"), count)
        # The memory of the program itself, its libraries and stacks, before the first key.
        if not is_sanitized():
            self.assertLess(worst, self.MEGABYTES * 1.1 * (1 << 20) + (16 << 20), "RSS")

    def test_hot_keys_stay_in_memory(self):
        """Frequently requested keys stay in memory although ten times as many cold keys are loaded."""
        hot = ["hot:%d" % i for i in range(1000)]
        self.c.pipeline(["SET", key, "h" * 1000] for key in hot)
        for step in range(scaled(120)):
            self.c.pipeline(["SET", "cold:%d:%d" % (step, i), "c" * 1000] for i in range(500))
            for _ in range(3):
                self.c.pipeline(["GET", key] for key in hot)
        before = self.server.info("tiering")
        self.c.pipeline(["GET", key] for key in hot)
        after = self.server.info("tiering")
        self.assertGreaterEqual(int(after["tier_hot_hits"]) - int(before["tier_hot_hits"]), 950)


@kelvin_only
class StoreTest(TierCase):
    def test_two_servers_do_not_share_a_store(self):
        second = Server({"dir": self.server.folder}, start=False)
        self.addCleanup(second.discard)
        second.launch()
        self.assertNotEqual(second.wait_end(), 0)
        log = second.log().decode("utf-8", "replace")
        self.assertRegex(log, r"(?i)in use|lock")
        self.c.must("SET", "k", "v")
        self.make_cold("k")
        self.assertEqual(self.c.must("GET", "k"), b"v")

    def test_an_old_store_is_deleted(self):
        """Its records must not be listed, expire or be returned."""
        with Server({"partitions": 1}) as server:
            with server.client() as client:
                client.must("MSET", "a", "1", "b", "2")
                client.must("SET", "soon", "3", "PX", 1500)
                self.assertEqual(client.must("TIER", "DEMOTE", "a", "b", "soon"), 3)
            server.restart(kill=True)
            with server.client() as client:
                client.must("SET", "new", "4")
                self.assertEqual(client.must("TIER", "DEMOTE", "new"), 1)
                self.assertEqual(client.must("KEYS", "*"), [b"new"])
                self.assertEqual(client.must("SCAN", "0"), [b"0", [b"new"]])
                self.assertEqual(client.must("RANDOMKEY"), b"new")
                self.assertEqual(client.must("DBSIZE"), 1)
                self.assertIsNone(client.must("GET", "a"))
                time.sleep(2.0)
                self.assertEqual(client.must("DBSIZE"), 1)
                self.assertEqual(server.info("tiering")["tier_expired_cold"], "0")

    def test_a_store_that_can_not_be_created_is_reported(self):
        server = Server(start=False)
        self.addCleanup(server.discard)
        path = os.path.join(server.folder, "blocked")
        with open(path, "w") as file:
            file.write("a file, not a directory")
        server.options["tier-dir"] = path
        server.launch()
        self.assertNotEqual(server.wait_end(), 0)
        self.assertIn(b"blocked", server.log())


if __name__ == "__main__":
    main()
