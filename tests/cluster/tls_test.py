#!/usr/bin/python3
"""Nodes with `tls-cluster yes`: slots move over TLS, all at once and key by key."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import Writers, tags_in
from support.cluster_case import ClusterCase, main, only
from support.server import port_free, until
from support.tls import Authority

FIRST, LAST = 0, 99
TAGS = tags_in(range(FIRST, LAST + 1), 6)


class TlsTest(ClusterCase):
    primaries, replicas = 2, 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.authority, cls.other = Authority(), Authority()
        cls.addClassCleanup(cls.authority.close)
        cls.addClassCleanup(cls.other.close)
        cls.authority.issue("server")

    def start(self, **options):
        cluster = self.own([], **{"cluster-node-timeout": 15000, "tls-cluster": "yes", **options})
        for _ in range(2):
            cluster.add("kelvin", **{**self.authority.server_options(port_free()), "cluster-port": port_free()})
        cluster.form(2)
        return cluster

    def migrate(self, source, target):
        name = target.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST)

        def task():
            fields = source.ask("CLUSTER", "MIGRATION", "STATUS", "ID", name)[0]
            fields = dict(zip(fields[::2], fields[1::2]))
            return fields if fields[b"state"] in (b"completed", b"failed") else None
        return until(task, 60, "the migration has ended")

    @only("kelvin-kelvin")
    def scenario_slots_go_over_tls(self):
        cluster = self.start()
        left, right = cluster.nodes
        writers = Writers(cluster, tags=TAGS)
        self.addCleanup(writers.__exit__)
        values = {"fill:%d{%s}" % (number, tag): "x" * (200000 if number % 50 == 0 else 50) for tag in TAGS for number in range(300)}
        with cluster.client() as client:
            for key, value in values.items():
                client.must("SET", key, value)
        with left.client(timeout=60) as client:
            client.must("TIER", "DEMOTE", *list(values)[::2])
        for source, target in ((left, right), (right, left)):
            writers.wait_for(10)
            task = self.migrate(source, target)
            self.assertEqual((task[b"state"], task[b"last_error"]), (b"completed", b""))
            cluster.wait_agreed()
            self.assertIs(cluster.owner_of(LAST), target)
        writers.wait_for(10)
        writers.check()
        with cluster.client() as client:
            for key, value in values.items():
                self.assertEqual(client.must("GET", key), value.encode())

    @only("kelvin-kelvin")
    def scenario_a_node_with_another_authority_gets_nothing(self):
        cluster = self.start()
        left, right = cluster.nodes
        with left.client() as client:
            client.must("SET", "k{%s}" % TAGS[0], "v")
            client.must("CONFIG", "SET", "tls-ca-cert-file", self.other.path("ca.crt"))
            client.must("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", FIRST, LAST, "NODE", right.id)
            job = until(lambda: [job for job in client.must("CLUSTER", "GETSLOTMIGRATIONS") if job[15] == b"failed"], 60, "it has failed")[0]
            self.assertIn(b"the other node can't be connected to: ", job[17])
            self.assertIn(b"certificate", job[17])
            client.must("CONFIG", "SET", "tls-ca-cert-file", self.authority.path("ca.crt"))
        self.assertEqual(self.migrate(left, right)[b"state"], b"completed")

    @only("kelvin-kelvin")
    def scenario_keys_go_over_tls(self):
        cluster = self.start()
        left, right = cluster.nodes
        key, large = "k{%s}" % TAGS[0], "large{%s}" % TAGS[0]
        slot = left.ask("CLUSTER", "KEYSLOT", key)
        with left.client(timeout=60) as client:
            client.must("SET", key, "v")
            client.must("SET", large, "x" * (5 << 20))
            right.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", left.id)
            left.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", right.id)
            self.assert_error(client.call("MIGRATE", "127.0.0.1", right.port, "", 0, 5000, "KEYS", key), "IOERR error or timeout connecting to the client")
            self.assertEqual(client.must("GET", key), b"v")
            self.assertEqual(bytes(client.must("MIGRATE", "127.0.0.1", right.options["tls-port"], "", 0, 5000, "KEYS", key, large)), b"OK")
        for node in (right, left):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", right.id)
        cluster.wait_agreed()
        self.assertEqual(right.ask("GET", key), b"v")
        self.assertEqual(len(right.ask("GET", large)), 5 << 20)


if __name__ == "__main__":
    main()
