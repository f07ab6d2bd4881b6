"""Records of flushed databases are purged later; the cost depends on the number of records, not on the number of flushes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                               # noqa: E402
from support.server import Server, scaled, until                                                     # noqa: E402


def checkpoint(server, client):
    client.must("BGREWRITEAOF")
    until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")


def run_last(server):
    """Returns the highest sequence number of a key run."""
    names = os.listdir(os.path.join(server.folder, "store"))
    return max([int(name[:-4]) // 16 for name in names if name.endswith(".run")] or [0])


def size_of(folder):
    return sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder))


@kelvin_only
class PurgeTest(ServerCase):

    def test_many_flushes_leave_no_work_after_a_restart(self):
        with Server({"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": 0}) as server:
            with server.client() as client:
                client.pipeline([("SET", "a", "1"), ("FLUSHALL",)] * scaled(1000))
                client.must("SET", "here", "1")
                checkpoint(server, client)
            server.restart()
            with server.client() as client:
                before = run_last(server)
                for number in range(100):           # at least one iteration of the writer for each
                    client.must("SET", "k%d" % number, "v")
                    self.assertEqual(client.must("TIER", "DEMOTE", "k%d" % number), 1)
                self.assertLess(run_last(server) - before, 5)
                self.assertEqual(client.must("GET", "here"), b"1")

    def test_flushed_records_that_were_not_purged_are_purged_after_a_restart(self):
        """The image may have been made before the records were purged."""
        with Server({"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": 0}) as server:
            with server.client() as client:
                for database in range(3):
                    client.must("SELECT", database)
                    client.must("MSET", *[word for i in range(500) for word in ("k%d" % i, "v" * 100)])
                    client.must("TIER", "DEMOTE", *["k%d" % i for i in range(500)])
                client.pipeline([("FLUSHDB",), ("BGREWRITEAOF",)])
                until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", what="the end of the checkpoint")
                client.must("FLUSHDB")
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual(client.must("DBSIZE"), 500)
                client.must("SELECT", 2)
                self.assertEqual(client.must("DBSIZE"), 0)
                self.assertEqual(client.must("KEYS", "*"), [])
                client.must("SET", "k1", "new")
                self.assertEqual(client.must("TIER", "DEMOTE", "k1"), 1)
                self.assertEqual(client.must("GET", "k1"), b"new")

    def test_the_size_includes_files_of_the_last_image_only(self):
        """All data is rewritten after a checkpoint: the image has the old tables, the store has new ones."""
        options = {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": 0, "tier-segment-size": "256kb", "tier-write-buffer": "64kb"}
        with Server(options) as server:
            with server.client() as client:
                keys = ["k%d" % number for number in range(1000)]
                client.pipeline([("SET", key, os.urandom(2000)) for key in keys])
                client.must("TIER", "DEMOTE", *keys)
                checkpoint(server, client)
                alone = size_of(os.path.join(server.folder, "store"))
                client.must("FLUSHALL")
                client.pipeline([("SET", key, os.urandom(2000)) for key in keys])
                client.must("TIER", "DEMOTE", *keys)
                until(lambda: int(server.info("tiering")["tier_store_bytes"]) > alone * 1.5, what="counting the image")
                client.must("CONFIG", "SET", "tier-max-size", int(alone * 1.5))
                until(lambda: server.info("tiering")["tier_status"] == "full", what="reaching the limit")


if __name__ == "__main__":
    main()
