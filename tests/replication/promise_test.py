#!/usr/bin/python3
"""What a stream, its log, and a promoted replica promise: each case is one in which a simple implementation is wrong without being noticed."""
import errno
import glob
import os
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.disk import DELAY, FAIL
from support.replication import servers
from support.replication.case import PRIMARIES, REPLICAS, ReplicationCase, main, only
from support.replication.faults import folder_new, with_disk
from support.replication.readings import check_same
from support.replication.recorder import Recorder
from support.replication.scripted import OTHER_REPLID, REPLID, ScriptedPrimary, encode_all, make_rdb
from support.resp import encode
from support.server import is_sanitized, until

NO_ID = "0" * 40
SHIMMED = unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")


class StreamTest(ReplicationCase):
    @only("kelvin-redis")
    def scenario_is_byte_by_byte_in_the_log(self):
        """What replicas get and what the files hold are the same bytes; redis-server loads the files."""
        primary = self.start("primary", {"appendonly": "yes", "appendfsync": "no", "auto-aof-rewrite-percentage": "0", "repl-ping-replica-period": 1})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        servers.must(primary, "SELECT 3", "SET k v", "PUBLISH news hello", "SET t v PX 100000", "SELECT 9", "SADD s a b", "SPOP s", "EVAL \"redis.call('SET', 'a', 1); return redis.call('INCR', 'a')\" 0",
                     "SET gone v PX 1", "WAIT 1 100")
        until(lambda: [b"PING"] in recorder.commands(), 10, "a PING")
        until(lambda: servers.must(primary, "DBSIZE") == 0, 10, "the key expired")
        servers.must(primary, "SET last 1")
        stream = recorder.settled(primary)
        until(lambda: self.log_of(primary).endswith(stream), 10, "the stream is the end of the log")
        other = self.started(servers.start("redis", {"appendonly": "yes"}, folder=self.copy_of_log(primary)))
        self.assertEqual(servers.values_of(other, "GET last", "SELECT 3", "GET k", "SELECT 9", "GET a"), [b"1", servers.values_of(other, "SELECT 3")[0], b"v", servers.values_of(other, "SELECT 9")[0], b"2"])

    def log_of(self, primary):
        data = b""
        for path in sorted(glob.glob(os.path.join(primary.folder, "appendonlydir", "*.incr.aof")), key=lambda path: int(re.search(r"\.(\d+)\.incr", path).group(1))):
            with open(path, "rb") as file:
                data += file.read()
        return re.sub(rb"(?m)^#[^\n]*\n", b"", data)

    def copy_of_log(self, primary):
        """As redis-server reads it: the commands alone."""
        folder = folder_new()
        with open(os.path.join(folder, "appendonly.aof"), "wb") as file:
            file.write(self.log_of(primary))
        return folder

    @only(*PRIMARIES)
    def scenario_that_has_ended_is_not_continued(self):
        """Without replicas for long nothing is counted; what changes then must not be skipped by a replica that comes back."""
        primary = self.start("primary", {"repl-backlog-ttl": 1})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        servers.must(primary, "SET k old")
        recorder.settled(primary)
        before = recorder.id
        recorder.cut()
        until(lambda: servers.replication(primary)["repl_backlog_active"] == "0", 20, "the backlog ended")
        servers.must(primary, "SET k new")
        found = servers.replication(primary)
        self.assertNotEqual(found["master_replid"].encode(), before)
        self.assertEqual(found["master_replid2"], NO_ID)
        self.assertFalse(recorder.resume())
        recorder.wait_loaded().settled(primary)

    @SHIMMED
    @only("kelvin-redis", "kelvin-kelvin")
    def scenario_has_nothing_that_a_crash_may_take(self):
        """While the log can't be synced, replicas don't get what is in it; after a kill they have nothing that the primary lacks."""
        primary, disk = with_disk(self, "primary", {"appendonly": "yes", "appendfsync": "always"})
        primary.options["port"] = primary.port
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        servers.must(primary, "SET k 0")
        servers.wait_in_sync(primary, replica)
        for number, heals in ((1, True), (2, False)):
            disk.rule(0, "write sync", "*.aof", FAIL, error=errno.EIO)
            client = self.client(primary, timeout=30)
            client.send(encode(["SET", "k", number]))
            until(lambda: disk.acted > 0, 10, "the log")
            time.sleep(1.2)
            self.assertEqual(servers.must(replica, "GET k"), b"%d" % (number - 1))
            if heals:
                disk.heal()
                client.receive()
                servers.wait_in_sync(primary, replica)
                self.assertEqual(servers.must(replica, "GET k"), b"%d" % number)
        primary.kill9()
        disk.heal()
        primary.start()
        servers.must(primary, "SET other 1")
        self.same(primary, replica, least=2)


class SlowTest(ReplicationCase):
    @SHIMMED
    @only("kelvin-redis", "kelvin-kelvin")
    def scenario_full_syncs_keep_their_replica(self):
        """Longer than repl-timeout before the first byte: newlines say that the primary lives. With and without a file of known length."""
        for diskless in ("yes", "no"):
            with self.subTest(diskless=diskless):
                fast = {"repl-timeout": 3, "repl-ping-replica-period": 1, "repl-diskless-sync": diskless}
                primary, disk = with_disk(self, "primary", dict(fast, **{"repl-image-sync": "no"}))
                servers.must(primary, "SET k v")
                replica = self.start("replica", fast)
                disk.rule(0, "create" if diskless == "yes" else "write", "*temp-*.sync.rdb", DELAY, first=1, last=1, delay_us=6000000)
                servers.make_replica(replica, primary)
                self.assertGreater(disk.matched(0), 0)
                self.same(primary, replica)
                self.assertEqual(servers.count_of(primary, "sync_full"), 1)


class PromotionTest(ReplicationCase):
    @only(*REPLICAS)
    def scenario_keeps_what_is_whole_and_says_exactly_up_to_where(self):
        """Half a transaction is not there, and not counted; siblings continue up to that byte and not beyond."""
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"repl-timeout": 20})
        servers.make_replica(replica, primary, wait=False)
        link = primary.link().full(make_rdb(), offset=500).wait_ack()
        link.send_commands(["SELECT", "0"], ["SET", "whole", "1"]).wait_ack()
        end = link.sent
        link.send(encode_all([["MULTI"], ["SET", "half", "1"]]) + b"*3\r\n$3\r\nSET\r\n$5\r\nbro")
        time.sleep(0.3)
        servers.must(replica, "REPLICAOF NO ONE")
        self.assertEqual(servers.values_of(replica, "GET whole", "GET half"), [b"1", None])
        found = servers.replication(replica)
        self.assertEqual((found["master_replid2"].encode(), int(found["second_repl_offset"])), (REPLID, end + 1))
        for offset, wanted in ((end + 1, b"CONTINUE"), (end + 2, b"FULLRESYNC")):
            sibling = Recorder(replica.address).connect()
            self.addCleanup(sibling.socket.close)
            self.assertEqual(sibling.psync(REPLID, offset), wanted)


class FailedLoadTest(ReplicationCase):
    """Kelvin only: redis-server ends its process on a damaged RDB."""

    def damaged(self):
        """A replica with `appendonly yes` whose second full synchronization can't be loaded."""
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"appendonly": "yes", "repl-timeout": 20})
        servers.make_replica(replica, primary, wait=False)
        primary.link().full(make_rdb(["SET", "old", "1"]), offset=500).wait_ack().cut()
        until(lambda: replica.info("persistence")["aof_enabled"] == "1", 20, "the log")
        data = bytearray(make_rdb(*[["SET", "k%d" % number, "v"] for number in range(100)]))
        data[-1] ^= 1
        primary.link().full(bytes(data), replid=OTHER_REPLID, offset=1000).wait_closed()
        until(lambda: b"Failed to load the primary's RDB" in replica.log_new(), 20, "the load fails")
        return primary, replica

    @only("redis-kelvin")
    def scenario_is_followed_by_a_log_again(self):
        primary, replica = self.damaged()
        link = primary.link()
        self.assertEqual(link.asked[1], -1, "nothing that it has is a part of a history")
        link.full(make_rdb(["SET", "new", "1"]), replid=OTHER_REPLID, offset=2000).wait_ack()
        link.send_commands(["SELECT", "0"], ["SET", "stream", "1"]).wait_ack()
        until(lambda: replica.info("persistence")["aof_enabled"] == "1", 20, "the log")
        until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "its base")
        replica.restart(kill=True)
        self.assertEqual(servers.values_of(replica, "GET new", "GET stream", "DBSIZE"), [b"1", b"1", 2])

    @only("redis-kelvin")
    def scenario_and_a_promotion_are_followed_by_a_log_again(self):
        """What clients write then is not lost by a kill, and no key of before comes back."""
        primary, replica = self.damaged()
        servers.must(replica, "REPLICAOF NO ONE")
        until(lambda: replica.info("persistence")["aof_enabled"] == "1", 20, "the log")
        servers.must(replica, "SET after 1")
        until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "its base")
        time.sleep(1.5)
        replica.restart(kill=True)
        self.assertEqual(servers.values_of(replica, "GET after", "GET old", "DBSIZE"), [b"1", None, 1])


class WritableTest(ReplicationCase):
    def scenario_replica_keeps_its_own_keys_out_of_the_stream(self):
        primary = self.start("primary")
        middle, last = self.start("replica", {"replica-read-only": "no"}), self.start("replica")
        servers.make_replica(middle, primary)
        servers.make_replica(last, middle)
        for number in range(20):
            servers.must(middle, "SET mine%d 1 PX %d" % (number, 1 + number), "SET kept 1", "INCR counted")
            servers.must(primary, "SET k %d" % number)
        servers.wait_in_sync(primary, middle)
        servers.wait_in_sync(middle, last)
        check_same(primary, last)
        self.assertEqual(servers.values_of(middle, "GET kept", "GET counted", "GET k"), [b"1", b"20", b"19"])
        self.assertEqual(servers.values_of(last, "GET kept", "GET k"), [None, b"19"])
        self.assertEqual(servers.count_of(middle, "sync_full"), 1)


class BehindTest(ReplicationCase):
    def received(self, replica):
        return int(servers.replication(replica)["slave_read_repl_offset"])

    @only("redis-kelvin")
    def scenario_replica_that_can_not_apply_is_not_cut_off_by_the_output_limit(self):
        """It reads what it can't apply yet; with the limit of the primary's output buffer another one would be cut off, and begin again."""
        limit = 8 << 20
        primary = self.start("primary", {"client-output-buffer-limit": ["replica", limit, limit, "1"], "repl-backlog-size": 1 << 20})
        replica = self.start("replica", {"busy-reply-threshold": 100})
        servers.make_replica(replica, primary)
        with self.client(replica, timeout=60) as client:
            client.send(encode(["EVAL_RO", "redis.call('GET', KEYS[1]); while true do end", 1, "k1"]))
            with primary.client(timeout=60) as writer:
                for _ in range(60):
                    writer.pipeline([["SET", "k%d" % number, b"v" * 50000] for number in range(20)])
                    # On a busy machine it may need a while to read it.
                    until(lambda: self.received(replica) >= int(servers.replication(primary)["master_repl_offset"]), 20, "received")
            self.assertNotEqual(servers.replication(replica)["slave_repl_offset"], servers.replication(primary)["master_repl_offset"])
            with self.client(replica) as other:
                other.call("SCRIPT", "KILL")
            client.receive()
        self.same(primary, replica, least=20)
        self.assertEqual((servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")), (1, 0))


if __name__ == "__main__":
    main()
