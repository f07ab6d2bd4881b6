"""CLIENT PAUSE: the commands that it delays, and where the paused clients are shown. Redis' own tests wait for blocked_clients."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, main                                                             # noqa: E402
from support.scripts import blocked                                                                    # noqa: E402
from support.resp import NULL_ARRAY, OK, encode                                                     # noqa: E402
from support.server import until                                                                    # noqa: E402

LONG_MS = 100000
WAIT_S = 5


class PauseTest(PairCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(self.c.must, "CLIENT", "UNPAUSE")
        self.addCleanup(self.r.must, "CLIENT", "UNPAUSE")

    def each(self, scenario, clients=2):
        """The same on both servers: a watching client, and others."""
        for server in (self.server, self.oracle):
            others = [server.client() for _ in range(clients)]
            with server.client() as watcher:
                scenario(watcher, *others)
                watcher.must("CLIENT", "UNPAUSE")
            for other in others:
                other.close()

    def wait(self, watcher, count):
        until(lambda: blocked(watcher) == count, WAIT_S, "that blocked_clients is %d" % count)

    def hold(self, watcher, client, *command):
        """Sends a command that is expected to be paused."""
        before = blocked(watcher)
        client.send(encode(command))
        self.wait(watcher, before + 1)

    def test_scripts_that_only_read_go_on(self):
        def scenario(watcher, client, other):
            watcher.must("SET", "x", "y")
            watcher.must("FUNCTION", "LOAD", "REPLACE", "#!lua name=one\nredis.register_function{function_name='f', "
                         "callback=function() return 'from f' end, flags={'no-writes'}}")
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            for _ in range(2):
                self.assertEqual(client.must("EVAL", "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", 1, "x"), b"y")
            self.assertEqual(client.must("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "x"), b"y")
            self.assertEqual(client.must("FCALL", "f", 0), b"from f")
            self.hold(watcher, client, "EVAL", "#!lua\nreturn 'may write'", 0)
            self.hold(watcher, other, "EVAL", "return 'may write, too'", 0)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual([client.receive(), other.receive()], [b"may write", b"may write, too"])

        self.each(scenario)

    def test_a_pause_of_writes_lets_go_what_a_pause_of_all_held_back(self):
        """The second pause begins before the server has noticed the end of the first, which it looks for once a second."""
        hz = self.c.must("CONFIG", "GET", "hz")[1]
        self.addCleanup(self.c.must, "CONFIG", "SET", "hz", hz)
        self.c.must("CONFIG", "SET", "hz", 1)
        for _ in range(5):
            with self.server.client(timeout=WAIT_S) as client:
                self.c.must("CLIENT", "PAUSE", 30)
                client.send(encode(["GET", "x"]))
                time.sleep(0.035)
                self.c.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
                self.assertIsNone(client.receive())
                self.c.must("CLIENT", "UNPAUSE")

    def test_a_transaction_that_writes_counts_as_blocked(self):
        def scenario(watcher, client, other):
            for each, command in ((client, ["SET", "x", "y"]), (other, ["GET", "x"])):
                each.must("MULTI")
                each.must(*command)
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, client, "EXEC")
            other.must("EXEC")
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(client.receive(), [OK])
            self.wait(watcher, 0)

        self.each(scenario)

    def test_a_transaction_waits_as_its_scripts_say(self):
        def scenario(watcher, client, other):
            for each, script in ((client, "return 1"), (other, "#!lua flags=no-writes\nreturn 2")):
                each.must("MULTI")
                each.must("EVAL", script, 0)
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, client, "EXEC")
            self.assertEqual(other.must("EXEC"), [2])
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(client.receive(), [1])

        self.each(scenario)

    @staticmethod
    def line_of(watcher, client):
        port = client.socket.getsockname()[1]
        line = [line for line in watcher.must("CLIENT", "LIST").splitlines() if b" addr=127.0.0.1:%d " % port in line][0]
        return dict(word.split(b"=", 1) for word in line.split() if b"=" in word)

    def test_paused_clients_are_blocked_clients(self):
        def scenario(watcher, one, two):
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, one, "SET", "k", "v")
            self.hold(watcher, two, "PFCOUNT", "none")
            for client, command in ((one, b"set"), (two, b"pfcount")):
                line = self.line_of(watcher, client)
                self.assertEqual([line[b"flags"], line[b"cmd"]], [b"b", command])
            clients = watcher.must("INFO", "clients")
            self.assertIn(b"clients_in_timeout_table:0", clients)
            self.assertEqual(watcher.must("EXISTS", "k"), 0)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual([one.receive(), two.receive()], [OK, 0])
            self.wait(watcher, 0)
            self.assertEqual(self.line_of(watcher, one)[b"flags"], b"N")
        self.each(scenario)

    def test_a_pause_that_ends_by_itself_leaves_none(self):
        def scenario(watcher, one, two):
            watcher.must("CLIENT", "PAUSE", 300, "WRITE")
            self.hold(watcher, one, "SET", "k", "v")
            self.assertEqual(one.receive(), OK)
            self.wait(watcher, 0)
        self.each(scenario)

    def test_a_paused_client_that_disconnects_is_not_counted(self):
        def scenario(watcher, one, two):
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, one, "SET", "k", "v")
            self.hold(watcher, two, "SET", "k", "w")
            one.close()
            self.wait(watcher, 1)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(two.receive(), OK)
            self.wait(watcher, 0)
            self.assertEqual(watcher.must("GET", "k"), b"w")
        self.each(scenario)

    def test_waiting_and_paused_clients_are_counted_together(self):
        def scenario(watcher, one, two):
            self.hold(watcher, one, "BLPOP", "list", 0)
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, two, "BLPOP", "list", 0.001)      # its timeout does not begin before the pause is over
            self.assertEqual(blocked(watcher), 2)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(two.receive(), NULL_ARRAY)
            self.wait(watcher, 1)
            watcher.must("RPUSH", "list", 1)
            self.assertEqual(one.receive(), [b"list", b"1"])
            self.wait(watcher, 0)
            watcher.must("DEL", "list")
        self.each(scenario)

    def test_a_pipeline_counts_once(self):
        def scenario(watcher, one, two):
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            self.hold(watcher, one, "SET", "k", "v")
            self.hold(watcher, two, "SET", "k", "v")
            one.send(encode(["SET", "k", "w"]) * 3)
            watcher.must("PING")
            self.assertEqual(blocked(watcher), 2)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual([one.receive() for _ in range(4)], [OK] * 4)
            self.assertEqual(two.receive(), OK)
            self.wait(watcher, 0)
        self.each(scenario)

    def test_nothing_expires_meanwhile(self):
        def expired(client):
            return int(re.search(rb"expired_keys:(\d+)", client.must("INFO", "stats"))[1])

        def scenario(watcher, client, other):
            watcher.must("SET", "forever", "v")
            before = expired(watcher)
            watcher.must("MULTI")
            watcher.must("SET", "a", "v", "PX", 10)
            watcher.must("SET", "b", "v", "PX", 10)
            watcher.must("CLIENT", "PAUSE", LONG_MS, "WRITE")
            watcher.must("EXEC")
            until(lambda: client.must("MGET", "a", "b") == [None, None], WAIT_S, "that both have expired")
            time.sleep(0.5)             # cycles of the active expiry, which are what has to do nothing
            self.assertEqual(expired(watcher), before)
            self.assertEqual(watcher.must("DBSIZE"), 3)
            watcher.must("CLIENT", "UNPAUSE")
            self.assertEqual(watcher.must("GET", "a"), None)
            until(lambda: expired(watcher) == before + 2, WAIT_S, "that both are deleted")
            watcher.must("FLUSHALL")
        self.each(scenario)


if __name__ == "__main__":
    main()
