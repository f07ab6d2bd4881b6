#!/usr/bin/python3
"""Replication with passwords, users, TLS and announced addresses."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import fill_all_types
from support.replication.readings import check_same
from support.resp import Client
from support.server import port_free, until
from support.tls import Authority

RULES = "+psync +replconf +ping"


class AccessTest(ReplicationCase):
    def scenario_with_a_password(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=1)
        servers.must(primary, "CONFIG SET requirepass secret")
        replica = self.start("replica", {"masterauth": "wrong", "replicaof": ["127.0.0.1", primary.port]})
        until(lambda: b"WRONGPASS" in replica.log() or b"nable to AUTH" in replica.log(), 10, "refused")
        self.assertFalse(servers.link_is_up(replica))
        servers.set_config(replica, masterauth="secret")
        until(lambda: servers.link_is_up(replica), 20, "link up")
        with Client(primary.address) as client:
            client.must("AUTH", "secret")
            client.must("CONFIG", "SET", "requirepass", "")
        self.same(primary, replica, least=50)

    def scenario_with_a_user_that_may_do_nothing_else(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=1)
        servers.must(primary, "ACL SETUSER copier on >secret " + RULES)
        replica = self.start("replica", {"masteruser": "copier", "masterauth": "secret", "replicaof": ["127.0.0.1", primary.port]})
        self.same(primary, replica, least=50)
        servers.must(primary, "SET k v")
        self.same(primary, replica, least=50)

    def scenario_with_a_user_that_may_not(self):
        primary = self.start("primary")
        servers.must(primary, "ACL SETUSER other on >secret +@all -psync -sync ~*")
        replica = self.start("replica", {"masteruser": "other", "masterauth": "secret", "replicaof": ["127.0.0.1", primary.port]})
        until(lambda: b"NOPERM" in replica.log(), 10, "refused")
        self.assertFalse(servers.link_is_up(replica))

    def scenario_with_tls(self):
        authority = Authority()
        self.addCleanup(authority.close)
        authority.issue("server")
        ports = [port_free(), port_free()]
        common = {"tls-replication": "yes"}
        primary = self.start("primary", {**common, **authority.server_options(ports[0])})
        fill_all_types(primary, databases=2)
        replica = self.start("replica", {**common, **authority.server_options(ports[1])})
        servers.must(replica, "REPLICAOF 127.0.0.1 %d" % ports[0])
        until(lambda: servers.link_is_up(replica), 20, "link up")
        servers.must(primary, "SET k v")
        until(lambda: servers.replication(replica)["slave_repl_offset"] == servers.replication(primary)["master_repl_offset"], 20, "offsets equal")
        servers.cut_links(primary)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 1, 20, "back")
        check_same(primary, replica)

    def scenario_with_announced_addresses(self):
        primary = self.start("primary")
        replica = self.start("replica", {"replica-announce-ip": "10.9.8.7", "replica-announce-port": 1234, "replica-priority": 7})
        servers.make_replica(replica, primary)
        self.assertTrue(servers.replication(primary)["slave0"].startswith("ip=10.9.8.7,port=1234,"))
        until(lambda: [each[:2] for each in servers.values_of(primary, "ROLE")[0][2]] == [[b"10.9.8.7", b"1234"]], 10, "ROLE")
        self.assertEqual(servers.replication(replica)["slave_priority"], "7")


if __name__ == "__main__":
    main()
