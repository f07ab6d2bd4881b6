#!/usr/bin/python3
"""Moving from one server to another and back while clients write: attach, catch up, fail over. No write is lost; clients see reconnects only."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import NumberedWriter, fill_all_types
from support.server import until


class Address:
    """Where the clients connect: what a DNS name or a proxy is."""

    def __init__(self, server):
        self.server = server

    def connect(self):
        return self.server.client()


class MovingTest(ReplicationCase):
    def move(self, old, new, address):
        """FAILOVER from old to new; the clients are pointed to the new one."""
        with self.client(old) as client:
            client.must("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 10000)
        until(lambda: servers.replication(new)["role"] == "master", 20, "the new server is the primary")
        address.server = new
        until(lambda: servers.replication(old)["role"] == "slave", 20, "the old server is a replica")

    def scenario_there_and_back(self):
        backlog = {"repl-backlog-size": 32 << 20}
        old = self.start("primary", backlog)
        fill_all_types(old, databases=4)
        address = Address(old)
        writers = [NumberedWriter(address.connect, pause_s=0.002, prefix="w%d" % number) for number in range(3)]
        for writer in writers:
            self.addCleanup(writer.halt.set)
            writer.start()
        new = self.start("replica", backlog)
        servers.make_replica(new, old, wait=False)
        until(lambda: servers.link_is_up(new), servers.SYNC_LIMIT_S, "caught up")
        for source, target in ((old, new), (new, old), (old, new)):
            before = [len(writer.acknowledged) for writer in writers]
            self.move(source, target, address)
            until(lambda: all(len(writer.acknowledged) > count + 50 for writer, count in zip(writers, before)), 30, "the writers go on")
        for writer in writers:
            writer.stop()
        self.same(new, old, least=500)
        for writer in writers:
            self.assertEqual(writer.lost(new, writer.acknowledged), [])
            # A client that waited during the failover is sent to the new primary; nothing else goes wrong.
            for error in writer.errors:
                self.assertRegex(error, "READONLY|UNBLOCKED|Closed|Connection|MASTERDOWN")
        self.assertEqual(servers.count_of(old, "sync_full") + servers.count_of(new, "sync_full"), 1)


if __name__ == "__main__":
    main()
