"""Segments of format 1, as older versions wrote them, beside those of format 2: in one image, through damage and repair, garbage collection,
checkpoints, and a full synchronization by image."""
import glob
import os
import random
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from spec import check_test                                                                          # noqa: E402
from spec.check_test import KEYS, Damage, check                                                      # noqa: E402
from support.case import kelvin_only, main                                                           # noqa: E402
from support.segment_file import format_of, make_format_1                                            # noqa: E402
from support.server import SHORT, Server, seed_new, until                                            # noqa: E402


def formats(store):
    return {format_of(path) for path in glob.glob(os.path.join(store, "*.seg"))}


@kelvin_only
class OldSegmentsTest(Damage, unittest.TestCase):
    REPLACED, NAME, lose = check_test.CheckTest.REPLACED, check_test.CheckTest.NAME, check_test.CheckTest.lose

    @classmethod
    def setUpClass(cls):
        cls.make()
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.age(cls.sound)

    @classmethod
    def age(cls, place):
        """Every other segment in format 1; as places have changed, the tags are rebuilt."""
        store = os.path.join(place, "appendonlydir", cls.image, "store")
        for path in sorted(glob.glob(os.path.join(store, "*.seg")))[::2]:
            make_format_1(path)
        assert formats(store) == {1, 2}
        os.unlink(os.path.join(store, "..", "tags"))
        assert "record maps (tags) are rebuilt" in check(place, "--repair")[1]

    def serve(self, place):
        return Server({"appendonly": "yes", "dir": place, "databases": 16, "tier-segment-size": "256kb", "tier-write-buffer": "64kb",
                       "auto-aof-rewrite-percentage": "0", "maxmemory": "32mb", "repl-diskless-sync-delay": "0"})

    def checkpoint(self, server):
        with server.client() as client:
            client.must("BGREWRITEAOF")
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the checkpoint")
        self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")

    def test_all_keys_are_there(self):
        place = self.copy()
        self.assertEqual(check(place)[0], 0)
        self.assertEqual(self.look(place), (set(), set()))

    def test_without_tags_too(self):
        place = self.copy()
        os.unlink(self.in_image(place, "tags"))
        self.assertEqual(self.look(place), (set(), set()))

    def test_a_flipped_bit_loses_one_key(self):
        seed = seed_new()
        chance = random.Random(seed)
        for round_ in range(2 if SHORT else 6):
            place = self.copy()
            path = chance.choice([path for path in self.store_files(place, ".seg") if format_of(path) == 1])
            at = self.flip(path, chance, chance.randrange(32, os.path.getsize(path)))
            status, text = check(place)
            if status == 0:                         # of a dead record, or between two records
                self.assertEqual(self.look(place), (set(), set()), "SEED=%d, round %d" % (seed, round_))
                continue
            name, database = self.NAME.search(text).groups()
            missing, kept = self.lose(place)
            self.assertEqual(missing, {(int(database), name)} - self.REPLACED, "SEED=%d, round %d, offset %d" % (seed, round_, at))
            self.assertGreater(kept, KEYS)

    def change(self, server, chance, values, share):
        """In databases 0 and 3: overwrites some keys, demotes all."""
        for database in (0, 3):
            with server.client() as client:
                client.must("SELECT", database)
                for i in chance.sample(range(KEYS), int(KEYS * share)):
                    values[database, "k%d" % i] = value = b"%d" % chance.randrange(1 << 100)
                    client.must("SET", "k%d" % i, value)
                client.must("TIER", "DEMOTE", *["k%d" % i for i in range(KEYS)])

    def test_garbage_collection_writes_what_is_left_in_format_2(self):
        """Each step changes the data, takes an image and ends with a kill."""
        place, chance, before = self.copy(), random.Random(seed_new()), dict(self.values)
        try:
            for step in range(20):
                with self.serve(place) as server:
                    self.change(server, chance, self.values, 0.4)
                    if step % 2 == 1:
                        self.checkpoint(server)
                    old = formats(os.path.join(place, "store"))
                    server.expect_crash = True
                    server.kill9()
                status, text = check(place)
                self.assertEqual(status, 0, text)
                self.assertEqual(self.look(place), (set(), set()))
                if old == {2}:
                    break
            self.assertEqual(old, {2})
        finally:
            type(self).values = before

    def test_a_replica_gets_them_by_image(self):
        place = self.copy()
        with self.serve(place) as primary, Server({"appendonly": "yes", "databases": 16}) as replica:
            with replica.client() as client:
                client.must("REPLICAOF", "127.0.0.1", str(primary.port))
                until(lambda: replica.info("replication")["master_link_status"] == "up", 60, "the link")
                self.assertEqual(replica.info("replication")["master_last_sync"], "image")
                until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the end of its checkpoint")
                self.assertEqual(formats(os.path.join(replica.folder, "store")), {1, 2})
                client.must("REPLICAOF", "NO", "ONE")
            replica.expect_crash = True
            replica.kill9()
            status, text = check(replica.folder)
            self.assertEqual(status, 0, text)
            shutil.rmtree(os.path.join(replica.folder, "store"))
            self.assertEqual(self.look(replica.folder), (set(), set()))


if __name__ == "__main__":
    main()
