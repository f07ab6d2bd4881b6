"""Scripts with named clients, some of which wait for keys; run line by line on the server under test and on redis-server.

    class OrderTest(ScriptCase):
        def test_first_come_first_served(self):
            self.run_script('''
                a BLPOP k 0
                b BLPOP k 0
                p RPUSH k 1 2
            ''')

After each line, both servers must have served the same clients with the same replies.
"""
import select
import time

from . import compare
from .case import PairCase
from .resp import encode, quote, split
from .server import is_redis, until

WAITS = "waits"         # instead of a reply


def blocked(client):
    for line in client.must("INFO", "clients").decode().splitlines():
        if line.startswith("blocked_clients:"):
            return int(line.split(":")[1])
    raise AssertionError("no blocked_clients")


class Stage:
    """One server with named clients. A client that waits has no reply yet."""

    def __init__(self, server, watcher, protocol, demote):
        self.server, self.watcher, self.protocol, self.demote = server, watcher, protocol, demote
        self.clients, self.waiting = {}, []

    def client(self, name):
        if name not in self.clients:
            self.clients[name] = self.server.client(protocol=self.protocol)
        return self.clients[name]

    def has_reply(self, name, seconds):
        return bool(select.select([self.clients[name].socket], [], [], seconds)[0])

    def send(self, name, args):
        """The reply, or WAITS."""
        client = self.client(name)
        if self.demote:
            keys = self.watcher.must("KEYS", "*")
            if keys:
                self.watcher.must("TIER", "DEMOTE", *keys)
        if name not in self.waiting:
            client.send(encode(args))
            until(lambda: self.has_reply(name, 0) or blocked(self.watcher) > len(self.waiting), what="a reply or a wait")
            if self.has_reply(name, 0):
                return client.receive()
            self.waiting.append(name)
        else:
            client.send(encode(args))
        return WAITS

    def served(self, count):
        """Waits until `count` clients have been served; returns their replies by client."""
        until(lambda: blocked(self.watcher) == len(self.waiting) - count, what="%d clients served" % count)
        replies = {}
        for name in list(self.waiting):
            if len(replies) < count and self.has_reply(name, 0.0):
                replies[name] = self.clients[name].receive()
        deadline = time.monotonic() + 20
        while len(replies) < count and time.monotonic() < deadline:
            for name in self.waiting:
                if name not in replies and self.has_reply(name, 0.01):
                    replies[name] = self.clients[name].receive()
        self.waiting = [name for name in self.waiting if name not in replies]
        return replies

    def close(self):
        for client in self.clients.values():
            client.close()
        until(lambda: blocked(self.watcher) == 0, what="no client waits")


class ScriptCase(PairCase):
    demote = False

    def normal(self, reply):
        """Returns the part of a reply to a waiting client that has to be the same."""
        return reply

    def run_script(self, script, protocol=2):
        """Each line is a client's name and a command (or the script is a list of names and argument lists). After each line, both
        servers must have served the same clients with the same replies. Returns the replies of the server under test."""
        ours = Stage(self.server, self.c, protocol, self.demote and not is_redis())
        theirs = Stage(self.oracle, self.r, protocol, False)
        log = []
        lines = script
        if isinstance(script, str):
            lines = [line.strip().partition(" ")[::2] for line in script.strip().splitlines() if line.strip()]
            lines = [(name, split(command)) for name, command in lines]
        for name, args in lines:
            line = "%s %s" % (name, quote(args))
            replies = []
            before = len(theirs.waiting)
            replies.append(theirs.send(name, args))
            waiting = before + (replies[0] is WAITS and name not in ours.waiting)
            count = waiting - blocked(self.r)
            replies.append(ours.send(name, args))
            if (replies[0] is WAITS) != (replies[1] is WAITS) or not (replies[0] is WAITS or compare.same(replies[1], replies[0], args)):
                self.fail("%s\n  ours  %r\n  redis %r\nafter\n%s" % (line, replies[1], replies[0], "\n".join(log)))
            try:
                served = theirs.served(count), ours.served(count)
            except AssertionError as error:
                self.fail("%s: %s; %d wait here, %d there; replies %r, after\n%s" % (
                    line, error, blocked(self.c), blocked(self.r), replies, "\n".join(log)))
            theirs_then, ours_then = ({who: self.normal(reply) for who, reply in each.items()} for each in served)
            if theirs_then != ours_then:
                self.fail("%s\n  ours served  %r\n  redis served %r\nafter\n%s" % (line, served[1], served[0], "\n".join(log)))
            log.append("%s -> %r %r" % (line, replies[1], served[1] or ""))
        ours.close()
        theirs.close()
        return log
