"""kelvin-top: on a terminal of any size, as plain lines, with servers that come and go, and with servers that send anything.

KELVIN_TOP      path of the program; build/release/kelvin-top when unset
"""
import fcntl
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.server import REDIS, ROOT, Server, port_free, under_test                                # noqa: E402
from support.tls import Authority                                                                   # noqa: E402

TOP = os.path.abspath(os.environ.get("KELVIN_TOP") or os.path.join(ROOT, "build", "release", "kelvin-top"))
SERVER = under_test()
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
WAIT_S = 60
# The sequences that it uses. What else begins with an escape would be the server's.
SEQUENCE = re.compile(rb"\x1b\[(\?1049[hl]|\?25[hl]|\?7[hl]|2J|H|K|J|7m|0m)")


def run(*arguments, port=None, environment=None, timeout=WAIT_S):
    """(exit status, stdout, stderr) without a terminal."""
    words = [TOP] + (["-p", str(port)] if port else []) + [str(word) for word in arguments]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


class Screen:
    """What a terminal of this size would show, for the sequences above only: anything else fails."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = [""] * rows, 0, 0
        self.rest = b""

    def feed(self, data):
        data = self.rest + data
        at = 0
        while at < len(data):
            if data[at] == 27:
                match = SEQUENCE.match(data, at)
                if match is None:
                    assert len(data) - at < 10, "an unknown sequence: %r" % data[at:at + 20]
                    break
                self.sequence(match[1])
                at = match.end()
                continue
            self.byte(data[at])
            at += 1
        self.rest = data[at:]

    def sequence(self, name):
        if name == b"H":
            self.row = self.column = 0
        elif name == b"K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif name in (b"J", b"2J"):
            self.lines[self.row + 1:] = [""] * (self.rows - self.row - 1)
            self.lines[self.row] = self.lines[self.row][:self.column]

    def byte(self, byte):
        if byte == 13:
            self.column = 0
        elif byte == 10:
            self.row += 1
            assert self.row < self.rows, "it scrolls"
        else:
            assert 32 <= byte < 127, "not printable: %r" % byte
            assert self.column < self.columns, "a line is too long: %r" % self.lines[self.row]
            line = self.lines[self.row]
            self.lines[self.row] = line[:self.column].ljust(self.column) + chr(byte) + line[self.column + 1:]
            self.column += 1

    def text(self):
        return "\n".join(self.lines)


class Terminal:
    """kelvin-top on a pseudo-terminal."""

    def __init__(self, columns, rows, *arguments):
        self.master, self.slave = pty.openpty()
        self.size(columns, rows)
        self.settings = termios.tcgetattr(self.slave)
        self.raw = b""
        self.process = subprocess.Popen([TOP] + [str(word) for word in arguments], stdin=self.slave, stdout=self.slave, stderr=subprocess.PIPE,
                                        start_new_session=True, preexec_fn=self.take_terminal)

    @staticmethod
    def take_terminal():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def size(self, columns, rows):
        self.screen = Screen(columns, rows)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, timeout):
        """Reads what there is within this time. The terminal translates \\n into \\r\\n."""
        if select.select([self.master], [], [], timeout)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            return data
        return b""

    def until(self, found, what):
        deadline = time.monotonic() + WAIT_S
        while not found():
            if time.monotonic() > deadline:
                raise AssertionError("%s; the screen:\n%s" % (what, self.screen.text()))
            self.screen.feed(self.read(0.5))

    def shows(self, pattern):
        self.until(lambda: re.search(pattern, self.screen.text()), "never shown: %s" % pattern)

    def key(self, key):
        os.write(self.master, key)

    def end(self):
        """Waits for its end and returns the exit status, after checking that the terminal is as it was."""
        while self.process.poll() is None:
            self.read(0.05)
        while self.read(0):
            pass
        status = self.process.wait()
        assert self.raw.rstrip().endswith(LEAVE), self.raw[-100:]
        assert self.raw.count(ENTER) == self.raw.count(LEAVE), self.raw
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()
        os.close(self.master)
        os.close(self.slave)


class TopCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server({"maxmemory": "100mb"}, binary=SERVER)
        cls.addClassCleanup(lambda: cls.server.stop())

    def terminal(self, columns, rows, *arguments, port=None):
        terminal = Terminal(columns, rows, "-p", port or self.server.port, "-i", 0.2, *arguments)
        self.addCleanup(terminal.close)
        return terminal

    def settings_are_back(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.settings)


class ScreenTest(TopCase):
    def test_every_size(self):
        for columns, rows in ((20, 5), (1, 1), (2, 2), (10, 40), (40, 3), (80, 24), (132, 50), (300, 100), (500, 1)):
            with self.subTest(columns=columns, rows=rows):
                terminal = self.terminal(columns, rows)
                if columns >= 20 and rows >= 3:
                    terminal.shows(r"\nmemory +.*100M" if columns > 20 else r"\nmemory")
                    terminal.shows(r"\nhits")
                else:
                    terminal.until(lambda: terminal.raw.count(b"\x1b[H") > 5, "five frames")
                if rows >= 24 and columns >= 80:
                    terminal.shows(r"\ninfo .* %")
                    terminal.shows(r"\nreplication +0 replicas")
                terminal.key(b"q")
                self.assertEqual(terminal.end(), 0)
                self.settings_are_back(terminal)

    def test_the_window_may_change(self):
        terminal = self.terminal(80, 24)
        terminal.shows(r"\n2x memory")
        for columns, rows in ((20, 5), (300, 100), (5, 2), (80, 24)):
            # What is on its way was drawn for the old size.
            terminal.process.send_signal(signal.SIGSTOP)
            os.waitpid(terminal.process.pid, os.WUNTRACED)
            while terminal.read(0):
                pass
            terminal.size(columns, rows)
            terminal.process.send_signal(signal.SIGCONT)
            frames = terminal.raw.count(b"\x1b[H")
            terminal.until(lambda: terminal.raw.count(b"\x1b[H") > frames + 2, "frames of the new size")
            self.assertTrue(terminal.screen.text().startswith("127.0.0.1:%d" % self.server.port if columns > 20 else "127."))
        terminal.shows(r"\n2x memory")
        terminal.key(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_what_ends_it(self):
        for how, status in ((b"q", 0), (b"Q", 0), (b"\x03", 0), (b"\x04", 0), (b"xyzq", 0), (b"\x1c", 128 + signal.SIGQUIT),
                            (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP), (signal.SIGINT, 0)):
            with self.subTest(how=how):
                terminal = self.terminal(80, 24)
                terminal.shows(r"\nmemory")
                if isinstance(how, bytes):
                    terminal.key(how)
                else:
                    terminal.process.send_signal(how)
                self.assertEqual(terminal.end(), status)
                self.settings_are_back(terminal)

    def test_a_crash_gives_the_terminal_back(self):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
            terminal = self.terminal(80, 24)
            terminal.shows(r"\nmemory")
            terminal.process.send_signal(number)
            self.assertEqual(terminal.end(), -number)
            self.assertEqual(termios.tcgetattr(terminal.slave)[3] & (termios.ECHO | termios.ICANON), termios.ECHO | termios.ICANON)

    def test_stopped_and_continued(self):
        terminal = self.terminal(80, 24)
        terminal.shows(r"\nmemory")
        for _ in range(3):
            terminal.key(b"\x1a")
            self.assertTrue(os.WIFSTOPPED(os.waitpid(terminal.process.pid, os.WUNTRACED)[1]))
            while terminal.read(0):
                pass
            self.assertTrue(terminal.raw.endswith(LEAVE))
            self.settings_are_back(terminal)
            terminal.process.send_signal(signal.SIGCONT)
            terminal.screen = Screen(80, 24)
            terminal.shows(r"\nmemory")
        terminal.key(b"q")
        self.assertEqual(terminal.end(), 0)
        self.settings_are_back(terminal)

    def test_a_server_that_is_silent_does_not_hold_it(self):
        with Fake(b"") as fake:
            terminal = self.terminal(80, 24, port=fake.port)
            terminal.shows("connecting")
            terminal.key(b"q")
            self.assertEqual(terminal.end(), 0)
            self.settings_are_back(terminal)

    def test_the_terminal_goes_away(self):
        terminal = self.terminal(80, 24)
        terminal.shows(r"\nmemory")
        os.close(terminal.master)
        try:
            self.assertIn(terminal.process.wait(WAIT_S), (0, 128 + signal.SIGHUP))
        finally:
            terminal.master = os.open(os.devnull, os.O_RDONLY)

    def test_it_connects_again(self):
        with Server({"maxmemory": "100mb", "port": port_free()}, binary=SERVER) as server:
            terminal = self.terminal(100, 30, port=server.port)
            terminal.shows(r"\nkeys +0 hot")
            for _ in range(2):
                server.kill9()
                terminal.shows(r"NO CONNECTION  for 0:\d\d")
                server.start()
                with server.client() as client:
                    client.must("MSET", "a", 1, "b", 2, "c", 3)
                terminal.until(lambda: "NO CONNECTION" not in terminal.screen.text(), "connected again")
                terminal.shows(r"\nkeys +3 hot")
            terminal.key(b"q")
            self.assertEqual(terminal.end(), 0)

    def test_a_start_has_a_bar(self):
        with Server({"appendonly": "yes", "appendfsync": "no", "port": port_free()}, binary=SERVER) as server:
            with server.client() as client:
                for i in range(2000):
                    client.must("SET", "k%d" % i, "v" * 100)
            server.relaunch_slowly(5000, server.info)
            terminal = self.terminal(100, 30, port=server.port)
            terminal.shows(r"\nloading +\[#+\.+\] \d+ %  \d:\d\d left  \S+/s  of \d+K")
            server.load_quickly()
            terminal.shows(r"\nkeys +2\.00k hot")
            terminal.until(lambda: "loading" not in terminal.screen.text(), "the end of the load")
            terminal.key(b"q")
            self.assertEqual(terminal.end(), 0)

    def test_a_server_that_comes_later(self):
        port = port_free()
        terminal = self.terminal(100, 30, port=port)
        terminal.shows("NO CONNECTION.*Connection refused")
        with Server({"port": port}, binary=SERVER):
            terminal.shows(r"\nkeys +0")
            terminal.key(b"q")
            self.assertEqual(terminal.end(), 0)


class PlainTest(TopCase):
    def test_reports(self):
        with self.server.client() as client:
            client.must("FLUSHALL")
            for i in range(50):
                client.must("SET", "key:%d" % i, i)
            client.call("INCRBY", "key:1", "x")
        for words, count in ((("--once",), 1), (("-n", 3), 3)):
            code, out, err = run(*words, "-i", 0.2, port=self.server.port)
            self.assertEqual((code, err), (0, ""))
            reports = out.split("\n\n127.0.0.1:")
            self.assertEqual(len(reports), count)
            self.assertRegex(out, r"\A[ -~\n]+\Z")
            for report in reports:
                self.assertRegex(report, r"\nkeys +50 hot  0 cold")
                self.assertRegex(report, r"\nmemory +\[#*\.+\] [\d.]+[KM]/100M  \d+ %")
                self.assertRegex(report, r"\ninfo +[\d.]+ % +[\d.]+")
                self.assertRegex(report, r"\n2x memory +not known yet")

    def test_a_pipe_needs_no_option(self):
        with subprocess.Popen([TOP, "-p", str(self.server.port), "-i", "0.1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            lines = [process.stdout.readline() for _ in range(60)]
            self.assertGreater(sum(line.startswith(b"memory ") for line in lines), 2)
            process.stdout.close()              # what it prints next goes nowhere
            self.assertEqual(process.wait(WAIT_S), 1)

    def test_redis(self):
        with Server({"maxmemory": "100mb"}, binary=REDIS) as server:
            with server.client() as client:
                client.must("SET", "a", "b")
                client.must("GET", "a")
            code, out, err = run("--once", "-i", 0.2, port=server.port)
            self.assertEqual((code, err), (0, ""))
            self.assertRegex(out, r"\A127.0.0.1:\d+  Redis 7\.\S+  primary  up")
            self.assertRegex(out, r"\nkeys +1  ")
            self.assertRegex(out, r"\nloads +-\n")
            self.assertRegex(out, r"\n2x memory +-\n")
            self.assertRegex(out, r"\nmemory .*/100M")
            self.assertRegex(out, r"\ninfo +[\d.]+ %")

    def test_a_replica(self):
        with Server(binary=SERVER) as replica:
            with replica.client() as client:
                client.must("REPLICAOF", "127.0.0.1", self.server.port)
                while b"master_link_status:up" not in client.must("INFO", "replication"):
                    time.sleep(0.02)
            self.assertRegex(run("--once", "-i", 0.2, port=replica.port)[1],
                             r"\nreplication +link up  to 127.0.0.1:%d  0 not applied" % self.server.port)
            self.assertRegex(run("--once", "-i", 0.2, port=self.server.port)[1], r"\nreplication +1 replica  largest lag \d")

    def test_no_server(self):
        code, out, err = run("--once", port=port_free())
        self.assertEqual((code, out), (1, ""))
        self.assertRegex(err, r"\Akelvin-top: 127.0.0.1:\d+: Connection refused\n\Z")
        code, _, err = run("--once", "-s", os.path.join(self.server.folder, "none"))
        self.assertEqual(code, 1)
        self.assertIn("No such file", err)
        code, _, err = run("--once", "-h", "no.such.host.invalid")
        self.assertEqual(code, 1)

    def test_users(self):
        path = os.path.join(self.server.folder, "s")
        with Server({"requirepass": "secret", "unixsocket": path}, binary=SERVER) as server:
            with server.client() as client:
                client.must("AUTH", "secret")
                client.must("ACL", "SETUSER", "watch", "on", ">word", "+info")
            self.assertEqual(run("--once", "-i", 0.1, port=server.port)[0], 1)
            self.assertIn("NOAUTH", run("--once", "-i", 0.1, port=server.port)[2])
            self.assertIn("WRONGPASS", run("--once", "-a", "wrong", "-i", 0.1, port=server.port)[2])
            for words, environment in ((("-a", "secret"), {}), (("-a", "word", "--user", "watch"), {}), ((), {"REDISCLI_AUTH": "secret"})):
                code, out, err = run("--once", "-i", 0.1, *words, port=server.port, environment=environment)
                self.assertEqual((code, err), (0, ""))
                self.assertIn("\nmemory ", out)
            code, out, _ = run("--once", "-i", 0.1, "-s", path, "-a", "secret")
            self.assertEqual(code, 0)
            self.assertTrue(out.startswith(path + "  Kelvin"))

    def test_tls(self):
        authority = Authority()
        self.addCleanup(authority.close)
        authority.issue("server")
        authority.issue("client")
        other = Authority()
        self.addCleanup(other.close)
        port = port_free()
        ca, own = ["--tls", "--cacert", authority.path("ca.crt")], ["--cert", authority.path("client.crt"), "--key", authority.path("client.key")]
        with Server(authority.server_options(port), binary=SERVER) as server:
            for words, good in ((ca + own, True), (ca, False), (["--tls"] + own, False), (["--tls", "--cacert", other.path("ca.crt")] + own, False)):
                code, out, err = run("--once", "-i", 0.1, *words, port=port)
                self.assertEqual((code, "\nmemory " in out), (0, True) if good else (1, False), err)
            with server.client() as client:
                client.must("CONFIG", "SET", "tls-auth-clients", "no")
            self.assertEqual(run("--once", "-i", 0.1, *ca, port=port)[0], 0)
            self.assertEqual(run("--once", "-i", 0.1, port=port)[0], 1)           # no TLS where it is wanted

    def test_the_command_line(self):
        for words in (["--none"], ["-p", "0"], ["-p"], ["-n", "x"], ["-i", "0"], ["--once", "-n", "3"], ["--user", "x"], ["word"],
                      ["--cacert", "x"], ["--tls", "--cert", "x"], ["--tls", "--cacert", "/none"], ["--tls", "--cert", "/none", "--key", "/none"]):
            code, out, err = run(*words, environment={"REDISCLI_AUTH": ""} if words != ["--user", "x"] else None)
            self.assertEqual((code, out), (2, ""), words)
            self.assertRegex(err, r"\Akelvin-top: [^\n]+\n\Z")
        self.assertEqual(run("--help")[0], 0)
        self.assertRegex(run("--version")[1], r"\Akelvin-top \d")


INFO = b"run_id:a\r\nkelvin_version:1\r\ntier_status:ok\r\nused_memory:%d\r\nmaxmemory:100\r\ncmdstat_get:calls=%d,usec=7\r\n"


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


class Fake:
    """A server that replies to each request with the next of these byte strings, and then with the last one again; None: it closes."""

    def __init__(self, *replies, repeat=1):
        self.replies, self.repeat = replies, repeat
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def serve(self):
        asked = 0
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.settimeout(WAIT_S)
                asked = self.talk(connection, asked)

    def talk(self, connection, asked):
        try:
            while connection.recv(4096):
                reply = self.replies[min(asked, len(self.replies) - 1)]
                asked += 1
                if reply is None:
                    return asked
                for _ in range(self.repeat):
                    connection.sendall(reply)
        except OSError:
            pass
        return asked


class HostileTest(unittest.TestCase):
    def look(self, *replies, repeat=1):
        with Fake(*replies, repeat=repeat) as fake:
            code, out, err = run("--once", "-i", 0.1, port=fake.port)
        self.assertIn(code, (0, 1), (code, out, err))
        self.assertRegex(out + err, r"\A[ -~\n]*\Z")
        return code, out, err

    def test_what_is_no_reply(self):
        for reply, reason in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "not valid"), (b"\x00\xff\xfe\r\n", "not valid"), (b"*-5\r\n", "not valid"),
                              (b"$99999999999999999999\r\n", "not valid"), (b":1\r\n", "no string"), (b"$-1\r\n", "no string"), (b"*0\r\n", "no string"),
                              (b"+OK\r\n", "no string"), (b"-ERR go \x1b[2J away\r\n", "ERR go"), (b"%1\r\n+a\r\n+b\r\n", "no string"),
                              (bulk(b""), "no fields"), (bulk(b"\x1b[2J"), "no fields"), (b"+OK\r\n+OK\r\n", "not valid"), (None, "closed")):
            code, out, err = self.look(reply)
            self.assertEqual((code, out), (1, ""), reply)
            self.assertIn(reason, err)

    def test_what_does_not_end(self):
        for reply in (b"x" * 65536, b"$4000000000\r\n" + b"y" * 65536, b"*4000000000\r\n" + b":1\r\n" * 10000):
            code, out, err = self.look(reply, repeat=300)
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, "too large|not valid")

    def test_fields_that_are_no_numbers(self):
        for value in (b"nan", b"inf", b"-1", b"1e308", b"99999999999999999999999", b"", b"\x1b[31m", b"x" * 10000, b"calls=,usec=nan", b"=,=,"):
            text = b"".join(name + b":" + value + b"\r\n" for name in (
                b"used_memory", b"maxmemory", b"tier_hot_hits", b"tier_cold_hits", b"loading", b"loading_total_bytes", b"loading_loaded_bytes",
                b"aof_current_size", b"aof_base_size", b"slave0", b"db0", b"cmdstat_get", b"errorstat_ERR", b"role", b"tier_status", b"run_id",
                b"uptime_in_seconds", b"tier_last_error", b"kelvin_version", b"tier_segment_live_bytes", b"tier_segment_bytes", b"cmdstat_"))
            self.assertEqual(self.look(bulk(text))[0], 0, value)

    def test_many_fields(self):
        text = b"".join(b"cmdstat_c%d:calls=1,usec=2\r\n" % i for i in range(100000))
        self.assertEqual(self.look(bulk(text))[0], 0)

    def test_counters_that_go_back(self):
        first, second = bulk(INFO % (50, 1000)), bulk(INFO % (50, 3))
        code, out, _ = self.look(first, b"-ERR no advice\r\n", second)
        self.assertEqual(code, 0)
        self.assertNotIn("\nget", out)

    def test_a_wrong_reply_to_advise(self):
        for advice in (b"*1\r\n$6\r\nfactor\r\n", b"*4\r\n$6\r\nfactor\r\n:2\r\n$9\r\nhit_ratio\r\n$3\r\nnan\r\n", b"-ERR x\r\n", b"$-1\r\n", b"*-1\r\n"):
            self.assertEqual(self.look(bulk(INFO % (50, 1)), advice, bulk(INFO % (50, 2)))[0], 0, advice)
        self.assertEqual(self.look(bulk(INFO % (50, 1)), b"garbage\r\n", bulk(INFO % (50, 2)))[0], 1)

    def test_a_screen_shows_no_sequence_of_the_servers(self):
        evil = b"\x1b]0;title\x07\x1b[2J\r\x08\x9b"
        text = bulk(b"run_id:a\r\nrole:" + evil + b"\r\nkelvin_version:" + evil + b"\r\ntier_status:" + evil + b"\r\ntier_last_error:" + evil +
                    b"\r\ncmdstat_" + evil + b":calls=1,usec=1\r\n")
        with Fake(text) as fake:
            terminal = Terminal(120, 30, "-p", fake.port, "-i", 0.1)
            self.addCleanup(terminal.close)
            terminal.shows(r"Kelvin \?\]0;title")
            terminal.key(b"q")
            self.assertEqual(terminal.end(), 0)


if __name__ == "__main__":
    unittest.main()
