"""DEBUG RELOAD, LOADAOF, POPULATE, SLEEP, PAUSE-CRON and what ends the process: what test suites of others call."""
import glob
import os
import shutil
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                  # noqa: E402
from support.lua import SHOW, LuaCase                                                                  # noqa: E402
from support.resp import NULL, NULL_ARRAY, OK, Error, Push, Status, encode                                                         # noqa: E402
from support.server import Server, is_sanitized, scaled, until                                          # noqa: E402

LIBRARY = "#!lua name=one\nredis.register_function('f', function() return 'from f' end)"


def fill(client):
    client.must("SELECT", 0)
    client.pipeline([["SET", "s%d" % i, "value %d" % i] for i in range(300)])
    client.must("SET", "long", "x" * 20000)
    client.must("RPUSH", "list", *range(400))
    client.must("SADD", "set", *["m%d" % i for i in range(300)])
    client.must("ZADD", "zset", 1, "a", 2.5, "b")
    client.must("HSET", "hash", "a", 1, "b", 2)
    client.must("HPEXPIRE", "hash", 1000000, "FIELDS", 1, "a")
    client.must("XADD", "stream", "1-1", "a", 1)
    client.must("XGROUP", "CREATE", "stream", "group", 0)
    client.must("XREADGROUP", "GROUP", "group", "me", "STREAMS", "stream", ">")
    client.must("SET", "timed", 1, "EX", 1000)
    client.must("SELECT", 3)
    client.must("SET", "elsewhere", 1)
    client.must("SELECT", 0)
    client.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)


def keys_of(client):
    return [key for key in client.must("KEYS", "*")]


@kelvin_only
class ReloadTest(unittest.TestCase):
    def start(self, **options):
        settings = {"appendonly": "no", "save": "", "enable-debug-command": "yes", "io-threads": "4"}
        settings.update({name.replace("_", "-"): value for name, value in options.items()})
        server = Server(settings)
        self.addCleanup(server.discard)
        return server

    def expect_unchanged(self, client, command):
        before = client.must("DEBUG", "DIGEST")
        size = client.must("DBSIZE")
        ttls = [client.must("PTTL", "timed"), client.must("HPTTL", "hash", "FIELDS", 1, "a")[0]]
        self.assertEqual(client.must(*command), OK)
        self.assertEqual(client.must("DBSIZE"), size)
        self.assertEqual(client.must("DEBUG", "DIGEST"), before)
        self.assertEqual(client.must("FCALL", "f", 0), b"from f")
        for ttl, then in zip([client.must("PTTL", "timed"), client.must("HPTTL", "hash", "FIELDS", 1, "a")[0]], ttls):
            self.assertTrue(then - 100000 < ttl <= then, (ttl, then))
        return before

    def test_everything_is_there_again(self):
        for appendonly in ("no", "yes"):
            with self.subTest(appendonly=appendonly):
                server = self.start(appendonly=appendonly)
                with server.client() as client:
                    fill(client)
                    self.expect_unchanged(client, ["DEBUG", "RELOAD"])
                    self.assertGreater(client.must("TIER", "DEMOTE", *keys_of(client)), 300)
                    self.expect_unchanged(client, ["DEBUG", "RELOAD"])
                    if appendonly == "yes":
                        self.expect_unchanged(client, ["DEBUG", "LOADAOF"])
                        self.assertGreater(client.must("TIER", "DEMOTE", *keys_of(client)), 300)
                        client.must("LPUSH", "list", "cold, and changed")
                        self.expect_unchanged(client, ["DEBUG", "LOADAOF"])
                        client.must("BGREWRITEAOF")
                        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the rewrite")
                        client.must("LPUSH", "list", "after the image")
                        client.must("DEL", "s1")
                        digest = self.expect_unchanged(client, ["DEBUG", "LOADAOF"])
                        client.must("DEBUG", "RELOAD")
                if appendonly == "yes":
                    server.kill9()
                    server.start()
                    with server.client() as client:
                        self.assertEqual(client.must("DEBUG", "DIGEST"), digest)

    def test_options(self):
        server = self.start()
        with server.client() as client:
            fill(client)
            client.must("DEBUG", "RELOAD")
            client.must("SET", "new", 1)
            client.must("DEL", "s1", "list")
            client.must("LPUSH", "list", "other")
            for options in (["NOFLUSH"], ["NOSAVE", "NOFLUSH"]):
                self.assertIn(b"Error trying to load the RDB dump", client.call("DEBUG", "RELOAD", *options))
        server = self.start()
        with server.client() as client:
            fill(client)
            first = client.must("DEBUG", "DIGEST")
            client.must("DEBUG", "RELOAD")
            client.must("TIER", "DEMOTE", *keys_of(client))
            client.must("DEL", "s1", "s2", "list")              # records of deleted keys must not count as keys
            client.must("LPUSH", "list", "other")
            client.must("SET", "new", 1)
            self.assertEqual(client.must("DEBUG", "RELOAD", "nosave", "noflush", "merge"), OK)
            self.assertEqual(client.must("LLEN", "list"), 400)
            self.assertEqual(client.must("DEL", "new"), 1)
            self.assertEqual(client.must("DEBUG", "DIGEST"), first)
            self.assertEqual(client.must("FCALL", "f", 0), b"from f")
            client.must("FLUSHALL")
            client.must("FUNCTION", "FLUSH")
            self.assertEqual(client.must("DEBUG", "RELOAD", "NOSAVE"), OK)
            self.assertEqual(client.must("DEBUG", "DIGEST"), first)
            self.assertEqual(client.must("FCALL", "f", 0), b"from f")

    def test_what_is_refused(self):
        server = self.start(enable_protected_configs="yes")
        with server.client() as client:
            self.assertIn(b"appendonly", client.call("DEBUG", "LOADAOF"))
            self.assertIsInstance(client.call("DEBUG", "RELOAD", "NONSENSE"), Error)
            for command in (["RELOAD"], ["POPULATE", 3]):
                client.must("MULTI")
                client.must("DEBUG", *command)
                self.assertIsInstance(client.must("EXEC")[0], Error)
                self.assertIsInstance(client.call("EVAL", "return redis.call('DEBUG', unpack(ARGV))", 0, *command), Error)
            client.must("CONFIG", "SET", "dbfilename", "missing.rdb")
            client.must("SET", "k", 1)
            self.assertIn(b"Error trying to load the RDB dump", client.call("DEBUG", "RELOAD", "NOSAVE"))
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "k", 1)
            self.assertIn(b"appendonly no", client.call("DEBUG", "RELOAD", "NOSAVE"))
            self.assertIn(b"appendonly no", client.call("DEBUG", "RELOAD", "MERGE"))
            self.assertEqual(client.must("GET", "k"), b"1")

    def test_watched_keys_have_changed(self):
        server = self.start(appendonly="yes")
        for command in (["DEBUG", "RELOAD"], ["DEBUG", "LOADAOF"]):
            with server.client() as client, server.client() as other:
                client.must("SET", "k", 1)
                client.must("WATCH", "k")
                self.assertEqual(other.must(*command), OK)
                client.must("MULTI")
                client.must("GET", "k")
                self.assertEqual(client.must("EXEC"), NULL_ARRAY)
                client.must("WATCH", "k")
                client.must("MULTI")
                client.must("GET", "k")
                self.assertEqual(client.must("EXEC"), [b"1"])

    def test_a_maxmemory_that_the_server_itself_exceeds(self):
        """The reload failed then, which left a part of the data set; with a checkpoint as the base of the log it ended the server."""
        for appendonly, enabled in (("no", "yes"), ("no", "no"), ("yes", "yes"), ("yes", "no")):
            with self.subTest(appendonly=appendonly, tier=enabled):
                server = self.start(appendonly=appendonly, tier_enabled=enabled)
                with server.client(timeout=60) as client:
                    client.pipeline([["SET", "k%d" % i, "%d" % i * 200] for i in range(1000)])
                    if appendonly == "yes":
                        client.must("BGREWRITEAOF")
                        until(lambda: int(server.info("persistence")["aof_rewrites"]) == 1, what="a checkpoint")
                    digest = client.must("DEBUG", "DIGEST")
                    client.must("CONFIG", "SET", "maxmemory", "1mb")
                    for command in ("RELOAD", "LOADAOF")[:1 if appendonly == "no" else 2]:
                        self.assertEqual(client.must("DEBUG", command), OK)
                        self.assertEqual(client.must("DBSIZE"), 1000)
                        self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
                server.stop()

    def test_caches_are_invalid(self):
        server = self.start()
        with server.client() as client, server.client() as other:
            client.must("HELLO", 3)
            client.must("CLIENT", "TRACKING", "ON", "BCAST")
            other.must("SET", "k", 1)
            self.assertEqual(other.must("DEBUG", "RELOAD"), OK)
            while client.receive() != Push([b"invalidate", NULL]):
                pass

    def test_clients_that_wait_for_keys(self):
        server = self.start()
        with server.client() as client, server.client() as waiter, server.client() as other:
            client.must("RPUSH", "list", "from the dump")
            client.must("DEBUG", "RELOAD")
            client.must("DEL", "list")
            waiter.send(encode(["BLPOP", "list", 0]))
            other.send(encode(["BLPOP", "missing", 0]))
            until(lambda: int(server.info("clients")["blocked_clients"]) == 2, what="two clients that wait")
            self.assertEqual(client.must("DEBUG", "RELOAD"), OK)
            self.assertEqual(int(server.info("clients")["blocked_clients"]), 2)
            client.must("RPUSH", "missing", 1)
            self.assertEqual(other.receive(), [b"missing", b"1"])
            client.must("RPUSH", "list", 1)
            self.assertEqual(waiter.receive(), [b"list", b"1"])

    def test_a_key_that_has_expired(self):
        """The log has no DEL of it. What is done with its name afterwards must mean the same when the log is replayed."""
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("SET", "k", "string", "PX", 1)
            time.sleep(0.02)
            self.assertEqual(client.must("DEBUG", "RELOAD"), OK)
            client.must("RPUSH", "k", "a")
            digest = client.must("DEBUG", "DIGEST")
            self.assertEqual(client.must("DEBUG", "LOADAOF"), OK)
            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("LRANGE", "k", 0, -1), [b"a"])

    @kelvin_only
    def test_a_log_that_is_loaded_beside_a_dump(self):
        """Loading makes a dump of the log's image, too: another file than that of BGSAVE."""
        server = self.start(appendonly="yes", save="")
        with server.client() as client:
            for number in range(100):
                client.must("SET", "k%d" % number, "v" * 100)
            client.must("BGREWRITEAOF")
            until(lambda: (info := server.info("persistence"))["aof_rewrites"] == "1" and info["aof_rewrite_in_progress"] == "0", what="the rewrite")
            client.must("CONFIG", "SET", "rdb-key-save-delay", 10000)
            self.assertEqual(client.must("BGSAVE"), Status(b"Background saving started"))
            until(lambda: glob.glob(os.path.join(server.folder, "temp-*.rdb")), what="its file")
            self.assertEqual(client.must("DEBUG", "LOADAOF"), OK)
            client.must("CONFIG", "SET", "rdb-key-save-delay", 0)
            until(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0", what="the dump")
            self.assertEqual(server.info("persistence")["rdb_last_bgsave_status"], "ok")
            self.assertEqual(client.must("DBSIZE"), 100)
        shutil.rmtree(os.path.join(server.folder, "appendonlydir"))
        server.options["appendonly"] = "no"
        server.restart(kill=True)
        self.assertEqual(server.info("keyspace")["db0"].split(",")[0], "keys=100")
        server.stop()

    def test_no_acknowledged_write_is_lost(self):
        """Counters, transactions and scripts meanwhile, in less memory than the data takes."""
        server = self.start(appendonly="yes", maxmemory="20mb")
        counts, ending, failures = {}, threading.Event(), []

        def count(name):
            with server.client() as client:
                while not ending.is_set():
                    number = counts.get(name, 0)
                    try:
                        if number % 3 == 0:
                            reply = client.must("INCR", name)
                        elif number % 3 == 1:
                            client.must("MULTI")
                            client.must("INCR", name)
                            reply = client.must("EXEC")[0]
                        else:
                            reply = client.must("EVAL", "return redis.call('INCR', KEYS[1])", 1, name)
                    except Exception as problem:                # noqa: BLE001 whatever it was, it is a failure
                        failures.append(problem)
                        return
                    counts[name] = number + 1
                    if reply != number + 1:
                        failures.append((name, reply, number + 1))
                        return

        with server.client() as client:
            self.assertEqual(client.must("DEBUG", "POPULATE", scaled(20000), "cold", 2000), OK)
            threads = [threading.Thread(target=count, args=("counter%d" % i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for i in range(6):
                self.assertEqual(client.must("DEBUG", "LOADAOF" if i % 2 else "RELOAD"), OK)
                if i == 2:
                    client.must("BGREWRITEAOF")
                if i == 3:
                    client.call("BGSAVE")
            ending.set()
            for thread in threads:
                thread.join(60)
            self.assertEqual(failures, [])
            self.assertEqual(client.must("DBSIZE"), scaled(20000) + 6)
            digest = client.must("DEBUG", "DIGEST")
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
            for name, number in counts.items():
                self.assertEqual(int(client.must("GET", name)), number)

    def test_a_shutdown_meanwhile(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("DEBUG", "POPULATE", scaled(50000), "key", 200)
            digest = client.must("DEBUG", "DIGEST")
            client.send(encode(["DEBUG", "LOADAOF"]))
            time.sleep(0.05)
        server.restart()
        with server.client() as client:
            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)

    def test_populate(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "key:1", "old")
            client.must("TIER", "DEMOTE", "key:1")
            client.must("SELECT", 2)
            self.assertEqual(client.must("DEBUG", "POPULATE", 1000), OK)
            client.must("SELECT", 0)
            self.assertEqual(client.must("DEBUG", "POPULATE", 3, "key", 10), OK)
            self.assertEqual(client.must("MGET", "key:0", "key:1", "key:2"), [b"value:0\0\0\0", b"old", b"value:2\0\0\0"])
            self.assertIsInstance(client.call("DEBUG", "POPULATE", -1), Error)
            digest = client.must("DEBUG", "DIGEST")
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("DEBUG", "DIGEST"), digest)
            client.must("SELECT", 2)
            self.assertEqual(client.must("DBSIZE"), 1000)

    def test_sleep_stops_all_workers(self):
        server = self.start()
        clients = [server.client() for _ in range(8)]
        for client in clients:
            client.must("PING")
            self.addCleanup(client.close)
        began = time.monotonic()
        clients[0].send(encode(["DEBUG", "SLEEP", "0.5"]))
        time.sleep(0.1)
        for client in clients[1:]:
            client.must("PING")
            self.assertGreater(time.monotonic() - began, 0.45)

    def test_pause_cron(self):
        server = self.start()
        with server.client() as client:
            client.must("DEBUG", "PAUSE-CRON", 1)
            time.sleep(0.15)
            client.must("SET", "k", 1, "PX", 1)
            time.sleep(0.3)
            self.assertEqual(client.must("DBSIZE"), 1)
            client.must("DEBUG", "PAUSE-CRON", 0)
            until(lambda: client.must("DBSIZE") == 0, what="active expiry")

    @unittest.skipIf(is_sanitized(), "the sanitizers take signals and the end of memory as reports")
    def test_ends_of_the_process(self):
        for name, ends_by in (("SEGFAULT", signal.SIGSEGV), ("PANIC", signal.SIGABRT), ("ASSERT", signal.SIGABRT), ("OOM", signal.SIGABRT)):
            with self.subTest(name):
                server = self.start()
                with server.client() as client:
                    client.send(encode(["DEBUG", name]))
                    self.assertEqual(server.process.wait(20), -ends_by)


@kelvin_only
class ShutdownTest(unittest.TestCase):
    def test_a_populate_without_end(self):
        server = Server()
        self.addCleanup(server.discard)
        with server.client() as client:
            client.send(encode(["DEBUG", "POPULATE", str(10 ** 12), "key", "10"]))
            with server.client() as other:
                until(lambda: other.must("DBSIZE") > 0, 20, "the first key")
            self.assertEqual(server.terminate(30), 0)


class SameAsRedisTest(PairCase):
    def test_a_reload_keeps_values_and_their_ttl(self):
        self.both("""
            RPUSH l 1 2 3
            SET s v EX 1000
            DEBUG RELOAD
            LRANGE l 0 -1
            TTL s
            TYPE l
            DEBUG RELOAD BAD
            DEBUG RELOAD NOSAVE NOFLUSH MERGE
            LRANGE l 0 -1
        """)

    def test_populate(self):
        self.both("""
            DEBUG POPULATE 5
            GET key:0
            GET key:4
            GET key:5
            DEBUG POPULATE 3 p 12
            GET p:1
            DEBUG POPULATE x
        """)


class DenyScriptsTest(LuaCase):
    """DEBUG SET-DISABLE-DENY-SCRIPTS."""
    denied = "This Redis command is not allowed from script"

    def setUp(self):
        super().setUp()
        self.both("DEBUG SET-DISABLE-DENY-SCRIPTS 1")
        self.addCleanup(self.both, "DEBUG SET-DISABLE-DENY-SCRIPTS 0")

    def test_every_type_of_reply_in_every_protocol(self):
        names = "string integer double bignum null array attrib verbatim true false set map".split()
        self.everywhere(["return redis.call('DEBUG', 'PROTOCOL', '%s')" % name for name in names[:-2]])     # the order of a Lua table varies
        self.everywhere([SHOW + "return show(redis.call('DEBUG', 'PROTOCOL', '%s'))" % name for name in names])

    @kelvin_only
    def test_time_stands_still_while_a_script_sleeps(self):
        """As in 7.2."""
        reply = self.c.must("EVAL", "local before = redis.call('TIME'); redis.call('SET', KEYS[1], 'v', 'PX', 1); redis.call('DEBUG', 'SLEEP', '0.01'); local after = redis.call('TIME'); "
                    "return {before[1] == after[1] and before[2] == after[2], redis.call('EXISTS', KEYS[1]), redis.call('PTTL', KEYS[1])}", 1, "k")
        self.assertEqual(reply, [1, 1, 1])

    def test_commands_about_the_server(self):
        self.values([("return redis.call(unpack(ARGV))", 0, *line.split()) for line in (
            "CONFIG GET hz", "CONFIG SET hz 11", "CONFIG GET hz", "CONFIG SET hz 10", "CONFIG SET hz x", "LATENCY LATEST", "LATENCY RESET", "ROLE", "DEBUG OBJECT nokey", "DEBUG SLEEP 0",
            "CONFIG RESETSTAT", "DEBUG")])

    @kelvin_only
    def test_what_needs_a_connection_stays_denied(self):
        for line in ("MULTI", "EXEC", "DISCARD", "WATCH k", "UNWATCH", "SUBSCRIBE c", "UNSUBSCRIBE", "MONITOR", "AUTH x", "HELLO 3", "RESET", "QUIT", "CLIENT SETNAME n", "CLIENT LIST",
                     "CLIENT TRACKING ON", "CLIENT REPLY OFF", "REPLCONF ACK 1", "PSYNC ? -1", "SYNC", "REPLICAOF NO ONE", "SHUTDOWN", "SAVE", "EVAL x 0", "SCRIPT FLUSH", "FUNCTION FLUSH", "WAITAOF 0 0 0"):
            with self.subTest(line):
                self.assertIn(self.denied, bytes(self.c.call("EVAL", "return redis.call(unpack(ARGV))", 0, *line.split())).decode())
        self.assertEqual(self.c.must("PING"), Status(b"PONG"))

    def test_without_it_they_are_denied(self):
        self.both("DEBUG SET-DISABLE-DENY-SCRIPTS 0")
        for client in (self.c, self.r):
            for line in ("DEBUG SLEEP 0", "CONFIG GET hz", "LATENCY LATEST", "ROLE"):
                self.assertIn(self.denied, bytes(client.call("EVAL", "return redis.call(unpack(ARGV))", 0, *line.split())).decode())

    @kelvin_only
    def test_debug_in_a_script_is_permitted_as_to_its_client(self):
        for permission in ("local", "no"):
            with self.subTest(permission), Server({"enable-debug-command": permission}) as server, server.client() as client:
                called = [client.call("DEBUG", "SET-DISABLE-DENY-SCRIPTS", 1), client.call("EVAL", "return redis.call('DEBUG', 'SLEEP', '0')", 0)]
                self.assertEqual([reply == OK for reply in called], [permission == "local"] * 2, called)


if __name__ == "__main__":
    main()
