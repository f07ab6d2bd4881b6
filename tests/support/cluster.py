"""A cluster of a few nodes: `Cluster(binary, primaries=2, replicas=1)` starts them, forms the cluster and waits until it is ok.

The slots are divided evenly; the i-th replica is one of the i-th primary. Nodes have a long time-out, so a machine that stands still for a
while fails no node.
"""
import re
from concurrent.futures import ThreadPoolExecutor

from .resp import Error, Map, Null, Typed
from .server import Server, port_free, until, StartFailed

SLOTS = 16384
ID = re.compile(rb"[0-9a-f]{40}")
OPTIONS = {"cluster-enabled": "yes", "cluster-node-timeout": 60000}


def node_start(binary, options=None, **more):
    """Starts a node; another process may take the port of its bus meanwhile."""
    for _ in range(5):
        try:
            return Server({**OPTIONS, "cluster-port": port_free(), **(options or {})}, binary=binary, **more)
        except StartFailed as failure:
            if "in use" not in str(failure):
                raise
    raise StartFailed("no free port for the bus")


def is_supported(binary=None):
    """Whether the server under test can be a node."""
    try:
        node_start(binary).stop()
        return True
    except StartFailed as failure:
        if "cluster-enabled" in str(failure):
            return False
        raise


class Cluster:
    def __init__(self, binary=None, primaries=2, replicas=1, options=None):
        self.nodes, self.clients = [], []
        try:
            for _ in range(primaries + replicas):
                self.nodes.append(node_start(binary, options))
                self.clients.append(self.nodes[-1].client())
            self.form(primaries)
        except BaseException:
            self.discard()
            raise

    def form(self, primaries):
        for index, client in enumerate(self.clients[:primaries]):
            client.must("CLUSTER", "ADDSLOTSRANGE", SLOTS * index // primaries, SLOTS * (index + 1) // primaries - 1)
        for index, client in enumerate(self.clients):
            client.must("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index > 0:
                self.meet(client)
        self.await_all(lambda client: len(self.lines(client)) == len(self.clients) and b"handshake" not in client.must("CLUSTER", "NODES"))
        for index, client in enumerate(self.clients[primaries:]):
            client.must("CLUSTER", "REPLICATE", self.id(index))
        self.await_all(self.is_ok)
        self.await_all(lambda client: client.must("CLUSTER", "NODES").count(b" slave ") + client.must("CLUSTER", "NODES").count(b",slave ")
                       == len(self.clients) - primaries)
        for client in self.clients[primaries:]:
            until(lambda client=client: b"master_link_status:up" in client.must("INFO", "replication"), 60, "a replica in step")
        self.await_all(lambda client: sum(len(each) - 3 for each in {each[2][2]: each for each in client.must("CLUSTER", "SLOTS")}.values())
                       == len(self.clients) - primaries)

    def meet(self, client):
        first = self.nodes[0]
        client.must("CLUSTER", "MEET", "127.0.0.1", first.port, first.options["cluster-port"])

    def await_all(self, is_so):
        for client in self.clients:
            until(lambda client=client: is_so(client), 60, "the cluster")

    @staticmethod
    def lines(client):
        return [line.split(b" ") for line in client.must("CLUSTER", "NODES").splitlines()]

    @staticmethod
    def is_ok(client):
        return b"cluster_state:ok" in client.must("CLUSTER", "INFO")

    def id(self, index):
        return self.clients[index].must("CLUSTER", "MYID")

    def words(self):
        """Pairs of an ID or a port, which differ in each cluster, and the word that replaces it."""
        words = []
        for index, (node, client) in enumerate(zip(self.nodes, self.clients)):
            words += [(client.must("CLUSTER", "MYID"), b"<id%d>" % index), (b"%d" % node.port, b"<port%d>" % index),
                      (b"%d" % node.options["cluster-port"], b"<bus%d>" % index)]
        return words

    def stop(self):
        for client in self.clients:
            client.close()
        for node in self.nodes:
            node.stop()

    def discard(self):
        for client in self.clients:
            client.close()
        for node in self.nodes:
            node.discard()


def clusters(*arguments):
    """Several clusters that form at the same time: Cluster(**each)."""
    with ThreadPoolExecutor(len(arguments)) as pool:
        made = [pool.submit(lambda each=each: Cluster(**each)) for each in arguments]
    try:
        return [each.result() for each in made]
    except BaseException:
        for each in made:
            if not each.exception():
                each.result().discard()
        raise


def anonymous(reply, words):
    """The reply with the words of Cluster.words() in place of IDs and ports. Other IDs become <other>."""
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


__all__ = ["Cluster", "clusters", "Error", "Map", "anonymous", "is_supported", "node_start", "SLOTS"]
