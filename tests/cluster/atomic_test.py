#!/usr/bin/python3
"""Atomic migration: slots go from one Kelvin to another one all at once, under clients that compare each reply with a redis-server's, and under faults."""
import collections
import os
import random
import re
import select
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import ClusterClient, Writers, silent, slot_of, tags_in
from support.cluster_case import ClusterCase, main, only
from support.replication import readings, servers
from support.resp import encode
from support.server import until

FIRST, LAST = 0, 399
MOVED = tags_in(range(FIRST, LAST + 1), 12)
ENDED = (b"success", b"failed", b"cancelled")


def migrations(node):
    """The newest first."""
    return [dict(zip(map(bytes.decode, each[::2]), each[1::2])) for each in node.ask("CLUSTER", "GETSLOTMIGRATIONS")]


def migrate(source, target, first=FIRST, last=LAST):
    source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", getattr(target, "id", target))


def wait_ended(source, timeout=120):
    until(lambda: migrations(source)[0]["state"] in ENDED, timeout, "the migration has ended")
    return migrations(source)[0]


def keys_in(node, first=FIRST, last=LAST):
    return sum(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in range(first, last + 1))


def conf_of(node):
    with open(os.path.join(node.folder, "nodes.conf"), "rb") as file:
        return file.read()


def note_handed(node, identity, epoch, receipt):
    """As if the node, which is down, had been killed after that."""
    text = conf_of(node).rstrip(b"\n") + b" handed %s:%d:%d:%d-%d\n" % (identity.encode(), epoch, receipt, FIRST, LAST)
    with open(os.path.join(node.folder, "nodes.conf"), "wb") as file:
        file.write(text)


class Mirror(threading.Thread):
    """Random commands for keys of one slot, to the cluster and to a redis-server; their replies have to be equal."""

    def __init__(self, cluster, oracle, tag, seed):
        super().__init__(daemon=True)
        self.client, self.oracle = ClusterClient([node.address for node in cluster.nodes], patience_s=60, timeout=30), oracle.client()
        self.tag, self.random = tag, random.Random(seed)
        self.halt, self.wrong, self.count = threading.Event(), None, 0

    def key(self, kind):
        return "%s:%d{%s}" % (kind, self.random.randrange(12), self.tag)

    def command(self):
        key, number = self.key, self.random.randrange(1000)
        return self.random.choice((
            lambda: ("SET", key("string"), "v%d" % number), lambda: ("APPEND", key("string"), number), lambda: ("INCRBY", key("number"), number),
            lambda: ("GETDEL", key("string")), lambda: ("RENAME", key("string"), key("string")), lambda: ("COPY", key("string"), key("string"), "REPLACE"),
            lambda: ("RPUSH", key("list"), number, number + 1), lambda: ("LPOP", key("list")), lambda: ("LMOVE", key("list"), key("list"), "LEFT", "RIGHT"),
            lambda: ("SADD", key("set"), number % 50), lambda: ("SMOVE", key("set"), key("set"), number % 50),
            lambda: ("SUNIONSTORE", key("set"), key("set"), key("set")), lambda: ("SDIFFSTORE", key("set"), key("set"), key("set")),
            lambda: ("HSET", key("hash"), number % 20, number), lambda: ("HINCRBY", key("hash2"), number % 5, number), lambda: ("HDEL", key("hash"), number % 20),
            lambda: ("ZADD", key("zset"), number, number % 30), lambda: ("ZRANGESTORE", key("zset"), key("zset"), 0, 10), lambda: ("ZPOPMIN", key("zset")),
            lambda: ("PFADD", key("hll"), number), lambda: ("PFMERGE", key("hll"), key("hll")), lambda: ("SETBIT", key("bits"), number, 1),
            lambda: ("PERSIST", key("number")), lambda: ("EXPIRE", key("number"), 10000), lambda: ("DEL", key("list"), key("set"), key("zset")),
            lambda: ("EVAL", "redis.call('INCR', KEYS[1]) return redis.call('RPUSH', KEYS[2], ARGV[1])", 2, key("number"), key("list"), number),
            lambda: ("GET", key("string")), lambda: ("LRANGE", key("list"), 0, -1), lambda: ("XADD", key("stream"), "MAXLEN", 20, "%d-1" % (self.count + 1), "f", number),
        ))()

    def run(self):
        try:
            while not self.halt.is_set():
                commands = [self.command() for _ in range(self.random.choice((1, 1, 1, 3)))]
                own = self.ask(self.client, commands)
                expected = self.ask(self.oracle, commands)
                if own != expected:
                    raise AssertionError("%r: %r, redis-server: %r" % (commands, own, expected))
                self.count += 1
        except Exception as error:          # noqa: whatever ends it is shown by the test
            self.wrong = repr(error)

    def ask(self, client, commands):
        if len(commands) == 1:
            reply = client.call(*commands[0])
            return sorted(reply) if isinstance(reply, set) else reply
        if client is self.client:
            return client.transaction(commands[0][1], commands)
        client.must("MULTI")
        for each in commands:
            client.must(*each)
        return client.must("EXEC")

    def end(self):
        self.halt.set()
        self.join(120)
        self.client.close()
        self.oracle.close()
        if self.wrong:
            raise AssertionError(self.wrong)


class DatabaseClient(ClusterClient):
    """Of one database."""

    def __init__(self, addresses, database, **options):
        super().__init__(addresses, **options)
        self.database = database

    def at(self, address):
        is_new = address not in self.clients
        client = super().at(address)
        if is_new and self.database > 0:
            client.must("SELECT", self.database)
        return client


class DatabaseMirror(Mirror):
    """The same in several databases, with keys that go from one to another one."""

    COUNT = 4

    def __init__(self, cluster, oracle, tag, seed):
        super().__init__(cluster, oracle, tag, seed)
        self.clients, self.oracles = [self.client], [self.oracle]
        for database in range(1, self.COUNT):
            self.clients.append(DatabaseClient([node.address for node in cluster.nodes], database, patience_s=60, timeout=30))
            self.oracles.append(oracle.client())
            self.oracles[-1].must("SELECT", database)

    def command(self):
        database = self.random.randrange(self.COUNT)
        self.client, self.oracle = self.clients[database], self.oracles[database]
        kind, other = self.random.choice(("string", "list", "set", "hash", "zset")), (database + 1) % self.COUNT
        return self.random.choice((
            super().command, super().command, super().command, lambda: ("MOVE", self.key(kind), other),
            lambda: ("COPY", self.key(kind), self.key(kind), "DB", other, "REPLACE"), lambda: ("COPY", self.key(kind), self.key(kind), "DB", other),
        ))()

    def ask(self, client, commands):
        return super().ask(client, commands[-1:])       # each has a database of its own

    def end(self):
        super().end()
        for client in self.clients + self.oracles:
            client.close()

    def redirections(self):
        return sum((client.replies for client in self.clients), collections.Counter())


class AtomicTest(ClusterCase):
    options = {"cluster-node-timeout": 15000}
    primaries, replicas = 3, 0

    def fill(self, cluster, tags, count=300, size=100):
        with cluster.client() as client:
            for tag in tags:
                for at in range(0, count, 100):
                    client.must("MSET", *(word for number in range(at, at + 100) for word in ("fill:%d{%s}" % (number, tag), "x" * size)))

    @only("kelvin-kelvin")
    def scenario_slots_go_all_at_once(self):
        """Keys of all types, half of them cold, under commands with one key and several. No client is asked to try elsewhere for a part of a slot."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        oracle = servers.start("redis")
        self.addCleanup(oracle.discard)
        writers = Writers(cluster, tags=MOVED)
        self.addCleanup(writers.__exit__)
        mirrors = [Mirror(cluster, oracle, tag, seed) for seed, tag in enumerate(MOVED[:3])]
        for mirror in mirrors:
            mirror.start()
        self.fill(cluster, MOVED, 400)
        for source, target in ((left, right), (right, left)):
            writers.wait_for(30)
            with source.client(timeout=60) as client:
                client.must("TIER", "DEMOTE", *client.must("KEYS", "fill:*")[::2])
            migrate(source, target)
            ended = wait_ended(source)
            self.assertEqual((ended["state"], ended["message"]), (b"success", b""))
            self.assertGreater(ended["keys"], 4800)
            cluster.wait_agreed()
            self.assertIs(cluster.owner_of(LAST), target)
            until(lambda source=source: keys_in(source) == 0, 60, "the keys are removed")
            writers.wait_for(30)
        self.assertEqual(writers.redirections["ASK"] + writers.redirections["TRYAGAIN"], 0)
        self.assertGreater(writers.redirections["MOVED"], 0)
        writers.check()
        for mirror in mirrors:
            mirror.end()
        self.assertGreater(min(mirror.count for mirror in mirrors), 50)
        tags = "|".join(MOVED[:3]).encode()
        with left.client(timeout=60) as own, oracle.client(timeout=60) as other:
            mine, theirs = ({at: value[:2] for at, value in readings.read_database(each, 0).items()
                             if re.search(rb"^(?!fill)[a-z0-9]+:\d+\{(%s)\}$" % tags, at[1])} for each in (own, other))
        self.assertGreater(len(theirs), 20)
        self.assertEqual(readings.differences(mine, theirs), [])
        self.assertEqual(left.ask("GET", "fill:399{%s}" % MOVED[0]), b"x" * 100)
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_replicas_have_it(self):
        """The replica of the node that takes slots over has their keys before that, as its disk has, and serves them when it takes over itself; that of the other one
        has them no more."""
        cluster = self.own(["kelvin"] * 6, appendonly="yes")
        cluster.create(1)
        left, right, _ = cluster.primaries()
        replicas = [cluster.replicas_of(node)[0] for node in (left, right)]
        self.fill(cluster, MOVED)
        writers = Writers(cluster, tags=MOVED)
        self.addCleanup(writers.__exit__)
        migrate(left, right)
        ended = wait_ended(left)
        self.assertEqual((ended["state"], ended["message"]), (b"success", b""))
        asked = {name: value for name, value in right.info("commandstats").items() if name in ("cmdstat_wait", "cmdstat_waitaof")}
        self.assertEqual({name: value.split(",")[0] for name, value in asked.items()}, {"cmdstat_wait": "calls=2", "cmdstat_waitaof": "calls=2"})
        writers.wait_for(10)
        cluster.wait_agreed()
        writers.check()
        until(lambda: keys_in(left) == 0, 60, "the keys are removed")
        self.assertGreater(cluster.check_replicas(), 3000)
        self.assertEqual(keys_in(replicas[0]), 0)
        self.assertEqual(keys_in(replicas[1]), keys_in(right))
        cluster.failover(replicas[1])
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(FIRST), replicas[1])
        self.assertEqual(len([key for key in cluster.keys() if key.startswith(b"fill:")]), 300 * len(MOVED))
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_a_replica_that_takes_over_keeps_its_own_keys_only(self):
        """It knows which slots its primary was receiving: their keys go. Keys that were moved one by one to a slot that had left before stay."""
        cluster = self.own(["kelvin"] * 6)
        cluster.create(1)
        left, right, _ = cluster.primaries()
        self.fill(cluster, MOVED)
        left_replica, right_replica = (cluster.replicas_of(node)[0] for node in (left, right))
        with right.client() as sender:
            sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            for number in range(200):
                sender.must("SET", "fill:%d{%s}" % (number, MOVED[0]), "old")
            until(lambda: keys_in(right_replica) == 200, 20, "the replica has them")
            cluster.failover(right_replica)
        cluster.wait_agreed()
        until(lambda: keys_in(right_replica) + keys_in(right) == 0, 20, "the keys are removed")
        migrate(left, right_replica)
        self.assertEqual(wait_ended(left)["state"], b"success")
        cluster.wait_agreed()
        until(lambda: keys_in(left) == 0, 20, "the keys are removed")
        slot = slot_of("{%s}" % MOVED[0])
        cluster.open_slot(slot, right_replica, left)
        keys = right_replica.ask("CLUSTER", "GETKEYSINSLOT", slot, 10)
        self.assertEqual(bytes(right_replica.ask("MIGRATE", *left.address, "", 0, 5000, "KEYS", *keys)), b"OK")
        cluster.wait_synced()
        cluster.failover(left_replica)
        cluster.wait_agreed()
        self.assertEqual(left_replica.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 10)
        self.assertEqual(sorted(left_replica.ask("CLUSTER", "GETKEYSINSLOT", slot, 20)), sorted(keys))

    @only("kelvin-kelvin")
    def scenario_given_up(self):
        """By CANCELSLOTMIGRATIONS while the other node stands still, by FLUSHALL, by its end: nothing has happened, and it can be done again."""
        cluster = self.shared()
        left, right, third = cluster.nodes
        self.fill(cluster, MOVED)
        count = keys_in(left)
        identity = right.id
        with silent(right):
            migrate(left, identity)
            until(lambda: migrations(left)[0]["state"] == b"connecting", 20, "it begins")
            migrate(left, third, LAST + 1, LAST + 2)
            with left.client() as client:
                self.assert_error(client.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", FIRST, FIRST, "NODE", third.id), "ERR some of the slots are being migrated already")
            left.ask("CLUSTER", "CANCELSLOTMIGRATIONS")
        until(lambda: [each["state"] for each in migrations(left)[:2]] == [b"cancelled", b"cancelled"], 60, "both are cancelled")
        with left.client() as client:
            self.assert_error(client.call("CLUSTER", "CANCELSLOTMIGRATIONS"), "ERR No migrations ongoing")
        self.assertEqual(keys_in(left), count)
        self.fill(cluster, MOVED, 8000, 50)
        migrate(left, right)
        until(lambda: migrations(left)[0]["state"] == b"copying", 20, "it copies")
        left.ask("FLUSHALL")
        ended = wait_ended(left)
        if ended["state"] != b"success":        # else it was too fast
            self.assertEqual(ended["message"], b"a command has changed all keys, or can't be run by another server")
            self.assertIs(cluster.owner_of(LAST), left)
            until(lambda: keys_in(right) == 0, 60, "what was received is removed")
            self.fill(cluster, MOVED)
            migrate(left, right)
            self.assertEqual(wait_ended(left)["state"], b"success")
        cluster.wait_agreed()
        until(lambda: keys_in(left) == 0, 60, "the keys are removed")
        migrate(right, left)
        self.assertEqual(wait_ended(right)["state"], b"success")
        cluster.wait_agreed()
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_keys_that_are_received_are_not_shown(self):
        """Until the slots are its own the other node says where they are, also after ASKING; what it had received is gone after a restart."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        key = "key{%s}" % MOVED[0]
        with right.client() as sender, right.client() as client:
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            sender.must("SET", key, "1")
            for asks in (False, True):
                if asks:
                    client.must("ASKING")
                self.assert_error(client.call("GET", key), "MOVED %d %s" % (slot_of(key), left.name))
            self.assertIsInstance(sender.must("CLUSTER", "RECEIVESLOTS", "KEEP", receipt), int)
            self.assert_error(client.call("CLUSTER", "RECEIVESLOTS", "KEEP", receipt + 1), "ERR this migration has ended here")
            self.assert_error(client.call("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, LAST + 1, LAST + 1), "TRYAGAIN")
            self.assert_error(client.call("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 1), "TRYAGAIN the epoch is not above")
            self.assertEqual(client.must("CLUSTER", "RECEIVESLOTS", "END", receipt, FIRST), 0)
            self.assert_error(sender.call("SET", key, "2"), "MOVED")
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            sender.must("SET", key, "2")
            client.must("FLUSHALL")                     # what was received is not complete any more
            self.assert_error(sender.call("SET", key, "2"), "MOVED")
            self.assert_error(client.call("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 1000), "ERR this node was flushed meanwhile")
            self.assertEqual(client.must("CLUSTER", "RECEIVESLOTS", "END", receipt, FIRST), 0)
            until(lambda: keys_in(right) == 0, 20, "it is removed")
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            sender.must("SET", key, "3")
        right.restart()
        cluster.wait_agreed()
        until(lambda: keys_in(right) == 0, 20, "it is removed at the start")
        self.assertEqual(right.myself().moves, ())
        self.assertIs(cluster.owner_of(FIRST), left)
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_large_values_go_one_by_one(self):
        """A page with more than it should have is read again with fewer keys."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        values = {"%d{%s}" % (number, MOVED[0]): b"%d" % number * (1 << 20 if number % 3 else 10) for number in range(40)}
        with cluster.client() as client:
            for key, value in values.items():
                client.must("SET", key, value)
            left.ask("TIER", "DEMOTE", *list(values)[::2])
            migrate(left, right)
            ended = wait_ended(left)
            self.assertEqual((ended["state"], ended["keys"]), (b"success", len(values)))
            cluster.wait_agreed()
            for key, value in values.items():
                self.assertTrue(client.must("GET", key) == value, key)
        migrate(right, left)
        self.assertEqual(wait_ended(right)["state"], b"success")
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_two_nodes_give_each_other_slots(self):
        """Each takes slots while its own are being taken: epochs that pass each other must not bring a slot back."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        pairs, begin = ((left, right, 0), (right, left, 6000)), time.time()
        with Writers(cluster, tags=tags_in([*range(20), *range(6000, 6020)], 20)) as writers:
            writers.wait_for(20)
            for slot in range(20):
                for source, target, first in pairs:
                    migrate(source, target, first + slot, first + slot)
            for source, _, _ in pairs:
                until(lambda source=source: all(each["state"] in ENDED for each in migrations(source)), 120, "all migrations have ended")
            writers.wait_for(20)
            writers.check()
        ended = [each["state"] for source, _, _ in pairs for each in migrations(source) if int(each["create_time"]) >= int(begin)]
        self.assertGreater(ended.count(b"success"), 20)         # each may refuse what comes while it waits itself
        cluster.wait_agreed()
        for source, target, first in pairs:
            for slot in range(first, first + 20):
                if cluster.owner_of(slot) is target:
                    migrate(target, source, slot, slot)
            wait_ended(target)
        until(lambda: all(each["state"] in ENDED for node in (left, right) for each in migrations(node)), 120, "all are back")
        cluster.wait_agreed()
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_sender_that_cannot_save_hands_nothing_over(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        self.fill(cluster, MOVED)
        count, aside = keys_in(left), os.path.join(left.folder, "nodes.conf.tmp")
        os.mkdir(aside)
        try:
            with left.client() as client:
                self.assert_error(client.call("CLUSTER", "SETSLOT", LAST + 9, "MIGRATING", right.id), "ERR error saving the cluster node config")
            migrate(left, right)
            ended = wait_ended(left)
            self.assertEqual((ended["state"], ended["message"]), (b"failed", b"nodes.conf can't be saved"))
        finally:
            os.rmdir(aside)
        left.ask("CLUSTER", "SETSLOT", LAST + 9, "STABLE")
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(LAST), left)
        self.assertEqual(keys_in(left), count)
        until(lambda: keys_in(right) == 0, 60, "nothing is left at the other node")
        for source, target in ((left, right), (right, left)):
            migrate(source, target)
            self.assertEqual(wait_ended(source)["state"], b"success")
            cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_owner_says_what_has_expired(self):
        """Its clock may be behind: what has expired by that of the other node is there until the slots have gone."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        key = lambda name: "%s{%s}" % (name, MOVED[0])
        with right.client() as sender:
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            past = int(time.time() * 1000) - 5000
            for name in ("kept", "gone"):
                sender.must("SET", key(name), 5, "PXAT", past)
            sender.must("SET", key("other"), 1)
            sender.must("PEXPIREAT", key("other"), past)
            sender.must("HSET", key("hash"), "a", 1, "b", 2)
            sender.must("HPEXPIREAT", key("hash"), past, "FIELDS", 1, "a")
            payload = sender.must("DUMP", key("kept"))
            sender.must("RESTORE", key("restored"), past, payload, "ABSTTL")
            time.sleep(0.3)                             # three ticks
            for name in ("kept", "other", "restored"):
                self.assertEqual(sender.must("INCR", key(name)), {"kept": 6, "other": 2, "restored": 6}[name])
            self.assertEqual(sender.must("HINCRBY", key("hash"), "a", 1), 2)
            sender.must("PERSIST", key("kept"))
            self.assertEqual(keys_in(right), 5)
            sender.must("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 5000)
        cluster.wait_agreed()
        with cluster.client() as client:
            self.assertEqual([client.must("GET", key(name)) for name in ("kept", "gone", "other", "restored")], [b"6", None, None, None])
            self.assertEqual(client.must("HGETALL", key("hash")), [b"b", b"2"])
        until(lambda: keys_in(right) == 2, 20, "what has expired is removed")
        migrate(right, left)
        self.assertEqual(wait_ended(right)["state"], b"success")
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_a_node_that_has_taken_them_says_so_after_a_restart(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        with right.client() as sender:
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", left.id, FIRST, LAST)
            sender.must("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 1000)
        right.kill9()
        right.start()
        self.assertEqual(right.ask("CLUSTER", "RECEIVESLOTS", "END", receipt, FIRST), 1)
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(LAST), right)
        migrate(right, left)
        self.assertEqual(wait_ended(right)["state"], b"success")
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_another_node_at_the_address_gets_nothing(self):
        """Pods get the addresses of others after a restart: what the wrong node says about the slots counts for nothing."""
        cluster = self.shared()
        left, right, third = cluster.nodes
        address = left.view()[right.id].address
        right.ask("CONFIG", "SET", "cluster-announce-port", third.port)
        until(lambda: left.view()[right.id].address != address, 20, "the other address is known")
        migrate(left, right)
        ended = wait_ended(left)
        right.ask("CONFIG", "SET", "cluster-announce-port", 0)
        self.assertEqual((ended["state"], ended["message"]), (b"failed", b"the other node is not at its address: another node replies there"))
        until(lambda: left.view()[right.id].address == address, 20, "the address is known again")
        cluster.wait_agreed()

    @only("kelvin-kelvin")
    def scenario_errors(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        with left.client() as client:
            for words, error in (
                    ("MIGRATESLOTS SLOTSRANGE 0 1 NODE", "wrong number of arguments"), ("MIGRATESLOTS SLOTSRANGE 0 1 NOD x", "ERR syntax error"),
                    ("MIGRATESLOTS SLOTSRANGE 0 1 NODE x", "ERR Unknown node x"), ("MIGRATESLOTS SLOTSRANGE 0 1 NODE %s" % left.id, "ERR the slots are this node's already"),
                    ("MIGRATESLOTS SLOTSRANGE 2 1 NODE %s" % right.id, "ERR start slot number 2 is greater than end slot number 1"),
                    ("MIGRATESLOTS SLOTSRANGE 0 16384 NODE %s" % right.id, "ERR Invalid or out of range slot"),
                    ("MIGRATESLOTS SLOTSRANGE 0 1 1 2 NODE %s" % right.id, "ERR Slot 1 specified multiple times"),
                    ("MIGRATESLOTS SLOTSRANGE 0 16383 NODE %s" % right.id, "ERR I'm not the owner of hash slot"),
                    ("MIGRATESLOTS SLOTSRANGE 0 1 NODE %s" % ("0" * 40), "ERR Unknown node"),
                    ("RECEIVESLOTS BEGIN %s 0" % right.id, "wrong number of arguments"), ("RECEIVESLOTS BEGIN %s 0 1" % right.id, "ERR slot 0 is not a slot of node"),
                    ("RECEIVESLOTS BEGIN %s 0 1" % left.id, "ERR Unknown node"), ("RECEIVESLOTS WHAT 1", "ERR syntax error"), ("RECEIVESLOTS KEEP 0", "ERR this migration has ended here"),
                    ("RECEIVESLOTS TAKE 0 7", "ERR this migration has ended here"), ("RECEIVESLOTS TAKE 0 -1", "ERR Invalid config epoch specified: -1"), ("RECEIVESLOTS END x 1", "ERR value is not an integer"), ("RECEIVESLOTS END 1 16384", "ERR Invalid or out of range slot"),
                    ("RECEIVESLOTS DROP 0 1", "ERR slot 0 is not another node's")):
                self.assert_error(client.call("CLUSTER", *words.split()), error)
            self.assertEqual(client.must("CLUSTER", "RECEIVESLOTS", "END", 0, 16383), 0)
        cluster.check()


class DatabasesTest(ClusterCase):
    options = {"cluster-node-timeout": 15000, "cluster-databases": DatabaseMirror.COUNT}
    primaries, replicas = 3, 0

    @only("kelvin-kelvin")
    def scenario_slots_go_with_all_databases(self):
        """As scenario_slots_go_all_at_once. Names are the same in all databases, values are not; half of the keys are cold, some are large."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        oracle = servers.start("redis")
        self.addCleanup(oracle.discard)
        for database in range(DatabaseMirror.COUNT):
            with left.client(timeout=60) as client:
                client.must("SELECT", database)
                for tag in MOVED:
                    client.must("MSET", *(word for number in range(100 + 50 * database) for word in ("fill:%d{%s}" % (number, tag), "%d:%d" % (database, number))))
                client.must("SET", "large{%s}" % MOVED[4], b"%d" % database * (3 << 20))
        mirrors = [DatabaseMirror(cluster, oracle, tag, seed) for seed, tag in enumerate(MOVED[:3])]
        for mirror in mirrors:
            mirror.start()
        for source, target in ((left, right), (right, left)):
            for mirror in mirrors:
                until(lambda mirror=mirror, wanted=mirror.count + 200: mirror.wrong or mirror.count > wanted, 60, "commands are run")
            for database in range(DatabaseMirror.COUNT):
                with source.client(timeout=60) as client:
                    client.must("SELECT", database)
                    client.must("TIER", "DEMOTE", "large{%s}" % MOVED[4], *client.must("KEYS", "fill:*")[::2])
            migrate(source, target)
            ended = wait_ended(source)
            self.assertEqual((ended["state"], ended["message"]), (b"success", b""))
            self.assertGreater(ended["keys"], 600 * len(MOVED))
            cluster.wait_agreed()
            self.assertIs(cluster.owner_of(LAST), target)
            for database in range(DatabaseMirror.COUNT):
                until(lambda source=source, database=database: self.keys_in(source, database) == 0, 60, "the keys are removed")
        for mirror in mirrors:
            mirror.end()
            self.assertGreater(mirror.count, 500)
            self.assertEqual(mirror.redirections()["ASK"] + mirror.redirections()["TRYAGAIN"], 0)
            self.assertGreater(mirror.redirections()["MOVED"], 0)
        tags = "|".join(MOVED[:3]).encode()
        for database in range(DatabaseMirror.COUNT):
            with left.client(timeout=60) as own, oracle.client(timeout=60) as other:
                mine, theirs = ({at: value[:2] for at, value in readings.read_database(each, database).items()
                                 if re.search(rb"^(?!fill)[a-z0-9]+:\d+\{(%s)\}$" % tags, at[1])} for each in (own, other))
                self.assertGreater(len(theirs), 20)
                self.assertEqual(readings.differences(mine, theirs), [])
                for number in range(100 + 50 * database):
                    self.assertEqual(own.must("GET", "fill:%d{%s}" % (number, MOVED[0])), b"%d:%d" % (database, number))
                self.assertEqual(own.must("GET", "large{%s}" % MOVED[4]), b"%d" % database * (3 << 20))
        cluster.check()

    @staticmethod
    def keys_in(node, database):
        with node.client() as client:
            client.must("SELECT", database)
            return sum(client.must("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in range(FIRST, LAST + 1))

    @only("kelvin-kelvin")
    def scenario_other_node_with_fewer_databases_takes_nothing(self):
        cluster = self.own(["kelvin"] * 2)
        right = cluster.add("kelvin", cluster_databases=2)
        cluster.create(0)
        left = cluster.nodes[0]
        with left.client() as client:
            client.must("SELECT", 1)
            client.must("SET", "k{%s}" % MOVED[0], 1)
            client.must("SELECT", 3)
            client.must("SET", "k{%s}" % MOVED[0], 3)
        migrate(left, right)
        ended = wait_ended(left)
        self.assertEqual((ended["state"], ended["message"]), (b"failed", b"the other node says: ERR DB index is out of range"))
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(FIRST), left)
        self.assertEqual(self.keys_in(left, 3), 1)
        until(lambda: self.keys_in(right, 1) == 0, 60, "what it had received is removed")


class KilledTest(ClusterCase):
    """Both ends are killed at any time, and start again: every acknowledged write is there, once, and each slot has one owner."""
    options = {"cluster-node-timeout": 10000, "appendonly": "yes", "appendfsync": "always"}
    primaries, replicas = 3, 0

    @only("kelvin-kelvin")
    def scenario_other_node_cannot_save_that_it_has_taken_them(self):
        """Writes wait until it is known what has happened. The other node says nothing, fails, and the slots stay where they were; also when it can save again."""
        cluster = self.own(["kelvin"] * 3, **{"cluster-node-timeout": 3000})
        cluster.create(0)
        left, right, _ = cluster.nodes
        with cluster.client() as client:
            for tag in MOVED:
                client.must("MSET", *(word for number in range(3000) for word in ("fill:%d{%s}" % (number, tag), "x" * 50)))
        writers = Writers(cluster, tags=MOVED)
        self.addCleanup(writers.__exit__)
        writers.wait_for(5)
        aside = os.path.join(right.folder, "nodes.conf.tmp")
        migrate(left, right)
        until(lambda: migrations(left)[0]["state"] != b"connecting", 20, "it copies")
        with silent(right):
            os.mkdir(aside)
        ended = wait_ended(left)
        if ended["state"] == b"success":            # it was faster
            self.assertIs(cluster.owner_of(LAST), right)
        os.rmdir(aside)
        cluster.wait_agreed()
        if ended["state"] != b"success":
            self.assertIs(cluster.owner_of(LAST), left)
            until(lambda: keys_in(right) == 0, 60, "the keys are removed")
        writers.wait_for(5)
        writers.check()
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_a_start_asks_who_has_the_slots(self):
        """A node was killed after it had let another one take slots. No client is served until that one has said whether it has."""
        cluster = self.own(["kelvin"] * 3)
        cluster.create(0)
        left, right, _ = cluster.nodes
        key, own_id, identity = "key{%s}" % MOVED[0], left.id, right.id
        left.ask("SET", key, "1")
        left.kill9()
        with right.client() as client:
            receipt = client.must("CLUSTER", "RECEIVESLOTS", "BEGIN", own_id, FIRST, LAST)
        note_handed(left, identity, 50, receipt)
        with silent(right):
            left.start()
            until(lambda: left.state()["cluster_state"] == "ok", 30, "it serves")
            self.assertEqual(migrations(left)[0]["state"], b"handing-over")
            waiting = [self.connect(left, timeout=60) for _ in range(3)]
            for client, words in zip(waiting, (("APPEND", key, "2"), ("EVAL", "return redis.call('APPEND', KEYS[1], '3')", 1, key), ("GET", key))):
                client.send(encode(words))
            until(lambda: len(re.findall(rb"cmd=(append|eval|get) ", left.ask("CLIENT", "LIST"))) == 3, 20, "they wait")
            self.assertEqual(left.ask("CLUSTER", "COUNTKEYSINSLOT", LAST), 0)       # others do not
            self.assertEqual(select.select([client.socket for client in waiting], [], [], 0)[0], [])
        self.assertEqual(sorted((waiting[0].receive(), waiting[1].receive())), [2, 3])
        self.assertIn(waiting[2].receive(), (b"1", b"12", b"13", b"123", b"132"))
        until(lambda: migrations(left)[0]["state"] == b"failed", 20, "the outcome is known")
        self.assertEqual(migrations(left)[0]["message"], b"the other node has not taken the slots")
        until(lambda: b" handed " not in conf_of(left), 20, "the note is gone")
        left.kill9()
        with right.client() as sender:
            self.assert_error(sender.call("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 50), "ERR this migration has ended here")      # though TAKE comes now
            receipt = sender.must("CLUSTER", "RECEIVESLOTS", "BEGIN", own_id, FIRST, LAST)
            sender.must("SET", key, "3")
            sender.must("CLUSTER", "RECEIVESLOTS", "TAKE", receipt, 60)
        note_handed(left, identity, 60, receipt)
        left.start()
        with cluster.client() as client:
            self.assertEqual(client.must("GET", key), b"3")
        until(lambda: migrations(left)[0]["state"] == b"success", 20, "the outcome is known")
        until(lambda: keys_in(left) == 0, 20, "the key is removed")
        cluster.wait_agreed()
        self.assertIs(cluster.owner_of(LAST), right)
        cluster.check()

    @only("kelvin-kelvin")
    def scenario_an_end_is_killed(self):
        cluster = self.shared()
        left, right, _ = cluster.nodes
        chance = random.Random(os.environ.get("SEED"))
        rounds = int(os.environ.get("KELVIN_ROUNDS", 4))
        with cluster.client() as client:
            for tag in MOVED:
                client.must("MSET", *(word for number in range(3000) for word in ("fill:%d{%s}" % (number, tag), "x" * 50)))
        writers = Writers(cluster, tags=MOVED)
        self.addCleanup(writers.__exit__)
        for _ in range(rounds):
            source = cluster.owner_of(LAST)
            target, victim = (right, left)[source is right], chance.choice((left, right))
            writers.wait_for(5)
            migrate(source, target)
            time.sleep(chance.random() * 0.8)
            victim.kill9()
            victim.start()
            cluster.wait_agreed()
            if victim is not source:
                wait_ended(source)
            cluster.wait_agreed()
            owner = cluster.owner_of(LAST)
            self.assertIn(owner, (left, right))
            other = (right, left)[owner is right]
            until(lambda other=other: keys_in(other) == 0, 60, "only one has the keys")
            self.assertGreaterEqual(keys_in(owner), 3000 * len(MOVED))
            self.assertEqual(other.myself().moves + owner.myself().moves, ())
        writers.wait_for(5)
        writers.check()
        cluster.check()


if __name__ == "__main__":
    main()
