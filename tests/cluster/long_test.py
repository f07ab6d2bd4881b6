#!/usr/bin/python3
"""Minutes of bad luck: nodes are killed, stopped and restarted, links are closed, slots move and roles change, in a random order, under writers.

KELVIN_LONG_S    seconds for each mixture (90)
SEED             repeats the choices; a failure prints it
"""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import Writers
from support.cluster_case import ClusterCase, main
from support.server import seed_new

SECONDS = float(os.environ.get("KELVIN_LONG_S") or 90)


class LongTest(ClusterCase):
    options = {"appendonly": "yes"}

    def scenario_bad_luck(self):
        """All is well again after each event, before the next one begins: with one replica each, a shard survives one failure at a time."""
        seed = seed_new()
        self.chance = random.Random(seed)
        self.cluster = self.own([self.primary_kind] * 3 + [self.replica_kind] * 4)
        self.cluster.create()
        events = [self.kill, self.kill, self.stop, self.stop, self.restart, self.fail_over, self.move_slots, self.close_links, self.kill_majority]
        done = []
        with Writers(self.cluster, count=3, replicas=1) as writers:
            deadline = time.monotonic() + SECONDS
            try:
                while time.monotonic() < deadline:
                    event = self.chance.choice(events)
                    done.append(event.__name__)
                    event()
                    self.cluster.wait_agreed()
                    self.cluster.wait_synced()
                    writers.wait_for(10)
                writers.check()
                self.cluster.check()
                self.cluster.check_replicas()
            except AssertionError as error:
                raise AssertionError("SEED=%d, %s: %s" % (seed, " ".join(done), error)) from None
        self.assertEqual({node.id for node in self.cluster.nodes}, set(self.cluster.nodes[0].view()))

    def some_node(self):
        return self.chance.choice(self.cluster.nodes)

    def shard(self):
        """A primary that has a replica."""
        return self.chance.choice([node for node in self.cluster.primaries() if self.cluster.replicas_of(node)])

    def kill(self):
        """Comes back at once, or when all know that it failed."""
        node = self.some_node()
        identity, wait = node.id, self.chance.random() < 0.7
        node.kill9()
        if wait:
            self.cluster.wait(lambda: all("fail" in other.view()[identity].flags for other in self.cluster.alive()), "all know that it failed")
        node.start()

    def stop(self):
        """For less, or for more, than the time after which it has failed."""
        node = self.some_node()
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.random() * 6)
        node.process.send_signal(signal.SIGCONT)

    def restart(self):
        self.some_node().restart()

    def fail_over(self):
        primary = self.shard()
        self.cluster.failover(self.cluster.replicas_of(primary)[0], *self.chance.choice([(), (), ("FORCE",), ("TAKEOVER",)]))

    def move_slots(self):
        owners = [node for node in self.cluster.primaries() if node.myself().slots]
        source, target = self.chance.sample(owners, 2)
        self.cluster.move_slots(source, target, 20)

    def close_links(self):
        """Those of a Kelvin's bus (redis-server 7.0 crashes), and those of replicas."""
        for node in (node for node in self.cluster.nodes if node.kelvin):
            for line in node.view().values():
                if "myself" not in line.flags:
                    node.ask("DEBUG", "CLUSTERLINK", "KILL", "ALL", line.id)
        self.shard().ask("CLIENT", "KILL", "TYPE", "replica")

    def kill_majority(self):
        """All primaries at once: the replicas can't be elected, and wait."""
        primaries = self.cluster.primaries()
        for node in primaries:
            node.kill9()
        time.sleep(self.chance.random() * 3)
        for node in primaries:
            node.start()


if __name__ == "__main__":
    main()
