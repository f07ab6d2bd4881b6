#!/usr/bin/python3
"""Transactions of a scripted primary that are too large to be kept in memory: they have no end, end too late, break off, or are cut by a kill."""
import errno
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import FIXED, MB, rss_peak, rss_peak_reset
from support.disk import FAIL
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_disk
from support.replication.readings import check_same
from support.replication.scripted import REPLID, ScriptedPrimary, encode_all, make_rdb
from support.server import SHORT, is_sanitized, until

KELVIN = ("redis-kelvin",)
SIZE = 10 * 1000
COUNT = 1000 if SHORT or is_sanitized() else 3000           # so 10 or 30 MB
MULTI, EXEC, SELECT_0 = encode_all([["MULTI"]]), encode_all([["EXEC"]]), encode_all([["SELECT", "0"]])


def sets(first, count):
    return encode_all([["SET", "k%d" % number, b"%d " % number + b"v" * SIZE] for number in range(first, first + count)])


class GroupCase(ReplicationCase):
    def synced(self, options=None, replica=None):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = replica or self.start("replica", {"repl-timeout": 20, **(options or {})})
        servers.make_replica(replica, primary, wait=False)
        link = primary.link().full(make_rdb()).wait_ack()
        until(lambda: servers.replication(replica)["master_link_status"] == "up", 10, "up")
        return primary, replica, link

    def count(self, replica, wanted):
        self.assertEqual(servers.values_of(replica, "DBSIZE")[0], wanted)


class GroupTest(GroupCase):
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


@unittest.skipIf(is_sanitized() or SHORT, "a sanitizer and the shim both have to be loaded first; all of a short one is in memory")
class SecondReadTest(GroupCase):
    """A group whose beginning is on disk only when it is applied, which the disk does not give back."""
    BEFORE = SELECT_0 + encode_all([["SET", "before", "1"]])

    def read_fails(self, options=None, **rule):
        """(primary, replica, sub-replica, link, disk), with the group's end sent."""
        replica, disk = with_disk(self, "replica", {"repl-timeout": 20, "maxmemory": 64 * MB, **(options or {})})
        primary, replica, link = self.synced(replica=replica)
        below = self.start("redis")
        servers.make_replica(below, replica)
        link.send(self.BEFORE).wait_ack()
        self.base = link.sent
        disk.rule(0, rule.pop("kinds", "read"), "*temp-*.inbox", FAIL, error=errno.EIO, **rule)
        self.sender = threading.Thread(target=self.send_all, args=(link,))
        self.sender.start()
        self.addCleanup(self.sender.join)
        return primary, replica, below, link, disk

    def send_all(self, link):
        try:
            link.send(MULTI + sets(0, COUNT) + EXEC)
        except OSError:
            pass

    def check_again(self, primary, replica, below, link, disk):
        """All data is asked for again, and replaces what is there; the replica's own replica gets it, too."""
        again = primary.link(60)
        self.assertEqual(again.asked, (b"?", -1))
        self.assertGreater(disk.acted, 0)
        link.cut()
        disk.heal()
        again.full(make_rdb()).wait_ack().send(SELECT_0 + MULTI + sets(0, COUNT) + EXEC).wait_ack()
        self.count(replica, COUNT)
        servers.wait_in_sync(replica, below)
        check_same(replica, below)

    @only(*KELVIN)
    def scenario_whose_first_read_fails(self):
        """Nothing was applied, and the replica's history is its primary's."""
        primary, replica, below, link, disk = self.read_fails()
        until(lambda: b"can't be applied" in replica.log(), 60, "the failure")
        self.count(replica, 1)
        self.assertEqual(servers.replication(replica)["master_replid"], REPLID.decode())
        self.assertEqual(servers.replication(replica)["slave_repl_offset"], str(self.base))
        self.check_again(primary, replica, below, link, disk)

    @only(*KELVIN)
    def scenario_whose_later_read_fails(self):
        """A part was applied: the history is not the primary's any more, until all data is there again."""
        primary, replica, below, link, disk = self.read_fails(first=20)
        until(lambda: b"can't be applied" in replica.log(), 60, "the failure")
        self.assertNotEqual(servers.replication(replica)["master_replid"], REPLID.decode())
        self.assertIn(servers.values_of(replica, "DBSIZE")[0], range(2, COUNT))
        self.check_again(primary, replica, below, link, disk)

    @only(*KELVIN)
    def scenario_whose_later_read_fails_before_a_restart(self):
        """The log does not have a group without an end, nor a position from which the primary would go on."""
        primary, replica, below, link, disk = self.read_fails({"appendonly": "yes", "appendfsync": "always"}, first=20)
        until(lambda: b"can't be applied" in replica.log(), 60, "the failure")
        found = servers.values_of(replica, "DBSIZE")[0]
        primary.close()
        replica.kill9()
        disk.heal()
        replica.start()
        self.assertEqual(servers.values_of(replica, "DBSIZE")[0], found)
        self.assertNotEqual(servers.replication(replica)["master_replid"], REPLID.decode())

    @only(*KELVIN)
    def scenario_that_is_not_on_the_disk(self):
        primary, replica, below, link, disk = self.read_fails(kinds="write", first=20)
        until(lambda: b"can't be applied" in replica.log(), 60, "the failure")
        self.count(replica, 1)
        self.check_again(primary, replica, below, link, disk)


if __name__ == "__main__":
    main()
