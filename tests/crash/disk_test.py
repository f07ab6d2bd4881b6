"""A disk that is full or fails: errors are reported, reads continue, no acknowledged write is lost, and the server recovers by itself.

The limit is RLIMIT_FSIZE of the running server, with which every write beyond this size fails with EFBIG. If the kernel
permits a private mount, the tests also use a small file system that is full (ENOSPC).
"""
import contextlib
import glob
import os
import resource
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.server import Server, until                                                            # noqa: E402


def limit(server, size):
    """Limit the files of the server to `size` bytes; None removes the limit."""
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def log_size(server):
    return max(map(os.path.getsize, glob.glob(os.path.join(server.folder, "appendonlydir", "*.aof"))))


class SmallDisk:
    """A tmpfs of `megabytes` in a separate mount namespace. `prefix` runs a program in it; `path` is its path for this program,
    `outside` for the test. `available` is False if the kernel does not permit it."""

    def __init__(self, megabytes):
        self.path = tempfile.mkdtemp(prefix="kelvin-disk-")
        self.holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=%dm kelvin %s && echo mounted && exec sleep 3600" % (
                megabytes, self.path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.available = self.holder.stdout.readline() == b"mounted\n"
        self.prefix = ["nsenter", "-t", str(self.holder.pid), "-U", "-m", "--preserve-credentials"]
        self.outside = "/proc/%d/root%s" % (self.holder.pid, self.path)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        os.rmdir(self.path)

    def fill(self):
        """Use all remaining space."""
        with open(os.path.join(self.outside, "filler"), "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"z" * size)
                except OSError:
                    pass

    def relieve(self):
        os.remove(os.path.join(self.outside, "filler"))


def has_reserve(server):
    """The writer has set its room aside: a file without a name (tier/reserve.h). What is filled before that leaves none for what removes."""
    for path in glob.glob("/proc/%d/fd/*" % server.process.pid):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(path).endswith("(deleted)") and os.stat(path).st_blocks > 0:
                return True
    return False


class FullDiskTest(unittest.TestCase):
    def start(self, **options):
        settings = {name.replace("_", "-"): value for name, value in options.items()}
        server = Server(settings)
        self.addCleanup(server.discard)
        return server

    def write_until_refused(self, server, acknowledged, size):
        """Runs SETs until one is refused. A server may also delay the reply to a command that it has run and can't log yet; then
        the next client must be refused. Returns (refusal, connection that waits for its reply or None, its key)."""
        waiting, key = None, None
        client = server.client(timeout=3)
        for i in range(100000):
            try:
                reply = client.call("SET", "k%d" % i, "v" * size)
            except socket.timeout:
                self.assertIsNone(waiting, "a second client is kept waiting instead of being refused")
                waiting, key = client, "k%d" % i
                client = server.client(timeout=3)
                continue
            if isinstance(reply, Error):
                client.close()
                return reply, waiting, key
            acknowledged["k%d" % i] = b"v" * size
        self.fail("writes succeed although the log is full")

    def test_a_log_that_can_not_grow(self):
        server = self.start(appendonly="yes", appendfsync="everysec")
        acknowledged = {}
        with server.client() as client:
            client.must("SET", "first", "v")
            acknowledged["first"] = b"v"
            limit(server, log_size(server) + 50000)
            self.refused_then_healed(server, client, acknowledged, lambda: limit(server, None))
        self.survived(server, acknowledged)

    def test_a_file_system_that_is_full(self):
        disk = SmallDisk(8)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "yes", "appendfsync": "everysec", "dir": disk.path}, prefix=disk.prefix)
        self.addCleanup(server.discard)
        acknowledged = {}
        with server.client() as client:
            client.must("SET", "first", "v")
            acknowledged["first"] = b"v"
            if server.kelvin:
                until(lambda: has_reserve(server), what="the reserve")
            disk.fill()
            self.refused_then_healed(server, client, acknowledged, disk.relieve, may_remove=server.kelvin)
        self.survived(server, acknowledged)

    @kelvin_only
    def test_a_full_disk_of_cold_keys_is_freed_by_deleting(self):
        disk = SmallDisk(64)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "no", "save": "", "dir": disk.path, "maxmemory": "16mb", "tier-segment-size": "1mb", "tier-write-buffer": "256kb"},
                        prefix=disk.prefix)
        self.addCleanup(server.discard)
        value = b"v" * 1000

        def fill(client, name):
            """Returns how many keys were written before one was refused."""
            for at in range(0, 200000, 500):
                replies = client.pipeline([("SET", "%s%d" % (name, i), value) for i in range(at, at + 500)])
                if any(isinstance(reply, Error) for reply in replies):
                    return at
            self.fail("the disk does not get full")

        def await_room(client):
            until(lambda: server.info("tiering")["tier_status"] == "ok", 60, "room on the disk")
            client.must("SET", "later", value)

        with server.client(timeout=60) as client:
            count = fill(client, "a")
            self.assertGreater(count, 30000)
            self.assertIn(server.info("tiering")["tier_status"], ("full", "error", "waiting"))
            self.assertEqual(client.must("GET", "a0"), value)
            for at in range(0, count * 3 // 4, 500):
                client.pipeline([("DEL", "a%d" % i) for i in range(at, at + 500)])
            await_room(client)
            self.assertEqual(client.must("GET", "a%d" % (count - 1)), value)
            fill(client, "b")
            client.must("FLUSHALL")
            await_room(client)
            fill(client, "c")
        server.stop()

    @kelvin_only
    def test_a_full_disk_with_log_and_store_is_freed_by_deleting(self):
        """The log and the store grow until one of them can't. From then on what grows is refused and what removes is logged, acknowledged and still
        so after a kill; deleting and FLUSHALL give the room back, also what only the last checkpoint has."""
        disk = SmallDisk(64)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "yes", "save": "", "dir": disk.path, "maxmemory": "12mb", "tier-segment-size": "1mb", "auto-aof-rewrite-percentage": 0,
                         "checkpoint-on-shutdown": "no", "tier-write-buffer": "256kb"}, prefix=disk.prefix)
        self.addCleanup(server.discard)
        value = b"v" * 1000

        def refusal(client):
            reply = client.call("SET", "more", value)
            return reply if isinstance(reply, Error) else None

        def fill(client, name):
            """Returns how many keys were written before one was refused."""
            for at in range(0, 200000, 100):
                replies = client.pipeline([("SET", "%s%d" % (name, i), value) for i in range(at, at + 100)])
                if any(isinstance(reply, Error) for reply in replies):
                    until(lambda: b"No space left on device" in (refusal(client) or b""), what="the refusal of what grows")
                    until(lambda: client.call("DEL", "absent") == 0, what="the log")
                    return at
            self.fail("the disk does not get full")

        def await_room(client):
            until(lambda: client.call("SET", "later", value) == OK, 60, "room on the disk")
            until(lambda: server.info("tiering")["tier_status"] == "ok", 60, "the store")

        with server.client(timeout=60) as client:
            count = fill(client, "a")
            self.assertGreater(count, 10000)
            self.assertEqual(client.must("GET", "a0"), value)
            self.assertEqual(server.info("persistence")["aof_last_write_status"], "err")
            self.assertTrue(client.call("PING").startswith(b"MISCONF"))
            self.assertTrue(client.call("EVAL", "return redis.call('SET', 'k', 'v')", 0).startswith(b"MISCONF"))
            self.assertEqual(client.must("EVAL", "return redis.call('DEL', KEYS[1])", 1, "a0"), 1)
            self.assertEqual(client.pipeline([("MULTI",), ("UNLINK", "a1"), ("EXEC",)])[2], [1])
            for i in range(2, count // 2):
                self.assertEqual(client.must("UNLINK" if i % 2 else "DEL", "a%d" % i), 1)
        server.restart(kill=True)
        with server.client(timeout=60) as client:
            self.assertEqual(client.must("EXISTS", *["a%d" % i for i in range(count // 2)]), 0)
            self.assertEqual(client.must("GET", "a%d" % (count - 1)), value)
            client.pipeline([("DEL", "a%d" % i) for i in range(count)])
            client.must("BGREWRITEAOF")
            await_room(client)
            client.pipeline([("SET", "b%d" % i, value) for i in range(10000)])
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the checkpoint")
            fill(client, "c")                           # the last checkpoint has files that the store has not
            self.assertEqual(client.must("FLUSHALL"), OK)
            await_room(client)
            self.assertGreater(fill(client, "d"), 10000)
            self.assertEqual(client.must("FLUSHALL"), OK)
        server.restart(kill=True)
        self.assertEqual(server.info("keyspace"), {})
        server.stop()

    @kelvin_only
    def test_a_checkpoint_that_had_no_room_is_made_when_there_is_some(self):
        """The log fills the disk, and only a checkpoint shortens it. One that fails as what is dirty does not fit does not delay the next one."""
        disk = SmallDisk(32)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "yes", "save": "", "dir": disk.path, "auto-aof-rewrite-percentage": 0, "checkpoint-log-size": 0,
                         "checkpoint-seconds": 0}, prefix=disk.prefix)
        self.addCleanup(server.discard)
        keys = ["k%d" % i for i in range(30000)]
        with server.client(timeout=60) as client:
            until(lambda: has_reserve(server), what="the reserve")
            replies = []
            while not any(isinstance(reply, Error) for reply in replies):
                for at in range(0, len(keys), 500):
                    replies += client.pipeline([("SET", key, b"v" * 100) for key in keys[at:at + 500]])
            until(lambda: client.call("DEL", "absent") == 0, what="the log")
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
            self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "err")
            for at in range(0, len(keys), 500):
                client.must("UNLINK", *keys[at:at + 500])
            until(lambda: client.call("SET", "later", "v") == OK, 40, "room on the disk")       # not after a minute
            until(lambda: server.info("persistence")["aof_last_bgrewrite_status"] == "ok", 40, "the checkpoint")
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 1)
        server.stop()

    @kelvin_only
    def test_a_log_that_fills_the_disk_is_replaced(self):
        """The data is small, the log is not, and no other reason for a checkpoint is configured."""
        disk = SmallDisk(32)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "yes", "dir": disk.path, "auto-aof-rewrite-percentage": 0, "checkpoint-log-size": 0, "checkpoint-seconds": 0},
                        prefix=disk.prefix)
        self.addCleanup(server.discard)
        with server.client(timeout=60) as client:
            replies = []
            for _ in range(1000):
                replies = client.pipeline([("SET", "k%d" % i, b"v" * 1000) for i in range(100)])
                if any(isinstance(reply, Error) for reply in replies):
                    break
            self.assertTrue(any(isinstance(reply, Error) for reply in replies), "the disk does not get full")
            until(lambda: client.call("SET", "later", "v") == OK, 30, "room on the disk")
            self.assertLess(int(server.info("persistence")["aof_current_size"]), 10 << 20)
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(client.must("GET", "later"), b"v")
            self.assertEqual(client.must("DBSIZE"), 101)
        server.stop()

    @kelvin_only
    def test_a_dump_that_failed_on_a_full_disk_does_not_stop_what_removes(self):
        disk = SmallDisk(32)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        server = Server({"appendonly": "yes", "save": "1 1", "dir": disk.path, "auto-aof-rewrite-percentage": 0}, prefix=disk.prefix)
        self.addCleanup(server.discard)
        with server.client(timeout=60) as client:
            for i in range(4000):
                client.must("SET", "k%d" % i, os.urandom(2000))
            until(lambda: has_reserve(server), what="the reserve")
            disk.fill()
            until(lambda: isinstance(client.call("APPEND", "k0", "x" * 100), Error), what="the refusal of what grows")
            until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", 60, "the dump's failure")
            until(lambda: client.call("DEL", "absent") == 0, what="the log")
            self.assertEqual(client.must("DEL", "k1"), 1)
            self.assertTrue(client.call("SET", "k2", "v").startswith(b"MISCONF"))
            self.assertTrue(client.call("PING").startswith(b"MISCONF"))
            self.assertEqual(client.must("FLUSHALL"), OK)
            disk.relieve()
            until(lambda: client.call("SET", "later", "v") == OK, 60, "room on the disk")
        server.restart(kill=True)
        self.assertEqual(server.info("keyspace")["db0"].split(",")[0], "keys=1")
        server.stop()

    def refused_then_healed(self, server, client, acknowledged, heal, may_remove=False):
        """From the moment at which the disk refuses writes until after it accepts them again. `may_remove`: there is a reserve for what removes."""
        refused, waiting, key = self.write_until_refused(server, acknowledged, 1000)
        self.assertTrue(refused.startswith(b"MISCONF"), refused)
        # Reads continue.
        self.assertEqual(client.must("GET", "first"), b"v")
        self.assertEqual(server.info("persistence")["aof_last_write_status"], "err")
        if may_remove:
            until(lambda: client.call("DEL", "absent") == 0, what="a log that can be written from the reserve")
        removing = [] if may_remove else [["DEL", "k1"], ["FLUSHALL"], ["EXPIRE", "k1", "100"]]
        for command in removing + [["APPEND", "k1", "x"], ["HSET", "h", "f", "v"]]:
            self.assertTrue(client.call(*command).startswith(b"MISCONF"), command)
        heal()
        until(lambda: client.call("SET", "healed", "v") == OK, 20, "writing after the disk is repaired")
        acknowledged["healed"] = b"v"
        if waiting:
            waiting.socket.settimeout(20)
            self.assertEqual(waiting.receive(), OK)
            waiting.close()
            acknowledged[key] = b"v" * 1000
        self.assertEqual(client.must("DBSIZE"), len(acknowledged))
        self.assertEqual(server.info("persistence")["aof_last_write_status"], "ok")
        for i in range(50):
            client.must("SET", "later%d" % i, "w" * 3000)
            acknowledged["later%d" % i] = b"w" * 3000

    def survived(self, server, acknowledged):
        server.kill9()
        server.start()
        with server.client() as client:
            keys = sorted(acknowledged)
            for key, reply in zip(keys, client.pipeline(["GET", key] for key in keys)):
                self.assertEqual(reply, acknowledged[key], key)
            self.assertEqual(client.must("DBSIZE"), len(acknowledged))
        server.stop()

    @kelvin_only
    def test_a_kill_while_the_log_is_full(self):
        """Redis replies OK to one command that it then can't write; all commands that Kelvin acknowledges are in the file."""
        for policy in ("no", "everysec"):
            server = self.start(appendonly="yes", appendfsync=policy)
            acknowledged = {}
            with server.client() as client:
                client.must("SET", "first", "v")
                acknowledged["first"] = b"v"
            limit(server, log_size(server) + 30000)
            _, waiting, _ = self.write_until_refused(server, acknowledged, 700)
            self.survived_at_least(server, acknowledged)
            if waiting:
                waiting.close()

    def survived_at_least(self, server, acknowledged):
        """As above, but the refused command may be there."""
        server.kill9()
        server.start()
        with server.client() as client:
            keys = sorted(acknowledged)
            for key, reply in zip(keys, client.pipeline(["GET", key] for key in keys)):
                self.assertEqual(reply, acknowledged[key], key)
        server.stop()

    def test_always_acknowledges_only_what_is_written(self):
        """Redis exits here; a server that does not must refuse writes. In both cases all acknowledged writes are there."""
        server = self.start(appendonly="yes", appendfsync="always")
        acknowledged = {}
        with server.client() as client:
            client.must("SET", "first", "v")
            acknowledged["first"] = b"v"
            limit(server, log_size(server) + 30000)
            client.socket.settimeout(5)
            try:
                for i in range(200):
                    reply = client.call("SET", "k%d" % i, "v" * 700)
                    if isinstance(reply, Error):
                        break
                    acknowledged["k%d" % i] = b"v" * 700
            except OSError:
                pass
        self.assertLess(len(acknowledged), 150, "more was acknowledged than fits into the file")
        server.expect_crash = True
        self.survived_at_least(server, acknowledged)

    @kelvin_only
    def test_a_store_that_can_not_grow(self):
        """Demotion fails: the keys stay hot and correct, the error is reported, memory stays limited, and demotion resumes by itself."""
        server = self.start(maxmemory="24mb", tier_write_buffer="1mb")
        acknowledged = {}
        with server.client(timeout=120) as client:
            for i in range(5000):
                client.must("SET", "k%d" % i, ("%d;" % i) * 100)
                acknowledged["k%d" % i] = (("%d;" % i) * 100).encode()
            limit(server, 4096)
            refused = None
            for i in range(5000, 400000):
                reply = client.call("SET", "k%d" % i, ("%d;" % i) * 200)
                if isinstance(reply, Error):
                    refused = reply
                    break
                acknowledged["k%d" % i] = (("%d;" % i) * 200).encode()
            self.assertIsNotNone(refused, "memory is over its limit without an error")
            self.assertTrue(refused.startswith(b"OOM"), refused)
            info = server.info()
            self.assertGreater(int(info["tier_errors"]), 0)
            self.assertNotEqual(info["tier_status"], "ok")
            self.assertLessEqual(int(info["used_memory"]), 24 * (1 << 20) * 1.1)
            self.check_all_values(client, acknowledged)
            limit(server, None)
            until(lambda: client.call("SET", "healed", "v") == OK, 60, "writing after the disk is repaired")
            acknowledged["healed"] = b"v"
            for i in range(20000):
                # One write that fits in memory does not mean that demotion has tried again: others may be refused until it has.
                until(lambda: client.call("SET", "later%d" % i, ("%d;" % i) * 200) == OK, 60, "writing after demotion resumed")
                acknowledged["later%d" % i] = (("%d;" % i) * 200).encode()
            until(lambda: server.info("tiering")["tier_status"] == "ok", 30, "a store without an error")
            self.check_all_values(client, acknowledged)
        server.stop()

    def check_all_values(self, client, acknowledged):
        keys = sorted(acknowledged)
        wrong = []
        for start in range(0, len(keys), 500):
            some = keys[start:start + 500]
            wrong += [key for key, reply in zip(some, client.pipeline(["GET", key] for key in some)) if reply != acknowledged[key]]
        self.assertEqual(wrong[:5], [])
        self.assertEqual(client.must("DBSIZE"), len(acknowledged))

    @kelvin_only
    def test_a_store_that_is_full_by_its_own_limit(self):
        server = self.start(maxmemory="24mb", tier_max_size="16mb", maxmemory_policy="noeviction")
        acknowledged, refused = {}, None
        with server.client(timeout=120) as client:
            for i in range(400000):
                value = os.urandom(20).hex() * 40
                reply = client.call("SET", "k%d" % i, value)
                if isinstance(reply, Error):
                    refused = reply
                    break
                acknowledged["k%d" % i] = value.encode()
            self.assertIsNotNone(refused, "neither memory nor store is limited")
            self.assertTrue(refused.startswith(b"OOM"), refused)
            self.check_all_values(client, acknowledged)
            gone = sorted(acknowledged)[::2]
            for start in range(0, len(gone), 500):
                client.must("DEL", *gone[start:start + 500])
            for key in gone:
                del acknowledged[key]
            until(lambda: client.call("SET", "again", "v") == OK, 60, "space after deletions")
            acknowledged["again"] = b"v"
            self.check_all_values(client, acknowledged)
        server.stop()


if __name__ == "__main__":
    main()
