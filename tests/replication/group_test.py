#!/usr/bin/python3
"""Transactions of a scripted primary that are too large to be kept in memory: they have no end, end too late, break off, or are cut by a kill."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import FIXED, MB, rss_peak, rss_peak_reset
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.scripted import REPLID, ScriptedPrimary, encode_all, make_rdb
from support.server import SHORT, is_sanitized, until

KELVIN = ("redis-kelvin",)
SIZE = 10 * 1000
COUNT = 1000 if SHORT or is_sanitized() else 3000           # so 10 or 30 MB
MULTI, EXEC, SELECT_0 = encode_all([["MULTI"]]), encode_all([["EXEC"]]), encode_all([["SELECT", "0"]])


def sets(first, count):
    return encode_all([["SET", "k%d" % number, b"%d " % number + b"v" * SIZE] for number in range(first, first + count)])


class GroupTest(ReplicationCase):
    def synced(self, options=None):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"repl-timeout": 20, **(options or {})})
        servers.make_replica(replica, primary, wait=False)
        link = primary.link().full(make_rdb()).wait_ack()
        until(lambda: servers.replication(replica)["master_link_status"] == "up", 10, "up")
        return primary, replica, link

    def count(self, replica, wanted):
        self.assertEqual(servers.values_of(replica, "DBSIZE")[0], wanted)

    @only(*KELVIN)
    def scenario_of_one_without_an_end(self):
        """It does not fit into the bound on disk: none of it is applied, memory is bounded, and all is asked for again after a pause."""
        primary, replica, link = self.synced({"maxmemory": 64 * MB, "repl-backlog-disk-size": 4 * MB})
        rss_peak_reset(replica.process.pid)
        sender = threading.Thread(target=self.send_until_closed, args=(link, MULTI))
        sender.start()
        for attempt in range(2):
            again = primary.link(60)
            link.cut()
            sender.join()
            self.assertIn(b"does not fit into repl-backlog-disk-size", replica.log())
            self.assertEqual(again.asked, (b"?", -1), attempt)
            self.count(replica, 0)
            link = again.full(make_rdb()).wait_ack()
            if attempt == 0:
                sender = threading.Thread(target=self.send_until_closed, args=(link, MULTI))
                sender.start()
            else:
                link.send(SELECT_0 + MULTI + sets(0, 10) + EXEC).wait_ack()
        self.count(replica, 10)
        if not is_sanitized():
            self.assertLess(rss_peak(replica.process.pid) // MB, (64 * MB + FIXED) // MB)

    def send_until_closed(self, link, begin, count=20000):
        try:
            link.send(SELECT_0 + begin)
            for first in range(0, count, 100):
                link.send(sets(first, 100))
        except OSError:
            pass

    @only(*KELVIN)
    def scenario_that_breaks_off_is_continued(self):
        primary, replica, link = self.synced()
        data = MULTI + sets(0, COUNT) + EXEC
        cut = len(data) // 2
        link.send(SELECT_0).wait_ack()
        base = link.sent
        link.send(data[:cut])
        time.sleep(0.3)
        link.cut()
        again = primary.link()
        self.assertEqual(again.asked[0], REPLID)
        self.count(replica, 0)
        self.assertEqual(servers.replication(replica)["slave_repl_offset"], str(base))
        again.continues().send(data[again.asked[1] - 1 - base:]).wait_ack()
        self.count(replica, COUNT)

    @only(*KELVIN)
    def scenario_that_is_cut_by_a_kill_is_there_or_not(self):
        """The log has a part of it when the server is killed: that part is not there after the restart."""
        data = MULTI + sets(0, COUNT) + EXEC
        for percent in (1, 20, 60, 100):
            with self.subTest(percent=percent):
                primary, replica, link = self.synced({"appendonly": "yes", "appendfsync": "no"})
                folder = os.path.join(servers.values_of(replica, "CONFIG GET dir")[0][1].decode(), "appendonlydir")
                until(lambda: servers.values_of(replica, "INFO persistence")[0].count(b"aof_rewrite_in_progress:0"), 20, "the log is written")
                link.send(SELECT_0 + encode_all([["SET", "before", "1"]])).wait_ack()
                sender = threading.Thread(target=self.send_until_closed, args=(link, data, 0))
                sender.start()
                until(lambda: self.log_size(folder) * 100 >= len(data) * percent, 20, "written to the log")
                replica.kill9()
                sender.join()
                primary.close()
                replica.start()
                self.assertIn(servers.values_of(replica, "DBSIZE")[0], (1, COUNT + 1) if percent < 100 else (COUNT + 1,))
                servers.must(replica, "REPLICAOF NO ONE")

    @staticmethod
    def log_size(folder):
        return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".incr.aof"))


if __name__ == "__main__":
    main()
