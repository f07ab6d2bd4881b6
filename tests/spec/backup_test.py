"""TIER BACKUP and --restore: restored data is exactly that of one instant, and invalid data is never accepted."""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.resp import Closed, Error, encode                                                            # noqa: E402
from support.server import ROOT, Server, StartFailed, scaled, under_test, until                                        # noqa: E402


def contents(client, databases=4):
    """Returns all data, by database and key."""
    found = {}
    for database in range(databases):
        client.must("SELECT", database)
        for key in client.must("KEYS", "*"):
            kind = bytes(client.must("TYPE", key))
            value = client.must("GET", key) if kind == b"string" else sorted(zip(*[iter(client.must("HGETALL", key))] * 2))
            found[database, bytes(key)] = (value, client.must("PEXPIRETIME", key))
    client.must("SELECT", 0)
    return found


def fields(reply):
    return dict(zip((bytes(name).decode() for name in reply[::2]), reply[1::2]))


def inodes(folder):
    """Returns sizes by inode."""
    found = [os.lstat(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names]
    return {info.st_ino: info.st_size for info in found}


class Backups:
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="kelvin-backups-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def backup(self, name, client=None):
        return fields((client or self.c).must("TIER", "BACKUP", self.path(name)))

    def fill(self, count=2000):
        for database in range(3):
            self.c.must("SELECT", database)
            for start in range(0, count, 500):
                self.c.must("MSET", *[word for i in range(start, start + 500)
                                      for word in ("k%d" % i, "db%d:%d:" % (database, i) + "x" * (i % 300))])
            self.c.must("HSET", "h", *[word for i in range(300) for word in ("f%d" % i, "v%d" % i)])
            self.c.must("PEXPIREAT", "k1", 4102444800000)
            self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(0, count, 2)])
        self.c.must("SELECT", 0)

    def is_sound(self, name):
        """kelvin-check finds no fault: among other things, tags and records match."""
        tool = os.path.join(os.path.dirname(under_test()), "kelvin-check")
        done = subprocess.run([tool, self.path(name)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout.decode("utf-8", "replace"))

    def serve(self, folder, *args, **options):
        return Server({"appendonly": "yes", "dir": folder, **options}, args=list(args))

    def refused(self, folder, *args, **options):
        """Returns the log of a server that does not start."""
        with self.assertRaises(StartFailed) as caught:
            with self.serve(folder, *args, **options):
                pass
        return str(caught.exception)


class BackupTests(Backups):
    """Tests with and without a log."""

    def test_a_backup_has_all_data_and_a_server_can_start_on_it(self):
        self.fill()
        before = contents(self.c)
        told = self.backup("b")
        self.assertEqual(told["keys"], len(before))
        self.is_sound("b")
        self.c.must("SET", "k0", "after the cut")
        self.c.must("FLUSHDB")
        with self.serve(self.path("b")) as server, server.client() as client:
            self.assertEqual(contents(client), before)
            self.assertEqual(client.must("DBSIZE"), sum(database == 0 for database, _ in before))
            client.must("SET", "new", "1")
            server.restart()
        with open(self.path("b/BACKUP")) as file:
            text = file.read()
        self.assertIn("id " + bytes(told["id"]).decode(), text)
        self.assertIn("db 1 keys 2001\n", text)

    def test_a_backup_is_restored(self):
        self.fill(1000)
        before = contents(self.c)
        self.backup("b")
        before_restore = inodes(self.path("b"))
        os.mkdir(self.path("new"))
        with self.serve(self.path("new"), "--restore", self.path("b")) as server:
            with server.client() as client:
                self.assertEqual(contents(client), before)
                client.must("SET", "k0", "changed")
                client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the rewrite")
            self.assertIn(b"Restored the backup", server.log())
        self.assertEqual(inodes(self.path("b")), before_restore)
        with self.serve(self.path("b")) as server, server.client() as client:
            self.assertEqual(contents(client), before)      # changes of the restored copy did not change the backup

    def test_restore_refuses_where_there_is_data(self):
        self.c.must("SET", "k", "v")
        self.backup("b")
        os.mkdir(self.path("new"))
        with self.serve(self.path("new")) as server, server.client() as client:
            client.must("SET", "precious", "1")
        self.assertIn("there is data already", self.refused(self.path("new"), "--restore", self.path("b")))
        with self.serve(self.path("new")) as server, server.client() as client:
            self.assertEqual(client.must("KEYS", "*"), [b"precious"])
        os.mkdir(self.path("rdb"))
        shutil.copy(os.path.join(ROOT, "README.md"), self.path("rdb/dump.rdb"))
        self.assertIn("there is data already", self.refused(self.path("rdb"), "--restore", self.path("b")))

    def test_restore_refuses_an_incomplete_backup(self):
        self.fill(1000)
        self.backup("b")
        os.mkdir(self.path("new"))
        log = self.path("b/appendonlydir")
        image = os.path.join(log, next(name for name in os.listdir(log) if name.endswith(".base.image")))

        def refuses(what, *options):
            self.assertIn(what, self.refused(self.path("new"), "--restore", self.path("b"), *options))
            self.assertEqual([name for name in os.listdir(self.path("new")) if name.startswith("appendonlydir")], [])

        def without(path, what):
            os.rename(path, self.path("aside"))
            refuses(what)
            os.rename(self.path("aside"), path)

        def damaged(path, what, at):
            with open(path, "r+b") as file:
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 1]))
            refuses(what)
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(byte)

        without(os.path.join(image, "tags"), "missing")
        without(os.path.join(image, "dataset"), "missing")
        without(os.path.join(log, "appendonly.aof.manifest"), "has no manifest")
        without(self.path("b/BACKUP"), "no file BACKUP")
        without(log, "never completed")
        table = sorted(os.listdir(image + "/store"))[0]
        without(os.path.join(image, "store", table), "missing")
        damaged(os.path.join(image, "tags"), "checksum", 40)
        with open(os.path.join(image, "dataset.copy"), "r+b") as file:
            text = file.read()
            file.seek(0)
            file.write(b"?")
            file.flush()
            damaged(os.path.join(image, "dataset"), "checksum", 30)     # with a good copy it is restored: see check_test
            file.seek(0)
            file.write(text)
        refuses("has 16 databases", "--databases", "4")
        self.assertIn("needs appendonly yes", self.refused(self.path("new"), "--restore", self.path("b"), appendonly="no"))
        self.assertIn("there is no", self.refused(self.path("new"), "--restore", self.path("nowhere")))
        with self.serve(self.path("new"), "--restore", self.path("b")) as server, server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 1001)

    def test_an_unsuitable_path_is_refused_and_not_changed(self):
        self.c.must("SET", "k", "v")
        self.backup("b")
        before = sorted(os.listdir(self.path("b")))
        for words, text in [((self.path("b"),), "not an empty directory"), ((self.path("no/such"),), "can't create"), (("",), "invalid name"),
                            ((".",), "not an empty directory"),
                            (("store/inside",), "of the server's own"), ((os.path.join(ROOT, "README.md"),), "not an empty directory")]:
            reply = self.c.call("TIER", "BACKUP", *words)
            self.assertIsInstance(reply, Error, words)
            self.assertIn(text, str(reply))
        self.assertEqual(sorted(os.listdir(self.path("b"))), before)
        os.mkdir(self.path("empty"))
        self.backup("empty")

    def test_a_relative_path_is_in_the_servers_directory(self):
        self.c.must("SET", "k", "v")
        self.c.must("TIER", "BACKUP", "mine")
        self.assertTrue(os.path.exists(os.path.join(self.server.folder, "mine", "BACKUP")))
        shutil.rmtree(os.path.join(self.server.folder, "mine"))

    def test_a_second_backup_shares_unchanged_files(self):
        count = scaled(40000)
        for start in range(0, count, 1000):
            self.c.must("MSET", *[word for i in range(start, start + 1000) for word in ("k%d" % i, os.urandom(150).hex())])
        first = self.backup("0")            # writes all keys to the store, which merges its key runs for some time afterwards
        self.assertGreater(first["bytes"], count * 300)
        attempts = iter(range(1, 1000))

        def shares():
            self.c.must("SET", "k1", "changed")
            number = next(attempts)
            told = self.backup("%d" % number)
            if told["copied_bytes"] >= told["bytes"] // 4:
                return False
            before, now = inodes(self.path("%d" % (number - 1))), inodes(self.path("%d" % number))
            return sum(size for inode, size in now.items() if inode in before) > told["bytes"] * 3 // 4

        until(shares, timeout=60, what="a backup that shares its files with the previous one")

    def test_info_has_the_state_of_backups(self):
        self.c.must("SET", "k", "v")
        self.assertEqual(self.server.info("tiering")["tier_backup_in_progress"], "0")
        self.backup("b")
        info = self.server.info("tiering")
        self.assertEqual((info["tier_last_backup_status"], info["tier_last_backup_keys"]), ("ok", "1"))
        self.assertGreater(int(info["tier_last_backup_time"]), 1700000000)
        self.c.call("TIER", "BACKUP", self.path("b"))
        self.assertEqual(self.server.info("tiering")["tier_last_backup_status"], "err")

    def test_backups_on_another_file_system_are_copies(self):
        other = tempfile.mkdtemp(prefix="kelvin-backups-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, other, True)
        if os.stat(other).st_dev == os.stat(self.server.folder).st_dev:
            self.skipTest("there is no second file system")
        self.fill(1000)
        before = contents(self.c)
        told = fields(self.c.must("TIER", "BACKUP", other))
        self.assertEqual(told["copied_bytes"], told["bytes"])
        self.assertEqual([name for name in os.listdir(self.server.folder) if "stage" in name], [])
        with self.serve(other) as server, server.client() as client:
            self.assertEqual(contents(client), before)
        shutil.rmtree(other)
        os.mkdir(self.path("new"))
        self.backup("b")
        os.mkdir(other)
        with self.serve(other, "--restore", self.path("b")) as server, server.client() as client:
            self.assertEqual(contents(client), before)


@kelvin_only
class WithLogTest(BackupTests, ServerCase):
    options = {"appendonly": "yes", "tier-segment-size": "256kb", "tier-write-buffer": "256kb", "enable-protected-configs": "local"}


@kelvin_only
class WithoutLogTest(BackupTests, ServerCase):
    options = {"appendonly": "no", "tier-segment-size": "256kb", "tier-write-buffer": "256kb", "enable-protected-configs": "yes"}


@kelvin_only
class UnderLoadTest(Backups, ServerCase):
    options = {"appendonly": "yes", "maxmemory": "24mb", "io-threads": "2", "enable-protected-configs": "yes"}

    def test_a_backup_under_full_load_at_maxmemory_is_of_one_instant(self):
        """Each writer sets its keys in order to an increasing number: at any instant the keys have one number, or the first ones a number and
        the others the previous one."""
        keys, stop, failures = scaled(20000), threading.Event(), []

        def write(number):
            round_ = 0
            try:
                with self.server.client(timeout=120) as client:
                    while not stop.is_set():
                        round_ += 1
                        for start in range(0, keys, 200):
                            client.must("MSET", *[word for i in range(start, start + 200)
                                                  for word in ("w%d:%d" % (number, i), b"%d " % round_ + b"y" * 500)])
            except (Closed, AssertionError) as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            with self.server.client(timeout=120) as client:
                until(lambda: client.must("DBSIZE") == 2 * keys, timeout=60, what="all keys written once")
                for name in ("a", "b", "c"):
                    self.backup(name, client)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        for name in ("a", "b", "c"):
            self.is_sound(name)
            with self.serve(self.path(name), maxmemory="24mb") as server, server.client() as client:
                self.assertEqual(client.must("DBSIZE"), 2 * keys)
                for number in range(2):
                    rounds = []
                    for start in range(0, keys, 500):
                        rounds += [int(value.split(b" ")[0]) for value in
                                   client.must("MGET", *["w%d:%d" % (number, i) for i in range(start, start + 500)])]
                    self.assertLessEqual(rounds[0] - rounds[-1], 1)
                    self.assertEqual(rounds, sorted(rounds, reverse=True))

    def test_one_backup_at_a_time_and_closing_the_client_does_not_stop_it(self):
        self.c.must("MSET", *[word for i in range(5000) for word in ("k%d" % i, "v" * 200)])
        with self.server.client() as gone:
            gone.send(encode(["TIER", "BACKUP", self.path("b")]))
        until(lambda: os.path.exists(self.path("b/appendonlydir")), what="the backup of a client that left")
        until(lambda: self.server.info("tiering")["tier_backup_in_progress"] == "0", what="its end")
        with self.serve(self.path("b")) as server, server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 5000)
        clients = [self.client() for _ in range(8)]
        for i, client in enumerate(clients):
            client.send(encode(["TIER", "BACKUP", self.path("at-once-%d" % i)]))
        replies = [client.receive() for client in clients]
        errors = [str(reply) for reply in replies if isinstance(reply, Error)]
        self.assertLess(len(errors), 8)
        for error in errors:
            self.assertIn("in progress already", error)


@kelvin_only
class GuardTest(unittest.TestCase):
    """The paths to which a client may write a backup."""

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="kelvin-backups-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        for name in ("allowed", "allowed-too", "else"):
            os.mkdir(os.path.join(self.folder, name))

    def path(self, name):
        return os.path.join(self.folder, name)

    def refused(self, client, place):
        reply = client.call("TIER", "BACKUP", place)
        self.assertIsInstance(reply, Error, place)
        self.assertIn("needs enable-protected-configs", str(reply))

    def test_other_paths_require_a_permission(self):
        with Server({"appendonly": "yes", "backup-dir": self.path("allowed")}) as server, server.client() as client:
            client.must("SET", "k", "v")
            os.symlink(self.path("else"), os.path.join(server.folder, "way-out"))
            os.symlink(self.path("allowed"), self.path("else/way-in"))
            for place in (self.path("else/b"), self.path("else"), self.path("allowed-too/b"), self.path("allowed/../else/b"), "../b", "..",
                          "way-out/b", "way-out", self.path("no/such")):
                self.refused(client, place)
            self.assertEqual(os.listdir(self.path("else")), ["way-in"])
            for place in ("b", self.path("allowed/b"), self.path("else/way-in/c"), os.path.join(server.folder, "c"), "d/", "./e"):
                client.must("TIER", "BACKUP", place)
            self.assertEqual(sorted(os.listdir(self.path("allowed"))), ["b", "c"])

    def test_without_backup_dir_only_dir_is_allowed(self):
        with Server({"appendonly": "yes"}) as server, server.client() as client:
            self.refused(client, self.path("allowed/b"))
            self.assertNotIn("allowed/b' started", server.log().decode())
            self.assertIn("allowed/b' failed: ", server.log().decode())
            client.must("TIER", "BACKUP", "b")
            self.assertIn("Backup to 'b' started", server.log().decode())

    def test_a_permission_allows_all_paths(self):
        for permission in ("yes", "local"):
            with Server({"appendonly": "no", "enable-protected-configs": permission}) as server, server.client() as client:
                client.must("TIER", "BACKUP", self.path("else/" + permission))


@kelvin_only
class StartTest(Backups, ServerCase):
    options = {"appendonly": "yes", "enable-protected-configs": "local"}

    def test_an_interrupted_backup_is_not_accepted(self):
        self.c.must("SET", "k", "v")
        self.backup("b")
        os.rename(self.path("b/appendonlydir"), self.path("b/appendonlydir.incomplete"))
        self.assertIn("interrupted", self.refused(self.path("b")))
        self.backup("c")
        os.rename(self.path("b/appendonlydir.incomplete"), self.path("appendonlydir.incomplete"))
        with self.serve(self.folder, "--restore", self.path("c")) as server, server.client() as client:
            self.assertEqual(client.must("GET", "k"), b"v")
        self.assertNotIn("appendonlydir.incomplete", os.listdir(self.folder))

    def test_a_log_without_its_manifest_is_not_treated_as_empty(self):
        self.c.must("SET", "k", "v")
        self.backup("b")
        os.unlink(self.path("b/appendonlydir/appendonly.aof.manifest"))
        before = sorted(os.listdir(self.path("b/appendonlydir")))
        self.assertIn("no manifest", self.refused(self.path("b")))
        self.assertEqual(sorted(os.listdir(self.path("b/appendonlydir"))), before)


if __name__ == "__main__":
    main()
