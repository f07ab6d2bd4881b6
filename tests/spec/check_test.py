"""kelvin-check: sound data is ok; each kind of damage to each kind of file is found, and repaired as far as possible; and a server that is
started on damaged data reports it or replies errors, but never another value than the one that was written."""
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.checksum import crc32c, crc64                                                           # noqa: E402
from support.resp import Error                                                                       # noqa: E402
from support.server import REDIS, ROOT, SHORT, Server, StartFailed, seed_new, under_test, until                           # noqa: E402

TOOL = os.path.join(os.path.dirname(under_test()), "kelvin-check")
KEYS = 4000


def check(path, *options):
    """Returns the exit status and the output."""
    done = subprocess.run([TOOL, *options, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    text = done.stdout.decode("utf-8", "replace")
    if "Sanitizer" in text or done.returncode not in (0, 1, 2):
        raise AssertionError("kelvin-check ended with %d:\n%s" % (done.returncode, text))
    return done.returncode, text


def write(path, data):
    """Not in place: links of the file keep their bytes."""
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)


def sorted_hash(reply):
    """The fields and values of HGETALL; None: there is no such key."""
    return reply if isinstance(reply, Error) else sorted(zip(reply[::2], reply[1::2])) or None


def tree(folder):
    """Returns all files with their bytes."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.relpath(os.path.join(at, name), folder)] = file.read()
    return found


class Damage:
    """A data directory with an image and two increments, created once; each test damages a copy."""

    @classmethod
    def make(cls):
        cls.folder = tempfile.mkdtemp(prefix="kelvin-check-")
        cls.sound = os.path.join(cls.folder, "sound")
        cls.values = {}
        server = Server({"appendonly": "yes", "tier-segment-size": "256kb", "tier-write-buffer": "64kb", "auto-aof-rewrite-percentage": "0"})
        try:
            with server.client() as client:
                cls.fill(client)
                client.must("BGREWRITEAOF")
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the rewrite")
                client.must("SET", "after", "the image")
                cls.values[0, "after"] = b"the image"
                client.must("SET", "k5", "changed")
                cls.values[0, "k5"] = b"changed"
                client.must("DEL", "k6")
                cls.values[0, "k6"] = None
            server.kill9()                      # without a checkpoint at the end
            shutil.copytree(server.folder, cls.sound)
        finally:
            server.discard()
        shutil.rmtree(os.path.join(cls.sound, "store"))
        log = os.path.join(cls.sound, "appendonlydir")
        cls.image = next(name for name in os.listdir(log) if name.endswith(".base.image"))
        cls.increment = next(name for name in os.listdir(log) if name.endswith(".incr.aof"))

    @classmethod
    def fill(cls, client):
        cls.hash = [(b"f%d" % i, b"v%d" % i) for i in range(400)]
        for database in (0, 3):
            client.must("SELECT", database)
            for start in range(0, KEYS, 500):
                words = []
                for i in range(start, start + 500):
                    value = os.urandom(20 + i % 50)
                    cls.values[database, "k%d" % i] = value
                    words += ["k%d" % i, value]
                client.must("MSET", *words)
            client.must("HSET", "h", *[word for field in cls.hash for word in field])
            client.must("TIER", "DEMOTE", *["k%d" % i for i in range(KEYS)])
            for i in range(0, KEYS, 3):         # older values in older tables
                cls.values[database, "k%d" % i] = b"second %d" % i
                client.must("SET", "k%d" % i, "second %d" % i)
            for i in range(1, KEYS, 30):
                cls.values[database, "k%d" % i] = None
                client.must("DEL", "k%d" % i)
            for i in range(2, KEYS, 40):
                client.must("PEXPIREAT", "k%d" % i, 4102444800000)
            again = ["k%d" % i for i in range(4, KEYS, 30)]
            for name in again:                  # the older value is in a segment that was begun later: keys that expire have their own
                client.must("SET", name, "older", "EX", 5000)
            client.must("TIER", "DEMOTE", *again)
            for name in again:
                cls.values[database, name] = b"newer " + name.encode()
                client.must("SET", name, "newer " + name)
            client.must("TIER", "DEMOTE", *again)
        client.must("SELECT", 5)                # enough for a memtable to become a table
        for start in range(0, 1000, 100):
            names = ["n%d" % i * 30 for i in range(start, start + 100)]
            cls.values.update(((5, name), b"v") for name in names)
            client.must("MSET", *[word for name in names for word in (name, "v")])
            client.must("TIER", "DEMOTE", *names)
        client.must("SELECT", 0)

    def setUp(self):
        self.copies = 0
        self.work = tempfile.mkdtemp(prefix="work-", dir=self.folder)
        self.addCleanup(shutil.rmtree, self.work, True)

    def copy(self):
        self.copies += 1
        place = os.path.join(self.work, str(self.copies))
        shutil.copytree(self.sound, place)
        return place

    def log(self, place, *names):
        return os.path.join(place, "appendonlydir", *names)

    def in_image(self, place, *names):
        return self.log(place, self.image, *names)

    def store_files(self, place, end):
        store = self.in_image(place, "store")
        return [os.path.join(store, name) for name in sorted(os.listdir(store)) if name.endswith(end) or name.startswith(end)]

    def serve(self, place):
        return Server({"appendonly": "yes", "dir": place, "databases": 16})

    def look(self, place, lost_may=()):
        """Starts a server and returns the keys that are missing or unreadable, or None if it does not start. A wrong value fails the test."""
        missing, unreadable = set(), set()
        try:
            server = self.serve(place)
        except StartFailed as failed:
            self.assertNotRegex(str(failed), "CHECK failed|Sanitizer")
            return None, str(failed)
        with server:
            with server.client() as client:
                for database in (0, 3, 5):
                    client.must("SELECT", database)
                    keys = [key for of, key in self.values if of == database]
                    for key, found in zip(keys, client.pipeline([["GET", key] for key in keys])):
                        self.judge((database, key), found, self.values[database, key], missing, unreadable)
                    if database == 5:
                        continue
                    found = client.call("HGETALL", "h")
                    self.judge((database, "h"), sorted_hash(found), sorted(self.hash), missing, unreadable)
        return missing, unreadable

    def judge(self, key, found, value, missing, unreadable):
        if isinstance(found, Error):
            self.assertIn("can't be read", str(found))
            unreadable.add(key)
        elif found is None and value is not None:
            missing.add(key)
        else:
            self.assertEqual(found, value, key)

    def finds(self, place, what):
        """Checks that the damage is found, and that the check changes nothing."""
        before = tree(place)
        status, text = check(place)
        self.assertEqual(status, 1, text)
        self.assertRegex(text, what)
        self.assertEqual(tree(place), before)
        return text

    def finds_in_store(self, place, what):
        """Like finds; but damage to a table of an image that nothing refers to is harmless."""
        if not check(place)[0] and what.endswith(".run"):
            self.assertEqual(self.look(shutil.copytree(place, place + "-dead")), (set(), set()))
            return False
        self.finds(place, "DAMAGED")
        return True

    def repairs(self, place):
        """--repair succeeds, and finds no damage afterwards."""
        status, text = check(place, "--repair")
        self.assertEqual(status, 0, text)
        again, after = check(place)
        self.assertEqual(again, 0, text + after)
        return text

    def flip(self, path, chance, at=None):
        with open(path, "r+b") as file:
            size = os.path.getsize(path)
            at = chance.randrange(size) if at is None else at
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))
        return at


@kelvin_only
class CheckTest(Damage, unittest.TestCase):
    REPLACED = {(0, "k5"), (0, "k6")}       # by the log after the image: nothing is missing without their records
    NAME = re.compile(r'! record: key "(\w+)", database (\d+): its record in a segment')

    @classmethod
    def setUpClass(cls):
        cls.make()
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    def test_undamaged_data_is_accepted_and_not_changed(self):
        place = self.copy()
        before = tree(place)
        status, text = check(place)
        self.assertEqual(status, 0, text)
        self.assertIn("No damage was found", text)
        self.assertEqual(check(place, "--repair")[0], 0)
        self.assertEqual(tree(place), before)
        self.assertEqual(self.look(place), (set(), set()))
        self.assertEqual(check(self.log(self.copy()))[0], 0)

    def test_extra_files_are_reported_and_do_no_harm(self):
        place = self.copy()
        with open(self.log(place, "appendonly.aof.9.incr.aof"), "w") as file:
            file.write("*1\r\n$8\r\nFLUSHALL\r\n")
        shutil.copytree(self.in_image(place), self.log(place, "appendonly.aof.77.base.image"))
        with open(self.in_image(place, "store", "notes.txt"), "w") as file:
            file.write("mine")
        status, text = check(place)
        self.assertEqual(status, 0, text)
        for name in ("appendonly.aof.9.incr.aof", "appendonly.aof.77.base.image", "notes.txt"):
            self.assertIn(name, text)
        self.assertEqual(self.look(place), (set(), set()))

    def test_paths_that_can_not_be_checked(self):
        place = self.copy()
        with self.serve(place):
            status, text = check(place)
            self.assertEqual(status, 2, text)
            self.assertIn("stop it first", text)
            self.assertEqual(check(self.log(place))[0], 2)
        self.assertEqual(check(os.path.join(self.work, "nowhere"))[0], 2)
        self.assertEqual(check(self.work)[0], 2)
        self.assertEqual(check(place, "--no-such-option")[0], 2)

    def test_a_torn_tail_is_truncated(self):
        place = self.copy()
        path = self.log(place, self.increment)
        size = os.path.getsize(path)
        os.truncate(path, size - 3)
        self.assertIn("torn", self.finds(place, "offset"))
        text = self.repairs(place)
        kept = [name for name in os.listdir(self.log(place)) if ".bad-" in name]
        self.assertEqual(len(kept), 1)
        self.assertIn(kept[0], text)
        self.assertEqual(os.path.getsize(path) + os.path.getsize(self.log(place, kept[0])), size - 3)
        self.values_after(place, {(0, "k6")})

    def values_after(self, place, may_differ):
        kept = {key: self.values[key] for key in may_differ}
        try:
            for key in may_differ:
                del self.values[key]
            self.assertEqual(self.look(place), (set(), set()))
        finally:
            self.values.update(kept)

    def test_damage_in_an_increment_is_distinguished_from_a_tear(self):
        place = self.copy()
        path = self.log(place, self.increment)
        with open(path, "rb") as file:
            data = file.read()
        at = data.index(b"$5\r\nafter")
        with open(path, "wb") as file:
            file.write(data[:at] + b"$9999\r\nafter" + data[at + 9:])
        self.assertNotIn("torn", self.finds(place, "whole ones go on at offset"))
        text = self.repairs(place)
        self.assertIn("bytes are lost", text)
        self.values_after(place, {(0, "after"), (0, "k5"), (0, "k6")})
        place = self.copy()
        with open(self.log(place, self.increment), "wb") as file:
            file.write(data[:at] + b"?5\r\nafter" + data[at + 9:])
        self.finds(place, "offset [0-9]+: .*expected")
        missing, reason = self.look(place)
        self.assertIsNone(missing)
        self.assertIn("offset", reason)
        self.repairs(place)

    def test_increments_after_damage_are_set_aside(self):
        place = self.copy()
        with open(self.log(place, "appendonly.aof.manifest"), "a") as file:
            file.write("file appendonly.aof.50.incr.aof seq 50 type i\n")
        with open(self.log(place, "appendonly.aof.50.incr.aof"), "w") as file:
            file.write("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*2\r\n$3\r\nDEL\r\n$2\r\nk7\r\n")
        self.assertEqual(check(place)[0], 0)
        path = self.log(place, self.increment)
        os.truncate(path, os.path.getsize(path) - 3)
        self.finds(place, "ends early")
        missing, reason = self.look(place)
        self.assertIsNone(missing, reason)
        text = self.repairs(place)
        self.assertIn("appendonly.aof.50.incr.aof, which comes after", text)
        self.values_after(place, {(0, "k6")})

    def test_a_missing_increment_is_found(self):
        place = self.copy()
        os.unlink(self.log(place, self.increment))
        self.finds(place, "can't be read")
        missing, reason = self.look(place)
        self.assertIsNone(missing)
        self.assertIn(self.increment, reason)
        self.repairs(place)
        self.values_after(place, {(0, "after"), (0, "k5"), (0, "k6")})

    def test_a_lost_manifest_is_rebuilt_if_there_is_no_doubt(self):
        manifest = "appendonly.aof.manifest"
        for how in ("missing", "empty", "damaged"):
            place = self.copy()
            path = self.log(place, manifest)
            if how == "missing":
                os.unlink(path)
            else:
                with open(path, "w") as file:
                    file.write("" if how == "empty" else "file appendonly.aof.1.incr")
            self.finds(place, "manifest")
            missing, reason = self.look(place)
            self.assertIsNone(missing, how)
            self.assertIn("anifest", reason)
            self.assertIn("a new manifest is written", self.repairs(place))
            self.assertEqual(self.look(place), (set(), set()))
        place = self.copy()
        os.rename(self.log(place, manifest), self.log(place, "temp-" + manifest))
        with open(self.log(place, "appendonly.aof.50.incr.aof"), "w") as file:
            file.write("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n")
        self.assertIn("was being written", self.repairs(place))
        place = self.copy()
        os.unlink(self.log(place, manifest))
        with open(self.log(place, "appendonly.aof.50.incr.aof"), "w") as file:
            file.write("*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n")
        status, text = check(place, "--repair")
        self.assertEqual(status, 1, text)
        self.assertIn("it is not known which of them count", text)

    def test_bad_tags_are_set_aside(self):
        seed = seed_new()
        chance = random.Random(seed)
        for how in ("missing", "short", "flip", "flip", "empty"):
            place = self.copy()
            path = self.in_image(place, "tags")
            if how == "missing":
                os.unlink(path)
            elif how == "short":
                os.truncate(path, chance.randrange(os.path.getsize(path)))
            elif how == "empty":
                os.truncate(path, 0)
            else:
                self.flip(path, chance)
            self.finds(place, "tags")
            self.assertEqual(self.look(shutil.copytree(place, place + "-start")), (set(), set()), "SEED=%d" % seed)
            status, text = check(place, "--repair")
            self.assertEqual(status, 0, text)
            self.assertIn("Nothing is lost", text)
            self.assertEqual(self.look(place), (set(), set()), "SEED=%d" % seed)

    def test_a_damaged_data_set_is_found_and_its_copy_used(self):
        seed = seed_new()
        chance = random.Random(seed)
        for how, name in [("missing", "dataset"), ("short", "dataset"), ("flip", "dataset"), ("flip", "dataset"), ("flip", "dataset.copy")]:
            place = self.copy()
            self.hurt(how, self.in_image(place, name), chance)
            self.finds(place, name)
            self.assertEqual(self.look(shutil.copytree(place, place + "-start")), (set(), set()), "SEED=%d" % seed)
            self.assertIn("Nothing is lost", self.repairs(place))
            self.assertEqual(tree(self.in_image(place))["dataset"], tree(self.in_image(place))["dataset.copy"])
            self.assertEqual(self.look(place), (set(), set()), "SEED=%d" % seed)
        place = self.copy()
        os.unlink(self.in_image(place, "dataset.copy"))         # an image of an older version
        self.assertEqual(check(place)[0], 0)
        self.assertEqual(self.look(place), (set(), set()))

    def hurt(self, how, path, chance):
        if how == "missing":
            os.unlink(path)
        elif how == "short":
            os.truncate(path, chance.randrange(os.path.getsize(path)))
        else:
            self.flip(path, chance)

    def test_without_both_data_sets_nothing_is_guessed(self):
        seed = seed_new()
        chance = random.Random(seed)
        for how in ("missing", "short", "flip", "flip"):
            place = self.copy()
            for name in ("dataset", "dataset.copy"):
                self.hurt(how, self.in_image(place, name), chance)
            self.finds(place, "dataset")
            missing, reason = self.look(place)
            self.assertIsNone(missing, "SEED=%d" % seed)
            self.assertIn("dataset", reason)
            status, text = check(place, "--repair")
            self.assertEqual(status, 1, text)
            self.assertIn("can't be repaired", text)

    def test_flipped_bits_in_tables_are_found_reported_and_dropped(self):
        seed = seed_new()
        chance = random.Random(seed)
        for round_ in range(2 if SHORT else 6):
            place, what = self.copy(), "SEED=%d, round %d" % (seed, round_)
            path = chance.choice(self.store_files(place, ".run"))
            at = self.flip(path, chance, chance.randrange(os.path.getsize(path) - 48))
            if not self.finds_in_store(place, path):
                continue
            self.assertIn(os.path.basename(path) + ": offset", check(place)[1])
            missing, unreadable = self.look(shutil.copytree(place, place + "-start"))
            if missing is not None:
                self.assertEqual(missing, set(), what)
            status, text = check(place, "--repair")
            if "can't be repaired" in text:             # if the block had the seed or a similar record
                self.assertEqual(status, 1, text)
                continue
            self.assertEqual(status, 0, what + text)
            again, after = check(place)
            self.assertEqual(again, 0, what + text + after)
            missing, unreadable = self.look(place)
            self.assertEqual(unreadable, set(), what)
            self.assertIsNotNone(re.search(r"(\d+) records are kept, (\d+) dropped; (\d+) more are lost", text), text)
            # An older record of a key may be dropped if a newer one is there: tags and segments have all keys.
            self.assertEqual((missing, re.search(r"dropped; (\d+) more are lost", text).group(1)), (set(), "0"), "%s, offset %d: %s" % (what, at, text))

    def test_other_damage_to_the_store_is_found(self):
        seed = seed_new()
        chance = random.Random(seed)
        for end, how in [("meta", "flip"), ("meta", "missing"), ("meta", "short"), ("meta", "empty"), (".run", "missing"), (".run", "short"),
                         (".run", "empty")]:
            place, what = self.copy(), "SEED=%d, %s %s" % (seed, end, how)
            path = chance.choice(self.store_files(place, end))
            if how == "flip":
                self.flip(path, chance)
            elif how == "missing":
                os.unlink(path)
            else:
                os.truncate(path, 0 if how == "empty" else chance.randrange(1, os.path.getsize(path)))
            if not self.finds_in_store(place, path):
                continue
            missing, unreadable = self.look(shutil.copytree(place, place + "-start"))
            if missing is not None:
                self.assertEqual(missing, set(), what)
            self.repairs(place)                     # tags and segments have all keys
            self.assertEqual(self.look(place), (set(), set()), what)

    def test_an_index_is_made_again_from_the_segments(self):
        """All files of the index are gone. Without the tags it is not known which keys were deleted."""
        place = self.copy()
        for path in self.store_files(place, ""):
            if not path.endswith(".seg"):
                os.unlink(path)
        self.finds(place, "it has lost its meta data or a key run")
        without = shutil.copytree(place, place + "-without")
        text = self.repairs(place)
        self.assertIn("tags and segments have them", text)
        self.assertEqual(self.look(place), (set(), set()))
        os.unlink(self.in_image(without, "tags"))
        before = tree(without)
        status, text = check(without, "--repair")
        self.assertEqual(status, 1)
        self.assertIn("--repair --revive-deleted brings back", text)
        self.assertNotIn("can't be written", text)
        self.assertEqual(tree(without), before)
        status, text = check(without, "--repair", "--revive-deleted")
        self.assertEqual(status, 0, text)
        self.assertIn("some of them may have been deleted", text)
        self.assertEqual(check(without)[0], 0)
        deleted = {name: self.values.pop(name) for name, value in list(self.values.items()) if value is None}
        try:
            self.assertEqual(self.look(without), (set(), set()))    # every key has its last value
        finally:
            self.values.update(deleted)

    def test_without_meta_data_and_seed_nothing_is_guessed(self):
        place = self.copy()
        with open(self.in_image(place, "dataset"), "rb") as file:
            lines = [line for line in file.read().splitlines(True) if not line.startswith((b"seed ", b"end "))]
        os.unlink(self.in_image(place, "dataset.copy"))
        write(self.in_image(place, "dataset"), b"".join(lines) + b"end %016x\n" % crc64(b"".join(lines)))
        self.assertEqual(check(place)[0], 0)
        os.unlink(self.in_image(place, "store", "meta"))
        status, text = check(place, "--repair")
        self.assertEqual(status, 1, text)
        self.assertIn("has no meta data", text)

    def test_files_of_a_newer_version_are_refused_by_name(self):
        def newer(place, name, old, new, sum_at):
            path = self.in_image(place, name)
            with open(path, "rb") as file:
                data = file.read().replace(old, new, 1)
            write(path, sum_at(data))

        def text_sum(data):
            body = data[:data.rindex(b"end ")]
            return body + b"end %016x\n" % crc64(body)

        def tail_sum(data):
            return data[:-8] + struct.pack("<Q", crc64(data[:-8]))

        def tags_sum(data):
            return data[:-8] + struct.pack("<Q", crc64(data[:-12]))

        def head_sum(data):
            return data[:20] + struct.pack("<I", crc32c(data[:20])) + data[24:]

        segment = os.path.basename(self.store_files(self.sound, ".seg")[0])
        def end_sum(data):
            return data[:-4] + struct.pack("<I", crc32c(data[:-4]))

        for name, old, new, sums, text in [("dataset", b"kelvin-image 3", b"kelvin-image 9", text_sum, "dataset"),
                                           ("store/meta", b"KSTORE6", b"KSTORE9", end_sum, "meta"),
                                           ("tags", b"KTAGS5", b"KTAGS9", tags_sum, "tags"),
                                           ("store/" + segment, b"KSEG3", b"KSEG9", head_sum, segment)]:
            place = self.copy()
            newer(place, name, old, new, sums)
            before = tree(place)
            for options in ([], ["--repair"], ["--repair", "--revive-deleted"]):
                status, found = check(place, *options)
                self.assertEqual(status, 2, found)
                self.assertRegex(found, text + ".*written by a newer Kelvin")
                self.assertEqual(tree(place), before)
            missing, reason = self.look(place)
            self.assertIsNone(missing, name)
            self.assertRegex(reason, text + ".*newer Kelvin")
        for change in (self.make_functions_newer, self.make_identity_newer):
            place = self.copy()
            name = change(place)
            before = tree(place)
            for options in ([], ["--repair"]):
                status, found = check(place, *options)
                self.assertEqual(status, 2, found)
                self.assertRegex(found, name + ".*written by a newer Kelvin")
                self.assertEqual(tree(place), before)
            missing, reason = self.look(place)
            self.assertIsNone(missing, name)
            self.assertRegex(reason, name + ".*written by a newer Kelvin")
        place = self.copy()                         # a hint: there is no warm-up
        newer(place, "hot", b"KHOT2", b"KHOT9", tail_sum)
        status, found = check(place)
        self.assertEqual(status, 0, found)
        self.assertIn("hot is of another version", found)
        newer(place, "advise", b"KADV1", b"KADV9", tail_sum)
        status, found = check(place)
        self.assertEqual(status, 0, found)
        self.assertIn("advise is of another version", found)
        self.assertEqual(self.look(place), (set(), set()))

    def make_functions_newer(self, place):
        """The version is at the end of the dump; `dataset` has the file's size and sum."""
        with self.serve(place) as server, server.client() as client:
            client.must("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() end)")
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrites"] != "0" and
                  server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
        image = next(name for name in os.listdir(self.log(place, "")) if name.endswith(".base.image"))
        path, dataset = self.log(place, image, "functions"), self.log(place, image, "dataset")
        with open(path, "rb") as file:
            old = file.read()
        new = old[:-10] + struct.pack("<H", 99)
        new += struct.pack("<Q", crc64(new))
        write(path, new)
        with open(dataset, "rb") as file:
            text = file.read()
        self.assertIn(b"%016x" % crc64(old), text)
        text = text[:text.rindex(b"end ")].replace(b"%016x" % crc64(old), b"%016x" % crc64(new))
        text += b"end %016x\n" % crc64(text)
        write(dataset, text)
        write(dataset + ".copy", text)
        return "functions"

    def make_identity_newer(self, place):
        path = self.log(place, "appendonly.aof.id")
        with open(path, "rb") as file:
            data = file.read()
        self.assertIn(b"kelvin-id 1\n", data)
        write(path, data.replace(b"kelvin-id 1\n", b"kelvin-id 2\n") + b"more 1\n")
        return "appendonly.aof.id"

    def lose(self, place):
        """Repairs an image with damaged records. Returns the keys that are lost, which have to be those that the server can't read before; if it
        starts at all: a DEL in the log of a key that can't be read stops it."""
        before, unreadable = self.look(shutil.copytree(place, place + "-start"))
        text = self.repairs(place)
        missing, still = self.look(place)
        self.assertEqual(still, set())
        if before is None:
            self.assertIn("can't be read from the store", unreadable)
        else:
            self.assertEqual((before, unreadable), (set(), missing), text)
        kept, dropped, more = map(int, re.search(r"(\d+) records are kept, (\d+) dropped; (\d+) more are lost", text).groups())
        self.assertEqual(more, 0, text)
        self.assertTrue(dropped - len(self.REPLACED) <= len(missing) <= dropped, text)
        return missing, kept

    def test_flipped_bits_in_segments_lose_one_key_each(self):
        seed = seed_new()
        chance = random.Random(seed)
        for round_ in range(3 if SHORT else 8):
            place = self.copy()
            path = chance.choice(self.store_files(place, ".seg"))
            at = self.flip(path, chance, chance.randrange(32, os.path.getsize(path)))
            status, text = check(place)
            if status == 0:                         # of a dead record, or between two records
                self.assertEqual(self.look(place), (set(), set()), "SEED=%d, round %d" % (seed, round_))
                continue
            self.finds(place, "its record in a segment .slot \\d+, offset \\d+. is damaged or missing")
            name, database = self.NAME.search(text).groups()
            missing, kept = self.lose(place)
            self.assertEqual(missing, {(int(database), name)} - self.REPLACED, "SEED=%d, round %d, offset %d" % (seed, round_, at))
            self.assertGreater(kept, KEYS)

    def test_segments_that_are_missing_or_short(self):
        for how in ("missing", "short", "empty", "head"):
            place = self.copy()
            path = max(self.store_files(place, ".seg"), key=os.path.getsize)
            if how == "missing":
                os.unlink(path)
            elif how == "head":
                self.flip(path, random, 9)
            else:
                os.truncate(path, 0 if how == "empty" else os.path.getsize(path) // 2)
            text = self.finds(place, "is damaged or missing")
            if how == "head":
                self.assertIn("its head is invalid", text)
            missing, kept = self.lose(place)
            self.assertGreater(len(missing), 100)
            if how == "short":
                self.assertGreater(kept, 100)

    def test_without_tags_nothing_is_taken_that_may_be_outdated(self):
        seed = seed_new()
        chance = random.Random(seed)
        for round_ in range(2 if SHORT else 5):
            place, what = self.copy(), "SEED=%d, round %d" % (seed, round_)
            paths = self.store_files(place, ".seg")
            path = chance.choice(paths) if round_ > 0 else paths[-1]
            size = os.path.getsize(path)
            for _ in range(1 if round_ > 0 else 20):    # one alone may be between two records
                self.flip(path, chance, chance.randrange(32 if round_ > 0 else size // 2, size))
            os.unlink(self.in_image(place, "tags"))
            text = self.finds(place, "tags")
            missing, reason = self.look(shutil.copytree(place, place + "-start"))
            if round_ == 0:                             # in the segment that was written last: most keys were before
                self.assertIn("may have been in damaged bytes", text, what)
            if re.search("may have been in damaged bytes|is in no segment", text):
                self.assertIsNone(missing, what)
                self.assertRegex(reason, "The tags can't be rebuilt: .*(may have been there|is in no segment)")
            else:                                       # all keys have been written since
                self.assertEqual(missing, set(), what)
            self.repairs(place)
            missing, unreadable = self.look(place)      # which fails for a value that is not the last one
            self.assertEqual(unreadable, set(), what)

    def test_without_tags_the_newest_records_are_taken(self):
        place = self.copy()
        os.unlink(self.in_image(place, "tags"))
        self.repairs(place)
        self.assertEqual(self.look(place), (set(), set()))

    def test_a_missing_image_is_found(self):
        place = self.copy()
        shutil.rmtree(self.in_image(place))
        self.finds(place, "does not exist")
        self.assertIsNone(self.look(place)[0])
        place = self.copy()
        shutil.rmtree(self.in_image(place, "store"))
        self.finds(place, "DAMAGED")
        self.assertIsNone(self.look(place)[0])


@kelvin_only
class BackupCheckTest(ServerCase):
    options = {"appendonly": "no", "enable-protected-configs": "yes"}

    def test_a_backup_and_an_interrupted_one(self):
        folder = tempfile.mkdtemp(prefix="kelvin-check-")
        self.addCleanup(shutil.rmtree, folder, True)
        self.c.must("SET", "k", "v")
        place = os.path.join(folder, "b")
        self.c.must("TIER", "BACKUP", place)
        status, text = check(place)
        self.assertEqual(status, 0, text)
        self.assertIn("1 keys", text)
        os.rename(place + "/appendonlydir", place + "/appendonlydir.incomplete")
        status, text = check(place, "--repair")
        self.assertEqual(status, 1, text)
        self.assertIn("interrupted", text)

    def test_an_rdb_file(self):
        folder = tempfile.mkdtemp(prefix="kelvin-check-")
        self.addCleanup(shutil.rmtree, folder, True)
        path = os.path.join(folder, "dump.rdb")
        with Server({"dir": folder}, binary=REDIS) as redis, redis.client() as client:
            for i in range(300):
                client.must("SET", "k%d" % i, "v%d" % i)
            client.must("HSET", "h", "f", "v")
            client.must("SAVE")
        status, text = check(path)
        self.assertEqual(status, 0, text)
        self.assertIn("301 keys", text)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)[0]
            file.seek(os.path.getsize(path) // 2)
            file.write(bytes([byte ^ 4]))
        self.assertEqual(check(path)[0], 1)
        os.truncate(path, os.path.getsize(path) // 3)
        status, text = check(path)
        self.assertEqual(status, 1, text)
        self.assertIn("offset", text)
        self.assertEqual(check(os.path.join(ROOT, "README.md"))[0], 2)


if __name__ == "__main__":
    main()
