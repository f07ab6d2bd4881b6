#!/usr/bin/python3
"""tier-packed-share: compressed records of cold keys stay in memory, and no reply shows it."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.resp import OK                                                                         # noqa: E402
from support.server import SHORT, until                                                             # noqa: E402

KEYS = 4000 if SHORT else 20000


def value(number, version=0):
    return b'{"number":%d,"version":%d,"state":"delivered","currency":"EUR","lines":[{"article":%d,"count":%d},{"article":%d,"count":1}],"note":"' % (
        number, version, number * 7, number % 9, number * 13) + b"see the delivery note " * (number % 9) + b'"}'


class PackedCase(ServerCase):
    options = {"maxmemory": "64mb", "tier-compression": "lz4", "tier-packed-share": 60, "partitions": 4, "save": "", "appendonly": "no", "tier-dictionary-after": "64kb"}

    def figures(self):
        return {name: int(self.server.info("tiering")["tier_" + name]) for name in ("packed_keys", "packed_bytes", "packed_hits", "promotions", "unplanned_reads")}

    def demote_all(self):
        for at in range(0, KEYS, 1000):
            self.c.pipeline([["TIER", "DEMOTE", "k%d" % number] for number in range(at, min(KEYS, at + 1000))])

    def set_all(self, version=0):
        for at in range(0, KEYS, 1000):
            self.c.pipeline([["SET", "k%d" % number, value(number, version)] for number in range(at, min(KEYS, at + 1000))])

    def check_all(self, version=0):
        for at in range(0, KEYS, 1000):
            numbers = range(at, min(KEYS, at + 1000))
            self.assertEqual(self.c.pipeline([["GET", "k%d" % number] for number in numbers]), [value(number, version) for number in numbers])


class RandomCommands:
    def test_random_commands(self):
        """Beside what the values should be: all types, demoted at random, with the tier's keys under pressure."""
        chosen = random.Random(self.id() + os.environ.get("SEED", ""))
        strings, hashes, times = {}, {}, set()
        for _ in range(KEYS * 3):
            key, number = "r%d" % chosen.randrange(KEYS // 8), chosen.randrange(1 << 20)
            kind = chosen.randrange(12)
            if kind < 2:
                strings[key] = value(number)
                self.c.must("SET", "s" + key, strings[key])
                times.discard(key)
            elif kind == 2 and key in strings:
                strings[key] += b"tail"
                self.assertEqual(self.c.must("APPEND", "s" + key, "tail"), len(strings[key]))
            elif kind == 3:
                hashes.setdefault(key, {})[b"f%d" % (number % 6)] = value(number)
                self.c.must("HSET", "h" + key, "f%d" % (number % 6), value(number))
            elif kind == 4:
                self.assertEqual(self.c.must("DEL", "s" + key), key in strings)
                strings.pop(key, None)
                times.discard(key)
            elif kind == 5 and key in strings:
                times.add(key)
                self.assertEqual(self.c.must("PEXPIREAT", "s" + key, 99999999999999), 1)
            elif kind == 6:
                self.assertEqual(self.c.must("PEXPIRETIME", "s" + key), 99999999999999 if key in times else -1 if key in strings else -2)
            elif kind < 9:
                self.c.must("TIER", "DEMOTE", chosen.choice("sh") + key)
            elif kind == 9:
                self.assertEqual(self.c.must("GET", "s" + key), strings.get(key))
            elif kind == 10:
                reply = self.c.must("HGETALL", "h" + key)
                self.assertEqual(dict(zip(reply[::2], reply[1::2])), hashes.get(key, {}))
            else:
                self.assertEqual(self.c.must("STRLEN", "s" + key), len(strings.get(key, b"")))
        self.assertGreater(self.figures()["packed_hits"], KEYS // 50)


@kelvin_only
class PackedTest(RandomCommands, PackedCase):
    def test_cold_keys_are_read_from_memory(self):
        self.set_all()
        self.demote_all()
        before = self.figures()
        self.assertGreater(before["packed_keys"], KEYS * 9 // 10)
        self.check_all()
        after = self.figures()
        self.assertGreater(after["packed_hits"] - before["packed_hits"], KEYS * 9 // 10)
        self.assertEqual(after["unplanned_reads"], 0)
        self.set_all(1)
        self.check_all(1)
        self.demote_all()
        self.check_all(1)

    def test_directives_take_effect(self):
        self.set_all()
        self.demote_all()
        self.assertGreater(self.figures()["packed_bytes"], 0)
        for name, off, on in (("tier-packed-share", 0, 60), ("tier-compression", "no", "lz4"), ("maxmemory", 0, "64mb")):
            with self.subTest(directive=name):
                self.c.must("CONFIG", "SET", name, off)
                until(lambda: self.figures()["packed_bytes"] == 0, 10, "nothing is packed")
                self.check_all()
                self.c.must("CONFIG", "SET", name, on)
                self.set_all()
                self.demote_all()
                self.assertGreater(self.figures()["packed_keys"], 0)
        self.assertEqual(self.c.must("FLUSHALL"), OK)
        until(lambda: self.figures()["packed_bytes"] == 0, 10, "nothing is packed")


@kelvin_only
class PressureTest(RandomCommands, PackedCase):
    """The same while memory is short, so that the share is full: keys come and go by themselves."""
    options = {**PackedCase.options, "maxmemory": "16mb", "partitions": 2}

    def test_the_share_is_full(self):
        for number in range(KEYS * 3):
            self.c.must("SET", "other%d" % number, value(number))
        self.set_all()
        for _ in range(3):
            self.check_all()
        self.set_all(1)
        self.check_all(1)
        figures = self.figures()
        self.assertLess(figures["packed_bytes"], (16 << 20) * 70 // 100)
        self.assertEqual(self.server.info("stats")["evicted_keys"], "0")


if __name__ == "__main__":
    main()
