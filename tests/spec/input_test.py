"""Requests that arrive in pieces, while what a connection reads at once changes with the number of clients.

What is read at once (loop->read_size) is a fourth of the memory for clients, by the number of clients, 4 to 64 KiB.
"""
import os
import random
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                                # noqa: E402
from support.resp import OK, Client, encode                                                         # noqa: E402
from support.server import Server, is_sanitized, port_free, seed_new, until                           # noqa: E402
from support.tls import Authority                                                                   # noqa: E402

KIB, MIB = 1024, 1024 * 1024
SMALL_READ = 16 * KIB           # the room that an idle connection keeps
CLIENTS = 16
SIZES = (0, 1, 100, 3000, 16370, 16384, 20000, 40000, 65530, 65535, 65536, 65540, 70000, 200000)
PIECES = (1, 2, 7, 100, 500, 513, 1000, 4000, 4096, 12000, 16384, 30000, 65536, 100000, 300000)
SECONDS = float(os.environ.get("INPUT_SECONDS") or (8 if is_sanitized() else 4))


@kelvin_only
class ReadSizeTest(ServerCase):
    """The read size becomes just what an idle connection keeps: 1 MiB / 4 / 16 clients."""

    options = {"io-threads": 1}

    def setUp(self):
        super().setUp()
        self.c.must("CONFIG", "SET", "maxmemory-clients", 0)

    def crowd(self, wanted):
        until(lambda: self.connected() <= 2, 20, "the clients of the test before to go")
        while self.connected() < wanted:
            self.client().must("PING")

    def connected(self):
        return self.c.must("CLIENT", "LIST").count(b"\n")

    def send_in_pieces(self, client, data, *ends):
        """Each piece is received before the next one is sent."""
        identity = client.must("CLIENT", "ID")
        begin = 0
        for end in ends:
            client.send(data[begin:end])
            begin = end
            until(lambda end=end: self.received(identity) >= end, 10, "the server to receive %d bytes" % end)
        client.send(data[begin:])

    def received(self, identity):
        line = self.c.must("CLIENT", "LIST", "ID", identity)
        self.assertIn(b" qbuf=", line, "the connection is closed")
        return int(dict(word.split(b"=", 1) for word in line.split())[b"qbuf"])

    def test_a_request_longer_than_one_read(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", MIB)
        client = self.client()
        self.crowd(CLIENTS)
        request = encode(("ECHO", "x" * 60000))
        self.send_in_pieces(client, request, 12000, SMALL_READ, 40000)
        self.assertEqual(client.receive(), b"x" * 60000)

    def test_a_longer_part_was_read_before(self):
        """The query is longer than what is read at once from now on."""
        client = self.client()
        self.crowd(CLIENTS)
        request = encode(("EXISTS", *["k" * 1000] * 300))
        self.send_in_pieces(client, request, 30000)
        self.c.must("CONFIG", "SET", "maxmemory-clients", MIB)
        self.c.must("PING")                 # a turn that begins with the new limit
        client.send(request[30000:])
        self.assertEqual(client.receive(), 0)


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


class Talker:
    """Sends requests in random pieces, and compares each byte that it gets. Its keys are its own."""

    def __init__(self, stress, name, connect):
        self.stress, self.connect = stress, connect
        self.random = random.Random("%d %s" % (stress.seed, name))
        self.name, self.value, self.requests, self.problem = name, b"", 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def data(self):
        size = self.random.choice(SIZES) + self.random.randrange(3)
        return bytes([self.random.randrange(97, 123)]) * size

    def get(self):
        return b"$-1\r\n" if self.value is None else bulk(self.value)

    def set(self):
        self.value = self.data()
        return encode(("SET", "k:" + self.name, self.value))

    def one(self):
        """Returns a request and its reply."""
        data, key, kind = self.data(), "k:" + self.name, self.random.randrange(9)
        if kind == 0:
            return encode(("ECHO", data)), bulk(data)
        if kind == 1:
            return self.set(), b"+OK\r\n"
        if kind == 2:
            return encode(("GET", key)), self.get()
        if kind == 3:
            requests = encode(("MULTI",)) + self.set() + encode(("GET", key)) + encode(("ECHO", data)) + encode(("EXEC",))
            return requests, b"+OK\r\n" + b"+QUEUED\r\n" * 3 + b"*3\r\n+OK\r\n" + self.get() + bulk(data)
        if kind == 4:
            return encode(("BLPOP", "nothing:" + self.name, "0.003")), b"*-1\r\n"
        if kind == 5:
            return encode(("EVAL", "return #ARGV[1] + #ARGV[2]", "0", data, data)), b":%d\r\n" % (2 * len(data))
        if kind == 6:
            return b"PING\r\n" * 50, b"+PONG\r\n" * 50
        if kind == 7:
            other = self.data()
            return encode(("EVAL", "return {ARGV[2], ARGV[1]}", "1", key, data, other)), b"*2\r\n" + bulk(other) + bulk(data)
        return encode(("SETRANGE", key, "0", "")), b":%d\r\n" % len(self.value)

    def pipeline(self, count):
        pairs = [self.one() for _ in range(count)]
        self.requests += count
        return b"".join(pair[0] for pair in pairs), b"".join(pair[1] for pair in pairs)

    def send(self, link, data):
        while data:
            size = self.random.choice(PIECES)
            link.sendall(data[:size])
            data = data[size:]
            if self.random.random() < 0.2:
                time.sleep(self.random.choice((0, 0.001)))

    def exchange(self, link):
        """Two threads write and read, so that neither side can block; one with TLS, for Python's can't be shared."""
        has_tls = isinstance(link, ssl.SSLSocket)
        sent, expected = self.pipeline(1 if has_tls else self.random.choice((1, 1, 2, 5, 30)))
        sender = threading.Thread(target=self.send, args=(link, sent), daemon=True)
        sender.start()
        if has_tls:
            sender.join()
        self.compare(link, expected)
        sender.join()

    def compare(self, link, expected):
        at = 0
        while at < len(expected):
            got = link.recv(min(len(expected) - at, 1 << 16))
            if not got:
                raise AssertionError("the server has closed the connection")
            if got != expected[at:at + len(got)]:
                raise AssertionError("at byte %d: got %r, not %r" % (at, got[:80], expected[at:at + 80]))
            at += len(got)

    def run(self):
        try:
            with self.connect() as link:
                while not self.stress.over.is_set():
                    self.exchange(link)
        except (OSError, AssertionError) as error:
            self.problem = "%s: %s" % (self.name, error)
            self.stress.over.set()


@kelvin_only
class PiecesTest(ServerCase):
    """Each byte of each reply, for requests in random pieces, while clients come and go, all are paused, and keys are demoted."""

    options = {"maxmemory": 16 * MIB, "maxmemory-policy": "noeviction", "io-threads": 2, "appendonly": "yes"}
    idle = 16 * MIB // 2 // 4 // SMALL_READ         # clients, with which the read size is what an idle connection keeps

    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        cls.addClassCleanup(cls.authority.close)
        for name in ("server", "client"):
            cls.authority.issue(name)
        cls.tls_port = port_free()
        cls.options = {**cls.options, **cls.authority.server_options(cls.tls_port)}
        super().setUpClass()

    def plain(self, port=None):
        return socket.create_connection(("127.0.0.1", port or self.server.port), 60)

    def narrow(self):
        """The server reads what the small buffer of the sender lets through."""
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * KIB)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        link.settimeout(60)
        link.connect(("127.0.0.1", self.server.port))
        return link

    def encrypted(self):
        return self.authority.context("client").wrap_socket(self.plain(self.tls_port))

    def disturb(self, rng, crowd, talkers):
        kind = rng.randrange(6)
        if kind < 3:
            wanted = self.idle - len(talkers) - 1 + rng.choice((0, 0, -1, 1, -4, -100))
            while len(crowd) > wanted:
                crowd.pop().close()
            while len(crowd) < wanted:
                crowd.append(Client(("127.0.0.1", self.server.port)))
        elif kind == 3:
            self.c.must("CLIENT", "PAUSE", 3, rng.choice(("ALL", "WRITE")))
        elif kind == 4:
            self.c.must("TIER", "DEMOTE", *["k:" + talker.name for talker in talkers])
        else:
            self.c.must("CONFIG", "SET", "client-output-pending-max", rng.choice((0, "16kb", "1mb")))

    def test_random_pieces(self):
        self.seed, self.over = seed_new(), threading.Event()
        rng, crowd = random.Random(self.seed), []
        talkers = [Talker(self, "%s%d" % (kind.__name__, i), kind) for kind in (self.plain, self.narrow, self.encrypted) for i in range(3)]
        for talker in talkers:
            self.assertEqual(self.c.must("SET", "k:" + talker.name, ""), OK)
            talker.thread.start()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not self.over.is_set() and self.server.alive():
            self.disturb(rng, crowd, talkers)
            time.sleep(0.005)
        self.over.set()
        for talker in talkers:
            talker.thread.join(90)
        for client in crowd:
            client.close()
        self.assertEqual([talker.problem for talker in talkers if talker.problem], [], "seed %d: %s" % (self.seed, self.server.alarm()))
        self.assertTrue(self.server.alive(), "seed %d" % self.seed)
        self.assertEqual([talker.name for talker in talkers if talker.requests == 0 or talker.thread.is_alive()], [], "seed %d" % self.seed)


if __name__ == "__main__":
    main()
