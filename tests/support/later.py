"""What the tests of commands of later Redis versions share. The oracle is older and does not have them: the expected replies are in the tests,
according to the documentation of Redis, and in models. The log must have them as commands that the oracle knows: it loads the log, and must
have the same data then."""
import os
import shutil
import unittest

from .case import ServerCase
from .resp import OK, Error, Map, Null
from .server import REDIS, Server, is_redis, until

SYNTAX = Error(b"ERR syntax error")
WRONG_TYPE = Error(b"WRONGTYPE Operation against a key holding the wrong kind of value")

later_only = unittest.skipIf(is_redis(), "this redis-server has no commands of later versions")


def plain(reply):
    """Returns the reply without the difference between the nulls of RESP2 and RESP3; a map is a list of pairs."""
    if isinstance(reply, Null):
        return None
    if isinstance(reply, Map):
        return [[plain(name), plain(value)] for name, value in reply]
    return [plain(part) for part in reply] if isinstance(reply, list) else reply


class LaterCase(ServerCase):
    """`call` is the only way to the server, so that subclasses can make the keys cold before each command, or speak RESP3."""

    options = {"appendonly": "yes", "appendfsync": "no"}
    protocol = 2

    def setUp(self):
        super().setUp()
        if self.protocol == 3:
            self.c = self.client(protocol=3)

    def before_command(self):
        """Subclasses move the keys here."""

    def call(self, *args):
        self.before_command()
        return plain(self.c.call(*args))

    def lines(self, script, **names):
        """Runs lines of the form `command = reply`; the reply is a Python expression, which may use `names`."""
        names.update(OK=OK, SYNTAX=SYNTAX, WRONG_TYPE=WRONG_TYPE, Error=Error, self=self)
        for line in script.strip().splitlines():
            command, wanted = line.strip().rsplit(" = ", 1)
            self.before_command()
            self.assertEqual(plain(self.c.run(command)), eval(wanted, names), line)        # noqa: S307

    def contents(self, client):
        """All data: values, times, and of streams what their groups know."""
        found = {}
        for key in sorted(client.must("KEYS", "*")):
            kind = bytes(client.must("TYPE", key))
            if kind == b"string":
                value = client.must("GET", key)
            elif kind == b"hash":
                value = sorted(client.must("HGETALL", key))
            elif kind == b"stream":
                value = self.stream_contents(client, key)
            else:
                value = client.must("LRANGE", key, 0, -1)
            found[key] = (kind, value, client.must("PEXPIRETIME", key))
        return found

    def stream_contents(self, client, key):
        facts = dict(zip(*[iter(client.must("XINFO", "STREAM", key))] * 2))
        groups = []
        for group in client.must("XINFO", "GROUPS", key):
            group = dict(zip(*[iter(group)] * 2))
            pending = [(entry[0], entry[1], entry[3]) for entry in client.must("XPENDING", key, group[b"name"], "-", "+", 10000)]
            consumers = sorted(consumer[1] for consumer in client.must("XINFO", "CONSUMERS", key, group[b"name"]))
            groups.append((group[b"name"], group[b"last-delivered-id"], group[b"entries-read"], pending, consumers))
        return (client.must("XRANGE", key, "-", "+"), groups, facts[b"last-generated-id"], facts[b"max-deleted-entry-id"],
                facts[b"entries-added"])

    def check_log(self):
        """The log as it is now gives the oracle the same data, and this server after a restart, too."""
        with self.server.client() as client:
            before = self.contents(client)
            with Server({"appendonly": "yes"}, binary=REDIS, start=False) as other:
                until(lambda: b"aof_pending_bio_fsync:0" in client.must("INFO", "persistence"))
                shutil.copytree(os.path.join(self.server.folder, "appendonlydir"), os.path.join(other.folder, "appendonlydir"))
                other.start()
                with other.client() as reader:
                    self.assertEqual(self.contents(reader), before)
        self.server.restart(kill=True)
        with self.server.client() as client:
            self.assertEqual(self.contents(client), before)


class Cold:
    """Mixed in: all keys are demoted before each command."""

    def before_command(self):
        if not hasattr(self, "demoter"):
            self.demoter = self.server.client()
            self.addCleanup(self.demoter.close)
        keys = self.demoter.must("KEYS", "*")
        if keys:
            self.demoter.must("TIER", "DEMOTE", *keys)
