#!/usr/bin/python3
"""A change of the role in an unlucky instant: what was received but is not applied, an RDB that is just complete, a script that has only published,
records that can't be read, ACKs that are not true."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.disk import DELAY
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_disk
from support.replication.recorder import Recorder
from support.replication.scripted import ScriptedPrimary, make_rdb
from support.resp import Error, Status
from support.server import is_sanitized, until

KELVIN = ("redis-kelvin",)
BUSY = "EVAL \"while true do end\" 1 held"


class Command(threading.Thread):
    """One that waits for its reply."""

    def __init__(self, case, server, line):
        super().__init__()
        self.client, self.line, self.reply = case.client(server, timeout=60), line, None
        self.start()

    def run(self):
        self.reply = self.client.run(self.line)

    def wait(self):
        self.join(60)
        return self.reply


class PromotionCase(ReplicationCase):
    def synced(self, options=None):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", {"busy-reply-threshold": 1, **(options or {})})
        servers.make_replica(replica, primary, wait=False)
        link = primary.link().full(make_rdb()).wait_ack()
        until(lambda: servers.replication(replica)["master_link_status"] == "up", 10, "up")
        return primary, replica, link

    def wait_log(self, server, text):
        until(lambda: text in server.log(), 30, "in the log: %r" % text)

    def busy_script(self, server, line):
        """A script that ends when it is killed."""
        client = self.client(server, timeout=60)
        client.send(line.encode() + b"\r\n")
        until(lambda: isinstance(servers.values_of(server, "GET held")[0], Error), 20, "the script runs")
        return client

    def kill_script(self, server):
        with server.client() as client:
            until(lambda: client.call("SCRIPT", "KILL") == Status(b"OK"), 20, "killed")


class ReceivedTest(PromotionCase):
    """The applier waits for a script that owns a key."""

    def lagging(self, options=None):
        primary, replica, link = self.synced(options)
        script = self.busy_script(replica, BUSY)
        link.send_commands(["SET", "held", "1"], *[["SET", "k%d" % number, "v"] for number in range(500)])
        until(lambda: int(servers.replication(replica)["slave_read_repl_offset"]) == link.sent, 20, "received")
        return primary, replica, link, script

    @only(*KELVIN)
    def scenario_is_applied_before_the_promotion(self):
        for end in (b"", b"*3\r\n$3\r\nSET\r\n$4\r\nhalf", b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1\r\ny\r\n"):
            primary, replica, link, script = self.lagging()
            applied = link.sent
            link.send(end)
            until(lambda: int(servers.replication(replica)["slave_read_repl_offset"]) == link.sent, 20, "received")
            promotion = Command(self, replica, "REPLICAOF NO ONE")
            self.wait_log(replica, b"bytes that were received are applied first")
            self.assertEqual(servers.replication(replica)["role"], "slave")
            self.kill_script(replica)
            self.assertEqual(promotion.wait(), Status(b"OK"))
            found = servers.replication(replica)
            self.assertEqual((found["role"], int(found["second_repl_offset"])), ("master", applied + 1))
            self.assertEqual(servers.values_of(replica, "DBSIZE")[0], 501)
            if end:
                self.wait_log(replica, b"the last %d bytes are not applied" % len(end))

    @only(*KELVIN)
    def scenario_is_not_waited_for_longer_than_allowed(self):
        """The directive is looked at during the wait, so that an operator can end it."""
        primary, replica, link, script = self.lagging({"repl-promotion-timeout": 1000})
        promotion = Command(self, replica, "REPLICAOF NO ONE")
        self.wait_log(replica, b"bytes that were received are applied first")
        servers.must(replica, "CONFIG SET repl-promotion-timeout 0")
        self.wait_log(replica, b"bytes that were received are lost")
        self.kill_script(replica)
        self.assertEqual(promotion.wait(), Status(b"OK"))
        self.assertEqual(servers.values_of(replica, "DBSIZE", "SET k v"), [0, Status(b"OK")])


@unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
class CompleteTest(PromotionCase):
    @only(*KELVIN)
    def scenario_of_an_rdb_leaves_the_old_data_or_the_new(self):
        """The RDB is being written to its file when the command comes; right after that the load would begin."""
        rdb = make_rdb(*[("SET", "p%d" % number, "1") for number in range(2000)])
        for logged in ("no", "yes"):
            for line in ("REPLICAOF NO ONE", "REPLICAOF 127.0.0.1 1"):
                with self.subTest(logged=logged, line=line):
                    primary = ScriptedPrimary()
                    self.addCleanup(primary.close)
                    replica, disk = with_disk(self, "replica", {"appendonly": logged})
                    servers.must(replica, *["SET own%d x" % number for number in range(300)])
                    servers.make_replica(replica, primary, wait=False)
                    link = primary.link()
                    disk.rule(0, "write", "*temp-*.link.rdb", DELAY, delay_us=1000000)
                    link.full_header(offset=1)
                    link.raw(b"$%d\r\n" % len(rdb) + rdb)
                    until(lambda: disk.matched(0) > 0, 20, "the RDB is written")
                    reply = Command(self, replica, line).wait()
                    self.check(replica, reply)

    def check(self, replica, reply):
        wanted = 300
        if isinstance(reply, Error):            # the load had begun: this machine was slow
            self.assertTrue(reply.startswith(b"LOADING"), reply)
            wanted = 2000
        until(lambda: not isinstance(servers.values_of(replica, "DBSIZE")[0], Error), 20, "loaded")
        self.assertEqual(servers.values_of(replica, "DBSIZE")[0], wanted)


class PublishedTest(PromotionCase):
    @only("kelvin-kelvin", "kelvin-redis")
    def scenario_before_a_failover_is_not_in_the_new_primarys_history(self):
        """A script that has no keys owns nothing, so the role changes while it runs."""
        primary, replica = self.pair({"busy-reply-threshold": 1, "io-threads": 2, "appendonly": "yes"})
        servers.wait_online(primary, replica)
        script = Command(self, primary, "EVAL \"redis.call('publish', 'c', string.rep('x', 100)) while true do end\" 0")
        until(lambda: b"cmd=eval" in servers.values_of(primary, "CLIENT LIST")[0], 20, "it runs")
        servers.must(primary, "FAILOVER")
        until(lambda: servers.replication(primary)["role"] == "slave" and servers.link_is_up(primary), 30, "the roles are exchanged")
        self.kill_script(primary)
        self.assertIsInstance(script.wait(), Error)
        servers.must(replica, "SET k v")
        servers.wait_in_sync(replica, primary)
        found = servers.replication(primary)
        self.assertEqual(found["master_repl_offset"], found["slave_repl_offset"])
        self.assertEqual(found["master_repl_offset"], servers.replication(replica)["master_repl_offset"])
        self.same(replica, primary)


class FirstWriteTest(PromotionCase):
    @only(*KELVIN)
    def scenario_of_a_script_that_waits_while_the_role_changes_is_refused(self):
        """It has no keys and owns nothing; what it writes first belongs to another script, for which the change of the role waits, too."""
        server = self.start("replica", {"busy-reply-threshold": 1, "io-threads": 2})
        owner = self.busy_script(server, BUSY)
        change = Command(self, server, "REPLICAOF 127.0.0.1 1")
        until(lambda: self.is_barred(server), 20, "the change waits")
        script = Command(self, server, "EVAL \"return redis.call('SET', 'held', 'late')\" 0")
        until(lambda: servers.values_of(server, "CLIENT LIST")[0].count(b"cmd=eval") >= 3, 20, "it waits, too")
        self.kill_script(server)
        self.assertEqual(change.wait(), Status(b"OK"))
        self.assertIsInstance(owner.receive(), Error)
        self.assertIn(b"READONLY", script.wait())
        self.assertEqual(servers.values_of(server, "GET held")[0], None)

    def is_barred(self, server):
        """No unit comes to own anything as long as the change of the role waits for all partitions."""
        client = self.client(server, timeout=0.5)
        client.send(b"EVAL \"return 1\" 1 probe\r\n")
        try:
            client.receive()
        except TimeoutError:
            return True
        return False


class UnreadableTest(PromotionCase):
    def damage(self, replica):
        """The values of all segments, which no one has read since."""
        found = {}                              # an image has links to the store's
        for folder, _, names in os.walk(replica.folder):
            for path in (os.path.join(folder, name) for name in names if name.endswith(".seg")):
                found[os.stat(path).st_ino] = path
        self.assertTrue(found)
        for path in found.values():
            with open(path, "r+b") as file:
                data = file.read()
                file.seek(0)
                file.write(data[:64] + bytes(byte ^ 0x55 for byte in data[64:]))

    @only("kelvin-kelvin", "redis-kelvin")
    def scenario_is_no_applied_write(self):
        """All data is asked for again; half a transaction is under no ID that others know."""
        for write in (["APPEND", "k7", "+tail"], None):
            primary, replica = self.pair({}, {"repl-image-sync": "no"})
            servers.must(primary, *["SET k%d %s" % (number, "v" * 3000) for number in range(50)])
            servers.wait_in_sync(primary, replica)
            for number in range(50):
                servers.must(replica, "TIER DEMOTE k%d" % number)
            until(lambda: servers.values_of(replica, "TIER WHERE k7")[0] == b"cold", 20, "cold")
            self.damage(replica)
            with self.client(primary) as client:
                if write is not None:
                    client.must(*write)
                else:
                    client.pipeline([["MULTI"], ["SET", "other", "1"], ["APPEND", "k7", "+tail"], ["EXEC"]])
            until(lambda: servers.count_of(primary, "sync_full") == 2, 30, "a second full synchronization")
            self.assertIn(b"can't be read here", replica.log())
            self.same(primary, replica, least=50)

    @only("kelvin-kelvin")
    def scenario_is_no_applied_write_of_a_log(self):
        """Of a log that is loaded: the write in it is not run, so what follows is not continued. EXEC, too."""
        for write in ([["APPEND", "k7", "+tail"]], [["MULTI"], ["SET", "other", "1"], ["APPEND", "k7", "+tail"], ["EXEC"]]):
            primary, replica = self.pair({}, {"appendonly": "yes", "repl-image-sync": "no"})
            until(lambda: b"AOF is enabled" in replica.log(), 20, "the log")
            servers.must(primary, *["SET k%d %s" % (number, "v" * 3000) for number in range(50)])
            servers.wait_in_sync(primary, replica)
            servers.must(replica, *["TIER DEMOTE k%d" % number for number in range(50)])
            until(lambda: servers.values_of(replica, "TIER WHERE k7")[0] == b"cold", 20, "cold")
            servers.must(replica, "BGREWRITEAOF")
            self.wait_log(replica, b"AOF rewrite finished successfully")
            with self.client(primary) as client:
                client.pipeline(write)
            servers.wait_in_sync(primary, replica)
            replica.kill9()
            self.damage(replica)
            replica.options["replicaof"] = ["127.0.0.1", primary.port]
            replica.start()
            until(lambda: servers.count_of(primary, "sync_full") == 2, 30, "a second full synchronization")
            self.assertIn(b"the history is not continued", replica.log())
            self.same(primary, replica, least=50)


class AcknowledgedTest(PromotionCase):
    @only("kelvin-redis")
    def scenario_beyond_the_end_is_ignored(self):
        primary = self.start("primary")
        recorder = Recorder(primary.address, ack_s=3600).full().wait_loaded()
        self.addCleanup(recorder.cut)
        servers.must(primary, "SET k v")
        for offset in (1 << 62, (1 << 63) - 1):
            recorder.ack(offset)
        with self.client(primary) as client:
            client.must("SET", "k", "w")
            self.assertEqual(client.must("WAIT", 1, 300), 0)
        self.assertNotIn("offset=9223372036854775807", servers.replication(primary)["slave0"])


if __name__ == "__main__":
    main()
