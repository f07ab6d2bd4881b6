"""Keyspace notifications: one subscriber on the server under test and one on redis-server must get the same events in the same order, for
every command, with hot and with cold keys; and those of expiry, eviction and blocking commands."""
import collections
import difflib
import importlib
import os
import random
import select
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support.case import PairCase, ServerCase, kelvin_only, main                                     # noqa: E402
from support.disk import DELAY, Disk
from support.resp import encode                                                         # noqa: E402
from support.scripts import ScriptCase                                                               # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, under_test, until                                 # noqa: E402
from tier_test import demote_all                                                                     # noqa: E402

MARK = b"__key mark"
ALL = {"notify-keyspace-events": "AKEnm"}


class Listener:
    """A subscriber to all events of a server."""

    def __init__(self, server, patterns=("__key*",)):
        self.server = server
        self.publisher = server.client()
        self.subscriber = server.client()
        for pattern in patterns + (MARK,):
            self.subscriber.must("PSUBSCRIBE", pattern)

    def close(self):
        self.publisher.close()
        self.subscriber.close()

    def events(self):
        """All events so far, as "channel message"."""
        self.publisher.must("PUBLISH", MARK, "")
        events = []
        while True:
            _, pattern, channel, message = self.subscriber.receive()
            if pattern == MARK:
                return events
            if channel != MARK:
                events.append("%s %s" % (channel.decode("latin1"), message.decode("latin1")))

    def wait(self, *events):
        """Waits until these events have come; others may come as well."""
        found = []

        def came():
            found.extend(self.events())
            return all(event in found for event in events)
        until(came, what="the events %r; there were %r" % (events, found))
        return found


class Notified:
    """Mixed into a PairCase: after each script of `both`, the events of both servers must be the same."""

    options = ALL

    def setUp(self):
        super().setUp()
        self.ours, self.theirs = Listener(self.server), Listener(self.oracle)
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)
        self.expire_actively(0)

    def expire_actively(self, on):
        for client in (self.c, self.r):
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", on)

    def both(self, script, clients=None):
        self.ours.events()
        self.theirs.events()
        replies = super().both(script, clients)
        self.assert_same_events(script)
        return replies

    def assert_same_events(self, what):
        ours, theirs = self.ours.events(), self.theirs.events()
        if ours != theirs:
            self.fail("events differ (- ours, + those of redis-server)\n%s\nafter\n%s" % ("\n".join(difflib.ndiff(ours, theirs)), what))

    def each(self, script):
        """`both` with one command at a time, so that a failure shows the command."""
        for line in script.strip().splitlines():
            if line.strip() and not line.strip().startswith("#"):
                self.both(line)


class CommandTest(Notified, PairCase):
    def test_strings(self):
        self.each("""
            SET k 1
            SET k 2
            SET k 3 EX 100
            SET k 4 KEEPTTL
            SET k 5 NX
            SET missing 5 XX
            SET missing 5 XX GET
            SET k 6 XX GET PX 100000
            SET new 6 GET
            SET new 6 NX GET
            SETNX k 1
            SETNX other 1
            SETEX k 100 v
            PSETEX k 100000 v
            GETSET k 7
            GETSET absent 7
            MSET a 1 b 2 a 3
            MSETNX a 1 z 1
            MSETNX y 1 z 1
            APPEND k x
            APPEND k ""
            APPEND fresh x
            APPEND empty ""
            SETRANGE k 3 abc
            SETRANGE k 0 ""
            SETRANGE none 0 ""
            SETRANGE none 2 x
            SET n 5
            INCR n
            DECR n
            INCRBY n 3
            DECRBY n 3
            INCRBYFLOAT n 1.5
            INCRBYFLOAT float 1.5
            INCR counter
            INCR k
            GETEX k
            GETEX k EX 100
            GETEX k PERSIST
            GETEX k PERSIST
            GETEX k EXAT 1
            GETEX k
            GETDEL n
            GETDEL n
            GET n
            MGET n a n
            STRLEN n
            GETRANGE n 0 1
            SUBSTR n 0 1
            LCS n a
            SET past v EXAT 1
            GET past
            SET past v PXAT 1
            SET past w
        """)

    def test_bitmaps(self):
        self.each("""
            SETBIT k 7 1
            SETBIT k 7 1
            SETBIT k 7 0
            SETBIT k 100 0
            SETBIT k 100 0
            BITFIELD k SET u8 0 5 INCRBY u4 8 3
            BITFIELD k SET u8 0 5
            BITFIELD k GET u8 0
            BITFIELD missing GET u8 0
            BITFIELD_RO missing GET u8 0
            BITFIELD k OVERFLOW FAIL INCRBY u2 0 9
            BITFIELD failed OVERFLOW FAIL INCRBY u2 0 9
            BITFIELD fresh SET u8 0 0
            BITFIELD wide SET u8 80 1
            BITOP AND d k missing
            BITOP OR d k
            BITOP NOT e k
            BITOP AND d missing
            BITOP AND d missing
            BITCOUNT missing
            BITPOS missing 1
            GETBIT missing 1
        """)

    def test_lists(self):
        self.each("""
            LPUSH k a b c d e f
            RPUSH k x
            LPUSHX k y
            RPUSHX missing y
            LINSERT k BEFORE a new
            LINSERT k BEFORE nothing new
            LINSERT missing BEFORE nothing new
            LSET k 0 z
            LSET k 0 z
            LREM k 1 b
            LREM k 1 b
            LTRIM k 0 4
            LTRIM k 0 -1
            LPOP k
            RPOP k
            LPOP k 0
            LPOP k 2
            LPOP missing
            RPOP k 9
            RPUSH k a b c d
            LMOVE k k LEFT RIGHT
            LMOVE k k LEFT LEFT
            LMOVE k other LEFT RIGHT
            RPOPLPUSH k other
            RPOPLPUSH missing other
            RPOPLPUSH other other
            LMPOP 2 missing k LEFT COUNT 1
            LMPOP 2 missing k RIGHT COUNT 9
            LMPOP 2 missing k RIGHT COUNT 9
            RPUSH one 1
            LMOVE one one LEFT RIGHT
            LMOVE one two LEFT RIGHT
            RPUSH one 1
            LREM one 0 1
            RPUSH one 1
            LTRIM one 5 9
            LTRIM one 5 9
            BLPOP two 0
            RPUSH two 1 2
            BRPOP missing two 0
            BLMOVE two three LEFT LEFT 0
            BRPOPLPUSH three three 0
            BLMPOP 0 2 missing three LEFT
            LLEN missing
            LRANGE missing 0 -1
            LINDEX missing 0
            LPOS missing a
            LLEN k
        """)

    def test_sets(self):
        self.each("""
            SADD k a b c
            SADD k a
            SADD k a d
            SREM k a nothing
            SREM k nothing
            SREM missing x
            SMOVE k other b
            SMOVE k other nothing
            SMOVE k k c
            SADD other c
            SMOVE k other c
            SMOVE k other d
            SMOVE missing other d
            SPOP other
            SPOP other 0
            SPOP other 1
            SPOP other 9
            SPOP other
            SADD x 1 2 3
            SADD y 2 3 4
            SINTERSTORE d x y
            SUNIONSTORE d x y
            SDIFFSTORE d x y
            SINTERSTORE d x missing
            SINTERSTORE d x missing
            SUNIONSTORE d missing missing
            SDIFFSTORE d missing x
            SDIFFSTORE x x y
            SINTERSTORE x x missing
            SADD one 1
            SREM one 1
            SINTER missing x
            SINTERCARD 2 missing y
            SDIFF missing y
            SUNION missing y
            SCARD missing
            SISMEMBER missing a
            SMISMEMBER missing a b
            SMEMBERS missing
            SRANDMEMBER missing
            SSCAN missing 0
        """)

    def test_hashes(self):
        self.each("""
            HSET k a 1 b 2
            HSET k a 1
            HMSET k c 3
            HSETNX k a 9
            HSETNX k d 9
            HSETNX fresh d 9
            HINCRBY k a 5
            HINCRBY counts a 5
            HINCRBYFLOAT k a 0.5
            HINCRBYFLOAT floats a 0.5
            HINCRBY k a nothing
            HDEL k a nothing
            HDEL k nothing
            HDEL missing nothing
            HDEL k b c d e
            HGET missing a
            HMGET missing a b
            HGETALL missing
            HKEYS missing
            HVALS missing
            HLEN missing
            HEXISTS missing a
            HSTRLEN missing a
            HRANDFIELD missing
            HSCAN missing 0
        """)

    def test_sorted_sets(self):
        self.each("""
            ZADD k 1 a 2 b 3 c
            ZADD k 1 a
            ZADD k 2 a
            ZADD k CH 3 a
            ZADD k XX 4 nothing
            ZADD missing XX 4 nothing
            ZADD k GT 1 a
            ZADD k INCR 5 a
            ZADD k NX INCR 5 a
            ZADD fresh INCR 5 a
            ZINCRBY k 0 a
            ZINCRBY k 2 new
            ZREM k new nothing
            ZREM k nothing
            ZADD k 1 l 2 m 3 n 4 o 5 p
            ZREMRANGEBYSCORE k 100 200
            ZREMRANGEBYSCORE k 1 1
            ZREMRANGEBYRANK k 0 0
            ZREMRANGEBYRANK k 100 101
            ZADD lex 0 a 0 b 0 c
            ZREMRANGEBYLEX lex [a [a
            ZREMRANGEBYLEX lex - +
            ZREMRANGEBYLEX lex - +
            ZPOPMIN k
            ZPOPMAX k 2
            ZPOPMIN k 0
            ZPOPMIN missing
            ZMPOP 2 missing k MIN COUNT 1
            ZPOPMIN k 99
            ZADD x 1 a 2 b
            ZADD y 1 b 2 c
            ZUNIONSTORE d 2 x y
            ZINTERSTORE d 2 x y
            ZDIFFSTORE d 2 x y
            ZRANGESTORE d x 0 -1
            ZRANGESTORE d x 7 9
            ZRANGESTORE d x 7 9
            ZRANGESTORE d missing 0 -1
            ZINTERSTORE d 2 x missing
            ZUNIONSTORE d 2 x y
            ZINTERSTORE d 2 x missing
            ZDIFFSTORE d 1 missing
            BZPOPMIN x 0
            BZPOPMAX x 0
            BZMPOP 0 1 y MAX
            BZMPOP 0 1 y MAX COUNT 5
            ZINTER 2 missing x
            ZUNION 2 missing x
            ZDIFF 2 missing x
            ZINTERCARD 2 missing x
            ZSCORE missing a
            ZMSCORE missing a b
            ZRANK missing a
            ZREVRANK missing a
            ZCARD missing
            ZCOUNT missing 1 2
            ZLEXCOUNT missing - +
            ZRANGE missing 0 -1
            ZREVRANGE missing 0 -1
            ZRANGEBYSCORE missing 1 2
            ZRANGEBYLEX missing - +
            ZRANDMEMBER missing
            ZSCAN missing 0
        """)

    def test_places(self):
        self.each("""
            GEOADD k 13.36 38.11 Palermo 15.08 37.50 Catania
            GEOADD k 13.36 38.11 Palermo
            GEOADD k XX CH 13.37 38.11 Palermo
            GEORADIUS k 15 37 200 km STORE d
            GEORADIUSBYMEMBER k Palermo 1 m STOREDIST d
            GEORADIUS k 1 1 1 km STORE d
            GEORADIUS k 1 1 1 km STORE d
            GEOSEARCHSTORE d k FROMLONLAT 15 37 BYRADIUS 200 km
            GEOSEARCHSTORE d k FROMLONLAT 1 1 BYRADIUS 1 km
            GEORADIUS missing 15 37 200 km STORE d
            GEOSEARCHSTORE d missing FROMLONLAT 1 1 BYRADIUS 1 km
            GEOPOS missing a
            GEODIST missing a b
            GEOHASH missing a
            GEOSEARCH missing FROMLONLAT 1 1 BYRADIUS 1 km
            GEORADIUS_RO missing 15 37 200 km
        """)

    def test_streams(self):
        self.each("""
            XADD k 1-1 a b
            XADD k NOMKSTREAM 1-2 a b
            XADD missing NOMKSTREAM 1-2 a b
            XADD k 1-1 a b
            XADD k MAXLEN 1 2-1 a b
            XADD k MAXLEN 5 3-1 a b
            XADD k MINID 3 4-1 a b
            XTRIM k MAXLEN 100
            XTRIM k MAXLEN 1
            XADD k 5-1 a b
            XADD k 6-1 a b
            XDEL k 5-1 9-9
            XDEL k 9-9
            XDEL missing 9-9
            XSETID k 9-9
            XGROUP CREATE k g 0
            XGROUP CREATE k g 0
            XGROUP CREATE fresh g $ MKSTREAM
            XGROUP CREATE missing g $
            XGROUP SETID k g 0
            XGROUP CREATECONSUMER k g me
            XGROUP CREATECONSUMER k g me
            XREADGROUP GROUP g me STREAMS k >
            XREADGROUP GROUP g me STREAMS k 0
            XREADGROUP GROUP g you STREAMS k 0
            XREADGROUP GROUP g me STREAMS missing 0
            XCLAIM k g they 0 6-1
            XCLAIM k g they 0 6-1 JUSTID
            XAUTOCLAIM k g someone 0 0
            XACK k g 4-1 6-1
            XACK k g 4-1
            XACK missing g 4-1
            XCLAIM missing g they 0 6-1
            XAUTOCLAIM missing g someone 0 0
            XAUTOCLAIM missing g someone x 0
            XAUTOCLAIM missing g someone 0 0 NOSUCH
            XGROUP DELCONSUMER k g me
            XGROUP DELCONSUMER k g me
            XGROUP DESTROY k g
            XGROUP DESTROY k g
            XTRIM k MAXLEN 0
            XLEN missing
            XRANGE missing - +
            XREVRANGE missing + -
            XREAD STREAMS missing 0
            XREAD STREAMS missing $
            XREAD STREAMS k missing 0 0
            XINFO STREAM missing
            XINFO GROUPS missing
            XPENDING missing g
            DEL k
        """)

    def test_hyperloglogs(self):
        self.each("""
            PFADD k a b c
            PFADD k a b c
            PFADD empty
            PFADD empty
            PFCOUNT k
            PFCOUNT k empty missing
            PFMERGE d k empty
            PFMERGE d k
            PFMERGE d missing
            PFMERGE fresh
            PFCOUNT missing
        """)

    def test_keys(self):
        self.each("""
            MSET a 1 b 2 c 3
            RENAME a d
            RENAME d b
            RENAME b b
            RENAME missing b
            RENAMENX b c
            RENAMENX b e
            COPY e f
            COPY e f
            COPY e f REPLACE
            COPY missing f
            COPY e f DB 1
            COPY e f DB 1 REPLACE
            MOVE e 1
            MOVE f 1
            MOVE missing 1
            SET k v
            EXPIRE k 100
            PEXPIRE k 100000
            EXPIREAT k 9999999999
            EXPIRE k 10 GT
            EXPIRE k 10 XX
            EXPIRE missing 10
            PERSIST k
            PERSIST k
            EXPIRE k -1
            SET k v
            EXPIREAT k 1
            SET k v
            PEXPIREAT k 1
            MSET k 1 l 2
            DEL k l missing
            MSET k 1 l 2
            UNLINK k l missing
            TYPE missing
            TTL missing
            PTTL missing
            EXPIRETIME missing
            EXISTS missing missing c
            TOUCH missing c
            DUMP missing
            OBJECT ENCODING missing
            OBJECT REFCOUNT missing
            OBJECT IDLETIME missing
            MEMORY USAGE missing
            DEBUG OBJECT missing
            RANDOMKEY
            SCAN 0
            DBSIZE
        """)

    def test_restore(self):
        self.both("SET k v")
        payload = self.r.must("DUMP", "k")
        for command in (["RESTORE", "a", 0, payload], ["RESTORE", "a", 0, payload], ["RESTORE", "a", 0, payload, "REPLACE"],
                        ["RESTORE", "b", 100000, payload], ["RESTORE", "b", 1, payload, "REPLACE", "ABSTTL"],
                        ["RESTORE", "c", 1, payload, "ABSTTL"], ["RESTORE", "d", 0, payload, "IDLETIME", 5], ["RESTORE", "a", 0, "x", "REPLACE"]):
            self.both([command])

    def test_sort(self):
        self.each("""
            RPUSH k 3 1 2
            SORT k
            SORT k STORE d
            SORT k STORE d
            SORT k LIMIT 9 9 STORE d
            SORT k LIMIT 9 9 STORE d
            SORT missing
            SORT_RO missing
            SORT missing STORE d
            MSET w_1 1 w_2 2 o_1 x
            SORT k BY w_*
            SORT k BY w_* GET o_* STORE d
            SORT k STORE k
        """)

    def test_transactions_and_scripts(self):
        """What their commands do is notified in order, also if a script fails afterwards, or a command of a transaction does."""
        self.both("""
            RPUSH l a
            MULTI
            SET k v EX 100
            GET missing
            INCR k
            LPOP l
            LPUSH q a
            DEL q
            EXEC
            MULTI
            SET k w
            DISCARD
            MULTI
            FLUSHALL
            SET k v
            SWAPDB 0 1
            SELECT 1
            DEL k
            SELECT 0
            EXEC
        """)
        self.both([
            ["EVAL", "redis.call('SET', KEYS[1], 'v'); redis.call('GET', 'missing'); return redis.call('DEL', 'k')", 1, "k"],
            ["EVAL", "redis.call('SET', 'k', 'v'); error('failed')", 0],
            ["EVAL", "redis.call('SET', 'k', 'v'); return redis.call('INCR', 'k')", 0],
            ["EVAL", "redis.pcall('INCR', 'k'); redis.call('GETEX', 'k', 'EX', 100); return redis.call('TTL', 'none')", 0],
            ["EVAL", "return {}", 0],
            # It starts again for each cold key that it did not declare; what it misses is one event all the same.
            ["MSET", "a", "b", "b", "c", "c", "d"],
            ["EVAL", "redis.call('GET', 'none'); local k = 'a'; for i = 1, 3 do k = redis.call('GET', k) end; return redis.call('GET', k)", 0],
            ["EVAL", "redis.call('GET', 'none'); local k = 'a'; for i = 1, 3 do k = redis.call('GET', k) end; return redis.call('SET', k, 1)", 0],
        ])
        self.both([["CONFIG", "SET", "notify-keyspace-events", ""], ["MULTI"], ["SET", "k", "1"],
                   ["CONFIG", "SET", "notify-keyspace-events", "AKEnm"], ["SET", "k", "2"], ["EXEC"]])

    def test_a_command_that_fails_changes_nothing(self):
        self.each("""
            RPUSH l a
            SET s v
            APPEND l x
            INCR s
            LPUSH s a
            SADD s a
            ZADD s 1 a
            HSET s a 1
            XADD s * a b
            PFADD l a
            SETBIT l 1 1
            SETRANGE l 1 1
            LMOVE l s LEFT LEFT
            SMOVE l s a
            SINTERSTORE d l
            ZUNIONSTORE d 1 s
            RENAME s
            SET s v EX 0
            EXPIRE s nothing
            GETEX l
            GETSET l 1
            GETDEL l
            SET l x GET
            GET l
        """)

    def test_flushing_and_swapping_notify_no_client(self):
        self.each("""
            MSET a 1 b 2
            SWAPDB 0 1
            SELECT 1
            GET a
            FLUSHDB
            SET a 1
            FLUSHALL
            SELECT 0
        """)

    def test_other_databases(self):
        self.each("""
            SELECT 3
            SET k v
            MOVE k 5
            SELECT 5
            COPY k l DB 0
            DEL k
        """)

    def test_names_with_any_bytes(self):
        names = [b"", b"a b", b"\x00\r\n\xff", b"x" * 300, b"__keyspace@0__:k", b"*?[a]"]
        for name in names:
            self.both([["SET", name, "v"], ["EXPIRE", name, 100], ["DEL", name]])

    def test_keys_that_expire(self):
        """An event when the key is deleted: at an access, or by the search for expired keys."""
        for line in ("GET {}", "SET {} w", "DEL {}", "EXISTS {}", "INCR {}", "LPUSH {} a", "RENAME other {}", "COPY other {}", "EXPIRE {} 10",
                     "TTL {}", "MGET {} {}", "SINTERSTORE {} s", "OBJECT ENCODING {}", "GETEX {} EX 10",
                     "SETNX {} v", "GETDEL {}", "BITOP NOT {} other"):
            with self.subTest(line):
                for client in (self.c, self.r):
                    client.must("FLUSHALL")
                    client.must("SET", "other", "v")
                    client.must("SADD", "s", "a")
                    client.must("SET", "k", "v", "PX", 1)
                time.sleep(0.003)
                self.assert_same_events("the preparation")
                self.before_command()
                self.both(line.format(*["k"] * 2))

    def test_active_expiry(self):
        self.expire_actively(1)
        for client in (self.c, self.r):
            client.must("SET", "k", "v", "PX", 20)
        self.before_command()
        for listener in (self.ours, self.theirs):
            found = listener.wait("__keyspace@0__:k expired", "__keyevent@0__:expired k")
            self.assertEqual(found, ["__keyspace@0__:k new", "__keyevent@0__:new k", "__keyspace@0__:k set", "__keyevent@0__:set k",
                                     "__keyspace@0__:k expire", "__keyevent@0__:expire k",
                                     "__keyspace@0__:k expired", "__keyevent@0__:expired k"])


class Cold:
    def before_command(self):
        if not hasattr(self, "demoter"):
            self.demoter = self.server.client()
            self.addCleanup(self.demoter.close)
        demote_all(self.demoter, 6)


@kelvin_only
class ColdCommandTest(Cold, CommandTest):
    """The same with all keys cold before every command: moving keys between the tiers is no event."""


class ClassTest(PairCase):
    """Which events are sent, by the classes that are set."""

    script = """
        SET k v EX 100
        GET missing
        APPEND k x
        RENAME k l
        DEL l
        RPUSH k a
        SORT k STORE l
        DEL k l
        SADD k a
        SPOP k
        HSET k f v
        HDEL k f
        ZADD k 1 a
        ZREM k a
        XADD k 1-1 a b
        XTRIM k MAXLEN 0
        DEL k
        PFADD k a
        SET k v PXAT 1
        GET k
    """

    def test_every_class(self):
        ours, theirs = Listener(self.server), Listener(self.oracle)
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        for flags in ("KEg", "KE$", "KEl", "KEs", "KEh", "KEz", "KEt", "KEx", "KEn", "KEm", "KEA", "KEd", "Kg$", "E$", "KE", "A", "g$lshzxetmn",
                      "Ex", "Kx", "", "AKEnm"):
            self.both([["CONFIG", "SET", "notify-keyspace-events", flags], ["CONFIG", "GET", "notify-keyspace-events"]])
            self.both(self.script)
            self.assertEqual(ours.events(), theirs.events(), flags)
        self.both("CONFIG SET notify-keyspace-events KEq\nCONFIG GET notify-keyspace-events\nCONFIG SET notify-keyspace-events \"\"")

    def test_channels_and_patterns(self):
        self.both("CONFIG SET notify-keyspace-events AKE")
        for patterns in (("__keyspace@0__:k",), ("__keyevent@0__:del",), ("__keyevent@*__:*",), ("__keyspace@1__:*",)):
            ours, theirs = Listener(self.server, patterns), Listener(self.oracle, patterns)
            self.both("SET k v\nSET l w\nDEL k l\nSELECT 1\nSET k v\nDEL k\nSELECT 0")
            self.assertEqual(ours.events(), theirs.events(), patterns)
            ours.close()
            theirs.close()
        self.both("CONFIG SET notify-keyspace-events \"\"")


class BlockingTest(ScriptCase):
    """Of clients that wait: what serves them comes first, then what they do."""

    options = ALL

    def run_script(self, script, protocol=2):
        ours, theirs = Listener(self.server), Listener(self.oracle)
        log = super().run_script(script, protocol)
        found = ours.events(), theirs.events()
        ours.close()
        theirs.close()
        self.assertEqual(*found, "\n".join(log))

    def test_pops(self):
        self.run_script("""
            a BLPOP k 0
            b BRPOP k 0
            p RPUSH k 1
            p RPUSH k 2 3
            a BLMPOP 0 2 x y LEFT COUNT 2
            p RPUSH y 1 2 3
            a BZPOPMIN z 0
            p ZADD z 1 m
            b BZMPOP 0 1 z MAX COUNT 3
            p ZADD z 1 m 2 n
        """)

    def test_chains_of_moves(self):
        self.run_script("""
            a BLMOVE x y LEFT RIGHT 0
            b BLMOVE y z LEFT RIGHT 0
            c BRPOPLPUSH z w 0
            d BLPOP w 0
            p RPUSH x 1 2
        """)

    def test_what_fills_a_key(self):
        self.run_script("""
            p RPUSH other 1
            a BLPOP k 0
            p RENAME other k
            p RPUSH other 1
            a BLPOP k 0
            p COPY other k
            a BLPOP k 0
            p SORT other STORE k
            a BLPOP k 0
            p SELECT 1
            p RPUSH k 1
            p MOVE k 0
        """)

    def test_streams(self):
        self.run_script("""
            a XREAD BLOCK 0 STREAMS k $
            p XADD k 1-1 f v
            p XGROUP CREATE k g $
            p XGROUP CREATECONSUMER k g me
            a XREADGROUP GROUP g me BLOCK 0 STREAMS k >
            p XADD k MAXLEN 1 1-2 f v
            a XREADGROUP GROUP g me BLOCK 0 STREAMS k >
            p XADD k 1-3 f v
        """)


@kelvin_only
class ColdBlockingTest(BlockingTest):
    demote = True


@kelvin_only
class TierTest(ServerCase):
    """What depends on where a key is."""

    options = dict(ALL, **{"appendonly": "yes"})

    def setUp(self):
        super().setUp()
        self.listener = Listener(self.server, ("__keyevent*",))
        self.addCleanup(self.listener.close)
        self.c.must("CONFIG", "SET", "notify-keyspace-events", "AKEnm")

    def events(self):
        return [event.replace("__keyevent@0__:", "") for event in self.listener.events()]

    def demote(self, *keys):
        # The log grows enough for an automatic rewrite: until its image is made, keys that were changed meanwhile stay hot.
        until(lambda: self.c.must("TIER", "DEMOTE", *keys) == len(keys), what="the keys are cold")
        for key in keys:
            self.assertEqual(self.c.must("TIER", "WHERE", key), b"cold")

    def tiering(self, name):
        return int(self.server.info("tiering")[name])

    def test_a_cold_key_expires_without_an_access(self):
        before = self.tiering("tier_expired_cold")
        self.c.must("SET", "k", "v", "PX", 1500)
        self.demote("k")
        found = self.listener.wait("__keyevent@0__:expired k")
        self.assertEqual(found, ["__keyevent@0__:" + event for event in ("new k", "set k", "expire k", "expired k")])
        self.assertEqual(self.tiering("tier_expired_cold"), before + 1)

    def test_a_cold_hash_whose_last_field_expires(self):
        before = self.tiering("tier_expired_cold")
        self.c.must("HSET", "h", "f", "v")
        self.c.must("HPEXPIRE", "h", 1500, "FIELDS", 1, "f")
        self.demote("h")
        found = self.listener.wait("__keyevent@0__:del h")
        self.assertEqual(found, ["__keyevent@0__:" + event for event in ("new h", "hset h", "hexpire h", "hexpired h", "del h")])
        self.assertEqual(self.tiering("tier_expired_cold"), before + 1)

    def test_fields_that_expire_are_events_of_their_hash(self):
        for active in (1, 0):
            self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
            self.c.must("HSET", "h", "f", "1", "g", "2", "keep", "3")
            self.c.must("HPEXPIRE", "h", 20, "FIELDS", 1, "f")
            self.c.must("HPEXPIRE", "h", 20, "FIELDS", 1, "g")
            self.events()
            if active:
                self.assertEqual(self.listener.wait("__keyevent@0__:hexpired h"), ["__keyevent@0__:hexpired h"])
            else:
                time.sleep(0.03)
                self.c.must("HGET", "h", "f")
                self.assertEqual(self.events(), ["hexpired h"])
            self.c.must("HPEXPIRE", "h", 20, "FIELDS", 1, "keep")
            if active:
                self.assertEqual(self.listener.wait("__keyevent@0__:del h"),
                                 ["__keyevent@0__:" + event for event in ("hexpire h", "hexpired h", "del h")])
            else:
                time.sleep(0.03)
                self.assertEqual(self.c.must("HGET", "h", "keep"), None)
                self.assertEqual(self.events(), ["hexpire h", "hexpired h", "del h", "keymiss h"])
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    def test_overwriting_a_cold_key_creates_none(self):
        self.c.must("MSET", "a", "1", "b", "2")
        self.demote("a", "b")
        self.events()
        self.c.must("SET", "a", "2")
        self.c.must("MSET", "b", "2", "c", "3")
        self.assertEqual(self.events(), ["set a", "set b", "new c", "set c"])

    def test_overwriting_a_cold_key_that_had_expired(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.c.must("SET", "k", "1", "PX", 1500)
        self.demote("k")
        self.events()
        time.sleep(1.6)
        self.c.must("SET", "k", "2")
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        self.assertEqual(self.events(), ["expired k", "new k", "set k"])

    def test_an_overwritten_key_is_loaded_only_if_an_event_depends_on_it(self):
        for classes, blind in (("", 1), ("KE$", 1), ("KE$n", 0), ("KEx", 0), ("KEA", 0), ("n", 1)):
            self.c.must("CONFIG", "SET", "notify-keyspace-events", classes)
            self.c.must("SET", "k", "1")
            self.demote("k")
            before = self.tiering("tier_blind_writes")
            self.c.must("SET", "k", "2")
            self.assertEqual(self.tiering("tier_blind_writes") - before, blind, classes)

    def test_moving_between_the_tiers_is_no_event(self):
        self.c.must("SET", "k", "1")
        self.events()
        for _ in range(3):
            self.demote("k")
            self.c.must("TIER", "PROMOTE", "k")
        self.demote("k")
        self.c.must("GET", "k")
        self.c.must("BGREWRITEAOF")
        self.assertEqual(self.events(), [])

    def test_a_miss_is_one_event(self):
        """Other keys of the call have to be loaded first, or are known only after others were read."""
        self.c.must("MSET", "a", "1", "b", "2", "w_1", "5")
        self.c.must("RPUSH", "l", "1", "2", "3")
        self.demote("a", "b", "l", "w_1")
        self.events()
        self.assertEqual(self.c.must("MGET", "none", "a", "b"), [None, b"1", b"2"])
        self.assertEqual(self.events(), ["keymiss none"])
        self.c.must("SORT", "l", "BY", "w_*")
        self.assertEqual(sorted(self.events()), ["keymiss w_2", "keymiss w_3"])

    def test_a_miss_of_a_call_that_runs_again_is_one_event(self):
        """Its reply refers to a long string, and the replies of others hold too many already: it waits."""
        self.c.must("CONFIG", "SET", "maxmemory", 200 << 20)
        self.addCleanup(self.c.must, "CONFIG", "SET", "maxmemory", 0)
        readers = [self.server.client() for _ in range(12)]
        self.c.must("SET", "big", "x" * (8 << 20))
        for i, reader in enumerate(readers):
            reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            self.c.must("SET", "big%d" % i, "x" * (8 << 20))
            reader.send(encode(["GET", "big%d" % i]))
        time.sleep(0.2)
        self.events()
        with self.server.client() as other:
            other.send(encode(["MGET", "none", "big"]))
            self.assertEqual(select.select([other.socket], [], [], 0.3)[0], [])
            self.assertEqual(self.events(), [])
            for reader in readers:
                reader.close()
            self.assertEqual(other.receive()[0], None)
            self.assertEqual(self.events(), ["keymiss none"])

    def test_a_miss_of_a_script_that_starts_again_is_one_event(self):
        """It needs a key that another script owns, for which it may not wait."""
        self.c.must("MSET", "b", "1", "c", "1")
        self.events()
        slow = "local n = 0; for i = 1, 3e7 do n = n + 1 end; return redis.call('GET', KEYS[1])"
        with self.server.client() as owner:
            for key in "bc":
                owner.send(encode(["EVAL", slow, 1, key]))
                reply = self.c.call("EVAL_RO", "redis.call('GET', 'none'); return redis.call('GET', '%s')" % key, 0)
                self.assertEqual(reply, b"1")
                self.assertEqual(owner.receive(), b"1")
                self.assertEqual(self.events(), ["keymiss none"])


@kelvin_only
@unittest.skipIf(is_sanitized(), "sanitizers have an allocator of their own, which does not count memory")
class EvictionTest(ServerCase):
    options = dict(ALL, **{"tier-enabled": "no"})

    def test_every_evicted_key_is_an_event(self):
        listener = Listener(self.server, ("__keyevent*__:evicted",))
        self.addCleanup(listener.close)
        self.c.must("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        self.c.must("CONFIG", "SET", "maxmemory", int(self.server.info("memory")["used_memory"]) + (8 << 20))
        keys, found = 0, []
        while len(found) < 200 and keys < 50000:
            self.c.pipeline(["SET", "k%d" % i, "v" * 5000] for i in range(keys, keys + 500))
            keys += 500
            found += [event.split(" ")[1].encode() for event in listener.events()]
        self.assertGreaterEqual(len(found), 200)
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(len(found), int(self.server.info("stats")["evicted_keys"]))
        self.assertEqual(set(found) | set(self.c.must("KEYS", "*")), {b"k%d" % i for i in range(keys)})


@kelvin_only
class ThreadsTest(unittest.TestCase):
    """The order of a key's events is that of its changes, whichever workers and threads make them, and whatever moves meanwhile."""

    KEYS = [b"k%d" % i for i in range(4)]

    def line(self, chance):
        key = chance.choice(self.KEYS)
        return chance.choice([["SET", key, "v"], ["SET", key, "v"], ["SET", key, "v", "PX", chance.randint(1, 5)], ["DEL", key], ["DEL", key],
                              ["DEL", key], ["APPEND", key, "x"], ["RENAME", key, chance.choice(self.KEYS)], ["EXPIRE", key, 0], ["GETDEL", key]])

    def work(self, server, seed):
        chance = random.Random(seed)
        with server.client() as client:
            for _ in range(scaled(500)):
                client.pipeline(self.line(chance) for _ in range(chance.choice((1, 10, 100, 200))))
                client.pipeline([["TIER", "DEMOTE", chance.choice(self.KEYS)],
                                 ["EVAL", "redis.call('DEL', KEYS[1]); redis.call('SET', KEYS[1], 'v')", 1, chance.choice(self.KEYS)]])

    def test_a_key_is_new_after_it_was_removed_and_never_else(self):
        seed = seed_new()
        with Server({"io-threads": 4, "notify-keyspace-events": "AEn", "hz": 100}) as server:
            listener = Listener(server, ("__keyevent*",))
            workers = [threading.Thread(target=self.work, args=(server, seed + i)) for i in range(4)]
            for worker in workers:
                worker.start()
            events = []
            while any(worker.is_alive() for worker in workers):
                events += listener.events()
            for worker in workers:
                worker.join()
            self.look_at(server, listener, events, seed)
            listener.close()

    def look_at(self, server, listener, events, seed):
        with server.client() as client:
            until(lambda: all(client.must("PTTL", key) == -1 or not client.must("EXISTS", key) for key in self.KEYS), what="the last expiry")
            present = {key for key in self.KEYS if client.must("EXISTS", key)}
        events += listener.events()
        state = dict.fromkeys((key.decode() for key in self.KEYS), "absent")
        latest = {key: collections.deque(maxlen=8) for key in state}
        events = [event.replace("__keyevent@0__:", "").split(" ") for event in events]
        for place, (event, key) in enumerate(events):
            latest[key].append(event)
            follows = event != "new" or events[place + 1] in (["set", key], ["append", key])
            # RENAME replaces a key that exists without an event of its removal: then "new" comes all the same, before "rename_from".
            wanted = "absent" if event == "new" and follows else state[key] if event == "new" else "present"
            if not follows and events[place + 1][0] != "rename_from" or state[key] != wanted:
                self.fail("seed %d: event %d, %s of %s, which is %s; %s, and next %s" % (
                    seed, place, event, key, state[key], list(latest[key]), events[place + 1:place + 3]))
            state[key] = "absent" if event in ("del", "expired", "rename_from") else "present"
        self.assertEqual({key for key in state if state[key] == "present"}, {key.decode() for key in present}, "seed %d" % seed)


@kelvin_only
@unittest.skipIf("/asan/" in under_test(), "AddressSanitizer has to be loaded before the disk's shim")
class LogTest(unittest.TestCase):
    def test_notifications_wait_for_the_log(self):
        """Of a call, of a transaction, and of a key that expires, on the same and on another worker."""
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        self.addCleanup(shutil.rmtree, folder, True)
        self.addCleanup(disk.remove)
        options = {"appendonly": "yes", "appendfsync": "always", "io-threads": 2, "notify-keyspace-events": "E$x"}
        with Server(options, folder=folder, environment=disk.environment) as server:
            listeners = [Listener(server, ("__keyevent@0__:*",)) for _ in range(4)]
            writer = server.client()
            for request, event in ((encode(["SET", "k", "v"]), b"set"),
                                   (encode(["MULTI"]) + encode(["SET", "k", "v"]) + encode(["EXEC"]), b"set"),
                                   (None, b"expired")):
                if request is None:
                    writer.exchange(encode(["SET", "k", "v", "PX", 1000]), 5)           # and the replies of the others
                    for listener in listeners:
                        listener.subscriber.receive()
                disk.rule(0, "sync", "appendonlydir/*.aof", DELAY, delay_us=400000)
                syncs = disk.matched(0)
                writer.send(request or b"")
                until(lambda: disk.matched(0) > syncs, what="a sync for " + event.decode())
                sockets = [listener.subscriber.socket for listener in listeners]
                self.assertEqual(select.select(sockets, [], [], 0.2)[0], [], event)
                for listener in listeners:
                    self.assertEqual(listener.subscriber.receive()[2], b"__keyevent@0__:" + event)
                disk.heal()
            for client in [writer] + listeners:
                client.close()


def notified(module, name, without=()):
    base = getattr(importlib.import_module(module), name)
    body = {test: None for test in without}
    body["__doc__"] = "The tests of %s, and the events as well." % name
    body["options"] = dict(base.options, **ALL)
    return type("Notified" + name, (Notified, base), body)


NotifiedStringTest = notified("string_test", "StringTest")
NotifiedBitmapTest = notified("bitmap_test", "BitmapTest")
NotifiedHashTest = notified("hash_test", "HashTest")
NotifiedHyperLogLogTest = notified("hyperloglog_test", "HyperLogLogTest")
NotifiedListTest = notified("list_test", "ListTest")
NotifiedSetTest = notified("set_test", "SetTest")
NotifiedZsetTest = notified("zset_test", "ZsetTest")
NotifiedKeysTest = notified("keys_test", "KeysTest")
NotifiedSortTest = notified("sort_test", "SortTest", ["test_errors"])          # the order of a set is not that of Redis
NotifiedStreamTest = notified("stream_test", "StreamTest")
NotifiedGeoTest = notified("geo_test", "GeoTest")


if __name__ == "__main__":
    main()
