"""Commands and options of Redis 7.4 to 8.6 for strings, bitmaps and hashes, HOTKEYS, and the rows of all of them. later_streams_test.py has
those for streams."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.later import SYNTAX, WRONG_TYPE, Cold, LaterCase, later_only, plain                       # noqa: E402
from support.resp import OK, Error, Map, Status                                                # noqa: E402
from support.server import scaled, seed_new, until                                                  # noqa: E402

NOT_DIGEST = Error(b"ERR must be exactly 16 hexadecimal characters")
LATER = 4102444800000       # a time in the year 2100


@later_only
class StringTest(LaterCase):
    def test_digests(self):
        """The first ones are from the documentation of Redis, and from an issue of it about leading zeros."""
        self.lines("""
            DIGEST none = None
            SET s "Hello world" = OK
            DIGEST s = b"b6acb9d84a38ff74"
            SET s v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd = OK
            DIGEST s = b"00006c38adf31777"
            SET s "" = OK
            DIGEST s = b"2d06800538d394c2"
            LPUSH l a = 1
            DIGEST l = WRONG_TYPE
            DIGEST = Error(b"ERR wrong number of arguments for 'digest' command")
        """)
        sizes = {1: "13e608bc156defed", 3: "a9088dda485b481c", 9: "feff668361d723a8", 100: "b5937857f0d78c9f", 129: "c664bf3311c6abc4",
                 241: "8beadd3a8874fe17", 5000: "799aaddd7339581d", 70000: "1d77e8fd7db4e024"}
        for size, digest in sizes.items():
            value = bytes((i * 7 + 3) % 256 for i in range(size))
            self.call("SET", "s", value)
            self.assertEqual(self.call("DIGEST", "s"), digest.encode(), size)
        self.call("SET", "n", 12345)
        self.call("SET", "m", "x12345")
        self.call("SETRANGE", "m", 0, "12345")
        self.call("SET", "p", "12345")
        self.assertEqual(self.call("DIGEST", "n"), self.call("DIGEST", "p"))

    def test_set_with_a_comparison(self):
        self.lines("""
            SET s old = OK
            SET s new IFEQ other = None
            SET s new IFEQ old = OK
            SET s newer IFNE new = None
            SET s newer IFNE other GET = b"new"
            GET s = b"newer"
            SET s x IFEQ nothing GET = b"newer"
            GET s = b"newer"
            SET none x IFEQ a = None
            SET none x IFEQ "" = None
            SET none x IFDEQ 2d06800538d394c2 GET = None
            EXISTS none = 0
            SET none x IFNE a GET = None
            GET none = b"x"
            SET none2 x IFDNE 2d06800538d394c2 = OK
            SET s "Hello world" = OK
            SET s x IFDEQ B6ACB9D84A38FF74 = OK
            SET s "Hello world" = OK
            SET s x IFDNE b6acb9d84a38ff74 = None
            SET s x IFDNE b6acb9d84a38ff75 = OK
            SET s 5 = OK
            SET s 6 IFEQ 5 = OK
            SET s 7 IFEQ 06 = None
            SET s 7 EX 100 IFEQ 6 = OK
            SET s 8 IFEQ 7 KEEPTTL = OK
            TTL s = 100
            SET s 9 IFEQ 8 = OK
            TTL s = -1
            SET s 9 IFEQ 8 EX 5 = None
            TTL s = -1
            SET s ifeq IFEQ 9 = OK
            SET s GET IFNE ifeq = None
            SET s GET IFEQ ifeq = OK
            GET s = b"GET"
        """)
        self.check_log()

    def test_errors_of_comparisons(self):
        self.lines("""
            LPUSH l a = 1
            SET s v = OK
            SET l x IFEQ a = WRONG_TYPE
            SET l x IFNE a = WRONG_TYPE
            SET l x IFDNE 2d06800538d394c2 = WRONG_TYPE
            SET s x IFEQ = SYNTAX
            SET s x IFEQ v NX = SYNTAX
            SET s x XX IFEQ v = SYNTAX
            SET s x IFEQ v IFNE w = SYNTAX
            SET s x IFDEQ 2d06800538d394c = NOT_DIGEST
            SET s x IFDEQ 2d06800538d394c2a = NOT_DIGEST
            SET s x IFDNE 2d06800538d394cg = NOT_DIGEST
            SET s x IFEQ v EX 0 = Error(b"ERR invalid expire time in 'set' command")
            GETEX s IFEQ v = SYNTAX
            GET s = b"v"
            DELEX l IFEQ a = WRONG_TYPE
            DELEX l IFNE a = WRONG_TYPE
            DELEX l IFDEQ 2d06800538d394c2 = WRONG_TYPE
            DELEX s IFDEQ x = NOT_DIGEST
            DELEX none IFDEQ x = NOT_DIGEST
            DELEX s NX v = SYNTAX
            DELEX s EX 5 = SYNTAX
            DELEX s IFEQ = Error(b"ERR wrong number of arguments for 'delex' command")
            DELEX s IFEQ v GET = Error(b"ERR wrong number of arguments for 'delex' command")
            DELEX = Error(b"ERR wrong number of arguments for 'delex' command")
            LRANGE l 0 -1 = [b"a"]
        """, NOT_DIGEST=NOT_DIGEST)

    def test_delex(self):
        self.lines("""
            MSET a 1 b 2 c 3 d "Hello world" = OK
            LPUSH l x = 1
            DELEX a = 1
            DELEX a = 0
            DELEX l = 1
            EXISTS a l = 0
            DELEX b IFEQ 1 = 0
            DELEX b IFNE 2 = 0
            DELEX b IFEQ 2 = 1
            DELEX none IFEQ 2 = 0
            DELEX none IFNE 2 = 0
            DELEX none IFDNE 2d06800538d394c2 = 0
            DELEX c IFNE 4 = 1
            DELEX d IFDEQ 2d06800538d394c2 = 0
            DELEX d IFDNE b6acb9d84a38ff74 = 0
            DELEX d IFDEQ b6acb9d84a38FF74 = 1
            DBSIZE = 0
        """)
        self.check_log()

    def test_msetex(self):
        numbers, pairs = b"ERR invalid numkeys value", b"ERR wrong number of key-value pairs"
        for command, error in (("MSETEX 0 a 1", numbers), ("MSETEX -1 a 1", numbers), ("MSETEX x a 1", numbers), ("MSETEX 99999999999 a 1", numbers),
                               ("MSETEX 2 a 1", pairs), ("MSETEX 2 a 1 b", pairs), ("MSETEX 9 a 1 b 2", pairs), ("MSETEX 1 a 1 b", SYNTAX),
                               ("MSETEX 1 a 1 NX XX", SYNTAX), ("MSETEX 1 a 1 EX 5 PX 5", SYNTAX), ("MSETEX 1 a 1 EX", SYNTAX),
                               ("MSETEX 1 a 1 KEEPTTL EX 5", SYNTAX), ("MSETEX 1 a 1 GET", SYNTAX), ("MSETEX 1 a 1 IFEQ 1", SYNTAX),
                               ("MSETEX 1 a 1 EX 0", b"ERR invalid expire time in 'msetex' command"),
                               ("MSETEX 1 a 1 PX -5", b"ERR invalid expire time in 'msetex' command"),
                               ("MSETEX 1 a 1 EX x", b"ERR value is not an integer or out of range"),
                               ("MSETEX 1 a", b"ERR wrong number of arguments for 'msetex' command")):
            self.assertEqual(self.call(*command.split()), error if isinstance(error, Error) else Error(error), command)
        self.lines("""
            MSETEX 2 a 1 b 2 = 1
            MGET a b = [b"1", b"2"]
            MSETEX 2 b 3 c 4 NX = 0
            MSETEX 2 b 3 c 4 XX = 0
            MGET a b c = [b"1", b"2", None]
            MSETEX 2 c 3 d 4 NX PXAT 4102444800000 = 1
            MGET c d = [b"3", b"4"]
            PEXPIRETIME c = 4102444800000
            PEXPIRETIME d = 4102444800000
            MSETEX 3 a 5 c 6 d 7 xx keepttl = 1
            PEXPIRETIME a = -1
            PEXPIRETIME c = 4102444800000
            MSETEX 2 c 8 d 9 = 1
            PEXPIRETIME c = -1
            MSETEX 2 c 1 c 2 EX 100 XX = 1
            GET c = b"2"
            TTL c = 100
            LPUSH l x = 1
            MSETEX 1 l 1 = 1
            GET l = b"1"
            MSETEX 1 gone 1 EXAT 1 = 1
            GET gone = None
        """)
        self.check_log()

    def test_expired_keys_are_absent(self):
        self.call("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.addCleanup(lambda: self.c.call("DEBUG", "SET-ACTIVE-EXPIRE", 1))
        for command, reply in ((["SET", "k", "n", "IFEQ", "v"], None), (["SET", "k", "n", "IFNE", "v"], OK), (["DELEX", "k", "IFEQ", "v"], 0),
                               (["DELEX", "k"], 0), (["DIGEST", "k"], None), (["MSETEX", "1", "k", "n", "XX"], 0),
                               (["MSETEX", "1", "k", "n", "NX"], 1)):
            self.call("SET", "k", "v", "PX", 1)
            time.sleep(0.004)
            self.assertEqual(self.call(*command), reply, command)
            self.call("DEL", "k")

    def test_random_commands_agree_with_a_model(self):
        seed = seed_new()
        rng = random.Random(seed)
        model = {}
        for step in range(scaled(1500)):
            key, value = rng.choice("abcdefgh"), rng.choice(["", "1", "2", "x" * 80])
            other = rng.choice(["", "1", "2", "x" * 80])
            words = rng.choice(["IFEQ", "IFNE", "IFDEQ", "IFDNE", ""])
            digest = self.digest_of(other)
            condition = [words, digest if words.startswith("IFD") else other] if words else []
            holds = not words or ((model.get(key, (None,))[0] == other) == words.endswith("DEQ") if words.startswith("IFD")
                                  else (model.get(key, (None,))[0] == other) == (words == "IFEQ"))
            times = rng.choice([[], [], ["PXAT", str(LATER + step)], ["KEEPTTL"]])
            kept = model[key][1] if key in model else -1
            expiry = LATER + step if times[:1] == ["PXAT"] else kept if times else -1
            kind = rng.choice(["set", "set", "delex", "msetex"])
            if kind == "set":
                get = rng.choice([[], ["GET"]])
                old = model[key][0].encode() if key in model else None
                wanted = old if get else OK if holds else None
                reply = self.call("SET", key, value, *condition, *get, *times)
                if holds:
                    model[key] = value, expiry
            elif kind == "delex":
                wanted = int(holds and key in model)
                reply = self.call("DELEX", key, *condition)
                if wanted:
                    del model[key]
            else:
                second = rng.choice("abcdefgh")
                test = rng.choice([[], ["NX"], ["XX"]])
                wanted = int(not test or all((each in model) == (test == ["XX"]) for each in (key, second)))
                reply = self.call("MSETEX", 2, key, value, second, other, *(test + times if rng.random() < 0.5 else times + test))
                for name, new in ((key, value), (second, other)):
                    if wanted:
                        kept = model[name][1] if name in model else -1
                        model[name] = new, LATER + step if times[:1] == ["PXAT"] else kept if times else -1
            self.assertEqual(reply, wanted, "seed %d, step %d: %s %s" % (seed, step, kind, (key, value, condition, times)))
        self.assertEqual({key.decode(): (value.decode(), expiry) for key, (_, value, expiry) in self.contents(self.client()).items()}, model, seed)
        self.check_log()

    def digest_of(self, value):
        if not hasattr(self, "digests"):
            self.digests = {}
        if value not in self.digests:
            self.c.must("SET", "digest", value)
            self.digests[value] = self.c.must("DIGEST", "digest").decode()
            self.c.must("DEL", "digest")
        return self.digests[value]

    def test_notifications(self):
        listener = self.client()
        self.call("CONFIG", "SET", "notify-keyspace-events", "KA")
        self.addCleanup(lambda: self.c.call("CONFIG", "SET", "notify-keyspace-events", ""))
        listener.must("PSUBSCRIBE", "__keyspace@0__:*")
        for command in ("SET k v IFNE x", "SET k w IFEQ v EX 100", "SET k w IFEQ nope", "DELEX k IFEQ w", "MSETEX 2 k 1 l 2 PX 100000", "BITOP ONE k l"):
            self.c.run(command)
        got = []
        while len(got) < 7:
            message = listener.receive()
            got.append((bytes(message[2]).rsplit(b":", 1)[1] + b" " + bytes(message[3])).decode())
        self.assertEqual(got, ["k set", "k set", "k expire", "k del", "k set", "k expire", "l set"])

    def test_watch_is_broken_only_by_a_change(self):
        other = self.client()
        for command, breaks in (("SET k x IFEQ no", False), ("SET k x IFEQ v", True), ("DELEX k IFEQ no", False), ("DELEX k", True)):
            self.call("SET", "k", "v")
            self.call("WATCH", "k")
            other.run(command)
            self.c.must("MULTI")
            self.c.must("PING")
            self.assertEqual(plain(self.c.call("EXEC")), None if breaks else [Status(b"PONG")], command)


class ColdStringTest(Cold, StringTest):
    pass


class Resp3StringTest(StringTest):
    protocol = 3


@later_only
class BitopTest(LaterCase):
    MODEL = {
        "AND": lambda all: all[0] & BitopTest.fold(all[1:], lambda x, y: x & y, -1),
        "OR": lambda all: BitopTest.fold(all, lambda x, y: x | y, 0),
        "XOR": lambda all: BitopTest.fold(all, lambda x, y: x ^ y, 0),
        "DIFF": lambda all: all[0] & ~BitopTest.fold(all[1:], lambda x, y: x | y, 0),
        "DIFF1": lambda all: ~all[0] & BitopTest.fold(all[1:], lambda x, y: x | y, 0),
        "ANDOR": lambda all: all[0] & BitopTest.fold(all[1:], lambda x, y: x | y, 0),
        "ONE": lambda all: BitopTest.ones(all),
    }

    @staticmethod
    def fold(values, step, first):
        for value in values:
            first = step(first, value)
        return first

    @staticmethod
    def ones(values):
        seen = twice = 0
        for value in values:
            twice |= seen & value
            seen |= value
        return seen & ~twice

    def wanted(self, operation, sources):
        size = max(map(len, sources))
        numbers = [int.from_bytes(source.ljust(size, b"\0"), "big") for source in sources]
        return (self.MODEL[operation](numbers) & ((1 << size * 8) - 1)).to_bytes(size, "big")

    def test_examples(self):
        self.lines(r"""
            SET a "\xff\x0f\xf0" = OK
            SET b "\x0f\xff" = OK
            BITOP DIFF d a b = 3
            GET d = b"\xf0\x00\xf0"
            BITOP DIFF1 d a b = 3
            GET d = b"\x00\xf0\x00"
            BITOP ANDOR d a b none = 3
            GET d = b"\x0f\x0f\x00"
            BITOP ONE d a b = 3
            GET d = b"\xf0\xf0\xf0"
            BITOP ONE d a b a = 3
            GET d = b"\x00\xf0\x00"
            BITOP ONE d a = 3
            GET d = b"\xff\x0f\xf0"
            BITOP diff1 d none a = 3
            GET d = b"\xff\x0f\xf0"
            EXPIRE d 100 = 1
            BITOP ANDOR d none a = 3
            GET d = b"\x00\x00\x00"
            TTL d = -1
            BITOP ONE d none none2 = 0
            EXISTS d = 0
            BITOP ONE none none2 = 0
            BITOP DIFF a a b = 3
            GET a = b"\xf0\x00\xf0"
            LPUSH l x = 1
            BITOP DIFF d a l = WRONG_TYPE
            BITOP ONE l a = 3
            GET l = b"\xf0\x00\xf0"
        """)
        self.check_log()

    def test_errors(self):
        for operation in ("DIFF", "DIFF1", "ANDOR"):
            self.assertEqual(self.call("BITOP", operation, "d", "a"),
                             Error(b"ERR BITOP %s must be called with at least two source keys." % operation.encode()))
        self.assertEqual(self.call("BITOP", "NOT", "d", "a", "b"), Error(b"ERR BITOP NOT must be called with a single source key."))
        self.assertEqual(self.call("BITOP", "DIFF2", "d", "a", "b"), SYNTAX)
        self.assertEqual(self.call("BITOP", "ONE", "d"), Error(b"ERR wrong number of arguments for 'bitop' command"))

    def test_random_strings_agree_with_a_model(self):
        seed = seed_new()
        rng = random.Random(seed)
        strings = {}
        for step in range(scaled(400)):
            if rng.random() < 0.4 or not strings:
                key = rng.choice("abcde")
                strings[key] = rng.randbytes(rng.choice([1, 7, 8, 9, 63, 100, 1000, 16383, 16384, 16385, 40000]))
                self.call("SET", key, strings[key])
                continue
            operation = rng.choice(sorted(self.MODEL))
            keys = [rng.choice("abcdef") for _ in range(rng.randint(2, 5))]
            target = rng.choice("abcd")
            wanted = self.wanted(operation, [strings.get(key, b"") for key in keys]) if any(key in strings for key in keys) else b""
            label = "seed %d, step %d: %s %s %s" % (seed, step, operation, target, keys)
            self.assertEqual(self.call("BITOP", operation, target, *keys), len(wanted), label)
            self.assertEqual(self.call("GET", target), wanted or None, label)
            if wanted:
                strings[target] = wanted
            else:
                strings.pop(target, None)
        self.check_log()


class ColdBitopTest(Cold, BitopTest):
    pass


@later_only
class HashScanTest(LaterCase):
    def test_novalues(self):
        for entries in (128, 0):
            self.c.must("CONFIG", "SET", "hash-max-listpack-entries", entries)
            self.addCleanup(lambda: self.c.call("CONFIG", "SET", "hash-max-listpack-entries", 128))
            self.c.must("FLUSHALL")
            self.call("HSET", "h", "a", 1, "b", 2, "ab", 3)
            self.assertEqual(sorted(self.call("HSCAN", "h", 0, "NOVALUES")[1]), [b"a", b"ab", b"b"])
            self.assertEqual(sorted(self.call("HSCAN", "h", 0, "MATCH", "a*", "novalues", "COUNT", 100)[1]), [b"a", b"ab"])
            self.assertEqual(self.call("HSCAN", "h", 0, "MATCH", "NOVALUES"), [b"0", []])
            self.assertEqual(len(self.call("HSCAN", "h", 0)[1]), 6)
        self.lines("""
            HSCAN none 0 NOVALUES = [b"0", []]
            SADD s a = 1
            SSCAN s 0 NOVALUES = SYNTAX
            ZADD z 1 a = 1
            ZSCAN z 0 NOVALUES = SYNTAX
            SCAN 0 NOVALUES = SYNTAX
        """)

    def test_a_big_hash(self):
        fields = {b"f%d" % i for i in range(scaled(5000))}
        self.call("HSET", "h", *[word for field in fields for word in (field, b"v")])
        seen, cursor = [], b"0"
        while True:
            cursor, part = self.call("HSCAN", "h", cursor, "NOVALUES", "COUNT", 50)
            seen += part
            if cursor == b"0":
                break
        self.assertEqual((len(seen), set(seen)), (len(fields), fields))


class ColdHashScanTest(Cold, HashScanTest):
    pass


@later_only
class HotKeysTest(LaterCase):
    FIELDS = ["tracking-active", "sample-ratio", "selected-slots", "all-commands-all-slots-us", "net-bytes-all-commands-all-slots",
              "collection-start-time-unix-ms", "collection-duration-ms"]

    def setUp(self):
        super().setUp()
        self.c.call("HOTKEYS", "STOP")
        self.c.must("HOTKEYS", "RESET")

    def report(self):
        reply = self.c.must("HOTKEYS", "GET")
        self.assertEqual(len(reply), 1)
        if self.protocol == 3:
            self.assertIsInstance(reply[0], Map)
            pairs = list(reply[0])
        else:
            pairs = list(zip(reply[0][0::2], reply[0][1::2]))
        self.names = [name.decode() for name, _ in pairs]
        return {name.decode(): value for name, value in pairs}

    def test_states(self):
        in_progress = Error(b"ERR hotkeys tracking session is already in progress")
        self.lines("""
            HOTKEYS GET = None
            HOTKEYS STOP = None
            HOTKEYS RESET = OK
            HOTKEYS START METRICS 1 CPU = OK
            HOTKEYS START METRICS 1 CPU = Error(b"ERR hotkeys tracking session is already in progress")
            HOTKEYS RESET = Error(b"ERR hotkeys tracking session in progress, stop tracking first")
        """)
        self.assertEqual(self.report()["tracking-active"], 1)
        self.assertEqual(self.names, self.FIELDS + ["total-cpu-time-user-ms", "total-cpu-time-sys-ms", "by-cpu-time-us"])
        self.lines("""
            HOTKEYS STOP = OK
            HOTKEYS STOP = OK
        """)
        self.assertEqual(self.report()["tracking-active"], 0)
        self.lines("""
            HOTKEYS START METRICS 1 NET COUNT 5 SAMPLE 3 DURATION 1000 = OK
        """)
        report = self.report()
        self.assertEqual((report["sample-ratio"], report["selected-slots"]), (3, []))
        self.assertEqual(self.names, self.FIELDS + ["total-net-bytes", "by-net-bytes"])
        self.assertEqual(in_progress, self.call("HOTKEYS", "START", "METRICS", 2, "NET", "CPU"))
        self.lines("""
            HOTKEYS STOP = OK
            HOTKEYS RESET = OK
            HOTKEYS GET = None
        """)

    def test_errors(self):
        none, count = b"ERR METRICS no valid metrics passed. Supported: CPU|NET", b"ERR METRICS count does not match number of metric types provided"
        for words, error in (("", b"ERR METRICS parameter is required"), ("COUNT 5", b"ERR METRICS parameter is required"), ("METRICS 1", none),
                             ("METRICS 1 GPU", none), ("METRICS 2 CPU", count), ("METRICS 1 CPU NET", count), ("METRICS 2 CPU GPU", count),
                             ("METRICS 0 CPU", b"ERR METRICS count must be between 1 and 2"), ("METRICS x CPU", b"ERR METRICS count must be between 1 and 2"),
                             ("METRICS 2 CPU CPU", b"ERR syntax error"), ("METRICS 1 CPU FOO", b"ERR syntax error"), ("METRICS 1 CPU COUNT", b"ERR syntax error"),
                             ("METRICS 1 CPU COUNT 0", b"ERR COUNT must be between 1 and 64"), ("METRICS 1 CPU COUNT 65", b"ERR COUNT must be between 1 and 64"),
                             ("METRICS 1 CPU SAMPLE 0", b"ERR SAMPLE ratio must be positive"),
                             ("METRICS 1 CPU DURATION -1", b"ERR DURATION must be between 1 and 1000000"),
                             ("METRICS 1 CPU SLOTS 1 5", b"ERR SLOTS parameter cannot be used in non-cluster mode")):
            self.assertEqual(self.call("HOTKEYS", "START", *words.split()), Error(error), words)
        self.assertIsNone(self.call("HOTKEYS", "GET"))

    def test_the_keys_that_take_the_most_bytes(self):
        """Exact, as long as there are fewer keys than counters."""
        self.call("HOTKEYS", "START", "METRICS", 2, "NET", "CPU", "COUNT", 3)
        self.call("SET", "big", "x" * 100000)
        wanted = {b"big": len(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$100000\r\n") + 100000 + 2 + len(b"+OK\r\n")}
        self.call("GET", "big")
        wanted[b"big"] += len(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n") + len(b"$100000\r\n") + 100000 + 2
        for _ in range(50):
            self.call("GET", "often")
        null = len(b"$-1\r\n") if self.protocol == 2 else len(b"_\r\n")
        wanted[b"often"] = 50 * (len(b"*2\r\n$3\r\nGET\r\n$5\r\noften\r\n") + null)
        for i in range(200):
            self.call("GET", "k%d" % i)
        self.call("MGET", "m1", "m2")
        self.call("EVAL", "for i = 1, 100 do redis.call('SET', 'inner', i) end return 1", 1, "scripted")
        self.call("HOTKEYS", "STOP")
        self.call("GET", "afterwards")
        report = self.report()
        keys = dict(zip(report["by-net-bytes"][0::2], report["by-net-bytes"][1::2]))
        self.assertEqual({key: keys[key] for key in wanted}, wanted)
        self.assertEqual(list(keys)[:2], [b"big", b"often"])
        self.assertEqual(len(keys), 3)
        self.assertNotIn(b"inner", keys)
        self.assertGreaterEqual(report["total-net-bytes"], sum(wanted.values()))
        times = report["by-cpu-time-us"]
        self.assertEqual(len(times), 6)
        self.assertEqual(times[1::2], sorted(times[1::2], reverse=True))
        self.assertIn(b"scripted", times[0::2])
        self.assertLessEqual(sum(times[1::2]), report["all-commands-all-slots-us"] + 3)

    def test_a_hot_key_among_more_keys_than_counters(self):
        self.call("HOTKEYS", "START", "METRICS", 1, "NET", "COUNT", 1)
        client = self.client()
        for start in range(0, 5000, 500):
            client.pipeline([["GET", "k%d" % i] for i in range(start, start + 500)] + [["GET", "hot"]] * 100)
        name, count = self.report()["by-net-bytes"]
        self.assertEqual(name, b"hot")
        each = len(b"*2\r\n$3\r\nGET\r\n$3\r\nhot\r\n$-1\r\n")
        self.assertTrue(500 * each <= count <= 1000 * each, (count, each))

    def test_a_session_ends_when_its_time_is_up(self):
        self.call("HOTKEYS", "START", "METRICS", 1, "NET", "DURATION", 1)
        self.call("GET", "k")
        until(lambda: self.report()["tracking-active"] == 0, 10, "the end of the session")
        report = self.report()
        self.assertEqual((report["collection-duration-ms"], report["by-net-bytes"][0]), (1000, b"k"))
        self.assertEqual(self.call("HOTKEYS", "START", "METRICS", 1, "NET"), OK)

    def test_not_in_scripts(self):
        self.assertIsInstance(self.call("EVAL", "return redis.call('HOTKEYS', 'GET')", 0), Error)
        self.assertGreater(len(self.call("HOTKEYS", "HELP")), 5)


class Resp3HotKeysTest(HotKeysTest):
    protocol = 3


@later_only
class RowTest(LaterCase):
    """What COMMAND says about them, by the documentation."""

    ROWS = {
        "delex": (-2, "fast write", "fast string write", [("RW delete variable_flags", 1)]),
        "digest": (2, "fast readonly", "fast read string", [("RO access", 1)]),
        "msetex": (-4, "denyoom movablekeys write", "slow string write", [("OW update", 1)]),
        "xackdel": (-6, "fast write", "fast stream write", [("RW delete update", 1)]),
        "xdelex": (-5, "fast write", "fast stream write", [("RW delete", 1)]),
        "hotkeys|start": (-2, "admin noscript", "admin dangerous slow", []),
        "hotkeys|get": (2, "admin noscript", "admin dangerous slow", []),
        "hotkeys|stop": (2, "admin noscript", "admin dangerous slow", []),
        "hotkeys|reset": (2, "admin noscript", "admin dangerous slow", []),
    }

    def test_rows(self):
        for name, (arity, flags, categories, specs) in self.ROWS.items():
            row = self.c.must("COMMAND", "INFO", name)[0]
            self.assertEqual(row[1], arity, name)
            self.assertEqual(sorted(bytes(flag) for flag in row[2]), [flag.encode() for flag in flags.split()], name)
            self.assertEqual(sorted(bytes(each).lstrip(b"@") for each in row[6]), [each.encode() for each in categories.split()], name)
            found = []
            for spec in row[8]:
                spec = dict(zip(spec[0::2], spec[1::2]))
                found.append((sorted(bytes(flag) for flag in spec[b"flags"]), spec[b"begin_search"][3][1]))
            self.assertEqual(found, [([flag.encode() for flag in flags.split()], index) for flags, index in specs], name)
            docs = self.c.must("COMMAND", "DOCS", name)
            self.assertTrue(docs[1], name)

    def test_keys(self):
        for words, keys in (("MSETEX 2 a 1 b 2 NX", "a b"), ("MSETEX 3 a 1 b 2 c 3", "a b c"), ("DELEX k IFEQ v", "k"), ("DIGEST k", "k"),
                            ("XDELEX s IDS 1 1", "s"), ("XACKDEL s g IDS 1 1", "s"), ("BITOP ONE d a b", "d a b"),
                            ("XREADGROUP GROUP g c CLAIM 5 STREAMS a b > >", "a b")):
            self.assertEqual(self.call("COMMAND", "GETKEYS", *words.split()), [key.encode() for key in keys.split()], words)
        flags = {"SET k v": [b"OW", b"update"], "SET k v IFEQ x": [b"RW", b"access", b"update"], "SET k v IFDNE x": [b"RW", b"access", b"update"],
                 "MSETEX 1 k v NX": [b"OW", b"update"], "DELEX k": [b"RM", b"delete"], "DELEX k IFEQ v": [b"RW", b"delete"]}
        for words, wanted in flags.items():
            self.assertEqual([bytes(flag) for flag in self.call("COMMAND", "GETKEYSANDFLAGS", *words.split())[0][1]], wanted, words)
        self.assertEqual(self.call("COMMAND", "GETKEYS", "MSETEX", "9", "a", "1"), Error(b"ERR Invalid arguments specified for command"))


if __name__ == "__main__":
    main()
