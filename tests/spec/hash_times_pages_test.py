"""Hashes in pages (tier-page-threshold) whose fields expire: pages are small here, and cold most of the time. A second server, which has all hashes in memory, says what is right."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.bound import rss_peak, rss_peak_reset                                                # noqa: E402
from support.case import kelvin_only, main                                                           # noqa: E402
from support.paged import KeptPagedCase, PagedCase, checkpoint, demote, pages                       # noqa: E402
from support.resp import NULL_ARRAY, Error, Status                                                                 # noqa: E402
from support.server import Server, scaled, seed_new, until                                           # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 128, "hash-max-listpack-entries": 0}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS = ["h1", "h2", "h3"]
FAR = 4000000000000                             # milliseconds
UNORDERED = ("HGETALL", "HKEYS", "HVALS")


def far(i):
    return FAR + i * 7919 % 100000 * 1000


def fill(client, key="h", count=1000, when=far):
    """A hash of some hundred pages; three of four fields have times."""
    client.must("HSET", key, *[word for i in range(count) for word in (b"field:%06d" % i, b"value:%06d" % i)])
    client.pipeline([("HPEXPIREAT", key, when(i), "FIELDS", 1, "field:%06d" % i) for i in range(count) if i % 4])


def milliseconds():
    return int(time.time() * 1000)


def wait_for(when):
    while milliseconds() <= when + 5:
        time.sleep(.01)


class Commands:
    """Random commands on some hashes; no field expires meanwhile."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.makers = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def next(self):
        return [word if isinstance(word, bytes) else str(word) for word in self.random.choice(self.makers)()]

    def key(self):
        return self.random.choice(KEYS)

    def field(self):
        return "f%d" % self.random.randrange(300)

    def fields(self):
        return [self.field() for _ in range(self.random.choice([1, 1, 2, 20]))]

    def named(self):
        fields = self.fields()
        return ["FIELDS", len(fields)] + fields

    def value(self):
        return b"v" * self.random.choice([0, 1, 5, 20, 300])

    def pairs(self):
        return [word for field in self.fields() for word in (field, self.value())]

    def when(self):
        return FAR + self.random.choice([0, 1, self.random.randrange(100000)]) * 1000

    def do_hset(self):
        return ["HSET", self.key()] + self.pairs()

    do_hset_2 = do_hset

    def do_hdel(self):
        return ["HDEL", self.key()] + self.fields()

    def do_expire(self):
        condition = self.random.choice([[], [], [], ["NX"], ["XX"], ["GT"], ["LT"]])
        command = self.random.choice([["HPEXPIREAT", self.key(), self.when()], ["HEXPIREAT", self.key(), self.when() // 1000]])
        return command + condition + self.named()

    do_expire_2 = do_expire_3 = do_expire_4 = do_expire

    def do_past(self):
        return self.random.choice([["HPEXPIREAT", self.key(), 1], ["HEXPIRE", self.key(), 0], ["HGETEX", self.key(), "PXAT", 1]]) + self.named()

    def do_persist(self):
        return ["HPERSIST", self.key()] + self.named()

    def do_times(self):
        return [self.random.choice(["HPEXPIRETIME", "HEXPIRETIME"]), self.key()] + self.named()

    do_times_2 = do_times

    def do_getex(self):
        return ["HGETEX", self.key()] + self.random.choice([[], ["PXAT", self.when()], ["PERSIST"]]) + self.named()

    def do_getdel(self):
        return ["HGETDEL", self.key()] + self.named()

    def do_setex(self):
        pairs = self.pairs()
        return (["HSETEX", self.key()] + self.random.choice([[], ["FNX"], ["FXX"]]) + self.random.choice([[], ["PXAT", self.when()], ["KEEPTTL"], ["PXAT", 1]]) +
                ["FIELDS", len(pairs) // 2] + pairs)

    do_setex_2 = do_setex

    def do_change(self):
        return self.random.choice([["HINCRBY", self.key(), "number", 5], ["HINCRBYFLOAT", self.key(), "other", "1.5"], ["HSETNX", self.key(), self.field(), "x"]])

    def do_read(self):
        return self.random.choice([["HGET", self.key(), self.field()], ["HMGET", self.key()] + self.fields(), ["HEXISTS", self.key(), self.field()], ["HSTRLEN", self.key(), self.field()],
                                   ["HLEN", self.key()], ["TYPE", self.key()], ["OBJECT", "ENCODING", self.key()]])

    do_read_2 = do_read

    def do_all(self):
        return [self.random.choice(UNORDERED), self.key()]

    def do_generic(self):
        one, other = self.key(), self.key()
        return self.random.choice([["COPY", one, other, "REPLACE"], ["RENAME", one, other], ["RENAMENX", one, "h4"], ["RENAME", "h4", one], ["EXPIRE", one, 100000], ["PERSIST", one], ["DEL", one]])

    def do_script(self):
        return ["EVAL", "redis.call('HSET', KEYS[1], ARGV[1], 'x'); redis.call('HPEXPIREAT', KEYS[1], ARGV[2], 'FIELDS', 1, ARGV[1]); return redis.call('HLEN', KEYS[1])", 1, self.key(), self.field(), self.when()]


def sorted_reply(words, reply):
    if not isinstance(reply, list) or words[0] not in UNORDERED:
        return reply
    return sorted(zip(reply[::2], reply[1::2])) if words[0] == "HGETALL" else sorted(reply)


class TimesCase(PagedCase):
    options = SMALL

    def both(self, *words):
        expected = sorted_reply(words, self.other.call(*words))
        self.assertEqual(sorted_reply(words, self.c.call(*words)), expected, words)
        return expected

    def assert_same(self, key):
        self.both("HGETALL", key)
        for name in self.both("HKEYS", key):
            self.both("HPEXPIRETIME", key, "FIELDS", 1, name)


@kelvin_only
class HashTimesPagesTest(TimesCase):
    def setUp(self):
        super().setUp()
        self.other.must("CONFIG", "SET", "hash-max-listpack-entries", 0)
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    def test_random_commands(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_random_commands(Commands(seed), KEYS + ["h4"], lambda words, reply: False, lambda: None)
            for key in KEYS:
                self.assert_same(key)

    def test_transactions(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            commands = Commands(seed)
            for _ in range(scaled(300)):
                batch = [("MULTI",)] + [tuple(commands.next()) for _ in range(5)] + [("EXEC",)]
                replies = [client.pipeline(batch) for client in (self.c, self.other)]
                for words, reply, expected in zip(batch[1:], replies[0][-1], replies[1][-1]):
                    self.assertEqual(sorted_reply(words, reply), sorted_reply(words, expected), words)
                demote(self.c, *KEYS)

    def test_a_call_needs_the_pages_that_it_is_about(self):
        fill(self.c)
        self.check_needs("h", ((("HGET", "h", "field:000001"), 1), (("HPTTL", "h", "FIELDS", 1, "field:000001"), 1), (("HINCRBY", "h", "number", 1), 1), (("HGET", "h", "none"), 1), (("HSET", "h", "field:000004", "x"), 1),
                            (("HSET", "h", "field:000005", "x"), 6), (("HPEXPIREAT", "h", FAR, "FIELDS", 1, "field:000006"), 6), (("HPEXPIREAT", "h", FAR, "FIELDS", 1, "field:000008"), 5),
                            (("HPERSIST", "h", "FIELDS", 1, "field:000009"), 6), (("HDEL", "h", "field:000010"), 6), (("HGETDEL", "h", "FIELDS", 1, "field:000011"), 6),
                            (("HGETEX", "h", "FIELDS", 1, "field:000013"), 1), (("HGETEX", "h", "PXAT", FAR, "FIELDS", 1, "field:000013"), 9),
                            (("HSETEX", "h", "KEEPTTL", "FIELDS", 1, "field:000014", "x"), 2), (("HSETEX", "h", "PXAT", FAR, "FIELDS", 1, "field:000014", "x"), 6),
                            (("HPERSIST", "h", "FIELDS", 1, "field:000012"), 1)))
        self.check_needs_none("h", (("HLEN", "h"), ("TYPE", "h"), ("OBJECT", "ENCODING", "h"), ("MEMORY", "USAGE", "h"), ("EXISTS", "h"), ("GET", "h")))
        self.assertGreater(self.c.must("MEMORY", "USAGE", "h"), 30000)

    def test_what_reads_all_asks_for_it(self):
        fill(self.c)
        self.check_asks(["h"], (("HGETALL", "h"), ("HKEYS", "h"), ("DUMP", "h"), ("COPY", "h", "g", "REPLACE"), ("HRANDFIELD", "h", 5), ("HRANDFIELD", "h", 900), ("HSCAN", "h", 0, "COUNT", 50), ("SORT", "none", "BY", "h->*"),
                                ("MOVE", "h", 3)))
        self.assertEqual(self.c.must("HPEXPIRETIME", "g", "FIELDS", 2, "field:000001", "field:000004"), [far(1), -1])

    def test_the_first_time_leaves_the_other_pages_where_they_are(self):
        self.c.must("HSET", "h", *[word for i in range(3000) for word in ("field:%06d" % i, "v")])
        self.check_needs("h", ((("HPEXPIREAT", "h", FAR, "FIELDS", 1, "field:000006"), 2), (("HPEXPIREAT", "h", FAR + 1, "FIELDS", 1, "field:000007"), 3)))
        self.assertGreater(pages(self.server)[1], 150)
        self.check_needs("h", ((("HPERSIST", "h", "FIELDS", 2, "field:000006", "field:000007"), 3),))
        cold = sum(pages(self.server))
        self.c.must("HPEXPIREAT", "h", FAR, "FIELDS", 1, "field:000006")
        self.assertEqual(sum(pages(self.server)), cold + 1)

    def test_fields_expire(self):
        """Cold and hot, few and many together, some and all: those that are left are right, and no page is read that was not asked for."""
        for turn in range(scaled(12)):
            when = milliseconds() + 1000
            share = [1, 2, 10, 1000][turn % 4]
            active = turn % 2
            for client in (self.c, self.other):
                client.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
                fill(client, "h1", 1000, lambda i: when - i % 40 if i % share == 0 else far(i))
                fill(client, "h2", 30, lambda i: when)
                client.must("HPEXPIREAT", "h2", when, "FIELDS", 8, *["field:%06d" % i for i in range(0, 30, 4)])
            demote(self.c, *KEYS)
            if turn % 3:
                self.c.must("HGET", "h1", "field:000001")
            wait_for(when)
            before = self.unplanned()
            if active:
                time.sleep(.5)
            for words in random.sample([("HLEN", "h1"), ("HGET", "h1", "field:000001"), ("HMGET", "h1", "field:000010", "field:000004"), ("HGETALL", "h1"), ("EXISTS", "h2"), ("HSET", "h1", "field:000001", "y"),
                                        ("HPEXPIRETIME", "h1", "FIELDS", 2, "field:000002", "field:000003"), ("HLEN", "h2"), ("TYPE", "h1")], 9):
                if words != ("EXISTS", "h2") or active:
                    self.both(*words)
                self.assertEqual(self.unplanned(), before, words)
            self.assert_same("h1")
            self.both("DEL", *KEYS)
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_expired_fields_of_a_resident_hash_go_although_their_pages_are_cold(self):
        when, before = milliseconds() + 1000, int(self.server.info("stats")["expired_subkeys"])
        fill(self.c, "h", 2000, lambda i: when if i % 4 == 1 else far(i))
        demote(self.c, "h")
        self.c.must("HGET", "h", "field:000000")
        wait_for(when)
        until(lambda: int(self.server.info("stats")["expired_subkeys"]) == before + 500, what="expired fields")
        self.assertEqual(self.c.must("HLEN", "h"), 1500)

    def test_events_and_the_log_name_what_has_expired(self):
        when = milliseconds() + 1000
        self.c.must("CONFIG", "SET", "notify-keyspace-events", "Kgh")
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        fill(self.c, "h", 1000, lambda i: when if i < 80 else far(i))
        demote(self.c, "h")
        with self.server.client() as reader:
            reader.must("SUBSCRIBE", "__keyspace@0__:h")
            wait_for(when)
            self.assertEqual(self.c.must("HLEN", "h"), 940)             # they are hidden
            self.c.must("HINCRBY", "h", "number", 1)                    # before it they are removed
            self.assertEqual([reader.receive()[2], reader.receive()[2]], [b"hexpired", b"hincrby"])
            self.c.must("HDEL", "h", "field:000000")
            self.assertEqual(reader.receive()[2], b"hdel")

    def expired_hash(self, key, count, expired, renamed=None):
        """All cold; some of its fields have expired, and are there still. It may have been renamed before."""
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        when = milliseconds() + 100
        self.c.must("HSET", key, *[word for i in range(count) for word in (b"field:%06d" % i, b"value:%06d" % i)])
        self.c.must("HPEXPIREAT", key, when, "FIELDS", expired, *["field:%06d" % i for i in range(expired)])
        if renamed is not None:
            self.c.must("RENAME", key, renamed)
        demote(self.c, renamed or key)
        wait_for(when)

    def test_what_overwrites_or_deletes_a_hash_does_not_remove_its_expired_fields_before(self):
        """Nor does it need the partition with the pages, which RENAME has left where they were."""
        self.c.pipeline([("SET", "small", "x"), ("SADD", "set", "x"), ("ZADD", "zset", 1, "x")])
        payload = self.c.must("DUMP", "small")
        ways = {"DEL": ("DEL", "h"), "UNLINK": ("UNLINK", "h"), "SET": ("SET", "h", "x"), "MSET": ("MSET", "h", "x"), "SETNX": ("SETNX", "h", "x"), "MSETNX": ("MSETNX", "h", "x"), "RENAME": ("RENAME", "small", "h"),
                "RENAMENX": ("RENAMENX", "small", "h"), "COPY": ("COPY", "small", "h"), "COPY REPLACE": ("COPY", "small", "h", "REPLACE"), "BITOP": ("BITOP", "NOT", "h", "small"),
                "SUNIONSTORE": ("SUNIONSTORE", "h", "set"), "ZUNIONSTORE": ("ZUNIONSTORE", "h", 1, "zset"), "RESTORE": ("RESTORE", "h", 0, payload, "REPLACE"), "SORT": ("SORT", "set", "ALPHA", "STORE", "h"),
                "EVAL": ("EVAL", "return redis.call('SET', KEYS[1], 'x')", 1, "h"), "EVAL DEL": ("EVAL", "return redis.call('DEL', KEYS[1])", 1, "h")}
        for name, words in ways.items():
            for expired in (20, 300, 400):
                for renamed in (False, True):
                    with self.subTest(name, expired=expired, renamed=renamed):
                        self.expired_hash("g" if renamed else "h", 400, expired, "h" if renamed else None)
                        self.c.must("SET", "small", "x")
                        before = self.unplanned()
                        self.c.call(*words)
                        self.assertEqual(self.unplanned(), before)
                        self.c.must("DEL", "h", "g")
                        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_hash_renamed_to_another_partition_expires_when_it_is_used(self):
        for i in range(20):
            self.expired_hash("h", 300, 200, "k%d" % i)
            self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)
            self.assertEqual(self.c.must("HLEN", "k%d" % i), 100)
            self.assertEqual(self.c.must("HSET", "k%d" % i, "new", "x"), 1)
            self.assertEqual(self.c.must("HLEN", "k%d" % i), 101)
            self.c.must("DEL", "k%d" % i)
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_watch_of_a_hash_with_hidden_fields_holds(self):
        self.expired_hash("h", 300, 200)
        self.assertEqual(self.c.pipeline([("WATCH", "h"), ("MULTI",), ("HLEN", "h"), ("EXEC",)])[-1], [100])

    def test_a_watch_does_not_see_that_expired_fields_are_removed(self):
        """They were gone when it began, in pages and in memory."""
        for threshold in 256, 0:
            self.c.must("CONFIG", "SET", "tier-page-threshold", threshold)
            for expired in 1, 200, 300:
                with self.subTest(threshold=threshold, expired=expired), self.server.client() as other:
                    self.expired_hash("h", 300, expired)
                    self.c.must("WATCH", "h")
                    other.must("HGETALL", "h")
                    other.call("HGET", "h", "field:000299")
                    reply = self.c.pipeline([("MULTI",), ("HLEN", "h"), ("EXEC",)])[-1]
                    if expired < 300:
                        self.assertEqual(reply, [300 - expired])
                    self.c.must("DEL", "h")
        self.c.must("CONFIG", "SET", "tier-page-threshold", 256)

    def test_a_watch_of_a_hash_with_hidden_fields_sees_the_next_one_expire(self):
        for renamed in None, "k":
            key, when = renamed or "h", milliseconds() + 200
            self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            self.c.must("HSET", "h", *[word for i in range(300) for word in (b"field:%06d" % i, b"v")])
            self.c.must("HPEXPIREAT", "h", when, "FIELDS", 200, *["field:%06d" % i for i in range(200)])
            self.c.must("HPEXPIREAT", "h", when + 500, "FIELDS", 1, "field:000299")
            if renamed is not None:
                self.c.must("RENAME", "h", renamed)
            demote(self.c, key)
            wait_for(when)
            self.c.must("WATCH", key)
            self.assertEqual(self.c.must("HMGET", key, "field:000299", "field:000000"), [b"v", None])
            self.assertEqual(self.c.pipeline([("MULTI",), ("HLEN", key), ("EXEC",)])[-1], [100])
            self.c.must("WATCH", key)
            wait_for(when + 500)
            self.assertIs(self.c.pipeline([("MULTI",), ("HGET", key, "field:000299"), ("EXEC",)])[-1], NULL_ARRAY)
            self.c.must("DEL", key)

    def test_expired_fields_go_a_few_at_a_time_in_transactions_and_scripts_too(self):
        calls = {
            "MULTI": lambda client: client.pipeline([("MULTI",), ("HSET", "h", "new", "v"), ("HLEN", "h"), ("EXEC",)])[-1][1],
            "EVAL": lambda client: client.must("EVAL", "redis.call('HSET', KEYS[1], 'new', 'v'); return redis.call('HLEN', KEYS[1])", 1, "h"),
            "MULTI, renamed": lambda client: client.pipeline([("MULTI",), ("RENAME", "h", "k"), ("HSET", "k", "new", "v"), ("HLEN", "k"), ("RENAME", "k", "h"), ("EXEC",)])[-1][2],
        }
        with Server({"maxmemory": "16mb", "tier-page-threshold": "64kb", "maxmemory-policy": "noeviction"}) as server, server.client() as client:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            for name, call in calls.items():
                with self.subTest(call=name):
                    when = milliseconds() + 4000
                    for i in range(0, 40000, 100):
                        client.must("HSET", "h", *[word for n in range(i, i + 100) for word in (b"f%d" % n, b"%d" % n + b"v" * 1000)])
                        client.must("HPEXPIREAT", "h", when, "FIELDS", 95, *["f%d" % n for n in range(i, i + 95)])
                    wait_for(when)
                    demote(client, "h")
                    rss_peak_reset(server.process.pid)
                    before = rss_peak(server.process.pid)
                    self.assertEqual(call(client), 2001)
                    self.assertLess(rss_peak(server.process.pid), before + (8 << 20))
                    self.assertEqual(client.must("HLEN", "h"), 2001)
                    client.must("DEL", "h")
                    until(lambda: pages(server) == (0, 0), what="the end of the pages")

    def test_expired_fields_with_large_values_go_a_few_at_a_time(self):
        with Server({"maxmemory": "8mb", "tier-page-threshold": "64kb", "maxmemory-policy": "noeviction"}) as server, server.client() as client:
            for active in (0, 1):
                client.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
                when = milliseconds() + 3000
                client.must("HSET", "h", "live", "v")
                for i in range(110):
                    client.must("HSET", "h", "f%d" % i, b"%d" % i + b"v" * 100000)
                for i in range(90):
                    client.must("HPEXPIREAT", "h", when, "FIELDS", 1, "f%d" % i)
                wait_for(when)
                self.assertEqual(client.must("HGET", "h", "live"), b"v")
                self.assertEqual(client.must("HLEN", "h"), 21)
                if active:
                    until(lambda: client.must("HGET", "h", "live") == b"v" and client.must("MEMORY", "USAGE", "h") < 3 << 20, what="the end of the expired fields")     # it stays in memory
                self.assertEqual(client.must("HSET", "h", "another", "v"), 1)
                self.assertEqual(client.must("HLEN", "h"), 22)
                self.assertLess(int(server.info("memory")["used_memory"]), 10 << 20)
                client.must("DEL", "h")

    def test_whatever_deletes_a_cold_hash_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "h"),
            "SET": lambda: self.c.must("SET", "h", "x"),
            "PEXPIRE": lambda: self.c.must("PEXPIRE", "h", 1),
            "RENAME": lambda: (self.c.must("SET", "t", "x"), self.c.must("RENAME", "t", "h")),
            "RENAME, DEL": lambda: (self.c.must("RENAME", "h", "another"), demote(self.c, "another"), self.c.must("DEL", "another")),
            "MOVE": lambda: (self.c.must("MOVE", "h", 5), self.c.must("FLUSHALL")),
            "HDEL": lambda: self.c.must("HDEL", "h", *["field:%06d" % i for i in range(1000)]),
            "HPEXPIREAT": lambda: self.c.must("HPEXPIREAT", "h", 1, "FIELDS", 1000, *["field:%06d" % i for i in range(1000)]),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
        }
        self.check_gone(fill, "h", gone)

    def test_a_cold_hash_whose_fields_have_all_expired_is_gone_with_its_pages(self):
        for active in (1, 0):
            with self.subTest(active=active):
                when = milliseconds() + 1200
                self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
                fill(self.c, "h", 1000, lambda i: when - i % 100)
                self.c.must("HPEXPIREAT", "h", when, "FIELDS", 250, *["field:%06d" % i for i in range(0, 1000, 4)])
                demote(self.c, "h")
                wait_for(when)
                if not active:
                    self.assertEqual(self.c.must("HLEN", "h"), 0)
                until(lambda: self.c.must("EXISTS", "h") == 0 and pages(self.server) == (0, 0), what="the end of the pages")

    def test_the_last_fields_expire_although_the_hash_was_to_live_longer(self):
        """The latest time was once a later one, so it is not known when the hash ends."""
        for active in (1, 0):
            with self.subTest(active=active):
                when = milliseconds() + 1200
                self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
                fill(self.c, "h", 400, lambda i: FAR + i)
                demote(self.c, "h")
                for first in range(0, 400, 40):
                    self.c.must("HPEXPIREAT", "h", when, "FIELDS", 40, *["field:%06d" % i for i in range(first, first + 40)])
                    demote(self.c, "h")
                wait_for(when)
                if active:
                    self.c.must("TYPE", "h")
                until(lambda: self.c.must("EXISTS", "h") == 0 or not active, what="the end of the hash")
                self.assertEqual(self.c.must("HLEN", "h"), 0)
                self.assertEqual(self.c.must("EXISTS", "h"), 0)
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_call_that_runs_again_is_one_hit(self):
        fill(self.c)
        self.check_one_hit("h", (("HGET", "h", "field:000001"), ("HGETALL", "h"), ("HPTTL", "h", "FIELDS", 1, "field:000001"), ("HRANDFIELD", "h", 5), ("HSCAN", "h", 0)))


@kelvin_only
class KeptHashTimesPagesTest(KeptPagedCase):
    """What is on the disk."""

    def test_restarts(self):
        def assert_same(client, other):
            for key in KEYS:
                self.assertEqual(sorted_reply(("HGETALL",), client.call("HGETALL", key)), sorted_reply(("HGETALL",), other.call("HGETALL", key)))
                for name in other.must("HKEYS", key):
                    self.assertEqual(client.must("HPEXPIRETIME", key, "FIELDS", 1, name), other.must("HPEXPIRETIME", key, "FIELDS", 1, name))

        class Ordered(Commands):
            def do_all(self):
                return ["HLEN", self.key()]

            def do_read(self):
                return ["HGET", self.key(), self.field()]

            do_read_2 = do_read

        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_restarts(LOGGED, Ordered(seed), KEYS, assert_same)

    def test_fields_that_expire_while_the_server_is_down(self):
        server = Server(LOGGED)
        try:
            for kill in (False, True):
                when = milliseconds() + 2000
                with server.client() as client:
                    fill(client, "h", 1000, lambda i: when if i % 4 == 1 else far(i))
                    demote(client, "h")
                    checkpoint(server, client)
                    client.must("HSET", "h", "field:000001", "again")
                server.restart(kill=kill)
                wait_for(when)
                with server.client() as client:
                    self.assertEqual(client.must("HLEN", "h"), 751)
                    self.assertEqual(client.must("HMGET", "h", "field:000001", "field:000005", "field:000004"), [b"again", None, b"value:000004"])
                    client.must("DEL", "h")
        finally:
            server.stop()

    def test_a_dump_has_the_times(self):
        self.check_dump(SMALL, fill, ["h"])

    def test_a_dump_of_hashes_that_are_larger_than_memory(self):
        """They are read in parts, also of a file that was written by a server without pages."""
        count = scaled(150000)
        server = Server({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "noeviction"})
        try:
            with server.client(timeout=60) as client:
                for first in range(0, count, 1000):
                    client.must("HSET", "h", *[word for i in range(first, first + 1000) for word in (b"field:%06d" % i, b"value:%06d" % i * 5)])
                    timed = ["field:%06d" % i for i in range(first, first + 1000) if i % 4]
                    client.must("HPEXPIREAT", "h", far(first), "FIELDS", len(timed), *timed)
                client.must("SET", "last", "x")
                digest = client.must("DEBUG", "DIGEST")
                client.must("SAVE")
            for threshold, memory in (("64kb", "8mb"), ("64kb", "1gb"), (0, "1gb")):
                with self.subTest(threshold=threshold, memory=memory):
                    server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                    server.restart()
                    with server.client(timeout=60) as client:
                        self.assertEqual(client.must("HLEN", "h"), count)
                        self.assertEqual(sum(pages(server)) > 0, threshold != 0)
                        for i in range(0, count, count // 100):
                            self.assertEqual(client.must("HGET", "h", "field:%06d" % i), b"value:%06d" % i * 5)
                            self.assertEqual(client.must("HPEXPIRETIME", "h", "FIELDS", 1, "field:%06d" % i), [far(i // 1000 * 1000) if i % 4 else -1])
                        if memory == "8mb":
                            self.assertLess(int(server.info("memory")["used_memory"]), 12 << 20)
                            client.must("SAVE")
                        else:
                            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
        finally:
            server.stop()

    def test_a_dump_without_times_is_for_redis(self):
        with Server(dict(SMALL, **{"repl-diskless-sync": "no"})) as server, server.client() as client:
            fill(client)
            demote(client, "h")
            client.must("CONFIG", "SET", "tier-page-threshold", 0)
            payload = client.must("DUMP", "h")
            self.assertEqual(payload[0], 24)
            client.must("RESTORE", "g", 0, payload)
            self.assertEqual(client.must("DEBUG", "DIGEST-VALUE", "g"), client.must("DEBUG", "DIGEST-VALUE", "h"))

    def test_a_damaged_page_costs_the_fields_in_it(self):
        def look(client, i):
            reply = client.call("HGET", "h", "field:%06d" % i)
            return reply == b"value:%06d" % i or reply

        def then(client):
            self.assertEqual(client.must("HLEN", "h"), 1000)
            self.assertIsInstance(client.call("HGETALL", "h"), Error)
            self.assertIsInstance(client.call("HSET", "h", "field:000555", "x"), Error)
            self.assertEqual(client.must("HSET", "h", "field:000001", "x"), 0)

        self.check_damage(LOGGED, fill, "h", (b"value:000555", b"VALUE:000555"), 1, look, 60, then)

    def damage_segments(self, server, old, new):
        """What has these bytes gets others, so that its checksum is wrong."""
        for folder, _, names in os.walk(server.folder):
            for name in names:
                if name.endswith(".seg"):
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        text = file.read()
                    with open(path, "wb") as file:
                        file.write(text.replace(old, new))

    def test_a_watch_of_a_hash_of_which_nothing_has_expired_reads_no_page(self):
        """So damage of the page with the first times costs it nothing."""
        server = Server(LOGGED)
        try:
            with server.client() as client:
                fill(client, "h", 1000, far)
                demote(client, "h")
                checkpoint(server, client)
                client.must("SET", "another", "x")
            server.terminate()
            self.damage_segments(server, b"field:000000", b"FIELD:000000")
            server.start()
            with server.client() as client:
                self.assertEqual(client.pipeline([("WATCH", "h"), ("MULTI",), ("HLEN", "h"), ("EXEC",)])[-1], [1000])
                self.assertEqual(int(server.info("tiering")["tier_unplanned_reads"]), 0)
                self.assertIsInstance(client.call("HGET", "h", "field:000000"), Error)
        finally:
            server.stop()

    def test_a_damaged_page_with_expired_fields_costs_no_others(self):
        server = Server(dict(LOGGED, **{"enable-debug-command": "yes"}))
        try:
            with server.client() as client:
                client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
                when = milliseconds() + 3000
                fill(client, "h", 1000, lambda i: when if i % 2 else far(i))
                demote(client, "h")
                checkpoint(server, client)
                client.must("SET", "another", "x")
            server.terminate()
            self.damage_segments(server, b"value:000555", b"VALUE:000555")
            server.start()
            wait_for(when)
            with server.client() as client:
                self.assertEqual(client.must("HLEN", "h"), 500)
                self.assertEqual(client.must("EXISTS", "h"), 1)
                self.assertEqual(client.must("TYPE", "h"), Status(b"hash"))
                replies = [client.call("HGET", "h", "field:%06d" % i) for i in range(0, 1000, 2)]
                bad = sum(isinstance(reply, Error) for reply in replies)
                self.assertEqual(bad + sum(reply == b"value:%06d" % (2 * i) for i, reply in enumerate(replies)), 500)
                self.assertLess(bad, 40)
                self.assertIsInstance(client.call("HSET", "h", "new", "x"), Error)
                self.assertEqual(client.must("DEL", "h"), 1)
                until(lambda: pages(server) == (0, 0), what="the end of the pages")
        finally:
            server.stop()

    def test_replicas_hide_what_has_expired(self):
        """The primary does not remove it, so its replica can't; what is read there is as if it were gone."""
        when = milliseconds() + 3000

        def run(client):
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("HSET", "h", "new", "x")
            wait_for(when)

        def fill_some(client):
            fill(client, "h", 1000, lambda i: when if i % 4 == 1 else far(i))
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)

        def agree(reader, client):
            if reader.must("CONFIG", "GET", "tier-page-threshold")[1] != b"0":
                demote(reader, "h")
            self.assertEqual(reader.must("HLEN", "h"), 751)
            self.assertEqual(reader.must("HMGET", "h", "field:000001", "field:000002", "new"), [None, b"value:000002", b"x"])
            self.assertEqual(reader.must("HEXISTS", "h", "field:000005"), 0)
            self.assertEqual(reader.must("HPEXPIRETIME", "h", "FIELDS", 3, "field:000001", "field:000002", "field:000004"), [-2, far(2), -1])
            self.assertEqual(len(reader.must("HKEYS", "h")), 751)
            self.assertNotIn(b"field:000001", reader.must("HRANDFIELD", "h", 751))
            cursor, seen = b"0", set()
            while True:
                cursor, page = reader.must("HSCAN", "h", cursor, "COUNT", 50)
                seen.update(page[::2])
                if cursor == b"0":
                    break
            self.assertEqual(len(seen), 751)
            self.assertEqual(client.must("HLEN", "h"), 751)
            until(lambda: reader.must("DEBUG", "DIGEST-VALUE", "h") == client.must("DEBUG", "DIGEST-VALUE", "h"), what="the same hash")

        self.check_replicas(LOGGED, fill_some, run, agree)


if __name__ == "__main__":
    main()
