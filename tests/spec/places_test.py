"""tier-dir and the log on different file systems are refused, as each checkpoint would copy the whole store on the writer's thread. Images
that only the server itself reads are made in tier-dir, where they can be hard links wherever that is."""
import errno
import glob
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from crash.disk_test import SmallDisk                                                              # noqa: E402
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Error                                                                  # noqa: E402
from support.disk import FAIL, Disk                                                              # noqa: E402
from support.server import Server, StartFailed, is_sanitized, until                                               # noqa: E402

REASON = "is not on the file system of 'appendonlydir': checkpoints would copy the whole store. " \
         "Set tier-dir to a directory on that file system"


@kelvin_only
class PlacesTest(unittest.TestCase):
    def setUp(self):
        self.folder, self.elsewhere = self.make_folder(None), self.make_folder("/dev/shm")
        if os.stat(self.elsewhere).st_dev == os.stat(self.folder).st_dev:
            self.skipTest("there is no second file system")

    def make_folder(self, where):
        folder = tempfile.mkdtemp(prefix="kelvin-test-", dir=where)
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def start(self, store, args=(), prefix=(), **options):
        server = Server({"tier-dir": store, **options}, folder=self.folder, args=args, prefix=prefix)
        self.addCleanup(server.discard)
        return server

    def refused(self, *stores, args=()):
        for store in stores:
            with self.assertRaises(StartFailed) as failed:
                self.start(store, args, appendonly="yes")
            self.assertIn(REASON + ". Nothing was changed.", str(failed.exception))

    def files(self):
        return sorted((os.path.join(path, name), os.path.getsize(os.path.join(path, name))) for top in (self.folder, self.elsewhere)
                      for path, folders, names in os.walk(top) for name in folders + names if name != "server.log")

    def test_a_start_with_a_log_is_refused_and_makes_nothing(self):
        self.refused(self.elsewhere, os.path.join(self.elsewhere, "store"))
        self.assertEqual(self.files(), [])

    def test_a_log_that_exists_is_not_touched(self):
        server = self.start("store", appendonly="yes")
        with server.client() as client:
            client.must("SET", "k", "v")
        server.terminate()
        before = self.files()
        self.refused(self.elsewhere, os.path.join(self.elsewhere, "store"))
        self.assertEqual(self.files(), before)
        with self.start("store", appendonly="yes").client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")

    def test_the_place_of_a_log_that_is_a_symbolic_link_counts(self):
        os.symlink(self.elsewhere, os.path.join(self.folder, "appendonlydir"))
        self.refused("store")
        self.assertEqual(os.listdir(self.elsewhere), [])

    def test_a_backup_is_not_restored(self):
        backup = os.path.join(self.elsewhere, "backup")
        server = self.start("store", **{"enable-protected-configs": "yes"})
        with server.client() as client:
            client.must("SET", "k", "v")
            client.must("TIER", "BACKUP", backup)
        server.terminate()
        before = self.files()
        self.refused(self.elsewhere, args=["--restore", backup])
        self.assertEqual(self.files(), before)

    def test_without_a_log_it_runs_and_no_log_can_be_switched_on(self):
        with self.start(os.path.join(self.elsewhere, "store")).client() as client:
            client.must("SET", "k", "v")
            reply = client.call("CONFIG", "SET", "appendonly", "yes")
            self.assertIsInstance(reply, Error)
            self.assertIn(REASON.encode(), reply)
            self.assertEqual(client.must("CONFIG", "GET", "appendonly"), [b"appendonly", b"no"])
            self.assertFalse(any(name.startswith("appendonlydir") for name in os.listdir(self.folder)))
            self.assertEqual(client.must("SAVE"), OK)

    def test_images_of_a_store_that_is_a_mount_of_its_own_are_hard_links(self):
        disk = SmallDisk(100)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("the kernel does not permit a private mount")
        with self.start(disk.path, prefix=disk.prefix).client() as client:
            client.must("DEBUG", "POPULATE", 1000, "key", 1000)
            client.must("TIER", "DEMOTE", *["key:%d" % i for i in range(1000)])
            client.must("CONFIG", "SET", "rdb-key-save-delay", 100000)
            client.must("BGSAVE")
            segments = until(lambda: glob.glob(os.path.join(disk.outside, "*.image", "store", "*.seg")), what="the image's segments")
            for path in segments:
                self.assertGreater(os.stat(path).st_nlink, 1)
            client.must("CONFIG", "SET", "rdb-key-save-delay", 0)


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class NoLinksTest(unittest.TestCase):
    def test_a_file_system_without_hard_links_is_refused_for_a_log(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        disk = Disk(folder)
        self.addCleanup(disk.remove)
        disk.rule(0, "link", "*", FAIL, error=errno.EPERM)
        with self.assertRaises(StartFailed) as failed:
            Server({"appendonly": "yes"}, folder=folder, environment=disk.environment)
        self.assertIn("the file system of tier-dir 'store' has no hard links", str(failed.exception))
        self.assertIn("Nothing was changed.", str(failed.exception))
        self.assertEqual([name for name in os.listdir(folder) if name != "server.log"], [])
        server = Server({"appendonly": "no"}, folder=folder, environment=disk.environment)
        self.addCleanup(server.discard)
        with server.client() as client:
            reply = client.call("CONFIG", "SET", "appendonly", "yes")
            self.assertIsInstance(reply, Error)
            self.assertIn(b"has no hard links", reply)
            disk.heal()
            self.assertEqual(client.must("CONFIG", "SET", "appendonly", "yes"), OK)


if __name__ == "__main__":
    main()
