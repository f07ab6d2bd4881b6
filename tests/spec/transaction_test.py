"""MULTI, EXEC, DISCARD, WATCH and UNWATCH, compared with redis-server in both protocols; again with all keys made cold before each command."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.dialog import DialogCase                                                               # noqa: E402
from support.resp import Error, QUEUED, encode                                                      # noqa: E402
from support.server import Server, is_redis, until                                                  # noqa: E402

ABORTED = Error(b"EXECABORT Transaction discarded because of previous errors.")


def lines(*commands):
    return b"".join(encode(command.split() if isinstance(command, str) else command) for command in commands)


class TransactionCase(DialogCase):
    def setUp(self):
        super().setUp()
        self.present("MULTI")


class QueueTest(TransactionCase):
    """What happens between MULTI and EXEC."""

    def test_a_transaction_runs_its_commands_in_order(self):
        self.both_protocols("""
            a MULTI
            a SET k 1
            a INCR k
            a GET k
            a HSET h f v g w
            a HGETALL h
            a ZADD z 1.5 m
            a ZSCORE z m
            a GET absent
            a HMGET h f absent
            a LPOP absent 3
            a EXISTS k h z
            a EXEC
            a GET k
        """)

    def test_an_empty_transaction(self):
        self.both_protocols("""
            a MULTI
            a EXEC
            a MULTI
            a DISCARD
            a PING
        """)

    def test_exec_and_discard_without_multi(self):
        self.both_protocols("""
            a EXEC
            a DISCARD
            a UNWATCH
            a MULTI x
            a EXEC x
            a DISCARD x
            a UNWATCH x
            a WATCH
            a MULTI
            a EXEC x
            a DISCARD x
            a EXEC
        """)

    def test_nested_multi_and_watch_inside_are_errors_that_do_not_abort(self):
        self.both_protocols("""
            a MULTI
            a SET k 1
            a MULTI
            a WATCH k
            a UNWATCH
            a INCR k
            a EXEC
            a GET k
        """)

    def test_multi_and_watch_with_the_wrong_number_of_arguments_abort(self):
        for bad in ("MULTI x", "WATCH", "EXEC x", "DISCARD x"):
            self.both_protocols("""
                a MULTI
                a SET k 1
                a %s
                a GET k
                a EXEC
                a GET k
            """ % bad)

    def test_unknown_commands_and_wrong_arity_abort(self):
        for bad in ("NOSUCH", "NOSUCH with some arguments", "GET", "GET a b", "SET k", "HSET h f", "CLIENT", "CLIENT nosuch", "OBJECT nosuch k",
                    "CONFIG GET", "XGROUP", "XGROUP CREATE k", "EVAL", "\"\""):
            with self.subTest(bad=bad):
                self.both_protocols("""
                    a MULTI
                    a SET k 1
                    a %s
                    a SET k 2
                    a EXEC
                    a GET k
                    a EXEC
                    a MULTI
                    a PING
                    a EXEC
                """ % bad)

    def test_discard_after_an_error_ends_the_transaction(self):
        self.both_protocols("""
            a MULTI
            a NOSUCH
            a DISCARD
            a EXEC
            a MULTI
            a SET k v
            a EXEC
        """)

    def test_commands_that_are_not_allowed_in_a_transaction(self):
        for bad in ("SAVE", "SHUTDOWN", "SHUTDOWN NOSAVE", "MONITOR", "SYNC", "PSYNC ? -1"):
            with self.subTest(bad=bad):
                if bad == "SYNC" or bad.startswith("PSYNC"):
                    if not isinstance(self.c.call("COMMAND", "INFO", bad.split()[0])[0], list):
                        continue        # it comes with replication
                self.both_protocols("""
                    a MULTI
                    a SET k v
                    a %s
                    a SET k w
                    a EXEC
                    a GET k
                    a PING
                """ % bad)

    @kelvin_only
    def test_tiers_are_not_moved_in_a_transaction(self):
        """They wait for the writer, which may wait for the transaction."""
        for bad in (("TIER", "DEMOTE", "k"), ("TIER", "PROMOTE", "k"), ("TIER", "BACKUP", "never"), ("DEBUG", "RELOAD")):
            with self.subTest(bad=bad):
                self.c.must("SET", "k", "v")
                self.c.must("MULTI")
                self.assertEqual(self.c.call(*bad), Error(b"ERR Command not allowed inside a transaction"))
                self.assertEqual(self.c.call("SET", "k", "w"), QUEUED)
                self.assertEqual(self.c.call("EXEC"), ABORTED)
                self.assertEqual(self.c.call("GET", "k"), b"v")

    def test_errors_of_commands_do_not_stop_the_others(self):
        self.both_protocols("""
            a SET s text
            a MULTI
            a INCR s
            a LPUSH s x
            a SET k 1
            a HGET s f
            a EXPIRE k abc
            a SETRANGE k -1 x
            a RENAME absent k
            a SELECT 99
            a OBJECT FREQ absent
            a XADD x 0-0 f v
            a INCR k
            a EXEC
            a MGET s k
        """)

    def test_the_flags_and_the_count_of_client_list(self):
        self.both_protocols("""
            b PING
            a PING
            b @fields a flags multi
            a WATCH k
            b @fields a flags multi
            a MULTI
            b @fields a flags multi
            a GET k
            b @fields a flags multi
            a INCR k
            a NOSUCH
            b @fields a flags multi
            a INCR k
            b @fields a flags multi
            a DISCARD
            b @fields a flags multi
            a WATCH k
            b SET k 1
            b @fields a flags multi
            a MULTI
            b @fields a flags multi
            a EXEC
            b @fields a flags multi
            a MULTI
            a CLIENT NO-EVICT ON
            b @fields a flags multi
            a EXEC
            b @fields a flags multi
        """)

    def test_a_pipeline_of_transactions(self):
        self.both_raw(lines("MULTI", "SET k 1", "INCR k", "EXEC", "MULTI", "GET k", "NOSUCH", "EXEC", "GET k", "EXEC", "MULTI", "DISCARD", "MULTI",
                            "GET k", "EXEC", "PING"))
        for protocol in (2, 3):
            self.both_raw(lines("MULTI", "HSET h f v", "HGETALL h", "GET k", "LPOP l 1", "INCRBYFLOAT f 1.5", "ZADD z 1 m", "ZRANGE z 0 -1 WITHSCORES",
                                "SMEMBERS s", "CLIENT GETNAME", "EXEC", "PING"), before=("HELLO", protocol))

    def test_inline_commands(self):
        self.both_raw(b"MULTI\r\nSET k 1\r\nINCR k\r\nEXEC\r\n")
        self.both_raw(b"multi\nget\nexec\n")
        self.both_raw(b"MULTI\r\n\r\nPING\r\nEXEC\r\n")

    def test_a_protocol_error_in_a_transaction_closes(self):
        self.both_raw(lines("MULTI", "SET k 1") + b"*1\r\n$abc\r\n", closes=True)
        self.assertEqual(self.c.call("EXISTS", "k"), 0)

    def test_a_transaction_ends_with_its_connection(self):
        self.dialog("""
            a MULTI
            a SET k 1
            a QUIT
            a @closed
            b GET k
        """)

    def test_many_commands(self):
        script = [("a", "MULTI")] + [("a", "RPUSH", "l%d" % (i % 7), i) for i in range(500)] + [("a", "EXEC"), ("a", "LRANGE", "l3", 0, -1)]
        self.dialog(script)

    def test_large_arguments_and_replies(self):
        self.dialog([("a", "MULTI"), ("a", "SET", "k", b"x" * 300000), ("a", "GET", "k"), ("a", "APPEND", "k", b"y" * 70000), ("a", "GET", "k"),
                     ("a", "EXEC"), ("a", "STRLEN", "k")], protocol=3)

    def test_other_clients_do_not_see_a_queue(self):
        self.both_protocols("""
            a SET k 1
            a MULTI
            a SET k 2
            b GET k
            b SET k 3
            a GET k
            a EXEC
            b GET k
        """)

    def test_commands_of_help_and_docs_in_a_transaction(self):
        self.both_protocols("""
            a MULTI
            a ~ OBJECT HELP
            a COMMAND COUNT
            a COMMAND GETKEYS SET a b
            a LOLWUT VERSION 1
            a ~ TIME
            a EXISTS k
            a DISCARD
            a MULTI
            a COMMAND GETKEYS SET a b
            a EXEC
        """)


class InsideTest(TransactionCase):
    """Commands that are special in a transaction."""

    def test_blocking_commands_return_as_if_time_were_up(self):
        self.both_protocols("""
            a MULTI
            a BLPOP k 0
            a BRPOP k 0
            a BLMOVE k l LEFT RIGHT 0
            a BRPOPLPUSH k l 0
            a BLMPOP 0 2 k l LEFT
            a BZPOPMIN z 0
            a BZPOPMAX z 0
            a BZMPOP 0 1 z MIN
            a XREAD BLOCK 0 STREAMS x $
            a BLPOP k abc
            a XADD x 1-1 f v
            a XREAD BLOCK 0 STREAMS x 0
            a RPUSH k 1 2 3
            a BLPOP k 0
            a BLMOVE k l LEFT RIGHT 0
            a BLMPOP 0 1 l RIGHT COUNT 5
            a ZADD z 1 m
            a BZPOPMIN z 0
            a XGROUP CREATE x g 0
            a XREADGROUP GROUP g c BLOCK 0 STREAMS x >
            a XREADGROUP GROUP g c BLOCK 0 STREAMS x >
            a EXEC
            a LRANGE k 0 -1
        """)

    def test_a_wait_in_a_transaction_does_not_wait(self):
        self.both_protocols("""
            a MULTI
            a SET k v
            a WAIT 1 0
            a WAIT 0 0
            a WAIT abc 0
            a EXEC
        """)

    def test_select_inside(self):
        self.both_protocols("""
            a SET k zero
            a SELECT 1
            a SET k one
            a MULTI
            a SELECT 0
            a GET k
            a SELECT 99
            a GET k
            a SELECT 1
            a GET k
            a SELECT abc
            a SELECT 2
            a EXEC
            a GET k
            b PING
            b @fields a db
        """)

    def test_whole_databases_inside(self):
        self.both_protocols("""
            a SET k zero
            a SELECT 1
            a SET k one
            a SET l one
            a MULTI
            a GET k
            a SWAPDB 0 1
            a GET k
            a EXISTS l
            a DBSIZE
            a SELECT 0
            a GET k
            a MOVE l 2
            a COPY k k DB 2
            a FLUSHDB
            a DBSIZE
            a KEYS *
            a GET k
            a SELECT 2
            a DBSIZE
            a KEYS *
            a SCAN 0
            a RANDOMKEY
            a FLUSHALL
            a DBSIZE
            a RANDOMKEY
            a SET k new
            a SWAPDB 0 99
            a EXEC
            a GET k
            a SELECT 0
            a DBSIZE
        """)

    def test_a_transaction_sees_its_own_changes_in_the_counts(self):
        self.both_protocols("""
            a MSET k1 v k2 v k3 v
            a MULTI
            a DBSIZE
            a DEL k1
            a DBSIZE
            a SET k4 v
            a DBSIZE
            a KEYS k*
            a SCAN 0 COUNT 100
            a ~ MEMORY USAGE k2
            a ~ DEBUG OBJECT k2
            a RENAME k2 k5
            a SCAN 0 COUNT 100 MATCH k5
            a EXEC
            a MULTI
            a DBSIZE
            a RANDOMKEY
            a SORT absent
            a EXEC
        """)

    def test_sort_by_and_get_inside(self):
        self.both_protocols("""
            a RPUSH l 1 2 3
            a MSET w_1 30 w_2 20 w_3 10 n_1 one n_2 two n_3 three
            a MULTI
            a SET w_3 40
            a SORT l BY w_* GET n_* GET #
            a SORT l BY w_* DESC STORE m
            a LRANGE m 0 -1
            a EXEC
        """)

    def test_hello_changes_the_protocol_within_the_array(self):
        self.dialog("""
            a HSET h f v
            a MULTI
            a GET absent
            a HGETALL h
            a HELLO 3
            a GET absent
            a HGETALL h
            a HELLO 2
            a HGETALL h
            a HELLO 3
            a EXEC
            a HGETALL h
            a MULTI
            a HELLO 4
            a HELLO abc
            a GET absent
            a EXEC
        """)

    def test_reset_and_quit_inside_run_at_once(self):
        self.both_protocols("""
            a WATCH w
            a MULTI
            a SET k v
            a RESET
            a EXEC
            a GET k
            a WATCH w
            a RESET
            b SET w 1
            a MULTI
            a PING
            a EXEC
            a SELECT 1
            a MULTI
            a SET k v
            a QUIT
            b SELECT 1
            b GET k
        """)

    def test_auth_inside(self):
        self.both_protocols("""
            a MULTI
            a AUTH wrong
            a AUTH nosuch wrong
            a PING
            a EXEC
        """)

    def test_client_commands_inside(self):
        self.both_protocols("""
            a MULTI
            a CLIENT SETNAME me
            a CLIENT GETNAME
            a CLIENT REPLY nosuch
            a ~ CLIENT ID
            a CLIENT UNPAUSE
            a CLIENT SETNAME "not me"
            a CLIENT NO-EVICT ON
            a CLIENT UNBLOCK 999999
            a EXEC
            a CLIENT GETNAME
        """)

    def test_client_reply_off_inside(self):
        self.both_raw(lines("MULTI", "SET k 1", "CLIENT REPLY OFF", "GET k", "EXEC", "PING", "CLIENT REPLY ON", "PING"))
        self.both_raw(lines("MULTI", "SET k 1", "CLIENT REPLY SKIP", "GET k", "EXEC", "PING", "PING"))
        self.both_raw(lines("CLIENT REPLY OFF", "MULTI", "SET k 5", "EXEC", "CLIENT REPLY ON", "GET k"))
        self.both_raw(lines("CLIENT REPLY SKIP", "MULTI", "SET k 6", "CLIENT REPLY SKIP", "EXEC", "GET k"))

    def test_client_kill_of_itself_inside(self):
        """The transaction runs to its end, its replies are sent, and then the connection is closed."""
        received = []
        for client, other in zip(self.clients(), (self.c, self.r)):
            address = "%s:%d" % client.socket.getsockname()
            client.send(lines("MULTI", "SET k 1", "CLIENT KILL ADDR %s SKIPME no" % address, "INCR k", "EXEC", "PING"))
            received.append(client.raw(200))
            self.assertEqual(until(lambda other=other: other.call("GET", "k")), b"2")
        self.assertEqual(*received)

    def test_client_pause_inside_lasts_from_the_end(self):
        self.dialog("""
            b PING
            a MULTI
            a SET k 1
            a CLIENT PAUSE 60000 WRITE
            a SET k 2
            a EXEC
            b GET k
            b ! SET k 3
            a @waiting 1
            a CLIENT UNPAUSE
            b @receive
            a GET k
        """)

    def test_config_set_inside_is_in_effect_at_once(self):
        self.both_protocols("""
            a CONFIG SET hash-max-listpack-entries 128
            a MULTI
            a CONFIG SET hash-max-listpack-entries 2
            a CONFIG GET hash-max-listpack-entries
            a HSET h a 1 b 2 c 3
            a OBJECT ENCODING h
            a CONFIG SET nosuch 1
            a CONFIG SET hash-max-listpack-entries 128
            a EXEC
        """)

    def test_publish_and_subscribe_inside(self):
        self.present("SUBSCRIBE")
        self.dialog("""
            b SUBSCRIBE ch
            a MULTI
            a PUBLISH ch one
            a SET k v
            a PUBLISH ch two
            a PUBLISH none x
            a EXEC
            b @receive
            b @receive
            a MULTI
            a SUBSCRIBE x y
            a GET k
            a PSUBSCRIBE p*
            a UNSUBSCRIBE x
            a EXEC
        """, protocol=3)
        self.dialog("""
            a MULTI
            a SUBSCRIBE x y
            a GET k
            a UNSUBSCRIBE y
            a EXEC
        """)

    def test_publish_to_oneself_inside(self):
        self.present("SUBSCRIBE")
        self.dialog("""
            a SUBSCRIBE ch
            a MULTI
            a PUBLISH ch one
            a SET k v
            a PUBLISH ch two
            a GET k
            a EXEC
            a @receive
            a @receive
            a PING
        """, protocol=3)

    def test_ssubscribe_inside_is_an_error(self):
        self.present("SSUBSCRIBE")
        self.both_protocols("""
            a MULTI
            a SSUBSCRIBE ch
            a PING
            a EXEC
        """)

    def test_subscribed_clients_of_resp2_run_no_transactions(self):
        self.present("SUBSCRIBE")
        self.dialog("""
            a SUBSCRIBE ch
            a MULTI
            a EXEC
            a WATCH k
            a GET k
        """)

    def test_scripts_inside(self):
        self.present("EVAL")
        self.both_protocols([
            ("a", "MULTI"), ("a", "EVAL", "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])", 1, "k", "v"),
            ("a", "EVAL", "return redis.call('NOSUCH')", 0), ("a", "EVAL", "return {1, 'two', {ok='three'}, {err='ERR four'}, false}", 0),
            ("a", "EVALSHA", "0" * 40, 0), ("a", "SCRIPT", "LOAD", "return 1"), ("a", "EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 0),
            ("a", "EVAL", "return redis.call('MULTI')", 0), ("a", "EVAL", "syntax error here", 0),
            ("a", "EVAL", "return redis.call('BLPOP', KEYS[1], 0)", 1, "empty"), ("a", "SCRIPT", "EXISTS", "0" * 40), ("a", "SCRIPT", "FLUSH"),
            ("a", "GET", "k"), ("a", "EXEC"), ("a", "GET", "k")])

    def test_an_unblocked_client_of_a_transaction_is_served_after_it(self):
        self.dialog("""
            b ! BLPOP l 0
            a @waiting 1
            a MULTI
            a RPUSH l one
            a LLEN l
            a RPUSH l two
            a LLEN l
            a EXEC
            b @receive
            a LRANGE l 0 -1
        """)

    def test_a_list_that_is_gone_at_the_end_wakes_no_client(self):
        self.dialog("""
            b ! BLPOP l 0
            a @waiting 1
            a MULTI
            a RPUSH l one
            a DEL l
            a EXEC
            a @waiting 1
            a RPUSH l two
            b @receive
        """)

    def test_a_key_that_changed_its_type_wakes_the_clients_of_the_last(self):
        self.dialog("""
            b ! BLPOP k 0
            c ! BZPOPMIN k 0
            a @waiting 2
            a MULTI
            a RPUSH k one
            a DEL k
            a ZADD k 1 m
            a EXEC
            c @receive
            a @waiting 1
            a RPUSH k two
            b @receive
        """)

    def test_a_swap_inside_serves_waiting_clients(self):
        self.dialog("""
            b SELECT 1
            b ! BLPOP k 0
            a @waiting 1
            a RPUSH k one
            a MULTI
            a SWAPDB 0 1
            a EXISTS k
            a EXEC
            b @receive
        """)

    def test_slowlog_object_and_latency_inside(self):
        self.both_protocols("""
            a SET k v
            a MULTI
            a ~ SLOWLOG LEN
            a ~ LATENCY RESET
            a OBJECT ENCODING k
            a ~ OBJECT IDLETIME k
            a TOUCH k absent
            a ~ DUMP k
            a ECHO x
            a PING
            a PING text
            a EXEC
        """)

    def test_background_saves_inside_are_scheduled(self):
        self.dialog("""
            a MULTI
            a SET k v
            a ~ BGREWRITEAOF
            a INCR n
            a EXEC
        """)
        until(lambda: all(client.must("INFO", "persistence").find(b"aof_rewrite_in_progress:0") > 0 for client in (self.c, self.r)))


class WatchTest(TransactionCase):
    """EXEC returns null if a watched key was changed."""

    def changes(self, prepare, change, protocol=2):
        """Watches k after `prepare`, and runs `change` before MULTI."""
        script = ["a " + line for line in prepare] + ["a WATCH k"] + change + ["a MULTI", "a SET done 1", "a EXEC", "a EXISTS done"]
        self.dialog("\n".join(script), protocol)
        self.c.must("FLUSHALL")
        self.r.must("FLUSHALL")

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
                ([], "EXPIRE k 100"), (["SET k v EX 100"], "EXPIRE k 100 GT"), (["SET k v EX 100"], "EXPIRE k 50 GT"), (["SET k v EX 100"], "PERSIST k"),
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
        self.changes(["SET k v PX 30"], ["a @sleep 60"])
        self.changes(["SET k v PX 30"], ["a @sleep 60", "b GET k"])
        self.changes(["SET k v PX 30"], ["b PERSIST k", "a @sleep 60"])
        self.changes(["SET k v PX 100000"], ["a @sleep 20"])
        self.changes(["RPUSH k 1", "PEXPIRE k 30"], ["a @sleep 60", "b LLEN k", "b LPUSHX k x"])

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
            a SET k v PX 30
            a WATCH k
            a @sleep 60
            a MULTI
            a SET done 1
            a EXEC
            a SET k v PX 20
            a WATCH k
            a MULTI
            a GET k
            a @sleep 50
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

    def test_a_restore_and_a_reload_change_keys(self):
        self.dialog("""
            a SET k v
            a WATCH k
            b DEBUG RELOAD
            a MULTI
            a PING
            a EXEC
            a WATCH absent
            b DEBUG RELOAD
            a MULTI
            a PING
            a EXEC
        """)

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
            c.must("SET", "k", "v", "PX", 60)
            c.must("WATCH", "k")
            other.must("TIER", "DEMOTE", "k")
            other.must("DEBUG", "SLEEP", "0.1")
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


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdQueueTest(QueueTest):
    demote = True


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdInsideTest(InsideTest):
    demote = True


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdWatchTest(WatchTest):
    options = {"io-threads": "4"}
    demote = True


class RefusedTest(PairCase):
    """EXEC is refused for what one of its commands is refused for, before anything ran."""

    def setUp(self):
        super().setUp()
        self.present("MULTI")

    def test_memory(self):
        """With this little memory and nothing to demote or evict, writes get OOM when they are queued."""
        options = {"maxmemory": "1", "maxmemory-policy": "noeviction", "tier-enabled": "no"}
        with Server(options) as ours, Server({"maxmemory": "1"}, binary=self.oracle.binary) as oracle:
            with ours.client() as a, oracle.client() as b:
                self.both("""
                    MULTI
                    GET k
                    EXEC
                    MULTI
                    GET k
                    SET k v
                    GET k
                    EXEC
                    SET k v
                    MULTI
                    DEL k
                    EXEC
                    WATCH k
                    UNWATCH
                """, (a, b))
                # Room for the queue, and none at EXEC.
                for client in (a, b):
                    client.must("CONFIG", "SET", "maxmemory", "0")
                    client.must("MULTI")
                    client.must("SET", "k", "v")
                    client.must("GET", "k")
                other = ours.client(), oracle.client()
                for client in other:
                    client.must("CONFIG", "SET", "maxmemory", "1")
                self.both("EXEC\nGET k\nEXEC", (a, b))
                for client in other:
                    client.close()

    def test_exec_with_cold_keys_beyond_memory_is_refused_whole(self):
        if is_redis():
            self.skipTest("redis-server is the server under test")
        with Server({"maxmemory": "40mb", "io-threads": "4", "proto-max-bulk-len": "10mb"}) as server, server.client(timeout=120) as c:
            value = os.urandom(1000000)
            for index in range(120):
                c.must("SET", "k%d" % index, value)
                if index % 10 == 9:
                    c.must("TIER", "DEMOTE", *["k%d" % i for i in range(index - 9, index + 1)])
            before = server.info()
            c.must("MULTI")
            c.must("SET", "first", "1")
            for index in range(120):
                c.must("APPEND", "k%d" % index, "x")
            reply = c.call("EXEC")
            self.assertIsInstance(reply, Error)
            self.assertTrue(reply.startswith(b"EXECABORT Transaction discarded because of: "), reply)
            self.assertEqual(c.must("EXISTS", "first"), 0)
            self.assertEqual(c.must("STRLEN", "k0"), len(value))
            self.assertLess(int(server.info()["used_memory_rss"]), int(before["used_memory_rss"]) + (200 << 20))
            c.must("MULTI")
            c.must("APPEND", "k0", "x")
            self.assertEqual(c.must("EXEC"), [len(value) + 1])

    def test_the_queue_is_client_memory_and_limited(self):
        with Server({"maxmemory": "64mb", "maxmemory-clients": "4mb"}) as server, server.client() as c:
            c.must("MULTI")
            refused = False
            for _ in range(30):
                try:
                    reply = c.call("SET", "k", b"x" * 1000000)
                except OSError:
                    refused = True      # evicted, as in Redis
                    break
                refused = refused or isinstance(reply, Error)
            self.assertTrue(refused, "30 MB were queued where clients may take 4 MB")
            with server.client() as other:
                self.assertEqual(other.must("EXISTS", "k"), 0)


if __name__ == "__main__":
    main()
