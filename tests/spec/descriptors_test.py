"""Few descriptors: the server reserves those that it needs, and lowers maxclients accordingly."""
import os
import re
import resource
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Closed, Error, Status                                                  # noqa: E402
from support.server import REDIS, Server, is_sanitized, until                          # noqa: E402

# Runs the rest of the command line with few descriptors, without the permission to raise the limit.
LIMITED = ("import ctypes, os, resource, sys; ctypes.CDLL(None).prctl(24, 24); n = int(sys.argv[1]); "
           "resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)); os.execv(sys.argv[2], sys.argv[2:])")
FULL = Error(b"ERR max number of clients reached")


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def open_descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


@kelvin_only
class DescriptorsTest(unittest.TestCase):
    def start(self, limit, binary=None, start=True, **options):
        options = {name.replace("_", "-"): value for name, value in options.items()}
        server = Server(options, binary=binary, prefix=[sys.executable, "-c", LIMITED, str(limit)], start=start)
        self.addCleanup(server.discard)
        return server

    def maxclients(self, client):
        return int(client.must("CONFIG", "GET", "maxclients")[1])

    def connect(self, server, count):
        """Opens up to `count` connections, until one is refused. Returns those that are served, and the last reply."""
        clients, reply = [], None
        while len(clients) < count:
            client = server.client(timeout=5)
            try:
                reply = client.call("PING")
            except (OSError, Closed):
                reply = FULL
            if reply == FULL:
                client.close()
                break
            clients.append(client)
            self.addCleanup(client.close)
        return clients, reply

    def test_maxclients_is_lowered_and_it_is_logged(self):
        server = self.start(1024)
        with server.client() as client:
            left = self.maxclients(client)
            self.assertTrue(300 < left < 1000, left)
            log = server.log_new().decode()
            self.assertIn("You requested maxclients of 10000 requiring at least ", log)
            self.assertIn("Current maximum open files is 1024. maxclients has been reduced to %d to compensate for low ulimit" % left, log)
            self.assertEqual(client.must("CONFIG", "SET", "maxclients", left - 10), OK)
            self.assertEqual(client.must("CONFIG", "SET", "maxclients", left), OK)
            reply = client.call("CONFIG", "SET", "maxclients", 5000)
            self.assertEqual(reply, Error(b"ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is "
                                          b"not able to handle the specified number of clients, try with %d" % left))
            self.assertEqual(self.maxclients(client), left)
        if os.path.exists(REDIS):
            redis = self.start(1024, binary=REDIS)
            with redis.client() as client:
                theirs = client.call("CONFIG", "SET", "maxclients", 5000)
            self.assertEqual(re.sub(rb"\d+$", b"", theirs), re.sub(rb"\d+$", b"", reply))
            redis.stop()
        server.stop()

    def test_the_limit_is_raised_as_far_as_possible(self):
        server = self.start(1024, maxclients=500)
        with server.client() as client:
            self.assertEqual(self.maxclients(client), 500)
        self.assertNotIn(b"maxclients has been reduced", server.log_new())
        server.stop()

    def test_too_few_to_start(self):
        server = self.start(100, start=False)
        server.launch()
        self.assertEqual(server.wait_end(), 1)
        self.assertIn(b"Your current 'ulimit -n' of 100 is not enough for the server to start. Please increase your open file limit to "
                      b"at least ", server.log())
        least = int(re.search(rb"at least (\d+), or to \d+ for maxclients 10000", server.log()).group(1))
        server.discard()
        for limit, starts in ((least - 1, False), (least, True)):
            server = self.start(limit, start=False)
            server.launch()
            self.assertEqual(server.wait_ready(), starts)
            server.kill9() if starts else server.discard()

    def test_cold_keys_can_be_read_with_the_maximum_number_of_clients(self):
        server = self.start(400, tier_segment_size="1mb", tier_write_buffer="1mb", maxmemory="24mb")
        count = 30000 if is_sanitized() else 120000
        with server.client(timeout=120) as client:
            for start in range(0, count, 1000):
                replies = client.pipeline(["SET", "k%d" % i, (b"%d." % i) * 150] for i in range(start, start + 1000))
                self.assertEqual(set(replies), {OK})
        segments = [name for name in os.listdir(os.path.join(server.folder, "store")) if name.endswith(".seg")]
        self.assertGreater(len(segments), 15 if is_sanitized() else 70)
        clients, reply = self.connect(server, 400)
        self.assertEqual(reply, FULL)
        self.assertEqual(len(clients), self.maxclients(clients[0]))
        for at in range(0, count, 7):
            value = clients[at % len(clients)].call("GET", "k%d" % at)
            self.assertEqual(value, (b"%d." % at) * 150, at)
        self.assertLessEqual(open_descriptors(server.process.pid), 400)
        # It was still possible to write the log, save a dump, and make an image.
        self.assertEqual(clients[0].must("SAVE"), OK)
        self.assertNotIn(b"Too many open files", server.log())
        for client in clients:
            client.close()
        server.stop()

    def test_accepting_pauses_when_there_are_no_descriptors(self):
        # With a log file, which is opened for each line and so needs a descriptor as well.
        server = self.start(1024, start=False, logfile="own.log")
        log_path = os.path.join(server.folder, "own.log")
        server.launch()
        until(lambda: os.path.exists(log_path) and b"Ready to accept" in read_bytes(log_path), 20, "the start")
        pid = server.process.pid
        first = server.client()
        first.must("PING")
        here = open_descriptors(pid)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (here + 3, 1024))
        waiting = [server.client() for _ in range(10)]
        for client in waiting:
            self.addCleanup(client.close)
            client.send(b"PING\r\n")

        def failures():
            return read_bytes(log_path).count(b"Accepting client connection: Too many open files")

        until(lambda: failures() > 0, 10, "a line in the log")
        before, cpu, began = failures(), cpu_seconds(pid), time.monotonic()
        while time.monotonic() - began < 2:
            first.must("PING")
            time.sleep(0.05)
        took = time.monotonic() - began
        # At most ten per second; without the pause, the thread would use 100 % CPU.
        self.assertLessEqual(failures() - before, took * 10 + 2)
        self.assertLess(cpu_seconds(pid) - cpu, took * (0.9 if is_sanitized() else 0.3))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (here + 20, 1024))
        for client in waiting:
            self.assertEqual(client.receive(), Status(b"PONG"))
        first.close()
        for client in waiting:
            client.close()
        server.stop()


if __name__ == "__main__":
    main()
