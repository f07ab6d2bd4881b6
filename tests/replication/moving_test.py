#!/usr/bin/python3
"""Moving from one server to another and back while clients write, as docs/migrating.md says: attach, catch up, fail over, keep the old one.
No write is lost; clients see reconnects, and -READONLY until they connect to the new primary."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.replication import servers
from support.replication.case import ReplicationCase, main
from support.replication.load import NumberedWriter, fill_all_types
from support.server import until

try:
    import redis
except ImportError:
    redis = None


class Address:
    """Where the clients connect: what a DNS name or a proxy is."""

    def __init__(self, server):
        self.server = server

    def connect(self):
        return self.server.client()


class Application(threading.Thread):
    """An application with redis-py: INCR, SET and RPUSH in a transaction. After an error it connects again and repeats what it did not get
    a reply to. `done` is how many transactions had one."""

    def __init__(self, address, name):
        super().__init__(daemon=True)
        self.address, self.name, self.halt = address, name, threading.Event()
        self.done, self.errors, self.server = 0, [], None

    def run(self):
        client = None
        while not self.halt.is_set():
            try:
                if client is None:
                    self.server = self.address.server
                    client = redis.Redis(port=self.server.port, socket_timeout=30)
                self.once(client)
            except (redis.exceptions.RedisError, OSError) as error:
                self.errors.append("%s: %s" % (type(error).__name__, error))
                if client:
                    client.close()
                client = None
            self.halt.wait(0.02 if client is None else 0.001)
        if client:
            client.close()

    def once(self, client):
        """The number makes the repetition of one that was carried out without a reply harmless."""
        wanted = self.done + 1
        with client.pipeline(transaction=True) as pipe:
            pipe.set("%s:count" % self.name, wanted)
            pipe.hset("%s:all" % self.name, wanted, "x")
            pipe.execute()
        self.done = wanted

    def stop(self):
        self.halt.set()
        self.join(60)


class MovingTest(ReplicationCase):
    def catch_up(self, old, new):
        """Step 3: what an operator looks at."""
        until(lambda: servers.link_is_up(new), servers.SYNC_LIMIT_S, "link up")
        servers.wait_online(old, new)

        def is_close():
            return int(servers.replication(old)["master_repl_offset"]) - int(servers.replication(new)["slave_repl_offset"]) < 64 << 10
        until(is_close, servers.SYNC_LIMIT_S, "caught up")

    def move(self, old, new, address):
        """Step 4: FAILOVER from old to new; the clients are pointed to the new one."""
        self.catch_up(old, new)
        with self.client(old) as client:
            client.must("FAILOVER", "TO", "127.0.0.1", new.port, "TIMEOUT", 10000)
        until(lambda: servers.replication(new)["role"] == "master", 20, "the new server is the primary")
        address.server = new
        until(lambda: servers.replication(old)["role"] == "slave", 20, "the old server is a replica")
        until(lambda: servers.replication(old)["master_failover_state"] == "no-failover", 20, "the failover is over")

    def start_pair(self):
        backlog = {"repl-backlog-size": 32 << 20}
        old = self.start("primary", backlog)
        fill_all_types(old, databases=4)
        return old, backlog

    def check_replicated_once(self, old, new):
        self.assertEqual(servers.count_of(old, "sync_full") + servers.count_of(new, "sync_full"), 1)

    def scenario_there_and_back(self):
        old, backlog = self.start_pair()
        address = Address(old)
        writers = [NumberedWriter(address.connect, pause_s=0.002, prefix="w%d" % number) for number in range(3)]
        for writer in writers:
            self.addCleanup(writer.halt.set)
            writer.start()
        new = self.start("replica", backlog)
        servers.make_replica(new, old, wait=False)
        for source, target in ((old, new), (new, old), (old, new)):
            before = [len(writer.acknowledged) for writer in writers]
            self.move(source, target, address)
            until(lambda: all(len(writer.acknowledged) > count + 50 for writer, count in zip(writers, before)), 30, "the writers go on")
        for writer in writers:
            writer.stop()
        self.same(new, old, least=500)
        for writer in writers:
            self.assertEqual(writer.lost(new, writer.acknowledged), [])
            # A client that waited during the failover is sent to the new primary; nothing else goes wrong.
            for error in writer.errors:
                self.assertRegex(error, "READONLY|UNBLOCKED|Closed|Connection|MASTERDOWN")
        self.check_replicated_once(old, new)

    @unittest.skipIf(redis is None, "redis-py is not installed")
    def scenario_of_applications_with_redis_py(self):
        """docs/migrating.md from step 2 to 6, with applications that write all the time."""
        old, backlog = self.start_pair()
        address = Address(old)
        applications = [Application(address, "a%d" % number) for number in range(3)]
        for application in applications:
            self.addCleanup(application.halt.set)
            application.start()
        new = self.start("replica", backlog)
        servers.make_replica(new, old, wait=False)                  # 2. attach
        for source, target in ((old, new), (new, old), (old, new)):     # 3. and 4., 5. there and back
            self.move(source, target, address)
            before = [application.done for application in applications]
            until(lambda: all(application.done > count + 50 for application, count in zip(applications, before)), 30, "the applications go on")
            self.assertTrue(all(application.server is target for application in applications))
        for application in applications:
            application.stop()
        self.same(new, old, least=100)
        for application in applications:
            self.check_application(new, application)
        self.check_replicated_once(old, new)
        servers.must(old, "REPLICAOF NO ONE")                       # 6. let go
        self.assertEqual(servers.values_of(new, "ROLE")[0][0], b"master")

    def check_application(self, server, application):
        """What had a reply is there, in order, and at most the last transaction had none. The application saw reconnects only."""
        with self.client(server) as client:
            count, fields = client.must("GET", application.name + ":count"), client.must("HLEN", application.name + ":all")
        self.assertIn(int(count), (application.done, application.done + 1))
        self.assertEqual(int(count), fields)
        for error in application.errors:
            self.assertRegex(error, "^ReadOnlyError|^ConnectionError|READONLY|UNBLOCKED")


if __name__ == "__main__":
    main()
