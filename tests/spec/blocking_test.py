"""Clients that wait for keys: which are served, in which order, and by which commands, compared with redis-server; and a random load after
which every element has been popped exactly once or is still there."""
import collections
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, kelvin_only, main                                    # noqa: E402
from support.scripts import ScriptCase, blocked                                                          # noqa: E402
from support.resp import Error, NULL_ARRAY, Status, encode                                          # noqa: E402
from support.server import Server, is_redis, is_sanitized, scaled, seed_new, until                  # noqa: E402


class OrderTest(ScriptCase):
    def test_first_come_first_served(self):
        self.run_script("""
            a BLPOP k 0
            b BRPOP k 0
            c BLPOP k 0
            p RPUSH k 1 2
            p LRANGE k 0 -1
            p RPUSH k 3 4 5
            p LRANGE k 0 -1
            a BLPOP k 0
        """)

    def test_several_keys(self):
        self.run_script("""
            a BLPOP x y z 0
            b BLPOP z x 0
            c BRPOP y y y 0
            p RPUSH z 1
            p RPUSH x 2
            p RPUSH y 3 4
            p LRANGE y 0 -1
            a BLPOP x y 0
        """)

    def test_pops_of_several(self):
        self.run_script("""
            a BLMPOP 0 2 x y LEFT COUNT 2
            b BLMPOP 0 1 y RIGHT
            c BLPOP y 0
            p RPUSH y 1 2 3 4 5
            p LRANGE y 0 -1
            d BLMPOP 0 1 z RIGHT COUNT 10
            p LPUSH z 1 2
        """)

    def test_moves_serve_other_clients(self):
        self.run_script("""
            a BLMOVE x y LEFT RIGHT 0
            b BLPOP y 0
            c BLMOVE y z RIGHT LEFT 0
            d BRPOPLPUSH z w 0
            e BLPOP w 0
            p RPUSH x 1 2 3
            p LRANGE x 0 -1
            p RPUSH x 4
            p RPUSH y 5 6
            p LRANGE z 0 -1
            p LRANGE w 0 -1
        """)

    def test_a_move_in_a_circle(self):
        self.run_script("""
            a BRPOPLPUSH k k 0
            b BLMOVE k k LEFT RIGHT 0
            c BLPOP k 0
            p RPUSH k 1 2
            p LRANGE k 0 -1
        """)

    def test_two_moves_in_opposite_directions(self):
        self.run_script("""
            a BLMOVE x y LEFT LEFT 0
            b BLMOVE y x LEFT LEFT 0
            p RPUSH x 1
            p LRANGE x 0 -1
            p LRANGE y 0 -1
        """)

    def test_commands_that_create_a_key(self):
        self.run_script("""
            p RPUSH other 1 2 3
            a BLPOP k1 0
            p RENAME other k1
            b BLPOP k2 0
            p COPY k1 k2
            c BLPOP k3 0
            p RENAMENX k2 k3
            d BLPOP k1 0
            d BLPOP k5 0
            p LMOVE k1 k5 LEFT LEFT
            p SELECT 1
            p RPUSH m 1
            e BLPOP m 0
            p MOVE m 0
            f BLPOP n 0
            p RPUSH n2 7
            p COPY n2 n DB 0
            p SELECT 0
        """)

    def test_a_key_of_a_wrong_type_serves_no_client(self):
        self.run_script("""
            a BLPOP k 0
            b BZPOPMIN k 0
            p SET k v
            p DEL k
            p SADD k 1
            p DEL k
            p ZADD k 1 m
            p RPUSH k 2
            p ZADD k 1 m
        """)

    def test_a_wrong_type_is_an_immediate_error(self):
        self.run_script("""
            p SET s v
            a BLPOP s 0
            a BLPOP missing s 0
            a BLMOVE s x LEFT LEFT 0
            a BLMPOP 0 2 missing s LEFT
            a BZPOPMIN missing s 0
            p RPUSH l 1
            a BLPOP l s 0
            p RPUSH l 1
            a BLMOVE l s LEFT LEFT 0
            a BRPOPLPUSH l s 0
            p LRANGE l 0 -1
        """)

    def test_a_destination_of_another_type_is_an_error_when_an_element_is_there(self):
        self.run_script("""
            p SET s v
            a BLMOVE x s LEFT LEFT 0
            b BLPOP x 0
            p RPUSH x 1
        """)

    def test_swapped_databases(self):
        self.run_script("""
            a BLPOP k 0
            p SELECT 1
            p RPUSH k 1 2
            p SWAPDB 0 1
            p DBSIZE
        """)

    def test_a_flush_does_not_end_waits(self):
        self.run_script("""
            a BLPOP k 0
            p FLUSHDB
            p FLUSHALL
            p RPUSH k 1
        """)

    def test_sorted_sets(self):
        self.run_script("""
            a BZPOPMIN z 0
            b BZPOPMAX z 0
            c BZMPOP 0 2 y z MAX COUNT 2
            d BZPOPMIN z y 0
            p ZADD z 1 a 2 b
            p ZADD z 3 c 4 d 5 e 6 f
            p ZRANGE z 0 -1
            d BZPOPMAX q 0
            p ZUNIONSTORE q 1 z
            e BZPOPMAX r 0
            p ZADD t 1.5 m
            p ZRANGESTORE r t 0 -1
        """)

    def test_in_resp3(self):
        self.run_script("""
            a BZPOPMIN z 0
            b BZMPOP 0 1 z MIN COUNT 5
            c BLPOP l 0
            d BLMPOP 0 1 l LEFT COUNT 2
            p ZADD z 1 a 2 b 2.5 c
            p RPUSH l 1 2 3
            e BLPOP none 0.05
        """, protocol=3)

    def test_elements_pushed_and_removed_by_one_command_serve_no_client(self):
        self.run_script("""
            a BLPOP k 0
            p LPUSHX k 1
            p RPUSH other 1
            p RPOPLPUSH other k
        """)

    def test_later_commands_of_a_waiting_client_wait(self):
        self.run_script("""
            a BLPOP k 0
            p RPUSH other 1
            p RPUSH k 1
        """)
        for server in (self.server, self.oracle):
            with server.client() as client, server.client() as pusher:
                client.send(encode(["BLPOP", "k", 0]) + encode(["PING"]) + encode(["BLPOP", "k", 0]) + encode(["ECHO", "x"]))
                until(lambda: blocked(pusher) == 1, what="a client waits")
                pusher.must("RPUSH", "k", 1, 2)
                self.assertEqual([client.receive() for _ in range(4)], [[b"k", b"1"], Status(b"PONG"), [b"k", b"2"], b"x"])

    def test_waiting_clients_are_served_before_the_next_command_of_the_pusher(self):
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            clients = [server.client() for _ in range(3)]
            with server.client() as pusher:
                for round_ in range(50):
                    for index, client in enumerate(clients):
                        client.send(encode([["BLPOP", "k", 0], ["BLMOVE", "k", "l", "LEFT", "LEFT", 0], ["BRPOP", "l", 0]][index]))
                        until(lambda: blocked(watcher) == index + 1, what="a client waits")
                    self.assertEqual(pusher.pipeline([["RPUSH", "k", 1], ["LLEN", "k"], ["RPUSH", "k", 2, 3], ["LLEN", "k"], ["EXISTS", "l"],
                                                      ["DEL", "k"]]), [1, 0, 2, 1, 0, 1])
                    self.assertEqual([client.receive() for client in clients], [[b"k", b"1"], b"2", [b"l", b"2"]])
            for client in clients:
                client.close()

    def test_random_scripts(self):
        """Either moves or clients with several keys: when a move adds to another key of a client that is being served, 7.2 runs the
        command again and so uses the first key that has elements; 7.0, the oracle, uses the key that was signalled."""
        seed = seed_new()
        rand = random.Random(seed)
        print("  seed %d" % seed, file=sys.stderr)
        for round_ in range(scaled(20)):
            moves = round_ % 2
            lines, ends = [], ("LEFT", "RIGHT")
            for _ in range(60):
                keys = [rand.choice("wxyz") for _ in range(1 if moves else rand.choice((1, 1, 2, 3)))]
                if rand.random() < 0.45:
                    command = rand.choice(["BLPOP %s 0" % " ".join(keys), "BRPOP %s 0" % " ".join(keys), "BLMPOP 0 %d %s %s COUNT %d" % (
                        len(keys), " ".join(keys), rand.choice(ends), rand.randrange(1, 4)),
                        "BLMOVE %s %s %s %s 0" % (keys[0], rand.choice("wxyz"), rand.choice(ends), rand.choice(ends)),
                        "BRPOPLPUSH %s %s 0" % (keys[0], rand.choice("wxyz"))][:5 if moves else 3])
                    lines.append(("w%d" % len(lines), command))
                else:
                    command = rand.choice(["RPUSH %s %s" % (keys[0], " ".join(str(rand.randrange(100)) for _ in range(rand.choice((1, 1, 2, 5))))),
                                           "LPUSH %s %d" % (keys[0], rand.randrange(100)), "DEL %s" % keys[0], "LPOP %s" % keys[0],
                                           "LMOVE %s %s LEFT RIGHT" % (keys[0], rand.choice("wxyz")), "COPY %s %s" % (keys[0], rand.choice("wxyz"))])
                    lines.append(("p", command))
            self.run_script("\n".join("%s %s" % line for line in lines))
            self.c.must("FLUSHALL")
            self.r.must("FLUSHALL")


@kelvin_only
class ColdOrderTest(OrderTest):
    """The same with every key cold before every command."""
    demote = True


@kelvin_only
class WorkersOrderTest(OrderTest):
    options = {"io-threads": "4"}


class EndTest(PairCase):
    """The end of waits without an element."""

    def test_timeouts(self):
        for command in (["BLPOP", "a", "b", 0.05], ["BRPOP", "a", 0.05], ["BLMOVE", "a", "b", "LEFT", "LEFT", 0.05], ["BRPOPLPUSH", "a", "b", 0.05],
                        ["BLMPOP", 0.05, 1, "a", "LEFT"], ["BZPOPMIN", "a", 0.05], ["BZPOPMAX", "a", 0.001], ["BZMPOP", 0.05, 1, "a", "MIN"]):
            self.both([command])

    def test_a_timeout_has_its_duration(self):
        began = time.monotonic()
        self.c.must("BLPOP", "k", 0.3)
        took = time.monotonic() - began
        self.assertGreaterEqual(took, 0.3)
        self.assertLess(took, 0.8 if not is_sanitized() else 5)

    def test_many_timeouts_end_in_order(self):
        clients = [self.server.client() for _ in range(20)]
        for index, client in enumerate(clients):
            client.send(encode(["BLPOP", "k", "k%d" % index, 0.02 * ((index * 7) % 20 + 1)]))
        for client in clients:
            self.assertEqual(client.receive(), NULL_ARRAY)
            client.close()
        self.assertEqual(blocked(self.c), 0)
        if not is_redis():
            info = self.server.info("clients")
            self.assertEqual((info["total_blocking_keys"], info["clients_in_timeout_table"]), ("0", "0"))

    def test_invalid_arguments(self):
        replies = self.both("""
            BLPOP k x
            BLPOP k -1
            BLPOP k -0.5
            BLPOP k nan
            BLPOP k ""
            BLPOP k
            BRPOP
            BLMPOP 0 0 k LEFT
            BLMPOP -1 0 k LEFT
            BLMPOP x 1 k LEFT
            BLMPOP x 1 k LEFT COUNT 0
            BLMPOP 0 2 k LEFT
            BLMPOP 0 1 k foo
            BLMOVE k l foo LEFT x
            BLMOVE k l LEFT LEFT x
            BLMOVE k l LEFT LEFT -1
            BRPOPLPUSH k l x
            BZPOPMIN k x
            BZMPOP 0 0 k MIN
            BZMPOP x 1 k MIN
            BZMPOP 0 1 k foo
            CLIENT UNBLOCK x
            CLIENT UNBLOCK 999999 foo
        """)
        self.assertTrue(all(isinstance(reply, Error) for reply in replies))

    def test_waiting_for_missing_replicas(self):
        for protocol in (2, 3):
            self.both("""
                WAIT 0 0
                WAIT -1 0
                WAIT 1 5
                WAIT 9223372036854775807 5
                WAIT abc abc
                WAIT 9223372036854775808 1
                WAIT 0 -1
                WAIT 1 -1
                WAIT 0 abc
                WAIT 1 1.5
                WAIT 1
            """, self.clients(protocol=protocol))
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            for how, expected in (([], 0), (["TIMEOUT"], 0), (["ERROR"], Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"))):
                with server.client() as client:
                    identity = client.must("CLIENT", "ID")
                    client.send(b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n")
                    until(lambda: watcher.must("CLIENT", "UNBLOCK", identity, *how) == 1, what="the unblocking")
                    self.assertEqual(client.receive(), expected)
            with server.client() as client:
                client.send(b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n")
                until(lambda: b"blocked_clients:1" in bytes(watcher.must("INFO", "clients")), what="the waiter")
            until(lambda: b"blocked_clients:0" in bytes(watcher.must("INFO", "clients")), what="removing the waiting client that closed its connection")

    @kelvin_only
    def test_a_timeout_too_large(self):
        for timeout in ("1e17", "inf", "9223372036854775807"):
            self.assertEqual(self.c.call("BLPOP", "k", timeout), Error(b"ERR timeout is out of range"))

    def test_unblock(self):
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            with server.client() as client, server.client() as other:
                identity = client.must("CLIENT", "ID")
                for how, expected in (([], NULL_ARRAY), (["TIMEOUT"], NULL_ARRAY),
                                      (["error"], Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK"))):
                    client.send(encode(["BLPOP", "k", 0]))
                    until(lambda: blocked(watcher) == 1, what="a client waits")
                    self.assertIn(b"flags=b", [line for line in other.must("CLIENT", "LIST").splitlines()
                                               if b"id=%d " % identity in line][0])
                    self.assertEqual(other.must("CLIENT", "UNBLOCK", identity, *how), 1)
                    self.assertEqual(client.receive(), expected)
                    self.assertEqual(other.must("CLIENT", "UNBLOCK", identity, *how), 0)
                self.assertEqual(other.must("CLIENT", "UNBLOCK", other.must("CLIENT", "ID")), 0)
                self.assertEqual(other.must("RPUSH", "k", 1), 1)

    def test_disconnected_clients_take_no_elements(self):
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            clients = [server.client() for _ in range(4)]
            for index, client in enumerate(clients):
                client.send(encode(["BLPOP", "k", 0]))
                until(lambda: blocked(watcher) == index + 1, what="a client waits")
            clients[0].close()
            until(lambda: blocked(watcher) == 3, what="removing the closed client")
            killed = [line for line in watcher.must("CLIENT", "LIST").splitlines() if b"cmd=blpop" in line][-1]
            watcher.must("CLIENT", "KILL", "ID", [word for word in killed.split() if word.startswith(b"id=")][0][3:])
            until(lambda: blocked(watcher) == 2, what="removing the killed client")
            watcher.must("RPUSH", "k", 1, 2, 3)
            self.assertEqual(watcher.must("LRANGE", "k", 0, -1), [b"3"])
            until(lambda: blocked(watcher) == 0, what="serving the other clients")
            for client in clients:
                client.close()

    def test_replies_off(self):
        for server, watcher in ((self.server, self.c), (self.oracle, self.r)):
            with server.client() as client:
                client.send(encode(["CLIENT", "REPLY", "SKIP"]) + encode(["BLPOP", "k", 0]) + encode(["ECHO", "x"]))
                until(lambda: blocked(watcher) == 1, what="a client waits")
                watcher.must("RPUSH", "k", 1)
                self.assertEqual(client.receive(), b"x")
                self.assertEqual(watcher.must("EXISTS", "k"), 0)


@kelvin_only
class LogTest(ServerCase):
    def test_served_pops_are_logged_by_their_effect(self):
        with Server({"appendonly": "yes", "appendfsync": "always"}) as server:
            waiters = [server.client() for _ in range(5)]
            commands = [["BLPOP", "l", 0], ["BLMOVE", "l", "m", "LEFT", "RIGHT", 0], ["BLMPOP", 0, 1, "l", "RIGHT", "COUNT", 2],
                        ["BZPOPMIN", "z", 0], ["BZMPOP", 0, 1, "z", "MAX", "COUNT", 2]]
            with server.client() as client:
                for index, (waiter, command) in enumerate(zip(waiters, commands)):
                    waiter.send(encode(command))
                    until(lambda: blocked(client) == index + 1, what="a client waits")
                client.must("RPUSH", "l", *range(6))
                client.must("ZADD", "z", 1, "a", 2, "b", 3, "c", 4, "d")
                self.assertEqual([waiter.receive() for waiter in waiters],
                                 [[b"l", b"0"], b"1", [b"l", [b"5", b"4"]], [b"z", b"a", b"1"], [b"z", [[b"d", b"4"], [b"c", b"3"]]]])
                client.must("RPUSH", "now", 1)
                self.assertEqual(client.must("BLPOP", "now", 0), [b"now", b"1"])
                before = [client.must("LRANGE", key, 0, -1) for key in "lm"] + [client.must("ZRANGE", "z", 0, -1)]
            for waiter in waiters:
                waiter.close()
            server.restart(kill=True)
            with server.client() as client:
                self.assertEqual([client.must("LRANGE", key, 0, -1) for key in "lm"] + [client.must("ZRANGE", "z", 0, -1)], before)
                self.assertEqual(before, [[b"2", b"3"], [b"1"], [b"b"]])


@kelvin_only
class StormTest(ServerCase):
    """Many clients on several workers push, wait, time out, are killed, unblocked and disconnected, while keys are demoted."""

    def random_load(self, options, seconds, ends=False):
        seed = seed_new()
        keys = ["k%d" % index for index in range(5)]
        pushed, popped, failures = [], collections.Counter(), []
        lock, stop = threading.Lock(), threading.Event()

        def worker(kind, number):
            rand = random.Random(seed * 100 + number)
            try:
                kind(rand, number)
            except Exception as error:                                              # noqa: BLE001
                failures.append("%s: %r" % (kind.__name__, error))
                stop.set()

        def pusher(rand, number):
            count = 0
            with server.client() as client:
                while not stop.is_set():
                    batch = []
                    for _ in range(rand.choice((1, 1, 1, 3))):
                        batch.append("%d.%d" % (number, count))
                        count += 1
                    with lock:
                        pushed.extend(batch)
                    client.must(rand.choice(("RPUSH", "LPUSH")), rand.choice(keys), *batch)
                    if rand.random() < 0.3:
                        time.sleep(rand.random() * 0.01)

        def popper(rand, number):
            """Elements that are popped for a client that is disconnected may be lost with the reply: such clients count them."""
            client = server.client()
            while not stop.is_set():
                wanted = rand.sample(keys, rand.choice((1, 2, 3)))
                timeout = rand.choice((0.003, 0.02, 0.3))
                command = rand.choice((["BLPOP"] + wanted + [timeout], ["BRPOP"] + wanted + [timeout],
                                       ["BLMPOP", timeout, len(wanted)] + wanted + ["LEFT", "COUNT", 3]))
                reply = client.call(*command)
                if isinstance(reply, Error):
                    assert reply.startswith(b"UNBLOCKED"), reply
                elif isinstance(reply, list):
                    for element in reply[1] if isinstance(reply[1], list) else [reply[1]]:
                        popped[element.decode()] += 1
            client.close()

        def mover(rand, number):
            with server.client() as client:
                while not stop.is_set():
                    source, target = rand.choice(keys), rand.choice(keys)
                    reply = client.call("BLMOVE", source, target, "LEFT", rand.choice(("LEFT", "RIGHT")), 0.01)
                    assert not isinstance(reply, Error) or reply.startswith(b"UNBLOCKED"), reply

        def quitter(rand, number):
            """Waits for keys that stay empty, and closes the connection."""
            while not stop.is_set():
                clients = [server.client() for _ in range(5)]
                for client in clients:
                    client.send(encode(["BLPOP", "nothing", "never", rand.choice((0, 0.01))]))
                time.sleep(rand.random() * 0.02)
                for client in clients:
                    client.close()

        def meddler(rand, number):
            with server.client() as client:
                while not stop.is_set():
                    lines = client.must("CLIENT", "LIST").splitlines()
                    line = dict(word.split(b"=", 1) for word in rand.choice(lines).split())
                    if line[b"cmd"].startswith(b"b"):
                        client.must("CLIENT", "UNBLOCK", line[b"id"], rand.choice(("ERROR", "TIMEOUT")))
                    waiting = [word for word in lines if b"cmd=blpop" in word and b"flags=b" in word]
                    if waiting and rand.random() < 0.1:
                        client.must("CLIENT", "UNBLOCK", dict(word.split(b"=", 1) for word in rand.choice(waiting).split())[b"id"])
                    client.call("TIER", "DEMOTE", *rand.sample(keys, 2))
                    if rand.random() < 0.2:
                        client.must("SWAPDB", 0, 0)
                    time.sleep(0.002)

        def ender(rand, number):
            """Shutdowns whose dump fails: writes wait for that time, and continue afterwards."""
            with server.client(timeout=60) as client:
                while not stop.is_set():
                    reply = client.call("SHUTDOWN", "SAVE")
                    assert isinstance(reply, Error), reply
                    time.sleep(rand.random() * 0.05)

        with Server(options) as server:
            if ends:
                os.mkdir(os.path.join(server.folder, "dump.rdb"))
            jobs = [pusher] * 4 + [popper] * 8 + [mover] * 2 + [quitter, meddler] + [ender] * ends
            threads = [threading.Thread(target=worker, args=(kind, number)) for number, kind in enumerate(jobs)]
            for thread in threads:
                thread.start()
            stop.wait(seconds)
            stop.set()
            for thread in threads:
                thread.join(60)
            self.assertEqual(failures, [], "seed %d" % seed)
            with server.client() as client:
                until(lambda: blocked(client) == 0, what="the end of all waits")
                for key in keys:
                    for element in client.must("LRANGE", key, 0, -1):
                        popped[element.decode()] += 1
                info = server.info("clients")
                self.assertEqual((info["total_blocking_keys"], info["clients_in_timeout_table"]), ("0", "0"), "seed %d" % seed)
        twice = [element for element, count in popped.items() if count > 1]
        lost = set(pushed) - set(popped)
        self.assertEqual((twice[:5], sorted(lost)[:5]), ([], []), "seed %d, %d pushed" % (seed, len(pushed)))
        self.assertEqual(len(popped), len(pushed))
        print("  %d elements, seed %d" % (len(pushed), seed), file=sys.stderr)

    def test_one_worker(self):
        self.random_load({}, 3)

    def test_several_workers(self):
        self.random_load({"io-threads": "4"}, 5)

    def test_with_little_memory(self):
        self.random_load({"io-threads": "4", "maxmemory": "16mb"}, 3)

    def test_while_shutdowns_fail(self):
        self.random_load({"io-threads": "4"}, 4, ends=True)

    def test_several_workers_with_a_log(self):
        self.random_load({"io-threads": "4", "appendonly": "yes", "appendfsync": "always"}, 3)

    def test_no_waiting_client_is_forgotten(self):
        """Every element that is pushed while clients wait is delivered to one of them: no element remains in a list for which a client waits."""
        with Server({"io-threads": "4"}) as server:
            poppers = [server.client(timeout=60) for _ in range(16)]
            pushers = [server.client() for _ in range(4)]
            total = scaled(6000)
            for _ in range(total // len(poppers)):
                for popper in poppers:
                    popper.send(encode(["BLPOP", "a", "b", 0]))
                for index in range(len(poppers)):
                    pushers[index % 4].send(encode(["RPUSH", "ab"[index % 2], index]))
                for pusher in pushers:
                    for _ in range(len(poppers) // 4):
                        pusher.receive()
                got = sorted(int(popper.receive()[1]) for popper in poppers)
                self.assertEqual(got, list(range(len(poppers))))
            for client in poppers + pushers:
                client.close()


if __name__ == "__main__":
    main()
