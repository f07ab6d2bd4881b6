"""Lists in pages (tier-page-threshold): pages are small here, and cold most of the time. A second server, which has all of each list in chunks, says what is right."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.paged import KeptPagedCase, PagedCase, demote, pages, refuses_damaged_dumps             # noqa: E402
from support.resp import Error, encode                                                               # noqa: E402
from support.server import Server, scaled, seed_new, until                                           # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 64, "list-max-listpack-size": 8}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS = ["l1", "l2", "l3"]


def fill(client, key="l", count=1000):
    """A list of some hundred pages."""
    client.must("RPUSH", key, *["element:%d" % i for i in range(count)])


def whole(client, key):
    return client.must("LRANGE", key, 0, -1)


class Commands:
    """Random commands on some lists."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.makers = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def next(self):
        return [str(word) for word in self.random.choice(self.makers)()]

    def key(self):
        return self.random.choice(KEYS)

    def element(self):
        kind = self.random.random()
        return "e%d" % self.random.randrange(40) if kind < .7 else "%d" % self.random.randrange(-9, 70000) if kind < .9 else chr(97 + self.random.randrange(5)) * self.random.randrange(400)

    def elements(self):
        return [self.element() for _ in range(self.random.choice([1, 1, 2, 20]))]

    def index(self):
        return self.random.choice([0, 1, -1, -2, self.random.randrange(-300, 300)])

    def end(self):
        return self.random.choice(["LEFT", "RIGHT"])

    def do_push(self):
        return [self.random.choice(["LPUSH", "RPUSH", "LPUSH", "RPUSH", "RPUSHX", "LPUSHX"]), self.key()] + self.elements()

    do_push_2 = do_push_3 = do_push_4 = do_push

    def do_pop(self):
        return self.random.choice([["LPOP", self.key()], ["RPOP", self.key()], ["LPOP", self.key(), self.random.randrange(25)], ["RPOP", self.key(), self.random.randrange(25)],
                                   ["LMPOP", 2, self.key(), self.key(), self.end(), "COUNT", 4], ["BLPOP", "l0", self.key(), "l1", "l2", "l3", .001], ["BRPOP", self.key(), .001],
                                   ["BLMPOP", .001, 1, self.key(), self.end()]])

    do_pop_2 = do_pop

    def do_move(self):
        return self.random.choice([["LMOVE", self.key(), self.key(), self.end(), self.end()], ["RPOPLPUSH", self.key(), self.key()], ["BLMOVE", self.key(), self.key(), self.end(), self.end(), .001],
                                   ["BRPOPLPUSH", self.key(), self.key(), .001]])

    do_move_2 = do_move

    def do_read(self):
        return self.random.choice([["LINDEX", self.key(), self.index()], ["LRANGE", self.key(), self.index(), self.index()], ["LLEN", self.key()], ["LRANGE", self.key(), 0, -1]])

    do_read_2 = do_read_3 = do_read

    def do_search(self):
        options = self.random.choice([[], [], ["RANK", self.random.choice([-3, -1, 1, 2, 5])], ["COUNT", self.random.choice([0, 1, 3])], ["MAXLEN", self.random.randrange(80)],
                                      ["RANK", -1, "COUNT", 2, "MAXLEN", 100]])
        return ["LPOS", self.key(), self.element()] + options

    do_search_2 = do_search

    def do_insert(self):
        return ["LINSERT", self.key(), self.random.choice(["BEFORE", "AFTER"]), self.element(), self.element()]

    do_insert_2 = do_insert

    def do_set(self):
        return ["LSET", self.key(), self.index(), self.element()]

    do_set_2 = do_set

    def do_rem(self):
        return ["LREM", self.key(), self.random.choice([0, 1, -1, 2, -3]), self.element()]

    def do_trim(self):
        return ["LTRIM", self.key(), self.random.randrange(8), -1 - self.random.randrange(8)] if self.random.random() < .7 else ["LTRIM", self.key(), self.index(), self.index()]

    def do_generic(self):
        one, other = self.key(), self.key()
        return self.random.choice([["COPY", one, other, "REPLACE"], ["RENAME", one, other], ["RENAMENX", one, "l4"], ["RENAME", "l4", one], ["EXPIRE", one, 1000], ["PERSIST", one], ["TYPE", one],
                                   ["SORT", one, "ALPHA", "LIMIT", 0, 10], ["SORT", one, "BY", "nosort"], ["SORT", one, "ALPHA", "STORE", other], ["HGET", one, "x"], ["DEBUG", "DIGEST-VALUE", one]])

    def do_script(self):
        return ["EVAL", "redis.call('RPUSH', KEYS[1], ARGV[1]); local r = redis.call('LINDEX', KEYS[1], 20); redis.call('LPOP', KEYS[1]); "
                "return {r, redis.call('LRANGE', KEYS[1], -5, -1)}", 1, self.key(), self.element()]


@kelvin_only
class ListPagesTest(PagedCase):
    options = SMALL

    def test_random_commands(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_random_commands(Commands(seed), KEYS + ["l4"], lambda words, reply: words[0] == "DEBUG", lambda: None)
            for key in KEYS:
                self.both("LRANGE", key, 0, -1)

    def test_transactions(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_transactions(Commands(seed), KEYS)

    def test_a_call_needs_the_pages_that_it_is_about(self):
        fill(self.c)
        self.check_needs("l", ((("LINDEX", "l", 500), 3), (("LINDEX", "l", -1), 3), (("LRANGE", "l", 500, 505), 5), (("RPUSH", "l", "x"), 4), (("LPUSH", "l", "x"), 4), (("LPOP", "l"), 4), (("RPOP", "l", 3), 6),
                            (("LSET", "l", 300, "y"), 3), (("LPOS", "l", "element:3"), 20), (("LPOS", "l", "element:999", "RANK", -1, "MAXLEN", 20), 20), (("LTRIM", "l", 20, -20), 12),
                            (("LMOVE", "l", "l", "LEFT", "RIGHT"), 7), (("LINSERT", "l", "BEFORE", "element:25", "z"), 25)))
        self.check_needs_none("l", (("LLEN", "l"), ("TYPE", "l"), ("OBJECT", "ENCODING", "l"), ("MEMORY", "USAGE", "l"), ("HGET", "l", "x")))
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "l"), b"quicklist")
        self.assertGreater(self.c.must("MEMORY", "USAGE", "l"), 10000)

    def test_what_reads_all_asks_for_it(self):
        fill(self.c)
        self.check_asks(["l"], (("SORT", "l", "ALPHA"), ("DUMP", "l"), ("COPY", "l", "f", "REPLACE"), ("LREM", "l", 0, "none"), ("LPOS", "l", "none"), ("LINSERT", "l", "AFTER", "none", "x"), ("MOVE", "l", 3)))

    def test_a_queue_has_no_more_pages_for_ever(self):
        for push, pop in (("RPUSH", "LPOP"), ("LPUSH", "RPOP")):
            most = 0
            for turn in range(40):
                self.c.must(push, "q", *["event:%d" % i for i in range(turn * 1000, turn * 1000 + 1000)])
                if turn >= 3:
                    self.assertEqual(self.c.must(pop, "q", 1000)[0], b"event:%d" % (turn * 1000 - 3000))
                demote(self.c, "q")
                if turn == 8:
                    most = sum(pages(self.server))
            self.assertLess(sum(pages(self.server)), most * 1.2)
            self.c.must("DEL", "q")

    def test_a_consumer_of_a_cold_queue_does_not_wait_for_each_page(self):
        """The next page is loaded while there are elements of this one, which is with the root then."""
        def loads():
            return int(self.server.info("tiering")["tier_promotions"])

        fill(self.c, "q", 3000)
        for pop, index in ("LPOP", 0), ("RPOP", -1):
            demote(self.c, "q")
            before = loads()
            self.c.must("LINDEX", "q", index)
            needed = loads() - before
            demote(self.c, "q")
            before = loads()
            self.c.must(pop, "q")
            until(lambda: loads() == before + needed + 1, what="the next page")

    def test_ends_with_elements_that_are_larger_than_a_leaf_is_now(self):
        self.addCleanup(self.c.must, "CONFIG", "SET", "tier-page-size", SMALL["tier-page-size"])
        for size in 64, 128, 256:
            self.c.must("CONFIG", "SET", "tier-page-size", 1024)
            for calls in ("RPUSH", "LPUSH"), ("LPUSH", "RPUSH"):
                self.c.must("RPUSH", "q", *["x" * 1000] * 20)
                self.c.must("RPUSH", "q", "y" * 900, "z" * 1000)
                self.c.must("LPUSH", "q", "y" * 900, "z" * 1000)
                self.c.must("CONFIG", "SET", "tier-page-size", size)
                for i, call in enumerate(calls):
                    self.assertEqual(self.c.must(call, "q", "small", "large" * 500), 26 + 2 * i)
                self.assertEqual(sorted(map(len, whole(self.c, "q"))), [5, 5, 900, 900] + [1000] * 22 + [2500, 2500])
                self.c.must("LSET", "q", 0, "s")
                self.c.must("LINSERT", "q", "BEFORE", "x" * 1000, "t" * 300)
                self.c.must("RPOPLPUSH", "q", "q")
                self.assertEqual(self.c.must("LLEN", "q"), 29)
                self.c.must("DEL", "q")
                self.c.must("CONFIG", "SET", "tier-page-size", 1024)
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_list_that_gets_short_is_a_listpack_again(self):
        fill(self.c, count=500)
        self.c.must("LTRIM", "l", 0, 20)
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "l"), b"quicklist")
        for _ in range(17):
            demote(self.c, "l")
            self.c.must("RPOP", "l")
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "l"), b"listpack")
        self.assertEqual(whole(self.c, "l"), [b"element:%d" % i for i in range(4)])
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_list_gets_into_pages_although_the_call_fails(self):
        """As in Redis, the encoding changes before the index is looked at; builds with more checks look at what a call has changed that replies an error."""
        self.c.must("RPUSH", "l", *["x" * 48] * 8)
        self.assertIsInstance(self.c.call("LSET", "l", 5000, "y"), Error)
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "l"), b"quicklist")
        self.assertGreater(sum(pages(self.server)), 1)
        self.assertEqual(whole(self.c, "l"), [b"x" * 48] * 8)

    def test_a_call_that_runs_again_is_one_hit(self):
        fill(self.c)
        self.check_one_hit("l", (("LRANGE", "l", 5, 9), ("LINDEX", "l", 500), ("LPOS", "l", "element:700"), ("SORT", "l", "ALPHA", "LIMIT", 0, 3)))

    def test_whatever_deletes_a_cold_list_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "l"),
            "SET": lambda: self.c.must("SET", "l", "x"),
            "LTRIM": lambda: self.c.must("LTRIM", "l", 1, 0),
            "LPOP": lambda: self.c.must("LPOP", "l", 5000),
            "RPOP, one left": lambda: (self.c.must("RPOP", "l", 999), self.c.must("LPOP", "l")),
            "LREM": lambda: [self.c.must("LREM", "l", 0, "element:%d" % i) for i in range(1000)],
            "RPOPLPUSH": lambda: [self.c.must("RPOPLPUSH", "l", "other") for i in range(1000)] + [self.c.must("DEL", "other")],
            "SORT": lambda: self.c.must("SORT", "none", "STORE", "l"),
            "PEXPIRE": lambda: self.c.must("PEXPIRE", "l", 1),
            "RENAME": lambda: (self.c.must("SET", "s", "x"), self.c.must("RENAME", "s", "l")),
            "RENAME, DEL": lambda: (self.c.must("RENAME", "l", "another"), demote(self.c, "another"), self.c.must("DEL", "another")),
            "MOVE": lambda: (self.c.must("MOVE", "l", 5), self.c.must("FLUSHALL")),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
        }
        self.check_gone(fill, "l", gone)

    def test_clients_that_wait_get_what_is_cold(self):
        waiting = self.server.client()
        for words, reply in ((["BRPOP", "awaited", 5], [b"awaited", b"element:999"]), (["BLMOVE", "awaited", "target", "LEFT", "LEFT", 5], b"element:0")):
            fill(self.c, "other")
            fill(self.c, "target")
            demote(self.c, "other", "target")
            waiting.send(encode(words))
            until(lambda: int(self.server.info("clients")["blocked_clients"]) == 1, what="a client that waits")
            self.c.must("RENAME", "other", "awaited")
            self.assertEqual(waiting.receive(), reply)
            self.assertEqual(self.c.must("LLEN", "awaited"), 999)
            self.c.must("DEL", "awaited")
        self.assertEqual(self.c.must("LRANGE", "target", 0, 1), [b"element:0", b"element:0"])
        waiting.close()


@kelvin_only
class KeptListPagesTest(KeptPagedCase):
    """What is on the disk."""

    def test_restarts(self):
        def assert_same(client, other):
            for key in KEYS:
                self.assertEqual(whole(client, key), whole(other, key))

        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_restarts(LOGGED, Commands(seed), KEYS, assert_same)

    def test_a_dump_has_the_lists_as_a_whole(self):
        def fill_both(client):
            fill(client)
            client.must("RPUSH", "large", *["x" * (i * 1000) for i in range(100)])

        self.check_dump(SMALL, fill_both, ["l", "large"])

    def test_a_dump_of_lists_that_are_larger_than_memory(self):
        """They are read in parts."""
        count = scaled(300000)
        server = Server({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "allkeys-lru"})        # no key goes as long as there is room on the disk
        try:
            with server.client(timeout=60) as client:
                for key, some in (("large", count), ("small", count // 40)):
                    for start in range(0, some, 1000):
                        client.must("RPUSH", key, *["%060d" % i for i in range(start, min(start + 1000, some))])
                client.must("SET", "last", "x")
                digest = client.must("DEBUG", "DIGEST")
                client.must("SAVE")
            for threshold, memory in (("4kb", "16mb"), ("4kb", "256mb"), (0, "256mb"), ("1kb", "16mb")):
                with self.subTest(threshold=threshold, memory=memory):
                    server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                    server.restart()
                    with server.client(timeout=60) as client:
                        self.assertEqual([client.must("LLEN", "large"), client.must("LLEN", "small")], [count, count // 40])
                        for i in range(0, count, count // 300):
                            self.assertEqual(int(client.must("LINDEX", "large", i)), i)
                        if threshold:
                            self.assertGreater(sum(pages(server)), count // 200)
                            self.assertLess(int(server.info("memory")["used_memory"]), (int(memory[:-2]) + 6) << 20)
                        self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                        client.must("SAVE")
        finally:
            server.stop()

    def test_a_damaged_dump_of_a_large_list_is_refused(self):
        server = Server({"tier-page-threshold": 0, "rdbcompression": "no"})
        try:
            with server.client(timeout=60) as client:
                for start in range(0, 60000, 1000):
                    client.must("RPUSH", "l", *["%050d" % i for i in range(start, start + 1000)])
                client.must("SAVE")
            server.terminate()
            server.options.update({"tier-page-threshold": "4kb", "maxmemory": "8mb", "rdbchecksum": "no"})
            refuses_damaged_dumps(self, server, lambda text: ((text[:len(text) // 2], "ends early"), (text.replace(b"\xb2%050d" % 40000, b"\xb3%050d" % 40000), "The value of the key 'l' is damaged")))
            with server.client() as client:
                self.assertEqual(client.must("LLEN", "l"), 60000)
        finally:
            server.stop()

    def test_a_damaged_page_costs_what_is_in_it(self):
        def look(client, i):
            reply = client.call("LINDEX", "l", i)
            return reply == b"element:%d" % i or reply

        def then(client):
            self.assertEqual(client.must("LLEN", "l"), 1000)
            self.assertIsInstance(client.call("LRANGE", "l", 0, -1), Error)
            self.assertEqual(client.must("RPUSH", "l", "x"), 1001)

        self.check_damage(LOGGED, fill, "l", (b"element:555", b"ELEMENT:555"), 1, look, 30, then)

    def test_replicas(self):
        def fill_one(client):
            fill(client)
            demote(client, "l")

        def run(client):
            client.must("LINSERT", "l", "AFTER", "element:500", "x" * 500)
            client.must("RPOPLPUSH", "l", "m")
            client.must("LTRIM", "l", 100, -100)

        def agree(reader, client):
            self.assertEqual([whole(reader, "l"), whole(reader, "m")], [whole(client, "l"), whole(client, "m")])

        self.check_replicas(SMALL, fill_one, run, agree)


if __name__ == "__main__":
    main()
