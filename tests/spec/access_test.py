"""Users whose rules change: while their clients wait in every way in which a client can wait, and while they write with four workers."""
import os
import select
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.case import ServerCase, kelvin_only, main                                              # noqa: E402
from support.disk import DELAY, Disk                                                                # noqa: E402
from support.resp import OK, Error, Status, encode                                          # noqa: E402
from support.scripts import blocked                                                                  # noqa: E402
from support.server import Server, scaled, until                                                    # noqa: E402

USER = ("ACL", "SETUSER", "worker", "reset", "on", "nopass", "~*", "&*", "+@all")
# What changes, and what a client of that user gets then; None: it is closed.
CHANGES = [
    (("ACL", "SETUSER", "worker", "-@all"), b"NOPERM User worker has no permissions to run the '%s' command"),
    (("ACL", "SETUSER", "worker", "resetkeys", "~other"), b"NOPERM No permissions to access a key"),
    (("ACL", "DELUSER", "worker"), None),
]


def waits(client):
    """A client that has sent a request and got no reply."""
    return not select.select([client.socket], [], [], 0.2)[0]


class ChangeTest(ServerCase):
    options = {"io-threads": 4}

    def worker(self):
        self.assertEqual(self.c.must(*USER), OK)
        client = self.client(timeout=60)
        self.assertEqual(client.call("AUTH", "worker", "x"), OK)
        return client

    def gets(self, client, expected, command):
        """The reply after the change."""
        if expected is None:
            with self.assertRaises(ConnectionError):
                client.receive()
        else:
            self.assertEqual(client.receive(), Error(expected % command if b"%s" in expected else expected))

    def test_waiting_clients_of_all_workers_are_closed(self):
        """Those of the caller's worker too, which has all partitions locked while it runs the command."""
        for threads in (1, 4):
            for change in (("ACL", "DELUSER", "worker"), ("ACL", "LOAD")):
                with self.subTest(threads=threads, change=change):
                    server = Server({"io-threads": threads, "aclfile": "users.acl"}, start=False)
                    self.addCleanup(server.stop)
                    with open(os.path.join(server.folder, "users.acl"), "w") as file:
                        file.write("user worker on nopass ~* &* +@all\n")
                    server.start()
                    caller, clients = server.client(), [server.client() for _ in range(5)]
                    for client in clients:
                        client.must("AUTH", "worker", "x")
                        client.send(encode(["BLPOP", "queue", "0"]))
                    until(lambda: blocked(caller) == len(clients), what="all wait")
                    self.assertIn(caller.call(*change), (1, OK))
                    for client in clients:
                        with self.assertRaises(ConnectionError):
                            client.receive()
                        client.close()
                    caller.close()

    def test_keys_of_tier_commands_are_checked(self):
        self.c.must("SET", "secret", "x")
        self.c.must(*USER, "resetkeys", "~own:*")
        with self.client() as client:
            client.must("AUTH", "worker", "x")
            for command in (("TIER", "WHERE", "secret"), ("TIER", "DEMOTE", "own:1", "secret"), ("TIER", "PROMOTE", "secret")):
                self.assertEqual(client.call(*command), Error(b"NOPERM No permissions to access a key"), command)
            self.assertEqual(client.call("TIER", "WHERE", "own:1"), None)
            self.assertEqual(client.call("TIER", "DEMOTE", "own:1"), 0)

    def stalled_migrate(self):
        """All partitions but one are free; a command that needs all of them waits until MIGRATE gives up."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.c.must("FLUSHALL")
        self.c.must("MSET", "key", "x", "other", "y")
        client = self.client(timeout=60)
        client.send(encode(["MIGRATE", "127.0.0.1", str(listener.getsockname()[1]), "key", "0", "1500"]))
        accepted = listener.accept()[0]
        self.addCleanup(accepted.close)
        accepted.recv(1)
        return client

    def test_a_command_that_waits_for_its_partitions_when_the_rules_change(self):
        client, migrating = self.worker(), self.stalled_migrate()
        self.c.send(encode(["ACL", "SETUSER", "worker", "-flushall"]))
        time.sleep(0.2)
        client.send(encode(["FLUSHALL"]))
        self.assertEqual(self.c.receive(), OK)
        self.assertEqual(client.receive(), Error(b"NOPERM User worker has no permissions to run the 'flushall' command"))
        self.assertEqual(self.c.must("DBSIZE"), 2)
        self.assertIsInstance(migrating.receive(), Error)

    def test_nothing_is_written_after_the_reply_to_a_pause(self):
        for first in ("FLUSHALL", "CLIENT PAUSE"):
            with self.subTest(first=first):
                migrating, writer = self.stalled_migrate(), self.client(timeout=60)
                for command in sorted([["FLUSHALL"], ["CLIENT", "PAUSE", "3000", "WRITE"]], key=lambda words: " ".join(words[:2]) != first):
                    (writer if command == ["FLUSHALL"] else self.c).send(encode(command))
                    time.sleep(0.2)
                self.assertEqual(self.c.receive(), OK)
                time.sleep(0.2)
                if waits(writer):
                    time.sleep(2)
                    self.assertTrue(waits(writer))
                    self.c.must("CLIENT", "UNPAUSE")
                    self.assertEqual(writer.receive(), OK)
                self.c.must("CLIENT", "UNPAUSE")
                self.assertIsInstance(migrating.receive(), Error)

    def test_clients_that_wait_for_a_key(self):
        for change, expected in CHANGES:
            with self.subTest(change=change):
                self.c.must("DEL", "queue")
                client = self.worker()
                client.send(encode(["BLPOP", "queue", "0"]))
                self.assertTrue(waits(client))
                self.c.must(*change)
                self.assertEqual(self.c.must("RPUSH", "queue", "element"), 1)
                self.gets(client, expected, b"blpop")
                self.assertEqual(self.c.must("LRANGE", "queue", "0", "-1"), [b"element"])

    def test_clients_that_are_paused(self):
        for change, expected in CHANGES:
            with self.subTest(change=change):
                client = self.worker()
                self.c.must("CLIENT", "PAUSE", "20000", "WRITE")
                client.send(encode(["SET", "paused", "v"]))
                self.assertTrue(waits(client))
                self.c.must(*change)
                self.c.must("CLIENT", "UNPAUSE")
                self.gets(client, expected, b"set")
                self.assertEqual(self.c.must("EXISTS", "paused"), 0)

    def test_transactions_that_were_queued(self):
        reasons = [b"no permission to execute the command or subcommand", b"no permission to touch the specified keys"]
        for (change, expected), reason in zip(CHANGES[:2], reasons):
            with self.subTest(change=change):
                client = self.worker()
                client.must("MULTI")
                for command in (["SET", "queued", "v"], ["SET", "other", "v"]):
                    self.assertEqual(client.call(*command), Status(b"QUEUED"))
                self.c.must(*change, "+exec")
                replies = client.call("EXEC")
                self.assertTrue(replies[0].startswith(b"NOPERM ACLs rules changed between"), replies)
                self.assertTrue(replies[0].endswith(reason), replies)
                self.assertEqual(self.c.must("EXISTS", "queued"), 0)

    def test_a_transaction_of_a_user_that_was_removed(self):
        client = self.worker()
        client.must("MULTI")
        client.must("SET", "queued", "v")
        self.assertEqual(self.c.must("ACL", "DELUSER", "worker"), 1)
        with self.assertRaises(ConnectionError):
            client.call("EXEC")
        self.assertEqual(self.c.must("EXISTS", "queued"), 0)

    @kelvin_only
    def test_clients_that_wait_for_a_script(self):
        """The script owns the key that the client needs, and the change needs all keys."""
        started = time.monotonic()
        self.c.must("EVAL", "for i = 1, 1e7 do end", 0)
        self.second = "for i = 1, %d do end; " % (1e7 / (time.monotonic() - started))
        for change, expected in CHANGES:
            with self.subTest(change=change):
                client, slow, admin = self.worker(), self.client(timeout=60), self.client(timeout=60)
                slow.send(encode(["EVAL", self.second + "return 1", "1", "owned"]))
                time.sleep(0.2)
                admin.send(encode(change))
                time.sleep(0.2)
                client.send(encode(["SET", "owned", "v"]))
                self.assertEqual(slow.receive(), 1)
                self.assertNotIsInstance(admin.receive(), Error)
                self.c.must("DEL", "owned")         # both waited for the script: the client's command may have been first
                try:
                    client.receive()
                    client.send(encode(["SET", "owned", "v"]))
                except ConnectionError:
                    continue
                self.gets(client, expected, b"set")
                self.assertEqual(self.c.must("EXISTS", "owned"), 0)

    def test_subscribers_that_lose_a_channel_are_closed(self):
        for command, rule in (("SUBSCRIBE", "&news"), ("PSUBSCRIBE", "&news*"), ("SSUBSCRIBE", "&news")):
            for kept in (True, False):
                with self.subTest(command=command, kept=kept):
                    client = self.worker()
                    client.must(command, rule[1:])
                    self.c.must("ACL", "SETUSER", "worker", "resetchannels", rule if kept else "&other")
                    if kept:
                        self.assertIsNotNone(client.call("PING"))
                    else:
                        with self.assertRaises(ConnectionError):
                            client.receive()

    def test_nothing_is_written_after_the_reply(self):
        """Four workers; a writer's command that was checked with the old rules has ended when the change is replied."""
        stop = threading.Event()
        self.c.must(*USER)

        def write(number):
            with self.client(timeout=60) as client:
                client.call("AUTH", "worker", "x")
                while not stop.is_set():
                    client.pipeline([["INCR", "counter:%d" % number]] * 50)
        writers = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(8)]
        for writer in writers:
            writer.start()
        counters = ["counter:%d" % number for number in range(8)]
        until(lambda: None not in self.c.must("MGET", *counters), 30, "all writers")
        for _ in range(scaled(40)):
            self.c.must("ACL", "SETUSER", "worker", "-incr")
            first = self.c.must("MGET", *counters)
            time.sleep(0.005)
            self.assertEqual(self.c.must("MGET", *counters), first)
            self.c.must("ACL", "SETUSER", "worker", "+incr")
            until(lambda: self.c.must("MGET", *counters) != first, 30, "writers go on")
        stop.set()
        for writer in writers:
            writer.join(30)

    def test_rules_that_change_all_the_time_while_clients_come_and_go(self):
        """No reply is anything but what the rules before or after a change give."""
        stop, wrong = threading.Event(), []

        def use(number):
            while not stop.is_set():
                try:
                    with self.client(timeout=60) as client:
                        client.call("AUTH", "worker", "x")
                        for reply in client.pipeline([["SET", "k%d" % number, "v"], ["GET", "k%d" % number], ["SUBSCRIBE", "c"], ["PING"]]):
                            if isinstance(reply, Error) and not reply.startswith((b"NOPERM", b"ERR Can't execute")):
                                wrong.append(reply)
                except ConnectionError:
                    pass
        users = [threading.Thread(target=use, args=(number,), daemon=True) for number in range(6)]
        self.c.must(*USER)
        for user in users:
            user.start()
        admins = [self.client(timeout=60) for _ in range(3)]
        for step in range(scaled(100)):
            changes = [USER, ("ACL", "SETUSER", "worker", "-set", "resetchannels"), ("ACL", "DELUSER", "worker")]
            for admin, change in zip(admins, changes):      # several changes wait for all workers at once
                admin.send(encode(change))
            for admin in admins:
                self.assertNotIsInstance(admin.receive(), Error)
        stop.set()
        for user in users:
            user.join(30)
        self.assertEqual(wrong, [])


@kelvin_only
class ColdTest(ServerCase):
    def test_clients_that_wait_for_a_cold_key(self):
        server = Server({"tier-warmup": "no", "tier-block-cache": 0, "io-threads": 4, "appendonly": "yes"}, start=False)
        self.addCleanup(server.discard)
        disk = Disk(server.folder)
        self.addCleanup(disk.remove)
        server.environment = disk.environment
        server.start()
        with server.client(timeout=60) as client:
            client.pipeline(["SET", "key:%d" % number, "v" * 3000] for number in range(3000))
            client.must("BGREWRITEAOF")
        until(lambda: server.info("persistence")["aof_rewrite_in_progress"] == "0", 30, "the end of BGREWRITEAOF")
        server.restart()
        control = server.client(timeout=60)
        self.addCleanup(control.close)
        keys = [number for number in range(3000) if control.must("TIER", "WHERE", "key:%d" % number) == b"cold"][::300]
        self.assertGreaterEqual(len(keys), len(CHANGES))
        for key, (change, expected) in zip(keys, CHANGES):
            with self.subTest(change=change):
                control.must(*USER)
                client = server.client(timeout=60)
                self.addCleanup(client.close)
                client.must("AUTH", "worker", "x")
                disk.rule(0, "read", "*", DELAY, delay_us=3000000)
                client.send(encode(["APPEND", "key:%d" % key, "more"]))
                self.assertTrue(waits(client))
                control.must(*change)
                disk.heal()
                if expected is None:
                    with self.assertRaises(ConnectionError):
                        client.receive()
                else:
                    self.assertTrue(client.receive().startswith(b"NOPERM"))
                self.assertEqual(control.must("STRLEN", "key:%d" % key), 3000)


if __name__ == "__main__":
    main()
