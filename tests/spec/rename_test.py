"""rename-command: what clients see, compared with redis-server; what the log has, and a restart under other names."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import Error, Status, encode                                                      # noqa: E402
from support.server import REDIS, Server, under_test, until                                         # noqa: E402

# One takes the name of another, some are removed that Redis and Kelvin themselves put into the log.
RENAMED = """
rename-command SET set-it
rename-command GET ""
rename-command CONFIG CONFIG-secret
rename-command INCR Inkr
rename-command DEL incr
rename-command EXEC doit
rename-command MULTI begin
rename-command EVAL lua
rename-command FLUSHDB ""
rename-command PEXPIREAT ""
rename-command SREM ""
rename-command EXPIRE exp
rename-command BLPOP wait-left
rename-command LPOP left
rename-command XREAD follow
rename-command XADD log
rename-command FUNCTION lib
rename-command RESTORE put
rename-command LPUSH lpush
"""


class RenameCase(PairCase):
    config = RENAMED

    @classmethod
    def setUpClass(cls):
        cls.server = Server({"appendonly": "yes", "tier-enabled": "yes", "io-threads": 2}, config=cls.config)
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.oracle = Server({"appendonly": "yes"}, binary=REDIS, config=cls.config)
        cls.addClassCleanup(lambda: cls.oracle.stop())


class NamesTest(RenameCase):
    def test_commands_by_their_names(self):
        self.both("""
            SET a 1
            set-it a 1
            SET-IT a b c d
            get a
            GET
            set-it
            Inkr n
            inkr
            incr n
            Inkr n 5
            exp a 100
            lpush l 1
            begin
            set-it b 2
            inkr b
            set b 3
            doit
            begin
            set-it b 2
            inkr b
            doit
            exec
            doit
        """)

    def test_in_scripts(self):
        for call in ("'set','c','1'", "'set-it','c','1'", "'inkr','d'", "'get','d'", "'SET-IT','c'"):
            self.both([["lua", "return redis.pcall(%s)" % call, 0]])
        self.both([["EVAL", "return 1", 0], ["lib", "LOAD", "#!lua name=l\nredis.register_function('f', function(k, a) return redis.call('inkr', k[1]) end)"],
                   ["FCALL", "f", 1, "n"], ["FUNCTION", "LIST"], ["lib", "LIST"], ["lib", "FLUSH"]])

    def test_command(self):
        self.both("""
            COMMAND INFO set
            COMMAND INFO get incr inkr
            COMMAND DOCS set get
            COMMAND GETKEYS set a b
            COMMAND GETKEYS set-it a b
            COMMAND GETKEYS get a
            COMMAND GETKEYSANDFLAGS set-it a b
            COMMAND INFO config|get
            CONFIG-SECRET GET maxmemory
            CONFIG-SECRET
            CONFIG-SECRET foo
            CONFIG-SECRET get
            CONFIG GET maxmemory
        """)
        ours, theirs = (set(client.must("COMMAND", "LIST", "FILTERBY", "PATTERN", "*[st]e*")) for client in (self.c, self.r))
        self.assertEqual(ours & {b"set", b"get", b"setex"}, theirs & {b"set", b"get", b"setex"})
        self.assertEqual([client.must("CONFIG-SECRET", "HELP")[0] for client in (self.c, self.r)], [Status(b"CONFIG-SECRET <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")] * 2)
        ours, theirs = ({line.split(":")[0] for line in client.must("INFO", "commandstats").decode().split("\r\n")} for client in (self.c, self.r))
        self.assertEqual(ours & {"cmdstat_set", "cmdstat_set-it", "cmdstat_config|get"}, theirs & {"cmdstat_set", "cmdstat_set-it", "cmdstat_config|get"})

    def test_acl_rules_use_the_own_names(self):
        if isinstance(self.c.call("ACL", "WHOAMI"), Error):
            self.skipTest("there is no ACL yet")
        self.addCleanup(self.c.call, "ACL", "DELUSER", "u")
        self.addCleanup(self.r.call, "ACL", "DELUSER", "u")
        self.both("""
            ACL SETUSER u on nopass ~* +set +incr +config|get +acl|whoami
            ACL SETUSER u +set-it
            ACL SETUSER u +inkr
            ACL SETUSER u +config-secret|get
            ACL DRYRUN u set-it a 1
            ACL DRYRUN u set a 1
            ACL DRYRUN u inkr a
            AUTH u x
            set-it a 1
            inkr a
            CONFIG-SECRET GET maxmemory
            AUTH default x
        """)

    def test_monitor_and_the_slow_log_show_what_was_sent(self):
        shown = []
        for client, server in ((self.c, self.server), (self.r, self.oracle)):
            client.must("CONFIG-SECRET", "SET", "slowlog-log-slower-than", 0)
            client.must("SLOWLOG", "RESET")
            with server.client() as monitor:
                monitor.must("MONITOR")
                for command in (("Set-It", "a", "1"), ("begin",), ("inkr", "a"), ("doit",), ("lua", "return redis.call('Inkr', 'a')", 0)):
                    client.must(*command)
                lines = [monitor.receive().split(b"] ")[1] for _ in range(6)]
            shown.append((sorted(lines), sorted(entry[3][0] for entry in client.must("SLOWLOG", "GET", 4))))
        self.assertEqual(*shown)

    def test_clients_that_wait(self):
        for client, server in ((self.c, self.server), (self.r, self.oracle)):
            with server.client() as popper, server.client() as reader:
                popper.send(encode(("wait-left", "q", 0)))
                reader.send(encode(("follow", "BLOCK", 0, "STREAMS", "x", "$")))
                until(lambda: server.info("clients")["blocked_clients"] == "2", what="they wait")
                client.must("RPUSH", "q", 1)
                client.must("log", "x", "1-1", "f", "v")
                self.assertEqual((popper.receive(), reader.receive()[0][0]), ([b"q", b"1"], b"x"))


class StartTest(RenameCase):
    def refused(self, binary, config):
        with tempfile.TemporaryDirectory(prefix="kelvin-test-") as folder:
            path = os.path.join(folder, "test.conf")
            with open(path, "w") as file:
                file.write(config)
            done = subprocess.run([binary, path, "--dir", folder, "--port", "0", "--unixsocket", os.path.join(folder, "socket")], capture_output=True, timeout=30)
            return done.returncode, done.stdout + done.stderr

    def test_lines_that_are_refused(self):
        for config, text in (("rename-command NOSUCH x", b"No such command in rename-command"), ("rename-command SET GET", b"Target command name already exists"),
                             ("rename-command SET a\nrename-command SET b", b"No such command in rename-command"),
                             ("rename-command SET a\nrename-command GET A", b"Target command name already exists"),
                             ("rename-command SET", b"Bad directive or wrong number of arguments")):
            for binary in (under_test(), REDIS):
                status, output = self.refused(binary, config)
                self.assertEqual((status, text in output), (1, True), (binary, config, output))

    def test_lines_that_are_accepted(self):
        config = "rename-command SET set\nrename-command GET a\nrename-command a b\nrename-command DEL \"two words\"\n"
        for binary in (under_test(), REDIS):
            server = Server(binary=binary, config=config)
            with server.client() as client:
                self.assertEqual([client.call(*command) for command in (("SET", "k", "v"), ("b", "k"), ("two words", "k"), ("b", "k"))],
                                 [Status(b"OK"), b"v", 1, None])
                self.assertIsInstance(client.call("GET", "k"), Error)
            server.stop()


WRITES = (("set-it", "a", "1"), ("inkr", "n"), ("inkr", "n"), ("set-it", "gone", "1"), ("incr", "gone"), ("exp", "a", 1000), ("begin",), ("set-it", "b", "2"), ("inkr", "b"), ("doit",),
          ("lua", "redis.call('set-it', 'c', '1'); return redis.call('incr', 'c2')", 0), ("SADD", "s", "x", "y"), ("SPOP", "s"), ("RPUSH", "q", 1, 2, 3), ("wait-left", "q", 0),
          ("left", "q"), ("log", "x", "1-1", "f", "v"), ("set-it", "t", "v", "EX", 1000), ("put", "d", 1000000, b"\x00\xc0\x01\x0a\x00\x26\x78\xe7\xb6\xd1\x01\x11\xfc"),
          ("lib", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 7 end)"))
OTHERS = "rename-command SET store\nrename-command INCR set\nrename-command XADD \"\"\nrename-command FUNCTION \"\"\nrename-command EXPIRE set-it\n"


@kelvin_only
class RestartTest(RenameCase):
    def state(self, client):
        return sorted((key, client.must("TYPE", key), client.must("DUMP", key), client.must("PEXPIRETIME", key)) for key in client.must("KEYS", "*"))

    def test_under_other_names(self):
        for cold in (False, True):
            server = Server({"appendonly": "yes", "tier-enabled": "yes"}, config=RENAMED)
            self.addCleanup(server.stop)
            with server.client() as client:
                for command in WRITES:
                    client.must(*command)
                before = self.state(client)
                self.assertEqual(len(before), 9)
                if cold:
                    client.must("TIER", "DEMOTE", *(key for key, *_ in before))
                    client.must("BGREWRITEAOF")
                    until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
                    for command in (("inkr", "n"), ("set-it", "b", "9"), ("incr", "c")):
                        client.must(*command)
                    before = self.state(client)
            with open(glob.glob(os.path.join(server.folder, "appendonlydir", "*incr.aof"))[-1], "rb") as file:
                log = file.read()
            for name in (b"inkr", b"set-it", b"wait-left", b"left", b"log", b"put", b"lib", b"begin", b"doit", b"exp"):
                self.assertNotIn(b"\r\n%s\r\n" % name, log.lower())
            for config in (OTHERS, "", RENAMED):
                with open(os.path.join(server.folder, "test.conf"), "w") as file:
                    file.write(config)
                server.restart(kill=True)
                with server.client() as client:
                    self.assertEqual(self.state(client), before)
                    self.assertEqual(client.call("FCALL", "f", 0), 7)

    def test_a_log_that_redis_has_written_with_its_names(self):
        """Redis logs the names that clients have sent. With the same rename-command lines, Kelvin takes these as well."""
        config = "rename-command SET set-it\nrename-command INCR inkr\n"
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        redis = Server({"appendonly": "yes"}, binary=REDIS, config=config, folder=folder)
        with redis.client() as client:
            client.must("set-it", "a", 1)
            client.must("inkr", "a")
        redis.stop()
        server = Server({"appendonly": "yes"}, config=config, folder=folder)
        self.addCleanup(server.stop)
        with server.client() as client:
            self.assertEqual(client.must("GET", "a"), b"2")
            client.must("inkr", "a")
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("GET", "a"), b"3")


if __name__ == "__main__":
    main()
