#!/usr/bin/python3
"""Slots move between nodes of different kinds, by redis-cli and by hand, while clients work: three primaries, the second one of the other kind."""
import os
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.cluster import SLOT_COUNT, Node, Writers, data_of, silent, slot_of, slots_in, tags_in
from support.cluster_case import ClusterCase, Error, main
from support.replication import readings, servers
from support.resp import encode
from support.server import redis_tool, until

MOVED_COUNT = 24
LOW_SLOTS = range(MOVED_COUNT)      # redis-cli takes the lowest slots of a node


def fill(client, tag):
    """Keys of all types in the slot of the tag."""
    for number in range(6):
        client.must("SET", "string:%d{%s}" % (number, tag), "v" * (10 ** number))
    client.must("SET", "later{%s}" % tag, "x", "PX", 90000000)
    client.must("RPUSH", "list{%s}" % tag, *("e%d" % at for at in range(300)))
    client.must("SADD", "set{%s}" % tag, *("m%d" % at for at in range(300)))
    client.must("SADD", "intset{%s}" % tag, *range(100))
    client.must("HSET", "hash{%s}" % tag, *("f%d" % at for at in range(2000)))
    client.must("ZADD", "zset{%s}" % tag, *(word for at in range(300) for word in (at / 7, "m%d" % at)))
    client.must("PFADD", "hll{%s}" % tag, *("p%d" % at for at in range(300)))
    for at in range(5):
        client.must("XADD", "stream{%s}" % tag, "%d-1" % (at + 1), "field", at)
    client.must("XGROUP", "CREATE", "stream{%s}" % tag, "group", "0", key="stream{%s}" % tag)
    client.must("XREADGROUP", "GROUP", "group", "one", "COUNT", 3, "STREAMS", "stream{%s}" % tag, ">", key="stream{%s}" % tag)
    return 14


def all_data(cluster):
    """What the primaries have, together, without the keys of writers. Times to live pass as durations, so only whether there is one is compared."""
    found = {}
    for node in cluster.primaries():
        found.update({at: (kind, value, at_ms > 0) for at, (kind, value, at_ms, _) in data_of(node).items() if not re.match(rb"\w+:\d+:\d+", at[1])})
    return found


def tags_at(node, count):
    """Tags in the last range of slots that the node has."""
    first, last = node.myself().slots[-1]
    return tags_in(range(first, last + 1), count)


def make_cold(node, keys):
    """Half of the keys become cold, if the node is a Kelvin."""
    if node.kelvin and keys:
        with node.client() as client:
            client.must("TIER", "DEMOTE", *keys[::2])


class SlotsTest(ClusterCase):
    options = {"cluster-node-timeout": 15000}
    primaries, replicas = 3, 0

    def kinds(self):
        return [self.primary_kind, self.replica_kind, self.primary_kind]

    def writers(self, cluster, **more):
        writers = Writers(cluster, **more)
        self.addCleanup(writers.__exit__)
        writers.wait_for(20)
        return writers

    def same(self, data, before):
        self.assertGreater(len(before), 10)
        self.assertEqual(readings.differences(data, before), [])

    def scenario_reshard_there_and_back(self):
        cluster = self.shared()
        client, (left, right, _) = self.client(cluster), cluster.nodes
        tags = tags_in(LOW_SLOTS, 3)
        count = sum(fill(client, tag) for tag in tags)
        before = all_data(cluster)
        self.assertEqual(len(before), count)
        writers = self.writers(cluster, tags=tags_in(LOW_SLOTS, 12))
        for source, target in ((left, right), (right, left)):
            make_cold(source, source.ask("KEYS", "*"))
            cluster.move_slots(source, target, MOVED_COUNT)
            cluster.wait_agreed()
            self.assertIs(cluster.owner_of(LOW_SLOTS[-1]), target)
            self.assertEqual(source.ask("CLUSTER", "COUNTKEYSINSLOT", slot_of(tags[0])), 0)
            self.same(all_data(cluster), before)
            writers.wait_for(20)
        self.assertGreater(writers.redirections["MOVED"], 0)
        self.assertGreater(writers.check(), 100)
        cluster.check()

    def scenario_node_joins_and_leaves(self):
        """It gets slots by rebalance, and a replica; gives the slots back, and both are removed. Writers notice nothing."""
        cluster = self.shared()
        writers = self.writers(cluster)
        new, replica = cluster.add(self.replica_kind), cluster.add(self.primary_kind)
        first = cluster.nodes[0]
        cluster.cli("add-node", new.name, first.name)
        cluster.wait_agreed(cluster.nodes[:4], size=4)
        cluster.cli("add-node", replica.name, first.name, "--cluster-slave", "--cluster-master-id", new.id)
        cluster.wait_agreed()
        cluster.cli("rebalance", first.name, "--cluster-use-empty-masters", "--cluster-weight", "%s=0.01" % new.id)
        cluster.wait_agreed()
        self.assertAlmostEqual(slots_in(new.myself().slots), SLOT_COUNT * 0.01 / 3.01, delta=2)
        self.assertEqual(cluster.replicas_of(new), [replica])
        tags = tags_at(new, 2)
        client = self.client(cluster)
        for tag in tags:
            fill(client, tag)
        cluster.check_replicas()
        data = all_data(cluster)
        cluster.cli("rebalance", first.name, "--cluster-weight", "%s=0" % new.id)
        cluster.wait_agreed()
        self.assertEqual(new.myself().slots, ())
        self.same(all_data(cluster), data)
        for node in (replica, new):
            cluster.cli("del-node", first.name, node.id)
            cluster.wait(lambda node=node: node.state()["cluster_known_nodes"] == "1", "the node is alone")
            cluster.remove(node)
            cluster.wait_agreed()
        writers.wait_for(20)
        writers.check()
        cluster.check()

    def scenario_replica_of_the_other_kind_takes_over(self):
        """It joins a primary, exchanges the roles with it, gives them back, and leaves. No write is lost."""
        cluster = self.shared()
        primary = cluster.nodes[0]
        writers = self.writers(cluster)
        replica = cluster.add(self.replica_kind)
        cluster.cli("add-node", replica.name, primary.name, "--cluster-slave", "--cluster-master-id", primary.id)
        cluster.wait_agreed()
        cluster.wait(lambda: replica.myself().primary == primary.id, "it is a replica")
        for old, new in ((primary, replica), (replica, primary)):
            cluster.wait_synced()
            cluster.failover(new)
            cluster.wait(lambda old=old, new=new: old.myself().primary == new.id, "the old primary follows")
            cluster.wait_agreed()
            writers.wait_for(20)
        cluster.cli("del-node", primary.name, replica.id)
        cluster.wait(lambda: replica.state()["cluster_known_nodes"] == "1", "the node is alone")
        cluster.remove(replica)
        cluster.wait_agreed()
        writers.check()
        cluster.check()

    def scenario_open_slots_are_fixed(self):
        """A slot of which half of the keys were moved, and half of the others are cold; one that is imported only; and then one that no node has."""
        cluster = self.shared()
        client, (left, right, _) = self.client(cluster), cluster.nodes
        half, importing, lost = tags_in(LOW_SLOTS, 3)
        for tag in (half, importing):
            fill(client, tag)
        before = all_data(cluster)
        slot = slot_of(half)
        cluster.open_slot(slot, left, right)
        keys = left.ask("CLUSTER", "GETKEYSINSLOT", slot, 5)
        left.ask("MIGRATE", *right.address, "", 0, 20000, "KEYS", *keys)
        self.assertEqual(right.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 5)
        right.ask("CLUSTER", "SETSLOT", slot_of(importing), "IMPORTING", left.id)
        self.assertIn("[WARNING]", cluster.cli("check", left.name, must=False))
        for node in (left, right):
            for each in (slot, slot_of(importing)):
                make_cold(node, sorted(node.ask("CLUSTER", "GETKEYSINSLOT", each, 100)))
        cluster.cli("fix", left.name)
        cluster.wait_agreed()
        cluster.check()
        self.assertEqual([node.myself().moves for node in cluster.nodes], [(), (), ()])
        self.same(all_data(cluster), before)
        for node in cluster.nodes:
            with node.client() as direct:
                direct.call("CLUSTER", "DELSLOTS", slot_of(lost))
        cluster.wait(lambda: all(node.state()["cluster_state"] == "fail" for node in cluster.nodes), "all say that the cluster is down")
        self.assertIn("[ERR] Not all 16384 slots are covered", cluster.cli("check", left.name, must=False))
        cluster.cli("fix", left.name, text="yes\n")
        cluster.wait_agreed()
        cluster.check()
        self.assertIsNotNone(cluster.owner_of(slot_of(lost)))

    def scenario_set_timeout(self):
        """In memory and in the file; without a file the command is an error, and the timeout is set all the same."""
        cluster = self.own([])
        for kind in self.kinds():
            cluster.nodes.append(Node(kind, {"cluster-node-timeout": None}, config="cluster-node-timeout 15000\n"))
        cluster.create(replicas=0)
        self.assertIn("New node timeout set. 3 OK, 0 ERR.", cluster.cli("set-timeout", cluster.nodes[0].name, 17000))
        for node in cluster.nodes:
            node.restart()
            self.assertEqual(node.ask("CONFIG", "GET", "cluster-node-timeout")[1], b"17000")
        cluster.wait_agreed()
        self.assertIn("Setting a node timeout of less than 100 milliseconds is a bad idea", cluster.cli("set-timeout", cluster.nodes[0].name, 99, must=False))
        without = self.shared()
        self.assertIn("New node timeout set. 0 OK, 3 ERR.", without.cli("set-timeout", without.nodes[0].name, 17000, must=False))
        for node in without.nodes:
            self.assertEqual(node.ask("CONFIG", "GET", "cluster-node-timeout")[1], b"17000")
            node.ask("CONFIG", "SET", "cluster-node-timeout", self.options["cluster-node-timeout"])

    def scenario_imported_from_a_standalone(self):
        """From both kinds, with keys of all types, some of them cold."""
        cluster = self.shared()
        for number, kind in enumerate(("redis", "kelvin")):
            source = servers.start(kind)
            self.addCleanup(source.discard)
            with source.client() as client:
                count = fill(client_of_one(client), "import%d" % number)
                for at in range(100):
                    client.must("SET", "%d-key-%d" % (number, at), at)
                client.must("SET", "alone-%d" % number, "x", "EX", 5000)
                make_cold(source, client.must("KEYS", "*"))
            cluster.cli("import", cluster.nodes[0].name, "--cluster-from", "127.0.0.1:%d" % source.port, "--cluster-replace")
            self.assertEqual(source.info("keyspace"), {})
            self.assertEqual(len(cluster.keys()), (count + 101) * (number + 1))
        client = self.client(cluster)
        self.assertEqual(client.must("GET", "1-key-99"), b"99")
        self.assertGreater(client.must("TTL", "alone-0"), 4000)
        self.assertEqual(client.must("LLEN", "list{import1}"), 300)
        cluster.check()

    def scenario_backup(self):
        """redis-cli takes an RDB from each primary; a redis-server has all keys of it."""
        cluster = self.shared()
        client = self.client(cluster)
        for number in range(300):
            client.must("SET", "key:%d" % number, number)
        for node in cluster.nodes:
            make_cold(node, node.ask("KEYS", "*"))
        with tempfile.TemporaryDirectory(prefix="kelvin-test-") as folder:
            cluster.cli("backup", cluster.nodes[0].name, folder)
            names = sorted(os.listdir(folder))
            self.assertEqual(len(names), 4, names)
            self.assertIn("nodes.json", names)
            keys = 0
            for name in names:
                if name.endswith(".rdb"):
                    done = subprocess.run([redis_tool("redis-check-rdb"), os.path.join(folder, name)], stdout=subprocess.PIPE, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    keys += next(int(line.split()[1]) for line in done.stdout.splitlines() if b"keys read" in line)
            self.assertEqual(keys, 300)

    def scenario_keys_of_a_slot(self):
        """COUNTKEYSINSLOT and GETKEYSINSLOT have cold keys as well as hot ones, and none that is gone."""
        cluster = self.shared()
        client = self.client(cluster)
        for node in cluster.nodes:
            tag, other = tags_at(node, 2)
            slot, keys = slot_of(tag), [b"%d{%s}" % (number, tag.encode()) for number in range(40)]
            for key in keys:
                client.must("SET", key, "value")
                client.must("SET", b"%s{%s}" % (key[:2], other.encode()), "value")
            make_cold(node, keys)
            self.assertEqual(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 40)
            self.assertEqual(sorted(node.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)), sorted(keys))
            some = node.ask("CLUSTER", "GETKEYSINSLOT", slot, 7)
            self.assertEqual((len(some), len(set(some)), set(some) <= set(keys)), (7, 7, True))
            self.assertEqual(node.ask("CLUSTER", "GETKEYSINSLOT", slot, 0), [])
            for key in keys[:30]:
                client.must("DEL", key)
            self.assertEqual(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 10)
            self.assertEqual(sorted(node.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)), sorted(keys[30:]))
            client.must("PEXPIRE", keys[30], 1)
            client.must("PEXPIRE", keys[31], 1)
            until(lambda node=node, slot=slot: node.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 8, 20, "expired keys are gone")
            with node.client() as direct:
                self.assert_error(direct.call("CLUSTER", "COUNTKEYSINSLOT", SLOT_COUNT), "Invalid slot")
                self.assert_error(direct.call("CLUSTER", "GETKEYSINSLOT", slot, -1), "Invalid")
            node.ask("FLUSHALL")
            self.assertEqual(node.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 0)

    def scenario_half_moved_slot(self):
        """What decides between a reply, ASK, MOVED and TRYAGAIN is whether keys are there, hot or cold."""
        cluster = self.shared()
        client = self.client(cluster)
        for source, target in ((cluster.nodes[0], cluster.nodes[1]), (cluster.nodes[1], cluster.nodes[0])):
            tag = tags_at(source, 1)[0]
            slot, key = slot_of(tag), lambda name, tag=tag: "%s{%s}" % (name, tag)
            for name in ("a", "b", "c", "d"):
                client.must("SET", key(name), name)
            make_cold(source, [key("a"), key("b"), key("c")])       # a and c
            cluster.open_slot(slot, source, target)
            with source.client() as at_source, target.client() as at_target:
                ask, moved = "ASK %d %s" % (slot, target.name), "MOVED %d %s" % (slot, source.name)
                self.assertEqual(at_source.call("GET", key("a")), b"a")
                make_cold(source, [key("a")])
                self.assertEqual(at_source.call("MGET", key("a"), key("b")), [b"a", b"b"])
                self.assert_error(at_source.call("GET", key("missing")), ask)
                self.assert_error(at_source.call("SET", key("missing"), 1), ask)
                self.assert_error(at_source.call("MGET", key("missing"), key("missing2")), ask)
                make_cold(source, [key("a")])
                self.assert_error(at_source.call("MGET", key("a"), key("missing")), "TRYAGAIN")
                self.assert_error(at_source.call("EVAL", "return redis.call('GET', KEYS[1])", 1, key("missing")), ask)
                self.assertEqual(at_source.call("EVAL", "return redis.call('GET', KEYS[1])", 1, key("c")), b"c")
                self.assert_error(at_target.call("GET", key("a")), moved)
                at_target.must("ASKING")
                self.assertIsNone(at_target.call("GET", key("a")))
                self.assert_error(at_target.call("GET", key("a")), moved)       # ASKING is for one command
                at_target.must("ASKING")
                self.assert_error(at_target.call("MGET", key("a"), key("new")), "TRYAGAIN")
                at_target.must("ASKING")
                at_target.must("SET", key("new"), "new")
                source.ask("MIGRATE", *target.address, "", 0, 20000, "KEYS", key("a"), key("b"))
                self.assert_error(at_source.call("GET", key("a")), ask)
                at_target.must("ASKING")
                self.assertEqual(at_target.call("MGET", key("a"), key("b"), key("new")), [b"a", b"b", b"new"])
                make_cold(target, [key("a"), key("x"), key("new")])
                at_target.must("ASKING")
                self.assertEqual(at_target.call("MGET", key("a"), key("b"), key("new")), [b"a", b"b", b"new"])
                at_target.must("ASKING")
                at_target.must("MULTI")
                at_target.must("APPEND", key("a"), "+")
                self.assertEqual(at_target.call("EXEC"), [2])
                at_target.must("ASKING")
                self.assertEqual(at_target.call("EVAL", "redis.call('APPEND', KEYS[2], '-') return redis.call('MGET', KEYS[1], KEYS[2])", 2, key("a"), key("b")),
                                 [b"a+", b"b-"])
                at_target.must("ASKING")
                self.assert_error(at_target.call("EVAL", "return 1", 2, key("a"), key("c")), "TRYAGAIN")
                with source.client() as admin:
                    self.assert_error(admin.call("CLUSTER", "SETSLOT", slot, "NODE", target.id), "hash slot")
                source.ask("MIGRATE", *target.address, "", 0, 20000, "KEYS", key("c"), key("d"))
                cluster.set_owner(slot, target)
                self.assert_error(at_source.call("GET", key("a")), "MOVED %d %s" % (slot, target.name))
            self.assertEqual([client.must("GET", key(name)) for name in ("a", "b", "c", "d", "new")], [b"a+", b"b-", b"c", b"d", b"new"])
            cluster.wait_agreed()
        cluster.check()

    def scenario_script_waits_for_migrate(self):
        """Its keys go while it waits: it is redirected, and does not make them again. The target stands still meanwhile."""
        cluster = self.shared()
        client = self.client(cluster)
        for source, target in ((cluster.nodes[0], cluster.nodes[1]), (cluster.nodes[1], cluster.nodes[0])):
            tag = tags_at(source, 1)[0]
            slot, a, b = slot_of(tag), "{%s}a" % tag, "{%s}b" % tag
            client.must("MSET", a, 1, b, 1)
            cluster.open_slot(slot, source, target)
            migrating, scripted, queued = [self.connect(source, timeout=60) for _ in range(3)]
            with silent(target):
                migrating.send(encode(["MIGRATE", *target.address, "", 0, 40000, "KEYS", a, b]))
                self.pass_turns(source)
                scripted.send(encode(["EVAL", "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])", 2, a, b]))
                queued.send(b"".join(map(encode, (["MULTI"], ["INCR", a], ["INCR", b], ["EXEC"]))))
                self.pass_turns(source)
            self.assertEqual(bytes(migrating.receive()), b"OK")
            self.assert_error(scripted.receive(), "ASK %d %s" % (slot, target.name))
            replies = [queued.receive() for _ in range(4)]
            self.assertTrue(any(isinstance(reply, Error) and reply.startswith(b"ASK") for reply in replies), replies)
            self.assertEqual(source.ask("CLUSTER", "COUNTKEYSINSLOT", slot), 0)
            cluster.set_owner(slot, target)
            self.assertEqual(client.must("MGET", a, b), [b"1", b"1"])
            cluster.wait_agreed()

    def pass_turns(self, node):
        """What was sent to a Kelvin before has been read when this returns. A redis-server in MIGRATE replies to no client."""
        if node.kelvin:
            for _ in range(3):
                node.ask("PING")

    def scenario_who_waits_when_a_slot_leaves(self):
        """Clients that wait for keys of the slot get MOVED, subscribers of its shard channels lose their subscription."""
        cluster = self.shared()
        for source, target in ((cluster.nodes[0], cluster.nodes[1]), (cluster.nodes[1], cluster.nodes[0])):
            tag = tags_at(source, 1)[0]
            slot = slot_of(tag)
            waiting, subscriber = [self.connect(source) for _ in range(3)], self.connect(source)
            for client, words in zip(waiting, (["BLPOP", "list{%s}" % tag, 0], ["BZPOPMIN", "zset{%s}" % tag, 0],
                                               ["XREAD", "BLOCK", 0, "STREAMS", "stream{%s}" % tag, "$"])):
                identity = client.must("CLIENT", "ID")
                client.send(encode(words))
                until(lambda identity=identity, source=source: b"flags=b" in source.ask("CLIENT", "LIST", "ID", identity), 20, "the client waits")
            subscriber.must("SSUBSCRIBE", "news{%s}" % tag)
            self.assertEqual(source.ask("SPUBLISH", "news{%s}" % tag, "x"), 1)
            self.assertEqual(subscriber.receive()[0], b"smessage")
            cluster.open_slot(slot, source, target)
            cluster.set_owner(slot, target)
            for client in waiting:
                self.assert_error(client.receive(), "MOVED %d %s" % (slot, target.name))
            self.assertEqual(subscriber.receive(), [b"sunsubscribe", b"news{%s}" % tag.encode(), 0])
            with target.client() as client:
                client.must("SSUBSCRIBE", "news{%s}" % tag)
            cluster.wait_agreed()

    def scenario_calls_while_slots_move(self):
        """MULTI, EVAL, WATCH and BLPOP on keys of slots that move there and back: nothing is done twice, by half, or not at all."""
        cluster = self.shared()
        left, right, _ = cluster.nodes
        tags = tags_in(LOW_SLOTS, 8)
        works = [kind(cluster, tag) for kind, tag in zip((Transfers, ScriptedTransfers, Optimistic, Queue) * 2, tags)]
        for work in works:
            self.addCleanup(work.stop)
            work.start()
        until(lambda: all(work.count > 10 for work in works), 60, "work")
        for source, target in ((left, right), (right, left)):
            cluster.move_slots(source, target, MOVED_COUNT)
            counts = [work.count for work in works]
            cluster.wait(lambda counts=counts: all(work.count > count + 5 or work.wrong for work, count in zip(works, counts)), "work goes on")
        for work in works:
            work.stop()
        for work in works:
            self.assertIsNone(work.wrong, "%s: %s" % (type(work).__name__, work.wrong))
            work.check()
        self.assertGreater(sum(work.client.replies["MOVED"] for work in works), 0)
        cluster.wait_agreed()
        cluster.check()


def client_of_one(client):
    """A connection to one server in the form of a client of a cluster."""
    class Plain:
        def must(self, *args, key=None):
            return client.must(*args)
    return Plain()


class Work(threading.Thread):
    """Does `once` with keys of one tag until it is stopped."""

    def __init__(self, cluster, tag):
        super().__init__(daemon=True)
        self.client = cluster.client(once=True)
        self.a, self.b = "{%s}:a" % tag, "{%s}:b" % tag
        self.count, self.wrong = 0, None
        self.halt = threading.Event()

    def run(self):
        try:
            self.begin()
            while not self.halt.wait(0.002):
                self.once()
                self.count += 1
        except Exception as error:      # noqa: whatever ends it is shown by the test
            self.wrong = repr(error)

    def begin(self):
        pass

    def stop(self):
        self.halt.set()
        if self.ident:
            self.join(100)

    def check(self):
        with self.client:
            self.check_at(self.client)


class Transfers(Work):
    """Both keys are there at any time, with the sum 0."""

    def begin(self):
        self.client.must("MSET", self.a, 0, self.b, 0)

    def once(self):
        replies = self.client.transaction(self.a, [("INCRBY", self.a, 1), ("DECRBY", self.b, 1), ("MGET", self.a, self.b)])
        self.compare(replies[2])

    def compare(self, values):
        if values != [b"%d" % (self.count + 1), b"%d" % -(self.count + 1)]:
            raise AssertionError("after %d transfers: %r" % (self.count + 1, values))

    def check_at(self, client):
        if client.must("MGET", self.a, self.b) != [b"%d" % self.count, b"%d" % -self.count]:
            raise AssertionError("after %d transfers: %r" % (self.count, client.must("MGET", self.a, self.b)))


class ScriptedTransfers(Transfers):
    SCRIPT = "redis.call('INCRBY', KEYS[1], 1) redis.call('DECRBY', KEYS[2], 1) return redis.call('MGET', KEYS[1], KEYS[2])"

    def once(self):
        self.compare(self.client.must("EVAL", self.SCRIPT, 2, self.a, self.b, key=self.a))


class Optimistic(Work):
    """Increments by WATCH on a connection to the owner; a slot that moves makes EXEC fail, or is an error, never a wrong sum."""

    def once(self):
        while not self.halt.is_set():
            self.client.call("GET", self.a)                 # learns the owner
            connection = self.client.at(self.client.address_of(slot_of(self.a)))
            replies = connection.pipeline([("WATCH", self.a), ("GET", self.a)])
            if any(isinstance(reply, Error) for reply in replies):
                connection.must("UNWATCH")
                continue
            replies = connection.pipeline([("MULTI",), ("SET", self.a, int(replies[1] or 0) + 1), ("EXEC",)])
            if isinstance(replies[2], list):
                return

    def check_at(self, client):
        # The last one may have been cut off by the end.
        value = int(client.must("GET", self.a))
        if value not in (self.count, self.count - 1):
            raise AssertionError("%d increments, and the value is %d" % (self.count, value))


class Queue(Work):
    """Numbers go through a list, to a client that waits for it, each once and in order."""

    def begin(self):
        self.sent = 0
        self.got = []

    def once(self):
        self.sent += 1
        self.client.must("RPUSH", self.a, self.sent)
        if self.sent % 2 == 0:
            for _ in range(2):
                reply = self.client.must("BLPOP", self.a, 5)
                self.got.append(int(reply[1]))

    def check_at(self, client):
        rest = [int(word) for word in client.must("LRANGE", self.a, 0, -1)]
        if self.got + rest != list(range(1, self.sent + 1)):
            raise AssertionError("of %d numbers came %r" % (self.sent, (self.got + rest)[-20:]))


if __name__ == "__main__":
    main()
