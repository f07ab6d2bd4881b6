"""Random transactions and scripts for the differential test: groups of the commands of generate.py that one EXEC, one script or one
function runs, and WATCH with a command of another client in between.

Items of a sequence, besides those of differential.py; each command is one argument, written as quote() does:

    [b"@exec", keys, command, ...]              MULTI, the commands, then ours demotes the keys, then EXEC
    [b"@discard", command, ...]                 MULTI, the commands, DISCARD
    [b"@script", how, resp, keys, command, ...] the commands are called by a script; how: eval or fcall, declared or not
    [b"@watch", db, key, command]               a client watches the key, another one runs the command, then MULTI, PING, EXEC
"""
import random
import threading

from . import compare
from .differential import ALONE, DATABASES, Difference, Runner
from .generate import Generator
from .resp import Closed, Error, Map, ProtocolError, Set, quote, split

# Calls each command, whose words are in ARGV after their number, and returns the replies, each in a table of its own so that nothing cuts them off.
BODY = ("redis.setresp(tonumber(args[1])); local replies, at = {}, 2; while at <= #args do local count = tonumber(args[at]); "
        "replies[#replies + 1] = {redis.pcall(unpack(args, at + 1, at + count))}; at = at + count + 1 end; return replies")
SCRIPT = "local args = ARGV; " + BODY
LIBRARY = "#!lua name=units\nredis.register_function('run', function(keys, args) %s end)" % BODY
# In a script, these depend on the script's protocol in a way that compare.py can't know, or are commands that scripts of 7.0 may not call.
NOT_IN_SCRIPTS = {b"time", b"lastsave", b"xinfo", b"blpop", b"brpop", b"blmove", b"brpoplpush", b"bzpopmin", b"bzpopmax", b"wait"}
# 7.2 creates the consumer in any case, 7.0 does not.
CREATE_CONSUMERS = {b"xreadgroup", b"xclaim", b"xautoclaim"}
# The oracle does not have their WITHSCORE, and refuses to queue it.
WITH_SCORE = {b"zrank", b"zrevrank"}
GROUP_MAX = 7


class UnitGenerator(Generator):
    def __init__(self, seed, commands, demote=False, shares=(0.35, 0.03, 0.35, 0.12)):
        super().__init__(seed, commands, demote=demote)
        self.shares = shares

    def plain(self, exclude=()):
        """A command of the generator that is not run by itself."""
        while True:
            args = super().next()
            name = args[0].lower()
            if not args[0].startswith(b"@") and name not in exclude and (name not in WITH_SCORE or len(args) == 3):
                return args

    def group(self, exclude=()):
        """Commands that need others before them, such as XGROUP CREATECONSUMER, are in the same group: all of them run, or none."""
        commands, count = [], self.random.randint(1, GROUP_MAX)
        while len(commands) < count or self.coming:
            commands.append(quote(self.plain(exclude)).encode())
        return commands

    def some_keys(self):
        return quote([self.key() or b"k" for _ in range(self.random.randrange(8))]).encode()

    def next(self):
        if self.coming:
            return super().next()
        kind = self.random.choices(["exec", "discard", "script", "watch", "plain"], list(self.shares) + [max(0.0, 1 - sum(self.shares))])[0]
        if kind == "plain":
            return super().next()
        if kind == "exec":
            return [b"@exec", self.some_keys()] + self.group()
        if kind == "discard":
            return [b"@discard"] + self.group()
        if kind == "watch":
            command = self.plain(CREATE_CONSUMERS)
            self.coming = []        # what was to follow belongs to the database of the first client
            return [b"@watch", b"%d" % self.random.randrange(self.databases), self.key(), quote(command).encode()]
        how = self.pick(b"eval", b"eval-declared", b"fcall", b"fcall-declared")
        return [b"@script", how, self.pick(b"2", b"3"), self.some_keys()] + self.group(NOT_IN_SCRIPTS)


def in_order(reply):
    """The reply with maps and sets sorted: a script's tables have no order."""
    if isinstance(reply, (Map, Set)):
        return type(reply)(sorted(map(in_order, reply), key=repr))
    if isinstance(reply, (list, tuple)):
        return type(reply)(in_order(each) for each in reply)
    return reply


def same_in_script(ours, theirs, args):
    """A script in RESP3 gets doubles, which are formatted again: 7.2 needs fewer digits."""
    return compare.same(ours, theirs, args) or compare.scores(compare.shortest(ours), compare.shortest(theirs), args)


class UnitRunner(Runner):
    alone = {**ALONE, b"@exec": "_exec", b"@discard": "_discard", b"@script": "_script", b"@watch": "_watch"}

    def connect(self):
        super().connect()
        self.more = [server.client(protocol=self.protocol) for server in (self.ours, self.oracle) for _ in range(2)]
        self.demoter = self.ours.client() if self.ours.kelvin else None
        self.counts = {"exec": 0, "aborted": 0, "script": 0, "watch": 0, "failed": 0}
        for client in (self.a, self.b):
            client.must("FUNCTION", "LOAD", "REPLACE", LIBRARY)

    def disconnect(self):
        super().disconnect()
        for client in getattr(self, "more", []):
            client.close()
        if getattr(self, "demoter", None):
            self.demoter.close()

    def demote_keys(self, keys):
        if not keys or not self.demoter:
            return
        for database in range(DATABASES):
            for reply in self.demoter.pipeline([[b"SELECT", b"%d" % database], [b"TIER", b"DEMOTE"] + keys])[1:]:
                if type(reply) is not int:
                    raise Difference([b"TIER", b"DEMOTE"] + keys, reply, "(an integer)", 0)
                self.demoted += reply

    def same_all(self, commands, ours, theirs, done, unit):
        for args, reply, expected in zip(commands, ours, theirs):
            if not compare.same(reply, expected, args):
                raise Difference(args, reply, expected, done + 1, "replies in %s differ" % unit)

    def _queue(self, commands, end, keys, done):
        calls = [split(text.decode()) for text in commands]
        theirs = self.b.pipeline([[b"MULTI"]] + calls)
        ours = self._replies(self.a, [[b"MULTI"]] + calls, done, True)
        self.same_all([[b"MULTI"]] + calls, ours, theirs, done, "MULTI")
        self.demote_keys(keys)
        expected = self.b.call(end)
        reply, = self._replies(self.a, [[end]], done, True)
        return calls, reply, expected

    def _exec(self, args, done):
        calls, reply, expected = self._queue(args[2:], b"EXEC", split(args[1].decode()), done)
        if type(reply) is not type(expected) or (isinstance(reply, list) and len(reply) != len(expected)):
            raise Difference(args, reply, expected, done + 1)
        if isinstance(reply, list):
            self.same_all(calls, reply, expected, done, "EXEC")
            self.counts["exec"] += 1
        else:
            self.counts["aborted"] += 1
            if reply != expected:
                raise Difference(args, reply, expected, done + 1)

    def _discard(self, args, done):
        _, reply, expected = self._queue(args[1:], b"DISCARD", [], done)
        if reply != expected:
            raise Difference(args, reply, expected, done + 1)

    def _script(self, args, done):
        how, resp, keys, commands = args[1], args[2], split(args[3].decode()), args[4:]
        calls = [split(text.decode()) for text in commands]
        words = [resp]
        for call in calls:
            words += [b"%d" % len(call)] + call
        declared = sorted({call[1] for call in calls if len(call) > 1}) if how.endswith(b"declared") else []
        command = [b"EVAL", SCRIPT.encode()] if how.startswith(b"eval") else [b"FCALL", b"run"]
        command += [b"%d" % len(declared)] + declared + words
        self.demote_keys(keys)
        expected = self.b.call(*command)
        reply, = self._replies(self.a, [command], done, True)
        self.counts["script"] += 1
        if isinstance(reply, Error) or not isinstance(expected, list) or type(reply) is not type(expected) or len(reply) != len(expected):
            if reply != expected:
                raise Difference(args, reply, expected, done + 1)
            return
        for call, one, other in zip(calls, reply, expected):
            if len(one) != len(other) or (one and not same_in_script(in_order(one[0]), in_order(other[0]), call)):
                raise Difference(call, one, other, done + 1, "replies in a script differ")

    def _watch(self, args, done):
        database, key, text = args[1:]
        command = split(text.decode())
        found = []
        for watcher, other in (self.more[:2], self.more[2:]):
            replies = [each.pipeline([[b"SELECT", database]]) for each in (watcher, other)]
            replies.append(self._replies(watcher, [[b"WATCH", key]], done, True))
            try:
                changed = other.pipeline([command])
            except (Closed, OSError, ProtocolError) as error:
                raise Difference(command, error, "(a reply)", done + 1) from None
            found.append((changed[0], replies + self._replies(watcher, [[b"MULTI"], [b"PING"], [b"EXEC"]], done, True)))
        self.counts["watch"] += 1
        self.counts["failed"] += not isinstance(found[1][1][-1], list)
        if not compare.same(found[0][0], found[1][0], command):
            raise Difference(command, found[0][0], found[1][0], done + 1)
        if found[0][1] != found[1][1]:
            raise Difference(args, found[0][1], found[1][1], done + 1, "WATCH differs")


class Demoter(threading.Thread):
    """Demotes random keys in all databases of a server until it is stopped."""

    def __init__(self, server, seed, pause=0.002, names=None):
        super().__init__(daemon=True)
        self.server, self.random, self.pause, self.names = server, random.Random(seed), pause, names
        self.halt = threading.Event()
        self.demoted, self.wrong = 0, None

    def run(self):
        try:
            with self.server.client(timeout=60) as client:
                while not self.halt.wait(self.pause):
                    client.call("SELECT", self.random.randrange(DATABASES) if self.names is None else 0)
                    keys = self.names or client.call("KEYS", "*")
                    if keys and not isinstance(keys, Error):
                        reply = client.call("TIER", "DEMOTE", *self.random.sample(keys, min(len(keys), self.random.randint(1, 8))))
                        if type(reply) is not int:
                            self.wrong = reply
                            return
                        self.demoted += reply
        except OSError:
            pass        # the server was stopped or killed

    def stop(self):
        self.halt.set()
        self.join(60)


__all__ = ["UnitGenerator", "UnitRunner", "Demoter", "LIBRARY"]
