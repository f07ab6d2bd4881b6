#!/usr/bin/python3
"""Servers without work: what PING and Sentinel's messages add to the log asks for no checkpoint by time, and does not grow without bound.

For Kelvin, which has these bytes in its log: redis-server writes neither PING nor PUBLISH there."""
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.server import until

PINGS = 4
PING_SIZE = len(b"*1\r\n$4\r\nPING\r\n")


def offset(server):
    return int(servers.replication(server)["master_repl_offset"])


def checkpoints(server):
    return server.log().count(b"Starting automatic rewriting of AOF")


def log_size(server):
    size = 0
    for path in glob.glob(os.path.join(server.folder, "appendonlydir", "*.incr.aof")):
        try:
            size += os.path.getsize(path)
        except FileNotFoundError:
            pass                        # a checkpoint has removed it
    return size


class IdleTest(ReplicationCase):
    def idle_pair(self, **options):
        return self.pair(appendonly="yes", repl_ping_replica_period=1, **options)

    @only("kelvin-redis", "kelvin-kelvin", "redis-kelvin")
    def scenario_takes_no_checkpoints_by_time(self):
        primary, replica = self.start("primary"), self.start("replica")
        ours = [server for server in (primary, replica) if server.kelvin]
        for server in (primary, replica):
            servers.set_config(server, appendonly="yes")
        servers.set_config(primary, repl_ping_replica_period=1)
        servers.make_replica(replica, primary)
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        for server in ours:
            servers.set_config(server, checkpoint_seconds=1)
            until(lambda: checkpoints(server) == 1, 20, "a checkpoint for the change")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "its end")
        before, size = offset(primary), [log_size(server) for server in ours]
        until(lambda: offset(primary) >= before + PINGS * PING_SIZE, 20, "pings")
        servers.wait_in_sync(primary, replica)
        self.assertEqual([checkpoints(server) for server in ours], [1] * len(ours))
        until(lambda: all(log_size(server) > old for server, old in zip(ours, size)), 20, "they are in the log")
        for server, old in zip(ours, size):
            self.assertLess(log_size(server), old + (offset(primary) - before) + 200)
        servers.must(primary, "SET k w")
        until(lambda: [checkpoints(server) for server in ours] == [2] * len(ours), 20, "a checkpoint for the next change")
        self.same(primary, replica)

    @only("kelvin-redis", "kelvin-kelvin", "redis-kelvin")
    def scenario_has_a_bounded_log(self):
        """Messages as Sentinel's, some days of them: the log is rewritten as it grows, as by changes."""
        primary, replica = self.idle_pair(auto_aof_rewrite_min_size=20000, auto_aof_rewrite_percentage=100)
        servers.must(primary, "SET k v")
        ours = [server for server in (primary, replica) if server.kelvin]
        with self.client(primary) as client:
            for _ in range(30):
                client.pipeline([["PUBLISH", "__sentinel__:hello", "x" * 100]] * 100)
                # What is written while a rewrite runs is in the new log, too.
                until(lambda: all(server.info("persistence")["aof_rewrite_in_progress"] == "0" for server in ours), 20, "the end of a rewrite")
        servers.wait_in_sync(primary, replica)
        self.assertGreater(offset(primary), 400000)
        for server in ours:
            until(lambda: log_size(server) < 100000, 20, "the log is short again")
        self.same(primary, replica)


if __name__ == "__main__":
    main()
