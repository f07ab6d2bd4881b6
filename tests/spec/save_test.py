"""SAVE, BGSAVE, LASTSAVE, save points, the dump at SHUTDOWN: replies compared with redis-server, and every dump loaded by redis-server and
compared key by key. The identity of the data set in dumps and logs."""
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from crash.disk_test import SmallDisk                                                              # noqa: E402
from support.case import PairCase, kelvin_only, main                                                # noqa: E402
from support.resp import OK, Closed, Error, Status                                                  # noqa: E402
from support.server import REDIS, Server, is_redis, scaled, seed_new, temporary_files, until        # noqa: E402

STARTED = Status(b"Background saving started")
MISCONF = b"MISCONF Redis is configured to save RDB snapshots"


def started(case, options=None, **more):
    server = Server({name.replace("_", "-"): value for name, value in (options or {}).items()}, **more)
    case.addCleanup(server.discard)
    return server


def dump_path(server, name="dump.rdb"):
    return os.path.join(server.folder, name)


def saved(server, timeout=60):
    """Waits for the end of a background save; returns the fields of INFO."""
    until(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0", timeout, "the end of the save")
    return server.info("persistence")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def leftovers(server):
    return temporary_files(server.folder)


READ = {b"string": [b"GET", b"key"], b"hash": [b"HGETALL", b"key"], b"list": [b"LRANGE", b"key", 0, -1], b"set": [b"SMEMBERS", b"key"],
        b"zset": [b"ZRANGE", b"key", 0, -1, b"WITHSCORES"]}


def contents(client, database):
    """Returns {key: (type, value, expiry in ms since 1970 or -1)} of one database."""
    client.must("SELECT", database)
    keys, cursor = set(), b"0"
    while True:
        cursor, page = client.must("SCAN", cursor, "COUNT", 1000)
        keys.update(page)
        if cursor == b"0":
            break
    keys = sorted(keys)
    found = {}
    for at in range(0, len(keys), 500):
        part = keys[at:at + 500]
        types = [bytes(kind) for kind in client.pipeline(["TYPE", key] for key in part)]
        times = client.pipeline(["PEXPIRETIME", key] for key in part)
        values = client.pipeline([word if word != b"key" else key for word in READ[kind]] for key, kind in zip(part, types))
        for key, kind, value, when in zip(part, types, values, times):
            if kind == b"hash":
                value = sorted(zip(value[::2], value[1::2]))
            elif kind == b"set":
                value = sorted(value)
            elif kind == b"zset":               # 7.0 and 7.2 print doubles differently
                value = list(zip(value[::2], map(float, value[1::2])))
            found[key] = (kind, value, when)
    return found


class Loaded:
    """A redis-server on a copy of a dump."""

    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="kelvin-dump-")
        shutil.copy(path, os.path.join(self.folder, "dump.rdb"))
        self.server = Server({}, binary=REDIS, folder=self.folder)

    def __enter__(self):
        return self.server

    def __exit__(self, *_):
        self.server.discard()
        shutil.rmtree(self.folder, ignore_errors=True)


class RepliesTest(PairCase):
    options = {"appendonly": "yes", "enable-protected-configs": "yes"}

    def setUp(self):
        super().setUp()
        for server in (self.server, self.oracle):
            saved(server)
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0")

    def test_arguments(self):
        self.both("""
            SAVE x
            BGSAVE foo
            BGSAVE SCHEDULE foo
            BGSAVE ""
            LASTSAVE x
            BGREWRITEAOF x
            SHUTDOWN foo
            COMMAND INFO save bgsave lastsave bgrewriteaof shutdown
            CONFIG SET dbfilename a/b
            CONFIG SET save "1"
            CONFIG SET save "1 -1"
            CONFIG SET save "0 1"
            CONFIG SET stop-writes-on-bgsave-error maybe
            CONFIG SET rdbchecksum no
            CONFIG GET save
            CONFIG SET save "900 1 300 10"
            CONFIG GET save
            CONFIG SET save ""
            CONFIG GET save
        """)

    def test_save_replies_when_the_dump_is_complete(self):
        for server in (self.server, self.oracle):
            if os.path.exists(dump_path(server)):
                os.remove(dump_path(server))
        before = int(time.time())
        self.both("SET k v\nSAVE\nBGSAVE\n")
        for server in (self.server, self.oracle):
            self.assertEqual(saved(server)["rdb_last_bgsave_status"], "ok")
            self.assertTrue(os.path.exists(dump_path(server)))
        self.assertGreaterEqual(self.c.must("LASTSAVE"), before)
        self.assertLessEqual(self.c.must("LASTSAVE"), time.time() + 1)

    def test_info_has_the_state_of_saves(self):
        fields = ("rdb_changes_since_last_save", "rdb_bgsave_in_progress", "rdb_last_bgsave_status", "rdb_current_bgsave_time_sec",
                  "rdb_last_load_keys_expired", "rdb_last_load_keys_loaded", "current_save_keys_processed", "current_save_keys_total",
                  "aof_rewrite_scheduled")

        def compare():
            both = [server.info("persistence") for server in (self.server, self.oracle)]
            self.assertEqual(*({name: info[name] for name in fields} for info in both))
            return both
        self.both("SAVE\n")
        compare()
        counts = [int(info["rdb_saves"]) for info in compare()]
        self.both("SET a 1\nSET b 2\nHSET h f v g w\nDEL a\nDEL missing\n")
        compare()
        self.both("BGSAVE\n")
        for server in (self.server, self.oracle):
            saved(server)
        for info, count in zip(compare(), counts):
            self.assertEqual(int(info["rdb_saves"]), count + 1)
            self.assertIn(info["rdb_last_bgsave_time_sec"], ("0", "1"))

    def test_while_a_save_runs(self):
        self.both([["MSET"] + [word for i in range(15) for word in ("k%d" % i, i)]])
        self.both("""
            CONFIG SET rdb-key-save-delay 100000
            BGSAVE
            BGSAVE
            BGSAVE SCHEDULE
            SAVE
            BGREWRITEAOF
            BGREWRITEAOF
        """)
        for server in (self.server, self.oracle):
            until(lambda: server.info("persistence")["current_save_keys_total"] == "15")
            with server.client() as client:
                client.must("SET", "k1", "changed")
                client.must("CONFIG", "SET", "rdb-key-save-delay", 0)
            info = server.info("persistence")
            self.assertEqual((info["rdb_bgsave_in_progress"], info["aof_rewrite_scheduled"]), ("1", "1"))
            self.assertIn(info["rdb_current_bgsave_time_sec"], ("0", "1", "2"))
        for server in (self.server, self.oracle):
            count = int(server.info("persistence")["aof_rewrites"])
            info = saved(server)
            self.assertEqual((info["rdb_last_bgsave_status"], info["rdb_changes_since_last_save"]), ("ok", "1"))
            self.assertIn(info["rdb_last_bgsave_time_sec"], ("1", "2", "3"))
            # A scheduled save starts by itself.
            until(lambda: server.info("persistence")["aof_rewrite_scheduled"] == "0")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0")
            self.assertGreaterEqual(int(server.info("persistence")["aof_rewrites"]), count)
        with Loaded(dump_path(self.server)) as redis, redis.client() as client:
            self.assertEqual(client.must("GET", "k1"), b"1")

    def test_while_a_rewrite_runs(self):
        self.both("SET k v\n")
        for server in (self.server, self.oracle):
            with server.client() as client:
                saves = int(server.info("persistence")["rdb_saves"])
                self.assertEqual(client.pipeline([["BGREWRITEAOF"], ["BGREWRITEAOF"], ["BGSAVE"], ["BGSAVE", "SCHEDULE"]]), [
                    Status(b"Background append only file rewriting started"),
                    Error(b"ERR Background append only file rewriting already in progress"),
                    Error(b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to "
                          b"schedule a BGSAVE whenever possible."),
                    Status(b"Background saving scheduled")])
                until(lambda: int(server.info("persistence")["rdb_saves"]) == saves + 1)
                saved(server)

    def test_save_does_not_block_other_clients(self):
        """Unlike Redis: only the client that called SAVE waits."""
        if is_redis():
            self.skipTest("SAVE blocks redis-server")
        self.c.must("MSET", *[word for i in range(10) for word in ("k%d" % i, i)])
        self.c.must("CONFIG", "SET", "rdb-key-save-delay", 100000)
        with self.server.client() as waiting:
            waiting.send(b"SAVE\r\n")
            until(lambda: self.server.info("persistence")["rdb_bgsave_in_progress"] == "1")
            began = time.monotonic()
            self.c.must("SET", "k1", "changed")
            self.assertEqual(self.c.must("GET", "k1"), b"changed")
            self.assertLess(time.monotonic() - began, 0.5)
            self.assertEqual(self.c.call("SAVE"), Error(b"ERR Background save already in progress"))
            self.assertEqual(waiting.receive(), OK)
            # A client that disconnects before the end affects no other client.
            waiting.send(b"SAVE\r\n")
            until(lambda: self.server.info("persistence")["rdb_bgsave_in_progress"] == "1")
        self.c.must("CONFIG", "SET", "rdb-key-save-delay", 0)
        saved(self.server)
        self.c.must("SAVE")

    def test_dbfilename(self):
        self.both("SET k v\nCONFIG SET dbfilename other.rdb\nSAVE\nCONFIG SET dbfilename dump.rdb\n")
        for server in (self.server, self.oracle):
            self.assertTrue(os.path.exists(dump_path(server, "other.rdb")))
            os.remove(dump_path(server, "other.rdb"))


class FailureTest(unittest.TestCase):
    """A save that fails, on both: the rename fails if there is a directory with the name of the dump."""

    def pair(self, options):
        return [started(self, options), started(self, options, binary=REDIS)]

    def break_dump(self, server):
        os.makedirs(os.path.join(dump_path(server), "in-the-way"))

    def repair_dump(self, server):
        shutil.rmtree(dump_path(server))

    def broken(self, server, client):
        client.must("SET", "k", "v")
        self.break_dump(server)
        self.assertEqual(client.must("BGSAVE"), STARTED)
        info = saved(server)
        self.assertEqual(info["rdb_last_bgsave_status"], "err")
        self.assertEqual(leftovers(server), [])

    def test_writes_are_refused_until_one_succeeds(self):
        replies = []
        for server in self.pair({"save": "3600 1"}):
            with server.client() as client:
                self.broken(server, client)
                told = []
                replies.append(told)

                def tell(*args):
                    told.append((args, client.call(*args)))
                for args in (["SET", "k", "w"], ["DEL", "k"], ["FLUSHALL"], ["PING"], ["GET", "k"], ["EXISTS", "k"], ["ECHO", "x"],
                             ["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"], ["SET", "k", "1"], ["PING"],
                             ["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"], ["SET", "k", "2"],
                             ["CONFIG", "SET", "save", ""], ["SET", "k", "3"], ["CONFIG", "SET", "save", "3600 1"],
                             ["SET", "k", "4"], ["GET", "k"]):
                    tell(*args)
                told.append(server.info("errorstats"))
                self.assertTrue(client.call("SAVE").startswith(b"ERR"))         # Redis gives no reason
                self.repair_dump(server)
                tell("SET", "k", "5")
                self.assertEqual(client.must("BGSAVE"), STARTED)
                self.assertEqual(saved(server)["rdb_last_bgsave_status"], "ok")
                tell("SET", "k", "6")
                tell("PING")
        self.assertTrue(replies[0][0][1].startswith(MISCONF))
        for ours, theirs in zip(*replies):
            self.assertEqual(ours, theirs)

    def test_a_successful_save_allows_writes_again(self):
        for server in self.pair({"save": "3600 1"}):
            with server.client() as client:
                self.broken(server, client)
                self.repair_dump(server)
                self.assertTrue(client.call("SET", "k", "w").startswith(MISCONF))
                self.assertEqual(client.must("SAVE"), OK)
                self.assertEqual(client.must("SET", "k", "w"), OK)

    def test_without_save_points_a_failure_refuses_no_writes(self):
        for server in self.pair({}):
            with server.client() as client:
                self.broken(server, client)
                self.assertEqual(client.must("SET", "k", "w"), OK)

    def test_save_points_try_again(self):
        for server in self.pair({"save": "1 1"}):
            with server.client() as client:
                self.break_dump(server)
                client.must("SET", "k", "v")
                until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err")
                self.repair_dump(server)
                began = time.monotonic()
                until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "ok")
                self.assertGreater(time.monotonic() - began, 2)     # 5 s after the first, which was some time ago
                self.assertEqual(client.must("SET", "k", "w"), OK)

    def limit(self, server, size):
        hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))

    @kelvin_only
    def test_a_full_disk_keeps_the_previous_dump(self):
        server = started(self, {"save": "3600 1"})
        with server.client() as client:
            client.must("SET", "k", "old")
            client.must("SAVE")
            before = read_bytes(dump_path(server))
            for i in range(300):
                client.must("SET", "k%d" % i, random.Random(i).randbytes(1000))
            # The limit need not be large enough for the store's files: that is a failure as well.
            self.limit(server, 100000)
            self.assertEqual(client.must("BGSAVE"), STARTED)
            self.assertEqual(saved(server)["rdb_last_bgsave_status"], "err")
            self.assertRegex(client.call("SAVE"), rb"ERR .*(File too large|in error|I/O error)")
            self.assertTrue(client.call("SET", "k", "w").startswith(MISCONF))
            self.limit(server, None)
            self.assertEqual(read_bytes(dump_path(server)), before)
            self.assertEqual(leftovers(server), [])
            self.assertRegex(server.log(), rb"Background saving error: .*(File too large|in error|I/O error)")
            until(lambda: client.call("SAVE") == OK)        # the store may have to recover first
            self.assertEqual(client.must("SET", "k", "w"), OK)
        server.stop()


    @kelvin_only
    def test_a_file_system_that_is_full(self):
        """The dump's; the store is elsewhere, so that its image can't be linked into `dir`."""
        disk = SmallDisk(1)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        elsewhere = tempfile.mkdtemp(prefix="kelvin-store-")
        self.addCleanup(shutil.rmtree, elsewhere, True)
        server = Server({"save": "3600 1", "dir": disk.path, "tier-dir": os.path.join(elsewhere, "store")}, prefix=disk.prefix)
        self.addCleanup(server.discard)
        path = os.path.join(disk.outside, "dump.rdb")
        with server.client() as client:
            client.must("SET", "k", "old")
            self.assertEqual(client.must("SAVE"), OK)
            before = read_bytes(path)
            for i in range(1500):
                client.must("SET", "k%d" % i, random.Random(i).randbytes(1000))
            for _ in range(2):
                self.assertEqual(client.call("SAVE"), Error(b"ERR Write error saving the RDB file: No space left on device"))
                self.assertEqual(client.must("BGSAVE"), STARTED)
                self.assertEqual(saved(server)["rdb_last_bgsave_status"], "err")
            self.assertTrue(client.call("SET", "k", "w").startswith(MISCONF))
            self.assertEqual(client.call("SHUTDOWN"), Error(b"ERR Errors trying to SHUTDOWN. Check logs."))
            self.assertEqual(read_bytes(path), before)
            self.assertEqual(sorted(os.listdir(disk.outside)), ["dump.rdb"])
            self.assertEqual(os.listdir(elsewhere), ["store"])
            client.must("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
            client.must("FLUSHALL")
            client.must("SET", "k", "new")
            client.must("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
            self.assertEqual(client.must("SAVE"), OK)
            self.assertEqual(client.must("SET", "k", "w"), OK)
        self.assertNotEqual(read_bytes(path), before)
        self.assertEqual(server.terminate(), 0)
        self.assertIsNone(server.alarm())


class SavePointsTest(unittest.TestCase):
    def test_a_save_point_is_kept(self):
        for binary in (None, REDIS):
            server = started(self, {"save": ""}, binary=binary)
            with server.client() as client:
                client.must("SET", "k", "v")
                time.sleep(1.3)
                self.assertFalse(os.path.exists(dump_path(server)))
                client.must("CONFIG", "SET", "save", "3600 1 1 3")
                self.assertEqual(client.must("CONFIG", "GET", "save")[1], b"3600 1 1 3")
                client.must("SET", "k", "w")
                time.sleep(1.5)
                self.assertFalse(os.path.exists(dump_path(server)))
                client.must("SET", "k", "x")
                until(lambda: os.path.exists(dump_path(server)))
                until(lambda: server.info("persistence")["rdb_changes_since_last_save"] == "0")
                self.assertRegex(server.log(), rb"\* 3 changes in 1 seconds. Saving...")
                self.assertRegex(server.log(), rb"\* Background saving started")
                until(lambda: re.search(rb"\* DB saved on disk", server.log()))
                until(lambda: re.search(rb"\* Background saving terminated with success", server.log()))
            server.stop()

    def test_the_default_is_that_of_redis(self):
        for binary in (None, REDIS):
            server = started(self, {"save": None}, binary=binary)
            with server.client() as client:
                self.assertEqual(client.must("CONFIG", "GET", "save"), [b"save", b"3600 1 300 100 60 10000"])
            server.stop()


class ContentsTest(unittest.TestCase):
    def compare(self, server, databases, expected=None):
        expected = expected or {}
        with Loaded(dump_path(server)) as redis, redis.client() as theirs, server.client() as ours:
            for database in range(databases):
                wanted = expected.get(database) or contents(ours, database)
                found = contents(theirs, database)
                self.assertEqual(set(wanted), set(found), "database %d" % database)
                for key in wanted:
                    self.assertEqual(wanted[key], found[key], key)
            theirs.must("SELECT", databases)
            self.assertEqual(theirs.must("DBSIZE"), 0)

    def fill(self, client, rng, count):
        far = int(time.time() * 1000) + 10 ** 7
        commands = []
        for database in (0, 1, 2):
            commands.append(["SELECT", database])
            for i in range(count):
                key = rng.choice((b"key:%d" % i, b"%d" % i, rng.randbytes(rng.choice((1, 5, 40))), b"k" * rng.choice((1, 300, 3000))))
                kind = rng.random()
                if kind < 0.5:
                    commands.append(["SET", key, rng.choice((b"", b"%d" % rng.randrange(-1 << 63, 1 << 63), b"%d" % rng.randrange(300),
                                                             rng.randbytes(rng.choice((3, 70, 20000))), b"a" * 5000))])
                else:
                    commands.append(["DEL", key])
                    count, words = rng.choice((1, 3, 30, 600)), []
                    family = rng.choice(("HSET", "RPUSH", "SADD", "ZADD"))
                    for n in range(count):
                        value = rng.choice((b"%d" % n, rng.randbytes(20), b"v" * 80))
                        words += [b"f%d" % n, value] if family == "HSET" else [n / 7, value] if family == "ZADD" else [value]
                    commands.append([family, key] + words)
                if rng.random() < 0.4:
                    commands.append(["PEXPIREAT", key, far + rng.randrange(10 ** 6)])
        client.pipeline(commands)

    def test_all_data_is_in_the_dump(self):
        seed = seed_new()
        for options in ({}, {"maxmemory-policy": "allkeys-lfu"}, {"rdbchecksum": "no"}, {"appendonly": "yes"}, {"rdbcompression": "no"}):
            server = started(self, options)
            with self.subTest(seed=seed, options=options), server.client() as client:
                self.fill(client, random.Random(seed), scaled(400))
                client.must("SAVE")
                self.compare(server, 3)
                # Once more, with all keys cold, and after a start without data.
                if server.kelvin:
                    for database in range(3):
                        client.must("SELECT", database)
                        keys = client.must("KEYS", "*")
                        self.assertGreater(client.must("TIER", "DEMOTE", *keys), 0)
                    client.must("SAVE")
                    self.compare(server, 3)
                client.must("FLUSHALL")
                client.must("SAVE")
                self.compare(server, 3)
            server.stop()

    def test_compression_is_like_that_of_redis(self):
        """Repetitive values are small, about as in a dump of redis-server; not if compression is off."""
        sizes = {}
        for binary in (None, REDIS):
            server = started(self, {"hash-max-listpack-value": "200"}, binary=binary)
            with server.client() as client:
                client.pipeline(["SET", "s%d" % i, b"abc %d " % i * 100] for i in range(200))
                client.pipeline(["HSET", "h%d" % i] + [word for n in range(20) for word in ("field%d" % n, "value of a field")]
                                for i in range(200))
                client.pipeline(["HSET", "big"] + ["f%d" % n, "some text, some text, some text, and some more of it, of it"]
                                for n in range(2000))
                for compression in ("yes", "no"):
                    client.must("CONFIG", "SET", "rdbcompression", compression)
                    client.must("SAVE")
                    sizes[binary, compression] = os.path.getsize(dump_path(server))
                    if binary is None:
                        self.compare(server, 1)
            server.stop()
        self.assertLess(sizes[None, "yes"], sizes[None, "no"] * 0.6)
        self.assertLess(abs(sizes[None, "yes"] - sizes[REDIS, "yes"]), sizes[REDIS, "yes"] * 0.15, sizes)
        self.assertLess(abs(sizes[None, "no"] - sizes[REDIS, "no"]), sizes[REDIS, "no"] * 0.05, sizes)

    def test_expired_keys_are_not_loaded(self):
        server = started(self)
        with server.client() as client:
            client.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
            client.must("SET", "gone", "v", "PX", 1)
            client.must("SET", "stays", "v")
            time.sleep(0.01)
            client.must("SAVE")
        with Loaded(dump_path(server)) as redis, redis.client() as theirs:
            self.assertEqual(theirs.must("KEYS", "*"), [b"stays"])
        server.stop()

    @kelvin_only
    def test_a_dump_of_cold_keys_during_writes(self):
        """More data than memory, and permanent writers: the dump is of one instant. Each writer sets a series of keys to its next number,
        in order; at any instant the keys up to some position have one number, and the others the previous one."""
        seed = seed_new()
        server = started(self, {"maxmemory": "24mb", "maxmemory-policy": "noeviction"})
        count, row, stop, problems = scaled(60000), 20, threading.Event(), []
        self.repeat = 60 * 60000 // count       # always about 29 MB
        with server.client(timeout=120) as client:
            for at in range(0, count, 1000):
                client.pipeline(["SET", b"c%d" % i, struct.pack(">Q", i) * self.repeat] + (["EX", "100000"] if i % 3 == 0 else [])
                                for i in range(at, at + 1000))
            self.assertGreater(int(server.info("tiering")["tier_cold_keys"]), count // 20)

            def write(number):
                rng = random.Random(seed + number)
                turn = 0
                try:
                    with server.client(timeout=120) as mine:
                        while not stop.is_set():
                            turn += 1
                            for place in range(row):
                                mine.must("SET", "w%d:%d" % (number, place), turn)
                            mine.must("GET", b"c%d" % rng.randrange(count))
                except Exception as error:                                                          # noqa: BLE001
                    problems.append(error)
            threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            try:
                until(lambda: client.must("EXISTS", *("w%d:%d" % (number, row - 1) for number in range(3))) == 3, 60, "each has written once")
                for _ in range(3):
                    self.assertEqual(client.must("BGSAVE"), STARTED)
                    info = saved(server, 120)
                    self.assertEqual(info["rdb_last_bgsave_status"], "ok", server.log_tail())
                    self.check_instant(server, count, row, seed)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(problems, [])
        server.stop()

    def check_instant(self, server, count, row, seed):
        now = time.time()
        with Loaded(dump_path(server)) as redis, redis.client() as theirs:
            for at in range(0, count, 1000):
                part = range(at, min(at + 1000, count))
                values = theirs.pipeline(["GET", b"c%d" % i] for i in part)
                times = theirs.pipeline(["TTL", b"c%d" % i] for i in part)
                for i, value, ttl in zip(part, values, times):
                    self.assertEqual(value, struct.pack(">Q", i) * self.repeat, "key c%d, seed %d" % (i, seed))
                    self.assertTrue(99000 < ttl <= 100000 if i % 3 == 0 else ttl == -1, (i, ttl, now))
            for number in range(3):
                values = [int(value or 0) for value in theirs.must("MGET", *("w%d:%d" % (number, place) for place in range(row)))]
                self.assertEqual(values, sorted(values, reverse=True), "seed %d" % seed)
                self.assertLessEqual(values[0] - values[-1], 1, "seed %d: %r" % (seed, values))
            self.assertEqual(theirs.must("DBSIZE"), count + 3 * row)


class ShutdownTest(unittest.TestCase):
    def ends(self, server, how):
        with server.client() as client:
            if isinstance(how, str):
                client.send(how.encode() + b"\r\n")
            else:
                server.process.send_signal(how)
            self.assertEqual(server.wait_end(), 0, server.log_tail())

    def test_which_shutdowns_write_a_dump(self):
        cases = ((signal.SIGTERM, "3600 1", "no", True), (signal.SIGINT, "3600 1", "no", True), ("SHUTDOWN", "3600 1", "no", True),
                 ("SHUTDOWN NOSAVE", "3600 1", "no", False), ("SHUTDOWN SAVE", "", "no", True), ("SHUTDOWN", "", "no", False),
                 (signal.SIGTERM, "", "no", False), ("SHUTDOWN SAVE", "", "yes", True), ("SHUTDOWN SAVE NOW FORCE", "", "no", True))
        for binary in (None, REDIS):
            for how, points, log, leaves in cases:
                with self.subTest(how=how, points=points, binary=binary):
                    server = started(self, {"save": points, "appendonly": log}, binary=binary)
                    with server.client() as client:
                        client.must("SET", "k", "v")
                    self.ends(server, how)
                    self.assertEqual(os.path.exists(dump_path(server)), leaves)
                    self.assertEqual(leftovers(server), [])
                    self.assertIsNone(server.alarm())
                    if leaves:
                        self.assertIn(b"Saving the final RDB snapshot before exiting.", server.log())
                        with Loaded(dump_path(server)) as redis, redis.client() as client:
                            self.assertEqual(client.must("GET", "k"), b"v")

    def test_signals_as_configured(self):
        for binary in (None, REDIS):
            server = started(self, {"save": "", "shutdown-on-sigterm": "save", "shutdown-on-sigint": ["nosave", "now"]}, binary=binary)
            self.ends(server, signal.SIGTERM)
            self.assertTrue(os.path.exists(dump_path(server)))
            server = started(self, {"save": "3600 1", "shutdown-on-sigint": ["nosave", "now"]}, binary=binary)
            self.ends(server, signal.SIGINT)
            self.assertFalse(os.path.exists(dump_path(server)))

    def test_no_shutdown_without_its_dump(self):
        for binary in (None, REDIS):
            server = started(self, {"save": "3600 1"}, binary=binary)
            os.makedirs(os.path.join(dump_path(server), "in-the-way"))
            with server.client() as client:
                client.must("SET", "k", "v")
                self.assertEqual(client.call("SHUTDOWN"), Error(b"ERR Errors trying to SHUTDOWN. Check logs."))
                self.assertEqual(client.call("SHUTDOWN", "SAVE"), Error(b"ERR Errors trying to SHUTDOWN. Check logs."))
                server.process.send_signal(signal.SIGTERM)
                until(lambda: server.log().count(b"Errors trying to shut down the server. Check the logs") == 3)
                self.assertEqual(client.must("SET", "k", "w"), OK)
                self.assertEqual(client.call("SHUTDOWN", "ABORT"), Error(b"ERR No shutdown in progress."))
                self.assertIn(b"Error trying to save the DB, can't exit.", server.log())
                client.send(b"SHUTDOWN FORCE\r\n")
                self.assertEqual(server.wait_end(), 0)
                self.assertIn(b"Exit anyway", server.log())
            self.assertIsNone(server.alarm())
            self.assertEqual(leftovers(server), [])

    def test_acknowledged_writes_are_in_the_last_dump(self):
        server = started(self, {"save": "3600 1"})
        acknowledged = [0] * 4

        def write(number):
            try:
                with server.client() as client:
                    while True:
                        if client.call("SET", "w%d" % number, acknowledged[number] + 1) != OK:
                            return
                        acknowledged[number] += 1
            except (Closed, OSError):
                pass
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        self.assertEqual(server.terminate(), 0)
        for thread in threads:
            thread.join()
        self.assertGreater(min(acknowledged), 0)
        with Loaded(dump_path(server)) as redis, redis.client() as client:
            for number, last in enumerate(acknowledged):
                self.assertIn(int(client.must("GET", "w%d" % number)) - last, (0, 1))

    @kelvin_only
    def test_during_the_last_dump_reads_run_and_writes_wait(self):
        server = started(self, {"save": "3600 1"})
        with server.client() as client, server.client() as writer, server.client() as ending:
            client.must("MSET", *[word for i in range(100) for word in ("k%d" % i, i)])
            client.must("CONFIG", "SET", "rdb-key-save-delay", 50000)
            ending.send(b"SHUTDOWN\r\n")
            until(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "1")
            writer.send(b"SET k1 new\r\n")
            self.assertEqual(client.must("GET", "k1"), b"1")
            self.assertEqual(client.must("PING"), Status(b"PONG"))
            with self.assertRaises((socket.timeout, TimeoutError)):
                writer.socket.settimeout(0.3)
                writer.receive()
            writer.socket.settimeout(20)
            # No other save may run now; the shutdown may be cancelled.
            self.assertEqual(client.call("BGSAVE"), Error(b"ERR Background save already in progress"))
            self.assertEqual(client.must("SHUTDOWN", "ABORT"), OK)
            self.assertEqual(ending.receive(), Error(b"ERR Errors trying to SHUTDOWN. Check logs."))
            self.assertEqual(writer.receive(), OK)
            self.assertEqual(client.must("GET", "k1"), b"new")
            self.assertFalse(os.path.exists(dump_path(server)))
            client.must("CONFIG", "SET", "rdb-key-save-delay", 0)
            self.assertEqual(client.must("SAVE"), OK)
            # Or a second SHUTDOWN, with NOSAVE, ends the server.
            client.must("CONFIG", "SET", "rdb-key-save-delay", 50000)
            os.remove(dump_path(server))
            ending.send(b"SHUTDOWN\r\n")
            until(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "1")
            client.send(b"SHUTDOWN NOSAVE\r\n")
            self.assertEqual(server.wait_end(4), 0)
        self.assertFalse(os.path.exists(dump_path(server)))
        self.assertEqual(leftovers(server), [])
        self.assertIsNone(server.alarm())

    @kelvin_only
    def test_a_background_save_does_not_delay_a_shutdown(self):
        server = started(self, {"save": ""})
        with server.client() as client:
            client.must("MSET", *[word for i in range(1000) for word in ("k%d" % i, i)])
            client.must("CONFIG", "SET", "rdb-key-save-delay", 50000)
            self.assertEqual(client.must("BGSAVE"), STARTED)
            until(lambda: leftovers(server) != [])
        self.assertEqual(server.terminate(10), 0)
        self.assertEqual(leftovers(server), [])
        self.assertFalse(os.path.exists(dump_path(server)))
        self.assertIsNone(server.alarm())


@kelvin_only
class CrashTest(unittest.TestCase):
    def test_a_kill_during_a_save_keeps_the_previous_dump(self):
        server = started(self, {"appendonly": "yes"})
        with server.client() as client:
            client.must("MSET", *[word for i in range(100) for word in ("k%d" % i, i)])
            client.must("SAVE")
            before = read_bytes(dump_path(server))
            client.must("SET", "k1", "new")
            client.must("CONFIG", "SET", "rdb-key-save-delay", 50000)
            self.assertEqual(client.must("BGSAVE"), STARTED)
            until(lambda: any(name.endswith(".rdb") for name in leftovers(server)))
        server.kill9()
        self.assertEqual(read_bytes(dump_path(server)), before)
        self.assertEqual(len(leftovers(server)), 2)
        open(os.path.join(server.folder, "temp-mine.rdb"), "w").close()
        os.makedirs(os.path.join(server.folder, "temp-12.sync", "store"))
        open(os.path.join(server.folder, "temp-12.sync.rdb"), "w").close()
        server.start()
        self.assertEqual(leftovers(server), ["temp-mine.rdb"])
        with server.client() as client:
            self.assertEqual(client.must("GET", "k1"), b"new")
            self.assertEqual(client.must("SAVE"), OK)
        with Loaded(dump_path(server)) as redis, redis.client() as client:
            self.assertEqual(client.must("GET", "k1"), b"new")
        server.stop()


    def test_kills_at_random_moments(self):
        """Writers, consecutive saves, kill -9: acknowledged writes are there, and the dump is complete."""
        seed = seed_new()
        rng = random.Random(seed)
        server = started(self, {"appendonly": "yes", "maxmemory": "20mb"})
        with server.client() as client:
            client.pipeline(["SET", "c%d" % i, b"%d" % i * 100] for i in range(2000))
        acknowledged = 0
        for round in range(scaled(10)):
            with self.subTest(seed=seed, round=round):
                deadline = time.monotonic() + rng.uniform(0.01, 0.6)
                with server.client() as client:
                    self.assertIn(int(client.must("GET", "last") or 0) - acknowledged, (0, 1))
                    self.assertEqual(leftovers(server), [])
                    acknowledged = int(client.must("GET", "last") or 0)
                    while time.monotonic() < deadline:
                        client.call("BGSAVE")
                        for _ in range(rng.randrange(200)):
                            client.must("SET", "last", acknowledged + 1)
                            acknowledged += 1
                            client.must("SET", "c%d" % rng.randrange(2000), rng.randbytes(300))
                server.kill9()
                if os.path.exists(dump_path(server)):
                    with Loaded(dump_path(server)) as redis, redis.client() as client:
                        self.assertIn(client.must("DBSIZE"), (2000, 2001))
                        self.assertLessEqual(int(client.must("GET", "last") or 0), acknowledged)
                server.start()
        server.stop()


def aux_fields(path):
    """Returns kelvin-id and kelvin-image; the latter may be encoded as an integer."""
    data = read_bytes(path)
    return dict(re.findall(rb"\xfa.(kelvin-[a-z]+)(?:\xc0.|.)([0-9a-f]+)", data, re.S))


@kelvin_only
class ProvenanceTest(unittest.TestCase):
    """Dumps and logs of the same or of different data sets."""

    def refused(self, server, *words):
        server.launch()
        self.assertFalse(server.wait_ready())
        self.assertEqual(server.wait_end(), 1)
        for word in words:
            self.assertIn(word, server.log_new())
        self.assertIsNone(server.alarm())

    def id_of(self, server):
        with open(os.path.join(server.folder, "appendonlydir", "appendonly.aof.id"), "rb") as file:
            text = file.read()
        self.assertRegex(text, rb"\Akelvin-id 1\nid [0-9a-f]{32}\n(known [0-9a-f]{16}\n)?\Z")
        return text.split()[3]

    def test_a_dump_has_the_id_of_its_log(self):
        server = started(self, {"appendonly": "yes", "save": "3600 1"})
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("SAVE")
        fields = aux_fields(dump_path(server))
        self.assertEqual(fields[b"kelvin-id"], self.id_of(server))
        server.restart()
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")
            client.must("SAVE")
        self.assertEqual(aux_fields(dump_path(server))[b"kelvin-id"], fields[b"kelvin-id"])
        server.stop()

    def test_a_foreign_dump_with_a_log_prevents_the_start(self):
        server, other = started(self, {"appendonly": "yes"}), started(self, {"appendonly": "yes"})
        redis = started(self, {}, binary=REDIS)
        for each in (server, other, redis):
            with each.client() as client:
                client.must("SET", "k", "of %s" % each.folder)
                client.must("SAVE")
        self.assertNotEqual(self.id_of(server), self.id_of(other))
        self.assertEqual(server.terminate(), 0)
        own = read_bytes(dump_path(server))
        for foreign in (other, redis):
            shutil.copy(dump_path(foreign), dump_path(server))
            self.refused(server, b"does not belong to the log", b"move 'dump.rdb' away", b"'appendonlydir' away", self.id_of(server))
            self.assertEqual(read_bytes(dump_path(server)), read_bytes(dump_path(foreign)))
        with open(dump_path(server), "wb") as file:
            file.write(b"no dump at all")
        self.refused(server, b"does not belong to the log")
        os.remove(dump_path(server))
        server.start()
        server.terminate()
        with open(dump_path(server), "wb") as file:
            file.write(own)
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), ("of %s" % server.folder).encode())
        server.stop()
        other.stop()

    def test_a_directory_of_redis_is_imported(self):
        """A directory of Redis with a log and a dump: the log is the data, and the dump does not prevent the start."""
        server = started(self, {"appendonly": "yes"}, binary=REDIS)
        with server.client() as client:
            client.must("SET", "k", "before")
            client.must("SAVE")
            client.must("SET", "k", "after")
        server.terminate()
        kelvin = started(self, {"appendonly": "yes"}, folder=server.folder)
        self.assertIn(b"'dump.rdb' is not loaded", kelvin.log_new())
        for kill in (False, True):
            kelvin.restart(kill=kill)
            with kelvin.client() as client:
                self.assertEqual(client.must("GET", "k"), b"after")
        with kelvin.client() as client:
            client.must("SAVE")
        kelvin.restart()
        with kelvin.client() as client:
            self.assertEqual(client.must("GET", "k"), b"after")
        kelvin.stop()

    def test_a_dump_that_became_the_log_may_remain(self):
        for kind in ("redis", "kelvin"):
            first = started(self, {}, binary=REDIS if kind == "redis" else None)
            with first.client() as client:
                client.must("SET", "k", "v")
                client.must("SAVE")
            first.terminate()
            server = started(self, {"appendonly": "yes"}, folder=first.folder)
            for kill in (True, False, True):
                server.restart(kill=kill)
                with server.client() as client:
                    self.assertEqual(client.must("GET", "k"), b"v")
            if kind == "kelvin":
                self.assertEqual(aux_fields(dump_path(server))[b"kelvin-id"].decode(), read_bytes(
                    os.path.join(server.folder, "appendonlydir", "appendonly.aof.id")).split()[3].decode())
            # But another dump in its place is noticed.
            server.terminate()
            data = read_bytes(dump_path(server))
            os.remove(dump_path(server))        # it may also be the log's base, by a second name
            with open(dump_path(server), "wb") as file:
                file.write(data + b"x")
            if kind == "redis":
                self.refused(server, b"does not belong to the log")
            else:
                server.start()
            server.discard()

    def test_without_a_log_dumps_keep_the_id(self):
        server = started(self, {"save": "3600 1"})
        ids = []
        for i in range(3):
            with server.client() as client:
                self.assertEqual(client.must("GET", "k"), b"%d" % (i - 1) if i else None)
                client.must("SET", "k", i)
            self.assertEqual(server.terminate(), 0)
            ids.append(aux_fields(dump_path(server))[b"kelvin-id"])
            server.start()
        self.assertEqual(len(set(ids)), 1)
        server.stop()

    def test_writes_without_the_log_belong_to_the_dump_only(self):
        server = started(self, {"appendonly": "yes"})
        with server.client() as client:
            client.must("SET", "k", "old")
            client.must("SAVE")
        own = self.id_of(server)
        server.terminate()
        server.options["appendonly"] = "no"
        server.start()
        with server.client() as client:
            client.must("SET", "k", "new")
            client.must("SAVE")
        server.terminate()
        self.assertNotEqual(aux_fields(dump_path(server))[b"kelvin-id"], own)
        server.options["appendonly"] = "yes"
        self.refused(server, b"does not belong to the log")
        # The two ways that the message describes: use the log, or use the dump.
        shutil.move(os.path.join(server.folder, "appendonlydir"), os.path.join(server.folder, "old"))
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"new")
        server.restart()
        server.stop()

    def test_a_log_that_is_switched_on_has_the_id_of_the_data(self):
        server = started(self, {})
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("SAVE")
            client.must("CONFIG", "SET", "appendonly", "yes")
            until(lambda: os.path.exists(os.path.join(server.folder, "appendonlydir", "appendonly.aof.id")))
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0")
            self.assertEqual(self.id_of(server), aux_fields(dump_path(server))[b"kelvin-id"])
        server.options["appendonly"] = "yes"
        server.restart()
        with server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")
        server.stop()

    def test_a_damaged_id_prevents_the_start(self):
        server = started(self, {"appendonly": "yes"})
        self.assertEqual(server.terminate(), 0)
        path = os.path.join(server.folder, "appendonlydir", "appendonly.aof.id")
        good = read_bytes(path)
        for bad in (b"", good[:-1][:30], good + b"x", good.replace(b"id ", b"ID "), b"\0" * 200, b"z" * 5000):
            with open(path, "wb") as file:
                file.write(bad)
            self.refused(server, b"appendonly.aof.id is damaged")
        # A lost one is created again: the log decides.
        os.remove(path)
        server.start()
        self.assertNotEqual(self.id_of(server), good.split()[3])
        server.stop()


if __name__ == "__main__":
    main()
