"""Code that Lua has compiled is a way out of the sandbox: nothing but text gets to its parser, whatever it comes by. docs/SECURITY.md, Lua."""
import glob
import hashlib
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.rdb import crc64, packed                                                               # noqa: E402
from support.replication.scripted import ScriptedPrimary, make_rdb                                  # noqa: E402
from support.resp import Error, encode                                                              # noqa: E402
from support.server import Server                                                                   # noqa: E402

WRITES = "redis.call('SET', 'escaped', '1')"
FUNCTION_OPCODE = b"\xf5"
REFUSED = b"ERR Error compiling script (new function): user_script:%d: unexpected symbol near 'char(27)'"
REFUSED_LIBRARY = b"ERR Error compiling function: user_function:2: unexpected symbol near 'char(27)'"


@kelvin_only
class DoorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Server() as server, server.client() as client:
            cls.code = client.must("EVAL", "return string.dump(function() %s end)" % WRITES, 0)
            cls.library = b"#!lua name=lib\n" + client.must("EVAL", "return string.dump(function() redis.register_function('f', function() end) end)", 0)

    def start(self, **options):
        server = Server({name: value for name, value in options.items()})
        self.addCleanup(server.discard)
        return server

    def require_closed(self, server):
        with server.client() as client:
            self.assertEqual(client.must("EXISTS", "escaped"), 0)
            self.assertEqual(client.must("FUNCTION", "LIST"), [])

    def test_clients(self):
        server = self.start()
        sha = hashlib.sha1(self.code).hexdigest()
        with server.client() as client:
            for words, error in ((["EVAL", self.code, 0], REFUSED % 1), (["EVAL_RO", self.code, 0], REFUSED % 1), (["EVAL", b"#!lua\n" + self.code, 0], REFUSED % 2),
                                 (["SCRIPT", "LOAD", self.code], REFUSED % 1), (["SCRIPT", "LOAD", b"#!lua flags=no-writes\n" + self.code], REFUSED % 2),
                                 (["EVALSHA", sha, 0], b"NOSCRIPT No matching script. Please use EVAL."),
                                 (["FUNCTION", "LOAD", self.library], REFUSED_LIBRARY), (["FUNCTION", "LOAD", "REPLACE", self.library], REFUSED_LIBRARY)):
                with self.subTest(words=words[:2]):
                    self.assertEqual(client.call(*words), Error(error))
            self.assertEqual(client.pipeline([["MULTI"], ["EVAL", self.code, 0], ["EXEC"]])[-1], [Error(REFUSED % 1)])
            for script in ("return loadstring(code)", "return load(function() return code end)", "return load(function() at = at + 1 return code:sub(at, at) end)",
                           "return load(function() at = at + 1 collectgarbage() if at == 1 then return code end end)"):
                with self.subTest(script=script):
                    self.assertEqual(client.call("EVAL", "local at, code = 0, ARGV[1] local f = (function() %s end)() return f and pcall(f) and 1 or 0" % script, 0, self.code), 0)
        self.require_closed(server)

    def test_dumps_of_functions(self):
        server = self.start()
        body = FUNCTION_OPCODE + packed(self.library) + b"\x0a\x00"
        with server.client() as client:
            for policy in ([], ["FLUSH"], ["REPLACE"]):
                self.assertEqual(client.call("FUNCTION", "RESTORE", body + crc64(body), *policy), Error(REFUSED_LIBRARY))
        self.require_closed(server)

    def test_a_dump_of_the_data(self):
        server = self.start()
        server.kill9()
        body = b"REDIS0010" + FUNCTION_OPCODE + packed(self.library) + b"\xff"
        with open(os.path.join(server.folder, "dump.rdb"), "wb") as file:
            file.write(body + crc64(body))
        server.launch()
        self.assertFalse(server.wait_ready())
        self.assertIn(REFUSED_LIBRARY[4:], server.log_new())

    def test_the_log(self):
        server = self.start(appendonly="yes")
        server.kill9()
        path = glob.glob(os.path.join(server.folder, "appendonlydir", "*.incr.aof"))[0]
        with open(path, "wb") as file:
            file.write(encode(["SELECT", "0"]) + encode(["EVAL", self.code, "0"]))
        server.start()          # a script that fails was logged, too
        self.require_closed(server)

    def test_a_primary(self):
        primary, server = ScriptedPrimary(), self.start()
        self.addCleanup(primary.close)
        with server.client() as client:
            client.must("REPLICAOF", "127.0.0.1", primary.port)
            link = primary.link().full(make_rdb()).wait_ack()
            link.send_commands(["SELECT", "0"], ["EVAL", self.code, "0"], ["SET", "after", "1"]).wait_ack()
            self.assertEqual(client.must("GET", "after"), b"1")
        self.require_closed(server)


if __name__ == "__main__":
    main()
