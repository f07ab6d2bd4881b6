"""HyperLogLogs, compared with redis-server: the same estimates from the same bytes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.resp import Error                                                                      # noqa: E402

SPARSE = "HYLL\\x01" + "\\x00" * 11
DENSE = "HYLL" + "\\x00" * 12


class HyperLogLogTest(PairCase):
    def test_add_count_and_merge(self):
        self.both("""
            PFADD k
            GET k
            PFCOUNT k
            GET k
            PFADD k
            PFADD k a
            GET k
            PFADD k a
            PFCOUNT k
            GET k
            PFADD k a
            GET k
            PFADD k b c d "" "\\x00\\xff"
            GET k
            OBJECT ENCODING k
            PFCOUNT k
            PFCOUNT k missing
            PFCOUNT missing
            PFCOUNT missing gone
            PFADD m a x y
            PFCOUNT k m
            PFMERGE d k m
            GET d
            PFCOUNT d
            PFMERGE d
            GET d
            PFMERGE new
            GET new
            PFMERGE new missing
            GET new
            PFMERGE m m m
            GET m
            EXPIRE m 100
            PFADD m 1 2 3
            PFMERGE m k
            TTL m
            TYPE m
            STRLEN m
        """)

    def test_arity(self):
        self.both("""
            PFADD
            PFCOUNT
            PFMERGE
            PFDEBUG
            PFDEBUG ENCODING
            PFSELFTEST x
        """)

    def test_many_elements(self):
        """From sparse to dense, with estimates in between."""
        for start in range(0, 30000, 500):
            self.both([["PFADD", "k"] + ["element:%d" % index for index in range(start, start + 500)], ["PFCOUNT", "k"], ["GET", "k"],
                       ["PFADD", "other%d" % (start % 3)] + list(range(start, start + 200)), ["PFDEBUG", "ENCODING", "k"]])
        self.both([["PFCOUNT", "k", "other0", "other1", "other2"], ["PFMERGE", "all", "k", "other0", "other1", "other2"], ["GET", "all"],
                   ["PFCOUNT", "all"], ["STRLEN", "all"], ["OBJECT", "ENCODING", "all"]])

    def test_the_limit_of_the_sparse_encoding(self):
        for limit in (0, 100, 3000, 10000):
            self.both([["CONFIG", "SET", "hll-sparse-max-bytes", limit], ["DEL", "k", "m"]])
            for start in range(0, 4000, 100):
                self.both([["PFADD", "k"] + list(range(start, start + 100)), ["STRLEN", "k"], ["GET", "k"]])
            self.both([["PFADD", "m", "a"], ["PFMERGE", "m", "k"], ["GET", "m"], ["PFCOUNT", "m"]])
        self.both([["CONFIG", "SET", "hll-sparse-max-bytes", 3000]])

    def test_strings_that_are_not_hyperloglogs(self):
        replies = self.both("""
            SET s x
            PFADD s a
            PFCOUNT s
            PFCOUNT s missing
            PFMERGE s missing
            PFMERGE d s
            PFDEBUG ENCODING s
            SET i 12
            PFADD i a
            HSET h f v
            PFADD h a
            PFCOUNT h
            PFCOUNT missing h
            PFMERGE d h
            PFMERGE h missing
            PFDEBUG DECODE h
            EXISTS d
            PFDEBUG ENCODING missing
            PFDEBUG foo missing
        """)
        self.assertEqual([type(reply) for reply in replies[1:7]], [Error] * 6)

    def test_damaged_hyperloglogs(self):
        self.both("""
            SET c "%(sparse)s\\x7f\\xfe"
            PFADD c a
            PFCOUNT c
            GET c
            SET c "HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xfe"
            PFCOUNT c
            PFCOUNT c missing
            PFMERGE d c
            EXISTS d
            PFDEBUG DECODE c
            PFDEBUG TODENSE c
            PFDEBUG GETREG c
            SET c "%(sparse)s\\x7f\\xff\\x00"
            PFCOUNT c
            PFADD c b
            PFCOUNT c
            SET c "%(sparse)s"
            PFCOUNT c
            PFADD c
            PFADD c b
            SET c "%(dense)s"
            PFCOUNT c
            SET c "HYLL\\x02"
            PFCOUNT c
            SET c "HYLL\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x7f\\xff"
            PFADD c a
        """ % {"sparse": SPARSE, "dense": DENSE})

    def test_debug(self):
        self.both("""
            PFADD k a b c d e f
            PFDEBUG DECODE k
            SET one "%s\\x7f\\xff"
            OBJECT ENCODING one
            PFDEBUG ENCODING one
            OBJECT ENCODING one
            PFDEBUG encoding k
            PFDEBUG foo k
            PFDEBUG TODENSE k
            PFDEBUG TODENSE k
            PFDEBUG ENCODING k
            PFDEBUG DECODE k
            PFDEBUG GETREG k
            PFADD m a
            PFDEBUG getreg m
            PFDEBUG ENCODING m
            STRLEN m
            PFCOUNT m
            PFSELFTEST
        """ % SPARSE)

    def test_values_are_exchanged_with_redis(self):
        for count in (1, 100, 5000):
            elements = ["e%d" % index for index in range(count)]
            self.both([["DEL", "k"], ["PFADD", "k"] + elements, ["PFCOUNT", "k"]])
            self.r.must("RESTORE", "from", 0, self.c.must("DUMP", "k"), "REPLACE")
            self.c.must("RESTORE", "from", 0, self.r.must("DUMP", "k"), "REPLACE")
            self.both([["PFCOUNT", "from"], ["PFADD", "from"] + elements, ["PFADD", "from", "another"], ["PFCOUNT", "from"], ["GET", "from"]])
            self.r.must("SET", "from", self.c.must("GET", "k"))
            self.c.must("SET", "from", self.r.must("GET", "k"))
            self.both([["PFCOUNT", "from", "k"], ["PFADD", "from"], ["OBJECT", "ENCODING", "from"], ["PFADD", "from", "more"], ["GET", "from"]])


class HyperLogLogLogTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def test_a_replay_gives_the_same_data(self):
        """Including the cached estimate in the value."""
        script = [["PFADD", "k", "a", "b"], ["PFCOUNT", "k"], ["PFADD", "m"] + list(range(5000)), ["PFCOUNT", "m"], ["PFMERGE", "d", "k", "m"],
                  ["PFADD", "n", "x"], ["PFDEBUG", "TODENSE", "n"]]
        keys = [["GET", key] for key in ("k", "m", "d", "n")]
        before = self.both(script + keys)[-4:]
        self.server.restart(kill=True)
        self.c, _ = self.clients()
        self.assertEqual([self.c.must(*words) for words in keys], before)


if __name__ == "__main__":
    main()
