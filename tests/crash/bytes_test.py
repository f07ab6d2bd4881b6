"""One damaged byte, a cut or a missing file, anywhere in the data of a server. Whatever it hits, a start, kelvin-check and its repair neither
crash nor lose anything silently: every key has its value, or is an error and named, or the whole is refused with a reason. Takes SEED and
SEEDS (the number of damages)."""
import os
import random
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from spec.check_test import Damage, check, write                                                     # noqa: E402
from support.case import kelvin_only, main                                                           # noqa: E402
from support.server import scaled, seed_new                                                          # noqa: E402

KEYS = 60
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 'v' end)"
IN_LOG = {(0, "after"), (0, "k5"), (0, "k6")}           # changed after the image


@kelvin_only
class BytesTest(Damage, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.make()
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    @classmethod
    def fill(cls, client):
        cls.hash = [(b"f%d" % i, b"v%d" % i) for i in range(20)]
        client.must("FUNCTION", "LOAD", LIBRARY)
        for database in (0, 3):
            client.must("SELECT", database)
            for i in range(KEYS):
                cls.values[database, "k%d" % i] = value = os.urandom(20 + i)
                client.must("SET", "k%d" % i, value)
            client.must("HSET", "h", *[word for field in cls.hash for word in field])
            client.must("TIER", "DEMOTE", *["k%d" % i for i in range(KEYS)])
            for i in range(0, KEYS, 5):
                cls.values[database, "k%d" % i] = b"second %d" % i
                client.must("SET", "k%d" % i, "second %d" % i)
            for i in range(1, KEYS, 7):
                cls.values[database, "k%d" % i] = None
                client.must("DEL", "k%d" % i)
            for i in range(2, KEYS, 4):
                client.must("PEXPIREAT", "k%d" % i, 4102444800000)
        client.must("SELECT", 0)

    def hurt(self, path, chance):
        """Returns what was done."""
        with open(path, "rb") as file:
            data = bytearray(file.read())
        kinds = ("cut", "remove") if path.endswith(".incr.aof") else ("flip", "flip", "flip", "cut", "zero", "remove")     # commands have no checksum
        how = chance.choice(kinds) if data else "remove"
        if how == "remove":
            os.unlink(path)
            return how
        at = chance.randrange(len(data))
        if how == "cut":
            write(path, data[:at])
        else:
            data[at] = 0 if how == "zero" else data[at] ^ 1 << chance.randrange(8)
            write(path, data)
        return "%s at %d of %d" % (how, at, len(data))

    def look_at(self, place, without):
        kept = {key: self.values.pop(key) for key in without}
        try:
            return self.look(place)
        finally:
            self.values.update(kept)

    def named(self, keys, *texts):
        if any("more problems are counted" in text for text in texts):
            return                              # not all are shown
        for database, key in keys:
            self.assertTrue(any('key "%s"' % key in text for text in texts), "%s of database %d is in no report:\n%s" % (key, database, "\n".join(texts)))

    def one(self, name, chance):
        place = self.copy()
        done = self.hurt(os.path.join(place, name), chance)
        with self.subTest(file=name, done=done):
            in_log = self.image not in name
            doubtful = IN_LOG if in_log else set()
            status, text = check(place)
            found, unreadable = self.look_at(shutil.copytree(place, place + "-start"), doubtful)
            if found is None:
                self.assertNotEqual(status, 0, "the server does not start: %s\n%s" % (unreadable, text))
            else:
                self.assertEqual(found, set(), text)
                self.named(unreadable, text)
            mended, told = check(place, "--repair")
            if mended != 0:
                self.assertIn("  x ", told)
                return
            again, after = check(place)
            self.assertEqual(again, 0, told + after)
            found, unreadable = self.look_at(place, doubtful)
            self.assertIsNotNone(found, "%s\n%s" % (unreadable, told))
            self.assertEqual(unreadable, set(), told)
            self.named(found - IN_LOG, text, told)

    def test_nothing_is_lost_silently(self):
        seed = seed_new()
        chance = random.Random(seed)
        names = []
        for at, _, found in os.walk(self.sound):
            names += [os.path.relpath(os.path.join(at, name), self.sound) for name in found if name not in ("log", "LOCK")]
        names = sorted(name for name in names if name.startswith("appendonlydir"))
        with self.subTest(seed=seed):
            for i in range(int(os.environ.get("SEEDS", scaled(2 * len(names))))):
                self.one(names[i % len(names)], chance)


if __name__ == "__main__":
    main()
