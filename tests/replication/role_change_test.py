#!/usr/bin/python3
"""Clients that wait when REPLICAOF or FAILOVER changes the role: all of them get a reply, and what they wanted to write is on no replica."""
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.disk import DELAY
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_disk
from support.resp import OK, Closed, Error, Status, encode
from support.server import is_sanitized, scaled, until

INTO_KELVIN, FROM_KELVIN = ("redis-kelvin", "kelvin-kelvin"), ("kelvin-redis", "kelvin-kelvin")
READONLY = Error(b"READONLY You can't write against a read only replica.")
LOADING = Error(b"LOADING Redis is loading the dataset in memory")
ABORTED = Error(b"EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica.")
WRITER = "return redis.call('APPEND', KEYS[1], 'late')"
READ_US = 1500000
COUNT = 8


def cold_keys(case, server):
    """Keys whose load takes READ_US from now on; memory is limited so that there is a store."""
    with server.client() as client:
        for number in range(COUNT):
            client.must("SET", "cold%d" % number, "v" * 1000)
        case.assertEqual(client.must("TIER", "DEMOTE", *["cold%d" % number for number in range(COUNT)]), COUNT)


def plain(reply):
    """Without the difference between +OK and a string."""
    if isinstance(reply, list):
        return [plain(part) for part in reply]
    return bytes(reply) if isinstance(reply, Status) else reply


class Waiter:
    """A connection with one command (or a transaction) that waits."""

    def __init__(self, case, server, *commands):
        self.client = case.client(server, timeout=40)
        for command in commands[:-1]:
            self.client.must(*command)
        self.client.send(encode(commands[-1]))

    def reply(self):
        try:
            return plain(self.client.receive())
        except Closed:
            return "closed"


def waiting(server):
    return int(server.info("clients")["blocked_clients"])


def loads_waiting(server):
    return int(server.info("tiering")["tier_loads_waiting"])


def cold_waiters(case, server):
    """(those that write with the reply that they must get, those that read)"""
    writers = [(Waiter(case, server, ["APPEND", "cold0", "late"]), READONLY),
               (Waiter(case, server, ["GETDEL", "cold1"]), READONLY),
               (Waiter(case, server, ["MULTI"], ["SET", "late", "1"], ["APPEND", "cold2", "late"], ["EXEC"]), ABORTED),
               (Waiter(case, server, ["EVAL", WRITER, 1, "cold3"]), None),
               (Waiter(case, server, ["COPY", "cold4", "late"]), READONLY)]
    readers = [Waiter(case, server, ["GET", "cold5"]), Waiter(case, server, ["MGET", "cold6", "cold7"]),
               Waiter(case, server, ["EVAL_RO", "return redis.call('STRLEN', KEYS[1])", 1, "cold7"])]
    until(lambda: loads_waiting(server) >= COUNT - 1, 10, "all wait")
    return writers, readers


def check_writers(case, writers):
    for waiter, wanted in writers:
        reply = waiter.reply()
        if wanted is not None:
            case.assertEqual(reply, wanted)
        else:
            case.assertIsInstance(reply, Error)
            case.assertIn(b"READONLY", bytes(reply))


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class ColdKeyTest(ReplicationCase):
    """Loads that end after the change."""

    def slow(self, role, options=None):
        server, disk = with_disk(self, role, {"maxmemory": "100mb", "tier-block-cache": 0, **(options or {})})
        cold_keys(self, server)
        disk.rule(0, "read", "store/*.seg", DELAY, delay_us=READ_US)
        return server, disk

    @only("redis-kelvin")
    def scenario_of_replicaof_without_a_primary(self):
        """The data stays, and is read."""
        for workers in (1, 4):
            with self.subTest(workers=workers):
                server, disk = self.slow("replica", {"io-threads": workers})
                writers, readers = cold_waiters(self, server)
                servers.must(server, "REPLICAOF 127.0.0.1 1")
                check_writers(self, writers)
                self.assertEqual([reader.reply() for reader in readers], [b"v" * 1000, [b"v" * 1000] * 2, 1000])
                disk.heal()
                self.assertEqual(servers.values_of(server, "DBSIZE", "EXISTS late", "STRLEN cold0", "STRLEN cold3"), [COUNT, 0, 1000, 1000])
                servers.must(server, "REPLICAOF NO ONE", "APPEND cold1 w")

    @only(*INTO_KELVIN)
    def scenario_of_replicaof(self):
        """The data is replaced while they wait. They get what was there, or nothing, or an error."""
        for workers in (1, 4):
            with self.subTest(workers=workers):
                primary = self.start("primary")
                servers.must(primary, "SET k v")
                server, disk = self.slow("replica", {"io-threads": workers})
                writers, readers = cold_waiters(self, server)
                servers.make_replica(server, primary)
                for waiter, _ in writers:
                    reply = waiter.reply()
                    self.assertIsInstance(reply, Error)
                    self.assertIn(reply.split()[0], (b"READONLY", b"LOADING", b"EXECABORT"))
                for reader, wanted in zip(readers, ([None, b"v" * 1000], [[None] * 2, [b"v" * 1000] * 2], [0, 1000])):
                    self.assertIn(reader.reply(), wanted + [LOADING])
                disk.heal()
                self.same(primary, server)
                until(lambda: waiting(server) == 0 and loads_waiting(server) == 0, 20, "nothing waits")
                servers.must(server, "REPLICAOF NO ONE", "SET k w")

    @only(*FROM_KELVIN)
    def scenario_of_failover(self):
        """The readers get what is there; both servers have the same data afterwards."""
        server, disk = self.slow("primary")
        disk.heal()
        replica = self.start("replica")
        servers.make_replica(replica, server)
        servers.wait_online(server, replica)
        servers.must(server, "TIER DEMOTE " + " ".join("cold%d" % number for number in range(COUNT)))
        disk.rule(0, "read", "store/*.seg", DELAY, delay_us=READ_US)
        writers, readers = cold_waiters(self, server)
        servers.must(server, "FAILOVER TO 127.0.0.1 %d" % replica.port)
        until(lambda: servers.replication(replica)["role"] == "master" and servers.replication(server)["role"] == "slave", 20, "exchanged")
        check_writers(self, writers)
        self.assertEqual([reader.reply() for reader in readers], [b"v" * 1000, [b"v" * 1000] * 2, 1000])
        disk.heal()
        servers.must(replica, "SET after 1")
        self.same(replica, server, least=COUNT + 1)
        self.assertEqual(servers.values_of(replica, "EXISTS late", "STRLEN cold0"), [0, 1000])

    @only(*FROM_KELVIN)
    def scenario_of_failover_that_is_aborted(self):
        """The server stays the primary: what waited is written, once."""
        server, disk = self.slow("primary")
        disk.heal()
        replica = self.start("replica")
        servers.make_replica(replica, server)
        servers.must(server, "TIER DEMOTE " + " ".join("cold%d" % number for number in range(COUNT)))
        disk.rule(0, "read", "store/*.seg", DELAY, delay_us=READ_US)
        with servers.stopped(replica), self.client(server) as client:
            writers, readers = cold_waiters(self, server)
            client.must("SET", "k", "v")
            client.must("FAILOVER", "TIMEOUT", 100000)
            self.assertEqual([reader.reply() for reader in readers], [b"v" * 1000, [b"v" * 1000] * 2, 1000])
            until(lambda: waiting(server) == len(writers), 20, "what is loaded waits for the end of the failover")
            client.must("FAILOVER", "ABORT")
            self.assertEqual([writer.reply() for writer, _ in writers], [1004, b"v" * 1000, [b"OK", 1004], 1004, 0])
        disk.heal()
        self.same(server, replica, least=COUNT)


class Filler(threading.Thread):
    """Writes until a reply is not OK."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.server, self.prefix, self.count, self.end = server, name, 0, None
        self.start()

    def run(self):
        with self.server.client(timeout=60) as client:
            while self.end is None:
                reply = client.call("SET", "%s:%d" % (self.prefix, self.count), os.urandom(200000))
                self.count += 1
                self.end = None if reply == OK else reply


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class MemoryTest(ReplicationCase):
    @only(*INTO_KELVIN)
    def scenario_of_replicaof(self):
        """The store's disk is slow, so writes wait for memory; the new primary's data has room."""
        primary = self.start("primary")
        servers.must(primary, "SET k v")
        server, disk = with_disk(self, "replica", {"maxmemory": "32mb", "maxmemory-policy": "noeviction"})
        disk.rule(0, "write", "store/*", DELAY, delay_us=1000000)
        fillers = [Filler(server, "fill%d" % number) for number in range(4)]
        self.wait_stuck(fillers)
        servers.make_replica(server, primary, wait=False)
        for filler in fillers:
            filler.join(60)
        for filler in fillers:
            self.assertIn(filler.end, (READONLY, LOADING))
        disk.heal()
        self.same(primary, server)

    def wait_stuck(self, fillers):
        def progress():
            before = [filler.count for filler in fillers]
            time.sleep(0.2)
            return sum(before) < 100 or before != [filler.count for filler in fillers]
        until(lambda: not progress(), 20, "all wait for memory")


class OwnerTest(ReplicationCase):
    """A script owns the key that others wait for. It is a unit: all of it is before the change, or it is refused."""
    SLOW = "for i = 1, tonumber(ARGV[1]) do redis.call('GET', KEYS[1]) end return redis.call('SET', KEYS[1], 'script')"
    ENDLESS = "redis.call('GET', KEYS[1]); while true do end"

    def owned(self, server, script, *args):
        owner = Waiter(self, server, ["EVAL", script, 1, "k", *args])
        until(lambda: b"cmd=eval " in servers.values_of(server, "CLIENT LIST")[0], 10, "it runs")
        return owner

    def waiters(self, server):
        """What each gets if it is refused."""
        return [(Waiter(self, server, ["APPEND", "k", "late"]), READONLY), (Waiter(self, server, ["EVAL", WRITER, 1, "k"]), None),
                (Waiter(self, server, ["MULTI"], ["APPEND", "k", "late"], ["EXEC"]), ABORTED)]

    def count_done(self, writers):
        """How many of them were run; the others have to be refused."""
        done = 0
        for waiter, wanted in writers:
            reply = waiter.reply()
            if isinstance(reply, Error):
                self.assertIn(b"READONLY", bytes(reply))
                self.assertTrue(wanted is None or reply == wanted, reply)
            else:
                done += 1
                self.assertIn(reply, (10, 14, 18, [10], [14], [18]))
        return done

    @only("redis-kelvin")
    def scenario_of_replicaof(self):
        for workers in (1, 4):
            with self.subTest(workers=workers):
                server = self.start("replica", {"io-threads": workers, "busy-reply-threshold": 60000})
                owner = self.owned(server, self.SLOW, scaled(1000000))
                writers = self.waiters(server)
                change = Waiter(self, server, ["REPLICAOF", "127.0.0.1", 1])
                self.assertEqual((owner.reply(), change.reply()), (b"OK", b"OK"))
                done = self.count_done(writers)
                self.assertEqual(servers.values_of(server, "GET k"), [b"script" + b"late" * done])

    @only(*FROM_KELVIN)
    def scenario_of_failover(self):
        for workers in (1, 4):
            with self.subTest(workers=workers):
                primary, replica = self.pair({"io-threads": workers, "busy-reply-threshold": 60000})
                servers.wait_online(primary, replica)
                owner = self.owned(primary, self.SLOW, scaled(1000000))
                writers = self.waiters(primary)
                servers.must(primary, "FAILOVER TO 127.0.0.1 %d" % replica.port)
                self.assertEqual(owner.reply(), b"OK")
                until(lambda: servers.replication(replica)["role"] == "master" and servers.replication(primary)["role"] == "slave", 20, "exchanged")
                done = self.count_done(writers)
                servers.must(replica, "SET after 1")
                self.same(replica, primary, least=2)
                self.assertEqual(servers.values_of(replica, "GET k"), [b"script" + b"late" * done])

    @only(*FROM_KELVIN)
    def scenario_of_a_script_that_does_not_end(self):
        """The change waits for it, or is refused with -BUSY; other clients are served, and SCRIPT KILL ends the wait."""
        for change in (["REPLICAOF", "127.0.0.1", 1], ["FAILOVER", "TIMEOUT", 60000]):
            with self.subTest(change=change[0]):
                primary, replica = self.pair({"io-threads": 2, "busy-reply-threshold": 60000})
                servers.wait_online(primary, replica)
                owner = self.owned(primary, self.ENDLESS)
                writers = self.waiters(primary)
                changing = Waiter(self, primary, change)
                self.assertEqual(servers.values_of(primary, "PING")[0], Status(b"PONG"))      # a key may be in the partition that the script owns
                self.assertEqual(servers.replication(primary)["role"], "master")
                servers.set_config(primary, busy_reply_threshold=1)
                until(lambda: servers.values_of(primary, "SCRIPT KILL")[0] == OK, 10, "killed")
                self.assertIsInstance(owner.reply(), Error)
                self.assertEqual(changing.reply(), b"OK")
                until(lambda: servers.replication(primary)["role"] == "slave", 20, "changed")
                for waiter, _ in writers:
                    self.assertNotEqual(waiter.reply(), "closed")


class HeldTest(ReplicationCase):
    """Clients that a failover holds back, and what they get when the role has changed: the same from both kinds of servers."""
    HELD = (["SET", "k", "late"], ["EVAL", WRITER, 1, "k"], ["PUBLISH", "c", "m"])
    BLOCKED = (["BLPOP", "list", 0], ["XREADGROUP", "GROUP", "g", "me", "BLOCK", 0, "STREAMS", "s", ">"])

    def scenario_of_failover(self):
        primary, replica = self.pair()
        servers.wait_online(primary, replica)
        servers.must(primary, "XGROUP CREATE s g $ MKSTREAM")
        servers.wait_in_sync(primary, replica)
        watching, transaction = self.client(primary), self.client(primary, timeout=40)
        for command in (["MULTI"], ["INCR", "late"]):
            transaction.must(*command)
        waiters = [Waiter(self, primary, command) for command in self.BLOCKED]
        until(lambda: waiting(primary) == len(waiters), 10, "they wait for keys")
        with servers.stopped(replica):
            servers.must(primary, "SET k v")
            watching.must("FAILOVER", "TIMEOUT", 100000)
            held = [Waiter(self, primary, command) for command in self.HELD]
            transaction.send(encode(["EXEC"]))
            until(lambda: waiting(primary) == len(waiters) + len(held) + 1, 10, "all wait")
        until(lambda: servers.replication(replica)["role"] == "master" and servers.replication(primary)["role"] == "slave", 20, "exchanged")
        for waiter in waiters:
            reply = waiter.reply()
            self.assertTrue(isinstance(reply, Error) and reply.startswith(b"UNBLOCKED "), reply)
            self.assertEqual(waiter.reply(), "closed")
        refused = [waiter.reply() for waiter in held]
        self.assertEqual((refused[0], refused[1].split(b" script: ")[0], refused[2], transaction.receive()), (READONLY, bytes(READONLY), 0, ABORTED))
        servers.must(replica, "SET after 1")
        self.same(replica, primary, least=2)
        self.assertEqual(servers.values_of(replica, "GET k", "EXISTS late"), [b"v", 0])


if __name__ == "__main__":
    main()
