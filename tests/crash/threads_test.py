"""A system that refuses new threads: operations that need one return an error, the server continues, and it can be shut down."""
import os
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import shim_path                                                                  # noqa: E402
from support.resp import OK, Closed, Error, Status                                                          # noqa: E402
from support.server import Server, is_sanitized, until                                              # noqa: E402

STARTED = Status(b"Background append only file rewriting started")


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class ThreadsTest(unittest.TestCase):
    def begin(self, **options):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.flag = os.path.join(folder, "no-threads")
        shim = os.path.join(os.path.dirname(shim_path()), "thread_shim.so")
        self.assertTrue(os.path.exists(shim), "make shim")
        self.server = Server(options, folder=folder, environment={"LD_PRELOAD": shim, "KELVIN_THREADS_REFUSED": self.flag})
        self.server.folder_is_ours = True
        self.addCleanup(self.server.discard)
        self.c = self.server.client(timeout=20)
        self.addCleanup(self.c.close)

    def refuse(self, refused=True):
        if refused:
            open(self.flag, "w").close()
        else:
            os.remove(self.flag)

    def fails(self, words, part):
        reply = self.c.call(*words)
        self.assertIsInstance(reply, Error, words)
        self.assertIn(part, reply)

    def test_operations_that_need_a_thread_return_errors(self):
        self.begin(appendonly="yes", maxmemory="100mb")
        for i in range(100):
            self.c.must("SET", "k%d" % i, i)
        self.refuse()
        self.fails(["BGREWRITEAOF"], b"ERR Can't execute an AOF background rewriting. Please check the server logs for more information.")
        self.fails(["BGSAVE"], b"could not create a thread")
        self.fails(["SAVE"], b"could not create a thread")
        self.fails(["CONFIG", "SET", "appendonly", "no"], b"could not create a thread")
        self.assertEqual(self.c.must("CONFIG", "GET", "appendonly"), [b"appendonly", b"yes"])
        self.fails(["TIER", "BACKUP", "backup"], b"could not create a thread")
        self.assertEqual(self.c.must("CONFIG", "SET", "tier-load-threads", 7), OK)
        info = self.server.info("persistence")
        for name in ("aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
            self.assertEqual(info[name], "err", name)
        for name in ("aof_rewrite_in_progress", "rdb_bgsave_in_progress"):
            self.assertEqual(info[name], "0", name)
        self.assertEqual(self.c.must("SET", "goes", "on"), OK)
        self.assertEqual(self.c.must("TIER", "DEMOTE", "k1", "k2"), 2)
        self.assertEqual(self.c.must("MGET", "k1", "k2"), [b"1", b"2"])
        self.refuse(False)
        self.assertEqual(self.c.must("SAVE"), OK)
        self.assertEqual(self.c.must("BGREWRITEAOF"), STARTED)
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0")
        self.c.must("TIER", "BACKUP", "backup")
        self.assertEqual(self.c.must("CONFIG", "SET", "appendonly", "no"), OK)
        until(lambda: self.server.info("persistence")["aof_enabled"] == "0")
        self.refuse()
        self.fails(["CONFIG", "SET", "appendonly", "yes"], b"could not create a thread")
        self.assertEqual(self.c.must("CONFIG", "GET", "appendonly"), [b"appendonly", b"no"])
        self.refuse(False)
        self.server.stop()

    def test_a_shutdown_without_a_thread(self):
        self.begin(appendonly="yes", maxmemory="100mb")
        self.c.must("SET", "k", "v")
        self.refuse()
        with self.assertRaises((Closed, OSError)):
            self.c.call("SHUTDOWN")
        self.assertEqual(self.server.wait_end(), 0)
        self.refuse(False)
        self.server.start()
        with self.server.client(timeout=20) as client:
            self.assertEqual(client.must("GET", "k"), b"v")
            self.refuse()
            self.server.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.server.wait_end(), 0)
        self.assertIsNone(self.server.alarm())

    def test_a_shutdown_that_is_refused_without_a_thread(self):
        self.begin(appendonly="no", save="3600 1", dbfilename="dump.rdb")
        self.c.must("SET", "k", "v")
        os.makedirs(os.path.join(self.server.folder, "dump.rdb", "x"))
        self.refuse()
        self.fails(["SHUTDOWN"], b"ERR Errors trying to SHUTDOWN. Check logs.")
        self.assertEqual(self.c.must("SET", "k", "w"), OK)
        os.rmdir(os.path.join(self.server.folder, "dump.rdb", "x"))
        os.rmdir(os.path.join(self.server.folder, "dump.rdb"))
        with self.assertRaises((Closed, OSError)):
            self.c.call("SHUTDOWN")
        self.assertEqual(self.server.wait_end(), 0)
        self.refuse(False)
        self.server.start()
        with self.server.client(timeout=20) as client:
            self.assertEqual(client.must("GET", "k"), b"w")
        self.server.stop()


if __name__ == "__main__":
    main()
