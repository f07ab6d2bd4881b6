"""WAITAOF. The oracle, Redis 7.0, does not have it: the replies here were compared with those of a later redis-server by hand."""
import os
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.disk import DELAY, Disk                                                                # noqa: E402
from support.resp import Error, Status, encode                                                      # noqa: E402
from support.server import Server, scaled, under_test, until                                                  # noqa: E402

OFF = Error(b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
REACHED, NOT_REACHED = [1, 0], [0, 0]


class WaitAofCase(ServerCase):
    options = {"appendonly": "yes", "appendfsync": "no", "io-threads": 4}

    def setUp(self):
        super().setUp()
        self.c.must("CONFIG", "SET", "appendfsync", "no")

    def waiting(self, *args):
        """A client that has written, and waits."""
        client = self.client()
        client.must("SET", "k", "v")
        client.send(encode(("WAITAOF", *args)))
        until(lambda: self.server.info("clients")["blocked_clients"] == "1", what="it waits")
        return client


@kelvin_only
class ReplyTest(WaitAofCase):
    def test_errors(self):
        for args, error in (((2, 0, 0), b"value is out of range, value must between 0 and 1"), ((-1, 0, 0), b"value is out of range, value must between 0 and 1"),
                            (("x", 0, 0), b"value is not an integer or out of range"), ((0, -1, 0), b"value is out of range, must be positive"),
                            ((0, "x", 0), b"value is out of range, must be positive"), ((0, 0, -1), b"timeout is negative"),
                            ((0, 0, "x"), b"timeout is not an integer or out of range"), ((0, 1, 2 ** 63 - 1), b"timeout is out of range"),
                            ((0, 1, "1.5"), b"timeout is not an integer or out of range"), ((2, "x", -1), b"value is out of range, value must between 0 and 1"),
                            ((1, -1, -1), b"value is out of range, must be positive")):
            self.assertEqual(self.c.call("WAITAOF", *args), Error(b"ERR " + error), args)
        self.assertEqual(self.c.call("WAITAOF", 1, 0), Error(b"ERR wrong number of arguments for 'waitaof' command"))
        self.assertEqual(self.c.must("COMMAND", "INFO", "waitaof")[0][:6], [b"waitaof", 4, [Status(b"noscript")], 0, 0, 0])
        self.assertIsInstance(self.c.call("EVAL", "return redis.call('WAITAOF', 0, 0, 0)", 0), Error)

    def test_a_client_that_has_written_nothing_does_not_wait(self):
        with self.server.client() as client:
            self.assertEqual(client.must("WAITAOF", 1, 0, 0), REACHED)
            self.assertEqual(client.must("WAITAOF", 0, 0, 0), REACHED)
            self.assertEqual(client.must("WAITAOF", 0, 1, 10), REACHED)

    def test_the_time_is_up(self):
        self.c.must("SET", "k", "v")
        for args in ((1, 0, 200), (0, 1, 200), (1, 3, 200), (0, 2 ** 63 - 1, 200)):
            began = time.monotonic()
            self.assertEqual(self.c.must("WAITAOF", *args), NOT_REACHED)
            self.assertGreater(time.monotonic() - began, 0.19)
        self.assertEqual(self.c.must("WAITAOF", 0, 0, 0), NOT_REACHED)

    def test_transactions_do_not_wait(self):
        self.c.must("MULTI")
        for command in (("SET", "k", "v"), ("WAITAOF", 1, 0, 0), ("WAITAOF", 1, 5, 0)):
            self.c.must(*command)
        self.assertEqual([len(reply) for reply in self.c.must("EXEC")], [2, 2, 2])
        self.assertEqual(self.c.must("WAITAOF", 1, 0, 10), NOT_REACHED)

    def test_unblock(self):
        for how, reply in (((), NOT_REACHED), (("TIMEOUT",), NOT_REACHED), (("ERROR",), Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"))):
            client = self.waiting(1, 0, 0)
            line = next(line for line in self.c.must("CLIENT", "LIST").decode().split("\n") if "cmd=waitaof" in line)
            self.assertIn(" flags=b ", line)
            self.assertEqual(self.c.must("CLIENT", "UNBLOCK", line.split()[0][3:], *how), 1)
            self.assertEqual(client.receive(), reply)
            self.assertEqual(client.must("PING"), Status(b"PONG"))

    def test_clients_that_go(self):
        client = self.waiting(1, 0, 0)
        client.close()
        until(lambda: self.server.info("clients")["blocked_clients"] == "0", what="removing it")
        self.c.must("CONFIG", "SET", "appendfsync", "always")
        self.assertEqual(self.c.must("SET", "k", 1), Status(b"OK"))

    def test_without_a_log(self):
        server = Server({"appendonly": "no"})
        self.addCleanup(server.stop)
        with server.client() as client:
            client.must("SET", "k", "v")
            self.assertEqual(client.call("WAITAOF", 1, 0, 0), OFF)
            self.assertEqual(client.call("WAITAOF", 1, 1, 10), OFF)
            self.assertEqual(client.call("WAITAOF", 0, 0, 0), NOT_REACHED)
            self.assertEqual(client.call("WAITAOF", 0, 1, 10), NOT_REACHED)

    def test_the_log_is_switched_off_meanwhile(self):
        server = Server(self.options)
        self.addCleanup(server.stop)
        waiting = []
        for args in ((1, 0, 0), (1, 1, 0), (0, 1, 500)):
            waiting.append(server.client())
            waiting[-1].must("SET", "k", "v")
            waiting[-1].send(encode(("WAITAOF", *args)))
        until(lambda: server.info("clients")["blocked_clients"] == "3", what="they wait")
        with server.client() as client:
            client.must("CONFIG", "SET", "appendonly", "no")
        self.assertEqual([client.receive() for client in waiting], [OFF, OFF, NOT_REACHED])
        for client in waiting:
            client.close()


@kelvin_only
class PolicyTest(WaitAofCase):
    def test_everysec(self):
        self.c.must("CONFIG", "SET", "appendfsync", "everysec")
        for i in range(3):
            self.c.must("SET", "k", i)
            self.assertEqual(self.c.must("WAITAOF", 1, 0, 5000), REACHED)
            self.assertEqual(self.c.must("WAITAOF", 0, 1, 10), REACHED)

    def test_always(self):
        self.c.must("CONFIG", "SET", "appendfsync", "always")
        self.c.send(encode(("SET", "k", "v")) + encode(("WAITAOF", 1, 0, 0)) + encode(("PING",)))
        self.assertEqual([self.c.receive() for _ in range(3)], [Status(b"OK"), REACHED, Status(b"PONG")])

    def test_no_waits_until_the_policy_is_another(self):
        client = self.waiting(1, 0, 0)
        time.sleep(1.2)
        self.assertEqual(self.server.info("clients")["blocked_clients"], "1")
        self.c.must("CONFIG", "SET", "appendfsync", "everysec")
        self.assertEqual(client.receive(), REACHED)

    def test_what_transactions_and_scripts_have_written_counts(self):
        for write in ([("MULTI",), ("SET", "k", "v"), ("EXEC",)], [("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, "k")], [("RPUSH", "l", 1), ("BLPOP", "l", 0)]):
            with self.server.client() as client:
                for command in write:
                    client.must(*command)
                self.assertEqual(client.must("WAITAOF", 1, 0, 10), NOT_REACHED, write)

    def test_many_clients_on_all_workers(self):
        self.c.must("CONFIG", "SET", "appendfsync", "everysec")

        def write(index, failures):
            with self.server.client() as client:
                for i in range(2):
                    client.must("SET", "k%d" % index, i)
                    if client.must("WAITAOF", 1, 0, 20000) != REACHED:
                        failures.append(index)
        failures, threads = [], []
        for index in range(scaled(100)):
            threads.append(threading.Thread(target=write, args=(index, failures)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    @unittest.skipIf("/asan/" in under_test(), "AddressSanitizer has to be loaded before the disk's shim")
    def test_it_returns_after_the_fsync_and_not_before(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        self.addCleanup(shutil.rmtree, folder, True)
        self.addCleanup(disk.remove)
        server = Server({"appendonly": "yes", "appendfsync": "everysec"}, folder=folder, environment=disk.environment)
        self.addCleanup(server.stop)
        with server.client() as client:
            client.must("SET", "k", 1)
            self.assertEqual(client.must("WAITAOF", 1, 0, 5000), REACHED)
            disk.rule(0, "sync", "appendonlydir/*.aof", DELAY, delay_us=2500000)
            began = time.monotonic()
            client.must("SET", "k", 2)
            self.assertEqual(client.must("WAITAOF", 1, 0, 20000), REACHED)
            self.assertGreater(time.monotonic() - began, 2.4)
            disk.heal()


if __name__ == "__main__":
    main()
