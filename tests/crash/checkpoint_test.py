"""Checkpoints under load, and kill -9 at random moments of them: nothing acknowledged is lost, and the count is exact."""
import os
import random
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import Closed, Status                                                                     # noqa: E402
from support.server import SHORT, Server, until                                                     # noqa: E402

KEYS = 3000
STARTED = Status(b"Background append only file rewriting started")


class Writer(threading.Thread):
    """Changes keys of its own, and knows what they hold; what was under way when the server died may be old or new."""

    def __init__(self, server, number, seed, model=None):
        super().__init__()
        self.server, self.number, self.random = server, number, random.Random(seed * 100 + number)
        self.model, self.pending = model if model is not None else {}, {}
        self.stop, self.wrong = threading.Event(), None

    def change(self, client, key, new, *words):
        self.pending[key] = new
        client.must(*words)
        self.model[key] = new
        del self.pending[key]

    def step(self, client, count):
        key = "k%d:%d" % (self.number, self.random.randrange(KEYS))
        choice = self.random.random()
        if choice < 0.5:
            value = ("%s:%d:" % (key, count)).encode() * self.random.randrange(1, 60)
            self.change(client, key, value, "SET", key, value)
        elif choice < 0.62:
            self.change(client, key, None, "DEL", key)
        elif choice < 0.75:
            more = b"x%d" % count
            self.change(client, key, (self.model.get(key) or b"") + more, "APPEND", key, more)
        elif choice < 0.9:
            key, field, value = "h" + key, b"f%d" % self.random.randrange(30), b"v%d" % count
            self.change(client, key, {**(self.model.get(key) or {}), field: value}, "HSET", key, field, value)
        elif client.must("GET", key) != self.model.get(key):
            raise AssertionError("%s is not what it was set to" % key)

    def run(self):
        count = 0
        try:
            with self.server.client() as client:
                while not self.stop.is_set():
                    count += 1
                    self.step(client, count)
        except (Closed, OSError):
            pass                        # killed
        except AssertionError as error:
            self.wrong = str(error)

    def check(self, client):
        """What is wrong, or None; afterwards the model holds what is there."""
        for key in set(self.model) | set(self.pending):
            if key.startswith("h"):
                words = client.must("HGETALL", key)
                found = dict(zip(words[::2], words[1::2])) or None
            else:
                found = client.must("GET", key)
            if found != self.model.get(key) and not (key in self.pending and found == self.pending[key]):
                return "%s is %r instead of %r" % (key, found, self.model.get(key))
            self.model[key] = found
        self.pending.clear()
        return None


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
            for writer in writers:
                self.assertIsNone(writer.check(client), name)
            there = sum(value is not None for writer in writers for value in writer.model.values())
            self.assertEqual(client.must("DBSIZE"), there, name)

    def run_seed(self, seed, rounds):
        chance = random.Random(seed)
        options = {"appendonly": "yes", "maxmemory": chance.choice(["16mb", "24mb", "0"]), "auto-aof-rewrite-percentage": "0",
                   "appendfsync": chance.choice(["everysec", "no", "always"]), "io-threads": str(chance.choice([1, 3]))}
        with Server(options) as server:
            models = [{}, {}, {}]
            for round_ in range(rounds):
                writers = [Writer(server, number, seed + round_, models[number]) for number in range(3)]
                self.one_round(server, writers, chance, "SEED=%d, round %d, %r" % (seed, round_, options))

    def test_kill_9_while_checkpoints_are_taken(self):
        first = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))
        for seed in range(first, first + (2 if SHORT else int(os.environ.get("SEEDS", 6)))):
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
