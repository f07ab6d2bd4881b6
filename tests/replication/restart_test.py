#!/usr/bin/python3
"""Restarts with a log: ID, offset and selected database come back, so that partial synchronizations are possible."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.disk import DELAY
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_disk
from support.replication.faults import with_clock
from support.replication.load import Load, fill_all_types
from support.replication.readings import check_same
from support.server import REDIS, Server, scaled, seed_new, under_test, until

LOG = {"appendonly": "yes"}
KELVIN_PRIMARY = ("kelvin-redis", "kelvin-kelvin")
KELVIN_REPLICA = ("redis-kelvin", "kelvin-kelvin")


class RestartTest(ReplicationCase):
    def logged_pair(self, primary_options=None, replica_options=None):
        """Only the servers under test have a log."""
        primary, replica = self.pair({**(LOG if self.primary_kind == "kelvin" else {}), **(primary_options or {})},
                                     {**(LOG if self.replica_kind == "kelvin" else {}), **(replica_options or {})})
        for server in (primary, replica):
            server.options["port"] = server.port
        if self.replica_kind == "kelvin":       # its log begins again with what it was synchronized with
            until(lambda: b"AOF is enabled" in replica.log(), 30, "the replica's log")
        return primary, replica

    def log_state(self, server):
        info = server.info("persistence")
        return info["aof_enabled"], info["aof_rewrite_in_progress"]

    def restart_replica(self, replica, primary, kill):
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        replica.restart(kill=kill)

    def assert_syncs(self, primary, full, partial):
        counts = [servers.count_of(primary, "sync_full"), servers.count_of(primary, "sync_partial_ok")]
        self.assertEqual(counts, [full, partial], primary.log_tail(3000))

    def restart_primary(self, primary, replica, kill):
        before = servers.replication(primary)
        primary.restart(kill=kill)
        self.same(primary, replica, least=20)
        after = servers.replication(primary)
        self.assertNotEqual(after["master_replid"], before["master_replid"])
        self.assertEqual(after["master_replid2"], before["master_replid"])
        self.assertGreater(int(after["second_repl_offset"]), int(before["master_repl_offset"]))
        self.assert_syncs(primary, 0, 1)

    @only(*KELVIN_PRIMARY)
    def scenario_of_the_primary(self):
        """Twice each way, with writes in between."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        for kill in (False, True, True, False):
            servers.wait_in_sync(primary, replica)
            self.restart_primary(primary, replica, kill)
            servers.must(primary, "SELECT 3", "INCR n", "SELECT 9", "RPUSH l %s" % kill)
            self.same(primary, replica, least=20)

    @only(*KELVIN_PRIMARY)
    def scenario_of_the_primary_after_rewrites(self):
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        for number in range(3):
            self.rewrite(primary)
            if number > 0:
                servers.must(primary, "SELECT %d" % number, "INCR n")
            servers.wait_in_sync(primary, replica)
            self.restart_primary(primary, replica, kill=number != 1)

    def rewrite(self, server):
        done = int(server.info("persistence")["aof_rewrites"])
        servers.must(server, "BGREWRITEAOF")
        until(lambda: int(server.info("persistence")["aof_rewrites"]) > done and server.info("persistence")["aof_rewrite_in_progress"] == "0",
              30, "the rewrite")
        self.assertEqual(server.info("persistence")["aof_last_bgrewrite_status"], "ok")

    @only(*KELVIN_PRIMARY)
    def scenario_of_the_primary_twice_while_the_replica_is_stopped(self):
        """What the replica lacks is only in the increments on disk: the backlog began after the last start."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        with servers.stopped(replica):
            servers.cut_links(primary)
            servers.must(primary, "SELECT 5", "SET while stopped")
            primary.restart(kill=True)
            servers.must(primary, "SELECT 5", "RPUSH list 1")
            primary.terminate()
            primary.start()
            servers.must(primary, "SELECT 6", "RPUSH list 2")
        self.same(primary, replica, least=20)
        self.assertEqual(servers.count_of(primary, "sync_partial_ok") + servers.count_of(primary, "sync_full"), 1)

    @only(*KELVIN_PRIMARY)
    def scenario_of_a_replica_that_lacks_more_than_the_backlog_has(self):
        primary, replica = self.logged_pair({"repl-backlog-size": 16384, "repl-backlog-disk-size": 0})
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        with servers.stopped(replica):
            servers.cut_links(primary)
            with self.client(primary) as client:
                client.pipeline([["SET", "k%d" % number, b"v" * 10000] for number in range(3000)])    # more than is kept in memory for a replica
            self.assertGreater(int(servers.replication(primary)["repl_backlog_first_byte_offset"]), 2000000)
        self.same(primary, replica, least=3000)
        self.assert_syncs(primary, 1, 1)

    @only(*KELVIN_PRIMARY)
    def scenario_of_what_a_rewrite_has_removed(self):
        """It is a full synchronization, not a gap."""
        primary, replica = self.logged_pair({"repl-backlog-size": 16384, "repl-backlog-disk-size": 0})
        servers.must(primary, "SET before v")
        servers.wait_in_sync(primary, replica)
        with servers.stopped(replica):
            servers.cut_links(primary)
            with self.client(primary) as client:
                client.pipeline([["SET", "k%d" % number, b"v" * 100000] for number in range(300)])
            self.rewrite(primary)
        self.same(primary, replica, least=300)
        self.assert_syncs(primary, 2, 0)

    @only(*KELVIN_REPLICA)
    def scenario_of_the_replica(self):
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        for number, kill in enumerate((False, True, True, False)):
            servers.must(primary, "SELECT 7", "INCR n")
            servers.wait_in_sync(primary, replica)
            self.restart_replica(replica, primary, kill)
            servers.must(primary, "SELECT 7", "RPUSH l b", "SELECT 2", "INCR n")
            self.same(primary, replica, least=20)
            self.assert_syncs(primary, 1, number + 1)

    @only(*KELVIN_REPLICA)
    def scenario_of_the_replica_with_its_database_selected(self):
        """The primary does not select it again: the replica has to know it."""
        primary, replica = self.logged_pair()
        with self.client(primary) as client:
            client.must("SELECT", "7")
            client.must("SET", "k", "v")
            for kill in (False, True):
                servers.wait_in_sync(primary, replica)
                self.restart_replica(replica, primary, kill)
                client.must("RPUSH", "l", str(kill))
                self.same(primary, replica, least=2)
            self.rewrite(replica)
            self.restart_replica(replica, primary, kill=True)
            client.must("RPUSH", "l", "after the rewrite")
            self.same(primary, replica, least=2)
        self.assertEqual(servers.values_of(replica, "SELECT 7", "LLEN l")[1], 3)
        self.assert_syncs(primary, 1, 3)

    @only(*KELVIN_REPLICA)
    def scenario_of_the_replica_whose_keys_have_expired(self):
        """They are cold at its start. Their deletions come from the primary only: else its offset would be beyond the primary's."""
        primary, replica = self.logged_pair()
        servers.must(primary, "DEBUG SET-ACTIVE-EXPIRE 0")
        with self.client(primary) as client:
            client.pipeline([["SET", "e%d" % number, "v", "PX", "300"] for number in range(2000)])
        servers.wait_in_sync(primary, replica)
        self.rewrite(replica)
        replica.kill9()
        until(lambda: servers.values_of(primary, "EXISTS e1999") == [0], 10, "the end of the keys")
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        replica.start()
        servers.must(primary, "SET k v")
        servers.wait_in_sync(primary, replica)
        until(lambda: servers.values_of(replica, "GET k") == [b"v"], 10, "the key")
        self.assertEqual(servers.replication(replica)["slave_repl_offset"], servers.replication(primary)["master_repl_offset"])
        self.assertEqual(servers.values_of(replica, "DBSIZE"), servers.values_of(primary, "DBSIZE"))
        self.assert_syncs(primary, 1, 1)

    @only(*KELVIN_REPLICA)
    def scenario_of_the_replica_whose_keys_have_expired_in_its_dump(self):
        """The primary has kept them meanwhile, and its stream goes on from there."""
        primary = self.start("primary")
        replica, clock = with_clock(self, "replica")
        servers.make_replica(replica, primary)
        servers.must(primary, "SET k v PX 1000000", "HSET h f v", "PEXPIRE h 1000000")
        servers.wait_in_sync(primary, replica)
        servers.must(replica, "SAVE")
        replica.kill9()
        servers.must(primary, "PERSIST k", "PERSIST h")
        clock.jump(2000000)
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        replica.start()
        servers.must(primary, "APPEND k +more", "HSET h g w")
        self.same(primary, replica, least=2)
        self.assert_syncs(primary, 1, 1)

    @only(*KELVIN_PRIMARY)
    def scenario_of_the_primary_with_a_dump(self):
        """Its replicas have keys that have expired meanwhile, and it is written to before they come back."""
        primary, clock = with_clock(self, "primary", {"save": "3600 1"})
        primary.options["port"] = primary.port
        replicas = [self.start("replica") for _ in range(2)]
        for replica in replicas:
            servers.make_replica(replica, primary)
        servers.must(primary, "SET stays v", *["SET k%d 100 PX 1000000" % number for number in range(5)], "SADD s a", "PEXPIRE s 1000000")
        servers.wait_in_sync(primary, *replicas)
        self.assertEqual(primary.terminate(), 0)
        clock.jump(2000000)
        primary.start()
        servers.must(primary, "SET early v", "INCR k0", "SADD s c")
        until(lambda: servers.values_of(primary, "DBSIZE") == [4], 20, "the expired keys go")
        self.same(primary, *replicas, least=4)
        self.assert_syncs(primary, 0, 2)

    @only(*KELVIN_REPLICA)
    def scenario_of_the_replica_under_load(self):
        seed = seed_new()
        primary, replica = self.logged_pair({"repl-backlog-size": 64 << 20})
        with self.subTest(seed=seed), Load(primary, seed) as load:
            for number in range(4):
                load.wait_for(scaled(300))
                if number == 2:
                    self.rewrite(replica)
                self.restart_replica(replica, primary, kill=number != 1)
                until(lambda: servers.link_is_up(replica), 30, "the link")
            load.stop()
            self.same(primary, replica, least=5)
        self.assert_syncs(primary, 1, 4)

    @only("kelvin-kelvin")
    def scenario_of_a_server_in_a_chain(self):
        primary, middle = self.logged_pair()
        last = self.start("replica")
        servers.make_replica(last, middle)
        fill_all_types(primary, databases=4)
        for kill in (True, False):
            self.same_chain(primary, middle, last)
            self.restart_replica(middle, primary, kill)
            servers.must(primary, "SELECT 4", "INCR n")
            self.same_chain(primary, middle, last)
            self.assert_syncs(middle, 0, 1)
        self.assert_syncs(primary, 1, 2)
        primary.restart(kill=True)
        servers.must(primary, "SELECT 4", "INCR n")
        self.same_chain(primary, middle, last)
        self.assert_syncs(primary, 0, 1)
        self.assertEqual(servers.count_of(middle, "sync_full"), 0)

    @only("kelvin-kelvin")
    def scenario_of_a_primary_that_becomes_a_replica(self):
        """As Sentinel does it: the primary is killed, its replica is promoted, and the old primary comes back as one that it then demotes."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        primary.kill9()
        servers.must(replica, "REPLICAOF NO ONE", "SELECT 2", "INCR n")
        primary.start()
        servers.make_replica(primary, replica)
        servers.must(replica, "SELECT 2", "INCR n")
        self.same(replica, primary, least=20)
        self.assert_syncs(replica, 0, 1)

    @only("kelvin-kelvin")
    def scenario_of_a_primary_that_becomes_a_replica_after_a_write(self):
        """What it has is not the other's any more."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        primary.kill9()
        servers.must(replica, "REPLICAOF NO ONE", "SELECT 2", "SET n other")
        primary.start()
        servers.must(primary, "SELECT 2", "SET n value")
        servers.make_replica(primary, replica)
        self.same(replica, primary, least=20)
        self.assert_syncs(replica, 1, 0)

    def same_chain(self, primary, middle, last):
        self.same(primary, middle, least=20)
        self.same(middle, last, least=20)

    @only("kelvin-kelvin")
    def scenario_of_a_promoted_replica(self):
        """The IDs have changed in the middle of its increment."""
        primary, replica = self.logged_pair()
        other = self.start("replica", LOG)
        servers.make_replica(other, primary)
        fill_all_types(primary, databases=4)
        self.same(primary, replica, other, least=20)
        servers.must(replica, "REPLICAOF NO ONE", "SELECT 2", "INCR n")
        servers.make_replica(other, replica)
        replica.restart(kill=True)
        servers.must(replica, "SELECT 2", "INCR n")
        self.same(replica, other, least=20)
        self.assert_syncs(replica, 0, 1)
        primary.terminate()
        primary.options["replicaof"] = ["127.0.0.1", replica.port]
        primary.start()
        self.same(replica, primary, other, least=20)

    @only(*KELVIN_REPLICA)
    def scenario_of_a_replica_whose_log_was_switched_on(self):
        primary, replica = self.pair()
        replica.options["port"] = replica.port
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        servers.set_config(replica, appendonly="yes")
        until(lambda: replica.info("persistence")["aof_enabled"] == "1" and b"AOF is enabled" in replica.log(), 30, "the log")
        servers.must(primary, "SELECT 3", "INCR n")
        servers.wait_in_sync(primary, replica)
        replica.options["appendonly"] = "yes"
        self.restart_replica(replica, primary, kill=True)
        servers.must(primary, "SELECT 3", "INCR n")
        self.same(primary, replica, least=20)
        self.assert_syncs(primary, 1, 1)

    @only(*KELVIN_REPLICA)
    def scenario_of_a_replica_whose_log_is_being_switched_on_when_its_load_begins(self):
        """The switch waits for a save's image. What the log holds afterwards is what was loaded, not what was there before."""
        primary = self.start("primary", {"repl-diskless-sync-delay": 0})
        replica, disk = with_disk(self, "replica", {"save": "3600 1"})
        replica.options["port"] = replica.port
        fill_all_types(primary, databases=2)
        servers.must(replica, "SET own 1")
        disk.rule(0, "mkdir", "*temp-*.image", DELAY, delay_us=3000000, last=1)
        servers.must(replica, "BGSAVE")
        until(lambda: disk.matched(0) > 0, 20, "the save's image")
        servers.must(replica, "CONFIG SET appendonly yes")
        servers.make_replica(replica, primary)
        until(lambda: self.log_state(replica) == ("1", "0"), 30, "the log")
        replica.options["appendonly"] = "yes"
        replica.restart(kill=True)
        self.assertGreaterEqual(check_same(primary, replica), 20)

    @only(*KELVIN_PRIMARY)
    def scenario_of_a_primary_that_has_lost_the_end(self):
        """The replica is ahead of it: no partial synchronization, also after as many other bytes."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.must(primary, "SET k %s" % ("v" * 50))
        servers.wait_in_sync(primary, replica)
        with servers.stopped(replica):
            primary.kill9()
            self.cut_log(primary, 20)
            primary.start()
            servers.must(primary, "SET k %s" % ("w" * 50), "SET x %s" % ("y" * 100))
        self.same(primary, replica, least=20)
        self.assert_syncs(primary, 1, 0)

    @only(*KELVIN_REPLICA)
    def scenario_of_a_replica_that_has_lost_the_end(self):
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.must(primary, "SET k %s" % ("v" * 50))
        servers.wait_in_sync(primary, replica)
        replica.kill9()
        self.cut_log(replica, 20)
        replica.options["replicaof"] = ["127.0.0.1", primary.port]
        replica.start()
        self.same(primary, replica, least=20)
        self.assert_syncs(primary, 1, 1)

    def cut_log(self, server, size):
        path = self.increment(server)
        os.truncate(path, os.path.getsize(path) - size)

    def increment(self, server):
        folder = os.path.join(server.folder, "appendonlydir")
        return os.path.join(folder, max(name for name in os.listdir(folder) if ".incr." in name))

    @only(*KELVIN_PRIMARY)
    def scenario_of_a_primary_without_the_marks(self):
        """Its log is as older versions wrote it: all is loaded, and the replica is synchronized in full."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=4)
        servers.wait_in_sync(primary, replica)
        primary.kill9()
        with open(self.increment(primary), "rb") as file:
            text, count = re.subn(rb"#STREAM:[^\r]{100,150}\r\n", b"", file.read())
        self.assertEqual(count, 1)
        with open(self.increment(primary), "wb") as file:
            file.write(text)
        primary.start()
        self.same(primary, replica, least=20)
        self.assert_syncs(primary, 1, 0)

    @only(*KELVIN_PRIMARY)
    def scenario_of_a_primary_whose_base_was_repaired(self):
        """The replica has what the repair has left out: a full synchronization."""
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=2)
        with self.client(primary) as client:
            client.must("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
        self.rewrite(primary)
        servers.wait_in_sync(primary, replica)
        primary.kill9()
        folder = os.path.join(primary.folder, "appendonlydir")
        image = next(name for name in os.listdir(folder) if name.endswith(".base.image"))
        with open(os.path.join(folder, image, "functions"), "r+b") as file:
            file.seek(40)
            file.write(b"x" * 8)
        tool = os.path.join(os.path.dirname(under_test()), "kelvin-check")
        done = subprocess.run([tool, "--repair", primary.folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertIn(b"the libraries of functions are left out", done.stdout)
        primary.start()
        self.same(primary, replica, least=20)
        self.assertEqual(servers.values_of(replica, "FUNCTION LIST"), [[]])
        self.assert_syncs(primary, 1, 0)

    @only("kelvin-kelvin")
    def scenario_then_redis_loads_the_logs(self):
        primary, replica = self.logged_pair()
        fill_all_types(primary, databases=8)
        servers.wait_in_sync(primary, replica)
        primary.restart(kill=True)
        servers.must(primary, "SELECT 7", "INCR n")
        self.restart_replica(replica, primary, kill=True)
        servers.must(primary, "SELECT 7", "INCR n")
        servers.wait_in_sync(primary, replica)
        self.leave_out_base(replica)            # what it was synchronized with was empty
        for server in (primary, replica):
            keys = servers.values_of(server, "SELECT 7", "DBSIZE", "GET n")
            server.expect_crash = True
            server.kill9()
            redis = self.started(Server({**LOG, "save": ""}, binary=REDIS, folder=server.folder))
            self.assertEqual(servers.values_of(redis, "SELECT 7", "DBSIZE", "GET n"), keys)

    def leave_out_base(self, server):
        path = os.path.join(server.folder, "appendonlydir", "appendonly.aof.manifest")
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if " type b" not in line]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)


if __name__ == "__main__":
    main()
