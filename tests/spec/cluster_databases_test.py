#!/usr/bin/python3
"""Nodes of a cluster with several databases (cluster-databases), as of Valkey 9: a key has the same slot in each of them."""
import re
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import main                                                                               # noqa: E402
from support.cluster import SLOT_COUNT, Cluster, Node, tags_in                                           # noqa: E402
from support.resp import Error, Status                                                                  # noqa: E402
from support.server import StartFailed, is_redis, until                                                              # noqa: E402

OK, COUNT = Status(b"OK"), 6
RANGE = Error(b"ERR DB index is out of range")
AGAIN = Error(b"TRYAGAIN Multiple keys request during rehashing of slot")
KEY, TAG = "key{06S}", "06S"        # slot 0


def is_moved(client):
    reply = client.call("GET", KEY)
    return isinstance(reply, Error) and reply.startswith(b"MOVED 0 ")


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class DatabasesTest(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(["kelvin"] * 3, **{"cluster-node-timeout": 60000, "cluster-databases": COUNT, "appendonly": "yes", "databases": 3})
        cls.addClassCleanup(cls.cluster.discard)
        cls.cluster.form(2)
        cls.ids = [node.id for node in cls.cluster.nodes]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def setUp(self):
        for node in self.cluster.nodes[:2]:
            node.ask("CLUSTER", "SETSLOT", 0, "STABLE")
            node.ask("FLUSHALL")
        self.first, self.second = self.client(0), self.client(1)

    def client(self, index):
        client = self.cluster.nodes[index].client()
        self.addCleanup(client.close)
        return client

    def epoch(self, client):
        return re.search(rb"cluster_current_epoch:(\d+)", bytes(client.call("CLUSTER", "INFO"))).group(1)

    def take_back(self):
        """Slot 0, of the second node, without its keys."""
        # Otherwise the first node may take an epoch that the second one has already, and the slot stays where it is.
        until(lambda: self.epoch(self.first) == self.epoch(self.second), 20, "both nodes know the last epoch")
        self.first.must("CLUSTER", "SETSLOT", 0, "IMPORTING", self.ids[1])
        self.first.must("CLUSTER", "SETSLOT", 0, "NODE", self.ids[0])
        until(lambda: is_moved(self.second), 20, "the slot is back")

    def make_cold(self, *keys):
        for db in range(COUNT):
            self.first.must("SELECT", db)
            self.first.must("TIER", "DEMOTE", *keys)
        self.first.must("SELECT", 0)

    def fill(self, each=5):
        for db in range(COUNT):
            self.first.must("SELECT", db)
            for number in range(each + db):
                self.first.must("SET", "k%d{%s}" % (number, TAG), "%d in %d" % (number, db))
        self.first.must("SELECT", 0)

    def test_select_takes_the_numbers_there_are(self):
        for number, reply in ((0, OK), (COUNT - 1, OK), (COUNT, RANGE), (-1, RANGE), (1 << 30, RANGE), ("x", Error(b"ERR value is not an integer or out of range"))):
            self.assertEqual(self.first.call("SELECT", number), reply)
        self.assertEqual(self.first.must("CONFIG", "GET", "cluster-databases"), [b"cluster-databases", b"%d" % COUNT])
        self.assertEqual(self.first.call("CONFIG", "SET", "cluster-databases", 2),
                         Error(b"ERR CONFIG SET failed (possibly related to argument 'cluster-databases') - can't set immutable config"))

    def test_keys_are_of_their_database(self):
        self.fill()
        self.make_cold(*("k%d{%s}" % (number, TAG) for number in range(0, 10, 2)))
        for db in range(COUNT):
            self.first.must("SELECT", db)
            self.assertEqual(self.first.must("CLUSTER", "COUNTKEYSINSLOT", 0), 5 + db)
            self.assertEqual(len(self.first.must("CLUSTER", "GETKEYSINSLOT", 0, 100)), 5 + db)
            self.assertEqual(len(self.first.must("CLUSTER", "GETKEYSINSLOT", 0, 3)), 3)
            self.assertEqual(self.first.must("DBSIZE"), 5 + db)
            self.assertEqual(len(self.first.must("SCAN", 0, "COUNT", 1000)[1]), 5 + db)
            self.assertEqual(self.first.must("GET", "k0{%s}" % TAG), b"0 in %d" % db)
            self.assertIn(b"db%d:keys=%d," % (db, 5 + db), self.first.must("INFO", "keyspace"))

    def test_the_slot_is_the_same_in_all(self):
        for db in range(COUNT):
            self.second.must("SELECT", db)
            self.assertTrue(bytes(self.second.call("GET", KEY)).startswith(b"MOVED 0 "))

    def test_move_and_copy_between_databases(self):
        self.first.must("SET", KEY, "v")
        self.make_cold(KEY)
        self.assertEqual(self.first.must("MOVE", KEY, 4), 1)
        self.assertEqual(self.first.must("MOVE", KEY, 4), 0)
        self.assertEqual(self.first.call("MOVE", KEY, COUNT), RANGE)
        self.first.must("SELECT", 4)
        self.make_cold(KEY)
        self.first.must("SELECT", 4)
        self.assertEqual(self.first.must("COPY", KEY, "other{06S}", "DB", 5), 1)
        self.assertEqual(self.first.must("COPY", KEY, KEY, "DB", 0), 1)
        self.assertEqual(self.first.call("COPY", KEY, KEY, "DB", COUNT), RANGE)
        self.assertTrue(bytes(self.first.call("COPY", KEY, "elsewhere", "DB", 0)).startswith(b"CROSSSLOT"))
        for db, key in ((0, KEY), (4, KEY), (5, "other{06S}")):
            self.first.must("SELECT", db)
            self.assertEqual(self.first.must("GET", key), b"v")

    def test_swapdb_is_refused(self):
        self.assertEqual(self.first.call("SWAPDB", 0, 1), Error(b"ERR SWAPDB is not allowed in cluster mode"))

    def test_a_node_is_empty_when_all_databases_are(self):
        self.first.must("SELECT", 3)
        self.first.must("SET", KEY, "v")
        self.make_cold(KEY)
        self.first.must("SELECT", 0)
        self.assertEqual(self.first.call("CLUSTER", "FLUSHSLOTS"), Error(b"ERR DB must be empty to perform CLUSTER FLUSHSLOTS."))
        self.assertEqual(self.first.call("CLUSTER", "RESET"), Error(b"ERR CLUSTER RESET can't be called with master nodes containing keys"))
        self.assertTrue(bytes(self.first.call("CLUSTER", "REPLICATE", self.ids[1])).startswith(b"ERR To set a master the node must be empty"))
        self.assertEqual(self.first.call("CLUSTER", "SETSLOT", 0, "NODE", self.ids[1]),
                         Error(b"ERR Can't assign hashslot 0 to a different node while I still hold keys for this hash slot."))

    def test_a_key_of_a_slot_that_moves_is_looked_for_in_its_database(self):
        self.first.must("SELECT", 2)
        self.first.must("SET", KEY, "v")
        self.make_cold(KEY)
        self.first.must("CLUSTER", "SETSLOT", 0, "MIGRATING", self.ids[1])
        self.assertTrue(bytes(self.first.call("GET", KEY)).startswith(b"ASK 0 "))
        self.first.must("SELECT", 2)
        self.assertEqual(self.first.must("GET", KEY), b"v")
        self.first.must("SELECT", 0)
        self.assertEqual([self.first.must("MULTI"), self.first.must("SELECT", 2), self.first.must("GET", KEY), self.first.must("EXEC")],
                         [OK, Status(b"QUEUED"), Status(b"QUEUED"), [OK, b"v"]])
        self.first.must("MULTI")
        self.first.must("SELECT", 3)
        self.assertTrue(bytes(self.first.call("GET", KEY)).startswith(b"ASK 0 "))
        self.assertTrue(bytes(self.first.call("EXEC")).startswith(b"EXECABORT"))

    def test_move_and_copy_wait_until_the_slot_has_moved(self):
        self.first.must("SET", KEY, "v")
        self.first.must("CLUSTER", "SETSLOT", 0, "MIGRATING", self.ids[1])
        self.second.must("CLUSTER", "SETSLOT", 0, "IMPORTING", self.ids[0])
        self.second.must("ASKING")
        self.assertEqual(self.second.must("SET", KEY, "w"), OK)
        for client in (self.first, self.second):
            for words in (["MOVE", KEY, 1], ["COPY", KEY, KEY, "DB", 1], ["COPY", KEY, KEY, "db", 0, "DB", 1, "REPLACE"]):
                client.must("ASKING")
                self.assertEqual(client.call(*words), AGAIN)
            client.must("ASKING")
            self.assertEqual(client.call("COPY", KEY, KEY, "DB", 0), Error(b"ERR source and destination objects are the same"))
        self.assertTrue(bytes(self.second.call("MOVE", KEY, 1)).startswith(b"MOVED 0 "))
        self.first.must("MULTI")
        self.assertEqual(self.first.call("MOVE", KEY, 1), AGAIN)
        self.assertTrue(bytes(self.first.call("EXEC")).startswith(b"EXECABORT"))
        self.assertTrue(bytes(self.first.call("EVAL", "return redis.call('MOVE', KEYS[1], 1)", 1, KEY)).startswith(b"ERR Script attempted to access a non local key"))
        self.assertEqual(self.first.must("GET", KEY), b"v")
        self.second.must("ASKING")
        self.assertEqual(self.second.must("DEL", KEY), 1)
        self.second.must("CLUSTER", "SETSLOT", 0, "STABLE")

    def test_keys_go_to_the_database_that_migrate_names(self):
        self.fill(2)
        self.make_cold("k0{%s}" % TAG)
        self.second.must("CLUSTER", "SETSLOT", 0, "IMPORTING", self.ids[0])
        self.first.must("CLUSTER", "SETSLOT", 0, "MIGRATING", self.ids[1])
        for db in range(COUNT):
            self.first.must("SELECT", db)
            keys = self.first.must("CLUSTER", "GETKEYSINSLOT", 0, 100)
            self.assertEqual(self.first.must("MIGRATE", "127.0.0.1", self.cluster.nodes[1].port, "", db, 5000, "KEYS", *keys), OK)
            self.second.must("SELECT", db)
            for number in range(2 + db):
                self.second.must("ASKING")
                self.assertEqual(self.second.must("GET", "k%d{%s}" % (number, TAG)), b"%d in %d" % (number, db))
        self.first.must("SELECT", 0)
        other = "key{%s}" % tags_in(range(1, 8000), 1)[0]
        self.first.must("SET", other, 1)
        reply = self.first.call("MIGRATE", "127.0.0.1", self.cluster.nodes[1].port, other, COUNT, 5000)
        self.assertEqual(reply, Error(b"ERR Target instance replied with error: ERR DB index is out of range"))
        self.assertEqual(self.first.must("GET", other), b"1")
        for index in (1, 0):
            self.cluster.nodes[index].ask("CLUSTER", "SETSLOT", 0, "NODE", self.ids[1])
        until(lambda: is_moved(self.first), 20, "the slot has left")
        self.take_back()

    def test_replicas_and_restarts_keep_all_databases(self):
        self.fill()
        self.make_cold("k1{%s}" % TAG)
        replica = self.client(2)
        replica.must("READONLY")
        self.assertEqual(self.first.must("WAIT", 1, 20000), 1)
        for db in range(COUNT):
            replica.must("SELECT", db)
            self.assertEqual((replica.must("DBSIZE"), replica.must("GET", "k1{%s}" % TAG)), (5 + db, b"1 in %d" % db))
        self.cluster.nodes[0].kill9()
        self.cluster.nodes[0].start()
        self.cluster.wait_agreed()
        self.first = self.client(0)
        for db in range(COUNT):
            self.first.must("SELECT", db)
            self.assertEqual((self.first.must("DBSIZE"), self.first.must("GET", "k1{%s}" % TAG)), (5 + db, b"1 in %d" % db))

    def test_a_lost_slot_is_emptied_in_all_databases(self):
        self.fill()
        self.make_cold("k1{%s}" % TAG, "k2{%s}" % TAG)
        self.second.must("CLUSTER", "SETSLOT", 0, "IMPORTING", self.ids[0])
        self.second.must("CLUSTER", "SETSLOT", 0, "NODE", self.ids[1])
        for db in range(COUNT):
            self.first.must("SELECT", db)
            until(lambda: self.first.must("CLUSTER", "COUNTKEYSINSLOT", 0) == 0, 20, "no key is left in database %d" % db)
        self.take_back()


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class SettingTest(unittest.TestCase):
    def start(self, **options):
        node = Node("kelvin", {name.replace("_", "-"): value for name, value in options.items()})
        self.addCleanup(node.discard)
        return node

    def test_one_database_is_the_default(self):
        with self.start().client() as client:
            self.assertEqual(client.must("CONFIG", "GET", "cluster-databases"), [b"cluster-databases", b"1"])
            self.assertEqual(client.call("SELECT", 1), Error(b"ERR SELECT is not allowed in cluster mode"))
            self.assertEqual(client.call("MOVE", "k", 1), Error(b"CLUSTERDOWN Hash slot not served"))

    def test_numbers_that_are_none(self):
        for number in (0, -1, "x", 1 << 40):
            with self.assertRaises(StartFailed):
                self.start(cluster_databases=number)

    def test_it_can_be_raised_and_not_lowered_below_the_data(self):
        node = self.start(cluster_databases=3, appendonly="yes")
        with node.client() as client:
            client.must("CLUSTER", "ADDSLOTSRANGE", 0, SLOT_COUNT - 1)
            until(lambda: b"cluster_state:ok" in client.must("CLUSTER", "INFO"), 20, "it serves")
            client.must("SELECT", 2)
            client.must("SET", "k", "v")
            client.must("TIER", "DEMOTE", "k")
        node.options["cluster-databases"] = 5
        node.restart()
        with node.client() as client:
            until(lambda: b"cluster_state:ok" in client.must("CLUSTER", "INFO"), 20, "it serves")
            client.must("SELECT", 2)
            self.assertEqual(client.must("GET", "k"), b"v")
            self.assertEqual(client.must("SELECT", 4), OK)
        node.terminate()
        node.options["cluster-databases"] = 2
        with self.assertRaises(StartFailed) as failure:
            node.start()
        self.assertIn("databases", str(failure.exception))
        self.assertNotIn("CHECK", str(failure.exception))


if __name__ == "__main__":
    main()
