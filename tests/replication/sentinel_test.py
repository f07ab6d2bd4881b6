#!/usr/bin/python3
"""Sentinel runs the servers: kill the primary under load, pause it, restart it; clients follow with redis-py's Sentinel client."""
import os
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import redis
import redis.sentinel

from support.disk import DELAY
from support.replication import servers
from support.replication.case import ReplicationCase, main, only
from support.replication.faults import with_disk
from support.replication.load import NumberedWriter
from support.replication.sentinel import NAME, Sentinels
from support.resp import Error
from support.server import is_sanitized, until


class Follower:
    """What NumberedWriter needs of a client, by redis-py's Sentinel client: it asks the sentinels where the primary is, each time it connects."""

    def __init__(self, addresses, **login):
        self.sentinel = redis.sentinel.Sentinel(addresses, socket_timeout=2, **login)
        self.primary = self.sentinel.master_for(NAME, socket_timeout=2)

    def must(self, *args):
        try:
            return self.primary.execute_command(*args)
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from None

    def close(self):
        self.primary.close()


# What Redis' documentation lists for Sentinel.
SENTINEL_RULES = ("allchannels +multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill "
                  "+script|kill")
USERS = "user sentinel on >for-sentinel %s\nuser app on >for-app ~n:* +set +get +wait\nmaxmemory 0\n" % SENTINEL_RULES


class Working(threading.Thread):
    """Calls `once(client)` with a client of the present primary again and again; errors are those of a failover."""

    def __init__(self, sentinels, once):
        super().__init__(daemon=True)
        self.sentinels, self.once, self.count, self.errors = sentinels, once, 0, set()
        self.halt = threading.Event()
        self.start()

    def run(self):
        client = Follower(self.sentinels.addresses)
        while not self.halt.is_set():
            try:
                self.once(client)
                self.count += 1
            except ConnectionError as error:
                self.errors.add(str(error).split(" ")[0])
                self.halt.wait(0.05)
        client.close()

    def stop(self):
        self.halt.set()
        self.join(60)


class SentinelTest(ReplicationCase):
    def watched(self, text="maxmemory 0\n", start_primary=None, **options):
        """A primary, two replicas (one of each kind), and three sentinels that agree. The configuration files may be rewritten."""
        primary = start_primary() if start_primary else self.start("primary", config=text)
        replicas = [self.start("replica", {"replicaof": ["127.0.0.1", primary.port]}, config=text),
                    self.start("primary", {"replicaof": ["127.0.0.1", primary.port]}, config=text)]
        servers.wait_in_sync(primary, *replicas)
        # The same port after a restart; from then on its configuration file says what it replicates.
        for server in [primary] + replicas:
            server.options["port"] = server.port
            server.options.pop("replicaof", None)
        sentinels = Sentinels(primary, **options)
        self.addCleanup(sentinels.stop)
        sentinels.wait_agreed(len(replicas))
        return primary, replicas, sentinels

    def writer(self, sentinels, replicas=2, **login):
        """Both replicas must confirm a write: a primary that was replaced and does not know it yet may still have one of them."""
        writer = NumberedWriter(lambda: Follower(sentinels.addresses, **login), replicas=replicas, pause_s=0.001)
        self.addCleanup(writer.halt.set)
        writer.start()
        until(lambda: len(writer.safe) > 100, 30, "confirmed writes")
        return writer

    def promoted(self, replicas, port):
        return next(server for server in replicas if server.port == port)

    def check_after(self, writer, sentinels, new, followers):
        """It goes on at the new primary; all follow it, and nothing that WAIT confirmed is lost."""
        count = len(writer.safe)
        until(lambda: len(writer.safe) > count + 50, 40, "writes at the new primary")
        until(lambda: all(servers.replication(server).get("master_port") == str(new.port) for server in followers), 40, "all follow the new primary")
        writer.stop()
        self.same(new, *followers, least=100)
        self.assertEqual(writer.lost(new, writer.safe), [])
        sentinels.wait_agreed(len(followers))

    def scenario_primary_is_killed_under_load_and_comes_back(self):
        primary, replicas, sentinels = self.watched()
        writer = self.writer(sentinels)
        primary.kill9()
        new = self.promoted(replicas, sentinels.wait_primary(primary.port))
        other = next(server for server in replicas if server is not new)
        until(lambda: len(writer.errors) > 0 and servers.replication(new)["role"] == "master", 20, "promoted")
        primary.start()
        self.check_after(writer, sentinels, new, [other, primary])
        self.assertEqual(servers.replication(primary)["role"], "slave")

    def scenario_primary_is_paused_and_comes_back(self):
        """It wakes up and thinks it is the primary, until a sentinel says otherwise. What it accepted then without a confirmation is gone."""
        primary, replicas, sentinels = self.watched()
        writer = self.writer(sentinels)
        primary.process.send_signal(signal.SIGSTOP)
        try:
            new = self.promoted(replicas, sentinels.wait_primary(primary.port))
        finally:
            primary.process.send_signal(signal.SIGCONT)
        other = next(server for server in replicas if server is not new)
        self.check_after(writer, sentinels, new, [other, primary])

    def scenario_failover_is_asked_for_again_and_again(self):
        primary, replicas, sentinels = self.watched()
        writer = self.writer(sentinels)
        current, others = self.again_and_again(primary, replicas, sentinels)
        self.check_after(writer, sentinels, current, others)

    def again_and_again(self, primary, replicas, sentinels):
        """(the last primary, its replicas)"""
        everyone, current = [primary] + replicas, primary
        for _ in range(3):
            deadline = time.monotonic() + 30
            while True:
                with servers.Client(sentinels.addresses[0]) as client:
                    reply = client.call("SENTINEL", "FAILOVER", NAME)
                if not isinstance(reply, Error) or time.monotonic() > deadline:
                    break
                time.sleep(0.3)
            self.assertNotIsInstance(reply, Error)
            current = self.promoted(everyone, sentinels.wait_primary(current.port))
            until(lambda: sentinels.agree(2), 40, "all follow")
        return current, [server for server in everyone if server is not current]

    @unittest.skipIf(is_sanitized(), "a sanitizer and the shim both have to be loaded first")
    @only("kelvin-redis", "kelvin-kelvin")
    def scenario_failover_beside_scripts_and_cold_keys(self):
        """Scripts own keys, and clients wait for cold ones (0.1 s each) all the time, when Sentinel sends SLAVEOF, CONFIG REWRITE, CLIENT KILL."""
        options = {"io-threads": 4, "tier-block-cache": 0}

        def start_primary():
            server, self.disk = with_disk(self, "primary", options, config="maxmemory 100mb\n")
            return server

        primary, replicas, sentinels = self.watched(start_primary=start_primary)
        servers.must(primary, *("SET cold%d %s" % (number, "v" * 1000) for number in range(100)))
        self.disk.rule(0, "read", "store/*", DELAY, delay_us=100000)
        works = [Working(sentinels, once) for once in (self.run_script, self.run_script, self.demote, self.append, self.append, self.read)]
        try:
            writer = self.writer(sentinels)
            until(lambda: int(primary.info("tiering")["tier_cold_wait_calls"]) > 20, 30, "waits for cold keys")
            current, others = self.again_and_again(primary, replicas, sentinels)
        finally:
            for work in works:
                work.stop()
        self.assertGreater(min(work.count for work in works), 0)
        self.assertGreater(works[0].count, 20)
        self.check_after(writer, sentinels, current, others)
        left, right = servers.values_of(current, "GET n:left", "GET n:right")
        self.assertEqual(left, right)

    def run_script(self, client):
        client.must("EVAL", "redis.call('INCR', KEYS[1]); for i = 1, 20000 do redis.call('GET', KEYS[2]) end return redis.call('INCR', KEYS[2])", 2,
                    "n:left", "n:right")

    def demote(self, client):
        client.must("TIER", "DEMOTE", *("cold%d" % number for number in range(100)))

    def append(self, client):
        client.must("APPEND", "cold%d" % random.randrange(100), "x")

    def read(self, client):
        client.must("MGET", "cold%d" % random.randrange(100), "cold%d" % random.randrange(100))

    def scenario_with_users_that_may_do_nothing_else(self):
        """Sentinel with the commands that Redis' documentation lists, the application with its own; CONFIG REWRITE keeps both."""
        primary, replicas, sentinels = self.watched(text=USERS, auth=(("auth-user", "sentinel"), ("auth-pass", "for-sentinel")))
        writer = self.writer(sentinels, username="app", password="for-app")
        current, others = self.again_and_again(primary, replicas, sentinels)
        self.check_after(writer, sentinels, current, others)
        everyone = [primary] + replicas
        for server in everyone:
            users = {dict(word.split(b"=", 1) for word in line.split())[b"user"] for line in servers.values_of(server, "CLIENT LIST")[0].splitlines()}
            self.assertIn(b"sentinel", users)
            self.assertEqual(servers.values_of(server, "ACL LOG"), [[]])
        current.restart()
        self.assertIn(b"sentinel", servers.values_of(current, "ACL USERS")[0])
        sentinels.wait_agreed(2)

    def scenario_roles_are_kept_by_the_configuration_file(self):
        """CONFIG REWRITE by the sentinel: a replica that restarts is a replica before its first write."""
        primary, replicas, sentinels = self.watched()
        primary.kill9()
        new = self.promoted(replicas, sentinels.wait_primary(primary.port))
        other = next(server for server in replicas if server is not new)
        until(lambda: servers.replication(other)["master_port"] == str(new.port), 30, "the other one follows")
        sentinels.stop()
        other.restart()
        found = servers.replication(other)
        self.assertEqual((found["role"], found["master_port"]), ("slave", str(new.port)))
        new.restart()
        self.assertEqual(servers.replication(new)["role"], "master")
        primary.expect_crash = True

    def scenario_replica_with_priority_0_is_not_promoted(self):
        primary, replicas, sentinels = self.watched()
        servers.set_config(replicas[0], replica_priority=0)
        until(lambda: all(sentinels.replicas(sentinel)[replicas[0].port]["slave-priority"] == "0" for sentinel in sentinels.all), 10, "known")
        primary.kill9()
        primary.expect_crash = True
        self.assertEqual(sentinels.wait_primary(primary.port), replicas[1].port)


if __name__ == "__main__":
    main()
