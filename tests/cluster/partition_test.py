#!/usr/bin/python3
"""Partitions of the network: six nodes on six machines (network namespaces), the router between them drops packets. Clients are on the router, and reach all
nodes on both sides. It takes root's rights and iproute2, and is skipped without."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import Cluster, Node, Writers, slot_of
from support.cluster_case import ClusterCase, Error, main
from support.machines import Network, why_not
from support.server import seed_new

ALONE = True                # has a limit of time
TIMEOUT_MS = 3000
# A primary that hears nothing sends its next PING within half the timeout, and suspects the others when it is unanswered for the timeout.
STOPS_WITHIN_S = 1.5 * TIMEOUT_MS / 1000 + 1
FLAPS = 8


class Machines(Cluster):
    """A node on each machine. A node's role in the network is its number."""

    def __init__(self, network, kinds, **options):
        self.network = network
        self.hosts = iter(network.addresses.items())
        super().__init__(kinds, **options)

    def make(self, kind, **options):
        role, address = next(self.hosts)
        return NodeElsewhere(kind, role, address, self.network, {name.replace("_", "-"): value for name, value in {**self.options, **options}.items()})


class NodeElsewhere(Node):
    def __init__(self, kind, role, address, network, options):
        self.role, self.host = role, address
        super().__init__(kind, {**options, "port": 6379, "bind": address, "protected-mode": "no"}, prefix=network.inside(role))

    @property
    def address(self):
        return (self.host, self.port)


class Prober(threading.Thread):
    """Writes to one node all the time, without following redirections, until it refuses a write. `refused_after_s`: since the thread began."""

    def __init__(self, node, key):
        super().__init__(daemon=True)
        self.node, self.key, self.refused_after_s, self.accepted = node, key, None, 0

    def run(self):
        began = time.monotonic()
        with self.node.client() as client:
            while not isinstance(client.call("SET", self.key, self.accepted), Error):
                self.accepted += 1
                time.sleep(0.01)
        self.refused_after_s = time.monotonic() - began


class PartitionTest(ClusterCase):
    options = {"appendonly": "yes", "cluster-node-timeout": TIMEOUT_MS}

    def setUp(self):
        reason = why_not()
        if reason is not None:
            self.skipTest(reason)

    def start(self):
        """The cluster, whose node i + 3 is the replica of node i, and writers."""
        self.network = Network([str(number) for number in range(6)])
        self.addCleanup(self.network.stop)
        self.network.start()
        cluster = Machines(self.network, self.kinds(), **self.options)
        self.addCleanup(lambda: cluster.stop() if self.has_passed else cluster.discard())
        cluster.form(3)
        writers = Writers(cluster, replicas=1)
        self.addCleanup(writers.__exit__)
        writers.wait_for(20)
        return cluster, writers

    def probe(self, node):
        first, last = node.myself().slots[0]
        prober = Prober(node, next("k%d" % at for at in range(100000) if first <= slot_of("k%d" % at) <= last))
        prober.start()
        return prober

    def check_stops(self, prober):
        prober.join(60)
        self.assertIsNotNone(prober.refused_after_s, "it accepts writes")
        self.assertGreater(prober.accepted, 0)
        self.assertLess(prober.refused_after_s, STOPS_WITHIN_S)

    def settle(self, cluster, writers):
        """All agree again, nothing that a replica had confirmed is lost, and primaries and replicas are equal key by key."""
        self.network.heal()
        cluster.wait_agreed()
        cluster.wait_synced()
        writers.wait_for(20)
        writers.check()
        cluster.check()
        self.assertGreater(cluster.check_replicas(), 50)
        self.assertEqual(len(cluster.primaries()), 3)

    def scenario_halves(self):
        """Two primaries and the replica of the third on one side."""
        cluster, writers = self.start()
        alone, replica = cluster.nodes[2], cluster.nodes[5]
        prober = self.probe(alone)
        self.network.part("015", "234")
        self.check_stops(prober)
        cluster.wait(replica.is_primary, "the majority has a new primary")
        self.assertTrue(alone.is_primary())                     # it can't know
        with alone.client() as client:
            self.assertIsInstance(client.call("GET", prober.key), Error)
        cluster.wait(lambda: cluster.agreed([cluster.nodes[at] for at in (0, 1, 5)], size=6, ignore_flags=True), "the majority serves")
        self.client(cluster).must("SET", prober.key, "new")
        self.settle(cluster, writers)
        self.assertFalse(alone.is_primary())
        self.assertEqual(self.client(cluster).must("GET", prober.key), b"new")

    def scenario_no_majority(self):
        """Each primary with another one's replica: no node is elected, and all stop. Afterwards all suspect all, and any may be replaced."""
        cluster, writers = self.start()
        probers = [self.probe(node) for node in cluster.nodes[:3]]
        self.network.part("04", "15", "23")
        for prober in probers:
            self.check_stops(prober)
        self.assertEqual([node.is_primary() for node in cluster.nodes], [True] * 3 + [False] * 3)
        self.settle(cluster, writers)

    def one_way(self, sources, targets):
        """A primary is replaced if the others do not hear it, and also if it does not hear them: it can't reply then."""
        cluster, writers = self.start()
        self.network.drop((sources, targets))
        cluster.wait(cluster.nodes[3].is_primary, "its replica takes over")
        writers.wait_for(20)
        self.settle(cluster, writers)
        self.assertFalse(cluster.nodes[0].is_primary())

    def scenario_primary_is_not_heard(self):
        self.one_way("0", "12345")

    def scenario_primary_hears_nothing(self):
        self.one_way("12345", "0")

    def scenario_node_flaps(self):
        """A primary is cut off, sometimes in one direction, and back, each time for less or more than it takes to replace it."""
        cluster, writers = self.start()
        seed = seed_new()
        print("seed %d" % seed, file=sys.stderr)
        chance = random.Random(seed)
        for _ in range(FLAPS):
            ways = chance.choice([[("0", "12345")], [("12345", "0")], [("0", "12345"), ("12345", "0")]])
            self.network.drop(*ways)
            time.sleep(chance.uniform(0.2, 2) * TIMEOUT_MS / 1000)
            self.network.heal()
            time.sleep(chance.uniform(0.1, 1) * TIMEOUT_MS / 1000)
        self.settle(cluster, writers)


if __name__ == "__main__":
    main()
