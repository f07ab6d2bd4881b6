"""Strings in blocks (tier-page-threshold): pages are small here, and cold most of the time. A second server, which has all strings in one piece, says what is right."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.paged import KeptPagedCase, PagedCase, checkpoint, counter, demote, pages               # noqa: E402
from support.resp import Error                                                                       # noqa: E402
from support.server import Server, scaled, seed_new, until                                           # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 64}         # blocks of 192 bytes
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS = ["s1", "s2", "s3"]
BLOCK = 192


def text_of(i):
    return b"text:%06d:" % i + b"-" * 196         # 208 bytes


def fill(client, key="s", count=200):
    """A string of more than a hundred blocks; that it is used in parts makes them."""
    client.must("SET", key, b"".join(text_of(i) for i in range(count)))
    client.must("GETRANGE", key, 0, 0)


class Commands:
    """Random commands on some strings."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.makers = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def next(self):
        return [word if isinstance(word, bytes) else str(word) for word in self.random.choice(self.makers)()]

    def key(self):
        return self.random.choice(KEYS)

    def at(self):
        return self.random.choice([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, self.random.randrange(3000), self.random.randrange(9000)])

    def index(self):
        return self.random.choice([self.at(), -self.at(), -1])

    def text(self):
        size = self.random.choice([0, 1, 7, 60, BLOCK, 2 * BLOCK + 5, 900])
        return b"\0" * size if self.random.random() < .2 else b"\xff" * size if self.random.random() < .1 else self.random.randbytes(size)

    def do_setrange(self):
        return ["SETRANGE", self.key(), self.at(), self.text()]

    do_setrange_2 = do_setrange_3 = do_setrange

    def do_setbit(self):
        return ["SETBIT", self.key(), self.at() * self.random.choice([1, 8]), self.random.randrange(2)]

    do_setbit_2 = do_setbit

    def do_append(self):
        return ["APPEND", self.key(), self.text()]

    def do_read(self):
        return self.random.choice([["GETRANGE", self.key(), self.index(), self.index()], ["SUBSTR", self.key(), self.index(), self.index()], ["GETBIT", self.key(), self.at() * 8],
                                   ["STRLEN", self.key()], ["GET", self.key()], ["MGET"] + KEYS, ["GETEX", self.key(), "PERSIST"]])

    do_read_2 = do_read

    def do_count(self):
        return self.random.choice([["BITCOUNT", self.key()], ["BITCOUNT", self.key(), self.index(), self.index()], ["BITCOUNT", self.key(), self.index(), self.index(), self.unit()]])

    def unit(self):
        return self.random.choice(["BIT", "BYTE"])

    def do_find(self):
        bit = self.random.randrange(2)
        return self.random.choice([["BITPOS", self.key(), bit], ["BITPOS", self.key(), bit, self.index()], ["BITPOS", self.key(), bit, self.index(), self.index(), self.unit()]])

    do_find_2 = do_find

    def width(self):
        return self.random.choice(["u%d" % self.random.randrange(1, 64), "i%d" % self.random.randrange(1, 65)])

    def do_field(self):
        steps = []
        for _ in range(self.random.choice([1, 1, 3])):
            offset = self.at() * 8 + self.random.randrange(8)
            steps += self.random.choice([["SET", self.width(), offset, self.random.randrange(1000)], ["INCRBY", self.width(), offset, self.random.randrange(-99, 99)], ["GET", self.width(), offset],
                                         ["OVERFLOW", "FAIL", "INCRBY", "u3", offset, 5]])
        return ["BITFIELD", self.key()] + steps

    do_field_2 = do_field

    def do_field_ro(self):
        return ["BITFIELD_RO", self.key(), "GET", self.width(), self.at() * 8]

    def do_whole(self):
        one, other = self.key(), self.key()
        return self.random.choice([["SET", one, self.text()], ["SET", one, self.text(), "GET"], ["GETSET", one, self.text()], ["GETDEL", one], ["DEL", one], ["INCR", one], ["INCRBYFLOAT", one, "1.5"],
                                   ["SETNX", one, "x"], ["LCS", one, other, "LEN"], ["BITOP", self.random.choice(["AND", "OR", "XOR"]), one, other, self.key()], ["BITOP", "NOT", one, other],
                                   ["PFADD", one, "x"], ["PFCOUNT", one]])

    def do_generic(self):
        one, other = self.key(), self.key()
        return self.random.choice([["COPY", one, other, "REPLACE"], ["RENAME", one, other], ["RENAMENX", one, "s4"], ["RENAME", "s4", one], ["EXPIRE", one, 1000], ["PERSIST", one], ["TYPE", one],
                                   ["LPUSH", one, "x"], ["DEBUG", "DIGEST-VALUE", one]])

    def do_script(self):
        return ["EVAL", "redis.call('SETRANGE', KEYS[1], 500, ARGV[1]); local r = redis.call('GETRANGE', KEYS[1], 400, 700); redis.call('APPEND', KEYS[1], r); return r", 1, self.key(), self.text()]


@kelvin_only
class StringPagesTest(PagedCase):
    options = SMALL

    def test_random_commands(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_random_commands(Commands(seed), KEYS + ["s4"], lambda words, reply: words[0] == "DEBUG", lambda: None)
            for key in KEYS:
                self.both("GET", key)

    def test_transactions(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_transactions(Commands(seed), KEYS)

    def test_a_call_needs_the_blocks_that_it_is_about(self):
        fill(self.c)
        self.check_needs("s", ((("GETRANGE", "s", 5000, 5010), 2), (("GETBIT", "s", 90000), 1), (("SETBIT", "s", 90000, 1), 1), (("SETRANGE", "s", 7000, "x"), 1), (("BITCOUNT", "s", 1000, 2000), 7),
                            (("SETRANGE", "s", BLOCK * 4, "x" * BLOCK * 3), 3), (("APPEND", "s", "x"), 1), (("BITFIELD", "s", "SET", "u8", 100, 7, "GET", "u8", 200000), 2), (("BITPOS", "s", 1), 1),
                            (("BITFIELD_RO", "s", "GET", "u8", 100), 1), (("GETRANGE", "s", -3, -1), 2), (("BITPOS", "s", 1, 20000), 1)))
        self.check_needs_none("s", (("STRLEN", "s"), ("TYPE", "s"), ("OBJECT", "ENCODING", "s"), ("MEMORY", "USAGE", "s"), ("INCR", "s"), ("SETNX", "s", "x"), ("HGET", "s", "x"), ("GETRANGE", "s", 5, 4),
                                    ("GETRANGE", "s", 500000, 500001), ("GETBIT", "s", 4000000)))
        self.c.must("SETBIT", "zeros", 8000 * 8, 1)
        demote(self.c, "s")
        self.check_needs("zeros", ((("BITPOS", "zeros", 0), 1), (("BITPOS", "zeros", 1), 42), (("BITPOS", "zeros", 1, 7900), 4)))
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "s"), b"raw")
        self.assertGreater(self.c.must("MEMORY", "USAGE", "s"), 40000)

    def test_what_reads_all_asks_for_it(self):
        fill(self.c)
        fill(self.c, "t", 10)
        self.c.must("SET", "counted", b"x")
        self.check_asks(["s", "t"], (("GET", "s"), ("MGET", "s", "t"), ("DUMP", "s"), ("COPY", "s", "f", "REPLACE"), ("BITCOUNT", "s"), ("BITPOS", "s", 1, 0, 0), ("LCS", "s", "t", "LEN"), ("BITOP", "NOT", "n", "s"),
                                     ("SET", "counted", "x", "GET"), ("GETEX", "s", "PERSIST"), ("MOVE", "s", 3)))

    def test_a_field_after_the_end_is_asked_for_if_the_string_grows(self):
        for steps in (("GET", "u8", 4080, "SET", "u8", 4800, 1), ("SET", "u8", 4800, 1, "GET", "u8", 4040), ("OVERFLOW", "FAIL", "SET", "u2", 4800, 15, "GET", "u8", 4080)):
            self.c.must("SET", "s", "x" * 500)
            self.c.must("GETRANGE", "s", 0, 0)
            self.check_asks(["s"], [("BITFIELD", "s") + steps])

    def test_what_overwrites_a_string_reads_nothing_of_it(self):
        self.c.must("SET", "small", "abc")
        for words in (("SET", "s", "v", "NX"), ("SET", "s", "v", "XX"), ("SET", "s", "v", "KEEPTTL"), ("SETEX", "s", 100, "v"), ("SETNX", "s", "v"), ("MSETNX", "s", "v"), ("MSETEX", 1, "s", "v", "NX"),
                      ("MSETEX", 1, "s", "v", "XX"), ("DELEX", "s"), ("BITOP", "NOT", "s", "small"), ("COPY", "small", "s"), ("COPY", "small", "s", "REPLACE"), ("INCR", "s"), ("INCRBYFLOAT", "s", 1),
                      ("RENAME", "small", "s")):
            with self.subTest(words):
                fill(self.c)
                demote(self.c, "s")
                before = counter(self.server, "tier_promotions")
                self.c.call(*words)
                self.assertLessEqual(counter(self.server, "tier_promotions"), before + 1)           # the key, not its blocks

    def test_zeros_that_are_overwritten_unread_count(self):
        self.c.must("SETBIT", "s", BLOCK * 1000 * 8, 1)
        demote(self.c, "s")
        for i in range(0, 1000, 10):
            self.c.must("SETRANGE", "s", i * BLOCK, "x" * BLOCK * 10)
        self.assertGreater(self.c.must("MEMORY", "USAGE", "s"), 1000 * BLOCK)

    def test_a_string_has_no_more_than_a_billion_blocks(self):
        with Server(dict(SMALL, **{"proto-max-bulk-len": 10 ** 12})) as server, server.client() as client:
            fill(client, count=3)
            for words in (("SETRANGE", "s", 300000000000, "x"), ("BITFIELD", "s", "SET", "u8", 8 * 300000000000, 1)):
                self.assertIn("string exceeds maximum allowed size", str(client.call(*words)))
            self.assertEqual(client.must("GET", "s"), b"".join(text_of(i) for i in range(3)))

    def test_a_string_gets_into_blocks_when_it_is_used_in_parts(self):
        text = b"".join(text_of(i) for i in range(20))
        uses = {"GETRANGE": ("s", 3, 5), "SUBSTR": ("s", 3, 5), "SETRANGE": ("s", 3, "x"), "GETBIT": ("s", 3), "SETBIT": ("s", 3, 1), "APPEND": ("s", "x"), "BITFIELD": ("s", "GET", "u8", 0),
                "BITFIELD_RO": ("s", "GET", "u8", 0), "BITCOUNT": ("s", 0, 5), "BITPOS": ("s", 1, 3)}
        for name, words in uses.items():
            with self.subTest(name):
                self.c.must("SET", "s", text)
                for whole in (("GET", "s"), ("STRLEN", "s"), ("BITCOUNT", "s"), ("BITPOS", "s", 1), ("SET", "s", text)):
                    self.c.must(*whole)
                    self.assertEqual(pages(self.server), (0, 0))
                self.c.must(name, *words)
                self.assertEqual(pages(self.server), (22, 0))
                self.assertEqual(len(self.c.must("GET", "s")), len(text) + (name == "APPEND"))
                self.c.must("SET", "s", text)                     # it is one piece again
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")
        self.c.must("SET", "short", "x" * 255)
        self.c.must("GETRANGE", "short", 0, 5)
        self.assertEqual(pages(self.server), (0, 0))
        self.c.must("SETBIT", "new", 8 * 1000, 1)               # never in one piece
        self.assertEqual(pages(self.server), (6, 0))

    def test_a_sparse_bitmap_takes_no_memory_for_what_was_never_set(self):
        with Server({"maxmemory": "8gb", "tier-page-threshold": "64kb"}) as server, server.client() as client:
            before = int(server.info("memory")["used_memory"])
            self.assertEqual(client.must("SETBIT", "b", (1 << 30) - 1, 1), 0)
            self.assertEqual(client.must("SETBIT", "b", 5000, 1), 0)
            self.assertEqual(client.must("STRLEN", "b"), 1 << 27)
            self.assertLess(int(server.info("memory")["used_memory"]) - before, 8 << 20)
            self.assertEqual(client.must("BITCOUNT", "b"), 2)
            self.assertEqual(client.must("BITPOS", "b", 1, 1000), (1 << 30) - 1)
            self.assertEqual(client.must("GETBIT", "b", (1 << 30) - 1), 1)
            self.assertLess(client.must("MEMORY", "USAGE", "b"), 8 << 20)

    def test_a_call_that_runs_again_is_one_hit(self):
        fill(self.c)
        self.check_one_hit("s", (("GETRANGE", "s", 5, 900), ("GETBIT", "s", 500), ("BITCOUNT", "s"), ("BITPOS", "s", 1, 7000), ("GET", "s")))

    def test_whatever_deletes_a_cold_string_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "s"),
            "SET": lambda: self.c.must("SET", "s", "x"),
            "MSET": lambda: self.c.must("MSET", "s", "x"),
            "GETDEL": lambda: self.c.must("GETDEL", "s"),
            "GETSET": lambda: self.c.must("GETSET", "s", "x"),
            "BITOP": lambda: self.c.must("BITOP", "NOT", "s", "none"),
            "PEXPIRE": lambda: self.c.must("PEXPIRE", "s", 1),
            "SORT": lambda: self.c.must("SORT", "none", "STORE", "s"),
            "RENAME": lambda: (self.c.must("SET", "t", "x"), self.c.must("RENAME", "t", "s")),
            "RENAME, DEL": lambda: (self.c.must("RENAME", "s", "another"), demote(self.c, "another"), self.c.must("DEL", "another")),
            "MOVE": lambda: (self.c.must("MOVE", "s", 5), self.c.must("FLUSHALL")),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
        }
        self.check_gone(fill, "s", gone)

    def test_a_string_that_calls_want_as_a_whole_has_to_fit(self):
        with Server({"tier-page-threshold": "64kb", "maxmemory": "8mb", "maxmemory-policy": "noeviction"}) as server, server.client(timeout=60) as client:
            for i in range(10):
                client.must("SETRANGE", "s", i << 20, b"%d" % i * (1 << 20))
            for i in range(10):
                self.assertEqual(client.must("GETRANGE", "s", (i << 20) + 5, (i << 20) + 9), b"%d" % i * 5)
            reply = client.call("GET", "s")
            self.assertIsInstance(reply, Error)
            self.assertIn("more than half of maxmemory", str(reply))
            self.assertEqual(client.must("BITCOUNT", "s", 0, 99999), 200000)
            self.assertEqual(client.must("STRLEN", "s"), 10 << 20)


@kelvin_only
class KeptStringPagesTest(KeptPagedCase):
    """What is on the disk."""

    def test_restarts(self):
        def assert_same(client, other):
            for key in KEYS:
                self.assertEqual(client.call("GET", key), other.call("GET", key))

        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_restarts(LOGGED, Commands(seed), KEYS, assert_same)

    def test_a_dump_has_the_strings_as_a_whole(self):
        for compression in ("yes", "no"):
            with Server(dict(SMALL, rdbcompression=compression)) as server, server.client() as client:
                fill(client)
                client.must("SETBIT", "zeros", 100000, 1)
                client.must("SET", "numbers", b"\x05hello\xc0\x07" * 100)           # what looks like strings of a dump
                client.must("GETRANGE", "numbers", 0, 0)
                self.assertGreater(sum(pages(server)), 250)
                digest = client.must("DEBUG", "DIGEST")
                demote(client, "s", "zeros", "numbers")
                client.must("SAVE")
                client.must("DEBUG", "RELOAD", "NOSAVE")
                self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                self.assertEqual(sum(pages(server)), 0)

    def test_a_dump_of_strings_that_are_larger_than_memory(self):
        """They are read in parts, into blocks if one piece would fill a quarter of memory."""
        size = scaled(40) << 20
        piece = random.Random(1).randbytes(1 << 20)
        server = Server({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "noeviction", "rdbcompression": "no"})
        try:
            with server.client(timeout=60) as client:
                for start in range(0, size, 1 << 20):
                    client.must("APPEND", "large", piece)
                client.must("SET", "small", (piece * 2)[:1500000])
                client.must("SET", "last", "x")
                digest = client.must("DEBUG", "DIGEST")
                client.must("SAVE")
            for threshold, memory, blocks in (("64kb", "16mb", True), ("64kb", "1gb", False), (0, "1gb", False), ("1kb", "16mb", True)):
                with self.subTest(threshold=threshold, memory=memory):
                    server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                    server.restart()
                    with server.client(timeout=60) as client:
                        self.assertEqual([client.must("STRLEN", "large"), client.must("STRLEN", "small")], [size, 1500000])
                        self.assertEqual(sum(pages(server)) > size // 5000, blocks)
                        if blocks:
                            self.assertLess(int(server.info("memory")["used_memory"]), 20 << 20)
                        for i in range(0, size, size // 100):
                            self.assertEqual(client.must("GETRANGE", "large", i, i + 9), (piece * 2)[i % (1 << 20):][:min(10, size - i)])
                        self.assertEqual(client.must("GET", "small"), (piece * 2)[:1500000])
                        if blocks:
                            client.must("SAVE")
                        else:
                            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
        finally:
            server.stop()

    def test_a_damaged_page_costs_what_is_in_it(self):
        def look(client, i):
            reply = client.call("GETRANGE", "s", i * 208, i * 208 + 207)
            return reply == text_of(i) or reply

        def then(client):
            self.assertEqual(client.must("STRLEN", "s"), 208000)
            self.assertIsInstance(client.call("GET", "s"), Error)
            self.assertEqual(client.must("APPEND", "s", "x"), 208001)
            self.assertIsInstance(client.call("SETRANGE", "s", 208 * 555 + 100, "x"), Error)

        self.check_damage(LOGGED, lambda client: fill(client, count=1000), "s", (b"text:000555:", b"TEXT:000555:"), 1, look, 4, then)

    def test_a_crash_in_the_middle_loses_nothing(self):
        with Server(LOGGED) as server:
            with server.client() as client:
                fill(client)
                checkpoint(server, client)
                demote(client, "s")
                client.must("SETRANGE", "s", 1000, "changed")
                client.must("SETBIT", "s", 8 * 50000, 1)
                digest = client.must("DEBUG", "DIGEST")
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                self.assertEqual(client.must("GETRANGE", "s", 999, 1007), client.must("GET", "s")[999:1008])

    def test_a_string_that_only_grows_is_logged(self):
        with Server(LOGGED) as server:
            with server.client() as client:
                client.must("SET", "s", "x" * 300)
                self.assertEqual(client.must("SETBIT", "s", 8 * 5000, 0), 0)
                client.must("SET", "t", "x" * 300)
                self.assertEqual(client.must("BITFIELD", "t", "OVERFLOW", "FAIL", "SET", "u4", 8 * 5000, 16), [None])
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual([client.must("STRLEN", "s"), client.must("STRLEN", "t")], [5001, 5001])

    def test_replicas(self):
        def fill_one(client):
            fill(client)
            demote(client, "s")

        def run(client):
            client.must("SETRANGE", "s", 5000, "x" * 500)
            client.must("BITFIELD", "s", "INCRBY", "u63", 80001, 12345)
            client.must("APPEND", "s", "end")
            client.must("SETBIT", "t", 99999, 1)

        def agree(reader, client):
            self.assertEqual([reader.must("GET", "s"), reader.must("GET", "t")], [client.must("GET", "s"), client.must("GET", "t")])

        self.check_replicas(SMALL, fill_one, run, agree)


if __name__ == "__main__":
    main()
