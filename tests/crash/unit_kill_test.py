"""kill -9 while transactions and scripts change pairs of keys: after the restart each was applied as a whole or not at all."""
import os
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.pairs import NAMES, PAIRS, Changer, prepare, totals                                    # noqa: E402
from support.server import Server, is_redis, scaled, seed_new                                       # noqa: E402
from support.units import Demoter                                                                   # noqa: E402

CLIENTS = 8


class Rewriter(threading.Thread):
    """Takes one checkpoint after another."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.server, self.random, self.halt = server, random.Random(seed), threading.Event()

    def run(self):
        try:
            with self.server.client(timeout=60) as client:
                while not self.halt.wait(self.random.uniform(0.0, 0.05)):
                    client.call("BGREWRITEAOF")
        except OSError:
            pass        # it was killed

    def stop(self):
        self.halt.set()
        self.join(60)


class UnitKillTest(unittest.TestCase):
    def rounds(self, count, options, ways=None, rewrite=False):
        seed = seed_new()
        chance = random.Random(seed)
        server = Server(dict({"appendonly": "yes", "io-threads": "4"}, **options))
        self.addCleanup(server.discard)
        with server.client() as client:
            for name in ("MULTI", "EVAL", "FCALL"):
                if not isinstance(client.call("COMMAND", "INFO", name)[0], list):
                    self.skipTest("the server under test has no %s yet" % name)
        prepare(server)
        before, changes = [0] * PAIRS, 0
        for turn in range(count):
            changers = [Changer(server, seed + turn * 100 + number, ways) for number in range(CLIENTS)]
            helpers = ([Demoter(server, seed + turn, names=NAMES)] if not is_redis() else []) + ([Rewriter(server, seed + turn)] if rewrite else [])
            for thread in changers + helpers:
                thread.start()
            time.sleep(chance.uniform(0.05, 0.6))
            for changer in changers:
                changer.may_end = True
            server.kill9()
            for thread in changers + helpers:
                thread.stop()
            self.assertEqual([changer.wrong for changer in changers if changer.wrong], [])
            server.start()
            self.assertIsNone(server.alarm())
            try:
                found = totals(server)
            except AssertionError as error:
                self.fail("seed %d, kill %d: %s" % (seed, turn, error))
            for number in range(PAIRS):
                least = before[number] + sum(changer.acknowledged[number] for changer in changers)
                most = before[number] + sum(changer.sent[number] for changer in changers)
                self.assertTrue(least <= found[number] <= most, "seed %d, kill %d, pair %d: %d, not from %d to %d" % (seed, turn, number, found[number], least, most))
            changes += sum(found) - sum(before)
            before = found
        server.stop()
        self.assertGreater(changes, count * CLIENTS, "too few changes for a test")
        print("  %s: %d kills, %d changes (seed %d)" % (options, count, changes, seed), file=sys.stderr)

    def test_always(self):
        self.rounds(scaled(10), {"appendfsync": "always"})

    def test_everysec(self):
        self.rounds(scaled(10), {"appendfsync": "everysec"})

    def test_one_worker(self):
        self.rounds(scaled(6), {"appendfsync": "no", "io-threads": "1"})

    @kelvin_only
    def test_with_checkpoints_in_a_loop(self):
        """A cut between two changes of a unit would count one of them twice."""
        self.rounds(scaled(12), {"appendfsync": "everysec"}, rewrite=True)

    @kelvin_only
    def test_with_checkpoints_and_tiny_memory(self):
        self.rounds(scaled(8), {"appendfsync": "everysec", "maxmemory": "24mb"}, rewrite=True)

    @kelvin_only
    def test_slow_scripts_with_checkpoints(self):
        self.rounds(scaled(8), {"appendfsync": "no"}, ways=("slow", "exec"), rewrite=True)


if __name__ == "__main__":
    main()
