#!/usr/bin/python3
"""Broken links and restarts: what continues, and what must not."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import Load, fill_all_types
from support.server import scaled, seed_new, until

BACKLOG = {"repl-backlog-size": 32 << 20}


class PartialTest(ReplicationCase):
    def syncs(self, primary):
        return servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")

    def scenario_after_cut_links_under_load(self):
        seed = seed_new()
        primary, replica = self.pair(BACKLOG)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            for number in range(3):
                load.wait_for(scaled(500))
                self.assertEqual(servers.cut_links(primary), 1)
                until(lambda: self.syncs(primary)[1] == number + 1, 20, "partial synchronization %d" % (number + 1))
            load.stop()
            self.same(primary, replica, least=5)
        self.assertEqual(self.syncs(primary), (1, 3))

    def scenario_is_not_possible_beyond_the_backlog(self):
        primary, replica = self.pair({"repl-backlog-size": 16384, "repl-backlog-disk-size": 0} if self.primary_kind == "kelvin" else {"repl-backlog-size": 16384})
        servers.must(primary, "SET k old")
        servers.wait_in_sync(primary, replica)
        with servers.stopped(replica):
            servers.cut_links(primary)
            with self.client(primary) as client:
                # Kelvin keeps 16 MB in memory for a replica that has been there.
                client.pipeline([["SET", "k%d" % number, b"v" * 100000] for number in range(200)])
        until(lambda: self.syncs(primary)[0] == 2, 30, "a second full synchronization")
        self.same(primary, replica, least=200)

    def scenario_of_a_replica_that_was_stopped_at_full_write_speed(self):
        """The small buffers are full within moments. The replica is cut off or waits, and then continues without a full synchronization,
        as the backlog has it all."""
        primary, replica = self.pair({**BACKLOG, "client-output-buffer-limit": ["replica", "1mb", "1mb", "1"]})
        with servers.stopped(replica), self.client(primary) as client:
            deadline = time.monotonic() + 3
            written = 0
            while time.monotonic() < deadline and written < 24 << 20:
                client.pipeline([["SET", "k%d" % number, b"v" * 4000] for number in range(200)])
                written += 200 * 4000
        self.same(primary, replica, least=200)
        self.assertEqual(self.syncs(primary)[0], 1)

    def scenario_after_a_restart_of_the_replica(self):
        """A clean end and a start with what was saved: it continues by ID and offset."""
        primary = self.start("primary", BACKLOG)
        replica = self.start("replica", {"save": "3600 1", "replicaof": ["127.0.0.1", primary.port]})
        servers.wait_in_sync(primary, replica)
        servers.must(primary, "SELECT 7", "SET k v", "RPUSH l a")
        servers.wait_in_sync(primary, replica)
        replica.terminate()
        servers.must(primary, "SELECT 7", "RPUSH l b", "SELECT 2", "INCR n")
        replica.start()
        self.same(primary, replica, least=3)
        self.assertEqual(self.syncs(primary), (1, 1))

    def scenario_after_a_kill_of_the_replica(self):
        primary = self.start("primary", BACKLOG)
        replica = self.start("replica", {"appendonly": "yes", "replicaof": ["127.0.0.1", primary.port]})
        fill_all_types(primary, databases=2)
        servers.wait_in_sync(primary, replica)
        servers.must(primary, "INCR n")
        replica.restart(kill=True)
        servers.must(primary, "INCR n")
        self.same(primary, replica, least=20)

    def scenario_does_not_survive_a_restart_of_the_primary_without_its_data(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        before = servers.replication(primary)
        primary.options["port"] = primary.port
        primary.restart(kill=True)
        servers.must(primary, "SET other v")
        self.assertNotEqual(servers.replication(primary)["master_replid"], before["master_replid"])
        self.assertEqual(self.same(primary, replica), 1)
        self.assertEqual(self.syncs(primary)[0], 1)

    def scenario_of_a_killed_primary_is_not_silent_divergence(self):
        """The primary lost what the replica has; the same number of other bytes follows."""
        primary, replica = self.pair({"appendonly": "yes", "appendfsync": "always"})
        servers.must(primary, "SET k %s" % ("v" * 50))
        servers.wait_in_sync(primary, replica)
        before = servers.replication(primary)["master_replid"]
        primary.options["port"] = primary.port
        primary.kill9()
        self.cut_log(primary, 20)
        primary.start()
        servers.must(primary, "SET k %s" % ("w" * 50), "SET x y")
        self.assertNotEqual(servers.replication(primary)["master_replid"], before)
        self.same(primary, replica, least=2)

    def cut_log(self, server, size):
        folder = os.path.join(server.folder, "appendonlydir")
        path = os.path.join(folder, max(name for name in os.listdir(folder) if ".incr." in name))
        os.truncate(path, os.path.getsize(path) - size)


if __name__ == "__main__":
    main()
