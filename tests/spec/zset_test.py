"""Sorted sets, compared with redis-server."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import NULL, NULL_ARRAY, Double, Error                                                  # noqa: E402
from support.server import seed_new                                                                 # noqa: E402


class ZsetTest(PairCase):
    def test_add(self):
        self.both("""
            ZADD z 1 a 2 b 3 c
            ZADD z 1 a 4 c 5 d
            ZADD z CH 2 a 4 c 6 e
            ZADD z NX 9 a 9 f
            ZADD z XX 8 a 8 g
            ZADD z XX CH 7 a 8 g
            ZADD z GT 1 a 100 b 1 h
            ZADD z LT 1 a 200 b 1 i
            ZADD z GT CH 1 a 300 b
            ZADD z XX GT CH 1000 nosuch 1000 a
            ZADD z INCR 5 a
            ZADD z NX INCR 5 a
            ZADD z XX INCR 5 nosuch
            ZADD z GT INCR -5 a
            ZADD z LT INCR 5 a
            ZADD z LT INCR -5 a
            ZADD missing XX 1 a
            ZADD missing XX INCR 1 a
            EXISTS missing
            ZADD z nx ch 1 q
            ZADD z NX NX CH CH 1 r
            ZADD z 1 dup 2 dup 3 dup
            ZSCORE z dup
            ZADD new CH 1 dup 2 dup 3 dup
            ZRANGE z 0 -1 WITHSCORES
            ZCARD z
            ZCARD missing
            ZADD z 1 "" 2 "bin\\x00\\xff" 3 12 4 007 5 "\\r\\n"
            ZRANGE z 0 -1 WITHSCORES
        """)

    def test_add_is_refused(self):
        self.both("""
            ZADD z 1
            ZADD z
            ZADD z 1 a 2
            ZADD z NX
            ZADD z NX 1
            ZADD z NX XX 1 a
            ZADD z NX GT 1 a
            ZADD z NX LT 1 a
            ZADD z GT LT 1 a
            ZADD z NX XX INCR 1 a 2 b
            ZADD z INCR 1 a 2 b
            ZADD z INCR 1 a 2
            ZADD z abc a
            ZADD z 1 a abc b
            EXISTS z
            ZADD z nan a
            ZADD z "" a
            ZADD z " 1" a
            ZADD z "1 " a
            ZADD z 1e400 a
            ZADD z -1e400 a
            ZADD z 1,5 a
            ZADD z 0x10 hex
            ZADD z 5e-324 tiny
            ZADD z 1e-400 tinier
            ZADD z +inf plus INF caps -Infinity minus iNfiNitY mixed
            ZRANGE z 0 -1 WITHSCORES
            SET s v
            ZADD s abc a
            ZADD s 1 a
            ZADD s NX XX 1 a
        """)

    def test_scores(self):
        """RESP2 prints the shortest digits that are read back exactly, as in 7.2."""
        for encoding in ("128", "0"):
            self.both([["CONFIG", "SET", "zset-max-listpack-entries", encoding]])
            self.both("""
                DEL z
                ZADD z 0.1 a 3.0 b 1e20 c 1e300 d 1234567890123 e 9007199254740993 f 4611686018427387904 g 9223372036854775807 h
                ZADD z 1e17 i 123456789012345678 j -0.1 k 1e-7 l 5e-324 m 1.7976931348623157e308 n 100000000000000000000000 o
                ZADD z inf p -inf q 0.30000000000000004 r 1e21 s 123456.789 t 1e15 u 1.5e-5 v
                OBJECT ENCODING z
                ZRANGE z 0 -1 WITHSCORES
                ZMSCORE z a b c d e f g h i j k l m n o p q r s t u v
                ZSCORE z a
                ZINCRBY z 0.2 a
                ZINCRBY z 1e300 n
                ZINCRBY z 1.7e308 n
                ZSCAN z 0
            """)
        self.both([["CONFIG", "SET", "zset-max-listpack-entries", "128"]])
        for score, digits in ((b"0.1", b"0.1"), (b"3.0", b"3"), (b"1e20", b"1e+20"), (b"12345678901234567890", b"12345678901234567000"), (b"1.5e-5", b"0.000015"), (b"1e21", b"1e+21"),
                              (b"0.30000000000000004", b"0.30000000000000004"), (b"1e-7", b"1e-7"), (b"123456.789", b"123456.789")):
            self.c.must("ZADD", "digits", score, "m")
            self.assertEqual(self.c.must("ZSCORE", "digits", "m"), digits)

    def test_minus_zero(self):
        self.both("""
            ZADD z -0 a 0 b -0.0 c
            ZRANGE z 0 -1 WITHSCORES
            ZADD z CH -0 b
            CONFIG SET zset-max-listpack-entries 0
            ZADD y -0 a 0 b -0.0 c
            ZRANGE y 0 -1 WITHSCORES
            ZADD y CH -0 b
            ZADD y CH 0 a
            ZRANGEBYSCORE y -0 0 WITHSCORES
            ZRANGEBYSCORE y (-0 0
            ZINCRBY y 0 a
            ZINCRBY y -0 a
            CONFIG SET zset-max-listpack-entries 128
        """)

    def test_infinities(self):
        self.both("""
            ZADD z inf a -inf b 0 c
            ZINCRBY z -inf a
            ZINCRBY z inf b
            ZINCRBY z inf c
            ZINCRBY z -inf c
            ZADD z INCR nan c
            ZADD z INCR inf d
            ZRANGE z 0 -1 WITHSCORES
            ZRANGEBYSCORE z -inf inf
            ZRANGEBYSCORE z (-inf (inf
            ZCOUNT z inf inf
            ZCOUNT z -inf -inf
            ZADD y -inf a inf d 1 e
            ZUNION 2 z y WITHSCORES
            ZINTER 2 z y WITHSCORES
            ZUNION 2 z y WEIGHTS 0 1 WITHSCORES
            ZUNION 2 z y WEIGHTS 0 0 WITHSCORES
            ZINTER 2 z y WEIGHTS 1 0 WITHSCORES
            ZINTER 2 z y WEIGHTS 0 1 AGGREGATE MIN WITHSCORES
            ZINTER 2 z y WEIGHTS 1 0 AGGREGATE MAX WITHSCORES
        """)

    def test_remove(self):
        self.both("""
            ZADD z 1 a 2 b 3 c
            ZREM z a nosuch c a
            ZREM z nosuch
            ZREM missing a
            ZREM z b b
            EXISTS z
            ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g
            ZREMRANGEBYRANK z 0 0
            ZREMRANGEBYRANK z -1 -1
            ZREMRANGEBYRANK z 5 10
            ZREMRANGEBYRANK z 2 1
            ZREMRANGEBYRANK z -100 -100
            ZREMRANGEBYSCORE z (2 3
            ZREMRANGEBYSCORE z 100 200
            ZREMRANGEBYSCORE z 5 4
            ZRANGE z 0 -1
            ZREMRANGEBYRANK z 0 -1
            EXISTS z
            ZREMRANGEBYRANK missing 0 -1
            ZREMRANGEBYRANK missing a 1
            ZREMRANGEBYSCORE missing a 1
            ZREMRANGEBYLEX missing a 1
            ZADD l 0 a 0 b 0 c 0 d 0 e
            ZREMRANGEBYLEX l [b (d
            ZRANGE l 0 -1
            ZREMRANGEBYLEX l - [a
            ZREMRANGEBYLEX l + -
            ZREMRANGEBYLEX l - +
            EXISTS l
        """)

    def test_ranks(self):
        self.both("""
            ZADD z 1 a 2 b 2 c 3 d
            ZRANK z a
            ZRANK z c
            ZRANK z nosuch
            ZRANK missing a
            ZREVRANK z a
            ZREVRANK z d
            ZREVRANK z nosuch
            ZREVRANK missing a
            ZRANK z
            ZMSCORE z a nosuch d a
            ZMSCORE missing a b
            ZSCORE z nosuch
            ZSCORE missing a
        """)

    @kelvin_only
    def test_ranks_with_their_score(self):
        """WITHSCORE is new in 7.2."""
        self.c.must("ZADD", "z", "1", "a", "2.5", "b", "3", "c")
        self.assertEqual(self.c.must("ZRANK", "z", "b", "WITHSCORE"), [1, b"2.5"])
        self.assertEqual(self.c.must("ZREVRANK", "z", "a", "withscore"), [2, b"1"])
        self.assertIs(self.c.must("ZRANK", "z", "x", "WITHSCORE"), NULL_ARRAY)
        self.assertIs(self.c.must("ZRANK", "missing", "x", "WITHSCORE"), NULL_ARRAY)
        self.assertIsNone(self.c.must("ZRANK", "z", "x"))
        self.assertEqual(self.c.call("ZRANK", "z", "b", "WITHSCORES"), Error(b"ERR syntax error"))
        self.assertEqual(self.c.call("ZRANK", "z", "b", "WITHSCORE", "x"), Error(b"ERR wrong number of arguments for 'zrank' command"))
        three = self.client3()
        self.assertEqual(three.must("ZRANK", "z", "b", "WITHSCORE"), [1, Double(b"2.5")])
        self.assertIs(three.must("ZRANK", "z", "x", "WITHSCORE"), NULL)

    def client3(self):
        client = self.server.client(protocol=3)
        self.addCleanup(client.close)
        return client

    def test_range_by_rank(self):
        self.both("""
            ZADD z 1 a 2 b 2 c 3 d 4 e
            ZRANGE z 0 -1
            ZRANGE z 1 2 WITHSCORES
            ZRANGE z -2 -1
            ZRANGE z -100 100
            ZRANGE z 3 1
            ZRANGE z 5 10
            ZRANGE z 0 -100
            ZRANGE z 0 -1 REV
            ZRANGE z 1 2 REV WITHSCORES
            ZRANGE z -2 -1 REV
            ZRANGE z 4 9 REV
            ZRANGE z 5 9 REV
            ZREVRANGE z 0 1 WITHSCORES
            ZREVRANGE z 0 -1 REV
            ZRANGE z 0 -1 REV REV
            ZRANGE z 0 -1 WITHSCORES WITHSCORES
            ZRANGE z 0 -1 LIMIT 0 1
            ZRANGE z 0 -1 LIMIT 3 -1
            ZRANGE z 0 -1 LIMIT a b
            ZRANGE z 0 -1 LIMIT 1
            ZRANGE z 0 -1 foo
            ZRANGE z a b
            ZRANGE z 0 1.5
            ZRANGE z (0 1
            ZRANGE z 0 9223372036854775807
            ZRANGE z -9223372036854775808 9223372036854775807 REV
            ZRANGE z 0 9223372036854775808
            ZRANGE missing 0 -1
            ZRANGE missing a b
            ZRANGE missing 0 -1 foo
            SET s v
            ZRANGE s 0 -1
            ZRANGE s a b
            ZRANGE s 0 -1 foo
        """)

    def test_range_by_score(self):
        self.both("""
            ZADD z 1 a 2 b 2 c 3 d 4 e
            ZRANGEBYSCORE z 2 3
            ZRANGEBYSCORE z (2 3 WITHSCORES
            ZRANGEBYSCORE z 2 (3
            ZRANGEBYSCORE z (2 (3
            ZRANGEBYSCORE z 3 2
            ZRANGEBYSCORE z (2 2
            ZRANGEBYSCORE z -inf +inf LIMIT 1 2
            ZRANGEBYSCORE z -inf +inf LIMIT 1 -1
            ZRANGEBYSCORE z -inf +inf LIMIT -1 2
            ZRANGEBYSCORE z -inf +inf LIMIT 5 2
            ZRANGEBYSCORE z -inf +inf LIMIT 0 0
            ZRANGEBYSCORE z -inf +inf LIMIT 9223372036854775807 1
            ZRANGEBYSCORE z -inf +inf LIMIT 1 2 LIMIT 0 1 WITHSCORES
            ZRANGEBYSCORE z -inf +inf BYSCORE
            ZRANGEBYSCORE z -inf +inf REV
            ZREVRANGEBYSCORE z 3 2
            ZREVRANGEBYSCORE z (4 (1 WITHSCORES LIMIT 1 5
            ZREVRANGEBYSCORE z +inf -inf LIMIT 1 2
            ZREVRANGEBYSCORE z 2 3
            ZRANGE z 2 3 BYSCORE
            ZRANGE z 3 2 BYSCORE REV
            ZRANGE z +inf (1 BYSCORE REV LIMIT 1 2 WITHSCORES
            ZRANGE z 2 3 BYSCORE BYSCORE
            ZRANGE z 2 3 BYSCORE BYLEX
            ZCOUNT z 2 3
            ZCOUNT z (2 +inf
            ZCOUNT z 3 2
            ZCOUNT missing 1 2
            ZCOUNT z a 2
            ZCOUNT z ( 2
            ZCOUNT z "" 2
            ZCOUNT z "1\\x00x" 2
            ZCOUNT z " 1" 2
            ZCOUNT z "1 " 2
            ZCOUNT z nan 2
            ZCOUNT z (nan 2
            ZCOUNT z [1 2
            ZCOUNT z ((1 2
            ZCOUNT z 0x1 1e400
            ZRANGEBYSCORE z 1
            ZRANGEBYSCORE z 1 2 LIMIT 1
            ZRANGEBYSCORE z 1 2 LIMIT a 1
            ZRANGEBYSCORE z x 2 LIMIT a 1
            ZRANGEBYSCORE missing x 2
            SET s v
            ZRANGEBYSCORE s 1 2
            ZRANGEBYSCORE s x 2
        """)

    def test_range_by_lex(self):
        self.both("""
            ZADD z 0 a 0 b 0 c 0 d 0 e 0 aa 0 ab 0 "" 0 "a\\x00" 0 "\\xff"
            ZRANGEBYLEX z - +
            ZRANGEBYLEX z [a (c
            ZRANGEBYLEX z (a [c
            ZRANGEBYLEX z [a [a
            ZRANGEBYLEX z (a (a
            ZRANGEBYLEX z [c [a
            ZRANGEBYLEX z + -
            ZRANGEBYLEX z - -
            ZRANGEBYLEX z + +
            ZRANGEBYLEX z [ +
            ZRANGEBYLEX z ( +
            ZRANGEBYLEX z - [
            ZRANGEBYLEX z - (
            ZRANGEBYLEX z - + LIMIT 2 3
            ZRANGEBYLEX z - + LIMIT 2 -1
            ZRANGEBYLEX z - + LIMIT -1 2
            ZRANGEBYLEX z - + WITHSCORES
            ZREVRANGEBYLEX z + -
            ZREVRANGEBYLEX z (c [a LIMIT 1 2
            ZREVRANGEBYLEX z [a (c
            ZRANGE z [a (c BYLEX
            ZRANGE z (c [a BYLEX REV
            ZRANGE z + - BYLEX REV LIMIT 1 3
            ZLEXCOUNT z - +
            ZLEXCOUNT z [a (c
            ZLEXCOUNT z [zz [zzz
            ZLEXCOUNT z (c [a
            ZLEXCOUNT missing - +
            ZLEXCOUNT z a b
            ZLEXCOUNT z "" b
            ZLEXCOUNT z -- +
            ZLEXCOUNT z - ++
            ZRANGEBYLEX z a b
            ZRANGEBYLEX missing a b
            ZRANGEBYLEX z a b LIMIT 1
        """)

    def test_range_store(self):
        self.both("""
            ZADD z 1 a 2 b 2 c 3 d 4 e
            ZRANGESTORE d z 1 3
            ZRANGE d 0 -1 WITHSCORES
            ZRANGESTORE d z 1 3 REV
            ZRANGE d 0 -1 WITHSCORES
            ZRANGESTORE d z (1 3 BYSCORE
            ZRANGE d 0 -1 WITHSCORES
            ZRANGESTORE d z 3 (1 BYSCORE REV LIMIT 0 1
            ZRANGE d 0 -1 WITHSCORES
            EXPIRE d 100
            ZRANGESTORE d z 0 0
            TTL d
            ZRANGESTORE d z 5 9
            EXISTS d
            ZRANGESTORE d z 5 9
            SET d v
            ZRANGESTORE d missing 0 -1
            EXISTS d
            SET d v
            ZRANGESTORE d z 0 1
            TYPE d
            ZRANGESTORE z z 1 2
            ZRANGE z 0 -1 WITHSCORES
            ZRANGESTORE z z 0 -1 WITHSCORES
            ZRANGESTORE z z 0 -1 LIMIT 0 1
            ZRANGESTORE z
            SET s v
            ZRANGESTORE d s 0 -1
            TYPE d
            ZADD l 0 a 0 b 0 c
            ZRANGESTORE m l - + BYLEX LIMIT 1 5
            ZRANGE m 0 -1
        """)

    def test_union_and_intersection(self):
        self.both("""
            ZADD a 1 x 2 y 3 z
            ZADD b 10 y 20 z 30 w
            SADD s y z q 12
            ZUNION 2 a b
            ZUNION 2 a b WITHSCORES
            ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES
            ZUNION 2 a b AGGREGATE MIN WITHSCORES
            ZUNION 2 a b aggregate max withscores
            ZUNION 3 a b s WITHSCORES
            ZUNION 3 a missing s WEIGHTS 1 2 -3 AGGREGATE SUM WITHSCORES
            ZUNION 2 a a WITHSCORES
            ZUNION 1 s WITHSCORES
            ZUNION 1 missing
            ZINTER 2 a b WITHSCORES
            ZINTER 3 a b s WITHSCORES
            ZINTER 3 a b s WEIGHTS 1 2 3 AGGREGATE MAX WITHSCORES
            ZINTER 2 a missing
            ZINTER 2 a a WITHSCORES
            ZINTER 1 a
            ZINTERCARD 2 a b
            ZINTERCARD 2 a b LIMIT 1
            ZINTERCARD 2 a b LIMIT 0
            ZINTERCARD 2 a b LIMIT -1
            ZINTERCARD 2 a b LIMIT x
            ZINTERCARD 2 a b LIMIT
            ZINTERCARD 2 a b WITHSCORES
            ZINTERCARD 2 a missing
            ZINTERCARD 1 s
            ZDIFF 2 a b WITHSCORES
            ZDIFF 2 a s
            ZDIFF 3 a b s WITHSCORES
            ZDIFF 2 s a WITHSCORES
            ZDIFF 2 a a
            ZDIFF 2 missing a
            ZDIFF 1 a WITHSCORES
            ZDIFF 2 a b WEIGHTS 1 2
            ZDIFF 2 a b AGGREGATE SUM
            ZUNIONSTORE d 2 a b
            ZRANGE d 0 -1 WITHSCORES
            ZUNIONSTORE d 2 a b WITHSCORES
            ZINTERSTORE d 2 a b WEIGHTS 1 1 AGGREGATE MIN
            ZRANGE d 0 -1 WITHSCORES
            ZDIFFSTORE d 2 a b
            ZRANGE d 0 -1 WITHSCORES
            ZDIFFSTORE d 2 a a
            EXISTS d
            ZINTERSTORE a 2 a b
            ZRANGE a 0 -1 WITHSCORES
            SET d v
            ZINTERSTORE d 1 missing
            EXISTS d
            ZUNIONSTORE s 2 s b
            TYPE s
        """)

    def test_set_operations_are_refused(self):
        self.both("""
            ZADD a 1 x
            SET t v
            ZUNION 0 a
            ZUNION -1 a
            ZUNION abc a
            ZUNION 2 a
            ZUNION 9223372036854775807 a
            ZUNION 2 a t
            ZUNION 2 a t foo
            ZUNION 1 a foo
            ZUNION 1 a WEIGHTS
            ZUNION 1 a WEIGHTS x
            ZUNION 1 a WEIGHTS nan
            ZUNION 1 a WEIGHTS 1 2
            ZUNION 1 a AGGREGATE
            ZUNION 1 a AGGREGATE avg
            ZUNIONSTORE d 0 a
            ZUNIONSTORE d x a
            ZUNIONSTORE d 2 a t
            ZUNIONSTORE d 3 a t
            ZINTER 0 a
            ZDIFF 0 a
            ZDIFFSTORE d 0 a
            ZINTERCARD 0 a
            ZINTERSTORE d 0 a
            ZINTERSTORE d 1 t
            EXISTS d
        """)

    def test_the_order_of_sums_is_that_of_redis(self):
        """Floating point sums depend on the order: the smallest set is first."""
        self.both("""
            ZADD a 0.1 x 1 a1 1 a2
            ZADD b 0.2 x
            ZADD c 0.3 x 1 c1
            ZUNION 3 a b c WITHSCORES
            ZINTER 3 a b c WITHSCORES
            ZINTER 3 c b a WITHSCORES
            ZADD e 1e308 x 1 e1
            ZADD f 1e308 x
            ZADD g -1e308 x 1 g1 1 g2
            ZUNION 3 e f g WITHSCORES
            ZINTER 3 g f e WITHSCORES
        """)

    def test_pop(self):
        self.both("""
            ZADD z 1 a 2 b 2 c 3 d 4 e 5 f 6 g
            ZPOPMIN z
            ZPOPMAX z
            ZPOPMIN z 2
            ZPOPMAX z 0
            ZPOPMIN z -1
            ZPOPMIN z abc
            ZPOPMIN z 1 2
            ZPOPMIN z 9223372036854775808
            ZPOPMAX z 100
            EXISTS z
            ZPOPMIN z
            ZPOPMIN missing 5
            ZPOPMIN missing abc
            SET s v
            ZPOPMIN s
            ZPOPMIN s 0
            ZPOPMIN s abc
            ZADD z 1 a 2 b 3 c
            ZADD y 1 p 2 q
            ZMPOP 2 missing z MIN
            ZMPOP 2 missing z MAX COUNT 5
            EXISTS z
            ZMPOP 2 missing z MAX
            ZMPOP 3 missing y s MIN
            ZMPOP 2 s y MIN
            ZMPOP 0 y MIN
            ZMPOP -1 y MIN
            ZMPOP abc y MIN
            ZMPOP 1 y
            ZMPOP 2 y MIN
            ZMPOP 1 y foo
            ZMPOP 1 y MIN COUNT
            ZMPOP 1 y MIN COUNT 0
            ZMPOP 1 y MIN COUNT -1
            ZMPOP 1 y MIN COUNT x
            ZMPOP 1 y MIN COUNT 1 COUNT 1
            ZMPOP 1 y MIN foo
            ZMPOP 9223372036854775807 y MIN
            ZMPOP 1 y max count 1
        """)

    def test_random_members(self):
        self.both("""
            ZADD z 1 a 2 b 3 c
            ZRANDMEMBER missing
            ZRANDMEMBER missing 5
            ZRANDMEMBER missing -5 WITHSCORES
            ZRANDMEMBER z 0
            ZRANDMEMBER z 2
            ZRANDMEMBER z 10
            ZRANDMEMBER z -10
            ZRANDMEMBER z 10 WITHSCORES
            ZRANDMEMBER z -10 WITHSCORES
            ZRANDMEMBER z abc
            ZRANDMEMBER z 1 foo
            ZRANDMEMBER z 9223372036854775808
            ZRANDMEMBER z -9223372036854775808
            ZRANDMEMBER z 9223372036854775807
            ZRANDMEMBER z 4611686018427387904 WITHSCORES
            ZRANDMEMBER z -4611686018427387904 WITHSCORES
            ZRANDMEMBER z 1 WITHSCORES foo
            ZRANDMEMBER z x foo
        """)
        self.c.must("ZADD", "big", *[word for index in range(1000) for word in (index, "m%d" % index)])
        for key, members in (("z", {b"a": b"1", b"b": b"2", b"c": b"3"}), ("big", {b"m%d" % i: b"%d" % i for i in range(1000)})):
            seen = {self.c.must("ZRANDMEMBER", key) for _ in range(100)}
            self.assertTrue(seen <= set(members) and len(seen) >= min(3, len(members)))
            for count in (3, len(members) // 2, len(members) - 1):
                some = self.c.must("ZRANDMEMBER", key, count)
                self.assertEqual(len(set(some)), count)
                self.assertTrue(set(some) <= set(members))
            self.assertEqual(set(self.c.must("ZRANDMEMBER", key, 10000)), set(members))
            flat = self.c.must("ZRANDMEMBER", key, -50, "WITHSCORES")
            self.assertEqual(len(flat), 100)
            self.assertTrue(all(members[member] == score for member, score in zip(flat[::2], flat[1::2])))

    def test_encodings(self):
        self.both("""
            CONFIG SET zset-max-listpack-entries 4
            CONFIG SET zset-max-listpack-value 10
            ZADD z 1 a 2 b 3 c 4 d
            OBJECT ENCODING z
            ZADD z 5 a
            OBJECT ENCODING z
            ZADD z 5 e
            OBJECT ENCODING z
            ZREM z a b c
            OBJECT ENCODING z
            ZADD y 1 0123456789
            OBJECT ENCODING y
            ZADD y 1 01234567890
            OBJECT ENCODING y
            ZADD x 1 01234567890
            OBJECT ENCODING x
            ZINCRBY w 1 01234567890
            OBJECT ENCODING w
            ZADD v 1 a
            ZUNIONSTORE u 2 v z
            OBJECT ENCODING u
            ZUNIONSTORE u 2 v x
            OBJECT ENCODING u
            ZADD t 1 a 2 b 3 c 4 d 5 e
            OBJECT ENCODING t
            ZRANGESTORE u t 0 3
            OBJECT ENCODING u
            ZRANGESTORE u t 0 4
            OBJECT ENCODING u
            ZRANGESTORE u x 0 4
            OBJECT ENCODING u
            COPY z copy
            OBJECT ENCODING copy
            ZRANGE copy 0 -1 WITHSCORES
            CONFIG SET zset-max-listpack-entries 128
            CONFIG SET zset-max-listpack-value 64
            ZADD z 7 z
            OBJECT ENCODING z
            ZADD r 1 a 2 b 3 c 4 d 5 e
            CONFIG SET zset-max-listpack-entries 4
            ZADD r 2 a
            OBJECT ENCODING r
            ZREM r e
            ZADD r 2 f
            OBJECT ENCODING r
            ZRANGE r 0 -1 WITHSCORES
            CONFIG SET zset-max-listpack-entries 128
        """)

    @kelvin_only
    def test_more_pairs_than_the_limit_convert_the_listpack(self):
        """As in 7.2: the number of given pairs decides, regardless of the result."""
        self.c.must("CONFIG", "SET", "zset-max-listpack-entries", 4)
        self.c.must("ZADD", "new", *["1", "a"] * 5)
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "new"), b"skiplist")
        self.c.must("ZADD", "old", "1", "a")
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "old"), b"listpack")
        self.assertEqual(self.c.must("ZADD", "old", "XX", *["1", "b"] * 5), 0)
        self.assertEqual(self.c.must("OBJECT", "ENCODING", "old"), b"skiplist")
        self.assertEqual(self.c.must("ZRANGE", "old", 0, -1), [b"a"])
        self.c.must("CONFIG", "SET", "zset-max-listpack-entries", 128)

    def test_big_sets(self):
        chooser = random.Random(7)
        scores = [chooser.choice((index, index % 10, chooser.random())) for index in range(5000)]
        self.both([["ZADD", "z"] + [word for index in range(start, start + 100)
                                    for word in (repr(scores[index]), "m%d" % index + "x" * (index % 90))]
                   for start in range(0, 5000, 100)])
        self.both([["ZCARD", "z"], ["ZRANGE", "z", 0, -1, "WITHSCORES"], ["ZREVRANGE", "z", 0, -1], ["OBJECT", "ENCODING", "z"]])
        self.both([["ZRANK", "z", "m%d" % index + "x" * (index % 90)] for index in range(0, 5000, 17)])
        self.both([["ZRANGE", "z", index, index + 3] for index in range(0, 5000, 97)])
        self.both([["ZCOUNT", "z", low, "(%d" % (low + 40)] for low in range(-3, 5000, 97)])
        self.both([["ZINCRBY", "z", "1.5", "m%d" % index + "x" * (index % 90)] for index in range(0, 5000, 13)])
        self.both([["ZREM", "z"] + ["m%d" % index + "x" * (index % 90) for index in range(0, 5000, 3)], ["ZCARD", "z"],
                   ["ZREMRANGEBYRANK", "z", 100, 600], ["ZREMRANGEBYSCORE", "z", 1, 3], ["ZRANGE", "z", 0, -1, "WITHSCORES"],
                   ["ZPOPMIN", "z", 300], ["ZPOPMAX", "z", 300], ["ZRANGE", "z", 0, -1, "WITHSCORES"]])

    def test_big_sets_in_order_of_members(self):
        self.both([["ZADD", "z"] + [word for index in range(start, start + 100) for word in (0, "%05d" % (index * 2))]
                   for start in range(0, 4000, 100)])
        self.both([[name, "z", low, high] for name in ("ZLEXCOUNT", "ZRANGEBYLEX")
                   for low, high in (("-", "+"), ("[00010", "[00020"), ("(00010", "(00020"), ("[00011", "[00019"), ("[07998", "+"),
                                     ("(07998", "+"), ("-", "(00000"), ("[01000", "[00999"), ("(04000", "[04998"))])
        self.both([["ZREVRANGEBYLEX", "z", "[04000", "(03000", "LIMIT", 100, 20], ["ZREMRANGEBYLEX", "z", "(01000", "[03000"],
                   ["ZRANGE", "z", 0, -1]])

    def test_members_of_all_sizes(self):
        sizes = (0, 1, 63, 64, 65, 254, 255, 256, 257, 1000, 4096, 70000)
        self.both([["ZADD", "z", index % 3, "x" * size] for index, size in enumerate(sizes)])
        self.both([["ZRANGE", "z", 0, -1, "WITHSCORES"], ["COPY", "z", "y"], ["DEL", "z"], ["ZRANGE", "y", 0, -1, "WITHSCORES"]])
        self.both([["ZINCRBY", "y", 1, "x" * size] for size in sizes])
        self.both([["ZREM", "y", "x" * size] for size in sizes[::2]] + [["ZRANGE", "y", 0, -1, "WITHSCORES"]])

    def test_a_scan_of_a_big_set_finds_every_member_while_it_changes(self):
        for size in (10, 600, 3000):
            self.c.must("DEL", "z")
            self.c.must("ZADD", "z", *[word for index in range(size) for word in (index, "m%d" % index)])
            cursor, found, rounds = b"0", {}, 0
            while True:
                cursor, flat = self.c.must("ZSCAN", "z", cursor, "COUNT", 20)
                found.update(zip(flat[::2], flat[1::2]))
                rounds += 1
                self.c.must("ZADD", "z", 1, "new%d" % rounds)
                self.c.must("ZREM", "z", "new%d" % (rounds - 3))
                if self.server.kelvin:      # the order is the same after demotion and load
                    self.c.must("TIER", "DEMOTE", "z")
                if cursor == b"0":
                    break
            for index in range(size):
                self.assertEqual(float(found[b"m%d" % index]), index)

    def test_scan_options(self):
        self.both("""
            ZADD z 1 a 2.5 b 3 aa
            ZSCAN z 0
            ZSCAN z 0 MATCH a*
            ZSCAN z 0 COUNT 1 MATCH b
            ZSCAN missing 0
            ZSCAN z abc
            ZSCAN z 0 COUNT 0
            ZSCAN z 0 COUNT abc
            ZSCAN z 0 MATCH
            ZSCAN z 0 foo bar
            ZSCAN z 0 TYPE zset
            SET s v
            ZSCAN s 0
            ZSCAN s x
        """)

    def test_every_command_refuses_a_string(self):
        replies = self.both("""
            SET s v
            ZADD s 1 a
            ZCARD s
            ZCOUNT s 1 2
            ZDIFF 1 s
            ZDIFFSTORE d 1 s
            ZINCRBY s 1 a
            ZINTER 1 s
            ZINTERCARD 1 s
            ZINTERSTORE d 1 s
            ZLEXCOUNT s - +
            ZMPOP 1 s MIN
            ZMSCORE s a
            ZPOPMAX s
            ZPOPMIN s
            ZRANDMEMBER s
            ZRANDMEMBER s 1
            ZRANGE s 0 -1
            ZRANGEBYLEX s - +
            ZRANGEBYSCORE s 1 2
            ZRANGESTORE d s 0 -1
            ZRANK s a
            ZREM s a
            ZREMRANGEBYLEX s - +
            ZREMRANGEBYRANK s 0 -1
            ZREMRANGEBYSCORE s 1 2
            ZREVRANGE s 0 -1
            ZREVRANGEBYLEX s + -
            ZREVRANGEBYSCORE s 2 1
            ZREVRANK s a
            ZSCAN s 0
            ZSCORE s a
            ZUNION 1 s
            ZUNIONSTORE d 1 s
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies[1:]))

    def test_resp3_replies(self):
        clients = self.clients(protocol=3)
        replies = self.both("""
            ZADD z 1 a 2.5 b inf c -inf d
            ZSCORE z b
            ZSCORE z c
            ZSCORE z x
            ZMSCORE z a x d
            ZADD z INCR 1.5 a
            ZADD z NX INCR 1.5 a
            ZINCRBY z 1 a
            ZRANGE z 0 -1
            ZRANGE z 0 -1 WITHSCORES
            ZRANGE missing 0 -1 WITHSCORES
            ZREVRANGE z 0 1 WITHSCORES
            ZRANGEBYSCORE z -inf 3 WITHSCORES
            ZUNION 1 z WITHSCORES
            ZINTER 2 z z WITHSCORES
            ZDIFF 1 z WITHSCORES
            ZDIFF 1 z
            ZRANDMEMBER z -3 WITHSCORES
            ZRANDMEMBER z 2 WITHSCORES
            ZRANDMEMBER z
            ZRANDMEMBER missing
            ZRANK z a
            ZRANK z x
            ZSCAN z 0
            ZPOPMIN z
            ZPOPMIN z 1
            ZPOPMAX z 2
            ZPOPMAX z 0
            ZPOPMAX z
            ZPOPMAX z 1
            ZADD z 1 a 2 b
            ZMPOP 1 z MIN
            ZMPOP 1 z MAX COUNT 3
            ZMPOP 1 z MAX
        """, clients)
        self.assertIsInstance(replies[1], Double)

    def test_changes_are_counted_as_in_redis(self):
        def counted(client, words):
            before = client.must("INFO", "persistence")
            client.call(*words)
            after = client.must("INFO", "persistence")
            return [int(text.split(b"rdb_changes_since_last_save:")[1].split()[0]) for text in (before, after)]
        for line in ("ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g", "ZADD z 1 a 9 b", "ZADD z XX 5 q", "ZADD z NX INCR 1 a", "ZINCRBY z 1 a",
                     "ZPOPMIN z", "ZPOPMIN z 2", "ZPOPMAX z 100", "ZPOPMIN z", "ZADD z 1 a 2 b 3 c", "ZMPOP 2 y z MIN COUNT 2",
                     "ZMPOP 1 z MAX COUNT 9", "ZADD z 1 a 2 b 3 c", "ZREM z a x", "ZREMRANGEBYRANK z 0 -1", "ZADD z 1 a 2 b",
                     "ZREMRANGEBYSCORE z 1 1", "ZUNIONSTORE y 1 z", "ZUNIONSTORE y 1 nosuch", "ZUNIONSTORE y 1 nosuch",
                     "ZRANGESTORE y z 0 -1", "ZRANGESTORE y z 5 6", "ZDIFFSTORE y 1 z", "ZREMRANGEBYLEX z - +"):
            (before, after), (their_before, their_after) = counted(self.c, line.split()), counted(self.r, line.split())
            self.assertEqual(after - before, their_after - their_before, line)

    def test_ttl_is_kept_by_changes(self):
        self.both("""
            ZADD z 1 a 2 b
            EXPIRE z 100
            ZADD z 2 a
            ZINCRBY z 1 a
            ZREM z b
            ZADD z 5 c 6 d
            ZPOPMIN z
            TTL z
            ZUNIONSTORE z 1 z
            TTL z
        """)


class ZsetInterchangeTest(PairCase):
    def fill(self, client, seed):
        chooser = random.Random(seed)
        client.must("CONFIG", "SET", "zset-max-listpack-entries", 20)
        for key, size in (("few", 10), ("many", 300), ("lots", 5000)):
            for start in range(0, size, 500):
                client.must("ZADD", key, *[word for index in range(start, min(size, start + 500)) for word in (
                    repr(chooser.choice((index, chooser.uniform(-1e9, 1e9), chooser.random(), float("inf"), -1e300, -0.0))),
                    chooser.choice((b"m%d" % index, b"%d" % index, b"%d" % (index << 40), bytes([index % 256]) * (index % 100 + 1) +
                                    b"%d" % index)))])

    def check(self, source, target):
        for key in ("few", "many", "lots"):
            dump = source.must("DUMP", key)
            target.must("RESTORE", key, 0, dump)
            for client in (source, target):
                client.must("CONFIG", "SET", "zset-max-listpack-entries", 20)
            want, got = (client.must("ZRANGE", key, 0, -1, "WITHSCORES") for client in (source, target))
            self.assertEqual(got[::2], want[::2])
            self.assertEqual([float(score) for score in got[1::2]], [float(score) for score in want[1::2]])
            self.assertEqual(target.must("OBJECT", "ENCODING", key), source.must("OBJECT", "ENCODING", key))

    def test_kelvin_restores_dumps_of_redis(self):
        seed = seed_new()
        self.fill(self.r, seed)
        self.c.must("CONFIG", "SET", "zset-max-listpack-entries", 20)
        self.check(self.r, self.c)

    def test_redis_restores_dumps_of_kelvin(self):
        seed = seed_new()
        self.fill(self.c, seed)
        self.r.must("CONFIG", "SET", "zset-max-listpack-entries", 20)
        self.check(self.c, self.r)


class ZsetLogTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def test_a_replay_gives_the_same_data(self):
        self.both("""
            ZADD z 1 a 2.5 b 3 c 4 d 5 e
            ZADD z GT CH 0 a 9 b
            ZADD z INCR 0.1 c
            ZINCRBY z 0.2 c
            ZADD z INCR nan d
            ZREM z d
            ZADD y 1 p 2 q 3 r
            ZMPOP 2 missing y MAX COUNT 2
            ZPOPMIN z
            ZUNIONSTORE u 2 z y WEIGHTS 0.1 3
            ZRANGESTORE v u 0 1 REV
            ZADD gone 1 a
            ZMPOP 1 gone MIN COUNT 9
            ZADD g2 1 a
            ZREMRANGEBYSCORE g2 0 5
            SET over v
            ZINTERSTORE over 2 z missing
        """)
        looks = [["DBSIZE"]] + [["ZRANGE", key, 0, -1, "WITHSCORES"] for key in ("z", "y", "u", "v")]
        before = self.both(looks)
        for server in (self.server, self.oracle):
            server.restart(kill=True)
        self.assertEqual(self.both(looks, self.clients()), before)


class ZsetTierTest(ServerCase):
    options = {"appendonly": "yes", "appendfsync": "always", "zset-max-listpack-entries": "50"}

    @kelvin_only
    def test_values_survive_demotion_kills_and_checkpoints(self):
        """The digest includes members and scores; the encodings must also be the same."""
        chooser = random.Random(seed_new())
        for number in range(40):
            size = chooser.choice((1, 5, 50, 51, 300, 3000))
            self.c.must("ZADD", "z%d" % number, *[word for index in range(size) for word in (
                repr(chooser.choice((index, chooser.uniform(-1e9, 1e9), float("-inf"), -0.0, 5e-324))),
                b"m%d" % index + bytes(chooser.choice((0, 0, 0, 5, 300))))])
        # Smaller than the limit, but still a tree.
        self.c.must("ZADD", "small", *[word for index in range(60) for word in (index, index)])
        self.c.must("ZREMRANGEBYRANK", "small", 2, -1)
        keys = sorted(self.c.must("KEYS", "*"))

        def state():
            return self.c.must("DEBUG", "DIGEST"), [self.c.must("OBJECT", "ENCODING", key) for key in keys]
        before = state()
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), len(keys))
        self.assertEqual(state(), before)
        self.server.restart(kill=True)
        self.c = self.client()
        self.assertEqual(state(), before)
        self.c.must("BGREWRITEAOF")
        while self.server.info("persistence")["aof_rewrite_in_progress"] != "0":
            time.sleep(0.01)
        self.c.must("ZADD", "after", 1, "a")
        before = state()
        self.server.restart(kill=True)
        self.c = self.client()
        self.assertEqual(state(), before)
        for key in keys:
            count = self.c.must("ZCARD", key)
            members = self.c.must("ZRANGE", key, 0, -1)
            self.assertEqual(len(set(members)), count)
            for rank in {0, count // 2, count - 1}:
                self.assertEqual(self.c.must("ZRANK", key, members[rank]), rank)


if __name__ == "__main__":
    main()
