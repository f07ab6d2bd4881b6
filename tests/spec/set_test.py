"""Sets, compared with redis-server. Encodings follow the rules of Redis 7.2; the oracle is older."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Error, Set                                                                 # noqa: E402
from support.server import REDIS, Server                                                            # noqa: E402


class SetTest(PairCase):
    def test_add_and_remove(self):
        self.both("""
            SADD s a b a 12 007
            SADD s a
            SADD s c a
            SCARD s
            SCARD missing
            SISMEMBER s a
            SISMEMBER s 7
            SISMEMBER s 007
            SISMEMBER missing a
            SMISMEMBER s a x 12 a
            SMISMEMBER missing a b
            SMEMBERS s
            SMEMBERS missing
            SREM s x
            SREM s a x b a
            SREM missing a
            SMEMBERS s
            SREM s c 12 007 more
            EXISTS s
            SADD i 1 2 3 -1 9223372036854775807 -9223372036854775808
            SADD i 9223372036854775808
            SADD i -0 01 +1 " 1" "1 " ""
            SCARD i
            SMEMBERS i
            SREM i 1 ""
            SMEMBERS i
            SADD b "bin\\x00\\xff" "\\r\\n" ""
            SMEMBERS b
            SISMEMBER b ""
            SISMEMBER b "bin\\x00\\xff"
            SREM b ""
            SMEMBERS b
        """)

    def test_arity(self):
        self.both("""
            SADD s
            SADD
            SREM s
            SCARD
            SCARD s t
            SISMEMBER s
            SISMEMBER s a b
            SMISMEMBER s
            SMEMBERS
            SMEMBERS s t
            SMOVE s t
            SMOVE s t a b
            SPOP
            SRANDMEMBER
            SINTER
            SINTERSTORE d
            SINTERCARD 1
            SUNION
            SUNIONSTORE d
            SDIFF
            SDIFFSTORE d
            SSCAN s
            DBSIZE
        """)

    def test_move(self):
        self.both("""
            SADD s a b
            SMOVE s t a
            SMOVE s t a
            SMOVE s t x
            SMEMBERS s
            SMEMBERS t
            SADD t b
            SMOVE s t b
            EXISTS s
            SMEMBERS t
            SMOVE missing t a
            SMOVE missing missing a
            SMOVE t t a
            SMOVE t t x
            SMEMBERS t
            SET str v
            SMOVE missing str a
            SMOVE t str a
            SMOVE t str x
            SMOVE str t a
            SADD ints 1 2
            SMOVE t ints a
            SMEMBERS ints
            SMOVE ints other 2
            SMEMBERS other
            EXPIRE t 100
            SMOVE t ints b
            TTL t
            EXPIRE ints 100
            SMOVE other ints 2
            TTL ints
        """)

    def test_intersections(self):
        self.both("""
            SADD a 1 2 3 x y
            SADD b 2 3 4 y z
            SADD c 3 y
            SINTER a
            SINTER a b
            SINTER a b c
            SINTER c b a a
            SINTER a missing
            SINTER missing
            SINTERSTORE d a b
            SMEMBERS d
            SINTERSTORE a a b
            SMEMBERS a
            SINTERSTORE d a missing
            EXISTS d
            SINTERSTORE d missing
            SET str v
            SINTERSTORE str b c
            SMEMBERS str
            SINTERCARD 1 b
            SINTERCARD 2 b c
            SINTERCARD 2 b c LIMIT 1
            SINTERCARD 2 b c LIMIT 0
            SINTERCARD 2 b c limit 5
            SINTERCARD 2 b missing
            SINTERCARD 2 b c LIMIT 1 LIMIT 9
            SINTERCARD 0 b
            SINTERCARD -1 b
            SINTERCARD x b
            SINTERCARD 2 b
            SINTERCARD 9223372036854775807 b
            SINTERCARD 9223372036854775808 b
            SINTERCARD 1 b c
            SINTERCARD 1 b LIMIT
            SINTERCARD 1 b LIMIT -1
            SINTERCARD 1 b LIMIT x
            SINTERCARD 1 b FOO 1
            SINTERCARD 2 LIMIT 1
            SINTERCARD 1 b LIMIT 9223372036854775808
        """)

    def test_unions_and_differences(self):
        self.both("""
            SADD a 1 2 3 x y
            SADD b 2 3 4 y z
            SADD c 3 y
            SADD e 5
            SUNION a
            SUNION a b c missing
            SUNION missing missing
            SUNIONSTORE d a b
            SMEMBERS d
            SUNIONSTORE a a b
            SMEMBERS a
            SUNIONSTORE d missing
            EXISTS d
            SDIFF a
            SDIFF a b
            SDIFF a b c e missing
            SDIFF b a
            SDIFF a a
            SDIFF c a b c e e e e
            SDIFF missing a
            SDIFFSTORE d a c
            SMEMBERS d
            SDIFFSTORE a a a
            EXISTS a
            SDIFFSTORE d missing b
            EXISTS d
            SDIFFSTORE d missing b
            SET str v
            SDIFFSTORE str b c
            SMEMBERS str
            EXPIRE str 100
            SUNIONSTORE str b c
            TTL str
        """)

    def test_a_wrong_type_is_an_error_even_if_other_keys_are_missing(self):
        self.both("""
            SET str v
            SADD s a
            SINTER missing str
            SINTER str missing
            SINTER s str
            SUNION missing str
            SDIFF missing str
            SDIFF s missing str
            SINTERCARD 2 missing str
            SINTERSTORE d missing str
            SUNIONSTORE d s str
            SDIFFSTORE d s str
            EXISTS d
        """)

    def test_differences_with_both_algorithms(self):
        """Few and many, small and large sets: both algorithms, by lookup in each set and by removal."""
        self.both([["SADD", "big"] + list(range(0, 3000))] +
                  [["SADD", "s%d" % number] + list(range(number * 10, number * 10 + 40)) for number in range(20)] +
                  [["SADD", "large%d" % number] + ["w%d" % i if i % 2 else i for i in range(number, 3000, 2 + number)]
                   for number in range(4)])
        small = ["s%d" % number for number in range(20)]
        large = ["large%d" % number for number in range(4)]
        self.both([["SDIFF", "big"] + small, ["SDIFF", "s3"] + large, ["SDIFF", "s3", "big"], ["SDIFF"] + large, ["SDIFF", "s0"] + small,
                   ["SDIFF", "large0"] + small + large[1:], ["SDIFFSTORE", "d", "big"] + small + large, ["SMEMBERS", "d"],
                   ["SINTER", "big"] + large, ["SINTER"] + large, ["SINTER", "s3", "s4", "s5", "big"], ["SUNION"] + small + large,
                   ["SINTERSTORE", "d", "big", "large0"], ["SCARD", "d"], ["SUNIONSTORE", "d", "d"] + large, ["SMEMBERS", "d"],
                   ["SINTERCARD", 2, "big", "large0"], ["SINTERCARD", 2, "big", "large0", "LIMIT", 17]])

    def test_every_command_refuses_a_string(self):
        replies = self.both("""
            SET s v
            SADD s a
            SREM s a
            SCARD s
            SISMEMBER s a
            SMISMEMBER s a b
            SMEMBERS s
            SMOVE s t a
            SPOP s
            SPOP s 1
            SPOP s 0
            SRANDMEMBER s
            SRANDMEMBER s 1
            SRANDMEMBER s 0
            SINTER s
            SINTERCARD 1 s
            SUNION s
            SDIFF s
            SSCAN s 0
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies[1:]))

    def test_arguments_are_checked_before_the_key(self):
        """Which of two errors is returned."""
        self.both("""
            SET s v
            SPOP s x
            SPOP s -1
            SPOP s 1 2
            SRANDMEMBER s x
            SRANDMEMBER s 1 2
            SRANDMEMBER s -9223372036854775808
            SINTERCARD 0 s
            SINTERCARD 1 s LIMIT -1
            SSCAN s x foo
            SSCAN s 0 foo
            SSCAN missing x foo
            SSCAN missing 0 foo
            SSCAN missing 0 COUNT 0
        """)

    def test_random_members(self):
        self.both("""
            SADD s a b c
            SADD i 1 2 3
            SRANDMEMBER missing
            SRANDMEMBER missing 5
            SRANDMEMBER missing -5
            SRANDMEMBER missing -9223372036854775807
            SRANDMEMBER s
            SRANDMEMBER s 0
            SRANDMEMBER s 2
            SRANDMEMBER s 10
            SRANDMEMBER s -10
            SRANDMEMBER i 2
            SRANDMEMBER i -7
            SRANDMEMBER s abc
            SRANDMEMBER s 1 foo
            SRANDMEMBER s 9223372036854775807
            SRANDMEMBER s 9223372036854775808
            SRANDMEMBER s -9223372036854775808
            SPOP missing
            SPOP missing 3
            SPOP missing 0
            SPOP missing -1
            SPOP s 0
            SPOP s -1
            SPOP s abc
            SPOP s 1.5
            SPOP s 9223372036854775808
            SCARD s
            SPOP s 3
            EXISTS s
            SPOP i 9223372036854775807
            EXISTS i
            SADD one 1
            SPOP one
            EXISTS one
            SADD one a
            SPOP one
            EXISTS one
        """)
        for size, name in ((3, "%d"), (3, "m%d"), (400, "%d"), (100, "m%d"), (5000, "m%d")):
            members = {b"%s" % (name % index).encode() for index in range(size)}
            self.c.must("DEL", "s")
            self.c.must("SADD", "s", *members)
            seen = {self.c.must("SRANDMEMBER", "s") for _ in range(60)}
            self.assertTrue(seen <= members and len(seen) >= min(3, size))
            for count in (1, 2, size // 5, size // 2, size - 1):
                some = self.c.must("SRANDMEMBER", "s", count)
                self.assertEqual(len(set(some)), len(some))
                self.assertEqual(len(some), count)
                self.assertTrue(set(some) <= members)
            self.assertEqual(set(self.c.must("SRANDMEMBER", "s", size * 2)), members)
            repeats = self.c.must("SRANDMEMBER", "s", -50)
            self.assertTrue(len(repeats) == 50 and set(repeats) <= members)
            left = set(members)
            for count in (None, 0, 1, 2, size // 10, size // 3):
                popped = self.c.must("SPOP", "s", *([] if count is None else [count]))
                popped = [popped] if count is None else popped
                wanted = 1 if count is None else min(count, len(left))
                self.assertEqual(len(popped), wanted)
                self.assertEqual(len(set(popped)), wanted)
                self.assertTrue(set(popped) <= left)
                left -= set(popped)
                self.assertEqual(set(self.c.must("SMEMBERS", "s")), left)
            if left:
                self.assertEqual(set(self.c.must("SPOP", "s", size)), left)
            self.assertEqual(self.c.must("EXISTS", "s"), 0)

    def test_scan_options(self):
        self.both("""
            SADD s a b aa 12
            SSCAN s 0
            SSCAN s 0 MATCH a*
            SSCAN s 0 COUNT 1 MATCH b
            SSCAN s 0 MATCH zzz
            SSCAN missing 0
            SSCAN s abc
            SSCAN s -1
            SSCAN s 0 COUNT 0
            SSCAN s 0 COUNT -5
            SSCAN s 0 COUNT abc
            SSCAN s 0 MATCH
            SSCAN s 0 foo bar
            SSCAN s 0 TYPE string
            SSCAN s 0 MATCH a* foo
            SSCAN s 0 COUNT 1 COUNT 0
            SSCAN s 0 count 5 match a*
            SSCAN s 0 MATCH *
            SSCAN s 0 COUNT 9223372036854775807
            SSCAN s 0 COUNT 9223372036854775808
            SSCAN s ""
            SSCAN s " 0"
            SSCAN s 18446744073709551616
            SADD i 1 2 13
            SSCAN i 0 MATCH 1*
            SSCAN i 0 COUNT 1
        """)

    def test_a_scan_of_a_big_set_finds_every_member_while_it_changes(self):
        for size, name in ((10, "%d"), (10, "m%d"), (600, "%d"), (3000, "m%d")):
            self.c.must("DEL", "s")
            self.c.must("SADD", "s", *[name % index for index in range(size)])
            cursor, found, rounds = b"0", set(), 0
            while True:
                cursor, some = self.c.must("SSCAN", "s", cursor, "COUNT", 20)
                found.update(some)
                rounds += 1
                self.c.must("SADD", "s", "new%d" % rounds)
                self.c.must("SREM", "s", "new%d" % (rounds - 3))
                if cursor == b"0":
                    break
            self.assertTrue({(name % index).encode() for index in range(size)} <= found)

    def test_big_sets(self):
        self.both([["SADD", "s"] + ["m%d" % index * (index % 9) for index in range(start, start + 100)] for start in range(0, 5000, 100)])
        self.both([["SADD", "i"] + [index * index for index in range(start, start + 100)] for start in range(0, 5000, 100)])
        self.both([["SCARD", "s"], ["SMEMBERS", "s"], ["SCARD", "i"], ["SMEMBERS", "i"], ["SUNION", "s", "i"]])
        self.both([["SREM", "s"] + ["m%d" % index * (index % 9) for index in range(0, 5000, 3)], ["SCARD", "s"], ["SMEMBERS", "s"]])
        self.both([["SREM", "i"] + [index * index for index in range(0, 5000, 3)], ["SCARD", "i"], ["SMEMBERS", "i"]])
        self.both([["SISMEMBER", "s", "m%d" % index] for index in range(1, 5000, 97)])
        self.both([["SMISMEMBER", "i"] + list(range(1000))])

    def test_resp3_replies(self):
        replies = self.both("""
            SADD s a
            SMEMBERS s
            SMEMBERS missing
            SINTER s
            SINTER s missing
            SUNION s
            SDIFF s
            SDIFF missing
            SMISMEMBER s a b
            SISMEMBER s a
            SRANDMEMBER s
            SRANDMEMBER s 1
            SRANDMEMBER s -2
            SRANDMEMBER missing
            SRANDMEMBER missing 1
            SSCAN s 0
            SPOP missing
            SPOP missing 1
            SPOP s 0
            SPOP s 5
            SADD s a
            SPOP s
            SPOP s
        """, self.clients(protocol=3))
        self.assertIsInstance(replies[1], Set)

    def test_changes_keep_the_time_to_live(self):
        self.both("""
            SADD s a b c d
            EXPIRE s 100
            SADD s e
            SREM s a
            TTL s
            COPY s t
            TTL t
            RENAME t u
            SMEMBERS u
            TYPE u
        """)


@kelvin_only
class SetEncodingTest(ServerCase):
    def encoding(self, key):
        return self.c.must("OBJECT", "ENCODING", key).decode()

    def limits(self, intset, entries, value):
        self.c.must("CONFIG", "SET", "set-max-intset-entries", intset, "set-max-listpack-entries", entries,
                    "set-max-listpack-value", value)

    def tearDown(self):
        self.limits(512, 128, 64)

    def test_the_rules_of_redis_7_2(self):
        for script, expected in (
                ("SADD s 1 2 3", "intset"), ("SADD s a", "listpack"), ("SADD s 1 a", "listpack"), ("SADD s a 1", "listpack"),
                ("SADD s 007", "listpack"), ("SADD s " + "x" * 64, "listpack"), ("SADD s " + "x" * 65, "hashtable"),
                ("SADD s " + " ".join(map(str, range(512))), "intset"), ("SADD s " + " ".join(map(str, range(513))), "hashtable"),
                ("SADD s a " + " ".join(map(str, range(127))), "listpack"), ("SADD s a " + " ".join(map(str, range(128))), "hashtable"),
                # The number of given members decides, even if they are all equal.
                ("SADD s " + "a " * 129, "hashtable"), ("SADD s " + "1 " * 513, "hashtable")):
            self.c.must("DEL", "s")
            self.c.run(script)
            self.assertEqual(self.encoding("s"), expected, script[:60])

    def test_growing_member_by_member(self):
        self.limits(5, 8, 10)
        for number in range(5):
            self.c.must("SADD", "s", number)
            self.assertEqual(self.encoding("s"), "intset")
        self.c.must("SADD", "s", 4)
        self.assertEqual(self.encoding("s"), "intset")
        self.c.must("SADD", "s", 5)
        self.assertEqual(self.encoding("s"), "hashtable")
        self.c.must("SADD", "t", 1, 2, 3, 4)
        self.c.must("SADD", "t", "x")
        self.assertEqual(self.encoding("t"), "listpack")
        self.c.must("SREM", "t", "x")
        self.assertEqual(self.encoding("t"), "listpack")
        self.c.must("SADD", "t", 5, 6, 7, 8)
        self.assertEqual(self.encoding("t"), "listpack")
        self.c.must("SADD", "t", 9)
        self.assertEqual(self.encoding("t"), "hashtable")
        self.c.must("SREM", "t", *range(2, 10))
        self.assertEqual(self.encoding("t"), "hashtable")
        self.c.must("SREM", "t", 1)
        self.c.must("SADD", "t", 1)
        self.assertEqual(self.encoding("t"), "intset")
        self.c.must("SADD", "u", "0123456789")
        self.assertEqual(self.encoding("u"), "listpack")
        self.c.must("SADD", "u", "0123456789a")
        self.assertEqual(self.encoding("u"), "hashtable")
        # Initially too many for an intset, but not for a listpack.
        self.c.must("SADD", "v", *range(6))
        self.assertEqual(self.encoding("v"), "listpack")
        # An integer may be too long for a listpack as well.
        self.c.must("SADD", "w", 10 ** 11, 1)
        self.assertEqual(self.encoding("w"), "intset")
        self.c.must("SADD", "w", "x")
        self.assertEqual(self.encoding("w"), "hashtable")

    def test_a_lowered_limit_takes_effect_when_a_set_is_written(self):
        self.c.must("SADD", "s", "a", "b", "c")
        self.c.must("SADD", "i", 1, 2, 3)
        self.limits(2, 2, 64)
        self.c.must("SADD", "s", "a")
        self.assertEqual(self.encoding("s"), "listpack")
        self.c.must("SADD", "s", "a", "a", "a")         # the number exceeds the limit: the encoding changes before the members are compared
        self.assertEqual(self.encoding("s"), "hashtable")
        self.assertEqual(set(self.c.must("SMEMBERS", "s")), {b"a", b"b", b"c"})
        self.c.must("SADD", "i", 1)
        self.assertEqual(self.encoding("i"), "intset")
        self.c.must("SADD", "i", 4)
        self.assertEqual(self.encoding("i"), "hashtable")

    def test_results_begin_as_intsets(self):
        self.c.must("SADD", "i", 1, 2, 3)
        self.c.must("SADD", "p", 1, 2, "x")
        self.c.must("SADD", "t", 1, 2, "y" * 65)
        for command, expected in ((["SUNIONSTORE", "d", "i"], "intset"), (["SUNIONSTORE", "d", "i", "p"], "listpack"),
                                  (["SUNIONSTORE", "d", "i", "t"], "hashtable"), (["SINTERSTORE", "d", "p", "t"], "intset"),
                                  (["SDIFFSTORE", "d", "t", "i"], "hashtable"), (["SDIFFSTORE", "d", "p", "i"], "listpack"),
                                  (["SDIFFSTORE", "d", "i", "p"], "intset")):
            self.c.must(*command)
            self.assertEqual(self.encoding("d"), expected, command)

    def test_demotion_and_copy_keep_the_encoding_regardless_of_the_limits(self):
        made = {"i": (range(100), "intset"), "p": (["a", 1, "b"], "listpack"), "t": (["x" * 65, 1], "hashtable"),
                "only-ints": ([1, 2, 3, "x"], "listpack"), "few": (["x" * 65, "a", 1], "hashtable")}
        for key, (members, _) in made.items():
            self.c.must("SADD", key, *members)
        self.c.must("SREM", "only-ints", "x")
        self.c.must("SREM", "few", "x" * 65, "a")
        values = {key: sorted(self.c.must("SMEMBERS", key)) for key in made}
        for limits in ((512, 128, 64), (0, 0, 0), (1000, 1000, 1000)):
            self.limits(*limits)
            self.assertEqual(self.c.must("TIER", "DEMOTE", *made), len(made))
            for key, (_, encoding) in made.items():
                self.assertEqual(self.encoding(key), encoding, key)
                self.assertEqual(sorted(self.c.must("SMEMBERS", key)), values[key])
                self.c.must("COPY", key, "copy")
                self.assertEqual(self.encoding("copy"), encoding, key)
                self.c.must("DEL", "copy")

    def test_memory_usage(self):
        self.c.must("SADD", "i", *range(500))
        self.c.must("SADD", "p", *["m%d" % index for index in range(100)])
        self.c.must("SADD", "t", *["member:%d" % index for index in range(10000)])
        self.assertIn(self.c.must("MEMORY", "USAGE", "i"), range(1000, 1200))
        self.assertIn(self.c.must("MEMORY", "USAGE", "p"), range(490, 700))
        self.assertIn(self.c.must("MEMORY", "USAGE", "t", "SAMPLES", 0), range(150000, 400000))       # less in pages


class SetDumpTest(PairCase):
    """Payloads are exchanged with Redis."""

    VALUES = ([1, 2, 3], [70000, -1], [1 << 40, 5], ["a", "b", 12], ["x" * 300, "y"], list(range(600)),
              ["m%d" % index for index in range(300)], ["", "\x00\xff", "-0"])

    def test_dumps_are_exchanged_with_redis(self):
        for index, members in enumerate(self.VALUES):
            key = "s%d" % index
            self.both([["SADD", key] + members])
            ours, theirs = self.c.must("DUMP", key), self.r.must("DUMP", key)
            self.r.must("RESTORE", "from", 0, ours, "REPLACE")
            self.c.must("RESTORE", "from", 0, theirs, "REPLACE")
            self.assertEqual(sorted(self.r.must("SMEMBERS", "from")), sorted(self.r.must("SMEMBERS", key)))
            self.assertEqual(sorted(self.c.must("SMEMBERS", "from")), sorted(self.r.must("SMEMBERS", key)))
            self.both([["OBJECT", "ENCODING", "from"], ["SCARD", "from"]])

    @kelvin_only
    def test_a_listpack_of_redis_7_2_is_restored(self):
        """RDB type 20, version 11: a and 12, as 7.2 writes them."""
        self.c.must("RESTORE", "s", 0, b"\x14\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x0c\x01\xff\x0b\x00" + self.crc(
            b"\x14\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x0c\x01\xff\x0b\x00"))
        self.assertEqual(sorted(self.c.must("SMEMBERS", "s")), [b"12", b"a"])
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "s"), b"listpack")

    @staticmethod
    def crc(data):
        """CRC-64 with Jones' polynomial, reflected."""
        crc = 0
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x95ac9329ac4bc9b5 if crc & 1 else 0)
        return crc.to_bytes(8, "little")


class SetLogTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def state(self):
        return {key: (self.c.must("OBJECT", "ENCODING", key), sorted(self.c.must("SMEMBERS", key)))
                for key in sorted(self.c.must("KEYS", "*"))}

    def test_a_replay_gives_the_same_data(self):
        self.both("""
            SADD s a b c d e f
            SADD i 1 2 3 4
            SREM s a x
            SREM s nothing
            SMOVE s i b
            SMOVE i j 1
            SINTERSTORE d s i
            SUNIONSTORE u s i j
            SDIFFSTORE v u s
            SDIFFSTORE v s s
            SUNIONSTORE u s i
            SADD gone a
            SREM gone a
        """)
        before = self.state()
        self.server.restart()
        self.c, _ = self.clients()
        self.assertEqual(self.state(), before)

    def test_popped_members_stay_removed(self):
        """The members are logged, not the SPOP."""
        self.c.must("SADD", "one", *range(300))
        self.c.must("SADD", "many", *["m%d" % index for index in range(5000)])
        self.c.must("SADD", "words", *["m%d" % index for index in range(100)])
        self.c.must("SADD", "all", 1, 2, 3)
        self.c.must("SADD", "last", 1)
        for _ in range(20):
            self.c.must("SPOP", "one")
        self.c.must("SPOP", "one", 30)
        self.c.must("SPOP", "words", 40)
        self.c.must("SPOP", "many", 3)
        self.c.must("SPOP", "many", 4000)           # more than one SREM
        self.c.must("SPOP", "all", 3)
        self.c.must("SPOP", "last")
        self.c.must("SPOP", "many", 0)
        before = self.state()
        self.assertEqual({key: len(members) for key, (_, members) in before.items()}, {b"one": 250, b"many": 997, b"words": 60})
        self.server.kill9()
        self.server.start()
        self.c, _ = self.clients()
        self.assertEqual(self.state(), before)

    def test_redis_replays_the_log(self):
        self.c.must("SADD", "s", *range(100))
        self.c.must("SPOP", "s", 30)
        self.c.must("SPOP", "s")
        expected = sorted(self.c.must("SMEMBERS", "s"))
        with Server(self.options, binary=REDIS, start=False) as redis:
            shutil.copytree(os.path.join(self.server.folder, "appendonlydir"), os.path.join(redis.folder, "appendonlydir"))
            with redis.start().client() as client:
                self.assertEqual(sorted(client.must("SMEMBERS", "s")), expected)


if __name__ == "__main__":
    main()
