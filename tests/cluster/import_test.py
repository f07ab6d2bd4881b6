#!/usr/bin/python3
"""CLUSTER MIGRATION of Redis 8.4: the node that is to have the slots asks for them, and the one that has them carries it out."""
import os
import re
import select
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import Writers, tags_in
from support.cluster_case import ClusterCase, main, only
from support.resp import encode
from support.server import until

FIRST, LAST = 0, 199
TAGS = tags_in(range(FIRST, LAST + 1), 8)
ENDED = (b"completed", b"failed", b"canceled")
NAME = "0123456789" * 4


def tasks(node, *which):
    """As Redis replies them: the newest first, imports before exports."""
    return [dict(zip(map(bytes.decode, each[::2]), each[1::2])) for each in node.ask("CLUSTER", "MIGRATION", "STATUS", *(which or ("ALL",)))]


def ended(node, name, timeout=120):
    def find():
        task = tasks(node, "ID", name)[0]
        return task if task["state"] in ENDED else None
    return until(find, timeout, "the migration has ended")


def keys_in(node, first=FIRST, last=LAST):
    return sum(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in range(first, last + 1))


class ImportTest(ClusterCase):
    options = {"cluster-node-timeout": 15000}
    primaries, replicas = 3, 0

    def fill(self, cluster, count=300, size=100):
        with cluster.client() as client:
            for tag in TAGS:
                client.must("MSET", *(word for number in range(count) for word in ("fill:%d{%s}" % (number, tag), "x" * size)))

    def block(self, left, right):
        """A migration that can't go on: the other node receives from another one meanwhile. Returns what ends that."""
        keeper = right.client()
        self.addCleanup(keeper.close)
        receipt = keeper.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, LAST + 200, LAST + 200)
        return lambda: keeper.must("CLUSTER", "RECEIVESLOTS", "END", receipt, LAST + 200)

    @only("kelvin-kelvin")
    def scenario_slots_come_under_writers(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        writers = Writers(cluster, tags=TAGS)
        self.addCleanup(writers.__exit__)
        self.fill(cluster)
        left.ask("TIER", "DEMOTE", *left.ask("KEYS", "fill:*")[::2])
        for source, target in ((left, right), (right, left)):
            writers.wait_for(20)
            name = target.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, 99, 100, LAST)
            task = ended(target, name)
            self.assertEqual((task["state"], task["last_error"], task["operation"], task["slots"]), (b"completed", b"", b"import", b"0-199"))
            self.assertEqual((task["source"].decode(), task["dest"].decode(), task["write_pause_ms"]), (source.id, target.id, 0))
            sent = ended(source, name)
            self.assertEqual((sent["state"], sent["operation"], sent["source"].decode(), sent["dest"].decode()), (b"completed", b"migrate", source.id, target.id))
            self.assertLessEqual(task["create_time"], sent["start_time"])
            self.assertLessEqual(sent["start_time"], sent["end_time"])
            cluster.wait_agreed()
            self.assertIs(cluster.owner_of(LAST), target)
            until(lambda source=source: keys_in(source) == 0, 60, "the keys are removed")
            writers.wait_for(20)
        self.assertEqual([task["operation"] for task in tasks(left)[:2]], [b"import", b"migrate"])
        self.assertEqual(writers.redirections["ASK"] + writers.redirections["TRYAGAIN"], 0)
        writers.check()
        self.assertGreater(keys_in(left), 300 * len(TAGS))
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_it_is_cancelled_from_both_sides(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        self.fill(cluster, 20)
        go_on = self.block(left, right)
        for node, which in ((right, "ID"), (left, "ID"), (right, "ALL"), (left, "ALL")):
            name = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST)
            self.assertEqual(right.ask("CLUSTER", "MIGRATION", "CANCEL", "ID", NAME), 0)
            self.assertIn(tasks(right, "ID", name)[0]["state"], (b"none", b"connecting"))
            self.assertEqual(node.ask("CLUSTER", "MIGRATION", "CANCEL", *((which, name) if which == "ID" else (which,))), 1)
            for each in (left, right):
                self.assertEqual(ended(each, name)["state"], b"canceled")
            self.assertEqual(node.ask("CLUSTER", "MIGRATION", "CANCEL", "ID", name), 0)
        self.assertEqual(go_on(), 0)
        self.assertIs(cluster.owner_of(FIRST), left)
        self.assertEqual(keys_in(left), 20 * len(TAGS))
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_one_that_fails_says_why(self):
        """The node that asks for the slots lacks a database."""
        cluster = self.own(["kelvin"] * 2, **{"cluster-databases": 2})
        right = cluster.add("kelvin", cluster_databases=1)
        cluster.create(0)
        left = cluster.nodes[0]
        with left.client() as client:
            client.must("SELECT", 1)
            client.must("SET", "k{%s}" % TAGS[0], 1)
        name = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST)
        task = ended(right, name)
        self.assertEqual((task["state"], task["last_error"]), (b"failed", b"the other node says: ERR SELECT is not allowed in cluster mode"))
        self.assertEqual(ended(left, name)["last_error"], task["last_error"])
        self.assertGreaterEqual(task["end_time"], task["create_time"])
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(FIRST), left)

    @only("kelvin-kelvin")
    def scenario_a_restart_of_the_owner_ends_it(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        go_on = self.block(left, right)
        name = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST)
        with right.client() as client:
            self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", LAST, LAST + 5), "ERR overlapping import exists for slot range: 199-204")
        left.restart()
        task = ended(right, name)
        self.assertEqual((task["state"], task["last_error"]),
                         (b"failed", b"the owner of the slots says: NOSUCHMIGRATION this node has no migration of that name"))
        go_on()
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(FIRST), left)

    @only("kelvin-kelvin")
    def scenario_an_owner_that_does_not_reply(self):
        """It is stopped: the request fails, and what is under way stays as it was."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        go_on = self.block(left, right)
        name = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST)
        left.process.send_signal(signal.SIGSTOP)
        try:
            with right.client(timeout=30) as client:
                self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", LAST + 1, LAST + 2), "ERR the owner of the slots does not reply")
                task = tasks(right, "ID", name)[0]
                self.assertIn(task["state"], (b"none", b"connecting"))
                self.assertEqual(task["last_error"], b"the owner of the slots does not reply")
                self.assert_error(client.call("CLUSTER", "MIGRATION", "CANCEL", "ID", name), "ERR the owner of the slots does not reply")
        finally:
            left.process.send_signal(signal.SIGCONT)
        right.ask("CLUSTER", "MIGRATION", "CANCEL", "ALL")
        ended(right, name)
        go_on()
        cluster.wait_agreed()

    def stop(self, node):
        """Returns what lets it go on."""
        node.process.send_signal(signal.SIGSTOP)
        self.addCleanup(node.process.send_signal, signal.SIGCONT)
        return lambda: node.process.send_signal(signal.SIGCONT)

    @only("kelvin-kelvin")
    def scenario_other_commands_do_not_wait_for_an_owner_that_is_stopped(self):
        """More imports wait for it than the pool has threads for plain jobs."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        resume = self.stop(left)
        imports = [right.client(timeout=60) for _ in range(4)]
        for at, client in enumerate(imports):
            self.addCleanup(client.close)
            client.send(encode(("CLUSTER", "MIGRATION", "IMPORT", FIRST + at, FIRST + at)))
        with right.client(timeout=60) as client:
            until(lambda: client.must("CLIENT", "LIST").count(b"cmd=cluster|migration") == len(imports), 60, "the imports wait")
            client.must("CLUSTER", "NODES")
            client.must("CLUSTER", "SETSLOT", LAST, "STABLE")
            self.assertEqual(select.select([each.socket for each in imports], [], [], 0)[0], [], "an import has replied before them")
        for client in imports:
            self.assert_error(client.receive(), "ERR the owner of the slots does not reply")
        resume()
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_a_round_asks_a_silent_owner_once(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        go_on = self.block(left, right)
        names = [right.ask("CLUSTER", "MIGRATION", "IMPORT", slot, slot) for slot in (FIRST, FIRST + 1, FIRST + 2)]
        with left.client(timeout=60) as watcher, right.client(timeout=60) as client:
            def connections():
                return int(re.search(rb"total_connections_received:(\d+)", watcher.must("INFO", "stats")).group(1))
            for words, count in (("STATUS ID " + NAME, 0), ("STATUS ID " + names[0].decode(), 1), ("STATUS ALL", 1), ("CANCEL ALL", 1)):
                before = connections()
                resume = self.stop(left)
                reply = client.call("CLUSTER", "MIGRATION", *words.split())
                resume()
                left.ask("PING")                        # its connection is accepted after the others
                self.assertEqual(connections() - before, count + 1, words)
                if words == "STATUS ALL":
                    self.assertEqual([dict(zip(task[::2], task[1::2]))[b"last_error"] for task in reply if task[1] in names], [b"the owner of the slots does not reply"] * len(names))
        right.ask("CLUSTER", "MIGRATION", "CANCEL", "ALL")
        for name in names:
            ended(right, name)
        go_on()
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_one_that_has_ended_is_not_in_the_way(self):
        """Its end is found out by the next request for the slots, without STATUS."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        go_on = self.block(left, right)
        name = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, FIRST)
        self.assertEqual(left.ask("CLUSTER", "MIGRATION", "CANCEL", "ID", name), 1)
        ended(left, name)
        other = right.ask("CLUSTER", "MIGRATION", "IMPORT", FIRST, FIRST)
        self.assertEqual(right.ask("CLUSTER", "MIGRATION", "CANCEL", "ID", other), 1)
        ended(right, other)
        go_on()
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_an_owner_that_is_a_redis_server(self):
        cluster = self.own(["kelvin", "redis", "kelvin"])
        cluster.create(0)
        right = cluster.nodes[1]
        first = right.myself().slots[0][0]
        with cluster.nodes[0].client() as client:
            self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", first, first), "ERR the owner of the slots says: ERR unknown subcommand 'RECEIVESLOTS'")
            self.assertEqual(tasks(cluster.nodes[0]), [])

    @only("kelvin-kelvin")
    def scenario_an_owner_that_wants_a_password(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        left.ask("CONFIG", "SET", "requirepass", "secret")
        try:
            with right.client() as client:
                self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST), "ERR the owner of the slots says: NOAUTH")
                client.must("CONFIG", "SET", "masterauth", "wrong")
                self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", FIRST, LAST), "ERR the owner of the slots says: WRONGPASS")
        finally:
            right.ask("CONFIG", "SET", "masterauth", "")
            with left.client() as client:
                client.must("AUTH", "secret")
                client.must("CONFIG", "SET", "requirepass", "")
        self.assertEqual([task for task in tasks(right) if task["state"] not in ENDED], [])

    @only("kelvin-kelvin")
    def scenario_errors(self):
        cluster = self.shared()
        left, right, third = cluster.nodes
        arity = "ERR wrong number of arguments for 'cluster|migration' command"
        first_of_right = right.myself().slots[0][0]
        with left.client() as client:
            for words, error in (
                    ("", arity), ("IMPORT", arity), ("IMPORT 100", arity), ("IMPORT 100 200 300", arity), ("IMPORT 200 100", "ERR start slot number 200 is greater than end slot number 100"),
                    ("IMPORT 17000 18000", "ERR Invalid or out of range slot"), ("IMPORT 14000 18000", "ERR Invalid or out of range slot"), ("IMPORT -1 0", "ERR Invalid or out of range slot"),
                    ("IMPORT sd sd", "ERR Invalid or out of range slot"), ("IMPORT 7000 7001 x 7002", "ERR Invalid or out of range slot"), ("IMPORT 9223372036854775808 1", "ERR Invalid or out of range slot"),
                    ("IMPORT 7000 8000 8000 9000", "ERR Slot 8000 specified multiple times"), ("IMPORT 7000 8000 7900 9000", "ERR Slot 7900 specified multiple times"),
                    ("IMPORT 1 2", "ERR this node is already the owner of the slot range"), ("IMPORT 0 16383", "ERR slots belong to different source nodes"),
                    ("IMPORT 0 0 %d %d" % (first_of_right, first_of_right), "ERR slots belong to different source nodes"),
                    ("CANCEL", arity), ("CANCEL ID", arity), ("CANCEL ID x y", arity), ("CANCEL ALL x", arity), ("CANCEL x", "ERR unknown argument"), ("CANCEL x y z", arity),
                    ("STATUS", arity), ("STATUS ID", arity), ("STATUS ID x y", arity), ("STATUS ALL x", arity), ("STATUS x", "ERR unknown argument"), ("NOSUCH 1", "ERR unknown argument")):
                self.assert_error(client.call("CLUSTER", "MIGRATION", *words.split()), error)
            for name in ("x", NAME, "x" * 100000, b"\0\r\n"):
                self.assertEqual(client.must("CLUSTER", "MIGRATION", "STATUS", "ID", name), [])
                self.assertEqual(client.must("CLUSTER", "MIGRATION", "CANCEL", "ID", name), 0)
            for words, error in (
                    ("REQUEST %s %s 0" % (NAME, right.id), "wrong number of arguments"), ("REQUEST x %s 0 1" % right.id, "ERR Invalid name of a migration"),
                    ("REQUEST %s x 0 1" % NAME, "ERR Unknown node x"), ("REQUEST %s %s 0 1" % (NAME, "0" * 40), "ERR Unknown node"), ("REQUEST %s %s 0 1" % (NAME, left.id), "ERR the slots are this node's already"),
                    ("REQUEST %s %s %d %d" % (NAME, third.id, first_of_right, first_of_right), "ERR I'm not the owner of hash slot"), ("REQUEST %s %s 1 0" % (NAME, right.id), "ERR start slot number"),
                    ("STATE x", "ERR Invalid name of a migration"), ("STATE %s" % NAME, "NOSUCHMIGRATION"), ("CANCEL %s" % ("g" * 41), "ERR Invalid name of a migration"), ("STATE", "wrong number of arguments")):
                self.assert_error(client.call("CLUSTER", "RECEIVESLOTS", *words.split()), error)
            self.assertEqual(client.must("CLUSTER", "RECEIVESLOTS", "CANCEL", NAME), 0)
            client.must("CLUSTER", "SETSLOT", 5, "MIGRATING", right.id)
            self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", first_of_right, first_of_right), "ERR all slot states must be STABLE to start a slot migration task.")
            client.must("CLUSTER", "SETSLOT", 5, "STABLE")
            client.must("MULTI")
            client.must("CLUSTER", "MIGRATION", "STATUS", "ALL")
            self.assertEqual(len(client.must("EXEC")), 1)
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_nodes_that_can_not_have_slots(self):
        cluster = self.own(["kelvin"] * 3)
        with cluster.nodes[0].client() as client:
            self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", 1, 1), "ERR slot has no owner: 1")
        cluster.form(2)
        with cluster.nodes[2].client() as client:
            self.assert_error(client.call("CLUSTER", "MIGRATION", "IMPORT", 1, 1), "ERR slot migration not allowed on replica.")
            self.assertEqual(client.must("CLUSTER", "MIGRATION", "STATUS", "ALL"), [])


if __name__ == "__main__":
    main()
