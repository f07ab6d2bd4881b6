"""Hashes and sets in pages (tier-page-threshold): pages are small here, and cold most of the time. Models in Python say what is right."""
import errno
import glob
import os
import random
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import check                                                                            # noqa: E402
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.disk import FAIL, Disk                                                                  # noqa: E402
from support.paged import refuses_damaged_dumps                                                      # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, StartFailed, scaled, seed_new, until                                           # noqa: E402

SMALL = {"maxmemory": "8gb", "tier-page-threshold": 256, "tier-page-size": 128}
LOGGED = dict(SMALL, appendonly="yes", appendfsync="always", **{"auto-aof-rewrite-percentage": 0})
HASHES, SETS = ["h1", "h2", "h3"], ["s1", "s2", "s3"]


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


def pages(server):
    info = server.info("tiering")
    return int(info["tier_hot_pages"]), int(info["tier_cold_pages"])


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def fill(client, key="h", count=1000):
    """A hash of some hundred pages."""
    model = {b"field:%d" % i: b"value:%d" % (i * 7) for i in range(count)}
    client.must("HSET", key, *[word for pair in model.items() for word in pair])
    return model


def demote(client, *keys):
    """Those that are there are cold afterwards, with all their pages."""
    client.must("TIER", "DEMOTE", *keys)


def checkpoint(server, client):
    client.must("BGREWRITEAOF")
    until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")


class Model:
    """Random commands on some hashes and sets, which Python objects follow."""

    def __init__(self, case, client, seed):
        self.case, self.client, self.random = case, client, random.Random(seed)
        self.hashes = {key: {} for key in HASHES}
        self.sets = {key: set() for key in SETS}
        self.steps = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    def element(self):
        return b"e%d" % self.random.randrange(400)

    def elements(self):
        return list({self.element() for _ in range(self.random.choice([1, 1, 2, 30]))})

    def value(self):
        size = self.random.choice([0, 1, 5, 20, 20, 300, 3000 if self.random.random() < .1 else 10])
        return b"v" * size + b"%d" % self.random.randrange(1000)

    def some_hash(self):
        key = self.random.choice(HASHES)
        return key, self.hashes[key]

    def some_set(self):
        key = self.random.choice(SETS)
        return key, self.sets[key]

    def check(self, expected, *words):
        self.case.assertEqual(self.client.call(*words), expected, words)

    def step(self):
        self.random.choice(self.steps)()

    def verify(self):
        for key, model in self.hashes.items():
            self.case.assertEqual(pairs(self.client.must("HGETALL", key)), model, key)
            self.check(len(model), "HLEN", key)
        for key, model in self.sets.items():
            self.case.assertEqual(set(self.client.must("SMEMBERS", key)), model, key)
            self.check(len(model), "SCARD", key)

    def do_hset(self):
        key, model = self.some_hash()
        new = {element: self.value() for element in self.elements()}
        self.check(len(set(new) - set(model)), "HSET", key, *[word for pair in new.items() for word in pair])
        model.update(new)

    do_hset_again = do_hset

    def do_hdel(self):
        key, model = self.some_hash()
        elements = self.elements()
        self.check(sum(element in model for element in elements), "HDEL", key, *elements)
        for element in elements:
            model.pop(element, None)

    def do_hget(self):
        key, model = self.some_hash()
        element = self.element()
        self.check(model.get(element), "HGET", key, element)
        self.check(len(model.get(element, b"")), "HSTRLEN", key, element)
        self.check(int(element in model), "HEXISTS", key, element)

    def do_hmget(self):
        key, model = self.some_hash()
        elements = self.elements()
        self.check([model.get(element) for element in elements], "HMGET", key, *elements)

    def do_hincrby(self):
        key, model = self.some_hash()
        model[b"number"] = b"%d" % (int(model.get(b"number", 0)) + 5)
        self.check(int(model[b"number"]), "HINCRBY", key, "number", 5)

    def do_hgetall(self):
        key, model = self.some_hash()
        self.case.assertEqual(pairs(self.client.must("HGETALL", key)), model)

    def do_hscan(self):
        key, model = self.some_hash()
        cursor, seen = b"0", {}
        while True:
            cursor, page = self.client.must("HSCAN", key, cursor, "COUNT", self.random.choice([1, 10, 200]))
            seen.update(pairs(page))
            if cursor == b"0":
                break
        self.case.assertEqual(seen, model)

    def do_hrandfield(self):
        key, model = self.some_hash()
        for count in (3, 50, -20):
            drawn = self.client.must("HRANDFIELD", key, count)
            self.case.assertLessEqual(set(drawn), set(model))
            self.case.assertEqual(len(drawn), (min(count, len(model)) if count > 0 else -count) if model else 0)

    def do_field_times(self):
        key, model = self.some_hash()
        if model:
            self.check([1], "HPEXPIRE", key, 1000000, "FIELDS", 1, next(iter(model)))
            if self.random.randrange(2):
                self.check([1], "HPERSIST", key, "FIELDS", 1, next(iter(model)))

    def do_sadd(self):
        key, model = self.some_set()
        elements = self.elements()
        self.check(len(set(elements) - model), "SADD", key, *elements)
        model.update(elements)

    do_sadd_again = do_sadd

    def do_srem(self):
        key, model = self.some_set()
        elements = self.elements()
        self.check(len(set(elements) & model), "SREM", key, *elements)
        model.difference_update(elements)

    def do_smismember(self):
        key, model = self.some_set()
        elements = self.elements()
        self.check([int(element in model) for element in elements], "SMISMEMBER", key, *elements)

    def do_smove(self):
        (key, model), (other, target) = self.some_set(), self.some_set()
        element = self.element()
        self.check(int(element in model), "SMOVE", key, other, element)
        if element in model:
            model.remove(element)
            target.add(element)

    def do_spop(self):
        key, model = self.some_set()
        count = self.random.choice([1, 3, 60])
        popped = self.client.must("SPOP", key, count)
        self.case.assertLessEqual(set(popped), model)
        self.case.assertEqual(len(popped), min(count, len(model)))
        model.difference_update(popped)

    def do_srandmember(self):
        key, model = self.some_set()
        for count in (3, 60, -10):
            self.case.assertLessEqual(set(self.client.must("SRANDMEMBER", key, count)), model)

    def do_algebra(self):
        (key, model), (other, second), (target, _) = self.some_set(), self.some_set(), self.some_set()
        self.case.assertEqual(set(self.client.must("SINTER", key, other)), model & second)
        self.case.assertEqual(set(self.client.must("SDIFF", key, other)), model - second)
        if model | second:          # else the target is looked at in place
            self.check(len(model | second), "SUNIONSTORE", target, key, other)
            self.sets[target] = model | second

    def do_copy(self):
        (key, model), (other, _) = self.some_hash(), self.some_hash()
        if key != other and model:
            self.check(1, "COPY", key, other, "REPLACE")
            self.hashes[other] = dict(model)

    def do_rename(self):
        (key, model), (other, _) = self.some_set(), self.some_set()
        if key != other and model:
            self.check(OK, "RENAME", key, other)
            self.sets[key], self.sets[other] = set(), model

    def do_dump(self):
        (key, model), (other, _) = self.some_hash(), self.some_hash()
        if model:
            self.check(OK, "RESTORE", other, 0, self.client.must("DUMP", key), "REPLACE")
            self.hashes[other] = dict(model)

    def do_delete(self):
        key, model = self.some_hash()
        self.check(int(bool(model)), self.random.choice(["DEL", "UNLINK"]), key)
        self.hashes[key] = {}

    def do_overwrite(self):
        key, model = self.some_set()
        self.check(OK, "SET", key, "x")
        self.check(1, "DEL", key)
        self.sets[key] = set()

    def do_transaction(self):
        (key, model), (other, members) = self.some_hash(), self.some_set()
        element = self.element()
        replies = self.client.pipeline([("MULTI",), ("HSET", key, element, "q"), ("SISMEMBER", other, element), ("HGET", key, element), ("EXEC",)])
        self.case.assertEqual(replies[-1][1:], [int(element in members), b"q"])
        model[element] = b"q"

    def do_script(self):
        (key, model), (other, members) = self.some_hash(), self.some_set()
        element = self.element()
        text = "redis.call('SADD', KEYS[2], ARGV[1]); return {redis.call('HGET', KEYS[1], ARGV[1]), redis.call('SCARD', KEYS[2])}"
        members.add(element)
        self.check([model.get(element), len(members)], "EVAL", text, 2, key, other, element)

    def do_demote(self):
        demote(self.client, *self.random.sample(HASHES + SETS, self.random.choice([1, 3, 6])))

    do_demote_again = do_demote


@kelvin_only
class PagesTest(ServerCase):
    options = SMALL

    def counter(self, name):
        return int(self.server.info("tiering")[name])

    def test_random_commands(self):
        seed = seed_new()
        model = Model(self, self.c, seed)
        before = self.counter("tier_unplanned_reads")
        with self.subTest(seed=seed):
            for _ in range(scaled(4000)):
                model.step()
            model.verify()
            self.assertEqual(self.counter("tier_unplanned_reads"), before)

    def test_one_field_needs_one_page(self):
        model = fill(self.c)
        demote(self.c, "h")
        hot, cold = pages(self.server)
        self.assertEqual(hot, 0)
        self.assertGreater(cold, 50)
        for number, field in enumerate(list(model)[::100]):
            self.assertEqual(self.c.must("HGET", "h", field), model[field])
            self.assertLessEqual(pages(self.server)[0], number + 1)
        self.assertEqual(self.c.must("HLEN", "h"), len(model))

    def test_what_needs_no_element_reads_none(self):
        fill(self.c)
        demote(self.c, "h")
        for words in (("HLEN", "h"), ("TYPE", "h"), ("EXISTS", "h"), ("TTL", "h"), ("EXPIRE", "h", 1000), ("PERSIST", "h"), ("OBJECT", "ENCODING", "h"), ("TOUCH", "h"),
                      ("MEMORY", "USAGE", "h"), ("GET", "h"), ("SADD", "h", "x"), ("LLEN", "h")):
            self.c.call(*words)
            self.assertEqual(pages(self.server)[0], 0, words)
        self.assertEqual(self.c.must("DEL", "h"), 1)
        self.assertLessEqual(pages(self.server)[0], 1)         # what is left to be dropped is in a page
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_copy_has_pages_of_its_own(self):
        """Of all types, all pages cold before, some of them not used any more (of trees that have shrunk); into another partition and another database."""
        words = [b"element:%06d" % i for i in range(3000)]
        fillers = {
            "hash": [("HSET", "v", *[word for element in words for word in (element, element)])],
            "times": [("HSET", "v", *[word for element in words for word in (element, element)])] + [("HPEXPIREAT", "v", 4000000000000 + i, "FIELDS", 1, words[i]) for i in range(1000)] +
                     [("HPERSIST", "v", "FIELDS", 900, *words[:900])],
            "set": [("SADD", "v", *words)],
            "zset": [("ZADD", "v", *[word for i, element in enumerate(words) for word in (i * 7919 % 3000, element)]), ("ZREMRANGEBYRANK", "v", 500, 2900)],
            "list": [("RPUSH", "v", *words), ("LTRIM", "v", 1000, 2000)],
            "stream": [("XADD", "v", "%d-1" % (i + 1), "f", words[i]) for i in range(3000)] + [("XGROUP", "CREATE", "v", "g", "0"), ("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", "v", ">"),
                                                                                         ("XTRIM", "v", "MAXLEN", 200)],
            "string": [("SET", "v", b"".join(words)), ("SETRANGE", "v", 100000, "x")],
        }
        for name, commands in fillers.items():
            with self.subTest(name):
                self.c.pipeline(commands)
                digest = self.c.must("DEBUG", "DIGEST-VALUE", "v")
                one = sum(pages(self.server))
                self.assertGreater(one, 10)
                demote(self.c, "v")
                before = int(self.server.info("tiering")["tier_unplanned_reads"])
                for number, (words_of, db) in enumerate(((("COPY", "v", "copy"), 0), (("COPY", "v", "copy", "REPLACE"), 0), (("COPY", "v", "v", "DB", 3), 3))):
                    self.assertEqual(self.c.must(*words_of), 1)
                    until(lambda: sum(pages(self.server)) == one * (2 + (number > 1)), what="the pages of the copy")
                self.assertEqual(int(self.server.info("tiering")["tier_unplanned_reads"]), before)
                self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "copy"), digest)
                self.c.must("SELECT", 3)
                self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "v"), digest)
                self.c.must("SELECT", 0)
                self.assertEqual(self.c.must("OBJECT", "ENCODING", "copy"), self.c.must("OBJECT", "ENCODING", "v"))
                self.c.pipeline([command for command in commands if command[0] != "XGROUP"])        # the copy does not change with it
                self.c.must("EXPIRE", "v", 1000)
                self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "copy"), digest)
                self.c.must("DEL", "v")
                self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "copy"), digest)
                self.c.must("FLUSHALL")
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_whatever_deletes_a_cold_value_deletes_its_pages(self):
        gone = {
            "DEL": lambda: self.c.must("DEL", "h"),
            "UNLINK": lambda: self.c.must("UNLINK", "h"),
            "SET": lambda: self.c.must("SET", "h", "x"),
            "MSET": lambda: self.c.must("MSET", "h", "x", "other", "y"),
            "GETSET": lambda: self.c.call("SET", "h", "x", "GET"),
            "SUNIONSTORE": lambda: self.c.must("SUNIONSTORE", "h", "none"),
            "RESTORE": lambda: (self.c.must("SET", "s", "x"), self.c.must("RESTORE", "h", 0, self.c.must("DUMP", "s"), "REPLACE")),
            "RENAME": lambda: (self.c.must("SET", "s", "x"), self.c.must("RENAME", "s", "h")),
            "COPY": lambda: (self.c.must("SET", "s", "x"), self.c.must("COPY", "s", "h", "REPLACE")),
            "FLUSHDB": lambda: self.c.must("FLUSHDB"),
            "FLUSHALL ASYNC": lambda: self.c.must("FLUSHALL", "ASYNC"),
            "HDEL": lambda: self.c.must("HDEL", "h", *[b"field:%d" % i for i in range(1000)]),
        }
        for name, run in gone.items():
            with self.subTest(name):
                fill(self.c)
                demote(self.c, "h")
                self.assertGreater(pages(self.server)[1], 50)
                if name == "GETSET":
                    self.assertIsInstance(run(), Error)
                    self.c.must("DEL", "h")
                else:
                    run()
                until(lambda: pages(self.server) == (0, 0), what="the end of the pages")
                self.c.must("FLUSHALL")

    def test_a_cold_value_that_expires_deletes_its_pages(self):
        for at_once in (True, False):
            fill(self.c)
            self.c.must("PEXPIRE", "h", 100)
            demote(self.c, "h")
            if at_once:
                until(lambda: self.c.must("EXISTS", "h") == 0, what="the end of the key")
            until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_scans_go_on_when_the_value_gets_into_pages(self):
        self.c.must("CONFIG", "SET", "tier-page-threshold", 0)
        model = fill(self.c, count=2000)
        for change in ((256, "0"), (0, "1")):
            cursor, seen = b"0", set()
            for turn in range(10):
                cursor, page = self.c.must("HSCAN", "h", cursor, "COUNT", 50)
                seen.update(page[::2])
            self.c.must("CONFIG", "SET", "tier-page-threshold", change[0])
            self.c.must("HSET", "h", "field:1", "value:7")
            demote(self.c, "h")
            while cursor != b"0":
                cursor, page = self.c.must("HSCAN", "h", cursor, "COUNT", 50)
                seen.update(page[::2])
            self.assertEqual(seen, set(model))
            self.c.must("HPEXPIRE", "h", 1000000, "FIELDS", 1, "field:1")       # it is a whole again
        self.c.must("CONFIG", "SET", "tier-page-threshold", 256)

    def test_a_rename_leaves_the_pages_where_they_are(self):
        """They are in the partition of the first key then, mostly another one than that of the key."""
        model = fill(self.c)
        self.c.must("SADD", "s", *model)
        demote(self.c, "h", "s")
        before = pages(self.server)
        loads = int(self.server.info("tiering")["tier_promotions"])
        names = ["r%d" % i for i in range(40)]
        for one, other in zip(["h"] + names, names):
            self.c.must("RENAME", one, other)
            self.assertEqual(self.c.must("HLEN", other), len(model))
        self.c.must("RENAMENX", "s", "t")
        self.assertEqual(pages(self.server), before)
        self.assertLess(int(self.server.info("tiering")["tier_promotions"]), loads + 5)
        last = names[-1]
        self.assertEqual(self.c.must("HGET", last, "field:3"), b"value:21")
        self.assertEqual(self.c.must("SISMEMBER", "t", "field:3"), 1)
        self.c.must("HSET", last, "field:3", "new", "more", "m")
        self.c.must("SREM", "t", "field:3")
        self.c.must("MULTI")
        self.c.must("HINCRBY", last, "count", 5)
        self.c.must("SMOVE", "t", "t2", "field:4")
        self.c.must("RENAME", last, "h")
        self.c.must("RENAME", "h", "u")
        self.c.must("SUNION", "t", "t2")
        self.assertEqual(len(self.c.must("EXEC")[-1]), len(model) - 1)
        self.assertEqual(self.c.must("EVAL", "return redis.call('HGET', KEYS[1], 'count') .. redis.call('SCARD', KEYS[2])", 2, "u", "t"), b"5998")
        model.update({b"field:3": b"new", b"more": b"m", b"count": b"5"})
        self.assertEqual(pairs(self.c.must("HGETALL", "u")), model)
        self.assertEqual(self.c.must("COPY", "u", "v"), 1)
        self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "u"), self.c.must("DEBUG", "DIGEST-VALUE", "v"))
        self.assertEqual(self.c.must("SORT", "t", "LIMIT", 0, 1, "ALPHA"), [b"field:0"])
        for i, remove in enumerate((("DEL", "u"), ("SET", "v", "x"), ("PEXPIRE", "t", 1), ("RENAME", "v", "t2"))):
            self.c.must(*remove)
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_whatever_deletes_a_renamed_value_deletes_its_pages(self):
        def renamed(i, cold):
            fill(self.c)
            self.c.must("RENAME", "h", "renamed:%d" % i)
            if cold:
                demote(self.c, "renamed:%d" % i)
            return "renamed:%d" % i

        ways = (lambda key: self.c.must("DEL", key), lambda key: self.c.must("SET", key, "x"), lambda key: self.c.must("PEXPIRE", key, 1),
                lambda key: self.c.must("HDEL", key, *[b"field:%d" % i for i in range(1000)]), lambda key: (self.c.must("SET", "s", "x"), self.c.must("RENAME", "s", key)),
                lambda key: self.c.must("MOVE", key, 5), lambda key: self.c.must("HPEXPIRE", key, 1, "FIELDS", 1, "field:1"), lambda key: self.c.must("FLUSHALL"))
        for i in range(len(ways) * 4):
            ways[i // 4](renamed(i, i % 2))
        self.c.must("FLUSHALL")
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_what_was_there_before_gets_into_pages_when_it_is_used(self):
        self.c.must("CONFIG", "SET", "tier-page-threshold", 0)
        model = fill(self.c)
        self.c.must("SADD", "s", *model)
        for cold in (False, True):
            if cold:
                demote(self.c, "h", "s")
            self.assertEqual(pages(self.server), (0, 0))
            self.c.must("CONFIG", "SET", "tier-page-threshold", 256)
            self.assertEqual(self.c.must("HLEN", "h"), len(model))
            self.assertEqual(pages(self.server), (0, 0))
            self.assertEqual(self.c.must("HGET", "h", "field:5"), model[b"field:5"])
            self.assertGreater(pages(self.server)[0], 50)
            self.assertEqual(self.c.must("SISMEMBER", "s", "field:7"), 1)
            demote(self.c, "h", "s")
            self.assertEqual(pairs(self.c.must("HGETALL", "h")), model)
            self.assertEqual(set(self.c.must("SMEMBERS", "s")), set(model))
            self.c.must("CONFIG", "SET", "tier-page-threshold", 0)
            for key in "h", "s":
                self.c.must("COPY", key, "other")       # a whole
                self.c.must("RENAME", "other", key)
            until(lambda: pages(self.server) == (0, 0), what="the end of the pages")
        self.c.must("CONFIG", "SET", "tier-page-threshold", 256)

    def test_pages_of_many_databases_need_no_memory_when_they_are_gone(self):
        with Server(dict(SMALL, databases=16)) as server, server.client() as client:
            before = int(server.info("memory")["used_memory"])
            for db in range(16):
                client.must("SELECT", db)
                fill(client)
            for db in range(16):
                client.must("SELECT", db)
                client.must("DEL", "h")
            until(lambda: pages(server) == (0, 0), what="the end of the pages")
            until(lambda: int(server.info("memory")["used_memory"]) < before + (6 << 20), what="the memory")

    def test_a_transaction_that_has_used_keys_may_ask_for_the_digest(self):
        with Server(SMALL) as server, server.client(timeout=20) as client:
            fill(client)
            client.must("MULTI")
            for words in (("HSET", "h", "f", "v"), ("DEBUG", "DIGEST"), ("SET", "x", "1"), ("DEBUG", "DIGEST")):
                client.must(*words)
            first, second = client.must("EXEC")[1::2]
            self.assertEqual(client.must("DEBUG", "DIGEST"), second)
            self.assertNotEqual(first, second)

    def test_other_databases(self):
        model = fill(self.c)
        demote(self.c, "h")
        self.assertEqual(self.c.must("MOVE", "h", 1), 1)
        self.c.must("SELECT", 1)
        self.assertEqual(pairs(self.c.must("HGETALL", "h")), model)
        demote(self.c, "h")
        self.assertEqual(self.c.must("COPY", "h", "h", "DB", 2), 1)
        self.c.must("SWAPDB", 1, 3)
        self.assertEqual(self.c.must("HLEN", "h"), 0)
        for database in (2, 3):
            self.c.must("SELECT", database)
            self.assertEqual(pairs(self.c.must("HGETALL", "h")), model)
            demote(self.c, "h")
        self.c.must("SELECT", 3)
        self.assertEqual(self.c.must("COPY", "h", "h", "DB", 2, "REPLACE"), 1)
        self.c.must("SELECT", 2)
        self.assertEqual(pairs(self.c.must("HGETALL", "h")), model)
        self.c.must("FLUSHALL")
        until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_values_that_become_empty(self):
        for name, words, last in (("HDEL", ["HSET", "k"] + ["%d" % (i // 2) for i in range(800)], ["HDEL", "k"] + ["%d" % i for i in range(400)]),
                                  ("SREM", ["SADD", "k"] + ["m%d" % i for i in range(400)], ["SREM", "k"] + ["m%d" % i for i in range(400)]),
                                  ("SPOP", ["SADD", "k"] + ["m%d" % i for i in range(400)], None),
                                  ("HPEXPIRE", ["HSET", "k"] + ["%d" % (i // 2) for i in range(800)], ["HPEXPIRE", "k", 0, "FIELDS", 400] + ["%d" % i for i in range(400)])):
            for cold in (False, True):
                with self.subTest(name, cold=cold):
                    self.c.must(*words)
                    if cold:
                        demote(self.c, "k")
                    if last:
                        self.c.must(*last)
                    else:
                        for _ in range(400):
                            self.assertIsNotNone(self.c.must("SPOP", "k"))
                    self.assertEqual(self.c.must("EXISTS", "k"), 0)
                    until(lambda: pages(self.server) == (0, 0), what="the end of the pages")

    def test_a_call_that_changes_nothing_leaves_the_root_as_it_is(self):
        """A member that is there already: what splitting was put off may not be made up for, as the root would not be written."""
        members = [b"member:%d" % i for i in range(60)]
        self.c.must("SADD", "s", *members)
        for turn in range(300):
            demote(self.c, "s")
            members.append(b"later:%d" % turn)
            self.assertEqual(self.c.must("SADD", "s", members[-1]), 1)
            for there in random.sample(members, 10):
                self.assertEqual(self.c.must("SMISMEMBER", "s", *random.sample(members, 20)), [1] * 20)
                demote(self.c, "s")
                self.assertEqual(self.c.must("SISMEMBER", "s", there), 1)
                self.assertEqual(self.c.must("SADD", "s", there, *random.sample(members, 20)), 0)
        demote(self.c, "s")
        self.assertEqual(set(self.c.must("SMEMBERS", "s")), set(members))

    def test_many_draws_of_cold_elements_are_few_rounds(self):
        self.c.must("SADD", "s", *[b"member:%d" % i for i in range(20000)])
        for count in (-5000, 3000, -100000):
            demote(self.c, "s")
            before = self.counter("tier_ring_batches")
            self.assertEqual(len(self.c.must("SRANDMEMBER", "s", count)), abs(count))
            self.assertLess(self.counter("tier_ring_batches") - before, 20)

    def test_arguments_that_are_in_the_same_pages_count_once(self):
        self.c.must("CONFIG", "SET", "maxmemory", "12mb")
        self.addCleanup(self.c.must, "CONFIG", "SET", "maxmemory", SMALL["maxmemory"])
        model = fill(self.c, count=20000)
        demote(self.c, "h")
        self.assertEqual(self.c.must("HMGET", "h", *model), list(model.values()))

    def test_draws_are_fair(self):
        count = 60
        self.c.must("CONFIG", "SET", "set-max-listpack-entries", 10)
        self.addCleanup(self.c.must, "CONFIG", "SET", "set-max-listpack-entries", 128)
        self.c.must("SADD", "s", *[b"member:%02d" % i for i in range(count)])
        self.assertGreater(pages(self.server)[0], 3)
        drawn = {}
        for _ in range(40):
            demote(self.c, "s")
            for member in self.c.must("SRANDMEMBER", "s", -150):
                drawn[member] = drawn.get(member, 0) + 1
        self.assertEqual(len(drawn), count)
        # 100 draws for each: chi-square with 59 degrees of freedom is above 120 once in 10^5 times.
        self.assertLess(sum((n - 100) ** 2 / 100 for n in drawn.values()), 120)

    def test_many_clients_at_once(self):
        model = fill(self.c)
        errors = []

        def use(number):
            rnd = random.Random(number)
            with self.server.client() as client:
                for turn in range(scaled(300)):
                    field = rnd.choice(list(model))
                    if client.must("HGET", "h", field) != model[field]:
                        errors.append(field)
                    client.must("HSET", "own%d" % number, *[b"%d:%d" % (turn, i) for i in range(20)])
                if client.must("HLEN", "own%d" % number) != scaled(300) * 10:
                    errors.append(number)

        threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            demote(self.c, "h", "own0", "own1", "own2", "own3")
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])


@kelvin_only
class KeptPagesTest(unittest.TestCase):
    """Over starts, in dumps, on replicas."""

    def start(self, options):
        server = Server(options)
        self.addCleanup(server.discard)
        return server

    def test_a_kill_and_a_start_with_other_partitions(self):
        seed = seed_new()
        server = self.start(LOGGED)
        with self.subTest(seed=seed):
            client = server.client()
            model = Model(self, client, seed)
            for turn in range(4):
                for _ in range(scaled(400)):
                    model.step()
                if turn % 2:
                    checkpoint(server, client)
                    for _ in range(scaled(100)):
                        model.step()
                if turn == 3:
                    server.options["partitions"] = 4
                client.close()
                server.restart(kill=turn != 2)
                client = model.client = server.client()
                model.verify()
            client.close()
        server.stop()

    def test_renamed_values_over_kills_with_other_partitions(self):
        server = self.start(LOGGED)
        client, models = server.client(), {}
        for turn in range(6):
            for i in range(10):
                key, other = "k:%d:%d" % (turn, i), "other:%d:%d" % (turn, i)
                models[other] = fill(client, key, 200 + i)
                client.must("RENAME", key, other)
            for key in random.sample(sorted(models), len(models) // 2):
                name = "name:%d:%s" % (turn, key[-3:])
                if client.must("RENAMENX", key, name):
                    models[name] = models.pop(key)
            for key in random.sample(sorted(models), len(models) // 3):
                client.must("DEL", key)
                del models[key]
            for key in models:
                client.must("HSET", key, "turn", turn)
                models[key][b"turn"] = b"%d" % turn
            demote(client, *list(models)[::2])
            if turn % 2:
                checkpoint(server, client)
            server.options["partitions"] = (64, 4096, 16, 256, 1, 64)[turn]
            client.close()
            server.restart(kill=True)
            client = server.client()
            for key, model in models.items():
                self.assertEqual(pairs(client.must("HGETALL", key)), model)
        for key in models:
            client.must("UNLINK", key)
        until(lambda: pages(server) == (0, 0), what="the end of the pages")
        client.close()
        server.stop()

    def test_values_that_were_renamed_in_one_partition(self):
        """They are elsewhere when there are more partitions, and a blind overwriting would leave their pages."""
        server = self.start(dict(LOGGED, partitions=1))
        with server.client() as client:
            for i in range(30):
                fill(client, "k:%d" % i, 200)
                client.must("RENAME", "k:%d" % i, "renamed:%d" % i)
            demote(client, *["renamed:%d" % i for i in range(30)])
            checkpoint(server, client)
        server.options["partitions"] = 256
        server.restart()
        with server.client() as client:
            for i in range(30):
                client.must("SET", "renamed:%d" % i, "x")
            until(lambda: pages(server) == (0, 0), what="the end of the pages")
        server.stop()

    def test_a_replay_and_a_replica_load_pages_ahead(self):
        server = self.start(dict(LOGGED, **{"tier-warmup": "no"}))
        with server.client() as client:
            model = fill(client, count=20000)
            demote(client, "h")
            checkpoint(server, client)
            for field in list(model)[::20]:
                model[field] = b"other"
                client.must("HSET", "h", field, "other")
        server.restart(kill=True)
        with server.client() as client:
            self.assertLess(int(server.info("tiering")["tier_unplanned_reads"]), 100)
            self.assertGreater(pages(server)[0], 400)
            self.assertGreater(pages(server)[1], 100)
            replica = self.start(dict(SMALL, replicaof="127.0.0.1 %d" % server.port))
            until(lambda: replica.info("replication")["master_link_status"] == "up", what="the link")
            with replica.client() as other:
                demote(other, "h")
                client.pipeline([("HSET", "h", field, "third") for field in list(model)[::20]])
                until(lambda: client.must("WAIT", 1, 1000) == 1, what="the replica")
                self.assertEqual(other.must("HGET", "h", "field:0"), b"third")
                self.assertLess(int(replica.info("tiering")["tier_unplanned_reads"]), 300)
            replica.stop()
        server.stop()

    def test_a_replay_makes_no_page_twice(self):
        """A replay loads the pages that growing needs itself; few pages that are split soon are named once, too."""
        for count in range(520, 1000, 60):
            server = self.start(dict(LOGGED, **{"tier-page-threshold": "32kb", "tier-page-size": 1024}))
            with server.client() as client:
                model = {b"field:%06d" % i: b"value:%020d:%020d" % (i, i) for i in range(count)}
                client.must("HSET", "h", *[word for pair in model.items() for word in pair])
                demote(client, "h")
                checkpoint(server, client)
                for turn in range(6):
                    more = {b"more:%06d:%d" % (turn, i): b"value:%020d" % turn * 2 for i in range(60)}
                    model.update(more)
                    client.must("HSET", "h", *[word for pair in more.items() for word in pair])
            server.restart(kill=True)
            with server.client() as client:
                self.assertGreaterEqual(pages(server)[1], 0)
                model = {field: b"new" + field for field in model}
                client.must("HSET", "h", *[word for pair in model.items() for word in pair])
                demote(client, "h")
                self.assertEqual(pairs(client.must("HGETALL", "h")), model, count)
                self.assertEqual(client.must("DEL", "h"), 1)
                until(lambda: pages(server) == (0, 0), what="the end of the pages")
            server.stop()

    def test_a_replay_of_a_hash_in_place_of_another_value_in_pages(self):
        """It looks ahead for the pages of the hash's fields, but what the image has is no table."""
        fills = {"list": ("RPUSH", "l", *["v%d" % i * 20 for i in range(300)]), "string": ("SETRANGE", "l", 20000, "x")}
        for name, call in list(fills.items()) + [("stream", None)]:
            server = self.start(LOGGED)
            with server.client() as client:
                if call is None:
                    client.pipeline([("XADD", "l", "%d-1" % (i + 1), "a", "v" * 50) for i in range(100)])
                else:
                    client.must(*call)
                demote(client, "l")
                checkpoint(server, client)
                client.pipeline([("DEL", "l"), ("HSET", "l", "a", "b")])
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual(client.must("HGETALL", "l"), [b"a", b"b"], name)
                until(lambda: pages(server) == (0, 0), what="the end of the pages")
            server.stop()

    def image_of_cold_hash(self):
        """Returns a server that has ended, and the hash."""
        server = self.start(LOGGED)
        with server.client() as client:
            model = fill(client)
            demote(client, "h")
            checkpoint(server, client)
        server.terminate()
        return server, model

    def test_a_damaged_tags_file_is_rebuilt(self):
        server, model = self.image_of_cold_hash()
        folder = os.path.join(server.folder, "appendonlydir")
        for name in os.listdir(folder):
            if name.endswith(".image"):
                with open(os.path.join(folder, name, "tags"), "r+b") as file:
                    file.seek(30)
                    file.write(b"damage")
        server.start()
        with server.client() as client:
            self.assertEqual(pairs(client.must("HGETALL", "h")), model)
            demote(client, "h")
            self.assertIn(client.must("SAVE"), (OK,))
        server.stop()

    def test_a_damaged_page_costs_the_elements_in_it(self):
        server, model = self.image_of_cold_hash()
        for path in glob.glob(os.path.join(server.folder, "appendonlydir", "*.image", "store", "*.seg")):
            text = bytearray(contents(path))
            at = text.find(b"field:500")
            if at > 0:
                text[at] ^= 0xff
                with open(path, "r+b") as file:
                    file.write(text)
        for options in ((), ("--repair",)):
            text = check.verify(server.folder, *options)[1]
            self.assertRegex(text, r"page \d+ of the value [0-9a-f]{12}, database 0: its record .* is damaged or missing")
            self.assertRegex(text, r'key "h", database 0: 1 of its \d+ pages are damaged or missing')
        server.start()
        with server.client() as client:
            replies = [client.call("HGET", "h", field) for field in model]
            lost = sum(isinstance(reply, Error) for reply in replies)
            self.assertIn(lost, range(1, 60))
            self.assertEqual(sum(reply == value for reply, value in zip(replies, model.values())), len(model) - lost)
            self.assertIsInstance(client.call("HGETALL", "h"), Error)
            self.assertEqual(client.must("DEL", "h"), 1)
            checkpoint(server, client)
            until(lambda: pages(server) == (0, 0), what="the end of the pages")
        server.stop()

    def test_a_dump_has_the_values_as_a_whole(self):
        server = self.start(SMALL)
        with server.client() as client:
            model = fill(client)
            client.must("SADD", "s", *[b"m%d" % i for i in range(1000)])
            client.must("HSET", "short", "f", "v")
            client.must("EXPIRE", "s", 10000)
            demote(client, "h")
            client.must("SAVE")
            digest = client.must("DEBUG", "DIGEST")
            client.must("DEBUG", "RELOAD")
            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
            self.assertGreater(pages(server)[0], 50)       # they were taken into pages when they were loaded
        server.options["tier-page-threshold"] = 0
        server.restart()
        with server.client() as client:
            self.assertEqual(pages(server), (0, 0))
            self.assertEqual(pairs(client.must("HGETALL", "h")), model)
            self.assertEqual((client.must("SCARD", "s"), client.must("HGET", "short", "f")), (1000, b"v"))
            self.assertGreater(client.must("TTL", "s"), 9000)
        server.stop()

    def test_a_dump_of_values_that_are_larger_than_memory(self):
        """They are read in parts, put aside if they are larger than a quarter of maxmemory, and written element by element."""
        count = scaled(120000)
        server = self.start({"tier-page-threshold": 0, "maxmemory": "0", "maxmemory-policy": "allkeys-lru"})        # no key goes as long as there is room on the disk
        with server.client(timeout=60) as client:
            for key, some, size in (("large", count, 60), ("set", count, 100), ("small", count // 40, 20)):
                for start in range(0, some, 1000):
                    numbers = range(start, min(start + 1000, some))
                    if key == "set":
                        client.must("SADD", key, *[b"%0*d" % (size, i) for i in numbers])
                    else:
                        client.must("HSET", key, *[word for i in numbers for word in (b"f%d" % i, b"%0*d" % (size, i))])
            client.must("SET", "last", "x")
            digest = client.must("DEBUG", "DIGEST")
            client.must("SAVE")
        for threshold, memory in (("4kb", "12mb"), ("4kb", "256mb"), (0, "256mb"), ("1kb", "16mb")):
            with self.subTest(threshold=threshold, memory=memory):
                server.options.update({"tier-page-threshold": threshold, "maxmemory": memory})
                server.restart()
                with server.client(timeout=60) as client:
                    self.assertEqual([client.must("HLEN", "large"), client.must("SCARD", "set"), client.must("HLEN", "small")], [count, count, count // 40])
                    for i in range(0, count, count // 300):
                        self.assertEqual(client.must("HGET", "large", "f%d" % i), b"%060d" % i)
                        self.assertEqual(client.must("SISMEMBER", "set", b"%0100d" % i), 1)
                    if threshold:
                        self.assertGreater(sum(pages(server)), count // 16)
                        self.assertLess(int(server.info("memory")["used_memory"]), (int(memory[:-2]) + 6) << 20)
                    self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                    client.must("SAVE")
        server.stop()

    def test_a_dump_whose_strings_are_compressed(self):
        """What counts is how large they are in memory."""
        server = self.start({"tier-page-threshold": 0, "maxmemory": "0"})
        with server.client(timeout=60) as client:
            for i in range(50):
                client.must("HSET", "h", "f%d" % i, b"%d" % i + b"x" * (1 << 20))
            client.must("SAVE")
        self.assertLess(os.path.getsize(os.path.join(server.folder, "dump.rdb")), 4 << 20)
        server.options.update({"tier-page-threshold": "4kb", "maxmemory": "24mb"})
        server.restart()
        with server.client(timeout=60) as client:
            self.assertEqual(client.must("HLEN", "h"), 50)
            self.assertLess(int(server.info("memory")["used_memory_peak"]), 40 << 20)
            for i in range(50):
                self.assertEqual(client.must("HGET", "h", "f%d" % i), b"%d" % i + b"x" * (1 << 20))
        server.stop()

    def test_a_disk_that_fails_while_a_large_value_is_loaded(self):
        """Reads of its pages, and of what is put aside; a full disk for the latter."""
        server = self.start({"tier-page-threshold": 0, "maxmemory": "0"})
        disk = Disk(server.folder)
        self.addCleanup(disk.remove)
        with server.client(timeout=60) as client:
            for start in range(0, 100000, 1000):
                client.must("SADD", "s", *[b"%0100d" % i for i in range(start, start + 1000)])
            client.must("SAVE")
        server.terminate()
        text = contents(os.path.join(server.folder, "dump.rdb"))
        server.options.update({"tier-page-threshold": "4kb", "maxmemory": "12mb"})
        server.environment = disk.environment
        for kind, name, error in (("read", "store/*.seg", errno.EIO), ("read", "temp-*.spool", errno.EIO), ("write", "temp-*.spool", errno.ENOSPC), ("create", "temp-*.spool", errno.EIO)):
            with self.subTest(kind=kind, name=name):
                os.makedirs(server.folder, exist_ok=True)
                with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
                    file.write(text)
                disk.rule(0, kind, name, FAIL, first=40 if kind == "read" else 1, error=error)
                with self.assertRaisesRegex(StartFailed, "More elements of the key 's' can't be imported"):
                    server.start()

    def test_a_damaged_dump_of_a_large_value_is_refused(self):
        server = self.start({"tier-page-threshold": 0, "rdbcompression": "no"})
        with server.client(timeout=60) as client:
            for start in range(0, 60000, 1000):
                client.must("SADD", "s", *[b"%050d" % i for i in range(start, start + 1000)])
            client.must("SAVE")
        server.terminate()
        server.options.update({"tier-page-threshold": "4kb", "maxmemory": "8mb", "rdbchecksum": "no"})
        refuses_damaged_dumps(self, server, lambda text: (              # of which one has an element twice, mostly in different parts
            (text[:len(text) // 2], "ends early"), (text.replace(b"%050d" % 3, b"%050d" % 59999), "The value of the key 's' is damaged")))
        with server.client() as client:
            self.assertEqual(client.must("SCARD", "s"), 60000)
        server.stop()

    def test_a_tier_that_is_turned_off_returns_what_it_has(self):
        server, model = self.image_of_cold_hash()
        server.options["tier-enabled"] = "no"
        server.start()
        with server.client() as client:
            self.assertEqual(pairs(client.must("HGETALL", "h")), model)
            self.assertEqual(client.must("DEL", "h"), 1)
        server.stop()

    def test_replicas_with_and_without_pages(self):
        for image, threshold in (("yes", 256), ("no", 256), ("yes", 0)):
            with self.subTest(image=image, threshold=threshold):
                primary = self.start(dict(SMALL, **{"repl-image-sync": image, "repl-diskless-sync-delay": 0}))
                replica = self.start(dict(SMALL, **{"repl-image-sync": image, "tier-page-threshold": threshold, "replicaof": "127.0.0.1 %d" % primary.port}))
                self.follow(primary, replica)
                replica.stop()
                primary.stop()

    def follow(self, primary, replica):
        seed = seed_new()
        with primary.client() as client, replica.client() as other, self.subTest(seed=seed):
            model = Model(self, client, seed)
            for _ in range(scaled(300)):
                model.step()
            until(lambda: replica.info("replication")["master_link_status"] == "up", what="the link")
            for turn in range(3):
                for _ in range(scaled(200)):
                    model.step()
                demote(other, *HASHES, *SETS)
            until(lambda: client.must("WAIT", 1, 1000) == 1, what="the replica")
            self.assertEqual(client.must("DEBUG", "DIGEST"), other.must("DEBUG", "DIGEST"))


@kelvin_only
class ShortPagesTest(unittest.TestCase):
    """What has no room, and what can't be read."""

    def test_a_hash_of_three_times_maxmemory(self):
        with Server({"maxmemory": "32mb", "tier-page-threshold": "32kb", "maxmemory-policy": "noeviction"}) as server, server.client(timeout=60) as client:
            count, size = scaled(100), 1000         # 1 KiB each
            for start in range(count):
                client.must("HSET", "big", *[word for i in range(size) for word in (b"f:%d" % (start * size + i), b"%01000d" % i)])
            self.assertEqual(client.must("HLEN", "big"), count * size)
            for i in range(0, count * size, count * size // 50):
                self.assertEqual(client.must("HGET", "big", "f:%d" % i), b"%01000d" % (i % size))
            if count * size > 20000:
                reply = client.call("HGETALL", "big")
                self.assertIsInstance(reply, Error)
                self.assertIn("more than half of maxmemory", str(reply))
            self.assertLess(int(server.info("memory")["used_memory"]), 36 << 20)
            cursor, page = client.must("HSCAN", "big", 0, "COUNT", 100)
            self.assertGreater(len(page), 50)
            self.assertEqual(client.must("DEL", "big"), 1)
            until(lambda: pages(server) == (0, 0), 60, "the end of the pages")

    def test_a_call_is_weighed_by_the_pages_that_it_needs(self):
        """A few large elements among many small ones."""
        with Server({"maxmemory": "48mb", "tier-page-threshold": "4kb", "maxmemory-policy": "noeviction"}) as server, server.client(timeout=60) as client:
            fill(client, "h", 20000)
            large = ["large:%d" % i for i in range(16)]
            for field in large:
                client.must("HSET", "h", field, b"x" * (2 << 20))
                demote(client, "h")
            reply = client.call("HMGET", "h", *large)
            self.assertIsInstance(reply, Error)
            self.assertIn("too many elements", str(reply))
            self.assertEqual([len(value) for value in client.must("HMGET", "h", *large[:4])], [2 << 20] * 4)
            self.assertEqual(client.must("HGET", "h", "field:1999"), b"value:13993")

    def test_pages_that_are_damaged(self):
        with Server(SMALL) as server, server.client() as client:
            model = fill(client)
            demote(client, "h")
            self.assertEqual(client.must("HGET", "h", "field:1"), b"value:7")      # the root is hot
            folder = os.path.join(server.folder, "store")
            segments = {name: contents(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".seg")}
            for name, text in segments.items():
                with open(os.path.join(folder, name), "r+b") as file:
                    file.seek(4096)
                    file.write(bytes(byte ^ 0x55 for byte in text[4096:]))
            failed = 0
            for words in (("HGET", "h", "field:5"), ("HSET", "h", "field:6", "x"), ("HGETALL", "h"), ("HRANDFIELD", "h", 20), ("HRANDFIELD", "h", 900), ("HKEYS", "h"),
                          ("DUMP", "h"), ("COPY", "h", "h2"), ("HMGET", "h", *list(model)[:50]), ("HDEL", "h", *list(model)[:50])):
                reply = client.call(*words)
                failed += isinstance(reply, Error)
                if words[0] not in ("HGET", "HSET"):
                    self.assertIsInstance(reply, Error, words)
            self.assertGreater(failed, 7)
            self.assertEqual(client.must("HLEN", "h"), len(model))
            for name, text in segments.items():
                with open(os.path.join(folder, name), "r+b") as file:
                    file.write(text)
            self.assertEqual(set(pairs(client.must("HGETALL", "h"))), set(model))
            self.assertEqual(client.must("DEL", "h"), 1)
            until(lambda: pages(server) == (0, 0), what="the end of the pages")


if __name__ == "__main__":
    main()
