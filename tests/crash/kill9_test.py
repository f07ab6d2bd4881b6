"""kill -9 at random moments: all acknowledged writes are there after the restart, with every appendfsync."""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.server import Server, scaled, seed_new                                       # noqa: E402
from support.writers import Data, Writer, check, settle, state_of                                   # noqa: E402

WRITERS = 4


class KillTest(unittest.TestCase):
    def rounds(self, count, options, **writing):
        seed = seed_new()
        chooser = random.Random(seed)
        settings = {"appendonly": "yes"}
        settings.update(options)
        server = Server(settings)
        self.addCleanup(server.discard)
        models, total, beyond = [Data() for _ in range(WRITERS)], 0, 0
        for round_ in range(count):
            writers = [Writer(server.address, number, "%d/%d" % (seed, round_), models[number], **writing)
                       for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(chooser.uniform(0.02, 0.5))
            server.kill9()
            for writer in writers:
                writer.stop.set()
                writer.join(30)
                self.assertIsNone(writer.wrong)
            started = time.monotonic()
            server.start()
            self.assertLess(time.monotonic() - started, 60)
            with server.client() as client:
                try:
                    models, acknowledged, more = settle(writers, client)
                except AssertionError as error:
                    self.fail("seed %d, round %d: %s" % (seed, round_, error))
                total += acknowledged
                beyond += more
            self.assertIsNone(server.alarm())
        server.stop()
        self.assertGreater(total, count * WRITERS, "too few commands were acknowledged for a test")
        print("  %s: %d kills, %d commands acknowledged, none lost, %d more were kept (seed %d)" % (
            options.get("appendfsync"), count, total, beyond, seed), file=sys.stderr)

    def test_always(self):
        self.rounds(scaled(12), {"appendfsync": "always"})

    def test_everysec(self):
        self.rounds(scaled(12), {"appendfsync": "everysec"})

    def test_no(self):
        self.rounds(scaled(12), {"appendfsync": "no"})

    def test_four_workers(self):
        self.rounds(scaled(8), {"appendfsync": "everysec", "io-threads": "4"})

    @kelvin_only
    def test_with_small_memory_and_demotions(self):
        for policy in ("always", "everysec", "no"):
            self.rounds(scaled(8), {"appendfsync": policy, "maxmemory": "24mb", "io-threads": "2"}, keys=400, value_size=30000,
                        demote=True)

    def test_a_kill_while_starting(self):
        """The replay is interrupted repeatedly; it must not damage the log."""
        server = Server({"appendonly": "yes", "appendfsync": "no"})
        self.addCleanup(server.discard)
        count = scaled(60000)
        with server.client() as client:
            for start in range(0, count, 5000):
                client.pipeline(["SET", "k%d" % i, "v%d" % i] for i in range(start, start + 5000))
        server.kill9()
        chooser = random.Random(seed_new())
        for _ in range(6):
            server.launch()
            time.sleep(chooser.uniform(0.0, 0.15))
            server.kill9()
        server.start()
        with server.client() as client:
            total = -(-count // 5000) * 5000
            self.assertEqual(client.must("DBSIZE"), total)
            self.assertEqual(client.must("GET", "k%d" % (total - 1)), b"v%d" % (total - 1))
        server.stop()

    def test_the_checker_notices_a_lost_write(self):
        """A test of the check itself: it must find a key that another client changed or deleted."""
        with Server({"appendonly": "yes"}) as server:
            writer = Writer(server.address, 0, 1)
            writer.start()
            time.sleep(0.1)
            writer.stop.set()
            writer.join(30)
            with server.client() as client:
                state = state_of(client, writer)
                check(writer, state)
                self.assertGreater(writer.acknowledged, 10)
                key = sorted(key for _, key in state if key.startswith(b"s:"))[0]
                client.must("APPEND", key, "x")
                with self.assertRaises(AssertionError):
                    check(writer, state_of(client, writer))
                client.must("DEL", key)
                with self.assertRaises(AssertionError):
                    check(writer, state_of(client, writer))


if __name__ == "__main__":
    main()

