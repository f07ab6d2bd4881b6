#!/usr/bin/python3
"""The directives of replication: each of them has its effect, or is refused."""
import ctypes
import errno
import os
import re
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import value_of
from support.disk import FAIL, Disk
from support.replication import servers
from support.replication.case import PRIMARIES, REPLICAS, ReplicationCase, main, only
from support.replication.recorder import Recorder
from support.replication.scripted import ScriptedPrimary, make_rdb
from support.resp import Error, Status
from support.server import is_sanitized, until

PIDFD_OPEN, PIDFD_GETFD = 434, 438
SELECT_0 = ["SELECT", "0"]

ALIASES = {
    "replica-serve-stale-data": "slave-serve-stale-data", "replica-read-only": "slave-read-only", "replica-lazy-flush": "slave-lazy-flush",
    "replica-ignore-maxmemory": "slave-ignore-maxmemory", "replica-priority": "slave-priority", "replica-announce-ip": "slave-announce-ip",
    "replica-announce-port": "slave-announce-port", "repl-ping-replica-period": "repl-ping-slave-period",
    "min-replicas-to-write": "min-slaves-to-write", "min-replicas-max-lag": "min-slaves-max-lag", "replicaof": "slaveof",
}


def socket_of(process, descriptor):
    """The same socket as another process has."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    pidfd = call(PIDFD_OPEN, process.pid, 0)
    try:
        copy = call(PIDFD_GETFD, pidfd, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return socket.socket(fileno=copy)
    finally:
        os.close(pidfd)


class PrimaryTest(ReplicationCase):
    def recorder(self, primary, **options):
        recorder = Recorder(primary.address, **options).full().wait_loaded()
        self.addCleanup(recorder.cut)
        return recorder

    @only(*PRIMARIES)
    def scenario_repl_disable_tcp_nodelay(self):
        primary = self.start("primary")
        for value, wanted in (("no", True), ("yes", False)):
            with self.subTest(value=value):
                servers.set_config(primary, repl_disable_tcp_nodelay=value)
                recorder = self.recorder(primary)
                line = servers.must(primary, "CLIENT LIST TYPE replica").decode()
                with socket_of(primary.process, int(re.search(r" fd=(\d+) ", line).group(1))) as copy:
                    self.assertEqual(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0, wanted)
                recorder.cut()
                until(lambda: servers.replication(primary)["connected_slaves"] == "0", 10, "it has left")

    @only(*PRIMARIES)
    def scenario_repl_ping_replica_period(self):
        primary = self.start("primary", {"repl-ping-replica-period": 1000})
        recorder = self.recorder(primary)
        servers.must(primary, "SET k v")
        time.sleep(2.2)

        def pings():
            return [args for args in recorder.commands() if args[0].upper() == b"PING"]

        before = len(pings())
        self.assertLessEqual(before, 1)         # the first one comes at once
        servers.set_config(primary, repl_ping_slave_period=1)
        until(lambda: len(pings()) >= before + 2, 10, "a PING each second")

    @only(*PRIMARIES)
    def scenario_repl_backlog_ttl(self):
        primary = self.start("primary", {"repl-backlog-ttl": 1})
        recorder = self.recorder(primary)
        time.sleep(1.3)
        self.assertEqual(servers.replication(primary)["repl_backlog_active"], "1")
        recorder.cut()
        until(lambda: servers.replication(primary)["repl_backlog_active"] == "0", 15, "the backlog is freed")

    def scenario_replica_announced_and_priority(self):
        replica = self.start("replica")
        primary = self.start("primary")
        servers.make_replica(replica, primary)
        found = servers.replication(replica)
        self.assertEqual((found["replica_announced"], found["slave_priority"]), ("1", "100"))
        servers.set_config(replica, replica_announced="no", replica_priority=7)
        found = servers.replication(replica)
        self.assertEqual((found["replica_announced"], found["slave_priority"]), ("0", "7"))


class AliasTest(ReplicationCase):
    @only(*PRIMARIES)
    def scenario_of_all_aliases(self):
        server = self.start("primary")
        for name, alias in ALIASES.items():
            with self.subTest(name=name):
                for asked in (name, alias):
                    self.assertEqual(servers.must(server, "CONFIG GET " + asked)[0], asked.encode())
                values = {"replica-announce-ip": "10.1.1.1"}.get(name)
                old = servers.must(server, "CONFIG GET " + name)[1]
                new = values or {b"yes": "no", b"no": "yes"}.get(old) or "17"
                if name == "replicaof":
                    continue
                servers.must(server, "CONFIG SET %s %s" % (alias, new))
                self.assertEqual([servers.must(server, "CONFIG GET " + asked)[1] for asked in (name, alias)], [new.encode()] * 2)
                servers.must(server, "CONFIG SET %s %s" % (name, old.decode() or '""'))

    @only("kelvin-redis")
    def scenario_repl_diskless_load_is_refused(self):
        server = self.start("primary")
        for value in ("on-empty-db", "swapdb"):
            reply = servers.values_of(server, "CONFIG SET repl-diskless-load " + value)[0]
            self.assertIsInstance(reply, Error)
            self.assertIn(b"the only value accepted is 'disabled'", reply)
        self.assertEqual(servers.must(server, "CONFIG SET repl-diskless-load disabled"), Status(b"OK"))


class ReplicaTest(ReplicationCase):
    @classmethod
    def setUpClass(cls):
        cls.rdb = make_rdb(["SET", "from", "rdb"])

    def synced(self, options):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", options)
        servers.make_replica(replica, primary, wait=False)
        link = primary.link().full(self.rdb, offset=100).wait_ack()
        link.send_commands(SELECT_0, ["SET", "k", "v"]).wait_ack()
        return replica, link

    def ends(self, replica, words):
        self.assertNotEqual(replica.wait_end(20), 0)
        self.assertIn(words, replica.log())
        replica.expect_crash = True

    @only(*REPLICAS)
    def scenario_propagation_error_behavior(self):
        for value in ("panic", "panic-on-replicas"):
            for commands in ([["INCR", "k"]], [["MULTI"], ["SET", "a", "1"], ["INCR", "k"], ["EXEC"]]):
                with self.subTest(value=value, commands=commands):
                    replica, link = self.synced({"propagation-error-behavior": value})
                    link.send_commands(*commands)
                    self.ends(replica, b"panicked")

    @only("redis-kelvin")
    def scenario_what_has_failed_is_not_in_the_log(self):
        """After its end the replica has what was applied before, and asks for the command again."""
        replica, link = self.synced({"propagation-error-behavior": "panic", "appendonly": "yes"})
        at = link.sent
        link.send_commands(["INCR", "k"], ["SET", "after", "1"])
        self.ends(replica, b"panicked")
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica.options["propagation-error-behavior"] = "ignore"
        replica.start()
        self.assertEqual(servers.values_of(replica, "GET k", "GET after"), [b"v", None])
        servers.make_replica(replica, primary, wait=False)
        self.assertLessEqual(primary.link().asked[1], at + 1)

    @only(*REPLICAS)
    def scenario_errors_are_ignored_else(self):
        replica, link = self.synced({})
        link.send_commands(["INCR", "k"], ["SET", "after", "1"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET after")[0], b"1")

    def failing(self, value):
        """A replica whose last dump has failed: a directory has its name."""
        replica, link = self.synced({"save": "3600 1", "replica-ignore-disk-write-errors": value, "stop-writes-on-bgsave-error": "yes"})
        path = os.path.join(replica.folder, "dump.rdb")
        if os.path.exists(path):
            os.unlink(path)
        os.mkdir(path)
        servers.values_of(replica, "BGSAVE")
        until(lambda: replica.info("persistence")["rdb_last_bgsave_status"] == "err", 20, "the dump fails")
        return replica, link

    @only(*REPLICAS)
    def scenario_that_can_not_write_ends(self):
        replica, link = self.failing("no")
        link.send_commands(["PING"], ["REPLCONF", "GETACK", "*"]).wait_ack()
        self.assertTrue(replica.alive())
        link.send_commands(["SET", "k", "w"])
        self.ends(replica, b"Replica was unable to write command to disk.")

    @only(*REPLICAS)
    def scenario_that_ignores_its_disk_goes_on(self):
        replica, link = self.failing("yes")
        link.send_commands(["SET", "k", "w"], ["MULTI"], ["SET", "l", "x"], ["EXEC"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET k", "GET l"), [b"w", b"x"])
        self.assertIn(b"Replica is applying a command even though it is unable to write to disk.", replica.log())
        os.rmdir(os.path.join(replica.folder, "dump.rdb"))

    @only("redis-kelvin")
    def scenario_whose_log_can_not_be_written(self):
        for value in ("no", "yes"):
            with self.subTest(value=value):
                primary = ScriptedPrimary()
                self.addCleanup(primary.close)
                replica = self.start("replica", {"appendonly": "yes", "appendfsync": "everysec", "replica-ignore-disk-write-errors": value}, start=False)
                disk = Disk(replica.folder)
                self.addCleanup(disk.remove)
                replica.environment = disk.environment
                replica.start()
                servers.make_replica(replica, primary, wait=False)
                link = primary.link().full(self.rdb, offset=100).wait_ack()
                link.send_commands(SELECT_0, ["SET", "before", "1"]).wait_ack()
                disk.rule(0, "write", "*.incr.aof", FAIL, error=errno.ENOSPC)
                link.send_commands(["SET", "first", "1"]).wait_ack()
                until(lambda: replica.info("persistence")["aof_last_write_status"] == "err", 20, "the log is in error")
                link.send_commands(["SET", "second", "1"])
                if value == "no":
                    self.ends(replica, b"Replica was unable to write command to disk.")
                    disk.heal()
                else:
                    link.wait_ack()
                    self.assertEqual(servers.values_of(replica, "GET second")[0], b"1")
                    disk.heal()
                    until(lambda: replica.info("persistence")["aof_last_write_status"] == "ok", 20, "the log is written again")
                    replica.terminate()
                replica.start()
                found = servers.values_of(replica, "GET before", "GET first", "GET second")
                self.assertEqual(found[0], b"1")
                self.assertEqual(found[2], None if value == "no" else b"1")


class RewriteTest(ReplicationCase):
    """CONFIG REWRITE of what was set while the server ran."""

    @only(*REPLICAS)
    def scenario_of_a_primary_that_was_set_at_run_time(self):
        primary = self.start("primary")
        replica = self.start("replica", config="# a comment\nmasterauth old\nreplica-priority 3\n")
        path = replica.info("server")["config_file"]

        def lines(name):
            with open(path, encoding="latin1") as file:
                return [line.rstrip("\n") for line in file if line.split(" ")[0] == name]

        with self.client(replica) as client:
            client.must("CONFIG", "SET", "masteruser", "joe \"the\" user", "masterauth", "a b\\c\"d'e#\n\x01")
            client.must("REPLICAOF", *primary.address)
            client.must("CONFIG", "REWRITE")
            wanted = sorted(client.must("CONFIG", "GET", "master*"))
        self.assertEqual(lines("replicaof"), ["replicaof 127.0.0.1 %d" % primary.port])
        self.assertEqual(len(lines("masterauth")), 1)
        self.assertEqual(len(lines("masteruser")), 1)
        replica.restart()
        with self.client(replica) as client:
            self.assertEqual(sorted(client.must("CONFIG", "GET", "master*")), wanted)
            self.assertEqual(client.must("ROLE")[1:3], [b"127.0.0.1", primary.port])
            self.assertEqual(client.must("CONFIG", "GET", "replica-priority")[1], b"3")
            client.must("REPLICAOF", "NO", "ONE")
            client.must("CONFIG", "SET", "masteruser", "", "masterauth", "")
            client.must("CONFIG", "REWRITE")
        self.assertEqual([lines(name) for name in ("replicaof", "masteruser", "masterauth")], [[], [], []])
        replica.restart()
        self.assertEqual(servers.replication(replica)["role"], "master")

    @only(*REPLICAS)
    def scenario_of_directives_that_change_beside_replicaof(self):
        """Both finish: neither holds what the other one waits for."""
        primary, other, replica = self.start("primary"), self.start("primary"), self.start("replica")
        done = []

        def change():
            with replica.client(timeout=60) as client:
                for number in range(300):
                    client.must("CONFIG", "SET", "masteruser", "", "repl-timeout", 50 + number % 5)
            done.append(True)

        thread = threading.Thread(target=change)
        thread.start()
        with replica.client(timeout=60) as client:
            while not done and thread.is_alive():
                for address in (primary.address, other.address):
                    reply = client.call("REPLICAOF", *address)
                    if isinstance(reply, Error):        # the data is being replaced: nothing is changed until that has ended
                        self.assertTrue(reply.startswith(b"LOADING"), reply)
        thread.join(60)
        self.assertEqual(done, [True])
        servers.make_replica(replica, primary)


class StatisticsTest(ReplicationCase):
    def scenario_of_what_the_stream_runs(self):
        primary, replica = self.pair(replica_options={"slowlog-log-slower-than": 0, "latency-tracking": "yes"})
        with self.client(replica) as monitor, self.client(replica) as client:
            monitor.must("MONITOR")
            servers.must(primary, "SET k v", "INCR n", "INCR n", "HSET h a 1")
            servers.wait_in_sync(primary, replica)
            stats = client.must("INFO", "commandstats").decode()
            for name, calls in (("set", 1), ("incr", 2), ("hset", 1)):
                self.assertIn("cmdstat_%s:calls=%d," % (name, calls), stats)
            self.assertIn("latency_percentiles_usec_incr:", client.must("INFO", "latencystats").decode())
            logged = {tuple(entry[3]): entry[4] for entry in client.must("SLOWLOG", "GET", -1)}
            self.assertEqual(logged[(b"INCR", b"n")], b"127.0.0.1:%d" % primary.port)
            seen = b""
            while b"hset" not in seen.lower():
                seen += bytes(monitor.receive()) + b"\n"
            self.assertRegex(seen, rb'\[0 127\.0\.0\.1:%d\] "INCR" "n"' % primary.port)
            self.assertGreaterEqual(int(replica.info("persistence")["rdb_changes_since_last_save"]), 4)
            client.must("CONFIG", "RESETSTAT")
            self.assertNotIn("cmdstat_incr:", client.must("INFO", "commandstats").decode())

    def scenario_of_the_traffic(self):
        primary, replica = self.pair()
        before = [int(primary.info("stats")["total_net_repl_output_bytes"]), int(replica.info("stats")["total_net_repl_input_bytes"])]
        self.assertGreater(before[0], 0)
        self.assertGreater(before[1], 0)
        servers.must(primary, "SET k " + "v" * 100000)
        servers.wait_in_sync(primary, replica)
        sent, received = primary.info("stats"), replica.info("stats")
        self.assertGreater(int(sent["total_net_repl_output_bytes"]) - before[0], 100000)
        self.assertGreater(int(received["total_net_repl_input_bytes"]) - before[1], 100000)
        self.assertLess(int(received["total_net_repl_input_bytes"]) - before[1], 110000)
        self.assertGreaterEqual(int(sent["total_net_output_bytes"]), int(sent["total_net_repl_output_bytes"]))
        self.assertGreaterEqual(int(received["total_net_input_bytes"]), int(received["total_net_repl_input_bytes"]))
        self.assertEqual([sent["total_net_repl_input_bytes"], received["total_net_repl_output_bytes"]], ["0", "0"])
        until(lambda: float(primary.info("stats")["instantaneous_output_repl_kbps"]) > 0, 5, "a rate of what was sent")
        until(lambda: float(replica.info("stats")["instantaneous_input_repl_kbps"]) > 0, 5, "a rate of what was received")

    def scenario_of_the_link_as_a_client(self):
        primary, replica = self.pair()
        servers.must(primary, "SELECT 3", "SET k v", "SELECT 5", "SET k v")
        servers.wait_in_sync(primary, replica)
        [line] = servers.must(replica, "CLIENT LIST TYPE master").decode().splitlines()
        found = dict(field.split("=", 1) for field in line.split(" "))
        self.assertEqual((found["addr"], found["flags"], found["db"], found["cmd"], found["user"]), ("127.0.0.1:%d" % primary.port, "M", "5", "set", "(superuser)"))
        [other] = servers.must(primary, "CLIENT LIST TYPE replica").decode().splitlines()
        self.assertEqual(dict(field.split("=", 1) for field in other.split(" "))["addr"], found["laddr"])
        self.assertIn(line.split(" cmd")[0].split(" age")[0], servers.must(replica, "CLIENT LIST").decode())
        self.assertEqual(replica.info("clients")["connected_clients"], "2")
        self.assertNotIn(" flags=M", servers.must(replica, "CLIENT LIST TYPE normal").decode())
        self.assertEqual(servers.must(replica, "CLIENT KILL ID " + found["id"]), 1)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 1, 20, "it is back")
        servers.wait_in_sync(primary, replica)
        self.assertEqual(servers.must(replica, "CLIENT KILL ADDR 127.0.0.1:%d" % primary.port), 1)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 2, 20, "it is back")
        servers.must(primary, "SET k v")
        self.same(primary, replica)


@unittest.skipIf(is_sanitized(), "a sanitizer's allocator is not metered")
class MaxmemoryTest(ReplicationCase):
    """replica-ignore-maxmemory. Kelvin demotes what does not fit, and evicts what it can't demote."""
    LIMIT, SIZE, COUNT = 32 << 20, 20000, 3000          # so 60 MB

    def filled(self, ignore, **more):
        primary = self.start("primary")
        replica = self.start("replica", {"maxmemory": self.LIMIT, "maxmemory-policy": "allkeys-lru", "replica-ignore-maxmemory": ignore, **more})
        servers.make_replica(replica, primary)
        with self.client(primary, timeout=60) as client:
            for at in range(0, self.COUNT, 50):
                client.pipeline([["SET", "k%d" % number, value_of(number, self.SIZE)] for number in range(at, at + 50)])
                until(lambda: servers.replication(replica)["slave_repl_offset"] == servers.replication(primary)["master_repl_offset"], 20, "applied")
        return primary, replica, int(replica.info("stats")["evicted_keys"])

    def scenario_no_evicts_what_does_not_fit(self):
        primary, replica, evicted = self.filled("no", **{"tier-enabled": "no"})
        self.assertGreater(evicted, self.COUNT // 4)
        self.assertEqual(servers.values_of(replica, "DBSIZE"), [self.COUNT - evicted])
        self.assertLess(int(replica.info("memory")["used_memory"]), self.LIMIT * 11 // 10)
        self.assertEqual(servers.values_of(primary, "DBSIZE"), [self.COUNT])
        # Its history stays the primary's: it continues.
        servers.cut_links(primary)
        servers.must(primary, "SET after 1")
        servers.wait_in_sync(primary, replica)
        self.assertEqual(servers.values_of(replica, "GET after"), [b"1"])
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    def scenario_yes_evicts_nothing(self):
        primary, replica, evicted = self.filled("yes", **{"tier-enabled": "no"})
        self.assertEqual(evicted, 0)
        self.same(primary, replica, least=self.COUNT)

    @only("redis-kelvin", "kelvin-kelvin")
    def scenario_no_evicts_nothing_that_can_be_demoted(self):
        primary, replica, evicted = self.filled("no")
        self.assertEqual(evicted, 0)
        self.same(primary, replica, least=self.COUNT)

    @only("redis-kelvin", "kelvin-kelvin")
    def scenario_no_evicts_nothing_while_it_is_far_behind(self):
        """What it has received and not applied is no reason: it is on the disk."""
        primary = self.start("primary", {"repl-backlog-size": 512 << 20, "client-output-buffer-limit": ["replica", "0", "0", "0"]})
        replica = self.start("replica", {"maxmemory": 24 << 20, "maxmemory-policy": "allkeys-lru", "replica-ignore-maxmemory": "no"})
        servers.make_replica(replica, primary)
        with self.client(primary, timeout=60) as client:
            for turn in range(700):
                fields = range(50 * turn, 50 * turn + 50)
                client.pipeline([["HSET", "hash", number, value_of(number, 500)] for number in fields] + [["RPUSH", "list", value_of(number, 300)] for number in fields] +
                                [["ZADD", "zset", number % 977, number] for number in fields] + [["SET", "k%d" % (turn % 40), value_of(turn, 800000 if turn % 5 == 0 else 1000)]])
        servers.wait_in_sync(primary, replica, timeout=120)
        self.assertEqual(replica.info("stats")["evicted_keys"], "0")
        self.assertEqual(servers.values_of(replica, "HLEN hash", "LLEN list", "ZCARD zset", "DBSIZE"), [35000, 35000, 35000, 43])

    def scenario_no_limits_a_full_synchronization(self):
        primary = self.start("primary")
        with self.client(primary, timeout=60) as client:
            client.pipeline([["SET", "k%d" % number, value_of(number, self.SIZE)] for number in range(self.COUNT)])
        replica = self.start("replica", {"maxmemory": self.LIMIT, "maxmemory-policy": "allkeys-lru", "replica-ignore-maxmemory": "no",
                                         "tier-enabled": "no"})
        servers.make_replica(replica, primary)
        servers.must(primary, *("SET after %d" % number for number in range(100)))       # keys are evicted when commands come
        servers.wait_in_sync(primary, replica)
        until(lambda: int(replica.info("memory")["used_memory"]) < self.LIMIT * 11 // 10, 20, "it is within the limit")
        self.assertLess(servers.values_of(replica, "DBSIZE")[0], self.COUNT)


if __name__ == "__main__":
    main()
