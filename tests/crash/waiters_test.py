"""Clients that wait for keys while the server is killed or its disk is full: delivered elements are not there again, and elements
that were pushed and not delivered are there exactly once.

Pushers push numbered elements, poppers wait for them on several lists, movers move them, readers of a group wait for entries. Clients that
are disconnected while they wait use BLMOVE into lists that no client empties, so that elements that they took without a reply are found
afterwards. Only an element that a popper was waiting for at a kill may be lost, together with its reply.
"""
import collections
import contextlib
import errno
import os
import random
import select
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import DELAY, FAIL, Disk                                                          # noqa: E402
from support.resp import Error, encode                                                                 # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, until                            # noqa: E402

LISTS = ["list:%d" % number for number in range(4)]
ZSETS = ["zset:%d" % number for number in range(2)]
STREAM = "stream"
POPS_MAX = 3


class Book:
    """The elements that were pushed and delivered. All under one lock."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent, self.acknowledged, self.next = set(), set(), 0
        self.delivered = collections.Counter()
        self.entries, self.read = set(), collections.Counter()      # of the stream: acknowledged entries, and those read by the group
        self.may_be_gone = 0            # elements that may have been popped for a reply that was not received

    def numbers(self, count):
        with self.lock:
            batch = [b"%d" % number for number in range(self.next, self.next + count)]
            self.next += count
            self.sent.update(batch)
        return batch

    def pushed(self, batch, done):
        with self.lock:
            if done:
                self.acknowledged.update(batch)
            else:
                self.sent.difference_update(batch)

    def popped(self, elements):
        with self.lock:
            self.delivered.update(elements)

    def gone(self, count):
        with self.lock:
            self.may_be_gone += count


class Load:
    def __init__(self, server, book, seed):
        self.server, self.book, self.seed = server, book, seed
        self.stop, self.failures, self.is_killed = threading.Event(), [], False
        kinds = [self.push] * 3 + [self.pop] * 5 + [self.move] * 2 + [self.cut, self.cut, self.demote, self.add] + [self.read] * 3
        self.threads = [threading.Thread(target=self.run, args=(kind, number)) for number, kind in enumerate(kinds)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join(120)

    def run(self, kind, number):
        try:
            with self.server.client(timeout=90) as client:
                chance = random.Random("%s/%d" % (self.seed, number))
                while not self.stop.is_set():
                    kind(client, chance)
        except Exception as error:                                                  # noqa: BLE001
            if not (isinstance(error, OSError) and self.is_killed):
                self.failures.append("%s: %r" % (kind.__name__, error))

    def kill(self):
        self.is_killed = True
        self.server.kill9()

    def refused(self, reply):
        """Returns whether the reply is the error of a log that can't be written: the command was not executed."""
        if not isinstance(reply, Error):
            return False
        if not reply.startswith((b"MISCONF", b"UNBLOCKED")):
            raise AssertionError(reply)
        time.sleep(0.005)
        return True

    def push(self, client, chance):
        batch = self.book.numbers(chance.choice((1, 1, 1, 3)))
        if chance.random() < 0.25:
            command = ["ZADD", chance.choice(ZSETS)] + [word for element in batch for word in (chance.randrange(9), element)]
        else:
            command = [chance.choice(("RPUSH", "LPUSH")), chance.choice(LISTS)] + batch
        self.book.pushed(batch, not self.refused(client.call(*command)))
        if chance.random() < 0.5:
            time.sleep(chance.random() * 0.004)

    def pop(self, client, chance):
        lists, timeout = chance.sample(LISTS, chance.choice((1, 2, 4))), chance.choice((0.002, 0.02, 0.2))
        command = chance.choice((["BLPOP"] + lists + [timeout], ["BRPOP"] + lists + [timeout], ["BZPOPMIN"] + ZSETS + [timeout],
                                 ["BLMPOP", timeout, len(lists)] + lists + ["LEFT", "COUNT", POPS_MAX],
                                 ["BZMPOP", timeout, 1, ZSETS[0], "MAX", "COUNT", POPS_MAX]))
        try:
            reply = client.call(*command)
        except OSError:
            self.book.gone(POPS_MAX if "COUNT" in command else 1)
            raise
        if not self.refused(reply) and isinstance(reply, list):
            found = reply[1] if isinstance(reply[1], list) else [reply[1]]
            self.book.popped(element[0] if isinstance(element, list) else element for element in found)

    def move(self, client, chance):
        reply = client.call("BLMOVE", chance.choice(LISTS), chance.choice(LISTS), "LEFT", chance.choice(("LEFT", "RIGHT")), 0.01)
        if not self.refused(reply) and isinstance(reply, bytes):
            self.book.pushed([reply], True)         # an element that was read must not be lost

    def add(self, client, chance):
        reply = client.call("XADD", STREAM, "*", "field", "value")
        if not self.refused(reply):
            with self.book.lock:
                self.book.entries.add(reply)
        time.sleep(chance.random() * 0.004)

    def read(self, client, chance):
        reply = client.call("XREADGROUP", "GROUP", "readers", "reader", "COUNT", 2, "BLOCK", chance.choice((5, 50)), "STREAMS", STREAM, ">")
        if not self.refused(reply) and isinstance(reply, list):
            with self.book.lock:
                self.book.read.update(entry[0] for entry in reply[0][1])

    def cut(self, client, chance):
        """Clients that are disconnected, killed or unblocked while they wait."""
        with contextlib.ExitStack() as stack:
            self.cut_off([stack.enter_context(self.server.client(timeout=90)) for _ in range(3)], client, chance)

    def cut_off(self, others, client, chance):
        for index, other in enumerate(others):
            other.send(encode(["BLMOVE", chance.choice(LISTS), "taken:%d" % index, "LEFT", "RIGHT", chance.choice((0, 0.005, 1))]))
        time.sleep(chance.random() * 0.01)
        for other in others:
            port = other.socket.getsockname()[1]
            if chance.random() < 0.3:
                client.call("CLIENT", "KILL", "ADDR", "127.0.0.1:%d" % port)
            other.close()

    def demote(self, client, chance):
        client.call("TIER", "DEMOTE", *chance.sample(LISTS + ZSETS + [STREAM], 3))
        if chance.random() < 0.05:
            client.call("BGREWRITEAOF")
        time.sleep(0.002)


@kelvin_only
class WaitersTest(unittest.TestCase):
    def check(self, server, book, what):
        """Compares all data with the book, and then updates the book."""
        left = collections.Counter()
        with server.client(timeout=90) as client:
            until(lambda: b"blocked_clients:0\r" in client.must("INFO", "clients"), 30, "the end of all waits")
            for key in LISTS + ["taken:%d" % index for index in range(3)]:
                left.update(client.must("LRANGE", key, 0, -1))
            entries = {entry[0] for entry in client.must("XRANGE", STREAM, "-", "+")}
            pending = {entry[0] for entry in client.must("XPENDING", STREAM, "readers", "-", "+", 10000000)}
            for key in ZSETS:
                left.update(client.must("ZRANGE", key, 0, -1))
            info = server.info("clients")
        self.assertEqual([info[name] for name in ("total_blocking_keys", "total_blocking_keys_on_nokey", "clients_in_timeout_table")], ["0"] * 3, what)
        everywhere = left + book.delivered
        twice = [element for element, count in everywhere.items() if count > 1]
        self.assertEqual(sorted(twice)[:5], [], "%s: delivered or kept twice (%d)" % (what, len(twice)))
        unknown = set(everywhere) - book.sent
        self.assertEqual(sorted(unknown)[:5], [], "%s: these were never pushed" % what)
        lost = book.acknowledged - set(everywhere)
        self.assertLessEqual(len(lost), book.may_be_gone, "%s: lost %s" % (what, sorted(lost)[:5]))
        self.assertEqual(sorted(book.entries - entries)[:5], [], "%s: entries are lost" % what)
        self.assertEqual(sorted(set(book.read) - pending)[:5], [], "%s: entries that were read are not pending" % what)
        self.assertEqual([entry for entry, count in book.read.items() if count > 1][:5], [], "%s: read twice" % what)
        book.acknowledged -= lost
        book.sent = set(everywhere)             # elements that were neither acknowledged nor kept are lost for good
        book.may_be_gone = 0
        return len(left)

    def make_group(self, server):
        with server.client() as client:
            client.must("XGROUP", "CREATE", STREAM, "readers", "$", "MKSTREAM")

    def kills(self, options, rounds):
        seed = seed_new()
        chance = random.Random(seed)
        settings = {"appendonly": "yes", "io-threads": "4", "maxmemory": "16mb"}
        settings.update(options)
        server, book = Server(settings), Book()
        self.addCleanup(server.discard)
        self.make_group(server)
        for round_ in range(rounds):
            load = Load(server, book, "%d/%d" % (seed, round_))
            load.start()
            time.sleep(chance.uniform(0.05, 0.7))
            load.kill()
            load.end()
            self.assertEqual(load.failures, [], "seed %d, round %d" % (seed, round_))
            server.start()
            self.check(server, book, "seed %d, round %d" % (seed, round_))
            self.assertIsNone(server.alarm())
        server.stop()
        self.assertGreater(len(book.delivered) + len(book.read), rounds, "too few elements were delivered for a test")
        print("  %s: %d kills, %d elements delivered, %d entries read (seed %d)" % (
            options, rounds, len(book.delivered), len(book.read), seed), file=sys.stderr)

    def test_kills_always(self):
        self.kills({"appendfsync": "always"}, max(3, scaled(8)))

    def test_kills_everysec(self):
        self.kills({"appendfsync": "everysec"}, max(3, scaled(8)))

    @unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
    def test_a_disk_that_is_full_for_some_time(self):
        seed = seed_new()
        chance = random.Random(seed)
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        server = Server({"appendonly": "yes", "io-threads": "4", "maxmemory": "16mb", "appendfsync": chance.choice(("always", "everysec"))},
                        folder=folder, environment=disk.environment)
        server.folder_is_ours = True
        self.addCleanup(disk.remove)
        self.addCleanup(server.discard)
        book = Book()
        self.make_group(server)
        for round_ in range(scaled(8)):
            what = "seed %d, round %d" % (seed, round_)
            killed = round_ % 3 == 2
            load = Load(server, book, "%d/%d" % (seed, round_))
            load.start()
            time.sleep(chance.uniform(0.05, 0.3))
            disk.rule(0, chance.choice(("write", "write sync")), chance.choice(("appendonlydir/*.incr.aof", "*")), FAIL, error=errno.ENOSPC)
            time.sleep(chance.uniform(0.05, 0.5))
            if killed:
                load.kill()
            disk.heal()
            time.sleep(0.2)
            load.end()
            self.assertEqual(load.failures, [], what)
            if killed:
                server.start()
            self.check(server, book, what)
            self.assertIsNone(server.alarm())
        server.stop()
        self.assertGreater(len(book.delivered), scaled(8))
        print("  full disk: %d elements delivered (seed %d)" % (len(book.delivered), seed), file=sys.stderr)

    @unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
    def test_a_reply_waits_for_the_log_on_any_worker(self):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        server = Server({"appendonly": "yes", "io-threads": "4", "appendfsync": "no"}, folder=folder, environment=disk.environment)
        server.folder_is_ours = True
        self.addCleanup(disk.remove)
        self.addCleanup(server.discard)
        waiters, pusher = [server.client() for _ in range(8)], server.client()
        for index, waiter in enumerate(waiters):
            waiter.send(encode([["BLPOP", "k%d" % index, 0], ["BLMOVE", "k%d" % index, "moved", "LEFT", "LEFT", 0]][index % 2]))
        until(lambda: b"blocked_clients:8\r" in pusher.must("INFO", "clients"), 30, "all wait")
        disk.rule(0, "write", "appendonlydir/*.incr.aof", DELAY, delay_us=3000000)
        pusher.send(b"".join(encode(["RPUSH", "k%d" % index, index]) for index in range(8)))
        until(lambda: disk.matched(0) > 0, 30, "a slow write")
        early, _, _ = select.select([client.socket for client in waiters + [pusher]], [], [], 0.3)
        self.assertEqual(len(early), 0, "replies to commands that are not in the log")
        disk.heal()
        for index, waiter in enumerate(waiters):
            self.assertEqual(waiter.receive(), b"%d" % index if index % 2 else [b"k%d" % index, b"%d" % index])
        server.kill9()
        server.start()
        with server.client() as client:
            self.assertEqual(client.must("LRANGE", "moved", 0, -1), [b"7", b"5", b"3", b"1"])
            self.assertEqual(client.must("DBSIZE"), 1)
        for client in waiters + [pusher]:
            client.close()
        server.stop()


if __name__ == "__main__":
    main()
