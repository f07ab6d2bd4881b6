#!/usr/bin/python3
"""CLUSTERX MIGRATE: slots go with their keys between Kelvins whose controller is the test, under writers. Both ends are killed at every step, replicas are promoted at any time, and
topologies come before, while and after slots move. No acknowledged write is lost, and no two nodes serve a slot."""
import errno
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import disk as disks
from support.cluster import ClusterClient, Writers, silent, tags_in
from support.managed import OK, ManagedCluster, node_id
from support.replication.case import main
from support.resp import Error, encode
from support.server import is_redis, until

FIRST, LAST = 0, 399
RANGE = "%d-%d" % (FIRST, LAST)
MOVED = tags_in(range(FIRST, LAST + 1), 12)
KEY = "one{%s}" % MOVED[0]
RESTS = "%d-8191" % (LAST + 1)                          # of node 0, after a migration of RANGE to node 1
TWO = [([0], "0-8191"), ([1], "8192-16383")]
TWO_AFTER = [([0], RESTS), ([1], RANGE + " 8192-16383")]
FOUR = [([0, 2], "0-8191"), ([1, 3], "8192-16383")]
LOG = {"appendonly": "yes", "appendfsync": "always"}


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ManagedMoveTest(unittest.TestCase):
    maxDiff = 4000

    def cluster(self, count, shards, **options):
        cluster = ManagedCluster(count, **{**LOG, **options})
        self.addCleanup(self.end, cluster)
        cluster.publish(shards)
        return cluster

    @staticmethod
    def end(cluster):
        try:
            cluster.stop()
        finally:
            cluster.discard()

    def fill(self, cluster, count=1000, size=50):
        with cluster.client() as client:
            for tag in MOVED:
                client.must("MSET", *(word for number in range(count) for word in ("fill:%d{%s}" % (number, tag), "x" * size)))

    def writers(self, cluster, **options):
        writers = Writers(cluster, tags=MOVED, **options)
        self.addCleanup(writers.__exit__)
        return writers

    def refused(self, reply, text):
        self.assertIsInstance(reply, Error)
        self.assertIn(text, bytes(reply).decode())

    def served_by(self, cluster, index):
        """One node serves the slots, soon."""
        cluster.wait(lambda: cluster.servers_of(KEY) == [index], "node %d alone serves the slots" % index, 60)

    def settled(self, cluster, keys):
        """One of the first two nodes serves the slots, has all the keys, and the other one has none. Returns it."""
        cluster.wait(lambda: len(cluster.servers_of(KEY)) == 1, "one node serves the slots", 60)
        owner, = cluster.servers_of(KEY)
        until(lambda: cluster.keys_in(1 - owner, FIRST, LAST) == 0, 60, "the other one has no keys")
        self.assertGreaterEqual(cluster.keys_in(owner, FIRST, LAST), keys)
        return owner

    def await_killed(self, node):
        self.assertIsNotNone(node.wait_end())
        node.was_killed = True

    # Without faults

    def test_slots_go_with_their_keys_and_topologies_come_before_and_after(self):
        cluster = self.cluster(3, [([0], "0-8191"), ([1], "8192-12000"), ([2], "12001-16383")])
        self.fill(cluster)
        self.assertIsNone(cluster.migration(0))
        with cluster.nodes[0].client(timeout=60) as client:
            client.must("TIER", "DEMOTE", *client.must("KEYS", "fill:*")[::2])
        writers = self.writers(cluster)
        writers.wait_for(20)
        self.assertEqual(cluster.begin(0, 1, RANGE, "SYNC"), OK)
        self.assertEqual(cluster.migration(0), ("success", RANGE, node_id(1).decode()))
        self.assertEqual(cluster.nodes[0].state()["migrating_slot"].strip(), RANGE)
        self.assertIsNone(cluster.migration(1))
        self.served_by(cluster, 1)
        with cluster.nodes[0].client() as source, cluster.nodes[2].client() as other:
            self.refused(source.call("SET", KEY, 1), "MOVED")
            self.assertIn(b":%d" % cluster.nodes[1].port, source.call("SET", KEY, 1))
            self.assertIn(b":%d" % cluster.nodes[0].port, other.call("SET", KEY, 1))       # as the topology says
            self.refused(cluster.begin(0, 1, "5"), "Can't migrate slot which has been migrated")
            self.refused(cluster.begin(1, 0, "5"), "Can't migrate slot which has been migrated")
        self.assertIn(b" %s 8192-12000\n" % RANGE.encode(), cluster.nodes[1].ask("CLUSTER", "NODES"))
        writers.wait_for(20)
        cluster.publish()                                       # for another reason
        self.served_by(cluster, 1)
        writers.wait_for(20)
        for node in cluster.nodes[:2]:
            node.kill9()
            node.start()
        self.assertEqual(cluster.migration(0), ("success", RANGE, node_id(1).decode()))    # the controller may not have asked yet
        self.served_by(cluster, 1)
        cluster.publish([([0], RESTS), ([1], RANGE + " 8192-12000"), ([2], "12001-16383")])
        self.served_by(cluster, 1)
        self.assertIsNone(cluster.migration(0))
        until(lambda: cluster.keys_in(0, FIRST, LAST) == 0, 60, "the keys are removed")
        self.assertGreaterEqual(cluster.keys_in(1, FIRST, LAST), 1000 * len(MOVED))
        writers.wait_for(20)
        self.assertEqual(cluster.migrate(1, 0, RANGE), "success")      # and back
        cluster.publish([([0], "0-8191"), ([1], "8192-12000"), ([2], "12001-16383")])
        self.served_by(cluster, 0)
        writers.wait_for(20)
        self.assertEqual(writers.redirections["ASK"] + writers.redirections["TRYAGAIN"], 0)
        writers.check()

    def test_two_migrations_before_a_topology(self):
        """The log of the target is synced for it, also if it would not be otherwise."""
        cluster = self.cluster(2, TWO, appendfsync="no")
        self.fill(cluster, 10)
        self.assertEqual(cluster.migrate(0, 1, "0-199"), "success")
        self.assertEqual(cluster.migrate(0, 1, "200-399"), "success")
        self.assertEqual(cluster.migrate(1, 0, "16000"), "success")
        cluster.publish()
        for node in cluster.nodes:
            self.assertIn(b" 400-8191 16000\n", node.ask("CLUSTER", "NODES"))
        cluster.publish([([0], RESTS), ([1], RANGE + " 8192-16383")])
        for node in cluster.nodes:
            self.assertIn(b" 400-8191 16000\n", node.ask("CLUSTER", "NODES"))
        cluster.publish([([0], RESTS + " 16000"), ([1], RANGE + " 8192-15999 16001-16383")])
        self.served_by(cluster, 1)
        self.assertEqual(cluster.keys_in(1, FIRST, LAST), 10 * len(MOVED))

    def test_what_is_refused(self):
        cluster = self.cluster(3, [([0], "0-8191"), ([1], "8192-16383"), ([0, 2], "0-8191")][:2])
        for words, error in (
                (("5", node_id(7)), "Can't find the destination node id"), (("8192", node_id(1)), "Can't migrate slot which doesn't belong to me"),
                (("8191-8192", node_id(1)), "Can't migrate slot which doesn't belong to me"), (("5", node_id(0)), "Can't migrate slot to myself"),
                (("5", node_id(2)), "Can't find the destination node id"), (("x", node_id(1)), "Invalid slot range"), (("5-4", node_id(1)), "Invalid slot range"),
                (("5", node_id(1), "NOW"), "Invalid sync flag"), (("5", node_id(1), "ASYNC", "1"), "Async migration does not support timeout"),
                (("5", node_id(1), "SYNC", "x"), "timeout is not an integer or out of range"), (("5", node_id(1), "SYNC", "-1"), "timeout is negative"),
                (("5", node_id(1), "SYNC", "1", "2"), "wrong number of arguments"), (("5",), "wrong number of arguments")):
            with cluster.nodes[0].client() as client:
                self.refused(client.call("CLUSTERX", "MIGRATE", *words), error)
        cluster.publish([([0, 2], "0-8191"), ([1], "8192-16383")])
        self.refused(cluster.begin(0, 2, "5"), "Can't migrate slot to a slave")
        self.refused(cluster.begin(2, 1, "5"), "Slave can't migrate slot")
        self.assertIsNone(cluster.migration(0))

    def test_one_at_a_time_and_sync_ends_with_the_time(self):
        cluster = self.cluster(2, TWO)
        with silent(cluster.nodes[1]):
            self.assertEqual(cluster.begin(0, 1, "5"), OK)
            self.assertEqual(cluster.migration(0)[:2], ("start", "5"))
            self.refused(cluster.begin(0, 1, "6"), "There is already a migrating job")
        self.assertEqual(cluster.wait_migrated(0), "success")
        with silent(cluster.nodes[1]):
            self.assertIsNone(cluster.begin(0, 1, "7", "SYNC", 1))
        cluster.wait_migrated(0)
        cluster.nodes[1].kill9()
        self.refused(cluster.begin(0, 1, "8", "SYNC", 60), "the other node can't be connected to")
        self.assertEqual(cluster.migration(0)[:2], ("fail", "8"))
        cluster.nodes[1].start()
        self.assertEqual(cluster.begin(0, 1, "8", "sync", 60), OK)

    # Topologies meanwhile

    def test_slots_are_given_in_one_version_of_the_topology(self):
        """The controller reaches the target first: the source waits for the same version."""
        cluster = self.cluster(2, TWO)
        self.fill(cluster, 10)
        cluster.publish(to=[1])
        self.assertEqual(cluster.begin(0, 1, RANGE), OK)
        cluster.wait(lambda: cluster.keys_in(1, FIRST, LAST) == 10 * len(MOVED), "all is copied", 60)
        self.served_by(cluster, 0)
        self.assertEqual(cluster.migration(0)[0], "start")
        cluster.send(0, cluster.version)
        self.assertEqual(cluster.wait_migrated(0), "success")
        self.served_by(cluster, 1)

    def test_a_topology_takes_the_slots_away_meanwhile(self):
        """From the source: it has nothing to give. Or it replaces the source by its replica: nothing was given."""
        cluster = self.cluster(4, [([0, 3], "0-8191"), ([1], "8192-12000"), ([2], "12001-16383")])
        self.fill(cluster, 10)
        cluster.wait_synced()
        cluster.publish(to=[1])
        self.assertEqual(cluster.begin(0, 1, RANGE), OK)
        cluster.wait(lambda: cluster.keys_in(1, FIRST, LAST) == 10 * len(MOVED), "all is copied", 60)
        cluster.publish([([3, 0], "0-8191"), ([1], "8192-12000"), ([2], "12001-16383")])
        self.served_by(cluster, 3)
        self.assertEqual(cluster.keys_in(3, FIRST, LAST), 10 * len(MOVED))
        until(lambda: cluster.keys_in(1, FIRST, LAST) == 0, 60, "what was received is removed")
        cluster.wait_synced()
        cluster.publish(to=[1])
        self.assertEqual(cluster.begin(3, 1, RANGE), OK)
        cluster.wait(lambda: cluster.keys_in(1, FIRST, LAST) == 10 * len(MOVED), "all is copied", 60)
        cluster.publish([([3, 0], RESTS), ([1], "8192-12000"), ([2], RANGE + " 12001-16383")])
        self.served_by(cluster, 2)
        self.assertEqual(cluster.wait_migrated(3), "fail")
        until(lambda: cluster.keys_in(1, FIRST, LAST) + cluster.keys_in(3, FIRST, LAST) == 0, 60, "the keys are removed")

    def test_force_is_the_last_word(self):
        cluster = self.cluster(2, TWO)
        self.assertEqual(cluster.migrate(0, 1, RANGE), "success")
        self.served_by(cluster, 1)
        cluster.publish(force=True)
        self.served_by(cluster, 0)
        self.assertNotIn(b"moved", self.conf_of(cluster.nodes[0]) + self.conf_of(cluster.nodes[1]))

    @staticmethod
    def conf_of(node):
        with open(os.path.join(node.folder, "nodes.conf"), "rb") as file:
            return file.read()

    # Ends are killed

    def test_an_end_is_killed_at_each_save(self):
        """The target saves that it receives, and that it has taken; the source that the slots may be taken, and that they were. Who has them after that is in the
        files of the two, and a topology that comes first makes no difference."""
        for victim, save, action, owner in (
                (1, 1, disks.KILL_BEFORE, 0), (1, 1, disks.KILL_AFTER, 0), (1, 2, disks.KILL_BEFORE, 0), (1, 2, disks.KILL_AFTER, 1),
                (0, 1, disks.KILL_BEFORE, 0), (0, 1, disks.KILL_AFTER, 0), (0, 2, disks.KILL_BEFORE, 1), (0, 2, disks.KILL_AFTER, 1)):
            with self.subTest(victim=victim, save=save, action=action):
                cluster = self.cluster(2, TWO, disks=True)
                self.fill(cluster, 300)
                writers = self.writers(cluster)
                writers.wait_for(5)
                node = cluster.nodes[victim]
                node.disk.rule(0, "rename", "nodes.conf*", action, save, save)
                self.assertEqual(cluster.begin(0, 1, RANGE), OK)
                self.await_killed(node)
                node.disk.heal()
                if action == disks.KILL_AFTER:
                    cluster.publish()
                node.start()
                if action == disks.KILL_AFTER:
                    cluster.send(victim, cluster.version)
                self.assertEqual(self.settled(cluster, 300 * len(MOVED)), owner)
                if victim == 1:
                    self.assertEqual(cluster.wait_migrated(0), ("fail", "success")[owner])
                else:
                    self.assertEqual(cluster.migration(0) and cluster.migration(0)[0], {(1, disks.KILL_AFTER): "fail"}.get((save, action), (None, "success")[owner]))
                writers.wait_for(5)
                cluster.publish(TWO_AFTER if owner == 1 else TWO)
                self.served_by(cluster, owner)
                writers.check()
                cluster.stop()

    def test_an_end_is_killed_at_any_time(self):
        cluster = self.cluster(2, TWO)
        self.fill(cluster, 3000)
        writers = self.writers(cluster)
        chance = random.Random(os.environ.get("SEED"))
        for _ in range(int(os.environ.get("KELVIN_ROUNDS", 5))):
            source, = cluster.servers_of(KEY)
            victim = cluster.nodes[chance.choice((0, 1))]
            writers.wait_for(5)
            self.assertEqual(cluster.begin(source, 1 - source, RANGE), OK)
            time.sleep(chance.random() * 0.8)
            victim.kill9()
            victim.start()
            if chance.choice((True, False)):
                cluster.publish()
            owner = self.settled(cluster, 3000 * len(MOVED))
            cluster.wait(lambda: (cluster.migration(source) or ("none",))[0] != "start", "the migration has ended", 60)
            cluster.publish((TWO, TWO_AFTER)[owner])
            self.assertEqual(self.settled(cluster, 3000 * len(MOVED)), owner)
        writers.wait_for(5)
        writers.check()

    def test_all_calls_wait_while_the_outcome_is_not_known(self):
        """The target dies with TAKE; a start of the source changes nothing; then it says what it has done."""
        for action, owner in ((disks.KILL_BEFORE, 0), (disks.KILL_AFTER, 1)):
            cluster = self.cluster(2, TWO, disks=True)
            source, target = cluster.nodes
            source.ask("SET", KEY, "1")
            target.disk.rule(0, "rename", "nodes.conf*", action, 2, 2)
            self.assertEqual(cluster.begin(0, 1, RANGE), OK)
            self.await_killed(target)
            target.disk.heal()
            self.assertIn(b" handed ", self.conf_of(source))
            source.kill9()
            source.start()
            self.refused(cluster.begin(0, 1, "5000"), "There is already a migrating job")
            cluster.publish(to=[0])
            self.assertEqual(source.ask("CLUSTER", "COUNTKEYSINSLOT", LAST), 0)         # others do not wait
            with source.client(timeout=60) as client:
                client.send(encode(("APPEND", KEY, "2")))
                until(lambda: b"cmd=append" in source.ask("CLIENT", "LIST"), 20, "it waits")
                self.assertEqual(cluster.migration(0)[0], "start")
                target.start()
                reply = client.receive()
            if owner == 0:
                self.assertEqual(reply, 2)
            else:
                self.refused(reply, "MOVED")
            self.assertEqual(cluster.wait_migrated(0), ("fail", "success")[owner])
            cluster.send(1, cluster.version)
            self.served_by(cluster, owner)
            cluster.stop()

    def test_a_target_that_can_not_save_takes_nothing(self):
        cluster = self.cluster(2, TWO, disks=True)
        self.fill(cluster, 100)
        writers = self.writers(cluster)
        writers.wait_for(5)
        target = cluster.nodes[1]
        target.disk.rule(0, "sync write", "nodes.conf*", disks.FAIL, error=errno.ENOSPC, first=3)
        begun = cluster.begin(0, 1, RANGE)
        self.assertEqual(begun, OK)
        until(lambda: target.disk.acted > 0, 60, "the disk is full")
        writers_before = writers.count
        target.disk.heal()
        ended = cluster.wait_migrated(0)
        self.assertEqual(self.settled(cluster, 100 * len(MOVED)), int(ended == "success"))
        writers.wait_for(5)
        self.assertGreater(writers.count, writers_before)
        writers.check()

    # The controller fails an end over

    def shards_of_two(self, **options):
        """Two shards of two, and writers whose writes count once the replica has them."""
        cluster = self.cluster(4, FOUR, **options)
        self.fill(cluster, 300)
        cluster.wait_synced()
        writers = self.writers(cluster, replicas=1)
        writers.wait_for(5)
        return cluster, writers

    def test_a_replica_of_the_source_goes_on_with_what_it_has_heard(self):
        """The source dies after it has let the target take the slots, or when it knows that it has: its replica does not serve what the target has."""
        for target_save, source_save, action in ((disks.KILL_BEFORE, None, None), (disks.KILL_AFTER, None, None), (None, 2, disks.KILL_AFTER), (None, 2, disks.KILL_BEFORE)):
            with self.subTest(target_save=target_save, source_save=source_save, action=action):
                cluster, writers = self.shards_of_two(disks=True)
                source, target = cluster.nodes[:2]
                if target_save:
                    target.disk.rule(0, "rename", "nodes.conf*", target_save, 2, 2)
                else:
                    source.disk.rule(0, "rename", "nodes.conf*", action, source_save, source_save)
                self.assertEqual(cluster.begin(0, 1, RANGE), OK)
                if target_save:
                    self.await_killed(target)
                    target.disk.heal()
                    source.kill9()
                else:
                    self.await_killed(source)
                cluster.publish([([2, 0], "0-8191"), ([1, 3], "8192-16383")])
                if target_save:
                    with cluster.nodes[2].client() as client:           # it does not know
                        client.send(encode(("GET", KEY)))
                        until(lambda cluster=cluster: b"cmd=get" in cluster.nodes[2].ask("CLIENT", "LIST"), 20, "it waits")
                    target.start()
                    cluster.send(1, cluster.version)
                owner = 2 if target_save == disks.KILL_BEFORE else 1
                self.served_by(cluster, owner)
                if owner == 1:
                    cluster.wait(lambda cluster=cluster: cluster.migration(2)[0] == "success", "it has asked", 20)
                    until(lambda cluster=cluster: cluster.keys_in(2, FIRST, LAST) == 0, 60, "the keys are removed")
                source.disk.heal()
                source.start()
                cluster.send(0, cluster.version)
                self.served_by(cluster, owner)
                cluster.wait_synced()
                writers.wait_for(5)
                writers.check()
                cluster.stop()

    def test_a_replica_of_the_target_is_asked_if_that_has_died(self):
        """It has the slots if it has heard so, as its primary's data; else the source has kept the keys."""
        for save, action in ((1, disks.KILL_AFTER), (2, disks.KILL_BEFORE), (2, disks.KILL_AFTER)):
            with self.subTest(save=save, action=action):
                cluster, writers = self.shards_of_two(disks=True)
                target = cluster.nodes[1]
                target.disk.rule(0, "rename", "nodes.conf*", action, save, save)
                self.assertEqual(cluster.begin(0, 1, RANGE), OK)
                self.await_killed(target)
                cluster.publish([([0, 2], "0-8191"), ([3, 1], "8192-16383")])
                self.served_by(cluster, 0)
                self.assertEqual(cluster.wait_migrated(0), "fail")
                writers.wait_for(5)
                target.disk.heal()
                cluster.nodes[1].start()
                cluster.send(1, cluster.version)
                self.served_by(cluster, 0)
                cluster.wait_synced()
                self.assertEqual(cluster.migrate(0, 3, RANGE), "success")       # in place of what is left of the first one
                self.served_by(cluster, 3)
                cluster.publish([([0, 2], RESTS), ([3, 1], RANGE + " 8192-16383")])
                writers.wait_for(5)
                writers.check()
                cluster.stop()

    def test_either_end_is_replaced_after_the_migration(self):
        """Before the controller knows of it."""
        cluster, writers = self.shards_of_two()
        self.assertEqual(cluster.migrate(0, 1, RANGE), "success")
        writers.wait_for(5)
        cluster.nodes[0].kill9()
        cluster.publish([([2, 0], "0-8191"), ([1, 3], "8192-16383")])
        self.served_by(cluster, 1)
        cluster.wait(lambda: cluster.migration(2) == ("success", RANGE, node_id(1).decode()), "it knows it, or has asked", 20)
        cluster.nodes[0].start()
        cluster.send(0, cluster.version)
        cluster.wait_synced()
        cluster.nodes[1].kill9()
        cluster.publish([([2, 0], "0-8191"), ([3, 1], "8192-16383")])
        self.served_by(cluster, 3)
        cluster.nodes[1].start()
        cluster.send(1, cluster.version)
        cluster.wait_synced()
        writers.wait_for(5)
        cluster.publish([([2, 0], RESTS), ([3, 1], RANGE + " 8192-16383")])
        self.served_by(cluster, 3)
        until(lambda: cluster.keys_in(2, FIRST, LAST) == 0, 60, "the keys are removed")
        writers.wait_for(5)
        writers.check()
        self.assertGreater(cluster.check_replicas(), 300 * len(MOVED))

    def test_a_replica_that_would_not_know_of_it_is_a_reason_to_give_up(self):
        cluster, writers = self.shards_of_two()
        with silent(cluster.nodes[2]):
            self.assertEqual(cluster.migrate(0, 1, RANGE), "fail")
            self.assertEqual(cluster.nodes[0].ask("CLUSTER", "GETSLOTMIGRATIONS")[0][17], b"a replica of this node does not reply: it would not know that the slots are given away")
        self.served_by(cluster, 0)
        cluster.wait_synced()
        with silent(cluster.nodes[3]):
            self.assertEqual(cluster.migrate(0, 1, RANGE), "fail")
            self.assertEqual(cluster.nodes[0].ask("CLUSTER", "GETSLOTMIGRATIONS")[0][17], b"a replica of the other node does not reply: it would not have the slots if it were promoted")
        self.served_by(cluster, 0)
        cluster.wait_synced()
        self.assertEqual(cluster.migrate(0, 1, RANGE), "success")
        self.served_by(cluster, 1)
        writers.wait_for(5)
        writers.check()


if __name__ == "__main__":
    main()
