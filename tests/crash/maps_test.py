"""Map files of images: images share the record maps that have changed little, and have the changes beside them. A kill at each step of that, faults of the
disk, and files that are damaged or missing: no acknowledged write is lost, and kelvin-check finds what is wrong.

SEED=n: the random choices. SEEDS=n: number of rounds.
"""
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import FAIL, KILL_AFTER, KILL_BEFORE, KILL_MIDDLE, Disk, Journal                  # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, under_test, until                # noqa: E402

SEEDS = int(os.environ.get("SEEDS") or 1)
KEYS = 30000                # in two partitions: each map is larger than what is kept in `tags`
IMAGE = "appendonlydir/*.base.image"
OPTIONS = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": "0", "partitions": "2", "maxmemory": "16mb"}

RUNNING = {
    "map created": ("create", "store/*.map", 2),
    "map linked": ("link", IMAGE + "/*.map", 2),
    "map written": ("write", "store/*.map", 2),
    "map synced": ("sync", "store/*.map", 2),
    "tags written": ("write", IMAGE + "/tags", 1),
    "tags synced": ("sync", IMAGE + "/tags", 1),
    "image synced": ("sync", IMAGE, 1),
    "old map removed": ("unlink", "store/*.map", 2),
    "old image's map removed": ("unlink", IMAGE + "/*.map", 2),
}
STARTING = {
    "map opened": ("open", IMAGE + "/*.map", 2),
    "map adopted": ("link", "store/*.map", 2),
    "old map replaced": ("unlink", "store/*.map", 2),
}
FAULTS = {
    "maps can't be created": ("create", "store/*.map"),
    "maps can't be linked": ("link", "*.map"),
    "maps can't be written": ("write", "store/*.map"),
    "maps can't be synced": ("sync", "store/*.map"),
    "maps can't be removed": ("unlink", "*.map"),
}


def name(number):
    return "key:%012d" % number


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class MapsTest(unittest.TestCase):
    def setUp(self):
        self.seed = seed_new()
        self.chance = random.Random(self.seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        self.server = Server(OPTIONS, folder=folder, environment=self.disk.environment)
        self.server.expect_crash = True
        self.values = {}
        self.change(range(KEYS))
        self.checkpoint()

    def tearDown(self):
        self.disk.heal()
        self.server.folder_is_ours = True
        self.server.stop()
        self.disk.remove()

    def change(self, numbers):
        with self.server.client() as client:
            numbers = list(numbers)
            for first in range(0, len(numbers), 500):
                pairs = []
                for number in numbers[first:first + 500]:
                    self.values[number] = b"%d" % self.chance.randrange(1 << 60)
                    pairs += [name(number), self.values[number]]
                client.must("MSET", *pairs)

    def change_some(self, share):
        self.change(sorted(self.chance.sample(range(KEYS), int(KEYS * share))))
        gone = [number for number in self.chance.sample(range(KEYS), 20) if number in self.values]
        with self.server.client() as client:
            client.must("DEL", *map(name, gone))
        for number in gone:
            del self.values[number]

    def verify(self):
        with self.server.client() as client:
            self.assertEqual(client.must("DBSIZE"), len(self.values), "seed %d" % self.seed)
            for first in range(0, KEYS, 1000):
                numbers = range(first, first + 1000)
                self.assertEqual(client.must("MGET", *map(name, numbers)), [self.values.get(number) for number in numbers], "seed %d" % self.seed)

    def checkpoint(self):
        with self.server.client() as client:
            client.must("BGREWRITEAOF")
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of a checkpoint")
        self.assertEqual(self.server.info("persistence")["aof_last_bgrewrite_status"], "ok")

    def image(self):
        log = os.path.join(self.server.folder, "appendonlydir")
        found = [os.path.join(log, entry) for entry in os.listdir(log) if entry.endswith(".image")]
        self.assertEqual(len(found), 1)
        return found[0]

    def maps(self):
        return {os.stat(os.path.join(self.image(), entry)).st_ino for entry in os.listdir(self.image()) if entry.endswith(".map")}

    def arm(self, kinds, pattern, count):
        actions = [KILL_BEFORE, KILL_AFTER] + ([KILL_MIDDLE] if kinds == "write" else [])
        self.disk.rule(0, kinds, pattern, self.chance.choice(actions), first=self.chance.randrange(1, count + 1))

    def test_images_share_maps(self):
        before = self.maps()
        self.assertEqual(len(before), 2)
        self.change_some(0.01)
        self.checkpoint()
        self.assertEqual(self.maps(), before)
        self.server.restart()
        self.verify()
        self.change_some(0.01)
        self.checkpoint()
        self.assertEqual(self.maps(), before)           # after a start, too
        self.change_some(0.6)
        self.checkpoint()
        self.assertEqual(self.maps() & before, set())
        self.server.restart(kill=True)
        self.verify()

    def test_a_kill_at_every_step(self):
        points = list(RUNNING.items())
        for _ in range(SEEDS):
            self.chance.shuffle(points)
            for point, what in points:
                with self.subTest(point=point, seed=self.seed):
                    self.change_some(self.chance.choice((0.01, 0.1, 0.4)))
                    self.arm(*what)
                    try:
                        self.checkpoint()
                    except (AssertionError, OSError):
                        self.assertEqual(self.server.process.wait(), -signal.SIGKILL)
                    self.disk.heal()
                    self.server.kill9()
                    where, what = self.chance.choice(list(STARTING.items()))
                    self.arm(*what)
                    self.server.launch()
                    self.server.wait_ready()            # it is killed while it starts, or not
                    self.server.kill9()
                    self.disk.heal()
                    self.server.start()
                    self.verify()

    def test_faults_of_map_files_fail_no_checkpoint(self):
        for fault, (kinds, pattern) in FAULTS.items():
            with self.subTest(fault=fault, seed=self.seed):
                self.change_some(self.chance.choice((0.01, 0.5)))
                self.disk.rule(0, kinds, pattern, FAIL, error=self.chance.choice((errno.EIO, errno.ENOSPC, errno.EPERM)))
                self.checkpoint()
                self.server.restart(kill=True)
                self.disk.heal()
                self.verify()
                self.change_some(0.02)
                self.checkpoint()
                self.server.restart(kill=True)
                self.verify()

    def test_a_replica_gets_the_maps(self):
        self.change_some(0.02)
        with Server(dict(OPTIONS)) as replica, replica.client() as client:
            client.must("REPLICAOF", "127.0.0.1", str(self.server.port))
            until(lambda: replica.info("replication")["master_link_status"] == "up", 60, "the link")
            self.assertEqual(replica.info("replication")["master_last_sync"], "image")
            until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of its checkpoint")
            self.server, primary = replica, self.server
            try:
                self.verify()
                before = self.maps()
                self.assertEqual(len(before), 2)
                self.checkpoint()
                self.assertEqual(self.maps(), before)
            finally:
                self.server = primary

    def test_a_backup_has_the_maps(self):
        self.change_some(0.02)
        backup = os.path.join(self.server.folder, "backup")
        with self.server.client() as client:
            client.must("TIER", "BACKUP", backup)
        self.change_some(0.3)
        self.checkpoint()                               # the backup does not need the server's files
        tool = os.path.join(os.path.dirname(under_test()), "kelvin-check")
        done = subprocess.run([tool, backup], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(len([entry for _, _, entries in os.walk(backup) for entry in entries if entry.endswith(".map")]), 2)

    def test_damage_is_found_and_the_maps_are_rebuilt(self):
        tool = os.path.join(os.path.dirname(under_test()), "kelvin-check")

        def check(*options):
            done = subprocess.run([tool, *options, self.server.folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            return done.returncode, done.stdout.decode("utf-8", "replace")

        def damage(path):
            with open(path, "rb") as file:
                data = bytearray(file.read())
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(data)

        def swap(path):
            os.unlink(path)
            os.link(next(os.path.join(self.image(), entry) for entry in os.listdir(self.image()) if entry.endswith(".map")), path)

        self.change_some(0.02)
        self.checkpoint()
        self.server.kill9()
        self.assertEqual(check()[0], 0)
        for harm in (damage, os.unlink, swap):
            for repairs in (False, True):
                with self.subTest(harm=harm.__name__, repairs=repairs, seed=self.seed):
                    self.server.kill9()
                    entries = [entry for entry in os.listdir(self.image()) if entry.endswith(".map")]
                    self.assertEqual(len(entries), 2)
                    harm(os.path.join(self.image(), self.chance.choice(entries)))
                    status, text = check()
                    self.assertEqual(status, 1, text)
                    self.assertRegex(text, "map file")
                    if repairs:
                        check("--repair")
                        self.assertEqual(check()[0], 0)
                        self.assertEqual(self.maps(), set())        # the new tags need none
                    self.server.log_new()
                    self.server.start()
                    self.assertEqual(b"tags are missing or damaged" in self.server.log_new(), not repairs)
                    self.verify()
                    self.checkpoint()
        self.server.kill9()
        shutil.rmtree(os.path.join(self.server.folder, "store"))       # the server's own links are not needed
        self.server.start()
        self.verify()


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class MapsPowerTest(unittest.TestCase):
    """A power cut at any moment: the image that the manifest names has its map files, whole, and no acknowledged write is lost."""
    KEYS, ROUNDS = 24000, 6
    NEW_MAPS, RESTART = 3, 2            # rounds that change half of the keys, and after which the next server adopts the maps
    OPTIONS = dict(OPTIONS, appendfsync="always", maxmemory="0")

    def setUp(self):
        self.seed = seed_new()
        self.chance = random.Random(self.seed)
        self.folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.disk = Disk(self.folder, journal=True)
        self.addCleanup(self.disk.remove)

    def numbers_of(self, round_):
        if round_ == 0:
            return range(self.KEYS)
        return sorted(self.chance.sample(range(self.KEYS), self.KEYS // 2 if round_ == self.NEW_MAPS else 400))

    def change(self, server, round_):
        numbers = self.numbers_of(round_)
        with server.client() as client:
            for first in range(0, len(numbers), 2000):
                client.must("MSET", *[word for number in numbers[first:first + 2000] for word in (name(number), b"%d" % round_)])
            client.must("TIER", "DEMOTE", *map(name, numbers))
        return dict.fromkeys(numbers, b"%d" % round_)

    def checkpoint(self, server):
        with server.client() as client:
            client.must("BGREWRITEAOF")
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of a checkpoint")

    def fill(self):
        """Returns the values after each round, and the moment at which they were acknowledged."""
        rounds, values = [], {}
        server = Server(self.OPTIONS, folder=self.folder, environment=self.disk.environment)
        server.expect_crash = True
        for round_ in range(self.ROUNDS):
            values = {**values, **self.change(server, round_)}
            rounds.append((self.disk.records, values))
            self.checkpoint(server)
            if round_ == self.RESTART:
                server.restart(kill=True)
        server.kill9()
        return rounds

    def moments(self, journal):
        """About each change of a map file or of a manifest, and its sync: just after it, or a little later."""
        after = [moment for moment, entry in enumerate(journal.entries, 1)
                 if ".map" in (entry.path or "") + (entry.other or "") or ".manifest" in (entry.path or "") + (entry.other or "")]
        return [min(len(journal), moment + self.chance.choice((0, 0, 1, 2, 5, 20))) for moment in after]

    def verify(self, server, moment, rounds):
        """Each key has the value of the last round that was acknowledged, or already that of the next one."""
        done = [at <= moment for at, _ in rounds].count(True) - 1
        old, new = rounds[done][1], rounds[min(done + 1, len(rounds) - 1)][1]
        with server.client() as client:
            for first in range(0, self.KEYS, 4000):
                numbers = range(first, first + 4000)
                for number, found in zip(numbers, client.must("MGET", *map(name, numbers))):
                    self.assertIn(found, (old[number], new[number]), name(number))

    def test_a_power_cut_leaves_the_maps_of_an_image(self):
        rounds = self.fill()
        journal = Journal(self.disk.journal_path)
        moments = [moment for moment in self.moments(journal) if moment > rounds[0][0]]
        self.assertGreater(len(moments), 20)
        for _ in range(scaled(24) * SEEDS):
            moment, state = self.chance.choice(moments), tempfile.mkdtemp(prefix="kelvin-test-power-")
            how = journal.state(moment, self.chance, state)
            with self.subTest(seed=self.seed, moment=moment, how=how):
                with Server(self.OPTIONS, folder=state) as server:
                    self.verify(server, moment, rounds)
                    self.assertNotIn(b"tags are missing or damaged", server.log_new())
            shutil.rmtree(state)


if __name__ == "__main__":
    main()
