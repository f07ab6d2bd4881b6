#!/usr/bin/python3
"""Chains, promotion, siblings that continue, ROLE and INFO, FAILOVER."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import Load, NumberedWriter, fill_all_types
from support.resp import NULL_ARRAY, Error, Status
from support.server import scaled, seed_new, until


def drop_counts(server):
    """PFCOUNT on a replica of redis-server changes the bytes of the value (a cached count); the load goes on for a moment after a failover."""
    with server.client() as client:
        for database in range(16):
            client.must("SELECT", database)
            client.must("DEL", *["p%d" % number for number in range(10)])


def client_value(server, line):
    return servers.values_of(server, line)[0]


class RolesTest(ReplicationCase):
    def scenario_of_a_chain(self):
        seed = seed_new()
        primary, middle = self.pair()
        ends = [self.start("primary"), self.start("replica")]
        fill_all_types(primary, databases=2)
        for end in ends:
            servers.make_replica(end, middle)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            load.wait_for(scaled(2000))
            load.stop()
            servers.wait_in_sync(primary, middle)
            self.same(middle, *ends, least=5)
            self.same(primary, middle, least=5)
        offsets = {servers.replication(server)["master_repl_offset"] for server in [primary, middle] + ends}
        self.assertEqual(len(offsets), 1)
        self.assertEqual(len({servers.replication(server)["master_replid"] for server in [primary, middle] + ends}), 1)

    def scenario_of_a_chain_whose_middle_lost_its_link(self):
        primary, middle = self.pair()
        end = self.start("replica")
        servers.make_replica(end, middle)
        servers.cut_links(primary)
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, middle)
        self.same(middle, end)
        self.assertEqual(servers.count_of(middle, "sync_full"), 1)

    def scenario_of_a_promotion_that_siblings_follow(self):
        """The former siblings and the former primary continue by the second ID."""
        backlog = {"repl-backlog-size": 8 << 20}
        primary, chosen = self.pair(backlog, backlog)
        sibling = self.start("replica", backlog)
        servers.make_replica(sibling, primary)
        fill_all_types(primary, databases=2)
        servers.wait_in_sync(primary, chosen, sibling)
        old = servers.replication(primary)
        self.assertEqual(servers.must(chosen, "REPLICAOF NO ONE"), Status(b"OK"))
        new = servers.replication(chosen)
        self.assertEqual(new["role"], "master")
        self.assertEqual(new["master_replid2"], old["master_replid"])
        self.assertNotEqual(new["master_replid"], old["master_replid"])
        self.assertEqual(int(new["second_repl_offset"]), int(old["master_repl_offset"]) + 1)
        servers.must(chosen, "SET after promotion")
        servers.make_replica(sibling, chosen)
        servers.make_replica(primary, chosen)
        self.same(chosen, sibling, primary, least=100)
        self.assertEqual((servers.count_of(chosen, "sync_full"), servers.count_of(chosen, "sync_partial_ok")), (0, 2))

    def scenario_of_a_sibling_that_is_ahead_of_the_promoted(self):
        """It has what the promoted replica never got: it must not continue."""
        primary, chosen = self.pair()
        ahead = self.start("replica")
        servers.make_replica(ahead, primary)
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, chosen, ahead)
        with servers.stopped(chosen):
            servers.must(primary, "SET lost 1")
            servers.wait_in_sync(primary, ahead)
            primary.kill9()
        # What is in its socket is applied or not: the rule is the same.
        servers.must(chosen, "REPLICAOF NO ONE")
        servers.must(chosen, "SET new 1")
        servers.make_replica(ahead, chosen)
        self.same(chosen, ahead, least=2)
        primary.expect_crash = True

    def scenario_of_a_primary_that_becomes_a_replica_of_its_replica(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        for _ in range(3):
            servers.must(replica, "REPLICAOF NO ONE")
            servers.make_replica(primary, replica)
            servers.must(replica, "INCR n")
            self.same(replica, primary, least=2)
            primary, replica = replica, primary
        self.assertEqual(servers.values_of(primary, "GET n")[0], b"3")
        self.assertEqual(sum(servers.count_of(server, "sync_full") for server in (primary, replica)), 1)

    def scenario_has_role_and_info(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        offset = servers.replication(primary)["master_repl_offset"].encode()
        until(lambda: servers.values_of(primary, "ROLE")[0] == [b"master", int(offset), [[b"127.0.0.1", b"%d" % replica.port, offset]]], 10, "ROLE of the primary")
        self.assertEqual(servers.values_of(replica, "ROLE")[0], [b"slave", b"127.0.0.1", primary.port, b"connected", int(offset)])
        found = servers.replication(primary)
        self.assertEqual(set(dict(field.split("=") for field in found["slave0"].split(","))), {"ip", "port", "state", "offset", "lag"})
        self.assertTrue(found["slave0"].startswith("ip=127.0.0.1,port=%d,state=online,offset=%d,lag=" % (replica.port, int(offset))), found["slave0"])
        wanted = {"role": "master", "connected_slaves": "1", "master_failover_state": "no-failover", "repl_backlog_active": "1", "master_replid2": "0" * 40,
                  "second_repl_offset": "-1", "repl_backlog_size": str(1 << 20)}
        self.assertEqual({name: found.get(name) for name in wanted}, wanted)
        self.assertLessEqual({"repl_backlog_first_byte_offset", "repl_backlog_histlen", "master_replid", "master_repl_offset"}, set(found))
        found = servers.replication(replica)
        wanted = {"role": "slave", "master_host": "127.0.0.1", "master_port": str(primary.port), "master_link_status": "up", "master_sync_in_progress": "0",
                  "slave_read_repl_offset": offset.decode(), "slave_repl_offset": offset.decode(), "slave_priority": "100", "slave_read_only": "1",
                  "replica_announced": "1", "connected_slaves": "0", "master_repl_offset": offset.decode()}
        self.assertEqual({name: found.get(name) for name in wanted}, wanted)
        self.assertIn("master_last_io_seconds_ago", found)
        self.assertEqual(primary.info("clients").get("connected_clients"), "1")

    def scenario_has_the_state_of_a_lost_link(self):
        primary, replica = self.pair()
        primary.kill9()
        primary.expect_crash = True
        until(lambda: servers.replication(replica)["master_link_status"] == "down", 10, "link down")
        self.assertIn("master_link_down_since_seconds", servers.replication(replica))
        self.assertIn(servers.values_of(replica, "ROLE")[0][3], (b"connect", b"connecting"))
        self.assertEqual(servers.values_of(replica, "ROLE")[0][4], -1 if self.replica_kind == "redis" else servers.values_of(replica, "ROLE")[0][4])

    def scenario_refuses_writes_on_the_replica_and_not_after_promotion(self):
        primary, replica = self.pair()
        refused = Error(b"READONLY You can't write against a read only replica.")
        self.assertEqual(servers.values_of(replica, "SET k v", "EVAL \"return redis.call('SET', 'k', 'v')\" 0", "FLUSHALL", "PFCOUNT none")[0::2], [refused, refused])
        with self.client(replica) as client:
            self.assertEqual(client.pipeline([["MULTI"], ["SET", "k", "v"], ["EXEC"]])[1], refused)
        servers.must(replica, "REPLICAOF NO ONE", "SET k v")

    def scenario_disconnects_clients_that_wait_for_keys(self):
        primary, replica = self.start("primary"), self.start("replica")
        with self.client(replica) as client:
            client.send(b"BLPOP nothing 0\r\n")
            until(lambda: replica.info("clients")["blocked_clients"] == "1", 10, "blocked")
            servers.make_replica(replica, primary)
            self.assertEqual(bytes(client.receive())[:10], b"UNBLOCKED ")

    def scenario_of_failover_without_loss(self):
        primary, replica = self.pair()
        writer = NumberedWriter(lambda: primary.client(), pause_s=0.001)
        writer.start()
        until(lambda: len(writer.acknowledged) > 50, 20, "writes")
        servers.wait_online(primary, replica)
        self.assertEqual(servers.must(primary, "FAILOVER TO 127.0.0.1 %d" % replica.port), Status(b"OK"))
        until(lambda: servers.replication(replica)["role"] == "master" and servers.replication(primary)["role"] == "slave", 20, "the roles are exchanged")
        writer.stop()
        servers.wait_in_sync(replica, primary)
        self.assertEqual(writer.lost(replica, writer.acknowledged), [])
        self.same(replica, primary, least=50)
        self.assertEqual(servers.count_of(replica, "sync_full"), 0)

    def scenario_of_failover_that_is_not_possible(self):
        primary = self.start("primary")
        found = servers.values_of(primary, "FAILOVER", "FAILOVER ABORT", "FAILOVER TO 127.0.0.1 1", "REPLICAOF NO ONE", "FAILOVER FORCE")
        self.assertEqual([type(reply) for reply in found], [Error, Error, Error, Status, Error])
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        self.assertIsInstance(servers.values_of(replica, "FAILOVER")[0], Error)
        with servers.stopped(replica), self.client(primary) as client:
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TIMEOUT", 300)
            self.assertEqual(servers.replication(primary)["master_failover_state"], "waiting-for-sync")
            until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 10, "the time of the failover is over")
            client.must("FAILOVER", "TIMEOUT", 100000)
            client.must("FAILOVER", "ABORT")
            client.must("SET", "k", "w")
        self.same(primary, replica)

    def scenario_has_the_errors_of_failover(self):
        primary, replica = self.pair()
        servers.wait_online(primary, replica)
        target = "127.0.0.1 %d" % replica.port
        force = Error(b"ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        stranger = Error(b"ERR FAILOVER target HOST and PORT is not a replica.")
        found = servers.values_of(primary, "FAILOVER FORCE", "FAILOVER TO %s FORCE" % target, "FAILOVER TIMEOUT 5 FORCE", "FAILOVER TO x 1",
                                  "FAILOVER TO 127.0.0.1 1", "FAILOVER ABORT")
        self.assertEqual(found, [force, force, force, stranger, stranger, Error(b"ERR No failover in progress.")])
        with servers.stopped(replica), self.client(primary) as client:
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TO", "127.0.0.1", replica.port)
            again = Error(b"ERR FAILOVER already in progress.")
            follow = Error(b"ERR REPLICAOF not allowed while failing over.")
            found = servers.values_of(primary, "FAILOVER", "FAILOVER TO x 1", "FAILOVER FORCE", "REPLICAOF NO ONE", "REPLICAOF 127.0.0.1 1")
            self.assertEqual(found, [again, again, again, follow, follow])
            self.assertEqual(client.call("PSYNC", "?", "-1"), Error(b"NOMASTERLINK Can't SYNC while failing over"))
            self.assertEqual(client.must("FAILOVER", "ABORT"), Status(b"OK"))
            self.assertEqual(client.call("FAILOVER", "ABORT"), Error(b"ERR No failover in progress."))
        self.same(primary, replica)

    def scenario_refuses_to_take_over_another_history(self):
        primary, replica = self.pair()
        identity = servers.replication(primary)["master_replid"]
        refused = [Error(b"ERR PSYNC FAILOVER can't be sent to a master."), Error(b"ERR PSYNC FAILOVER replid must match my replid.")]
        self.assertEqual(servers.values_of(primary, "PSYNC %s 1 FAILOVER" % identity), refused[:1])
        self.assertEqual(servers.values_of(replica, "PSYNC %s 1 FAILOVER" % ("0" * 40)), refused[1:])
        self.assertEqual(servers.replication(replica)["role"], "slave")
        servers.must(primary, "SET k v")
        self.same(primary, replica)

    def scenario_holds_writes_back_while_a_failover_waits(self):
        """Also what expires and what is published; reads go on, and CLIENT UNPAUSE changes nothing."""
        primary, replica = self.pair()
        with servers.stopped(replica), self.client(primary) as client, self.client(primary) as writer, self.client(primary) as publisher:
            client.must("SET", "short", "v", "PX", 100)
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TIMEOUT", 1500)
            writer.send(b"SET k w\r\n")
            publisher.send(b"PUBLISH c x\r\n")
            until(lambda: primary.info("clients")["blocked_clients"] == "2", 10, "both wait")
            before = servers.replication(primary)["master_repl_offset"]
            client.must("CLIENT", "UNPAUSE")
            until(lambda: client.must("GET", "short") is None, 10, "expired")
            self.assertEqual(client.must("GET", "k"), b"v")
            self.assertEqual(client.must("DBSIZE"), 2)
            if self.primary_kind == "redis":
                self.assertEqual(servers.replication(primary)["master_repl_offset"], before)
            until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 10, "the time is up")
            self.assertEqual(writer.receive(), Status(b"OK"))
            self.assertEqual(publisher.receive(), 0)
        servers.wait_in_sync(primary, replica)
        until(lambda: client_value(primary, "DBSIZE") == 1, 10, "expired keys go")
        self.same(primary, replica)

    def scenario_of_failover_by_force(self):
        """The time is up, and the target takes over with what it has; the former primary has more, and so gets all data from it."""
        primary, replica = self.pair()
        servers.wait_online(primary, replica)
        with servers.stopped(replica), self.client(primary) as client:
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 300)
            until(lambda: servers.replication(primary)["master_failover_state"] == "failover-in-progress", 10, "in progress")
            self.assertEqual(servers.replication(primary)["role"], "slave")
        until(lambda: servers.replication(replica)["role"] == "master", 20, "taken over")
        until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 20, "over")
        servers.must(replica, "SET after 1")
        self.same(replica, primary)

    def scenario_of_an_abort_while_the_target_is_asked(self):
        primary, replica = self.pair()
        servers.wait_online(primary, replica)
        with servers.stopped(replica), self.client(primary) as client, self.client(primary) as writer:
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 500)
            writer.send(b"SET k w\r\n")
            until(lambda: primary.info("clients")["blocked_clients"] == "1", 10, "it waits")
            until(lambda: servers.replication(primary)["master_failover_state"] == "failover-in-progress", 10, "in progress")
            client.must("PING")
            self.assertEqual(primary.info("clients")["blocked_clients"], "1")
            client.must("FAILOVER", "ABORT")
            found = servers.replication(primary)
            self.assertEqual((found["role"], found["master_failover_state"]), ("master", "no-failover"))
            replica.kill9()
            replica.expect_crash = True
            self.assertEqual(writer.receive(), Status(b"OK"))       # it waited all the time
        servers.must(primary, "SET k x")

    def scenario_of_a_target_that_is_killed_in_the_middle(self):
        """No acknowledged write is lost: the primary goes on, whether the target died before or while it was asked."""
        primary, replica = self.pair()
        servers.wait_online(primary, replica)
        writer = NumberedWriter(lambda: primary.client(), pause_s=0.001)
        writer.start()
        until(lambda: len(writer.acknowledged) > 50, 20, "writes")
        with servers.stopped(replica), self.client(primary) as client:
            client.must("FAILOVER", "TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 300)
            until(lambda: servers.replication(primary)["master_failover_state"] == "failover-in-progress", 10, "in progress")
            replica.kill9()
            replica.expect_crash = True
            client.must("FAILOVER", "ABORT")
        count = len(writer.acknowledged)
        until(lambda: len(writer.acknowledged) > count + 50, 20, "writes go on")
        writer.stop()
        self.assertEqual(writer.lost(primary, writer.acknowledged), [])
        self.assertEqual(servers.replication(primary)["role"], "master")

    def scenario_of_failover_with_siblings_and_waiting_clients(self):
        """Blocked clients get -UNBLOCKED; a sibling goes on as a replica of the former primary; scripts and transactions are whole."""
        primary, replica = self.pair()
        sibling = self.start("replica")
        servers.make_replica(sibling, primary)
        servers.wait_online(primary, replica)
        with self.client(primary) as waiting, Load(primary, seed_new(), flushes=False) as load:
            waiting.send(b"BLPOP nothing 0\r\n")
            load.wait_for(scaled(1000))
            servers.must(primary, "FAILOVER TO 127.0.0.1 %d" % replica.port)
            until(lambda: servers.replication(replica)["role"] == "master" and servers.replication(primary)["role"] == "slave", 20, "exchanged")
            self.assertEqual(bytes(waiting.receive())[:10], b"UNBLOCKED ")
            load.stop()
        servers.wait_in_sync(replica, primary)
        drop_counts(replica)
        servers.must(replica, "SET after 1")
        self.same(replica, primary, least=5)
        self.same(primary, sibling, least=5)
        self.assertEqual(servers.count_of(replica, "sync_full"), 0)

    def scenario_of_failover_there_and_back_with_logs_and_expiry(self):
        """Kelvin with four workers and a memory limit, so that keys are demoted, and expire in the store, too."""
        options = {kind: {"appendonly": "yes", "repl-backlog-size": 32 << 20} for kind in ("redis", "kelvin")}
        options["kelvin"].update({"io-threads": 4, "maxmemory": "64mb", "maxmemory-policy": "noeviction"})
        first, second = self.start("primary", options[self.primary_kind]), self.start("replica", options[self.replica_kind])
        fill_all_types(first, databases=4)
        servers.make_replica(second, first)
        for source, target in ((first, second), (second, first), (first, second)):
            servers.wait_online(source, target)
            writer = NumberedWriter(lambda: source.client(), prefix="at%d" % source.port)
            writer.start()
            with Load(source, seed_new(), flushes=False) as load:
                load.wait_for(scaled(1000))
                self.demote(source)
                servers.must(source, "FAILOVER TO 127.0.0.1 %d TIMEOUT 20000" % target.port)
                until(lambda: servers.replication(target)["role"] == "master", 30, "taken over")
                until(lambda: servers.replication(source)["master_failover_state"] == "no-failover", 30, "over")
                load.stop()
            writer.stop()
            drop_counts(target)
            servers.must(target, "SET after 1")
            self.same(target, source, least=100)
            self.assertEqual(writer.lost(target, writer.acknowledged), [])
        self.assertEqual(servers.count_of(first, "sync_full") + servers.count_of(second, "sync_full"), 1)

    def demote(self, server):
        if server.kelvin:
            keys = [key for key in servers.values_of(server, "KEYS e*")[0]]
            with self.client(server) as client:
                client.must("TIER", "DEMOTE", "none", *keys)

    def scenario_of_publish_to_subscribers_of_replicas(self):
        primary, replica = self.pair()
        end = self.start("replica")
        servers.make_replica(end, replica)
        with self.client(replica) as near, self.client(end) as far:
            for client in (near, far):
                self.assertEqual(client.call("SUBSCRIBE", "news"), [b"subscribe", b"news", 1])
                self.assertEqual(client.call("PSUBSCRIBE", "ne*"), [b"psubscribe", b"ne*", 2])
            servers.must(primary, "PUBLISH news one", "EVAL \"return redis.call('PUBLISH', 'news', 'two')\" 0")
            for client in (near, far):
                found = [client.receive() for _ in range(4)]
                self.assertEqual(found, [[b"message", b"news", b"one"], [b"pmessage", b"ne*", b"news", b"one"],
                                         [b"message", b"news", b"two"], [b"pmessage", b"ne*", b"news", b"two"]])

    def scenario_without_replicas_has_an_empty_list(self):
        primary = self.start("primary")
        self.assertEqual(servers.values_of(primary, "ROLE")[0][2], [])
        self.assertIsNot(servers.values_of(primary, "ROLE")[0], NULL_ARRAY)


if __name__ == "__main__":
    main()
