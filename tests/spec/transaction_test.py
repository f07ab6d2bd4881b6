"""MULTI, EXEC and DISCARD (watch_test.py has WATCH), compared with redis-server in both protocols; again with all keys made cold before each command."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
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
            if bad == "EVAL" and not isinstance(self.c.must("COMMAND", "INFO", "EVAL")[0], list):
                continue        # it comes with scripts
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
        for bad in (("TIER", "DEMOTE", "k"), ("TIER", "PROMOTE", "k"), ("TIER", "BACKUP", "never")):
            with self.subTest(bad=bad):
                self.c.call("DISCARD")
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

    def test_client_reply_off_around(self):
        """Inside, redis-server sends a part of the array, which no client can read."""
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
        (ours, closed), (theirs, theirs_closed) = received
        self.assertTrue(closed and theirs_closed)
        self.assertTrue(ours.startswith(theirs), "%r, %r" % (ours, theirs))     # redis-server cuts the array off there

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
            ("a", "EVAL", "return redis.call('BLMPOP', 0, 1, KEYS[1], 'LEFT')", 1, "empty"), ("a", "SCRIPT", "EXISTS", "0" * 40), ("a", "SCRIPT", "FLUSH"),
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
            a ~ BGSAVE
            a INCR n
            a EXEC
        """)
        until(lambda: all(client.must("INFO", "persistence").find(b"rdb_bgsave_in_progress:0") > 0 for client in (self.c, self.r)))


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdQueueTest(QueueTest):
    demote = True


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdInsideTest(InsideTest):
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
