"""While the log can't be written, nothing may be appended to its tail in memory: expired keys and fields are absent for reads, but
are only deleted, and the deletion logged, when the log can be written again.
"""
import errno
import os
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import FAIL, Disk                                                                 # noqa: E402
from support.resp import OK                                                                         # noqa: E402
from support.server import Server, is_sanitized, until                                              # noqa: E402

HOT, COLD = 200, 100
STAYS = 5                       # keys that are left at the end: first, broken, fields, healed, many


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class LogErrorTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        self.server = Server({"appendonly": "yes", "appendfsync": "everysec", "hz": 100, "maxmemory": "200mb"}, folder=folder,
                             environment=self.disk.environment)
        self.server.folder_is_ours = True
        self.addCleanup(self.disk.remove)
        self.addCleanup(self.server.discard)
        self.c = self.server.client(timeout=20)
        self.addCleanup(self.c.close)

    def status(self):
        return self.server.info("persistence")["aof_last_write_status"]

    def fill(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.c.must("SET", "first", "v")
        for i in range(HOT):
            self.c.must("SET", "hot%d" % i, "v", "PX", 1)
        when = int(time.time() * 1000) + 1500
        for i in range(COLD):
            self.c.must("SET", "cold%d" % i, "v", "PXAT", when)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["cold%d" % i for i in range(COLD)]), COLD)
        self.c.must("HSET", "fields", "dies", "1", "lives", "2")
        self.c.must("HPEXPIRE", "fields", 1, "FIELDS", 1, "dies")
        self.c.must("HSET", "empty", "dies", "1")
        self.c.must("HPEXPIRE", "empty", 1, "FIELDS", 1, "dies")
        self.c.must("HSET", "many", "lives", "1", *sum([["f%d" % i, "v"] for i in range(3000)], []))
        self.c.must("HPEXPIRE", "many", 1, "FIELDS", 3000, *["f%d" % i for i in range(3000)])
        return when

    def reads_right(self):
        for i in range(HOT):
            self.assertIsNone(self.c.must("GET", "hot%d" % i))
        self.assertEqual(self.c.must("EXISTS", "hot1", "cold1", "empty"), 0)
        self.assertEqual(self.c.must("TTL", "hot1"), -2)
        self.assertIsNone(self.c.must("HGET", "fields", "dies"))
        self.assertEqual(self.c.must("HGETALL", "fields"), [b"lives", b"2"])
        self.assertEqual(self.c.must("HLEN", "fields"), 1)
        self.assertEqual(self.c.must("HGETALL", "empty"), [])
        self.assertEqual(self.c.must("HGETALL", "many"), [b"lives", b"1"])
        self.assertEqual(self.c.must("GET", "first"), b"v")

    def test_expired_keys_are_deleted_only_when_it_can_be_logged(self):
        when = self.fill()
        self.disk.rule(0, "sync", "appendonlydir/*.incr.aof", FAIL, error=errno.EIO)
        self.assertEqual(self.c.must("SET", "broken", "v"), OK)
        until(lambda: self.status() == "err", 20, "a failed fsync")
        # Everything has expired: some by the clock only, some also by an access.
        until(lambda: time.time() * 1000 > when, 20, "the keys' time")
        before = self.server.info()
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        self.reads_right()
        for i in range(COLD):
            self.assertIsNone(self.c.must("GET", "cold%d" % i))
        time.sleep(0.5)         # some iterations of the writer, and some cycles of active expiry
        self.reads_right()
        after = self.server.info()
        for name in ("aof_buffer_length", "expired_keys", "expired_subkeys", "evicted_keys", "rdb_changes_since_last_save"):
            self.assertEqual(after[name], before[name], name)
        self.assertEqual(self.c.must("DBSIZE"), HOT + COLD + STAYS)      # with "empty", without "healed", which is created later
        self.assertEqual(self.status(), "err")

        self.disk.heal()
        until(lambda: self.c.call("SET", "healed", "v") == OK, 20, "writing the log")
        until(lambda: self.c.must("DBSIZE") == STAYS, 20, "deleting all expired keys")
        self.reads_right()
        self.server.restart(kill=True)
        self.c.close()
        self.c = self.server.client(timeout=20)
        self.addCleanup(self.c.close)
        self.assertEqual(self.c.must("DBSIZE"), STAYS)
        self.reads_right()
        self.server.stop()


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class EndTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        self.addCleanup(self.disk.remove)
        self.server = Server({"appendonly": "yes", "appendfsync": "no"}, folder=folder, environment=self.disk.environment)
        self.server.folder_is_ours = True
        self.addCleanup(self.server.discard)

    def test_a_log_that_can_t_be_synced_does_not_hold_up_the_end(self):
        """The last checkpoint has begun: its cut is never reached. It waited 40 seconds for that, whatever signal came."""
        with self.server.client(timeout=20) as c:
            for i in range(400):
                self.assertEqual(c.must("SET", "key%d" % i, "v" * 4000), OK)
        # The first sync is that of the increment that the checkpoint prepares.
        self.disk.rule(0, "sync", "appendonlydir/*.incr.aof", FAIL, first=2, error=errno.ENOSPC)
        self.server.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.process.wait(25), 0)
        log = self.server.log_new()
        self.assertIn(b"A last checkpoint before exiting", log)
        self.assertIn(b"Background AOF rewrite failed: The AOF's files have not reached the cut yet", log)
        self.disk.heal()
        self.server.start()
        with self.server.client(timeout=20) as c:
            self.assertEqual(c.must("DBSIZE"), 400)
        self.server.stop()


if __name__ == "__main__":
    main()
