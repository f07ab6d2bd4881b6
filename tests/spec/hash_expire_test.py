"""Fields of hashes with an expiry: HEXPIRE and related commands (Redis 7.4), HGETEX, HSETEX, HGETDEL (Redis 8.0). The oracle is older and
does not have them: the expected replies are in this file, according to the documentation of Redis, and in a model."""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, main                                                           # noqa: E402
from support.resp import OK, Error, Map, Null, Status                                                             # noqa: E402
from support.server import Server, is_redis, scaled, seed_new, until                                # noqa: E402

WRONG_TYPE = Error(b"WRONGTYPE Operation against a key holding the wrong kind of value")
FAMILY = ("hexpire", "hpexpire", "hexpireat", "hpexpireat")
TELLERS = ("httl", "hpttl", "hexpiretime", "hpexpiretime")
LATER = 4102444800000       # a time in the year 2100


def wait_past(ms=2):
    time.sleep((ms + 2) / 1000)


def plain(reply):
    """Returns the reply without the difference between the nulls of RESP2 and RESP3."""
    if isinstance(reply, Null):
        return None
    return [plain(part) for part in reply] if type(reply) is list else reply


def pairs(flat):
    return dict(zip(flat[0::2], flat[1::2])) if not isinstance(flat, Map) else dict(flat)


@unittest.skipIf(is_redis(), "this redis-server has no expiry of fields")
class HashExpireTest(ServerCase):
    protocol = 2

    def setUp(self):
        super().setUp()
        if self.protocol == 3:
            self.c = self.client(protocol=3)

    def before_command(self):
        """Subclasses move the keys here."""

    def call(self, *args):
        self.before_command()
        return plain(self.c.call(*args))

    def run_lines(self, script):
        """Runs lines of the form `command = reply`; the reply is a Python expression."""
        for line in script.strip().splitlines():
            command, reply = line.strip().rsplit(" = ", 1)
            self.before_command()
            wanted = eval(reply)        # noqa: S307
            self.assertEqual(plain(self.c.run(command)), Error(wanted[1:]) if isinstance(wanted, bytes) and wanted[:1] == b"-" else wanted, line)

    def both_encodings(self):
        for entries in (128, 0):
            self.c.must("CONFIG", "SET", "hash-max-listpack-entries", entries)
            self.c.must("FLUSHALL")
            yield "listpackex" if entries else "hashtable"
        self.c.must("CONFIG", "SET", "hash-max-listpack-entries", 128)

    def test_expiries_are_set_and_returned(self):
        for encoding in self.both_encodings():
            self.assertEqual(self.call("HSET", "h", "a", 1, "b", 2, "c", 3), 3)
            self.run_lines("""
                HTTL h FIELDS 2 a x = [-1, -2]
                HPEXPIREAT h 4102444800001 FIELDS 3 a x b = [1, -2, 1]
                HPEXPIRETIME h FIELDS 4 a b c x = [4102444800001, 4102444800001, -1, -2]
                HEXPIRETIME h FIELDS 1 a = [4102444801]
                HEXPIREAT h 4102444800 FIELDS 1 b = [1]
                HPEXPIRETIME h FIELDS 1 b = [4102444800000]
                HEXPIRETIME h FIELDS 1 b = [4102444800]
            """)
            self.assertEqual(self.call("OBJECT", "ENCODING", "h"), encoding.encode())
            self.assertEqual(pairs(self.call("HGETALL", "h")), {b"a": b"1", b"b": b"2", b"c": b"3"})
            self.run_lines("""
                HPERSIST h FIELDS 3 a c x = [1, -1, -2]
                HPERSIST h FIELDS 2 a a = [-1, -1]
                HPEXPIRETIME h FIELDS 2 a b = [-1, 4102444800000]
                HLEN h = 3
                TTL h = -1
                HEXPIRE missing 10 FIELDS 2 a b = [-2, -2]
                HPERSIST missing FIELDS 2 a b = [-2, -2]
                HTTL missing FIELDS 1 a = [-2]
                HPEXPIRETIME missing FIELDS 2 a a = [-2, -2]
                EXISTS missing = 0
                HEXPIRE h 100 FIELDS 1 a = [1]
                HTTL h FIELDS 1 a = [100]
            """)
            self.assertTrue(99000 < self.call("HPTTL", "h", "FIELDS", 1, "a")[0] <= 100000)
            self.assertEqual(self.call("HPEXPIRE", "h", 200500, "FIELDS", 1, "a"), [1])
            self.assertIn(self.call("HTTL", "h", "FIELDS", 1, "a"), ([200], [201]))
            self.assertEqual(self.call("HPERSIST", "h", "FIELDS", 2, "a", "b"), [1, 1])
            self.assertEqual(self.call("OBJECT", "ENCODING", "h"), encoding[:8].encode() if encoding == "listpackex" else b"hashtable")

    def test_conditions(self):
        for _ in self.both_encodings():
            self.run_lines("""
                HSET h a 1 b 2 = 2
                HPEXPIREAT h 4102444801000 XX FIELDS 1 a = [0]
                HPEXPIREAT h 4102444801000 GT FIELDS 1 a = [0]
                HPEXPIREAT h 4102444801000 NX FIELDS 1 a = [1]
                HPEXPIREAT h 4102444802000 NX FIELDS 2 a b = [0, 1]
                HPEXPIREAT h 4102444801500 GT FIELDS 2 a b = [1, 0]
                HPEXPIREAT h 4102444801500 GT FIELDS 1 a = [0]
                HPEXPIREAT h 4102444801500 LT FIELDS 1 a = [0]
                HPEXPIREAT h 4102444801400 lt FIELDS 1 a = [1]
                HPEXPIREAT h 4102444801300 xx FIELDS 2 a b = [1, 1]
                HPERSIST h FIELDS 1 b = [1]
                HPEXPIREAT h 4102444801400 LT FIELDS 1 b = [1]
                HPEXPIREAT h 1 NX FIELDS 3 a b x = [0, 0, -2]
                HPEXPIREAT h 1 GT FIELDS 2 a b = [0, 0]
                HPEXPIREAT h 1 LT FIELDS 1 a = [2]
                HEXISTS h a = 0
                HEXPIRE h 0 FIELDS 2 b b = [2, -2]
                EXISTS h = 0
            """)

    def test_errors(self):
        self.c.must("SET", "s", "v")
        self.c.must("HSET", "h", "a", 1)
        for name in FAMILY:
            far = str(1 << 46)
            for args, error in (
                    (("h", "x", "FIELDS", 1, "a"), "value is not an integer or out of range"),
                    (("h", "9223372036854775808", "FIELDS", 1, "a"), "value is not an integer or out of range"),
                    (("h", -1, "FIELDS", 1, "a"), "invalid expire time, must be >= 0"),
                    (("h", far, "FIELDS", 1, "a"), "invalid expire time in '%s' command" % name),
                    (("h", 9223372036854775807, "FIELDS", 1, "a"), "invalid expire time in '%s' command" % name),
                    (("h", 10, "FOO", "FIELDS", 1, "a"), "Mandatory argument FIELDS is missing or not at the right position"),
                    (("h", 10, "NX", "XX", "FIELDS", 1, "a"), "Mandatory argument FIELDS is missing or not at the right position"),
                    (("h", 10, "FIELDS", 0, "a"), "Parameter `numFields` should be greater than 0"),
                    (("h", 10, "FIELDS", "x", "a"), "Parameter `numFields` should be greater than 0"),
                    (("h", 10, "FIELDS", 2, "a"), "The `numfields` parameter must match the number of arguments"),
                    (("h", 10, "FIELDS", 1, "a", "b"), "The `numfields` parameter must match the number of arguments"),
                    (("h", 10, "FIELDS", 1), "wrong number of arguments for '%s' command" % name)):
                self.assertEqual(self.call(name, *args), Error(b"ERR " + error.encode()), (name, args))
            self.assertEqual(self.call(name, "s", 10, "FIELDS", 1, "a"), WRONG_TYPE)
        for name in TELLERS + ("hpersist", "hgetdel", "hgetex"):
            for args, error in (
                    (("h", "FIELD", 1, "a"), "Mandatory argument FIELDS is missing or not at the right position"),
                    (("h", "FIELDS", 0, "a"), "Number of fields must be a positive integer"),
                    (("h", "FIELDS", -1, "a"), "Number of fields must be a positive integer"),
                    (("h", "FIELDS", "9223372036854775808", "a"), "Number of fields must be a positive integer"),
                    (("h", "FIELDS", 2, "a"), "The `numfields` parameter must match the number of arguments"),
                    (("h", "FIELDS", 1), "wrong number of arguments for '%s' command" % name)):
                self.assertEqual(self.call(name, *args), Error(b"ERR " + error.encode()), (name, args))
            self.assertEqual(self.call(name, "s", "FIELDS", 1, "a"), WRONG_TYPE)
        for args, error in (
                (("h", "EX", "x", "FIELDS", 1, "a"), "value is not an integer or out of range"),
                (("h", "PX", -1, "FIELDS", 1, "a"), "invalid expire time, must be >= 0"),
                (("h", "PXAT", 1 << 46, "FIELDS", 1, "a"), "invalid expire time in 'hgetex' command"),
                (("h", "PERSIST", "EX", 1, "FIELDS", 1, "a"), "Mandatory argument FIELDS is missing or not at the right position"),
                (("h", "PERSIST", 1, "FIELDS", 1, "a"), "Mandatory argument FIELDS is missing or not at the right position")):
            self.assertEqual(self.call("HGETEX", *args), Error(b"ERR " + error.encode()), args)
        for args, error in (
                (("h", "FIELDS", 1, "a"), "wrong number of arguments for 'hsetex' command"),
                (("h", "FIELDS", 2, "a", 1), "wrong number of arguments for 'hsetex' command"),
                (("h", "FIELDS", 1, "a", 1, "unknown"), "wrong number of arguments for 'hsetex' command"),
                (("h", "FIELDS", 0, "a", 1), "invalid number of fields"),
                (("h", "FIELDS", "x", "a", 1), "invalid number of fields"),
                (("h", "NX", "FIELDS", 1, "a", 1), "unknown argument: NX"),
                (("h", "FNX", "FXX", "FIELDS", 1, "a", 1), "Only one of FXX or FNX arguments can be specified"),
                (("h", "EX", 5, "KEEPTTL", "FIELDS", 1, "a", 1), "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"),
                (("h", "PX", 5, "PX", 5, "FIELDS", 1, "a", 1), "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"),
                (("h", "EX", "FIELDS", 1, "a", 1), "value is not an integer or out of range"),
                (("h", "EXAT", -1, "FIELDS", 1, "a", 1), "invalid expire time, must be >= 0"),
                (("h", "EX", 1 << 40, "FIELDS", 1, "a", 1), "invalid expire time in 'hsetex' command")):
            self.assertEqual(self.call("HSETEX", *args), Error(b"ERR " + error.encode()), args)
        self.assertEqual(self.call("HSETEX", "s", "FIELDS", 1, "a", 1), WRONG_TYPE)
        self.assertEqual(self.call("HGETALL", "h"), self.call("HGETALL", "h"))
        self.assertEqual(self.call("HPEXPIRETIME", "h", "FIELDS", 1, "a"), [-1])

    def test_hgetex(self):
        for _ in self.both_encodings():
            self.run_lines("""
                HSET h a 1 b 2 = 2
                HGETEX h FIELDS 3 a x b = [b'1', None, b'2']
                HTTL h FIELDS 2 a b = [-1, -1]
                HGETEX h PXAT 4102444800007 FIELDS 2 a x = [b'1', None]
                HPEXPIRETIME h FIELDS 2 a b = [4102444800007, -1]
                HGETEX h EXAT 4102444800 FIELDS 1 b = [b'2']
                HPEXPIRETIME h FIELDS 1 b = [4102444800000]
                HGETEX h persist FIELDS 3 a b x = [b'1', b'2', None]
                HTTL h FIELDS 2 a b = [-1, -1]
                HGETEX h EX 100 FIELDS 1 a = [b'1']
                HTTL h FIELDS 1 a = [100]
                HGETEX h PX 1000000 FIELDS 1 a = [b'1']
                HGETEX h PXAT 1 FIELDS 3 a a x = [b'1', b'1', None]
                HLEN h = 1
                HGETEX h EX 0 FIELDS 1 b = [b'2']
                EXISTS h = 0
                HGETEX h EX 10 FIELDS 2 a b = [None, None]
                EXISTS h = 0
            """)

    def test_hsetex(self):
        for _ in self.both_encodings():
            self.run_lines("""
                HSETEX h FXX FIELDS 1 a 1 = 0
                EXISTS h = 0
                HSETEX h FNX PXAT 4102444800000 FIELDS 2 a 1 b 2 = 1
                HPEXPIRETIME h FIELDS 2 a b = [4102444800000, 4102444800000]
                HSETEX h FNX FIELDS 2 c 3 b 9 = 0
                HMGET h a b c = [b'1', b'2', None]
                HSETEX h KEEPTTL FXX FIELDS 1 a 9 = 1
                HPEXPIRETIME h FIELDS 1 a = [4102444800000]
                HSETEX h KEEPTTL FIELDS 1 c 3 = 1
                HPEXPIRETIME h FIELDS 1 c = [-1]
                HSETEX h FIELDS 1 b 8 = 1
                HPEXPIRETIME h FIELDS 2 a b = [4102444800000, -1]
                HSETEX h PX 100000 FNX FIELDS 1 d 4 = 1
                HTTL h FIELDS 1 d = [100]
                HSETEX h PXAT 4102444800003 FIELDS 2 e 4 e 5 = 1
                HGETEX h FIELDS 1 e = [b'5']
                HSETEX h PXAT 1 FIELDS 3 e 4 e 5 new 1 = 1
                HMGET h e new a = [None, None, b'9']
                HSETEX h EX 0 FIELDS 4 a 1 b 1 c 1 d 1 = 1
                EXISTS h = 0
                HSETEX h PXAT 1 FIELDS 1 a 1 = 1
                EXISTS h = 0
            """)

    def test_hgetdel(self):
        for _ in self.both_encodings():
            self.run_lines("""
                HSET h a 1 b 2 c 3 = 3
                HPEXPIREAT h 4102444800000 FIELDS 1 a = [1]
                HGETDEL h FIELDS 4 a x a b = [b'1', None, None, b'2']
                HLEN h = 1
                HGETDEL missing FIELDS 2 a b = [None, None]
                HGETDEL h FIELDS 1 c = [b'3']
                EXISTS h = 0
            """)

    def test_commands_that_keep_or_remove_an_expiry(self):
        for _ in self.both_encodings():
            self.run_lines("""
                HSET h n 1 f 1.5 s x = 3
                HPEXPIREAT h 4102444800000 FIELDS 3 n f s = [1, 1, 1]
                HINCRBY h n 5 = 6
                HINCRBYFLOAT h f 0.25 = b'1.75'
                HPEXPIRETIME h FIELDS 2 n f = [4102444800000, 4102444800000]
                HSETNX h s y = 0
                HPEXPIRETIME h FIELDS 1 s = [4102444800000]
                HSET h s y = 0
                HPEXPIRETIME h FIELDS 1 s = [-1]
                HMSET h n 7 = OK
                HPEXPIRETIME h FIELDS 2 n f = [-1, 4102444800000]
                COPY h h2 = 1
                RENAME h h3 = OK
                HPEXPIRETIME h2 FIELDS 3 n f s = [-1, 4102444800000, -1]
                HPEXPIRETIME h3 FIELDS 3 n f s = [-1, 4102444800000, -1]
                EXPIRE h3 1000 = 1
                HPEXPIRETIME h3 FIELDS 1 f = [4102444800000]
                TTL h3 = 1000
                PERSIST h3 = 1
                HDEL h3 f = 1
                HSET h3 f 2 = 1
                HPEXPIRETIME h3 FIELDS 1 f = [-1]
            """)
            dump = self.call("DUMP", "h2")
            self.assertEqual(dump[-10:-8], b"\x0c\x00")
            self.assertEqual(self.call("RESTORE", "h4", 0, dump), OK)
            self.assertEqual(self.call("HPEXPIRETIME", "h4", "FIELDS", 3, "n", "f", "s"), [-1, LATER, -1])
            self.assertEqual(self.call("DUMP", "h3")[-10:-8], b"\x0a\x00")

    def test_an_expired_field_is_absent(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.addCleanup(lambda: self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1))
        for _ in self.both_encodings():
            def dead():
                self.c.must("DEL", "h")
                self.assertEqual(self.call("HSET", "h", "a", 1, "b", 2, "c", 3), 3)
                self.assertEqual(self.call("HPEXPIRE", "h", 1, "FIELDS", 2, "a", "b"), [1, 1])
                wait_past()

            for args, reply in ((("HGET", "h", "a"), None), (("HMGET", "h", "a", "c"), [None, b"3"]), (("HLEN", "h"), 1),
                                (("HEXISTS", "h", "b"), 0), (("HSTRLEN", "h", "a"), 0), (("HKEYS", "h"), [b"c"]),
                                (("HVALS", "h"), [b"3"]), (("HRANDFIELD", "h"), b"c"), (("HRANDFIELD", "h", 9), [b"c"]),
                                (("HRANDFIELD", "h", -2), [b"c", b"c"]), (("HSCAN", "h", 0), [b"0", [b"c", b"3"]]),
                                (("HSETNX", "h", "a", 5), 1), (("HINCRBY", "h", "a", 5), 5), (("HINCRBYFLOAT", "h", "a", 5), b"5"),
                                (("HSET", "h", "a", 5), 1), (("HDEL", "h", "a", "c"), 1), (("HTTL", "h", "FIELDS", 2, "a", "c"), [-2, -1]),
                                (("HEXPIRE", "h", 5, "FIELDS", 2, "a", "c"), [-2, 1]), (("HPERSIST", "h", "FIELDS", 1, "a"), [-2]),
                                (("HGETDEL", "h", "FIELDS", 2, "a", "c"), [None, b"3"]), (("HGETEX", "h", "FIELDS", 1, "a"), [None]),
                                (("HSETEX", "h", "FXX", "FIELDS", 1, "a", 1), 0), (("HSETEX", "h", "FNX", "FIELDS", 2, "a", 1, "b", 1), 1)):
                dead()
                self.assertEqual(self.call(*args), reply, args)
            dead()
            self.assertEqual(pairs(self.call("HGETALL", "h")), {b"c": b"3"})
            dead()
            self.assertEqual(self.call("COPY", "h", "h2"), 1)
            self.assertEqual(pairs(self.call("HGETALL", "h2")), {b"c": b"3"})
            self.assertEqual(self.call("OBJECT", "ENCODING", "h2"), self.call("OBJECT", "ENCODING", "h"))
            # A new field with this name has no expiry.
            dead()
            self.assertEqual(self.call("HINCRBY", "h", "a", 1), 1)
            self.assertEqual(self.call("HTTL", "h", "FIELDS", 1, "a"), [-1])

    def test_a_hash_with_only_expired_fields_is_absent(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.addCleanup(lambda: self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1))
        for _ in self.both_encodings():
            for args, reply in ((("EXISTS", "h"), 0), (("TYPE", "h"), Status(b"none")), (("DEL", "h"), 0), (("UNLINK", "h"), 0), (("TTL", "h"), -2),
                                (("KEYS", "*"), []), (("SCAN", 0), [b"0", []]), (("RANDOMKEY",), None), (("HLEN", "h"), 0),
                                (("DUMP", "h"), None), (("OBJECT", "ENCODING", "h"), None), (("COPY", "h", "i"), 0),
                                (("RENAME", "h", "i"), Error(b"ERR no such key")), (("EXPIRE", "h", 10), 0), (("PERSIST", "h"), 0),
                                (("SET", "h", "v", "NX"), OK), (("GET", "h"), None), (("APPEND", "h", "v"), 1), (("LPUSH", "h", "v"), 1),
                                (("HSETNX", "h", "a", 1), 1), (("TOUCH", "h"), 0), (("MEMORY", "USAGE", "h"), None),
                                (("HSETEX", "h", "FXX", "FIELDS", 1, "a", 1), 0), (("HPERSIST", "h", "FIELDS", 1, "a"), [-2])):
                self.c.must("FLUSHALL")
                self.assertEqual(self.call("HSETEX", "h", "PX", 1, "FIELDS", 2, "a", 1, "b", 2), 1)
                wait_past()
                self.assertEqual(self.call(*args), reply, args)

    def test_fields_and_hashes_that_are_not_accessed_are_deleted(self):
        before = int(self.server.info("stats")["expired_subkeys"])
        for i in range(30):
            self.c.must("HSETEX", "gone%d" % i, "PX", 1 + i * 5, "FIELDS", 2, "a", 1, "b", 2)
            self.c.must("HSET", "stays%d" % i, "a", 1, "b", 2)
            self.c.must("HPEXPIRE", "stays%d" % i, 1 + i * 5, "FIELDS", 1, "a")
        self.c.must("HSET", "large", *[word for i in range(3000) for word in ("f%d" % i, i)])
        self.c.must("HPEXPIRE", "large", 100, "FIELDS", 2000, *["f%d" % i for i in range(2000)])
        self.before_command()
        until(lambda: self.c.must("DBSIZE") == 31, 20, "deleting the expired fields")
        self.assertEqual(sorted(self.c.must("KEYS", "gone*")), [])
        if type(self) is HashExpireTest:
            until(lambda: int(self.server.info("stats")["expired_subkeys"]) - before == 60 + 30 + 2000, 20, "the count of expired fields")
        for i in range(30):
            self.assertEqual(self.c.must("HLEN", "stays%d" % i), 1)
        self.assertEqual(self.c.must("HLEN", "large"), 1000)

    def test_changes_are_those_of_a_model(self):
        seed = seed_new()
        for number, entries in enumerate((128, 8, 0)):
            self.c.must("CONFIG", "SET", "hash-max-listpack-entries", entries)
            self.run_model(seed + number, scaled(1500))
        self.c.must("CONFIG", "SET", "hash-max-listpack-entries", 128)

    def run_model(self, seed, steps):
        rnd = random.Random(seed)
        keys, names = [b"m%d" % i for i in range(3)], [b"f%d" % i for i in range(12)] + [b"7", b"-1"]
        model = {key: {} for key in keys}       # field -> [value, time or -1]
        self.c.must("FLUSHALL")

        def check(reply, wanted, args):
            self.assertEqual(reply, wanted, "seed %d: %r" % (seed, args))

        for _ in range(steps):
            key = rnd.choice(keys)
            fields = rnd.sample(names, rnd.randrange(1, 4))
            hash_, kind, value, when = model[key], rnd.randrange(12), b"v%d" % rnd.randrange(99), LATER + rnd.randrange(1000)
            count = len(fields)
            if kind <= 2:
                args = ("HSET", key) + tuple(word for field in fields for word in (field, value))
                check(self.call(*args), sum(field not in hash_ for field in fields), args)
                hash_.update({field: [value, -1] for field in fields})
            elif kind <= 4:
                args = ("HPEXPIREAT", key, when, "FIELDS", count) + tuple(fields)
                check(self.call(*args), [1 if field in hash_ else -2 for field in fields], args)
                for field in fields:
                    if field in hash_:
                        hash_[field][1] = when
            elif kind == 5:
                args = ("HPEXPIRE", key, 1, "FIELDS", count) + tuple(fields)
                check(self.call(*args), [1 if field in hash_ else -2 for field in fields], args)
                wait_past()
                for field in fields:
                    hash_.pop(field, None)
            elif kind == 6:
                args = ("HPERSIST", key, "FIELDS", count) + tuple(fields)
                check(self.call(*args), [-2 if field not in hash_ else -1 if hash_[field][1] < 0 else 1 for field in fields], args)
                for field in fields:
                    if field in hash_:
                        hash_[field][1] = -1
            elif kind == 7:
                args = ("HDEL", key) + tuple(fields)
                check(self.call(*args), sum(hash_.pop(field, None) is not None for field in fields), args)
            elif kind == 8:
                keep = rnd.randrange(2)
                args = ("HSETEX", key) + (("KEEPTTL",) if keep else ("PXAT", when)) + ("FIELDS", count) + \
                    tuple(word for field in fields for word in (field, value))
                check(self.call(*args), 1, args)
                for field in fields:
                    hash_[field] = [value, hash_.get(field, [0, -1])[1] if keep else when]
            elif kind == 9:
                args = ("HGETEX", key) + rnd.choice(((), ("PERSIST",), ("PXAT", when), ("PXAT", 1))) + ("FIELDS", count) + tuple(fields)
                check(self.call(*args), [hash_[field][0] if field in hash_ else None for field in fields], args)
                for field in fields:
                    if field in hash_ and args[2] == "PERSIST":
                        hash_[field][1] = -1
                    elif field in hash_ and args[2] == "PXAT":
                        hash_[field][1] = when
                        if args[3] == 1:
                            del hash_[field]
            elif kind == 10:
                other = rnd.choice([name for name in keys if name != key])
                args = ("COPY", key, other, "REPLACE") if rnd.randrange(2) else ("RENAME", key, other)
                if hash_:
                    check(self.call(*args), 1 if args[0] == "COPY" else OK, args)
                    model[other] = {field: list(pair) for field, pair in hash_.items()}
                    if args[0] == "RENAME":
                        model[key] = {}
            else:
                args = ("HGETDEL", key, "FIELDS", count) + tuple(fields)
                check(self.call(*args), [hash_[field][0] if field in hash_ else None for field in fields], args)
                for field in fields:
                    hash_.pop(field, None)
            for name in keys if rnd.randrange(8) == 0 else (key,):
                check(pairs(self.call("HGETALL", name)), {field: pair[0] for field, pair in model[name].items()}, (args, name))
                check(self.call("HPEXPIRETIME", name, "FIELDS", len(names), *names),
                      [model[name].get(field, [0, -2])[1] for field in names], (args, name))
                check(self.call("HLEN", name), len(model[name]), (args, name))
                check(self.call("EXISTS", name), int(bool(model[name])), (args, name))

    def test_one_expired_field_does_not_cost_a_scan_of_a_million(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        self.c.must("CONFIG", "SET", "tier-page-threshold", 0)      # what a table takes
        for start in range(0, 100000, 5000):
            self.c.must("HSET", "big", *[word for i in range(start, start + 5000) for word in ("field:%d" % i, i)])
        usage = self.c.must("MEMORY", "USAGE", "big", "SAMPLES", 0)
        self.assertEqual(self.call("HPEXPIRE", "big", 60000, "FIELDS", 1, "field:7"), [1])
        self.assertLess(self.c.must("MEMORY", "USAGE", "big", "SAMPLES", 0), usage + 2000)
        self.assertEqual(self.call("HPERSIST", "big", "FIELDS", 1, "field:7"), [1])
        if type(self) is HashExpireTest:        # a hash that was loaded from the store uses less memory
            self.assertEqual(self.c.must("MEMORY", "USAGE", "big", "SAMPLES", 0), usage)

    def test_many_expired_fields_are_deleted_in_steps_and_are_never_visible(self):
        """Each access deletes some of them; the client that accessed the hash gets its reply when all are deleted. Of a hash in pages those that only read delete none."""
        count, in_pages = 5000, "--tier-page-threshold" in os.environ.get("KELVIN_OPTIONS", "")
        fields = ["dead:%d" % i for i in range(count)]
        commands = [(["HLEN"], 1), (["HRANDFIELD"], b"alive"), (["HGET", "dead:1"], None), (["HKEYS"], [b"alive"]), (["HSETNX", "dead:2", "x"], 1),
                    (["HINCRBY", "dead:3", 7], 7), (["HEXISTS", "dead:4999"], 0), (["HSCAN", 0, "COUNT", 100000], [b"0", [b"alive", b"1"]])]
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        deadline = int(time.time() * 1000) + 4000
        for number in range(len(commands)):
            self.c.must("HSET", "many:%d" % number, "alive", 1, *[word for field in fields for word in (field, 1)])
            self.assertEqual(self.c.must("HPEXPIREAT", "many:%d" % number, deadline, "FIELDS", count, *fields), [1] * count)
        while time.time() * 1000 <= deadline + 1:
            time.sleep(0.01)
        for number, ((name, *words), wanted) in enumerate(commands):
            self.before_command()
            before = self.server.info("stats")
            replies = self.c.pipeline([[name, "many:%d" % number] + words, ["PING"], ["HLEN", "many:%d" % number]])
            after = self.server.info("stats")
            self.assertEqual(plain(replies[0]), wanted, name)
            self.assertEqual(replies[1:], [Status(b"PONG"), 2 if name in ("HSETNX", "HINCRBY") else 1])
            deletes = not in_pages or name in ("HSETNX", "HINCRBY")
            self.assertEqual(int(after["expired_subkeys"]) - int(before["expired_subkeys"]), count if deletes else 0)
            self.assertGreater(int(after["eventloop_cycles"]) - int(before["eventloop_cycles"]), count // 512 if deletes else 0)

    def test_rows_and_docs(self):
        flags = {"w": {b"write", b"denyoom", b"fast"}, "u": {b"write", b"fast"}, "r": {b"readonly", b"fast"}}
        for name, arity, kind, key_flags in (
                ("hexpire", -6, "w", {b"RW", b"update"}), ("hpexpireat", -6, "w", {b"RW", b"update"}), ("httl", -5, "r", {b"RO", b"access"}),
                ("hpexpiretime", -5, "r", {b"RO", b"access"}), ("hpersist", -5, "u", {b"RW", b"update"}),
                ("hgetex", -5, "u", {b"RW", b"access", b"update"}), ("hsetex", -6, "w", {b"RW", b"update"}),
                ("hgetdel", -5, "u", {b"RW", b"access", b"delete"})):
            row = self.client().must("COMMAND", "INFO", name)[0]
            self.assertEqual((row[1], {bytes(flag) for flag in row[2]}, row[3:6]), (arity, flags[kind], [1, 1, 1]), name)
            self.assertEqual({bytes(word) for word in row[6]},
                             {b"@hash", b"@fast", b"@read" if kind == "r" else b"@write"}, name)
            self.assertEqual({bytes(flag) for flag in row[8][0][1]}, key_flags, name)
            docs = self.client().must("COMMAND", "DOCS", name)[1]
            docs = dict(zip(docs[0::2], docs[1::2]))
            self.assertEqual(docs[b"group"], b"hash")
            self.assertEqual(docs[b"since"], b"8.0.0" if name in ("hgetex", "hsetex", "hgetdel") else b"7.4.0")
            last = dict(zip(docs[b"arguments"][-1][0::2], docs[b"arguments"][-1][1::2]))
            self.assertEqual((last[b"token"], last[b"type"]), (b"FIELDS", b"block"), name)


class Resp3HashExpireTest(HashExpireTest):
    """The same in RESP3."""
    protocol = 3


class ColdHashExpireTest(HashExpireTest):
    """The same with all keys cold before every command."""

    def before_command(self):
        if not hasattr(self, "demoter"):
            self.demoter = self.server.client()
            self.addCleanup(self.demoter.close)
        keys = self.demoter.must("KEYS", "*")
        if keys:
            self.demoter.must("TIER", "DEMOTE", *keys)


class TinyHashExpireTest(HashExpireTest):
    """The same while other keys need much more than maxmemory."""
    options = {"maxmemory": "24mb"}

    def setUp(self):
        super().setUp()
        self.filler, self.at = self.server.client(), 0
        self.addCleanup(self.filler.close)
        self.filler.must("SELECT", 9)
        for start in range(0, 12000, 200):
            self.fill(start, 200)

    def fill(self, start, count):
        self.filler.must("MSET", *[word for i in range(start, start + count) for word in (b"filler%d" % (i % 12000), b"x" * 3000)])

    def before_command(self):
        self.at += 1
        if self.at % 20 == 0:
            self.fill(self.at * 10, 10)


@unittest.skipIf(is_redis(), "this redis-server has no expiry of fields")
class HashExpireDurabilityTest(unittest.TestCase):
    """Fields after a kill, after a checkpoint, and from a dump."""

    def start(self, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()})
        self.addCleanup(server.discard)
        return server

    def write(self, client):
        for key, limit in (("small", 128), ("large", 0)):
            client.must("CONFIG", "SET", "hash-max-listpack-entries", limit)
            client.must("HSET", key, "a", 1, "b", 2, "n", 3, "f", 4, "s", 5, "g", 6)
            self.assertEqual(client.must("HPEXPIREAT", key, LATER, "FIELDS", 4, "a", "n", "f", "s"), [1, 1, 1, 1])
            self.assertEqual(client.must("HEXPIRE", key, 1000, "FIELDS", 1, "b"), [1])
            client.must("HINCRBY", key, "n", 1)
            client.must("HINCRBYFLOAT", key, "f", "0.5")
            client.must("HSET", key, "s", 9)
            client.must("HGETEX", key, "PX", 2000000, "FIELDS", 1, "g")
            client.must("HSETEX", key, "PX", 3000000, "FNX", "FIELDS", 1, "x", 1)
            client.must("HSETEX", key, "KEEPTTL", "FIELDS", 1, "x", 2)
            client.must("HSETEX", key, "EX", 100, "FIELDS", 1, "y", 1)
            client.must("HGETEX", key, "PERSIST", "FIELDS", 1, "y")
            client.must("HGETDEL", key, "FIELDS", 1, "y")
            client.must("HSETEX", key + "-short", "PX", 300, "FIELDS", 2, "a", 1, "b", 2)
            client.must("HSETEX", key + "-partly", "PX", 300, "FIELDS", 1, "a", 1)
            client.must("HSET", key + "-partly", "b", 2)
        client.must("CONFIG", "SET", "hash-max-listpack-entries", 128)

    def state(self, client):
        names = ("a", "b", "n", "f", "s", "g", "x", "y")
        return {key: (pairs(client.must("HGETALL", key)), client.must("HPEXPIRETIME", key, "FIELDS", len(names), *names),
                      client.must("OBJECT", "ENCODING", key)) for key in ("small", "large")}

    def check(self, server, before, encodings=True):
        with server.client() as client:
            after = self.state(client)
            if not encodings:
                before, after = ({key: value[:2] for key, value in state.items()} for state in (before, after))
            self.assertEqual(after, before)
            until(lambda: client.must("KEYS", "*-short") == [], 10, "deleting expired hashes")
            for key in ("small-partly", "large-partly"):
                until(lambda: pairs(client.must("HGETALL", key)) == {b"b": b"2"}, 10, "deleting an expired field")
            until(lambda: client.must("DBSIZE") == 4, 10, "the count without expired fields")

    def test_a_kill_and_a_replay_keep_expiries(self):
        server = self.start(appendonly="yes", appendfsync="no")
        with server.client() as client:
            self.write(client)
            before = self.state(client)
        server.restart(kill=True)
        self.check(server, before, encodings=False)     # the limits at replay determine the encoding
        server.restart(kill=True)                       # now with the logged deletions
        self.check(server, before, encodings=False)

    def test_no_field_expires_during_replay(self):
        """A field has expired when the log is replayed, but had not when the later commands ran: they must have the same effect again."""
        server = self.start(appendonly="yes", appendfsync="no")
        with server.client() as client:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("HSETEX", "h", "PX", 400, "FIELDS", 2, "n", 5, "b", 1)
            client.must("HINCRBY", "h", "n", 1)
            client.must("HSETEX", "h", "KEEPTTL", "FIELDS", 1, "b", 2)
            client.must("RENAME", "h", "i")
            client.must("COPY", "i", "j")
            self.assertEqual(client.must("HPERSIST", "j", "FIELDS", 2, "n", "b"), [1, 1])
            server.kill9()
        wait_past(500)
        server.start()
        with server.client() as client:
            self.assertEqual(pairs(client.must("HGETALL", "j")), {b"n": b"6", b"b": b"2"})
            self.assertEqual(client.must("EXISTS", "i"), 0)

    def test_a_lazy_deletion_is_logged_before_the_command_that_found_it(self):
        server = self.start(appendonly="yes", appendfsync="no")
        with server.client() as client:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("HSET", "h", "n", 5, "z", 1)
            client.must("HPEXPIRE", "h", 1, "FIELDS", 1, "n")
            wait_past()
            self.assertEqual(client.must("HINCRBY", "h", "n", 1), 1)
            self.assertEqual(client.must("HSETNX", "h", "n", 1), 0)
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("HMGET", "h", "n", "z"), [b"1", b"1"])
            self.assertEqual(client.must("HTTL", "h", "FIELDS", 1, "n"), [-1])

    def test_a_checkpoint_and_a_restart_keep_expiries(self):
        server = self.start(appendonly="yes", appendfsync="no")
        with server.client() as client:
            self.write(client)
            client.must("TIER", "DEMOTE", "small", "large")
            before = self.state(client)
            client.must("BGREWRITEAOF")
            until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 30, "the rewrite's end")
        server.restart(kill=True)
        self.check(server, before)

    def test_a_dump_keeps_expiries(self):
        server = self.start(appendonly="no", save="3600 100000")
        with server.client() as client:
            self.write(client)
            client.must("TIER", "DEMOTE", "small")
            before = self.state(client)
            self.assertEqual(client.must("SAVE"), OK)
        with open(os.path.join(server.folder, "dump.rdb"), "rb") as file:
            self.assertEqual(file.read(9), b"REDIS0012")
        server.kill9()
        server.start()
        self.check(server, before, encodings=False)     # the limits at the load determine the encoding
        with server.client() as client:
            client.must("DEL", "small", "large")
            client.must("HSET", "plain", "a", 1)
            self.assertEqual(client.must("SAVE"), OK)
        with open(os.path.join(server.folder, "dump.rdb"), "rb") as file:
            self.assertEqual(file.read(9), b"REDIS0010")

    def test_expired_fields_of_a_large_hash_that_is_being_written(self):
        """A large hash is encoded without a lock; a call that finds expired fields in it waits, or changes it afterwards."""
        server = self.start(appendonly="yes", appendfsync="no", auto_aof_rewrite_percentage=0)
        count = scaled(120000)
        with server.client() as client, server.client() as other:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("HSET", "big", "stays", 1)
            fields = ["field:%d" % i for i in range(count)]
            for start in range(0, count, 4000):
                client.must("HSET", "big", *[word for field in fields[start:start + 4000] for word in (field, b"x" * 40)])
            for number in range(6):
                doomed = fields[number * 1000:number * 1000 + 1000]
                client.must("HSET", "big", "touched", number)
                self.assertEqual(client.must("HPEXPIRE", "big", 5, "FIELDS", 1000, *doomed), [1] * 1000)
                if number % 2:
                    other.must("BGREWRITEAOF")
                else:
                    other.send(b"*3\r\n$4\r\nTIER\r\n$6\r\nDEMOTE\r\n$3\r\nbig\r\n")
                wait_past(6)
                self.assertEqual(client.must("HLEN", "big"), count + 2 - (number + 1) * 1000)
                self.assertEqual(client.must("HGET", "big", doomed[5]), None)
                self.assertEqual(client.must("HGET", "big", "stays"), b"1")
                if number % 2 == 0:
                    other.receive()
                until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 60, "the rewrite's end")
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("HLEN", "big"), count + 2 - 6000)
            self.assertEqual(client.must("HGET", "big", fields[0]), None)

    def test_an_expired_cold_hash_is_deleted_from_the_store(self):
        server = self.start(appendonly="yes", appendfsync="no")
        with server.client() as client:
            for i in range(50):
                client.must("HSETEX", "h%d" % i, "PX", 400, "FIELDS", 2, "a", 1, "b", 2)
                client.must("HSET", "i%d" % i, "a", 1, "b", 2)
                client.must("HPEXPIRE", "i%d" % i, 400, "FIELDS", 1, "a")
            client.must("TIER", "DEMOTE", *client.must("KEYS", "*"))
            until(lambda: client.must("DBSIZE") == 50, 20, "deleting the expired hashes")
            self.assertEqual(int(server.info("stats")["expired_keys"]), 50)
            self.assertEqual(len(client.must("KEYS", "i*")), 50)
            self.assertEqual(client.must("HGETALL", "i7"), [b"b", b"2"])
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 50)
            self.assertEqual(client.must("HGETALL", "i8"), [b"b", b"2"])


if __name__ == "__main__":
    main()
