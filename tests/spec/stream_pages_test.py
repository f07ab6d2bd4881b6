"""Streams in pages (tier-page-threshold): pages are small here, and cold most of the time. A second server, which has all of each stream in memory, says what is right."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.paged import KeptPagedCase, PagedCase, demote, pages, refuses_damaged_dumps             # noqa: E402
from support.resp import Error, encode                                                               # noqa: E402
from support.server import REDIS, Server, scaled, seed_new, until                                   # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 64, "stream-node-max-entries": 4}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS = ["s1", "s2", "s3"]
GROUPS, CONSUMERS = ["g1", "g2"], ["alice", "bob"]


def fill(client, key="s", count=1000):
    """A stream of some hundred pages."""
    client.pipeline([("XADD", key, "%d-1" % (i + 1), "number", i, "text", "some text") for i in range(count)])


def whole(client, key):
    return client.must("XRANGE", key, "-", "+")


class Commands:
    """Random commands on some streams."""

    def __init__(self, seed):
        self.random, self.last = random.Random(seed), 0
        self.makers = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def next(self):
        return [str(word) for word in self.random.choice(self.makers)()]

    def key(self):
        return self.random.choice(KEYS)

    def group(self):
        return self.random.choice(GROUPS)

    def consumer(self):
        return self.random.choice(CONSUMERS)

    def id(self):
        return "%d-%d" % (max(0, self.last - self.random.randrange(600)), self.random.randrange(3))

    def ids(self):
        return [self.id() for _ in range(self.random.choice([1, 1, 2, 10]))]

    def count(self):
        return self.random.choice([[], ["COUNT", self.random.randrange(1, 30)]])

    def fields(self):
        return self.random.choice([["a", self.random.randrange(100), "b", "text"], ["a", 1, "b", "x" * self.random.randrange(300)], ["other", self.random.randrange(10 ** 6)]])

    def do_xadd(self):
        self.last += self.random.randrange(3)
        trim = self.random.choice([[], [], [], [], ["MAXLEN", self.random.randrange(50, 300)], ["MINID", self.id()], ["NOMKSTREAM"]])
        return ["XADD", self.key()] + trim + ["%d-*" % (self.last + 1)] + self.fields()

    do_xadd_2 = do_xadd_3 = do_xadd_4 = do_xadd_5 = do_xadd_6 = do_xadd_7 = do_xadd

    def do_xtrim(self):
        return ["XTRIM", self.key()] + self.random.choice([["MAXLEN", self.random.randrange(100, 400)], ["MINID", "%d" % max(0, self.last - self.random.randrange(400, 900))], ["MAXLEN", "=", 200]])

    def do_xdel(self):
        return ["XDEL", self.key()] + self.ids()

    def do_xrange(self):
        one, other = self.random.choice(["-", self.id(), "(" + self.id()]), self.random.choice(["+", self.id(), "(" + self.id()])
        return self.random.choice([["XRANGE", self.key(), one, other] + self.count(), ["XREVRANGE", self.key(), other, one] + self.count(), ["XLEN", self.key()], ["XRANGE", self.key(), "-", "+"]])

    do_xrange_2 = do_xrange_3 = do_xrange

    def do_xread(self):
        return ["XREAD"] + self.count() + self.random.choice([["STREAMS", self.key(), self.id()], ["STREAMS", "s1", "s2", self.id(), self.id()], ["BLOCK", 1, "STREAMS", self.key(), "$"]])

    do_xread_2 = do_xread

    def do_group(self):
        return self.random.choice([["XGROUP", "CREATE", self.key(), self.group(), self.random.choice(["0", "$", self.id()])], ["XGROUP", "SETID", self.key(), self.group(), self.id()],
                                   ["XGROUP", "DELCONSUMER", self.key(), self.group(), self.consumer()], ["XGROUP", "CREATE", self.key(), self.group(), "0", "MKSTREAM"]])

    def do_xreadgroup(self):
        return ["XREADGROUP", "GROUP", self.group(), self.consumer()] + self.count() + self.random.choice([["STREAMS", self.key(), ">"], ["STREAMS", self.key(), ">"], ["STREAMS", self.key(), "0"],
                                                                                                              ["NOACK", "STREAMS", "s1", "s2", ">", ">"], ["STREAMS", self.key(), self.id()]])

    do_xreadgroup_2 = do_xreadgroup_3 = do_xreadgroup

    def do_xack(self):
        return ["XACK", self.key(), self.group()] + self.ids()

    def do_claim(self):
        return self.random.choice([["XCLAIM", self.key(), self.group(), self.consumer(), 0] + self.ids(), ["XAUTOCLAIM", self.key(), self.group(), self.consumer(), 0, self.id(), "COUNT", 5],
                                   ["XAUTOCLAIM", self.key(), self.group(), self.consumer(), 0, "0", "JUSTID"], ["XCLAIM", self.key(), self.group(), self.consumer(), 0] + self.ids() + ["FORCE", "JUSTID"]])

    do_claim_2 = do_claim

    def do_xsetid(self):
        return ["XSETID", self.key(), "%d-0" % (self.last + 1)]

    def do_generic(self):
        one, other = self.key(), self.key()
        return self.random.choice([["COPY", one, other, "REPLACE"], ["RENAME", one, other], ["RENAMENX", one, "s4"], ["RENAME", "s4", one], ["DEL", one] if self.random.random() < .1 else ["TYPE", one],
                                   ["EXPIRE", one, 1000], ["PERSIST", one], ["OBJECT", "ENCODING", one], ["HGET", one, "x"]])

    def do_script(self):
        self.last += 2
        return ["EVAL", "redis.call('XADD', KEYS[1], ARGV[1], 'k', 'v'); local r = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 3); redis.call('XTRIM', KEYS[1], 'MAXLEN', 300); "
                "return {r, redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 2)}", 1, self.key(), "%d-*" % (self.last + 1)]


@kelvin_only
class StreamPagesTest(PagedCase):
    options = SMALL

    def assert_same_info(self, key):
        """But for how many nodes there are."""
        for words in (("XINFO", "STREAM", key), ("XINFO", "GROUPS", key)):
            replies = [client.call(*words) for client in (self.c, self.other)]
            for reply in replies:
                if isinstance(reply, list) and words[1] == "STREAM":
                    for name in b"radix-tree-keys", b"radix-tree-nodes":
                        reply[reply.index(name) + 1] = None
            self.assertEqual(*replies)

    def test_random_commands(self):
        seed = seed_new()
        commands = Commands(seed)
        with self.subTest(seed=seed):
            self.check_random_commands(commands, KEYS + ["s4"], lambda words, reply: False, lambda: self.assert_same_info(commands.key()))
            for key in KEYS:
                self.both("XRANGE", key, "-", "+")
                self.both("XREVRANGE", key, "+", "-")

    def test_transactions(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_transactions(Commands(seed), KEYS)

    def test_a_call_needs_the_pages_that_it_is_about(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "500-1")
        self.check_needs("s", ((("XADD", "s", "2000-1", "a", "b"), 4), (("XRANGE", "s", "500", "510"), 10), (("XRANGE", "s", "500", "500"), 5), (("XREVRANGE", "s", "+", "-", "COUNT", 3), 5),
                            (("XREAD", "COUNT", 2, "STREAMS", "s", "700-1"), 12), (("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "s", ">"), 12), (("XDEL", "s", "300-1"), 4),
                            (("XTRIM", "s", "MAXLEN", 900), 10), (("XTRIM", "s", "MINID", "200"), 10), (("XADD", "s", "MAXLEN", 700, "2001-1", "a", "b"), 12), (("XINFO", "STREAM", "s"), 8),
                            (("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "0"), 10), (("XCLAIM", "s", "g", "d", 0, "501-1"), 4), (("XSETID", "s", "3000-1"), 4)))
        self.check_needs_none("s", (("XLEN", "s"), ("TYPE", "s"), ("OBJECT", "ENCODING", "s"), ("MEMORY", "USAGE", "s"), ("HGET", "s", "x"), ("XACK", "s", "g", "502-1"), ("XPENDING", "s", "g"), ("XINFO", "GROUPS", "s"),
                      ("XGROUP", "CREATE", "s", "another", "$"), ("XINFO", "CONSUMERS", "s", "g")))
        self.assertGreater(self.c.must("MEMORY", "USAGE", "s"), 10000)

    def test_what_reads_all_asks_for_it(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "0")
        self.c.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
        self.check_asks(["s"], (("DUMP", "s"), ("COPY", "s", "f", "REPLACE"), ("XINFO", "STREAM", "s", "FULL", "COUNT", 0), ("XRANGE", "s", "-", "+"), ("XAUTOCLAIM", "s", "g", "d", 0, 0, "COUNT", 1000),
                      ("XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", "0"), ("XREADGROUP", "GROUP", "g", "e", "CLAIM", 0, "STREAMS", "s", ">"), ("XTRIM", "s", "DELREF", "MAXLEN", 900),
                      ("XTRIM", "s", "ACKED", "MAXLEN", 700), ("XDELEX", "s", "DELREF", "IDS", 2, "950-1", "951-1"), ("XACKDEL", "s", "g", "IDS", 1, "960-1"), ("MOVE", "s", 3)))

    def test_no_call_reads_what_it_has_not_asked_for(self):
        """What random commands meet too rarely: a node that goes is the last one below its own; one stream twice; entries that are pending and were deleted."""
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "300-1")
        calls = [("XREADGROUP", "GROUP", "g", "c", "COUNT", 5, "STREAMS", "s", "s", ">", ">")] * 4
        self.check_asks(["s"], calls)
        self.c.must("XADD", "x", "1-1", "large", "x" * 500)
        for i in range(300):
            self.c.must("XADD", "x", "%d-1" % (i + 2), "large", "x" * 300)           # alone in its node
        self.c.must("XGROUP", "CREATE", "x", "g", "0")
        self.c.must("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")
        self.check_asks(["x"], [("XDEL", "x", "%d-1" % i) for i in range(3, 100, 2)] + [("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "x", "%d-1" % i) for i in range(0, 110)])

    def test_idle_entries_are_asked_for_only_if_there_are_any(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "0")
        self.c.must("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        demote(self.c, "s")
        self.c.must("XREADGROUP", "GROUP", "g", "d", "COUNT", 1, "CLAIM", 3600000, "STREAMS", "s", ">")
        self.assertLess(pages(self.server)[0], 8)
        demote(self.c, "s")
        self.assertEqual(self.c.must("XREADGROUP", "GROUP", "g", "d", "COUNT", 1, "CLAIM", 0, "STREAMS", "s", ">")[0][1][0][0], b"1-1")
        self.assertLess(pages(self.server)[0], 10)

    def test_idle_entries_that_were_deleted_are_passed_over(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "0")
        self.c.must("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        for first in (1, 201, 401, 601):
            self.c.must("XDEL", "s", *["%d-1" % i for i in range(first, first + 150)])
        self.check_asks(["s"], [("XREADGROUP", "GROUP", "g", "d", "COUNT", 3, "CLAIM", 0, "STREAMS", "s", ">"), ("XREADGROUP", "GROUP", "g", "e", "COUNT", 20, "CLAIM", 0, "STREAMS", "s", "s", ">", ">")] * 6)

    def test_a_log_has_no_more_pages_for_ever(self):
        most = 0
        for turn in range(20):
            self.c.pipeline([("XADD", "s", "MAXLEN", "~", 1500, "%d-1" % (turn * 1000 + i + 1), "number", i) for i in range(1000)])
            demote(self.c, "s")
            if turn == 6:
                most = sum(pages(self.server))
        self.assertLess(sum(pages(self.server)), most * 1.2)
        self.assertGreaterEqual(self.c.must("XLEN", "s"), 1500)

    def test_a_call_that_runs_again_is_one_hit(self):
        fill(self.c)
        self.check_one_hit("s", (("XRANGE", "s", 5, 9), ("XREVRANGE", "s", "+", "-", "COUNT", 2), ("XINFO", "STREAM", "s")))

    def test_whatever_deletes_a_cold_stream_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "s"),
            "SET": lambda: self.c.must("SET", "s", "x"),
            "XTRIM, DEL": lambda: (self.c.must("XTRIM", "s", "MAXLEN", 0), self.c.must("DEL", "s")),
            "XDEL, DEL": lambda: (self.c.must("XDEL", "s", *["%d-1" % (i + 1) for i in range(1000)]), self.c.must("DEL", "s")),
            "PEXPIRE": lambda: self.c.must("PEXPIRE", "s", 1),
            "RENAME": lambda: (self.c.must("SET", "x", "x"), self.c.must("RENAME", "x", "s")),
            "RENAME, DEL": lambda: (self.c.must("RENAME", "s", "another"), demote(self.c, "another"), self.c.must("DEL", "another")),
            "MOVE": lambda: (self.c.must("MOVE", "s", 5), self.c.must("FLUSHALL")),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
        }
        self.check_gone(fill, "s", gone)

    def test_an_empty_stream_stays(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "5-1")
        self.c.must("XTRIM", "s", "MAXLEN", 0)
        demote(self.c, "s")
        self.assertEqual(self.c.must("XLEN", "s"), 0)
        self.assertIsInstance(self.c.call("XADD", "s", "1000-1", "a", "b"), Error)
        self.c.must("XADD", "s", "1001-1", "a", "b")
        demote(self.c, "s")
        self.assertEqual(whole(self.c, "s"), [[b"1001-1", [b"a", b"b"]]])
        self.assertEqual(self.c.must("XINFO", "GROUPS", "s")[0][1], b"g")

    def test_clients_that_wait_get_what_is_cold(self):
        waiting = self.server.client()
        for words in (["XREAD", "BLOCK", 5000, "STREAMS", "awaited", "997-1"], ["XREADGROUP", "GROUP", "g", "c", "BLOCK", 5000, "STREAMS", "awaited", ">"]):
            fill(self.c, "other")
            if words[0] == "XREADGROUP":
                self.c.must("XGROUP", "CREATE", "awaited", "g", "997-1", "MKSTREAM")
            waiting.send(encode(words))
            until(lambda: int(self.server.info("clients")["blocked_clients"]) == 1, what="a client that waits")
            if words[0] == "XREAD":
                demote(self.c, "other")
                self.c.must("RENAME", "other", "awaited")
                self.assertEqual([id for id, _ in waiting.receive()[0][1]], [b"998-1", b"999-1", b"1000-1"])
            else:
                fill(self.c, "awaited")
                self.assertEqual(waiting.receive()[0][1][0][0], b"998-1")
            self.c.must("DEL", "awaited", "other")
        waiting.close()


@kelvin_only
class KeptStreamPagesTest(KeptPagedCase):
    """What is on the disk."""

    def test_restarts(self):
        def assert_same(client, other):
            for key in KEYS:
                self.assertEqual(whole(client, key), whole(other, key))
                self.assertEqual(client.call("XINFO", "GROUPS", key), other.call("XINFO", "GROUPS", key))
                for group in GROUPS:
                    self.assertEqual(client.call("XPENDING", key, group), other.call("XPENDING", key, group))

        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_restarts(LOGGED, Commands(seed), KEYS, assert_same)

    def test_a_dump_has_the_streams_as_a_whole(self):
        def fill_both(client):
            fill(client)
            fill(client, "t", 300)
            client.must("XADD", "t", "5000-1", "large", "x" * 100000)
            client.must("XGROUP", "CREATE", "s", "g", "0")
            client.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
            client.must("XDEL", "s", "7-1", "1000-1")

        self.check_dump(SMALL, fill_both, ["s", "t"])

    def test_dumps_of_groups_and_of_nothing(self):
        """What follows the nodes is not compressed, whatever it looks like; and a stream that was empty from the beginning has no pages."""
        def fill_some(client):
            for i in range(2000, 2188):
                client.must("XADD", "s", "%d-0" % i, "text", "some text")
            for number in range(5):
                client.must("XGROUP", "CREATE", "s", "g%d" % number, 0)
                client.must("XREADGROUP", "GROUP", "g%d" % number, "alice", "COUNT", 55 + number * 7, "STREAMS", "s", ">")
                client.must("XACK", "s", "g%d" % number, "%d-0" % (2098 - number * 11))
            client.must("XTRIM", "s", "MAXLEN", 11)
            client.must("XADD", "e", "1-1", "a", "x" * 400)
            client.must("XDEL", "e", "1-1")

        self.check_dump(SMALL, fill_some, ["s", "e"])

    def fill_large(self, client, key, count):
        for start in range(1, count, 1000):
            client.pipeline([("XADD", key, "%d-1" % i, "number", i, "text", "%060d" % i) for i in range(start, start + 1000)])
        client.must("XDEL", key, "1-1", "5000-1", "%d-1" % count)
        client.must("XGROUP", "CREATE", key, "g", "0")
        client.must("XREADGROUP", "GROUP", "g", "alice", "COUNT", 500, "STREAMS", key, ">")
        client.must("XREADGROUP", "GROUP", "g", "bob", "COUNT", 50, "STREAMS", key, ">")
        client.must("XACK", key, "g", "7-1")
        client.must("XGROUP", "CREATE", key, "end", "$")

    def facts(self, client, key, count):
        info = client.must("XINFO", "STREAM", key)
        info = dict(zip(info[::2], info[1::2]))
        return [client.must("XLEN", key), [info[name] for name in (b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"recorded-first-entry-id", b"first-entry", b"last-entry", b"groups")],
                [client.must("XRANGE", key, i, "+", "COUNT", 2) for i in range(1, count, count // 100)], client.must("XPENDING", key, "g"), client.must("XPENDING", key, "g", "-", "+", 700)[0][:2],
                [dict(zip(group[::2], group[1::2])) for group in client.must("XINFO", "GROUPS", key)]]

    def test_a_dump_of_streams_that_are_larger_than_memory(self):
        """They are read in parts, also those of Redis."""
        count = scaled(200) * 1000
        server = Server({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "noeviction"})
        try:
            for source in ("kelvin", "redis"):
                with Server({} if source == "redis" else server.options, binary=REDIS if source == "redis" else None) as origin, origin.client(timeout=60) as client:
                    for key, some in (("large", count), ("small", count // 40)):
                        self.fill_large(client, key, some)
                    client.must("SET", "last", "x")
                    facts = self.facts(client, "large", count), self.facts(client, "small", count // 40)
                    client.must("SAVE")
                    with open(os.path.join(origin.folder, "dump.rdb"), "rb") as file:
                        text = file.read()
                for threshold, memory in (("4kb", "16mb"), (0, "1gb"), ("1kb", "16mb")):
                    with self.subTest(source=source, threshold=threshold, memory=memory):
                        server.terminate()
                        with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
                            file.write(text)
                        server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                        server.start()
                        with server.client(timeout=60) as client:
                            self.assertEqual((self.facts(client, "large", count), self.facts(client, "small", count // 40)), facts)
                            if threshold:
                                self.assertGreater(sum(pages(server)), count // 100)
                                self.assertLess(int(server.info("memory")["used_memory"]), 22 << 20)
                            self.assertEqual(client.must("XADD", "large", "*", "a", "b")[-2:], b"-0")
                            client.must("SAVE")
                        server.restart()
                        with server.client(timeout=60) as client:
                            self.assertEqual(client.must("XLEN", "large"), count - 2)
        finally:
            server.stop()

    def test_what_is_evicted_during_a_load_makes_room_later(self):
        """Large values are freed by another thread."""
        server = Server({})
        try:
            with server.client(timeout=60) as client:
                for key in range(6):
                    client.pipeline([("XADD", "s%d" % key, "%d-1" % i, "text", "x" * 400) for i in range(1, 20001)])
                client.must("SAVE")
            server.options.update({"maxmemory": "30mb", "maxmemory-policy": "allkeys-lru", "tier-enabled": "no"})
            server.restart()
            with server.client() as client:
                keys = client.must("KEYS", "*")
                self.assertGreater(len(keys), 0)
                self.assertEqual([client.must("XLEN", key) for key in keys], [20000] * len(keys))
        finally:
            server.stop()

    def test_a_dump_whose_last_id_is_below_a_deleted_entry(self):
        """XSETID of Redis 7.0 makes such streams."""
        with Server({}, binary=REDIS) as origin, origin.client() as other:
            for i in range(1, 201):
                other.must("XADD", "s", "%d-0" % i, "text", "some text")
            other.must("XDEL", "s", *["%d-0" % i for i in (3, 197, 198, 199, 200)])
            if isinstance(other.call("XSETID", "s", "197-5"), Error):
                self.skipTest("this redis-server has no such streams")
            other.must("SAVE")
            with open(os.path.join(origin.folder, "dump.rdb"), "rb") as file:
                text = file.read()
            other.must("XADD", "s", "198-0", "another", "one")
            server = Server(SMALL)
            try:
                for threshold in (0, 256):
                    server.terminate()
                    with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
                        file.write(text)
                    server.options["tier-page-threshold"] = threshold
                    server.start()
                    with server.client() as client:
                        self.assertEqual(client.must("XADD", "s", "198-0", "another", "one"), b"198-0")
                        self.assertEqual(whole(client, "s"), whole(other, "s"))
                        client.must("DEBUG", "RELOAD")
                        self.assertEqual(whole(client, "s"), whole(other, "s"))
            finally:
                server.stop()

    def test_a_damaged_dump_of_a_large_stream_is_refused(self):
        server = Server({"tier-page-threshold": 0, "rdbcompression": "no"})
        try:
            with server.client(timeout=60) as client:
                self.fill_large(client, "s", 30000)
                facts = self.facts(client, "s", 30000)
                client.must("SAVE")
            server.terminate()
            server.options.update({"tier-page-threshold": "4kb", "maxmemory": "8mb", "rdbchecksum": "no"})
            refuses_damaged_dumps(self, server, lambda text: (
                (text[:len(text) // 2], "ends early"), (text.replace(b"\xbc%060d" % 20000, b"\xbd%060d" % 20000), "is damaged"),
                (text.replace(b"\x80\0\0\x75\x2d", b"\x80\0\0\x75\x2e"), "The value of the key 's' is damaged")))        # 29,997 entries, after the nodes
            with server.client() as client:
                self.assertEqual(self.facts(client, "s", 30000), facts)
        finally:
            server.stop()

    def test_a_damaged_page_costs_what_is_in_it(self):
        def fill_one(client):
            client.pipeline([("XADD", "s", "%d-1" % (i + 1), "text", "entry:%d" % i) for i in range(1000)])

        def look(client, i):
            reply = client.call("XRANGE", "s", "%d-1" % (i + 1), "%d-1" % (i + 1))
            return reply == [[b"%d-1" % (i + 1), [b"text", b"entry:%d" % i]]] or reply

        def then(client):
            self.assertEqual(client.must("XLEN", "s"), 1000)
            self.assertIsInstance(client.call("XRANGE", "s", "-", "+"), Error)
            client.must("XADD", "s", "5000-1", "a", "b")
            self.assertEqual(client.must("XTRIM", "s", "MAXLEN", 3), 998)

        self.check_damage(LOGGED, fill_one, "s", (b"entry:555", b"ENTRY:555"), 1, look, 10, then)

    def test_replicas(self):
        def fill_one(client):
            fill(client)
            client.must("XGROUP", "CREATE", "s", "g", "0")
            client.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
            demote(client, "s")

        def run(client):
            commands = Commands(7)
            for _ in range(300):
                client.call(*commands.next())
            demote(client, *KEYS, "s")
            client.must("XTRIM", "s", "MAXLEN", "~", 300)
            client.must("XADD", "s", "MAXLEN", "~", 200, "*", "a", "b")
            for _ in range(300):
                client.call(*commands.next())

        def agree(reader, client):
            self.assertEqual(reader.must("DEBUG", "DIGEST"), client.must("DEBUG", "DIGEST"))

        self.check_replicas(SMALL, fill_one, run, agree)


if __name__ == "__main__":
    main()
