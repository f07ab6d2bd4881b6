#!/usr/bin/python3
"""Expiry, WAIT, min-replicas and slow replicas: what a primary decides and a replica follows."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import PRIMARIES, ReplicationCase, main, only
from support.replication.load import NumberedWriter
from support.replication.recorder import Recorder
from support.resp import Error
from support.server import until

NOT_ENOUGH = Error(b"NOREPLICAS Not enough good replicas to write.")


class ExpiryTest(ReplicationCase):
    def scenario_of_keys_is_decided_by_the_primary(self):
        """A stopped primary removes nothing: on the replica the keys read as absent and are there, until the DELs come."""
        primary, replica = self.pair()
        with self.client(primary) as client:
            # Not before all are on the replica may the first one expire.
            client.pipeline([["SET", "k%d" % number, "v", "PX", 1500] for number in range(50)] + [["HSET", "h", "f", "v"], ["PEXPIRE", "h", 1500]])
            client.must("SET", "stays", "1")
        servers.wait_in_sync(primary, replica)
        with servers.stopped(primary):
            time.sleep(1.7)
            found = servers.values_of(replica, "GET k1", "EXISTS k1 k2 h", "TTL k3", "HGETALL h", "TYPE h", "KEYS *", "DBSIZE", "GET stays")
            self.assertEqual(found[:4], [None, 0, -2, []])
            self.assertEqual(found[5:], [[b"stays"], 52, b"1"])
            self.assertEqual(replica.info("stats")["expired_keys"], "0")
        until(lambda: servers.values_of(primary, "DBSIZE")[0] == 1, 10, "expired on the primary")
        until(lambda: servers.values_of(replica, "DBSIZE")[0] == 1, 10, "removed on the replica")
        self.assertEqual(self.same(primary, replica), 1)
        self.assertEqual(replica.info("stats")["expired_keys"], "0")

    def scenario_of_all_keys_after_promotion_is_the_new_primarys(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k v PX 2500", "SET stays 1")
        servers.wait_in_sync(primary, replica)
        primary.kill9()
        self.assertEqual(servers.values_of(replica, "DBSIZE"), [2])
        primary.expect_crash = True
        servers.must(replica, "REPLICAOF NO ONE")
        until(lambda: servers.values_of(replica, "DBSIZE")[0] == 1, 10, "expired on the promoted replica")
        self.assertEqual(replica.info("stats")["expired_keys"], "1")

    @only(*PRIMARIES)
    def scenario_is_in_the_stream_as_deletions(self):
        primary = self.start("primary")
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        servers.must(primary, "SET a v PX 20", "SET b v PX 20", "HSET h f v", "PEXPIRE h 20", "SET c v", "PEXPIREAT c 1")
        until(lambda: servers.values_of(primary, "DBSIZE")[0] == 0, 10, "expired")
        recorder.settled(primary)
        removed = {word for args in recorder.commands() if args[0].upper() in (b"DEL", b"UNLINK") for word in args[1:]}
        self.assertEqual(removed, {b"a", b"b", b"h", b"c"})
        self.assertEqual([args for args in recorder.commands() if args[0].upper() in (b"EXPIRE", b"PEXPIRE")], [])

    def scenario_on_a_writable_replica_is_its_own(self):
        primary, replica = self.pair()
        servers.set_config(replica, replica_read_only="no")
        servers.must(replica, "SET mine v PX 50", "SET kept 1")
        until(lambda: servers.values_of(replica, "DBSIZE")[0] == 1, 10, "the replica's own key expired")
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        self.assertEqual(servers.values_of(replica, "GET kept", "GET k"), [b"1", b"v"])


class WaitTest(ReplicationCase):
    def scenario_means_that_the_replica_has_it(self):
        primary, replica = self.pair()
        other = self.start("replica")
        servers.make_replica(other, primary)
        with self.client(primary) as client, self.client(replica) as near, self.client(other) as far:
            for number in range(50):
                client.must("SET", "k", number)
                self.assertEqual(client.must("WAIT", 2, 10000), 2)
                self.assertEqual([near.call("GET", "k"), far.call("GET", "k")], [b"%d" % number] * 2)

    def scenario_returns_after_its_time(self):
        primary, replica = self.pair()
        with self.client(primary) as client:
            until(lambda: client.must("WAIT", 0, 0) == 1, 10, "the primary knows that the replica has loaded")
            with servers.stopped(replica):
                client.must("SET", "k", "v")
                self.assertEqual(client.must("WAIT", 1, 200), 0)
                # Others wait at the same time, and are served.
                servers.must(primary, "PING")
                client.send(b"WAIT 1 0\r\n")
            self.assertEqual(client.receive(), 1)
            self.assertEqual(client.must("WAIT", 2, 100), 1)
            # In a transaction it does not wait: it says what is known.
            self.assertIn(client.pipeline([["MULTI"], ["SET", "k", "w"], ["WAIT", "2", "0"], ["EXEC"]])[-1][1], (0, 1))
        self.assertIsInstance(servers.values_of(replica, "WAIT 1 0")[0], Error)

    def scenario_is_kept_by_what_was_promoted(self):
        """All that WAIT confirmed is on the replica when the primary dies."""
        primary, replica = self.pair()
        writer = NumberedWriter(lambda: primary.client(), replicas=1)
        writer.start()
        until(lambda: len(writer.safe) > 200, 30, "confirmed writes")
        primary.kill9()
        primary.expect_crash = True
        writer.stop()
        servers.must(replica, "REPLICAOF NO ONE")
        self.assertEqual(writer.lost(replica, writer.safe), [])


class MinReplicasTest(ReplicationCase):
    def scenario_refuse_writes_without_good_replicas(self):
        primary = self.start("primary", {"min-replicas-to-write": 1, "min-replicas-max-lag": 2})
        self.assertEqual(servers.values_of(primary, "SET k v", "GET k", "EVAL \"return 1\" 0"), [NOT_ENOUGH, None, 1])
        self.assertEqual(servers.replication(primary)["min_slaves_good_slaves"], "0")
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        until(lambda: servers.values_of(primary, "SET k v")[0] != NOT_ENOUGH, 10, "a good replica")
        self.assertEqual(servers.replication(primary)["min_slaves_good_slaves"], "1")
        with servers.stopped(replica):
            until(lambda: servers.values_of(primary, "SET k v")[0] == NOT_ENOUGH, 15, "the replica lags")
        until(lambda: servers.values_of(primary, "SET k v")[0] != NOT_ENOUGH, 15, "the replica is good again")
        servers.set_config(primary, min_replicas_to_write=0)
        self.same(primary, replica)

    @only("kelvin-kelvin")
    def scenario_a_replica_that_is_gone_is_none_at_once(self):
        """Regular work, which counts them too, does not go on here."""
        primary = self.start("primary", {"min-replicas-to-write": 1})
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        until(lambda: servers.values_of(primary, "SET k v")[0] != NOT_ENOUGH, 10, "a good replica")
        servers.must(primary, "DEBUG PAUSE-CRON 1")
        replica.kill9()
        replica.expect_crash = True
        until(lambda: servers.replication(primary)["connected_slaves"] == "0", 10, "its connection has ended")
        self.assertEqual(servers.values_of(primary, "SET k v"), [NOT_ENOUGH])


if __name__ == "__main__":
    main()
