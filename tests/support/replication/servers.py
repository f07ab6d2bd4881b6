"""Servers of two kinds, `kelvin` (the server under test) and `redis`, as primaries and replicas of each other."""
import contextlib
import signal

from ..resp import Client, Error
from ..server import REDIS, Server, is_redis, under_test, until

# No wait for more replicas before a full synchronization, and none for replicas at the end.
DEFAULTS = {"repl-diskless-sync-delay": 0, "shutdown-timeout": 0, "repl-backlog-size": 1 << 20}
SYNC_LIMIT_S = 40


def start(kind, options=None, **more):
    binary = {"kelvin": under_test(), "redis": REDIS}[kind]
    return Server({**DEFAULTS, **(options or {})}, binary=binary, **more)


def is_online(primary, replica):
    """The primary has noted that the synchronization is over; FAILOVER TO asks for that. redis-server does so up to 100 ms after the replica."""
    found = replication(primary)
    ours = "port=%d," % replica.port
    return any(ours in found.get("slave%d" % at, "") and "state=online" in found["slave%d" % at] for at in range(int(found["connected_slaves"])))


def wait_online(primary, replica):
    until(lambda: is_online(primary, replica), SYNC_LIMIT_S, "the replica is online")


def kind_of(server):
    return "redis" if is_redis(server.binary) else "kelvin"


def replication(server):
    return server.info("replication")


def make_replica(replica, primary, wait=True):
    """A replica that still loads refuses REPLICAOF, as Redis does: it is asked again."""
    def accepted():
        with replica.client() as client:
            reply = client.call("REPLICAOF", *primary.address)
        if isinstance(reply, Error) and not reply.startswith(b"LOADING"):
            raise AssertionError(bytes(reply))
        return not isinstance(reply, Error)
    until(accepted, 20, "REPLICAOF accepted")
    if wait:
        wait_in_sync(primary, replica)


def link_is_up(replica):
    return replication(replica).get("master_link_status") == "up"


def in_sync(primary, replicas):
    """True when all of the primary's stream so far was applied by each of the replicas, which name it as their primary."""
    wanted = replication(primary)
    for replica in replicas:
        found = replication(replica)
        if found.get("role") != "slave" or found.get("master_link_status") != "up" or found["master_port"] != str(primary.port):
            return False
        # Offsets of different histories are not comparable.
        if found["master_replid"] != wanted["master_replid"] or int(found["slave_repl_offset"]) < int(wanted["master_repl_offset"]):
            return False
    return True


def wait_in_sync(primary, *replicas, timeout=SYNC_LIMIT_S):
    """Waits until the links are up and all that the primary has written is applied. Writers must have ended."""
    try:
        until(lambda: in_sync(primary, replicas), timeout, "replicas in sync")
    except AssertionError as error:
        lines = [str(error)] + ["%s %d: %s" % (kind_of(server), server.port, brief(replication(server))) for server in (primary,) + replicas]
        raise AssertionError("\n".join(lines + [replica.log_tail(1500) for replica in replicas])) from None


def brief(info):
    shown = ("role", "master_replid", "master_replid2", "second_repl_offset", "master_repl_offset", "slave_repl_offset", "master_link_status",
             "master_sync_in_progress", "connected_slaves", "slave0")
    return ", ".join("%s %s" % (name, info[name]) for name in shown if name in info)


def count_of(server, name):
    """A number of INFO stats, such as sync_full."""
    return int(server.info("stats")[name])


def set_config(server, **values):
    with server.client() as client:
        for name, value in values.items():
            client.must("CONFIG", "SET", name.replace("_", "-"), value)


def cut_links(primary):
    """Closes the connections of all replicas, as a network failure does; returns their number."""
    with primary.client() as client:
        return client.must("CLIENT", "KILL", "TYPE", "replica")


@contextlib.contextmanager
def stopped(server):
    """The process gets no CPU time in this block: it reads nothing and keeps its connections."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def values_of(server, *commands):
    """Replies to commands, each a line as in redis-cli, on one connection; errors are replies, too."""
    with server.client() as client:
        return [client.run(line) for line in commands]


def must(server, *commands):
    replies = values_of(server, *commands)
    for line, reply in zip(commands, replies):
        if isinstance(reply, Error):
            raise AssertionError("%s: %s" % (line, bytes(reply).decode("latin1")))
    return replies[-1]
