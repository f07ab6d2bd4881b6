"""Scenarios that run for each pair of a primary and a replica.

    class FullSyncTest(ReplicationCase):
        def scenario_of_an_empty_server(self):
            primary, replica = self.pair()
            ...

becomes test_of_an_empty_server__redis_redis, ..._kelvin_redis (primary first), and so on. `self.start("primary")` starts a server of the
kind that has this role.

KELVIN_PAIRS    the pairs to run, such as "redis-redis kelvin-redis"; all four when unset
"""
import os
import sys
import unittest

from ..server import is_redis, under_test
from . import servers
from .readings import check_same

ALL_PAIRS = ("redis-redis", "kelvin-redis", "redis-kelvin", "kelvin-kelvin")


# Of scenarios with one real server: the other side is a Recorder or a ScriptedPrimary.
PRIMARIES = ("redis-redis", "kelvin-redis")
REPLICAS = ("redis-redis", "redis-kelvin")


def pairs_wanted():
    if is_redis():
        return ["redis-redis"]
    return (os.environ.get("KELVIN_PAIRS") or " ".join(ALL_PAIRS)).split()


def only(*pairs):
    """Marks a scenario that is for these pairs."""
    def mark(scenario):
        scenario.pairs = pairs
        return scenario
    return mark


class ReplicationCase(unittest.TestCase):
    maxDiff = 4000
    primary_kind = replica_kind = "redis"

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        for name, scenario in list(vars(cls).items()):
            if name.startswith("scenario_"):
                for pair in getattr(scenario, "pairs", ALL_PAIRS):
                    if pair in pairs_wanted():
                        test = cls.for_pair(scenario, *pair.split("-"))
                        setattr(cls, "test_%s__%s" % (name[len("scenario_"):], pair.replace("-", "_")), test)

    @staticmethod
    def for_pair(scenario, primary_kind, replica_kind):
        def test(self):
            self.primary_kind, self.replica_kind = primary_kind, replica_kind
            scenario(self)
        return test

    def start(self, role, options=None, **more):
        """Starts a server of the kind of this role, `primary` or `replica`."""
        kind = {"primary": self.primary_kind, "replica": self.replica_kind}.get(role, role)
        return self.started(servers.start(kind, options, **more))

    def started(self, server):
        self.addCleanup(self.end, server)
        return server

    def end(self, server):
        """Kelvin has to stop cleanly, unless the test failed. redis-server refuses to stop while it writes its first log."""
        if server.process is not None and self._outcome.success:
            alive = server.alive() or server.expect_crash
            server.stop() if server.kelvin else server.discard()
            self.assertTrue(alive, "the server ended by itself")
        else:
            server.discard()

    def pair(self, primary_options=None, replica_options=None, **both):
        """A primary and a replica of it, in sync. Options for both as words: repl_timeout=5."""
        more = {name.replace("_", "-"): value for name, value in both.items()}
        primary = self.start("primary", {**more, **(primary_options or {})})
        replica = self.start("replica", {**more, **(replica_options or {})})
        servers.make_replica(replica, primary)
        return primary, replica

    def client(self, server, **options):
        client = server.client(**options)
        self.addCleanup(client.close)
        return client

    def same(self, primary, *replicas, least=1):
        """In sync, and equal key by key; there must be `least` keys, so that a comparison of nothing does not pass."""
        servers.wait_in_sync(primary, *replicas)
        count = check_same(primary, *replicas)
        self.assertGreaterEqual(count, least, "keys compared")
        return count


def main():
    if not os.path.exists(under_test()):
        sys.exit("%s not found: run make, or set KELVIN_SERVER" % under_test())
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
