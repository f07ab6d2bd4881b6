#!/usr/bin/python3
"""Bad luck: full disks, kills at each step, replicas that stop, clocks that jump, primaries that change, during full synchronizations and
the stream."""
import errno
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import FIXED, MB, rss_peak, rss_peak_reset, value_of
from support.disk import FAIL, KILL_AFTER, KILL_BEFORE, KILL_MIDDLE
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_clock, with_disk
from support.replication.load import Load, fill_all_types
from support.replication.readings import check_same
from support.replication.recorder import Recorder
from support.resp import OK, Error, encode
from support.server import is_sanitized, scaled, seed_new, temporary_files, until

FROM_KELVIN, INTO_KELVIN = ("kelvin-redis", "kelvin-kelvin"), ("redis-kelvin", "kelvin-kelvin")
SIZE = 100 * 1000
COUNT = scaled(600)
RDB, RECEIVED, SPOOL, INBOX = "*temp-*.sync.rdb", "*temp-*.link.rdb", "*temp-*.backlog", "*temp-*.inbox"


def write(server, count, keys=50, prefix="k"):
    """Values of SIZE bytes that do not compress, over a number of keys."""
    with server.client(timeout=60) as client:
        for at in range(0, count, 20):
            for reply in client.pipeline([["SET", "%s%d" % (prefix, number % keys), value_of(number, SIZE)] for number in range(at, at + 20)]):
                if isinstance(reply, Error):
                    raise AssertionError(bytes(reply).decode())


class BadLuckCase(ReplicationCase):
    """Synchronizations between two Kelvins are by RDB here; image_test.py has the same for images."""

    def start(self, role, options=None, **more):
        by_rdb = {} if {"primary": self.primary_kind, "replica": self.replica_kind}.get(role, role) == "redis" else {"repl-image-sync": "no"}
        return super().start(role, {**by_rdb, **(options or {})}, **more)

    def syncs(self, primary):
        return servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")

    def with_disk(self, role, options=None):
        return with_disk(self, role, options)

    def with_clock(self, role, options=None):
        return with_clock(self, role, options)

    def values(self, server, **wanted):
        with server.client() as client:
            self.assertEqual({name: client.must("GET", name) for name in wanted}, wanted)

    def wait_log(self, server, text, timeout=30):
        try:
            until(lambda: text in server.log_new(), timeout, "in the log: %r" % text)
        except AssertionError as error:
            raise AssertionError("%s\n%s" % (error, server.log_tail(3000))) from None


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class FullDiskTest(BadLuckCase):
    @only(*FROM_KELVIN)
    def scenario_of_the_primary_during_a_full_sync(self):
        """The replica keeps what it has, the primary serves; when there is room it goes on by itself."""
        for error in (errno.ENOSPC, errno.EIO):
            with self.subTest(error=errno.errorcode[error]):
                primary, disk = self.with_disk("primary")
                fill_all_types(primary, databases=3)
                replica = self.start("replica")
                servers.must(replica, "SET old 1")
                disk.rule(0, "write", RDB, FAIL, error=error)
                servers.make_replica(replica, primary, wait=False)
                self.wait_log(primary, b"Full sync failed")
                servers.must(primary, "SET meanwhile 1")
                self.values(replica, old=b"1")
                disk.heal()
                self.same(primary, replica, least=3 * 8 * 10)

    @only(*FROM_KELVIN)
    def scenario_of_the_primary_during_the_stream(self):
        """A replica that does not read loses its place when its bytes can't be kept; clients write on."""
        primary, disk = self.with_disk("primary", {"repl-backlog-disk-size": 1024 * MB})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        recorder.stop_reading()
        disk.rule(0, "write create", SPOOL, FAIL, error=errno.ENOSPC)
        write(primary, COUNT)
        until(lambda: disk.acted > 0, 20, "the spool is to be written")
        recorder.read_on()
        self.wait_log(primary, b"could not be written to the disk")
        # The one that reads is not disturbed; the lost one gets everything again.
        servers.wait_in_sync(primary, replica)
        disk.heal()
        recorder.cut()
        self.assertFalse(recorder.resume())
        recorder.wait_loaded().level(primary)
        self.same(primary, replica, least=50)
        self.assertEqual(self.syncs(primary), (3, 0))

    @only(*FROM_KELVIN)
    def scenario_of_the_primarys_log(self):
        """What the log does not have is not sent, but a byte now and then: replicas take silence for a dead primary. And one that comes back is taken."""
        primary, disk = self.with_disk("primary", {"appendonly": "yes"})
        recorder = Recorder(primary.address).full().wait_loaded()
        self.addCleanup(recorder.cut)
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        servers.wait_in_sync(primary, replica)
        disk.rule(0, "write", "*.aof", FAIL, error=errno.ENOSPC)
        writer = self.client(primary, timeout=60)
        writer.send(encode(["SET", "k", "v"]))          # the reply comes once it is in the log
        until(lambda: primary.info("persistence")["aof_last_write_status"] == "err", 20, "the log is in error")
        offset = recorder.offset
        until(lambda: recorder.offset >= offset + 3, 30, "bytes of the stream")
        self.assertIsNone(recorder.failure)
        if self.replica_kind == "kelvin":
            servers.cut_links(primary)
            until(lambda: servers.count_of(primary, "sync_partial_ok") == 1 and servers.link_is_up(replica), 30, "the link is up again")
        self.assertEqual(primary.info("persistence")["aof_last_write_status"], "err")
        disk.heal()
        self.assertEqual(writer.receive(), OK)
        self.same(primary, replica, least=1)
        self.assertEqual(servers.values_of(replica, "GET k"), [b"v"])

    @only(*INTO_KELVIN)
    def scenario_of_the_replica_during_a_full_sync(self):
        for kinds in ("write", "create"):
            with self.subTest(kinds=kinds):
                primary = self.start("primary")
                fill_all_types(primary, databases=3)
                replica, disk = self.with_disk("replica")
                servers.must(replica, "SET old 1")
                disk.rule(0, kinds, RECEIVED, FAIL, error=errno.ENOSPC)
                servers.make_replica(replica, primary, wait=False)
                self.wait_log(replica, b"No space left on device")
                self.values(replica, old=b"1")
                disk.heal()
                self.same(primary, replica, least=3 * 8 * 10)

    @only(*INTO_KELVIN)
    def scenario_of_the_replica_during_the_stream(self):
        """What it has received and can't keep it asks for again."""
        primary = self.start("primary", {"repl-backlog-size": 512 * MB})
        replica, disk = self.with_disk("replica", {"busy-reply-threshold": 100})
        servers.make_replica(replica, primary)
        disk.rule(0, "write create", INBOX, FAIL, error=errno.ENOSPC)
        with self.client(replica, timeout=60) as client:
            client.send(encode(["EVAL_RO", "redis.call('GET', KEYS[1]); while true do end", 1, "k1"]))
            write(primary, COUNT)
            until(lambda: disk.acted > 0, 30, "the inbox is to be written")
            with self.client(replica) as other:
                other.call("SCRIPT", "KILL")
            client.receive()
        disk.heal()
        self.same(primary, replica, least=50)

    @only(*INTO_KELVIN)
    def scenario_of_the_replicas_log(self):
        """The stream is applied, but acknowledged as synced only when it is; after a kill nothing is there twice."""
        options = {"appendonly": "yes", "appendfsync": "always", "repl-backlog-size": 64 * MB}
        primary = self.start("primary", options)
        replica, disk = self.with_disk("replica", dict(options, **{"replica-ignore-disk-write-errors": "yes"}))
        servers.make_replica(replica, primary)
        until(lambda: replica.info("persistence")["aof_enabled"] == "1" and replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the log")
        seed = seed_new()
        with self.subTest(seed=seed), Load(primary, seed) as load:
            load.wait_for(scaled(300))
            disk.rule(0, "write", "*.aof", FAIL, error=errno.ENOSPC)
            load.wait_for(scaled(600))
            until(lambda: disk.acted > 0, 20, "writes of the log")
            disk.heal()
            load.wait_for(scaled(300))
            load.stop()
            self.same(primary, replica, least=5)
        replica.restart(kill=True)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=5)


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class KilledTest(BadLuckCase):
    """Kill -9 before, during and after each change that a full synchronization makes on the disk; afterwards the synchronization succeeds, and
    no file is left."""

    ACTIONS = (("create", KILL_BEFORE), ("create", KILL_AFTER), ("write", KILL_MIDDLE), ("write", KILL_AFTER), ("unlink", KILL_BEFORE), ("unlink", KILL_AFTER))

    def leftovers(self, server):
        return temporary_files(server.folder)

    def killed(self, server, disk, pattern, begin):
        """Returns how often the server was killed."""
        count = 0
        for kinds, action in self.ACTIONS:
            with self.subTest(kinds=kinds, action=action):
                disk.rule(0, kinds, pattern, action, first=1, last=1)
                begin()
                until(lambda: not server.alive(), 20, "killed")
                disk.heal()
                server.start()
                self.assertEqual(self.leftovers(server), [])
                count += 1
        return count

    @only(*FROM_KELVIN)
    def scenario_of_the_primary(self):
        primary, disk = self.with_disk("primary", {"appendonly": "yes"})
        primary.options["port"] = primary.port
        fill_all_types(primary, databases=4)

        def begin():
            recorder = Recorder(primary.address).connect()
            self.addCleanup(recorder.socket.close)
            try:
                recorder.psync()
            except OSError:
                pass
        self.assertEqual(self.killed(primary, disk, RDB, begin), 6)
        replica = self.start("replica")
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=4 * 8 * 10)

    @only(*INTO_KELVIN)
    def scenario_of_the_replica(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=4)
        replica, disk = self.with_disk("replica", {"appendonly": "yes"})
        self.assertEqual(self.killed(replica, disk, RECEIVED, lambda: servers.make_replica(replica, primary, wait=False)), 6)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=4 * 8 * 10)

    @only(*FROM_KELVIN)
    def scenario_of_the_middle_of_a_chain(self):
        seed = seed_new()
        primary, middle = self.start("primary", {"repl-backlog-size": 64 * MB}), self.started(servers.start("kelvin", {"appendonly": "yes"}))
        middle.options["port"] = middle.port
        last = self.start("replica")
        servers.make_replica(middle, primary)
        servers.make_replica(last, middle)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            for _ in range(3):
                load.wait_for(scaled(200))
                middle.restart(kill=True)
                servers.make_replica(middle, primary, wait=False)
            load.wait_for(scaled(200))
            load.stop()
            servers.wait_in_sync(primary, middle)
            servers.wait_in_sync(middle, last)
            self.assertGreaterEqual(check_same(primary, middle, last), 5)


class StoppedTest(BadLuckCase):
    @only(*FROM_KELVIN)
    def scenario_replica_costs_the_primary_no_memory_and_continues(self):
        """Longer than repl-timeout: its connection ends, its place is kept."""
        limit = 64 * MB
        primary = self.start("primary", {"maxmemory": limit, "maxmemory-policy": "noeviction", "repl-timeout": 2, "repl-ping-replica-period": 1,
                                          "repl-backlog-disk-size": 1024 * MB})
        replica = self.start("replica", {"repl-timeout": 2})
        servers.make_replica(replica, primary)
        rss_peak_reset(primary.process.pid)
        with servers.stopped(replica):
            write(primary, COUNT * 3)
            until(lambda: servers.replication(primary)["connected_slaves"] == "0", 20, "the stopped replica is disconnected")
            write(primary, COUNT)
        self.same(primary, replica, least=50)
        if not is_sanitized():
            self.assertLess(rss_peak(primary.process.pid) // MB, (limit * 11 // 10 + FIXED + 20 * SIZE) // MB, "peak RSS in MB")
        self.assertEqual(self.syncs(primary), (1, 1))

    @only(*FROM_KELVIN)
    def scenario_replica_that_lacks_more_than_the_disk_may_take_gets_everything(self):
        primary = self.start("primary", {"repl-timeout": 2, "repl-ping-replica-period": 1, "repl-backlog-disk-size": 2 * MB})
        replica = self.start("replica", {"repl-timeout": 2})
        servers.make_replica(replica, primary)
        with servers.stopped(replica):
            write(primary, COUNT)
            until(lambda: servers.replication(primary)["connected_slaves"] == "0", 20, "the stopped replica is disconnected")
            self.assertLessEqual(int(servers.replication(primary).get("repl_backlog_disk_bytes", 0)), 2 * MB)
        self.same(primary, replica, least=50)
        self.assertEqual(self.syncs(primary), (2, 0))


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class ClockTest(BadLuckCase):
    HOUR = 3600 * 1000
    FAST = {"repl-timeout": 3, "repl-ping-replica-period": 1}

    def scenario_of_the_primary_jumps(self):
        """Forward: what is due expires on both. Back: PINGs go on, and nothing is disconnected (redis-server takes a jump forward for silence)."""
        primary, clock = self.with_clock("primary", self.FAST)
        replica = self.start("replica", self.FAST)
        servers.make_replica(replica, primary)
        servers.must(primary, "SET soon 1 EX 1000", "SET later 1 EX 100000", "SET never 1")
        before = self.syncs(primary)
        clock.jump(self.HOUR)
        until(lambda: servers.must(replica, "DBSIZE") == 2, 20, "the key that has expired on the primary is deleted on the replica")
        self.same(primary, replica, least=2)
        clock.jump(-2 * self.HOUR)
        until(lambda: "up" == servers.replication(replica)["master_link_status"], 20, "the link")
        count = self.syncs(primary)
        # Longer than repl-timeout.
        time.sleep(5)
        servers.must(primary, "SET after 1")
        self.same(primary, replica, least=3)
        self.assertEqual(self.syncs(primary), count)
        if self.primary_kind == "kelvin":
            self.assertEqual(count, before)

    @only(*FROM_KELVIN)
    def scenario_of_the_primary_jumps_before_a_full_sync(self):
        """What is due after some seconds is not due after an hour then."""
        primary, clock = self.with_clock("primary", {"repl-diskless-sync-delay": 1})
        servers.must(primary, "SET k v")
        replica = self.start("replica")
        servers.make_replica(replica, primary, wait=False)
        self.wait_log(primary, b"Full resynchronization requested")
        clock.jump(-self.HOUR)
        self.same(primary, replica)

    def scenario_of_the_replica_jumps(self):
        """Clients read what has expired by its clock as absent; it is still there, and comes back with the clock."""
        primary = self.start("primary", self.FAST)
        replica, clock = self.with_clock("replica", self.FAST)
        servers.make_replica(replica, primary)
        servers.must(primary, "SET soon 1 EX 1000", "HSET h f 1", "EXPIRE h 1000", "SET never 1", "HSET fields f 1 g 2")
        if self.primary_kind == self.replica_kind == "kelvin":
            servers.must(primary, "HEXPIRE fields 1000 FIELDS 1 f")
        servers.wait_in_sync(primary, replica)
        if self.replica_kind == "kelvin":
            servers.must(replica, "TIER DEMOTE soon h fields")
        clock.jump(self.HOUR)
        self.assertEqual(servers.values_of(replica, "GET soon", "HGET h f", "GET never", "DBSIZE"), [None, None, b"1", 4])
        if self.primary_kind == self.replica_kind == "kelvin":
            self.assertEqual(servers.values_of(replica, "HGET fields f", "HGET fields g", "HGETALL fields"), [None, b"2", [b"g", b"2"]])
        servers.must(primary, "APPEND soon 2", "HSET h g 2")
        servers.wait_in_sync(primary, replica)
        clock.jump(-self.HOUR)
        self.assertEqual(servers.values_of(replica, "GET soon", "HGET h g", "HGET fields f"), [b"12", b"2", b"1"])
        self.same(primary, replica, least=4)


class ChangesTest(BadLuckCase):
    @only(*FROM_KELVIN, "redis-kelvin")
    def scenario_of_whole_databases_during_full_syncs_under_load(self):
        seed = seed_new()
        primary, replica = self.start("primary", {"repl-backlog-size": 64 * MB}), self.start("replica")
        fill_all_types(primary)
        ended = threading.Event()

        def change():
            with primary.client(timeout=60) as client:
                for number in range(10000):
                    if ended.is_set():
                        return
                    client.must("SELECT", number % 16)
                    client.must("MSET", "a", number, "b", number)
                    client.must("SWAPDB", number % 16, number * 7 % 16)
                    client.must("FLUSHDB", "ASYNC" if number % 2 else "SYNC") if number % 5 == 0 else None
                    client.must("FLUSHALL") if number % 40 == 0 else None
        thread = threading.Thread(target=change, daemon=True)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            thread.start()
            for _ in range(3):
                servers.must(replica, "REPLICAOF NO ONE")
                servers.must(replica, "SET own 1")
                servers.make_replica(replica, primary, wait=False)
                until(lambda: servers.link_is_up(replica), servers.SYNC_LIMIT_S, "the link")
                load.wait_for(scaled(300))
            ended.set()
            thread.join(60)
            load.stop()
            servers.must(primary, "SET last 1")
            self.same(primary, replica)

    @only(*FROM_KELVIN, "redis-kelvin")
    def scenario_of_functions_and_scripts(self):
        """Libraries are loaded, replaced and deleted while a full synchronization runs and in the stream, in transactions, too."""
        primary, replica = self.start("primary"), self.start("replica")
        source = "#!lua name=l%d\nredis.register_function('f%d', function(keys, args) redis.call('SET', keys[1], '%d'); redis.call('INCR', 'calls') return %d end)"
        with self.client(primary, timeout=60) as client:
            for number in range(scaled(100)):
                one = number % 5
                client.must("FUNCTION", "LOAD", "REPLACE", source % (one, one, number, number))
                self.assertEqual(client.must("FCALL", "f%d" % one, 1, "k%d" % one), number)
                client.must("MULTI")
                client.must("FUNCTION", "DELETE", "l%d" % one)
                client.must("SET", "deleted", number)
                client.must("EVAL", "redis.call('SET', KEYS[1], ARGV[1]); redis.call('LPUSH', KEYS[2], ARGV[1]); return 1", 2, "s", "l", number)
                client.must("FUNCTION", "LOAD", source % (one, one, number, number)) if number % 2 else None
                client.must("EXEC")
                servers.make_replica(replica, primary, wait=False) if number == 10 else None
            client.must("FUNCTION", "LOAD", "REPLACE", source % (9, 9, 9, 9))
            dump = client.must("FUNCTION", "DUMP")
            client.must("FUNCTION", "FLUSH")
            client.must("FUNCTION", "RESTORE", dump)
        self.same(primary, replica, least=5)
        self.assertEqual(sorted(map(repr, servers.must(replica, "FUNCTION LIST"))), sorted(map(repr, servers.must(primary, "FUNCTION LIST"))))

    def scenario_of_the_primary_fifty_times(self):
        """Two primaries with different data; the replica ends with the last one's, and follows it."""
        first, second, replica = self.start("primary"), self.start("primary"), self.start("replica")
        fill_all_types(first, databases=2)
        fill_all_types(second, databases=3)
        servers.must(first, "SET whose first")
        servers.must(second, "SET whose second")
        with self.client(replica, timeout=60) as client:
            for number in range(50):
                reply = client.call("REPLICAOF", *(first, second)[number % 2].address)
                # redis-server replies so while it loads.
                self.assertTrue(not isinstance(reply, Error) or bytes(reply).startswith(b"LOADING"), reply)
                time.sleep(0.01 * (number % 7))
            until(lambda: not isinstance(client.call("REPLICAOF", *second.address), Error), 20, "the last one")
        servers.must(second, "SET after 1")
        self.same(second, replica, least=3 * 8 * 10)
        self.values(replica, whose=b"second", after=b"1")


class SeveralTest(BadLuckCase):
    @only("kelvin-redis")
    def scenario_of_which_one_leaves_during_the_rdb(self):
        primary = self.start("primary", {"repl-diskless-sync-delay": 1, "repl-diskless-sync-max-replicas": 3})
        write(primary, scaled(100), keys=100)
        recorders = [Recorder(primary.address) for _ in range(3)]
        for recorder in recorders:
            self.addCleanup(recorder.cut)
            recorder.connect()
        recorders[0].stop_reading()
        threads = [threading.Thread(target=lambda recorder=recorder: recorder.psync()) for recorder in recorders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        for recorder in recorders:
            recorder.record()
        recorders[0].cut()
        for recorder in recorders[1:]:
            recorder.wait_loaded()
        servers.must(primary, "SET after 1")
        for recorder in recorders[1:]:
            recorder.level(primary)
        self.assertEqual((self.syncs(primary)[0], primary.log().count(b"Starting a full synchronization")), (3, 1))
        self.assertEqual(recorders[1].rdb, recorders[2].rdb)
        again = Recorder(primary.address).full().wait_loaded().level(primary)
        self.addCleanup(again.cut)
        self.assertEqual(self.syncs(primary)[0], 4)


class SmallReplicaTest(BadLuckCase):
    @only(*INTO_KELVIN)
    def scenario_is_read_by_clients_meanwhile(self):
        """It demotes, evicts nothing, stays in its bound, and each read returns a whole value."""
        limit, keys = 64 * MB, COUNT
        primary = self.start("primary", {"repl-backlog-size": 512 * MB, "client-output-buffer-limit": ["replica", "0", "0", "0"]})
        write(primary, keys, keys)
        replica = self.start("replica", {"maxmemory": limit, "maxmemory-policy": "allkeys-lru"})
        servers.make_replica(replica, primary)
        ended, wrong = threading.Event(), []

        def read(first):
            try:
                with replica.client(timeout=60) as client:
                    number = first
                    while not ended.is_set():
                        number = (number * 31 + 7) % keys
                        value = client.must("GET", "k%d" % number)
                        if value is None or len(value) != SIZE:
                            wrong.append((number, value and len(value)))
                            return
            except (OSError, AssertionError) as error:
                wrong.append(error)
        readers = [threading.Thread(target=read, args=(first,), daemon=True) for first in range(3)]
        rss_peak_reset(replica.process.pid)
        for reader in readers:
            reader.start()
        write(primary, keys * 2, keys)
        servers.wait_in_sync(primary, replica, timeout=90)
        ended.set()
        for reader in readers:
            reader.join(60)
        self.assertEqual(wrong, [])
        if not is_sanitized():
            # More than the bound of a primary, limit * 1.1 + FIXED: 89 to 100 MB were measured with values of 100 KB.
            self.assertLess(rss_peak(replica.process.pid) // MB, (limit * 14 // 10 + FIXED + 30 * SIZE) // MB, "peak RSS in MB")
        self.assertEqual((servers.must(replica, "DBSIZE"), replica.info("stats")["evicted_keys"]), (keys, "0"))
        self.same(primary, replica, least=keys)


if __name__ == "__main__":
    main()
