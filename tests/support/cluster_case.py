"""Scenarios that run in clusters of different mixtures.

    class FailoverTest(ClusterCase):
        def scenario_primary_is_killed(self):
            cluster = self.shared()
            ...

becomes test_primary_is_killed__kelvin_redis (primaries Kelvin, replicas redis-server), and so on. Scenarios of a class share one cluster for each
mixture, as long as it is as it was at the beginning; else a new one is made.

KELVIN_PAIRS    the mixtures to run, such as "kelvin-redis redis-kelvin"; all of the scenario's when unset
"""
import os
import unittest

from .cluster import Cluster, Error
from .replication.case import main, only
from .resp import Client
from .server import REDIS, is_redis, under_test

ALL_MIXTURES = ("kelvin-kelvin", "kelvin-redis", "redis-kelvin")


def mixtures_wanted(scenario):
    """With redis-server under test there is one mixture: are the tests right?"""
    if is_redis():
        return ["redis-redis"]
    wanted = (os.environ.get("KELVIN_PAIRS") or " ".join(ALL_MIXTURES)).split()
    return [mixture for mixture in getattr(scenario, "pairs", ALL_MIXTURES) if mixture in wanted]


class ClusterCase(unittest.TestCase):
    maxDiff = 4000
    primaries, replicas = 3, 1      # of the shared cluster: how many primaries, and how many replicas each
    options = {}                    # of all nodes
    primary_kind = replica_kind = "redis"
    has_passed = False

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        for name, scenario in list(vars(cls).items()):
            if name.startswith("scenario_"):
                for mixture in mixtures_wanted(scenario):
                    setattr(cls, "test_%s__%s" % (name[len("scenario_"):], mixture.replace("-", "_")), cls.for_mixture(scenario, *mixture.split("-")))

    @staticmethod
    def for_mixture(scenario, primary_kind, replica_kind):
        def test(self):
            self.primary_kind, self.replica_kind = primary_kind, replica_kind
            scenario(self)
            self.has_passed = True
        return test

    @classmethod
    def setUpClass(cls):
        cls.clusters = {}
        cls.addClassCleanup(cls.stop_all)

    @classmethod
    def stop_all(cls):
        for cluster in cls.clusters.values():
            cluster.stop()

    def kinds(self):
        return [self.primary_kind] * self.primaries + [self.replica_kind] * (self.primaries * self.replicas)

    def shared(self):
        """The cluster of this mixture, without keys, all views equal. A failed test leaves none."""
        mixture = self.primary_kind, self.replica_kind
        cluster = self.clusters.pop(mixture, None)
        if cluster and not self.is_as_new(cluster):
            cluster.stop()
            cluster = None
        if not cluster:
            cluster = Cluster(self.kinds(), **self.options)
            try:
                cluster.create(self.replicas)
            except BaseException:
                cluster.discard()
                raise
        self.addCleanup(self.give_back, cluster, mixture)
        return cluster

    def give_back(self, cluster, mixture):
        if self.has_passed:
            self.clusters[mixture] = cluster
        else:
            cluster.discard()

    def is_as_new(self, cluster):
        try:
            if [node.kind for node in cluster.nodes] != self.kinds() or len(cluster.alive()) != len(cluster.nodes):
                return False
            for node in cluster.nodes[:self.primaries]:
                cluster.failover(node)
            cluster.wait_agreed()
            if cluster.slots() != cluster.slots_at_first or any(node.myself().moves for node in cluster.nodes):
                return False
            cluster.wait_synced()
            cluster.flush()
            return True
        except (OSError, AssertionError):
            return False

    def own(self, kinds, **options):
        """A cluster for this test alone; its nodes do not know each other yet."""
        cluster = Cluster(kinds, **{**self.options, **options})
        self.addCleanup(lambda: cluster.stop() if self.has_passed else cluster.discard())
        return cluster

    def client(self, cluster, **options):
        client = cluster.client(**options)
        self.addCleanup(client.close)
        return client

    def connect(self, node, **options):
        client = node.client(**options)
        self.addCleanup(client.close)
        return client

    def assert_error(self, reply, text):
        self.assertIsInstance(reply, Error)
        self.assertIn(text, bytes(reply).decode("latin1"))


__all__ = ["ALL_MIXTURES", "Client", "ClusterCase", "Error", "REDIS", "main", "only", "under_test"]
