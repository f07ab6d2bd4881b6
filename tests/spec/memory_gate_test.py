"""The memory gate with whatever holds the memory: reads go on, writes are done or get OOM, and no client waits for ever."""
import itertools
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK, Closed, Error                                                          # noqa: E402
from support.server import SHORT, Server, is_sanitized, redis_tool, until                           # noqa: E402

import unittest                                                                                     # noqa: E402

MB = 1 << 20
VALUE = "x" * 1000
REPLY_LIMIT_S = 20              # the machine may be busy; with nothing to wait for it is milliseconds
LIBRARY = """#!lua name=big
local rows, text = {}, 'xxxxxxxx'
for i = 1, 16 do text = text .. text end
for i = 1, %d do rows[i] = text .. i end
redis.register_function('count', function() return #rows end)"""


def hold_backlog(server, client):
    """The backlog of 10 MB is filled by the writes that follow."""
    client.must("CONFIG", "SET", "repl-backlog-size", "10mb")
    fetch_rdb(server)
    return []


def hold_functions(_server, client):
    client.must("CONFIG", "SET", "busy-reply-threshold", "60000")
    client.must("FUNCTION", "LOAD", LIBRARY % 16)
    return []


def hold_queues(server, _client):
    queues = []
    for _ in range(4):
        queue = server.client()
        queue.must("MULTI")
        for index in range(12):
            queue.call("SET", "queued", "y" * 100000 + str(index))
        queues.append(queue)
    return queues


HOLDERS = [hold_backlog, hold_functions, hold_queues]


def fetch_rdb(server):
    file = os.path.join(server.folder, "fetched.rdb")
    subprocess.run([redis_tool("redis-cli"), "-p", str(server.port), "--rdb", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)


@kelvin_only
class MemoryGateTest(unittest.TestCase):
    def start(self, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()})
        self.addCleanup(server.discard)
        return server

    def fill(self, client, count=20000):
        """Returns how many writes were refused."""
        refused = 0
        for first in range(0, count, 200):
            replies = client.pipeline([["SET", "q:%d" % number, VALUE] for number in range(first, first + 200)])
            refused += sum(isinstance(reply, Error) for reply in replies)
            self.assertEqual({reply for reply in replies if reply != OK} - {Error(b"OOM command not allowed when used memory > 'maxmemory'.")}, set())
        return refused

    def check(self, appendonly, holders):
        server = self.start(maxmemory="16mb", appendonly=appendonly, save="", maxmemory_clients="0")
        with server.client(timeout=REPLY_LIMIT_S) as client:
            kept = [thing for hold in holders for thing in hold(server, client)]
            self.fill(client, 8000 if is_sanitized() else 20000)
            self.assertIn(client.call("GET", "q:7"), (VALUE.encode(), None))
            write = client.call("SET", "another", "1")
            self.assertTrue(write == OK or write.startswith(b"OOM"), write)
            until(lambda: server.info("tiering")["tier_memory_waiting_clients"] == "0", REPLY_LIMIT_S, "no client waits for memory")
            for queue in kept:
                queue.close()
        server.stop()

    def test_every_mixture_of_holders_leaves_reads_and_writes_a_reply(self):
        mixtures = [(appendonly, holders) for appendonly in ("yes", "no") for size in range(len(HOLDERS) + 1)
                    for holders in itertools.combinations(HOLDERS, size)]
        for appendonly, holders in mixtures[::5] if SHORT else mixtures:
            with self.subTest(appendonly=appendonly, holders=[hold.__name__ for hold in holders]):
                self.check(appendonly, holders)

    def test_a_dump_that_was_fetched_leaves_no_backlog_behind(self):
        """What redis-cli --rdb has not got is not kept: the backlog has repl-backlog-size, in memory, and nothing on disk."""
        server = self.start(maxmemory="64mb", save="")
        with server.client(timeout=REPLY_LIMIT_S) as client:
            fetch_rdb(server)
            self.fill(client, 24000)
            info = server.info("replication")
            self.assertEqual(info["repl_backlog_disk_bytes"], "0")
            self.assertLess(int(info["repl_backlog_histlen"]), 2 * MB)
            self.assertLess(int(server.info("memory")["mem_replication_backlog"]), 3 * MB)

    def test_info_shows_what_is_compared_with_maxmemory(self):
        server = self.start(maxmemory="20mb", appendonly="yes", save="")
        with server.client(timeout=REPLY_LIMIT_S) as client:
            self.fill(client)
            info = server.info()
            self.assertGreaterEqual(int(info["tier_memory_counted"]), int(info["tier_memory_set_aside"]))
            self.assertGreaterEqual(int(info["tier_memory_counted"]) + MB, int(info["used_memory"]))
            client.must("CONFIG", "SET", "maxmemory", "0")
            self.assertEqual(server.info("tiering")["tier_memory_set_aside"], "0")

    def announce(self, server, size):
        """A client that sends the beginning of a SET, and no more."""
        client = server.client(timeout=60)
        client.send(b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\nxxxx" % size)
        return client

    @unittest.skipIf(SHORT, "takes ten seconds")
    def test_a_client_that_announces_and_stalls_does_not_keep_others_out(self):
        server = self.start(maxmemory="40mb", save="")
        first, second = self.announce(server, 22 * MB), self.announce(server, 22 * MB)      # the second one is the only one that need not fit
        with server.client(timeout=60) as client:
            until(lambda: int(server.info("memory")["used_memory"]) > 44 * MB, what="both announcements")
            self.assertEqual(client.call("SET", "other", "z" * (3 * MB)), OK)
            for stalled in (first, second):
                with stalled, self.assertRaises((Closed, OSError)):
                    stalled.receive()
        self.assertIn(b"has announced a large argument and does not send it", server.log())


if __name__ == "__main__":
    main()
