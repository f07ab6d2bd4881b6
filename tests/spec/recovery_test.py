"""Coming back: the log replayed over an image with look-ahead, in any memory; what INFO and clients see meanwhile."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.resp import Client, Error                                                              # noqa: E402
from support.server import Server, is_redis, is_sanitized, scaled, seed_new, until                  # noqa: E402
import unittest                                                                                     # noqa: E402

DATABASES = 3


def rewrite(client):
    client.must("BGREWRITEAOF")
    until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 60, "the rewrite's end")
    assert b"aof_last_bgrewrite_status:ok" in client.must("INFO", "persistence")


def everything(client):
    """All data, by database and key."""
    data = {}
    for database in range(DATABASES):
        client.must("SELECT", database)
        for key in client.must("KEYS", "*"):
            if key.startswith(b"h"):
                flat = client.must("HGETALL", key)
                value = dict(zip(flat[0::2], flat[1::2]))
            else:
                value = client.must("GET", key)
            data[database, key] = value, client.must("PEXPIRETIME", key)
    client.must("SELECT", 0)
    return data


def differences(before, after):
    return ["%r: %.100r, was %.100r" % (key, after.get(key), before.get(key))
            for key in sorted(set(before) | set(after)) if before.get(key) != after.get(key)][:5]


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ReplayTest(unittest.TestCase):
    """Every command of the log meets cold keys: after the image was restored there are no others."""

    def start(self, **options):
        settings = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": 0}
        settings.update({name.replace("_", "-"): value for name, value in options.items()})
        server = Server(settings)
        self.addCleanup(server.discard)
        return server

    def write_random(self, client, rnd, count, key_count, value_size):
        def key():
            return "k%d" % rnd.randrange(key_count)

        def value():
            return bytes(rnd.choices(b"abcdefgh", k=rnd.randrange(1, value_size)))

        def select():
            return "SELECT", rnd.randrange(DATABASES)

        writes = [
            lambda: ("SET", "s" + key(), value()), lambda: ("APPEND", "s" + key(), value()[:20]),
            lambda: ("SETRANGE", "s" + key(), rnd.randrange(30), value()[:20]), lambda: ("INCR", "n" + key()),
            lambda: ("HSET", "h" + key(), "f%d" % rnd.randrange(9), value()), lambda: ("HDEL", "h" + key(), "f%d" % rnd.randrange(9)),
            lambda: ("DEL", "s" + key(), "h" + key()), lambda: ("RENAME", "s" + key(), "s" + key()),
            lambda: ("COPY", "h" + key(), "h" + key(), "REPLACE"), lambda: ("COPY", "s" + key(), "s" + key(), "DB", rnd.randrange(DATABASES), "REPLACE"),
            lambda: ("MOVE", "s" + key(), rnd.randrange(DATABASES)), lambda: ("EXPIRE", "s" + key(), 100000),
            lambda: ("PERSIST", "s" + key()), lambda: ("MSETNX", "s" + key(), value(), "s" + key(), value()),
            lambda: ("GETDEL", "s" + key()), lambda: ("SET", "s" + key(), value(), "XX", "KEEPTTL"),
            lambda: ("BITOP", "OR", "s" + key(), "s" + key(), "s" + key()),
        ]
        rare = [lambda: ("SWAPDB", 0, 1), lambda: ("SWAPDB", 1, 2), lambda: ("FLUSHDB",)]
        calls = []
        for i in range(count):
            if i % 40 == 0:
                calls.append(select())
            calls.append(rnd.choice(rare)() if rnd.random() < 0.001 else rnd.choice(writes)())
        for at in range(0, len(calls), 500):
            client.pipeline(calls[at:at + 500])

    def check_replay(self, seed, **options):
        rnd = random.Random(seed)
        server = self.start(**options)
        count = scaled(4000)
        with server.client() as client:
            for database in range(DATABASES):
                client.must("SELECT", database)
                self.write_random(client, rnd, count, count // 2, 200)
            rewrite(client)
            self.write_random(client, rnd, count * 4, count // 2, 200)
            before = everything(client)
        for _ in range(2):
            server.restart(kill=True)
            with server.client() as client:
                found = differences(before, everything(client))
                self.assertEqual([], found, "seed %d" % seed)
        stats = server.info("tiering")
        self.assertGreater(int(stats["tier_promotions"]), 0)
        server.stop()

    def test_a_tail_over_cold_keys_is_replayed_in_order(self):
        self.check_replay(seed_new())

    def test_the_same_with_hardly_any_memory(self):
        self.check_replay(seed_new(), maxmemory="12mb", tier_write_buffer="256kb")

    def test_the_same_with_one_loader(self):
        self.check_replay(seed_new(), tier_load_threads=1)

    def test_the_keys_of_the_tail_are_loaded_ahead(self):
        server = self.start()
        with server.client() as client:
            client.pipeline([("SET", "n%d" % i, i) for i in range(5000)])
            rewrite(client)
            client.pipeline([("INCR", "n%d" % i) for i in range(5000)])
        server.restart(kill=True)
        stats = server.info("tiering")
        self.assertEqual(int(stats["tier_promotions"]), 5000)
        self.assertLess(int(stats["tier_unplanned_reads"]), 500)       # that is: nearly all were under way or there in time
        with server.client() as client:
            self.assertEqual([b"%d" % (i + 1) for i in range(5000)], client.must("MGET", *["n%d" % i for i in range(5000)]))
        server.stop()

    def test_a_tail_of_values_that_do_not_fit_goes_on(self):
        """Cold values of 100 KB in a budget of 16 MB: nothing hangs, and the look-ahead does not burst it."""
        server = self.start(maxmemory="16mb", tier_write_buffer="256kb")
        count = scaled(400)
        with server.client() as client:
            for i in range(count):
                client.must("SET", "big%d" % i, b"x" * 100000)
            rewrite(client)
            for _ in range(3):
                for i in range(count):
                    client.must("APPEND", "big%d" % i, "y")
        began = time.monotonic()
        server.restart(kill=True)
        self.assertLess(time.monotonic() - began, 100)
        self.assertLess(int(server.info("memory")["used_memory_peak"]), 40 << 20)
        with server.client() as client:
            for i in range(count):
                self.assertEqual(client.must("STRLEN", "big%d" % i), 100003)
        server.stop()


if __name__ == "__main__":
    main()
