#!/usr/bin/python3
"""A replica of a primary whose every byte the test decides: handshake, RDB, stream, broken links, wrong bytes."""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import REPLICAS, ReplicationCase, main, only
from support.replication.scripted import OTHER_REPLID, REPLID, ScriptedPrimary, encode_all, make_rdb
from support.resp import Error
from support.server import seed_new, until

KELVIN = ("redis-kelvin",)
SELECT_0 = ["SELECT", "0"]


class ReplicaCase(ReplicationCase):
    @classmethod
    def setUpClass(cls):
        cls.rdb = make_rdb(["SET", "from", "rdb"], ["SELECT", 4], ["RPUSH", "four", "a", "b"])
        cls.empty = make_rdb()

    def scripted(self, options=None, **more):
        """A scripted primary and a server that replicates it."""
        primary = ScriptedPrimary(**more)
        self.addCleanup(primary.close)
        replica = self.start("replica", {"repl-timeout": 20, **(options or {})})
        servers.make_replica(replica, primary, wait=False)
        return primary, replica

    def synced(self, options=None, rdb=None, framing="eof", offset=1):
        primary, replica = self.scripted(options)
        link = primary.link().full(self.empty if rdb is None else rdb, framing, offset=offset).wait_ack()
        return primary, replica, link

    def values(self, replica, **wanted):
        for key, value in wanted.items():
            self.assertEqual(servers.values_of(replica, "GET " + key)[0], value, key)


class HandshakeTest(ReplicaCase):
    @only(*REPLICAS)
    def scenario_announces_port_and_capabilities(self):
        primary, replica = self.scripted()
        link = primary.link()
        # It was a primary, and may continue by its own ID, of which this primary knows nothing.
        self.assertIn(link.asked[1], (-1, 1))
        words = [[word.lower() for word in args] for args in link.handshake]
        self.assertEqual(words[0], [b"ping"])
        self.assertIn([b"replconf", b"listening-port", b"%d" % replica.port], words)
        capabilities = [word for args in words if args[:2] == [b"replconf", b"capa"] for word in args]
        self.assertIn(b"psync2", capabilities)
        self.assertIn(b"eof", capabilities)

    @only(*REPLICAS)
    def scenario_of_a_server_that_starts_as_a_replica_asks_for_everything(self):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"replicaof": ["127.0.0.1", primary.port]})
        link = primary.link()
        # Or for the history that it began at its start, of which no primary knows.
        self.assertIn(link.asked[1], (-1, 1))
        link.full(self.rdb).wait_ack()
        self.values(replica, **{"from": b"rdb"})

    @only(*REPLICAS)
    def scenario_announces_other_addresses(self):
        primary, _ = self.scripted({"replica-announce-ip": "10.1.2.3", "replica-announce-port": 4321})
        words = primary.link().handshake
        self.assertIn([b"REPLCONF", b"listening-port", b"4321"], words)
        self.assertIn([b"REPLCONF", b"ip-address", b"10.1.2.3"], words)

    @only(*REPLICAS)
    def scenario_authenticates(self):
        for options, wanted in (({"masterauth": "secret"}, [b"AUTH", b"secret"]), ({"masterauth": "secret", "masteruser": "joe"}, [b"AUTH", b"joe", b"secret"])):
            self.assertIn(wanted, self.scripted(options)[0].link().handshake)

    @only(*REPLICAS)
    def scenario_tries_again_after_errors(self):
        for name, reply in ((b"PSYNC", b"-LOADING Redis is loading\r\n"), (b"PSYNC", b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n"),
                            (b"PING", b"-MASTERDOWN x\r\n")):
            with self.subTest(name=name, reply=reply):
                primary, replica = self.scripted(replies={name: reply})
                until(lambda: len(primary.handshakes) >= 2, 20, "a second attempt")
                primary.replies.clear()
                primary.link().full(self.rdb).wait_ack()
                until(lambda: servers.link_is_up(replica), 20, "link up")
                self.values(replica, **{"from": b"rdb"})

    @only(*REPLICAS)
    def scenario_goes_on_after_a_ping_without_permission(self):
        for reply in (b"-NOAUTH Authentication required.\r\n", b"-NOPERM no\r\n", b"-ERR operation not permitted\r\n"):
            with self.subTest(reply=reply):
                primary, replica = self.scripted(replies={b"PING": reply})
                primary.link().full(self.rdb).wait_ack()
                self.values(replica, **{"from": b"rdb"})

    @only(*REPLICAS)
    def scenario_of_a_primary_without_replconf(self):
        primary, replica = self.scripted(replies={b"REPLCONF": b"-ERR unknown command\r\n"})
        primary.link().full(self.rdb, "length").wait_ack()
        self.values(replica, **{"from": b"rdb"})

    @only(*REPLICAS)
    def scenario_gives_up_on_silence(self):
        primary, replica = self.scripted({"repl-timeout": 2}, replies={b"PING": None})
        until(lambda: len(primary.handshakes) >= 2, 20, "a second attempt")
        self.assertEqual(servers.replication(replica)["master_link_status"], "down")


class LoadTest(ReplicaCase):
    @only(*REPLICAS)
    def scenario_takes_both_framings_and_newlines_before_them(self):
        for framing in ("eof", "length"):
            with self.subTest(framing=framing):
                primary, replica = self.scripted()
                link = primary.link().full_header(offset=1000).raw(b"\n\n\n")
                time.sleep(0.05)
                link.raw(b"\n").send_rdb(self.rdb, framing).wait_ack(1000)
                link.send_commands(SELECT_0, ["SET", "k", "v"]).wait_ack()
                self.values(replica, k=b"v", **{"from": b"rdb"})
                self.assertEqual(servers.values_of(replica, "SELECT 4", "LRANGE four 0 -1")[1], [b"a", b"b"])
                found = servers.replication(replica)
                self.assertEqual((found["master_replid"], int(found["slave_repl_offset"])), (REPLID.decode(), link.sent))

    @only(*KELVIN)
    def scenario_keeps_a_long_stream_that_comes_while_the_rdb_is_loaded(self):
        """As a primary with `repl-diskless-sync no` sends it, which does not wait for the replica. The RDB takes a second or two to load, and the stream is
        longer than what the replica keeps in memory."""
        rdb = make_rdb(["DEBUG", "POPULATE", 1000000, "key", 4])
        for disk_size in ("1gb", 0):            # 0: the replica stops reading for a while
            with self.subTest(disk_size=disk_size):
                primary, replica = self.scripted({"repl-backlog-disk-size": disk_size})
                link = primary.link().full(rdb, "length", offset=500)
                link.send_commands(SELECT_0, *(["SET", "k%d" % i, "v" * 1000000] for i in range(40)))
                link.wait_ack(timeout=60)
                self.assertEqual(len(primary.all), 1)
                self.values(replica, k0=b"v" * 1000000, k39=b"v" * 1000000)
                self.assertEqual(servers.values_of(replica, "DBSIZE"), [1000040])

    @only(*REPLICAS)
    def scenario_takes_the_rdb_in_pieces_of_any_size(self):
        for framing, seed in (("eof", seed_new()), ("length", seed_new())):
            with self.subTest(framing=framing, seed=seed):
                primary, replica = self.scripted()
                link, cuts, mark = primary.link().full_header(), random.Random(seed), b"m" * 40
                data = b"$EOF:%s\r\n" % mark + self.rdb + mark if framing == "eof" else b"$%d\r\n" % len(self.rdb) + self.rdb
                while data:
                    size = cuts.choice((1, 1, 2, 7, 30))
                    link.raw(data[:size])
                    data = data[size:]
                    time.sleep(0.001)
                link.wait_ack()
                self.values(replica, **{"from": b"rdb"})

    @only(*REPLICAS)
    def scenario_of_length_may_be_followed_by_the_stream_at_once(self):
        primary, replica = self.scripted()
        stream = [SELECT_0] + [["INCR", "n"]] * 1000
        link = primary.link().full_header().raw(b"$%d\r\n" % len(self.rdb) + self.rdb + encode_all(stream))
        link.sent += len(encode_all(stream))
        link.wait_ack()
        self.values(replica, n=b"1000")

    @only(*REPLICAS)
    def scenario_that_breaks_is_begun_again_and_old_data_stays(self):
        primary, replica = self.scripted()
        primary.link().full(self.rdb, "length").wait_ack().cut()
        other = make_rdb(["SET", "from", "other"], *[["SET", "k%d" % number, "v" * 100] for number in range(100)])
        for framing, size in (("length", 5), ("length", len(other) - 3), ("eof", 50), ("eof", len(other) - 1)):
            with self.subTest(framing=framing, size=size):
                link = primary.link().full_header(OTHER_REPLID, 7)
                link.raw(b"$%d\r\n" % len(other) + other[:size] if framing == "length" else b"$EOF:" + b"m" * 40 + b"\r\n" + other[:size])
                time.sleep(0.2)
                link.cut()
                until(lambda: servers.replication(replica)["master_link_status"] == "down", 10, "link down")
                self.values(replica, **{"from": b"rdb"})
        primary.link().full(other, "eof", OTHER_REPLID, 7).wait_ack(7)
        self.values(replica, **{"from": b"other"})

    @only(*REPLICAS)
    def scenario_keeps_keys_whose_time_is_over(self):
        rdb = make_rdb(["SET", "soon", "1", "PX", 300], ["SET", "stays", "1"])
        time.sleep(0.4)
        primary, replica, link = self.synced(rdb=rdb)
        self.assertEqual(servers.values_of(replica, "GET soon", "EXISTS soon", "DBSIZE", "GET stays"), [None, 0, 2, b"1"])
        link.send_commands(SELECT_0, ["DEL", "soon"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "DBSIZE")[0], 1)


class StreamTest(ReplicaCase):
    @only(*REPLICAS)
    def scenario_acknowledges_what_it_applied(self):
        primary, replica, link = self.synced(offset=500)
        link.send_commands(SELECT_0, ["SET", "k", "v"], ["PING"], ["MULTI"], ["INCR", "n"], ["INCR", "n"], ["EXEC"], ["REPLCONF", "GETACK", "*"])
        link.wait_ack()
        self.values(replica, k=b"v", n=b"2")

    @only(*REPLICAS)
    def scenario_acknowledges_each_second_without_changes(self):
        primary, replica, link = self.synced()
        until(lambda: len(link.acks) >= 3, 10, "three acknowledgements")

    @only(*REPLICAS)
    def scenario_replies_to_getack_and_to_nothing_else(self):
        primary, replica, link = self.synced()
        count, before = len(link.acks), link.sent
        link.send_commands(SELECT_0, ["SET", "k", "v"], ["NOSUCH", "command"], ["GET", "k"], ["INCR", "k"], ["PING", "x"])
        link.send_commands(["REPLCONF", "GETACK", "*"])
        until(lambda: len(link.acks) > count and link.acks[-1] > before, 5, "acknowledged")
        link.wait_ack()
        self.assertEqual(link.others, [])
        self.values(replica, k=b"v")

    @only(*KELVIN)
    def scenario_with_commands_that_fail_is_in_the_log_and_a_start_passes_over_them(self):
        primary, replica, link = self.synced({"appendonly": "yes", "appendfsync": "always"})
        until(lambda: replica.info("persistence")["aof_enabled"] == "1" and replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "a log")
        link.send_commands(SELECT_0, ["SET", "k", "v"], ["NOSUCH", "command"], ["INCR", "k"], ["CONFIG", "SET", "maxclients", "77"], ["MULTI"],
                           ["SET", "in", "group"], ["LPUSH", "k", "x"], ["EXEC"], ["SET", "last", "one"])
        link.wait_ack()
        self.values(replica, **{"k": b"v", "in": b"group", "last": b"one"})
        replica.kill9()
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        replica.start()
        self.values(replica, **{"k": b"v", "in": b"group", "last": b"one"})
        self.assertNotEqual(servers.values_of(replica, "CONFIG GET maxclients")[0][1], b"77")

    @only(*REPLICAS)
    def scenario_of_half_a_transaction_is_not_seen(self):
        primary, replica, link = self.synced()
        link.send_commands(SELECT_0, ["SET", "k", "old"]).wait_ack()
        at = link.sent
        link.send_commands(["MULTI"], ["SET", "k", "new"], ["SET", "other", "new"])
        time.sleep(1.3)
        self.values(replica, k=b"old", other=None)
        self.assertEqual(link.ack, at)
        link.send_commands(["EXEC"]).wait_ack()
        self.values(replica, k=b"new", other=b"new")

    @only(*REPLICAS)
    def scenario_is_resumed_after_a_cut_at_any_byte(self):
        """Two databases, a transaction and numbers that count twice what is applied twice."""
        primary, replica, link = self.synced()
        link.send_commands(["SELECT", "1"], ["SET", "k", "v"]).wait_ack()
        wanted, step = 0, 11
        part = encode_all([["SELECT", "3"], ["INCR", "three"], ["MULTI"], ["INCR", "three"], ["SELECT", "1"], ["INCR", "one"], ["EXEC"], ["INCR", "one"]])
        for cut in range(1, len(part), step):
            base = link.sent
            link.send(part[:cut])
            time.sleep(0.02)
            link.cut()
            link = primary.link()
            replid, offset = link.asked
            self.assertEqual(replid, REPLID)
            self.assertTrue(base < offset <= base + cut + 1, (base, cut, offset))
            # The replica forgot what it has not applied, and knows the selected database.
            link.continues().send(part[offset - 1 - base:]).wait_ack()
            wanted += 2
            self.assertEqual(servers.values_of(replica, "SELECT 3", "GET three", "SELECT 1", "GET one")[1::2], [b"%d" % wanted] * 2, cut)

    @only(*REPLICAS)
    def scenario_continues_under_a_new_id(self):
        primary, replica, link = self.synced(offset=100)
        link.send_commands(SELECT_0, ["SET", "k", "v"]).wait_ack()
        link.cut()
        link = primary.link().continues(OTHER_REPLID).send_commands(["SET", "k", "w"]).wait_ack()
        self.values(replica, k=b"w")
        found = servers.replication(replica)
        self.assertEqual((found["master_replid"], found["master_replid2"]), (OTHER_REPLID.decode(), REPLID.decode()))
        self.assertEqual(int(found["second_repl_offset"]), link.asked[1])

    @only(*REPLICAS)
    def scenario_that_is_silent_is_resumed_after_repl_timeout(self):
        primary, replica, link = self.synced({"repl-timeout": 2})
        link.send_commands(SELECT_0, ["SET", "k", "v"]).wait_ack().wait_closed(15)
        other = primary.link()
        self.assertEqual(other.asked, (REPLID, link.sent + 1))

    @only(*REPLICAS)
    def scenario_of_keys_in_the_past(self):
        """Times in the past do not remove a key; only the primary's DEL does."""
        primary, replica, link = self.synced()
        link.send_commands(SELECT_0, ["SET", "a", "1", "PXAT", "1000"], ["SET", "b", "1"], ["PEXPIREAT", "b", "1000"], ["SET", "c", "1"]).wait_ack()
        time.sleep(0.3)
        self.assertEqual(servers.values_of(replica, "GET a", "GET b", "EXISTS a b c", "DBSIZE"), [None, None, 1, 3])
        self.assertEqual(replica.info("stats")["expired_keys"], "0")
        link.send_commands(["PERSIST", "b"], ["DEL", "a"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET b", "DBSIZE"), [b"1", 2])

    @only(*REPLICAS)
    def scenario_is_refused_to_clients(self):
        primary, replica, link = self.synced()
        reply = servers.values_of(replica, "SET k v")[0]
        self.assertEqual(reply, Error(b"READONLY You can't write against a read only replica."))

    @only(*REPLICAS)
    def scenario_without_a_primary_refuses_reads_if_stale_data_may_not_be_served(self):
        primary, replica, link = self.synced({"replica-serve-stale-data": "no"}, rdb=self.rdb)
        self.values(replica, **{"from": b"rdb"})
        primary.close()
        until(lambda: servers.replication(replica)["master_link_status"] == "down", 10, "link down")
        reply = servers.values_of(replica, "GET from")[0]
        self.assertEqual(bytes(reply)[:11], b"MASTERDOWN ")
        self.assertNotIsInstance(servers.values_of(replica, "INFO")[0], Error)
        with self.client(replica) as client:
            client.must("CONFIG", "SET", "replica-serve-stale-data", "yes")
        self.values(replica, **{"from": b"rdb"})


class KilledTest(ReplicaCase):
    """A kill -9 of the replica at each step of a second full synchronization: then it has the old data or the new, not a part of either, and
    what it asks for fits what it has."""

    steps = ("header", "part", "rdb", "mark", "acknowledged", "stream")

    def advance(self, link, step, rdb):
        """The second synchronization, up to and including a step."""
        mark, at = b"m" * 40, self.steps.index(step)
        link.full_header(OTHER_REPLID, 1000).raw(b"$EOF:" + mark + b"\r\n")
        for number, data in enumerate((rdb[:len(rdb) // 2], rdb[len(rdb) // 2:], mark), 1):
            if at >= number:
                link.raw(data)
        if at >= 4:
            link.wait_ack()
        if at >= 5:
            link.send_commands(SELECT_0, ["SET", "stream", "new"])
            link.wait_ack()

    @only(*REPLICAS)
    def scenario_at_each_step(self):
        old = make_rdb(*[["SET", "k%d" % number, "old"] for number in range(300)])
        new = make_rdb(*[["SET", "k%d" % number, "new" * 100] for number in range(200, 600)])
        for step in self.steps:
            with self.subTest(step=step):
                primary = ScriptedPrimary()
                self.addCleanup(primary.close)
                replica = self.start("replica", {"appendonly": "yes", "appendfsync": "always", "replicaof": ["127.0.0.1", primary.port]})
                link = primary.link().full(old, offset=500).wait_ack()
                link.send_commands(SELECT_0, ["SET", "stream", "old"]).wait_ack().cut()
                until(lambda: servers.values_of(replica, "INFO persistence")[0].count(b"aof_rewrite_in_progress:0"), 20, "the log is written")
                self.advance(primary.link(), step, new)
                replica.restart(kill=True)
                self.check_whole(primary, replica)

    def check_whole(self, primary, replica):
        count, first, last, stream = servers.values_of(replica, "DBSIZE", "GET k250", "GET k599", "GET stream")
        state = {(301, b"old", None, b"old"): "old", (300, b"old", None, None): "old without its stream", (0, None, None, None): "empty",
                 (400, b"new" * 100, b"new" * 100, None): "new", (401, b"new" * 100, b"new" * 100, b"new"): "new"}.get((count, first, last, stream))
        self.assertIsNotNone(state, (count, first, last, stream))
        replid, offset = primary.link().asked
        if replid == REPLID:
            self.assertIn("old", state)
            self.assertIn((state, offset > 501), (("old", True), ("old without its stream", False)))
        elif replid == OTHER_REPLID:
            self.assertEqual(state, "new")
            self.assertEqual(offset > 1001, stream is not None)


class LieTest(ReplicaCase):
    """Kelvin only: redis-server ends its process on a corrupt RDB. The replica must live, log it, and take a good synchronization then."""

    def recovers(self, primary, replica):
        deadline = time.monotonic() + 30
        while True:
            link = primary.link()
            try:
                link.full(self.rdb, "length", OTHER_REPLID, 50).send_commands(SELECT_0, ["SET", "good", "1"]).wait_ack(timeout=5)
                break
            except (AssertionError, OSError):
                self.assertLess(time.monotonic(), deadline, "it takes no good synchronization any more")
        self.values(replica, good=b"1", **{"from": b"rdb"})
        self.assertTrue(replica.alive())

    @only(*KELVIN)
    def scenario_of_a_damaged_rdb(self):
        seed = seed_new()
        rng = random.Random(seed)
        rdb = make_rdb(*[["RPUSH", "l%d" % n, "v%d" % n, "w" * n] for n in range(60)], *[["XADD", "x%d" % n, "%d-1" % (n + 1), "a", "b"] for n in range(20)])
        primary, replica = self.scripted()
        for number in range(8):
            with self.subTest(seed=seed, number=number):
                data = bytearray(rdb)
                at = rng.randrange(9, len(data))
                data[at] ^= 1 << rng.randrange(8)
                link = primary.link().full(bytes(data), rng.choice(("eof", "length")), offset=1000)
                until(lambda: link.is_closed.is_set() or link.ack == 1000, 20, "refused, or loaded")
                # It may acknowledge while it loads, but nothing that it has not loaded.
                self.assertNotIn(1000, link.acks, "the RDB with a changed bit at %d was loaded" % at)
        self.recovers(primary, replica)

    @only(*KELVIN)
    def scenario_of_other_bytes_than_an_rdb(self):
        primary, replica = self.scripted()
        for data in (b"$5\r\nhello", b"$0\r\n", b"$-1\r\n", b"$99999999999999999999\r\n", b"$EOF:short\r\n", b"+OK\r\n", b"-ERR no\r\n", b"\0" * 100000, b"$EOF:" + b"m" * 40 + b"\r\n" + b"m" * 40,
                     b"$abc\r\n", b"x" * 100000, b"$10\r\nREDIS0099\xff"):
            with self.subTest(data=data[:60]):
                primary.link().full_header().raw(data).wait_closed()
        self.recovers(primary, replica)

    @only(*KELVIN)
    def scenario_of_bad_replies_to_psync(self):
        primary, replica = self.scripted()
        for line in (b"+FULLRESYNC\r\n", b"+FULLRESYNC %s\r\n" % REPLID, b"+FULLRESYNC short 1\r\n", b"+FULLRESYNC %s -5\r\n" % REPLID, b"+FULLRESYNC %s abc\r\n" % REPLID,
                     b"+CONTINUE zzz\r\n", b"+" + b"x" * 100000 + b"\r\n", b"$5\r\nhello\r\n", b"\xff\xfe\r\n"):
            with self.subTest(line=line[:60]):
                primary.link().raw(line).wait_closed()
        self.recovers(primary, replica)

    @only(*KELVIN)
    def scenario_of_hostile_bytes_in_the_stream(self):
        """The link ends or the command is counted as an error; the server lives, and does not end, move or load for it."""
        primary, replica, link = self.synced()
        for data in (b"*-1\r\n", b"*1000000000\r\n", b"*1\r\n$-5\r\n", b"*1\r\n$99999999999\r\n", b"\xff" * 300, b"*2\r\n$3\r\nSET\r\n:5\r\n", encode_all([["SHUTDOWN", "NOSAVE"]]),
                     encode_all([["REPLICAOF", "127.0.0.1", "1"]]), encode_all([["SLAVEOF", "NO", "ONE"]]), encode_all([["DEBUG", "SEGFAULT"]]), encode_all([["SELECT", "9999"]]),
                     encode_all([["EXEC"]]), encode_all([["MULTI"], ["MULTI"], ["EXEC"]]), encode_all([["MULTI"], ["NOSUCH"], ["EXEC"]]), encode_all([["BLPOP", "nothing", "0"]]),
                     encode_all([["SUBSCRIBE", "x"]]), encode_all([["MONITOR"]]), encode_all([["PSYNC", "?", "-1"]]), encode_all([["SYNC"]]), encode_all([["CLIENT", "PAUSE", "100000"]]),
                     encode_all([["WAIT", "1", "0"]]), encode_all([["FAILOVER"]]), encode_all([["QUIT"]]), encode_all([["RESET"]]), b"PING inline\r\n", b"\n\n\n"):
            with self.subTest(data=data[:60]):
                try:
                    link.send(data)
                    link.send_commands(SELECT_0, ["SET", "after", "1"])
                except OSError:
                    pass
                until(lambda: link.is_closed.is_set() or link.ack == link.sent, 20, "applied, or the link closed")
                self.assertTrue(replica.alive())
                if link.is_closed.is_set():
                    link = primary.link().full(self.empty, replid=OTHER_REPLID).wait_ack()
        self.assertEqual(servers.replication(replica)["master_port"], str(primary.port))
        link.cut()
        self.recovers(primary, replica)

    @only(*KELVIN)
    def scenario_of_offsets_that_no_memory_has(self):
        """In the stream as in the log that has it: an error that is counted, and no string of that size. redis-server ends its process."""
        far = ("SETRANGE k 9223372036854775807 x", "SETRANGE k 4611686018427387904 x", "SETRANGE k 1073741824 x", "SETBIT k 9223372036854775807 1",
               "SETBIT k 8589934592 1", "BITFIELD k SET u8 9223372036854775800 1", "BITFIELD k SET u8 #1152921504606846975 1", "BITFIELD k INCRBY i64 #134217728 1",
               "EVAL redis.pcall('SETRANGE',KEYS[1],ARGV[1],'x') 1 k 4611686018427387904")
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"appendonly": "yes", "proto-max-bulk-len": "1mb", "replicaof": ["127.0.0.1", primary.port]})
        link = primary.link().full(self.empty).wait_ack()
        commands = [line.split() for line in far]
        link.send_commands(SELECT_0, *commands, ["MULTI"], *commands, ["EXEC"], ["SETRANGE", "near", "2000000", "x"], ["SET", "after", "1"]).wait_ack()
        for _ in range(2):
            self.values(replica, after=b"1", k=None)
            self.assertEqual(servers.values_of(replica, "STRLEN near"), [2000001])
            replica.restart()


if __name__ == "__main__":
    main()
