"""WATCH and UNWATCH, compared with redis-server in both protocols; again with all keys made cold before each command."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.dialog import DialogCase                                                               # noqa: E402
from support.server import is_redis, until                                                          # noqa: E402


class WatchTest(DialogCase):
    """EXEC returns null if a watched key was changed."""

    def setUp(self):
        super().setUp()
        self.present("WATCH")

    def changes(self, prepare, change, protocol=2):
        """Watches k after `prepare`, and runs `change` before MULTI."""
        self.c.must("FLUSHALL")
        self.r.must("FLUSHALL")
        script = ["a " + line for line in prepare] + ["a WATCH k"] + change + ["a MULTI", "a SET done 1", "a EXEC", "a EXISTS done"]
        self.dialog("\n".join(script), protocol)

    def test_a_change_of_another_client(self):
        for protocol in (2, 3):
            self.changes([], ["b SET k 1"], protocol)
            self.changes(["SET k 1"], ["b SET k 1"], protocol)
            self.changes(["SET k 1"], ["b GET k", "b EXISTS k", "b TYPE k", "b STRLEN k"], protocol)
            self.changes(["SET k 1"], ["b SET other 1", "b SELECT 1", "b SET k 1"], protocol)

    def test_a_change_by_the_same_client(self):
        self.changes(["SET k 1"], ["a SET k 1"])
        self.changes([], ["a DEL k"])

    def test_every_kind_of_change(self):
        for prepare, change in (
                ([], "SET k v"), (["SET k v"], "SET k v"), (["SET k v"], "SET k w NX"), ([], "SET k w XX"), (["SET k v"], "SETNX k w"), ([], "SETNX k w"),
                (["SET k v"], "APPEND k x"), (["SET k v"], "SETRANGE k 0 v"), (["SET k v"], "SETRANGE k 5 \"\""), (["SET k 5"], "INCRBY k 0"),
                (["SET k 5"], "INCRBYFLOAT k 0"), (["SET k v"], "GETSET k v"), (["SET k v"], "GETDEL k"), (["SET k v"], "GETEX k"),
                (["SET k v"], "GETEX k EX 100"), (["SET k v"], "GETEX k PERSIST"), (["SET k v EX 100"], "GETEX k PERSIST"),
                (["SET k v"], "DEL k"), ([], "DEL k"), (["SET k v"], "UNLINK k"), (["SET k v"], "EXPIRE k 100"), (["SET k v"], "EXPIRE k -1"),
                ([], "EXPIRE k 100"), (["SET k v EX 100"], "EXPIRE k 200 GT"), (["SET k v EX 100"], "EXPIRE k 50 GT"), (["SET k v EX 100"], "PERSIST k"),
                (["SET k v"], "PERSIST k"), (["SET k v"], "TOUCH k"), (["SET k v"], "RENAME k l"), (["SET k v", "SET l v"], "RENAME l k"),
                (["SET l v"], "RENAME l k"), (["SET k v"], "RENAME k k"), (["SET k v", "SET l w"], "RENAMENX l k"), (["SET k v"], "MOVE k 1"),
                (["SET k v", "SET l w"], "COPY l k"), (["SET k v", "SET l w"], "COPY l k REPLACE"), (["SET k v"], "COPY k l"),
                (["SETBIT k 3 1"], "SETBIT k 3 1"), (["SETBIT k 3 1"], "BITFIELD k GET u8 0"), (["SETBIT k 3 1"], "BITFIELD k SET u8 0 16"),
                (["SET k v"], "BITOP AND k l m"), ([], "BITOP AND k l m"), (["PFADD k a"], "PFADD k a"), (["PFADD k a"], "PFCOUNT k"),
                (["PFADD k a"], "PFMERGE k l"), (["HSET k f v"], "HSET k f v"), (["HSET k f v"], "HSETNX k f v"), (["HSET k f v"], "HDEL k g"),
                (["HSET k f v"], "HDEL k f"), (["HSET k f 1"], "HINCRBY k f 0"), (["HSET k f v"], "HGETALL k"),
                (["RPUSH k a b"], "LSET k 0 a"), (["RPUSH k a b"], "LTRIM k 0 -1"), (["RPUSH k a b"], "LREM k 0 x"), (["RPUSH k a b"], "LINSERT k BEFORE x y"),
                (["RPUSH k a b"], "LMOVE k k LEFT LEFT"), (["RPUSH k a"], "LMOVE k k LEFT RIGHT"), (["RPUSH k a b"], "LPOP k 0"), ([], "LPOP k"),
                (["RPUSH k a b"], "LPUSHX k c"), ([], "LPUSHX k c"), (["RPUSH k a b"], "RPOPLPUSH k l"), (["RPUSH k a b"], "BLPOP k 0"),
                (["RPUSH k b a"], "SORT k ALPHA"), (["RPUSH k b a"], "SORT k ALPHA STORE k"), ([], "SORT l STORE k"), (["SET k v"], "SORT l STORE k"),
                (["SADD k a"], "SADD k a"), (["SADD k a"], "SREM k x"), (["SADD k a"], "SMOVE k l a"), (["SADD k a"], "SMOVE k k a"),
                (["SADD k a"], "SMOVE k l x"), (["SADD k a"], "SPOP k 0"), (["SADD k a"], "SPOP k"), (["SADD k a", "SADD l a"], "SINTERSTORE k k l"),
                (["SADD k a"], "SINTERSTORE k none none2"), ([], "SINTERSTORE k none none2"), (["SADD k a"], "SUNIONSTORE l k"),
                (["ZADD k 1 a"], "ZADD k 1 a"), (["ZADD k 1 a"], "ZADD k XX 2 b"), (["ZADD k 1 a"], "ZADD k GT 0 a"), (["ZADD k 1 a"], "ZINCRBY k 0 a"),
                (["ZADD k 1 a"], "ZREM k x"), (["ZADD k 1 a"], "ZPOPMIN k 0"), (["ZADD k 1 a"], "ZPOPMIN k"), ([], "ZPOPMIN k"),
                (["ZADD k 1 a"], "ZREMRANGEBYSCORE k 5 6"), (["ZADD k 1 a"], "ZRANGESTORE k none 0 -1"), ([], "ZRANGESTORE k none 0 -1"),
                (["ZADD k 1 a"], "ZUNIONSTORE k 1 k"), (["GEOADD k 1 1 a"], "GEOADD k 1 1 a"), (["GEOADD k 1 1 a"], "GEOSEARCHSTORE k k FROMMEMBER a BYRADIUS 0 m"),
                (["XADD k 1-1 f v"], "XADD k 1-1 f v"), ([], "XADD k NOMKSTREAM * f v"), (["XADD k 1-1 f v"], "XTRIM k MAXLEN 5"),
                (["XADD k 1-1 f v"], "XDEL k 9-9"), (["XADD k 1-1 f v"], "XDEL k 1-1"), (["XADD k 1-1 f v"], "XSETID k 9-9"),
                (["XADD k 1-1 f v"], "XGROUP CREATE k g 0"), (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XREADGROUP GROUP g c STREAMS k >"),
                (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XACK k g 1-1"), (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XGROUP DESTROY k g"),
                (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XGROUP CREATECONSUMER k g c"), (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XGROUP SETID k g $"),
                (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XCLAIM k g c 0 1-1 FORCE"), (["XADD k 1-1 f v", "XGROUP CREATE k g 0"], "XAUTOCLAIM k g c 0 0"),
                (["SET k v"], "MSET l 1 k v"), (["SET k v"], "MSETNX l 1 k v"), (["SET k v"], "OBJECT ENCODING k"), (["SET k v"], "DUMP k"),
                (["SET k v"], "FLUSHDB"), ([], "FLUSHDB"), (["SET k v"], "FLUSHALL"), ([], "FLUSHALL"), (["SET k v"], "SWAPDB 1 2"),
                (["SET k v"], "SWAPDB 0 0"), (["SET k v"], "SWAPDB 0 1"), (["SET k v"], "SWAPDB 1 0"), ([], "SWAPDB 0 1"),
                (["SELECT 1", "SET k v", "SELECT 0"], "SWAPDB 0 1"), (["SELECT 1", "SET l v", "SELECT 0"], "SWAPDB 0 1"),
                (["SET k v"], "LPUSH k x"), (["SET k v"], "GET"), (["SET k v"], "DEBUG SLEEP 0")):
            with self.subTest(prepare=prepare, change=change):
                self.changes(prepare, ["b " + change])

    def test_other_databases(self):
        self.dialog("""
            a SELECT 1
            a WATCH k
            a SELECT 0
            b SET k 1
            a MULTI
            a EXEC
            a SELECT 1
            a WATCH k
            a SELECT 0
            a WATCH l
            b SELECT 1
            b SET k 1
            a MULTI
            a EXEC
            a SELECT 0
            b SELECT 0
            a WATCH k
            b FLUSHDB
            a MULTI
            a EXEC
            b SELECT 2
            b SET k v
            b SELECT 0
            a WATCH k
            b SELECT 2
            b FLUSHDB
            a MULTI
            a EXEC
        """)

    def test_moves_between_databases(self):
        self.dialog("""
            b SET k v
            a SELECT 1
            a WATCH k
            b MOVE k 1
            a MULTI
            a EXEC
            a WATCH k
            b SET k w
            b MOVE k 1
            a MULTI
            a EXEC
            a WATCH k
            b COPY k k DB 1 REPLACE
            a MULTI
            a EXEC
        """)

    def test_unwatch_discard_exec_and_reset_end_watching(self):
        for end in (["a UNWATCH"], ["a MULTI", "a DISCARD"], ["a MULTI", "a EXEC"], ["a RESET"], ["a MULTI", "a NOSUCH", "a EXEC"],
                    ["a MULTI", "a NOSUCH", "a DISCARD"]):
            for when in (0, 1):
                script = ["a WATCH k"] + (["b SET k 1"] if when else []) + end + ([] if when else ["b SET k 1"]) + ["a MULTI", "a PING", "a EXEC"]
                self.dialog("\n".join(script))

    def test_unwatch_inside_a_transaction_is_queued(self):
        self.both_protocols("""
            a WATCH k
            a MULTI
            a UNWATCH
            b SET k 1
            a PING
            a EXEC
        """)

    def test_a_change_after_multi(self):
        self.both_protocols("""
            a WATCH k
            a MULTI
            a SET k 1
            b SET k 2
            a EXEC
            a GET k
        """)

    def test_a_key_that_the_transaction_changes_itself(self):
        self.both_protocols("""
            a SET k 1
            a WATCH k
            a MULTI
            a INCR k
            a INCR k
            a EXEC
            a MULTI
            a INCR k
            a EXEC
        """)

    def test_many_keys_repeated_keys_and_many_watches(self):
        self.both_protocols("""
            a WATCH k k l k
            a WATCH k
            b SET m 1
            a MULTI
            a PING
            a EXEC
            a WATCH k l
            a WATCH m
            b SET l 1
            a MULTI
            a PING
            a EXEC
            b WATCH k
            c WATCH k
            a SET k 2
            b MULTI
            c MULTI
            b EXEC
            c EXEC
        """)

    def test_a_key_whose_type_is_changed_back(self):
        self.changes(["SET k v"], ["b DEL k", "b SET k v"])
        self.changes([], ["b SET k v", "b DEL k"])

    def test_a_watched_key_that_expires(self):
        self.changes(["SET k v PX 300"], ["a @sleep 400"])
        self.changes(["SET k v PX 300"], ["a @sleep 400", "b GET k"])
        self.changes(["SET k v PX 300"], ["b PERSIST k", "a @sleep 400"])
        self.changes(["SET k v PX 100000"], ["a @sleep 20"])
        self.changes(["RPUSH k 1", "PEXPIRE k 300"], ["a @sleep 400", "b LLEN k", "b LPUSHX k x"])

    def test_a_key_that_had_expired_when_it_was_watched(self):
        """Its deletion is no change."""
        for prepare in (["DEBUG SET-ACTIVE-EXPIRE 0"], []):
            script = ["a " + line for line in prepare] + ["a SET k v PX 20", "a @sleep 40", "a WATCH k", "a MULTI", "a SET done 1", "a EXEC"]
            self.dialog("\n".join(script))
            script = ["a " + line for line in prepare] + ["a SET k v PX 20", "a @sleep 40", "a WATCH k", "b GET k", "a MULTI", "a SET done 1", "a EXEC"]
            self.dialog("\n".join(script))
            script = ["a " + line for line in prepare] + ["a SET k v PX 20", "a @sleep 40", "a WATCH k", "b SET k w", "a MULTI", "a SET done 1", "a EXEC"]
            self.dialog("\n".join(script))
            self.dialog("a DEBUG SET-ACTIVE-EXPIRE 1")

    def test_expiry_without_active_expiry(self):
        self.dialog("""
            a DEBUG SET-ACTIVE-EXPIRE 0
            a SET k v PX 300
            a WATCH k
            a @sleep 400
            a MULTI
            a SET done 1
            a EXEC
            a SET k v PX 300
            a WATCH k
            a MULTI
            a GET k
            a @sleep 400
            a EXEC
            a DEBUG SET-ACTIVE-EXPIRE 1
        """)

    def test_a_key_that_is_deleted_because_the_time_has_passed(self):
        self.changes(["SET k v"], ["b PEXPIREAT k 1"])
        self.changes(["SET k v"], ["b SET k w PX 1", "a @sleep 20"])

    def test_a_transaction_of_another_client_touches_once(self):
        self.both_protocols("""
            a WATCH k
            b MULTI
            b INCR k
            b DEL k
            b EXEC
            a MULTI
            a EXEC
        """)

    def test_a_blocked_client_that_is_served_changes_the_key(self):
        self.dialog("""
            b ! BLPOP k 0
            a @waiting 1
            a WATCH k
            c RPUSH k one
            b @receive
            a MULTI
            a EXEC
            b ! BLMOVE l k LEFT LEFT 0
            a @waiting 1
            a WATCH k
            c RPUSH l one
            b @receive
            a MULTI
            a EXEC
        """)

    def test_scripts_change_watched_keys(self):
        self.present("EVAL")
        self.dialog([("a", "WATCH", "k"), ("b", "EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, "k"), ("a", "MULTI"), ("a", "EXEC"),
                     ("a", "WATCH", "k"), ("b", "EVAL", "return redis.call('GET', KEYS[1])", 1, "k"), ("a", "MULTI"), ("a", "EXEC"),
                     ("a", "WATCH", "k"), ("b", "EVAL", "redis.call('SET', KEYS[1], 'v'); return redis.call('NOSUCH')", 1, "k"), ("a", "MULTI"),
                     ("a", "EXEC")])

    def test_scripts_do_not_watch(self):
        self.present("EVAL")
        self.dialog([("a", "EVAL", "return redis.call('%s')" % name, 0) for name in ("MULTI", "EXEC", "DISCARD", "WATCH k", "UNWATCH")] +
                    [("a", "EVAL", "return redis.call('WATCH', 'k')", 0)])

    @kelvin_only
    def test_a_field_that_expires_changes_a_watched_hash(self):
        c, other = self.c, self.clients()[0]
        for active in (0, 1):
            c.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
            for demote in (False, True):
                with self.subTest(active=active, demote=demote):
                    c.must("DEL", "h")
                    c.must("HSET", "h", "f", "v", "g", "w")
                    c.must("HPEXPIRE", "h", 60, "FIELDS", 1, "f")
                    c.must("WATCH", "h")
                    if demote:
                        other.must("TIER", "DEMOTE", "h")
                    self.wait_for_field(other, active or demote)
                    c.must("MULTI")
                    c.must("PING")
                    self.assertNotIsInstance(c.call("EXEC"), list)
        c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    @staticmethod
    def wait_for_field(other, quietly):
        if quietly:
            other.must("DEBUG", "SLEEP", "0.1")
        else:
            until(lambda: other.must("HEXISTS", "h", "f") == 0)

    @kelvin_only
    def test_moves_between_tiers_are_no_changes(self):
        c, other = self.c, self.clients()[0]
        for prepare in ([["SET", "k", "v"]], [["HSET", "k", "f", "v"]], [["SET", "k", "v", "EX", "1000"]], [["RPUSH", "k"] + ["x" * 100] * 200]):
            for command in prepare:
                c.must("DEL", "k")
                c.must(*command)
            for moves in (["DEMOTE"], ["DEMOTE", "PROMOTE"], ["PROMOTE", "DEMOTE", "PROMOTE", "DEMOTE"]):
                c.must("WATCH", "k", "absent")
                for move in moves:
                    other.must("TIER", move, "k")
                c.must("MULTI")
                c.must("EXISTS", "k", "absent")
                self.assertEqual(c.call("EXEC"), [1])

    @kelvin_only
    def test_a_cold_watched_key_that_expires_in_the_store(self):
        c, other = self.c, self.clients()[0]
        for active in (1, 0):
            c.must("DEBUG", "SET-ACTIVE-EXPIRE", active)
            c.must("SET", "k", "v", "PX", 300)
            c.must("WATCH", "k")
            other.must("TIER", "DEMOTE", "k")
            other.must("DEBUG", "SLEEP", "0.4")
            c.must("MULTI")
            c.must("PING")
            self.assertNotIsInstance(c.call("EXEC"), list)
        c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    @kelvin_only
    def test_a_cold_key_that_had_expired_when_watched(self):
        c, other = self.c, self.clients()[0]
        c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        c.must("SET", "k", "v", "PX", 40)
        other.must("TIER", "DEMOTE", "k")
        other.must("DEBUG", "SLEEP", "0.08")
        c.must("WATCH", "k")
        c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        other.must("DEBUG", "SLEEP", "0.3")
        self.assertIsNone(other.call("GET", "k"))
        c.must("MULTI")
        c.must("PING")
        self.assertIsInstance(c.call("EXEC"), list)


class ExpiredTest(DialogCase):
    """What has expired and is still there does not exist."""

    def test_databases_change_places(self):
        for stale in (0, 1):
            for client in (self.c, self.r):
                client.must("FLUSHALL")
                client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            self.dialog("""
                a SELECT %d
                a SET k v PX 1
                b DEBUG SLEEP 0.01
                a SELECT 1
                a WATCH k
                a SWAPDB 0 1
                a MULTI
                a SET done 1
                a EXEC
            """ % stale)
            for client in (self.c, self.r):
                client.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdWatchTest(WatchTest):
    options = {"io-threads": "4"}
    demote = True


if __name__ == "__main__":
    main()
