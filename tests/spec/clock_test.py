"""A wall clock that is set back or ahead: what measures time goes on by the monotonic clock, and only what is shown as a time of day jumps."""
import errno
import os
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                             # noqa: E402
from support.clock import WallClock                                                                    # noqa: E402
from support.disk import FAIL, Disk                                                                    # noqa: E402
from support.resp import Closed, OK, Status, encode                                                    # noqa: E402
from support.server import Server, is_sanitized, until                                                 # noqa: E402

HOUR_MS = 3600 * 1000
WAIT_S = 20


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer's library has to be the first that is preloaded")
class ClockTest(unittest.TestCase):
    def start(self, **options):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.clock, self.disk = WallClock(folder), Disk(folder)
        self.addCleanup(self.clock.remove)
        self.addCleanup(self.disk.remove)
        environment = {**self.clock.environment, **self.disk.environment,
                       "LD_PRELOAD": " ".join(shim.environment["LD_PRELOAD"] for shim in (self.clock, self.disk))}
        server = Server({name.replace("_", "-"): value for name, value in options.items()}, folder=folder, environment=environment)
        self.addCleanup(server.discard)
        return server

    def number(self, server, section, name):
        return int(server.info(section)[name])

    def test_save_points_and_the_uptime_when_it_is_set_back(self):
        server = self.start(save="1 1")
        self.clock.jump(-HOUR_MS)
        with server.client() as client:
            client.must("SET", "k", "v")
            until(lambda: client.must("LASTSAVE") < time.time() - 1800, WAIT_S, "a save by a save point")
        self.assertIn(self.number(server, "server", "uptime_in_seconds"), range(WAIT_S * 2))

    def test_a_checkpoint_at_the_time_of_the_one_before(self):
        """The time is in the name of an image."""
        server = self.start(appendonly="yes", maxmemory="60mb")
        self.clock.stop_at(int(time.time() * 1000))
        with server.client() as client:
            for number in (1, 2):
                client.must("SET", "k%d" % number, "v")
                client.must("TIER", "DEMOTE", "k%d" % number)
                client.must("BGREWRITEAOF")
                until(lambda: self.number(server, "persistence", "aof_rewrites") == number, WAIT_S, "the checkpoint")
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("MGET", "k1", "k2"), [b"v"] * 2)
        server.stop()

    def test_a_store_in_error_is_opened_again_when_it_is_set_back(self):
        server = self.start(maxmemory="60mb")
        with server.client() as client:
            client.must("SET", "k", "v")
            self.disk.rule(0, "write", "store/*", FAIL, error=errno.EIO)
            client.call("TIER", "DEMOTE", "k")
            until(lambda: server.info("tiering")["tier_status"] == "error", WAIT_S, "the error")
            self.clock.jump(-HOUR_MS)
            self.disk.heal()
            until(lambda: server.info("tiering")["tier_status"] != "error", WAIT_S, "the store is opened again")
            self.assertEqual(client.must("TIER", "DEMOTE", "k"), 1)
            self.assertEqual(client.must("GET", "k"), b"v")

    def test_a_pause_ends_when_it_is_set_back(self):
        server = self.start()
        with server.client() as client, server.client() as other:
            client.must("CLIENT", "PAUSE", 300)
            other.send(encode(["SET", "k", "v"]))
            self.clock.jump(-HOUR_MS)
            self.assertEqual(other.receive(), OK)

    def test_idle_clients_are_closed_when_it_is_set_back(self):
        server = self.start(timeout=1)
        with server.client() as idle, server.client() as busy:
            idle.must("PING")
            self.clock.jump(-HOUR_MS)
            until(lambda: busy.must("CLIENT", "LIST").count(b"\n") == 1, WAIT_S, "the idle client is closed")
            with self.assertRaises((Closed, OSError)):
                idle.must("PING")

    def test_no_client_is_idle_or_old_because_it_was_set_ahead(self):
        server = self.start(timeout=1000)
        with server.client() as idle, server.client() as busy:
            idle.must("PING")
            self.clock.jump(HOUR_MS)
            ends = time.monotonic() + 2.5           # idle clients are looked for each second
            while time.monotonic() < ends:
                for line in busy.must("CLIENT", "LIST").decode().splitlines():
                    facts = dict(word.split("=", 1) for word in line.split())
                    self.assertLess(max(int(facts["age"]), int(facts["idle"])), 60, line)
                time.sleep(0.05)
            self.assertEqual(busy.must("CLIENT", "KILL", "MAXAGE", 1000), 0)
            self.assertEqual(idle.must("PING"), Status(b"PONG"))

    def test_a_session_of_hotkeys_ends_when_it_is_set_back(self):
        server = self.start()
        with server.client() as client:
            def report():
                fields = client.must("HOTKEYS", "GET")[0]
                return dict(zip(fields[::2], fields[1::2]))

            client.must("HOTKEYS", "START", "METRICS", 1, "CPU", "DURATION", 1)
            self.clock.jump(-HOUR_MS)
            self.assertIn(report()[b"collection-duration-ms"], range(1001))
            until(lambda: report()[b"tracking-active"] == 0, WAIT_S, "its end")
            self.assertLess(abs(report()[b"collection-start-time-unix-ms"] - time.time() * 1000), 60000)

    def test_the_time_that_a_load_takes_when_it_is_set_back(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.pipeline([["SET", "k%d" % i, "v"] for i in range(2000)])

        def loading():
            info = server.info("persistence")
            return info if info.get("loading") == "1" and int(info["loading_loaded_bytes"]) > 0 else None

        server.relaunch_slowly(10000, loading)
        self.clock.jump(-HOUR_MS)
        info = loading()
        self.assertGreaterEqual(int(info["loading_eta_seconds"]), 0)
        self.assertLess(abs(int(info["loading_start_time"]) - time.time()), 60)
        server.kill9()


if __name__ == "__main__":
    main()
