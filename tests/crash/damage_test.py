"""Records that can't be read: each is reported once with key, file and offset, for every kind of reader; and a checkpoint does not take the place of a
log that still has the value. And what keeps a server from starting."""
import errno
import fcntl
import glob
import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                           # noqa: E402
from support.disk import FAIL, KILL_BEFORE, KILL_MIDDLE, Disk                                                     # noqa: E402
from support.resp import Error, encode                                                                 # noqa: E402
from support.server import Server, StartFailed, is_sanitized, until                                           # noqa: E402

SENTENCE = r"the record of the key '%s' can't be read: it is damaged \(\d{8}\.seg, offset \d+\)"
OPTIONS = {"appendonly": "yes", "auto-aof-rewrite-percentage": "0", "tier-warmup-rate": "0", "save": ""}


def value_of(i, version=0):
    return (b"<%d/%d>" % (i, version)) * 20


class DamageCase(unittest.TestCase):
    def fill(self, numbers, version=0):
        with self.server.client() as client:
            for i in numbers:
                client.must("SET", "k%d" % i, value_of(i, version))
            self.assertEqual(client.must("TIER", "DEMOTE", *["k%d" % i for i in numbers]), len(numbers))

    def damage(self, value, folder=None):
        """Flips a bit of a value in the segments. Links of a file have the same bytes."""
        files = set()
        for at, _, names in os.walk(folder or self.server.folder):
            files |= {os.path.join(at, name) for name in names if name.endswith(".seg")}
        done = set()
        for path in files:
            with open(path, "r+b") as file:
                data, node = file.read(), os.fstat(file.fileno()).st_ino
                if value in data and node not in done:
                    done.add(node)
                    file.seek(data.index(value) + len(value) // 2)
                    file.write(b"\x01")
        self.assertGreater(len(done), 0)

    def info(self, field):
        return self.server.info("tiering")[field]

    def lines(self, text):
        return [line for line in self.server.log().decode().splitlines() if re.search(text, line)]

    def checkpoint(self):
        with self.server.client() as client:
            reply = client.call("BGREWRITEAOF")         # one that began by itself, as the log is long, is as good
            self.assertTrue(not isinstance(reply, Error) or b"already in progress" in reply, reply)
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
        return self.server.info("persistence")["aof_last_bgrewrite_status"]

    def reads(self, i):
        with self.server.client() as client:
            return client.call("GET", "k%d" % i)


@kelvin_only
class DamageTest(DamageCase):
    def setUp(self):
        self.server = Server(OPTIONS)
        self.addCleanup(self.server.discard)
        self.fill(range(100))

    def test_a_client_gets_an_error_and_the_log_one_line(self):
        self.damage(value_of(5))
        for _ in range(3):
            self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(len(self.lines(SENTENCE % "k5")), 1)
        self.assertRegex(self.info("tier_last_error"), SENTENCE % "k5")
        self.assertEqual(self.info("tier_damaged_records"), "1")
        with self.server.client() as client:
            self.assertRegex(str(client.call("SAVE")), SENTENCE % "k5")
            client.must("SET", "k5", "new")
            client.must("TIER", "DEMOTE", "k5")
        self.assertEqual(self.info("tier_damaged_records"), "0")

    def test_a_checkpoint_does_not_replace_a_log_that_has_the_value(self):
        self.damage(value_of(5))
        self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(self.checkpoint(), "err")
        self.assertEqual(len(self.lines("1 cold keys written since the last checkpoint can't be read")), 1)
        self.server.restart()
        self.assertEqual(self.reads(5), value_of(5))
        self.assertEqual(self.info("tier_damaged_records"), "0")
        with self.server.client() as client:
            client.must("TIER", "DEMOTE", "k5", "k7")
        self.assertEqual(self.checkpoint(), "ok")
        self.damage(value_of(7))
        self.assertIsInstance(self.reads(7), Error)
        self.assertEqual(self.checkpoint(), "ok")           # it was damaged in the image before
        self.assertEqual(len(self.lines("1 cold keys can't be read, as in the checkpoint before")), 1)

    def test_a_log_that_is_too_long_is_kept_beside_a_checkpoint(self):
        kept = os.path.join(self.server.folder, "appendonlydir.kept")
        self.damage(value_of(5))
        self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(self.checkpoint(), "err")
        self.assertFalse(os.path.exists(kept))
        with self.server.client() as client:
            for i in range(60):
                client.must("SET", "later", value_of(i) * 10)
            client.must("CONFIG", "SET", "checkpoint-log-size", 10000)      # not before: no checkpoint begins by itself
            self.assertEqual(self.checkpoint(), "ok")
            self.assertLess(int(self.server.info("persistence")["aof_current_size"]) -
                            int(self.server.info("persistence")["aof_base_size"]), 10000)
            client.must("SET", "later", "after")
        self.assertEqual(len(self.lines("1 cold keys can't be read. The log, which has values of them, became too long and is kept in "
                                        "'appendonlydir.kept'")), 1)
        for _ in range(2):
            self.assertIsInstance(self.reads(5), Error)         # never absent, after a start, too
            self.server.restart()
        with Server({**OPTIONS, "dir": self.server.folder, "tier-dir": "store.kept", "appenddirname": "appendonlydir.kept"}) as old:
            with old.client() as client:
                self.assertEqual(client.must("GET", "k5"), value_of(5))
                self.assertEqual(client.must("GET", "later"), value_of(59) * 10)
        self.fill([7])
        self.damage(value_of(7))
        self.assertIsInstance(self.reads(7), Error)
        with self.server.client() as client:
            for i in range(60):
                client.must("SET", "later", value_of(i) * 10)
            client.must("CONFIG", "SET", "checkpoint-log-size", 10000)      # not before: no checkpoint begins by itself
        self.assertEqual(self.checkpoint(), "ok")               # beside the one that is there already
        self.assertLess(int(self.server.info("persistence")["aof_current_size"]) -
                        int(self.server.info("persistence")["aof_base_size"]), 10000)
        self.assertEqual(len(self.lines("is kept in 'appendonlydir.kept.2'")), 1)
        self.server.restart()
        self.assertIsInstance(self.reads(7), Error)
        for number, i in (("", 5), (".2", 7)):
            with Server({**OPTIONS, "dir": self.server.folder, "tier-dir": "store.kept", "appenddirname": "appendonlydir.kept" + number}) as old:
                with old.client() as client:
                    self.assertEqual(client.must("GET", "k%d" % i), value_of(i))

    def test_garbage_collection_names_the_key(self):
        self.damage(value_of(5))
        self.fill([i for i in range(100) if i != 5], 1)
        self.assertEqual(self.checkpoint(), "ok")           # seals the segment; nothing has read the record yet
        until(lambda: self.lines(SENTENCE % "k5"), what="the garbage collection")
        self.assertEqual(self.info("tier_damaged_records"), "1")

    def test_the_warm_up_names_the_key(self):
        with self.server.client() as client:
            for i in range(100):
                client.must("GET", "k%d" % i)               # clean and hot
        self.assertEqual(self.checkpoint(), "ok")
        self.assertEqual(self.server.terminate(), 0)
        self.damage(value_of(5))
        self.server.start()
        until(lambda: self.info("tier_warmup_state") == "done", what="the warm-up")
        self.assertEqual(len(self.lines(SENTENCE % "k5")), 1)
        self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(self.reads(6), value_of(6))


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class KeptLogTest(DamageCase):
    """The kept log (appendonlydir.kept) on a disk that fails, and of a server that is killed meanwhile."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.disk = Disk(folder)
        self.addCleanup(self.disk.remove)
        self.server = Server({**OPTIONS, "checkpoint-log-size": "10000"}, folder=folder, environment=self.disk.environment)
        self.server.folder_is_ours = True
        self.addCleanup(self.server.discard)
        self.kept = os.path.join(folder, "appendonlydir.kept")

    def lengthen(self):
        """Damages a record that is newer than the last checkpoint, and makes the log too long for checkpoints to be refused."""
        with self.server.client() as client:
            client.must("CONFIG", "SET", "checkpoint-log-size", 0)
            # One that began by itself, as the log of a server that was just started may be long, ends before the record is written.
            until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
            self.fill([5])
            self.damage(value_of(5), os.path.join(self.server.folder, "store"))
            self.assertIsInstance(self.reads(5), Error)
            self.assertEqual(self.checkpoint(), "err")
            for i in range(60):
                client.must("SET", "later", value_of(i) * 10)
            client.must("CONFIG", "SET", "checkpoint-log-size", 10000)

    def kept_value(self):
        with Server({**OPTIONS, "dir": self.server.folder, "tier-dir": "store.kept", "appenddirname": "appendonlydir.kept"}) as old:
            with old.client() as client:
                client.must("SET", "of the other server", "v")
                return client.must("GET", "k5")

    def kept_logs(self):
        return sorted(name for name in os.listdir(self.server.folder) if name.startswith("appendonlydir.kept"))

    def log_files(self, folder):
        return {os.stat(path).st_ino for path in glob.glob(os.path.join(self.server.folder, folder, "*.incr.aof"))}

    def test_a_commit_that_may_be_on_the_disk_leaves_the_kept_log(self):
        self.lengthen()
        # The directory's syncs: the increment's name, the manifest that names it, the image's name, the manifest with the new base.
        self.disk.rule(0, "sync", "appendonlydir", FAIL, first=4, error=errno.EIO)
        self.assertEqual(self.checkpoint(), "err")
        self.assertGreater(self.disk.acted, 0)
        self.disk.heal()
        self.server.restart(kill=True)
        self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(self.kept_value(), value_of(5))

    def test_a_log_that_is_linked_to_another_file_system_is_not_kept_as_a_copy(self):
        if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == os.stat(self.server.folder).st_dev:
            self.skipTest("no other file system")
        elsewhere = tempfile.mkdtemp(prefix="kelvin-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, elsewhere, ignore_errors=True)
        self.server.terminate()
        for name in ("appendonlydir", "store"):
            shutil.move(os.path.join(self.server.folder, name), elsewhere)
            os.symlink(os.path.join(elsewhere, name), os.path.join(self.server.folder, name))
        self.server.start()
        self.lengthen()
        self.assertEqual(self.checkpoint(), "err")
        self.assertEqual(self.kept_logs(), [])
        self.assertIn(b"on another mount", self.server.log())

    def test_no_increment_of_the_kept_log_is_written_by_the_server(self):
        with self.server.client() as client:
            client.must("SET", "dirty", "v")
            self.disk.rule(0, "write", "store/*", FAIL, error=errno.EIO)
            client.call("TIER", "DEMOTE", "dirty")
            until(lambda: self.info("tier_status") == "error", what="the store's error")
            self.assertEqual(self.checkpoint(), "err")      # the next increment is prepared, and there is no cut
            self.assertEqual(len(self.log_files("appendonlydir")), 2)
            self.disk.heal()
            until(lambda: self.info("tier_status") == "ok", what="the store")
        self.lengthen()
        self.assertEqual(self.checkpoint(), "ok")
        self.assertEqual(self.log_files("appendonlydir") & self.log_files("appendonlydir.kept"), set())
        self.assertEqual(self.kept_value(), value_of(5))
        with self.server.client() as client:
            self.assertEqual(client.must("EXISTS", "of the other server"), 0)
        self.server.restart(kill=True)
        with self.server.client() as client:
            self.assertEqual(client.must("EXISTS", "of the other server"), 0)

    def test_a_kept_log_of_a_killed_checkpoint_is_replaced(self):
        self.lengthen()
        self.server.expect_crash = True
        self.disk.rule(0, "mkdir", "appendonlydir/*.base.image", KILL_BEFORE)
        with self.server.client() as client:
            client.send(encode(("BGREWRITEAOF",)))
            self.server.wait_end()
        self.disk.heal()
        self.assertTrue(os.path.exists(self.kept + ".incomplete"))
        self.server.start()
        self.assertEqual(self.kept_logs(), [])          # the log has all of it, and goes on in a file of it
        self.assertEqual(self.reads(5), value_of(5))
        self.lengthen()
        self.assertEqual(self.checkpoint(), "ok")
        self.assertEqual(self.kept_value(), value_of(5))

    def test_a_kept_log_that_can_t_be_looked_at_stays(self):
        self.lengthen()
        self.server.expect_crash = True
        self.disk.rule(0, "mkdir", "appendonlydir/*.base.image", KILL_BEFORE)
        with self.server.client() as client:
            client.send(encode(("BGREWRITEAOF",)))
            self.server.wait_end()
        self.disk.heal()
        self.disk.rule(0, "open", "appendonlydir.kept.incomplete*", FAIL, error=errno.EIO)
        self.server.start()
        self.assertGreater(self.disk.acted, 0)
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept.incomplete"])
        self.disk.heal()
        self.server.restart(kill=True)
        self.assertEqual(self.kept_logs(), [])

    def test_a_kept_log_outlasts_the_end_of_its_log(self):
        """A checkpoint has failed, and then the log is switched off and on: the new one has other increments."""
        self.lengthen()
        self.disk.rule(0, "mkdir", "appendonlydir/*.base.image", FAIL, error=errno.EIO)
        self.assertEqual(self.checkpoint(), "err")
        self.disk.heal()
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept.incomplete"])
        with self.server.client() as client:
            for value in ("no", "yes"):
                client.must("CONFIG", "SET", "appendonly", value)
                until(lambda: self.server.info("persistence")["aof_enabled"] == str(int(value == "yes")), what="the switch")
            until(lambda: self.checkpoint() == "ok", 40, "a checkpoint of the new log")
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept"])
        self.assertEqual(self.kept_value(), value_of(5))

    def test_a_kept_log_with_a_torn_manifest_is_replaced(self):
        self.lengthen()
        self.server.expect_crash = True
        self.disk.rule(0, "write", "appendonlydir.kept*/*.manifest", KILL_MIDDLE)
        with self.server.client() as client:
            client.send(encode(("BGREWRITEAOF",)))
            self.server.wait_end()
        self.assertGreater(self.disk.acted, 0)
        self.disk.heal()
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept.incomplete"])
        self.server.start()
        self.assertEqual(self.kept_logs(), [])
        self.lengthen()
        self.assertEqual(self.checkpoint(), "ok")
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept"])
        self.assertEqual(self.kept_value(), value_of(5))

    def test_a_kill_after_the_commit_keeps_the_log(self):
        self.lengthen()
        self.server.expect_crash = True
        self.disk.rule(0, "rename", "appendonlydir.kept", KILL_BEFORE)
        with self.server.client() as client:
            client.send(encode(("BGREWRITEAOF",)))
            self.server.wait_end()
        self.disk.heal()
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept.incomplete"])
        self.server.start()
        self.assertEqual(self.kept_logs(), ["appendonlydir.kept"])
        self.assertEqual(len(self.lines("The log before the last checkpoint is kept in 'appendonlydir.kept'")), 1)
        self.assertIsInstance(self.reads(5), Error)
        self.assertEqual(self.kept_value(), value_of(5))

    def test_the_kept_log_is_durable_before_the_checkpoint(self):
        self.lengthen()
        self.disk.rule(0, "sync", "", FAIL, error=errno.EIO)
        self.assertEqual(self.checkpoint(), "err")
        self.assertEqual(len(self.lines("can't sync the directory of 'appendonlydir.kept.incomplete'")), 1)
        self.disk.heal()
        self.assertEqual(self.checkpoint(), "ok")
        self.assertEqual(self.kept_value(), value_of(5))


@kelvin_only
class OverwriteTest(unittest.TestCase):
    """A key whose record can't be read can be deleted and overwritten, by every command that does not need its value and in every way to run it."""

    BLIND = (
        ("DEL", "%"), ("UNLINK", "%"), ("SET", "%", "v"), ("SETEX", "%", "100", "v"), ("PSETEX", "%", "100000", "v"), ("MSET", "%", "v"),
        ("RENAME", "string", "%"), ("SUNIONSTORE", "%", "set"),
        ("SDIFFSTORE", "%", "set"), ("ZUNIONSTORE", "%", "1", "zset"), ("ZRANGESTORE", "%", "zset", "0", "-1"), ("SORT", "set", "ALPHA", "STORE", "%"),
        ("GEOSEARCHSTORE", "%", "geo", "FROMLONLAT", "15", "37", "BYRADIUS", "900", "km"))
    EVAL = "return redis.call(unpack(ARGV))"

    def setUp(self):
        self.server = Server(OPTIONS)
        self.addCleanup(self.server.discard)
        self.c = self.server.client()
        self.addCleanup(self.c.close)

    def ways(self, words, key):
        return {
            "alone": lambda: self.c.must(*words),
            "transaction": lambda: self.c.pipeline([("MULTI",), words, ("EXEC",)])[2],
            "script": lambda: self.c.must("EVAL", self.EVAL, 1, key, *words),
            "script without its key": lambda: self.c.must("EVAL", self.EVAL, 0, *words),
            "script in a transaction": lambda: self.c.pipeline([("MULTI",), ("EVAL", self.EVAL, 1, key, *words), ("EXEC",)])[2],
        }

    def overwrite_all(self):
        names = ["%s:%s:%s" % (self.id()[-6:], words[0], way) for words in self.BLIND for way in self.ways(words, "")]
        for name in names:
            self.c.must("SET", name, b"<%s>" % name.encode() * 5)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *names), len(names))
        for at, _, files in os.walk(os.path.join(self.server.folder, "store")):
            for name in (name for name in files if name.endswith(".seg")):
                with open(os.path.join(at, name), "r+b") as file:
                    data = file.read()
                    file.seek(0)
                    file.write(re.sub(rb"><%s:" % self.id()[-6:].encode(), rb">!%s:" % self.id()[-6:].encode(), data))
        for words in self.BLIND:
            for way in self.ways(words, ""):
                name = "%s:%s:%s" % (self.id()[-6:], words[0], way)
                with self.subTest(command=words[0], way=way):
                    self.assertIsInstance(self.c.call("GET", name), Error)
                    self.c.must("SET", "string", "v")
                    self.c.must("SADD", "set", "a")
                    self.c.must("ZADD", "zset", 1, "a")
                    self.c.must("GEOADD", "geo", 15, 37, "a")
                    reply = self.ways([word.replace("%", name) for word in words], name)[way]()
                    self.assertNotIsInstance(reply, Error)
                    self.assertFalse(isinstance(reply, list) and any(isinstance(part, Error) for part in reply), reply)
                    self.assertEqual(self.c.must("EXISTS", name), words[0] not in ("DEL", "UNLINK"))
                    self.c.must("DEL", name)

    def test_without_notifications(self):
        self.overwrite_all()

    def test_with_all_notifications(self):
        self.c.must("CONFIG", "SET", "notify-keyspace-events", "KEAn")
        self.overwrite_all()


@kelvin_only
class StartTest(unittest.TestCase):
    def test_a_directory_that_can_not_be_created_is_named_with_the_reason(self):
        with self.assertRaises(StartFailed) as failed:
            Server({"tier-dir": "nowhere/store"})
        self.assertIn("can't create the directory 'nowhere/store': No such file or directory", str(failed.exception))

    def test_a_start_waits_for_a_process_that_is_ending(self):
        server = Server(start=False)
        self.addCleanup(server.discard)
        os.mkdir(os.path.join(server.folder, "store"))
        with open(os.path.join(server.folder, "store", "LOCK"), "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            server.launch()
            until(lambda: b"is in use by another process: waiting" in server.log(), what="the wait")
        server.wait_ready()                     # closing the file has released the lock
        with self.assertRaises(StartFailed) as failed:
            Server({"dir": server.folder})
        self.assertIn("store 'store' is in use already", str(failed.exception))


if __name__ == "__main__":
    main()
