"""CLUSTER and what else a node of a cluster replies: the same as nodes that are redis-server 7.2: every subcommand, every wrong argument, every shape.

The two clusters have two primaries and a replica each. Without a redis-server of 7.2 (KELVIN_REDIS) what 7.0 replies in another way is left out.
"""
import errno
import os
import re
import shutil
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                                 # noqa: E402
from support.cluster import Cluster, Node                                                              # noqa: E402
from support.disk import DELAY, FAIL, Disk                                                                 # noqa: E402
from support.resp import OK, Error, Map, Null, Status, Typed, encode, split                            # noqa: E402
from support.server import StartFailed, is_redis, until                                                # noqa: E402

ID = re.compile(rb"[0-9a-f]{40}")
# Long, so that no node fails while the machine stands still.
OPTIONS = {"cluster-node-timeout": 60000}

# Of 7.2: 7.0 has other words.
LATER = ("MYSHARDID", "MEET 1.2.3.4 x", "MEET 1.2.3.4 1 x", " DB 1")

# On a primary, of which $0 is the ID; $1 is the other primary's, $2 the replica's. None of them changes anything.
ON_PRIMARY = """
    CLUSTER
    CLUSTER nosuch
    CLUSTER NODES x
    CLUSTER INFO x
    CLUSTER SLOTS x
    CLUSTER SHARDS x
    CLUSTER MYID x
    CLUSTER LINKS x
    CLUSTER MYID
    CLUSTER KEYSLOT
    CLUSTER KEYSLOT key
    CLUSTER KEYSLOT {tag}key
    CLUSTER KEYSLOT ""
    CLUSTER MEET
    CLUSTER MEET 127.0.0.1
    CLUSTER MEET 1.2.3 1
    CLUSTER MEET localhost 1
    CLUSTER MEET 1.2.3.4 0
    CLUSTER MEET 1.2.3.4 -1
    CLUSTER MEET 1.2.3.4 60000
    CLUSTER MEET 1.2.3.4 70000
    CLUSTER MEET 1.2.3.4 x
    CLUSTER MEET 1.2.3.4 1 x
    CLUSTER MEET 1.2.3.4 1 0
    CLUSTER MEET 1.2.3.4 1 65536
    CLUSTER MEET ::x 1 2
    CLUSTER MEET 1.2.3.4 1 2 3
    CLUSTER FORGET
    CLUSTER FORGET nosuch
    CLUSTER FORGET 0123456789012345678901234567890123456789
    CLUSTER FORGET $0
    CLUSTER REPLICATE
    CLUSTER REPLICATE nosuch
    CLUSTER REPLICATE 0123456789012345678901234567890123456789
    CLUSTER REPLICATE $0
    CLUSTER REPLICATE $1
    CLUSTER REPLICATE $2
    CLUSTER FAILOVER
    CLUSTER FAILOVER x
    CLUSTER FAILOVER FORCE
    CLUSTER FAILOVER TAKEOVER
    CLUSTER FAILOVER FORCE x
    CLUSTER RESET x
    CLUSTER RESET SOFT x
    CLUSTER SET-CONFIG-EPOCH
    CLUSTER SET-CONFIG-EPOCH x
    CLUSTER SET-CONFIG-EPOCH -1
    CLUSTER SET-CONFIG-EPOCH 7
    CLUSTER BUMPEPOCH x
    CLUSTER SAVECONFIG x
    CLUSTER SAVECONFIG
    CLUSTER ADDSLOTS
    CLUSTER ADDSLOTS x
    CLUSTER ADDSLOTS 0
    CLUSTER ADDSLOTS 0 x
    CLUSTER ADDSLOTS 0 16384
    CLUSTER ADDSLOTS -1
    CLUSTER ADDSLOTS 16383
    CLUSTER ADDSLOTS 01
    CLUSTER ADDSLOTSRANGE 0
    CLUSTER ADDSLOTSRANGE 0 1
    CLUSTER ADDSLOTSRANGE 0 1 2
    CLUSTER ADDSLOTSRANGE 0 1 x 3
    CLUSTER ADDSLOTSRANGE 1 x
    CLUSTER ADDSLOTSRANGE 9 3
    CLUSTER ADDSLOTSRANGE 9 3 0 1
    CLUSTER ADDSLOTSRANGE 0 1 9 3
    CLUSTER DELSLOTS
    CLUSTER DELSLOTS x
    CLUSTER DELSLOTS 5 5
    CLUSTER DELSLOTSRANGE 1 5 5 6
    CLUSTER DELSLOTSRANGE 1 5 3 2
    CLUSTER DELSLOTSRANGE 1 16384
    CLUSTER FLUSHSLOTS x
    CLUSTER SETSLOT
    CLUSTER SETSLOT 1
    CLUSTER SETSLOT 1 STABLE
    CLUSTER SETSLOT 1 STABLE x
    CLUSTER SETSLOT x STABLE
    CLUSTER SETSLOT 16384 STABLE
    CLUSTER SETSLOT 1 nosuch
    CLUSTER SETSLOT 1 nosuch x
    CLUSTER SETSLOT 1 NODE
    CLUSTER SETSLOT 1 NODE nosuch
    CLUSTER SETSLOT 1 NODE $2
    CLUSTER SETSLOT x NODE $0
    CLUSTER SETSLOT 1 MIGRATING
    CLUSTER SETSLOT 1 MIGRATING nosuch
    CLUSTER SETSLOT 1 MIGRATING $2
    CLUSTER SETSLOT 1 MIGRATING $1 x
    CLUSTER SETSLOT 16000 MIGRATING $1
    CLUSTER SETSLOT 16000 MIGRATING nosuch
    CLUSTER SETSLOT 1 IMPORTING $1
    CLUSTER SETSLOT 1 IMPORTING nosuch
    CLUSTER SETSLOT 16000 IMPORTING nosuch
    CLUSTER SETSLOT 16000 IMPORTING $2
    CLUSTER COUNTKEYSINSLOT
    CLUSTER COUNTKEYSINSLOT x
    CLUSTER COUNTKEYSINSLOT -1
    CLUSTER COUNTKEYSINSLOT 16384
    CLUSTER COUNTKEYSINSLOT 5
    CLUSTER GETKEYSINSLOT
    CLUSTER GETKEYSINSLOT 1
    CLUSTER GETKEYSINSLOT x 1
    CLUSTER GETKEYSINSLOT 1 x
    CLUSTER GETKEYSINSLOT 1 -1
    CLUSTER GETKEYSINSLOT 16384 1
    CLUSTER GETKEYSINSLOT 5 10
    CLUSTER REPLICAS
    CLUSTER REPLICAS nosuch
    CLUSTER REPLICAS $2
    CLUSTER SLAVES nosuch
    CLUSTER REPLICAS $1
    CLUSTER COUNT-FAILURE-REPORTS
    CLUSTER COUNT-FAILURE-REPORTS nosuch
    CLUSTER COUNT-FAILURE-REPORTS $1
    CLUSTER MYSHARDID x
    CLUSTER HELP x
    READONLY x
    READONLY
    READWRITE
    READWRITE x
    ASKING
    ASKING x
    SELECT 0
    SELECT 1
    SELECT 16
    SELECT -1
    SELECT x
    SELECT 99999999999
    SWAPDB 0 1
    SWAPDB x y
    REPLICAOF 127.0.0.1 1
    REPLICAOF NO ONE
    SLAVEOF x y
    FAILOVER
    FAILOVER ABORT
    FAILOVER nosuch
    DEBUG CLUSTERLINK KILL all nosuch
    DEBUG DROP-CLUSTER-PACKET-FILTER x
    DEBUG DROP-CLUSTER-PACKET-FILTER -1
"""

# Keys of slots of the first primary, and what concerns other databases.
ON_KEYS = """
    SET {06S} v
    COPY {06S} {06S}x DB 1
    COPY {06S} {06S}x DB 0
    MOVE {06S} 1
    MOVE {06S} x
    SORT {06S}list BY w_*
    SORT {06S}list BY nosort
    SORT {06S}list GET #
    SORT {06S}list GET x
    DEL {06S} {06S}x
    SSUBSCRIBE {06S} {other}
    SSUBSCRIBE {e}
    SSUBSCRIBE {0}
    SPUBLISH {e} x
    SPUBLISH {0} x
    GET {e}
    GET {0}
    MGET {0} {e}
    SSUBSCRIBE elsewhere{06S}
"""

# In a slot of which some keys are here and some are not. What is written where the slot goes to is removed again.
IN_MOVING_SLOT = """
    GET {06S}
    GET {06S}2
    SET {06S}2 v
    SET {06S} v
    MGET {06S} {06S}1
    MGET {06S} {06S}2
    MGET {06S}2 {06S}
    MGET {06S}2 {06S}3
    MGET {06S}2 {06S}2
    MGET {06S} {06T}
    MGET {06S}2 {06T}
    MSET {06S} v {06S}2 v
    MSET {06S} v {06S} v
    EXISTS {06S} {06S}1 {06S}2
    DEL {06S}2
    RENAME {06S}2 {06S}3
    OBJECT ENCODING {06S}2
    TYPE {06S}2
    EVAL "return redis.call('get', KEYS[1])" 1 {06S}
    EVAL "return redis.call('get', KEYS[1])" 1 {06S}2
    EVAL "return redis.call('get', KEYS[1])" 2 {06S} {06S}1
    EVAL "return redis.call('get', KEYS[1])" 2 {06S} {06S}2
    EVAL "return redis.call('get', KEYS[1])" 2 {06S}2 {06S}3
    EVAL "return redis.call('get', KEYS[2])" 2 {06S} {06T}
    EVAL_RO "return redis.call('get', KEYS[1])" 1 {06S}2
    EVAL "return 1" 0
    BLPOP {06S}2 0.01
    BLPOP {06S}2 {06S}3 0.01
    BLPOP {06S}2 {06S} 0.01
    BLMOVE {06S}2 {06S}3 LEFT LEFT 0.01
    BZPOPMIN {06S}2 0.01
    BLMPOP 0.01 1 {06S}2 LEFT
    XREAD STREAMS {06S}2 0
    XREAD BLOCK 10 STREAMS {06S}2 $
    XREAD BLOCK 10 STREAMS {06S}2 {06S}3 $ $
    XREAD BLOCK 10 STREAMS {06S}2 {06S} $ $
    XREADGROUP GROUP g c BLOCK 10 STREAMS {06S}2 >
    WATCH {06S}
    WATCH {06S}2
    WATCH {06S} {06S}2
    WATCH {06S}2 {06S}3
    UNWATCH
    SPUBLISH {06S}2 m
    SORT {06S}2 BY nosort STORE {06S}3
    MIGRATE 127.0.0.1 1 {06S}2 0 10
    MIGRATE 127.0.0.1 1 "" 0 10 KEYS {06S}2 {06S}3
    MULTI
    GET {06S}
    EXEC
    MULTI
    GET {06S}2
    EXEC
    MULTI
    MGET {06S} {06S}1
    EXEC
    MULTI
    MGET {06S} {06S}2
    EXEC
    MULTI
    MGET {06S}2 {06S}3
    EXEC
    MULTI
    GET {06S}
    GET {06S}2
    EXEC
    MULTI
    GET {06S}2
    GET {06S}
    PING
    EXEC
    MULTI
    PING
    GET {06S}1
    EXEC
    MULTI
    GET {06S}
    GET {06S}1
    EXEC
    MULTI
    GET {06S}
    GET {06T}
    EXEC
    MULTI
    EVAL "return redis.call('get', KEYS[1])" 1 {06S}2
    EXEC
    MULTI
    EVAL "return redis.call('get', KEYS[1])" 2 {06S} {06S}2
    EXEC
    MULTI
    EVAL "return redis.call('get', KEYS[1])" 1 {06S}
    EXEC
    MULTI
    BLPOP {06S}2 0
    EXEC
    MULTI
    XREAD BLOCK 10 STREAMS {06S}2 $
    EXEC
    MULTI
    SPUBLISH {06S}2 m
    DISCARD
    MULTI
    MIGRATE 127.0.0.1 1 {06S}2 0 10
    EXEC
    MULTI
    WATCH {06S}2
    DISCARD
    MULTI
    SET {06S}2 v
    DEL {06S}2
    EXEC
    MULTI
    SET {06S}2 v
    DISCARD
    DEL {06S}2
    SSUBSCRIBE {06S}2
    SUNSUBSCRIBE {06S}2
"""

ON_REPLICA = """
    CLUSTER SETSLOT 1 STABLE
    CLUSTER SETSLOT x STABLE
    CLUSTER SETSLOT 1 nosuch
    CLUSTER REPLICATE $2
    CLUSTER REPLICATE nosuch
    CLUSTER FORGET $0
    CLUSTER ADDSLOTS 1
    CLUSTER SET-CONFIG-EPOCH 7
    REPLICAOF NO ONE
    HELLO nosuch
"""


def numbers_hidden(reply):
    """Texts with each number that differs from run to run as N."""
    return re.sub(rb"\b\d{9,}\b", b"N", bytes(reply))


def fields_of(text):
    return [line.split(b":")[0] for line in text.split(b"\r\n") if b":" in line]


def form(kind, primaries=2, replicas=1, **options):
    cluster = Cluster([kind] * (primaries + replicas), **{**OPTIONS, **options})
    try:
        cluster.form(primaries)
    except BaseException:
        cluster.discard()
        raise
    return cluster


def id_of(cluster, index):
    return cluster.nodes[index].id.encode()


def words_of(nodes):
    """Pairs of an ID or a port, which differ in each cluster, and the word that replaces it."""
    return [pair for index, node in enumerate(nodes)
            for pair in ((node.id.encode(), b"<id%d>" % index), (b"%d" % node.port, b"<port%d>" % index), (b"%d" % node.bus_port, b"<bus%d>" % index))]


def anonymous(reply, words):
    """The reply with the words of words_of() in place of IDs and ports. Other IDs become <other>."""
    if isinstance(reply, Null):
        return reply
    if isinstance(reply, bytes):
        text = bytes(reply)
        for own, word in words:
            text = re.sub(rb"(?<![0-9a-f])" + own + rb"(?![0-9a-f])", word, text)
        return (type(reply) if isinstance(reply, Typed) else bytes)(ID.sub(b"<other>", text))
    if isinstance(reply, (list, tuple)):
        return type(reply)(anonymous(each, words) for each in reply)
    if isinstance(reply, int) and not isinstance(reply, bool):
        return dict(words).get(b"%d" % reply, reply)
    return reply


class ClusterCommandsTest(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.ours = form("kelvin")
        cls.addClassCleanup(cls.ours.stop)
        cls.theirs = form("redis")
        cls.addClassCleanup(cls.theirs.stop)
        cls.words = [words_of(each.nodes) for each in (cls.ours, cls.theirs)]
        cls.is_7_2 = cls.theirs.nodes[0].info("server")["redis_version"].startswith("7.2")

    def connect(self, node, **options):
        client = node.client(**options)
        self.addCleanup(client.close)
        return client

    def pair(self, index, protocol=2):
        return [self.connect(cluster.nodes[index], protocol=protocol) for cluster in (self.ours, self.theirs)]

    def call_both(self, clients, args):
        """The replies, without what differs between any two clusters."""
        replies = []
        for client, cluster, words in zip(clients, (self.ours, self.theirs), self.words):
            sent = [re.sub(rb"^\$(\d)$", lambda found: id_of(cluster, int(found[1])), arg) for arg in args]
            replies.append(anonymous(client.call(*sent), words))
        return replies

    def both(self, script, index, protocol=2, reply=lambda reply: reply):
        clients = self.pair(index, protocol)
        for line in script.splitlines():
            if not line.strip() or (not self.is_7_2 and any(word in line for word in LATER)):
                continue
            with self.subTest(line.strip(), protocol=protocol):
                ours, theirs = (reply(each) for each in self.call_both(clients, split(line.strip())))
                self.assertEqual(ours, theirs)

    def test_errors_on_a_primary(self):
        for protocol in (2, 3):
            self.both(ON_PRIMARY, 0, protocol)
            self.both(ON_KEYS, 0, protocol)

    def test_errors_on_a_replica(self):
        script = ON_REPLICA.replace("CLUSTER ADDSLOTS 1\n", "") if not is_redis() else ON_REPLICA
        self.both(script, 2)
        self.both(script, 2, 3)

    def test_nodes(self):
        def shape(reply):
            lines = numbers_hidden(reply).removeprefix(b"txt:").splitlines()
            return type(reply), sorted(re.sub(rb" (N|0) (N|0) ", b" T T ", line) for line in lines)
        for index in range(3):
            for protocol in (2, 3):
                self.both("CLUSTER NODES", index, protocol, shape)
        self.both("CLUSTER REPLICAS $0\nCLUSTER SLAVES $0", 0, reply=lambda reply: [re.sub(rb" (N|0) (N|0) ", b" T T ", numbers_hidden(each))
                                                                                for each in reply])

    def test_slots(self):
        for index in range(3):
            for protocol in (2, 3):
                self.both("CLUSTER SLOTS", index, protocol)

    def test_shards(self):
        def by_id(reply):
            shards = []
            for shard in reply:
                (_, slots), (_, nodes) = shard if isinstance(shard, Map) else zip(shard[::2], shard[1::2])
                nodes = [list(node) if isinstance(node, Map) else list(zip(node[::2], node[1::2])) for node in nodes]
                nodes = [[(name, b"N" if name == b"replication-offset" else value) for name, value in node] for node in nodes]
                shards.append((type(shard), slots, sorted(nodes, key=str)))
            return sorted(shards, key=str)
        if self.is_7_2:
            for index in range(3):
                for protocol in (2, 3):
                    self.both("CLUSTER SHARDS", index, protocol, by_id)

    def test_shards_belong_together(self):
        """The replica is in the shard of its primary."""
        ids = [node.ask("CLUSTER", "MYSHARDID") for node in self.ours.nodes] if not is_redis() or self.is_7_2 else [0, 1, 0]
        self.assertEqual(ids[0], ids[2])
        self.assertNotEqual(ids[0], ids[1])

    def test_info(self):
        def shape(reply):
            return type(reply), [field for field in fields_of(reply) if not field.startswith(b"cluster_stats_messages_")], \
                [line for line in bytes(reply).split(b"\r\n") if line.startswith((b"cluster_state", b"cluster_slots", b"cluster_size", b"cluster_known"))]
        for index in range(3):
            for protocol in (2, 3):
                self.both("CLUSTER INFO", index, protocol, shape)

    def test_links(self):
        def shape(reply):
            self.assertGreater(len(reply), 1)
            return type(reply), {(type(link), tuple(name for name, _ in (link if isinstance(link, Map) else zip(link[::2], link[1::2])))) for link in reply}
        for protocol in (2, 3):
            self.both("CLUSTER LINKS", 0, protocol, shape)
        names = [link[1] + b" " + link[3] for link in self.ours.nodes[0].ask("CLUSTER", "LINKS")]
        pairs = [[way + b" " + id_of(self.ours, index) for way in (b"to", b"from")] for index in (1, 2)]
        self.assertIn(names, (pairs[0] + pairs[1], pairs[1] + pairs[0]))         # clients expect the two of a node side by side

    def test_info_hello_and_config(self):
        for client in self.pair(0):
            self.assertIn(b"redis_mode:cluster", client.must("INFO", "server"))
            self.assertIn(b"cluster_enabled:1", client.must("INFO", "cluster"))
            self.assertEqual(client.must("HELLO")[9], b"cluster")
        self.assertEqual(self.ours.nodes[0].info("clients")["cluster_connections"], "4")
        if not is_redis():
            for node in self.ours.nodes:
                self.assertEqual(node.ask("CONFIG", "GET", "cluster-enabled")[1], b"yes")

    def test_endpoints(self):
        for kind in ("hostname", "unknown-endpoint", "ip"):
            for client in self.pair(0):
                client.must("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
            for protocol in (2, 3):
                self.both("CLUSTER SLOTS", 0, protocol)
        for index, name in ((0, "node-0.example"), (1, "")):
            for client in self.pair(index):
                client.must("CONFIG", "SET", "cluster-announce-hostname", name)
        for client in self.pair(0) + self.pair(1):
            until(lambda client=client: b"node-0.example" in client.must("CLUSTER", "NODES"), 60, "the name of the host")
        for kind in ("hostname", "unknown-endpoint", "ip"):
            for client in self.pair(1):
                client.must("CONFIG", "SET", "cluster-preferred-endpoint-type", kind)
            for protocol in (2, 3):
                self.both("CLUSTER SLOTS", 1, protocol)
            self.both("CLUSTER NODES", 1, 2, lambda reply: sorted(re.findall(rb"\S+@\S+", reply)))
        for client in self.pair(0):
            client.must("CONFIG", "SET", "cluster-announce-hostname", "")
        for client in self.pair(1) + self.pair(2):
            until(lambda client=client: b"node-0.example" not in client.must("CLUSTER", "NODES"), 60, "no name of the host")

    def test_announced_addresses(self):
        for client in self.pair(1):
            client.must("CONFIG", "SET", "cluster-announce-port", 7)
        for client in self.pair(0):
            until(lambda client=client: b":7@" in client.must("CLUSTER", "NODES"), 60, "the announced port")
        self.both("CLUSTER SLOTS", 0)
        for client in self.pair(1):
            client.must("CONFIG", "SET", "cluster-announce-port", 0)
        for client in self.pair(0) + self.pair(2):
            until(lambda client=client: b":7@" not in client.must("CLUSTER", "NODES"), 60, "its own port")

    def test_keys_in_a_slot(self):
        slot = self.ours.nodes[0].ask("CLUSTER", "KEYSLOT", "{06S}")
        for client in self.pair(0):
            for number in range(30):
                client.must("SET", "{06S}%d" % number, number)
            client.must("SET", "elsewhere{0}", 1) if client.must("CLUSTER", "KEYSLOT", "{0}") < 8192 else None
        self.both("CLUSTER COUNTKEYSINSLOT %d\nCLUSTER COUNTKEYSINSLOT %d" % (slot, slot + 1), 0)
        for count in (0, 1, 7, 30, 100):
            self.both("CLUSTER GETKEYSINSLOT %d %d" % (slot, count), 0, reply=len)
        self.both("CLUSTER GETKEYSINSLOT %d 100" % slot, 0, reply=sorted)
        self.both("CLUSTER FLUSHSLOTS\nCLUSTER RESET\nCLUSTER SETSLOT %d NODE $1" % slot, 0)
        for client in self.pair(0):
            client.must("FLUSHALL")
        self.both("CLUSTER COUNTKEYSINSLOT %d\nCLUSTER GETKEYSINSLOT %d 5" % (slot, slot), 0)

    def test_moving_a_slot_is_shown(self):
        script = """
            CLUSTER SETSLOT 5 MIGRATING $1
            CLUSTER SETSLOT 6 MIGRATING $1
            CLUSTER SETSLOT 16000 IMPORTING $1
        """
        def moves(reply):
            return re.findall(rb"\[[^]]*\]", reply)
        self.both(script, 0)
        self.both("CLUSTER NODES", 0, reply=moves)
        self.both("CLUSTER SETSLOT 6 MIGRATING $1\nCLUSTER SETSLOT 5 STABLE", 0)
        self.both("CLUSTER NODES", 0, reply=moves)
        self.both("CLUSTER SETSLOT 6 STABLE\nCLUSTER SETSLOT 16000 STABLE", 0)
        self.both("CLUSTER NODES", 0, reply=moves)

    def test_a_slot_goes_to_another_node_and_back(self):
        def owner(reply):
            return [line.split(b" ")[8:] for line in sorted(reply.splitlines(), key=lambda line: line.split(b" ")[0])]
        for there, back in ((0, 1), (1, 0)):
            self.both("CLUSTER SETSLOT 5 IMPORTING $%d" % there, back)
            self.both("CLUSTER SETSLOT 5 MIGRATING $%d" % back, there)
            self.both("CLUSTER SETSLOT 5 NODE $%d" % back, back)
            self.both("CLUSTER SETSLOT 5 NODE $%d" % back, there)
            for index in (0, 1, 2):
                for client, cluster in zip(self.pair(index), (self.ours, self.theirs)):
                    until(lambda client=client, cluster=cluster: [line[2:] for line in client.must("CLUSTER", "SLOTS") if line[0] <= 5 <= line[1]][0][0][2]
                          == id_of(cluster, back), 60, "the slot's new owner")
                self.both("CLUSTER NODES", index, reply=owner)

    MIGRATION = b"MIGRATESLOTS", b"GETSLOTMIGRATIONS", b"CANCELSLOTMIGRATIONS", b"MIGRATION", b"RECEIVESLOTS"

    @kelvin_only
    def test_help(self):
        lines = self.ours.nodes[0].ask("CLUSTER", "HELP")
        theirs = self.theirs.nodes[0].ask("CLUSTER", "HELP")

        def names(reply):
            return {line.split(b" ")[0] for line in reply if re.match(rb"[A-Z]", line)}
        self.assertEqual(names(lines) | {b"SLAVES"}, names(theirs) | {b"SLAVES", b"MYSHARDID", *self.MIGRATION})

    def test_a_killed_link_comes_back(self):
        for cluster, client in zip((self.ours, self.theirs), self.pair(0)):
            before = {(link[1], link[3]): link[5] for link in client.must("CLUSTER", "LINKS")}
            self.assertEqual(client.must("DEBUG", "CLUSTERLINK", "KILL", "to", id_of(cluster, 1)), OK)

            def is_back():
                links = {(link[1], link[3]): link[5] for link in client.must("CLUSTER", "LINKS")}
                return links.get((b"to", id_of(cluster, 1)), before[b"to", id_of(cluster, 1)]) != before[b"to", id_of(cluster, 1)] and len(links) == len(before)
            until(is_back, 60, "a new link")

    def test_messages_reach_subscribers_of_all_nodes(self):
        for index in range(3):
            for cluster in (self.ours, self.theirs):
                with cluster.nodes[2].client() as subscriber, cluster.nodes[index].client() as publisher:
                    subscriber.call("SUBSCRIBE", "news")
                    publisher.must("PUBLISH", "news", "one")
                    self.assertEqual(subscriber.receive(), [b"message", b"news", b"one"])
                    publisher.pipeline([["MULTI"], ["PUBLISH", "news", "two"], ["PUBLISH", "news", "three"], ["EXEC"]])
                    self.assertEqual([subscriber.receive()[2] for _ in range(2)], [b"two", b"three"])
                    publisher.must("EVAL", "return redis.call('publish', 'news', 'four')", 0)
                    self.assertEqual(subscriber.receive()[2], b"four")

    def test_shard_messages_reach_the_nodes_of_the_shard(self):
        for cluster in (self.ours, self.theirs):
            with cluster.nodes[2].client() as replica, cluster.nodes[1].client() as other, cluster.nodes[0].client() as publisher:
                replica.call("SSUBSCRIBE", "{06S}news")
                other.call("SUBSCRIBE", "{06S}news")
                publisher.must("SPUBLISH", "{06S}news", "one")
                self.assertEqual(replica.receive(), [b"smessage", b"{06S}news", b"one"])
                publisher.must("PUBLISH", "{06S}news", "two")
                self.assertEqual(other.receive(), [b"message", b"{06S}news", b"two"])

    def test_a_script_is_judged_for_keys_that_it_does_not_name(self):
        slot = self.ours.nodes[0].ask("CLUSTER", "KEYSLOT", "{06S}")
        here = "CLUSTER COUNTKEYSINSLOT %d\nCLUSTER SETSLOT %d MIGRATING $1\n" % (slot, slot)
        self.both(here + """
            EVAL "return redis.call('set', '{06S}', 'v')" 0
            EVAL "return redis.call('set', '{06S}', 'v')" 1 {06T}
            EVAL "#!lua\\nreturn redis.call('set', '{06S}', 'v')" 0
            MULTI
            EVAL "return redis.call('set', '{06S}', 'v')" 0
            EXEC
            CLUSTER COUNTKEYSINSLOT %d
            CLUSTER SETSLOT %d STABLE
            SET {06S} v
            CLUSTER SETSLOT %d MIGRATING $1
            EVAL "return redis.call('get', '{06S}')" 0
            EVAL "return redis.call('mget', '{06S}', '{06S}2')" 0
            DEL {06S}
            CLUSTER SETSLOT %d STABLE
            """ % (slot, slot, slot, slot), 0)
        self.both("""
            CLUSTER SETSLOT %d IMPORTING $0
            ASKING
            EVAL "return redis.call('mget', '{06S}', '{06S}2')" 0
            CLUSTER SETSLOT %d STABLE
            """ % (slot, slot), 1)

    def test_commands_in_a_slot_that_moves(self):
        """{06S} and {06S}1 are there, {06S}2 and {06S}3 are not."""
        slot = self.ours.nodes[0].ask("CLUSTER", "KEYSLOT", "{06S}")
        self.both("SET {06S} v\nSET {06S}1 v\nCLUSTER SETSLOT %d MIGRATING $1" % slot, 0)
        self.both("CLUSTER SETSLOT %d IMPORTING $0" % slot, 1)
        for protocol in (2, 3):
            self.both(IN_MOVING_SLOT, 0, protocol)
        self.both(IN_MOVING_SLOT, 1)
        self.both(re.sub(r"(?m)^ *(?=\S)(?!CLUSTER|EXEC|DISCARD|UNWATCH)", "ASKING\n", IN_MOVING_SLOT), 1)
        self.both(re.sub(r"(?m)^ *MULTI", "ASKING\nMULTI", IN_MOVING_SLOT), 1)
        self.both("READONLY\n" + IN_MOVING_SLOT, 2)
        for index in (0, 1):
            self.both("CLUSTER SETSLOT %d STABLE" % slot, index)
        self.both("DEL {06S} {06S}1 {06S}2 {06S}3", 0)

    def await_owner(self, cluster, slot, index):
        """Until all nodes have seen it: an older claim could still come."""
        for node in cluster.nodes:
            until(lambda node=node: [line[2][2] for line in node.ask("CLUSTER", "SLOTS") if line[0] <= slot <= line[1]] == [id_of(cluster, index)], 60,
                  "the slot's owner")

    def begin_waiting(self, node, *commands):
        """A client that waits in the last of the commands; the others reply OK."""
        with node.client() as admin:
            before = admin.must("CLIENT", "LIST").count(b" flags=b")
            client = node.client()
            self.addCleanup(client.close)
            client.send(b"".join(encode(command) for command in commands))
            until(lambda: admin.must("CLIENT", "LIST").count(b" flags=b") == before + 1, 60, "a client that waits")
        for _ in commands[1:]:
            self.assertEqual(client.receive(), OK)
        return client

    def waits_in_moving_slot(self, cluster, wait, push):
        """Replies to clients that wait on both sides of a slot that moves there and back."""
        source, target = (self.connect(node) for node in cluster.nodes[:2])
        slot = source.must("CLUSTER", "KEYSLOT", "{06S}")
        leaves = self.begin_waiting(cluster.nodes[0], wait)
        target.must("CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(cluster, 0))
        given_up = self.begin_waiting(cluster.nodes[1], ["ASKING"], wait)
        target.must("CLUSTER", "SETSLOT", slot, "STABLE")
        replies = [given_up.receive()]
        target.must("CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(cluster, 0))
        source.must("CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(cluster, 1))
        comes = self.begin_waiting(cluster.nodes[1], ["ASKING"], wait)
        replies += [source.call(*wait), source.call(*push), target.call(*push)]
        target.must("CLUSTER", "SETSLOT", slot, "NODE", id_of(cluster, 1))
        source.must("CLUSTER", "SETSLOT", slot, "NODE", id_of(cluster, 1))
        replies += [leaves.receive(), target.must(*push), comes.receive(), target.call("DEL", "{06S}")]
        self.await_owner(cluster, slot, 1)
        source.must("CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(cluster, 1))
        for client in (source, target):
            client.must("CLUSTER", "SETSLOT", slot, "NODE", id_of(cluster, 0))
        self.await_owner(cluster, slot, 0)
        return replies

    def test_clients_that_wait_in_a_slot_that_moves(self):
        for wait, push in ((["BLPOP", "{06S}", 0], ["RPUSH", "{06S}", "v"]), (["BZPOPMIN", "{06S}", 0], ["ZADD", "{06S}", 1, "v"]),
                           (["XREAD", "BLOCK", 0, "STREAMS", "{06S}", "$"], ["XADD", "{06S}", "1-*", "f", "v"])):
            ours, theirs = (anonymous(self.waits_in_moving_slot(cluster, wait, push), words) for cluster, words in zip((self.ours, self.theirs), self.words))
            self.assertEqual(ours, theirs)

    @kelvin_only
    def test_no_write_gets_into_a_slot_while_it_is_given_away(self):
        admin, other = (self.connect(node) for node in self.ours.nodes[:2])
        slot = admin.must("CLUSTER", "KEYSLOT", "{06S}")

        def write(client, key):
            reply = OK
            while not isinstance(reply, Error):
                reply = client.call("SET", key, "v")
                if not isinstance(reply, Error):
                    reply = client.call("DEL", key)
        for _ in range(20):
            clients = [self.ours.nodes[0].client() for _ in range(2)]
            writers = [threading.Thread(target=write, args=(client, "{06S}%d" % index)) for index, client in enumerate(clients)]
            for writer in writers:
                writer.start()
            until(lambda: admin.call("CLUSTER", "SETSLOT", slot, "NODE", id_of(self.ours, 1)) == OK, 60, "the slot without keys")
            for writer, client in zip(writers, clients):
                writer.join()
                client.close()
            left = admin.must("CLUSTER", "COUNTKEYSINSLOT", slot)
            for client in (other, admin):
                client.must("CLUSTER", "SETSLOT", slot, "NODE", id_of(self.ours, 0))
            self.assertEqual(left, 0)

    @kelvin_only
    def test_a_transaction_that_owns_keys_is_refused_what_waits_for_units(self):
        client = self.connect(self.ours.nodes[0])
        replies = client.pipeline([["MULTI"], ["SET", "{06S}", "v"], ["CLUSTER", "INFO"], ["CLUSTER", "MYID"], ["DEL", "{06S}"], ["EXEC"]])
        self.assertEqual(replies[-1][1], Error(b"ERR CLUSTER is not possible in a transaction or script with commands that need keys"))
        self.assertEqual(replies[-1][2], id_of(self.ours, 0))
        replies = client.pipeline([["MULTI"], ["CLUSTER", "INFO"], ["CLUSTER", "COUNTKEYSINSLOT", 1], ["EXEC"]])
        self.assertIsInstance(replies[-1][0], bytes)
        self.assertEqual(replies[-1][1], 0)
        self.assertIn(b"cluster_state", client.must("EVAL", "return redis.call('cluster', 'info')", 0))


class AloneTest(unittest.TestCase):
    """A node that is alone: each test has a new pair."""

    maxDiff = 4000

    def setUp(self):
        self.nodes = [Node("kelvin", OPTIONS), Node("redis", OPTIONS)]
        for node in self.nodes:
            self.addCleanup(node.stop)
        self.clients = [node.client() for node in self.nodes]
        for client in self.clients:
            self.addCleanup(client.close)

    def both(self, script):
        for line in script.splitlines():
            if line.strip():
                words = [words_of([node]) for node in self.nodes]
                ours, theirs = (anonymous(client.call(*split(line.strip())), words) for client, words in zip(self.clients, words))
                if line.strip() == "CLUSTER NODES":
                    ours, theirs = (re.sub(rb" (\d+) (\d+) ", b" T T ", each, count=1) for each in (ours, theirs))
                self.assertEqual(ours, theirs, line)

    def test_slots_are_added_and_removed_all_or_nothing(self):
        self.both("""
            CLUSTER SLOTS
            CLUSTER NODES
            CLUSTER ADDSLOTS 1 1
            CLUSTER ADDSLOTS 1 2 1
            CLUSTER ADDSLOTSRANGE 1 5 5 7
            CLUSTER ADDSLOTSRANGE 1 5 x 7
            CLUSTER ADDSLOTSRANGE 1 5 7 6
            CLUSTER NODES
            CLUSTER ADDSLOTS 1 2 3 10
            CLUSTER NODES
            CLUSTER SLOTS
            CLUSTER ADDSLOTS 4 3
            CLUSTER ADDSLOTSRANGE 4 9 20 30
            CLUSTER NODES
            CLUSTER DELSLOTS 4 11
            CLUSTER DELSLOTS 4 5 4
            CLUSTER DELSLOTSRANGE 4 11
            CLUSTER DELSLOTSRANGE 1 2 9 10
            CLUSTER NODES
            CLUSTER DELSLOTS 3
            CLUSTER FLUSHSLOTS
            CLUSTER NODES
            CLUSTER FLUSHSLOTS
            CLUSTER ADDSLOTSRANGE 0 16383
            CLUSTER SLOTS
            CLUSTER NODES
            CLUSTER COUNTKEYSINSLOT 0
            CLUSTER LINKS
            CLUSTER REPLICAS 0123456789012345678901234567890123456789
        """)

    def test_epochs(self):
        self.both("""
            CLUSTER SET-CONFIG-EPOCH 0
            CLUSTER BUMPEPOCH
            CLUSTER BUMPEPOCH
            CLUSTER SET-CONFIG-EPOCH 5
            CLUSTER NODES
            CLUSTER RESET HARD
            CLUSTER SET-CONFIG-EPOCH 5
            CLUSTER SET-CONFIG-EPOCH 6
            CLUSTER NODES
            CLUSTER BUMPEPOCH
            CLUSTER RESET SOFT
            CLUSTER NODES
            CLUSTER SAVECONFIG
        """)

    def test_reset_changes_the_identity_if_it_is_hard(self):
        for client in self.clients:
            ids = [client.must("CLUSTER", "MYID")]
            for kind in ([], ["SOFT"], ["HARD"]):
                client.must("CLUSTER", "RESET", *kind)
                ids.append(client.must("CLUSTER", "MYID"))
            self.assertEqual([ids[0] == each for each in ids], [True, True, True, False])

    def test_a_restart_keeps_what_was_said(self):
        for client, node in zip(self.clients, self.nodes):
            client.must("CLUSTER", "ADDSLOTSRANGE", 3, 9)
            client.must("CLUSTER", "SET-CONFIG-EPOCH", 4)
            client.must("CLUSTER", "SETSLOT", 5, "MIGRATING", client.must("CLUSTER", "MYID"))
            before = client.must("CLUSTER", "NODES").split(b" ")
            node.restart(kill=True)
            with node.client() as again:
                after = again.must("CLUSTER", "NODES").split(b" ")
            self.assertEqual([before[i] for i in (0, 2, 3, 6, 7, 8)], [after[i] for i in (0, 2, 3, 6, 7, 8)])
            self.assertEqual(before[9:], after[9:])

    def test_a_node_has_one_database_and_no_replicaof(self):
        for node, client in zip(self.nodes, self.clients):
            self.assertEqual(client.call("SELECT", 1), Error(b"ERR SELECT is not allowed in cluster mode"))
            self.assertEqual(client.must("CLUSTER", "INFO").split(b"\r\n")[0], b"cluster_state:fail")

    def test_announced_ports_are_shown_at_once(self):
        self.both("CONFIG SET cluster-announce-port 7 cluster-announce-bus-port 8\nCLUSTER NODES")

    def test_reset_ends_readonly(self):
        for client in self.clients:
            client.must("READONLY")
            self.assertIn(b" flags=r ", client.must("CLIENT", "LIST"))
            self.assertEqual(client.must("RESET"), Status(b"RESET"))
            self.assertIn(b" flags=N ", client.must("CLIENT", "LIST"))

    @kelvin_only
    def test_replicaof_is_not_in_the_file(self):
        with self.assertRaises(StartFailed) as caught:
            Node("kelvin", {"replicaof": ["127.0.0.1", 1]})
        self.assertIn("replicaof directive not allowed in cluster mode", str(caught.exception))

    @kelvin_only
    def test_a_bad_address_is_refused(self):
        client = self.clients[0]
        self.assertTrue(client.call("CONFIG", "SET", "cluster-announce-ip", "a b").startswith(b"ERR CONFIG SET failed"))
        self.assertEqual(client.must("CONFIG", "SET", "cluster-announce-ip", "10.1.2.3"), OK)
        until(lambda: b"10.1.2.3:" in client.must("CLUSTER", "NODES"), 20, "the announced address")
        self.assertTrue(client.call("CONFIG", "SET", "tls-cluster", "yes").startswith(b"ERR CONFIG SET failed"))


@kelvin_only
class SavingTest(unittest.TestCase):
    """A node with all slots, whose nodes.conf is on a disk that is slow or full when the test wants it to be."""

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.disk = Disk(folder)
        self.addCleanup(self.disk.remove)
        self.node = Node("kelvin", {"cluster-node-timeout": 1000, "io-threads": 1}, folder=folder, environment=self.disk.environment)
        self.addCleanup(self.node.stop)
        self.admin = self.client()
        self.own_all_slots()

    def client(self):
        client = self.node.client()
        self.addCleanup(client.close)
        return client

    def own_all_slots(self):
        self.assertEqual(self.admin.must("CLUSTER", "ADDSLOTSRANGE", 0, 16383), OK)
        self.await_ok()

    def await_ok(self):
        until(lambda: b"cluster_state:ok" in self.admin.must("CLUSTER", "INFO"), 60, "the cluster")

    def send(self, *commands):
        """On a connection of its own, which is returned."""
        client = self.client()
        client.send(b"".join(encode(command) for command in commands))
        return client

    def test_nothing_is_written_between_the_count_of_keys_and_the_change(self):
        for command, fails in (("FLUSHSLOTS", False), ("RESET", False), ("FLUSHSLOTS", True)):
            if fails:
                self.disk.rule(1, "write", "nodes.conf*", FAIL, error=errno.ENOSPC)
            self.disk.rule(0, "write", "nodes.conf*", DELAY, delay_us=700000)
            admin = self.send(["CLUSTER", command])
            until(lambda: self.disk.matched(0) > 0, 60, "the file is being saved")
            writers = [self.send(["SET", "key1", "v"]), self.send(["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "key2"]),
                       self.send(["MULTI"], ["SET", "key3", "v"], ["EXEC"])]
            self.assertEqual(isinstance(admin.receive(), Error), fails)
            for writer, count in zip(writers, (1, 1, 3)):
                for _ in range(count):
                    reply = writer.receive()
                self.assertIsInstance(reply, Error)
            self.disk.heal()
            until(lambda: b"cluster_slots_assigned:0\r\n" in self.admin.must("CLUSTER", "INFO"), 60, "the change")
            self.assertEqual(self.admin.must("DBSIZE"), 0)
            until(lambda: self.admin.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383) == OK, 60, "the slots")
            self.await_ok()

    def test_replicate_replies_ok_although_its_synchronization_has_begun(self):
        """nodes.conf is slow, so that the worker sleeps when the command has been carried out, and the RDB is slow, so that it is loaded when the worker
        wakes up and replies."""
        self.assertEqual(self.admin.must("CLUSTER", "FLUSHSLOTS"), OK)
        with Node("redis", OPTIONS) as primary:
            primary.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            self.admin.must("CLUSTER", "MEET", *primary.address, primary.bus_port)
            until(lambda: primary.id in self.node.view() and b"handshake" not in self.admin.must("CLUSTER", "NODES"), 60, "the primary")
            self.disk.rule(0, "write", "nodes.conf*", DELAY, delay_us=500000)
            self.disk.rule(1, "read", "temp-*.link.rdb", DELAY, delay_us=10000000)
            asked = self.send(["CLUSTER", "REPLICATE", primary.id])
            until(lambda: self.disk.matched(0) > 0, 60, "the file is being saved")
            other = self.send(["DEBUG", "SLEEP", "4"], ["DBSIZE"])
            self.assertEqual(asked.receive(), OK)
            self.assertEqual(other.receive(), OK)
            self.assertEqual(other.receive()[:7], b"LOADING")
            self.disk.heal()
            until(lambda: b"master_link_status:up" in self.admin.must("INFO", "replication"), 60, "the link")

    def test_a_change_that_can_not_be_saved_is_made_later_and_no_keys_are_served_until_then(self):
        writes = (["SET", "key1", "v"], ["EVAL", "return redis.call('set', KEYS[1], 'v')", "1", "key2"], ["EVAL", "return redis.call('set', 'key3', 'v')", "0"])
        self.assertEqual(self.admin.must("SET", "key", "v"), OK)
        blocked = self.send(["BLPOP", "list", "0"])
        until(lambda: b"cmd=blpop" in self.admin.must("CLIENT", "LIST"), 60, "a client that waits")
        self.disk.rule(0, "write", "nodes.conf*", FAIL, error=errno.ENOSPC)
        self.assertTrue(self.admin.call("CLUSTER", "SAVECONFIG").startswith(b"ERR error saving the cluster node config"))
        self.assertIn(b"cluster_state:ok", self.admin.must("CLUSTER", "INFO"))
        self.assertEqual(self.admin.must("DEL", "key"), 1)
        self.assertTrue(self.admin.call("CLUSTER", "FLUSHSLOTS").startswith(b"ERR error saving the cluster node config"))
        self.assertIn(b"cluster_state:fail", self.admin.must("CLUSTER", "INFO"))
        self.assertEqual(blocked.receive(), Error(b"CLUSTERDOWN The cluster is down"))
        for write in writes:
            self.assertTrue(self.admin.call(*write).startswith((b"CLUSTERDOWN", b"ERR Script attempted")), write)
        for command in ("FLUSHSLOTS", "RESET"):
            self.assertTrue(self.admin.call("CLUSTER", command).startswith(b"ERR the cluster node config can't be saved now"), command)
        self.disk.heal()
        until(lambda: self.admin.call("GET", "key") == Error(b"CLUSTERDOWN Hash slot not served"), 60, "the change")
        self.assertEqual(self.admin.must("DBSIZE"), 0)
        self.assertIn(b"cluster_slots_assigned:0\r\n", self.admin.must("CLUSTER", "INFO"))
        self.own_all_slots()
        self.assertEqual(self.admin.must("SET", "key", "v"), OK)


class RolesTest(unittest.TestCase):
    """Replicas that take over, primaries that follow: a cluster for each test, as they change it."""

    def make(self, **options):
        cluster = form("kelvin", **options)
        self.addCleanup(cluster.stop)
        return cluster

    def check_data(self, cluster, index, count):
        cluster.wait(lambda: cluster.nodes[index].ask("DBSIZE") == count, "the data")

    def await_roles(self, cluster, primary, replica):
        """Until all know it, so that the replica may be asked to take over."""
        cluster.wait(lambda: cluster.nodes[primary].is_primary() and not cluster.nodes[replica].is_primary(), "the failover")
        cluster.wait_agreed()
        cluster.wait_synced()

    def test_failover_and_back(self):
        cluster = self.make()
        for number in range(100):
            cluster.nodes[0].ask("SET", "{06S}%d" % number, number)
        for new, old in ((2, 0), (0, 2)):
            self.assertEqual(cluster.nodes[new].ask("CLUSTER", "FAILOVER"), OK)
            self.await_roles(cluster, new, old)
            self.check_data(cluster, new, 100)
            self.check_data(cluster, old, 100)
            self.assertEqual(cluster.nodes[new].ask("SET", "{06S}0", new), OK)

    def test_a_take_over_without_asking(self):
        cluster = self.make()
        for how, new in (("TAKEOVER", 2), ("FORCE", 0)):
            cluster.nodes[new].ask("CLUSTER", "FAILOVER", how)
            self.await_roles(cluster, new, 2 - new)

    def test_a_replica_that_is_reset_is_empty_and_a_primary(self):
        cluster = self.make(appendonly="yes")
        node = cluster.nodes[2]
        cluster.nodes[0].ask("SET", "{06S}", "v")
        self.check_data(cluster, 2, 1)
        self.assertEqual(node.ask("CLUSTER", "RESET"), OK)
        self.assertEqual(node.ask("DBSIZE"), 0)
        self.assertTrue(node.is_primary())
        self.assertEqual(len(node.view()), 1)
        if not is_redis():                  # whose log still has the keys
            node.restart(kill=True)
            self.assertEqual(node.ask("DBSIZE"), 0)
            self.assertTrue(node.is_primary())

    def test_a_replica_is_one_after_a_restart(self):
        cluster = self.make()
        cluster.nodes[0].ask("SET", "{06S}", "v")
        self.check_data(cluster, 2, 1)
        cluster.nodes[2].restart()
        self.assertFalse(cluster.nodes[2].is_primary())
        self.check_data(cluster, 2, 1)

    @kelvin_only
    def test_a_primary_that_comes_back_without_its_data_is_replaced(self):
        """Its replica would follow it, and have nothing then."""
        cluster = self.make(primaries=3, cluster_node_timeout=2000)
        for number in range(20):
            cluster.nodes[0].ask("SET", "{06S}%d" % number, number)
        self.check_data(cluster, 3, 20)
        cluster.nodes[0].restart(kill=True)
        cluster.nodes[0].was_killed = False         # it has to end cleanly
        cluster.wait(cluster.nodes[3].is_primary, "the replica as the primary", 120)
        self.assertEqual(cluster.nodes[3].ask("DBSIZE"), 20)
        cluster.wait(lambda: not cluster.nodes[0].is_primary(), "the old primary as a replica")
        self.check_data(cluster, 0, 20)

    def test_replicate_and_forget(self):
        cluster = self.make(replicas=0)
        others, node = list(cluster.nodes), cluster.add("kelvin")
        cluster.meet(node, others[0])
        cluster.wait_agreed()
        node.ask("CLUSTER", "REPLICATE", others[1].id)
        cluster.wait_agreed()
        cluster.wait_synced()
        self.assertFalse(node.is_primary())
        with node.client() as client:
            self.assertEqual(client.call("CLUSTER", "FORGET", others[1].id), Error(b"ERR Can't forget my master!"))
            client.must("CLUSTER", "RESET")
        for each in others:
            self.assertEqual(each.ask("CLUSTER", "FORGET", node.id), OK)
            self.assertEqual(len(each.view()), 2)
        self.assertEqual(others[0].ask("CLUSTER", "FORGET", node.id), OK)


if __name__ == "__main__":
    main()
