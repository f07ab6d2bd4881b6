#!/usr/bin/python3
"""What a primary sends, byte by byte: RDB, stream, offsets, and what it replies to PSYNC."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.rdb import crc64
from support.replication import servers
from support.replication.case import PRIMARIES, ReplicationCase, main, only
from support.replication.load import Load, fill_all_types
from support.replication.recorder import Recorder
from support.resp import encode
from support.server import scaled, seed_new, until


class StreamTest(ReplicationCase):
    def recorder(self, primary, **options):
        recorder = Recorder(primary.address, **options)
        self.addCleanup(lambda: recorder.socket and recorder.cut())
        return recorder

    def recorded(self, primary, **options):
        return self.recorder(primary, **options).full().wait_loaded()

    def changes(self, recorder, *leave_out):
        """The stream's commands without what is only for the connection."""
        recorder.check()
        return [args for args in recorder.commands() if args[0].upper() not in (b"PING", b"REPLCONF") + leave_out]

    @only(*PRIMARIES)
    def scenario_has_an_rdb_with_a_checksum_in_both_framings(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=2)
        for diskless, capa, framing in (("yes", ("eof", "psync2"), "eof"), ("yes", ("psync2",), "length"), ("no", ("eof", "psync2"), "length")):
            with self.subTest(diskless=diskless, capa=capa):
                servers.set_config(primary, repl_diskless_sync=diskless)
                recorder = self.recorded(primary, capa=capa)
                self.assertEqual(recorder.rdb[:5], b"REDIS")
                self.assertLessEqual(int(recorder.rdb[5:9]), 11)
                self.assertEqual(recorder.rdb[-9:-8], b"\xff")
                self.assertIn(recorder.rdb[-8:], (crc64(recorder.rdb[:-8]), b"\0" * 8))
                # A redis-server that restarts from this file knows where it was.
                self.assertIn(recorder.id, recorder.rdb)
                self.assertIn(b"repl-offset", recorder.rdb)
                servers.must(primary, "SET k v")
                recorder.settled(primary)
                recorder.cut()
                if self.primary_kind == "kelvin" or diskless == "no":
                    self.assertEqual(recorder.framing, framing)

    @only(*PRIMARIES)
    def scenario_begins_with_a_select_and_has_the_effects(self):
        primary = self.start("primary")
        servers.must(primary, "SELECT 3", "SET before 1")
        recorder = self.recorded(primary)
        servers.must(primary, "SELECT 3", "SET k v", "INCRBYFLOAT f 0.5", "SET t v PX 100000", "SELECT 9", "SADD s a", "SPOP s", "EVAL \"return redis.call('SET', 'from', 'script')\" 0")
        recorder.settled(primary)
        found = self.changes(recorder)
        self.assertEqual([[word.upper() for word in args] for args in found[:2]], [[b"SELECT", b"3"], [b"SET", b"K", b"V"]])
        self.assertEqual(found[2][:3], [b"SET", b"f", b"0.5"])
        self.assertEqual([found[3][0].upper(), found[3][3].upper()], [b"SET", b"PXAT"])
        self.assertIn([b"SELECT", b"9"], found)
        self.assertIn([b"set", b"from", b"script"], [[args[0].lower()] + args[1:] for args in found])
        self.assertNotIn(b"SPOP", [args[0].upper() for args in found])

    @only("kelvin-redis", "kelvin-kelvin")
    def scenario_has_the_result_of_a_sort_whose_order_is_this_servers(self):
        """Servers do not agree on the order of what BY leaves equal as texts."""
        primary, replica = self.pair()
        recorder = self.recorded(primary)
        with primary.client() as client:
            for number in range(2000):
                client.must("RPUSH", "list", number)
                client.must("SET", "w%d" % number, number % 3)
            client.must("SORT", "list", "BY", "w*", "ALPHA", "LIMIT", 10, 1500, "STORE", "list2")
            client.must("EVAL", "return redis.call('SORT', 'list', 'BY', 'w*', 'ALPHA', 'DESC', 'GET', '#', 'GET', 'w*', 'STORE', 'list')", 0)
            client.must("SORT", "list", "BY", "none*", "ALPHA", "LIMIT", 5000, 1, "STORE", "list2")
            client.must("SORT", "list2", "ALPHA", "STORE", "list2")
        self.same(primary, replica)
        recorder.settled(primary)
        found = [args for args in self.changes(recorder) if args[0].upper() in (b"DEL", b"RPUSH", b"SORT")][2000:]
        self.assertEqual([(args[0].upper(), args[1], len(args)) for args in found[:7]], [
            (b"DEL", b"list2", 2), (b"RPUSH", b"list2", 1026), (b"RPUSH", b"list2", 478),
            (b"DEL", b"list", 2), (b"RPUSH", b"list", 1026), (b"RPUSH", b"list", 1026), (b"RPUSH", b"list", 1026)])

    @only(*PRIMARIES)
    def scenario_is_the_same_for_two_replicas_and_counts_each_byte(self):
        seed = seed_new()
        primary = self.start("primary")
        one, other = self.recorded(primary), self.recorded(primary, ack_s=0.02)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            load.wait_for(scaled(3000))
            load.stop()
            self.same_bytes(primary, one, other)
            self.assertEqual(one.id, other.id)
            self.assertGreater(len(one.stream), 1000)
            self.check_groups(one)

    def same_bytes(self, primary, one, other):
        """From the offset at which both had begun; keys that expire meanwhile add to the later one."""
        left, right, start = one.settled(primary), other.settled(primary), max(one.start, other.start)
        left, right = left[start - one.start:], right[start - other.start:]
        size = min(len(left), len(right))
        self.assertGreater(size, 1000)
        self.assertEqual(left[:size], right[:size])

    def check_groups(self, recorder):
        """MULTI and EXEC come in pairs."""
        is_open, groups = False, 0
        for args in recorder.commands():
            name = args[0].upper()
            self.assertNotEqual((is_open, name), (True, b"MULTI"))
            self.assertNotEqual((is_open, name), (False, b"EXEC"))
            groups += name == b"EXEC"
            is_open = name == b"MULTI" or is_open and name != b"EXEC"
        self.assertFalse(is_open)
        self.assertGreater(groups, 0)

    @only(*PRIMARIES)
    def scenario_has_one_group_for_a_transaction_and_for_a_script_with_several_writes(self):
        primary = self.start("primary")
        recorder = self.recorded(primary)
        with self.client(primary) as client:
            client.pipeline([["MULTI"], ["SET", "a", "1"], ["GET", "a"], ["SET", "b", "2"], ["EXEC"]])
            client.must("EVAL", "redis.call('SET', 'c', 1); redis.call('INCR', 'c'); return redis.call('GET', 'c')", 0)
        recorder.settled(primary)
        names = [b" ".join([args[0].upper()] + args[1:2]) for args in self.changes(recorder, b"SELECT")]
        self.assertEqual(names, [b"MULTI", b"SET a", b"SET b", b"EXEC", b"MULTI", b"SET c", b"INCR c", b"EXEC"])

    @only(*PRIMARIES)
    def scenario_has_published_messages_and_no_reads(self):
        primary = self.start("primary")
        recorder = self.recorded(primary)
        servers.values_of(primary, "PUBLISH news hello", "GET missing", "SPUBLISH shard hello", "LPUSH l x", "LPOP missing", "DEL missing", "SET l x NX")
        recorder.settled(primary)
        found = [[args[0].upper()] + args[1:] for args in self.changes(recorder, b"SELECT")]
        self.assertEqual(found, [[b"PUBLISH", b"news", b"hello"], [b"SPUBLISH", b"shard", b"hello"], [b"LPUSH", b"l", b"x"]])

    @only(*PRIMARIES)
    def scenario_continues_at_every_offset_that_is_in_the_backlog(self):
        primary = self.start("primary")
        recorder = self.recorded(primary)
        servers.must(primary, "SET a 1", "SET b 2", "SELECT 5", "SET c 3")
        recorder.settled(primary)
        whole, start = bytes(recorder.stream), recorder.start
        for at in range(0, len(whole) + 1, 7):
            other = self.recorder(primary).connect()
            self.assertEqual(other.psync(recorder.id, start + at + 1), b"CONTINUE", at)
            other.record().level(primary)
            self.assertEqual(bytes(other.stream)[:len(whole) - at], whole[at:], at)
            other.cut()
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    @only(*PRIMARIES)
    def scenario_is_refused_beyond_its_end_before_its_beginning_and_of_another_id(self):
        primary = self.start("primary", {"repl-backlog-size": 16384})
        recorder = self.recorded(primary)
        servers.must(primary, "SET a 1")
        recorder.settled(primary)
        for replid, offset in ((recorder.id, recorder.offset + 2), (b"0" * 40, recorder.offset + 1), (recorder.id, -1), (recorder.id, 1 << 60), (b"?", recorder.offset + 1)):
            other = self.recorder(primary).connect()
            self.assertEqual(other.psync(replid, offset), b"FULLRESYNC", (replid, offset))
            other.socket.close()
            other.socket = None
        self.assertEqual(servers.count_of(primary, "sync_partial_ok"), 0)

    @only(*PRIMARIES)
    def scenario_goes_on_where_the_link_was_cut(self):
        seed = seed_new()
        primary = self.start("primary")
        whole, broken = self.recorded(primary), self.recorded(primary)
        with self.subTest(seed=seed), Load(primary, seed, threads=2) as load:
            for _ in range(5):
                load.wait_for(scaled(200))
                broken.cut()
                load.wait_for(scaled(100))
                self.assertTrue(broken.resume())
            load.stop()
            self.same_bytes(primary, whole, broken)
        self.assertEqual(servers.count_of(primary, "sync_partial_ok"), 5)
        self.assertEqual(servers.count_of(primary, "sync_full"), 2)

    @only(*PRIMARIES)
    def scenario_is_kept_for_a_replica_that_does_not_read(self):
        primary = self.start("primary", {"repl-backlog-size": 32 << 20, "client-output-buffer-limit": ["replica", "256mb", "64mb", "60"]})
        recorder = self.recorded(primary)
        recorder.stop_reading()
        with self.client(primary) as client:
            for _ in range(5):
                client.pipeline([["SET", "k%d" % number, b"v" * 10000] for number in range(200)])
        recorder.read_on()
        recorder.settled(primary)
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    @only(*PRIMARIES)
    def scenario_has_pings(self):
        primary = self.start("primary", {"repl-ping-replica-period": 1})
        recorder = self.recorded(primary)
        until(lambda: sum(args[0].upper() == b"PING" for args in recorder.commands()) >= 2, 10, "two PINGs")
        self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    @only(*PRIMARIES)
    def scenario_asks_for_an_acknowledgement_for_wait(self):
        primary = self.start("primary")
        recorder = self.recorded(primary, ack_s=None, capa=("psync2",))
        recorder.ack()
        client = self.client(primary)
        client.must("SET", "k", "v")
        self.assertEqual(client.must("WAIT", 1, 200), 0)
        until(lambda: [b"REPLCONF", b"GETACK", b"*"] in recorder.commands(), 10, "GETACK in the stream")
        recorder.ack()
        self.assertEqual(client.must("WAIT", 1, 10000), 1)
        # An acknowledgement of less than the client's last write is none.
        client.must("SET", "k", "w")
        recorder.ack(recorder.start)
        self.assertEqual(client.must("WAIT", 1, 100), 0)

    @only(*PRIMARIES)
    def scenario_of_a_silent_replica_ends_at_repl_timeout(self):
        primary = self.start("primary", {"repl-timeout": 2, "repl-ping-replica-period": 1})
        recorder = self.recorded(primary, ack_s=None, capa=("psync2",))
        until(lambda: recorder.failure, 15, "the primary closes the connection")
        self.assertEqual(servers.replication(primary)["connected_slaves"], "0")

    @only(*PRIMARIES)
    def scenario_is_the_same_with_sync_instead_of_psync(self):
        primary = self.start("primary")
        servers.must(primary, "SET k v")
        client = self.client(primary)
        client.send(b"SYNC\r\n")
        data = client.raw(100, quiet=0.5)[0].lstrip(b"\n")
        self.assertEqual(data[:1], b"$")
        size, rest = data[1:].split(b"\r\n", 1)
        self.assertEqual(rest[:5], b"REDIS")
        servers.must(primary, "SET after 1")
        more = rest[int(size):] + client.raw(20, quiet=0.3)[0]
        self.assertIn(b"after", more)

    @only(*PRIMARIES)
    def scenario_of_a_replica_that_asks_for_more_ends(self):
        """It may not use keys, and a reply ends the connection."""
        primary = self.start("primary")
        servers.must(primary, "SET k v")
        for command in ("GET k", "SET k other", "BLPOP list 0", "PUBLISH c m", "EVAL x 0", "PING", "SELECT 1", "CLIENT ID", "NOSUCH", "SUBSCRIBE c", "QUIT"):
            with self.subTest(command=command):
                recorder = self.recorded(primary)
                recorder.socket.sendall(encode(command.split()))
                until(lambda: recorder.failure, 20, "the primary closes the connection")
                self.assertEqual([args for args in recorder.commands() if args[0].upper() not in (b"PING", b"REPLCONF")], [])
                recorder.cut()
        self.assertEqual(servers.must(primary, "GET k"), b"v")

    @only(*PRIMARIES)
    def scenario_goes_on_after_what_has_no_reply(self):
        primary = self.start("primary")
        for number, command in enumerate(("SYNC", "PSYNC ? -1", "PSYNC x y", "MONITOR", "REPLCONF ACK 0")):
            with self.subTest(command=command):
                recorder = self.recorded(primary)
                recorder.socket.sendall(encode(command.split()))
                servers.must(primary, "SET k %d" % number)
                recorder.settled(primary)
                self.assertEqual(self.changes(recorder)[-1], [b"SET", b"k", b"%d" % number])
                recorder.cut()


if __name__ == "__main__":
    main()
