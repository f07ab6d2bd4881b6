"""maxmemory-clients: which clients are closed, and which are not, with four workers."""
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                  # noqa: E402
from support.disk import DELAY, Disk                                    # noqa: E402
from support.resp import Closed, Error, OK                                     # noqa: E402
from support.server import Server, is_redis, is_sanitized, redis_tool, until  # noqa: E402

MB = 1 << 20
LIMIT = 3 * MB
FIELD = re.compile(r"([a-z-]+)=(\S*)")


def command(*args):
    words = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class EvictionCase(ServerCase):
    """`self.c` is not to be evicted."""

    options = {"io-threads": 4, "maxmemory-clients": LIMIT}

    def setUp(self):
        super().setUp()
        self.c.must("CLIENT", "NO-EVICT", "on")
        self.c.must("CLIENT", "SETNAME", "control")
        until(lambda: self.names() == [], 20, "the end of the last test's clients")
        self.c.must("CONFIG", "SET", "maxmemory-clients", self.options["maxmemory-clients"])
        self.evicted_before = self.evicted()

    def lines(self):
        return [dict(FIELD.findall(line)) for line in self.c.must("CLIENT", "LIST").decode().splitlines()]

    def line(self, name):
        found = [line for line in self.lines() if line["name"] == name]
        return found[0] if found else None

    def names(self):
        return [line["name"] for line in self.lines() if line["name"] != "control"]

    def named(self, name, **options):
        client = self.client(**options)
        client.must("CLIENT", "SETNAME", name)
        return client

    def stat(self, name, section="stats"):
        return int(re.search(r"^%s:(\d+)" % name, self.c.must("INFO", section).decode(), re.M).group(1))

    def evicted(self):
        return self.stat("evicted_clients")

    def gone(self, name):
        until(lambda: self.line(name) is None, 20, "the end of the client " + name)

    def is_evicted(self, name, count=1):
        self.gone(name)
        self.assertEqual(self.evicted() - self.evicted_before, count)

    def fill_query(self, client, size):
        """An incomplete request with an argument of which this many bytes are there."""
        self.send(client, b"*2\r\n$%d\r\n" % size + b"q" * (size - 1))

    def send(self, client, data):
        try:
            client.send(data)
        except (ConnectionError, Closed):
            pass

    def until_closed(self, client, step, most):
        """Calls step(number) until the client is closed. Returns how often it could."""
        try:
            for number in range(most):
                step(number)
        except (ConnectionError, Closed):
            return number
        self.fail("the client is still there after %d steps" % most)


class WhatCountsTest(EvictionCase):
    def test_a_large_argument(self):
        client = self.named("large")
        self.assertEqual(client.call("MSET", "k", "v", "k2", "v" * 1000000), OK)
        self.send(client, command("MSET", "k", "v", "k2", b"v" * LIMIT))
        self.is_evicted("large")
        self.assertEqual(self.c.must("STRLEN", "k2"), 1000000)

    def test_many_small_arguments_of_one_request(self):
        client = self.named("many")
        self.send(client, b"*1000000\r\n" + b"$4\r\nword\r\n" * (LIMIT // 10))
        self.is_evicted("many")

    def test_an_incomplete_request(self):
        client = self.named("partial")
        self.fill_query(client, LIMIT)
        self.is_evicted("partial")

    def test_a_percentage_of_maxmemory(self):
        self.c.must("CONFIG", "SET", "maxmemory", 64 * MB, "maxmemory-clients", "7%")
        self.addCleanup(self.c.must, "CONFIG", "SET", "maxmemory", 0)
        limit = 64 * MB * 7 // 100
        half, full = self.named("half"), self.named("full")
        self.fill_query(half, limit // 2)
        until(lambda: int(self.line("half")["tot-mem"]) >= limit // 2, 10, "the request to arrive")
        self.assertLess(int(self.line("half")["tot-mem"]), limit)
        self.fill_query(full, limit)
        self.is_evicted("full")
        self.assertEqual(self.names(), ["half"])

    def test_a_queue_after_multi(self):
        client = self.named("multi")
        client.must("MULTI")
        for _ in range(2):
            client.must("SET", "k", "v" * (LIMIT // 4))
        self.assertEqual(client.must("EXEC"), [OK, OK])
        client.must("MULTI")
        self.until_closed(client, lambda _: client.must("SET", "k", "w" * (LIMIT // 4)), 5)
        self.is_evicted("multi")
        self.assertEqual(self.c.must("GETRANGE", "k", 0, 0), b"v")

    def test_a_pipeline_of_queues_ends_before_the_limit_is_exceeded_by_much(self):
        client = self.named("queues")
        once = b"".join(command("SET", "k", b"v" * 1000) for _ in range(500))
        self.send(client, command("MULTI") + once * 40)
        self.is_evicted("queues")
        taken = int(re.findall(rb"it takes (\d+) bytes", self.server.log())[-1]) if not is_redis() else LIMIT
        self.assertLess(taken, LIMIT + 2 * MB)

    def test_watched_keys(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", 200000)
        client = self.named("watch")
        self.until_closed(client, lambda number: client.must("WATCH", number), 20000)
        self.is_evicted("watch")

    def test_subscriptions(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", 200000)
        for count, verb in enumerate(("PSUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE"), 1):
            client = self.named(verb)
            self.until_closed(client, lambda number: client.must(verb, number), 20000)
            self.is_evicted(verb, count)

    def test_tracking_prefixes(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", 200000)
        client = self.named("tracking")
        self.until_closed(client, lambda number: client.must("CLIENT", "TRACKING", "on", "PREFIX", "%012d" % number, "BCAST"), 20000)
        self.is_evicted("tracking")

    def test_long_names_are_refused(self):
        client = self.client()
        client.must("CLIENT", "SETNAME", b"n" * 1024)
        for call in [("CLIENT", "SETNAME"), ("CLIENT", "SETINFO", "lib-name"), ("CLIENT", "SETINFO", "lib-ver"), ("HELLO", "3", "SETNAME")]:
            self.assertRegex(repr(client.call(*call, b"n" * 1025)), "cannot have more than 1024 bytes")

    @unittest.skipIf(is_sanitized(), "takes long")
    def test_invalidation_messages_that_a_client_does_not_read(self):
        reader = self.named("reader")
        reader.must("HELLO", 3)
        reader.must("CLIENT", "TRACKING", "on", "BCAST")
        key = "k" * 200000
        until(lambda: [[self.c.must("INCR", key) for _ in range(10)], self.line("reader")][1] is None, 60, "the end of the reader")
        self.is_evicted("reader")

    def test_replies_that_a_client_does_not_read(self):
        for number in range(20):
            self.c.must("RPUSH", "list", b"e" * 10000)
        client = self.named("reader")
        client.must("LRANGE", "list", 0, -1)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.until_closed(client, lambda _: client.send(command("LRANGE", "list", 0, -1) * 10) or time.sleep(0.005), 1000)
        self.is_evicted("reader")

    def test_one_reply_that_is_larger_than_the_limit(self):
        for number in range(20):
            self.c.must("RPUSH", "list", b"e" * 1000000)
        client = self.named("reader")
        self.send(client, command("LRANGE", "list", 0, -1))
        self.is_evicted("reader")

    def test_redis_cli_pipe(self):
        """It writes without reading; what it is sent is small."""
        data = b"".join(command("SET", "key:%d" % number, b"v" * 100) for number in range(50000))
        done = subprocess.run([redis_tool("redis-cli"), "-p", str(self.server.port), "--pipe"], input=data, stdout=subprocess.PIPE, timeout=120)
        self.assertIn(b"errors: 0, replies: 50000", done.stdout)
        self.assertEqual(self.evicted(), self.evicted_before)

    def test_redis_cli_pipe_of_large_queues(self):
        data = command("MULTI") + b"".join(command("SET", "key:%d" % number, b"v" * 1000) for number in range(10000)) + command("EXEC")
        subprocess.run([redis_tool("redis-cli"), "-p", str(self.server.port), "--pipe"], input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=120)
        until(lambda: self.evicted() > self.evicted_before, 10, "the eviction")
        self.assertEqual(self.c.must("DBSIZE"), 0)


class WhichGoTest(EvictionCase):
    options = {"io-threads": 4, "maxmemory-clients": 0}

    def fill(self, name, size):
        client = self.named(name)
        self.fill_query(client, size)
        until(lambda: int(self.line(name)["tot-mem"]) >= size, 20, "the request of " + name)
        return client

    def total(self):
        return sum(int(line["tot-mem"]) for line in self.lines())

    def test_the_largest_of_all_workers_go_first(self):
        sizes = (128 << 10, MB, 3 * MB)
        for number in range(4):             # of each size one on each worker
            for size in sizes:
                self.fill("%d:%d" % (size, number), size)
        for gone, size in enumerate(reversed(sizes), 1):
            lines = self.lines()
            taken = sum(int(line["tot-mem"]) for line in lines if line["name"].startswith("%d:" % size))
            self.c.must("CONFIG", "SET", "maxmemory-clients", sum(int(line["tot-mem"]) for line in lines) - taken + size // 4)
            until(lambda: len(self.names()) == 12 - 4 * gone, 20, "the clients of %d bytes to go" % size)
            self.assertFalse([name for name in self.names() if name.startswith("%d:" % size)])
        self.assertEqual(self.evicted() - self.evicted_before, 12)

    def test_only_until_all_are_within_the_limit(self):
        for number in range(10):
            self.fill("client:%d" % number, MB)
        self.c.must("CONFIG", "SET", "maxmemory-clients", self.total() - 5 * int(self.line("client:0")["tot-mem"]) + MB // 4)
        until(lambda: len(self.names()) <= 5, 20, "five clients to go")
        time.sleep(0.2)
        self.assertEqual(len(self.names()), 5)
        self.assertEqual(self.evicted() - self.evicted_before, 5)

    def test_clients_that_grow_at_the_same_time_on_all_workers(self):
        """However they race: those that are left fit, and one more would not have."""
        self.c.must("CONFIG", "SET", "maxmemory-clients", 8 * MB)
        clients = [self.named("client:%d" % number) for number in range(16)]
        threads = [threading.Thread(target=self.fill_query, args=(client, MB)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: self.evicted() - self.evicted_before >= 9, 20, "the evictions")
        time.sleep(0.2)
        self.assertLessEqual(self.total(), 8 * MB)
        self.assertIn(self.evicted() - self.evicted_before, (9, 10))

    def test_no_evict(self):
        client = self.named("kept")
        client.must("CLIENT", "NO-EVICT", "on")
        self.assertEqual(self.line("kept")["flags"], "e")
        self.c.must("CONFIG", "SET", "maxmemory-clients", LIMIT)
        self.fill_query(client, LIMIT + 1)
        until(lambda: int(self.line("kept")["qbuf"]) == LIMIT, 20, "the request to arrive")
        self.assertGreater(int(self.line("kept")["tot-mem"]), LIMIT)
        self.assertEqual(self.evicted(), self.evicted_before)
        self.c.must("RPUSH", "list", *[b"e" * 10000] * 100)
        self.c.must("CONFIG", "SET", "maxmemory-clients", 2 * LIMIT)
        other = self.named("other")
        other.must("CLIENT", "NO-EVICT", "on")
        other.send(command("LRANGE", "list", 0, -1) * 20)
        until(lambda: int(self.line("other")["tot-mem"]) > 10 * MB, 20, "the replies")
        other.send(command("CLIENT", "NO-EVICT", "off"))
        self.gone("other")
        self.assertIsNotNone(self.line("kept"))

    @kelvin_only
    def test_reset_ends_no_evict(self):
        """Since Redis 7.2."""
        client = self.named("kept")
        client.must("CLIENT", "NO-EVICT", "on")
        client.must("RESET")
        self.c.must("CONFIG", "SET", "maxmemory-clients", LIMIT)
        self.fill_query(client, LIMIT + 1)
        until(lambda: self.evicted() > self.evicted_before, 20, "the eviction")

    def test_a_limit_too_small_for_any_client(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", 1)
        client = self.client()
        for _ in range(10):
            self.assertEqual(client.must("ECHO", "x" * 1000), b"x" * 1000)

    def test_the_limit_of_output_comes_first(self):
        """A client that is closed for its own output is no reason to close another one."""
        self.c.must("CONFIG", "SET", "maxmemory-clients", 10 * MB, "client-output-buffer-limit", "normal %d 0 0" % (3 * MB))
        self.addCleanup(self.c.must, "CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
        self.c.must("RPUSH", "list", *[b"e" * 100000] * 80)
        until(lambda: self.total() < MB, 20, "the end of the memory of that request")
        self.fill("query", 6 * MB)
        for name in ("output:1", "output:2"):
            client = self.named(name)
            client.send(command("LRANGE", "list", 0, -1))
            self.gone(name)
        self.assertIsNotNone(self.line("query"))
        self.assertEqual(self.evicted(), self.evicted_before)

    def test_subscribers_go_as_others_do(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", LIMIT, "client-output-buffer-limit", "pubsub 0 0 0")
        self.addCleanup(self.c.must, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")
        client = self.named("subscriber")
        client.must("SUBSCRIBE", "channel")
        until(lambda: [[self.c.must("PUBLISH", "channel", b"m" * 50000) for _ in range(10)], self.line("subscriber")][1] is None, 60, "the eviction")
        self.is_evicted("subscriber")

    @kelvin_only                    # in Redis a watch counts without its key
    def test_clients_that_wait(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", LIMIT)
        waiting = self.named("waiting")
        for number in range(1500):
            waiting.must("WATCH", b"%01000d" % number)
        waiting.send(command("BLPOP", "list", 0))
        until(lambda: self.line("waiting")["flags"] in ("b", "P"), 10, "BLPOP")
        other = self.named("other")
        other.send(b"".join(command("WATCH", b"%01000d" % number) for number in range(1500)))
        until(lambda: self.evicted() > self.evicted_before, 20, "an eviction")
        self.assertEqual(len(self.names()), 1)
        self.c.must("RPUSH", "list", "element")             # the list of waiting clients is whole


class WithoutLimitTest(EvictionCase):
    """What clients make the server keep is within half of maxmemory, whatever it is."""

    options = {"io-threads": 2, "maxmemory": "30mb", "maxmemory-clients": 0}

    def grow(self, *calls):
        """Clients that do this until one of them is closed."""
        clients = [self.named("growing%d" % i) for i in range(3)]
        numbers = [0, 0, 0]

        def step(number):
            for i, client in enumerate(clients):
                numbers[i] += 1
                client.send(b"".join(command(*[(word % (i, numbers[i], j)) if b"%" in word else word for word in call])
                                     for j in range(100) for call in calls))
                for _ in range(100 * len(calls)):
                    client.receive()

        self.until_closed(None, step, 1000)
        until(lambda: self.evicted() > self.evicted_before, 10, "the eviction")
        self.assertLess(self.stat("mem_clients_normal", "memory"), 17 << 20)

    def test_subscriptions(self):
        self.grow((b"SUBSCRIBE", b"a channel with a long name" * 20 + b"%d:%d:%d"))

    def test_patterns(self):
        self.grow((b"PSUBSCRIBE", b"a pattern with a long name" * 20 + b"%d:%d:%d*"))

    def test_watched_keys(self):
        self.grow((b"WATCH", b"a key with a long name" * 20 + b"%d:%d:%d"))

    def test_scripts_that_are_kept(self):
        for number in range(100):
            reply = self.c.call("SCRIPT", "LOAD", b"return 1 --%d" % number + b"-" * 1000000)
            if isinstance(reply, Error):
                break
        self.assertIn("OOM the scripts of SCRIPT LOAD", repr(reply))
        self.assertEqual(number, 4)
        self.c.must("SCRIPT", "FLUSH")
        self.c.must("SCRIPT", "LOAD", "return 1")


class NumbersTest(EvictionCase):
    def test_the_fields_of_client_list(self):
        client = self.named("client")
        self.fill_query(client, MB)
        until(lambda: int(self.line("client")["qbuf"]) == MB - 1, 10, "the request to arrive")
        line = self.line("client")
        self.assertGreaterEqual(int(line["tot-mem"]), MB)
        self.assertEqual(line["multi-mem"], "0")
        own = self.line("control")
        self.assertEqual((own["qbuf"], own["argv-mem"]), ("26", "10"))

    def test_multi_mem(self):
        client = self.named("client")
        before = int(self.line("client")["tot-mem"])
        client.must("MULTI")
        client.must("SET", "k", "v" * 100000)
        line = self.line("client")
        self.assertGreaterEqual(int(line["multi-mem"]), 100000)
        self.assertGreaterEqual(int(line["tot-mem"]) - before, 100000)
        client.must("DISCARD")
        self.assertEqual(self.line("client")["multi-mem"], "0")

    def test_omem_of_a_client_that_does_not_read(self):
        self.c.must("CONFIG", "SET", "maxmemory-clients", 0)
        self.c.must("RPUSH", "list", *[b"e" * 100000] * 80)
        client = self.named("client")
        client.send(command("LRANGE", "list", 0, -1))
        until(lambda: int(self.line("client")["omem"]) > 0, 10, "replies to wait")
        line = self.line("client")
        self.assertGreater(int(line["oll"]), 0)
        self.assertGreaterEqual(int(line["tot-mem"]), int(line["omem"]))
        self.assertEqual(line["events"], "rw")

    def test_mem_clients_normal_is_the_sum(self):
        for number in range(8):
            self.fill_query(self.named("client:%d" % number), 300000)
        until(lambda: all(int(self.line("client:%d" % number)["qbuf"]) == 299999 for number in range(8)), 10, "the requests to arrive")
        total, shown = sum(int(line["tot-mem"]) for line in self.lines()), self.stat("mem_clients_normal", "memory")
        self.assertLess(abs(total - shown), 100000)
        self.assertEqual(self.stat("mem_clients_slaves", "memory"), 0)

    def test_all_is_given_back(self):
        until(lambda: len(self.lines()) == 1, 10, "other clients to go")
        before = self.stat("mem_clients_normal", "memory")
        clients = []
        for number in range(20):
            client = self.named("client:%d" % number)
            clients.append(client)
            client.must("WATCH", *range(100))
            client.must("MULTI")
            client.must("SET", "k", "v" * 1000)
            client.must("PING")
        for client in clients:
            client.close()
        until(lambda: len(self.lines()) == 1, 10, "the clients to go")
        self.assertLess(abs(self.stat("mem_clients_normal", "memory") - before), 30000)


class StalledLogTest(unittest.TestCase):
    @kelvin_only
    def test_output_that_waits_for_the_log_does_not_count(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        server = Server({"io-threads": 4, "appendonly": "yes", "appendfsync": "always", "maxmemory-clients": LIMIT}, folder=folder,
                        environment=disk.environment)
        self.addCleanup(server.stop)
        with server.client(timeout=60) as control:
            control.must("CLIENT", "NO-EVICT", "on")
            control.must("RPUSH", "list", *[b"e" * 10000] * 60)
            clients = [server.client(timeout=60) for _ in range(16)]
            for client in clients:
                client.must("PING")
            disk.rule(0, "sync", "appendonlydir/*", DELAY, delay_us=3000000)
            control.send(command("RPUSH", "other", "element"))
            for client in clients:          # 600 KB each, all of which wait for the fsync
                client.send(command("INCR", "counter") + command("LRANGE", "list", 0, -1))
            time.sleep(1.5)
            with server.client() as other:
                self.assertEqual(other.must("ECHO", "hello"), b"hello")
            disk.heal()
            for client in clients:
                self.assertIsInstance(client.receive(), int)
                self.assertEqual(len(client.receive()), 60)
                client.close()
            control.receive()
            self.assertIn(b"evicted_clients:0", control.must("INFO", "stats"))


if __name__ == "__main__":
    main()
