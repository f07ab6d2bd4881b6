"""Recovery: replay of the log over an image, with look-ahead, with any maxmemory; and what INFO and clients see meanwhile."""
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
    """Returns all data, by database and key."""
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
    """All keys are cold for the commands of the log, as all keys are cold after the image was restored."""

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

    def test_the_same_with_very_little_memory(self):
        self.check_replay(seed_new(), maxmemory="12mb", tier_write_buffer="256kb")

    def test_the_same_with_one_loader(self):
        self.check_replay(seed_new(), tier_load_threads=1)

    def test_look_ahead_loads_the_keys_of_the_tail(self):
        server = self.start()
        with server.client() as client:
            client.pipeline([("SET", "n%d" % i, i) for i in range(5000)])
            rewrite(client)
            client.pipeline([("INCR", "n%d" % i) for i in range(5000)])
        server.restart(kill=True)
        stats = server.info("tiering")
        self.assertEqual(int(stats["tier_promotions"]), 5000)
        self.assertLess(int(stats["tier_unplanned_reads"]), 500)       # nearly all were being loaded or hot in time
        with server.client() as client:
            self.assertEqual([b"%d" % (i + 1) for i in range(5000)], client.must("MGET", *["n%d" % i for i in range(5000)]))
        server.stop()

    def test_a_tail_of_values_that_do_not_fit_is_replayed(self):
        """Cold values of 100 KB with 16 MB of memory: replay does not hang, and look-ahead does not exceed the memory."""
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


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class LoadingTest(unittest.TestCase):
    """Replies while the server loads. They are those of redis-server 7.0.15, observed with the same delay."""

    ALLOWED = ["INFO persistence", "SELECT 1", "CONFIG GET maxmemory", "CLIENT LIST", "COMMAND COUNT", "HELLO 2", "ECHO a",
               "TIME", "LASTSAVE", "SLOWLOG LEN", "LATENCY LATEST"]
    REFUSED = ["PING", "GET x", "SET x 1", "DBSIZE", "KEYS *", "DEL x", "FLUSHALL", "TYPE x", "OBJECT ENCODING x", "BGREWRITEAOF",
               "TTL x", "SCAN 0", "SWAPDB 0 1"]

    def test_commands_and_info_while_loading(self):
        with Server({"appendonly": "yes", "appendfsync": "no"}) as server:
            with server.client() as client:
                client.pipeline([("SET", "k%d" % i, "v" * 100) for i in range(3000)])
                client.pipeline([("INCR", "n") for i in range(1000)])
            began = int(time.time())
            client = server.relaunch_slowly(1000, server.client)
            self.addCleanup(client.close)
            for line in self.REFUSED:
                reply = client.call(*line.split())
                self.assertEqual((line, reply), (line, Error(b"LOADING Redis is loading the dataset in memory")))
            for line in self.ALLOWED:
                reply = client.call(*line.split())
                self.assertFalse(isinstance(reply, Error), (line, reply))
            self.assertIn(b"unknown command", bytes(client.call("NOSUCH")))
            self.assertIn(b"wrong number of arguments", bytes(client.call("GET")))
            until(lambda: server.info("persistence").get("loading_total_bytes", "0") != "0", 20, "the log's size")
            info = server.info("persistence")
            self.assertEqual((info["loading"], info["async_loading"], info["loading_rdb_used_mem"]), ("1", "0", "0"))
            self.assertTrue(began - 1 <= int(info["loading_start_time"]) <= int(time.time()))
            total = int(info["loading_total_bytes"])
            folder = os.path.join(server.folder, "appendonlydir")
            sizes = [os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".incr.aof")]
            self.assertEqual(total, sum(sizes))

            def moved():
                info = server.info("persistence")
                return info.get("loading_loaded_bytes", "0") != "0" and info
            info = until(moved, 20, "progress")
            self.assertTrue(0 < int(info["loading_loaded_bytes"]) < total)
            self.assertAlmostEqual(float(info["loading_loaded_perc"]), 100 * int(info["loading_loaded_bytes"]) / total, delta=0.01)
            self.assertGreaterEqual(int(info["loading_eta_seconds"]), 0)
            client.must("CONFIG", "SET", "key-load-delay", 0)
            until(lambda: client.call("PING") != Error(b"LOADING Redis is loading the dataset in memory"), 60, "the end")
            info = server.info("persistence")
            self.assertEqual(info["loading"], "0")
            self.assertEqual([name for name in info if name.startswith("loading_")], [])
            client.must("SELECT", 0)
            self.assertEqual(client.must("DBSIZE"), 3001)
            self.assertEqual(client.must("GET", "n"), b"1000")
            client.close()


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class WarmUpTest(unittest.TestCase):
    COUNT, HOT = 20000, 3000

    def setUp(self):
        self.rnd = random.Random(seed_new())
        self.server = Server({"appendonly": "yes", "appendfsync": "no", "maxmemory": "16mb", "tier-segment-size": "256kb", "tier-write-buffer": "256kb",
                              "auto-aof-rewrite-percentage": 0, "lfu-decay-time": 0})
        self.addCleanup(self.server.discard)
        self.count = scaled(self.COUNT)
        self.hot = scaled(self.HOT)

    def fill(self, client):
        """Writes more than fits into memory; some keys are read often, those with lower numbers more often."""
        for at in range(0, self.count, 500):
            client.pipeline([("SET", "k%d" % i, b"%d:" % i + b"x" * 1000) for i in range(at, min(at + 500, self.count))])
        for turn in range(12):
            reads = [("GET", "k%d" % i) for i in range(self.hot) if i < self.hot * (12 - turn) // 12]
            for at in range(0, len(reads), 200):
                client.pipeline(reads[at:at + 200])

    def heats(self, client):
        """Returns the heat of the keys of the hot set that are in RAM, without loading the others."""
        places = client.pipeline([("TIER", "WHERE", "k%d" % i) for i in range(self.hot)])
        hot = [i for i, place in enumerate(places) if str(place) == "hot" or place == b"hot"]
        return dict(zip(hot, client.pipeline([("OBJECT", "FREQ", "k%d" % i) for i in hot])))

    def done(self):
        return until(lambda: self.server.info("tiering")["tier_warmup_state"] in ("done", "idle"), 120, "the warm-up's end")

    def prepare(self):
        with self.server.client() as client:
            client.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")      # required by OBJECT FREQ
            self.fill(client)
            rewrite(client)
            return self.heats(client)

    def back(self):
        with self.server.client() as client:
            client.must("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
            return self.heats(client)

    def check_values(self, changed=None):
        with self.server.client() as client:
            for at in range(0, self.count, 500):
                keys = list(range(at, min(at + 500, self.count)))
                for i, value in zip(keys, client.pipeline([("GET", "k%d" % i) for i in keys])):
                    expected = (changed or {}).get(i, b"%d:" % i + b"x" * 1000)
                    self.assertEqual(value, expected, "k%d" % i)

    def test_the_hot_set_is_loaded_after_a_restart(self):
        before = self.prepare()
        self.assertGreater(len(before), self.hot // 2)
        self.server.restart(kill=True)
        self.done()
        stats = self.server.info("tiering")
        after = self.back()
        self.assertEqual(stats["tier_warmup_state"], "done")
        missing = [i for i in before if i not in after]
        self.assertLess(len(missing), len(before) // 10, "memory usage varies slightly; the coldest keys may stay cold")
        self.assertEqual([], [i for i in missing if before[i] > sorted(before.values())[len(before) // 4]])
        self.assertEqual([], [(i, before[i], after[i]) for i in after if i in before and abs(before[i] - after[i]) > 3])
        memory = self.server.info("memory")
        self.assertLess(int(memory["used_memory_peak"]), 16 << 20)
        with self.server.client() as client:
            client.must("CONFIG", "RESETSTAT")
            client.pipeline([("GET", "k%d" % self.rnd.randrange(self.hot // 2)) for _ in range(1000)])
        self.assertGreater(float(self.server.info("tiering")["tier_hit_ratio"]), 95)
        self.check_values()
        self.server.stop()

    def test_a_warm_up_that_is_killed_begins_again(self):
        before = self.prepare()
        self.server.options["tier-warmup-rate"] = 2000
        for _ in range(3):
            self.server.restart(kill=True)
            until(lambda: int(self.server.info("tiering")["tier_warmup_keys_loaded"]) > 50, 60, "a beginning")
        with self.server.client() as client:
            rewrite(client)             # during the warm-up as well
        self.server.options["tier-warmup-rate"] = 0
        self.server.restart(kill=True)
        self.done()
        after = self.back()
        self.assertLess(len([i for i in before if i not in after]), len(before) // 10)
        self.check_values()
        self.server.stop()

    def test_writes_and_a_flush_during_the_warm_up(self):
        self.prepare()
        self.server.options["tier-warmup-rate"] = 3000
        self.server.restart(kill=True)
        changed = {}
        with self.server.client() as client:
            for turn in range(2000):
                i = self.rnd.randrange(self.hot)
                if turn % 3 == 0:
                    client.must("DEL", "k%d" % i)
                    changed[i] = None
                else:
                    client.must("SET", "k%d" % i, b"new%d" % turn)
                    changed[i] = b"new%d" % turn
            client.must("CONFIG", "SET", "tier-warmup-rate", 0)
            self.done()
            self.check_values(changed)
            rewrite(client)
            self.server.restart(kill=True)
        with self.server.client() as client:
            client.must("FLUSHALL")
            client.must("SET", "k1", "1")
            client.must("CONFIG", "SET", "tier-warmup-rate", 0)
            self.done()
            self.assertEqual(client.must("DBSIZE"), 1)
            self.assertEqual(int(self.server.info("tiering")["tier_hot_keys"]), 1)
        self.server.stop()

    def test_the_warm_up_can_be_switched(self):
        self.prepare()
        self.server.options["tier-warmup"] = "no"
        self.server.restart(kill=True)
        with self.server.client() as client:
            until(lambda: self.server.info("tiering")["tier_warmup_state"] == "off", 20, "off")
            self.assertEqual(self.server.info("tiering")["tier_hot_keys"], "0")
            client.must("CONFIG", "SET", "tier-warmup", "yes")
            self.done()
            self.assertGreater(int(self.server.info("tiering")["tier_hot_keys"]), self.hot // 2)
        self.server.stop()

    def test_a_damaged_file_is_reported_and_harmless(self):
        self.prepare()
        self.server.kill9()
        folder = os.path.join(self.server.folder, "appendonlydir")
        image = [name for name in os.listdir(folder) if name.endswith(".base.image")][0]
        path = os.path.join(folder, image, "hot")
        with open(path, "rb") as file:
            good = file.read()
        damaged = bytearray(good)
        damaged[self.rnd.randrange(len(good))] ^= 1
        for data in (b"", good[:len(good) // 2], self.rnd.randbytes(5000), bytes(damaged), None):
            if data is None:
                os.unlink(path)
            else:
                with open(path, "wb") as file:
                    file.write(data)
            self.server.start()
            self.done()
            self.assertEqual(self.server.info("tiering")["tier_warmup_state"], "idle")
            self.assertEqual(b"No warm-up" in self.server.log_new(), data is not None)
            self.server.kill9()
        self.server.start()
        self.check_values()
        self.server.stop()


if __name__ == "__main__":
    main()
