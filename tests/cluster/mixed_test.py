#!/usr/bin/python3
"""Clusters of six nodes, primaries of one kind and replicas of the other: creation, failures, elections, manual failovers, restarts, exchange in place."""
import os
import random
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import Writers, silent, slot_of, slots_in
from support.cluster_case import ClusterCase, Error, main, only


class MixedTest(ClusterCase):
    options = {"appendonly": "yes"}

    def shard(self, cluster):
        """(a primary, its replica)"""
        primary = cluster.nodes[0]
        return primary, cluster.replicas_of(primary)[0]

    def writers(self, cluster, replicas=1):
        writers = Writers(cluster, replicas=replicas)
        self.addCleanup(writers.__exit__)
        writers.wait_for(20)
        return writers

    def settle(self, cluster, writers):
        """All agree, the writers go on, nothing that counts is lost, and replicas have what their primaries have."""
        cluster.wait_agreed()
        cluster.wait_synced()
        writers.wait_for(20)
        writers.check()
        self.assertGreater(cluster.check_replicas(), 50)

    def scenario_created_by_redis_cli(self):
        cluster = self.shared()
        cluster.check()
        view = cluster.nodes[0].view()
        self.assertEqual(sum(slots_in(line.slots) for line in view.values()), 16384)
        self.assertEqual(sorted(len(cluster.replicas_of(node)) for node in cluster.nodes[:3]), [1, 1, 1])
        self.assertIn("[OK] 0 keys in 3 masters.", cluster.cli("info", cluster.nodes[0].name))
        self.assertEqual(cluster.cli("call", cluster.nodes[0].name, "PING").count("PONG"), 6)
        ranges = [sorted(row[:2] + [row[2][2]] for row in node.ask("CLUSTER", "SLOTS")) for node in cluster.nodes]
        self.assertEqual(ranges, ranges[:1] * 6)
        self.assertEqual({node.ask("CLUSTER", "KEYSLOT", "a{foo}b") for node in cluster.nodes}, {slot_of("foo")})

    def scenario_clients_are_redirected(self):
        cluster = self.shared()
        client = self.client(cluster)
        for number in range(100):
            client.must("SET", "key:%d" % number, number)
        cluster.wait_synced()
        for number in (3, 50, 99):
            key = "key:%d" % number
            owner = cluster.owner_of(slot_of(key))
            self.assertEqual(owner.ask("GET", key), b"%d" % number)
            for node in cluster.nodes:
                with node.client() as direct:
                    reply = direct.call("GET", key)
                    if node is not owner:
                        self.assertEqual(bytes(reply), b"MOVED %d %s" % (slot_of(key), owner.name.encode()))
                    direct.must("READONLY")
                    if node.myself().primary == owner.id:
                        self.assertEqual(direct.call("GET", key), b"%d" % number)
                        self.assert_error(direct.call("SET", key, 0), "MOVED %d %s" % (slot_of(key), owner.name))
                        direct.must("READWRITE")
                        self.assert_error(direct.call("GET", key), "MOVED")
        with cluster.nodes[0].client() as direct:
            self.assert_error(direct.call("MGET", "a", "b"), "CROSSSLOT")
            self.assert_error(direct.call("SELECT", 1), "SELECT is not allowed in cluster mode")
        self.assertEqual(client.must("MGET", "{key:3}x", "{key:3}y"), [None, None])
        self.assertEqual(len(cluster.keys()), 100)
        self.assertEqual(cluster.check_replicas(), 100)

    def scenario_messages_go_to_all_nodes(self):
        """PUBLISH over the bus; SPUBLISH to the nodes of the slot's shard only."""
        cluster = self.shared()
        subscribers = [self.connect(node) for node in cluster.nodes]
        for subscriber in subscribers:
            subscriber.must("SUBSCRIBE", "news")
        for number, node in enumerate(cluster.nodes):
            node.ask("PUBLISH", "news", number)
            for subscriber in subscribers:
                self.assertEqual(subscriber.receive(), [b"message", b"news", b"%d" % number])
        owner = cluster.owner_of(slot_of("shard-news"))
        replica = cluster.replicas_of(owner)[0]
        listeners = [self.connect(owner), self.connect(replica)]
        for listener in listeners:
            listener.must("SSUBSCRIBE", "shard-news")
        other = next(node for node in cluster.nodes[:3] if node is not owner)
        with other.client() as client:
            self.assert_error(client.call("SSUBSCRIBE", "shard-news"), "MOVED")
            self.assert_error(client.call("SPUBLISH", "shard-news", "x"), "MOVED")
        for number, node in enumerate([owner, replica]):
            node.ask("SPUBLISH", "shard-news", number)
            for listener in listeners:
                self.assertEqual(listener.receive(), [b"smessage", b"shard-news", b"%d" % number])

    def scenario_primary_is_killed_and_comes_back(self):
        cluster = self.shared()
        primary, replica = self.shard(cluster)
        writers = self.writers(cluster)
        others = [node for node in cluster.nodes if node is not primary]
        identity = primary.id
        primary.kill9()
        cluster.wait(replica.is_primary, "the replica has taken over")
        cluster.wait_agreed(others, ignore_flags=True)
        cluster.wait(lambda: all("fail" in node.view()[identity].flags for node in others), "all know that it failed")
        writers.wait_for(20)
        primary.start()
        cluster.wait(lambda: primary.myself().primary == replica.id, "the old primary is a replica of the new one")
        self.assertEqual(primary.id, identity)
        self.settle(cluster, writers)

    def scenario_primary_is_stopped_and_continues(self):
        """It still believes that it has its slots: what it accepts then is not confirmed by a replica."""
        cluster = self.shared()
        primary, replica = self.shard(cluster)
        writers = self.writers(cluster)
        with silent(primary):
            cluster.wait(replica.is_primary, "the replica has taken over")
            writers.wait_for(20)
        cluster.wait(lambda: primary.myself().primary == replica.id, "the old primary is a replica of the new one")
        self.settle(cluster, writers)

    def scenario_replica_is_killed_and_comes_back(self):
        cluster = self.shared()
        primary, replica = self.shard(cluster)
        writers = self.writers(cluster, replicas=0)
        identity = replica.id
        replica.kill9()
        cluster.wait(lambda: all("fail" in node.view()[identity].flags for node in cluster.alive()), "all know that it failed")
        writers.wait_for(20)
        replica.start()
        cluster.wait(lambda: replica.myself().primary == primary.id, "it is a replica again")
        self.settle(cluster, writers)

    def scenario_manual_failover_there_and_back(self):
        """Without force nothing at all is lost: the old primary holds writes until the replica has everything."""
        cluster = self.shared()
        primary, replica = self.shard(cluster)
        writers = self.writers(cluster, replicas=0)
        for old, new in ((primary, replica), (replica, primary)):
            cluster.failover(new)
            cluster.wait(lambda old=old, new=new: old.myself().primary == new.id, "the old primary follows")
            cluster.wait_agreed()
            cluster.wait_synced()
            writers.wait_for(20)
        self.settle(cluster, writers)

    def scenario_forced_failover_and_takeover(self):
        """FORCE does not wait for the primary, TAKEOVER not even for votes."""
        cluster = self.shared()
        primary, replica = self.shard(cluster)
        writers = self.writers(cluster)
        for word, old, new in (("FORCE", primary, replica), ("TAKEOVER", replica, primary)):
            epoch = old.myself().epoch
            cluster.failover(new, word)
            cluster.wait(lambda old=old, new=new: old.myself().primary == new.id, "the old primary follows")
            cluster.wait_agreed()
            cluster.wait_synced()
            self.assertGreater(new.myself().epoch, epoch)
            writers.wait_for(20)
        self.settle(cluster, writers)

    def scenario_nodes_restart(self):
        """ID, role, slots and epochs are those of nodes.conf, data that of the log. A node that is down for too long may have been replaced."""
        cluster = self.shared()
        writers = self.writers(cluster)
        identities = [node.id for node in cluster.nodes]
        for node in self.shard(cluster):
            node.restart()
            cluster.wait_agreed()
            cluster.wait_synced()
        self.assertEqual([node.id for node in cluster.nodes], identities)
        self.settle(cluster, writers)

    def scenario_all_nodes_restart_at_once(self):
        cluster = self.shared()
        client = self.client(cluster)
        for number in range(200):
            client.must("SET", "key:%d" % number, number)
        cluster.wait_synced()
        before = cluster.nodes[0].view()
        for node in cluster.nodes:
            node.kill9() if node.kind == "kelvin" else node.terminate()
        for node in cluster.nodes:
            node.start()
        cluster.wait_agreed()
        cluster.wait_synced()
        after = cluster.nodes[0].view()
        self.assertEqual(set(after), set(before))
        self.assertEqual(len(cluster.keys()), 200)
        for number in range(200):
            self.assertEqual(client.must("GET", "key:%d" % number), b"%d" % number)

    @only("redis-kelvin")
    def scenario_exchanged_in_place(self):
        """A shard of redis-servers becomes one of Kelvins, and redis-servers again: each node starts as the other kind in the directory of the old one,
        with its nodes.conf, first as a replica. Writers go on, and nothing is lost."""
        cluster = self.own(["redis"] * 6)
        cluster.create()
        identities = {node.id for node in cluster.nodes}
        writers = self.writers(cluster, replicas=0)
        primary, replica = self.shard(cluster)
        for kind in ("kelvin", "redis"):
            for node, other in ((replica, primary), (primary, replica)):
                if node.is_primary():
                    cluster.failover(other)
                    cluster.wait_agreed()
                    cluster.wait_synced()
                self.assertEqual(node.terminate(), 0)
                node.become(kind)
                cluster.wait_agreed()
                cluster.wait_synced()
                self.assertEqual(node.myself().primary, other.id)
                writers.wait_for(20)
            self.assertEqual((primary.kind, replica.kind), (kind, kind))
        self.assertEqual({node.id for node in cluster.nodes}, identities)
        self.settle(cluster, writers)

    def scenario_hostile_bytes_at_the_bus(self):
        """The port has no password. Whatever arrives there ends no Kelvin, and does not change the cluster. Redis 7.2.6 crashes."""
        cluster = self.shared()
        if not any(node.kelvin for node in cluster.nodes):
            self.skipTest("there is no Kelvin")
        before = cluster.nodes[0].view()
        chance = random.Random(24)
        for node in (node for node in cluster.nodes if node.kelvin):
            for size in (0, 1, 7, 8, 100, 2256, 5000):
                self.send_to_bus(node, chance.randbytes(size))
            for length in (0, 15, 16, 2255, 2256, 1 << 20, 0xFFFFFFFF):
                for kind in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 200):
                    header = b"RCmb" + length.to_bytes(4, "big") + b"\0\1" + node.port.to_bytes(2, "big") + kind.to_bytes(2, "big") + b"\xff\xff"
                    self.send_to_bus(node, header + chance.randbytes(min(length, 4000)))
        cluster.wait_agreed()
        after = cluster.nodes[0].view()
        self.assertEqual({line.id: line.slots for line in after.values()}, {line.id: line.slots for line in before.values()})
        self.assertEqual(len(cluster.alive()), 6)

    def send_to_bus(self, node, data):
        with socket.create_connection(("127.0.0.1", node.bus_port), timeout=20) as link:
            try:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                while link.recv(1 << 16):
                    pass
            except OSError:
                pass

    def scenario_shard_without_replica_is_down(self):
        """With the primary and its replica gone the cluster refuses requests, also to other slots, and replies again when they are back."""
        cluster = self.shared()
        client = self.client(cluster)
        primary, replica = self.shard(cluster)
        key = "{%s}" % next("k%d" % at for at in range(1000) if cluster.owner_of(slot_of("k%d" % at)) is not primary)
        client.must("SET", key, "here")
        replica.kill9()
        primary.kill9()
        others = cluster.alive()
        cluster.wait(lambda: all(node.state()["cluster_state"] == "fail" for node in others), "all say that the cluster is down")
        owner = cluster.owner_of(slot_of(key))
        with owner.client() as direct:
            self.assert_error(direct.call("GET", key), "CLUSTERDOWN")
        primary.start()
        replica.start()
        cluster.wait_agreed()
        cluster.wait_synced()
        self.assertEqual(client.must("GET", key), b"here")

    def scenario_replica_of_a_stopped_majority_is_not_elected(self):
        """Two of three primaries stand still: no replica can be elected, and the third one says that the cluster is down."""
        cluster = self.shared()
        last = cluster.nodes[2]
        replica = cluster.replicas_of(cluster.nodes[0])[0]
        with silent(cluster.nodes[0]), silent(cluster.nodes[1]):
            cluster.wait(lambda: last.state()["cluster_state"] == "fail", "the minority refuses requests")
            self.assertFalse(replica.is_primary())
            with last.client() as client:
                self.assertIsInstance(client.call("GET", "{06S}"), Error)
        cluster.wait_agreed()
        cluster.wait_synced()
        self.assertEqual(bytes(self.client(cluster).must("SET", "key", "value")), b"OK")


if __name__ == "__main__":
    main()
