"""tier-full-policy: near tier-max-size cold keys are deleted, so that writes are never refused; which ones, what clients, log and replicas see of it, and when
there is nothing to delete."""
import errno
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                        # noqa: E402
from support.disk import FAIL, Disk                                                                  # noqa: E402
from support.resp import OK, Error                                                                   # noqa: E402
from support.server import Server, is_redis, until                                                   # noqa: E402

MB = 1 << 20
LIMIT = 40 * MB
OPTIONS = {"maxmemory": 14 * MB,       # records of hot keys are not deleted, so the limit has to be larger
           "save": "", "tier-max-size": LIMIT, "tier-segment-size": MB, "partitions": 4, "tier-block-cache": MB,
           "tier-write-buffer": MB}
COUNT = 80000


def tiering(server):
    return server.info("tiering")


def fill(client, first, count, words=lambda number: ["SET", "key:%d" % number, b"%01000d" % number]):
    """Returns the errors."""
    errors = []
    for start in range(first, first + count, 500):
        errors += [reply for reply in client.pipeline([words(number) for number in range(start, start + 500)]) if isinstance(reply, Error)]
    return errors


def there(client, first, count, step):
    names = ["key:%d" % number for number in range(first, first + count, step)]
    return sum(client.must("EXISTS", *names[at:at + 500]) for at in range(0, len(names), 500))


class FullCase(unittest.TestCase):
    """A server of its own for each test: what FLUSHALL leaves in the index would be a good part of so small a limit."""

    def setUp(self):
        self.server = Server(OPTIONS)
        self.addCleanup(self.server.discard)
        self.c = self.server.client(timeout=60)
        self.addCleanup(self.c.close)

    def policy(self, name):
        self.assertEqual(self.c.must("CONFIG", "SET", "tier-full-policy", name), OK)

    def scanned(self):
        cursor, names = b"0", set()
        while True:
            cursor, page = self.c.must("SCAN", cursor, "COUNT", 1000)
            names.update(page)
            if cursor == b"0":
                return names

    def check_counts(self):
        """What is left is counted, listed and readable."""
        self.policy("noeviction")
        names = sorted(self.scanned())
        self.assertEqual(self.c.must("DBSIZE"), len(names))
        for name in names[::97]:
            self.assertEqual(int(self.c.must("GET", name)), int(name.split(b":")[1]))
        return len(names)


@unittest.skipIf(is_redis(), "redis-server has no cold keys")
class PolicyTest(FullCase):
    def test_allkeys_coldest_deletes_what_was_demoted_first(self):
        self.policy("allkeys-coldest")
        self.assertEqual(fill(self.c, 0, COUNT), [])
        left = self.check_counts()
        info = tiering(self.server)
        self.assertEqual(int(info["tier_evicted_cold"]) + left, COUNT)
        self.assertEqual(int(self.server.info("stats")["evicted_keys"]), int(info["tier_evicted_cold"]))
        self.assertLess(there(self.c, 0, COUNT // 4, 50), COUNT // 4 // 50 // 10)
        self.assertGreater(there(self.c, COUNT * 9 // 10, COUNT // 10, 50), COUNT // 10 // 50 * 8 // 10)
        self.assertLess(int(info["tier_store_bytes"]), LIMIT * 3 // 2)

    def test_keys_that_are_read_stay(self):
        self.policy("allkeys-coldest")
        read = ["GET", "key:1"], ["GET", "key:2"], ["GET", "key:3"]
        self.assertEqual(fill(self.c, 0, 500), [])
        for start in range(500, COUNT, 500):
            self.c.pipeline(read)
            self.assertEqual(fill(self.c, start, 500), [])
        self.assertEqual(self.c.must("EXISTS", "key:1", "key:2", "key:3"), 3)
        self.assertLess(there(self.c, 4, 400, 10), 5)

    def test_pinned_keys_and_those_that_are_never_cold_stay(self):
        self.policy("allkeys-coldest")
        self.assertEqual(fill(self.c, 0, 500), [])
        self.c.must("TIER", "DEMOTE", *["key:%d" % number for number in range(500)])
        self.c.must("TIER", "RULE", "ADD", "key:4[0-9]", "never-cold")
        self.c.must("TIER", "PIN", "key:7")
        self.assertEqual(fill(self.c, 500, COUNT), [])
        self.assertEqual(self.c.must("EXISTS", "key:7", *["key:%d" % number for number in range(40, 50)]), 11)
        self.c.must("TIER", "UNPIN", "key:7")
        self.c.must("TIER", "RULE", "DEL", "key:4[0-9]")

    def test_volatile_coldest_keeps_keys_without_an_expiry(self):
        self.policy("volatile-coldest")
        self.assertEqual(fill(self.c, 0, 8000), [])
        self.assertEqual(fill(self.c, 8000, COUNT, lambda number: ["SET", "key:%d" % number, b"%01000d" % number, "EX", 100000]), [])
        self.assertEqual(there(self.c, 0, 8000, 1), 8000)
        self.assertLess(there(self.c, 8000, COUNT // 4, 50), COUNT // 4 // 50 // 10)
        self.check_counts()

    def test_volatile_ttl_deletes_what_expires_next(self):
        """Later keys expire sooner, so that they go."""
        self.policy("volatile-ttl")
        self.assertEqual(fill(self.c, 0, 4000), [])
        words = lambda number: ["SET", "key:%d" % number, b"%01000d" % number, "EX", 1000000 - number]      # noqa: E731
        self.assertEqual(fill(self.c, 4000, COUNT, words), [])
        self.assertEqual(there(self.c, 0, 4000, 1), 4000)
        self.assertGreater(there(self.c, 4000, 4000, 10), 390)
        self.assertLess(there(self.c, COUNT // 2, COUNT // 4, 50), COUNT // 4 // 50 // 4)
        self.check_counts()

    def test_nothing_to_delete_is_noeviction(self):
        for name in ("volatile-coldest", "volatile-ttl"):
            self.policy(name)
            errors = fill(self.c, 0, COUNT)
            self.assertGreater(len(errors), 1000)
            self.assertTrue(errors[-1].startswith(b"OOM"), errors[-1])
            self.assertEqual(int(tiering(self.server)["tier_evicted_cold"]), 0)
            self.assertEqual(tiering(self.server)["tier_status"], "full")
        self.policy("allkeys-coldest")
        until(lambda: fill(self.c, COUNT, 5000) == [], 60, "room on the disk, and then in memory")
        self.assertEqual(fill(self.c, COUNT, COUNT), [])

    def test_events_and_the_directive(self):
        self.assertEqual(self.c.must("CONFIG", "GET", "tier-full-policy"), [b"tier-full-policy", b"noeviction"])
        self.assertIsInstance(self.c.call("CONFIG", "SET", "tier-full-policy", "allkeys-lru"), Error)
        self.c.must("CONFIG", "SET", "notify-keyspace-events", "Ee")
        self.policy("allkeys-coldest")
        with self.server.client() as listener:
            listener.must("SUBSCRIBE", "__keyevent@0__:evicted")
            self.assertEqual(fill(self.c, 0, COUNT), [])
            self.assertEqual(listener.receive()[:2], [b"message", b"__keyevent@0__:evicted"])
        self.c.must("CONFIG", "SET", "notify-keyspace-events", "")


@unittest.skipIf(is_redis(), "redis-server has no cold keys")
class CopiesTest(unittest.TestCase):
    def test_a_restart_has_the_same_keys(self):
        server = Server(dict(OPTIONS, appendonly="yes"))
        self.addCleanup(server.discard)
        with server.client(timeout=60) as client:
            client.must("CONFIG", "SET", "tier-full-policy", "allkeys-coldest")
            self.assertEqual(fill(client, 0, COUNT), [])
            client.must("CONFIG", "SET", "tier-full-policy", "noeviction")
            until(lambda: tiering(server)["tier_unknown_keys"] == "0", 30)
            before = sorted(client.must("KEYS", "*"))
        self.assertLess(len(before), COUNT)
        server.kill9()
        server.start()
        with server.client(timeout=60) as client:
            self.assertEqual(sorted(client.must("KEYS", "*")), before)

    def test_what_only_the_last_checkpoint_has_is_freed_before_writes_are_refused(self):
        """Keys come in as quickly as they can: again and again a checkpoint has to make room before demotion has waited for it too long."""
        server = Server(dict(OPTIONS, appendonly="yes", **{"tier-max-size": 0}))
        self.addCleanup(server.discard)
        with server.client(timeout=60) as client:
            self.assertEqual(fill(client, 0, COUNT), [])
            client.must("CONFIG", "SET", "tier-full-policy", "allkeys-coldest", "tier-max-size", LIMIT)
            for start in range(COUNT, 5 * COUNT // 2, 20000):
                self.assertEqual(fill(client, start, 20000), [])
        with open(server.log_path, "rb") as log:
            self.assertNotIn(b"wait for memory, one of them for", log.read())       # a warning after five seconds

    def start_with_checkpoint(self):
        """Returns a server with a log and one checkpoint, and its disk."""
        server = Server(dict(OPTIONS, appendonly="yes", **{"tier-full-policy": "allkeys-coldest"}), start=False)
        self.addCleanup(server.discard)
        disk = Disk(server.folder)
        self.addCleanup(disk.remove)
        server.environment = disk.environment
        server.start()
        with server.client(timeout=60) as client:
            self.assertEqual(fill(client, 0, 28000), [])
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 30, "the checkpoint")
        return server, disk

    def check_not_emptied(self, server):
        """Keys whose bytes only images have are not deleted: that would make no room."""
        self.assertGreater(int(tiering(server)["tier_segment_live_bytes"]), LIMIT * 7 // 10)

    def test_checkpoints_that_fail_leave_no_client_waiting(self):
        """Removed files stay with the last checkpoint, so there is no room: writes are refused in the end, and accepted when a checkpoint succeeds."""
        server, disk = self.start_with_checkpoint()
        with server.client(timeout=60) as client:
            disk.rule(0, "create", "*.image*", FAIL, error=errno.EIO)
            errors = fill(client, 28000, COUNT)
            self.assertTrue(errors and errors[-1].startswith(b"OOM"), len(errors))
            self.check_not_emptied(server)
            disk.heal()
            client.call("BGREWRITEAOF")         # if none runs already
            until(lambda: client.call("SET", "after", "x" * 1000) == OK, 60, "room")
            self.assertEqual(client.must("GET", "after"), b"x" * 1000)

    def test_images_that_are_copies_do_not_empty_the_store(self):
        """A file system without hard links."""
        server, disk = self.start_with_checkpoint()
        with server.client(timeout=60) as client:
            disk.rule(0, "link", "*", FAIL, error=errno.EPERM)
            fill(client, 28000, COUNT // 2)
            self.check_not_emptied(server)

    def test_replicas_delete_what_the_primary_deletes(self):
        primary = Server(dict(OPTIONS, **{"tier-full-policy": "allkeys-coldest", "repl-diskless-sync-delay": 0}))
        self.addCleanup(primary.discard)
        replica = Server(dict(OPTIONS, **{"tier-full-policy": "allkeys-coldest", "tier-max-size": 0, "replicaof": "127.0.0.1 %d" % primary.port}))
        self.addCleanup(replica.discard)
        until(lambda: replica.info("replication")["master_link_status"] == "up", 30, "the link")
        with primary.client(timeout=60) as client, replica.client(timeout=60) as other:
            self.assertEqual(fill(client, 0, COUNT), [])
            client.must("CONFIG", "SET", "tier-full-policy", "noeviction")
            self.assertEqual(client.must("WAIT", 1, 30000), 1)
            self.assertEqual(sorted(other.must("KEYS", "*")), sorted(client.must("KEYS", "*")))
            self.assertEqual(int(tiering(replica)["tier_evicted_cold"]), 0)


if __name__ == "__main__":
    main()
