"""Redis clusters of nodes of two kinds, `kelvin` (the server under test) and `redis`, in any mixture.

    cluster = Cluster(["kelvin", "redis", "kelvin"])        # empty nodes
    cluster.create(replicas=0)                              # by redis-cli --cluster create; `form` does it by hand
    cluster.client().must("SET", "key", "value")            # follows MOVED and ASK

`wait_agreed` waits until all nodes have the same view of the cluster. `Writers` are clients that check at the end that no write that was
acknowledged is lost.
"""
import binascii
import collections
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

from .replication import readings
from .replication.servers import stopped
from .resp import Client, Error
from .server import REDIS, Server, is_redis, redis_tool, under_test, until

SLOT_COUNT = 16384
# Limits for what usually takes a second or two: the machine may do much else.
AGREE_LIMIT_S = 90
SYNC_LIMIT_S = 90
# Ports of nodes, and 10000 above those of the bus: below the ports that the system gives to connections.
PORTS = range(20000, 22760)
BUS = 10000
DEFAULTS = {"cluster-enabled": "yes", "cluster-node-timeout": 2000, "repl-diskless-sync-delay": 0, "shutdown-timeout": 0, "repl-backlog-size": 1 << 20}


def slot_of(key):
    key = key.encode() if isinstance(key, str) else key
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1:end]
    return binascii.crc_hqx(key, 0) % SLOT_COUNT


def tags_in(slots, count, prefix="t"):
    """The first `count` hash tags whose slots are in this range."""
    found, number = [], 0
    while len(found) < count:
        if slot_of("%s%d" % (prefix, number)) in slots:
            found.append("%s%d" % (prefix, number))
        number += 1
    return found


# --- Nodes

def can_bind(kind, port):
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def reserve_port(taken=()):
    """(port, reservation): a free port whose port of the bus is free, too. The reservation, a UDP socket with the number of the port, keeps other
    tests of clusters off it while the node is down."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            if port not in taken and can_bind(socket.SOCK_STREAM, port) and can_bind(socket.SOCK_STREAM, port + BUS):
                return port, reservation
        except OSError:
            pass
        reservation.close()


class Node(Server):
    """A server in cluster mode. It has the same port after a restart."""

    def __init__(self, kind, options=None, **more):
        self.kind = kind
        self.reservation = None
        self.was_killed = False
        super().__init__({**DEFAULTS, **(options or {})}, binary=binary_of(kind), **more)

    def choose_port(self):
        if self.options.get("port") is None:
            if self.reservation:
                self.reservation.close()
            port, self.reservation = reserve_port()
            return port
        return self.options["port"]

    def start(self, timeout=120):
        super().start(timeout)
        self.options["port"] = self.port
        self.was_killed = False
        return self

    def kill9(self):
        super().kill9()
        self.was_killed = True

    def terminate(self, timeout=60):
        """SIGTERM. redis-server goes on if it writes its first log just then: it is asked again."""
        if self.kelvin:
            return super().terminate(timeout)

        def has_ended():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                return False
            return True
        until(has_ended, timeout, "%s ends" % self.name)
        return self.process.returncode

    @property
    def bus_port(self):
        return int(self.options.get("cluster-port") or 0) or self.port + BUS

    @property
    def name(self):
        return "%s:%d" % self.address

    @property
    def id(self):
        return self.ask("CLUSTER", "MYID").decode()

    def ask(self, *args):
        """One command on a connection of its own, without redirection."""
        with self.client() as client:
            return client.must(*args)

    def view(self):
        return parse_nodes(self.ask("CLUSTER", "NODES"))

    def myself(self):
        return next(line for line in self.view().values() if "myself" in line.flags)

    def state(self):
        text = self.ask("CLUSTER", "INFO").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def is_primary(self):
        return self.ask("ROLE")[0] == b"master"

    def discard(self):
        super().discard()
        if self.reservation:
            self.reservation.close()

    def become(self, kind):
        """The other kind of server goes on in the same folder, as the same node, with the nodes.conf and the data that are there. The node has to be
        down. redis-server can't read Kelvin's log: it is removed, so that it has to be a replica."""
        if self.kelvin:
            shutil.rmtree(os.path.join(self.folder, "appendonlydir"), ignore_errors=True)
        self.kind, self.binary = kind, binary_of(kind)
        self.kelvin = not is_redis(self.binary)
        return self.start()


def binary_of(kind):
    return {"kelvin": under_test(), "redis": REDIS}[kind]


# --- Views

Line = collections.namedtuple("Line", "id address flags primary epoch link slots moves")


def parse_nodes(text):
    """{id: Line} of CLUSTER NODES. `slots` is a tuple of (first, last), `moves` what is in brackets."""
    view = {}
    for line in text.decode().splitlines():
        words = line.split()
        moves = tuple(sorted(word for word in words[8:] if word.startswith("[")))
        slots = tuple(sorted((int(word.split("-")[0]), int(word.split("-")[-1])) for word in words[8:] if not word.startswith("[")))
        view[words[0]] = Line(words[0], words[1].split(",")[0], frozenset(words[2].split(",")), words[3], int(words[6]), words[7], slots, moves)
    return view


def shared_view(view):
    """What must be equal in the views of all nodes. A replica has the epoch of its primary."""
    return {line.id: (line.address, line.flags - {"myself"}, line.primary, line.epoch, line.slots) for line in view.values()}


def has_bad_flags(view):
    return any(line.flags & {"fail", "fail?", "handshake", "noaddr"} for line in view.values())


def slots_in(ranges):
    return sum(last - first + 1 for first, last in ranges)


# --- Clusters

class Cluster:
    """Nodes that are started together. `create` makes a cluster of them."""

    def __init__(self, kinds=(), **options):
        self.options = {name.replace("_", "-"): value for name, value in options.items()}
        self.nodes = []
        self.slots_at_first = {}
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for node in pool.map(self.make, kinds):
                    self.nodes.append(node)
        except BaseException:
            self.discard()
            raise

    def make(self, kind, **options):
        return Node(kind, {**self.options, **{name.replace("_", "-"): value for name, value in options.items()}})

    def add(self, kind, **options):
        """Starts one more node, which does not know the others."""
        node = self.make(kind, **options)
        self.nodes.append(node)
        return node

    def remove(self, node):
        """Stops a node that has left the cluster."""
        self.nodes.remove(node)
        node.stop()

    def stop(self):
        """Ends all. Kelvin has to end cleanly, unless the test has killed it."""
        def end(node):
            node.expect_crash = node.expect_crash or node.was_killed
            alarm = node.alarm()
            if alarm:
                raise AssertionError("the log of %s has:\n%s" % (node.name, alarm))
            node.stop() if node.kelvin else node.discard()
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for _ in pool.map(end, self.nodes):
                    pass
        finally:
            self.discard()

    def discard(self):
        for node in self.nodes:
            node.discard()
        self.nodes = []

    # redis-cli

    def cli(self, *args, timeout=240, must=True, text=None):
        """Runs redis-cli --cluster; returns what it prints. Fails if its status is not 0, unless `must` is False."""
        try:
            done = subprocess.run([redis_tool("redis-cli"), "--cluster", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  input=(text or "").encode(), timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            output = (error.output or b"").decode("utf-8", "replace")
            raise AssertionError("redis-cli --cluster %s: timeout\n%s\n%s" % (" ".join(map(str, args)), output, self.describe())) from None
        output = done.stdout.decode("utf-8", "replace")
        if must and done.returncode != 0:
            raise AssertionError("redis-cli --cluster %s: status %d\n%s\n%s" % (" ".join(map(str, args)), done.returncode, output, self.describe()))
        return output

    def create(self, replicas=1):
        """The first nodes become primaries. Returns redis-cli's output when all views agree."""
        output = self.cli("create", *(node.name for node in self.nodes), "--cluster-replicas", replicas, "--cluster-yes")
        self.wait_agreed()
        self.wait_synced()
        self.slots_at_first = self.slots()
        return output

    def form(self, primaries):
        """By hand, so that every node's role, slots and epoch are known: node i has epoch i + 1; the first nodes are primaries, with the slots evenly
        in order, and each other node is a replica, the first one of node 0, and so on."""
        first = self.nodes[0]
        for index, node in enumerate(self.nodes):
            if index < primaries:
                node.ask("CLUSTER", "ADDSLOTSRANGE", SLOT_COUNT * index // primaries, SLOT_COUNT * (index + 1) // primaries - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if node is not first:
                self.meet(node, first)
        self.wait_agreed()
        for primary, replica in zip(self.nodes, self.nodes[primaries:]):
            replica.ask("CLUSTER", "REPLICATE", primary.id)
        self.wait_agreed()
        self.wait_synced()
        self.wait(lambda: all(sum(len(row) - 3 for row in {row[2][2]: row for row in node.ask("CLUSTER", "SLOTS")}.values()) == len(self.nodes) - primaries
                              for node in self.nodes), "CLUSTER SLOTS has the replicas")

    def meet(self, node, other):
        node.ask("CLUSTER", "MEET", *other.address, other.bus_port)

    def check(self):
        """redis-cli finds no fault: it compares the views of all nodes, and looks for open slots. Asked again while the nodes still exchange news."""
        outputs = []

        def is_good():
            outputs.append(self.cli("check", self.alive()[0].name, must=False))
            return "[OK] All 16384 slots covered." in outputs[-1] and "[ERR]" not in outputs[-1] and "[WARNING]" not in outputs[-1]
        try:
            until(is_good, AGREE_LIMIT_S, "redis-cli --cluster check finds no fault")
        except AssertionError as error:
            raise AssertionError("%s\n%s\n%s" % (error, outputs[-1], self.describe())) from None
        return outputs[-1]

    # Views

    def slots(self):
        """{id: slots} as each primary says itself."""
        return {line.id: line.slots for line in (node.myself() for node in self.alive()) if line.slots}

    def alive(self):
        return [node for node in self.nodes if node.alive()]

    def node_of(self, identity):
        return next(node for node in self.alive() if node.id == identity)

    def primaries(self):
        return [node for node in self.alive() if node.is_primary()]

    def replicas_of(self, primary):
        identity = primary.id
        return [node for node in self.alive() if node.myself().primary == identity]

    def owner_of(self, slot):
        """The node that has the slot, by what it says itself."""
        for node in self.alive():
            if any(first <= slot <= last for first, last in node.myself().slots):
                return node
        return None

    def agreed(self, nodes=None, size=None, ignore_flags=False):
        """True when all of these nodes (those that live) know `size` nodes (all), see the same, and say that the cluster is ok."""
        nodes = self.alive() if nodes is None else nodes
        views = []
        for node in nodes:
            try:
                if node.state()["cluster_state"] != "ok":
                    return False
                view = node.view()
            except (OSError, AssertionError):
                return False
            if len(view) != (size or len(self.nodes)) or not ignore_flags and has_bad_flags(view):
                return False
            views.append({at: value[:1] + value[2:] for at, value in shared_view(view).items()} if ignore_flags else shared_view(view))
        return all(view == views[0] for view in views)

    def wait_agreed(self, nodes=None, size=None, ignore_flags=False, timeout=AGREE_LIMIT_S):
        self.wait(lambda: self.agreed(nodes, size, ignore_flags), "all views agree", timeout)

    def wait(self, condition, what, timeout=AGREE_LIMIT_S):
        """until(), whose error has the views and logs of all nodes. Nodes that do not reply now are asked again."""
        def quiet():
            try:
                return condition()
            except (OSError, AssertionError, StopIteration):
                return False
        try:
            return until(quiet, timeout, what)
        except AssertionError as error:
            raise AssertionError("%s\n%s" % (error, self.describe())) from None

    def is_synced(self):
        """Each replica is linked to the primary that it names, and has all that this one wrote."""
        for primary in self.primaries():
            wanted = primary.info("replication")
            for replica in self.replicas_of(primary):
                found = replica.info("replication")
                if found.get("master_link_status") != "up" or found.get("master_port") != str(primary.port) \
                        or found["master_replid"] != wanted["master_replid"] or int(found["slave_repl_offset"]) < int(wanted["master_repl_offset"]):
                    return False
        return True

    def wait_synced(self):
        self.wait(self.is_synced, "replicas in sync", SYNC_LIMIT_S)

    def describe(self):
        lines = []
        for node in self.nodes:
            lines.append("--- %s %s%s" % (node.kind, node.name, "" if node.alive() else " (down)"))
            if node.alive():
                try:
                    with node.client(timeout=3) as client:
                        lines += [client.must("CLUSTER", "NODES").decode(), client.must("CLUSTER", "INFO").decode()[:60].replace("\r\n", " ")]
                except (OSError, AssertionError) as error:
                    lines.append(repr(error))
            lines.append(node.log_tail(2500))
        return "\n".join(lines)

    # Data

    def client(self, **options):
        return ClusterClient([node.address for node in self.nodes], **options)

    def keys(self):
        """All keys, of all primaries; a key that two of them have fails."""
        found = [key for node in self.primaries() for key in node.ask("KEYS", "*")]
        if len(found) != len(set(found)):
            raise AssertionError("keys on two primaries: %r" % [key for key, times in collections.Counter(found).items() if times > 1][:10])
        return set(found)

    def check_replicas(self):
        """Each replica has the data of its primary. Returns the number of keys compared."""
        self.wait_synced()
        count = 0
        for primary in self.primaries():
            for replica in self.replicas_of(primary):
                self.wait(lambda: not readings.differences(data_of(primary), data_of(replica)), "%s has the data of %s" % (replica.name, primary.name), 20)
                count += len(data_of(replica))
        return count

    def flush(self):
        for node in self.primaries():
            node.ask("FLUSHALL")

    # Changes

    def failover(self, replica, *words):
        """CLUSTER FAILOVER until the replica is a primary, and all views agree: on a busy machine one may come to nothing."""
        asked = [-10.0]

        def is_done():
            if replica.is_primary():
                return True
            if time.monotonic() - asked[0] > 5.5:        # the limit of one attempt is 5 s
                asked[0] = time.monotonic()
                with replica.client() as client:
                    client.call("CLUSTER", "FAILOVER", *words)
            return False
        self.wait(is_done, "%s has taken over" % replica.name)

    def move_slots(self, source, target, count):
        return self.cli("reshard", source.name, "--cluster-from", source.id, "--cluster-to", target.id, "--cluster-slots", count, "--cluster-yes")

    def set_owner(self, slot, owner):
        """The end of a move by hand: first at the node that gets it."""
        identity = owner.id
        for node in [owner] + [node for node in self.primaries() if node is not owner]:
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", identity)

    def open_slot(self, slot, source, target):
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)


def data_of(node):
    with node.client(timeout=60) as client:
        client.must("READONLY")
        return readings.read_database(client, 0)


# --- Clients

class Unavailable(ConnectionError):
    """The cluster did not execute the command within the client's patience, or it is not known whether it did."""


class ClusterClient:
    """Sends each command to the node that has its slot. Follows MOVED and ASK, and tries again after TRYAGAIN, CLUSTERDOWN, LOADING, READONLY
    and broken connections, for `patience_s`. With `once` a command whose connection broke is not sent again: it may have been executed."""

    def __init__(self, addresses, patience_s=60, timeout=15, once=False):
        self.addresses, self.patience_s, self.timeout, self.once = list(addresses), patience_s, timeout, once
        self.clients, self.owners = {}, {}
        self.replies = collections.Counter()        # how many redirections and refusals of which kind

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for client in self.clients.values():
            client.close()
        self.clients = {}

    def at(self, address):
        if address not in self.clients:
            self.clients[address] = Client(address, timeout=self.timeout)
        return self.clients[address]

    def drop(self, address):
        if address in self.clients:
            self.clients.pop(address).close()

    def refresh(self):
        """The owners of the slots, as the first node has them that replies."""
        for address in random.sample(self.addresses, len(self.addresses)):
            try:
                with Client(address, timeout=2) as client:
                    ranges = client.call("CLUSTER", "SLOTS")
            except OSError:
                continue
            if isinstance(ranges, Error) or not ranges:
                continue
            self.owners = {slot: (row[2][0].decode(), row[2][1]) for row in ranges for slot in range(row[0], row[1] + 1) if row[2][0]}
            return

    def address_of(self, slot):
        if slot not in self.owners:
            self.refresh()
        return self.owners.get(slot) or random.choice(self.addresses)

    def call(self, *args, key=None):
        """`key` is the first argument, if it is not given."""
        return self.run([args], key if key is not None else args[1])[0]

    def must(self, *args, key=None):
        reply = self.call(*args, key=key)
        if isinstance(reply, Error):
            raise AssertionError("%r: %s" % (args[:3], bytes(reply).decode("latin1")))
        return reply

    def transaction(self, key, commands):
        """MULTI, the commands, EXEC; returns the replies of the commands. It is repeated as a whole."""
        return self.run([("MULTI",), *commands, ("EXEC",)], key)[-1]

    def run(self, commands, key):
        """Runs the commands at the node that has the key's slot, all of them again there or at another one if one is redirected or refused."""
        slot, deadline, ask, last = slot_of(key), time.monotonic() + self.patience_s, None, None
        while time.monotonic() < deadline:
            address = ask or self.address_of(slot)
            try:
                client = self.at(address)
            except OSError as error:
                last, ask = error, None
                self.owners.clear()
                self.replies["broken"] += 1
                time.sleep(0.05)
                continue
            try:
                replies = client.pipeline(([("ASKING",)] if ask else []) + list(commands))
            except OSError as error:
                self.drop(address)
                self.owners.clear()
                self.replies["broken"] += 1
                if self.once:
                    raise Unavailable(repr(error)) from None
                last, ask = error, None
                time.sleep(0.05)
                continue
            last = next((reply for reply in replies if isinstance(reply, Error)), None)
            kind, asked, ask = bytes(last or b"").split(b" ")[0].decode("latin1"), ask, None
            if kind in ("MOVED", "ASK"):
                host, port = bytes(last).split(b" ")[2].decode().rsplit(":", 1)
                if kind == "MOVED":
                    self.owners[slot] = (host, int(port))
                else:
                    ask = (host, int(port))
            elif kind in ("TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN"):
                if kind != "TRYAGAIN":
                    self.owners.clear()
                time.sleep(0.02)
            else:
                return replies[1:] if asked else replies
            self.replies[kind] += 1
        raise Unavailable("%r: no reply within %d s; the last one: %r" % (commands[0][:3], self.patience_s, last))


# --- Writers

class Writer(threading.Thread):
    """Writes increasing numbers to keys of its own, of three kinds, in all slots or in those of `tags`. A write counts when it was acknowledged, and, with `replicas`, when
    WAIT said that this many replicas have it: a failover may lose others."""

    KINDS = ("string", "hash", "list")

    def __init__(self, addresses, number, replicas=0, keys=40, pause_s=0.002, tags=None):
        super().__init__(daemon=True)
        self.client = ClusterClient(addresses, patience_s=90, timeout=4, once=True)
        self.number, self.replicas, self.pause_s = number, replicas, pause_s
        self.random = random.Random(number)
        self.keys = ["%s:%d:%d%s" % (kind, number, at, "{%s}" % tags[at % len(tags)] if tags else "") for at in range(keys) for kind in self.KINDS]
        self.attempted = {key: [] for key in self.keys}
        self.safe = {key: [] for key in self.keys}
        self.count = self.serial = 0
        self.longest_s = 0.0
        self.wrong = None
        self.halt = threading.Event()

    def run(self):
        try:
            while not self.halt.is_set():
                self.once()
                time.sleep(self.pause_s)
        except Exception as error:          # noqa: whatever ends it is shown by the test
            self.wrong = repr(error)
        finally:
            self.client.close()

    def once(self):
        self.serial += 1
        key, serial = self.random.choice(self.keys), self.serial
        kind = key.split(":")[0]
        write = {"string": ("SET", key, serial), "hash": ("HSET", key, serial, serial), "list": ("RPUSH", key, serial)}[kind]
        self.attempted[key].append(serial)
        began = time.monotonic()
        try:
            replies = self.client.run([write] + ([("WAIT", self.replicas, 100)] if self.replicas else []), key)
        except Unavailable as error:
            if "no reply within" in str(error):
                raise
            return
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        if isinstance(replies[0], Error):
            raise AssertionError("%r: %r" % (write, replies[0]))
        if not self.replicas or isinstance(replies[1], int) and replies[1] >= self.replicas:
            self.safe[key].append(serial)
            self.count += 1

    def faults(self, client):
        """What is lost, or there without having been written, as lines."""
        lines = []
        for key in self.keys:
            kind, safe, attempted = key.split(":")[0], self.safe[key], set(self.attempted[key])
            if kind == "string":
                value = client.must("GET", key)
                found = [int(value)] if value is not None else []
                lost = safe[-1:] if safe and (not found or found[0] < safe[-1]) else []
            else:
                reply = client.must("HKEYS", key) if kind == "hash" else client.must("LRANGE", key, 0, -1)
                found = [int(word) for word in reply]
                lost = sorted(set(safe) - set(found))
                if kind == "list" and found != sorted(set(found)):
                    lines.append("%s: twice, or not in order: %r" % (key, found))
            if lost:
                lines.append("%s: %d lost, %r; found %r" % (key, len(lost), lost[:10], found[-10:]))
            strange = sorted(set(found) - attempted)
            if strange:
                lines.append("%s: not written: %r" % (key, strange[:10]))
        return lines


class Writers:
    """Several, from the start to `check`, or to the end of the block."""

    def __init__(self, cluster, count=2, **options):
        self.cluster = cluster
        self.all = [Writer([node.address for node in cluster.nodes], number, **options) for number in range(count)]
        for writer in self.all:
            writer.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for writer in self.all:
            writer.halt.set()
        for writer in self.all:
            writer.join(120)

    @property
    def count(self):
        return sum(writer.count for writer in self.all)

    def complain(self):
        for writer in self.all:
            if writer.wrong:
                raise AssertionError("a writer: %s\n%s" % (writer.wrong, self.cluster.describe()))

    def wait_for(self, count, timeout=AGREE_LIMIT_S):
        """Until each of them has this many more acknowledged writes."""
        wanted = [writer.count + count for writer in self.all]

        def are_there():
            self.complain()
            return all(writer.count >= least for writer, least in zip(self.all, wanted))
        until(are_there, timeout, "writes")

    def check(self):
        """Stops them. Nothing that counts is lost. Returns the number of these writes."""
        self.__exit__()
        self.complain()
        with self.cluster.client() as client:
            lines = [line for writer in self.all for line in writer.faults(client)]
        if lines:
            raise AssertionError("%d keys:\n    %s\n%s" % (len(lines), "\n    ".join(lines[:20]), self.cluster.describe()))
        return self.count

    @property
    def redirections(self):
        return sum((writer.client.replies for writer in self.all), collections.Counter())


@contextlib.contextmanager
def silent(node):
    """The node gets no CPU time: SIGSTOP."""
    with stopped(node):
        yield


__all__ = ["AGREE_LIMIT_S", "Client", "Cluster", "ClusterClient", "Error", "Node", "SLOT_COUNT", "Unavailable", "Writers", "data_of", "silent", "slot_of",
           "slots_in", "tags_in"]
