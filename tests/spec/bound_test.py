"""maxmemory limits the process also with common clients: the peak RSS stays within maxmemory + 10 % + 16 MB + the largest request
and reply, no command is refused, and other clients are served meanwhile.

KELVIN_LONG and KELVIN_FIGURES: support/bound.py.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.bound import LONG, MB, BoundCase, encode, size_by_form, value_of                           # noqa: E402
from support.case import main                                                                       # noqa: E402
from support.resp import OK                                                                         # noqa: E402
from support.server import is_sanitized, redis_tool                                                     # noqa: E402

ALONE = True        # tests/run: other programs would delay the PINGs, which may take a second
SMALL, LARGER = size_by_form(100000, 600000, 1000000), size_by_form(500, 4000, 8000)
TOOL_LIMIT_S = 3600 if LONG else 60 if not is_sanitized() else 200


class PipeTest(BoundCase):
    """Mass insertion with redis-cli: it sends as fast as the server reads, and reads the replies later."""

    PIPES = 3

    def feed(self, process, pipe, count, size_of):
        """Yields the commands of one client, in pieces of 256 KB or one value."""
        parts, size = [], 0
        try:
            for number in range(count):
                parts.append(encode(["SET", b"key:%d:%d" % (pipe, number), value_of(number * self.PIPES + pipe, size_of(number))]))
                size += len(parts[-1])
                if size > 1 << 18 or number == count - 1:
                    process.stdin.write(b"".join(parts))
                    parts, size = [], 0
            process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass                    # it ended; its output has the reason

    def end_of(self, file):
        with file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 300))
            return file.read().decode()

    def wait_for(self, processes, server):
        try:
            deadline = time.monotonic() + TOOL_LIMIT_S
            for process in processes:
                process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            info = server.info()
            self.fail("redis-cli is not done after %d s; keys: %s; errors: %s" % (
                TOOL_LIMIT_S, info.get("db0"), {name: text for name, text in info.items() if name.startswith("errorstat_")}))

    def pipe(self, maxmemory, count, size_of, largest):
        server = self.limited(maxmemory)
        said = [tempfile.TemporaryFile() for _ in range(self.PIPES)]
        processes = [subprocess.Popen([redis_tool("redis-cli"), "-p", str(server.port), "--pipe"], stdin=subprocess.PIPE, stdout=file, stderr=file)
                     for file in said]
        threads = [threading.Thread(target=self.feed, args=(process, pipe, count, size_of), daemon=True)
                   for pipe, process in enumerate(processes)]
        try:
            with self.watched(server, largest=largest):
                for thread in threads:
                    thread.start()
                self.wait_for(processes, server)
                for thread in threads:
                    thread.join(10)
                self.assertTrue(server.alive())
        finally:
            for process in processes:
                process.kill()
                process.wait()
            for thread in threads:
                thread.join(10)
            ends = [self.end_of(file) for file in said]
        for text in ends:
            self.assertIn("errors: 0, replies: %d" % count, text)
        self.nothing_refused()
        client = self.client()
        self.assertEqual(client.must("DBSIZE"), self.PIPES * count)
        chance = random.Random(2)
        for _ in range(min(300, count)):
            pipe, number = chance.randrange(self.PIPES), chance.randrange(count)
            expected = value_of(number * self.PIPES + pipe, size_of(number))
            if client.must("GET", b"key:%d:%d" % (pipe, number)) != expected:
                self.fail("the value of key:%d:%d is wrong" % (pipe, number))

    def test_small_values_through_three_pipes(self):
        self.pipe(size_by_form(64 * MB, 64 * MB, 200 * MB), size_by_form(100000, 450000, 7000000), lambda number: 100, 0)

    def test_larger_values_after_small_ones(self):
        """Pages with some small values each are left; what they take besides counts."""
        server = self.limited(100 * MB)
        self.pipe_into(server, ([b"SET", b"small:%d" % i, value_of(i, 100 + i % 100)] for i in range(SMALL)))
        for command in ("RPUSH", "SADD"):
            self.pipe_into(server, self.at_random(command, SMALL // 10, 200))
        with self.watched(server, largest=MB):
            for command in ("SET", "RPUSH", "SADD"):
                self.pipe_into(server, self.at_random(command, LARGER, 20000))
        self.nothing_refused()

    def at_random(self, command, count, size):
        return ([command, b"%s:%d" % (command.encode(), i * 7919 % 200000), value_of(i, size)] for i in range(count))

    def pipe_into(self, server, commands):
        with self.client() as client:
            part = []
            for command in commands:
                part.append(command)
                if len(part) == 50:
                    client.pipeline(part)
                    part = []

    def test_large_values_through_three_pipes(self):
        self.pipe(size_by_form(64 * MB, 64 * MB, 200 * MB), size_by_form(50, 150, 1950),
                  lambda number: 100000 + number * 7919 % 900000, (2 + LargeValueTest.MERGED) * MB)


class BenchmarkTest(BoundCase):
    """A thousand clients, each of which sends a hundred commands before it reads a reply."""

    def benchmark(self, maxmemory, clients, pipeline, requests):
        server = self.limited(maxmemory)
        with self.watched(server, ping_limit=size_by_form(10, 3, 3)):
            tool = subprocess.run([redis_tool("redis-benchmark"), "-p", str(server.port), "-q", "-c", str(clients), "-P", str(pipeline), "-d", "1000",
                                   "-r", str(4 * requests), "-n", str(requests), "-t", "set"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=TOOL_LIMIT_S, universal_newlines=True)
        self.assertEqual(tool.returncode, 0, tool.stdout[-500:])
        self.assertRegex(tool.stdout, r"SET.*: [\d.]+ requests per second")
        self.assertNotRegex(tool.stdout, r"(?i)error")
        calls = re.match(r"calls=(\d+),.*rejected_calls=(\d+),failed_calls=(\d+)", self.nothing_refused()["cmdstat_set"])
        self.assertGreaterEqual(int(calls.group(1)), requests)
        self.assertEqual(calls.groups()[1:], ("0", "0"))

    def test_a_thousand_clients_with_pipelines_of_a_hundred(self):
        self.benchmark(size_by_form(64 * MB, 100 * MB, 200 * MB), size_by_form(200, 1000, 1000), 100, size_by_form(50000, 300000, 2000000))

    def test_pipelines_of_a_thousand(self):
        self.benchmark(size_by_form(64 * MB, 64 * MB, 200 * MB), size_by_form(50, 200, 1000), 1000, size_by_form(50000, 300000, 2000000))


class LargeValueTest(BoundCase):
    """Values that are a large part of maxmemory each."""

    MERGED = 4

    def setUp(self):
        self.size = size_by_form(10 * MB, 20 * MB, 50 * MB)
        self.limit = size_by_form(64 * MB, 64 * MB, 200 * MB)

    def compare(self, client, numbers, size):
        for number in numbers:
            if client.must("GET", "key:%d" % number) != value_of(number, size):
                self.fail("the value of key:%d is wrong" % number)

    def test_large_sets_by_one_client(self):
        count = size_by_form(5, 15, 30)
        server = self.limited(self.limit)
        client = self.client(timeout=120)
        with self.watched(server, largest=(2 + self.MERGED) * self.size):
            for number in range(count):
                client.must("SET", "key:%d" % number, value_of(number, self.size))
            self.compare(client, (0, 1, count // 2, count - 1), self.size)
        self.assertEqual(client.must("DBSIZE"), count)
        self.nothing_refused()

    def test_large_sets_in_a_pipeline(self):
        count = size_by_form(5, 10, 30)
        server = self.limited(self.limit)
        client = self.client(timeout=120)
        data = b"".join(encode(["SET", "key:%d" % number, value_of(number, self.size)]) for number in range(count))
        with self.watched(server, largest=(2 + self.MERGED) * self.size):
            self.assertEqual(client.exchange(data, count), [OK] * count)
            self.compare(client, (0, count - 1), self.size)
        self.nothing_refused()

    def test_large_sets_by_twenty_clients_at_once(self):
        size, count = self.size // 2, 20
        server = self.limited(self.limit)
        replies = {}

        def send(number):
            try:
                with server.client(timeout=120) as client:
                    replies[number] = client.call("SET", "key:%d" % number, value_of(number, size))
            except OSError as error:
                replies[number] = error
        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(count)]
        with self.watched(server, largest=(2 + self.MERGED) * size):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(TOOL_LIMIT_S)
            self.assertEqual(replies, dict.fromkeys(range(count), OK))
            self.compare(self.client(timeout=120), (0, count - 1), size)
        self.nothing_refused()


class Sleeper:
    """A client that sends requests and does not read replies until read() is called."""

    def __init__(self, case, numbers, size):
        self.client = case.client(timeout=120)
        self.client.socket.sendall(b"".join(encode(["GET", "key:%d" % number]) for number in numbers))
        self.size_expected, self.sum_expected = 0, 0
        for number in numbers:
            for part in (b"$%d\r\n" % size, value_of(number, size), b"\r\n"):
                self.size_expected += len(part)
                self.sum_expected = zlib.crc32(part, self.sum_expected)
        self.size = self.sum = 0
        self.error = None

    def read(self):
        room = bytearray(1 << 20)
        try:
            while self.size < self.size_expected:
                got = self.client.socket.recv_into(room)
                if got == 0:
                    raise EOFError("closed by the server after %d of %d bytes" % (self.size, self.size_expected))
                self.size += got
                self.sum = zlib.crc32(memoryview(room)[:got], self.sum)
        except (OSError, EOFError) as error:
            self.error = error


class LargeReplyTest(BoundCase):
    def test_clients_that_request_large_values_and_do_not_read(self):
        """All requested values together do not fit into memory, as copies or as references."""
        size, keys, sleepers = size_by_form(4 * MB, 10 * MB, 50 * MB), 12, 20
        server = self.limited(size_by_form(40 * MB, 64 * MB, 200 * MB))
        client = self.client(timeout=120)
        for number in range(keys):
            client.must("SET", "key:%d" % number, value_of(number, size))
        client.must("SET", "small", "here")
        with self.watched(server, largest=(2 + LargeValueTest.MERGED) * size):
            asleep = [Sleeper(self, [(first + step) % keys for step in range(5)], size) for first in range(sleepers)]
            for _ in range(20):
                client.must("PING")
                self.assertEqual(client.must("GET", "small"), b"here")
            threads = [threading.Thread(target=sleeper.read, daemon=True) for sleeper in asleep]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(TOOL_LIMIT_S)
        for sleeper in asleep:
            self.assertEqual((sleeper.size, sleeper.sum, sleeper.error), (sleeper.size_expected, sleeper.sum_expected, None))
        self.nothing_refused()

    @unittest.skipUnless(LONG, "only with KELVIN_LONG")
    def test_replies_of_more_than_4_gib_are_complete(self):
        size, count = 512 * MB, 9
        server = self.limited(0)
        client = self.client(timeout=120)
        client.must("SET", "key:0", value_of(0, size))
        with self.watched(server, ping_limit=5, bound=4 * size):
            sleeper = Sleeper(self, [0] * count, size)
            sleeper.read()
        self.assertEqual((sleeper.size, sleeper.sum, sleeper.error), (sleeper.size_expected, sleeper.sum_expected, None))
        self.assertGreater(sleeper.size, 1 << 32)


if __name__ == "__main__":
    main()
