"""CONFIG, the configuration file and the command line."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import ROOT, Server, is_redis, port_free, read_text, under_test                                             # noqa: E402

# Directives of 7.0 that 7.2 does not have, and those whose default depends on the machine or the build.
NOT_IN_7_2 = set()
OWN_DEFAULT = {"dir", "port", "logfile", "pidfile", "bind", "bgsave-cpulist", "locale-collate", "dbfilename",
               # different by design: see docs/differences.md
               "maxmemory-policy", "io-threads", "aof-use-rdb-preamble", "jemalloc-bg-thread", "activedefrag"}


def pairs(reply):
    return dict(zip(reply[::2], reply[1::2]))


class ConfigCommandTest(PairCase):
    def test_get(self):
        self.both("""
            CONFIG GET maxmemory
            CONFIG GET MAXMEMORY
            CONFIG GET nosuch
            CONFIG GET maxmemory hz timeout
            CONFIG GET hash-max-*-value
            CONFIG GET appendfsync
            CONFIG GET
            CONFIG
            CONFIG nosuch
            CONFIG GET requirepass
            CONFIG GET databases
        """)

    def test_set_and_get(self):
        self.both("""
            CONFIG SET maxmemory 100mb
            CONFIG GET maxmemory
            CONFIG SET maxmemory 1GB
            CONFIG GET maxmemory
            CONFIG SET maxmemory 1k
            CONFIG GET maxmemory
            CONFIG SET maxmemory 2g
            CONFIG GET maxmemory
            CONFIG SET maxmemory 0
            CONFIG SET timeout 100 hz 50
            CONFIG GET timeout
            CONFIG GET hz
            CONFIG SET timeout 0 hz 10
            CONFIG SET slowlog-log-slower-than -1
            CONFIG GET slowlog-log-slower-than
            CONFIG SET slowlog-log-slower-than 10000
            CONFIG SET lazyfree-lazy-user-del YES
            CONFIG GET lazyfree-lazy-user-del
            CONFIG SET lazyfree-lazy-user-del no
            CONFIG SET client-output-buffer-limit "normal 1mb 2mb 60"
            CONFIG GET client-output-buffer-limit
            CONFIG SET client-output-buffer-limit "normal 0 0 0"
            CONFIG SET loglevel debug
            CONFIG GET loglevel
            CONFIG SET loglevel notice
        """)

    def test_invalid_values(self):
        self.both("""
            CONFIG SET maxmemory abc
            CONFIG SET maxmemory -1
            CONFIG SET hz abc
            CONFIG SET timeout -1
            CONFIG SET appendonly maybe
            CONFIG SET appendfsync sometimes
            CONFIG SET maxmemory-policy foo
            CONFIG SET nosuch 1
            CONFIG SET timeout
            CONFIG SET timeout 1 hz
            CONFIG SET timeout 5 nosuch 1
            CONFIG GET timeout
            CONFIG SET timeout 5 timeout 6
            CONFIG SET timeout 5 hz abc
            CONFIG GET timeout
            CONFIG SET databases 4
            CONFIG SET daemonize yes
            CONFIG SET slowlog-max-len -1
            CONFIG SET slowlog-max-len ""
            CONFIG SET client-output-buffer-limit "foo 1 2 3"
            CONFIG SET client-output-buffer-limit "normal 1 2"
            CONFIG SET hash-max-listpack-entries abc
            CONFIG SET lfu-decay-time -1
            CONFIG RESETSTAT x
            CONFIG REWRITE x
            CONFIG SET
        """)

    def test_every_directive_of_redis_is_known(self):
        ours, theirs = pairs(self.c.must("CONFIG", "GET", "*")), pairs(self.r.must("CONFIG", "GET", "*"))
        self.assertEqual(sorted(name.decode() for name in set(theirs) - set(ours) if name.decode() not in NOT_IN_7_2), [])

    def test_defaults_are_those_of_redis(self):
        ours, theirs = pairs(self.c.must("CONFIG", "GET", "*")), pairs(self.r.must("CONFIG", "GET", "*"))
        different = {name.decode(): (ours[name], theirs[name]) for name in theirs
                     if name in ours and ours[name] != theirs[name] and name.decode() not in OWN_DEFAULT}
        self.assertEqual(different, {}, "name: (ours, redis)")

    def test_resetstat(self):
        self.c.pipeline([["PING"]] * 50)
        self.assertGreater(int(self.server.info()["total_commands_processed"]), 50)
        self.both("CONFIG RESETSTAT")
        self.assertLess(int(self.server.info()["total_commands_processed"]), 10)

    def test_rewrite_without_a_file(self):
        self.both("CONFIG REWRITE")

    @kelvin_only
    def test_every_tier_option_can_be_changed_while_running(self):
        options = pairs(self.c.must("CONFIG", "GET", "tier-*"))
        self.assertIn(b"tier-high-watermark", options)
        self.assertIn(b"tier-low-watermark", options)
        self.assertIn(b"tier-max-size", options)
        for name, value in options.items():
            if name in (b"tier-dir", b"tier-block-cache"):      # only at startup: see docs/operating.md
                continue
            reply = self.c.call("CONFIG", "SET", name, value)
            self.assertEqual(reply, OK, name)
        self.assertEqual(pairs(self.c.must("CONFIG", "GET", "tier-*")), options)


class ConfigFileTest(unittest.TestCase):
    def start(self, config, options=None, args=()):
        server = Server(options or {}, config=config, args=args)
        self.addCleanup(server.stop)
        return server

    def refused(self, config, *words, options=None):
        server = Server(options or {}, config=config, start=False)
        self.addCleanup(server.discard)
        server.launch()
        self.assertNotEqual(server.wait_end(), 0, "it started with\n" + config)
        log = server.log().decode("utf-8", "replace")
        for word in words:
            self.assertIn(word, log)
        return log

    def get(self, server, name):
        with server.client() as client:
            return client.must("CONFIG", "GET", name)[1].decode()

    def test_a_file_is_read(self):
        server = self.start('# a comment\n\n  maxmemory 64mb\nTimeout 77\nhash-max-listpack-entries "33"\n'
                            "client-output-buffer-limit normal 1mb 512kb 30\nsave 3600 1 300 100\n", {"save": None})
        self.assertEqual(self.get(server, "maxmemory"), str(64 << 20))
        self.assertEqual(self.get(server, "timeout"), "77")
        self.assertEqual(self.get(server, "hash-max-listpack-entries"), "33")
        self.assertIn("normal 1048576 524288 30", self.get(server, "client-output-buffer-limit"))
        self.assertEqual(self.get(server, "save"), "3600 1 300 100")

    @kelvin_only
    def test_conf_kelvin_conf_is_read(self):
        server = self.start(read_text(os.path.join(ROOT, "conf", "kelvin.conf")))
        with server.client() as client:
            self.assertEqual(client.must("SET", "k", "v"), OK)

    def test_the_command_line_overrides_the_file(self):
        server = self.start("timeout 10\nhz 20\n", {"timeout": 30})
        self.assertEqual((self.get(server, "timeout"), self.get(server, "hz")), ("30", "20"))

    def test_included_files(self):
        server = Server(start=False)
        self.addCleanup(server.discard)
        with open(os.path.join(server.folder, "more.conf"), "w") as file:
            file.write("timeout 42\n")
        server.config = "hz 20\ninclude %s\n" % os.path.join(server.folder, "more.conf")
        server.start()
        self.assertEqual((self.get(server, "timeout"), self.get(server, "hz")), ("42", "20"))
        self.assertEqual(server.terminate(), 0)

    def test_invalid_files_are_refused_with_line_and_reason(self):
        self.refused("hz 10\nnosuchdirective 1\n", "nosuchdirective 1", "2")
        self.refused("hz 10\n\nmaxmemory lots\n", "maxmemory lots", "3")
        self.refused("timeout\n", "timeout", "1")
        self.refused("appendonly perhaps\n", "appendonly perhaps", "'yes' or 'no'")
        self.refused('maxmemory "1gb\n', "Unbalanced quotes")
        self.refused("tcp-backlog -5\n", "tcp-backlog -5", "1")
        self.refused("include /nonexistent/file.conf\n", "/nonexistent/file.conf")

    def test_invalid_options_are_refused(self):
        for arguments in (["--nosuchoption", "1"], ["--maxmemory", "lots"], ["--timeout"]):
            process = subprocess.run([under_test()] + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
            self.assertNotEqual(process.returncode, 0, arguments)
            self.assertIn(arguments[0].lstrip("-").encode(), process.stdout)

    def test_a_missing_file_is_refused(self):
        process = subprocess.run([under_test(), "/nonexistent/x.conf"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(b"/nonexistent/x.conf", process.stdout)

    def test_standard_input(self):
        server = Server(start=False)
        self.addCleanup(server.discard)
        port = port_free()
        with open(server.log_path, "wb") as log:
            server.process = subprocess.Popen([under_test(), "-"], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=server.folder)
        server.port = port
        server.process.stdin.write(b"port %d\nbind 127.0.0.1\ntimeout 55\nsave \"\"\ndir %s\n" % (port, server.folder.encode()))
        server.process.stdin.close()
        self.assertTrue(server.wait_ready(30))
        self.assertEqual(self.get(server, "timeout"), "55")
        self.assertEqual(server.terminate(), 0)

    def test_version_and_help(self):
        for option in ("--version", "-v", "--help", "-h"):
            process = subprocess.run([under_test(), option], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
            if "help" in option or option == "-h":
                self.assertIn(b"Usage", process.stdout)
            else:
                self.assertEqual(process.returncode, 0)
                self.assertRegex(process.stdout, rb"v=\d+\.\d+\.\d+")

    def test_rewrite_keeps_comments_and_writes_changes(self):
        server = self.start("# my comment\ntimeout 10\nhz 20\n")
        with server.client() as client:
            client.must("CONFIG", "SET", "timeout", 99, "maxmemory", "77mb")
            client.must("CONFIG", "SET", "hash-max-listpack-value", 31)
            self.assertEqual(client.must("CONFIG", "REWRITE"), OK)
        text = read_text(os.path.join(server.folder, "test.conf"))
        self.assertIn("# my comment", text)
        self.assertRegex(text, r"(?m)^timeout 99$")
        self.assertRegex(text, r"(?m)^hz 20$")
        self.assertRegex(text, r"(?m)^maxmemory (77mb|80740352)$")
        self.assertRegex(text, r"(?m)^hash-max-listpack-value 31$")
        self.assertEqual(len(re.findall(r"(?m)^timeout ", text)), 1)
        server.restart()
        self.assertEqual((self.get(server, "timeout"), self.get(server, "hash-max-listpack-value")), ("99", "31"))

    def test_logfile_pidfile_and_daemonize(self):
        server = Server({"logfile": "my.log", "pidfile": "my.pid", "daemonize": "yes"}, start=False)
        self.addCleanup(server.discard)
        server.launch()
        self.assertEqual(server.wait_end(), 0)
        deadline = time.monotonic() + 20
        log = os.path.join(server.folder, "my.log")
        while not os.path.exists(log) or "eady to accept" not in read_text(log):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        pid = int(read_text(os.path.join(server.folder, "my.pid")))
        with server.client() as client:
            self.assertIn(b"process_id:%d\r\n" % pid, client.must("INFO", "server"))
            client.send(b"SHUTDOWN NOSAVE\r\n")
        while os.path.exists("/proc/%d" % pid) and read_text("/proc/%d/stat" % pid).split()[2] != "Z":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertFalse(os.path.exists(os.path.join(server.folder, "my.pid")))


@unittest.skipIf(is_redis(under_test()), "the log's lines are Kelvin's own")
class GreetingTest(unittest.TestCase):
    """The first lines of the log: where the data is, what a crash loses, what the tier will do."""

    def first_lines(self, options=None, config=None):
        with Server(options or {}, config=config) as server:
            log = server.log().decode()
            self.assertIn("Data directory: %s\n" % os.path.realpath(server.folder), log)
            self.assertEqual("Configuration loaded from %s/test.conf\n" % os.path.realpath(server.folder) in log, config is not None)
        return log.split("Server initialized")[0]

    def test_without_a_limit_no_key_is_moved(self):
        log = self.first_lines({"save": "3600 1 300 100"})
        self.assertIn("maxmemory 0: memory has no limit, and no key is ever moved to the disk\n", log)
        self.assertIn("appendonly no: a crash loses what was written since the last dump (save 3600 1 300 100)\n", log)

    def test_what_a_crash_loses(self):
        self.assertIn("there are no save points: the data does not survive the end of this process", self.first_lines({"save": ""}))
        for policy, loss in (("always", "always: a crash loses no acknowledged write"), ("everysec", "everysec: a crash of this process loses no"),
                             ("no", "no: a crash of this process loses no")):
            self.assertIn("appendonly yes, appendfsync " + loss, self.first_lines({"appendonly": "yes", "appendfsync": policy}))

    def test_what_the_tier_will_do(self):
        log = self.first_lines({"tier-max-size": "1gb"}, config="maxmemory 64mb\n")
        self.assertIn("maxmemory 64.00M: above 95 % of it the coldest keys are moved to the store 'store', up to tier-max-size 1.00G\n", log)
        log = self.first_lines({"maxmemory": "64mb", "tier-enabled": "no", "maxmemory-policy": "allkeys-lru"})
        self.assertIn("maxmemory 64.00M, tier-enabled no: no key is moved to the disk; when memory is full, maxmemory-policy allkeys-lru decides\n", log)

    def test_conf_kelvin_tier_conf(self):
        text = read_text(os.path.join(ROOT, "conf", "kelvin-tier.conf")).replace("dir /var/lib/kelvin\n", "dir ./\n")
        log = self.first_lines({"appendonly": None, "save": None, "dir": None}, config=text)
        self.assertIn("maxmemory 4.00G: above 95 % of it the coldest keys are moved to the store 'store'\n", log)
        self.assertIn("appendonly yes, appendfsync everysec", log)


@unittest.skipIf(is_redis(under_test()), "an option of Kelvin")
class CheckTest(unittest.TestCase):
    """--check: every problem of a configuration, without a start."""

    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="kelvin-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        os.chmod(self.dir, 0o755)

    def check(self, config, *options, **how):
        """Returns the exit status, the lines of problems, and those of remarks."""
        path = os.path.join(self.dir, "test.conf")
        with open(path, "w") as file:
            file.write(config)
        process = subprocess.run([under_test(), "--check", path] + list(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                                 cwd=self.dir, text=True, **how)
        return process.returncode, process.stderr.replace(path, "test.conf").splitlines(), process.stdout.splitlines()

    def test_a_good_one_creates_and_binds_nothing(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            config = ("dir %s\nport %d\nbind 127.0.0.1\nappendonly yes\nlogfile server.log\npidfile kelvin.pid\nunixsocket kelvin.sock\n"
                      "maxmemory 100mb\nuser a on >secret ~* +@all\n" % (self.dir, taken.getsockname()[1]))
            self.assertEqual(self.check(config), (0, [], ["The configuration is good."]))
        self.assertEqual(os.listdir(self.dir), ["test.conf"])

    def test_the_shipped_ones_are_good(self):
        code, problems, remarks = self.check(read_text(os.path.join(ROOT, "conf", "kelvin.conf")))
        self.assertEqual((code, problems), (0, []))
        self.assertIn("note: maxmemory 0: memory has no limit, and no key is ever moved to the disk", remarks)
        text = read_text(os.path.join(ROOT, "conf", "kelvin-tier.conf")).replace("dir /var/lib/kelvin\n", "dir ./\n")
        self.assertEqual(self.check(text)[:2], (0, []))

    def test_every_line_that_is_wrong_is_reported(self):
        with open(os.path.join(self.dir, "more.conf"), "w") as file:
            file.write("hz 20\ntimeuot 3\n")
        config = ('maxmemroy 1gb\nport 70000\nappendonly perhaps\ndir ./\nmaxmemory "1\ninclude %s/more.conf\ninclude /nonexistent/x\n'
                  "tier-high-watermark 50\nloadmodule x\n" % self.dir)
        code, problems, remarks = self.check(config, "--prot", "1", "--bind", "127.0.0.1")
        self.assertEqual((code, problems), (1, [
            "test.conf, line 1: 'maxmemroy 1gb': Bad directive or wrong number of arguments. Did you mean 'maxmemory'?",
            "test.conf, line 2: 'port 70000': argument must be between 0 and 65535 inclusive",
            "test.conf, line 3: 'appendonly perhaps': argument must be 'yes' or 'no'",
            "test.conf, line 5: 'maxmemory \"1': Unbalanced quotes in configuration line",
            "%s/more.conf, line 2: 'timeuot 3': Bad directive or wrong number of arguments. Did you mean 'timeout'?" % self.dir,
            "test.conf, line 7: 'include /nonexistent/x': can't open config file '/nonexistent/x': No such file or directory",
            "command line: 'prot \"1\"': Bad directive or wrong number of arguments. Did you mean 'port'?",
            "tier-low-watermark must not be above tier-high-watermark",
            "'loadmodule': not supported by Kelvin yet, the only value accepted is ''"]))
        self.assertEqual(remarks[-1], "9 problems")

    def test_what_a_start_would_not_find(self):
        config = ("dir ./\nbind 203.0.113.9 127.0.0.1\nport 7001\ntls-port 7001\nlogfile /\nunixsocket nosuch/a.sock\nuser a on +nosuch\n"
                  "rename-command NOSUCH X\npidfile nosuch/x.pid\ntier-dir test.conf\nappenddirname test.conf\nappendonly yes\n")
        code, problems, _ = self.check(config)
        self.assertEqual((code, problems), (1, [
            "tier-dir 'test.conf': it is no directory",
            "appenddirname 'test.conf': it is no directory",
            "logfile '/': it is a directory",
            "pidfile 'nosuch/x.pid': it can't be created in 'nosuch': No such file or directory",
            "unixsocket 'nosuch/a.sock': it can't be created in 'nosuch': No such file or directory",
            "port and tls-port are both 7001",
            "bind 203.0.113.9: this machine does not have the address",
            "TLS: No tls-cert-file configured",
            "'rename-command NOSUCH X': No such command in rename-command",
            "test.conf:7: user 'a': Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL"]))
        self.assertEqual(self.check("dir ./\nport 0\n")[1], ["no client can connect: port, tls-port and unixsocket are off, or bind is empty"])
        self.assertEqual(self.check("dir ./\nport 7001\nmetrics-port 7001\nmetrics-bind 203.0.113.9 -203.0.113.10\n")[1],
                         ["metrics-port and port are both 7001", "metrics-bind 203.0.113.9: this machine does not have the address"])
        self.assertEqual(self.check("dir ./\naclfile nosuch.acl\n")[1],
                         ["Error loading ACLs, opening file 'nosuch.acl': No such file or directory"])

    def test_it_is_the_first_argument(self):
        process = subprocess.run([under_test(), "--dir", self.dir, "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"--check has to come before all other arguments", process.stdout)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_directory_that_can_not_be_written(self):
        path = os.path.join(self.dir, "data")
        os.mkdir(path)
        os.chmod(path, 0o555)
        how = {"user": 65534} if os.getuid() == 0 else {}
        try:
            code, problems, _ = self.check("dir %s\n" % path, **how)
        except PermissionError:
            self.skipTest("another user may not run the program: it is in a directory of root")
        self.assertEqual((code, problems), (1, ["dir '%s': it can't be written: Permission denied" % path,
                                                "tier-dir 'store': it can't be created in '.': Permission denied"]))

    def test_remarks_do_not_fail_it(self):
        code, problems, remarks = self.check("dir ./\nactivedefrag yes\nsave \"\"\nmaxmemory 1000000gb\nbackup-dir /nonexistent\n")
        self.assertEqual((code, problems), (0, []))
        for text in ("activedefrag yes: known, but does nothing", "appendonly no, and no save points", "is more than this machine has",
                     "backup-dir '/nonexistent': No such file"):
            self.assertIn(text, "\n".join(remarks))


class ShutdownTest(unittest.TestCase):
    def test_signals_and_shutdown_stop_it_cleanly(self):
        for how in (signal.SIGTERM, signal.SIGINT, "SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN NOW FORCE"):
            server = Server()
            with server.client() as client:
                client.must("SET", "k", "v")
                if isinstance(how, str):
                    client.send(how.encode() + b"\r\n")
                else:
                    server.process.send_signal(how)
                self.assertEqual(server.wait_end(), 0, how)
                self.assertIsNone(server.alarm())
            server.discard()

    def test_shutdown_arguments(self):
        server = Server()
        self.addCleanup(server.stop)
        with server.client() as client:
            self.assertEqual(client.call("SHUTDOWN", "foo"), Error(b"ERR syntax error"))
            self.assertEqual(client.call("SHUTDOWN", "SAVE", "NOSAVE"), Error(b"ERR syntax error"))
            self.assertEqual(client.call("SHUTDOWN", "ABORT"), Error(b"ERR No shutdown in progress."))

    def test_setting_what_does_nothing_is_logged(self):
        with Server() as server, server.client() as client:
            for value in ("11", "11", "12"):
                client.must("CONFIG", "SET", "maxmemory-samples", value)
            log = server.log()
        self.assertEqual(log.count(b"CONFIG SET maxmemory-samples: the directive is known but does nothing"), 2 if not is_redis() else 0)

    def test_the_log_has_the_lines_that_tools_wait_for(self):
        server = Server()
        log = server.log()
        server.stop()
        self.assertRegex(log, rb"(?m)^\d+:M \d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3} [*#.-] .*Server initialized")
        self.assertRegex(log, rb"Ready to accept connections")


class CommandLineTest(unittest.TestCase):
    """As redis-server reads its arguments."""

    def start(self, *args):
        server = Server({}, args=args)
        self.addCleanup(server.discard)
        client = server.client()
        self.addCleanup(client.close)
        return client

    def test_name_and_values_may_be_one_argument(self):
        client = self.start("--maxmemory 700mb", "--loglevel 'verbose'", "--hz", "20")
        for name, value in (("maxmemory", b"734003200"), ("loglevel", b"verbose"), ("hz", b"20")):
            self.assertEqual(client.must("CONFIG", "GET", name)[1], value)

    def test_a_value_may_begin_like_an_option(self):
        client = self.start("--requirepass", "--secret", "--loglevel", "verbose")
        self.assertEqual(client.must("AUTH", "--secret"), OK)
        self.assertEqual(client.must("CONFIG", "GET", "loglevel")[1], b"verbose")

    def test_save_may_be_without_a_value(self):
        for args in (["--save", "--loglevel", "verbose"], ["--loglevel", "verbose", "--save"], ["--loglevel", "verbose", "--save", ""]):
            client = self.start(*args)
            self.assertEqual(client.must("CONFIG", "GET", "save")[1], b"")
            self.assertEqual(client.must("CONFIG", "GET", "loglevel")[1], b"verbose")


if __name__ == "__main__":
    main()
