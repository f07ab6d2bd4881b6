#!/usr/bin/python3
"""Full synchronizations between two Kelvins by the files of an image: what is there afterwards, what clients see, who gets an RDB instead, hostile
images, full disks and kills."""
import errno
import os
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.bound import MB, value_of
from support.disk import DELAY, FAIL, KILL_AFTER, KILL_BEFORE, KILL_MIDDLE
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_clock, with_disk
from support.replication.load import Load, fill_all_types
from support.replication.recorder import Recorder
from support.replication.scripted import ScriptedPrimary, make_rdb
from support.resp import NULL_ARRAY, Error, Status
from support.server import is_sanitized, redis_tool, scaled, seed_new, temporary_files, until

RECEIVED, SENT = "*temp-*.link/*", "*temp-*.sync/*"
SELECT_0 = ["SELECT", "0"]
KELVINS, LIBRARY = "kelvin-kelvin", "#!lua name=l\\nredis.register_function('f', function() return 7 end)"


class ImageCase(ReplicationCase):
    def by(self, primary, *replicas):
        """How the replicas were synchronized the last time."""
        servers.wait_in_sync(primary, *replicas)
        return [servers.replication(replica)["master_last_sync"] for replica in replicas]

    def synced_by_image(self, primary, *replicas, least=1):
        self.assertEqual(self.by(primary, *replicas), ["image"] * len(replicas), primary.log_tail(1500) + replicas[-1].log_tail(1500))
        return self.same(primary, *replicas, least=least)

    def leftovers(self, server):
        return temporary_files(server.folder)

    def no_leftovers(self, *all_of_them):
        for server in all_of_them:
            until(lambda: not self.leftovers(server), 20, "no temporary files: %s" % self.leftovers(server))

    def cold(self, server):
        return int(server.info("tiering")["tier_cold_keys"])


class DataTest(ImageCase):
    @only(KELVINS)
    def scenario_of_all_types_times_and_functions(self):
        primary, replica = self.start("primary"), self.start("replica")
        fill_all_types(primary)
        servers.must(primary, 'FUNCTION LOAD "%s"' % LIBRARY, "SET soon 1 PX 5000000", "HSET h f v", "HEXPIRE h 10000 FIELDS 1 f")
        servers.must(replica, "SET old 1", "SELECT 5", "SET old 2", 'FUNCTION LOAD "%s"' % LIBRARY.replace("name=l", "name=other"))
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=16 * 8 * 10)
        self.assertEqual(servers.values_of(replica, "GET soon", "GET old"), [b"1", None])
        self.assertEqual(servers.count_of(primary, "sync_full_image"), 1)
        self.no_leftovers(primary, replica)
        # The stream goes on, and so does a partial resynchronization.
        servers.must(primary, "SET after 1", "SELECT 7", "RPUSH list 1 2 3")
        servers.cut_links(primary)
        servers.must(primary, "SET later 1")
        self.synced_by_image(primary, replica, least=16 * 8 * 10)
        self.assertEqual((servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")), (1, 1))

    @only(KELVINS)
    def scenario_of_an_empty_server(self):
        primary, replica = self.start("primary"), self.start("replica")
        servers.must(replica, "SET old 1", 'FUNCTION LOAD "%s"' % LIBRARY)
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=0)
        self.assertEqual(servers.values_of(replica, "DBSIZE", "FUNCTION LIST"), [0, []])

    @only(KELVINS)
    def scenario_of_more_than_memory(self):
        """Most keys are cold on both sides, and neither comes to need more memory."""
        options = {"maxmemory": 24 * MB, "maxmemory-policy": "noeviction"}
        primary, replica = self.start("primary", options), self.start("replica", options)
        count, size = scaled(12000), 5000
        with primary.client(timeout=60) as client:
            for at in range(0, count, 50):
                client.pipeline([["SET", "k%d" % number, value_of(number, size)] for number in range(at, at + 50)])
        until(lambda: self.cold(primary) > count // 3 or is_sanitized(), 30, "cold keys")
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=count)

    @only(KELVINS)
    def scenario_under_load_with_demotions(self):
        seed = seed_new()
        primary, replica = self.start("primary", {"io-threads": 4}), self.start("replica", {"io-threads": 4})
        fill_all_types(primary)
        ended = threading.Event()

        def demote(server):
            with server.client(timeout=60) as client:
                while not ended.is_set():
                    names = client.call("KEYS", "*")
                    for name in names[:50] if isinstance(names, list) else []:
                        client.call("TIER", "DEMOTE", name)
                    time.sleep(0.01)
        threads = [threading.Thread(target=demote, args=(server,)) for server in (primary, replica)]
        with self.subTest(seed=seed), Load(primary, seed) as load:
            for thread in threads:
                thread.start()
            try:
                for _ in range(3):
                    load.wait_for(scaled(500))
                    servers.make_replica(replica, primary, wait=False)
                    servers.until(lambda: servers.link_is_up(replica), servers.SYNC_LIMIT_S, "link up")
                    load.wait_for(scaled(500))
                    servers.must(replica, "REPLICAOF NO ONE", "SET own 1")
                servers.make_replica(replica, primary, wait=False)
                load.wait_for(scaled(500))
            finally:
                ended.set()
                for thread in threads:
                    thread.join()
            load.stop()
            self.synced_by_image(primary, replica, least=10)
        self.assertEqual(servers.count_of(primary, "sync_full_image"), 4)
        self.assertEqual(servers.count_of(primary, "sync_full"), 4)

    @only(KELVINS)
    def scenario_of_three_replicas_and_one_image(self):
        primary = self.start("primary", {"repl-diskless-sync-delay": 2, "repl-diskless-sync-max-replicas": 3})
        fill_all_types(primary, databases=4)
        replicas = [self.start("replica") for _ in range(3)]
        for replica in replicas:
            servers.make_replica(replica, primary, wait=False)
        until(lambda: all(map(servers.link_is_up, replicas)), servers.SYNC_LIMIT_S, "links up")
        self.synced_by_image(primary, *replicas, least=4 * 8 * 10)
        self.assertEqual(servers.count_of(primary, "sync_full_image"), 3)
        self.assertEqual(primary.log().count(b"Starting a full synchronization"), 1)

    @only(KELVINS)
    def scenario_of_a_chain(self):
        """The middle one's stream is the primary's, byte for byte: the selected database comes with the image."""
        primary, middle, last = self.start("primary"), self.start("replica"), self.start("replica")
        fill_all_types(primary, databases=3)
        servers.make_replica(middle, primary)
        with self.client(primary) as client:
            client.must("SELECT", 2)
            client.must("SET", "two", "1")
            servers.wait_in_sync(primary, middle)
            servers.make_replica(last, middle, wait=False)
            until(lambda: servers.link_is_up(last), servers.SYNC_LIMIT_S, "the last one is up")
            client.must("SET", "two", "2")
        servers.wait_in_sync(primary, middle)
        servers.wait_in_sync(middle, last)
        self.synced_by_image(primary, middle, least=3 * 8 * 10)
        self.assertEqual(self.by(middle, last), ["image"])
        self.same(middle, last, least=3 * 8 * 10)
        self.assertEqual(servers.values_of(last, "SELECT 2", "GET two"), [Status(b"OK"), b"2"])
        # One more of the middle: the last one is disconnected, and gets the new data.
        servers.must(middle, "REPLICAOF NO ONE", "SET own 1")
        servers.make_replica(middle, primary)
        servers.wait_in_sync(middle, last)
        self.same(primary, middle, least=3 * 8 * 10)
        self.same(middle, last, least=3 * 8 * 10)


class NestedTest(ImageCase):
    def nested(self, **options):
        """While a replica is sending its own data to another one it gets all new data."""
        first, second = self.start("primary", options), self.start("primary", options)
        middle, last = self.start("replica", options), self.start("replica", options)
        fill_all_types(first, databases=6)
        fill_all_types(second, databases=2)
        servers.must(second, "SET second 1")
        servers.make_replica(middle, first)
        servers.set_config(middle, rdb_key_save_delay=20000, repl_image_sync="no")
        servers.make_replica(last, middle, wait=False)
        until(lambda: "slave0" in servers.replication(middle), 20, "it has begun")
        servers.must(middle, "REPLICAOF %s %d" % second.address)
        servers.set_config(middle, rdb_key_save_delay=0, **({} if options else {"repl_image_sync": "yes"}))
        servers.wait_in_sync(second, middle)
        servers.wait_in_sync(middle, last)
        self.same(second, middle, least=2 * 8 * 10)
        self.same(middle, last, least=2 * 8 * 10)

    @only(KELVINS)
    def scenario_of_images(self):
        self.nested()

    @only(KELVINS)
    def scenario_of_rdbs(self):
        self.nested(**{"repl-image-sync": "no"})


class LogTest(ImageCase):
    @only(KELVINS)
    def scenario_of_a_replica_with_a_log(self):
        options = {"appendonly": "yes", "appendfsync": "always"}
        primary, replica = self.start("primary", options), self.start("replica", options)
        fill_all_types(primary, databases=4)
        servers.must(primary, 'FUNCTION LOAD "%s"' % LIBRARY)
        servers.must(replica, "SET old 1")
        servers.make_replica(replica, primary)
        until(lambda: replica.info("persistence")["aof_enabled"] == "1" and replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the log")
        servers.must(primary, "SET after 1")
        self.synced_by_image(primary, replica, least=4 * 8 * 10)
        for kill in (False, True):
            replica.restart(kill=kill)
            servers.make_replica(replica, primary)
            self.same(primary, replica, least=4 * 8 * 10)
            servers.must(primary, "INCR counter")
        self.same(primary, replica, least=4 * 8 * 10)
        self.assertEqual((servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")), (1, 2))
        # Its data has the primary's hash seed now, over the restarts, so it is a primary whose images fit, too.
        servers.must(replica, "REPLICAOF NO ONE", "SET promoted 1")
        servers.make_replica(primary, replica)
        self.same(replica, primary, least=4 * 8 * 10)

    @only(KELVINS)
    def scenario_of_a_replica_without_a_log_that_restarts(self):
        primary, replica = self.start("primary"), self.start("replica")
        fill_all_types(primary, databases=2)
        for _ in range(2):
            servers.make_replica(replica, primary)
            self.same(primary, replica, least=2 * 8 * 10)
            replica.restart()
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=2 * 8 * 10)


    @unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
    @only(KELVINS)
    def scenario_of_a_log_that_clients_switch_meanwhile(self):
        """The load waits for the end of a rewrite before it switches the log off, and clients switch it off and on again."""
        for by in ("yes", "no"):
            with self.subTest(image=by):
                primary = self.start("primary", {"repl-image-sync": by})
                replica, disk = with_disk(self, "replica", {"appendonly": "yes"})
                fill_all_types(primary, databases=2)
                servers.must(replica, "SET own 1")
                disk.rule(0, "sync", "*.base.image*", DELAY, last=1, delay_us=2000000)
                servers.must(replica, "BGREWRITEAOF")
                until(lambda: disk.matched(0) > 0, 20, "it rewrites")
                servers.make_replica(replica, primary, wait=False)
                until(lambda: servers.values_of(replica, "GET own")[0] != b"1", 20, "it has received all, and loads")
                servers.must(replica, "CONFIG SET appendonly no", "CONFIG SET appendonly yes")
                self.assertEqual(self.by(primary, replica), ["image" if by == "yes" else "rdb"])
                self.same(primary, replica)
                until(lambda: replica.info("persistence")["aof_enabled"] == "1", 20, "the log is on again")


class ClientsTest(ImageCase):
    def blocked(self, server):
        return int(server.info("clients")["blocked_clients"])

    @only(KELVINS)
    def scenario_of_blocked_clients_and_watched_keys(self):
        """With another hash seed those that wait are disconnected; with the same one they go on waiting, and are served."""
        primary, replica = self.start("primary"), self.start("replica", {"replica-read-only": "no"})
        fill_all_types(primary, databases=2)
        waiting, watching = self.client(replica, timeout=60), self.client(replica)
        watching.must("WATCH", "nothing")
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=2 * 8 * 10)
        self.assertEqual(watching.run("MULTI"), Status(b"OK"))
        watching.run("PING")
        self.assertEqual(watching.run("EXEC"), NULL_ARRAY)
        waiting.send(b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n$7\r\nSTREAMS\r\n$3\r\nnew\r\n$1\r\n$\r\n")
        until(lambda: self.blocked(replica) == 1, 10, "blocked")
        servers.must(replica, "REPLICAOF NO ONE", "SET own 1")
        self.assertEqual(self.blocked(replica), 1)

    @only(KELVINS)
    def scenario_of_one_that_waits_while_the_seed_changes(self):
        first, second, replica = self.start("primary"), self.start("primary"), self.start("replica")
        fill_all_types(first, databases=2)
        fill_all_types(second, databases=2)
        servers.must(second, "SET second 1")
        servers.make_replica(replica, first)
        waiting = self.client(replica, timeout=60)
        waiting.send(b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n$7\r\nSTREAMS\r\n$3\r\nnew\r\n$1\r\n$\r\n")
        until(lambda: self.blocked(replica) == 1, 10, "blocked")
        servers.make_replica(replica, second)
        self.synced_by_image(second, replica, least=2 * 8 * 10)
        reply = waiting.receive()
        self.assertIsInstance(reply, Error)
        self.assertIn(b"UNBLOCKED", reply)

    @only(KELVINS)
    def scenario_of_one_that_waits_while_the_seed_stays(self):
        primary, replica = self.start("primary", {"repl-backlog-size": 16384, "repl-backlog-disk-size": 0}), self.start("replica")
        fill_all_types(primary, databases=2)
        servers.make_replica(replica, primary)
        waiting = self.client(replica, timeout=60)
        waiting.send(b"*6\r\n$5\r\nXREAD\r\n$5\r\nBLOCK\r\n$1\r\n0\r\n$7\r\nSTREAMS\r\n$3\r\nnew\r\n$1\r\n$\r\n")
        until(lambda: self.blocked(replica) == 1, 10, "blocked")
        with servers.stopped(replica):
            servers.cut_links(primary)
            until(lambda: servers.replication(primary)["connected_slaves"] == "0", 20, "gone")
            with primary.client() as client:
                for number in range(300):
                    client.must("SET", "more%d" % number, value_of(number, 100000))
        self.synced_by_image(primary, replica, least=2 * 8 * 10)
        self.assertEqual(servers.count_of(primary, "sync_full_image"), 2)
        self.assertEqual(self.blocked(replica), 1)
        servers.must(primary, "XADD new 1-1 f v")
        self.assertEqual(waiting.receive(), [[b"new", [[b"1-1", [b"f", b"v"]]]]])

    @only(KELVINS)
    def scenario_of_readers_meanwhile(self):
        """They get old data, LOADING, or new data; never a key of one that is not there."""
        primary, replica = self.start("primary"), self.start("replica", {"io-threads": 4})
        with primary.client() as one, replica.client() as other:
            for number in range(2000):
                one.must("SET", "k%d" % number, "new")
                other.must("SET", "k%d" % number, "old")
        ended, wrong, seen = threading.Event(), [], set()

        def read(number):
            with replica.client(timeout=60) as client:
                while not ended.is_set():
                    for reply in client.pipeline([["GET", "k%d" % (at * 7 % 2000)] for at in range(number, number + 50)]):
                        text = bytes(reply) if reply is not None else None
                        seen.add(text if text in (b"old", b"new") else b"other")
                        if text not in (b"old", b"new") and not (isinstance(reply, Error) and reply.startswith(b"LOADING")):
                            wrong.append(reply)
                    number += 50
        threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        servers.make_replica(replica, primary)
        time.sleep(0.3)
        ended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong[:5], [])
        self.assertLessEqual({b"old", b"new"}, seen)
        self.synced_by_image(primary, replica, least=2000)


class AgreementTest(ImageCase):
    def synced_by(self, kind, primary_options, replica_options):
        primary, replica = self.start("primary", primary_options), self.start("replica", replica_options)
        fill_all_types(primary, databases=2)
        servers.make_replica(replica, primary)
        self.same(primary, replica, least=2 * 8 * 10)
        self.assertEqual((self.by(primary, replica), servers.count_of(primary, "sync_full_image")), ([kind], int(kind == "image")))

    @only(KELVINS)
    def scenario_of_an_rdb_where_they_do_not_agree(self):
        for options in (({"repl-image-sync": "no"}, {}), ({}, {"repl-image-sync": "no"}), ({"partitions": 4}, {}), ({}, {"tier-enabled": "no"}), ({"databases": 16}, {"databases": 8})):
            with self.subTest(options=options):
                self.synced_by("rdb", *options)

    @only(KELVINS)
    def scenario_of_an_image_where_they_do(self):
        for options in (({"databases": 4}, {"databases": 16}), ({"partitions": 4}, {"partitions": 4})):
            with self.subTest(options=options):
                self.synced_by("image", *options)

    @only("kelvin-redis", "redis-kelvin")
    def scenario_of_redis_server(self):
        primary, replica = self.pair()
        servers.must(primary, "SET k v")
        self.same(primary, replica)
        for server in (primary, replica):
            self.assertIn(server.info("stats").get("sync_full_image", "0"), ("0",))
            self.assertIn(servers.replication(server).get("master_last_sync", "rdb"), ("rdb",))

    @only(KELVINS)
    def scenario_of_tools_that_want_an_rdb(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=2)
        path = os.path.join(primary.folder, "copy.rdb")
        subprocess.run([redis_tool("redis-cli"), "-p", str(primary.port), "--rdb", path], check=True, capture_output=True, timeout=60)
        with open(path, "rb") as file:
            self.assertEqual(file.read(5), b"REDIS")
        os.unlink(path)
        for offer in ("kelvin-image:5:64:16", "kelvin-image:9:64", "kelvin-image:9:64:16:1", "kelvin-image:", "kelvin-image:x:64:16", "kelvin-image:9:64:-1"):
            recorder = Recorder(primary.address, capa=("eof", "psync2", offer)).full().wait_loaded()
            self.assertEqual(recorder.rdb[:5], b"REDIS", offer)
            recorder.cut()
        self.assertEqual(servers.count_of(primary, "sync_full_image"), 0)


class HostileTest(ImageCase):
    """A primary whose image is none: the old data stays, and the replica asks for an RDB next."""

    def attempt(self, send):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica")
        servers.must(replica, "SET old 1")
        servers.make_replica(replica, primary, wait=False)
        link = primary.link()
        self.assertTrue(any(word.startswith(b"kelvin-image:9:") for args in link.handshake for word in args), link.handshake)
        link.full_header()
        try:
            send(link)
        except OSError:
            pass                    # the replica has seen enough before all was sent
        return primary, replica, link

    def then_an_rdb(self, primary, replica):
        link = primary.link()
        self.assertFalse(any(word.startswith(b"kelvin-image") for args in link.handshake for word in args), link.handshake)
        self.assertEqual(servers.must(replica, "GET old"), b"1")
        link.full(make_rdb(["SET", "from", "rdb"])).wait_ack()
        link.send_commands(SELECT_0, ["SET", "k", "v"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET from", "GET k", "GET old"), [b"rdb", b"v", None])
        self.no_leftovers(replica)

    @only("redis-kelvin")
    def scenario_of_bytes_that_are_no_image(self):
        for data in (b"x" * 1000, b"REDIS0011" + b"x" * 100, b"KELVINIM" + bytes(32)):
            with self.subTest(data=data[:10]):
                primary, replica, link = self.attempt(lambda link: link.raw(b"$IMAGE:%d\r\n" % len(data) + data))
                self.then_an_rdb(primary, replica)
                self.assertIn(b"the image is damaged", replica.log())

    @only("redis-kelvin")
    def scenario_of_one_that_ends_early(self):
        primary, replica, link = self.attempt(lambda link: link.raw(b"$IMAGE:10\r\nKELVINIM\2\0"))
        self.then_an_rdb(primary, replica)

    @only("redis-kelvin")
    def scenario_of_one_that_was_not_asked_for(self):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"repl-image-sync": "no"})
        servers.must(replica, "SET old 1")
        servers.make_replica(replica, primary, wait=False)
        primary.link().full_header().raw(b"$IMAGE:40\r\n").wait_closed()
        self.then_an_rdb(primary, replica)
        self.assertIn(b"none was asked for", replica.log())

    @only("redis-kelvin")
    def scenario_of_one_whose_length_is_invalid(self):
        primary, replica, link = self.attempt(lambda link: link.raw(b"$IMAGE:-1\r\n"))
        link.wait_closed()
        self.assertEqual(servers.must(replica, "GET old"), b"1")

    @only("redis-kelvin")
    def scenario_of_a_real_image_with_a_changed_byte(self):
        """Wherever the byte is, up to what only the opening of the store finds."""
        source = self.start("replica")
        fill_all_types(source, databases=2)
        recorder = Recorder(source.address, capa=("eof", "psync2", "kelvin-image:9:64:16"))
        archive = self.receive_image(recorder)
        for at in (9, 45, len(archive) // 2, len(archive) - 3):
            with self.subTest(at=at, size=len(archive)):
                data = archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1:]
                primary, replica, link = self.attempt(lambda link: link.raw(b"$IMAGE:%d\r\n" % len(data) + data))
                self.then_an_rdb(primary, replica)

    def receive_image(self, recorder):
        recorder.connect()
        self.addCleanup(recorder.socket.close)
        recorder.socket.sendall(b"PSYNC ? -1\r\n")
        data = b""
        while b"$IMAGE:" not in data or data.count(b"\n", data.index(b"$IMAGE:")) < 1:
            data += recorder.socket.recv(1 << 16)
        header, data = data[data.index(b"$IMAGE:"):].split(b"\r\n", 1)
        size = int(header[7:])
        while len(data) < size:
            data += recorder.socket.recv(1 << 16)
        return data[:size]


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class DiskTest(ImageCase):
    @only(KELVINS)
    def scenario_of_a_full_disk_of_the_replica(self):
        """The old data is served on, and when there is room it goes on by itself: by RDB, which takes less room."""
        for kinds in ("write", "create", "sync"):
            with self.subTest(kinds=kinds):
                primary = self.start("primary")
                fill_all_types(primary, databases=3)
                replica, disk = with_disk(self, "replica")
                servers.must(replica, "SET old 1")
                disk.rule(0, kinds, RECEIVED, FAIL, error=errno.ENOSPC)
                servers.make_replica(replica, primary, wait=False)
                until(lambda: b"No space left on device" in replica.log(), 30, "the log says so")
                self.assertEqual(servers.must(replica, "GET old"), b"1")
                disk.heal()
                self.assertEqual(self.by(primary, replica), ["rdb"])
                self.same(primary, replica, least=3 * 8 * 10)
                self.no_leftovers(primary, replica)

    @only(KELVINS)
    def scenario_of_two_images_of_one_time(self):
        """The clock stands still: the second image has a name of its own while a replica still reads the first one."""
        primary, clock = with_clock(self, "primary")
        clock.stop_at(1700000000123)
        with primary.client(timeout=60) as client:
            client.pipeline([["SET", "k%d" % number, value_of(number, 50000)] for number in range(600)])
        slow, disk = with_disk(self, "replica")
        other = self.start("replica")
        disk.rule(0, "write", RECEIVED, DELAY, delay_us=200000)
        servers.make_replica(slow, primary, wait=False)
        until(lambda: primary.log().count(b"the image for the replicas is complete") == 1, 30, "its image")
        with servers.stopped(slow):
            servers.make_replica(other, primary)
            self.assertEqual(self.by(primary, other), ["image"])
            self.assertEqual(primary.log().count(b"the image for the replicas is complete"), 2)
        disk.heal()
        self.synced_by_image(primary, slow, other, least=600)
        self.no_leftovers(primary, slow, other)

    @only(KELVINS)
    def scenario_of_a_full_disk_of_the_primary(self):
        primary, disk = with_disk(self, "primary")
        fill_all_types(primary, databases=3)
        replica = self.start("replica")
        servers.must(replica, "SET old 1")
        disk.rule(0, "create mkdir", "*temp-*.sync*", FAIL, error=errno.ENOSPC)
        servers.make_replica(replica, primary, wait=False)
        until(lambda: b"Full sync failed" in primary.log(), 30, "the log says so")
        self.assertEqual(servers.must(replica, "GET old"), b"1")
        servers.must(primary, "SET meanwhile 1")
        disk.heal()
        self.synced_by_image(primary, replica, least=3 * 8 * 10)
        self.no_leftovers(primary, replica)

    @only(KELVINS)
    def scenario_of_a_replica_that_is_killed(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=3)
        replica, disk = with_disk(self, "replica", {"appendonly": "yes"})
        servers.must(replica, "SET old 1")
        for kinds, action in (("create", KILL_BEFORE), ("write", KILL_MIDDLE), ("sync", KILL_AFTER), ("unlink", KILL_BEFORE)):
            with self.subTest(kinds=kinds, action=action):
                disk.rule(0, kinds, RECEIVED, action, first=2, last=2)
                servers.make_replica(replica, primary, wait=False)
                until(lambda: not replica.alive(), 20, "killed")
                disk.heal()
                replica.start()
                self.assertEqual(self.leftovers(replica), [])
                self.assertIn(servers.must(replica, "GET old"), (b"1", None) if kinds == "unlink" else (b"1",))
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=3 * 8 * 10)

    @only(KELVINS)
    def scenario_of_a_primary_that_is_killed(self):
        primary, disk = with_disk(self, "primary", {"appendonly": "yes"})
        primary.options["port"] = primary.port
        fill_all_types(primary, databases=3)
        replica = self.start("replica")
        servers.must(replica, "SET old 1")
        for kinds, action in (("create", KILL_AFTER), ("rename", KILL_AFTER), ("unlink", KILL_BEFORE)):
            with self.subTest(kinds=kinds, action=action):
                disk.rule(0, kinds, "*temp-*.sync*", action, first=1, last=1)
                servers.make_replica(replica, primary, wait=False)
                until(lambda: not primary.alive(), 20, "killed")
                disk.heal()
                primary.start()
                self.assertEqual(self.leftovers(primary), [])
                servers.must(replica, "REPLICAOF NO ONE", "SET own 1")
        servers.make_replica(replica, primary)
        self.synced_by_image(primary, replica, least=3 * 8 * 10)

    @only(KELVINS)
    def scenario_of_a_link_that_breaks(self):
        primary, replica = self.start("primary"), self.start("replica")
        with primary.client(timeout=60) as client:
            for number in range(scaled(400)):
                client.must("SET", "k%d" % number, value_of(number, 100000))
        servers.must(replica, "SET old 1")
        for _ in range(3):
            servers.make_replica(replica, primary, wait=False)
            # On a busy machine it may be over before anyone looks.
            until(lambda: servers.replication(replica)["master_sync_in_progress"] == "1" or servers.replication(replica)["master_link_status"] == "up", 20, "it begins")
            servers.cut_links(primary)
        self.synced_by_image(primary, replica, least=scaled(400))
        self.no_leftovers(primary, replica)


if __name__ == "__main__":
    main()
