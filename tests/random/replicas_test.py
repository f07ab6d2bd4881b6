"""Three servers under random load, with cut links, kills, ends, promotions and rewritten logs; afterwards all have the same data. See README.md."""
import os
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.random_run import Run, state_of                                                            # noqa: E402
from support.replication.load import LIBRARY, RandomWriter, fill_all_types                              # noqa: E402
from support.replication.readings import check_same, first_difference, pairs                            # noqa: E402
from support.replication.servers import cut_links, make_replica, replication, start, wait_in_sync       # noqa: E402
from support.resp import Error, ProtocolError                                                           # noqa: E402
from support.server import StartFailed, until                                                           # noqa: E402

DATABASES = 4
ROUND_S = 15            # then all data is compared
# Of streams: when a consumer was last seen is not in the history, and the rest is encoding.
UNEQUAL = {b"radix-tree-keys", b"radix-tree-nodes", b"seen-time", b"active-time"}


class Writer(RandomWriter):
    """Goes on with another connection, to the server that is the primary then, when one has ended."""

    def __init__(self, test, seed):
        super().__init__(None, seed, databases=DATABASES)
        self.test = test

    def run(self):
        while not self.halt.is_set():
            try:
                server = self.test.primary
                with server.client(timeout=60) as client:
                    client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
                    while not self.halt.is_set() and server is self.test.primary:
                        self.once(client)
            except ProtocolError as error:
                self.wrong = repr(error)
                return
            except OSError:
                time.sleep(0.01)

    def once(self, client):
        if self.random.random() < 0.07:
            client.call(*self.later())
            self.acknowledged += 1
        else:
            super().once(client)

    def later(self):
        """Of later versions: times of fields, conditions, references of groups to entries."""
        key, field = b"h%d" % self.random.randrange(6), self.changes.generator.field()
        ms, stream = b"%d" % self.random.choice((1, 50, 1000, 100000)), b"y%d" % self.random.randrange(4)
        return self.random.choice((
            [b"HPEXPIRE", key, ms, b"FIELDS", b"1", field], [b"HSETEX", key, b"PX", ms, b"FIELDS", b"1", field, b"v"],
            [b"HGETEX", key, b"PX", ms, b"FIELDS", b"1", field], [b"HPERSIST", key, b"FIELDS", b"1", field], [b"HGETDEL", key, b"FIELDS", b"1", field],
            [b"MSETEX", b"2", b"s1", b"a", b"s2", b"b", b"PX", ms], [b"SET", b"s3", b"new", b"IFEQ", b"old"], [b"DELEX", b"s1", b"IFEQ", b"a"],
            [b"XADD", stream, b"ACKED", b"MAXLEN", b"50", b"*", b"f", b"v"], [b"XTRIM", stream, b"MAXLEN", b"20", b"DELREF"],
            [b"SET", b"large%d" % self.random.randrange(300), (b"%d" % self.random.randrange(10000)) * 5000]))


class Waiter(Writer):
    """Blocking commands, which the changes of others serve."""

    def once(self, client):
        key, other = (b"l%d" % self.random.randrange(6) for _ in range(2))
        client.call(*self.random.choice((
            [b"BLPOP", key, other, b"0.05"], [b"BLMOVE", key, other, b"LEFT", b"RIGHT", b"0.05"], [b"BLMPOP", b"0.05", b"1", key, b"RIGHT", b"COUNT", b"3"],
            [b"BZPOPMIN", b"z%d" % self.random.randrange(6), b"0.05"], [b"SELECT", b"%d" % self.random.randrange(DATABASES)])))


class ReplicasTest(unittest.TestCase):
    def test_the_same_data_after_kills(self):
        self.test = Run("replicas")
        self.random = random.Random("replicas/events/%d" % self.test.seed)
        self.events, self.event_count = [], 0
        self.primary, *self.replicas = self.servers = [self.begin() for _ in range(3)]
        fill_all_types(self.primary, DATABASES, keys=3)
        self.follow(self.replicas[0], self.primary)
        self.follow(self.replicas[1], self.random.choice((self.primary, self.replicas[0])))
        self.in_sync()
        self.test.restart()
        rounds = acknowledged = count = 0
        while self.test.goes_on():
            rounds += 1
            acknowledged += self.round(rounds)
            count = self.compare()
        for server in self.servers:
            server.stop()
        self.test.report("%d rounds, %d commands, %d events, %d keys compared at the end" % (rounds, acknowledged, self.event_count, count))

    def round(self, number):
        """Load and events for a while; returns how many commands were acknowledged."""
        writers = [Writer(self, "%d/%d/%d" % (self.test.seed, number, each)) for each in range(2 if self.test.is_short else 3)]
        writers += [Waiter(self, "%d/%d/wait/%d" % (self.test.seed, number, each)) for each in range(2)]
        for writer in writers:
            writer.start()
        end = time.monotonic() + ROUND_S
        self.events = []
        while self.test.goes_on() and time.monotonic() < end:
            time.sleep(self.random.random() * 0.7)
            self.event()
        for writer in writers:
            writer.halt.set()
        for writer in writers:
            writer.join(90)
            if writer.wrong or writer.is_alive():
                self.fail(self.told(writer.wrong or "a writer still waits for a reply"))
        return sum(writer.acknowledged for writer in writers)

    def begin(self):
        server = start("kelvin", {"io-threads": self.random.choice((1, 2, 3)), "appendonly": "yes", "databases": DATABASES, "maxmemory": "60mb",
                                  "repl-backlog-size": self.random.choice(("64kb", "1mb")), "repl-image-sync": self.random.choice(("yes", "yes", "no"))})
        server.options["port"] = server.port        # after a restart, replicas find it again
        self.addCleanup(server.discard)
        return server

    def follow(self, replica, primary):
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        make_replica(replica, primary, wait=False)

    def told(self, text):
        states = ["%d: %s" % (server.port, state_of(server, 1)) for server in self.servers]
        return "KELVIN_SEED=%d, events: %s\n%s\n%s" % (self.test.seed, ", ".join(self.events), text, "\n".join(states))

    # Events

    def event(self):
        server, replica = self.random.choice(self.servers), self.random.choice(self.replicas)
        happening = self.random.choices(
            (self.cut, self.kill, self.terminate, self.promote, self.rewrite, self.switch_log, self.demote, self.hold, self.reattach, self.fail_over,
             self.squeeze, self.save),
            (20, 14, 10, 8, 8, 5, 20, 8, 7, 8, 8, 4))[0]
        chosen = replica if happening in (self.promote, self.reattach, self.fail_over) else server
        self.event_count += 1
        self.events.append("%s %d" % (happening.__name__, self.servers.index(chosen)))
        try:
            happening(chosen)
        except (OSError, AssertionError, StartFailed) as error:
            self.fail(self.told("%s: %s" % (type(error).__name__, error)))

    def cut(self, server):
        cut_links(server)

    def kill(self, server):
        server.restart(kill=True)

    def terminate(self, server):
        server.restart()

    def rewrite(self, server):
        with server.client(timeout=60) as client:
            client.call("BGREWRITEAOF")

    def switch_log(self, server):
        """Off and on again: a new log begins. A replica that loads switches its own."""
        with server.client(timeout=60) as client:
            client.call("CONFIG", "SET", "appendonly", "no")
            client.call("CONFIG", "SET", "appendonly", "yes")

    def demote(self, server):
        with server.client(timeout=60) as client:
            for database in range(DATABASES):
                client.call("SELECT", database)
                keys = client.call("KEYS", "*")
                if isinstance(keys, list) and keys:
                    client.call("TIER", "DEMOTE", *keys)

    def hold(self, server):
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random() * 0.3)
        server.process.send_signal(signal.SIGCONT)

    def promote(self, replica):
        """The others follow it from now on; what it had not received is lost, on all of them."""
        with replica.client(timeout=60) as client:
            reply = client.call("REPLICAOF", "NO", "ONE")
        if isinstance(reply, Error):
            self.assertTrue(reply.startswith((b"LOADING", b"BUSY")), reply)
            return
        replica.options["replicaof"] = None
        self.primary, self.replicas = replica, [server for server in self.servers if server is not replica]
        chained = self.random.random() < 0.4
        self.follow(self.replicas[0], self.primary)
        self.follow(self.replicas[1], self.replicas[0] if chained else self.primary)

    def fail_over(self, replica):
        """In an orderly way, or not at all: then the primary stays one."""
        if replica.options["replicaof"][1] != self.primary.port:
            return
        with self.primary.client(timeout=60) as client:
            if isinstance(client.call("FAILOVER", "TO", "127.0.0.1", replica.port, "TIMEOUT", self.random.choice((1, 300, 3000))), Error):
                return
        until(lambda: replication(self.primary)["master_failover_state"] == "no-failover", 60, "the failover ends")
        if replication(self.primary)["role"] == "master":
            return
        self.primary.options["replicaof"], replica.options["replicaof"] = ["127.0.0.1", replica.port], None
        self.primary, self.replicas = replica, [server for server in self.servers if server is not replica]

    def squeeze(self, server):
        with server.client(timeout=60) as client:
            client.call("CONFIG", "SET", "maxmemory", self.random.choice(("24mb", "60mb")))

    def save(self, server):
        with server.client(timeout=60) as client:
            client.call(self.random.choice(("BGSAVE", "SAVE")))

    def reattach(self, replica):
        """To the other replica, or to the primary, but never so that two follow each other."""
        other = [server for server in self.replicas if server is not replica][0]
        free = other.options["replicaof"][1] == self.primary.port
        self.follow(replica, self.random.choice((self.primary, other)) if free else self.primary)

    # Comparing

    def until_up(self):
        deadline = time.monotonic() + 60
        while not all(replication(replica).get("master_link_status") == "up" for replica in self.replicas):
            if time.monotonic() > deadline:
                raise AssertionError("a link is not up after 60 s: %r" % [replication(server) for server in self.servers])
            time.sleep(0.05)

    def compare(self):
        try:
            self.until_up()
            self.keep_estimates()
            self.in_sync()
            count = check_same(self.primary, *self.replicas)
            self.same_streams()
            return count
        except (OSError, AssertionError) as error:
            return self.fail(self.told(str(error)))

    def in_sync(self):
        """In a chain each replica is compared with the server that it follows."""
        by_port = {server.port: server for server in self.servers}
        chain = sorted(self.replicas, key=lambda replica: replica.options["replicaof"][1] != self.primary.port)
        for replica in chain:
            wait_in_sync(by_port[replica.options["replicaof"][1]], replica)

    def keep_estimates(self):
        """PFCOUNT keeps its result in the value, also on a replica that a writer took for the primary: after this, all servers have it."""
        with self.primary.client(timeout=60) as client:
            for database in range(DATABASES):
                client.must("SELECT", database)
                client.pipeline([b"PFCOUNT", key] for key in client.must("KEYS", "*"))

    def same_streams(self):
        first, *others = [self.streams(server) for server in self.servers]
        for other in others:
            self.assertEqual(set(first), set(other))
            for at in first:
                self.assertEqual(first[at], other[at], first_difference(first[at], other[at], repr(at)))

    def streams(self, server):
        found = {}
        with server.client(timeout=60) as client:
            for database in range(DATABASES):
                client.must("SELECT", database)
                for key in client.must("SCAN", "0", "COUNT", "1000000", "TYPE", "stream")[1]:
                    if client.must("PTTL", key) == -1:      # the others may end between the readings
                        found[database, key] = plain(client.must("XINFO", "STREAM", key, "FULL", "COUNT", "0"))
        return found


def plain(reply):
    facts = {name: value for name, value in pairs(reply) if name not in UNEQUAL}
    for group in facts[b"groups"]:
        at = group.index(b"consumers") + 1
        group[at] = [{name: value for name, value in pairs(consumer) if name not in UNEQUAL} for consumer in group[at]]
    return facts


if __name__ == "__main__":
    unittest.main()
