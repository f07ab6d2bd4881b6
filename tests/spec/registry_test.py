"""SCRIPT and FUNCTION: what is registered, the errors, and where libraries persist. Running them is in other files."""
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.rdb import crc64, packed                                                               # noqa: E402
from support.resp import OK, Error, encode                                                           # noqa: E402
from support.server import REDIS, Server, is_sanitized, scaled, under_test, until          # noqa: E402

CHECK = os.path.join(os.path.dirname(under_test()), "kelvin-check")


def library(name, *functions, text="return 1"):
    lines = ["redis.register_function('%s', function(keys, args) %s end)" % (function, text) for function in functions]
    return "#!lua name=%s\n%s" % (name, "\n".join(lines))


def codes(client):
    """The code of each library by its name."""
    return {each[1].decode(): each[-1].decode() for each in client.must("FUNCTION", "LIST", "WITHCODE")}


def dump_of(*texts, version=10, body=None):
    """FUNCTION DUMP's payload with these libraries."""
    body = b"".join(b"\xf5" + packed(text) for text in texts) if body is None else body
    payload = body + version.to_bytes(2, "little")
    return payload + crc64(payload)


class Commands(PairCase):
    def setUp(self):
        super().setUp()
        for client in (self.c, self.r):
            client.must("FUNCTION", "FLUSH")
            client.must("SCRIPT", "FLUSH")

    def load(self, *texts):
        """FUNCTION LOAD of each, then what there is."""
        return self.both([["FUNCTION", "LOAD", text] for text in texts] + [["FUNCTION", "LIST", "WITHCODE"]])


class ScriptTest(Commands):
    def test_a_loaded_script_exists_until_the_flush(self):
        sha = self.both([["SCRIPT", "LOAD", "return 1"]])[0].decode()
        self.both([["SCRIPT", "EXISTS", sha, sha.upper(), "x", sha[:-1] + "g", sha[:-1], sha + "0", ""], ["SCRIPT", "LOAD", "return 1"],
                   ["SCRIPT", "LOAD", ""], ["SCRIPT", "LOAD", "return 2"], ["SCRIPT", "FLUSH"], ["SCRIPT", "EXISTS", sha],
                   ["SCRIPT", "LOAD", "return 1"], ["SCRIPT", "EXISTS", sha], ["SCRIPT", "FLUSH", "async"], ["SCRIPT", "EXISTS", sha],
                   ["SCRIPT", "LOAD", "return 1"], ["SCRIPT", "FLUSH", "SYNC"], ["SCRIPT", "EXISTS", sha]])

    def test_errors_of_the_subcommands(self):
        self.both("""
            SCRIPT
            SCRIPT NOPE
            SCRIPT LOAD
            SCRIPT LOAD a b
            SCRIPT EXISTS
            SCRIPT FLUSH foo
            SCRIPT FLUSH SYNC x
            SCRIPT DEBUG
            SCRIPT DEBUG foo
            SCRIPT DEBUG no
            SCRIPT DEBUG NO x
            SCRIPT HELP
            SCRIPT HELP x
        """)

    def test_first_lines(self):
        lines = ["#!lua\n", "#!lua", "#!", "#!\n", "#! \n", "#!foo\n", "#!LUA\n", "#! lua\n", "#!lua \n", "#!lua flags=\n", "#!lua flags=no-writes\n",
                 "#!lua flags=no-writes,allow-oom,allow-stale,no-cluster,allow-cross-slot-keys\n", "#!lua flags=no-writes,\n", "#!lua flags=,\n",
                 "#!lua flags=x\n", "#!lua flags=no-writes,x\n", "#!lua flags=NO-WRITES\n", "#!lua flags = no-writes\n", "#!lua name=x\n",
                 "#!lua flags=no-writes flags=allow-oom\n", "#!lua \"flags=no-writes\"\n", "#!lua 'flags=no-writes'\n", "#!lua flags=\"no-writes\"\n",
                 "#!lua \"\n", "#!lua '\n", "#!lua \"x\"y\n", "#!lua \"flags=no-\\x77rites\"\n", "#!lua\tflags=no-writes\r\n", "#!lua\x00\n", "#!lua Flags=\n",
                 "#!lua flags=no-writes \n", " #!lua\n", "#!lua\nreturn 1\n#!", "#!lua\n#!lua\n"]
        self.both([["SCRIPT", "LOAD", line + "return 1"] for line in lines])

    def test_scripts_that_do_not_compile(self):
        self.both([["SCRIPT", "LOAD", text] for text in ("x x", "return (", "return 1\n\nx x", "#!lua\nx x", "#!lua flags=no-writes\n\nx x",
                                                         "return 'abc", "goto x", "\x00", "return 1 return 2")])

    @kelvin_only
    def test_there_is_no_debugger(self):
        for mode in ("yes", "SYNC"):
            self.assertIn(b"no debugger", self.c.call("SCRIPT", "DEBUG", mode))
            self.assertIn(b"no debugger", self.c.call("EVAL", "return redis.call('SET', 'k', 'v')", "0"))    # redis-cli --ldb sends it all the same
            self.c.must("MULTI")
            self.c.must("EVAL", "return redis.call('SET', 'k', 'v')", "0")
            self.assertIn(b"no debugger", self.c.must("EXEC")[0])
            self.c.must("SCRIPT", "DEBUG", "NO")
            self.assertEqual(self.c.must("EXISTS", "k"), 0)
            self.assertEqual(self.c.must("EVAL", "return 1", "0"), 1)
        self.c.call("SCRIPT", "DEBUG", "YES")
        self.c.must("RESET")
        self.assertEqual(self.c.must("EVAL", "return 1", "0"), 1)

    def test_metadata_of_the_commands(self):
        for name in ("script", "function"):
            info = self.both([["COMMAND", "INFO", name]])[0]
            theirs = {each[0]: each for each in self.r.must("COMMAND", "INFO", name)[0][9]}
            for each in info[0][9]:
                other = theirs.pop(each[0])
                self.assertEqual((each[1], sorted(each[2]), sorted(each[6]), each[3:6]),
                                 (other[1], sorted(other[2]), sorted(other[6]), other[3:6]), each[0])

    @kelvin_only
    def test_scripts_count_in_info_and_in_memory_stats(self):
        before = self.server.info("memory")
        self.c.must("SCRIPT", "LOAD", "return '%s'" % ("x" * 100000))
        self.c.must("FUNCTION", "LOAD", library("info", "f", "g", text="return '%s'" % ("y" * 100000)))
        info = self.server.info("memory")
        self.assertEqual([info[name] for name in ("number_of_cached_scripts", "number_of_functions", "number_of_libraries")], ["1", "2", "1"])
        for name, least in (("used_memory_scripts_eval", 100000), ("used_memory_functions", 200000), ("used_memory_scripts", 300000),
                            ("used_memory", 0 if is_sanitized() else 300000)):
            self.assertGreaterEqual(int(info[name]) - int(before[name]), least, name)
        self.assertGreater(int(info["used_memory_vm_total"]), 0)
        stats = self.c.must("MEMORY", "STATS")
        stats = dict(zip(stats[::2], stats[1::2]))
        self.assertGreater(stats[b"lua.caches"], 100000)
        self.assertGreater(stats[b"functions.caches"], 200000)


class FunctionTest(Commands):
    def test_errors_of_the_subcommands(self):
        self.both("""
            FUNCTION
            FUNCTION NOPE
            FUNCTION LOAD
            FUNCTION LOAD REPLACE
            FUNCTION LIST foo
            FUNCTION LIST LIBRARYNAME
            FUNCTION LIST WITHCODE WITHCODE
            FUNCTION LIST LIBRARYNAME a LIBRARYNAME b
            FUNCTION LIST LIBRARYNAME a WITHCODE x
            FUNCTION DELETE
            FUNCTION DELETE nope
            FUNCTION DELETE a b
            FUNCTION FLUSH foo
            FUNCTION FLUSH SYNC x
            FUNCTION flush sync x
            FUNCTION FLUSH SYNC
            FUNCTION FLUSH async
            FUNCTION DUMP x
            FUNCTION STATS x
            FUNCTION RESTORE
            FUNCTION RESTORE x
            FUNCTION RESTORE x y
            FUNCTION RESTORE x APPEND y
            FUNCTION HELP
            FUNCTION HELP x
        """)

    def test_first_lines(self):
        body = "\nredis.register_function('f', function() end)"
        lines = ["x", "", "#", "#!", "#!lua", "#! name=x", "#!lua name", "#!lua name=", "#!lua name=a-b", "#!lua name=a.b", "#!lua name=\u00e9", "#!foo name=x",
                 "#!lua name=x name=y", "#!lua nm=x", "#!lua name=x y", "#!lua flags=no-writes", "#!lua name=\"x", "#!lua name=\"x\"y", "#! lua name=x",
                 "#!LUA name=upper", "#!Lua name=\"quoted\"", "#!lua \"name=whole\"", "#!lua  name=blanks ", "#!lua name=_", "#!lua name=0",
                 "#!lua name=\x00x", "#!lua Name=x", "#!lua name = x"]
        for line in lines:
            self.both([["FUNCTION", "FLUSH"], ["FUNCTION", "LOAD", line + body], ["FUNCTION", "LIST", "WITHCODE"]])
        self.both([["FUNCTION", "LOAD", line] for line in ("x", "", "#!lua name=x", "#!lua", "#!lua name=x\n", "#!lua name=x\nreturn 1")])

    def test_code_that_fails(self):
        head = "#!lua name=x\n"
        for code in ("x x", "\n\nx x", "error('x')", "return redis.call('get', 'k')", "redis.register_function('a-b', function() end)",
                     "redis.register_function('', function() end)", "redis.register_function('f', function() end) foo()",
                     "redis.register_function('f', function() end) redis.register_function('f', function() end)",
                     "redis.register_function('f', 1)", "redis.register_function('f')", "redis.register_function()", "local t = {} t.x.y = 1",
                     "redis.register_function{function_name='f'}", "redis.register_function{function_name='f', callback=function() end, flags={'x'}}",
                     "redis.register_function{function_name='f', callback=function() end, flags='no-writes'}",
                     "redis.register_function{function_name='f', callback=function() end, foo=1}"):
            self.both([["FUNCTION", "LOAD", head + code], ["FUNCTION", "LIST"]])

    def test_load_replace_and_delete(self):
        self.load(library("a", "f", "g"), library("b", "h"), library("A", "F2"))
        self.both([["FUNCTION", "LOAD", library("a", "f")], ["FUNCTION", "LOAD", library("c", "f")], ["FUNCTION", "LOAD", library("c", "F")],
                   ["FUNCTION", "LOAD", library("c", "i", "h")], ["FUNCTION", "LOAD", "FOO", library("c", "i")],
                   ["FUNCTION", "LOAD", "REPLACE", library("a", "f", "h")], ["FUNCTION", "LOAD", "replace", library("a", "g", "k")],
                   ["FUNCTION", "LOAD", "REPLACE", "REPLACE", library("b", "f")], ["FUNCTION", "LIST", "WITHCODE"], ["FUNCTION", "STATS"],
                   ["FUNCTION", "DELETE", "B"], ["FUNCTION", "DELETE", "b"], ["FUNCTION", "DELETE", "b"], ["FUNCTION", "LOAD", library("c", "F")],
                   ["FUNCTION", "LIST"], ["FUNCTION", "STATS"], ["FUNCTION", "FLUSH"], ["FUNCTION", "LIST"], ["FUNCTION", "STATS"]])

    def test_list(self):
        self.load(library("abc", "f"), library("abd", "g"), library("ABE", "h"),
                  "#!lua name=full\nredis.register_function{function_name='d', callback=function() end, description='what it does', "
                  "flags={'allow-oom', 'no-writes', 'no-cluster', 'allow-stale', 'allow-cross-slot-keys'}}")
        for clients in (None, self.clients(protocol=3)):
            self.both([["FUNCTION", "LIST", "LIBRARYNAME", pattern] for pattern in ("ab*", "AB?", "abc", "*", "", "[a-z]b[c-d]", "nope", "ab")]
                      + [["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "full"], ["FUNCTION", "list", "libraryname", "a*", "withcode"],
                         ["FUNCTION", "STATS"]], clients=clients)

    @kelvin_only
    def test_two_functions_of_a_library_may_not_differ_in_case_only(self):
        """redis-server accepts them, and ends with an assertion when the library is deleted."""
        self.assertIsInstance(self.c.call("FUNCTION", "LOAD", library("a", "f", "F")), Error)
        self.assertEqual(self.c.must("FUNCTION", "LIST"), [])

    def test_flushall_keeps_functions(self):
        self.load(library("a", "f"))
        self.both("""
            SET k v
            FLUSHALL
            FLUSHDB
            FUNCTION LIST WITHCODE
        """)

    def test_code_of_any_bytes_and_of_a_megabyte(self):
        self.load(library("nul", "f", text="return 'a\0b\xff'"), library("big", "g", text="return '%s'" % ("x" * 1000000)))

    @kelvin_only
    def test_a_library_that_does_not_end_is_stopped(self):
        other = self.clients()[0]
        reply = []
        thread = threading.Thread(target=lambda: reply.append(self.c.call("FUNCTION", "LOAD", "#!lua name=loop\nwhile true do end")))
        thread.start()
        until(lambda: reply or other.must("SET", "k", "v") == OK, 5, "a SET while a library is loaded")
        thread.join(20)
        self.assertEqual(reply, [Error(b"ERR Error registering functions: ERR FUNCTION LOAD timeout")])
        self.assertEqual(self.c.must("FUNCTION", "LIST"), [])


class RestoreTest(Commands):
    def test_dumps_go_both_ways(self):
        texts = [library("a", "f", "g"), library("b", "h", text="return '%s'" % ("xyz" * 5000)), library("c", "i")]
        self.load(*texts)
        ours, theirs = self.c.must("FUNCTION", "DUMP"), self.r.must("FUNCTION", "DUMP")
        self.assertEqual(ours, dump_of(*texts))
        for client, payload in ((self.c, theirs), (self.r, ours)):
            client.must("FUNCTION", "RESTORE", payload, "FLUSH")
        self.both([["FUNCTION", "LIST", "WITHCODE"]])
        self.both([["FUNCTION", "FLUSH"], ["FUNCTION", "RESTORE", ours], ["FUNCTION", "LIST", "WITHCODE"], ["FUNCTION", "FLUSH"],
                   ["FUNCTION", "RESTORE", theirs], ["FUNCTION", "LIST", "WITHCODE"], ["FUNCTION", "RESTORE", dump_of()]])
        self.assertEqual(self.c.must("FUNCTION", "DUMP"), ours)

    def test_policies(self):
        self.load(library("a", "f"), library("b", "g"))
        a, b, both = dump_of(library("a", "f2")), dump_of(library("c", "G")), dump_of(library("a", "k"), library("d", "l"))
        self.both([["FUNCTION", "RESTORE", payload, *how] for payload in (a, b, both) for how in ([], ["APPEND"], ["replace"], ["FOO"])]
                  + [["FUNCTION", "LIST", "WITHCODE"], ["FUNCTION", "RESTORE", b, "flush"], ["FUNCTION", "LIST", "WITHCODE"],
                     ["FUNCTION", "RESTORE", dump_of(), "APPEND"], ["FUNCTION", "LIST"], ["FUNCTION", "RESTORE", dump_of(), "FLUSH"],
                     ["FUNCTION", "LIST"]])

    def test_payloads_that_are_refused(self):
        good = dump_of(library("a", "f"))
        self.c.must("SET", "k", "v")
        payloads = [good[:-1], good[1:], good[:-1] + bytes([good[-1] ^ 1]), b"", b"x" * 10, good + b"x", good[:4] + b"\xff" + good[5:],
                    dump_of(body=b"\x00\x01a"), dump_of(body=b"\xff"), dump_of(body=b"\xf4"), dump_of(body=b"\xf5"),
                    dump_of(library("a", "f"), body=b"\xf5" + packed(library("a", "f")) + b"\x00"), dump_of("x"), dump_of("#!lua name=x\n"), dump_of("#!foo name=x\n"),
                    dump_of("#!lua name=a-b\n"), dump_of("#!lua name=x\nx x"), dump_of("#!lua name=x\nfoo()"), dump_of(library("a", "f"), library("a", "g")),
                    dump_of(library("a", "f"), library("b", "f")), dump_of(body=b"\xf5\xc0\x05"), dump_of(body=b"\xf5\xc3\x01\x05a"),
                    dump_of(library("a", "f"), version=9), self.c.must("DUMP", "k")]
        for payload in payloads:
            self.both([["FUNCTION", "RESTORE", payload], ["FUNCTION", "LIST"], ["FUNCTION", "FLUSH"]])

    @kelvin_only
    def test_versions_and_the_old_form(self):
        for version, good in ((0, True), (11, True), (12, True), (13, False), (65535, False)):
            reply = self.c.call("FUNCTION", "RESTORE", dump_of(library("a", "f"), version=version), "FLUSH")
            self.assertEqual(reply == OK, good, (version, reply))
        self.assertEqual(self.c.call("FUNCTION", "RESTORE", dump_of(body=b"\xf6\x01a\x01a\x00\x01a")), Error(b"ERR Pre-GA function format not supported"))

    @kelvin_only
    def test_a_failed_restore_changes_nothing(self):
        self.c.must("FUNCTION", "LOAD", library("a", "f"))
        before = self.c.must("FUNCTION", "DUMP")
        for how in ([], ["REPLACE"], ["FLUSH"]):
            self.assertIsInstance(self.c.call("FUNCTION", "RESTORE", dump_of(library("b", "g"), library("c", "g")), *how), Error)
        self.assertIsInstance(self.c.call("FUNCTION", "RESTORE", dump_of(library("b", "g"), library("c", "F")), "REPLACE"), Error)
        self.assertEqual(self.c.must("FUNCTION", "DUMP"), before)


@kelvin_only
class PersistenceTest(unittest.TestCase):
    """What is there after a restart is what was there before, wherever the libraries come from."""

    def server(self, options=None, binary=None, **more):
        server = Server({"appendonly": "yes", **(options or {})}, binary=binary, **more)
        self.addCleanup(server.discard)
        return server

    def checkpoint(self, server):
        count = int(server.info("persistence")["aof_rewrites"])
        with server.client() as client:
            client.must("BGREWRITEAOF")
        until(lambda: int(server.info("persistence")["aof_rewrites"]) > count, 30, "a checkpoint")

    def test_the_log(self):
        for kill in (False, True):
            server = self.server({"appendfsync": "always"})
            with server.client() as client:
                for i in range(5):
                    client.must("FUNCTION", "LOAD", library("l%d" % i, "f%d" % i))
                client.must("FUNCTION", "LOAD", "REPLACE", library("l1", "other"))
                client.must("FUNCTION", "DELETE", "l2")
                client.must("FUNCTION", "RESTORE", dump_of(library("r", "restored")))
                client.call("FUNCTION", "LOAD", library("l1", "x"))
                client.call("FUNCTION", "DELETE", "nope")
                client.must("SCRIPT", "LOAD", "return 1")
                client.must("FLUSHALL")
                before = codes(client)
            self.assertEqual(len(before), 5)
            server.restart(kill=kill)
            with server.client() as client:
                self.assertEqual(codes(client), before)
                self.assertEqual(client.must("SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), [0])
                client.must("FUNCTION", "FLUSH")
            server.restart(kill=kill)
            with server.client() as client:
                self.assertEqual(codes(client), {})
            server.stop()

    def test_checkpoints(self):
        server = self.server()
        with server.client() as client:
            client.must("FUNCTION", "LOAD", library("old", "f"))
            self.checkpoint(server)
            client.must("FUNCTION", "LOAD", library("new", "g"))
            client.must("FUNCTION", "LOAD", "REPLACE", library("old", "h"))
            before = codes(client)
        for kill in (True, False):
            server.restart(kill=kill)
            with server.client() as client:
                self.assertEqual(codes(client), before)
            self.checkpoint(server)
        with server.client() as client:
            client.must("FUNCTION", "FLUSH")
        self.checkpoint(server)
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(codes(client), {})
        server.stop()

    def test_a_library_is_there_once_whenever_the_cut_comes(self):
        """FUNCTION LOAD without REPLACE fails at the replay if the image has the library already, and FUNCTION DELETE if it does not."""
        server = self.server({"appendfsync": "always"})
        for round_ in range(scaled(10)):
            done, expected = threading.Event(), {}

            def change():
                with server.client() as client:
                    for i in range(10000):
                        name = "r%d_%d" % (round_, i)
                        client.must("FUNCTION", "LOAD", library(name, name))
                        expected[name] = library(name, name)
                        if i % 2:
                            client.must("FUNCTION", "DELETE", name)
                            del expected[name]
                        if done.is_set():
                            return

            thread = threading.Thread(target=change)
            thread.start()
            for _ in range(3):
                self.checkpoint(server)
            done.set()
            thread.join()
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual(codes(client), expected)
                client.must("FUNCTION", "FLUSH")
        server.stop()

    def test_dumps_of_kelvin_and_of_redis(self):
        for first, second in ((None, None), (None, REDIS), (REDIS, None)):
            server = self.server({"appendonly": "no"}, binary=first)
            with server.client() as client:
                client.must("SET", "k", "v")
                for text in (library("a", "f", "g"), library("b", "h", text="return '%s'" % ("xyz" * 5000))):
                    client.must("FUNCTION", "LOAD", text)
                before = codes(client)
                client.must("SAVE")
            other = self.server({"appendonly": "no"}, binary=second)
            other.terminate()
            shutil.copy(os.path.join(server.folder, "dump.rdb"), other.folder)
            other.start()
            with other.client() as client:
                self.assertEqual(codes(client), before, (first, second))
                self.assertEqual(client.must("GET", "k"), b"v")
            server.stop()
            other.stop()

    def test_the_log_of_redis(self):
        server = self.server(binary=REDIS)
        with server.client() as client:
            client.must("FUNCTION", "LOAD", library("base", "f"))
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 30, "a rewrite")
            client.must("FUNCTION", "LOAD", library("increment", "g"))
            client.must("FUNCTION", "LOAD", "REPLACE", library("base", "h"))
            before = codes(client)
        server.terminate()
        other = self.server()
        other.terminate()
        shutil.rmtree(os.path.join(other.folder, "appendonlydir"))
        shutil.copytree(os.path.join(server.folder, "appendonlydir"), os.path.join(other.folder, "appendonlydir"))
        for kill in (False, True):
            other.start()
            with other.client() as client:
                self.assertEqual(codes(client), before)
            other.terminate() if not kill else other.kill9()

    def test_a_dump_with_functions_that_cannot_be_loaded_stops_the_start(self):
        server = self.server({"appendonly": "no"})
        server.terminate()
        for text, why in (("#!lua name=a\nx x", b"Error compiling function"), ("#!lua name=a\n", b"No functions registered")):
            body = b"REDIS0010\xf5" + packed(text) + b"\xff"
            with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
                file.write(body + crc64(body))
            server.launch()
            self.assertEqual(server.wait_end(), 1)
            self.assertIn(why, server.log_new())
        body = b"REDIS0010\xf6\x01a\x01a\x00\x01a\xff"
        with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
            file.write(body + crc64(body))
        server.launch()
        self.assertEqual(server.wait_end(), 1)
        self.assertIn(b"release candidate", server.log_new())

    def test_a_slow_library_is_loaded_at_the_start(self):
        """It was accepted by a faster machine. From a client it is refused after 500 ms."""
        server = self.server({"appendonly": "no"})
        text, loops, reply = None, 10 ** 6, None
        with server.client() as client:
            while not isinstance(reply, Error):
                text = "#!lua name=slow\nlocal n = 0\nfor i = 1, %d do n = n + i end\nredis.register_function('f', function() return 1 end)"
                reply = client.call("FUNCTION", "LOAD", "REPLACE", text % loops)
                loops *= 2
            self.assertIn(b"FUNCTION LOAD timeout", reply)
            text %= loops           # twice as slow, in case the machine has more time for it than just now
            self.assertIn(b"FUNCTION LOAD timeout", client.call("FUNCTION", "RESTORE", dump_of(text), "FLUSH"))
        server.terminate()
        body = b"REDIS0010\xf5" + packed(text) + b"\xff"
        with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
            file.write(body + crc64(body))
        server.start()
        with server.client() as client:
            self.assertEqual(codes(client), {"slow": text})
            self.assertEqual(client.must("FCALL", "f", "0"), 1)
        server.stop()

    def test_a_log_switched_on_later_and_a_backup(self):
        server = self.server({"appendonly": "no"})
        backup = os.path.join(server.folder, "backup")
        with server.client() as client:
            client.must("FUNCTION", "LOAD", library("a", "f"))
            client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: server.info("persistence")["aof_enabled"] == "1", 30, "the log")
            client.must("FUNCTION", "LOAD", library("b", "g"))
            client.must("TIER", "BACKUP", backup)
            before = codes(client)
            client.must("FUNCTION", "FLUSH")
        self.assertEqual(len(before), 2)
        other = self.server()
        other.terminate()
        shutil.rmtree(os.path.join(other.folder, "appendonlydir"))
        other.args = ["--restore", backup]
        other.start()
        with other.client() as client:
            self.assertEqual(codes(client), before)
        other.stop()
        server.stop()

    def damaged_image(self, change):
        """A stopped server whose image has libraries; `change` gets the path of their file."""
        server = self.server()
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("FUNCTION", "LOAD", library("a", "f"))
        self.checkpoint(server)
        server.terminate()
        log = os.path.join(server.folder, "appendonlydir")
        image = next(name for name in os.listdir(log) if name.endswith(".image"))
        change(os.path.join(log, image, "functions"))
        return server, log

    def test_kelvin_check_knows_the_functions_of_an_image(self):
        server, log = self.damaged_image(lambda path: None)
        done = subprocess.run([CHECK, log], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"1 libraries", done.stdout)

    def test_damaged_functions_are_noticed_and_can_be_left_out(self):
        def flip(path):
            with open(path, "r+b") as file:
                file.seek(20)
                file.write(b"#")

        for change in (flip, os.unlink):
            server, log = self.damaged_image(change)
            server.launch()
            self.assertEqual(server.wait_end(), 1)
            self.assertIn(b"functions", server.log_new())
            self.assertEqual(subprocess.run([CHECK, log], capture_output=True).returncode, 1)
            done = subprocess.run([CHECK, "--repair", log], capture_output=True)
            self.assertIn(b"libraries of functions are left out", done.stdout)
            self.assertEqual(subprocess.run([CHECK, log], capture_output=True).returncode, 0)
            server.start()
            with server.client() as client:
                self.assertEqual(client.must("GET", "k"), b"v")
                self.assertEqual(client.must("FUNCTION", "LIST"), [])


@kelvin_only
class WorkersTest(ServerCase):
    options = {"io-threads": 4}

    def setUp(self):
        super().setUp()
        self.c.must("FUNCTION", "FLUSH")

    def test_what_one_worker_registers_all_know(self):
        clients = [self.client() for _ in range(8)]
        for i in range(scaled(100)):
            loader, others = clients[i % 8], clients
            sha = loader.must("SCRIPT", "LOAD", "return %d" % i)
            self.assertEqual([each.must("SCRIPT", "EXISTS", sha) for each in others], [[1]] * 8)
            loader.must("FUNCTION", "LOAD", "REPLACE", library("lib", "f%d" % i))
            self.assertEqual([codes(each) for each in others], [{"lib": library("lib", "f%d" % i)}] * 8)
            if i % 10 == 9:
                loader.must("SCRIPT", "FLUSH")
                self.assertEqual([each.must("SCRIPT", "EXISTS", sha) for each in others], [[0]] * 8)

    def test_one_of_two_that_load_the_same_library_gets_an_error(self):
        clients = [self.client() for _ in range(4)]
        for i in range(scaled(50)):
            for client in clients:
                client.send(encode(["FUNCTION", "LOAD", library("l%d" % i, "l%d" % i)]))
            replies = [client.receive() for client in clients]
            self.assertEqual(sorted(isinstance(reply, Error) for reply in replies), [False, True, True, True], replies)

    def test_no_call_that_begins_after_the_reply_runs_the_old_version(self):
        """Each library returns its version. A client that calls it after version n was acknowledged gets n at least."""
        acknowledged, problems, over = [0], [], threading.Event()

        def text(version):
            return library("lib", "f", text="return %d" % version)

        def call():
            with self.server.client() as client:
                while not over.is_set():
                    least = acknowledged[0]
                    reply = client.call("FCALL", "f", "0")
                    if not isinstance(reply, int) or reply < least:
                        problems.append((least, reply))
                        return

        self.c.must("FUNCTION", "LOAD", text(0))
        threads = [threading.Thread(target=call) for _ in range(6)]
        for thread in threads:
            thread.start()
        for version in range(1, scaled(300)):
            if version % 3 == 0:
                self.c.must("FUNCTION", "RESTORE", dump_of(text(version)), "FLUSH")
            else:
                self.c.must("FUNCTION", "LOAD", "REPLACE", text(version))
            acknowledged[0] = version
        over.set()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.c.must("FUNCTION", "DELETE", "lib")
        for client in (self.client() for _ in range(8)):
            self.assertIsInstance(client.call("FCALL", "f", "0"), Error)

    def test_what_a_library_keeps_is_its_workers(self):
        """A counter at the top level counts the calls of one worker: the results are those of at most four counters. Its message is logged once."""
        self.c.must("FUNCTION", "LOAD", "#!lua name=count\nredis.log(redis.LOG_WARNING, 'the library is loaded')\nlocal n = 0\n"
                    "redis.register_function('count', function() n = n + 1 return n end)")
        clients, counts = [self.client() for _ in range(8)], {}
        for _ in range(50):
            for client in clients:
                result = client.must("FCALL", "count", "0")
                counts[result] = counts.get(result, 0) + 1
        times = [counts.get(n, 0) for n in range(1, max(counts) + 1)]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertLessEqual(times[0], 4)
        self.assertEqual(sum(times), 400)
        self.assertEqual(self.server.log().count(b"the library is loaded"), 1)

    def test_a_script_of_any_worker_is_found_by_all(self):
        clients = [self.client() for _ in range(8)]
        for i in range(scaled(100)):
            text = "return %d -- %d" % (i, os.getpid())
            self.assertEqual(clients[i % 8].must("EVAL", text, "0"), i)
            sha = hashlib.sha1(text.encode()).hexdigest()
            self.assertEqual([client.must("EVALSHA", sha, "0") for client in clients], [i] * 8)
            self.assertEqual([client.must("SCRIPT", "EXISTS", sha) for client in clients], [[1]] * 8)

    def test_very_many_different_scripts_take_little_memory(self):
        """Those of EVAL are dropped, but not one that is used, and not those of SCRIPT LOAD."""
        kept = self.c.must("SCRIPT", "LOAD", "return 'kept'")
        self.c.must("EVAL", "return 'used'", "0")
        used = hashlib.sha1(b"return 'used'").hexdigest()
        clients = [self.client() for _ in range(4)]

        def run(number, begin, end):
            for first in range(begin, end, 50):
                clients[number].pipeline([["EVAL", "return %d -- %s" % (i * 4 + number, "x" * 1000), "0"] for i in range(first, first + 50)]
                                         + [["EVALSHA", used, "0"]])

        def all_run(begin, end):
            threads = [threading.Thread(target=run, args=(number, begin, end)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return self.server.info("memory")

        first, second = all_run(0, 2000), all_run(2000, 2000 + scaled(20000))
        for info in (first, second):
            self.assertLessEqual(int(info["number_of_cached_scripts"]), 502)
        self.assertLess(int(second["used_memory_scripts_eval"]), 2000000)
        self.assertLess(int(second["used_memory_vm_total"]), 4000000)      # of 20 MB of scripts; Lua collects garbage when it has doubled
        for sha in (kept, used):
            self.assertEqual(self.c.must("SCRIPT", "EXISTS", sha), [1])
        self.assertEqual(self.c.must("EVALSHA", kept, "0"), b"kept")


if __name__ == "__main__":
    main()
