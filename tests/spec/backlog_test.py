"""Pipelined requests and unread replies: the server reads on within a share of memory that all clients have together, there is never a
deadlock, and the input of a waiting client is only read into a small buffer.

KELVIN_LONG and KELVIN_FIGURES: support/bound.py.
"""
import os
import re
import select
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
try:
    import redis
except ImportError:                     # another python than Debian's may be first in PATH
    sys.path.append("/usr/lib/python3/dist-packages")
    import redis
from support.bound import MB, BoundCase, encode, rss_peak, rss_peak_reset, send_until_full, size_by_form, status_kb, value_of   # noqa: E402
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import DELAY, Disk                                                                # noqa: E402
from support.resp import OK, Closed                                                                 # noqa: E402
from support.server import is_redis, is_sanitized, until                                            # noqa: E402

ALONE = True        # tests/run: other programs would delay the PINGs, which may take a second
# The field of INFO that counts clients that were closed because the input of all clients exceeded its share, and the line in the log.
STAT_CLOSED = "evicted_clients"
LOG_CLOSED = rb"Evicting client: [^\n]*addr=%s\b"
SMALL_BUFFER = 256 << 10            # maximum input that is read from a waiting client
BEFORE_AUTH = 16 << 10              # and from an unauthenticated client


class PipelineTest(BoundCase):
    """Clients that write a complete pipeline before they read the first reply."""

    KEYS = 1000

    def setUp(self):
        self.counts = size_by_form((10000,), (10000, 100000), (10000, 100000, 1000000))

    def fill(self, maxmemory, size):
        self.server = self.limited(maxmemory)
        client = self.client()
        replies = client.pipeline(["SET", "key:%d" % number, value_of(number, size)] for number in range(self.KEYS))
        self.assertEqual(set(replies), {OK})

    def redis_py(self, maxmemory, size):
        """GET and SET, in pipelines that redis-py sends with one sendall."""
        self.fill(maxmemory, size)
        values = [value_of(number, size) for number in range(self.KEYS)]
        with redis.Redis(port=self.server.port, socket_timeout=60) as client, self.watched(self.server, ping_limit=3):
            for count in self.counts:
                reads, writes = client.pipeline(transaction=False), client.pipeline(transaction=False)
                for number in range(count):
                    reads.get("key:%d" % (number % self.KEYS))
                    writes.set("more:%d" % (number % (4 * self.KEYS)), values[number % self.KEYS])
                self.assertTrue(all(reply == values[number % self.KEYS] for number, reply in enumerate(reads.execute())))
                self.assertTrue(all(reply is True for reply in writes.execute()))
        self.nothing_refused()

    def test_redis_py_with_small_values(self):
        self.redis_py(size_by_form(64 * MB, 100 * MB, 400 * MB), 16)

    def test_redis_py_with_values_of_1_kb(self):
        self.redis_py(size_by_form(64 * MB, 100 * MB, 400 * MB), 1024)

    def test_redis_py_without_a_limit(self):
        self.redis_py(0, 1024)

    def written_whole(self, maxmemory, count, size, limit=None):
        """Sends `count` GETs in one sendall, then reads the replies: like redis-py, but faster."""
        self.fill(maxmemory, size)
        client = self.client(timeout=60)
        data = b"".join(encode(["GET", "key:%d" % number]) for number in range(self.KEYS)) * (count // self.KEYS)
        expected = b"".join(b"$%d\r\n%b\r\n" % (size, value_of(number, size)) for number in range(self.KEYS))
        with self.watched(self.server, largest=2 * size):
            client.send(data)
            room, at, left = memoryview(bytearray(len(expected))), 0, count // self.KEYS
            while left:
                got = client.socket.recv_into(room[at:])
                if got == 0:
                    raise Closed("the server closed the connection")
                at += got
                if at == len(expected):
                    self.assertTrue(room == expected)
                    at, left = 0, left - 1
        self.nothing_refused()

    def test_replies_of_1_kb_that_are_read_late(self):
        self.written_whole(size_by_form(64 * MB, 64 * MB, 400 * MB), size_by_form(50000, 200000, 1000000), 1024)

    def test_replies_of_16_kb_that_are_read_late(self):
        self.written_whole(size_by_form(64 * MB, 64 * MB, 200 * MB), size_by_form(10000, 50000, 200000), 16384)

    def test_replies_that_are_read_late_without_a_limit(self):
        self.written_whole(0, size_by_form(50000, 100000, 1000000), 1024)


class ShareTest(BoundCase):
    """A client that sends and never reads is closed before it uses the memory of the other clients."""

    @kelvin_only
    def test_the_client_with_the_largest_backlog_is_closed(self):
        size = 10000
        server = self.limited(64 * MB)
        control, greedy, modest = self.client(), self.client(), self.client(timeout=60)
        values = [value_of(number, size) for number in range(500)]
        control.pipeline(["SET", "key:%d" % number, value] for number, value in enumerate(values))
        port = greedy.socket.getsockname()[1]
        before = int(server.info("stats")[STAT_CLOSED])
        requests = b"".join(encode(["GET", "key:%d" % (number % 500)]) for number in range(20000))
        with self.watched(server, largest=2 * size, ping_limit=3):
            modest.send(requests[:len(requests) // 4])      # the server can't store all of its 50 MB of replies either
            sent = self.send_on(greedy, requests, 256 * MB)
            self.assertLess(sent, 256 * MB, "the server read all, and closed no client")
            until(lambda: int(server.info("stats")[STAT_CLOSED]) > before, 20, "INFO's count of clients closed")
            self.assertEqual([modest.receive() for _ in range(5000)], [values[number % 500] for number in range(5000)])
            self.assertEqual(control.must("GET", "key:1"), values[1])
        self.assertEqual(int(server.info("stats")[STAT_CLOSED]), before + 1)
        self.assertRegex(server.log_new(), LOG_CLOSED % (b"127.0.0.1:%d" % port))
        self.nothing_refused()

    def send_on(self, client, requests, most):
        """Sends until the server closes the connection, reads nothing for ten seconds, or `most` bytes were sent."""
        sent = 0
        client.socket.settimeout(10)
        try:
            while sent < most and self.server.alive():
                sent += client.socket.send(requests[sent % len(requests):])
        except (ConnectionError, TimeoutError):
            pass
        return sent


class WaitingTest(BoundCase):
    """Clients that wait and continue to write: their socket buffers fill up, but not the memory of the server."""

    CLIENTS = 8
    MOST = 16 * MB
    PAYLOAD = b"x" * 1000

    def setUp(self):
        self.disk = None
        self.maxmemory = 0

    def begin(self, options=None, maxmemory=0):
        """Starts a server; with `options`, its disk can be slowed down."""
        if options is None:
            return self.limited(maxmemory)
        server = self.limited(maxmemory, options, start=False)
        self.disk = Disk(server.folder)
        self.addCleanup(self.disk.remove)
        server.environment = self.disk.environment
        server.start()
        return server

    def wait_and_write(self, server, first, wake, answers=1):
        """`first(number)`: the request for which client `number` waits; `wake()` ends the wait. Meanwhile the clients write SETs of 1 KB."""
        control = self.client(timeout=60)
        clients = [server.client(timeout=60) for _ in range(self.CLIENTS)]
        for client in clients:
            self.addCleanup(client.close)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)     # these bytes are in the server's socket buffer or in the server
        rss_peak_reset(server.process.pid)
        rss_before = status_kb(server.process.pid, "VmRSS") << 10
        data = [b"".join(encode(["SET", "client:%d" % number, b"%08d" % index + self.PAYLOAD]) for index in range(self.MOST // 1050))
                for number in range(self.CLIENTS)]
        sent = [0] * self.CLIENTS

        def write(number):
            clients[number].send(first(number))
            sent[number] = send_until_full(clients[number], data[number], 1.0)
        threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        ports = [client.socket.getsockname()[1] for client in clients]
        listed = control.must("CLIENT", "LIST").decode()
        buffers = [int(re.search(r"addr=127.0.0.1:%d .* qbuf=(\d+)" % port, listed).group(1)) for port in ports]
        grown = rss_peak(server.process.pid) - rss_before
        if os.environ.get("KELVIN_FIGURES"):
            print("%s: RSS grew by %.1f MB, query buffers %.0f KB at most, taken from a client %.1f MB at most" % (
                self.id().split(".", 1)[-1], grown / MB, max(buffers) / 1024, max(sent) / MB), file=sys.stderr)
        served = select.select([client.socket for client in clients], [], [], 0)[0]
        waiting = [number for number, client in enumerate(clients) if client.socket not in served]
        self.assertGreater(len(waiting), self.CLIENTS // 2, "waiting clients")
        wake()
        # The requests that were sent, including the one that was sent in part, run in order.
        for number, client in enumerate(clients):
            size = len(data[number]) // (self.MOST // 1050)
            count = -(-sent[number] // size)
            replies = client.exchange(data[number][sent[number]:count * size], count + answers)
            self.assertEqual(replies[answers:], [OK] * count)
            if count:
                self.assertEqual(control.must("GET", "client:%d" % number), b"%08d" % (count - 1) + self.PAYLOAD)
        if not is_redis():
            self.assertLessEqual(max(buffers), SMALL_BUFFER, "bytes in the query buffer of a client that waits")
            self.assertLess(max(sent[number] for number in waiting), self.MOST // 2, "bytes taken from a client that waits")
            if not is_sanitized():
                self.assertLess(grown / MB, 2 * self.CLIENTS * SMALL_BUFFER / MB + 4, "MB of RSS")

    def test_blpop(self):
        server = self.begin()
        control = self.client()

        def wake():
            for number in range(self.CLIENTS):
                control.must("RPUSH", "list:%d" % number, "element")
        self.wait_and_write(server, lambda number: encode(["BLPOP", "list:%d" % number, 0]), wake)

    def test_xread(self):
        server = self.begin()
        control = self.client()

        def wake():
            for number in range(self.CLIENTS):
                control.must("XADD", "stream:%d" % number, "*", "field", "value")
        self.wait_and_write(server, lambda number: encode(["XREAD", "BLOCK", 0, "STREAMS", "stream:%d" % number, "$"]), wake)

    def test_client_pause(self):
        server = self.begin()
        control = self.client()
        control.must("CLIENT", "PAUSE", 100000, "WRITE")
        self.wait_and_write(server, lambda number: b"", lambda: control.must("CLIENT", "UNPAUSE"), answers=0)

    @kelvin_only
    def test_clients_that_wait_for_a_load(self):
        """Cold keys in tables on a disk that needs four seconds for a read."""
        server = self.begin({"appendonly": "yes", "tier-warmup": "no", "tier-block-cache": 0})
        control = self.client()
        control.pipeline(["SET", "key:%d" % number, value_of(number, 3000)] for number in range(3000))
        control.must("BGREWRITEAOF")
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the end of BGREWRITEAOF")
        server.restart()
        control = self.client()
        keys = [number for number in range(3000) if control.must("TIER", "WHERE", "key:%d" % number) == b"cold"][::200]
        self.assertGreaterEqual(len(keys), self.CLIENTS)
        self.disk.rule(0, "read", "*", DELAY, delay_us=4000000)
        started = time.monotonic()

        def wake():
            self.assertLess(time.monotonic() - started, 4, "so the clients no longer wait")
            self.disk.heal()
        self.wait_and_write(server, lambda number: encode(["GET", "key:%d" % keys[number]]), wake)

    @kelvin_only
    def test_clients_that_wait_for_memory_on_a_slow_disk(self):
        """Writers that always wait for demotion; no command is refused."""
        server = self.begin({}, 48 * MB)
        self.disk.rule(0, "write", "store/*", DELAY, delay_us=10000)
        count = size_by_form(2000, 10000, 50000)
        data = [b"".join(encode(["SET", "client:%d:%d" % (number, index), value_of(index, 1000)]) for index in range(count))
                for number in range(self.CLIENTS)]
        failures = []

        def write(number):
            try:
                with server.client(timeout=60) as client:
                    replies = client.exchange(data[number], count)
                    if replies != [OK] * count:
                        failures.append([reply for reply in replies if reply != OK][:3])
            except OSError as error:
                failures.append(error)
        threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(self.CLIENTS)]
        with self.watched(server, largest=2000):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(100)
            self.assertEqual(failures, [])
        self.disk.heal()
        self.assertEqual(self.client(timeout=60).must("DBSIZE"), count * self.CLIENTS)
        self.nothing_refused()


class BeforeAuthTest(BoundCase):
    def begin(self):
        server = self.limited(0, {"requirepass": "secret", "maxclients": 4000})
        with server.client() as client:
            client.must("AUTH", "secret")
            rss_peak_reset(server.process.pid)
        return server, status_kb(server.process.pid, "VmRSS") << 10

    @kelvin_only
    def test_a_partial_request_of_more_than_16_kib_closes_the_connection(self):
        """Nine arguments, each of which Redis would accept; and a line without an end."""
        server, _ = self.begin()
        for data in (b"*9\r\n" + b"$16000\r\n" + b"x" * 16000 + b"\r\n$16000\r\n" + b"x" * 16000, b"x" * (3 * BEFORE_AUTH)):
            with server.client(timeout=10) as client:
                client.send(data)
                said, closed = client.raw(1)
                self.assertTrue(closed, (data[:20], said))
                self.assertRegex(said, rb"^-ERR Protocol error: (unauthenticated|too big) ")

    def test_an_argument_of_more_than_16_kib_closes_the_connection(self):
        server, _ = self.begin()
        for data, error in ((b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", b"-ERR Protocol error: unauthenticated bulk length\r\n"),
                            (b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n")):
            with server.client(timeout=10) as client:
                client.send(data)
                self.assertEqual(client.raw(1), (error, True))

    def test_smaller_requests_may_be_sent_in_pieces(self):
        server, _ = self.begin()
        with server.client(timeout=10) as client:
            client.send(b"*2\r\n$4\r\nAUTH\r\n$16000\r\n" + b"x" * 8000)
            client.send(b"x" * 8000 + b"\r\n")
            self.assertIn(b"WRONGPASS", client.receive())
            client.must("AUTH", "secret")
            client.must("SET", "key", b"y" * 100000)

    def test_a_thousand_connections_with_partial_requests_use_little_memory(self):
        server, before = self.begin()
        clients = []
        try:
            for number in range(1000):
                client = server.client(timeout=30)
                clients.append(client)
                # Half of them exceed the limit.
                head = b"*2\r\n$4\r\nAUTH\r\n$16000\r\n" if number % 2 or is_redis() else b"*9\r\n" + (b"$16000\r\n" + b"x" * 16000 + b"\r\n") * 8
                try:
                    client.send(head + b"x" * 15000)
                except ConnectionError:
                    pass
            with server.client() as control:
                control.must("AUTH", "secret")
                control.must("PING")
            grown = rss_peak(server.process.pid) - before
        finally:
            for client in clients:
                client.close()
        if os.environ.get("KELVIN_FIGURES"):
            print("%s: RSS grew by %.1f MB" % (self.id().split(".", 1)[-1], grown / MB), file=sys.stderr)
        if not is_sanitized() and not is_redis():
            self.assertLess(grown / MB, 55, "MB")            # 12 to 44 were seen; 81 before the limit


if __name__ == "__main__":
    main()
