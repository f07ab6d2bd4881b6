"""Bitmaps, compared with redis-server."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.server import seed_new                                                                 # noqa: E402


class BitmapTest(PairCase):
    def test_setbit_and_getbit(self):
        self.both("""
            SETBIT b 7 1
            GET b
            SETBIT b 7 0
            GET b
            SETBIT b 100 1
            STRLEN b
            GETBIT b 100
            GETBIT b 101
            GETBIT b 100000
            GETBIT missing 0
            SETBIT b -1 1
            SETBIT b 4294967296 1
            SETBIT b abc 1
            SETBIT b 1 2
            SETBIT b 1 abc
            SETBIT b 1 -1
            GETBIT b -1
            GETBIT b 4294967296
            GETBIT b x
            SETBIT missing 5 0
            GET missing
            SET n 12345
            SETBIT n 0 1
            GET n
            GETBIT n 3
            OBJECT ENCODING n
            HSET h f v
            SETBIT h 0 1
            GETBIT h 0
            SETBIT b 1
            EXPIRE b 100
            SETBIT b 1 1
            TTL b
            SET m 12345
            SETBIT m 0 0
            OBJECT ENCODING m
            BITFIELD m OVERFLOW FAIL INCRBY u2 0 9
            GET m
        """)

    def test_bitcount(self):
        self.both("""
            SET k foobar
            BITCOUNT k
            BITCOUNT missing
            BITCOUNT k 0 0
            BITCOUNT k 1 1
            BITCOUNT k 0 -1
            BITCOUNT k -2 -1
            BITCOUNT k 5 1
            BITCOUNT k -1 -2
            BITCOUNT k 0 100
            BITCOUNT k -100 100
            BITCOUNT k 5 30 BIT
            BITCOUNT k 5 30 BYTE
            BITCOUNT k 5 30 bit
            BITCOUNT k -10 -1 BIT
            BITCOUNT k 0 0 BIT
            BITCOUNT k 1 7 BIT
            BITCOUNT k 0 5 foo
            BITCOUNT k -1 -3 foo
            BITCOUNT k -3 -1 foo
            BITCOUNT k 3 1 foo
            BITCOUNT k 0
            BITCOUNT k a b
            BITCOUNT k 0 b
            BITCOUNT k 0 1 BIT extra
            BITCOUNT k 9223372036854775807 9223372036854775807
            BITCOUNT k -9223372036854775808 9223372036854775807
            BITCOUNT k 9223372036854775808 1
            SET e ""
            BITCOUNT e
            BITCOUNT e 0 -1
            SET n 123
            BITCOUNT n
            HSET h f v
            BITCOUNT h
        """)

    def test_bitpos(self):
        self.both("""
            SET k "\\xff\\xf0\\x00"
            BITPOS k 0
            BITPOS k 1
            BITPOS k 0 2
            BITPOS k 1 2
            BITPOS k 1 2 2
            BITPOS k 0 0 1
            BITPOS k 0 -1
            BITPOS k 1 -1 -1
            BITPOS k 1 -2
            BITPOS k 0 7 15 BIT
            BITPOS k 1 7 15 BIT
            BITPOS k 1 12 -1 BIT
            BITPOS k 0 0 -1 BYTE
            BITPOS k 0 5 2
            BITPOS k 0 5 2 BIT
            SET f "\\xff\\xff\\xff"
            BITPOS f 0
            BITPOS f 0 0
            BITPOS f 0 0 -1
            BITPOS f 0 3
            BITPOS f 0 0 -1 BIT
            BITPOS f 0 0 100 BIT
            BITPOS f 1 100
            SET z "\\x00\\x00"
            BITPOS z 1
            BITPOS z 1 0 -1
            BITPOS z 0
            BITPOS missing 0
            BITPOS missing 1
            SET e ""
            BITPOS e 0
            BITPOS e 1
            BITPOS k 2
            BITPOS k abc
            BITPOS k 0 a
            BITPOS k 0 1 b
            BITPOS k 0 1 2 foo
            BITPOS k 0 1 2 BIT x
            BITPOS k
            HSET h f v
            BITPOS h 1
        """)

    def test_bitop(self):
        self.both("""
            MSET a foobar b abcdef c "\\xff" n 12 e ""
            BITOP AND d a b
            GET d
            BITOP OR d a b
            GET d
            BITOP XOR d a b
            GET d
            BITOP NOT d a
            GET d
            BITOP AND d a c
            GET d
            BITOP OR d a missing
            GET d
            BITOP AND d a missing
            GET d
            BITOP XOR d n a b c e
            GET d
            OBJECT ENCODING d
            BITOP NOT d missing
            EXISTS d
            BITOP AND d e missing
            EXISTS d
            BITOP not a a
            GET a
            BITOP NOT d a b
            BITOP NAND d a b
            BITOP AND d
            BITOP AND
            HSET h f v
            BITOP AND d a h
            BITOP AND h a b
            TYPE h
            EXPIRE a 100
            BITOP OR a a b
            TTL a
        """)

    def test_bitfield(self):
        self.both("""
            BITFIELD b SET u8 0 255 GET u8 0 GET i8 0 GET u4 4
            BITFIELD b INCRBY u8 0 1
            BITFIELD b OVERFLOW SAT INCRBY u8 8 300
            BITFIELD b OVERFLOW FAIL INCRBY u8 8 1
            BITFIELD b OVERFLOW WRAP INCRBY u8 8 1
            BITFIELD b OVERFLOW SAT INCRBY i8 16 -300 OVERFLOW FAIL INCRBY i8 16 -1
            BITFIELD b SET u8 #3 77 GET u8 #3 GET u16 #1
            BITFIELD b SET i64 0 -1 GET u63 0 GET i64 0
            BITFIELD b INCRBY i64 0 -9223372036854775808
            BITFIELD b INCRBY i5 100 20 GET u1 100
            BITFIELD b SET u63 3 9223372036854775807
            BITFIELD b INCRBY u63 3 1
            GET b
            BITFIELD b
            BITFIELD b GET u64 0
            BITFIELD b GET i65 0
            BITFIELD b GET u0 0
            BITFIELD b GET x8 0
            BITFIELD b GET u8 -1
            BITFIELD b GET u8 abc
            BITFIELD b GET u8 #abc
            BITFIELD b GET u8 4294967296
            BITFIELD b SET u8 0
            BITFIELD b SET u8 0 abc
            BITFIELD b INCRBY u8 0 9223372036854775808
            BITFIELD b OVERFLOW foo
            BITFIELD b OVERFLOW
            BITFIELD b foo u8 0
            BITFIELD b GET u8
            BITFIELD missing GET u8 0
            EXISTS missing
            BITFIELD missing OVERFLOW FAIL INCRBY u2 0 5
            GET missing
            BITFIELD_RO b GET u8 0 GET u8 #1
            BITFIELD_RO b SET u8 0 1
            BITFIELD_RO b INCRBY u8 0 1
            BITFIELD_RO missing GET u8 0
            BITFIELD_RO b
            SET n 123
            BITFIELD n GET u8 0 SET u8 8 50
            GET n
            BITFIELD far OVERFLOW SAT SET i5 0 -100 GET i5 0 SET i5 0 -9223372036854775808 GET i5 0
            BITFIELD far OVERFLOW SAT SET i63 0 -9223372036854775808 GET i63 0 SET u33 3 -1 GET u33 3
            BITFIELD far OVERFLOW WRAP SET i33 0 -9223372036000000000 GET i33 0
            HSET h f v
            BITFIELD h GET u8 0
            BITFIELD_RO h GET u8 0
            BITFIELD h GET u64 0
            BITFIELD_RO h SET u8 0 1
            BITFIELD h
        """)

    def test_random_bitfields(self):
        chooser = random.Random(seed_new())
        for _ in range(300):
            command = ["BITFIELD", "b"]
            for _ in range(chooser.randrange(1, 6)):
                signed = chooser.random() < 0.5
                width = chooser.randrange(1, 65 if signed else 64)
                kind = "%s%d" % ("i" if signed else "u", width)
                command += chooser.choice((
                    ["GET", kind, chooser.randrange(300)],
                    ["SET", kind, chooser.randrange(300), chooser.randrange(-1 << 63, 1 << 63) >> chooser.randrange(64)],
                    ["INCRBY", kind, chooser.randrange(300), chooser.randrange(-1 << 63, 1 << 63) >> chooser.randrange(64)],
                    ["OVERFLOW", chooser.choice(("WRAP", "SAT", "FAIL"))]))
            self.both([command, ["GET", "b"]])

    def test_big_bitmaps(self):
        self.both("""
            SETBIT big 10000000 1
            BITCOUNT big
            BITPOS big 1
            BITPOS big 1 1250000
            BITPOS big 0 0 -1 BIT
            BITOP NOT inverse big
            BITCOUNT inverse
            BITCOUNT inverse 3 9000001 BIT
            BITPOS inverse 0
            BITOP XOR both big inverse
            BITPOS both 0
            STRLEN both
        """)


if __name__ == "__main__":
    main()
