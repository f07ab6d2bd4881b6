"""Sorted sets in pages (tier-page-threshold): pages are small here, and cold most of the time. A second server, which has all of each set in a tree, says what is right."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.paged import KeptPagedCase, PagedCase, counter, demote, pages, refuses_damaged_dumps    # noqa: E402
from support.resp import Error, encode                                                               # noqa: E402
from support.server import Server, scaled, seed_new, until                                           # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 128}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
KEYS, PLACES = ["z1", "z2", "z3"], ["g1", "g2"]


def fill(client, key="z", count=1000, step=3):
    """A set of some hundred pages."""
    client.must("ZADD", key, *[word for i in range(count) for word in (i * step % 997, "member:%d" % i)])


def whole(client, key):
    return client.must("ZRANGE", key, 0, -1, "WITHSCORES")


class Commands:
    """Random commands on some sorted sets, and on some with positions."""

    def __init__(self, seed, have_long=True):
        self.random, self.have_long = random.Random(seed), have_long
        self.makers = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def next(self):
        return [str(word) for word in self.random.choice(self.makers)()]

    def key(self):
        return self.random.choice(KEYS)

    def place(self):
        return self.random.choice(PLACES)

    def member(self):
        return "m%d" % self.random.randrange(500) if not self.have_long or self.random.random() < .8 else "p" * 140 + "%d" % self.random.randrange(60)

    def members(self):
        return list({self.member() for _ in range(self.random.choice([1, 1, 2, 20]))})

    def score(self):
        return self.random.choice([self.random.randrange(5), self.random.randrange(-300, 300), self.random.random() * 100, "inf", "-inf", "-0", "0", "1e300"])

    def bound(self):
        return self.random.choice(["-inf", "+inf", "(%s" % self.score(), self.score(), self.score()])

    def bounds(self):
        low, high = self.bound(), self.bound()
        return [low, high]

    def lex(self):
        return self.random.choice(["-", "+", "[" + self.member(), "(" + self.member()])

    def rank(self):
        return self.random.choice([0, 1, -1, -2, self.random.randrange(-500, 500)])

    def limit(self):
        return self.random.choice([[], ["LIMIT", self.random.randrange(-1, 200), self.random.choice([-1, 1, 5, 100])]])

    def do_zadd(self):
        options = self.random.choice([[], [], [], ["NX"], ["XX"], ["GT"], ["LT"], ["XX", "GT", "CH"], ["CH"]])
        return ["ZADD", self.key()] + options + [word for member in self.members() for word in (self.score(), member)]

    do_zadd_2 = do_zadd_3 = do_zadd

    def do_zadd_incr(self):
        return ["ZADD", self.key(), "INCR", self.random.randrange(-3, 4), self.member()]

    def do_zincrby(self):
        return ["ZINCRBY", self.key(), self.random.choice([1, -1, .5, 1000, "inf"]), self.member()]

    do_zincrby_2 = do_zincrby

    def do_zrem(self):
        return ["ZREM", self.key()] + self.members()

    def do_zremrangebyrank(self):
        first = self.rank()
        return ["ZREMRANGEBYRANK", self.key(), first, first + self.random.randrange(20)]

    def do_zremrangebyscore(self):
        first = self.random.randrange(-300, 300)
        return ["ZREMRANGEBYSCORE", self.key(), first, "(%d" % (first + self.random.randrange(10))]

    def do_zremrangebylex(self):
        return ["ZREMRANGEBYLEX", "lex", "[m%d" % self.random.randrange(500), "[m%d" % self.random.randrange(500)]

    def do_lex_add(self):
        return ["ZADD", "lex"] + [word for member in self.members() for word in (0, member)]

    do_lex_add_2 = do_lex_add

    def do_lex_range(self):
        return self.random.choice([["ZRANGEBYLEX", "lex", self.lex(), self.lex()] + self.limit(), ["ZREVRANGEBYLEX", "lex", self.lex(), self.lex()] + self.limit(), ["ZLEXCOUNT", "lex", self.lex(), self.lex()],
                                   ["ZRANGE", "lex", self.lex(), self.lex(), "BYLEX", "REV"] + self.limit()])

    def do_zpop(self):
        return self.random.choice([["ZPOPMIN", self.key()], ["ZPOPMAX", self.key(), self.random.randrange(30)], ["ZMPOP", 2, self.key(), self.key(), self.random.choice(["MIN", "MAX"]), "COUNT", 5],
                                   ["BZPOPMIN", "z0", self.key(), "z1", "z2", "z3", "lex", .001], ["BZMPOP", .001, 1, self.key(), "MAX"]])

    def do_zrange(self):
        return self.random.choice([["ZRANGE", self.key(), self.rank(), self.rank()], ["ZRANGE", self.key(), self.rank(), self.rank(), "REV", "WITHSCORES"], ["ZREVRANGE", self.key(), self.rank(), self.rank()],
                                   ["ZRANGE", self.key(), 0, -1, "WITHSCORES"], ["ZRANGE", self.key()] + self.bounds() + ["BYSCORE"] + self.limit(),
                                   ["ZRANGE", self.key()] + self.bounds() + ["BYSCORE", "REV", "WITHSCORES"] + self.limit(), ["ZRANGEBYSCORE", self.key()] + self.bounds() + self.limit(),
                                   ["ZREVRANGEBYSCORE", self.key()] + self.bounds() + ["WITHSCORES"] + self.limit()])

    do_zrange_2 = do_zrange

    def do_zrangestore(self):
        return ["ZRANGESTORE", self.key(), self.key()] + self.bounds() + ["BYSCORE"] + self.limit()

    def do_zrank(self):
        return [self.random.choice(["ZRANK", "ZREVRANK"]), self.key(), self.member()] + self.random.choice([[], ["WITHSCORE"]])

    do_zrank_2 = do_zrank

    def do_zscore(self):
        return ["ZSCORE", self.key(), self.member()]

    def do_zmscore(self):
        return ["ZMSCORE", self.key()] + self.members()

    def do_zcount(self):
        return ["ZCOUNT", self.key()] + self.bounds()

    def do_zcard(self):
        return ["ZCARD", self.key()]

    def do_algebra(self):
        return self.random.choice([["ZUNION", 2, self.key(), self.key(), "WITHSCORES"], ["ZINTER", 2, self.key(), self.key(), "AGGREGATE", "MAX"], ["ZDIFF", 2, self.key(), self.key()],
                                   ["ZINTERCARD", 2, self.key(), self.key(), "LIMIT", 5], ["ZUNIONSTORE", self.key(), 2, self.key(), self.key(), "WEIGHTS", 2, 1],
                                   ["ZINTERSTORE", self.key(), 2, self.key(), self.key()], ["ZDIFFSTORE", self.key(), 2, self.key(), self.key()]])

    def do_geoadd(self):
        return ["GEOADD", self.place()] + [word for member in self.members() for word in (self.random.randrange(0, 60) / 10, self.random.randrange(400, 460) / 10, member)]

    do_geoadd_2 = do_geoadd

    def do_geo(self):
        around = ["FROMLONLAT", self.random.randrange(0, 60) / 10, self.random.randrange(400, 460) / 10]
        return self.random.choice([["GEOPOS", self.place()] + self.members(), ["GEODIST", self.place(), self.member(), self.member()], ["GEOHASH", self.place()] + self.members(),
                                   ["GEOSEARCH", self.place()] + around + ["BYRADIUS", self.random.choice([1, 30, 300]), "km", "ASC", "WITHDIST"],
                                   ["GEOSEARCH", self.place(), "FROMMEMBER", self.member(), "BYBOX", 100, 200, "km", "ASC", "COUNT", 7],
                                   ["GEOSEARCHSTORE", self.place(), self.place()] + around + ["BYRADIUS", 200, "km"],
                                   ["GEORADIUS", self.place()] + around[1:] + [100, "km", "COUNT", 3, "ANY"], ["GEORADIUSBYMEMBER", self.place(), self.member(), 50, "km"]])

    do_geo_2 = do_geo

    def do_generic(self):
        one, other = self.key(), self.key()
        return self.random.choice([["COPY", one, other, "REPLACE"], ["RENAME", one, other], ["RENAMENX", one, "z4"], ["RENAME", "z4", one], ["DEL", one], ["EXPIRE", one, 1000], ["PERSIST", one], ["TYPE", one],
                                   ["OBJECT", "ENCODING", one], ["SORT", one, "ALPHA", "LIMIT", 0, 10], ["SORT", one, "BY", "nosort", "DESC"], ["HGET", one, "x"], ["DEBUG", "DIGEST-VALUE", one]])

    def do_script(self):
        return ["EVAL", "redis.call('ZADD', KEYS[1], 5, ARGV[1]); local r = redis.call('ZRANK', KEYS[1], ARGV[1]); redis.call('ZREMRANGEBYRANK', KEYS[1], 0, 1); "
                "return {r, redis.call('ZRANGE', KEYS[1], -5, -1)}", 1, self.key(), self.member()]


@kelvin_only
class ZsetPagesTest(PagedCase):
    options = dict(SMALL, **{"zset-max-listpack-entries": 20})          # most sets of random commands are in pages

    def setUp(self):
        super().setUp()
        self.other.must("CONFIG", "SET", "zset-max-listpack-entries", 20)

    def scan(self, key):
        cursor, seen = b"0", {}
        while True:
            cursor, page = self.c.must("ZSCAN", key, cursor, "COUNT", 20)
            seen.update(zip(page[::2], page[1::2]))
            if cursor == b"0":
                return seen

    def assert_draws(self, key):
        members = set(self.other.must("ZRANGE", key, 0, -1))
        for count in (1, 5, -10, 1000):
            drawn = self.c.must("ZRANDMEMBER", key, count)
            self.assertLessEqual(set(drawn), members)
            self.assertEqual(len(drawn), (min(count, len(members)) if count > 0 else -count) if members else 0)
        pairs = self.c.must("ZRANDMEMBER", key, 3, "WITHSCORES")
        self.assertEqual(self.other.must("ZMSCORE", key, *pairs[::2]) if pairs else [], pairs[1::2])

    def test_random_commands(self):
        def look():
            key = commands.key()
            self.assertEqual(set(self.scan(key)), set(self.other.must("ZRANGE", key, 0, -1)))
            self.assert_draws(key)

        seed = seed_new()
        commands = Commands(seed, have_long=False)
        with self.subTest(seed=seed):
            self.check_random_commands(commands, KEYS + PLACES + ["lex", "z4"], lambda words, reply: words[0] == "DEBUG" or (reply == 0 and "STORE" in words[0]), look)
            for key in KEYS + PLACES + ["lex"]:
                self.both("ZRANGE", key, 0, -1, "WITHSCORES")
                self.both("ZREVRANGE", key, 0, -1)

    def test_transactions(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_transactions(Commands(seed), KEYS + PLACES + ["lex"])

    def test_a_point_access_needs_few_pages(self):
        fill(self.c)
        self.check_needs("z", ((("ZSCORE", "z", "member:5"), 1), (("ZRANK", "z", "member:5"), 4), (("ZCOUNT", "z", 3, 500), 5), (("ZRANGE", "z", 500, 505), 5), (("ZINCRBY", "z", 1, "member:7"), 8),
                            (("ZPOPMIN", "z"), 8), (("ZREM", "z", "member:77"), 8), (("ZRANGEBYSCORE", "z", 100, 102), 6), (("ZRANDMEMBER", "z"), 8), (("ZSCAN", "z", 0, "COUNT", 1), 3)))
        self.check_needs_none("z", (("ZCARD", "z"), ("TYPE", "z"), ("OBJECT", "ENCODING", "z"), ("MEMORY", "USAGE", "z"), ("HGET", "z", "x")))
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "z"), b"skiplist")
        self.assertGreater(self.c.must("MEMORY", "USAGE", "z"), 20000)

    def test_what_looks_members_up_in_other_sets_asks_for_them(self):
        for key in "a", "b":
            fill(self.c, key)
        self.check_asks(["a", "b"], (("ZINTER", 2, "a", "b"), ("ZINTERCARD", 2, "a", "b"), ("ZDIFF", 2, "a", "b"), ("ZINTERSTORE", "c", 2, "a", "b"), ("ZDIFFSTORE", "d", 2, "a", "b"), ("ZUNION", 2, "a", "b"),
                      ("ZUNIONSTORE", "e", 2, "a", "b"), ("SORT", "a", "ALPHA"), ("DUMP", "a"), ("COPY", "a", "f")))

    def test_moves_that_empty_leaves_ask_for_their_neighbours(self):
        before = counter(self.server, "tier_unplanned_reads")
        large = "m" * 150            # alone in its leaf
        for i in range(200):
            self.c.must("ZADD", "z", i, large + "%d" % i)
        for i in range(10, 190, 7):
            demote(self.c, "z")
            self.c.must("ZADD", "z", 1000 + i, large + "%d" % i, i + .5, "new")
            demote(self.c, "z")
            self.c.must("ZADD", "z", 2000 + i, large + "%d" % (i + 1), 2001 + i, large + "%d" % (i + 2), i + .7, "new")
        self.assertEqual(counter(self.server, "tier_unplanned_reads"), before)

    def test_a_set_that_is_trimmed_for_ever_has_no_more_pages(self):
        most = 0
        for turn in range(12):
            for start in range(0, 3000, 500):
                self.c.must("ZADD", "z", *[word for i in range(start, start + 500) for word in (turn * 3000 + i, "event:%d" % (turn * 3000 + i))])
            self.c.must("ZREMRANGEBYRANK", "z", 0, -301)
            if turn % 3 == 2:
                demote(self.c, "z")
            if turn == 3:
                most = sum(pages(self.server))
        self.assertLess(sum(pages(self.server)), most * 1.3)

    def test_a_window_of_which_the_free_pages_are_cold(self):
        most = 0
        for turn in range(40):
            self.c.must("ZADD", "z", *[word for i in range(turn * 1000, turn * 1000 + 1000) for word in (i, "event:%d" % i)])
            if turn >= 3:
                self.c.must("ZPOPMIN", "z", 1000)
            demote(self.c, "z")
            if turn == 8:
                most = sum(pages(self.server))
        self.assertLess(sum(pages(self.server)), most * 1.2)

    def test_small_members_beside_a_large_one(self):
        self.c.must("ZADD", "z", 0, "a" * 9000)
        self.c.must("ZADD", "z", *[word for i in range(500) for word in (i, "member:%d" % i)])
        before = sum(pages(self.server))
        for i in range(500, 0, -1):
            self.c.must("ZADD", "z", 0, "b%06d" % i)
        self.assertLess(sum(pages(self.server)), before + 200)
        self.assertEqual(self.c.must("ZRANK", "z", "b%06d" % 7), 7)

    def test_members_with_long_prefixes_in_any_order(self):
        prefix = "p" * 110
        for name, order in (("down", range(3000, 0, -1)), ("up", range(3000)), ("between", list(range(0, 6000, 2)) + list(range(1, 6000, 2)))):
            for number in order:
                self.c.must("ZADD", name, 0, "%s%05d" % (prefix, number))
            self.assertEqual(self.c.must("ZLEXCOUNT", name, "-", "+"), len(order))
            self.assertEqual(self.c.must("ZRANK", name, "%s%05d" % (prefix, max(order))), len(order) - 1)
            self.c.must("DEL", name)

    def test_a_call_that_runs_again_is_one_hit(self):
        fill(self.c)
        self.check_one_hit("z", (("ZRANGE", "z", 5, 9), ("ZRANGESTORE", "d", "z", 5, 9), ("ZRANK", "z", "member:7"), ("GEOSEARCHSTORE", "d", "z", "FROMMEMBER", "member:7", "BYRADIUS", 1, "m"),
                      ("GEORADIUSBYMEMBER", "z", "member:7", 1, "m")))

    def test_whatever_deletes_a_cold_set_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "z"),
            "SET": lambda: self.c.must("SET", "z", "x"),
            "ZREMRANGEBYRANK": lambda: self.c.must("ZREMRANGEBYRANK", "z", 0, -1),
            "ZREM": lambda: self.c.must("ZREM", "z", *["member:%d" % i for i in range(1000)]),
            "ZPOPMAX": lambda: self.c.must("ZPOPMAX", "z", 5000),
            "ZUNIONSTORE": lambda: self.c.must("ZUNIONSTORE", "z", 1, "none"),
            "PEXPIRE": lambda: self.c.must("PEXPIRE", "z", 1),
            "RENAME": lambda: (self.c.must("SET", "s", "x"), self.c.must("RENAME", "s", "z")),
            "RENAME, DEL": lambda: (self.c.must("RENAME", "z", "another"), demote(self.c, "another"), self.c.must("DEL", "another")),
            "MOVE": lambda: (self.c.must("MOVE", "z", 5), self.c.must("FLUSHALL")),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
        }
        self.check_gone(fill, "z", gone)

    def test_scans_go_on_when_the_set_gets_into_pages(self):
        self.c.must("CONFIG", "SET", "tier-page-threshold", 0)
        self.addCleanup(self.c.must, "CONFIG", "SET", "tier-page-threshold", 256)
        fill(self.c, count=2000)
        cursor, seen = b"0", set()
        for _ in range(10):
            cursor, page = self.c.must("ZSCAN", "z", cursor, "COUNT", 50)
            seen.update(page[::2])
        self.c.must("CONFIG", "SET", "tier-page-threshold", 256)
        self.c.must("ZADD", "z", 1, "member:1")
        self.assertGreater(sum(pages(self.server)), 50)
        while cursor != b"0":
            demote(self.c, "z")
            for i in range(20):
                self.c.must("ZINCRBY", "z", (-1) ** i * 500, "member:%d" % (i * 90 + len(seen) % 80))
            cursor, page = self.c.must("ZSCAN", "z", cursor, "COUNT", 50)
            seen.update(page[::2])
        self.assertEqual(seen, {b"member:%d" % i for i in range(2000)})

    def test_clients_that_wait_get_what_is_cold(self):
        waiting = self.server.client()
        fill(self.c, "other")
        demote(self.c, "other")
        highest = whole(self.c, "other")[-2:]
        demote(self.c, "other")
        waiting.send(encode(["BZPOPMAX", "awaited", 5]))
        until(lambda: int(self.server.info("clients")["blocked_clients"]) == 1, what="a client that waits")
        self.c.must("RENAME", "other", "awaited")
        self.assertEqual(waiting.receive(), [b"awaited"] + highest)
        self.assertEqual(self.c.must("ZCARD", "awaited"), 999)
        waiting.close()


@kelvin_only
class KeptZsetPagesTest(KeptPagedCase):
    """What is on the disk."""

    def test_restarts(self):
        def assert_same(client, other):
            for key in KEYS + PLACES + ["lex"]:
                self.assertEqual(whole(client, key), whole(other, key))
                for member in other.must("ZRANGE", key, 0, 5):
                    self.assertEqual(client.must("ZRANK", key, member), other.must("ZRANK", key, member))

        seed = seed_new()
        with self.subTest(seed=seed):
            self.check_restarts(LOGGED, Commands(seed), KEYS + PLACES, assert_same)

    def test_a_dump_has_the_sets_as_a_whole(self):
        def fill_both(client):
            fill(client)
            client.must("GEOADD", "g", *[word for i in range(300) for word in (i / 100, 40 + i / 50, "m%d" % i)])

        self.check_dump(SMALL, fill_both, ["z", "g"])

    def test_a_dump_of_sets_that_are_larger_than_memory(self):
        """They are read in parts; of those that are put aside the tree and the table are made one after the other."""
        count = scaled(150000)
        server = Server({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "allkeys-lru"})        # no key goes as long as there is room on the disk
        try:
            with server.client(timeout=60) as client:
                for key, some in (("large", count), ("small", count // 40)):
                    for start in range(0, some, 1000):
                        client.must("ZADD", key, *[word for i in range(start, min(start + 1000, some)) for word in (i * 7919 % some // 3, "%060d" % i)])
                client.must("SET", "last", "x")
                digest = client.must("DEBUG", "DIGEST")
                client.must("SAVE")
            for threshold, memory in (("4kb", "16mb"), ("4kb", "256mb"), (0, "256mb"), ("1kb", "16mb")):
                with self.subTest(threshold=threshold, memory=memory):
                    server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                    server.restart()
                    with server.client(timeout=60) as client:
                        self.assertEqual([client.must("ZCARD", "large"), client.must("ZCARD", "small")], [count, count // 40])
                        for i in range(0, count, count // 300):
                            self.assertEqual(float(client.must("ZSCORE", "large", "%060d" % i)), i * 7919 % count // 3)
                            self.assertLess(abs(client.must("ZRANK", "large", "%060d" % i) - i * 7919 % count), 4)
                        if threshold:
                            self.assertGreater(sum(pages(server)), count // 16)
                            self.assertLess(int(server.info("memory")["used_memory"]), (int(memory[:-2]) + 6) << 20)
                        self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                        client.must("SAVE")
        finally:
            server.stop()

    def test_a_damaged_dump_of_a_large_set_is_refused(self):
        server = Server({"tier-page-threshold": 0, "rdbcompression": "no"})
        try:
            with server.client(timeout=60) as client:
                for start in range(0, 60000, 1000):
                    client.must("ZADD", "z", *[word for i in range(start, start + 1000) for word in (i, "%050d" % i)])
                client.must("SAVE")
            server.terminate()
            for memory in "8mb", "256mb":
                server.options.update({"tier-page-threshold": "4kb", "maxmemory": memory, "rdbchecksum": "no"})
                refuses_damaged_dumps(self, server, lambda text: (              # of which one has a member twice, with different scores
                    (text[:len(text) // 2], "ends early"), (text.replace(b"%050d" % 3, b"%050d" % 59999), "The value of the key 'z' is damaged")))
                if memory == "8mb":
                    server.terminate()
            with server.client() as client:
                self.assertEqual(client.must("ZCARD", "z"), 60000)
        finally:
            server.stop()

    def test_a_reload_that_fails_leaves_no_half_of_a_set(self):
        server = Server({"tier-page-threshold": "4kb", "maxmemory": "8mb", "rdbcompression": "no"})
        try:
            with server.client(timeout=60) as client:
                for start in range(0, 60000, 1000):
                    client.must("ZADD", "z", *[word for i in range(start, start + 1000) for word in (i, "%050d" % i)])
                client.must("SAVE")
                path = os.path.join(server.folder, "dump.rdb")
                with open(path, "rb") as file:
                    text = file.read()
                for part in 2, 4:
                    with open(path, "wb") as file:
                        file.write(text[:len(text) * part // 5])
                    self.assertIsInstance(client.call("DEBUG", "RELOAD", "NOSAVE"), Error)
                    self.assertEqual(client.must("EXISTS", "z"), 0)
                    until(lambda: pages(server) == (0, 0), what="the end of the pages")
                with open(path, "wb") as file:
                    file.write(text)
                client.must("DEBUG", "RELOAD", "NOSAVE")
                self.assertEqual(client.must("ZREMRANGEBYRANK", "z", 0, 50), 51)
        finally:
            server.stop()

    def test_a_damaged_page_costs_what_is_in_it(self):
        """A member is in the table, and in the tree."""
        def look(client, i):
            reply = client.call("ZRANK", "z", "member:%d" % i)
            return isinstance(reply, int) or reply

        def then(client):
            self.assertEqual(client.must("ZCARD", "z"), 1000)
            self.assertIsInstance(client.call("ZRANGE", "z", 0, -1), Error)

        self.check_damage(LOGGED, fill, "z", (b"member:555", b"MEMBER:555"), 2, look, 40, then)

    def test_replicas(self):
        def fill_one(client):
            fill(client)
            demote(client, "z")

        def run(client):
            commands = Commands(7)
            for _ in range(300):
                client.call(*commands.next())
            demote(client, *KEYS, *PLACES, "z")
            for _ in range(300):
                client.call(*commands.next())

        def agree(reader, client):
            self.assertEqual(reader.must("DEBUG", "DIGEST"), client.must("DEBUG", "DIGEST"))

        self.check_replicas(SMALL, fill_one, run, agree)


if __name__ == "__main__":
    main()
