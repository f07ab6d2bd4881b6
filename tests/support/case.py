"""The base classes of the tests over the wire.

    class StringTest(PairCase):
        def test_append_makes_a_missing_key(self):
            self.both('''
                APPEND k hello
                APPEND k " world"
                GET k
            ''')

`both` runs the script on the server under test and on redis-server, and compares the replies. Tests need not contain
the expected replies: they are those of redis-server, the oracle. The tests of a class share one pair of servers; each test
starts with empty databases and new connections.
"""
import os
import sys
import unittest

from . import compare
from .resp import Client, Closed, Error, quote, split
from .server import REDIS, Server, is_redis, under_test

MAX_SHOWN = 600


def shown(reply):
    text = repr(reply)
    return text if len(text) <= MAX_SHOWN else "%s... (%d characters)" % (text[:MAX_SHOWN], len(text))


def kelvin_only(test):
    """The test uses features that redis-server does not have; skipped only if redis-server itself is under test."""
    return unittest.skipIf(is_redis(), "redis-server is the server under test")(test)


class ServerCase(unittest.TestCase):
    """One server under test per class, `self.server`, and one connection to it per test, `self.c`."""

    options = {}
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.options)
        cls.addClassCleanup(lambda: cls.server.stop())

    def setUp(self):
        if not self.server.alive():
            type(self).server.discard()
            type(self).server = Server(self.options)
        self.c = self.server.client()
        self.addCleanup(self.c.close)
        self.c.must("FLUSHALL")

    def client(self, **options):
        client = self.server.client(**options)
        self.addCleanup(client.close)
        return client


class PairCase(unittest.TestCase):
    """The server under test `self.server` with a connection `self.c`, redis-server `self.oracle` with `self.r`."""

    options = {}
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.options)
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.oracle = Server(cls.options, binary=REDIS)
        cls.addClassCleanup(lambda: cls.oracle.stop())

    def setUp(self):
        for name in ("server", "oracle"):
            if not getattr(self, name).alive():
                getattr(self, name).discard()
                setattr(type(self), name, Server(self.options, binary=getattr(self, name).binary))
        self.c, self.r = self.server.client(), self.oracle.client()
        self.addCleanup(self.c.close)
        self.addCleanup(self.r.close)
        self.c.must("FLUSHALL")
        self.r.must("FLUSHALL")

    def clients(self, **options):
        """Opens another connection to each server."""
        pair = self.server.client(**options), self.oracle.client(**options)
        for client in pair:
            self.addCleanup(client.close)
        return pair

    def before_command(self):
        """Called before every command of `both`; tier_test.py makes all keys cold here."""

    def both(self, script, clients=None):
        """Run a script (text with one command per line and `#` for comments, or a list of argument lists) on both servers
        and compare each reply. Returns the replies of the server under test."""
        ours, theirs = clients or (self.c, self.r)
        commands = [split(line) for line in script.splitlines() if line.strip() and not line.strip().startswith("#")] \
            if isinstance(script, str) else [[arg if isinstance(arg, bytes) else str(arg).encode() for arg in command]
                                             for command in script]
        replies, done = [], []
        for args in commands:
            self.before_command()
            theirs_reply = theirs.call(*args)
            try:
                ours_reply = ours.call(*args)
            except (Closed, OSError) as error:
                self.fail("%s: no reply from the server under test (%s) to\n    %s\nafter\n%s" % (
                    type(error).__name__, error, quote(args)[:MAX_SHOWN], "\n".join(done[-12:])))
            done.append("    " + quote(args)[:MAX_SHOWN])
            if not compare.same(ours_reply, theirs_reply, args):
                self.fail("replies differ\n    command  %s\n    ours     %s\n    redis    %s\nafter\n%s" % (
                    quote(args)[:MAX_SHOWN], shown(ours_reply), shown(theirs_reply), "\n".join(done[-13:-1])))
            replies.append(ours_reply)
        return replies

    def both_raw(self, data, closes=None, before=None, silent=False):
        """Send raw bytes on new connections. Both servers must return the same bytes, and both must close the connection or
        both keep it open. `silent`: redis is expected to return nothing."""
        ours, theirs = self.clients()
        for client in (ours, theirs):
            if before:
                client.must(*before)
            try:
                client.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
        theirs_bytes, theirs_closed = theirs.raw(0 if silent else 1)
        ours_bytes, ours_closed = ours.raw(len(theirs_bytes) + (1 if theirs_closed else 0))
        if (ours_bytes, ours_closed) != (theirs_bytes, theirs_closed):
            # On a busy machine, one of them may only have been slow.
            if not theirs_closed:
                more, theirs_closed = theirs.raw(0, quiet=0.5)
                theirs_bytes += more
            if not ours_closed:
                more, ours_closed = ours.raw(0, quiet=0.5)
                ours_bytes += more
        what = "sent %r" % (data if len(data) < 200 else data[:100] + b"..." + data[-60:])
        self.assertEqual(ours_bytes, theirs_bytes, what)
        self.assertEqual(ours_closed, theirs_closed, what + ": closed by ours, closed by redis")
        if closes is not None:
            self.assertEqual(ours_closed, closes, what)
        return ours_bytes

    def present(self, *names):
        """Skip the test unless the server under test has these commands."""
        for name, found in zip(names, self.c.must("COMMAND", "INFO", *names)):
            if not isinstance(found, list) or not found:
                self.skipTest("the server under test has no %s yet" % name)


def main():
    """Run the tests of the calling module, from any working directory."""
    if not os.path.exists(under_test()):
        sys.exit("%s not found: run make, or set KELVIN_SERVER" % under_test())
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)


__all__ = ["PairCase", "ServerCase", "kelvin_only", "main", "Client", "Error"]
