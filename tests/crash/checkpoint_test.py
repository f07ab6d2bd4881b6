"""Checkpoints under load, with kill -9 at random moments: no acknowledged write is lost, and DBSIZE is exact."""
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import Status                                                                     # noqa: E402
from support.server import SHORT, Server, until                                                     # noqa: E402
from support.writers import Data, Writer, settle                                                    # noqa: E402

STARTED = Status(b"Background append only file rewriting started")


@kelvin_only
class CheckpointTest(unittest.TestCase):
    def one_round(self, server, writers, chance, name):
        for writer in writers:
            writer.start()
        with server.client() as admin:
            end, taken = time.monotonic() + chance.uniform(0.5, 1.5), 0
            while time.monotonic() < end or taken == 0:
                taken += admin.call("BGREWRITEAOF") == STARTED
                time.sleep(chance.uniform(0.02, 0.3))
        kill = chance.random() < 0.7
        for writer in writers if not kill else []:
            writer.stop.set()
            writer.join()
        server.restart(kill=kill)
        for writer in writers:
            writer.stop.set()
            writer.join()
            self.assertIsNone(writer.wrong, name)
        with server.client() as client:
            try:
                return settle(writers, client)[0]
            except AssertionError as error:
                self.fail("%s: %s" % (name, error))

    def run_seed(self, seed, rounds):
        chance = random.Random(seed)
        options = {"appendonly": "yes", "maxmemory": chance.choice(["16mb", "24mb", "0"]), "auto-aof-rewrite-percentage": "0",
                   "appendfsync": chance.choice(["everysec", "no", "always"]), "io-threads": str(chance.choice([1, 3]))}
        with Server(options) as server:
            models = [Data(), Data(), Data()]
            for round_ in range(rounds):
                writers = [Writer(server.address, number, "%d/%d" % (seed, round_), models[number], keys=1000, reads=True,
                                  databases=(0,) if number < 2 else (3, 4, 5)) for number in range(3)]
                models = self.one_round(server, writers, chance, "SEED=%d, round %d, %r" % (seed, round_, options))

    def test_kill_9_during_checkpoints(self):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        for seed in range(first, first + (2 if SHORT else int(os.environ.get("SEEDS", 6)))):
            with self.subTest(seed=seed):
                self.run_seed(seed, 3)

    def test_a_restart_begins_with_the_image(self):
        with Server({"appendonly": "yes", "auto-aof-rewrite-percentage": "0"}) as server:
            with server.client() as client:
                for i in range(2000):
                    client.must("SET", "k%d" % i, "v%d" % i)
                client.must("SELECT", 3)
                client.must("HSET", "h", "f", "v")
                client.must("SET", "soon", "v", "PX", 10 ** 7)
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the end of the checkpoint")
                info = server.info("persistence")
                self.assertEqual((info["aof_last_bgrewrite_status"], info["aof_rewrites"]), ("ok", "1"))
                client.must("SWAPDB", 0, 3)
                client.must("SET", "after", "v")
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual(client.must("DBSIZE"), 2)
                self.assertEqual(client.must("HGETALL", "h"), [b"f", b"v"])
                self.assertGreater(client.must("PTTL", "soon"), 10 ** 6)
                client.must("SELECT", 3)
                self.assertEqual(client.must("DBSIZE"), 2001)
                self.assertEqual(client.must("GET", "k1999"), b"v1999")
                self.assertEqual(client.must("GET", "after"), b"v")


if __name__ == "__main__":
    main()
