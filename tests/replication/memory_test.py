#!/usr/bin/python3
"""Memory of a primary whose replica does not read, and of a replica that is smaller than its primary. For Kelvin only: redis-server has no bound."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import FIXED, MB, rss_peak, rss_peak_reset, value_of
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.recorder import Recorder
from support.resp import encode
from support.server import SHORT, is_sanitized

LIMIT = 64 * MB
SIZE = 100 * 1000
COUNT = 600 if SHORT or is_sanitized() else 2500          # so 60 or 250 MB
FROM_KELVIN, INTO_KELVIN = ("kelvin-redis",), ("redis-kelvin", "kelvin-kelvin")
FILL = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'big:' .. i, i .. string.rep('x', 99000)) end"


def write(server, count, keys):
    """Values of SIZE bytes that do not compress, over a number of keys."""
    with server.client(timeout=60) as client:
        for at in range(0, count, 20):
            client.pipeline([["SET", "k%d" % (number % keys), value_of(number, SIZE)] for number in range(at, at + 20)])


class MemoryTest(ReplicationCase):
    def bounded(self, server, largest=20 * SIZE):
        if not is_sanitized():
            self.assertLess(rss_peak(server.process.pid) // MB, (LIMIT * 11 // 10 + FIXED + largest) // MB, "peak RSS in MB")

    @only(*FROM_KELVIN)
    def scenario_of_a_replica_that_does_not_read_while_the_stream_goes_on(self):
        primary = self.start("primary", {"maxmemory": LIMIT, "maxmemory-policy": "noeviction", "repl-backlog-disk-size": 1024 * MB})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        recorder.stop_reading()
        rss_peak_reset(primary.process.pid)
        write(primary, COUNT, 50)
        self.bounded(primary)
        recorder.read_on()
        recorder.level(primary, timeout=60)
        self.assertGreater(len(recorder.stream), COUNT * SIZE)
        self.bounded(primary)
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    @only(*FROM_KELVIN)
    def scenario_of_a_replica_that_comes_back_for_what_is_on_disk_only(self):
        primary = self.start("primary", {"maxmemory": LIMIT, "maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "no",
                                           "repl-backlog-size": MB, "repl-backlog-disk-size": 1024 * MB})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        recorder.cut()
        write(primary, COUNT, 50)
        self.assertTrue(recorder.resume())
        recorder.level(primary, timeout=60)
        self.bounded(primary)
        self.assertEqual(servers.count_of(primary, "sync_partial_ok"), 1)

    @only(*FROM_KELVIN)
    def scenario_of_a_replica_that_does_not_read_its_rdb(self):
        primary = self.start("primary", {"maxmemory": LIMIT, "maxmemory-policy": "noeviction", "repl-backlog-disk-size": 1024 * MB})
        write(primary, COUNT // 2, COUNT)
        rss_peak_reset(primary.process.pid)
        recorder = Recorder(primary.address)
        self.addCleanup(recorder.cut)
        recorder.stop_reading()
        recorder.full()
        write(primary, COUNT, 50)
        self.bounded(primary)
        recorder.read_on()
        recorder.wait_loaded(60).level(primary, timeout=60)
        self.bounded(primary)
        self.assertGreater(len(recorder.rdb), COUNT // 2 * SIZE)

    @only(*INTO_KELVIN)
    def scenario_of_a_replica_that_is_smaller_than_its_primary(self):
        primary = self.start("primary", {"repl-backlog-size": 512 * MB, "client-output-buffer-limit": ["replica", "0", "0", "0"]})
        write(primary, COUNT // 2, COUNT)
        replica = self.start("replica", {"maxmemory": LIMIT, "maxmemory-policy": "allkeys-lru"})
        servers.make_replica(replica, primary)
        self.bounded(replica)
        write(primary, COUNT, COUNT)
        servers.wait_in_sync(primary, replica, timeout=90)
        self.bounded(replica)
        self.assertEqual(servers.values_of(replica, "DBSIZE"), [COUNT])
        self.assertEqual(replica.info("stats")["evicted_keys"], "0")
        self.same(primary, replica, least=COUNT)

    @only(*INTO_KELVIN)
    def scenario_of_a_unit_that_is_larger_than_the_replicas_memory(self):
        primary = self.start("primary", {"repl-backlog-size": 512 * MB, "client-output-buffer-limit": ["replica", "0", "0", "0"]})
        replica = self.start("replica", {"maxmemory": LIMIT, "maxmemory-policy": "noeviction"})
        servers.make_replica(replica, primary)
        with self.client(primary, timeout=60) as client:
            client.must("EVAL", FILL, 0, COUNT // 2)
        servers.wait_in_sync(primary, replica, timeout=90)
        self.bounded(replica)
        self.same(primary, replica, least=COUNT // 2)

    @only(*INTO_KELVIN)
    def scenario_of_a_replica_that_does_not_apply_while_clients_block_it(self):
        """The replica keeps reading what it can't apply yet, and does not lose the link."""
        primary = self.start("primary", {"repl-timeout": 3, "repl-ping-replica-period": 1, "repl-backlog-size": 512 * MB})
        replica = self.start("replica", {"repl-timeout": 3, "busy-reply-threshold": 100})
        servers.make_replica(replica, primary)
        with self.client(replica) as client:
            client.send(encode(["EVAL_RO", "while true do end", 0]))
            write(primary, 200, 50)
            # Longer than repl-timeout.
            time.sleep(4)
            with self.client(replica) as other:
                other.call("SCRIPT", "KILL")
            client.receive()
        self.same(primary, replica, least=50)
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)


if __name__ == "__main__":
    main()
