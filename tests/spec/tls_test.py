"""TLS: clients, certificates, records that are cut, slow readers, handshakes that stall, and changes of the configuration."""
import hashlib
import os
import random
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Closed, Error, Status, encode                                          # noqa: E402
from support.server import Server, is_redis, is_sanitized, port_free, redis_tool, scaled, until    # noqa: E402
from support.tls import Authority, RawClient, TlsClient, random_cuts, single_bytes, whole                      # noqa: E402

PONG = Status(b"PONG")
NOT_UPDATED = "ERR CONFIG SET failed (possibly related to argument '%s') - Unable to update TLS configuration. Check server logs."


class TlsCase(unittest.TestCase):
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.authority = Authority()
        cls.addClassCleanup(cls.authority.close)
        cls.authority.issue("server")
        cls.authority.issue("client")
        cls.server = Server({**cls.options, **cls.tls_options()})
        cls.addClassCleanup(lambda: cls.server.stop())

    @classmethod
    def tls_options(cls):
        cls.port = port_free()
        return cls.authority.server_options(cls.port)

    def setUp(self):
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        self.c.must("FLUSHALL")

    def tls(self, cut=whole, name="client", **options):
        context = options.pop("context", None) or self.authority.context(name)
        client = TlsClient(self.port, context, cut, 60 if is_sanitized() else 20, **options)
        self.addCleanup(client.close)
        return client

    def refused(self, **options):
        """The server refuses this client. With TLS 1.3 the client may learn of it after its own part of the handshake."""
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            client = self.tls(handshake=False, **options)
            client.handshake()
            client.call("PING")

    def set(self, *args):
        """CONFIG SET; restored after the test, the last one first."""
        before = [self.c.must("CONFIG", "GET", name)[1] for name in args[::2]]
        reply = self.c.call("CONFIG", "SET", *args)
        if reply == OK:
            self.addCleanup(lambda: self.c.must("CONFIG", "SET", *sum(([n, v] for n, v in zip(args[::2], before)), [])))
        return reply


class ClientsTest(TlsCase):
    def run_program(self, *args, status=0):
        done = subprocess.run([*args], capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.decode()

    def test_redis_cli(self):
        cli = [redis_tool("redis-cli"), "-p", str(self.port), *self.authority.cli_options()]
        self.assertEqual(self.run_program(*cli, "SET", "k", "v"), "OK\n")
        self.assertEqual(self.run_program(*cli, "GET", "k"), "v\n")

    def test_redis_benchmark(self):
        out = self.run_program(redis_tool("redis-benchmark"), "-p", str(self.port), *self.authority.cli_options(), "-n", "2000", "-P", "16", "-t", "set,get",
                               "--csv")
        self.assertIn('"GET"', out)

    def test_redis_py(self):
        import redis
        client = redis.Redis(port=self.port, ssl=True, ssl_certfile=self.authority.path("client.crt"),
                             ssl_keyfile=self.authority.path("client.key"), ssl_ca_certs=self.authority.path("ca.crt"))
        self.assertTrue(client.set("k", b"x" * 200000))
        self.assertEqual(client.get("k"), b"x" * 200000)
        client.close()

    def test_a_socket_of_python(self):
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            with self.authority.context().wrap_socket(plain) as stream:
                stream.sendall(encode(["ECHO", "x" * 100000]))
                got = b""
                while len(got) < 100000 + 11:
                    got += stream.recv(1 << 16)
                self.assertEqual(got, b"$100000\r\n" + b"x" * 100000 + b"\r\n")

    def test_both_ports_have_the_same_data(self):
        with self.tls() as client:
            self.assertEqual(client.call("SET", "k", "v"), OK)
        self.assertEqual(self.c.must("GET", "k"), b"v")

    def test_what_it_is_called(self):
        with self.tls() as client:
            self.assertIn(b"laddr=127.0.0.1:%d " % self.port, client.call("CLIENT", "INFO"))
        if not is_redis():
            info = self.server.info("server")
            self.assertEqual(info["listener0"], "name=tcp,bind=127.0.0.1,port=%d" % self.server.port)
            self.assertEqual(info["listener1"], "name=tls,bind=127.0.0.1,port=%d" % self.port)

    def test_clear_text_is_not_replied_to_in_clear_text(self):
        for text in (b"PING\r\n", encode(["PING"]), b"\x16\x03\x01" + b"\xff" * 200, b"\0" * 100):
            with socket.create_connection(("127.0.0.1", self.port)) as plain:
                plain.sendall(text)
                plain.settimeout(10)
                got = b""
                try:
                    while data := plain.recv(1 << 16):
                        got += data
                except ConnectionError:
                    pass
                self.assertNotIn(b"-ERR", got)
                self.assertNotIn(b"PONG", got)
        self.assertEqual(self.c.must("PING"), PONG)

    def test_too_many_clients_are_closed_without_a_text(self):
        self.assertEqual(self.set("maxclients", "3"), OK)
        held = [self.tls(), self.tls()]
        before = int(self.server_stat("rejected_connections"))
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            plain.settimeout(10)
            try:
                self.assertEqual(plain.recv(100), b"")
            except ConnectionResetError:
                pass
        self.assertEqual(int(self.server_stat("rejected_connections")), before + 1)
        self.assertEqual(held[0].call("PING"), PONG)

    def server_stat(self, name):
        text = self.c.must("INFO", "stats").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)[name]

    def test_reset_and_quit(self):
        with self.tls() as client:
            self.assertEqual(client.call("RESET"), Status(b"RESET"))
            self.assertEqual(client.call("QUIT"), OK)
            self.assertEqual(client.read(), b"")                        # close_notify, not only the end of the connection

    def test_a_client_that_is_killed(self):
        with self.tls() as client:
            number = client.call("CLIENT", "ID")
            self.assertEqual(self.c.must("CLIENT", "KILL", "ID", str(number)), 1)
            self.assertTrue(client.is_closed())

    def test_messages(self):
        with self.tls() as client:
            client.call("SUBSCRIBE", "c")
            for number in range(100):
                self.c.must("PUBLISH", "c", "m%d" % number)
            for number in range(100):
                self.assertEqual(client.receive(), [b"message", b"c", b"m%d" % number])


class CutTest(TlsCase):
    """Records arrive in parts, at any boundary, and several at once."""

    def test_every_byte_alone(self):
        with self.tls(single_bytes) as client:
            for size in (0, 1, 100, 5000):
                self.assertEqual(client.call("SET", "k", "x" * size), OK)
                self.assertEqual(client.call("GET", "k"), b"x" * size)

    def test_random_cuts(self):
        seed = random.randrange(1 << 30)
        with self.tls(random_cuts(seed)) as client:
            rng = random.Random(seed)
            for _ in range(scaled(50)):
                values = [b"v" * rng.choice((1, 10, 1000, 20000, 70000)) for _ in range(rng.randrange(1, 20))]
                client.send(b"".join(encode(["ECHO", value]) for value in values))
                for value in values:
                    self.assertEqual(client.receive(), value, "seed %d" % seed)

    def test_one_record_has_many_requests_and_one_request_many_records(self):
        with self.tls() as client:
            client.send(encode(["PING"]) * 1000)
            self.assertEqual([client.receive() for _ in range(1000)], [PONG] * 1000)
            for byte in encode(["ECHO", "hello"]):
                client.send(bytes([byte]))
            self.assertEqual(client.receive(), b"hello")

    def test_more_than_a_visit_runs(self):
        with self.tls() as client:
            client.send(encode(["PING"]) * 20000)
            for _ in range(20000):
                self.assertEqual(client.receive(), PONG)

    @kelvin_only
    def test_cold_keys_with_requests_after_them(self):
        """The client waits for a record while more ciphertext has been read than was decrypted: nothing may be forgotten."""
        seed = random.randrange(1 << 30)
        names = ["k%d" % number for number in range(200)]
        for cut in (whole, random_cuts(seed)):
            for name in names:
                self.c.must("SET", name, name * 500)
            self.c.must("TIER", "DEMOTE", *names)
            with self.tls(cut) as client:
                client.send(b"".join(encode(["GET", name]) + encode(["ECHO", "e" + name]) for name in names))
                for name in names:
                    self.assertEqual(client.receive(), name.encode() * 500, "seed %d" % seed)
                    self.assertEqual(client.receive(), b"e" + name.encode(), "seed %d" % seed)

    def test_a_client_that_blocks_with_requests_after_it(self):
        with self.tls() as client:
            client.send(encode(["BLPOP", "list", "0"]) + encode(["ECHO", "x" * 30000]) * 40)
            until(lambda: b"cmd=blpop" in self.c.must("CLIENT", "LIST"), what="the client waits")
            self.c.must("RPUSH", "list", "element")
            self.assertEqual(client.receive(), [b"list", b"element"])
            for _ in range(40):
                self.assertEqual(client.receive(), b"x" * 30000)

    def test_large_values_in_and_out(self):
        rng = random.Random(1)
        value = rng.randbytes(5 * 1000 * 1000)
        with self.tls(random_cuts(1) if not is_sanitized() else whole) as client:
            self.assertEqual(client.call("SET", "k", value), OK)
            self.assertEqual(client.call("GET", "k"), value)
        self.assertEqual(self.c.must("GET", "k"), value)


class OutputTest(TlsCase):
    def test_a_slow_reader_gets_all_and_delays_no_other(self):
        size, count = 5 * 1000 * 1000, scaled(20)
        value = random.Random(2).randbytes(size)
        self.c.must("SET", "k", value)
        with self.tls() as slow, self.tls() as other:
            slow.send(encode(["GET", "k"]) * count)
            time.sleep(0.2)
            for _ in range(20):
                self.assertEqual(other.call("PING"), PONG)
            wanted, got = hashlib.sha256(), hashlib.sha256()
            for _ in range(count):
                wanted.update(b"$%d\r\n%s\r\n" % (size, value))
            left, reads = count * (size + len("$%d\r\n\r\n" % size)), 0
            while left > 0:
                data = slow.read()
                self.assertTrue(data, "%d bytes are missing" % left)
                got.update(data)
                left -= len(data)
                reads += 1
                if reads % 500 == 0:
                    self.assertEqual(other.call("PING"), PONG)
            self.assertEqual(left, 0)
            self.assertEqual(got.digest(), wanted.digest())
            self.assertEqual(slow.call("PING"), PONG)

    def test_output_that_is_not_read_counts_and_is_limited(self):
        self.assertEqual(self.set("client-output-buffer-limit", "pubsub 1mb 0 0"), OK)
        with self.tls() as client:
            client.call("SUBSCRIBE", "c")
            for _ in range(200):
                self.c.must("PUBLISH", "c", "x" * 100000)
            self.assertEqual(self.c.must("PUBLISH", "c", "x"), 0)
            # What was encrypted before the end is complete: no damaged record.
            with self.assertRaises((Closed, ConnectionError)):
                while True:
                    client.receive()

    def test_the_end_comes_after_the_replies(self):
        value = b"x" * 3000000
        self.c.must("SET", "k", value)
        with self.tls() as client:
            client.send(encode(["GET", "k"]) + encode(["QUIT"]))
            self.assertEqual(client.receive(), value)
            self.assertEqual(client.receive(), OK)
            self.assertEqual(client.read(), b"")


class HalfClosedTest(TlsCase):
    """A client that has sent close_notify still gets its replies."""

    def replies_after_the_end(self, requests):
        with self.tls() as client:
            client.send(requests)
            client.end()
            got = b""
            while data := client.read():
                got += data
            return got

    @kelvin_only
    def test_cold_keys_are_replied(self):
        names = ["k%d" % number for number in range(1000)]
        self.c.must("MSET", *sum(([name, name] for name in names), []))
        self.c.must("TIER", "DEMOTE", *names)
        wanted = b"".join(b"$%d\r\n%s\r\n" % (len(name), name.encode()) for name in names)
        self.assertEqual(self.replies_after_the_end(b"".join(encode(["GET", name]) for name in names)), wanted)

    @kelvin_only
    def test_more_than_a_visit_is_replied(self):
        self.assertEqual(self.replies_after_the_end(encode(["PING"]) * 20000), b"+PONG\r\n" * 20000)

    @kelvin_only
    def test_a_client_that_waits_for_a_key_is_gone(self):
        self.assertEqual(self.replies_after_the_end(encode(["BLPOP", "nothing", "0"])), b"")

    def test_the_end_of_the_connection_without_close_notify(self):
        before = int(self.server.info("clients")["connected_clients"])
        client = self.tls()
        client.call("PING")
        client.close()
        until(lambda: int(self.server.info("clients")["connected_clients"]) <= before, what="the client is gone")


@kelvin_only
class HandshakeTest(TlsCase):
    def hello(self):
        outgoing = ssl.MemoryBIO()
        tls = self.authority.context().wrap_bio(ssl.MemoryBIO(), outgoing)
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def test_one_that_stalls_is_closed_after_its_time(self):
        hello = self.hello()
        stalled = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(3)]
        for stream, data in zip(stalled, (b"", hello[:50], hello)):         # nothing, a part, and no word after the server's
            stream.sendall(data)
            self.addCleanup(stream.close)
        began = time.monotonic()
        with self.tls() as client:
            until(lambda: client.call("PING") == PONG and b"the handshake has taken too long" in self.server.log(), 30, "its log line")
            for stream in stalled:
                stream.settimeout(10)
                while stream.recv(1 << 16):
                    pass
            self.assertGreater(time.monotonic() - began, 8)
            self.assertEqual(client.call("PING"), PONG)         # what counts is the handshake, not the connection's age

    def test_many_handshakes_at_once_leave_clients_served(self):
        """Each hello costs the server a signature. In between it serves the others."""
        hello, ratios = self.hello(), []
        with self.tls() as client:
            for _ in range(3):
                streams = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(300)]
                began = time.monotonic()
                for stream in streams:
                    stream.sendall(hello)
                for _ in range(5):
                    self.assertEqual(client.call("PING"), PONG)
                served = time.monotonic() - began
                for stream in streams:
                    stream.settimeout(60)
                    self.assertTrue(stream.recv(1))
                ratios.append(served / (time.monotonic() - began))
                for stream in streams:
                    stream.close()
        self.assertLess(min(ratios), 0.4, ratios)
        until(lambda: int(self.server.info("clients")["connected_clients"]) <= 3, 60, "the storm's connections are closed")
        self.assertLess(self.server.log().count(b"Error accepting a client connection"), 40)    # one a second at most for each worker

    def test_only_what_is_complete_counts_as_a_connection(self):
        before = int(self.server.info("stats")["total_connections_received"])
        with socket.create_connection(("127.0.0.1", self.port)) as stream:
            stream.sendall(self.hello()[:20])
        with self.tls() as client:
            client.call("PING")
        self.assertEqual(int(self.server.info("stats")["total_connections_received"]), before + 2)      # this one, and info's own

    def test_key_updates(self):
        """`openssl s_client` sends one for each line K and asks for one back."""
        process = subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % self.port, "-tls1_3", "-cert",
                                    self.authority.path("client.crt"), "-key", self.authority.path("client.key"), "-CAfile",
                                    self.authority.path("ca.crt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        out = b""

        def line(text, wanted):
            nonlocal out
            process.stdin.write(text)
            process.stdin.flush()
            deadline = time.monotonic() + 20
            while out.count(wanted[0]) < wanted[1]:
                self.assertTrue(select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0], out[-500:])
                data = os.read(process.stdout.fileno(), 65536)
                self.assertTrue(data, out[-500:])
                out += data

        line(b"", (b"read R BLOCK", 1))
        for number in range(1, 6):
            line(b"PING\n", (b"+PONG", number))
            line(b"K\n", (b"KEYUPDATE", number))
        self.c.must("SET", "k", "x" * 100000)
        line(b"GET k\n", (b"x" * 1000, 90))

    def test_key_updates_of_a_client_that_does_not_read(self):
        """The server's own updates come in order with the replies, and it stops reading before they take much memory."""
        with RawClient(self.port, self.authority) as client:
            for _ in range(2):
                self.c.must("SET", "k", "x" * 200000)
                client.send(encode(["GET", "k"]) * 20)
                for _ in range(1000):
                    client.update_key()
                client.send(encode(["ECHO", "end"]))
                self.assertEqual(client.read(20 * 200011 + 9)[-9:], b"$3\r\nend\r\n")
            # Only updates, without an end: the connection is not read any more, and others are served.
            client.socket.settimeout(2)
            with self.assertRaises(TimeoutError):
                for _ in range(1000):
                    for _ in range(1000):
                        client.update_key(False)
                    client.push()
            self.assertEqual(self.c.must("PING"), PONG)
            lines = [line for line in self.c.must("CLIENT", "LIST").split(b"\n") if b"laddr=127.0.0.1:%d " % self.port in line]
            self.assertEqual(len(lines), 1)
            self.assertLess(int(lines[0].split(b"tot-mem=")[1].split()[0]), 2000000)


@kelvin_only
class SessionTest(TlsCase):
    options = {"io-threads": "4"}

    def resumed(self, version):
        """How many of 8 connections, which go to different workers, resume the session of the one before."""
        context = self.authority.context()
        context.minimum_version = context.maximum_version = version
        session, count = None, 0
        for _ in range(8):
            with self.tls(context=context, session=session) as client:
                self.assertEqual(client.call("PING"), PONG)
                count += client.tls.session_reused
                session = client.tls.session
        return count

    def test_sessions_are_resumed_at_every_worker(self):
        self.assertEqual(self.resumed(ssl.TLSVersion.TLSv1_3), 7)
        self.assertEqual(self.resumed(ssl.TLSVersion.TLSv1_2), 7)

    def test_no_session_is_resumed_without_caching(self):
        self.assertEqual(self.set("tls-session-caching", "no"), OK)
        self.assertEqual(self.resumed(ssl.TLSVersion.TLSv1_3), 0)
        self.assertEqual(self.resumed(ssl.TLSVersion.TLSv1_2), 0)

    def test_many_clients_at_all_workers(self):
        def work(index):
            try:
                with TlsClient(self.port, self.authority.context(), random_cuts(index), 60) as client:
                    for number in range(scaled(100)):
                        name = "k%d:%d" % (index, number)
                        client.send(encode(["SET", name, name]) + encode(["GET", name]) + encode(["PUBLISH", "c", name]))
                        if [client.receive() for _ in range(3)] != [OK, name.encode(), 0]:
                            raise AssertionError(name)
                done.append(index)
            except Exception as error:                          # noqa: B902: any failure of the thread is one of the test
                failures.append(repr(error))

        done, failures = [], []
        threads = [threading.Thread(target=work, args=(index,)) for index in range(12)]
        for thread in threads:
            thread.start()
        for _ in range(5):                                      # meanwhile new contexts are made
            self.c.must("CONFIG", "SET", "tls-cert-file", self.authority.path("server.crt"))
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(done), 12)


class ConfigurationTest(TlsCase):
    """CONFIG SET of the directives, with the texts of Redis."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.authority.issue("other")
        cls.authority.issue("locked", password="secret")
        cls.authority.issue("curve", bits=0)
        cls.stranger = Authority()
        cls.addClassCleanup(cls.stranger.close)
        cls.stranger.issue("client")

    def not_updated(self, *args):
        reply = self.c.call("CONFIG", "SET", *args)
        self.assertIsInstance(reply, Error)
        self.assertEqual(bytes(reply).decode(), NOT_UPDATED % args[0])

    def certificate(self, client=None):
        return (client or self.tls()).tls.getpeercert()["subject"][0][0][1]

    def test_a_new_certificate_is_for_new_clients(self):
        old = self.tls()
        self.assertEqual(self.certificate(old), "server")
        path = self.authority.path
        self.assertEqual(self.set("tls-cert-file", path("other.crt"), "tls-key-file", path("other.key")), OK)
        self.assertEqual(self.certificate(), "other")
        self.assertEqual(old.call("PING"), PONG)
        self.assertEqual(self.set("tls-cert-file", path("curve.crt"), "tls-key-file", path("curve.key")), OK)
        self.assertEqual(self.certificate(), "curve")
        self.assertEqual(old.call("ECHO", "x" * 100000), b"x" * 100000)

    def test_wrong_files_change_nothing(self):
        path = self.authority.path
        with open(path("garbage"), "wb") as file:
            file.write(b"-----BEGIN CERTIFICATE-----\nnonsense\n")
        for args in (("tls-cert-file", path("missing")), ("tls-cert-file", ""), ("tls-cert-file", path("garbage")),
                     ("tls-key-file", path("other.key")), ("tls-key-file", path("locked.key")), ("tls-ca-cert-file", path("missing")),
                     ("tls-ca-cert-file", path("garbage")), ("tls-ca-cert-file", ""), ("tls-dh-params-file", path("missing")),
                     ("tls-dh-params-file", path("garbage")), ("tls-protocols", "TLSv1.2 SSLv3"), ("tls-ciphers", "nonsense"),
                     ("tls-ciphersuites", "nonsense"), ("tls-cert-file", path("other.crt"), "tls-key-file", path("server.key"))):
            with self.subTest(args=args):
                before = self.c.must("CONFIG", "GET", args[0])
                self.not_updated(*args)
                self.assertEqual(self.c.must("CONFIG", "GET", args[0]), before)
                self.assertEqual(self.certificate(), "server")

    def test_the_same_name_reads_the_file_again(self):
        path = self.authority.path
        self.authority.issue("renewed")
        self.assertEqual(self.set("tls-cert-file", path("renewed.crt"), "tls-key-file", path("renewed.key")), OK)
        for kind in (".crt", ".key"):
            os.replace(path("other" + kind), path("renewed" + kind))
        self.assertEqual(self.certificate(), "renewed")
        self.assertEqual(self.c.call("CONFIG", "SET", "tls-cert-file", path("renewed.crt"), "tls-key-file", path("renewed.key")), OK)
        self.assertEqual(self.certificate(), "other")
        self.authority.issue("other")

    def test_a_key_with_a_password(self):
        path = self.authority.path
        names = ("tls-cert-file", path("locked.crt"), "tls-key-file", path("locked.key"), "tls-key-file-pass")
        self.not_updated(*names, "wrong")
        self.assertEqual(self.set(*names, "secret"), OK)
        self.assertEqual(self.certificate(), "locked")

    def test_which_clients_need_a_certificate(self):
        strange = self.authority.context(None)
        strange.load_cert_chain(self.stranger.path("client.crt"), self.stranger.path("client.key"))
        self.refused(name=None)
        self.refused(context=strange)
        self.assertEqual(self.set("tls-auth-clients", "optional"), OK)
        self.assertEqual(self.tls(name=None).call("PING"), PONG)
        self.assertEqual(self.tls().call("PING"), PONG)
        self.refused(context=strange)
        self.assertEqual(self.set("tls-auth-clients", "no"), OK)
        self.assertEqual(self.tls(name=None).call("PING"), PONG)
        self.assertEqual(self.tls(context=strange).call("PING"), PONG)

    def test_authorities_of_a_directory(self):
        folder = self.authority.path("cas")
        os.makedirs(folder, exist_ok=True)
        name = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", self.authority.path("ca.crt")], capture_output=True,
                              check=True).stdout.decode().strip()
        if not os.path.exists(os.path.join(folder, name + ".0")):
            os.symlink(self.authority.path("ca.crt"), os.path.join(folder, name + ".0"))
        self.assertEqual(self.set("tls-ca-cert-dir", folder, "tls-ca-cert-file", ""), OK)
        self.assertEqual(self.tls().call("PING"), PONG)
        self.refused(name=None)

    def context_of(self, version=None, ciphers=None):
        context = self.authority.context()
        if version:
            context.minimum_version = context.maximum_version = version
        if ciphers:
            context.set_ciphers(ciphers)
        return context

    def test_protocols(self):
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        for text, good, bad in (("TLSv1.2", old, new), ("tlsv1.3", new, old)):
            self.assertEqual(self.set("tls-protocols", text), OK)
            with self.tls(context=self.context_of(good)) as client:
                self.assertEqual(client.call("PING"), PONG)
            self.refused(context=self.context_of(bad))
        self.assertEqual(self.set("tls-protocols", ""), OK)
        for version in (old, new):
            self.assertEqual(self.tls(context=self.context_of(version)).call("PING"), PONG)

    def test_ciphers(self):
        old, new = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
        wanted = "ECDHE-RSA-AES256-GCM-SHA384"
        self.assertEqual(self.set("tls-ciphers", wanted, "tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"), OK)
        self.assertEqual(self.tls(context=self.context_of(old)).tls.cipher()[0], wanted)
        self.refused(context=self.context_of(old, "ECDHE-RSA-AES128-GCM-SHA256"))
        self.assertEqual(self.tls(context=self.context_of(new)).tls.cipher()[0], "TLS_CHACHA20_POLY1305_SHA256")

    def test_whose_order_of_ciphers(self):
        first, second = "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"
        context = self.context_of(ssl.TLSVersion.TLSv1_2, first + ":" + second)
        self.assertEqual(self.set("tls-ciphers", second + ":" + first), OK)
        self.assertEqual(self.tls(context=context).tls.cipher()[0], first)
        self.assertEqual(self.set("tls-prefer-server-ciphers", "yes"), OK)
        self.assertEqual(self.tls(context=context).tls.cipher()[0], second)

    def test_parameters_for_diffie_hellman(self):
        subprocess.run(["openssl", "dhparam", "-dsaparam", "-out", self.authority.path("dh.pem"), "2048"], capture_output=True, check=True)
        self.assertEqual(self.set("tls-dh-params-file", self.authority.path("dh.pem"), "tls-ciphers", "DHE-RSA-AES256-GCM-SHA384"), OK)
        context = self.context_of(ssl.TLSVersion.TLSv1_2, "DHE-RSA-AES256-GCM-SHA384")
        self.assertEqual(self.tls(context=context).tls.cipher()[0], "DHE-RSA-AES256-GCM-SHA384")


class PortTest(unittest.TestCase):
    """The port for TLS is opened and closed while the server runs, alone or with others."""

    def setUp(self):
        self.authority = Authority()
        self.addCleanup(self.authority.close)
        self.authority.issue("server")
        self.authority.issue("client")

    def ping(self, port):
        with TlsClient(port, self.authority.context()) as client:
            return client.call("PING")

    def test_it_is_opened_and_moved_and_closed(self):
        with Server() as server, server.client() as client:
            first, second = port_free(), port_free()
            reply = client.call("CONFIG", "SET", "tls-port", str(first))
            self.assertEqual(bytes(reply).decode(), NOT_UPDATED % "tls-port")
            options = self.authority.server_options(first)
            self.assertEqual(client.call("CONFIG", "SET", *[str(word) for pair in options.items() for word in pair]), OK)
            self.assertEqual(self.ping(first), PONG)
            held = TlsClient(first, self.authority.context())
            self.addCleanup(held.close)
            self.assertEqual(client.call("CONFIG", "SET", "tls-port", str(second)), OK)
            self.assertEqual(self.ping(second), PONG)
            with self.assertRaises(ConnectionRefusedError):
                self.ping(first)
            self.assertEqual(client.call("CONFIG", "SET", "tls-port", "0"), OK)
            with self.assertRaises(ConnectionRefusedError):
                self.ping(second)
            self.assertEqual(held.call("PING"), PONG)

    def test_the_port_without_tls_may_be_0(self):
        port = port_free()
        with Server(self.authority.server_options(port)) as server:
            with TlsClient(port, self.authority.context()) as client:
                self.assertEqual(client.call("CONFIG", "SET", "port", "0"), OK)
                with self.assertRaises(ConnectionRefusedError):
                    server.client()
                self.assertIn(b"tcp_port:%d\r\n" % port, client.call("INFO", "server"))
                self.assertEqual(client.call("CONFIG", "SET", "port", str(server.port)), OK)

    def test_a_start_without_a_certificate_fails(self):
        server = Server({"tls-port": port_free()}, start=False)
        self.addCleanup(server.discard)
        server.launch()
        self.assertEqual(server.wait_end(), 1)
        self.assertIn(b"No tls-cert-file configured", server.log())


if __name__ == "__main__":
    main()
