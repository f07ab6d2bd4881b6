"""Corner cases: every command that reads or changes data, with every combination of boundary values of its arguments.

A row of a table has the values of the keys before, and a line in which a word like {int} is replaced by each of its WORDS. The reply
and the values of the keys afterwards are compared with redis-server, in RESP2 and RESP3, and with all keys cold. Of the larger tables,
an evenly spaced selection is run; all cases with CORNERS=all, which takes some minutes.
"""
import itertools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import compare                                                                         # noqa: E402
from support.case import PairCase, kelvin_only, main, shown                                                # noqa: E402
from support.resp import quote, split                                                               # noqa: E402

# Maximum number of cases of a table, evenly spaced.
CASES_MAX = 150 if os.environ.get("KELVIN_SHORT") else 900

MIN, MAX = "-9223372036854775808", "9223372036854775807"
WORDS = {
    "int": ["0", "1", "-1", "3", "-3", "7", "-7", "8", "-8", "100", "-100", MAX, MIN, "9223372036854775808",
            "-9223372036854775809", "4294967296", "-4294967296", "2147483647", "2147483648", "-2147483648", "-2147483649", '""', "abc",
            "1.0", '" 1"', '"1 "', "+1", "01", "-0", "0x1", "1e1"],
    "some": ["0", "1", "-1", "3", "-3", "100", "-100", MAX, MIN, "9223372036854775808", '""', "abc", "2.0", "01"],
    "time": ["0", "-1", "-8", "100000", "4294967296", "-4294967296", MAX, MIN, "9223372036854775", "9223372036854776", "9223372036854775808", '""', "abc",
             "1000.0", '" 1000"', "+1000", "01000", "-0"],
    "idle": ["0", "-1", "100000", MAX, MIN, "9223372036854775808", '""', "abc", "2.0", "00"],
    "few": ["0", "1", "-1", "100", MAX, MIN, "abc"],
    "key": ["l", "s", "h", "t", "z", "x", "none"],
    "float": ["0", "-0", "1", "0.1", "3.0e3", "-1.5", "inf", "-inf", "+inf", "nan", "-nan", "1e308", "-1e308", "1e-320", "5e-324", "1e400", "1e-400",
              "0x10", '""', "abc", '"1 "', '" 1"', "infinity", "INF", "1e", ".5", "5.", "99999999999999999999", "17179869184.123456789"],
    "score": ["-inf", "+inf", "inf", "(-inf", "(+inf", "2", "(2", "3.5", "(3.5", "nan", "(", '""', "abc", "((2", "( 2", "1e400"],
    "lex": ["-", "+", "[b", "(b", "[", "(", '""', "b", "[zz", "(a", "[\\x00", "--", "+a"],
    "end": ["LEFT", "right", "MIDDLE"],
    "limit": ["", "LIMIT 0 0", "LIMIT 1 1", "LIMIT 0 -1", "LIMIT -1 2", "LIMIT 2 -5", "LIMIT 100 1", "LIMIT 1 " + MAX, "LIMIT " + MAX + " " + MAX,
              "LIMIT " + MIN + " 1", "LIMIT 1 " + MIN, "LIMIT abc 1", "LIMIT 1"],
}
KEYS = ["l", "s", "h", "t", "z", "x", "none", "n", "d", "i", "u", "g", "b"]
TYPES = """
    RPUSH l a b c a d a e
    SET s "The quick \\x00brown fox"
    HSET h a 1 b 2.5 c text
    SADD t a b c 1 2
    SADD i 1 2 3
    ZADD z 1 a 2 b 2 c 3.5 d
    XADD x 1-1 f v
    SET n 10
"""


def lines_of_text(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def lines_of(script):
    return [split(line) for line in lines_of_text(script)]


def commands_of(line, words):
    """Yields the line with each {word} replaced by each of its values."""
    names = [piece[:piece.index("}")] for piece in line.split("{")[1:]]
    for values in itertools.product(*[words[name.split(":")[0]] for name in names]):
        parts = line
        for name, value in zip(names, values):
            parts = parts.replace("{%s}" % name, value, 1)
        yield split(parts)


class CornerTest(PairCase):
    cold = False
    cases_max = CASES_MAX

    def differences(self, before, table, after, words):
        """Returns the cases of a table in which the servers differ. Without `after`, a table only reads, and its keys are
        created once; otherwise they are created before every case."""
        words = dict(WORDS, **words)
        makes, asks = [["DEL"] + KEYS] + lines_of(before), lines_of(after)
        cases = [command for line in lines_of_text(table) for command in commands_of(line, words)]
        count_all, found = len(cases), []
        if count_all > self.cases_max and os.environ.get("CORNERS") != "all":
            cases = [cases[index * count_all // self.cases_max] for index in range(self.cases_max)]
        for protocol in (2, 3):
            ours, theirs = self.clients(protocol=protocol)
            for start in range(0, len(cases), 300):
                sequence, case_at = [] if after else list(makes), []
                for case in cases[start:start + 300]:
                    sequence += (makes if after else []) + ([["@cold"]] if self.cold else []) + [case] + asks
                    case_at += [len(sequence) - 1 - len(asks)] * (len(sequence) - len(case_at))
                mine = ours.pipeline([["TIER", "DEMOTE"] + KEYS if each[0] == "@cold" else each for each in sequence])
                other = theirs.pipeline([["PING"] if each[0] == "@cold" else each for each in sequence])
                for at, (words_of, one, two) in enumerate(zip(sequence, mine, other)):
                    if words_of[0] == "@cold" or compare.same(one, two, [arg if isinstance(arg, bytes) else arg.encode() for arg in words_of]):
                        continue
                    found.append("RESP%d  %s%s\n        ours  %s\n        redis %s" % (
                        protocol, quote(sequence[case_at[at]]), "" if case_at[at] == at else "   then " + quote(words_of), shown(one), shown(two)))
        return found, len(cases), count_all

    def corners(self, table, before=TYPES, after="", **words):
        found, ran, count_all = self.differences(before, table, after, words)
        self.assertGreater(ran, 0)
        if found:
            self.fail("%d differences in %d of %d cases\n%s" % (len(found), ran, count_all, "\n".join(found[:12])))

    def test_lists(self):
        self.corners("""
            LRANGE l {int} {int}
            LINDEX {key} {int}
            LRANGE {key} {few} {few}
            LPOS l a RANK {int} COUNT {some}
            LPOS l a MAXLEN {int} RANK {few}
            LPOS l a COUNT {some} MAXLEN {few}
            LPOS {key} a RANK {few}
            LPOS l a RANK 1 RANK {few} COUNT
            LPOS l zz COUNT {few}
            LPOS none zz COUNT {few}
        """)
        self.corners("""
            LPOP {key} {int}
            RPOP {key} {int}
            LPOP {key}
            RPOP {key} 1 1
            LTRIM l {int} {int}
            LTRIM {key} {few} {few}
            LREM l {int} a
            LREM {key} {few} a
            LSET {key} {int} new
            LINSERT {key} {where} {element} new
            LPUSHX {key} q r
            RPUSHX {key} q
            LPUSH {key} {element}
            LMPOP {int} l none {end}
            LMPOP 2 {key} {key:2} {end}
            LMPOP 1 l {end} COUNT {int}
            LMPOP 1 {key} LEFT COUNT {few}
            LMPOP 1 l LEFT COUNT 1 COUNT 2
            LMPOP 1 l LEFT FOO 1
            BLMPOP {timeout} 1 l LEFT COUNT {few}
            BLPOP l {timeout}
            BLPOP {key} l 0.01
            BRPOPLPUSH {key} {key:2} 0.01
            RPOPLPUSH {key} {key:2}
            LMOVE {key} {key:2} {end} {end:2}
            BLMOVE {key} {key:2} {end} {end:2} 0.01
        """, after="LRANGE l 0 -1\nLRANGE none 0 -1", where=["BEFORE", "after", "foo"], element=["a", "zz", '""'],
            timeout=["0.01", "-1", "abc", '""', "1e400", "inf", "nan", "0x0.01", MAX, "9223372036854775", "9223372036854776"][:6])

    def test_strings(self):
        self.corners("""
            GETRANGE s {int} {int}
            GETRANGE {key} {few} {few}
            SUBSTR s {some} {some}
            GETEX {key} {expiry}
            SET {key} v {expiry}
            SET {key} v {flag} {flag:2} {flag:3}
            SET s v {expiry} {flag}
            SETEX {key} {time} v
            PSETEX {key} {time} v
            SETRANGE s {int} {value}
            SETRANGE {key} {few} {value}
            APPEND {key} {value}
            INCRBY {number} {int}
            DECRBY {number} {int}
            INCRBYFLOAT {number} {float}
            INCRBY {key} 1
            INCR {key}
            DECR {number}
            INCRBYFLOAT {key} 1
            GETSET {key} v
            GETDEL {key}
            SETNX {key} v
            MSETNX none v {key} v
            MGET {key} {key:2} s
            MSET s 1 s 2
            MSET s 1 s
            STRLEN {key}
            LCS {key} n
            LCS s n {lcs} {lcs:2} {lcs:3}
            LCS s n MINMATCHLEN {few} IDX
        """, before=TYPES + "SET d %s\nSET i %s\nSET u 1.5e10\nSET g \" 1\"\nSET b 00\n" % (MIN, MAX), after="GET s\nGET n\nGET none\nTYPE l\nTTL none\nGET i\nGET d",
            expiry=["EX 0", "EX -1", "EX 100", "PX 100000", "EXAT 0", "EXAT 9999999999", "PXAT 9999999999000", "EX " + MAX, "PX " + MAX, "EXAT " + MAX,
                    "PXAT " + MAX, "EX 9223372036854775", "EX 9223372036854776", "EX abc", "EX", "PERSIST", "KEEPTTL", "EX 10 PX 10", "PERSIST EX 10",
                    "EX 10 PERSIST", "foo", "PX 9223372036854775000", "EX 1.5"],
            flag=["", "NX", "XX", "GET", "KEEPTTL", "EX", "EX 100"], value=["", '""', "abc", '"\\x00\\xff"'],
            number=["n", "d", "i", "u", "g", "b", "s"], lcs=["", "IDX", "LEN", "WITHMATCHLEN", "MINMATCHLEN 2", "foo"])

    def test_bitmaps(self):
        self.corners("""
            GETBIT {key} {offset}
            BITCOUNT s {int} {int}
            BITCOUNT s {some} {some} {unit}
            BITCOUNT {key} {few} {few}
            BITCOUNT s {few}
            BITPOS s {bit} {some} {some}
            BITPOS s {bit} {some} {some} {unit}
            BITPOS {key} {bit} {few} {few}
            BITPOS {key} {bit}
            BITFIELD s GET {type} {at}
            BITFIELD_RO {key} GET {type} {at}
            BITFIELD_RO s SET u8 0 1
            BITFIELD_RO s OVERFLOW WRAP GET u8 0
            BITFIELD s OVERFLOW {overflow}
            BITFIELD s
            BITFIELD s GET u8
        """, offset=["0", "7", "4294967295", "4294967296", "-1", "abc", "1.5", MAX, '""'], unit=["BIT", "byte", "foo"], bit=["0", "1", "2", "-1", "abc"],
            type=["u8", "i8", "u1", "i1", "u63", "i64", "u64", "i65", "u0", "i0", "x8", "U8", "8", "u", "u08", "u8x", '""', "i-8", "u 8"],
            at=["0", "#0", "#1", "3", "4294967288", "4294967289", "4294967295", "#536870911", "#536870912", "-1", "#-1", "#", '""', "abc", "#" + MAX, MAX],
            overflow=["WRAP", "sat", "foo", ""])
        self.corners("""
            SETBIT {key} {offset} {bit}
            BITFIELD {key} OVERFLOW {overflow} INCRBY {type} 1 {some}
            BITFIELD s OVERFLOW {overflow} SET {type} 2 {value}
            BITFIELD s OVERFLOW {overflow} INCRBY {type} 2 {value}
            BITFIELD s SET u8 0 1 GET u8 0 OVERFLOW FAIL INCRBY u2 0 3 OVERFLOW SAT INCRBY u2 0 3 foo
            BITOP {op} none {key} {key:2}
            BITOP {op} s s
            BITOP {op} none none
        """, after="GETRANGE s 0 40\nSTRLEN s\nGETRANGE none 0 30\nTYPE none", offset=["0", "7", "1000", "-1", "4294967296", "abc"], bit=["0", "1", "2", "abc"],
            overflow=["WRAP", "SAT", "FAIL"], type=["u8", "i8", "u1", "i1", "u63", "i64", "i63"], op=["AND", "or", "XOR", "NOT", "NAND"],
            value=["0", "1", "-1", "255", "256", "-129", "128", "-128", MAX, MIN, "9223372036854775808", "18446744073709551615", "abc", "1.0", "4611686018427387904"])

    def test_sets(self):
        self.corners("""
            SRANDMEMBER {key} {count}
            SRANDMEMBER t {huge}
            SPOP {key} {count}
            SPOP t 1 2
            SPOP none
            SRANDMEMBER t 1 2
            SINTERCARD {int} t i
            SINTERCARD 2 t i LIMIT {int}
            SINTERCARD 1 {key} LIMIT 1 LIMIT 2
            SINTERCARD 2 {key} {key:2}
            SINTERCARD 1 t LIMIT
            SINTERCARD 1 t FOO 1
            SINTER {key} {key:2}
            SUNION {key} {key:2}
            SDIFF {key} {key:2}
            SINTERSTORE d {key} {key:2}
            SUNIONSTORE {key} {key:2} t
            SDIFFSTORE {key} {key:2} i
            SMOVE {key} {key:2} {element}
            SMISMEMBER {key} {element} zz
            SISMEMBER {key} {element}
            SADD {key} {element}
            SREM {key} {element} a
            SSCAN t 0 COUNT {int}
            SSCAN {key} {int}
            SSCAN t 0 MATCH {pattern}
            SSCAN t 0 MATCH
            SSCAN none abc
        """, after="SCARD t\nSCARD i\nSCARD d\nSCARD none", count=["0", "1", "-1", "3", "5", "6", "100", MAX, "abc", "9223372036854775808", '""', "1.0"],
            huge=[MIN, "-9223372036854775809", "9223372036854775806"], element=["a", "1", "01", '""', MAX, MIN, "9223372036854775808"],
            pattern=["*", "a*", "[ab]", "[^a]", '""', "?", "\\\\a", "[", "[a-", "[z-a]", "*" * 20])

    def test_hashes(self):
        self.corners("""
            HRANDFIELD {key} {count}
            HRANDFIELD {key} {count} WITHVALUES
            HRANDFIELD h {few} foo
            HRANDFIELD h
            HRANDFIELD none
            HRANDFIELD h 1 WITHVALUES x
            HRANDFIELD h {border} WITHVALUES
            HRANDFIELD none {border} WITHVALUES
            HINCRBY h {field} {int}
            HINCRBYFLOAT h {field} {float}
            HINCRBY {key} a 1
            HINCRBYFLOAT {key} a 1
            HSET {key} a 1 b
            HSET {key} {field} 2 {field:2} 3
            HMSET {key} a 1 b
            HMSET {key} a 1
            HSETNX {key} {field} 1
            HDEL {key} {field} {field:2}
            HGET {key} {field}
            HMGET {key} {field} {field:2}
            HSTRLEN {key} {field}
            HEXISTS {key} {field}
            HGETALL {key}
            HKEYS {key}
            HVALS {key}
            HLEN {key}
            HSCAN {key} {int}
            HSCAN h 0 COUNT {int}
            HSCAN h 0 MATCH [ab] COUNT 1 MATCH c
            HSCAN h 0 FOO
        """, before=TYPES + "HSET h max %s min %s big 1e308 sp \" 1\" nul \"1\\x00\" f 1.5e3 empty \"\"\n" % (MAX, MIN), after="HGETALL h\nHLEN none",
            count=["0", "1", "3", "100", MAX, "abc", "9223372036854775808", '""', "1.0"],
            border=["-9223372036854775809", "-4611686018427387905", "4611686018427387904", MAX, "9223372036854775808"],
            field=["a", "c", "none", "max", "min", "big", "sp", "nul", "f", "empty", '""'])

    def test_sorted_sets(self):
        self.corners("""
            ZADD z {flag} {flag:2} {flag:3} {float} b
            ZADD z {flag} {flag:2} {number} a {number:2} new
            ZADD {key} {float} m
            ZADD none {flag} INCR {float} m
            ZADD z INCR 1 a 2 b
            ZADD z NX XX 1
            ZADD z GT 1
            ZADD z CH
            ZADD z 1 a 2
            ZADD z 1 a abc b
            ZINCRBY z {float} b
            ZINCRBY {key} {float} m
            ZINCRBY u {float} inf
            ZINCRBY u {float} minus
            ZADD u INCR {float} inf
            ZPOPMIN {key} {int}
            ZPOPMAX {key} {int}
            ZPOPMAX {key}
            ZPOPMIN z 1 2
            ZMPOP {int} z none MIN
            ZMPOP 1 z MAX COUNT {int}
            ZMPOP 2 {key} {key:2} MIN
            ZMPOP 1 z MID
            ZMPOP 1 z MIN COUNT 1 COUNT 1
            BZMPOP 0.01 1 {key} MIN COUNT {few}
            BZPOPMIN {key} z 0.01
            BZPOPMAX z {float}
            ZREMRANGEBYRANK z {int} {int}
            ZREMRANGEBYSCORE z {score} {score:2}
            ZREMRANGEBYLEX g {lex} {lex:2}
            ZREMRANGEBYRANK {key} {few} {few}
            ZREM {key} a b a
        """, before=TYPES + "ZADD g 0 a 0 b 0 c 0 d\nZADD u inf inf -inf minus 0 zero -0 mzero\n", after="ZRANGE z 0 -1 WITHSCORES\nZRANGE u 0 -1 WITHSCORES\nZRANGE none 0 -1 WITHSCORES\nZCARD g",
            flag=["", "NX", "XX", "GT", "LT", "CH", "INCR", "foo"], number=["5", "-5", "nan"])

    def test_ranges_of_sorted_sets(self):
        words = {"limit": WORDS["limit"], "rev": ["", "REV"], "with": ["", "WITHSCORES", "withscores LIMIT 0 1", "foo"]}
        before = TYPES + "ZADD g 0 a 0 b 0 c 0 d 0 \"\"\nZADD u -inf minus inf inf 0 zero 1e300 big -0.1 neg\n"
        self.corners("""
            ZRANGE z {int} {int} {rev}
            ZRANGE z {few} {few} {rev} WITHSCORES
            ZRANGE z {score} {score:2} BYSCORE {rev}
            ZRANGE u {score} {score:2} BYSCORE {rev} WITHSCORES LIMIT 0 2
            ZRANGE g {lex} {lex:2} BYLEX {rev}
            ZRANGE z -inf +inf BYSCORE {limit} {with}
            ZRANGE z +inf -inf BYSCORE REV {limit} {with}
            ZRANGE g - + BYLEX {limit} {with}
            ZRANGE g + - BYLEX REV {limit}
            ZRANGE z 0 -1 {limit}
            ZRANGE z 0 -1 BYLEX BYSCORE
            ZRANGE z 0 -1 BYSCORE BYLEX WITHSCORES
            ZRANGE {key} {few} {few}
            ZRANGE {key} 1 2 BYSCORE
            ZRANGE {key} - + BYLEX
            ZREVRANGE z {some} {some} {with}
            ZRANGEBYSCORE z {score} {score:2} {limit}
            ZREVRANGEBYSCORE z {score} {score:2} WITHSCORES
            ZREVRANGEBYSCORE z inf -inf {limit}
            ZRANGEBYLEX g {lex} {lex:2} LIMIT 1 2
            ZREVRANGEBYLEX g {lex} {lex:2}
            ZREVRANGEBYLEX g + - {limit}
            ZRANGEBYLEX {key} - + WITHSCORES
            ZCOUNT u {score} {score:2}
            ZCOUNT {key} {score} 2
            ZLEXCOUNT g {lex} {lex:2}
            ZLEXCOUNT {key} {lex} +
            ZRANK {key} b
            ZREVRANK {key} b
            ZSCORE {key} b
            ZMSCORE {key} b zz a
            ZCARD {key}
            ZRANDMEMBER {key} {count}
            ZRANDMEMBER {key} {count} WITHSCORES
            ZRANDMEMBER z {border} WITHSCORES
            ZRANDMEMBER none {border} WITHSCORES
            ZRANDMEMBER z 1 foo
            ZRANDMEMBER z 1 WITHSCORES x
            ZSCAN {key} {int}
            ZSCAN z 0 COUNT {int}
            ZSCAN u 0
        """, before=before, count=["0", "1", "3", "100", MAX, "abc", "9223372036854775808", '""', "1.0"],
            border=["-9223372036854775809", "-4611686018427387905", "4611686018427387904", MAX, "9223372036854775808"], **words)
        self.corners("""
            ZRANGESTORE {key} {key:2} 0 -1
            ZRANGESTORE none z {few} {few} {rev}
            ZRANGESTORE none u {score} {score:2} BYSCORE {rev}
            ZRANGESTORE z g {lex} + BYLEX {rev}
            ZRANGESTORE none z -inf +inf BYSCORE {limit}
            ZRANGESTORE none z 0 -1 {limit}
            ZRANGESTORE none z 0 -1 WITHSCORES
            ZRANGESTORE z z 1 2
        """, before=before, after="ZRANGE none 0 -1 WITHSCORES\nZRANGE z 0 -1 WITHSCORES\nTYPE l", **words)

    def test_algebra_of_sorted_sets(self):
        words = {"weights": ["", "WEIGHTS 0 1", "WEIGHTS inf -inf", "WEIGHTS -inf 0", "WEIGHTS 2 nan", "WEIGHTS 1", "WEIGHTS 1 2 3", "WEIGHTS abc 1", "WEIGHTS 1e308 1e308",
                             "WEIGHTS 1 1 WEIGHTS -1 -1", "WEIGHTS"],
                 "aggregate": ["", "AGGREGATE SUM", "AGGREGATE min", "AGGREGATE MAX", "AGGREGATE foo", "AGGREGATE", "AGGREGATE MIN AGGREGATE SUM"]}
        self.corners("""
            ZUNION 2 u z {weights} {aggregate} WITHSCORES
            ZINTER 2 u z {weights} {aggregate} WITHSCORES
            ZUNION 2 u t {weights} {aggregate}
            ZINTER 2 z t {weights} {aggregate}
            ZUNION {int} u z
            ZINTER {int} u z
            ZDIFF {int} u z
            ZINTERCARD {int} u z
            ZINTERCARD 2 u z LIMIT {int}
            ZINTERCARD 2 u z LIMIT 1 LIMIT 0
            ZINTERCARD 2 {key} {key:2}
            ZDIFF 2 {key} {key:2} WITHSCORES
            ZDIFF 2 u z WEIGHTS 1 2
            ZDIFF 2 u z AGGREGATE MIN
            ZINTERCARD 2 u z WITHSCORES
            ZUNION 2 {key} {key:2} WITHSCORES
            ZINTER 2 {key} {key:2}
            ZUNION 2 z z WITHSCORES foo
            ZUNIONSTORE {key} 2 u z {weights} {aggregate}
            ZINTERSTORE d 2 u z {weights} {aggregate}
            ZUNIONSTORE d 2 {key} {key:2}
            ZINTERSTORE z 2 {key} {key:2}
            ZDIFFSTORE z 2 {key} {key:2}
            ZDIFFSTORE d {int} u z
            ZUNIONSTORE d {int} u z
            ZUNIONSTORE d 1 z WITHSCORES
        """, before=TYPES + "ZADD u -inf a inf b 1 c 0 e -0 f\n", after="ZRANGE d 0 -1 WITHSCORES\nZRANGE z 0 -1 WITHSCORES\nZRANGE none 0 -1 WITHSCORES", **words)

    def test_geo(self):
        words = {"order": ["", "ASC", "DESC", "ASC DESC"], "count": ["", "COUNT 1", "COUNT 2 ANY", "COUNT 0", "COUNT -1", "COUNT abc", "ANY", "COUNT"],
                 "with": ["", "WITHDIST", "WITHCOORD WITHHASH WITHDIST", "foo"], "unit": ["m", "KM", "ft", "mi", "cm"],
                 "from": ["FROMMEMBER p", "FROMMEMBER nosuch", "FROMLONLAT 15 37", "FROMLONLAT 181 0", "FROMLONLAT 15", "", "FROMLONLAT abc 3", "FROMMEMBER p FROMLONLAT 1 1"],
                 "by": ["BYRADIUS 200 km", "BYBOX 400 400 km", "BYRADIUS -1 km", "BYBOX 0 0 m", "BYBOX -1 5 m", "BYRADIUS 0 m", "BYRADIUS 30000 km", "BYBOX 50000 50000 km",
                        "BYRADIUS 1", "BYRADIUS nan m", "BYRADIUS inf km", "", "BYRADIUS 1 km BYBOX 1 1 km", "BYRADIUS 1 foo"],
                 "lon": ["-180", "180", "180.0001", "-180.0001", "0", "nan", "inf", "abc", '""', "1e-400"],
                 "lat": ["-85.05112878", "85.05112878", "85.05112879", "-85.06", "0", "90", "nan", "abc"],
                 "flag": ["", "NX", "XX", "CH", "GT"]}
        before = TYPES + "GEOADD g 13.361389 38.115556 p 15.087269 37.502669 c 12.5 41.9 r 15.09 37.5 e 0 0 o\nGEOADD u 180 85 edge -180 -85 corner\n"
        self.corners("""
            GEOSEARCH g {from} {by}
            GEOSEARCH g {from} BYRADIUS 300 km {order} {count}
            GEOSEARCH g FROMMEMBER p {by} {order} {with}
            GEOSEARCH g BYBOX 500 500 {unit} FROMMEMBER c {order} {with}
            GEOSEARCH {key} FROMMEMBER p BYRADIUS 1 km
            GEOSEARCH {key} FROMLONLAT 0 0 BYRADIUS 1 km {with}
            GEOSEARCH g FROMMEMBER p BYRADIUS 1 km STOREDIST
            GEORADIUS g 15 37 {radius} {unit} {with} {order}
            GEORADIUS_RO g 15 37 200 km {count} {order}
            GEORADIUSBYMEMBER g p 200 {unit} {with} {count}
            GEORADIUSBYMEMBER_RO {key} p 200 km
            GEORADIUS_RO g 15 37 200 km STORE d
            GEORADIUS g {lon} {lat} 10 km
            GEODIST g p {member} {unit}
            GEODIST {key} p c
            GEODIST g p c m x
            GEOHASH {key} p c {member}
            GEOPOS {key} p c {member}
            GEOHASH u edge corner
            GEOPOS u edge corner
            GEOHASH g
            GEOPOS g
            GEORADIUS g 15 37 200 km {store} WITHDIST
        """, before=before, member=["c", "nosuch", "o"], radius=["0", "-1", "200", "1e10", "nan", "abc"], store=["STORE d", "STOREDIST d"], **words)
        self.corners("""
            GEOADD none {flag} {lon} {lat} m
            GEOADD g {flag} {flag:2} 1 1 p 2 2 new
            GEOADD {key} 1 1 m
            GEOADD g 1 1
            GEOADD g 1 1 m 2
            GEOSEARCHSTORE d g FROMMEMBER p {by} {order} {count}
            GEOSEARCHSTORE {key} {key:2} FROMLONLAT 15 37 BYRADIUS 1000 km
            GEOSEARCHSTORE d g FROMMEMBER p BYRADIUS 500 km STOREDIST {count}
            GEOSEARCHSTORE d g FROMMEMBER p BYRADIUS 500 km {with}
            GEORADIUS g 15 37 {radius} km {store}
            GEORADIUSBYMEMBER g p 200 km {store} {count} {order}
            GEORADIUS none 15 37 200 km STORE l
            GEORADIUSBYMEMBER none p 200 km STORE l
            GEORADIUSBYMEMBER g p 200 km STORE d STOREDIST z
        """, before=before, after="ZRANGE d 0 -1 WITHSCORES\nZRANGE none 0 -1 WITHSCORES\nZSCORE g p\nTYPE l", radius=["0", "200", "abc"],
            store=["STORE d", "STOREDIST d", "STORE", "STORE d STOREDIST none", "STOREDIST l", "STORE z STORE d"], **words)

    def test_hyperloglogs(self):
        self.corners("""
            PFADD {pf} a b c
            PFADD {pf}
            PFADD {pf} ""
            PFCOUNT {pf}
            PFCOUNT {pf} {pf:2}
            PFMERGE {pf} {pf:2} u
            PFMERGE d {pf} {pf:2}
            PFDEBUG ENCODING {pf}
            PFDEBUG TODENSE {pf}
            PFDEBUG DECODE {pf}
            PFDEBUG GETREG {pf}
            PFDEBUG foo {pf}
            SETRANGE u {few} abc
            APPEND u x
        """, before=TYPES + "PFADD u a b c d e\nPFADD g 1 2 3\nPFADD b\n", after="PFCOUNT u\nGETRANGE u 0 50\nGETRANGE d 0 50\nPFCOUNT none",
            pf=["u", "g", "b", "s", "l", "none", "n"])

    def test_sort(self):
        self.corners("""
            SORT i LIMIT {int} {int}
            SORT {key} {by} {order} {alpha}
            SORT i {by} {get} {order}
            SORT i {by} {get} LIMIT {few} {few} ALPHA
            SORT_RO {key} {alpha} {order}
            SORT_RO i STORE d
            SORT i LIMIT 1
            SORT i BY
            SORT i GET
            SORT i STORE
            SORT i FOO
            SORT {key} ALPHA STORE {key:2}
            SORT i {get} {get:2} STORE d
            SORT z BY nosort {order} LIMIT 1 2 STORE d
            SORT none STORE {key}
        """, before=TYPES + "SADD i 10\nMSET w_1 3 w_2 2 w_3 1 w_10 0 o_1 x o_2 \"\" \nHSET h_1 f 5 g G\nHSET h_2 f 4\n", after="LRANGE d 0 -1\nTYPE l\nTYPE none\nLRANGE l 0 -1",
            order=["", "ASC", "DESC", "DESC ASC"], alpha=["", "ALPHA"], by=["", "BY w_*", "BY nosort", "BY h_*->f", "BY h_*->nosuch", "BY *", "BY w_*->", "BY *->f", "BY o_*", "BY l*", "BY w_1"],
            get=["", "GET #", "GET o_*", "GET h_*->g", "GET h_*->", "GET nosuch", "GET *->f", "GET w_* GET # GET l"])

    def test_keys(self):
        self.corners("""
            EXPIRE {key} {time}
            PEXPIRE {key} {time}
            EXPIREAT {key} {time}
            PEXPIREAT {key} {time}
            EXPIRE s {when} {option} {option:2}
            EXPIRE n {when} {option}
            PEXPIREAT s {stamp} {option}
            PERSIST {key}
            COPY {key} {key:2} {copy}
            RENAME {key} {key:2}
            RENAMENX {key} {key:2}
            MOVE {key} {int}
            SELECT {few}
            SWAPDB {few} {few}
            EXISTS {key} {key:2}
            TOUCH {key} {key:2}
            UNLINK {key} {key:2}
            TYPE {key}
            OBJECT ENCODING {key}
            OBJECT ENCODING
            OBJECT FREQ none
            OBJECT foo s
            SCAN {int}
            SCAN 0 COUNT {int}
            SCAN 0 TYPE {type} COUNT 1000
            RESTORE none {time} abc
            RESTORE none 0 abc {restore}
            RESTORE {key} 0 abc
            DUMP none
            RANDOMKEY x
            KEYS {pattern}
            TTL {key}
            EXPIRETIME {key}
            PEXPIRETIME none
            DBSIZE x
        """, before="SELECT 0\n" + TYPES + "EXPIRE n 1000\n", after="SELECT 0\nTTL s\nTTL n\nTYPE none\nTYPE s\nEXISTS l",
            when=["0", "-1", "100", "2000", "9223372036854775", "9223370000000000", MIN], option=["", "NX", "XX", "GT", "LT", "foo"],
            stamp=["0", "99999999999999", "1", MAX], copy=["", "REPLACE", "DB 1", "DB 0 REPLACE", "DB 100", "DB abc", "DB", "foo", "DB -1 REPLACE"],
            type=["string", "LIST", "nosuch", "stream", "zset", "hash", '""'], restore=["REPLACE", "ABSTTL", "IDLETIME -1", "IDLETIME 1 FREQ 1", "FREQ 256", "FREQ -1", "IDLETIME abc", "foo"],
            pattern=["*", "[a-l]", "?", "none", '""', "[^n]", "\\\\l", "[\\\\l]", "["])

    def test_streams(self):
        self.corners("""
            XADD {key} {id} f v
            XADD x {trim} {id} f v
            XADD x NOMKSTREAM {trim} * f
            XADD none NOMKSTREAM * f v
            XADD x NOMKSTREAM
            XTRIM {key} {trim}
            XDEL {key} {id} 1-1
            XRANGE x {id} {id:2}
            XREVRANGE x {id} {id:2} COUNT {few}
            XRANGE x - + COUNT {int}
            XRANGE {key} - +
            XLEN {key}
            XREAD COUNT {few} STREAMS x {id}
            XREAD STREAMS {key} x 0 0
            XREAD STREAMS x
            XREAD BLOCK {timeout} STREAMS none 0
            XSETID {key} {id}
            XSETID x 9-9 {setid}
            XGROUP CREATE {key} g2 {id} {make}
            XGROUP CREATE {key} g2 $ ENTRIESREAD {few} {make}
            XGROUP SETID x {group} {id}
            XGROUP DESTROY {key} {group}
            XGROUP CREATECONSUMER {key} {group} c
            XGROUP DELCONSUMER {key} {group} c
            XREADGROUP GROUP {group} c COUNT {few} STREAMS x {id}
            XREADGROUP GROUP {group} c NOACK STREAMS x >
            XREADGROUP GROUP {group} c STREAMS {key} >
            XACK {key} {group} {id} 1-1
            XPENDING {key} {group}
            XPENDING x {group} {id} {id:2} {few}
            XPENDING x g IDLE {idle} - + 10 c
            XCLAIM x g c2 {idle} 1-1
            XCLAIM x g c2 0 {id} {claim}
            XCLAIM {key} {group} c2 0 1-1
            XAUTOCLAIM x g c2 {idle} {id}
            XAUTOCLAIM x g c2 0 0 COUNT {int}
            XAUTOCLAIM {key} {group} c2 0 0 JUSTID
            XINFO STREAM {key}
            XINFO GROUPS {key}
            XINFO CONSUMERS {key} {group}
            XINFO STREAM x FULL COUNT {some}
            XINFO STREAM x FOO
        """, before=TYPES + "XADD x 1-2 f v g w\nXADD x 3-0 f v\nXGROUP CREATE x g 0\nXREADGROUP GROUP g c COUNT 2 STREAMS x >\n", after="XRANGE x - +\nXPENDING x g - + 10\nXLEN none",
            id=["0", "1-1", "1-2", "2", "5-5", "0-0", "-", "+", "(1-1", "(3-0", ">", "abc", '""', "1-", "-1", "18446744073709551615-18446744073709551615", "18446744073709551616", "(-", "1-abc",
                "(18446744073709551615-18446744073709551615", "(0-0"],
            trim=["MAXLEN 1", "MAXLEN ~ 1", "MAXLEN = 0", "MINID 1-2", "MINID ~ 3", "MAXLEN -1", "MAXLEN abc", "MAXLEN 1 LIMIT 1", "MAXLEN ~ 1 LIMIT 1", "MAXLEN ~ 1 LIMIT -1",
                  "MINID 1 MAXLEN 1", "MAXLEN", "MINID abc", "LIMIT 1", "MAXLEN ~ 1 LIMIT 0", "MAXLEN " + MAX], timeout=["1", "-1", "abc", "1.5"],
            setid=["ENTRIESADDED 5", "ENTRIESADDED 1", "ENTRIESADDED -1", "MAXDELETEDID 1-1", "MAXDELETEDID 99-0", "ENTRIESADDED 5 MAXDELETEDID 0-0", "foo"],
            make=["", "MKSTREAM", "foo"], group=["g", "nogroup"],
            claim=["JUSTID", "FORCE", "RETRYCOUNT 5", "RETRYCOUNT -1", "IDLE 100", "IDLE -1", "TIME 0", "TIME abc", "LASTID 9-9", "LASTID abc", "foo", "FORCE JUSTID"])


@kelvin_only
class ColdCornerTest(CornerTest):
    """The same with all keys cold before each command."""
    cold = True
    cases_max = CASES_MAX // 3


if __name__ == "__main__":
    main()
