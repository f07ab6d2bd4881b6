"""RDB files: the files of Redis are imported completely, and damaged or unknown parts are reported."""
import functools
import glob
import os
import random
import shutil
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK                                                                         # noqa: E402
from support.server import REDIS, Server, StartFailed, redis_tool, scaled, seed_new, until          # noqa: E402

DATABASES = 16
BINARY = b"\x00\r\n\xff\xfe" + bytes(range(256))


# How to read a value of each type; and keys of the types that Kelvin may have, in every encoding that Redis writes.
READ = {b"string": ("GET", []), b"hash": ("HGETALL", []), b"list": ("LRANGE", [0, -1]), b"set": ("SMEMBERS", []),
        b"zset": ("ZRANGE", [0, -1, "WITHSCORES"]), b"stream": ("XRANGE", ["-", "+"])}
MORE = {
    "RPUSH": [["RPUSH", "list", "a", "12", "", BINARY], ["RPUSH", "long list"] + ["element %d" % i for i in range(2000)],
              ["RPUSH", "list of big ones", "x" * 20000, "y"]],
    "SADD": [["SADD", "ints", "1", "-70000", "9000000000000000000"], ["SADD", "set", "a", "12", "", BINARY],
             ["SADD", "large set"] + ["member %d" % i for i in range(2000)], ["SADD", "many ints"] + list(range(0, 3000, 3))],
    "ZADD": [["ZADD", "sorted", "1", "a", "-2.5", "b", "inf", "c", "1e300", ""], ["ZADD", "large sorted"] +
             [word for i in range(2000) for word in (i / 7, "member %d" % i)]],
    "XADD": [["XADD", "stream", "1-1", "f", "v"], ["XADD", "stream", "2-1", "f", "w", "g", "x"], ["XADD", "stream", "3-0", "h", "y"],
             ["XDEL", "stream", "2-1"], ["XGROUP", "CREATE", "stream", "group", "0"],
             ["XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">"]],
}


def state(server):
    """Returns all keys with value and expiry."""
    out = {}
    with server.client(timeout=120) as client:
        for database in range(DATABASES):
            client.must("SELECT", database)
            keys, cursor = [], "0"
            while True:
                cursor, page = client.must("SCAN", cursor, "COUNT", 1000)
                keys += page
                if cursor == b"0":
                    break
            keys = sorted(set(keys))
            kinds = client.pipeline([["TYPE", key] for key in keys])
            values = client.pipeline([[READ[bytes(kind)][0], key] + READ[bytes(kind)][1] for key, kind in zip(keys, kinds)])
            times = client.pipeline([["PEXPIRETIME", key] for key in keys])
            for key, kind, value, ms in zip(keys, kinds, values, times):
                if bytes(kind) == b"hash":
                    value = dict(zip(*[iter(value)] * 2))
                elif bytes(kind) == b"set":
                    value = sorted(value)
                elif bytes(kind) == b"zset":        # Redis 7.2 prints numbers with fewer digits than 7.0
                    value = [(member, float(score)) for member, score in zip(*[iter(value)] * 2)]
                out[database, bytes(key)] = value, ms
    return out


@functools.lru_cache(maxsize=None)
def types():
    """Returns the types, apart from strings and hashes, that the server under test has, according to one command of each."""
    with Server() as server, server.client() as client:
        return tuple(word for word in MORE if client.must("COMMAND", "INFO", word)[0] is not None)


def fill(client, many=2000):
    """Creates values in every encoding that Redis writes."""
    client.pipeline([
        ["SET", "text", "hello"], ["SET", "", "empty name"], ["SET", "empty", ""], ["SET", BINARY, BINARY],
        ["SET", "compressed", "a" * 5000], ["SET", "large", os.urandom(300000)], ["SET", "large and plain", "xyz" * 500000],
        ["SET", "n8", "-100"], ["SET", "n16", "30000"], ["SET", "n32", "2000000000"], ["SET", "n64", "9000000000000000000"],
        ["SET", "123", "a number for a name"], ["SET", "x" * 20000, "a long name"], ["APPEND", "raw", "raw"],
        ["SET", "later", "v", "PXAT", 33177117420123], ["SET", "in an hour", "v", "EX", 3600],
        ["HSET", "small", "f", "v", "n", "12", "", "empty field", "empty value", ""], ["HSET", "expires", "f", "v"],
        ["PEXPIREAT", "expires", 33177117420124], ["HSET", "wide", "f", "w" * 3000], ["SETBIT", "bits", 100000, 1],
        ["SELECT", 3], ["SET", "text", "of another database"], ["SELECT", 15], ["HSET", "last", "db", "15"], ["SELECT", 0]])
    for word in types():
        client.pipeline(MORE[word])
    client.pipeline([["HSET", "table", "field:%d" % i, "value %d" % i] for i in range(3000)])
    client.pipeline([["SET", "many:%d" % i, "value %d of many" % i * (i % 40)] for i in range(many)])


def string(data):
    """Encodes for RDB, for files that the tests write."""
    data = data.encode() if isinstance(data, str) else data
    size = len(data)
    head = bytes([size]) if size < 64 else bytes([0x40 | size >> 8, size & 255]) if size < 16384 else b"\x80" + struct.pack(">I", size)
    return head + data


def rdb(body, version=10):
    """Returns a file without a checksum."""
    return b"REDIS%04d" % version + body + b"\xff" + (bytes(8) if version >= 5 else b"")


def log_folder(server):
    return os.path.join(server.folder, "appendonlydir")


class RdbTest(unittest.TestCase):
    maxDiff = 2000

    def redis(self, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()}, binary=REDIS)
        self.addCleanup(server.discard)
        return server

    def kelvin(self, start=True, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()}, start=False)
        self.addCleanup(server.discard)
        if start:
            server.start()
        return server

    def dump_of_redis(self, many=2000, **options):
        """Returns the path of a dump, its data, and the server that created it (which has ended)."""
        server = self.redis(**options)
        with server.client() as client:
            fill(client, many)
            before = state(server)
            client.must("SAVE")
        server.terminate()
        return os.path.join(server.folder, "dump.rdb"), before, server

    def put(self, server, data, name="dump.rdb"):
        with open(os.path.join(server.folder, name), "wb") as file:
            file.write(data)

    def refused(self, server, *words):
        """Checks that the server does not start and logs the reason."""
        server.launch()
        self.assertEqual(server.wait_end(60), 1, server.log_tail())
        self.assertIsNone(server.alarm())
        for word in words:
            self.assertIn(word, server.log().decode("utf-8", "replace"))

    def test_a_dump_of_redis_is_loaded(self):
        for compression, checksum in (("yes", "yes"), ("no", "no")):
            with self.subTest(compression=compression):
                path, before, _ = self.dump_of_redis(rdbcompression=compression, rdbchecksum=checksum)
                server = self.kelvin(start=False)
                shutil.copy(path, server.folder)
                server.start()
                self.assertGreater(len(before), 2000)
                self.assertEqual(state(server), before)
                server.stop()

    @kelvin_only
    def test_a_dump_to_redis_and_back(self):
        """redis-server loads the dump of Kelvin, and Kelvin loads the dump that redis-server then writes: the data does not change, hot or cold."""
        for options in ({}, {"maxmemory": "16mb"}, {"hash_max_listpack_entries": 0, "set_max_listpack_entries": 0, "zset_max_listpack_entries": 0}):
            with self.subTest(options=options):
                server = self.kelvin(dbfilename="other.rdb", **options)
                with server.client(timeout=60) as client:
                    fill(client, scaled(20000))
                    before = state(server)
                    client.must("SAVE")
                path = os.path.join(server.folder, "other.rdb")
                self.assertEqual(subprocess.run([redis_tool("redis-check-rdb"), path], stdout=subprocess.DEVNULL).returncode, 0)
                redis = Server({}, binary=REDIS, start=False)
                self.addCleanup(redis.discard)
                shutil.copy(path, os.path.join(redis.folder, "dump.rdb"))
                redis.start()
                self.assertEqual(state(redis), before)
                with redis.client() as client:
                    client.must("SAVE")
                again = self.kelvin(start=False)
                shutil.copy(os.path.join(redis.folder, "dump.rdb"), again.folder)
                again.start()
                self.assertEqual(state(again), before)
                for one in (server, redis, again):
                    one.stop()

    def test_small_thresholds_give_tables(self):
        path, before, _ = self.dump_of_redis(many=10, hash_max_listpack_entries=0)
        server = self.kelvin(start=False)
        shutil.copy(path, server.folder)
        server.start()
        self.assertEqual(state(server), before)
        server.stop()

    @kelvin_only
    def test_with_a_log_the_dump_becomes_its_base(self):
        path, before, _ = self.dump_of_redis()
        server = self.kelvin(start=False, appendonly="yes")
        shutil.copy(path, server.folder)
        server.start()
        self.assertEqual(state(server), before)
        with server.client() as client:
            client.must("SET", "after", "the import")
            before[0, b"after"] = b"the import", -1
        until(lambda: glob.glob(os.path.join(log_folder(server), "*.base.image/dataset")), 20, "the first checkpoint")
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "its end")
        self.assertEqual(glob.glob(os.path.join(log_folder(server), "*.rdb")), [])
        for kill in (True, False):
            server.restart(kill=kill)
            self.assertEqual(state(server), before)
        self.assertTrue(os.path.exists(os.path.join(server.folder, "dump.rdb")))
        server.stop()

    @kelvin_only
    def test_a_log_is_preferred_to_a_newer_dump(self):
        path, _, _ = self.dump_of_redis(many=10)
        server = self.kelvin(appendonly="yes")
        with server.client() as client:
            client.must("SET", "ours", "v")
        server.terminate()
        shutil.copy(path, server.folder)
        server.launch()
        if server.wait_ready():
            self.assertEqual(state(server), {(0, b"ours"): (b"v", -1)})
        self.assertIn(b"dump.rdb", server.log_new())
        server.discard()

    def killed_again_and_again(self, prepare, before):
        """Starts that are killed at any moment leave either the complete old state or the complete new one."""
        rng = random.Random(seed_new())
        took = None
        for round_ in range(scaled(3)):
            server = self.kelvin(start=False, appendonly="yes", tier_write_buffer="1mb")
            prepare(server.folder)
            for _ in range(4):
                if took is None:
                    break
                server.launch()
                time.sleep(rng.random() * took)
                server.kill9()
            began = time.monotonic()
            server.start()
            took = time.monotonic() - began + 0.3
            self.assertEqual(state(server), before, "round %d" % round_)
            server.stop()

    @kelvin_only
    def test_kills_during_the_import_of_a_dump_lose_nothing(self):
        path, before, _ = self.dump_of_redis(many=20000)
        self.killed_again_and_again(lambda folder: shutil.copy(path, folder), before)

    @kelvin_only
    def test_kills_during_the_import_of_an_old_log_lose_nothing(self):
        folder, before = self.log_of_redis(many=5000)
        old = self.old_log(folder)

        def prepare(target):
            with open(os.path.join(target, "appendonly.aof"), "wb") as file:
                file.write(old)
        self.killed_again_and_again(prepare, before)

    def log_of_redis(self, many=500, rewrite=True, **options):
        """Returns the folder of a log of Redis whose base has data, and the data."""
        server = self.redis(appendonly="yes", **options)
        with server.client() as client:
            fill(client, many)
            if rewrite:
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the rewrite")
            client.must("SET", "after", "the rewrite")
            client.must("DEL", "many:1")
            client.must("HSET", "table", "field:0", "changed")
        before = state(server)
        server.terminate()
        return log_folder(server), before

    def old_log(self, folder):
        """The single file before Redis 7 had the same bytes, in one file."""
        data = b""
        for pattern in ("*.base.*", "*.incr.aof"):
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                with open(path, "rb") as file:
                    data += file.read()
        return data

    def test_a_log_of_redis_is_imported(self):
        for preamble in ("yes", "no"):
            for rewrite in (True, False):
                with self.subTest(preamble=preamble, rewrite=rewrite):
                    folder, before = self.log_of_redis(rewrite=rewrite, aof_use_rdb_preamble=preamble)
                    server = self.kelvin(start=False, appendonly="yes")
                    shutil.copytree(folder, log_folder(server))
                    server.start()
                    self.assertEqual(state(server), before)
                    server.restart(kill=True)
                    self.assertEqual(state(server), before)
                    server.stop()

    @kelvin_only
    def test_a_log_of_before_redis_7_is_imported(self):
        for preamble in ("yes", "no"):
            with self.subTest(preamble=preamble):
                folder, before = self.log_of_redis(aof_use_rdb_preamble=preamble)
                server = self.kelvin(start=False, appendonly="yes")
                self.put(server, self.old_log(folder) + b"*3\r\n$3\r\nSET\r\n$4\r\ntorn", "appendonly.aof")
                server.start()
                self.assertEqual(state(server), before)
                self.assertFalse(os.path.exists(os.path.join(server.folder, "appendonly.aof")))
                with server.client() as client:
                    client.must("SET", "ours", "v")
                    before[0, b"ours"] = b"v", -1
                server.restart(kill=True)
                self.assertEqual(state(server), before)
                server.stop()

    @kelvin_only
    def test_an_old_log_that_cannot_be_loaded_is_not_changed(self):
        server = self.kelvin(start=False, appendonly="yes")
        self.put(server, b"*1\r\n$7\r\nNOTHING\r\n", "appendonly.aof")
        self.refused(server, "appendonly.aof")
        self.assertTrue(os.path.exists(os.path.join(server.folder, "appendonly.aof")))
        self.assertFalse(os.path.exists(os.path.join(log_folder(server), "appendonly.aof.manifest")))

    @kelvin_only
    def test_a_dump_larger_than_memory_is_loaded_into_the_store(self):
        redis = self.redis()
        count = scaled(60000)
        with redis.client() as client:
            client.pipeline([["SET", "k:%d" % i, "%08d" % i * 100] for i in range(count)])
            client.must("SAVE")
        redis.terminate()
        for appendonly in ("no", "yes"):
            server = self.kelvin(start=False, maxmemory="24mb", appendonly=appendonly)
            shutil.copy(os.path.join(redis.folder, "dump.rdb"), server.folder)
            server.start()
            with server.client(timeout=120) as client:
                self.assertEqual(client.must("DBSIZE"), count)
                values = client.pipeline([["GET", "k:%d" % i] for i in range(count)])
            for i, value in enumerate(values):
                self.assertEqual(value, b"%08d" % i * 100)
            self.assertLess(int(server.info("memory")["used_memory"]), 26 << 20)
            server.stop()

    @kelvin_only
    def test_a_dump_that_does_not_fit_is_refused(self):
        redis = self.redis()
        with redis.client() as client:
            client.pipeline([["SET", "k:%d" % i, "x" * 1000] for i in range(30000)])
            client.must("SAVE")
        redis.terminate()
        server = self.kelvin(start=False, maxmemory="20mb", tier_enabled="no")
        shutil.copy(os.path.join(redis.folder, "dump.rdb"), server.folder)
        self.refused(server, "does not fit into maxmemory")
        for appendonly in ("no", "yes"):
            server = self.kelvin(start=False, maxmemory="20mb", tier_enabled="no", maxmemory_policy="allkeys-lru", appendonly=appendonly)
            shutil.copy(os.path.join(redis.folder, "dump.rdb"), server.folder)
            server.start()
            with server.client() as client:
                self.assertTrue(1000 < client.must("DBSIZE") < 30000)
                if appendonly == "yes":     # the checkpoint needs memory as well
                    until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the checkpoint's end")
                until(lambda: client.call("SET", "new", "v") == OK, 20, "memory for a key")
            if appendonly == "yes":
                server.restart(kill=True)
                with server.client() as client:
                    self.assertTrue(1000 < client.must("DBSIZE") < 30000)
                    self.assertEqual(client.must("GET", "new"), b"v")
            server.stop()

    @kelvin_only
    def test_a_duplicate_key_is_found_even_when_it_is_cold(self):
        body = b"\xfe\x00" + b"".join(b"\x00" + string("k:%d" % i) + string(os.urandom(1000)) for i in range(30000))
        server = self.kelvin(start=False, maxmemory="16mb")
        self.put(server, rdb(body + b"\x00" + string("k:0") + string("again")))
        self.refused(server, "'k:0' is there twice, the second time at offset %d" % (9 + len(body)))

    def test_expired_keys_are_skipped(self):
        past, future = int(time.time() * 1000) - 1000, int(time.time()) + 10000
        body = b"\xfe\x00" + b"\xfc" + struct.pack("<q", past) + b"\x00" + string("gone") + string("v")
        body += b"\xfd" + struct.pack("<i", past // 1000) + b"\x00" + string("gone, too") + string("v")
        body += b"\xfd" + struct.pack("<i", future) + b"\x00" + string("lives") + string("v") + b"\x00" + string("for ever") + string("v")
        server = self.kelvin(start=False)
        self.put(server, rdb(body))
        server.start()
        self.assertEqual(state(server), {(0, b"lives"): (b"v", future * 1000), (0, b"for ever"): (b"v", -1)})
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 2)
        server.stop()
        if server.kelvin:       # in a log's base they may still be needed; no client sees them
            server = self.kelvin(start=False, appendonly="yes")
            self.put(server, rdb(body))
            server.start()
            self.assertEqual(len(state(server)), 2)
            until(lambda: server.info("keyspace")["db0"].startswith("keys=2,"), 20, "deleting expired keys")
            server.restart(kill=True)
            self.assertEqual(len(state(server)), 2)
            server.stop()

    def test_empty_collections_are_skipped(self):
        ziplist = b"\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff"
        bodies = [(4, b"\x00"), (13, string(ziplist)), (16, string(b"\x07\x00\x00\x00\x00\x00\xff"))]
        if "SADD" in types():
            bodies += [(2, b"\x00")]
        if "ZADD" in types():
            bodies += [(3, b"\x00"), (5, b"\x00"), (12, string(ziplist)), (17, string(b"\x07\x00\x00\x00\x00\x00\xff"))]
        if "RPUSH" in types():
            bodies += [(1, b"\x00"), (10, string(ziplist)), (14, b"\x00"), (18, b"\x00")]
        file = b"\xfe\x00" + b"".join(bytes([kind]) + string("empty %d" % kind) + body for kind, body in bodies)
        server = self.kelvin(start=False)
        self.put(server, rdb(file + b"\x00" + string("k") + string("v")))
        server.start()
        self.assertEqual(state(server), {(0, b"k"): (b"v", -1)})
        self.assertIn(b"empty keys skipped: %d" % len(bodies), server.log())
        server.stop()

    def test_heat_is_imported(self):
        redis = self.redis(maxmemory_policy="allkeys-lfu", lfu_decay_time=0)
        with redis.client() as client:
            client.must("SET", "hot", "v")
            client.must("SET", "cold", "v")
            client.pipeline([["GET", "hot"]] * 3000)
            heat = client.must("OBJECT", "FREQ", "hot")
            client.must("SAVE")
        redis.terminate()
        server = self.kelvin(start=False, maxmemory_policy="allkeys-lfu", lfu_decay_time=0)
        shutil.copy(os.path.join(redis.folder, "dump.rdb"), server.folder)
        server.start()
        with server.client() as client:
            self.assertGreater(heat, 20)
            self.assertEqual(client.must("OBJECT", "FREQ", "hot"), heat)
            self.assertEqual(client.must("OBJECT", "FREQ", "cold"), 5)
        server.stop()

    def test_formats_of_old_versions_are_read(self):
        """Versions 1 to 9 as the respective versions of Redis wrote them: zipmap, ziplist, LZF, no checksum before version 5, seconds."""
        zipmap = b"\x02\x01a\x03\x02xyz\x00\x00\x02bb\x01\x007\xff"
        ziplist = (b"\x3c\x00\x00\x00\x31\x00\x00\x00\x0c\x00\x00\x01a\x03\xf4\x02\x02bb\x04\xfe\x85\x03\x01c\x03\xc0\x00\x80\x04\x01d\x03\xf0"
                   b"\x01\x02\x80\x05\x01e\x03\xd0\x00\x00\x00\x80\x06\x01f\x03\xe0\x00\x00\x00\x00\x00\x00\x00\x80\xff")
        lzf = b"\xc3\x0a\x40\x78\x02aba\xe0\x6a\x01\x01ab"
        want = {(0, b"m"): ({b"a": b"xyz", b"bb": b"7"}, -1), (0, b"s"): (b"ab" * 60, -1), (2, b"h"): ({b"f": b"1234"}, -1),
                (2, b"i"): (b"-2", -1)}
        early = b"\xfe\x00" + b"\x09" + string("m") + string(zipmap) + b"\x00" + string("s") + lzf
        early += b"\xfe\x02\x04" + string("h") + b"\x01" + string("f") + b"\xc1\xd2\x04" + b"\x00" + string("i") + b"\xc0\xfe"
        for version in range(3, 13):
            server = self.kelvin(start=False)
            if not server.kelvin and version > 10:
                break
            body = early
            expected = dict(want)
            if version >= 4:
                body += b"\xfe\x05\x0d" + string("z") + string(ziplist)
                expected[5, b"z"] = {b"a": b"3", b"bb": b"-123", b"c": b"-32768", b"d": b"-8388095", b"e": b"-2147483648",
                                     b"f": b"-9223372036854775808"}, -1
            self.put(server, rdb(body, version))
            server.start()
            found = state(server)
            self.assertEqual({key for key in found}, set(expected), "version %d" % version)
            for key in want:
                self.assertEqual(found[key], expected[key], "version %d" % version)
            if version >= 4:
                self.assertEqual(len(found[5, b"z"][0]), 6)
            server.stop()

    @kelvin_only
    def test_unsupported_parts_are_reported(self):
        key = b"\x00" + string("k") + string("v")
        module = b"\x07" + string("the module's key") + b"\x81" + bytes(range(8)) + b"\x02\x05\x05" + string("data") + b"\x00"
        for body, words in ((b"\xfe\x00" + key + module, ("the module's key", "type 7", "offset 16")),
                            (b"\xfe\x00" + key + b"\x1e" + string("odd one"), ("odd one", "type 30", "offset")),
                            (b"\xfe\x40\xc8" + key, ("database 200", "16 databases")),
                            (b"\xf5" + string("#!lua name=x\n"), ("library of functions", "offset 9")),
                            (b"\xfe\x00" + key + key, ("there twice", "'k'"))):
            server = self.kelvin(start=False)
            self.put(server, rdb(body))
            self.refused(server, *words)
        server = self.kelvin(start=False)
        self.put(server, rdb(b"\xfe\x00" + key, 13))
        self.refused(server, "version 13")

    @kelvin_only
    def test_damage_is_refused_with_its_offset(self):
        path, before, _ = self.dump_of_redis(many=100)
        with open(path, "rb") as file:
            good = file.read()
        rng = random.Random(seed_new())
        for round_ in range(scaled(12)):
            bad = bytearray(good)
            if round_ % 2 == 0:
                bad = bad[:rng.randrange(1, len(bad))]
            else:
                bad[rng.randrange(9, len(bad) - 8)] ^= 1 << rng.randrange(8)
            server = self.kelvin(start=False, appendonly="yes" if round_ % 3 == 0 else "no")
            self.put(server, bytes(bad))
            self.refused(server, "offset")
            self.put(server, good)
            server.start()
            self.assertEqual(state(server), before)
            server.stop()

    @kelvin_only
    def test_an_empty_dump_is_accepted(self):
        for appendonly in ("no", "yes"):
            server = self.kelvin(start=False, appendonly=appendonly)
            self.put(server, rdb(b""))
            server.start()
            self.assertEqual(state(server), {})
            server.restart()
            server.stop()

    @kelvin_only
    def test_shutdown_does_not_wait_for_the_import(self):
        path, _, _ = self.dump_of_redis(many=scaled(100000))
        server = self.kelvin(start=False, appendonly="yes")
        shutil.copy(path, server.folder)
        server.launch()
        until(lambda: b"Server initialized" in server.log_new(), 20, "the start")
        self.assertEqual(server.terminate(20), 0)
        self.assertIsNone(server.alarm())
        server.discard()


if __name__ == "__main__":
    main()
