#!/usr/bin/python3
"""Full synchronizations: an empty server, all types in all databases, under load, several replicas at once, changes of everything meanwhile."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.load import Load, fill_all_types
from support.server import scaled, seed_new


class FullSyncTest(ReplicationCase):
    def scenario_of_an_empty_server(self):
        primary, replica = self.pair()
        self.same(primary, replica, least=0)
        servers.must(primary, "SET k v", "SELECT 9", "SET nine 9")
        self.same(primary, replica, least=2)
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    def scenario_replaces_what_the_replica_had(self):
        primary, replica = self.start("primary"), self.start("replica")
        servers.must(replica, "SET old 1", "SELECT 5", "SET old 2", "FUNCTION LOAD \"#!lua name=old\\nredis.register_function('f', function() end)\"")
        servers.must(primary, "SET new 1")
        servers.make_replica(replica, primary)
        self.assertEqual(self.same(primary, replica), 1)

    def scenario_of_all_types_in_16_databases(self):
        primary, replica = self.start("primary"), self.start("replica")
        fill_all_types(primary)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=16 * 8 * 10)

    def scenario_to_disk_and_from_disk(self):
        primary = self.start("primary", {"repl-diskless-sync": "no"})
        replica = self.start("replica", {"repl-diskless-load": "disabled"})
        fill_all_types(primary, databases=3)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=3 * 8 * 10)

    @only("redis-redis", "kelvin-redis")
    def scenario_into_memory(self):
        primary, replica = self.start("primary"), self.start("replica", {"repl-diskless-load": "swapdb"})
        fill_all_types(primary, databases=3)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=3 * 8 * 10)

    def scenario_under_load(self):
        seed = seed_new()
        primary, replica = self.start("primary"), self.start("replica")
        fill_all_types(primary)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            load.wait_for(scaled(500))
            servers.make_replica(replica, primary, wait=False)
            servers.until(lambda: servers.link_is_up(replica), servers.SYNC_LIMIT_S, "link up")
            load.wait_for(scaled(3000))
            load.stop()
            self.same(primary, replica, least=10)
            self.assertEqual(servers.count_of(primary, "sync_full"), 1, primary.log_tail(3000) + replica.log_tail(3000))

    def scenario_of_three_replicas_at_once(self):
        seed = seed_new()
        primary = self.start("primary")
        fill_all_types(primary, databases=4)
        with self.subTest(seed=seed), Load(primary, seed, threads=2) as load:
            replicas = [self.start("replica") for _ in range(3)]
            for replica in replicas:
                servers.make_replica(replica, primary, wait=False)
            servers.until(lambda: all(map(servers.link_is_up, replicas)), servers.SYNC_LIMIT_S, "links up")
            load.wait_for(scaled(1000))
            load.stop()
            self.same(primary, *replicas, least=10)
            self.assertEqual(servers.replication(primary)["connected_slaves"], "3")

    def scenario_during_which_databases_are_flushed_and_swapped(self):
        primary, replica = self.start("primary"), self.start("replica")
        fill_all_types(primary)
        servers.set_config(primary, rdb_key_save_delay=200) if servers.kind_of(primary) == "redis" else None
        with self.client(primary) as client:
            servers.make_replica(replica, primary, wait=False)
            servers.until(lambda: "slave0" in servers.replication(primary), 20, "the replica is known")
            for number in range(12):
                client.must("SELECT", number)
                client.must("SWAPDB", number, number + 1)
                client.must("SET", "after:%d" % number, "1")
                client.must("FLUSHDB") if number % 4 == 0 else None
                client.must("HSET", "hash:after:%d" % number, "f", number)
            client.must("FLUSHALL")
            client.must("SET", "last", "1")
        self.assertEqual(self.same(primary, replica), 1)

    def scenario_is_not_repeated_without_reason(self):
        primary, replica = self.pair()
        before = servers.must(replica, "TIME")
        servers.must(replica, "REPLICAOF 127.0.0.1 %d" % primary.port)
        servers.must(primary, "SET k v")
        self.same(primary, replica)
        self.assertTrue(before)
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)


if __name__ == "__main__":
    main()
