"""A kill at every point of demotion, checkpoint, commit and recovery: no acknowledged write is lost.

A point is a kind of change on the disk; a preloaded shim kills the server before, after or in the middle of the n-th such change.
SEED=n, SEEDS=n: the first seed and the number of seeds; each tests all points in a random order, in one directory.
"""
import os
import random
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import DELAY, KILL_AFTER, KILL_BEFORE, KILL_MIDDLE, Disk                          # noqa: E402
from support.load import Load                                                                       # noqa: E402
from support.server import Server, StartFailed, is_sanitized, read_text, scaled, seed_new, until               # noqa: E402

SEEDS = int(os.environ.get("SEEDS") or 1)
IMAGE = "appendonlydir/*.base.image"
MANIFEST = "appendonlydir/*.manifest"
INCREMENT = "appendonlydir/*.incr.aof"

# The points: kinds of operations, pattern of the path, and the maximum number of the operation at which the kill happens.
RUNNING = {
    "log written": ("write", INCREMENT, 300),
    "log synced": ("sync", INCREMENT, 3),
    "key run created": ("create", "store/*.run", 2),
    "key run written": ("write", "store/*.run", 2),
    "key run synced": ("sync", "store/*.run", 2),
    "demoted: segment created": ("create", "store/*.seg", 3),
    "demoted: segment written": ("write", "store/*.seg", 30),
    "segment settled": ("sync", "store/*.seg", 3),
    "segment collected": ("unlink", "store/*.seg", 3),
    "prepare: increment created": ("create", INCREMENT, 2),
    "manifest created": ("create", MANIFEST, 4),
    "manifest written": ("write", MANIFEST, 4),
    "manifest synced": ("sync", MANIFEST, 4),
    "manifest renamed": ("rename", MANIFEST, 4),
    "prepare: manifest renamed": ("rename", MANIFEST, 1),
    "commit: manifest renamed": ("rename", MANIFEST, -2),
    "log's directory synced": ("sync", "appendonlydir", 6),
    "image created": ("mkdir", IMAGE, 2),
    "image's store created": ("mkdir", IMAGE + "/store", 2),
    "image: key run linked": ("link", IMAGE + "/store/*.run", 3),
    "image: segment linked": ("link", IMAGE + "/store/*.seg", 3),
    "image: meta data created": ("create", IMAGE + "/store/meta", 2),
    "image: meta data written": ("write", IMAGE + "/store/meta", 2),
    "image: meta data synced": ("sync", IMAGE + "/store/meta", 2),
    "image: store synced": ("sync", IMAGE + "/store", 4),
    "image: tags created": ("create", IMAGE + "/tags", 2),
    "image: tags written": ("write", IMAGE + "/tags", 2),
    "image: tags synced": ("sync", IMAGE + "/tags", 2),
    "image: functions created": ("create", IMAGE + "/functions", 2),
    "image: functions written": ("write", IMAGE + "/functions", 2),
    "image: functions synced": ("sync", IMAGE + "/functions", 2),
    "image: dataset's copy synced": ("sync", IMAGE + "/dataset.copy", 2),
    "image: dataset created": ("create", IMAGE + "/dataset", 2),
    "image: dataset written": ("write", IMAGE + "/dataset", 2),
    "image: dataset synced": ("sync", IMAGE + "/dataset", 2),
    "image synced": ("sync", IMAGE, 2),
    "commit: old increment removed": ("unlink", INCREMENT, 2),
    "commit: old image's file removed": ("unlink", IMAGE + "/*", 8),
    "commit: old image's directory removed": ("rmdir", IMAGE + "*", 3),
    "any change": ("create write sync rename link unlink mkdir rmdir truncate", "*", 600),
}
STARTING = {
    "log's directory opened": ("open", "appendonlydir", 1),
    "manifest read": ("read", MANIFEST, 1),
    "old store opened": ("create open", "store/LOCK", 1),
    "old store's file removed": ("unlink", "store/*", 6),
    "working store created": ("mkdir", "store", 1),
    "working store: key run linked": ("link", "store/*.run", 1),
    "working store: segment linked": ("link", "store/*.seg", 1),
    "working store: meta data written": ("write sync", "store/meta", 1),
    "working store: meta data removed": ("unlink", "store/meta", 1),
    "working store synced": ("sync", "store", 2),
    "dataset read": ("open read", IMAGE + "/dataset", 2),
    "functions read": ("open read", IMAGE + "/functions", 2),
    "tags read": ("open read", IMAGE + "/tags", 2),
    "log read": ("read", INCREMENT, 1),
    "log opened for writing": ("sync", INCREMENT, 1),
    "any operation": ("all", "*", 40),
}


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class PointsTest(unittest.TestCase):
    def begin(self, seed):
        self.chance = random.Random(seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        # Some seeds have more data than memory, so that keys are demoted and loaded all the time.
        keys, value_size, maxmemory = self.chance.choice(((30, 600, "0"), (30, 6000, "16mb"), (300, 30000, "24mb"), (300, 30000, "48mb")))
        self.load = Load(seed, keys=keys, value_size=value_size)
        options = {"appendonly": "yes", "appendfsync": self.chance.choice(("always", "everysec", "no")),
                   "auto-aof-rewrite-percentage": "0", "io-threads": str(self.chance.choice((1, 4))),
                   "maxmemory": maxmemory, "tier-batch-size": "64kb", "tier-segment-size": "256kb", "tier-write-buffer": self.chance.choice(("64kb", "1mb"))}
        self.server = Server(options, folder=folder, environment=self.disk.environment)
        self.name = "SEED=%d, %r" % (seed, options)

    def kept(self, point, error):
        self.server.kill9()
        self.server.folder_is_ours = False
        self.fail("%s, life %d, killed %s: %s\nThe directory is %s" % (self.name, self.load.life, point, error, self.server.folder))

    def end(self):
        self.assertIsNone(self.server.alarm())
        self.disk.heal()
        self.server.restart(kill=True)
        # If the server was killed after it created an increment and before the manifest had it, the file is empty, and its number is not reused.
        folder = os.path.join(self.server.folder, "appendonlydir")
        stray = {name for name in self.stray() if not (name.endswith(".incr.aof") and os.path.getsize(os.path.join(folder, name)) == 0)}
        self.assertEqual(stray, set(), "%s: files remain that no manifest has" % self.name)
        self.server.folder_is_ours = True
        self.server.stop()
        self.disk.remove()

    def stray(self):
        log = os.path.join(self.server.folder, "appendonlydir")
        named = {line.split()[1] for line in read_text(os.path.join(log, "appendonly.aof.manifest")).splitlines()}
        return {name for name in os.listdir(log) if name.endswith((".incr.aof", ".image")) or name.startswith("temp-")} - named

    def arm(self, point, kinds, pattern, count):
        """Sets the rule for the kill; returns its description."""
        actions = {"before": KILL_BEFORE, "after": KILL_AFTER}
        if "write" in kinds:
            actions["in the middle of"] = KILL_MIDDLE
        when = self.chance.choice(sorted(actions))
        first = -count if count < 0 else self.chance.randrange(1, count + 1)
        self.disk.rule(0, kinds, pattern, actions[when], first=first)
        return "%s number %d of '%s'" % (when, first, point)

    def running(self, point, kinds, pattern, count):
        self.disk.heal()
        self.server.expect_crash = True
        if self.load.writing["keys"] == 30 and self.chance.random() < 0.4:
            self.disk.rule(1, "write", "store/*.seg", DELAY, delay_us=3000)     # so that sealing takes some time
        self.load.start(self.server)
        time.sleep(self.chance.uniform(0, 0.05))
        trap = self.arm(point, kinds, pattern, count)
        try:
            until(lambda: not self.server.alive() or self.load.wrong(), 30, "a kill %s" % trap)
            self.load.end()
            self.assertEqual(self.server.process.wait(), -signal.SIGKILL)
        except AssertionError as error:
            self.kept(trap, error)
        return trap

    def starting(self, point, kinds, pattern, count):
        """Kills a server during its start. Not every start reaches all points; returns whether this one did."""
        self.disk.heal()
        trap = self.arm(point, kinds, pattern, count)
        try:
            self.server.launch()
            ready = self.server.wait_ready()
            if ready:
                time.sleep(0.01)
            self.server.kill9()
            if not ready:
                self.assertEqual(self.server.process.returncode, -signal.SIGKILL, self.server.log_tail())
        except (AssertionError, StartFailed) as error:
            self.kept(trap, error)
        return trap, self.disk.acted > 0 and self.disk.matched(0) > 0

    def come_back(self, trap):
        self.disk.heal()
        try:
            self.server.folder_is_ours = False
            self.server.start()
            self.load.settle(self.server)
        except (AssertionError, StartFailed, OSError) as error:
            self.kept(trap, error)

    def all_points(self, seed):
        self.begin(seed)
        running, starting, met = list(RUNNING.items()), list(STARTING.items()), set()
        self.chance.shuffle(running)
        self.chance.shuffle(starting)
        if SEEDS == 1:
            running = running[:scaled(25)]
        for number, (point, what) in enumerate(running):
            trap = self.running(point, *what)
            # After every second kill, a start is killed as well; sometimes the recovery after this is killed once more.
            if number % 2 == 0:
                where, what = starting[number // 2 % len(starting)]
                again, was_met = self.starting(where, *what)
                met |= {where} if was_met else set()
                trap += ", then " + again
                if self.chance.random() < 0.3:
                    trap += ", then " + self.starting("any operation", *STARTING["any operation"])[0]
            self.come_back(trap)
        self.end()
        return len(running), met

    def test_a_damaged_working_store_is_deleted(self):
        """It was only swap space. But it is deleted only if the directory is marked as Kelvin's."""
        def damage(name, text):
            path = os.path.join(server.folder, "store", name)
            os.remove(path)
            if text is not None:
                with open(path, "wb") as file:
                    file.write(text)
        with Server({"appendonly": "yes"}) as server:
            with server.client() as client:
                client.must("SET", "a", "1")
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the end of a checkpoint")
                client.must("SET", "b", "2")
            def run():
                return next(name for name in os.listdir(os.path.join(server.folder, "store")) if name.endswith(".run"))

            for text in (b"", b"no key run", None):
                server.kill9()
                damage(run(), text)
                server.start()
                with server.client() as client:
                    self.assertEqual((client.must("GET", "a"), client.must("GET", "b")), (b"1", b"2"))
            server.kill9()
            name = run()
            damage("KELVIN", None)
            server.launch()
            self.assertFalse(server.wait_ready())
            self.assertIn(b"no file KELVIN", server.log_new())
            self.assertTrue(os.path.exists(os.path.join(server.folder, "store", name)))
            damage(name, b"")
            with open(os.path.join(server.folder, "store", "KELVIN"), "w"):
                pass
            server.start()

    def test_a_kill_at_every_point(self):
        first, total, kills, met, beyond = seed_new(), 0, 0, set(), 0
        for seed in range(first, first + SEEDS):
            with self.subTest(seed=seed):
                count, more = self.all_points(seed)
                met |= more
                kills += count
                total += self.load.acknowledged
                beyond += self.load.beyond
        print("  %d kills, %d points of recovery reached, %d commands acknowledged, none lost, %d more kept (seeds from %d)" % (
            kills, len(met), total, beyond, first), file=sys.stderr)
        if SEEDS >= 3:
            self.assertEqual(set(STARTING) - met, set(), "points of recovery that were never reached")


if __name__ == "__main__":
    main()
