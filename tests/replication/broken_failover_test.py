#!/usr/bin/python3
"""FAILOVER over a network that breaks while the replica is asked to take over: one primary in the end, and no write lost."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.load import NumberedWriter
from support.replication.proxy import Proxy
from support.server import until

FROM_KELVIN = ("kelvin-redis", "kelvin-kelvin")


def asks(request):
    return b"FAILOVER\r\n" in request


class BrokenFailoverTest(ReplicationCase):
    def through_proxy(self, cut, options=None):
        """A pair of which the primary reaches the replica by a proxy only, and a writer."""
        primary, replica = self.start("primary", options), self.start("replica", options)
        proxy = Proxy(replica.address)
        self.addCleanup(proxy.stop)
        servers.set_config(replica, replica_announce_port=proxy.port)
        servers.make_replica(replica, primary)
        until(lambda: "port=%d,state=online" % proxy.port in servers.replication(primary).get("slave0", ""), 20, "the replica is online")
        proxy.cut = lambda request, reply: proxy.cuts == 0 and cut(request, reply)
        writer = NumberedWriter(lambda: primary.client(), pause_s=0.001)
        writer.start()
        self.addCleanup(writer.halt.set)
        until(lambda: len(writer.acknowledged) > 50, 20, "writes")
        servers.must(primary, "FAILOVER TO 127.0.0.1 %d" % proxy.port)
        until(lambda: proxy.cuts == 1, 20, "the connection is cut")
        return primary, replica, proxy, writer

    def check_exchanged(self, primary, replica, proxy, writer):
        until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 30, "the failover is over")
        writer.stop()
        self.assertEqual([servers.replication(server)["role"] for server in (primary, replica)], ["slave", "master"])
        self.assertEqual(servers.replication(primary)["master_port"], str(proxy.port))
        servers.must(replica, "SET after 1")
        until(lambda: servers.replication(primary)["slave_repl_offset"] == servers.replication(replica)["master_repl_offset"], 20, "in sync")
        self.assertEqual(writer.lost(primary, writer.acknowledged), [])
        self.assertEqual(writer.lost(replica, writer.acknowledged), [])
        self.assertEqual(servers.count_of(replica, "sync_full"), 0)

    def scenario_whose_reply_is_lost(self):
        """It has taken over, and the former primary finds that out. redis-server stays a primary, too."""
        primary, replica, proxy, writer = self.through_proxy(lambda request, reply: asks(request) and b"\n+CONTINUE" in reply)
        if self.primary_kind == "redis":
            until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 30, "the failover is over")
            self.assertEqual([servers.replication(server)["role"] for server in (primary, replica)], ["master", "master"])
        else:
            self.check_exchanged(primary, replica, proxy, writer)

    @only(*FROM_KELVIN)
    def scenario_whose_reply_is_lost_in_the_middle_of_the_line(self):
        primary, replica, proxy, writer = self.through_proxy(lambda request, reply: asks(request) and b"\n+C" in reply, {"appendonly": "yes"})
        self.check_exchanged(primary, replica, proxy, writer)

    @only(*FROM_KELVIN)
    def scenario_whose_request_is_lost(self):
        """It is asked again."""
        self.check_exchanged(*self.through_proxy(lambda request, reply: asks(request)))

    @only(*FROM_KELVIN)
    def scenario_whose_target_comes_back_without_its_data(self):
        """It is a primary, but none that has taken over: the former one goes on, with all of its data."""
        primary, replica, proxy, writer = self.through_proxy(lambda request, reply: asks(request))
        proxy.cut = lambda request, reply: True             # nothing passes
        replica.kill9()
        replica.options["port"] = replica.port
        replica.start()
        self.assertEqual(servers.values_of(replica, "DBSIZE"), [0])
        proxy.cut = lambda request, reply: False
        self.check_kept(primary, writer)

    @only(*FROM_KELVIN)
    def scenario_before_the_request(self):
        self.check_exchanged(*self.through_proxy(lambda request, reply: b"REPLCONF" in request))

    @only(*FROM_KELVIN)
    def scenario_whose_target_was_promoted_by_somebody_else(self):
        """It had not been asked before: the former primary does not follow it, as in Redis."""
        primary, replica, proxy, writer = self.through_proxy(lambda request, reply: b"REPLCONF" in request)
        proxy.cut = lambda request, reply: True
        servers.must(replica, "REPLICAOF NO ONE", "SET other 1")
        proxy.cut = lambda request, reply: False
        self.check_kept(primary, writer)

    def check_kept(self, primary, writer):
        until(lambda: servers.replication(primary)["master_failover_state"] == "no-failover", 30, "the failover is over")
        self.assertEqual(servers.replication(primary)["role"], "master")
        count = len(writer.acknowledged)
        until(lambda: len(writer.acknowledged) > count + 50, 20, "writes go on")
        writer.stop()
        self.assertEqual(writer.lost(primary, writer.acknowledged), [])


if __name__ == "__main__":
    main()
