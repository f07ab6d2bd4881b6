"""The log is switched on and off while the server runs: writes that were made while it was on are there after a kill."""
import os
import random
import shutil
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.server import Server, scaled, seed_new, until                                          # noqa: E402


class Writer(threading.Thread):
    """Sets its own keys repeatedly to increasing numbers; `acknowledged` has the last acknowledged number of each."""

    def __init__(self, server, name, seed):
        super().__init__(daemon=True)
        self.client, self.prefix, self.random = server.client(), name, random.Random(seed)
        self.acknowledged, self.ending = {}, False
        self.start()

    def run(self):
        number = 0
        while not self.ending:
            number += 1
            key = "%s%d" % (self.prefix, self.random.randrange(500))
            self.client.must("SET", key, number)
            self.acknowledged[key] = number

    def stop(self):
        self.ending = True
        self.join(30)
        self.client.close()
        return self.acknowledged


@kelvin_only
class SwitchTest(unittest.TestCase):
    def start(self, **options):
        settings = {"appendonly": "no", "save": ""}
        settings.update({name.replace("_", "-"): value for name, value in options.items()})
        server = Server(settings)
        self.addCleanup(server.discard)
        return server

    def persistence(self, server, name):
        return int(server.info("persistence")[name])

    def switch(self, server, client, on):
        client.must("CONFIG", "SET", "appendonly", "yes" if on else "no")
        until(lambda: self.persistence(server, "aof_enabled") == on and not self.persistence(server, "aof_rewrite_in_progress"),
              what="switching the log")

    def start_again(self, server, kill=True):
        server.options["appendonly"] = "yes"
        if kill:
            server.kill9()
        server.start()

    def expect(self, server, written):
        with server.client() as client:
            for key, number in written.items():
                self.assertGreaterEqual(int(client.must("GET", key) or -1), number, key)

    def test_old_and_new_keys_survive(self):
        for maxmemory in ("0", "20mb"):
            seed = seed_new()
            with self.subTest(seed=seed, maxmemory=maxmemory):
                server = self.start(maxmemory=maxmemory)
                with server.client() as client:
                    for first in range(0, scaled(100000), 1000):        # small pipelines, because queued commands count as memory
                        client.pipeline(["SET", "old%d" % i, "%d" % i + "x" * 300] for i in range(first, first + 1000))
                    self.assertEqual(client.must("DBSIZE"), scaled(100000))
                    client.must("HSET", "hash", "a", 1, "b", 2)
                    writers = [Writer(server, name, seed + i) for i, name in enumerate("ab")]
                    self.switch(server, client, True)
                    client.must("SELECT", 3)
                    client.must("SET", "elsewhere", "v")
                    until(lambda: all(len(writer.acknowledged) > 400 for writer in writers), what="some writes")
                    written = {**writers[0].stop(), **writers[1].stop()}
                self.start_again(server)
                self.expect(server, written)
                with server.client() as client:
                    self.assertEqual(client.must("DBSIZE"), scaled(100000) + 1 + len(written))
                    for i in range(0, scaled(100000), 997):
                        self.assertEqual(client.must("GET", "old%d" % i), ("%d" % i + "x" * 300).encode())
                    self.assertEqual(client.must("HGET", "hash", "b"), b"2")
                    client.must("SELECT", 3)
                    self.assertEqual(client.must("GET", "elsewhere"), b"v")
                server.stop()

    def test_off_and_on_again_under_load(self):
        seed = seed_new()
        with self.subTest(seed=seed):
            server = self.start(appendonly="yes", appendfsync="always", io_threads=2)
            writers = [Writer(server, name, seed + i) for i, name in enumerate("abc")]
            with server.client() as client:
                for _ in range(3):
                    before = [len(writer.acknowledged) for writer in writers]
                    self.switch(server, client, False)
                    client.must("SET", "while-off", "v")
                    self.switch(server, client, True)
                    until(lambda: all(len(w.acknowledged) > min(b, 400) for w, b in zip(writers, before)), what="progress of the writers")
                self.assertFalse(os.path.exists(os.path.join(server.folder, "appendonlydir.new")))
            written = {}
            for writer in writers:
                written.update(writer.stop())
            self.start_again(server)
            self.expect(server, written)
            server.stop()

    def test_an_older_log_is_replaced(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "k", "logged")
            self.switch(server, client, False)
            client.must("SET", "k", "not logged")
            client.must("SET", "new", "v")
            self.switch(server, client, True)
            client.must("SET", "last", "v")
        self.start_again(server)
        with server.client() as client:
            self.assertEqual(client.must("MGET", "k", "new", "last"), [b"not logged", b"v", b"v"])
        server.stop()

    def test_the_files_of_the_log_remain_when_it_is_switched_off(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "k", "logged")
            self.switch(server, client, False)
            client.must("SET", "k", "not logged")
            self.assertRegex(client.call("BGREWRITEAOF").decode(), "started|no log to rewrite")
        self.start_again(server)
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"logged")
        server.stop()

    def test_a_log_that_could_not_be_started_is_tried_again(self):
        server = self.start()
        blocker = os.path.join(server.folder, "appendonlydir.new")
        with open(blocker, "w") as file:
            file.write("in the way")
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: b"can't be enabled" in server.log(), what="a failure")
            client.must("SET", "k2", "v")
            os.unlink(blocker)
            until(lambda: self.persistence(server, "aof_enabled") and not self.persistence(server, "aof_rewrite_in_progress"), what="the log")
        self.start_again(server)
        with server.client() as client:
            self.assertEqual(client.must("MGET", "k", "k2"), [b"v", b"v"])
        server.stop()

    def test_a_shutdown_waits_for_a_log_that_is_being_started(self):
        server = self.start()
        with server.client() as client:
            for first in range(0, scaled(30000), 1000):
                client.pipeline(["SET", "k%d" % i, "%d" % i + "x" * 300] for i in range(first, first + 1000))
            size = client.must("DBSIZE")
            client.must("CONFIG", "SET", "appendonly", "yes")
        self.assertEqual(server.terminate(), 0)
        self.start_again(server, kill=False)
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), size)
        server.stop()

    def test_no_shutdown_while_the_log_can_not_be_started(self):
        server = self.start()
        blocker = os.path.join(server.folder, "appendonlydir.new")
        with open(blocker, "w") as file:
            file.write("in the way")
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: b"can't be enabled" in server.log(), what="a failure")
            self.assertIn(b"Errors trying to SHUTDOWN", client.call("SHUTDOWN"))
            self.assertEqual(client.must("GET", "k"), b"v")
            os.unlink(blocker)
        self.assertEqual(server.terminate(), 0)
        self.start_again(server, kill=False)
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")
        server.stop()

    def test_a_failed_log_that_was_switched_off_does_not_prevent_a_shutdown(self):
        server = self.start()
        with open(os.path.join(server.folder, "appendonlydir.new"), "w") as file:
            file.write("in the way")
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: b"Trying again" in server.log(), what="a failure")
            client.must("CONFIG", "SET", "appendonly", "no")
        # During the pause before the next try.
        self.assertEqual(server.terminate(), 0)
        self.assertNotIn(b"can't be begun", server.log())

    def test_a_log_directory_that_is_a_symbolic_link_is_kept(self):
        """The log was moved to another disk: a new one is created there as well."""
        elsewhere = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, elsewhere, True)
        server = self.start()
        link = os.path.join(server.folder, "appendonlydir")
        os.mkdir(os.path.join(elsewhere, "log"))
        os.symlink(os.path.join(elsewhere, "log"), link)
        for value in ("1", "2"):
            with server.client() as client:
                client.must("SET", "k", value)
                self.switch(server, client, True)
                client.must("SET", "later", value)
                self.switch(server, client, False)
            self.assertTrue(os.path.islink(link))
            self.assertIn("appendonly.aof.manifest", os.listdir(os.path.join(elsewhere, "log")))
            self.assertEqual(os.listdir(elsewhere), ["log"])
        self.start_again(server)
        with server.client() as client:
            self.assertEqual(client.must("MGET", "k", "later"), [b"2", b"2"])
        server.stop()

    def test_an_incomplete_log_is_removed_at_the_start(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "k", "v")
        server.kill9()
        os.mkdir(os.path.join(server.folder, "appendonlydir.new"))
        with open(os.path.join(server.folder, "appendonlydir.new", "appendonly.aof.manifest"), "w") as file:
            file.write("file x seq 1 type i\n")
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")
        self.assertFalse(os.path.exists(os.path.join(server.folder, "appendonlydir.new")))
        server.stop()


@kelvin_only
class LastCheckpointTest(unittest.TestCase):
    """After SHUTDOWN there is little to replay."""

    def fill(self, **options):
        settings = {"appendonly": "yes", "save": "", "auto-aof-rewrite-percentage": "0"}
        settings.update(options)
        server = Server(settings)
        self.addCleanup(server.discard)
        client = server.client()
        self.addCleanup(client.close)
        client.pipeline(["SET", "k%d" % i, "x" * 1000] for i in range(5000))
        return server, client

    def log_size(self, server):
        folder = os.path.join(server.folder, "appendonlydir")
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".incr.aof"))

    def has_image(self, server):
        return any(name.endswith(".base.image") for name in os.listdir(os.path.join(server.folder, "appendonlydir")))

    def expect(self, server):
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 5000)
            self.assertEqual(client.must("GET", "k4999"), b"x" * 1000)
        server.stop()

    def test_a_signal_makes_a_checkpoint(self):
        server, _ = self.fill()
        server.terminate()
        self.assertTrue(self.has_image(server))
        self.assertLess(self.log_size(server), 1000)
        self.expect(server)

    def test_shutdown_nosave_makes_no_checkpoint(self):
        server, client = self.fill()
        client.send(b"SHUTDOWN NOSAVE\r\n")
        server.wait_end()
        self.assertFalse(self.has_image(server))
        self.assertGreater(self.log_size(server), 5000000)
        self.expect(server)

    def test_checkpoint_on_shutdown_no_makes_no_checkpoint(self):
        server, client = self.fill(**{"checkpoint-on-shutdown": "no"})
        client.send(b"SHUTDOWN\r\n")
        server.wait_end()
        self.assertFalse(self.has_image(server))
        self.expect(server)

    def test_by_size_and_by_time(self):
        for options in ({"checkpoint-log-size": "1mb"}, {"checkpoint-seconds": "1", "checkpoint-log-size": "0"}):
            with self.subTest(**options):
                server, client = self.fill(**options)
                until(lambda: self.has_image(server), what="a checkpoint")
                until(lambda: not int(server.info("persistence")["aof_rewrite_in_progress"]), what="its end")
                server.kill9()
                self.expect(server)


if __name__ == "__main__":
    main()
