"""An image whose store has its meta data in LevelDB (store version 4), as Kelvin wrote it before version 6: old_image.tar.gz, 21 keys and an increment."""
import errno
import glob
import hashlib
import os
import random
import shutil
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from spec.check_test import check                                                                    # noqa: E402
from support.case import kelvin_only, main                                                           # noqa: E402
from support.disk import FAIL, KILL_AFTER, Disk                                                      # noqa: E402
from support.server import Server, StartFailed, until                                                # noqa: E402

CHANGES = "create write sync rename link unlink mkdir rmdir"
STRIDE = 4                                          # every 4th step of the import is tested, from a random one on
FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "old_image.tar.gz")


@kelvin_only
class OldImageTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, self.place, True)
        with tarfile.open(FIXTURE) as archive:
            archive.extractall(self.place)

    def store(self):
        return glob.glob(os.path.join(self.place, "appendonlydir", "*.base.image", "store"))[0]

    def names(self):
        return sorted(os.listdir(self.store()))

    def serve(self):
        return Server({"appendonly": "yes", "dir": self.place, "databases": 2, "auto-aof-rewrite-percentage": "0"})

    def compare(self, client):
        self.assertEqual(client.must("MGET", *["k%d" % i for i in range(1, 21)]), [None if i == 5 else b"v%d" % i for i in range(1, 21)])
        self.assertEqual(client.must("HGETALL", "h"), [b"f", b"v", b"g", b"w"])
        self.assertEqual(client.must("GET", "after"), b"image")

    def test_it_is_read_and_the_next_checkpoint_writes_the_new_format(self):
        self.assertEqual(check(self.place)[0], 0)
        self.assertIn("CURRENT", self.names())
        with self.serve() as server:
            with server.client() as client:
                self.compare(client)
            server.restart(kill=True)
            with server.client() as client:
                self.compare(client)
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
            self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")
            server.kill9()
            self.assertIn("meta", self.names())
            self.assertFalse([name for name in self.names() if name.split(".")[-1] not in ("meta", "run", "seg")], self.names())
            self.assertEqual(check(self.place)[0], 0)
            server.start()
            with server.client() as client:
                self.compare(client)

    def test_its_damage_is_found_and_repaired(self):
        with open(glob.glob(os.path.join(self.store(), "*.log"))[0], "r+b") as file:
            file.seek(30)
            file.write(b"x")
        with self.assertRaises(StartFailed):
            self.serve()
        status, text = check(self.place)
        self.assertEqual(status, 1, text)
        status, text = check(self.place, "--repair")
        self.assertEqual(status, 0, text)
        self.assertIn("meta", self.names())
        self.assertEqual(check(self.place)[0], 0)
        with self.serve() as server, server.client() as client:
            self.compare(client)

    def sums(self):
        sums = {}
        for folder, _, names in os.walk(os.path.dirname(self.store())):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    sums[path] = hashlib.sha256(file.read()).hexdigest()
        return sums

    def interrupted(self, step, action, error):
        """Starts with a fault at this change of the working store. Returns whether there was such a change."""
        disk = Disk(self.place)
        disk.rule(0, CHANGES, "store/*", action, step, step, error=error)
        try:
            server = Server({"appendonly": "yes", "dir": self.place, "databases": 2, "auto-aof-rewrite-percentage": "0"}, folder=self.place,
                            environment=disk.environment)
            with server.client() as client:
                self.compare(client)
            server.kill9()
        except (StartFailed, OSError):
            self.assertGreater(disk.acted, 0)
        acted = disk.acted > 0
        disk.remove()
        return acted

    def test_an_import_that_is_interrupted_leaves_the_image_as_it_was(self):
        before, steps = self.sums(), 0
        for action, error in ((FAIL, errno.EIO), (FAIL, errno.ENOSPC), (KILL_AFTER, 0)):
            step = random.randint(1, STRIDE)
            while self.interrupted(step, action, error):
                self.assertEqual(self.sums(), before, (step, action, error))
                step += STRIDE
                steps += 1
        self.assertGreater(steps, 20)
        with self.serve() as server, server.client() as client:
            self.compare(client)
            self.assertNotIn("import.tmp", os.listdir(os.path.join(self.place, "store")))


if __name__ == "__main__":
    main()
