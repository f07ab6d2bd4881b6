"""A system that refuses new threads: operations that need one return an error, the server continues, and it can be shut down. Each thread that the
server starts is refused once."""
import glob
import os
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import kelvin_only, main                                                          # noqa: E402
from support.disk import shim_path                                                                  # noqa: E402
from support.resp import OK, Closed, Error, Status                                                          # noqa: E402
from support.server import ROOT, Server, is_sanitized, port_free, until                           # noqa: E402

# Without one of these the server does not start.
NEEDED = ["kelvin-worker", "kelvin-free", "kelvin-job", "kelvin-load", "kelvin-writer", "kelvin-compact", "kelvin-replay", "kelvin-flusher", "kelvin-http", "kelvin-page"]
# What they do is done in another way, later, or not at all.
SPARED = ["kelvin-fetch", "kelvin-maps", "kelvin-warm", "kelvin-close", "kelvin-train"]
# The command fails that needs it.
OF_COMMANDS = ["kelvin-rewrite", "kelvin-save", "kelvin-switch", "kelvin-backup", "kelvin-shutdown", "kelvin-reload", "kelvin-failover"]
# Of replication: it is tried again.
RETRIED = ["kelvin-sync", "kelvin-resync", "kelvin-link", "kelvin-lookup", "kelvin-applier"]
# The threads of a cluster's node, which the server does not start yet.
NOT_STARTED = ["kelvin-bus", "kelvin-export", "kelvin-lost", "kelvin-role"]

STARTED = Status(b"Background append only file rewriting started")


@kelvin_only
@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class ThreadsTest(unittest.TestCase):
    prefix = ()

    def begin(self, **options):
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.flag = os.path.join(folder, "no-threads")
        shim = os.path.join(os.path.dirname(shim_path()), "thread_shim.so")
        self.assertTrue(os.path.exists(shim), "make shim")
        self.server = Server(options, folder=folder, prefix=self.prefix, environment={"LD_PRELOAD": shim, "KELVIN_THREADS_REFUSED": self.flag})
        self.server.folder_is_ours = True
        self.addCleanup(self.server.discard)
        self.c = self.server.client(timeout=20)
        self.addCleanup(self.c.close)

    def refuse(self, refused=True, names=()):
        """Threads with these names; without names, all."""
        if refused:
            with open(self.flag + ".new", "w") as file:
                file.write("".join(name + "\n" for name in names))
            os.rename(self.flag + ".new", self.flag)
        else:
            os.remove(self.flag)

    def threads(self):
        """Names of the server's threads."""
        names = []
        for path in glob.glob("/proc/%d/task/*/comm" % self.server.process.pid):
            try:
                with open(path) as file:
                    names.append(file.read().strip())
            except OSError:             # it has ended
                pass
        return names

    def refused(self):
        """Names of the threads that were refused so far, in order."""
        if not os.path.exists(self.flag + ".log"):
            return []
        with open(self.flag + ".log") as file:
            return file.read().split()

    def test_every_thread_is_named_here(self):
        found = set()
        for folder, _, files in os.walk(os.path.join(ROOT, "src")):
            for name in files:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
                found.update(re.findall(r'(?:thread_start|thread_start_detached)\([^;]*?"(kelvin-\w+)"', text))
                found.update(re.findall(r'\[TASK_\w+\] = { "(kelvin-\w+)"', text))
        self.assertEqual(sorted(found), sorted(NEEDED + SPARED + OF_COMMANDS + RETRIED + NOT_STARTED))

    def test_a_start_without_a_thread_ends_with_its_reason(self):
        self.begin(**{"appendonly": "yes", "maxmemory": "100mb", "io-threads": 2, "metrics-port": port_free()})
        for i in range(100):
            self.c.must("SET", "k%d" % i, i)
        self.assertEqual(self.server.terminate(), 0)
        for name in NEEDED:
            self.refuse(names=[name])
            self.server.launch()
            self.assertEqual(self.server.wait_end(), 1, name)
            self.assertEqual(self.refused()[-1], name)
            self.assertRegex(self.server.log_new(), b"(Can't start the .*|no )thread.*Resource temporarily unavailable", name)
            self.assertNotIn(b"eady to accept", self.server.log_new())
            self.assertIsNone(self.server.alarm(), name)
        self.refuse(False)
        self.server.start()
        with self.server.client(timeout=20) as client:
            self.assertEqual(client.must("DBSIZE"), 100)
        self.server.stop()

    def test_a_start_does_without_the_threads_that_only_make_it_faster(self):
        self.begin(appendonly="yes", maxmemory="100mb")
        for i in range(3000):
            self.c.must("SET", "k%d" % i, i)
        self.assertEqual(self.c.must("TIER", "DEMOTE", *["k%d" % i for i in range(3000)]), 3000)
        self.assertEqual(self.c.must("BGREWRITEAOF"), STARTED)
        until(lambda: self.server.info("persistence")["aof_rewrite_in_progress"] == "0")
        for i in range(3000):
            self.c.must("APPEND", "k%d" % i, "x")
        self.assertEqual(self.server.terminate(), 0)
        self.refuse(names=["kelvin-fetch", "kelvin-maps", "kelvin-warm"])
        self.server.start()
        with self.server.client(timeout=20) as client:
            self.assertEqual(client.must("MGET", "k0", "k2999"), [b"0x", b"2999x"])
            self.assertEqual(client.must("DBSIZE"), 3000)
        maps = ["kelvin-maps"] if len(os.sched_getaffinity(0)) > 1 else []
        self.assertEqual(sorted(set(self.refused())), ["kelvin-fetch", *maps, "kelvin-warm"])
        self.assertIn(b"The keys that were hot are not brought back: no thread", self.server.log())
        self.assertNotEqual(self.server.info("tiering")["tier_warmup_state"], "running")
        self.server.stop()

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
        self.fails(["CONFIG", "SET", "metrics-port", port_free()], b"Can't start the thread of metrics-port")
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
        until(lambda: "kelvin-switch" not in self.threads())       # it would do the next switch as well
        self.refuse()
        self.fails(["CONFIG", "SET", "appendonly", "yes"], b"could not create a thread")
        self.assertEqual(self.c.must("CONFIG", "GET", "appendonly"), [b"appendonly", b"no"])
        self.refuse(False)
        self.server.stop()

    def test_values_are_compressed_without_a_dictionary_if_there_is_no_thread(self):
        self.begin(**{"tier-compression": "zstd", "tier-dictionary-after": "64kb"})
        self.refuse(names=["kelvin-train"])
        written = 0
        while not self.refused():
            keys = ["k%d" % i for i in range(written, written + 500)]
            self.c.pipeline([["SET", key, b"the value of %s is a value like others" % key.encode() * 4] for key in keys])
            self.assertEqual(self.c.must("TIER", "DEMOTE", *keys), 500)
            written += 500
            self.assertLess(written, 100000)
        self.refuse(False)
        self.assertEqual(set(self.refused()), {"kelvin-train"})
        info = self.server.info("tiering")
        self.assertEqual(info["tier_dictionaries"], "0")
        self.assertGreater(int(info["tier_compressed_records"]), 0)
        self.assertEqual(self.c.must("GET", "k0"), b"the value of k0 is a value like others" * 4)
        self.server.stop()

    def test_a_scheduled_rewrite_comes_when_there_is_a_thread(self):
        self.begin(appendonly="yes")
        for i in range(100):
            self.c.must("SET", "k%d" % i, "v")
        self.c.must("CONFIG", "SET", "rdb-key-save-delay", 10000000)
        self.c.must("BGSAVE")
        until(lambda: self.server.info("persistence")["rdb_bgsave_in_progress"] == "1", what="the save")
        self.assertEqual(self.c.must("BGREWRITEAOF"), Status(b"Background append only file rewriting scheduled"))
        self.refuse(names=["kelvin-rewrite"])
        self.c.must("CONFIG", "SET", "rdb-key-save-delay", 0)
        until(lambda: self.refused()[-1:] == ["kelvin-rewrite"], 40, "the attempt to start it")
        until(lambda: self.server.info("persistence")["aof_rewrite_scheduled"] == "1", what="it is not forgotten")
        self.refuse(False)
        until(lambda: self.server.info("persistence")["aof_rewrites"] == "1", 40, "the rewrite")
        self.assertEqual(self.server.info("persistence")["aof_rewrite_scheduled"], "0")
        self.server.stop()

    def test_commands_fail_one_by_one(self):
        self.begin(appendonly="yes", maxmemory="100mb")
        self.c.must("SET", "k", "v")
        for name, words in (("kelvin-rewrite", ["BGREWRITEAOF"]), ("kelvin-save", ["BGSAVE"]), ("kelvin-reload", ["DEBUG", "RELOAD"]),
                            ("kelvin-backup", ["TIER", "BACKUP", "backup"]), ("kelvin-switch", ["CONFIG", "SET", "appendonly", "no"])):
            self.refuse(names=[name])
            self.assertIsInstance(self.c.call(*words), Error, name)
            self.assertEqual(self.refused()[-1], name)
        self.refuse(names=["kelvin-shutdown"])
        self.assertEqual(self.c.must("GET", "k"), b"v")
        with self.assertRaises((Closed, OSError)):
            self.c.call("SHUTDOWN")
        self.assertEqual(self.server.wait_end(), 0)
        self.assertEqual(self.refused()[-1], "kelvin-shutdown")
        self.assertIsNone(self.server.alarm())

    def test_replication_tries_again(self):
        """The link, the look-up of a name, the full synchronization, its load and the applier of a replica; FAILOVER and the closer of a primary."""
        self.begin(**{"maxmemory": "100mb", "repl-diskless-sync-delay": 0})
        primary, on_primary, primary_flag = self.server, self.c, self.flag
        for i in range(100):
            on_primary.must("SET", "k%d" % i, i)
        self.begin(maxmemory="100mb")
        for name in ("kelvin-link", "kelvin-lookup", "kelvin-resync", "kelvin-applier"):
            self.refuse(names=[name])
            self.c.call("REPLICAOF", "localhost", primary.port)
            until(lambda: self.refused()[-1:] == [name], what=name)
            self.refuse(False)
            until(lambda: self.server.info("replication")["master_link_status"] == "up", what="the link after " + name)
            until(lambda: self.c.call("DBSIZE") == 100, what="the data after " + name)
            self.c.must("REPLICAOF", "NO", "ONE")
            self.c.must("FLUSHALL")
        replica_flag, self.flag = self.flag, primary_flag
        self.refuse(names=["kelvin-sync", "kelvin-close"])
        self.c.must("REPLICAOF", "127.0.0.1", primary.port)
        until(lambda: "kelvin-sync" in self.refused())
        self.refuse(names=["kelvin-close", "kelvin-failover"])
        until(lambda: self.server.info("replication")["master_link_status"] == "up")
        until(lambda: primary.info("replication").get("slave0", "").count("state=online") == 1)
        self.assertIsInstance(on_primary.call("FAILOVER"), Error)
        self.assertEqual(self.refused()[-1], "kelvin-failover")
        until(lambda: "kelvin-close" in self.refused(), what="the end of the image")
        self.refuse(False)
        self.flag = replica_flag
        on_primary.must("SET", "last", 1)
        until(lambda: self.c.call("GET", "last") == b"1")
        for server in (primary, self.server):
            self.assertIsNone(server.alarm())

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
