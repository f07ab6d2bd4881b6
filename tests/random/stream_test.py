"""Every command with odd arguments in the stream of a primary: a replica applies or counts it, does not end, and its offset is right. See README.md."""
import os
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.clock import WallClock                                                                     # noqa: E402
from support.odd import SETUP, OddCommands                                                              # noqa: E402
from support.random_run import Run, state_of                                                            # noqa: E402
from support.replication.readings import differences, lasting                                           # noqa: E402
from support.replication.scripted import ScriptedPrimary, encode_all, make_rdb                          # noqa: E402
from support.replication.servers import make_replica, replication                                       # noqa: E402
from support.resp import quote                                                                          # noqa: E402
from support.server import Server, until                                                                # noqa: E402

# A MULTI in a MULTI, an EXEC without one, an unknown script or function are no stream, and end the link: docs/differences.md.
NEVER = {(b"multi",), (b"exec",), (b"evalsha",), (b"evalsha_ro",), (b"fcall",), (b"fcall_ro",)}
# These make a string as large as their offset says: one of up to 1 GiB, whatever proto-max-bulk-len is. Larger ones are errors.
GROWING = {b"SETRANGE", b"SETBIT", b"BITFIELD"}
FIRST = 1               # the offset of the RDB
LARGE, TOO_LARGE = 10000000, 1 << 34
BATCH = 40


def is_large(word):
    digits = word.lstrip(b"#+-")
    return digits.isdigit() and len(digits) < 20 and LARGE <= int(digits) < TOO_LARGE


def is_huge(args):
    """Also as the arguments of a script."""
    return bool(GROWING & {word.upper() for word in args}) and any(map(is_large, args[2:]))


def without_streams(server):
    return {at: value for at, value in lasting(server).items() if at[0] == "functions" or value[0] != b"stream"}


class StreamTest(unittest.TestCase):
    def setUp(self):
        self.test = Run(self._testMethodName)
        self.primary = ScriptedPrimary()
        self.addCleanup(self.primary.close)
        self.count, self.batch = 0, []

    def begin(self, options, environment=None):
        self.server = Server({"io-threads": 2, "maxmemory": "60mb", "repl-backlog-size": 1 << 20, **options}, environment=environment)
        self.addCleanup(self.server.discard)
        with self.server.client() as client:
            self.odd = OddCommands(client, self.test.seed, NEVER)
        make_replica(self.server, self.primary, wait=False)
        self.link = self.primary.link()
        self.link.full(make_rdb(*[line.split() for line in SETUP])).wait_ack()
        if "appendonly" in options:         # what is killed before that has to ask for everything again
            until(lambda: b"AOF is enabled" in self.server.log(), 60, "the log")

    def test_a_replica_without_a_log(self):
        self.begin({})
        self.stream(0.5)
        self.server.stop()

    def test_a_replica_with_a_log(self):
        """After a clean end and a start it asks for the next byte, and has the same data."""
        self.begin({"appendonly": "yes", "replicaof": ["127.0.0.1", self.primary.port], "repl-diskless-load": "disabled"})
        self.stream(0.5)
        before, sent = lasting(self.server), self.link.sent
        self.server.restart()
        link = self.primary.link()
        self.assertEqual(link.asked[1], sent + 1, self.seed_text())
        self.assertEqual(differences(before, lasting(self.server)), [], self.seed_text())
        link.continues()
        self.server.stop()

    def test_broken_links(self):
        """Cut at any byte, killed, ended, demoted, rewritten meanwhile: its data is that of a replica that got the same bytes undisturbed. Both have the same
        clock, which stands still but within a turn, so streams, with times and IDs of their own, are left to twins_test."""
        folder = tempfile.mkdtemp(prefix="kelvin-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        clock = WallClock(os.path.join(folder, "wall"))
        clock.stop_at(int(time.time() * 1000))
        self.begin({"appendonly": "yes", "replicaof": ["127.0.0.1", self.primary.port], "repl-diskless-load": "disabled"}, clock.environment)
        other = Server({"maxmemory": "60mb"}, environment=clock.environment)
        self.addCleanup(other.discard)
        make_replica(other, self.primary, wait=False)
        undisturbed = self.primary.link()
        undisturbed.full(make_rdb(*[line.split() for line in SETUP])).wait_ack()
        stream, random, events = b"", self.test.random, 0
        self.test.restart(0.6)
        while self.test.goes_on():
            self.batch = self.commands()
            self.count += len(self.batch)
            data = encode_all(self.batch + [[b"REPLCONF", b"GETACK", b"*"]])
            stream += data
            try:
                undisturbed.send(data).wait_ack()
                if random.random() < 0.3:
                    events += 1
                    self.disturb(data, stream)
                else:
                    self.link.send(data).wait_ack()
                self.assertEqual(self.link.sent, undisturbed.sent)
                clock.jump(random.randrange(20))
            except (OSError, AssertionError) as error:
                self.fail("%s: %s\n%s\n    %s" % (self.seed_text(), error, state_of(self.server), "\n    ".join(map(quote, self.batch))))
        self.assertEqual(differences(*map(without_streams, (other, self.server))), [], self.seed_text())
        self.test.report("%d commands, %d events" % (self.count, events))
        for server in (self.server, other):
            server.stop()

    def disturb(self, data, stream):
        """The link gets a part of the new bytes before the event, and then what it asks for."""
        random = self.test.random
        event = random.choice(("cut", "cut", "cut", "kill", "end", "rewrite", "demote"))
        part = random.randrange(len(data))
        self.link.send(data[:part])
        if event in ("rewrite", "demote"):
            with self.server.client(timeout=60) as client:
                for database in range(3):
                    client.must("SELECT", database)
                    keys = client.must("KEYS", "*")
                    if keys and event == "demote":
                        client.must("TIER", "DEMOTE", *keys)
                if event == "rewrite":
                    client.call("BGREWRITEAOF")
            self.link.send(data[part:]).wait_ack()
            return
        if event == "cut":
            self.link.cut()
        else:
            self.server.restart(kill=event == "kill")
        self.link = self.primary.link(60)
        self.assertNotEqual(self.link.asked[1], -1, "after %s it asks for a full synchronization" % event)
        self.link.continues()
        self.link.send(stream[self.link.sent - FIRST:]).wait_ack()

    def stream(self, share):
        self.test.restart(share)
        while self.test.goes_on():
            self.batch = self.commands()
            self.count += len(self.batch)
            try:
                self.link.send_commands(*self.batch, [b"REPLCONF", b"GETACK", b"*"]).wait_ack()
            except (OSError, AssertionError) as error:
                self.fail("%s: %s\n%s\n    %s" % (self.seed_text(), error, state_of(self.server), "\n    ".join(map(quote, self.batch))))
        self.assertEqual(int(replication(self.server)["slave_repl_offset"]), self.link.sent, self.seed_text())
        self.test.report("%d commands" % self.count)

    def commands(self):
        """A fifth of them in transactions."""
        found = []
        while len(found) < BATCH:
            if self.test.random.random() < 0.08:
                found += [[b"MULTI"]] + [self.command() for _ in range(self.test.random.randrange(1, 5))] + [[b"EXEC"]]
            else:
                found.append(self.command())
        return found

    def command(self):
        while True:
            args = self.odd.next()
            if not is_huge(args):
                return args

    def seed_text(self):
        return "KELVIN_SEED=%d, %d commands" % (self.test.seed, self.count)


if __name__ == "__main__":
    unittest.main()
