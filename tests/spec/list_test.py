"""Lists, compared with redis-server. Encodings follow the rules of Redis 7.2; the oracle is older."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import REDIS, Server, seed_new                                                  # noqa: E402


class ListTest(PairCase):
    def test_push_and_pop(self):
        self.both("""
            RPUSH l a b "" 12 007
            LPUSH l x y
            LRANGE l 0 -1
            LLEN l
            LLEN missing
            LPOP l
            RPOP l
            LPOP l 2
            RPOP l 100
            EXISTS l
            LPOP l
            LPOP l 1
            LPOP l 0
            RPUSH l a
            LPOP l 0
            LPUSHX l b c
            RPUSHX l d
            LPUSHX missing a
            RPUSHX missing a b
            EXISTS missing
            LRANGE l 0 -1
            RPUSH n 1 -1 9223372036854775807 -9223372036854775808 9223372036854775808 -0 +1 " 1" "\\x00\\xff\\r\\n"
            LRANGE n 0 -1
            RPOP n 20
        """)

    def test_arity(self):
        replies = self.both("""
            LPUSH l
            RPUSH
            LPUSHX l
            LPOP
            LPOP l 1 2
            RPOP l 1 2
            LLEN
            LLEN l m
            LINDEX l
            LINSERT l before a
            LSET l 0
            LREM l 0
            LTRIM l 0
            LRANGE l 0
            LPOS l
            LMOVE a b left
            LMPOP 1 l
            RPOPLPUSH a
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies))

    def test_index_set_and_insert(self):
        self.both("""
            RPUSH l a b c d b
            LINDEX l 0
            LINDEX l 4
            LINDEX l 5
            LINDEX l -1
            LINDEX l -5
            LINDEX l -6
            LINDEX missing 0
            LINDEX missing x
            LINDEX l x
            LSET l 0 A
            LSET l -1 1234
            LSET l 5 x
            LSET l -6 x
            LSET l x y
            LSET missing 0 x
            LSET missing x x
            LINSERT l BEFORE b new
            LINSERT l after 1234 last
            LINSERT l before A first
            LINSERT l before nosuch x
            LINSERT missing before a x
            LINSERT l foo a x
            LRANGE l 0 -1
            EXPIRE l 100
            LSET l 0 z
            TTL l
        """)

    def test_range_trim_and_remove(self):
        self.both("""
            RPUSH l a b c a b c a
            LRANGE l 1 2
            LRANGE l -2 100
            LRANGE l -100 1
            LRANGE l 3 1
            LRANGE l 7 9
            LRANGE l x 1
            LRANGE missing 0 -1
            LRANGE missing x 1
            LREM l 1 a
            LREM l -1 a
            LREM l 0 nosuch
            LREM l 0 b
            LREM l x b
            LREM missing 0 b
            LRANGE l 0 -1
            LTRIM l 1 -1
            LRANGE l 0 -1
            LTRIM l x 1
            LTRIM missing 0 1
            LTRIM l 5 9
            EXISTS l
            RPUSH l 1 2 3
            LTRIM l 2 1
            EXISTS l
            RPUSH l x x x
            LREM l -2 x
            LREM l 5 x
            EXISTS l
            RPUSH l 5 5 5 05
            LREM l 0 5
            LRANGE l 0 -1
            LTRIM l 0 -1
            LREM l -9223372036854775808 05
        """)

    def test_positions(self):
        self.both("""
            RPUSH l a b c 1 2 3 c c
            LPOS l c
            LPOS l c RANK 2
            LPOS l c RANK -1
            LPOS l c RANK 9
            LPOS l c COUNT 2
            LPOS l c COUNT 0
            LPOS l c COUNT 0 RANK -1
            LPOS l c COUNT 1 RANK -2
            LPOS l c MAXLEN 2
            LPOS l c MAXLEN 3
            LPOS l c COUNT 0 MAXLEN 7
            LPOS l c RANK -1 MAXLEN 1
            LPOS l 2
            LPOS l 02
            LPOS l nosuch
            LPOS l nosuch COUNT 0
            LPOS missing a
            LPOS missing a COUNT 0
            LPOS l c RANK 0
            LPOS l c RANK x
            LPOS l c COUNT -1
            LPOS l c MAXLEN -1
            LPOS l c FOO 1
            LPOS l c RANK
            LPOS l c rank 1 rank 2
        """)

    def test_moves(self):
        self.both("""
            RPUSH a 1 2 3
            RPOPLPUSH a b
            LMOVE a b LEFT RIGHT
            LRANGE a 0 -1
            LRANGE b 0 -1
            LMOVE b b left right
            LMOVE b b right left
            LMOVE b b left left
            LRANGE b 0 -1
            RPOPLPUSH b b
            LMOVE a b RIGHT LEFT
            EXISTS a
            RPOPLPUSH missing b
            LMOVE missing str LEFT LEFT
            SET str v
            LMOVE missing str LEFT LEFT
            LMOVE b str LEFT LEFT
            LMOVE str b LEFT LEFT
            LMOVE a b foo LEFT
            LMOVE a b LEFT foo
            LRANGE b 0 -1
            RPUSH one x
            EXPIRE one 100
            RPOPLPUSH one one
            TTL one
            LMOVE one other LEFT LEFT
            TTL other
        """)

    def test_pops_of_several_keys(self):
        self.both("""
            RPUSH a 1 2 3
            RPUSH b 4
            LMPOP 1 a LEFT
            LMPOP 3 missing b a RIGHT COUNT 5
            LMPOP 2 b a RIGHT COUNT 5
            EXISTS a
            LMPOP 2 b a LEFT
            SET str v
            LMPOP 2 str a LEFT
            LMPOP 2 a str LEFT
            LMPOP 0 a LEFT
            LMPOP x a LEFT
            LMPOP -1 a LEFT
            LMPOP 2 a LEFT
            LMPOP 9223372036854775807 a LEFT
            LMPOP 1 a FOO
            LMPOP 1 a LEFT COUNT
            LMPOP 1 a LEFT COUNT 0
            LMPOP 1 a LEFT COUNT x
            LMPOP 1 a LEFT COUNT 1 COUNT 1
            LMPOP 1 a LEFT FOO 1
        """)

    def test_null_in_resp3(self):
        self.both("""
            LPOP missing
            LPOP missing 1
            LINDEX missing 0
            LPOS missing a
            LMPOP 1 missing LEFT
            RPOPLPUSH missing b
        """, self.clients(protocol=3))

    def test_every_command_refuses_a_string(self):
        replies = self.both("""
            SET s v
            LPUSH s a
            RPUSH s a
            LPUSHX s a
            RPUSHX s a
            LPOP s
            RPOP s 0
            LLEN s
            LINDEX s 0
            LINDEX s x
            LSET s 0 a
            LINSERT s before a b
            LRANGE s 0 -1
            LTRIM s 0 -1
            LREM s 0 a
            LPOS s a
            LMOVE s t left left
            LMPOP 1 s LEFT
            RPOPLPUSH s t
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies[1:]))

    def test_long_lists(self):
        seed = seed_new()
        rand = random.Random(seed)
        script = [["RPUSH", "l"] + ["element %d" % i for i in range(base, base + 500)] for base in range(0, 5000, 500)]
        for _ in range(150):
            at = rand.randrange(-5200, 5200)
            script += [["LINDEX", "l", at], ["LSET", "l", at, rand.choice(["x", "y" * 3000, 12])],
                       ["LINSERT", "l", rand.choice(["BEFORE", "AFTER"]), "element %d" % rand.randrange(5000), "new %d" % at],
                       ["LREM", "l", rand.randrange(-2, 3), rand.choice(["x", 12, "element %d" % rand.randrange(5000)])],
                       ["LRANGE", "l", at, at + rand.randrange(60)], ["LPOS", "l", "element %d" % rand.randrange(5000), "RANK", -1]]
        script += [["LRANGE", "l", 0, -1], ["LTRIM", "l", 700, -800], ["LRANGE", "l", 0, -1], ["LPOP", "l", 1234], ["RPOP", "l", 1234],
                   ["LLEN", "l"], ["LRANGE", "l", 0, -1], ["LPUSH", "big", "z" * 100000, "a", "z" * 70000], ["LINDEX", "big", 2],
                   ["LREM", "big", 0, "z" * 100000], ["LRANGE", "big", 0, -1]]
        self.both(script)


@kelvin_only
class EncodingTest(ServerCase):
    """OBJECT ENCODING as in Redis 7.2."""

    def encoding(self, key):
        return self.c.must("OBJECT", "ENCODING", key).decode()

    def test_a_list_is_a_listpack_until_it_is_large(self):
        self.c.must("RPUSH", "l", "x" * 4000, "x" * 4000)
        self.assertEqual(self.encoding("l"), "listpack")
        self.c.must("RPUSH", "l", "x" * 200)
        self.assertEqual(self.encoding("l"), "quicklist")
        self.c.must("RPOP", "l")
        self.assertEqual(self.encoding("l"), "quicklist")
        self.c.must("RPOP", "l")
        self.assertEqual(self.encoding("l"), "listpack")

    def test_the_encoding_changes_for_an_element_that_is_not_added(self):
        self.c.must("RPUSH", "l", "a")
        self.c.must("LINSERT", "l", "BEFORE", "nosuch", "x" * 9000)
        self.assertEqual(self.encoding("l"), "quicklist")
        self.assertIsInstance(self.c.call("LSET", "l", 5, "x"), Error)
        self.assertEqual(self.encoding("l"), "quicklist")
        self.c.must("LSET", "l", 0, "b")
        self.assertEqual(self.encoding("l"), "listpack")

    def test_limits_by_count(self):
        self.c.must("CONFIG", "SET", "list-max-listpack-size", 4)
        self.addCleanup(self.c.must, "CONFIG", "SET", "list-max-listpack-size", -2)
        self.c.must("RPUSH", "l", *range(4))
        self.assertEqual(self.encoding("l"), "listpack")
        self.c.must("RPUSH", "l", 5)
        self.assertEqual(self.encoding("l"), "quicklist")
        self.c.must("LTRIM", "l", 0, 1)
        self.assertEqual(self.encoding("l"), "quicklist" if self.c.must("LLEN", "l") > 2 else "listpack")

    def test_moving_between_tiers_is_invisible(self):
        self.c.must("RPUSH", "small", "a", 12)
        self.c.must("RPUSH", "large", *["element %d" % i for i in range(3000)])
        self.c.must("RPUSH", "one", "a")
        self.c.must("LINSERT", "one", "BEFORE", "nosuch", "x" * 9000)
        before = [(self.encoding(key), self.c.must("DEBUG", "DIGEST-VALUE", key)) for key in ("small", "large", "one")]
        self.assertEqual(self.c.must("TIER", "DEMOTE", "small", "large", "one"), 3)
        self.assertEqual([(self.encoding(key), self.c.must("DEBUG", "DIGEST-VALUE", key)) for key in ("small", "large", "one")], before)

    def test_dumps_are_exchanged_with_redis(self):
        lists = {"small": ["a", 12, "", b"\x00\xff"], "large": ["element %d" % i for i in range(3000)],
                 "plain": ["a", "z" * 100000, "b"], "same": ["abc" * 30] * 2000}
        for depth in (0, 1):
            with Server({"list-compress-depth": str(depth)}, binary=REDIS) as redis, redis.client() as theirs:
                self.c.must("CONFIG", "SET", "list-compress-depth", depth)
                for name, elements in lists.items():
                    for one, other in ((self.c, theirs), (theirs, self.c)):
                        one.must("DEL", name)
                        one.must("RPUSH", name, *elements)
                        other.must("RESTORE", name, 0, one.must("DUMP", name), "REPLACE")
                        self.assertEqual(one.must("LRANGE", name, 0, -1), other.must("LRANGE", name, 0, -1))
        self.c.must("CONFIG", "SET", "list-compress-depth", 0)

    def test_lists_survive_a_kill(self):
        with Server({"appendonly": "yes", "appendfsync": "always", "list-compress-depth": "1"}) as server:
            with server.client() as client:
                client.must("RPUSH", "l", *["element %d" % i for i in range(2000)])
                client.must("LPOP", "l", 3)
                client.must("LMPOP", 2, "none", "l", "RIGHT", "COUNT", 2)
                client.must("TIER", "DEMOTE", "l")
                client.must("LSET", "l", 1000, "x")
                client.must("LINSERT", "l", "BEFORE", "x", "y")
                client.must("LMOVE", "l", "m", "LEFT", "RIGHT")
                client.must("LREM", "l", 1, "element 77")
                client.must("LTRIM", "l", 0, -5)
                before = [client.must("LRANGE", key, 0, -1) for key in "lm"]
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual([client.must("LRANGE", key, 0, -1) for key in "lm"], before)


if __name__ == "__main__":
    main()
