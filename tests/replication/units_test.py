#!/usr/bin/python3
"""What belongs together arrives together: transactions, scripts, clients that were served while they waited; beside demotions and rewrites."""
import contextlib
import hashlib
import os
import resource
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support import pairs
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.load import Load, fill_all_types
from support.replication.scripted import ScriptedPrimary, make_rdb
from support.resp import encode
from support.server import is_sanitized, scaled, seed_new, until
from support.units import Demoter


@contextlib.contextmanager
def demoting(seed, *all_servers):
    """Demotes random keys of those that are Kelvin."""
    demoters = [Demoter(server, "%s/%d" % (seed, number)) for number, server in enumerate(all_servers) if server.kelvin]
    for demoter in demoters:
        demoter.start()
    try:
        yield
    finally:
        for demoter in demoters:
            demoter.stop()
    for demoter in demoters:
        if demoter.wrong is not None:
            raise AssertionError("TIER DEMOTE: %r" % (demoter.wrong,))


class ScriptsAsTheyAreTest(ReplicationCase):
    """Versions of Redis before 7 may send scripts, not what they do."""
    SOURCE = """
        for _, key in ipairs(KEYS) do redis.call('append', key, ARGV[1]) end
        redis.call('incr', 'undeclared'); redis.call('publish', 'channel', ARGV[1]); return redis.call('strlen', KEYS[1])"""

    def synced(self, options):
        primary = ScriptedPrimary()
        self.addCleanup(primary.close)
        replica = self.start("replica", options)
        servers.make_replica(replica, primary, wait=False)
        return primary, replica, primary.link().full(make_rdb()).wait_ack()

    @only("redis-kelvin")
    def scenario_with_cold_keys_and_a_replica_below(self):
        keys = ["k%d" % number for number in range(200)]
        sha = hashlib.sha1(self.SOURCE.encode()).hexdigest()
        primary, replica, link = self.synced({"appendonly": "yes", "maxmemory": 32 << 20})
        below = self.start("redis")
        servers.make_replica(below, replica)
        link.send_commands(["SELECT", 2], *[["SET", key, "v" * 1000] for key in keys], ["SET", "undeclared", 1]).wait_ack()
        with self.client(replica) as client, self.client(replica) as subscriber:
            subscriber.must("SUBSCRIBE", "channel")
            client.must("SELECT", 2)
            for commands in ([["EVAL", self.SOURCE, len(keys), *keys, "a"]], [["MULTI"], ["APPEND", "k0", "m"], ["EVALSHA", sha, len(keys), *keys, "b"], ["EXEC"]],
                             [["EVAL", "redis.call('append', 'k5', 'c'); redis.call('incr', 'k5')", 0]]):
                client.must("TIER", "DEMOTE", "undeclared", *keys)
                link.send_commands(*commands).wait_ack()
            self.assertEqual([subscriber.receive()[2] for _ in range(2)], [b"a", b"b"])
            for server in (replica, below):
                until(lambda: servers.values_of(server, "SELECT 2", "GET k5")[1][1000:] == b"abc", 20, "all has arrived")
                self.assertEqual(servers.values_of(server, "SELECT 2", "GET k0", "GET k199", "GET undeclared")[1:], [b"v" * 1000 + b"amb", b"v" * 1000 + b"ab", b"3"])
        replica.restart(kill=True)
        self.assertEqual(servers.values_of(replica, "SELECT 2", "GET k0", "GET k5", "GET undeclared")[1:], [b"v" * 1000 + b"amb", b"v" * 1000 + b"abc", b"3"])

    @only("redis-kelvin")
    def scenario_of_one_that_is_not_known_asks_for_all_again(self):
        primary, replica, link = self.synced({})
        link.send_commands(["SELECT", 0], ["SET", "k", 1], ["EVALSHA", "f" * 40, 0], ["INCR", "k"])
        again = primary.link(30)
        self.assertEqual(again.asked, (b"?", -1))
        again.full(make_rdb(["SET", "k", "3"])).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET k"), [b"3"])

    @only("redis-kelvin")
    @unittest.skipIf(is_sanitized(), "its memory is not limited by address space")
    def scenario_of_one_without_memory_for_its_stack_asks_for_all_again(self):
        primary, replica, link = self.synced({"maxmemory": "100mb"})
        with open("/proc/%d/statm" % replica.process.pid) as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        limits = resource.prlimit(replica.process.pid, resource.RLIMIT_AS, (size + (6 << 20), -1))        # of the 8 MB of a stack; other threads may take some
        link.send_commands(["SELECT", 0], ["EVAL", "redis.call('set', 'k', 'v')", 0])
        until(lambda: b"can't be applied" in replica.log(), 20, "refused")
        resource.prlimit(replica.process.pid, resource.RLIMIT_AS, limits)
        again = primary.link(30)
        self.assertEqual(again.asked, (b"?", -1))
        again.full(make_rdb(["SET", "k", "v"])).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET k"), [b"v"])

    @only("redis-kelvin")
    def scenario_of_one_that_looks_at_all_keys(self):
        """It waits for other threads, which must not wait for what the applier owns; in the log, and with cold keys, as well."""
        look = ("redis.call('set', KEYS[1], redis.call('dbsize') .. ' ' .. #redis.call('keys', 'k*') .. ' ' .. #redis.call('scan', 0, 'count', 100)[2]) "
                "redis.call('randomkey')")
        primary, replica, link = self.synced({"appendonly": "yes"})
        until(lambda: b"AOF is enabled" in replica.log(), 20, "the log")
        link.send_commands(["SELECT", 0], *[["SET", "k%d" % number, 1] for number in range(20)]).wait_ack()
        servers.must(replica, *["TIER DEMOTE k%d" % number for number in range(10)])
        link.send_commands(["EVAL", look, 1, "a"], ["MULTI"], ["SET", "k20", 1], ["EVAL", look, 1, "b"], ["EXEC"]).wait_ack()
        self.assertEqual(servers.values_of(replica, "GET a", "GET b"), [b"20 20 20", b"22 21 22"])
        replica.restart(kill=True)
        self.assertEqual(servers.values_of(replica, "GET a", "GET b"), [b"20 20 20", b"22 21 22"])

    @only("redis-kelvin")
    def scenario_of_one_that_never_ends(self):
        """No one can end it, but the server can end."""
        primary, replica, link = self.synced({"appendonly": "yes", "busy-reply-threshold": 10})
        until(lambda: replica.info("persistence")["aof_rewrite_in_progress"] == "0", 20, "the log")
        link.send_commands(["SELECT", 0], ["SET", "k", 1]).wait_ack()
        link.send_commands(["EVAL", "redis.call('incr', 'k'); while true do end", 0])
        with self.client(replica) as client:
            until(lambda: bytes(client.call("PING")).startswith(b"BUSY"), 20, "busy")
            self.assertTrue(bytes(client.call("SCRIPT", "KILL")).startswith(b"UNKILLABLE"))
            client.send(encode(["SHUTDOWN", "NOSAVE"]))
            self.assertEqual(replica.wait_end(), 0)
        primary.close()
        replica.start()
        self.assertEqual(servers.values_of(replica, "GET k"), [b"1"])


class UnitsTest(ReplicationCase):
    def scenario_of_transactions_and_scripts_are_not_seen_in_part(self):
        seed = seed_new()
        primary, replica = self.pair({"repl-backlog-size": 32 << 20})
        pairs.prepare(primary)
        servers.wait_in_sync(primary, replica)
        changers = [pairs.Changer(primary, "%s/%d" % (seed, number), ways=("exec", "declared", "computed", "function", "fails", "exec of scripts")) for number in range(2)]
        lookers = [pairs.Looker(replica, "%s/%d" % (seed, number)) for number in (7, 8)]
        with self.subTest(seed=seed):
            for thread in changers + lookers:
                thread.start()
            try:
                with demoting(seed, primary, replica):
                    for _ in range(3):
                        wanted = sum(thread.done for thread in changers) + scaled(150)
                        until(lambda: sum(thread.done for thread in changers) >= wanted or any(thread.wrong for thread in changers + lookers), 60, "changes")
                        servers.cut_links(primary)
            finally:
                for thread in changers + lookers:
                    thread.stop()
            for thread in changers + lookers:
                self.assertIsNone(thread.wrong)
                self.assertGreater(thread.done, scaled(20))
            self.same(primary, replica, least=20)
            self.assertEqual(pairs.totals(replica), pairs.totals(primary))

    def scenario_of_clients_that_waited_for_keys(self):
        primary, replica = self.pair()
        commands = ([b"BLPOP", b"l", b"0"], [b"BLMOVE", b"l", b"moved", b"LEFT", b"RIGHT", b"0"], [b"BZPOPMIN", b"z", b"0"], [b"BLMPOP", b"0", b"1", b"l", b"LEFT", b"COUNT", b"2"],
                    [b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"x", b">"])
        servers.must(primary, "XGROUP CREATE x g $ MKSTREAM")
        waiting = []
        for command in commands:
            client = self.client(primary)
            client.send(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in command))
            waiting.append(client)
            until(lambda: primary.info("clients")["blocked_clients"] == str(len(waiting)), 10, "blocked")
        with self.client(primary) as client:
            client.pipeline([["MULTI"], ["RPUSH", "l", "a", "b", "c", "d", "e"], ["ZADD", "z", "1", "one", "2", "two"], ["XADD", "x", "5-5", "f", "v"], ["EXEC"]])
        for client in waiting:
            self.assertIsInstance(client.receive(), (list, bytes))
        self.assertEqual(servers.values_of(primary, "LRANGE l 0 -1", "LRANGE moved 0 -1"), [[b"e"], [b"b"]])
        self.same(primary, replica, least=4)

    @only("kelvin-redis", "redis-kelvin", "kelvin-kelvin")
    def scenario_of_random_changes_beside_demotions_on_both_sides(self):
        seed = seed_new()
        primary, replica = self.pair({"repl-backlog-size": 32 << 20})
        fill_all_types(primary, databases=4)
        with self.subTest(seed=seed), Load(primary, seed, databases=4) as load:
            with demoting(seed, primary, replica):
                load.wait_for(scaled(6000))
                load.stop()
            self.same(primary, replica, least=10)
            self.assertEqual(servers.count_of(primary, "sync_full"), 1)

    def scenario_beside_rewrites_of_the_log_and_dumps_on_both_sides(self):
        seed = seed_new()
        options = {"appendonly": "yes", "appendfsync": "everysec", "repl-backlog-size": 32 << 20}
        primary, replica = self.pair(options, options)
        fill_all_types(primary, databases=4)
        ended = threading.Event()

        def rewrite():
            while not ended.wait(0.2):
                for server in (primary, replica):
                    servers.values_of(server, "BGREWRITEAOF", "BGSAVE SCHEDULE")
        thread = threading.Thread(target=rewrite, daemon=True)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            thread.start()
            load.wait_for(scaled(5000))
            load.stop()
            ended.set()
            thread.join(60)
            self.same(primary, replica, least=10)
            # What is on the replica's disk is the same, and has the right offset.
            replica.restart(kill=True)
            servers.make_replica(replica, primary)
            self.same(primary, replica, least=10)

    def scenario_of_a_replica_that_is_killed_again_and_again(self):
        seed = seed_new()
        primary = self.start("primary", {"repl-backlog-size": 32 << 20})
        replica = self.start("replica", {"appendonly": "yes", "appendfsync": "everysec", "replicaof": ["127.0.0.1", primary.port]})
        servers.wait_in_sync(primary, replica)
        with self.subTest(seed=seed), Load(primary, seed) as load:
            for number in range(4):
                load.wait_for(scaled(300))
                time.sleep(0.05 * number)
                replica.restart(kill=True)
            load.wait_for(scaled(300))
            load.stop()
            self.same(primary, replica, least=10)

    def scenario_of_a_primary_that_is_killed_while_it_sends(self):
        primary = self.start("primary", {"appendonly": "yes"})
        primary.options["port"] = primary.port
        fill_all_types(primary, databases=8)
        replica = self.start("replica", {"replicaof": ["127.0.0.1", primary.port]})
        for pause_s in (0, 0.01, 0.05, 0.1, 0.3):
            time.sleep(pause_s)
            primary.restart(kill=True)
            servers.must(primary, "INCR lives")
        self.same(primary, replica, least=600)
        self.assertEqual(servers.values_of(replica, "GET lives"), [b"5"])

    def scenario_of_a_replica_that_is_killed_while_it_loads(self):
        primary = self.start("primary")
        fill_all_types(primary, databases=8)
        replica = self.start("replica", {"appendonly": "yes", "replicaof": ["127.0.0.1", primary.port]})
        for pause_s in (0, 0.01, 0.05, 0.1, 0.3):
            time.sleep(pause_s)
            replica.restart(kill=True)
        self.same(primary, replica, least=600)


if __name__ == "__main__":
    main()
