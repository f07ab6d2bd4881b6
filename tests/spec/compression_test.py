"""tier-compression zstd and lz4: invisible to clients, but not on the disk; values stay readable over restarts, checkpoints, replicas, backups, and when it is
switched off."""
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.checksum import crc32c                                                                  # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, StartFailed, seed_new, under_test, until                                      # noqa: E402

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
    CODEC = "zstd"
    SHARE = 0.75                        # of the bytes, at most, that it leaves of values without a dictionary

    def start(self, **options):
        server = Server({"save": "", "appendonly": "yes", "tier-compression": self.CODEC,
                         **{name.replace("_", "-"): word for name, word in options.items()}})
        self.addCleanup(server.discard)
        return server

    def check(self, client, count=KEYS):
        replies = client.pipeline([["GET", name] for name in names(count)])
        self.assertEqual([number for number, reply in enumerate(replies) if reply != value(number)], [])

    def checked_replica(self, primary, count, setting):
        """A replica with that tier-compression, whose keys are checked."""
        replica = self.start(tier_compression=setting, appendonly="no")
        with replica.client() as client:
            client.must("REPLICAOF", "127.0.0.1", primary.port)
            until(lambda: replica.info("replication").get("master_link_status") == "up", timeout=60, what="the link")
            self.check(client, count)
        return replica

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
            self.assertLess(packed, self.live_bytes(server) * self.SHARE)
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
            self.assertIn("no, zstd, lz4, yes", str(client.call("CONFIG", "SET", "tier-compression", "lzo")))
            self.assertEqual(client.must("CONFIG", "GET", "tier-compression"), [b"tier-compression", b"no"])
            self.assertEqual(client.must("CONFIG", "SET", "tier-compression", "lz4"), OK)
            self.assertEqual(client.must("CONFIG", "GET", "tier-compression"), [b"tier-compression", b"lz4"])
        with self.assertRaises(StartFailed) as failed:
            Server({"tier-compression": "lzo"})
        self.assertIn("no, zstd, lz4", str(failed.exception))

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
        for compression in (self.CODEC, "no"):
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


class Dictionaries(Case):
    """Values so small that they hardly compress without a dictionary."""

    OPTIONS = {"tier_dictionary_after": "256kb", "auto_aof_rewrite_percentage": "0"}

    @staticmethod
    def small(number):
        chance = random.Random(number)
        return b'{"id":%d,"name":"user-%x","mail":"u%d@example.com","role":"%s","active":true}' % (
            number, chance.getrandbits(48), chance.getrandbits(30), chance.choice((b"editor", b"owner", b"reader")))

    def write(self, client, first, count):
        keys = ["small:%d" % number for number in range(first, first + count)]
        client.pipeline([["SET", key, self.small(number)] for number, key in enumerate(keys, first)])
        for at in range(0, count, 500):
            client.must("TIER", "DEMOTE", *keys[at:at + 500])

    def trained(self, **options):
        """A server with a dictionary; returns the number of its keys, too."""
        server = self.start(**self.OPTIONS, **options)
        count = 0
        with server.client() as client:
            while server.info("tiering")["tier_dictionaries"] == "0":
                self.write(client, count, 1000)
                count += 1000
                self.assertLess(count, 100000)
            while b"has a new dictionary" not in server.log():
                self.write(client, count, 1000)         # the writer takes it over after a batch
                count += 1000
            self.write(client, count, 1000)
        return server, count + 1000

    def check(self, client, count):             # pylint: disable=arguments-renamed
        step = 500
        for at in range(0, count, step):
            replies = client.pipeline([["GET", "small:%d" % number] for number in range(at, at + step)])
            self.assertEqual([number for number, reply in enumerate(replies, at) if reply != self.small(number)], [])

    def checkpoint(self, server):
        before = int(server.info("persistence")["aof_rewrites"])
        with server.client() as client:
            client.must("BGREWRITEAOF")
        until(lambda: int(server.info("persistence")["aof_rewrites"]) > before, timeout=60, what="the checkpoint")

    @staticmethod
    def files(folder):
        found = []
        for at, _, names_there in os.walk(folder):
            found += [os.path.join(at, name) for name in names_there if name.endswith(".dict")]
        return found

    @staticmethod
    def kelvin_check(path, *options):
        done = subprocess.run([os.path.join(os.path.dirname(under_test()), "kelvin-check"), *options, path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)
        return done.returncode, done.stdout.decode("utf-8", "replace")


@kelvin_only
class DictionariesTest(Dictionaries):
    def test_small_values_get_small(self):
        server, count = self.trained()
        with server.client() as client:
            before = int(server.info("tiering")["tier_compression_saved_bytes"])
            self.write(client, count, 2000)
            saved = int(server.info("tiering")["tier_compression_saved_bytes"]) - before
            self.assertGreater(saved, 2000 * 30)
            self.check(client, count + 2000)

    def test_restart_kill_and_restart_without_compression(self):
        server, count = self.trained()
        self.checkpoint(server)
        for kill, compression in ((True, self.CODEC), (False, self.CODEC), (False, "no")):
            server.options["tier-compression"] = compression
            server.restart(kill=kill)
            self.assertEqual(server.info("tiering")["tier_dictionaries"], "1")
            with server.client() as client:
                self.check(client, count)

    def test_killed_before_a_checkpoint(self):
        """The store with the dictionary is thrown away: the log has the values."""
        server, count = self.trained()
        server.restart(kill=True)
        with server.client() as client:
            self.check(client, count)

    def test_more_dictionaries_after_a_restart(self):
        server, count = self.trained()
        self.checkpoint(server)
        server.restart()
        with server.client() as client:
            client.must("SELECT", 1)
            while server.info("tiering")["tier_dictionaries"] == "1":
                self.write(client, 0, 5000)
            client.must("SELECT", 0)
            self.check(client, count)
        numbers = sorted(os.path.basename(name) for name in self.files(os.path.join(server.folder, "store")))
        self.assertEqual(len(numbers), 2)

    def test_replica_by_image(self):
        server, count = self.trained(appendonly="no")
        replica = self.checked_replica(server, count, "no")
        self.assertEqual(server.info("stats")["sync_full_image"], "1")
        self.assertEqual(replica.info("tiering")["tier_dictionaries"], "1")

    def test_backup_and_restore(self):
        server, count = self.trained()
        target = os.path.join(server.folder, "backup")
        with server.client(timeout=60) as client:
            client.must("TIER", "BACKUP", target)
            until(lambda: server.info("tiering")["tier_backup_in_progress"] == "0", timeout=60, what="the backup")
        self.assertEqual(len(self.files(target)), 1)
        status, text = self.kelvin_check(target)
        self.assertEqual(status, 0, text)
        fresh = temporary_folder(self)
        restored = self.start(dir=fresh, restore=target)
        self.assertEqual(len(self.files(os.path.join(fresh, "appendonlydir"))), 1)
        with restored.client() as client:
            self.check(client, count)

    def test_compressibility(self):
        """The tool says of an uncompressed image about what the server then makes of it."""
        server = self.start(tier_compression="no")
        with server.client() as client:
            self.write(client, 0, 20000)
            client.must("SELECT", 3)
            chance = random.Random(1)
            client.pipeline([["SET", "noise:%d" % number, chance.randbytes(200)] for number in range(2000)])
        self.checkpoint(server)
        server.kill9()
        shutil.rmtree(os.path.join(server.folder, "store"))
        status, text = self.kelvin_check(server.folder, "--compressibility")
        self.assertEqual(status, 0, text)
        found = re.search(r"database 0: 20000 values.*?zstd: values up to 4 KB: ratio ([0-9.]+) without a dictionary, ([0-9.]+) with one\n.*?"
                          r"lz4: values up to 4 KB: ratio ([0-9.]+) without a dictionary, ([0-9.]+) with one\n.*?"
                          r"have ([0-9.]+) MB now; with tier-compression zstd about ([0-9.]+) MB, with lz4 ([0-9.]+) MB, with no ([0-9.]+) MB", text, re.S)
        self.assertIsNotNone(found, text)
        without, with_one, lz4_without, lz4_with_one, now, packed, lz4_packed, raw = map(float, found.groups())
        self.assertTrue(without < 1.2 and lz4_without < 1.2, text)
        self.assertTrue(1.3 < lz4_with_one < with_one and with_one > 1.8, text)
        self.assertTrue(packed < raw / 1.8 and raw <= now, text)
        self.assertTrue(packed < lz4_packed < raw / 1.3, text)
        noise = re.findall(r"(zstd|lz4): values up to 4 KB: ratio 1.00 without a dictionary, ([0-9.]+) with", text.split("database 3: 2000 values")[1], re.S)
        self.assertEqual(noise, [("zstd", "1.00"), ("lz4", "1.00")], text)

    def damaged(self, damage, problem):
        server, count = self.trained()
        self.checkpoint(server)
        server.kill9()
        log = os.path.join(server.folder, "appendonlydir")
        shutil.rmtree(os.path.join(server.folder, "store"))
        (path,) = self.files(log)
        damage(path)
        name = os.path.basename(path)
        status, text = self.kelvin_check(server.folder)
        self.assertEqual(status, 1, text)
        needing = re.search(r"%s is %s: ([0-9]+) records need it" % (name, problem), text)
        self.assertIsNotNone(needing, text)
        self.assertGreaterEqual(int(needing.group(1)), 1000)
        # A server says so, and has all that does not need it.
        server.start()
        with server.client() as client:
            reply = client.call("GET", "small:%d" % (count - 1))
            self.assertIsInstance(reply, Error)
            self.assertIn(name, server.info("tiering")["tier_last_error"])
            self.assertEqual(client.must("DBSIZE"), count)
            self.assertEqual(client.must("GET", "small:0"), self.small(0))
        server.kill9()
        shutil.rmtree(os.path.join(server.folder, "store"))
        # --repair keeps what does not need it.
        status, text = self.kelvin_check(server.folder, "--repair")
        self.assertEqual(status, 0, text)
        status, text = self.kelvin_check(server.folder)
        self.assertEqual(status, 0, text)
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), count - int(needing.group(1)))
            self.assertEqual(client.must("GET", "small:0"), self.small(0))
            self.assertIsNone(client.must("GET", "small:%d" % (count - 1)))

    def test_a_missing_dictionary(self):
        self.damaged(os.unlink, "missing")

    def test_a_damaged_dictionary(self):
        def damage(path):
            with open(path, "rb") as file:
                data = bytearray(file.read())
            data[len(data) // 2] ^= 1
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(data)
        self.damaged(damage, "damaged")


@kelvin_only
class Lz4CompressionTest(CompressionTest):
    CODEC = "lz4"
    SHARE = 0.9


@kelvin_only
class Lz4DictionariesTest(DictionariesTest):
    CODEC = "lz4"

    test_compressibility = None         # is of both


@kelvin_only
class MixedTest(Dictionaries):
    """One store with records of all settings."""

    def mixed(self, **options):
        """A server with a dictionary and keys that were written by each setting, before and after a dictionary was there."""
        server, count = self.trained(**options)
        with server.client() as client:
            for setting in ("lz4", "no", "zstd", "lz4"):
                client.must("CONFIG", "SET", "tier-compression", setting)
                self.write(client, count, 1000)
                count += 1000
        return server, count

    def test_restarts(self):
        server, count = self.mixed()
        self.checkpoint(server)
        for number, setting in enumerate(("no", "zstd", "lz4")):
            server.options["tier-compression"] = setting
            server.restart(kill=number % 2 == 0)
            with server.client() as client:
                self.check(client, count)
                self.write(client, count, 1000)
                count += 1000
            self.checkpoint(server)

    def test_garbage_collection(self):
        """It moves records as they are."""
        server, count = self.mixed(tier_space_target="90", tier_segment_size="1mb")
        with server.client() as client:
            client.must("CONFIG", "SET", "tier-compression", "zstd")
            client.pipeline([["DEL", "small:%d" % number] for number in range(count) if number % 3])
            until(lambda: int(server.info("tiering")["tier_collected_bytes"]) > 0, timeout=60, what="the collection")
            replies = client.pipeline([["GET", "small:%d" % number] for number in range(count)])
        wanted = [None if number % 3 else self.small(number) for number in range(count)]
        self.assertEqual([number for number in range(count) if replies[number] != wanted[number]], [])

    def test_replica_and_replica_of_another_setting(self):
        server, count = self.mixed(appendonly="no")
        for setting in ("no", "zstd"):
            self.checked_replica(server, count, setting)
        self.assertEqual(server.info("stats")["sync_full_image"], "2")

    def test_backup_check_and_restore(self):
        server, count = self.mixed()
        target = os.path.join(server.folder, "backup")
        with server.client(timeout=60) as client:
            client.must("TIER", "BACKUP", target)
            until(lambda: server.info("tiering")["tier_backup_in_progress"] == "0", timeout=60, what="the backup")
        status, text = self.kelvin_check(target, "--compressibility")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, "with tier-compression zstd about [0-9.]+ MB, with lz4 [0-9.]+ MB")
        restored = self.start(dir=temporary_folder(self), restore=target, tier_compression="no")
        with restored.client() as client:
            self.check(client, count)

    def test_a_record_of_a_later_codec_is_said_to_be_of_a_newer_kelvin(self):
        server = self.start(appendonly="yes")
        with server.client() as client:
            client.must("SET", "later", b"the same words again and again " * 10)
            client.must("TIER", "DEMOTE", "later")
        self.checkpoint(server)
        server.kill9()
        shutil.rmtree(os.path.join(server.folder, "store"))
        self.change_codec(server.folder, b"later", 3)
        status, text = self.kelvin_check(server.folder)
        self.assertEqual(status, 2, text)       # and --repair would change nothing
        self.assertIn("it was written by a newer Kelvin", text)
        server.start()
        with server.client() as client:
            self.assertIsInstance(client.call("GET", "later"), Error)
            self.assertIn("it was written by a newer Kelvin", server.info("tiering")["tier_last_error"])

    @staticmethod
    def varint(data, at):
        number = shift = 0
        while True:
            number |= (data[at] & 0x7f) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return number, at

    def change_codec(self, folder, key, codec):
        """Gives the packed record of a key, which has no expiry, another codec, with the right checksum (docs/formats/segment.md)."""
        changed = 0
        for at, _, names_there in os.walk(folder):
            for path in [os.path.join(at, name) for name in names_there if name.endswith(".seg")]:
                with open(path, "rb") as file:
                    data = bytearray(file.read())
                found = data.find(bytes([len(key)]) + key + b"\x09")
                if found < 0:
                    continue
                begin = (found - 6) // 16 * 16
                size, _ = self.varint(data, begin + 4)
                value_at = found + 1 + len(key)
                end = value_at + (size >> 3)
                self.assertEqual(struct.unpack_from("<I", data, begin)[0], crc32c(data[begin + 4:end]))
                self.assertEqual(data[value_at + 5], 1)
                data[value_at + 5] = codec
                struct.pack_into("<I", data, begin, crc32c(data[begin + 4:end]))
                os.unlink(path)
                with open(path, "wb") as file:
                    file.write(data)
                changed += 1
        self.assertEqual(changed, 1)


@kelvin_only
class ManyDatabasesTest(Dictionaries):
    """More databases than there may be dictionaries: those that no record needs any more make room, and no other."""

    def fill(self, server, client, number):
        """Fills a database until it has a dictionary, and some keys that were written with it."""
        client.must("SELECT", number)
        count = 0
        while b"Compression of database %d has a new dictionary" % number not in server.log():
            self.write(client, count, 1000)
            count += 1000
            self.assertLess(count, 200000)
        self.write(client, count, 500)
        keys = ["keep:%d" % key for key in range(20)]
        client.pipeline([["SET", key, self.small(number * 1000 + at)] for at, key in enumerate(keys)])
        self.assertEqual(client.must("TIER", "DEMOTE", *keys), len(keys))

    def check_kept(self, client, kept):
        for number in kept:
            client.must("SELECT", number)
            self.assertEqual(client.pipeline([["GET", "keep:%d" % key] for key in range(20)]), [self.small(number * 1000 + key) for key in range(20)])
            # They are cold again for the next look.
            client.must("TIER", "DEMOTE", *["keep:%d" % key for key in range(20)])

    def test_databases_come_and_go(self):
        server = self.start(**{**self.OPTIONS, "tier_dictionary_after": "64kb", "databases": "32", "tier_segment_size": "1mb"})
        kept = []
        for number in range(22):
            with server.client(timeout=60) as client:
                self.fill(server, client, number)
                if number % 4 == 0:
                    kept.append(number)
                    client.pipeline([["DEL", "small:%d" % key] for key in range(client.must("DBSIZE"))])
                else:
                    client.must("FLUSHDB")
            if number % 6 == 5:
                self.checkpoint(server)
                server.restart(kill=number % 12 == 5)
            with server.client(timeout=60) as client:
                self.check_kept(client, kept)
        self.assertLessEqual(int(server.info("tiering")["tier_dictionaries"]), 16)
        self.checkpoint(server)
        status, text = self.kelvin_check(self.stopped(server))
        self.assertEqual(status, 0, text)
        server.start()
        with server.client(timeout=60) as client:
            self.check_kept(client, kept)

    @staticmethod
    def stopped(server):
        server.kill9()
        shutil.rmtree(os.path.join(server.folder, "store"))
        return server.folder


def temporary_folder(case):
    folder = tempfile.mkdtemp(prefix="kelvin-compression-")
    case.addCleanup(shutil.rmtree, folder, ignore_errors=True)
    return folder


if __name__ == "__main__":
    main()
