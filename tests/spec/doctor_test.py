"""MEMORY DOCTOR on servers that have a problem; tests/unit/stats/memory_report_test.c has every line of it."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.resp import OK                                                                         # noqa: E402
from support.server import Server, is_sanitized, until                                                      # noqa: E402

MB = 1 << 20


@kelvin_only
class DoctorTest(unittest.TestCase):
    def start(self, **options):
        server = Server({name.replace("_", "-"): value for name, value in options.items()})
        self.addCleanup(server.stop)
        client = server.client(timeout=60)
        self.addCleanup(client.close)
        return server, client

    def report(self, client):
        return client.must("MEMORY", "DOCTOR").decode()

    def fill(self, client, count, size=1000):
        for first in range(0, count, 200):
            for reply in client.pipeline([["SET", "k:%d" % number, "v" * size] for number in range(first, first + 200)]):
                self.assertTrue(reply == OK or reply.startswith(b"OOM"), reply)

    @unittest.skipIf(is_sanitized(), "a sanitizer's own memory looks like fragmentation")
    def test_a_server_without_problems(self):
        _, client = self.start(maxmemory="100mb")
        self.fill(client, 8000)
        self.assertEqual(self.report(client), "No problems with memory were found.\n")

    def test_keys_that_do_not_fit(self):
        server, client = self.start(maxmemory="16mb", appendonly="yes")
        self.fill(client, 30000)
        report = self.report(client)
        throttled = server.info("tiering")["tier_throttled_clients"]
        self.assertEqual("waited for memory (99 % of the waits" in report, throttled != "0")
        client.must("CONFIG", "RESETSTAT")
        self.assertNotIn("slowed down", self.report(client))
        for _ in range(2):
            client.pipeline([["GET", "k:%d" % number] for number in range(0, 30000, 20)])
        self.assertRegex(self.report(client), r"(?m)^- Only \d+ % of the lookups found their key in RAM, and \d+ % of the keys are cold\. The keys in use do not fit")

    def test_calls_that_were_slowed_down(self):
        server, client = self.start(maxmemory="16mb", tier_high_watermark=60, tier_low_watermark=50)
        until(lambda: (self.fill(client, 4000, 4000), server.info("tiering")["tier_throttled_clients"] != "0")[1], 60, "a call was slowed down")
        self.assertRegex(self.report(client), r"(?m)^- \d+ calls? (was|were) slowed down or waited for memory \(99 % of the waits: up to \d+ us\)")

    def test_a_full_store(self):
        server, client = self.start(maxmemory="16mb", maxmemory_policy="noeviction", tier_max_size="1mb")
        self.fill(client, 30000)
        until(lambda: server.info("tiering")["tier_status"] == "full", 20, "the store is full")
        self.assertIn("- The store is full: it has reached tier-max-size, or its disk is full.", self.report(client))

    def test_over_the_limit_with_the_tier_off(self):
        _, client = self.start(maxmemory="100mb", tier_enabled="no")
        self.fill(client, 20000)
        client.must("CONFIG", "SET", "maxmemory", "10mb")
        self.assertRegex(self.report(client), r"(?m)^- Memory is over maxmemory: \d+\.\d\dM of 10\.00M\. tier-enabled is no")

    @unittest.skipIf(is_sanitized(), "a sanitizer's memory is not counted by what holds it")
    def test_scripts_and_clients_that_hold_memory(self):
        server, client = self.start(script_heap_max="64mb", client_output_pending_max="64mb")
        client.must("FUNCTION", "LOAD", "#!lua name=keeps\nlocal kept = {}\nredis.register_function('keep', function() "
                    "for i = 1, 20 do kept[#kept + 1] = string.rep('x', 1048576) .. #kept end return #kept end)")
        client.must("FCALL", "keep", 0)
        line = re.compile(r"(?m)^- Scripts and functions: \d+\.\d\dM of \d+\.\d\dM\. .*script-heap-max")
        until(lambda: line.search(self.report(client)), 20, "the library's variables are in the report")     # a worker counts them ten times a second
        client.must("SET", "some", "v" * 1000)
        with server.client(timeout=60) as reader:
            reader.send(b"*2\r\n$3\r\nGET\r\n$4\r\nsome\r\n" * 40000)
            until(lambda: "- Buffers of clients: " in self.report(client), 20, "the reader's replies are in the report")

    def test_a_backlog(self):
        server, client = self.start(repl_backlog_size="64mb")
        replica, second = self.start(replicaof=["127.0.0.1", server.port])
        until(lambda: replica.info("replication")["master_link_status"] == "up", 60, "the replica is in sync")
        self.fill(client, 30000)
        client.must("FLUSHALL")
        self.assertRegex(self.report(client), r"(?m)^- The replication backlog: \d+\.\d\dM of \d+\.\d\dM\. .*repl-backlog-size")
        stats = client.must("MEMORY", "STATS")
        self.assertGreater(stats[stats.index(b"replication.backlog") + 1], 20 * MB)
        self.assertEqual(second.must("PING").decode(), "PONG")


if __name__ == "__main__":
    main()
