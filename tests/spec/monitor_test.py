"""MONITOR: the client receives every command, in the format of Redis; and how passwords are shown."""
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import PairCase, ServerCase, main                                                 # noqa: E402
from support.resp import OK, QUEUED, Error, Status, encode                                          # noqa: E402
from support.server import is_redis, until                                                          # noqa: E402

MARK = b"the end"


class Monitors:
    def lines_until(self, monitor, mark=MARK):
        """Returns the lines up to an ECHO of the mark, without times and ports."""
        lines = []
        while True:
            line = bytes(monitor.receive())
            told = re.fullmatch(rb"\d{10}\.\d{6} \[(\d+) 127\.0\.0\.1:\d+\] (.*)", line)
            self.assertIsNotNone(told, line)
            if mark in told.group(2):
                return lines
            lines.append(told.groups())


class MonitorTest(Monitors, PairCase):
    def both_told(self, script, **options):
        told = []
        for server, protocol in ((self.server, 2), (self.oracle, 2)):
            with server.client() as monitor, server.client(**options) as client:
                self.assertEqual(monitor.call("MONITOR"), OK)
                for line in script.strip().splitlines():
                    client.run(line.strip())
                client.call("ECHO", MARK)
                told.append(self.lines_until(monitor))
        self.assertEqual(*told)
        return told[0]

    def test_the_lines_and_their_format(self):
        lines = self.both_told(r"""
            SET k v
            select 3
            set "a b\n\r\t\x00\xff\"\\\x07\x08\x7f'" ""
            GET
            NOSUCH
            INCR k
            LPUSH k 1
            LPUSH k
            GET k
            AUTH secret
            AUTH user secret
            HELLO 2 AUTH user secret
            HELLO 2 SETNAME me AUTH user secret
            HELLO 2 SETNAME me
            CLIENT ID
            CLIENT KILL ID 999999
            CONFIG GET maxmemory
            SHUTDOWN FOO
            BLPOP none 0.01
            COMMAND COUNT
            MSET a 1 b 2
            FLUSHALL
            SWAPDB 0 1
        """)
        self.assertGreater(len(lines), 12)
        self.assertFalse([line for line in lines if b"secret" in line[1]])

    def test_a_monitor_receives_its_own_commands_and_can_not_access_keys(self):
        for server in (self.server, self.oracle):
            with server.client() as monitor:
                self.assertEqual(monitor.call("MONITOR"), OK)
                self.assertEqual(monitor.call("PING"), Status(b"PONG"))
                self.assertTrue(bytes(monitor.receive()).endswith(b'"PING"'))
                for line in ("GET x", "SET x 1", "PFCOUNT x", "PUBLISH channel x", "SPUBLISH channel x", 'EVAL "return 1" 0', 'EVAL_RO "return 1" 0', "FCALL f 0"):
                    self.assertEqual(monitor.run(line), Error(b"ERR Replica can't interact with the keyspace"), line)
                with server.client() as other:
                    self.assertEqual(monitor.call("ECHO", "a"), b"a")
                    self.lines_until(monitor, b'"a"')
                    listed = bytes(other.must("CLIENT", "LIST")).splitlines()
                    self.assertEqual([b" flags=O " in line for line in listed if b"cmd=echo" in line], [True])
                monitor.send(b"*1\r\n$5\r\nRESET\r\n")
                until(lambda: monitor.receive() == Status(b"RESET"), what="RESET")
                self.assertIsNone(monitor.call("GET", "x"))


class MonitorsTest(Monitors, ServerCase):
    options = {"io-threads": "4"}

    def test_its_own_transaction_waits_after_lines_were_sent(self):
        """PING's line is on its way when the server collects the clients of all workers, and makes a log."""
        with self.server.client() as monitor:
            self.assertEqual(monitor.call("MONITOR"), OK)
            monitor.send(b"".join(map(encode, (["MULTI"], ["PING"], ["CLIENT", "LIST"], ["CONFIG", "SET", "appendonly", "yes"], ["EXEC"]))))
            replies, lines = [], []
            while len(replies) < 5:
                reply = monitor.receive()
                (lines if isinstance(reply, Status) and b" [0 " in reply else replies).append(reply)
            self.assertEqual((replies[:4], replies[4][0], replies[4][2]), ([OK, QUEUED, QUEUED, QUEUED], Status(b"PONG"), OK))
            self.assertEqual([bytes(line).split(b"]")[1].split(b'"')[1] for line in lines], [b"MULTI", b"PING"])

    def test_every_command_of_every_worker_is_sent_once(self):
        monitors = [self.client() for _ in range(3)]
        for monitor in monitors:
            self.assertEqual(monitor.call("MONITOR"), OK)

        def work(number):
            with self.server.client() as client:
                client.pipeline([["SET", "k%d" % number, "%d" % index] for index in range(200)])
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wanted = [[b'"SET" "k%d" "%d"' % (number, index) for index in range(200)] for number in range(6)]
        for monitor in monitors:
            lines = []
            while len(lines) < 1200:
                lines.append(bytes(monitor.receive()).split(b"] ", 1)[1])
            for number in range(6):
                self.assertEqual([line for line in lines if b'"k%d"' % number in line], wanted[number])

    def test_commands_on_cold_keys_and_served_waits_are_sent_once(self):
        if is_redis():
            self.skipTest("redis-server has no cold keys")
        monitor, waiter = self.client(), self.client()
        self.c.must("SET", "k", "v")
        self.c.must("TIER", "DEMOTE", "k")
        self.assertEqual(monitor.call("MONITOR"), OK)
        waiter.send(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nq\r\n$1\r\n0\r\n")
        until(lambda: self.server.info("clients")["blocked_clients"] == "1", what="the waiter")
        self.c.must("GET", "k")
        self.c.must("RPUSH", "q", "x")
        self.assertEqual(waiter.receive(), [b"q", b"x"])
        self.c.must("ECHO", MARK)
        told = [words for _, words in self.lines_until(monitor) if not words.startswith(b'"INFO"')]
        self.assertEqual(told, [b'"BLPOP" "q" "0"', b'"GET" "k"', b'"RPUSH" "q" "x"'])

    def test_a_monitor_that_disconnects_is_removed(self):
        with self.server.client() as monitor:
            self.assertEqual(monitor.call("MONITOR"), OK)
        self.c.must("CLIENT", "REPLY", "ON")
        for _ in range(100):
            self.c.must("PING")


class SlowlogSecretTest(PairCase):
    options = {"slowlog-log-slower-than": "0"}

    def test_passwords_are_not_in_the_slow_log(self):
        self.both("""
            AUTH user secret
            AUTH secret
            CONFIG SET requirepass ""
            CONFIG SET masterauth secret maxmemory 0
            HELLO 2 AUTH user secret SETNAME me
        """, self.clients())
        ours, theirs = ([entry[3] for entry in client.must("SLOWLOG", "GET", 5)] for client in (self.c, self.r))
        self.assertEqual(ours, theirs)
        self.assertNotIn(b"secret", b" ".join(word for words in ours for word in words))


if __name__ == "__main__":
    main()
