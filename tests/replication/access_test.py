#!/usr/bin/python3
"""Replication with passwords, users, TLS and announced addresses."""
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import value_of
from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import fill_all_types
from support.replication.readings import check_same
from support.resp import Client
from support.server import port_free, scaled, until
from support.tls import Authority

LARGE = scaled(400)                     # values of 50 KB, so 20 MB


def write_values(server, prefix, count):
    with server.client(timeout=60) as client:
        for at in range(0, count, 20):
            client.pipeline([["SET", "%s%d" % (prefix, number), value_of(number, 50000)] for number in range(at, at + 20)])


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

    def with_tls(self, role, authority, **options):
        """(server, its TLS port)"""
        port = port_free()
        return self.start(role, {"tls-replication": "yes", **authority.server_options(port), **options}), port

    def authority(self):
        authority = Authority()
        self.addCleanup(authority.close)
        authority.issue("server")
        return authority

    def scenario_with_tls(self):
        authority = self.authority()
        primary, port = self.with_tls("primary", authority)
        fill_all_types(primary, databases=2)
        replica, _ = self.with_tls("replica", authority)
        servers.must(replica, "REPLICAOF 127.0.0.1 %d" % port)
        until(lambda: servers.link_is_up(replica), 20, "link up")
        servers.must(primary, "SET k v")
        until(lambda: servers.replication(replica)["slave_repl_offset"] == servers.replication(primary)["master_repl_offset"], 20, "offsets equal")
        servers.cut_links(primary)
        until(lambda: servers.count_of(primary, "sync_partial_ok") == 1, 20, "back")
        check_same(primary, replica)

    def scenario_with_tls_of_the_link_only(self):
        """The replica has no TLS port. Without certificates it is refused, and nothing is sent in the clear."""
        authority = self.authority()
        primary, port = self.with_tls("primary", authority)
        fill_all_types(primary, databases=1)
        options = {"tls-replication": "yes", **authority.server_options(0)}
        del options["tls-port"]
        replica = self.start("replica", {"replicaof": ["127.0.0.1", port], **options})
        late = self.start("replica", {"masterauth": "secret"})
        with late.client() as client:
            self.assertEqual(bytes(client.call("CONFIG", "SET", "tls-replication", "yes")), b"ERR CONFIG SET failed (possibly related to argument "
                             b"'tls-replication') - Unable to update TLS configuration. Check server logs.")
            self.assertEqual(client.must("CONFIG", "GET", "tls-replication"), [b"tls-replication", b"no"])
            for name, value in list(options.items())[1:] + [("masterauth", ""), ("tls-replication", "yes")]:
                client.must("CONFIG", "SET", name, value)
            client.must("REPLICAOF", "127.0.0.1", port)
        for server in (replica, late):
            until(lambda server=server: servers.link_is_up(server), 20, "link up")
            self.assertGreaterEqual(check_same(primary, server), 50)

    def scenario_with_tls_and_much_data(self):
        """An RDB of many pieces for several replicas, while clients write, and ACKs come on the same connections; both ways of sending it."""
        authority = self.authority()
        primary, port = self.with_tls("primary", authority, **{"repl-backlog-size": 64 << 20, "client-output-buffer-limit": ["replica", "0", "0", "0"]})
        write_values(primary, "k", LARGE)
        replicas = [self.with_tls("replica", authority)[0] for _ in range(3)]
        for diskless in ("yes", "no"):
            servers.set_config(primary, repl_diskless_sync=diskless)
            writer = threading.Thread(target=write_values, args=(primary, "w" + diskless, LARGE // 2))
            writer.start()
            for replica in replicas:
                servers.must(replica, "REPLICAOF NO ONE", "FLUSHALL", "REPLICAOF 127.0.0.1 %d" % port)
            until(lambda: all(servers.link_is_up(replica) for replica in replicas), 100, "links up")
            writer.join()
            servers.must(primary, "SET end " + diskless)
            until(lambda: all(servers.values_of(replica, "GET end") == [diskless.encode()] for replica in replicas), 60, "the stream is applied")
            with self.client(primary, timeout=60) as client:
                client.must("SET", "waited", 1)
                self.assertEqual(client.must("WAIT", 3, 20000), 3)
        self.assertEqual(servers.count_of(primary, "sync_full"), 6)
        for replica in replicas:
            self.assertEqual(check_same(primary, replica), 2 * LARGE + 2)

    def scenario_with_announced_addresses(self):
        primary = self.start("primary")
        replica = self.start("replica", {"replica-announce-ip": "10.9.8.7", "replica-announce-port": 1234, "replica-priority": 7})
        servers.make_replica(replica, primary)
        self.assertTrue(servers.replication(primary)["slave0"].startswith("ip=10.9.8.7,port=1234,"))
        until(lambda: [each[:2] for each in servers.values_of(primary, "ROLE")[0][2]] == [[b"10.9.8.7", b"1234"]], 10, "ROLE")
        self.assertEqual(servers.replication(replica)["slave_priority"], "7")


if __name__ == "__main__":
    main()
