"""tier-compression zstd: invisible to clients, but not on the disk; values stay readable over restarts, checkpoints, replicas, backups, and when it is
switched off."""
import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, StartFailed, seed_new, until                                      # noqa: E402

KEYS = 2000


def value(number):
    chance = random.Random(number)
    return json.dumps({"id": number, "name": "customer-%x" % chance.getrandbits(64), "email": "mail%d@example.com" % chance.getrandbits(30),
                       "address": {"street": "%d Example Street" % chance.randrange(1000), "city": chance.choice(("Oslo", "Lima", "Kyoto"))},
                       "orders": [{"number": chance.randrange(10**6), "status": "delivered", "currency": "EUR"} for _ in range(3)]}).encode()


def names(count=KEYS):
    return ["profile:%d" % number for number in range(count)]


def fill(client, count=KEYS):
    client.pipeline([["SET", name, value(number)] for number, name in enumerate(names(count))])


def demote(client, keys):
    for at in range(0, len(keys), 500):
        client.must("TIER", "DEMOTE", *keys[at:at + 500])


class Case(unittest.TestCase):
    def start(self, **options):
        server = Server({"save": "", "appendonly": "yes", "tier-compression": "zstd",
                         **{name.replace("_", "-"): word for name, word in options.items()}})
        self.addCleanup(server.discard)
        return server

    def check(self, client, count=KEYS):
        replies = client.pipeline([["GET", name] for name in names(count)])
        self.assertEqual([number for number, reply in enumerate(replies) if reply != value(number)], [])

    def live_bytes(self, server):
        return int(server.info("tiering")["tier_segment_live_bytes"])


@kelvin_only
class CompressionTest(Case):
    def test_values_are_the_same_and_the_disk_has_less(self):
        server = self.start()
        with server.client() as client:
            fill(client)
            demote(client, names())
            packed = self.live_bytes(server)
            self.check(client)
            client.must("CONFIG", "SET", "tier-compression", "no")
            fill(client)
            demote(client, names())
            self.assertLess(packed * 4, self.live_bytes(server) * 3)
            self.check(client)

    def test_other_types_and_their_encodings(self):
        server = self.start()
        text = "the same words again and again "
        with server.client() as client:
            client.must("HSET", "hash", *[word for number in range(100) for word in ("field-%d" % number, text)])
            client.must("RPUSH", "list", *[text + str(number) for number in range(200)])
            client.must("SADD", "set", *[text + str(number) for number in range(100)])
            client.must("ZADD", "zset", *[word for number in range(100) for word in (number, text + str(number))])
            client.must("XADD", "stream", "1-1", "field", text * 10)
            client.must("SET", "number", "12345678901234567890123")
            client.must("APPEND", "raw", text * 20)
            keys = ["hash", "list", "set", "zset", "stream", "number", "raw"]
            before = {key: (client.must("DUMP", key), client.must("OBJECT", "ENCODING", key)) for key in keys}
            demote(client, keys)
            for key in keys:
                self.assertEqual((client.must("DUMP", key), client.must("OBJECT", "ENCODING", key)), before[key], key)

    def test_config(self):
        server = self.start(tier_compression="yes")
        with server.client() as client:
            self.assertEqual(client.must("CONFIG", "GET", "tier-compression"), [b"tier-compression", b"zstd"])
            self.assertEqual(client.must("CONFIG", "SET", "tier-compression", "no"), OK)
            self.assertIn("no, zstd", str(client.call("CONFIG", "SET", "tier-compression", "lz4")))
            self.assertEqual(client.must("CONFIG", "GET", "tier-compression"), [b"tier-compression", b"no"])
        with self.assertRaises(StartFailed) as failed:
            Server({"tier-compression": "lz4"})
        self.assertIn("no, zstd", str(failed.exception))

    def test_restart_and_kill(self):
        server = self.start()
        with server.client() as client:
            fill(client)
            demote(client, names())
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
        for kill in (False, True):
            server.restart(kill=kill)
            with server.client() as client:
                self.assertEqual(client.must("DBSIZE"), KEYS)
                self.check(client)

    def test_a_restart_without_compression_reads_it(self):
        server = self.start()
        with server.client() as client:
            fill(client)
            demote(client, names())
        server.options["tier-compression"] = "no"
        server.restart()
        with server.client() as client:
            self.check(client)

    def test_a_dump_is_that_of_an_uncompressed_server(self):
        dumps = []
        for compression in ("zstd", "no"):
            server = self.start(tier_compression=compression, rdbcompression="no", appendonly="no")
            with server.client() as client:
                fill(client)
                demote(client, names())
                client.must("SAVE")
            with open(os.path.join(server.folder, "dump.rdb"), "rb") as file:
                dumps.append(file.read())
        self.assertEqual(len(dumps[0]), len(dumps[1]))
        for number in range(0, KEYS, 100):
            self.assertIn(value(number), dumps[0])

    def test_memory_pressure(self):
        """The demotion that memory asks for, with values that compress and values that do not, beside reads and overwrites."""
        server = self.start(maxmemory="20mb", appendonly="no")
        chance = random.Random(seed_new())
        noise = {}
        with server.client(timeout=60) as client:
            for start in range(0, 60000, 500):
                fill_from = [["SET", "profile:%d" % number, value(number)] for number in range(start, start + 500)]
                for number in range(start, start + 500, 10):
                    noise[number] = chance.randbytes(500)
                    fill_from.append(["SET", "noise:%d" % number, noise[number]])
                self.assertEqual([reply for reply in client.pipeline(fill_from) if isinstance(reply, Error)], [])
                read = [chance.randrange(start + 500) for _ in range(50)]
                replies = client.pipeline([["GET", "profile:%d" % number] for number in read])
                self.assertEqual([number for number, reply in zip(read, replies) if reply != value(number)], [])
            self.assertGreater(int(server.info("tiering")["tier_demotions"]), 10000)
            for number, wanted in noise.items():
                self.assertEqual(client.must("GET", "noise:%d" % number), wanted)


if __name__ == "__main__":
    main()
