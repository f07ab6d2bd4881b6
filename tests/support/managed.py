"""Clusters of Kelvins whose controller is the test (`cluster-control managed`).

    cluster = ManagedCluster(3, appendonly="yes")
    cluster.publish([([0, 2], "0-8191"), ([1], "8192-16383")])     # a shard: its nodes, the primary first, and its slots
    cluster.migrate(0, 1, "100-199")                               # CLUSTERX MIGRATE, until CLUSTER INFO says that it has ended
    cluster.nodes[1].disk.rule(0, "rename", "nodes.conf*", KILL_AFTER)      # with `disks`: see disk.py
"""
import tempfile

from .cluster import Cluster, Node
from .disk import Disk
from .resp import Error, Status

OK = Status(b"OK")


def node_id(index):
    return ("Node%d" % index).ljust(40, "x").encode()


class ManagedCluster(Cluster):
    """Nodes are named by their index here."""

    def __init__(self, count, disks=False, **options):
        self.disks = disks
        super().__init__(["kelvin"] * count, **{"cluster_control": "managed", **options})
        self.version, self.shards = 0, []
        for index, node in enumerate(self.nodes):
            assert node.ask("CLUSTERX", "SETNODEID", node_id(index)) == OK

    def make(self, kind, **options):
        if not self.disks:
            return super().make(kind, **options)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        node = Node(kind, {**self.options, **options}, folder=folder, environment=disk.environment)
        node.disk, node.folder_is_ours = disk, True
        return node

    def discard(self):
        for node in self.nodes:
            if self.disks:
                node.disk.remove()
        super().discard()

    def text(self, shards):
        lines = []
        for nodes, slots in shards:
            for index in nodes:
                role = "master - " + slots if index == nodes[0] else "slave " + node_id(nodes[0]).decode()
                lines.append("%s 127.0.0.1 %d %s" % (node_id(index).decode(), self.nodes[index].port, role))
        return "\n".join(lines) + "\n"

    def publish(self, shards=None, to=None, force=False):
        """The next version, to these nodes; to all that live when None. Without shards the last ones again."""
        self.shards = shards or self.shards
        self.version += 1
        for index, node in enumerate(self.nodes):
            if node.alive() if to is None else index in to:
                self.send(index, self.version, force)

    def send(self, index, version, force=False):
        assert self.nodes[index].ask("CLUSTERX", "SETNODES", self.text(self.shards), version, *["FORCE"] * force) == OK

    def begin(self, source, target, slots, *more):
        with self.nodes[source].client(timeout=60) as client:
            return client.call("CLUSTERX", "MIGRATE", slots, node_id(target), *more)

    def migration(self, source):
        """(state, slots, target) as CLUSTER INFO says; None: nothing."""
        state = self.nodes[source].state()
        if "migrating_state" not in state:
            return None
        return state["migrating_state"].strip(), state["migrating_slot(s)"].strip(), state["destination_node"].strip()

    def wait_migrated(self, source, timeout=60):
        """"success" or "fail"."""
        self.wait(lambda: self.migration(source)[0] in ("success", "fail"), "the migration has ended", timeout)
        return self.migration(source)[0]

    def migrate(self, source, target, slots):
        reply = self.begin(source, target, slots)
        if isinstance(reply, Error):
            raise AssertionError(reply)
        return self.wait_migrated(source)

    def keys_in(self, index, first, last):
        with self.nodes[index].client(timeout=60) as client:
            return sum(client.pipeline([("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in range(first, last + 1)]))

    def servers_of(self, key):
        """The nodes that serve the key, without following a redirection."""
        found = []
        for index, node in enumerate(self.nodes):
            if node.alive():
                with node.client() as client:
                    if not isinstance(client.call("GET", key), Error):
                        found.append(index)
        return found
