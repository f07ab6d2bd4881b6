"""Everything that stops all workers or changes what they use, at the same time, on four workers: rules of users, reloads, checkpoints, pauses,
certificates, ports, slow scripts, KEYS, MIGRATE (also to a server that never replies), limits and kills of clients, and clients that wait for
keys meanwhile. No thread may stop, no client may do what its user may not, and the server must end at SIGTERM, in the middle.
"""
import os
import random
import socket
import ssl
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import Client, Closed, Error, Incomplete, ProtocolError, encode                   # noqa: E402
from support.server import Server, is_sanitized, port_free, seed_new                              # noqa: E402
from support.tls import Authority, TlsClient                                                        # noqa: E402

SECONDS = float(os.environ.get("CHANGES_SECONDS") or (20 if is_sanitized() else 10))
PATIENCE_S = 120 if is_sanitized() else 40      # for one call, with all that stops the workers before it
KEYS = 2000
LOST = (ConnectionError, Closed, ssl.SSLError, socket.timeout, Incomplete, ProtocolError)
BUSY_SCRIPT = """
local sum = 0
for i = 1, tonumber(ARGV[1]) do sum = sum + #(redis.call('GET', KEYS[1]) or '') redis.call('SET', KEYS[2], sum) end
return sum
"""


class Stop(Exception):
    """The time is up."""


class Actor(threading.Thread):
    """Repeats a step with a connection of its own. A lost connection is made again."""

    def __init__(self, stress, name, step, rest=0.0):
        super().__init__(daemon=True, name=name)
        self.stress, self.step, self.rest = stress, step, rest
        self.random = random.Random("%d %s" % (stress.seed, name))
        self.client = self.problem = None
        self.steps, self.errors, self.longest_s, self.began = 0, {}, 0.0, time.monotonic()

    def connect(self):
        return Client(("127.0.0.1", self.stress.server.port), timeout=PATIENCE_S)

    def call(self, *args):
        reply = self.client.call(*args)
        if isinstance(reply, Error):
            self.errors[bytes(reply).split(b" ")[0]] = bytes(reply)
        return reply

    def run(self):
        while not self.stress.over.is_set():
            self.began = time.monotonic()
            try:
                if self.client is None:
                    self.client = self.connect()
                self.step(self)
                self.steps += 1
            except socket.timeout:
                self.problem = "no reply within %d s" % PATIENCE_S
                return
            except (OSError, *LOST):
                self.drop()
                time.sleep(0.01)
            except AssertionError as error:
                self.problem = str(error)
                return
            self.longest_s = max(self.longest_s, time.monotonic() - self.began)
            time.sleep(self.rest * self.random.random())
        self.drop()

    def drop(self):
        if self.client is not None:
            self.client.close()
        self.client = None


def key_of(actor):
    return "key:%d" % actor.random.randrange(KEYS)


class Stress:
    def __init__(self, server, target, stalled, authority, tls_port, seed):
        self.server, self.target, self.stalled, self.authority, self.tls_port, self.seed = server, target, stalled, authority, tls_port, seed
        self.over = threading.Event()
        self.context = authority.context("client")

    # What changes

    def rules(self, a):
        kind = a.random.randrange(7)
        if kind < 3:
            a.call("ACL", "SETUSER", "u%d" % a.random.randrange(3), "reset", "on", ">pw", "~key:*", "~list", "&*", "+@all", "-@admin",
                   a.random.choice(["-@blocking", "-get", "-@pubsub", "+@all", "(~key:1* +get)"]), "-@admin")
        elif kind == 3:
            a.call("ACL", "DELUSER", "u%d" % a.random.randrange(3))
        elif kind == 4:
            a.call("ACL", "SAVE")
        elif kind == 5:
            a.call("ACL", "LOAD")
        else:
            a.client.pipeline([("MULTI",), ("ACL", "SETUSER", "u0", "on", ">pw", "~key:*", "&*", "+@all", "-@admin"), ("SET", "key:1", "x"), ("EXEC",)])

    def certificates(self, a):
        name = a.random.choice(["server", "other"])
        a.call("CONFIG", "SET", "tls-cert-file", self.authority.path(name + ".crt"), "tls-key-file", self.authority.path(name + ".key"))

    def ports(self, a):
        if a.random.random() < 0.5:
            a.call("CONFIG", "SET", "tls-port", a.random.choice([0, self.tls_port]))
        else:
            a.call("CONFIG", "SET", "bind", a.random.choice(["127.0.0.1", "127.0.0.1 -::1", "* -::*"]))

    def settings(self, a):
        a.call("CONFIG", "SET", *a.random.choice([
            ("maxmemory-clients", a.random.choice(["0", "1mb", "100kb"])), ("requirepass", ""), ("slowlog-log-slower-than", "100"),
            ("appendfsync", a.random.choice(["always", "everysec"])), ("maxclients", a.random.choice(["1000", "2000"])), ("acllog-max-len", "5"),
            ("appendonly", a.random.choice(["yes", "yes", "no"])), ("notify-keyspace-events", a.random.choice(["", "KEA"]))]))

    def reload(self, a):
        a.call("DEBUG", *a.random.choice([("RELOAD",), ("LOADAOF",), ("SLEEP", "0.005"), ("DIGEST",), ("POPULATE", "50", "populated")]))

    def save(self, a):
        a.call(a.random.choice(["BGREWRITEAOF", "BGSAVE", "SAVE"]))

    def pause(self, a):
        a.call("CLIENT", "PAUSE", a.random.choice([1, 20, 60]), a.random.choice(["ALL", "WRITE"]))
        if a.random.random() < 0.3:
            a.call("CLIENT", "UNPAUSE")

    def kill(self, a):
        a.call("CLIENT", "KILL", *a.random.choice([("USER", "u1"), ("TYPE", "pubsub"), ("MAXAGE", "3", "SKIPME", "yes"),
               ("ID", str(a.random.randrange(2000))), ("LADDR", "127.0.0.1:%d" % self.tls_port)]))

    # What takes long

    def migrate(self, a):
        keys = [key_of(a) for _ in range(a.random.choice([1, 5, 300]))]
        a.call("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, a.random.choice(["COPY", "REPLACE"]), "REPLACE", "KEYS", *keys)

    def migrate_nowhere(self, a):
        a.call("MIGRATE", "127.0.0.1", self.stalled, "", 0, a.random.choice([20, 100]), "KEYS", key_of(a), key_of(a))

    def keys(self, a):
        a.call(*a.random.choice([("KEYS", "*"), ("SCAN", "0", "COUNT", "500"), ("DBSIZE",), ("RANDOMKEY",), ("FLUSHDB", "ASYNC"), ("SWAPDB", "0", "0")]
                                if a.random.random() < 0.1 else [("KEYS", "key:1*"), ("SCAN", "0", "COUNT", "500")]))

    def script(self, a):
        a.call("EVAL", BUSY_SCRIPT, 2, key_of(a), key_of(a), a.random.choice([10, 3000]))

    def demote(self, a):
        a.call("TIER", "DEMOTE", *{key_of(a) for _ in range(50)})

    # Users of the server

    def fill(self, a):
        a.client.pipeline([("SET", key_of(a), "x" * a.random.choice([10, 3000])) for _ in range(100)] + [("RPUSH", "list", "e"), ("PUBLISH", "c", "m")])

    def act(self, a):
        a.call("AUTH", a.random.choice(["u0", "u1", "u2"]), "pw")
        for _ in range(20):
            reply = a.call(*a.random.choice([("GET", key_of(a)), ("SET", key_of(a), "v"), ("MGET", key_of(a), key_of(a)), ("BLPOP", "list", "0.05"),
                ("EVAL", "return redis.pcall('GET', KEYS[1])", "1", key_of(a)), ("SUBSCRIBE", "c"), ("UNSUBSCRIBE",), ("RESET",),
                ("CLIENT", "TRACKING", "on"), ("WAITAOF", "1", "0", "20"), ("AUTH", "u0", "pw"), ("XREAD", "BLOCK", "20", "STREAMS", "key:s", "$")]))
            self.check(reply)
            user = a.call("ACL", "WHOAMI")
            secret = a.call("GET", "forbidden")
            if user in (b"u0", b"u1", b"u2") and secret == b"secret":
                if a.call("ACL", "WHOAMI") in (b"u0", b"u1", b"u2"):
                    raise AssertionError("%r has read a key that no rule allows" % user)
        if a.random.random() < 0.3:
            a.drop()

    @staticmethod
    def check(reply):
        if isinstance(reply, Error) and reply.startswith((b"ERR internal", b"MISCONF")):
            raise AssertionError(reply)

    def transact(self, a):
        key = key_of(a)
        a.call("WATCH", key)
        a.client.pipeline([("MULTI",), ("INCRBY", "counter:" + key, 1), ("GET", key), ("SET", key, "y"), ("EXEC",)])

    def leave(self, a):
        """Ends the connection while its request waits."""
        a.client.send(encode(a.random.choice([("MIGRATE", "127.0.0.1", str(self.stalled), key_of(a), "0", "60"), ("BLPOP", "nothing", "0"),
            ("KEYS", "*"), ("DEBUG", "RELOAD"), ("ACL", "SETUSER", "u2", "on", ">pw", "+@all", "-@admin", "~key:*"), ("ACL", "LOAD"), ("GET", key_of(a)),
            ("WAITAOF", "1", "0", "0"), ("CONFIG", "SET", "tls-session-caching", "no"), ("BGREWRITEAOF",), ("EVAL", BUSY_SCRIPT, "2", key_of(a), key_of(a), "1000")])))
        if a.random.random() < 0.5:
            time.sleep(0.005)
        a.drop()

    def look(self, a):
        for words in (("CLIENT", "LIST"), ("ACL", "LOG"), ("ACL", "LIST"), ("SLOWLOG", "GET"), ("LATENCY", "LATEST"), ("INFO", "everything"),
                      ("HOTKEYS", "START", "METRICS", "1", "CPU"), ("HOTKEYS", "GET"), ("HOTKEYS", "STOP"), ("HOTKEYS", "RESET"), ("CONFIG", "GET", "*"),
                      ("ACL", "GETUSER", "u0"), ("ACL", "DRYRUN", "u1", "GET", "key:1"), ("COMMAND", "COUNT"), ("MEMORY", "STATS")):
            a.call(*words)

    def encrypted(self, a):
        with TlsClient(self.tls_port, self.context, timeout=PATIENCE_S) as client:
            for _ in range(a.random.randrange(10)):
                client.send(encode(("SET", key_of(a), "v")) + encode(("GET", key_of(a))))
                client.receive(), client.receive()
            if a.random.random() < 0.3:
                client.end()

    def knock(self, a):
        for port in (self.tls_port, self.server.port):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
                client.sendall(a.random.choice([b"\x16\x03\x01\x02\x00\x01", b"*3\r\n$4\r\nAUTH\r\n$2\r\nu0\r\n$5\r\nwrong\r\n", b"GET x\r\n" * 50]))

    def monitor(self, a):
        a.client.send(encode(("MONITOR",)))
        for _ in range(200):
            a.client.receive()
        a.drop()

    def actors(self):
        many = [Actor(self, "act %d" % i, self.act) for i in range(3)] + [Actor(self, "leave %d" % i, self.leave, 0.02) for i in range(2)]
        return many + [Actor(self, step.__name__, step, rest) for step, rest in (
            (self.rules, 0.02), (self.certificates, 0.1), (self.ports, 0.3), (self.settings, 0.1), (self.reload, 0.6), (self.save, 0.6),
            (self.pause, 0.3), (self.kill, 0.2), (self.migrate, 0.1), (self.migrate_nowhere, 0.1), (self.keys, 0.1), (self.script, 0.05),
            (self.demote, 0.05), (self.fill, 0.02), (self.transact, 0.0), (self.look, 0.2), (self.encrypted, 0.05), (self.knock, 0.05),
            (self.monitor, 0.1))]

    def run(self, seconds):
        actors = self.actors()
        for actor in actors:
            actor.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.server.alive() and not any(actor.problem for actor in actors):
            time.sleep(0.1)
            for actor in actors:
                if time.monotonic() - actor.began > PATIENCE_S:
                    actor.problem = "one step takes longer than %d s" % PATIENCE_S
        return actors


@kelvin_only
class ChangesTest(unittest.TestCase):
    def setUp(self):
        self.authority = Authority()
        self.addCleanup(self.authority.close)
        for name in ("server", "other", "client"):
            self.authority.issue(name)
        self.stalled = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.addCleanup(self.stalled.close)
        self.target = Server({"maxmemory": "100mb", "maxmemory-policy": "allkeys-random"})
        self.addCleanup(self.target.stop)
        self.port = port_free()
        self.server = Server({"io-threads": 4, "appendonly": "yes", "maxmemory": "100mb", "busy-reply-threshold": 20,
                              "aclfile": "users.acl", **self.authority.server_options(self.port)}, start=False)
        with open(os.path.join(self.server.folder, "users.acl"), "w") as file:
            file.write("user default on nopass ~* &* +@all\nuser u0 on >pw ~key:* &* +@all -@admin\n")
        self.server.start()
        self.addCleanup(self.server.discard)

    def test_all_at_once_until_shutdown(self):
        seed = seed_new()
        with self.server.client() as client:
            client.must("SET", "forbidden", "secret")
        stress = Stress(self.server, self.target, self.stalled.getsockname()[1], self.authority, self.port, seed)
        actors = stress.run(SECONDS)
        problems = ["%s: %s" % (actor.name, actor.problem) for actor in actors if actor.problem]
        if os.environ.get("KELVIN_FIGURES"):
            for actor in actors:
                print("%-16s %6d steps, the longest %.1f s, %s" % (actor.name, actor.steps, actor.longest_s, sorted(actor.errors)), file=sys.stderr)
        if problems or not self.server.alive():
            stress.over.set()
            self.fail("seed %d: %s\n%s" % (seed, problems, self.server.alarm() or self.server.log_tail()))
        self.server.terminate(timeout=PATIENCE_S)       # in the middle of all that
        stress.over.set()
        for actor in actors:
            actor.join(PATIENCE_S)
        self.assertIsNone(self.server.alarm(), "seed %d" % seed)
        self.assertNotIn(b"Accepting client connection", self.server.log(), "by a socket that a change of `bind` has closed")
        stuck = [actor.name for actor in actors if actor.steps == 0]
        self.assertEqual(stuck, [], "these have done nothing; seed %d" % seed)


if __name__ == "__main__":
    main()
