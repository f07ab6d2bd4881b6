"""cluster-enabled is changed between two starts: the keys get other hashes. A kill -9 or a full disk at any step of that start, or of the first
checkpoint after it, loses nothing, whichever of the two kinds the next start is for.

A start converts the image, replays the log, and then makes a checkpoint with the new hashes; each attempt begins in the same directory.

SEED=n, SEEDS=n: the first seed and the number of seeds; each has other points.
"""
import errno
import os
import random
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import FAIL, KILL_AFTER, KILL_BEFORE, NOTHING, Disk                                       # noqa: E402
from support.replication.readings import read_database                                              # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, is_sanitized, port_free, seed_new, until                         # noqa: E402

SEEDS = int(os.environ.get("SEEDS") or 1)
KILLS = 12
GROWTH = "write create mkdir allocate"


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class LayoutTest(unittest.TestCase):
    def begin(self, seed, **options):
        self.chance = random.Random(seed)
        self.name = "SEED=%d, %r" % (seed, options)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.original, self.disk = folder + ".original", Disk(folder)
        self.server = Server({"cluster-enabled": "no", "cluster-port": port_free(), "cluster-allow-reads-when-down": "yes", "auto-aof-rewrite-percentage": 0,
                              "maxmemory": "100mb", **options}, folder=folder, environment=self.disk.environment)
        self.server.folder_is_ours = True
        with self.server.client() as client:
            self.fill(client, "image", 1)
            if self.is_logged():
                client.must("BGREWRITEAOF")
                until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 60, "the image")
            self.fill(client, "log", 2)
            self.fill(client, "image", 3, 40)
            client.must("DEL", "image:string:1", "log:string:2")
            if not self.is_logged():
                client.must("SAVE")
            self.data = read_database(client, 0)
        self.server.kill9()

    def end(self):
        self.server.discard()
        self.disk.remove()
        shutil.rmtree(self.original, ignore_errors=True)

    def is_logged(self):
        return self.server.options["appendonly"] == "yes"

    def fill(self, client, prefix, value, count=120):
        """Keys of all types; every other one becomes cold."""
        commands = []
        for at in range(count):
            key = "%s:%%s:%d" % (prefix, at)
            commands += [["SET", key % "string", "%d" % value * self.chance.choice((1, 100, 3000))], ["HSET", key % "hash", "f%d" % value, at],
                         ["RPUSH", key % "list", value], ["PEXPIREAT", key % "string", 4000000000000 + at]]
            if at % 10 == 0:
                commands += [["SADD", key % "set", value], ["ZADD", key % "zset", value, "m%d" % value], ["XADD", key % "stream", "*", "f", value]]
        client.pipeline(commands)
        names = [command[1] for command in commands]
        self.assertGreater(client.must("TIER", "DEMOTE", *names[::2]), 0)

    def keep(self):
        """The directory as it is now is where each of the next starts begins."""
        shutil.rmtree(self.original, ignore_errors=True)
        shutil.copytree(self.server.folder, self.original, ignore=shutil.ignore_patterns("server.log"))

    def put_back(self):
        for name in os.listdir(self.server.folder):
            path = os.path.join(self.server.folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        shutil.copytree(self.original, self.server.folder, dirs_exist_ok=True)

    def start(self, by_slot):
        self.server.options["cluster-enabled"] = "yes" if by_slot else "no"
        self.server.start()

    def compare(self, what):
        by_slot = self.server.options["cluster-enabled"] == "yes"
        with self.server.client(timeout=60) as client:
            self.assertEqual(read_database(client, 0), self.data, "%s: %s" % (self.name, what))
            if by_slot:                 # another way to find them
                slots = {client.must("CLUSTER", "KEYSLOT", key) for _, key in self.data}
                self.assertEqual(sum(client.must("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots), len(self.data), self.name)
        self.assertIsNone(self.server.alarm())

    def has_settled(self):
        """It has ended; or it is ready, and has an image with the new hashes, or none, or the disk has failed: a checkpoint waits for that long."""
        if not self.server.alive():
            return True
        try:
            with self.server.client() as client:
                info = client.call("INFO", "persistence")
        except OSError:
            return False
        if isinstance(info, Error) or b"\nloading:0" not in info:
            return False
        return self.disk.acted > self.acted or (b"aof_rewrite_in_progress:0" in info and b"aof_rewrite_scheduled:0" in info)

    def convert(self, by_slot):
        """A start with the other hashes, and its first checkpoint, in the directory that was kept. The server has ended then, or not."""
        self.put_back()
        self.acted = self.disk.acted
        self.server.options["cluster-enabled"] = "yes" if by_slot else "no"
        self.server.launch()
        until(self.has_settled, 60, "the conversion")

    def compare_after(self, what):
        """With either kind of hashes."""
        self.server.kill9()
        self.disk.heal()
        self.start(self.chance.random() < 0.5)
        self.compare("%s, then a start with cluster-enabled %s" % (what, self.server.options["cluster-enabled"]))
        self.server.kill9()

    def convert_with_kills(self, by_slot):
        """The n-th operation on the disk is the last."""
        for at in range(KILLS):
            number = self.chance.randrange(self.operations * at // KILLS, self.operations * (at + 1) // KILLS) + 1
            self.disk.rule(0, "all", "*", self.chance.choice((KILL_BEFORE, KILL_AFTER)), first=number)
            self.convert(by_slot)
            self.compare_after("killed at operation %d of %d, %s" % (number, self.operations, self.disk.last()))

    def convert_on_full_disk(self, by_slot):
        """From the beginning, or from a later operation on. The start fails, or its checkpoint."""
        for first in (1, self.chance.randrange(1, self.growths), self.chance.randrange(1, self.growths)):
            self.disk.rule(0, GROWTH, "*", FAIL, error=errno.ENOSPC, first=first)
            self.convert(by_slot)
            self.compare_after("a full disk from operation %d of %d on" % (first, self.growths))

    def convert_undisturbed(self, by_slot):
        before = self.disk.operations
        self.disk.rule(0, GROWTH, "*", NOTHING)
        self.convert(by_slot)
        self.operations, self.growths = self.disk.operations - before, self.disk.matched(0)
        self.compare("undisturbed")
        self.server.kill9()

    def convert_there_and_back(self):
        for by_slot in (True, False):
            self.keep()
            self.convert_undisturbed(by_slot)
            self.convert_with_kills(by_slot)
            self.convert_on_full_disk(by_slot)
            self.convert_undisturbed(by_slot)

    def run_seeds(self, **options):
        first = seed_new()
        for seed in range(first, first + SEEDS):
            self.begin(seed, **options)
            try:
                self.convert_there_and_back()
            finally:
                self.end()

    def test_with_a_log(self):
        self.run_seeds(appendonly="yes", appendfsync="no")

    def test_with_a_dump(self):
        self.run_seeds(appendonly="no")


if __name__ == "__main__":
    main()
