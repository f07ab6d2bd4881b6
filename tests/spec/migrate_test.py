"""MIGRATE: to redis-server and back, hot and cold; with writers on the key; to targets that stall, close, or reply nonsense."""
import glob
import os
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.resp import Closed, Error, Status                                                      # noqa: E402
from support.server import REDIS, Server, is_sanitized, scaled, until                               # noqa: E402

OK, NOKEY = Status(b"OK"), Status(b"NOKEY")
READING = Error(b"IOERR error or timeout reading to target instance")
WRITING = Error(b"IOERR error or timeout writing to target instance")
CONNECTING = Error(b"IOERR error or timeout connecting to the client")
TIER = {"tier-enabled": "yes", "io-threads": 4}
PATIENCE = 20000        # ms: a timeout that is not reached

VALUES = (("SET", "string", "a value"), ("SET", "number", "12345"), ("SET", "long", "x" * 200000), ("SET", "", "the empty key"),
          ("RPUSH", "list", *range(300)), ("RPUSH", "long-list", *("e" * 1000 for _ in range(100))), ("SADD", "numbers", *range(100)),
          ("SADD", "set", *("m%d" % i for i in range(300))), ("SADD", "small-set", "a", "b"), ("HSET", "hash", "f", "v", "g", "w"),
          ("HSET", "large-hash", *("f%d" % i for i in range(1000))), ("ZADD", "zset", 1, "a", 2.5, "b"),
          ("ZADD", "large-zset", *(x for i in range(300) for x in (i, "m%d" % i))), ("XADD", "stream", "1-1", "f", "v"),
          ("PFADD", "log-log", *range(1000)), ("SET", "expiring", "v", "PX", 10000000))


class Target:
    """A server that is not one: `serve(connection)` does what it likes with each connection."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.serve, self.received, self.connections = serve, b"", []
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve_one, args=(connection,), daemon=True).start()

    def serve_one(self, connection):
        try:
            self.serve(self, connection)
        except OSError:
            pass

    def read(self, connection, end):
        """Reads until what came ends with `end`."""
        got = b""
        while not got.endswith(end):
            more = connection.recv(1 << 20)
            if not more:
                raise OSError
            got += more
            self.note(more)

    def note(self, data):
        """Connections have a thread each."""
        with self.lock:
            self.received += data

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.connections:
            connection.close()


def requests(data):
    """The commands in these bytes."""
    commands = []
    while data:
        head, data = data.split(b"\r\n", 1)
        command = []
        for _ in range(int(head[1:])):
            size, data = data.split(b"\r\n", 1)
            command.append(data[:int(size[1:])])
            data = data[int(size[1:]) + 2:]
        commands.append(command)
    return commands


def accepts(lines):
    """Accepts SELECT, waits for the first key, and then sends these bytes."""
    def serve(target, connection):
        target.read(connection, b"SELECT\r\n$1\r\n0\r\n")
        connection.sendall(b"+OK\r\n")
        target.note(connection.recv(1 << 20))
        if lines is None:
            connection.close()
            return
        connection.sendall(lines)
        while connection.recv(1 << 20):
            pass
    return serve


def stalls(target, connection):
    while connection.recv(1 << 20):
        pass


class MigrateCase(ServerCase):
    options = {**TIER, "appendonly": "yes"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis = Server(binary=REDIS)
        cls.addClassCleanup(lambda: cls.redis.stop())

    def setUp(self):
        super().setUp()
        self.r = self.redis.client()
        self.addCleanup(self.r.close)
        self.r.must("FLUSHALL")

    def target(self, serve):
        target = Target(serve)
        self.addCleanup(target.close)
        return target

    def migrate(self, *words, to=None, timeout=PATIENCE, db=0, key=""):
        return self.c.call("MIGRATE", "127.0.0.1", (to or self.redis).port, key, db, timeout, *words)

    def chill(self, *keys):
        if self.server.kelvin:
            self.c.must("TIER", "DEMOTE", *keys)

    def state(self, client, keys):
        return [(key, client.call("TYPE", key), client.call("DUMP", key), client.call("PEXPIRETIME", key) // 10000) for key in keys]

    def contents(self, client, keys):
        """What can be compared between two servers, which need not encode a value in the same way."""
        reads = {b"string": ("GET",), b"list": ("LRANGE", 0, -1), b"set": ("SMEMBERS",), b"hash": ("HGETALL",), b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
                 b"stream": ("XRANGE", "-", "+")}
        found = []
        for key in keys:
            kind = bytes(client.must("TYPE", key))
            reply = client.must(reads[kind][0], key, *reads[kind][1:])
            found.append((key, kind, sorted(map(bytes, reply)) if kind == b"set" else reply, client.must("PEXPIRETIME", key) // 1000))
        return found


class ThereAndBackTest(MigrateCase):
    def fill(self):
        for command in VALUES:
            self.c.must(*command)
        return [command[1] for command in VALUES]

    def there_and_back(self, keys):
        before = self.contents(self.c, keys)
        self.chill(*keys)
        self.assertEqual(self.migrate("KEYS", *keys), OK)
        self.assertEqual(self.c.must("EXISTS", *keys), 0)
        there = self.contents(self.r, keys)
        back = self.r.call("MIGRATE", "127.0.0.1", self.server.port, "", 0, PATIENCE, "KEYS", *keys)
        self.assertEqual(back, OK)
        self.assertEqual(self.r.must("DBSIZE"), 0)
        self.assertEqual([each[:3] for each in there], [each[:3] for each in before])
        for now, then in zip(self.contents(self.c, keys), before):
            self.assertEqual(now[:3], then[:3])
            self.assertAlmostEqual(now[3], then[3], delta=20)       # times to live are relative in a RESTORE of MIGRATE

    def test_every_type(self):
        self.there_and_back(self.fill())

    @kelvin_only
    def test_every_type_cold(self):
        keys = self.fill()
        self.chill(*keys)
        self.there_and_back(keys)

    def test_one_key_at_a_time_into_another_database(self):
        for key in self.fill():
            self.assertEqual(self.migrate(key=key, db=3), OK)
            self.assertEqual(self.c.must("EXISTS", key), 0)
        self.r.must("SELECT", 3)
        self.assertEqual(self.r.must("DBSIZE"), len(VALUES))

    def test_a_thousand_keys_more_than_a_round_takes(self):
        keys = ["k%d" % i for i in range(1000)]
        for key in keys:
            self.c.must("SET", key, key * 2000)
        self.chill(*keys[::2])
        self.assertEqual(self.migrate("KEYS", *keys), OK)
        self.assertEqual((self.c.must("DBSIZE"), self.r.must("DBSIZE")), (0, 1000))
        self.assertEqual(self.r.must("GET", "k999"), b"k999" * 2000)

    def test_a_large_key(self):
        value = os.urandom(1 << 20) * scaled(100)
        self.c.must("SET", "k", value)
        self.assertEqual(self.migrate(key="k"), OK)
        self.assertEqual(self.c.must("EXISTS", "k"), 0)
        self.assertEqual(self.r.must("GET", "k"), value)

    @kelvin_only
    def test_fields_with_times_stay_here_if_redis_does_not_know_them(self):
        self.c.must("HSET", "h", "f", "v")
        self.c.must("HPEXPIRE", "h", 100000, "FIELDS", 1, "f")
        self.assertEqual(self.migrate(key="h"), Error(b"ERR Target instance replied with error: ERR DUMP payload version or checksum are wrong"))
        self.assertEqual((self.c.must("HGET", "h", "f"), self.r.must("DBSIZE")), (b"v", 0))
        other = Server(TIER)
        self.addCleanup(other.stop)
        self.assertEqual(self.migrate(key="h", to=other), OK)
        with other.client() as client:
            self.assertGreater(client.must("HPTTL", "h", "FIELDS", 1, "f")[0], 0)

    @kelvin_only
    def test_cold_keys_that_are_much_of_the_memory(self):
        """One key may be as large as other commands can read; many at once are refused before anything is sent."""
        server = Server({**TIER, "maxmemory": "96mb", "io-threads": 2})
        self.addCleanup(server.stop)
        with server.client(timeout=60) as client:
            client.must("SET", "large", "x" * 30000000)
            keys = ["k%d" % i for i in range(10)]
            for key in keys:
                client.must("SET", key, "x" * 4000000)
            client.must("TIER", "DEMOTE", "large", *keys)
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", self.redis.port, "large", 0, PATIENCE), OK)
            client.must("TIER", "DEMOTE", *keys)
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", self.redis.port, "", 0, PATIENCE, "KEYS", *keys),
                             Error(b"ERR the cold keys of this call need more than a quarter of maxmemory at once"))
            self.assertEqual((client.must("DBSIZE"), self.r.must("DBSIZE")), (10, 1))
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", self.redis.port, "", 0, PATIENCE, "KEYS", *keys[:3]), OK)

    def test_copy_and_replace(self):
        self.c.must("MSET", "a", 1, "b", 2, "c", 3)
        self.assertEqual(self.migrate("COPY", key="a"), OK)
        self.assertEqual(self.c.must("GET", "a"), b"1")
        busy = Error(b"ERR Target instance replied with error: BUSYKEY Target key name already exists.")
        self.assertEqual(self.migrate(key="a"), busy)
        self.assertEqual(self.migrate("KEYS", "b", "a", "c"), busy)
        self.assertEqual(self.c.must("MGET", "a", "b", "c"), [b"1", None, None])       # those that were accepted are gone
        self.c.must("SET", "a", "new")
        self.assertEqual(self.migrate("COPY", "REPLACE", key="a"), OK)
        self.assertEqual((self.c.must("GET", "a"), self.r.must("GET", "a")), (b"new", b"new"))
        self.assertEqual(self.migrate("REPLACE", "KEYS", "a", "a", "b"), OK)
        self.assertEqual((self.c.must("DBSIZE"), self.r.must("DBSIZE")), (0, 3))

    def test_auth(self):
        self.r.must("ACL", "SETUSER", "mover", "on", ">secret", "allkeys", "allcommands")
        self.addCleanup(self.r.call, "CONFIG", "SET", "requirepass", "")
        self.r.must("CONFIG", "SET", "requirepass", "pass")
        self.r.must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")        # MIGRATE may have kept connections
        self.c.must("MSET", "a", 1, "b", 2, "c", 3)
        self.assertEqual(bytes(self.migrate(key="a"))[:57], b"ERR Target instance replied with error: NOAUTH Authentica")
        self.assertEqual(bytes(self.migrate("AUTH", "wrong", key="a"))[:52], b"ERR Target instance replied with error: WRONGPASS in")
        self.assertEqual(bytes(self.migrate("AUTH2", "mover", "wrong", key="a"))[:52], b"ERR Target instance replied with error: WRONGPASS in")
        self.assertEqual(self.c.must("DBSIZE"), 3)
        self.assertEqual(self.migrate("AUTH", "pass", key="a"), OK)
        self.assertEqual(self.migrate("AUTH2", "mover", "secret", "KEYS", "b", "c"), OK)
        self.assertEqual((self.c.must("DBSIZE"), self.r.must("DBSIZE")), (0, 3))

    def test_expired_keys_are_not_sent(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.addCleanup(self.c.call, "DEBUG", "SET-ACTIVE-EXPIRE", 1)
        self.c.must("SET", "gone", 1, "PX", 1)
        self.c.must("SET", "there", 1)
        time.sleep(0.01)
        self.assertEqual(self.migrate(key="gone"), NOKEY)
        self.assertEqual(self.migrate("KEYS", "gone", "there", "never"), OK)
        self.assertEqual(self.r.must("KEYS", "*"), [b"there"])

    def test_after_a_restart_nothing_comes_back(self):
        server = Server({**TIER, "appendonly": "yes"})
        self.addCleanup(server.stop)
        with server.client() as client:
            client.must("MSET", "a", 1, "b", 2, "c", 3, "d", 4)
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", self.redis.port, "", 0, PATIENCE, "KEYS", "a", "b", "x"), OK)
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", self.redis.port, "c", 0, PATIENCE, "COPY"), OK)
        with open(glob.glob(os.path.join(server.folder, "appendonlydir", "*incr.aof"))[-1], "rb") as file:
            log = file.read()
        self.assertEqual((log.count(b"\r\nDEL\r\n"), log.upper().count(b"MIGRATE")), (1, 0))
        self.assertIn(b"*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n", log)
        server.restart(kill=True)
        with server.client() as client:
            self.assertEqual(sorted(client.must("KEYS", "*")), [b"c", b"d"])


class SameAsRedisTest(PairCase):
    """Both servers migrate to a third one."""
    options = {**TIER, "notify-keyspace-events": "KEA", "slowlog-log-slower-than": 0}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.third = Server(binary=REDIS)
        cls.addClassCleanup(lambda: cls.third.stop())

    def same(self, script):
        """With `to` for the address of the third server, and `shut` for one where no server is."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            shut = listener.getsockname()[1]
        self.both(script.replace("to", "127.0.0.1 %d" % self.third.port).replace("shut", "127.0.0.1 %d" % shut))

    def test_errors(self):
        self.same("""
            MIGRATE
            MIGRATE to k 0
            MIGRATE to k 0 x
            MIGRATE to k x 0
            MIGRATE to k x y
            MIGRATE to k 0 0
            MIGRATE to k 99 0
            SET k v
            MIGRATE to k 99 5000
            MIGRATE shut k 0 5000
            MIGRATE shut no-such-key 0 5000
            MIGRATE to k 0 5000 AUTH
            MIGRATE to k 0 5000 AUTH2 x
            MIGRATE to k 0 5000 AUTH2
            MIGRATE to k 0 5000 COPY x
            MIGRATE to k 0 5000 KEYS a b
            MIGRATE to k 0 5000 KEYS
            MIGRATE to "" 0 5000
            MIGRATE to "" 0 5000 KEYS
            MIGRATE to "" 0 5000 KEYS no such
            MIGRATE to "" 0 5000 AUTH x KEYS k
            MIGRATE to "" 0 5000 AUTH2 x y KEYS k
            MIGRATE to "" x 5000 KEYS k
            MIGRATE name.invalid 1 k 0 5000
            EXISTS k
            MIGRATE to k 0 -1 COPY REPLACE COPY
            EXISTS k
            MIGRATE to k 0 0 REPLACE
            EXISTS k
        """)

    def test_where_its_keys_are(self):
        self.both("""
            COMMAND INFO MIGRATE
            COMMAND GETKEYS MIGRATE h 1 k 0 1
            COMMAND GETKEYS MIGRATE h 1 k 0 1 COPY
            COMMAND GETKEYS MIGRATE h 1 "" 0 1 KEYS a b
            COMMAND GETKEYS MIGRATE h 1 k 0 1 KEYS a b
            COMMAND GETKEYS MIGRATE h 1 "" 0 1 AUTH keys KEYS a b
            COMMAND GETKEYS MIGRATE h 1 "" 0 1 AUTH2 keys keys REPLACE keys keys a
            COMMAND GETKEYSANDFLAGS MIGRATE h 1 k 0 1
            COMMAND GETKEYSANDFLAGS MIGRATE h 1 "" 0 1 KEYS a b
        """)

    def test_in_a_transaction_and_in_a_script(self):
        self.same("""
            MSET a 1 b 2 c 3
            MULTI
            SET d 4
            MIGRATE to "" 0 5000 REPLACE KEYS a d x
            EXISTS a d
            MIGRATE to x 0 5000
            MIGRATE shut b 0 5000
            INCR b
            EXEC
            EVAL "return redis.call('MIGRATE', KEYS[1], KEYS[2], 'c', 0, 5000, 'REPLACE')" 2 to
            EVAL "return redis.call('MIGRATE', KEYS[1], KEYS[2], 'c', 0, 5000, 'REPLACE')" 2 to
            EVAL "return redis.pcall('MIGRATE', KEYS[1], KEYS[2], 'b', 0, 5000, 'REPLACE')" 2 shut
            EVAL_RO "return redis.call('MIGRATE', KEYS[1], KEYS[2], 'b', 0, 5000, 'REPLACE')" 2 to
            MGET a b c d
        """)

    def test_notifications(self):
        replies = []
        for client, server in ((self.c, self.server), (self.r, self.oracle)):
            client.must("MSET", "a", 1, "b", 2)
            with server.client() as listener:
                listener.must("PSUBSCRIBE", "__key*__:*")
                client.must("MIGRATE", "127.0.0.1", self.third.port, "", 0, 5000, "REPLACE", "KEYS", "a", "b")
                replies.append([listener.receive() for _ in range(4)])
        self.assertEqual(*replies)

    def test_passwords_are_not_shown(self):
        shown = []
        for client, server in ((self.c, self.server), (self.r, self.oracle)):
            client.must("SLOWLOG", "RESET")
            for words in (("AUTH", "p"), ("AUTH2", "u", "p"), ("COPY", "AUTH", "keys", "KEYS", "k"), ("REPLACE", "KEYS", "AUTH", "p")):
                client.call("MIGRATE", "127.0.0.1", self.third.port, "", 0, 5000, *words)
            shown.append([[word for word in entry[3] if not word.isdigit()] for entry in client.must("SLOWLOG", "GET", 10) if entry[3][0] == b"MIGRATE"])
        self.assertEqual(*shown)

    def test_the_bytes_that_are_sent(self):
        """AUTH, SELECT and RESTORE with a time to live; Redis sends all at once."""
        sent = []
        for client in (self.c, self.r):
            def serve(target, connection):
                while True:
                    got = connection.recv(1 << 20)
                    target.note(got)
                    connection.sendall(b"+OK\r\n" * (got.count(b"\r\nAUTH\r\n") + got.count(b"\r\nSELECT\r\n") + got.count(b"\r\nRESTORE\r\n")))
                    if not got:
                        return
            target = Target(serve)
            client.must("MSET", "a", "1", "b", "some text")
            self.assertEqual(client.call("MIGRATE", "localhost", target.port, "", 7, 5000, "REPLACE", "AUTH2", "user", "pass", "KEYS", "a", "x", "b"), OK)
            client.must("SET", "a", "1", "PX", 100000000000)
            self.assertEqual(client.call("MIGRATE", "127.0.0.1", target.port, "a", 7, 5000, "AUTH", "pass"), OK)
            target.close()
            sent.append([command for command in requests(target.received) if command[0] != b"SELECT"])      # Redis keeps the connection
        for commands in sent:
            self.assertAlmostEqual(int(commands[-1].pop(2)), 100000000000, delta=20000)
        self.assertEqual(*sent)
        self.assertEqual([command[0] for command in sent[0]], [b"AUTH", b"RESTORE", b"RESTORE", b"AUTH", b"RESTORE"])


class BadTargetTest(MigrateCase):
    def check_here(self, *keys):
        self.assertEqual(self.c.must("EXISTS", *keys), len(keys))

    def test_one_that_stalls(self):
        target = self.target(stalls)
        self.c.must("SET", "k", "v")
        began = time.monotonic()
        self.assertEqual(self.migrate(key="k", to=target, timeout=300), READING)
        self.assertGreater(time.monotonic() - began, 0.29)
        self.check_here("k")

    def test_one_that_does_not_read(self):
        target = self.target(lambda target, connection: time.sleep(3))
        self.c.must("SET", "k", "v" * 50000000)
        target.serve = lambda target, connection: (target.read(connection, b"0\r\n"), connection.sendall(b"+OK\r\n"), time.sleep(3))
        self.assertEqual(self.migrate(key="k", to=target, timeout=300), WRITING)
        self.check_here("k")

    def test_one_that_does_not_accept(self):
        """Its queue of connections is full."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            waiting = []
            for _ in range(4):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(("127.0.0.1", port))
            time.sleep(0.1)
            self.c.must("SET", "k", "v")
            self.assertIn(self.c.call("MIGRATE", "127.0.0.1", port, "k", 0, 300), (CONNECTING, READING))
            for each in waiting:
                each.close()
        self.check_here("k")

    def test_one_that_refuses_and_names_that_are_unknown(self):
        target = Target(stalls)
        target.close()
        self.c.must("SET", "k", "v")
        self.assertEqual(self.migrate(key="k", to=target), WRITING)
        self.assertEqual(self.c.call("MIGRATE", "name.invalid", 1, "k", 0, 1000), CONNECTING)
        self.assertEqual(self.c.call("MIGRATE", "127.0.0.1", "x", "k", 0, 1000), CONNECTING)
        self.check_here("k")

    def test_one_that_closes_in_the_middle(self):
        self.c.must("MSET", "a", 1, "b", 2, "c", 3)
        self.assertEqual(self.migrate("KEYS", "a", "b", "c", to=self.target(accepts(None))), READING)
        self.check_here("a", "b", "c")

    def test_one_that_loses_the_connection_that_was_kept(self):
        """It is reset with the second key: each next MIGRATE has to make a new one. Without an old one, a reset is an error."""
        def serve(target, connection):
            target.read(connection, b"SELECT\r\n$1\r\n0\r\n")
            connection.sendall(b"+OK\r\n")
            target.note(connection.recv(1 << 20))
            connection.sendall(b"+OK\r\n")
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        target = self.target(serve)
        for key in ("a", "b", "c"):
            self.c.must("SET", key, key)
            self.assertEqual(self.migrate(key=key, to=target), OK)
        self.assertEqual(len(target.connections), 3)
        self.assertEqual([command[1] for command in requests(target.received) if command[0] == b"RESTORE"], [b"a", b"b", b"c"])
        self.assertEqual(self.c.must("EXISTS", "a", "b", "c"), 0)

    def test_one_that_closes_after_it_has_accepted_some(self):
        def serve(target, connection):
            target.read(connection, b"0\r\n")
            connection.sendall(b"+OK\r\n")
            connection.recv(1 << 20)
            connection.sendall(b"+OK\r\n-ERR not this one\r\n")
            connection.close()
        self.c.must("MSET", "a", 1, "b", 2, "c", 3)
        self.assertEqual(self.migrate("KEYS", "a", "b", "c", to=self.target(serve)), Error(b"ERR Target instance replied with error: ERR not this one"))
        self.check_here("b", "c")
        self.assertEqual(self.c.must("EXISTS", "a"), 0)

    @kelvin_only
    def test_nonsense_is_no_success(self):
        for reply in (b"hello\r\n", b"\r\n", b"\n", b":1\r\n", b"$2\r\nOK\r\n", b"+OKAY\r\n", b"+\r\n", b"-\r\n", b"$1000000000\r\n" + b"x" * 3000, b"x" * 5000,
                      b"\0" * 2000 + b"\r\n", b"*1000000000\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
            self.c.must("SET", "k", "v")
            self.assertEqual(self.migrate(key="k", to=self.target(accepts(reply)), timeout=2000), READING, reply[:20])
            self.check_here("k")

    def test_a_long_error_is_kept_to_a_line(self):
        self.c.must("SET", "k", "v")
        reply = self.migrate(key="k", to=self.target(accepts(b"-ERR " + b"e" * 1000 + b"\r\n")))
        self.assertEqual(reply, Error(b"ERR Target instance replied with error: ERR " + b"e" * 1000))
        self.assertEqual(self.migrate(key="k", to=self.target(accepts(b"-ERR \0\t\1 zero\r\n"))).split(b":")[0], b"ERR Target instance replied with error")
        self.check_here("k")

    def test_one_that_replies_byte_by_byte(self):
        def serve(target, connection):
            target.read(connection, b"0\r\n")
            for byte in b"+OK\r\n":
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
            connection.recv(1 << 20)
            for byte in b"+OK\r\n+OK\r\n":
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
            stalls(target, connection)
        self.c.must("MSET", "a", 1, "b", 2)
        self.assertEqual(self.migrate("KEYS", "a", "b", to=self.target(serve)), OK)
        self.assertEqual(self.c.must("DBSIZE"), 0)

    @kelvin_only
    def test_one_that_refuses_the_database_gets_no_key(self):
        def serve(target, connection):
            target.read(connection, b"0\r\n")
            connection.sendall(b"-ERR no such database\r\n")
            stalls_and_keeps(target, connection)
        def stalls_and_keeps(target, connection):
            while True:
                got = connection.recv(1 << 20)
                target.note(got)
                if not got:
                    return
        target = self.target(serve)
        self.c.must("SET", "k", "v")
        self.assertEqual(self.migrate(key="k", to=target), Error(b"ERR Target instance replied with error: ERR no such database"))
        self.check_here("k")
        self.assertNotIn(b"RESTORE", target.received)

    @kelvin_only
    def test_itself(self):
        """The partition is owned by the call, so that its own RESTORE waits until the time is up."""
        self.c.must("SET", "k", "v")
        for db in (0, 1):
            self.assertEqual(self.migrate(key="k", to=self.server, timeout=300, db=db), READING)
            self.check_here("k")


@kelvin_only
class OthersTest(MigrateCase):
    """While a call waits for its target."""

    def stalled(self, *words, timeout=PATIENCE, key="k"):
        """A client whose MIGRATE waits for a target that has got the key."""
        target, client = self.target(accepts(b"")), self.client()
        client.must("CLIENT", "SETNAME", "mover")
        client.send(self.request(target, key, timeout, *words))
        until(lambda: b"RESTORE" in target.received)
        return target, client

    def request(self, target, key, timeout, *words):
        words = [str(word).encode() for word in ("MIGRATE", "127.0.0.1", target.port, key, 0, timeout, *words)]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def test_calls_on_the_key_wait_and_others_do_not(self):
        self.c.must("SET", "k", 1)
        target, mover = self.stalled()
        with self.server.client() as waiting:
            waiting.send(b"INCR k\r\n")
            for i in range(100):
                self.c.must("SET", "other%d" % i, 1) if not self.shares_partition(i) else None
            self.assertEqual(waiting.raw(0, quiet=0.2)[0], b"")
            target.connections[0].sendall(b"+OK\r\n")
            self.assertEqual(mover.receive(), OK)
            self.assertEqual(waiting.receive(), 1)      # it is a new key: the old one has moved

    def shares_partition(self, i):
        """Another key may be in the partition: a client with a short timeout finds out."""
        with self.server.client(timeout=0.5) as probe:
            try:
                probe.must("EXISTS", "other%d" % i)
                return False
            except (OSError, Closed):
                return True

    def test_the_client_goes_meanwhile(self):
        for reply, left in ((b"+OK\r\n", 0), (b"-ERR no\r\n", 1), (None, 1)):
            self.c.must("SET", "k", 1)
            target, mover = self.stalled()
            mover.close()
            time.sleep(0.05)
            if reply is None:
                target.connections[0].shutdown(socket.SHUT_RDWR)
            else:
                target.connections[0].sendall(reply)
            self.assertEqual(self.c.must("EXISTS", "k"), left)
            self.c.must("DEL", "k")

    def test_the_client_is_killed_with_a_monitor_there(self):
        with self.server.client() as monitor:
            monitor.must("MONITOR")
            self.c.must("SET", "k", 1)
            target, mover = self.stalled()
            clients = self.c.must("CLIENT", "LIST").decode()
            self.assertIn("cmd=migrate", next(line for line in clients.split("\n") if "name=mover" in line))
            self.c.must("CLIENT", "KILL", "ID", next(line for line in clients.split("\n") if "name=mover" in line).split()[0][3:])
            target.connections[0].sendall(b"+OK\r\n")
            self.assertEqual(self.c.must("EXISTS", "k"), 0)

    def test_several_at_once(self):
        """More than there are threads for other jobs, and these still run."""
        keys = ["k%d" % i for i in range(40)]
        self.c.must("MSET", *(word for key in keys for word in (key, 1)))
        accept = threading.Event()

        def serve(target, connection):
            target.read(connection, b"0\r\n")
            connection.sendall(b"+OK\r\n")
            while got := connection.recv(1 << 20):          # it is used again
                target.note(got)
                accept.wait()
                connection.sendall(b"+OK\r\n")
        target = self.target(serve)
        movers = [self.client() for _ in keys]
        for key, mover in zip(keys, movers):
            mover.send(self.request(target, key, PATIENCE))
        until(lambda: target.received.count(b"RESTORE") > 5)
        with self.server.client() as lister, self.server.client() as counter:
            self.chill("k0", "other")
            lister.send(b"KEYS *\r\n" * 3)    # it waits for the owners, and they do not wait for it
            counter.send(b"DBSIZE\r\n")
            time.sleep(0.1)
            accept.set()
            for mover in movers:
                self.assertEqual(mover.receive(), OK)
            self.assertEqual(set(lister.receive()) - set(map(str.encode, keys)), set())
            self.assertLessEqual(counter.receive(), len(keys))
        self.assertEqual(self.c.must("DBSIZE"), 0)

    def test_flushall_and_a_checkpoint_wait(self):
        self.c.must("SET", "k", 1)
        target, mover = self.stalled()
        self.c.must("BGREWRITEAOF")
        self.c.must("CONFIG", "SET", "maxmemory-policy", "noeviction")
        with self.server.client() as flusher:
            flusher.send(b"FLUSHALL\r\n")
            self.assertEqual(flusher.raw(0, quiet=0.2)[0], b"")
            target.connections[0].sendall(b"+OK\r\n")
            self.assertEqual(mover.receive(), OK)
            self.assertEqual(flusher.receive(), OK)
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0")

    def test_demotion_meanwhile(self):
        self.c.must("SET", "k", "v" * 1000)
        target, mover = self.stalled()
        self.c.must("TIER", "DEMOTE", "k")
        target.connections[0].sendall(b"+OK\r\n")
        self.assertEqual(mover.receive(), OK)
        self.assertEqual(self.c.must("EXISTS", "k"), 0)

    def test_it_expires_meanwhile(self):
        """It is there until the target has replied: the DEL in the log is of a key that is there, or it is not logged."""
        self.c.must("SET", "k", "v", "PX", 200)
        target, mover = self.stalled()
        time.sleep(0.3)
        target.connections[0].sendall(b"+OK\r\n")
        self.assertEqual(mover.receive(), OK)
        self.assertEqual(self.c.must("EXISTS", "k"), 0)

    def test_shutdown_meanwhile(self):
        for options in ({"appendonly": "yes"}, {"save": "3600 1"}):
            server = Server({**TIER, **options})
            with server.client() as client:
                client.must("MSET", "k", "v", "j", "w")
                target = self.target(accepts(b""))
                client.send(self.request(target, "k", 60000))
                until(lambda: b"RESTORE" in target.received)
                began = time.monotonic()
                self.assertEqual(server.terminate(), 0)
                self.assertLess(time.monotonic() - began, 10)
            server.start()
            with server.client() as client:
                self.assertEqual(client.must("MGET", "k", "j"), [b"v", b"w"])
            server.stop()

    def test_a_kill_after_the_target_has_accepted(self):
        """The key is there, here, or in both places."""
        server = Server({**TIER, "appendonly": "yes", "appendfsync": "always"})
        self.addCleanup(server.stop)
        for i in range(scaled(10)):
            with server.client() as client:
                client.must("SET", "k", i)
                client.send(self.request(self.redis, "k", PATIENCE, "REPLACE"))
                time.sleep(i / 2000)
                server.kill9()
            server.start()
            with server.client() as client:
                self.assertIn(str(i).encode(), (client.must("GET", "k"), self.r.must("GET", "k")))


@kelvin_only
class WritersTest(MigrateCase):
    def count_up(self, counts, index, stop):
        with self.server.client() as client:
            while not stop.is_set():
                for key in ("n1", "n2", "{n}%d" % index):
                    client.must("INCR", key)
                    counts[index][key] = counts[index].get(key, 0) + 1

    def test_no_write_is_lost(self):
        """Writers count up while the keys move, one target after the other; what is in all places is what was acknowledged."""
        counts, stop = [{} for _ in range(4)], threading.Event()
        writers = [threading.Thread(target=self.count_up, args=(counts, index, stop)) for index in range(4)]
        sums = {}
        keys = ["n1", "n2"] + ["{n}%d" % i for i in range(4)]

        def collect(client):
            for key in keys:
                value = client.must("GET", key)
                sums[key] = sums.get(key, 0) + int(value or 0)
            client.must("FLUSHALL")
        for writer in writers:
            writer.start()
        ends = time.monotonic() + (6 if is_sanitized() else 3)
        moves = 0
        while time.monotonic() < ends:
            moves += self.migrate("KEYS", *keys[:2 + moves % 5]) == OK
            if moves % 3 == 0:
                self.chill(*keys)
            collect(self.r)
        stop.set()
        for writer in writers:
            writer.join()
        collect(self.c)
        self.assertGreater(moves, 10)
        self.assertEqual(sums, {key: sum(count.get(key, 0) for count in counts) for key in keys})

    def test_no_write_is_lost_when_the_target_fails(self):
        def serve(target, connection):
            target.read(connection, b"SELECT\r\n$1\r\n0\r\n")
            connection.sendall(b"+OK\r\n")
            connection.recv(1 << 20)
            time.sleep(0.02)
            connection.sendall((b"-ERR no\r\n", b"+O", b"what\r\n")[len(target.connections) % 3])
            connection.close()
        counts, stop = [{} for _ in range(4)], threading.Event()
        writers = [threading.Thread(target=self.count_up, args=(counts, index, stop)) for index in range(4)]
        for writer in writers:
            writer.start()
        for _ in range(scaled(30)):
            target = Target(serve)
            self.assertIsInstance(self.migrate("KEYS", "n1", "n2", to=target), (Error, Status))
            target.close()
        stop.set()
        for writer in writers:
            writer.join()
        for key in ("n1", "n2"):
            self.assertEqual(int(self.c.must("GET", key)), sum(count.get(key, 0) for count in counts))


if __name__ == "__main__":
    main()
