"""Streams in pages (tier-page-threshold): pages are small here, and cold most of the time. A second server, which has all of each stream in memory, says what is right."""
import glob
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import check                                                                            # noqa: E402
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import Error, encode                                                               # noqa: E402
from support.server import Server, scaled, seed_new, until                                           # noqa: E402

SMALL = {"tier-page-threshold": 256, "tier-page-size": 64, "stream-node-max-entries": 4}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS = ["s1", "s2", "s3"]
GROUPS, CONSUMERS = ["g1", "g2"], ["alice", "bob"]


def counter(server, name):
    return int(server.info("tiering")[name])


def pages(server):
    return counter(server, "tier_hot_pages"), counter(server, "tier_cold_pages")


def demote(client, *keys):
    """Those that are there are cold afterwards, with all their pages."""
    client.must("TIER", "DEMOTE", *keys)


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
class StreamPagesTest(ServerCase):
    options = SMALL

    def setUp(self):
        super().setUp()
        self.plain = Server({})
        self.addCleanup(self.plain.stop)
        self.other = self.plain.client()
        self.addCleanup(self.other.close)

    def both(self, *words):
        expected = self.other.call(*words)
        self.assertEqual(self.c.call(*words), expected, words)
        return expected

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
        most = 0
        before = counter(self.server, "tier_unplanned_reads")
        with self.subTest(seed=seed):
            for i in range(scaled(8000)):
                words = commands.next()
                self.both(*words)
                self.assertEqual(counter(self.server, "tier_unplanned_reads"), before, words)
                if i % 5 == 0:
                    demote(self.c, *commands.random.sample(KEYS + ["s4"], commands.random.choice([1, 3, 4])))
                if i % 50 == 0:
                    most = max(most, sum(pages(self.server)))
                    self.assert_same_info(commands.key())
                    self.assertEqual(counter(self.server, "tier_unplanned_reads"), before)
            for key in KEYS:
                self.both("XRANGE", key, "-", "+")
                self.both("XREVRANGE", key, "+", "-")
            self.assertGreater(most, 10)

    def test_transactions(self):
        seed = seed_new()
        commands = Commands(seed)
        with self.subTest(seed=seed):
            for _ in range(scaled(300)):
                batch = [("MULTI",)] + [tuple(commands.next()) for _ in range(5)] + [("EXEC",)]
                self.assertEqual(self.c.pipeline(batch), self.other.pipeline(batch), batch)
                demote(self.c, *KEYS)

    def test_a_call_needs_the_pages_that_it_is_about(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "500-1")
        before = counter(self.server, "tier_unplanned_reads")
        for words, most in ((("XADD", "s", "2000-1", "a", "b"), 4), (("XRANGE", "s", "500", "510"), 10), (("XRANGE", "s", "500", "500"), 5), (("XREVRANGE", "s", "+", "-", "COUNT", 3), 5),
                            (("XREAD", "COUNT", 2, "STREAMS", "s", "700-1"), 12), (("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", "s", ">"), 12), (("XDEL", "s", "300-1"), 4),
                            (("XTRIM", "s", "MAXLEN", 900), 10), (("XTRIM", "s", "MINID", "200"), 10), (("XADD", "s", "MAXLEN", 700, "2001-1", "a", "b"), 12), (("XINFO", "STREAM", "s"), 8),
                            (("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "0"), 10), (("XCLAIM", "s", "g", "d", 0, "501-1"), 4), (("XSETID", "s", "3000-1"), 4)):
            with self.subTest(words):
                demote(self.c, "s")
                self.assertEqual(pages(self.server)[0], 0)
                self.c.must(*words)
                self.assertLessEqual(pages(self.server)[0], most)
        demote(self.c, "s")
        for words in (("XLEN", "s"), ("TYPE", "s"), ("OBJECT", "ENCODING", "s"), ("MEMORY", "USAGE", "s"), ("HGET", "s", "x"), ("XACK", "s", "g", "502-1"), ("XPENDING", "s", "g"), ("XINFO", "GROUPS", "s"),
                      ("XGROUP", "CREATE", "s", "another", "$"), ("XINFO", "CONSUMERS", "s", "g")):
            self.c.must(*words) if words[0] != "HGET" else self.c.call(*words)
            self.assertEqual(pages(self.server)[0], 0, words)
        self.assertGreater(self.c.must("MEMORY", "USAGE", "s"), 10000)
        self.assertEqual(counter(self.server, "tier_unplanned_reads"), before)

    def test_what_reads_all_asks_for_it(self):
        fill(self.c)
        self.c.must("XGROUP", "CREATE", "s", "g", "0")
        self.c.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
        before = counter(self.server, "tier_unplanned_reads")
        for words in (("DUMP", "s"), ("COPY", "s", "f", "REPLACE"), ("XINFO", "STREAM", "s", "FULL", "COUNT", 0), ("XRANGE", "s", "-", "+"), ("XAUTOCLAIM", "s", "g", "d", 0, 0, "COUNT", 1000),
                      ("XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", "0"), ("XREADGROUP", "GROUP", "g", "e", "CLAIM", 0, "STREAMS", "s", ">"), ("XTRIM", "s", "DELREF", "MAXLEN", 900),
                      ("XTRIM", "s", "ACKED", "MAXLEN", 700), ("XDELEX", "s", "DELREF", "IDS", 2, "950-1", "951-1"), ("XACKDEL", "s", "g", "IDS", 1, "960-1"), ("MOVE", "s", 3)):
            demote(self.c, "s")
            self.c.must(*words)
            self.assertEqual(counter(self.server, "tier_unplanned_reads"), before, words)

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
        for words in (("XRANGE", "s", 5, 9), ("XREVRANGE", "s", "+", "-", "COUNT", 2), ("XINFO", "STREAM", "s")):
            demote(self.c, "s")
            before = int(self.server.info("stats")["keyspace_hits"])
            self.c.must(*words)
            self.assertEqual(int(self.server.info("stats")["keyspace_hits"]), before + 1, words)

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
        for name, run in gone.items():
            with self.subTest(name):
                fill(self.c)
                demote(self.c, "s")
                self.assertGreater(pages(self.server)[1], 50)
                run()
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")
                self.c.must("FLUSHALL")

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
class KeptStreamPagesTest(unittest.TestCase):
    """What is on the disk."""

    def test_restarts(self):
        seed = seed_new()
        commands = Commands(seed)
        with Server({}) as plain, plain.client() as other, self.subTest(seed=seed):
            server = Server(LOGGED)
            try:
                for turn in range(scaled(10)):
                    with server.client() as client:
                        for i in range(150):
                            words = commands.next()
                            self.assertEqual(client.call(*words), other.call(*words), words)
                            if i % 10 == 0:
                                demote(client, *KEYS)
                        if turn % 3 == 1:
                            client.must("BGREWRITEAOF")
                            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")
                    server.restart(kill=turn % 2 == 1)
                    with server.client() as client:
                        for key in KEYS:
                            self.assertEqual(whole(client, key), whole(other, key))
                            self.assertEqual(client.call("XINFO", "GROUPS", key), other.call("XINFO", "GROUPS", key))
                            for group in GROUPS:
                                self.assertEqual(client.call("XPENDING", key, group), other.call("XPENDING", key, group))
                server.terminate()
                status, text = check.verify(server.folder)
                self.assertEqual(status, 0, text)
                server.start()
            finally:
                server.stop()

    def test_a_dump_has_the_streams_as_a_whole(self):
        with Server(SMALL) as server, server.client() as client:
            fill(client)
            fill(client, "t", 300)
            client.must("XADD", "t", "5000-1", "large", "x" * 100000)
            client.must("XGROUP", "CREATE", "s", "g", "0")
            client.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
            client.must("XDEL", "s", "7-1", "1000-1")
            digest = client.must("DEBUG", "DIGEST")
            demote(client, "s", "t")
            client.must("SAVE")
            for threshold in (256, 0):
                client.must("CONFIG", "SET", "tier-page-threshold", threshold)
                client.must("DEBUG", "RELOAD", "NOSAVE")
                self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                self.assertEqual(sum(pages(server)) > 0, threshold > 0)

    def test_a_damaged_page_costs_what_is_in_it(self):
        server = Server(LOGGED)
        try:
            with server.client() as client:
                client.pipeline([("XADD", "s", "%d-1" % (i + 1), "text", "entry:%d" % i) for i in range(1000)])
                demote(client, "s")
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")
                client.must("SET", "another", "x")
            server.terminate()
            for path in glob.glob(os.path.join(server.folder, "appendonlydir", "*.image", "store", "*.seg")):
                with open(path, "rb") as file:
                    text = file.read()
                with open(path, "wb") as file:
                    file.write(text.replace(b"entry:555", b"ENTRY:555"))
            status, text = check.verify(server.folder)
            self.assertEqual(status, 1, text)
            self.assertRegex(text, r'key "s", database 0: 1 of its \d+ pages are damaged or missing')
            server.start()
            with server.client() as client:
                good = bad = 0
                for i in range(1000):
                    reply = client.call("XRANGE", "s", "%d-1" % (i + 1), "%d-1" % (i + 1))
                    good += reply == [[b"%d-1" % (i + 1), [b"text", b"entry:%d" % i]]]
                    bad += isinstance(reply, Error)
                self.assertEqual(good + bad, 1000)
                self.assertTrue(0 < bad < 10, bad)
                self.assertEqual(client.must("XLEN", "s"), 1000)
                self.assertIsInstance(client.call("XRANGE", "s", "-", "+"), Error)
                client.must("XADD", "s", "5000-1", "a", "b")
                self.assertEqual(client.must("XTRIM", "s", "MAXLEN", 3), 998)
                self.assertEqual(client.must("DEL", "s"), 1)
                until(lambda: pages(server) == (0, 0), what="the end of the pages")
        finally:
            server.stop()

    def test_replicas(self):
        for threshold in (0, 256):
            with Server(SMALL) as primary, primary.client() as client, Server(dict(SMALL, **{"tier-page-threshold": threshold})) as replica, replica.client() as reader:
                fill(client)
                client.must("XGROUP", "CREATE", "s", "g", "0")
                client.must("XREADGROUP", "GROUP", "g", "c", "COUNT", 400, "STREAMS", "s", ">")
                demote(client, "s")
                reader.must("REPLICAOF", "127.0.0.1", primary.port)
                until(lambda: replica.info("replication").get("master_link_status") == "up", what="the link")
                commands = Commands(7)
                for _ in range(300):
                    client.call(*commands.next())
                demote(client, *KEYS, "s")
                client.must("XTRIM", "s", "MAXLEN", "~", 300)
                client.must("XADD", "s", "MAXLEN", "~", 200, "*", "a", "b")
                for _ in range(300):
                    client.call(*commands.next())
                client.must("WAIT", 1, 5000)
                self.assertEqual(reader.must("DEBUG", "DIGEST"), client.must("DEBUG", "DIGEST"))


if __name__ == "__main__":
    main()
