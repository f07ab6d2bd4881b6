#!/usr/bin/python3
"""The helpers find what they are for: each kind of difference, bytes that do not fit the offset, writes that were lost."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import main
from support.replication.load import Changes, NumberedWriter, fill_all_types, reads_history
from support.replication.readings import check_same, contents, differences
from support.replication.recorder import Recorder, commands_of
from support.replication.scripted import Request
from support.resp import Incomplete, ProtocolError, encode

HIDDEN = ("SET string:0:1 x", "APPEND string:3:2 x", "HSET hash:0:1 f0 changed", "HDEL hash:0:1 f1", "RPUSH list:0:1 more", "LSET list:0:1 0 changed", "SADD set:0:1 more",
          "ZADD zset:0:1 0.0001 m1", "ZADD zset:0:1 CH 5 m2", "XADD stream:0:1 * a b", "XACK stream:0:1 group 3-1", "XGROUP CREATE stream:0:1 more 0", "XGROUP SETID stream:0:1 group 0",
          "XGROUP CREATECONSUMER stream:0:1 group two", "XDEL stream:0:1 40-1", "XCLAIM stream:0:1 group one 0 4-1", "PEXPIRE string:0:1 100000", "PERSIST later:0:1", "DEL set:0:1", "SET extra 1",
          "PFADD hll:0:1 more", "RENAME list:0:1 list:renamed", "MOVE hash:0:1 2", "FUNCTION FLUSH", "SWAPDB 0 1")


class ComparisonTest(unittest.TestCase):
    def pair(self):
        pair = [servers.start("redis") for _ in range(2)]
        for server in pair:
            self.addCleanup(server.stop)
            fill_all_types(server, databases=4, keys=3)
        # Entries of groups have the time of their delivery, so the second server replicates the first.
        servers.make_replica(pair[1], pair[0])
        servers.must(pair[1], "REPLICAOF NO ONE")
        return pair

    def test_each_hidden_change_is_noticed(self):
        with servers.start("redis") as server:
            fill_all_types(server, databases=4, keys=3)
            before = contents(server)
            self.assertGreater(len(before), 100)
            for change in HIDDEN:
                with self.subTest(change=change):
                    self.assertEqual(differences(before, contents(server)), [])
                    servers.must(server, "SELECT 3" if ":3:" in change else "SELECT 0", change)
                    after = contents(server)
                    self.assertNotEqual(differences(before, after), [])
                    before = after

    def test_one_millisecond_is_noticed(self):
        one, other = self.pair()
        for server, at in ((one, 33177117420000), (other, 33177117420001)):
            servers.must(server, "PEXPIREAT string:0:1 %d" % at)
        with self.assertRaises(AssertionError):
            check_same(one, other, timeout=0)

    def test_a_pair_that_is_not_in_sync_is_noticed(self):
        one, other = self.pair()
        with self.assertRaisesRegex(AssertionError, "replicas in sync"):
            servers.wait_in_sync(one, other, timeout=0.3)


class RecorderTest(unittest.TestCase):
    def test_an_offset_that_does_not_fit_is_noticed(self):
        with servers.start("redis") as primary:
            recorder = Recorder(primary.address).full().wait_loaded()
            servers.must(primary, "SET k v")
            recorder.settled(primary)
            recorder.stream += b"x"
            with self.assertRaisesRegex(AssertionError, "the bytes received end at"):
                recorder.level(primary, timeout=0.3)
            del recorder.stream[-2:]
            with self.assertRaises(AssertionError):
                recorder.level(primary, timeout=0.3)
            recorder.cut()

    def test_commands_of_a_stream(self):
        data = encode(["SET", "k", "v"]) + encode(["PING"])
        self.assertEqual(commands_of(data), ([[b"SET", b"k", b"v"], [b"PING"]], len(data)))
        self.assertEqual(commands_of(data[:-1]), ([[b"SET", b"k", b"v"]], len(encode(["SET", "k", "v"]))))
        with self.assertRaises((AssertionError, ProtocolError, ValueError)):
            commands_of(b"+OK\r\n" + data)

    def test_requests_of_a_replica(self):
        requests = Request()
        requests.feed(b"\n" + encode(["REPLCONF", "ACK", 5]) + b"PING x\r\n*1\r\n$4\r\nPI")
        self.assertEqual([requests.next(), requests.next(), requests.next()], [[], [b"REPLCONF", b"ACK", b"5"], [b"PING", b"x"]])
        self.assertRaises(Incomplete, requests.next)
        requests.feed(b"NG\r\n")
        self.assertEqual(requests.next(), [b"PING"])


class LoadTest(unittest.TestCase):
    def test_a_lost_write_is_noticed(self):
        with servers.start("redis") as server:
            writer = NumberedWriter(server.client)
            writer.start()
            servers.until(lambda: len(writer.acknowledged) > 20, 10, "writes")
            writer.stop()
            self.assertEqual(writer.lost(server, writer.acknowledged), [])
            servers.must(server, "DEL n:7", "SET n:9 wrong")
            self.assertEqual(writer.lost(server, writer.acknowledged), [7, 9])

    def test_changes_are_repeatable_and_of_all_kinds(self):
        one, other = (Changes("seed") for _ in range(2))
        found = [one.next() for _ in range(3000)]
        self.assertEqual(found, [other.next() for _ in range(3000)])
        self.assertEqual({kind for _, kind in found}, {"plain", "exec", "script", "function", "publish", "select", "restore"})
        names = {args[0].upper() for commands, _ in found for args in commands}
        self.assertLessEqual({b"SET", b"XADD", b"ZADD", b"SADD", b"RPUSH", b"HSET", b"SPOP", b"PEXPIRE", b"SWAPDB", b"FLUSHDB", b"MOVE", b"COPY", b"XREADGROUP"}, names)
        self.assertFalse([args for commands, _ in found for args in commands if args[0].startswith(b"@")])

    def test_reading_history(self):
        self.assertTrue(reads_history([b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"x", b"0"]))
        self.assertFalse(reads_history([b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"x", b"y", b">", b">"]))


if __name__ == "__main__":
    main()
