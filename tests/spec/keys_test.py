"""Commands on keys of any type and on databases, compared with redis-server."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import seed_new                                                                 # noqa: E402

PREPARE = """
    MSET s1 a s2 b n 12
    HSET h1 f v
    HSET h2 f v g w
"""


class KeysTest(PairCase):
    def test_del_unlink_exists_touch_type(self):
        self.both(PREPARE + """
            EXISTS s1 s2 s1 missing h1
            TOUCH s1 s2 s1 missing
            TYPE s1
            TYPE n
            TYPE h1
            TYPE missing
            DEL s1 s1 missing
            UNLINK s2 h1 missing
            EXISTS s1 s2 h1
            DEL
            UNLINK
            EXISTS
            TOUCH
            TYPE
            TYPE a b
            DBSIZE
        """)

    def test_rename(self):
        self.both(PREPARE + """
            RENAME s1 r
            GET r
            EXISTS s1
            RENAME missing x
            RENAME r h1
            TYPE h1
            RENAME n n
            RENAME missing missing
            RENAMENX h2 n
            RENAMENX h2 new
            HGETALL new
            RENAMENX new new
            RENAMENX missing x
            EXPIRE new 100
            RENAME new old
            TTL old
            SET target v EX 1000
            RENAME h1 target
            TTL target
            RENAME a
            RENAMENX a
            DBSIZE
        """)

    def test_copy(self):
        self.both(PREPARE + """
            COPY s1 c1
            GET c1
            COPY s1 c1
            COPY s2 c1 REPLACE
            GET c1
            COPY h2 c1 REPLACE
            HGETALL c1
            HSET c1 f changed
            HGET h2 f
            COPY missing c1 REPLACE
            COPY s1 s1
            COPY s1 s1 DB 1
            COPY s1 c2 DB 1
            SELECT 1
            GET c2
            SELECT 0
            COPY s1 c2 DB 1
            COPY s1 c2 DB 1 REPLACE
            COPY s1 x DB 16
            COPY s1 x DB -1
            COPY s1 x DB abc
            COPY s1 x DB
            COPY s1 x foo
            COPY s1
            EXPIRE s1 100
            COPY s1 t
            TTL t
            SET target v EX 1000
            COPY n target REPLACE
            TTL target
        """)

    def test_move(self):
        self.both(PREPARE + """
            EXPIRE s1 100
            MOVE s1 1
            EXISTS s1
            MOVE s1 1
            SET s1 again
            MOVE s1 1
            SELECT 1
            GET s1
            TTL s1
            MOVE s1 1
            MOVE s1 0
            MOVE s1 16
            MOVE s1 -1
            MOVE s1 abc
            MOVE missing 0
            MOVE s1
            SELECT 0
            GET s1
            MOVE h2 3
            SELECT 3
            HGETALL h2
        """)

    def test_databases(self):
        self.both("""
            SET k 0
            SELECT 1
            GET k
            SET k 1
            SELECT 15
            SELECT 16
            SELECT -1
            SELECT abc
            SELECT 1.5
            SELECT
            SELECT 1 2
            DBSIZE
            SWAPDB 0 1
            SELECT 0
            GET k
            SELECT 1
            GET k
            SWAPDB 0 0
            SWAPDB 0 16
            SWAPDB a 0
            SWAPDB 0 b
            SWAPDB -1 0
            SWAPDB 0
            SWAPDB 1 5
            EXISTS k
            SELECT 5
            GET k
            FLUSHDB
            DBSIZE
            SELECT 0
            DBSIZE
            FLUSHDB ASYNC
            FLUSHDB SYNC
            FLUSHDB foo
            FLUSHDB SYNC ASYNC
            SET k 1
            FLUSHALL ASYNC
            DBSIZE
            FLUSHALL foo
            FLUSHALL SYNC
            FLUSHALL SYNC x
            DBSIZE x
        """)

    def test_another_client_sees_the_swap(self):
        (a, b), (a2, b2) = self.clients(), self.clients()
        self.both("SELECT 1\nSET k one", (a, b))
        self.both("SET k zero", (a2, b2))
        self.both("SWAPDB 0 1", (a2, b2))
        self.both("GET k", (a, b))
        self.both("GET k", (a2, b2))

    def test_keys_and_patterns(self):
        self.both([["MSET"] + [word for key in ("a", "ab", "abc", "b", "bc", "c[d", "c]d", "a\\b", "a*b", "a?b", "-", "^", "",
                                               "hello", "hallo", "hxllo", "hllo", "heello", "k\xff", "a-c", "A", "[")
                               for word in (key, "v")]])
        patterns = ("*", "a*", "?", "??", "*b", "*b*", "a?", "[ab]", "[^ab]", "[a-c]", "[c-a]", "h[ae]llo", "h[^e]llo", "h*llo",
                    "h?llo", "h[a-z]llo", "a\\*b", "a\\?b", "a\\\\b", "c[[]d", "c\\[d", "c[]]d", "[", "[a", "[a-", "[^", "\\", "a\\",
                    "", "**", "*?", "?*", "***b", "[-]", "[a-b-c]", "[\\a]", "[^]", "[]", "[\\]]", "^", "A", "[A-Z]", "[[]",
                    "*" * 50 + "z", "a[-c", "a[b", "a]", "[a]*")
        self.both([["KEYS", pattern] for pattern in patterns])
        self.both([["SCAN", "0", "COUNT", "1000", "MATCH", pattern] for pattern in patterns])
        self.both("KEYS\nKEYS a b")

    def test_scan_finds_every_key(self):
        size = 5000
        self.c.must("MSET", *[word for index in range(size) for word in ("key:%d" % index, index)])
        self.c.must("HSET", "hash:1", "f", "v")
        for arguments in ([], ["COUNT", 1], ["COUNT", 100], ["COUNT", 100000], ["MATCH", "key:*"], ["TYPE", "string"]):
            cursor, found = b"0", []
            while True:
                cursor, keys = self.c.must("SCAN", cursor, *arguments)
                found += keys
                if cursor == b"0":
                    break
            expected = {b"key:%d" % index for index in range(size)} | (set() if len(arguments) and arguments[0] in (
                "MATCH", "TYPE") else {b"hash:1"})
            self.assertEqual(set(found), expected, arguments)
        self.assertEqual(self.c.must("SCAN", 0, "COUNT", 100000, "TYPE", "hash")[1], [b"hash:1"])

    def test_a_scan_keeps_its_guarantees_while_keys_are_created_and_deleted(self):
        chooser = random.Random(seed_new())
        stay = {b"stay:%d" % index for index in range(2000)}
        self.c.must("MSET", *[word for key in stay for word in (key, "v")])
        for count in (3, 17, 100):
            cursor, found, number = b"0", set(), 0
            while True:
                cursor, keys = self.c.must("SCAN", cursor, "COUNT", count)
                found.update(keys)
                for _ in range(chooser.randrange(30)):
                    number += 1
                    self.c.must("SET", "go:%d" % number, "v")
                self.c.must("DEL", *["go:%d" % chooser.randrange(max(number, 1)) for _ in range(20)])
                if cursor == b"0":
                    break
            self.assertEqual(stay - found, set())
            self.assertTrue(all(key.startswith((b"stay:", b"go:")) for key in found))
            self.c.must("DEL", *["go:%d" % index for index in range(number + 1)])

    def test_scan_arguments(self):
        self.both("""
            SCAN
            SCAN abc
            SCAN -1
            SCAN 0 COUNT
            SCAN 0 COUNT 0
            SCAN 0 COUNT -1
            SCAN 0 COUNT abc
            SCAN 0 MATCH
            SCAN 0 TYPE
            SCAN 0 foo
            SCAN 0 foo bar
            SCAN 18446744073709551616
            SCAN 0 COUNT 10 MATCH * TYPE hash
            SCAN 0 MATCH a MATCH *
            SET k v
            SCAN 0 COUNT 100 TYPE string
            SCAN 0 COUNT 100 TYPE STRING
            SCAN 0 COUNT 100 TYPE hash
        """)

    def test_randomkey(self):
        self.both("RANDOMKEY")
        keys = {b"k%d" % index for index in range(50)}
        self.c.must("MSET", *[word for key in keys for word in (key, "v")])
        seen = {self.c.must("RANDOMKEY") for _ in range(2000)}
        self.assertTrue(seen <= keys)
        self.assertGreater(len(seen), 35, "RANDOMKEY is hardly random: %d of 50 keys in 2000 tries" % len(seen))
        self.both("RANDOMKEY x")

    def test_dump_and_restore(self):
        values = [("SET", "", b""), ("SET", "", b"hello"), ("SET", "", b"12345"), ("SET", "", b"-7"), ("SET", "", b"9999999999"),
                  ("SET", "", b"x" * 100000), ("SET", "", bytes(range(256)) * 9),
                  ("HSET", "", *[word for i in range(5) for word in ("f%d" % i, "v%d" % i)]),
                  ("HSET", "", *[word for i in range(2000) for word in ("f%d" % i, "v" * (i % 100))]),
                  ("HSET", "", "f", "x" * 70000, "", "", "n", 5)]
        for index, (name, _, *rest) in enumerate(values):
            key = "k%d" % index
            self.both([[name, key] + rest, ["EXPIRE", key, 1000]])
            ours, theirs = self.c.must("DUMP", key), self.r.must("DUMP", key)
            # A payload of Kelvin, and one of Redis 7.0.
            for payload in (ours, theirs):
                self.c.must("SET", "copy", "in the way")
                self.assertEqual(self.c.call("RESTORE", "copy", 0, payload), Error(b"BUSYKEY Target key name already exists."))
                self.assertEqual(self.c.must("RESTORE", "copy", 5000000, payload, "REPLACE"), OK)
                self.assertTrue(4990000 <= self.c.must("PTTL", "copy") <= 5000000)
                self.assertEqual(self.c.must("RESTORE", "copy", 0, payload, "REPLACE"), OK)
                self.assertEqual(self.c.must("TTL", "copy"), -1)
                self.assertEqual(self.c.must("TYPE", "copy"), self.c.must("TYPE", key))
                self.assertEqual(self.c.must("OBJECT", "ENCODING", "copy"), self.c.must("OBJECT", "ENCODING", key))
                if name == "SET":
                    self.assertEqual(self.c.must("GET", "copy"), rest[0])
                else:
                    self.assertEqual(dict(zip(*[iter(self.c.must("HGETALL", "copy"))] * 2)),
                                     dict(zip(*[iter(self.r.must("HGETALL", key))] * 2)))

    def test_restore_arguments(self):
        payload = {}
        for client in (self.c, self.r):
            client.must("SET", "k", "value")
            payload[client] = client.must("DUMP", "k")
        for rest in ([], ["REPLACE"], ["ABSTTL"], ["REPLACE", "ABSTTL"], ["IDLETIME", 10, "REPLACE"], ["FREQ", 5, "REPLACE"],
                     ["FREQ", 256, "REPLACE"], ["FREQ", -1, "REPLACE"], ["IDLETIME", -1, "REPLACE"], ["FREQ"], ["IDLETIME", "x"],
                     ["FREQ", 1, "IDLETIME", 1, "REPLACE"], ["foo"]):
            for ttl in (0, 100000, -1, "abc", 1, 33177117420000):
                replies = [client.call("RESTORE", "new", ttl, payload[client], *rest) for client in (self.c, self.r)]
                self.assertEqual(replies[0], replies[1], (ttl, rest))
            self.both("DEL new")

    def test_a_damaged_payload_is_refused(self):
        self.c.must("SET", "k", "value")
        self.c.must("HSET", "h", *[word for i in range(50) for word in ("f%d" % i, "v%d" % i)])
        self.both("""
            RESTORE x 0 garbage
            RESTORE x 0 ""
            RESTORE x 0 "\\x00\\x05value\\x0a\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x08"
            RESTORE x
            DUMP missing
            DUMP
        """)
        chooser = random.Random(seed_new())
        for key in ("k", "h"):
            payload = self.c.must("DUMP", key)
            for _ in range(200):
                damaged = bytearray(payload)
                damaged[chooser.randrange(len(damaged))] ^= 1 << chooser.randrange(8)
                self.assertEqual(self.c.call("RESTORE", "x", 0, bytes(damaged)),
                                 Error(b"ERR DUMP payload version or checksum are wrong"))
            for size in range(0, len(payload), max(1, len(payload) // 50)):
                self.assertIsInstance(self.c.call("RESTORE", "x", 0, payload[:size]), Error)
        self.assertEqual(self.c.must("EXISTS", "x"), 0)

    def test_restore_with_heat_and_idle_time(self):
        self.c.must("SET", "k", "v")
        payload = self.c.must("DUMP", "k")
        self.c.must("RESTORE", "idle", 0, payload, "IDLETIME", 7200)
        self.assertTrue(7140 <= self.c.must("OBJECT", "IDLETIME", "idle") <= 7260)
        self.c.must("GET", "idle")
        self.assertLessEqual(self.c.must("OBJECT", "IDLETIME", "idle"), 60)
        self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        try:
            self.c.must("RESTORE", "warm", 0, payload, "FREQ", 200)
            self.assertIn(self.c.must("OBJECT", "FREQ", "warm"), (199, 200))
            self.assertIsInstance(self.c.call("OBJECT", "IDLETIME", "warm"), Error)
        finally:
            self.c.must("CONFIG", "SET", "maxmemory-policy", "noeviction")

    @kelvin_only
    def test_heat_is_shown_under_every_policy(self):
        self.c.must("SET", "k", "v")
        for _ in range(300):
            self.c.must("GET", "k")
        self.assertGreater(self.c.must("OBJECT", "FREQ", "k"), 5)
        self.assertEqual(self.c.must("OBJECT", "FREQ", "missing"), None)

    def test_commands_that_only_inspect_add_no_heat(self):
        self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
        try:
            self.c.must("SET", "k", "v", "EX", 1000)
            before = self.c.must("OBJECT", "FREQ", "k")
            for _ in range(30):
                self.c.pipeline([["TTL", "k"], ["PTTL", "k"], ["TYPE", "k"], ["EXISTS", "k"], ["OBJECT", "ENCODING", "k"],
                                 ["EXPIRETIME", "k"], ["OBJECT", "FREQ", "k"]])
            self.assertLessEqual(self.c.must("OBJECT", "FREQ", "k"), before)
            self.c.pipeline(["TOUCH", "k"] for _ in range(300))
            self.assertGreater(self.c.must("OBJECT", "FREQ", "k"), before)
        finally:
            self.c.must("CONFIG", "SET", "maxmemory-policy", "noeviction")

    def test_hits_and_misses(self):
        script = """
            EXISTS s1 missing
            TYPE s1
            TYPE missing
            TTL s1
            PTTL missing
            EXPIRETIME s1
            PEXPIRETIME missing
            OBJECT ENCODING s1
            OBJECT REFCOUNT missing
            TOUCH s1 missing
            DUMP h1
            DUMP missing
            COPY s1 c1
            COPY missing c1
            COPY s1 c1
            EXPIRE s1 100
            EXPIRE missing 100
            PERSIST s1
            MOVE missing 1
            RENAME s2 r2
            RENAMENX r2 s1
            RANDOMKEY
            DEL s1 missing
            UNLINK r2 missing
        """
        self.both(PREPARE)
        before = [server.info("stats") for server in (self.server, self.oracle)]
        self.both(script)
        after = [server.info("stats") for server in (self.server, self.oracle)]
        for name in ("keyspace_hits", "keyspace_misses"):
            ours, theirs = [int(after[i][name]) - int(before[i][name]) for i in (0, 1)]
            self.assertEqual(ours, theirs, name)

    def test_numbers_of_databases(self):
        for number in ("0", "1", "15", "16", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649", "01", "+1", " 1", "",
                       "1.0", "9223372036854775807", "9223372036854775808", "abc"):
            self.both([["SET", "k", "v"], ["MOVE", "k", number], ["COPY", "k", "l", "DB", number], ["SWAPDB", number, 0],
                       ["SWAPDB", 0, number], ["SWAPDB", number, "x"], ["SWAPDB", "x", number], ["SELECT", number], ["DBSIZE"],
                       ["SELECT", 0], ["FLUSHALL"]])

    def test_options_may_be_repeated_and_in_any_order_and_case(self):
        self.both(PREPARE + """
            COPY s1 c1 replace REPLACE db 1 DB 0
            GET c1
            COPY s1 s1 DB 1 DB 0
            COPY s1 REPLACE
            COPY s1 REPLACE REPLACE
            GET REPLACE
            COPY s1 c1 DB 1 DB
            COPY missing missing
            COPY missing c1 foo
            EXPIRE s1 100 xx XX
            EXPIRE s1 100 nx Nx
            EXPIRE s1 200 gt GT XX
            TTL s1
            SCAN 0 count 1 COUNT 1000 match x* MATCH h*
            FLUSHDB sync
            DBSIZE
        """)

    def test_a_key_of_any_size(self):
        for size in (0, 1, 254, 255, 256, 2047, 2048, 2049, 100000):
            key, other = "k" * size, "o" * size
            self.both([["SET", key, "v" * 30], ["EXPIRE", key, 100], ["TTL", key], ["RENAME", key, other], ["GET", other],
                       ["COPY", other, key], ["PERSIST", other], ["TTL", other], ["TTL", key], ["MOVE", other, 2], ["KEYS", "*"],
                       ["SCAN", 0, "COUNT", 1000], ["RANDOMKEY"], ["DEL", key, other], ["FLUSHALL"]])

    def test_object(self):
        self.both(PREPARE + """
            OBJECT ENCODING s1
            OBJECT ENCODING n
            OBJECT ENCODING h1
            OBJECT ENCODING missing
            OBJECT REFCOUNT missing
            OBJECT IDLETIME missing
            OBJECT FREQ missing
            OBJECT IDLETIME s1
            OBJECT REFCOUNT s1
            OBJECT foo s1
            OBJECT ENCODING
            OBJECT
            OBJECT ENCODING a b
        """)

    def test_wrong_number_of_arguments(self):
        names = "del unlink exists type touch rename renamenx copy move randomkey keys scan dump restore object dbsize flushall " \
                "flushdb swapdb select expire ttl persist".split()
        self.both([[name.upper()] for name in names if not name.startswith("flush") and name not in ("randomkey", "dbsize")] +
                  [[name] + ["x"] * 9 for name in names])

    def test_many_keys(self):
        size = 100000
        for start in range(0, size, 1000):
            self.c.must("MSET", *[word for i in range(start, start + 1000) for word in ("key:%d" % i, "v%d" % i)])
        self.assertEqual(self.c.must("DBSIZE"), size)
        replies = self.c.pipeline(["GET", "key:%d" % i] for i in range(size))
        self.assertTrue(replies == [b"v%d" % i for i in range(size)])
        self.assertEqual(len(self.c.must("KEYS", "*")), size)
        self.c.pipeline(["DEL", "key:%d" % i] for i in range(0, size, 2))
        self.assertEqual(self.c.must("DBSIZE"), size // 2)
        replies = self.c.pipeline(["EXISTS", "key:%d" % i] for i in range(size))
        self.assertTrue(replies == [i % 2 for i in range(size)])
        self.c.pipeline(["DEL", "key:%d" % i] for i in range(1, size, 2))
        self.assertEqual(self.c.must("DBSIZE"), 0)
        self.assertEqual(self.c.must("SCAN", 0), [b"0", []])


if __name__ == "__main__":
    main()
