"""DEBUG in detail, SHUTDOWN, ROLE, REPLICAOF; HELP of all containers."""
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import OK, Error, Status                                                          # noqa: E402
from support.server import Server, StartFailed, until                                                         # noqa: E402

PROTOCOL_TYPES = "string integer double bignum null array set map verbatim true false".split()


class DebugTest(PairCase):
    def exactly(self, *commands):
        for command in commands:
            self.assertEqual(self.c.call(*command), self.r.call(*command), command)

    def test_every_type_of_the_protocol(self):
        self.exactly(*[["DEBUG", "PROTOCOL", kind] for kind in PROTOCOL_TYPES + ["attrib", "push", "nosuch"]])
        for kind in PROTOCOL_TYPES + ["attrib", "push"]:
            self.both_raw(b"DEBUG PROTOCOL %s\r\n" % kind.encode(), before=("HELLO", "3"))

    def test_errors(self):
        self.exactly(["DEBUG"], ["DEBUG", "nosuch"], ["DEBUG", "SLEEP"], ["DEBUG", "SLEEP", "0", "1"], ["DEBUG", "OBJECT"],
                     ["DEBUG", "OBJECT", "missing"], ["DEBUG", "PROTOCOL"], ["DEBUG", "ERROR"], ["DEBUG", "LISTPACK", "missing"],
                     ["DEBUG", "ERROR", "ERR made up"], ["DEBUG", "ERROR", "WORD"], ["DEBUG", "ERROR", "A\r\nB"], ["DEBUG", "ERROR", ""],
                     ["DEBUG", "DIGEST-VALUE"], ["DEBUG", "DIGEST", "x"], ["SET", "k", "v"], ["DEBUG", "LISTPACK", "k"])

    @kelvin_only
    def test_unsupported_subcommands_return_errors(self):
        for name in ("RESTART", "CRASH-AND-RECOVER", "CHANGE-REPL-ID", "HTSTATS", "REPLYBUFFER", "QUICKLIST-PACKED-THRESHOLD"):
            reply = self.c.call("DEBUG", name)
            self.assertIsInstance(reply, Error)
            self.assertIn(b"not supported", reply)
        self.assertEqual(self.c.must("PING"), Status(b"PONG"))

    def test_serialized_lengths(self):
        for value in ("v", "12", "-70000", "5000000000", "x" * 63, "y" * 70, "z" * 20000):
            replies = []
            for client in (self.c, self.r):
                client.must("SET", "k", value)
                client.must("CONFIG", "SET", "rdbcompression", "no")
                replies.append(client.must("DEBUG", "OBJECT", "k").split(b"serializedlength:")[1].split()[0])
            self.assertEqual(replies[0], replies[1], value[:20])

    def test_debug_log_writes_to_the_log(self):
        self.assertEqual(self.c.must("DEBUG", "LOG", "a line to find"), OK)
        until(lambda: b"a line to find" in self.server.log(), 5, "the line in the log")

    @kelvin_only
    def test_string_match(self):
        self.assertEqual(self.c.must("DEBUG", "STRINGMATCH-LEN", "1000", "a*"), 1)
        self.assertEqual(self.c.must("DEBUG", "STRINGMATCH-LEN", "1000", "b*"), 0)
        self.assertIsInstance(self.c.call("DEBUG", "STRINGMATCH-LEN", "x", "b*"), Error)

    def digest(self):
        return self.c.must("DEBUG", "DIGEST")

    def test_a_digest_follows_the_data(self):
        empty = self.digest()
        self.assertEqual(bytes(empty), b"0" * 40)
        self.c.must("SET", "a", "1")
        one = self.digest()
        self.c.must("HSET", "h", "f", "v", "g", "w")
        both = self.digest()
        self.c.must("SELECT", 3)
        self.c.must("SET", "a", "1")
        three = self.digest()
        self.assertEqual(len({empty, one, both, three}), 4)
        self.c.must("DEL", "a")
        self.assertEqual(self.digest(), both)
        self.c.must("SELECT", 0)
        self.c.must("HSET", "h", "f", "w", "g", "v")
        self.assertNotEqual(self.digest(), both)
        self.c.must("DEL", "h")
        self.c.must("HSET", "h", "g", "w", "f", "v")
        self.assertEqual(self.digest(), both)
        self.c.must("EXPIRE", "a", 1000)
        self.assertNotEqual(self.digest(), both)
        self.c.must("PERSIST", "a")
        self.c.must("RENAME", "a", "b")
        self.assertNotEqual(self.digest(), both)
        self.c.must("RENAME", "b", "a")
        self.assertEqual(self.digest(), both)

    def test_digests_of_values(self):
        self.c.must("MSET", "a", "same", "b", "same", "c", "other")
        a, b, c, missing = self.c.must("DEBUG", "DIGEST-VALUE", "a", "b", "c", "missing")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)
        self.assertEqual(bytes(missing), b"0" * 40)

    @kelvin_only
    def test_digests_and_debug_work_on_cold_keys(self):
        self.c.pipeline([["SET", "k%d" % i, "value %d" % i] for i in range(500)] + [["HSET", "h%d" % i, "f", i] for i in range(100)])
        keys = self.c.must("KEYS", "*")
        before = self.digest()
        value = self.c.must("DEBUG", "DIGEST-VALUE", "h7")
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), 600)
        self.assertEqual(self.digest(), before)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), 600)
        self.assertEqual(self.c.must("DEBUG", "DIGEST-VALUE", "h7"), value)
        self.assertIn(b"encoding:embstr", self.c.must("DEBUG", "OBJECT", "k3"))


class DebugRefusedTest(PairCase):
    options = {"enable-debug-command": "no"}

    def test_debug_is_disabled_by_default(self):
        self.assertEqual(self.c.call("DEBUG", "SLEEP", "0"), self.r.call("DEBUG", "SLEEP", "0"))
        self.assertIn(b"not allowed", self.c.call("DEBUG", "HELP"))


class DebugLocalTest(PairCase):
    options = {"enable-debug-command": "local"}

    def test_debug_local_allows_this_machine(self):
        self.both("DEBUG SLEEP 0\nDEBUG SET-ACTIVE-EXPIRE 1")


class RoleTest(PairCase):
    def test_a_master_without_replicas(self):
        self.both("ROLE\nROLE x\nREPLICAOF NO ONE\nSLAVEOF no one\nREPLICAOF\nREPLICAOF a\nREPLICAOF a b\nREPLICAOF a 99999999\n"
                  "SLAVEOF a -1\nROLE")

    def test_a_replica_of_a_server_that_is_not_there(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))             # and does not listen
            port = held.getsockname()[1]
            self.both("REPLICAOF 127.0.0.1 %d\nSET k v\nREPLICAOF 127.0.0.1 %d" % (port, port))
            self.assertEqual(self.c.must("ROLE")[:3], [b"slave", b"127.0.0.1", port])
            self.both("REPLICAOF NO ONE\nSET k v\nREPLICAOF NO ONE")
        self.assertEqual(self.c.must("ROLE")[0], b"master")


class HelpTest(PairCase):
    def test_every_container_has_help(self):
        for name in ("CONFIG", "SLOWLOG", "LATENCY", "MEMORY", "DEBUG"):
            lines = self.c.must(name, "HELP")
            self.assertTrue(all(isinstance(line, Status) for line in lines))
            self.assertEqual(lines[0], self.r.must(name, "HELP")[0])
            self.assertIsInstance(self.c.call(name, "HELP", "x"), Error)

    def test_invalid_arguments(self):
        self.both("""
            SLOWLOG
            SLOWLOG nosuch
            SLOWLOG GET 1 2
            SLOWLOG LEN x
            LATENCY
            LATENCY HISTORY
            LATENCY GRAPH a b
            LATENCY RESET nosuch
            LATENCY HISTOGRAM nosuch
            MEMORY PURGE
            MEMORY PURGE x
            MEMORY USAGE k SAMPLES -1
            CONFIG
            CONFIG nosuch
        """)


class FormTest(PairCase):
    def test_the_types_of_replies(self):
        for protocol in (2, 3):
            ours, theirs = self.clients(protocol=protocol)
            for command in (["LATENCY", "DOCTOR"], ["MEMORY", "DOCTOR"], ["MEMORY", "STATS"], ["MEMORY", "MALLOC-STATS"],
                            ["LATENCY", "HISTOGRAM"], ["CONFIG", "GET", "port"], ["SLOWLOG", "GET"], ["LATENCY", "LATEST"]):
                self.assertIs(type(ours.must(*command)), type(theirs.must(*command)), command)

    def test_a_histogram_counts_every_call_in_the_buckets_of_redis(self):
        self.c.must("CONFIG", "RESETSTAT")
        self.c.pipeline([["SET", "k", "v"]] * 200)
        name, facts = self.c.must("LATENCY", "HISTOGRAM", "SET")
        self.assertEqual((name, facts[0], facts[1], facts[2]), (b"set", b"calls", 200, b"histogram_usec"))
        steps, counts = facts[3][::2], facts[3][1::2]
        self.assertEqual(counts[-1], 200)
        self.assertEqual(counts, sorted(set(counts)))
        self.assertEqual(set(steps) - {1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816}, set())

    def test_a_container_includes_its_subcommands(self):
        self.c.must("CONFIG", "GET", "port")
        names = self.c.must("LATENCY", "HISTOGRAM", "config", "ping")[::2]
        self.assertIn(b"config|get", names)
        self.assertTrue(all(name.startswith(b"config|") for name in names))


class ShutdownTest(unittest.TestCase):
    def start(self, options=None):
        server = Server(options or {})
        self.addCleanup(server.discard)
        return server

    def test_invalid_arguments_are_refused(self):
        server = self.start()
        with server.client() as client:
            for words in (["foo"], ["SAVE", "NOSAVE"], ["ABORT", "NOW"], ["NOW", "x"]):
                self.assertEqual(client.call("SHUTDOWN", *words), Error(b"ERR syntax error"), words)
            self.assertEqual(client.call("SHUTDOWN", "ABORT"), Error(b"ERR No shutdown in progress."))
            self.assertEqual(client.must("PING"), Status(b"PONG"))

    def test_shutdown_exits_with_zero(self):
        for words in ([], ["NOSAVE"], ["NOW", "FORCE"]):
            server = self.start()
            with server.client() as client:
                client.send(b" ".join([b"SHUTDOWN"] + [word.encode() for word in words]) + b"\r\n")
                self.assertEqual(server.wait_end(), 0)
            self.assertIn(b"bye bye", server.log())

    def test_writes_survive_a_shutdown(self):
        server = self.start({"appendonly": "yes"})
        with server.client() as client:
            client.pipeline(["SET", "k%d" % i, i] for i in range(1000))
            client.send(b"SHUTDOWN SAVE\r\n")
            self.assertEqual(server.wait_end(), 0)
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 1000)


@kelvin_only
class AbsentTest(ServerCase):
    """Directives of features that Kelvin does not have can only have their default."""

    def test_config_set_refuses_all_but_the_default(self):
        for name, value, default in (("repl-diskless-load", "swapdb", "disabled"),):
            reply = self.c.call("CONFIG", "SET", name, value)
            self.assertIsInstance(reply, Error)
            self.assertEqual(bytes(reply), b"ERR CONFIG SET failed (possibly related to argument '%s') - not supported by Kelvin yet, "
                                           b"the only value accepted is '%s'" % (name.encode(), default.encode()))
            self.assertEqual(self.c.must("CONFIG", "GET", name), [name.encode(), default.encode()])
            self.c.must("CONFIG", "SET", name, default)

    def test_a_start_with_one_is_refused(self):
        for name, value in (("repl-diskless-load", "swapdb"), ("loadmodule", "some.so")):
            with self.assertRaises(StartFailed) as caught:
                with Server(args=["--" + name] + value.split()):
                    pass
            self.assertIn("'%s': not supported by Kelvin yet" % name, str(caught.exception))


@kelvin_only
class TierOffTest(ServerCase):
    options = {"tier-enabled": "no"}

    def test_no_key_becomes_cold(self):
        self.c.must("SET", "k", "v")
        self.assertIn(b"disabled", self.c.call("TIER", "DEMOTE", "k"))
        self.assertEqual(self.c.must("TIER", "WHERE", "k"), b"hot")
        self.assertEqual(self.c.must("TIER", "PROMOTE", "k", "missing"), 1)
        self.assertEqual(self.c.must("TIER", "HEAT"), [[5, 1]])
        facts = dict(zip(*[iter(self.c.must("TIER", "STATS"))] * 2))
        self.assertEqual((facts[b"tier_status"], facts[b"tier_hot_keys"], facts[b"tier_cold_keys"]), (b"off", 1, 0))
        self.assertEqual(self.server.info("tiering")["tier_status"], "off")

    def test_everything_else_works(self):
        self.c.must("SET", "k", "v")
        self.assertEqual(self.server.info("keyspace")["db0"].split(",")[0], "keys=1")
        self.assertTrue(self.c.must("MEMORY", "STATS"))
        self.assertGreater(self.c.must("MEMORY", "USAGE", "k"), 10)
        self.assertEqual(len(self.c.must("DEBUG", "DIGEST")), 40)


if __name__ == "__main__":
    main()
