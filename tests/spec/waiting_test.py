"""Clients that wait for keys: every command that creates a key serves them, no other client runs between a push and the service, and the effects
of deleted streams, full disks, lack of memory and timeouts. See tests/spec/blocking_test.py for order and random loads."""
import glob
import os
import random
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.scripts import ScriptCase, blocked                                                          # noqa: E402
from support.resp import Error, NULL_ARRAY, OK, encode                                              # noqa: E402
from support.server import Server, is_sanitized, scaled, seed_new, until                            # noqa: E402

KEYS = "wxyz"


class MakersTest(ScriptCase):
    """All commands that create a key: each client waits for one key, of any type, and must be served when redis serves it."""

    def test_restore_sort_and_store(self):
        self.r.must("RPUSH", "l", 3, 1, 2)
        self.r.must("ZADD", "z", 1, "a", 2, "b")
        self.r.must("XADD", "s", "1-1", "f", "v")
        payloads = [self.r.must("DUMP", key) for key in "lzs"]
        self.r.must("FLUSHALL")
        script = [("a", ["BLPOP", "l", 0]), ("b", ["BZPOPMAX", "z", 0]), ("c", ["XREAD", "BLOCK", 0, "STREAMS", "s", "$"])]
        script += [("p", ["RESTORE", key, 0, payload]) for key, payload in zip("lzs", payloads)]
        script += [("p", line.split()) for line in """LRANGE l 0 -1|ZRANGE z 0 -1""".split("|")]
        script += [("d", ["BRPOP", "sorted", 0]), ("p", ["SORT", "l", "STORE", "sorted"]), ("p", ["LRANGE", "sorted", 0, -1])]
        script += [("e", ["BZMPOP", 0, 1, "u", "MIN"]), ("p", ["ZUNIONSTORE", "u", 2, "z", "z"]), ("p", ["EXISTS", "u"])]
        script += [("f", ["BZPOPMIN", "g", 0]), ("p", ["GEOADD", "geo", 13.4, 52.5, "berlin"]),
                   ("p", ["GEOSEARCHSTORE", "g", "geo", "FROMMEMBER", "berlin", "BYRADIUS", 1, "km"]), ("p", ["EXISTS", "g"])]
        self.run_script([(name, [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]) for name, args in script])

    def test_random_scripts_with_all_types(self):
        """A key is deleted before it gets another type: 7.0 does not signal a value that replaces another one."""
        seed = seed_new()
        rand = random.Random(seed)
        print("  seed %d" % seed, file=sys.stderr)
        for _ in range(scaled(12)):
            lines = ["q SELECT 1"]
            for step in range(70):
                key, other = rand.sample(KEYS, 2)
                if rand.random() < 0.4:
                    lines.append("w%d %s" % (step, rand.choice((
                        "BLPOP %s 0", "BRPOP %s 0", "BLMPOP 0 1 %s LEFT COUNT 2", "BZPOPMIN %s 0", "BZPOPMAX %s 0", "BZMPOP 0 1 %s MAX COUNT 2",
                        "XREAD BLOCK 0 STREAMS %s $", "XREAD BLOCK 0 COUNT 1 STREAMS %s 0-0")) % key))
                    continue
                maker = rand.choice(("RPUSH %(key)s a b", "LPUSH %(key)s c", "ZADD %(key)s 1 a 2 b", "ZADD %(key)s 3 c", "XADD %(key)s %(id)d-1 f v",
                                     "RENAME %(other)s %(key)s", "COPY %(other)s %(key)s REPLACE", "SORT %(other)s ALPHA STORE %(key)s",
                                     "ZUNIONSTORE %(key)s 1 %(other)s", "ZRANGESTORE %(key)s %(other)s 0 0", "SET %(key)s v", "SADD %(key)s m",
                                     "HSET %(key)s f v", "LMOVE %(other)s %(key)s LEFT LEFT", "MOVE %(key)s 1", "SWAPDB 0 1", "FLUSHDB"))
                line = maker % {"key": key, "other": other, "id": step + 1}
                if maker.split()[1:2] == ["%(key)s"] and maker.split()[0] not in ("RPUSH", "LPUSH", "ZADD", "XADD") or "STORE" in maker:
                    lines.append("p DEL %s" % key)
                lines.append("%s %s" % (rand.choice("pppq"), line))
            self.run_script("\n".join(lines))
            self.c.must("FLUSHALL")
            self.r.must("FLUSHALL")

    def test_many_keys(self):
        keys = " ".join("key:%d" % (index % 400) for index in range(1000))
        self.run_script("""
            a BLPOP %s 0
            b BLMPOP 0 1000 %s RIGHT
            c XREAD BLOCK 0 STREAMS %s %s
            d BZPOPMIN %s 0
            p RPUSH key:399 1 2 3
            p DEL key:399
            p ZADD key:0 1 m
            p XADD key:7 1-1 f v
            p EXISTS key:0
        """ % (keys, keys, " ".join(keys.split()[:400]), " ".join(["$"] * 400), keys))


@kelvin_only
class ColdMakersTest(MakersTest):
    demote = True


@kelvin_only
class WorkersMakersTest(MakersTest):
    options = {"io-threads": "4"}


@kelvin_only
class TogetherTest(ServerCase):
    """A push and the service of waiting clients are atomic for all workers."""

    options = {"io-threads": "4"}

    def intrude(self, commands, expected, rounds, waiting=("BLPOP", "k", 0), pushing=("RPUSH", "k", 1), served=(b"k", b"1")):
        """Clients on all workers read the key while there is a waiting client for each push: for them the key must never exist."""
        stop, wrong = threading.Event(), []

        def ask(command):
            with self.server.client(timeout=60) as client:
                while not stop.is_set():
                    wrong.extend((command, reply) for reply in client.pipeline([command] * 20) if reply not in expected)

        threads = [threading.Thread(target=ask, args=(command,)) for command in commands]
        waiter, pusher = self.client(timeout=60), self.client(timeout=60)
        for thread in threads:
            thread.start()
        try:
            for _ in range(rounds):
                waiter.send(encode(waiting))
                until(lambda: blocked(self.c) > 0, what="a waiting client")
                pusher.must(*pushing)
                self.assertEqual(waiter.receive(), list(served))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong[:3], [])

    def test_an_element_for_a_waiting_client_is_not_visible_to_others(self):
        self.intrude([["LLEN", "k"], ["EXISTS", "k", "other"], ["LPOP", "k"], ["RENAMENX", "k", "j"], ["SWAPDB", 0, 0]],
                     [0, None, Error(b"ERR no such key"), OK], scaled(600))
        self.assertEqual(self.c.must("DBSIZE"), 0)

    def test_nor_while_an_element_moves_through_lists(self):
        mover, popper = self.client(timeout=60), self.client(timeout=60)
        stop = threading.Event()
        wrong = []

        def ask():
            with self.server.client(timeout=60) as client:
                while not stop.is_set():
                    wrong.extend(reply for reply in client.pipeline([["LLEN", "x"], ["LLEN", "y"], ["EXISTS", "x", "y"]] * 5) if reply != 0)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(scaled(300)):
            popper.send(encode(["BLPOP", "y", 0]))
            mover.send(encode(["BLMOVE", "x", "y", "LEFT", "LEFT", 0]))
            until(lambda: blocked(self.c) == 2, what="both wait")
            self.c.must("RPUSH", "x", 1)
            self.assertEqual((mover.receive(), popper.receive()), (b"1", [b"y", b"1"]))
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong[:3], [])


@kelvin_only
class ManyWorkersTest(ServerCase):
    options = {"io-threads": "4"}

    def test_clients_are_served_in_order_of_arrival_for_any_pusher(self):
        waiters, pushers = [self.client(timeout=60) for _ in range(8)], [self.client(timeout=60) for _ in range(4)]
        for round_ in range(scaled(150)):
            for index, waiter in enumerate(waiters):
                waiter.send(encode(["BLPOP", "k", "other", 0]))
                until(lambda: blocked(self.c) == index + 1, what="a client waits")
            for half in (waiters[:4], waiters[4:]):
                for index, pusher in enumerate(pushers):
                    pusher.send(encode(["RPUSH", "k", "%d.%d" % (round_, index)]))
                self.assertEqual([pusher.receive() for pusher in pushers], [1] * 4)     # each found the list empty
                got = [waiter.receive()[1] for waiter in half]
                self.assertEqual(sorted(got), [b"%d.%d" % (round_, index) for index in range(4)])
        self.assertEqual(self.c.must("DBSIZE"), 0)

    def test_a_group_gets_each_entry_once_and_other_readers_get_all_in_order(self):
        seed = seed_new()
        stop, complete, failures, added, delivered = threading.Event(), threading.Event(), [], [], []
        streams = ["s0", "s1"]

        def run(kind, number):
            rand = random.Random("%d/%d" % (seed, number))
            try:
                with self.server.client(timeout=60) as client:
                    kind(client, rand, number)
            except Exception as error:                                              # noqa: BLE001
                failures.append("%s: %r" % (kind.__name__, error))
                stop.set()

        def add(client, rand, number):
            while not stop.is_set():
                stream = rand.choice(streams)
                added.append((stream, client.must("XADD", stream, "*", "by", number)))
                time.sleep(rand.random() * 0.003)

        def consume(client, rand, number):
            while not stop.is_set():
                reply = client.call("XREADGROUP", "GROUP", "g", "c%d" % number, "COUNT", rand.choice((1, 5)), "BLOCK", rand.choice((3, 30)),
                                    "STREAMS", *streams, ">", ">")
                delivered.extend((stream.decode(), entry[0]) for stream, entries in ([] if reply == NULL_ARRAY else reply) for entry in entries)

        def follow(client, rand, number):
            last, seen = ["0-0", "0-0"], {stream: [] for stream in streams}
            # Only when nothing is added any more: an XADD may be on its way after stop is set.
            while not (complete.is_set() and all(last[i] == self.last_of(client, stream) for i, stream in enumerate(streams))):
                reply = client.call("XREAD", "COUNT", 10, "BLOCK", 50, "STREAMS", *streams, *last)
                for stream, entries in [] if reply == NULL_ARRAY else reply:
                    seen[stream.decode()] += [entry[0] for entry in entries]
                    last[streams.index(stream.decode())] = entries[-1][0]
            for stream in streams:
                if seen[stream] != [entry[0] for entry in client.must("XRANGE", stream, "-", "+")]:
                    raise AssertionError("a follower of %s has gaps" % stream)

        def leave(client, rand, number):
            while not stop.is_set():
                others = [self.server.client() for _ in range(3)]
                for other in others:
                    other.send(encode(["XREADGROUP", "GROUP", "g", "gone", "BLOCK", 0, "STREAMS", *streams, ">", ">"]))
                time.sleep(rand.random() * 0.01)
                for other in others:
                    other.close()

        def demote(client, rand, number):
            while not stop.is_set():
                client.call("TIER", "DEMOTE", *streams)
                time.sleep(0.005)

        for stream in streams:
            self.c.must("XGROUP", "CREATE", stream, "g", "0", "MKSTREAM")
        kinds = [add] * 3 + [consume] * 5 + [follow] * 2 + [leave, demote]
        threads = [threading.Thread(target=run, args=(kind, number)) for number, kind in enumerate(kinds)]
        for thread in threads:
            thread.start()
        stop.wait(3)
        stop.set()
        for thread, kind in zip(threads, kinds):
            if kind is add:
                thread.join(60)
        complete.set()
        for thread in threads:
            thread.join(60)
        self.assertEqual(failures, [], "seed %d" % seed)
        until(lambda: blocked(self.c) == 0, what="the end of all waits")
        rest = self.c.call("XREADGROUP", "GROUP", "g", "rest", "STREAMS", *streams, ">", ">")
        delivered += [(stream.decode(), entry[0]) for stream, entries in ([] if rest == NULL_ARRAY else rest) for entry in entries]
        for stream in streams:
            delivered += [(stream, entry[0]) for entry in self.c.must("XPENDING", stream, "g", "-", "+", 1000000, "gone")]
        self.assertEqual(sorted(delivered), sorted(added), "seed %d" % seed)
        self.assertGreater(len(added), 20)

    def last_of(self, client, stream):
        entries = client.must("XREVRANGE", stream, "+", "-", "COUNT", 1)
        return entries[0][0] if entries else "0-0"


class AroundTest(PairCase):
    """Other events for clients that wait, compared with redis-server."""

    def each(self, scenario):
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            with server.client() as client, server.client() as other:
                scenario(client, other, watcher)
            until(lambda: blocked(watcher) == 0, what="the end of all waits")

    def wait(self, client, watcher, *command):
        before = blocked(watcher)
        client.send(encode(command))
        until(lambda: blocked(watcher) == before + 1, what="a client waits")

    def test_a_served_client_is_not_idle_after_a_long_wait(self):
        def scenario(client, other, watcher):
            watcher.must("CONFIG", "SET", "timeout", 1)
            self.wait(client, watcher, "BLPOP", "k", 0)
            ends = time.monotonic() + 3.2
            while time.monotonic() < ends:
                watcher.must("PING")
                time.sleep(0.05)
            watcher.must("RPUSH", "k", 1)
            self.assertEqual(client.receive(), [b"k", b"1"])
            for _ in range(12):                     # idle clients are checked once per second
                time.sleep(0.1)
                watcher.must("PING")
                self.assertEqual(client.must("ECHO", "here"), b"here")
            watcher.must("CONFIG", "SET", "timeout", 0)
        self.each(scenario)

    def test_an_unblocked_client_is_counted_as_an_error(self):
        def scenario(client, other, watcher):
            watcher.must("CONFIG", "RESETSTAT")
            self.wait(client, watcher, "BLPOP", "k", 0)
            watcher.must("CLIENT", "UNBLOCK", self.id_of(client, watcher), "ERROR")
            self.assertTrue(client.receive().startswith(b"UNBLOCKED"))
            self.assertIn(b"errorstat_UNBLOCKED:count=1", watcher.must("INFO", "errorstats"))
            self.assertIn(b"total_error_replies:1", watcher.must("INFO", "stats"))
        self.each(scenario)

    def id_of(self, client, watcher):
        port = client.socket.getsockname()[1]
        line = [line for line in watcher.must("CLIENT", "LIST").splitlines() if b" addr=127.0.0.1:%d " % port in line][0]
        return line.split()[0].split(b"=")[1]

    def test_a_pause_delays_pushes_and_not_timeouts(self):
        def scenario(client, other, watcher):
            self.wait(client, watcher, "BLPOP", "k", 0)
            watcher.must("CLIENT", "PAUSE", 100000, "WRITE")
            other.send(encode(["RPUSH", "k", 1, 2]))
            self.assertEqual(watcher.must("LLEN", "k"), 0)
            self.assertEqual(watcher.must("CLIENT", "UNBLOCK", self.id_of(client, watcher)), 1)
            self.assertEqual(client.receive(), NULL_ARRAY)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(other.receive(), 2)
            self.assertEqual(client.must("BLPOP", "k", 0), [b"k", b"1"])
        self.each(scenario)

    @unittest.skipIf(is_sanitized(), "a sanitizer's allocator is not metered")
    def test_without_memory_pops_run_and_moves_are_refused(self):
        options = {"maxmemory-policy": "noeviction", "tier-enabled": "no"}
        for binary in (self.server.binary, self.oracle.binary):
            with Server(options, binary=binary) as server, server.client() as client, server.client() as waiter:
                client.must("RPUSH", "k", 1, 2)
                client.must("ZADD", "z", 1, "a")
                self.wait(waiter, client, "BLPOP", "later", 0)
                client.must("CONFIG", "SET", "maxmemory", 1)
                self.assertEqual(client.must("BLPOP", "k", 0), [b"k", b"1"])
                self.assertEqual(client.must("BZPOPMIN", "z", 0), [b"z", b"a", b"1"])
                for command in (["BLMOVE", "k", "l", "LEFT", "LEFT", 0], ["BRPOPLPUSH", "k", "l", 0], ["BLMOVE", "none", "l", "LEFT", "LEFT", 0]):
                    self.assertTrue(client.call(*command).startswith(b"OOM"), command)
                client.must("RENAME", "k", "later")
                self.assertEqual(waiter.receive(), [b"later", b"2"])
                self.assertEqual(client.must("DBSIZE"), 0)

    def test_a_deleted_consumer_stays_deleted_and_a_moved_group_serves_with_the_next_entry(self):
        def scenario(client, other, watcher):
            watcher.must("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
            watcher.must("XADD", "s", "1-1", "a", "1")
            watcher.must("XREADGROUP", "GROUP", "g", "reader", "STREAMS", "s", ">")
            self.wait(client, watcher, "XREADGROUP", "GROUP", "g", "waiter", "BLOCK", 0, "STREAMS", "s", ">")
            for command in (["XGROUP", "DELCONSUMER", "s", "g", "waiter"], ["XGROUP", "SETID", "s", "g", "0"], ["XACK", "s", "g", "1-1"],
                            ["XGROUP", "CREATE", "s", "g2", "0"], ["XGROUP", "CREATECONSUMER", "s", "g", "x"], ["EXPIRE", "s", "1000"],
                            ["XGROUP", "DELCONSUMER", "s", "g", "x"], ["PERSIST", "s"], ["XTRIM", "s", "MAXLEN", "1"]):
                watcher.must(*command)
                self.assertEqual([consumer[1] for consumer in watcher.must("XINFO", "CONSUMERS", "s", "g") if consumer[1] == b"waiter"], [])
                self.assertEqual(blocked(watcher), 1)
            watcher.must("XADD", "s", "2-1", "b", "2")
            self.assertEqual(client.receive(), [[b"s", [[b"1-1", [b"a", b"1"]], [b"2-1", [b"b", b"2"]]]]])
            watcher.must("FLUSHALL")
        self.each(scenario)


@kelvin_only
class ReadersOfGroupsTest(ServerCase):
    """They get an error when their stream is deleted in any way."""

    def waiting(self, stream="s"):
        self.c.must("XGROUP", "CREATE", stream, "g", "$", "MKSTREAM")
        reader = self.client()
        reader.send(encode(["XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", stream, ">"]))
        until(lambda: blocked(self.c) == 1, what="a reader waits")
        return reader

    def told(self, reader):
        reply = reader.receive()
        self.assertIsInstance(reply, Error)
        self.assertTrue(reply.startswith(b"NOGROUP"), reply)

    def test_a_stream_that_expires_in_the_store(self):
        reader = self.waiting()
        self.c.must("PEXPIRE", "s", 300)
        self.assertEqual(self.c.must("TIER", "DEMOTE", "s"), 1)
        self.told(reader)

    def test_a_stream_found_expired_by_a_reader_that_then_waits(self):
        self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        try:
            reader, other = self.waiting(), self.client()
            self.c.must("PEXPIRE", "s", 1)
            time.sleep(0.05)
            other.send(encode(["BLPOP", "s", 0]))       # the last command that is run
            self.told(reader)
        finally:
            self.c.must("DEBUG", "SET-ACTIVE-EXPIRE", 1)

    def test_keys_whose_deletion_ends_a_wait_are_counted(self):
        def counts():
            info = self.server.info("clients")
            return info["total_blocking_keys"], info["total_blocking_keys_on_nokey"]

        self.assertEqual(counts(), ("0", "0"))
        reader, other = self.waiting(), self.client()
        other.send(encode(["BLPOP", "k1", "k2", 0]))
        until(lambda: blocked(self.c) == 2, what="both wait")
        self.assertEqual(counts(), ("3", "1"))
        second = self.client()
        second.send(encode(["XREADGROUP", "GROUP", "g", "c2", "BLOCK", 0, "STREAMS", "s", ">"]))
        until(lambda: blocked(self.c) == 3, what="all wait")
        self.assertEqual(counts(), ("3", "1"))
        self.c.must("DEL", "s")
        self.told(reader)
        self.told(second)
        self.assertEqual(counts(), ("2", "0"))


class LogOrderTest(PairCase):
    options = {"appendonly": "yes", "appendfsync": "always"}

    def logged(self, server):
        """Returns the commands of the log, without those that only enclose others."""
        with open(sorted(glob.glob(os.path.join(server.folder, "appendonlydir", "*.incr.aof")))[-1], "rb") as file:
            words = [word.upper() for word in re.findall(rb"\$\d+\r\n([^\r]*)\r\n", file.read())]
        return b" ".join(words).replace(b"SELECT 0 ", b"").replace(b"MULTI ", b"").replace(b" EXEC", b"")

    def test_the_served_pop_is_logged_between_the_push_and_later_commands(self):
        logs = []
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            waiters = [server.client() for _ in range(6)]
            commands = ["BLMOVE a b LEFT LEFT 0", "BLPOP b 0", "BLMPOP 0 1 a RIGHT COUNT 2", "BZPOPMAX z 0", "BRPOPLPUSH b c 0", "BRPOP c 0"]
            for index, (waiter, command) in enumerate(zip(waiters, commands)):
                waiter.send(encode(command.split()))
                until(lambda: blocked(watcher) == index + 1, what="a client waits")
            watcher.pipeline([["SET", "before", 1], ["RPUSH", "a", 1, 2, 3, 4], ["SET", "between", 1], ["LPUSH", "b", 5], ["ZADD", "z", 1, "m"],
                              ["SET", "after", 1]])
            for waiter in waiters:
                waiter.receive()
                waiter.close()
            log = self.logged(server)
            logs.append(log[log.index(b"SET BEFORE"):])
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(logs[0], b"SET BEFORE 1 RPUSH A 1 2 3 4 LMOVE A B LEFT LEFT RPOP A 2 LPOP B SET BETWEEN 1 LPUSH B 5 "
                         b"RPOPLPUSH B C RPOP C ZADD Z 1 M ZPOPMAX Z SET AFTER 1")


@kelvin_only
class EndOfServerTest(ServerCase):
    def test_a_shutdown_while_many_clients_wait(self):
        for options in ({}, {"appendonly": "yes"}):
            server = Server(dict(options, **{"io-threads": "4"}))
            self.addCleanup(server.discard)
            clients = [server.client() for _ in range(40)]
            for index, client in enumerate(clients):
                client.send(encode(["BLPOP", "a", "b%d" % (index % 7), (0, 1000)[index % 2]]))
            with server.client() as client:
                until(lambda: blocked(client) == 40, what="all wait")
                client.send(b"".join(encode(["RPUSH", "b%d" % (index % 7), index]) for index in range(20)) + encode(["SHUTDOWN"]))
                self.assertEqual(server.wait_end(), 0)
            self.assertIsNone(server.alarm())
            for client in clients:
                client.close()


if __name__ == "__main__":
    main()
