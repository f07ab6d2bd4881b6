"""Hashes, compared with redis-server."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.resp import Error, Map                                                                 # noqa: E402


class HashTest(PairCase):
    def test_set_and_get(self):
        self.both("""
            HSET h a 1 b 2
            HSET h a 3 c 4
            HGET h a
            HGET h missing
            HGET missing a
            HMGET h a b missing c a
            HMGET missing a b
            HLEN h
            HLEN missing
            HEXISTS h a
            HEXISTS h x
            HEXISTS missing x
            HSTRLEN h a
            HSTRLEN h x
            HSTRLEN missing x
            HGETALL h
            HGETALL missing
            HKEYS h
            HVALS h
            HKEYS missing
            HVALS missing
            HSETNX h a 9
            HSETNX h d 9
            HGET h d
            HMSET h e 5 f 6
            HMGET h e f
            HSET h "" empty-field
            HGET h ""
            HSET h "bin\\x00\\xff" "\\r\\n\\x00"
            HGET h "bin\\x00\\xff"
            HSET h x 1 x 2
            HGET h x
        """)

    def test_arity(self):
        self.both("""
            HSET h a
            HSET h
            HSET h a 1 b
            HMSET h a
            HMSET h a 1 b
            HMSET h
            HGET h
            HMGET h
            HDEL h
            HLEN
            HSETNX h a
            HINCRBY h a
            HINCRBYFLOAT h a
            HRANDFIELD
            HRANDFIELD h 1 x
            HRANDFIELD h 1 withvalues x
            HSCAN h
            HSTRLEN h
            EXISTS h
        """)

    def test_delete(self):
        self.both("""
            HSET h a 1 b 2 c 3
            HDEL h a missing b
            HDEL h a
            HDEL missing a
            EXISTS h
            HDEL h c
            EXISTS h
            TYPE h
            HSET h a 1
            HDEL h a a a
            EXISTS h
        """)

    def test_counters(self):
        self.both("""
            HINCRBY h n 5
            HINCRBY h n -10
            HGET h n
            HSET h n 9223372036854775807
            HINCRBY h n 1
            HSET h n -9223372036854775808
            HINCRBY h n -1
            HINCRBY h n 9223372036854775807
            HINCRBY h n abc
            HINCRBY h n 1.0
            HSET h s abc
            HINCRBY h s 1
            HSET h s " 1"
            HINCRBY h s 1
            HSET h s ""
            HINCRBY h s 1
            HSET h s 1.5
            HINCRBY h s 1
            HINCRBYFLOAT h f 1.5
            HINCRBYFLOAT h f 1e2
            HGET h f
            HINCRBYFLOAT h f -0.1
            HINCRBYFLOAT h n 0.1
            HINCRBYFLOAT h f abc
            HINCRBYFLOAT h f nan
            HINCRBYFLOAT h f inf
            HSET h s abc
            HINCRBYFLOAT h s 1
            HSET h s " 1"
            HINCRBYFLOAT h s 1
            HSET h s 1e400
            HINCRBYFLOAT h s 1
            HSET h s 12345678901234567890
            HINCRBYFLOAT h s 1
            HINCRBYFLOAT h g 1e-20
            HINCRBYFLOAT h g 10000000000000000000
            HINCRBY h n 9223372036854775808
            HINCRBY h n 01
            HINCRBY h n -0
            HINCRBY h n +1
            HINCRBY h n ""
            HINCRBYFLOAT h i -inf
            HINCRBYFLOAT h i ""
            HINCRBYFLOAT h i "1 "
            HINCRBYFLOAT h i +1
            HINCRBYFLOAT h i 0x10
            HINCRBYFLOAT h i -17
            HSET h i inf
            HINCRBYFLOAT h i 1
            HSET h i 1e4932
            HINCRBYFLOAT h i 1e4932
            HSET h i 0x1p3
            HINCRBYFLOAT h i 1
            HSET h i ""
            HINCRBYFLOAT h i 1
            HINCRBY new f x
            HINCRBYFLOAT new f x
            HINCRBYFLOAT new f inf
            EXISTS new
            HINCRBY new f 0
            HGETALL new
        """)

    def test_arguments_are_checked_before_the_key(self):
        """Which of two errors is returned."""
        self.both("""
            SET s v
            HSET s a
            HSET s a 1 b
            HMSET s a 1 b
            HINCRBY s f x
            HINCRBYFLOAT s f x
            HINCRBYFLOAT s f inf
            HRANDFIELD s x
            HRANDFIELD s 0
            HRANDFIELD s 1 x
            HRANDFIELD s 1 x y
            HRANDFIELD s x y
            HRANDFIELD s 9223372036854775807 WITHVALUES
            HSCAN s x foo
            HSCAN s 0 foo
            HSCAN missing x foo
            HSCAN missing 0 foo
            HSCAN missing 0 COUNT 0
        """)

    def test_encodings(self):
        self.both("""
            CONFIG SET hash-max-listpack-entries 4
            CONFIG SET hash-max-listpack-value 10
            HSET h a 1 b 2 c 3 d 4
            OBJECT ENCODING h
            HSET h e 5
            OBJECT ENCODING h
            HGETALL h
            HDEL h a b c
            OBJECT ENCODING h
            HSET i a 0123456789
            OBJECT ENCODING i
            HSET i a 01234567890
            OBJECT ENCODING i
            HSET j 01234567890 a
            OBJECT ENCODING j
            HSET k a 1
            HSETNX k b 01234567890
            OBJECT ENCODING k
            HSET l a 1
            HINCRBYFLOAT l b 3.14159265358
            OBJECT ENCODING l
            HINCRBY l c 12345678901
            OBJECT ENCODING l
            HGETALL l
            CONFIG SET hash-max-listpack-entries 512
            HSET m a 1 b 2 c 3 d 4 e 5
            CONFIG SET hash-max-listpack-entries 4
            HSETNX m a 2
            HDEL m missing
            OBJECT ENCODING m
            HDEL m e
            OBJECT ENCODING m
            HSET m a 2
            OBJECT ENCODING m
            CONFIG SET hash-max-listpack-entries 3
            HSET m a 3
            OBJECT ENCODING m
            HGETALL m
            CONFIG SET hash-max-listpack-entries 512
            CONFIG SET hash-max-listpack-value 64
            HSET h z 1
            OBJECT ENCODING h
        """)

    def test_big_hashes(self):
        self.both([["HSET", "h"] + [word for index in range(start, start + 100) for word in ("f%d" % index, "v" * (index % 90))]
                   for start in range(0, 5000, 100)])
        self.both([["HLEN", "h"], ["HGETALL", "h"], ["HKEYS", "h"], ["HVALS", "h"], ["OBJECT", "ENCODING", "h"]])
        self.both([["HDEL", "h"] + ["f%d" % index for index in range(0, 5000, 3)], ["HLEN", "h"], ["HGETALL", "h"]])
        self.both([["HGET", "h", "f%d" % index] for index in range(0, 5000, 7)])

    def test_a_scan_of_a_big_hash_finds_every_field_while_it_changes(self):
        for size in (10, 600, 3000):
            self.c.must("DEL", "h")
            self.c.must("HSET", "h", *[word for index in range(size) for word in ("f%d" % index, index)])
            cursor, found, rounds = b"0", {}, 0
            while True:
                cursor, flat = self.c.must("HSCAN", "h", cursor, "COUNT", 20)
                found.update(zip(flat[::2], flat[1::2]))
                rounds += 1
                self.c.must("HSET", "h", "new%d" % rounds, 1)
                self.c.must("HDEL", "h", "new%d" % (rounds - 3))
                if cursor == b"0":
                    break
            for index in range(size):
                self.assertEqual(found.get(b"f%d" % index), b"%d" % index)

    def test_scan_options(self):
        self.both("""
            HSET h a 1 b 2 aa 3
            HSCAN h 0
            HSCAN h 0 MATCH a*
            HSCAN h 0 COUNT 1 MATCH b
            HSCAN h 0 MATCH zzz
            HSCAN missing 0
            HSCAN h abc
            HSCAN h -1
            HSCAN h 0 COUNT 0
            HSCAN h 0 COUNT -5
            HSCAN h 0 COUNT abc
            HSCAN h 0 MATCH
            HSCAN h 0 foo bar
            HSCAN h 0 TYPE string
            HSCAN h 0 MATCH a* foo
            HSCAN h 0 foo COUNT abc
            HSCAN h 0 COUNT abc foo
            HSCAN h 0 COUNT 1 COUNT 0
            HSCAN h 0 COUNT
            HSCAN h 0 count 5 match a*
            HSCAN h 0 MATCH a* MATCH b*
            HSCAN h 0 MATCH *
            HSCAN h 0 COUNT 9223372036854775807
            HSCAN h 0 COUNT 9223372036854775808
            HSCAN h ""
            HSCAN h " 0"
            HSCAN h "0 "
            HSCAN h +0
            HSCAN h -0
            HSCAN h -
            HSCAN h 0x0
            HSCAN h "\x00abc"
            HSCAN h "0\x00abc"
            HSCAN h 18446744073709551615
            HSCAN h 18446744073709551616
            HSCAN h -18446744073709551616
            SET s v
            HSCAN s 0
        """)

    def test_random_fields(self):
        self.both("""
            HSET h a 1 b 2 c 3
            HRANDFIELD missing
            HRANDFIELD missing 5
            HRANDFIELD missing -5 WITHVALUES
            HRANDFIELD h 0
            HRANDFIELD h 2
            HRANDFIELD h 10
            HRANDFIELD h -10
            HRANDFIELD h 10 WITHVALUES
            HRANDFIELD h -10 WITHVALUES
            HRANDFIELD h abc
            HRANDFIELD h 1 foo
            HRANDFIELD h 9223372036854775808
            HRANDFIELD h -9223372036854775808
            HRANDFIELD h -9223372036854775807 WITHVALUES
            HRANDFIELD h 9223372036854775807
            HRANDFIELD h 4611686018427387903 withvalues
            HRANDFIELD h 4611686018427387904 WITHVALUES
            HRANDFIELD h -4611686018427387904 WITHVALUES
            HRANDFIELD missing -4611686018427387904 WITHVALUES
            HRANDFIELD missing -4611686018427387903 WITHVALUES
            HRANDFIELD missing 9223372036854775807
            HRANDFIELD h 1 WITHVALUES foo
            HRANDFIELD h x foo
            HRANDFIELD h 0 WITHVALUES
        """)
        self.c.must("HSET", "big", *[word for index in range(1000) for word in ("f%d" % index, index)])
        for key, fields in (("h", {b"a": b"1", b"b": b"2", b"c": b"3"}), ("big", {b"f%d" % i: b"%d" % i for i in range(1000)})):
            seen = {self.c.must("HRANDFIELD", key) for _ in range(100)}
            self.assertTrue(seen <= set(fields) and len(seen) >= min(3, len(fields)))
            some = self.c.must("HRANDFIELD", key, 3)
            self.assertEqual(len(set(some)), 3)
            self.assertTrue(set(some) <= set(fields))
            most = self.c.must("HRANDFIELD", key, len(fields) - 1)
            self.assertEqual(len(set(most)), len(fields) - 1)
            self.assertEqual(set(self.c.must("HRANDFIELD", key, 10000)), set(fields))
            flat = self.c.must("HRANDFIELD", key, -50, "WITHVALUES")
            self.assertEqual(len(flat), 100)
            self.assertTrue(all(fields[field] == value for field, value in zip(flat[::2], flat[1::2])))

    def test_every_command_refuses_a_string(self):
        replies = self.both("""
            SET s v
            HSET s f v
            HSETNX s f v
            HGET s f
            HMGET s f
            HMSET s f v
            HDEL s f
            HLEN s
            HSTRLEN s f
            HEXISTS s f
            HGETALL s
            HKEYS s
            HVALS s
            HINCRBY s f 1
            HINCRBYFLOAT s f 1
            HRANDFIELD s
            HRANDFIELD s 1
            HSCAN s 0
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies[1:]))

    def test_resp3_replies(self):
        clients = self.clients(protocol=3)
        replies = self.both("""
            HSET h a 1
            HGETALL h
            HGETALL missing
            HGET h missing
            HMGET h a x
            HRANDFIELD h
            HRANDFIELD h 1
            HRANDFIELD h 1 WITHVALUES
            HRANDFIELD h -2 WITHVALUES
            HRANDFIELD h -2
            HRANDFIELD missing
            HRANDFIELD missing 1 WITHVALUES
            HKEYS missing
            HVALS missing
            HSTRLEN h missing
            HEXISTS h a
            HINCRBYFLOAT h f 1.5
            HKEYS h
            HSCAN h 0
        """, clients)
        self.assertIsInstance(replies[1], Map)

    def test_ttl_is_kept_by_changes(self):
        self.both("""
            HSET h a 1
            EXPIRE h 100
            HSET h b 1
            HDEL h a
            HINCRBY h b 1
            TTL h
        """)


class HashLogTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def test_a_replay_gives_the_same_data(self):
        """The sum of floats is logged, not the increment; a failed command is not logged."""
        before = self.both("""
            HSET h a 1 b 2 c 3
            HINCRBYFLOAT h a 0.1
            HINCRBYFLOAT h a 0.2
            HINCRBY h b 5
            HDEL h c
            HSETNX h a 7
            HSETNX h d 8
            HINCRBY h d x
            HSET gone a 1
            HDEL gone a
            HGETALL h
        """)[-1]
        for server in (self.server, self.oracle):
            server.restart(kill=True)
        ours, theirs = self.clients()
        after = self.both([["HGETALL", "h"], ["EXISTS", "gone"], ["DBSIZE"]], (ours, theirs))[0]
        self.assertEqual(sorted(zip(after[::2], after[1::2])), sorted(zip(before[::2], before[1::2])))


if __name__ == "__main__":
    main()
