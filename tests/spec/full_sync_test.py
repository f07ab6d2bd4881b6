"""The RDB of a full synchronization: one file for several replicas, what it says about the stream, full and failing disks, kills, and what
runs beside it. Replicas are recorders (support/replication/recorder.py), and a redis-server that begins with the recorded file."""
import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from crash.disk_test import SmallDisk                                                              # noqa: E402
from support.case import main                                                                      # noqa: E402
from support.disk import FAIL, Disk                                                                # noqa: E402
from support.replication import servers                                                            # noqa: E402
from support.replication.readings import check_same                                                # noqa: E402
from support.replication.recorder import Recorder                                                  # noqa: E402
from support.resp import OK, Closed, Error, Status, encode                                                       # noqa: E402
from support.server import Server, is_redis, redis_tool, temporary_files as leftovers, until       # noqa: E402

FILE = "temp-*.sync.rdb"
STARTED = b"Starting a full synchronization"


def aux_of(rdb):
    """The aux fields, as redis-check-rdb shows them; fails if the file is not correct."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(rdb)
        file.flush()
        text = subprocess.run([redis_tool("redis-check-rdb"), file.name], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "RDB looks OK" in text, text
    return dict(line.split("AUX FIELD ")[1].replace("'", "").split(" = ", 1) for line in text.splitlines() if "AUX FIELD" in line)


def space_of(folder):
    size = os.statvfs(folder)
    return size.f_bavail * size.f_frsize


@unittest.skipIf(is_redis(), "the files of one's own server")
class FullSyncTest(unittest.TestCase):
    def start(self, options=None, **more):
        server = Server({"appendonly": "no", "save": "", "repl-diskless-sync-delay": 0, "enable-debug-command": "yes", "rdbcompression": "no",
                         **(options or {})}, **more)
        self.addCleanup(server.discard)
        return server

    def recorder(self, server, **more):
        recorder = Recorder(server.address, **more)
        self.addCleanup(lambda: recorder.thread and recorder.cut())
        return recorder

    def fill(self, server, keys, size=100):
        with server.client() as client:
            self.assertEqual(client.must("DEBUG", "POPULATE", keys, "key", size), OK)

    def set(self, server, name, value):
        with server.client() as client:
            self.assertEqual(client.must("CONFIG", "SET", name, value), OK)

    def begin(self, server):
        """A full synchronization that is so slow that it does not end by itself; returns its replica when the file has begun."""
        self.set(server, "rdb-key-save-delay", 200000)
        recorder = self.recorder(server).full()
        self.set(server, "rdb-key-save-delay", 0)
        return recorder

    def test_a_server_continues_from_the_position_in_the_file(self):
        primary = self.start()
        with primary.client() as client:
            for database in (0, 3, 7):
                client.must("SELECT", database)
                client.must("RPUSH", "list", database, "b", "c")
                client.must("HSET", "hash", *[word for i in range(100) for word in ("f%d" % i, i)])
            client.must("SETEX", "soon", 1000, "v")
        recorder = self.recorder(primary).full().wait_loaded()
        aux = aux_of(recorder.rdb)
        self.assertEqual((aux["repl-id"], int(aux["repl-offset"])), (recorder.id.decode(), recorder.start))
        self.assertEqual((aux["redis-bits"], aux["aof-base"]), ("64", "0"))
        self.assertIn(aux["repl-stream-db"], [str(number) for number in range(16)])
        self.assertNotIn("kelvin-id", aux)
        with primary.client() as client:                    # what the replica has to get by a partial synchronization
            client.must("SELECT", 3)
            client.must("RPUSH", "list", "d")
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, True)
        with open(os.path.join(folder, "dump.rdb"), "wb") as file:
            file.write(recorder.rdb)
        replica = servers.start("redis", {"replicaof": "%s %d" % primary.address, "save": ""}, folder=folder)
        self.addCleanup(replica.discard)
        until(lambda: servers.link_is_up(replica), 30, "the link")
        self.assertGreater(check_same(primary, replica), 6)
        self.assertIn("Successful partial resynchronization with master", replica.log_tail(20000))
        self.assertEqual(primary.log().count(STARTED), 1)

    def test_a_replica_that_does_not_read_is_disconnected(self):
        """Longer than repl-timeout: it would keep the files of the full synchronization for ever. One that waits for the next bytes stays."""
        server = self.start({"repl-timeout": 2, "partitions": 16})
        self.fill(server, 20000, 1000)
        for capa in (("eof", "psync2"), ("psync2",), ("kelvin-image:9:16:16", "psync2")):
            with self.subTest(capa=capa):
                silent = self.recorder(server, capa=capa)
                silent.connect()
                silent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                silent.socket.sendall(b"PSYNC ? -1\r\n")
                until(lambda: "state=send_bulk" in str(servers.replication(server)), 20, "it is sent the data")
                until(lambda: servers.replication(server)["connected_slaves"] == "0", 20, "it is disconnected")
                self.assertIn("Disconnecting timedout replica", server.log_new().decode())
                until(lambda: not leftovers(server.folder), 20, "no files")
                silent.socket.close()
        self.assertEqual(servers.count_of(server, "sync_full_image"), 1)
        self.set(server, "rdb-key-save-delay", 300)
        waiting = self.recorder(server).full().wait_loaded()
        self.assertGreater(len(waiting.rdb), 20000 * 1000)

    def test_a_client_that_is_closed_in_the_turn_of_its_sync(self):
        """Its socket does not take the reply before it any more."""
        server = self.start({"io-threads": 1})
        with server.client() as busy, server.client() as client:
            busy.send(encode(["DEBUG", "SLEEP", "0.3"]))
            client.send(encode(["PING"]) + encode(["SYNC"]))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.close()              # a reset, before the server reads
            self.assertEqual(busy.receive(), OK)
        with server.client() as client:
            until(lambda: servers.replication(server)["connected_slaves"] == "0", 20, "no replica is left")
            self.assertEqual(client.must("PING"), Status(b"PONG"))
        server.stop()

    def test_replicas_read_one_file_at_their_own_pace(self):
        server = self.start({"repl-diskless-sync-delay": 1, "maxmemory": "50mb"})
        self.fill(server, 40000, 1000)
        fast, slow = self.recorder(server), self.recorder(server)
        slow.stop_reading()
        for replica in (fast, slow):
            replica.connect()
            replica.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            replica.socket.sendall(b"PSYNC ? -1\r\n")
        for replica in (fast, slow):
            words = replica.read_line().split()
            self.assertEqual(words[0], b"+FULLRESYNC")
            replica.id, replica.start = words[1], int(words[2])
            replica.record()
        fast.wait_loaded()
        self.assertFalse(slow.is_loaded.is_set())
        self.assertEqual(leftovers(server.folder), [])      # the image was removed; the file has no name
        self.fill(server, 100)
        with server.client() as client:
            client.must("SET", "later", 1)
        slow.read_on()
        slow.wait_loaded()
        self.assertEqual(len(fast.rdb), len(slow.rdb))
        self.assertTrue(fast.rdb == slow.rdb)
        self.assertGreater(len(fast.rdb), 40000000)
        self.assertEqual(server.log().count(STARTED), 1)
        until(lambda: b"later" in fast.stream and len(fast.stream) == len(slow.stream), 30, "the stream")
        self.assertEqual(bytes(fast.stream), bytes(slow.stream))

    def ends(self, server):
        """A full synchronization that fails: the connection ends, before the first byte of the RDB or after it."""
        try:
            recorder = self.recorder(server).full()
            until(lambda: recorder.failure, 60, "the end of the connection")
        except Closed:
            pass
        until(lambda: b"Full sync failed" in server.log(), 60, "the failure")

    def fails_once(self, kinds, error, keys, message):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        disk = Disk(folder)
        self.addCleanup(disk.remove)
        server = self.start({"appendonly": "yes"}, folder=folder, environment=disk.environment)
        self.fill(server, keys, 1000)
        disk.rule(0, kinds, FILE, FAIL, error=error)
        self.ends(server)
        self.assertIn(message, server.log_tail())
        self.assertGreater(disk.acted, 0)
        until(lambda: leftovers(folder) == [], 30, "the removal of the image")
        with server.client() as client:
            self.assertEqual(client.must("SET", "k", "v"), OK)
        disk.heal()
        with self.subTest("the next one"):
            again = self.recorder(server).full().wait_loaded()
            self.assertEqual(aux_of(again.rdb)["repl-offset"], str(again.start))
        server.stop()

    def test_a_full_disk_ends_it_and_nothing_else(self):
        self.fails_once("write", errno.ENOSPC, 10000, "Full sync failed: Write error saving the RDB file: No space left on device")

    def test_a_failing_disk_ends_it_and_nothing_else(self):
        self.fails_once("sync", errno.EIO, 50000, "Full sync failed: Write error saving the RDB file: Input/output error")

    def test_the_last_room_on_the_disk_is_left_to_the_log(self):
        disk = SmallDisk(200)
        self.addCleanup(disk.close)
        if not disk.available:
            self.skipTest("no tmpfs in a mount namespace")
        server = self.start({"appendonly": "yes", "maxmemory": "100mb", "dir": disk.path}, prefix=disk.prefix)
        self.fill(server, 55000, 1000)
        with server.client() as client:
            client.must("BGREWRITEAOF")
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the rewrite")
        until(lambda: space_of(disk.outside) > 110000000, 20, "the old log is closed, so that its space is free")
        free = space_of(disk.outside) - 40000000            # less than the file will have
        with open(os.path.join(disk.outside, "filler"), "wb") as file:
            file.write(bytes(free))
        self.ends(server)
        self.assertIn("the disk is nearly full: what is left is for the writes of clients", server.log_tail())
        with server.client() as client:
            self.assertEqual(client.must("SET", "k", "v" * 1000), OK)
        server.stop()

    def test_a_kill_leaves_an_image_until_the_next_start(self):
        server = self.start({"appendonly": "yes"})
        self.fill(server, 100)
        self.begin(server)
        self.assertEqual([name.split(".", 1)[1] for name in leftovers(server.folder)], ["sync"])
        server.kill9()
        server.start()
        self.assertEqual(leftovers(server.folder), [])
        with server.client() as client:
            self.assertEqual(client.must("DBSIZE"), 100)
        server.stop()

    def test_the_end_of_the_server_does_not_wait_for_it(self):
        for how in (["SHUTDOWN"], ["SHUTDOWN", "NOSAVE"], ["SHUTDOWN", "SAVE"]):
            with self.subTest(how):
                server = self.start({"shutdown-timeout": 0})
                self.fill(server, 10000)
                self.begin(server)
                with server.client() as client:
                    client.send(encode(how))
                    self.assertEqual(server.process.wait(60), 0)
                self.assertEqual(leftovers(server.folder), [])

    def test_saves_and_rewrites_run_beside_it(self):
        server = self.start({"appendonly": "yes"})
        self.fill(server, 10000)
        recorder = self.begin(server)
        with server.client() as client:
            self.assertEqual(client.must("BGSAVE"), Status(b"Background saving started"))
            until(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == "0", 60, "the save")
            self.assertEqual(server.info("persistence")["rdb_last_bgsave_status"], "ok")
            self.assertNotIsInstance(client.call("BGREWRITEAOF"), Error)
            until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 60, "the rewrite")
            self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")
        self.assertFalse(recorder.is_loaded.is_set())
        recorder.check()
        recorder.cut()
        until(lambda: leftovers(server.folder) == [], 60, "the end of the full synchronization that no replica waits for")
        self.recorder(server).full().wait_loaded()
        server.stop()


if __name__ == "__main__":
    main()
