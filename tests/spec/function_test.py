"""FUNCTION, FCALL and FCALL_RO, compared with redis-server."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                             # noqa: E402
from support.lua import LuaCase                                                                     # noqa: E402
from support.resp import Error, Map, encode                                                        # noqa: E402
from support.server import REDIS, Server, is_redis, until                                           # noqa: E402


def library(name, *functions):
    return "\n".join(["#!lua name=" + name] + list(functions))


def returning(name, value):
    return "redis.register_function('%s', function(keys, args) return %s end)" % (name, value)


SMALL = library("lib", returning("f", "'from f'"))
FULL = library("full", returning("echo", "args[1]"), returning("both", "{keys, args}"), "redis.register_function{function_name = 'ro', callback = function(keys) return redis.call('GET', keys[1]) end, flags = {'no-writes'}}",
               "redis.register_function{function_name = 'write', callback = function(keys, args) return redis.call('SET', keys[1], args[1]) end, description = 'writes'}",
               "redis.register_function{function_name = 'liar', callback = function(keys, args) return redis.call('SET', 'k', 'v') end, flags = {'no-writes'}}",
               "redis.register_function('fail', function() error('text') end)", "redis.register_function('wrong', function() return redis.call('INCR', 'text') end)")


class FunctionCase(LuaCase):
    def setUp(self):
        super().setUp()
        self.present("FUNCTION", "FCALL")
        self.both("FUNCTION FLUSH")

    def load(self, text, *words):
        return self.both([["FUNCTION", "LOAD", *words, text]])[0]


class LoadTest(FunctionCase):
    def test_the_first_line(self):
        for text in ("", "x", "return 1", "#!lua", "#!lua\n", "#!lua name=", "#!lua name=\n", "#!lua name=a-b\n", "#!lua name=a.b\n", "#!lua name=a b\n", "#!lua name=x name=y\n", "#!lua nam=x\n", "#!lua name=x foo=bar\n",
                     "#!bad name=x\n", "#!LUA name=x\n", "#! lua name=x\n", "#!lua  name=x\n", "#!lua name=x", "#!lua name=x\n", "#!lua name = x\n", "#!lua NAME=x\n", "#!lua name=x flags=no-writes\n", "#!lua name=" + "x" * 1000 + "\n",
                     "#!lua name=x\nreturn 1", "#!lua name=\xe4\n", "#!lua name=x\r\n" + returning("f", "1"), " " + SMALL, "\n" + SMALL, "#!lua name=\"x\"\n" + returning("f", "1"), "#!lua name=a_B_9\n" + returning("g", "1")):
            with self.subTest(text=text[:60]):
                self.load(text)
        self.both("FUNCTION LIST LIBRARYNAME none*")

    def test_what_a_library_may_do_when_it_is_loaded(self):
        for body in ("redis.call('PING')", "redis.pcall('PING')", "return redis.sha1hex('x')", "redis.log(redis.LOG_NOTICE, 'x')", "redis.setresp(3)", "redis.set_repl(1)", "redis.replicate_commands()", "error('x')",
                     "x = 1", "return nosuch", "redis.nosuch()", "local x = KEYS", "local x = ARGV", "math.random()", "redis.register_function()", "redis.register_function('f')", "redis.register_function('f', 1)",
                     "redis.register_function(1, function() end)", "redis.register_function('f', function() end, 1)", "redis.register_function('a-b', function() end)", "redis.register_function('', function() end)",
                     "redis.register_function({})", "redis.register_function{function_name = 'f'}", "redis.register_function{callback = function() end}", "redis.register_function{function_name = 'f', callback = 1}",
                     "redis.register_function{function_name = 1, callback = function() end}", "redis.register_function{function_name = 'f', callback = function() end, flags = 1}",
                     "redis.register_function{function_name = 'f', callback = function() end, flags = {'bad'}}", "redis.register_function{function_name = 'f', callback = function() end, flags = {1}}",
                     "redis.register_function{function_name = 'f', callback = function() end, bad = 1}", "redis.register_function{function_name = 'f', callback = function() end, [1] = 1}",
                     "redis.register_function{function_name = 'f', callback = function() end, description = 1}", "redis.register_function('f', print)", "redis.register_function('f', redis.call)",
                     "redis.register_function('f', function() end); redis.register_function('f', function() end)", "redis.register_function('f', function() end); error('after')", "retrun 1", "while", "local t = {}; t.x.y = 1",
                     "redis.register_function{function_name = 'f', callback = function() end, flags = {}}", "redis = nil", "redis.call = 1", "string.x = 1", "setmetatable(_G, nil)", "getmetatable(_G).__index = nil",
                     "redis.register_function{function_name = 'f', callback = function() end, flags = {'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'}, description = 'all'}"):
            with self.subTest(body=body):
                self.load(library("lib", body), "REPLACE")
                self.both([["FUNCTION", "LIST"]])

    def test_replace_and_collisions(self):
        self.load(SMALL)
        self.load(SMALL)
        self.load(SMALL, "REPLACE")
        self.load(library("other", returning("f", "2")))
        self.load(library("other", returning("f", "2")), "REPLACE")
        self.load(library("lib", returning("g", "'new'")), "REPLACE")
        self.both("FCALL f 0\nFCALL g 0")
        self.load(library("lib", "error('x')"), "REPLACE")
        self.both("FCALL g 0")
        self.load(library("other", returning("f", "2")))
        self.load(library("lib", returning("g", "1"), returning("f", "1")), "REPLACE")
        self.both("FCALL g 0\nFCALL f 0")
        self.both([["FUNCTION", "LOAD"], ["FUNCTION", "LOAD", "BAD", SMALL], ["FUNCTION", "LOAD", "REPLACE"], ["FUNCTION", "LOAD", "REPLACE", "REPLACE", SMALL], ["FUNCTION", "LOAD", SMALL, "REPLACE"], ["FUNCTION", "LOAD", "replace", SMALL]])

    def test_a_library_that_takes_too_long_to_load(self):
        reply = [client.call("FUNCTION", "LOAD", library("slow", "while true do end")) for client in (self.c, self.r)]
        self.assertEqual(*reply)


class CallTest(FunctionCase):
    def test_calls(self):
        self.load(FULL)
        self.both("""
            FCALL echo 0 x
            FCALL ECHO 0 x
            FCALL echo 0
            FCALL both 2 a b c d
            FCALL both 0
            FCALL none 0
            FCALL "" 0
            FCALL echo
            FCALL echo x
            FCALL echo -1
            FCALL echo 1
            FCALL echo 9 a
            FCALL echo 1.5 a
            SET k v
            FCALL ro 1 k
            FCALL_RO ro 1 k
            FCALL_RO write 1 k w
            FCALL write 1 k w
            GET k
            FCALL liar 0
            FCALL_RO liar 0
            FCALL_RO echo 0 x
            FCALL fail 0
            SET text x
            FCALL wrong 0
            FCALL_RO none 0
            FCALL_RO
            FCALL
        """)

    def test_calls_in_both_protocols(self):
        values = ["1", "1.9", "'x'", "true", "false", "nil", "{}", "{1, {2}, 'x'}", "{ok = 'fine'}", "{err = 'ERR x'}", "{double = 1.5}", "{map = {a = 1}}", "{set = {a = true}}", "redis.call('HGETALL', 'h')", "{big_number = '12'}",
                  "redis.status_reply('x')", "redis.error_reply('x')", "redis.pcall('NOSUCH')", "{verbatim_string = {string = 'a', format = 'txt'}}", "(function() redis.setresp(3); return redis.call('HGETALL', 'h') end)()",
                  "(function() redis.setresp(3); return redis.call('ZSCORE', 'z', 'm') end)()"]
        self.load(library("lib", *[returning("f%d" % index, value) for index, value in enumerate(values)]))
        for protocol in (2, 3):
            self.both("HSET h f v\nZADD z 1.5 m")
            self.both([["FCALL", "f%d" % index, 0] for index in range(len(values))], self.clients(protocol=protocol))

    def test_in_a_script_and_in_a_transaction(self):
        self.load(FULL)
        self.each(["return redis.call('FCALL', 'echo', 0, 'x')", "return redis.call('FUNCTION', 'LIST')"])
        self.both([["MULTI"], ["FCALL", "echo", 0, "x"], ["FCALL", "none", 0], ["FCALL", "write", 1, "k", "w"], ["FCALL", "fail", 0], ["FUNCTION", "DELETE", "full"], ["FCALL", "echo", 0, "x"], ["FUNCTION", "LOAD", SMALL],
                   ["FCALL", "f", 0]])
        for client in (self.c, self.r):
            self.assertIsInstance(client.call("EXEC"), list)
        self.both("FCALL f 0\nGET k")

    def test_the_environment_of_functions(self):
        bodies = ["type(KEYS)", "type(ARGV)", "KEYS", "redis.register_function and 1", "x", "(function() x = 1 end)()", "type(redis.call)", "#keys + #args", "redis.REDIS_VERSION and 1", "(function() redis.call = nil end)()",
                  "redis.register_function('late', function() end)", "redis.breakpoint and 1", "redis.debug and 1", "redis.replicate_commands and 1", "redis.set_repl(redis.REPL_ALL)", "redis.acl_check_cmd('GET', 'k')", "math.random(1000)",
                  "type(cjson)", "type(redis.setresp)", "redis.call('BLMPOP', 0, 1, 'absent', 'LEFT')", "redis.call('MULTI')", "(function() local t = {}; for k in pairs(redis) do t[#t + 1] = k end; table.sort(t); return t end)()",
                  "(function() local t = {}; for k in pairs(_G) do if k ~= 'os' then t[#t + 1] = k end end; table.sort(t); return t end)()", "(function(...) return select('#', ...) end)(keys, args)"]
        for index, body in enumerate(bodies):
            self.load(library("lib%d" % index, returning("f%d" % index, body)))
            self.both([["FCALL", "f%d" % index, 1, "k", "a"]])

    def test_locals_of_a_library(self):
        """What the top level of a library computes once is there in each call; a counter is per worker here, so one connection is used."""
        self.load(library("lib", "local base = 40", "local function add(n) return base + n end", "redis.register_function('f', function(keys, args) return add(args[1]) end)",
                          "local n = 0", "redis.register_function('count', function() n = n + 1; return n end)"))
        self.both("FCALL f 0 2\nFCALL count 0\nFCALL count 0\nFCALL count 0")

    def test_blocked_and_noscript_commands(self):
        self.load(library("lib", "redis.register_function('run', function(keys, args) return redis.pcall(unpack(args)) end)"))
        self.both([["FCALL", "run", 0, *line.split()] for line in ("BLMPOP 0 1 k LEFT", "SUBSCRIBE x", "MULTI", "EVAL x 0", "FCALL run 0", "FUNCTION FLUSH", "SCRIPT FLUSH", "CONFIG GET x", "SELECT 1", "SAVE", "AUTH x", "CLIENT LIST")])
        self.both("GET x")

    def test_memory_and_flags(self):
        options = {"maxmemory": "1", "maxmemory-policy": "noeviction", "tier-enabled": "no"}
        flags = ("", "flags = {'no-writes'}", "flags = {'allow-oom'}", "flags = {'no-writes', 'allow-oom'}", "flags = {}")
        with Server(options) as ours, Server({"maxmemory": "1"}, binary=REDIS) as oracle:
            pair = ours.client(), oracle.client()
            text = library("lib", *["redis.register_function{function_name = '%s%d', callback = function() return redis.call(%s) end, %s}" % (name, index, call, each)
                                    for index, each in enumerate(flags) for name, call in (("w", "'SET', 'k', 'v'"), ("r", "'GET', 'k'"))])
            self.both([["FUNCTION", "LOAD", text]], pair)
            for client in pair:
                client.must("CONFIG", "SET", "maxmemory", "0")
            self.both([["FUNCTION", "LOAD", text]], pair)
            for client in pair:
                client.must("CONFIG", "SET", "maxmemory", "1")
            self.both([[command, "%s%d" % (name, index), 0] for index in range(len(flags)) for name in "wr" for command in ("FCALL", "FCALL_RO")], pair)
            self.both([["FUNCTION", "LOAD", "REPLACE", text], ["FUNCTION", "DELETE", "lib"], ["FUNCTION", "FLUSH"]], pair)
            for client in pair:
                client.close()


class ManageTest(FunctionCase):
    def list(self, *words):
        """FUNCTION LIST in both protocols, with libraries and functions in any order."""
        for protocol in (2, 3):
            ours, theirs = (client.call("FUNCTION", "LIST", *words) for client in self.clients(protocol=protocol))
            self.assertEqual(sorted(map(facts, ours), key=repr) if isinstance(ours, list) else ours, sorted(map(facts, theirs), key=repr) if isinstance(theirs, list) else theirs)

    def test_list(self):
        self.list()
        self.load(SMALL)
        self.load(FULL)
        for words in ([], ["WITHCODE"], ["LIBRARYNAME", "lib"], ["LIBRARYNAME", "*"], ["LIBRARYNAME", "f*", "WITHCODE"], ["WITHCODE", "LIBRARYNAME", "f??l"], ["LIBRARYNAME", "none"], ["LIBRARYNAME", "LIB"], ["withcode"],
                      ["LIBRARYNAME"], ["BAD"], ["WITHCODE", "WITHCODE"], ["LIBRARYNAME", "a", "LIBRARYNAME", "b"], ["lib"]):
            with self.subTest(words=words):
                self.list(*words)

    def test_delete_and_flush(self):
        self.load(SMALL)
        self.load(FULL)
        self.both("""
            FUNCTION DELETE none
            FUNCTION DELETE LIB
            FUNCTION DELETE lib
            FUNCTION DELETE lib
            FUNCTION DELETE
            FUNCTION DELETE a b
            FCALL f 0
            FCALL echo 0 x
            FUNCTION FLUSH BAD
            FUNCTION FLUSH SYNC x
            FLUSHALL
            FCALL echo 0 x
            FUNCTION FLUSH ASYNC
            FCALL echo 0 x
            FUNCTION FLUSH SYNC
            FUNCTION NOSUCH
            FUNCTION
            FUNCTION KILL
            FUNCTION KILL x
            FUNCTION LIST x
            FUNCTION STATS x
            SCRIPT FLUSH
        """)
        self.assertIsInstance(self.c.call("FUNCTION", "HELP"), list)

    def test_stats(self):
        for protocol in (2, 3):
            for _ in range(2):
                ours, theirs = (client.call("FUNCTION", "STATS") for client in self.clients(protocol=protocol))
                self.assertEqual(ours, theirs)
                self.load(SMALL, "REPLACE")
                self.load(FULL, "REPLACE")

    @kelvin_only
    def test_a_function_is_in_stats_from_its_start(self):
        """Also the second one of a transaction, and long before it is past busy-reply-threshold; only then it can be killed."""
        self.c.must("FUNCTION", "LOAD", "REPLACE", library("loop", "redis.register_function{function_name = 'loop', callback = function() while true do end end, flags = {'no-writes'}}"))
        self.c.must("CONFIG", "SET", "busy-reply-threshold", 1000000)
        with self.server.client() as client, self.server.client() as other:
            for requests in ([["FCALL_RO", "loop", 0, "x" * 2000]], [["MULTI"], ["EVAL", "return 1", 0], ["FCALL_RO", "loop", 0, "x" * 2000], ["EXEC"]]):
                client.send(b"".join(encode(each) for each in requests))
                until(lambda: other.must("FUNCTION", "STATS")[1] is not None, 30, "a running function")
                name, command, duration = other.must("FUNCTION", "STATS")[1][1::2]
                self.assertEqual((name, command), (b"loop", [b"FCALL_RO", b"loop", b"0", b"x" * 1024]))
                self.assertLess(duration, 1000000)
                self.assertEqual(other.call("FUNCTION", "KILL"), Error(b"NOTBUSY No scripts in execution right now."))
                other.must("CONFIG", "SET", "busy-reply-threshold", 1)
                until(lambda: not isinstance(other.call("FUNCTION", "KILL"), Error), 30, "killed")
                other.must("CONFIG", "SET", "busy-reply-threshold", 1000000)
                until(lambda: other.must("FUNCTION", "STATS")[1] is None, 30, "no running function")
                replies = [client.receive() for _ in requests]
                self.assertRegex(bytes(replies[-1] if len(requests) == 1 else replies[-1][1]), b"killed by user with FUNCTION KILL")
        self.c.must("CONFIG", "SET", "busy-reply-threshold", 5000)
        self.c.must("FUNCTION", "DELETE", "loop")

    def test_dump_and_restore(self):
        self.load(SMALL)
        self.load(FULL)
        dumps = [client.must("FUNCTION", "DUMP") for client in (self.c, self.r)]
        self.both("FUNCTION FLUSH")
        for dump in dumps:      # each server takes those of the other
            for policy in ([], ["FLUSH"], ["APPEND"], ["REPLACE"], ["BAD"], ["flush"], ["APPEND", "x"]):
                # Which of the libraries is named first is chance.
                replies = [client.call("FUNCTION", "RESTORE", dump, *policy) for client in (self.c, self.r)]
                self.assertEqual(*[re.sub(rb"Library (lib|full) ", b"", bytes(reply)) for reply in replies])
                self.both([["FCALL", "echo", 0, "x"], ["FCALL", "f", 0]])
            self.list("WITHCODE")
        self.load(library("third", returning("third", "3")))
        self.both([["FUNCTION", "RESTORE", dumps[1], "REPLACE"], ["FCALL", "third", 0], ["FUNCTION", "RESTORE", dumps[0], "FLUSH"], ["FCALL", "third", 0]])
        self.load(library("clash", returning("g", "'clash'")))
        self.both([["FUNCTION", "DELETE", "lib"]])
        self.load(library("thief", returning("f", "'stolen'")))
        self.both([["FUNCTION", "RESTORE", dumps[0], "REPLACE"], ["FCALL", "f", 0], ["FCALL", "g", 0], ["FCALL", "echo", 0, "x"]])

    def test_damaged_dumps(self):
        self.load(SMALL)
        dump = self.r.must("FUNCTION", "DUMP")
        self.both([["FUNCTION", "RESTORE", bad] for bad in (b"", b"x", dump[:-1], dump + b"x", b"\x00" + dump[1:], dump[:5] + b"X" + dump[6:], dump[:-9] + b"\xff" + dump[-8:], b"x" * 100)])
        self.both("FUNCTION RESTORE\nFCALL f 0\nFUNCTION FLUSH")
        empty = [client.must("FUNCTION", "DUMP") for client in (self.c, self.r)]
        for each in empty:
            self.both([["FUNCTION", "RESTORE", each], ["FUNCTION", "RESTORE", each, "FLUSH"], ["FUNCTION", "LIST"]])

    def test_a_key_is_no_library(self):
        self.both("SET k v")
        dump = self.r.must("DUMP", "k")
        self.both([["FUNCTION", "RESTORE", dump]])


def facts(library):
    """A library of FUNCTION LIST, with its functions and their flags in order."""
    pairs = list(library) if isinstance(library, Map) else list(zip(library[::2], library[1::2]))
    found = dict(pairs)
    functions = [[(name, sorted(value, key=repr) if isinstance(value, list) else value) for name, value in
                  (each if isinstance(each, Map) else zip(each[::2], each[1::2]))] for each in found[b"functions"]]
    return [name for name, _ in pairs], type(library).__name__, found[b"library_name"], found[b"engine"], sorted(functions, key=repr), found.get(b"library_code")


class PersistTest(unittest.TestCase):
    """Functions survive a restart, and come with the files of redis-server."""

    def setUp(self):
        with Server() as server, server.client() as client:
            if not isinstance(client.call("COMMAND", "INFO", "FCALL")[0], list):
                self.skipTest("the server under test has no FCALL yet")

    def check(self, server):
        with server.client() as client:
            self.assertEqual(client.call("FCALL", "f", 0), b"from f")
            self.assertEqual(client.call("FCALL", "both", 1, "a", "b"), [[b"a"], [b"b"]])
            self.assertEqual(client.call("FCALL", "gone", 0), Error(b"ERR Function not found"))
            self.assertEqual(client.must("GET", "k"), b"v")

    def fill(self, client):
        client.must("SET", "k", "v")
        client.must("FUNCTION", "LOAD", SMALL)
        client.must("FUNCTION", "LOAD", library("gone", returning("gone", "1")))
        client.must("FUNCTION", "LOAD", FULL)
        client.must("FUNCTION", "DELETE", "gone")

    def test_the_log(self):
        with Server({"appendonly": "yes"}) as server:
            for rewrite in (False, True, False):
                with server.client() as client:
                    client.call("FUNCTION", "FLUSH")
                    self.fill(client)
                    if rewrite:
                        client.must("BGREWRITEAOF")
                        client.must("FUNCTION", "LOAD", "REPLACE", SMALL)
                server.restart(kill=rewrite)
                self.check(server)

    def test_an_rdb_file(self):
        with Server({"save": ""}) as server:
            with server.client() as client:
                self.fill(client)
                client.must("SAVE")
            server.restart()
            self.check(server)

    def test_files_go_both_ways(self):
        for first, second in ((REDIS, None), (None, REDIS)):
            with Server({"save": ""}, binary=first) as source:
                with source.client() as client:
                    self.fill(client)
                    client.must("SAVE")
                with Server({"save": "", "dir": source.folder}, binary=second) as target:
                    self.check(target)

    @kelvin_only
    def test_a_version_is_the_same_on_all_workers(self):
        """After the reply to FUNCTION LOAD REPLACE, no connection runs the old version."""
        with Server({"io-threads": "4"}) as server, server.client() as loader:
            callers = [server.client() for _ in range(12)]
            for version in range(200):
                loader.must("FUNCTION", "LOAD", "REPLACE", library("v", returning("version", version)))
                self.assertEqual([caller.call("FCALL", "version", 0) for caller in callers], [version] * len(callers))
            loader.must("FUNCTION", "DELETE", "v")
            for caller in callers:
                self.assertEqual(caller.call("FCALL", "version", 0), Error(b"ERR Function not found"))
                caller.close()


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ColdCallTest(CallTest):
    options = {"io-threads": "4"}

    def before_command(self):
        self.make_cold()


if __name__ == "__main__":
    main()
