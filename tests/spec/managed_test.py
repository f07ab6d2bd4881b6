#!/usr/bin/python3
"""Nodes with `cluster-control managed`, whose controller is a script here: CLUSTERX, leases, and what a node keeps when it is stopped."""
import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support import disk as disks                                                                   # noqa: E402
from support.case import main                                                                       # noqa: E402
from support.cluster import Node                                                              # noqa: E402
from support.resp import Error, Status, encode                                                              # noqa: E402
from support.server import Server, StartFailed, is_redis, port_free, until                          # noqa: E402

OPTIONS = {"cluster-enabled": "yes", "cluster-control": "managed", "io-threads": 2}
OK, EXPIRED = Status(b"OK"), Error(b"CLUSTERDOWN master lease expired")
LONG_MS = 600000


def node_id(index):
    return ("Node%d" % index).ljust(40, "x").encode()


class Controller:
    """The nodes, and a client of each. A shard is a list of the indexes of its nodes, its primary first, and its slots."""

    def __init__(self, count, options):
        self.servers, self.clients, self.version = [], [], 0
        for index in range(count):
            self.servers.append(Server({**OPTIONS, **options}))
            self.clients.append(self.servers[index].client())
            assert self.clients[index].must("CLUSTERX", "SETNODEID", node_id(index)) == OK

    def text(self, shards):
        lines = []
        for nodes, slots in shards:
            for node in nodes:
                role = "master -" if node == nodes[0] else "slave " + node_id(nodes[0]).decode()
                lines.append("%s 127.0.0.1 %d %s %s" % (node_id(node).decode(), self.servers[node].port, role, slots if node == nodes[0] else ""))
        return "\n".join(lines) + "\n"

    def publish(self, shards, to=None):
        """The next version, to these nodes; all of them when None."""
        self.version += 1
        for node in range(len(self.servers)) if to is None else to:
            assert self.clients[node].must("CLUSTERX", "SETNODES", self.text(shards), self.version) == OK

    def restart(self, node):
        self.servers[node].restart(kill=True)
        self.clients[node].close()
        self.clients[node] = self.servers[node].client()

    def stop(self):
        for client in self.clients:
            client.close()
        for server in self.servers:
            server.stop()


@unittest.skipIf(is_redis(), "redis-server is the server under test")
class ManagedTest(unittest.TestCase):
    maxDiff = 4000

    def start(self, count, **options):
        controller = Controller(count, options)
        self.addCleanup(controller.stop)
        return controller

    def single(self, **options):
        """One node that has all slots, and its client."""
        controller = self.start(1, **options)
        controller.publish([([0], "0-16383")])
        return controller, controller.clients[0]

    def refused(self, client, text, *command):
        reply = client.call(*command)
        self.assertIsInstance(reply, Error, command)
        self.assertIn(text, reply)

    def lease(self, client, ms, election=1, node=0):
        return client.must("CLUSTERX", "HEARTBEAT", node_id(node), ms, election)

    # The topology

    def test_a_node_without_a_topology(self):
        client = self.start(1).clients[0]
        self.assertEqual(client.call("CLUSTER", "INFO"), Error(b"CLUSTERDOWN The cluster is not initialized"))
        self.assertEqual(client.must("CLUSTERX", "VERSION"), b"-1")
        self.assertEqual(client.must("CLUSTERX", "MYID"), node_id(0))
        self.assertEqual(client.must("CLUSTER", "MYID"), node_id(0))
        self.refused(client, b"CLUSTERDOWN", "GET", "k")
        self.assertEqual(client.must("FLUSHALL"), OK)
        self.refused(client, b"CLUSTERDOWN The cluster is not initialized", "CLUSTERX", "HEARTBEAT", node_id(0), 1000, 1)

    def test_what_a_node_shows(self):
        controller = self.start(3)
        first, replica, other = controller.clients
        controller.publish([([0, 1], "0-8191"), ([2], "8192-16383")])
        until(lambda: b"master_link_status:up" in replica.must("INFO", "replication"), 60, "the replica's link")
        ports = [server.port for server in controller.servers]
        self.assertEqual(first.must("CLUSTER", "NODES").decode().splitlines(), [
            "%s 127.0.0.1:%d@0 myself,master - 0 0 1 connected 0-8191" % (node_id(0).decode(), ports[0]),
            "%s 127.0.0.1:%d@0 slave %s 0 0 1 connected" % (node_id(1).decode(), ports[1], node_id(0).decode()),
            "%s 127.0.0.1:%d@0 master - 0 0 1 connected 8192-16383" % (node_id(2).decode(), ports[2])])
        self.assertEqual(other.must("CLUSTER", "SLOTS"), [
            [0, 8191, [b"127.0.0.1", ports[0], node_id(0), []], [b"127.0.0.1", ports[1], node_id(1), []]], [8192, 16383, [b"127.0.0.1", ports[2], node_id(2), []]]])
        self.assertEqual(len(first.must("CLUSTER", "SHARDS")), 2)
        info = first.must("CLUSTER", "INFO")
        for line in (b"cluster_state:ok", b"cluster_slots_assigned:16384", b"cluster_known_nodes:3", b"cluster_current_epoch:1", b"cluster_my_epoch:1"):
            self.assertIn(line + b"\r\n", info)
        self.assertNotIn(b"migrating", info)
        self.assertEqual(first.must("CLUSTER", "MYSHARDID"), replica.must("CLUSTER", "MYSHARDID"))
        slot = first.must("CLUSTER", "KEYSLOT", "b")
        self.assertLess(slot, 8192)
        self.assertEqual(first.must("SET", "b", "1"), OK)
        self.assertEqual(first.must("CLUSTER", "COUNTKEYSINSLOT", slot), 1)
        self.assertEqual(first.must("CLUSTER", "GETKEYSINSLOT", slot, 9), [b"b"])
        self.assertEqual(other.call("GET", "b"), Error(b"MOVED %d 127.0.0.1:%d" % (slot, ports[0])))
        until(lambda: b"role:slave" in replica.must("INFO") and self.sequence(replica) == self.sequence(first) > 0, 60, "the same sequence")
        self.assertIn(b"slave_repl_offset:%d\r\n" % self.sequence(first), replica.must("INFO"))

    @staticmethod
    def sequence(client):
        return int(client.must("INFO", "replication").split(b"\r\nsequence:")[1].split(b"\r\n")[0])

    def test_a_failover_by_version(self):
        controller = self.start(3)
        old, replica, other = controller.clients
        controller.publish([([0, 1], "0-8191"), ([2], "8192-16383")])
        before = controller.text([([0, 1], "0-8191"), ([2], "8192-16383")])
        until(lambda: b"master_link_status:up" in replica.must("INFO", "replication"), 60, "the replica's link")
        self.assertEqual(old.must("SET", "b", "1"), OK)
        self.assertEqual(old.must("WAIT", 1, 60000), 1)
        self.assertEqual(replica.call("SET", "b", "2"), Error(b"MOVED 3300 127.0.0.1:%d" % controller.servers[0].port))
        controller.servers[0].kill9()
        controller.publish([([1, 0], "0-8191"), ([2], "8192-16383")], to=[1, 2])
        self.assertEqual(replica.must("SET", "b", "2"), OK)         # with the reply to SETNODES the role has changed
        self.assertEqual(other.call("GET", "b"), Error(b"MOVED 3300 127.0.0.1:%d" % controller.servers[1].port))
        self.refused(replica, b"ERR Invalid cluster version 1", "CLUSTERX", "SETNODES", before, 1)
        self.assertEqual(replica.must("CLUSTERX", "SETNODES", before, 2), OK)       # nothing is done
        self.assertEqual(replica.must("GET", "b"), b"2")
        controller.restart(0)                                       # with its old topology, until it is looked at
        old = controller.clients[0]
        self.assertEqual(old.must("CLUSTERX", "VERSION"), b"1")
        controller.publish([([1, 0], "0-8191"), ([2], "8192-16383")])
        old.must("READONLY")
        until(lambda: old.call("GET", "b") == b"2", 60, "the data of the new primary")
        self.refused(old, b"MOVED 3300", "SET", "b", "3")
        controller.restart(0)                                       # a replica follows its primary again by what the file says
        old = controller.clients[0]
        old.must("READONLY")
        until(lambda: old.call("GET", "b") == b"2", 60, "the data of the primary after a restart")

    def test_slots_are_given_one_by_one_and_their_keys_go(self):
        controller = self.start(2)
        first, other = controller.clients
        controller.publish([([0], "0-16383"), ([1], "")])
        self.assertEqual(first.must("SET", "b", "1"), OK)
        self.refused(first, b"ERR Invalid cluster version", "CLUSTERX", "SETSLOT", "3300", "NODE", node_id(1), 1)
        self.refused(first, b"ERR Invalid slot range", "CLUSTERX", "SETSLOT", "3300-1", "NODE", node_id(1), 2)
        for client in (first, other):
            self.assertEqual(client.must("CLUSTERX", "SETSLOT", "3300-3301", "NODE", node_id(1), 2), OK)
            self.assertIn(b" 3300-3301\n", client.must("CLUSTER", "NODES"))
        self.refused(first, b"MOVED 3300", "GET", "b")
        self.assertIsNone(other.call("GET", "b"))
        until(lambda: first.must("DBSIZE") == 0, 60, "the keys to go")

    def test_a_cluster_is_deleted(self):
        controller, client = self.single()
        self.lease(client, LONG_MS)
        self.assertEqual(client.must("SET", "k", "v"), OK)
        self.refused(client, b"ERR CLUSTER RESET", "CLUSTER", "RESET", "HARD")
        self.assertEqual(client.must("FLUSHALL"), OK)
        self.assertEqual(client.must("CLUSTER", "RESET", "HARD"), OK)
        self.assertEqual(client.must("CLUSTERX", "VERSION"), b"-1")
        self.assertNotEqual(client.must("CLUSTERX", "MYID"), node_id(0))
        self.assertEqual(client.must("CLUSTERX", "SETNODEID", node_id(0)), OK)
        controller.publish([([0], "0-16383")])
        self.assertEqual(client.must("SET", "k", "v"), OK)          # the next controller need not send leases

    def test_commands_of_the_other_control(self):
        controller, client = self.single()
        for command in ("MEET 127.0.0.1 1", "FORGET " + "a" * 40, "FAILOVER", "FAILOVER TAKEOVER", "ADDSLOTS 1", "ADDSLOTSRANGE 1 2", "DELSLOTS 1", "DELSLOTSRANGE 1 2",
                        "FLUSHSLOTS", "REPLICATE " + "a" * 40, "SETSLOT 1 STABLE", "SET-CONFIG-EPOCH 7", "BUMPEPOCH", "COUNT-FAILURE-REPORTS " + "a" * 40):
            self.refused(client, b"ERR This needs cluster-control gossip", "CLUSTER", *command.split())
        self.assertEqual(client.must("CLUSTER", "SAVECONFIG"), OK)
        self.assertEqual(client.must("CLUSTER", "LINKS"), [])
        self.assertIn(b"cluster_current_epoch:%d\r\n" % controller.version, client.must("CLUSTER", "INFO"))
        for words in ("REQUEST " + "n" * 40 + " " + "a" * 40 + " 1 2", "STATE " + "n" * 40, "CANCEL " + "n" * 40):
            self.refused(client, b"ERR This needs cluster-control gossip", "CLUSTER", "RECEIVESLOTS", *words.split())
        self.assertIn(b"CLUSTERX <subcommand>", client.must("CLUSTERX", "HELP")[0])
        with Node("kelvin") as gossip, gossip.client() as there:
            for command in ("VERSION", "MYID", "HELP", "SETNODEID " + "a" * 40, "SETNODES x 1", "SETSLOT 1 NODE x 1", "MIGRATE 1 x", "HEARTBEAT x 1 1"):
                self.refused(there, b"ERR CLUSTERX needs cluster-control managed", "CLUSTERX", *command.split())
        with Server() as alone, alone.client() as there:
            self.refused(there, b"cluster support disabled", "CLUSTERX", "VERSION")

    def test_wrong_arguments_change_nothing(self):
        _, client = self.single()
        for words in (["SETNODEID", "short"], ["SETNODEID", "a" * 39 + "-"], ["SETNODES", "", 2], ["SETNODES", "x" * 100000, 2], ["SETNODES", "x", "y"],
                      ["SETNODES", "x", 2, "FORCED"], ["SETNODES", "x", 2, "FORCE", "FORCE"], ["SETSLOT", "1", "NODES", node_id(0), 2], ["SETSLOT", "1", "NODE", "x", 2],
                      ["SETSLOT", "-1", "NODE", node_id(0), 2], ["SETSLOT", "1-", "NODE", node_id(0), 2], ["SETSLOT", "1-16384", "NODE", node_id(0), 2],
                      ["SETSLOT", "", "NODE", node_id(0), 2], ["HEARTBEAT", "x", 1, 1], ["HEARTBEAT", node_id(0), 0, 1], ["HEARTBEAT", node_id(0), 1 << 40, 1],
                      ["HEARTBEAT", node_id(0), 1000, -1], ["HEARTBEAT", node_id(1), 1000, 1]):
            self.refused(client, b"ERR ", "CLUSTERX", *words)
        self.assertEqual(client.must("CLUSTERX", "VERSION"), b"1")
        self.assertEqual(client.must("SET", "k", "v"), OK)

    def test_no_port_is_opened_for_the_bus(self):
        port = port_free()
        _, client = self.single(**{"cluster-port": port})
        self.assertEqual(client.must("PUBLISH", "channel", "text"), 0)
        with socket.socket() as probe:
            self.assertEqual(probe.connect_ex(("127.0.0.1", port)), errno.ECONNREFUSED)

    def test_the_directive(self):
        _, client = self.single()
        self.assertEqual(client.must("CONFIG", "GET", "cluster-control"), [b"cluster-control", b"managed"])
        self.refused(client, b"immutable", "CONFIG", "SET", "cluster-control", "gossip")
        with self.assertRaises(StartFailed) as failure:
            Server({"cluster-control": "managed"})
        self.assertIn("cluster-control managed needs cluster-enabled yes", str(failure.exception))

    # Leases

    def test_no_write_is_acknowledged_after_the_lease(self):
        controller, client = self.single()
        self.assertEqual(client.must("SET", "k", "0"), OK)          # free of leases until the first
        self.lease(client, LONG_MS)
        acknowledged, ends, failures = [], [], []

        def write(number):
            try:
                with controller.servers[0].client() as writer:
                    while True:
                        sent = time.monotonic()
                        reply = writer.call("INCR", "k%d" % number)
                        if reply == EXPIRED:
                            return
                        self.assertIsInstance(reply, int)
                        acknowledged.append(sent)
            except Exception as failure:                            # shown by the test's thread
                failures.append(failure)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for writer in writers:
            writer.start()
        until(lambda: len(acknowledged) > 100, 60, "writes")
        self.lease(client, 300)
        ends.append(time.monotonic() + 0.3)                         # at the latest
        for writer in writers:
            writer.join(60)
        self.assertEqual(failures, [])
        self.assertFalse(any(writer.is_alive() for writer in writers))
        self.assertLessEqual(max(acknowledged), ends[0])
        self.assertEqual(client.must("GET", "k"), b"0")             # reads go on
        self.refused(client, b"master lease expired", "EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "k")
        client.must("MULTI")
        self.assertEqual(client.call("SET", "k", "1"), EXPIRED)
        self.refused(client, b"EXECABORT", "EXEC")
        self.assertEqual(client.must("GET", "k"), b"0")
        self.assertEqual(self.lease(client, LONG_MS), b"role:master\r\nsequence:%d\r\n" % self.sequence(client))
        self.assertEqual(client.must("SET", "k", "1"), OK)

    def test_an_older_election_and_another_master_give_no_lease(self):
        _, client = self.single()
        self.lease(client, LONG_MS, election=5)
        self.lease(client, 1, election=5)
        until(lambda: client.call("SET", "k", "v") == EXPIRED, 60, "the end of the lease")
        self.refused(client, b"election version mismatch", "CLUSTERX", "HEARTBEAT", node_id(0), LONG_MS, 4)
        self.refused(client, b"master mismatch", "CLUSTERX", "HEARTBEAT", node_id(1), LONG_MS, 5)
        self.assertEqual(client.call("SET", "k", "v"), EXPIRED)
        self.lease(client, LONG_MS, election=6)
        self.assertEqual(client.must("SET", "k", "v"), OK)

    def test_a_heartbeat_that_waited_while_the_process_was_stopped_is_as_old_as_it_is(self):
        controller, client = self.single()
        self.lease(client, LONG_MS)
        with controller.servers[0].client() as heart, controller.servers[0].client() as writer:
            heart.must("PING")                                      # both are connected
            writer.must("PING")
            os.kill(controller.servers[0].process.pid, signal.SIGSTOP)
            try:
                heart.send(encode(("CLUSTERX", "HEARTBEAT", node_id(0), 200, 1)))
                time.sleep(0.4)                                     # the lease ends
            finally:
                os.kill(controller.servers[0].process.pid, signal.SIGCONT)
            self.assertIn(b"role:master", heart.receive())
            self.assertEqual(writer.call("SET", "k", "v"), EXPIRED)
        self.lease(client, LONG_MS)
        self.assertEqual(client.must("SET", "k", "v"), OK)

    def test_a_promoted_replica_needs_a_lease_of_its_own(self):
        controller = self.start(2)
        old, replica = controller.clients
        controller.publish([([0, 1], "0-16383")])
        for client in (old, replica):
            self.assertIn(b"role:master" if client is old else b"role:slave", self.lease(client, LONG_MS))
        controller.publish([([1, 0], "0-16383")])
        self.assertEqual(replica.call("SET", "k", "v"), EXPIRED)
        self.refused(replica, b"master mismatch", "CLUSTERX", "HEARTBEAT", node_id(0), LONG_MS, 1)
        self.lease(replica, LONG_MS, node=1)
        self.assertEqual(replica.must("SET", "k", "v"), OK)

    # What is kept

    def test_a_restart_keeps_the_topology_and_that_leases_are_needed(self):
        controller, client = self.single(appendonly="yes")
        self.assertEqual(client.must("SET", "k", "v"), OK)
        nodes = client.must("CLUSTER", "NODES")
        controller.restart(0)
        client = controller.clients[0]
        self.assertEqual(client.must("CLUSTER", "NODES"), nodes)
        self.assertEqual((client.must("CLUSTERX", "MYID"), client.must("CLUSTERX", "VERSION")), (node_id(0), b"1"))
        self.assertIn(b"cluster_state:ok", client.must("CLUSTER", "INFO"))
        self.assertEqual(client.must("SET", "k", "w"), OK)
        self.lease(client, LONG_MS, election=7)
        controller.restart(0)
        client = controller.clients[0]
        self.assertEqual(client.call("SET", "k", "x"), EXPIRED)
        self.assertEqual(client.must("GET", "k"), b"w")
        self.refused(client, b"election version mismatch", "CLUSTERX", "HEARTBEAT", node_id(0), LONG_MS, 6)
        self.lease(client, LONG_MS, election=7)
        self.assertEqual(client.must("SET", "k", "x"), OK)

    def with_disk(self):
        """One node with all slots, on a disk that does what the test says."""
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder)
        disk = disks.Disk(folder)
        self.addCleanup(os.unlink, disk.control_path)
        server = Server(OPTIONS, folder=folder, environment=disk.environment)
        self.addCleanup(server.stop)
        client = server.client()
        self.addCleanup(client.close)
        self.assertEqual(client.must("CLUSTERX", "SETNODEID", node_id(0)), OK)
        self.assertEqual(client.must("CLUSTERX", "SETNODES", self.line(server, "0-16383"), 1), OK)
        return disk, server, client

    @staticmethod
    def line(server, slots):
        return "%s 127.0.0.1 %d master - %s" % (node_id(0).decode(), server.port, slots)

    def test_kill_9_before_and_after_the_save(self):
        for action, version in ((disks.KILL_BEFORE, b"1"), (disks.KILL_AFTER, b"2")):
            disk, server, client = self.with_disk()
            text = self.line(server, "0-16382")
            disk.rule(0, "rename", "nodes.conf*", action)
            with self.assertRaises(Exception):
                client.call("CLUSTERX", "SETNODES", text, 2)
            self.assertEqual(server.wait_end(), -signal.SIGKILL)
            disk.rule(0, "rename", "nodes.conf*", disks.NOTHING)
            server.start()
            with server.client() as again:
                self.assertEqual((again.must("CLUSTERX", "MYID"), again.must("CLUSTERX", "VERSION")), (node_id(0), version))
                self.assertEqual(again.must("CLUSTERX", "SETNODES", text, 2), OK)
                self.assertIn(b" 0-16382\n", again.must("CLUSTER", "NODES"))

    def test_a_topology_that_can_not_be_saved_is_an_error_and_holds_until_it_can(self):
        disk, server, client = self.with_disk()
        disk.rule(0, "sync write", "nodes.conf*", disks.FAIL, error=errno.ENOSPC)
        self.refused(client, b"ERR error saving the cluster node config", "CLUSTERX", "SETNODES", self.line(server, "0-16382"), 2)
        self.refused(client, b"CLUSTERDOWN", "GET", "b")            # with a slot less the cluster is not ok
        self.assertIn(b"cluster_current_epoch:2", client.must("CLUSTER", "INFO"))
        disk.rule(0, "sync write", "nodes.conf*", disks.NOTHING)
        self.assertIn(b"cluster_current_epoch:2", client.must("CLUSTER", "INFO"))      # saved with this
        server.restart(kill=True)
        with server.client() as again:
            self.assertEqual(again.must("CLUSTERX", "VERSION"), b"2")


if __name__ == "__main__":
    main()
