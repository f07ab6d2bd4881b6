"""Segments of an image that are missing or have damaged heads: their keys are errors, never nil, and can be overwritten and deleted."""
import glob
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                       # noqa: E402
from support.resp import Error                                                                      # noqa: E402
from support.server import Server, is_redis, until                                                  # noqa: E402

COUNT = 6000
VALUE = b"x" * 1000


def rewrite(client):
    client.must("BGREWRITEAOF")
    until(lambda: b"aof_rewrite_in_progress:0" in client.must("INFO", "persistence"), 60, "the rewrite's end")


def save(client):
    client.must("BGSAVE")
    until(lambda: b"rdb_bgsave_in_progress:0" in client.must("INFO", "persistence"), 60, "the dump's end")
    return b"rdb_last_bgsave_status:ok" in client.must("INFO", "persistence")


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class LostSegmentTest(unittest.TestCase):

    def setUp(self):
        self.server = Server({"appendonly": "yes", "appendfsync": "no", "maxmemory": "12mb", "tier-segment-size": "256kb", "tier-write-buffer": "256kb",
                              "auto-aof-rewrite-percentage": 0, "tier-warmup": "no", "checkpoint-on-shutdown": "no", "save": ""})
        self.addCleanup(self.server.discard)

    def write(self, client, name, count):
        for at in range(0, count, 500):
            for reply in client.pipeline([("SET", "%s%d" % (name, i), b"%s%d:" % (name.encode(), i) + VALUE) for i in range(at, at + 500)]):
                self.assertFalse(isinstance(reply, Error), reply)

    def segments(self):
        return sorted(glob.glob(os.path.join(self.server.folder, "appendonlydir", "*", "*.seg")) +
                      glob.glob(os.path.join(self.server.folder, "appendonlydir", "*", "store", "*.seg")))

    def lost(self, client):
        """Reads all keys. Returns those that are errors; all others have their values."""
        lost = []
        for at in range(0, COUNT, 500):
            for i, reply in enumerate(client.pipeline([("GET", "k%d" % i) for i in range(at, at + 500)]), at):
                if isinstance(reply, Error):
                    self.assertIn("can't be read", str(reply))
                    lost.append("k%d" % i)
                else:
                    self.assertEqual(reply, b"k%d:" % i + VALUE)
        return lost

    def damage(self):
        with self.server.client() as client:
            self.write(client, "k", COUNT)
            rewrite(client)
        self.server.terminate()
        files = self.segments()
        self.assertGreater(len(files), 10)
        os.unlink(files[2])
        with open(files[5], "r+b") as file:
            file.seek(9)
            file.write(b"!!!")
        self.server.start()

    def test_their_keys_stay_errors_until_they_are_deleted_or_overwritten(self):
        self.damage()
        with self.server.client(timeout=60) as client:
            lost = self.lost(client)
            self.assertGreater(len(lost), 200)
            self.assertIn(b"%d keys can't be read" % len(lost), self.server.log())
            # New segments take all slots that are free.
            self.write(client, "n", 2 * COUNT)
            self.assertEqual(self.lost(client), lost)
            self.assertEqual(client.must("DBSIZE"), 3 * COUNT)
            # An image keeps them as they are.
            rewrite(client)
        self.server.restart()
        with self.server.client(timeout=60) as client:
            self.assertEqual(self.lost(client), lost)
            self.assertIn(b"%d keys can't be read" % len(lost), self.server.log_new())
            # A dump without them would look complete.
            self.assertFalse(save(client))
            self.assertIn(b"with %d keys that can't be read" % len(lost), self.server.log())
            for key in lost[:20]:
                client.must("SET", key, key + ":" + VALUE.decode())
            self.assertEqual(self.lost(client), lost[20:])
            for key in lost[20:30]:
                self.assertEqual(client.must("UNLINK", key), 1)
                self.assertIsNone(client.must("GET", key))
                self.assertEqual(client.must("DEL", key), 0)
            self.assertEqual(client.must("DEL", *lost[30:], "absent"), len(lost) - 30)
            for key in lost[20:]:
                self.assertIsNone(client.must("GET", key))
            self.assertEqual(client.must("DBSIZE"), 3 * COUNT - len(lost[20:]))
            self.assertTrue(save(client))
            rewrite(client)
        # What was kept of the damaged files went with the last of their keys: a start finds nothing wrong.
        self.server.restart()
        self.assertNotIn(b"can't be read", self.server.log_new())

    def test_a_log_with_their_deletion_can_be_replayed(self):
        self.damage()
        with self.server.client(timeout=60) as client:
            lost = self.lost(client)
            self.assertEqual(client.must("DEL", *lost), len(lost))
        self.server.restart()
        with self.server.client(timeout=60) as client:
            self.assertEqual(client.must("DBSIZE"), COUNT - len(lost))
            for key in lost[:20]:
                self.assertIsNone(client.must("GET", key))


if __name__ == "__main__":
    main()
