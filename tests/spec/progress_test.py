"""Bars of progress on a terminal: kelvin-check, --restore and kelvin-benchmark. What they print otherwise is as without one."""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.disk import DELAY, Disk                                                                 # noqa: E402
from support.server import ROOT, Server, is_sanitized, port_free, under_test                         # noqa: E402

FOLDER = os.path.dirname(under_test())
WAIT_S = 120


def on_terminal(words, environment, done=None):
    """Runs a program with a terminal as stderr. Returns exit status, stdout and stderr. `done(stderr)`: ends it with SIGTERM."""
    master, slave = pty.openpty()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=slave, env={**os.environ, **environment})
        os.close(slave)
        said, deadline = b"", time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            if select.select([master], [], [], 0.05)[0]:
                try:
                    said += os.read(master, 65536)
                except OSError:                 # all ends are closed
                    break
            if done is not None:
                out.seek(0)
                if done(out.read()):
                    process.terminate()
                    done = None
                out.seek(0, os.SEEK_END)
        status = process.wait(10)
        os.close(master)
        out.seek(0)
        return status, out.read().decode(), said.decode()


class ProgressTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def slow(self, kinds, pattern, **more):
        disk = Disk(self.folder)
        self.addCleanup(disk.remove)
        disk.rule(0, kinds, pattern, DELAY, **more)
        return {"ASAN_OPTIONS": "verify_asan_link_order=0", **disk.environment}

    def test_check(self):
        with Server({"dbfilename": "d.rdb", "dir": self.folder, "rdbcompression": "no"}) as server, server.client() as client:
            client.must("DEBUG", "POPULATE", 60000, "key", 100)
            client.must("SAVE")
        path = os.path.join(self.folder, "d.rdb")
        size = os.path.getsize(path)
        self.assertGreater(size, 5 << 20)
        environment = self.slow("read", "d.rdb", delay_us=100000, first=2, last=6)
        status, out, said = on_terminal([os.path.join(FOLDER, "kelvin-check"), path], environment)
        self.assertEqual(status, 0, out + said)
        self.assertRegex(out, r"\Ardb +ok: \S+: version 10, 60000 keys, 0 libraries of functions, %d bytes read\nNo damage was found.\n\Z" % size)
        self.assertRegex(said, r"\A(\r\x1b\[Krdb \[#*\.+\] +\d+ %[^\r\n]*)+\r\x1b\[K\Z")
        quick = subprocess.run([os.path.join(FOLDER, "kelvin-check"), path], capture_output=True, timeout=WAIT_S)
        self.assertEqual((quick.stdout.decode(), quick.stderr), (out, b""))

    def test_restore(self):
        backup = os.path.join(self.folder, "backup")
        with Server({"appendonly": "yes", "backup-dir": self.folder}) as server, server.client() as client:
            client.must("DEBUG", "POPULATE", 2000)
            client.must("TIER", "BACKUP", backup)
        data = os.path.join(self.folder, "data")
        os.mkdir(data)
        environment = self.slow("write", "data/appendonlydir.incomplete/*", delay_us=100000)
        words = [under_test(), "--port", port_free(), "--dir", data, "--appendonly", "yes", "--save", "", "--restore", backup]
        if "/tsan/" in under_test():
            words += ["--partitions", 16]
        status, out, said = on_terminal([str(word) for word in words], environment, done=lambda log: b"eady to accept connections" in log)
        self.assertEqual(status, 0, out + said)
        self.assertIn("Restored the backup", out)
        self.assertNotIn("restoring", out)
        self.assertRegex(said, r"\A(\r\x1b\[Krestoring the backup \[#*\.*\] +\d+ %[^\r\n]*)+\r\x1b\[K\Z")

    def test_benchmark(self):
        with Server() as server:
            words = [os.path.join(FOLDER if not is_sanitized() else os.path.join(ROOT, "build", "release"), "kelvin-benchmark"), "-p", str(server.port),
                     "--load", "-r", "150", "-P", "1", "-c", "1", "--rps", "100", "--csv"]
            status, out, said = on_terminal(words, {})
            self.assertEqual(status, 0, out + said)
            self.assertEqual(len(out.splitlines()), 2)
            self.assertRegex(said, r"\A(\r\x1b\[Kload \[#*\.+\] +\d+ %  0:0\d left  [\d.]+/s)+\r\x1b\[K\Z")
            words[words.index("--load"):] = ["-t", "get", "--duration", "1", "--rps", "100"]
            status, out, said = on_terminal(words, {})
            self.assertEqual(status, 0, out + said)
            shown = [int(text) for text in re.findall(r"get \[#*\.*\] +(\d+) %", said)]
            self.assertGreaterEqual(len(shown), 2)
            self.assertEqual(shown, sorted(shown))
            status, out, said = on_terminal(words + ["-q"], {})
            self.assertEqual((status, said), (0, ""))


if __name__ == "__main__":
    unittest.main()
