"""A disk that fails at any step of a checkpoint, of the log, of demotion, of the start: no write is lost, and the server recovers by itself.

A preloaded shim makes operations fail, once or until the disk works again. Meanwhile the server keeps running and replies. A failed
checkpoint is reported and the last one is kept. Afterwards writes are accepted again, the next checkpoint succeeds, and after a kill at
the end all acknowledged writes are there. SEED=n, SEEDS=n: each seed tests all faults in a random order, in one directory.
"""
import errno
import os
import random
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import FAIL, FOREVER, LATE_FAIL, SHORT, Disk                                      # noqa: E402
from support.load import Load                                                                       # noqa: E402
from support.resp import OK, Status                                                          # noqa: E402
from support.server import Server, StartFailed, is_sanitized, scaled, seed_new, until               # noqa: E402

SEEDS = int(os.environ.get("SEEDS") or 1)
IMAGE = "appendonlydir/*.base.image"
MANIFEST = "appendonlydir/*.manifest"
INCREMENT = "appendonlydir/*.incr.aof"
CHANGES = "create write sync rename link unlink mkdir rmdir truncate allocate"
STARTED = Status(b"Background append only file rewriting started")
# A command with one of these errors was not executed.
REFUSALS = (b"MISCONF", b"OOM", b"ERR the key's record can't be read")

# operations, pattern, and whether checkpoints fail as long as the fault lasts.
FAULTS = {
    "increment can't be created": ("create", INCREMENT, True),
    "log can't be written": ("write", INCREMENT, False),
    "log can't be cut back": ("write truncate", INCREMENT, False),
    "log can't be synced": ("sync", INCREMENT, True),
    "manifest can't be created": ("create", MANIFEST, True),
    "manifest can't be written": ("write", MANIFEST, True),
    "manifest can't be synced": ("sync", MANIFEST, True),
    "manifest can't be renamed": ("rename", MANIFEST, True),
    "log's directory can't be synced": ("sync", "appendonlydir", True),
    "image can't be created": ("mkdir", IMAGE, True),
    "image's store can't be created": ("mkdir", IMAGE + "/store", True),
    "image's files can't be created": ("create", IMAGE + "/*", True),
    "image's files can't be written": ("write", IMAGE + "/*", True),
    "image's files can't be synced": ("sync", IMAGE + "/*", True),
    "image's meta data can't be written": ("create write sync", IMAGE + "/store/meta", True),
    "image's tags can't be written": ("write sync", IMAGE + "/tags", True),
    "image's functions can't be written": ("write sync", IMAGE + "/functions", True),
    "image's dataset can't be written": ("write", IMAGE + "/dataset", True),
    "image can't be synced": ("sync", IMAGE, True),
    "files can't be linked": ("link", "*", False),
    "nothing can be removed": ("unlink rmdir", "appendonlydir/*", False),
    "nothing can be closed": ("close", "*", False),
    "key runs can't be written": ("write", "store/*.run", False),
    "key runs can't be read": ("read", "store/*.run", False),
    "segments can't be created": ("create", "store/*.seg", False),
    "segments can't be written": ("write", "store/*.seg", False),
    "segments can't be synced": ("sync", "store/*.seg", False),
    "segments can't be removed": ("unlink", "store/*.seg", False),
    "segments can't be read": ("read", "store/*.seg", False),
    "store can't be written": ("create write", "store/*", False),
    "store can't be synced": ("sync", "store*", False),
    "store can't be read": ("read", "store/*", False),
    "nothing can be opened": ("open create", "*", True),
    "nothing can be changed": (CHANGES, "*", True),
    "nothing works": (CHANGES + " open read", "*", True),
}


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class FaultsTest(unittest.TestCase):
    def begin(self, seed):
        self.chance = random.Random(seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        # Some seeds have more data than memory, so that keys are demoted and loaded all the time.
        keys, value_size, maxmemory = self.chance.choice(((30, 600, "0"), (30, 6000, "16mb"), (300, 30000, "24mb"), (300, 30000, "48mb")))
        self.load = Load(seed, keys=keys, value_size=value_size, tolerated=REFUSALS)
        options = {"appendonly": "yes", "appendfsync": self.chance.choice(("always", "everysec", "no")),
                   "auto-aof-rewrite-percentage": "0", "io-threads": str(self.chance.choice((1, 4))),
                   "maxmemory": maxmemory, "tier-batch-size": "64kb", "tier-segment-size": "256kb", "tier-write-buffer": self.chance.choice(("64kb", "1mb"))}
        self.server = Server(options, folder=folder, environment=self.disk.environment)
        self.server.folder_is_ours = False
        self.name = "SEED=%d, %r" % (seed, options)

    def kept(self, fault, error):
        if not self.server.alive():
            fault += ", and the server ended (%d)" % self.server.process.returncode
        self.server.kill9()
        self.fail("%s, life %d, %s: %s\nThe directory is %s" % (self.name, self.load.life, fault, error, self.server.folder))

    def end(self):
        self.assertIsNone(self.server.alarm())
        self.server.folder_is_ours = True
        self.server.stop()
        self.disk.remove()

    def draw(self, kinds, pattern, forever):
        """Sets a rule; returns its description, and the number of the first operation to which it applies."""
        errors = [errno.EIO, errno.ENOSPC] + ([errno.EMFILE] if "open" in kinds or "create" in kinds else [])
        error = self.chance.choice(errors)
        action, first = FAIL, self.chance.choice((1, 1, 1, 2, 3, 4))
        if not forever and kinds == "write" and self.chance.random() < 0.3:
            action = SHORT
        elif kinds in ("write", "sync", "rename", "mkdir", "link", "unlink rmdir") and self.chance.random() < 0.2:
            action = LATE_FAIL
        self.disk.rule(0, kinds, pattern, action, first=first, last=FOREVER if forever else first, error=error)
        return "%s %s %d, %s" % ({FAIL: "fails", SHORT: "is short", LATE_FAIL: "fails after it was done"}[action],
                                 "from number" if forever else "for number", first, errno.errorcode[error]), first

    def checkpoint(self, client):
        """Returns whether a checkpoint succeeded; None if it did not end in time."""
        before = self.server.info("persistence")
        try:
            until(lambda: client.call("BGREWRITEAOF") == STARTED, 60, "starting a checkpoint")
            until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", 5, "the end of a checkpoint")
        except AssertionError:
            return None
        after = self.server.info("persistence")
        self.assertGreater(int(after["aof_rewrites"]), int(before["aof_rewrites"]))
        return after["aof_last_bgrewrite_status"] == "ok"

    def faulty(self, fault, kinds, pattern, hinders):
        """Runs the server while the disk fails for some time."""
        forever, acted = self.chance.random() < 0.6, self.disk.acted
        self.load.start(self.server, checkpoints=False)
        time.sleep(self.chance.uniform(0, 0.1))
        words, first = self.draw(kinds, pattern, forever)
        fault = "'%s' %s" % (fault, words)
        try:
            with self.server.client(timeout=60) as client:
                made = self.checkpoint(client)
                if forever and hinders and first == 1 and self.disk.acted > acted:
                    self.assertIsNot(made, True, "a checkpoint succeeded although the disk failed")
                self.assertEqual(client.call("ECHO", "alive"), b"alive")
                time.sleep(self.chance.choice((0, 0.1, 1.2)))
                killed = self.chance.random() < 0.3
                if not killed:
                    self.heals(client)
            self.assertTrue(self.server.alive(), self.server.log_tail())
        except (AssertionError, OSError) as error:
            self.kept(fault, error)
        return fault, killed

    def heals(self, client):
        self.disk.heal()
        until(lambda: client.call("SET", "healed", "v", "PX", "1") == OK, 30, "writing after the disk is repaired")
        until(lambda: self.server.info("persistence")["aof_last_write_status"] == "ok", 30, "a log without an error")
        until(lambda: self.server.info("tiering")["tier_status"] == "ok", 30, "a store without an error")
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of the failed checkpoint")
        made = self.checkpoint(client)
        if made is None:
            until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of the next checkpoint")
            made = self.server.info("persistence")["aof_last_bgrewrite_status"] == "ok"
        self.assertTrue(made, "the next checkpoint failed as well")
        until(lambda: client.call("DEL", "healed") == 0, 30, "an expiry")

    def comes_back(self, fault, killed):
        """Restarts the server. Sometimes the first start has a fault as well: the server starts, or logs why it can't."""
        self.server.expect_crash = True
        try:
            if killed:
                self.server.kill9()
                self.load.end()
            else:
                self.load.end()
                if self.chance.random() < 0.7:
                    self.server.kill9()
                else:
                    self.assertEqual(self.server.terminate(), 0)
            self.assertIsNone(self.server.alarm())
            self.disk.heal()
            if self.chance.random() < 0.4:
                self.disk.rule(0, self.chance.choice(("all", "read", "open", CHANGES)), "*", FAIL, first=self.chance.randrange(1, 60),
                               last=self.chance.choice((FOREVER, 60)), error=self.chance.choice((errno.EIO, errno.ENOSPC)))
                self.server.launch()
                if not self.server.wait_ready(60):
                    self.assertGreater(self.server.process.wait(), 0, "killed by a signal instead of logging why it can't start")
                self.server.kill9()
                self.disk.heal()
                fault += ", then a faulty start"
            self.server.start()
            with self.server.client() as client:
                client.call("DEL", "healed")
            self.load.settle(self.server)
        except (AssertionError, StartFailed, OSError) as error:
            self.kept(fault, error)

    def all_faults(self, seed):
        self.begin(seed)
        faults = list(FAULTS.items())
        self.chance.shuffle(faults)
        faults = faults[:scaled(8)] if SEEDS == 1 else faults
        for name, what in faults:
            self.comes_back(*self.faulty(name, *what))
        self.end()
        return len(faults)

    def test_a_disk_that_fails_and_recovers(self):
        first, total, count, refused = seed_new(), 0, 0, 0
        for seed in range(first, first + SEEDS):
            with self.subTest(seed=seed):
                count += self.all_faults(seed)
                total += self.load.acknowledged
                refused += self.load.refused
        print("  %d faults, %d commands acknowledged, none lost, %d refused (seeds from %d)" % (count, total, refused, first),
              file=sys.stderr)
        if SEEDS >= 5:          # all faults of a seed may be such that no command is refused
            self.assertGreater(refused, 0)


if __name__ == "__main__":
    main()
