"""SORT and SORT_RO, compared with redis-server."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, scaled, seed_new                                                 # noqa: E402


class SortTest(PairCase):
    def test_sets_and_sorted_sets_by_number_and_by_text(self):
        self.both("""
            SADD s 3 10 -1 2.5 1e2 0x10 -0
            SORT s
            SORT s DESC
            SORT s ASC
            SORT s ALPHA
            SORT s DESC ALPHA
            SORT s LIMIT 0 3
            SORT s LIMIT 2 3 DESC
            SORT s LIMIT -5 3
            SORT s LIMIT 2 -1
            SORT s LIMIT 100 3
            SORT s LIMIT 0 0
            SORT s LIMIT 5 100
            SORT s LIMIT 9223372036854775807 9223372036854775807
            SORT s LIMIT 1 9223372036854775807
            SORT_RO s
            SORT_RO s DESC LIMIT 0 2
            ZADD z 3 a 1 b 2 c 0 dd
            SORT z ALPHA
            SORT z ALPHA DESC
            SORT z
            SORT z BY nosort
            SORT z BY nosort DESC
            SORT z BY nosort LIMIT 1 2
            SORT z BY nosort DESC LIMIT 1 2
            SORT z BY nosort LIMIT 3 9
            SORT z BY nosort LIMIT 9 9
            ZADD n 3 30 1 10 2 200
            SORT n
            SORT n BY nosort GET #
            SORT missing
            SORT missing ALPHA DESC
            SORT_RO missing
            SADD i 5 3 1 4
            SORT i
            SORT i DESC LIMIT 1 2
            SORT i BY nosort
            SORT i BY nosort LIMIT 1 2
        """)

    def test_numbers_and_other_texts(self):
        for text in ("", " 1", "1 ", "inf", "-inf", "nan", "0x1p4", "1.5.5", "abc", "+7", "1e", "\\x001", "1\\x00abc",
                     "9223372036854775808", "infinity", "--1"):
            self.both('DEL s\nSADD s "%s" 2\nSORT s\nSORT s ALPHA' % text)
        # Too large and too small. (After this, Redis refuses the next sorts, too, until a system call resets errno.)
        for text in ("1e400", "-1e400", "1e-400", "5e-324"):
            reply = self.both('DEL s\nSADD s "%s" 2\nSORT s' % text)[-1]
            self.assertEqual(reply, Error(b"ERR One or more scores can't be converted into double"))

    def test_by_other_keys(self):
        self.both("""
            SADD s 1 2 3 4
            MSET w_1 30 w_2 20 w_3 10
            SORT s BY w_*
            SORT s BY w_* DESC
            SORT s BY w_* ALPHA
            SORT s BY w_* ALPHA DESC
            SORT s BY w_* LIMIT 1 2
            SORT s BY w_* GET #
            SORT s BY w_* GET w_* GET #
            SORT s BY w_* GET w_* GET missing_* GET # GET nostar
            SORT s GET w_*
            SORT s GET nostar
            SORT s GET #
            SORT s GET ""
            SORT_RO s BY w_* GET w_*
            HSET h_1 a 5 b x
            HSET h_2 a 4 b y
            HSET h_3 a 6
            SORT s BY h_*->a
            SORT s BY h_*->a GET h_*->b
            SORT s BY h_*->a GET h_*
            SORT s BY h_*->a GET h_*->
            SORT s BY h_*->a GET w_*->a
            SORT s BY h_*->missing
            SORT s BY h_*->b ALPHA
            SORT s BY h_*->b
            SET w_4 abc
            SORT s BY w_*
            SORT s BY w_* ALPHA
            SORT s BY *
            SORT s BY *_w
            SET 1_w 5
            SET 3_w 4
            SORT s BY *_w
            SORT s BY *_w GET *_w
            SORT s BY nosort GET w_* LIMIT 0 0
            SORT s BY w_* BY *_w
            SORT s BY nosort BY w_* LIMIT 0 1
            SADD -> 1
            SORT s GET ->*
            SORT s GET *->
            SORT s GET **
            SORT s BY h_*->a->b
            SET i_1 12
            SORT s GET i_*
        """)

    def test_errors(self):
        self.both("""
            SADD s 1 2
            SORT s LIMIT
            SORT s LIMIT 1
            SORT s LIMIT a 1
            SORT s LIMIT 1 b
            SORT s BY
            SORT s GET
            SORT s STORE
            SORT s FOO
            SORT s ASC FOO
            SORT_RO s STORE d
            SORT_RO s GET # STORE d
            SET str x
            SORT str
            SORT str FOO
            SORT_RO str
            HSET h f v
            SORT h
            SORT
            SORT_RO
            SADD t a b
            SORT t
            SORT t DESC LIMIT 0 0
            SORT t BY w_*
        """)

    def test_lists(self):
        self.both("""
            RPUSH l 3 1 2 10 1
            SORT l
            SORT l DESC
            SORT l ALPHA
            SORT l LIMIT 1 2
            SORT l BY nosort
            SORT l BY nosort DESC
            SORT l BY nosort LIMIT 1 2
            SORT l BY nosort DESC LIMIT 1 2
            SORT l BY nosort LIMIT 4 9
            SORT l BY nosort LIMIT 9 9
            MSET w_1 9 w_2 8 w_3 7
            SORT l BY w_*
            SORT l BY w_* GET # GET w_*
            SORT l BY nosort GET # GET w_*
            RPUSH words b a c
            SORT words
            SORT words ALPHA DESC
            SORT words BY nosort
            RPUSH copy "a\\x00b" "" "\\xff"
            SORT copy ALPHA
        """)
        self.both([["RPUSH", "long"] + [i * 7919 % 3000 for i in range(3000)], ["SORT", "long"], ["SORT", "long", "DESC", "LIMIT", 100, 50],
                   ["SORT", "long", "ALPHA", "LIMIT", 2990, 50], ["SORT", "long", "BY", "nosort", "LIMIT", 2500, 20]])

    def test_results_are_stored(self):
        self.both("""
            SADD s 3 1 2
            MSET w_1 9 w_2 8
            SORT s STORE d
            LRANGE d 0 -1
            TYPE d
            SORT s DESC LIMIT 0 2 STORE d
            LRANGE d 0 -1
            SORT s BY w_* GET # GET w_* GET nostar STORE d
            LRANGE d 0 -1
            SORT s BY nosort STORE d
            LRANGE d 0 -1
            SADD t b c a
            SORT t BY nosort DESC STORE d
            LRANGE d 0 -1
            SORT t STORE d
            LRANGE d 0 -1
            SORT t ALPHA STORE d STORE e
            LRANGE e 0 -1
            SORT t ALPHA DESC STORE t
            LRANGE t 0 -1
            SORT t BY nosort DESC LIMIT 0 2 STORE t
            LRANGE t 0 -1
            SET str x
            EXPIRE str 100
            SORT t ALPHA STORE str
            TTL str
            LRANGE str 0 -1
            ZADD z 1 x 2 y
            SORT z BY nosort DESC STORE d
            LRANGE d 0 -1
            OBJECT ENCODING d
            RPUSH l 5 4 4
            SORT l STORE w_1
            SORT s BY w_*
            SORT_RO s STORE d
        """)

    def test_an_empty_result_removes_its_destination(self):
        self.both("""
            SET d x
            SORT missing STORE d
            EXISTS d
            SORT missing STORE d
            SADD s 1 2
            SET d x
            SORT s LIMIT 5 5 STORE d
            EXISTS d
            SET d x
            SORT missing STORE other STORE d
            EXISTS d
        """)

    def test_many_elements_and_ranges(self):
        seed = seed_new()
        chooser = random.Random(seed)
        for _ in range(scaled(20)):
            members = list({chooser.randrange(-5000, 5000) for _ in range(chooser.choice((3, 50, 700)))})
            self.both([["FLUSHALL"], ["SADD", "s"] + members, ["MSET"] + [word for member in members for word in (
                "w_%d" % member, chooser.randrange(20))]])
            for _ in range(10):
                words = ["LIMIT", chooser.randrange(-2, len(members) + 3), chooser.randrange(-1, len(members) + 3)] \
                    if chooser.random() < 0.8 else []
                words += chooser.choice(([], ["DESC"], ["ALPHA"], ["ALPHA", "DESC"]))
                # The order of equal texts is that of Redis' algorithm.
                by = ["BY", "w_*"] if chooser.random() < 0.5 and "ALPHA" not in words else []
                get = ["GET", "#", "GET", "w_*"] if chooser.random() < 0.3 else []
                self.both([["SORT", "s"] + by + words + get])

    def test_resp3_replies(self):
        self.both("""
            SADD s 1 2
            SET w_1 a
            SORT s
            SORT s GET w_* GET #
            SORT_RO missing
        """, self.clients(protocol=3))


class SortLogTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def test_a_replay_gives_the_same_data(self):
        """Including equal weights, where the order depends on the server."""
        self.c.must("SADD", "s", *["m%d" % index for index in range(1000)])
        self.c.must("MSET", *[word for index in range(0, 1000, 2) for word in ("w_m%d" % index, index % 7)])
        self.c.must("SREM", "s", *["m%d" % index for index in range(300, 1000)])
        self.c.must("SORT", "s", "BY", "w_*", "STORE", "by-number")
        self.c.must("SORT", "s", "BY", "w_*", "ALPHA", "DESC", "GET", "#", "GET", "w_*", "STORE", "by-text")
        self.c.must("SORT", "s", "BY", "nosort", "STORE", "unsorted")
        self.c.must("MSET", *[word for index in range(1000) for word in ("w_m%d" % index, index)])
        before = [self.c.must("LRANGE", key, 0, -1) for key in ("by-number", "by-text", "unsorted")]
        self.assertEqual([len(each) for each in before], [300, 600, 300])
        self.server.restart(kill=True)
        self.c, _ = self.clients()
        self.assertEqual([self.c.must("LRANGE", key, 0, -1) for key in ("by-number", "by-text", "unsorted")], before)


@kelvin_only
class SortTierTest(ServerCase):
    def test_only_needed_keys_are_loaded(self):
        """BY reads a key for each element, GET only for those within LIMIT."""
        self.c.must("SADD", "s", *range(100))
        self.c.must("MSET", *[word for i in range(100) for word in ("w_%d" % i, 100 - i, "d_%d" % i, "data %d" % i)])
        self.c.must("HSET", "h_99", "f", "field")
        self.c.must("TIER", "DEMOTE", "s", "h_99", *["%s_%d" % (kind, i) for kind in "wd" for i in range(100)])
        before = self.server.info("tiering")
        self.assertEqual(self.c.must("SORT", "s", "BY", "w_*", "LIMIT", 0, 3, "GET", "#", "GET", "d_*", "GET", "h_*->f", "GET", "x_*"),
                         [b"99", b"data 99", b"field", None, b"98", b"data 98", None, None, b"97", b"data 97", None, None])
        where = {kind: [i for i in range(100) if self.c.must("TIER", "WHERE", "%s_%d" % (kind, i)) == b"hot"] for kind in "wd"}
        self.assertEqual(where, {"w": list(range(100)), "d": [97, 98, 99]})
        after = self.server.info("tiering")
        self.assertEqual(after["tier_unplanned_reads"], before["tier_unplanned_reads"])

    def test_expired_keys_are_not_read(self):
        self.c.must("SADD", "s", 1, 2, 3)
        self.c.must("SET", "w_1", 5, "PX", 1)
        self.c.must("SET", "w_2", 9, "PX", 1)
        self.c.must("TIER", "DEMOTE", "w_2")
        self.c.must("SET", "w_3", -1)
        self.c.must("DEBUG", "SLEEP", "0.01")
        self.assertEqual(self.c.must("SORT", "s", "BY", "w_*", "GET", "#", "GET", "w_*"), [b"3", b"-1", b"1", None, b"2", None])

    def test_a_sort_is_of_one_instant(self):
        """The keys that BY and GET read are locked together with the others, although they are known only later; if the set changes
        meanwhile, SORT starts again."""
        with Server({"io-threads": "4"}) as server:
            done, problems, sorts = threading.Event(), [], [0]

            def write(number):
                chooser = random.Random(number)
                with server.client() as client:
                    while not done.is_set():
                        weights = chooser.sample(range(100), 4)
                        client.must("MSET", *[word for i, weight in enumerate(weights) for word in ("w_%d" % i, weight, "d_%d" % i, weight)])
                        client.must("SADD" if chooser.random() < 0.5 else "SREM", "s", chooser.randrange(1, 30))
                        if chooser.random() < 0.1:
                            client.must("TIER", "DEMOTE", "s", "w_0", "w_1", "d_2")

            def read():
                with server.client() as client:
                    while not done.is_set():
                        reply = client.must("SORT", "s", "BY", "w_*", "GET", "#", "GET", "w_*", "GET", "d_*")
                        rows = list(zip(reply[::3], reply[1::3], reply[2::3]))
                        weights = [int(weight) for _, weight, _ in rows if weight is not None]
                        if any(weight != data for _, weight, data in rows) or weights != sorted(weights):
                            problems.append(rows)
                        sorts[0] += 1

            with server.client() as client:
                client.must("SADD", "s", 0)
            threads = [threading.Thread(target=write, args=(number,)) for number in range(2)] + \
                [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(2)
            done.set()
            for thread in threads:
                thread.join(60)
            self.assertEqual(problems[:1], [])
            self.assertGreater(sorts[0], 20)

    def test_with_too_little_memory(self):
        with Server({"maxmemory": "24mb"}) as server, server.client() as client:
            count = scaled(20000)
            for start in range(0, count, 500):
                client.must("MSET", *[word for i in range(start, start + 500) for word in (
                    "w_%d" % i, (i * 7919) % count, "d_%d" % i, "%d;" % i * 300)])
            chooser = random.Random(seed_new())
            for _ in range(scaled(40)):
                some = chooser.sample(range(count), 200)
                client.must("DEL", "s")
                client.must("SADD", "s", *some)
                some.sort(key=lambda i: (i * 7919) % count)
                self.assertEqual(client.must("SORT", "s", "BY", "w_*", "LIMIT", 0, 50, "GET", "#", "GET", "d_*"),
                                 [word for i in some[:50] for word in (b"%d" % i, b"%d;" % i * 300)])


if __name__ == "__main__":
    main()
