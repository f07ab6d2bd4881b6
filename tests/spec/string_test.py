"""Strings, compared with redis-server."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.resp import OK, Error                                                                      # noqa: E402


class StringTest(PairCase):
    def test_set_and_get(self):
        self.both("""
            GET missing
            SET k v
            GET k
            SET k "binary \\x00\\xff\\r\\n"
            GET k
            SET k ""
            GET k
            STRLEN k
            EXISTS k
            SET "" empty-key
            GET ""
            SET k
            SET
            GET
            GET a b
        """)

    def test_set_options(self):
        self.both("""
            SET k 1 NX
            SET k 2 NX
            GET k
            SET other 1 XX
            GET other
            SET k 3 XX
            GET k
            SET k 4 GET
            SET new 4 GET
            SET k 5 NX GET
            GET k
            SET new2 5 NX GET
            GET new2
            SET new3 5 XX GET
            GET new3
            SET k 6 XX GET
            SET k 7 EX 100
            TTL k
            SET k 8 KEEPTTL
            TTL k
            SET k 9
            TTL k
            SET k 9 PX 100000 NX
            SET k 9 PX 100000 XX
            PTTL k
            SET k 9 EXAT 33177117420
            EXPIRETIME k
            SET k 9 PXAT 33177117420123
            PEXPIRETIME k
            SET k 9 EXAT 1
            EXISTS k
            set k 9 ex 10 get
            TTL k
        """)

    def test_set_refuses_bad_options(self):
        self.both("""
            SET k v NX XX
            SET k v EX
            SET k v EX 0
            SET k v EX -1
            SET k v PX 0
            SET k v EXAT 0
            SET k v PXAT -5
            SET k v EX abc
            SET k v EX 1.5
            SET k v EX 9223372036854775807
            SET k v PX 9223372036854775807
            SET k v EXAT 9223372036854775807
            SET k v EX 10 PX 10
            SET k v EX 10 KEEPTTL
            SET k v KEEPTTL EX 10
            SET k v foo
            SET k v NX foo
            SET k v GET GET
            SET k v EX 10 EX 10
            EXISTS k
            HSET h f v
            SET h v GET
            SET h v NX GET
            TYPE h
            SET h v
            TYPE h
        """)

    def test_setnx_setex_psetex(self):
        self.both("""
            SETNX k v
            SETNX k w
            GET k
            SETEX k 100 v
            TTL k
            PSETEX k 100000 w
            PTTL k
            GET k
            SETEX k 0 v
            SETEX k -1 v
            SETEX k abc v
            SETEX k 9223372036854775 v
            SETEX k 9223372036854775807 v
            PSETEX k 0 v
            PSETEX k abc v
            PSETEX k 9223372036854775807 v
            SETEX k 10
        """)

    def test_getset_getdel_getex(self):
        self.both("""
            GETSET k v
            GETSET k w
            GET k
            EXPIRE k 100
            GETSET k x
            TTL k
            GETDEL k
            GETDEL k
            EXISTS k
            GETEX k
            SET k v
            GETEX k EX 100
            TTL k
            GETEX k PX 100000
            GETEX k
            PTTL k
            GETEX k PERSIST
            TTL k
            GETEX k EXAT 33177117420
            EXPIRETIME k
            GETEX k PXAT 33177117420123
            PEXPIRETIME k
            GETEX k EX 0
            GETEX k EX abc
            GETEX k EX 10 PERSIST
            GETEX k KEEPTTL
            GETEX k foo
            GETEX k EX
            GETEX k EXAT 1
            EXISTS k
            HSET h f v
            GETSET h v
            GETDEL h
            GETEX h
            GETEX h EX 10
        """)

    def test_counters(self):
        self.both("""
            INCR n
            INCRBY n 41
            DECR n
            DECRBY n 10
            GET n
            INCRBY n -100
            DECRBY n -200
            OBJECT ENCODING n
            SET n 9223372036854775806
            INCR n
            INCR n
            GET n
            INCRBY n 1
            DECRBY n -1
            SET n -9223372036854775807
            DECR n
            DECR n
            DECRBY n 9223372036854775807
            DECRBY n -9223372036854775808
            INCRBY n -9223372036854775808
            INCRBY n 9223372036854775808
            INCRBY n abc
            INCRBY n 1.5
            INCRBY n ""
            INCRBY n " 1"
            INCRBY n 01
            INCRBY n +1
            INCRBY n -0
            SET s " 1"
            INCR s
            SET s "1 "
            INCR s
            SET s 01
            INCR s
            SET s ""
            INCR s
            SET s 1.0
            INCR s
            SET s abc
            INCR s
            SET s 00
            INCR s
            SET s -0
            INCR s
            SET s 18446744073709551616
            INCR s
            HSET h f 1
            INCR h
            SET n 5
            EXPIRE n 100
            INCR n
            TTL n
        """)

    def test_incrbyfloat(self):
        self.both("""
            INCRBYFLOAT f 1
            INCRBYFLOAT f 0.5
            GET f
            INCRBYFLOAT f 1e3
            INCRBYFLOAT f -1001.5
            INCRBYFLOAT f 0.1
            INCRBYFLOAT f 0.2
            INCRBYFLOAT f 3.0e-10
            SET f 3.0e3
            INCRBYFLOAT f 200
            SET f 1
            INCRBYFLOAT f nan
            INCRBYFLOAT f inf
            INCRBYFLOAT f -inf
            INCRBYFLOAT f abc
            INCRBYFLOAT f ""
            INCRBYFLOAT f " 1"
            INCRBYFLOAT f "1 "
            INCRBYFLOAT f 0x10
            SET f abc
            INCRBYFLOAT f 1
            SET f " 11"
            INCRBYFLOAT f 1
            SET f 5.5
            EXPIRE f 100
            INCRBYFLOAT f 1
            TTL f
            OBJECT ENCODING f
            HSET h f 1
            INCRBYFLOAT h 1
        """)

    def test_incrbyfloat_of_more_digits_than_a_double_has(self):
        """In redis-server as here the long double of the processor decides: 64 bits on x86-64, 113 on arm64."""
        ours, theirs = (server.info()["os"].split()[-1] for server in (self.server, self.oracle))
        if ours == theirs:
            self.both("""
                SET f 0.3000000003
                INCRBYFLOAT f 1e17
                INCRBYFLOAT f 1
                INCRBYFLOAT f 1e308
                INCRBYFLOAT f 1e308
                INCRBYFLOAT f 1e4931
                INCRBYFLOAT f 5e4931
                INCRBYFLOAT f 1e4932
                SET f 1e400
                INCRBYFLOAT f 1
            """)
            return
        self.assertEqual((ours, theirs), ("aarch64", "x86_64"))         # tests/arm64: only the server under test is emulated
        for client, sum_of_both in (self.c, b"100000000000000000.3000000003"), (self.r, b"100000000000000000.296875"):
            client.must("SET", "f", "0.3000000003")
            self.assertEqual(client.call("INCRBYFLOAT", "f", "1e17"), sum_of_both)

    def test_append_and_strlen(self):
        self.both("""
            APPEND k hello
            APPEND k " world"
            GET k
            STRLEN k
            APPEND k ""
            SET n 12
            APPEND n 34
            GET n
            INCR n
            OBJECT ENCODING n
            STRLEN n
            STRLEN missing
            EXPIRE k 100
            APPEND k !
            TTL k
            HSET h f v
            APPEND h x
            STRLEN h
        """)

    def test_ranges(self):
        indexes = (0, 1, 2, 5, 10, 11, 100, -1, -2, -5, -11, -12, -100, 9223372036854775807, -9223372036854775808)
        self.both([["SET", "k", "hello world"], ["SET", "n", "1234567"], ["SET", "e", ""]] +
                  [[name, key, start, end] for name in ("GETRANGE", "SUBSTR") for key in ("k", "n", "e", "missing")
                   for start in indexes for end in indexes])
        self.both("""
            GETRANGE k a 1
            GETRANGE k 0 b
            GETRANGE k 0 9223372036854775808
            GETRANGE k 0
            HSET h f v
            GETRANGE h 0 1
        """)

    def test_setrange(self):
        self.both("""
            SETRANGE k 0 hello
            SETRANGE k 6 world
            GET k
            SETRANGE k 2 LL
            GET k
            SETRANGE k 3 ""
            SETRANGE missing 0 ""
            EXISTS missing
            SETRANGE missing 10 ""
            EXISTS missing
            SETRANGE k -1 x
            SETRANGE missing -1 x
            SETRANGE k abc x
            SETRANGE k 536870912 x
            SETRANGE k 9223372036854775807 x
            SETRANGE k 536870911 xx
            SET n 1234
            SETRANGE n 2 99
            GET n
            OBJECT ENCODING n
            SETRANGE pad 20 end
            GET pad
            HSET h f v
            SETRANGE h 0 x
            EXPIRE k 100
            SETRANGE k 0 J
            TTL k
        """)

    def test_many_keys_at_once(self):
        self.both("""
            MSET a 1 b 2 c 3
            MGET a b c missing
            MSET a 1 a 2 a 3
            GET a
            MSET a
            MSET a 1 b
            MGET
            MSETNX a 9 z 9
            EXISTS z
            MSETNX y 1 z 2 y 3
            MGET y z
            MSETNX y
            MSETNX q 1 r
            HSET h f v
            MGET h a
            MSET h 1
            TYPE h
            EXPIRE a 100
            MSET a 1
            TTL a
        """)

    def test_encodings(self):
        for value in ("0", "12345678901234567", "9223372036854775807", "9223372036854775808", "-1", "01", "1.5", "", "a" * 43,
                      "a" * 44, "a" * 45, "a" * 1000, "123456789012345678901234567890"):
            self.both([["SET", "k", value], ["OBJECT", "ENCODING", "k"], ["APPEND", "k", ""], ["OBJECT", "ENCODING", "k"],
                       ["APPEND", "k", "1"], ["OBJECT", "ENCODING", "k"], ["GET", "k"], ["SET", "k", value], ["GETEX", "k"],
                       ["SETRANGE", "k", 0, "1"], ["OBJECT", "ENCODING", "k"]])

    def test_lcs(self):
        self.both("""
            MSET a ohmytext b mynewtext e "" n 12345
            LCS a b
            LCS a b LEN
            LCS a b IDX
            LCS a b IDX WITHMATCHLEN
            LCS a b IDX MINMATCHLEN 4
            LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN
            LCS a b IDX MINMATCHLEN -4
            LCS a b LEN IDX
            LCS a missing
            LCS a missing IDX
            LCS a missing LEN
            LCS e e
            LCS a a IDX
            LCS n n LEN
            LCS a b foo
            LCS a b MINMATCHLEN
            LCS a b MINMATCHLEN x
            LCS a
            HSET h f v
            LCS a h
            LCS h missing
        """)

    def test_values_of_many_sizes(self):
        sizes = (1, 2, 15, 16, 17, 63, 64, 127, 128, 255, 256, 4095, 4096, 4097, 65535, 65536, 1 << 20, (1 << 24) + 1)

        def value(size):
            return (bytes(index % 251 for index in range(257)) * (size // 257 + 1))[:size]
        for size in sizes:
            self.assertEqual(self.c.must("SET", b"key%d" % size, value(size)), OK)
            self.assertEqual(self.c.must("STRLEN", b"key%d" % size), size)
        for size in sizes:
            self.assertTrue(self.c.must("GET", b"key%d" % size) == value(size), "the value of %d bytes" % size)

    def test_long_keys(self):
        for size in (1, 100, 255, 256, 1000, 65535, 65536, 1 << 20):
            self.both([["SET", "k" * size, size], ["GET", "k" * size], ["HSET", "h" * size, "f" * size, "v" * size],
                       ["HGET", "h" * size, "f" * size], ["DEL", "k" * size, "h" * size], ["EXISTS", "k" * size]])

    def test_a_value_over_the_limit_is_refused(self):
        self.both("""
            CONFIG SET proto-max-bulk-len 1048576
            SETRANGE k 1048570 123456789
            SETRANGE k 1048570 12345
            APPEND k 12345
            STRLEN k
            SETBIT k 8388608 1
            SETBIT k 8388607 1
            SETRANGE a 510 x
            LCS a a LEN
            APPEND a y
            LCS a a LEN
            LCS k missing LEN
            CONFIG SET proto-max-bulk-len 536870912
        """)

    def test_wrong_number_of_arguments(self):
        names = ("append decr decrby get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset msetnx psetex set "
                 "setex setnx setrange strlen substr").split()
        self.both([[name.upper()] for name in names] + [[name, "k"] for name in names] +
                  [[name] + ["1"] * 8 for name in names])

    def test_every_command_refuses_a_hash(self):
        self.c.must("HSET", "h", "f", "v")
        self.r.must("HSET", "h", "f", "v")
        replies = self.both("""
            APPEND h v
            DECR h
            DECRBY h 1
            GET h
            GETDEL h
            GETEX h
            GETRANGE h 0 1
            GETSET h v
            INCR h
            INCRBY h 1
            INCRBYFLOAT h 1
            LCS h h
            SETRANGE h 0 v
            STRLEN h
            SUBSTR h 0 1
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies))

    def test_resp3_replies(self):
        clients = self.clients(protocol=3)
        self.both("""
            GET missing
            MGET missing a
            SET k v GET
            LCS k k IDX WITHMATCHLEN
            INCRBYFLOAT f 1.5
            GETDEL missing
            SET k v NX
        """, clients)


if __name__ == "__main__":
    main()
