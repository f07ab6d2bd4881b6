"""The append-only log: writes are there after a restart, the files are those of Redis 7, and damage is reported."""
import glob
import hashlib
import os
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.clock import WallClock                                                                # noqa: E402
from support.differential import Difference, Runner                                                 # noqa: E402
from support.generate import TEMPLATES, Generator                                                   # noqa: E402
from support.resp import OK, encode                                                                 # noqa: E402
from support.server import REDIS, Server, is_redis, scaled, seed_new, until                         # noqa: E402

POLICIES = ("always", "everysec", "no")


def log_folder(server):
    return os.path.join(server.folder, "appendonlydir")


def increments(server):
    """Returns the paths of the increments in the order of the manifest."""
    with open(os.path.join(log_folder(server), "appendonly.aof.manifest")) as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    words = [dict(zip(line[::2], line[1::2])) for line in lines]
    return [os.path.join(log_folder(server), word["file"]) for word in words if word["type"] == "i"]


class AofTest(unittest.TestCase):
    def start(self, **options):
        settings = {"appendonly": "yes"}
        settings.update({name.replace("_", "-"): value for name, value in options.items()})
        server = Server(settings)
        self.addCleanup(server.discard)
        return server

    def fill(self, server):
        with server.client() as client:
            client.pipeline([
                ["SET", "s", "v"], ["SET", "binary", b"\x00\r\n\xff"], ["APPEND", "s", "w"], ["INCR", "n"], ["INCRBYFLOAT", "f", "1.5"],
                ["HSET", "h", "a", 1, "b", 2], ["HDEL", "h", "b"], ["HINCRBYFLOAT", "h", "c", "0.5"], ["SETBIT", "bits", 9, 1],
                ["SET", "ttl", "v", "EX", 10000], ["SET", "gone", "v"], ["DEL", "gone"], ["SET", "big", "z" * 200000],
                ["SETRANGE", "s", 5, "x"], ["EXPIRE", "h", 5000], ["SELECT", 3], ["SET", "other", "db"], ["COPY", "other", "c", "DB", 0],
                ["SWAPDB", 3, 4], ["SELECT", 0], ["RENAME", "n", "m"], ["MOVE", "m", 7], ["GETDEL", "f"], ["SET", "f", "again"],
                ["MSET", "x", 1, "y", 2], ["GETEX", "x", "PXAT", 33177117420123], ["PERSIST", "ttl"], ["SET", "", "empty"]])

    def state(self, server):
        out = {}
        with server.client() as client:
            for database in range(9):
                client.must("SELECT", database)
                for key in sorted(client.must("KEYS", "*")):
                    kind = bytes(client.must("TYPE", key))
                    value = client.must("GET", key) if kind == b"string" else dict(zip(*[iter(client.must("HGETALL", key))] * 2))
                    out[database, key] = value, client.must("PEXPIRETIME", key)
        return out

    def test_a_restart_keeps_everything(self):
        for policy in POLICIES:
            for kill in (False, True):
                with self.subTest(policy=policy, kill=kill):
                    server = self.start(appendfsync=policy)
                    self.fill(server)
                    before = self.state(server)
                    self.assertGreater(len(before), 12)
                    for _ in range(3):
                        server.restart(kill=kill)
                        self.assertEqual(self.state(server), before)
                        kill = not kill
                    with server.client() as client:
                        client.must("SET", "after", "the restart")
                    server.restart(kill=True)
                    self.assertEqual(len(self.state(server)), len(before) + 1)
                    server.stop()

    def test_without_a_log_nothing_is_kept(self):
        server = self.start(appendonly="no")
        self.fill(server)
        server.restart()
        self.assertEqual(self.state(server), {})
        server.stop()

    def test_info_has_the_state_of_the_log(self):
        server = self.start()
        info = server.info("persistence")
        self.assertEqual((info["aof_enabled"], info["aof_last_write_status"], info["loading"]), ("1", "ok", "0"))
        size = int(info["aof_current_size"])
        self.fill(server)
        until(lambda: int(server.info("persistence")["aof_current_size"]) > size + 200000, 5, "the growth of the log")
        server.stop()

    def test_expired_keys_stay_expired(self):
        server = self.start()
        with server.client() as client:
            client.must("SET", "soon", "v", "PX", 300)
            client.must("SET", "later", "v", "EX", 10000)
            client.must("SET", "lives", "v", "PX", 300)
            client.must("PERSIST", "lives")
        server.kill9()
        time.sleep(0.4)
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("MGET", "soon", "later", "lives"), [None, b"v", b"v"])
            self.assertTrue(9000 < client.must("TTL", "later") <= 10000)
            until(lambda: client.must("DBSIZE") == 2, 10, "the removal of the expired key")
        server.stop()

    def test_relative_times_are_logged_as_absolute_ones(self):
        server = self.start()
        with server.client() as client:
            client.pipeline([["SET", "a", "v", "EX", 1000], ["SET", "b", "v"], ["PEXPIRE", "b", 1000000], ["SETEX", "c", 1000, "v"],
                             ["GETEX", "a", "EX", 2000]])
            client.must("RESTORE", "d", 1000000, client.must("DUMP", "a"))
            client.must("RENAME", "c", "e")
            before = client.pipeline([["PEXPIRETIME", key] for key in "abcde"])
            time.sleep(0.05)
            server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.pipeline([["PEXPIRETIME", key] for key in "abcde"]), before)
        server.stop()

    def last_increment(self, server):
        return increments(server)[-1]

    def torn(self, options, tail=None, cut=0):
        server = self.start(**options)
        with server.client() as client:
            client.pipeline(["SET", "k%d" % i, "value%d" % i] for i in range(100))
        server.kill9()
        path = self.last_increment(server)
        if cut:
            os.truncate(path, os.path.getsize(path) - cut)
        if tail:
            with open(path, "ab") as file:
                file.write(tail)
        return server, path

    def test_a_torn_tail_is_truncated(self):
        for cut, tail, lost in ((1, b"", 1), (5, b"", 1), (20, b"", 1), (0, b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$5\r\nva", 0), (0, b"*3\r", 0),
                                (0, b"*", 0)):
            with self.subTest(cut=cut, tail=tail):
                server, path = self.torn({"aof-load-truncated": "yes"}, tail, cut)
                server.start()
                with server.client() as client:
                    self.assertEqual(client.must("DBSIZE"), 100 - lost)
                    self.assertEqual(client.must("GET", "k98"), b"value98")
                    client.must("SET", "new", "after the cut")
                server.restart(kill=True)
                with server.client() as client:
                    self.assertEqual(client.must("GET", "new"), b"after the cut")
                    self.assertEqual(client.must("DBSIZE"), 101 - lost)
                self.assertRegex(server.log().decode(), r"(?i)truncat|torn|cut")
                server.stop()

    def test_a_torn_tail_is_refused_with_aof_load_truncated_no(self):
        server, path = self.torn({"aof-load-truncated": "no"}, cut=5)
        size = os.path.getsize(path)
        server.launch()
        self.assertNotEqual(server.wait_end(), 0)
        self.assertIn(os.path.basename(path), server.log_new().decode())
        self.assertEqual(os.path.getsize(path), size, "a refused file is not changed")

    def test_garbage_in_the_middle_is_refused_with_file_and_offset(self):
        for options in ({"aof-load-truncated": "yes"}, {"aof-load-truncated": "no"}):
            with self.subTest(**options):
                server, path = self.torn(options)
                with open(path, "rb") as file:
                    data = file.read()
                at = data.index(b"*3\r\n$3\r\nSET\r\n$3\r\nk50")
                with open(path, "wb") as file:
                    file.write(data[:at] + b"GARBAGE!" + data[at + 8:])
                server.launch()
                self.assertNotEqual(server.wait_end(), 0)
                log = server.log_new().decode("utf-8", "replace")
                self.assertIn(os.path.basename(path), log)
                if not is_redis():
                    self.assertIn(str(at), log)
                with open(path, "rb") as file:
                    self.assertEqual(len(file.read()), len(data), "a refused file is not changed")

    def test_a_missing_increment_is_refused(self):
        server, path = self.torn({})
        os.rename(path, path + ".away")
        server.launch()
        self.assertNotEqual(server.wait_end(), 0)
        self.assertIn(os.path.basename(path), server.log_new().decode())

    def test_the_manifest_is_that_of_redis(self):
        server = self.start()
        self.fill(server)
        self.assertEqual(server.terminate(), 0)
        with open(os.path.join(log_folder(server), "appendonly.aof.manifest")) as file:
            for line in file:
                self.assertRegex(line, r"^file appendonly\.aof\.\d+\.(incr\.aof|base\.(rdb|aof)|\d+\.base\.image) seq \d+ type [bih]\n$")

    def test_redis_reads_the_files_of_kelvin(self):
        server = self.start()
        self.fill(server)
        before = self.state(server)
        self.assertEqual(server.terminate(), 0)
        with Server({"appendonly": "yes"}, binary=REDIS, start=False) as other:
            shutil.copytree(log_folder(server), log_folder(other))
            other.start()
            self.assertEqual(self.state(other), before)

    def test_kelvin_reads_the_files_of_redis(self):
        other = Server({"appendonly": "yes"}, binary=REDIS)
        self.addCleanup(other.discard)
        self.fill(other)
        with other.client() as client:
            # A transaction is in the log between MULTI and EXEC.
            client.pipeline([["MULTI"], ["SET", "in", "multi"], ["INCR", "twice"], ["INCR", "twice"], ["EXEC"]])
        before = self.state(other)
        self.assertEqual(other.terminate(), 0)
        server = Server({"appendonly": "yes"}, start=False)
        self.addCleanup(server.discard)
        shutil.copytree(log_folder(other), log_folder(server))
        server.start()
        self.assertEqual(self.state(server), before)
        with server.client() as client:
            client.must("SET", "more", "v")
        server.restart(kill=True)
        self.assertEqual(len(self.state(server)), len(before) + 1)
        server.stop()

    def load(self, *commands, lasts=False, **options):
        """A server with this log; False: it has refused it."""
        server = Server({"appendonly": "yes", **options}, start=False)
        self.addCleanup(server.discard)
        os.mkdir(log_folder(server))
        with open(os.path.join(log_folder(server), "appendonly.aof.manifest"), "w") as file:
            file.write("file appendonly.aof.1.incr.aof seq 1 type i\n")
        with open(os.path.join(log_folder(server), "appendonly.aof.1.incr.aof"), "wb") as file:
            file.write(b"".join(map(encode, commands)))
        server.launch()
        if not lasts and not server.wait_ready():
            self.assertEqual(server.wait_end(), 1)
        return server

    def test_scripts_in_the_log_of_an_older_version_run(self):
        source = "return redis.call('incr', KEYS[1])"
        sha = hashlib.sha1(source.encode()).hexdigest()
        server = self.load(["SELECT", 0], ["EVAL", source, 1, "a"], ["MULTI"], ["SELECT", 3], ["EVALSHA", sha, 1, "b"],
                           ["EVAL", "redis.call('select', 1); redis.call('set', 'undeclared', 'x')", 0], ["EVALSHA", sha, 1, "b"], ["EXEC"],
                           ["SCRIPT", "LOAD", "return redis.call('incr', 'c')"], ["EVALSHA", hashlib.sha1(b"return redis.call('incr', 'c')").hexdigest(), 0],
                           ["EVAL", "redis.call('incr', 'failed'); redis.call('nosuch')", 0] if not is_redis() else ["INCR", "failed"],     # 7.2 crashes
                           ["SELECT", 0], ["SET", "after", "v"])
        for _ in range(2):
            with server.client() as client:
                self.assertEqual(client.must("MGET", "a", "after"), [b"1", b"v"])
                client.must("SELECT", 1)
                self.assertEqual(client.must("GET", "undeclared"), b"x")
                client.must("SELECT", 3)
                self.assertEqual(client.must("MGET", "b", "c", "failed"), [b"2", b"1", b"1"])
            server.restart(kill=True)
        server.stop()

    @kelvin_only
    def test_what_is_no_change_of_data_is_refused(self):
        """Among them commands that would take a client of their own: with the user, the subscriptions or the primary of this server."""
        for command in (["EVALSHA", "f" * 40, 0], ["FCALL", "nosuch", 0], ["ACL", "SETUSER", "x"], ["CONFIG", "SET", "save", ""], ["CONFIG", "REWRITE"],
                        ["CLIENT", "PAUSE", 1], ["MEMORY", "PURGE"], ["PSYNC", "?", -1], ["REPLICAOF", "localhost", 1], ["SHUTDOWN"], ["WATCH", "k"],
                        ["SUBSCRIBE", "c"], ["CLIENT", "TRACKING", "ON"], ["MONITOR"], ["QUIT"]):
            with self.subTest(command=command):
                server = self.load(["SELECT", 0], ["SET", "k", "v"], command, ["SET", "after", "v"])
                self.assertFalse(server.alive())
                self.assertIn("'%s' in the log" % command[0], server.log_new().decode())
                self.assertIsNone(server.alarm())

    @kelvin_only
    def test_a_message_in_the_log_is_not_sent_again(self):
        """Kelvin's log has the stream of its replicas, and so has PUBLISH."""
        server = self.load(["SELECT", 0], *[["PUBLISH", "c", number] for number in range(300)], lasts=True, **{"key-load-delay": 10000})
        until(lambda: b"Server initialized" in server.log_new(), 20, "connections are accepted")
        with server.client() as client:
            client.must("SUBSCRIBE", "c")
            self.assertTrue(server.wait_ready())
            with server.client() as other:
                other.must("PUBLISH", "c", "new")
            self.assertEqual(client.receive()[2], b"new")
        server.stop()

    @kelvin_only
    def test_the_end_does_not_wait_for_the_load(self):
        """Nor for a script that never ends."""
        script = "redis.call('set', 'k', 1); redis.log(redis.LOG_WARNING, 'the script runs'); while true do end"
        for commands, text in (([["SET", "k", number] for number in range(10000)], b"Server initialized"), ([["EVAL", script, 0]], b"the script runs")):
            server = self.load(["SELECT", 0], *commands, lasts=True, **{"key-load-delay": 100000})
            until(lambda: text in server.log_new(), 20, "it loads")
            self.assertEqual(server.terminate(), 0)

    def test_random_commands_survive_a_kill(self):
        """The state after a replay is the same as before, for any commands."""
        seed = seed_new()
        with Server(binary=REDIS) as oracle:
            server = self.start(appendfsync="no")
            with server.client() as client:
                present = {name.decode() for name in client.must("COMMAND", "LIST")} & set(TEMPLATES) | {"restore", "dump", "spop"}
            generator = Generator(seed, present, demote=server.kelvin)
            runner = Runner(server, oracle)
            self.addCleanup(runner.disconnect)
            for round_ in range(4):
                sequence = [generator.next() for _ in range(scaled(8000))]
                try:
                    runner.run(sequence)
                    server.restart(kill=round_ % 2 == 0)
                    runner.connect()
                    runner.b.must("SELECT", 0)
                    runner.compare_all(encodings=False)
                except Difference as difference:
                    self.fail("seed %d, round %d: %s" % (seed, round_, difference))
            server.stop()

    def test_a_log_under_load_and_progress_in_the_log(self):
        server = self.start(appendfsync="no")
        count = scaled(200000)
        with server.client() as client:
            for start in range(0, count, 10000):
                client.exchange(b"".join(encode(["SET", "key:%d" % i, "v%d" % i]) for i in range(start, start + 10000)), 10000)
        started = time.monotonic()
        server.restart(kill=True)
        elapsed = time.monotonic() - started
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), -(-count // 10000) * 10000)
            self.assertEqual(client.must("GET", "key:%d" % (count - 1)), b"v%d" % (count - 1))
        self.assertLess(elapsed, 60)
        self.assertRegex(server.log_new().decode(), r"DB loaded from .*: [\d.]+ seconds|DB loaded from append only file")
        server.stop()

    def test_bgrewriteaof_works_or_returns_an_error(self):
        server = self.start()
        with server.client() as client:
            found = client.must("COMMAND", "INFO", "BGREWRITEAOF")[0]
            if not isinstance(found, list) or not found:
                self.skipTest("the server under test has no BGREWRITEAOF yet")
            self.fill(server)
            before = self.state(server)
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the end of the rewrite")
        server.restart(kill=True)
        self.assertEqual(self.state(server), before)
        server.stop()

    @kelvin_only
    def test_a_clock_that_is_set_back_stops_nothing(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        clock = WallClock(folder)
        self.addCleanup(clock.remove)
        server = Server({"appendonly": "yes", "checkpoint-seconds": "1"}, folder=folder, environment=clock.environment)
        self.addCleanup(server.discard)
        before = int(server.info("tiering")["tier_store_bytes"])
        clock.jump(-3600 * 1000)
        rewrites = int(server.info("persistence")["aof_rewrites"])
        with server.client() as client:
            client.must("SET", "k", "x" * 100000)
            client.must("TIER", "DEMOTE", "k")
        until(lambda: int(server.info("persistence")["aof_rewrites"]) > rewrites, 30, "a checkpoint by time")
        until(lambda: int(server.info("tiering")["tier_store_bytes"]) > before + 100000, 30, "the store's size")
        info = server.info("persistence")
        self.assertGreaterEqual(int(info["aof_last_rewrite_time_sec"]), 0)

    def test_appendonly_can_be_switched_while_running(self):
        server = self.start(appendonly="no")
        with server.client() as client:
            client.must("SET", "before", "v")
            reply = client.call("CONFIG", "SET", "appendonly", "yes")
            if reply != OK:
                self.skipTest("CONFIG SET appendonly yes is not possible yet: %r" % reply)
            until(lambda: server.info("persistence")["aof_enabled"] == "1"
                  and server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the first log")
            client.must("SET", "after", "v")
        server.options["appendonly"] = "yes"
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("MGET", "before", "after"), [b"v", b"v"])
        server.stop()


@kelvin_only
class TierAndLogTest(AofTest):
    """The same, with a tier, which must make no difference."""

    def start(self, **options):
        options.setdefault("maxmemory", "24mb")
        return super().start(**options)

    def fill(self, server):
        super().fill(server)
        if not server.kelvin:
            return
        with server.client() as client:
            for database in range(8):
                client.must("SELECT", database)
                keys = client.must("KEYS", "*")
                if keys:
                    client.must("TIER", "DEMOTE", *keys[::2])

    def test_demotion_is_not_logged(self):
        server = self.start()
        with server.client() as client:
            client.pipeline(["SET", "k%d" % i, "v" * 100] for i in range(1000))
            size = sum(map(os.path.getsize, glob.glob(os.path.join(log_folder(server), "*"))))
            for _ in range(3):
                self.assertEqual(client.must("TIER", "DEMOTE", *["k%d" % i for i in range(1000)]), 1000)
                client.pipeline(["GET", "k%d" % i] for i in range(1000))
            self.assertEqual(sum(map(os.path.getsize, glob.glob(os.path.join(log_folder(server), "*")))), size)
        server.stop()

    def test_more_data_than_memory_is_replayed(self):
        server = self.start(appendfsync="no", maxmemory="32mb")
        count, size = scaled(60000), 2000
        with server.client() as client:
            for start in range(0, count, 500):
                client.pipeline(["SET", "key:%d" % i, ("%d;" % i) * (size // 6)] for i in range(start, start + 500))
            client.pipeline(["APPEND", "key:%d" % i, "!"] for i in range(0, count, 7))
            client.pipeline(["DEL", "key:%d" % i] for i in range(0, count, 11))
        server.restart(kill=True)
        with server.client() as client:
            total = -(-count // 500) * 500
            self.assertEqual(client.must("DBSIZE"), total - len(range(0, count, 11)))
            for start in range(0, count, 500):
                replies = client.pipeline(["GET", "key:%d" % i] for i in range(start, min(count, start + 500)))
                for i, reply in zip(range(start, count), replies):
                    expected = None if i % 11 == 0 else (("%d;" % i) * (size // 6) + ("!" if i % 7 == 0 else "")).encode()
                    self.assertTrue(reply == expected, i)
        server.stop()


if __name__ == "__main__":
    main()
