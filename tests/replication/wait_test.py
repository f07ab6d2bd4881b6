#!/usr/bin/python3
"""WAITAOF and WAIT with replicas: what has to be on which disk, and what changes meanwhile. redis-server knows WAITAOF from 7.2 on; Debian's does
not, so these scenarios are for Kelvins. They pass with a later redis-server on either side, too."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.resp import Error, Status, encode
from support.server import until

BOTH = ("kelvin-kelvin",)
OFF = Error(b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
LOG = {"appendonly": "yes", "appendfsync": "everysec"}
NO_SYNC = {"appendonly": "yes", "appendfsync": "no"}
LONG_MS = 20000


class WaitCase(ReplicationCase):
    def replica_of(self, primary, options):
        replica = self.start("replica", options)
        servers.make_replica(replica, primary)
        self.log_is_written(replica)
        return replica

    @staticmethod
    def log_is_written(server):
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the log is begun")

    def waiting(self, server, *words):
        """A client that has written and waits."""
        client = self.client(server)
        client.must("SET", "k", "v")
        client.send(encode(words))
        until(lambda: server.info("clients")["blocked_clients"] != "0", 10, "it waits")
        return client


class SyncedTest(WaitCase):
    @only(*BOTH)
    def scenario_of_both_disks(self):
        for policy in ("everysec", "always"):
            with self.subTest(policy=policy):
                options = {"appendonly": "yes", "appendfsync": policy}
                primary = self.start("primary", options)
                self.replica_of(primary, options)
                with self.client(primary) as client:
                    for number in range(3):
                        client.must("SET", "k", number)
                        self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])
                        self.assertEqual(client.must("WAITAOF", 0, 1, LONG_MS), [1, 1])

    @only(*BOTH)
    def scenario_of_one_side_only(self):
        """The primary's disk, or the replica's: each is counted for itself."""
        primary = self.start("primary", NO_SYNC)
        replica = self.replica_of(primary, {"appendonly": "yes", "appendfsync": "always"})
        with self.client(primary) as client:
            client.must("SET", "k", "v")
            self.assertEqual(client.must("WAITAOF", 0, 1, LONG_MS), [0, 1])
            self.assertEqual(client.must("WAITAOF", 1, 1, 200), [0, 1])
            servers.set_config(primary, appendfsync="always")
            servers.set_config(replica, appendfsync="no")
            client.must("SET", "k", "w")
            self.assertEqual(client.must("WAITAOF", 1, 0, LONG_MS)[0], 1)
            self.assertEqual(client.must("WAIT", 1, LONG_MS), 1)
            self.assertEqual(client.must("WAITAOF", 1, 1, 300), [1, 0])
            client.send(encode(("WAITAOF", 0, 1, 0)))
            servers.set_config(replica, appendfsync="everysec")
            self.assertEqual(client.receive(), [1, 1])

    @only(*BOTH)
    def scenario_of_more_replicas_than_there_are(self):
        primary = self.start("primary", LOG)
        self.replica_of(primary, LOG)
        with self.client(primary) as client:
            client.must("SET", "k", "v")
            self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])
            began = time.monotonic()
            self.assertEqual(client.must("WAITAOF", 1, 2, 300), [1, 1])
            self.assertGreater(time.monotonic() - began, 0.29)
            self.assertEqual(client.must("WAIT", 2, 100), 1)

    @only(*BOTH)
    def scenario_of_replicas_without_a_log(self):
        primary = self.start("primary", LOG)
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        other = self.replica_of(primary, LOG)
        with self.client(primary) as client:
            client.must("SET", "k", "v")
            self.assertEqual(client.must("WAIT", 2, LONG_MS), 2)
            self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])
            self.assertEqual(client.must("WAITAOF", 1, 2, 1500), [1, 1])
            client.send(encode(("WAITAOF", 1, 2, 0)))
            servers.set_config(replica, appendonly="yes")
            self.assertEqual(client.receive(), [1, 2])
            # And off again: what comes then is not on its disk.
            servers.set_config(other, appendonly="no")
            client.must("SET", "k", "w")
            self.assertEqual(client.must("WAITAOF", 1, 2, 1500), [1, 1])
            self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])

    @only(*BOTH)
    def scenario_of_a_primary_without_a_log(self):
        primary = self.start("primary")
        self.replica_of(primary, {"appendonly": "yes", "appendfsync": "always"})
        with self.client(primary) as client:
            client.must("SET", "k", "v")
            self.assertEqual(client.must("WAITAOF", 0, 1, LONG_MS), [0, 1])
            self.assertEqual([client.call("WAITAOF", 1, number, 100) for number in (0, 1)], [OFF, OFF])
            servers.set_config(primary, appendonly="yes")
            self.log_is_written(primary)
            client.must("SET", "k", "w")
            self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])

    @only(*BOTH)
    def scenario_that_is_over_when_the_log_is_switched_off(self):
        primary = self.start("primary", NO_SYNC)
        self.replica_of(primary, NO_SYNC)
        clients = [self.waiting(primary, "WAITAOF", *words) for words in ((1, 1, 0), (1, 0, 0), (0, 1, 2000))]
        until(lambda: primary.info("clients")["blocked_clients"] == "3", 10, "all wait")
        servers.set_config(primary, appendonly="no")
        self.assertEqual([client.receive() for client in clients], [OFF, OFF, [0, 0]])

    @only(*BOTH)
    def scenario_of_a_replica_is_an_error(self):
        primary, replica = self.pair(LOG, LOG)
        for words in ("WAITAOF 0 0 0", "WAITAOF 1 1 10", "WAIT 0 0"):
            reply = servers.values_of(replica, words)[0]
            self.assertIsInstance(reply, Error)
            self.assertIn(b"cannot be used with replica instances", reply)

    @only(*BOTH)
    def scenario_of_a_transaction_does_not_wait(self):
        primary = self.start("primary", NO_SYNC)
        self.replica_of(primary, NO_SYNC)
        with self.client(primary) as client:
            client.must("SET", "before", "v")
            replies = client.pipeline([["MULTI"], ["SET", "k", "v"], ["WAITAOF", "1", "1", "0"], ["WAITAOF", "0", "5", "0"], ["EXEC"]])
        self.assertEqual(replies[-1][1:], [[0, 0], [0, 0]])

    @only(*BOTH)
    def scenario_goes_on_after_a_broken_link(self):
        primary = self.start("primary", LOG)
        replica = self.replica_of(primary, LOG)
        with servers.stopped(replica):
            client = self.waiting(primary, "WAITAOF", 1, 1, 0)
            other = self.waiting(primary, "WAIT", 1, 0)
            self.assertEqual(servers.cut_links(primary), 1)
            time.sleep(0.2)
            self.assertEqual(primary.info("clients")["blocked_clients"], "2")
        self.assertEqual([client.receive(), other.receive()], [[1, 1], 1])

    @only(*BOTH)
    def scenario_of_a_primary_that_becomes_a_replica(self):
        primary, replica = self.pair(LOG, LOG)
        target = self.start("primary")
        with servers.stopped(replica):
            clients = [self.waiting(primary, *words) for words in (("WAIT", 1, 0), ("WAITAOF", 0, 1, 0))]
            servers.must(primary, "REPLICAOF %s %d" % target.address)
            replies = [client.receive() for client in clients]
        for reply in replies:
            self.assertIsInstance(reply, Error)
            self.assertEqual(reply.split()[0], b"UNBLOCKED")

    @only(*BOTH)
    def scenario_is_what_a_kill_leaves(self):
        """What WAITAOF has confirmed is there after both were killed."""
        primary = self.start("primary", LOG)
        replica = self.replica_of(primary, LOG)
        with self.client(primary) as client:
            for number in range(3):
                client.must("SET", "n", number)
                self.assertEqual(client.must("WAITAOF", 1, 1, LONG_MS), [1, 1])
        for server in (primary, replica):
            server.kill9()
            server.start()
            self.assertEqual(servers.values_of(server, "GET n")[0], b"2")


if __name__ == "__main__":
    main()
